//! What an update costs a Source Distributor whose items are cached, beside one without a cache: 100,000 images of some 400 bytes, in no
//! cache of the processor, and updates of 85 bytes for items in no order, in frames as sources send them. Their fields are in another order than the image's;
//! one ripples, one gets a longer value with an item's first update, and one update in seventeen of an item has a time stamp in place of four others.
//!
//! `cargo bench -p hub-distributor --bench cached` prints nanoseconds an update in the first rounds over all items, and the median of the later half. For instructions, run the built bench under
//! `valgrind --tool=callgrind --toggle-collect='*cached::turns*'` with one of its rows (`plain`, `cached`), a number of items and two numbers of
//! rounds as arguments: the difference is that of the updates alone.

#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a benchmark reads the clock and prints")]

use hub_content::cache::rules::CacheRules;
use hub_distributor::{CloseReason, Config, Origin, PeerInfo, ProviderSink, RouteConfig, SessionId, SourceDistributor};
use hub_stream::{BlockWriter, Request, flags};
use rwf::container::FieldListEncoder;
use rwf::msg::{Domain, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, UpdateMsg};
use rwf::rdm::directory::{self, Action, Info, Part, Service, ServiceState};
use rwf::rdm::login;
use rwf::wire::Writer;
use rwf::{DataType, EncodeError, Qos, Real, RealHint, peek};
use std::hint::black_box;
use std::time::Instant;

/// As a turn has under load: 256 KB.
const UPDATES_A_TURN: usize = 3_500;
const ROUTE: SessionId = SessionId(0);
/// As a frame of RSSL has.
const UPDATES_A_FRAME: usize = 80;
/// Messages that are told of together before they come, as those of a frame are.
const TOGETHER: usize = 16;
/// Makes of updates that an item gets one after the other, and which of them has a time stamp.
const VARIANTS: i64 = 17;
const STAMPED: i64 = 5;
/// Rounds over all items that are shown one by one: until images have their longest values.
const FIRST_ROUNDS: usize = 8;

#[derive(Default)]
struct Nowhere;

impl ProviderSink for Nowhere {
    fn send(&mut self, _: SessionId, _: &[u8]) {}

    fn close(&mut self, session: SessionId, reason: &CloseReason) {
        panic!("{session:?} closed: {reason}");
    }
}

fn encode(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 4096];
    let mut w = Writer::new(&mut buf);
    write(&mut w).expect("a small message fits");
    w.into_written().to_vec()
}

/// The image: `TRDPRC_1` to `_5`, volumes, bid and ask among fifty fields.
fn image() -> Vec<u8> {
    encode(|w| {
        let mut list = FieldListEncoder::begin(w)?;
        for fid in [1, 2, 5, 6, 11, 56, 14, 379, 3854, 32, 178, 77, 100, 3404, 7, 8, 9, 10, 12, 13, 15, 16, 17, 18, 19]
        {
            list.real(fid, Real::new(10_000 + i64::from(fid), RealHint::EXPONENT_2))?;
        }
        for fid in [21, 53, 55, 79, 133, 259, 1080, 1465, 1709, 3265, 3266, 3386] {
            list.real(fid, Real::new(3_000_000 + i64::from(fid), RealHint::EXPONENT_2))?;
        }
        for fid in [3, 3422] {
            list.raw(fid, b"REFERENCE.N")?;
        }
        list.uint(1025, 52_832)?;
        quote(&mut list, &[3855, 22, 30, 114, 115, 25, 31, 3298, 3297], 0)?;
        list.finish()
    })
}

