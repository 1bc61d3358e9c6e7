//! The replay against a plain re-computation of the recorded files, and its pace.

use super::*;
use crate::fields as fid;
use crate::replay::ticks::{Table, parse};
use rwf::{FieldList, Primitive, RealHint, SetScope};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;

/// The recorded data, when it is there.
fn data() -> Option<PathBuf> {
    let folder = std::env::var_os("QUOTEWAY_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let ticks = folder.join("us-equity-ticks");
    if ticks.is_dir() {
        return Some(ticks);
    }
    println!("no recorded ticks in {}: set QUOTEWAY_DATA to test with them", ticks.display());
    None
}

fn config(pace: ReplaySpeed, from_millis: u32) -> ReplayConfig {
    ReplayConfig { pace, from_millis, pause: 2 * SECOND, repeat: true }
}

fn real(body: &[u8], id: i16) -> Option<i64> {
    let list = FieldList::decode(body, &SetScope::default()).unwrap();
    let entry = list.entries().map(Result::unwrap).find(|e| e.fid == id)?;
    match entry.value(rwf::DataType::REAL).unwrap() {
        // Prices in ten-thousandths, sizes as they are.
        Primitive::Real(real) if real.hint == RealHint::EXPONENT0 => Some(real.mantissa),
        Primitive::Real(real) => Some((real.to_f64() * 10_000.0).round() as i64),
        _ => None,
    }
}

/// What a file says, read in the plainest way: time, kind, price, size.
fn plain_rows(path: &Path, table: Table) -> Vec<Tick> {
    let mut archive = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut text = Vec::new();
    archive.by_index(0).unwrap().read_to_end(&mut text).unwrap();
    BufReader::new(&text[..]).split(b'\n').filter_map(|line| parse(table, &line.unwrap())).collect()
}

#[test]
fn every_quote_and_trade_of_a_symbol_comes_in_recorded_order() {
    let Some(folder) = data() else { return };
    // The plain computation: both files, merged by time (quotes first, as the files are ordered), best quote by replacement.
    let quotes = plain_rows(&folder.join("ibm_20131007_quote.zip"), Table::Quotes);
    let trades = plain_rows(&folder.join("ibm_20131007_trade.zip"), Table::Trades);
    let mut merged: Vec<(u32, u8, usize, Tick)> = Vec::new();
    merged.extend(quotes.iter().enumerate().map(|(n, t)| (t.millis, 0, n, *t)));
    merged.extend(trades.iter().enumerate().map(|(n, t)| (t.millis, 1, n, *t)));
    merged.sort_by_key(|(millis, table, n, _)| (*millis, *table, *n));
    let mut expected_trades = Vec::new();
    let (mut bid, mut ask, mut last, mut volume) = ((0, 0), (0, 0), (0, 0), 0i64);
    for (.., tick) in &merged {
        match tick.what {
            What::Bid { price, size } => bid = (price, i64::from(size)),
            What::Ask { price, size } => ask = (price, i64::from(size)),
            What::Trade { price, size, counts } => {
                if counts == Counts::All {
                    last = (price, i64::from(size));
                }
                if matches!(counts, Counts::All | Counts::Volume) {
                    volume += i64::from(size);
                }
                if counts != Counts::Nothing {
                    let (price, size) = if last.0 == 0 { (None, 0) } else { (Some(last.0), last.1) };
                    expected_trades.push((price, size, volume));
                }
            }
        }
    }

    let mut replay = TickReplay::open(&folder, config(ReplaySpeed::Unpaced, 0), &mut |_| {}).unwrap().unwrap();
    let id = replay.find("IBM.N").unwrap();
    replay.watch(id, Model::Price, true);
    let mut told_trades = Vec::new();
    let (mut told_bid, mut told_ask) = ((0, 0), (0, 0));
    let mut updates = 0u64;
    let mut over = false;
    while !over {
        replay.advance(0, 1_000, &mut |event| {
            assert_eq!(event.instrument, id);
            over |= event.payload == Payload::NewImage;
            if over {
                return;
            }
            updates += 1;
            match event.payload {
                Payload::Update(UpdateKind::Trade) => {
                    let get = |f| real(event.body, f).unwrap();
                    told_trades.push((real(event.body, fid::TRDPRC_1), get(fid::TRDVOL_1), get(fid::ACVOL_1)));
                }
                Payload::Update(_) => {
                    if let Some(price) = real(event.body, fid::BID) {
                        told_bid = (price, real(event.body, fid::BIDSIZE).unwrap());
                    }
                    if let Some(price) = real(event.body, fid::ASK) {
                        told_ask = (price, real(event.body, fid::ASKSIZE).unwrap());
                    }
                }
                Payload::NewImage | Payload::ImagePart { .. } | Payload::Typed(_) | Payload::Status => {}
            }
        });
    }
    assert!(told_trades == expected_trades, "{} trades, {} expected", told_trades.len(), expected_trades.len());
    assert_eq!((told_bid, told_ask), (bid, ask), "the last quote of the day");
    assert!(updates > 50_000, "{updates} updates");
    let counters = replay.counters();
    assert_eq!(counters.failed, 0);
    assert!(counters.skipped < 2_000, "{counters:?}");
}

#[test]
fn during_the_session_the_best_quote_is_hardly_ever_crossed() {
    let Some(folder) = data() else { return };
    let mut replay = TickReplay::open(&folder, config(ReplaySpeed::Unpaced, 34_200_000), &mut |_| {}).unwrap().unwrap();
    let ids: Vec<InstrumentId> = ["AIG.N", "BAC.N", "IBM.N"].iter().map(|n| replay.find(n).unwrap()).collect();
    for &id in &ids {
        replay.watch(id, Model::Price, true);
    }
    let (mut quotes, mut crossed) = (0u32, 0u32);
    for _ in 0..100 {
        replay.advance(0, 500, &mut |_| {});
        for &id in &ids {
            let record = replay.record(id);
            quotes += 1;
            crossed += u32::from(record.bid.price > record.ask.price);
        }
    }
    assert!(crossed * 50 < quotes, "{crossed} of {quotes}");
}

#[test]
fn the_names_are_those_of_the_files_and_an_image_is_complete_at_once() {
    let Some(folder) = data() else { return };
    let mut heard = Vec::new();
    let mut progress = |line: &str| heard.push(line.to_owned());
    let mut replay = TickReplay::open(&folder, ReplayConfig::default(), &mut progress).unwrap().unwrap();
    assert_eq!(replay.names().collect::<Vec<_>>(), ["AIG.N", "BAC.N", "IBM.N", "SPY.P"]);
    assert!(heard[0].contains("IBM.N") && heard[0].contains('7'), "{heard:?}");
    assert_eq!(replay.find("MSFT.O"), None);
    // Half a minute before the opening there have been quotes and trades already.
    let id = replay.find("IBM.N").unwrap();
    let mut image = Vec::new();
    replay.image(id, Model::Price, 0, &mut image);
    let get = |f| real(&image, f).unwrap();
    assert!((1_700_000..1_900_000).contains(&get(fid::BID)) && get(fid::ACVOL_1) > 0);
    assert!(replay.due().unwrap() < 10 * SECOND, "the next row is soon due");
}

/// A directory of small recorded files, made here.
struct Recording {
    folder: PathBuf,
}

impl Recording {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        Self::packed(name, files, zip::CompressionMethod::Deflated)
    }

    fn packed(name: &str, files: &[(&str, &str)], method: zip::CompressionMethod) -> Self {
        let folder = std::env::temp_dir().join(format!("quoteway-replay-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, rows) in files {
            let mut zip = zip::ZipWriter::new(std::fs::File::create(folder.join(name)).unwrap());
            let options = zip::write::SimpleFileOptions::default().compression_method(method);
            // Parts of a file are separated by an empty line.
            for (n, rows) in rows.split("\n\n").enumerate() {
                zip.start_file(format!("rows-{n}.csv"), options).unwrap();
                zip.write_all(rows.as_bytes()).unwrap();
            }
            zip.finish().unwrap();
        }
        Self { folder }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

const QUOTES: &str = "1000,100000,100,0,0,N,1,0\n1000,0,0,100200,300,Q,1,0\n1500,100100,200,0,0,P,1,0\n1500,0,0,100200,300,Q,1,0\n\
                      3000,100100,200,0,0,P,1,0\nnonsense\n3000,0,0,100200,300,Q,1,1\n";
const TRADES: &str = "1500,100200,50,Q,0,0\n2000,100100,70,N,0,0\n";

fn told(replay: &mut TickReplay, now: Nanos) -> Vec<(Payload, Option<i64>, Option<i64>)> {
    let mut told = Vec::new();
    replay.advance(now, 100, &mut |e| told.push((e.payload, real(e.body, fid::BID), real(e.body, fid::TRDPRC_1))));
    told
}

const QUOTE: Payload = Payload::Update(UpdateKind::Quote);
const TRADE: Payload = Payload::Update(UpdateKind::Trade);

#[test]
fn time_passes_as_it_is_scaled_and_a_new_session_follows() {
    let recording = Recording::new("paced", &[("xyz_20131007_quote.zip", QUOTES), ("xyz_20131007_trade.zip", TRADES)]);
    let open = config(ReplaySpeed::Scaled(2.0), 1_000);
    let mut replay = TickReplay::open(&recording.folder, open, &mut |_| {}).unwrap().unwrap();
    let id = replay.find("XYZ.N").unwrap();
    replay.watch(id, Model::Price, true);
    assert_eq!(replay.due(), Some(0));
    // A bid and an ask of one millisecond are one quote.
    assert_eq!(told(&mut replay, 0), [(QUOTE, Some(100_000), None)]);
    assert_eq!(replay.due(), Some(SECOND / 4), "half a recorded second later, at double speed");
    assert_eq!(told(&mut replay, SECOND / 4), [(QUOTE, Some(100_100), None), (TRADE, None, Some(100_200))]);
    assert_eq!(told(&mut replay, SECOND / 2 - 1), []);
    assert_eq!(told(&mut replay, SECOND / 2), [(TRADE, None, Some(100_100))]);
    // The last row says what is known; the suspicious one and the nonsense are left out.
    assert_eq!(told(&mut replay, SECOND), []);
    let counters = replay.counters();
    assert_eq!((counters.rows, counters.unchanged, counters.skipped), (7, 1, 2));
    // After the pause everything begins again: a new image first.
    assert_eq!(replay.due(), Some(3 * SECOND));
    let again = told(&mut replay, 3 * SECOND);
    assert_eq!((again[0].0, again[1]), (Payload::NewImage, (QUOTE, Some(100_000), None)));
    assert_eq!(replay.record(id).close, 100_100, "yesterday's last trade");
    assert_eq!((replay.record(id).trades, replay.counters().sessions), (0, 1));
}

#[test]
fn what_was_before_the_beginning_is_taken_in_silently() {
    let recording = Recording::new("from", &[("xyz_20131007_quote.zip", QUOTES), ("xyz_20131007_trade.zip", TRADES)]);
    let mut replay =
        TickReplay::open(&recording.folder, config(ReplaySpeed::Scaled(1.0), 2_000), &mut |_| {}).unwrap().unwrap();
    let id = replay.find("XYZ.N").unwrap();
    assert_eq!((replay.record(id).bid.price, replay.record(id).trades), (100_100, 1));
    replay.watch(id, Model::Price, true);
    assert_eq!(told(&mut replay, 0), [(TRADE, None, Some(100_100))]);
}

#[test]
fn a_folder_without_ticks_is_none_and_a_broken_file_says_which() {
    let empty = Recording::new("empty", &[]);
    assert!(TickReplay::open(&empty.folder, ReplayConfig::default(), &mut |_| {}).unwrap().is_none());
    let broken = Recording::new("broken", &[]);
    std::fs::write(broken.folder.join("abc_20131007_quote.zip"), b"no zip").unwrap();
    let error = TickReplay::open(&broken.folder, ReplayConfig::default(), &mut |_| {}).err().unwrap();
    assert!(error.to_string().contains("abc_20131007_quote.zip"), "{error}");
}

#[test]
fn zips_of_several_stored_files_are_read_whole_and_damage_is_told() {
    let rows =
        "1000,100000,100,0,0,N,1,0\n1000,0,0,100200,300,Q,1,0\n\n1500,100100,200,0,0,P,1,0\n1500,0,0,100200,300,Q,1,0";
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        let recording = Recording::packed(&format!("{method}"), &[("xyz_20131007_quote.zip", rows)], method);
        let open = |folder: &Path| TickReplay::open(folder, config(ReplaySpeed::Unpaced, 0), &mut |_| {});
        let mut replay = open(&recording.folder).unwrap().unwrap();
        let id = replay.find("XYZ.N").unwrap();
        replay.watch(id, Model::Price, true);
        assert_eq!(told(&mut replay, 0)[..2], [(QUOTE, Some(100_000), None), (QUOTE, Some(100_100), None)]);
        assert_eq!((replay.counters().skipped, replay.unread()), (0, None));

        let path = recording.folder.join("xyz_20131007_quote.zip");
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(6).position(|w| w == b"rows-1").unwrap() + 12;
        bytes[at] ^= 0x10;
        std::fs::write(&path, &bytes).unwrap();
        let mut replay = open(&recording.folder).unwrap().unwrap();
        replay.watch(id, Model::Price, true);
        let _ = told(&mut replay, 0);
        let unread = replay.unread().expect("a trouble");
        assert!(unread.contains("xyz_20131007_quote.zip") && unread.contains("rows-1.csv"), "{unread}");
    }
}

#[test]
fn days_follow_each_other_by_the_clock_of_their_dates() {
    let open = 34_200_000;
    let row = format!("{open},100000,100,0,0,N,1,0\n{open},0,0,100200,300,Q,1,0\n");
    let files = ["20181102", "20181105", "20181106"].map(|date| format!("xyz_{date}_quote.zip"));
    let recording = Recording::new("days", &files.each_ref().map(|name| (name.as_str(), row.as_str())));
    let mut heard = String::new();
    let config = ReplayConfig { pause: 0, repeat: false, ..config(ReplaySpeed::Scaled(1.0), open) };
    let mut replay = TickReplay::open(&recording.folder, config, &mut |line| heard = line.to_owned()).unwrap().unwrap();
    assert!(heard.contains("3 days: 20181102, 20181105, 20181106"), "{heard}");
    let id = replay.find("XYZ.O").unwrap();
    replay.watch(id, Model::Price, true);
    let mut times = Vec::new();
    for _ in 0..10 {
        replay.advance(0, 1, &mut |event| {
            if event.payload == QUOTE {
                let list = FieldList::decode(event.body, &SetScope::default()).unwrap();
                let entry = list.entries().map(Result::unwrap).find(|e| e.fid == fid::QUOTIM_MS).unwrap();
                let Ok(Primitive::UInt(millis)) = entry.value(rwf::DataType::UINT) else { panic!("no time") };
                times.push(millis);
            }
        });
    }
    // 13:30, and after the clock was set back on the 4th of November 14:30.
    assert_eq!(times, [48_600_000, 52_200_000, 52_200_000]);
    assert_eq!(replay.due(), None, "all days were played");
}

#[test]
fn shares_that_people_know_are_named_by_their_listing() {
    for (symbol, name) in [
        ("MSFT", "MSFT.O"),
        ("SPY", "SPY.P"),
        ("IBM", "IBM.N"),
        ("NVDA", "NVDA.O"),
        ("XYZ", "XYZ.N"),
        ("VOD", "VOD.N"),
        ("7203", "7203.N"),
    ] {
        assert_eq!(super::ric_of(symbol), name);
    }
}
