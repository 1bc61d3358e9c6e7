//! Kraken's books: the recorded ones against their checksums and a slow reference, made ones that lose messages.

use std::io::Read as _;
use std::path::Path;

use market::{BookId, Event, Events, Side};
use proptest::prelude::*;
use serde_json::{Value, json};
use venue::Market;
use venue::kraken::{Bad, Doubt, Kraken, Notice, Want};

use crate::day::Random;

const SECOND: u64 = 1_000_000_000;

/// A side as texts, in no order.
type Levels = Vec<(String, String)>;

/// A book that is a list, compared by text and by number only.
#[derive(Clone, Default)]
struct Slow {
    /// Bids, asks.
    sides: [Levels; 2],
}

/// Price and size in the units of the books, by a way of its own: through 128 bits.
fn number(text: &str, decimals: u32) -> i128 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let scale = 10i128.pow(decimals - part.len() as u32);
    (whole.to_owned() + part).parse::<i128>().expect("a number") * scale
}

impl Slow {
    fn set(&mut self, side: usize, price: &str, size: &str) {
        self.sides[side].retain(|(known, _)| number(known, 10) != number(price, 10));
        if number(size, 8) != 0 {
            self.sides[side].push((price.to_owned(), size.to_owned()));
        }
    }

    fn cut(&mut self, depth: usize) {
        for side in 0..2 {
            self.sides[side].sort_by_key(|(price, _)| number(price, 10) * if side == 0 { -1 } else { 1 });
            self.sides[side].truncate(depth);
        }
    }

    fn apply(&mut self, message: &Value, depth: usize) {
        let parts = message.as_array().expect("a list");
        for change in &parts[1..parts.len() - 2] {
            for (key, side) in [("bs", 0), ("as", 1), ("b", 0), ("a", 1)] {
                for row in change[key].as_array().into_iter().flatten() {
                    self.set(side, row[0].as_str().expect("a price"), row[1].as_str().expect("a size"));
                }
            }
        }
        self.cut(depth);
    }

    fn checksum(&self) -> u32 {
        let mut text = String::new();
        for side in [1, 0] {
            for (price, size) in self.sides[side].iter().take(10) {
                for field in [price, size] {
                    text += field.replace('.', "").trim_start_matches('0');
                }
            }
        }
        crc32fast::hash(text.as_bytes())
    }

    fn hold(&self, kraken: &Kraken, pair: &str) {
        let book = kraken.book(pair).expect("a pair");
        let unit = 10i128.pow(10 - kraken.price_decimals(pair).expect("a pair") as u32);
        for (n, side) in Side::BOTH.into_iter().enumerate() {
            let found: Vec<(i128, i128)> =
                book.levels(side).map(|l| (i128::from(l.price) * unit, l.size.into())).collect();
            let expected: Vec<(i128, i128)> =
                self.sides[n].iter().map(|(price, size)| (number(price, 10), number(size, 8))).collect();
            assert_eq!(found, expected, "{pair} {side:?}");
        }
    }
}

#[derive(Default)]
struct Seen {
    notices: Vec<(BookId, Notice)>,
    is_open: bool,
    ends: usize,
}

impl Events for Seen {
    fn event(&mut self, _: BookId, event: &Event) {
        assert!(self.is_open, "{event:?} outside of a message");
    }
}

impl Market<Notice> for Seen {
    fn begin(&mut self, _: Option<BookId>, _: u64) {
        // The time may be 0: a snapshot of an empty book has no row that tells one.
        assert!(!self.is_open);
        self.is_open = true;
    }
    fn end(&mut self, _: Option<BookId>) {
        assert!(self.is_open);
        (self.is_open, self.ends) = (false, self.ends + 1);
    }
    fn notice(&mut self, book: Option<BookId>, notice: &Notice) {
        if matches!(notice, Notice::Scale(_)) {
            return;
        }
        self.notices.push((book.expect("a pair"), notice.clone()));
    }
}

