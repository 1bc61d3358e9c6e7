//! JSON as members: what all messages have, keys, states and plain values.

use std::cell::{Cell, RefCell};
use std::net::Ipv4Addr;

use super::names::{Named, member_container, name_type_from_name};
use super::parse::Node;
use super::{Converter, ErrorKind, JsonError, base64};
use crate::msg::{Attrib, Conflation, Domain, MsgKey, PostUserInfo, Priority};
use crate::rdm::request::View;
use crate::rdm::state::StateBuf;
use crate::wire::{Writer, encode_growing};
use crate::{DataState, DataType, EncodeError, Qos, Rate, StateCode, StreamState, Timeliness};

/// A message of more bytes than this is not built.
const MAX_MESSAGE: usize = 64 << 20;

/// Reads JSON nodes. What is wrong with them is kept in `error`, and an encoding error that stands for it ends the
/// encoding, because the encoders of containers pass only those on.
pub(super) struct JsonReader<'c> {
    pub(super) converter: Converter<'c>,
    error: RefCell<Option<JsonError>>,
    /// How many times its weight a node may take. Whatever was once too small makes all that follows larger, because
    /// parts are nested: if each tried for itself, a hostile text could make them try without end.
    growth: Cell<usize>,
    /// A message within a message is read: its key says what was written alone.
    is_within: Cell<bool>,
}

pub(super) type Encoded<T = ()> = Result<T, EncodeError>;

impl<'c> JsonReader<'c> {
    pub(super) fn new(converter: Converter<'c>) -> Self {
        Self { converter, error: RefCell::new(None), growth: Cell::new(1), is_within: Cell::new(false) }
    }
}

impl JsonReader<'_> {
    /// Writes a message that stands within another one. A key without a service is not given the default one: that is for the message that goes
    /// somewhere, and what is checked of a post has to be told from what was filled in.
    pub(super) fn message_within(&self, node: &Node<'_>, w: &mut Writer<'_>) -> Encoded {
        let before = self.is_within.replace(true);
        let written = self.message(node, w);
        self.is_within.set(before);
        written
    }

    /// Keeps the error and gives the one that stands for it.
    pub(super) fn fail(&self, kind: ErrorKind, text: String) -> EncodeError {
        self.error.borrow_mut().get_or_insert(JsonError::new(kind, text));
        EncodeError::Unrepresentable("JSON")
    }

    /// Runs an encoding of a node on a buffer that grows as long as it is too small.
    pub(super) fn build(
        &self,
        node: &Node<'_>,
        encode: impl FnMut(&mut Writer<'_>) -> Encoded,
    ) -> Result<Vec<u8>, JsonError> {
        let weight = 64 + node.weight();
        let room = weight.saturating_mul(self.growth.get()).min(MAX_MESSAGE);
        let mut buf = vec![0; room];
        let end = encode_growing(&mut buf, 0, room, MAX_MESSAGE, encode);
        self.growth.set(self.growth.get().max(buf.len() / weight));
        buf.truncate(end.map_err(|error| self.error.take().unwrap_or_else(|| error.into()))?);
        Ok(buf)
    }

    /// As [`JsonReader::build`], for a part of what is being encoded.
    pub(super) fn part(&self, node: &Node<'_>, encode: impl FnMut(&mut Writer<'_>) -> Encoded) -> Encoded<Vec<u8>> {
        self.build(node, encode).map_err(|error| self.fail(error.kind, error.text))
    }
}

pub(super) type Members<'n> = [(std::borrow::Cow<'n, str>, Node<'n>)];

/// The members of a message, or of a part of its header, that say something. Clients write `null` for what they have no value for, which is
/// the same as no such member; only containers are left, of which `null` is an empty one.
pub(super) fn given<'n>(members: &'n Members<'n>) -> impl Iterator<Item = (&'n str, &'n Node<'n>)> {
    let members = members.iter().map(|(name, node)| (name.as_ref(), node));
    members.filter(|(name, node)| !matches!(node, Node::Null) || member_container(name).is_some())
}

