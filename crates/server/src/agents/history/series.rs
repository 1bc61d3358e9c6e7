//! The prices of an item over a day: a bar for each minute, and the last prices one by one.

use std::collections::VecDeque;

use rwf::{DataType, FieldList, Primitive, SetScope};
use schemars::JsonSchema;
use serde::Serialize;

/// Fields of the RDM dictionary that prices are in.
mod fid {
    pub(super) const TRDPRC_1: i16 = 6;
    pub(super) const BID: i16 = 22;
    pub(super) const ASK: i16 = 25;
    pub(super) const TRDVOL_1: i16 = 178;
}

/// Minutes with a price that are kept: a day of them.
pub const BARS_MAX: usize = 1_440;
/// Single prices that are kept.
pub const TICKS_MAX: usize = 1_000;

/// The prices of a minute in which there was one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Bar {
    /// Begin of the minute, Unix seconds.
    pub time_s: u64,
    /// The first price.
    pub open: f64,
    /// The highest.
    pub high: f64,
    /// The lowest.
    pub low: f64,
    /// The last.
    pub close: f64,
    /// Sizes of the trades (`TRDVOL_1`), added up.
    pub volume: f64,
    /// Prices.
    pub count: u32,
}

/// A price.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Tick {
    /// When it came, Unix milliseconds.
    pub time_ms: u64,
    /// The last trade (`TRDPRC_1`); of an item that is not traded the middle between `BID` and `ASK`.
    pub price: f64,
    /// The tick is a trade; else a price that was there already, or the middle of a quote.
    pub trade: bool,
    /// The size of the trade (`TRDVOL_1`), where it was told.
    pub size: Option<f64>,
}

/// The prices kept of an item.
#[derive(Debug, Default)]
pub(super) struct Series {
    bars: VecDeque<Bar>,
    ticks: VecDeque<Tick>,
    trade: Option<f64>,
    bid: Option<f64>,
    ask: Option<f64>,
}

