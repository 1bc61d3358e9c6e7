//! `BitMEX` (`realtime`): tables `orderBookL2` and `trade`.
//!
//! Changes and deletions name a level by its number alone: its price is kept from when it came. Before the table's beginning (`partial`) what comes of
//! it is left out. Texts are not numbered: a level that is not there means that some are missing.

use std::borrow::Cow;
use std::collections::HashMap;

use market::{ByPrice, Rules, Side};
use serde::Deserialize;

use super::decimal::Decimal;
use super::machine::Protocol;
use super::notice::{Doubt, Notice, Want};
use super::products::{Products, Row, Sent};
use super::time;
use crate::market_events::Market;

/// Texts of `BitMEX`, with where each level stands.
#[derive(Debug, Default)]
pub struct Bitmex {
    levels: HashMap<(usize, u64), (Side, Decimal)>,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    table: Cow<'a, str>,
    #[serde(borrow, default)]
    action: Cow<'a, str>,
    #[serde(borrow, default)]
    error: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Levels<'a> {
    #[serde(borrow)]
    data: Vec<LevelRow<'a>>,
    #[serde(borrow, default)]
    filter: Filter<'a>,
}

#[derive(Default, Deserialize)]
struct Filter<'a> {
    #[serde(borrow, default)]
    symbol: Cow<'a, str>,
}

#[derive(Deserialize)]
struct LevelRow<'a> {
    #[serde(borrow)]
    symbol: Cow<'a, str>,
    id: u64,
    #[serde(borrow)]
    side: Cow<'a, str>,
    size: Option<Decimal>,
    price: Option<Decimal>,
    #[serde(borrow, default)]
    timestamp: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Trades<'a> {
    #[serde(borrow)]
    data: Vec<TradeRow<'a>>,
}

#[derive(Deserialize)]
struct TradeRow<'a> {
    #[serde(borrow)]
    symbol: Cow<'a, str>,
    #[serde(borrow)]
    timestamp: Cow<'a, str>,
    #[serde(borrow)]
    side: Cow<'a, str>,
    size: Decimal,
    price: Decimal,
}

#[derive(Deserialize)]
struct Subscription {
    #[serde(default)]
    args: Vec<String>,
}

fn side_of(text: &str) -> Option<Side> {
    match text {
        "Buy" => Some(Side::Bid),
        "Sell" => Some(Side::Ask),
        _ => None,
    }
}

const BOOK: &str = "orderBookL2";

fn request(op: &str, names: &[&str]) -> String {
    let args: Vec<String> =
        [BOOK, "trade"].iter().flat_map(|t| names.iter().map(move |n| format!("{t}:{n}"))).collect();
    serde_json::json!({ "op": op, "args": args }).to_string()
}

