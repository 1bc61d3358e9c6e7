//! Venues on the web over TLS on loopback, which refuse, break, lose and come late: whatever is held at the end is the exchange's, and from each gap to
//! its repair an item is Suspect. What the exchange has is kept by slow books of the test's own.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use feed::replay::venue::live::LiveItems as _;
use feed::{InstrumentId, MarketSource as _, Model, Payload};
use net::tcp::{Event, Tcp, TcpConfig};
use net::tls::{TlsServer, TlsSession};
use rssl::ws::frame::{self, OpCode};
use rssl::ws::{Limits, Role, Sink, Socket, upgrade};
use rwf::msg::Msg;
use rwf::{DataState, DataType, FieldList, Map, MapAction, Primitive, RealHint, SetScope};

use super::{WebPlace, WebSource};
use crate::SiteArgs;
use crate::source::{Intake as _, SECOND};

/// Levels by side (B, A) and price, with their sizes, as whole numbers of ten to the power of minus twelve.
type Book = BTreeMap<(char, i128), i128>;

fn fixed(text: &str) -> i128 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{part:0<12}").parse().expect("a number")
}

fn apply(book: &mut Book, side: char, price: &str, size: &str) {
    let key = (side, fixed(price));
    match fixed(size) {
        0 => drop(book.remove(&key)),
        size => drop(book.insert(key, size)),
    }
}

fn written(value: i128) -> String {
    let text = format!("{}.{:012}", value / 1_000_000_000_000, value % 1_000_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn rows(book: &Book, side: char) -> Vec<[String; 2]> {
    let of_side = book.iter().filter(|((of, _), _)| *of == side);
    of_side.map(|((_, price), size)| [written(*price), written(*size)]).collect()
}

/// What an exchange has to say.
trait Exchange: Send + 'static {
    /// What it answers to a text of the client.
    fn answer(&mut self, text: &str) -> Vec<String>;
    /// The next text of its day, applied to its books; whether it is one that is to be lost.
    fn next(&mut self) -> Option<(String, bool)>;
    /// What it says each moment, so that nobody thinks that it is gone.
    fn beat(&self) -> Vec<String>;
    /// A new connection, which is subscribed to nothing.
    fn forget(&mut self);
    /// Somebody has subscribed.
    fn is_heard(&self) -> bool;
    /// The body of a path.
    fn body(&mut self, _path: &str) -> String {
        String::new()
    }
    fn books(&self) -> &BTreeMap<String, Book>;
}

/// Texts of Coinbase in their order: made ones, or recorded ones.
struct Coinbase {
    script: Vec<serde_json::Value>,
    at: usize,
    /// Texts that are lost.
    lost: BTreeSet<usize>,
    books: BTreeMap<String, Book>,
    trades: BTreeMap<String, u64>,
    subscribed: BTreeSet<String>,
}

impl Coinbase {
    /// Of one product two trades are lost, and what is between them.
    fn new(script: Vec<serde_json::Value>, from: usize) -> (Self, String) {
        let mut matches: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, text) in script.iter().enumerate().skip(from).filter(|(_, text)| text["type"] == "match") {
            matches.entry(text["product_id"].as_str().expect("a name")).or_default().push(at);
        }
        let (name, at) = matches.into_iter().max_by_key(|(_, all)| all.len()).expect("trades");
        let (name, lost) = (name.to_owned(), at[1]..=at[2]);
        let lost = lost.filter(|at| script[*at]["product_id"] == *name).collect();
        let (books, trades, subscribed) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        (Self { script, at: 0, lost, books, trades, subscribed }, name)
    }

    fn snapshot(&self, name: &str) -> String {
        let nothing = Book::new();
        let book = self.books.get(name).unwrap_or(&nothing);
        let (bids, asks) = (rows(book, 'B'), rows(book, 'A'));
        serde_json::json!({ "type": "snapshot", "product_id": name, "bids": bids, "asks": asks }).to_string()
    }
}

