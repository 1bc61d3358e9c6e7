//! Databento files of prices, trades, figures and states, made record by record.

use std::collections::BTreeMap;

use venue::dbn::{LAST, UNDEFINED_PRICE};

use super::dbn::without_records;
use super::*;

/// A record of a length, with its head: instrument 11, a microsecond behind the one before.
struct Made(Vec<u8>);

impl Made {
    fn new(length: usize, rtype: u8, number: u64) -> Self {
        let mut bytes = vec![0; length];
        bytes[0] = (length / 4) as u8;
        bytes[1] = rtype;
        let mut made = Self(bytes);
        made.put(4, &11u32.to_le_bytes());
        made.put(8, &(1_704_110_400_000_000_000 + number * 1_000).to_le_bytes());
        made
    }

    fn put(&mut self, at: usize, value: &[u8]) {
        self.0[at..at + value.len()].copy_from_slice(value);
    }

    fn change(mut self, action: u8, side: u8, price: i64, size: u32) -> Self {
        self.put(16, &price.to_le_bytes());
        self.put(24, &size.to_le_bytes());
        self.put(28, &[action, side, LAST]);
        self
    }

    /// The pair of levels at a rank.
    fn level(mut self, rank: usize, levels: [Option<(i64, u32, u32)>; 2]) -> Self {
        for (n, level) in levels.into_iter().enumerate() {
            let (price, size, orders) = level.unwrap_or((UNDEFINED_PRICE, 0, 0));
            let at = 48 + rank * 32;
            self.put(at + n * 8, &price.to_le_bytes());
            self.put(at + 16 + n * 4, &size.to_le_bytes());
            self.put(at + 24 + n * 4, &orders.to_le_bytes());
        }
        self
    }
}

fn opened(schema: u16, records: &[Made]) -> (File, VenueReplay) {
    let mut bytes = without_records(schema);
    for record in records {
        bytes.extend(&record.0);
    }
    let file = file("made.dbn", &bytes);
    let replay = open(&file.path, config());
    (file, replay)
}

const UNIT: i64 = 1_000_000_000;

#[test]
fn ten_levels_a_side_are_a_book_by_price_after_each_event() {
    let mut random = 7u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    // By side: price in units, size and orders. A side may have more than ten levels, of which ten are told.
    let mut sides: [BTreeMap<i64, (u32, u32)>; 2] = Default::default();
    let (mut records, mut expected) = (Vec::new(), Expected::default());
    expected.push(None, None);
    for number in 0..400 {
        let side = draw(2) as usize;
        let price = if side == 0 { 100 - draw(16) as i64 } else { 101 + draw(16) as i64 };
        match draw(3) {
            0 => drop(sides[side].remove(&price)),
            _ => drop(sides[side].insert(price, (1 + draw(9) as u32, 1 + draw(3) as u32))),
        }
        let best = |side: usize| -> Vec<(i64, u32, u32)> {
            let level = |(price, (size, orders)): (&i64, &(u32, u32))| (*price * UNIT, *size, *orders);
            match side {
                0 => sides[0].iter().rev().take(10).map(level).collect(),
                _ => sides[1].iter().take(10).map(level).collect(),
            }
        };
        let (bids, asks) = (best(0), best(1));
        let mut record = Made::new(368, 0x0A, number).change(b'A', b'B', price * UNIT, 1);
        for rank in 0..10 {
            record = record.level(rank, [bids.get(rank).copied(), asks.get(rank).copied()]);
        }
        records.push(record);
        expected.levels.clear();
        for (letter, number, levels) in [('B', 1, &bids), ('A', 2, &asks)] {
            for (price, size, orders) in levels {
                let entry = (number, *price, i64::from(*size), u64::from(*orders));
                expected.levels.set(&format!("{price}{letter}"), entry);
            }
        }
        let first = |levels: &[(i64, u32, u32)]| levels.first().map(|level| (level.0, i64::from(level.1)));
        expected.push(first(&bids), first(&asks));
    }
    let (_file, mut replay) = opened(2, &records);
    let id = replay.find("ONE").expect("an item");
    assert!(replay.offers(id, Model::ByPrice) && !replay.offers(id, Model::ByOrder));
    let seen = play(&mut replay, &["ONE"], 9).remove("ONE").expect("an item");
    assert_eq!(expected.level_states, seen.level_states);
    assert_eq!((&expected.levels, expected.quotes), (&seen.levels, seen.quotes));
    assert!(seen.level_states.0.len() > 200, "{}", seen.level_states.0.len());
}

