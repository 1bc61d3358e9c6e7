//! The texts of a server's JSON clients: what they say as RWF messages, and RWF messages as what they get.
//!
//! A body is converted once, however many clients get it: what differs between them is the stream id, which stands first in the text
//! and is written for each, and behind it the key of an item in its statuses and updates. Where no client speaks JSON nothing is converted.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::hash::Hasher as _;
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHasher};
use rwf::DecodeError;
use rwf::dictionary::Dictionary;
use rwf::json::{Converter, Incoming, LeftOut, PONG, ServiceNames, Settings, write_number};
use rwf::msg::{Domain, MsgClass};

use super::JsonPacker;
use super::keys::{JsonPeer, KeyTexts, Kind};

/// Errors that a client may make in one connection before it is closed.
const ERRORS_MAX: u32 = 1_000;

/// How texts are made.
#[derive(Debug, Clone, Default)]
pub struct TextOptions {
    /// Services are numbers in what clients get, not names.
    pub service_numbers: bool,
    /// Enumerated fields are shown by their display where the dictionary has one.
    pub expand_enums: bool,
    /// A client's message with an unknown member is an error.
    pub catch_unknown_members: bool,
    /// A client's unknown fields are passed over, and no error.
    pub skip_unknown_fields: bool,
    /// The service of requests that name none; empty for the first there is.
    pub default_service: String,
    /// What is added to the answer to a login: see [`login_payload`].
    pub login_payload: String,
}

/// State that one server's JSON clients share.
#[derive(Debug)]
pub struct JsonTexts {
    dictionary: Arc<Dictionary>,
    names: Names,
    settings: Settings,
    default_service: String,
    login_payload: String,
    /// Texts of this flush.
    text: Vec<u8>,
    /// Where the text of a body is, by the body's address and length, and the body's [`hash_of`]. Good for one flush, through which bodies stay
    /// where they are.
    bodies: FxHashMap<(usize, usize), (Text, u64)>,
    /// The text of the last body, since many in turn get the same.
    last: Option<((usize, usize), Text)>,
    keys: KeyTexts,
    /// The part of a message that is one client's own.
    own: Vec<u8>,
    left_out: LeftOut,
}

/// The text of a body.
#[derive(Debug, Clone)]
struct Text {
    /// Where it is, behind its stream id.
    range: Range<usize>,
    kind: Kind,
}

/// The contents of a client's text.
#[derive(Debug)]
pub enum Read<'a> {
    /// A message, encoded.
    Message(&'a [u8]),
    /// One JSON message that the client is owed for its part: a `Pong`, or an `Error`.
    Reply(String),
    /// The client could not read what it was sent: its words.
    Complaint(String),
    /// The client has made too many errors, and nothing more of its text is read.
    TooManyErrors,
}

impl JsonTexts {
    /// Without dictionary and services, until [`JsonTexts::set_dictionary`] and [`JsonTexts::set_services`].
    #[must_use]
    pub fn new(options: TextOptions) -> Self {
        Self {
            dictionary: Arc::new(Dictionary::new()),
            names: Names::new(options.service_numbers),
            settings: Settings {
                expand_enums: options.expand_enums,
                unknown_members: options.catch_unknown_members,
                unknown_fields: !options.skip_unknown_fields,
                ..Settings::rtds()
            },
            default_service: options.default_service,
            login_payload: options.login_payload,
            text: Vec::new(),
            bodies: FxHashMap::default(),
            last: None,
            keys: KeyTexts::default(),
            own: Vec::new(),
            left_out: LeftOut::default(),
        }
    }

    /// Fields that the dictionary does not have, and no client was given, each counted once for all clients of a flush.
    pub fn fields_left_out(&self) -> u64 {
        self.left_out.fields()
    }

    /// Fields are those of this dictionary from now on.
    pub fn set_dictionary(&mut self, dictionary: &Arc<Dictionary>) {
        if !Arc::ptr_eq(&self.dictionary, dictionary) {
            self.dictionary = Arc::clone(dictionary);
        }
    }

