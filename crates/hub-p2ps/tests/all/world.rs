//! A P2PS between hand-made Source Distributors and hand-made clients. What each side gets is put into words, so that a
//! test asserts on every message: a world that is dropped with something unread fails its test.

use hub_p2ps::{ClientId, ClientInfo, CloseReason, Config, Notice, P2ps, SourceId};
use hub_stream::{ALL, Block, BlockWriter, Event, NO_GROUP, Request, flags};
use rwf::container::{FieldList, FieldListEncoder, SetScope};
use rwf::msg::{
    AckMsg, CloseMsg, Domain, GenericMsg, Msg, MsgKey, PostMsg, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg,
    StatusMsg, UpdateMsg,
};
use rwf::rdm::directory::{Action, Info, Part, Service, ServiceState};
use rwf::rdm::login;
use rwf::wire::Writer;
use rwf::{DataState, DataType, EncodeError, Qos, State, StateCode, StreamState};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

pub(crate) const SECOND: u64 = 1_000_000_000;
/// Market price.
pub(crate) const PRICE: Domain = Domain::MARKET_PRICE;

/// Encodes a message.
pub(crate) fn encode(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 1 << 16];
    let mut w = Writer::new(&mut buf);
    write(&mut w).unwrap();
    w.into_written().to_vec()
}

/// A field list of unsigned numbers.
pub(crate) fn fields(list: &[(i16, u64)]) -> Vec<u8> {
    encode(|w| {
        let mut out = FieldListEncoder::begin(w)?;
        for (fid, value) in list {
            out.uint(*fid, *value)?;
        }
        out.finish()
    })
}

/// A request for an item of service 1.
pub(crate) fn item(stream: i32, name: &str) -> RequestMsg<'_> {
    RequestMsg {
        flags: RequestFlags::STREAMING,
        key: MsgKey { name_type: Some(1), ..MsgKey::item(1, name.as_bytes()) },
        ..RequestMsg::new(PRICE, stream)
    }
}

/// A provider's complete refresh of market price fields.
pub(crate) fn refresh(list: &[(i16, u64)]) -> Vec<u8> {
    refresh_with(RefreshFlags::REFRESH_COMPLETE | RefreshFlags::SOLICITED, State::OPEN_OK, None, list)
}

/// A provider's refresh.
pub(crate) fn refresh_with(flags: RefreshFlags, state: State<'_>, part: Option<u16>, list: &[(i16, u64)]) -> Vec<u8> {
    let body = fields(list);
    let msg = RefreshMsg {
        flags,
        state,
        part_num: part,
        container: DataType::FIELD_LIST,
        body: &body,
        ..RefreshMsg::new(PRICE, 77)
    };
    encode(|w| msg.encode(w))
}

/// A provider's update.
pub(crate) fn update(list: &[(i16, u64)]) -> Vec<u8> {
    let body = fields(list);
    let msg = UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(PRICE, 77) };
    encode(|w| msg.encode(w))
}

/// A provider's update with a key.
pub(crate) fn update_with_key(service: u16, name: &str, list: &[(i16, u64)]) -> Vec<u8> {
    let body = fields(list);
    let key = Some(MsgKey::item(service, name.as_bytes()));
    let msg = UpdateMsg { container: DataType::FIELD_LIST, key, body: &body, ..UpdateMsg::new(PRICE, 77) };
    encode(|w| msg.encode(w))
}

/// A provider's status.
pub(crate) fn status(stream: StreamState, data: DataState, code: StateCode) -> Vec<u8> {
    let msg = StatusMsg { state: Some(State::new(stream, data, code, "by the provider")), ..StatusMsg::new(PRICE, 77) };
    encode(|w| msg.encode(w))
}

/// What a service offers.
pub(crate) fn info(name: &str, domains: &[u8], qos: &[Qos]) -> Info {
    Info {
        name: name.to_owned(),
        capabilities: domains.iter().map(|&domain| Domain(domain)).collect(),
        qos: qos.to_vec(),
        ..Info::default()
    }
}

/// One block of a Source Distributor in the making.
pub(crate) struct Publisher<'w> {
    pub(crate) writer: &'w mut BlockWriter,
}

