//! Facts of one instrument of a venue today, and the field lists that tell them.
//!
//! Prices are integers of the venue's smallest unit and may be zero or negative: what is not known is `None` and a blank field, never 0.

use market::{BookState, Level, Side};

use crate::fields::{self as fid, Fid, FieldWriter};
use crate::session::Moment;

/// What a venue's feed is, as far as fields need it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Decimals of prices: of every one, or of the item's, where products have decimals of their own.
    pub decimals: u8,
    /// Decimals of sizes.
    pub size_decimals: u8,
    /// `CURRENCY`; `None`: the feed does not tell.
    pub currency: Option<u16>,
    /// `RDN_EXCHD2`.
    pub exchange: Option<u16>,
    /// `RDN_EXCHID`, `BIDXID` and `ASKXID`.
    pub quote_exchange: Option<u16>,
}

/// A trade of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Print {
    /// The venue's number of the trade.
    pub number: u64,
    pub price: i64,
    pub size: u64,
    /// Nanoseconds since 1970.
    pub at: u64,
    /// Who traded at once.
    pub aggressor: Option<Side>,
    /// It counts for the last, highest, lowest and first price; others count for the volume alone.
    pub is_eligible: bool,
}

/// What a trade did besides being the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TradeChange {
    pub first: bool,
    pub high: bool,
    pub low: bool,
    pub is_eligible: bool,
}

/// Which part of the quote changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QuoteChange {
    pub bid: bool,
    pub ask: bool,
    pub state: bool,
}

impl QuoteChange {
    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// What a venue says of an instrument beside its book and trades.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// `MKT_PHASE`.
    pub market: Option<&'static str>,
    /// `TRD_STATUS`: 1 normal, 2 halted, 3 suspended, 4 opening delay.
    pub trading: Option<u16>,
    /// `INST_PHASE`.
    pub phase: Option<u16>,
    /// `HALT_REASN`; empty: none is told.
    pub reason: String,
    /// `SH_SAL_RES`.
    pub short_sale: Option<u16>,
    /// `LOT_SIZE`.
    pub lot: Option<u32>,
    /// `OFF_OPEN`.
    pub official_open: Option<i64>,
    /// `OFF_CLOSE`.
    pub official_close: Option<i64>,
    /// `ADJUST_CLS`: what the venue says of the day before.
    pub adjusted_close: Option<i64>,
    /// `SETTLE`.
    pub settlement: Option<i64>,
    /// `UPLIMIT`, `LOLIMIT`: once limits were told, what is none is blank.
    pub limits: Option<[Option<i64>; 2]>,
    /// `OPINT_1`.
    pub open_interest: Option<i64>,
}

/// What would be traded in an auction now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Auction {
    /// `THEO_PRC`.
    pub price: Option<i64>,
    /// `THEO_VOL`.
    pub paired: u64,
    /// `IMB_SH`.
    pub imbalance: u64,
    /// `IMB_SIDE`: 1 none, 2 buy, 3 sell, 4 insufficient orders.
    pub side: u16,
    /// `REF_PRICE`.
    pub reference: Option<i64>,
}

/// The values of today.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    bid: Option<Level>,
    ask: Option<Level>,
    /// Nanoseconds since 1970; 0: never.
    quoted_at: u64,
    /// The last trade that counts for the last price, and the last that does not.
    last: Option<Print>,
    irregular: Option<Print>,
    open: Option<i64>,
    high: Option<i64>,
    low: Option<i64>,
    volume: u128,
    trades: u64,
    /// Sum of price times size, in the smallest unit of price.
    turnover: i128,
    /// For when one of them is broken.
    prints: Vec<Print>,
    pub(super) status: Status,
    pub(super) auction: Option<Auction>,
}

impl Values {
    /// A new day, at this phase of the market: what the venue has not told is not known.
    pub(super) fn begin(market: Option<&'static str>) -> Self {
        Self { status: Status { market, ..Status::default() }, ..Self::default() }
    }

    pub(super) fn quote(&mut self, bid: Option<Level>, ask: Option<Level>, at: u64) -> QuoteChange {
        let sums = |level: Option<Level>| level.map(|level| (level.price, level.size));
        let change = QuoteChange {
            bid: sums(bid) != sums(self.bid),
            ask: sums(ask) != sums(self.ask),
            state: book_state(bid, ask) != book_state(self.bid, self.ask),
        };
        (self.bid, self.ask) = (bid, ask);
        if !change.is_none() {
            self.quoted_at = at;
        }
        change
    }

    pub(super) fn trade(&mut self, print: Print) -> TradeChange {
        self.prints.push(print);
        self.count(print)
    }

