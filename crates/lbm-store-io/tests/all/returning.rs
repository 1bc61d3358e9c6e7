//! Receivers that come back, stores and sources that are killed, one at a time.

use lbm_store::store::Entry;
use lbm_store_io::DiskLog;

use crate::processes::{Record, Role, StoreProcess, lines, with_stores};
use crate::roles;

fn source(options: &str, life: u64, count: u64) -> Role {
    Role::start("source", options, &[(roles::LIFE, life.to_string()), (roles::COUNT, count.to_string())])
}

fn receiver(options: &str, record: &mut Record) -> Role {
    record.begin_receiver();
    let mut receiver = Role::start("receiver", options, &[]);
    receiver.wait_for("ready", record);
    receiver
}

#[test]
fn a_receiver_that_comes_back_gets_what_it_has_missed() {
    for transport in ["lbtrm", "lbtru", "tcp", "lbtipc"] {
        let lines = lines(transport);
        let store = StoreProcess::start(&lines, false);
        let options = with_stores(&lines, [&store]);
        let mut record = Record::default();
        let mut first = receiver(&options, &mut record);
        let mut sender = source(&options, 1, 100);
        sender.wait_for("done", &mut record);
        record.wait_for_stable(&mut first);
        first.kill(&mut record);
        sender.kill(&mut record);
        let mut sender = source(&options, 2, 300);
        sender.wait_for("done", &mut record);
        let mut second = receiver(&options, &mut record);
        record.wait_for_stable(&mut second);
        assert_eq!((record.had.len(), record.stable.len(), record.gone), (400, 400, 0), "{transport}");
        record.check(transport);
    }
}

#[test]
fn a_store_on_disk_that_is_killed_has_everything_that_was_stable() {
    let lines = lines("lbtrm");
    let mut store = StoreProcess::start(&lines, true);
    let options = with_stores(&lines, [&store]);
    let mut record = Record::default();
    let mut sender = source(&options, 1, 500);
    sender.wait_for("done", &mut record);
    sender.kill(&mut record);
    store.kill();
    store.begin();
    // Another process of the source goes on behind what was stable, and the store is killed under it.
    let mut sender = source(&options, 2, 300);
    let first: u32 = sender.wait_for("ready ", &mut record).parse().expect("a number");
    assert!(first >= 500, "{first}");
    sender.wait_for("stable", &mut record);
    store.kill();
    store.begin();
    sender.wait_for("done", &mut record);
    let mut receiver = receiver(&options, &mut record);
    record.wait_for_stable(&mut receiver);
    assert_eq!((record.had.len(), record.gone), (800, 0));
    record.check("one store");
}

/// What a store writes down is a recording as `quoteway record` writes it, with entries that `docs/wire/lbm-stores.md` describes.
#[test]
fn the_log_of_a_store_is_a_recording() {
    let lines = lines("lbtrm");
    let mut store = StoreProcess::start(&lines, true);
    let options = with_stores(&lines, [&store]);
    let mut sender = source(&options, 1, 120);
    sender.wait_for("done", &mut Record::default());
    store.kill();
    let folder = store.folder().expect("a folder");
    let (mut messages, mut topics) = (0, Vec::new());
    let damage = DiskLog::read(folder, |entry| match entry {
        Entry::Message { message, .. } => {
            let (message, _) = lbm::wire::lbmc::Message::decode(message).expect("as it came");
            messages += u32::from(message.content().is_ok());
        }
        Entry::Messages { first, messages: run, .. } => messages += lbm::topic::Run::read(*first, run).count,
        Entry::Source { topic, .. } => topics.push(topic.to_vec()),
        _ => {}
    });
    damage.expect("it can be read");
    // Two of the messages are of several fragments.
    assert!(messages > 120, "{messages}");
    assert!(!topics.is_empty() && topics.iter().all(|topic| topic == roles::TOPIC.as_bytes()));
    let recording = record::Recording::open(record::Folder::to_read(folder)).expect("a recording");
    let mut cursor = recording.from_sequence(0);
    let entry = cursor.next().expect("it can be read").expect("an entry");
    let item = entry.item.expect("of an item");
    assert_eq!((&*item.service, item.domain), (lbm_store_io::LOG_SERVICE, lbm_store_io::LOG_DOMAIN));
}

/// The log is written anew when it is long, and what is held is there for a process after that.
#[test]
fn a_log_that_grows_long_is_written_anew() {
    const LOG: u64 = 256 << 10;
    let lines = lines("tcp");
    let mut store = StoreProcess::start(&lines, true);
    store.limit(50_000, LOG);
    let options = with_stores(&lines, [&store]);
    let mut record = Record::default();
    let mut sender = source(&options, 1, 20_000);
    sender.wait_for("done", &mut record);
    store.kill();
    let folder = store.folder().expect("a folder");
    let length: u64 = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|file| file.and_then(|f| f.metadata()).map_or(0, |m| m.len()))
        .sum();
    assert!(length < 4 * LOG, "{length} bytes of a log of 20,000 messages");
    store.begin();
    let mut receiver = receiver(&options, &mut record);
    // A message for which a store has no room is gone; the newest is there.
    let newest = *record.stable.last().expect("stable");
    record.wait_for_message(newest, &mut receiver);
    let had = record.had.len();
    assert!((50..200).contains(&had), "{had} messages have room in 50,000 bytes");
}

#[test]
fn a_quorum_goes_on_while_one_of_three_stores_is_down() {
    let lines = lines("lbtrm");
    let mut stores: Vec<StoreProcess> = (0..3).map(|_| StoreProcess::start(&lines, false)).collect();
    let options = with_stores(&lines, &stores);
    let mut record = Record::default();
    let mut receiver = receiver(&options, &mut record);
    let mut sender = source(&options, 1, 2_000);
    sender.wait_for("stable", &mut record);
    stores[1].kill();
    sender.wait_for("done", &mut record);
    record.wait_for_stable(&mut receiver);
    assert_eq!((record.had.len(), record.gone), (2_000, 0));
    record.check("three stores");
}

/// Nobody sends: stores advertise the topic, and a receiver that is new gets from them what they hold. The source that comes back goes on.
#[test]
fn a_receiver_gets_what_stores_hold_though_the_source_is_gone() {
    for (transport, count) in [("lbtrm", 1), ("tcp", 3)] {
        let lines = lines(transport);
        let stores: Vec<StoreProcess> = (0..count).map(|_| StoreProcess::start(&lines, true)).collect();
        let proxied = format!("{lines}source ume_proxy_source 1\nsource ume_activity_timeout 1000\n");
        let options = with_stores(&proxied, &stores);
        let mut record = Record::default();
        let mut sender = source(&options, 1, 100);
        sender.wait_for("done", &mut record);
        // Each store has heard of the others by the source's next sign of life.
        sender.wait_for("alive", &mut record);
        sender.kill(&mut record);
        let mut reader = receiver(&options, &mut record);
        record.wait_for_stable(&mut reader);
        assert_eq!((record.had.len(), record.gone), (100, 0), "{transport}");
        let mut sender = source(&options, 2, 50);
        sender.wait_for("done", &mut record);
        record.wait_for_stable(&mut reader);
        assert_eq!((record.had.len(), record.gone), (150, 0), "{transport}");
        record.check(transport);
    }
}
