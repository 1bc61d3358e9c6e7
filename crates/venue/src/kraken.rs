//! Kraken's books and trades (WebSocket API 1, channels `book` and `trade`): texts in, books by price out, each proved by the checksum that comes with it.
//!
//! There are no sequence numbers: a message that is lost shows by the checksum of a later one. Then that pair is suspect, and is subscribed to
//! again. Ten levels a side are under the checksum; those below are right if all messages were applied, and the side is cut to the depth that was
//! subscribed to behind each of them.
//!
//! ```
//! use market::Side;
//! use venue::kraken::{Kraken, Want};
//!
//! let mut kraken = Kraken::new(&["XBT/CHF".to_owned()], 10);
//! kraken.connected(0);
//! assert!(matches!(kraken.poll(), Some(Want::Say(text)) if text.contains("subscribe")));
//! let snapshot = r#"[1,{"as":[["100.5","2.00000000","1.0"]],"bs":[["99.5","1.00000000","1.0"]]},"book-10","XBT/CHF"]"#;
//! kraken.text(snapshot.as_bytes(), 1, &mut ());
//! let best = kraken.book("XBT/CHF").expect("a pair").levels(Side::Bid).next().expect("a bid");
//! assert_eq!((best.price, best.size, kraken.price_decimals("XBT/CHF")), (995, 100_000_000, Some(1)));
//! ```

use std::collections::{BTreeMap, HashMap, VecDeque};

use market::{BookId, Events, KrakenLevels, Level, OneBook, OrderBooks, ReadBooks, Side};
use serde_json::Value;

use crate::market_events::{Market, Trade, TradeKind};
use crate::web::{Scale, WebVenue};

pub use crate::web::{Bad, Doubt, Notice, Want};

/// Decimals of sizes. Those of prices are the pair's, as its snapshot has them.
pub const SIZE_DECIMALS: usize = 8;
/// Prices of more decimals are none.
const MOST_DECIMALS: usize = 18;
/// Levels a side that the checksum is of.
const CHECKED: usize = 10;

/// Levels a side that can be subscribed to.
const DEEPEST: usize = 1_000;
/// Pairs that a recording may name.
const MOST_PAIRS: usize = 1 << 16;

const SECOND: u64 = 1_000_000_000;
/// The exchange says something each second; silence of so long is no connection.
const SILENCE: u64 = 10 * SECOND;
/// Between two subscriptions of a pair at first, and at most.
const FIRST_RETRY: u64 = SECOND;
const LONGEST_RETRY: u64 = 60 * SECOND;

/// How much is known of a pair's book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No snapshot has come since the subscription, or what came was wrong.
    Waiting,
    /// There is a snapshot behind a doubt, and no right checksum yet.
    Unproved,
    Good,
}

#[derive(Debug)]
struct Pair {
    name: String,
    /// Levels a side that were subscribed to.
    depth: usize,
    book: BookId,
    /// Of its prices, by the snapshot.
    decimals: usize,
    /// By price: price and size as they were sent, without the point and the zeros in front.
    digits: [BTreeMap<i64, String>; 2],
    state: State,
    /// It was good once: the snapshot of a pair that never was needs no proof.
    was_good: bool,
    /// When it is subscribed to again, if no snapshot has come.
    retry_at: u64,
    retry: u64,
    /// When it was traded last, nanoseconds since 1970.
    last_trade: u64,
}

/// A connection's pairs.
#[derive(Debug)]
pub struct Kraken {
    depth: usize,
    /// By place among the pairs.
    books: OrderBooks<KrakenLevels>,
    pairs: Vec<Pair>,
    numbers: HashMap<String, usize>,
    is_open: bool,
    is_connected: bool,
    heard: u64,
    wants: VecDeque<Want>,
    messages: u64,
    proved: u64,
    bad: Bad,
}

impl Kraken {
    /// Books of these pairs, of so many levels a side: 10, 25, 100, 500 or 1000; all that the texts tell of, if none is named.
    pub fn new(pairs: &[String], depth: usize) -> Self {
        let mut new = Self {
            depth,
            books: OrderBooks::default(),
            pairs: Vec::new(),
            numbers: HashMap::new(),
            is_open: true,
            is_connected: false,
            heard: 0,
            wants: VecDeque::new(),
            messages: 0,
            proved: 0,
            bad: Bad::default(),
        };
        for name in pairs {
            let _number = new.pair(name);
        }
        new.is_open = pairs.is_empty();
        new
    }

