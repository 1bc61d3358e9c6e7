//! Tables of ticks of anybody's making (CSV, Parquet), by a mapping file that says what their columns are: quotes and trades as `MarketPrice`.
//!
//! Rows of several tables are merged by their times; those of one table are to be in order. Times of a day are of a zone with its calendar: winter and
//! summer time of the day in question.

mod map;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use jiff::tz::AmbiguousOffset;
use market::{BookId, Level, ReadBooks, Side};

use self::map::{Role, Table, TimeUnit, Zero};
use self::rows::{Row, Rows};
use super::board::Board;
use super::input::Input;
use super::values::{Facts, Print};
use crate::session::{DAY, Nanos};

/// Decimals that prices and sizes are kept with.
pub(super) const PRICE_DECIMALS: u8 = 9;
pub(super) const SIZE_DECIMALS: u8 = 8;

/// What is not the instrument's own: neither currency nor exchange is told.
pub(super) const FACTS: Facts = Facts {
    decimals: PRICE_DECIMALS,
    size_decimals: SIZE_DECIMALS,
    currency: None,
    exchange: None,
    quote_exchange: None,
};

const SECOND: u64 = 1_000_000_000;
/// An hour that comes twice has rows that seem to go back by about as much.
const HALF_AN_HOUR: u64 = 1_800 * SECOND;
/// A row is as late at most in its table where the second hour has begun.
const LATE: u64 = 60 * SECOND;

/// A side of a quote, if a row tells of it: what stands there now, if anything does.
#[allow(clippy::option_option, reason = "not told is another thing than told that there is nothing")]
type RowSide = Option<Option<Level>>;

/// What a row tells.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tick {
    /// Nanoseconds since 1970.
    at: u64,
    symbol: String,
    /// Each side that it tells of: what stands there now.
    sides: [RowSide; 2],
    trade: Option<Print>,
}

/// Why a row tells nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bad {
    time: u64,
    value: u64,
    symbol: u64,
}

/// A table that is read.
struct Lane {
    table: Table,
    /// Files that come behind the one that is read.
    later: Vec<PathBuf>,
    rows: Option<Rows>,
    row: Row,
    next: Option<Tick>,
    /// The time of the row before.
    last: u64,
    bad: Bad,
    disorder: u64,
    trouble: Option<String>,
}

/// Tables of a mapping file, merged.
pub(super) struct Tables {
    lanes: Vec<Lane>,
    quotes: HashMap<u32, [Option<Level>; 2]>,
    now: u64,
    count: u64,
}

/// No table tells books.
struct NoBooks;

impl ReadBooks for NoBooks {
    fn best(&self, _: BookId, _: Side) -> Option<Level> {
        None
    }

    fn level(&self, _: BookId, _: Side, _: i64) -> Option<Level> {
        None
    }

    fn levels(&self, _: BookId, _: Side) -> Box<dyn Iterator<Item = Level> + '_> {
        Box::new(std::iter::empty())
    }
}

/// A number in decimal, in units of the last of so many decimals; `has`: it is a whole number of these decimals itself.
fn scaled(text: &str, has: Option<u8>, decimals: u8) -> Option<i64> {
    let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part = part.trim_end_matches('0');
    let is_number = !whole.is_empty() && whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit());
    let power = match has {
        Some(has) => decimals.checked_sub(has).filter(|_| part.is_empty())?,
        None => u8::try_from(usize::from(decimals).checked_sub(part.len())?).ok()?,
    };
    if !is_number {
        return None;
    }
    let digits = whole.bytes().chain(part.bytes());
    let value = digits
        .map(|byte| i64::from(byte - b'0'))
        .try_fold(0i64, |value, digit| value.checked_mul(10)?.checked_add(digit));
    let value = value?.checked_mul(10i64.checked_pow(u32::from(power))?)?;
    Some(if is_negative { -value } else { value })
}

