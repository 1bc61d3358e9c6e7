//! What a recording costs: updates written, read, played, and images at times, each a second of one thread; and what a serving thread waits for
//! the hand-over of an update to the writing thread.
//!
//! `cargo bench -p record --bench write` prints them, `-- 20 10000` of 20 million updates of 10,000 items in place of 2 of 1,000, `-- 20 10000 /a/folder` keeps the
//! recording there and the next time reads what is there, `long` has a number of 18 digits in each update, which makes it 74 bytes. The updates are quotes as a
//! feed has them: two prices, their sizes, a volume and a time in milliseconds. Two million of them are made, and recorded again with later times where more are wanted.
//! `unpacked` writes blocks as their records came; `opaque` besides in place of updates generic messages of 74 bytes that nobody looks into, of one buffer with another number
//! each, as logs of messages are measured.
//! The writer keeps up each 40 ms, as a recorder does.

#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a benchmark reads the clock and prints")]

use record::{
    Clock, Clocks, Folder, Item, Journal, JournalConfig, Kind, Player, Recorder, RecorderConfig, Recording,
    UNPACKED_BYTES,
};
use rwf::container::FieldListEncoder;
use rwf::msg::{Domain, RefreshFlags, RefreshMsg, UpdateMsg};
use rwf::wire::Writer;
use rwf::{DataType, EncodeError, Real, State};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Updates that are made.
const MADE: u64 = 2_000_000;
/// How often what was written is made to survive the process.
const SYNC: Duration = Duration::from_millis(40);
/// Bytes of a message that nobody looks into.
const OPAQUE: usize = 74;
/// Distance of two updates, nanoseconds.
const STEP: u64 = 1_000;
/// Images that are looked up.
const IMAGES: u64 = 200;
/// Updates that are handed over to a thread, so many a turn, and a turn each so often: 100,000/s.
const HANDED: u64 = 300_000;
const A_TURN: usize = 10;
const TURN: Duration = Duration::from_micros(100);
const BEGIN: u64 = 1_795_789_800_000_000_000;

fn encode(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 4096];
    let mut w = Writer::new(&mut buf);
    write(&mut w).expect("a small message fits");
    w.into_written().to_vec()
}

/// A number that looks like any other.
const fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    n ^ (n >> 29)
}

fn fields(n: u64, items: u64, is_long: bool, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let (item, random) = (n % items, mix(n));
    let price = 10_000 + (mix(item) % 5_000) as i64 + (random % 9) as i64;
    let cents = |value: i64| Real { mantissa: value, hint: rwf::RealHint::EXPONENT_2 };
    let mut list = FieldListEncoder::begin(w)?;
    list.real(22, cents(price))?;
    list.real(25, cents(price + 1 + (random >> 8) as i64 % 3))?;
    list.uint(30, 100 * ((random >> 16) % 20))?;
    list.uint(31, 100 * ((random >> 24) % 20))?;
    list.uint(32, 1_000_000 + n / items * 300)?;
    list.uint(3855, (BEGIN + n * STEP) / 1_000_000 % 86_400_000)?;
    if is_long {
        list.raw(1080, format!("{n:018}").as_bytes())?;
    }
    list.finish()
}

fn update(n: u64, items: u64, is_long: bool) -> Vec<u8> {
    let body = encode(|w| fields(n, items, is_long, w));
    let seq_num = Some((n / items) as u32);
    encode(|w| {
        let update =
            UpdateMsg { container: DataType::FIELD_LIST, seq_num, body: &body, ..UpdateMsg::new(Domain(6), 0) };
        update.encode(w)
    })
}

fn image(n: u64, items: u64) -> Vec<u8> {
    let body = encode(|w| fields(n, items, false, w));
    let (flags, container) = (RefreshFlags::REFRESH_COMPLETE, DataType::FIELD_LIST);
    encode(|w| {
        let state = State::OPEN_OK;
        RefreshMsg { flags, container, state, body: &body, ..RefreshMsg::new(Domain(6), 0) }.encode(w)
    })
}

