//! The `MarketPrice` record of one instrument: its values today, and the field lists that tell them.
//!
//! It is between whoever knows what happened (generator, replay) and the provider that sends it. Prices are integers in
//! units of the record's last decimal; a price of 0 means "none".

use super::fields::{self as fid, FieldWriter};
use super::instrument::{Kind, Profile, Venue};
use super::session::Moment;

/// One side of the best quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Price, 0 when there is none.
    pub price: i64,
    /// Size in units of the instrument.
    pub size: u64,
    /// The quoting party.
    pub venue: Venue,
}

impl Side {
    /// No quote on this side.
    pub const NONE: Self = Self { price: 0, size: 0, venue: Venue::NONE };
}

/// The values of one instrument on one trading day.
#[derive(Clone, Debug)]
pub struct Record {
    /// Shown as `DSPLY_NAME` and `PROV_SYMB`.
    pub name: Box<str>,
    /// Digits after the decimal point of every price here.
    pub decimals: u8,
    kind: Kind,
    exchange: u16,
    currency: u16,
    lot: u32,
    /// Best bid.
    pub bid: Side,
    /// Best ask.
    pub ask: Side,
    bid_up: bool,
    /// The last five trade prices, newest first.
    pub last: [i64; 5],
    last_size: u64,
    last_up: bool,
    /// First trade of the day.
    pub open: i64,
    /// Highest trade of the day.
    pub high: i64,
    /// Lowest trade of the day.
    pub low: i64,
    /// Last price of the day before.
    pub close: i64,
    close_day: u32,
    year_high: i64,
    year_low: i64,
    /// Accumulated volume.
    pub volume: u64,
    /// Trades today.
    pub trades: u64,
    /// Sum of price times size, in units of the last decimal.
    turnover: u128,
    quoted_at: Moment,
    traded_at: Moment,
}

/// Which parts of a quote changed; decides which fields an update carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuoteChange {
    bid: bool,
    ask: bool,
    bid_venue: bool,
    ask_venue: bool,
}

impl QuoteChange {
    /// True when nothing that is published changed.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// Effects of a trade on the record besides being the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TradeChange {
    first: bool,
    high: bool,
    low: bool,
}

impl TradeChange {
    /// All that trades make of a day is told.
    pub const ALL: Self = Self { first: true, high: true, low: true };
}

impl Record {
    /// An instrument before its first quote and trade of the day.
    pub fn new(name: &str, profile: &Profile, today: Moment) -> Self {
        Self {
            name: name.into(),
            decimals: profile.decimals,
            kind: profile.kind,
            exchange: profile.market.exchange,
            currency: profile.market.currency,
            lot: profile.lot,
            bid: Side::NONE,
            ask: Side::NONE,
            bid_up: true,
            last: [0; 5],
            last_size: 0,
            last_up: true,
            open: 0,
            high: 0,
            low: 0,
            close: profile.base_price,
            close_day: today.day.saturating_sub(1),
            year_high: profile.base_price + profile.base_price / 4,
            year_low: profile.base_price - profile.base_price / 5,
            volume: 0,
            trades: 0,
            turnover: 0,
            quoted_at: today,
            traded_at: today,
        }
    }

    /// The last trade price, or yesterday's close before the first trade.
    pub fn last_or_close(&self) -> i64 {
        if self.last[0] == 0 { self.close } else { self.last[0] }
    }

    /// Takes a new best quote; says what changed.
    pub fn quote(&mut self, at: Moment, bid: Side, ask: Side) -> QuoteChange {
        let change = QuoteChange {
            bid: (bid.price, bid.size) != (self.bid.price, self.bid.size),
            ask: (ask.price, ask.size) != (self.ask.price, self.ask.size),
            bid_venue: bid.venue != self.bid.venue,
            ask_venue: ask.venue != self.ask.venue,
        };
        if bid.price != self.bid.price {
            self.bid_up = bid.price > self.bid.price;
        }
        self.bid = bid;
        self.ask = ask;
        self.quoted_at = at;
        change
    }

    /// Takes a trade; says what it changed.
    pub fn trade(&mut self, at: Moment, price: i64, size: u64) -> TradeChange {
        let previous = self.last_or_close();
        if price != previous {
            self.last_up = price > previous;
        }
        let (first, extreme) = (self.open == 0, self.high == 0);
        let change = TradeChange { first, high: extreme || price > self.high, low: extreme || price < self.low };
        if first {
            self.open = price;
        }
        if extreme {
            (self.high, self.low) = (price, price);
        }
        self.high = self.high.max(price);
        self.low = self.low.min(price);
        // Of a recording, the year before it is not known.
        if self.year_high != 0 {
            self.year_high = self.year_high.max(price);
            self.year_low = self.year_low.min(price);
        }
        self.last.rotate_right(1);
        self.last[0] = price;
        self.last_size = size;
        self.volume(price, size);
        self.traded_at = at;
        change
    }

