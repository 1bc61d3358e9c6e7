//! The flag bits of each message class and of the message key.
//!
//! A bit that only says that an optional member is there (`HAS_..`) follows from the member: decoded structs do not
//! hold it in `flags`, and encoding derives it.

use crate::macros::flag_set;

flag_set! {
    /// Flags of a request (ETA `RequestMsgFlags`).
    RequestFlags: u16 {
        /// An extended header is there. Derived.
        HAS_EXTENDED_HEADER = 0x001,
        /// A priority is there. Derived.
        HAS_PRIORITY = 0x002,
        /// Changes are wanted after the image; without it the request is for a snapshot.
        STREAMING = 0x004,
        /// Updates should carry the message key.
        MSG_KEY_IN_UPDATES = 0x008,
        /// Updates should carry conflation counts.
        CONF_INFO_IN_UPDATES = 0x010,
        /// No image is wanted (a reissue that only changes priority, view or pause).
        NO_REFRESH = 0x020,
        /// The best acceptable quality of service is there. Derived.
        HAS_QOS = 0x040,
        /// The worst acceptable quality of service is there. Derived.
        HAS_WORST_QOS = 0x080,
        /// The stream must not be shared with other consumers.
        PRIVATE_STREAM = 0x100,
        /// Stop the updates of the stream.
        PAUSE = 0x200,
        /// The payload holds a view.
        HAS_VIEW = 0x400,
        /// The payload holds a list of items.
        HAS_BATCH = 0x800,
        /// The stream is negotiated between the two ends (qualified stream).
        QUALIFIED_STREAM = 0x1000,
    }
}

impl RequestFlags {
    pub(super) const DERIVED: Self =
        Self(Self::HAS_EXTENDED_HEADER.0 | Self::HAS_PRIORITY.0 | Self::HAS_QOS.0 | Self::HAS_WORST_QOS.0);
}

flag_set! {
    /// Flags of a refresh (ETA `RefreshMsgFlags`).
    RefreshFlags: u16 {
        /// An extended header is there. Derived.
        HAS_EXTENDED_HEADER = 0x0001,
        /// Permission data is there. Derived.
        HAS_PERM_DATA = 0x0002,
        /// A message key is there. Derived.
        HAS_MSG_KEY = 0x0008,
        /// A sequence number is there. Derived.
        HAS_SEQ_NUM = 0x0010,
        /// The answer to a request.
        SOLICITED = 0x0020,
        /// The last part of the image.
        REFRESH_COMPLETE = 0x0040,
        /// A quality of service is there. Derived.
        HAS_QOS = 0x0080,
        /// Forget what was known of the item before.
        CLEAR_CACHE = 0x0100,
        /// The payload must not be cached.
        DO_NOT_CACHE = 0x0200,
        /// The stream is private.
        PRIVATE_STREAM = 0x0400,
        /// Address and id of the user who posted this are there. Derived.
        HAS_POST_USER_INFO = 0x0800,
        /// A part number is there. Derived.
        HAS_PART_NUM = 0x1000,
        /// The stream is a qualified stream.
        QUALIFIED_STREAM = 0x4000,
    }
}

impl RefreshFlags {
    pub(super) const DERIVED: Self = Self(
        Self::HAS_EXTENDED_HEADER.0
            | Self::HAS_PERM_DATA.0
            | Self::HAS_MSG_KEY.0
            | Self::HAS_SEQ_NUM.0
            | Self::HAS_QOS.0
            | Self::HAS_POST_USER_INFO.0
            | Self::HAS_PART_NUM.0,
    );
}

flag_set! {
    /// Flags of a status (ETA `StatusMsgFlags`).
    StatusFlags: u16 {
        /// An extended header is there. Derived.
        HAS_EXTENDED_HEADER = 0x001,
        /// Permission data is there. Derived.
        HAS_PERM_DATA = 0x002,
        /// A message key is there. Derived.
        HAS_MSG_KEY = 0x008,
        /// A group id is there. Derived.
        HAS_GROUP_ID = 0x010,
        /// A state is there. Derived.
        HAS_STATE = 0x020,
        /// Forget what was known of the item before.
        CLEAR_CACHE = 0x040,
        /// The stream is private.
        PRIVATE_STREAM = 0x080,
        /// Address and id of the user who posted this are there. Derived.
        HAS_POST_USER_INFO = 0x100,
        /// The stream is a qualified stream.
        QUALIFIED_STREAM = 0x400,
    }
}

impl StatusFlags {
    pub(super) const DERIVED: Self = Self(
        Self::HAS_EXTENDED_HEADER.0
            | Self::HAS_PERM_DATA.0
            | Self::HAS_MSG_KEY.0
            | Self::HAS_GROUP_ID.0
            | Self::HAS_STATE.0
            | Self::HAS_POST_USER_INFO.0,
    );
}

flag_set! {
    /// Flags of an update (ETA `UpdateMsgFlags`).
    UpdateFlags: u16 {
        /// An extended header is there. Derived.
        HAS_EXTENDED_HEADER = 0x001,
        /// Permission data is there. Derived.
        HAS_PERM_DATA = 0x002,
        /// A message key is there. Derived.
        HAS_MSG_KEY = 0x008,
        /// A sequence number is there. Derived.
        HAS_SEQ_NUM = 0x010,
        /// Conflation count and time are there. Derived.
        HAS_CONF_INFO = 0x020,
        /// The payload must not be cached.
        DO_NOT_CACHE = 0x040,
        /// The update must not be conflated.
        DO_NOT_CONFLATE = 0x080,
        /// Fields must not be rippled.
        DO_NOT_RIPPLE = 0x100,
        /// Address and id of the user who posted this are there. Derived.
        HAS_POST_USER_INFO = 0x200,
        /// The update may be dropped when the receiver is slow.
        DISCARDABLE = 0x400,
    }
}

