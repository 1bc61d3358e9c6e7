//! Items of interactive providers: open, image, updates, late joiners, snapshots, private streams, close.

use crate::world::*;
use hub_distributor::Config;
use hub_stream::{Kind, Request, flags};
use rwf::msg::{Domain, Msg, Priority, RefreshFlags, RequestFlags, RequestMsg};
use rwf::rdm::directory::Load;
use rwf::{DataState, DataType, Qos, StateCode, StreamState};

const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);

#[test]
fn an_item_is_opened_imaged_updated_and_closed() {
    let mut world = World::with_feed();
    let token = world.open_with(1, "IBM.N", flags::STREAMING);
    let events = world.events();
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].kind, events[0].target, events[0].arg), (Kind::ItemOpened, 1, token));
    let handle = events[0].handle;

    let sent = world.sent(0);
    let Msg::Request(request) = Msg::decode(&sent[0]).unwrap() else { panic!() };
    assert_eq!((sent.len(), request.stream_id, request.domain), (1, 5, Domain::MARKET_PRICE));
    assert_eq!(
        (request.key.service_id, request.key.name, request.key.name_type),
        (Some(7), Some(&b"IBM.N"[..]), Some(1))
    );
    assert_eq!((request.qos, request.worst_qos, request.priority), (Some(QOS), None, Some(Priority::default())));
    assert_eq!(request.flags, RequestFlags::STREAMING);

    world.refresh(0, 5, &[(22, b"\x0c\x01"), (25, b"\x0c\x02")], WHOLE);
    let events = world.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].flags, flags::FIRST | flags::COMPLETE);
    assert_ne!(events[0].arg, 0, "an item has a group");
    assert_eq!(events[0].image().stream_id, 5, "relayed as it came");

    world.update(0, 5, &[(22, b"\x0c\x03")]);
    let events = world.events();
    assert_eq!((events[0].kind, events[0].handle, events[0].flags), (Kind::Update, handle, 0));
    let Msg::Update(update) = Msg::decode(&events[0].body).unwrap() else { panic!() };
    assert_eq!(fields_of(update.body), [(22, b"\x0c\x03".to_vec())]);

    world.close(1, handle);
    assert_eq!(world.closes(0), [5]);
    assert_eq!(world.sd.items(), 0);
    world.update(0, 5, &[(22, b"\x0c\x04")]);
    assert!(world.events().is_empty());
    assert_eq!(world.sd.counters().dropped_unknown_stream, 1);
}

#[test]
fn three_hundred_p2pss_share_an_item_and_the_last_one_closes_it() {
    let mut world = World::with_feed();
    for id in 2..=300 {
        world.p2ps_up(id);
    }
    world.events();
    let (handle, stream) = world.open_imaged(1, "IBM.N");
    for id in 2..=300 {
        assert_eq!(world.open(id, "IBM.N"), handle);
    }
    assert_eq!(world.requests(0).len(), 1, "one image for all that came since");
    world.refresh(0, stream, &[(22, b"1")], WHOLE);
    let events = world.events();
    assert!(events.iter().all(|event| event.kind == Kind::Image));
    let targets: Vec<u16> = events.iter().map(|event| event.target).collect();
    assert_eq!(targets, (2..=300).collect::<Vec<u16>>(), "the first has its image");
    for id in (1..=300).filter(|id| *id != 299) {
        world.close(id, handle);
    }
    assert!(world.closes(0).is_empty(), "one of them has it open");
    world.p2ps_down(150);
    world.request(299, &hub_stream::Request::Refresh { handle, in_stream: false }).unwrap();
    assert_eq!(world.requests(0).len(), 1);
    world.close(299, handle);
    assert_eq!(world.closes(0), [stream]);
    assert_eq!(world.sd.items(), 0);
}

#[test]
fn an_image_goes_to_one_of_three_hundred_p2pss_alone() {
    let mut world = World::new(Config { point_to_point: true, ..Config::default() });
    for id in 1..=300 {
        world.p2ps_up(id);
    }
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.events();
    world.sent(0);
    let handle = world.open(1, "IBM.N");
    world.open(299, "IBM.N");
    world.open(300, "IBM.N");
    let (stream, ..) = world.requests(0)[0];
    world.refresh(0, stream, &[(22, b"1")], WHOLE);
    let alone = |world: &mut World| {
        let mut ids = Vec::new();
        world.sd.point_to_point_blocks(|id, _| ids.push(id));
        ids
    };
    assert_eq!(alone(&mut world), [1, 299, 300], "all that wait for it");
    world.request(299, &hub_stream::Request::Refresh { handle, in_stream: false }).unwrap();
    world.refresh(0, stream, &[(22, b"2")], WHOLE);
    assert!(world.kinds().is_empty(), "not by the stream");
    assert_eq!(alone(&mut world), [299]);
    assert_eq!(world.sd.counters().point_to_point_images, 4);
}

