//! Messages as words: what a script writes about a message, and what a message is written as. Both ways use the same words, so that
//! what was got can be laid beside what was expected.
//!
//! `crates/sim/conformance/README.md` lists the words.

use crate::encoding::bytes_of;
use crate::fields::{Row, is_link, parse_field, parse_row, write_fields};
use crate::numbers::ServiceIds;
use crate::special;
use rwf::container::{
    FieldList, Map, MapAction, MapEncoder, MapHead, SetScope, Vector, VectorAction, VectorEncoder, VectorHead,
};
use rwf::msg::{
    AckMsg, CloseFlags, CloseMsg, Conflation, Domain, GenericFlags, GenericMsg, Msg, MsgKey, NakCode, PostFlags,
    PostMsg, PostUserInfo, Priority, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, StatusFlags, StatusMsg,
    UpdateFlags, UpdateMsg, UpdateType,
};
use rwf::rdm::request::{Payload, View};
use rwf::{
    DataState, DataType, DecodeError, EncodeError, Primitive, Qos, Rate, State, StateCode, StreamState, Timeliness,
};

/// The name of a constant as the usage guide writes it: `NOT_FOUND` is `NotFound`.
pub fn camel(name: &str) -> String {
    let word = |word: &str| format!("{}{}", &word[..1], word[1..].to_lowercase());
    name.split('_').filter(|part| !part.is_empty()).map(word).collect()
}

/// The value of an open enumeration by its name in that way.
macro_rules! named {
    ($kind:ty, $text:expr) => {{
        let text: &str = $text;
        let found = <$kind>::ALL.iter().copied().find(|value| value.name().is_some_and(|name| camel(name) == text));
        found.ok_or_else(|| format!("{text} is no {}", stringify!($kind)))
    }};
}

/// The name of a value, or its number.
macro_rules! name {
    ($value:expr) => {
        $value.name().map_or_else(|| $value.to_string(), camel)
    };
}

/// The words of a message that is to be sent: `key=value`, flags, states, fields, rows.
pub struct Words<'a> {
    words: &'a [String],
    used: Vec<bool>,
}

impl<'a> Words<'a> {
    /// Words of which none has been read.
    pub fn new(words: &'a [String]) -> Self {
        Self { words, used: vec![false; words.len()] }
    }

    /// Whether this word is there; it counts as read.
    pub fn flag(&mut self, word: &str) -> bool {
        let at = self.words.iter().position(|candidate| candidate == word);
        at.inspect(|&at| self.used[at] = true).is_some()
    }