    /// Takes over the services that there are. `from` gives those from a place on, ids and names, in an order that stays as long as `renamed`
    /// is what it was; `first` is the service of requests that name none, where the options do not say. To be called before texts are read
    /// or written.
    pub fn set_services<'n, I: Iterator<Item = (u16, &'n str)>>(
        &mut self,
        renamed: u64,
        from: impl FnOnce(usize) -> I,
        first: Option<u16>,
    ) {
        if self.names.renamed != renamed {
            self.names.renamed = renamed;
            self.names.forget_known();
        }
        for (id, name) in from(self.names.taken) {
            self.names.take(id, name);
        }
        if self.names.next.get() >= UNKNOWN_MAX {
            self.names.forget_unknown();
        }
        self.settings.default_service_id =
            if self.default_service.is_empty() { first } else { self.names.id(&self.default_service) };
    }

    fn converter(&self) -> Converter<'_> {
        let converter = Converter::new(&self.dictionary).with_settings(self.settings).with_services(&self.names);
        converter.counting(&self.left_out)
    }

    /// Reads a client's text, part by part. `each` tells of a message whether it is done: one that has to wait is to be given to
    /// [`JsonTexts::note_message`] when it is, since until then the client's streams are what they were. Of all else it tells nothing.
    pub fn read(&mut self, peer: &mut JsonPeer, text: &str, mut each: impl FnMut(Read<'_>) -> bool) {
        let Self { dictionary, names, settings, keys, .. } = self;
        let converter = Converter::new(dictionary).with_settings(*settings).with_services(names);
        for message in converter.messages(text) {
            match message {
                Ok(Incoming::Message(message)) => {
                    if each(Read::Message(&message)) {
                        peer.note_message(&message, &converter, keys);
                    }
                }
                Ok(Incoming::Ping) => {
                    each(Read::Reply(PONG.to_owned()));
                }
                Ok(Incoming::Pong) => {}
                Ok(Incoming::Error(text)) => {
                    each(Read::Complaint(text));
                }
                Err(error) => {
                    peer.errors += 1;
                    if peer.errors > ERRORS_MAX {
                        each(Read::TooManyErrors);
                        return;
                    }
                    each(Read::Reply(error.reply()));
                }
            }
        }
    }

    /// A message of a client that had to wait is done.
    pub fn note_message(&mut self, peer: &mut JsonPeer, message: &[u8]) {
        let Self { dictionary, names, settings, keys, .. } = self;
        let converter = Converter::new(dictionary).with_settings(*settings).with_services(names);
        peer.note_message(message, &converter, keys);
    }

    /// Writes a message to one client under its stream id; tells whether it answers the client's login. Bodies stay where they are
    /// until [`JsonTexts::end_flush`].
    ///
    /// # Errors
    /// The message cannot be decoded, so no JSON stands for it; nothing is written then.
    pub fn write(
        &mut self,
        peer: &mut JsonPeer,
        body: &[u8],
        stream: i32,
        packer: &mut JsonPacker<'_>,
    ) -> Result<bool, DecodeError> {
        let Text { range, kind } = self.convert(body)?;
        self.own.clear();
        self.own.extend_from_slice(ID);
        write_number(stream.into(), &mut self.own);
        peer.passes(kind, stream, &mut self.own);
        let shared = &self.text[range];
        if !answers_login(body) {
            packer.push_parts(&self.own, shared);
            return Ok(false);
        }
        // Alone in its frame: some clients take the first frame for this answer and nothing else.
        let whole = [shared.strip_suffix(b"}").unwrap_or(shared), self.login_payload.as_bytes()].concat();
        packer.end_frame();
        packer.push_parts(&self.own, &whole);
        packer.end_frame();
        Ok(true)
    }

    /// The text of a body behind its stream id.
    fn convert(&mut self, body: &[u8]) -> Result<Text, DecodeError> {
        let address = (body.as_ptr() as usize, body.len());
        if let Some((last, text)) = &self.last
            && *last == address
        {
            debug_assert!(self.is_same(body, address), "a body has changed within a flush");
            return Ok(text.clone());
        }
        let text = match self.bodies.get(&address) {
            Some((text, _)) => {
                debug_assert!(self.is_same(body, address), "a body has changed within a flush");
                text.clone()
            }
            None => self.convert_first(body, address)?,
        };
        self.last = Some((address, text.clone()));
        Ok(text)
    }

    /// Whether what is at this address is what was converted, as far as debug builds know.
    fn is_same(&self, body: &[u8], address: (usize, usize)) -> bool {
        self.bodies.get(&address).is_some_and(|(_, hash)| *hash == hash_of(body))
    }

    /// The same, for a body that nobody has got yet in this flush.
    fn convert_first(&mut self, body: &[u8], address: (usize, usize)) -> Result<Text, DecodeError> {
        let start = self.text.len();
        let mut text = std::mem::take(&mut self.text);
        let converted = self.converter().message_utf8(body, &mut text);
        self.text = text;
        converted?;
        let head = self.text[start..].strip_prefix(ID).unwrap_or_default();
        debug_assert!(!head.is_empty(), "a message begins with its id");
        let id = head.iter().position(|byte| *byte != b'-' && !byte.is_ascii_digit()).unwrap_or(head.len());
        let range = self.text.len() - head.len() + id..self.text.len();
        let text = Text { range, kind: Kind::of(body) };
        self.bodies.insert(address, (text.clone(), hash_of(body)));
        Ok(text)
    }

    /// The bodies of a flush are void: others will lie where they lay.
    pub fn end_flush(&mut self) {
        if !self.bodies.is_empty() {
            self.bodies.clear();
            self.last = None;
            self.text.clear();
            self.text.shrink_to(TEXT_KEPT);
        }
    }
}