    fn count(&mut self, print: Print) -> TradeChange {
        self.volume = self.volume.saturating_add(u128::from(print.size));
        self.trades += 1;
        self.turnover = self.turnover.saturating_add(i128::from(print.price) * i128::from(print.size));
        if !print.is_eligible {
            self.irregular = Some(print);
            return TradeChange::default();
        }
        let change = TradeChange {
            first: self.open.is_none(),
            high: self.high.is_none_or(|high| print.price > high),
            low: self.low.is_none_or(|low| print.price < low),
            is_eligible: true,
        };
        self.open.get_or_insert(print.price);
        self.high = Some(self.high.map_or(print.price, |high| high.max(print.price)));
        self.low = Some(self.low.map_or(print.price, |low| low.min(print.price)));
        self.last = Some(print);
        change
    }

    /// A trade was none: what the day is without it. False: there is no such trade.
    pub(super) fn break_trade(&mut self, number: u64) -> bool {
        let Some(at) = self.prints.iter().rposition(|print| print.number == number) else { return false };
        self.prints.remove(at);
        (self.open, self.high, self.low, self.last, self.irregular) = (None, None, None, None, None);
        (self.volume, self.trades, self.turnover) = (0, 0, 0);
        let prints = std::mem::take(&mut self.prints);
        for print in &prints {
            self.count(*print);
        }
        self.prints = prints;
        true
    }
}

/// Values in finer units.
impl Values {
    /// Prices and sizes count in units so many times finer. What has no room in them is forgotten: it is not known any more.
    pub(super) fn refine(&mut self, prices: i64, sizes: u64) {
        let price = |value: Option<i64>| value.and_then(|value| value.checked_mul(prices));
        let level = |value: Option<Level>| {
            let value = value?;
            Some(Level { price: value.price.checked_mul(prices)?, size: value.size.checked_mul(sizes)?, ..value })
        };
        let print = |value: &Print| {
            let (price, size) = (value.price.checked_mul(prices)?, value.size.checked_mul(sizes)?);
            Some(Print { price, size, ..*value })
        };
        (self.bid, self.ask) = (level(self.bid), level(self.ask));
        (self.open, self.high, self.low) = (price(self.open), price(self.high), price(self.low));
        (self.last, self.irregular) = (self.last.as_ref().and_then(print), self.irregular.as_ref().and_then(print));
        self.prints = self.prints.iter().filter_map(print).collect();
        self.volume = self.volume.saturating_mul(sizes.into());
        self.turnover = self.turnover.saturating_mul(i128::from(prices)).saturating_mul(sizes.into());
    }
}

/// The field lists.
impl Values {
    /// The whole record.
    pub(super) fn write_image(&self, facts: &Facts, [name, symbol, isin]: [&str; 3], out: &mut FieldWriter<'_, '_>) {
        out.uint(fid::PROD_PERM, 6_560);
        out.text(fid::DSPLY_NAME, cut(name, 16));
        out.text(fid::PROV_SYMB, cut(symbol, 32));
        if !isin.is_empty() {
            out.text(fid::ISIN_CODE, isin);
        }
        out.known(fid::CURRENCY, facts.currency);
        out.known(fid::RDN_EXCHID, facts.quote_exchange);
        out.known(fid::RDN_EXCHD2, facts.exchange);
        out.enumeration(fid::TRD_UNITS, u16::from(facts.decimals));
        self.write_last(facts, out);
        self.write_irregular(facts, out);
        self.write_totals(facts, out);
        price(out, fid::OPEN_PRC, self.open, facts);
        price(out, fid::HIGH_1, self.high, facts);
        price(out, fid::LOW_1, self.low, facts);
        self.write_quote_times(out);
        self.write_bid(facts, out);
        self.write_ask(facts, out);
        out.enumeration(fid::BOOK_STATE, book_state(self.bid, self.ask));
        self.write_status(facts, out);
        if self.auction.is_some() {
            self.write_auction(facts, out);
        }
    }

    pub(super) fn write_quote(&self, facts: &Facts, change: QuoteChange, out: &mut FieldWriter<'_, '_>) {
        self.write_quote_times(out);
        if change.bid {
            self.write_bid(facts, out);
        }
        if change.ask {
            self.write_ask(facts, out);
        }
        if change.state {
            out.enumeration(fid::BOOK_STATE, book_state(self.bid, self.ask));
        }
    }

