//! The books of a channel's instruments: by price with their implied levels, and by order; which of them are whole, and how a snapshot makes them so.

mod recovery;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use market::{BookId, CmeLevels, CmeMdp, Level, Order, OrderBooks, Rank, Refused, Side};

use super::roles::{DefinitionFields, Entry, OrderEntry, Role, Roles, Root};
use super::schema::{Field, Found, Message, Schema};
use super::{Bad, Definition, Notice, PacketKind, Status};
use crate::market_events::{Market, Trade, TradeKind};

/// Which of an instrument's books.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// By price, of orders that stand in it.
    Price,
    /// By price, of orders that follow from other instruments'.
    Implied,
    /// By order.
    Orders,
}

/// How much is known of a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Good,
    /// Packets were lost, and whether they were about this instrument its next report tells.
    Unknown,
    /// Not whole: what comes is left out until a snapshot.
    Recovering,
}

#[derive(Debug)]
struct Instrument {
    security: i32,
    /// Number of its last report.
    report: u32,
    /// Of both books by price: they are counted together.
    price: Health,
    orders: Health,
    /// Packets up to this one are in the snapshots that were taken.
    in_price: u64,
    in_orders: u64,
    /// Levels a side, of the book by price and of the implied one.
    depths: [usize; 2],
    /// Chunks of a snapshot by order that have come: of which packet it is, how many there are, the orders.
    chunks: (u64, u64, Vec<Order>, Vec<bool>),
    /// Something of an event has come, and its end has not.
    is_in_event: bool,
}

/// Instruments of a channel at most.
const MOST_INSTRUMENTS: usize = 1 << 16;
/// Levels a side where no definition tells how many.
const DEPTH: usize = 10;
/// Implied levels a side, likewise.
const IMPLIED_DEPTH: usize = 2;
/// Deeper books are of no venue.
const DEEPEST: usize = 1_000;
/// Chunks and orders of a snapshot of one instrument.
const MOST_CHUNKS: u64 = 1 << 16;
const MOST_ORDERS: usize = 1 << 20;
/// Bytes of packets that are held for a snapshot.
const HELD_BYTES: usize = 64 << 20;

/// A packet that may have to be applied again, behind a snapshot.
#[derive(Debug)]
struct Held {
    sequence: u64,
    bytes: Vec<u8>,
}

/// All instruments of a channel.
#[derive(Debug)]
pub(super) struct Books {
    /// Shared, so that it can be read while the books change.
    schema: Arc<Schema>,
    roles: Roles,
    orders: OrderBooks<CmeMdp>,
    /// By price and implied.
    levels: OrderBooks<CmeLevels>,
    numbers: HashMap<i32, usize>,
    instruments: Vec<Instrument>,
    /// Instruments that the present event is about.
    touched: Vec<usize>,
    /// Messages of an event have come, and its end has not.
    has_open_event: bool,
    held: VecDeque<Held>,
    held_bytes: usize,
    /// One more than the last packet that was lost.
    lost_end: u64,
    /// The stream began with its first packet, and nothing was lost since.
    is_whole: bool,
    pub bad: Bad,
}

/// What is applied of a packet.
#[derive(Clone, Copy, Debug)]
struct Filter {
    sequence: u64,
    /// One part of one instrument alone.
    only: Option<(usize, Part)>,
}

/// Bits of `MatchEventIndicator`: no message of the event follows.
const END_OF_EVENT: i64 = 0x80;

impl Books {
    pub(super) fn new(schema: Schema) -> Self {
        Self {
            roles: Roles::of(&schema),
            schema: Arc::new(schema),
            orders: OrderBooks::default(),
            levels: OrderBooks::default(),
            numbers: HashMap::new(),
            instruments: Vec::new(),
            touched: Vec::new(),
            has_open_event: false,
            held: VecDeque::new(),
            held_bytes: 0,
            lost_end: 0,
            is_whole: false,
            bad: Bad::default(),
        }
    }

    pub(super) fn instrument(&self, security: i32) -> Option<usize> {
        self.numbers.get(&security).copied()
    }

    /// The books by price and the implied ones; [`book`] has their numbers.
    pub(super) fn levels(&self) -> &OrderBooks<CmeLevels> {
        &self.levels
    }

    pub(super) fn securities(&self) -> impl Iterator<Item = i32> {
        self.instruments.iter().map(|instrument| instrument.security)
    }

