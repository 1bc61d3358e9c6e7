//! Snapshots: which can be gone on from, how they become books, and what is held for them.

use market::{BookId, Level, Rank};

use super::{
    Books, Filter, HELD_BYTES, Health, Held, MOST_CHUNKS, MOST_ORDERS, PARTS, Part, Terms, book, order_at, side_of,
};
use crate::cme::Notice;
use crate::cme::roles::{LevelEntry, OrderEntry, SnapshotRoot};
use crate::cme::schema::{Field, Message};
use crate::market_events::{Market, Trade};

impl Books {
    /// Whether a snapshot behind this packet can be gone on from: all that came after it is held, or has still to come.
    fn can_go_on(&self, processed: u64, next: u64) -> bool {
        let first_held = self.held.front().map_or(next, |held| held.sequence);
        next > 0 && processed + 1 >= self.lost_end && (processed + 1 >= next || processed + 1 >= first_held)
    }

    pub(super) fn snapshot<M: Market<Notice>>(
        &mut self,
        next: u64,
        message: &Message<'_>,
        (root, entry): (&SnapshotRoot, &LevelEntry),
        market: &mut M,
    ) {
        // Counted (`security`).
        let Some(at) = self.security(root.security.number(message.root)) else { return };
        let report = root.report.and_then(|field| field.number(message.root)).and_then(|n| u32::try_from(n).ok());
        let processed = root.processed.number(message.root).and_then(|n| u64::try_from(n).ok());
        let (Some(report), Some(processed)) = (report, processed) else {
            self.bad.value += 1;
            return;
        };
        let instrument = &mut self.instruments[at];
        if instrument.price == Health::Unknown && instrument.report == report && processed + 1 >= self.lost_end {
            // Nothing of what was lost was about it.
            instrument.price = Health::Good;
            return market.notice(Some(book(at, Part::Price)), &Notice::Good);
        }
        if instrument.price == Health::Good || !self.can_go_on(processed, next) {
            return;
        }
        let instrument = &mut self.instruments[at];
        instrument.begin(at, 0, market);
        self.clear_levels(at, market);
        for (_, bytes) in message.entries().filter(|(group, _)| *group == entry.group) {
            let number = |field: Option<Field>| field.and_then(|field| field.number(bytes));
            let Some((part, side)) = side_of(entry.kind.number(bytes).unwrap_or(0) as u8) else { continue };
            let Some(price) = entry.price.price(bytes) else { continue };
            let level = Level {
                price,
                size: number(entry.size).and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
                orders: number(entry.orders).and_then(|orders| u32::try_from(orders).ok()).unwrap_or(0),
            };
            let rank = number(entry.level).and_then(|level| usize::try_from(level).ok()?.checked_sub(1));
            let rank = rank.unwrap_or_else(|| self.levels.depth(book(at, part), side));
            let place = Rank { side, rank, depth: self.instruments[at].depths[part as usize] };
            if self.levels.insert_at(book(at, part), place, level, market).is_err() {
                self.bad.rank += 1;
            }
        }
        let instrument = &mut self.instruments[at];
        (instrument.report, instrument.in_price, instrument.price) = (report, processed, Health::Good);
        self.replay(at, Part::Price, processed, market);
    }

