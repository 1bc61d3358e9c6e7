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
    while let Some(heard) = capture.next_heard().unwrap() {
        let Heard::Message(message) = heard else {
            assert_eq!(heard, Heard::Restart, "nothing is missing in this capture");
            plain.clear();
            continue;
        };
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
            What::Quote { .. } | What::Break { .. } => {}
        }
    }
    assert_eq!(capture.counters().restarts, 11);
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
    while let Some(heard) = capture.next_heard().unwrap() {
        let Heard::Message(message) = heard else { continue };
        if let (b"SPY     ", What::Quote { bid, ask, .. }) = (&message.symbol, message.what) {
            last = Some((bid, ask));
        }
    }
    let record = &replay.items[id.0 as usize].record;
    assert_eq!(Some((record.bid.price, record.ask.price)), last);
    assert!(replay.items.len() > 7_000, "every symbol has a record");
    assert!(!replay.offers(id, Model::ByPrice), "this feed has no levels");
    assert_eq!((replay.unread(), replay.remarks()), (None, None));
}

#[test]
fn time_is_scaled_and_the_end_begins_anew() {
    let Some(path) = data("TOPS16.pcapng.gz") else { return };
    let config = ReplayConfig { pace: ReplaySpeed::Scaled(1_000_000.0), ..ReplayConfig::default() };
    let mut replay = CaptureReplay::open(&path, config).unwrap();
    let id = replay.find("SPY.IEX").unwrap();
    for unknown in ["SPY.DEEP", "TOOLONGNAME.IEX", "NOSUCH.IEX", ".IEX"] {
        assert!(replay.find(unknown).is_none(), "{unknown}");
    }
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

fn field(body: &[u8], id: i16) -> Option<String> {
    let list = FieldList::decode(body, &SetScope::default()).unwrap();
    let entry = list.entries().map(Result::unwrap).find(|e| e.fid == id)?;
    Some(match entry.value(rwf::DataType::REAL) {
        Ok(rwf::Primitive::Real(real)) => format!("{}", real.to_f64()),
        _ => "blank".to_owned(),
    })
}

/// The feed's day as the specification counts it, worked out by another decoder: no odd lots and no trades out of hours in the prices,
/// broken trades gone.
#[test]
fn the_day_is_made_of_the_trades_that_count() {
    use crate::fields as fid;
    let Some(path) = data("TOPS16.pcapng.gz") else { return };
    let mut replay = CaptureReplay::open(&path, unpaced()).unwrap();
    let ids = ["ZXIET.IEX", "ZEXIT.IEX", "ZIEXT.IEX", "AAPL.IEX"].map(|name| replay.find(name).unwrap());
    replay.watch(ids[0], Model::Price, true);
    while !replay.ended {
        replay.advance(0, 1_000, &mut |_| {});
    }
    let mut values = Vec::new();
    for id in ids {
        let mut image = Vec::new();
        replay.image(id, Model::Price, 0, &mut image);
        values.push([fid::TRDPRC_1, fid::OPEN_PRC, fid::ACVOL_1].map(|f| field(&image, f).unwrap()));
        assert_eq!(field(&image, fid::HST_CLOSE).unwrap(), "blank", "nobody knows yesterday");
    }
    let [zxiet, zexit, ziext, aapl] = &values[..] else { panic!("four") };
    assert_eq!(zxiet, &["29.95", "29.99", "68152"]);
    assert_eq!(zexit, &["10.025", "10", "60251"]);
    assert_eq!((&*ziext[1], &*ziext[2]), ("20", "65789"));
    assert_eq!((&*aapl[0], &*aapl[1]), ("148.92", "148.96"));
}

/// A consumer's levels and best quote at the end of a capture made for one fault, and the state that it was left in.
fn at_the_end(name: &str) -> Option<(String, DataState)> {
    let folder = std::env::var_os("QUOTEWAY_CASES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases"), PathBuf::from);
    let path = folder.join("2026-11/replay").join(name);
    if !path.is_file() {
        println!("no capture {}: set QUOTEWAY_CASES to test with it", path.display());
        return None;
    }
    let mut replay = CaptureReplay::open(&path, unpaced()).unwrap();
    let names: Vec<String> = replay.names().map(str::to_owned).collect();
    assert_eq!(names, ["ZIEXT.DEEP"]);
    let id = replay.find(&names[0]).unwrap();
    replay.watch(id, Model::ByPrice, true);
    let (mut told, mut state) = (BTreeMap::new(), DataState::OK);
    while !replay.ended {
        replay.advance(0, 1, &mut |event| match event.payload {
            Payload::Status => state = DataState::SUSPECT,
            Payload::NewImage => panic!("an image where nothing began anew"),
            _ => apply(&mut told, event.body),
        });
    }
    assert_eq!(replay.data_state(id, Model::ByPrice), state);
    assert_eq!(replay.remarks().is_some(), state == DataState::SUSPECT);
    assert_eq!(replay.unread().is_some(), name.starts_with("snap"), "{:?}", replay.unread());
    let levels: Vec<String> =
        told.iter().map(|(key, size)| format!("{} {size}", String::from_utf8_lossy(key))).collect();
    Some((levels.join(", "), state))
}

#[test]
fn the_book_at_the_end_of_a_feed_with_faults() {
    let whole = "100000B 100, 100100A 200, 100200A 400, 99800B 500, 99900B 300";
    for name in ["late-dup.pcap", "overlap.pcap", "members.pcap.gz"] {
        let Some((book, state)) = at_the_end(name) else { return };
        assert_eq!((book.as_str(), state), (whole, DataState::OK), "{name}");
    }
    for name in ["gap.pcap", "snap.pcap"] {
        assert_eq!(at_the_end(name).map(|(_, state)| state), Some(DataState::SUSPECT), "{name}");
    }
}

#[test]
fn a_restart_of_the_feed_leaves_no_quote() {
    let Some(path) = data("DEEP10.pcap.gz") else { return };
    let mut replay = CaptureReplay::open(&path, unpaced()).unwrap();
    let id = replay.find("MSFT.DEEP").unwrap();
    replay.watch(id, Model::Price, true);
    let mut images = 0;
    while !replay.ended {
        replay.advance(0, 100, &mut |event| {
            if event.payload == Payload::NewImage && event.instrument == id {
                images += 1;
                assert_eq!(field(event.body, crate::fields::BID).unwrap(), "blank");
                assert_eq!(field(event.body, crate::fields::ASK).unwrap(), "blank");
            }
        });
    }
    assert_eq!(images, 11);
    assert!(replay.unread().expect("the sample's last packet is cut").contains("cut off at its end"));
}