impl Publisher<'_> {
    pub(crate) fn event(&mut self, event: Event<'_>) -> &mut Self {
        self.writer.event(&event);
        self
    }

    /// A service with market price and market by price, real time, up.
    pub(crate) fn service(&mut self, id: u16, name: &str) -> &mut Self {
        self.service_with(id, info(name, &[6, 8], &[Qos::REALTIME_TICK]), ServiceState::new(true))
    }

    pub(crate) fn service_with(&mut self, id: u16, info: Info, state: ServiceState) -> &mut Self {
        let name = info.name.clone();
        let mut entry = Service::new(id, Action::Add);
        entry.info = Some(Part::Set(info));
        entry.state = Some(Part::Set(state));
        let filters = encode(|w| entry.encode_filters(u32::MAX, w));
        self.event(Event::Service { target: ALL, service: id, cached: false, name: &name, filters: &filters })
    }

    pub(crate) fn opened(&mut self, token: u32, handle: u32) -> &mut Self {
        self.event(Event::ItemOpened { target: 7, handle, token })
    }

    /// A complete image that answers a request.
    pub(crate) fn image(&mut self, handle: u32, list: &[(i16, u64)]) -> &mut Self {
        self.image_with(handle, 0, &refresh(list))
    }

    /// A complete image with hub flags.
    /// The reissue of this number is answered.
    pub(crate) fn answered(&mut self, handle: u32, serial: u32) -> &mut Self {
        let position = self.writer.next_position();
        self.event(Event::Answered { target: 7, handle, serial, position })
    }

    pub(crate) fn image_with(&mut self, handle: u32, bits: u8, rwf: &[u8]) -> &mut Self {
        self.part(handle, bits | flags::FIRST | flags::COMPLETE, rwf)
    }

    /// A part of an image.
    pub(crate) fn part(&mut self, handle: u32, flags: u8, rwf: &[u8]) -> &mut Self {
        let position = self.writer.next_position();
        self.event(Event::Image { target: ALL, handle, group: 3, flags, position, rwf })
    }

    pub(crate) fn update(&mut self, handle: u32, list: &[(i16, u64)]) -> &mut Self {
        self.writer.update(handle, false, &update(list));
        self
    }

    pub(crate) fn status(&mut self, handle: u32, flags: u8, rwf: &[u8]) -> &mut Self {
        self.event(Event::ItemStatus { target: ALL, handle, group: NO_GROUP, flags, rwf })
    }
}

/// A P2PS and all that is around it. Its id is 7.
pub(crate) struct World {
    pub(crate) p2ps: P2ps,
    pub(crate) now: u64,
    writers: BTreeMap<u16, BlockWriter>,
    /// Messages delivered, by client.
    received: BTreeMap<u32, Vec<Vec<u8>>>,
    /// Requests to Source Distributors, in words.
    requests: Vec<String>,
    /// The RWF message of each request.
    pub(crate) sent: Vec<Vec<u8>>,
    pub(crate) closed: Vec<(u32, CloseReason)>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Self {
        Self {
            p2ps: P2ps::new(config, 7),
            now: SECOND,
            writers: BTreeMap::new(),
            received: BTreeMap::new(),
            requests: Vec::new(),
            sent: Vec::new(),
            closed: Vec::new(),
        }
    }

    /// A world with Source Distributor 0, its service FEED (id 1, 40 at the source), and nothing unread.
    pub(crate) fn with_feed() -> Self {
        Self::with_feed_and(Config::default())
    }

    pub(crate) fn with_feed_and(config: Config) -> Self {
        let mut world = Self::with(config);
        world.source(0);
        world.publish(0, |p| {
            p.service(40, "FEED");
        });
        world
    }

    /// Source Distributor `id` comes up.
    pub(crate) fn source(&mut self, id: u16) {
        let incarnation = self.writers.len() as u32 + 100;
        self.writers.insert(id, BlockWriter::new(incarnation));
        self.p2ps.source_up(self.now, SourceId(id));
        self.settle();
        assert_eq!(self.requests.pop().as_deref(), Some(format!("{id}: hello").as_str()));
        self.sent.pop();
    }

    pub(crate) fn source_down(&mut self, id: u16) {
        self.p2ps.source_down(self.now, SourceId(id));
        self.settle();
    }