fn item(n: u64) -> Item {
    Item { service: "FEED".into(), domain: 6, name: format!("ITEM{n}.N").into() }
}

fn per_second(what: &str, count: u64, started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    println!("{what:<12} {:>8.3} M/s", count as f64 / seconds / 1e6);
}

/// How long hand-overs take a serving thread: each of an update with its clocks, and the flush at the end of each turn.
fn hand_over(folder: &Path, updates: &[Vec<u8>]) {
    let (recorder, _) = Recorder::start(folder, RecorderConfig::default()).expect("a folder");
    let mut handover = recorder.handover();
    let items: Vec<record::ItemId> = (0..1_000).map(|n| handover.item(&item(n))).collect();
    let mut clock = Clock::start();
    let (mut messages, mut flushes) = (Vec::with_capacity(updates.len()), Vec::with_capacity(updates.len()));
    let mut next = Instant::now();
    for (turn, batch) in updates.chunks(A_TURN).enumerate() {
        while Instant::now() < next {
            std::hint::spin_loop();
        }
        next += TURN;
        for (n, body) in batch.iter().enumerate() {
            let item = items[(turn * A_TURN + n) % items.len()];
            let started = Instant::now();
            handover.message(Kind::Update, Some(item), clock.now(), body);
            messages.push(started.elapsed());
        }
        let started = Instant::now();
        handover.flush();
        flushes.push(started.elapsed());
    }
    drop(handover);
    let counters = recorder.finish().expect("it is written");
    assert_eq!((counters.written.messages, counters.lost.messages), (updates.len() as u64, 0));
    for (what, times) in [("handed over", &mut messages), ("flushed", &mut flushes)] {
        times.sort_unstable();
        let share = times.partition_point(|time| *time <= Duration::from_micros(1)) as f64 / times.len() as f64;
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_nanos();
        let (half, most, worst) = (at(0.5), at(0.99), at(0.999));
        println!("{what:<12} {:.2} % within 1 us; 50 % {half} ns, 99 % {most} ns, 99.9 % {worst} ns", share * 100.0);
    }
}

/// Writes so many updates in the order in which they were made, or without any so many messages that are alike but for a number.
fn write(folder: &Path, updates: &[Vec<u8>], count: u64, items: u64, is_unpacked: bool) {
    let store = Folder::to_write(folder).expect("a folder");
    let config = JournalConfig { unpacked_bytes: is_unpacked.then_some(UNPACKED_BYTES), ..JournalConfig::default() };
    let mut journal = Journal::open(store, config, &mut Vec::new()).expect("a journal");
    let known: Vec<u32> = (0..items).map(|n| journal.item(item(n))).collect();
    let clocks = |n: u64| Clocks { wall: BEGIN + n * STEP, mono: n * STEP, source: None };
    for (n, known) in (0..items).zip(&known) {
        journal.append(Kind::Refresh, Some(*known), clocks(0), &image(n, items));
    }
    let (started, mut synced) = (Instant::now(), Instant::now());
    let mut opaque = [0; OPAQUE];
    for n in 0..count {
        let known = Some(known[(n % items) as usize]);
        if updates.is_empty() {
            opaque[..8].copy_from_slice(&n.to_le_bytes());
            journal.append(Kind::Generic, known, clocks(n), &opaque);
        } else {
            journal.append(Kind::Update, known, clocks(n), &updates[(n % updates.len() as u64) as usize]);
        }
        if n % 1_024 == 0 && synced.elapsed() >= SYNC {
            journal.keep_up(clocks(n));
            synced = Instant::now();
        }
    }
    journal.close().expect("it is written");
    per_second("written", count, started);
}

