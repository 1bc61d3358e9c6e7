//! A venue's events as items of a service: values, books, states, and the messages that tell what changed.
//!
//! Handlers tell of a message as they apply it ([`Board::begin`], events, [`Board::trade`], ...); once it is applied, [`Board::settle`] compares the
//! books with what was told of them. What is not watched costs a comparison of the best prices.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use market::{BookId, Event as BookEvent, Events, Level, LevelChange, ReadBooks, Side};
use rwf::msg::{Domain, StatusMsg};
use rwf::wire::Writer;
use rwf::{DataState, EncodeError, MapAction, State, StateCode, StreamState};

use super::depth::{Depth, ENTRIES, LevelTimes, LevelTouch, OrderChange, update_room};
use super::symbology::Symbology;
use super::values::{Auction, Facts, Print, Status, Values};
use crate::fields::{FIELDS_ROOM, append_fields, write_fields};
use crate::{Event, InstrumentId, Model, Payload, UpdateKind};

/// No item.
const NONE: u32 = u32::MAX;
/// Books are numbered densely by venues; more than this is a number that was made up.
const MOST_BOOKS: u32 = 1 << 20;

/// All items of a feed.
pub(super) struct Board {
    facts: Facts,
    models: &'static [Model],
    suffix: String,
    items: Vec<Item>,
    by_name: HashMap<String, u32>,
    by_symbol: HashMap<String, u32>,
    symbology: Option<Arc<Symbology>>,
    /// Symbols whose name is another one's, so that nobody finds them.
    clashes: Vec<String>,
    by_book: Vec<u32>,
    touched: Vec<u32>,
    outbox: Outbox,
    /// Venue's time of the message that is being applied, nanoseconds since 1970.
    now: u64,
    /// Nanoseconds from 1970 to where the venue's orders count their time from.
    pub(super) midnight: u64,
    /// Why all items are in doubt.
    doubt: Option<String>,
    /// Nothing has come since the session began.
    is_fresh: bool,
    /// The beginning is passed over: nothing is told.
    is_silent: bool,
    /// Where the market is in its day.
    phase: Option<&'static str>,
    resolved: Vec<(MapAction, Side, Level)>,
}

struct Item {
    name: String,
    /// Its units; the rest is the feed's.
    facts: Facts,
    symbol: String,
    /// Empty: none is told.
    isin: String,
    book: Option<BookId>,
    values: Values,
    times: LevelTimes,
    /// By model: see [`slot`].
    watched: [bool; 3],
    /// Its own messages named what is not there.
    is_in_doubt: bool,
    /// The venue's handler does not vouch for its book.
    is_suspect: bool,
    is_touched: bool,
    changes: Changes,
}

/// What happened since the item was last told.
#[derive(Default)]
struct Changes {
    /// The book: its best prices may be others.
    book: bool,
    /// The venue tells best prices itself.
    quote: Option<[Option<Level>; 2]>,
    /// All went at once: nothing but an image tells that.
    is_cleared: bool,
    orders: Vec<OrderChange>,
    levels: Vec<LevelTouch>,
}

/// Messages that wait for the end of what is being applied.
#[derive(Default)]
struct Outbox {
    /// Memory for bodies, which is not cleared between them; those that wait are its first `used` bytes.
    bytes: Vec<u8>,
    used: usize,
    /// Item, what it is, and where its body ends.
    entries: Vec<(u32, Model, Payload, usize)>,
}

impl Outbox {
    /// Puts a message of at most `room` bytes, which its shape guarantees: a failure is a mistake of this program and shows as an empty body.
    fn put(
        &mut self,
        item: u32,
        model: Model,
        payload: Payload,
        room: usize,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>,
    ) {
        let end = self.used + room;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        let mut w = Writer::new(&mut self.bytes[self.used..end]);
        let result = write(&mut w);
        debug_assert!(result.is_ok(), "{result:?}");
        self.used += if result.is_ok() { w.position() } else { 0 };
        self.entries.push((item, model, payload, self.used));
    }
}