    /// The value of `KEY=VALUE`; it counts as read.
    pub fn value(&mut self, key: &str) -> Option<&'a str> {
        let of = |word: &'a String| word.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
        let (at, value) = self.words.iter().enumerate().find_map(|(at, word)| Some((at, of(word)?)))?;
        self.used[at] = true;
        Some(value)
    }

    /// The number of `KEY=NUMBER`; it counts as read.
    ///
    /// # Errors
    /// The value is no number of this type.
    pub fn number<T: std::str::FromStr>(&mut self, key: &str) -> Result<Option<T>, String> {
        let value = self.value(key);
        value.map(|value| value.parse().map_err(|_| format!("{key}={value}: no number that fits"))).transpose()
    }

    fn domain(&mut self) -> Result<Domain, String> {
        self.value("domain").map_or(Ok(Domain::MARKET_PRICE), |text| named!(Domain, text))
    }

    /// Domains by their names, between commas.
    pub(crate) fn domains(&mut self, key: &str) -> Result<Option<Vec<Domain>>, String> {
        let names = self.value(key).map(|all| all.split(',').map(|text| named!(Domain, text)).collect());
        names.transpose()
    }

    fn qos(&mut self, key: &str) -> Result<Option<Qos>, String> {
        self.value(key).map(parse_qos).transpose()
    }

    fn text(&mut self) -> &'a str {
        let at = self.words.iter().position(|word| word.starts_with('"'));
        at.inspect(|&at| self.used[at] = true).map_or("", |at| self.words[at].trim_matches('"'))
    }

    fn state(&mut self) -> Result<Option<State<'a>>, String> {
        let is_state = |word: &String| {
            let head = word.split('/').next().unwrap_or_default();
            word.contains('/') && named!(StreamState, head).is_ok()
        };
        let Some(at) = self.words.iter().position(is_state) else { return Ok(None) };
        self.used[at] = true;
        let mut parts = self.words[at].split('/');
        let stream = named!(StreamState, parts.next().unwrap_or_default())?;
        let data = named!(DataState, parts.next().unwrap_or_default())?;
        let code = parts.next().map_or(Ok(StateCode::NONE), |code| named!(StateCode, code))?;
        Ok(Some(State::new(stream, data, code, self.text())))
    }

    fn item_key(&mut self, services: &ServiceIds) -> Result<Option<MsgKey<'a>>, String> {
        let service = self.value("service").map(|name| service_id(name, services)).transpose()?;
        let name = self.value("item");
        if service.is_none() && name.is_none() {
            return Ok(None);
        }
        let name_type = self.number("name-type")?.or(name.map(|_| 1));
        Ok(Some(MsgKey { service_id: service, name: name.map(str::as_bytes), name_type, ..MsgKey::EMPTY }))
    }

    fn user_info(&mut self) -> Result<Option<PostUserInfo>, String> {
        let Some(text) = self.value("user-info") else { return Ok(None) };
        let (addr, id) = text.split_once('/').ok_or("user-info=ADDRESS/ID")?;
        let addr: std::net::Ipv4Addr = addr.parse().map_err(|_| "user-info=ADDRESS/ID")?;
        Ok(Some(PostUserInfo { addr: addr.to_bits(), id: id.parse().map_err(|_| "user-info=ADDRESS/ID")? }))
    }

    /// Fields or rows.
    fn body(&mut self) -> Result<(DataType, Vec<u8>), String> {
        let mut fields = Vec::new();
        let mut rows = Vec::new();
        let ordered = self.flag("vector");
        for (at, word) in self.words.iter().enumerate() {
            if let Some(field) = parse_field(word) {
                self.used[at] = true;
                fields.push(field);
            } else if let Some(row) = parse_row(word)? {
                self.used[at] = true;
                rows.push(row);
            }
        }
        if !rows.is_empty() {
            return Ok(if ordered { (DataType::VECTOR, vector(&rows)?) } else { (DataType::MAP, map(&rows)?) });
        }
        if fields.is_empty() {
            return Ok((DataType::NO_DATA, Vec::new()));
        }
        Ok((DataType::FIELD_LIST, bytes_of(|w| write_fields(&fields, w))?))
    }

    /// Nothing may be left that nobody has read: it would be a word that is not known.
    ///
    /// # Errors
    /// The first word that was not read.
    pub fn end(self) -> Result<(), String> {
        match self.used.iter().position(|used| !used) {
            Some(at) => Err(format!("the word {} is not known here", self.words[at])),
            None => Ok(()),
        }
    }
}

fn service_id(name: &str, services: &ServiceIds) -> Result<u16, String> {
    if let Some(id) = name.strip_prefix('#').and_then(|id| id.parse().ok()) {
        return Ok(id);
    }
    services.get(name).copied().ok_or_else(|| format!("the service {name} is not in the directory here"))
}

/// A type of updates by its name.
///
/// # Errors
/// No type has the name.
pub fn update_type(text: &str) -> Result<UpdateType, String> {
    named!(UpdateType, text)
}

/// A quality of service: `TIMELINESS/RATE`, each perhaps with `:NUMBER` behind it.
///
/// # Errors
/// The text is not of that form.
pub fn parse_qos(text: &str) -> Result<Qos, String> {
    let (timeliness, rate) = text.split_once('/').ok_or("a quality is TIMELINESS/RATE")?;
    let split = |part: &str| match part.split_once(':') {
        Some((name, info)) => {
            info.parse().map(|info| (name.to_owned(), info)).map_err(|_| format!("{part}: no number"))
        }
        None => Ok((part.to_owned(), 0)),
    };
    let (timeliness, time_info) = split(timeliness)?;
    let (rate, rate_info) = split(rate)?;
    let (timeliness, rate) = (named!(Timeliness, &timeliness)?, named!(Rate, &rate)?);
    Ok(Qos { timeliness, rate, dynamic: false, time_info, rate_info })
}

