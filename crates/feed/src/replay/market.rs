//! Recorded ticks as a market source: the files of several symbols merged by time, as `MarketPrice`.

use super::ReplaySpeed;
use super::ticks::{Rows, Table, Tick, TickFile, What};
use crate::fields::append_fields;
use crate::instrument::Profile;
use crate::record::{Record, Side};
use crate::session::{DAY, Moment, Nanos, SECOND};
use crate::{Event, InstrumentId, MarketSource, Model, Payload, UpdateKind};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::path::Path;

/// How to play.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayConfig {
    /// How fast.
    pub pace: ReplaySpeed,
    /// Recorded time of day at which to begin, in milliseconds since midnight; what was before is taken in silently.
    pub from_millis: u32,
    /// Between the end and the next beginning, in nanoseconds of the caller's clock.
    pub pause: Nanos,
    /// Begin again at the end.
    pub repeat: bool,
}

impl Default for ReplayConfig {
    /// In real time from three seconds before the opening at 09:30.
    fn default() -> Self {
        Self { pace: ReplaySpeed::Scaled(1.0), from_millis: 34_197_000, pause: 2 * SECOND, repeat: true }
    }
}

/// A recorded day of a few symbols.
pub struct TickReplay {
    config: ReplayConfig,
    files: Vec<TickFile>,
    items: Vec<Item>,
    lanes: Vec<Lane>,
    /// The next row of each lane: time, then file order, so that equal times keep one order.
    next: BinaryHeap<Reverse<(u32, usize)>>,
    /// Caller's time at which `config.from_millis` is due.
    started_at: Nanos,
    day: u32,
    session: u32,
    counters: ReplayCounters,
    payload: Vec<u8>,
}

/// What a replay did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayCounters {
    /// Rows taken in.
    pub rows: u64,
    /// Rows that told nothing new.
    pub unchanged: u64,
    /// Rows that could not be read, or are marked suspicious.
    pub skipped: u64,
    /// Whole days played.
    pub sessions: u64,
    /// Files that became unreadable on the way.
    pub failed: u64,
}

struct Item {
    name: String,
    record: Record,
    watched: bool,
}

struct Lane {
    item: usize,
    rows: Rows,
    head: Tick,
}

/// Prices come in ten-thousandths of a dollar.
const DECIMALS: u8 = 4;

/// New York to UTC on the recorded days (daylight saving time): the fields show UTC.
const UTC_OFFSET: Nanos = 4 * 3_600 * SECOND;

