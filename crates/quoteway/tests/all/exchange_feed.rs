//! `quoteway feed` as its users run it: an exchange's file, a server and a consumer, joined by sockets. What the consumer holds is the
//! book of the venue's handler after each of its settled states.

#[path = "../../../venue/tests/support/day.rs"]
#[allow(dead_code, reason = "tests and measurements use different parts")]
mod day;
#[path = "../../../feed/tests/support/held.rs"]
#[allow(dead_code, reason = "tests use different parts")]
mod held;
#[path = "../../../venue/tests/support/mdp.rs"]
#[allow(dead_code, reason = "tests use different parts")]
mod mdp;

mod cme;
mod live;
mod rate;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use market::{BookId, OrderBooks, Rules, Side};
use net::tcp::{ConnId, SocketOptions};
use rssl::ClientConfig;
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::msg::{Domain, Msg, MsgKey, RequestFlags, RequestMsg};
use rwf::wire::Writer;
use rwf::{DataState, Map, SetScope, StateCode, StreamState};
use tools::consumer::{Consumer, Identity, Received};
use venue::dbn::{DbnReader, MboBooks, Record};
use venue::nasdaq::TotalView;

use self::day::{Day, Settings};
use self::held::{Held, States};
use crate::chain::{From, Process, client, port_of, start};

const SECOND: u64 = 1_000_000_000;

/// The state held of one stream.
#[derive(Default)]
struct Stream {
    name: String,
    domain: Option<Domain>,
    held: Held,
    states: States,
    /// The first image is whole.
    is_whole: bool,
    /// Of each whole image, how many parts it had and which of the states it is.
    images: Vec<(usize, usize)>,
    parts: usize,
    data: Vec<DataState>,
    /// Closed by the other side.
    closed: Option<StateCode>,
    names: Vec<String>,
}

/// A consumer of books of one service.
struct Watch {
    consumer: Consumer,
    decimals: u8,
    streams: Vec<Stream>,
    out: Vec<Vec<u8>>,
}

/// The first stream of an item; those below are the consumer's own.
const FIRST: i32 = 5;

impl Watch {
    fn request(&mut self, service: u16) {
        for (n, stream) in self.streams.iter().enumerate() {
            let key = MsgKey { name_type: Some(1), ..MsgKey::item(service, stream.name.as_bytes()) };
            let domain = stream.domain.expect("a domain");
            let request =
                RequestMsg { flags: RequestFlags::STREAMING, key, ..RequestMsg::new(domain, FIRST + n as i32) };
            let mut buf = [0; 256];
            let mut w = Writer::new(&mut buf);
            request.encode(&mut w).expect("room");
            self.out.push(w.written().to_vec());
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let msg = Msg::decode(bytes).expect("a message");
        let at = rwf::peek::stream_id(bytes).expect("a stream") - FIRST;
        let (decimals, stream) = (self.decimals, &mut self.streams[at as usize]);
        let is_book = matches!(stream.domain, Some(Domain::MARKET_BY_ORDER | Domain::MARKET_BY_PRICE));
        match msg {
            Msg::Refresh(refresh) => {
                let first = refresh.flags.contains(rwf::msg::RefreshFlags::CLEAR_CACHE);
                let last = refresh.flags.contains(rwf::msg::RefreshFlags::REFRESH_COMPLETE);
                stream.note(refresh.state.data);
                if is_book {
                    if first {
                        stream.held.clear();
                        stream.parts = 0;
                    }
                    stream.parts += 1;
                    stream.held.apply(refresh.body, decimals);
                    if last {
                        stream.states.push(&stream.held);
                        stream.images.push((stream.parts, stream.states.0.len() - 1));
                    }
                } else if stream.domain == Some(Domain::SYMBOL_LIST) {
                    let map = Map::decode(refresh.body, &SetScope::default()).expect("a map");
                    let names = map.entries().map(|entry| String::from_utf8(entry.expect("a name").key.to_vec()));
                    stream.names.extend(names.map(|name| name.expect("text")));
                }
                stream.is_whole |= last;
            }
            Msg::Update(update) if is_book => {
                stream.held.apply(update.body, decimals);
                stream.states.push(&stream.held);
            }
            Msg::Status(status) => {
                let state = status.state.expect("a state");
                stream.note(state.data);
                if state.stream == StreamState::CLOSED {
                    stream.closed = Some(state.code);
                }
            }
            _ => {}
        }
    }
}

impl Stream {
    fn note(&mut self, data: DataState) {
        if data != DataState::NO_CHANGE && self.data.last() != Some(&data) {
            self.data.push(data);
        }
    }
}

impl Handler for Watch {
    fn opened(&mut self, now: u64, _: ConnId, _: &Opened<'_>) {
        let out = &mut self.out;
        self.consumer.begin(now, &mut |msg| out.push(msg.to_vec()));
    }