/// What tells bodies apart in debug builds, where it is checked that an address stands for one body through a flush; elsewhere nothing.
fn hash_of(body: &[u8]) -> u64 {
    if !cfg!(debug_assertions) {
        return 0;
    }
    let mut hasher = FxHasher::default();
    hasher.write(body);
    hasher.finish()
}

/// How every message begins.
const ID: &[u8] = b"{\"ID\":";

/// Room for texts that is kept between flushes, bytes.
const TEXT_KEPT: usize = 1 << 20;

/// The payload that is added to the text of the answer to a login, with its end: the ping timeout, and the longest message that is taken,
/// bytes.
#[must_use]
pub fn login_payload(ping_timeout_s: u16, message_bytes_max: usize) -> String {
    format!(",\"Elements\":{{\"PingTimeout\":{ping_timeout_s},\"MaxMsgSize\":{message_bytes_max}}}}}")
}

/// Whether an encoded message is the refresh that answers a login. Class and domain stand at fixed places in a message's header.
#[must_use]
pub fn answers_login(msg: &[u8]) -> bool {
    let class = msg.get(2).map(|class| MsgClass(class & 0x1F));
    class == Some(MsgClass::REFRESH) && msg.get(3) == Some(&Domain::LOGIN.0)
}

/// Names of services for the converter.
#[derive(Debug, Default)]
struct Names {
    /// By id; empty for an id that no service has.
    known: Vec<Box<str>>,
    /// Clients choose what is looked for here: hashed with a key that nobody knows.
    by_name: HashMap<Box<str>, u16>,
    /// Services taken over, which is the place of the next one.
    taken: usize,
    /// Renamings of services that `known` has followed.
    renamed: u64,
    /// Services are numbers in what is sent.
    numbers: bool,
    /// Names that no service has, with ids from the top: so that a request for one is answered as for any unknown service, and under
    /// the name that was asked for.
    unknown: Vec<OnceCell<Box<str>>>,
    next: Cell<usize>,
}

/// Unknown names that are told apart at a time.
const UNKNOWN_MAX: usize = 256;

impl Names {
    fn new(numbers: bool) -> Self {
        let mut names = Self { numbers, ..Self::default() };
        names.forget_unknown();
        names
    }

    fn take(&mut self, id: u16, name: &str) {
        let slot = usize::from(id);
        if self.known.len() <= slot {
            self.known.resize(slot + 1, Box::default());
        }
        self.known[slot] = name.into();
        self.by_name.insert(name.into(), id);
        self.taken += 1;
    }

    fn forget_known(&mut self) {
        self.known.clear();
        self.by_name.clear();
        self.taken = 0;
    }

    fn forget_unknown(&mut self) {
        self.unknown = (0..UNKNOWN_MAX).map(|_| OnceCell::new()).collect();
        self.next.set(0);
    }

    fn unknown_id(index: usize) -> u16 {
        u16::MAX - index as u16
    }
}

impl ServiceNames for Names {
    fn name(&self, id: u16) -> Option<&str> {
        if self.numbers {
            return None;
        }
        let known = self.known.get(usize::from(id)).map(|name| &**name).filter(|name| !name.is_empty());
        known.or_else(|| self.unknown.get(usize::from(u16::MAX - id))?.get().map(|name| &**name))
    }

