//! Statistics of the generated market, and its determinism.

use super::*;
use crate::fields::{self as fid};
use crate::session::DAY;
use std::collections::HashMap;

/// 10:00 UTC on a working day.
const STARTED_AT: Nanos = 20_000 * DAY + 36_000 * SECOND;

fn generator(seed: u64) -> Generator {
    Generator::new(GeneratorConfig { seed, rate: 1.0, calendar: Calendar::new(STARTED_AT) })
}

fn calendar(first_open: i64, session: Nanos, pause: Nanos) -> Calendar {
    Calendar { started_at: STARTED_AT, first_open, session, pause }
}

/// An event as a test keeps it.
struct KeptEvent {
    instrument: InstrumentId,
    model: Model,
    payload: Payload,
    body: Vec<u8>,
}

fn run(generator: &mut Generator, until: Nanos, step: Nanos) -> Vec<(Nanos, KeptEvent)> {
    let mut told = Vec::new();
    let mut now = generator.now;
    while now < until {
        now = (now + step).min(until);
        generator.advance(now, usize::MAX, &mut |e| {
            let event =
                KeptEvent { instrument: e.instrument, model: e.model, payload: e.payload, body: e.body.to_vec() };
            told.push((now, event));
        });
    }
    told
}

/// The fields of a field list: id to value bytes.
fn fields(body: &[u8]) -> HashMap<i16, Vec<u8>> {
    let count = u16::from_be_bytes([body[1], body[2]]);
    let mut at = 3;
    (0..count)
        .map(|_| {
            let id = i16::from_be_bytes([body[at], body[at + 1]]);
            let len = body[at + 2] as usize;
            at += 3 + len;
            (id, body[at - len..at].to_vec())
        })
        .collect()
}

fn real(value: &[u8]) -> f64 {
    let negative = value[1] & 0x80 != 0;
    let mantissa = value[1..].iter().fold(if negative { -1i64 } else { 0 }, |m, &b| (m << 8) | i64::from(b));
    mantissa as f64 / 10f64.powi(14 - i32::from(value[0]))
}

fn watch_all(generator: &mut Generator, names: &[&str]) -> Vec<InstrumentId> {
    names
        .iter()
        .map(|name| {
            let id = generator.find(name).unwrap();
            generator.watch(id, Model::Price, true);
            id
        })
        .collect()
}

#[test]
fn the_same_seed_tells_the_same_bytes_however_often_it_is_asked() {
    let told = |step| {
        let mut g = generator(5);
        watch_all(&mut g, &["IBM.N", "TRI.N", "EUR=", ".DJI", "RDT7"]);
        run(&mut g, 60 * SECOND, step).into_iter().map(|(_, t)| (t.instrument, t.body)).collect::<Vec<_>>()
    };
    let reference = told(SECOND);
    assert!(reference.len() > 500, "{}", reference.len());
    assert_eq!(reference, told(SECOND / 1_000));
    let mut other = generator(6);
    watch_all(&mut other, &["IBM.N", "TRI.N", "EUR=", ".DJI", "RDT7"]);
    assert_ne!(reference.len(), run(&mut other, 60 * SECOND, SECOND).len());
}

#[test]
fn an_image_has_the_fields_of_a_real_one_and_they_agree_with_each_other() {
    let mut g = generator(1);
    for name in ["IBM.N", "VOD.L", "7203.T", "RDT17", "BRKa.N"] {
        let id = g.find(name).unwrap();
        let mut body = Vec::new();
        assert!(!g.image(id, Model::Price, 0, &mut body));
        let f = fields(&body);
        assert!((30..=70).contains(&f.len()), "{name}: {} fields", f.len());
        let get = |id: i16| real(&f[&id]);
        assert!(get(fid::BID) < get(fid::ASK), "{name}");
        assert!(get(fid::LOW_1) <= get(fid::TRDPRC_1) && get(fid::TRDPRC_1) <= get(fid::HIGH_1), "{name}");
        assert!((get(fid::NETCHNG_1) - (get(fid::TRDPRC_1) - get(fid::HST_CLOSE))).abs() < 1e-6, "{name}");
        assert!(get(fid::ACVOL_1) >= get(fid::TRDVOL_1) && get(fid::NUM_MOVES) >= 1.0, "{name}");
        assert!((get(fid::BID) / get(fid::TRDPRC_1) - 1.0).abs() < 0.1, "{name}: quote and last are near each other");
    }
    let id = g.find("EUR=").unwrap();
    let mut body = Vec::new();
    g.image(id, Model::Price, 0, &mut body);
    assert!((real(&fields(&body)[&fid::BID]) - 1.087).abs() < 0.05);
}

