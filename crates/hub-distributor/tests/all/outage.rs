//! Outages are worked off in turns: nobody else waits for them, and what happens meanwhile finds its end.

use crate::world::*;
use hub_distributor::{Balance, Config};
use hub_stream::{Kind, flags};
use rwf::msg::{Msg, RefreshFlags};
use rwf::rdm::directory::{self, Action, Service};
use rwf::{DataState, StateCode, StreamState};
use std::collections::BTreeMap;

const ITEMS: usize = 1_000;
const BUDGET: usize = 50;
const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);

fn config() -> Config {
    Config {
        balance: Balance::First,
        work_per_turn: BUDGET as u32,
        opens_per_turn: u32::MAX,
        open_window: u32::MAX,
        retry_interval: SECOND,
        ..Config::default()
    }
}

/// Provider 0 has FEED with so many items that P2PS 1 has open; provider 1 has OTHER with one item. The handles of FEED by name, and the
/// stream of the other item.
fn many_items() -> (World, BTreeMap<String, u32>, i32) {
    let mut world = World::new(config());
    world.p2ps_up(1);
    world.p2ps_up(2);
    for (id, name) in [(0, "FEED"), (1, "OTHER")] {
        world.route_up(id);
        world.directory(id, vec![service(7, name)]);
    }
    world.events();
    world.sent(0);
    world.sent(1);
    world.open_request(1, 2, flags::STREAMING, &request("S"));
    let stream = world.requests(1)[0].0;
    world.refresh(1, stream, &[(22, b"1")], WHOLE);
    let tokens: BTreeMap<u32, String> =
        (0..ITEMS).map(|n| format!("I{n}")).map(|name| (world.open_with(1, &name, flags::STREAMING), name)).collect();
    let opened = world.events().into_iter().filter(|e| e.kind == Kind::ItemOpened);
    let handles = opened.filter_map(|e| Some((tokens.get(&e.arg)?.clone(), e.handle))).collect();
    answer(&mut world, 0);
    world.events();
    (world, handles, stream)
}

/// Answers every request that has come to a provider; the names.
fn answer(world: &mut World, id: u32) -> Vec<String> {
    let mut asked = world.requests(id);
    // Login and directory have the streams before.
    asked.retain(|(stream, ..)| *stream >= 5);
    for (stream, ..) in &asked {
        world.refresh(id, *stream, &[(22, b"1")], WHOLE);
    }
    asked.into_iter().map(|(_, name, _)| name).collect()
}

/// The next turn, if there is something left to do.
fn next_turn(world: &mut World) -> bool {
    let goes_on = world.sd.timeout() == Some(0);
    if goes_on {
        world.now += 1_000_000;
        world.sd.on_timer(world.now, &mut world.sent);
    }
    goes_on
}

#[test]
fn the_items_of_a_lost_provider_are_told_in_turns_and_others_are_served_in_each() {
    let (mut world, handles, stream) = many_items();
    let before = world.sd.counters().items_touched;
    world.down(0);
    let mut told = BTreeMap::new();
    let mut turns = 1;
    loop {
        world.update(1, stream, &[(22, b"2")]);
        let events = world.events();
        assert_eq!(events.iter().filter(|e| e.kind == Kind::Update).count(), 1, "the other service in turn {turns}");
        let lost: Vec<_> = events.iter().filter(|e| e.kind == Kind::ItemStatus).collect();
        assert!(lost.len() <= BUDGET, "{} in turn {turns}", lost.len());
        for event in lost {
            let state = event.state();
            assert_eq!((state.stream, state.data), (StreamState::CLOSED_RECOVER, DataState::SUSPECT));
            *told.entry(event.handle).or_insert(0) += 1;
        }
        if !next_turn(&mut world) {
            break;
        }
        turns += 1;
    }
    assert!(told.len() == ITEMS && told.values().all(|&times| times == 1), "each once: {} in {turns}", told.len());
    assert!(handles.values().all(|handle| told.contains_key(handle)) && turns >= ITEMS / BUDGET);
    assert_eq!(world.sd.counters().items_touched - before, ITEMS as u64, "no item is looked at twice");
    // The route comes back, and has all of them again.
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.turn();
    world.events();
    assert_eq!(answer(&mut world, 0).len(), ITEMS);
    assert!(world.events().iter().all(|e| e.kind == Kind::Image && e.has(flags::RECOVERY)));
}

