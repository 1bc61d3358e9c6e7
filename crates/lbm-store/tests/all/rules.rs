//! Rules of persistence, one by one.

use lbm_store::receiver::{Delivered, ReceiverConfig, ReceiverEvent, Recovery, Sink};
use lbm_store::repository::Repository;
use lbm_store::source::{FlightBehavior, NotAdmitted, SourceConfig, SourceEvent};
use lbm_store::store::{Entry, Log, NoLog, Store, StoreConfig};
use lbm_store::wire::Refusal;

use crate::had::Had;
use crate::rig::{Rig, source_config};

fn session(session: u64) -> ReceiverConfig {
    ReceiverConfig { session, ..ReceiverConfig::default() }
}

fn rig(config: SourceConfig) -> Rig<Had> {
    Rig::new(config, &StoreConfig::default())
}

/// The id that a receiver's store gave it.
fn reg_id(events: &[ReceiverEvent]) -> Option<u32> {
    events.iter().find_map(|event| match event {
        ReceiverEvent::Registered { reg_id, .. } => Some(*reg_id),
        _ => None,
    })
}

fn refusal(events: &[ReceiverEvent]) -> Option<Refusal> {
    events.iter().find_map(|event| match event {
        ReceiverEvent::Refused { refusal, .. } => Some(*refusal),
        _ => None,
    })
}

#[test]
fn static_registration_ids_are_those_that_were_given() {
    let mut config = SourceConfig { session: 0, ..source_config(1) };
    config.stores[0].reg_id = 777;
    let mut rig = rig(config);
    assert!(rig.events.contains(&SourceEvent::Registered { store: 0, reg_id: 777 }), "{:?}", rig.events);
    let reader = rig.read(ReceiverConfig { reg_id: 888, ..ReceiverConfig::default() }, Had::default());
    rig.run(1_000);
    rig.send(1).expect("room");
    rig.run(1_000);
    assert_eq!(reg_id(&rig.readers[reader].events), Some(888));
    assert_eq!(rig.held(0), ((0, 1), vec![1]), "what it has consumed is written down under its id");
    // The id of the source is not one for a receiver.
    let other = rig.read(ReceiverConfig { reg_id: 777, ..ReceiverConfig::default() }, Had::default());
    rig.run(1_000);
    assert_eq!(refusal(&rig.readers[other].events), Some(Refusal::UsedBySource));
}

#[test]
fn a_receiver_that_has_saved_its_id_goes_on_where_it_was() {
    let mut rig = rig(SourceConfig { session: 0, ..source_config(1) });
    let reader = rig.read(ReceiverConfig::default(), Had::default());
    rig.run(1_000);
    rig.send_all(0..5);
    rig.run(1_000);
    let mut gone = rig.stop(reader);
    let saved = reg_id(&gone.events).expect("the store gave one");
    rig.send_all(5..9);
    rig.run(1_000);
    gone.sink.last = None;
    let again = rig.read(ReceiverConfig { reg_id: saved, ..ReceiverConfig::default() }, gone.sink);
    rig.run(2_000);
    let had = &rig.readers[again].sink;
    assert_eq!(had.faults, [""; 0]);
    assert_eq!(had.count, (0..9).map(|id| (id, 1)).collect(), "each once: it was known how far it was");
    // One without an id is another one, and begins with the oldest.
    let new = rig.read(ReceiverConfig::default(), Had::default());
    rig.run(2_000);
    assert_eq!(rig.readers[new].sink.count.len(), 9);
    assert_ne!(reg_id(&rig.readers[new].events), Some(saved));
}

#[test]
fn the_source_hears_what_receivers_have_consumed_if_it_wants_to() {
    for confirmations in [true, false] {
        let mut rig = rig(SourceConfig { confirmations, ..source_config(1) });
        let reader = rig.read(session(5), Had::default());
        rig.run(1_000);
        rig.send_all(0..5);
        rig.run(1_000);
        let receiver = reg_id(&rig.readers[reader].events).expect("registered");
        let confirmed = SourceEvent::Confirmed { store: 0, receiver, sqn: 4 };
        assert_eq!(rig.events.contains(&confirmed), confirmations, "{:?}", rig.events);
    }
}