impl Exchange for Coinbase {
    fn answer(&mut self, text: &str) -> Vec<String> {
        let text: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let names: Vec<String> = serde_json::from_value(text["product_ids"].clone()).expect("names");
        if text["type"] == "unsubscribe" {
            self.subscribed.retain(|name| !names.contains(name));
            return Vec::new();
        }
        assert_eq!(text["channels"], serde_json::json!(["level2_batch", "matches", "heartbeat"]));
        self.subscribed.extend(names.iter().cloned());
        names.iter().map(|name| self.snapshot(name)).collect()
    }

    fn next(&mut self) -> Option<(String, bool)> {
        let text = self.script.get(self.at)?.clone();
        let is_lost = self.lost.contains(&self.at);
        self.at += 1;
        let name = text["product_id"].as_str().expect("a name").to_owned();
        let book = self.books.entry(name.clone()).or_default();
        let pairs = |key: &str| -> Vec<Vec<String>> { serde_json::from_value(text[key].clone()).unwrap_or_default() };
        match text["type"].as_str().expect("a type") {
            "snapshot" => {
                book.clear();
                for (side, key) in [('B', "bids"), ('A', "asks")] {
                    for row in pairs(key) {
                        apply(book, side, &row[0], &row[1]);
                    }
                }
                return Some((self.snapshot(&name), !self.subscribed.contains(&name)));
            }
            "l2update" => {
                for row in pairs("changes") {
                    apply(book, if row[0] == "buy" { 'B' } else { 'A' }, &row[1], &row[2]);
                }
            }
            "match" => drop(self.trades.insert(name.clone(), text["trade_id"].as_u64().expect("a number"))),
            _ => {}
        }
        let is_heard = self.subscribed.contains(&name);
        Some((text.to_string(), is_lost || !is_heard))
    }

    fn beat(&self) -> Vec<String> {
        let of = |(name, last): (&String, &u64)| {
            serde_json::json!({ "type": "heartbeat", "product_id": name, "last_trade_id": last }).to_string()
        };
        self.trades.iter().map(of).collect()
    }

    fn forget(&mut self) {
        self.subscribed.clear();
    }

    fn is_heard(&self) -> bool {
        !self.subscribed.is_empty()
    }

    fn books(&self) -> &BTreeMap<String, Book> {
        &self.books
    }
}

/// Differences of Bitstamp, made as they are sent.
struct Bitstamp {
    random: u64,
    left: usize,
    time: u64,
    books: BTreeMap<String, Book>,
    subscribed: BTreeSet<String>,
}

fn draw(random: &mut u64, below: u64) -> u64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*random >> 33) % below
}

impl Exchange for Bitstamp {
    fn answer(&mut self, text: &str) -> Vec<String> {
        let text: serde_json::Value = serde_json::from_str(text).expect("JSON");
        if text["event"] == "bts:subscribe" {
            self.subscribed.insert(text["data"]["channel"].as_str().expect("a channel").to_owned());
        }
        Vec::new()
    }

    fn next(&mut self) -> Option<(String, bool)> {
        self.left = self.left.checked_sub(1)?;
        self.time += 1_000;
        let names: Vec<String> = self.books.keys().cloned().collect();
        let name = &names[draw(&mut self.random, names.len() as u64) as usize];
        let mut sides = [Vec::new(), Vec::new()];
        for (side, letter) in [(0, 'B'), (1, 'A')] {
            let price = format!("{}.5", 100 + 40 * side + draw(&mut self.random, 30));
            let size = format!("{}.{}", draw(&mut self.random, 3), draw(&mut self.random, 4));
            apply(self.books.get_mut(name).expect("a book"), letter, &price, &size);
            sides[side as usize].push([price, size]);
        }
        let channel = format!("diff_order_book_{name}");
        let is_heard = self.subscribed.contains(&channel);
        let data = serde_json::json!({ "microtimestamp": self.time.to_string(), "bids": sides[0], "asks": sides[1] });
        Some((serde_json::json!({ "event": "data", "channel": channel, "data": data }).to_string(), !is_heard))
    }

