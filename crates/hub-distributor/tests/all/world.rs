//! A Source Distributor, the messages it sends to providers, and the hub stream it writes.

use hub_distributor::{Balance, CloseReason, Config, Origin, PeerInfo, ProviderSink, SessionId, SourceDistributor};
use hub_stream::{Block, BlockWriter, Event, HubError, Kind, Request, flags};
use rwf::msg::{
    AckMsg, CloseMsg, Domain, GenericMsg, Msg, MsgKey, NakCode, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg,
    StatusMsg, UpdateMsg,
};
use rwf::rdm::directory::{self, Action, Info, Load, Part, ServiceState};
use rwf::rdm::login;
use rwf::wire::Writer;
use rwf::{
    DataState, DataType, EncodeError, FieldList, FieldListEncoder, Qos, SetScope, State, StateCode, StreamState,
};
use std::collections::{HashMap, VecDeque};

pub(crate) const SECOND: u64 = 1_000_000_000;

/// Messages that went to providers.
#[derive(Default)]
pub(crate) struct Sent {
    pub(crate) messages: HashMap<u32, VecDeque<Vec<u8>>>,
    pub(crate) closed: Vec<(u32, String)>,
}

impl ProviderSink for Sent {
    fn send(&mut self, session: SessionId, msg: &[u8]) {
        self.messages.entry(session.0).or_default().push_back(msg.to_vec());
    }

    fn close(&mut self, session: SessionId, reason: &CloseReason) {
        self.closed.push((session.0, reason.to_string()));
    }
}

/// An event of the hub stream, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ev {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) target: u16,
    pub(crate) handle: u32,
    pub(crate) arg: u32,
    pub(crate) position: u64,
    pub(crate) body: Vec<u8>,
}

impl Ev {
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The RWF message inside an image.
    pub(crate) fn image(&self) -> RefreshMsg<'_> {
        assert_eq!(self.kind, Kind::Image, "{self:?}");
        let position = u64::from_le_bytes(self.body[..8].try_into().unwrap());
        assert_eq!(position, self.position, "an image in the stream belongs where it is");
        match Msg::decode(&self.body[8..]).unwrap() {
            Msg::Refresh(refresh) => refresh,
            other => panic!("image of {other:?}"),
        }
    }

    /// The state in an item status.
    pub(crate) fn state(&self) -> State<'_> {
        assert_eq!(self.kind, Kind::ItemStatus, "{self:?}");
        match Msg::decode(&self.body).unwrap() {
            Msg::Status(status) => status.state.unwrap(),
            other => panic!("status of {other:?}"),
        }
    }

    pub(crate) fn ack(&self) -> AckMsg<'_> {
        assert_eq!(self.kind, Kind::Ack, "{self:?}");
        match Msg::decode(&self.body).unwrap() {
            Msg::Ack(ack) => ack,
            other => panic!("ack of {other:?}"),
        }
    }

    /// State of a refusal or a service status: stream, data, code.
    pub(crate) fn short_state(&self) -> (StreamState, DataState, StateCode) {
        assert!(matches!(self.kind, Kind::Refused | Kind::ServiceStatus), "{self:?}");
        (StreamState(self.body[0]), DataState(self.body[1]), StateCode(self.body[2]))
    }
}

/// The world of one test.
pub(crate) struct World {
    pub(crate) sd: SourceDistributor,
    pub(crate) now: u64,
    pub(crate) sent: Sent,
    pub(crate) p2ps: HashMap<u16, BlockWriter>,
    next_token: u32,
    pub(crate) seen: u64,
}

pub(crate) const QOS: Qos = Qos::REALTIME_TICK;

impl World {
    /// Two P2PSs, and a provider that is dialled and offers `FEED`; all that led to this is read.
    pub(crate) fn with_two_p2pss(config: Config) -> Self {
        let mut world = Self::new(config);
        world.p2ps_up(1);
        world.p2ps_up(2);
        world.route_up(0);
        world.directory(0, vec![service(7, "FEED")]);
        world.events();
        world.sent(0);
        world
    }

    pub(crate) fn new(config: Config) -> Self {
        Self {
            sd: SourceDistributor::new(config, 1),
            now: SECOND,
            sent: Sent::default(),
            p2ps: HashMap::new(),
            next_token: 0,
            seen: 0,
        }
    }

    /// A world with P2PS 1 and nothing else.
    pub(crate) fn plain() -> Self {
        let mut world = Self::new(Config { age_unwatched: 0, ..Config::default() });
        world.p2ps_up(1);
        world.events();
        world
    }