/// The texts of the recording, with those that were sent left out; `None` where it is not at hand.
fn recorded() -> Option<Vec<String>> {
    let data = std::env::var_os("QUOTEWAY_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), std::path::PathBuf::from);
    let path = data.join("crypto-ws/KRAKEN.ws.50.0.gz");
    let file = std::fs::File::open(&path).ok()?;
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).expect("a packed text");
    let seen = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    Some(seen.filter_map(|line| Some(line.split_once(": ")?.1.to_owned())).collect())
}

#[test]
fn each_recorded_checksum_is_right_and_the_whole_depth_is_that_of_a_slow_reference() {
    let Some(texts) = recorded() else { return };
    let pairs: Vec<String> = [
        "WAVES/EUR",
        "XMR/USD",
        "KSM/XBT",
        "GRT/ETH",
        "SC/EUR",
        "ETH/CHF",
        "OCEAN/XBT",
        "OMG/USD",
        "XBT/CHF",
        "ADA/XBT",
    ]
    .map(str::to_owned)
    .to_vec();
    let (mut kraken, mut seen) = (Kraken::new(&pairs, 1_000), Seen::default());
    kraken.connected(0);
    let mut slow = vec![Slow::default(); pairs.len()];
    for (n, text) in texts.iter().enumerate() {
        kraken.text(text.as_bytes(), 1, &mut seen);
        let message: Value = serde_json::from_str(text).expect("JSON");
        if let Some(pair) = message.as_array().and_then(|parts| parts.last()?.as_str()) {
            let at = pairs.iter().position(|known| known == pair).expect("a pair");
            slow[at].apply(&message, 1_000);
            if n % 16 == 0 {
                slow[at].hold(&kraken, pair);
            }
        }
    }
    for (slow, pair) in slow.iter().zip(&pairs) {
        slow.hold(&kraken, pair);
    }
    assert_eq!(kraken.counts(), (texts.len() as u64, 4_269));
    assert_eq!(*kraken.bad(), Bad::default());
    assert_eq!(seen.notices.len(), 10);
    assert!(seen.notices.iter().all(|(_, notice)| *notice == Notice::Good) && seen.ends == 4_279);
}

/// The exchange: one pair, texts of six decimals.
struct Exchange {
    random: Random,
    book: Slow,
    depth: usize,
}

impl Exchange {
    fn row(&mut self, side: usize) -> Value {
        let away = self.random.below(30);
        let ticks = if side == 0 { 1_000 - away } else { 1_001 + away };
        let price = format!("0.{ticks:06}");
        let is_there = self.book.sides[side].iter().any(|(known, _)| *known == price);
        let size = if is_there && self.random.chance(0.5) { 0 } else { 1 + self.random.below(1_000_000_000) };
        let size = format!("{}.{:08}", size / 100_000_000, size % 100_000_000);
        self.book.set(side, &price, &size);
        json!([price, size, "1618678133.365913"])
    }

    fn update(&mut self) -> String {
        let mut changes = Vec::new();
        let sides: &[usize] = if self.random.chance(0.2) { &[1, 0] } else { &[usize::from(self.random.chance(0.5))] };
        for side in sides {
            let rows: Vec<Value> = (0..=self.random.below(3)).map(|_| self.row(*side)).collect();
            let mut change = serde_json::Map::new();
            change.insert(["b", "a"][*side].to_owned(), rows.into());
            changes.push(change);
        }
        self.book.cut(self.depth);
        let checksum = self.book.checksum().to_string();
        changes.last_mut().expect("a change").insert("c".to_owned(), checksum.into());
        let mut parts = vec![json!(7)];
        parts.extend(changes.into_iter().map(Value::from));
        parts.extend([json!(format!("book-{}", self.depth)), json!("XBT/CHF")]);
        Value::from(parts).to_string()
    }

    fn snapshot(&self) -> String {
        let side = |n: usize| -> Vec<Value> {
            self.book.sides[n].iter().map(|(price, size)| json!([price, size, "1618678126.203124"])).collect()
        };
        json!([7, { "as": side(1), "bs": side(0) }, format!("book-{}", self.depth), "XBT/CHF"]).to_string()
    }
}

