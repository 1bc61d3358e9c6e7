//! From messages to bytes.

use super::{
    AckFlags, AckMsg, CloseFlags, CloseMsg, Domain, GenericFlags, GenericMsg, Msg, MsgClass, MsgKey, NakCode,
    PostFlags, PostMsg, PostUserInfo, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, StatusFlags, StatusMsg,
    UpdateFlags, UpdateMsg, each_class,
};
use crate::wire::Writer;
use crate::{DataType, EncodeError};

impl Msg<'_> {
    /// Writes header and body.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::TooLong`] for a member over the limit of its length coding.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        each_class!(self, m => m.encode(w))
    }

    /// Writes the header alone; what is written next is the body, up to the end of the message.
    ///
    /// # Errors
    /// As [`Msg::encode`].
    pub fn encode_header(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        each_class!(self, m => m.encode_header(w))
    }
}

/// `encode`, `encode_header` and `wire_flags` of one class. Each `flag if condition` is a derived bit.
macro_rules! encode_class {
    ($name:ident, $class:ident, $flags:ident, |$msg:ident| { $($flag:ident if $present:expr),* $(,)? }) => {
        impl $name<'_> {
            /// The flags as they stand on the wire.
            #[inline]
            pub fn wire_flags(&self) -> $flags {
                let $msg = self;
                let mut flags = $msg.flags.without($flags::DERIVED);
                $(flags.set($flags::$flag, $present);)*
                flags
            }

            /// Writes header and body.
            ///
            /// # Errors
            /// [`EncodeError::BufferFull`]; [`EncodeError::TooLong`] for a member over the limit of its length coding.
            pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
                self.encode_header(w)?;
                w.bytes(self.body)
            }

            /// Writes the header alone; what is written next is the body, up to the end of the message.
            ///
            /// # Errors
            /// As `encode`.
            #[inline]
            pub fn encode_header(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
                let flags = self.wire_flags();
                let start = begin(w, MsgClass::$class, self.domain, self.stream_id, flags.0, self.container)?;
                self.write_members(w)?;
                end(w, start)
            }
        }
    };
}

encode_class!(RequestMsg, REQUEST, RequestFlags, |m| {
    HAS_EXTENDED_HEADER if m.ext_header.is_some(),
    HAS_PRIORITY if m.priority.is_some(),
    HAS_QOS if m.qos.is_some(),
    HAS_WORST_QOS if m.worst_qos.is_some(),
});

impl RequestMsg<'_> {
    fn write_members(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        if let Some(priority) = self.priority {
            w.u8(priority.class)?;
            w.ob16(priority.count as usize)?;
        }
        for qos in [self.qos, self.worst_qos].into_iter().flatten() {
            qos.write(w)?;
        }
        key(w, Some(&self.key))?;
        ext_header(w, self.ext_header)
    }
}

encode_class!(RefreshMsg, REFRESH, RefreshFlags, |m| {
    HAS_EXTENDED_HEADER if m.ext_header.is_some(),
    HAS_PERM_DATA if nonempty(m.perm_data).is_some(),
    HAS_MSG_KEY if m.key.is_some(),
    HAS_SEQ_NUM if m.seq_num.is_some(),
    HAS_QOS if m.qos.is_some(),
    HAS_POST_USER_INFO if m.post_user_info.is_some(),
    HAS_PART_NUM if m.part_num.is_some(),
});

impl RefreshMsg<'_> {
    fn write_members(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        number(w, self.seq_num)?;
        self.state.write(w)?;
        w.buf8(if self.group_id.is_empty() { &[0, 0] } else { self.group_id })?;
        perm_data(w, self.perm_data)?;
        if let Some(qos) = self.qos {
            qos.write(w)?;
        }
        key(w, self.key.as_ref())?;
        ext_header(w, self.ext_header)?;
        user_info(w, self.post_user_info)?;
        short(w, self.part_num)
    }
}

encode_class!(StatusMsg, STATUS, StatusFlags, |m| {
    HAS_EXTENDED_HEADER if m.ext_header.is_some(),
    HAS_PERM_DATA if nonempty(m.perm_data).is_some(),
    HAS_MSG_KEY if m.key.is_some(),
    HAS_GROUP_ID if nonempty(m.group_id).is_some(),
    HAS_STATE if m.state.is_some(),
    HAS_POST_USER_INFO if m.post_user_info.is_some(),
});

impl StatusMsg<'_> {
    fn write_members(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        if let Some(state) = &self.state {
            state.write(w)?;
        }
        if let Some(group_id) = nonempty(self.group_id) {
            w.buf8(group_id)?;
        }
        perm_data(w, self.perm_data)?;
        key(w, self.key.as_ref())?;
        ext_header(w, self.ext_header)?;
        user_info(w, self.post_user_info)
    }
}

encode_class!(UpdateMsg, UPDATE, UpdateFlags, |m| {
    HAS_EXTENDED_HEADER if m.ext_header.is_some(),
    HAS_PERM_DATA if nonempty(m.perm_data).is_some(),
    HAS_MSG_KEY if m.key.is_some(),
    HAS_SEQ_NUM if m.seq_num.is_some(),
    HAS_CONF_INFO if m.conflation.is_some_and(|c| c.count != 0 || c.time != 0),
    HAS_POST_USER_INFO if m.post_user_info.is_some(),
});

