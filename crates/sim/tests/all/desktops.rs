//! Up to a thousand desktops at one Source Distributor, each a whole P2PS with a program of its user: what their number costs.
//!
//! Everything is counted, nothing timed: what the data stream and the connections carry, what the provider and the Source Distributor are asked.

use std::collections::BTreeSet;
use std::net::IpAddr;

use hub::distributor::{self, Origin, PeerInfo, ProviderSink, SessionId, SourceDistributor};
use hub::p2ps::{self, ClientId, ClientInfo, Joined, P2ps, SourceId};
use rwf::container::FieldListEncoder;
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, Msg, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, UpdateMsg};
use rwf::rdm::{dictionary, directory, login};
use rwf::wire::Writer;
use rwf::{DataState, DataType, EncodeError, Qos, State};

const SECOND: u64 = 1_000_000_000;
/// Items that there are, and how many of them each user watches.
const ITEMS: usize = 100;
const WATCHED: usize = 10;
const SOURCE: SourceId = SourceId(0);
const LIFE: u32 = 77;

fn encode(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 1 << 14];
    let mut w = Writer::new(&mut buf);
    write(&mut w).expect("room");
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
struct Asked(Vec<Vec<u8>>);

impl ProviderSink for Asked {
    fn send(&mut self, _: SessionId, msg: &[u8]) {
        self.0.push(msg.to_vec());
    }

    fn close(&mut self, _: SessionId, reason: &distributor::CloseReason) {
        panic!("the provider is sent away: {reason}");
    }
}

/// What was counted since it was cleared.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Costs {
    /// Bytes of the data stream, which each desktop gets once by multicast.
    stream_bytes: usize,
    /// Bytes that went to desktops alone.
    alone_bytes: usize,
    /// Blocks of desktops: each wakes the Source Distributor.
    blocks: usize,
    /// Requests for items at the provider.
    asked: usize,
    images: usize,
    updates: usize,
    suspect: usize,
}

struct Desktop {
    p2ps: P2ps,
    number: u16,
    is_there: bool,
}

struct World {
    now: u64,
    sd: SourceDistributor,
    sink: Asked,
    desktops: Vec<Desktop>,
    /// Streams that are open at the provider.
    streams: BTreeSet<i32>,
    rounds: u64,
    costs: Costs,
}

impl World {
    fn new(count: usize) -> Self {
        let config = distributor::Config {
            heartbeat_interval: SECOND,
            p2ps_timeout: 5 * SECOND,
            lease: 10 * SECOND,
            window: 1 << 23,
            history_bytes: 1 << 22,
            ..distributor::Config::default()
        };
        let sd = SourceDistributor::new(config, LIFE);
        let (sink, desktops, streams) = (Asked::default(), Vec::new(), BTreeSet::new());
        let mut world = Self { now: SECOND, sd, sink, desktops, streams, rounds: 0, costs: Costs::default() };
        let peer = PeerInfo { address: "feed:14002".into() };
        world.sd.session_up(world.now, SessionId(0), Origin::Route(0), peer, &mut world.sink);
        world.turns(2);
        for number in 1..=count as u16 {
            let config = p2ps::Config {
                heartbeat_interval: 2 * SECOND,
                is_unpaced: true,
                source_timeout: 5 * SECOND,
                gap_timeout: 5 * SECOND,
                key: u64::from(number),
                ..p2ps::Config::default()
            };
            world.desktops.push(Desktop { p2ps: P2ps::new(config, 0), number, is_there: false });
            world.join(usize::from(number) - 1);
            // The desktops come in the course of some seconds.
            if number % 100 == 0 {
                world.turn();
            }
        }
        world.turns(3);
        world
    }

    fn join(&mut self, at: usize) {
        let desktop = &mut self.desktops[at];
        let joined = Joined { number: desktop.number, incarnation: LIFE, position: self.sd.next_position() };
        self.sd.p2ps_up_unpaced(self.now, desktop.number);
        desktop.p2ps.source_joined(self.now, SOURCE, joined);
        desktop.is_there = true;
    }

    fn leave(&mut self, at: usize) {
        let desktop = &mut self.desktops[at];
        desktop.is_there = false;
        desktop.p2ps.source_down(self.now, SOURCE);
        self.sd.p2ps_down(self.now, desktop.number, &mut self.sink);
    }

