//! Messages as JSON: the members of the header, in the order of the SDK's converter.

use std::io::Write;

use super::names::{Named, container_member, name_or_number, name_type};
use super::out::{Out, text};
use super::{Converter, base64, number};
use crate::container::SetScope;
use crate::msg::{Domain, Msg, MsgKey, PostUserInfo, RefreshFlags, RequestFlags, RequestMsg};
use crate::rdm::request::{Payload, View};
use crate::{DataType, DecodeError, Qos, State};

/// How deep containers and messages may nest; deeper ones are an error.
pub(super) const MAX_DEPTH: usize = 24;

/// Appends JSON to a text: bytes, since most of them are put there by number, and all are known to be UTF-8.
pub(super) struct JsonWriter<'c, 'o> {
    pub(super) converter: Converter<'c>,
    pub(super) out: &'o mut Vec<u8>,
    pub(super) depth: usize,
    /// Texts are those of an image that clears what the receiver holds.
    pub(super) clears: bool,
}

pub(super) fn message(converter: Converter<'_>, msg: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    JsonWriter { converter, out, depth: 0, clears: false }.message(msg)
}

/// The member `Key`, without what it may have of attributes.
pub(super) fn key(converter: Converter<'_>, domain: Domain, key: &MsgKey<'_>, out: &mut Vec<u8>) {
    let key = MsgKey { attrib: None, ..*key };
    let mut inner = vec![b'{'];
    let written = JsonWriter { converter, out: &mut inner, depth: 0, clears: false }.key(domain, &key, None);
    debug_assert!(written.is_ok(), "only attributes may not be readable");
    out.extend_from_slice(&inner[1..]);
}

/// The streams of a batch close.
fn closed_streams(msg: &Msg<'_>) -> Result<Option<Vec<i32>>, DecodeError> {
    match msg {
        Msg::Close(close) => Ok(Payload::decode(close.container, close.body)?.streams),
        _ => Ok(None),
    }
}

