//! Messages: eight classes, each a struct with every member of its header, and the body as bytes.
//!
//! Decoding borrows: byte members and the body point into the decoded slice, nothing is allocated. A decoded message
//! can be changed in a few members and written again: `HAS_..` bits follow from the `Option`s, all other bits are kept.
//!
//! ```text
//! header length u16 | class u8 | domain u8 | stream id i32 | flags rb15 | container u8 | members of the class | body
//! ```
//!
//! The header length does not count itself; what a header has beyond the known members is skipped. The body has no
//! length: it runs to the end of the message.

mod decode;
mod encode;
mod flags;
mod key;

pub use flags::{
    AckFlags, CloseFlags, GenericFlags, KeyFlags, PostFlags, RefreshFlags, RequestFlags, StatusFlags, UpdateFlags,
};
pub use key::{Attrib, MsgKey};

pub(crate) use decode::CLASS_MASK;

use crate::macros::open_enum;
use crate::{DataType, Qos, State};
use std::borrow::Cow;

open_enum! {
    /// Class of a message (ETA `MsgClasses`; five bits on the wire).
    MsgClass: u8 {
        /// Consumer asks for a stream.
        REQUEST = 1,
        /// Provider sends an image.
        REFRESH = 2,
        /// Provider changes the state of a stream.
        STATUS = 3,
        /// Provider sends a change.
        UPDATE = 4,
        /// Consumer ends a stream.
        CLOSE = 5,
        /// Answer to a post or close.
        ACK = 6,
        /// Either side, meaning left to the domain.
        GENERIC = 7,
        /// Consumer sends data upstream.
        POST = 8,
    }
}

open_enum! {
    /// What a message is about (ETA `DomainTypes`).
    Domain: u8 {
        /// Login.
        LOGIN = 1,
        /// Source directory.
        SOURCE = 4,
        /// Dictionary.
        DICTIONARY = 5,
        /// Market price.
        MARKET_PRICE = 6,
        /// Order book by order.
        MARKET_BY_ORDER = 7,
        /// Order book by price level.
        MARKET_BY_PRICE = 8,
        /// Quotes by market maker.
        MARKET_MAKER = 9,
        /// Lists of symbols.
        SYMBOL_LIST = 10,
        /// State of a service's provider.
        SERVICE_PROVIDER_STATUS = 11,
        /// History.
        HISTORY = 12,
        /// News headlines.
        HEADLINE = 13,
        /// News stories.
        STORY = 14,
        /// Replayed headlines.
        REPLAYHEADLINE = 15,
        /// Replayed stories.
        REPLAYSTORY = 16,
        /// Transactions.
        TRANSACTION = 17,
        /// Yield curves.
        YIELD_CURVE = 22,
        /// Contributions.
        CONTRIBUTION = 27,
        /// Administration of providers.
        PROVIDER_ADMIN = 29,
        /// Analytics.
        ANALYTICS = 30,
        /// Reference data.
        REFERENCE = 31,
        /// News text analytics.
        NEWS_TEXT_ANALYTICS = 33,
        /// Economic indicators.
        ECONOMIC_INDICATOR = 34,
        /// Polls.
        POLL = 35,
        /// Forecasts.
        FORECAST = 36,
        /// Market by time.
        MARKET_BY_TIME = 37,
        /// System.
        SYSTEM = 127,
    }
}

open_enum! {
    /// Kind of a change (ETA `UpdateEventTypes`).
    UpdateType: u8 {
        /// Not said.
        UNSPECIFIED = 0,
        /// Quote.
        QUOTE = 1,
        /// Trade.
        TRADE = 2,
        /// News alert.
        NEWS_ALERT = 3,
        /// Volume alert.
        VOLUME_ALERT = 4,
        /// Order indication.
        ORDER_INDICATION = 5,
        /// Closing run.
        CLOSING_RUN = 6,
        /// Correction.
        CORRECTION = 7,
        /// Market digest.
        MARKET_DIGEST = 8,
        /// Quotes followed by a trade.
        QUOTES_TRADE = 9,
        /// Update with filtering and conflation applied.
        MULTIPLE = 10,
        /// Values that may have changed.
        VERIFY = 11,
    }
}