    pub(super) fn write_trade(&self, facts: &Facts, change: TradeChange, out: &mut FieldWriter<'_, '_>) {
        if change.is_eligible {
            self.write_last(facts, out);
        } else {
            self.write_irregular(facts, out);
        }
        self.write_totals(facts, out);
        for (changed, id, value) in [
            (change.first, fid::OPEN_PRC, self.open),
            (change.high, fid::HIGH_1, self.high),
            (change.low, fid::LOW_1, self.low),
        ] {
            if changed {
                price(out, id, value, facts);
            }
        }
    }

    /// All that trades make of a day: behind a broken one.
    pub(super) fn write_correction(&self, facts: &Facts, out: &mut FieldWriter<'_, '_>) {
        self.write_last(facts, out);
        self.write_irregular(facts, out);
        self.write_totals(facts, out);
        price(out, fid::OPEN_PRC, self.open, facts);
        price(out, fid::HIGH_1, self.high, facts);
        price(out, fid::LOW_1, self.low, facts);
    }

    pub(super) fn write_status(&self, facts: &Facts, out: &mut FieldWriter<'_, '_>) {
        let Status { market, trading, phase, reason, short_sale, lot, limits, open_interest, .. } = &self.status;
        for (id, value) in [(fid::TRD_STATUS, trading), (fid::INST_PHASE, phase), (fid::SH_SAL_RES, short_sale)] {
            out.known(id, *value);
        }
        if let Some(market) = market {
            out.text(fid::MKT_PHASE, market);
        }
        if trading.is_some() {
            out.text(fid::HALT_REASN, cut(reason, 40));
        }
        if let Some(lot) = lot {
            out.real(fid::LOT_SIZE, i64::from(*lot), 0);
        }
        for (id, value) in [
            (fid::OFF_OPEN, self.status.official_open),
            (fid::OFF_CLOSE, self.status.official_close),
            (fid::ADJUST_CLS, self.status.adjusted_close),
            (fid::SETTLE, self.status.settlement),
        ] {
            if value.is_some() {
                price(out, id, value, facts);
            }
        }
        if let Some([high, low]) = *limits {
            price(out, fid::UPLIMIT, high, facts);
            price(out, fid::LOLIMIT, low, facts);
        }
        if let Some(open_interest) = open_interest {
            out.real(fid::OPINT_1, *open_interest, 0);
        }
    }

    pub(super) fn write_auction(&self, facts: &Facts, out: &mut FieldWriter<'_, '_>) {
        let auction = self.auction.unwrap_or_default();
        price(out, fid::THEO_PRC, auction.price, facts);
        out.real(fid::THEO_VOL, whole(auction.paired), 0);
        out.real(fid::IMB_SH, whole(auction.imbalance), 0);
        out.enumeration(fid::IMB_SIDE, auction.side);
        price(out, fid::REF_PRICE, auction.reference, facts);
    }

    fn write_last(&self, facts: &Facts, out: &mut FieldWriter<'_, '_>) {
        price(out, fid::TRDPRC_1, self.last.map(|last| last.price), facts);
        let Some(last) = self.last else {
            for id in [fid::TRDVOL_1, fid::SALTIM, fid::SALTIM_MS, fid::SALTIM_NS, fid::TRADE_DATE, fid::TRADE_ID] {
                out.blank(id);
            }
            return out.enumeration(fid::AGGRS_SID1, 0);
        };
        let at = Moment::from_epoch(last.at);
        size(out, fid::TRDVOL_1, last.size.into(), facts);
        out.time_of_second(fid::SALTIM, at.time);
        out.uint(fid::SALTIM_MS, at.millis());
        out.time_exact(fid::SALTIM_NS, at.time);
        out.date(fid::TRADE_DATE, at.date());
        match last.number {
            // The venue's trades have no number.
            0 => out.blank(fid::TRADE_ID),
            number => out.text(fid::TRADE_ID, &number.to_string()),
        }
        out.enumeration(fid::AGGRS_SID1, last.aggressor.map_or(0, number));
    }

    fn write_irregular(&self, facts: &Facts, out: &mut FieldWriter<'_, '_>) {
        price(out, fid::IRGPRC, self.irregular.map(|print| print.price), facts);
        match self.irregular {
            Some(print) => size(out, fid::IRGVOL, print.size.into(), facts),
            None => out.blank(fid::IRGVOL),
        }
    }

    fn write_totals(&self, facts: &Facts, out: &mut FieldWriter<'_, '_>) {
        size(out, fid::ACVOL_1, self.volume, facts);
        out.real(fid::NUM_MOVES, whole(self.trades), 0);
        exact(out, fid::TURNOVER, self.turnover, facts.decimals + facts.size_decimals, facts.decimals.min(2));
        let volume = i128::try_from(self.volume).unwrap_or(i128::MAX);
        let vwap = self.turnover.checked_div(volume).and_then(|vwap| i64::try_from(vwap).ok());
        price(out, fid::VWAP, vwap, facts);
    }