impl JsonWriter<'_, '_> {
    /// A comma, unless the innermost object begins here.
    #[inline]
    fn comma(&mut self) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
    }

    /// Begins a member of the innermost object.
    pub(super) fn member(&mut self, name: &str) {
        self.comma();
        self.out.push(b'"');
        self.out.push_str(name);
        self.out.extend_from_slice(b"\":");
    }

    /// Begins a member whose name may hold anything.
    pub(super) fn named_member(&mut self, name: &str) {
        self.comma();
        text(name, self.out);
        self.out.push(b':');
    }

    fn display(&mut self, value: impl std::fmt::Display) {
        let _ = write!(self.out, "{value}");
    }

    pub(super) fn number(&mut self, name: &str, value: impl std::fmt::Display) {
        self.member(name);
        self.display(value);
    }

    fn number_opt(&mut self, name: &str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.number(name, value);
        }
    }

    fn seq_number(&mut self, value: Option<u32>) {
        if let Some(value) = value {
            self.member("SeqNumber");
            number::unsigned(value.into(), self.out);
        }
    }

    fn named<T: Named>(&mut self, name: &str, value: T, number: impl std::fmt::Display) {
        self.member(name);
        name_or_number(value, number, self.out);
    }

    /// A member that is only written when it is true.
    fn truth(&mut self, name: &str, value: bool) {
        if value {
            self.number(name, "true");
        }
    }

    /// A member that is only written when it is false.
    fn falsehood(&mut self, name: &str, value: bool) {
        if !value {
            self.number(name, "false");
        }
    }

    pub(super) fn bytes(&mut self, name: &str, bytes: Option<&[u8]>) {
        if let Some(bytes) = bytes {
            self.member(name);
            self.base64(bytes);
        }
    }

    pub(super) fn base64(&mut self, bytes: &[u8]) {
        self.out.push(b'"');
        base64::encode(bytes, self.out);
        self.out.push(b'"');
    }

    /// A message as an object.
    pub(super) fn message(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let msg = Msg::decode(bytes)?;
        self.out.extend_from_slice(b"{\"ID\":");
        let streams = closed_streams(&msg)?;
        match &streams {
            Some(streams) => self.list(streams, |w, id| w.display(id)),
            None => number::signed(msg.stream_id().into(), self.out),
        }
        self.named("Type", msg.class(), msg.class().0);
        if msg.domain() != Domain::MARKET_PRICE {
            self.named("Domain", msg.domain(), msg.domain().0);
        }
        let body_done = if let Msg::Request(request) = &msg {
            self.request(request)?
        } else {
            self.members(&msg)?;
            streams.is_some()
        };
        if !body_done {
            let is_image = matches!(&msg, Msg::Refresh(m) if m.flags.contains(RefreshFlags::CLEAR_CACHE));
            let outer = std::mem::replace(&mut self.clears, is_image);
            self.body(msg.container(), msg.body(), &SetScope::NONE)?;
            self.clears = outer;
        }
        self.out.push(b'}');
        Ok(())
    }

    /// A request's members; says whether they include what the body holds.
    fn request(&mut self, msg: &RequestMsg<'_>) -> Result<bool, DecodeError> {
        let has = |flag| msg.flags.contains(flag);
        self.falsehood("Streaming", has(RequestFlags::STREAMING));
        if let Some(priority) = msg.priority {
            self.member("Priority");
            let _ = write!(self.out, "{{\"Class\":{},\"Count\":{}}}", priority.class, priority.count);
        }
        if msg.wire_flags().0 != 0 || self.converter.settings.explicit {
            self.falsehood("KeyInUpdates", has(RequestFlags::MSG_KEY_IN_UPDATES));
        }
        self.truth("ConfInfoInUpdates", has(RequestFlags::CONF_INFO_IN_UPDATES));
        self.falsehood("Refresh", !has(RequestFlags::NO_REFRESH));
        self.qos("Qos", msg.qos);
        self.qos("WorstQos", msg.worst_qos);
        self.truth("Private", has(RequestFlags::PRIVATE_STREAM));
        self.truth("Qualified", has(RequestFlags::QUALIFIED_STREAM));
        self.truth("Pause", has(RequestFlags::PAUSE));
        self.bytes("ExtHdr", msg.ext_header);
        let payload = match msg.container {
            DataType::ELEMENT_LIST if has(RequestFlags::HAS_BATCH) || has(RequestFlags::HAS_VIEW) => {
                Payload::of_request(msg)?
            }
            _ => Payload::default(),
        };
        let items = payload.items.filter(|_| has(RequestFlags::HAS_BATCH));
        let view = payload
            .view
            .filter(|view| has(RequestFlags::HAS_VIEW) && matches!(view, View::Fields(_) | View::Elements(_)));
        self.key(msg.domain, &msg.key, items.as_deref())?;
        match &view {
            Some(View::Fields(fids)) => {
                self.number("ViewType", "\"FidList\"");
                self.member("View");
                self.list(fids, |w, fid| w.display(fid));
            }
            Some(View::Elements(names)) => {
                self.number("ViewType", "\"NameList\"");
                self.member("View");
                self.list(names, |w, name| text(&String::from_utf8_lossy(name), w.out));
            }
            _ => {}
        }
        Ok(items.is_some() || view.is_some())
    }

    pub(super) fn list<T>(&mut self, items: &[T], write: impl Fn(&mut Self, &T)) {
        self.out.push(b'[');
        for (index, item) in items.iter().enumerate() {
            self.out.push_str(if index == 0 { "" } else { "," });
            write(self, item);
        }
        self.out.push(b']');
    }

    fn members(&mut self, msg: &Msg<'_>) -> Result<(), DecodeError> {
        use crate::msg::{AckFlags, CloseFlags, GenericFlags, PostFlags, StatusFlags, UpdateFlags};
        let silent = msg.wire_flags() == 0 && !self.converter.settings.explicit;
        match msg {
            Msg::Request(_) => {}
            Msg::Refresh(m) => {
                let has = |flag| m.flags.contains(flag);
                self.key_opt(m.domain, m.key.as_ref())?;
                self.state(&m.state);
                self.bytes("ExtHdr", m.ext_header);
                self.falsehood("Complete", silent || has(RefreshFlags::REFRESH_COMPLETE));
                self.qos("Qos", m.qos);
                self.falsehood("ClearCache", silent || has(RefreshFlags::CLEAR_CACHE));
                self.truth("DoNotCache", has(RefreshFlags::DO_NOT_CACHE));
                self.truth("Private", has(RefreshFlags::PRIVATE_STREAM));
                self.truth("Qualified", has(RefreshFlags::QUALIFIED_STREAM));
                self.post_user(m.post_user_info);
                self.number_opt("PartNumber", m.part_num);
                self.bytes("PermData", m.perm_data);
                self.seq_number(m.seq_num);
                self.falsehood("Solicited", silent || has(RefreshFlags::SOLICITED));
            }
            Msg::Status(m) => {
                self.key_opt(m.domain, m.key.as_ref())?;
                if let Some(state) = &m.state {
                    self.state(state);
                }
                self.truth("ClearCache", m.flags.contains(StatusFlags::CLEAR_CACHE));
                self.truth("Private", m.flags.contains(StatusFlags::PRIVATE_STREAM));
                self.truth("Qualified", m.flags.contains(StatusFlags::QUALIFIED_STREAM));
                self.post_user(m.post_user_info);
                self.bytes("ExtHdr", m.ext_header);
                self.bytes("PermData", m.perm_data);
            }
            Msg::Update(m) => {
                self.named("UpdateType", m.update_type, m.update_type.0);
                self.truth("DoNotConflate", m.flags.contains(UpdateFlags::DO_NOT_CONFLATE));
                self.truth("DoNotRipple", m.flags.contains(UpdateFlags::DO_NOT_RIPPLE));
                self.truth("Discardable", m.flags.contains(UpdateFlags::DISCARDABLE));
                self.truth("DoNotCache", m.flags.contains(UpdateFlags::DO_NOT_CACHE));
                self.key_opt(m.domain, m.key.as_ref())?;
                self.post_user(m.post_user_info);
                self.bytes("PermData", m.perm_data);
                self.seq_number(m.seq_num);
                if let Some(conflation) = m.conflation {
                    self.member("ConflationInfo");
                    let _ = write!(self.out, "{{\"Count\":{},\"Time\":{}}}", conflation.count, conflation.time);
                }
                self.bytes("ExtHdr", m.ext_header);
            }
            Msg::Close(m) => {
                self.truth("Ack", m.flags.contains(CloseFlags::ACK));
                self.bytes("ExtHdr", m.ext_header);
            }
            Msg::Ack(m) => {
                self.number("AckID", m.ack_id);
                if let Some(code) = m.nak_code {
                    self.named("NakCode", code, code.0);
                }
                if m.text.is_some() {
                    self.member("Text");
                    text(&m.text_lossy(), self.out);
                }
                self.truth("Private", m.flags.contains(AckFlags::PRIVATE_STREAM));
                self.seq_number(m.seq_num);
                self.key_opt(m.domain, m.key.as_ref())?;
                self.bytes("ExtHdr", m.ext_header);
                self.truth("Qualified", m.flags.contains(AckFlags::QUALIFIED_STREAM));
            }
            Msg::Generic(m) => {
                self.key_opt(m.domain, m.key.as_ref())?;
                self.seq_number(m.seq_num);
                self.number_opt("SecSeqNumber", m.secondary_seq_num);
                self.number_opt("PartNumber", m.part_num);
                self.bytes("PermData", m.perm_data);
                self.bytes("ExtHdr", m.ext_header);
                self.falsehood("Complete", m.flags.contains(GenericFlags::MESSAGE_COMPLETE));
                self.truth("ProviderDriven", m.flags.contains(GenericFlags::PROVIDER_DRIVEN));
            }
            Msg::Post(m) => {
                self.post_user(Some(m.post_user_info));
                self.number_opt("PostID", m.post_id);
                self.key_opt(m.domain, m.key.as_ref())?;
                self.seq_number(m.seq_num);
                self.falsehood("Complete", silent || m.flags.contains(PostFlags::POST_COMPLETE));
                self.truth("Ack", m.flags.contains(PostFlags::ACK));
                self.bytes("PermData", m.perm_data);
                self.number_opt("PartNumber", m.part_num);
                self.number_opt("PostUserRights", m.post_user_rights);
                self.bytes("ExtHdr", m.ext_header);
            }
        }
        Ok(())
    }

    fn key_opt(&mut self, domain: Domain, key: Option<&MsgKey<'_>>) -> Result<(), DecodeError> {
        key.map_or(Ok(()), |key| self.key(domain, key, None))
    }

    /// The key; the names of a batch stand in it in place of the name.
    fn key(&mut self, domain: Domain, key: &MsgKey<'_>, batch: Option<&[&[u8]]>) -> Result<(), DecodeError> {
        /// Name types whose name is a dummy (ETA `UserIdTypes` cookie and authentication token).
        const NAMELESS: [Option<u8>; 2] = [Some(4), Some(5)];
        self.member("Key");
        self.out.push(b'{');
        if let Some(id) = key.service_id {
            self.member("Service");
            match self.converter.services.name(id) {
                Some(name) => text(name, self.out),
                None => self.display(id),
            }
        }
        if let Some(kind) = key.name_type.filter(|kind| *kind != 1) {
            match name_type(domain, kind) {
                Some(name) => self.number("NameType", format_args!("\"{name}\"")),
                None => self.number("NameType", kind),
            }
        }
        if let Some(name) = key.name.filter(|_| !NAMELESS.contains(&key.name_type)) {
            self.member("Name");
            match name {
                [] | [0] => self.out.push_str("null"),
                _ => text(&key.name_lossy(), self.out),
            }
        }
        self.number_opt("Filter", key.filter);
        self.number_opt("Identifier", key.identifier);
        if let Some(attrib) = &key.attrib {
            self.body(attrib.container, attrib.data, &SetScope::NONE)?;
        }
        if let Some(names) = batch {
            self.member("Name");
            self.list(names, |w, name| text(&String::from_utf8_lossy(name), w.out));
        }
        self.out.push(b'}');
        Ok(())
    }

    pub(super) fn state(&mut self, state: &State<'_>) {
        self.member("State");
        self.state_object(state);
    }

    pub(super) fn state_object(&mut self, state: &State<'_>) {
        self.out.push(b'{');
        self.named("Stream", state.stream, state.stream.0);
        self.named("Data", state.data, state.data.0);
        if state.code.0 != 0 {
            self.named("Code", state.code, state.code.0);
        }
        self.member("Text");
        text(&state.text_lossy(), self.out);
        self.out.push(b'}');
    }

    fn qos(&mut self, name: &str, qos: Option<Qos>) {
        if let Some(qos) = qos {
            self.member(name);
            self.qos_object(qos);
        }
    }

    pub(super) fn qos_object(&mut self, qos: Qos) {
        self.out.push(b'{');
        self.named("Timeliness", qos.timeliness, qos.timeliness.0);
        self.named("Rate", qos.rate, qos.rate.0);
        self.truth("Dynamic", qos.dynamic);
        if qos.timeliness > crate::Timeliness::DELAYED_UNKNOWN {
            self.number("TimeInfo", qos.time_info);
        }
        if qos.rate > crate::Rate::JIT_CONFLATED {
            self.number("RateInfo", qos.rate_info);
        }
        self.out.push(b'}');
    }

    fn post_user(&mut self, user: Option<PostUserInfo>) {
        if let Some(user) = user {
            self.member("PostUserInfo");
            let _ = write!(self.out, "{{\"Address\":\"{}\",\"UserID\":{}}}", user.ip(), user.id);
        }
    }

    /// A container as a member that its type names. No data and types without a name are left out.
    pub(super) fn body(&mut self, container: DataType, data: &[u8], scope: &SetScope<'_>) -> Result<(), DecodeError> {
        match container_member(container) {
            Some(name) => {
                self.member(name);
                self.container(container, data, scope)
            }
            None => Ok(()),
        }
    }
}
