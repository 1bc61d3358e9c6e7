//! How much is kept, and who may write.

use crate::{bodies, body, close, small, written};
use record::{Clocks, Error, Folder, Journal, JournalConfig, Kind, Memory, Recording};

#[test]
fn the_oldest_segments_go_by_size_and_by_age() {
    // Bytes are counted: heads of slices of three records would be most of them.
    let whole = JournalConfig { slice_records: 7, ..small() };
    let by_size = JournalConfig { keep_bytes: Some(6000), ..whole };
    let by_age = JournalConfig { keep_age_ns: Some(100_000_000), ..whole };
    for config in [by_size, by_age] {
        let journal = written(2000, config);
        let removed = journal.counters().removed;
        let store = close(journal);
        let bytes: usize = store.files.values().map(Vec::len).sum();
        assert!(removed > 3, "{removed}");
        assert!(bytes < 12_000, "{bytes}");
        let recording = Recording::open(store).expect("a recording");
        assert_eq!(recording.damage(), []);
        let read = bodies(&recording);
        assert_eq!(read.last(), Some(&body(1999)));
        assert!(read.len() < 2000 && read.len() > 90, "{}", read.len());
    }
}

/// Who has written anew what earlier records say removes the segments that have nothing else, and no record behind.
#[test]
fn segments_that_are_wholly_before_a_record_go() {
    let mut journal = written(500, small());
    let before = journal.next_sequence();
    journal.forget_before(before / 2);
    let (half, clocks) = (journal.counters().removed, crate::at(1_000_000));
    (500..600).for_each(|n| journal.append(Kind::Generic, None, clocks, &body(n)));
    journal.sync(clocks);
    journal.forget_before(before);
    assert!(half > 1 && journal.counters().removed > half, "{half}");
    let recording = Recording::open(close(journal)).expect("a recording");
    assert_eq!(recording.damage(), []);
    let read = bodies(&recording);
    assert_eq!(read[read.len() - 100..], (500..600).map(body).collect::<Vec<_>>());
    assert!(read.len() < 200, "{} records: one segment before them at most", read.len());
}

/// So many records, one each 10 ms; behind half of them the clock is set back by a second.
fn set_back(journal: &mut Journal<Memory>, records: u64) {
    for n in 0..records {
        let mono = 2_000_000_000 + n * 10_000_000;
        let wall = if n < records / 2 { mono } else { mono - 1_000_000_000 };
        journal.append(Kind::Generic, None, Clocks { wall, mono, source: None }, &body(n));
    }
}

#[test]
fn what_a_reader_has_still_to_read_stays_however_old_it_is() {
    let config = JournalConfig { keep_age_ns: Some(100_000_000), segment_age_ns: 50_000_000, ..small() };
    for (needed, is_left) in [(0, true), (2_000_000_000, true), (u64::MAX, false)] {
        let mut journal = Journal::open(Memory::default(), config, &mut Vec::new()).expect("memory");
        journal.keep_from(needed);
        set_back(&mut journal, 400);
        assert_eq!(journal.counters().removed == 0, is_left, "needed from {needed}");
        let recording = Recording::open(close(journal)).expect("a recording");
        assert_eq!(recording.next_sequence() - recording.segments().next().expect("one").first >= 400, is_left);
    }
}

#[test]
fn records_behind_a_clock_that_was_set_back_are_needed_as_long_as_their_time_says() {
    let config = JournalConfig { keep_age_ns: Some(100_000_000), segment_age_ns: 50_000_000, ..small() };
    let mut journal = Journal::open(Memory::default(), config, &mut Vec::new()).expect("memory");
    // The latest time before the clock was set back is 3.99 s: all that comes behind counts as of then.
    journal.keep_from(3_900_000_000);
    set_back(&mut journal, 400);
    let recording = Recording::open(close(journal)).expect("a recording");
    let mut cursor = recording.from_time(0);
    let mut from_there = 0;
    while let Some(entry) = cursor.next().expect("memory") {
        from_there += usize::from(entry.record.kind == Kind::Generic && entry.record.time >= 3_900_000_000);
    }
    assert_eq!(from_there, 200 + 10, "all since then");
}

#[test]
fn a_message_that_is_too_long_is_a_gap() {
    let mut journal = Journal::open(Memory::default(), small(), &mut Vec::new()).expect("memory");
    journal.append(Kind::Generic, None, crate::at(1), &vec![0; record::MESSAGE_MAX + 1]);
    journal.append(Kind::Generic, None, crate::at(2), &vec![0; record::MESSAGE_MAX]);
    assert_eq!(journal.counters().lost.messages, 1);
    let recording = Recording::open(close(journal)).expect("a recording");
    assert_eq!((bodies(&recording).len(), recording.info().gaps.len()), (1, 1));
}

#[test]
fn a_folder_has_one_writer() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = Folder::to_write(folder.path()).expect("nobody has it");
    assert!(matches!(Folder::to_write(folder.path()), Err(Error::Busy { .. })));
    drop(first);
    Folder::to_write(folder.path()).expect("nobody has it any more");
    let file = folder.path().join("file");
    std::fs::write(&file, "x").expect("it can be written");
    let refused = Folder::to_write(&file).expect_err("it is a file").to_string();
    assert!(refused.contains("file") && refused.contains("failed"), "{refused}");
}
