//! A recorded exchange feed as a market source: best quotes and trades as `MarketPrice`, price levels as `MarketByPrice`.
//!
//! Instruments are named by symbol and feed: `MSFT.IEX` of TOPS, `MSFT.DEEP` of DEEP. They appear as the feed tells of them; any symbol can be asked for
//! before that, and has an empty image then.

use super::ReplaySpeed;
use super::iex::{Capture, Feed, Message, What};
use crate::book::{Action, BookChanges, BookSide};
use crate::fields::append_fields;
use crate::instrument::{Profile, Venue, venue};
use crate::levels::{self, Shape};
use crate::record::{Record, Side};
use crate::replay::market::ReplayConfig;
use crate::session::{Moment, Nanos};
use crate::{Event, InstrumentId, MarketSource, Model, Payload, UpdateKind};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};

const VENUE: Venue = venue(0, *b"IEX");
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
    next: Option<Message>,
    /// Recorded and caller's time of the first message.
    first: u64,
    started_at: Nanos,
    /// Recorded time never goes back.
    now: u64,
    ended: bool,
    items: Vec<Item>,
    by_symbol: HashMap<[u8; 8], u32>,
    watched: usize,
    restarts: u64,
    payload: Vec<u8>,
}

struct Item {
    record: Record,
    book: LevelBook,
    price_watched: bool,
    book_watched: bool,
    /// Levels that changed since the book was last consistent.
    changes: BookChanges,
}

/// The sizes at each price.
#[derive(Clone, Debug, Default)]
pub struct LevelBook {
    sides: [BTreeMap<i64, u32>; 2],
}

impl LevelBook {
    /// Sets the size at a price, 0 removes it; says what that was.
    pub fn set(&mut self, side: BookSide, price: i64, size: u32) -> Option<Action> {
        let levels = &mut self.sides[side as usize];
        if size == 0 {
            return levels.remove(&price).map(|_| Action::Delete);
        }
        Some(if levels.insert(price, size).is_some() { Action::Update } else { Action::Add })
    }

    /// The best level of a side.
    pub fn best(&self, side: BookSide) -> Option<(i64, u32)> {
        let levels = &self.sides[side as usize];
        let best = if side == BookSide::Bid { levels.last_key_value() } else { levels.first_key_value() };
        best.map(|(price, size)| (*price, *size))
    }

    /// The size at a price.
    pub fn size(&self, side: BookSide, price: i64) -> Option<u32> {
        self.sides[side as usize].get(&price).copied()
    }

    /// All levels: bids from the best down, then asks from the best up.
    pub fn levels(&self) -> impl Iterator<Item = (BookSide, i64, u32)> {
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
        let mut capture = Capture::open(path).map_err(named)?;
        let next = capture.next_message().map_err(named)?;
        let empty =
            || named(io::Error::new(io::ErrorKind::InvalidData, "holds no quotes, trades or levels of the exchange"));
        let first = next.ok_or_else(empty)?.time;
        let suffix = match capture.feed() {
            Feed::Tops => ".IEX",
            Feed::Deep => ".DEEP",
        };
        Ok(Self {
            path: path.to_owned(),
            config,
            capture,
            suffix,
            next,
            first,
            started_at: 0,
            now: first,
            ended: false,
            items: Vec::new(),
            by_symbol: HashMap::new(),
            watched: 0,
            restarts: 0,
            payload: Vec::with_capacity(1024),
        })
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

    /// Takes the next message; returns the events told.
    fn step(&mut self, now: Nanos, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let Some(message) = self.next.take() else { return self.restart(now, sink) };
        self.now = self.now.max(message.time);
        let at = self.item_of(message.symbol);
        let told = self.apply(at, message.what, sink);
        match self.capture.next_message() {
            Ok(Some(next)) => self.next = Some(next),
            Ok(None) | Err(_) => self.ended = true,
        }
        if std::mem::replace(&mut self.restarts, self.capture.restarts) != self.capture.restarts {
            return told + self.clear_all(sink);
        }
        told
    }

    fn apply(&mut self, at: u32, what: What, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let moment = Moment::from_epoch(self.now);
        let Self { items, payload, .. } = self;
        let item = &mut items[at as usize];
        let mut tell = Teller { at, payload, sink, told: 0 };
        match what {
            What::Trade { price, size } => {
                let change = item.record.trade(moment, price, u64::from(size));
                if item.price_watched {
                    tell.price(UpdateKind::Trade, |payload| {
                        append_fields(payload, |fields| item.record.write_trade(change, fields));
                    });
                }
            }
            What::Quote { bid, bid_size, ask, ask_size } => {
                item.quote(moment, side_of(bid, bid_size), side_of(ask, ask_size), &mut tell);
            }
            What::Level { buy, price, size, settled } => {
                let side = if buy { BookSide::Bid } else { BookSide::Ask };
                if let Some(action) = item.book.set(side, price, size) {
                    item.changes.level(action, side, price);
                }
                if settled {
                    item.settle(moment, &mut tell);
                }
            }
        }
        tell.told
    }

    /// The feed began again: books are empty, and those who watch are told.
    fn clear_all(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let moment = Moment::from_epoch(self.now);
        let Self { items, payload, .. } = self;
        let mut told = 0;
        for (at, item) in items.iter_mut().enumerate() {
            item.book.clear();
            item.changes.clear();
            let mut tell = Teller { at: at as u32, payload, sink, told: 0 };
            tell.image(item, moment);
            told += tell.told;
        }
        told
    }

    /// The capture was played to its end: a new session from its beginning.
    fn restart(&mut self, now: Nanos, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let reopened = Capture::open(&self.path).and_then(|mut capture| Ok((capture.next_message()?, capture)));
        let Ok((Some(first), capture)) = reopened else {
            // The file is gone or damaged now: what was published stays as it is.
            self.watched = 0;
            return 0;
        };
        (self.next, self.capture) = (Some(first), capture);
        (self.first, self.now, self.started_at) = (first.time, first.time, now);
        (self.ended, self.restarts) = (false, 0);
        let today = Moment::from_epoch(self.now);
        for item in &mut self.items {
            item.record.roll(today);
        }
        self.clear_all(sink)
    }
}

fn side_of(price: i64, size: u32) -> Side {
    if price > 0 && size > 0 { Side { price, size: u64::from(size), venue: VENUE } } else { Side::NONE }
}

impl Item {
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
        let symbol = name.strip_suffix(self.suffix)?;
        let known = (1..=8).contains(&symbol.len()) && symbol.bytes().all(|b| b.is_ascii_graphic());
        let mut padded = [b' '; 8];
        padded[..symbol.len().min(8)].copy_from_slice(&symbol.as_bytes()[..symbol.len().min(8)]);
        known.then(|| InstrumentId(self.item_of(padded)))
    }

    fn offers(&self, _: InstrumentId, model: Model) -> bool {
        matches!(model, Model::Price | Model::ByPrice)
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
            Some(message) => Some(self.due_at(message.time.max(self.now))),
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
