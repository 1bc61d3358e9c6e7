//! Captures of CME MDP 3.0 of a made exchange, by a schema of our own.

use super::lines::Lines;
use super::mdp::{Exchange, SCHEMA, Security};
use super::*;

const BEGIN: u64 = 1_577_716_200_000_000_000;
/// Groups of the capture beside the lines A (0) and B (1).
const DEFINITIONS: u8 = 2;
const SNAPSHOTS: u8 = 3;

/// What consumers of an instrument hold at the end: prices are told in as few decimals as they take, of billionths.
fn hold(seen: &Seen, state: &Security) {
    let side = |n: usize| if n == 0 { 1 } else { 2 };
    let mut levels = Held::default();
    for n in 0..2 {
        for (price, size, orders) in &state.told[n] {
            let key = format!("{price}{}", if n == 0 { 'B' } else { 'A' });
            levels.set(&key, (side(n), *price, i64::from(*size), u64::from(*orders)));
        }
    }
    assert_eq!(seen.levels.text(), levels.text());
    let mut orders = Held::default();
    for n in 0..2 {
        for (reference, _, price, size) in &state.sides[n] {
            orders.set(&reference.to_string(), (side(n), *price, i64::from(*size), 0));
        }
    }
    assert_eq!(seen.orders.text(), orders.text());
    let best = |n: usize| state.told[n].first().map(|level| (level.0, i64::from(level.1)));
    let quote = [best(0).map(|b| b.0), best(0).map(|b| b.1), best(1).map(|a| a.0), best(1).map(|a| a.1)];
    assert_eq!(seen.quote, quote);
}

fn schema() -> File {
    file("templates.xml", SCHEMA.as_bytes())
}

/// A channel of so many events, of which packets that `is_lost` names come on neither line; snapshots each 40 packets.
fn capture(exchange: &mut Exchange, first: usize, is_lost: impl Fn(usize) -> bool) -> File {
    let mut lines = Lines::new(3);
    for packet in Exchange::definitions() {
        lines.send(DEFINITIONS, BEGIN - 1_000_000, &packet);
    }
    for n in first..exchange.packets.len() {
        let at = BEGIN + n as u64 * 10_000_000;
        let packet = exchange.packets[n].clone();
        // Each line loses others, and B is later.
        for (line, later) in [(0, 0), (1, 700_000)] {
            if !is_lost(n) && (n % 7 != 3 || line == 1) && (n % 5 != 2 || n % 7 == 3 || line == 0) {
                lines.send(line, at + later, &packet);
            }
        }
        if n % 40 == 39 {
            for packet in exchange.snapshots(n + 1) {
                lines.send(SNAPSHOTS, at + 1_000_000, &packet);
            }
        }
    }
    lines.file()
}

fn exchange(seed: u64) -> Exchange {
    let mut exchange = Exchange::new(seed);
    (0..300).for_each(|_| exchange.event());
    exchange
}

const NAMES: [&str; 3] = ["ZV0", "ZV1", "ZV2"];

fn replay(file: &File, schema: &File) -> VenueReplay {
    open(&file.path, VenueConfig { schema: Some(schema.path.clone()), ..config() })
}

#[test]
fn a_channel_whose_lines_lose_apart_makes_the_exchanges_books() {
    for seed in 0..4 {
        let mut exchange = exchange(seed);
        let (file, schema) = (capture(&mut exchange, 0, |_| false), schema());
        let mut replay = replay(&file, &schema);
        assert_eq!((replay.file(), replay.symbols()), (VenueFile::Cme, NAMES.map(str::to_owned).to_vec()));
        let seen = play(&mut replay, &NAMES, 9);
        for (name, state) in NAMES.iter().zip(exchange.states.last().expect("a state")) {
            hold(&seen[*name], state);
            let states: Vec<DataState> = seen[*name].states.iter().map(|state| state.0).collect();
            assert_eq!(states, [DataState::SUSPECT, DataState::OK], "{name}");
            assert!(seen[*name].images >= 1 && seen[*name].quotes.len() > 5);
        }
        assert_eq!((replay.unread(), replay.board.models().len()), (None, 3));
        assert_eq!(replay.remarks().map(|text| text.contains("gaps")), Some(false), "{:?}", replay.remarks());
    }
}

#[test]
fn what_neither_line_brings_leaves_items_suspect_until_their_snapshot() {
    let mut exchange = exchange(9);
    let (file, schema) = (capture(&mut exchange, 0, |n| (101..104).contains(&n)), schema());
    let mut replay = replay(&file, &schema);
    let seen = play(&mut replay, &NAMES, 9);
    for (name, state) in NAMES.iter().zip(exchange.states.last().expect("a state")) {
        hold(&seen[*name], state);
        let states: Vec<DataState> = seen[*name].states.iter().map(|state| state.0).collect();
        assert_eq!(states, [DataState::SUSPECT, DataState::OK, DataState::SUSPECT, DataState::OK], "{name}");
    }
    let remarks = replay.remarks().expect("remarks");
    assert!(remarks.contains("gaps 1, repaired 0, packets that are not in the capture 3"), "{remarks}");
}

#[test]
fn a_channel_that_is_joined_within_the_day_begins_with_its_snapshots() {
    let mut exchange = exchange(5);
    let (file, schema) = (capture(&mut exchange, 60, |_| false), schema());
    let mut replay = replay(&file, &schema);
    let seen = play(&mut replay, &NAMES, 9);
    for (name, state) in NAMES.iter().zip(exchange.states.last().expect("a state")) {
        hold(&seen[*name], state);
        assert_eq!(seen[*name].states.last().map(|state| state.0), Some(DataState::OK), "{name}");
    }
}

#[test]
fn what_cannot_be_played_is_refused_with_its_reason() {
    let mut first = exchange(1);
    let (file, good) = (capture(&mut first, 0, |_| false), schema());
    let refused = |file: &File, schema: &File| {
        let config = VenueConfig { schema: Some(schema.path.clone()), ..config() };
        VenueReplay::open(&file.path, config, &mut |_| {}).map(drop).expect_err("it cannot be played").to_string()
    };
    let none = super::file("none.xml", b"<a/>");
    assert!(refused(&file, &none).contains("none.xml"), "{}", refused(&file, &none));
    // Numbers of two channels are the same, their packets are not.
    let mut lines = Lines::new(1);
    let second = exchange(2);
    for (n, packet) in first.packets.iter().enumerate().take(50) {
        lines.send(0, BEGIN + n as u64, packet);
        lines.send(1, BEGIN + n as u64, &second.packets[n]);
    }
    let text = refused(&lines.file(), &good);
    assert!(text.contains("are two channels"), "{text}");
    let mut lines = Lines::new(1);
    lines.send(0, BEGIN, b"this is of another feed altogether");
    let text = refused(&lines.file(), &good);
    assert!(text.contains("no packet in it changes a book"), "{text}");
}