/// A quality of service as [`parse_qos`] reads it.
pub fn qos_word(qos: Qos) -> String {
    let with = |name: String, info: u16| if info == 0 { name } else { format!("{name}:{info}") };
    format!("{}/{}", with(name!(qos.timeliness), qos.time_info), with(name!(qos.rate), qos.rate_info))
}

fn map(rows: &[Row]) -> Result<Vec<u8>, String> {
    bytes_of(|w| {
        let mut map = MapEncoder::begin(w, MapHead::new(DataType::BUFFER, DataType::FIELD_LIST))?;
        for (action, key, fields) in rows {
            let key = Primitive::Buffer(key.as_bytes());
            match action.as_str() {
                "delete" => map.delete(&key)?,
                "update" => map.entry(MapAction::UPDATE, &key, |w| write_fields(fields, w))?,
                _ => map.entry(MapAction::ADD, &key, |w| write_fields(fields, w))?,
            }
        }
        map.finish()
    })
}

fn vector(rows: &[Row]) -> Result<Vec<u8>, String> {
    bytes_of(|w| {
        let mut vector = VectorEncoder::begin(w, VectorHead::new(DataType::FIELD_LIST))?;
        for (action, index, fields) in rows {
            let index = index.parse().map_err(|_| EncodeError::Unrepresentable("an index that is no number"))?;
            let action = match action.as_str() {
                "delete" => VectorAction::DELETE,
                "update" => VectorAction::UPDATE,
                "insert" => VectorAction::INSERT,
                "clear" => VectorAction::CLEAR,
                _ => VectorAction::SET,
            };
            vector.entry(action, index, |w| write_fields(fields, w))?;
        }
        vector.finish()
    })
}

/// Encodes the message of a class with these words, on a stream. `services` are those of the connection.
///
/// # Errors
/// A word is not known or not possible in such a message, in words for whoever wrote the script.
pub fn build(class: &str, stream: i32, words: &[String], services: &ServiceIds) -> Result<Vec<u8>, String> {
    let mut words = Words::new(words);
    let bytes = match class {
        "REQUEST" => request(stream, &mut words, services)?,
        "REFRESH" => refresh(stream, &mut words, services)?,
        "UPDATE" => update(stream, &mut words, services)?,
        "STATUS" => status(stream, &mut words, services)?,
        "CLOSE" => close(stream, &mut words)?,
        "ACK" => ack(stream, &mut words)?,
        "GENERIC" => generic(stream, &mut words, services)?,
        "POST" => post(stream, &mut words, services)?,
        other => return Err(format!("{other} is no class of messages")),
    };
    words.end()?;
    Ok(bytes)
}

fn names(list: &str) -> Vec<&[u8]> {
    list.split(',').map(str::as_bytes).collect()
}

fn numbers<T: std::str::FromStr>(list: &str) -> Result<Vec<T>, String> {
    list.split(',').map(|number| number.parse().map_err(|_| format!("{number} is no number here"))).collect()
}