#[test]
fn an_update_with_a_key_says_so() {
    let mut world = World::with_feed();
    let (handle, stream) = world.open_imaged(1, "IBM.N");
    let msg = rwf::msg::UpdateMsg {
        key: Some(rwf::msg::MsgKey::item(7, b"IBM.N")),
        ..rwf::msg::UpdateMsg::new(Domain::MARKET_PRICE, stream)
    };
    world.message(0, |w| msg.encode(w));
    let events = world.events();
    assert_eq!((events[0].handle, events[0].flags), (handle, flags::HAS_KEY));
}

#[test]
fn two_p2ps_share_one_provider_stream_and_the_last_one_closes_it() {
    let mut world = World::with_feed();
    world.p2ps_up(2);
    world.events();
    let a = world.open(1, "IBM.N");
    let b = world.open(2, "IBM.N");
    assert_eq!(a, b);
    assert_eq!(world.requests(0).len(), 1, "one stream, and the first image serves both");
    world.refresh(0, 5, &[(22, b"1")], WHOLE);
    assert_eq!(world.kinds(), [Kind::Image]);
    world.close(1, a);
    assert!(world.closes(0).is_empty());
    world.update(0, 5, &[(22, b"2")]);
    assert_eq!(world.kinds(), [Kind::Update]);
    world.close(2, b);
    assert_eq!(world.closes(0), [5]);
}

#[test]
fn a_late_joiner_causes_one_reissue_that_all_who_wait_share() {
    let mut world = World::with_feed();
    world.p2ps_up(2);
    world.events();
    let (handle, stream) = world.open_imaged(1, "IBM.N");
    assert_eq!(world.open(2, "IBM.N"), handle);
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    let requests = world.requests(0);
    assert_eq!(requests, [(stream, "IBM.N".into(), RequestFlags::STREAMING)], "one, and it asks for an image");
    world.refresh(0, stream, &[(22, b"2")], WHOLE);
    let events = world.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].flags, flags::FIRST | flags::COMPLETE, "only for those who wait");
    assert_eq!(world.sd.counters().reissues, 1);
}

#[test]
fn who_joins_in_the_middle_of_a_set_gets_the_next_whole_one() {
    let mut world = World::with_feed();
    let handle = world.open(1, "BOOK");
    let part = |n: u16, last: bool| {
        move |msg: &mut rwf::msg::RefreshMsg<'_>| {
            msg.stream_id = 5;
            msg.part_num = Some(n);
            msg.flags = if last { WHOLE } else { RefreshFlags::SOLICITED };
        }
    };
    world.requests(0);
    world.refresh_with(0, &[(1, b"a")], part(0, false));
    world.update(0, 5, &[(1, b"u")]);
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    assert!(world.requests(0).is_empty(), "not before the set is complete");
    world.refresh_with(0, &[(2, b"b")], part(1, true));
    let events = world.events();
    let got: Vec<_> = events.iter().map(|e| (e.kind, e.flags)).collect();
    assert_eq!(got, [(Kind::Image, flags::FIRST), (Kind::Update, 0), (Kind::Image, flags::COMPLETE)]);
    assert_eq!(world.requests(0), [(5, "BOOK".into(), RequestFlags::STREAMING)]);
    world.refresh_with(0, &[(1, b"a")], part(0, false));
    world.refresh_with(0, &[(2, b"b")], part(1, true));
    let events = world.events();
    assert_eq!(events.iter().map(|e| e.flags).collect::<Vec<_>>(), [flags::FIRST, flags::COMPLETE]);
    assert!(world.requests(0).is_empty());
}

#[test]
fn an_image_nobody_asked_for_goes_to_all() {
    let mut world = World::with_feed();
    let (_, stream) = world.open_imaged(1, "IBM.N");
    world.refresh(0, stream, &[(22, b"2")], RefreshFlags::REFRESH_COMPLETE | RefreshFlags::CLEAR_CACHE);
    let whole = flags::FIRST | flags::COMPLETE | flags::UNSOLICITED;
    assert_eq!(world.events()[0].flags, whole | flags::CLEAR_CACHE);
    // A provider that marks every image as solicited does not reach those who wait only.
    world.refresh(0, stream, &[(22, b"3")], WHOLE);
    assert_eq!(world.events()[0].flags, whole);
}

#[test]
fn nothing_is_relayed_before_the_image() {
    let mut world = World::with_feed();
    world.open(1, "IBM.N");
    world.update(0, 5, &[(22, b"2")]);
    assert!(world.events().is_empty());
    assert_eq!(world.sd.counters().dropped_not_live, 1);
}

