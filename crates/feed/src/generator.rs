//! A market made of nothing: for any ordinary name a stream of quotes and trades with the statistics of a real one.
//!
//! Each instrument has a fair price that follows a common factor and a walk of its own. Its events are a self-exciting
//! (Hawkes) process, so they come in bursts; the day has an opening and a closing auction, busy mornings and quiet noons.
//! Quotes are set around the fair price, trades hit them, volume, high and low accumulate. Everything is a function of the
//! seed, the names and the time: two runs that open the same names at the same times publish the same bytes.

use super::book::{Book, Depths};
use super::fields::{FieldWriter, append_fields};
use super::instrument::{Kind, Profile, well_known};
use super::levels;
use super::random::{Random, hash};
use super::record::{Record, Side};
use super::session::{Calendar, Nanos, Phase, SECOND};
use super::{Event, InstrumentId, Model, Payload, UpdateKind};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// The settings that make one generated market different from another.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratorConfig {
    /// Chooses the world: instruments, prices, and what happens.
    pub seed: u64,
    /// Multiplies every instrument's event rate.
    pub rate: f64,
    /// Sessions and clock.
    pub calendar: Calendar,
}

/// The market.
#[derive(Debug)]
pub struct Generator {
    config: GeneratorConfig,
    factor: Factor,
    instruments: Vec<Instrument>,
    by_name: HashMap<Box<str>, InstrumentId>,
    /// When each watched instrument has its next event. Stale entries are those whose time is not the instrument's.
    due: BinaryHeap<Reverse<(Nanos, InstrumentId)>>,
    now: Nanos,
    depths: Depths,
    payload: Vec<u8>,
}

/// One instrument and where its processes stand.
#[derive(Debug)]
struct Instrument {
    profile: Profile,
    record: Record,
    random: Random,
    /// Natural logarithm of the fair price over the base price, without the market's part.
    own_walk: f64,
    /// The market's part when the instrument last moved.
    factor_seen: f64,
    moved_at: Nanos,
    /// Extra events a second that earlier events still cause.
    excitement: f64,
    excited_at: Nanos,
    buyers: bool,
    session: u32,
    auction_done: bool,
    watched: Watched,
    next_at: Nanos,
    book: Option<Book>,
}

/// Models of an instrument that somebody watches.
#[derive(Clone, Copy, Debug, Default)]
struct Watched {
    price: bool,
    by_order: bool,
    by_price: bool,
}

impl Watched {
    fn any(self) -> bool {
        self.price || self.by_order || self.by_price
    }

    fn model(&mut self, model: Model) -> Option<&mut bool> {
        match model {
            Model::Price => Some(&mut self.price),
            Model::ByOrder => Some(&mut self.by_order),
            Model::ByPrice => Some(&mut self.by_price),
            Model::SymbolList => None,
        }
    }
}

/// Share of events that earlier events cause; the rest comes by itself. Below 1, or the market would explode.
const BRANCHING: f64 = 0.6;
/// How fast excitement fades, per second.
const FADING: f64 = 2.0;
/// Share of a share's events that are trades.
const TRADE_SHARE: f64 = 0.14;
/// A trading day in seconds, to scale daily volatility.
const DAY_SECONDS: f64 = 23_400.0;

impl Generator {
    /// A market that starts at time 0 of the caller's clock.
    pub fn new(config: GeneratorConfig) -> Self {
        Self {
            factor: Factor::new(config.seed),
            config,
            instruments: Vec::new(),
            by_name: HashMap::new(),
            due: BinaryHeap::new(),
            now: 0,
            depths: Depths::default(),
            payload: Vec::with_capacity(8 * 1024),
        }
    }

    /// The instrument of `name`; `None` when the name is not an ordinary one.
    pub fn find(&mut self, name: &str) -> Option<InstrumentId> {
        if let Some(&id) = self.by_name.get(name) {
            return Some(id);
        }
        let profile = Profile::of(name, self.config.seed)?;
        let id = InstrumentId(self.instruments.len() as u32);
        self.instruments.push(Instrument::new(name, profile, &self.config, self.now));
        self.by_name.insert(name.into(), id);
        Some(id)
    }