#[test]
fn many_services_of_a_lost_provider_are_told_in_turns() {
    const SERVICES: u16 = 500;
    let mut world = World::new(config());
    world.p2ps_up(1);
    world.route_up(0);
    world.directory(0, (1..=SERVICES).map(|n| service(n, &format!("S{n}"))).collect());
    world.turn();
    world.events();
    world.down(0);
    let mut told = 0;
    loop {
        let events = world.events();
        assert!(events.len() <= 1 && events.iter().all(|e| e.kind == Kind::Service), "{events:?}");
        told += events.len();
        if !next_turn(&mut world) {
            break;
        }
    }
    assert_eq!(told, usize::from(SERVICES), "each is down");
}

#[test]
fn what_is_asked_of_an_item_that_is_yet_to_be_lost_is_answered_when_it_is_back() {
    let (mut world, handles, _) = many_items();
    world.down(0);
    world.events();
    world.sent(0);
    // A slice is lost, and the others are not: of those one is opened by another P2PS, one reissued, one asked for again, one closed.
    let [opened, reissued, refreshed, closed] = ["I990", "I991", "I992", "I993"].map(|name| handles[name]);
    world.open_with(2, "I990", flags::STREAMING);
    let rwf = bytes_of(|w| request("I991").encode(w));
    let reissue = hub_stream::Request::Reissue { handle: reissued, serial: Some(1), in_stream: true, rwf: &rwf };
    world.request(1, &reissue).unwrap();
    world.request(1, &hub_stream::Request::Refresh { handle: refreshed, in_stream: true }).unwrap();
    world.request(1, &hub_stream::Request::Generic { handle: refreshed, rwf: &rwf }).unwrap();
    world.close(1, closed);
    world.events();
    assert!(world.sent(0).is_empty(), "the session is gone, nothing is sent to it");
    world.turn();
    let events = world.events();
    for handle in [opened, reissued, refreshed] {
        assert!(events.iter().any(|e| e.kind == Kind::ItemStatus && e.handle == handle), "{handle} is told");
    }
    assert!(events.iter().all(|e| e.handle != closed), "nobody has it");
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.turn();
    let names = answer(&mut world, 0);
    world.turn();
    let again = answer(&mut world, 0);
    assert_eq!(names.len(), ITEMS - 1, "all but the one that was closed");
    let events = world.events();
    for handle in [opened, reissued, refreshed] {
        let images = events.iter().filter(|e| e.kind == Kind::Image && e.handle == handle).count();
        assert!(images >= 1, "{handle}: {again:?}");
    }
}

#[test]
fn a_provider_that_is_back_in_the_middle_has_its_items_again_in_either_place() {
    for slot in [0, 2] {
        let (mut world, handles, _) = many_items();
        world.down(0);
        world.events();
        // In its old place, where the rest is lost at once, or in another.
        world.route_up(slot);
        world.directory(slot, vec![service(9, "FEED")]);
        world.events();
        world.turn();
        world.events();
        let names = answer(&mut world, slot);
        assert_eq!(names.len(), ITEMS, "slot {slot}");
        let images: Vec<_> = world.events().into_iter().filter(|e| e.kind == Kind::Image).collect();
        assert_eq!(images.len(), ITEMS);
        for image in images {
            assert!(image.has(flags::RECOVERY), "{image:?}");
        }
        // The next loss is told to all of them again.
        world.down(slot);
        world.turn();
        let told = world.events().into_iter().filter(|e| e.kind == Kind::ItemStatus).count();
        assert_eq!(told, handles.len(), "slot {slot}");
    }
}