    /// Takes a trade that counts for the day's volume alone.
    pub fn volume(&mut self, price: i64, size: u64) -> TradeChange {
        self.volume += size;
        self.trades += 1;
        self.turnover += price.unsigned_abs() as u128 * u128::from(size);
        TradeChange::default()
    }

    /// Takes the official opening price.
    pub fn open_at(&mut self, at: Moment, price: i64) -> TradeChange {
        self.open = price;
        self.traded_at = at;
        TradeChange { first: true, ..TradeChange::default() }
    }

    /// The day had no trades so far: they are counted anew.
    pub fn forget_trades(&mut self) {
        self.last = [0; 5];
        (self.open, self.high, self.low) = (0, 0, 0);
        (self.volume, self.trades, self.turnover, self.last_size) = (0, 0, 0, 0);
    }

    /// A new trading day: yesterday's last price becomes the close, today's values start empty.
    pub fn roll(&mut self, today: Moment) {
        self.close = self.last_or_close();
        self.close_day = self.traded_at.day;
        self.forget_trades();
        (self.bid, self.ask) = (Side::NONE, Side::NONE);
        (self.quoted_at, self.traded_at) = (today, today);
    }

    /// Writes the whole record, as a refresh carries it.
    pub fn write_image(&self, out: &mut FieldWriter<'_, '_>) {
        out.uint(fid::PROD_PERM, 6_560);
        out.uint(fid::RDNDISPLAY, 66);
        out.text(fid::DSPLY_NAME, &self.name[..self.name.len().min(16)]);
        out.enumeration(fid::RDN_EXCHID, short_exchange(self.exchange));
        out.time(fid::TIMACT, self.quoted_at.time.max(self.traded_at.time));
        self.write_last(out);
        for (id, &price) in [fid::TRDPRC_2, fid::TRDPRC_3, fid::TRDPRC_4, fid::TRDPRC_5].iter().zip(&self.last[1..]) {
            self.price(out, *id, price);
        }
        self.price(out, fid::HIGH_1, self.high);
        self.price(out, fid::LOW_1, self.low);
        out.enumeration(fid::CURRENCY, self.currency);
        out.date(fid::TRADE_DATE, self.traded_at.date());
        out.date(fid::ACTIV_DATE, self.quoted_at.date());
        out.time(fid::TRDTIM_1, self.traded_at.time / super::session::SECOND / 60 * 60 * super::session::SECOND);
        self.price(out, fid::OPEN_PRC, self.open);
        self.price(out, fid::HST_CLOSE, self.close);
        out.enumeration(fid::TRD_UNITS, u16::from(self.decimals));
        out.real(fid::LOT_SIZE, i64::from(self.lot), 0);
        if self.close == 0 {
            out.blank(fid::HSTCLSDATE);
        } else {
            out.date(fid::HSTCLSDATE, rwf::Date::from_days(self.close_day));
        }
        out.enumeration(fid::MKT_ST_IND, 0);
        out.uint(fid::RECORDTYPE, 113);
        out.uint(fid::PREF_DISP, 2_254);
        self.price(out, fid::ADJUST_CLS, self.close);
        out.enumeration(fid::RDN_EXCHD2, self.exchange);
        self.price(out, fid::YRHIGH_52, self.year_high);
        self.price(out, fid::YRLOW_52, self.year_low);
        out.date(fid::QUOTE_DATE, self.quoted_at.date());
        out.text(fid::PROV_SYMB, self.name.trim_end_matches(' ').split('.').next().unwrap_or_default());
        if self.kind != Kind::Index {
            self.write_quote_times(out);
            self.write_bid(out);
            self.write_ask(out);
            self.write_bid_venue(out);
            self.write_ask_venue(out);
        }
    }

    /// Writes an update for a changed quote.
    pub fn write_quote(&self, change: QuoteChange, out: &mut FieldWriter<'_, '_>) {
        self.write_quote_times(out);
        if change.bid {
            self.write_bid(out);
        }
        if change.bid_venue {
            self.write_bid_venue(out);
        }
        if change.ask {
            self.write_ask(out);
        }
        if change.ask_venue {
            self.write_ask_venue(out);
        }
    }

    /// Writes an update for the last trade.
    pub fn write_trade(&self, change: TradeChange, out: &mut FieldWriter<'_, '_>) {
        self.write_last(out);
        if change.first {
            self.price(out, fid::OPEN_PRC, self.open);
            out.date(fid::TRADE_DATE, self.traded_at.date());
        }
        if change.high {
            self.price(out, fid::HIGH_1, self.high);
        }
        if change.low {
            self.price(out, fid::LOW_1, self.low);
        }
    }

