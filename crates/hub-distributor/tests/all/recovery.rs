//! Providers that go away and come back, and others that take over.

use crate::world::*;
use hub_distributor::{Balance, Config};
use hub_stream::{ALL, Kind, flags};
use rwf::msg::{Domain, RefreshFlags};
use rwf::rdm::directory::{Group, Load, Part};
use rwf::{DataState, State, StateCode, StreamState};

const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);

#[test]
fn a_lost_provider_that_comes_back_with_another_service_id_recovers_its_items() {
    let mut world = World::with_feed();
    let (a, _) = world.open_imaged(1, "A");
    let (b, _) = world.open_imaged(1, "B");
    world.down(0);
    let events = world.events();
    let kinds: Vec<_> = events.iter().map(|e| e.kind).collect();
    assert_eq!(kinds, [Kind::ServiceStatus, Kind::Service], "one Suspect for all, then the service is down");
    assert_eq!(
        (events[0].short_state().0, events[0].short_state().1),
        (StreamState::CLOSED_RECOVER, DataState::SUSPECT)
    );

    world.route_up(0);
    world.directory(0, vec![service(300, "FEED")]);
    assert_eq!(world.kinds(), [Kind::Service], "up again, under the same id");
    let sent = world.sent(0);
    let asked: Vec<_> = sent
        .iter()
        .filter_map(|m| match rwf::msg::Msg::decode(m).unwrap() {
            rwf::msg::Msg::Request(r) if r.domain == Domain::MARKET_PRICE => {
                Some((r.stream_id, r.key.service_id, r.key.name_lossy().into_owned()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(asked, [(5, Some(300), "A".into()), (6, Some(300), "B".into())]);
    world.update(0, 5, &[(22, b"0")]);
    world.refresh(0, 5, &[(22, b"2")], WHOLE);
    world.update(0, 5, &[(22, b"3")]);
    world.refresh(0, 6, &[(22, b"2")], WHOLE);
    let events = world.events();
    let recovered = flags::FIRST | flags::COMPLETE | flags::RECOVERY | flags::CLEAR_CACHE;
    let got: Vec<_> = events.iter().map(|e| (e.kind, e.handle, e.flags)).collect();
    let expected = [(Kind::Image, a, recovered), (Kind::Update, a, 0), (Kind::Image, b, recovered)];
    assert_eq!(got, expected, "exactly one Suspect before, no update before the image");
    // The next loss is told again.
    world.down(0);
    assert_eq!(world.kinds(), [Kind::ServiceStatus, Kind::Service]);
}

#[test]
fn an_item_that_waits_for_its_first_image_is_not_told_of_the_loss() {
    let mut world = World::with_feed();
    let (a, _) = world.open_imaged(1, "A");
    let b = world.open(1, "B");
    world.down(0);
    world.events();
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.requests(0);
    world.events();
    // The two queues take turns: streams by name are whatever the order was.
    world.refresh(0, 5, &[(22, b"1")], WHOLE);
    world.refresh(0, 6, &[(22, b"1")], WHOLE);
    for event in world.events() {
        assert_eq!(event.kind, Kind::Image);
        assert_eq!(event.has(flags::RECOVERY), event.handle == a, "{event:?}");
        assert!(event.handle == a || event.handle == b);
    }
}

#[test]
fn another_provider_takes_over_at_once_and_the_service_never_changes() {
    let mut world = World::with_two_providers(Balance::First);
    let (a, stream) = world.open_imaged(1, "A");
    world.down(0);
    let kinds = world.kinds();
    assert_eq!(kinds, [Kind::ServiceStatus], "the service stays up: no news of it");
    assert_eq!(world.requests(1).len(), 1);
    world.refresh(1, 5, &[(22, b"2")], WHOLE);
    let events = world.events();
    assert!(events[0].handle == a && events[0].has(flags::RECOVERY));
    // The first one comes back: nothing moves, new items go to it again.
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    assert!(world.kinds().is_empty());
    assert!(world.requests(0).iter().all(|r| r.1 != "A"));
    world.open(1, "B");
    assert_eq!(world.requests(0).len(), 1);
    let _ = stream;
}

#[test]
fn only_the_items_of_the_lost_provider_are_told() {
    let mut world = World::with_two_providers(Balance::Load);
    let (a, _) = world.open_imaged(1, "A");
    let b = world.open(1, "B");
    assert_eq!(world.requests(1).len(), 1, "the other has fewer items");
    world.refresh(1, 5, &[(22, b"1")], WHOLE);
    world.events();
    world.down(0);
    let events = world.events();
    assert_eq!(events.iter().map(|e| (e.kind, e.handle)).collect::<Vec<_>>(), [(Kind::ItemStatus, a)]);
    assert_eq!((events[0].flags, events[0].state().data), (0, DataState::SUSPECT));
    let _ = b;
}

#[test]
fn load_factors_decide_before_counts() {
    let mut world = World::with_two_providers(Balance::Load);
    let busy = with_load(state_update(7, true, true), Load { load_factor: Some(100), ..Load::default() });
    world.directory_update(0, vec![busy]);
    for name in ["A", "B", "C"] {
        world.open(1, name);
    }
    assert_eq!((world.requests(0).len(), world.requests(1).len()), (0, 3));
}

#[test]
fn what_a_service_advertises_only_grows() {
    let mut world = World::with_two_providers(Balance::First);
    let read = |body: &[u8]| {
        let length = usize::from(u16::from_le_bytes([body[0], body[1]]));
        let filters = &body[2 + length..];
        rwf::rdm::directory::Service::decode_filters(1, rwf::rdm::directory::Action::Add, filters).unwrap()
    };
    world.route_up(2);
    let mut third = service(9, "FEED");
    if let Some(Part::Set(info)) = &mut third.info {
        info.capabilities = vec![Domain::SYMBOL_LIST];
        info.qos = vec![rwf::Qos::new(rwf::Timeliness::DELAYED_UNKNOWN, rwf::Rate::TICK_BY_TICK)];
    }
    world.directory(2, vec![third]);
    let events = world.events();
    let entry = read(&events[0].body);
    let info = entry.info.unwrap().value().unwrap().clone();
    let domains: Vec<u8> = info.capabilities.iter().map(|domain| domain.0).collect();
    assert_eq!((domains, info.qos.len()), (vec![5, 6, 8, 10], 2));
    for id in [0, 1, 2] {
        world.down(id);
    }
    let events = world.events();
    let entry = read(&events.last().unwrap().body);
    let down = entry.info.unwrap().value().unwrap().clone();
    assert_eq!(down, info);
    assert!(!entry.state.unwrap().value().unwrap().up);
}

#[test]
fn closed_recover_is_recovered_here() {
    let mut world = World::with_feed();
    let (handle, stream) = world.open_imaged(1, "A");
    world.status(0, stream, state(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NO_RESOURCES));
    let events = world.events();
    assert_eq!(events.len(), 1);
    assert!(!events[0].has(flags::CLOSED));
    assert_eq!(
        (events[0].state().stream, events[0].state().code),
        (StreamState::CLOSED_RECOVER, StateCode::NO_RESOURCES)
    );
    assert!(world.requests(0).is_empty(), "not at once");
    world.pass(2);
    assert_eq!(world.requests(0).len(), 1);
    world.refresh(0, stream + 1, &[(22, b"2")], WHOLE);
    let events = world.events();
    assert!(events[0].handle == handle && events[0].has(flags::RECOVERY));
}

#[test]
fn closed_recover_as_the_first_answer_is_told_to_those_who_wait_once() {
    let mut world = World::with_feed();
    world.open(1, "A");
    let again = |world: &mut World| {
        let stream = world.requests(0)[0].0;
        world.status(0, stream, state(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NO_RESOURCES));
    };
    again(&mut world);
    let events = world.events();
    assert_eq!((events.len(), events[0].flags), (1, flags::PENDING_TOO));
    assert_eq!(events[0].state().stream, StreamState::CLOSED_RECOVER);
    world.pass(3);
    again(&mut world);
    assert!(world.events().is_empty());
    world.pass(5);
    let stream = world.requests(0)[0].0;
    world.refresh(0, stream, &[(22, b"1")], WHOLE);
    assert_eq!(world.events()[0].flags, flags::FIRST | flags::COMPLETE);
}

#[test]
fn a_service_state_does_not_touch_open_items() {
    let mut world = World::with_feed();
    let (handle, stream) = world.open_imaged(1, "A");
    world.directory_update(0, vec![state_update(7, false, false)]);
    assert_eq!(world.kinds(), [Kind::Service]);
    world.update(0, stream, &[(22, b"2")]);
    assert_eq!(world.events()[0].handle, handle);
    // New items wait, and are told.
    world.open_with(1, "B", flags::STREAMING);
    assert_eq!(world.kinds(), [Kind::ItemOpened, Kind::ItemStatus]);
    assert!(world.requests(0).is_empty());
    world.directory_update(0, vec![state_update(7, true, false)]);
    assert!(world.requests(0).is_empty(), "up, but not accepting");
    world.directory_update(0, vec![state_update(7, true, true)]);
    assert_eq!(world.requests(0).len(), 1);
}

#[test]
fn the_transient_status_of_a_service_reaches_its_items_once() {
    let mut world = World::with_feed();
    world.open_imaged(1, "A");
    let mut entry = state_update(7, true, true);
    if let Some(Part::Update(known)) = &mut entry.state {
        known.status = Some(state(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE).into());
    }
    world.directory_update(0, vec![entry]);
    let events = world.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].short_state().1, DataState::SUSPECT);
    // Not kept: a P2PS that comes later hears of the service alone.
    world.p2ps_up(2);
    assert_eq!(world.kinds(), [Kind::Service]);
}

#[test]
fn with_two_providers_a_service_status_is_for_the_items_of_the_one_that_sent_it() {
    let mut world = World::with_two_providers(Balance::Load);
    let (a, _) = world.open_imaged(1, "A");
    world.open(1, "B");
    world.refresh(1, 5, &[(22, b"1")], WHOLE);
    world.events();
    let mut entry = state_update(7, true, true);
    if let Some(Part::Update(known)) = &mut entry.state {
        known.status = Some(state(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE).into());
    }
    world.directory_update(0, vec![entry]);
    assert_eq!(world.events().iter().map(|e| (e.kind, e.handle)).collect::<Vec<_>>(), [(Kind::ItemStatus, a)]);
}

#[test]
fn what_a_service_or_group_status_made_good_is_told_when_it_is_lost() {
    for by_group in [false, true] {
        let mut world = World::with_feed();
        let (handle, stream) = world.open_imaged(1, "A");
        world.status(0, stream, state(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE));
        let good = state(StreamState::OPEN, DataState::OK, StateCode::NONE);
        let mut entry = state_update(7, true, true);
        if by_group {
            let change = Group { group: vec![0, 0], merged_to: None, status: Some(good.into()) };
            entry.groups = vec![Part::Update(change)];
        } else if let Some(Part::Update(known)) = &mut entry.state {
            known.status = Some(good.into());
        }
        world.directory_update(0, vec![entry]);
        world.events();
        world.down(0);
        let events = world.events();
        let told = events.iter().any(|e| e.kind == Kind::ServiceStatus || e.handle == handle);
        assert!(told, "by group {by_group}: {events:?}");
    }
}

#[test]
fn what_a_provider_says_of_its_service_does_not_reach_items_that_are_lost() {
    let mut world = World::with_feed();
    let (lost, _) = world.open_imaged(1, "LOST");
    world.down(0);
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.open(1, "NEW");
    let stream = world.requests(0).iter().find(|r| r.1 == "NEW").unwrap().0;
    world.refresh(0, stream, &[(22, b"1")], WHOLE);
    world.events();
    let good = state(StreamState::OPEN, DataState::OK, StateCode::NONE);
    let mut entry = state_update(7, true, true);
    if let Some(Part::Update(known)) = &mut entry.state {
        known.status = Some(good.into());
    }
    let group = Group { group: vec![0, 0], merged_to: None, status: Some(good.into()) };
    entry.groups = vec![Part::Update(group)];
    world.directory_update(0, vec![entry]);
    let events = world.events();
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events.iter().all(|e| e.kind == Kind::ItemStatus && e.handle != lost));
}

#[test]
fn a_reissue_while_the_item_is_lost_is_answered_by_the_recovery() {
    let mut world = World::with_feed();
    let (handle, _) = world.open_imaged(1, "A");
    world.down(0);
    let rwf = bytes_of(|w| request("A").encode(w));
    world.request(1, &hub_stream::Request::Reissue { handle, serial: Some(9), in_stream: false, rwf: &rwf }).unwrap();
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.sent(0);
    world.events();
    world.refresh(0, 5, &[(22, b"1")], WHOLE);
    let events = world.events();
    assert_eq!(
        (events[0].kind, events[0].target, events[0].arg),
        (Kind::Answered, 1, 9),
        "it was asked for with all of it"
    );
    assert!(events[1].has(flags::RECOVERY));
    assert!(world.requests(0).is_empty(), "and need not be asked for again");
}

#[test]
fn a_request_that_crosses_the_withdrawal_of_its_service_is_closed() {
    let mut world = World::with_feed();
    world.open_imaged(1, "A");
    world.open(1, "B");
    world.sent(0);
    world.directory_update(0, vec![rwf::rdm::directory::Service::delete(7)]);
    assert_eq!(world.closes(0), [6], "the provider may have opened it after it withdrew the service");
}

#[test]
fn groups_are_told_apart_by_provider_and_relayed_status_first() {
    let mut world = World::with_two_providers(Balance::Load);
    world.open(1, "A");
    world.open(1, "B");
    world.refresh(0, 5, &[(22, b"1")], WHOLE);
    world.refresh(1, 5, &[(22, b"1")], WHOLE);
    let groups: Vec<u32> = world.events().iter().filter(|e| e.kind == Kind::Image).map(|e| e.arg).collect();
    assert_ne!(groups[0], groups[1], "00 00 of one is not 00 00 of the other");

    let change = Group {
        group: vec![0, 0],
        merged_to: Some(vec![0, 5]),
        status: Some(state(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE).into()),
    };
    let mut entry = rwf::rdm::directory::Service::new(7, rwf::rdm::directory::Action::Update);
    entry.groups = vec![Part::Update(change)];
    world.directory_update(0, vec![entry]);
    let events = world.events();
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].kind, events[0].handle), (Kind::GroupStatus, groups[0]));
    assert_eq!(events[0].flags, flags::HAS_STATE | flags::MERGED);
    let merged = u32::from_le_bytes(events[0].body[..4].try_into().unwrap());
    assert!(merged != groups[0] && merged != groups[1]);
    // Items that come to 00 05 are in the group that the others were merged to; 00 00 is another from now on.
    world.open(1, "C");
    let stream = world.requests(0).last().unwrap().0;
    world.refresh_with(0, &[], |msg| {
        msg.stream_id = stream;
        msg.group_id = &[0, 5];
    });
    assert_eq!(world.events().last().unwrap().arg, merged);
    world.refresh(0, 5, &[(22, b"1")], RefreshFlags::REFRESH_COMPLETE);
    let again = world.events().last().unwrap().arg;
    assert!(again != groups[0] && again != merged);
}

