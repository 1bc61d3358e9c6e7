//! Rules that hold for any bytes at all. Fuzz targets and tests call the same functions.

use hub::distributor::{self, Origin, PeerInfo, ProviderSink, SessionId, SourceDistributor};
use hub::p2ps::{self, ClientId, ClientInfo, P2ps, SourceId};
use hub::stream::{ALL, Block, BlockWriter, Event, NO_GROUP, Request, flags, parts};
use rwf::container::FieldListEncoder;
use rwf::msg::{
    CloseMsg, Domain, GenericMsg, Msg, MsgKey, PostFlags, PostMsg, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg,
    StatusMsg, UpdateMsg,
};
use rwf::rdm::request::{Payload, View};
use rwf::rdm::{directory, login};
use rwf::wire::Writer;
use rwf::{DataState, DataType, EncodeError, Qos, State, StateCode, StreamState, peek};
use std::net::IpAddr;

const SECOND: u64 = 1_000_000_000;
const P2PS: u16 = 7;
const STRANGER: u16 = 8;
const CLIENTS: u32 = 3;
const SESSIONS: u32 = 3;
/// Rounds in which everything has to come to rest.
const ROUNDS: usize = 200;

/// Numbers and pieces from the input; zeros and nothing when it is used up.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Small numbers are near to what exists; now and then any.
    fn number(&mut self) -> u32 {
        match self.byte() {
            255 => u32::from(self.word()) << 16 | u32::from(self.word()),
            small => u32::from(small % 8),
        }
    }

    /// At most 255 bytes, behind their length.
    fn piece(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (piece, rest) = self.0.split_at(length);
        self.0 = rest;
        piece
    }

    fn state(&mut self) -> State<'static> {
        State::new(StreamState(self.byte() % 6), DataState(self.byte() % 4), StateCode(self.byte()), "text")
    }

    /// Some bytes of a good message changed, and now and then its end cut off.
    fn damage(&mut self, message: &mut Vec<u8>) {
        for _ in 0..self.byte().saturating_sub(192) % 8 {
            let at = usize::from(self.word()) % message.len().max(1);
            let value = self.byte();
            if let Some(byte) = message.get_mut(at) {
                *byte = value;
            }
        }
        if self.byte() > 250 {
            message.truncate(usize::from(self.byte()));
        }
    }
}

fn encode(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 1 << 14];
    let mut w = Writer::new(&mut buf);
    write(&mut w).expect("room");
    w.into_written().to_vec()
}

fn fields(value: u8) -> Vec<u8> {
    encode(|w| {
        let mut out = FieldListEncoder::begin(w)?;
        out.uint(22, u64::from(value))?;
        out.uint(25, 3)?;
        out.finish()
    })
}

/// A block: what can be read can be written again and reads the same, whole and in parts.
pub(crate) fn block(data: &[u8]) {
    let _ = (hub::stream::announcement(data), hub::stream::incarnation(data));
    let Ok(block) = Block::parse(data) else { return };
    for message in block.messages() {
        let Ok(message) = message else { break };
        let mut writer = BlockWriter::new(1);
        if let Ok(event) = Event::decode(&message) {
            writer.event(&event);
            let bytes = writer.block().expect("one message");
            let again = Block::parse(bytes).expect("a block").messages().next().expect("one").expect("a message");
            assert_eq!(Event::decode(&again), Ok(event));
        }
        let mut writer = BlockWriter::new(1);
        if let Ok(request) = Request::decode(&message) {
            writer.request(&request);
            let bytes = writer.block().expect("one message");
            let again = Block::parse(bytes).expect("a block").messages().next().expect("one").expect("a message");
            assert_eq!(Request::decode(&again), Ok(request));
        }
    }
    if block.messages().all(|message| message.is_ok()) {
        let whole: Vec<_> = block.messages().flatten().map(|m| (m.kind, m.handle, m.arg, m.position, m.body)).collect();
        let cut: Vec<_> = parts(data, 64).map(std::borrow::Cow::into_owned).collect();
        let cut = cut.iter().flat_map(|part| Block::parse(part).expect("a part is a block").messages().flatten());
        assert!(cut.map(|m| (m.kind, m.handle, m.arg, m.position, m.body)).eq(whole.iter().copied()));
    }
}