    pub(super) fn kind(&self, packet: &[u8]) -> PacketKind {
        let mut rest = packet.get(PACKET_HEADER..).unwrap_or_default();
        let mut kind = PacketKind::Other;
        while let Some((found, behind)) = self.schema.split(rest) {
            rest = behind;
            let Found::Message(message) = found else { continue };
            kind = kind.min(match self.roles.get(message.number).map(|known| known.1) {
                None => PacketKind::Other,
                Some(Role::Snapshot { .. }) => PacketKind::Snapshot,
                Some(Role::OrderSnapshot { .. }) => PacketKind::OrderSnapshot,
                Some(Role::Definition(_)) => PacketKind::Definitions,
                Some(_) => PacketKind::Incremental,
            });
        }
        kind
    }

    pub(super) fn orders(&self) -> &OrderBooks<CmeMdp> {
        &self.orders
    }

    pub(super) fn is_good(&self, at: usize, part: Part) -> bool {
        self.instruments.get(at).is_some_and(|instrument| instrument.health(part) == Health::Good)
    }

    pub(super) fn is_recovering(&self) -> bool {
        self.instruments.iter().any(|i| i.price != Health::Good || i.orders != Health::Good)
    }

    /// A new stream: all instruments stay, without books.
    pub(super) fn begin<M: Market<Notice>>(&mut self, is_whole: bool, market: &mut M) {
        self.lost_end = 0;
        self.empty(is_whole, market);
    }

    /// Packets will not come: which instruments they were about is not known.
    pub(super) fn lost<M: Market<Notice>>(&mut self, end: u64, market: &mut M) {
        self.lost_end = end;
        self.is_whole = false;
        self.forget_held();
        self.end_event(market);
        for at in 0..self.instruments.len() {
            if self.instruments[at].price == Health::Good {
                self.instruments[at].price = Health::Unknown;
                market.notice(Some(book(at, Part::Price)), &Notice::Suspect);
            }
            self.recover(at, Part::Orders, market);
        }
    }

    /// Applies a packet of the incremental feed, the next one.
    pub(super) fn incremental<M: Market<Notice>>(&mut self, sequence: u64, packet: &[u8], market: &mut M) {
        if self.is_recovering() {
            self.hold(sequence, packet);
        } else if !self.held.is_empty() {
            // Held packets have no holes: nothing of before is of use behind a packet that is not.
            self.forget_held();
        }
        self.messages(packet, Filter { sequence, only: None }, market);
    }

    /// Applies a packet of a snapshot feed, or of definitions; `next` is the incremental packet that comes next.
    pub(super) fn recovery<M: Market<Notice>>(&mut self, next: u64, packet: &[u8], market: &mut M) {
        let schema = Arc::clone(&self.schema);
        let mut rest = packet.get(PACKET_HEADER..).unwrap_or_default();
        while let Some((found, behind)) = schema.split(rest) {
            rest = behind;
            let Found::Message(message) = found else { continue };
            match self.roles.get(message.number).map(|known| known.1) {
                Some(Role::Snapshot { root, level }) => self.snapshot(next, &message, (&root, &level), market),
                Some(Role::OrderSnapshot { root, order }) => {
                    self.order_snapshot(next, &message, (&root, &order), market);
                }
                Some(Role::Definition(fields)) => self.definition(&message, fields, market),
                _ => {}
            }
        }
        self.bad.cut += u64::from(!rest.is_empty());
    }

    fn messages<M: Market<Notice>>(&mut self, packet: &[u8], filter: Filter, market: &mut M) {
        let schema = Arc::clone(&self.schema);
        let mut rest = packet.get(PACKET_HEADER..).unwrap_or_default();
        while let Some((found, behind)) = schema.split(rest) {
            rest = behind;
            match found {
                Found::Message(message) => self.message(&message, filter, market),
                Found::Unknown(_) => self.bad.unknown_template += u64::from(filter.only.is_none()),
            }
        }
        self.bad.cut += u64::from(!rest.is_empty() && filter.only.is_none());
    }