/// Fields of a quote, by their ids.
fn quote(list: &mut FieldListEncoder<'_, '_>, fids: &[i16], variant: i64) -> Result<(), EncodeError> {
    let price = 10_000 + variant * 3;
    for &fid in fids {
        match fid {
            22 | 25 | 6 | 114 => list.real(fid, Real::new(price + i64::from(fid), RealHint::EXPONENT_2))?,
            30 | 31 => list.real(fid, Real::new(300 + variant * 100, RealHint::EXPONENT0))?,
            32 => list.real(fid, Real::new(1_000_000 + variant * 100, RealHint::EXPONENT0))?,
            3855 => list.uint(fid, 52_832_000 + variant as u64)?,
            _ => list.raw(fid, &[43])?,
        }
    }
    Ok(())
}

fn update(variant: i64) -> Vec<u8> {
    let body = encode(|w| {
        let mut list = FieldListEncoder::begin(w)?;
        if variant == STAMPED {
            quote(&mut list, &[22, 25, 30, 31, 3855, 115, 6, 3298], variant)?;
            list.raw(3902, &[7; 8])?;
        } else {
            quote(&mut list, &[22, 25, 30, 31, 3855, 115, 6, 32, 3298, 3297], variant)?;
            list.raw(293, b"NAS")?;
            list.raw(1000, b"----")?;
        }
        list.finish()
    });
    let seq_num = Some(variant as u32);
    let container = DataType::FIELD_LIST;
    encode(|w| UpdateMsg { container, seq_num, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 0) }.encode(w))
}

fn provider_up(sd: &mut SourceDistributor) {
    sd.session_up(0, ROUTE, Origin::Route(0), PeerInfo::default(), &mut Nowhere);
    let login =
        encode(|w| login::Refresh::accept(&login::Request::default(), login::Features::default(), "").encode(w));
    sd.session_message(0, ROUTE, &login, &mut Nowhere);
    let info = Info { name: "FEED".into(), capabilities: vec![Domain::MARKET_PRICE], ..Info::default() };
    let service = Service {
        info: Some(Part::Set(info)),
        state: Some(Part::Set(ServiceState::new(true))),
        ..Service::new(1, Action::Add)
    };
    let request = directory::Request { stream_id: 2, streaming: true, service_id: None, filter: 63 };
    let refresh = directory::Refresh::answer(&request, vec![service]);
    sd.session_message(0, ROUTE, &encode(|w| refresh.encode(w)), &mut Nowhere);
}

/// A Source Distributor with so many items open for one P2PS.
fn busy(items: i32, cache: CacheRules) -> SourceDistributor {
    let routes = vec![RouteConfig::default()];
    let mut sd = SourceDistributor::new(Config { routes, cache, history_bytes: 0, ..Config::default() }, 1);
    sd.p2ps_up(0, 1);
    provider_up(&mut sd);
    let (image, container, flags) = (image(), DataType::FIELD_LIST, RefreshFlags::REFRESH_COMPLETE);
    let mut writer = BlockWriter::new(1);
    for number in 0..items {
        let name = format!("ITEM{number}");
        let key = MsgKey { name: Some(name.as_bytes()), name_type: Some(1), ..MsgKey::EMPTY };
        let request = RequestMsg {
            flags: RequestFlags::STREAMING,
            qos: Some(Qos::REALTIME_TICK),
            key,
            ..RequestMsg::new(Domain::MARKET_PRICE, 0)
        };
        let rwf = encode(|w| request.encode(w));
        writer.request(&Request::Open { service: 1, token: number as u32, flags: flags::STREAMING, rwf: &rwf });
        sd.on_timer(0, &mut Nowhere);
        sd.request_block(0, 1, writer.block().expect("a request"), &mut Nowhere).expect("a block");
        writer.clear();
        let flags = flags | RefreshFlags::SOLICITED;
        let refresh =
            RefreshMsg { container, flags, body: &image, ..RefreshMsg::new(Domain::MARKET_PRICE, 5 + number) };
        sd.session_message(0, ROUTE, &encode(|w| refresh.encode(w)), &mut Nowhere);
        sd.clear_block();
    }
    sd
}

