//! Files that were cut, changed, mixed up or are of others.

use crate::{at, bodies, body, close, item, recorded, small, written};
use record::{Damage, Error, GapReason, Journal, JournalConfig, Kind, Memory, Recording, Store};
use std::collections::{BTreeMap, HashMap};
use std::io;

/// A recording of one segment.
fn one_segment() -> JournalConfig {
    JournalConfig { segment_bytes: u64::MAX, ..small() }
}

const NAME: &str = "0000000001.qwr";

/// The numbers of those updates of [`body`] that were read; fails for anything else.
fn numbers(recording: &Recording<Memory>, count: u64) -> Vec<u64> {
    let all: Vec<Vec<u8>> = (0..count).map(body).collect();
    let number = |read: Vec<u8>| all.iter().position(|known| *known == read).expect("nobody has written this") as u64;
    bodies(recording).into_iter().map(number).collect()
}

#[test]
fn a_segment_that_is_cut_anywhere_is_read_up_to_there_and_repaired() {
    let store = recorded(60, one_segment());
    let whole = store.files[NAME].len();
    let mut most = 0;
    for len in 0..whole {
        let mut cut = store.clone();
        cut.truncate(NAME, len as u64).expect("memory");
        let read = match Recording::open(cut.clone()) {
            Ok(recording) => numbers(&recording, 60),
            Err(Error::Foreign { .. } | Error::Head { .. }) if len < 64 => continue,
            Err(e) => panic!("cut at {len}: {e}"),
        };
        // Whole blocks are all there; the one that is cut is not.
        assert_eq!(read, (0..read.len() as u64).collect::<Vec<_>>(), "cut at {len}");
        assert!(read.len() >= most, "cut at {len}: {} of {most}", read.len());
        most = read.len();
        let mut journal = Journal::open(cut, one_segment(), &mut Vec::new()).expect("it is repaired");
        journal.end();
        let repaired = Recording::open(journal.store().clone()).expect("it was repaired");
        assert_eq!((numbers(&repaired, 60), repaired.damage()), (read, &[][..]), "cut at {len}");
    }
    assert_eq!(most, 60);
}

#[test]
fn a_tail_that_is_cut_anywhere_is_read_up_to_there() {
    let journal = written(13, one_segment());
    let store = journal.store().clone();
    let tail = "0000000001.tail";
    let whole = store.files[tail].len();
    assert!(whole > 0);
    for len in 0..=whole {
        let mut cut = store.clone();
        cut.truncate(tail, len as u64).expect("memory");
        let read = numbers(&Recording::open(cut).expect("a recording"), 13);
        assert_eq!(read, (0..read.len() as u64).collect::<Vec<_>>());
        assert!(read.len() >= 7 && (len < whole || read.len() == 13), "cut at {len}: {read:?}");
    }
}

#[test]
fn a_changed_byte_is_noticed_and_costs_no_more_than_its_block() {
    let store = recorded(60, one_segment());
    let whole = store.files[NAME].len();
    for at in 0..whole {
        let mut changed = store.clone();
        changed.files.get_mut(NAME).expect("it is there")[at] ^= 1 << (at % 8);
        let recording = match Recording::open(changed) {
            Ok(recording) => recording,
            Err(Error::Foreign { .. } | Error::Version { .. } | Error::Head { .. }) if at < 64 => continue,
            Err(e) => panic!("byte {at}: {e}"),
        };
        let read = numbers(&recording, 60);
        assert!(read.len() >= 60 - 7 && read.is_sorted(), "byte {at}: {} are left", read.len());
        let is_told = recording.damage().iter().any(|damage| !damage.to_string().is_empty());
        let mut cursor = recording.from_time(0);
        let mut gaps = 0;
        while let Some(entry) = cursor.next().expect("memory") {
            gaps += u64::from(
                record::Gap::decode(entry.record.body)
                    .is_some_and(|gap| entry.item.is_none() && gap.reason == GapReason::Damaged),
            );
        }
        assert!(read.len() == 60 || gaps == 1, "byte {at}: {} are missing and {gaps} gaps tell it", 60 - read.len());
        assert!(is_told || gaps == 1 || read.len() == 60);
    }
}

