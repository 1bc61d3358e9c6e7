//! Feeds from the network: an exchange with lines that lose, repeat and reorder, and servers that are cut, on loopback. What the consumer holds at
//! the end is the book of a line that loses nothing; what it was told is Suspect from each gap to its repair.

use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use net::udp::{Slabs, UdpOptions, UdpSocket};
use venue::iex::messages::{BuyLevel, EVENT_COMPLETE, Message as IexMessage, SellLevel};
use venue::iex::tp;
use venue::nasdaq::itch::{AddOrder, Message};
use venue::nasdaq::mold::{Header, MoldPacket};
use venue::nasdaq::{Text, soup};

use super::day::Random;
use super::*;

const STOCKS: u16 = 3;
const SESSION: [u8; 10] = *b"0000000091";

/// Messages between the test and the exchange.
#[derive(Default)]
pub(super) struct Signals {
    /// The consumer has all its images.
    pub(super) is_open: AtomicBool,
    /// The test is over.
    pub(super) is_over: AtomicBool,
    /// Connections that were taken.
    connections: AtomicUsize,
    /// Requests that came.
    requests: AtomicUsize,
}

/// Threads of an exchange, which end with it.
pub(super) struct Exchange {
    pub(super) signals: Arc<Signals>,
    pub(super) threads: Vec<JoinHandle<()>>,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.signals.is_over.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "a thread of the exchange has failed");
        }
    }
}

/// Two groups and a port that nobody else has.
pub(super) fn groups() -> [SocketAddrV4; 2] {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let free = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), &UdpOptions::default()).expect("a socket");
    let (port, id) = (free.local_addr().port(), std::process::id() as u16);
    let [high, low] = id.to_be_bytes();
    let number = COUNT.fetch_add(2, Ordering::Relaxed) as u8;
    [0, 1].map(|line| SocketAddrV4::new(Ipv4Addr::new(239, 192 + number + line, high, low), port))
}

pub(super) fn sender() -> UdpSocket {
    let options = UdpOptions { multicast_interface: Some(Ipv4Addr::LOCALHOST), ..UdpOptions::default() };
    UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), &options).expect("a socket")
}

pub(super) fn put(socket: &mut UdpSocket, group: SocketAddrV4, packet: &[u8]) {
    while !socket.send(Some(group), packet).expect("a datagram") {
        socket.wait_writable(Some(Duration::from_millis(10))).expect("a socket");
    }
}

fn messages(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut day = Day::new(Settings { seed, stocks: STOCKS, longest_life: 2_000.0 });
    let encoded = |message: Message| {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        bytes
    };
    (0..count).map(|_| encoded(day.next())).collect()
}

/// The book of a stock behind all messages.
fn at_the_end(all: &[Vec<u8>]) -> BTreeMap<String, Expected> {
    let mut day = TotalView::<true>::default();
    for message in all {
        day.apply(message, &mut ()).expect("a message");
    }
    let expected = |locate: u16| {
        let mut expected = Expected::default();
        expected.settle(day.books(), BookId(u32::from(locate)));
        (Day::symbol(locate).trimmed().into_owned(), expected)
    };
    (1..=STOCKS).map(expected).collect()
}

/// The lines: from a message on, each with its own loss, repetition and order; `lost` is brought by neither. From `stop` on they wait until the
/// consumer is there.
fn lines(
    signals: Arc<Signals>,
    groups: [SocketAddrV4; 2],
    all: Arc<Vec<Vec<u8>>>,
    (seed, from, stop): (u64, usize, usize),
    lost: std::ops::Range<usize>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let (mut socket, mut random) = (sender(), Random::new(seed));
        let mut next = [from; 2];
        let mut late: [Option<Vec<u8>>; 2] = [None, None];
        while !signals.is_over.load(Ordering::Acquire) {
            let may_go_on = signals.is_open.load(Ordering::Acquire);
            let end = if may_go_on { all.len() } else { stop };
            for (line, group) in groups.iter().enumerate() {
                let at = next[line];
                let mut packet = MoldPacket::new(SESSION, at as u64 + 1);
                let until = (at + 1 + random.below(8) as usize).min(end);
                all[at..until].iter().for_each(|message| assert!(packet.push(message)));
                next[line] = until;
                let is_lost = random.chance(0.03) || at < lost.end && until > lost.start;
                if !is_lost && random.chance(0.03) && late[line].is_none() {
                    late[line] = Some(packet.bytes().to_vec());
                    continue;
                }
                for _ in 0..u8::from(!is_lost) + u8::from(!is_lost && random.chance(0.02)) {
                    put(&mut socket, *group, packet.bytes());
                }
                if random.chance(0.5)
                    && let Some(packet) = late[line].take()
                {
                    put(&mut socket, *group, &packet);
                }
            }
            // Some forty thousand messages a second; a heartbeat each time when there are none.
            std::thread::sleep(Duration::from_micros(if next[0] == end { 20_000 } else { 200 }));
        }
    })
}

