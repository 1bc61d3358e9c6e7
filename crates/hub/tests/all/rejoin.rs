//! A Source Distributor and two P2PSs, each on the other side of a network: one of them breaks a bound. It is declared lost, its
//! watchers see Suspect and then a fresh image, and the other P2PS and the provider notice nothing of it.

use hub::distributor::{self, Origin, PeerInfo, ProviderSink, SessionId, SourceDistributor};
use hub::p2ps::{self, ClientId, ClientInfo, Joined, P2ps, SourceId};
use rwf::container::FieldListEncoder;
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, Msg, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, UpdateMsg};
use rwf::rdm::{dictionary, directory, login};
use rwf::wire::Writer;
use rwf::{DataState, DataType, EncodeError, Qos, State};
use std::net::IpAddr;

const SECOND: u64 = 1_000_000_000;
const ITEMS: i32 = 60;
const OPENS_A_TURN: u32 = 7;
const SOURCE: SourceId = SourceId(0);
const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);

fn encode(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 1 << 16];
    let mut w = Writer::new(&mut buf);
    write(&mut w).unwrap();
    w.into_written().to_vec()
}

fn value(number: u64) -> Vec<u8> {
    encode(|w| {
        let mut list = FieldListEncoder::begin(w)?;
        list.uint(22, number)?;
        list.finish()
    })
}

#[derive(Default)]
struct Sink(Vec<Vec<u8>>);

impl ProviderSink for Sink {
    fn send(&mut self, _: SessionId, msg: &[u8]) {
        self.0.push(msg.to_vec());
    }

    fn close(&mut self, _: SessionId, reason: &hub::distributor::CloseReason) {
        panic!("session is closed: {reason}");
    }
}

/// A P2PS with one client that watches all items, and how it is joined.
struct Side {
    p2ps: P2ps,
    number: u16,
    /// The data stream reaches it.
    reads: bool,
    /// Blocks that the P2PS missed come later, instead of being lost.
    late: Vec<Vec<u8>>,
    /// Its requests reach the distributor.
    speaks: bool,
    images: usize,
    updates: usize,
    suspect: usize,
    dictionary: usize,
    /// Most opens in one turn.
    burst: usize,
}

struct World {
    now: u64,
    sd: SourceDistributor,
    sink: Sink,
    sides: Vec<Side>,
    next_number: u16,
    /// Streams that are open at the provider, and the requests it got.
    streams: Vec<i32>,
    requests: usize,
    count: u64,
}

impl World {
    fn new(config: distributor::Config) -> Self {
        let config =
            distributor::Config { heartbeat_interval: SECOND, p2ps_timeout: 3 * SECOND, lease: 10 * SECOND, ..config };
        let sd = SourceDistributor::new(config, 77);
        let mut world = Self {
            now: SECOND,
            sd,
            sink: Sink::default(),
            sides: Vec::new(),
            next_number: 0,
            streams: Vec::new(),
            requests: 0,
            count: 0,
        };
        let peer = PeerInfo { address: "feed:14002".into() };
        world.sd.session_up(world.now, SessionId(0), Origin::Route(0), peer, &mut world.sink);
        for _ in 0..2 {
            let config = p2ps::Config {
                opens_per_turn: OPENS_A_TURN,
                heartbeat_interval: SECOND,
                source_timeout: 5 * SECOND,
                gap_timeout: 2 * SECOND,
                ..p2ps::Config::default()
            };
            world.sides.push(Side {
                p2ps: P2ps::new(config, 0),
                number: 0,
                reads: true,
                late: Vec::new(),
                speaks: true,
                images: 0,
                updates: 0,
                suspect: 0,
                dictionary: 0,
                burst: 0,
            });
            let at = world.sides.len() - 1;
            world.join(at);
        }
        world.turns(3);
        for at in 0..2 {
            world.log_in(at);
        }
        world.turns(40);
        world
    }

    fn join(&mut self, at: usize) {
        self.next_number += 1;
        let (number, position) = (self.next_number, self.sd.next_position());
        self.sd.p2ps_up(self.now, number);
        let side = &mut self.sides[at];
        (side.number, side.reads, side.speaks) = (number, true, true);
        side.late.clear();
        side.p2ps.source_joined(self.now, SOURCE, Joined { number, incarnation: 77, position });
    }