    fn id(&self, name: &str) -> Option<u16> {
        if let Some(&id) = self.by_name.get(name) {
            return Some(id);
        }
        let used = self.next.get().min(self.unknown.len());
        if let Some(index) = self.unknown[..used].iter().position(|known| known.get().is_some_and(|k| **k == *name)) {
            return Some(Self::unknown_id(index));
        }
        if let Some(free) = self.unknown.get(used) {
            let _ = free.set(name.into());
            self.next.set(used + 1);
            return Some(Self::unknown_id(used));
        }
        // More unknown names in one turn than are told apart: this one is answered under its number.
        Some(u16::MAX - UNKNOWN_MAX as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ws::{Json, JsonConfig, Limits, Role, Socket};
    use rwf::State;
    use rwf::msg::{RefreshFlags, RefreshMsg, StatusMsg, UpdateMsg};
    use rwf::wire::Writer;

    /// A client of a server whose service 1 is FEED.
    struct Client {
        texts: JsonTexts,
        peer: JsonPeer,
        session: Json,
        /// Messages that were said and are not done.
        waiting: Vec<Vec<u8>>,
    }

    impl Client {
        fn new() -> Self {
            let mut texts = JsonTexts::new(TextOptions::default());
            texts.set_services(0, |place| [(1, "FEED")].into_iter().skip(place), Some(1));
            let socket = Socket::new(Role::Server, false, Limits::default());
            let session = Json::new(
                socket,
                JsonConfig { ping_timeout_s: 60, frame_payload_max_bytes: 10_000, ..JsonConfig::default() },
                0,
            );
            Self { texts, peer: JsonPeer::default(), session, waiting: Vec::new() }
        }

        fn says(&mut self, text: &str, done: bool) {
            let Self { texts, peer, waiting, .. } = self;
            texts.read(peer, text, |read| {
                let Read::Message(message) = read else { panic!("{read:?}") };
                if !done {
                    waiting.push(message.to_vec());
                }
                done
            });
        }

        /// The first message that waits is done.
        fn done(&mut self) {
            let message = self.waiting.remove(0);
            self.texts.note_message(&mut self.peer, &message);
        }

        /// What the client gets for a message on stream 5.
        fn gets(&mut self, encode: impl FnOnce(&mut Writer<'_>) -> Result<(), rwf::EncodeError>) -> String {
            let mut buffer = [0; 500];
            let mut w = Writer::new(&mut buffer);
            encode(&mut w).unwrap();
            let mut bytes = Vec::new();
            let mut packer = self.session.pack(0, &mut bytes);
            self.texts.write(&mut self.peer, w.written(), 5, &mut packer).unwrap();
            packer.finish();
            self.texts.end_flush();
            String::from_utf8_lossy(&bytes).into_owned()
        }

        fn update(&mut self) -> String {
            self.gets(|w| UpdateMsg::new(Domain::MARKET_PRICE, 0).encode(w))
        }

        fn image(&mut self) {
            let flags = RefreshFlags::REFRESH_COMPLETE | RefreshFlags::SOLICITED;
            let refresh = RefreshMsg { flags, state: State::OPEN_OK, ..RefreshMsg::new(Domain::MARKET_PRICE, 0) };
            self.gets(|w| refresh.encode(w));
        }
    }

    /// What is said behind a large batch waits in the server: until then a stream is what it was.
    #[test]
    fn a_stream_is_another_one_when_the_messages_that_say_so_are_done() {
        let mut client = Client::new();
        client.says(r#"{"ID":5,"Key":{"Name":"OLD"}}"#, true);
        client.image();
        assert!(client.update().contains(r#""Name":"OLD""#));
        client.says(r#"[{"ID":5,"Type":"Close"},{"ID":5,"Key":{"Name":"NEW"}}]"#, false);
        client.image();
        assert!(client.update().contains(r#""Name":"OLD""#), "the item that was there goes on");
        let closed = State { stream: rwf::StreamState::CLOSED, ..State::OPEN_OK };
        client.gets(|w| StatusMsg { state: Some(closed), ..StatusMsg::new(Domain::MARKET_PRICE, 0) }.encode(w));
        client.done();
        assert!(!client.update().contains("Name"), "there is none");
        client.done();
        client.image();
        assert!(client.update().contains(r#""Name":"NEW""#), "the end of the old one is not that of the new one");
    }

    #[test]
    fn unknown_services_keep_their_names_for_the_answer() {
        let mut names = Names::new(false);
        names.take(1, "DIRECT_FEED");
        names.take(300, "FAR");
        assert_eq!((names.id("DIRECT_FEED"), names.id("FAR")), (Some(1), Some(300)));
        assert_eq!((names.name(2), names.name(300), names.name(301)), (None, Some("FAR"), None));
        let (a, b) = (names.id("A").unwrap(), names.id("B").unwrap());
        assert!(a != b && names.id("A") == Some(a));
        assert_eq!((names.name(a), names.name(b), names.name(1)), (Some("A"), Some("B"), Some("DIRECT_FEED")));
        for n in 0..1000 {
            assert!(names.id(&n.to_string()).is_some_and(|id| id > 60_000));
        }
        names.forget_unknown();
        assert_eq!(names.name(a), None);
    }
}