    fn beat(&self) -> Vec<String> {
        Vec::new()
    }

    fn forget(&mut self) {
        self.subscribed.clear();
    }

    fn is_heard(&self) -> bool {
        !self.subscribed.is_empty()
    }

    fn body(&mut self, path: &str) -> String {
        let name = path.strip_prefix("/api/v2/order_book/").and_then(|rest| rest.strip_suffix('/')).expect("a path");
        let book = &self.books[name];
        let (bids, asks) = (rows(book, 'B'), rows(book, 'A'));
        serde_json::json!({ "microtimestamp": self.time.to_string(), "bids": bids, "asks": asks }).to_string()
    }

    fn books(&self) -> &BTreeMap<String, Book> {
        &self.books
    }
}

/// What becomes of a connection for texts.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Refused,
    /// It is cut within a frame when so many texts have been sent of all.
    Cut(usize),
    /// It stands until the test is over.
    Whole,
}

#[derive(Default)]
struct Signals {
    is_over: AtomicBool,
    /// The books of the end, once all of the day has been sent.
    at_the_end: OnceLock<BTreeMap<String, Book>>,
    connections: AtomicUsize,
    bodies: AtomicUsize,
}

/// A connection of the server's side.
struct Peer {
    stream: TcpStream,
    tls: TlsSession,
    plain: Vec<u8>,
}

impl Peer {
    /// Reads what is there; false: the client is gone.
    fn read(&mut self) -> bool {
        let (mut bytes, mut out) = ([0; 16_384], Vec::new());
        let count = match self.stream.read(&mut bytes) {
            Ok(0) => return false,
            Ok(count) => count,
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        };
        let plain = &mut self.plain;
        let is_read = self.tls.process(&bytes[..count], &mut out, |bytes| plain.extend_from_slice(bytes)).is_ok();
        self.stream.write_all(&out).is_ok() && is_read
    }

    fn write(&mut self, bytes: &[u8]) -> bool {
        let mut out = Vec::new();
        self.tls.encrypt(bytes, &mut out).is_ok() && self.stream.write_all(&out).is_ok()
    }
}

struct Server {
    port: u16,
    certificate: PathBuf,
    signals: Arc<Signals>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signals.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || std::thread::panicking(), "the exchange has failed");
        }
    }
}

impl Server {
    fn start(folder: &Path, exchange: impl Exchange, fates: Vec<Fate>) -> Self {
        let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let (certificate, private) = (folder.join("certificate.pem"), folder.join("key.pem"));
        std::fs::write(&certificate, key.cert.pem()).expect("written");
        std::fs::write(&private, key.signing_key.serialize_pem()).expect("written");
        let tls = TlsServer::from_files(&certificate, &private, None).expect("a server");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (port, signals) = (listener.local_addr().expect("an address").port(), Arc::new(Signals::default()));
        let own = Arc::clone(&signals);
        let thread = std::thread::spawn(move || serve(&listener, &tls, exchange, &fates, &own));
        Self { port, certificate, signals, thread: Some(thread) }
    }

    /// The books of the end.
    fn books(&self) -> &BTreeMap<String, Book> {
        self.signals.at_the_end.get().expect("all of the day has been sent")
    }
}

