//! Stores that stand in for a source that is gone.

use lbm::wire::lbmc::Message;
use lbm_store::receiver::ReceiverConfig;
use lbm_store::source::SourceConfig;
use lbm_store::store::{Proxy, StoreConfig};
use lbm_store::wire::code;

use crate::had::Had;
use crate::rig::{Rig, source_config};

fn config() -> SourceConfig {
    SourceConfig { proxy: true, activity_timeout_ms: 5_000, ..source_config(3) }
}

fn had(rig: &Rig<Had>, reader: usize) -> Vec<u64> {
    let had = &rig.readers[reader].sink;
    assert_eq!((had.faults.as_slice(), had.lost), (&[][..], 0));
    had.count.keys().copied().collect()
}

/// Whether each store stands in for the source.
fn standing_in(rig: &Rig<Had>) -> Vec<bool> {
    let last = |of: &Vec<Proxy>| of.last().is_some_and(|proxy| proxy.on);
    rig.proxies.iter().map(last).collect()
}

#[test]
fn receivers_get_what_stores_hold_though_the_source_is_gone() {
    let mut rig = Rig::with_logs(config(), &StoreConfig::default(), true);
    rig.send_all(0..30);
    // By now each store has heard of all of them.
    rig.run(4_000);
    rig.leave();
    rig.run(4_000);
    assert_eq!(standing_in(&rig), [false; 3], "its connection may come back");
    rig.run(2_000);
    assert_eq!(standing_in(&rig), [true; 3]);
    assert!(rig.proxies.iter().flatten().all(|proxy| *proxy.topic == *b"orders"));
    let reader = rig.read_by_proxies(ReceiverConfig { session: 9, ..ReceiverConfig::default() }, Had::default());
    rig.run(3_000);
    assert_eq!(had(&rig, reader), (0..30).collect::<Vec<_>>());
    let sources = rig.readers[reader].topic.sources().count();
    assert_eq!(sources, 1, "three proxy sources are one source");
    assert_eq!(rig.readers[reader].topic.stores(0).filter(|(_, registered)| *registered).count(), 3);
    // Another process of the source goes on, and receivers with it.
    rig.come_back(config());
    rig.run(3_000);
    assert_eq!(standing_in(&rig), [false; 3]);
    rig.send_all(30..40);
    rig.run(1_000);
    assert_eq!(had(&rig, reader), (0..40).collect::<Vec<_>>());
}

#[test]
fn a_store_that_was_killed_stands_in_by_what_it_has_written() {
    let mut rig = Rig::with_logs(config(), &StoreConfig::default(), true);
    rig.send_all(0..10);
    rig.run(4_000);
    rig.leave();
    rig.restart(1, &StoreConfig { activity_timeout_ns: 5_000_000_000, ..StoreConfig::default() });
    rig.run(6_000);
    assert_eq!(standing_in(&rig), [true; 3]);
    // The other two are gone: what the third has is had.
    rig.silent = vec![true, false, true];
    let reader = rig.read_by_proxies(ReceiverConfig { session: 9, ..ReceiverConfig::default() }, Had::default());
    rig.run(20_000);
    let known = rig.readers[reader].topic.stores(0).count();
    assert_eq!(known, 3, "it names all stores of the source");
}

#[test]
fn a_source_that_does_not_ask_for_it_has_no_proxy() {
    let mut rig: Rig<Had> = Rig::new(SourceConfig { proxy: false, ..config() }, &StoreConfig::default());
    rig.send_all(0..10);
    rig.run(4_000);
    rig.leave();
    rig.run(60_000);
    assert_eq!(rig.proxies, vec![Vec::new(); 3]);
    // Nor has one whose registration is forgotten.
    let forgetful = SourceConfig { state_lifetime_ms: 3_000, ..config() };
    let mut rig: Rig<Had> = Rig::new(forgetful, &StoreConfig::default());
    rig.send_all(0..10);
    rig.run(4_000);
    rig.leave();
    rig.run(60_000);
    let told: Vec<Vec<bool>> = rig.proxies.iter().map(|of| of.iter().map(|proxy| proxy.on).collect()).collect();
    assert_eq!(told, vec![vec![true, false]; 3]);
}

/// As many stores as a source may have, each in a group of its own: what it says of them fits a message.
#[test]
fn a_source_with_as_many_stores_as_may_be_says_which() {
    let mut config = source_config(64);
    for (group, store) in config.stores.iter_mut().enumerate() {
        store.group = group as u8;
    }
    let rig: Rig<Had> = Rig::new(SourceConfig { proxy: true, ..config }, &StoreConfig::default());
    let mut word = Vec::new();
    rig.source.info(&mut word);
    let (message, _) = Message::decode(&word).expect("it says something");
    let stores = message.headers().filter(|header| matches!(header, Ok(header) if header.code() == code::STORE));
    assert_eq!(stores.count(), 64);
}
