//! The products of a connection: a book each, how much is known of it, and when it is asked for again.

use std::collections::{HashMap, VecDeque};

use market::{BookId, ByPrice, Level, OrderBooks, Side};

use super::decimal::Decimal;
use super::notice::{Bad, Doubt, Notice, Scale};
use crate::market_events::{Market, Trade, TradeKind};

const SECOND: u64 = 1_000_000_000;
/// Between two requests of a product at first, and at most.
const FIRST_RETRY: u64 = SECOND;
const LONGEST_RETRY: u64 = 60 * SECOND;
/// Products that a recording may name, which tells of them as it goes.
const MOST_PRODUCTS: usize = 1 << 16;
/// Bytes of texts of all products that are held until their books have begun.
const HELD_BYTES: usize = 64 << 20;

/// A level as it was sent.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its side.
    pub side: Side,
    /// Its price.
    pub price: Decimal,
    /// What stands there now; 0: nothing.
    pub size: Decimal,
}

/// A trade as it was sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// The venue's number; 0: it has none that is a number.
    pub number: u64,
    /// Its price.
    pub price: Decimal,
    /// Its size.
    pub size: Decimal,
    /// Who traded at once.
    pub aggressor: Option<Side>,
    /// Nanoseconds since 1970.
    pub time: u64,
}

#[derive(Debug)]
struct Product {
    name: String,
    scale: Scale,
    is_good: bool,
    /// When it is asked for again, if its book has not begun by then; `u64::MAX`: nothing is awaited.
    retry_at: u64,
    /// When it was asked for last, and the least time until the next time.
    asked_at: Option<u64>,
    retry: u64,
    /// Number of the last change, where changes have one.
    last: Option<u64>,
    last_trade: Option<u64>,
    /// A snapshot has come since the last trade: what was traded while nothing was subscribed to is no loss of its book.
    may_jump: bool,
    /// Texts that wait for the book's beginning; `None`: there were more than are held.
    held: Option<Vec<Vec<u8>>>,
}

/// All products.
#[derive(Debug)]
pub struct Products<R> {
    all: Vec<Product>,
    /// By place among the products.
    books: OrderBooks<R>,
    numbers: HashMap<String, usize>,
    /// What is told of and was not named is taken, too: a recording tells what it has as it goes.
    is_open: bool,
    /// Products that are to be asked for.
    again: VecDeque<usize>,
    held_bytes: usize,
    /// What was wrong.
    pub bad: Bad,
}

impl<R: ByPrice> Products<R> {
    /// The products to take; all that are told of, if there are none.
    pub(super) fn new(names: &[String]) -> Self {
        let mut new = Self {
            all: Vec::new(),
            books: OrderBooks::default(),
            numbers: HashMap::new(),
            is_open: true,
            again: VecDeque::new(),
            held_bytes: 0,
            bad: Bad::default(),
        };
        for name in names {
            let _number = new.find(name);
        }
        new.is_open = names.is_empty();
        new
    }

    /// The number of a product; `None`: nobody asked for it.
    pub fn find(&mut self, name: &str) -> Option<usize> {
        if let Some(at) = self.numbers.get(name) {
            return Some(*at);
        }
        if !self.is_open || self.all.len() >= MOST_PRODUCTS {
            self.bad.too_many += u64::from(self.is_open);
            return None;
        }
        let at = self.all.len();
        self.numbers.insert(name.to_owned(), at);
        self.all.push(Product {
            name: name.to_owned(),
            scale: Scale::default(),
            is_good: false,
            retry_at: u64::MAX,
            asked_at: None,
            retry: FIRST_RETRY,
            last: None,
            last_trade: None,
            may_jump: false,
            held: Some(Vec::new()),
        });
        Some(at)
    }

    /// Names in the order of their numbers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|product| product.name.as_str())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Name of a product.
    pub fn name(&self, at: usize) -> &str {
        &self.all[at].name
    }

    /// Whether the book of a product is the exchange's, as far as is known.
    pub fn is_good(&self, at: usize) -> bool {
        self.all[at].is_good
    }

    /// Number of the last change of a product.
    pub fn last(&self, at: usize) -> Option<u64> {
        self.all[at].last
    }

    /// Sets the number of the last change of a product.
    pub fn set_last(&mut self, at: usize, last: u64) {
        self.all[at].last = Some(last);
    }