    fn message(&mut self, now: u64, _: ConnId, msg: &[u8]) {
        let out = &mut self.out;
        match self.consumer.receive(now, msg, &mut |msg| out.push(msg.to_vec())) {
            Received::ServiceUp(id) => self.request(id),
            Received::Item => self.take(msg),
            _ => {}
        }
    }

    fn closed(&mut self, _: u64, _: ConnId, ended: &Ended) {
        panic!("the consumer is cut off: {}", ended.why);
    }
}

/// Opens items and reads until `holds`.
fn watch(port: u16, items: &[(&str, Domain)], decimals: u8, holds: impl Fn(&[Stream]) -> bool) -> Vec<Stream> {
    let identity =
        Identity { user: "books".to_owned(), application: "test".to_owned(), service: "DIRECT_FEED".to_owned() };
    let streams = items.iter().map(|(name, domain)| Stream {
        name: (*name).to_owned(),
        domain: Some(*domain),
        ..Stream::default()
    });
    let mut watch = Watch { consumer: Consumer::new(identity), decimals, streams: streams.collect(), out: Vec::new() };
    let mut io = RsslIo::new(net::clock::now()).expect("sockets");
    let to = ([127, 0, 0, 1], port).into();
    let config = Arc::new(ClientConfig::default());
    let conn = io.connect(net::clock::now(), to, &SocketOptions::default(), config, None).expect("a socket");
    let end = net::clock::now() + 120 * SECOND;
    while !holds(&watch.streams) {
        let states: Vec<usize> = watch.streams.iter().map(|stream| stream.states.0.len()).collect();
        assert!(net::clock::now() < end, "what is expected does not come; states so far {states:?}");
        let now = io.turn(Some(net::clock::now() + SECOND / 100), &mut watch).expect("sockets");
        let out = std::mem::take(&mut watch.out);
        io.send(now, conn, |packer| out.iter().for_each(|msg| packer.push(msg, None)));
    }
    watch.streams
}

/// The states of a book, by order and by price, as its handler has them.
#[derive(Default)]
struct Expected {
    by_order: States,
    by_price: States,
}

impl Expected {
    fn settle<R: Rules>(&mut self, books: &OrderBooks<R>, book: BookId) {
        let (mut orders, mut levels) = (Held::default(), Held::default());
        for (side, number, letter) in [(Side::Bid, 1, 'B'), (Side::Ask, 2, 'A')] {
            for order in books.orders(book, side) {
                orders.set(&order.reference.to_string(), (number, order.price, order.size as i64, 0));
            }
            for level in books.levels(book, side) {
                let entry = (number, level.price, level.size as i64, u64::from(level.orders));
                levels.set(&format!("{}{letter}", level.price), entry);
            }
        }
        self.by_order.push(&orders);
        self.by_price.push(&levels);
    }

    fn of(&self, domain: Domain) -> &[u64] {
        if domain == Domain::MARKET_BY_ORDER { &self.by_order.0 } else { &self.by_price.0 }
    }