#[test]
fn an_unwatched_item_stays_open_for_its_time() {
    let mut world = World::new(Config { age_unwatched: 60 * SECOND, ..Config::default() });
    world.p2ps_up(1);
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.events();
    world.sent(0);
    let (handle, stream) = world.open_imaged(1, "IBM.N");
    world.close(1, handle);
    world.pass(59);
    assert!(world.closes(0).is_empty());
    world.update(0, stream, &[(22, b"2")]);
    assert!(world.events().is_empty(), "nobody would hear it");
    // Watched again: the same item, with a fresh image from the provider.
    assert_eq!(world.open(1, "IBM.N"), handle);
    assert_eq!(world.requests(0), [(stream, "IBM.N".into(), RequestFlags::STREAMING)]);
    world.refresh(0, stream, &[(22, b"3")], WHOLE);
    world.update(0, stream, &[(22, b"4")]);
    assert_eq!(world.kinds(), [Kind::Image, Kind::Update]);
    world.close(1, handle);
    world.pass(59);
    assert!(world.closes(0).is_empty(), "the time starts afresh");
    world.pass(2);
    assert_eq!(world.closes(0), [stream]);
    assert_eq!(world.sd.items(), 0);
}

#[test]
fn an_item_that_was_never_answered_is_closed_at_once() {
    let mut world = World::new(Config { age_unwatched: 60 * SECOND, ..Config::default() });
    world.p2ps_up(1);
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.events();
    let handle = world.open(1, "IBM.N");
    world.close(1, handle);
    assert_eq!(world.closes(0), [5]);
}

#[test]
fn a_snapshot_is_an_instance_of_its_own_that_ends_with_its_image() {
    let mut world = World::with_feed();
    let (shared, _) = world.open_imaged(1, "IBM.N");
    let token = world.open_with(1, "IBM.N", flags::SNAPSHOT_ONLY);
    let handle = world.events()[0].handle;
    assert_ne!(handle, shared);
    let requests = world.requests(0);
    assert_eq!(requests[0].2, RequestFlags::NONE, "no stream is asked for");
    let stream = requests[0].0;
    world.refresh_with(0, &[(22, b"2")], |msg| {
        msg.stream_id = stream;
        msg.state.stream = StreamState::NON_STREAMING;
    });
    let events = world.events();
    assert_eq!((events[0].handle, events[0].flags), (handle, flags::FIRST | flags::COMPLETE | flags::SNAPSHOT));
    assert!(world.closes(0).is_empty(), "the provider's stream is over by itself");
    world.update(0, stream, &[(22, b"3")]);
    assert!(world.events().is_empty());
    assert_eq!(world.sd.items(), 2);
    world.close(1, handle);
    assert_eq!(world.sd.items(), 1);
    let _ = token;
}

#[test]
fn a_streaming_item_that_the_provider_does_not_stream_ends_with_its_image() {
    let mut world = World::with_feed();
    let handle = world.open(1, "IBM.N");
    world.refresh_with(0, &[(22, b"2")], |msg| {
        msg.stream_id = 5;
        msg.state.stream = StreamState::NON_STREAMING;
    });
    assert_eq!(world.events()[0].flags, flags::FIRST | flags::COMPLETE | flags::SNAPSHOT);
    // The old handle is not given back yet, a new open is another item.
    assert_ne!(world.open(1, "IBM.N"), handle);
}

#[test]
fn private_streams_are_one_to_one_and_end_with_their_provider() {
    let mut world = World::with_feed();
    let private = flags::STREAMING | flags::PRIVATE;
    world.open_with(1, "IBM.N", private);
    world.open_with(1, "IBM.N", private);
    let handles: Vec<u32> = world.events().iter().map(|e| e.handle).collect();
    assert_ne!(handles[0], handles[1]);
    let requests = world.requests(0);
    let both = RequestFlags::STREAMING | RequestFlags::PRIVATE_STREAM;
    assert_eq!(requests.iter().map(|r| r.2).collect::<Vec<_>>(), [both, both]);
    for (stream, _, _) in &requests {
        world.refresh(0, *stream, &[(22, b"1")], WHOLE | RefreshFlags::PRIVATE_STREAM);
    }
    world.events();
    world.down(0);
    let events = world.events();
    let ends: Vec<_> = events.iter().filter(|e| e.kind == Kind::ItemStatus).collect();
    assert_eq!(ends.len(), 2);
    for end in ends {
        assert!(end.has(flags::CLOSED));
        assert_eq!(end.state().stream, StreamState::CLOSED_RECOVER);
    }
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    assert_eq!(world.requests(0).iter().filter(|r| r.1 == "IBM.N").count(), 0, "never recovered");
}

