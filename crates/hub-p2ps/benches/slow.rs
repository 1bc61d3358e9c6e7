//! What slow clients cost that are conflated just in time, beside what everything costs.
//!
//! `cargo bench -p hub-p2ps --bench slow` prints nanoseconds for each update and client: with everything handed out and copied once, with clients
//! that take nothing, and with clients that take a tenth of the bytes. What is measured is a function of its own, so that callgrind counts it:
//! `valgrind --tool=callgrind --toggle-collect='*measured*' BINARY nothing` (or `everything`, `tenth`).

#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a benchmark reads the clock and prints")]

use hub_p2ps::conflation::{JustInTime, ServiceConflation, Settings};
use hub_p2ps::egress::Limits;
use hub_p2ps::{ClientId, ClientInfo, Config, P2ps, SourceId};
use hub_stream::{ALL, Block, BlockWriter, Event, Request, flags};
use rwf::container::FieldListEncoder;
use rwf::msg::{Domain, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, UpdateMsg, UpdateType};
use rwf::rdm::directory::{Action, Info, Part, Service, ServiceState};
use rwf::rdm::login;
use rwf::wire::Writer;
use rwf::{DataType, EncodeError};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

const SOURCE: SourceId = SourceId(0);
const CLIENTS: u32 = 100;
const ITEMS: u32 = 1_000;
const UPDATES_A_TURN: u32 = 200;
/// More than a client may have in its session.
const FULL: usize = 1_000_000;

fn encode(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 4096];
    let mut w = Writer::new(&mut buf);
    write(&mut w).expect("a small message fits");
    w.into_written().to_vec()
}

/// An update of eight of the sixteen fields of an item.
fn update(number: u64) -> Vec<u8> {
    let body = encode(|w| {
        let mut list = FieldListEncoder::begin(w)?;
        for at in 0..8 {
            list.uint(1_000 + ((number + 2 * at) % 16) as i16, 1_000_000 + number)?;
        }
        list.finish()
    });
    let update_type = UpdateType::QUOTE;
    let msg = UpdateMsg {
        container: DataType::FIELD_LIST,
        update_type,
        body: &body,
        ..UpdateMsg::new(Domain::MARKET_PRICE, 1)
    };
    encode(|w| msg.encode(w))
}

/// A P2PS on which all clients watch all items; handles are item numbers.
struct Bench {
    p2ps: P2ps,
    writer: BlockWriter,
    next: u32,
    updates: Vec<Vec<u8>>,
    out: Vec<u8>,
    /// Messages that were handed out, and their bytes.
    taken: (u64, u64),
}

impl Bench {
    fn new() -> Self {
        let others = ServiceConflation { just_in_time: JustInTime::All, ..ServiceConflation::default() };
        let conflation = Settings { others, ripple: false, ..Settings::default() };
        let egress = Limits { guaranteed: 10_000, conflate: 20_000, tick_by_tick: 0, ..Limits::default() };
        let config = Config { open_window: 0, opens_per_turn: u32::MAX, conflation, egress, ..Config::default() };
        let (p2ps, writer) = (P2ps::new(config, 1), BlockWriter::new(1));
        let mut bench = Self {
            p2ps,
            writer,
            next: 0,
            updates: (0..160).map(update).collect(),
            out: Vec::with_capacity(1 << 20),
            taken: (0, 0),
        };
        bench.p2ps.source_up(0, SOURCE);
        let mut service = Service::new(1, Action::Add);
        let info = Info { name: "FEED".to_owned(), capabilities: vec![Domain::MARKET_PRICE], ..Info::default() };
        service.info = Some(Part::Set(info));
        service.state = Some(Part::Set(ServiceState::new(true)));
        let filters = encode(|w| service.encode_filters(u32::MAX, w));
        bench.writer.event(&Event::Service { target: ALL, service: 1, cached: false, name: "FEED", filters: &filters });
        bench.publish();
        for client in (0..CLIENTS).map(ClientId) {
            bench.p2ps.client_up(0, client, ClientInfo { address: IpAddr::V4(Ipv4Addr::LOCALHOST) });
            let request = login::Request { name: "bench".to_owned(), ..login::Request::default() };
            bench.p2ps.client_message(0, client, &encode(|w| request.encode(w)));
            for item in 0..ITEMS {
                let name = format!("ITEM{item}.N");
                let request = RequestMsg {
                    flags: RequestFlags::STREAMING,
                    key: MsgKey::item(1, name.as_bytes()),
                    ..RequestMsg::new(Domain::MARKET_PRICE, 5 + item as i32)
                };
                bench.p2ps.client_message(0, client, &encode(|w| request.encode(w)));
            }
        }
        while bench.answer_opens() {}
        bench
    }

