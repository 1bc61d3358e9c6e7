//! Independent Reserve (`websockets.independentreserve.com`): channels `orderbook-CURRENCY`, order by order.
//!
//! One order stands in four books, one for each currency that it may be paid in; texts of a channel are numbered by one (`Nonce`). A book begins with
//! the list of its orders that the HTTP server has, which is taken some seconds into the stream: orders of both are one by their Guid, and what was
//! cancelled meanwhile is taken away last.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use market::{BookId, ByOrder, FillRule, Level, Order, OrderBooks, Priority, ReadBooks, Rules, Side};
use serde::Deserialize;

use super::decimal::Decimal;
use super::machine::WebVenue;
use super::notice::{Bad, Doubt, Notice, Scale, Want};
use crate::market_events::Market;

/// An order that becomes smaller stays where it stands; it is told as a change of what is left.
#[derive(Clone, Copy, Debug)]
pub struct IndependentReserveRules;

impl Rules for IndependentReserveRules {}

impl ByOrder for IndependentReserveRules {
    const FILL: FillRule = FillRule::Reported;
    const PRIORITY: Priority = Priority::Time;

    fn keeps_place(old: &Order, new: &Order) -> bool {
        old.side == new.side && old.price == new.price && new.size <= old.size
    }
}

type Guid = [u8; 16];

/// Currencies that orders may be paid in.
const PAID_IN: [&str; 4] = ["aud", "usd", "nzd", "sgd"];
/// Decimals of prices and sizes: the exchange has at most eight.
const SCALE: Scale = Scale { price: 8, size: 8 };
/// Orders of a currency that are kept until its lists are there, and that were cancelled meanwhile.
const MOST_ORDERS: usize = 1 << 20;
const SECOND: u64 = 1_000_000_000;
const FIRST_RETRY: u64 = SECOND;
const LONGEST_RETRY: u64 = 60 * SECOND;
/// The exchange says something each minute at least.
const SILENCE: u64 = 120 * SECOND;
const CHANNEL: &str = "orderbook-";
const PATH: &str = "/Public/GetAllOrders?primaryCurrencyCode=";

/// An order as the stream told of it.
#[derive(Clone, Debug)]
struct StreamOrder {
    side: Side,
    size: u64,
    prices: [Option<i64>; 4],
    time: u64,
}

/// The book of a currency paid in another.
#[derive(Debug, Default)]
struct Pair {
    is_wanted: bool,
    is_good: bool,
    retry_at: Option<u64>,
    retry: u64,
    /// Requests that were under way when messages were lost: their answers may be from before.
    stale: u32,
    is_asked: bool,
}

#[derive(Debug)]
struct Currency {
    code: String,
    nonce: Option<u64>,
    /// Of since the stream began without a hole.
    told: HashMap<Guid, StreamOrder>,
    order_of_told: Vec<Guid>,
    cancelled: HashSet<Guid>,
    pairs: [Pair; 4],
}

/// A connection's currencies.
#[derive(Debug)]
pub struct IndependentReserve {
    currencies: Vec<Currency>,
    is_open: bool,
    books: OrderBooks<IndependentReserveRules>,
    /// By Guid: the number of an order, of which each of its four books has one of its own.
    numbers: HashMap<Guid, u64>,
    guids: HashMap<u64, Guid>,
    next_number: u64,
    /// Orders that the last text took away, whose names may still be asked for.
    gone: Vec<(u64, Guid)>,
    wants: VecDeque<Want>,
    is_connected: bool,
    heard: u64,
    messages: u64,
    bad: Bad,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "Event", default)]
    event: Cow<'a, str>,
    #[serde(borrow, rename = "Channel", default)]
    channel: Cow<'a, str>,
    #[serde(rename = "Nonce", default)]
    nonce: u64,
    #[serde(rename = "Time", default)]
    time_ms: u64,
}

#[derive(Deserialize)]
struct Text<'a> {
    #[serde(borrow, rename = "Data")]
    data: OrderData<'a>,
}

#[derive(Deserialize)]
struct OrderData<'a> {
    #[serde(borrow, rename = "OrderType", default)]
    kind: Cow<'a, str>,
    #[serde(borrow, rename = "OrderGuid")]
    guid: Cow<'a, str>,
    #[serde(rename = "Price")]
    price: Option<HashMap<String, Decimal>>,
    #[serde(rename = "Volume")]
    volume: Option<Decimal>,
}

