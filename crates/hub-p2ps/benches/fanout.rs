//! Cost of a delivery: hub block in, each client's deliveries out.
//!
//! `cargo bench -p hub-p2ps --bench fanout` prints nanoseconds per delivery for the fan-out alone (`read`), and with the
//! copy of every message into a send buffer as the framing does it (`read and copy`). Last, by turns in one call: the same with permissions on and locks
//! on images only beside permissions off, and a decision beside relaying an update.

#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a benchmark reads the clock and prints")]

use hub_p2ps::{ClientId, ClientInfo, Config, P2ps, SourceId};
use hub_stream::{ALL, Block, BlockWriter, Event, Request, flags};
use permissions::lock::{Lock, Operator};
use permissions::rights::Rights;
use permissions::{LoggedIn, LoginRequest, Mode, Permissions, Settings};
use rwf::container::FieldListEncoder;
use rwf::msg::{MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, UpdateMsg};
use rwf::rdm::directory::{Action, Info, Part, Service, ServiceState};
use rwf::rdm::login;
use rwf::wire::Writer;
use rwf::{DataType, EncodeError, msg::Domain};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

const UPDATES_A_TURN: u32 = 512;
const SOURCE: SourceId = SourceId(0);

fn encode(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 4096];
    let mut w = Writer::new(&mut buf);
    write(&mut w).expect("a small message fits");
    w.into_written().to_vec()
}

fn fields(count: i16) -> Vec<u8> {
    encode(|w| {
        let mut list = FieldListEncoder::begin(w)?;
        for fid in 0..count {
            list.uint(22 + fid, 100_000 + fid as u64)?;
        }
        list.finish()
    })
}

/// A P2PS on which clients 0 to `clients` watch items by the rule `watches`; handles are item numbers.
struct Bench {
    p2ps: P2ps,
    writer: BlockWriter,
    /// Nanoseconds spent on requests of items, on opens, and on images.
    opening: [f64; 3],
    /// The lock of every image.
    lock: Option<Vec<u8>>,
}

impl Bench {
    fn new(clients: u32, items: u32, watches: impl Fn(u32, u32) -> bool) -> Self {
        Self::with(Mode::Off, clients, items, watches)
    }

    fn with(mode: Mode, clients: u32, items: u32, watches: impl Fn(u32, u32) -> bool) -> Self {
        let permissions = settings(mode);
        let config = Config { open_window: 0, opens_per_turn: u32::MAX, permissions, ..Config::default() };
        let lock = (mode == Mode::On).then(lock);
        let mut bench = Self { p2ps: P2ps::new(config, 1), writer: BlockWriter::new(1), opening: [0.0; 3], lock };
        bench.p2ps.set_rights(0, rights().into());
        bench.p2ps.source_up(0, SOURCE);
        let mut service = Service::new(1, Action::Add);
        let info = Info { name: "FEED".to_owned(), capabilities: vec![Domain::MARKET_PRICE], ..Info::default() };
        service.info = Some(Part::Set(info));
        service.state = Some(Part::Set(ServiceState::new(true)));
        let filters = encode(|w| service.encode_filters(u32::MAX, w));
        bench.writer.event(&Event::Service { target: ALL, service: 1, cached: false, name: "FEED", filters: &filters });
        bench.publish();
        for client in 0..clients {
            let id = ClientId(client);
            bench.p2ps.client_up(0, id, ClientInfo { address: IpAddr::V4(Ipv4Addr::LOCALHOST) });
            let request = login::Request { name: "bench".to_owned(), ..login::Request::default() };
            bench.p2ps.client_message(0, id, &encode(|w| request.encode(w)));
            for (stream, item) in (5..).zip((0..items).filter(|&item| watches(client, item))) {
                let name = format!("ITEM{item}.N");
                let request = RequestMsg {
                    flags: RequestFlags::STREAMING,
                    key: MsgKey::item(1, name.as_bytes()),
                    ..RequestMsg::new(Domain::MARKET_PRICE, stream)
                };
                let request = encode(|w| request.encode(w));
                let start = Instant::now();
                bench.p2ps.client_message(0, id, &request);
                bench.opening[0] += start.elapsed().as_nanos() as f64;
            }
        }
        while bench.answer_opens() {}
        // Clients that have been idle for two rounds own no delivery lists.
        for second in 1..=3 {
            bench.p2ps.on_timer(second * 1_000_000_000);
        }
        bench
    }