#[test]
fn what_is_no_recording_is_refused_with_a_reason() {
    let store = recorded(9, small());
    let said = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut other = Memory::default();
        other.files.insert(NAME.into(), store.files[NAME].clone());
        change(other.files.get_mut(NAME).expect("it is there"));
        Recording::open(other).expect_err("it is wrong").to_string()
    };
    assert!(said(&|file| file[8] = 9).contains("version 9"));
    assert!(said(&|file| file[0] = b'P').contains("no segment"));
    assert!(said(&|file| file[20] ^= 1).contains("checksum"));
    assert!(said(&Vec::clear).contains("no segment"));
    assert!(Recording::open(Memory::default()).expect_err("empty").to_string().contains("no segment"));
}

/// Who reads an earlier version may be of that version: what its writer left without an end gets that version's.
#[test]
fn a_segment_of_an_earlier_version_is_read_and_ended_in_it() {
    let store = recorded(60, one_segment());
    let file = &store.files[NAME];
    let index = u64::from_le_bytes(*file.last_chunk().expect("it has an end")) as usize;
    let as_of = |version: u8| {
        let mut earlier = store.clone();
        let file = earlier.files.get_mut(NAME).expect("it is there");
        file.truncate(index);
        file[8] = version;
        let check = crc32fast::hash(&file[..60]);
        file[60..64].copy_from_slice(&check.to_le_bytes());
        earlier
    };
    let ended = |version: u8| {
        let earlier = as_of(version);
        assert_eq!(numbers(&Recording::open(earlier.clone()).expect("a recording"), 60).len(), 60);
        let mut journal = Journal::open(earlier, one_segment(), &mut Vec::new()).expect("it is repaired");
        journal.end();
        let recording = Recording::open(journal.store().clone()).expect("a recording");
        assert_eq!((numbers(&recording, 60).len(), recording.damage(), recording.info().is_open), (60, &[][..], false));
        let items: Vec<_> = recording.items().into_iter().cloned().collect();
        for item in &items {
            let mut own = recording.of_item(item, 0);
            assert!(own.next().expect("memory").is_some(), "{item:?} is in the index");
        }
        let file = journal.store().files[NAME].clone();
        assert_eq!(file[8], version);
        file[index..].to_vec()
    };
    let [first, second, third] = [1, 2, 3].map(ended);
    assert_eq!(first, second);
    assert_ne!(second, third, "items are told by ranges");
    assert_eq!(third, file[index..]);
}

#[test]
fn a_segment_that_is_gone_is_a_gap() {
    let mut store = recorded(200, small());
    assert!(store.files.len() > 3, "{:?}", store.files.keys());
    store.remove("0000000002.qwr").expect("it is there");
    let recording = Recording::open(store).expect("the others are there");
    assert!(matches!(recording.damage(), [Damage::Missing { .. }]), "{:?}", recording.damage());
    let read = numbers(&recording, 200);
    assert!(read.len() < 200 && read.is_sorted());
}

#[test]
fn a_full_disk_is_a_gap_and_images_behind_it_are_right() {
    let mut journal = Journal::open(Memory::default(), one_segment(), &mut Vec::new()).expect("memory");
    let ibm = journal.item(crate::item("IBM.N"));
    let mut now = 0;
    let mut send = |journal: &mut Journal<Memory>, count: u64| {
        for _ in 0..count {
            now += 10_000_000;
            journal.append(record::Kind::Update, Some(ibm), crate::at(now), &body(now));
            journal.sync(crate::at(now));
        }
    };
    journal.append(record::Kind::Refresh, Some(ibm), crate::at(0), &crate::images::refresh(&[(22, 1), (25, 1)]));
    send(&mut journal, 30);
    let held: usize = journal.store().files.values().map(Vec::len).sum();
    journal.store_mut().room = Some(held + 30);
    send(&mut journal, 250);
    assert!(journal.trouble().is_some_and(|text| text.contains("failed")), "{:?}", journal.trouble());
    journal.store_mut().room = None;
    send(&mut journal, 150);
    assert_eq!(journal.trouble(), None);
    let counters = journal.counters();
    let recording = Recording::open(close(journal)).expect("a recording");
    assert_eq!(recording.damage(), []);
    let read = bodies(&recording).len() as u64;
    assert_eq!((read + counters.lost.messages, counters.lost.messages > 0), (431, true));
    let gaps = recording.info().gaps;
    let lost: Option<u64> = gaps.iter().map(|(_, gap)| gap.messages).sum();
    assert_eq!((gaps[0].1.reason, lost), (GapReason::Disk, Some(counters.lost.messages)));
    assert_eq!(counters.gaps, gaps.len() as u64, "a gap that was lost itself is not one");
    let image = recording.image_at(&crate::item("IBM.N"), u64::MAX).expect("memory").expect("it is open");
    assert!(!image.is_in_gap);
}