/// Messages that went to providers.
#[derive(Default)]
struct Sent {
    messages: Vec<(u32, Vec<u8>)>,
    closed: Vec<u32>,
}

impl ProviderSink for Sent {
    fn send(&mut self, session: SessionId, msg: &[u8]) {
        Msg::decode(msg).expect("what a provider gets is a message");
        if self.messages.len() < 64 {
            self.messages.push((session.0, msg.to_vec()));
        }
    }

    fn close(&mut self, session: SessionId, reason: &hub::distributor::CloseReason) {
        assert!(!reason.to_string().is_empty());
        self.closed.push(session.0);
    }
}

/// A Source Distributor and a P2PS that are joined without loss, with clients, providers and strangers.
struct World {
    distributor: SourceDistributor,
    p2ps: P2ps,
    sent: Sent,
    clients: [bool; CLIENTS as usize],
    now: u64,
    /// Bytes of the stranger among the P2PSs, and among the Source Distributors.
    stranger: BlockWriter,
    false_source: BlockWriter,
}

impl World {
    fn new() -> Self {
        let config = distributor::Config { age_unwatched: SECOND, max_items: 500, ..distributor::Config::default() };
        let mut world = Self {
            distributor: SourceDistributor::new(config, 1),
            p2ps: P2ps::new(p2ps::Config { item_limit: 300, ..p2ps::Config::default() }, P2PS),
            sent: Sent::default(),
            clients: [false; CLIENTS as usize],
            now: SECOND,
            stranger: BlockWriter::new(500),
            false_source: BlockWriter::new(501),
        };
        world.distributor.p2ps_up(world.now, P2PS);
        world.p2ps.source_up(world.now, SourceId(0));
        world.turn();
        world
    }

    /// Everything that is on its way arrives. The two halves understand each other, whatever the others said.
    fn turn(&mut self) {
        for _ in 0..ROUNDS {
            let mut requests = Vec::new();
            self.p2ps.requests(|source, block| requests.push((source, block.to_vec())));
            for (source, block) in &requests {
                for message in Block::parse(block).expect("a block").messages() {
                    Request::decode(&message.expect("a message")).expect("a request");
                }
                if *source == SourceId(0) {
                    let taken = self.distributor.request_block(self.now, P2PS, block, &mut self.sent);
                    taken.expect("a Source Distributor understands its P2PS");
                }
            }
            let block = self.distributor.block().map(<[u8]>::to_vec);
            self.distributor.clear_block();
            if let Some(block) = &block {
                for message in Block::parse(block).expect("a block").messages() {
                    Event::decode(&message.expect("a message")).expect("an event");
                }
                let taken = self.p2ps.hub_block(self.now, SourceId(0), block);
                taken.expect("a P2PS understands its Source Distributor");
            }
            self.flush(block.as_deref().unwrap_or_default());
            let mut point_to_point = Vec::new();
            self.distributor.point_to_point_blocks(|to, block| point_to_point.push((to, block.to_vec())));
            for (_, block) in point_to_point.iter().filter(|(to, _)| *to == P2PS) {
                self.p2ps
                    .point_to_point_block(self.now, SourceId(0), block)
                    .expect("a P2PS understands its Source Distributor");
                self.flush(&[]);
            }
            for session in std::mem::take(&mut self.sent.closed) {
                self.distributor.session_down(self.now, SessionId(session), "closed", &mut self.sent);
            }
            let closing: Vec<ClientId> = self.p2ps.closing().map(|(client, _)| client).collect();
            for &client in &closing {
                self.p2ps.client_down(self.now, client);
                self.clients[client.0 as usize] = false;
            }
            self.p2ps.notices().for_each(drop);
            let lost: Vec<_> = self.p2ps.closing_sources().map(|(source, _)| source).collect();
            assert!(!lost.contains(&SourceId(0)), "the joined source is lost");
            assert!(self.distributor.closing_p2ps().all(|(id, _)| id != P2PS), "the joined P2PS is lost");
            if requests.is_empty() && block.is_none() && point_to_point.is_empty() && closing.is_empty() {
                return;
            }
        }
        panic!("the hub does not come to rest");
    }