/// Members that all classes have.
pub(super) struct SharedMembers<'n> {
    id: Option<i32>,
    pub(super) domain: Domain,
    pub(super) ext_header: Option<Vec<u8>>,
    pub(super) perm_data: Option<Vec<u8>>,
    body: Option<(DataType, &'n Node<'n>)>,
}

impl Default for SharedMembers<'_> {
    fn default() -> Self {
        Self { id: None, domain: Domain::MARKET_PRICE, ext_header: None, perm_data: None, body: None }
    }
}

impl SharedMembers<'_> {
    pub(super) fn fill(&self, stream_id: &mut i32, domain: &mut Domain) {
        *stream_id = self.id.unwrap_or(0);
        *domain = self.domain;
    }

    pub(super) fn require_id(&self, reader: &JsonReader<'_>) -> Encoded {
        if self.id.is_some() { Ok(()) } else { Err(reader.missing("ID")) }
    }

    pub(super) fn container(&self) -> DataType {
        self.body.map_or(DataType::NO_DATA, |(container, _)| container)
    }

    pub(super) fn write_body(&self, reader: &JsonReader<'_>, w: &mut Writer<'_>) -> Encoded {
        self.body.map_or(Ok(()), |(container, node)| reader.container(container, node, w))
    }
}

/// A message key that owns its parts.
pub(super) struct Key {
    service_id: Option<u16>,
    name: Option<Vec<u8>>,
    name_type: u8,
    filter: Option<u32>,
    identifier: Option<i32>,
    attrib: Option<(DataType, Vec<u8>)>,
    /// The names of a batch.
    pub(super) batch: Option<Vec<Vec<u8>>>,
}

impl Key {
    pub(super) fn as_key(&self) -> MsgKey<'_> {
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
    pub(super) fn common<'n>(&self, common: &mut SharedMembers<'n>, name: &str, node: &'n Node<'n>) -> Encoded {
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
    pub(super) fn key(&self, node: &Node<'_>, domain: Domain, is_request: bool) -> Encoded<Key> {
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
        if !matches!(domain, Domain::LOGIN | Domain::SOURCE) && !self.is_within.get() {
            key.service_id = key.service_id.or(self.converter.settings.default_service_id);
        }
        Ok(key)
    }

    pub(super) fn view(&self, node: &Node<'_>, view_type: Option<&Node<'_>>) -> Encoded<View> {
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

    pub(super) fn priority(&self, node: &Node<'_>) -> Encoded<Priority> {
        let mut priority = Priority::default();
        self.header("Priority", node, |name, node| {
            match name {
                "Class" => priority.class = self.number(name, node)?,
                "Count" => priority.count = self.number(name, node)?,
                _ => self.unknown(name)?,
            }
            Ok(())
        })?;
        Ok(priority)
    }

    pub(super) fn conflation(&self, node: &Node<'_>) -> Encoded<Conflation> {
        let mut conflation = Conflation::default();
        self.header("ConflationInfo", node, |name, node| {
            match name {
                "Count" => conflation.count = self.number(name, node)?,
                "Time" => conflation.time = self.number(name, node)?,
                _ => self.unknown(name)?,
            }
            Ok(())
        })?;
        Ok(conflation)
    }

    pub(super) fn post_user(&self, node: &Node<'_>) -> Encoded<PostUserInfo> {
        let (mut addr, mut id) = (None, None);
        self.header("PostUserInfo", node, |name, node| {
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
        self.header(name, node, |name, node| {
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
        self.header(name, node, |name, node| {
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

    /// As [`JsonReader::object`], for the members that are [`given`].
    pub(super) fn header<'n>(
        &self,
        name: &str,
        node: &'n Node<'n>,
        mut f: impl FnMut(&str, &'n Node<'n>) -> Encoded,
    ) -> Encoded {
        match node {
            Node::Object(members) => given(members).try_for_each(|(name, node)| f(name, node)),
            _ => Err(self.wrong_kind(name, "an object", node)),
        }
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
