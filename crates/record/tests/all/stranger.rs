//! A reader that was written from `docs/wire/recording.md` alone, in another language, reads the same.

use crate::{at, images, item};
use record::{Clocks, Folder, Journal, JournalConfig, Kind, Recording, compact};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Python that has `zstandard`; `None` if there is none here.
fn python() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/interop-python/bin/python");
    let has = |python: &PathBuf| {
        let output = Command::new(python).args(["-c", "import zstandard"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    [built, "python3".into()].into_iter().find(has)
}

/// Records as we read them, a line a record, as the stranger tells it.
fn ours(folder: &Path) -> String {
    let recording = Recording::open(Folder::to_read(folder)).expect("a recording");
    assert_eq!(recording.damage(), []);
    let mut cursor = recording.from_time(0);
    let mut text = String::new();
    while let Some(entry) = cursor.next().expect("it can be read") {
        let record = entry.record;
        let name = entry.item.map_or("-", |item| &item.name);
        let source = record.clocks.source.map_or("-".to_owned(), |source| source.to_string());
        let mut hex: String = record.body.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        if hex.is_empty() {
            hex.push('-');
        }
        let (wall, mono) = (record.clocks.wall, record.clocks.mono);
        let _ = writeln!(
            text,
            "{} {} {} {name} {wall} {mono} {source} {hex}",
            record.sequence, record.time, record.kind as u8
        );
    }
    text
}

fn theirs(python: &Path, folder: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stranger.py");
    let output = Command::new(python).arg(script).arg(folder).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Records of all kinds and of every way to write a column, some of them in the tail.
fn write(journal: &mut Journal<Folder>) {
    let items = ["IBM.N", "AIG.N", "BAC.N"].map(|name| journal.item(item(name)));
    let (mut volume, mut turnover) = ([0i64; 3], [0i64; 3]);
    for n in 0..3000u64 {
        let which = (n * n % 7 % 3) as usize;
        let (price, size) = (16_000 + (n * 31 % 17) as i64, 100 * (1 + n as i64 % 9));
        volume[which] += size;
        turnover[which] += price * size;
        let source = (n % 3 > 0).then_some(1_799_999_999_000_000_000 + n * 7_000_000);
        let now = n * 1_234_567 - if n > 2000 { 99_000_000 } else { 0 };
        let clocks = Clocks { source, mono: 5_000 + n * 1_234_567, ..at(now) };
        let mut fields = vec![(22, price), (25, price + 2), (30, size)];
        if n % 4 == 0 {
            fields.extend([(6, price), (178, size), (32, volume[which]), (100, turnover[which])]);
        }
        let body = match n % 50 {
            49 => (0..n as u8).collect(),
            48 => Vec::new(),
            47 => images::refresh(&fields),
            _ => images::update(&fields),
        };
        let kind = match n % 50 {
            49 => Kind::ALL[(n / 50 % 8) as usize],
            47 => Kind::Refresh,
            _ => Kind::Update,
        };
        journal.append(kind, items.get(which).copied().filter(|_| n % 11 > 0), clocks, &body);
        if n % 100 == 0 {
            journal.sync(clocks);
        }
    }
    journal.sync(at(3000 * 1_234_567));
}

#[test]
fn a_stranger_reads_what_we_read() {
    let Some(python) = python() else {
        println!("no Python with zstandard: not run");
        return;
    };
    for unpacked_bytes in [None, Some(20_000)] {
        reads_the_same(&python, unpacked_bytes);
    }
}

fn reads_the_same(python: &Path, unpacked_bytes: Option<usize>) {
    let folder = tempfile::tempdir().expect("a folder");
    let small = JournalConfig { block_records: 700, slice_records: 100, ..JournalConfig::default() };
    let segment_bytes = if unpacked_bytes.is_some() { 120_000 } else { 12_000 };
    let config = JournalConfig { segment_bytes, unpacked_bytes, ..small };
    let store = Folder::to_write(folder.path()).expect("it can be written");
    let mut journal = Journal::open(store, config, &mut Vec::new()).expect("it is empty");
    write(&mut journal);
    let read = ours(folder.path());
    assert_eq!(read.lines().count(), 3001, "3,000 and the clock that was set back");
    assert!(theirs(python, folder.path()) == read, "an open recording is read otherwise");
    journal.end();
    drop(journal);
    assert!(theirs(python, folder.path()) == read, "a finished recording is read otherwise");
    compact(Folder::to_write(folder.path()).expect("nobody has it"), |_| {}).expect("it can be written");
    assert!(
        ours(folder.path()) == read && theirs(python, folder.path()) == read,
        "a compacted recording is read otherwise"
    );
}