    fn message<M: Market<Notice>>(&mut self, message: &Message<'_>, filter: Filter, market: &mut M) {
        // Most templates of a schema have no role: they change no book.
        let Some((root, role)) = self.roles.get(message.number) else { return };
        let is_all = filter.only.is_none();
        match role {
            Role::Book { entry, order } => {
                let mut references = Vec::new();
                for (group, bytes) in message.entries() {
                    if group == entry.group {
                        references.push(bytes);
                        self.price_entry(bytes, (root, message.root), &entry, filter, market);
                    } else if let Some(order) = order.filter(|order| order.group == group) {
                        let which = order.reference.and_then(|field| field.number(bytes));
                        let of = which.and_then(|n| references.get(usize::try_from(n).ok()?.checked_sub(1)?)).copied();
                        match of {
                            Some(of) => {
                                self.order_of_entry(bytes, &order, (of, &entry), (root, message.root), filter, market);
                            }
                            None => self.bad.reference += u64::from(is_all),
                        }
                    }
                }
            }
            Role::Orders(order) => {
                for (_, bytes) in message.entries().filter(|(group, _)| *group == order.group) {
                    let number = |field: Option<Field>| field.and_then(|field| field.number(bytes));
                    let terms = Terms {
                        security: number(order.security),
                        price: order.price.and_then(|field| field.price(bytes)),
                        kind: number(order.kind),
                    };
                    self.order(bytes, &order, terms, (root, message.root), filter, market);
                }
            }
            Role::Trade { entry, order } => {
                for (group, bytes) in message.entries() {
                    if group == entry.group {
                        self.trade(bytes, (root, message.root), &entry, filter, market);
                    } else if let Some(order) = order.filter(|order| order.group == group && is_all) {
                        self.filled(bytes, &order, (root, message.root), filter, market);
                    }
                }
            }
            Role::Statistic(entry) => {
                for (_, bytes) in message.entries().filter(|(group, _)| *group == entry.group) {
                    if let Some(at) = self.report(bytes, (root, message.root), &entry, filter, market) {
                        let number = |field: Option<Field>| field.and_then(|field| field.number(bytes));
                        let (kind, size) = (number(entry.kind).unwrap_or(0) as u8, number(entry.size));
                        let price = entry.price.and_then(|field| field.price(bytes));
                        market.notice(Some(book(at, Part::Price)), &Notice::Statistic { kind, price, size });
                        if entry.high_limit.is_some() || entry.low_limit.is_some() {
                            let limit = |field: Option<Field>| field.and_then(|field| field.price(bytes));
                            let (high, low) = (limit(entry.high_limit), limit(entry.low_limit));
                            market.notice(Some(book(at, Part::Price)), &Notice::Limits { high, low });
                        }
                    }
                }
            }
            Role::Status(fields) if is_all => {
                let number = |field: Option<Field>| field.and_then(|field| field.number(message.root));
                let at = number(fields.security).and_then(|id| self.instrument(i32::try_from(id).ok()?));
                let group = fields.group.and_then(|field| field.text(message.root)).unwrap_or_default();
                let status = Status {
                    group: String::from_utf8_lossy(group).into_owned(),
                    status: number(fields.status).map(|value| value as u8),
                    reason: number(fields.reason).map(|value| value as u8),
                };
                market.notice(at.map(|at| book(at, Part::Price)), &Notice::Status(status));
            }
            Role::Definition(fields) if is_all => self.definition(message, fields, market),
            Role::Reset if is_all => self.empty(true, market),
            _ => {}
        }
        let ends =
            root.indicator.and_then(|field| field.number(message.root)).is_some_and(|bits| bits & END_OF_EVENT != 0);
        if ends {
            self.end_event(market);
        } else if is_all && root.indicator.is_some() {
            self.has_open_event = true;
        }
    }

    /// The event is complete: what it was about may be published.
    fn end_event<M: Market<Notice>>(&mut self, market: &mut M) {
        let mut touched = std::mem::take(&mut self.touched);
        self.has_open_event = false;
        for at in touched.drain(..) {
            self.instruments[at].is_in_event = false;
            for part in PARTS {
                market.end(Some(book(at, part)));
            }
        }
        self.touched = touched;
    }

    fn touch<M: Market<Notice>>(&mut self, at: usize, (root, bytes): (Root, &[u8]), market: &mut M) {
        if !self.instruments[at].is_in_event {
            self.touched.push(at);
            let time = root.time.and_then(|field| field.number(bytes)).unwrap_or(0) as u64;
            self.instruments[at].begin(at, time, market);
        }
    }

    fn security(&mut self, value: Option<i64>) -> Option<usize> {
        let security = value.and_then(|value| i32::try_from(value).ok());
        let Some(security) = security else {
            self.bad.value += 1;
            return None;
        };
        if let Some(at) = self.instrument(security) {
            return Some(at);
        }
        let at = self.instruments.len();
        if at == MOST_INSTRUMENTS {
            self.bad.too_many += 1;
            return None;
        }
        let health = if self.is_whole { Health::Good } else { Health::Recovering };
        self.instruments.push(Instrument {
            security,
            report: 0,
            price: health,
            orders: health,
            in_price: 0,
            in_orders: 0,
            depths: [DEPTH, IMPLIED_DEPTH],
            chunks: (0, 0, Vec::new(), Vec::new()),
            is_in_event: false,
        });
        self.orders.open(book(at, Part::Orders));
        self.levels.open(book(at, Part::Orders));
        self.numbers.insert(security, at);
        Some(at)
    }