fn slot(model: Model) -> Option<usize> {
    match model {
        Model::Price => Some(0),
        Model::ByOrder => Some(1),
        Model::ByPrice => Some(2),
        Model::SymbolList => None,
    }
}

const PRICE: usize = 0;
const BY_ORDER: usize = 1;
const BY_PRICE: usize = 2;

/// Names and who watches them.
impl Board {
    pub(super) fn new(facts: Facts, models: &'static [Model], suffix: &str) -> Self {
        Self {
            facts,
            models,
            suffix: suffix.to_owned(),
            items: Vec::new(),
            by_name: HashMap::new(),
            by_symbol: HashMap::new(),
            symbology: None,
            clashes: Vec::new(),
            by_book: Vec::new(),
            touched: Vec::new(),
            outbox: Outbox::default(),
            now: 0,
            midnight: 0,
            doubt: None,
            is_fresh: true,
            is_silent: false,
            phase: None,
            resolved: Vec::new(),
        }
    }

    /// Names of symbols, for items that are not made yet.
    pub(super) fn set_symbology(&mut self, symbology: Option<Arc<Symbology>>) {
        self.symbology = symbology;
    }

    /// Symbols that cannot be asked for, for people.
    pub(super) fn clashes(&self) -> Option<String> {
        let first = self.clashes.first()?;
        let count = self.clashes.len();
        Some(format!("{count} symbols have a name that another one has, and cannot be asked for, as {first}"))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let is_found = |(at, item): &(usize, &Item)| self.by_name.get(&item.name) == Some(&(*at as u32));
        self.items.iter().enumerate().filter(is_found).map(|(_, item)| item.name.as_str())
    }

    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(super) fn models(&self) -> &'static [Model] {
        self.models
    }

    pub(super) fn watch(&mut self, item: u32, model: Model, on: bool) {
        if let Some(slot) = slot(model) {
            self.items[item as usize].watched[slot] = on;
        }
    }

    /// The item of a venue's symbol, made if it is new.
    pub(super) fn item(&mut self, symbol: &str) -> u32 {
        if let Some(at) = self.by_symbol.get(symbol) {
            return *at;
        }
        let at = self.items.len() as u32;
        let known = self.symbology.as_ref();
        let name = known.and_then(|known| known.name(symbol)).map(str::to_owned);
        let isin = known.and_then(|known| known.isin(symbol)).unwrap_or_default().to_owned();
        let name = name.unwrap_or_else(|| format!("{symbol}{}", self.suffix));
        self.by_symbol.insert(symbol.to_owned(), at);
        match self.by_name.entry(name.clone()) {
            Entry::Vacant(free) => drop(free.insert(at)),
            Entry::Occupied(_) => self.clashes.push(symbol.to_owned()),
        }
        self.items.push(Item {
            name,
            facts: self.facts,
            symbol: symbol.to_owned(),
            isin,
            book: None,
            values: Values::begin(self.phase),
            times: LevelTimes::default(),
            watched: [false; 3],
            is_in_doubt: false,
            is_suspect: false,
            is_touched: false,
            changes: Changes::default(),
        });
        at
    }

    /// Venue's time of what is being applied, nanoseconds since 1970.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// From now on a book is that of a symbol.
    pub(super) fn name_book(&mut self, book: BookId, symbol: &str) -> u32 {
        let at = self.item(symbol);
        if book.0 < MOST_BOOKS {
            if self.by_book.len() <= book.0 as usize {
                self.by_book.resize(book.0 as usize + 1, NONE);
            }
            self.by_book[book.0 as usize] = at;
            self.items[at as usize].book = Some(book);
        }
        at
    }

    pub(super) fn is_named(&self, book: BookId) -> bool {
        self.at(book).is_some()
    }

    /// The item of a book. `None`: the venue has not told yet whose it is, so that nobody can have asked for it; what callers are told of it is in its
    /// book, which the image has once it is named ([`Board::renew`]).
    fn at(&self, book: BookId) -> Option<u32> {
        self.by_book.get(book.0 as usize).copied().filter(|at| *at != NONE)
    }

    pub(super) fn data_state(&self, item: u32) -> DataState {
        let is_good = self.doubt.is_none() && self.items[item as usize].is_good();
        if is_good { DataState::OK } else { DataState::SUSPECT }
    }

    pub(super) fn image(&self, item: u32, model: Model, part: usize, books: &dyn ReadBooks, out: &mut Vec<u8>) -> bool {
        let at = &self.items[item as usize];
        if model == Model::Price {
            append_fields(out, |fields| at.values.write_image(&at.facts, [&at.name, &at.symbol, &at.isin], fields));
            return false;
        }
        self.depth(at, books).append_image(model, self.now, part, out)
    }

    fn depth<'a>(&'a self, item: &'a Item, books: &'a dyn ReadBooks) -> Depth<'a> {
        Depth { facts: &item.facts, books, book: item.book, times: &item.times, midnight: self.midnight }
    }
}

