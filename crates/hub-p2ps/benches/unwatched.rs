//! Cost of an update to a P2PS where nobody watches it: one header read and one table lookup.
//!
//! `cargo bench -p hub-p2ps --bench unwatched` prints nanoseconds an update. For instructions, run the built bench twice under
//! `valgrind --tool=callgrind` (or `perf stat`) with `QUOTEWAY_TURNS` at two values: the difference is that of the updates alone.

#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a benchmark reads the clock and prints")]

use hub_p2ps::{ClientId, ClientInfo, Config, Joined, P2ps, SourceId};
use hub_stream::{ALL, Block, BlockWriter, Event, Request};
use rwf::EncodeError;
use rwf::msg::{Domain, MsgKey, RequestFlags, RequestMsg};
use rwf::rdm::directory::{Action, Info, Part, Service, ServiceState};
use rwf::rdm::login;
use rwf::wire::Writer;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

const UPDATES_A_TURN: u32 = 512;
const SOURCE: SourceId = SourceId(0);
/// Bytes of an update: the RWF of eight small fields.
const UPDATE: [u8; 70] = [0; 70];

/// Handles at the source; one item, the last, is open here, so that the table of handles is as long.
const HANDLES: u32 = 100_000;

fn encode(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 4096];
    let mut w = Writer::new(&mut buf);
    write(&mut w).expect("a small message fits");
    w.into_written().to_vec()
}

/// One client opens one item, and gets the handle behind all others.
fn open_one(p2ps: &mut P2ps, writer: &mut BlockWriter) {
    let mut service = Service::new(1, Action::Add);
    let info = Info { name: "FEED".to_owned(), capabilities: vec![Domain::MARKET_PRICE], ..Info::default() };
    service.info = Some(Part::Set(info));
    service.state = Some(Part::Set(ServiceState::new(true)));
    let filters = encode(|w| service.encode_filters(u32::MAX, w));
    writer.event(&Event::Service { target: ALL, service: 1, cached: false, name: "FEED", filters: &filters });
    publish(p2ps, writer);
    let client = ClientId(0);
    p2ps.client_up(0, client, ClientInfo { address: IpAddr::V4(Ipv4Addr::LOCALHOST) });
    let login = login::Request { name: "bench".to_owned(), ..login::Request::default() };
    p2ps.client_message(0, client, &encode(|w| login.encode(w)));
    let key = MsgKey { name_type: Some(1), ..MsgKey::item(1, b"A") };
    let request = RequestMsg { flags: RequestFlags::STREAMING, key, ..RequestMsg::new(Domain::MARKET_PRICE, 5) };
    p2ps.client_message(0, client, &encode(|w| request.encode(w)));
    let mut asked = None;
    p2ps.requests(|_, block| {
        for message in Block::parse(block).expect("a block").messages().map_while(Result::ok) {
            if let Ok(Request::Open { token, .. }) = Request::decode(&message) {
                asked = Some(token);
            }
        }
    });
    let token = asked.expect("an open");
    writer.event(&Event::ItemOpened { target: 1, handle: HANDLES, token });
    publish(p2ps, writer);
}

fn publish(p2ps: &mut P2ps, writer: &mut BlockWriter) {
    let block = writer.block().expect("something was written").to_vec();
    writer.clear();
    p2ps.hub_block(1, SOURCE, &block).expect("a good block");
    p2ps.flush(&block, |_, _| {});
}

/// A block of updates for items that are open at the source, but not here.
fn block(writer: &mut BlockWriter, seed: &mut u32) -> Vec<u8> {
    for _ in 0..UPDATES_A_TURN {
        *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        writer.update((*seed >> 8) % HANDLES, false, &UPDATE);
    }
    let block = writer.block().expect("something was written").to_vec();
    writer.clear();
    block
}

fn run(over_network: bool, turns: u32) -> f64 {
    let mut p2ps = P2ps::new(Config::default(), 1);
    let mut writer = BlockWriter::new(7);
    if over_network {
        p2ps.source_joined(0, SOURCE, Joined { number: 1, incarnation: 7, position: 0 });
    } else {
        p2ps.source_up(0, SOURCE);
    }
    open_one(&mut p2ps, &mut writer);
    let mut seed = 1;
    let blocks: Vec<_> = (0..turns).map(|_| block(&mut writer, &mut seed)).collect();
    let start = Instant::now();
    for block in &blocks {
        p2ps.hub_block(1, SOURCE, block).expect("a good block");
        p2ps.flush(block, |client, _| {
            black_box(client);
        });
    }
    let spent = start.elapsed().as_secs_f64();
    assert_eq!(p2ps.counters().updates_unwatched, u64::from(turns * UPDATES_A_TURN));
    spent * 1e9 / f64::from(turns * UPDATES_A_TURN)
}

fn main() {
    let turns = std::env::var("QUOTEWAY_TURNS").ok().and_then(|turns| turns.parse().ok()).unwrap_or(2_000);
    for (name, over_network) in [("in one process", false), ("over a network", true)] {
        let mut times: Vec<f64> = (0..5).map(|_| run(over_network, turns)).collect();
        times.sort_by(f64::total_cmp);
        println!("unwatched update, {name}: {:.2} ns", times[2]);
    }
}
