//! IEX: messages there and back, books against a plain map, lines that lose, repeat, begin again and pack differently.

use std::collections::BTreeMap;

use market::{BookId, Event, Events, Level, Side};
use proptest::prelude::*;
use venue::iex::IexDay;
use venue::iex::messages::{
    BuyLevel, EVENT_COMPLETE, EXTENDED_HOURS, Message, ODD_LOT, SellLevel, SystemEvent, TradeBreak, TradeReport,
    Unreadable,
};
use venue::iex::tp::{Header, Protocol, TpReceiver};
use venue::nasdaq::Text;
use venue::sequence::{Change, Limits, Receiver};
use venue::{Market, Trade};

use crate::day::Random;

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

fn symbol(n: u64) -> Text<8> {
    Text::new(["ZIEXT", "AA-", "BF.B", "JPM-A"][n as usize % 4])
}

/// Messages of a session by seed: levels of a few prices, trades, breaks.
pub(crate) fn session(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    let mut time = 1_493_127_000_000_000_000i64;
    let mut trades: Vec<TradeReport> = Vec::new();
    let mut all = vec![encoded(&Message::SystemEvent(SystemEvent { flags: b'O', time }))];
    while all.len() < count {
        time += random.below(50_000) as i64;
        let (symbol, price) = (symbol(random.below(4)), 100_000 + random.below(12) as i64 * 100);
        let (flags, size) = (random.below(2) as u8, random.below(4) as u32 * 100);
        let message = match random.below(10) {
            0..4 => Message::BuyLevel(BuyLevel { flags, time, symbol, size, price }),
            4..8 => Message::SellLevel(SellLevel { flags, time, symbol, size, price }),
            8 => {
                let flags = [0, ODD_LOT, EXTENDED_HOURS, 0x80][random.below(4) as usize];
                let trade = TradeReport { flags, time, symbol, size: size + 1, price, id: all.len() as i64 };
                trades.push(trade);
                Message::TradeReport(trade)
            }
            _ => match trades.pop() {
                Some(TradeReport { symbol, size, price, id, .. }) => {
                    Message::TradeBreak(TradeBreak { flags: 0, time, symbol, size, price, id })
                }
                None => continue,
            },
        };
        all.push(encoded(&message));
    }
    all
}

/// Levels by symbol, side and price, as plain as can be; and the sums of trades.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plain {
    levels: BTreeMap<(Text<8>, u8, i64), u32>,
    volume: u64,
    eligible: u64,
}

impl Plain {
    /// Fields at their places, read without the handler's tables.
    fn apply(&mut self, m: &[u8]) {
        let u32_at = |at: usize| u32::from_le_bytes(m[at..at + 4].try_into().unwrap());
        let i64_at = |at: usize| i64::from_le_bytes(m[at..at + 8].try_into().unwrap());
        match m[0] {
            side @ (b'8' | b'5') => {
                let key = (Text(m[10..18].try_into().unwrap()), side, i64_at(22));
                match u32_at(18) {
                    0 => drop(self.levels.remove(&key)),
                    size => drop(self.levels.insert(key, size)),
                }
            }
            b'T' => {
                self.volume += u64::from(u32_at(18));
                self.eligible += u64::from(u32_at(18)) * u64::from(m[1] & 0x60 == 0);
            }
            b'B' => self.volume -= u64::from(u32_at(18)),
            _ => {}
        }
    }
}

/// What a receiver of events holds.
#[derive(Default)]
struct Follower {
    symbols: BTreeMap<BookId, BTreeMap<(Side, i64), u64>>,
    volume: u64,
    eligible: u64,
    settled: u64,
}

impl Events for Follower {
    fn event(&mut self, book: BookId, event: &Event) {
        let levels = self.symbols.entry(book).or_default();
        match event {
            Event::Level { side, level, .. } if level.size == 0 => drop(levels.remove(&(*side, level.price))),
            Event::Level { side, level, .. } => drop(levels.insert((*side, level.price), level.size)),
            Event::Cleared { .. } => levels.clear(),
            _ => panic!("IEX tells no orders: {event:?}"),
        }
    }
}