    /// Replaces the number of the last trade; `None`: there was none, or the connection or the book began anew since then.
    pub fn replace_trade(&mut self, at: usize, last: u64) -> Option<u64> {
        let product = &mut self.all[at];
        let (before, may_jump) = (product.last_trade.replace(last), std::mem::take(&mut product.may_jump));
        before.filter(|_| !may_jump)
    }

    /// The next trade may have any number: the book has begun since the last one.
    pub fn may_jump(&self, at: usize) -> bool {
        self.all[at].may_jump
    }

    /// Number of the last trade of a product.
    pub fn last_trade(&self, at: usize) -> Option<u64> {
        self.all[at].last_trade
    }

    pub(super) fn books(&self) -> &OrderBooks<R> {
        &self.books
    }

    pub(super) fn scale(&self, at: usize) -> Scale {
        self.all[at].scale
    }

    /// Applies a message to a book, whole or not at all. A snapshot empties it before, and makes it good. `time` is the venue's, nanoseconds
    /// since 1970; 0: not told.
    pub fn apply<M: Market<Notice>>(
        &mut self,
        at: usize,
        time: u64,
        rows: &[Row],
        is_snapshot: bool,
        now: u64,
        market: &mut M,
    ) {
        let id = BookId(at as u32);
        market.begin(Some(id), time);
        let decimals = |of: fn(&Row) -> Decimal| {
            let each = rows.iter().map(|row| if is_snapshot { of(row).decimals() } else { of(row).needed() });
            each.max().unwrap_or(0)
        };
        let needed = Scale { price: decimals(|row| row.price), size: decimals(|row| row.size) };
        if is_snapshot {
            self.books.clear(id, None, market);
        }
        if !self.fit(at, needed, market) || !self.can_hold(at, rows) {
            self.bad.value += 1;
            self.doubt(at, Doubt::Unreadable, now, market);
            return market.end(Some(id));
        }
        let product = &mut self.all[at];
        for row in rows {
            let (price, size) = (row.price.scaled(product.scale.price), row.size.scaled(product.scale.size));
            let (Some(price), Some(size)) = (price, size) else { continue };
            let level = Level { price, size: size.unsigned_abs(), orders: 0 };
            self.bad.unknown_level += u64::from(self.books.set(id, row.side, level, market).is_err());
        }
        if !self.books.is_lawful(id) {
            self.bad.crossed += 1;
            self.doubt(at, Doubt::Crossed, now, market);
            return market.end(Some(id));
        }
        if is_snapshot {
            (product.retry_at, product.may_jump) = (u64::MAX, true);
            if !std::mem::replace(&mut product.is_good, true) {
                market.notice(Some(id), &Notice::Good);
            }
        }
        market.end(Some(id));
    }

    fn can_hold(&self, at: usize, rows: &[Row]) -> bool {
        let Scale { price, size } = self.all[at].scale;
        rows.iter().all(|row| row.price.scaled(price).is_some() && row.size.scaled(size).is_some_and(|size| size >= 0))
    }

    /// Tells a trade.
    pub fn trade<M: Market<Notice>>(&mut self, at: usize, sent: &Sent, market: &mut M) {
        let id = BookId(at as u32);
        market.begin(Some(id), sent.time);
        let needed = Scale { price: sent.price.needed(), size: sent.size.needed() };
        let fits = self.fit(at, needed, market);
        let Scale { price, size } = self.all[at].scale;
        match (sent.price.scaled(price), sent.size.scaled(size)) {
            (Some(price), Some(size)) if fits && size > 0 => {
                let trade = Trade {
                    number: sent.number,
                    price,
                    size: size.unsigned_abs(),
                    aggressor: sent.aggressor,
                    order: None,
                    kind: TradeKind::Book,
                    is_eligible: true,
                };
                market.trade(id, &trade);
            }
            _ => self.bad.value += 1,
        }
        market.end(Some(id));
    }

    /// Makes the units as fine as is needed: the book is told anew in them. False: it cannot be.
    fn fit<M: Market<Notice>>(&mut self, at: usize, needed: Scale, market: &mut M) -> bool {
        let product = &mut self.all[at];
        let old = product.scale;
        let new = Scale { price: old.price.max(needed.price), size: old.size.max(needed.size) };
        if new == old {
            return true;
        }
        let factor = |more: u8| 10i64.checked_pow(u32::from(more));
        let (Some(prices), Some(sizes)) = (factor(new.price - old.price), factor(new.size - old.size)) else {
            return false;
        };
        let mut levels = Vec::new();
        for side in Side::BOTH {
            for level in self.books.levels(BookId(at as u32), side) {
                let price = level.price.checked_mul(prices);
                let size = level.size.checked_mul(sizes.unsigned_abs());
                let (Some(price), Some(size)) = (price, size) else { return false };
                levels.push((side, Level { price, size, orders: 0 }));
            }
        }
        product.scale = new;
        if !levels.is_empty() {
            self.books.clear(BookId(at as u32), None, market);
        }
        market.notice(Some(BookId(at as u32)), &Notice::Scale(new));
        for (side, level) in levels {
            let _is_there = self.books.set(BookId(at as u32), side, level, market);
        }
        true
    }

