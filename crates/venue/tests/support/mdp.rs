//! MDP 3.0 by a schema of our own: a naive exchange whose books are lists, and packets that are written by hand.

use std::collections::BTreeMap;

use super::day::Random;

pub(crate) const SCHEMA: &str = include_str!("mdp.xml");
pub(crate) const DEPTH: usize = 5;
pub(crate) const SECURITIES: [i32; 3] = [101, 202, -303];
pub(crate) const TICK: i64 = 250_000_000;
pub(crate) const NULL_PRICE: i64 = i64::MAX;
pub(crate) const MS: u64 = 1_000_000;

/// An order as the exchange has it: number, priority, price, size.
pub(crate) type Order = (u64, u64, i64, u32);

#[derive(Clone, Default)]
pub(crate) struct Security {
    /// Bids and asks, in no order.
    pub(crate) sides: [Vec<Order>; 2],
    /// Levels a side as they were told, the best first.
    pub(crate) told: [Vec<(i64, u32, u32)>; 2],
    pub(crate) implied: [Vec<(i64, u32)>; 2],
    pub(crate) report: u32,
}

impl Security {
    pub(crate) fn levels(&self, side: usize) -> Vec<(i64, u32, u32)> {
        let mut levels: BTreeMap<i64, (u32, u32)> = BTreeMap::new();
        for (_, _, price, size) in &self.sides[side] {
            let level = levels.entry(if side == 0 { -price } else { *price }).or_default();
            *level = (level.0 + size, level.1 + 1);
        }
        let price = |key: i64| if side == 0 { -key } else { key };
        levels.into_iter().take(DEPTH).map(|(key, (size, orders))| (price(key), size, orders)).collect()
    }

    /// By priority at each price, the best price first.
    pub(crate) fn queue(&self, side: usize) -> Vec<Order> {
        let mut all = self.sides[side].clone();
        all.sort_by_key(|order| (if side == 0 { -order.2 } else { order.2 }, order.1));
        all
    }
}

/// The exchange, with what it has sent.
pub(crate) struct Exchange {
    pub(crate) random: Random,
    pub(crate) securities: Vec<Security>,
    pub(crate) next_order: u64,
    pub(crate) next_priority: u64,
    pub(crate) packets: Vec<Vec<u8>>,
    /// Behind each packet: the securities. Within an event they are ahead of what has been told.
    pub(crate) states: Vec<Vec<Security>>,
    /// Whether the packet ends its event.
    pub(crate) ends: Vec<bool>,
}

/// A price of seven decimals on the wire, as the incremental book has it.
pub(crate) fn coarse(price: i64) -> i64 {
    assert_eq!(price % 100, 0);
    price / 100
}

pub(crate) fn message(template: u16, root: &[u8], groups: &[u8]) -> Vec<u8> {
    let size = 10 + root.len() + groups.len();
    let head = [size as u16, root.len() as u16, template, 7, 3].map(u16::to_le_bytes).concat();
    [&head, root, groups].concat()
}

pub(crate) fn group(entries: &[Vec<u8>], is_long: bool, block: usize) -> Vec<u8> {
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
pub(crate) fn block(length: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0xEE; length + 3];
    for (at, field) in fields {
        bytes[*at..at + field.len()].copy_from_slice(field);
    }
    bytes
}

pub(crate) fn root(time: u64, is_last: bool) -> Vec<u8> {
    block(9, &[(0, &time.to_le_bytes()), (8, &[if is_last { 0x84 } else { 0x04 }])])
}

pub(crate) fn packet(sequence: u32, sent: u64, messages: &[Vec<u8>]) -> Vec<u8> {
    [&sequence.to_le_bytes()[..], &sent.to_le_bytes(), &messages.concat()].concat()
}

/// What a security's book by price did, as its exchange tells it: action, level from 1, price, size, orders.
pub(crate) fn differences(
    old: &[(i64, u32, u32)],
    new: &[(i64, u32, u32)],
    side: usize,
) -> Vec<(u8, u8, i64, u32, u32)> {
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
    pub(crate) fn new(seed: u64) -> Self {
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

    pub(crate) fn send(&mut self, messages: &[Vec<u8>], is_end: bool) {
        self.ends.push(is_end);
        let sequence = self.packets.len() as u32 + 1;
        self.packets.push(packet(sequence, u64::from(sequence), messages));
        self.states.push(self.securities.clone());
    }

    /// One match or order entry: its messages in one packet or in several, the last with the end of the event.
    pub(crate) fn event(&mut self) {
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

    pub(crate) fn report(&mut self, at: usize) -> u32 {
        self.securities[at].report += 1;
        self.securities[at].report
    }

    /// What happened to an order: side, action, and the order as it is, or was.
    pub(crate) fn add(&mut self, at: usize) -> (usize, u8, Order) {
        let side = self.random.below(2) as usize;
        // Around zero: prices may be negative.
        let away = self.random.below(12) as i64 * TICK;
        let price = if side == 0 { -away } else { TICK + away };
        let order = (self.next_order, self.next_priority, price, 1 + self.random.below(50) as u32);
        (self.next_order, self.next_priority) = (self.next_order + 1, self.next_priority + 1);
        self.securities[at].sides[side].push(order);
        (side, 0, order)
    }

    pub(crate) fn pick(&mut self, at: usize) -> Option<(usize, usize)> {
        let side = self.random.below(2) as usize;
        let count = self.securities[at].sides[side].len() as u64;
        (count > 0).then(|| (side, self.random.below(count) as usize))
    }

    pub(crate) fn change(&mut self, at: usize) -> Option<(usize, u8, Order)> {
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

    pub(crate) fn delete(&mut self, at: usize) -> Option<(usize, u8, Order)> {
        let (side, n) = self.pick(at)?;
        Some((side, 2, self.securities[at].sides[side].swap_remove(n)))
    }

    pub(crate) fn trade(&mut self, at: usize) -> Option<(u16, Vec<u8>)> {
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
    pub(crate) fn book(&mut self, at: usize, before: &Security, orders: &[(usize, u8, Order)]) -> Vec<(u16, Vec<u8>)> {
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
    pub(crate) fn implied(&mut self, at: usize) -> Vec<u8> {
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
    pub(crate) fn snapshots(&mut self, processed: usize) -> Vec<Vec<u8>> {
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

    pub(crate) fn definitions() -> Vec<Vec<u8>> {
        let total = (SECURITIES.len() as u32).to_le_bytes();
        let of = |(n, security): (usize, &i32)| {
            let mut symbol = format!("ZV{n}").into_bytes();
            symbol.resize(20, 0);
            let root =
                block(35, &[(0, &[0x80]), (1, &total), (5, b"ZV    "), (11, &symbol), (31, &security.to_le_bytes())]);
            let feed = |kind: &[u8], depth: u8| block(4, &[(0, kind), (3, &[depth])]);
            let feeds = group(&[feed(b"GBX", DEPTH as u8), feed(b"GBI", 2)], false, 4);
            packet(n as u32 + 1, 1, &[message(54, &root, &feeds)])
        };
        SECURITIES.iter().enumerate().map(of).collect()
    }
}
