//! Records: what is given out to be kept, what is taken back after a start, and what expires.

use crate::world::*;
use hub_content::cache::rules::{RecordRules, ServiceSet};
use hub_distributor::{Config, Record, RecordChange, Restore, RestoreError, Restored};
use hub_stream::{Kind, flags};
use proptest::prelude::*;
use rwf::{DataState, StateCode, StreamState};
use std::collections::{BTreeMap, BTreeSet};

const STALE: Restore = Restore { as_stale: true, is_kept: true };
const AS_IT_WAS: Restore = Restore { as_stale: false, is_kept: true };

/// What whoever keeps records has.
#[derive(Debug, Default, Clone, PartialEq)]
struct Kept {
    records: BTreeMap<(String, Vec<u8>), (Vec<u8>, u64)>,
    changes: usize,
}

impl Kept {
    fn take(&mut self, world: &mut World, most: usize) {
        world.sd.take_record_changes(most, |change| {
            self.changes += 1;
            match change {
                RecordChange::Image(record) => {
                    let key = (record.service.to_owned(), record.key.to_vec());
                    self.records.insert(key, (record.parts.to_vec(), record.age));
                }
                RecordChange::Gone { service, key } => {
                    let known = self.records.remove(&(service.to_owned(), key.to_vec()));
                    assert!(known.is_some(), "the end of a record that was never given out");
                }
            }
        });
    }

    fn restore(&self, world: &mut World, how: Restore) -> Vec<Result<Restored, RestoreError>> {
        let mut all: Vec<_> = self.records.iter().collect();
        all.sort_by_key(|(_, (_, age))| std::cmp::Reverse(*age));
        let mut restored = Vec::new();
        for ((service, key), (parts, age)) in all {
            restored.push(world.sd.restore(world.now, &Record { service, key, parts, age: *age }, how));
        }
        restored
    }
}

fn rules(records: RecordRules) -> Config {
    Config { records, age_unpublished: 86_400 * SECOND, ..Config::default() }
}

fn kept() -> Config {
    rules(RecordRules { kept: ServiceSet::All, ..RecordRules::default() })
}

fn expiring(max_age: u64, max_number: u32) -> Config {
    rules(RecordRules { expiring: ServiceSet::All, max_age: max_age * SECOND, max_number, ..RecordRules::default() })
}

/// A world with P2PS 1 and a non-interactive provider on session 0 whose service `NI_PUB` has id 3 there.
fn with_nip(config: Config) -> World {
    let mut world = World::new(config);
    world.p2ps_up(1);
    start_nip(&mut world);
    world
}

fn start_nip(world: &mut World) {
    world.nip_up(0);
    world.directory(0, vec![service(3, "NI_PUB")]);
    world.events();
    world.sent(0);
}

/// Stream, data and code of a state.
type StateParts = (StreamState, DataState, StateCode);

/// The state and the fields that P2PS 1 is given for an item of service 1.
fn image(world: &mut World, name: &str) -> (StateParts, Vec<(i16, Vec<u8>)>) {
    world.events();
    world.open_with(1, name, flags::STREAMING);
    let events = world.events();
    let image = events.iter().find(|event| event.kind == Kind::Image).unwrap_or_else(|| panic!("{events:?}"));
    let refresh = image.image();
    ((refresh.state.stream, refresh.state.data, refresh.state.code), fields_of(refresh.body))
}

const OPEN_OK: StateParts = (StreamState::OPEN, DataState::OK, StateCode::NONE);
const OPEN_SUSPECT: StateParts = (StreamState::OPEN, DataState::SUSPECT, StateCode::NONE);

