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
    kept: Vec<Kept>,
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
            self.chunks.push(Chunk { least: u64::MAX, most: 0, kept: Vec::with_capacity(CHUNK) });
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
        let chunks = self.chunks.iter_mut().rev().filter(|chunk| (chunk.least..=chunk.most).contains(&number));
        let kept = chunks.flat_map(|chunk| &mut chunk.kept).find(|kept| kept.number == number && kept.size > 0)?;
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
