//! DBN: recorded hours of CME's E-mini S&P, whose figures two decoders agreed on, and files that are no files.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use market::{BookState, Event, Order, Side};
use venue::dbn::{DbnFile, LAST, Mbo, MboBooks, NotDbn, Record, SNAPSHOT, UNDEFINED_PRICE};

/// A recorded file unpacked, all its frames; `None` where the recordings are not at hand.
fn recorded(name: &str) -> Option<Vec<u8>> {
    let folder = std::env::var_os("QUOTEWAY_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let packed = fs::read(folder.join("cme-es").join(name)).ok()?;
    let (mut rest, mut all) = (&packed[..], Vec::new());
    while !rest.is_empty() {
        let mut frame = ruzstd::decoding::StreamingDecoder::new(&mut rest).expect("a frame");
        frame.read_to_end(&mut all).expect("a whole frame");
    }
    Some(all)
}

fn orders_of(bytes: &[u8]) -> Vec<Mbo> {
    let mut file = DbnFile::new(bytes).expect("DBN");
    let mut all = Vec::new();
    while let Some(record) = file.next_record().expect("records") {
        if let Record::Mbo(mbo) = record {
            all.push(mbo);
        }
    }
    assert_eq!(file.rest(), 0, "no torn record");
    all
}

#[derive(Default)]
struct Counts {
    fills: u64,
    events: u64,
}

impl market::Events for Counts {
    fn event(&mut self, _book: market::BookId, event: &Event) {
        self.fills += u64::from(matches!(event, Event::FillTold { .. }));
    }
}

impl venue::Market<Mbo> for Counts {
    fn end(&mut self, _book: Option<market::BookId>) {
        self.events += 1;
    }
}

/// A book as plain as can be: orders by number with the moment at which they got their place.
#[derive(Default)]
struct Plain {
    orders: HashMap<u64, (Mbo, u64)>,
    moment: u64,
}

impl Plain {
    fn apply(&mut self, record: &Mbo) {
        self.moment += 1;
        let place = self.moment;
        match record.action {
            b'R' => self.orders.clear(),
            b'A' => drop(self.orders.insert(record.order, (*record, place))),
            b'C' => {
                let (order, _) = self.orders.get_mut(&record.order).expect("a known order");
                assert_eq!(order.size, record.size, "a cancel has what is left");
                self.orders.remove(&record.order);
            }
            b'M' => {
                let (old, since) = self.orders[&record.order];
                let stays = old.price == record.price && record.size <= old.size;
                self.orders.insert(record.order, (*record, if stays { since } else { place }));
            }
            _ => {}
        }
    }

    fn side(&self, side: u8) -> Vec<(u64, i64, u64)> {
        let mut all: Vec<&(Mbo, u64)> = self.orders.values().filter(|(order, _)| order.side == side).collect();
        all.sort_by_key(|(order, place)| (if side == b'B' { -order.price } else { order.price }, *place));
        all.into_iter().map(|(order, _)| (order.order, order.price, u64::from(order.size))).collect()
    }
}

#[test]
fn two_recorded_hours_by_order_are_the_book_that_two_decoders_found() {
    let Some(bytes) = recorded("esh4-glbx-mdp3-20231225.mbo.dbn.zst") else { return };
    let records = orders_of(&bytes);
    let count = |action| records.iter().filter(|record| record.action == action).count();
    assert_eq!([b'A', b'C', b'M', b'F', b'T', b'R'].map(count), [29_216, 17_999, 12_233, 6_371, 2_973, 0]);
    let (mut books, mut plain, mut counts) = (MboBooks::new(), Plain::default(), Counts::default());
    let (mut live_events, mut crossed, mut last_crossed) = (0, 0, 0);
    for (at, record) in records.iter().enumerate() {
        let is_last = books.apply(record, &mut counts);
        plain.apply(record);
        let book = books.book(record.head.instrument).expect("opened");
        if is_last && record.flags & SNAPSHOT == 0 {
            live_events += 1;
            if books.state(book) == BookState::Crossed {
                (crossed, last_crossed) = (crossed + 1, record.head.event_time_ns);
            }
        }
        if at % 997 == 0 || at + 1 == records.len() {
            for (side, letter) in [(Side::Bid, b'B'), (Side::Ask, b'A')] {
                let ours = books
                    .books()
                    .orders(book, side)
                    .map(|Order { reference, price, size, .. }| (reference, price, size));
                assert_eq!(ours.collect::<Vec<_>>(), plain.side(letter), "after record {at}");
            }
        }
    }
    assert_eq!((live_events, crossed), (47_022, 891));
    // Crossed in the pre-opening only, which ends at 23:00:00 UTC.
    assert!(last_crossed < 1_703_545_200_000_070_000, "{last_crossed}");
    // Of 6,371 fills seven are of orders that are not there; nothing else is wrong.
    assert_eq!((books.bad().unknown_fill, counts.fills, counts.events), (7, 6_364, 47_023));
    assert_eq!(
        (books.bad().unknown_order, books.bad().bad_add, books.bad().exceeds, books.bad().unknown),
        (0, 0, 0, 0)
    );
    books.books().check_invariants();
}

#[test]
fn a_snapshot_begins_a_book_with_a_clear_or_without() {
    for (name, orders, has_clear) in [
        ("esh4-glbx-mdp3-20231224.mbo.dbn.zst", 8_725, false),
        ("orderbooks_mbo_2024-05-08T00-00-00_2024-05-08T00-00-02.dbn.zst", 13_600, true),
    ] {
        let Some(bytes) = recorded(name) else { return };
        let records = orders_of(&bytes);
        assert_eq!(records[0].action == b'R' && records[0].price == UNDEFINED_PRICE, has_clear);
        let end = records.iter().position(|record| record.flags & LAST != 0 && record.action == b'A').expect("an end");
        // Orders from before a snapshot are gone behind it.
        let mut books = MboBooks::new();
        let mut before = records[end];
        (before.order, before.flags) = (7, LAST);
        books.apply(&before, &mut ());
        for record in &records[..=end] {
            books.apply(record, &mut ());
        }
        assert_eq!((books.books().len(), books.books().order(7)), (orders, None), "{name}");
    }
}

/// What the market is told of doubts and trades.
#[derive(Default)]
struct DoubtsAndTrades {
    doubts: Vec<String>,
    trades: Vec<i64>,
}

impl market::Events for DoubtsAndTrades {
    fn event(&mut self, _book: market::BookId, _event: &Event) {}
}

impl venue::Market<Mbo> for DoubtsAndTrades {
    fn trade(&mut self, _book: market::BookId, trade: &venue::Trade) {
        self.trades.push(trade.price);
    }

    fn doubt(&mut self, _book: market::BookId, why: &market::Refused) {
        self.doubts.push(why.to_string());
    }
}

#[test]
fn an_order_without_a_price_stands_nowhere_and_negative_prices_are_prices() {
    let record = |action, order, price| Mbo {
        head: venue::dbn::Head { rtype: 0xA0, publisher: 1, instrument: 9, event_time_ns: 5 },
        order,
        price,
        size: 3,
        flags: LAST,
        channel: 0,
        action,
        side: b'B',
        receive_time_ns: 6,
        sequence: 7,
    };
    let (mut books, mut told) = (MboBooks::new(), DoubtsAndTrades::default());
    for (action, order, price) in [
        (b'A', 1, -37_630_000_000),
        (b'A', 2, UNDEFINED_PRICE),
        (b'A', 3, 0),
        (b'M', 3, UNDEFINED_PRICE),
        (b'T', 0, UNDEFINED_PRICE),
        (b'T', 0, -1),
    ] {
        books.apply(&record(action, order, price), &mut told);
    }
    let book = books.book(9).expect("a book");
    let prices: Vec<i64> = books.books().levels(book, Side::Bid).map(|level| level.price).collect();
    assert_eq!((prices, books.bad().no_price), (vec![0, -37_630_000_000], 3));
    assert_eq!(
        (told.trades, told.doubts),
        (vec![-1], vec!["order 2 has no price".into(), "order 3 has no price".into()])
    );
}

#[test]
fn best_prices_are_read() {
    let Some(bytes) = recorded("futures_mbp-1_2024-07-01T23-58_2024-07-02T00-02.dbn.zst") else { return };
    let mut file = DbnFile::new(&bytes).expect("DBN");
    let (mut records, mut trades, mut unchanged, mut last) = (0, 0, 0, None);
    while let Some(Record::Mbp1(record)) = file.next_record().expect("records") {
        records += 1;
        trades += u64::from(record.action == b'T');
        unchanged += u64::from(last == Some((record.bid, record.ask)));
        assert!(record.bid.price < record.ask.price && record.bid.orders > 0 && record.ask.size > 0);
        last = Some((record.bid, record.ask));
    }
    assert_eq!((records, trades, unchanged, file.rest()), (2_288, 120, 120, 0));
}

#[test]
fn what_is_no_file_or_is_torn_is_told() {
    assert_eq!(DbnFile::new(b"PAR1....").err(), Some(NotDbn::Begin));
    assert_eq!(DbnFile::new(b"DBN\x01\x09\0\0\0short").err(), Some(NotDbn::Metadata(9)));
    let mut torn = b"DBN\x01\0\0\0\0".to_vec();
    torn.extend_from_slice(&[4, 0x17, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    torn.extend_from_slice(&[14, 0xA0, 0, 0]);
    let mut file = DbnFile::new(&torn).expect("DBN");
    let other = file.next_record().expect("a record");
    assert!(
        matches!(other, Some(Record::Other(head)) if (head.rtype, head.instrument, head.event_time_ns) == (0x17, 9, 1))
    );
    assert_eq!((file.next_record(), file.rest(), file.version()), (Ok(None), 4, 1));
    let at = torn.len() - 4;
    torn[at] = 2;
    let mut file = DbnFile::new(&torn).expect("DBN");
    file.next_record().expect("a record");
    assert_eq!(file.next_record(), Err(NotDbn::Record { rtype: 0xA0, length: 8, at }));
}
