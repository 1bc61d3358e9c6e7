//! A client that speaks JSON: both ends of its WebSocket session, and what is on its way between them.
//!
//! What the client is sent is read twice: by the converter, whose messages go to the same oracle as those of RSSL clients, and by a JSON
//! reader of other make, whose values have to be the same.

use super::content::{Change, Rows, SERVICES, apply, read_body};
use super::random::Random;
use rssl::ws::{Json, JsonConfig, JsonPeer, JsonTexts, Limits, Read, Role, Socket, TextOptions, login_payload};
use rwf::DataType;
use rwf::dictionary::Dictionary;
use rwf::json::{Converter, Incoming, ServiceNames, Settings};
use rwf::msg::{Domain, Msg};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The longest message that these P2PSs take, bytes.
const MESSAGE_MAX: usize = 61_440;
/// As RSSL's, since the worlds' quiet times are made for that.
const PING_TIMEOUT_S: u8 = 60;

/// The fields of the world, `F1` to `F7`.
fn dictionary() -> Arc<Dictionary> {
    let mut dictionary = Dictionary::new();
    let line = |fid: i16| format!("F{fid} \"FIELD {fid}\" {fid} NULL INTEGER 15 UINT64 8\n");
    let lines: String = (1..8).map(line).collect();
    dictionary.load_fields("the simulated world", lines.as_bytes()).expect("fields");
    Arc::new(dictionary)
}

/// The texts of a P2PS.
pub(crate) fn texts(service_numbers: bool) -> JsonTexts {
    let payload = login_payload(PING_TIMEOUT_S.into(), MESSAGE_MAX);
    let options = TextOptions { service_numbers, login_payload: payload, ..TextOptions::default() };
    let mut texts = JsonTexts::new(options);
    texts.set_dictionary(&dictionary());
    texts
}

/// The services as a client knows them from directories.
#[derive(Debug)]
struct Known<'a> {
    names: &'a BTreeMap<u16, String>,
    /// The client numbers services in what it says.
    numbers: bool,
}

impl ServiceNames for Known<'_> {
    fn name(&self, id: u16) -> Option<&str> {
        if self.numbers { None } else { self.names.get(&id).map(String::as_str) }
    }

    fn id(&self, name: &str) -> Option<u16> {
        self.names.iter().find(|(_, known)| *known == name).map(|(id, _)| *id)
    }
}

/// The connection.
#[derive(Debug)]
pub(crate) struct JsonWire {
    client: Json,
    server: Json,
    up: Vec<u8>,
    down: Vec<u8>,
    /// Its messages in both directions arrive at once.
    pub(crate) at_once: bool,
    dictionary: Arc<Dictionary>,
    numbers: bool,
    /// The server's knowledge of it.
    peer: JsonPeer,
    /// The client's updates have keys.
    keys: bool,
    /// The names of items that it has asked for, by stream.
    asked: BTreeMap<i64, Vec<String>>,
    /// Streams that it has closed once: what is on its way on them may have no key.
    closed: BTreeSet<i64>,
    /// Answers that the client is owed, in order: to messages that make no sense, and to pings.
    owed: VecDeque<Owed>,
    /// The client has its answer to the login.
    greeted: bool,
}

/// An answer to what is no RWF message.
#[derive(Debug, PartialEq)]
enum Owed {
    Pong,
    /// To this message.
    Error(Value),
}

/// Texts that make no sense, each for a reason of its own; `ID` is put before them.
const NONSENSE: [&str; 5] = [
    r#""Type":"Bogus""#,
    r#""Streaming":"yes","Key":{"Name":"A"}"#,
    r#""Type":"Request""#,
    r#""Type":"Post","Fields":{"NO_SUCH_FIELD":1}"#,
    r#""Type":"Generic","Domain":"Nowhere""#,
];