    fn flush(&mut self, block: &[u8]) {
        let clients = self.clients;
        self.p2ps.flush(block, |client, deliveries| {
            assert!(clients[client.0 as usize], "deliveries for a client that is not there");
            for (body, _) in deliveries {
                assert!(!body.is_empty() && body.len() < 1 << 20);
            }
        });
    }

    fn client(&mut self, input: &mut Input<'_>) {
        let client = u32::from(input.byte()) % CLIENTS;
        let there = &mut self.clients[client as usize];
        match (input.byte() % 16, *there) {
            (_, false) => {
                *there = true;
                let address = IpAddr::from([10, 0, 0, client as u8]);
                self.p2ps.client_up(self.now, ClientId(client), ClientInfo { address });
                let login = login::Request { name: format!("user{client}"), ..login::Request::default() };
                self.p2ps.client_message(self.now, ClientId(client), &encode(|w| login.encode(w)));
            }
            (0, true) => {
                *there = false;
                self.p2ps.client_down(self.now, ClientId(client));
            }
            (1, true) => {
                self.p2ps.client_message(self.now, ClientId(client), input.piece());
            }
            (2.., true) => {
                let mut message = client_message(input);
                input.damage(&mut message);
                self.p2ps.client_message(self.now, ClientId(client), &message);
            }
        }
    }

    fn provider(&mut self, input: &mut Input<'_>) {
        let id = u32::from(input.byte()) % SESSIONS;
        let session = SessionId(id);
        let mut message = match input.byte() % 8 {
            0 => {
                let origin = if id == 2 { Origin::NonInteractive } else { Origin::Route(id as u16) };
                let peer = PeerInfo { address: "provider".to_owned() };
                self.distributor.session_up(self.now, session, origin, peer, &mut self.sent);
                if id != 2 {
                    return;
                }
                let login = login::Request { name: "nip".to_owned(), role: Some(1), ..login::Request::default() };
                encode(|w| login.encode(w))
            }
            1 => {
                self.distributor.session_down(self.now, session, "gone", &mut self.sent);
                return;
            }
            2 => input.piece().to_vec(),
            // The answer to the last thing that was asked.
            3..6 => {
                let Some(at) = self.sent.messages.iter().rposition(|(to, _)| *to == id) else { return };
                let (_, asked) = self.sent.messages.remove(at);
                let Ok(Msg::Request(request)) = Msg::decode(&asked) else { return };
                answer(&request, input)
            }
            _ => published(input),
        };
        input.damage(&mut message);
        self.distributor.session_message(self.now, session, &message, &mut self.sent);
    }

    /// A P2PS and a Source Distributor that keep to no rule beside those that do.
    fn strangers(&mut self, input: &mut Input<'_>) {
        match input.byte() % 8 {
            0 => self.distributor.p2ps_up(self.now, STRANGER),
            1 => self.distributor.p2ps_down(self.now, STRANGER, &mut self.sent),
            2 => self.p2ps.source_up(self.now, SourceId(1)),
            3 => self.p2ps.source_down(self.now, SourceId(1)),
            4 | 5 => {
                let message = client_message(input);
                request(&mut self.stranger, input, &message);
                let mut block = self.stranger.block().map(<[u8]>::to_vec).unwrap_or_default();
                self.stranger.clear();
                input.damage(&mut block);
                let _ = self.distributor.request_block(self.now, STRANGER, &block, &mut self.sent);
            }
            _ => {
                for _ in 0..input.byte() % 4 {
                    event(&mut self.false_source, input);
                }
                let mut block = self.false_source.block().map(<[u8]>::to_vec).unwrap_or_default();
                self.false_source.clear();
                input.damage(&mut block);
                if input.byte() > 200 {
                    let _ = self.p2ps.point_to_point_block(self.now, SourceId(1), &block);
                    self.flush(&[]);
                } else {
                    let _ = self.p2ps.hub_block(self.now, SourceId(1), &block);
                    self.flush(&block);
                }
            }
        }
    }

