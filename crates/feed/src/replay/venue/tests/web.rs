//! Recorded connections to venues on the web: those that were recorded, where they are at hand, and made ones.

use std::collections::BTreeMap;

use rwf::{DataType, FieldList, Map, MapAction, Primitive, Real, SetScope};

use super::*;
use crate::InstrumentId;

/// A real of a field list; `None`: blank or absent.
fn real(body: &[u8], fid: i16) -> Option<Real> {
    let list = FieldList::decode(body, &SetScope::default()).expect("a field list");
    let field = list.entries().map(|field| field.expect("a field")).find(|field| field.fid == fid)?;
    match field.value(DataType::REAL).expect("a real") {
        Primitive::Real(real) => Some(real),
        _ => None,
    }
}

pub(super) fn text(body: &[u8], fid: i16) -> Option<String> {
    let list = FieldList::decode(body, &SetScope::default()).expect("a field list");
    let field = list.entries().map(|field| field.expect("a field")).find(|field| field.fid == fid)?;
    Some(String::from_utf8_lossy(field.data).into_owned())
}

/// What a consumer holds of one model: by key, price and size as they were sent.
type Kept = BTreeMap<Vec<u8>, (Option<Real>, Option<Real>)>;

#[derive(Default)]
struct Consumer {
    kept: Kept,
    bid: Option<Real>,
    ask: Option<Real>,
    trades: Vec<(Option<Real>, Option<Real>, Option<String>)>,
    /// Each change of the state once.
    states: Vec<DataState>,
}

impl Consumer {
    fn state(&mut self, state: DataState) {
        if self.states.last() != Some(&state) {
            self.states.push(state);
        }
    }

    fn take(&mut self, event: &Event<'_>) {
        match event.payload {
            Payload::Status => {
                let Ok(Msg::Status(status)) = Msg::decode(event.body) else { panic!("no status") };
                return self.state(status.state.expect("a state").data);
            }
            Payload::ImagePart { part, data, .. } => {
                self.state(data);
                if part == 0 {
                    self.kept.clear();
                    (self.bid, self.ask) = (None, None);
                }
            }
            _ => {}
        }
        if event.model == Model::Price {
            if event.payload == Payload::Update(UpdateKind::Trade) {
                let (price, size) = (real(event.body, fid::TRDPRC_1), real(event.body, fid::TRDVOL_1));
                self.trades.push((price, size, text(event.body, fid::TRADE_ID)));
            }
            let list = FieldList::decode(event.body, &SetScope::default()).expect("a field list");
            for field in list.entries().map(|field| field.expect("a field").fid) {
                match field {
                    fid::BID => self.bid = real(event.body, fid::BID),
                    fid::ASK => self.ask = real(event.body, fid::ASK),
                    _ => {}
                }
            }
            return;
        }
        let map = Map::decode(event.body, &SetScope::default()).expect("a map");
        for entry in map.entries().map(|entry| entry.expect("an entry")) {
            let key = entry.key.to_vec();
            if entry.action == MapAction::DELETE {
                assert!(self.kept.remove(&key).is_some(), "a level is deleted and was not there");
                continue;
            }
            let size = real(entry.data, fid::ACC_SIZE).or_else(|| real(entry.data, fid::ORDER_SIZE));
            let before = self.kept.insert(key, (real(entry.data, fid::ORDER_PRC), size));
            assert_eq!(before.is_some(), entry.action == MapAction::UPDATE, "{:?}", entry.action);
        }
    }
}

type Consumers = BTreeMap<(u32, u8), Consumer>;

fn image(replay: &mut VenueReplay, id: InstrumentId, model: Model) -> Consumer {
    let mut consumer = Consumer::default();
    let (mut part, mut more) = (0, true);
    while more {
        let mut body = Vec::new();
        more = replay.image(id, model, part, &mut body);
        let payload = Payload::ImagePart { part: part as u16, more, data: replay.data_state(id, model) };
        consumer.take(&Event { instrument: id, model, payload, body: &body });
        part += 1;
    }
    consumer
}

/// Watches everything, plays to the end, and holds what consumers have against the images of the end.
fn play_all(replay: &mut VenueReplay) -> Consumers {
    let mut all = Consumers::new();
    for name in replay.symbols() {
        let id = replay.find(&name).expect("an item");
        for model in replay.board.models().iter().copied() {
            replay.watch(id, model, true);
            all.insert((id.0, model as u8), image(replay, id, model));
        }
    }
    while replay.due().is_some() {
        replay.advance(0, 1_000, &mut |event| {
            all.get_mut(&(event.instrument.0, event.model as u8))
                .expect("what nobody watches is not told")
                .take(&event);
        });
    }
    for name in replay.symbols() {
        let id = replay.find(&name).expect("an item");
        for model in replay.board.models().iter().copied() {
            let (held, end) = (&all[&(id.0, model as u8)], image(replay, id, model));
            assert_eq!(held.kept, end.kept, "{name} {model:?}");
            assert_eq!((held.bid, held.ask, held.states.last()), (end.bid, end.ask, end.states.last()), "{name}");
        }
    }
    all
}