#[test]
fn a_message_is_retained_until_so_many_receivers_have_consumed_it() {
    let limit = 400;
    let mut rig = rig(SourceConfig { unique_confirmations: 2, retention_size_limit: limit, ..source_config(1) });
    rig.read(session(5), Had::default());
    let late = rig.read(ReceiverConfig { explicit_ack_only: true, ..session(6) }, Had::default());
    rig.run(1_000);
    let sent: Vec<u32> = (4..200).map_while(|id| rig.send(id).ok()).collect();
    assert!(sent.len() > 1, "some have room");
    rig.run(1_000);
    assert_eq!(rig.source.in_flight(), 0, "they are stable");
    assert_eq!(rig.send(304), Err(NotAdmitted::FlightFull), "one receiver is not two");
    let now = rig.now;
    rig.readers[late].topic.acknowledge(now, 0, sent[sent.len() - 1]);
    rig.run(1_000);
    assert!(rig.events.contains(&SourceEvent::Writable));
    rig.send(304).expect("both have consumed what was there");
}

#[test]
fn what_no_store_acknowledges_is_sent_again_and_given_up_at_the_end_of_its_lifetime() {
    let config = SourceConfig {
        stability_timeout_ns: 100_000_000,
        stability_lifetime_ns: 1_000_000_000,
        flight_size: 1,
        ..source_config(1)
    };
    let mut rig = rig(config);
    rig.silent[0] = true;
    let sqn = rig.send(1).expect("room");
    rig.run(500);
    assert!(rig.source.stats().retransmissions >= 3, "{:?}", rig.source.stats());
    assert_eq!(rig.send(2), Err(NotAdmitted::FlightFull));
    assert!(!rig.events.contains(&SourceEvent::NotStable { sqn }), "its lifetime is not over");
    rig.run(1_000);
    assert!(rig.events.contains(&SourceEvent::NotStable { sqn }));
    assert_eq!(rig.source.stats().not_stable, 1);
    rig.send(2).expect("its place is free");
}

#[test]
fn with_explicit_acknowledgements_only_the_application_has_consumed() {
    let mut rig = rig(source_config(1));
    let config = ReceiverConfig { explicit_ack_only: true, ..session(5) };
    let reader = rig.read(config.clone(), Had::default());
    rig.run(1_000);
    rig.send_all(0..9);
    rig.run(1_000);
    assert_eq!(rig.readers[reader].sink.count.len(), 9);
    assert_eq!(rig.held(0).1, [0], "delivered is not consumed");
    let now = rig.now;
    rig.readers[reader].topic.acknowledge(now, 0, 3);
    rig.readers[reader].topic.acknowledge(now, 0, 100);
    rig.run(1_000);
    assert_eq!(rig.held(0).1, [9], "nobody has consumed more than was delivered");
    let mut gone = rig.stop(reader);
    (gone.sink, gone.events) = (Had::default(), Vec::new());
    rig.send_all(9..12);
    let again = rig.read(config, gone.sink);
    rig.run(1_000);
    assert_eq!(rig.readers[again].sink.count.keys().copied().collect::<Vec<_>>(), [9, 10, 11]);
}