#[test]
fn every_member_of_the_key_makes_another_item() {
    let mut world = World::with_feed();
    let base = request("IBM.N");
    let delayed = Qos::new(rwf::Timeliness::DELAYED_UNKNOWN, rwf::Rate::TICK_BY_TICK);
    let with_key = |change: fn(&mut rwf::msg::MsgKey<'static>)| {
        let mut request = request("IBM.N");
        change(&mut request.key);
        request
    };
    let others = [
        base.clone(),
        with_key(|key| key.name_type = Some(2)),
        with_key(|key| key.filter = Some(1)),
        with_key(|key| key.identifier = Some(1)),
        with_key(|key| key.attrib = Some(rwf::msg::Attrib::new(DataType::OPAQUE, b"x"))),
        RequestMsg { domain: Domain::MARKET_BY_PRICE, ..base.clone() },
        RequestMsg { qos: Some(delayed), ..base },
    ];
    let mut handles = Vec::new();
    for other in &others {
        world.open_request(1, 1, flags::STREAMING, other);
        handles.push(world.events()[0].handle);
    }
    handles.sort_unstable();
    handles.dedup();
    assert_eq!(handles.len(), others.len());
    // The quality that nobody offers waits; the others are asked for with their whole key.
    let sent = world.sent(0);
    assert_eq!(sent.len(), others.len() - 1);
    for (bytes, other) in sent.iter().zip(&others) {
        let Msg::Request(request) = Msg::decode(bytes).unwrap() else { panic!() };
        let expected = rwf::msg::MsgKey { service_id: Some(7), ..other.key };
        assert_eq!((request.key, request.domain), (expected, other.domain));
    }
}

#[test]
fn the_open_window_of_the_provider_is_obeyed() {
    let mut world = World::plain();
    world.route_up(0);
    let load = Load { open_window: Some(2), ..Load::default() };
    world.directory(0, vec![with_load(service(7, "FEED"), load)]);
    world.events();
    world.sent(0);
    for name in ["A", "B", "C", "D"] {
        world.open(1, name);
    }
    let names = |world: &mut World| world.requests(0).into_iter().map(|r| r.1).collect::<Vec<_>>();
    assert_eq!(names(&mut world), ["A", "B"]);
    world.refresh(0, 5, &[(22, b"1")], WHOLE);
    assert_eq!(names(&mut world), ["C"]);
    world.status(0, 6, state(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND));
    assert_eq!(names(&mut world), ["D"]);
}

#[test]
fn a_window_of_zero_stops_requests_until_it_opens() {
    let mut world = World::plain();
    world.route_up(0);
    let shut = Load { open_window: Some(0), ..Load::default() };
    world.directory(0, vec![with_load(service(7, "FEED"), shut)]);
    world.events();
    world.sent(0);
    world.open(1, "A");
    assert!(world.requests(0).is_empty());
    let open = Load { open_window: Some(5), ..Load::default() };
    let mut update = state_update(7, true, true);
    update.load = Some(rwf::rdm::directory::Part::Update(open));
    world.directory_update(0, vec![update]);
    assert_eq!(world.requests(0).len(), 1);
}

#[test]
fn the_open_limit_holds_and_is_explained() {
    let mut world = World::plain();
    world.route_up(0);
    let load = Load { open_limit: Some(1), ..Load::default() };
    world.directory(0, vec![with_load(service(7, "FEED"), load)]);
    world.events();
    world.sent(0);
    let (first, _) = world.open_imaged(1, "A");
    world.open_with(1, "B", flags::STREAMING);
    let events = world.events();
    assert_eq!(events.iter().map(|e| e.kind).collect::<Vec<_>>(), [Kind::ItemOpened, Kind::ItemStatus]);
    assert!(events[1].has(flags::WAITING_ONLY));
    assert_eq!(
        (events[1].state().stream, events[1].state().code),
        (StreamState::CLOSED_RECOVER, StateCode::TOO_MANY_ITEMS)
    );
    assert!(world.requests(0).is_empty());
    // Snapshots do not count unless the provider says so.
    world.open_with(1, "S", flags::SNAPSHOT_ONLY);
    assert_eq!(world.requests(0).len(), 1);
    world.close(1, first);
    assert_eq!(world.requests(0).iter().filter(|r| r.1 == "B").count(), 1);
}

