//! Kraken Futures (`ws/v1`): feeds `book` and `trade`.
//!
//! Changes of a product are numbered by one from its snapshot on; trades are counted apart. Answers to requests are of the same feed, with an event.

use std::borrow::Cow;

use market::{ByPrice, CrossedRule, Rules, Side};
use serde::Deserialize;

use super::decimal::Decimal;
use super::machine::Protocol;
use super::notice::{Doubt, Notice, Want};
use super::products::{Products, Row, Sent};
use crate::market_events::Market;

/// Texts of Kraken Futures.
#[derive(Clone, Copy, Debug, Default)]
pub struct KrakenFutures;

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    feed: Cow<'a, str>,
    #[serde(borrow, default)]
    event: Cow<'a, str>,
    #[serde(borrow, default)]
    product_id: Cow<'a, str>,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    timestamp: u64,
    #[serde(default)]
    time: u64,
}

#[derive(Deserialize)]
struct Snapshot {
    bids: Vec<LevelRow>,
    asks: Vec<LevelRow>,
}

#[derive(Deserialize)]
struct LevelRow {
    price: Decimal,
    qty: Decimal,
}

#[derive(Deserialize)]
struct Change<'a> {
    #[serde(borrow)]
    side: Cow<'a, str>,
    price: Decimal,
    qty: Decimal,
}

#[derive(Deserialize)]
struct Subscription {
    #[serde(default)]
    feed: String,
    #[serde(default)]
    product_ids: Vec<String>,
}

const MILLISECOND: u64 = 1_000_000;

fn side_of(text: &str) -> Option<Side> {
    match text {
        "buy" => Some(Side::Bid),
        "sell" => Some(Side::Ask),
        _ => None,
    }
}

fn request(event: &str, feed: &str, names: &[&str]) -> String {
    serde_json::json!({ "event": event, "feed": feed, "product_ids": names }).to_string()
}

/// Levels of Kraken Futures: orders that cross are traded before they are told.
#[derive(Clone, Copy, Debug)]
pub struct KrakenFuturesRules;

impl Rules for KrakenFuturesRules {
    const CROSSED: CrossedRule = CrossedRule::MeansLoss;
}

impl ByPrice for KrakenFuturesRules {}

impl Protocol for KrakenFutures {
    type Rules = KrakenFuturesRules;

    const SILENCE: u64 = 20_000_000_000;
    const PROBE: Option<&'static str> = None;
    const HAS_SNAPSHOTS: bool = true;

    fn subscribe(names: &[&str]) -> Vec<String> {
        let heartbeat = r#"{"event":"subscribe","feed":"heartbeat"}"#.to_owned();
        vec![heartbeat, request("subscribe", "book", names), request("subscribe", "trade", names)]
    }

    fn again(name: &str) -> Vec<Want> {
        ["unsubscribe", "subscribe"].map(|event| Want::Say(request(event, "book", &[name]))).to_vec()
    }

    fn subscribed(text: &[u8]) -> Vec<String> {
        let text = serde_json::from_slice::<Subscription>(text).ok().filter(|text| text.feed == "book");
        text.into_iter().flat_map(|text| text.product_ids).map(|name| name.to_uppercase()).collect()
    }

    fn text<M: Market<Notice>>(
        &mut self,
        products: &mut Products<Self::Rules>,
        text: &[u8],
        now: u64,
        market: &mut M,
    ) -> Option<String> {
        let Ok(head) = serde_json::from_slice::<Head<'_>>(text) else {
            products.bad.text += 1;
            return None;
        };
        let is_snapshot = head.feed == "book_snapshot";
        if !head.event.is_empty() || !(is_snapshot || head.feed == "book" || head.feed == "trade") {
            return None;
        }
        let at = products.find(&head.product_id)?;
        if head.feed == "trade" {
            let Ok(Change { side, price, qty }) = serde_json::from_slice(text) else {
                products.bad.value += 1;
                return None;
            };
            let (aggressor, time) = (side_of(&side), head.time.saturating_mul(MILLISECOND));
            products.trade(at, &Sent { number: head.seq, price, size: qty, aggressor, time }, market);
            return None;
        }
        if !is_snapshot && !products.is_good(at) {
            products.bad.early += 1;
            return None;
        }
        if !is_snapshot && products.last(at).and_then(|last| last.checked_add(1)) != Some(head.seq) {
            products.bad.gaps += 1;
            products.doubt(at, Doubt::Missing, now, market);
            return None;
        }
        let rows = if is_snapshot {
            serde_json::from_slice(text).ok().map(|Snapshot { bids, asks }| {
                let row = |side| move |LevelRow { price, qty }| Row { side, price, size: qty };
                bids.into_iter().map(row(Side::Bid)).chain(asks.into_iter().map(row(Side::Ask))).collect()
            })
        } else {
            let change = serde_json::from_slice::<Change<'_>>(text).ok();
            change.and_then(|change| {
                Some(vec![Row { side: side_of(&change.side)?, price: change.price, size: change.qty }])
            })
        };
        if let Some(rows) = rows {
            products.set_last(at, head.seq);
            products.apply(at, head.timestamp.saturating_mul(MILLISECOND), &rows, is_snapshot, now, market);
        } else {
            products.bad.value += 1;
            products.doubt(at, Doubt::Unreadable, now, market);
        }
        None
    }
}