/// A record that `sync` has made safe survives whatever the disk takes afterwards, and a process that is killed meanwhile.
#[test]
fn what_was_synchronised_outlives_a_full_disk_and_a_kill() {
    for seed in 1..=60u64 {
        let mut random = seed;
        let mut below = move |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % n
        };
        let config = JournalConfig { segment_bytes: if seed % 2 == 0 { 3_000 } else { u64::MAX }, ..small() };
        let mut journal = Journal::open(Memory::default(), config, &mut Vec::new()).expect("memory");
        let ibm = journal.item(crate::item("IBM.N"));
        let (mut now, mut count, mut lost) = (0, 0, 0);
        let (mut safe, mut waiting) = (Vec::new(), Vec::new());
        let mut sent = HashMap::new();
        let read_of = |store: Memory, sent: &HashMap<Vec<u8>, u64>| -> Vec<u64> {
            let recording = Recording::open(store).expect("a recording");
            bodies(&recording).iter().map(|body| sent[body]).collect()
        };
        for step in 0..150 {
            now += 100_000_000;
            for _ in 0..below(6) {
                journal.append(Kind::Update, Some(ibm), crate::at(now), &body(count));
                sent.insert(body(count), count);
                waiting.push(count);
                count += 1;
            }
            if below(3) > 0 {
                journal.sync(crate::at(now));
                if journal.trouble().is_none() {
                    // As who acknowledges by it: nothing of what a loss may concern is called safe.
                    let is_whole = std::mem::replace(&mut lost, journal.counters().lost.messages) == lost;
                    safe.extend(waiting.drain(..).filter(|_| is_whole));
                }
            }
            if below(12) == 0 {
                let held: usize = journal.store().files.values().map(Vec::len).sum();
                journal.store_mut().room = (below(4) > 0).then(|| held + below(120) as usize);
            }
            // Killed here.
            let mut killed = journal.store().clone();
            killed.room = None;
            if killed.files.is_empty() {
                continue;
            }
            let read = read_of(killed.clone(), &sent);
            assert!(read.is_sorted(), "seed {seed}, step {step}: {read:?}");
            let missing = |read: &[u64]| safe.iter().filter(|n| read.binary_search(n).is_err()).count();
            assert_eq!(missing(&read), 0, "seed {seed}, step {step}: of {safe:?} there is {read:?}");
            if below(10) == 0 {
                let again = Journal::open(killed, config, &mut Vec::new()).expect("it is repaired");
                let read = read_of(close(again), &sent);
                assert_eq!(missing(&read), 0, "seed {seed}, step {step}, repaired");
            }
        }
        journal.store_mut().room = None;
        now += 2_000_000_000;
        journal.sync(crate::at(now));
        let lost = journal.counters().lost.messages;
        let recording = Recording::open(close(journal)).expect("a recording");
        let told: u64 = recording.info().gaps.iter().filter_map(|(_, gap)| gap.messages).sum();
        let read: Vec<u64> = bodies(&recording).iter().map(|body| sent[body]).collect();
        assert_eq!((read.len() as u64 + lost, told), (count, lost), "seed {seed}");
        assert!(safe.iter().all(|n| read.contains(n)), "seed {seed}");
    }
}

#[test]
fn an_item_that_ends_while_the_disk_is_full_is_not_shown_as_good() {
    let store = Memory { room: Some(usize::MAX), ..Memory::default() };
    let mut journal = Journal::open(store, one_segment(), &mut Vec::new()).expect("memory");
    let (stays, ends) = (journal.item(crate::item("IBM.N")), journal.item(crate::item("AIG.N")));
    // A block of its own.
    for item in [[stays; 6].as_slice(), &[ends]].concat() {
        journal.append(record::Kind::Refresh, Some(item), crate::at(0), &crate::images::refresh(&[(22, 1)]));
    }
    journal.sync(crate::at(10));
    let mut now = 1_000_000_000;
    let mut send = |journal: &mut Journal<Memory>, count: u64| {
        for _ in 0..count {
            now += 100_000_000;
            journal.append(record::Kind::Update, Some(stays), crate::at(now), &body(now));
            journal.sync(crate::at(now));
        }
    };
    journal.store_mut().room = Some(0);
    send(&mut journal, 2);
    journal.append(record::Kind::Status, Some(ends), crate::at(1_250_000_000), &crate::images::closed());
    send(&mut journal, 40);
    journal.store_mut().room = None;
    send(&mut journal, 40);
    assert_eq!(journal.trouble(), None);
    let recording = Recording::open(close(journal)).expect("a recording");
    let reasons: Vec<GapReason> = recording.info().gaps.iter().map(|(_, gap)| gap.reason).collect();
    assert_eq!(reasons, [GapReason::Disk]);
    let image = |name: &str, at: u64| recording.image_at(&crate::item(name), at).expect("memory");
    let is_good = |name: &str, at: u64| image(name, at).is_some_and(|image| !image.is_in_gap);
    let (from, to) = recording.info().gaps.iter().map(|(_, gap)| (gap.from, gap.to)).next().expect("a gap");
    assert_eq!(["IBM.N", "AIG.N"].map(|name| is_good(name, from - 1)), [true, true]);
    for at in [to, u64::MAX] {
        assert_eq!(["IBM.N", "AIG.N"].map(|name| is_good(name, at)), [true, false], "at {at}");
    }
}