/// Texts of a connection, one a line.
pub(crate) fn texts(seed: u64) -> Vec<u8> {
    let mut exchange = Exchange { random: Random::new(seed), book: Slow::default(), depth: 12 };
    let mut texts = Vec::new();
    for n in 0..30 {
        let text = exchange.update();
        texts.push(if n % 11 == 0 { exchange.snapshot() } else { text });
    }
    texts.join("\n").into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_good_is_the_exchanges_and_what_is_lost_is_made_up_for(seed: u64, loss in prop_oneof![Just(0.0), Just(0.02)]) {
        let mut exchange = Exchange { random: Random::new(seed), book: Slow::default(), depth: 12 };
        let (mut kraken, mut seen, mut now) = (Kraken::new(&["XBT/CHF".to_owned()], 12), Seen::default(), SECOND);
        kraken.connected(now);
        let (mut subscribed, mut asked) = (false, 0);
        for _ in 0..600 {
            now += SECOND / 10;
            kraken.on_timer(now);
            let text = exchange.update();
            while let Some(want) = kraken.poll() {
                let Want::Say(said) = want else { panic!("the exchange is not silent") };
                let request: Value = serde_json::from_str(&said).expect("JSON");
                prop_assert_eq!(&request["pair"], &json!(["XBT/CHF"]));
                asked += usize::from(request["event"] == "unsubscribe");
                subscribed = request["event"] == "subscribe";
            }
            if std::mem::take(&mut subscribed) {
                // Changes of before are still under way.
                kraken.text(text.as_bytes(), now, &mut seen);
                kraken.text(exchange.snapshot().as_bytes(), now, &mut seen);
            } else if !exchange.random.chance(loss) {
                kraken.text(text.as_bytes(), now, &mut seen);
                if kraken.is_good("XBT/CHF") && loss == 0.0 {
                    exchange.book.hold(&kraken, "XBT/CHF");
                }
            }
        }
        let told: Vec<bool> = seen.notices.iter().map(|(_, notice)| *notice == Notice::Good).collect();
        prop_assert!(told.windows(2).all(|pair| pair[0] != pair[1]) && told.first() == Some(&true));
        let doubts = told.iter().filter(|good| !**good).count();
        if loss == 0.0 {
            prop_assert_eq!((doubts, asked), (0, 0));
        } else {
            // What the last messages put in doubt may not have been asked for when the run ends.
            let asked_for = doubts - usize::from(!kraken.is_good("XBT/CHF"));
            prop_assert!(doubts > 0 && asked >= asked_for && asked <= 2 * doubts + 1, "{} {}", doubts, asked);
        }
        kraken.disconnected(&mut seen);
        prop_assert!(!kraken.is_good("XBT/CHF") && kraken.timer().is_none());
    }
}