    /// From its image on, the consumer has had each state, and the last one.
    fn is_held_by(&self, stream: &Stream) -> bool {
        self.of(stream.domain.expect("a domain")).ends_with(&stream.states.0) && !stream.states.0.is_empty()
    }
}

/// A day of ITCH by seed, in a file, and the states of each stock's books.
fn itch_day(folder: &Path, stocks: u16, count: usize, longest_life: f64) -> (PathBuf, BTreeMap<String, Expected>) {
    let mut day = Day::new(Settings { seed: 37, stocks, longest_life });
    let (mut file, mut books) = (Vec::new(), TotalView::<true>::default());
    let mut all: BTreeMap<u16, Expected> = (1..=stocks).map(|locate| (locate, Expected::default())).collect();
    for _ in 0..count {
        let mut message = Vec::new();
        day.next().encode(&mut message);
        books.apply(&message, &mut ()).expect("a message");
        if let Some(expected) = all.get_mut(&u16::from_be_bytes([message[1], message[2]])) {
            let locate = u16::from_be_bytes([message[1], message[2]]);
            expected.settle(books.books(), BookId(u32::from(locate)));
        }
        file.extend((message.len() as u16).to_be_bytes());
        file.extend(message);
    }
    let path = folder.join("S123019-v50.txt");
    std::fs::write(&path, file).expect("a file");
    (path, all.into_iter().map(|(locate, expected)| (Day::symbol(locate).trimmed().into_owned(), expected)).collect())
}

/// `quoteway feed` with a server around it.
fn serve(path: &Path, args: &[&str]) -> (Process, u16) {
    let mut all = vec!["feed", path.to_str().expect("UTF-8"), "--serve", "--start-on-open", "--http-port", "off"];
    all.extend(["--rssl-port", "0", "--nip-port", "0", "--interface", "127.0.0.1"]);
    all.extend(args);
    let process = start(&all, &From::Output, "ready ");
    let port = port_of(&process, "rssl=");
    (process, port)
}

/// `quoteway feed` alone, to which consumers connect.
fn provide(path: &Path, args: &[&str]) -> (Process, u16) {
    let mut all = vec!["feed", path.to_str().expect("UTF-8"), "--start-on-open", "--port", "0"];
    all.extend(args);
    let process = start(&all, &From::Error, "is published on");
    let port = process.line().split(" on 127.0.0.1:").nth(1).and_then(|rest| rest.split(';').next()).expect("a port");
    let port = port.parse().expect("a port");
    (process, port)
}

#[test]
fn a_consumer_of_a_served_itch_day_holds_the_book_of_every_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, expected) = itch_day(folder.path(), 3, 12_000, 3_000.0);
    // Twelve milliseconds of the venue's time in some two seconds.
    let (_feed, port) = serve(&path, &["--speed", "0.005"]);
    let both = |name: &'static str| [(name, Domain::MARKET_BY_ORDER), (name, Domain::MARKET_BY_PRICE)];
    let items: Vec<(&str, Domain)> = ["S1", "S2", "S3"].into_iter().flat_map(both).collect();
    let is_done = |streams: &[Stream]| streams.iter().all(|stream| expected[&stream.name].is_held_by(stream));
    for stream in watch(port, &items, 4, is_done) {
        let all = expected[&stream.name].of(stream.domain.expect("a domain"));
        let (held, all) = (stream.states.0.len(), all.len());
        assert!(held * 2 > all, "{} came late: {held} of {all} states", stream.name);
        assert_eq!(stream.data, [DataState::OK], "{}", stream.name);
    }
}

/// The same file, in which time goes a thousand times slower.
fn slowed(path: &Path) {
    let mut bytes = std::fs::read(path).expect("the file");
    let mut at = 0;
    while at < bytes.len() {
        let length = usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        let field = at + 7..at + 13;
        let time = bytes[field.clone()].iter().fold(0u64, |time, byte| time << 8 | u64::from(*byte));
        let slowed = 34_200 * SECOND + (time - 34_200 * SECOND) * 1_000;
        bytes[field].copy_from_slice(&slowed.to_be_bytes()[2..]);
        at += 2 + length;
    }
    std::fs::write(path, bytes).expect("the file");
}