/// Takes connections until the test is over; one of texts at a time, and beside it fetches.
fn serve(listener: &TcpListener, tls: &TlsServer, mut exchange: impl Exchange, fates: &[Fate], signals: &Signals) {
    listener.set_nonblocking(true).expect("a listener");
    let (mut talk, mut sent, mut fetches): (Option<(Peer, Socket, Fate)>, usize, Vec<Peer>) = (None, 0, Vec::new());
    while !signals.is_over.load(Ordering::Acquire) {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).expect("a stream");
            stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a stream");
            fetches.push(Peer { stream, tls: tls.accept().expect("a session"), plain: Vec::new() });
        }
        fetches.retain_mut(|peer| {
            let is_there = peer.read();
            let Some(end) = peer.plain.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return is_there };
            let head = String::from_utf8(peer.plain.drain(..end + 4).collect()).expect("text");
            if let Some(key) = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")) {
                let fate = fates[signals.connections.fetch_add(1, Ordering::Relaxed).min(fates.len() - 1)];
                if matches!(fate, Fate::Refused) {
                    peer.write(b"HTTP/1.1 503 Service Unavailable\r\n\r\n");
                    return false;
                }
                let accept = upgrade::accept(key);
                peer.write(
                    format!("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n")
                        .as_bytes(),
                );
                exchange.forget();
                let own = Peer {
                    stream: peer.stream.try_clone().expect("a stream"),
                    tls: std::mem::replace(&mut peer.tls, tls.accept().expect("a session")),
                    plain: std::mem::take(&mut peer.plain),
                };
                talk = Some((own, Socket::new(Role::Server, false, Limits::default()), fate));
                return false;
            }
            let path = head.split(' ').nth(1).expect("a path");
            match signals.bodies.fetch_add(1, Ordering::Relaxed) {
                0 => drop(peer.write(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n")),
                1 => drop(peer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"bids\":")),
                _ => {
                    let body = exchange.body(path);
                    let (first, rest) = body.split_at(body.len() / 2);
                    let chunks = format!("{:x}\r\n{first}\r\n{:x}\r\n{rest}\r\n0\r\n\r\n", first.len(), rest.len());
                    peer.write(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}").as_bytes());
                }
            }
            false
        });
        if let Some((peer, socket, fate)) = &mut talk
            && !speak(peer, socket, *fate, &mut exchange, &mut sent, signals)
        {
            talk = None;
        }
    }
}

#[derive(Default)]
struct Said(Vec<String>);

impl Sink for Said {
    fn text(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }

    fn binary(&mut self, _: &[u8]) {
        panic!("clients of exchanges send texts");
    }
}

/// Answers and goes on with the day a little; false: the connection is over.
fn speak(
    peer: &mut Peer,
    socket: &mut Socket,
    fate: Fate,
    exchange: &mut impl Exchange,
    sent: &mut usize,
    signals: &Signals,
) -> bool {
    if !peer.read() {
        return false;
    }
    let (mut out, mut said, bytes) = (Vec::new(), Said::default(), std::mem::take(&mut peer.plain));
    if socket.receive(&bytes, &mut out, &mut said).is_err() {
        return false;
    }
    let mut texts: Vec<String> = said.0.iter().flat_map(|text| exchange.answer(text)).collect();
    let is_cut = |sent: usize| matches!(fate, Fate::Cut(at) if sent >= at);
    // The day goes on while somebody takes it.
    for _ in 0..if exchange.is_heard() { 20 } else { 0 } {
        match exchange.next() {
            Some((text, is_lost)) => {
                *sent += 1;
                texts.extend(Some(text).filter(|_| !is_lost));
            }
            None => drop(signals.at_the_end.get_or_init(|| exchange.books().clone())),
        }
    }
    texts.extend(exchange.beat());
    for (n, text) in texts.iter().enumerate() {
        // Some come in two frames.
        let (first, rest) = text.as_bytes().split_at(if n % 7 == 0 { text.len() / 2 } else { text.len() });
        frame::write(&mut out, OpCode::Text, rest.is_empty(), false, None, first);
        if !rest.is_empty() {
            frame::write(&mut out, OpCode::Ping, true, false, None, b"there?");
            frame::write(&mut out, OpCode::Continuation, true, false, None, rest);
        }
    }
    if is_cut(*sent) {
        frame::write(&mut out, OpCode::Text, true, false, None, &[b' '; 300]);
        out.truncate(out.len() - 100);
    }
    peer.write(&out) && !is_cut(*sent)
}

