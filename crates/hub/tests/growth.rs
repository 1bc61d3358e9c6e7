//! Bounds under load, small: an idle client costs little in the hub, and nothing is left behind by clients that come and go, by
//! items that are opened and closed, and by a provider that reconnects; nor does a batch claim its payload for each of its names. This binary has one test, because it counts the allocations of the
//! whole process.

use hub::distributor::{self, CloseReason, Origin, PeerInfo, ProviderSink, SessionId, SourceDistributor};
use hub::p2ps::{self, ClientId, ClientInfo, P2ps, SourceId};
use rwf::container::{ElementList, ElementListEncoder, SetScope};
use rwf::msg::{Domain, Msg, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg};
use rwf::rdm::directory::{self, Action, Info, Part, Service, ServiceState};
use rwf::rdm::login;
use rwf::rdm::request::{Payload, View, data_streams};
use rwf::wire::Writer;
use rwf::{DataType, EncodeError, Primitive, Qos};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::net::{IpAddr, Ipv4Addr};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SECOND: u64 = 1_000_000_000;
const SOURCE: SourceId = SourceId(0);
const CLIENTS: u32 = 40;
const ITEMS: u32 = 25;
/// Bytes of a client that is logged in and watches nothing, without its connection; a process has some 2.5 KB for each.
const IDLE_MAX: isize = 2_000;

fn encode(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    encode_up_to(4096, write)
}

fn encode_up_to(size: usize, write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; size];
    let mut w = Writer::new(&mut buf);
    write(&mut w).unwrap();
    w.into_written().to_vec()
}

fn in_use() -> isize {
    // Tables that grow and shrink by reallocation are among both.
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as isize - stats.bytes_deallocated as isize
}

/// A provider that answers everything.
#[derive(Default)]
struct Provider {
    asked: Vec<Vec<u8>>,
}

impl ProviderSink for Provider {
    fn send(&mut self, _: SessionId, msg: &[u8]) {
        self.asked.push(msg.to_vec());
    }

    fn close(&mut self, session: SessionId, reason: &CloseReason) {
        panic!("{session:?} closed: {reason}");
    }
}

/// A provider, both sides of a hub, and clients.
struct World {
    now: u64,
    sd: SourceDistributor,
    p2ps: P2ps,
    provider: Provider,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            now: SECOND,
            sd: SourceDistributor::new(distributor::Config { age_unwatched: 0, ..distributor::Config::default() }, 1),
            p2ps: P2ps::new(p2ps::Config::default(), 1),
            provider: Provider::default(),
        };
        world.p2ps.source_up(world.now, SOURCE);
        world.sd.p2ps_up(world.now, 1);
        world
    }

    fn provider_up(&mut self, id: SessionId) {
        self.sd.session_up(self.now, id, Origin::Route(0), PeerInfo::default(), &mut self.provider);
        self.provider.asked.clear();
        let accept = login::Refresh::accept(&login::Request::default(), login::Features::default(), "");
        self.sd.session_message(self.now, id, &encode(|w| accept.encode(w)), &mut self.provider);
        let info = Info {
            name: "FEED".into(),
            capabilities: vec![Domain::MARKET_PRICE, Domain::SYMBOL_LIST],
            qos: vec![Qos::REALTIME_TICK],
            ..Info::default()
        };
        let service = Service {
            info: Some(Part::Set(info)),
            state: Some(Part::Set(ServiceState::new(true))),
            ..Service::new(1, Action::Add)
        };
        let ask = directory::Request { stream_id: 2, streaming: true, service_id: None, filter: 63 };
        let refresh = directory::Refresh::answer(&ask, vec![service]);
        self.sd.session_message(self.now, id, &encode(|w| refresh.encode(w)), &mut self.provider);
    }

    /// Everything that is on its way arrives. The bytes that clients get.
    fn rest(&mut self, id: SessionId) -> usize {
        let mut bytes = 0;
        for _ in 0..2_000 {
            self.sd.on_timer(self.now, &mut self.provider);
            for message in std::mem::take(&mut self.provider.asked) {
                self.answer(id, &message);
            }
            let Self { sd, p2ps, provider, now, .. } = self;
            let mut moved = false;
            if let Some(block) = sd.block() {
                p2ps.hub_block(*now, SOURCE, block).unwrap();
                p2ps.flush(block, |_, out| bytes += out.map(|(body, _)| body.len()).sum::<usize>());
                moved = true;
            }
            sd.clear_block();
            p2ps.on_timer(*now);
            p2ps.flush(&[], |_, out| bytes += out.map(|(body, _)| body.len()).sum::<usize>());
            p2ps.requests(|_, block| {
                moved = true;
                sd.request_block(*now, 1, block, provider).unwrap();
            });
            if !moved && provider.asked.is_empty() {
                return bytes;
            }
        }
        panic!("the world never comes to rest");
    }

    fn answer(&mut self, id: SessionId, message: &[u8]) {
        let Ok(Msg::Request(request)) = Msg::decode(message) else { return };
        if request.domain != Domain::MARKET_PRICE {
            return;
        }
        let refresh = RefreshMsg {
            container: DataType::NO_DATA,
            flags: RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0),
            qos: Some(Qos::REALTIME_TICK),
            ..RefreshMsg::new(Domain::MARKET_PRICE, request.stream_id)
        };
        self.sd.session_message(self.now, id, &encode(|w| refresh.encode(w)), &mut self.provider);
    }

    fn log_in(&mut self, client: ClientId) {
        self.p2ps.client_up(self.now, client, ClientInfo { address: IpAddr::V4(Ipv4Addr::LOCALHOST) });
        let request = login::Request { name: format!("user{}", client.0), ..login::Request::default() };
        self.p2ps.client_message(self.now, client, &encode(|w| request.encode(w)));
    }

    /// Clients come, open items, and go; in the middle the provider does.
    fn cycle(&mut self, number: u32) {
        let sessions = [SessionId(number % 2), SessionId((number + 1) % 2)];
        for client in (0..CLIENTS).map(ClientId) {
            self.log_in(client);
            for item in 0..ITEMS {
                let name = format!("I{}", (number * 7 + client.0 * 3 + item) % 1_000);
                let request = RequestMsg {
                    flags: RequestFlags::STREAMING,
                    key: MsgKey::item(1, name.as_bytes()),
                    ..RequestMsg::new(Domain::MARKET_PRICE, 5 + item as i32)
                };
                self.p2ps.client_message(self.now, client, &encode(|w| request.encode(w)));
            }
        }
        assert!(self.rest(sessions[0]) > 1_000, "images");
        self.sd.session_down(self.now, sessions[0], "connection reset", &mut self.provider);
        self.rest(sessions[0]);
        self.provider_up(sessions[1]);
        self.rest(sessions[1]);
        (0..CLIENTS).map(ClientId).for_each(|client| self.p2ps.client_down(self.now, client));
        self.rest(sessions[1]);
        assert_eq!((self.p2ps.counters().items, self.sd.items()), (0, 0), "nothing is open");
        // Ids that were given back may be used again.
        self.now += 100 * SECOND;
        self.rest(sessions[1]);
        self.sd.notices().for_each(drop);
        self.p2ps.notices().for_each(drop);
    }
}

