//! Venues on the web: recordings against slow books of their own, made exchanges that lose texts, and what cannot be read.

use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;
use std::path::Path;

use market::{BookId, Event, Events, Side};
use proptest::prelude::*;
use serde_json::{Value, json};
use venue::web::{
    Bad, Binance, Bitmex, Bitstamp, Coinbase, Doubt, IndependentReserve, KrakenFutures, Notice, Protocol, Scale, Want,
    Web, WebVenue,
};
use venue::{Market, Trade};

use crate::day::Random;

const SECOND: u64 = 1_000_000_000;

/// Number in units of 1e-18, by a way of its own: as text, exponents and all.
fn number(value: &Value) -> i128 {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (text, exponent) = text.split_once('e').map_or((text.as_str(), 0), |(t, e)| (t, e.parse::<i32>().unwrap()));
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits: i128 = format!("{whole}{part}").parse().expect("digits");
    digits * 10i128.pow((18 - part.len() as i32 + exponent) as u32)
}

/// Price to size, one side and the other; bids are side 0.
#[derive(Clone, Default, PartialEq, Debug)]
struct Slow([BTreeMap<i128, i128>; 2]);

impl Slow {
    fn set(&mut self, side: usize, price: &Value, size: &Value) {
        let (price, size) = (number(price), number(size));
        if size == 0 {
            self.0[side].remove(&price);
        } else {
            self.0[side].insert(price, size);
        }
    }

    fn hold<V: WebVenue>(&self, venue: &V, book: BookId) {
        let Scale { price, size } = venue.scale(book);
        let unit = |decimals: u8| 10i128.pow(18 - u32::from(decimals));
        for (n, side) in Side::BOTH.into_iter().enumerate() {
            let levels = venue.books().levels(book, side);
            let found: Vec<_> =
                levels.map(|l| (i128::from(l.price) * unit(price), i128::from(l.size) * unit(size))).collect();
            let rising = self.0[n].iter().map(|(price, size)| (*price, *size));
            let expected: Vec<_> = if n == 0 { rising.rev().collect() } else { rising.collect() };
            assert_eq!(found, expected, "book {book:?} {side:?}");
        }
    }
}

#[derive(Default)]
struct Seen {
    notices: Vec<(BookId, Notice)>,
    trades: Vec<(BookId, Trade)>,
    times: Vec<u64>,
    is_open: bool,
}

impl Events for Seen {
    fn event(&mut self, _: BookId, event: &Event) {
        assert!(self.is_open, "{event:?} outside of a message");
    }
}

impl Market<Notice> for Seen {
    fn begin(&mut self, _: Option<BookId>, time: u64) {
        assert!(!std::mem::replace(&mut self.is_open, true));
        self.times.push(time);
    }
    fn end(&mut self, _: Option<BookId>) {
        assert!(std::mem::replace(&mut self.is_open, false));
    }
    fn trade(&mut self, book: BookId, trade: &Trade) {
        self.trades.push((book, *trade));
    }
    fn notice(&mut self, book: Option<BookId>, notice: &Notice) {
        if !matches!(notice, Notice::Scale(_)) {
            self.notices.push((book.expect("a product"), notice.clone()));
        }
    }
}

impl Seen {
    fn goods(&self) -> usize {
        self.notices.iter().filter(|(_, notice)| *notice == Notice::Good).count()
    }
}

/// Lines of a recording; `None` where it is not at hand.
fn recorded(name: &str) -> Option<Vec<String>> {
    let data = std::env::var_os("QUOTEWAY_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), std::path::PathBuf::from);
    let file = std::fs::File::open(data.join("crypto-ws").join(name)).ok()?;
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).expect("a packed text");
    Some(text.lines().map(str::to_owned).collect())
}

/// The text of a line that was received.
fn received(line: &str) -> Option<&str> {
    line.starts_with(|c: char| c.is_ascii_digit()).then(|| line.split_once(": ").expect("a line").1)
}