/// What a consumer holds of the levels of an item.
#[derive(Default)]
struct Holder {
    book: Book,
    /// Each change of the state once.
    states: Vec<DataState>,
}

fn real(data: &[u8], fid: i16) -> i128 {
    let list = FieldList::decode(data, &SetScope::default()).expect("a field list");
    let field = list.entries().map(|field| field.expect("a field")).find(|field| field.fid == fid).expect("the field");
    let Primitive::Real(real) = field.value(DataType::REAL).expect("a real") else { panic!("blank") };
    i128::from(real.mantissa) * 10i128.pow(u32::from(12 + real.hint.0 - RealHint::EXPONENT0.0))
}

impl Holder {
    fn state(&mut self, state: DataState) {
        if self.states.last() != Some(&state) {
            self.states.push(state);
        }
    }

    fn map(&mut self, body: &[u8], prices: &mut Prices) {
        let map = Map::decode(body, &SetScope::default()).expect("a map");
        for entry in map.entries().map(|entry| entry.expect("an entry")) {
            if entry.action == MapAction::DELETE {
                let price = prices.remove(entry.key).expect("what is deleted was there");
                self.book.remove(&price);
                continue;
            }
            let side = char::from(*entry.key.last().expect("a key"));
            let price = (side, real(entry.data, 3427));
            prices.insert(entry.key.to_vec(), price);
            self.book.insert(price, real(entry.data, 4356));
        }
    }
}

/// Where the level of a key stands.
type Prices = BTreeMap<Vec<u8>, (char, i128)>;

/// Levels of items as they are told, from their first images on.
#[derive(Default)]
struct Consumer {
    items: BTreeMap<u32, (Holder, Prices)>,
}

impl Consumer {
    fn take(&mut self, event: &feed::Event<'_>) {
        let (holder, prices) = self.items.entry(event.instrument.0).or_default();
        match event.payload {
            Payload::Status => {
                let Ok(Msg::Status(status)) = Msg::decode(event.body) else { panic!("no status") };
                holder.state(status.state.expect("a state").data);
            }
            Payload::ImagePart { part, data, .. } => {
                holder.state(data);
                if part == 0 {
                    holder.book.clear();
                    prices.clear();
                }
                holder.map(event.body, prices);
            }
            Payload::Update(_) => holder.map(event.body, prices),
            other => panic!("a venue on the web tells no {other:?}"),
        }
    }
}

fn open(server: &Server, site: &str, with: impl FnOnce(&mut SiteArgs)) -> WebSource {
    let mut args = SiteArgs {
        web_socket: Some(format!("wss://localhost:{}/texts", server.port)),
        ca_file: Some(server.certificate.clone()),
        ..SiteArgs::default()
    };
    with(&mut args);
    let place = WebPlace::parse(site, &args, None).expect("a place");
    WebSource::open(place, site, None).expect("sockets")
}

/// Waits as the owner of a source does.
struct Waiter {
    tcp: Tcp,
    events: Vec<Event>,
    start: u64,
    /// Watched by `tcp` for as long.
    _wake: OwnedFd,
}

impl Waiter {
    fn new(source: &WebSource) -> Self {
        let (mut tcp, wake) = (Tcp::new(TcpConfig::default()).expect("a poll"), source.wake().expect("a descriptor"));
        tcp.watch(wake.as_fd(), 0).expect("a poll");
        Self { tcp, events: Vec::new(), start: net::clock::now(), _wake: wake }
    }

    /// Time of the source's clock.
    fn now(&self) -> u64 {
        net::clock::now() - self.start
    }

    /// Until something has come, or something of the source is due.
    fn wait(&mut self, source: &WebSource) {
        let due = source.due().map_or(SECOND, |due| due.saturating_sub(self.now()));
        self.tcp.poll(Some(Duration::from_nanos(due.min(SECOND))), &mut self.events).expect("a poll");
    }
}

