//! JSON as messages: the members of the header.

use std::cell::{Cell, RefCell};
use std::net::Ipv4Addr;

use super::names::{Named, member_container, name_type_from_name};
use super::parse::Node;
use super::{Converter, ErrorKind, Incoming, JsonError, base64, read_plain};
use crate::msg::{
    AckFlags, AckMsg, Attrib, CloseFlags, CloseMsg, Conflation, Domain, GenericFlags, GenericMsg, MsgClass, MsgKey,
    NakCode, PostFlags, PostMsg, PostUserInfo, Priority, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg,
    StatusFlags, StatusMsg, UpdateFlags, UpdateMsg, UpdateType,
};
use crate::rdm::request::{Payload, View};
use crate::rdm::state::StateBuf;
use crate::wire::Writer;
use crate::{DataState, DataType, EncodeError, Qos, Rate, StateCode, StreamState, Timeliness};

/// A message of more bytes than this is not built.
const MAX_MESSAGE: usize = 64 << 20;

pub(super) fn messages(converter: &Converter<'_>, text: &str) -> Vec<Result<Incoming, JsonError>> {
    read_plain::updates(converter, text).unwrap_or_else(|| messages_of_tree(converter, text))
}

/// The messages of any text.
fn messages_of_tree(converter: &Converter<'_>, text: &str) -> Vec<Result<Incoming, JsonError>> {
    let root = match Node::parse(text) {
        Ok(root) => root,
        Err(error) => return vec![Err(JsonError { offending: text.to_owned(), ..error })],
    };
    let mut out = Vec::new();
    match &root {
        Node::Array(items) => {
            for item in items {
                match item {
                    // The transport puts brackets around an application's own.
                    Node::Array(inner) => out.extend(inner.iter().map(|node| incoming(converter, node))),
                    node => out.push(incoming(converter, node)),
                }
            }
        }
        node => out.push(incoming(converter, node)),
    }
    out
}

fn incoming(converter: &Converter<'_>, node: &Node<'_>) -> Result<Incoming, JsonError> {
    read_one(converter, node).map_err(|error| {
        let stream_id = match node.get("ID") {
            Some(Node::Number(id)) => id.parse().unwrap_or(0),
            _ => 0,
        };
        let mut offending = String::new();
        node.write(&mut offending);
        JsonError { stream_id, offending, ..error }
    })
}

fn read_one(converter: &Converter<'_>, node: &Node<'_>) -> Result<Incoming, JsonError> {
    if !matches!(node, Node::Object(_)) {
        let text = format!("a message or an array of messages was expected, not {}", node.kind());
        return Err(JsonError::new(ErrorKind::Syntax, text));
    }
    match node.get("Type") {
        Some(Node::Text(name)) if name == "Ping" => return Ok(Incoming::Ping),
        Some(Node::Text(name)) if name == "Pong" => return Ok(Incoming::Pong),
        Some(Node::Text(name)) if name == "Error" => {
            let text = if let Some(Node::Text(text)) = node.get("Text") { text.to_string() } else { String::new() };
            return Ok(Incoming::Error(text));
        }
        _ => {}
    }
    let reader = JsonReader::new(*converter);
    reader.build(node, |w| reader.message(node, w)).map(Incoming::Message)
}

/// Reads JSON nodes. What is wrong with them is kept in `error`, and an encoding error that stands for it ends the
/// encoding, because the encoders of containers pass only those on.
pub(super) struct JsonReader<'c> {
    pub(super) converter: Converter<'c>,
    error: RefCell<Option<JsonError>>,
    /// How many times its weight a node may take. Whatever was once too small makes all that follows larger, because
    /// parts are nested: if each tried for itself, a hostile text could make them try without end.
    growth: Cell<usize>,
}

pub(super) type Encoded<T = ()> = Result<T, EncodeError>;

impl<'c> JsonReader<'c> {
    pub(super) fn new(converter: Converter<'c>) -> Self {
        Self { converter, error: RefCell::new(None), growth: Cell::new(1) }
    }
}