    /// Names asked for so far, in that order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.instruments.iter().map(|i| &*i.record.name)
    }

    /// The values of an instrument now.
    pub fn record(&mut self, id: InstrumentId) -> &Record {
        self.settle(id);
        &self.instruments[id.0 as usize].record
    }

    /// Starts or stops the events of a model of an instrument.
    pub fn watch(&mut self, id: InstrumentId, model: Model, on: bool) {
        self.settle(id);
        let instrument = &mut self.instruments[id.0 as usize];
        let before = instrument.watched.any();
        if let Some(watched) = instrument.watched.model(model) {
            *watched = on;
        }
        if instrument.watched.any() && !before {
            let at = instrument.schedule(&self.config, &self.factor, self.now);
            self.due.push(Reverse((at, id)));
        }
        if !instrument.watched.by_order
            && !instrument.watched.by_price
            && let Some(book) = instrument.book.take()
        {
            self.depths.close(&book);
        }
    }

    /// Writes a part of the image of an instrument as a message payload; true when another part follows.
    pub fn image(&mut self, id: InstrumentId, model: Model, part: usize, out: &mut Vec<u8>) -> bool {
        self.settle(id);
        let instrument = &mut self.instruments[id.0 as usize];
        let at = self.config.calendar.moment(self.now);
        match model {
            Model::Price => {
                append_fields(out, |fields| instrument.record.write_image(fields));
                false
            }
            Model::ByPrice | Model::ByOrder => {
                instrument.open_book(&mut self.depths);
                let shape = instrument.shape();
                instrument.book.as_ref().is_some_and(|book| {
                    let book = self.depths.books.book(book.id());
                    levels::append_image(&book, model, shape, at, part, out)
                })
            }
            Model::SymbolList => false,
        }
    }

    /// When something will be due: nanoseconds on the caller's clock; `None` when nothing is watched.
    pub fn due(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Lets the market go on until `now` or until `limit` events were told, whichever is first.
    pub fn advance(&mut self, now: Nanos, limit: usize, sink: &mut dyn FnMut(Event<'_>)) {
        let mut told = 0;
        while told < limit {
            let Some(&Reverse((at, id))) = self.due.peek() else { break };
            if at > now {
                break;
            }
            self.due.pop();
            self.now = self.now.max(at);
            let instrument = &mut self.instruments[id.0 as usize];
            if instrument.next_at != at || !instrument.watched.any() {
                continue;
            }
            self.factor.advance(at);
            self.depths.changes.clear();
            let mut teller = Teller { id, sink, payload: &mut self.payload, told: &mut told };
            instrument.happen(&self.config, &self.factor, at, &mut self.depths, &mut teller);
            let next = instrument.schedule(&self.config, &self.factor, at);
            self.due.push(Reverse((next, id)));
        }
        if told < limit {
            self.now = self.now.max(now);
        }
    }

    /// Brings an instrument that nobody watched up to now.
    fn settle(&mut self, id: InstrumentId) {
        self.factor.advance(self.now);
        let instrument = &mut self.instruments[id.0 as usize];
        if !instrument.watched.any() {
            instrument.catch_up(&self.config, &self.factor, self.now);
        }
    }
}

/// Hands events of one instrument to the caller.
struct Teller<'a> {
    id: InstrumentId,
    sink: &'a mut dyn FnMut(Event<'_>),
    payload: &'a mut Vec<u8>,
    told: &'a mut usize,
}

impl Teller<'_> {
    fn fields(&mut self, payload: Payload, write: impl FnOnce(&mut FieldWriter<'_, '_>)) {
        self.payload.clear();
        append_fields(self.payload, write);
        self.tell(Model::Price, payload);
    }

    fn tell(&mut self, model: Model, payload: Payload) {
        *self.told += 1;
        (self.sink)(Event { instrument: self.id, model, payload, body: self.payload });
    }
}

