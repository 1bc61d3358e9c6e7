//! The day's trades, kept for the few that will be broken: a message that breaks one names its number only.

use market::Side;

use crate::market_events::{Trade, TradeKind};

/// Trades of a chunk.
const CHUNK: usize = 1 << 12;
/// Trades that do not fit in a chunk before another begins.
const MOST_STRANGERS: u16 = 256;

/// A trade as nearly all are, in 16 bytes: ten million trades are a very busy day, and memory that is touched for the first time costs more than what is written to it.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// Behind the chunk's base.
    number: u16,
    locate: u16,
    /// Low half of the order's number; the chunk has the other.
    order: u32,
    price: u32,
    /// Shares, which are fewer than 2^24, above the kind. 0 shares: it was broken.
    shares_and_kind: u32,
}

/// Bits below the shares of a trade.
const KIND_BITS: u32 = 8;

impl Kept {
    fn is_broken(self) -> bool {
        self.shares_and_kind >> KIND_BITS == 0
    }
}

/// A trade whose numbers do not fit among those of its neighbours, or are large.
#[derive(Clone, Copy, Debug)]
struct Wide {
    number: u64,
    order: u64,
    /// Shares; 0: it was broken.
    shares: u64,
    price: u32,
    locate: u16,
    kind: u8,
}

/// Trades that came one after the other, with the numbers between which they are. Numbers mostly rise, so a broken trade is in one chunk
/// or few.
#[derive(Debug)]
struct Chunk {
    /// Number of its first trade; none of its trades has a lower one.
    base: u64,
    /// Offset of its highest number.
    most: u16,
    /// High half of the numbers of its orders.
    orders: u32,
    /// Trades that did not fit since it began.
    strangers: u16,
    /// Each number is higher than the one before it.
    rises: bool,
    kept: Vec<Kept>,
}

impl Chunk {
    /// A chunk whose first trade is this one.
    fn new(trade: &Wide) -> Self {
        Self {
            base: trade.number,
            most: 0,
            strangers: 0,
            orders: (trade.order >> 32) as u32,
            rises: true,
            kept: Vec::with_capacity(CHUNK),
        }
    }

    /// Takes a trade if its numbers fit.
    #[inline]
    fn push(&mut self, trade: &Wide) -> bool {
        let behind = trade.number.wrapping_sub(self.base);
        let fits = u16::try_from(behind).is_ok()
            && ((trade.order >> 32) as u32 == self.orders || !is_of_the_book(trade.kind))
            && trade.shares >> (u32::BITS - KIND_BITS) == 0;
        if fits {
            let number = behind as u16;
            self.rises &= self.kept.is_empty() || number > self.most;
            self.most = self.most.max(number);
            let shares_and_kind = (trade.shares as u32) << KIND_BITS | u32::from(trade.kind);
            let Wide { price, locate, .. } = *trade;
            self.kept.push(Kept { number, locate, order: trade.order as u32, price, shares_and_kind });
        }
        fits
    }

    /// Takes out the trade of this number, unless it is broken.
    fn take(&mut self, number: u64) -> Option<Wide> {
        let behind = number.checked_sub(self.base).and_then(|behind| u16::try_from(behind).ok())?;
        if behind > self.most {
            return None;
        }
        let of_number = |kept: &Kept| kept.number == behind && !kept.is_broken();
        let kept = if self.rises {
            let at = self.kept.binary_search_by_key(&behind, |kept| kept.number).ok()?;
            self.kept.get_mut(at).filter(|kept| of_number(kept))
        } else {
            self.kept.iter_mut().find(|kept| of_number(kept))
        }?;
        let trade = Wide {
            number,
            order: u64::from(self.orders) << 32 | u64::from(kept.order),
            shares: u64::from(kept.shares_and_kind >> KIND_BITS),
            price: kept.price,
            locate: kept.locate,
            kind: kept.shares_and_kind as u8,
        };
        kept.shares_and_kind = 0;
        Some(trade)
    }
}

#[derive(Debug, Default)]
pub(super) struct Trades {
    chunks: Vec<Chunk>,
    wide: Vec<Wide>,
}

const BID_TAKER: u8 = 0;
const ASK_TAKER: u8 = 1;
const BID_TAKER_AT_PRICE: u8 = 2;
const ASK_TAKER_AT_PRICE: u8 = 3;
const HIDDEN: u8 = 4;
/// Crosses have their letters, of which none is one of the others; what is no letter becomes this one.
const CROSSES: u8 = 5;

/// Whether a trade of this kind names an order.
fn is_of_the_book(kind: u8) -> bool {
    kind <= ASK_TAKER_AT_PRICE
}

impl Trades {
    pub(super) fn clear(&mut self) {
        self.chunks.clear();
        self.wide.clear();
    }

    #[inline]
    pub(super) fn keep(&mut self, locate: u16, trade: &Trade) {
        let kind = match (trade.kind, trade.aggressor) {
            (TradeKind::Book, Some(Side::Bid)) => BID_TAKER,
            (TradeKind::Book, _) => ASK_TAKER,
            (TradeKind::BookAtPrice, Some(Side::Bid)) => BID_TAKER_AT_PRICE,
            (TradeKind::BookAtPrice, _) => ASK_TAKER_AT_PRICE,
            (TradeKind::Hidden, _) => HIDDEN,
            (TradeKind::Cross(letter), _) => letter.max(CROSSES),
        };
        let (order, price) = (trade.order.unwrap_or(0), trade.price as u32);
        self.put(&Wide { number: trade.number, order, shares: trade.size, price, locate, kind });
    }