/// Names in a batch: as many as an array has room for in 65,535 bytes if each has one byte.
const NAMES_MAX: usize = 65_531;

/// The message of a batch on stream 100, without a view unless it has fields.
struct Batch {
    domain: Domain,
    flags: RequestFlags,
    /// The elements of the array of names, each of so many bytes.
    names: (u8, Vec<u8>),
    /// Bytes of an element that means nothing here and goes to the provider.
    unknown: usize,
    /// Fields of a view.
    fields: usize,
}

impl Batch {
    /// Private streams, so that names that are the same are items of their own.
    fn private(names: usize, unknown: usize, fields: usize) -> Self {
        let flags = RequestFlags::PRIVATE_STREAM;
        Self { domain: Domain::MARKET_PRICE, flags, names: (1, vec![b'A'; names]), unknown, fields }
    }

    fn message(&self) -> Vec<u8> {
        let (length, names) = &self.names;
        let count = (names.len() / usize::from(*length)) as u16;
        let mut array = vec![DataType::ASCII_STRING.0, *length];
        array.extend_from_slice(&count.to_be_bytes());
        array.extend_from_slice(names);
        let fids: Vec<_> = (0..self.fields as i16).collect();
        let fids =
            encode_up_to(1 << 17, |w| Payload { view: Some(View::Fields(fids)), ..Payload::default() }.encode(w));
        let unknown = vec![b'x'; self.unknown];
        let body = encode_up_to(1 << 20, |w| {
            let mut list = ElementListEncoder::begin(w)?;
            list.raw(b":ItemList", DataType::ARRAY, &array)?;
            list.raw(b"Unknown", DataType::BUFFER, &unknown)?;
            let behaviours = encode(|w| {
                let mut list = ElementListEncoder::begin(w)?;
                list.element(b":DataStreams", DataType::UINT, &Primitive::UInt(data_streams::STREAMS))?;
                list.finish()
            });
            list.raw(b":SymbolListBehaviors", DataType::ELEMENT_LIST, &behaviours)?;
            for view in ElementList::decode(&fids, &SetScope::NONE).unwrap().entries() {
                let view = view.unwrap();
                list.raw(view.name, view.data_type, view.data)?;
            }
            list.finish()
        });
        let mut flags = RequestFlags::STREAMING | RequestFlags::HAS_BATCH | self.flags;
        flags.set(RequestFlags::HAS_VIEW, self.fields > 0);
        let request = RequestMsg {
            flags,
            key: MsgKey { service_id: Some(1), ..MsgKey::EMPTY },
            container: DataType::ELEMENT_LIST,
            body: &body,
            ..RequestMsg::new(self.domain, 100)
        };
        encode_up_to(1 << 20, |w| request.encode(w))
    }