impl Instrument {
    fn new(name: &str, profile: Profile, config: &GeneratorConfig, now: Nanos) -> Self {
        let calendar = &config.calendar;
        let (session, phase) = calendar.phase(now);
        let opened_at = if let Phase::Open { elapsed, .. } = phase { now as i64 - elapsed as i64 } else { now as i64 };
        let mut instrument = Self {
            record: Record::new(name, &profile, calendar.moment(now)),
            random: Random::new(hash(config.seed.rotate_left(17), name.as_bytes())),
            own_walk: 0.0,
            factor_seen: 0.0,
            moved_at: now,
            excitement: 0.0,
            excited_at: now,
            buyers: true,
            session,
            auction_done: false,
            watched: Watched::default(),
            next_at: 0,
            book: None,
            profile,
        };
        if matches!(phase, Phase::Open { .. }) {
            instrument.live_through(config, opened_at, now);
        }
        instrument
    }

    /// Lives through `from .. to` in a few coarse steps: what an instrument has done that nobody watched.
    fn live_through(&mut self, config: &GeneratorConfig, from: i64, to: Nanos) {
        const STEPS: u64 = 24;
        let span = (to as i64 - from).max(0) as u64;
        let step_seconds = span as f64 / STEPS as f64 / SECOND as f64;
        let trades = self.profile.rate * config.rate * 1.2 * TRADE_SHARE * step_seconds;
        for step in 0..STEPS {
            let at = (from + ((step + 1) * span / STEPS) as i64).max(0) as u64;
            self.own_walk += self.profile.volatility * (step_seconds / DAY_SECONDS).sqrt() * self.random.normal();
            let count = (trades * (0.5 + self.random.unit())).round();
            if self.profile.kind != Kind::Currency && (count > 0.0 || step == 0) {
                let size = (count.max(1.0) * f64::from(self.profile.typical_lots) * 0.4).ceil() as u64;
                let price = self.to_tick(self.fair());
                self.record.trade(config.calendar.moment(at), price, size * u64::from(self.profile.lot));
                self.record.trades += count as u64;
            }
        }
        self.auction_done = true;
        self.requote(config.calendar.moment(to));
    }

    fn catch_up(&mut self, config: &GeneratorConfig, factor: &Factor, now: Nanos) {
        let (session, Phase::Open { elapsed, .. }) = config.calendar.phase(now) else { return };
        if session != self.session {
            self.record.roll(config.calendar.moment(now));
            (self.session, self.auction_done) = (session, false);
        }
        self.follow(factor);
        if now - self.moved_at > SECOND || !self.auction_done {
            self.live_through(config, (now as i64 - elapsed as i64).max(self.moved_at as i64), now);
            self.moved_at = now;
        }
    }

    /// Takes the market's move since the last event.
    fn follow(&mut self, factor: &Factor) {
        self.own_walk += self.profile.beta * (factor.level - self.factor_seen);
        self.factor_seen = factor.level;
    }

    /// The fair price in units of the last decimal.
    fn fair(&self) -> f64 {
        self.profile.base_price as f64 * self.own_walk.clamp(-3.0, 3.0).exp()
    }

    fn to_tick(&self, price: f64) -> i64 {
        let tick = self.profile.tick;
        ((price / tick as f64).round() as i64).max(1) * tick
    }

    /// When its next event is, by thinning: the intensity only falls between events.
    fn schedule(&mut self, config: &GeneratorConfig, factor: &Factor, from: Nanos) -> Nanos {
        let mut at = from;
        if let (_, Phase::Closed { opens_at }) = config.calendar.phase(from) {
            let delay = self.random.exponential(1.5).min(30.0);
            self.next_at = opens_at + (delay * SECOND as f64) as u64;
            return self.next_at;
        }
        let own = self.profile.rate * config.rate * (1.0 - BRANCHING) * (1.0 + factor.heat);
        let intensity = |random: &mut Random, at: Nanos| {
            let since = (at - self.excited_at) as f64 / SECOND as f64;
            let activity = config.calendar.phase(at).1.activity();
            (own * activity + self.excitement * (-FADING * since).exp(), random.unit())
        };
        let mut random = self.random.clone();
        loop {
            let (bound, _) = intensity(&mut random, at);
            at += (random.exponential(1.0 / bound.max(1e-4)) * SECOND as f64).min(600e9) as u64 + 1;
            let (now, drawn) = intensity(&mut random, at);
            if drawn * bound <= now || at - from > 600 * SECOND {
                break;
            }
        }
        self.random = random;
        self.next_at = at;
        at
    }