    #[inline]
    fn put(&mut self, trade: &Wide) {
        if let Some(chunk) = self.chunks.last_mut()
            && chunk.kept.len() < CHUNK
            && chunk.push(trade)
        {
            return;
        }
        self.put_elsewhere(trade);
    }

    /// A trade that does not fit has a place among the wide ones, unless the chunk is well filled or many do not fit: then there is a new one.
    #[cold]
    fn put_elsewhere(&mut self, trade: &Wide) {
        if self.chunks.last().is_none_or(|chunk| chunk.kept.len() >= CHUNK / 2 || chunk.strangers >= MOST_STRANGERS) {
            let mut chunk = Chunk::new(trade);
            if chunk.push(trade) {
                self.chunks.push(chunk);
                return;
            }
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.strangers = chunk.strangers.saturating_add(1);
        }
        self.wide.push(*trade);
    }

    /// The trade of this number, once.
    pub(super) fn take(&mut self, number: u64) -> Option<(u16, Trade)> {
        let kept =
            self.chunks.iter_mut().rev().find_map(|chunk| chunk.take(number)).or_else(|| self.take_wide(number))?;
        let (kind, aggressor) = match kept.kind {
            BID_TAKER => (TradeKind::Book, Some(Side::Bid)),
            ASK_TAKER => (TradeKind::Book, Some(Side::Ask)),
            BID_TAKER_AT_PRICE => (TradeKind::BookAtPrice, Some(Side::Bid)),
            ASK_TAKER_AT_PRICE => (TradeKind::BookAtPrice, Some(Side::Ask)),
            HIDDEN => (TradeKind::Hidden, None),
            letter => (TradeKind::Cross(letter), None),
        };
        let trade = Trade {
            number,
            price: i64::from(kept.price),
            size: kept.shares,
            aggressor,
            order: is_of_the_book(kept.kind).then_some(kept.order),
            kind,
            is_eligible: true,
        };
        Some((kept.locate, trade))
    }

    fn take_wide(&mut self, number: u64) -> Option<Wide> {
        let kept = self.wide.iter_mut().find(|kept| kept.number == number && kept.shares > 0)?;
        let trade = *kept;
        kept.shares = 0;
        Some(trade)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trade(number: u64) -> Trade {
        let kind = TradeKind::Hidden;
        Trade { number, price: 7, size: number + 1, aggressor: None, order: None, kind, is_eligible: true }
    }

    /// Numbers that jump, orders and sizes of any length, crosses: each trade comes back as it was, whatever it is kept among.
    #[test]
    fn each_trade_comes_back_as_it_was() {
        let (mut trades, mut model, mut state, mut number) = (Trades::default(), Vec::new(), 3u64, 1u64 << 33);
        let kinds =
            [TradeKind::Book, TradeKind::Book, TradeKind::BookAtPrice, TradeKind::Hidden, TradeKind::Cross(b'O')];
        for turn in 0..40_000u64 {
            let mut draw = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % below
            };
            number = match draw(500) {
                0 => number + (1 << 40),
                1 => number - 9_000,
                _ => number + 1 + draw(30),
            };
            let kind = kinds[draw(5) as usize];
            let is_of_the_book = matches!(kind, TradeKind::Book | TradeKind::BookAtPrice);
            let aggressor = is_of_the_book.then(|| Side::BOTH[draw(2) as usize]);
            let order = is_of_the_book.then(|| if draw(50) == 0 { u64::MAX - turn } else { (7 << 32) + draw(1 << 31) });
            let size = 1 + if draw(50) == 0 { draw(1 << 31) << 9 } else { draw(1 << 24) };
            let price = draw(1 << 31) as i64;
            let trade = Trade { number, price, size, aggressor, order, kind, is_eligible: true };
            trades.keep(turn as u16, &trade);
            model.push((turn as u16, trade));
        }
        assert!(trades.wide.len() > 1_000 && trades.chunks.len() > 5, "{} wide", trades.wide.len());
        model.sort_by_key(|(_, trade)| trade.number);
        for same in model.chunk_by(|(_, a), (_, b)| a.number == b.number) {
            for _ in same {
                let taken = trades.take(same[0].1.number).expect("it was kept");
                assert!(same.contains(&taken), "{taken:?} of {same:?}");
            }
            assert_eq!(trades.take(same[0].1.number), None);
        }
    }

    #[test]
    fn a_trade_is_taken_once_whether_numbers_rise_or_not() {
        for numbers in [[1, 2, 5, 9, 12], [5, 2, 12, 9, 1], [1, 2, 2, 9, 12]] {
            let mut trades = Trades::default();
            for number in numbers {
                trades.keep(3, &trade(number));
            }
            assert!(trades.take(4).is_none() && trades.take(13).is_none());
            let mut distinct = numbers.to_vec();
            distinct.sort_unstable();
            distinct.dedup();
            for number in distinct {
                let (locate, taken) = trades.take(number).expect("it was kept");
                assert_eq!((locate, taken.number, taken.size), (3, number, number + 1));
                let again = numbers.iter().filter(|other| **other == number).count() - 1;
                assert_eq!((0..3).filter_map(|_| trades.take(number)).count(), again, "as often as it was kept");
            }
        }
    }
}
