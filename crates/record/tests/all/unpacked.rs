//! Blocks that are written as their records came, by a thread beside who records.

use crate::{at, body, item, small};
use record::{Append, Folder, Gap, Journal, JournalConfig, Kind, Memory, Recording, Store};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

fn unpacked(segment_bytes: u64) -> JournalConfig {
    JournalConfig { unpacked_bytes: Some(0), segment_bytes, ..small() }
}

#[test]
fn what_was_written_beside_is_there_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Folder::to_write(folder.path()).expect("a folder");
    let mut journal = Journal::open(store, unpacked(30_000), &mut Vec::new()).expect("a journal");
    let items: Vec<u32> = (0..5).map(|n| journal.item(item(&format!("I{n}")))).collect();
    const COUNT: u64 = 3_000;
    for n in 0..COUNT {
        let new = (n % 700 == 699).then(|| journal.item(item(&format!("N{n}"))));
        journal.append(Kind::Update, Some(new.unwrap_or(items[n as usize % 5])), at(n * 1_000), &body(n));
    }
    journal.close().expect("it is written");
    let recording = Recording::open(Folder::to_read(folder.path())).expect("a recording");
    assert_eq!((recording.damage(), recording.items().len()), (&[][..], 9));
    assert!(recording.segments().count() > 3);
    let (mut cursor, mut n) = (recording.from_time(0), 0);
    while let Some(entry) = cursor.next().expect("it can be read") {
        assert_eq!((entry.record.sequence, entry.record.clocks, entry.record.body), (n, at(n * 1_000), &body(n)[..]));
        n += 1;
    }
    assert_eq!(n, COUNT);
    let (mut of_one, mut records) = (recording.of_item(&item("I3"), 0), 0);
    while let Some(entry) = of_one.next().expect("it can be read") {
        assert_eq!(entry.item.map(|item| &*item.name), Some("I3"));
        records += 1;
    }
    assert_eq!(records, (0..COUNT).filter(|n| n % 5 == 3 && n % 700 != 699).count());
}

/// Memory that others write, too.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Memory>>);

impl Shared {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().expect("nobody panics with it")
    }
}

impl Store for Shared {
    fn name(&self) -> String {
        self.memory().name()
    }

    fn files(&self) -> io::Result<BTreeMap<String, u64>> {
        self.memory().files()
    }

    fn read(&self, name: &str, offset: u64, limit: usize) -> io::Result<Vec<u8>> {
        self.memory().read(name, offset, limit)
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.memory().append(name, bytes)
    }

    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()> {
        self.memory().truncate(name, len)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.memory().sync(name)
    }

    fn appender(&mut self, name: &str) -> io::Result<Option<Append>> {
        let (mut shared, name) = (self.clone(), name.to_owned());
        Ok(Some(Box::new(move |pieces| pieces.iter().try_for_each(|piece| shared.append(&name, piece)))))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.memory().remove(name)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.memory().rename(from, to)
    }
}

/// A disk that takes nothing now and then, while a block is written beside as at any other time: what was synchronised is there, what is missing is counted and told.
#[test]
fn a_disk_that_fails_beside_is_told_as_one_that_fails_here() {
    let mut lost_of_all = 0;
    for seed in 1..=60u64 {
        let mut random = seed;
        let mut below = move |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % n
        };
        let store = Shared::default();
        let config = unpacked(if seed % 2 == 0 { 3_000 } else { u64::MAX });
        let mut journal = Journal::open(store.clone(), config, &mut Vec::new()).expect("memory");
        let ibm = journal.item(item("IBM.N"));
        let (mut now, mut count, mut lost) = (0, 0, 0);
        let (mut safe, mut waiting, mut numbers) = (Vec::new(), Vec::new(), HashMap::new());
        for _ in 0..150 {
            now += 100_000_000;
            for _ in 0..below(30) {
                journal.append(Kind::Update, Some(ibm), at(now), &body(count));
                numbers.insert(body(count), count);
                waiting.push(count);
                count += 1;
            }
            match below(4) {
                0 => {}
                1 => journal.keep_up(at(now)),
                _ => {
                    journal.sync(at(now));
                    if journal.trouble().is_none() {
                        let is_whole = std::mem::replace(&mut lost, journal.counters().lost.messages) == lost;
                        safe.extend(waiting.drain(..).filter(|_| is_whole));
                    }
                }
            }
            if below(12) == 0 {
                let held = store.files().expect("memory").values().sum::<u64>() as usize;
                store.memory().room = (below(4) > 0).then(|| held + below(900) as usize);
            }
        }
        store.memory().room = None;
        journal.sync(at(now + 2_000_000_000));
        let lost = journal.counters().lost.messages;
        journal.close().expect("there is room");
        let recording = Recording::open(store).expect("a recording");
        assert_eq!(recording.damage(), [], "seed {seed}");
        let told: u64 = recording.info().gaps.iter().filter_map(|(_, gap): &(u64, Gap)| gap.messages).sum();
        let (mut cursor, mut read) = (recording.from_time(0), Vec::new());
        while let Some(entry) = cursor.next().expect("memory") {
            if entry.record.kind == Kind::Update {
                read.push(numbers[entry.record.body]);
            }
        }
        assert!(read.is_sorted(), "seed {seed}: {read:?}");
        assert_eq!((read.len() as u64 + lost, told), (count, lost), "seed {seed}");
        let missing: Vec<&u64> = safe.iter().filter(|n| read.binary_search(n).is_err()).collect();
        assert!(missing.is_empty(), "seed {seed}: {missing:?}");
        lost_of_all += lost;
    }
    assert!(lost_of_all > 1_000, "{lost_of_all}: the disk has failed");
}