impl Market<Message> for Follower {
    fn end(&mut self, _: Option<BookId>) {
        self.settled += 1;
    }

    fn trade(&mut self, _: BookId, trade: &Trade) {
        self.volume += trade.size;
        self.eligible += trade.size * u64::from(trade.is_eligible);
    }

    fn broken(&mut self, _: BookId, trade: &Trade) {
        self.volume -= trade.size;
    }
}

fn hold(day: &IexDay, follower: &Follower, plain: &Plain) {
    let mut levels = BTreeMap::new();
    for n in 0..4 {
        let Some(number) = day.number(symbol(n)) else { continue };
        let book = day.book(number).expect("a numbered book");
        for (side, letter) in [(Side::Bid, b'8'), (Side::Ask, b'5')] {
            let all: Vec<Level> = book.levels(side).collect();
            assert!(all.is_sorted_by(|a, b| if side == Side::Bid { a.price > b.price } else { a.price < b.price }));
            for level in all {
                assert_eq!(book.level(side, level.price), Some(level));
                assert_eq!(follower.symbols[&number].get(&(side, level.price)), Some(&level.size));
                levels.insert((symbol(n), letter, level.price), level.size as u32);
            }
        }
    }
    assert_eq!(levels, plain.levels);
    let told: usize = follower.symbols.values().map(BTreeMap::len).sum();
    assert_eq!((told, follower.volume, follower.eligible), (plain.levels.len(), plain.volume, plain.eligible));
}

/// Applies what leaves the transport.
#[derive(Default)]
struct Applied {
    day: IexDay,
    follower: Follower,
    numbers: Vec<u64>,
    changes: Vec<Change>,
}

impl Receiver for Applied {
    fn message(&mut self, number: u64, message: &[u8]) {
        self.numbers.push(number);
        self.day.apply(message, &mut self.follower).expect("a message");
    }

    fn change(&mut self, change: &Change) {
        if matches!(change, Change::Session { .. }) {
            self.day.begin(&mut self.follower);
            (self.follower.volume, self.follower.eligible) = (0, 0);
            self.numbers.clear();
        }
        self.changes.push(change.clone());
    }
}