    /// Number of a pair; a recording tells of its pairs as it goes.
    fn pair(&mut self, name: &str) -> Option<usize> {
        if let Some(at) = self.numbers.get(name) {
            return Some(*at);
        }
        if !self.is_open || self.pairs.len() >= MOST_PAIRS {
            return None;
        }
        let at = self.pairs.len();
        self.numbers.insert(name.to_owned(), at);
        self.pairs.push(Pair {
            name: name.to_owned(),
            depth: self.depth,
            book: BookId(at as u32),
            decimals: 0,
            digits: Default::default(),
            state: State::Waiting,
            was_good: false,
            retry_at: u64::MAX,
            retry: FIRST_RETRY,
            last_trade: 0,
        });
        Some(at)
    }

    /// A connection stands: all pairs are subscribed to.
    pub fn connected(&mut self, now: u64) {
        (self.is_connected, self.heard) = (true, now);
        self.wants.clear();
        let names: Vec<&str> = self.pairs.iter().map(|pair| pair.name.as_str()).collect();
        let book = self.request("subscribe", &names);
        let trade = serde_json::json!({ "event": "subscribe", "pair": names, "subscription": { "name": "trade" } });
        self.wants.extend([book, trade.to_string()].map(Want::Say));
        for pair in &mut self.pairs {
            (pair.retry, pair.retry_at) = (FIRST_RETRY, now.saturating_add(LONGEST_RETRY));
        }
    }

    /// The connection is gone.
    pub fn disconnected<M: Market<Notice>>(&mut self, market: &mut M) {
        self.is_connected = false;
        self.wants.clear();
        for at in 0..self.pairs.len() {
            self.doubt(at, Doubt::Connection, market);
        }
    }

    /// Takes a message of the connection.
    pub fn text<M: Market<Notice>>(&mut self, text: &[u8], now: u64, market: &mut M) {
        self.heard = now;
        self.messages += 1;
        match serde_json::from_slice::<Value>(text) {
            Ok(Value::Array(parts)) => self.array(&parts, now, market),
            Ok(Value::Object(event)) => {
                let refused = event.get("status").and_then(Value::as_str) == Some("error");
                let at = event.get("pair").and_then(Value::as_str).and_then(|name| self.numbers.get(name)).copied();
                if let (true, Some(at)) = (refused, at) {
                    let why = event.get("errorMessage").and_then(Value::as_str).unwrap_or_default();
                    self.pairs[at].retry_at = now.saturating_add(LONGEST_RETRY);
                    market.notice(Some(BookId(at as u32)), &Notice::Refused(why.to_owned()));
                }
            }
            _ => self.bad.text += 1,
        }
    }

    /// When [`Kraken::on_timer`] wants to be called.
    pub fn timer(&self) -> Option<u64> {
        let retries = self.pairs.iter().filter(|pair| pair.state == State::Waiting).map(|pair| pair.retry_at);
        self.is_connected.then(|| retries.chain([self.heard.saturating_add(SILENCE)]).min()).flatten()
    }

    /// Subscribes again to pairs of which no snapshot has come, or finds that the connection is silent.
    pub fn on_timer(&mut self, now: u64) {
        if !self.is_connected {
            return;
        }
        if now >= self.heard.saturating_add(SILENCE) {
            // Said once: the answer is the end of this connection.
            self.heard = now;
            self.wants.push_back(Want::Reconnect);
            return;
        }
        for at in 0..self.pairs.len() {
            if self.pairs[at].state == State::Waiting && self.pairs[at].retry_at <= now {
                self.subscribe_again(at, now);
            }
        }
    }

    /// What is to be done.
    pub fn poll(&mut self) -> Option<Want> {
        self.wants.pop_front()
    }