#[test]
fn trades_alone_make_a_market_price() {
    let records = [
        Made::new(48, 0x00, 0).change(b'T', b'B', 5 * UNIT, 7),
        Made::new(48, 0x00, 1).change(b'T', b'A', 4 * UNIT, 2),
        Made::new(48, 0x00, 2).change(b'T', b'N', UNDEFINED_PRICE, 2),
    ];
    let (_file, mut replay) = opened(4, &records);
    let seen = play(&mut replay, &["ONE"], 9).remove("ONE").expect("an item");
    assert_eq!((seen.trades, seen.volume), (vec![(5 * UNIT, 7), (4 * UNIT, 2)], 9));
}

#[test]
fn a_sample_of_the_best_prices_is_no_trade_and_has_the_time_of_its_end() {
    let quote = [Some((5 * UNIT, 3, 1)), Some((6 * UNIT, 4, 2))];
    let mut record = Made::new(80, 0xC3, 0).change(b'T', b'B', 5 * UNIT, 7).level(0, quote);
    let end = 1_704_110_401_000_000_000u64;
    record.put(32, &end.to_le_bytes());
    let (_file, mut replay) = opened(18, &[record]);
    assert_eq!(replay.symbols(), ["ONE", "TWO"]);
    let seen = play(&mut replay, &["ONE"], 9).remove("ONE").expect("an item");
    assert!(seen.trades.is_empty());
    assert_eq!(seen.quotes, [[None; 4], [Some(5 * UNIT), Some(3), Some(6 * UNIT), Some(4)]]);
    assert_eq!(replay.board.now(), end);
}

/// A figure, as version 3 has it or as those before.
fn statistic(is_new: bool, number: u64, kind: u16, price: i64, quantity: i32) -> Made {
    let mut made = Made::new(if is_new { 80 } else { 64 }, 0x18, number);
    made.put(32, &price.to_le_bytes());
    if is_new {
        made.put(40, &i64::from(quantity).to_le_bytes());
    } else {
        made.put(40, &quantity.to_le_bytes());
    }
    made.put(if is_new { 56 } else { 52 }, &kind.to_le_bytes());
    made
}

#[test]
fn figures_and_states_of_trading_are_values_of_the_item() {
    for is_new in [false, true] {
        let records = [
            statistic(is_new, 0, 3, 7 * UNIT, 0),
            statistic(is_new, 1, 9, UNDEFINED_PRICE, 1_234),
            statistic(is_new, 2, 17, 9 * UNIT, 0),
            statistic(is_new, 3, 18, 2 * UNIT, 0),
            statistic(is_new, 4, 13, 3 * UNIT, 0),
        ];
        let (_file, mut replay) = opened(10, &records);
        let image = image_at_end(&mut replay);
        let real = |id, decimals| real_of(&image, id, decimals).flatten();
        assert_eq!(real(fid::SETTLE, 9), Some(7 * UNIT));
        assert_eq!(real(fid::OPINT_1, 0), Some(1_234));
        assert_eq!((real(fid::UPLIMIT, 9), real(fid::LOLIMIT, 9)), (Some(9 * UNIT), Some(2 * UNIT)));
    }
    let state = |number, action: u16| {
        let mut made = Made::new(40, 0x12, number);
        made.put(24, &action.to_le_bytes());
        made.put(32, b"Y");
        made
    };
    for (action, expected) in [(7, 1), (8, 2), (10, 3), (1, 4)] {
        let (_file, mut replay) = opened(11, &[state(0, action), state(1, 14)]);
        let image = image_at_end(&mut replay);
        assert_eq!(enumeration(&image, fid::TRD_STATUS), Some(expected), "{action}");
        assert_eq!(enumeration(&image, fid::SH_SAL_RES), Some(4));
    }
}

fn image_at_end(replay: &mut VenueReplay) -> Vec<u8> {
    let _seen = play(replay, &["ONE"], 9);
    let (id, mut image) = (replay.find("ONE").expect("an item"), Vec::new());
    replay.image(id, Model::Price, 0, &mut image);
    image
}

fn enumeration(body: &[u8], id: i16) -> Option<u16> {
    let list = rwf::FieldList::decode(body, &rwf::SetScope::default()).expect("a field list");
    let field = list.entries().map(|field| field.expect("a field")).find(|field| field.fid == id)?;
    match field.value(rwf::DataType::ENUM) {
        Ok(rwf::Primitive::Enum(value)) => Some(value),
        other => panic!("{other:?}"),
    }
}
