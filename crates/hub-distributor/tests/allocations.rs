//! The steady path of the Source Distributor does not allocate: updates of interactive items, and of published ones into
//! their held images, filtered, watched for interruptions, cached, or nothing of these. This binary has one test, because it counts the allocations of the whole process.

use hub_content::cache::rules::CacheRules;
use hub_content::filter::rules::{FieldRule, FieldSet, Filters, ServiceFilter};
use hub_distributor::{
    Config, Interruption, Origin, PeerInfo, ProviderSink, RouteConfig, SessionId, SourceDistributor,
};
use hub_stream::{BlockWriter, Request, flags};
use rwf::container::FieldListEncoder;
use rwf::msg::{Domain, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, UpdateMsg};
use rwf::rdm::directory::{self, Action, Info, Part, Service, ServiceState};
use rwf::rdm::login;
use rwf::wire::Writer;
use rwf::{DataType, Qos};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const ROUTE: SessionId = SessionId(0);
const NIP: SessionId = SessionId(1);
const ITEMS: i32 = 100;

#[derive(Default)]
struct Nowhere;

impl ProviderSink for Nowhere {
    fn send(&mut self, _: SessionId, _: &[u8]) {}

    fn close(&mut self, session: SessionId, reason: &hub_distributor::CloseReason) {
        panic!("{session:?} closed: {reason}");
    }
}

fn encode(write: impl Fn(&mut Writer<'_>) -> Result<(), rwf::EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 4096];
    let mut w = Writer::new(&mut buf);
    write(&mut w).unwrap();
    w.into_written().to_vec()
}

fn fields(value: u64) -> Vec<u8> {
    encode(|w| {
        let mut list = FieldListEncoder::begin(w)?;
        for fid in 20..30 {
            list.uint(fid, value)?;
        }
        list.finish()
    })
}

fn refresh(stream: i32, key: Option<MsgKey<'_>>) -> Vec<u8> {
    let body = fields(1);
    let mut bits = RefreshFlags::REFRESH_COMPLETE;
    bits.set(RefreshFlags::SOLICITED, key.is_none());
    let msg = RefreshMsg {
        container: DataType::FIELD_LIST,
        flags: bits,
        key,
        body: &body,
        ..RefreshMsg::new(Domain::MARKET_PRICE, stream)
    };
    encode(|w| msg.encode(w))
}

fn provider_up(sd: &mut SourceDistributor, id: SessionId, origin: Origin, name: &str) {
    sd.session_up(0, id, origin, PeerInfo::default(), &mut Nowhere);
    let request = login::Request { role: Some(u64::from(origin == Origin::NonInteractive)), ..Default::default() };
    let login = if origin == Origin::NonInteractive {
        encode(|w| request.encode(w))
    } else {
        encode(|w| login::Refresh::accept(&request, login::Features::default(), "").encode(w))
    };
    sd.session_message(0, id, &login, &mut Nowhere);
    let info = Info { name: name.into(), capabilities: vec![Domain::MARKET_PRICE], ..Info::default() };
    let service = Service {
        info: Some(Part::Set(info)),
        state: Some(Part::Set(ServiceState::new(true))),
        ..Service::new(1, Action::Add)
    };
    let request = directory::Request { stream_id: 2, streaming: true, service_id: None, filter: 63 };
    let refresh = directory::Refresh::answer(&request, vec![service]);
    sd.session_message(0, id, &encode(|w| refresh.encode(w)), &mut Nowhere);
}

/// A distributor with items of both kinds, open for P2PS 1 and imaged.
fn busy(config: Config) -> SourceDistributor {
    let mut sd = SourceDistributor::new(config, 1);
    sd.p2ps_up(0, 1);
    provider_up(&mut sd, ROUTE, Origin::Route(0), "FEED");
    provider_up(&mut sd, NIP, Origin::NonInteractive, "NI_PUB");
    let names: Vec<String> = (0..ITEMS).map(|n| format!("ITEM{n}")).collect();
    let mut writer = BlockWriter::new(1);
    for (n, name) in (0..).zip(&names) {
        let key = MsgKey { name: Some(name.as_bytes()), name_type: Some(1), ..MsgKey::EMPTY };
        let published = MsgKey { service_id: Some(1), ..key };
        sd.session_message(0, NIP, &refresh(-1 - n, Some(published)), &mut Nowhere);
        let request = RequestMsg {
            flags: RequestFlags::STREAMING,
            qos: Some(Qos::REALTIME_TICK),
            key,
            ..RequestMsg::new(Domain::MARKET_PRICE, 0)
        };
        let rwf = encode(|w| request.encode(w));
        for service in [1, 2] {
            writer.request(&Request::Open { service, token: n as u32, flags: flags::STREAMING, rwf: &rwf });
        }
    }
    sd.request_block(0, 1, writer.block().unwrap(), &mut Nowhere).unwrap();
    for n in 0..ITEMS {
        sd.session_message(0, ROUTE, &refresh(5 + n, None), &mut Nowhere);
    }
    sd.clear_block();
    sd
}

fn turn(sd: &mut SourceDistributor, updates: &[(SessionId, Vec<u8>)]) -> usize {
    for (id, bytes) in updates {
        sd.session_message(0, *id, bytes, &mut Nowhere);
    }
    let bytes = sd.block().map_or(0, <[u8]>::len);
    sd.clear_block();
    bytes
}

/// Every other field of every service does not pass.
fn filtering() -> Config {
    let fields = FieldRule::AllBut(FieldSet::new((20..30).step_by(2).map(|fid| (fid, fid))));
    let others = Some(Arc::new(ServiceFilter { fields, ..ServiceFilter::default() }));
    Config { filters: Filters { others, ..Filters::default() }, ..Config::default() }
}

/// The provider's data are watched for interruptions.
fn monitored() -> Config {
    let interruption = Some(Interruption { duration: 1_000_000_000, traffic_window: 0 });
    Config { routes: vec![RouteConfig { interruption, ..RouteConfig::default() }], ..Config::default() }
}

#[test]
fn a_warm_turn_does_not_allocate() {
    let whole = check(busy(Config::default()));
    assert_eq!(check(busy(monitored())), whole, "nothing is held back");
    assert_eq!(check(busy(Config { cache: CacheRules::everything(), ..Config::default() })), whole, "all is relayed");
    let part = check(busy(filtering()));
    assert!(part < whole, "half of the fields: {part} of {whole} bytes");
}

/// Has turns of updates relayed, and tells how many bytes a turn has.
fn check(mut sd: SourceDistributor) -> usize {
    let body = fields(2);
    let mut updates = Vec::new();
    for n in 0..ITEMS {
        for (id, stream) in [(ROUTE, 5 + n), (NIP, -1 - n)] {
            let msg = UpdateMsg {
                container: DataType::FIELD_LIST,
                body: &body,
                ..UpdateMsg::new(Domain::MARKET_PRICE, stream)
            };
            updates.push((id, encode(|w| msg.encode(w))));
        }
    }
    let first = turn(&mut sd, &updates);
    // The thread that runs the tests allocates too, when it likes: one quiet round out of a few is proof enough.
    const ROUNDS: u64 = 20;
    let mut quiet = false;
    for _ in 0..ROUNDS {
        let region = Region::new(ALLOCATOR);
        assert_eq!(turn(&mut sd, &updates), first);
        let change = region.change();
        quiet |= (change.allocations, change.reallocations) == (0, 0);
    }
    assert!(quiet, "every turn allocates");
    assert_eq!(sd.counters().updates, (1 + ROUNDS) * updates.len() as u64, "every update was relayed");
    first
}