    /// The instrument of an entry that is to be applied: its report is the next one. A jump makes the instrument's books by price wait for a snapshot.
    fn report<M: Market<Notice>>(
        &mut self,
        bytes: &[u8],
        root: (Root, &[u8]),
        entry: &Entry,
        filter: Filter,
        market: &mut M,
    ) -> Option<usize> {
        let at = self.security(entry.security.number(bytes))?;
        if filter.only.is_some_and(|only| only != (at, Part::Price)) || filter.sequence <= self.instruments[at].in_price
        {
            return None;
        }
        let report = entry.report.number(bytes).and_then(|value| u32::try_from(value).ok());
        let instrument = &mut self.instruments[at];
        match (report, instrument.price) {
            (_, Health::Recovering) => return None,
            (Some(report), health) if report == instrument.report.wrapping_add(1) => {
                instrument.report = report;
                if health == Health::Unknown {
                    instrument.price = Health::Good;
                    market.notice(Some(book(at, Part::Price)), &Notice::Good);
                }
            }
            (Some(report), _) if report <= instrument.report => {
                self.bad.repeated += 1;
                return None;
            }
            _ => {
                self.recover(at, Part::Price, market);
                self.hold_again(filter);
                return None;
            }
        }
        self.touch(at, root, market);
        Some(at)
    }

    /// The packet at which an instrument was found to be in need is held already by its lost ones, or is not needed: a snapshot of later will do.
    fn hold_again(&mut self, filter: Filter) {
        if self.held.is_empty() {
            self.lost_end = self.lost_end.max(filter.sequence + 1);
        }
    }

    /// A book is not whole until a snapshot is in place.
    fn recover<M: Market<Notice>>(&mut self, at: usize, part: Part, market: &mut M) {
        let instrument = &mut self.instruments[at];
        let health = if part == Part::Orders { &mut instrument.orders } else { &mut instrument.price };
        let before = std::mem::replace(health, Health::Recovering);
        // Of what is unknown it was told.
        if before == Health::Good {
            market.notice(Some(book(at, part)), &Notice::Suspect);
        }
    }

    fn price_entry<M: Market<Notice>>(
        &mut self,
        bytes: &[u8],
        root: (Root, &[u8]),
        entry: &Entry,
        filter: Filter,
        market: &mut M,
    ) {
        // Counted, told, or waiting for a snapshot (`report`).
        let Some(at) = self.report(bytes, root, entry, filter, market) else { return };
        let number = |field: Option<Field>| field.and_then(|field| field.number(bytes));
        let kind = number(entry.kind).unwrap_or(0) as u8;
        if kind == b'J' {
            self.clear_levels(at, market);
            return self.orders.clear(book(at, Part::Orders), None, market);
        }
        let Some((part, side)) = side_of(kind) else {
            self.bad.value += 1;
            return;
        };
        let rank = number(entry.level).and_then(|level| usize::try_from(level).ok()?.checked_sub(1));
        let level = entry.price.and_then(|field| field.price(bytes)).map(|price| Level {
            price,
            size: number(entry.size).and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
            orders: number(entry.orders).and_then(|orders| u32::try_from(orders).ok()).unwrap_or(0),
        });
        let (id, depth) = (book(at, part), self.instruments[at].depths[part as usize]);
        let place = |rank| Rank { side, rank, depth };
        let levels = &mut self.levels;
        let applied = match (number(entry.action), rank, level) {
            (Some(0), Some(rank), Some(level)) => levels.insert_at(id, place(rank), level, market),
            (Some(1 | 5), Some(rank), Some(level)) => levels.change_at(id, place(rank), level, market),
            (Some(2), Some(rank), _) => levels.delete_at(id, place(rank), 1, market),
            (Some(3), Some(rank), _) => levels.delete_at(id, place(0), rank + 1, market),
            (Some(4), Some(rank), _) => levels.delete_at(id, place(rank), usize::MAX, market),
            _ => {
                self.bad.value += 1;
                return self.recover(at, Part::Price, market);
            }
        };
        if applied.is_err() {
            self.bad.rank += 1;
            self.recover(at, Part::Price, market);
        }
    }