    pub(super) fn order_snapshot<M: Market<Notice>>(
        &mut self,
        next: u64,
        message: &Message<'_>,
        (root, entry): (&SnapshotRoot, &OrderEntry),
        market: &mut M,
    ) {
        // Counted (`security`).
        let Some(at) = self.security(root.security.number(message.root)) else { return };
        let number = |field: Option<Field>| field.and_then(|field| field.number(message.root)).unwrap_or(1);
        let processed = root.processed.number(message.root).and_then(|n| u64::try_from(n).ok());
        let (chunks, chunk) = (number(root.chunks) as u64, number(root.chunk) as u64);
        let (Some(processed), 1..=MOST_CHUNKS, true) = (processed, chunks, (1..=chunks).contains(&chunk)) else {
            self.bad.value += 1;
            return;
        };
        if self.instruments[at].orders == Health::Good || !self.can_go_on(processed, next) {
            return;
        }
        let instrument = &mut self.instruments[at];
        let kept = &mut instrument.chunks;
        if (kept.0, kept.1) != (processed, chunks) || kept.3.len() as u64 != chunks {
            *kept = (processed, chunks, Vec::new(), vec![false; chunks as usize]);
        }
        if std::mem::replace(&mut kept.3[chunk as usize - 1], true) {
            return;
        }
        for (_, bytes) in message.entries().filter(|(group, _)| *group == entry.group) {
            let price = entry.price.and_then(|field| field.price(bytes));
            let kind = entry.kind.and_then(|field| field.number(bytes));
            let order = order_at(bytes, entry, Terms { security: None, price, kind });
            match order.filter(|_| kept.2.len() < MOST_ORDERS) {
                Some(order) => kept.2.push(order),
                None => self.bad.value += 1,
            }
        }
        if !kept.3.iter().all(|has_come| *has_come) {
            return;
        }
        let (_, _, mut orders, _) = std::mem::take(kept);
        // Places are given in the order of priority, whatever the order of the chunks.
        orders.sort_by_key(|order| order.priority);
        self.instruments[at].begin(at, 0, market);
        self.orders.clear(book(at, Part::Orders), None, market);
        for order in &orders {
            self.bad.order += u64::from(self.orders.add(book(at, Part::Orders), order, market).is_err());
        }
        let instrument = &mut self.instruments[at];
        (instrument.in_orders, instrument.orders) = (processed, Health::Good);
        self.replay(at, Part::Orders, processed, market);
    }

    /// Applies what is held to a book whose snapshot is in place, and tells that it is whole.
    fn replay<M: Market<Notice>>(&mut self, at: usize, part: Part, processed: u64, market: &mut M) {
        let held = std::mem::take(&mut self.held);
        let touched = std::mem::take(&mut self.touched);
        let has_open_event = self.has_open_event;
        for packet in held.iter().filter(|packet| packet.sequence > processed) {
            // Events from here on belong to the snapshot.
            self.instruments[at].is_in_event = true;
            let filter = Filter { sequence: packet.sequence, only: Some((at, part)) };
            self.messages(&packet.bytes, filter, &mut Within(market));
        }
        (self.held, self.touched, self.has_open_event) = (held, touched, has_open_event);
        self.instruments[at].is_in_event = self.has_open_event;
        if self.has_open_event {
            // Of the event that is open it is not known whether more of it is about this instrument.
            if !self.touched.contains(&at) {
                self.touched.push(at);
            }
        } else {
            for part in PARTS {
                market.end(Some(book(at, part)));
            }
        }
        if self.is_good(at, part) {
            market.notice(Some(book(at, part)), &Notice::Good);
        }
        if !self.is_recovering() {
            self.forget_held();
        }
    }

    pub(super) fn hold(&mut self, sequence: u64, packet: &[u8]) {
        self.held_bytes += packet.len();
        self.held.push_back(Held { sequence, bytes: packet.to_vec() });
        while self.held_bytes > HELD_BYTES {
            // A snapshot of before it is of no use any more; a later one comes.
            let Some(oldest) = self.held.pop_front() else { return };
            self.held_bytes -= oldest.bytes.len();
        }
    }

    pub(super) fn forget_held(&mut self) {
        self.held.clear();
        self.held_bytes = 0;
    }
}

/// Passes on all but the ends of events, and what becomes of books: a snapshot is told as one change.
struct Within<'a, M>(&'a mut M);

impl<M: Market<Notice>> market::Events for Within<'_, M> {
    const WANTS_RANK: bool = M::WANTS_RANK;

    fn event(&mut self, book: BookId, event: &market::Event) {
        self.0.event(book, event);
    }
}

impl<M: Market<Notice>> Market<Notice> for Within<'_, M> {
    fn trade(&mut self, book: BookId, trade: &Trade) {
        self.0.trade(book, trade);
    }

    fn broken(&mut self, book: BookId, trade: &Trade) {
        self.0.broken(book, trade);
    }
}
