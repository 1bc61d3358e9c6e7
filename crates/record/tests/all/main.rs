//! Recordings are written and read, by themselves and after everything that can happen to files.

mod damage;
mod follow;
mod hostile;
mod images;
mod killed;
mod limits;
mod merge;
mod play;
mod round;
mod size;
mod stranger;
mod threads;
mod unpacked;

use record::{Clocks, Item, Journal, JournalConfig, Kind, Memory, Recording};

/// Small pieces, so that a few records fill several.
pub(crate) fn small() -> JournalConfig {
    JournalConfig { block_records: 7, slice_records: 3, segment_bytes: 1500, ..JournalConfig::default() }
}

pub(crate) fn item(name: &str) -> Item {
    Item { service: "FEED".into(), domain: 6, name: name.into() }
}

/// The clocks of a moment: wall clock and monotonic clock go alike.
pub(crate) fn at(nanos: u64) -> Clocks {
    Clocks { wall: 1_800_000_000_000_000_000 + nanos, mono: 5_000 + nanos, source: None }
}

/// A record as it was given or read: kind, item, clocks, body.
pub(crate) type Plain = (Kind, Option<String>, Clocks, Vec<u8>);

/// All records of a recording.
pub(crate) fn read_all(recording: &Recording<Memory>) -> Vec<Plain> {
    let mut cursor = recording.from_time(0);
    let mut all = Vec::new();
    while let Some(entry) = cursor.next().expect("memory can be read") {
        let record = entry.record;
        all.push((record.kind, entry.item.map(|item| item.name.to_string()), record.clocks, record.body.to_vec()));
    }
    all
}

/// Bodies of a recording, without its gaps.
pub(crate) fn bodies(recording: &Recording<Memory>) -> Vec<Vec<u8>> {
    read_all(recording).into_iter().filter(|(kind, ..)| *kind != Kind::Gap).map(|(.., body)| body).collect()
}

/// A closed recording of so many updates of two items, one a millisecond.
pub(crate) fn recorded(count: u64, config: JournalConfig) -> Memory {
    close(written(count, config))
}

/// The files of a journal that was closed.
pub(crate) fn close(mut journal: Journal<Memory>) -> Memory {
    journal.end();
    assert_eq!(journal.trouble(), None);
    journal.store().clone()
}

/// An open recording of so many updates, the last of which are in its tail.
pub(crate) fn written(count: u64, config: JournalConfig) -> Journal<Memory> {
    let mut journal = Journal::open(Memory::default(), config, &mut Vec::new()).expect("memory");
    let items = [journal.item(item("IBM.N")), journal.item(item("AIG.N"))];
    for n in 0..count {
        journal.append(Kind::Update, Some(items[n as usize % 2]), at(n * 1_000_000), &body(n));
        if n % 5 == 4 {
            journal.sync(at(n * 1_000_000));
        }
    }
    journal.sync(at(count * 1_000_000));
    journal
}

/// An update that tells its number.
pub(crate) fn body(n: u64) -> Vec<u8> {
    images::update(&[(22, n as i64), (25, 3 * n as i64)])
}