    fn log_in(&mut self, at: usize) {
        let (now, side) = (self.now, &mut self.sides[at]);
        side.p2ps.client_up(now, ClientId(1), ClientInfo { address: IpAddr::from([10, 0, 0, 1]) });
        let request = login::Request { name: "user".into(), ..login::Request::default() };
        side.p2ps.client_message(now, ClientId(1), &encode(|w| request.encode(w)));
        for item in 0..ITEMS {
            let name = format!("ITEM{item}");
            let key = MsgKey { name_type: Some(1), ..MsgKey::item(1, name.as_bytes()) };
            let flags = RequestFlags::STREAMING;
            let request = RequestMsg { flags, key, ..RequestMsg::new(Domain::MARKET_PRICE, 10 + item) };
            side.p2ps.client_message(now, ClientId(1), &encode(|w| request.encode(w)));
        }
    }

    /// The provider answers what it is asked.
    fn provide(&mut self) {
        for bytes in std::mem::take(&mut self.sink.0) {
            let Msg::Request(request) = Msg::decode(&bytes).unwrap() else { continue };
            let answer = match request.domain {
                Domain::LOGIN => {
                    let request = login::Request::decode(&request).unwrap();
                    let features = login::Features::default();
                    vec![encode(|w| login::Refresh::accept(&request, features, "welcome").encode(w))]
                }
                Domain::SOURCE => vec![encode(|w| feed(&directory::Request::decode(&request)).encode(w))],
                Domain::DICTIONARY => own_dictionary(&dictionary::Request::decode(&request)),
                domain => {
                    self.requests += 1;
                    if !self.streams.contains(&request.stream_id) {
                        self.streams.push(request.stream_id);
                    }
                    let body = value(self.count);
                    let refresh = RefreshMsg {
                        container: DataType::FIELD_LIST,
                        flags: WHOLE,
                        state: State::OPEN_OK,
                        body: &body,
                        ..RefreshMsg::new(domain, request.stream_id)
                    };
                    vec![encode(|w| refresh.encode(w))]
                }
            };
            for bytes in answer {
                self.sd.session_message(self.now, SessionId(0), &bytes, &mut self.sink);
            }
        }
    }

    /// Every item is updated.
    fn update(&mut self) {
        self.count += 1;
        let body = value(self.count);
        for &stream in &self.streams {
            let update = UpdateMsg {
                container: DataType::FIELD_LIST,
                body: &body,
                ..UpdateMsg::new(Domain::MARKET_PRICE, stream)
            };
            let bytes = encode(|w| update.encode(w));
            self.sd.session_message(self.now, SessionId(0), &bytes, &mut self.sink);
        }
    }

    fn turns(&mut self, count: usize) {
        for _ in 0..count {
            self.turn();
        }
    }

    /// A tenth of a second, in which everything that is on its way arrives.
    fn turn(&mut self) {
        self.now += SECOND / 10;
        let now = self.now;
        self.sd.on_timer(now, &mut self.sink);
        self.provide();
        if let Some(block) = self.sd.block() {
            for side in &mut self.sides {
                if side.reads {
                    side.read(now, block);
                } else {
                    side.late.push(block.to_vec());
                }
            }
        }
        self.sd.clear_block();
        self.sd.check_invariants();
        let Self { sd, sides, .. } = self;
        sd.point_to_point_blocks(|number, block| {
            for side in sides.iter_mut().filter(|side| side.number == number) {
                side.p2ps.point_to_point_block(now, SOURCE, block).unwrap();
                side.flush(&[]);
            }
        });
        let ended: Vec<u16> = self.sd.closing_p2ps().map(|(number, _)| number).collect();
        for at in 0..self.sides.len() {
            let side = &mut self.sides[at];
            side.p2ps.on_timer(now);
            let (number, speaks) = (side.number, side.speaks);
            let (sd, sink) = (&mut self.sd, &mut self.sink);
            let mut opens = 0;
            side.p2ps.requests(|_, block| {
                let block_of = hub::stream::Block::parse(block).unwrap();
                let kinds = block_of.messages().map(|message| message.unwrap().kind);
                opens += kinds.filter(|kind| *kind == hub::stream::Kind::Open).count();
                if speaks {
                    // A client that was cut off may still have something to say.
                    let _ = sd.request_block(now, number, block, sink);
                }
            });
            side.burst = side.burst.max(opens);
            side.flush(&[]);
            if ended.contains(&number) {
                side.p2ps.source_down(now, SOURCE);
                side.flush(&[]);
            }
            let parted = side.p2ps.closing_sources().count() > 0;
            if parted && !ended.contains(&number) {
                self.sd.p2ps_down(now, number, &mut self.sink);
            }
            if parted || ended.contains(&number) {
                self.join(at);
            }
        }
        self.provide();
    }

