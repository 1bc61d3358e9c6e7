//! Databento files: those that were recorded, where they are at hand, and made ones.

use std::collections::BTreeMap;

use venue::dbn::{DbnFile, LAST, Record, SNAPSHOT, UNDEFINED_PRICE};

use super::*;

fn recorded(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("QUOTEWAY_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let path = folder.join("cme-es").join(name);
    if !path.is_file() {
        println!("no recording {}: set QUOTEWAY_DATA to test with it", path.display());
        return None;
    }
    Some(path)
}

fn unpacked(path: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    let (mut bytes, mut piece) = (bytes::Bytes::open(path).expect("a file"), Vec::new());
    while bytes.next(&mut piece) {
        all.extend_from_slice(&piece);
    }
    all
}

/// Orders and levels of one instrument, as plain as can be.
#[derive(Default)]
struct Plain {
    orders: HashMap<u64, (u16, i64, i64)>,
    /// By side and price: size and number of orders.
    levels: BTreeMap<(u16, i64), (i64, u64)>,
    expected: Expected,
}

impl Plain {
    fn change(&mut self, order: u64, to: Option<(u16, i64, i64)>) {
        let before = self.orders.remove(&order);
        for ((side, price, size), sign) in before.map(|old| (old, -1)).into_iter().chain(to.map(|new| (new, 1))) {
            let level = self.levels.entry((side, price)).or_default();
            *level = (level.0 + sign * size, level.1.wrapping_add_signed(sign));
            let key = format!("{price}{}", if side == 1 { 'B' } else { 'A' });
            if level.1 == 0 {
                self.levels.remove(&(side, price));
                self.expected.levels.remove(&key);
            } else {
                self.expected.levels.set(&key, (side, price, level.0, level.1));
            }
        }
        match to {
            Some((side, price, size)) => {
                self.orders.insert(order, (side, price, size));
                self.expected.orders.set(&order.to_string(), (side, price, size, 0));
            }
            None => drop(self.expected.orders.remove(&order.to_string())),
        }
    }

    fn settle(&mut self) {
        let of =
            |side: u16| self.levels.range((side, i64::MIN)..=(side, i64::MAX)).map(|(key, level)| (key.1, level.0));
        let (bid, ask) = (of(1).next_back(), of(2).next());
        self.expected.push(bid, ask);
    }
}

/// The states of the book behind each event, and behind a snapshot.
fn expected(path: &Path) -> Expected {
    let unpacked = unpacked(path);
    let (mut file, mut plain) = (DbnFile::new(&unpacked).expect("DBN"), Plain::default());
    let (mut was_snapshot, mut is_open) = (false, false);
    plain.settle();
    while let Some(record) = file.next_record().expect("records") {
        let Record::Mbo(record) = record else { continue };
        let is_snapshot = record.flags & SNAPSHOT != 0;
        if was_snapshot && !is_snapshot && is_open {
            plain.settle();
        }
        if is_snapshot && !was_snapshot || record.action == b'R' {
            plain = Plain { expected: plain.expected, ..Plain::default() };
            plain.expected.orders.clear();
            plain.expected.levels.clear();
        }
        was_snapshot = is_snapshot;
        let terms = (if record.side == b'B' { 1 } else { 2 }, record.price, i64::from(record.size));
        match record.action {
            b'A' | b'M' => plain.change(record.order, Some(terms)),
            b'C' => {
                let (side, price, size) = plain.orders[&record.order];
                let left = size - terms.2;
                plain.change(record.order, (left > 0).then_some((side, price, left)));
            }
            _ => {}
        }
        is_open = record.flags & LAST == 0;
        if !is_open {
            plain.settle();
        }
    }
    plain.expected
}

#[test]
fn a_consumer_holds_the_recorded_book_of_every_event() {
    for (name, symbol) in [
        ("esh4-glbx-mdp3-20231225.mbo.dbn.zst", "ESH4"),
        ("orderbooks_mbo_2024-05-08T00-00-00_2024-05-08T00-00-02.dbn.zst", "ESM4"),
    ] {
        let Some(path) = recorded(name) else { return };
        let mut replay = open(&path, config());
        assert_eq!((replay.file(), replay.names().collect::<Vec<_>>()), (VenueFile::Dbn, vec![symbol]));
        let seen = play(&mut replay, &[symbol], 9);
        let seen = &seen[symbol];
        expected(&path).hold(seen, name);
        assert!(seen.order_states.0.len() > 100 && !seen.trades.is_empty(), "{}", seen.order_states.0.len());
        assert_eq!(replay.unread(), None);
    }
}

#[test]
fn recorded_best_prices_are_the_records_own() {
    let Some(path) = recorded("futures_mbp-1_2024-07-01T23-58_2024-07-02T00-02.dbn.zst") else { return };
    let mut replay = open(&path, config());
    let name = replay.names().next().expect("a name").to_owned();
    let id = replay.find(&name).expect("the name");
    assert!(
        replay.offers(id, Model::Price) && !replay.offers(id, Model::ByPrice) && !replay.offers(id, Model::ByOrder)
    );
    let seen = play(&mut replay, &[&name], 9);
    let unpacked = unpacked(&path);
    let (mut file, mut quotes, mut trades) = (DbnFile::new(&unpacked).expect("DBN"), vec![[None; 4]], Vec::new());
    let mut instruments = std::collections::BTreeSet::new();
    while let Some(record) = file.next_record().expect("records") {
        let Record::Mbp1(record) = record else { continue };
        instruments.insert(record.head.instrument);
        if record.action == b'T' {
            trades.push((record.price, i64::from(record.size)));
        }
        let side = |level: market::Level| Some(level).filter(|level| level.price != UNDEFINED_PRICE);
        let (bid, ask) = (side(record.bid), side(record.ask));
        let size = |level: Option<market::Level>| level.map(|level| level.size as i64);
        let quote = [bid.map(|b| b.price), size(bid), ask.map(|a| a.price), size(ask)];
        if quotes.last() != Some(&quote) {
            quotes.push(quote);
        }
    }
    assert_eq!(instruments.len(), 1, "the comparison is of one instrument");
    assert!(trades.len() > 100 && quotes.len() > 1_000, "{} {}", trades.len(), quotes.len());
    assert_eq!((&seen[&name].trades, &seen[&name].quotes), (&trades, &quotes));
}

/// A file of version 1 with the symbols of two instruments, and no records yet.
pub(super) fn without_records(schema: u16) -> Vec<u8> {
    let mut body = vec![0u8; 100];
    body[16..18].copy_from_slice(&schema.to_le_bytes());
    let text = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(22, 0);
        bytes
    };
    body.extend([0u8; 16]);
    body.extend(2u32.to_le_bytes());
    for (symbol, number) in [("ONE", "11"), ("TWO", "22")] {
        body.extend(text(symbol));
        body.extend(1u32.to_le_bytes());
        body.extend(20_240_101u32.to_le_bytes());
        body.extend(20_240_102u32.to_le_bytes());
        body.extend(text(number));
    }
    let mut file = b"DBN\x01".to_vec();
    file.extend((body.len() as u32).to_le_bytes());
    file.extend(body);
    file
}

