//! The cache of interactive items: P2PSs that come later, ask again or have lost messages get the image from memory.

use crate::world::*;
use hub_content::cache::rules::CacheRules;
use hub_distributor::{Config, SessionId};
use hub_stream::{Kind, Request, flags};
use rwf::msg::{Domain, Msg, Priority, RefreshFlags, RequestFlags, RequestMsg, UpdateFlags, UpdateMsg};
use rwf::rdm::directory::{Group, Part};
use rwf::rdm::request::{Payload, View};
use rwf::{DataState, DataType, State, StateCode, StreamState};

const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);

/// P2PSs 1 and 2, and a provider of FEED on session 0.
fn cached(config: Config) -> World {
    World::with_two_p2pss(config)
}

fn everything() -> Config {
    Config { cache: CacheRules::everything(), ..Config::default() }
}

#[test]
fn a_p2ps_that_comes_later_gets_the_image_between_two_updates() {
    let mut world = cached(everything());
    let (handle, stream) = world.open_imaged(1, "A");
    world.update(0, stream, &[(22, b"2"), (30, b"x")]);
    assert_eq!(world.kinds(), [Kind::Update]);
    let token = world.open_with(2, "A", flags::STREAMING);
    let events = world.events();
    let told: Vec<_> = events.iter().map(|e| (e.kind, e.target, e.handle)).collect();
    assert_eq!(told, [(Kind::ItemOpened, 2, handle), (Kind::Image, 2, handle)]);
    assert_eq!(events[0].arg, token);
    assert_eq!(events[1].flags, flags::FIRST | flags::COMPLETE | flags::CLEAR_CACHE);
    let image = events[1].image();
    assert_eq!(fields_of(image.body), [(22, b"2".to_vec()), (30, b"x".to_vec())]);
    assert_eq!((image.state.data, image.qos), (DataState::OK, Some(QOS)));
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    let events = world.events();
    assert_eq!((events.len(), events[0].kind, events[0].target), (1, Kind::Image, 1));
    world.update(0, stream, &[(22, b"3")]);
    assert_eq!(world.kinds(), [Kind::Update], "one for both");
    assert!(world.requests(0).is_empty(), "the provider hears nothing");
    let counters = world.sd.counters();
    assert_eq!((counters.items_cached, counters.images_from_cache, counters.cache_failures), (1, 2, 0));
    world.close(1, handle);
    world.close(2, handle);
    assert_eq!(world.closes(0), [stream], "closed as without a cache");
    world.events();
    assert_eq!(world.sd.counters().items_cached, 0);
}

/// What the last requests on A's stream asked the provider for: class, count, and whether an image.
fn priorities(world: &mut World) -> Vec<(u8, u16, bool)> {
    let sent = world.sent(0);
    let requests = sent.iter().filter_map(|bytes| match Msg::decode(bytes) {
        Ok(Msg::Request(request)) => Some(request),
        _ => None,
    });
    let words = |request: RequestMsg<'_>| {
        let priority = request.priority.expect("a priority");
        (priority.class, priority.count, !request.flags.contains(RequestFlags::NO_REFRESH))
    };
    requests.map(words).collect()
}

#[test]
fn a_provider_hears_of_another_priority_though_the_image_is_held() {
    for (config, is_cached) in [(everything(), true), (Config::default(), false)] {
        let mut world = cached(config);
        let (handle, _) = world.open_imaged(1, "A");
        world.sent(0);
        let raised = RequestMsg { priority: Some(Priority { class: 3, count: 2 }), ..request("A") };
        // One that comes, one that asks for more, and one that goes.
        world.open_request(2, 1, flags::STREAMING, &raised);
        assert_eq!(priorities(&mut world), [(3, 2, !is_cached)], "cached: {is_cached}");
        let rwf = bytes_of(|w| raised.encode(w));
        world.request(1, &Request::Reissue { handle, serial: Some(1), in_stream: false, rwf: &rwf }).unwrap();
        assert_eq!(priorities(&mut world)[0], (3, 4, false), "cached: {is_cached}");
        world.close(2, handle);
        assert_eq!(priorities(&mut world), [(3, 2, false)], "cached: {is_cached}");
        let usual = bytes_of(|w| request("A").encode(w));
        world.request(1, &Request::Reissue { handle, serial: None, in_stream: false, rwf: &usual }).unwrap();
        assert_eq!(priorities(&mut world), [(1, 1, false)], "cached: {is_cached}");
        // How many want it with the usual class is told with what is asked for anyway.
        world.open(2, "A");
        assert_eq!(priorities(&mut world).len(), 0, "cached: {is_cached}");
        world.sd.check_invariants();
    }
}

