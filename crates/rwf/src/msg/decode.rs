//! From bytes to messages.

use super::{
    AckFlags, AckMsg, CloseFlags, CloseMsg, Conflation, Domain, GenericFlags, GenericMsg, Msg, MsgClass, MsgKey,
    NakCode, PostFlags, PostMsg, PostUserInfo, Priority, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg,
    StatusFlags, StatusMsg, UpdateFlags, UpdateMsg, UpdateType,
};
use crate::wire::Reader;
use crate::{DataType, DecodeError, Qos, State};

/// The class is in the low five bits of its byte; the rest is reserved.
pub(crate) const CLASS_MASK: u8 = 0x1F;

/// What all classes have at the start of the header.
#[derive(Clone, Copy)]
struct Start {
    domain: Domain,
    stream_id: i32,
    flags: u16,
    container: DataType,
}

impl Start {
    #[inline]
    fn read(r: &mut Reader<'_>) -> Result<(MsgClass, Self), DecodeError> {
        let &[class, domain, a, b, c, d] = r.array()?;
        let flags = r.rb15()?;
        let container = DataType::from_wire_container(r.u8()?);
        let stream_id = i32::from_be_bytes([a, b, c, d]);
        Ok((MsgClass(class & CLASS_MASK), Self { domain: Domain(domain), stream_id, flags, container }))
    }
}

/// A cursor over the header, after its length, and the body.
#[inline]
fn split(msg: &[u8]) -> Result<(Reader<'_>, &[u8]), DecodeError> {
    let mut r = Reader::new(msg, "message header");
    let len = r.u16()?;
    let header = r.bytes(len as usize)?;
    Ok((Reader::with_base(header, 2, "message header"), r.rest()))
}

impl<'a> Msg<'a> {
    /// Decodes the header; the body is the rest of `msg`.
    ///
    /// # Errors
    /// Truncated if the header is; invalid for a class that does not exist.
    pub fn decode(msg: &'a [u8]) -> Result<Self, DecodeError> {
        let (mut r, body) = split(msg)?;
        let (class, start) = Start::read(&mut r)?;
        let r = &mut r;
        Ok(match class {
            MsgClass::REQUEST => Self::Request(RequestMsg::read(r, start, body)?),
            MsgClass::REFRESH => Self::Refresh(RefreshMsg::read(r, start, body)?),
            MsgClass::STATUS => Self::Status(StatusMsg::read(r, start, body)?),
            MsgClass::UPDATE => Self::Update(UpdateMsg::read(r, start, body)?),
            MsgClass::CLOSE => Self::Close(CloseMsg::read(r, start, body)?),
            MsgClass::ACK => Self::Ack(AckMsg::read(r, start, body)?),
            MsgClass::GENERIC => Self::Generic(GenericMsg::read(r, start, body)?),
            MsgClass::POST => Self::Post(PostMsg::read(r, start, body)?),
            _ => return Err(DecodeError::invalid("message class", 2)),
        })
    }
}

/// `decode` of a single class.
macro_rules! decode_class {
    ($name:ident, $class:ident) => {
        impl<'a> $name<'a> {
            /// Decodes a message that is known to be of this class.
            ///
            /// # Errors
            /// Truncated if the header is; invalid if the class is another.
            #[inline]
            pub fn decode(msg: &'a [u8]) -> Result<Self, DecodeError> {
                let (mut r, body) = split(msg)?;
                let (class, start) = Start::read(&mut r)?;
                if class != MsgClass::$class {
                    return Err(DecodeError::invalid("message class", 2));
                }
                Self::read(&mut r, start, body)
            }
        }
    };
}

decode_class!(RequestMsg, REQUEST);
decode_class!(RefreshMsg, REFRESH);
decode_class!(StatusMsg, STATUS);
decode_class!(UpdateMsg, UPDATE);
decode_class!(CloseMsg, CLOSE);
decode_class!(AckMsg, ACK);
decode_class!(GenericMsg, GENERIC);
decode_class!(PostMsg, POST);