#[test]
fn a_store_that_receivers_pace_holds_the_source_back_and_loses_nothing() {
    let store = StoreConfig { source_bytes_max: 2_000, ..StoreConfig::default() };
    let config = SourceConfig { paced: true, flight_size: 5, ..source_config(1) };
    let mut rig: Rig<Had> = Rig::new(config, &store);
    let pacing = ReceiverConfig { paced: true, explicit_ack_only: true, ..session(5) };
    let reader = rig.read(pacing, Had::default());
    rig.run(1_000);
    let mut id = 0;
    while rig.send(id).is_ok() {
        id += 1;
        rig.run(50);
    }
    assert!(id > 5, "messages become stable while there is room");
    rig.run(10_000);
    assert_eq!(rig.send(id), Err(NotAdmitted::FlightFull), "what is not consumed stays");
    assert_eq!((rig.held(0).0.0, rig.stores[0].stats().displaced), (0, 0));
    let now = rig.now;
    rig.readers[reader].topic.acknowledge(now, 0, u32::try_from(id).expect("few") - 1);
    rig.run(10_000);
    assert_eq!(rig.source.in_flight(), 0, "all that was held back is stable");
    rig.send(id).expect("there is room again");
    rig.run(1_000);
    let now = rig.now;
    let last = u32::try_from(id).expect("few");
    rig.readers[reader].topic.acknowledge(now, 0, last);
    rig.run(1_000);
    assert_eq!(rig.held(0), ((last + 1, last + 1), vec![last + 1]), "what everybody has consumed is gone");
    let had = &rig.readers[reader].sink;
    assert_eq!(had.count, (0..=id).map(|id| (id, 1)).collect());
    // One that paces and comes late gets nothing from before.
    let late = rig.read(ReceiverConfig { paced: true, ..session(6) }, Had::default());
    rig.run(2_000);
    assert_eq!(rig.readers[late].sink.count.len(), 0);
}

/// Messages that a store has in its log.
fn logged(rig: &mut Rig<Had>) -> usize {
    let entries = &rig.stores[0].log().entries;
    entries.iter().filter(|entry| matches!(Entry::decode(entry), Some(Entry::Message { .. }))).count()
}

#[test]
fn a_source_says_how_much_its_stores_hold_and_never_more_than_they_would() {
    for (said, own, least) in [(2_000, 1 << 20, 20), (1 << 20, 2_000, 20), (0, 1 << 20, 0)] {
        let repository = Repository { size_limit: said, ..Repository::default() };
        let store = StoreConfig { source_bytes_max: own, ..StoreConfig::default() };
        let mut rig: Rig<Had> = Rig::new(SourceConfig { repository, ..source_config(1) }, &store);
        for id in 0..60 {
            rig.send(id).expect("room");
            rig.run(10);
        }
        let ((low, end), _) = rig.held(0);
        assert!(end == 60 && (low > least || least == 0 && low == 0), "{said} of {own}: from {low} to {end}");
    }
}

#[test]
fn a_message_that_counts_when_it_has_come_is_stable_before_the_disk_has_it() {
    for ack_on_reception in [false, true] {
        let repository = Repository { ack_on_reception, ..Repository::default() };
        let config = SourceConfig { repository, ..source_config(1) };
        let mut rig: Rig<Had> = Rig::with_logs(config, &StoreConfig::default(), true);
        rig.syncs = false;
        rig.send_all(0..5);
        rig.run(100);
        assert_eq!((rig.source.in_flight() == 0, logged(&mut rig)), (ack_on_reception, 5));
        rig.syncs = true;
        rig.run(100);
        assert_eq!(rig.source.in_flight(), 0);
    }
}

#[test]
fn what_all_have_consumed_within_the_write_delay_is_not_written_and_stable_all_the_same() {
    let repository = Repository { write_delay_ms: 500, ..Repository::default() };
    let config = SourceConfig { paced: true, repository, ..source_config(1) };
    let mut rig: Rig<Had> = Rig::with_logs(config, &StoreConfig::default(), true);
    let reader = rig.read(ReceiverConfig { paced: true, explicit_ack_only: true, ..session(5) }, Had::default());
    rig.run(1_000);
    rig.send_all(0..5);
    rig.run(200);
    assert_eq!((rig.source.in_flight(), logged(&mut rig)), (5, 0), "neither written nor called stable");
    let now = rig.now;
    rig.readers[reader].topic.acknowledge(now, 0, 1);
    rig.run(200);
    assert_eq!((rig.source.in_flight(), logged(&mut rig)), (3, 0), "two are done with");
    rig.run(300);
    assert_eq!((rig.source.in_flight(), logged(&mut rig)), (0, 3), "the others are written after their time");
}