    fn write_last(&self, out: &mut FieldWriter<'_, '_>) {
        let change = if self.last[0] == 0 { 0 } else { self.last[0] - self.close };
        self.price(out, fid::TRDPRC_1, self.last[0]);
        self.change(out, fid::NETCHNG_1, change);
        if self.close == 0 {
            out.blank(fid::PCTCHNG);
        } else {
            out.real(fid::PCTCHNG, percent(change, self.close), 2);
        }
        out.enumeration(fid::PRCTCK_1, if self.last[0] == 0 { 0 } else { tick(self.last_up) });
        out.time_of_second(fid::SALTIM, self.traded_at.time);
        out.uint(fid::SALTIM_MS, self.traded_at.millis());
        out.real(fid::ACVOL_1, self.volume as i64, 0);
        if self.kind != Kind::Index {
            out.real(fid::TRDVOL_1, self.last_size as i64, 0);
            out.real(fid::NUM_MOVES, self.trades as i64, 0);
            let unit = 10u128.pow(u32::from(self.decimals));
            match i64::try_from(self.turnover) {
                Ok(turnover) => self.amount(out, fid::TURNOVER, turnover),
                Err(_) => out.real(fid::TURNOVER, i64::try_from(self.turnover / unit).unwrap_or(i64::MAX), 0),
            }
            self.price(out, fid::VWAP, self.turnover.checked_div(u128::from(self.volume)).unwrap_or(0) as i64);
        }
    }

    fn write_quote_times(&self, out: &mut FieldWriter<'_, '_>) {
        out.time_of_second(fid::QUOTIM, self.quoted_at.time);
        out.uint(fid::QUOTIM_MS, self.quoted_at.millis());
    }

    fn write_bid(&self, out: &mut FieldWriter<'_, '_>) {
        self.price(out, fid::BID, self.bid.price);
        out.real(fid::BIDSIZE, self.bid.size as i64, 0);
        let change = if self.bid.price == 0 { 0 } else { self.bid.price - self.close };
        self.change(out, fid::BID_NET_CH, change);
        out.enumeration(fid::BID_TICK_1, tick(self.bid_up));
    }

    fn write_ask(&self, out: &mut FieldWriter<'_, '_>) {
        self.price(out, fid::ASK, self.ask.price);
        out.real(fid::ASKSIZE, self.ask.size as i64, 0);
    }

    fn write_bid_venue(&self, out: &mut FieldWriter<'_, '_>) {
        out.text(fid::BID_MMID1, self.bid.venue.code());
        out.enumeration(fid::BIDXID, u16::from(self.bid.venue.exchange));
    }

    fn write_ask_venue(&self, out: &mut FieldWriter<'_, '_>) {
        out.text(fid::ASK_MMID1, self.ask.venue.code());
        out.enumeration(fid::ASKXID, u16::from(self.ask.venue.exchange));
    }

    /// A change since yesterday's close, blank where that is not known.
    fn change(&self, out: &mut FieldWriter<'_, '_>, id: fid::Fid, change: i64) {
        if self.close == 0 {
            out.blank(id);
        } else {
            self.amount(out, id, change);
        }
    }

    fn amount(&self, out: &mut FieldWriter<'_, '_>, id: fid::Fid, value: i64) {
        let (value, decimals) =
            if self.kind == Kind::Currency { (value, self.decimals) } else { shortest(value, self.decimals) };
        out.real(id, value, decimals);
    }

    fn price(&self, out: &mut FieldWriter<'_, '_>, id: fid::Fid, price: i64) {
        if price == 0 {
            out.blank(id);
        } else {
            self.amount(out, id, price);
        }
    }
}

/// A value with as few decimals as it takes, but two at least where the record has two: sub-penny prices keep theirs.
fn shortest(mut value: i64, mut decimals: u8) -> (i64, u8) {
    while decimals > 2 && value % 10 == 0 {
        value /= 10;
        decimals -= 1;
    }
    (value, decimals)
}

/// `PRCTCK_1` and `BID_TICK_1`: 1 up, 2 down.
fn tick(up: bool) -> u16 {
    if up { 1 } else { 2 }
}

/// `change` of `base` in hundredths of a percent, rounded.
fn percent(change: i64, base: i64) -> i64 {
    if base == 0 {
        return 0;
    }
    let (change, base) = (i128::from(change) * 10_000, i128::from(base));
    let away = if (change < 0) == (base < 0) { base.abs() / 2 } else { -(base.abs() / 2) };
    let away = if base < 0 { -away } else { away };
    i64::try_from((change + away) / base).unwrap_or(0)
}

/// `RDN_EXCHID` knows exchanges by numbers below 256; those that `RDN_EXCHD2` numbers higher have one of their own there, or none.
fn short_exchange(exchange: u16) -> u16 {
    match exchange {
        1_386 => 229,
        ..=255 => exchange,
        _ => 0,
    }
}