impl<'a> RequestMsg<'a> {
    fn read(r: &mut Reader<'a>, start: Start, body: &'a [u8]) -> Result<Self, DecodeError> {
        let Start { domain, stream_id, flags, container } = start;
        let flags = RequestFlags(flags);
        let has = |flag| flags.contains(flag);
        Ok(Self {
            domain,
            stream_id,
            container,
            flags: flags.without(RequestFlags::DERIVED),
            priority: if has(RequestFlags::HAS_PRIORITY) { Some(priority(r)?) } else { None },
            qos: if has(RequestFlags::HAS_QOS) { Some(qos(r)?) } else { None },
            worst_qos: if has(RequestFlags::HAS_WORST_QOS) { Some(qos(r)?) } else { None },
            key: MsgKey::read(r)?,
            ext_header: ext_header(r, has(RequestFlags::HAS_EXTENDED_HEADER))?,
            body,
        })
    }
}

impl<'a> RefreshMsg<'a> {
    fn read(r: &mut Reader<'a>, start: Start, body: &'a [u8]) -> Result<Self, DecodeError> {
        let Start { domain, stream_id, flags, container } = start;
        let flags = RefreshFlags(flags);
        let has = |flag| flags.contains(flag);
        Ok(Self {
            domain,
            stream_id,
            container,
            flags: flags.without(RefreshFlags::DERIVED),
            seq_num: seq_num(r, has(RefreshFlags::HAS_SEQ_NUM))?,
            state: State::read(r.reading("state"))?,
            group_id: r.reading("group id").buf8()?,
            perm_data: perm_data(r, has(RefreshFlags::HAS_PERM_DATA))?,
            qos: if has(RefreshFlags::HAS_QOS) { Some(qos(r)?) } else { None },
            key: key(r, has(RefreshFlags::HAS_MSG_KEY))?,
            ext_header: ext_header(r, has(RefreshFlags::HAS_EXTENDED_HEADER))?,
            post_user_info: late_user_info(r, has(RefreshFlags::HAS_POST_USER_INFO))?,
            part_num: late_number(r, has(RefreshFlags::HAS_PART_NUM))?,
            body,
        })
    }
}

impl<'a> StatusMsg<'a> {
    fn read(r: &mut Reader<'a>, start: Start, body: &'a [u8]) -> Result<Self, DecodeError> {
        let Start { domain, stream_id, flags, container } = start;
        let flags = StatusFlags(flags);
        let has = |flag| flags.contains(flag);
        Ok(Self {
            domain,
            stream_id,
            container,
            flags: flags.without(StatusFlags::DERIVED),
            state: if has(StatusFlags::HAS_STATE) { Some(State::read(r.reading("state"))?) } else { None },
            group_id: if has(StatusFlags::HAS_GROUP_ID) { Some(r.reading("group id").buf8()?) } else { None },
            perm_data: perm_data(r, has(StatusFlags::HAS_PERM_DATA))?,
            key: key(r, has(StatusFlags::HAS_MSG_KEY))?,
            ext_header: ext_header(r, has(StatusFlags::HAS_EXTENDED_HEADER))?,
            post_user_info: late_user_info(r, has(StatusFlags::HAS_POST_USER_INFO))?,
            body,
        })
    }
}