fn request(stream: i32, words: &mut Words<'_>, services: &ServiceIds) -> Result<Vec<u8>, String> {
    let mut flags = RequestFlags::NONE;
    flags.set(RequestFlags::STREAMING, !words.flag("snapshot") | words.flag("streaming"));
    flags.set(RequestFlags::PRIVATE_STREAM, words.flag("private"));
    flags.set(RequestFlags::QUALIFIED_STREAM, words.flag("qualified"));
    flags.set(RequestFlags::PAUSE, words.flag("pause"));
    flags.set(RequestFlags::NO_REFRESH, words.flag("no-refresh"));
    flags.set(RequestFlags::MSG_KEY_IN_UPDATES, words.flag("key-in-updates"));
    flags.set(RequestFlags::CONF_INFO_IN_UPDATES, words.flag("conf-in-updates"));
    let mut payload = Payload {
        items: words.value("batch").map(names),
        streams: words.value("streams").map(numbers).transpose()?,
        data_streams: words.number("data-streams")?,
        view: None,
    };
    if let Some(view) = words.value("view") {
        payload.view = Some(View::Fields(numbers(view)?));
        flags |= RequestFlags::HAS_VIEW;
    }
    flags.set(RequestFlags::HAS_BATCH, payload.items.is_some() || payload.streams.is_some());
    let has_body = payload != Payload::default();
    let body = if has_body { bytes_of(|w| payload.encode(w))? } else { Vec::new() };
    let priority = words.value("priority").map(|text| {
        let (class, count) = text.split_once('/').ok_or("priority=CLASS/COUNT")?;
        let (class, count) = (class.parse().map_err(|_| "a class")?, count.parse().map_err(|_| "a count")?);
        Ok::<_, String>(Priority { class, count })
    });
    let mut key = words.item_key(services)?.unwrap_or(MsgKey::EMPTY);
    key.filter = words.number("filter")?;
    let msg = RequestMsg {
        flags,
        key,
        priority: priority.transpose()?,
        qos: words.qos("qos")?,
        worst_qos: words.qos("worst-qos")?,
        container: if has_body { DataType::ELEMENT_LIST } else { DataType::NO_DATA },
        body: &body,
        ..RequestMsg::new(words.domain()?, stream)
    };
    bytes_of(|w| msg.encode(w))
}

fn refresh(stream: i32, words: &mut Words<'_>, services: &ServiceIds) -> Result<Vec<u8>, String> {
    let mut flags = RefreshFlags::NONE;
    let unsolicited = words.flag("unsolicited");
    flags.set(RefreshFlags::SOLICITED, words.flag("solicited") && !unsolicited);
    flags.set(RefreshFlags::REFRESH_COMPLETE, words.flag("complete"));
    flags.set(RefreshFlags::CLEAR_CACHE, words.flag("clear-cache"));
    flags.set(RefreshFlags::DO_NOT_CACHE, words.flag("do-not-cache"));
    flags.set(RefreshFlags::PRIVATE_STREAM, words.flag("private"));
    flags.set(RefreshFlags::QUALIFIED_STREAM, words.flag("qualified"));
    let group = words.value("group").map(numbers::<u8>).transpose()?.unwrap_or_default();
    let (container, body) = words.body()?;
    let msg = RefreshMsg {
        flags,
        container,
        body: &body,
        state: words.state()?.unwrap_or(State::OPEN_OK),
        group_id: &group,
        qos: words.qos("qos")?,
        seq_num: words.number("seq")?,
        part_num: words.number("part")?,
        key: words.item_key(services)?,
        post_user_info: words.user_info()?,
        ..RefreshMsg::new(words.domain()?, stream)
    };
    bytes_of(|w| msg.encode(w))
}

fn update(stream: i32, words: &mut Words<'_>, services: &ServiceIds) -> Result<Vec<u8>, String> {
    let mut flags = UpdateFlags::NONE;
    flags.set(UpdateFlags::DO_NOT_CACHE, words.flag("do-not-cache"));
    flags.set(UpdateFlags::DO_NOT_CONFLATE, words.flag("do-not-conflate"));
    flags.set(UpdateFlags::DO_NOT_RIPPLE, words.flag("do-not-ripple"));
    flags.set(UpdateFlags::DISCARDABLE, words.flag("discardable"));
    let (container, body) = words.body()?;
    let msg = UpdateMsg {
        flags,
        container,
        body: &body,
        update_type: words.value("type").map_or(Ok(UpdateType::UNSPECIFIED), update_type)?,
        seq_num: words.number("seq")?,
        key: words.item_key(services)?,
        post_user_info: words.user_info()?,
        ..UpdateMsg::new(words.domain()?, stream)
    };
    bytes_of(|w| msg.encode(w))
}

fn status(stream: i32, words: &mut Words<'_>, services: &ServiceIds) -> Result<Vec<u8>, String> {
    let mut flags = StatusFlags::NONE;
    flags.set(StatusFlags::CLEAR_CACHE, words.flag("clear-cache"));
    flags.set(StatusFlags::PRIVATE_STREAM, words.flag("private"));
    flags.set(StatusFlags::QUALIFIED_STREAM, words.flag("qualified"));
    let group = words.value("group").map(numbers::<u8>).transpose()?;
    let msg = StatusMsg {
        flags,
        state: words.state()?,
        group_id: group.as_deref(),
        key: words.item_key(services)?,
        ..StatusMsg::new(words.domain()?, stream)
    };
    bytes_of(|w| msg.encode(w))
}