/// Plays a recording, and holds each book against a slow one that `apply` makes.
fn play<P: Protocol>(name: &str, mut apply: impl FnMut(&Value, &mut HashMap<String, Slow>)) -> Option<(Web<P>, Seen)> {
    let lines = recorded(name)?;
    let (mut venue, mut seen, mut slow) = (Web::<P>::new(&[]), Seen::default(), HashMap::new());
    venue.connected(0);
    for (n, text) in lines.iter().filter_map(|line| received(line)).enumerate() {
        venue.text(text.as_bytes(), 1, &mut seen);
        apply(&serde_json::from_str(text).expect("JSON"), &mut slow);
        if n % 64 == 0 {
            for (name, slow) in &slow {
                slow.hold(&venue, venue.find(name).expect("a product"));
            }
        }
    }
    for (name, slow) in &slow {
        slow.hold(&venue, venue.find(name).expect("a product"));
    }
    assert_eq!((slow.len(), *venue.bad()), (10, Bad::default()));
    Some((venue, seen))
}

fn side(value: &Value) -> usize {
    usize::from(value == "sell" || value == "Sell")
}

#[test]
fn coinbase_recorded_is_a_slow_book_and_each_match_a_trade() {
    let played = play::<Coinbase>("COINBASE.ws.28.0.gz", |text, slow| {
        let product = || text["product_id"].as_str().expect("a product").to_owned();
        for (key, side) in [("bids", 0), ("asks", 1)] {
            for row in text[key].as_array().into_iter().flatten() {
                slow.entry(product()).or_default().set(side, &row[0], &row[1]);
            }
        }
        for row in text["changes"].as_array().into_iter().flatten() {
            slow.entry(product()).or_default().set(side(&row[0]), &row[1], &row[2]);
        }
    });
    let Some((venue, seen)) = played else { return };
    assert_eq!((venue.messages(), seen.goods(), seen.notices.len(), seen.trades.len()), (9_946, 10, 10, 97));
    // The first match names the maker, who sells: the taker buys.
    let (_, first) = seen.trades[0];
    assert_eq!((first.number, first.price, first.aggressor), (280_232, 1_305, Some(Side::Bid)));
    assert!(seen.times.contains(&1_618_677_817_089_723_000));
}

#[test]
fn bitmex_recorded_is_a_slow_book_by_numbers_of_levels() {
    let mut prices = HashMap::new();
    let played = play::<Bitmex>("BITMEX.ws.1.0.gz", |text, slow| {
        if text["table"] != "orderBookL2" {
            return;
        }
        for row in text["data"].as_array().expect("rows") {
            let key = (row["symbol"].as_str().expect("a symbol").to_owned(), row["id"].as_u64().expect("a number"));
            let book: &mut Slow = slow.entry(key.0.clone()).or_default();
            if row["price"].is_number() {
                prices.insert(key.clone(), row["price"].clone());
            }
            let (zero, price) = (json!(0), &prices[&key]);
            book.set(1 - side(&row["side"]), price, &zero);
            book.set(side(&row["side"]), price, if text["action"] == "delete" { &zero } else { &row["size"] });
        }
    });
    let Some((venue, seen)) = played else { return };
    assert_eq!((venue.messages(), seen.goods(), seen.notices.len(), seen.trades.len()), (2_120, 10, 10, 17));
    assert_eq!(venue.scale(venue.find("TRXU21").expect("a product")).price, 10);
}

#[test]
fn kraken_futures_recorded_is_a_slow_book_and_each_number_follows() {
    let played = play::<KrakenFutures>("KRAKEN_FUTURES.ws.1.0.gz", |text, slow| {
        if !text["event"].is_null() {
            return;
        }
        let product = || text["product_id"].as_str().expect("a product").to_owned();
        match text["feed"].as_str() {
            Some("book_snapshot") => {
                for (key, side) in [("bids", 0), ("asks", 1)] {
                    for row in text[key].as_array().expect("rows") {
                        slow.entry(product()).or_default().set(side, &row["price"], &row["qty"]);
                    }
                }
            }
            Some("book") => {
                slow.entry(product()).or_default().set(side(&text["side"]), &text["price"], &text["qty"]);
            }
            _ => {}
        }
    });
    let Some((venue, seen)) = played else { return };
    assert_eq!((venue.messages(), seen.goods(), seen.notices.len(), seen.trades.len()), (7_175, 10, 10, 3));
}

