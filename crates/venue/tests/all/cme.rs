//! MDP 3.0 by a schema of our own: a naive exchange whose books are lists, packets written by hand, lines that lose, snapshots that come in between.

use std::collections::BTreeMap;

use market::{BookId, Event, Events, Level, Side};
use proptest::prelude::*;
use venue::cme::{CmeChannel, Definition, Notice, Part, Schema, SchemaError};
use venue::sequence::{Change, Limits};
use venue::{Market, Trade};

use crate::day::Random;

const SCHEMA: &str = include_str!("../support/mdp.xml");
const DEPTH: usize = 5;
const SECURITIES: [i32; 3] = [101, 202, -303];
const TICK: i64 = 250_000_000;
const NULL_PRICE: i64 = i64::MAX;
const MS: u64 = 1_000_000;

/// An order as the exchange has it: number, priority, price, size.
type Order = (u64, u64, i64, u32);

#[derive(Clone, Default)]
struct Security {
    /// Bids and asks, in no order.
    sides: [Vec<Order>; 2],
    /// Levels a side as they were told, the best first.
    told: [Vec<(i64, u32, u32)>; 2],
    implied: [Vec<(i64, u32)>; 2],
    report: u32,
}

impl Security {
    fn levels(&self, side: usize) -> Vec<(i64, u32, u32)> {
        let mut levels: BTreeMap<i64, (u32, u32)> = BTreeMap::new();
        for (_, _, price, size) in &self.sides[side] {
            let level = levels.entry(if side == 0 { -price } else { *price }).or_default();
            *level = (level.0 + size, level.1 + 1);
        }
        let price = |key: i64| if side == 0 { -key } else { key };
        levels.into_iter().take(DEPTH).map(|(key, (size, orders))| (price(key), size, orders)).collect()
    }

    /// By priority at each price, the best price first.
    fn queue(&self, side: usize) -> Vec<Order> {
        let mut all = self.sides[side].clone();
        all.sort_by_key(|order| (if side == 0 { -order.2 } else { order.2 }, order.1));
        all
    }
}

/// The exchange, with what it has sent.
struct Exchange {
    random: Random,
    securities: Vec<Security>,
    next_order: u64,
    next_priority: u64,
    packets: Vec<Vec<u8>>,
    /// Behind each packet: the securities. Within an event they are ahead of what has been told.
    states: Vec<Vec<Security>>,
    /// Whether the packet ends its event.
    ends: Vec<bool>,
}

/// A price of seven decimals on the wire, as the incremental book has it.
fn coarse(price: i64) -> i64 {
    assert_eq!(price % 100, 0);
    price / 100
}

fn message(template: u16, root: &[u8], groups: &[u8]) -> Vec<u8> {
    let size = 10 + root.len() + groups.len();
    let head = [size as u16, root.len() as u16, template, 7, 3].map(u16::to_le_bytes).concat();
    [&head, root, groups].concat()
}

fn group(entries: &[Vec<u8>], is_long: bool, block: usize) -> Vec<u8> {
    let length = entries.first().map_or(block, Vec::len) as u16;
    let mut out = length.to_le_bytes().to_vec();
    out.extend(std::iter::repeat_n(0xEE, if is_long { 5 } else { 0 }));
    out.push(entries.len() as u8);
    for entry in entries {
        out.extend(entry);
    }
    out
}

/// Fields at their offsets, in a block that is longer than the schema says, as that of a later version.
fn block(length: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0xEE; length + 3];
    for (at, field) in fields {
        bytes[*at..at + field.len()].copy_from_slice(field);
    }
    bytes
}

fn root(time: u64, is_last: bool) -> Vec<u8> {
    block(9, &[(0, &time.to_le_bytes()), (8, &[if is_last { 0x84 } else { 0x04 }])])
}

fn packet(sequence: u32, sent: u64, messages: &[Vec<u8>]) -> Vec<u8> {
    [&sequence.to_le_bytes()[..], &sent.to_le_bytes(), &messages.concat()].concat()
}