#[test]
fn a_group_that_is_closed_for_recovery_is_asked_for_again() {
    let mut world = World::with_feed();
    let (a, _) = world.open_imaged(1, "A");
    world.open(1, "B");
    world.requests(0);
    world.refresh_with(0, &[], |msg| {
        msg.stream_id = 6;
        msg.group_id = &[0, 9];
    });
    world.events();
    let change = Group {
        group: vec![0, 0],
        merged_to: None,
        status: Some(state(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE).into()),
    };
    let mut entry = rwf::rdm::directory::Service::new(7, rwf::rdm::directory::Action::Update);
    entry.groups = vec![Part::Update(change)];
    world.directory_update(0, vec![entry]);
    let events = world.events();
    assert_eq!(events.iter().map(|e| (e.kind, e.handle)).collect::<Vec<_>>(), [(Kind::ItemStatus, a)]);
    world.pass(2);
    assert_eq!(world.requests(0).iter().map(|r| r.1.as_str()).collect::<Vec<_>>(), ["A"]);
}

#[test]
fn a_deleted_service_is_gone_with_its_items_and_may_come_back() {
    let mut world = World::with_feed();
    let (handle, stream) = world.open_imaged(1, "A");
    world.directory_update(0, vec![rwf::rdm::directory::Service::delete(7)]);
    assert_eq!(world.kinds(), [Kind::ServiceGone]);
    world.update(0, stream, &[(22, b"2")]);
    assert!(world.events().is_empty());
    world.open_request(1, 1, flags::STREAMING, &request("A"));
    assert_eq!(world.events()[0].short_state().2, StateCode::SOURCE_UNKNOWN);
    world.close(1, handle);
    assert_eq!(world.sd.items(), 0);
    world.directory_update(0, vec![service(8, "FEED")]);
    let events = world.events();
    assert_eq!((events[0].kind, events[0].arg), (Kind::Service, 1), "the same id for the same name");
}