    fn pass(&mut self, input: &mut Input<'_>) {
        self.now += match input.byte() {
            long @ 240.. => u64::from(long - 239) * 30 * SECOND,
            short => u64::from(short) * SECOND / 50,
        };
        self.distributor.on_timer(self.now, &mut self.sent);
        self.p2ps.on_timer(self.now);
    }

    /// All clients leave: nothing that they wanted is wanted any more.
    fn end(mut self) {
        for client in 0..CLIENTS {
            self.p2ps.client_down(self.now, ClientId(client));
        }
        self.clients = [false; CLIENTS as usize];
        self.turn();
        assert_eq!(self.p2ps.counters().watchers, 0);
        assert_eq!(self.p2ps.counters().clients, 0);
    }
}

fn name(number: u8) -> String {
    format!("ITEM{}", number % 6)
}

/// Messages of a client: mostly such as make sense.
fn client_message(input: &mut Input<'_>) -> Vec<u8> {
    let (kind, what, stream) = (input.byte() % 12, input.byte(), 5_i32.wrapping_add(input.number() as i32));
    let (name, service) = (name(what), 1 + u16::from(what >> 6));
    let domain = if what & 0x38 == 0x38 { Domain(input.byte()) } else { Domain::MARKET_PRICE };
    let key = MsgKey { name_type: Some(1), ..MsgKey::item(service, name.as_bytes()) };
    let request = RequestMsg { flags: RequestFlags::STREAMING, key, ..RequestMsg::new(domain, stream) };
    let body = fields(what);
    match kind {
        0..4 => {
            let flags = match input.byte() {
                odd @ 250.. => RequestFlags(u16::from(odd) << 4 | u16::from(input.byte())),
                _ => RequestFlags::STREAMING,
            };
            encode(|w| RequestMsg { flags, ..request }.encode(w))
        }
        4 => {
            let view = View::Fields(input.piece().iter().map(|&fid| i16::from(fid)).collect());
            let payload = encode(|w| Payload { view: Some(view), ..Payload::default() }.encode(w));
            let flags = RequestFlags::STREAMING | RequestFlags::HAS_VIEW;
            encode(|w| RequestMsg { flags, container: DataType::ELEMENT_LIST, body: &payload, ..request }.encode(w))
        }
        5 => {
            let names: Vec<String> = input.piece().iter().map(|&n| self::name(n)).collect();
            let items = Some(names.iter().map(String::as_bytes).collect());
            let payload = encode(|w| Payload { items, ..Payload::default() }.encode(w));
            let flags = RequestFlags::STREAMING | RequestFlags::HAS_BATCH;
            encode(|w| RequestMsg { flags, container: DataType::ELEMENT_LIST, body: &payload, ..request }.encode(w))
        }
        6 => encode(|w| CloseMsg::new(domain, stream).encode(w)),
        7 => {
            let streams = input.piece().iter().map(|&n| i32::from(n)).collect();
            let payload = encode(|w| Payload { streams: Some(streams), ..Payload::default() }.encode(w));
            let close = CloseMsg::new(domain, stream);
            let flags = rwf::msg::CloseFlags(4);
            encode(|w| CloseMsg { flags, container: DataType::ELEMENT_LIST, body: &payload, ..close }.encode(w))
        }
        8 => {
            let post = PostMsg {
                flags: PostFlags::ACK,
                post_id: Some(u32::from(what)),
                key: (what & 1 == 0).then_some(key),
                container: DataType::FIELD_LIST,
                body: &body,
                ..PostMsg::new(domain, if what & 2 == 0 { 1 } else { stream })
            };
            encode(|w| post.encode(w))
        }
        9 => encode(|w| GenericMsg { key: Some(key), ..GenericMsg::new(domain, stream) }.encode(w)),
        10 => {
            let service_id = (what & 1 == 0).then_some(service);
            let request =
                directory::Request { stream_id: 2, streaming: what & 2 == 0, service_id, filter: what.into() };
            encode(|w| request.encode(w))
        }
        _ => {
            let name = format!("user{}", what % 4);
            let request = login::Request { name, pause: what & 16 != 0, ..login::Request::default() };
            encode(|w| request.encode(w))
        }
    }
}