    /// The user's program: it watches some of the items, others than its neighbours' do.
    fn watch(&mut self, at: usize) {
        let (now, p2ps) = (self.now, &mut self.desktops[at].p2ps);
        p2ps.client_up(now, ClientId(1), ClientInfo { address: IpAddr::from([127, 0, 0, 1]) });
        let request = login::Request { name: format!("user{at}"), ..login::Request::default() };
        p2ps.client_message(now, ClientId(1), &encode(|w| request.encode(w)));
        for n in 0..WATCHED {
            let name = format!("ITEM{}", (at * WATCHED + n) % ITEMS);
            let key = MsgKey { name_type: Some(1), ..MsgKey::item(1, name.as_bytes()) };
            let flags = RequestFlags::STREAMING;
            let request = RequestMsg { flags, key, ..RequestMsg::new(Domain::MARKET_PRICE, 10 + n as i32) };
            p2ps.client_message(now, ClientId(1), &encode(|w| request.encode(w)));
        }
    }

    /// The provider answers what it is asked.
    fn provide(&mut self) {
        for bytes in std::mem::take(&mut self.sink.0) {
            let answer = match Msg::decode(&bytes).expect("a message") {
                Msg::Request(request) => self.answer(&request),
                Msg::Close(close) => {
                    self.streams.remove(&close.stream_id);
                    Vec::new()
                }
                _ => Vec::new(),
            };
            for bytes in answer {
                self.sd.session_message(self.now, SessionId(0), &bytes, &mut self.sink);
            }
        }
    }

    fn answer(&mut self, request: &RequestMsg<'_>) -> Vec<Vec<u8>> {
        match request.domain {
            Domain::LOGIN => {
                let request = login::Request::decode(request).expect("a login");
                let accepted = login::Refresh::accept(&request, login::Features::default(), "welcome");
                vec![encode(|w| accepted.encode(w))]
            }
            Domain::SOURCE => vec![encode(|w| feed(&directory::Request::decode(request)).encode(w))],
            Domain::DICTIONARY => own_dictionary(&dictionary::Request::decode(request)),
            domain => {
                self.costs.asked += 1;
                self.streams.insert(request.stream_id);
                let body = value(self.rounds);
                let flags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);
                let (container, state) = (DataType::FIELD_LIST, State::OPEN_OK);
                let refresh =
                    RefreshMsg { container, flags, state, body: &body, ..RefreshMsg::new(domain, request.stream_id) };
                vec![encode(|w| refresh.encode(w))]
            }
        }
    }

    /// Every item is updated once.
    fn update(&mut self) {
        self.rounds += 1;
        let body = value(self.rounds);
        for &stream in &self.streams {
            let update = UpdateMsg {
                container: DataType::FIELD_LIST,
                body: &body,
                ..UpdateMsg::new(Domain::MARKET_PRICE, stream)
            };
            self.sd.session_message(self.now, SessionId(0), &encode(|w| update.encode(w)), &mut self.sink);
        }
    }

    fn turns(&mut self, count: usize) {
        for _ in 0..count {
            self.turn();
        }
    }

    /// Half a minute and the like, in which little happens.
    fn pass(&mut self, seconds: usize) {
        for _ in 0..2 * seconds {
            self.turn_of(SECOND / 2);
        }
    }

    fn turn(&mut self) {
        self.turn_of(SECOND / 10);
    }

    /// So much time, in which everything that is on its way arrives.
    fn turn_of(&mut self, nanoseconds: u64) {
        self.now += nanoseconds;
        let now = self.now;
        self.sd.on_timer(now, &mut self.sink);
        self.provide();
        let costs = &mut self.costs;
        if let Some(block) = self.sd.block() {
            costs.stream_bytes += block.len();
            for desktop in self.desktops.iter_mut().filter(|desktop| desktop.is_there) {
                desktop.p2ps.hub_block(now, SOURCE, block).expect("a block");
                desktop.flush(block, costs);
            }
        }
        self.sd.clear_block();
        let desktops = &mut self.desktops;
        self.sd.point_to_point_blocks(|number, block| {
            costs.alone_bytes += block.len();
            let desktop = &mut desktops[usize::from(number) - 1];
            desktop.p2ps.point_to_point_block(now, SOURCE, block).expect("a block");
            desktop.flush(&[], costs);
        });
        assert_eq!(self.sd.closing_p2ps().collect::<Vec<_>>(), [], "nobody is cut off");
        for desktop in &mut self.desktops {
            desktop.p2ps.on_timer(now);
            let (sd, sink, number) = (&mut self.sd, &mut self.sink, desktop.number);
            desktop.p2ps.requests(|_, block| {
                assert!(desktop.is_there, "a desktop asks nothing of one that it has lost");
                costs.blocks += 1;
                sd.request_block(now, number, block, sink).expect("requests");
            });
            desktop.flush(&[], costs);
            assert_eq!(desktop.p2ps.closing_sources().count(), 0, "nobody gives the Source Distributor up");
        }
        self.provide();
    }

    /// What so much time costs.
    fn cost_of(&mut self, what: impl FnOnce(&mut Self)) -> Costs {
        self.costs = Costs::default();
        what(self);
        self.costs
    }
}