/// Nanoseconds of a time of day: `09:30`, `09:30:00.5`.
fn of_day(text: &str) -> Option<u64> {
    let (clock, part) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':').map(|part| Some(part).filter(|part| part.len() == 2)?.parse::<u64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?);
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let nanos = if part.is_empty() { 0 } else { u64::try_from(scaled(&format!("0.{part}"), None, 9)?).ok()? };
    Some((hour * 3_600 + minute * 60 + second) * SECOND + nanos)
}

/// Nanoseconds of a count of units of so many of them, with parts of the unit.
fn counted(text: &str, unit: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part = if part.is_empty() { 0 } else { u64::try_from(scaled(&format!("0.{part}"), None, 9)?).ok()? };
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(unit)?
        .checked_add((u128::from(part) * u128::from(unit) / u128::from(SECOND)) as u64)
}

/// Days since 1970 of `2013-10-07`, `2013/10/07` or `20131007`.
fn days(text: &str) -> Option<u32> {
    super::date_of(&text.replace('/', "-"))
}

impl Lane {
    fn open(table: Table) -> io::Result<Self> {
        let mut later = table.files.clone();
        later.reverse();
        let mut new = Self {
            table,
            later,
            rows: None,
            row: Row::default(),
            next: None,
            last: 0,
            bad: Bad::default(),
            disorder: 0,
            trouble: None,
        };
        new.open_next()?;
        new.fill();
        Ok(new)
    }

    fn open_next(&mut self) -> io::Result<()> {
        self.rows = self.later.pop().map(|path| Rows::open(&path, &self.table)).transpose()?;
        Ok(())
    }

    /// Goes on to the next row that tells something.
    fn fill(&mut self) {
        self.next = None;
        while self.next.is_none() {
            let Some(rows) = &mut self.rows else { return };
            if rows.next(&mut self.row) {
                self.next = self.tick();
                continue;
            }
            self.trouble = rows.trouble().map(str::to_owned).or(self.trouble.take());
            if let Err(error) = self.open_next() {
                self.trouble = Some(error.to_string());
                self.rows = None;
            }
        }
    }

    fn tick(&mut self) -> Option<Tick> {
        let Some(at) = self.time() else {
            self.bad.time += 1;
            return None;
        };
        self.disorder += u64::from(at < self.last);
        self.last = self.last.max(at);
        let symbol = self.table.symbol.as_deref().unwrap_or_else(|| self.row.text(Role::Symbol));
        if symbol.is_empty() {
            self.bad.symbol += 1;
            return None;
        }
        let (Ok(bid), Ok(ask), Ok(trade)) =
            (self.side(Role::Bid, Role::BidSize), self.side(Role::Ask, Role::AskSize), self.trade(at))
        else {
            self.bad.value += 1;
            return None;
        };
        let tick = Tick { at, symbol: symbol.to_owned(), sides: [bid, ask], trade };
        (tick.sides != [None, None] || tick.trade.is_some()).then_some(tick)
    }

    fn price(&self, role: Role) -> Result<Option<i64>, ()> {
        let text = self.row.text(role);
        if text.is_empty() {
            return Ok(None);
        }
        scaled(text, self.table.price_decimals, PRICE_DECIMALS).map(Some).ok_or(())
    }

    fn size(&self, role: Role) -> Result<u64, ()> {
        let text = self.row.text(role);
        if text.is_empty() {
            return Ok(0);
        }
        let size = scaled(text, self.table.size_decimals, SIZE_DECIMALS);
        size.and_then(|size| u64::try_from(size).ok()).ok_or(())
    }

    /// A side of the quote; `None`: the row does not tell of it.
    fn side(&self, price: Role, size: Role) -> Result<RowSide, ()> {
        let Some(price) = self.price(price)? else { return Ok(None) };
        let size = self.size(size)?;
        Ok(match (price, self.table.zero) {
            (0, Zero::Untold) => None,
            (0, Zero::None) => Some(None),
            _ => Some(Some(Level { price, size, orders: 0 })),
        })
    }