#[test]
fn snapshots_come_from_the_item_that_streams() {
    let mut world = cached(everything());
    let (_, stream) = world.open_imaged(1, "A");
    world.update(0, stream, &[(22, b"2")]);
    world.events();
    world.open_with(2, "A", flags::SNAPSHOT_ONLY);
    let events = world.events();
    assert_eq!(events.iter().map(|e| e.kind).collect::<Vec<_>>(), [Kind::ItemOpened, Kind::Image]);
    assert!(events[1].has(flags::SNAPSHOT | flags::COMPLETE) && events[0].handle == events[1].handle);
    assert_eq!(fields_of(events[1].image().body), [(22, b"2".to_vec())]);
    assert!(world.requests(0).is_empty());
    world.close(2, events[0].handle);
    // One of an item that does not stream is asked for.
    world.open_with(2, "B", flags::SNAPSHOT_ONLY);
    assert_eq!(world.requests(0).len(), 1);
}

#[test]
fn an_item_that_nobody_watches_for_a_while_is_kept_up() {
    let mut world = cached(Config { age_unwatched: 10 * SECOND, ..everything() });
    let (handle, stream) = world.open_imaged(1, "A");
    world.close(1, handle);
    world.update(0, stream, &[(22, b"2")]);
    assert!(world.kinds().is_empty(), "relayed to nobody");
    world.open(2, "A");
    world.request(2, &Request::Refresh { handle, in_stream: false }).unwrap();
    let events = world.events();
    assert_eq!(fields_of(events[0].image().body), [(22, b"2".to_vec())]);
    world.update(0, stream, &[(22, b"3")]);
    assert_eq!(world.kinds(), [Kind::Update]);
    assert!(world.requests(0).is_empty());
}

#[test]
fn views_are_not_asked_of_the_provider() {
    let mut world = World::new(everything());
    world.p2ps_up(1);
    world.route_up_with(0, rwf::rdm::login::Features { view: Some(true), ..Default::default() });
    world.directory(0, vec![service(7, "FEED")]);
    world.events();
    world.sent(0);
    let body = bytes_of(|w| Payload { view: Some(View::Fields(vec![22])), ..Payload::default() }.encode(w));
    let flags = RequestFlags::STREAMING | RequestFlags::HAS_VIEW;
    let viewed = RequestMsg { flags, container: DataType::ELEMENT_LIST, body: &body, ..request("A") };
    world.open_request(1, 1, flags::STREAMING, &viewed);
    let (stream, _, asked) = world.requests(0).remove(0);
    assert!(!asked.contains(RequestFlags::HAS_VIEW), "{asked}");
    world.refresh(0, stream, &[(22, b"1"), (25, b"2")], WHOLE);
    let handle = world.events().last().unwrap().handle;
    let wider = bytes_of(|w| Payload { view: Some(View::Fields(vec![22, 25])), ..Payload::default() }.encode(w));
    let rwf = bytes_of(|w| RequestMsg { body: &wider, ..viewed.clone() }.encode(w));
    world.request(1, &Request::Reissue { handle, serial: Some(9), in_stream: false, rwf: &rwf }).unwrap();
    let events = world.events();
    let told: Vec<_> = events.iter().map(|e| (e.kind, e.arg)).collect();
    assert_eq!(told[0], (Kind::Answered, 9), "before the image that holds it");
    assert_eq!(events[1].image().body, field_list(&[(22, b"1"), (25, b"2")]));
    assert!(world.requests(0).is_empty());
}