    fn order_of_entry<M: Market<Notice>>(
        &mut self,
        bytes: &[u8],
        order: &OrderEntry,
        (of, entry): (&[u8], &Entry),
        root: (Root, &[u8]),
        filter: Filter,
        market: &mut M,
    ) {
        let terms = Terms {
            security: entry.security.number(of),
            price: entry.price.and_then(|field| field.price(of)),
            kind: entry.kind.and_then(|field| field.number(of)),
        };
        self.order(bytes, order, terms, root, filter, market);
    }

    fn order<M: Market<Notice>>(
        &mut self,
        bytes: &[u8],
        entry: &OrderEntry,
        terms: Terms,
        root: (Root, &[u8]),
        filter: Filter,
        market: &mut M,
    ) {
        // Counted (`security`).
        let Some(at) = self.security(terms.security) else { return };
        let is_ours = filter.only.is_none_or(|only| only == (at, Part::Orders));
        if !is_ours || self.instruments[at].orders != Health::Good || filter.sequence <= self.instruments[at].in_orders
        {
            return;
        }
        self.touch(at, root, market);
        let action = entry.action.and_then(|field| field.number(bytes));
        let applied = match (action, order_at(bytes, entry, terms)) {
            (Some(0), Some(order)) => self.orders.add(book(at, Part::Orders), &order, market),
            (Some(1), Some(order)) => self.orders.change(&order, market).map(drop),
            (Some(2), _) => {
                let reference = entry.order.number(bytes).unwrap_or(0) as u64;
                self.orders.delete(reference, market).map(drop)
            }
            _ => {
                self.bad.value += 1;
                return self.recover(at, Part::Orders, market);
            }
        };
        if let Err(why) = applied {
            self.bad.order += 1;
            market.doubt(book(at, Part::Orders), &why);
            self.recover(at, Part::Orders, market);
        }
    }

    fn trade<M: Market<Notice>>(
        &mut self,
        bytes: &[u8],
        root: (Root, &[u8]),
        entry: &Entry,
        filter: Filter,
        market: &mut M,
    ) {
        // Counted, told, or waiting for a snapshot (`report`).
        let Some(at) = self.report(bytes, root, entry, filter, market) else { return };
        let number = |field: Option<Field>| field.and_then(|field| field.number(bytes));
        let Some(price) = entry.price.and_then(|field| field.price(bytes)) else {
            self.bad.value += 1;
            return;
        };
        let trade = Trade {
            number: number(entry.trade).unwrap_or(0) as u64,
            price,
            size: number(entry.size).and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
            aggressor: match number(entry.aggressor) {
                Some(1) => Some(Side::Bid),
                Some(2) => Some(Side::Ask),
                _ => None,
            },
            order: None,
            kind: TradeKind::Book,
            is_eligible: true,
        };
        if number(entry.action) == Some(2) {
            market.broken(book(at, Part::Price), &trade);
        } else {
            market.trade(book(at, Part::Price), &trade);
        }
    }

    /// An order was executed; what that leaves of it the book's own messages tell.
    fn filled<M: Market<Notice>>(
        &mut self,
        bytes: &[u8],
        entry: &OrderEntry,
        root: (Root, &[u8]),
        filter: Filter,
        market: &mut M,
    ) {
        let reference = entry.order.number(bytes).unwrap_or(0) as u64;
        // The order of who traded at once stands in no book.
        let Some((book, _)) = self.orders.order(reference) else { return };
        let at = book.0 as usize / PARTS.len();
        if self.instruments[at].orders != Health::Good || filter.sequence <= self.instruments[at].in_orders {
            return;
        }
        self.touch(at, root, market);
        let size = entry.size.and_then(|field| field.number(bytes)).and_then(|size| u64::try_from(size).ok());
        let _is_there: Result<_, Refused> = self.orders.fill(reference, size.unwrap_or(0), market);
    }

    /// All books go. They are whole if nothing was before, else they wait for a snapshot.
    fn empty<M: Market<Notice>>(&mut self, is_whole: bool, market: &mut M) {
        let (health, notice) =
            if is_whole { (Health::Good, Notice::Good) } else { (Health::Recovering, Notice::Suspect) };
        self.end_event(market);
        self.orders.clear_all(market);
        for at in 0..self.instruments.len() {
            self.clear_levels(at, market);
            let instrument = &mut self.instruments[at];
            (instrument.report, instrument.in_price, instrument.in_orders) = (0, 0, 0);
            for part in [Part::Price, Part::Orders] {
                let kept = if part == Part::Orders { &mut instrument.orders } else { &mut instrument.price };
                let was_good = std::mem::replace(kept, health) == Health::Good;
                if was_good != is_whole {
                    market.notice(Some(book(at, part)), &notice);
                }
            }
        }
        self.is_whole = is_whole;
        self.forget_held();
    }