pub(crate) fn segment(session: u32, first: u64, offset: i64, sent: i64, messages: &[Vec<u8>]) -> Vec<u8> {
    let body: Vec<u8> = messages.iter().flat_map(|m| [&(m.len() as u16).to_le_bytes()[..], m].concat()).collect();
    let (length, count) = (body.len() as u16, messages.len() as u16);
    let header = Header { protocol: Protocol::Deep, channel: 1, session, length, count, offset, first, sent };
    [&header.write()[..], &body].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn books_and_sums_are_those_of_a_plain_map_after_every_message(seed: u64, count in 1..1_500usize) {
        let (mut day, mut follower, mut plain) = (IexDay::new(), Follower::default(), Plain::default());
        let (mut settled, mut open) = (0, std::collections::BTreeSet::new());
        for message in session(seed, count) {
            day.apply(&message, &mut follower).expect("a message");
            plain.apply(&message);
            if message[0] == b'T' || message[0] == b'B' {
                // Broken trades leave the eligible ones, too: the follower keeps no numbers.
                plain.eligible = follower.eligible;
            }
            if matches!(message[0], b'8' | b'5') {
                let symbol: Text<8> = Text(message[10..18].try_into().unwrap());
                if message[1] & 1 == 0 { open.insert(symbol) } else { open.remove(&symbol) };
            }
            let symbol = message.get(10..18).map(|symbol| Text(symbol.try_into().unwrap()));
            settled += u64::from(!symbol.is_some_and(|symbol| open.contains(&symbol)));
            hold(&day, &follower, &plain);
        }
        prop_assert_eq!(follower.settled, settled);
        day.begin(&mut follower);
        prop_assert!(follower.symbols.values().all(BTreeMap::is_empty));
    }

    #[test]
    fn messages_there_and_back_are_the_same_and_all_of_their_bytes_are_fields(seed: u64) {
        let mut random = Random::new(seed);
        for (code, length) in Message::LENGTHS {
            let mut bytes: Vec<u8> = (0..*length).map(|_| random.bits() as u8).collect();
            bytes[0] = *code;
            let message = Message::decode(&bytes).expect("any bytes are values");
            prop_assert_eq!((encoded(&message), message.code()), (bytes.clone(), *code));
            // Lengthened at its end, it is read as before; shortened, it is none.
            prop_assert_eq!(Message::decode(&[&bytes[..], b"more"].concat()), Ok(message));
            let short = Unreadable::Short { code: *code, length: length - 1 };
            prop_assert_eq!(Message::decode(&bytes[..length - 1]), Err(short));
        }
        prop_assert_eq!(Message::decode(b"?"), Err(Unreadable::Type(b'?')));
    }

    #[test]
    fn lines_that_pack_differently_lose_and_repeat_make_the_lossless_book(seed: u64) {
        let mut random = Random::new(seed);
        let all = session(seed, 1_200);
        let mut frames: Vec<(u64, Vec<u8>)> = Vec::new();
        for line in 0..2u64 {
            let (mut next, mut at) = (0, 1_000 + line * 40_000);
            while next < all.len() {
                let end = (next + 1 + random.below(7) as usize).min(all.len());
                let packet = segment(9, next as u64 + 1, next as i64, at as i64, &all[next..end]);
                // Each line brings what the other loses.
                let is_its_turn = next / 100 == (end - 1) / 100 && (next / 100) % 2 == line as usize;
                if !is_its_turn || !random.chance(0.2) {
                    frames.push((at + random.below(30_000), packet.clone()));
                }
                if random.chance(0.05) {
                    frames.push((at + random.below(1_000_000), packet));
                }
                (next, at) = (end, at + 10_000);
            }
        }
        frames.sort_by_key(|frame| frame.0);
        let (mut tp, mut applied, mut plain) = (TpReceiver::new(Limits::default()), Applied::default(), Plain::default());
        for (at, frame) in &frames {
            while let Some(due) = tp.timer().filter(|due| due <= at) {
                tp.on_timer(due, &mut applied);
            }
            tp.receive(0, frame, *at, &mut applied);
        }
        prop_assert_eq!(&applied.numbers, &(1..=all.len() as u64).collect::<Vec<_>>());
        prop_assert_eq!(applied.changes.len(), 1, "{:?}", applied.changes);
        for message in &all {
            plain.apply(message);
        }
        plain.eligible = applied.follower.eligible;
        hold(&applied.day, &applied.follower, &plain);
    }
}

fn level(price: i64, size: u32) -> Vec<u8> {
    let level = BuyLevel { flags: EVENT_COMPLETE, time: 1, symbol: symbol(0), size, price };
    encoded(&Message::BuyLevel(level))
}

fn prices(applied: &Applied) -> Vec<i64> {
    let book = applied.day.number(symbol(0)).and_then(|number| applied.day.book(number));
    book.into_iter().flat_map(|book| book.levels(Side::Bid)).map(|level| level.price).collect()
}

fn named(session: u32) -> Change {
    Change::Session { name: session.to_string(), next: 1 }
}

