//! Work that one client with 200,000 streams can cause by one message, or by going: milliseconds of that call, of a turn after it (of a
//! hundred turns one is longer), and of all turns together until nothing is left to do.
//!
//! `cargo bench -p hub-p2ps --bench leave`.

#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a benchmark reads the clock and prints")]

use hub_p2ps::{ClientId, ClientInfo, Config, P2ps, SourceId};
use hub_stream::{ALL, Block, BlockWriter, Event, Request, flags};
use rwf::container::FieldListEncoder;
use rwf::msg::{CloseMsg, Domain, Msg, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg};
use rwf::rdm::directory::{Action, Info, Part, Service, ServiceState};
use rwf::rdm::login;
use rwf::wire::Writer;
use rwf::{DataType, EncodeError};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

const STREAMS: i32 = 200_000;
const SOURCE: SourceId = SourceId(0);
const HOLDER: ClientId = ClientId(0);
const OTHER: ClientId = ClientId(1);

fn encode(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 4096];
    let mut w = Writer::new(&mut buf);
    write(&mut w).expect("a small message fits");
    w.into_written().to_vec()
}

fn login(pause: bool) -> Vec<u8> {
    let request = login::Request { name: "bench".to_owned(), pause, ..login::Request::default() };
    encode(|w| request.encode(w))
}

/// Which items the streams are for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Items {
    /// One each, which nobody else watches.
    Own,
    /// One each, which another client watches too.
    Shared,
    /// All for one.
    One,
}

struct Bench {
    p2ps: P2ps,
    writer: BlockWriter,
    now: u64,
}

impl Bench {
    fn new(items: Items, flags: RequestFlags) -> Self {
        let config = Config { open_window: 0, opens_per_turn: u32::MAX, ..Config::default() };
        let mut bench = Self { p2ps: P2ps::new(config, 1), writer: BlockWriter::new(1), now: 1 };
        bench.p2ps.source_up(0, SOURCE);
        let mut service = Service::new(1, Action::Add);
        let info = Info { name: "FEED".to_owned(), capabilities: vec![Domain::MARKET_PRICE], ..Info::default() };
        service.info = Some(Part::Set(info));
        service.state = Some(Part::Set(ServiceState::new(true)));
        let filters = encode(|w| service.encode_filters(u32::MAX, w));
        bench.writer.event(&Event::Service { target: ALL, service: 1, cached: false, name: "FEED", filters: &filters });
        bench.publish();
        for (client, watches) in [(HOLDER, true), (OTHER, items == Items::Shared)] {
            bench.p2ps.client_up(0, client, ClientInfo { address: IpAddr::V4(Ipv4Addr::LOCALHOST) });
            bench.p2ps.client_message(0, client, &login(false));
            for stream in (5..5 + STREAMS).filter(|_| watches) {
                let name = format!("ITEM{}.N", if items == Items::One { 5 } else { stream });
                let request = RequestMsg {
                    flags: RequestFlags::STREAMING | if client == HOLDER { flags } else { RequestFlags::NONE },
                    key: MsgKey::item(1, name.as_bytes()),
                    ..RequestMsg::new(Domain::MARKET_PRICE, stream)
                };
                bench.p2ps.client_message(0, client, &encode(|w| request.encode(w)));
            }
        }
        bench.settle();
        bench
    }

    /// Turns until nothing is left to do; the 99th percentile of what they take: other work of the machine falls into the longest.
    fn settle(&mut self) -> Duration {
        let mut turns = Vec::new();
        loop {
            let start = Instant::now();
            self.p2ps.on_timer(self.now);
            self.p2ps.flush(&[], |_, _| {});
            let mut blocks = Vec::new();
            self.p2ps.requests(|_, block| blocks.push(block.to_vec()));
            turns.push(start.elapsed());
            if !self.answer(&blocks) && self.p2ps.timeout() != Some(0) {
                turns.sort_unstable();
                return turns[(turns.len() - 1) * 99 / 100];
            }
        }
    }

    fn answer(&mut self, blocks: &[Vec<u8>]) -> bool {
        let mut images = Vec::new();
        for block in blocks {
            for message in Block::parse(block).expect("a block").messages() {
                match Request::decode(&message.expect("a message")) {
                    Ok(Request::Open { token, rwf, .. }) => {
                        let Ok(Msg::Request(request)) = Msg::decode(rwf) else { panic!("a request") };
                        let digits: String = request.key.name_lossy().chars().filter(char::is_ascii_digit).collect();
                        let handle = digits.parse().expect("a number");
                        self.writer.event(&Event::ItemOpened { target: 1, handle, token });
                        images.push(handle);
                    }
                    Ok(Request::Refresh { handle, .. } | Request::Reissue { handle, serial: Some(_), .. }) => {
                        images.push(handle);
                    }
                    _ => {}
                }
            }
        }
        let body = encode(|w| {
            let mut list = FieldListEncoder::begin(w)?;
            list.uint(22, 100_000)?;
            list.finish()
        });
        let refresh = RefreshMsg {
            flags: RefreshFlags::REFRESH_COMPLETE,
            container: DataType::FIELD_LIST,
            body: &body,
            ..RefreshMsg::new(Domain::MARKET_PRICE, 1)
        };
        let image = encode(|w| refresh.encode(w));
        for &handle in &images {
            let position = self.writer.next_position();
            let flags = flags::FIRST | flags::COMPLETE;
            self.writer.event(&Event::Image { target: 1, handle, group: 1, flags, position, rwf: &image });
        }
        if !images.is_empty() {
            self.publish();
        }
        !images.is_empty()
    }

    fn publish(&mut self) {
        let block = self.writer.block().expect("something was written").to_vec();
        self.writer.clear();
        self.p2ps.hub_block(self.now, SOURCE, &block).expect("a good block");
        self.p2ps.flush(&block, |_, _| {});
    }

    fn measure(&mut self, what: &str, call: impl FnOnce(&mut P2ps)) {
        self.now += 1_000_000;
        let start = Instant::now();
        call(&mut self.p2ps);
        let (own, turn) = (start.elapsed(), self.settle());
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!("{what:32} {:9.2} {:9.2} {:9.2}", ms(own), ms(turn), ms(start.elapsed()));
    }
}

fn main() {
    println!("{:32} {:>9} {:>9} {:>9}   milliseconds, {STREAMS} streams", "", "call", "turn", "all");
    for (whose, items) in [("own items", Items::Own), ("shared items", Items::Shared), ("one item", Items::One)] {
        let mut bench = Bench::new(items, RequestFlags::NONE);
        bench.measure(&format!("{whose}: pause"), |p2ps| _ = p2ps.client_message(1, HOLDER, &login(true)));
        bench.measure(&format!("{whose}: resume"), |p2ps| _ = p2ps.client_message(1, HOLDER, &login(false)));
        let close = encode(|w| CloseMsg::new(Domain::LOGIN, 1).encode(w));
        bench.measure(&format!("{whose}: logout"), |p2ps| _ = p2ps.client_message(1, HOLDER, &close));
        let mut bench = Bench::new(items, RequestFlags::NONE);
        bench.measure(&format!("{whose}: disconnect"), |p2ps| p2ps.client_down(1, HOLDER));
        let start = Instant::now();
        let mut bench = Bench::new(items, RequestFlags::PAUSE);
        println!("{whose}: opened paused in {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
        bench.measure(&format!("{whose}: disconnect paused"), |p2ps| p2ps.client_down(1, HOLDER));
    }
}