/// Answers requests in part, one time of four not at all.
fn repeater(signals: Arc<Signals>, mut socket: UdpSocket, all: Arc<Vec<Vec<u8>>>, seed: u64) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let (mut slabs, mut random) = (Slabs::new(1), Random::new(seed));
        while !signals.is_over.load(Ordering::Acquire) {
            socket.wait_readable(Some(Duration::from_millis(20))).expect("a socket");
            let received = socket.recv(&mut slabs).expect("a datagram");
            let requests: Vec<(SocketAddrV4, Vec<u8>)> =
                received.iter().flat_map(|a| a.datagrams().map(move |d| (a.source, d.to_vec()))).collect();
            for (source, request) in requests {
                signals.requests.fetch_add(1, Ordering::Relaxed);
                let header = Header::read(&request).expect("a request");
                let mut packet = MoldPacket::new(header.session, header.sequence);
                let end = (header.sequence + u64::from(header.count).min(20)).min(all.len() as u64 + 1);
                (header.sequence..end).for_each(|number| assert!(packet.push(&all[number as usize - 1])));
                if !random.chance(0.25) {
                    put(&mut socket, source, packet.bytes());
                }
            }
        }
    })
}

/// Reads a login; the number that it asks for, or `None` if the peer is gone.
fn login(stream: &mut TcpStream) -> Option<u64> {
    let mut login = [0; 49];
    stream.read_exact(&mut login).ok()?;
    assert_eq!(&login[2..19], b"Lquote secret    ");
    std::str::from_utf8(&login[29..]).expect("text").trim().parse().ok()
}

fn accepted(next: u64) -> Vec<u8> {
    let mut out = Vec::new();
    soup::packet(b'A', format!("{:>10}{next:>20}", "0000000091").as_bytes(), &mut out);
    out
}

/// The orders that live behind so many messages.
fn snapshot(all: &[Vec<u8>], sent: usize) -> Vec<u8> {
    let mut day = TotalView::<true>::default();
    let mut out = accepted(1);
    for message in &all[..sent] {
        day.apply(message, &mut ()).expect("a message");
        if message[0] == b'R' {
            soup::packet(b'S', message, &mut out);
        }
    }
    for locate in 1..=STOCKS {
        for side in Side::BOTH {
            for order in day.books().orders(BookId(u32::from(locate)), side) {
                let (order, shares, price) = (order.reference, order.size as u32, order.price as u32);
                let (stock, time) = (Day::symbol(locate), 34_200_000_000_000);
                let add = AddOrder { locate, tracking: 0, time, order, side, shares, stock, price };
                let mut bytes = Vec::new();
                Message::AddOrder(add).encode(&mut bytes);
                soup::packet(b'S', &bytes, &mut out);
            }
        }
    }
    soup::packet(b'S', format!("G{:>20}", sent + 1).as_bytes(), &mut out);
    out
}