impl Desktop {
    fn flush(&mut self, block: &[u8], costs: &mut Costs) {
        self.p2ps.flush(block, |_, deliveries| {
            for (body, stream) in deliveries.filter(|(_, stream)| *stream >= 10) {
                match Msg::decode(body).expect("a message") {
                    Msg::Refresh(_) => costs.images += 1,
                    Msg::Update(_) => costs.updates += 1,
                    Msg::Status(status) if status.state.is_some_and(|s| s.data == DataState::SUSPECT) => {
                        costs.suspect += 1;
                    }
                    other => panic!("stream {stream}: {other:?}"),
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
    let mut own = Dictionary::new();
    own.load_fields("own", b"NEW \"NEW\" 900 NULL INTEGER 5 UINT64 8\n").expect("fields");
    own.load_enums("own", b"NEW 900\n0 \"no\" no\n1 \"yes\" yes\n").expect("values");
    let mut parts = dictionary::RefreshParts::answer(&own, request).expect("a dictionary");
    let mut out = Vec::new();
    while !parts.is_done() {
        out.push(encode(|w| parts.write(request.stream_id == 3, w)));
    }
    out
}

/// So many desktops through their day; what a round of updates costs, and a minute in which nothing happens.
fn day(count: usize) -> (Costs, Costs) {
    let mut world = World::new(count);
    let opened = world.cost_of(|world| {
        (0..count).for_each(|at| world.watch(at));
        world.turns(30);
    });
    assert_eq!((opened.images, opened.suspect), (count * WATCHED, 0), "{opened:?}");
    assert_eq!(world.streams.len(), ITEMS, "an item is one stream at the provider, whoever watches it");

    let round = world.cost_of(|world| {
        world.update();
        world.turn();
    });
    assert_eq!((round.updates, round.suspect), (count * WATCHED, 0), "{round:?}");
    let idle = world.cost_of(|world| world.pass(60));
    assert_eq!((idle.updates, idle.images, idle.suspect, idle.asked), (0, 0, 0, 0), "{idle:?}");

    // Every second lid is closed, and opened again: the others notice nothing, nor does the provider of who comes back in time.
    let away = world.cost_of(|world| {
        (0..count).step_by(2).for_each(|at| world.leave(at));
        world.turns(5);
        world.update();
        world.turns(5);
    });
    let there = count / 2;
    assert_eq!((away.asked, away.updates), (0, there * WATCHED), "{away:?}");
    assert_eq!(away.suspect, (count - there) * WATCHED, "who is away says so to its own programs");
    let back = world.cost_of(|world| {
        (0..count).step_by(2).for_each(|at| world.join(at));
        world.turns(30);
    });
    assert_eq!((back.images, back.suspect), ((count - there) * WATCHED, 0), "{back:?}");
    assert_eq!(world.streams.len(), ITEMS);
    // All at once go for good: what they had open is closed when their leases end.
    let gone = world.cost_of(|world| {
        (0..count).for_each(|at| world.leave(at));
        world.pass(20);
    });
    assert_eq!((gone.asked, world.streams.len()), (0, 0), "{gone:?}");
    world.sd.check_invariants();
    println!(
        "{count} desktops: a round of {ITEMS} updates {} bytes of stream, {} alone; a minute of nothing {} bytes of stream, {} alone, {} blocks; \
         opening {} items each asked the provider {} times and brought {} bytes alone; half of them back: {} times, {} bytes",
        round.stream_bytes,
        round.alone_bytes,
        idle.stream_bytes,
        idle.alone_bytes,
        idle.blocks,
        WATCHED,
        opened.asked,
        opened.alone_bytes,
        back.asked,
        back.alone_bytes,
    );
    (round, idle)
}

/// An update costs the Source Distributor the same whether there are ten desktops or a thousand (`QUOTEWAY_DESKTOPS`; 300 without it), and so
/// does its own word that it is there; each of them costs a heartbeat in ten seconds beside that.
#[test]
fn very_many_desktops_cost_an_update_what_ten_do() {
    let most = std::env::var("QUOTEWAY_DESKTOPS").map_or(300, |n| n.parse().expect("QUOTEWAY_DESKTOPS is a number"));
    let all: Vec<_> = [10, 100, most].map(|count| (count, day(count))).into();
    let (_, (first_round, first_idle)) = all[0];
    for (count, (round, idle)) in all {
        assert_eq!((round.stream_bytes, round.alone_bytes), (first_round.stream_bytes, 0), "{count} desktops");
        assert_eq!((idle.stream_bytes, idle.alone_bytes), (first_idle.stream_bytes, 0), "{count} desktops");
        assert!(
            (5 * count..=7 * count).contains(&idle.blocks),
            "{count} desktops: {} heartbeats in a minute",
            idle.blocks
        );
    }
}