impl JsonReader<'_> {
    /// Keeps the error and gives the one that stands for it.
    pub(super) fn fail(&self, kind: ErrorKind, text: String) -> EncodeError {
        self.error.borrow_mut().get_or_insert(JsonError::new(kind, text));
        EncodeError::Unrepresentable("JSON")
    }

    /// Runs an encoding of a node on a buffer that grows as long as it is too small.
    fn build(&self, node: &Node<'_>, mut encode: impl FnMut(&mut Writer<'_>) -> Encoded) -> Result<Vec<u8>, JsonError> {
        let weight = 64 + node.weight();
        loop {
            let size = weight.saturating_mul(self.growth.get()).min(MAX_MESSAGE);
            let mut buf = vec![0; size];
            let mut w = Writer::new(&mut buf);
            match encode(&mut w) {
                Ok(()) => {
                    let len = w.position();
                    buf.truncate(len);
                    return Ok(buf);
                }
                Err(EncodeError::BufferFull) if size < MAX_MESSAGE => self.growth.set(self.growth.get() * 4),
                Err(error) => return Err(self.error.take().unwrap_or_else(|| error.into())),
            }
        }
    }

    /// As [`JsonReader::build`], for a part of what is being encoded.
    pub(super) fn part(&self, node: &Node<'_>, encode: impl FnMut(&mut Writer<'_>) -> Encoded) -> Encoded<Vec<u8>> {
        self.build(node, encode).map_err(|error| self.fail(error.kind, error.text))
    }

    pub(super) fn message(&self, node: &Node<'_>, w: &mut Writer<'_>) -> Encoded {
        let Node::Object(members) = node else {
            return Err(self.wrong_kind("Message", "an object", node));
        };
        let class = match node.get("Type") {
            None => MsgClass::REQUEST,
            Some(kind) => self.class(kind)?,
        };
        match class {
            MsgClass::REQUEST => self.request(members, w),
            MsgClass::REFRESH => self.refresh(members, w),
            MsgClass::STATUS => self.status(members, w),
            MsgClass::UPDATE => self.update(members, w),
            MsgClass::CLOSE => self.close(members, w),
            MsgClass::ACK => self.ack(members, w),
            MsgClass::GENERIC => self.generic(members, w),
            _ => self.post(members, w),
        }
    }

    fn class(&self, node: &Node<'_>) -> Encoded<MsgClass> {
        let class = match node {
            Node::Text(name) => MsgClass::from_json_name(name),
            Node::Number(text) => text.parse().ok().map(MsgClass).filter(|class| class.name().is_some()),
            _ => None,
        };
        class.ok_or_else(|| {
            let mut text = String::from("message type is not supported: ");
            node.write(&mut text);
            self.fail(ErrorKind::UnknownMessageType, text)
        })
    }

    fn request(&self, members: &Members<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut common = Common::default();
        let mut msg = RequestMsg::new(Domain::MARKET_PRICE, 0);
        let mut key = None;
        let mut streaming = true;
        let mut key_in_updates = true;
        let mut view = None;
        let mut view_type = None;
        for (name, node) in members {
            match name.as_ref() {
                "Streaming" => streaming = self.bool(name, node)?,
                "KeyInUpdates" => key_in_updates = self.bool(name, node)?,
                "ConfInfoInUpdates" => msg.flags.set(RequestFlags::CONF_INFO_IN_UPDATES, self.bool(name, node)?),
                "Refresh" => msg.flags.set(RequestFlags::NO_REFRESH, !self.bool(name, node)?),
                "Private" => msg.flags.set(RequestFlags::PRIVATE_STREAM, self.bool(name, node)?),
                "Qualified" => msg.flags.set(RequestFlags::QUALIFIED_STREAM, self.bool(name, node)?),
                "Pause" => msg.flags.set(RequestFlags::PAUSE, self.bool(name, node)?),
                "Priority" => msg.priority = Some(self.priority(node)?),
                "Qos" => msg.qos = Some(self.qos(name, node)?),
                "WorstQos" => msg.worst_qos = Some(self.qos(name, node)?),
                "Key" => key = Some(node),
                "View" => view = Some(node),
                "ViewType" => view_type = Some(node),
                _ => self.common(&mut common, name, node)?,
            }
        }
        let key = self.key(key.ok_or_else(|| self.missing("Key"))?, common.domain, true)?;
        msg.flags.set(RequestFlags::STREAMING, streaming);
        msg.flags.set(RequestFlags::MSG_KEY_IN_UPDATES, key_in_updates);
        let view = view.map(|node| self.view(node, view_type)).transpose()?;
        let has_payload = view.is_some() || key.batch.is_some();
        let items = key.batch.as_ref().map(|names| names.iter().map(Vec::as_slice).collect());
        msg.flags.set(RequestFlags::HAS_BATCH, key.batch.is_some());
        msg.flags.set(RequestFlags::HAS_VIEW, view.is_some());
        let payload = Payload { items, view, ..Payload::default() };
        common.fill(&mut msg.stream_id, &mut msg.domain);
        common.require_id(self)?;
        msg.container = if has_payload { DataType::ELEMENT_LIST } else { common.container() };
        msg.ext_header = common.ext_header.as_deref();
        msg.key = key.as_key();
        msg.encode_header(w)?;
        if has_payload { payload.encode(w) } else { common.write_body(self, w) }
    }

    fn refresh(&self, members: &Members<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut common = Common::default();
        let mut msg = RefreshMsg::new(Domain::MARKET_PRICE, 0);
        let mut state = StateBuf { stream: StreamState::OPEN, data: DataState::OK, ..StateBuf::default() };
        let mut key = None;
        let (mut solicited, mut complete, mut clear_cache) = (true, true, true);
        for (name, node) in members {
            match name.as_ref() {
                "Key" => key = Some(node),
                "State" => state = self.state(name, node)?,
                "Solicited" => solicited = self.bool(name, node)?,
                "Complete" => complete = self.bool(name, node)?,
                "ClearCache" => clear_cache = self.bool(name, node)?,
                "DoNotCache" => msg.flags.set(RefreshFlags::DO_NOT_CACHE, self.bool(name, node)?),
                "Private" => msg.flags.set(RefreshFlags::PRIVATE_STREAM, self.bool(name, node)?),
                "Qualified" => msg.flags.set(RefreshFlags::QUALIFIED_STREAM, self.bool(name, node)?),
                "Qos" => msg.qos = Some(self.qos(name, node)?),
                "PartNumber" => msg.part_num = Some(self.number(name, node)?),
                "SeqNumber" => msg.seq_num = Some(self.number(name, node)?),
                "PostUserInfo" => msg.post_user_info = Some(self.post_user(node)?),
                "ReqKey" => {}
                _ => self.common(&mut common, name, node)?,
            }
        }
        msg.flags.set(RefreshFlags::SOLICITED, solicited);
        msg.flags.set(RefreshFlags::REFRESH_COMPLETE, complete);
        msg.flags.set(RefreshFlags::CLEAR_CACHE, clear_cache);
        let key = key.map(|node| self.key(node, common.domain, false)).transpose()?;
        common.fill(&mut msg.stream_id, &mut msg.domain);
        common.require_id(self)?;
        msg.container = common.container();
        msg.state = state.as_state();
        msg.ext_header = common.ext_header.as_deref();
        msg.perm_data = common.perm_data.as_deref();
        msg.key = key.as_ref().map(Key::as_key);
        msg.encode_header(w)?;
        common.write_body(self, w)
    }

    fn status(&self, members: &Members<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut common = Common::default();
        let mut msg = StatusMsg::new(Domain::MARKET_PRICE, 0);
        let mut state = None;
        let mut key = None;
        for (name, node) in members {
            match name.as_ref() {
                "Key" => key = Some(node),
                "State" => state = Some(self.state(name, node)?),
                "ClearCache" => msg.flags.set(StatusFlags::CLEAR_CACHE, self.bool(name, node)?),
                "Private" => msg.flags.set(StatusFlags::PRIVATE_STREAM, self.bool(name, node)?),
                "Qualified" => msg.flags.set(StatusFlags::QUALIFIED_STREAM, self.bool(name, node)?),
                "PostUserInfo" => msg.post_user_info = Some(self.post_user(node)?),
                "ReqKey" => {}
                _ => self.common(&mut common, name, node)?,
            }
        }
        let key = key.map(|node| self.key(node, common.domain, false)).transpose()?;
        common.fill(&mut msg.stream_id, &mut msg.domain);
        common.require_id(self)?;
        msg.container = common.container();
        msg.state = state.as_ref().map(StateBuf::as_state);
        msg.ext_header = common.ext_header.as_deref();
        msg.perm_data = common.perm_data.as_deref();
        msg.key = key.as_ref().map(Key::as_key);
        msg.encode_header(w)?;
        common.write_body(self, w)
    }

    fn update(&self, members: &Members<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut common = Common::default();
        let mut msg = UpdateMsg::new(Domain::MARKET_PRICE, 0);
        let mut key = None;
        for (name, node) in members {
            match name.as_ref() {
                "Key" => key = Some(node),
                "ConflationInfo" => msg.conflation = Some(self.conflation(node)?),
                "PostUserInfo" => msg.post_user_info = Some(self.post_user(node)?),
                "ReqKey" => {}
                name if self.update_member(&mut msg, name, node)? => {}
                name => self.common(&mut common, name, node)?,
            }
        }
        let key = key.map(|node| self.key(node, common.domain, false)).transpose()?;
        common.fill(&mut msg.stream_id, &mut msg.domain);
        common.require_id(self)?;
        msg.container = common.container();
        msg.ext_header = common.ext_header.as_deref();
        msg.perm_data = common.perm_data.as_deref();
        msg.key = key.as_ref().map(Key::as_key);
        msg.encode_header(w)?;
        common.write_body(self, w)
    }

    /// Takes a member that only updates have, and that is a plain value. False for others.
    pub(super) fn update_member(&self, msg: &mut UpdateMsg<'_>, name: &str, node: &Node<'_>) -> Encoded<bool> {
        match name {
            "UpdateType" => msg.update_type = self.named(name, node, UpdateType)?,
            "SeqNumber" => msg.seq_num = Some(self.number(name, node)?),
            "DoNotConflate" => msg.flags.set(UpdateFlags::DO_NOT_CONFLATE, self.bool(name, node)?),
            "DoNotRipple" => msg.flags.set(UpdateFlags::DO_NOT_RIPPLE, self.bool(name, node)?),
            "Discardable" => msg.flags.set(UpdateFlags::DISCARDABLE, self.bool(name, node)?),
            "DoNotCache" => msg.flags.set(UpdateFlags::DO_NOT_CACHE, self.bool(name, node)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn close(&self, members: &Members<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut common = Common::default();
        let mut msg = CloseMsg::new(Domain::MARKET_PRICE, 0);
        let mut streams: Option<Vec<i32>> = None;
        for (name, node) in members {
            match (name.as_ref(), node) {
                ("ID", Node::Array(ids)) => {
                    streams = Some(ids.iter().map(|id| self.number(name, id)).collect::<Result<_, _>>()?);
                }
                ("Ack", _) => msg.flags.set(CloseFlags::ACK, self.bool(name, node)?),
                _ => self.common(&mut common, name, node)?,
            }
        }
        common.fill(&mut msg.stream_id, &mut msg.domain);
        msg.ext_header = common.ext_header.as_deref();
        let Some(streams) = streams else {
            common.require_id(self)?;
            msg.container = common.container();
            msg.encode_header(w)?;
            return common.write_body(self, w);
        };
        msg.stream_id =
            *streams.first().ok_or_else(|| self.fail(ErrorKind::UnexpectedValue, "ID is an empty array".to_owned()))?;
        // The bit has no name in the codec's flags: ETA Java has none for it either.
        msg.flags.0 |= CLOSE_HAS_BATCH;
        msg.container = DataType::ELEMENT_LIST;
        msg.encode_header(w)?;
        Payload { streams: Some(streams), ..Payload::default() }.encode(w)
    }

    fn ack(&self, members: &Members<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut common = Common::default();
        let mut msg = AckMsg::new(Domain::MARKET_PRICE, 0);
        let mut text = None;
        let mut key = None;
        for (name, node) in members {
            match name.as_ref() {
                "Key" => key = Some(node),
                "AckID" => msg.ack_id = self.number(name, node)?,
                "NakCode" => msg.nak_code = Some(self.named(name, node, NakCode)?),
                "Text" => text = Some(self.text(name, node)?),
                "SeqNumber" => msg.seq_num = Some(self.number(name, node)?),
                "Private" => msg.flags.set(AckFlags::PRIVATE_STREAM, self.bool(name, node)?),
                "Qualified" => msg.flags.set(AckFlags::QUALIFIED_STREAM, self.bool(name, node)?),
                _ => self.common(&mut common, name, node)?,
            }
        }
        let key = key.map(|node| self.key(node, common.domain, false)).transpose()?;
        common.fill(&mut msg.stream_id, &mut msg.domain);
        common.require_id(self)?;
        msg.container = common.container();
        msg.text = text.map(str::as_bytes);
        msg.ext_header = common.ext_header.as_deref();
        msg.key = key.as_ref().map(Key::as_key);
        msg.encode_header(w)?;
        common.write_body(self, w)
    }

    fn generic(&self, members: &Members<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut common = Common::default();
        let mut msg = GenericMsg::new(Domain::MARKET_PRICE, 0);
        let mut complete = true;
        let mut key = None;
        for (name, node) in members {
            match name.as_ref() {
                "Key" => key = Some(node),
                "SeqNumber" => msg.seq_num = Some(self.number(name, node)?),
                "SecSeqNumber" => msg.secondary_seq_num = Some(self.number(name, node)?),
                "PartNumber" => msg.part_num = Some(self.number(name, node)?),
                "Complete" => complete = self.bool(name, node)?,
                "ProviderDriven" => msg.flags.set(GenericFlags::PROVIDER_DRIVEN, self.bool(name, node)?),
                "ReqKey" => {}
                _ => self.common(&mut common, name, node)?,
            }
        }
        msg.flags.set(GenericFlags::MESSAGE_COMPLETE, complete);
        let key = key.map(|node| self.key(node, common.domain, false)).transpose()?;
        common.fill(&mut msg.stream_id, &mut msg.domain);
        common.require_id(self)?;
        msg.container = common.container();
        msg.ext_header = common.ext_header.as_deref();
        msg.perm_data = common.perm_data.as_deref();
        msg.key = key.as_ref().map(Key::as_key);
        msg.encode_header(w)?;
        common.write_body(self, w)
    }

    fn post(&self, members: &Members<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut common = Common::default();
        let mut msg = PostMsg::new(Domain::MARKET_PRICE, 0);
        let mut complete = true;
        let mut key = None;
        for (name, node) in members {
            match name.as_ref() {
                "Key" => key = Some(node),
                "PostUserInfo" => msg.post_user_info = self.post_user(node)?,
                "PostID" => msg.post_id = Some(self.number(name, node)?),
                "SeqNumber" => msg.seq_num = Some(self.number(name, node)?),
                "PartNumber" => msg.part_num = Some(self.number(name, node)?),
                "PostUserRights" => msg.post_user_rights = Some(self.number(name, node)?),
                "Ack" => msg.flags.set(PostFlags::ACK, self.bool(name, node)?),
                "Complete" => complete = self.bool(name, node)?,
                "ReqKey" => {}
                _ => self.common(&mut common, name, node)?,
            }
        }
        msg.flags.set(PostFlags::POST_COMPLETE, complete);
        let key = key.map(|node| self.key(node, common.domain, false)).transpose()?;
        common.fill(&mut msg.stream_id, &mut msg.domain);
        common.require_id(self)?;
        msg.container = common.container();
        msg.ext_header = common.ext_header.as_deref();
        msg.perm_data = common.perm_data.as_deref();
        msg.key = key.as_ref().map(Key::as_key);
        msg.encode_header(w)?;
        common.write_body(self, w)
    }
}

/// The bit of a close that closes several streams.
const CLOSE_HAS_BATCH: u16 = 0x04;

pub(super) type Members<'n> = [(std::borrow::Cow<'n, str>, Node<'n>)];

/// Members that all classes have.
struct Common<'n> {
    id: Option<i32>,
    domain: Domain,
    ext_header: Option<Vec<u8>>,
    perm_data: Option<Vec<u8>>,
    body: Option<(DataType, &'n Node<'n>)>,
}

impl Default for Common<'_> {
    fn default() -> Self {
        Self { id: None, domain: Domain::MARKET_PRICE, ext_header: None, perm_data: None, body: None }
    }
}