#[test]
fn a_service_deleted_by_one_provider_lives_on_at_the_other() {
    let mut world = World::with_two_providers(Balance::First);
    let (a, _) = world.open_imaged(1, "A");
    world.directory_update(0, vec![rwf::rdm::directory::Service::delete(7)]);
    assert_eq!(world.kinds(), [Kind::ServiceStatus]);
    assert_eq!(world.requests(1).len(), 1);
    world.refresh(1, 5, &[(22, b"2")], WHOLE);
    assert!(world.events()[0].handle == a);
}

#[test]
fn a_closed_directory_is_asked_for_again() {
    let mut world = World::with_feed();
    world.open_imaged(1, "A");
    let closed = rwf::rdm::directory::Status {
        stream_id: 2,
        state: Some(state(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE).into()),
        ..Default::default()
    };
    world.message(0, |w| closed.encode(w));
    assert_eq!(world.kinds(), [Kind::ServiceStatus, Kind::Service]);
    world.pass(2);
    assert_eq!(world.requests(0).len(), 1, "the directory");
    world.directory(0, vec![service(7, "FEED")]);
    assert_eq!(world.requests(0).len(), 1, "the item");
}

#[test]
fn a_snapshot_under_way_is_asked_for_elsewhere() {
    let mut world = World::with_two_providers(Balance::First);
    world.open_with(1, "A", flags::SNAPSHOT_ONLY);
    assert_eq!(world.requests(0).len(), 1);
    world.events();
    world.down(0);
    assert_eq!(world.requests(1).len(), 1);
    assert!(world.kinds().iter().all(|kind| *kind != Kind::ItemStatus));
}