    /// One event.
    fn happen(
        &mut self,
        config: &GeneratorConfig,
        factor: &Factor,
        at: Nanos,
        depths: &mut Depths,
        tell: &mut Teller<'_>,
    ) {
        let moment = config.calendar.moment(at);
        let (session, phase) = config.calendar.phase(at);
        if matches!(phase, Phase::Closed { .. }) {
            return;
        }
        if session != self.session {
            self.begin_session(session, moment, tell);
        }
        self.move_fair(factor, at);
        let since = (at - self.excited_at) as f64 / SECOND as f64;
        self.excitement = self.excitement * (-FADING * since).exp() + BRANCHING * FADING;
        self.excited_at = at;
        if !self.auction_done {
            self.auction(moment, depths, tell);
        } else if self.profile.kind == Kind::Index {
            self.index_value(moment, tell);
        } else if self.profile.kind == Kind::Share && self.random.chance(TRADE_SHARE) {
            self.trade(moment, depths, tell);
        } else {
            self.quote(moment, depths, tell);
        }
        if let Some(book) = &mut self.book
            && self.random.chance(0.5)
        {
            book.stir(&mut self.random, depths);
        }
        self.tell_book(moment, depths, tell);
    }

    fn begin_session(&mut self, session: u32, moment: super::session::Moment, tell: &mut Teller<'_>) {
        (self.session, self.auction_done) = (session, false);
        self.record.roll(moment);
        if self.watched.price {
            tell.fields(Payload::NewImage, |fields| self.record.write_image(fields));
        }
    }

    fn move_fair(&mut self, factor: &Factor, at: Nanos) {
        let seconds = (at - self.moved_at) as f64 / SECOND as f64;
        self.moved_at = at;
        self.follow(factor);
        self.own_walk += self.profile.volatility * (seconds / DAY_SECONDS).sqrt() * self.random.normal();
        // Prices do not wander off for ever: a weak pull back over several days.
        self.own_walk -= self.own_walk * (seconds / (5.0 * DAY_SECONDS)).min(1.0);
    }

    /// The opening: quotes appear, and one large trade.
    fn auction(&mut self, moment: super::session::Moment, depths: &mut Depths, tell: &mut Teller<'_>) {
        self.auction_done = true;
        if self.profile.kind != Kind::Currency {
            let lots =
                f64::from(self.profile.typical_lots) * (20.0 + 60.0 * self.random.unit()) * self.profile.rate.max(0.2);
            let price = self.to_tick(self.fair());
            self.print(moment, price, lots.ceil() as u64 * u64::from(self.profile.lot), tell);
        }
        self.quote(moment, depths, tell);
    }

    fn index_value(&mut self, moment: super::session::Moment, tell: &mut Teller<'_>) {
        let value = self.to_tick(self.fair());
        self.print(moment, value, 0, tell);
    }

    fn print(&mut self, moment: super::session::Moment, price: i64, size: u64, tell: &mut Teller<'_>) {
        let change = self.record.trade(moment, price, size);
        if self.watched.price {
            tell.fields(Payload::Update(UpdateKind::Trade), |fields| self.record.write_trade(change, fields));
        }
    }