impl TickReplay {
    /// Finds the tick files of a directory and reads up to `config.from_millis`; `None` when there are none.
    /// `progress` hears what is done, a line at a time.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn open(directory: &Path, config: ReplayConfig, progress: &mut dyn FnMut(&str)) -> io::Result<Option<Self>> {
        let mut files: Vec<TickFile> =
            std::fs::read_dir(directory)?.filter_map(|e| TickFile::of(&e.ok()?.path())).collect();
        files.sort_by(|a, b| (&a.symbol, a.table as u8, &a.date).cmp(&(&b.symbol, b.table as u8, &b.date)));
        let Some(first_day) = files.iter().map(|f| f.date.clone()).min() else { return Ok(None) };
        files.retain(|f| f.date == first_day);
        let mut replay = Self::new(files, config);
        replay.begin(0, progress)?;
        Ok(Some(replay))
    }

    fn new(files: Vec<TickFile>, config: ReplayConfig) -> Self {
        let day = files.first().and_then(|f| days_of(&f.date)).unwrap_or(0);
        let mut tables: BTreeMap<&str, bool> = BTreeMap::new();
        for file in &files {
            *tables.entry(&file.symbol).or_default() |= file.table == Table::Quotes;
        }
        let items = tables.keys().map(|symbol| Item::new(symbol, day)).collect();
        Self {
            config,
            items,
            lanes: Vec::new(),
            next: BinaryHeap::new(),
            started_at: 0,
            day,
            session: 0,
            counters: ReplayCounters::default(),
            payload: Vec::with_capacity(1024),
            files,
        }
    }

    /// Names that it plays.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.items.iter().map(|i| i.name.as_str())
    }

    /// What it did so far.
    pub fn counters(&self) -> ReplayCounters {
        let mut counters = self.counters;
        counters.skipped += self.lanes.iter().map(|l| l.rows.skipped).sum::<u64>();
        counters
    }

    /// The values of an instrument now.
    pub fn record(&self, id: InstrumentId) -> &Record {
        &self.items[id.0 as usize].record
    }

    /// Opens all files and takes in silently what was before the beginning.
    fn begin(&mut self, at: Nanos, progress: &mut dyn FnMut(&str)) -> io::Result<()> {
        self.started_at = at;
        self.lanes.clear();
        self.next.clear();
        for file in &self.files {
            let mut rows = file.rows().map_err(|e| named(&file.path, &e))?;
            let Some(head) = rows.next_row().map_err(|e| named(&file.path, &e))? else { continue };
            let item = self.items.iter().position(|i| i.symbol() == file.symbol).unwrap_or(0);
            self.next.push(Reverse((head.millis, self.lanes.len())));
            self.lanes.push(Lane { item, rows, head });
        }
        while self.next.peek().is_some_and(|Reverse((millis, _))| *millis < self.config.from_millis) {
            self.step(&mut |_| {});
        }
        let names: Vec<&str> = self.names().collect();
        progress(&format!("replaying {} from {} files", names.join(" "), self.files.len()));
        Ok(())
    }

    /// When a row of this recorded time is due.
    fn due_at(&self, millis: u32) -> Nanos {
        match self.config.pace {
            ReplaySpeed::Unpaced => 0,
            ReplaySpeed::Scaled(scale) => {
                let since = millis.saturating_sub(self.config.from_millis);
                self.started_at + (f64::from(since) * 1e6 / scale) as Nanos
            }
        }
    }

    /// Takes the next row; a bid and an ask of one millisecond and one file are one quote. Returns the events told.
    fn step(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let Some(Reverse((millis, lane_at))) = self.next.pop() else { return 0 };
        let tick = self.lanes[lane_at].head;
        let mut second = None;
        self.refill(lane_at);
        if let (What::Bid { .. }, Some(Reverse((_, at)))) = (tick.what, self.next.peek())
            && *at == lane_at
        {
            let follower = self.lanes[lane_at].head;
            if follower.millis == millis && matches!(follower.what, What::Ask { .. }) {
                self.next.pop();
                second = Some(follower);
                self.refill(lane_at);
            }
        }
        self.counters.rows += 1 + u64::from(second.is_some());
        self.apply(lane_at, tick, second, sink)
    }

    fn refill(&mut self, lane_at: usize) {
        let lane = &mut self.lanes[lane_at];
        match lane.rows.next_row() {
            Ok(Some(head)) => {
                // Time never goes back, whatever the file says.
                lane.head = Tick { millis: head.millis.max(lane.head.millis), ..head };
                self.next.push(Reverse((lane.head.millis, lane_at)));
            }
            Ok(None) => {}
            Err(_) => self.counters.failed += 1,
        }
    }

    fn apply(&mut self, lane: usize, tick: Tick, second: Option<Tick>, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let item_at = self.lanes[lane].item;
        let item = &mut self.items[item_at];
        let time = u64::from(tick.millis) * 1_000_000 + UTC_OFFSET;
        let moment = Moment { day: self.day + (time / DAY) as u32, time: time % DAY };
        self.payload.clear();
        let kind = if let What::Trade { price, size } = tick.what {
            let change = item.record.trade(moment, price, u64::from(size));
            append_fields(&mut self.payload, |fields| item.record.write_trade(change, fields));
            UpdateKind::Trade
        } else {
            let (mut bid, mut ask) = (item.record.bid, item.record.ask);
            for tick in [Some(tick), second].into_iter().flatten() {
                let side = |price, size| Side { price, size: u64::from(size), venue: tick.venue };
                match tick.what {
                    What::Bid { price, size } => bid = side(price, size),
                    What::Ask { price, size } => ask = side(price, size),
                    What::Trade { .. } => {}
                }
            }
            let change = item.record.quote(moment, bid, ask);
            if change.is_none() {
                self.counters.unchanged += 1;
                return 0;
            }
            append_fields(&mut self.payload, |fields| item.record.write_quote(change, fields));
            UpdateKind::Quote
        };
        if !item.watched {
            return 0;
        }
        let instrument = InstrumentId(item_at as u32);
        sink(Event { instrument, model: Model::Price, payload: Payload::Update(kind), body: &self.payload });
        1
    }

    /// The end was reached: a new trading day, told as new images.
    fn restart(&mut self, at: Nanos, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        self.session += 1;
        self.day += 1;
        self.counters.sessions += 1;
        self.counters.skipped = self.counters().skipped;
        for item in &mut self.items {
            item.record.roll(Moment { day: self.day, time: UTC_OFFSET });
        }
        if self.begin(at, &mut |_| {}).is_err() {
            self.counters.failed += 1;
            self.next.clear();
        }
        let mut told = 0;
        for (at, item) in self.items.iter().enumerate().filter(|(_, i)| i.watched) {
            self.payload.clear();
            append_fields(&mut self.payload, |fields| item.record.write_image(fields));
            let instrument = InstrumentId(at as u32);
            sink(Event { instrument, model: Model::Price, payload: Payload::NewImage, body: &self.payload });
            told += 1;
        }
        told
    }

    /// When the last row was due, and the pause after it.
    fn end_at(&self) -> Nanos {
        let last = self.lanes.iter().map(|l| l.head.millis).max().unwrap_or(0);
        self.due_at(last) + if self.config.pace == ReplaySpeed::Unpaced { 0 } else { self.config.pause }
    }

    fn broken(&self) -> bool {
        self.lanes.is_empty()
    }
}