impl<'a> UpdateMsg<'a> {
    #[inline]
    fn read(r: &mut Reader<'a>, start: Start, body: &'a [u8]) -> Result<Self, DecodeError> {
        let Start { domain, stream_id, flags, container } = start;
        let flags = UpdateFlags(flags);
        let update_type = UpdateType(r.reading("update type").u8()?);
        // Nearly all updates have no optional member at all; then the header stays in registers.
        if flags.0 & UpdateFlags::DERIVED.0 == 0 {
            return Ok(Self { container, flags, update_type, body, ..Self::new(domain, stream_id) });
        }
        // The others have a sequence number as a rule, and nothing else.
        if flags.0 & UpdateFlags::DERIVED.0 == UpdateFlags::HAS_SEQ_NUM.0 {
            let seq_num = Some(r.reading("sequence number").u32()?);
            let flags = flags.without(UpdateFlags::DERIVED);
            return Ok(Self { container, flags, update_type, seq_num, body, ..Self::new(domain, stream_id) });
        }
        Self::read_members(*r, start, update_type, body)
    }

    #[inline(never)]
    fn read_members(
        mut r: Reader<'a>,
        start: Start,
        update_type: UpdateType,
        body: &'a [u8],
    ) -> Result<Self, DecodeError> {
        let Start { domain, stream_id, flags, container } = start;
        let flags = UpdateFlags(flags);
        let has = |flag| flags.contains(flag);
        let r = &mut r;
        Ok(Self {
            domain,
            stream_id,
            container,
            flags: flags.without(UpdateFlags::DERIVED),
            update_type,
            seq_num: seq_num(r, has(UpdateFlags::HAS_SEQ_NUM))?,
            conflation: if has(UpdateFlags::HAS_CONF_INFO) { Some(conflation(r)?) } else { None },
            perm_data: perm_data(r, has(UpdateFlags::HAS_PERM_DATA))?,
            key: key(r, has(UpdateFlags::HAS_MSG_KEY))?,
            ext_header: ext_header(r, has(UpdateFlags::HAS_EXTENDED_HEADER))?,
            post_user_info: late_user_info(r, has(UpdateFlags::HAS_POST_USER_INFO))?,
            body,
        })
    }
}

impl<'a> CloseMsg<'a> {
    fn read(r: &mut Reader<'a>, start: Start, body: &'a [u8]) -> Result<Self, DecodeError> {
        let Start { domain, stream_id, flags, container } = start;
        let flags = CloseFlags(flags);
        Ok(Self {
            domain,
            stream_id,
            container,
            flags: flags.without(CloseFlags::DERIVED),
            ext_header: ext_header(r, flags.contains(CloseFlags::HAS_EXTENDED_HEADER))?,
            body,
        })
    }
}

impl<'a> AckMsg<'a> {
    fn read(r: &mut Reader<'a>, start: Start, body: &'a [u8]) -> Result<Self, DecodeError> {
        let Start { domain, stream_id, flags, container } = start;
        let flags = AckFlags(flags);
        let has = |flag| flags.contains(flag);
        Ok(Self {
            domain,
            stream_id,
            container,
            flags: flags.without(AckFlags::DERIVED),
            ack_id: r.reading("ack id").u32()?,
            nak_code: if has(AckFlags::HAS_NAK_CODE) { Some(NakCode(r.reading("NAK code").u8()?)) } else { None },
            text: if has(AckFlags::HAS_TEXT) { Some(r.reading("text").buf16()?) } else { None },
            seq_num: seq_num(r, has(AckFlags::HAS_SEQ_NUM))?,
            key: key(r, has(AckFlags::HAS_MSG_KEY))?,
            ext_header: ext_header(r, has(AckFlags::HAS_EXTENDED_HEADER))?,
            body,
        })
    }
}

impl<'a> GenericMsg<'a> {
    fn read(r: &mut Reader<'a>, start: Start, body: &'a [u8]) -> Result<Self, DecodeError> {
        let Start { domain, stream_id, flags, container } = start;
        let flags = GenericFlags(flags);
        let has = |flag| flags.contains(flag);
        Ok(Self {
            domain,
            stream_id,
            container,
            flags: flags.without(GenericFlags::DERIVED),
            seq_num: seq_num(r, has(GenericFlags::HAS_SEQ_NUM))?,
            secondary_seq_num: seq_num(r, has(GenericFlags::HAS_SECONDARY_SEQ_NUM))?,
            perm_data: perm_data(r, has(GenericFlags::HAS_PERM_DATA))?,
            key: key(r, has(GenericFlags::HAS_MSG_KEY))?,
            ext_header: ext_header(r, has(GenericFlags::HAS_EXTENDED_HEADER))?,
            part_num: late_number(r, has(GenericFlags::HAS_PART_NUM))?,
            body,
        })
    }
}