    /// The book of a pair; its number is the pair's place among those that were asked for.
    pub fn book(&self, pair: &str) -> Option<OneBook<'_, KrakenLevels>> {
        self.numbers.get(pair).map(|at| self.books.book(self.pairs[*at].book))
    }

    /// Decimals of a pair's prices; `None`: there is no such pair.
    pub fn price_decimals(&self, pair: &str) -> Option<usize> {
        self.numbers.get(pair).map(|at| self.pairs[*at].decimals)
    }

    /// Whether the book of a pair is the exchange's, as far as is known.
    pub fn is_good(&self, pair: &str) -> bool {
        self.numbers.get(pair).is_some_and(|at| self.pairs[*at].state == State::Good)
    }

    /// Messages that came, and checksums that were right.
    pub fn counts(&self) -> (u64, u64) {
        (self.messages, self.proved)
    }

    /// What was wrong.
    pub fn bad(&self) -> &Bad {
        &self.bad
    }

    fn request(&self, event: &str, pairs: &[&str]) -> String {
        let book = serde_json::json!({ "name": "book", "depth": self.depth });
        serde_json::json!({ "event": event, "pair": pairs, "subscription": book }).to_string()
    }

    /// One pair alone; there is one request of it at a time, each later than the one before.
    fn subscribe_again(&mut self, at: usize, now: u64) {
        for event in ["unsubscribe", "subscribe"] {
            let text = self.request(event, &[&self.pairs[at].name]);
            self.wants.push_back(Want::Say(text));
        }
        let pair = &mut self.pairs[at];
        pair.retry_at = now.saturating_add(pair.retry);
        pair.retry = (pair.retry * 2).min(LONGEST_RETRY);
    }

    fn doubt<M: Market<Notice>>(&mut self, at: usize, why: Doubt, market: &mut M) {
        if std::mem::replace(&mut self.pairs[at].state, State::Waiting) == State::Good {
            market.notice(Some(BookId(at as u32)), &Notice::Suspect(why));
        }
    }

    /// The book is not the exchange's: that pair is subscribed to again, at once if the last time is long enough ago.
    fn wrong<M: Market<Notice>>(&mut self, at: usize, why: Doubt, now: u64, market: &mut M) {
        let is_first = self.pairs[at].state == State::Good;
        self.doubt(at, why, market);
        if is_first {
            self.subscribe_again(at, now);
        } else {
            let pair = &mut self.pairs[at];
            pair.retry_at = now.saturating_add(pair.retry);
        }
    }

    /// `[channel, change, "book-10", pair]`, or with a second change in front of the name.
    fn array<M: Market<Notice>>(&mut self, parts: &[Value], now: u64, market: &mut M) {
        let (Some(changes @ [_, ..]), Some(at)) = (
            parts.get(1..parts.len().saturating_sub(2)),
            parts.last().and_then(Value::as_str).and_then(|name| self.pair(name)),
        ) else {
            self.bad.text += 1;
            return;
        };
        let channel = parts[parts.len() - 2].as_str();
        if channel == Some("trade") {
            return self.trades(at, changes, market);
        }
        let Some(channel) = channel.filter(|name| name.starts_with("book")) else { return };
        if let Some(depth) = channel.strip_prefix("book-").and_then(|depth| depth.parse().ok()).filter(|_| self.is_open)
        {
            // Of a recording, where somebody else subscribed.
            self.pairs[at].depth = DEEPEST.min(depth);
        }
        let is_snapshot = changes.iter().any(|change| change.get("as").is_some() || change.get("bs").is_some());
        if !is_snapshot && self.pairs[at].state == State::Waiting {
            // Messages under way from before the subscription.
            self.bad.early += 1;
            return;
        }
        let book = BookId(at as u32);
        let known = self.pairs[at].decimals;
        // Units never become coarser: what was traded or told in them stays a whole number of them. A snapshot of nothing does not tell them.
        let is_empty = Side::BOTH.iter().all(|side| self.books.depth(book, *side) == 0);
        let decimals = if is_snapshot || is_empty { decimals_of(changes).max(known) } else { known };
        let Some(rows) = rows_of(changes, decimals) else {
            self.bad.value += 1;
            return self.wrong(at, Doubt::Unreadable, now, market);
        };
        // Rows alone tell the time: a snapshot of an empty book has none, which is 0.
        market.begin(Some(book), rows.iter().map(|row| row.time).max().unwrap_or(0));
        let Self { pairs, books, bad, .. } = self;
        let pair = &mut pairs[at];
        if is_snapshot {
            books.clear(book, None, market);
            if std::mem::replace(&mut pair.decimals, decimals) != decimals || !pair.was_good {
                market.notice(Some(book), &Notice::Scale(pair.scale()));
            }
            pair.digits.iter_mut().for_each(BTreeMap::clear);
        } else if std::mem::replace(&mut pair.decimals, decimals) != decimals {
            market.notice(Some(book), &Notice::Scale(pair.scale()));
        }
        for row in &rows {
            bad.unknown_level += u64::from(!pair.apply(row, books, market));
        }
        // Behind the whole message, and only what is beyond the depth.
        pair.cut(pair.depth, books, market);
        if is_snapshot {
            let is_proved = !pair.was_good;
            (pair.state, pair.was_good) = (if is_proved { State::Good } else { State::Unproved }, true);
            if is_proved {
                market.notice(Some(book), &Notice::Good);
            }
        }
        if let Some(said) = changes.iter().find_map(|change| change.get("c")) {
            self.prove(at, said, now, market);
        }
        market.end(Some(book));
    }

    /// Rows of price, size, time, side of who traded at once, and more.
    fn trades<M: Market<Notice>>(&mut self, at: usize, lists: &[Value], market: &mut M) {
        let Self { pairs, bad, .. } = self;
        let pair = &mut pairs[at];
        for row in lists.iter().filter_map(Value::as_array).flatten() {
            if !pair.was_good {
                // Its decimals are those of its first snapshot.
                bad.early += 1;
                continue;
            }
            let Some((trade, time)) = trade_of(row, pair.decimals) else {
                bad.value += 1;
                continue;
            };
            // Of a new connection some may be told again.
            if time < pair.last_trade {
                continue;
            }
            pair.last_trade = time;
            market.begin(Some(BookId(at as u32)), time);
            market.trade(BookId(at as u32), &trade);
            market.end(Some(BookId(at as u32)));
        }
    }

    fn prove<M: Market<Notice>>(&mut self, at: usize, said: &Value, now: u64, market: &mut M) {
        let pair = &mut self.pairs[at];
        let said = said.as_str().and_then(|text| text.parse::<u32>().ok());
        if said == Some(pair.checksum()) {
            self.proved += 1;
            if std::mem::replace(&mut pair.state, State::Good) != State::Good {
                pair.retry = FIRST_RETRY;
                market.notice(Some(BookId(at as u32)), &Notice::Good);
            }
            return;
        }
        self.bad.checksum += 1;
        self.wrong(at, Doubt::Checksum, now, market);
    }
}