#[test]
fn bitstamp_recorded_has_no_beginning_so_that_no_book_is_good() {
    let Some(lines) = recorded("BITSTAMP.ws.1.0.gz") else { return };
    let (mut venue, mut seen) = (Web::<Bitstamp>::new(&[]), Seen::default());
    for line in &lines {
        if let Some((_, sent)) = line.split_once(" <- ") {
            venue.recorded(sent.split_once(": ").expect("a line").1.as_bytes());
        }
    }
    venue.connected(0);
    let asked: Vec<Want> = std::iter::from_fn(|| venue.poll()).collect();
    assert_eq!((venue.names().len(), asked.len()), (10, 20));
    lines.iter().filter_map(|line| received(line)).for_each(|text| venue.text(text.as_bytes(), 1, &mut seen));
    assert_eq!((venue.messages(), seen.notices.len(), seen.trades.len()), (747, 0, 10));
    let fetched = std::iter::from_fn(|| venue.poll()).filter(|want| matches!(want, Want::Fetch(_))).count();
    // One pair has no difference, for which nothing is fetched.
    assert_eq!((fetched, *venue.bad()), (9, Bad::default()));
}

/// Guid, price and size of the orders of one pair.
type Orders = BTreeMap<String, (usize, i128, i128)>;

#[test]
fn independent_reserve_recorded_is_its_lists_and_what_happened_since() {
    let (Some(stream), Some(lists)) =
        (recorded("INDEPENDENT_RESERVE.ws.1.0.gz"), recorded("INDEPENDENT_RESERVE.http.0.0.gz"))
    else {
        return;
    };
    // Everything in the order of its time: a list lies between the texts.
    let mut all: Vec<(f64, String, String)> = Vec::new();
    for line in &lists {
        let Some((url, rest)) = line.split_once(" -> ") else { continue };
        let (time, body) = rest.split_once(": ").expect("a line");
        let path = url.strip_prefix("https://api.independentreserve.com").expect("a path");
        all.push((time.parse().expect("a time"), path.to_owned(), body.to_owned()));
    }
    for text in stream.iter().filter(|line| received(line).is_some()) {
        let (time, text) = text.split_once(": ").expect("a line");
        all.push((time.parse().expect("a time"), String::new(), text.to_owned()));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut venue, mut seen) = (IndependentReserve::new(&[]), Seen::default());
    venue.connected(0);
    let (mut added, mut cancelled, mut begun) = (Vec::new(), Vec::new(), Vec::new());
    for (_, path, text) in &all {
        let value: Value = serde_json::from_str(text).expect("JSON");
        if path.is_empty() {
            venue.text(text.as_bytes(), 1, &mut seen);
            match value["Event"].as_str() {
                Some("NewOrder") => added.push(value),
                Some("OrderCanceled") => {
                    cancelled.push(value["Data"]["OrderGuid"].as_str().expect("a Guid").to_owned());
                }
                _ => {}
            }
        } else {
            venue.answer(path, text.as_bytes(), 1, &mut seen);
            begun.push((path.clone(), value));
        }
    }
    assert_eq!((added.len(), cancelled.len(), begun.len(), seen.goods()), (831, 832, 5, 5));
    for (path, list) in &begun {
        let codes = path.split_once("Code=").expect("codes").1.replace("&secondaryCurrencyCode=", "-");
        let (code, paid_in) = codes.split_once('-').expect("codes");
        let mut slow = Orders::new();
        let channel = format!("orderbook-{code}");
        for new in added.iter().filter(|new| new["Channel"] == channel.as_str()) {
            let order = &new["Data"];
            let side = usize::from(order["OrderType"] == "LimitOffer");
            let entry = (side, number(&order["Price"][paid_in]), number(&order["Volume"]));
            slow.insert(order["OrderGuid"].as_str().expect("a Guid").to_owned(), entry);
        }
        for (key, side) in [("BuyOrders", 0), ("SellOrders", 1)] {
            for order in list[key].as_array().expect("orders") {
                let entry = (side, number(&order["Price"]), number(&order["Volume"]));
                slow.insert(order["Guid"].as_str().expect("a Guid").to_owned(), entry);
            }
        }
        slow.retain(|guid, _| !cancelled.contains(guid));
        let book = venue.find(&codes.to_uppercase()).expect("a pair");
        assert!(venue.is_good(book));
        let mut found = Orders::new();
        for (n, side) in Side::BOTH.into_iter().enumerate() {
            for order in venue.books().orders(book, side) {
                let name = venue.books().order_name(order.reference).expect("a Guid");
                let hex = name.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
                let guid = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
                let units = 10i128.pow(10);
                found.insert(guid, (n, i128::from(order.price) * units, i128::from(order.size) * units));
            }
        }
        assert_eq!(found, slow, "{codes}");
    }
    assert_eq!(*venue.bad(), Bad::default());
}

