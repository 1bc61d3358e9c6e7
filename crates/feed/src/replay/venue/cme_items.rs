//! Packets of CME MDP 3.0, applied to books and told as items, wherever they come from.

use std::collections::{HashMap, HashSet};

use market::{BookId, Event, Events, Level, Order, ReadBooks, Side};
use venue::cme::{CmeChannel, Definition, Notice, Status};
use venue::sequence::Change;
use venue::{Market, Trade};

use super::board::Board;
use super::values::{Facts, Print};
use super::web::At;

/// Prices are billionths; the currency is the instrument's, which is not read.
pub(super) const FACTS: Facts =
    Facts { decimals: 9, size_decimals: 0, currency: None, exchange: None, quote_exchange: None };

/// Books of an instrument: by price, implied, by order.
const PARTS: u32 = 3;

fn price_of(book: BookId) -> BookId {
    BookId(book.0 / PARTS * PARTS)
}

fn orders_of(book: BookId) -> BookId {
    BookId(book.0 / PARTS * PARTS + 2)
}

/// Instruments and books of a channel.
pub(super) struct CmeItems {
    channel: CmeChannel,
    told: Pending,
    packets: u64,
}

/// What is told while a packet is applied.
struct Pending {
    /// By number of the instrument.
    symbols: HashMap<i32, String>,
    /// Instruments that have an item.
    named: usize,
    has_orders: bool,
    /// Instruments whose event is complete, and nothing of the next has come; by the number of their book by price.
    ended: Vec<BookId>,
    /// Books whose event is not complete.
    open: Vec<BookId>,
    /// Books that are whole again, or may be.
    good: Vec<BookId>,
    /// Trades of instruments that had no item yet.
    early: Vec<(BookId, Trade)>,
    /// What was said of instruments that had no item yet, and of groups, whose instruments may be told of later.
    early_facts: Vec<(BookId, Fact)>,
    groups: HashMap<String, Members>,
    /// Instruments that were defined, and how many there are by the definitions.
    defined: HashSet<i32>,
    total: Option<u64>,
}

/// The instruments of a group, and the state of it that was told last.
#[derive(Default)]
struct Members {
    books: Vec<BookId>,
    trading: Option<u16>,
}

/// What the exchange says of an instrument beside its book and trades, as values of its item.
#[derive(Clone, Copy)]
enum Fact {
    Trading(u16),
    Settlement(i64),
    OpenInterest(i64),
    Limits([Option<i64>; 2]),
}

/// Takes what the channel tells.
struct ToBoard<'a> {
    board: &'a mut Board,
    told: &'a mut Pending,
    now: u64,
}

impl CmeItems {
    /// A channel of which nothing has come. Instruments without a symbol have their number as name. Without `has_orders` books by order are
    /// left out.
    pub(super) fn new(channel: CmeChannel, symbols: HashMap<i32, String>, has_orders: bool) -> Self {
        let told = Pending {
            symbols,
            named: 0,
            has_orders,
            ended: Vec::new(),
            open: Vec::new(),
            good: Vec::new(),
            early: Vec::new(),
            early_facts: Vec::new(),
            groups: HashMap::new(),
            defined: HashSet::new(),
            total: None,
        };
        Self { channel, told, packets: 0 }
    }

    pub(super) fn channel(&self) -> &CmeChannel {
        &self.channel
    }

    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    /// Takes definitions of a packet and nothing else.
    pub(super) fn learn(&mut self, packet: &[u8]) {
        self.channel.recovery(packet, &mut Learn { symbols: &mut self.told.symbols });
    }

    pub(super) fn into_symbols(self) -> HashMap<i32, String> {
        self.told.symbols
    }

    pub(super) fn symbols(&self) -> Vec<String> {
        let mut all: Vec<String> = self.told.symbols.values().cloned().collect();
        all.sort_unstable();
        all
    }

    /// Takes a packet of an incremental line.
    pub(super) fn incremental(&mut self, line: u8, packet: &[u8], at: At, board: &mut Board) {
        self.packets += 1;
        self.apply(at.wall, board, |channel, to| channel.incremental(line, packet, at.now, to));
    }

    /// Takes a packet of snapshots or definitions.
    pub(super) fn recovery(&mut self, packet: &[u8], at: At, board: &mut Board) {
        self.packets += 1;
        self.apply(at.wall, board, |channel, to| channel.recovery(packet, to));
    }

    /// Instruments that were defined, and how many there are, if the definitions say so.
    pub(super) fn defined(&self) -> (u64, Option<u64>) {
        (self.told.defined.len() as u64, self.told.total)
    }

    pub(super) fn timer(&self) -> Option<u64> {
        self.channel.timer()
    }

    pub(super) fn on_timer(&mut self, at: At, board: &mut Board) {
        self.apply(at.wall, board, |channel, to| channel.on_timer(at.now, to));
        // Nobody is asked: the replay server's session is not spoken.
        let _unanswered = self.channel.poll_request();
    }