    /// A world with P2PS 1 and a provider on session 0 whose service FEED has id 7 there.
    pub(crate) fn with_feed() -> Self {
        let mut world = Self::plain();
        world.route_up(0);
        world.directory(0, vec![service(7, "FEED")]);
        world.events();
        world.sent(0);
        world
    }

    /// P2PS 1, and two providers of FEED on sessions 0 and 1, with other ids, the first preferred.
    pub(crate) fn with_two_providers(balance: Balance) -> Self {
        let mut world = Self::new(Config { balance, ..Config::default() });
        world.p2ps_up(1);
        for id in [0, 1] {
            world.route_up(id);
            world.directory(id, vec![service(7 + id as u16 * 300, "FEED")]);
        }
        world.events();
        world.sent(0);
        world.sent(1);
        world
    }

    pub(crate) fn p2ps_up(&mut self, id: u16) {
        self.p2ps.insert(id, BlockWriter::new(100 + u32::from(id)));
        self.sd.p2ps_up(self.now, id);
    }

    /// A P2PS that comes back in another life.
    pub(crate) fn p2ps_restarts(&mut self, id: u16) {
        self.p2ps.insert(id, BlockWriter::new(200 + u32::from(id)));
        self.request(id, &Request::Hello { incarnation: 0, key: 0 }).unwrap();
    }

    pub(crate) fn p2ps_down(&mut self, id: u16) {
        self.p2ps.remove(&id);
        self.sd.p2ps_down(self.now, id, &mut self.sent);
    }

    pub(crate) fn request(&mut self, id: u16, request: &Request<'_>) -> Result<(), HubError> {
        let writer = self.p2ps.get_mut(&id).unwrap();
        writer.request(request);
        let block = writer.block().unwrap().to_vec();
        writer.clear();
        self.sd.request_block(self.now, id, &block, &mut self.sent)
    }

    /// Connects session `id` as a route and answers its login.
    pub(crate) fn route_up(&mut self, id: u32) {
        self.route_up_with(id, login::Features::default());
    }

    pub(crate) fn route_up_with(&mut self, id: u32, features: login::Features) {
        let peer = PeerInfo { address: format!("provider{id}:14002") };
        // Messages to the session that had the slot before is over with that.
        self.sent(id);
        self.sd.session_up(self.now, SessionId(id), Origin::Route(id as u16), peer, &mut self.sent);
        let sent = self.sent(id);
        let Msg::Request(request) = Msg::decode(&sent[0]).unwrap() else { panic!("no login: {sent:?}") };
        let request = login::Request::decode(&request).unwrap();
        let answer = login::Refresh::accept(&request, features, "welcome");
        self.message(id, |w| answer.encode(w));
    }

    /// Connects session `id` as a non-interactive provider and logs it in.
    pub(crate) fn nip_up(&mut self, id: u32) {
        let peer = PeerInfo { address: format!("nip{id}") };
        self.sd.session_up(self.now, SessionId(id), Origin::NonInteractive, peer, &mut self.sent);
        let request = login::Request { name: "nip".into(), role: Some(1), ..login::Request::default() };
        self.message(id, |w| request.encode(w));
    }

    pub(crate) fn down(&mut self, id: u32) {
        self.sd.session_down(self.now, SessionId(id), "connection reset", &mut self.sent);
    }

    /// Sends the directory of a session: solicited on a route, unsolicited otherwise.
    pub(crate) fn directory(&mut self, id: u32, services: Vec<directory::Service>) {
        let request = directory::Request { stream_id: 2, streaming: true, service_id: None, filter: 63 };
        let refresh = directory::Refresh::answer(&request, services);
        self.message(id, |w| refresh.encode(w));
    }

    pub(crate) fn directory_update(&mut self, id: u32, services: Vec<directory::Service>) {
        let update = directory::Update { stream_id: 2, filter: Some(63), services, ..Default::default() };
        self.message(id, |w| update.encode(w));
    }