/// How a made exchange writes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Writes {
    Coinbase,
    Bitmex,
    KrakenFutures,
    Binance,
    Bitstamp,
}

/// Names of sides in texts of `BitMEX`.
const SIDES: [&str; 2] = ["Buy", "Sell"];

/// An exchange of one product, `A-B`.
struct Exchange {
    writes: Writes,
    random: Random,
    levels: [BTreeMap<i64, u64>; 2],
    number: u64,
}

fn price(ticks: i64) -> String {
    format!("{}.{:02}", ticks / 100, ticks % 100)
}

fn size(units: u64) -> String {
    format!("{}.{:03}", units / 1_000, units % 1_000)
}

impl Exchange {
    fn new(writes: Writes, seed: u64) -> Self {
        Self { writes, random: Random::new(seed), levels: Default::default(), number: 10 }
    }

    fn slow(&self) -> Slow {
        let mut slow = Slow::default();
        for (n, side) in self.levels.iter().enumerate() {
            for (p, s) in side {
                slow.set(n, &json!(price(*p)), &json!(size(*s)));
            }
        }
        slow
    }

    /// One level is another; the text that tells it.
    fn change(&mut self) -> String {
        let side = usize::from(self.random.chance(0.5));
        let ticks = if side == 0 { 1_000 } else { 1_040 } + self.random.below(40) as i64;
        let was = self.levels[side].contains_key(&ticks);
        let new = if was && self.random.chance(0.5) { 0 } else { 1 + self.random.below(1_000_000) };
        if new == 0 {
            self.levels[side].remove(&ticks);
        } else {
            self.levels[side].insert(ticks, new);
        }
        self.number += 1;
        let (n, name) = (self.number, ["buy", "sell"][side]);
        let (p, s) = (price(ticks), size(new));
        let rows = |at: usize| if side == at { json!([[p, s]]) } else { json!([]) };
        match self.writes {
            Writes::Coinbase => json!({"type": "l2update", "product_id": "A-B", "changes": [[name, p, s]]}),
            Writes::KrakenFutures => {
                json!({"feed": "book", "product_id": "A-B", "side": name, "seq": n, "price": ticks, "qty": new, "timestamp": n})
            }
            Writes::Binance => json!({"e": "depthUpdate", "E": n, "s": "A-B", "U": n, "u": n, "b": rows(0), "a": rows(1)}),
            Writes::Bitstamp => {
                let data = json!({"microtimestamp": n.to_string(), "bids": rows(0), "asks": rows(1)});
                json!({"event": "data", "channel": "diff_order_book_A-B", "data": data})
            }
            Writes::Bitmex => {
                let id = 1_000_000 - ticks * 2 - side as i64;
                let row = json!({"symbol": "A-B", "id": id, "side": SIDES[side], "size": new, "price": ticks});
                let (action, drops): (_, &[&str]) = match (was, new) {
                    (_, 0) => ("delete", &["size", "price"]),
                    (true, _) => ("update", &["price"]),
                    (false, _) => ("insert", &[]),
                };
                let mut row = row.as_object().expect("a row").clone();
                for key in drops {
 row.remove(*key);
}
                json!({"table": "orderBookL2", "action": action, "data": [row]})
            }
        }
        .to_string()
    }