impl<'a> PostMsg<'a> {
    fn read(r: &mut Reader<'a>, start: Start, body: &'a [u8]) -> Result<Self, DecodeError> {
        let Start { domain, stream_id, flags, container } = start;
        let flags = PostFlags(flags);
        let has = |flag| flags.contains(flag);
        Ok(Self {
            domain,
            stream_id,
            container,
            flags: flags.without(PostFlags::DERIVED),
            post_user_info: user_info(r)?,
            seq_num: seq_num(r, has(PostFlags::HAS_SEQ_NUM))?,
            post_id: if has(PostFlags::HAS_POST_ID) { Some(r.reading("post id").u32()?) } else { None },
            perm_data: perm_data(r, has(PostFlags::HAS_PERM_DATA))?,
            key: key(r, has(PostFlags::HAS_MSG_KEY))?,
            ext_header: ext_header(r, has(PostFlags::HAS_EXTENDED_HEADER))?,
            part_num: late_number(r, has(PostFlags::HAS_PART_NUM))?,
            post_user_rights: late_number(r, has(PostFlags::HAS_POST_USER_RIGHTS))?,
            body,
        })
    }
}

fn priority(r: &mut Reader<'_>) -> Result<Priority, DecodeError> {
    Ok(Priority { class: r.reading("priority").u8()?, count: r.ob16()? })
}

fn qos(r: &mut Reader<'_>) -> Result<Qos, DecodeError> {
    Qos::read(r.reading("quality of service"))
}

fn conflation(r: &mut Reader<'_>) -> Result<Conflation, DecodeError> {
    Ok(Conflation { count: r.reading("conflation").rb15()?, time: r.u16()? })
}

fn user_info(r: &mut Reader<'_>) -> Result<PostUserInfo, DecodeError> {
    Ok(PostUserInfo { addr: r.reading("post user info").u32()?, id: r.u32()? })
}

#[inline]
fn seq_num(r: &mut Reader<'_>, present: bool) -> Result<Option<u32>, DecodeError> {
    if present { r.reading("sequence number").u32().map(Some) } else { Ok(None) }
}

#[inline]
fn perm_data<'a>(r: &mut Reader<'a>, present: bool) -> Result<Option<&'a [u8]>, DecodeError> {
    if present { r.reading("permission data").buf15().map(Some) } else { Ok(None) }
}

#[inline]
fn key<'a>(r: &mut Reader<'a>, present: bool) -> Result<Option<MsgKey<'a>>, DecodeError> {
    if present { MsgKey::read(r).map(Some) } else { Ok(None) }
}

#[inline]
fn ext_header<'a>(r: &mut Reader<'a>, present: bool) -> Result<Option<&'a [u8]>, DecodeError> {
    if present { r.reading("extended header").buf8().map(Some) } else { Ok(None) }
}

/// Members that ETA added late to a header: a flag without room for the member counts as not set.
#[inline]
fn late_user_info(r: &mut Reader<'_>, present: bool) -> Result<Option<PostUserInfo>, DecodeError> {
    if present && r.remaining() >= 8 { user_info(r).map(Some) } else { Ok(None) }
}

/// As [`late_user_info`], for part number and user rights.
#[inline]
fn late_number(r: &mut Reader<'_>, present: bool) -> Result<Option<u16>, DecodeError> {
    if present && !r.is_empty() { r.reading("part number").rb15().map(Some) } else { Ok(None) }
}