    /// A message from a provider.
    pub(crate) fn message(&mut self, id: u32, encode: impl Fn(&mut Writer<'_>) -> Result<(), EncodeError>) {
        let mut buf = vec![0; 200_000];
        let mut w = Writer::new(&mut buf);
        encode(&mut w).unwrap();
        let bytes = w.into_written().to_vec();
        self.bytes(id, &bytes);
    }

    pub(crate) fn bytes(&mut self, id: u32, bytes: &[u8]) {
        self.sd.session_message(self.now, SessionId(id), bytes, &mut self.sent);
    }

    /// What went to a provider since the last call.
    pub(crate) fn sent(&mut self, id: u32) -> Vec<Vec<u8>> {
        self.sent.messages.remove(&id).unwrap_or_default().into()
    }

    /// The requests among what went to a provider: stream, name, flags.
    pub(crate) fn requests(&mut self, id: u32) -> Vec<(i32, String, RequestFlags)> {
        let sent = self.sent(id);
        let requests = sent.iter().filter_map(|bytes| match Msg::decode(bytes).unwrap() {
            Msg::Request(r) => Some((r.stream_id, r.key.name_lossy().into_owned(), r.flags)),
            _ => None,
        });
        requests.collect()
    }

    /// The streams closed among what went to a provider.
    pub(crate) fn closes(&mut self, id: u32) -> Vec<i32> {
        let sent = self.sent(id);
        let closes = sent.iter().filter_map(|bytes| match Msg::decode(bytes).unwrap() {
            Msg::Close(close) => Some(close.stream_id),
            _ => None,
        });
        closes.collect()
    }

    /// The hub stream since the last call. Its positions must go on.
    pub(crate) fn events(&mut self) -> Vec<Ev> {
        let mut events = Vec::new();
        if let Some(bytes) = self.sd.block() {
            let block = Block::parse(bytes).unwrap();
            assert_eq!(block.heading.first_seq, self.seen);
            for message in block.messages() {
                let m = message.unwrap();
                Event::decode(&m).unwrap();
                self.seen = m.position + 1;
                events.push(Ev {
                    kind: m.kind,
                    flags: m.flags,
                    target: m.target,
                    handle: m.handle,
                    arg: m.arg,
                    position: m.position,
                    body: m.body.to_vec(),
                });
            }
        }
        self.sd.clear_block();
        self.sd.check_invariants();
        events
    }

    pub(crate) fn kinds(&mut self) -> Vec<Kind> {
        self.events().into_iter().map(|event| event.kind).collect()
    }

    /// Lets time pass until `seconds` from now, with every timer on the way.
    pub(crate) fn pass(&mut self, seconds: u64) {
        let end = self.now + seconds * SECOND;
        self.turn();
        while let Some(due) = self.sd.timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.sd.on_timer(self.now, &mut self.sent);
        }
        self.now = end;
        self.sd.on_timer(self.now, &mut self.sent);
    }

    /// Goes on with what the last turn's budget left.
    pub(crate) fn turn(&mut self) {
        while self.sd.timeout() == Some(0) {
            self.sd.on_timer(self.now, &mut self.sent);
        }
    }

    pub(crate) fn open_request(&mut self, id: u16, service: u16, bits: u8, request: &RequestMsg<'_>) -> u32 {
        self.next_token += 1;
        let token = self.next_token;
        let rwf = bytes_of(|w| request.encode(w));
        self.request(id, &Request::Open { service, token, flags: bits, rwf: &rwf }).unwrap();
        token
    }

    /// An open of a market price item of service 1 by P2PS `id`; the token.
    pub(crate) fn open_with(&mut self, id: u16, name: &str, bits: u8) -> u32 {
        self.open_request(id, 1, bits, &request(name))
    }

    /// As [`Self::open_with`], streaming; the handle.
    pub(crate) fn open(&mut self, id: u16, name: &str) -> u32 {
        let token = self.open_with(id, name, flags::STREAMING);
        let events = self.events();
        let opened = events.iter().find(|e| e.kind == Kind::ItemOpened && e.arg == token);
        opened.unwrap_or_else(|| panic!("not opened: {events:?}")).handle
    }

    pub(crate) fn close(&mut self, id: u16, handle: u32) {
        self.request(id, &Request::Close { handle }).unwrap();
    }

    /// Opens an item and answers it with an image at session 0: handle and stream.
    pub(crate) fn open_imaged(&mut self, id: u16, name: &str) -> (u32, i32) {
        let handle = self.open(id, name);
        let requests = self.requests(0);
        let (stream, asked, _) = requests.last().expect("a request");
        assert_eq!(asked, name);
        let stream = *stream;
        self.refresh(0, stream, &[(22, b"1")], RefreshFlags::SOLICITED | RefreshFlags::REFRESH_COMPLETE);
        let events = self.events();
        assert!(events.iter().any(|e| e.kind == Kind::Image && e.handle == handle), "{events:?}");
        (handle, stream)
    }

    /// A market price refresh without a key.
    pub(crate) fn refresh(&mut self, id: u32, stream: i32, fields: &[(i16, &[u8])], refresh_flags: RefreshFlags) {
        self.refresh_with(id, fields, |msg| {
            msg.stream_id = stream;
            msg.flags = refresh_flags;
        });
    }

