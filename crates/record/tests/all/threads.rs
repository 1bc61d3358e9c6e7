//! The hand-over: nobody waits, what does not fit is counted, all else is there in order.

use crate::{at, item};
use record::{Folder, GapReason, Kind, Recorder, RecorderConfig, Recording, Store as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn what_several_threads_hand_over_is_there_in_each_one_s_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let (recorder, damage) = Recorder::start(folder.path(), RecorderConfig::default()).expect("it can be written");
    assert_eq!(damage, []);
    const EACH: u64 = 20_000;
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let mut handover = recorder.handover();
            scope.spawn(move || {
                let id = handover.item(&item(&format!("T{thread}")));
                for n in 0..EACH {
                    assert!(handover.message(Kind::Update, Some(id), at(n), &crate::body(n)));
                    if n % 10 == 0 {
                        handover.flush();
                    }
                }
            });
        }
    });
    let counters = recorder.finish().expect("it was written");
    assert_eq!((counters.written.messages - counters.set_back, counters.lost.messages), (3 * EACH, 0));
    let recording = Recording::open(Folder::to_read(folder.path())).expect("a recording");
    for thread in 0..3 {
        let mut cursor = recording.of_item(&item(&format!("T{thread}")), 0);
        let mut n = 0;
        while let Some(entry) = cursor.next().expect("it can be read") {
            if entry.record.kind == Kind::Update {
                assert_eq!(entry.record.body, crate::body(n));
                n += 1;
            }
        }
        assert_eq!(n, EACH);
    }
}

#[test]
fn what_does_not_fit_is_counted_and_a_gap() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = RecorderConfig { queue_bytes: 4000, ..RecorderConfig::default() };
    let (recorder, _) = Recorder::start(folder.path(), config).expect("it can be written");
    let mut handover = recorder.handover();
    let id = handover.item(&item("IBM.N"));
    let mut taken = 0;
    for n in 0..1000 {
        taken += u64::from(handover.message(Kind::Update, Some(id), at(n), &crate::body(n)));
    }
    assert!(taken < 100, "{taken} fit into 4,000 bytes");
    handover.flush();
    // As soon as there is room, it goes on: with the gap before.
    while !handover.message(Kind::Update, Some(id), at(5000), &crate::body(5000)) {
        std::thread::yield_now();
    }
    drop(handover);
    let counters = recorder.finish().expect("it was written");
    let recording = Recording::open(Folder::to_read(folder.path())).expect("a recording");
    let gaps = recording.info().gaps;
    assert_eq!((gaps.len(), gaps[0].1.reason), (1, GapReason::Overflow));
    assert_eq!(gaps[0].1.messages, Some(counters.lost.messages));
    assert!(counters.lost.messages >= 1000 - taken);
    assert!(recording.image_at(&item("IBM.N"), u64::MAX).expect("it can be read").is_none(), "no refresh has come");
}

/// Its writer, retention and a sender beside it make files and take them away at any time: who lists the folder sees those that stay.
#[test]
fn a_folder_is_listed_while_files_in_it_come_and_go() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("stays"), b"four").expect("room");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let names: Vec<_> = (0..64).map(|n| folder.path().join(format!("passes-{n}"))).collect();
            while !is_over.load(Ordering::Relaxed) {
                for name in &names {
                    std::fs::write(name, b"").expect("room");
                }
                for name in &names {
                    std::fs::remove_file(name).expect("it is there");
                }
            }
        });
        let end = Instant::now() + Duration::from_secs(2);
        let mut lists =
            (0..20_000).take_while(|_| Instant::now() < end).map(|_| Folder::to_read(folder.path()).files());
        let bad = lists.find(|list| !list.as_ref().is_ok_and(|files| files.get("stays") == Some(&4)));
        is_over.store(true, Ordering::Relaxed);
        assert!(bad.is_none(), "{bad:?}");
    });
}