impl Common<'_> {
    fn fill(&self, stream_id: &mut i32, domain: &mut Domain) {
        *stream_id = self.id.unwrap_or(0);
        *domain = self.domain;
    }

    fn require_id(&self, reader: &JsonReader<'_>) -> Encoded {
        if self.id.is_some() { Ok(()) } else { Err(reader.missing("ID")) }
    }

    fn container(&self) -> DataType {
        self.body.map_or(DataType::NO_DATA, |(container, _)| container)
    }

    fn write_body(&self, reader: &JsonReader<'_>, w: &mut Writer<'_>) -> Encoded {
        self.body.map_or(Ok(()), |(container, node)| reader.container(container, node, w))
    }
}

/// A message key that owns its parts.
struct Key {
    service_id: Option<u16>,
    name: Option<Vec<u8>>,
    name_type: u8,
    filter: Option<u32>,
    identifier: Option<i32>,
    attrib: Option<(DataType, Vec<u8>)>,
    /// The names of a batch.
    batch: Option<Vec<Vec<u8>>>,
}

impl Key {
    fn as_key(&self) -> MsgKey<'_> {
        MsgKey {
            service_id: self.service_id,
            name: self.name.as_deref(),
            name_type: Some(self.name_type),
            filter: self.filter,
            identifier: self.identifier,
            attrib: self.attrib.as_ref().map(|(container, data)| Attrib::new(*container, data)),
            ..MsgKey::EMPTY
        }
    }
}