/// What a security's book by price did, as its exchange tells it: action, level from 1, price, size, orders.
fn differences(old: &[(i64, u32, u32)], new: &[(i64, u32, u32)], side: usize) -> Vec<(u8, u8, i64, u32, u32)> {
    let is_better = |a: i64, b: i64| if side == 0 { a > b } else { a < b };
    let (mut now, mut found, mut at) = (old.to_vec(), Vec::new(), 0);
    while at < now.len() || at < new.len() {
        match (now.get(at).copied(), new.get(at).copied()) {
            (Some(old), Some(new)) if old.0 == new.0 => {
                if old != new {
                    found.push((1, at as u8 + 1, new.0, new.1, new.2));
                    now[at] = new;
                }
                at += 1;
            }
            (Some(old), new) if new.is_none_or(|new| is_better(old.0, new.0)) => {
                found.push((2, at as u8 + 1, old.0, 0, 0));
                now.remove(at);
            }
            (_, Some(new)) => {
                found.push((0, at as u8 + 1, new.0, new.1, new.2));
                now.insert(at, new);
                now.truncate(DEPTH);
                at += 1;
            }
            _ => break,
        }
    }
    found
}

impl Exchange {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            securities: vec![Security::default(); SECURITIES.len()],
            next_order: 1,
            next_priority: 1_000,
            packets: Vec::new(),
            states: Vec::new(),
            ends: Vec::new(),
        }
    }

    fn send(&mut self, messages: &[Vec<u8>], is_end: bool) {
        self.ends.push(is_end);
        let sequence = self.packets.len() as u32 + 1;
        self.packets.push(packet(sequence, u64::from(sequence), messages));
        self.states.push(self.securities.clone());
    }

    /// One match or order entry: its messages in one packet or in several, the last with the end of the event.
    fn event(&mut self) {
        let at = self.random.below(SECURITIES.len() as u64) as usize;
        let time = self.packets.len() as u64 * 1_000;
        let mut messages: Vec<(u16, Vec<u8>)> = Vec::new();
        let before = self.securities[at].clone();
        let mut orders = Vec::new();
        match self.random.below(10) {
            0..=4 => orders.push(self.add(at)),
            5 | 6 => orders.extend(self.change(at)),
            7 | 8 => orders.extend(self.delete(at)),
            _ => {
                let trade = self.trade(at);
                messages.extend(trade);
                orders.extend(self.delete(at));
            }
        }
        messages.extend(self.book(at, &before, &orders));
        if self.random.chance(0.1) {
            messages.push((46, self.implied(at)));
        }
        if self.random.chance(0.1) {
            let report = self.report(at);
            let entry =
                block(13, &[(0, &7i32.to_le_bytes()), (4, &SECURITIES[at].to_le_bytes()), (8, &report.to_le_bytes())]);
            messages.push((37, group(&[entry], false, 16)));
        }
        let count = messages.len();
        let mut pending = Vec::new();
        for (n, (template, groups)) in messages.into_iter().enumerate() {
            pending.push(message(template, &root(time, n + 1 == count), &groups));
            // An event may span packets; between two it is not to be published.
            if n + 1 < count && self.random.chance(0.3) {
                let some = std::mem::take(&mut pending);
                self.send(&some, false);
            }
        }
        self.send(&pending, true);
    }

    fn report(&mut self, at: usize) -> u32 {
        self.securities[at].report += 1;
        self.securities[at].report
    }

    /// What happened to an order: side, action, and the order as it is, or was.
    fn add(&mut self, at: usize) -> (usize, u8, Order) {
        let side = self.random.below(2) as usize;
        // Around zero: prices may be negative.
        let away = self.random.below(12) as i64 * TICK;
        let price = if side == 0 { -away } else { TICK + away };
        let order = (self.next_order, self.next_priority, price, 1 + self.random.below(50) as u32);
        (self.next_order, self.next_priority) = (self.next_order + 1, self.next_priority + 1);
        self.securities[at].sides[side].push(order);
        (side, 0, order)
    }

    fn pick(&mut self, at: usize) -> Option<(usize, usize)> {
        let side = self.random.below(2) as usize;
        let count = self.securities[at].sides[side].len() as u64;
        (count > 0).then(|| (side, self.random.below(count) as usize))
    }

    fn change(&mut self, at: usize) -> Option<(usize, u8, Order)> {
        let (side, n) = self.pick(at)?;
        let grows = self.random.chance(0.5);
        let priority = self.next_priority;
        let order = &mut self.securities[at].sides[side][n];
        if grows {
            // A larger order loses its place.
            (order.3, order.1) = (order.3 + 5, priority);
            self.next_priority += 1;
        } else {
            order.3 = (order.3 / 2).max(1);
        }
        Some((side, 1, *order))
    }

    fn delete(&mut self, at: usize) -> Option<(usize, u8, Order)> {
        let (side, n) = self.pick(at)?;
        Some((side, 2, self.securities[at].sides[side].swap_remove(n)))
    }

    fn trade(&mut self, at: usize) -> Option<(u16, Vec<u8>)> {
        let (side, n) = self.pick(at)?;
        let (order, _, price, size) = self.securities[at].sides[side][n];
        let report = self.report(at);
        let entry = block(
            30,
            &[
                (0, &price.to_le_bytes()),
                (8, &(size as i32).to_le_bytes()),
                (12, &SECURITIES[at].to_le_bytes()),
                (16, &report.to_le_bytes()),
                (24, &[2 - side as u8, 0]),
                (26, &report.to_le_bytes()),
            ],
        );
        let filled = block(12, &[(0, &order.to_le_bytes()), (8, &(size as i32).to_le_bytes())]);
        Some((48, [group(&[entry], false, 32), group(&[filled], true, 16)].concat()))
    }

    /// What the book did: levels with their orders, and orders of no visible level by themselves.
    fn book(&mut self, at: usize, before: &Security, orders: &[(usize, u8, Order)]) -> Vec<(u16, Vec<u8>)> {
        let mut entries = Vec::new();
        let mut places: BTreeMap<(usize, i64), u8> = BTreeMap::new();
        for side in 0..2 {
            let (old, new) = (before.told[side].clone(), self.securities[at].levels(side));
            for (action, level, price, size, count) in differences(&old, &new, side) {
                let report = self.report(at);
                entries.push(block(
                    27,
                    &[
                        (0, &coarse(price).to_le_bytes()),
                        (8, &(size as i32).to_le_bytes()),
                        (12, &SECURITIES[at].to_le_bytes()),
                        (16, &report.to_le_bytes()),
                        (20, &(count as i32).to_le_bytes()),
                        (24, &[level, action, b'0' + side as u8]),
                    ],
                ));
                places.insert((side, price), entries.len() as u8);
            }
            self.securities[at].told[side] = new;
        }
        let (mut within, mut alone) = (Vec::new(), Vec::new());
        for (side, action, (order, priority, price, size)) in orders {
            let (order, priority, size) = (order.to_le_bytes(), priority.to_le_bytes(), (*size as i32).to_le_bytes());
            match places.get(&(*side, *price)) {
                Some(place) => {
                    within.push(block(22, &[(0, &order), (8, &priority), (16, &size), (20, &[*place, *action])]));
                }
                None => alone.push(block(
                    34,
                    &[
                        (0, &order),
                        (8, &priority),
                        (16, &coarse(*price).to_le_bytes()),
                        (24, &size),
                        (28, &SECURITIES[at].to_le_bytes()),
                        (32, &[*action, b'0' + *side as u8]),
                    ],
                )),
            }
        }
        let mut messages = Vec::new();
        if !entries.is_empty() {
            messages.push((46, [group(&entries, false, 32), group(&within, true, 24)].concat()));
        }
        if !alone.is_empty() || messages.is_empty() {
            messages.push((47, group(&alone, false, 40)));
        }
        messages
    }

    /// One implied level a side, new or another one.
    fn implied(&mut self, at: usize) -> Vec<u8> {
        let side = self.random.below(2) as usize;
        let level = (self.random.below(9) as i64 * TICK, 1 + self.random.below(9) as u32);
        let action = if self.securities[at].implied[side].is_empty() { 0 } else { 5 };
        self.securities[at].implied[side] = vec![level];
        let report = self.report(at);
        let entry = block(
            27,
            &[
                (0, &coarse(level.0).to_le_bytes()),
                (8, &(level.1 as i32).to_le_bytes()),
                (12, &SECURITIES[at].to_le_bytes()),
                (16, &report.to_le_bytes()),
                (20, &i32::MAX.to_le_bytes()),
                (24, &[1, action, b'E' + side as u8]),
            ],
        );
        [group(&[entry], false, 32), group(&[], true, 24)].concat()
    }

    /// Packets of both recovery feeds behind so many incremental packets.
    fn snapshots(&mut self, processed: usize) -> Vec<Vec<u8>> {
        let processed = (1..=processed).rev().find(|n| self.ends[n - 1]).expect("the end of an event");
        let mut packets = Vec::new();
        let state = self.states[processed - 1].clone();
        let count = (SECURITIES.len() as u32).to_le_bytes();
        let done = (processed as u32).to_le_bytes();
        for (security, now) in SECURITIES.iter().zip(&state) {
            let mut entries = Vec::new();
            for side in 0..2 {
                let outright = now.told[side].iter().map(|(price, size, orders)| (*price, *size, *orders as i32, b'0'));
                let implied = now.implied[side].iter().map(|(price, size)| (*price, *size, i32::MAX, b'E'));
                for (all, base) in [(outright.collect::<Vec<_>>(), b'0'), (implied.collect(), b'E')] {
                    for (n, (price, size, orders, _)) in all.into_iter().enumerate() {
                        entries.push(block(
                            21,
                            &[
                                (0, &coarse(price).to_le_bytes()),
                                (8, &(size as i32).to_le_bytes()),
                                (12, &orders.to_le_bytes()),
                                (16, &[n as u8 + 1]),
                                (20, &[base + side as u8]),
                            ],
                        ));
                    }
                }
            }
            // An entry without a value is no level.
            entries.push(block(21, &[(0, &NULL_PRICE.to_le_bytes()), (20, b"0")]));
            let root =
                block(24, &[(0, &done), (4, &count), (8, &security.to_le_bytes()), (12, &now.report.to_le_bytes())]);
            packets.push(packet(packets.len() as u32 + 1, 1, &[message(52, &root, &group(&entries, false, 22))]));
            let mut orders: Vec<(usize, Order)> =
                (0..2).flat_map(|side| now.sides[side].iter().map(move |order| (side, *order))).collect();
            for n in (1..orders.len()).rev() {
                orders.swap(n, self.random.below(n as u64 + 1) as usize);
            }
            let chunks: Vec<_> = orders.chunks(7).map(<[_]>::to_vec).collect();
            let total = chunks.len().max(1) as u32;
            for n in 0..total {
                let entries: Vec<Vec<u8>> = (chunks.get(n as usize).into_iter().flatten())
                    .map(|(side, (order, priority, price, size))| {
                        block(
                            29,
                            &[
                                (0, &order.to_le_bytes()),
                                (8, &priority.to_le_bytes()),
                                (16, &price.to_le_bytes()),
                                (24, &(*size as i32).to_le_bytes()),
                                (28, &[b'0' + *side as u8]),
                            ],
                        )
                    })
                    .collect();
                let fields: [(usize, &[u8]); 5] = [
                    (0, &done),
                    (4, &count),
                    (8, &security.to_le_bytes()),
                    (12, &total.to_le_bytes()),
                    (16, &(n + 1).to_le_bytes()),
                ];
                let body = message(53, &block(28, &fields), &group(&entries, false, 29));
                packets.push(packet(packets.len() as u32 + 1, 1, &[body]));
            }
        }
        packets
    }

    fn definitions() -> Vec<Vec<u8>> {
        let of = |(n, security): (usize, &i32)| {
            let mut symbol = format!("ZV{n}").into_bytes();
            symbol.resize(20, 0);
            let root = block(35, &[(0, &[0x80]), (5, b"ZV    "), (11, &symbol), (31, &security.to_le_bytes())]);
            let feed = |kind: &[u8], depth: u8| block(4, &[(0, kind), (3, &[depth])]);
            let feeds = group(&[feed(b"GBX", DEPTH as u8), feed(b"GBI", 2)], false, 4);
            packet(n as u32 + 1, 1, &[message(54, &root, &feeds)])
        };
        SECURITIES.iter().enumerate().map(of).collect()
    }
}

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
            let levels = |part| -> Vec<Level> { channel.levels(*security, part, side).to_vec() };
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
    let definition = Definition { security: 202, symbol: "ZV1".into(), group: "ZV".into() };
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