#[test]
fn a_record_is_given_out_as_it_is_and_once_however_often_it_has_changed() {
    let mut world = with_nip(kept());
    let mut store = Kept::default();
    world.publish(0, 1, 3, "A", &[(22, b"1"), (25, b"2")]);
    world.publish(0, 2, 3, "B", &[(22, b"7")]);
    (0..9).for_each(|_| world.update(0, 1, &[(22, b"3")]));
    assert_eq!(world.sd.record_changes(), 2);
    store.take(&mut world, 1);
    store.take(&mut world, 100);
    assert_eq!((store.changes, store.records.len(), world.sd.has_record_changes()), (2, 2, false));
    world.update(0, 1, &[(22, b"4")]);
    store.take(&mut world, 100);
    assert_eq!(store.changes, 3);

    let mut next = World::new(kept());
    next.p2ps_up(1);
    assert_eq!(store.restore(&mut next, STALE), [Ok(Restored::Taken); 2]);
    assert_eq!(image(&mut next, "A"), (OPEN_SUSPECT, vec![(22, b"4".to_vec()), (25, b"2".to_vec())]));
    assert_eq!(image(&mut next, "B"), (OPEN_SUSPECT, vec![(22, b"7".to_vec())]));
    assert!(!next.sd.has_record_changes(), "whoever keeps them has them");
    // The provider comes, and publishes one of them: the watchers are told that it is good.
    start_nip(&mut next);
    next.publish(0, 1, 3, "A", &[(22, b"5")]);
    let events = next.events();
    let fresh = events.iter().find(|event| event.kind == Kind::Image).expect("an image");
    assert!(fresh.has(flags::RECOVERY) && fresh.image().state.data == DataState::OK, "{events:?}");
    assert_eq!(image(&mut next, "B").0, OPEN_SUSPECT, "it was not published");
    assert_eq!(next.sd.counters().records_restored, 2);
    next.sd.check_invariants();
}

#[test]
fn a_service_that_was_taken_back_is_up_until_its_provider_says_otherwise() {
    let mut world = with_nip(kept());
    let mut store = Kept::default();
    world.publish(0, 1, 3, "A", &[(22, b"1")]);
    store.take(&mut world, 9);
    let mut next = World::new(kept());
    store.restore(&mut next, AS_IT_WAS);
    next.p2ps_up(1);
    let events = next.events();
    let told = events.iter().find(|event| event.kind == Kind::Service).expect("the service");
    assert!(told.has(flags::CACHED), "{told:?}");
    assert_eq!(image(&mut next, "A"), (OPEN_OK, vec![(22, b"1".to_vec())]));
    // A provider that goes on by updates alone is taken at its word.
    start_nip(&mut next);
    next.publish(0, 1, 3, "A", &[(22, b"2")]);
    next.down(0);
    let states = next.events();
    assert!(states.iter().any(|event| event.kind == Kind::Service), "it is down: {states:?}");
    next.sd.check_invariants();
}

#[test]
fn an_interactive_provider_takes_the_name_over_that_was_only_taken_back() {
    let mut world = with_nip(kept());
    let mut store = Kept::default();
    world.publish(0, 1, 3, "A", &[(22, b"1")]);
    store.take(&mut world, 9);
    let mut next = World::new(kept());
    next.p2ps_up(1);
    store.restore(&mut next, STALE);
    next.route_up(4);
    next.directory(4, vec![service(7, "NI_PUB")]);
    next.turn();
    assert!(!next.kinds().contains(&Kind::ServiceGone), "it goes on");
    next.open(1, "A");
    assert!(next.requests(4).iter().any(|(_, name, _)| name == "A"), "it is asked for");
    store.take(&mut next, 9);
    assert!(store.records.is_empty(), "its record is no more");
    next.sd.check_invariants();
}

#[test]
fn what_ends_is_no_record_any_more() {
    let mut world = with_nip(kept());
    let mut store = Kept::default();
    for (stream, name) in [(1, "A"), (2, "B")] {
        world.publish(0, stream, 3, name, &[(22, b"1")]);
    }
    store.take(&mut world, 9);
    world.provider_close(0, 1);
    world.publish(0, 3, 3, "NEVER_KEPT", &[(22, b"1")]);
    world.provider_close(0, 3);
    store.take(&mut world, 9);
    assert_eq!((store.records.len(), store.changes), (1, 3));
    // Ended and published again between two takings: it is there.
    world.provider_close(0, 2);
    world.publish(0, 2, 3, "B", &[(22, b"2")]);
    store.take(&mut world, 9);
    assert_eq!((store.records.len(), store.changes), (1, 5));
    world.sd.check_invariants();
}