impl Pair {
    fn scale(&self) -> Scale {
        Scale { price: self.decimals as u8, size: SIZE_DECIMALS as u8 }
    }

    /// False: a level was deleted that is not there.
    fn apply<E: Events>(&mut self, row: &Row<'_>, books: &mut OrderBooks<KrakenLevels>, events: &mut E) -> bool {
        let level = Level { price: row.price, size: row.size, orders: 0 };
        let digits = &mut self.digits[row.side as usize];
        if row.size == 0 {
            digits.remove(&row.price);
        } else {
            let mut text = String::with_capacity(row.price_text.len() + row.size_text.len());
            push_digits(&mut text, row.price_text);
            push_digits(&mut text, row.size_text);
            digits.insert(row.price, text);
        }
        books.set(self.book, row.side, level, events).is_ok()
    }

    fn cut<E: Events>(&mut self, depth: usize, books: &mut OrderBooks<KrakenLevels>, events: &mut E) {
        books.cut(self.book, depth, events);
        let [bids, asks] = &mut self.digits;
        while bids.len() > depth {
            bids.pop_first();
        }
        while asks.len() > depth {
            asks.pop_last();
        }
    }

    /// CRC-32 of ten asks, the lowest first, then ten bids, the highest first.
    fn checksum(&self) -> u32 {
        let [bids, asks] = &self.digits;
        let mut sum = crc32fast::Hasher::new();
        for text in asks.values().take(CHECKED).chain(bids.values().rev().take(CHECKED)) {
            sum.update(text.as_bytes());
        }
        sum.finalize()
    }
}

impl WebVenue for Kraken {
    fn connected(&mut self, now: u64) {
        Self::connected(self, now);
    }

    fn disconnected<M: Market<Notice>>(&mut self, market: &mut M) {
        Self::disconnected(self, market);
    }

    fn text<M: Market<Notice>>(&mut self, text: &[u8], now: u64, market: &mut M) {
        Self::text(self, text, now, market);
    }

    fn recorded(&mut self, text: &[u8]) {
        let text = serde_json::from_slice::<Value>(text).unwrap_or_default();
        let is_book = text["subscription"]["name"] == "book";
        for name in text["pair"].as_array().filter(|_| is_book).into_iter().flatten().filter_map(Value::as_str) {
            let _number = self.pair(name);
        }
    }