#[test]
fn a_session_that_comes_in_the_middle_of_an_outage_does_not_hurry_it() {
    let (mut world, ..) = many_items();
    world.down(0);
    let before = world.sd.counters().items_touched;
    let id = world.sd.free_sessions().next().expect("numbers have no end").0;
    assert!(id > 1, "0 still has items, 1 has a session, and so has no other");
    world.route_up(id);
    world.directory(id, vec![service(7, "FEED")]);
    let touched = world.sd.counters().items_touched - before;
    assert!(touched <= BUDGET as u64, "{touched} items in one turn");
    while next_turn(&mut world) {}
    assert_eq!(world.sd.free_sessions().next().map(|free| free.0), Some(0), "nothing is left of it");
    world.turn();
    assert_eq!(answer(&mut world, id).len(), ITEMS);
}

#[test]
fn what_is_published_again_in_the_middle_of_an_outage_stays_good() {
    let mut world = World::new(config());
    world.p2ps_up(1);
    world.nip_up(5);
    world.directory(5, vec![service(3, "FEED")]);
    world.turn();
    for n in 0..ITEMS as i32 {
        world.publish(5, n + 10, 3, &format!("I{n}"), &[(22, b"1")]);
    }
    world.events();
    let (a, b) = (world.open(1, "I998"), world.open(1, "I999"));
    world.down(5);
    world.nip_up(6);
    world.directory(6, vec![service(4, "FEED")]);
    world.events();
    assert_eq!(world.sd.timeout(), Some(0), "most of it is yet to be lost");
    world.publish(6, 10, 4, "I998", &[(22, b"2")]);
    let events = world.events();
    let image = events.iter().find(|e| e.kind == Kind::Image && e.handle == a).expect("published by another");
    assert_eq!(fields_of(image.image().body), [(22, b"2".to_vec())]);
    world.turn();
    let events = world.events();
    assert!(events.iter().all(|e| e.handle != a || e.kind != Kind::ItemStatus), "it is not lost: {events:?}");
    assert!(events.iter().any(|e| e.handle == b && e.kind == Kind::ItemStatus), "nobody publishes it");
    world.update(6, 10, &[(22, b"3")]);
    assert!(world.events().iter().any(|e| e.kind == Kind::Update && e.handle == a));
}

fn deleted(id: u16) -> Service {
    Service { info: None, state: None, ..Service::new(id, Action::Delete) }
}

#[test]
fn a_service_that_is_deleted_ends_its_items_in_turns_and_is_offered_again_when_they_are_over() {
    let (mut world, handles, stream) = many_items();
    let before = world.sd.counters().items_touched;
    world.directory_update(0, vec![deleted(7)]);
    assert_eq!(world.kinds(), [Kind::ServiceGone], "one message for all");
    // The service is back before its items are over. Nobody is told until then, and nobody opens what is about to end.
    world.directory_update(0, vec![service(8, "FEED")]);
    world.open_with(2, "I500", flags::STREAMING);
    assert_eq!(world.kinds(), [Kind::Refused], "not known for now");
    let mut turns = 1;
    let mut events = Vec::new();
    while next_turn(&mut world) {
        world.update(1, stream, &[(22, b"2")]);
        events.extend(world.events());
        let touched = world.sd.counters().items_touched - before;
        turns += 1;
        assert!(touched <= (turns * BUDGET) as u64, "{touched} in {turns} turns");
    }
    let updates = events.iter().filter(|e| e.kind == Kind::Update).count();
    assert_eq!((updates, turns >= ITEMS / BUDGET), (turns - 1, true), "the other service in each of {turns} turns");
    let told: Vec<Kind> = events.iter().map(|e| e.kind).filter(|&kind| kind != Kind::Update).collect();
    assert_eq!(told, [Kind::Service], "it is there again");
    assert_eq!(world.closes(0), Vec::<i32>::new(), "the provider has closed them itself");
    // Handles that were open are given back, and its names are new ones.
    for &handle in handles.values() {
        world.close(1, handle);
    }
    let again = world.open(2, "I500");
    assert_eq!(answer(&mut world, 0), ["I500"]);
    let image = world.events().into_iter().find(|e| e.kind == Kind::Image).expect("its image");
    assert_eq!((image.handle, world.sd.items()), (again, 2));
}