    /// Empties the books by price of an instrument.
    fn clear_levels<M: Market<Notice>>(&mut self, at: usize, market: &mut M) {
        for part in [Part::Price, Part::Implied] {
            self.levels.clear(book(at, part), None, market);
        }
    }

    fn definition<M: Market<Notice>>(&mut self, message: &Message<'_>, fields: DefinitionFields, market: &mut M) {
        // Counted (`security`).
        let Some(at) = self.security(fields.security.number(message.root)) else { return };
        let text = |field: Option<Field>| {
            let text = field.and_then(|field| field.text(message.root)).unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        };
        for (_, bytes) in message.entries().filter(|(group, _)| fields.depths.is_some_and(|depths| depths.0 == *group))
        {
            let Some((_, feed, depth)) = fields.depths else { continue };
            let depth = depth.number(bytes).and_then(|depth| usize::try_from(depth).ok());
            let Some(depth) = depth.filter(|depth| (1..=DEEPEST).contains(depth)) else { continue };
            let instrument = &mut self.instruments[at];
            match feed.text(bytes) {
                // Books that have begun keep their depth until they begin anew.
                Some(b"GBX") if instrument.report == 0 => instrument.depths[Part::Price as usize] = depth,
                Some(b"GBI") if instrument.report == 0 => instrument.depths[Part::Implied as usize] = depth,
                _ => {}
            }
        }
        let definition = Definition {
            security: self.instruments[at].security,
            symbol: text(fields.symbol),
            group: text(fields.group),
            total: fields.total.and_then(|field| field.number(message.root)).and_then(|n| u64::try_from(n).ok()),
        };
        market.notice(Some(book(at, Part::Price)), &Notice::Definition(definition));
    }
}

/// Book and side of an entry's type, if it is of a level.
fn side_of(kind: u8) -> Option<(Part, Side)> {
    match kind {
        b'0' => Some((Part::Price, Side::Bid)),
        b'1' => Some((Part::Price, Side::Ask)),
        b'E' => Some((Part::Implied, Side::Bid)),
        b'F' => Some((Part::Implied, Side::Ask)),
        _ => None,
    }
}

/// What of an order is told elsewhere than in its own entry.
#[derive(Clone, Copy, Debug)]
struct Terms {
    security: Option<i64>,
    price: Option<i64>,
    kind: Option<i64>,
}

fn order_at(bytes: &[u8], entry: &OrderEntry, terms: Terms) -> Option<Order> {
    let side = match terms.kind? as u8 {
        b'0' => Side::Bid,
        b'1' => Side::Ask,
        _ => return None,
    };
    let number = |field: Option<Field>| field.and_then(|field| field.number(bytes));
    Some(Order {
        reference: entry.order.number(bytes)? as u64,
        side,
        price: terms.price?,
        size: number(entry.size).and_then(|size| u64::try_from(size).ok())?,
        priority: number(entry.priority).unwrap_or(0) as u64,
        owner: 0,
    })
}

impl Instrument {
    /// What follows belongs to an event, or to a snapshot, if it does not already.
    fn begin<M: Market<Notice>>(&mut self, at: usize, time: u64, market: &mut M) {
        if !std::mem::replace(&mut self.is_in_event, true) {
            for part in PARTS {
                market.begin(Some(book(at, part)), time);
            }
        }
    }

    fn health(&self, part: Part) -> Health {
        if part == Part::Orders { self.orders } else { self.price }
    }
}

const PARTS: [Part; 3] = [Part::Price, Part::Implied, Part::Orders];

/// Bytes of a packet before its messages: sequence number and time of sending.
pub(super) const PACKET_HEADER: usize = 12;

/// Instrument and part of a book's number.
pub(super) fn place(book: BookId) -> (usize, Part) {
    let number = book.0 as usize;
    (number / PARTS.len(), PARTS[number % PARTS.len()])
}

/// The number of a book.
pub(super) fn book(instrument: usize, part: Part) -> BookId {
    BookId(instrument as u32 * PARTS.len() as u32 + part as u32)
}