#[test]
fn opens_before_any_provider_wait_for_it() {
    let mut world = World::with_feed();
    world.down(0);
    world.events();
    let token = world.open_with(1, "A", flags::STREAMING);
    let events = world.events();
    assert_eq!(events.iter().map(|e| e.kind).collect::<Vec<_>>(), [Kind::ItemOpened, Kind::ItemStatus]);
    assert_eq!(events[0].arg, token);
    assert_eq!((events[1].state().stream, events[1].state().data), (StreamState::CLOSED_RECOVER, DataState::SUSPECT));
    world.route_up(0);
    world.requests(0);
    world.directory(0, vec![service(7, "FEED")]);
    assert_eq!(world.requests(0).len(), 1);
    world.events();
    world.refresh(0, 5, &[(22, b"1")], WHOLE);
    assert_eq!(world.events()[0].flags, flags::FIRST | flags::COMPLETE);
}

#[test]
fn a_set_cut_off_by_the_loss_begins_anew() {
    let mut world = World::with_feed();
    world.open(1, "BOOK");
    world.requests(0);
    world.refresh(0, 5, &[(1, b"a")], RefreshFlags::SOLICITED);
    assert_eq!(world.events()[0].flags, flags::FIRST);
    world.down(0);
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.events();
    world.refresh(0, 5, &[(1, b"a")], RefreshFlags::SOLICITED);
    world.refresh(0, 5, &[(2, b"b")], WHOLE);
    let flags_of: Vec<_> = world.events().iter().map(|e| e.flags).collect();
    let again = flags::RECOVERY;
    assert_eq!(flags_of, [again | flags::FIRST | flags::CLEAR_CACHE, again | flags::COMPLETE]);
}