fn exact(mantissa: i64, decimals: u8) -> Option<Real> {
    match crate::fields::real(mantissa, decimals) {
        Primitive::Real(real) => Some(real),
        _ => None,
    }
}

#[test]
fn a_recorded_connection_is_suspect_until_its_book_begins_and_from_each_loss_on() {
    let lines = [
        "wss://futures.kraken.com/ws/v1 <-> 1626994927.5",
        r#"wss://futures.kraken.com/ws/v1 <- 1626994927.6: {"event":"subscribe","feed":"book","product_ids":["pi_a"]}"#,
        r#"1626994928.0: {"feed":"book_snapshot","product_id":"PI_A","timestamp":1626994927990,"seq":7,"bids":[{"price":1.5,"qty":2.0}],"asks":[{"price":2.0,"qty":1}]}"#,
        r#"1626994928.1: {"feed":"book","product_id":"PI_A","side":"sell","seq":8,"price":1.75,"qty":0.5,"timestamp":1626994928050}"#,
        r#"1626994928.2: {"feed":"trade","product_id":"PI_A","side":"buy","seq":5956,"time":1626994928190,"qty":0.25,"price":1.75}"#,
        r#"1626994928.3: {"feed":"book","product_id":"PI_A","side":"sell","seq":10,"price":1.5,"qty":0.5,"timestamp":1626994928250}"#,
        r#"1626994928.4: {"feed":"book","product_id":"PI_A","side":"sell","seq":11,"price":1.6,"qty":0.5,"timestamp":1626994928350}"#,
        r#"1626994928.5: {"feed":"book_snapshot","product_id":"PI_A","timestamp":1626994928400,"seq":12,"bids":[],"asks":[{"price":1.6,"qty":3}]}"#,
        "what is this",
    ];
    let file = file("lines", lines.join("\n").as_bytes());
    let mut replay = open(&file.path, config());
    assert_eq!((replay.file(), replay.symbols()), (VenueFile::Web(WebKind::KrakenFutures), vec!["PI_A".to_owned()]));
    let all = play_all(&mut replay);
    let id = replay.find("PI_A").expect("an item");
    let (price, levels) = (&all[&(id.0, Model::Price as u8)], &all[&(id.0, Model::ByPrice as u8)]);
    let states = [DataState::SUSPECT, DataState::OK, DataState::SUSPECT, DataState::OK];
    assert_eq!((&price.states[..], &levels.states[..]), (&states[..], &states[..]));
    assert_eq!(price.trades, [(exact(175, 2), exact(25, 2), Some("5956".to_owned()))]);
    assert_eq!((price.bid, price.ask), (None, exact(160, 2)));
    let keys: Vec<&[u8]> = levels.kept.keys().map(Vec::as_slice).collect();
    assert_eq!((keys, levels.kept[&b"160A"[..]].1), (vec![&b"160A"[..]], exact(3, 0)));
    assert!(!replay.offers(id, Model::ByOrder));
    let remarks = replay.remarks().expect("remarks");
    assert!(remarks.contains("gaps: 1") && remarks.contains("lines of another kind: 1"), "{remarks}");
}

#[test]
fn recordings_are_played_and_what_consumers_keep_is_the_last_image() {
    let folder = std::env::var_os("QUOTEWAY_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let folder = folder.join("crypto-ws");
    // Items, those that are good at the end, trades.
    for (name, kind, expected) in [
        ("KRAKEN.ws.50.0.gz", WebKind::Kraken, (10, 10, 0)),
        ("COINBASE.ws.28.0.gz", WebKind::Coinbase, (10, 10, 97)),
        ("BITMEX.ws.1.0.gz", WebKind::Bitmex, (10, 10, 17)),
        ("KRAKEN_FUTURES.ws.1.0.gz", WebKind::KrakenFutures, (10, 10, 3)),
        ("BITSTAMP.ws.1.0.gz", WebKind::Bitstamp, (10, 0, 10)),
        ("INDEPENDENT_RESERVE.ws.1.0.gz", WebKind::IndependentReserve, (32, 5, 0)),
    ] {
        let path = folder.join(name);
        if !path.is_file() {
            println!("no recording {}: set QUOTEWAY_DATA to test with it", path.display());
            continue;
        }
        let beside = name.starts_with("IND").then(|| folder.join("INDEPENDENT_RESERVE.http.0.0.gz"));
        let mut replay = open(&path, VenueConfig { beside, ..config() });
        assert_eq!(replay.file(), VenueFile::Web(kind));
        let all = play_all(&mut replay);
        let prices = || all.iter().filter(|((_, model), _)| *model == Model::Price as u8).map(|(_, seen)| seen);
        let good = prices().filter(|seen| seen.states.last() == Some(&DataState::OK)).count();
        let trades: usize = prices().map(|seen| seen.trades.len()).sum();
        assert_eq!((prices().count(), good, trades), expected, "{name}: {:?}", replay.remarks());
        assert_eq!(replay.unread(), None);
    }
}