#[test]
fn what_all_have_consumed_stays_below_the_threshold() {
    let repository = Repository { size_threshold: 1_000, ..Repository::default() };
    let config = SourceConfig { paced: true, repository, ..source_config(1) };
    let mut rig: Rig<Had> = Rig::new(config, &StoreConfig::default());
    rig.read(ReceiverConfig { paced: true, ..session(5) }, Had::default());
    rig.run(1_000);
    rig.send_all(0..100);
    rig.run(2_000);
    let ((low, end), _) = rig.held(0);
    assert!(end == 100 && (1..40).contains(&(end - low)), "{low} to {end}");
}

#[test]
fn a_store_without_room_gives_up_the_oldest() {
    let store = StoreConfig { source_bytes_max: 2_000, ..StoreConfig::default() };
    let mut rig: Rig<Had> = Rig::new(source_config(1), &store);
    for id in 0..60 {
        rig.send(id).expect("room");
        rig.run(10);
    }
    let ((low, end), _) = rig.held(0);
    assert_eq!((end, u64::from(low)), (60, rig.stores[0].stats().displaced));
    assert!(low > 20, "the limit holds");
    let reader = rig.read(session(5), Had::default());
    rig.run(2_000);
    let had = &rig.readers[reader].sink;
    assert_eq!((had.lost, had.count.keys().copied().collect::<Vec<_>>()), (0, (u64::from(low)..60).collect()));
}

/// An application that wants less than was kept for it.
#[derive(Default)]
struct Choosy {
    offered: Option<Recovery>,
    numbers: Vec<u32>,
}

impl Sink for Choosy {
    fn recovery(&mut self, _source: u32, recovery: Recovery) -> u32 {
        self.offered = Some(recovery);
        recovery.low + 3
    }

    fn message(&mut self, _source: u32, message: Delivered<'_>) {
        self.numbers.push(message.sqn);
    }

    fn lost(&mut self, _source: u32, first: u32, count: u32) {
        panic!("{first} and {count} are lost");
    }
}

#[test]
fn the_application_has_the_last_word_on_where_recovery_begins() {
    let mut rig: Rig<Choosy> = Rig::new(source_config(3), &StoreConfig::default());
    rig.send_all(0..8);
    rig.run(1_000);
    let reader = rig.read(session(5), Choosy::default());
    rig.run(2_000);
    let Choosy { offered, numbers } = &rig.readers[reader].sink;
    assert_eq!(*offered, Some(Recovery { low: 0, high: 7 }));
    assert_eq!(*numbers, [3, 4, 5, 6, 7]);
    let kept = rig.held(0).1;
    assert_eq!(kept, [8], "what was left out counts as consumed");
}

#[test]
fn requests_are_spread_over_the_stores_and_one_that_is_silent_costs_no_message() {
    for silent in [None, Some(1)] {
        let mut rig = rig(source_config(3));
        rig.send_all(0..90);
        rig.run(1_000);
        let reader = rig.read(session(5), Had::default());
        // Registered everywhere, before the first question is answered.
        while rig.readers[reader].events.iter().filter(|e| matches!(e, ReceiverEvent::Registered { .. })).count() < 3 {
            rig.run(10);
        }
        if let Some(store) = silent {
            rig.silent[store] = true;
        }
        rig.run(60_000);
        let had = &rig.readers[reader].sink;
        assert_eq!((had.count.len(), had.lost, had.faults.len()), (90, 0, 0), "silent {silent:?}");
        let each: Vec<u64> = rig.stores.iter().map(|store| store.stats().retransmissions).collect();
        if silent.is_none() {
            assert_eq!(each, [30, 30, 30]);
        }
    }
}

#[test]
fn what_a_store_lacks_comes_from_another() {
    let mut rig = rig(source_config(3));
    rig.silent[2] = true;
    rig.send_all(0..30);
    rig.run(1_000);
    rig.silent[2] = false;
    rig.run(20_000);
    assert_eq!(
        (rig.source.in_flight(), rig.stores[2].stats().stored),
        (0, 0),
        "two of three are enough, and the source has let go"
    );
    let reader = rig.read(session(5), Had::default());
    rig.run(20_000);
    let had = &rig.readers[reader].sink;
    assert_eq!((had.count.len(), had.lost, had.faults.len()), (30, 0, 0));
    assert!(rig.stores[2].stats().not_held > 0, "it was asked as well");
}