#[derive(Deserialize)]
struct List {
    #[serde(rename = "BuyOrders")]
    buy: Vec<Listed>,
    #[serde(rename = "SellOrders")]
    sell: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    #[serde(rename = "Guid")]
    guid: String,
    #[serde(rename = "Price")]
    price: Decimal,
    #[serde(rename = "Volume")]
    volume: Decimal,
}

#[derive(Deserialize)]
struct Subscription {
    #[serde(rename = "Data", default)]
    channels: Vec<String>,
}

fn guid_of(text: &str) -> Option<Guid> {
    let mut guid = Guid::default();
    let mut digits = text.bytes().filter(|byte| *byte != b'-');
    for byte in &mut guid {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        *byte = (digit(digits.next()?)? << 4 | digit(digits.next()?)?) as u8;
    }
    digits.next().is_none().then_some(guid)
}

fn size_of(volume: Decimal) -> Option<u64> {
    volume.scaled(SCALE.size).and_then(|size| u64::try_from(size).ok())
}

fn book_of(currency: usize, paid_in: usize) -> BookId {
    BookId((currency * PAID_IN.len() + paid_in) as u32)
}

impl IndependentReserve {
    /// Pairs as `ETH-AUD`; all that the texts tell of, if there are none.
    pub fn new(names: &[String]) -> Self {
        let mut new = Self {
            currencies: Vec::new(),
            is_open: true,
            books: OrderBooks::default(),
            numbers: HashMap::new(),
            guids: HashMap::new(),
            next_number: 1,
            gone: Vec::new(),
            wants: VecDeque::new(),
            is_connected: false,
            heard: 0,
            messages: 0,
            bad: Bad::default(),
        };
        for name in names {
            if let Some((at, paid_in)) = new.split(name) {
                new.currencies[at].pairs[paid_in].is_wanted = true;
            }
        }
        new.is_open = names.is_empty();
        new
    }

    fn split(&mut self, name: &str) -> Option<(usize, usize)> {
        let (code, paid_in) = name.split_once('-')?;
        let paid_in = PAID_IN.iter().position(|known| known.eq_ignore_ascii_case(paid_in))?;
        Some((self.currency(&code.to_lowercase())?, paid_in))
    }

    fn currency(&mut self, code: &str) -> Option<usize> {
        let known = self.currencies.iter().position(|currency| currency.code == code);
        if known.is_some() || !self.is_open || self.currencies.len() >= 1 << 12 {
            return known;
        }
        let at = self.currencies.len();
        self.currencies.push(Currency {
            code: code.to_owned(),
            nonce: None,
            told: HashMap::new(),
            order_of_told: Vec::new(),
            cancelled: HashSet::new(),
            pairs: Default::default(),
        });
        (0..PAID_IN.len()).for_each(|paid_in| self.books.open(book_of(at, paid_in)));
        Some(at)
    }

    /// The orders of a currency are not known any more: its lists are fetched again.
    fn doubt<M: Market<Notice>>(&mut self, at: usize, why: Doubt, now: u64, market: &mut M) {
        let currency = &mut self.currencies[at];
        currency.told.clear();
        currency.order_of_told.clear();
        currency.cancelled.clear();
        for (paid_in, pair) in currency.pairs.iter_mut().enumerate() {
            pair.stale += u32::from(std::mem::take(&mut pair.is_asked));
            if std::mem::replace(&mut pair.is_good, false) {
                market.notice(Some(book_of(at, paid_in)), &Notice::Suspect(why));
            }
            if self.is_connected && pair.is_wanted {
                pair.retry_at = Some(now.saturating_add(pair.retry.max(FIRST_RETRY)));
            }
        }
    }

    fn number(&mut self, guid: Guid) -> u64 {
        let next = &mut self.next_number;
        let guids = &mut self.guids;
        *self.numbers.entry(guid).or_insert_with(|| {
            let number = *next;
            *next += 1;
            guids.insert(number, guid);
            number
        })
    }

    fn reference(number: u64, paid_in: usize) -> u64 {
        number * PAID_IN.len() as u64 + paid_in as u64
    }

    /// Takes an order out of all its books.
    fn remove<M: Market<Notice>>(&mut self, guid: Guid, market: &mut M) -> bool {
        let Some(number) = self.numbers.remove(&guid) else { return false };
        self.guids.remove(&number);
        self.gone.push((number, guid));
        let mut was_there = false;
        for paid_in in 0..PAID_IN.len() {
            was_there |= self.books.delete(Self::reference(number, paid_in), market).is_ok();
        }
        was_there
    }