#[test]
fn a_record_of_which_something_is_wrong_is_refused_and_nothing_is_left_of_it() {
    let mut world = with_nip(kept());
    let mut store = Kept::default();
    world.publish(0, 1, 3, "A", &[(22, b"1")]);
    store.take(&mut world, 9);
    let ((name, key), (parts, age)) = store.records.pop_first().expect("a record");
    let mut next = World::new(kept());
    next.p2ps_up(1);
    next.events();
    let mut restore = |service: &str, key: &[u8], parts: &[u8]| {
        next.sd.restore(next.now, &Record { service, key, parts, age }, STALE)
    };
    for length in 0..parts.len() {
        assert_eq!(restore(&name, &key, &parts[..length]), Err(RestoreError::Image), "{length}");
    }
    assert_eq!(restore(&name, &[0xFF, 6], &parts), Err(RestoreError::Key));
    assert_eq!(restore("", &key, &parts), Err(RestoreError::Service));
    assert_eq!(next.sd.items(), 0);
    assert!(next.events().is_empty(), "nobody hears of it");
    assert_eq!(
        next.sd.restore(next.now, &Record { service: &name, key: &key, parts: &parts, age }, STALE),
        Ok(Restored::Taken)
    );
    assert_eq!(
        next.sd.restore(next.now, &Record { service: &name, key: &key, parts: &parts, age }, STALE),
        Ok(Restored::Known)
    );
    next.sd.check_invariants();
}

#[test]
fn records_expire_by_age() {
    let mut world = with_nip(expiring(100, 0));
    let names = ["QUIET", "BUSY", "WATCHED"];
    for (stream, name) in (1..).zip(names) {
        world.publish(0, stream, 3, name, &[(22, b"1")]);
    }
    let watched = world.open(1, "WATCHED");
    world.pass(60);
    world.update(0, 2, &[(22, b"2")]);
    world.pass(39);
    assert_eq!(world.sd.counters().records_expired, 0, "no time is over");
    world.events();
    world.pass(2);
    assert_eq!((world.sd.counters().records_expired, world.sd.items()), (2, 2), "one that a P2PS still holds");
    let events = world.events();
    let told = events.iter().find(|event| event.handle == watched).expect("the watcher is told");
    assert!(told.kind == Kind::ItemStatus && told.has(flags::CLOSED), "{events:?}");
    // Published again it is new.
    world.publish(0, 1, 3, "QUIET", &[(22, b"3")]);
    assert_eq!(image(&mut world, "QUIET").0, OPEN_OK);
    world.pass(59);
    assert_eq!(world.sd.counters().records_expired, 3, "the busy one, too");
    world.sd.check_invariants();
}

#[test]
fn the_record_that_was_published_longest_ago_makes_room() {
    let mut world = with_nip(expiring(0, 3));
    for (stream, name) in (1..).zip(["A", "B", "C"]) {
        world.publish(0, stream, 3, name, &[(22, b"1")]);
    }
    world.update(0, 1, &[(22, b"2")]);
    world.publish(0, 4, 3, "D", &[(22, b"1")]);
    assert_eq!((world.sd.counters().records_expired, world.sd.items()), (1, 3));
    world.events();
    world.open_with(1, "B", flags::STREAMING | flags::SNAPSHOT_ONLY);
    assert!(world.kinds().contains(&Kind::Refused), "B was the oldest");
    assert_eq!(image(&mut world, "A").1, [(22, b"2".to_vec())]);
    world.sd.check_invariants();
}