impl Series {
    /// The bars, oldest first.
    pub(super) fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.bars.iter()
    }

    /// The last prices, oldest first.
    pub(super) fn ticks(&self) -> impl Iterator<Item = &Tick> {
        self.ticks.iter()
    }

    /// An image has come: what it does not have is not known any more.
    pub(super) fn image(&mut self, now_ms: u64, container: DataType, body: &[u8]) {
        (self.trade, self.bid, self.ask) = (None, None, None);
        self.message(now_ms, container, body, false);
    }

    /// An update has come.
    pub(super) fn update(&mut self, now_ms: u64, container: DataType, body: &[u8]) {
        self.message(now_ms, container, body, true);
    }

    fn message(&mut self, now_ms: u64, container: DataType, body: &[u8], is_update: bool) {
        if container != DataType::FIELD_LIST {
            return;
        }
        let Ok(list) = FieldList::decode(body, &SetScope::default()) else { return };
        let (mut traded, mut quoted, mut size) = (false, false, None);
        for entry in list.entries().map_while(Result::ok) {
            let value = |of: &rwf::FieldEntry<'_>| match of.value(DataType::REAL) {
                Ok(Primitive::Real(real)) => Some(real.to_f64()).filter(|value| value.is_finite()),
                _ => None,
            };
            match entry.fid {
                fid::TRDPRC_1 => (self.trade, traded) = (value(&entry), true),
                fid::BID => (self.bid, quoted) = (value(&entry), true),
                fid::ASK => (self.ask, quoted) = (value(&entry), true),
                fid::TRDVOL_1 => size = value(&entry),
                _ => {}
            }
        }
        let middle = self.bid.zip(self.ask).map(|(bid, ask)| f64::midpoint(bid, ask));
        let is_new = traded || (quoted && self.trade.is_none());
        let Some(price) = self.trade.or(middle).filter(|_| is_new) else { return };
        let trade = is_update && traded && self.trade.is_some();
        self.add(Tick { time_ms: now_ms, price, trade, size: size.filter(|_| trade) });
    }

    fn add(&mut self, tick: Tick) {
        let (time_s, price, volume) = (tick.time_ms / 60_000 * 60, tick.price, tick.size.unwrap_or(0.0));
        match self.bars.back_mut() {
            // A clock that was set back does not begin a minute anew.
            Some(bar) if bar.time_s >= time_s => {
                bar.high = bar.high.max(price);
                bar.low = bar.low.min(price);
                bar.close = price;
                bar.volume += volume;
                bar.count = bar.count.saturating_add(1);
            }
            _ => {
                if self.bars.len() == BARS_MAX {
                    self.bars.pop_front();
                }
                self.bars.push_back(Bar {
                    time_s,
                    open: price,
                    high: price,
                    low: price,
                    close: price,
                    volume,
                    count: 1,
                });
            }
        }
        if self.ticks.len() == TICKS_MAX {
            self.ticks.pop_front();
        }
        self.ticks.push_back(tick);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use feed::fields::{FieldWriter, append_fields};

    const FIELDS: DataType = DataType::FIELD_LIST;

    fn body(write: impl FnOnce(&mut FieldWriter<'_, '_>)) -> Vec<u8> {
        let mut out = Vec::new();
        append_fields(&mut out, write);
        out
    }

    fn trade(price: i64) -> Vec<u8> {
        body(|f| {
            f.real(fid::TRDPRC_1, price, 2);
            f.real(fid::TRDVOL_1, 100, 0);
        })
    }

    #[test]
    fn a_minute_has_its_first_highest_lowest_and_last_price() {
        let mut series = Series::default();
        series.image(60_000, FIELDS, &trade(1_000));
        for (ms, price) in [(60_100, 1_010), (119_999, 980), (120_000, 1_020)] {
            series.update(ms, FIELDS, &trade(price));
        }
        let first = Bar { time_s: 60, open: 10.0, high: 10.1, low: 9.8, close: 9.8, volume: 200.0, count: 3 };
        let second = Bar { time_s: 120, open: 10.2, high: 10.2, low: 10.2, close: 10.2, volume: 100.0, count: 1 };
        assert_eq!(series.bars().copied().collect::<Vec<_>>(), [first, second]);
        let trades: Vec<bool> = series.ticks().map(|tick| tick.trade).collect();
        assert_eq!(trades, [false, true, true, true], "the image's price was traded before");
        assert_eq!(series.ticks().next().and_then(|tick| tick.size), None);
    }

    #[test]
    fn what_is_not_traded_has_the_middle_of_its_quote() {
        let mut series = Series::default();
        let quote = |bid, ask| {
            body(|f| {
                f.real(fid::BID, bid, 2);
                f.real(fid::ASK, ask, 2);
            })
        };
        series.image(0, FIELDS, &quote(100, 200));
        series.update(10, FIELDS, &body(|f| f.real(fid::BID, 180, 2)));
        series.update(20, FIELDS, &body(|f| f.real(feed::fields::ACVOL_1, 7, 0)));
        assert_eq!(series.ticks().map(|tick| tick.price).collect::<Vec<_>>(), [1.5, 1.9]);
        assert!(series.ticks().all(|tick| !tick.trade));
        // Once it is traded, quotes say nothing of its price.
        series.update(30, FIELDS, &trade(500));
        series.update(40, FIELDS, &quote(100, 200));
        assert_eq!(series.ticks().count(), 3);
        // The next image has no trade.
        series.image(50, FIELDS, &quote(100, 300));
        assert_eq!(series.ticks().last().map(|tick| tick.price), Some(2.0));
    }

    #[test]
    fn a_day_and_a_thousand_prices_are_kept() {
        let mut series = Series::default();
        for minute in 0..2_000 {
            series.update(minute * 60_000, FIELDS, &trade(100));
        }
        assert_eq!((series.bars().count(), series.ticks().count()), (BARS_MAX, TICKS_MAX));
        assert_eq!(series.bars().next().map(|bar| bar.time_s), Some((2_000 - 1_440) * 60));
        series.update(0, FIELDS, &trade(100));
        assert_eq!(
            series.bars().last().map(|bar| (bar.time_s, bar.count)),
            Some((1_999 * 60, 2)),
            "the clock was set back"
        );
    }

    #[test]
    fn what_cannot_be_read_is_no_price() {
        let mut series = Series::default();
        series.update(0, FIELDS, &[0xff; 3]);
        series.update(0, DataType::MAP, &trade(1));
        series.update(0, FIELDS, &body(|f| f.blank(fid::TRDPRC_1)));
        assert_eq!(series.ticks().count(), 0);
    }
}