    /// A trade at the best bid or ask, and the quote that it leaves behind.
    fn trade(&mut self, moment: super::session::Moment, depths: &mut Depths, tell: &mut Teller<'_>) {
        let fair = self.fair();
        // Buyers come in runs, and those who know the fair price trade towards it.
        if self.random.chance(0.3) {
            self.buyers = fair > (self.record.bid.price + self.record.ask.price) as f64 / 2.0;
        }
        let side = if self.buyers { self.record.ask } else { self.record.bid };
        if side.price == 0 {
            return self.quote(moment, depths, tell);
        }
        let lots = self.random.exponential(f64::from(self.profile.typical_lots) * 0.35).ceil().max(1.0) as u64;
        let odd = if self.random.chance(0.12) { u64::from(self.random.below(self.profile.lot)) } else { 0 };
        let size = (lots * u64::from(self.profile.lot)).min(side.size).saturating_sub(odd).max(1);
        self.print(moment, side.price, size, tell);
        let left = (side.size - size) / u64::from(self.profile.lot) * u64::from(self.profile.lot);
        if left == 0 {
            // The level is gone: the fair price is at least there now.
            let step = self.profile.tick as f64 * 0.6;
            let target = side.price as f64 + if self.buyers { step } else { -step };
            let moved = if self.buyers { fair.max(target) } else { fair.min(target) };
            self.own_walk = (moved.max(1.0) / self.profile.base_price as f64).ln();
            return self.quote(moment, depths, tell);
        }
        let (mut bid, mut ask) = (self.record.bid, self.record.ask);
        if self.buyers {
            ask.size = left;
        } else {
            bid.size = left;
        }
        self.publish_quote(moment, bid, ask, depths, tell);
    }

    /// A new quote around the fair price; most often only a size changes.
    fn quote(&mut self, moment: super::session::Moment, depths: &mut Depths, tell: &mut Teller<'_>) {
        let (bid, ask) = self.next_quote();
        self.publish_quote(moment, bid, ask, depths, tell);
    }

    fn publish_quote(
        &mut self,
        moment: super::session::Moment,
        bid: Side,
        ask: Side,
        depths: &mut Depths,
        tell: &mut Teller<'_>,
    ) {
        let change = self.record.quote(moment, bid, ask);
        if change.is_none() {
            return;
        }
        if self.watched.price {
            tell.fields(Payload::Update(UpdateKind::Quote), |fields| self.record.write_quote(change, fields));
        }
        if let Some(book) = &mut self.book {
            // The side that gives way moves first, so that the book is never crossed.
            let order =
                if bid.price >= depths.books.best(book.id(), market::Side::Ask).map_or(i64::MAX, |level| level.price) {
                    [(market::Side::Ask, ask), (market::Side::Bid, bid)]
                } else {
                    [(market::Side::Bid, bid), (market::Side::Ask, ask)]
                };
            for (side, best) in order {
                book.set_best(side, best.price, best.size, &mut self.random, depths);
            }
        }
    }

    fn next_quote(&mut self) -> (Side, Side) {
        let (tick, fair) = (self.profile.tick, self.fair());
        let (mut bid, mut ask) = (self.record.bid, self.record.ask);
        let inside = bid.price > 0 && (bid.price as f64) < fair && fair < ask.price as f64;
        if !inside || self.random.chance(0.08) {
            let spread = (i64::from(self.profile.spread_ticks) + i64::from(self.random.below(3)) - 1).max(1) * tick;
            bid.price = self.to_tick(fair - spread as f64 / 2.0 - 0.25 * tick as f64);
            ask.price = bid.price + spread;
            bid.size = self.draw_size();
            ask.size = self.draw_size();
        } else if self.random.chance(0.5) {
            bid.size = self.draw_size();
        } else {
            ask.size = self.draw_size();
        }
        for side in [&mut bid, &mut ask] {
            if side.venue.code == [0; 3] || self.random.chance(0.2) {
                let venues = self.profile.market.venues;
                side.venue = venues[self.random.below(venues.len() as u32) as usize];
            }
        }
        (bid, ask)
    }

    fn requote(&mut self, moment: super::session::Moment) {
        if self.profile.kind != Kind::Index {
            let (bid, ask) = self.next_quote();
            self.record.quote(moment, bid, ask);
        }
    }

