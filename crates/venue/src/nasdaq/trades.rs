//! The day's trades, kept for the few that will be broken: a message that breaks one names its number only.

use market::Side;

use crate::market_events::{Trade, TradeKind};

const CHUNK: usize = 1 << 14;

/// 32 bytes a trade; ten million trades are a very busy day.
#[derive(Clone, Copy, Debug)]
struct Kept {
    number: u64,
    order: u64,
    /// Shares; 0: it was broken.
    size: u64,
    price: u32,
    locate: u16,
    kind: u8,
    cross: u8,
}

/// Trades that came one after the other, with the numbers between which they are. Numbers mostly rise, so a broken trade is in one chunk
/// or few.
#[derive(Debug)]
struct Chunk {
    least: u64,
    most: u64,
    /// Each number is higher than the one before it.
    rises: bool,
    kept: Vec<Kept>,
}

impl Chunk {
    /// The trade of this number that is not broken.
    fn of_number(&mut self, number: u64) -> Option<&mut Kept> {
        if self.rises {
            let at = self.kept.binary_search_by_key(&number, |kept| kept.number).ok()?;
            return self.kept.get_mut(at).filter(|kept| kept.size > 0);
        }
        self.kept.iter_mut().find(|kept| kept.number == number && kept.size > 0)
    }
}

#[derive(Debug, Default)]
pub(super) struct Trades {
    chunks: Vec<Chunk>,
}

const BID_TAKER: u8 = 0;
const ASK_TAKER: u8 = 1;
const BID_TAKER_AT_PRICE: u8 = 2;
const ASK_TAKER_AT_PRICE: u8 = 3;
const HIDDEN: u8 = 4;
const CROSS: u8 = 5;

impl Trades {
    pub(super) fn clear(&mut self) {
        self.chunks.clear();
    }

    #[inline]
    pub(super) fn keep(&mut self, locate: u16, trade: &Trade) {
        if self.chunks.last().is_none_or(|chunk| chunk.kept.len() == CHUNK) {
            self.chunks.push(Chunk { least: u64::MAX, most: 0, rises: true, kept: Vec::with_capacity(CHUNK) });
        }
        let (kind, cross) = match (trade.kind, trade.aggressor) {
            (TradeKind::Book, Some(Side::Bid)) => (BID_TAKER, 0),
            (TradeKind::Book, _) => (ASK_TAKER, 0),
            (TradeKind::BookAtPrice, Some(Side::Bid)) => (BID_TAKER_AT_PRICE, 0),
            (TradeKind::BookAtPrice, _) => (ASK_TAKER_AT_PRICE, 0),
            (TradeKind::Hidden, _) => (HIDDEN, 0),
            (TradeKind::Cross(letter), _) => (CROSS, letter),
        };
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.rises &= chunk.kept.is_empty() || trade.number > chunk.most;
            chunk.least = chunk.least.min(trade.number);
            chunk.most = chunk.most.max(trade.number);
            chunk.kept.push(Kept {
                number: trade.number,
                order: trade.order.unwrap_or(0),
                size: trade.size,
                price: trade.price as u32,
                locate,
                kind,
                cross,
            });
        }
    }

    /// The trade of this number, once.
    pub(super) fn take(&mut self, number: u64) -> Option<(u16, Trade)> {
        let mut chunks = self.chunks.iter_mut().rev().filter(|chunk| (chunk.least..=chunk.most).contains(&number));
        let kept = chunks.find_map(|chunk| chunk.of_number(number))?;
        let (kind, aggressor) = match kept.kind {
            BID_TAKER => (TradeKind::Book, Some(Side::Bid)),
            ASK_TAKER => (TradeKind::Book, Some(Side::Ask)),
            BID_TAKER_AT_PRICE => (TradeKind::BookAtPrice, Some(Side::Bid)),
            ASK_TAKER_AT_PRICE => (TradeKind::BookAtPrice, Some(Side::Ask)),
            HIDDEN => (TradeKind::Hidden, None),
            _ => (TradeKind::Cross(kept.cross), None),
        };
        let is_of_the_book = matches!(kind, TradeKind::Book | TradeKind::BookAtPrice);
        let trade = Trade {
            number,
            price: i64::from(kept.price),
            size: std::mem::take(&mut kept.size),
            aggressor,
            order: is_of_the_book.then_some(kept.order),
            kind,
            is_eligible: true,
        };
        Some((kept.locate, trade))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trade(number: u64) -> Trade {
        let kind = TradeKind::Hidden;
        Trade { number, price: 7, size: number + 1, aggressor: None, order: None, kind, is_eligible: true }
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