impl MarketSource for TickReplay {
    fn find(&mut self, name: &str) -> Option<InstrumentId> {
        self.items.iter().position(|i| i.name == name).map(|at| InstrumentId(at as u32))
    }

    fn offers(&self, _: InstrumentId, model: Model) -> bool {
        model == Model::Price
    }

    fn image(&mut self, id: InstrumentId, _: Model, _: usize, out: &mut Vec<u8>) -> bool {
        append_fields(out, |fields| self.items[id.0 as usize].record.write_image(fields));
        false
    }

    fn watch(&mut self, id: InstrumentId, model: Model, on: bool) {
        if model == Model::Price {
            self.items[id.0 as usize].watched = on;
        }
    }

    fn due(&self) -> Option<Nanos> {
        if self.config.pace == ReplaySpeed::Unpaced && self.items.iter().all(|i| !i.watched) {
            return None;
        }
        match self.next.peek() {
            Some(Reverse((millis, _))) => Some(self.due_at(*millis)),
            None => (self.config.repeat && !self.broken()).then(|| self.end_at()),
        }
    }

    fn symbols(&self) -> Vec<String> {
        self.names().map(str::to_owned).collect()
    }

    fn advance(&mut self, now: Nanos, limit: usize, sink: &mut dyn FnMut(Event<'_>)) {
        let mut told = 0;
        // Silent rows count a little, so that a call ends in bounded time even when nobody watches.
        let mut silent = 0;
        while told + silent / 16 < limit && self.due().is_some_and(|at| at <= now) {
            let before = told;
            told += if self.next.is_empty() { self.restart(now, sink) } else { self.step(sink) };
            silent += usize::from(before == told);
        }
    }
}

impl Item {
    fn new(symbol: &str, day: u32) -> Self {
        let name = ric_of(symbol);
        let mut profile = Profile::of(&name, 0).unwrap_or_else(|| Profile::of("X.N", 0).expect("an ordinary name"));
        profile.decimals = DECIMALS;
        profile.base_price = 0;
        let record = Record::new(&name, &profile, Moment { day, time: UTC_OFFSET });
        Self { name, record, watched: false }
    }

    fn symbol(&self) -> &str {
        self.name.split('.').next().unwrap_or_default()
    }
}

/// The instrument name of a US symbol: SPY is listed on Arca, the rest of what is recorded in New York.
pub fn ric_of(symbol: &str) -> String {
    format!("{symbol}.{}", if symbol == "SPY" { "P" } else { "N" })
}

/// `YYYYMMDD` as days since 1970-01-01.
fn days_of(date: &str) -> Option<u32> {
    let number: u32 = date.parse().ok()?;
    let (year, month, day) = (number / 10_000, number / 100 % 100, number % 100);
    (0..).map(|n| year.saturating_sub(1970) * 365 + n).take(400).find(|&days| {
        let date = crate::session::Date::from_days(days);
        (u32::from(date.year), u32::from(date.month), u32::from(date.day)) == (year, month, day)
    })
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