fn services(input: &mut Input<'_>) -> Vec<directory::Service> {
    let service = |id: u16, up: bool| {
        let mut service = directory::Service::new(id, directory::Action::Add);
        service.info = Some(directory::Part::Set(directory::Info {
            name: format!("FEED{}", id % 3),
            capabilities: vec![Domain::MARKET_PRICE, Domain::MARKET_BY_PRICE],
            qos: vec![Qos::REALTIME_TICK],
            ..directory::Info::default()
        }));
        service.state = Some(directory::Part::Set(directory::ServiceState::new(up)));
        service
    };
    (0..=input.byte() % 3).map(|_| service(1 + u16::from(input.byte() % 4), input.byte() > 40)).collect()
}

/// Answers of an interactive provider.
fn answer(request: &RequestMsg<'_>, input: &mut Input<'_>) -> Vec<u8> {
    let stream = request.stream_id;
    match request.domain {
        Domain::LOGIN => {
            let Ok(request) = login::Request::decode(request) else { return Vec::new() };
            encode(|w| login::Refresh::accept(&request, login::Features::default(), "welcome").encode(w))
        }
        Domain::SOURCE => {
            let request = directory::Request::decode(request);
            let services = services(input);
            encode(|w| directory::Refresh::answer(&request, services).encode(w))
        }
        domain => {
            let body = fields(input.byte());
            if input.byte() > 220 {
                let state = Some(input.state());
                return encode(|w| StatusMsg { state, ..StatusMsg::new(domain, stream) }.encode(w));
            }
            let part = input.byte();
            let complete = if part < 200 { RefreshFlags::REFRESH_COMPLETE } else { RefreshFlags(0) };
            let refresh = RefreshMsg {
                flags: RefreshFlags::SOLICITED | complete,
                state: State::OPEN_OK,
                part_num: (part > 150).then_some(u16::from(part % 3)),
                container: DataType::FIELD_LIST,
                body: &body,
                ..RefreshMsg::new(domain, stream)
            };
            encode(|w| refresh.encode(w))
        }
    }
}

/// Messages that a provider sends unasked.
fn published(input: &mut Input<'_>) -> Vec<u8> {
    let (kind, what) = (input.byte() % 6, input.byte());
    let stream = if what & 1 == 0 {
        -1_i32.wrapping_sub(input.number() as i32)
    } else {
        5_i32.wrapping_add(input.number() as i32)
    };
    let (name, body) = (name(what), fields(what));
    let key = Some(MsgKey { name_type: Some(1), ..MsgKey::item(1 + u16::from(what >> 6), name.as_bytes()) });
    let domain = Domain::MARKET_PRICE;
    match kind {
        0 | 1 => {
            let update =
                UpdateMsg { container: DataType::FIELD_LIST, key, body: &body, ..UpdateMsg::new(domain, stream) };
            encode(|w| update.encode(w))
        }
        2 => {
            let flags = RefreshFlags::REFRESH_COMPLETE;
            let refresh = RefreshMsg { flags, state: input.state(), key, ..RefreshMsg::new(domain, stream) };
            encode(|w| RefreshMsg { container: DataType::FIELD_LIST, body: &body, ..refresh }.encode(w))
        }
        3 => {
            let state = Some(input.state());
            encode(|w| StatusMsg { state, key, ..StatusMsg::new(domain, stream) }.encode(w))
        }
        4 => {
            let services = services(input);
            let update = directory::Update { stream_id: 2, filter: Some(63), services, ..Default::default() };
            encode(|w| update.encode(w))
        }
        _ => {
            let request = directory::Request { stream_id: 2, streaming: true, service_id: None, filter: 63 };
            let services = services(input);
            encode(|w| directory::Refresh::answer(&request, services).encode(w))
        }
    }
}

