//! Bitstamp (`ws.bitstamp.net`): channels `diff_order_book_PAIR` and `live_trades_PAIR`.
//!
//! Texts have differences alone: a book begins with what the HTTP server has, which is later than the first difference that was held; those that are
//! not later than it are left out. Nothing is numbered, so that a loss within a connection cannot be seen.

use std::borrow::Cow;

use market::{ByPrice, Rules, Side};
use serde::Deserialize;

use super::decimal::Decimal;
use super::machine::Protocol;
use super::notice::{Doubt, Notice, Want};
use super::products::{Products, Row, Sent};
use crate::market_events::Market;

/// Texts of Bitstamp.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bitstamp;

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    event: Cow<'a, str>,
    #[serde(borrow, default)]
    channel: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Text<T> {
    data: T,
}

#[derive(Deserialize)]
struct Book {
    #[serde(deserialize_with = "number")]
    microtimestamp: u64,
    bids: Vec<(Decimal, Decimal)>,
    asks: Vec<(Decimal, Decimal)>,
}

#[derive(Deserialize)]
struct Traded {
    id: u64,
    #[serde(deserialize_with = "number")]
    microtimestamp: u64,
    amount_str: Decimal,
    price_str: Decimal,
    #[serde(rename = "type")]
    kind: u8,
}

#[derive(Deserialize)]
struct Subscription {
    data: Channel,
}

#[derive(Deserialize)]
struct Channel {
    channel: String,
}

/// A number that is sent as a text.
fn number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = Decimal::deserialize(from)?;
    let number = text.scaled(0).and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| serde::de::Error::custom("no whole number"))
}

const BOOK: &str = "diff_order_book_";
const TRADES: &str = "live_trades_";
const PATH: &str = "/api/v2/order_book/";

fn rows_of(book: &Book) -> Vec<Row> {
    let row = |side| move |(price, size): &(Decimal, Decimal)| Row { side, price: *price, size: *size };
    book.bids.iter().map(row(Side::Bid)).chain(book.asks.iter().map(row(Side::Ask))).collect()
}

impl Bitstamp {
    /// A difference of a product whose book has begun.
    fn change<M: Market<Notice>>(
        products: &mut Products<BitstampRules>,
        at: usize,
        text: &[u8],
        now: u64,
        market: &mut M,
    ) {
        let Ok(Text { data: book }) = serde_json::from_slice::<Text<Book>>(text) else {
            products.bad.value += 1;
            return products.doubt(at, Doubt::Unreadable, now, market);
        };
        if products.last(at).is_some_and(|last| book.microtimestamp <= last) {
            return;
        }
        products.set_last(at, book.microtimestamp);
        products.apply(at, book.microtimestamp.saturating_mul(1_000), &rows_of(&book), false, now, market);
    }
}

/// Levels of Bitstamp.
#[derive(Clone, Copy, Debug)]
pub struct BitstampRules;

impl Rules for BitstampRules {}

impl ByPrice for BitstampRules {}

impl Protocol for Bitstamp {
    type Rules = BitstampRules;

    const SILENCE: u64 = 30_000_000_000;
    const PROBE: Option<&'static str> = Some(r#"{"event":"bts:heartbeat"}"#);
    const HAS_SNAPSHOTS: bool = false;

    fn subscribe(names: &[&str]) -> Vec<String> {
        let channels = names.iter().flat_map(|name| [BOOK, TRADES].map(|channel| format!("{channel}{name}")));
        let text =
            |channel| serde_json::json!({ "event": "bts:subscribe", "data": { "channel": channel } }).to_string();
        channels.map(text).collect()
    }

    fn again(name: &str) -> Vec<Want> {
        vec![Want::Fetch(format!("{PATH}{name}/"))]
    }

    fn subscribed(text: &[u8]) -> Vec<String> {
        let channel = serde_json::from_slice(text).map(|text: Subscription| text.data.channel).unwrap_or_default();
        channel.strip_prefix(BOOK).map(str::to_owned).into_iter().collect()
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
        if head.event == "data"
            && let Some(at) = head.channel.strip_prefix(BOOK).and_then(|name| products.find(name))
        {
            if products.is_good(at) {
                Self::change(products, at, text, now, market);
            } else {
                products.hold(at, text);
                products.ask(at, now);
            }
        } else if head.event == "trade"
            && let Some(at) = head.channel.strip_prefix(TRADES).and_then(|name| products.find(name))
        {
            let Ok(Text { data }) = serde_json::from_slice::<Text<Traded>>(text) else {
                products.bad.value += 1;
                return None;
            };
            let aggressor = match data.kind {
                0 => Some(Side::Bid),
                1 => Some(Side::Ask),
                _ => None,
            };
            let Traded { id: number, microtimestamp, amount_str: size, price_str: price, .. } = data;
            let time = microtimestamp.saturating_mul(1_000);
            products.trade(at, &Sent { number, price, size, aggressor, time }, market);
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
        let name = path.strip_prefix(PATH).and_then(|rest| rest.strip_suffix('/'));
        let Some(at) = name.and_then(|name| products.find(name)) else { return };
        if products.is_good(at) {
            return;
        }
        let Ok(book) = serde_json::from_slice::<Book>(body) else {
            products.bad.value += 1;
            return;
        };
        let Some(held) = products.take_held(at) else { return };
        let first = held.first().and_then(|text| serde_json::from_slice::<Text<Book>>(text).ok());
        if first.is_none_or(|first| book.microtimestamp < first.data.microtimestamp) {
            // What happened between it and the first difference is not known.
            for text in &held {
                products.hold(at, text);
            }
            return;
        }
        products.set_last(at, book.microtimestamp);
        products.apply(at, book.microtimestamp.saturating_mul(1_000), &rows_of(&book), true, now, market);
        for text in &held {
            if products.is_good(at) {
                Self::change(products, at, text, now, market);
            }
        }
    }
}