    /// Binds every item that was asked for to the handle that its name says, and gives it an image. False if none was.
    fn answer_opens(&mut self) -> bool {
        let mut opens = Vec::new();
        let mut blocks = Vec::new();
        let start = Instant::now();
        self.p2ps.requests(|_, block| blocks.push(block.to_vec()));
        self.opening[1] += start.elapsed().as_nanos() as f64;
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
        let body = fields(10);
        let refresh = RefreshMsg {
            flags: RefreshFlags::REFRESH_COMPLETE,
            container: DataType::FIELD_LIST,
            perm_data: self.lock.as_deref(),
            body: &body,
            ..RefreshMsg::new(Domain::MARKET_PRICE, 1)
        };
        let image = encode(|w| refresh.encode(w));
        for &(token, handle) in &opens {
            self.writer.event(&Event::ItemOpened { target: 1, handle, token });
            let position = self.writer.next_position();
            let flags = flags::FIRST | flags::COMPLETE;
            self.writer.event(&Event::Image { target: 1, handle, group: 1, flags, position, rwf: &image });
        }
        if !opens.is_empty() {
            let start = Instant::now();
            self.publish();
            self.opening[2] += start.elapsed().as_nanos() as f64;
        }
        !opens.is_empty()
    }

    fn publish(&mut self) {
        let block = self.writer.block().expect("something was written").to_vec();
        self.writer.clear();
        self.p2ps.hub_block(1, SOURCE, &block).expect("a good block");
        self.p2ps.flush(&block, |_, _| {});
    }

    /// Runs turns of updates to items by turns; gives nanoseconds per delivery, the median over the turns: a turn is so short that other work
    /// of the machine seldom falls into it, all of them together are not.
    fn run(&mut self, turns: u32, update: &[u8], copy: bool, mut next: impl FnMut() -> u32) -> f64 {
        let mut out = Vec::with_capacity(1 << 20);
        let mut spent = Vec::with_capacity(turns as usize);
        for _ in 0..turns {
            let before = self.p2ps.counters().updates_out;
            for _ in 0..UPDATES_A_TURN {
                self.writer.update(next(), false, update);
            }
            let block = self.writer.block().expect("something was written").to_vec();
            self.writer.clear();
            let start = Instant::now();
            self.p2ps.hub_block(1, SOURCE, &block).expect("a good block");
            self.p2ps.flush(&block, |client, deliveries| {
                if !copy {
                    black_box((client, deliveries.len()));
                    return;
                }
                out.clear();
                for (body, stream) in deliveries {
                    let at = out.len();
                    out.extend_from_slice(body);
                    out[at + 4..at + 8].copy_from_slice(&stream.to_be_bytes());
                }
                black_box(&out);
            });
            let elapsed = start.elapsed().as_nanos() as f64;
            spent.push(elapsed / (self.p2ps.counters().updates_out - before) as f64);
        }
        median(spent)
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn settings(mode: Mode) -> Settings {
    Settings { mode, audit_max: usize::MAX, ..Settings::default() }
}

fn rights() -> Rights {
    let text = "[services.FEED]\nid = 257\n[users.bench.grants]\nFEED = [\"1-1000\"]\n";
    Rights::parse("the rights of the benchmark", text).expect("rights")
}

fn lock() -> Vec<u8> {
    Lock::of(257, Operator::And, &[62, 144]).and_then(|lock| lock.encode()).expect("a lock")
}

/// Nanoseconds of a decision: may this user have what this lock demands?
fn decision() -> f64 {
    /// So few that other work of the machine seldom falls between them.
    const DECISIONS: u32 = 10_000;
    let mut permissions = Permissions::new(settings(Mode::On));
    permissions.set_rights(rights().into());
    let request = LoginRequest { connection: 0, user: "bench", position: "p", application: None, wants_locks: false };
    let LoggedIn::Yes(login) = permissions.login(0, &request) else { panic!("a user") };
    let profile = permissions.profile(login).expect("a profile");
    let item = permissions.item("FEED", "ITEM1.N").expect("an item");
    let lock = permissions.message_lock(item, &lock()).expect("room");
    let times = (0..301)
        .map(|_| {
            let start = Instant::now();
            let granted = (0..DECISIONS).filter(|_| permissions.permits(black_box(profile), black_box(lock))).count();
            assert_eq!(black_box(granted), DECISIONS as usize);
            start.elapsed().as_nanos() as f64 / f64::from(DECISIONS)
        })
        .collect();
    median(times)
}

/// Permissions on beside off, by turns: medians of a delivery with its copy.
fn compare(name: &str, items: u32, turns: u32, watches: impl Fn(u32, u32) -> bool) -> f64 {
    let body = fields(8);
    let update = UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 1) };
    let update = encode(|w| update.encode(w));
    let mut benches = [Mode::Off, Mode::On].map(|mode| Bench::with(mode, 100, items, &watches));
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..12 {
        for (bench, times) in benches.iter_mut().zip(&mut times) {
            let mut item = 0;
            let time = bench.run(turns, &update, true, || {
                item = (item + 7_919) % items;
                item
            });
            if round > 0 {
                times.push(time);
            }
        }
    }
    let [off, on] = times.map(median);
    println!(
        "{name}: {off:.2} ns a delivery with permissions off, {on:.2} on: {:.3} of the throughput (wanted: 0.97)",
        off / on
    );
    off
}