    /// The whole book: a text of the connection, or an answer.
    fn snapshot(&self) -> String {
        let rows =
            |n: usize| -> Vec<Value> { self.levels[n].iter().map(|(p, s)| json!([price(*p), size(*s)])).collect() };
        let plain =
            |n: usize| -> Vec<Value> { self.levels[n].iter().map(|(p, s)| json!({"price": p, "qty": s})).collect() };
        let n = self.number;
        match self.writes {
            Writes::Coinbase => json!({"type": "snapshot", "product_id": "A-B", "bids": rows(0), "asks": rows(1)}),
            Writes::KrakenFutures => {
                json!({"feed": "book_snapshot", "product_id": "A-B", "seq": n, "timestamp": n, "bids": plain(0), "asks": plain(1)})
            }
            Writes::Binance => json!({"lastUpdateId": n, "bids": rows(0), "asks": rows(1)}),
            Writes::Bitstamp => json!({"microtimestamp": n.to_string(), "bids": rows(0), "asks": rows(1)}),
            Writes::Bitmex => {
                let all = [0, 1].map(|side: usize| {
                    let row = move |(ticks, size): (&i64, &u64)| {
                        let id = 1_000_000 - ticks * 2 - side as i64;
                        json!({"symbol": "A-B", "id": id, "side": SIDES[side], "size": size, "price": ticks})
                    };
                    self.levels[side].iter().map(row).collect::<Vec<_>>()
                });
                json!({"table": "orderBookL2", "action": "partial", "filter": {"symbol": "A-B"}, "data": all.concat()})
            }
        }
        .to_string()
    }
}

/// The outcome of a run.
struct Run {
    doubts: usize,
    fetches: usize,
    compared: usize,
}

/// A connection that loses texts, breaks, and brings answers late; whenever the book is good it is the exchange's.
fn run<P: Protocol>(writes: Writes, seed: u64, loss: f64) -> Run {
    let mut exchange = Exchange::new(writes, seed);
    let (mut venue, mut seen, mut now) = (Web::<P>::new(&["A-B".to_owned()]), Seen::default(), SECOND);
    let book = venue.find("A-B").expect("a product");
    let unit = matches!(writes, Writes::KrakenFutures | Writes::Bitmex);
    let (mut fetches, mut compared, mut answer) = (0, 0, None);
    venue.connected(now);
    // The second half loses nothing and is longer than the longest wait between two requests, so that whatever a seed lost in the
    // first one, the book is good at the end.
    for n in 0..1_600 {
        let loss = if n < 800 { loss } else { 0.0 };
        now += SECOND / 10;
        venue.on_timer(now);
        let mut subscribed = false;
        while let Some(want) = venue.poll() {
            match want {
                Want::Say(text) => subscribed |= text.contains("subscribe") && !text.contains("unsubscribe"),
                Want::Fetch(path) => {
                    fetches += 1;
                    answer = Some((n + 3, path));
                }
                Want::Reconnect => panic!("the exchange is not silent"),
            }
        }
        if P::HAS_SNAPSHOTS && subscribed {
            // A change of before is still under way.
            let change = exchange.change();
            venue.text(change.as_bytes(), now, &mut seen);
            venue.text(exchange.snapshot().as_bytes(), now, &mut seen);
        } else if let Some((_, path)) = answer.take_if(|(at, _)| *at <= n) {
            let body = exchange.snapshot();
            // Changes that are sent after the answer was made may come before it.
            let change = exchange.change();
            venue.text(change.as_bytes(), now, &mut seen);
            venue.answer(&path, body.as_bytes(), now, &mut seen);
        } else {
            let change = exchange.change();
            if !exchange.random.chance(loss) {
                venue.text(change.as_bytes(), now, &mut seen);
                if venue.is_good(book) {
                    compared += 1;
                    let mut slow = exchange.slow();
                    if unit {
                        // Exchanges of this kind write ticks and units.
                        slow = Slow(exchange.levels.clone().map(|side| {
                            let whole = |n: i128| n * 10i128.pow(18);
                            side.into_iter().map(|(p, s)| (whole(p.into()), whole(s.into()))).collect()
                        }));
                    }
                    slow.hold(&venue, book);
                }
            }
        }
        if n == 400 {
            venue.disconnected(&mut seen);
            assert!(!venue.is_good(book) && venue.timer().is_none());
            answer = None;
            venue.connected(now);
        }
    }
    assert!(venue.is_good(book), "nothing was lost for 80 seconds");
    let told: Vec<bool> = seen.notices.iter().map(|(_, notice)| *notice == Notice::Good).collect();
    assert!(told.windows(2).all(|pair| pair[0] != pair[1]) && told.first() == Some(&true), "{told:?}");
    Run { doubts: told.iter().filter(|good| !**good).count(), fetches, compared }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn numbered_books_are_the_exchanges_whenever_they_are_good(seed: u64, loss in prop_oneof![Just(0.0), Just(0.02)]) {
        for run in [run::<KrakenFutures>(Writes::KrakenFutures, seed, loss), run::<Binance>(Writes::Binance, seed, loss)] {
            prop_assert!(run.compared > 100 && (loss > 0.0 || run.doubts == 1), "{} {}", run.compared, run.doubts);
            prop_assert!(run.fetches <= 3 * (run.doubts + 1), "{} for {}", run.fetches, run.doubts);
        }
    }

    #[test]
    fn other_books_are_the_exchanges_where_nothing_is_lost(seed: u64) {
        for run in [
            run::<Coinbase>(Writes::Coinbase, seed, 0.0),
            run::<Bitmex>(Writes::Bitmex, seed, 0.0),
            run::<Bitstamp>(Writes::Bitstamp, seed, 0.0),
        ] {
            prop_assert!(run.compared > 600 && run.doubts == 1, "{} {}", run.compared, run.doubts);
        }
    }
}