    fn write_quote_times(&self, out: &mut FieldWriter<'_, '_>) {
        if self.quoted_at == 0 {
            for id in [fid::QUOTIM, fid::QUOTIM_MS, fid::QUOTIM_NS, fid::QUOTE_DATE] {
                out.blank(id);
            }
            return;
        }
        let at = Moment::from_epoch(self.quoted_at);
        out.time_of_second(fid::QUOTIM, at.time);
        out.uint(fid::QUOTIM_MS, at.millis());
        out.time_exact(fid::QUOTIM_NS, at.time);
        out.date(fid::QUOTE_DATE, at.date());
    }

    fn write_bid(&self, facts: &Facts, out: &mut FieldWriter<'_, '_>) {
        write_side(self.bid, facts, [fid::BID, fid::BIDSIZE, fid::BIDXID], out);
    }

    fn write_ask(&self, facts: &Facts, out: &mut FieldWriter<'_, '_>) {
        write_side(self.ask, facts, [fid::ASK, fid::ASKSIZE, fid::ASKXID], out);
    }
}

fn write_side(level: Option<Level>, facts: &Facts, ids: [Fid; 3], out: &mut FieldWriter<'_, '_>) {
    price(out, ids[0], level.map(|level| level.price), facts);
    match level {
        Some(level) => size(out, ids[1], level.size.into(), facts),
        None => out.blank(ids[1]),
    }
    if let Some(exchange) = facts.quote_exchange {
        out.enumeration(ids[2], if level.is_some() { exchange } else { 0 });
    }
}

/// A price with as few decimals as it takes, but two at least.
pub(super) fn price(out: &mut FieldWriter<'_, '_>, id: Fid, price: Option<i64>, facts: &Facts) {
    let Some(value) = price else { return out.blank(id) };
    exact(out, id, value.into(), facts.decimals, 2);
}

/// A size with as few decimals as it takes.
pub(super) fn size(out: &mut FieldWriter<'_, '_>, id: Fid, size: u128, facts: &Facts) {
    exact(out, id, i128::try_from(size).unwrap_or(i128::MAX), facts.size_decimals, 0);
}

/// A number with as few decimals as it takes, but `least`, as far as it has them; fewer where a field has no room for its digits or for more
/// than 14 decimals, so that of a sum the last ones are cut.
fn exact(out: &mut FieldWriter<'_, '_>, id: Fid, value: i128, decimals: u8, least: u8) {
    match i64::try_from(value) {
        // Nearly all: division of twice the width takes ten times as long.
        Ok(mut value) if decimals <= MOST_DECIMALS => {
            let mut decimals = decimals;
            while decimals > least && value % 10 == 0 {
                (value, decimals) = (value / 10, decimals - 1);
            }
            out.real(id, value, decimals);
        }
        _ => exact_long(out, id, value, decimals, least),
    }
}

#[cold]
fn exact_long(out: &mut FieldWriter<'_, '_>, id: Fid, mut value: i128, mut decimals: u8, least: u8) {
    while decimals > least && value % 10 == 0
        || decimals > 0 && (decimals > MOST_DECIMALS || i64::try_from(value).is_err())
    {
        (value, decimals) = (value / 10, decimals - 1);
    }
    out.real(id, i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX }), decimals);
}

/// Decimals that a REAL can tell (exponent -14).
const MOST_DECIMALS: u8 = 14;

/// Sizes and counts, of which no venue has as many as a signed number cannot hold.
pub(super) fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// `ORDER_SIDE`, `AGGRS_SID1`: 1 bid, 2 ask.
pub(super) fn number(side: Side) -> u16 {
    match side {
        Side::Bid => 1,
        Side::Ask => 2,
    }
}

/// `BOOK_STATE`: 0 there is no order, 1 normal, 2 locked, 3 crossed, 4 one-sided.
fn book_state(bid: Option<Level>, ask: Option<Level>) -> u16 {
    if bid.is_none() && ask.is_none() {
        return 0;
    }
    if bid.is_none() || ask.is_none() {
        return 4;
    }
    match BookState::of(bid.map(|level| level.price), ask.map(|level| level.price)) {
        BookState::Normal => 1,
        BookState::Locked => 2,
        BookState::Crossed => 3,
    }
}

/// At most so many bytes of a text, cut between characters.
fn cut(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