#[test]
fn opens_are_spread_over_turns() {
    let mut world = World::new(Config { opens_per_turn: 3, ..Config::default() });
    world.p2ps_up(1);
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.sd.clear_block();
    world.sent(0);
    for n in 0..10 {
        world.open_with(1, &format!("I{n}"), flags::STREAMING);
        world.sd.clear_block();
    }
    assert_eq!(world.requests(0).len(), 3, "blocks are no turns");
    assert_eq!(world.sd.timeout(), Some(0), "more at once");
    world.sd.on_timer(world.now, &mut world.sent);
    assert_eq!(world.requests(0).len(), 3);
    world.turn();
    assert_eq!(world.requests(0).len(), 4);
    assert_ne!(world.sd.timeout(), Some(0));
}

#[test]
fn an_open_that_is_never_answered_is_reported_once_and_retried_with_growing_pauses() {
    let mut world = World::with_feed();
    let handle = world.open(1, "DEAF");
    world.sent(0);
    world.pass(16);
    let events = world.events();
    assert_eq!(events.len(), 1);
    assert!(events[0].handle == handle && events[0].has(flags::WAITING_ONLY));
    assert_eq!((events[0].state().stream, events[0].state().data), (StreamState::OPEN, DataState::SUSPECT));
    assert_eq!(events[0].state().code, StateCode::TIMEOUT);
    let sent = world.sent(0);
    let classes: Vec<_> = sent.iter().map(|m| Msg::decode(m).unwrap().class()).collect();
    assert_eq!(classes, [rwf::msg::MsgClass::CLOSE, rwf::msg::MsgClass::REQUEST]);
    world.pass(120);
    assert!(world.events().is_empty(), "told once");
    let again = world.requests(0);
    assert!((4..=7).contains(&again.len()), "{again:?} in two minutes");
    // The answer to the next comes at last.
    let stream = loop {
        world.pass(1);
        if let Some(request) = world.requests(0).pop() {
            break request.0;
        }
    };
    world.refresh(0, stream, &[(22, b"1")], WHOLE);
    assert_eq!(world.kinds(), [Kind::Image]);
}

#[test]
fn a_reissue_that_is_never_answered_is_repeated() {
    let mut world = World::with_feed();
    let (handle, stream) = world.open_imaged(1, "IBM.N");
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    assert_eq!(world.requests(0).len(), 1);
    world.events();
    world.pass(16);
    assert_eq!(world.requests(0), [(stream, "IBM.N".into(), RequestFlags::STREAMING)]);
    let events = world.events();
    assert_eq!(events.iter().map(|e| (e.kind, e.flags)).collect::<Vec<_>>(), [(Kind::ItemStatus, flags::WAITING_ONLY)]);
    let state = events[0].state();
    assert_eq!((state.stream, state.code), (StreamState::OPEN, StateCode::TIMEOUT), "who waits hears why");
}

#[test]
fn a_status_may_come_before_the_image() {
    let mut world = World::with_feed();
    world.open(1, "IBM.N");
    world.status(0, 5, state(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE));
    let events = world.events();
    assert_eq!((events[0].kind, events[0].flags), (Kind::ItemStatus, flags::PENDING_TOO));
    world.pass(30);
    let for_those_who_wait = |e: &Ev| (e.kind, e.flags) == (Kind::ItemStatus, flags::WAITING_ONLY);
    assert!(world.events().iter().all(for_those_who_wait), "it was answered, but for the image");
    world.refresh(0, 5, &[(22, b"1")], WHOLE);
    assert_eq!(world.events()[0].flags, flags::FIRST | flags::COMPLETE, "the solicited image is still owed");
}

#[test]
fn closed_ends_the_item_and_redirected_too() {
    for end in [StreamState::CLOSED, StreamState::REDIRECTED] {
        let mut world = World::with_feed();
        let (handle, stream) = world.open_imaged(1, "IBM.N");
        world.status(0, stream, state(end, DataState::SUSPECT, StateCode::NOT_FOUND));
        let events = world.events();
        assert_eq!(events.len(), 1);
        assert!(events[0].has(flags::CLOSED));
        assert_eq!(events[0].state(), state(end, DataState::SUSPECT, StateCode::NOT_FOUND));
        assert_eq!(world.sd.items(), 1, "until the P2PS has given the handle back");
        // Meanwhile another open makes another item.
        let again = world.open(1, "IBM.N");
        assert_ne!(again, handle);
        world.close(1, handle);
        assert_eq!(world.sd.items(), 1);
        assert!(world.closes(0).is_empty(), "a stream that the provider closed is not closed again");
    }
}

