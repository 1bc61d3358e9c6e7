//! A recorded exchange feed as a market source: best quotes and trades as `MarketPrice`, price levels as `MarketByPrice`.
//!
//! Instruments are named by symbol and feed: `MSFT.IEX` of TOPS, `MSFT.DEEP` of DEEP. The capture is looked through for its symbols when it is opened;
//! one of which the feed has not told yet has an empty image. Where messages are missing, all items are Suspect until the feed begins anew: DEEP
//! has no snapshot, and what TOPS lost may have been a trade.

use super::ReplaySpeed;
use super::iex::{Capture, Counters, Feed, Heard, Message, What};
use crate::book::{Action, BookChanges, BookSide};
use crate::fields::append_fields;
use crate::instrument::{Profile, Venue, venue};
use crate::levels::{self, Shape};
use crate::record::{Record, Side, TradeChange};
use crate::replay::market::ReplayConfig;
use crate::session::{Moment, Nanos};
use crate::{Event, InstrumentId, MarketSource, Model, Payload, UpdateKind};
use rwf::msg::{Domain, StatusMsg};
use rwf::{DataState, State, StateCode, StreamState};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};

/// Number 229 of the dictionary's table of exchanges.
const VENUE: Venue = venue(229, *b"IEX");
/// Prices come in ten-thousandths of a dollar.
const DECIMALS: u8 = 4;
/// `RDN_EXCHD2` of the exchange, and US dollars.
const SHAPE: Shape = Shape { decimals: DECIMALS, currency: 840, exchange: 1_386 };

/// A capture that is played.
pub struct CaptureReplay {
    path: PathBuf,
    config: ReplayConfig,
    capture: Capture,
    /// What its instruments end in.
    suffix: &'static str,
    next: Option<Heard>,
    /// Recorded and caller's time of the first message.
    first: u64,
    started_at: Nanos,
    /// Recorded time never goes back: that of the newest message. What fields show is each message's own.
    now: u64,
    ended: bool,
    items: Vec<Item>,
    by_symbol: HashMap<[u8; 8], u32>,
    watched: usize,
    /// Messages were missing since the feed began.
    data: DataState,
    /// What became of the readings before this one.
    before: Counters,
    /// Why the capture could not be read to its end.
    trouble: Option<String>,
    payload: Vec<u8>,
}

/// Messages that are looked through for symbols: the exchange names all of a day at its beginning.
const LOOKED_THROUGH: u64 = 5_000_000;

struct Item {
    record: Record,
    book: LevelBook,
    price_watched: bool,
    book_watched: bool,
    /// Levels that changed since the book was last consistent.
    changes: BookChanges,
    /// The day's trades, for when one of them is broken.
    trades: Vec<Traded>,
}

/// A trade of the day.
#[derive(Clone, Copy, Debug)]
struct Traded {
    id: i64,
    moment: Moment,
    price: i64,
    size: u32,
    eligible: bool,
}

/// The sizes at each price, and when they were told.
#[derive(Clone, Debug, Default)]
pub struct LevelBook {
    sides: [BTreeMap<i64, LevelSize>; 2],
}

/// What is at a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelSize {
    /// All that is there.
    pub size: u32,
    /// When that was told.
    pub at: Moment,
}

impl LevelBook {
    /// Sets the size at a price, 0 removes it; says what that was.
    pub fn set(&mut self, side: BookSide, price: i64, size: u32, at: Moment) -> Option<Action> {
        let levels = &mut self.sides[side as usize];
        if size == 0 {
            return levels.remove(&price).map(|_| Action::Delete);
        }
        Some(if levels.insert(price, LevelSize { size, at }).is_some() { Action::Update } else { Action::Add })
    }

    /// The best level of a side.
    pub fn best(&self, side: BookSide) -> Option<(i64, u32)> {
        let levels = &self.sides[side as usize];
        let best = if side == BookSide::Bid { levels.last_key_value() } else { levels.first_key_value() };
        best.map(|(price, level)| (*price, level.size))
    }

