//! Recorded ticks as a market source: the files of several symbols merged by time, as `MarketPrice`.

use super::ReplaySpeed;
use super::ticks::{Counts, Rows, Tick, TickFile, What};
use crate::fields::append_fields;
use crate::instrument::{Profile, us_share};
use crate::new_york;
use crate::record::{Record, Side};
use crate::session::{Moment, Nanos, SECOND};
use crate::{Event, InstrumentId, MarketSource, Model, Payload, UpdateKind};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::io;
use std::path::{Path, PathBuf};

/// How to play.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayConfig {
    /// How fast.
    pub pace: ReplaySpeed,
    /// Recorded time of each day at which to begin, in milliseconds since midnight; what was before is taken in silently.
    pub from_millis: u32,
    /// Between the end of a day and the next beginning, in nanoseconds of the caller's clock.
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

/// Recorded days of a few symbols.
pub struct TickReplay {
    config: ReplayConfig,
    files: Vec<TickFile>,
    items: Vec<Item>,
    lanes: Vec<Lane>,
    /// The next row of each lane: time, then file order, so that equal times keep one order.
    next: BinaryHeap<Reverse<(u32, usize)>>,
    /// Caller's time at which `config.from_millis` is due.
    started_at: Nanos,
    /// The recorded days in order, since 1970-01-01, and which of them is played.
    days: Vec<u32>,
    at_day: usize,
    /// Days that are added to the recorded ones: dates never go back, whenever the recording begins again.
    later: u32,
    counters: ReplayCounters,
    /// Faults by file.
    troubles: BTreeSet<String>,
    payload: Vec<u8>,
}

/// Figures of a replay so far.
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
    symbol: String,
    name: String,
    record: Record,
    watched: bool,
}

struct Lane {
    item: usize,
    path: PathBuf,
    rows: Rows,
    head: Tick,
}