#[test]
fn ages_go_on_over_a_restart() {
    let mut config = expiring(100, 2);
    config.records.kept = ServiceSet::All;
    let mut world = with_nip(config.clone());
    let mut store = Kept::default();
    for (stream, name) in (1..).zip(["A", "B"]) {
        world.publish(0, stream, 3, name, &[(22, b"1")]);
        world.pass(30);
    }
    store.take(&mut world, 9);
    // The clock of the next life begins anew.
    let mut next = World::new(config.clone());
    next.p2ps_up(1);
    assert_eq!(store.restore(&mut next, STALE), [Ok(Restored::Taken); 2]);
    next.pass(41);
    assert_eq!(next.sd.counters().records_expired, 1, "60 s before, and 41 since");
    store.records.values_mut().for_each(|(_, age)| *age += 50 * SECOND);
    let mut late = World::new(config);
    assert_eq!(store.restore(&mut late, STALE), [Ok(Restored::Expired), Ok(Restored::Taken)]);
    late.sd.check_invariants();
}

#[test]
fn nothing_is_noted_of_services_that_are_not_named() {
    let named = |name: &str| ServiceSet::Named([name.to_owned()].into());
    let records = RecordRules { kept: named("OTHER"), expiring: named("OTHER"), max_age: SECOND, max_number: 1 };
    let mut world = with_nip(rules(records));
    for (stream, name) in (1..).zip(["A", "B"]) {
        world.publish(0, stream, 3, name, &[(22, b"1")]);
    }
    world.pass(50);
    assert_eq!((world.sd.items(), world.sd.record_changes(), world.sd.counters().records_expired), (2, 0, 0));
}

#[test]
fn another_distributor_gets_all_that_is_held_in_parts() {
    let mut world = with_nip(Config::default());
    world.route_up(5);
    world.directory(5, vec![service(9, "FEED")]);
    for stream in 0..50 {
        world.publish(0, stream, 3, &format!("I{stream}"), &[(22, b"1")]);
    }
    world.provider_close(0, 7);
    world.refresh_with(0, &[(22, b"1")], |msg| {
        msg.stream_id = 99;
        msg.flags = rwf::msg::RefreshFlags::NONE;
        msg.part_num = Some(0);
        msg.key = Some(rwf::msg::MsgKey { name_type: Some(1), ..rwf::msg::MsgKey::item(3, b"NOT_WHOLE") });
    });
    let mut other = World::new(kept());
    other.p2ps_up(1);
    let (mut from, mut parts) = (0, 0);
    let how = Restore { as_stale: true, is_kept: false };
    loop {
        parts += 1;
        let mut given = 0;
        let next = world.sd.copy_records(from, 8, |record| {
            given += 1;
            assert_eq!(other.sd.restore(other.now, &record, how), Ok(Restored::Taken));
        });
        assert!(given <= 8);
        let Some(next) = next else { break };
        from = next;
    }
    assert!(parts > 6, "{parts}");
    assert_eq!((other.sd.items(), other.sd.record_changes()), (49, 49), "and they are to be kept there");
    assert_eq!(image(&mut other, "I49").0, OPEN_SUSPECT);
    other.sd.check_invariants();
}

/// A step of a random life.
#[derive(Debug, Clone, Copy)]
enum Step {
    Publish(u8, u8),
    Update(u8, u8),
    Close(u8),
    Pass(u8),
    Take(u8),
    Restart(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12_u8, any::<u8>()).prop_map(|(item, value)| Step::Publish(item, value)),
        6 => (0..12_u8, any::<u8>()).prop_map(|(item, value)| Step::Update(item, value)),
        1 => (0..12_u8).prop_map(Step::Close),
        2 => (0..40_u8).prop_map(Step::Pass),
        3 => (0..8_u8).prop_map(Step::Take),
        1 => any::<bool>().prop_map(Step::Restart),
    ]
}

/// What is to be held: the value of each item and when it was published last, and of which the provider has a stream.
#[derive(Debug, Default, Clone)]
struct Model {
    items: BTreeMap<u8, (u8, u64)>,
    streams: BTreeSet<u8>,
}