#[test]
fn a_refresh_that_redirects_is_relayed_whole() {
    let mut world = World::with_feed();
    let handle = world.open(1, "OLD");
    world.refresh_with(0, &[], |msg| {
        msg.stream_id = 5;
        msg.state.stream = StreamState::REDIRECTED;
        msg.key = Some(rwf::msg::MsgKey::item(7, b"NEW"));
    });
    let events = world.events();
    assert_eq!(events.len(), 1);
    assert!(events[0].has(flags::SNAPSHOT) && events[0].has(flags::COMPLETE) && events[0].has(flags::UNSOLICITED));
    assert_eq!(events[0].image().key.unwrap().name, Some(&b"NEW"[..]));
    world.close(1, handle);
    assert_eq!(world.sd.items(), 0);
    assert!(world.closes(0).is_empty());
}

#[test]
fn views_go_upstream_where_the_provider_supports_them() {
    let view = bytes_of(|w| {
        let view = rwf::rdm::request::View::Fields(vec![22, 25]);
        rwf::rdm::request::Payload { view: Some(view), ..Default::default() }.encode(w)
    });
    let request = RequestMsg {
        flags: RequestFlags::STREAMING | RequestFlags::HAS_VIEW,
        container: DataType::ELEMENT_LIST,
        body: &view,
        ..request("IBM.N")
    };
    for supported in [true, false] {
        let mut world = World::plain();
        let features = rwf::rdm::login::Features { view: Some(supported), ..Default::default() };
        world.route_up_with(0, features);
        world.directory(0, vec![service(7, "FEED")]);
        world.sent(0);
        world.open_request(1, 1, flags::STREAMING, &request);
        let sent = world.sent(0);
        let Msg::Request(asked) = Msg::decode(&sent[0]).unwrap() else { panic!() };
        assert_eq!(asked.flags.contains(RequestFlags::HAS_VIEW), supported);
        assert_eq!(asked.body, if supported { &view[..] } else { &[] });
    }
}

#[test]
fn the_union_of_views_goes_upstream_or_none_if_any_wants_all() {
    let view_of = |fids: Vec<i16>| {
        bytes_of(|w| {
            let view = rwf::rdm::request::View::Fields(fids.clone());
            rwf::rdm::request::Payload { view: Some(view), ..Default::default() }.encode(w)
        })
    };
    let asked_view = |bytes: &[u8]| {
        let Msg::Request(asked) = Msg::decode(bytes).unwrap() else { panic!() };
        rwf::rdm::request::Payload::of_request(&asked).unwrap().view
    };
    let mut world = World::plain();
    for id in [2, 3] {
        world.p2ps_up(id);
    }
    world.route_up_with(0, rwf::rdm::login::Features { view: Some(true), ..Default::default() });
    world.directory(0, vec![service(7, "FEED")]);
    world.sent(0);
    for (p2ps, fids) in [(1, vec![22, 25]), (2, vec![25, 30])] {
        let body = view_of(fids);
        let request = RequestMsg {
            flags: RequestFlags::STREAMING | RequestFlags::HAS_VIEW,
            container: DataType::ELEMENT_LIST,
            body: &body,
            ..request("IBM.N")
        };
        world.open_request(p2ps, 1, flags::STREAMING, &request);
    }
    let sent = world.sent(0);
    assert_eq!(asked_view(&sent[0]), Some(rwf::rdm::request::View::Fields(vec![22, 25])));
    assert_eq!(asked_view(&sent[1]), Some(rwf::rdm::request::View::Fields(vec![22, 25, 30])));
    world.open(3, "IBM.N");
    world.refresh(0, 5, &[(22, b"1")], WHOLE);
    let sent = world.sent(0);
    assert_eq!(asked_view(sent.last().unwrap()), None);
}

#[test]
fn the_image_of_a_narrow_view_is_not_for_a_p2ps_that_came_wanting_more() {
    let view = bytes_of(|w| {
        let view = rwf::rdm::request::View::Fields(vec![22]);
        rwf::rdm::request::Payload { view: Some(view), ..Default::default() }.encode(w)
    });
    let narrow = RequestMsg {
        flags: RequestFlags::STREAMING | RequestFlags::HAS_VIEW,
        container: DataType::ELEMENT_LIST,
        body: &view,
        ..request("IBM.N")
    };
    let mut world = World::plain();
    world.p2ps_up(2);
    world.route_up_with(0, rwf::rdm::login::Features { view: Some(true), ..Default::default() });
    world.directory(0, vec![service(7, "FEED")]);
    world.sent(0);
    world.open_request(1, 1, flags::STREAMING, &narrow);
    world.open(2, "IBM.N");
    let flags_sent: Vec<_> = world.requests(0).into_iter().map(|r| r.2).collect();
    assert!(flags_sent[1].contains(RequestFlags::NO_REFRESH) && !flags_sent[1].contains(RequestFlags::HAS_VIEW));
    world.refresh(0, 5, &[(22, b"1")], WHOLE);
    let events = world.events();
    assert_eq!(events.iter().map(|e| (e.kind, e.target)).collect::<Vec<_>>(), [(Kind::Image, 1)]);
    assert_eq!(world.requests(0).len(), 1, "another image, with everything in it");
    world.refresh(0, 5, &[(22, b"1"), (25, b"2")], WHOLE);
    let events = world.events();
    assert_eq!(events.iter().map(|e| (e.kind, e.target)).collect::<Vec<_>>(), [(Kind::Image, 2)]);
}