open_enum! {
    /// Why a post or close was refused (ETA `NakCodes`).
    NakCode: u8 {
        /// The post or close was not refused.
        NONE = 0,
        /// No right.
        ACCESS_DENIED = 1,
        /// The source refused.
        DENIED_BY_SRC = 2,
        /// The source is down.
        SOURCE_DOWN = 3,
        /// The source is not known.
        SOURCE_UNKNOWN = 4,
        /// A limit was reached.
        NO_RESOURCES = 5,
        /// No answer in time.
        NO_RESPONSE = 6,
        /// The gateway is down.
        GATEWAY_DOWN = 7,
        /// The item is not known.
        SYMBOL_UNKNOWN = 10,
        /// The item is not open.
        NOT_OPEN = 11,
        /// The content makes no sense.
        INVALID_CONTENT = 12,
    }
}

/// Who posted something.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct PostUserInfo {
    /// IPv4 address of the user as a number; the first part of the dotted form is the highest byte.
    pub addr: u32,
    /// Id of the user, often a process id.
    pub id: u32,
}

/// How important a stream is to its requester.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Priority {
    /// The class; 1 is the usual one.
    pub class: u8,
    /// How many requesters this one stands for.
    pub count: u16,
}

impl Default for Priority {
    /// Class 1, one requester.
    fn default() -> Self {
        Self { class: 1, count: 1 }
    }
}

/// How many updates were merged into this one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Conflation {
    /// Number of updates; at most 32,767.
    pub count: u16,
    /// Milliseconds over which they came.
    pub time: u16,
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestMsg<'a> {
    /// Domain.
    pub domain: Domain,
    /// Stream id, chosen by the requester.
    pub stream_id: i32,
    /// Type of the body.
    pub container: DataType,
    /// Flags that do not follow from members.
    pub flags: RequestFlags,
    /// Priority.
    pub priority: Option<Priority>,
    /// The best acceptable quality of service, or the only one if there is no worst.
    pub qos: Option<Qos>,
    /// The worst acceptable quality of service.
    pub worst_qos: Option<Qos>,
    /// The request.
    pub key: MsgKey<'a>,
    /// Extended header; at most 255 bytes.
    pub ext_header: Option<&'a [u8]>,
    /// Payload: view, batch.
    pub body: &'a [u8],
}

/// An image, or a part of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefreshMsg<'a> {
    /// Domain.
    pub domain: Domain,
    /// Stream id.
    pub stream_id: i32,
    /// Type of the body.
    pub container: DataType,
    /// Flags that do not follow from members.
    pub flags: RefreshFlags,
    /// Sequence number.
    pub seq_num: Option<u32>,
    /// State of stream and data.
    pub state: State<'a>,
    /// Group of items that share their state; at most 255 bytes. An empty one is written as two zero bytes.
    pub group_id: &'a [u8],
    /// Permission expression; empty ones are not written.
    pub perm_data: Option<&'a [u8]>,
    /// Quality of service that is delivered.
    pub qos: Option<Qos>,
    /// What the stream is about.
    pub key: Option<MsgKey<'a>>,
    /// Extended header; at most 255 bytes.
    pub ext_header: Option<&'a [u8]>,
    /// Who posted this.
    pub post_user_info: Option<PostUserInfo>,
    /// Number of the part, from 0; at most 32,767.
    pub part_num: Option<u16>,
    /// Payload.
    pub body: &'a [u8],
}