#[test]
fn a_lost_item_is_given_as_suspect_and_recovered_for_all() {
    let mut world = cached(everything());
    let (handle, _) = world.open_imaged(1, "A");
    world.down(0);
    world.events();
    world.open_with(2, "A", flags::STREAMING);
    let events = world.events();
    let told: Vec<_> = events.iter().map(|e| (e.kind, e.target)).collect();
    assert_eq!(told, [(Kind::ItemOpened, 2), (Kind::Image, 2)]);
    let state = events[1].image().state;
    assert_eq!((state.stream, state.data), (StreamState::OPEN, DataState::SUSPECT));
    assert!(state.text_lossy().starts_with("Connection to provider provider0:14002 lost"), "{state}");
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    let (stream, ..) = world.requests(0).pop().unwrap();
    world.update(0, stream, &[(22, b"7")]);
    world.refresh(0, stream, &[(22, b"8")], WHOLE);
    let events = world.events();
    let image = events.iter().find(|e| e.kind == Kind::Image).unwrap();
    assert!(image.has(flags::RECOVERY) && image.handle == handle);
    assert_eq!(events.iter().filter(|e| e.kind == Kind::Update).count(), 0);
    world.request(2, &Request::Refresh { handle, in_stream: false }).unwrap();
    let events = world.events();
    assert_eq!(
        (events[0].image().state.data, fields_of(events[0].image().body)),
        (DataState::OK, vec![(22, b"8".to_vec())])
    );
    assert!(world.requests(0).is_empty());
    assert_eq!(world.sd.counters().images_stale, 1);
}

#[test]
fn states_of_items_and_groups_are_those_of_the_image() {
    let mut world = cached(everything());
    let (handle, stream) = world.open_imaged(1, "A");
    let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "stale at the provider");
    world.status(0, stream, state);
    world.open(2, "A");
    world.status(0, stream, State::OPEN_OK);
    world.events();
    let mut entry = rwf::rdm::directory::Service::new(7, rwf::rdm::directory::Action::Update);
    entry.groups = vec![Part::Set(Group { group: vec![0, 0], merged_to: None, status: Some(state.into()) })];
    world.directory_update(0, vec![entry]);
    world.events();
    world.request(2, &Request::Refresh { handle, in_stream: false }).unwrap();
    let events = world.events();
    assert_eq!(events[0].image().state.data, DataState::SUSPECT, "the group is");
    assert!(world.requests(0).is_empty());
}

#[test]
fn who_comes_in_the_middle_of_a_set_gets_the_image_when_it_is_whole() {
    let mut world = cached(everything());
    let handle = world.open(1, "A");
    let (stream, ..) = world.requests(0).remove(0);
    let part = |world: &mut World, number: u16, last: bool, fields: &[(i16, &[u8])]| {
        let complete = if last { RefreshFlags::REFRESH_COMPLETE } else { RefreshFlags::NONE };
        world.refresh_with(0, fields, |msg| {
            msg.stream_id = stream;
            msg.part_num = Some(number);
            msg.flags = RefreshFlags::SOLICITED | complete;
        });
    };
    part(&mut world, 0, false, &[(22, b"1")]);
    world.open(2, "A");
    world.update(0, stream, &[(22, b"2")]);
    part(&mut world, 1, true, &[(25, b"3")]);
    let events = world.events();
    let image = events.iter().rev().find(|e| e.kind == Kind::Image).unwrap();
    assert_eq!((image.target, image.handle), (2, handle), "its own, behind the set");
    assert_eq!(fields_of(image.image().body), [(22, b"2".to_vec()), (25, b"3".to_vec())]);
    assert!(world.requests(0).is_empty());
}