impl UpdateMsg<'_> {
    #[inline]
    fn write_members(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.u8(self.update_type.0)?;
        number(w, self.seq_num)?;
        if let Some(conflation) = self.conflation.filter(|c| c.count != 0 || c.time != 0) {
            w.rb15(conflation.count as usize)?;
            w.u16(conflation.time)?;
        }
        perm_data(w, self.perm_data)?;
        key(w, self.key.as_ref())?;
        ext_header(w, self.ext_header)?;
        user_info(w, self.post_user_info)
    }
}

encode_class!(CloseMsg, CLOSE, CloseFlags, |m| {
    HAS_EXTENDED_HEADER if m.ext_header.is_some(),
});

impl CloseMsg<'_> {
    fn write_members(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        ext_header(w, self.ext_header)
    }
}

encode_class!(AckMsg, ACK, AckFlags, |m| {
    HAS_EXTENDED_HEADER if m.ext_header.is_some(),
    HAS_TEXT if nonempty(m.text).is_some(),
    HAS_SEQ_NUM if m.seq_num.is_some(),
    HAS_MSG_KEY if m.key.is_some(),
    HAS_NAK_CODE if m.nak_code.is_some_and(|code| code != NakCode::NONE),
});

impl AckMsg<'_> {
    fn write_members(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.u32(self.ack_id)?;
        if let Some(code) = self.nak_code.filter(|code| *code != NakCode::NONE) {
            w.u8(code.0)?;
        }
        if let Some(text) = nonempty(self.text) {
            w.buf16(text)?;
        }
        number(w, self.seq_num)?;
        key(w, self.key.as_ref())?;
        ext_header(w, self.ext_header)
    }
}

encode_class!(GenericMsg, GENERIC, GenericFlags, |m| {
    HAS_EXTENDED_HEADER if m.ext_header.is_some(),
    HAS_PERM_DATA if nonempty(m.perm_data).is_some(),
    HAS_MSG_KEY if m.key.is_some(),
    HAS_SEQ_NUM if m.seq_num.is_some(),
    HAS_SECONDARY_SEQ_NUM if m.secondary_seq_num.is_some(),
    HAS_PART_NUM if m.part_num.is_some(),
});

impl GenericMsg<'_> {
    fn write_members(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        number(w, self.seq_num)?;
        number(w, self.secondary_seq_num)?;
        perm_data(w, self.perm_data)?;
        key(w, self.key.as_ref())?;
        ext_header(w, self.ext_header)?;
        short(w, self.part_num)
    }
}

encode_class!(PostMsg, POST, PostFlags, |m| {
    HAS_EXTENDED_HEADER if m.ext_header.is_some(),
    HAS_POST_ID if m.post_id.is_some(),
    HAS_MSG_KEY if m.key.is_some(),
    HAS_SEQ_NUM if m.seq_num.is_some(),
    HAS_PERM_DATA if nonempty(m.perm_data).is_some(),
    HAS_PART_NUM if m.part_num.is_some(),
    HAS_POST_USER_RIGHTS if m.post_user_rights.is_some(),
});

impl PostMsg<'_> {
    fn write_members(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        user_info(w, Some(self.post_user_info))?;
        number(w, self.seq_num)?;
        number(w, self.post_id)?;
        perm_data(w, self.perm_data)?;
        key(w, self.key.as_ref())?;
        ext_header(w, self.ext_header)?;
        short(w, self.part_num)?;
        short(w, self.post_user_rights)
    }
}

/// Writes what all classes begin with; gives the position of the header length.
#[inline]
fn begin(
    w: &mut Writer<'_>,
    class: MsgClass,
    domain: Domain,
    stream_id: i32,
    flags: u16,
    container: DataType,
) -> Result<usize, EncodeError> {
    let start = w.position();
    let [a, b, c, d] = stream_id.to_be_bytes();
    w.array([0, 0, class.0, domain.0, a, b, c, d])?;
    w.rb15(flags as usize)?;
    w.u8(container.wire_container())?;
    Ok(start)
}

/// Patches the header length, which does not count itself.
#[inline]
fn end(w: &mut Writer<'_>, start: usize) -> Result<(), EncodeError> {
    let len = w.position() - start - 2;
    let max = u16::MAX as usize;
    let short = u16::try_from(len).map_err(|_| EncodeError::TooLong { what: "message header", len, max })?;
    w.patch_u16(start, short);
    Ok(())
}

#[inline]
fn nonempty(bytes: Option<&[u8]>) -> Option<&[u8]> {
    bytes.filter(|b| !b.is_empty())
}

#[inline]
fn number(w: &mut Writer<'_>, value: Option<u32>) -> Result<(), EncodeError> {
    value.map_or(Ok(()), |v| w.u32(v))
}

#[inline]
fn short(w: &mut Writer<'_>, value: Option<u16>) -> Result<(), EncodeError> {
    value.map_or(Ok(()), |v| w.rb15(v as usize))
}

#[inline]
fn perm_data(w: &mut Writer<'_>, perm: Option<&[u8]>) -> Result<(), EncodeError> {
    nonempty(perm).map_or(Ok(()), |p| w.buf15(p))
}

#[inline]
fn key(w: &mut Writer<'_>, key: Option<&MsgKey<'_>>) -> Result<(), EncodeError> {
    key.map_or(Ok(()), |k| k.write(w))
}

#[inline]
fn ext_header(w: &mut Writer<'_>, bytes: Option<&[u8]>) -> Result<(), EncodeError> {
    bytes.map_or(Ok(()), |b| w.buf8(b))
}

#[inline]
fn user_info(w: &mut Writer<'_>, info: Option<PostUserInfo>) -> Result<(), EncodeError> {
    info.map_or(Ok(()), |i| {
        w.u32(i.addr)?;
        w.u32(i.id)
    })
}