/// A change of state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusMsg<'a> {
    /// Domain.
    pub domain: Domain,
    /// Stream id.
    pub stream_id: i32,
    /// Type of the body.
    pub container: DataType,
    /// Flags that do not follow from members.
    pub flags: StatusFlags,
    /// State of stream and data.
    pub state: Option<State<'a>>,
    /// Group of items that share their state; at most 255 bytes. An empty one is not written.
    pub group_id: Option<&'a [u8]>,
    /// Permission expression; empty ones are not written.
    pub perm_data: Option<&'a [u8]>,
    /// What the stream is about.
    pub key: Option<MsgKey<'a>>,
    /// Extended header; at most 255 bytes.
    pub ext_header: Option<&'a [u8]>,
    /// Who posted this.
    pub post_user_info: Option<PostUserInfo>,
    /// Payload.
    pub body: &'a [u8],
}

/// A change of data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdateMsg<'a> {
    /// Domain.
    pub domain: Domain,
    /// Stream id.
    pub stream_id: i32,
    /// Type of the body.
    pub container: DataType,
    /// Flags that do not follow from members.
    pub flags: UpdateFlags,
    /// Kind of change.
    pub update_type: UpdateType,
    /// Sequence number.
    pub seq_num: Option<u32>,
    /// How many updates this one stands for. A pair of zeros is not written.
    pub conflation: Option<Conflation>,
    /// Permission expression; empty ones are not written.
    pub perm_data: Option<&'a [u8]>,
    /// What the stream is about.
    pub key: Option<MsgKey<'a>>,
    /// Extended header; at most 255 bytes.
    pub ext_header: Option<&'a [u8]>,
    /// Who posted this.
    pub post_user_info: Option<PostUserInfo>,
    /// Payload.
    pub body: &'a [u8],
}

/// The end of a stream, by the consumer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CloseMsg<'a> {
    /// Domain.
    pub domain: Domain,
    /// Stream id.
    pub stream_id: i32,
    /// Type of the body.
    pub container: DataType,
    /// Flags that do not follow from members.
    pub flags: CloseFlags,
    /// Extended header; at most 255 bytes.
    pub ext_header: Option<&'a [u8]>,
    /// Payload; seldom any.
    pub body: &'a [u8],
}

/// The answer to a post or close.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AckMsg<'a> {
    /// Domain.
    pub domain: Domain,
    /// Stream id.
    pub stream_id: i32,
    /// Type of the body.
    pub container: DataType,
    /// Flags that do not follow from members.
    pub flags: AckFlags,
    /// The id of what is answered.
    pub ack_id: u32,
    /// Why it was refused. [`NakCode::NONE`] is not written.
    pub nak_code: Option<NakCode>,
    /// Text for people; at most 65,535 bytes. An empty one is not written.
    pub text: Option<&'a [u8]>,
    /// Sequence number of what is answered.
    pub seq_num: Option<u32>,
    /// What the stream is about.
    pub key: Option<MsgKey<'a>>,
    /// Extended header; at most 255 bytes.
    pub ext_header: Option<&'a [u8]>,
    /// Payload.
    pub body: &'a [u8],
}

/// A message whose meaning the domain defines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GenericMsg<'a> {
    /// Domain.
    pub domain: Domain,
    /// Stream id.
    pub stream_id: i32,
    /// Type of the body.
    pub container: DataType,
    /// Flags that do not follow from members.
    pub flags: GenericFlags,
    /// Sequence number.
    pub seq_num: Option<u32>,
    /// Secondary sequence number.
    pub secondary_seq_num: Option<u32>,
    /// Permission expression; empty ones are not written.
    pub perm_data: Option<&'a [u8]>,
    /// What the stream is about.
    pub key: Option<MsgKey<'a>>,
    /// Extended header; at most 255 bytes.
    pub ext_header: Option<&'a [u8]>,
    /// Number of the part, from 0; at most 32,767.
    pub part_num: Option<u16>,
    /// Payload.
    pub body: &'a [u8],
}