#[test]
fn quotes_are_never_crossed_and_day_values_only_grow() {
    let mut g = generator(2);
    let ids = watch_all(&mut g, &["IBM.N", "BAC.N", "RDT1", "RDT2", "RDT3", "GBP="]);
    let mut volume = HashMap::new();
    let (mut quotes, mut trades) = (0, 0);
    for _ in 0..600 {
        let until = g.now + SECOND;
        let told = run(&mut g, until, SECOND);
        for (_, event) in told {
            match event.payload {
                Payload::Update(UpdateKind::Quote) => quotes += 1,
                Payload::Update(UpdateKind::Trade) => {
                    trades += 1;
                    let f = fields(&event.body);
                    let now = real(&f[&fid::ACVOL_1]);
                    let before = volume.insert(event.instrument, now).unwrap_or(0.0);
                    assert!(now > before);
                }
                other => panic!("{other:?}"),
            }
        }
        for &id in &ids {
            let r = g.record(id);
            assert!(r.bid.price > 0 && r.bid.price < r.ask.price && r.bid.size > 0 && r.ask.size > 0, "{r:?}");
            assert!(r.trades == 0 || (r.low <= r.last[0] && r.last[0] <= r.high));
        }
    }
    let share = f64::from(trades) / f64::from(trades + quotes);
    assert!((0.05..0.30).contains(&share), "{trades} trades, {quotes} quotes");
}

#[test]
fn events_come_in_bursts() {
    let mut g = generator(3);
    let id = watch_all(&mut g, &["IBM.N"])[0];
    let mut counts = vec![0u32; 1_200];
    for (at, event) in run(&mut g, 600 * SECOND, SECOND / 2) {
        assert_eq!(event.instrument, id);
        counts[(at / (SECOND / 2)) as usize - 1] += 1;
    }
    let mean = counts.iter().sum::<u32>() as f64 / counts.len() as f64;
    let variance = counts.iter().map(|&c| (f64::from(c) - mean).powi(2)).sum::<f64>() / counts.len() as f64;
    // A Poisson process has 1; the markets have several.
    assert!(variance / mean > 2.0, "Fano factor {}", variance / mean);
    let mean_rate = mean * 2.0;
    assert!((5.0..80.0).contains(&mean_rate), "{mean_rate} events a second");
}