    pub(crate) fn refresh_with(&mut self, id: u32, fields: &[(i16, &[u8])], change: impl Fn(&mut RefreshMsg<'_>)) {
        let body = field_list(fields);
        let mut msg = RefreshMsg {
            container: DataType::FIELD_LIST,
            flags: RefreshFlags::SOLICITED | RefreshFlags::REFRESH_COMPLETE,
            group_id: &[0, 0],
            qos: Some(QOS),
            body: &body,
            ..RefreshMsg::new(Domain::MARKET_PRICE, 0)
        };
        change(&mut msg);
        self.message(id, |w| msg.encode(w));
    }

    pub(crate) fn update(&mut self, id: u32, stream: i32, fields: &[(i16, &[u8])]) {
        let body = field_list(fields);
        let msg =
            UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, stream) };
        self.message(id, |w| msg.encode(w));
    }

    pub(crate) fn status(&mut self, id: u32, stream: i32, state: State<'_>) {
        let msg = StatusMsg { state: Some(state), ..StatusMsg::new(Domain::MARKET_PRICE, stream) };
        self.message(id, |w| msg.encode(w));
    }

    pub(crate) fn generic(&mut self, id: u32, stream: i32) {
        let msg = GenericMsg::new(Domain::MARKET_PRICE, stream);
        self.message(id, |w| msg.encode(w));
    }

    pub(crate) fn ack(&mut self, id: u32, stream: i32, ack_id: u32, nak_code: Option<NakCode>) {
        let msg = AckMsg { ack_id, nak_code, ..AckMsg::new(Domain::MARKET_PRICE, stream) };
        self.message(id, |w| msg.encode(w));
    }

    pub(crate) fn provider_close(&mut self, id: u32, stream: i32) {
        let msg = CloseMsg::new(Domain::MARKET_PRICE, stream);
        self.message(id, |w| msg.encode(w));
    }

    /// A refresh of a non-interactive provider, with key, for its service `service`.
    pub(crate) fn publish(&mut self, id: u32, stream: i32, service: u16, name: &str, fields: &[(i16, &[u8])]) {
        self.refresh_with(id, fields, |msg| {
            msg.stream_id = stream;
            msg.flags = RefreshFlags::REFRESH_COMPLETE;
            // The name lives as long as the test.
            msg.key = Some(MsgKey { name_type: Some(1), ..MsgKey::item(service, leak(name)) });
        });
    }
}

fn leak(name: &str) -> &'static [u8] {
    Box::leak(name.as_bytes().to_vec().into_boxed_slice())
}

pub(crate) fn bytes_of(encode: impl Fn(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 200_000];
    let mut w = Writer::new(&mut buf);
    encode(&mut w).unwrap();
    w.into_written().to_vec()
}

pub(crate) fn request(name: &str) -> RequestMsg<'_> {
    RequestMsg {
        flags: RequestFlags::STREAMING,
        qos: Some(QOS),
        key: MsgKey { name: Some(name.as_bytes()), name_type: Some(1), ..MsgKey::EMPTY },
        ..RequestMsg::new(Domain::MARKET_PRICE, 0)
    }
}

pub(crate) fn field_list(fields: &[(i16, &[u8])]) -> Vec<u8> {
    bytes_of(|w| {
        let mut list = FieldListEncoder::begin(w)?;
        for (fid, value) in fields {
            list.raw(*fid, value)?;
        }
        list.finish()
    })
}

pub(crate) fn fields_of(body: &[u8]) -> Vec<(i16, Vec<u8>)> {
    let list = FieldList::decode(body, &SetScope::NONE).unwrap();
    list.entries().map(|entry| entry.unwrap()).map(|entry| (entry.fid, entry.data.to_vec())).collect()
}

/// A service with the domains market price and market by price, up.
pub(crate) fn service(id: u16, name: &str) -> directory::Service {
    let info = Info {
        name: name.into(),
        capabilities: vec![Domain::MARKET_PRICE, Domain::MARKET_BY_PRICE],
        qos: vec![QOS],
        ..Info::default()
    };
    directory::Service {
        info: Some(Part::Set(info)),
        state: Some(Part::Set(ServiceState { up: true, accepting_requests: Some(true), status: None })),
        ..directory::Service::new(id, Action::Add)
    }
}

pub(crate) fn with_load(mut service: directory::Service, load: Load) -> directory::Service {
    service.load = Some(Part::Set(load));
    service
}

pub(crate) fn state_update(id: u16, up: bool, accepting: bool) -> directory::Service {
    directory::Service {
        state: Some(Part::Update(ServiceState { up, accepting_requests: Some(accepting), status: None })),
        ..directory::Service::new(id, Action::Update)
    }
}

pub(crate) fn state(stream: StreamState, data: DataState, code: StateCode) -> State<'static> {
    State::new(stream, data, code, "words of the provider")
}