fn close(stream: i32, words: &mut Words<'_>) -> Result<Vec<u8>, String> {
    let mut flags = CloseFlags::NONE;
    flags.set(CloseFlags::ACK, words.flag("ack"));
    let streams: Option<Vec<i32>> = words.value("streams").map(numbers).transpose()?;
    let has_body = streams.is_some();
    if has_body {
        // ETA's HAS_BATCH of a close.
        flags = CloseFlags(flags.0 | 0x04);
    }
    let payload = Payload { streams, ..Payload::default() };
    let body = if has_body { bytes_of(|w| payload.encode(w))? } else { Vec::new() };
    let container = if has_body { DataType::ELEMENT_LIST } else { DataType::NO_DATA };
    let msg = CloseMsg { flags, container, body: &body, ..CloseMsg::new(words.domain()?, stream) };
    bytes_of(|w| msg.encode(w))
}

fn ack(stream: i32, words: &mut Words<'_>) -> Result<Vec<u8>, String> {
    let nak_code = words.value("nak").map(|text| named!(NakCode, text)).transpose()?;
    let text = words.text();
    let msg = AckMsg {
        ack_id: words.number("id")?.ok_or("an ACK says id=")?,
        seq_num: words.number("seq")?,
        nak_code,
        text: (!text.is_empty()).then_some(text.as_bytes()),
        ..AckMsg::new(words.domain()?, stream)
    };
    bytes_of(|w| msg.encode(w))
}

fn generic(stream: i32, words: &mut Words<'_>, services: &ServiceIds) -> Result<Vec<u8>, String> {
    let mut flags = GenericFlags::NONE;
    flags.set(GenericFlags::MESSAGE_COMPLETE, words.flag("complete"));
    let (container, body) = words.body()?;
    let msg = GenericMsg {
        flags,
        container,
        body: &body,
        seq_num: words.number("seq")?,
        key: words.item_key(services)?,
        ..GenericMsg::new(words.domain()?, stream)
    };
    bytes_of(|w| msg.encode(w))
}

fn post(stream: i32, words: &mut Words<'_>, services: &ServiceIds) -> Result<Vec<u8>, String> {
    let mut flags = PostFlags::NONE;
    flags.set(PostFlags::ACK, words.flag("ack"));
    flags.set(PostFlags::POST_COMPLETE, words.flag("complete"));
    let (container, body) = words.body()?;
    let msg = PostMsg {
        flags,
        container,
        body: &body,
        post_user_info: words.user_info()?.unwrap_or_default(),
        post_id: words.number("id")?,
        seq_num: words.number("seq")?,
        part_num: words.number("part")?,
        key: words.item_key(services)?,
        ..PostMsg::new(words.domain()?, stream)
    };
    bytes_of(|w| msg.encode(w))
}

/// A message as words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// Its class, as scripts write it: `REFRESH`.
    pub class: &'static str,
    /// Its stream.
    pub stream: i32,
    /// Its domain.
    pub domain: Domain,
    /// Name of its key.
    pub item: Option<String>,
    /// Its words: flags, states, values, content.
    pub words: Vec<String>,
    /// The text of its state or ack.
    pub text: String,
}

impl ReceivedMessage {
    /// Reads a message. `services` are those of the connection.
    ///
    /// # Errors
    /// The bytes are no message, or its content cannot be decoded.
    pub fn of(bytes: &[u8], services: &ServiceIds) -> Result<Self, DecodeError> {
        let msg = Msg::decode(bytes)?;
        let mut told = Self {
            class: "",
            stream: msg.stream_id(),
            domain: msg.domain(),
            item: None,
            words: Vec::new(),
            text: String::new(),
        };
        if ![Domain::MARKET_PRICE, Domain::LOGIN, Domain::SOURCE].contains(&told.domain) {
            told.words.push(format!("domain={}", name!(told.domain)));
        }
        told.read(&msg, services)?;
        Ok(told)
    }