/// Reads everything, and plays it with the images kept up.
fn read(recording: &Recording<Folder>) {
    let started = Instant::now();
    let (mut cursor, mut read) = (recording.from_time(0), 0);
    while let Some(entry) = cursor.next().expect("it can be read") {
        black_box(entry.record.body);
        read += 1;
    }
    per_second("read", read, started);
    let started = Instant::now();
    let mut player = Player::at(recording, 0, &|_| true).expect("it can be read");
    let played = player.advance(u64::MAX, usize::MAX, &mut |_, play| _ = black_box(play)).expect("it can be read");
    per_second("played", played as u64, started);
}

/// Looks up images at times. The first look at a recording that the system has forgotten is a cold one.
fn images(recording: &Recording<Folder>, count: u64, items: u64) {
    let mut times: Vec<Duration> = Vec::new();
    for n in 0..IMAGES {
        let (item, at) = (item(mix(n) % items), BEGIN + mix(n) % (count * STEP));
        let started = Instant::now();
        black_box(recording.image_at(&item, at).expect("it can be read"));
        times.push(started.elapsed());
    }
    let first = times[0];
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    println!(
        "image at T   {:>8.3} ms (median of {IMAGES}; the first {:.3}, 99 % within {:.3})",
        at(0.5),
        first.as_secs_f64() * 1e3,
        at(0.99)
    );
}

fn all_images(recording: &Recording<Folder>, count: u64) {
    let started = Instant::now();
    for n in 0..5 {
        black_box(Player::at(recording, BEGIN + mix(n) % (count * STEP), &|_| true).expect("it can be read"));
    }
    println!("all at T     {:>8.3} ms", started.elapsed().as_secs_f64() * 1e3 / 5.0);
}

fn one_item(recording: &Recording<Folder>) {
    let started = Instant::now();
    let (mut cursor, mut records) = (recording.of_item(&item(7), 0), 0_u64);
    while let Some(entry) = cursor.next().expect("it can be read") {
        black_box(entry.record.body);
        records += 1;
    }
    println!("one item     {:>8.3} ms, {records} records", started.elapsed().as_secs_f64() * 1e3);
}

/// The `at`-th number of the command line, of those that are there.
fn argument(at: usize) -> Option<u64> {
    std::env::args().filter_map(|argument| argument.parse().ok()).nth(at)
}

fn main() {
    // A folder that is named stays, and is read as it is if there is a recording in it.
    let named: Option<PathBuf> = std::env::args().skip(1).find(|argument| argument.contains('/')).map(PathBuf::from);
    let folder =
        named.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("record-bench-{}", std::process::id())));
    let (count, items) = (argument(0).map_or(MADE, |millions| millions * 1_000_000), argument(1).unwrap_or(1_000));
    let is_there = folder.is_dir();
    let says = |word: &str| std::env::args().any(|argument| argument == word);
    let (is_long, is_opaque) = (says("long"), says("opaque"));
    let made = if is_there || is_opaque { 0 } else { count.min(MADE) };
    let updates: Vec<Vec<u8>> = (0..made).map(|n| update(n, items, is_long)).collect();
    if !is_there {
        let raw: usize = updates.iter().map(Vec::len).sum();
        let len = if is_opaque { OPAQUE as f64 } else { raw as f64 / updates.len() as f64 };
        println!("{count} messages of {len:.1} bytes, {items} items");
        write(&folder, &updates, count, items, is_opaque || says("unpacked"));
    }
    let started = Instant::now();
    let recording = Recording::open(Folder::to_read(&folder)).expect("a recording");
    println!(
        "opened       {:>8.3} ms, {:.2} bytes a record",
        started.elapsed().as_secs_f64() * 1e3,
        recording.info().bytes_a_record()
    );
    images(&recording, count, items);
    one_item(&recording);
    all_images(&recording, count);
    read(&recording);
    if named.is_some() {
        return;
    }
    std::fs::remove_dir_all(&folder).expect("it is ours");
    if is_opaque {
        return;
    }
    hand_over(&folder, &updates[..updates.len().min(HANDED as usize)]);
    std::fs::remove_dir_all(&folder).expect("it is ours");
}