    /// A world with a client that is logged in.
    fn world() -> World {
        let mut world = World::new();
        world.provider_up(SessionId(0));
        world.rest(SessionId(0));
        world.log_in(ClientId(0));
        world.rest(SessionId(0));
        world
    }

    /// Bytes that a client's batch leaves in use at both sides of the hub when the provider has answered all of it.
    fn claim_answered(&self) -> isize {
        let mut world = Self::world();
        let message = self.message();
        let before = in_use();
        world.p2ps.client_message(world.now, ClientId(0), &message);
        world.rest(SessionId(0));
        assert_eq!(world.p2ps.counters().images_out, self.names.1.len() as u64, "images for a batch");
        in_use() - before
    }

    /// Bytes that a client's batch leaves in use at a P2PS, and bytes that were allocated for it, those included that are free again.
    fn claim(&self) -> (isize, usize) {
        let mut world = Self::world();
        let message = self.message();
        let (before, allocated) = (in_use(), ALLOCATOR.stats().bytes_allocated);
        world.p2ps.client_message(world.now, ClientId(0), &message);
        while world.p2ps.is_behind(ClientId(0)) {
            world.p2ps.on_timer(world.now);
        }
        let claimed = (in_use() - before, ALLOCATOR.stats().bytes_allocated - allocated);
        let names = self.names.1.len() / usize::from(self.names.0);
        assert_eq!(world.p2ps.counters().watchers, names as u64, "streams of a batch");
        claimed
    }
}

/// A batch costs what its items cost, and its payload once.
fn a_batch_claims_its_payload_once() {
    let small = Batch::private(NAMES_MAX, 10, 0).claim().0;
    let more = Batch::private(NAMES_MAX, 60_000, 0).claim().0 - small;
    assert!(more < 1 << 20, "{more} bytes more for an element of 60,000 bytes, {small} without");
    let small = Batch::private(NAMES_MAX, 10, 1).claim().0;
    let more = Batch::private(NAMES_MAX, 10, 30_000).claim().0 - small;
    assert!(more < 1 << 20, "{more} bytes more for a view of 30,000 fields, {small} with one of 1");
    for (unknown, fields) in [(60_000, 0), (10, 30_000)] {
        let small = Batch::private(2_000, 10, fields.min(1)).claim_answered();
        let more = Batch::private(2_000, unknown, fields).claim_answered() - small;
        // The blocks of a turn keep their room: a hundred opens.
        assert!(more < 16 << 20, "{more} bytes more for what goes to the provider, {small} for little");
    }
    // The names themselves are read once as well, also where the payload says how a list's items are opened.
    let names: Vec<_> =
        (0..5_000_u16).flat_map(|name| [b'0' + (name / 100) as u8, b'0' + (name % 100) as u8]).collect();
    let lists = |names| Batch {
        domain: Domain::SYMBOL_LIST,
        flags: RequestFlags::NONE,
        ..Batch { names: (2, names), ..Batch::private(0, 10, 0) }
    };
    let each = lists(names).claim().1 / 5_000;
    assert!(each < 4_096, "{each} bytes are allocated for each of 5,000 lists");
}

#[test]
fn nothing_is_left_behind_by_those_who_come_and_go() {
    let mut world = World::new();
    world.provider_up(SessionId(0));
    world.rest(SessionId(0));
    // Until what keeps the last so many of something is full.
    (0..60).for_each(|number| world.cycle(number));
    let early = in_use();
    (60..160).for_each(|number| world.cycle(number));
    let grown = in_use() - early;
    // A table may have doubled since.
    assert!(
        grown < 64 << 10,
        "{grown} bytes more after {} further clients, 100 outages of the provider",
        100 * CLIENTS
    );

    let before = in_use();
    for client in (0..2_000).map(ClientId) {
        world.log_in(client);
        if client.0 % 50 == 49 {
            // Memory for one turn's messages is not the clients'.
            world.rest(SessionId(0));
        }
    }
    let each = (in_use() - before) / 2_000;
    assert!(each <= IDLE_MAX, "{each} bytes for an idle client");

    a_batch_claims_its_payload_once();
}
