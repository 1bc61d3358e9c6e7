//! A recording that is looked at while it is written.

use crate::small;
use record::{Clocks, Folder, Item, Journal, Kind, Recording};

const START: u64 = 1_800_000_000_000_000_000;

/// Sequence numbers and bodies from a number on.
fn behind(recording: &Recording<Folder>, from: u64) -> Vec<(u64, Vec<u8>)> {
    let mut cursor = recording.from_sequence(from);
    let mut found = Vec::new();
    while let Some(entry) = cursor.next().expect("readable") {
        found.push((entry.record.sequence, entry.record.body.to_vec()));
    }
    found
}

#[test]
fn what_is_written_since_is_seen_once_and_what_was_read_is_let_go_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut journal =
        Journal::open(Folder::to_write(folder.path()).expect("a folder"), small(), &mut Vec::new()).expect("a journal");
    let item = journal.item(Item { service: "FEED".into(), domain: 6, name: "IBM.N".into() });
    let mut written = 0_u64;
    let mut write = |journal: &mut Journal<Folder>, count: u64| {
        for _ in 0..count {
            let wall = START + written * 1_000_000;
            let clocks = Clocks { wall, mono: wall, source: None };
            journal.append(Kind::Generic, Some(item), clocks, &written.to_le_bytes());
            journal.sync(clocks);
            written += 1;
        }
        written
    };
    write(&mut journal, 1);
    let mut recording = Recording::open(Folder::to_read(folder.path())).expect("a recording");
    let id = recording.id();
    let mut next = 0;
    let mut seen = 0_u64;
    // Some within a tail, some in blocks, some in other segments.
    for count in [1, 1, 3, 40, 2, 150, 1, 400] {
        let all = write(&mut journal, count);
        recording.look_again(next).expect("readable");
        let found = behind(&recording, next);
        for (sequence, body) in &found {
            assert_eq!((*sequence, body.as_slice()), (seen, &seen.to_le_bytes()[..]));
            seen += 1;
        }
        assert_eq!((seen, recording.next_sequence()), (all, all));
        next = seen;
        assert_eq!(behind(&recording, next), []);
    }
    assert_eq!(recording.id(), id);
    assert!(Recording::open(Folder::to_read(folder.path())).expect("a recording").info().segments > 2);
    recording.look_again(next).expect("readable");
    assert!(recording.info().segments <= 2, "{:?}", recording.info());
    // In the middle of a block.
    assert_eq!(behind(&recording, next - 2).len(), 2);
    journal.end();
    recording.look_again(next).expect("readable");
    assert!(!recording.info().is_open);
    assert_eq!(recording.next_sequence(), seen);
}