#[test]
fn a_lost_item_is_good_by_its_image_and_not_by_a_status() {
    let mut world = World::with_feed();
    let (handle, _) = world.open_imaged(1, "A");
    world.down(0);
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.events();
    world.status(0, 5, State::OPEN_OK);
    assert!(world.events().iter().all(|e| e.handle != handle), "what was lost has not come yet");
    world.refresh(0, 5, &[(22, b"1")], WHOLE);
    assert!(world.events()[0].has(flags::RECOVERY));
    world.status(0, 5, State::OPEN_OK);
    assert_eq!(world.events()[0].kind, Kind::ItemStatus);
}

#[test]
fn the_end_of_a_set_that_is_good_again_is_followed_by_an_image_for_all() {
    let mut world = World::with_feed();
    world.p2ps_up(2);
    let (_, stream) = world.open_imaged(1, "A");
    world.open(2, "A");
    let part = |world: &mut World, number, flags| {
        world.refresh_with(0, &[(22, b"1")], |msg| {
            (msg.stream_id, msg.part_num, msg.flags) = (stream, Some(number), RefreshFlags::SOLICITED | flags);
        });
    };
    part(&mut world, 0, RefreshFlags::NONE);
    world.status(0, stream, State { data: DataState::SUSPECT, ..State::OPEN_OK });
    world.sent(0);
    part(&mut world, 1, RefreshFlags::REFRESH_COMPLETE);
    assert_eq!(world.requests(0).len(), 1, "P2PS 1 was told that it is suspect, and has no part in the set");
    world.events();
    part(&mut world, 0, RefreshFlags::REFRESH_COMPLETE);
    assert_eq!(world.events()[0].target, ALL);
}