    /// What was wrong, by kind.
    pub(super) fn bad(&self) -> Vec<(String, u64)> {
        let bad = self.channel.bad();
        let kinds = [
            ("packets without a header", bad.header),
            ("packets that end within a message", bad.cut),
            ("templates that the schema does not have", bad.unknown_template),
            ("values that fields cannot have", bad.value),
            ("orders of no entry", bad.reference),
            ("levels where none can be", bad.rank),
            ("orders that are there, or are not", bad.order),
            ("reports that had come before", bad.repeated),
            ("instruments that are too many", bad.too_many),
        ];
        kinds.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect()
    }

    fn apply(&mut self, now: u64, board: &mut Board, what: impl FnOnce(&mut CmeChannel, &mut ToBoard<'_>)) {
        board.begin(now);
        what(&mut self.channel, &mut ToBoard { board, told: &mut self.told, now });
        self.name_new(board);
        let mut ended = std::mem::take(&mut self.told.ended);
        for book in ended.drain(..) {
            board.settle_book(book, self);
        }
        // Their memory is used again.
        self.told.ended = ended;
        while let Some(book) = self.told.good.pop() {
            if self.is_good(book) {
                board.vouch(book);
            }
        }
    }

    fn is_good(&self, book: BookId) -> bool {
        self.channel.is_whole(price_of(book)) && (!self.told.has_orders || self.channel.is_whole(orders_of(book)))
    }

    fn name_new(&mut self, board: &mut Board) {
        let new: Vec<(usize, i32)> = self.channel.securities().enumerate().skip(self.told.named).collect();
        for (at, security) in new {
            let book = BookId(at as u32 * PARTS);
            let symbol = self.told.symbols.get(&security).cloned();
            name(board, book, &symbol.unwrap_or_else(|| security.to_string()), self.told.has_orders);
            self.told.named = at + 1;
            if !self.is_good(book) {
                board.suspect(book, "its book has not begun");
            }
            board.renew(book);
            self.told.ended.push(book);
        }
        for (book, trade) in std::mem::take(&mut self.told.early) {
            tell_trade(board, book, &trade);
        }
        for (book, fact) in std::mem::take(&mut self.told.early_facts) {
            tell_fact(board, book, fact);
        }
    }
}

/// The item of an instrument has its book by price, and events of that by order come to it, too.
fn name(board: &mut Board, book: BookId, symbol: &str, has_orders: bool) {
    if has_orders {
        board.name_book(orders_of(book), symbol);
    }
    board.name_book(price_of(book), symbol);
}

fn tell_trade(board: &mut Board, book: BookId, trade: &Trade) {
    let Some(item) = board.of_book(price_of(book)) else { return };
    let Trade { number, price, size, aggressor, is_eligible, .. } = *trade;
    let at = board.now();
    board.trade(item, Print { number, price, size, at, aggressor, is_eligible });
}

fn tell_fact(board: &mut Board, book: BookId, fact: Fact) {
    let Some(item) = board.of_book(price_of(book)) else { return };
    board.status(item, |known| match fact {
        Fact::Trading(trading) => known.trading = Some(trading),
        Fact::Settlement(price) => known.settlement = Some(price),
        Fact::OpenInterest(count) => known.open_interest = Some(count),
        Fact::Limits(limits) => known.limits = Some(limits),
    });
}

/// `TRD_STATUS` of `SecurityTradingStatus`: 2 halted is 2, 17 ready to trade is 1; others are opening or closing: 4.
fn trading_of(status: u8) -> u16 {
    match status {
        2 => 2,
        17 => 1,
        _ => 4,
    }
}

/// What a statistic is of an item, by `MDEntryType`: 6 a settlement price, C the open interest.
fn fact_of(kind: u8, price: Option<i64>, size: Option<i64>) -> Option<Fact> {
    match kind {
        b'6' => price.map(Fact::Settlement),
        b'C' => size.map(Fact::OpenInterest),
        _ => None,
    }
}

impl ToBoard<'_> {
    fn fact(&mut self, book: BookId, fact: Fact) {
        if self.board.is_named(price_of(book)) {
            tell_fact(self.board, book, fact);
        } else {
            self.told.early_facts.push((book, fact));
        }
    }

    /// Of a group that is told of, all its instruments.
    fn group_status(&mut self, Status { group, status, .. }: &Status) {
        let Some(trading) = status.map(trading_of) else { return };
        let members = self.told.groups.entry(group.clone()).or_default();
        members.trading = Some(trading);
        for book in members.books.clone() {
            self.fact(book, Fact::Trading(trading));
        }
    }

    fn defined(&mut self, book: BookId, Definition { security, symbol, group, total }: &Definition) {
        let is_known = self.told.symbols.contains_key(security);
        if !is_known && !symbol.is_empty() {
            self.told.symbols.insert(*security, symbol.clone());
        }
        self.told.total = total.or(self.told.total);
        if self.told.defined.insert(*security) {
            let members = self.told.groups.entry(group.clone()).or_default();
            members.books.push(price_of(book));
            if let Some(trading) = members.trading {
                self.fact(book, Fact::Trading(trading));
            }
        }
    }
}