    /// Source Distributor `id` publishes a block.
    pub(crate) fn publish(&mut self, id: u16, write: impl FnOnce(&mut Publisher<'_>)) {
        let mut writer = self.writers.remove(&id).unwrap();
        write(&mut Publisher { writer: &mut writer });
        let block = writer.block().map(<[u8]>::to_vec).unwrap_or_default();
        writer.clear();
        self.writers.insert(id, writer);
        self.block(id, &block).unwrap();
    }

    /// A block as it is.
    pub(crate) fn block(&mut self, id: u16, block: &[u8]) -> Result<(), hub_stream::HubError> {
        let result = self.p2ps.hub_block(self.now, SourceId(id), block);
        self.turn(block);
        result
    }

    pub(crate) fn writer(&mut self, id: u16) -> &mut BlockWriter {
        self.writers.get_mut(&id).unwrap()
    }

    pub(crate) fn connect(&mut self, id: u32) {
        let address = IpAddr::from([10, 0, 0, id as u8]);
        self.p2ps.client_up(self.now, ClientId(id), ClientInfo { address });
        self.received.insert(id, Vec::new());
    }

    pub(crate) fn disconnect(&mut self, id: u32) {
        self.p2ps.client_down(self.now, ClientId(id));
        self.settle();
    }

    /// Clients connect and log in on stream 1 with the defaults.
    pub(crate) fn clients<const N: usize>(&mut self, ids: [u32; N]) {
        for id in ids {
            self.login(id, None, None);
        }
    }

    /// A client that logs in with `SingleOpen` and `AllowSuspectData`.
    pub(crate) fn login(&mut self, id: u32, single_open: Option<bool>, allow_suspect_data: Option<bool>) {
        self.connect(id);
        let mut request = login::Request { name: format!("user{id}"), ..login::Request::default() };
        request.attributes.single_open = single_open;
        request.attributes.allow_suspect_data = allow_suspect_data;
        self.send_with(id, |w| request.encode(w));
        let answer = self.take(id);
        assert_eq!(answer, [format!("login refresh 1 solicited complete OPEN/OK key user{id}")], "login of {id}");
    }

    /// A client opens a directory stream; the answer is not looked at.
    pub(crate) fn directory(&mut self, id: u32, stream: i32) {
        let request =
            rwf::rdm::directory::Request { stream_id: stream, streaming: true, service_id: None, filter: 0x3F };
        self.send_with(id, |w| request.encode(w));
        assert_eq!(self.raw(id).len(), 1, "one directory refresh");
    }

    pub(crate) fn send(&mut self, id: u32, msg: impl Into<Msg<'static>>) {
        let msg: Msg<'static> = msg.into();
        self.send_with(id, |w| msg.encode(w));
    }

    pub(crate) fn request(&mut self, id: u32, msg: &RequestMsg<'_>) {
        self.send_with(id, |w| msg.encode(w));
    }

    pub(crate) fn send_with(&mut self, id: u32, write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) {
        self.bytes(id, &encode(write));
    }

    pub(crate) fn bytes(&mut self, id: u32, msg: &[u8]) {
        self.p2ps.client_message(self.now, ClientId(id), msg);
        self.settle();
    }

    pub(crate) fn close(&mut self, id: u32, stream: i32) {
        self.send(id, CloseMsg::new(PRICE, stream));
    }

    /// Time passes, and what is due happens.
    pub(crate) fn pass(&mut self, nanoseconds: u64) {
        self.now += nanoseconds;
        self.p2ps.on_timer(self.now);
        self.settle();
    }

    pub(crate) fn settle(&mut self) {
        self.turn(&[]);
    }

    fn turn(&mut self, block: &[u8]) {
        let received = &mut self.received;
        self.p2ps.flush(block, |client, deliveries| {
            let to = received.entry(client.0).or_default();
            for (body, stream) in deliveries {
                let mut msg = body.to_vec();
                assert!(rwf::peek::set_stream_id(&mut msg, stream));
                to.push(msg);
            }
        });
        let (requests, sent) = (&mut self.requests, &mut self.sent);
        self.p2ps.requests(|source, block| {
            for message in Block::parse(block).unwrap().messages() {
                let message = message.unwrap();
                let request = Request::decode(&message).unwrap();
                requests.push(format!("{}: {}", source.0, request_words(&request)));
                sent.push(message.body.to_vec());
            }
        });
        self.closed.extend(self.p2ps.closing().map(|(client, reason)| (client.0, reason)));
        self.p2ps.check_invariants();
    }

    /// What a client got, as bytes.
    pub(crate) fn raw(&mut self, id: u32) -> Vec<Vec<u8>> {
        std::mem::take(self.received.get_mut(&id).unwrap())
    }

    /// What a client got, in words.
    pub(crate) fn take(&mut self, id: u32) -> Vec<String> {
        self.raw(id).iter().map(|msg| words(msg)).collect()
    }

    /// What went to Source Distributors, in words.
    pub(crate) fn asked(&mut self) -> Vec<String> {
        self.sent.clear();
        std::mem::take(&mut self.requests)
    }

    /// Opens an item that nobody has: `stream` of `client`, `handle` at source 0, and gives it an image.
    pub(crate) fn open(&mut self, client: u32, stream: i32, name: &str, handle: u32) {
        let before = self.asked();
        assert!(before.is_empty(), "{before:?}");
        self.request(client, &item(stream, name));
        let token = self.token();
        self.asked();
        self.publish(0, |p| {
            p.opened(token, handle).image(handle, &[(22, 1), (25, 2)]);
        });
        assert_eq!(
            self.take(client),
            [format!("refresh {stream} solicited complete OPEN/OK group 3 key 1:{name} 22=1 25=2")]
        );
    }

    /// The token of the only open that was asked for.
    pub(crate) fn token(&mut self) -> u32 {
        let [only] = &self.requests[..] else { panic!("{:?}", self.requests) };
        token_of(only)
    }
}

/// The token in the words of an open or post.
pub(crate) fn token_of(words: &str) -> u32 {
    let token = words.split(' ').find_map(|word| word.strip_prefix("token=")).unwrap();
    token.parse().unwrap()
}

/// Requests without their tokens.
pub(crate) fn untokened(requests: &[String]) -> Vec<String> {
    let known = |word: &&str| !word.starts_with("token=");
    requests.iter().map(|words| words.split(' ').filter(known).collect::<Vec<_>>().join(" ")).collect()
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for (client, messages) in &self.received {
            let unread: Vec<String> = messages.iter().map(|msg| words(msg)).collect();
            assert!(unread.is_empty(), "client {client} also got {unread:#?}");
        }
        assert!(self.requests.is_empty(), "sources also got {:#?}", self.requests);
        assert!(self.closed.is_empty(), "also closed: {:?}", self.closed);
    }
}