    /// What is at a price.
    pub fn at(&self, side: BookSide, price: i64) -> Option<LevelSize> {
        self.sides[side as usize].get(&price).copied()
    }

    /// All levels: bids from the best down, then asks from the best up.
    pub fn levels(&self) -> impl Iterator<Item = (BookSide, i64, LevelSize)> {
        let bids = self.sides[0].iter().rev().map(|(p, s)| (BookSide::Bid, *p, *s));
        bids.chain(self.sides[1].iter().map(|(p, s)| (BookSide::Ask, *p, *s)))
    }

    fn clear(&mut self) {
        self.sides.iter_mut().for_each(BTreeMap::clear);
    }
}

impl CaptureReplay {
    /// Opens a capture.
    ///
    /// # Errors
    /// When it cannot be read, is no capture, or holds no message of the exchange.
    pub fn open(path: &Path, config: ReplayConfig) -> io::Result<Self> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let looked = Capture::open(path).and_then(|capture| capture.symbols(LOOKED_THROUGH));
        // What goes wrong on the way is met again when it is played, but then it is late.
        let (symbols, trouble) = match looked {
            Ok((symbols, left_out)) => (symbols, (!left_out.is_whole_file()).then(|| whole_file(left_out))),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let mut capture = Capture::open(path).map_err(named)?;
        let next = next_of(&mut capture).map_err(named)?;
        let empty =
            || named(io::Error::new(io::ErrorKind::InvalidData, "holds no quotes, trades or levels of the exchange"));
        let (next, first) = next.ok_or_else(empty)?;
        let suffix = match capture.feed() {
            Feed::Tops => ".IEX",
            Feed::Deep => ".DEEP",
        };
        let mut replay = Self {
            path: path.to_owned(),
            config,
            capture,
            suffix,
            next: Some(next),
            first,
            started_at: 0,
            now: first,
            ended: false,
            items: Vec::new(),
            by_symbol: HashMap::new(),
            watched: 0,
            data: DataState::OK,
            before: Counters::default(),
            trouble,
            payload: Vec::with_capacity(1024),
        };
        for symbol in symbols {
            replay.item_of(symbol);
        }
        Ok(replay)
    }

