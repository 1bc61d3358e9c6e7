//! Binance and those that speak as it does: streams `SYMBOL@depth@100ms` and `SYMBOL@trade`.
//!
//! Texts have differences with the first and last number of the changes in them (`U`, `u`): a book begins with what the HTTP server has
//! (`lastUpdateId`); the first difference behind it must reach over that number, and each later one begin behind the one before. Futures name the
//! one before (`pu`).

use std::borrow::Cow;

use market::{ByPrice, Rules, Side};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::decimal::Decimal;
use super::machine::Protocol;
use super::notice::{Doubt, Notice, Want};
use super::products::{Products, Row, Sent};
use crate::market_events::Market;

/// Texts of Binance.
#[derive(Clone, Copy, Debug, Default)]
pub struct Binance;

/// Of a stream among several the text is in `data`.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    e: Cow<'a, str>,
    #[serde(borrow, default)]
    s: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Depth {
    #[serde(rename = "E")]
    time_ms: u64,
    #[serde(rename = "U")]
    first: u64,
    u: u64,
    pu: Option<u64>,
    b: Vec<(Decimal, Decimal)>,
    a: Vec<(Decimal, Decimal)>,
}

#[derive(Deserialize)]
struct Snapshot {
    #[serde(rename = "lastUpdateId")]
    last: u64,
    bids: Vec<(Decimal, Decimal)>,
    asks: Vec<(Decimal, Decimal)>,
}

#[derive(Deserialize)]
struct Traded {
    t: u64,
    p: Decimal,
    q: Decimal,
    #[serde(rename = "T")]
    time_ms: u64,
    /// The buyer is the maker.
    m: bool,
}

#[derive(Deserialize)]
struct Subscription {
    #[serde(default)]
    params: Vec<String>,
}

const PATH: &str = "/api/v3/depth?limit=1000&symbol=";
const MILLISECOND: u64 = 1_000_000;

fn rows_of(bids: &[(Decimal, Decimal)], asks: &[(Decimal, Decimal)]) -> Vec<Row> {
    let row = |side| move |(price, size): &(Decimal, Decimal)| Row { side, price: *price, size: *size };
    bids.iter().map(row(Side::Bid)).chain(asks.iter().map(row(Side::Ask))).collect()
}

/// The text itself, and its kind and symbol.
fn inner(text: &[u8]) -> Option<(&[u8], Head<'_>)> {
    let head = serde_json::from_slice::<Head<'_>>(text).ok()?;
    match head.data {
        Some(data) => Some((data.get().as_bytes(), serde_json::from_str(data.get()).ok()?)),
        None => Some((text, head)),
    }
}

impl Binance {
    /// A difference of a product whose book has begun.
    fn change<M: Market<Notice>>(
        products: &mut Products<BinanceRules>,
        at: usize,
        text: &[u8],
        now: u64,
        market: &mut M,
    ) {
        let Ok(depth) = serde_json::from_slice::<Depth>(text) else {
            products.bad.value += 1;
            return products.doubt(at, Doubt::Unreadable, now, market);
        };
        let Some(last) = products.last(at) else { return };
        if depth.u <= last {
            return;
        }
        // The first one reaches over the snapshot's number; any later one then begins right behind the one before, or says that it does.
        let follows = depth.first <= last.saturating_add(1) || depth.pu == Some(last);
        if !follows {
            products.bad.gaps += 1;
            return products.doubt(at, Doubt::Missing, now, market);
        }
        products.set_last(at, depth.u);
        let time = depth.time_ms.saturating_mul(MILLISECOND);
        products.apply(at, time, &rows_of(&depth.b, &depth.a), false, now, market);
    }
}

/// Levels of Binance.
#[derive(Clone, Copy, Debug)]
pub struct BinanceRules;

impl Rules for BinanceRules {}

impl ByPrice for BinanceRules {}

impl Protocol for Binance {
    type Rules = BinanceRules;

    const SILENCE: u64 = 60_000_000_000;
    const PROBE: Option<&'static str> = Some(r#"{"method":"LIST_SUBSCRIPTIONS","id":2}"#);
    const HAS_SNAPSHOTS: bool = false;

    fn subscribe(names: &[&str]) -> Vec<String> {
        let streams = names.iter().map(|name| name.to_lowercase());
        let params: Vec<String> =
            streams.flat_map(|name| [format!("{name}@depth@100ms"), format!("{name}@trade")]).collect();
        vec![serde_json::json!({ "method": "SUBSCRIBE", "params": params, "id": 1 }).to_string()]
    }

    fn again(name: &str) -> Vec<Want> {
        vec![Want::Fetch(format!("{PATH}{name}"))]
    }

    fn subscribed(text: &[u8]) -> Vec<String> {
        let params = serde_json::from_slice(text).map(|text: Subscription| text.params).unwrap_or_default();
        let names = params.iter().filter_map(|param| param.split_once("@depth")).map(|(name, _)| name.to_uppercase());
        names.collect()
    }

    fn text<M: Market<Notice>>(
        &mut self,
        products: &mut Products<Self::Rules>,
        text: &[u8],
        now: u64,
        market: &mut M,
    ) -> Option<String> {
        let Some((text, head)) = inner(text) else {
            products.bad.text += 1;
            return None;
        };
        if head.e != "depthUpdate" && head.e != "trade" {
            return None;
        }
        let at = products.find(&head.s)?;
        if head.e == "trade" {
            let Ok(Traded { t: number, p: price, q: size, time_ms, m }) = serde_json::from_slice(text) else {
                products.bad.value += 1;
                return None;
            };
            let aggressor = Some(if m { Side::Ask } else { Side::Bid });
            let time = time_ms.saturating_mul(MILLISECOND);
            products.trade(at, &Sent { number, price, size, aggressor, time }, market);
        } else if products.is_good(at) {
            Self::change(products, at, text, now, market);
        } else {
            products.hold(at, text);
            products.ask(at, now);
        }
        None
    }

    fn answer<M: Market<Notice>>(
        &mut self,
        products: &mut Products<Self::Rules>,
        path: &str,
        body: &[u8],
        now: u64,
        market: &mut M,
    ) {
        // Of a recording the query may be in another order.
        let name = path.split(['?', '&']).find_map(|part| part.strip_prefix("symbol="));
        let Some(at) = name.filter(|_| path.contains("/depth?")).and_then(|name| products.find(name)) else { return };
        if products.is_good(at) {
            return;
        }
        let Ok(Snapshot { last, bids, asks }) = serde_json::from_slice(body) else {
            products.bad.value += 1;
            return;
        };
        let Some(held) = products.take_held(at) else { return };
        let first = held.first().and_then(|text| serde_json::from_slice::<Depth>(text).ok());
        if first.is_none_or(|first| first.first > last.saturating_add(1)) {
            // What happened between it and the first difference is not known.
            for text in &held {
                products.hold(at, text);
            }
            return;
        }
        products.set_last(at, last);
        products.apply(at, 0, &rows_of(&bids, &asks), true, now, market);
        for text in &held {
            if products.is_good(at) {
                Self::change(products, at, text, now, market);
            }
        }
    }
}