#[test]
fn what_is_not_to_be_cached_is_asked_for_each_time() {
    let mut world = cached(everything());
    let (handle, stream) = world.open_imaged(1, "A");
    let body = field_list(&[(22, b"9")]);
    let update = |flags, perm_data| UpdateMsg {
        flags,
        container: DataType::FIELD_LIST,
        body: &body,
        perm_data,
        ..UpdateMsg::new(Domain::MARKET_PRICE, stream)
    };
    let ephemeral = update(UpdateFlags::DO_NOT_CACHE, None);
    world.message(0, |w| ephemeral.encode(w));
    world.open(2, "A");
    world.events();
    world.request(2, &Request::Refresh { handle, in_stream: false }).unwrap();
    assert_eq!(fields_of(world.events()[0].image().body), [(22, b"1".to_vec())]);
    let locked = update(UpdateFlags::NONE, Some(&[3, 1, 1, 0x65, 0x62, 0xC0][..]));
    world.message(0, |w| locked.encode(w));
    world.events();
    world.request(2, &Request::Refresh { handle, in_stream: false }).unwrap();
    assert_eq!(world.requests(0).len(), 1, "what the update brought is not for everyone");
    world.refresh(0, stream, &[(22, b"5")], WHOLE | RefreshFlags::DO_NOT_CACHE);
    world.events();
    world.request(2, &Request::Refresh { handle, in_stream: false }).unwrap();
    assert_eq!(world.requests(0).len(), 1, "the provider wants to be asked");
}

#[test]
fn the_item_that_was_wanted_longest_ago_gives_way() {
    let cache = CacheRules { max_items: 1, ..CacheRules::everything() };
    let mut world = cached(Config { cache, ..Config::default() });
    let (a, first) = world.open_imaged(1, "A");
    let (b, second) = world.open_imaged(1, "B");
    world.update(0, first, &[(22, b"2")]);
    world.update(0, second, &[(22, b"3")]);
    let events = world.events();
    assert_eq!(events.iter().map(|e| (e.kind, e.handle)).collect::<Vec<_>>(), [(Kind::Update, a), (Kind::Update, b)]);
    let Msg::Update(update) = Msg::decode(&events[0].body).unwrap() else { panic!() };
    assert_eq!(fields_of(update.body), [(22, b"2".to_vec())]);
    world.open(2, "B");
    assert!(world.requests(0).is_empty());
    world.open(2, "A");
    assert_eq!(world.requests(0).len(), 1, "cached no more, and again from the next image on");
    assert_eq!(world.sd.counters().items_uncached, 2);
    world.refresh(0, first, &[(22, b"4")], WHOLE);
    world.events();
    world.request(1, &Request::Refresh { handle: a, in_stream: false }).unwrap();
    assert_eq!(fields_of(world.events()[0].image().body), [(22, b"4".to_vec())]);
    assert!(world.requests(0).is_empty());
}

#[test]
fn a_look_at_the_messages_that_come_next_changes_nothing() {
    let mut world = cached(everything());
    let streams: Vec<i32> = (0..9).map(|number| world.open_imaged(1, &format!("A{number}")).1).collect();
    world.events();
    let update = |&stream: &i32| bytes_of(|w| UpdateMsg::new(Domain::MARKET_PRICE, stream).encode(w));
    let messages: Vec<Vec<u8>> = streams.iter().rev().map(update).collect();
    let junk: [&[u8]; 4] = [&[], &[0; 7], &[0xFF; 12], &[0x7F; 40]];
    let before = *world.sd.counters();
    world.sd.look_ahead(SessionId(0), messages.iter().map(Vec::as_slice).chain(junk));
    world.sd.look_ahead(SessionId(77), junk.into_iter());
    assert!(world.events().is_empty() && *world.sd.counters() == before);
    world.sd.check_invariants();
}