fn request_words(request: &Request<'_>) -> String {
    match request {
        Request::Gap { from, to } => format!("gap {from}..{to}"),
        Request::Bye => "bye".to_owned(),
        Request::Serve { .. } => "serve".to_owned(),
        Request::Hello { .. } => "hello".to_owned(),
        Request::Heartbeat { .. } => "heartbeat".to_owned(),
        Request::Open { service, token, flags, rwf } => {
            format!("open token={token} {service} {} {}", open_flags(*flags), words(rwf))
        }
        Request::Refresh { handle, in_stream } => {
            format!("refresh {handle}{}", if *in_stream { " in stream" } else { "" })
        }
        Request::Reissue { handle, serial, rwf, .. } => {
            let image = if serial.is_some() { " with image" } else { "" };
            format!("reissue {handle}{image} {}", words(rwf))
        }
        Request::Close { handle } => format!("close {handle}"),
        Request::Post { service, handle, token, rwf } => {
            let handle = handle.map_or_else(|| "-".to_owned(), |handle| handle.to_string());
            format!("post token={token} {service} {handle} {}", words(rwf))
        }
        Request::Generic { handle, rwf } => format!("generic {handle} {}", words(rwf)),
    }
}

fn open_flags(bits: u8) -> &'static str {
    match bits {
        flags::STREAMING => "streaming",
        9 => "streaming wanted back",
        flags::SNAPSHOT_ONLY => "snapshot",
        5 => "private",
        _ => "private snapshot",
    }
}