    /// The book is not the exchange's any more: it is asked for again, one request at a time, each later than the one before.
    pub fn doubt<M: Market<Notice>>(&mut self, at: usize, why: Doubt, now: u64, market: &mut M) {
        let product = &mut self.all[at];
        product.last = None;
        if std::mem::replace(&mut product.is_good, false) {
            market.notice(Some(BookId(at as u32)), &Notice::Suspect(why));
        }
        self.ask(at, now);
    }

    /// Asks for a product, at once if that was long enough ago; not while an answer is awaited.
    pub fn ask(&mut self, at: usize, now: u64) {
        let product = &mut self.all[at];
        if product.retry_at != u64::MAX {
            return;
        }
        let ago = product.asked_at.map_or(u64::MAX, |asked_at| now.saturating_sub(asked_at));
        if ago >= LONGEST_RETRY {
            product.retry = FIRST_RETRY;
        }
        if ago < product.retry {
            product.retry_at = now + product.retry - ago;
        } else {
            self.send(at, now);
        }
    }

    fn send(&mut self, at: usize, now: u64) {
        let product = &mut self.all[at];
        (product.asked_at, product.retry_at) = (Some(now), now.saturating_add(product.retry));
        product.retry = (product.retry * 2).min(LONGEST_RETRY);
        self.again.push_back(at);
    }

    /// The exchange refuses a product.
    pub fn refuse<M: Market<Notice>>(&mut self, at: usize, why: &str, now: u64, market: &mut M) {
        self.all[at].retry_at = now.saturating_add(LONGEST_RETRY);
        market.notice(Some(BookId(at as u32)), &Notice::Refused(why.to_owned()));
    }

    /// Holds a text until the book has begun.
    pub fn hold(&mut self, at: usize, text: &[u8]) {
        let Some(held) = &mut self.all[at].held else { return };
        self.held_bytes += text.len();
        held.push(text.to_vec());
        if self.held_bytes > HELD_BYTES {
            self.held_bytes -= held.iter().map(Vec::len).sum::<usize>();
            self.all[at].held = None;
            self.bad.too_many += 1;
        }
    }

    /// Texts that were held, in their order; `None`: there were more, so that a beginning is of no use. Holding begins anew.
    pub fn take_held(&mut self, at: usize) -> Option<Vec<Vec<u8>>> {
        let held = self.all[at].held.replace(Vec::new());
        self.held_bytes -= held.iter().flatten().map(Vec::len).sum::<usize>();
        held
    }

    /// A connection stands: whatever has no book by then is asked for again, where subscriptions bring one.
    pub(super) fn connected(&mut self, now: u64, is_subscribed: bool) {
        self.again.clear();
        for product in &mut self.all {
            (product.retry, product.asked_at) = (FIRST_RETRY, None);
            product.retry_at = if is_subscribed { now.saturating_add(LONGEST_RETRY) } else { u64::MAX };
        }
    }

    pub(super) fn disconnected<M: Market<Notice>>(&mut self, market: &mut M) {
        self.again.clear();
        self.held_bytes = 0;
        for (at, product) in self.all.iter_mut().enumerate() {
            (product.last, product.last_trade, product.held) = (None, None, Some(Vec::new()));
            product.retry_at = u64::MAX;
            if std::mem::replace(&mut product.is_good, false) {
                market.notice(Some(BookId(at as u32)), &Notice::Suspect(Doubt::Connection));
            }
        }
    }

    pub(super) fn timer(&self) -> Option<u64> {
        let waiting = self.all.iter().filter(|product| !product.is_good && product.retry_at != u64::MAX);
        waiting.map(|product| product.retry_at).min()
    }

    pub(super) fn on_timer(&mut self, now: u64) {
        for at in 0..self.all.len() {
            if !self.all[at].is_good && self.all[at].retry_at <= now {
                self.send(at, now);
            }
        }
    }

    pub(super) fn next_asked(&mut self) -> Option<usize> {
        self.again.pop_front()
    }
}