    fn timer(&self) -> Option<u64> {
        Self::timer(self)
    }

    fn on_timer(&mut self, now: u64) {
        Self::on_timer(self, now);
    }

    fn poll(&mut self) -> Option<Want> {
        Self::poll(self)
    }

    fn find(&self, name: &str) -> Option<BookId> {
        self.numbers.get(name).map(|at| BookId(*at as u32))
    }

    fn names(&self) -> Vec<String> {
        self.pairs.iter().map(|pair| pair.name.clone()).collect()
    }

    fn count(&self) -> usize {
        self.pairs.len()
    }

    fn scale(&self, book: BookId) -> Scale {
        self.pairs[book.0 as usize].scale()
    }

    fn is_good(&self, book: BookId) -> bool {
        self.pairs.get(book.0 as usize).is_some_and(|pair| pair.state == State::Good)
    }

    fn books(&self) -> &dyn ReadBooks {
        &self.books
    }

    fn messages(&self) -> u64 {
        self.messages
    }

    fn bad(&self) -> &Bad {
        &self.bad
    }
}

/// A level as it was sent.
struct Row<'a> {
    side: Side,
    price: i64,
    size: u64,
    price_text: &'a str,
    size_text: &'a str,
    /// Nanoseconds since 1970.
    time: u64,
}

/// A trade, which has no number, and when it was, nanoseconds since 1970.
fn trade_of(row: &Value, decimals: usize) -> Option<(Trade, u64)> {
    let text = |n: usize| row.get(n).and_then(Value::as_str);
    let aggressor = match text(3) {
        Some("b") => Some(Side::Bid),
        Some("s") => Some(Side::Ask),
        _ => None,
    };
    let (price, size) = (scaled(text(0)?, decimals)?, scaled(text(1)?, SIZE_DECIMALS)? as u64);
    let trade = Trade { number: 0, price, size, aggressor, order: None, kind: TradeKind::Book, is_eligible: true };
    Some((trade, scaled(text(2)?, 9)? as u64)).filter(|(trade, _)| trade.size > 0)
}

/// The most decimals that a price of a message has.
fn decimals_of(changes: &[Value]) -> usize {
    let lists = changes.iter().flat_map(|change| ["as", "bs", "a", "b"].map(|key| change.get(key))).flatten();
    let rows = lists.filter_map(Value::as_array).flatten();
    let prices = rows.filter_map(|row| row.get(0)?.as_str());
    prices.map(|price| price.split_once('.').map_or(0, |(_, part)| part.len())).max().unwrap_or(0).min(MOST_DECIMALS)
}

/// The rows of a message in their order; `None`: one of them cannot be read, so that none is used.
fn rows_of(changes: &[Value], decimals: usize) -> Option<Vec<Row<'_>>> {
    let mut rows = Vec::new();
    for change in changes {
        for (key, side) in [("as", Side::Ask), ("bs", Side::Bid), ("a", Side::Ask), ("b", Side::Bid)] {
            let Some(list) = change.get(key) else { continue };
            for row in list.as_array()? {
                let text = |n: usize| row.get(n).and_then(Value::as_str);
                let (price_text, size_text) = (text(0)?, text(1)?);
                rows.push(Row {
                    side,
                    price: scaled(price_text, decimals)?,
                    size: scaled(size_text, SIZE_DECIMALS)? as u64,
                    price_text,
                    size_text,
                    time: scaled(text(2)?, 9)? as u64,
                });
            }
        }
    }
    Some(rows)
}

/// A number in decimal, times ten to the power of `decimals`; `None`: it is none, has more decimals, or cannot be counted so.
fn scaled(text: &str, decimals: usize) -> Option<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = !whole.is_empty() && whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit());
    let part = if part.len() > decimals { part.trim_end_matches('0') } else { part };
    if !is_number || part.len() > decimals {
        return None;
    }
    let digits = whole.bytes().chain(part.bytes()).chain(std::iter::repeat_n(b'0', decimals - part.len()));
    digits.map(|byte| i64::from(byte - b'0')).try_fold(0i64, |value, digit| value.checked_mul(10)?.checked_add(digit))
}

/// Digits without the point and the zeros in front.
fn push_digits(out: &mut String, text: &str) {
    out.extend(text.chars().filter(|c| *c != '.').skip_while(|c| *c == '0'));
}