    fn clear(&mut self) {
        self.requests = 0;
        for side in &mut self.sides {
            (side.images, side.updates, side.suspect, side.burst, side.dictionary) = (0, 0, 0, 0, 0);
        }
    }
}

impl Side {
    fn read(&mut self, now: u64, block: &[u8]) {
        self.p2ps.hub_block(now, SOURCE, block).unwrap();
        self.flush(block);
    }

    fn flush(&mut self, block: &[u8]) {
        let Self { p2ps, images, updates, suspect, dictionary, .. } = self;
        p2ps.flush(block, |_, deliveries| {
            for (body, stream) in deliveries {
                match Msg::decode(body).unwrap() {
                    Msg::Refresh(refresh) if refresh.domain == Domain::DICTIONARY => *dictionary += 1,
                    Msg::Refresh(_) if stream >= 10 => *images += 1,
                    Msg::Update(_) if stream >= 10 => *updates += 1,
                    Msg::Status(status) if status.state.is_some_and(|s| s.data == DataState::SUSPECT) => *suspect += 1,
                    _ => {}
                }
            }
        });
    }
}

fn feed(request: &directory::Request) -> directory::Refresh {
    let info = directory::Info {
        name: "FEED".into(),
        capabilities: vec![Domain::MARKET_PRICE, Domain::DICTIONARY],
        qos: vec![Qos::REALTIME_TICK],
        dictionaries_provided: vec!["RWFFld".into(), "RWFEnum".into()],
        ..directory::Info::default()
    };
    let state = directory::ServiceState { up: true, accepting_requests: Some(true), status: None };
    let entry = directory::Service {
        info: Some(directory::Part::Set(info)),
        state: Some(directory::Part::Set(state)),
        ..directory::Service::new(9, directory::Action::Add)
    };
    directory::Refresh::answer(request, vec![entry])
}

fn own_dictionary(request: &dictionary::Request) -> Vec<Vec<u8>> {
    dictionary_of(request, "NEW \"NEW\" 900 NULL INTEGER 5 UINT64 8\n")
}

fn dictionary_of(request: &dictionary::Request, fields: &str) -> Vec<Vec<u8>> {
    let mut own = Dictionary::new();
    own.load_fields("own", fields.as_bytes()).unwrap();
    own.load_enums("own", b"NEW 900\n0 \"no\" no\n1 \"yes\" yes\n").unwrap();
    let mut parts = dictionary::RefreshParts::answer(&own, request).unwrap();
    let mut out = Vec::new();
    while !parts.is_done() {
        out.push(encode(|w| parts.write(request.stream_id == 3, w)));
    }
    out
}