#[test]
fn who_had_the_end_of_a_set_good_again_is_told_when_it_is_lost() {
    let mut world = World::with_feed();
    let (handle, stream) = world.open_imaged(1, "A");
    let part = |world: &mut World, number, data, flags| {
        world.refresh_with(0, &[(22, b"1")], |msg| {
            (msg.stream_id, msg.part_num, msg.flags) = (stream, Some(number), flags);
            msg.state = State { data, ..State::OPEN_OK };
        });
    };
    part(&mut world, 0, DataState::OK, RefreshFlags::NONE);
    part(&mut world, 1, DataState::SUSPECT, RefreshFlags::NONE);
    part(&mut world, 2, DataState::OK, RefreshFlags::REFRESH_COMPLETE);
    world.events();
    world.down(0);
    let events = world.events();
    let told = |e: &&crate::world::Ev| e.kind == Kind::ServiceStatus || e.kind == Kind::ItemStatus && e.flags == 0;
    assert!(events.iter().all(|e| e.kind != Kind::ItemStatus || e.handle == handle));
    assert_eq!(events.iter().filter(told).count(), 1, "it was good to whoever was in the set");
}

#[test]
fn an_answer_that_is_suspect_is_told_to_those_that_it_is_not_for() {
    let mut world = World::with_feed();
    world.p2ps_up(2);
    let (handle, stream) = world.open_imaged(1, "A");
    world.open(2, "A");
    world.events();
    world.refresh_with(0, &[(22, b"1")], |msg| {
        (msg.stream_id, msg.flags) = (stream, WHOLE);
        msg.state = State { data: DataState::SUSPECT, ..State::OPEN_OK };
    });
    let events = world.events();
    assert_eq!((events[0].kind, events[0].handle, events[0].target), (Kind::ItemStatus, handle, ALL));
    assert_eq!(events[0].state().data, DataState::SUSPECT);
    assert_eq!((events[1].kind, events[1].target), (Kind::Image, 2));
}