#[test]
fn generic_messages_go_both_ways() {
    let mut world = World::with_feed();
    let (handle, stream) = world.open_imaged(1, "IBM.N");
    world.generic(0, stream);
    let events = world.events();
    assert_eq!((events[0].kind, events[0].handle), (Kind::Generic, handle));
    let generic = rwf::msg::GenericMsg {
        key: Some(rwf::msg::MsgKey::item(1, b"IBM.N")),
        ..rwf::msg::GenericMsg::new(Domain::MARKET_PRICE, 99)
    };
    let rwf = bytes_of(|w| generic.encode(w));
    world.request(1, &Request::Generic { handle, rwf: &rwf }).unwrap();
    let sent = world.sent(0);
    let Msg::Generic(sent) = Msg::decode(&sent[0]).unwrap() else { panic!() };
    assert_eq!((sent.stream_id, sent.key.unwrap().service_id), (stream, Some(7)));
}

#[test]
fn refused_opens_say_why() {
    let mut world = World::new(Config { max_items: 1, ..Config::default() });
    world.p2ps_up(1);
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.events();
    let token = world.open_request(1, 9, flags::STREAMING, &request("A"));
    let events = world.events();
    assert_eq!((events[0].kind, events[0].target, events[0].arg), (Kind::Refused, 1, token));
    assert_eq!(events[0].short_state(), (StreamState::CLOSED, DataState::SUSPECT, StateCode::SOURCE_UNKNOWN));
    let login = RequestMsg { domain: Domain::LOGIN, ..request("A") };
    world.open_request(1, 1, flags::STREAMING, &login);
    assert_eq!(world.events()[0].short_state().2, StateCode::USAGE_ERROR);
    world.open(1, "A");
    world.open_request(1, 1, flags::STREAMING, &request("B"));
    assert_eq!(world.events()[0].short_state().2, StateCode::NO_RESOURCES);
    let counters = world.sd.counters();
    let refused = (counters.refused_unknown_service, counters.refused_usage, counters.refused_no_resources);
    assert_eq!(refused, (1, 1, 1));
}

#[test]
fn every_domain_is_relayed_unknown_ones_too() {
    let mut world = World::plain();
    world.route_up(0);
    let mut odd = service(7, "FEED");
    if let Some(rwf::rdm::directory::Part::Set(info)) = &mut odd.info {
        info.capabilities = vec![Domain(200)];
    }
    world.directory(0, vec![odd]);
    world.events();
    world.sent(0);
    world.open_request(1, 1, flags::STREAMING, &RequestMsg { domain: Domain(200), ..request("X") });
    let sent = world.sent(0);
    let Msg::Request(asked) = Msg::decode(&sent[0]).unwrap() else { panic!() };
    assert_eq!(asked.domain, Domain(200));
    world.refresh_with(0, &[], |msg| {
        msg.stream_id = 5;
        msg.domain = Domain(200);
        msg.container = DataType::OPAQUE;
    });
    assert_eq!(world.events().last().unwrap().image().domain, Domain(200));
}

#[test]
fn a_handle_is_free_again_only_when_all_have_given_it_back() {
    let mut world = World::with_feed();
    world.p2ps_up(2);
    world.events();
    let (handle, stream) = world.open_imaged(1, "IBM.N");
    world.open(2, "IBM.N");
    world.status(0, stream, state(StreamState::CLOSED, DataState::SUSPECT, StateCode::NONE));
    world.close(1, handle);
    assert_ne!(world.open(1, "OTHER"), handle, "P2PS 2 still knows it by this number");
    world.close(2, handle);
    assert_eq!(world.open(1, "ANOTHER"), handle);
    // A second close for it is not P2PS 2's to send.
    world.close(2, handle);
    assert_eq!(world.sd.counters().dropped_unknown_handle, 1);
    assert_eq!(world.sd.items(), 2);
}