impl ReadBooks for CmeItems {
    fn best(&self, book: BookId, side: Side) -> Option<Level> {
        self.channel.prices().best(price_of(book), side)
    }

    fn level(&self, book: BookId, side: Side, price: i64) -> Option<Level> {
        self.channel.prices().levels(price_of(book), side).find(|level| level.price == price)
    }

    fn levels(&self, book: BookId, side: Side) -> Box<dyn Iterator<Item = Level> + '_> {
        Box::new(self.channel.prices().levels(price_of(book), side))
    }

    fn orders(&self, book: BookId, side: Side) -> Box<dyn Iterator<Item = Order> + '_> {
        // Priorities are the exchange's numbers, no times.
        let orders = self.channel.orders().orders(orders_of(book), side);
        Box::new(orders.map(|order| Order { priority: 0, ..order }))
    }
}

impl Events for ToBoard<'_> {
    const WANTS_RANK: bool = false;

    fn event(&mut self, book: BookId, event: &Event) {
        let whole = price_of(book);
        if self.told.open.contains(&book) {
            self.told.ended.retain(|ended| *ended != whole);
        } else if !self.told.ended.contains(&whole) {
            // Everything went at once, outside of an event.
            self.told.ended.push(whole);
        }
        let is_level = matches!(event, Event::Level { .. });
        // Levels are those of the book by price: that by order has deeper ones.
        if is_level && book != price_of(book) {
            return;
        }
        let plain = |order: Order| Order { priority: 0, ..order };
        let event = match *event {
            Event::Added(order) => Event::Added(plain(order)),
            Event::Reduced { order, by, cause } => Event::Reduced { order: plain(order), by, cause },
            Event::Replaced { old, new, keeps_place } => {
                Event::Replaced { old: plain(old), new: plain(new), keeps_place }
            }
            other => other,
        };
        self.board.event(book, &event);
    }
}

impl Market<Notice> for ToBoard<'_> {
    fn begin(&mut self, book: Option<BookId>, time: u64) {
        self.told.open.extend(book);
        self.board.begin(if time > 0 { time } else { self.now });
    }

    fn end(&mut self, book: Option<BookId>) {
        self.told.open.retain(|open| Some(*open) != book);
        let Some(book) = book.map(price_of) else { return };
        if !self.told.ended.contains(&book) {
            self.told.ended.push(book);
        }
    }

    fn trade(&mut self, book: BookId, trade: &Trade) {
        if self.board.is_named(price_of(book)) {
            tell_trade(self.board, book, trade);
        } else {
            self.told.early.push((book, *trade));
        }
    }

    fn broken(&mut self, book: BookId, trade: &Trade) {
        if let Some(item) = self.board.of_book(price_of(book)) {
            self.board.break_trade(item, trade.number);
        }
    }

    fn notice(&mut self, book: Option<BookId>, notice: &Notice) {
        let Some(book) = book else {
            if let Notice::Status(status) = notice {
                self.group_status(status);
            }
            return;
        };
        match notice {
            Notice::Definition(definition) => self.defined(book, definition),
            Notice::Suspect if self.told.has_orders || book == price_of(book) => {
                self.told.good.retain(|good| *good != price_of(book));
                self.board.suspect(price_of(book), "messages about it are missing, or may be");
            }
            Notice::Good => self.told.good.push(price_of(book)),
            Notice::Status(Status { status: Some(status), .. }) => self.fact(book, Fact::Trading(trading_of(*status))),
            Notice::Limits { high, low } => self.fact(book, Fact::Limits([*high, *low])),
            Notice::Statistic { kind, price, size } => {
                if let Some(fact) = fact_of(*kind, *price, *size) {
                    self.fact(book, fact);
                }
            }
            Notice::Suspect | Notice::Status(_) => {}
        }
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Gap { missing } => {
                let (count, first) = (missing.end.saturating_sub(missing.start), missing.start);
                self.board.doubt(&format!("{count} packets from number {first} on are missing"));
            }
            // Behind lost packets each book is in doubt by itself.
            Change::Repaired | Change::Lost { .. } | Change::Resumed { .. } | Change::Session { .. } => {
                self.board.trust();
            }
            Change::Ended => {}
        }
    }
}

/// Takes definitions alone.
struct Learn<'a> {
    symbols: &'a mut HashMap<i32, String>,
}

impl Events for Learn<'_> {
    const WANTS_RANK: bool = false;

    fn event(&mut self, _: BookId, _: &Event) {}
}

impl Market<Notice> for Learn<'_> {
    fn notice(&mut self, _: Option<BookId>, notice: &Notice) {
        if let Notice::Definition(Definition { security, symbol, .. }) = notice
            && !symbol.is_empty()
        {
            self.symbols.insert(*security, symbol.clone());
        }
    }
}