#[test]
fn what_one_of_two_providers_does_not_serve_is_asked_for_at_the_other() {
    let mut world = World::with_feed();
    world.route_up(1);
    world.directory(1, vec![service(8, "FEED")]);
    world.events();
    world.sent(1);
    let handle = world.open(1, "A");
    let (at, stream) = [0, 1].into_iter().find_map(|id| Some((id, world.requests(id).first()?.0))).unwrap();
    world.status(at, stream, state(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE));
    world.pass(2);
    assert!(world.requests(at).is_empty(), "it has just said that it has none");
    assert_eq!(world.requests(1 - at).len(), 1);
    // No answer is a failure too, and then the first one has its turn again.
    world.pass(20);
    assert_eq!((world.closes(1 - at).len(), world.requests(at).len()), (1, 1));
    assert_eq!(world.open(1, "A"), handle);
}

/// A world with P2PS 1 and a provider of FEED.
fn world_with(config: Config) -> World {
    let mut world = World::new(config);
    world.p2ps_up(1);
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.events();
    world.sent(0);
    world
}

#[test]
fn an_item_that_is_asked_for_in_vain_too_often_ends() {
    let mut world = world_with(Config { retry_limit: 2, ..Config::default() });
    let handle = world.open(1, "A");
    let gone = state(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NO_RESOURCES);
    for _ in 0..2 {
        let stream = world.requests(0)[0].0;
        world.status(0, stream, gone);
        assert!(world.events().iter().all(|event| !event.has(flags::CLOSED)));
        world.pass(5);
    }
    // A first answer begins the count anew.
    let stream = world.requests(0)[0].0;
    world.refresh(0, stream, &[(22, b"1")], WHOLE);
    world.events();
    world.status(0, stream, gone);
    for _ in 0..2 {
        world.pass(5);
        let stream = world.requests(0)[0].0;
        world.events();
        world.status(0, stream, gone);
    }
    let events = world.events();
    assert_eq!((events.len(), events[0].handle, events[0].has(flags::CLOSED)), (1, handle, true));
    let state = events[0].state();
    assert_eq!((state.stream, state.data), (StreamState::CLOSED, DataState::SUSPECT));
    assert!(state.text_lossy().contains("retryLimit"), "{state:?}");
    world.pass(200);
    assert!(world.requests(0).is_empty());
    assert_eq!(world.sd.counters().given_up, 1);
    world.close(1, handle);
    world.sd.check_invariants();
    assert_eq!(world.sd.items(), 0);
}

#[test]
fn what_a_provider_never_answers_ends_at_the_limit_too() {
    let mut world = world_with(Config { retry_limit: 1, request_timeout: 5_000_000_000, ..Config::default() });
    let handle = world.open(1, "A");
    world.pass(4 * 6);
    assert_eq!(world.requests(0).len(), 2);
    let events = world.events();
    let last = events.last().expect("it is told");
    assert_eq!((last.handle, last.has(flags::CLOSED)), (handle, true), "{events:?}");
}

#[test]
fn what_a_provider_closes_for_good_is_recovered_where_that_is_asked_for() {
    let closed = state(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND);
    for recovers in [false, true] {
        let mut world = world_with(Config { recover_on_close: recovers, ..Config::default() });
        let (handle, stream) = world.open_imaged(1, "A");
        world.status(0, stream, closed);
        let events = world.events();
        assert_eq!((events.len(), events[0].has(flags::CLOSED)), (1, !recovers), "{events:?}");
        let told = if recovers { StreamState::CLOSED_RECOVER } else { StreamState::CLOSED };
        assert_eq!((events[0].state().stream, events[0].state().code), (told, StateCode::NOT_FOUND));
        world.pass(2);
        let asked = world.requests(0);
        assert_eq!(asked.len(), usize::from(recovers));
        for (stream, ..) in asked {
            world.refresh(0, stream, &[(22, b"2")], WHOLE);
            let events = world.events();
            assert!(events[0].handle == handle && events[0].has(flags::RECOVERY));
        }
    }
}