    fn put<M: Market<Notice>>(&mut self, at: usize, paid_in: usize, guid: Guid, told: &StreamOrder, market: &mut M) {
        let Some(price) = told.prices[paid_in] else { return };
        let reference = Self::reference(self.number(guid), paid_in);
        if self.books.order(reference).is_some() {
            // The list was newer than the stream.
            return;
        }
        let order = Order { reference, side: told.side, price, size: told.size, priority: told.time, owner: 0 };
        if self.books.add(book_of(at, paid_in), &order, market).is_err() {
            self.bad.value += 1;
        }
    }

    fn event<M: Market<Notice>>(
        &mut self,
        at: usize,
        event: &str,
        text: &[u8],
        time_ms: u64,
        market: &mut M,
    ) -> Option<()> {
        let Text { data } = serde_json::from_slice(text).ok()?;
        let guid = guid_of(&data.guid)?;
        match event {
            "NewOrder" => {
                let side = match &*data.kind {
                    "LimitBid" => Side::Bid,
                    "LimitOffer" => Side::Ask,
                    _ => return None,
                };
                let prices = data.price?;
                let prices = PAID_IN.map(|code| prices.get(code).and_then(|price| price.scaled(SCALE.price)));
                let time = time_ms.saturating_mul(1_000_000);
                let told = StreamOrder { side, size: size_of(data.volume?)?, prices, time };
                for paid_in in 0..PAID_IN.len() {
                    if self.currencies[at].pairs[paid_in].is_good {
                        self.put(at, paid_in, guid, &told, market);
                    }
                }
                let currency = &mut self.currencies[at];
                if currency.told.len() >= MOST_ORDERS {
                    self.bad.too_many += 1;
                    return None;
                }
                currency.told.insert(guid, told);
                currency.order_of_told.push(guid);
            }
            "OrderChanged" => {
                let size = size_of(data.volume?)?;
                if size == 0 {
                    self.cancel(at, guid, market);
                } else {
                    self.reduce(at, guid, size, market);
                }
            }
            _ => self.cancel(at, guid, market),
        }
        Some(())
    }

    fn cancel<M: Market<Notice>>(&mut self, at: usize, guid: Guid, market: &mut M) {
        let was_there = self.remove(guid, market);
        let currency = &mut self.currencies[at];
        let was_told = currency.told.remove(&guid).is_some();
        let is_whole = currency.pairs.iter().all(|pair| pair.is_good);
        if !is_whole && currency.cancelled.len() < MOST_ORDERS {
            currency.cancelled.insert(guid);
        }
        self.bad.unknown_level += u64::from(is_whole && !was_there && !was_told);
        let currency = &mut self.currencies[at];
        // Entries that are gone are forgotten when there are more of them than of those that stand.
        if currency.order_of_told.len() > 2 * currency.told.len() + 64 {
            currency.order_of_told.retain(|guid| currency.told.contains_key(guid));
        }
    }

    fn reduce<M: Market<Notice>>(&mut self, at: usize, guid: Guid, size: u64, market: &mut M) {
        if let Some(told) = self.currencies[at].told.get_mut(&guid) {
            told.size = size;
        }
        let Some(number) = self.numbers.get(&guid).copied() else { return };
        for paid_in in 0..PAID_IN.len() {
            if let Some((_, order)) = self.books.order(Self::reference(number, paid_in)) {
                let _is_there = self.books.change(&Order { size, ..order }, market);
            }
        }
    }

    /// The list of a pair, then what the stream told of since it began, without what was cancelled.
    fn begin<M: Market<Notice>>(&mut self, at: usize, paid_in: usize, list: &List, market: &mut M) {
        let book = book_of(at, paid_in);
        market.begin(Some(book), 0);
        self.empty(book, market);
        let mut listed = HashSet::new();
        for (side, orders) in [(Side::Bid, &list.buy), (Side::Ask, &list.sell)] {
            for order in orders {
                let price = order.price.scaled(SCALE.price);
                let (Some(guid), Some(price), Some(size)) = (guid_of(&order.guid), price, size_of(order.volume)) else {
                    self.bad.value += 1;
                    continue;
                };
                if self.currencies[at].cancelled.contains(&guid) || !listed.insert(guid) {
                    continue;
                }
                let told = self.currencies[at].told.get(&guid);
                let (size, time) = told.map_or((size, 0), |told| (size.min(told.size), told.time));
                let mut prices = [None; 4];
                prices[paid_in] = Some(price);
                self.put(at, paid_in, guid, &StreamOrder { side, size, prices, time }, market);
            }
        }
        for guid in self.currencies[at].order_of_told.clone() {
            let told = self.currencies[at].told.get(&guid).cloned();
            if let Some(told) = told.filter(|_| listed.insert(guid)) {
                self.put(at, paid_in, guid, &told, market);
            }
        }
        let pair = &mut self.currencies[at].pairs[paid_in];
        (pair.is_good, pair.retry_at, pair.retry) = (true, None, FIRST_RETRY);
        market.notice(Some(book), &Notice::Good);
        market.end(Some(book));
    }