#[test]
fn a_clock_that_is_set_back_is_told_and_time_stands_still_until_it_is_reached() {
    let mut journal = Journal::open(Memory::default(), small(), &mut Vec::new()).expect("memory");
    let set_back =
        |n: u64| record::Clocks { wall: crate::at(n).wall - if n > 10 { 1 << 33 } else { 0 }, ..crate::at(n) };
    for n in 0..20 {
        journal.append(record::Kind::Update, None, set_back(n), &body(n));
    }
    let recording = Recording::open(close(journal)).expect("a recording");
    let mut cursor = recording.from_time(0);
    let (mut times, mut n) = (Vec::new(), 0);
    while let Some(entry) = cursor.next().expect("memory") {
        times.push(entry.record.time);
        if entry.record.kind == record::Kind::Update {
            assert_eq!(entry.record.clocks, set_back(n), "clocks are as they were");
            n += 1;
        }
    }
    assert!(times.is_sorted());
    assert_eq!((times.len(), recording.info().gaps[0].1.reason), (21, GapReason::ClockSetBack));
}

/// A disk on which nothing can be changed for a while.
#[derive(Clone, Default)]
struct Stuck {
    files: Memory,
    is_stuck: bool,
}

impl Stuck {
    fn try_it(&self) -> io::Result<()> {
        if self.is_stuck { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }
}

impl Store for Stuck {
    fn name(&self) -> String {
        self.files.name()
    }
    fn files(&self) -> io::Result<BTreeMap<String, u64>> {
        self.files.files()
    }
    fn read(&self, name: &str, offset: u64, limit: usize) -> io::Result<Vec<u8>> {
        self.files.read(name, offset, limit)
    }
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.try_it()?;
        self.files.append(name, bytes)
    }
    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()> {
        self.try_it()?;
        self.files.truncate(name, len)
    }
    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.try_it()?;
        self.files.sync(name)
    }
    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.try_it()?;
        self.files.remove(name)
    }
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.try_it()?;
        self.files.rename(from, to)
    }
}

/// Of a block that found no room, what the tail has is written again, before anything that comes later; the rest is not taken for that.
#[test]
fn what_the_tail_has_of_a_lost_block_is_written_again() {
    let mut journal = Journal::open(Stuck::default(), one_segment(), &mut Vec::new()).expect("memory");
    let item = journal.item(item("IBM.N"));
    let update = |journal: &mut Journal<Stuck>, n: u64, at_ms: u64| {
        journal.append(Kind::Update, Some(item), at(at_ms * 1_000_000), &body(n));
    };
    (0..5).for_each(|n| update(&mut journal, n, n));
    journal.sync(at(5_000_000));
    journal.store_mut().is_stuck = true;
    (5..20).for_each(|n| update(&mut journal, n, n));
    assert!(journal.trouble().is_some());
    journal.store_mut().is_stuck = false;
    update(&mut journal, 100, 5_000);
    update(&mut journal, 101, 5_001);
    journal.sync(at(5_002_000_000));
    assert_eq!(journal.trouble(), None);
    // Killed here.
    let recording = Recording::open(journal.store().files.clone()).expect("it is read");
    assert_eq!(bodies(&recording), [0, 1, 2, 3, 4, 100, 101].map(body));
    let lost: Vec<_> = recording.info().gaps.iter().map(|(_, gap)| (gap.reason, gap.messages)).collect();
    assert_eq!(lost, [(GapReason::Disk, Some(15))]);
    assert_eq!(journal.counters().internal_faults, 0);
}
