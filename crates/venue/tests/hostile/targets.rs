//! What fuzzing runs; the tests run it on mutated and kept inputs.

use market::Side;
use venue::cme::{CmeChannel, Schema};
use venue::dbn::{DbnFile, DbnReader, MboBooks, MbpBooks, Record};
use venue::iex::tp::TpReceiver;
use venue::iex::{self, IexDay};
use venue::kraken::Kraken;
use venue::nasdaq::itch::Message;
use venue::nasdaq::mold::{Header, Join, Line};
use venue::nasdaq::soup::{Login, SoupClient};
use venue::nasdaq::{DayFile, ItchFeed, TotalView};
use venue::sequence::{Change, Limits, Receiver};
use venue::web::{Binance, Bitmex, Bitstamp, Coinbase, IndependentReserve, KrakenFutures, Want, Web, WebVenue};

struct Nobody;

impl Receiver for Nobody {
    fn message(&mut self, _number: u64, _message: &[u8]) {}
    fn change(&mut self, _change: &Change) {}
}

/// Bytes as a day file: each message that can be read can be written and reads the same; the books hold together.
pub(crate) fn venue_itch(data: &[u8]) {
    let (mut day, mut levels, mut file) = (TotalView::<true>::default(), TotalView::<false>::default(), DayFile::new());
    let half = data.len() / 2;
    for piece in [&data[..half], &data[half..]] {
        file.read(piece, |bytes| {
            if let Ok(message) = Message::decode(bytes) {
                let mut again = Vec::new();
                message.encode(&mut again);
                assert_eq!(Message::decode(&again), Ok(message));
            }
            assert_eq!(day.apply(bytes, &mut ()), levels.apply(bytes, &mut ()));
        });
    }
    // The same in batches, with looks ahead.
    let (mut together, mut file) = (TotalView::<true>::default(), DayFile::new());
    for piece in [&data[..half], &data[half..]] {
        file.read_all(piece, |messages| together.apply_all(messages, &mut ()));
    }
    assert_eq!((together.messages(), together.bad_total()), (day.messages(), day.bad_total()));
    for book in [&day, &together] {
        book.books().check_invariants();
    }
    levels.books().check_invariants();
    assert_eq!((day.books().len(), together.books().len()), (levels.books().len(), levels.books().len()));
}