#[test]
fn instruments_move_together_and_by_a_plausible_amount() {
    let mut g = generator(4);
    let names: Vec<String> = (0..40).map(|n| format!("RDT{n}.N")).collect();
    let ids = watch_all(&mut g, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut returns = vec![Vec::new(); ids.len()];
    let mut last: Vec<f64> = Vec::new();
    for _ in 0..120 {
        g.advance(g.now + 30 * SECOND, usize::MAX, &mut |_| {});
        let mids: Vec<f64> = ids
            .iter()
            .map(|&id| {
                let r = g.record(id);
                (r.bid.price + r.ask.price) as f64 / 2.0
            })
            .collect();
        for (n, (now, before)) in mids.iter().zip(&last).enumerate() {
            returns[n].push((now / before).ln());
        }
        last = mids;
    }
    let deviation = |v: &[f64]| (v.iter().map(|x| x * x).sum::<f64>() / v.len() as f64).sqrt();
    let daily: Vec<f64> = returns.iter().map(|r| deviation(r) * (DAY_SECONDS / 30.0).sqrt()).collect();
    let mean_daily = daily.iter().sum::<f64>() / daily.len() as f64;
    assert!((0.005..0.12).contains(&mean_daily), "daily volatility {mean_daily}");
    let mut correlation = 0.0;
    let mut pairs = 0.0;
    for i in 0..returns.len() {
        for j in 0..i {
            let dot: f64 = returns[i].iter().zip(&returns[j]).map(|(a, b)| a * b).sum();
            correlation += dot / returns[i].len() as f64 / (deviation(&returns[i]) * deviation(&returns[j])).max(1e-12);
            pairs += 1.0;
        }
    }
    assert!(correlation / pairs > 0.03, "mean correlation {}", correlation / pairs);
}

#[test]
fn a_session_opens_with_an_auction_closes_and_begins_anew() {
    let config =
        GeneratorConfig { seed: 9, rate: 1.0, calendar: calendar(5 * SECOND as i64, 60 * SECOND, 10 * SECOND) };
    let mut g = Generator::new(config);
    let id = watch_all(&mut g, &["IBM.N"])[0];
    assert!(run(&mut g, 5 * SECOND, SECOND).is_empty(), "nothing before the opening");
    let day = run(&mut g, 65 * SECOND, SECOND);
    let first = fields(&day[0].1.body);
    assert_eq!(day[0].1.payload, Payload::Update(UpdateKind::Trade));
    assert!(first.contains_key(&fid::OPEN_PRC) && real(&first[&fid::TRDVOL_1]) > 2_000.0, "the opening auction");
    let closed_at = g.record(id).last[0];
    let after = run(&mut g, 130 * SECOND, SECOND);
    assert!(after.iter().all(|(at, _)| *at > 74 * SECOND), "nothing while the market is closed");
    assert_eq!(after[0].1.payload, Payload::NewImage);
    assert_eq!(g.record(id).close, closed_at, "yesterday's last price");
    assert!(g.record(id).trades < 2_000 && g.record(id).open > 0);
}

#[test]
fn an_unwatched_instrument_catches_up_when_it_is_asked_for() {
    let mut g = generator(1);
    let id = g.find("IBM.N").unwrap();
    let before = g.record(id).volume;
    g.advance(600 * SECOND, usize::MAX, &mut |_| panic!("nobody watches"));
    assert_eq!(g.due(), None);
    let record = g.record(id);
    assert!(record.volume > before && record.bid.price > 0);
    g.watch(id, Model::Price, true);
    assert!(!run(&mut g, 610 * SECOND, SECOND).is_empty());
    g.watch(id, Model::Price, false);
    assert!(run(&mut g, 620 * SECOND, SECOND).is_empty());
}

#[test]
fn a_limit_stops_the_clock_and_not_the_market() {
    let mut g = generator(1);
    watch_all(&mut g, &["IBM.N", "SPY.P"]);
    let whole: Vec<Vec<u8>> = run(&mut g, 30 * SECOND, 30 * SECOND).into_iter().map(|(_, t)| t.body).collect();
    let mut g = generator(1);
    watch_all(&mut g, &["IBM.N", "SPY.P"]);
    let mut pieces = Vec::new();
    while g.due().is_some_and(|at| at <= 30 * SECOND) {
        g.advance(30 * SECOND, 7, &mut |e| pieces.push(e.body.to_vec()));
    }
    assert_eq!(whole, pieces);
}

#[test]
fn books_follow_the_quotes() {
    let mut g = generator(1);
    let id = g.find("IBM.N").unwrap();
    let mut image = Vec::new();
    g.image(id, Model::ByPrice, 0, &mut image);
    assert!(!image.is_empty());
    g.watch(id, Model::ByPrice, true);
    g.watch(id, Model::ByOrder, true);
    let told = run(&mut g, 60 * SECOND, SECOND);
    let count = |model| told.iter().filter(|(_, t)| t.model == model).count();
    assert!(count(Model::ByPrice) > 100 && count(Model::ByOrder) > 100 && count(Model::Price) == 0);
    let instrument = &g.instruments[id.0 as usize];
    let book = g.depths.books.book(instrument.book.as_ref().unwrap().id());
    let best = |side| book.levels(side).next().expect("a level");
    assert_eq!(best(market::Side::Bid).price, instrument.record.bid.price);
    assert_eq!(best(market::Side::Ask).price, instrument.record.ask.price);
    assert_eq!(best(market::Side::Bid).size, instrument.record.bid.size);
}