impl JsonWire {
    /// A connection that is upgraded; compression, fragments, and whether it takes time are left to chance.
    pub(crate) fn new(now: u64, random: &mut Random) -> Self {
        let deflate = random.chance(25);
        let singly = random.chance(15);
        let config = |payload| JsonConfig {
            ping_timeout_s: PING_TIMEOUT_S,
            frame_payload_max_bytes: payload,
            one_message_a_frame: singly,
        };
        let small = if random.chance(30) { 128 + random.below(300) } else { MESSAGE_MAX };
        let limits = Limits { frames_max: 100_000, ..Limits::default() };
        Self {
            client: Json::new(Socket::new(Role::Client(random.next()), deflate, limits), config(MESSAGE_MAX), now),
            server: Json::new(Socket::new(Role::Server, deflate, limits), config(small), now),
            up: Vec::new(),
            down: Vec::new(),
            at_once: random.chance(60),
            dictionary: dictionary(),
            numbers: random.chance(30),
            peer: JsonPeer::default(),
            keys: !deflate,
            asked: BTreeMap::new(),
            closed: BTreeSet::new(),
            owed: VecDeque::new(),
            greeted: false,
        }
    }

    /// The P2PS's messages for the client as bytes, in frames.
    pub(crate) fn write<'m>(
        &mut self,
        now: u64,
        texts: &mut JsonTexts,
        messages: impl Iterator<Item = (&'m [u8], i32)>,
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut packer = self.server.pack(now, &mut bytes);
        let mut logged_in = false;
        for (body, stream) in messages {
            let written = texts.write(&mut self.peer, body, stream, &mut packer);
            logged_in |= written.expect("a message that JSON stands for");
        }
        packer.finish();
        if logged_in {
            self.server.logged_in();
        }
        bytes
    }