/// Prices come in ten-thousandths of a dollar.
const DECIMALS: u8 = 4;

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
        // Names that look like a date and are none are those of other files.
        files.retain(|file| new_york::days_of(&file.date).is_some());
        if files.is_empty() {
            return Ok(None);
        }
        let mut replay = Self::new(files, config);
        replay.begin(0)?;
        let names: Vec<&str> = replay.names().collect();
        progress(&format!("replaying {} from {} files of {}", names.join(" "), replay.files.len(), replay.dates()));
        Ok(Some(replay))
    }

    fn new(files: Vec<TickFile>, config: ReplayConfig) -> Self {
        let days: BTreeSet<u32> = files.iter().filter_map(|f| new_york::days_of(&f.date)).collect();
        let days: Vec<u32> = days.into_iter().collect();
        let symbols: BTreeSet<&str> = files.iter().map(|file| file.symbol.as_str()).collect();
        let items = symbols.iter().map(|symbol| Item::new(symbol, new_york::utc(days[0], 0))).collect();
        Self {
            config,
            items,
            lanes: Vec::new(),
            next: BinaryHeap::new(),
            started_at: 0,
            days,
            at_day: 0,
            later: 0,
            counters: ReplayCounters::default(),
            troubles: BTreeSet::new(),
            payload: Vec::with_capacity(1024),
            files,
        }
    }

    /// The recorded days, in words.
    fn dates(&self) -> String {
        let dates: BTreeSet<&str> = self.files.iter().map(|file| file.date.as_str()).collect();
        let text = dates.iter().copied().collect::<Vec<_>>().join(", ");
        if dates.len() > 1 { format!("{} days: {text}", dates.len()) } else { text }
    }

    /// New York's clock on the day that is played, as it is told.
    fn moment(&self, since_midnight: Nanos) -> Moment {
        let moment = new_york::utc(self.days[self.at_day], since_midnight);
        Moment { day: moment.day + self.later, ..moment }
    }

    /// Names that it plays.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.items.iter().map(|i| i.name.as_str())
    }

    /// Figures so far.
    pub fn counters(&self) -> ReplayCounters {
        let mut counters = self.counters;
        counters.skipped += self.lanes.iter().map(|l| l.rows.skipped).sum::<u64>();
        counters
    }

    /// The values of an instrument now.
    pub fn record(&self, id: InstrumentId) -> &Record {
        &self.items[id.0 as usize].record
    }

    /// Opens the files of the day and takes in silently what was before the beginning.
    fn begin(&mut self, at: Nanos) -> io::Result<()> {
        self.started_at = at;
        self.lanes.clear();
        self.next.clear();
        let today = self.days[self.at_day];
        for file in self.files.iter().filter(|file| new_york::days_of(&file.date) == Some(today)) {
            let mut rows = file.rows().map_err(|e| named(&file.path, &e))?;
            if rows.foreign > 0 {
                let what = format!("{} bytes before the archive are not read", rows.foreign);
                self.troubles.insert(format!("{}: {what}", file.path.display()));
            }
            let Some(head) = rows.next_row().map_err(|e| named(&file.path, &e))? else { continue };
            let item = self.items.iter().position(|i| i.symbol == file.symbol).unwrap_or(0);
            self.next.push(Reverse((head.millis, self.lanes.len())));
            self.lanes.push(Lane { item, path: file.path.clone(), rows, head });
        }
        while self.next.peek().is_some_and(|Reverse((millis, _))| *millis < self.config.from_millis) {
            self.step(&mut |_| {});
        }
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
            Err(error) => {
                self.counters.failed += 1;
                self.troubles.insert(format!("{}: {error}; the rows behind that are not played", lane.path.display()));
            }
        }
    }

    fn apply(&mut self, lane: usize, tick: Tick, second: Option<Tick>, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let item_at = self.lanes[lane].item;
        let moment = self.moment(u64::from(tick.millis) * 1_000_000);
        let item = &mut self.items[item_at];
        self.payload.clear();
        let kind = if let What::Trade { price, size, counts } = tick.what {
            let change = match counts {
                Counts::All => item.record.trade(moment, price, u64::from(size)),
                Counts::Volume => item.record.volume(price, u64::from(size)),
                Counts::Opening => item.record.open_at(moment, price),
                Counts::Nothing => return 0,
            };
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

    /// The end of a day was reached: the next trading day, told as new images.
    fn restart(&mut self, at: Nanos, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        self.counters.sessions += 1;
        self.counters.skipped = self.counters().skipped;
        self.at_day += 1;
        if self.at_day == self.days.len() {
            self.at_day = 0;
            self.later += self.days[self.days.len() - 1] - self.days[0] + 1;
        }
        let midnight = self.moment(0);
        for item in &mut self.items {
            item.record.roll(midnight);
        }
        if let Err(error) = self.begin(at) {
            self.counters.failed += 1;
            self.troubles.insert(error.to_string());
            self.next.clear();
            self.lanes.clear();
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
        self.due_at(last.max(self.config.from_millis))
            + if self.config.pace == ReplaySpeed::Unpaced { 0 } else { self.config.pause }
    }

    fn broken(&self) -> bool {
        self.lanes.is_empty()
    }
}

impl MarketSource for TickReplay {
    fn find(&mut self, name: &str) -> Option<InstrumentId> {
        let at = self.items.iter().position(|i| i.name == name).or_else(|| {
            let (symbol, _) = name.rsplit_once('.').filter(|(_, listing)| LISTINGS.contains(listing))?;
            self.items.iter().position(|i| i.symbol == symbol)
        })?;
        Some(InstrumentId(at as u32))
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
        if let Some(Reverse((millis, _))) = self.next.peek() {
            return Some(self.due_at(*millis));
        }
        let goes_on = self.config.repeat || self.at_day + 1 < self.days.len();
        (goes_on && !self.broken()).then(|| self.end_at())
    }

    fn unread(&self) -> Option<String> {
        let all: Vec<&str> = self.troubles.iter().map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join("; "))
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
    fn new(symbol: &str, today: Moment) -> Self {
        let name = ric_of(symbol);
        let mut profile = Profile::of(&name, 0).unwrap_or_else(|| Profile::of("X.N", 0).expect("an ordinary name"));
        profile.decimals = DECIMALS;
        profile.base_price = 0;
        let record = Record::new(&name, &profile, today);
        Self { symbol: symbol.to_owned(), name, record, watched: false }
    }
}

/// Names of a share in the United States end in one of these: New York, Nasdaq (consolidated, and its own), American, Arca, Bats, tape.
const LISTINGS: [&str; 8] = ["N", "O", "OQ", "A", "P", "Z", "K", "US"];

/// The instrument name of a US symbol. Files do not say where a share is listed: those that people know have their names (`MSFT.O`, `SPY.P`),
/// others are named as in New York, and all are found by the endings of other listings, too.
pub fn ric_of(symbol: &str) -> String {
    us_share(symbol).map_or_else(|| format!("{symbol}.N"), str::to_owned)
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