    /// Names that it plays, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.items.iter().map(|item| &*item.record.name)
    }

    /// What the names of its instruments end in.
    pub fn suffix(&self) -> &'static str {
        self.suffix
    }

    fn item_of(&mut self, symbol: [u8; 8]) -> u32 {
        if let Some(&at) = self.by_symbol.get(&symbol) {
            return at;
        }
        let text = String::from_utf8_lossy(&symbol);
        let name = format!("{}{}", text.trim_end_matches(' '), self.suffix);
        let mut profile = Profile::of("X.N", 0).expect("an ordinary name");
        (profile.decimals, profile.base_price, profile.market.exchange) = (DECIMALS, 0, SHAPE.exchange);
        let at = self.items.len() as u32;
        self.items.push(Item {
            record: Record::new(&name, &profile, Moment::from_epoch(self.now)),
            book: LevelBook::default(),
            price_watched: false,
            book_watched: false,
            changes: BookChanges::default(),
            trades: Vec::new(),
        });
        self.by_symbol.insert(symbol, at);
        at
    }

    /// When a message of this recorded time is due.
    fn due_at(&self, time: u64) -> Nanos {
        match self.config.pace {
            ReplaySpeed::Unpaced => 0,
            ReplaySpeed::Scaled(scale) => self.started_at + (time.saturating_sub(self.first) as f64 / scale) as Nanos,
        }
    }

    /// Takes what comes next; returns the events told.
    fn step(&mut self, now: Nanos, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let Some(next) = self.next.take() else { return self.restart(now, sink) };
        let told = match next {
            Heard::Message(message) => {
                self.now = self.now.max(message.time);
                let at = self.item_of(message.symbol);
                self.apply(at, message, sink)
            }
            Heard::Restart => {
                self.data = DataState::OK;
                self.clear_all(sink)
            }
            Heard::Lost(count) => self.suspect_all(count, sink),
        };
        match self.capture.next_heard() {
            Ok(Some(next)) => self.next = Some(next),
            Ok(None) => self.ended = true,
            Err(error) => {
                self.trouble = Some(error.to_string());
                self.ended = true;
            }
        }
        told
    }

    fn apply(&mut self, at: u32, message: Message, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let moment = Moment::from_epoch(message.time);
        let Self { items, payload, .. } = self;
        let item = &mut items[at as usize];
        let mut tell = Teller { at, payload, sink, told: 0 };
        match message.what {
            What::Trade { price, size, id, eligible } => {
                item.trade(Traded { id, moment, price, size, eligible }, &mut tell);
            }
            What::Break { id } => item.break_trade(id, &mut tell),
            What::Quote { bid, bid_size, ask, ask_size } => {
                item.quote(moment, side_of(bid, bid_size), side_of(ask, ask_size), &mut tell);
            }
            What::Level { buy, price, size, settled } => {
                let side = if buy { BookSide::Bid } else { BookSide::Ask };
                if let Some(action) = item.book.set(side, price, size, moment) {
                    item.changes.level(action, side, price);
                }
                if settled {
                    item.settle(moment, &mut tell);
                }
            }
        }
        tell.told
    }

    /// Messages are missing: nobody knows of which items.
    fn suspect_all(&mut self, count: u64, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        if self.data == DataState::SUSPECT {
            return 0;
        }
        self.data = DataState::SUSPECT;
        let text = format!("{count} messages are missing from the recording");
        let state = State { stream: StreamState::OPEN, data: self.data, code: StateCode::NONE, text: text.as_bytes() };
        let status = StatusMsg { state: Some(state), ..StatusMsg::new(Domain::MARKET_PRICE, 0) };
        let mut told = 0;
        for (at, item) in self.items.iter().enumerate() {
            let mut tell = Teller { at: at as u32, payload: &mut self.payload, sink, told: 0 };
            for (model, _) in
                [(Model::Price, item.price_watched), (Model::ByPrice, item.book_watched)].iter().filter(|m| m.1)
            {
                tell.tell(*model, Payload::Status, |payload| {
                    crate::fields::append(payload, text.len() + 64, |w| status.encode(w));
                });
            }
            told += tell.told;
        }
        told
    }

    /// The feed began again: books and best quotes are empty, and those who watch are told.
    fn clear_all(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let moment = Moment::from_epoch(self.now);
        let Self { items, payload, .. } = self;
        let mut told = 0;
        for (at, item) in items.iter_mut().enumerate() {
            item.book.clear();
            item.changes.clear();
            item.record.quote(moment, Side::NONE, Side::NONE);
            let mut tell = Teller { at: at as u32, payload, sink, told: 0 };
            tell.image(item, moment);
            told += tell.told;
        }
        told
    }

    /// The capture was played to its end: a new session from its beginning.
    fn restart(&mut self, now: Nanos, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let reopened = Capture::open(&self.path).and_then(|mut capture| Ok((next_of(&mut capture)?, capture)));
        let (next, first, capture) = match reopened {
            Ok((Some((next, first)), capture)) => (next, first, capture),
            // The file is gone or damaged now: what was published stays as it is.
            Ok((None, _)) => return self.give_up("holds nothing any more".to_owned()),
            Err(error) => return self.give_up(error.to_string()),
        };
        self.before = self.counters();
        (self.next, self.capture) = (Some(next), capture);
        (self.first, self.now, self.started_at) = (first, first, now);
        (self.ended, self.data) = (false, DataState::OK);
        let today = Moment::from_epoch(self.now);
        for item in &mut self.items {
            item.record.roll(today);
            item.trades.clear();
        }
        self.clear_all(sink)
    }

    /// It is not played again.
    fn give_up(&mut self, why: String) -> usize {
        self.config.repeat = false;
        self.trouble = Some(why);
        0
    }

    /// What all readings of the capture had beside messages.
    fn counters(&self) -> Counters {
        let (before, now) = (self.before, self.capture.counters());
        Counters {
            repeated: before.repeated + now.repeated,
            foreign: before.foreign + now.foreign,
            restarts: before.restarts + now.restarts,
            gaps: before.gaps + now.gaps,
            lost: before.lost + now.lost,
            short: before.short + now.short,
        }
    }
}