    /// Bytes for the client are on their way.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.down.extend_from_slice(bytes);
    }

    /// The client says these messages: in an array or one by one, and now and then something that makes no sense between them, or a ping.
    pub(crate) fn say(&mut self, now: u64, messages: &[Vec<u8>], names: &BTreeMap<u16, String>, random: &mut Random) {
        let known = Known { names, numbers: self.numbers };
        let dictionary = Arc::clone(&self.dictionary);
        let converter = Converter::new(&dictionary).with_settings(Settings::EXACT).with_services(&known);
        let mut texts: Vec<String> = Vec::new();
        for message in messages {
            let mut text = String::new();
            converter.message(message, &mut text).expect("a message of a client");
            if self.keys {
                text = text.replace("\"KeyInUpdates\":false,", "");
            }
            self.note(&serde_json::from_str(&text).expect("JSON"));
            if random.chance(8) {
                let nonsense =
                    format!("{{\"ID\":{},{}}}", 5_000 + self.peer.errors(), random.pick(&NONSENSE).expect("one"));
                self.owed.push_back(Owed::Error(serde_json::from_str(&nonsense).expect("JSON")));
                texts.push(nonsense);
            }
            if self.greeted && random.chance(3) {
                self.owed.push_back(Owed::Pong);
                texts.push(r#"{"Type":"Ping"}"#.to_owned());
            }
            texts.push(text);
        }
        let mut bytes = Vec::new();
        let mut packer = self.client.pack(now, &mut bytes);
        for text in &texts {
            packer.push(text);
            if random.chance(50) {
                packer.end_frame();
            }
        }
        packer.finish();
        self.up.extend(bytes);
    }

    /// Some of what the client has said arrives, or all: its messages, as the P2PS takes them, and bytes that answer what is no message.
    pub(crate) fn arrive_up(
        &mut self,
        now: u64,
        all: bool,
        texts: &mut JsonTexts,
        random: &mut Random,
    ) -> (Vec<Vec<u8>>, Vec<u8>) {
        let Self { server, up, peer, .. } = self;
        let (mut messages, mut replies, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for piece in pieces(up, all, random) {
            let received = server.receive(now, &piece, &mut answers, |text| {
                texts.read(peer, text, |read| {
                    match read {
                        Read::Message(message) => messages.push(message.to_vec()),
                        Read::Reply(reply) => replies.push(reply),
                        Read::Complaint(text) => panic!("the client could not read: {text}"),
                        Read::TooManyErrors => panic!("too many errors"),
                    }
                    // When the P2PS is done with it.
                    false
                });
            });
            received.expect("a session that goes on");
        }
        server.on_timer(now, &mut answers).expect("a session that goes on");
        if !replies.is_empty() {
            let mut packer = server.pack(now, &mut answers);
            for reply in &replies {
                packer.push(reply);
            }
            packer.finish();
        }
        (messages, answers)
    }

    /// The P2PS is done with a message of the client.
    pub(crate) fn note_message(&mut self, texts: &mut JsonTexts, message: &[u8]) {
        texts.note_message(&mut self.peer, message);
    }

    /// Some of what is on its way to the client arrives, or all: the messages in it.
    pub(crate) fn arrive_down(
        &mut self,
        now: u64,
        all: bool,
        names: &BTreeMap<u16, String>,
        random: &mut Random,
    ) -> Vec<Vec<u8>> {
        let Self { client, up, down, owed, .. } = self;
        let mut heard = Vec::new();
        for piece in pieces(down, all, random) {
            client.receive(now, &piece, up, |text| heard.push(text.to_owned())).expect("a session that goes on");
        }
        let said = up.len();
        client.on_timer(now, up).expect("a session that goes on");
        if up.len() > said {
            owed.push_back(Owed::Pong);
        }
        heard.iter().flat_map(|text| self.hear(now, text, names)).collect()
    }

    /// The messages in a text from the server.
    fn hear(&mut self, now: u64, text: &str, names: &BTreeMap<u16, String>) -> Vec<Vec<u8>> {
        let Value::Array(values) = serde_json::from_str(text).expect("JSON") else {
            panic!("a frame that is no array: {text}")
        };
        let known = Known { names, numbers: self.numbers };
        let settings = Settings { unknown_members: true, unknown_fields: true, ..Settings::default() };
        let converter = Converter::new(&self.dictionary).with_settings(settings).with_services(&known);
        let incoming = converter.messages(text);
        assert_eq!(values.len(), incoming.len(), "messages in {text}");
        let mut messages = Vec::new();
        for (value, incoming) in values.iter().zip(incoming) {
            match incoming.unwrap_or_else(|error| panic!("{error}: {value}")) {
                Incoming::Message(message) => {
                    check_values(value, &message);
                    self.check_key(value);
                    self.greet(value, values.len());
                    messages.push(message);
                }
                Incoming::Ping => {
                    assert!(self.greeted, "a ping before the login is answered");
                    let mut packer = self.client.pack(now, &mut self.up);
                    packer.push(rwf::json::PONG);
                    packer.finish();
                }
                Incoming::Pong => assert_eq!(self.owed.pop_front(), Some(Owed::Pong), "a pong"),
                Incoming::Error(_) => self.told(value),
            }
        }
        messages
    }

    /// The client asks for items, or closes streams.
    fn note(&mut self, said: &Value) {
        let ids = |value: &Value| match value {
            Value::Array(ids) => ids.iter().filter_map(Value::as_i64).collect(),
            id => Vec::from_iter(id.as_i64()),
        };
        if said["Type"] == "Close" {
            self.closed.extend(ids(&said["ID"]));
        } else if said["Type"] == "Request" {
            let Some(id) = said["ID"].as_i64() else { return };
            match &said["Key"]["Name"] {
                Value::Array(names) => {
                    for (id, name) in (id + 1..).zip(names.iter().filter_map(Value::as_str)) {
                        self.asked.entry(id).or_default().push(name.to_owned());
                    }
                }
                name => self.asked.entry(id).or_default().extend(name.as_str().map(str::to_owned)),
            }
        }
    }

    /// An update has the key of the item that was asked for on its stream, where that was wanted; a status has it, too. Providers write keys into
    /// some updates themselves, whatever was wanted.
    fn check_key(&self, value: &Value) {
        let (kind, key) = (&value["Type"], &value["Key"]);
        let Some(id) = value["ID"].as_i64().filter(|_| kind == "Update" || kind == "Status") else { return };
        // A redirection names the other item.
        if value["Domain"] == "Source" || value["Domain"] == "Login" || value["State"]["Stream"] == "Redirected" {
            return;
        }
        let Some(asked) = self.asked.get(&id) else { return };
        match key["Name"].as_str() {
            Some(name) => assert!(asked.iter().any(|asked| asked == name), "{asked:?} were asked for: {value}"),
            None => assert!(kind == "Status" || !self.keys || self.closed.contains(&id), "no key: {value}"),
        }
    }

    /// The answer to the login comes first, and alone in its frame.
    fn greet(&mut self, value: &Value, in_frame: usize) {
        let is_login = value["Domain"] == "Login" && value["Type"] == "Refresh";
        if is_login {
            assert_eq!(in_frame, 1, "the answer to the login is alone in its frame");
            let payload = serde_json::json!({"PingTimeout": PING_TIMEOUT_S, "MaxMsgSize": MESSAGE_MAX});
            assert_eq!(value["Elements"], payload, "what the server says of itself");
            self.greeted = true;
            self.client.logged_in();
        }
    }

    /// The server could not read something.
    fn told(&mut self, value: &Value) {
        let Some(Owed::Error(said)) = self.owed.pop_front() else { panic!("{value} to a client that made sense") };
        assert_eq!(value["ID"], said["ID"], "the error's stream");
        let repeated = value["Debug"]["Message"].as_str().expect("what was wrong, in full");
        assert_eq!(serde_json::from_str::<Value>(repeated).expect("JSON"), said, "the error's message");
    }

    /// Nothing is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.up.is_empty() && self.down.is_empty()
    }

    /// Messages that made no sense and were answered by an error.
    pub(crate) fn nonsense(&self) -> u32 {
        self.peer.errors()
    }

    /// Whether it has got an answer to everything.
    pub(crate) fn is_answered(&self) -> bool {
        self.owed.is_empty()
    }
}