    fn read(&mut self, msg: &Msg<'_>, services: &ServiceIds) -> Result<(), DecodeError> {
        match msg {
            Msg::Request(m) => self.read_request(m, services),
            Msg::Refresh(m) => self.read_refresh(m, services)?,
            Msg::Status(m) => {
                self.class = "STATUS";
                self.state(m.state.as_ref());
                self.flags(m.flags.0, StatusFlags::NAMES.iter().map(|(flag, name)| (flag.0, *name)));
                self.key(m.key.as_ref(), services);
                self.option("group", m.group_id.map(list));
            }
            Msg::Update(m) => self.read_update(m, services)?,
            Msg::Close(m) => {
                self.class = "CLOSE";
                self.flags(m.flags.0, CloseFlags::NAMES.iter().map(|(flag, name)| (flag.0, *name)));
            }
            Msg::Ack(m) => {
                self.class = "ACK";
                self.words.push(format!("id={}", m.ack_id));
                self.option("seq", m.seq_num);
                self.option("nak", m.nak_code.map(|code| name!(code)));
                self.text = String::from_utf8_lossy(m.text.unwrap_or_default()).into_owned();
            }
            Msg::Generic(m) => {
                self.class = "GENERIC";
                self.option("seq", m.seq_num);
                self.key(m.key.as_ref(), services);
                match m.domain {
                    Domain::SOURCE => self.words.extend(special::mirroring_words(m, services)),
                    _ => self.body(m.container, m.body)?,
                }
            }
            Msg::Post(m) => {
                self.class = "POST";
                self.flags(m.flags.0, PostFlags::NAMES.iter().map(|(flag, name)| (flag.0, *name)));
                self.option("id", m.post_id);
                self.option("seq", m.seq_num);
                self.option("part", m.part_num);
                self.words.push(format!("user-info={}/{}", m.post_user_info.ip(), m.post_user_info.id));
                self.key(m.key.as_ref(), services);
                self.body(m.container, m.body)?;
            }
        }
        Ok(())
    }

    fn read_request(&mut self, m: &RequestMsg<'_>, services: &ServiceIds) {
        self.class = "REQUEST";
        self.words.push(if m.flags.contains(RequestFlags::STREAMING) { "streaming" } else { "snapshot" }.to_owned());
        let flags = RequestFlags::NAMES.iter().map(|(flag, name)| (flag.0, *name));
        self.flags(m.flags.without(RequestFlags::STREAMING).0, flags);
        self.key(Some(&m.key), services);
        self.option("priority", m.priority.map(|priority| format!("{}/{}", priority.class, priority.count)));
        self.option("qos", m.qos.map(qos_word));
        self.option("worst-qos", m.worst_qos.map(qos_word));
        if let Ok(payload) = Payload::of_request(m)
            && let Some(View::Fields(fids)) = &payload.view
        {
            self.words.push(format!("view={}", list(fids)));
        }
    }

    fn read_refresh(&mut self, m: &RefreshMsg<'_>, services: &ServiceIds) -> Result<(), DecodeError> {
        self.class = "REFRESH";
        self.state(Some(&m.state));
        self.words.push(if m.flags.contains(RefreshFlags::SOLICITED) { "solicited" } else { "unsolicited" }.to_owned());
        let flags = RefreshFlags::NAMES.iter().map(|(flag, name)| (flag.0, *name));
        self.flags(m.flags.without(RefreshFlags::SOLICITED).0, flags);
        self.option("qos", m.qos.map(qos_word));
        self.option("seq", m.seq_num);
        self.option("part", m.part_num);
        self.option("group", (!m.group_id.is_empty()).then(|| list(m.group_id)));
        self.option("user-info", m.post_user_info.map(|info| format!("{}/{}", info.ip(), info.id)));
        self.key(m.key.as_ref(), services);
        match m.domain {
            Domain::LOGIN | Domain::SOURCE => {}
            Domain::DICTIONARY => self.words.extend(special::dictionary_words(m)),
            _ => self.body(m.container, m.body)?,
        }
        Ok(())
    }