/// A TCP server: what it answers to the login of each connection, and whether it cuts the connection behind it.
fn server(
    signals: Arc<Signals>,
    listener: TcpListener,
    answer: impl Fn(usize, u64) -> (Vec<u8>, bool) + Send + 'static,
) -> JoinHandle<()> {
    listener.set_nonblocking(true).expect("a listener");
    std::thread::spawn(move || {
        let mut held = Vec::new();
        while !signals.is_over.load(Ordering::Acquire) {
            let Ok((mut stream, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            stream.set_nonblocking(false).expect("a stream");
            let count = signals.connections.fetch_add(1, Ordering::Relaxed);
            let Some(next) = login(&mut stream) else { continue };
            let (bytes, is_cut) = answer(count, next);
            // The client may have what it wants already, and be gone.
            let _told = stream.write_all(&bytes);
            if !is_cut {
                held.push(stream);
            }
        }
    })
}

fn password(folder: &Path) -> String {
    let file = folder.join("password");
    std::fs::write(&file, "secret\n").expect("a file");
    file.to_str().expect("UTF-8").to_owned()
}

/// `quoteway feed` of a site, and the port on which consumers connect.
pub(super) fn take(site: &str, args: &[&str]) -> (Process, u16) {
    let mut all = vec!["feed", site, "--port", "0"];
    all.extend(args);
    let process = start(&all, &From::Error, "is published on");
    let port = process.line().split(" on 127.0.0.1:").nth(1).and_then(|rest| rest.split(';').next()).expect("a port");
    let port = port.parse().expect("a port");
    (process, port)
}

/// A server that takes a feed in itself, as its file says, the port on which consumers connect, and the address of its metrics.
fn take_with(folder: &Path, feed: &str) -> (Process, u16, String) {
    let file = folder.join("server.toml");
    std::fs::write(
        &file,
        format!("[http]\nport = 0\ninterface = \"127.0.0.1\"\n\n[feed.nasdaq]\nservice = \"DIRECT_FEED\"\n{feed}"),
    )
    .expect("a file");
    let file = file.to_str().expect("UTF-8");
    let ports = ["--rssl-port", "0", "--nip-port", "0", "--interface", "127.0.0.1"];
    let process = start(&[&["serve", "--config", file], &ports[..]].concat(), &From::Output, "ready ");
    let port = port_of(&process, "rssl=");
    let web = process.line().split("http=http://").nth(1).and_then(|rest| rest.split('/').next());
    let web = web.expect("an address").to_owned();
    (process, port, web)
}

/// Waits until the server shows figures of the feed that are as wanted.
fn figures(web: &str, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    for _ in 0..200 {
        let (status, _, body) = crate::http::ask(web, "GET", "/api/v1/feeds", "", &[]);
        assert_eq!(status, 200, "{body}");
        let all: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        if wanted(&all[0]) {
            return all[0].clone();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the figures never became what was waited for")
}

/// Watches all books, tells the exchange when it has them, and goes on until they are those of the end and good.
fn watch_all(port: u16, signals: &Signals, expected: &BTreeMap<String, Expected>, doubts: usize) -> Vec<Stream> {
    let both = |name: &'static str| [(name, Domain::MARKET_BY_ORDER), (name, Domain::MARKET_BY_PRICE)];
    let items: Vec<(&str, Domain)> = ["S1", "S2", "S3"].into_iter().flat_map(both).collect();
    let was_open = Cell::new(false);
    let streams = watch(port, &items, 4, |streams| {
        let is_good = |stream: &Stream| stream.is_whole && stream.data.last() == Some(&DataState::OK);
        if !was_open.get() && streams.iter().all(is_good) {
            was_open.set(true);
            signals.is_open.store(true, Ordering::Release);
        }
        streams.iter().all(|stream| {
            let last = expected[&stream.name].of(stream.domain.expect("a domain")).last();
            is_good(stream) && stream.data.len() > 2 * doubts && stream.states.0.last() == last
        })
    });
    for stream in &streams {
        let alternates = stream.data.windows(2).all(|pair| pair[0] != pair[1]);
        assert!(alternates && stream.closed.is_none(), "{}: {:?}", stream.name, stream.data);
    }
    streams
}

#[test]
fn lines_that_lose_and_a_late_start_make_the_book_of_a_whole_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = Arc::new(messages(41, 9_000));
    let (groups, signals) = (groups(), Arc::new(Signals::default()));
    let repeats = sender();
    let glimpse = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let repeater_at = repeats.local_addr().to_string();
    let glimpse_at = glimpse.local_addr().expect("an address").to_string();
    let site = format!("mold:{},{}", groups[0], groups[1]);
    let file = password(folder.path());
    let servers = ["--repeater", &repeater_at, "--snapshot", &glimpse_at, "--user", "quote", "--password-file", &file];
    let (_feed, port) = take(&site, &[&["--line-interface", "127.0.0.1"], &servers[..]].concat());
    let of_snapshots = Arc::clone(&all);
    let exchange = Exchange {
        threads: vec![
            // The exchange has begun long ago; the snapshot is cut off the first time.
            lines(Arc::clone(&signals), groups, Arc::clone(&all), (41, 2_000, 3_000), 5_000..5_050),
            repeater(Arc::clone(&signals), repeats, Arc::clone(&all), 43),
            server(Arc::clone(&signals), glimpse, move |count, _| {
                let whole = snapshot(&of_snapshots, 3_000);
                if count == 0 { (whole[..whole.len() / 2].to_vec(), true) } else { (whole, false) }
            }),
        ],
        signals: Arc::clone(&signals),
    };
    let streams = watch_all(port, &signals, &at_the_end(&all), 1);
    assert!(streams.iter().all(|stream| stream.data[0] == DataState::OK), "the service is up behind the snapshot");
    assert!(signals.connections.load(Ordering::Relaxed) >= 2 && signals.requests.load(Ordering::Relaxed) > 0);
    drop(exchange);
}

#[test]
fn a_server_takes_in_the_feeds_of_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = Arc::new(messages(61, 6_000));
    let (groups, signals) = (groups(), Arc::new(Signals::default()));
    let repeats = sender();
    let feed = format!(
        "source = \"mold:{},{}\"\nline_interfaces = [\"127.0.0.1\"]\nrepeater = \"{}\"\n",
        groups[0],
        groups[1],
        repeats.local_addr()
    );
    let (_server, port, web) = take_with(folder.path(), &feed);
    let exchange = Exchange {
        threads: vec![
            lines(Arc::clone(&signals), groups, Arc::clone(&all), (61, 0, 1_000), 3_000..3_020),
            repeater(Arc::clone(&signals), repeats, Arc::clone(&all), 63),
        ],
        signals: Arc::clone(&signals),
    };
    watch_all(port, &signals, &at_the_end(&all), 1);
    let total = all.len() as u64;
    let feed = figures(&web, |feed| feed["messages"] == total);
    assert_eq!((&feed["name"], &feed["suspect"], &feed["items"]), (&"nasdaq".into(), &false.into(), &STOCKS.into()));
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    assert!(number(&feed["gaps"]) > 0 && feed["gaps"] == feed["repairs"] && number(&feed["requests"]) > 0, "{feed}");
    let first: u64 = feed["lines"].as_array().expect("lines").iter().map(|line| number(&line["first"])).sum();
    assert!(first > 0 && first <= total && number(&feed["lines"][1]["packets"]) > 0, "{feed}");
    let (_, _, text) = crate::http::ask(&web, "GET", "/metrics", "", &[]);
    let sample = format!("quoteway_feed_messages_total{{feed=\"nasdaq\"}} {total}");
    assert!(text.lines().any(|line| line == sample), "{text}");
    drop(exchange);
}

#[test]
fn a_session_that_is_cut_goes_on_where_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = Arc::new(messages(51, 4_000));
    let signals = Arc::new(Signals::default());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let site = format!("soup:{}", listener.local_addr().expect("an address"));
    let (of_server, told) = (Arc::clone(&all), Arc::clone(&signals));
    let answer = move |count: usize, next: u64| {
        let mut out = accepted(next);
        // The first connection brings the first half, and is cut when the consumer is there.
        let end = if count == 0 { 2_000 } else { of_server.len() };
        of_server[next as usize - 1..end].iter().for_each(|message| soup::packet(b'S', message, &mut out));
        (out, false)
    };
    let cutting = move |count: usize, next: u64| {
        assert_eq!(next, if count == 0 { 1 } else { 2_001 }, "what it has it does not ask for again");
        answer(count, next)
    };
    let file = password(folder.path());
    let (_feed, port) = take(&site, &["--user", "quote", "--password-file", &file]);
    let exchange = Exchange { threads: vec![cut_when_open(told, listener, cutting)], signals: Arc::clone(&signals) };
    let streams = watch_all(port, &signals, &at_the_end(&all), 1);
    for stream in &streams {
        assert_eq!(stream.data, [DataState::OK, DataState::SUSPECT, DataState::OK], "{}", stream.name);
    }
    drop(exchange);
}

/// As [`server`]: the first connection is cut when the consumer has its images.
fn cut_when_open(
    signals: Arc<Signals>,
    listener: TcpListener,
    answer: impl Fn(usize, u64) -> (Vec<u8>, bool) + Send + 'static,
) -> JoinHandle<()> {
    listener.set_nonblocking(true).expect("a listener");
    std::thread::spawn(move || {
        let mut held: Vec<TcpStream> = Vec::new();
        let mut is_cut = false;
        while !signals.is_over.load(Ordering::Acquire) {
            if signals.is_open.load(Ordering::Acquire) && !is_cut && !held.is_empty() {
                held.clear();
                is_cut = true;
            }
            let Ok((mut stream, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            stream.set_nonblocking(false).expect("a stream");
            let count = signals.connections.fetch_add(1, Ordering::Relaxed);
            let next = login(&mut stream).expect("a login");
            stream.write_all(&answer(count, next).0).expect("a client");
            held.push(stream);
        }
    })
}

/// A segment of IEX with messages from a number on.
fn segment(first: u64, messages: &[Vec<u8>], sent: i64) -> Vec<u8> {
    let body: Vec<u8> = messages.iter().flat_map(|m| [&(m.len() as u16).to_le_bytes()[..], m].concat()).collect();
    let header = tp::Header {
        protocol: tp::Protocol::Deep,
        channel: 1,
        session: 7,
        length: body.len() as u16,
        count: messages.len() as u16,
        offset: first as i64,
        first,
        sent,
    };
    [&header.write()[..], &body].concat()
}

#[test]
fn what_one_line_of_iex_loses_the_other_brings_and_what_both_lose_is_told() {
    let (groups, signals) = (groups(), Arc::new(Signals::default()));
    let level = |n: u64| {
        let (symbol, size, price) = (Text::new("ZIEXT"), 100 + n as u32, 100_000 + 100 * (n % 7) as i64);
        let mut bytes = Vec::new();
        let (flags, time) = (EVENT_COMPLETE, n as i64);
        if n.is_multiple_of(2) {
            IexMessage::BuyLevel(BuyLevel { flags, time, symbol, size, price }).encode(&mut bytes);
        } else {
            IexMessage::SellLevel(SellLevel { flags, time, symbol, size, price: price + 1_000 }).encode(&mut bytes);
        }
        bytes
    };
    let all: Vec<Vec<u8>> = (0..3_000).map(level).collect();
    let mut whole = Held::default();
    for n in 0..3_000u64 {
        let (number, letter, above) = if n.is_multiple_of(2) { (1, 'B', 0) } else { (2, 'A', 1_000) };
        let price = 100_000 + 100 * (n % 7) as i64 + above;
        whole.set(&format!("{price}{letter}"), (number, price, 100 + n as i64, 0));
    }
    let mut expected = States::default();
    expected.push(&whole);
    let site = format!("iex-deep:{},{}", groups[0], groups[1]);
    let (_feed, port) = take(&site, &["--line-interface", "127.0.0.1"]);
    let told = Arc::clone(&signals);
    let sending = std::thread::spawn(move || {
        let (mut socket, mut next, mut tick) = (sender(), 0, 0u64);
        while !told.is_over.load(Ordering::Acquire) {
            let end = if told.is_open.load(Ordering::Acquire) { all.len() } else { 500 };
            let until = (next + 5).min(end);
            let packet = segment(next as u64 + 1, &all[next..until], tick as i64);
            for (line, group) in groups.iter().enumerate() {
                // Each line loses every other packet of its own; both lose one stretch.
                let is_lost = tick % 4 == 2 * line as u64 || (2_000..2_010).contains(&next);
                if !is_lost || next == until {
                    put(&mut socket, *group, &packet);
                }
            }
            (next, tick) = (until, tick + 1);
            std::thread::sleep(Duration::from_micros(if next == end { 20_000 } else { 200 }));
        }
    });
    let exchange = Exchange { threads: vec![sending], signals: Arc::clone(&signals) };
    let streams = watch(port, &[("ZIEXT.DEEP", Domain::MARKET_BY_PRICE)], 4, |streams| {
        if streams[0].is_whole {
            signals.is_open.store(true, Ordering::Release);
        }
        streams[0].states.0.last() == expected.0.last()
    });
    assert_eq!(streams[0].data, [DataState::OK, DataState::SUSPECT], "IEX repeats nothing that is asked for here");
    drop(exchange);
}