/// The connection of a provider that speaks JSON, dialled or dialling: what either side says arrives at once, cut anywhere, by real
/// sessions and texts.
#[derive(Debug)]
pub(crate) struct JsonProviderWire {
    provider: Json,
    distributor: Json,
    dictionary: Arc<Dictionary>,
    /// The provider's services.
    names: BTreeMap<u16, String>,
    /// The provider numbers its services.
    numbers: bool,
}

/// The end that has dialled a provider's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialled {
    ByDistributor,
    ByProvider,
}

impl JsonProviderWire {
    /// A connection that is upgraded, of a provider with these services.
    pub(crate) fn new(now: u64, dialled: Dialled, names: BTreeMap<u16, String>, random: &mut Random) -> Self {
        let small = if random.chance(30) { 128 + random.below(300) } else { MESSAGE_MAX };
        let config =
            JsonConfig { ping_timeout_s: PING_TIMEOUT_S, frame_payload_max_bytes: small, ..JsonConfig::default() };
        let limits = Limits { frames_max: 100_000, ..Limits::default() };
        let client = Json::new(Socket::new(Role::Client(random.next()), false, limits), config, now);
        let server = Json::new(Socket::new(Role::Server, false, limits), config, now);
        let (provider, distributor) = match dialled {
            Dialled::ByDistributor => (server, client),
            Dialled::ByProvider => (client, server),
        };
        Self { provider, distributor, dictionary: dictionary(), names, numbers: random.chance(30) }
    }

    /// The provider's messages, as the Source Distributor takes them.
    pub(crate) fn up(&mut self, now: u64, message: &[u8], random: &mut Random) -> Vec<u8> {
        let known = Known { names: &self.names, numbers: self.numbers };
        let says = Converter::new(&self.dictionary).with_settings(Settings::EXACT).with_services(&known);
        let settings = Settings { expand_enums: false, ..Settings::rtds() };
        let takes = says.with_settings(settings);
        carry(now, (&mut self.provider, says), (&mut self.distributor, takes), message, random)
    }

    /// The Source Distributor's messages, as the provider takes them.
    pub(crate) fn down(&mut self, now: u64, message: &[u8], random: &mut Random) -> Vec<u8> {
        let known = Known { names: &self.names, numbers: self.numbers };
        let settings = Settings { expand_enums: false, ..Settings::rtds() };
        let says = Converter::new(&self.dictionary).with_settings(settings).with_services(&known);
        let takes = says.with_settings(Settings { unknown_members: true, unknown_fields: true, ..Settings::default() });
        carry(now, (&mut self.distributor, says), (&mut self.provider, takes), message, random)
    }
}