/// Bytes as operations on a channel: packets of either line or the re-request server, time, snapshots.
pub(crate) fn venue_mold(data: &[u8]) {
    let limits = Limits { window: 64, held_bytes: 4_096, attempts: 2, ..Limits::default() };
    let join = if data.first().is_some_and(|first| first & 1 == 1) { Join::Live } else { Join::Beginning };
    let mut feed = ItchFeed::<true>::new(join, limits);
    let mut now = 0u64;
    let mut rest = data;
    while let Some(([act, length], behind)) = rest.split_first_chunk::<2>() {
        let (bytes, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        rest = behind;
        now = now.saturating_add(u64::from(*act) << 16);
        match act % 8 {
            0..=2 => feed.receive(Line::Feed(act % 8), bytes, now, &mut ()),
            3 => feed.receive(Line::Repair, bytes, now, &mut ()),
            4 => feed.begin_snapshot(&mut ()),
            5 => {
                let _stale = feed.snapshot_message(bytes, now, &mut ());
            }
            _ => now = feed.timer().unwrap_or(now).max(now),
        }
        feed.on_timer(now, &mut ());
        if let Some(request) = feed.poll_request() {
            let header = Header::read(&request).expect("a request is a header");
            assert!(header.count > 0 && header.count < 0xFFFF && header.sequence >= feed.mold().next());
        }
    }
    feed.day().books().check_invariants();
}

/// Bytes as what a `SoupBinTCP` server sends, cut by the first byte.
pub(crate) fn venue_soup(data: &[u8]) {
    let login = Login { user: "u".into(), password: "p".into(), session: String::new(), sequence: 1 };
    let (mut whole, mut cut) = (SoupClient::new(login.clone()), SoupClient::new(login));
    let size = usize::from(data.first().copied().unwrap_or(0) % 7) + 1;
    whole.connected(0);
    cut.connected(0);
    whole.receive(data, 1, &mut Nobody);
    for piece in data.chunks(size) {
        cut.receive(piece, 1, &mut Nobody);
    }
    assert_eq!((whole.state(), whole.next()), (cut.state(), cut.next()));
    whole.on_timer(2_000_000_000, &mut Nobody);
    whole.connected(3_000_000_000);
    assert!(!whole.take_output().is_empty());
}

/// Bytes as a DBN file: what is read holds together, and every byte is read or told of.
pub(crate) fn venue_dbn(data: &[u8]) {
    let mut reader = DbnReader::new();
    for piece in data.chunks(usize::from(data.first().copied().unwrap_or(0)) + 1) {
        reader.push(piece);
        while let Ok(Some(_)) = reader.next_record() {}
    }
    let Ok(mut file) = DbnFile::new(data) else { return };
    let (mut books, mut levels) = (MboBooks::new(), MbpBooks::new());
    let mut before = file.rest();
    while let Ok(Some(record)) = file.next_record() {
        match record {
            Record::Mbo(mbo) => drop(books.apply(&mbo, &mut ())),
            Record::Mbp10(mbp) => {
                levels.apply(&mbp, &mut ());
                let book = levels.book(mbp.change.head.instrument).expect("a book");
                assert!(Side::BOTH.iter().all(|side| levels.books().depth(book, *side) <= 10));
            }
            _ => {}
        }
        assert!(file.rest() < before);
        before = file.rest();
    }
    books.books().check_invariants();
}

/// Bytes as packets of a channel of CME: incremental ones with numbers that follow or jump, snapshots, definitions, time. Then as a schema.
pub(crate) fn venue_cme(data: &[u8]) {
    const SCHEMA: &str = include_str!("../support/mdp.xml");
    let limits = Limits { window: 64, held_bytes: 4_096, attempts: 2, ..Limits::default() };
    let mut channel = CmeChannel::new(Schema::read(SCHEMA).expect("a schema"), limits);
    let (mut now, mut rest, mut next) = (0u64, data, 1u32);
    while let Some(([act, length], behind)) = rest.split_first_chunk::<2>() {
        let (bytes, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        rest = behind;
        now = now.saturating_add(u64::from(*act) << 16);
        let numbered = [&next.to_le_bytes()[..], &now.to_le_bytes(), bytes].concat();
        match act % 6 {
            0..=2 => {
                channel.incremental(act % 2, &numbered, now, &mut ());
                next = next.wrapping_add(1 + u32::from(*act > 200));
            }
            3 => channel.recovery(&numbered, &mut ()),
            4 => channel.incremental(0, bytes, now, &mut ()),
            _ => now = channel.timer().unwrap_or(now).max(now),
        }
        channel.on_timer(now, &mut ());
        let _unanswered = channel.poll_request();
    }
    channel.orders().check_invariants();
    if let Ok(text) = std::str::from_utf8(data) {
        let _no_schema = Schema::read(text);
    }
}

/// Bytes as texts of a connection to Kraken, one a line, with time in between.
pub(crate) fn venue_kraken(data: &[u8]) {
    let (mut kraken, mut now) = (Kraken::new(&["XBT/CHF".to_owned()], 12), 0u64);
    kraken.connected(now);
    for line in data.split(|byte| *byte == b'\n') {
        now = now.saturating_add(u64::from(line.first().copied().unwrap_or(0)) << 24);
        kraken.text(line, now, &mut ());
        kraken.on_timer(kraken.timer().unwrap_or(now).max(now));
        while kraken.poll().is_some() {}
    }
    let book = kraken.book("XBT/CHF").expect("a pair");
    assert!(Side::BOTH.into_iter().all(|side| book.levels(side).count() <= 12));
}

/// Bytes as texts of a connection, one a line, of the venue that the first byte chooses; each is also what the last request has brought.
pub(crate) fn venue_web(data: &[u8]) {
    let names = ["A-B".to_owned()];
    match data.first().map_or(0, |first| first % 6) {
        0 => web(Web::<Coinbase>::new(&names), data),
        1 => web(Web::<Bitmex>::new(&names), data),
        2 => web(Web::<KrakenFutures>::new(&names), data),
        3 => web(Web::<Binance>::new(&[]), data),
        4 => web(Web::<Bitstamp>::new(&names), data),
        _ => web(IndependentReserve::new(&[]), data),
    }
}

fn web(mut venue: impl WebVenue, data: &[u8]) {
    let mut now = 0u64;
    venue.connected(now);
    for line in data.get(1..).unwrap_or_default().split(|byte| *byte == b'\n') {
        now = now.saturating_add(u64::from(line.first().copied().unwrap_or(0)) << 24);
        venue.recorded(line);
        venue.text(line, now, &mut ());
        venue.on_timer(venue.timer().unwrap_or(now).max(now));
        while let Some(want) = venue.poll() {
            if let Want::Fetch(path) = want {
                venue.answer(&path, line, now, &mut ());
            }
        }
    }
    for name in venue.names() {
        let book = venue.find(&name).expect("a product");
        for side in Side::BOTH {
            let best = venue.books().best(book, side);
            assert_eq!(best, venue.books().levels(book, side).next());
        }
    }
    venue.disconnected(&mut ());
    assert!(venue.timer().is_none());
}

/// Bytes as operations on a channel of IEX: segments, time; what leaves is in order, the books hold together.
pub(crate) fn venue_iex(data: &[u8]) {
    let limits = Limits { window: 64, held_bytes: 4_096, attempts: 2, ..Limits::default() };
    let (mut tp, mut applied, mut now, mut rest) = (TpReceiver::new(limits), Iex::default(), 0u64, data);
    while let Some(([act, length], behind)) = rest.split_first_chunk::<2>() {
        let (bytes, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        rest = behind;
        now = now.saturating_add(u64::from(*act) << 16);
        if act % 4 == 3 {
            now = tp.timer().unwrap_or(now).max(now);
        } else {
            tp.receive(0, bytes, now, &mut applied);
        }
        tp.on_timer(now, &mut applied);
        if let Some(wanted) = tp.poll_request() {
            assert!(wanted.start > applied.last && wanted.end > wanted.start);
        }
    }
}

#[derive(Default)]
struct Iex {
    day: IexDay,
    last: u64,
}

impl Receiver for Iex {
    fn message(&mut self, number: u64, message: &[u8]) {
        assert!(number > self.last, "in order, once");
        self.last = number;
        if let Ok(message) = iex::messages::Message::decode(message) {
            let mut again = Vec::new();
            message.encode(&mut again);
            assert_eq!(iex::messages::Message::decode(&again), Ok(message));
        }
        let _unreadable = self.day.apply(message, &mut ());
    }

    fn change(&mut self, change: &Change) {
        if let Change::Session { next, .. } = change {
            self.day.begin(&mut ());
            self.last = next - 1;
        }
    }
}
