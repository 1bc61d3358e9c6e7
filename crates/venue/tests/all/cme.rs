//! MDP 3.0 by a schema of our own: a naive exchange whose books are lists, packets written by hand, lines that lose, snapshots that come in between.

use std::collections::BTreeMap;

use market::{BookId, Event, Events, Level, Side};
use proptest::prelude::*;
use venue::cme::{CmeChannel, Definition, Notice, Part, Schema, SchemaError};
use venue::sequence::{Change, Limits};
use venue::{Market, Trade};

use crate::day::Random;
use crate::mdp::{Exchange, MS, Order, SCHEMA, SECURITIES, Security, block, message, packet, root};

/// Keeps what is told, and holds it to its order.
#[derive(Default)]
struct Seen {
    notices: Vec<(Option<BookId>, Notice)>,
    changes: Vec<Change>,
    trades: Vec<Trade>,
    open: BTreeMap<BookId, bool>,
    events: u64,
}

impl Events for Seen {
    fn event(&mut self, book: BookId, event: &Event) {
        let is_within = self.open.get(&book).copied().unwrap_or(false);
        assert!(is_within || matches!(event, Event::Cleared { .. }), "{book:?}: {event:?} outside of an event");
        self.events += 1;
    }
}

impl Market<Notice> for Seen {
    fn begin(&mut self, book: Option<BookId>, _time: u64) {
        self.open.insert(book.expect("a book"), true);
    }
    fn end(&mut self, book: Option<BookId>) {
        self.open.insert(book.expect("a book"), false);
    }
    fn trade(&mut self, _book: BookId, trade: &Trade) {
        self.trades.push(*trade);
    }
    fn notice(&mut self, book: Option<BookId>, notice: &Notice) {
        self.notices.push((book, notice.clone()));
    }
    fn change(&mut self, change: &Change) {
        self.changes.push(change.clone());
    }
}

fn channel() -> CmeChannel {
    let limits = Limits { attempts: 2, first_retry: 5 * MS, ..Limits::default() };
    CmeChannel::new(Schema::read(SCHEMA).expect("a schema"), limits)
}

/// The books are those of the exchange, and good.
fn holds(channel: &CmeChannel, state: &[Security], label: &str) {
    for security in SECURITIES {
        assert!([Part::Price, Part::Orders].iter().all(|part| channel.is_good(security, *part)), "{label}: {security}");
    }
    what_is_good_holds(channel, state, label);
}

/// The books that are good are those of the exchange.
fn what_is_good_holds(channel: &CmeChannel, state: &[Security], label: &str) {
    for (security, expected) in SECURITIES.iter().zip(state) {
        let is_good = |part| channel.is_good(*security, part);
        for (n, side) in Side::BOTH.into_iter().enumerate() {
            let levels = |part| -> Vec<Level> { channel.levels(*security, part, side).collect() };
            let plain = |(price, size, orders): &(i64, u32, u32)| Level {
                price: *price,
                size: u64::from(*size),
                orders: *orders,
            };
            let told: Vec<Level> = expected.told[n].iter().map(plain).collect();
            assert!(!is_good(Part::Price) || levels(Part::Price) == told, "{label}: {security} {side:?}: {told:?}");
            let implied: Vec<Level> = expected.implied[n].iter().map(|(p, s)| plain(&(*p, *s, 0))).collect();
            assert!(!is_good(Part::Price) || levels(Part::Implied) == implied, "{label}: {security} {side:?} implied");
            let book = channel.book(*security, Part::Orders);
            let queue: Vec<Order> = book.map_or_else(Vec::new, |book| {
                let orders = channel.orders().orders(book, side);
                orders.map(|o| (o.reference, o.priority, o.price, o.size as u32)).collect()
            });
            assert!(
                !is_good(Part::Orders) || queue == expected.queue(n),
                "{label}: {security} {side:?} orders: {queue:?}"
            );
        }
    }
}

fn define(channel: &mut CmeChannel, seen: &mut Seen) {
    for packet in Exchange::definitions() {
        channel.recovery(&packet, seen);
    }
}