/// A message from one end of a session to the other.
fn carry(
    now: u64,
    (from, says): (&mut Json, Converter<'_>),
    (to, takes): (&mut Json, Converter<'_>),
    message: &[u8],
    random: &mut Random,
) -> Vec<u8> {
    let mut text = String::new();
    says.message(message, &mut text).expect("a message that JSON stands for");
    let (mut bytes, mut answers, mut heard) = (Vec::new(), Vec::new(), Vec::new());
    let mut packer = from.pack(now, &mut bytes);
    packer.push(&text);
    packer.finish();
    for piece in pieces(&mut bytes, true, random) {
        to.receive(now, &piece, &mut answers, |text| heard.push(text.to_owned())).expect("a session that goes on");
    }
    assert!(answers.is_empty(), "nothing is to be answered");
    let [heard] = &heard[..] else { panic!("{} texts instead of one", heard.len()) };
    match takes.messages(heard).pop() {
        Some(Ok(Incoming::Message(message))) => message,
        other => panic!("{other:?} of {heard}"),
    }
}

/// Takes some of what is on its way, or all, cut anywhere.
fn pieces(way: &mut Vec<u8>, all: bool, random: &mut Random) -> Vec<Vec<u8>> {
    let count = if all { way.len() } else { random.below(way.len() + 1) };
    let mut taken: Vec<u8> = way.drain(..count).collect();
    let mut pieces = Vec::new();
    while !taken.is_empty() {
        let piece = if random.chance(70) { taken.len() } else { 1 + random.below(taken.len()) };
        pieces.push(taken.drain(..piece).collect());
    }
    pieces
}

/// The values in a text are those of the message that the converter makes of it.
fn check_values(value: &Value, message: &[u8]) {
    let msg = Msg::decode(message).expect("a message");
    assert_eq!(value["ID"], msg.stream_id(), "stream of {value}");
    if let Some(state) = msg.state() {
        assert_eq!(value["State"]["Text"].as_str().unwrap_or_default(), state.text_lossy(), "text of {value}");
    }
    if !matches!(msg, Msg::Refresh(_) | Msg::Update(_)) || matches!(msg.domain(), Domain::LOGIN | Domain::SOURCE) {
        return;
    }
    assert_eq!(value["SeqNumber"].as_u64(), msg.seq_num().map(u64::from), "sequence number of {value}");
    if let Some(service) = value["Key"]["Service"].as_str() {
        assert!(SERVICES.contains(&service), "service of {value}");
    }
    let read = read_body(msg.container(), msg.body());
    let (mut deleted, mut rows) = (Vec::new(), Rows::new());
    match msg.container() {
        DataType::FIELD_LIST => fields(0, &value["Fields"], &mut rows),
        DataType::MAP => map(&value["Map"], &mut deleted, &mut rows),
        DataType::ANSI_PAGE => {
            let text = value["AnsiPage"].as_str().expect("a page is a text");
            apply(&mut rows, &read_body(DataType::ANSI_PAGE, text.as_bytes()));
        }
        DataType::NO_DATA => {}
        other => panic!("content of type {other}: {value}"),
    }
    let is_set = |change: &&Change| matches!(change, Change::Set(..));
    let sets: Vec<Change> = read.iter().filter(is_set).copied().collect();
    let gone = read.iter().filter_map(|change| if let Change::Delete(row) = change { Some(*row) } else { None });
    assert_eq!(gone.collect::<Vec<u32>>(), deleted, "rows that begin anew or go, of {value}");
    let mut expected = Rows::new();
    apply(&mut expected, &sets);
    assert_eq!(rows, expected, "values of {value}");
}

fn fields(row: u32, list: &Value, rows: &mut Rows) {
    for (name, value) in list.as_object().expect("fields") {
        let fid = name.strip_prefix('F').and_then(|fid| fid.parse().ok()).expect("a field of the world");
        rows.insert((row, fid), value.as_u64().expect("a number"));
    }
}

fn map(map: &Value, deleted: &mut Vec<u32>, rows: &mut Rows) {
    assert_eq!(map["KeyType"], "UInt", "key type of {map}");
    let Some(entries) = map["Entries"].as_array() else { return };
    for entry in entries {
        let row = entry["Key"].as_u64().and_then(|key| u32::try_from(key).ok()).expect("a key");
        if entry["Action"] != "Update" {
            deleted.push(row);
        }
        if entry["Action"] != "Delete" {
            fields(row, &entry["Fields"], rows);
        }
    }
}