    fn draw_size(&mut self) -> u64 {
        let lots = self.random.exponential(f64::from(self.profile.typical_lots)).ceil().clamp(1.0, 1e6);
        lots as u64 * u64::from(self.profile.lot)
    }

    fn open_book(&mut self, depths: &mut Depths) {
        if self.book.is_some() {
            return;
        }
        let mut book = depths.open(self.profile.tick, self.profile.lot, self.profile.typical_lots);
        let (bid, ask) = (self.record.bid, self.record.ask);
        book.set_best(market::Side::Bid, bid.price, bid.size, &mut self.random, depths);
        book.set_best(market::Side::Ask, ask.price, ask.size, &mut self.random, depths);
        self.book = Some(book);
    }

    fn shape(&self) -> levels::Shape {
        levels::Shape {
            decimals: self.profile.decimals,
            currency: self.profile.market.currency,
            exchange: self.profile.market.exchange,
        }
    }

    fn tell_book(&self, moment: super::session::Moment, depths: &Depths, tell: &mut Teller<'_>) {
        // Nobody watches its book.
        let Some(book) = &self.book else { return };
        let (changes, book) = (&depths.changes, depths.books.book(book.id()));
        for (model, watched, count) in [
            (Model::ByPrice, self.watched.by_price, changes.levels.len()),
            (Model::ByOrder, self.watched.by_order, changes.orders.len()),
        ] {
            if watched && count > 0 {
                tell.payload.clear();
                levels::append_update(&book, changes, model, self.shape(), moment, tell.payload);
                tell.tell(model, Payload::Update(UpdateKind::Unspecified));
            }
        }
    }
}

/// The factor that moves all instruments together: a slow walk with jumps, and the excitement that jumps cause.
#[derive(Debug)]
struct Factor {
    random: Random,
    steps: u64,
    level: f64,
    /// Added to every instrument's intensity, as a multiple of its own; fades within seconds.
    heat: f64,
}

const FACTOR_STEP: Nanos = SECOND / 10;

impl Factor {
    fn new(seed: u64) -> Self {
        Self { random: Random::new(seed ^ 0x6D61_726B_6574), steps: 0, level: 0.0, heat: 0.0 }
    }

    fn advance(&mut self, to: Nanos) {
        const DAILY: f64 = 0.01;
        let step_deviation = DAILY * (0.1 / DAY_SECONDS).sqrt();
        while self.steps < to / FACTOR_STEP {
            self.steps += 1;
            self.heat *= 0.95;
            let mut step = step_deviation * self.random.normal();
            if self.random.chance(0.1 / 45.0) {
                step += 12.0 * step_deviation * self.random.normal();
                self.heat += 2.0 + 3.0 * self.random.unit();
            }
            self.level += step - self.level * 1e-6;
        }
    }
}
impl super::MarketSource for Generator {
    fn find(&mut self, name: &str) -> Option<InstrumentId> {
        Self::find(self, name)
    }

    fn offers(&self, id: InstrumentId, model: Model) -> bool {
        let kind = self.instruments[id.0 as usize].profile.kind;
        model == Model::Price || (kind != Kind::Index && matches!(model, Model::ByOrder | Model::ByPrice))
    }

    fn image(&mut self, id: InstrumentId, model: Model, part: usize, out: &mut Vec<u8>) -> bool {
        Self::image(self, id, model, part, out)
    }

    fn watch(&mut self, id: InstrumentId, model: Model, on: bool) {
        Self::watch(self, id, model, on);
    }

    fn due(&self) -> Option<Nanos> {
        Self::due(self)
    }

    fn symbols(&self) -> Vec<String> {
        well_known().map(str::to_owned).collect()
    }

    fn advance(&mut self, now: Nanos, limit: usize, sink: &mut dyn FnMut(Event<'_>)) {
        Self::advance(self, now, limit, sink);
    }
}

#[cfg(test)]
mod tests;