    fn trade(&self, at: u64) -> Result<Option<Print>, ()> {
        let (Some(price), size) = (self.price(Role::Price)?, self.size(Role::Size)?) else { return Ok(None) };
        let condition = self.row.text(Role::Condition);
        let conditions = &self.table.conditions;
        if price == 0 && self.table.zero != Zero::Price || conditions.is_nothing(condition) {
            return Ok(None);
        }
        let word = self.row.text(Role::Aggressor);
        let is_of = |words: &[String]| words.iter().any(|known| known == word);
        let aggressor = match () {
            () if is_of(&self.table.buyers) => Some(Side::Bid),
            () if is_of(&self.table.sellers) => Some(Side::Ask),
            () => None,
        };
        // One that is no number has none.
        let number = self.row.text(Role::Number).parse().unwrap_or(0);
        Ok(Some(Print { number, price, size, at, aggressor, is_eligible: conditions.is_eligible(condition) }))
    }

    /// When the row was, nanoseconds since 1970.
    fn time(&self) -> Option<u64> {
        let (table, text) = (&self.table, self.row.text(Role::Time));
        let unit = self.row.unit.unwrap_or(table.unit);
        let date = || match self.row.text(Role::Date) {
            "" => table.date,
            text => days(text),
        };
        if unit == TimeUnit::Text {
            if table.is_of_day || table.has(Role::Date) {
                return self.utc(date()?, of_day(text)?);
            }
            return self.written(text);
        }
        let nanos = counted(text, unit.nanos())?;
        if table.is_of_day { self.utc(date()?, nanos) } else { Some(nanos) }
    }

    /// A date and a time of day, with what it is ahead of UTC or by the zone.
    fn written(&self, text: &str) -> Option<u64> {
        let (date, rest) = text.split_at_checked(10)?;
        let rest = rest.strip_prefix(['T', ' '])?;
        let zone = rest.find(['Z', '+', '-']);
        let (clock, zone) = zone.map_or((rest, ""), |at| rest.split_at(at));
        let (day, nanos) = (days(date)?, of_day(clock)?);
        let ahead: i64 = match zone {
            "" => return self.utc(day, nanos),
            "Z" => 0,
            _ => {
                let digits = zone[1..].replace(':', "");
                let (hours, minutes) = digits.split_at_checked(2)?;
                let minutes: i64 = if minutes.is_empty() { 0 } else { minutes.parse().ok()? };
                let ahead = hours.parse::<i64>().ok()? * 60 + minutes;
                if zone.starts_with('-') { -ahead } else { ahead }
            }
        };
        let since = i128::from(day) * i128::from(DAY) + i128::from(nanos) - i128::from(ahead) * 60 * i128::from(SECOND);
        u64::try_from(since).ok()
    }

    /// A time on the zone's clock. One that comes twice is the first one, unless rows would go back by that, or are in the second already; one that is left out is what it would have
    /// been without the change.
    fn utc(&self, day: u32, since_midnight: u64) -> Option<u64> {
        let date = rwf::Date::from_days(day);
        let date = jiff::civil::Date::new(i16::try_from(date.year).ok()?, date.month as i8, date.day as i8).ok()?;
        let midnight = date.at(0, 0, 0, 0);
        let clock = midnight.checked_add(jiff::SignedDuration::from_nanos(i64::try_from(since_midnight).ok()?)).ok()?;
        let found = self.table.zone.to_ambiguous_timestamp(clock);
        let is_twice = matches!(found.offset(), AmbiguousOffset::Fold { .. });
        let nanos = |time: jiff::Timestamp| u64::try_from(time.as_nanosecond()).ok();
        let first = found.compatible().ok()?;
        let at = nanos(first)?;
        if is_twice {
            let change = self.table.zone.following(first).next().and_then(|change| nanos(change.timestamp()))?;
            // Who is in the second hour stays there, but for a row that is a little late.
            let most = if self.last < change { HALF_AN_HOUR } else { LATE };
            if at + most < self.last {
                return nanos(found.later().ok()?);
            }
        }
        Some(at)
    }
}