#[test]
fn what_is_refused_from_the_start_or_denied_ends_all_the_same() {
    let mut world = world_with(Config { recover_on_close: true, ..Config::default() });
    world.open(1, "NONE");
    let stream = world.requests(0)[0].0;
    world.status(0, stream, state(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND));
    assert!(world.events()[0].has(flags::CLOSED));
    let (_, stream) = world.open_imaged(1, "DENIED");
    world.status(0, stream, state(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_ENTITLED));
    assert!(world.events()[0].has(flags::CLOSED));
    world.pass(100);
    assert!(world.requests(0).is_empty());
}

#[test]
fn what_is_refused_from_the_start_is_asked_for_again_where_that_is_asked_for() {
    let mut world = world_with(Config { poll_refused: true, ..Config::default() });
    let handle = world.open(1, "LATE");
    let stream = world.requests(0)[0].0;
    world.status(0, stream, state(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND));
    let events = world.events();
    assert!(!events[0].has(flags::CLOSED) && events[0].has(flags::PENDING_TOO), "{events:?}");
    assert_eq!((events[0].state().stream, events[0].state().code), (StreamState::CLOSED_RECOVER, StateCode::NOT_FOUND));
    // Refused again: who waits has been told.
    world.pass(2);
    let stream = world.requests(0)[0].0;
    world.status(0, stream, state(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND));
    world.pass(5);
    let stream = world.requests(0)[0].0;
    world.events();
    world.refresh(0, stream, &[(22, b"2")], WHOLE);
    let events = world.events();
    assert_eq!((events[0].kind, events[0].handle), (Kind::Image, handle));
    // Had, and then closed for good, it ends as ever; and so does one that nobody may have.
    world.status(0, stream, state(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND));
    assert!(world.events()[0].has(flags::CLOSED));
    world.open(1, "DENIED");
    let stream = world.requests(0)[0].0;
    world.status(0, stream, state(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_ENTITLED));
    assert!(world.events()[0].has(flags::CLOSED));
}

#[test]
fn an_item_that_stays_suspect_has_its_image_asked_for() {
    let mut world = world_with(Config { stale_recovery_retry: 100_000_000_000, ..Config::default() });
    let (handle, stream) = world.open_imaged(1, "A");
    let (_, other) = world.open_imaged(1, "B");
    let suspect = state(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE);
    world.status(0, stream, suspect);
    world.status(0, other, suspect);
    world.pass(50);
    world.status(0, other, state(StreamState::OPEN, DataState::OK, StateCode::NONE));
    world.pass(51);
    let asked = world.requests(0);
    assert_eq!(asked.iter().map(|request| request.0).collect::<Vec<_>>(), [stream], "the other one is good again");
    world.events();
    // The item is Suspect still, and so asked for again.
    world.refresh_with(0, &[(22, b"2")], |msg| (msg.stream_id, msg.state.data) = (stream, DataState::SUSPECT));
    assert!(world.events().is_empty(), "nobody waits for an image, and its state is no news");
    world.pass(101);
    assert_eq!(world.requests(0).len(), 1);
    world.refresh(0, stream, &[(22, b"3")], WHOLE);
    let events = world.events();
    assert_eq!((events[0].kind, events[0].handle), (Kind::Image, handle), "who watches has what is good again");
    world.pass(300);
    assert!(world.requests(0).is_empty());
    assert_eq!(world.sd.counters().stale_asked, 2);
    world.sd.check_invariants();
}

#[test]
fn a_group_that_stays_suspect_has_its_images_asked_for() {
    let mut world = world_with(Config { stale_recovery_retry: 10_000_000_000, ..Config::default() });
    world.open_imaged(1, "A");
    world.open_imaged(1, "B");
    let suspect = state(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE);
    let group = Group { group: vec![0, 0], merged_to: None, status: Some(suspect.into()) };
    let mut entry = state_update(7, true, true);
    entry.groups = vec![Part::Update(group)];
    world.directory_update(0, vec![entry]);
    world.pass(11);
    assert_eq!(world.requests(0).len(), 2);
}