/// Data that goes upstream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PostMsg<'a> {
    /// Domain.
    pub domain: Domain,
    /// Stream id: of the item (on-stream) or of the login (off-stream).
    pub stream_id: i32,
    /// Type of the body; often a message.
    pub container: DataType,
    /// Flags that do not follow from members.
    pub flags: PostFlags,
    /// Who posts.
    pub post_user_info: PostUserInfo,
    /// Sequence number.
    pub seq_num: Option<u32>,
    /// Id that the acknowledgement will repeat.
    pub post_id: Option<u32>,
    /// Permission expression; empty ones are not written.
    pub perm_data: Option<&'a [u8]>,
    /// What is posted to; off-stream posts need it.
    pub key: Option<MsgKey<'a>>,
    /// Extended header; at most 255 bytes.
    pub ext_header: Option<&'a [u8]>,
    /// Number of the part, from 0; at most 32,767.
    pub part_num: Option<u16>,
    /// Rights of the posting user (ETA `PostUserRights`: create 1, delete 2, modify permission 4); at most 32,767.
    pub post_user_rights: Option<u16>,
    /// Payload.
    pub body: &'a [u8],
}

/// A message of any class.
// The largest variant is what most messages are; boxing would allocate in the data path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Msg<'a> {
    /// A request.
    Request(RequestMsg<'a>),
    /// An image.
    Refresh(RefreshMsg<'a>),
    /// A change of state.
    Status(StatusMsg<'a>),
    /// A change of data.
    Update(UpdateMsg<'a>),
    /// The end of a stream.
    Close(CloseMsg<'a>),
    /// An acknowledgement.
    Ack(AckMsg<'a>),
    /// A generic message.
    Generic(GenericMsg<'a>),
    /// A post.
    Post(PostMsg<'a>),
}

/// Runs `$body` with `$msg` bound to the struct inside, whatever the class.
macro_rules! each_class {
    ($value:expr, $msg:ident => $body:expr) => {
        match $value {
            $crate::msg::Msg::Request($msg) => $body,
            $crate::msg::Msg::Refresh($msg) => $body,
            $crate::msg::Msg::Status($msg) => $body,
            $crate::msg::Msg::Update($msg) => $body,
            $crate::msg::Msg::Close($msg) => $body,
            $crate::msg::Msg::Ack($msg) => $body,
            $crate::msg::Msg::Generic($msg) => $body,
            $crate::msg::Msg::Post($msg) => $body,
        }
    };
}
use each_class;

impl<'a> Msg<'a> {
    /// The class.
    pub const fn class(&self) -> MsgClass {
        match self {
            Self::Request(_) => MsgClass::REQUEST,
            Self::Refresh(_) => MsgClass::REFRESH,
            Self::Status(_) => MsgClass::STATUS,
            Self::Update(_) => MsgClass::UPDATE,
            Self::Close(_) => MsgClass::CLOSE,
            Self::Ack(_) => MsgClass::ACK,
            Self::Generic(_) => MsgClass::GENERIC,
            Self::Post(_) => MsgClass::POST,
        }
    }

    /// The domain.
    pub const fn domain(&self) -> Domain {
        each_class!(self, m => m.domain)
    }

    /// The stream id.
    pub const fn stream_id(&self) -> i32 {
        each_class!(self, m => m.stream_id)
    }

    /// Changes the stream id.
    pub const fn set_stream_id(&mut self, id: i32) {
        each_class!(self, m => m.stream_id = id);
    }

    /// The type of the body.
    pub const fn container(&self) -> DataType {
        each_class!(self, m => m.container)
    }

    /// The body.
    pub const fn body(&self) -> &'a [u8] {
        each_class!(self, m => m.body)
    }

    /// The key; a request always has one, a close never.
    pub const fn key(&self) -> Option<&MsgKey<'a>> {
        match self {
            Self::Request(m) => Some(&m.key),
            Self::Refresh(m) => m.key.as_ref(),
            Self::Status(m) => m.key.as_ref(),
            Self::Update(m) => m.key.as_ref(),
            Self::Close(_) => None,
            Self::Ack(m) => m.key.as_ref(),
            Self::Generic(m) => m.key.as_ref(),
            Self::Post(m) => m.key.as_ref(),
        }
    }

    /// The state; only refreshes always have one.
    pub const fn state(&self) -> Option<&State<'a>> {
        match self {
            Self::Refresh(m) => Some(&m.state),
            Self::Status(m) => m.state.as_ref(),
            _ => None,
        }
    }

    /// The extended header.
    pub const fn ext_header(&self) -> Option<&'a [u8]> {
        each_class!(self, m => m.ext_header)
    }

    /// The permission expression.
    pub const fn perm_data(&self) -> Option<&'a [u8]> {
        match self {
            Self::Refresh(m) => m.perm_data,
            Self::Status(m) => m.perm_data,
            Self::Update(m) => m.perm_data,
            Self::Generic(m) => m.perm_data,
            Self::Post(m) => m.perm_data,
            Self::Request(_) | Self::Close(_) | Self::Ack(_) => None,
        }
    }

    /// The sequence number.
    pub const fn seq_num(&self) -> Option<u32> {
        match self {
            Self::Refresh(m) => m.seq_num,
            Self::Update(m) => m.seq_num,
            Self::Ack(m) => m.seq_num,
            Self::Generic(m) => m.seq_num,
            Self::Post(m) => m.seq_num,
            Self::Request(_) | Self::Status(_) | Self::Close(_) => None,
        }
    }

    /// All flag bits as they stand on the wire.
    pub fn wire_flags(&self) -> u16 {
        each_class!(self, m => m.wire_flags().0)
    }
}

/// `new` and `Default` of one class: everything absent, no data.
macro_rules! class {
    ($name:ident, $variant:ident { $($member:ident: $value:expr),* $(,)? }) => {
        impl<'a> $name<'a> {
            /// A message with nothing but the domain and stream id: no flags, no optional members, no data.
            pub const fn new(domain: Domain, stream_id: i32) -> Self {
                Self {
                    domain,
                    stream_id,
                    container: DataType::NO_DATA,
                    ext_header: None,
                    body: &[],
                    $($member: $value,)*
                }
            }
        }

        impl Default for $name<'_> {
            fn default() -> Self {
                Self::new(Domain(0), 0)
            }
        }

        impl<'a> From<$name<'a>> for Msg<'a> {
            fn from(msg: $name<'a>) -> Self {
                Self::$variant(msg)
            }
        }
    };
}

