//! Coinbase Exchange (`ws-feed.exchange.coinbase.com`): channels `level2_batch`, `matches`, `heartbeat`.
//!
//! Changes of levels have no number: that some are missing shows by the numbers of trades, which rise by one, and by the last of them in a heartbeat.
//! `match` names the maker's side, and is the only text that counts as a trade: `ticker` has the same trades again, `last_match` those of before.

use std::borrow::Cow;

use market::{ByPrice, CrossedRule, Rules, Side};
use serde::Deserialize;

use super::decimal::Decimal;
use super::machine::Protocol;
use super::notice::{Doubt, Notice, Want};
use super::products::{Products, Row, Sent};
use super::time;
use crate::market_events::Market;

/// Texts of Coinbase.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coinbase;

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    product_id: Cow<'a, str>,
    #[serde(borrow, default)]
    time: Cow<'a, str>,
    #[serde(default)]
    trade_id: u64,
    #[serde(default)]
    last_trade_id: u64,
}

#[derive(Deserialize)]
struct Snapshot {
    bids: Vec<(Decimal, Decimal)>,
    asks: Vec<(Decimal, Decimal)>,
}

#[derive(Deserialize)]
struct Changes<'a> {
    #[serde(borrow)]
    changes: Vec<(Cow<'a, str>, Decimal, Decimal)>,
}

#[derive(Deserialize)]
struct Match<'a> {
    #[serde(borrow)]
    side: Cow<'a, str>,
    price: Decimal,
    size: Decimal,
}

#[derive(Deserialize)]
struct Subscription {
    #[serde(default)]
    product_ids: Vec<String>,
}

fn side_of(text: &str) -> Option<Side> {
    match text {
        "buy" => Some(Side::Bid),
        "sell" => Some(Side::Ask),
        _ => None,
    }
}

fn rows_of(text: &[u8], kind: &str) -> Option<Vec<Row>> {
    if kind == "snapshot" {
        let Snapshot { bids, asks } = serde_json::from_slice(text).ok()?;
        let row = |side| move |(price, size)| Row { side, price, size };
        return Some(bids.into_iter().map(row(Side::Bid)).chain(asks.into_iter().map(row(Side::Ask))).collect());
    }
    let Changes { changes } = serde_json::from_slice(text).ok()?;
    changes.into_iter().map(|(side, price, size)| Some(Row { side: side_of(&side)?, price, size })).collect()
}

fn request(kind: &str, names: &[&str]) -> String {
    let channels = ["level2_batch", "matches", "heartbeat"];
    serde_json::json!({ "type": kind, "product_ids": names, "channels": channels }).to_string()
}

impl Coinbase {
    /// Trades are numbered by one; what is behind the last one that came is missing.
    fn count_trade<M: Market<Notice>>(
        products: &mut Products<CoinbaseRules>,
        at: usize,
        number: u64,
        now: u64,
        market: &mut M,
    ) {
        let last = products.replace_trade(at, number);
        if last.is_some_and(|last| number > last.saturating_add(1)) {
            products.bad.gaps += 1;
            products.doubt(at, Doubt::Missing, now, market);
        }
    }
}

/// Levels of Coinbase: orders that cross are traded before they are told.
#[derive(Clone, Copy, Debug)]
pub struct CoinbaseRules;

impl Rules for CoinbaseRules {
    const CROSSED: CrossedRule = CrossedRule::MeansLoss;
}

impl ByPrice for CoinbaseRules {}

impl Protocol for Coinbase {
    type Rules = CoinbaseRules;

    const SILENCE: u64 = 10_000_000_000;
    const PROBE: Option<&'static str> = None;
    const HAS_SNAPSHOTS: bool = true;

    fn subscribe(names: &[&str]) -> Vec<String> {
        vec![request("subscribe", names)]
    }

    fn again(name: &str) -> Vec<Want> {
        ["unsubscribe", "subscribe"].map(|kind| Want::Say(request(kind, &[name]))).to_vec()
    }

    fn subscribed(text: &[u8]) -> Vec<String> {
        serde_json::from_slice(text).map(|text: Subscription| text.product_ids).unwrap_or_default()
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
        let kind = &*head.kind;
        if !["snapshot", "l2update", "match", "last_match", "heartbeat"].contains(&kind) {
            return None;
        }
        let at = products.find(&head.product_id)?;
        let is_snapshot = kind == "snapshot";
        match kind {
            "snapshot" | "l2update" if is_snapshot || products.is_good(at) => {
                if let Some(rows) = rows_of(text, kind) {
                    products.apply(at, time::of_text(&head.time), &rows, is_snapshot, now, market);
                } else {
                    products.bad.value += 1;
                    products.doubt(at, Doubt::Unreadable, now, market);
                }
            }
            "snapshot" | "l2update" => products.bad.early += 1,
            "match" if products.last_trade(at).is_none_or(|last| head.trade_id > last) => {
                Self::count_trade(products, at, head.trade_id, now, market);
                let Ok(Match { side, price, size }) = serde_json::from_slice(text) else {
                    products.bad.value += 1;
                    return None;
                };
                let aggressor = side_of(&side).map(Side::opposite);
                let time = time::of_text(&head.time);
                products.trade(at, &Sent { number: head.trade_id, price, size, aggressor, time }, market);
            }
            // The trade of before the subscription.
            "last_match" if products.last_trade(at).is_none() || products.may_jump(at) => {
                products.replace_trade(at, head.trade_id);
            }
            // A trade may be under way.
            "heartbeat" if products.last_trade(at).is_some_and(|last| head.last_trade_id > last.saturating_add(1)) => {
                Self::count_trade(products, at, head.last_trade_id, now, market);
            }
            _ => {}
        }
        None
    }
}
