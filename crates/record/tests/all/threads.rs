//! The hand-over: nobody waits, what does not fit is counted, all else is there in order.

use crate::{at, item};
use record::{Folder, GapReason, Kind, Recorder, RecorderConfig, Recording};

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