/// Watches all products until the day has been sent, all is good, and what is held is what the exchange has; levels of each product.
fn run(source: &mut WebSource, server: &Server) -> BTreeMap<String, Holder> {
    let names = source.symbols();
    let ids: Vec<InstrumentId> = names.iter().map(|name| source.find(name).expect("an item")).collect();
    let mut consumer = Consumer::default();
    for id in &ids {
        source.watch(*id, Model::ByPrice, true);
        let mut body = Vec::new();
        assert!(!source.image(*id, Model::ByPrice, 0, &mut body), "a book that has not begun is empty");
        let data = source.data_state(*id, Model::ByPrice);
        let payload = Payload::ImagePart { part: 0, more: false, data };
        consumer.take(&feed::Event { instrument: *id, model: Model::ByPrice, payload, body: &body });
    }
    let (mut waiter, end) = (Waiter::new(source), net::clock::now() + 100 * SECOND);
    loop {
        assert!(net::clock::now() < end, "what is expected does not come: {:?}", source.remarks());
        source.advance(waiter.now(), 1_000, &mut |event| consumer.take(&event));
        let is_good = ids.iter().all(|id| source.data_state(*id, Model::ByPrice) == DataState::OK);
        let is_held = |(id, name): (&InstrumentId, &String)| {
            let (books, item) = (server.signals.at_the_end.get()?, consumer.items.get(&id.0)?);
            Some(item.0.book == *books.get(name)? && item.0.states.last() == Some(&DataState::OK))
        };
        if is_good && ids.iter().zip(&names).all(|pair| is_held(pair) == Some(true)) {
            break;
        }
        waiter.wait(source);
    }
    ids.iter().zip(names).map(|(id, name)| (name, consumer.items.remove(&id.0).expect("an item").0)).collect()
}

const GAP: [DataState; 2] = [DataState::SUSPECT, DataState::OK];

fn coinbase(script: Vec<serde_json::Value>, products: &[String], cut: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let (exchange, loser) = Coinbase::new(script, cut + 100);
    // It is gone, refuses twice, and then stands.
    let server = Server::start(folder.path(), exchange, vec![Fate::Cut(cut), Fate::Refused, Fate::Whole]);
    let mut source = open(&server, &format!("coinbase:{}", products.join(",")), |_| {});
    assert!(!source.is_ready(), "a service without its venue is down");
    let held = run(&mut source, &server);
    let (figures, connections) = (source.intake().feed().figures(), server.signals.connections.load(Ordering::Relaxed));
    assert!(source.is_ready() && connections == 3 && figures.dials == 3, "{figures:?}");
    assert_eq!((figures.stream.gaps, figures.stream.repairs), (held.len() as u64 + 1, held.len() as u64 + 1));
    for (name, holder) in held {
        assert!(
            holder.book == server.books()[&name] && !holder.book.is_empty(),
            "{name} is another book than the exchange's"
        );
        let gaps = if name == loser { 3 } else { 2 };
        assert!(holder.states == GAP.repeat(gaps), "{name}: {:?}", holder.states);
    }
}

#[test]
fn coinbase_is_read_over_tls_through_cuts_refusals_and_losses() {
    let mut random = 37;
    let names = ["A-USD", "B-USD", "C-USD"].map(str::to_owned);
    let mut script: Vec<serde_json::Value> = Vec::new();
    for name in &names {
        let (bids, asks) = ([["100.00", "1.5"]], [["150.00", "0.25000000"]]);
        script.push(serde_json::json!({ "type": "snapshot", "product_id": name, "bids": bids, "asks": asks }));
    }
    for number in 1..3_000u64 {
        let name = &names[draw(&mut random, 3) as usize];
        let (side, base) = if draw(&mut random, 2) == 0 { ("buy", 70) } else { ("sell", 130) };
        let price = format!("{}.{:02}", base + draw(&mut random, 40), draw(&mut random, 100));
        let size = format!("{}.{:08}", draw(&mut random, 2), draw(&mut random, 2));
        let time = "2026-11-29T10:00:00.000001Z";
        script.push(
            serde_json::json!({ "type": "l2update", "product_id": name, "changes": [[side, price, size]], "time": time }),
        );
        if number % 10 == 0 {
            script.push(serde_json::json!({
                "type": "match", "product_id": names[(number / 10 % 3) as usize], "trade_id": number / 30 + 1, "side": side, "size": "1",
                "price": price, "time": time,
            }));
        }
    }
    coinbase(script, &names, 1_000);
}