impl Tables {
    /// Opens what a mapping file names.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let tables = map::read(path).map_err(|error| match error {
            map::MapError::Io(error) => error,
            other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
        })?;
        let lanes = tables.into_iter().map(Lane::open).collect::<io::Result<Vec<_>>>()?;
        let mut new = Self { lanes, quotes: HashMap::new(), now: 0, count: 0 };
        new.now = new.first().and_then(|at| new.lanes[at].next.as_ref()).map_or(0, |tick| tick.at);
        Ok(new)
    }

    /// Symbols that are known without reading; none if one of the tables has them in a column.
    pub(super) fn symbols(&self) -> Vec<String> {
        let all: Option<Vec<String>> = self.lanes.iter().map(|lane| lane.table.symbol.clone()).collect();
        let mut all = all.unwrap_or_default();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The lane whose row comes next.
    fn first(&self) -> Option<usize> {
        let due = |(at, lane): (usize, &Lane)| Some((lane.next.as_ref()?.at, at));
        self.lanes.iter().enumerate().filter_map(due).min().map(|(_, at)| at)
    }

    fn apply(&mut self, tick: &Tick, board: &mut Board) {
        self.count += 1;
        let item = board.item(&tick.symbol);
        board.begin(tick.at);
        if tick.sides != [None, None] {
            let quote = self.quotes.entry(item).or_default();
            for (kept, told) in quote.iter_mut().zip(tick.sides) {
                *kept = told.unwrap_or(*kept);
            }
            board.quote(item, quote[0], quote[1]);
        }
        if let Some(print) = tick.trade {
            board.trade(item, print);
        }
    }
}

impl Input for Tables {
    fn next_at(&self) -> Option<u64> {
        self.first().and_then(|at| self.lanes[at].next.as_ref()).map(|tick| tick.at.max(self.now))
    }

    fn step(&mut self, board: &mut Board) {
        let Some(at) = self.first() else { return };
        let Some(first) = self.lanes[at].next.take() else { return };
        self.now = self.now.max(first.at);
        self.lanes[at].fill();
        self.apply(&first, board);
        // Rows of one time that tell one side each make one quote.
        while first.trade.is_none()
            && let Some(next) = &self.lanes[at].next
            && (next.at, &next.symbol, next.trade) == (first.at, &first.symbol, None)
        {
            let Some(next) = self.lanes[at].next.take() else { return };
            self.lanes[at].fill();
            self.apply(&next, board);
        }
    }

    fn is_at_traffic(&self) -> bool {
        true
    }

    fn books(&self) -> &dyn ReadBooks {
        &NoBooks
    }

    fn at_clock(&self, since_midnight: Nanos) -> u64 {
        let zone = self.lanes.first().map(|lane| (lane, lane.table.zone.clone()));
        let at = zone.and_then(|(lane, zone)| {
            let time = jiff::Timestamp::from_nanosecond(i128::from(self.now)).ok()?.to_zoned(zone).date();
            let day = days(&time.to_string())?;
            lane.utc(day, since_midnight)
        });
        at.unwrap_or(self.now / DAY * DAY + since_midnight)
    }

    fn messages(&self) -> u64 {
        self.count
    }

    fn unread(&self) -> Option<String> {
        self.lanes.iter().find_map(|lane| lane.trouble.clone())
    }

    fn remarks(&self) -> Option<String> {
        let sum = |of: fn(&Lane) -> u64| self.lanes.iter().map(of).sum::<u64>();
        let kinds = [
            ("rows whose time cannot be read", sum(|lane| lane.bad.time)),
            ("rows with a price or size that is none", sum(|lane| lane.bad.value)),
            ("rows without a symbol", sum(|lane| lane.bad.symbol)),
            ("rows that are earlier than the one before", sum(|lane| lane.disorder)),
        ];
        let texts: Vec<String> =
            kinds.into_iter().filter(|(_, count)| *count > 0).map(|(kind, count)| format!("{kind}: {count}")).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}