/// What handlers tell.
impl Board {
    /// What is told from here on has this time of the venue.
    pub(super) fn begin(&mut self, at: u64) {
        self.now = at;
    }

    /// A new session: books and values of the one before are void, and so is what was in doubt.
    pub(super) fn begin_session(&mut self) {
        let was_good = self.doubt.take().is_none();
        if std::mem::replace(&mut self.is_fresh, true) && was_good {
            return;
        }
        self.by_book.clear();
        self.phase = None;
        for at in 0..self.items.len() as u32 {
            let item = &mut self.items[at as usize];
            item.book = None;
            item.values = Values::begin(None);
            item.times.clear();
            (item.is_in_doubt, item.facts) = (false, self.facts);
            item.changes = Changes { is_cleared: true, book: true, ..Changes::default() };
            self.touch(at);
        }
    }

    /// The best prices, of a venue that tells no books.
    pub(super) fn quote(&mut self, item: u32, bid: Option<Level>, ask: Option<Level>) {
        self.is_fresh = false;
        let changes = &mut self.items[item as usize].changes;
        (changes.book, changes.quote) = (true, Some([bid, ask]));
        self.touch(item);
    }

    pub(super) fn trade(&mut self, item: u32, print: Print) {
        let change = self.items[item as usize].values.trade(print);
        self.tell_values(item, UpdateKind::Trade, |values, facts, fields| values.write_trade(facts, change, fields));
    }

    pub(super) fn break_trade(&mut self, item: u32, number: u64) {
        if self.items[item as usize].values.break_trade(number) {
            self.tell_values(item, UpdateKind::Correction, Values::write_correction);
        }
    }

    /// Changes what the venue says of the item; told if that is news.
    pub(super) fn status(&mut self, item: u32, change: impl FnOnce(&mut Status)) {
        let values = &mut self.items[item as usize].values;
        let before = values.status.clone();
        change(&mut values.status);
        if before != values.status {
            self.tell_values(item, UpdateKind::Unspecified, Values::write_status);
        }
    }

    pub(super) fn auction(&mut self, item: u32, auction: Auction) {
        let values = &mut self.items[item as usize].values;
        if values.auction.replace(auction) != Some(auction) {
            self.tell_values(item, UpdateKind::Unspecified, Values::write_auction);
        }
    }

    /// Where the market is in its day, told of all items.
    pub(super) fn market_phase(&mut self, phase: &'static str) {
        self.phase = Some(phase);
        for at in 0..self.items.len() as u32 {
            self.status(at, |status| status.market = Some(phase));
        }
    }