class!(
    RequestMsg,
    Request { flags: RequestFlags::NONE, priority: None, qos: None, worst_qos: None, key: MsgKey::EMPTY }
);
class!(
    RefreshMsg,
    Refresh {
        flags: RefreshFlags::NONE,
        seq_num: None,
        state: State::OPEN_OK,
        group_id: &[],
        perm_data: None,
        qos: None,
        key: None,
        post_user_info: None,
        part_num: None,
    }
);
class!(
    StatusMsg,
    Status { flags: StatusFlags::NONE, state: None, group_id: None, perm_data: None, key: None, post_user_info: None }
);
class!(
    UpdateMsg,
    Update {
        flags: UpdateFlags::NONE,
        update_type: UpdateType::UNSPECIFIED,
        seq_num: None,
        conflation: None,
        perm_data: None,
        key: None,
        post_user_info: None,
    }
);
class!(CloseMsg, Close { flags: CloseFlags::NONE });
class!(AckMsg, Ack { flags: AckFlags::NONE, ack_id: 0, nak_code: None, text: None, seq_num: None, key: None });
class!(
    GenericMsg,
    Generic {
        flags: GenericFlags::NONE,
        seq_num: None,
        secondary_seq_num: None,
        perm_data: None,
        key: None,
        part_num: None,
    }
);
class!(
    PostMsg,
    Post {
        flags: PostFlags::NONE,
        post_user_info: PostUserInfo { addr: 0, id: 0 },
        seq_num: None,
        post_id: None,
        perm_data: None,
        key: None,
        part_num: None,
        post_user_rights: None,
    }
);

impl<'a> AckMsg<'a> {
    /// The text, with what is not UTF-8 replaced; empty if there is none.
    pub fn text_lossy(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.text.unwrap_or_default())
    }
}