/// Where the updates go round, in no order.
struct Source {
    updates: Vec<Vec<u8>>,
    items: i32,
    /// Updates so far.
    sent: usize,
    /// Messages of one frame, one behind the other, and where each of them ends.
    frame: Vec<u8>,
    ends: Vec<usize>,
}

impl Source {
    /// Has no divisor but one with any number of items that is tried here: so each round has each item once.
    const STRIDE: usize = 387_420_489;

    fn fill(&mut self, count: usize) {
        self.frame.clear();
        self.ends.clear();
        let items = self.items as usize;
        for number in self.sent..self.sent + count {
            let variants = self.updates.len();
            // Each item has its stamped update at another time.
            let update = &mut self.updates[(number / items + number % items) % variants];
            peek::set_stream_id(update, 5 + (number % items * Self::STRIDE % items) as i32);
            self.frame.extend_from_slice(update);
            self.ends.push(self.frame.len());
        }
        self.sent += count;
    }

    fn messages(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let start = |number: usize| if number == 0 { 0 } else { self.ends[number - 1] };
        self.ends.iter().enumerate().map(move |(number, end)| &self.frame[start(number)..*end])
    }
}

/// Not inlined, so that a profiler can tell it from the preparations.
#[inline(never)]
fn turns(sd: &mut SourceDistributor, source: &mut Source, updates: usize) {
    let mut of_turn = 0;
    for begin in (0..updates).step_by(UPDATES_A_FRAME) {
        source.fill(UPDATES_A_FRAME.min(updates - begin));
        // As the messages of a frame are told of.
        let mut ahead = source.messages();
        sd.look_ahead(ROUTE, ahead.by_ref().take(TOGETHER));
        for (number, message) in source.messages().enumerate() {
            if number.is_multiple_of(TOGETHER) {
                sd.look_ahead(ROUTE, ahead.by_ref().take(TOGETHER));
            }
            sd.session_message(0, ROUTE, message, &mut Nowhere);
        }
        of_turn += source.ends.len();
        if of_turn >= UPDATES_A_TURN || begin + UPDATES_A_FRAME >= updates {
            black_box(sd.block());
            sd.clear_block();
            of_turn = 0;
        }
    }
}

/// Nanoseconds an update in each round over all items.
fn measure(items: i32, cache: CacheRules, rounds: usize) -> Vec<f64> {
    assert!(items % 3 != 0, "the order needs a number of items that three does not divide");
    let mut sd = busy(items, cache);
    let updates = (0..VARIANTS).map(update).collect();
    let mut source = Source { updates, items, sent: 0, frame: Vec::new(), ends: Vec::new() };
    let all = items as usize;
    let round = |_| {
        let begin = Instant::now();
        turns(&mut sd, &mut source, all);
        begin.elapsed().as_nanos() as f64 / all as f64
    };
    let figures: Vec<f64> = (0..rounds).map(round).collect();
    let counters = sd.counters();
    assert_eq!((counters.updates, counters.cache_failures), ((rounds * all) as u64, 0), "all are relayed");
    figures
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_test = std::env::args().any(|argument| argument == "--test");
    let items = arguments.get(1).map_or(if is_test { 100 } else { 100_000 }, |items| items.parse().expect("a number"));
    let usual = if is_test { 2 } else { 31 };
    let rounds = arguments.get(2).map_or(usual, |rounds| rounds.parse().expect("a number"));
    for (name, cache) in [("plain", CacheRules::default()), ("cached", CacheRules::everything())] {
        if arguments.first().is_none_or(|only| only == name) {
            let figures = measure(items, cache, rounds);
            let mut warm = figures[figures.len() / 2..].to_vec();
            warm.sort_by(f64::total_cmp);
            let first: Vec<String> = figures.iter().take(FIRST_ROUNDS).map(|figure| format!("{figure:.1}")).collect();
            let (first, warm) = (first.join(" "), warm[warm.len() / 2]);
            println!("{name:8} ns an update: rounds from the first on {first}, warm {warm:.1}");
        }
    }
}