#[test]
fn a_directory_that_is_closed_takes_its_items_in_turns_and_may_come_back_in_the_middle() {
    let (mut world, handles, _) = many_items();
    let close = directory::Status {
        stream_id: 2,
        state: Some(state(StreamState::CLOSED, DataState::SUSPECT, StateCode::NONE).into()),
        ..Default::default()
    };
    world.message(0, |w| close.encode(w));
    let first = world.events();
    assert_eq!(first.iter().filter(|e| e.kind == Kind::ItemStatus).count(), BUDGET);
    world.directory(0, vec![service(9, "FEED")]);
    world.request(1, &hub_stream::Request::Refresh { handle: handles["I900"], in_stream: true }).unwrap();
    assert!(answer(&mut world, 0).is_empty(), "nothing is asked for there before all have left");
    world.turn();
    let told = world.events().into_iter().filter(|e| e.kind == Kind::ItemStatus && !e.has(flags::WAITING_ONLY)).count();
    assert_eq!(told, ITEMS - BUDGET);
    assert_eq!(answer(&mut world, 0).len(), ITEMS);
    let images = world.events().into_iter().filter(|e| e.kind == Kind::Image && e.has(flags::RECOVERY)).count();
    assert_eq!(images, ITEMS);
}

#[test]
fn a_session_that_is_lost_while_its_service_is_withdrawn_is_gone_to_its_end() {
    for slot in [0, 2] {
        let (mut world, handles, _) = many_items();
        world.directory_update(0, vec![deleted(7)]);
        world.directory_update(0, vec![service(8, "FEED")]);
        world.down(0);
        world.route_up(slot);
        world.directory(slot, vec![service(9, "FEED")]);
        world.turn();
        for &handle in handles.values() {
            world.close(1, handle);
        }
        world.events();
        world.sent(slot);
        world.open(1, "I1");
        assert_eq!(answer(&mut world, slot), ["I1"], "slot {slot}");
        assert_eq!(world.sd.items(), 2);
    }
}

#[test]
fn a_provider_of_the_other_kind_takes_over_when_the_last_item_has_changed() {
    let (mut world, _, _) = many_items();
    world.nip_up(5);
    world.directory(5, vec![service(3, "FEED")]);
    world.route_up(6);
    world.events();
    world.sd.notices().for_each(drop);
    world.down(0);
    world.turn();
    let events = world.events();
    assert!(events.iter().all(|e| e.kind != Kind::ServiceGone));
    assert!(world.sent.closed.iter().any(|(id, _)| *id == 5), "it publishes all of it when it comes back");
    world.down(5);
    world.nip_up(5);
    world.directory(5, vec![service(3, "FEED")]);
    world.publish(5, 10, 3, "I1", &[(22, b"2")]);
    world.turn();
    world.events();
    world.open(1, "I1");
    assert!(world.sd.notices().any(|notice| notice.to_string().contains("FEED")));
}

#[test]
fn a_service_that_comes_and_goes_twice_in_a_turn_leaves_no_stream_open_twice() {
    let mut world = World::with_two_p2pss(Config { work_per_turn: 1, ..Config::default() });
    // Another provider has the service, and takes nothing.
    world.route_up(1);
    world.directory(1, vec![service(7, "FEED"), state_update(7, true, false)]);
    for name in ["A", "B", "C"] {
        world.open_imaged(1, name);
    }
    world.turn();
    world.sent(0);
    let gone = || directory::Service::delete(7);
    world.directory_update(0, vec![gone(), service(7, "FEED"), gone(), service(7, "FEED")]);
    let mut open = BTreeMap::new();
    for _ in 0..20 {
        for sent in world.sent(0) {
            match Msg::decode(&sent).unwrap() {
                Msg::Request(request) => {
                    let name = request.key.name.unwrap().to_vec();
                    assert!(!open.values().any(|known| *known == name), "asked for twice: {open:?}");
                    open.insert(request.stream_id, name);
                    world.refresh(0, request.stream_id, &[(22, b"1")], WHOLE);
                }
                Msg::Close(close) => drop(open.remove(&close.stream_id)),
                other => panic!("{other:?}"),
            }
        }
        world.turn();
    }
    assert_eq!(open.len(), 3);
}