    fn tell_values(
        &mut self,
        at: u32,
        kind: UpdateKind,
        write: impl FnOnce(&Values, &Facts, &mut crate::fields::FieldWriter<'_, '_>),
    ) {
        self.is_fresh = false;
        let Self { items, outbox, is_silent, .. } = self;
        let item = &items[at as usize];
        if item.watched[PRICE] && !*is_silent {
            outbox.put(at, Model::Price, Payload::Update(kind), FIELDS_ROOM, |w| {
                write_fields(w, |fields| write(&item.values, &item.facts, fields))
            });
        }
    }

    /// The item of a book, if the venue has named it.
    pub(super) fn of_book(&self, book: BookId) -> Option<u32> {
        self.at(book)
    }

    /// Nobody knows of which items messages are missing: all are Suspect until [`Board::trust`] or the next session.
    pub(super) fn doubt(&mut self, why: &str) {
        if self.doubt.is_none() {
            self.doubt = Some(why.to_owned());
            self.tell_state(Item::is_good, DataState::SUSPECT, why);
        }
    }

    /// All that was missing has come.
    pub(super) fn trust(&mut self) {
        if self.doubt.take().is_some() {
            self.tell_state(Item::is_good, DataState::OK, "all that was missing has come");
        }
    }

    /// A book's messages name what is not there.
    pub(super) fn doubt_book(&mut self, book: BookId, why: &str) {
        // No item, no consumer.
        let Some(at) = self.at(book) else { return };
        let item = &mut self.items[at as usize];
        let was_good = item.is_good();
        item.is_in_doubt = true;
        if was_good && self.doubt.is_none() {
            self.tell_state_of(at, DataState::SUSPECT, why);
        }
    }

    /// Nothing is known of an item's book before the handler vouches for it.
    pub(super) fn await_book(&mut self, item: u32) {
        self.items[item as usize].is_suspect = true;
    }

    /// The handler does not vouch for a book, until it [does](Board::vouch): whatever comes of it meanwhile.
    pub(super) fn suspect(&mut self, book: BookId, why: &str) {
        // No item, no consumer.
        let Some(at) = self.at(book) else { return };
        let item = &mut self.items[at as usize];
        let was_good = item.is_good();
        item.is_suspect = true;
        if was_good && self.doubt.is_none() {
            self.tell_state_of(at, DataState::SUSPECT, why);
        }
    }

    /// The handler vouches for a book. Where a new image waits to be told, that says it.
    pub(super) fn vouch(&mut self, book: BookId) {
        // No item, no consumer.
        let Some(at) = self.at(book) else { return };
        let item = &mut self.items[at as usize];
        let was_suspect = std::mem::replace(&mut item.is_suspect, false);
        if was_suspect && item.is_good() && self.doubt.is_none() && !item.changes.is_cleared {
            self.tell_state_of(at, DataState::OK, "the book is the exchange's again");
        }
    }

    /// The book of an item has come before its name: it is told as a new image.
    pub(super) fn renew(&mut self, book: BookId) {
        // No item, no consumer.
        let Some(at) = self.at(book) else { return };
        self.items[at as usize].changes = Changes { is_cleared: true, book: true, ..Changes::default() };
        self.touch(at);
    }

    /// Prices and sizes of a book count in these decimals from here on, which are never fewer than before.
    pub(super) fn scale(&mut self, book: BookId, decimals: u8, size_decimals: u8) {
        // No item, no consumer.
        let Some(at) = self.at(book) else { return };
        let item = &mut self.items[at as usize];
        let factor = |old: u8, new: u8| 10i64.saturating_pow(u32::from(new.saturating_sub(old)));
        let prices = factor(item.facts.decimals, decimals);
        let sizes = factor(item.facts.size_decimals, size_decimals);
        item.values.refine(prices, sizes.unsigned_abs());
        (item.facts.decimals, item.facts.size_decimals) = (decimals, size_decimals);
    }

    fn tell_state(&mut self, which: impl Fn(&Item) -> bool, data: DataState, text: &str) {
        for at in 0..self.items.len() as u32 {
            if which(&self.items[at as usize]) {
                self.tell_state_of(at, data, text);
            }
        }
    }