/// A message in words: class, stream, flags, state without its text, group, key, content.
pub(crate) fn words(msg: &[u8]) -> String {
    let msg = Msg::decode(msg).unwrap();
    let mut out = match msg.domain() {
        Domain::LOGIN => "login ".to_owned(),
        Domain::SOURCE => "directory ".to_owned(),
        Domain::DICTIONARY => "dictionary ".to_owned(),
        _ => String::new(),
    };
    write!(out, "{} {}", msg.class().to_string().to_lowercase(), msg.stream_id()).unwrap();
    match &msg {
        Msg::Refresh(refresh) => refresh_words(&mut out, refresh),
        Msg::Status(status) => {
            if status.flags.contains(rwf::msg::StatusFlags::PRIVATE_STREAM) {
                out += " private";
            }
        }
        Msg::Request(request) => {
            write!(out, " [{}]", request.flags).unwrap();
            if let Some(qos) = request.qos {
                write!(out, " {qos}").unwrap();
            }
            if ![DataType::NO_DATA, DataType::ELEMENT_LIST].contains(&request.container) {
                write!(out, " {} of {} bytes", request.container, request.body.len()).unwrap();
            }
            if let Some(header) = request.ext_header {
                write!(out, " header of {} bytes", header.len()).unwrap();
            }
        }
        Msg::Ack(AckMsg { ack_id, nak_code, seq_num, .. }) => {
            write!(out, " id {ack_id}").unwrap();
            if let Some(nak) = nak_code {
                write!(out, " nak {nak}").unwrap();
            }
            if let Some(seq) = seq_num {
                write!(out, " seq {seq}").unwrap();
            }
        }
        Msg::Post(PostMsg { post_user_info: user, post_id, .. }) => {
            write!(out, " id {} by {}/{}", post_id.unwrap_or(0), user.ip(), user.id).unwrap();
        }
        Msg::Generic(GenericMsg { .. }) | Msg::Update(_) | Msg::Close(_) => {}
    }
    if let Some(state) = msg.state() {
        write!(out, " {}/{}", state.stream, state.data).unwrap();
        if state.code != StateCode::NONE {
            write!(out, "/{}", state.code).unwrap();
        }
    }
    if let Msg::Refresh(RefreshMsg { group_id, .. }) = &msg
        && *group_id != [0, 0]
    {
        write!(out, " group {}", group_words(group_id)).unwrap();
    }
    if let Msg::Status(StatusMsg { group_id: Some(group_id), .. }) = &msg {
        write!(out, " group {}", group_words(group_id)).unwrap();
    }
    if let Some(key) = msg.key() {
        key_words(&mut out, key);
    }
    if msg.container() == DataType::FIELD_LIST && msg.domain().0 >= 6 {
        for entry in FieldList::decode(msg.body(), &SetScope::NONE).unwrap().entries() {
            let entry = entry.unwrap();
            let value = entry.data.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
            write!(out, " {}={value}", entry.fid).unwrap();
        }
    }
    out
}

fn refresh_words(out: &mut String, refresh: &RefreshMsg<'_>) {
    for (flag, word) in [
        (RefreshFlags::SOLICITED, " solicited"),
        (RefreshFlags::CLEAR_CACHE, " clear"),
        (RefreshFlags::PRIVATE_STREAM, " private"),
    ] {
        if refresh.flags.contains(flag) {
            *out += word;
        }
    }
    if let Some(part) = refresh.part_num {
        write!(out, " part {part}").unwrap();
    }
    if refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE) {
        *out += " complete";
    }
}

fn group_words(group: &[u8]) -> String {
    let numbers: Vec<String> = group.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]).to_string()).collect();
    numbers.join(".")
}

fn key_words(out: &mut String, key: &MsgKey<'_>) {
    if *key == MsgKey::EMPTY {
        return;
    }
    *out += " key ";
    if let Some(service) = key.service_id {
        write!(out, "{service}:").unwrap();
    }
    *out += &key.name_lossy();
    if let Some(identifier) = key.identifier {
        write!(out, "#{identifier}").unwrap();
    }
}

/// The texts of the states in messages.
pub(crate) fn texts(messages: &[Vec<u8>]) -> Vec<String> {
    let text = |msg: &Vec<u8>| Some(Msg::decode(msg).unwrap().state()?.text_lossy().into_owned());
    messages.iter().filter_map(text).collect()
}

/// A Source Distributor comes, with the service FEED.
pub(crate) fn come(world: &mut World, id: u16) {
    world.source(id);
    world.publish(id, |p| {
        p.service(40, "FEED");
    });
}

/// What there is to be said to operators.
pub(crate) fn notices(world: &mut World) -> Vec<Notice> {
    world.p2ps.notices().collect()
}