    /// Empties a book; what stands in no other is forgotten.
    fn empty<M: Market<Notice>>(&mut self, book: BookId, market: &mut M) {
        let orders: Vec<u64> =
            Side::BOTH.iter().flat_map(|side| self.books.orders(book, *side)).map(|o| o.reference).collect();
        self.books.clear(book, None, market);
        for number in orders.iter().map(|reference| reference / PAID_IN.len() as u64) {
            let stands = (0..PAID_IN.len()).any(|paid_in| self.books.order(Self::reference(number, paid_in)).is_some());
            if let Some(guid) = self.guids.get(&number).copied().filter(|_| !stands) {
                self.guids.remove(&number);
                self.numbers.remove(&guid);
            }
        }
    }

    fn pair_of_path(&mut self, path: &str) -> Option<(usize, usize)> {
        let (code, paid_in) = path.strip_prefix(PATH)?.split_once("&secondaryCurrencyCode=")?;
        self.split(&format!("{code}-{paid_in}"))
    }

    fn ask(&mut self, at: usize, paid_in: usize, now: u64) {
        let currency = &mut self.currencies[at];
        let pair = &mut currency.pairs[paid_in];
        pair.stale += u32::from(std::mem::replace(&mut pair.is_asked, true));
        pair.retry = (pair.retry.max(FIRST_RETRY) * 2).min(LONGEST_RETRY);
        pair.retry_at = Some(now.saturating_add(pair.retry));
        let (code, paid_in) = (&currency.code, PAID_IN[paid_in]);
        self.wants.push_back(Want::Fetch(format!("{PATH}{code}&secondaryCurrencyCode={paid_in}")));
    }
}

impl WebVenue for IndependentReserve {
    fn connected(&mut self, now: u64) {
        (self.is_connected, self.heard) = (true, now);
        self.wants.clear();
        let channels: Vec<String> =
            self.currencies.iter().map(|currency| format!("{CHANNEL}{}", currency.code)).collect();
        self.wants.push_back(Want::Say(serde_json::json!({ "Event": "Subscribe", "Data": channels }).to_string()));
        for currency in &mut self.currencies {
            currency.nonce = None;
            for pair in &mut currency.pairs {
                (pair.retry, pair.retry_at, pair.is_asked) = (FIRST_RETRY, None, false);
            }
        }
    }

    fn disconnected<M: Market<Notice>>(&mut self, market: &mut M) {
        self.is_connected = false;
        self.wants.clear();
        for at in 0..self.currencies.len() {
            self.doubt(at, Doubt::Connection, 0, market);
        }
    }