/// Images that nobody asked for, in parts, pass through a Source Distributor and a P2PS.
#[test]
fn a_file_that_begins_again_is_told_as_new_images_and_goes_on_from_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, expected) = itch_day(folder.path(), 1, 4_500, 100_000.0);
    slowed(&path);
    let (_feed, port) = serve(&path, &["--from", "09:30:02", "--speed", "2", "--repeat"]);
    let items = [("S1", Domain::MARKET_BY_ORDER), ("S1", Domain::MARKET_BY_PRICE)];
    let is_done = |stream: &Stream| {
        let again = stream.images.get(1).map_or(usize::MAX, |image| image.1);
        stream.states.0.len() > again.saturating_add(500)
    };
    for stream in watch(port, &items, 4, |streams| streams.iter().all(is_done)) {
        let all = expected["S1"].of(stream.domain.expect("a domain"));
        let (first, again) = (stream.images[0].1, stream.images[1]);
        assert!(stream.domain != Some(Domain::MARKET_BY_ORDER) || again.0 > 1, "an image in parts: {again:?}");
        // States of before the request are not sent: the image is that of the moment, and the states behind it are the venue's.
        let told = &stream.states.0[again.1..];
        let at = all.iter().position(|state| *state == told[0]).expect("a state of the book");
        let length = told.len().min(all.len() - at);
        assert!(at > 500 && length > 400 && told[..length] == all[at..at + length], "from state {at} on");
        assert!(all[at..].contains(&stream.states.0[first]), "the first image is later, if anything");
        assert_eq!(stream.data, [DataState::OK]);
    }
}

#[test]
fn names_that_the_exchange_does_not_have_are_refused_and_the_others_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, _) = itch_day(folder.path(), 3, 200, 3_000.0);
    let (_feed, port) = serve(&path, &["--suffix", ".ITCH"]);
    let items = [
        ("NOSUCH.ITCH", Domain::MARKET_PRICE),
        ("S1", Domain::MARKET_BY_ORDER),
        ("S1.ITCH", Domain::MARKET_PRICE),
        ("0#ALL", Domain::SYMBOL_LIST),
    ];
    let streams = watch(port, &items, 4, |streams| {
        let is_settled = |stream: &Stream| stream.is_whole || stream.closed.is_some();
        streams.iter().all(is_settled)
    });
    let codes: Vec<Option<StateCode>> = streams.iter().map(|stream| stream.closed).collect();
    assert_eq!(codes, [Some(StateCode::NOT_FOUND), Some(StateCode::NOT_FOUND), None, None]);
    assert_eq!(streams[3].names, ["S1.ITCH", "S2.ITCH", "S3.ITCH"]);
    // Our own tool sees the prices.
    let report = client(port, &["-S", "DIRECT_FEED", "-il", "S1.ITCH,S2.ITCH", "--seconds", "1"]);
    assert_eq!((&report["complete"], &report["refused"]), (&true.into(), &0.into()), "{report}");
}

/// The first records of a recorded hour, and the states of its book.
fn recorded(folder: &Path, records: usize) -> Option<(PathBuf, Expected)> {
    let data = std::env::var_os("QUOTEWAY_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let packed = data.join("cme-es/esh4-glbx-mdp3-20231225.mbo.dbn.zst");
    let Ok(packed) = std::fs::File::open(&packed) else {
        println!("no recording {}: set QUOTEWAY_DATA to test with it", packed.display());
        return None;
    };
    let unpacked = zstd::stream::decode_all(packed).expect("a packed file");
    let piece = &unpacked[..206 + records * 56];
    let path = folder.join("piece.dbn");
    std::fs::write(&path, piece).expect("a file");
    let (mut reader, mut books, mut expected) = (DbnReader::new(), MboBooks::new(), Expected::default());
    reader.push(piece);
    while let Some(record) = reader.next_record().expect("records") {
        let Record::Mbo(record) = record else { continue };
        // The recorded snapshot has no last record.
        if books.ends_before(&record).is_some() {
            expected.settle(books.books(), BookId(0));
        }
        if books.apply(&record, &mut ()) {
            expected.settle(books.books(), BookId(0));
        }
    }
    Some((path, expected))
}

#[test]
fn a_consumer_of_a_recorded_hour_of_futures_holds_the_book_of_every_event() {
    let folder = tempfile::tempdir().expect("a folder");
    // The snapshot has 8,725 orders.
    let Some((path, expected)) = recorded(folder.path(), 8_950) else { return };
    let (_feed, port) = provide(&path, &["--from", "21:59", "--speed", "1000"]);
    let items = [("ESH4", Domain::MARKET_BY_ORDER), ("ESH4", Domain::MARKET_BY_PRICE)];
    let streams = watch(port, &items, 9, |streams| {
        let done = |stream: &Stream| expected.is_held_by(stream) && stream.states.0.len() > 100;
        streams.iter().all(done)
    });
    for stream in streams {
        assert_eq!(stream.data, [DataState::OK]);
    }
}