    fn read_update(&mut self, m: &UpdateMsg<'_>, services: &ServiceIds) -> Result<(), DecodeError> {
        self.class = "UPDATE";
        self.flags(m.flags.0, UpdateFlags::NAMES.iter().map(|(flag, name)| (flag.0, *name)));
        if m.update_type != UpdateType::UNSPECIFIED {
            self.words.push(format!("type={}", name!(m.update_type)));
        }
        self.option("seq", m.seq_num);
        self.words.extend(m.perm_data.map(|_| "locked".to_owned()));
        self.option("conf", m.conflation.map(|Conflation { count, time }| format!("{count}/{time}")));
        self.option("user-info", m.post_user_info.map(|info| format!("{}/{}", info.ip(), info.id)));
        self.key(m.key.as_ref(), services);
        if m.domain != Domain::SOURCE {
            self.body(m.container, m.body)?;
        }
        Ok(())
    }

    fn option(&mut self, key: &str, value: Option<impl std::fmt::Display>) {
        self.words.extend(value.map(|value| format!("{key}={value}")));
    }

    fn flags<T: Into<u32>>(&mut self, set: T, names: impl Iterator<Item = (T, &'static str)>) {
        let set = set.into();
        for (flag, name) in names {
            if !name.starts_with("HAS_") && set & flag.into() != 0 {
                let word = name.to_lowercase().replace('_', "-");
                self.words.push(match word.as_str() {
                    "refresh-complete" | "post-complete" | "message-complete" => "complete".to_owned(),
                    "private-stream" => "private".to_owned(),
                    "qualified-stream" => "qualified".to_owned(),
                    "msg-key-in-updates" => "key-in-updates".to_owned(),
                    "conf-info-in-updates" => "conf-in-updates".to_owned(),
                    other => other.to_owned(),
                });
            }
        }
    }

    fn state(&mut self, state: Option<&State<'_>>) {
        if let Some(state) = state {
            self.words.push(format!("{}/{}/{}", name!(state.stream), name!(state.data), name!(state.code)));
            self.text = state.text_lossy().into_owned();
        }
    }

    fn key(&mut self, key: Option<&MsgKey<'_>>, services: &ServiceIds) {
        let Some(key) = key else { return };
        if key.name.is_some() {
            let name = key.name_lossy().into_owned();
            self.words.push(if self.domain == Domain::LOGIN { format!("user={name}") } else { format!("item={name}") });
            self.item = Some(name);
        }
        if let Some(id) = key.service_id {
            let name = services.iter().find(|(_, known)| **known == id).map(|(name, _)| name.clone());
            self.words.push(format!("service={}", name.unwrap_or_else(|| format!("#{id}"))));
        }
    }

    fn body(&mut self, container: DataType, body: &[u8]) -> Result<(), DecodeError> {
        match container {
            DataType::NO_DATA => {}
            DataType::FIELD_LIST => {
                let fields = read_fields(body)?;
                self.words.extend(fields);
            }
            DataType::MAP => self.map(body)?,
            DataType::VECTOR => self.vector(body)?,
            other => self.words.push(format!("payload={other}")),
        }
        Ok(())
    }

    fn map(&mut self, body: &[u8]) -> Result<(), DecodeError> {
        let map = Map::decode(body, &SetScope::NONE)?;
        for entry in map.entries() {
            let entry = entry?;
            let key = String::from_utf8_lossy(entry.key);
            self.words.push(row(&name!(entry.action).to_lowercase(), &key, map.container, entry.data)?);
        }
        Ok(())
    }

    fn vector(&mut self, body: &[u8]) -> Result<(), DecodeError> {
        let vector = Vector::decode(body, &SetScope::NONE)?;
        self.words.push("vector".to_owned());
        for entry in vector.entries() {
            let entry = entry?;
            let action = name!(entry.action).to_lowercase();
            self.words.push(row(&action, &entry.index.to_string(), vector.container, entry.data)?);
        }
        Ok(())
    }

    /// The message as a line, with this name for its stream.
    pub fn line(&self, stream: &str) -> String {
        let text = if self.text.is_empty() { String::new() } else { format!(" \"{}\"", self.text) };
        let words = self.words.join(" ");
        format!("{} {stream} {words}{text}", self.class)
    }

    /// Why the message is not the one of these words; `None` if it is.
    pub fn differs(&self, expected: &[String]) -> Option<String> {
        for word in expected {
            let there = match word.strip_prefix('"') {
                Some(text) => self.text.contains(text.trim_end_matches('"')),
                None => match word.strip_prefix('!') {
                    Some(absent) => !self.has(absent),
                    None => self.has(word),
                },
            };
            if !there {
                return Some(format!("not {word}"));
            }
        }
        // Payload that is spoken of is spoken of in full.
        let is_content = |word: &&String| parse_field(word).is_some() || matches!(parse_row(word), Ok(Some(_)));
        if expected.iter().any(|word| is_content(&word)) {
            let more = self.words.iter().filter(is_content).find(|word| !expected.contains(word));
            return more.map(|word| format!("there is {word}, too"));
        }
        None
    }

    fn has(&self, word: &str) -> bool {
        let fits = |told: &String| {
            // A state may leave its code out.
            is_word(told, word)
                || told.strip_prefix(word).is_some_and(|rest| rest.starts_with('/') && word.contains('/'))
        };
        self.words.iter().any(fits)
    }
}

/// Whether a word that was told is the one that a script expects, in which a star at the end stands for what only one run knows: the number that
/// a session gives a group, the time over which updates were conflated.
pub fn is_word(told: &str, expected: &str) -> bool {
    told == expected || expected.strip_suffix('*').is_some_and(|begin| told.starts_with(begin))
}

fn row(action: &str, key: &str, container: DataType, data: &[u8]) -> Result<String, DecodeError> {
    let fields = if container == DataType::FIELD_LIST && !data.is_empty() { read_fields(data)? } else { Vec::new() };
    Ok(if fields.is_empty() { format!("{action}:{key}") } else { format!("{action}:{key}{{{}}}", fields.join(",")) })
}

fn list<T: std::fmt::Display>(values: &[T]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Fields in their order, as words. The numbers of scripts are unsigned, and links names; of other fields the bytes make a number, too.
fn read_fields(body: &[u8]) -> Result<Vec<String>, DecodeError> {
    let list = FieldList::decode(body, &SetScope::NONE)?;
    let word = |fid: i16, data: &[u8]| {
        if is_link(fid) {
            return format!("{fid}={}", String::from_utf8_lossy(data));
        }
        format!("{fid}={}", data.iter().fold(0, |value: u64, byte| value << 8 | u64::from(*byte)))
    };
    list.entries().map(|entry| entry.map(|entry| word(entry.fid, entry.data))).collect()
}

/// A status message of a stream.
pub(crate) fn status_of(stream: i32, domain: Domain, state: State<'_>) -> Result<Vec<u8>, String> {
    let msg = StatusMsg { state: Some(state), ..StatusMsg::new(domain, stream) };
    bytes_of(|w| msg.encode(w))
}

/// The answer to a post; `nak` is the name of a code.
pub(crate) fn ack_of(
    stream: i32,
    domain: Domain,
    id: u32,
    seq: Option<u32>,
    nak: Option<&str>,
) -> Result<Vec<u8>, String> {
    let nak_code = nak.map(|text| named!(NakCode, text)).transpose()?;
    let text = nak_code.map(|code| code.text().as_bytes());
    let msg = AckMsg { ack_id: id, seq_num: seq, nak_code, text, ..AckMsg::new(domain, stream) };
    bytes_of(|w| msg.encode(w))
}

/// An update whose field list, or map, says that it has more than there is.
pub(crate) fn malformed(stream: i32, domain: Domain) -> Result<Vec<u8>, String> {
    let container = if domain == Domain::MARKET_PRICE { DataType::FIELD_LIST } else { DataType::MAP };
    let body = [0x08, 0x00, 0x09, 0x00, 0x16, 0x40, 0x01];
    let msg = UpdateMsg { container, body: &body, ..UpdateMsg::new(domain, stream) };
    bytes_of(|w| msg.encode(w))
}