    fn text<M: Market<Notice>>(&mut self, text: &[u8], now: u64, market: &mut M) {
        self.heard = now;
        self.messages += 1;
        self.gone.clear();
        let Ok(head) = serde_json::from_slice::<Head<'_>>(text) else {
            self.bad.text += 1;
            return;
        };
        if !["NewOrder", "OrderChanged", "OrderCanceled"].contains(&&*head.event) {
            return;
        }
        let Some(at) = head.channel.strip_prefix(CHANNEL).and_then(|code| self.currency(code)) else { return };
        let last = self.currencies[at].nonce.replace(head.nonce);
        if last.is_some_and(|last| last.checked_add(1) != Some(head.nonce)) {
            self.bad.gaps += 1;
            self.doubt(at, Doubt::Missing, now, market);
        }
        if last.is_none() {
            // The stream has begun: what is fetched from here on is not older than its beginning.
            for paid_in in 0..PAID_IN.len() {
                if self.currencies[at].pairs[paid_in].is_wanted {
                    self.ask(at, paid_in, now);
                }
            }
        }
        market.begin(None, head.time_ms.saturating_mul(1_000_000));
        let is_read = self.event(at, &head.event, text, head.time_ms, market).is_some();
        market.end(None);
        if !is_read {
            self.bad.value += 1;
            self.doubt(at, Doubt::Unreadable, now, market);
        }
    }

    fn answer<M: Market<Notice>>(&mut self, path: &str, body: &[u8], _now: u64, market: &mut M) {
        self.gone.clear();
        let Some((at, paid_in)) = self.pair_of_path(path) else { return };
        let pair = &mut self.currencies[at].pairs[paid_in];
        if pair.stale > 0 {
            pair.stale -= 1;
            return;
        }
        pair.is_asked = false;
        if pair.is_good {
            return;
        }
        match serde_json::from_slice::<List>(body) {
            Ok(list) => self.begin(at, paid_in, &list, market),
            Err(_) => self.bad.text += 1,
        }
    }

    fn fetch_failed(&mut self, path: &str) {
        let Some((at, paid_in)) = self.pair_of_path(path) else { return };
        let pair = &mut self.currencies[at].pairs[paid_in];
        if pair.stale > 0 {
            pair.stale -= 1;
        } else {
            pair.is_asked = false;
        }
    }

    fn is_wanted(&self, book: BookId) -> bool {
        let (at, paid_in) = (book.0 as usize / PAID_IN.len(), book.0 as usize % PAID_IN.len());
        self.is_open || self.currencies.get(at).is_some_and(|currency| currency.pairs[paid_in].is_wanted)
    }

    fn recorded(&mut self, text: &[u8]) {
        let channels = serde_json::from_slice(text).map(|text: Subscription| text.channels).unwrap_or_default();
        for code in channels.iter().filter_map(|channel| channel.strip_prefix(CHANNEL)) {
            let _at = self.currency(code);
        }
    }

    fn timer(&self) -> Option<u64> {
        let pairs = self.currencies.iter().flat_map(|currency| &currency.pairs);
        let retries = pairs.filter(|pair| !pair.is_good).filter_map(|pair| pair.retry_at);
        self.is_connected.then(|| retries.chain([self.heard.saturating_add(SILENCE)]).min()).flatten()
    }

    fn on_timer(&mut self, now: u64) {
        if !self.is_connected {
            return;
        }
        if now >= self.heard.saturating_add(SILENCE) {
            // Said once: the answer is the end of this connection.
            self.heard = now;
            self.wants.push_back(Want::Reconnect);
            return;
        }
        for at in 0..self.currencies.len() {
            for paid_in in 0..PAID_IN.len() {
                let pair = &self.currencies[at].pairs[paid_in];
                if !pair.is_good && pair.retry_at.is_some_and(|at| at <= now) {
                    self.ask(at, paid_in, now);
                }
            }
        }
    }

    fn poll(&mut self) -> Option<Want> {
        self.wants.pop_front()
    }

    fn find(&self, name: &str) -> Option<BookId> {
        self.names().iter().position(|known| known == name).map(|at| BookId(at as u32))
    }

    fn names(&self) -> Vec<String> {
        let pair = |currency: &Currency, paid_in: &str| format!("{}-{paid_in}", currency.code).to_uppercase();
        self.currencies.iter().flat_map(|currency| PAID_IN.map(|paid_in| pair(currency, paid_in))).collect()
    }

    fn count(&self) -> usize {
        self.currencies.len() * PAID_IN.len()
    }

    fn scale(&self, _book: BookId) -> Scale {
        SCALE
    }

    fn is_good(&self, book: BookId) -> bool {
        let (at, paid_in) = (book.0 as usize / PAID_IN.len(), book.0 as usize % PAID_IN.len());
        self.currencies.get(at).is_some_and(|currency| currency.pairs[paid_in].is_good)
    }

    fn books(&self) -> &dyn ReadBooks {
        self
    }

    fn messages(&self) -> u64 {
        self.messages
    }

    fn bad(&self) -> &Bad {
        &self.bad
    }
}

impl ReadBooks for IndependentReserve {
    fn best(&self, book: BookId, side: Side) -> Option<Level> {
        self.books.best(book, side)
    }

    fn level(&self, book: BookId, side: Side, price: i64) -> Option<Level> {
        self.books.level(book, side, price)
    }

    fn levels(&self, book: BookId, side: Side) -> Box<dyn Iterator<Item = Level> + '_> {
        Box::new(self.books.levels(book, side))
    }

    fn orders(&self, book: BookId, side: Side) -> Box<dyn Iterator<Item = Order> + '_> {
        Box::new(self.books.orders(book, side))
    }

    fn order_name(&self, reference: u64) -> Option<Guid> {
        let number = reference / PAID_IN.len() as u64;
        let gone = || self.gone.iter().find(|(known, _)| *known == number).map(|(_, guid)| *guid);
        self.guids.get(&number).copied().or_else(gone)
    }
}