impl Model {
    fn expire(&mut self, now: u64, max_age: u64, max_number: usize) {
        let over = |(_, at): (u8, u64)| now >= at.saturating_add(max_age);
        self.items.retain(|_, &mut item| !over(item));
        while self.items.len() > max_number {
            let oldest = *self.items.iter().min_by_key(|(_, (_, at))| *at).expect("one").0;
            self.items.remove(&oldest);
        }
        let Self { items, streams } = self;
        streams.retain(|item| items.contains_key(item));
    }
}

proptest! {
    /// Whatever happens, the items that are held are those that the model has, and a restart brings back what was taken last.
    #[test]
    fn held_kept_and_restored_are_what_was_published(steps in prop::collection::vec(step(), 1..120)) {
        const MAX_AGE: u64 = 60;
        const MAX_NUMBER: u32 = 8;
        let mut config = expiring(MAX_AGE, MAX_NUMBER);
        config.records.kept = ServiceSet::All;
        let (mut world, mut store) = (with_nip(config.clone()), Kept::default());
        let (mut model, mut taken) = (Model::default(), Model::default());
        for step in steps {
            // No two items are published at one time, so that one is the oldest.
            world.now += SECOND / 1_000;
            let now = world.now;
            match step {
                Step::Publish(item, value) => {
                    world.publish(0, i32::from(item) + 1, 3, &format!("I{item}"), &[(22, &[value])]);
                    model.items.insert(item, (value, now));
                    model.streams.insert(item);
                    model.expire(now, u64::MAX, MAX_NUMBER as usize);
                }
                Step::Update(item, value) => {
                    world.update(0, i32::from(item) + 1, &[(22, &[value])]);
                    if model.streams.contains(&item) {
                        model.items.insert(item, (value, now));
                    }
                }
                Step::Close(item) => {
                    world.provider_close(0, i32::from(item) + 1);
                    if model.streams.remove(&item) {
                        model.items.remove(&item);
                    }
                }
                Step::Pass(seconds) => {
                    world.pass(u64::from(seconds));
                    // Timers come up to 20 ms late: nothing is due within the last of it.
                    let due_lately = |model: &Model, now: u64| {
                        model.items.values().any(|(_, at)| (now - 40 * SECOND / 1_000..=now).contains(&(at + MAX_AGE * SECOND)))
                    };
                    while due_lately(&model, world.now) {
                        world.now += 41 * SECOND / 1_000;
                        world.pass(0);
                    }
                    model.expire(world.now, MAX_AGE * SECOND, MAX_NUMBER as usize);
                }
                Step::Take(most) => {
                    store.take(&mut world, usize::from(most));
                    if !world.sd.has_record_changes() {
                        taken = model.clone();
                        prop_assert_eq!(store.records.len(), world.sd.items());
                    }
                }
                Step::Restart(all) => {
                    if all {
                        store.take(&mut world, usize::MAX);
                        taken = model.clone();
                    } else if world.sd.has_record_changes() {
                        continue;
                    }
                    let now = world.now;
                    world = World::new(config.clone());
                    world.now = now;
                    store.records.values_mut().for_each(|(_, age)| *age = 0);
                    let restored = store.restore(&mut world, STALE);
                    prop_assert!(restored.iter().all(|one| *one == Ok(Restored::Taken)), "{:?}", restored);
                    world.p2ps_up(1);
                    start_nip(&mut world);
                    model = taken.clone();
                    model.streams.clear();
                    // Which one is the oldest of those restored at once is not said: none of them is to expire by number here.
                    for (item, (value, _)) in model.items.clone() {
                        world.now += SECOND / 1_000;
                        world.publish(0, i32::from(item) + 1, 3, &format!("I{item}"), &[(22, &[value])]);
                        model.items.insert(item, (value, world.now));
                        model.streams.insert(item);
                    }
                }
            }
            world.events();
            world.sd.check_invariants();
        }
        prop_assert_eq!(world.sd.items(), model.items.len());
        for (item, (value, _)) in model.items {
            prop_assert_eq!(image(&mut world, &format!("I{item}")).1, vec![(22, vec![value])]);
        }
    }
}
