//! What is written is read, however it is cut into pieces.

use crate::{Plain, at, bodies, close, images, item, read_all, recorded, small};
use proptest::prelude::*;
use record::{Clocks, Cursor, Journal, JournalConfig, Kind, Memory, Recording, compact};

/// Event in the life of a journal.
#[derive(Debug, Clone)]
enum Act {
    Message(Kind, Option<usize>, u64, Option<u64>, Vec<u8>),
    Sync,
    End,
}

fn act() -> impl Strategy<Value = Act> {
    let kind = proptest::sample::select(Kind::ALL[..8].to_vec());
    let body = prop_oneof![
        proptest::collection::vec((20i16..24, 0i64..1 << 40), 0..6).prop_map(|fields| images::update(&fields)),
        proptest::collection::vec(any::<u8>(), 0..40),
    ];
    let item = proptest::option::of(0usize..3);
    let message = (kind, item, 0u64..1 << 36, proptest::option::of(any::<u64>()), body)
        .prop_map(|(kind, item, step, source, body)| Act::Message(kind, item, step, source, body));
    prop_oneof![30 => message, 3 => Just(Act::Sync), 1 => Just(Act::End)]
}

/// Does it all; gives the files as they are if the process is killed now, and what was written before the last synchronisation.
fn run(acts: &[Act], config: JournalConfig) -> (Journal<Memory>, Vec<Plain>, usize) {
    let mut journal = Journal::open(Memory::default(), config, &mut Vec::new()).expect("memory");
    let names = ["A", "B", "C"];
    let items = names.map(|name| journal.item(item(name)));
    let (mut given, mut safe, mut now) = (Vec::new(), 0, 0);
    for act in acts {
        match act {
            Act::Message(kind, item, step, source, body) => {
                now += step;
                let clocks = Clocks { source: *source, ..at(now) };
                journal.append(*kind, item.map(|item| items[item]), clocks, body);
                given.push((*kind, item.map(|item| names[item].to_owned()), clocks, body.clone()));
            }
            Act::Sync => {
                journal.sync(at(now));
                safe = given.len();
            }
            Act::End => {
                journal.end();
                safe = given.len();
            }
        }
    }
    (journal, given, safe)
}

/// Records as a cursor gives them, a line each.
fn told(mut cursor: Cursor<'_, Memory>) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(entry) = cursor.next().expect("memory") {
        let name = entry.item.map_or("-", |item| &item.name);
        all.push(format!("{} {name} {:?}", entry.record.sequence, entry.record));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(
        acts in proptest::collection::vec(act(), 1..120),
        block_records in 1usize..20,
        slice_records in 1usize..12,
        segment_bytes in 100u64..4000,
        age in prop_oneof![Just(u64::MAX), 1u64 << 34..1 << 40],
        unpacked_bytes in proptest::option::of(0usize..400),
    ) {
        let config = JournalConfig {
            block_records, slice_records, segment_bytes, segment_age_ns: age, unpacked_bytes, ..JournalConfig::default()
        };
        let (journal, given, safe) = run(&acts, config);
        // Killed: what was synchronised is there, and nothing that was not written.
        let killed = journal.store().clone();
        if let Ok(recording) = Recording::open(killed.clone()) {
            let read = read_all(&recording);
            prop_assert!(read.len() >= safe && read[..] == given[..read.len()], "{} read, {safe} safe, {} given", read.len(), given.len());
            let mut damage = Vec::new();
            // The next writer repairs it, and nothing is lost by that.
            let mut next = Journal::open(killed, config, &mut damage).expect("memory");
            next.end();
            let repaired = Recording::open(next.store().clone()).expect("it was one");
            prop_assert_eq!(read_all(&repaired), read);
            prop_assert_eq!(repaired.damage(), &[]);
            prop_assert!(!repaired.info().is_open);
        } else {
            prop_assert_eq!(safe, 0);
        }
        prop_assume!(!given.is_empty());
        let closed = close(journal);
        let recording = Recording::open(closed.clone()).expect("a recording");
        prop_assert_eq!(recording.damage(), &[]);
        prop_assert_eq!(&read_all(&recording), &given);
        // Of one item, from a time on: the same as among all.
        for from in [0, given[given.len() / 2].2.wall] {
            let is_meant = |line: &&String| line.contains(" B ");
            let all = told(recording.from_time(from));
            prop_assert_eq!(told(recording.of_item(&item("B"), from)), all.iter().filter(is_meant).cloned().collect::<Vec<_>>());
        }
        let info = recording.info();
        prop_assert_eq!(info.records(), given.len() as u64);
        prop_assert!((recording.rates(9).iter().sum::<f64>() - given.len() as f64).abs() < 0.01);
        // Smaller, and the same.
        let small = compact(closed, |_| {}).expect("memory");
        prop_assert_eq!(read_all(&Recording::open(small).expect("a recording")), given);
    }
}

#[test]
fn a_cursor_begins_at_a_time() {
    let recording = Recording::open(recorded(100, small())).expect("a recording");
    for from in [0, 1, 7, 50, 99, 100] {
        let mut cursor = recording.from_time(at(from * 1_000_000).wall);
        let first = cursor.next().expect("memory").map(|entry| entry.record.sequence);
        assert_eq!(first, Some(from).filter(|from| *from < 100));
    }
    assert_eq!(bodies(&recording).len(), 100);
    assert_eq!(recording.items().len(), 2);
}