impl Bitmex {
    /// Rows of one product; `Err`: why the book is in doubt.
    fn rows(&mut self, at: usize, action: &str, levels: &[&LevelRow<'_>]) -> Result<Vec<Row>, Doubt> {
        let zero = Decimal::default();
        let mut rows = Vec::with_capacity(levels.len());
        for level in levels {
            let side = side_of(&level.side).ok_or(Doubt::Unreadable)?;
            let key = (at, level.id);
            match action {
                "partial" | "insert" => {
                    let (Some(price), Some(size)) = (level.price, level.size) else { return Err(Doubt::Unreadable) };
                    self.levels.insert(key, (side, price));
                    rows.push(Row { side, price, size });
                }
                "update" => {
                    let (was, price) = *self.levels.get(&key).ok_or(Doubt::Unknown)?;
                    let size = level.size.ok_or(Doubt::Unreadable)?;
                    if was != side {
                        rows.push(Row { side: was, price, size: zero });
                        self.levels.insert(key, (side, price));
                    }
                    rows.push(Row { side, price, size });
                }
                "delete" => {
                    let (side, price) = self.levels.remove(&key).ok_or(Doubt::Unknown)?;
                    rows.push(Row { side, price, size: zero });
                }
                _ => return Err(Doubt::Unreadable),
            }
        }
        Ok(rows)
    }

    fn book<M: Market<Notice>>(
        &mut self,
        products: &mut Products<BitmexRules>,
        action: &str,
        text: &[u8],
        now: u64,
        market: &mut M,
    ) {
        let Ok(Levels { data, filter }) = serde_json::from_slice(text) else {
            // Whose it was cannot be read either.
            products.bad.value += 1;
            (0..products.count()).for_each(|at| products.doubt(at, Doubt::Unreadable, now, market));
            return;
        };
        let mut symbols: Vec<&str> = Vec::new();
        // The beginning of an empty book has no row that names it.
        let named = Some(&*filter.symbol).filter(|symbol| action == "partial" && !symbol.is_empty());
        for symbol in named.into_iter().chain(data.iter().map(|row| &*row.symbol)) {
            if !symbols.contains(&symbol) {
                symbols.push(symbol);
            }
        }
        for symbol in symbols {
            let Some(at) = products.find(symbol) else { continue };
            let is_snapshot = action == "partial";
            if is_snapshot {
                self.levels.retain(|key, _| key.0 != at);
            } else if !products.is_good(at) {
                products.bad.early += 1;
                continue;
            }
            let levels: Vec<&LevelRow<'_>> = data.iter().filter(|row| row.symbol == symbol).collect();
            let time = levels.iter().map(|row| time::of_text(&row.timestamp)).max().unwrap_or(0);
            match self.rows(at, action, &levels) {
                Ok(rows) => products.apply(at, time, &rows, is_snapshot, now, market),
                Err(why) => {
                    let count =
                        if why == Doubt::Unknown { &mut products.bad.unknown_level } else { &mut products.bad.value };
                    *count += 1;
                    products.doubt(at, why, now, market);
                }
            }
        }
    }
}

/// Levels of `BitMEX`, which come and go in texts of their own: between them a book may be crossed.
#[derive(Clone, Copy, Debug)]
pub struct BitmexRules;

impl Rules for BitmexRules {}

impl ByPrice for BitmexRules {}

impl Protocol for Bitmex {
    type Rules = BitmexRules;

    const SILENCE: u64 = 10_000_000_000;
    const PROBE: Option<&'static str> = Some("ping");
    const HAS_SNAPSHOTS: bool = true;

    fn subscribe(names: &[&str]) -> Vec<String> {
        vec![request("subscribe", names)]
    }

    fn again(name: &str) -> Vec<Want> {
        ["unsubscribe", "subscribe"].map(|op| Want::Say(request(op, &[name]))).to_vec()
    }

    fn subscribed(text: &[u8]) -> Vec<String> {
        let args = serde_json::from_slice(text).map(|text: Subscription| text.args).unwrap_or_default();
        args.iter().filter_map(|arg| arg.strip_prefix(BOOK)?.strip_prefix(':')).map(str::to_owned).collect()
    }

    fn text<M: Market<Notice>>(
        &mut self,
        products: &mut Products<Self::Rules>,
        text: &[u8],
        now: u64,
        market: &mut M,
    ) -> Option<String> {
        if text == b"pong" {
            return None;
        }
        let Ok(head) = serde_json::from_slice::<Head<'_>>(text) else {
            products.bad.text += 1;
            return None;
        };
        match (&*head.table, &*head.action) {
            (BOOK, action) => self.book(products, action, text, now, market),
            // The rows of a beginning are trades of before.
            ("trade", "insert") => {
                let Ok(Trades { data }) = serde_json::from_slice(text) else {
                    products.bad.value += 1;
                    return None;
                };
                for TradeRow { symbol, timestamp, side, size, price } in data {
                    let Some(at) = products.find(&symbol) else { continue };
                    let (aggressor, time) = (side_of(&side), time::of_text(&timestamp));
                    products.trade(at, &Sent { number: 0, price, size, aggressor, time }, market);
                }
            }
            _ if !head.error.is_empty() => {
                let refused = (0..products.count()).find(|at| head.error.contains(products.name(*at)));
                if let Some(at) = refused {
                    products.refuse(at, &head.error, now, market);
                }
            }
            _ => {}
        }
        None
    }

    fn forget(&mut self) {
        self.levels.clear();
    }
}