#[test]
fn a_late_copy_of_the_first_segment_begins_nothing_and_a_later_one_with_number_1_does() {
    let (mut tp, mut applied) = (TpReceiver::new(Limits::default()), Applied::default());
    let first = segment(5, 1, 0, 1_000_000_000, &[level(1, 1), level(2, 1)]);
    let beat = |first, offset, sent: i64| segment(5, first, offset, sent * 1_000_000, &[]);
    for (now, bytes) in
        [beat(1, 0, 900), first.clone(), segment(5, 3, 60, 2_000_000_000, &[level(3, 1)]), first, beat(4, 90, 3_000)]
            .into_iter()
            .enumerate()
    {
        tp.receive(0, &bytes, now as u64, &mut applied);
    }
    assert_eq!((prices(&applied), &applied.changes[..]), (vec![3, 2, 1], &[named(5)][..]));
    // The heartbeat ahead of everything, sent when nothing newer had been: it begins anew. A copy of it does not.
    tp.receive(0, &beat(1, 0, 4_000), 10, &mut applied);
    tp.receive(0, &segment(5, 1, 0, 5_000_000_000, &[level(9, 1)]), 11, &mut applied);
    tp.receive(0, &beat(1, 0, 4_000), 12, &mut applied);
    assert_eq!((prices(&applied), tp.restarts(), tp.counts().gaps), (vec![9], 1, 0));
    assert_eq!(applied.changes, [named(5), named(5)]);
}

/// The other line is behind: it brings segments of the numbers before after they have begun again.
#[test]
fn what_was_sent_before_numbers_began_again_is_not_of_the_new_ones() {
    let (mut tp, mut applied) = (TpReceiver::new(Limits::default()), Applied::default());
    let old = [(1, 1_000, level(1, 1)), (2, 2_000, level(2, 1)), (3, 9_990, level(3, 1))];
    let old = old.map(|(first, sent, level)| segment(5, first, first as i64 * 30 - 30, sent * 1_000_000, &[level]));
    let new = [(1, 10_000, level(7, 1)), (2, 10_010, level(8, 1))];
    let new = new.map(|(first, sent, level)| segment(5, first, first as i64 * 30 - 30, sent * 1_000_000, &[level]));
    let unseen = segment(5, 4, 90, 9_995_000_000, &[level(4, 1)]);
    for (line, bytes) in [(0, &old[0]), (1, &old[0]), (0, &old[1]), (0, &old[2]), (0, &new[0])] {
        tp.receive(line, bytes, 1, &mut applied);
    }
    for (line, bytes) in [(1, &old[1]), (1, &old[2]), (1, &unseen), (1, &new[0]), (0, &new[1]), (1, &new[1])] {
        tp.receive(line, bytes, 2, &mut applied);
    }
    assert_eq!((prices(&applied), tp.restarts()), (vec![8, 7], 1));
    assert_eq!((tp.bad().of_an_old_session, tp.counts().gaps, tp.is_in_doubt()), (3, 0, false));
}

/// No line brought the segment with which numbers began again, and a message was missing before: those of the new numbers do not make up for it.
#[test]
fn numbers_that_are_sent_long_after_they_were_told_of_have_begun_again() {
    let (mut tp, mut applied) = (TpReceiver::new(Limits::default()), Applied::default());
    tp.receive(0, &segment(5, 1, 0, 1_000_000_000, &[level(1, 1)]), 0, &mut applied);
    tp.receive(0, &segment(5, 4, 90, 2_000_000_000, &[level(4, 1), level(5, 1)]), 1, &mut applied);
    // A copy of what is missing, and no more than a second late.
    tp.receive(1, &segment(5, 2, 30, 2_900_000_000, &[level(2, 1)]), 2, &mut applied);
    assert_eq!((prices(&applied), tp.restarts()), (vec![2, 1], 0));
    tp.receive(0, &segment(5, 3, 60, 4_000_000_000, &[level(9, 1)]), 3, &mut applied);
    assert_eq!((prices(&applied), tp.restarts()), (vec![], 1));
    while let Some(at) = tp.timer() {
        tp.on_timer(at, &mut applied);
    }
    assert_eq!((prices(&applied), applied.changes.last()), (vec![9], Some(&Change::Lost { missing: 1..3 })));
}