impl JsonReader<'_> {
    fn common<'n>(&self, common: &mut Common<'n>, name: &str, node: &'n Node<'n>) -> Encoded {
        match name {
            "Type" => {}
            "ID" => common.id = Some(self.number(name, node)?),
            "Domain" => common.domain = self.named(name, node, Domain)?,
            "ExtHdr" => common.ext_header = Some(self.base64(name, node)?),
            "PermData" => common.perm_data = Some(self.base64(name, node)?),
            _ => match member_container(name) {
                Some(container) => common.body = Some((container, node)),
                None => self.unknown(name)?,
            },
        }
        Ok(())
    }

    /// The key of a message of `domain`; only a request may name several items.
    fn key(&self, node: &Node<'_>, domain: Domain, is_request: bool) -> Encoded<Key> {
        /// Name types whose name is a dummy: one zero byte (ETA `UserIdTypes` cookie and authentication token).
        const NAMELESS: [u8; 2] = [4, 5];
        let Node::Object(members) = node else {
            return Err(self.wrong_kind("Key", "an object", node));
        };
        let mut key = Key {
            service_id: None,
            name: None,
            name_type: 1,
            filter: None,
            identifier: None,
            attrib: None,
            batch: None,
        };
        for (name, node) in members {
            match (name.as_ref(), node) {
                // Some clients write members that they have no value for.
                (_, Node::Null) => {}
                ("Name", Node::Text(text)) => key.name = Some(text.as_bytes().to_vec()),
                ("Name", Node::Array(names)) if is_request => {
                    let names = names.iter().map(|name| self.text("Name", name).map(|name| name.as_bytes().to_vec()));
                    key.batch = Some(names.collect::<Result<_, _>>()?);
                }
                ("Name", _) => return Err(self.wrong_kind("Name", "text or an array of text", node)),
                ("NameType", Node::Text(text)) => {
                    key.name_type = name_type_from_name(text).ok_or_else(|| self.unexpected("NameType", text))?;
                }
                ("NameType", _) => key.name_type = self.number(name, node)?,
                ("Service", Node::Text(text)) => {
                    let id = self.converter.services.id(text);
                    key.service_id = Some(id.ok_or_else(|| self.unexpected("Service", text))?);
                }
                ("Service", _) => key.service_id = Some(self.number(name, node)?),
                ("Filter", _) => key.filter = Some(self.number(name, node)?),
                ("Identifier", _) => key.identifier = Some(self.number(name, node)?),
                _ => match member_container(name) {
                    Some(container) => {
                        key.attrib = Some((container, self.part(node, |w| self.container(container, node, w))?));
                    }
                    None => self.unknown(name)?,
                },
            }
        }
        if NAMELESS.contains(&key.name_type) && key.name.as_ref().is_none_or(Vec::is_empty) {
            key.name = Some(vec![0]);
        }
        if !matches!(domain, Domain::LOGIN | Domain::SOURCE) {
            key.service_id = key.service_id.or(self.converter.settings.default_service_id);
        }
        Ok(key)
    }

    fn view(&self, node: &Node<'_>, view_type: Option<&Node<'_>>) -> Encoded<View> {
        let Node::Array(items) = node else {
            return Err(self.wrong_kind("View", "an array", node));
        };
        let by_name = matches!(view_type, Some(Node::Text(name)) if name == "NameList");
        if by_name {
            let names = items.iter().map(|name| self.text("View", name).map(|name| name.as_bytes().to_vec()));
            return Ok(View::Elements(names.collect::<Result<_, _>>()?));
        }
        let fids = items.iter().filter_map(|item| match item {
            Node::Text(name) => match self.converter.dictionary.field_named(name) {
                Some(def) => Some(Ok(def.fid())),
                None if self.converter.settings.unknown_members => Some(Err(self.unexpected("View", name))),
                // As an ADS: a view shows what there is of it.
                None => None,
            },
            _ => Some(self.number("View", item)),
        });
        Ok(View::Fields(fids.collect::<Result<_, _>>()?))
    }

    fn priority(&self, node: &Node<'_>) -> Encoded<Priority> {
        let mut priority = Priority::default();
        self.object("Priority", node, |name, node| {
            match name {
                "Class" => priority.class = self.number(name, node)?,
                "Count" => priority.count = self.number(name, node)?,
                _ => self.unknown(name)?,
            }
            Ok(())
        })?;
        Ok(priority)
    }

    fn conflation(&self, node: &Node<'_>) -> Encoded<Conflation> {
        let mut conflation = Conflation::default();
        self.object("ConflationInfo", node, |name, node| {
            match name {
                "Count" => conflation.count = self.number(name, node)?,
                "Time" => conflation.time = self.number(name, node)?,
                _ => self.unknown(name)?,
            }
            Ok(())
        })?;
        Ok(conflation)
    }

    fn post_user(&self, node: &Node<'_>) -> Encoded<PostUserInfo> {
        let (mut addr, mut id) = (None, None);
        self.object("PostUserInfo", node, |name, node| {
            match (name, node) {
                ("Address", Node::Text(text)) => {
                    let ip: Ipv4Addr = text.parse().map_err(|_| self.unexpected("Address", text))?;
                    addr = Some(ip.to_bits());
                }
                ("Address", _) => addr = Some(self.number(name, node)?),
                ("UserID", Node::Text(text)) => id = Some(text.parse().map_err(|_| self.unexpected("UserID", text))?),
                ("UserID", _) => id = Some(self.number(name, node)?),
                _ => self.unknown(name)?,
            }
            Ok(())
        })?;
        let addr = addr.ok_or_else(|| self.missing("Address"))?;
        Ok(PostUserInfo { addr, id: id.ok_or_else(|| self.missing("UserID"))? })
    }

    pub(super) fn state(&self, name: &str, node: &Node<'_>) -> Encoded<StateBuf> {
        let mut state = StateBuf::default();
        self.object(name, node, |name, node| {
            match name {
                "Stream" => state.stream = self.named(name, node, StreamState)?,
                "Data" => state.data = self.named(name, node, DataState)?,
                "Code" => state.code = self.named(name, node, StateCode)?,
                "Text" => state.text = self.text(name, node)?.as_bytes().to_vec(),
                _ => self.unknown(name)?,
            }
            Ok(())
        })?;
        Ok(state)
    }

    pub(super) fn qos(&self, name: &str, node: &Node<'_>) -> Encoded<Qos> {
        let mut qos = Qos::default();
        self.object(name, node, |name, node| {
            match name {
                "Timeliness" => qos.timeliness = self.named(name, node, Timeliness)?,
                "Rate" => qos.rate = self.named(name, node, Rate)?,
                "TimeInfo" => qos.time_info = self.number(name, node)?,
                "RateInfo" => qos.rate_info = self.number(name, node)?,
                "Dynamic" => qos.dynamic = self.bool(name, node)?,
                _ => self.unknown(name)?,
            }
            Ok(())
        })?;
        Ok(qos)
    }

    /// Calls `f` with each member of an object.
    pub(super) fn object<'n>(
        &self,
        name: &str,
        node: &'n Node<'n>,
        mut f: impl FnMut(&str, &'n Node<'n>) -> Encoded,
    ) -> Encoded {
        match node {
            Node::Object(members) => members.iter().try_for_each(|(name, node)| f(name, node)),
            _ => Err(self.wrong_kind(name, "an object", node)),
        }
    }

    pub(super) fn bool(&self, name: &str, node: &Node<'_>) -> Encoded<bool> {
        match node {
            Node::Bool(value) => Ok(*value),
            _ => Err(self.wrong_kind(name, "true or false", node)),
        }
    }

    pub(super) fn text<'n>(&self, name: &str, node: &'n Node<'n>) -> Encoded<&'n str> {
        match node {
            Node::Text(text) => Ok(text),
            _ => Err(self.wrong_kind(name, "text", node)),
        }
    }

    /// A whole number in the range of its type.
    pub(super) fn number<T: std::str::FromStr>(&self, name: &str, node: &Node<'_>) -> Encoded<T> {
        match node {
            Node::Number(text) => text.parse().map_err(|_| self.unexpected(name, text)),
            _ => Err(self.wrong_kind(name, "a number", node)),
        }
    }

    /// A number by its name or as it is.
    pub(super) fn named<T: Named>(&self, name: &str, node: &Node<'_>, from: fn(u8) -> T) -> Encoded<T> {
        match node {
            Node::Text(text) => T::from_json_name(text).ok_or_else(|| self.unexpected(name, text)),
            _ => self.number(name, node).map(from),
        }
    }

    pub(super) fn base64(&self, name: &str, node: &Node<'_>) -> Encoded<Vec<u8>> {
        let text = self.text(name, node)?;
        base64::decode(text)
            .ok_or_else(|| self.fail(ErrorKind::UnexpectedValue, format!("{name} is not base64: {text:?}")))
    }

    pub(super) fn wrong_kind(&self, name: &str, expected: &str, found: &Node<'_>) -> EncodeError {
        self.fail(ErrorKind::WrongKind, format!("{name} must be {expected}, not {}", found.kind()))
    }

    pub(super) fn unexpected(&self, name: &str, value: &str) -> EncodeError {
        self.fail(ErrorKind::UnexpectedValue, format!("{name} cannot be {value:?}"))
    }

    pub(super) fn missing(&self, name: &str) -> EncodeError {
        self.fail(ErrorKind::MissingMember, format!("{name} is missing"))
    }

    /// A member that is not known: an error if the settings say so.
    pub(super) fn unknown(&self, name: &str) -> Encoded {
        if self.converter.settings.unknown_members {
            return Err(self.fail(ErrorKind::UnknownMember, format!("{name:?} is not a known member here")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dictionary::Dictionary;
    use crate::json::Settings;
    use proptest::prelude::*;

    /// Texts of which each is in reach of one that is read in one pass.
    fn text() -> impl Strategy<Value = String> {
        let value = proptest::sample::select(vec![
            "1",
            "-1",
            "0",
            "2.50",
            "1e3",
            "01",
            "1.",
            "-",
            "null",
            "true",
            "\"Quote\"",
            "\"\"",
            "\"USD\"",
            "\"a\\u0041\"",
            "\"\u{e9}\"",
            "\"10:20:30\"",
            "\"2024-02-29\"",
            "\"Inf\"",
            "{}",
            "[]",
            "[1]",
            "99999999999999999999",
            "\"\t\"",
        ]);
        let field = proptest::sample::select(vec![
            "BID",
            "ASK",
            "22",
            "+22",
            "PROD_PERM",
            "DSPLY_NAME",
            "QUOTIM",
            "TRADE_DATE",
            "CURRENCY",
            "NONE",
            "B\\u0049D",
            "",
        ]);
        let fields = proptest::collection::vec((field, value.clone()), 0..6).prop_map(|fields| {
            let members: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            format!("{{{}}}", members.join(","))
        });
        let member = (
            proptest::sample::select(vec![
                "ID",
                "Type",
                "UpdateType",
                "SeqNumber",
                "DoNotCache",
                "Domain",
                "Key",
                "Fields",
                "Xml",
                "X",
            ]),
            value,
        );
        let member = member.prop_map(|(name, value)| format!("\"{name}\":{value}"));
        let plain = || {
            proptest::sample::select(vec![
                "\"ID\":5",
                "\"Type\":\"Update\"",
                "\"UpdateType\":\"Trade\"",
                " \"SeqNumber\" : 7 ",
            ])
        };
        let one = (
            proptest::collection::vec(plain().prop_map(str::to_owned), 0..5),
            proptest::collection::vec(member, 0..2),
            proptest::collection::vec(fields.prop_map(|fields| format!("\"Fields\": {fields}")), 0..3),
        );
        let one = one.prop_map(|(mut head, odd, fields)| {
            head.splice(0..0, ["\"Type\":\"Update\"".to_owned(), "\"ID\":-3".to_owned()]);
            head.extend(fields);
            head.extend(odd);
            format!("{{{}}}", head.join(","))
        });
        let some = proptest::collection::vec(one.clone(), 0..3).prop_map(|all| format!("[{}]", all.join(" , ")));
        (prop_oneof![one, some], proptest::sample::select(vec!["", "", "", " ", ",", "}", "x"]))
            .prop_map(|(text, end)| text + end)
    }

    proptest! {
        /// One pass gives what the tree does, or nothing.
        #[test]
        fn both_ways_give_the_same(text in text(), cut in 0_usize..400, unknown in any::<bool>()) {
            let dictionary = Dictionary::builtin();
            let settings = Settings { unknown_fields: unknown, unknown_members: unknown, ..Settings::rtds() };
            let converter = Converter::new(&dictionary).with_settings(settings);
            let cut = (0..=cut.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            for text in [&text[..], &text[..cut]] {
                if let Some(found) = read_plain::updates(&converter, text) {
                    prop_assert_eq!(found, messages_of_tree(&converter, text), "{}", text);
                }
            }
        }
    }

    #[test]
    fn plain_updates_need_no_tree() {
        let dictionary = Dictionary::builtin();
        let converter = Converter::new(&dictionary).with_settings(Settings::rtds());
        for text in [
            r#"{"ID":5,"Type":"Update","UpdateType":"Quote","SeqNumber":9,"Fields":{"BID":1.5,"ASK":null}}"#,
            r#" [ { "Type" : "Update" , "ID" : -5 , "Fields" : { } } , {"ID":6,"Type":"Update","Domain":"MarketPrice"} ] "#,
        ] {
            let found = read_plain::updates(&converter, text).unwrap();
            assert_eq!(found, messages_of_tree(&converter, text), "{text}");
        }
    }
}