    fn tell_state_of(&mut self, at: u32, data: DataState, text: &str) {
        if self.is_silent {
            return;
        }
        let state = State { stream: StreamState::OPEN, data, code: StateCode::NONE, text: text.as_bytes() };
        let status = StatusMsg { state: Some(state), ..StatusMsg::new(Domain::MARKET_PRICE, 0) };
        for model in [Model::Price, Model::ByOrder, Model::ByPrice] {
            if slot(model).is_some_and(|slot| self.items[at as usize].watched[slot]) {
                self.outbox.put(at, model, Payload::Status, text.len() + 64, |w| status.encode(w));
            }
        }
    }

    fn touch(&mut self, at: u32) {
        let item = &mut self.items[at as usize];
        if !std::mem::replace(&mut item.is_touched, true) {
            self.touched.push(at);
        }
    }
}

impl Events for Board {
    const WANTS_RANK: bool = false;

    fn event(&mut self, book: BookId, event: &BookEvent) {
        self.is_fresh = false;
        // No item, no consumer.
        let Some(at) = self.at(book) else { return };
        let now = self.now;
        let item = &mut self.items[at as usize];
        let order = |action, order| OrderChange { action, order };
        if item.watched[BY_ORDER] && !item.changes.is_cleared {
            let orders = &mut item.changes.orders;
            match event {
                BookEvent::Added(new) => orders.push(order(MapAction::ADD, *new)),
                BookEvent::Reduced { order: left, .. } => orders.push(order(MapAction::UPDATE, *left)),
                BookEvent::Removed { order: old, .. } => orders.push(order(MapAction::DELETE, *old)),
                BookEvent::Replaced { old, new, .. } if old.reference == new.reference => {
                    orders.push(order(MapAction::UPDATE, *new));
                }
                BookEvent::Replaced { old, new, .. } => {
                    orders.extend([order(MapAction::DELETE, *old), order(MapAction::ADD, *new)]);
                }
                BookEvent::FillTold { .. } | BookEvent::Level { .. } | BookEvent::Cleared { .. } => {}
            }
        }
        match event {
            BookEvent::Level { side, level, change, .. } => item.level(*side, level.price, *change, now),
            BookEvent::Cleared { side } => {
                item.times.retain(|key, _| side.is_some_and(|side| side != key.0));
                item.changes = Changes { is_cleared: true, book: true, ..Changes::default() };
                // Instruments that nobody had heard of are gone with the rest.
                item.is_in_doubt &= side.is_some();
            }
            _ => {}
        }
        self.touch(at);
    }
}

impl Item {
    fn is_good(&self) -> bool {
        !self.is_in_doubt && !self.is_suspect
    }

    fn level(&mut self, side: Side, price: i64, change: LevelChange, now: u64) {
        self.changes.book = true;
        if change == LevelChange::Gone {
            self.times.remove(&(side, price));
        } else {
            self.times.insert((side, price), now);
        }
        let is_told = self.watched[BY_PRICE] && !self.changes.is_cleared;
        let touches = &mut self.changes.levels;
        if is_told && !touches.iter().any(|touch| (touch.side, touch.price) == (side, price)) {
            touches.push(LevelTouch { side, price, was: change != LevelChange::New });
        }
    }
}

/// What is told.
impl Board {
    /// Nothing is told until [`Board::speak`].
    pub(super) fn be_silent(&mut self) {
        self.is_silent = true;
    }

    /// From now on all is told, beginning with images of what is watched.
    pub(super) fn speak(&mut self) {
        self.is_silent = false;
        for at in 0..self.items.len() as u32 {
            self.items[at as usize].changes.is_cleared = true;
            self.touch(at);
        }
    }

    /// A message has been applied, and the books are fit to be published: puts what it changed into the outbox.
    pub(super) fn settle(&mut self, books: &dyn ReadBooks) {
        let mut touched = std::mem::take(&mut self.touched);
        for at in touched.drain(..) {
            self.settle_one(at, books);
        }
        self.touched = touched;
    }

