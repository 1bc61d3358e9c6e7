//! The replay of captures against a plain re-computation of the books.

use super::*;
use rwf::{FieldList, Map, MapAction, SetScope};

fn data(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("QUOTEWAY_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let file = folder.join("iex").join(name);
    if file.is_file() {
        return Some(file);
    }
    println!("no capture {}: set QUOTEWAY_DATA to test with it", file.display());
    None
}

fn unpaced() -> ReplayConfig {
    ReplayConfig { pace: ReplaySpeed::Unpaced, ..ReplayConfig::default() }
}

/// The book of a consumer: key to size, as the maps tell it.
fn apply(book: &mut BTreeMap<Vec<u8>, i64>, body: &[u8]) {
    let map = Map::decode(body, &SetScope::default()).unwrap();
    for entry in map.entries().map(Result::unwrap) {
        if entry.action == MapAction::DELETE {
            assert!(book.remove(entry.key).is_some(), "a level that was never told is deleted");
            continue;
        }
        let list = FieldList::decode(entry.data, &SetScope::default()).unwrap();
        let size = list.entries().map(Result::unwrap).find(|e| e.fid == crate::fields::ACC_SIZE).unwrap();
        let Ok(rwf::Primitive::Real(size)) = size.value(rwf::DataType::REAL) else { panic!("no size") };
        let known = book.insert(entry.key.to_vec(), size.mantissa).is_some();
        assert_eq!(known, entry.action == MapAction::UPDATE);
    }
}

#[test]
fn a_consumer_of_the_levels_holds_the_recorded_book() {
    let Some(path) = data("DEEP10.pcap.gz") else { return };
    let mut replay = CaptureReplay::open(&path, unpaced()).unwrap();
    let id = replay.find("MSFT.DEEP").unwrap();
    replay.watch(id, Model::ByPrice, true);
    replay.watch(id, Model::Price, true);
    let (mut told, mut images, mut quotes, mut trades) = (BTreeMap::new(), 0, 0, 0);
    while !replay.ended {
        replay.advance(0, 100, &mut |event| {
            if event.instrument != id {
                return;
            }
            match (event.model, event.payload) {
                (Model::ByPrice, Payload::NewImage) => {
                    told.clear();
                    images += 1;
                    apply(&mut told, event.body);
                }
                (Model::ByPrice, _) => apply(&mut told, event.body),
                (_, Payload::Update(UpdateKind::Trade)) => trades += 1,
                (_, Payload::Update(_)) => quotes += 1,
                _ => {}
            }
        });
    }
    // The plain computation: the last size of each level since the stream began anew.
    let mut plain = BTreeMap::new();
    let mut capture = Capture::open(&path).unwrap();
    let mut expected_trades = 0;
    let mut restarts = 0;
    while let Some(message) = capture.next_message().unwrap() {
        if std::mem::replace(&mut restarts, capture.restarts) != capture.restarts {
            plain.clear();
        }
        if message.symbol() != "MSFT" {
            continue;
        }
        match message.what {
            What::Level { buy, price, size, .. } => {
                let key = format!("{price}{}", if buy { 'B' } else { 'A' }).into_bytes();
                if size == 0 {
                    plain.remove(&key);
                } else {
                    plain.insert(key, i64::from(size));
                }
            }
            What::Trade { .. } => expected_trades += 1,
            What::Quote { .. } => {}
        }
    }
    assert!(images >= 5 && quotes > 100, "{images} images, {quotes} quotes");
    assert_eq!((trades, told), (expected_trades, plain));
}

#[test]
fn the_best_quotes_of_the_other_feed_are_the_records_quotes() {
    let Some(path) = data("TOPS16.pcapng.gz") else { return };
    let mut replay = CaptureReplay::open(&path, unpaced()).unwrap();
    let id = replay.find("SPY.IEX").unwrap();
    replay.watch(id, Model::Price, true);
    while !replay.ended {
        replay.advance(0, 1_000, &mut |_| {});
    }
    let mut last = None;
    let mut capture = Capture::open(&path).unwrap();
    while let Some(message) = capture.next_message().unwrap() {
        if let (b"SPY     ", What::Quote { bid, ask, .. }) = (&message.symbol, message.what) {
            last = Some((bid, ask));
        }
    }
    let record = &replay.items[id.0 as usize].record;
    assert_eq!(Some((record.bid.price, record.ask.price)), last);
    assert!(replay.items.len() > 7_000, "every symbol has a record");
}

#[test]
fn time_is_scaled_and_the_end_begins_anew() {
    let Some(path) = data("TOPS16.pcapng.gz") else { return };
    let config = ReplayConfig { pace: ReplaySpeed::Scaled(1_000_000.0), ..ReplayConfig::default() };
    let mut replay = CaptureReplay::open(&path, config).unwrap();
    let id = replay.find("SPY.IEX").unwrap();
    assert!(replay.find("SPY.DEEP").is_none() && replay.find("TOOLONGNAME.IEX").is_none());
    replay.watch(id, Model::Price, true);
    assert_eq!(replay.due(), Some(0));
    // Six minutes and forty seconds at a million times the speed are 0.4 ms.
    replay.advance(1_000_000, usize::MAX, &mut |_| {});
    assert!(replay.ended);
    let due = replay.due().unwrap();
    assert!((config.pause..config.pause + 1_000_000).contains(&due), "{due}");
    let mut first = None;
    replay.advance(due, 1, &mut |event| first = first.or(Some(event.payload)));
    assert_eq!(first, Some(Payload::NewImage));
    assert!(!replay.ended);
}