    /// Binds every item that was asked for to the handle that its name says, and gives it an image. False if none was.
    fn answer_opens(&mut self) -> bool {
        let (mut opens, mut blocks) = (Vec::new(), Vec::new());
        self.p2ps.requests(|_, block| blocks.push(block.to_vec()));
        for block in &blocks {
            for message in Block::parse(block).expect("a block").messages() {
                let message = message.expect("a message");
                if let Ok(Request::Open { token, rwf, .. }) = Request::decode(&message) {
                    let Ok(rwf::msg::Msg::Request(request)) = rwf::msg::Msg::decode(rwf) else { panic!("a request") };
                    let digits: String = request.key.name_lossy().chars().filter(char::is_ascii_digit).collect();
                    opens.push((token, digits.parse::<u32>().expect("a number")));
                }
            }
        }
        let refresh = RefreshMsg { flags: RefreshFlags::REFRESH_COMPLETE, ..RefreshMsg::new(Domain::MARKET_PRICE, 1) };
        let image = encode(|w| refresh.encode(w));
        for &(token, handle) in &opens {
            self.writer.event(&Event::ItemOpened { target: 1, handle, token });
            let position = self.writer.next_position();
            let flags = flags::FIRST | flags::COMPLETE;
            self.writer.event(&Event::Image { target: 1, handle, group: 1, flags, position, rwf: &image });
        }
        if !opens.is_empty() {
            self.publish();
        }
        !opens.is_empty()
    }

    /// The block that was written goes through the P2PS, and what comes out is copied as the framing does it.
    fn publish(&mut self) {
        let block = self.writer.block().map(<[u8]>::to_vec).unwrap_or_default();
        self.writer.clear();
        if !block.is_empty() {
            self.p2ps.hub_block(1, SOURCE, &block).expect("a good block");
        }
        let Self { p2ps, out, taken, .. } = self;
        p2ps.flush(&block, |_, deliveries| {
            out.clear();
            for (body, stream) in deliveries {
                let at = out.len();
                out.extend_from_slice(body);
                out[at + 4..at + 8].copy_from_slice(&stream.to_be_bytes());
                taken.0 += 1;
            }
            taken.1 += out.len() as u64;
            black_box(&out);
        });
    }

    /// A turn of updates; items come by turns.
    fn turn(&mut self) {
        for _ in 0..UPDATES_A_TURN {
            self.next += 1;
            let update = &self.updates[self.next as usize % self.updates.len()];
            self.writer.update(self.next * 7 % ITEMS, false, update);
        }
        self.publish();
    }

    /// All clients have so much in their sessions.
    fn backlogs(&mut self, bytes: usize) {
        (0..CLIENTS).for_each(|client| self.p2ps.client_backlog(ClientId(client), bytes));
        self.p2ps.flow_control().for_each(drop);
    }
}

/// Turns in each of which so many clients, by turns, have room for what waits for them, up to what is guaranteed; all others have none.
#[inline(never)]
fn measured(bench: &mut Bench, turns: u32, takers: u32) {
    for turn in 0..turns {
        let takers = (0..takers).map(|at| ClientId((turn * takers + at) % CLIENTS));
        takers.clone().for_each(|client| bench.p2ps.client_backlog(client, 0));
        bench.turn();
        takers.for_each(|client| bench.p2ps.client_backlog(client, FULL));
        bench.p2ps.flow_control().for_each(drop);
    }
}

fn main() {
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let ways = [("everything", 0, false), ("nothing", 0, true), ("tenth", 10, true)];
    for (name, takers, is_slow) in
        ways.into_iter().filter(|(name, ..)| only.as_deref().is_none_or(|only| only == *name))
    {
        let mut bench = Bench::new();
        if is_slow {
            bench.backlogs(FULL);
        }
        // Until all that are to wait do, and memory is warm.
        (0..30).for_each(|_| bench.turn());
        bench.taken = (0, 0);
        let turns = 100;
        let start = Instant::now();
        measured(&mut bench, turns, takers);
        let spent = start.elapsed().as_nanos() as f64;
        let came = f64::from(turns * UPDATES_A_TURN) * f64::from(CLIENTS);
        let (messages, bytes) = bench.taken;
        println!(
            "{name}: {:.1} ns for each of {came} updates and clients; {:.4} messages and {:.2} bytes were taken for each",
            spent / came,
            messages as f64 / came,
            bytes as f64 / came
        );
    }
}