/// A file of records by order.
fn made(records: &[(u32, u8, u8, u64, i64, u32, u8)]) -> Vec<u8> {
    let mut file = without_records(0);
    for (n, (instrument, action, side, order, price, size, flags)) in records.iter().enumerate() {
        let at = 1_704_110_400_000_000_000 + n as u64 * 1_000;
        file.extend([14, 0xA0, 1, 0]);
        file.extend(instrument.to_le_bytes());
        file.extend(at.to_le_bytes());
        file.extend(order.to_le_bytes());
        file.extend(price.to_le_bytes());
        file.extend(size.to_le_bytes());
        file.extend([*flags, 0, *action, *side]);
        file.extend(at.to_le_bytes());
        file.extend([0; 8]);
    }
    file
}

#[test]
fn events_of_two_instruments_that_lie_within_each_other_are_told_apart_and_negative_prices_are_prices() {
    let records = [
        (11, b'A', b'B', 1, -2_500_000_000, 5, 0),
        (22, b'A', b'A', 2, 0, 7, LAST),
        (11, b'A', b'A', 3, -1_000_000_000, 6, LAST),
        (22, b'C', b'A', 2, 0, 7, LAST),
    ];
    let file = file("made.dbn", &made(&records));
    let mut replay = open(&file.path, config());
    assert_eq!(replay.names().collect::<Vec<_>>(), ["ONE", "TWO"]);
    let seen = play(&mut replay, &["ONE", "TWO"], 9);
    // Never the bid alone: its event had not ended.
    let all = [Some(-2_500_000_000), Some(5), Some(-1_000_000_000), Some(6)];
    assert_eq!(seen["ONE"].quotes, [[None; 4], all]);
    assert_eq!(seen["TWO"].quotes, [[None; 4], [None, None, Some(0), Some(7)], [None; 4]]);
    assert_eq!(seen["ONE"].level_states.0.len(), 2);
}

#[test]
fn a_snapshot_that_has_no_last_record_is_told_before_what_follows() {
    let records = [
        (11, b'A', b'B', 1, 10_000_000_000, 5, SNAPSHOT),
        (11, b'A', b'A', 2, 12_000_000_000, 6, SNAPSHOT),
        (11, b'A', b'B', 3, 11_000_000_000, 7, 0),
        (11, b'A', b'A', 4, 11_500_000_000, 8, LAST),
    ];
    let file = file("made.dbn", &made(&records));
    let seen = play(&mut open(&file.path, config()), &["ONE"], 9);
    let quote =
        |bid: i64, bids, ask: i64, asks| [Some(bid * 100_000_000), Some(bids), Some(ask * 100_000_000), Some(asks)];
    assert_eq!(seen["ONE"].quotes, [[None; 4], quote(100, 5, 120, 6), quote(110, 7, 115, 8)]);
}

#[test]
fn a_torn_file_gives_what_is_whole_and_says_so_and_damage_is_told() {
    let records = [(11, b'A', b'B', 1, 10_000_000_000, 5, LAST), (11, b'A', b'A', 2, 12_000_000_000, 6, LAST)];
    let whole = made(&records);
    let torn = file("torn.dbn", &whole[..whole.len() - 3]);
    let mut replay = open(&torn.path, config());
    let seen = play(&mut replay, &["ONE"], 9);
    assert_eq!(seen["ONE"].quotes.len(), 2);
    assert!(replay.unread().expect("torn").contains("53 bytes"), "{:?}", replay.unread());
    let mut damaged = whole.clone();
    let second = damaged.len() - 56;
    damaged[second] = 1;
    let damaged = file("damaged.dbn", &damaged);
    let mut replay = open(&damaged.path, config());
    play(&mut replay, &["ONE"], 9);
    assert!(replay.unread().expect("damaged").contains("nothing behind it"), "{:?}", replay.unread());
    for length in [0, 2, 7, 8, 60, 150] {
        let part = file("part.dbn", &whole[..length]);
        assert!(!matches!(VenueReplay::open(&part.path, config(), &mut |_| {}), Ok(Some(_))), "{length} bytes");
    }
}