#[test]
fn a_recorded_half_minute_of_coinbase_is_read_over_tls_through_cuts_and_losses() {
    let data = std::env::var_os("QUOTEWAY_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let path = data.join("crypto-ws/COINBASE.ws.28.0.gz");
    let Ok(file) = std::fs::File::open(&path) else {
        println!("no recording {}: set QUOTEWAY_DATA to test with it", path.display());
        return;
    };
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).expect("a packed file");
    let came = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let texts = came.filter_map(|line| serde_json::from_str::<serde_json::Value>(line.split_once(": ")?.1).ok());
    let kinds = ["snapshot", "l2update", "match"];
    let script: Vec<serde_json::Value> = texts.filter(|text| kinds.iter().any(|kind| text["type"] == *kind)).collect();
    let snapshots = script.iter().filter(|text| text["type"] == "snapshot");
    let names: Vec<String> = snapshots.map(|text| text["product_id"].as_str().expect("a name").to_owned()).collect();
    assert_eq!((names.len(), script.len() > 9_000), (10, true));
    coinbase(script, &names, 3_000);
}

#[test]
fn books_of_bitstamp_begin_with_what_is_fetched_though_fetches_fail() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = ["btcusd", "ethusd"].map(str::to_owned);
    let books = names.iter().map(|name| (name.clone(), Book::new())).collect();
    // Half a minute on a machine that has nothing else to do, since the server sends as it reads.
    let exchange =
        Bitstamp { random: 7, left: 200_000, time: 1_700_000_000_000_000, books, subscribed: BTreeSet::new() };
    let server = Server::start(folder.path(), exchange, vec![Fate::Cut(20_000), Fate::Whole]);
    let http = format!("https://localhost:{}", server.port);
    let mut source = open(&server, "bitstamp:btcusd,ethusd", |args| args.http_server = Some(http));
    let held = run(&mut source, &server);
    let figures = source.intake().feed().figures();
    assert!(figures.bad.contains(&("fetches that brought nothing".to_owned(), 2)), "{figures:?}");
    for (name, holder) in held {
        assert!(
            holder.book == server.books()[&name] && !holder.book.is_empty(),
            "{name} is another book than the exchange's"
        );
        assert!(holder.states.ends_with(&GAP) && holder.states.len() <= 4, "{name}: {:?}", holder.states);
    }
}

#[test]
fn a_server_with_a_certificate_of_others_is_dialled_again_and_never_spoken_to() {
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let made = || {
        Coinbase::new(
            (0..4).map(|n| serde_json::json!({ "type": "match", "product_id": "A", "trade_id": n })).collect(),
            0,
        )
        .0
    };
    let server = Server::start(folder.path(), made(), vec![Fate::Whole]);
    let stranger = Server::start(other.path(), made(), vec![Fate::Whole]);
    let mut source = open(&server, "coinbase:A-USD", |args| args.ca_file = Some(stranger.certificate.clone()));
    let (mut waiter, end) = (Waiter::new(&source), net::clock::now() + 60 * SECOND);
    while source.intake().feed().figures().dials < 2 {
        assert!(net::clock::now() < end, "it is dialled again");
        source.advance(waiter.now(), 100, &mut |_| {});
        waiter.wait(&source);
    }
    assert!(!source.is_ready() && server.signals.connections.load(Ordering::Relaxed) == 0);
}