#[test]
fn segments_that_overlap_are_used_in_part_and_gaps_are_told_filled_and_given_up() {
    let limits = Limits { attempts: 1, ..Limits::default() };
    let (mut tp, mut applied) = (TpReceiver::new(limits), Applied::default());
    tp.receive(0, &segment(5, 1, 0, 1, &[level(1, 1), level(2, 1)]), 0, &mut applied);
    tp.receive(0, &segment(5, 2, 0, 2, &[level(2, 1), level(3, 1)]), 1, &mut applied);
    assert_eq!(prices(&applied), [3, 2, 1]);
    // Number 4 is missing; a heartbeat alone tells of 6, too.
    tp.receive(0, &segment(5, 5, 0, 3, &[level(5, 1)]), 2, &mut applied);
    let told = tp.timer().expect("a hole");
    tp.on_timer(told, &mut applied);
    assert_eq!(tp.poll_request(), Some(4..5));
    assert!(tp.is_in_doubt());
    tp.receive(0, &segment(5, 4, 0, 3, &[level(4, 1)]), told + 1, &mut applied);
    assert_eq!(applied.changes[1..], [Change::Gap { missing: 4..5 }, Change::Repaired]);
    assert_eq!(prices(&applied), [5, 4, 3, 2, 1]);
    tp.receive(0, &segment(5, 7, 0, 4, &[]), told + 2, &mut applied);
    while let Some(at) = tp.timer() {
        tp.on_timer(at, &mut applied);
    }
    assert_eq!(applied.changes[3..], [Change::Gap { missing: 6..7 }, Change::Lost { missing: 6..7 }]);
    // A new session makes up for it; what comes of the old one is late.
    tp.receive(0, &segment(6, 4, 0, 5, &[level(8, 1)]), told * 100, &mut applied);
    tp.receive(0, &segment(5, 8, 0, 5, &[level(7, 1)]), told * 100, &mut applied);
    assert_eq!((applied.changes.last(), prices(&applied)), (Some(&named(6)), vec![]));
    assert_eq!(tp.bad().of_an_old_session, 1);
    while let Some(at) = tp.timer() {
        tp.on_timer(at, &mut applied);
    }
    assert_eq!((prices(&applied), applied.changes.last()), (vec![8], Some(&Change::Lost { missing: 1..4 })));
}

#[test]
fn what_is_cut_foreign_or_no_segment_is_counted_and_stops_nothing() {
    let (mut tp, mut applied) = (TpReceiver::new(Limits::default()), Applied::default());
    let whole = segment(5, 1, 0, 1, &[level(1, 1), level(2, 1)]);
    tp.receive(0, &whole[..whole.len() - 1], 0, &mut applied);
    assert_eq!((prices(&applied), tp.bad().cut), (vec![1], 1));
    let mut other = segment(5, 2, 0, 2, &[level(3, 1)]);
    other[4] = 2;
    tp.receive(0, &other, 1, &mut applied);
    tp.receive(0, &whole[..39], 2, &mut applied);
    let mut version = whole.clone();
    version[0] = 2;
    tp.receive(0, &version, 3, &mut applied);
    assert_eq!((prices(&applied), tp.bad().foreign, tp.bad().header), (vec![1], 1, 2));
    tp.receive(0, &whole, 4, &mut applied);
    assert_eq!(prices(&applied), [2, 1]);
}

#[test]
fn prices_that_no_share_has_are_taken_as_told_and_counted() {
    let mut day = IexDay::new();
    let trade = TradeReport { flags: 0, time: 2, symbol: symbol(0), size: 5, price: 0, id: 1 };
    let all = [level(100, 5), level(0, 5), level(-100, 5), level(-100, 0), encoded(&Message::TradeReport(trade))];
    for message in all {
        day.apply(&message, &mut ()).expect("a message");
    }
    let book = day.number(symbol(0)).expect("a book");
    let prices: Vec<i64> = day.books().levels(book, Side::Bid).map(|level| level.price).collect();
    assert_eq!((prices, day.bad().price), (vec![100, 0], 3));
}