#[test]
fn a_p2ps_that_is_gone_has_closed_everything() {
    let mut world = World::with_feed();
    world.p2ps_up(2);
    world.events();
    let (_, a) = world.open_imaged(1, "A");
    let (_, b) = world.open_imaged(2, "B");
    world.p2ps_down(1);
    assert_eq!(world.closes(0), [a]);
    world.p2ps_restarts(2);
    assert_eq!(world.closes(0), [b]);
    let events = world.events();
    assert_eq!((events[0].kind, events[0].target), (Kind::Service, 2), "it is told the services again");
}

/// Providers 0 and 1 of FEED on routes of these costs and partitions; `!` is before what they do not have.
fn world_of_routes(routes: [(u32, &str); 2]) -> World {
    let route = |(server_cost, pattern): (u32, &str)| {
        let parse = |text: &str| hub_content::cache::rules::NamePattern::parse(text.trim_start_matches('!')).unwrap();
        let of = |not| pattern.split_whitespace().filter(move |text| text.starts_with('!') == not).map(parse).collect();
        let (partitions, not_partitions) = (of(false), of(true));
        let default = hub_distributor::RouteConfig::default();
        hub_distributor::RouteConfig { server_cost, partitions, not_partitions, ..default }
    };
    let mut world = World::new(Config { routes: routes.map(route).to_vec(), ..Config::default() });
    world.p2ps_up(1);
    for id in [0, 1] {
        world.route_up(id);
        world.directory(id, vec![service(7, "FEED")]);
    }
    world.events();
    world.sent(0);
    world.sent(1);
    world
}

fn names(world: &mut World, id: u32) -> Vec<String> {
    world.requests(id).into_iter().map(|(_, name, _)| name).collect()
}

#[test]
fn a_provider_of_a_lower_cost_is_asked_first() {
    let mut world = world_of_routes([(5, ""), (1, "")]);
    let load = rwf::rdm::directory::Load { load_factor: Some(60_000), ..rwf::rdm::directory::Load::default() };
    world.directory_update(1, vec![with_load(state_update(7, true, true), load)]);
    for name in ["A", "B", "C"] {
        world.open(1, name);
    }
    assert_eq!((names(&mut world, 0).len(), names(&mut world, 1).len()), (0, 3), "whatever its load");
    world.directory_update(1, vec![state_update(7, true, false)]);
    world.open(1, "D");
    assert_eq!(names(&mut world, 0), ["D"]);
}

#[test]
fn items_are_asked_for_in_the_partition_that_they_are_in() {
    let mut world = world_of_routes([(0, "^[AB] !BX*"), (0, "!^[^BC] !BB*")]);
    for name in ["AAA", "CCC", "BBB", "BXX"] {
        world.open(1, name);
    }
    assert_eq!([names(&mut world, 0), names(&mut world, 1)], [["AAA", "BBB"], ["CCC", "BXX"]]);
    world.down(1);
    world.turn();
    assert!(names(&mut world, 0).is_empty(), "the other has not got it");
}

#[test]
fn what_no_provider_has_does_not_stand_in_the_way() {
    let mut world = world_of_routes([(0, "A*"), (0, "C*")]);
    for n in 0..100 {
        world.open_with(1, &format!("X{n}"), flags::STREAMING);
    }
    let events = world.events();
    assert!(events.iter().any(|event| event.kind == Kind::ItemStatus), "who watches hears why it waits");
    world.open(1, "AAA");
    for _ in 0..5 {
        world.sd.on_timer(world.now, &mut world.sent);
    }
    assert_eq!(names(&mut world, 0), ["AAA"]);
}

#[test]
fn what_no_provider_has_is_asked_for_when_one_says_that_it_has_it() {
    let mut world = World::plain();
    world.route_up(0);
    let domains = |domains: &[Domain]| {
        let mut entry = service(7, "FEED");
        if let Some(rwf::rdm::directory::Part::Set(info)) = &mut entry.info {
            info.capabilities = domains.to_vec();
        }
        entry
    };
    world.directory(0, vec![domains(&[Domain::MARKET_BY_PRICE])]);
    world.route_up(1);
    world.directory(1, vec![service(7, "FEED")]);
    world.down(1);
    world.turn();
    world.events();
    world.sent(0);
    for n in 0..500 {
        let handle = world.open(1, "GONE AGAIN");
        world.close(1, handle);
        world.open_with(1, &format!("X{}", n % 3), flags::STREAMING);
    }
    world.events();
    let overview = world.sd.service_overview().next().expect("FEED");
    assert!(overview.waiting < 200, "{} wait of 3 items", overview.waiting);
    assert!(names(&mut world, 0).is_empty());
    world.directory_update(0, vec![domains(&[Domain::MARKET_BY_PRICE, Domain::MARKET_PRICE])]);
    world.turn();
    let mut asked = names(&mut world, 0);
    asked.sort();
    assert_eq!(asked, ["X0", "X1", "X2"]);
}