/// What is wrong with a file, apart from frames of any protocol that are short.
fn whole_file(left_out: capture::LeftOut) -> String {
    capture::LeftOut { short_frames: 0, ..left_out }.to_string()
}

/// What comes first in a capture, and when that was.
fn next_of(capture: &mut Capture) -> io::Result<Option<(Heard, u64)>> {
    while let Some(heard) = capture.next_heard()? {
        if let Heard::Message(message) = heard {
            return Ok(Some((heard, message.time)));
        }
    }
    Ok(None)
}

fn side_of(price: i64, size: u32) -> Side {
    if price > 0 && size > 0 { Side { price, size: u64::from(size), venue: VENUE } } else { Side::NONE }
}

impl Item {
    fn trade(&mut self, trade: Traded, tell: &mut Teller<'_>) {
        self.trades.push(trade);
        let change = self.count(trade);
        if self.price_watched {
            tell.price(UpdateKind::Trade, |payload| {
                append_fields(payload, |fields| self.record.write_trade(change, fields));
            });
        }
    }

    fn count(&mut self, trade: Traded) -> TradeChange {
        let Traded { moment, price, size, eligible, .. } = trade;
        if eligible {
            self.record.trade(moment, price, u64::from(size))
        } else {
            self.record.volume(price, u64::from(size))
        }
    }

    /// A trade was none: the day's values are those of the others.
    fn break_trade(&mut self, id: i64, tell: &mut Teller<'_>) {
        let Some(at) = self.trades.iter().rposition(|trade| trade.id == id) else { return };
        self.trades.remove(at);
        self.record.forget_trades();
        let trades = std::mem::take(&mut self.trades);
        for trade in &trades {
            self.count(*trade);
        }
        self.trades = trades;
        if self.price_watched {
            tell.price(UpdateKind::Correction, |payload| {
                append_fields(payload, |fields| self.record.write_trade(TradeChange::ALL, fields));
            });
        }
    }

    fn quote(&mut self, moment: Moment, bid: Side, ask: Side, tell: &mut Teller<'_>) {
        let change = self.record.quote(moment, bid, ask);
        if self.price_watched && !change.is_none() {
            tell.price(UpdateKind::Quote, |payload| {
                append_fields(payload, |fields| self.record.write_quote(change, fields));
            });
        }
    }

    /// The book is consistent: what changed is told, the best levels are the quote.
    fn settle(&mut self, moment: Moment, tell: &mut Teller<'_>) {
        let best = |side| self.book.best(side).map_or(Side::NONE, |(price, size)| side_of(price, size));
        let (bid, ask) = (best(BookSide::Bid), best(BookSide::Ask));
        self.quote(moment, bid, ask, tell);
        if self.book_watched && !self.changes.levels.is_empty() {
            tell.book(Payload::Update(UpdateKind::Unspecified), |payload| {
                levels::append_level_changes(&self.book, &self.changes.levels, SHAPE, moment, payload);
            });
        }
        self.changes.clear();
    }
}

struct Teller<'a> {
    at: u32,
    payload: &'a mut Vec<u8>,
    sink: &'a mut dyn FnMut(Event<'_>),
    told: usize,
}