#[test]
fn silence_refusals_and_what_cannot_be_read_are_told() {
    let (mut kraken, mut seen) = (Kraken::new(&["A/B".to_owned(), "C/D".to_owned()], 10), Seen::default());
    kraken.connected(0);
    let Some(Want::Say(text)) = kraken.poll() else { panic!("a subscription") };
    let said: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&said["pair"], &said["subscription"]["depth"]), (&json!(["A/B", "C/D"]), &json!(10)));
    let Some(Want::Say(text)) = kraken.poll() else { panic!("a subscription to trades") };
    let said: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&said["pair"], &said["subscription"]), (&json!(["A/B", "C/D"]), &json!({ "name": "trade" })));
    let refused = r#"{"errorMessage":"Currency pair not supported A/B","event":"subscriptionStatus","pair":"A/B","status":"error"}"#;
    kraken.text(refused.as_bytes(), 1, &mut seen);
    assert_eq!(seen.notices, [(BookId(0), Notice::Refused("Currency pair not supported A/B".into()))]);
    let snapshot = r#"[1,{"as":[["1.5","1.0","1.0"]],"bs":[]},"book-10","C/D"]"#;
    kraken.text(snapshot.as_bytes(), 1, &mut seen);
    assert!(kraken.is_good("C/D"));
    for (text, bad) in [
        ("{", Bad { text: 1, ..Bad::default() }),
        ("[1]", Bad { text: 2, ..Bad::default() }),
        (r#"[1,{"b":[["1.0","1.0","1.0"]]},"book-10","A/B"]"#, Bad { text: 2, early: 1, ..Bad::default() }),
        (r#"[1,{"a":[["1e5","1.0","1.0"]]},"book-10","C/D"]"#, Bad { text: 2, early: 1, value: 1, ..Bad::default() }),
    ] {
        kraken.text(text.as_bytes(), 2, &mut seen);
        assert_eq!(*kraken.bad(), bad, "{text}");
    }
    assert_eq!(seen.notices.last(), Some(&(BookId(1), Notice::Suspect(Doubt::Unreadable))));
    let again: Vec<Want> = std::iter::from_fn(|| kraken.poll()).collect();
    assert!(again.len() == 2 && matches!(&again[0], Want::Say(text) if text.contains("unsubscribe")));
    // Requests come one at a time, each later than the one before.
    let mut times = Vec::new();
    for tenth in 1..90 {
        let now = tenth * SECOND / 10;
        kraken.text(br#"{"event":"heartbeat"}"#, now, &mut seen);
        kraken.on_timer(now);
        while let Some(Want::Say(text)) = kraken.poll() {
            times.extend(text.contains("unsubscribe").then_some(tenth));
        }
    }
    assert_eq!(times, [11, 31, 71]);
    kraken.on_timer(30 * SECOND);
    assert_eq!(kraken.poll(), Some(Want::Reconnect));
}

#[test]
fn trades_are_told_once_in_the_units_of_their_pair() {
    #[derive(Default)]
    struct Trades(Vec<(BookId, i64, u64, Option<Side>, u64)>, u64);
    impl Events for Trades {
        const WANTS_RANK: bool = false;
        fn event(&mut self, _: BookId, _: &Event) {}
    }
    impl Market<Notice> for Trades {
        fn begin(&mut self, _: Option<BookId>, time: u64) {
            self.1 = time;
        }
        fn trade(&mut self, book: BookId, trade: &venue::Trade) {
            self.0.push((book, trade.price, trade.size, trade.aggressor, self.1));
        }
    }
    let (mut kraken, mut seen) = (Kraken::new(&["C/D".to_owned()], 10), Trades::default());
    kraken.connected(0);
    let row = |price: &str, time: &str, side: &str| json!([price, "0.5", time, side, "l", ""]);
    let text = |rows: &[Value]| json!([9, rows, "trade", "C/D"]).to_string();
    let first = text(&[row("1.50", "7.000000001", "b"), row("1.25", "8.5", "s")]);
    kraken.text(first.as_bytes(), 1, &mut seen);
    assert_eq!((seen.0.len(), kraken.bad().early), (0, 2), "the pair's decimals are not known");
    kraken.text(br#"[1,{"as":[["1.55","1.0","1.0"]],"bs":[]},"book-10","C/D"]"#, 1, &mut seen);
    kraken.text(first.as_bytes(), 2, &mut seen);
    // Of another connection: what was told is told again, and what has three decimals is none of its prices.
    kraken.text(
        text(&[row("1.50", "7.000000001", "b"), row("1.555", "9.0", "b"), row("1.5", "9.5", "x")]).as_bytes(),
        3,
        &mut seen,
    );
    let half = 50_000_000;
    let told = [
        (BookId(0), 150, half, Some(Side::Bid), 7_000_000_001),
        (BookId(0), 125, half, Some(Side::Ask), 8_500_000_000),
        (BookId(0), 150, half, None, 9_500_000_000),
    ];
    assert_eq!((&seen.0[..], kraken.bad().value), (&told[..], 1));
}