/// A bound, how the first P2PS breaks it, and where that is counted.
type Break = (&'static str, distributor::Config, fn(&mut World), fn(&distributor::Counters) -> u64);

fn breaks() -> Vec<Break> {
    let plain = distributor::Config::default;
    vec![
        (
            "silent",
            plain(),
            |world| {
                world.sides[0].speaks = false;
                world.turns(45);
            },
            |c| c.silent_p2ps,
        ),
        (
            "behind",
            distributor::Config { max_lag: 1_500, ..plain() },
            |world| {
                world.sides[0].reads = false;
                for _ in 0..40 {
                    world.update();
                    world.turn();
                }
                let (now, late) = (world.now, std::mem::take(&mut world.sides[0].late));
                for block in late {
                    world.sides[0].read(now, &block);
                }
                world.sides[0].reads = true;
            },
            |c| c.overrun_p2ps,
        ),
        (
            "asks too much",
            distributor::Config { max_requests: 300, ..plain() },
            |world| {
                let number = world.sides[0].number;
                let mut writer = hub::stream::BlockWriter::new(5_000);
                writer.request(&hub::stream::Request::Hello { incarnation: 77, key: 0 });
                for _ in 0..400 {
                    writer.request(&hub::stream::Request::Heartbeat { position: 0 });
                }
                let block = writer.block().unwrap().to_vec();
                let _ = world.sd.request_block(world.now, number, &block, &mut world.sink);
            },
            |c| c.overrun_p2ps,
        ),
        (
            "takes nothing",
            plain(),
            |world| {
                let number = world.sides[0].number;
                world.sd.p2ps_lost(world.now, number, "does not take what is sent to it", &mut world.sink);
            },
            |c| c.overrun_p2ps,
        ),
        (
            "lost more than is kept",
            distributor::Config { history_bytes: 4_000, ..plain() },
            |world| {
                world.sides[0].reads = false;
                for _ in 0..3 {
                    world.update();
                    world.turn();
                }
                world.sides[0].late.clear();
                world.sides[0].reads = true;
            },
            |c| c.gaps_too_old,
        ),
        (
            "gone without notice",
            plain(),
            |world| {
                let number = world.sides[0].number;
                world.sd.p2ps_down(world.now, number, &mut world.sink);
            },
            |_| 1,
        ),
    ]
}

#[test]
fn one_past_a_bound_is_suspect_and_comes_back_and_nobody_else_notices() {
    for (bound, config, break_it, counted) in breaks() {
        let mut world = World::new(config);
        for side in &world.sides {
            assert_eq!(side.images, ITEMS as usize, "{bound}: everything is open");
        }
        let number = world.sides[0].number;
        world.clear();
        let before = world.count;
        break_it(&mut world);
        for _ in 0..40 {
            world.update();
            world.turn();
        }
        let updates = (world.count - before) as usize * ITEMS as usize;
        let [lost, other] = &world.sides[..] else { panic!("two of them") };
        assert_eq!(counted(world.sd.counters()), 1, "{bound}: it was found out once");
        assert_ne!(lost.number, number, "{bound}: it has joined anew");
        assert_eq!(lost.suspect, ITEMS as usize, "{bound}: each stream is told once");
        assert_eq!(lost.images, ITEMS as usize, "{bound}: and has a fresh image");
        assert!(lost.burst <= OPENS_A_TURN as usize, "{bound}: {} opens in a turn", lost.burst);
        assert_eq!((other.suspect, other.images, other.updates), (0, 0, updates), "{bound}: the other");
        assert!(world.requests <= ITEMS as usize, "{bound}: {} requests to the provider", world.requests);
        assert_eq!(world.streams.len(), ITEMS as usize, "{bound}: nothing was opened twice");
    }
}

#[test]
fn a_dictionary_that_was_lost_on_its_way_is_told_again() {
    let mut world = World::new(distributor::Config { history_bytes: 1 << 20, ..distributor::Config::default() });
    for at in 0..2 {
        let name = "RWFFld".to_owned();
        let verbosity = rwf::dictionary::Verbosity::NORMAL;
        let request = dictionary::Request { stream_id: 3, streaming: true, service_id: Some(1), name, verbosity };
        let now = world.now;
        world.sides[at].p2ps.client_message(now, ClientId(1), &encode(|w| request.encode(w)));
        world.sides[at].flush(&[]);
        assert!(world.sides[at].dictionary > 0);
    }
    world.clear();
    // The provider's dictionary changes, and the first P2PS loses it.
    world.sides[0].reads = false;
    let name = "RWFFld".to_owned();
    let verbosity = rwf::dictionary::Verbosity::NORMAL;
    let request = dictionary::Request { stream_id: 3, streaming: true, service_id: Some(9), name, verbosity };
    for bytes in dictionary_of(&request, "NEWER \"NEWER\" 901 NULL INTEGER 5 UINT64 8\n") {
        world.sd.session_message(world.now, SessionId(0), &bytes, &mut world.sink);
    }
    world.turn();
    world.sides[0].late.clear();
    world.sides[0].reads = true;
    world.update();
    world.turns(40);
    for side in &world.sides {
        assert!(side.dictionary > 0, "who has the dictionary gets the one that replaces it");
        assert_eq!((side.suspect, side.updates), (0, ITEMS as usize), "and its items go on");
    }
    assert_eq!(world.sd.counters().gaps, 1);
}