impl Teller<'_> {
    fn price(&mut self, kind: UpdateKind, write: impl FnOnce(&mut Vec<u8>)) {
        self.tell(Model::Price, Payload::Update(kind), write);
    }

    fn book(&mut self, payload: Payload, write: impl FnOnce(&mut Vec<u8>)) {
        self.tell(Model::ByPrice, payload, write);
    }

    fn image(&mut self, item: &Item, moment: Moment) {
        if item.price_watched {
            self.tell(Model::Price, Payload::NewImage, |payload| {
                append_fields(payload, |fields| item.record.write_image(fields));
            });
        }
        if item.book_watched {
            self.book(Payload::NewImage, |payload| {
                levels::append_level_image(&item.book, SHAPE, moment, payload);
            });
        }
    }

    fn tell(&mut self, model: Model, payload: Payload, write: impl FnOnce(&mut Vec<u8>)) {
        self.payload.clear();
        write(self.payload);
        (self.sink)(Event { instrument: InstrumentId(self.at), model, payload, body: self.payload });
        self.told += 1;
    }
}

impl MarketSource for CaptureReplay {
    fn find(&mut self, name: &str) -> Option<InstrumentId> {
        let symbol = name.strip_suffix(self.suffix).filter(|symbol| (1..=8).contains(&symbol.len()))?;
        let mut padded = [b' '; 8];
        padded[..symbol.len()].copy_from_slice(symbol.as_bytes());
        self.by_symbol.get(&padded).map(|at| InstrumentId(*at))
    }

    fn offers(&self, _: InstrumentId, model: Model) -> bool {
        model == Model::Price || model == Model::ByPrice && self.capture.feed() == Feed::Deep
    }

    fn data_state(&self, _: InstrumentId, _: Model) -> DataState {
        self.data
    }

    fn remarks(&self) -> Option<String> {
        let counters = self.counters();
        (counters.lost > 0)
            .then(|| format!("{}: {counters}; items are suspect until the feed begins anew", self.path.display()))
    }

    fn unread(&self) -> Option<String> {
        let (left_out, short) = (self.capture.left_out(), self.counters().short);
        let why = self.trouble.clone().or_else(|| (!left_out.is_whole_file()).then(|| whole_file(left_out)));
        let why = why.or_else(|| (short > 0).then(|| format!("{short} messages were captured in part (snap length)")));
        why.map(|why| format!("{}: {why}", self.path.display()))
    }

    fn image(&mut self, id: InstrumentId, model: Model, _: usize, out: &mut Vec<u8>) -> bool {
        let item = &self.items[id.0 as usize];
        match model {
            Model::ByPrice => levels::append_level_image(&item.book, SHAPE, Moment::from_epoch(self.now), out),
            _ => append_fields(out, |fields| item.record.write_image(fields)),
        }
        false
    }

    fn watch(&mut self, id: InstrumentId, model: Model, on: bool) {
        let item = &mut self.items[id.0 as usize];
        let flag = if model == Model::ByPrice { &mut item.book_watched } else { &mut item.price_watched };
        let before = std::mem::replace(flag, on);
        self.watched = self.watched + usize::from(on) - usize::from(before);
    }

    fn due(&self) -> Option<Nanos> {
        if self.watched == 0 && self.config.pace == ReplaySpeed::Unpaced {
            return None;
        }
        match &self.next {
            Some(Heard::Message(message)) => Some(self.due_at(message.time.max(self.now))),
            Some(Heard::Restart | Heard::Lost(_)) => Some(self.due_at(self.now)),
            None => (self.ended && self.config.repeat).then(|| self.due_at(self.now) + self.config.pause),
        }
    }

    fn symbols(&self) -> Vec<String> {
        self.items.iter().map(|i| i.record.name.to_string()).collect()
    }

    fn advance(&mut self, now: Nanos, limit: usize, sink: &mut dyn FnMut(Event<'_>)) {
        let (mut told, mut silent) = (0, 0);
        while told + silent / 16 < limit && self.due().is_some_and(|at| at <= now) {
            let count = self.step(now, sink);
            told += count;
            silent += usize::from(count == 0);
        }
    }
}

#[cfg(test)]
mod tests;