#[test]
fn a_log_that_is_read_again_keeps_what_pacing_receivers_wait_for() {
    for (paced, low) in [(true, 0), (false, 8)] {
        let config = StoreConfig { source_bytes_max: 300, ..StoreConfig::default() };
        let mut store = Store::new(config, NoLog);
        store.restore(0, &Entry::Source { reg_id: 1, session: 77, topic: b"orders", epochs: &[] });
        store.restore(0, &Entry::Start { source: 1, low: 0 });
        store.restore(0, &Entry::Receiver { reg_id: 2, source: 1, session: 5, paced, next: 0 });
        for sqn in 0..10 {
            store.restore(0, &Entry::Message { source: 1, sqn, message: &[0; 100] });
        }
        store.each_source(|_, _, range, _, receivers| assert_eq!((range, receivers), ((low, 10), &[(2, 0)][..])));
    }
}

#[test]
fn a_source_that_goes_on_over_its_flight_size_is_told() {
    let flight_behavior = FlightBehavior::Notify;
    let mut rig = rig(SourceConfig { flight_size: 3, flight_behavior, stability: false, ..source_config(1) });
    rig.run(1_000);
    rig.send_all(0..3);
    rig.run(20);
    let over = |is_over| SourceEvent::FlightSize { is_over };
    assert!(!rig.events.contains(&over(true)), "three may be in flight: {:?}", rig.events);
    rig.send_all(3..9);
    rig.run(1_000);
    let told: Vec<&SourceEvent> = rig
        .events
        .iter()
        .filter(|e| matches!(e, SourceEvent::FlightSize { .. } | SourceEvent::Stable { .. }))
        .collect();
    assert_eq!(told, [&over(true), &over(false)], "once each, and no word of what is stable");
    assert_eq!((rig.source.in_flight(), rig.held(0).0), (0, (0, 9)));
    // Retained messages have their bound all the same.
    let retention_size_limit = 100;
    let mut rig = self::rig(SourceConfig { flight_behavior, retention_size_limit, ..source_config(1) });
    rig.run(1_000);
    assert!((0..99).map_while(|id| rig.send(id).ok()).count() < 20);
}

#[test]
fn what_is_written_anew_is_all_that_there_is() {
    struct Written(Vec<Vec<u8>>);
    impl Log for Written {
        fn write(&mut self, entry: &Entry<'_>) -> u64 {
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            self.0.push(bytes);
            0
        }
    }
    let of = |store: &Store<Written>| {
        let mut all = Vec::new();
        store.each_source(|reg_id, topic, numbers, bytes, receivers| {
            all.push((reg_id, topic.to_vec(), numbers, bytes, receivers.to_vec()));
        });
        all
    };
    let mut store = Store::new(StoreConfig::default(), Written(Vec::new()));
    let entries = [
        Entry::Source { reg_id: 7, session: 1, topic: b"a", epochs: &[] },
        Entry::Start { source: 7, low: 3 },
        Entry::Message { source: 7, sqn: 3, message: b"m" },
        Entry::Receiver { reg_id: 8, source: 7, session: 2, paced: false, next: 3 },
        Entry::Consumed { reg_id: 8, next: 4 },
    ];
    for entry in &entries {
        store.restore(0, entry);
    }
    store.write_all();
    let written = std::mem::take(&mut store.log().0);
    // A store that had something else before.
    let mut other = Store::new(StoreConfig::default(), Written(Vec::new()));
    other.restore(0, &Entry::Source { reg_id: 9, session: 3, topic: b"gone", epochs: &[] });
    for bytes in &written {
        other.restore(0, &Entry::decode(bytes).expect("as it was written"));
    }
    assert_eq!(of(&other), of(&store));
    assert_eq!((store.bytes(), other.bytes()), (49, 49), "the message and what it costs");
}