fn request(writer: &mut BlockWriter, input: &mut Input<'_>, rwf: &[u8]) {
    let (service, handle, token) = (input.number() as u16, input.number(), input.number());
    writer.request(&match input.byte() % 12 {
        0 => Request::Hello { incarnation: input.number(), key: 0 },
        1..4 => {
            Request::Open { service, token, flags: if token & 8 == 0 { flags::STREAMING } else { input.byte() }, rwf }
        }
        4 => Request::Refresh { handle, in_stream: token & 1 == 0 },
        5 => Request::Reissue { handle, serial: Some(token), in_stream: token & 1 == 0, rwf },
        6 => Request::Close { handle },
        7 => Request::Post { service, handle: (token & 1 == 0).then_some(handle), token, rwf },
        8 => Request::Generic { handle, rwf },
        9 => Request::Gap { from: u64::from(handle), to: u64::from(token) },
        10 => Request::Serve { server: rwf },
        _ => Request::Heartbeat { position: u64::from(token) },
    });
}

fn event(writer: &mut BlockWriter, input: &mut Input<'_>) {
    let (service, handle, group) = (input.number() as u16, input.number(), input.number());
    let target = if input.byte() > 128 { ALL } else { P2PS };
    let name = format!("FEED{}", service % 4);
    let good = published(input);
    let rwf = if input.byte() > 240 { input.piece() } else { &good };
    let text = "why";
    let mut filters = Vec::new();
    writer.event(&match input.byte() % 19 {
        0 | 1 => {
            let services = services(input);
            filters.extend(encode(|w| services[0].encode_filters(u32::MAX, w)));
            Event::Service { target, service, cached: group & 1 == 0, name: &name, filters: &filters }
        }
        2 => Event::ServiceGone { service },
        3 => Event::ServiceStatus { service, state: input.state() },
        4 => Event::GroupStatus { service, group, state: Some(input.state()), merged_to: Some(handle) },
        5 | 6 => Event::ItemOpened { target, handle, token: group },
        7 => Event::Refused { target, token: group, state: input.state() },
        8 | 9 => Event::Image { target, handle, group, flags: input.byte(), position: u64::from(input.number()), rwf },
        10 => Event::Answered { target, handle, serial: group, position: u64::from(input.number()) },
        11 => Event::Update { handle, has_key: group & 1 == 0, rwf },
        12 => Event::ItemStatus { target, handle, group: NO_GROUP, flags: input.byte(), rwf },
        13 => Event::Ack { target, token: group, rwf },
        14 => Event::Generic { target, handle, has_key: group & 1 == 0, rwf },
        15 => Event::Missed { target, handle },
        16 => Event::Record { service: &name, key: rwf, age: u64::from(handle), parts: rwf },
        17 => Event::Servers { target, servers: rwf },
        _ => Event::Leaving { why: text },
    });
}

/// Clients and providers do what they like, in any order: the two halves go on understanding each other, and nothing stays of
/// clients that have gone.
pub(crate) fn operations(data: &[u8]) {
    let (mut world, mut input) = (World::new(), Input(data));
    while !input.0.is_empty() {
        match input.byte() % 8 {
            0..4 => world.client(&mut input),
            4..7 => world.provider(&mut input),
            _ => world.pass(&mut input),
        }
        world.turn();
    }
    world.end();
}

/// As [`operations`], with a P2PS and a Source Distributor beside the good ones that send what they like.
pub(crate) fn strangers(data: &[u8]) {
    let (mut world, mut input) = (World::new(), Input(data));
    while !input.0.is_empty() {
        match input.byte() % 8 {
            0 | 1 => world.client(&mut input),
            2 | 3 => world.provider(&mut input),
            4..7 => world.strangers(&mut input),
            _ => world.pass(&mut input),
        }
        world.turn();
    }
    world.end();
}

/// Bytes that no message should begin with are looked at without harm.
pub(crate) fn message(data: &[u8]) {
    let _ = (peek::header(data), peek::class(data));
    let mut world = World::new();
    world.clients[0] = true;
    world.p2ps.client_up(world.now, ClientId(0), ClientInfo { address: IpAddr::from([10, 0, 0, 1]) });
    world.p2ps.client_message(world.now, ClientId(0), data);
    world.turn();
    world.end();
}