/// Packets as operations of the target of fuzzing, without their heads: incremental ones, snapshots of some of them, definitions.
pub(crate) fn operations(seed: u64) -> Vec<u8> {
    let mut exchange = Exchange::new(seed);
    (0..60).for_each(|_| exchange.event());
    let mut all = Vec::new();
    let mut act = |code: u8, packet: &[u8]| {
        if let Ok(length) = u8::try_from(packet.len() - 12) {
            all.extend_from_slice(&[code, length]);
            all.extend_from_slice(&packet[12..]);
        }
    };
    for packet in Exchange::definitions() {
        act(3, &packet);
    }
    for n in 0..exchange.packets.len() {
        act(if n % 20 == 19 { 204 } else { (n % 3) as u8 }, &exchange.packets[n].clone());
        if n % 15 == 14 {
            exchange.snapshots(n + 1).iter().for_each(|packet| act(3, packet));
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn the_books_are_the_naive_ones_behind_every_packet(seed: u64) {
        let (mut exchange, mut channel, mut seen) = (Exchange::new(seed), channel(), Seen::default());
        define(&mut channel, &mut seen);
        (0..400).for_each(|_| exchange.event());
        for (n, packet) in exchange.packets.iter().enumerate() {
            channel.incremental(0, packet, n as u64 * MS, &mut seen);
            if exchange.ends[n] {
                prop_assert!(seen.open.values().all(|is_open| !is_open), "an event that is over is open");
                holds(&channel, &exchange.states[n], &format!("packet {}", n + 1));
            }
        }
        channel.orders().check_invariants();
        prop_assert_eq!(*channel.bad(), venue::cme::Bad::default());
        let has_statistics = seen.notices.iter().any(|n| matches!(n.1, Notice::Statistic { .. }));
        prop_assert!(!seen.trades.is_empty() && has_statistics);
        prop_assert!(!seen.notices.iter().any(|n| n.1 == Notice::Suspect));
    }

    #[test]
    fn lines_that_lose_and_snapshots_make_the_naive_books(seed: u64, from in prop_oneof![Just(0usize), 50..200usize]) {
        let (mut exchange, mut channel, mut seen) = (Exchange::new(seed), channel(), Seen::default());
        (0..500).for_each(|_| exchange.event());
        define(&mut channel, &mut seen);
        let mut random = Random::new(seed ^ 0x55);
        let mut snapshots: Vec<(usize, Vec<Vec<u8>>)> = Vec::new();
        let (count, mut now, mut newest) = (exchange.packets.len(), 0, 0);
        for n in from..count {
            now += MS;
            while let Some(due) = channel.timer().filter(|due| *due <= now) {
                channel.on_timer(due, &mut seen);
                let _nobody_answers = channel.poll_request();
            }
            // Both lose some, in stretches; the last ones come.
            let is_lost = (n / 40) % 3 == 1 && random.chance(0.2) && n + 40 < count;
            for line in 0..2u8 {
                if !is_lost && !random.chance(0.02) || n + 40 >= count {
                    channel.incremental(line, &exchange.packets[n], now, &mut seen);
                }
            }
            // Of what is behind a snapshot that was newer nothing can be said here.
            let done = channel.next() as usize - 1;
            if done >= newest && done > 0 && exchange.ends[done - 1] {
                what_is_good_holds(&channel, &exchange.states[done - 1], &format!("packet {done}, seed {seed}"));
            }
            if n % 25 == 24 && channel.is_recovering() {
                let processed = n + 1 - random.below(20) as usize;
                newest = newest.max(processed);
                snapshots.push((n, exchange.snapshots(processed)));
            }
            // Snapshots come some packets later, some are lost, and one may be newer than the lines.
            if let Some((_, packets)) = snapshots.first().filter(|(at, _)| n > at + 9).cloned() {
                snapshots.remove(0);
                for packet in packets.iter().filter(|_| !random.chance(0.1)) {
                    channel.recovery(packet, &mut seen);
                }
            }
        }
        while let Some(due) = channel.timer() {
            channel.on_timer(due, &mut seen);
        }
        for back in [9, 0] {
            exchange.snapshots(count - back).iter().for_each(|packet| channel.recovery(packet, &mut seen));
        }
        prop_assert!(!channel.is_recovering());
        holds(&channel, &exchange.states[count - 1], "at the end");
        // Each book is told suspect and good in turn.
        for security in SECURITIES {
            for part in [Part::Price, Part::Orders] {
                let book = channel.book(security, part);
                let told: Vec<bool> = seen.notices.iter().filter(|n| n.0 == book).filter_map(|n| match n.1 {
                    Notice::Suspect => Some(false),
                    Notice::Good => Some(true),
                    _ => None,
                }).collect();
                prop_assert!(told.windows(2).all(|pair| pair[0] != pair[1]), "{:?} {:?}: {:?}", security, part, told);
                prop_assert!(told.last().is_none_or(|last| *last) && channel.is_good(security, part));
            }
        }
        let has_lost = seen.changes.iter().any(|change| matches!(change, Change::Lost { .. }));
        prop_assert!(has_lost && channel.line(0).packets > 0);
    }
}

#[test]
fn a_lost_packet_leaves_books_by_price_suspect_until_their_next_report_only() {
    let (mut exchange, mut channel, mut seen) = (Exchange::new(9), channel(), Seen::default());
    define(&mut channel, &mut seen);
    (0..300).for_each(|_| exchange.event());
    // A packet that is about one security.
    let is_of = |n: usize| {
        let (before, after) = (&exchange.states[n - 1], &exchange.states[n]);
        (0..3).filter(|at| before[*at].report != after[*at].report).collect::<Vec<_>>()
    };
    let lost = (100..200).find(|n| is_of(*n).len() == 1).expect("one");
    let touched = is_of(lost)[0];
    for (n, packet) in exchange.packets.iter().enumerate().filter(|(n, _)| *n != lost) {
        channel.incremental(0, packet, n as u64 * MS, &mut seen);
        while let Some(due) = channel.timer().filter(|due| *due <= (n as u64 + 1) * MS) {
            channel.on_timer(due, &mut seen);
        }
    }
    for beat in 1..30 {
        channel.on_timer((1_000 + beat * 1_000) * MS, &mut seen);
    }
    for (at, security) in SECURITIES.iter().enumerate() {
        assert_eq!(channel.is_good(*security, Part::Price), at != touched, "{security}");
        assert!(!channel.is_good(*security, Part::Orders), "orders have no numbers of reports");
    }
}

#[test]
fn a_channel_that_begins_anew_or_is_reset_has_empty_books() {
    let (mut exchange, mut channel, mut seen) = (Exchange::new(3), channel(), Seen::default());
    define(&mut channel, &mut seen);
    (0..100).for_each(|_| exchange.event());
    for packet in &exchange.packets {
        channel.incremental(0, packet, 1, &mut seen);
    }
    let next = exchange.packets.len() as u32 + 1;
    let reset = message(4, &root(1, true), &[]);
    channel.incremental(0, &packet(next, u64::from(next), &[reset]), 2, &mut seen);
    holds(&channel, &vec![Security::default(); 3], "reset");
    let mut another = Exchange::new(4);
    (0..100).for_each(|_| another.event());
    // A late copy of the first packet begins nothing.
    let copy = exchange.packets[0].clone();
    channel.incremental(1, &copy, 3, &mut seen);
    assert_eq!(seen.changes.len(), 1);
    for (n, mut packet) in another.packets.iter().cloned().enumerate() {
        packet[4..12].copy_from_slice(&(5_000_000_000 + n as u64).to_le_bytes());
        channel.incremental(0, &packet, 4, &mut seen);
    }
    assert_eq!(seen.changes.len(), 2);
    holds(&channel, another.states.last().expect("packets"), "the next week");
}

#[test]
fn definitions_states_and_what_is_not_known_are_told_and_counted() {
    let (mut channel, mut seen) = (channel(), Seen::default());
    define(&mut channel, &mut seen);
    let definition = Definition { security: 202, symbol: "ZV1".into(), group: "ZV".into(), total: Some(3) };
    assert!(seen.notices.contains(&(channel.book(202, Part::Price), Notice::Definition(definition))));
    let status = block(24, &[(8, b"ZV    "), (14, &i32::MAX.to_le_bytes()), (18, &[0x80, 17, 0])]);
    let strange = message(999, &[1, 2, 3], &[]);
    let mut bytes = packet(1, 1, &[strange, message(30, &status, &[])]);
    bytes.extend([200, 0, 1]);
    channel.incremental(0, &bytes, 0, &mut seen);
    channel.incremental(0, &bytes[..11], 0, &mut seen);
    let told = seen.notices.last().expect("a notice");
    let Notice::Status(status) = &told.1 else { panic!("{told:?}") };
    assert_eq!((told.0, status.group.as_str(), status.status, status.reason), (None, "ZV", Some(17), Some(0)));
    let bad = channel.bad();
    assert_eq!((bad.unknown_template, bad.cut, bad.header), (1, 1, 1), "{bad:?}");
}

#[test]
fn a_schema_that_cannot_be_used_says_why() {
    assert_eq!(Schema::read("<a/>").unwrap_err(), SchemaError::Empty);
    assert!(matches!(Schema::read("<a><b></a>"), Err(SchemaError::Xml(_))));
    let why = |from: &str, to: &str| Schema::read(&SCHEMA.replacen(from, to, 1)).unwrap_err().to_string();
    assert_eq!(
        why("type=\"uInt64\" offset=\"0\"", "type=\"None\" offset=\"0\""),
        "field TransactTime: there is no type None"
    );
    assert_eq!(why("offset=\"8\"", "offset=\"eight\""), "<field> needs offset");
    assert_eq!(
        why("dimensionType=\"groupSize\"", "dimensionType=\"gone\""),
        "field NoMDEntries: there is no type gone"
    );
}