fn venue_of_one<P: Protocol>() -> (Web<P>, Seen, BookId) {
    let mut venue = Web::<P>::new(&["A-B".to_owned()]);
    venue.connected(0);
    let _subscription = std::iter::from_fn(|| venue.poll()).count();
    let book = venue.find("A-B").expect("a product");
    (venue, Seen::default(), book)
}

#[test]
fn a_trade_that_is_missing_puts_the_product_of_coinbase_in_doubt() {
    let (mut venue, mut seen, book) = venue_of_one::<Coinbase>();
    let snapshot = r#"{"type":"snapshot","product_id":"A-B","bids":[["1.5","1"]],"asks":[]}"#;
    let traded = |number: u64| {
        let text = json!({"type": "match", "product_id": "A-B", "trade_id": number, "side": "buy", "price": "1.55", "size": "0.10"});
        text.to_string().into_bytes()
    };
    venue.text(br#"{"type":"last_match","product_id":"A-B","trade_id":4}"#, 1, &mut seen);
    venue.text(snapshot.as_bytes(), 1, &mut seen);
    for number in [5, 5, 6] {
        venue.text(&traded(number), 1, &mut seen);
    }
    venue.text(br#"{"type":"heartbeat","product_id":"A-B","last_trade_id":7}"#, 1, &mut seen);
    assert!(venue.is_good(book) && seen.trades.len() == 2);
    // The price of a trade needed finer units, in which the book is told anew.
    assert_eq!((venue.scale(book), seen.trades[0].1.price), (Scale { price: 2, size: 1 }, 155));
    assert_eq!(venue.books().best(book, Side::Bid).map(|level| (level.price, level.size)), Some((150, 10)));
    venue.text(br#"{"type":"heartbeat","product_id":"A-B","last_trade_id":9}"#, 1, &mut seen);
    assert_eq!(seen.notices.last(), Some(&(book, Notice::Suspect(Doubt::Missing))));
    let asked: Vec<Want> = std::iter::from_fn(|| venue.poll()).collect();
    assert!(asked.len() == 2 && matches!(&asked[1], Want::Say(text) if text.contains("\"subscribe\"")), "{asked:?}");
    // A storm is none: the next request is two seconds later, though the answer is in doubt at once.
    venue.text(snapshot.as_bytes(), 2, &mut seen);
    // What was traded between the subscriptions is no loss of the book that has begun since.
    venue.text(&traded(20), 3, &mut seen);
    assert_eq!((venue.is_good(book), venue.poll()), (true, None));
    venue.text(&traded(22), 3, &mut seen);
    assert_eq!((venue.is_good(book), venue.poll()), (false, None));
    venue.on_timer(2 * SECOND);
    assert_eq!(venue.poll(), None);
    venue.on_timer(2 * SECOND + 1);
    assert!(matches!(venue.poll(), Some(Want::Say(_))));
}

#[test]
fn the_first_trade_of_a_coinbase_connection_is_counted_from() {
    let (mut venue, mut seen, book) = venue_of_one::<Coinbase>();
    venue.text(br#"{"type":"snapshot","product_id":"A-B","bids":[["1.5","1"]],"asks":[]}"#, 1, &mut seen);
    for (number, is_good) in [(5, true), (7, false)] {
        let text = json!({"type": "match", "product_id": "A-B", "trade_id": number, "side": "buy", "price": "1.5", "size": "1"});
        venue.text(text.to_string().as_bytes(), 1, &mut seen);
        assert_eq!(venue.is_good(book), is_good, "{number}");
    }
}

#[test]
fn a_crossed_book_is_a_loss_where_the_venue_trades_what_crosses_and_else_it_is_told() {
    fn after<P: Protocol>(snapshot: &str, crossing: &str) -> (bool, u64) {
        let (mut venue, mut seen, book) = venue_of_one::<P>();
        venue.text(snapshot.as_bytes(), 1, &mut seen);
        assert!(venue.is_good(book));
        venue.text(crossing.as_bytes(), 2, &mut seen);
        let is_told = seen.notices.last() == Some(&(book, Notice::Suspect(Doubt::Crossed)));
        assert_eq!(is_told, !venue.is_good(book));
        (venue.is_good(book), venue.bad().crossed)
    }
    let snapshot = r#"{"type":"snapshot","product_id":"A-B","bids":[["1.5","1"]],"asks":[["1.6","1"]]}"#;
    let crossing = r#"{"type":"l2update","product_id":"A-B","changes":[["buy","1.7","1"]]}"#;
    assert_eq!(after::<Coinbase>(snapshot, crossing), (false, 1));
    let snapshot = r#"{"table":"orderBookL2","action":"partial","data":[
        {"symbol":"A-B","id":1,"side":"Sell","size":1,"price":1.6},{"symbol":"A-B","id":2,"side":"Buy","size":1,"price":1.5}]}"#;
    let crossing = r#"{"table":"orderBookL2","action":"insert","data":[{"symbol":"A-B","id":3,"side":"Buy","size":1,"price":1.7}]}"#;
    assert_eq!(after::<Bitmex>(snapshot, crossing), (true, 0));
}

#[test]
fn what_cannot_be_read_is_counted_and_puts_its_product_in_doubt() {
    let (mut venue, mut seen, book) = venue_of_one::<KrakenFutures>();
    let snapshot = r#"{"feed":"book_snapshot","product_id":"A-B","seq":7,"timestamp":1,"bids":[{"price":1.5,"qty":2.0}],"asks":[]}"#;
    for (text, bad) in [
        ("{", Bad { text: 1, ..Bad::default() }),
        (
            r#"{"feed":"book","product_id":"A-B","side":"buy","seq":8,"price":1,"qty":1}"#,
            Bad { text: 1, early: 1, ..Bad::default() },
        ),
        (snapshot, Bad { text: 1, early: 1, ..Bad::default() }),
        (
            r#"{"feed":"book","product_id":"A-B","side":"buy","seq":8,"price":1e40,"qty":1}"#,
            Bad { text: 1, early: 1, value: 1, ..Bad::default() },
        ),
        (snapshot, Bad { text: 1, early: 1, value: 1, ..Bad::default() }),
        // Prices whose unit no book can have together.
        (
            r#"{"feed":"book","product_id":"A-B","side":"buy","seq":8,"price":9000000000000000000,"qty":1}"#,
            Bad { text: 1, early: 1, value: 2, ..Bad::default() },
        ),
        (snapshot, Bad { text: 1, early: 1, value: 2, ..Bad::default() }),
        (
            r#"{"feed":"book","product_id":"A-B","side":"buy","seq":8,"price":3,"qty":-1}"#,
            Bad { text: 1, early: 1, value: 3, ..Bad::default() },
        ),
        (snapshot, Bad { text: 1, early: 1, value: 3, ..Bad::default() }),
        (
            r#"{"feed":"book","product_id":"A-B","side":"sell","seq":8,"price":3,"qty":0}"#,
            Bad { text: 1, early: 1, value: 3, unknown_level: 1, ..Bad::default() },
        ),
    ] {
        venue.text(text.as_bytes(), 1, &mut seen);
        assert_eq!(*venue.bad(), bad, "{text}");
    }
    assert!(venue.is_good(book));
    assert_eq!(seen.notices.iter().filter(|(_, n)| *n == Notice::Suspect(Doubt::Unreadable)).count(), 3);
    venue.text(br#"{"feed":"book","product_id":"other","side":"sell","seq":8,"price":3,"qty":0}"#, 1, &mut seen);
    assert_eq!(venue.names(), ["A-B"]);
    venue.on_timer(20 * SECOND + 1);
    assert_eq!(std::iter::from_fn(|| venue.poll()).last(), Some(Want::Reconnect));
}

#[test]
fn orders_of_independent_reserve_lie_in_doubt_from_a_hole_to_their_next_list() {
    let mut venue = IndependentReserve::new(&["ETH-AUD".to_owned()]);
    let mut seen = Seen::default();
    let book = venue.find("ETH-AUD").expect("a pair");
    venue.connected(0);
    assert!(matches!(venue.poll(), Some(Want::Say(text)) if text.contains("orderbook-eth")));
    let guid = |n: u8| format!("{n:08}-0000-0000-0000-000000000000");
    let new = |nonce: u64, n: u8| {
        let data =
            json!({"OrderType": "LimitBid", "OrderGuid": guid(n), "Price": {"aud": 10.5, "usd": 7.25}, "Volume": 2.5});
        json!({"Channel": "orderbook-eth", "Nonce": nonce, "Data": data, "Time": 7, "Event": "NewOrder"}).to_string()
    };
    let other = |nonce: u64, n: u8, event: &str, volume: Value| {
        let data = json!({"OrderType": "LimitBid", "OrderGuid": guid(n), "Volume": volume});
        json!({"Channel": "orderbook-eth", "Nonce": nonce, "Data": data, "Time": 7, "Event": event}).to_string()
    };
    let list = |orders: &[u8]| {
        let orders: Vec<Value> =
            orders.iter().map(|n| json!({"Guid": guid(*n), "Price": 10.5, "Volume": 2.5})).collect();
        json!({"BuyOrders": orders, "SellOrders": []}).to_string()
    };
    let orders = |venue: &IndependentReserve| -> Vec<u64> {
        venue.books().orders(book, Side::Bid).map(|order| order.size / 10_000_000).collect()
    };
    venue.text(new(1, 1).as_bytes(), 1, &mut seen);
    let Some(Want::Fetch(path)) = venue.poll() else { panic!("a list is wanted") };
    venue.text(new(2, 2).as_bytes(), 1, &mut seen);
    venue.text(other(3, 3, "OrderCanceled", Value::Null).as_bytes(), 1, &mut seen);
    venue.text(other(4, 1, "OrderChanged", json!(1.0)).as_bytes(), 1, &mut seen);
    // The list has one that was cancelled since, and one from before; the second order came behind it.
    venue.answer(&path, list(&[1, 3, 9]).as_bytes(), 2, &mut seen);
    assert_eq!((orders(&venue), venue.is_good(book)), (vec![10, 25, 25], true));
    venue.text(other(5, 9, "OrderChanged", json!(0)).as_bytes(), 3, &mut seen);
    venue.text(other(6, 2, "OrderChanged", json!(0.5)).as_bytes(), 3, &mut seen);
    assert_eq!(orders(&venue), [10, 5]);
    // Two are missing.
    venue.text(new(9, 4).as_bytes(), 4, &mut seen);
    assert_eq!(seen.notices.last(), Some(&(book, Notice::Suspect(Doubt::Missing))));
    venue.on_timer(4 + SECOND);
    let Some(Want::Fetch(path)) = venue.poll() else { panic!("a list is wanted") };
    venue.answer(&path, list(&[2, 4]).as_bytes(), 5 + SECOND, &mut seen);
    assert_eq!((orders(&venue), venue.is_good(book)), (vec![25, 25], true));
    let told: Vec<bool> = seen.notices.iter().map(|(_, notice)| *notice == Notice::Good).collect();
    assert_eq!((told, *venue.bad()), (vec![true, false, true], Bad { gaps: 1, ..Bad::default() }));
}

/// Texts of a made connection, one a line: of each venue in turn as `targets::venue_web` chooses them.
pub(crate) fn texts(seed: u64) -> Vec<u8> {
    let all = [Writes::Coinbase, Writes::Bitmex, Writes::KrakenFutures, Writes::Binance, Writes::Bitstamp];
    let mut exchange = Exchange::new(all[(seed % 6).min(4) as usize], seed);
    let texts = (0..24).map(|n| if n % 9 == 0 { exchange.snapshot() } else { exchange.change() });
    texts.collect::<Vec<_>>().join("\n").into_bytes()
}