fn resident_kib() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0) * 4.0
}

fn report(name: &str, bench: &mut Bench, turns: u32, mut next: impl FnMut() -> u32) {
    let body = fields(8);
    let update = UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 1) };
    let update = encode(|w| update.encode(w));
    for (what, copy) in [("read", false), ("read and copy", true)] {
        bench.run(turns / 10 + 1, &update, copy, &mut next);
        let time = median((0..5).map(|_| bench.run(turns, &update, copy, &mut next)).collect());
        println!("{name}, {what:14} {time:6.2} ns a delivery ({} byte updates)", update.len());
    }
}

/// Builds a bench, and tells the memory that it took in bytes.
fn measured(items: u32, watches: impl Fn(u32, u32) -> bool) -> (Bench, f64) {
    let before = resident_kib();
    let bench = Bench::new(100, items, watches);
    (bench, (resident_kib() - before) * 1024.0)
}

fn main() {
    let (mut one_to_one, memory) = measured(100_000, |client, item| item % 100 == client);
    println!("each of 100,000 items with one watcher: {:.1} bytes, its key of 13 included", memory / 1e5);
    let [request, open, image] = one_to_one.opening.map(|total| total / 1e5);
    println!("each request {request:.0} ns, open {open:.0} ns, first image {image:.0} ns");
    let mut seed = 1_u32;
    report("1 -> 1 of 100,000", &mut one_to_one, 5_000, || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % 100_000
    });
    let (mut one_to_hundred, few) = measured(1_000, |_, _| true);
    let (more, many) = measured(5_000, |_, _| true);
    println!("each watcher of an item with 100: {:.1} bytes", (many - few) / 400_000.0);
    drop((one_to_one, more));
    let relaying = compare("1 -> 1 of 10,000", 10_000, 400, |client, item| item % 100 == client);
    compare("1 -> 100", 1_000, 40, |_, _| true);
    let decision = decision();
    println!("a decision: {decision:.2} ns, {:.3} of relaying an update (wanted: 0.1)", decision / relaying);
    let mut item = 0;
    report("1 -> 100", &mut one_to_hundred, 200, || {
        item = (item + 1) % 1_000;
        item
    });
}