    /// One book is fit to be published; others may be within an event.
    pub(super) fn settle_book(&mut self, book: BookId, books: &dyn ReadBooks) {
        // No item, no consumer.
        let Some(at) = self.at(book) else { return };
        if let Some(touched) = self.touched.iter().position(|touched| *touched == at) {
            self.touched.swap_remove(touched);
            self.settle_one(at, books);
        }
    }

    fn settle_one(&mut self, at: u32, books: &dyn ReadBooks) {
        let item = &mut self.items[at as usize];
        item.is_touched = false;
        let mut changes = std::mem::take(&mut item.changes);
        self.settle_item(at, &changes, books);
        // Their memory is used again.
        changes.orders.clear();
        changes.levels.clear();
        (changes.book, changes.quote, changes.is_cleared) = (false, None, false);
        self.items[at as usize].changes = changes;
    }

    fn settle_item(&mut self, at: u32, changes: &Changes, books: &dyn ReadBooks) {
        let now = self.now;
        let item = &mut self.items[at as usize];
        let best = |side| item.book.and_then(|book| books.best(book, side));
        let [bid, ask] = changes.quote.unwrap_or_else(|| Side::BOTH.map(best));
        let change =
            if changes.book { item.values.quote(bid, ask, now) } else { super::values::QuoteChange::default() };
        let watched = item.watched;
        if self.is_silent || watched == [false; 3] {
            return;
        }
        if changes.is_cleared {
            return self.tell_images(at, books);
        }
        let mut outbox = std::mem::take(&mut self.outbox);
        let mut resolved = std::mem::take(&mut self.resolved);
        let item = &self.items[at as usize];
        if watched[PRICE] && !change.is_none() {
            outbox.put(at, Model::Price, Payload::Update(UpdateKind::Quote), FIELDS_ROOM, |w| {
                write_fields(w, |fields| item.values.write_quote(&item.facts, change, fields))
            });
        }
        let depth = self.depth(item, books);
        let plain = Payload::Update(UpdateKind::Unspecified);
        for some in changes.orders.chunks(ENTRIES) {
            outbox.put(at, Model::ByOrder, plain, update_room(some.len()), |w| depth.write_orders(some, w));
        }
        depth.resolve(&changes.levels, &mut resolved);
        for some in resolved.chunks(ENTRIES) {
            outbox.put(at, Model::ByPrice, plain, update_room(some.len()), |w| depth.write_levels(some, w));
        }
        (self.outbox, self.resolved) = (outbox, resolved);
    }

    /// Images of all that is watched of an item.
    fn tell_images(&mut self, at: u32, books: &dyn ReadBooks) {
        let mut outbox = std::mem::take(&mut self.outbox);
        for model in [Model::Price, Model::ByOrder, Model::ByPrice] {
            let mut part = 0;
            while slot(model).is_some_and(|slot| self.items[at as usize].watched[slot]) {
                let mut image = Vec::new();
                let more = self.image(at, model, part, books, &mut image);
                debug_assert!(!image.is_empty(), "an image without a byte");
                let payload = Payload::ImagePart { part: part as u16, more, data: self.data_state(at) };
                outbox.put(at, model, payload, image.len(), |w| w.bytes(&image));
                part += 1;
                if !more {
                    break;
                }
            }
        }
        self.outbox = outbox;
    }

    /// Gives what waits; returns how much that was.
    pub(super) fn flush(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let Outbox { bytes, used, entries } = &mut self.outbox;
        let mut start = 0;
        for (item, model, payload, end) in entries.iter() {
            let body = &bytes[start..*end];
            sink(Event { instrument: InstrumentId(*item), model: *model, payload: *payload, body });
            start = *end;
        }
        let told = entries.len();
        *used = 0;
        entries.clear();
        told
    }
}