impl UpdateFlags {
    pub(super) const DERIVED: Self = Self(
        Self::HAS_EXTENDED_HEADER.0
            | Self::HAS_PERM_DATA.0
            | Self::HAS_MSG_KEY.0
            | Self::HAS_SEQ_NUM.0
            | Self::HAS_CONF_INFO.0
            | Self::HAS_POST_USER_INFO.0,
    );
}

flag_set! {
    /// Flags of a close (ETA `CloseMsgFlags`).
    CloseFlags: u16 {
        /// An extended header is there. Derived.
        HAS_EXTENDED_HEADER = 0x01,
        /// An acknowledgement is wanted.
        ACK = 0x02,
    }
}

impl CloseFlags {
    pub(super) const DERIVED: Self = Self::HAS_EXTENDED_HEADER;
}

flag_set! {
    /// Flags of an acknowledgement (ETA `AckMsgFlags`).
    AckFlags: u16 {
        /// An extended header is there. Derived.
        HAS_EXTENDED_HEADER = 0x01,
        /// A text is there. Derived.
        HAS_TEXT = 0x02,
        /// The stream is private.
        PRIVATE_STREAM = 0x04,
        /// A sequence number is there. Derived.
        HAS_SEQ_NUM = 0x08,
        /// A message key is there. Derived.
        HAS_MSG_KEY = 0x10,
        /// A NAK code is there: it is a refusal. Derived.
        HAS_NAK_CODE = 0x20,
        /// The stream is a qualified stream.
        QUALIFIED_STREAM = 0x40,
    }
}

impl AckFlags {
    pub(super) const DERIVED: Self = Self(
        Self::HAS_EXTENDED_HEADER.0
            | Self::HAS_TEXT.0
            | Self::HAS_SEQ_NUM.0
            | Self::HAS_MSG_KEY.0
            | Self::HAS_NAK_CODE.0,
    );
}

flag_set! {
    /// Flags of a generic message (ETA `GenericMsgFlags`).
    GenericFlags: u16 {
        /// An extended header is there. Derived.
        HAS_EXTENDED_HEADER = 0x0001,
        /// Permission data is there. Derived.
        HAS_PERM_DATA = 0x0002,
        /// A message key is there. Derived.
        HAS_MSG_KEY = 0x0004,
        /// A sequence number is there. Derived.
        HAS_SEQ_NUM = 0x0008,
        /// The last part.
        MESSAGE_COMPLETE = 0x0010,
        /// A secondary sequence number is there. Derived.
        HAS_SECONDARY_SEQ_NUM = 0x0020,
        /// A part number is there. Derived.
        HAS_PART_NUM = 0x0040,
        /// Sent by a provider on a stream that it drives.
        PROVIDER_DRIVEN = 0x4000,
    }
}

impl GenericFlags {
    pub(super) const DERIVED: Self = Self(
        Self::HAS_EXTENDED_HEADER.0
            | Self::HAS_PERM_DATA.0
            | Self::HAS_MSG_KEY.0
            | Self::HAS_SEQ_NUM.0
            | Self::HAS_SECONDARY_SEQ_NUM.0
            | Self::HAS_PART_NUM.0,
    );
}

flag_set! {
    /// Flags of a post (ETA `PostMsgFlags`).
    PostFlags: u16 {
        /// An extended header is there. Derived.
        HAS_EXTENDED_HEADER = 0x001,
        /// A post id is there. Derived.
        HAS_POST_ID = 0x002,
        /// A message key is there. Derived.
        HAS_MSG_KEY = 0x004,
        /// A sequence number is there. Derived.
        HAS_SEQ_NUM = 0x008,
        /// The last part of the post.
        POST_COMPLETE = 0x020,
        /// An acknowledgement is wanted.
        ACK = 0x040,
        /// Permission data is there. Derived.
        HAS_PERM_DATA = 0x080,
        /// A part number is there. Derived.
        HAS_PART_NUM = 0x100,
        /// Rights of the posting user are there. Derived.
        HAS_POST_USER_RIGHTS = 0x200,
    }
}

impl PostFlags {
    pub(super) const DERIVED: Self = Self(
        Self::HAS_EXTENDED_HEADER.0
            | Self::HAS_POST_ID.0
            | Self::HAS_MSG_KEY.0
            | Self::HAS_SEQ_NUM.0
            | Self::HAS_PERM_DATA.0
            | Self::HAS_PART_NUM.0
            | Self::HAS_POST_USER_RIGHTS.0,
    );
}

flag_set! {
    /// Flags of a message key (ETA `MsgKeyFlags`). All known ones are derived.
    KeyFlags: u16 {
        /// A service id is there. Derived.
        HAS_SERVICE_ID = 0x0001,
        /// A name is there. Derived.
        HAS_NAME = 0x0002,
        /// The type of the name is there. Derived.
        HAS_NAME_TYPE = 0x0004,
        /// A filter is there. Derived.
        HAS_FILTER = 0x0008,
        /// An identifier is there. Derived.
        HAS_IDENTIFIER = 0x0010,
        /// Attributes are there. Derived.
        HAS_ATTRIB = 0x0020,
    }
}

impl KeyFlags {
    pub(super) const DERIVED: Self = Self(0x3F);
}
