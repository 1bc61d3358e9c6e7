//! Non-interactive providers: what they publish, the images held for them, loss and return.

use crate::world::*;
use hub_content::cache::rules::PageSizes;
use hub_distributor::{Config, Origin, PeerInfo, SessionId};
use hub_stream::{Kind, Request, flags};
use permissions::lock::{Lock, Operator};
use rwf::msg::{Domain, Msg, MsgKey, RefreshFlags, StatusMsg, UpdateMsg};
use rwf::page::{Page, PageSize};
use rwf::rdm::directory::{Part, Service};
use rwf::rdm::login;
use rwf::{DataState, DataType, MapAction, MapEncoder, MapHead, Primitive, State, StateCode, StreamState};

/// A world with P2PS 1 and a non-interactive provider on session 0 whose service `NI_PUB` has id 3 there.
fn with_nip() -> World {
    let mut world = World::plain();
    world.nip_up(0);
    world.directory(0, vec![service(3, "NI_PUB")]);
    world.events();
    world.sent(0);
    world
}

/// An image in one part.
const WHOLE: u8 = flags::FIRST | flags::COMPLETE;

/// The only event that is an image, as fields.
fn imaged(world: &mut World) -> (u8, DataState, Vec<(i16, Vec<u8>)>) {
    let events = world.events();
    let images: Vec<_> = events.iter().filter(|e| e.kind == Kind::Image).collect();
    assert_eq!(images.len(), 1, "{events:?}");
    let image = images[0].image();
    (images[0].flags, image.state.data, fields_of(image.body))
}

#[test]
fn a_provider_logs_in_and_gets_its_attributes_back() {
    let mut world = World::plain();
    let peer = PeerInfo { address: "nip".into() };
    world.sd.session_up(world.now, SessionId(4), Origin::NonInteractive, peer, &mut world.sent);
    assert!(world.sent(4).is_empty(), "the provider speaks first");
    let request = login::Request {
        name: "user".into(),
        role: Some(1),
        attributes: login::Attributes { application_id: Some("257".into()), ..Default::default() },
        ..login::Request::default()
    };
    world.message(4, |w| request.encode(w));
    let sent = world.sent(4);
    let Msg::Refresh(refresh) = Msg::decode(&sent[0]).unwrap() else { panic!() };
    assert!(refresh.flags.contains(RefreshFlags::SOLICITED | RefreshFlags::REFRESH_COMPLETE));
    let answer = login::Refresh::decode(&refresh).unwrap();
    assert_eq!((answer.stream_id, answer.name.as_str()), (1, "user"));
    assert_eq!(answer.attributes, request.attributes);
    assert_eq!((answer.state.stream, answer.state.data), (StreamState::OPEN, DataState::OK));
}

#[test]
fn a_consumer_on_the_providers_port_is_refused_with_words() {
    let mut world = World::plain();
    let peer = PeerInfo::default();
    world.sd.session_up(world.now, SessionId(4), Origin::NonInteractive, peer, &mut world.sent);
    let request = login::Request { name: "user".into(), ..login::Request::default() };
    world.message(4, |w| request.encode(w));
    let sent = world.sent(4);
    let Msg::Status(status) = Msg::decode(&sent[0]).unwrap() else { panic!() };
    assert_eq!(
        (status.state.unwrap().stream, status.state.unwrap().code),
        (StreamState::CLOSED, StateCode::USAGE_ERROR)
    );
    assert_eq!(world.sent.closed.len(), 1);
}

/// The lock of the image that a newcomer gets.
fn lock_of_image(world: &mut World) -> Option<Lock> {
    world.events();
    world.open_with(1, "A", flags::STREAMING);
    let events = world.events();
    let answer = events.iter().find(|event| event.kind == Kind::Image).expect("an image from memory");
    let lock = answer.image().perm_data.map(|bytes| Lock::decode(bytes).expect("a lock"));
    world.close(1, answer.handle);
    lock
}

#[test]
fn a_lock_that_an_update_has_brought_stays_with_the_image_until_the_next() {
    let pe = |code| Lock::of(257, Operator::Or, &[code]).and_then(|lock| lock.encode()).expect("a lock");
    let both = |codes: [u32; 2]| {
        let locks = codes.map(pe);
        let all = permissions::lock::combine_bytes(locks.iter().map(Vec::as_slice)).expect("locks");
        Lock::decode(&all).ok()
    };
    let only = |code| Lock::decode(&pe(code)).ok();
    let mut world = with_nip();
    world.publish(0, 7, 3, "A", &[(22, b"1")]);
    let body = field_list(&[(25, b"2")]);
    let bring = |world: &mut World, code| {
        let lock = pe(code);
        world.message(0, |w| {
            let (container, perm_data) = (DataType::FIELD_LIST, Some(&*lock));
            UpdateMsg { container, body: &body, perm_data, ..UpdateMsg::new(Domain::MARKET_PRICE, 7) }.encode(w)
        });
    };
    let status = |world: &mut World, code| {
        let lock = pe(code);
        world.message(0, |w| StatusMsg { perm_data: Some(&lock), ..StatusMsg::new(Domain::MARKET_PRICE, 7) }.encode(w));
    };
    bring(&mut world, 5);
    assert_eq!(lock_of_image(&mut world), only(5));
    status(&mut world, 6);
    assert_eq!(lock_of_image(&mut world), both([6, 5]), "the status is of the item, the update is in the image");
    status(&mut world, 7);
    assert_eq!(lock_of_image(&mut world), both([7, 5]));
    // The first part of another image says what the item demands; what is held is the old one until the last part.
    world.refresh_with(0, &[(22, b"3")], |msg| {
        msg.key = Some(MsgKey { name_type: Some(1), ..MsgKey::item(3, b"A") });
        (msg.stream_id, msg.part_num, msg.flags) = (7, Some(0), RefreshFlags::NONE);
    });
    bring(&mut world, 8);
    world.refresh_with(0, &[(25, b"4")], |msg| {
        (msg.stream_id, msg.part_num, msg.flags) = (7, Some(1), RefreshFlags::REFRESH_COMPLETE);
    });
    assert_eq!(lock_of_image(&mut world), only(8), "the new image has what came behind its beginning");
    world.publish(0, 7, 3, "A", &[(22, b"5")]);
    assert_eq!(lock_of_image(&mut world), None);
}

#[test]
fn a_page_is_held_as_what_shows_on_it() {
    let config = Config {
        page_sizes: PageSizes {
            services: [("NI_PUB".to_owned(), PageSize::new(4, 20))].into(),
            ..PageSizes::default()
        },
        ..Config::default()
    };
    let mut world = World::new(config);
    world.p2ps_up(1);
    world.nip_up(0);
    world.directory(0, vec![service(3, "NI_PUB")]);
    let page = |world: &mut World, body: &'static [u8]| {
        world.refresh_with(0, &[], |msg| {
            msg.key = Some(MsgKey { name_type: Some(1), ..MsgKey::item(3, b"PAGE") });
            (msg.stream_id, msg.container, msg.body) = (7, DataType::ANSI_PAGE, body);
        });
    };
    page(&mut world, b"\x1bcfirst life");
    page(&mut world, b"GBP 1.5520\x1b[3;1H");
    for change in [&b"\x1b[31mred"[..], b"\n", b"\x1b[1;9H31"] {
        let update =
            UpdateMsg { container: DataType::ANSI_PAGE, body: change, ..UpdateMsg::new(Domain::MARKET_PRICE, 7) };
        world.message(0, |w| update.encode(w));
    }
    world.events();
    world.open_with(1, "PAGE", flags::STREAMING);
    let events = world.events();
    let image = events.iter().find(|event| event.kind == Kind::Image).expect("an image from memory").image();
    assert_eq!((image.container, image.state.data), (DataType::ANSI_PAGE, DataState::OK));
    let mut shown = Page::new(PageSize::new(4, 20));
    shown.apply(image.body);
    // The region of four rows ends with the third, which has scrolled up.
    assert_eq!(shown.texts(), ["        31", "red"]);
}

#[test]
fn a_service_without_capabilities_and_dictionaries_is_advertised_with_both() {
    let mut world = World::plain();
    world.nip_up(0);
    let mut bare = Service::new(3, rwf::rdm::directory::Action::Add);
    bare.info = Some(Part::Set(rwf::rdm::directory::Info { name: "NI_PUB".into(), ..Default::default() }));
    bare.state = service(3, "").state;
    world.directory(0, vec![bare]);
    let read = |world: &mut World| {
        let events = world.events();
        assert_eq!((events.len(), events[0].kind), (1, Kind::Service));
        assert!(events[0].has(flags::CACHED));
        let body = &events[0].body[2 + "NI_PUB".len()..];
        Service::decode_filters(1, rwf::rdm::directory::Action::Add, body)
            .unwrap()
            .info
            .unwrap()
            .value()
            .unwrap()
            .clone()
    };
    let info = read(&mut world);
    assert_eq!(info.capabilities, [Domain::DICTIONARY]);
    assert_eq!(info.dictionaries_provided, ["RWFFld", "RWFEnum"]);
    assert_eq!(info.dictionaries_used, ["RWFFld", "RWFEnum"]);
    assert_eq!(info.qos, [QOS]);
    // A domain it publishes without having said so is added.
    world.publish(0, -1, 3, "A", &[(22, b"1")]);
    assert_eq!(read(&mut world).capabilities, [Domain::DICTIONARY, Domain::MARKET_PRICE]);
}

#[test]
fn an_open_is_answered_from_the_image_with_every_update_in_it() {
    let mut world = with_nip();
    world.publish(0, -1, 3, "A", &[(22, b"1"), (25, b"2"), (30, b"3")]);
    world.update(0, -1, &[(25, b"longer"), (31, b"new")]);
    world.update(0, -1, &[(30, b""), (22, b"9")]);
    assert!(world.events().is_empty(), "nobody watches");
    let token = world.open_with(1, "A", flags::STREAMING);
    let events = world.events();
    assert_eq!((events[0].kind, events[0].arg), (Kind::ItemOpened, token));
    let image = events[1].image();
    assert_eq!((events[1].target, events[1].flags), (1, flags::FIRST | flags::COMPLETE | flags::CLEAR_CACHE));
    assert_eq!(image.key.unwrap().name, Some(&b"A"[..]));
    assert!(image.flags.contains(RefreshFlags::SOLICITED | RefreshFlags::REFRESH_COMPLETE));
    assert_eq!((image.state.stream, image.state.data), (StreamState::OPEN, DataState::OK));
    assert_eq!((image.qos, image.part_num), (Some(QOS), None));
    let expected: [(i16, &[u8]); 4] = [(22, b"9"), (25, b"longer"), (30, b""), (31, b"new")];
    assert_eq!(fields_of(image.body), expected.map(|(fid, value)| (fid, value.to_vec())));
    // From now on updates are relayed; a further watcher gets the image again, alone.
    let handle = events[0].handle;
    world.update(0, -1, &[(22, b"10")]);
    assert_eq!(world.kinds(), [Kind::Update]);
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    assert_eq!(imaged(&mut world).2[0], (22, b"10".to_vec()));
}

#[test]
fn updates_with_keys_find_their_item_on_any_stream() {
    let mut world = with_nip();
    world.publish(0, -1, 3, "A", &[(22, b"1")]);
    let body = field_list(&[(22, b"2")]);
    let update = UpdateMsg {
        container: DataType::FIELD_LIST,
        key: Some(MsgKey::item(3, b"A")),
        body: &body,
        ..UpdateMsg::new(Domain::MARKET_PRICE, -77)
    };
    world.message(0, |w| update.encode(w));
    world.open_with(1, "A", flags::STREAMING);
    assert_eq!(imaged(&mut world).2, [(22, b"2".to_vec())]);
}

#[test]
fn an_item_may_be_published_again_on_another_stream() {
    let mut world = with_nip();
    world.publish(0, -1, 3, "A", &[(22, b"1")]);
    let handle = world.open(1, "A");
    world.publish(0, -9, 3, "A", &[(22, b"2")]);
    let events = world.events();
    assert_eq!((events[0].handle, events[0].flags), (handle, flags::FIRST | flags::COMPLETE | flags::UNSOLICITED));
    world.update(0, -9, &[(22, b"3")]);
    assert_eq!(world.kinds(), [Kind::Update]);
    world.update(0, -1, &[(22, b"4")]);
    assert!(world.events().is_empty());
    assert_eq!(world.sd.counters().dropped_unknown_stream, 1);
}

#[test]
fn an_item_never_published_is_not_found() {
    let mut world = with_nip();
    world.open_with(1, "NOPE", flags::STREAMING);
    let refused = |world: &mut World| world.events()[0].short_state();
    let not_found = (StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND);
    assert_eq!(refused(&mut world), not_found);
    world.publish(0, -1, 3, "A", &[(22, b"1")]);
    world.open_with(1, "A", flags::STREAMING | flags::PRIVATE);
    assert_eq!(refused(&mut world), not_found, "there is nobody to have a private stream with");
    world.down(0);
    world.events();
    world.open_with(1, "NOPE", flags::STREAMING);
    assert_eq!(refused(&mut world), not_found);
}

#[test]
fn a_lost_provider_leaves_its_images_suspect_until_it_publishes_again() {
    let mut world = with_nip();
    world.publish(0, -1, 3, "A", &[(22, b"1")]);
    world.publish(0, -2, 3, "B", &[(22, b"1")]);
    let a = world.open(1, "A");
    world.down(0);
    let events = world.events();
    assert_eq!(events.iter().map(|e| e.kind).collect::<Vec<_>>(), [Kind::ServiceStatus, Kind::Service]);
    assert_eq!((events[0].short_state().0, events[0].short_state().1), (StreamState::OPEN, DataState::SUSPECT));
    world.open_with(1, "B", flags::STREAMING);
    assert_eq!(imaged(&mut world).1, DataState::SUSPECT);

    // The publisher comes back under another id: item by item its images are good again.
    world.nip_up(5);
    world.directory(5, vec![service(30, "NI_PUB")]);
    assert_eq!(world.kinds(), [Kind::Service]);
    world.publish(5, -8, 30, "A", &[(22, b"2")]);
    let events = world.events();
    let recovered = flags::FIRST | flags::COMPLETE | flags::RECOVERY | flags::CLEAR_CACHE;
    assert_eq!((events[0].handle, events[0].flags), (a, recovered));
    world.p2ps_up(2);
    world.open_with(2, "B", flags::STREAMING);
    assert_eq!(imaged(&mut world).1, DataState::SUSPECT, "B is not published yet");
    world.open_with(2, "A", flags::STREAMING);
    assert_eq!(imaged(&mut world).1, DataState::OK);
}

#[test]
fn a_provider_that_connects_again_before_its_old_session_is_noticed_dead_takes_over() {
    let mut world = with_nip();
    world.publish(0, -1, 3, "A", &[(22, b"1")]);
    let handle = world.open(1, "A");
    world.nip_up(1);
    world.directory(1, vec![service(3, "NI_PUB")]);
    world.publish(1, -1, 3, "A", &[(22, b"2")]);
    world.events();
    world.update(0, -1, &[(22, b"stale")]);
    assert!(world.events().is_empty());
    world.down(0);
    assert!(world.events().is_empty(), "its items belong to the new session");
    assert_eq!(world.sd.counters().taken_back, 0);
    world.update(1, -1, &[(22, b"3")]);
    assert_eq!(world.events()[0].handle, handle);
}

#[test]
fn a_status_changes_the_held_state_and_a_final_one_ends_the_item() {
    let mut world = with_nip();
    world.publish(0, -1, 3, "A", &[(22, b"1")]);
    let handle = world.open(1, "A");
    world.status(0, -1, state(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE));
    assert_eq!(world.kinds(), [Kind::ItemStatus]);
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    assert_eq!(imaged(&mut world).1, DataState::SUSPECT);
    world.status(0, -1, state(StreamState::OPEN, DataState::OK, StateCode::NONE));
    world.events();
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    assert_eq!(imaged(&mut world).1, DataState::OK);

    world.status(0, -1, state(StreamState::CLOSED, DataState::SUSPECT, StateCode::NONE));
    assert!(world.events()[0].has(flags::CLOSED));
    world.open_with(1, "A", flags::STREAMING);
    assert_eq!(world.events()[0].short_state().2, StateCode::NOT_FOUND);
    world.close(1, handle);
    assert_eq!(world.sd.items(), 0);
}

#[test]
fn a_close_of_the_provider_ends_the_item() {
    let mut world = with_nip();
    world.publish(0, -1, 3, "A", &[(22, b"1")]);
    world.open(1, "A");
    world.provider_close(0, -1);
    let events = world.events();
    assert!(events[0].has(flags::CLOSED));
    assert_eq!(events[0].state().stream, StreamState::CLOSED);
}

#[test]
fn closed_recover_keeps_the_image_suspect() {
    let mut world = with_nip();
    world.publish(0, -1, 3, "A", &[(22, b"1")]);
    let handle = world.open(1, "A");
    world.status(0, -1, state(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE));
    let events = world.events();
    assert_eq!((events[0].flags, events[0].state().stream), (0, StreamState::OPEN));
    world.publish(0, -4, 3, "A", &[(22, b"2")]);
    let events = world.events();
    assert!(events[0].handle == handle && events[0].has(flags::RECOVERY));
}

#[test]
fn a_status_for_an_item_by_key() {
    let mut world = with_nip();
    world.publish(0, -1, 3, "A", &[(22, b"1")]);
    world.open(1, "A");
    let status = StatusMsg {
        state: Some(state(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE)),
        key: Some(MsgKey::item(3, b"A")),
        ..StatusMsg::new(Domain::MARKET_PRICE, -5)
    };
    world.message(0, |w| status.encode(w));
    assert_eq!(world.kinds(), [Kind::ItemStatus]);
}

#[test]
fn a_status_does_not_make_a_lost_image_good() {
    let mut world = with_nip();
    world.publish(0, -1, 3, "A", &[(22, b"1")]);
    world.open(1, "A");
    world.down(0);
    world.nip_up(0);
    world.directory(0, vec![service(3, "NI_PUB")]);
    world.events();
    let good = StatusMsg {
        state: Some(State::OPEN_OK),
        key: Some(MsgKey { name_type: Some(1), ..MsgKey::item(3, b"A") }),
        ..StatusMsg::new(Domain::MARKET_PRICE, -5)
    };
    world.message(0, |w| good.encode(w));
    assert!(world.events().is_empty(), "what was published meanwhile is missing");
    world.p2ps_up(2);
    world.open_with(2, "A", flags::STREAMING);
    assert_eq!(imaged(&mut world).1, DataState::SUSPECT);
    world.publish(0, -5, 3, "A", &[(22, b"2")]);
    world.message(0, |w| good.encode(w));
    let kinds = world.kinds();
    assert_eq!(kinds, [Kind::Image, Kind::ItemStatus]);
}

#[test]
fn who_comes_in_the_middle_of_a_multi_part_image_gets_a_whole_one() {
    let mut world = with_nip();
    let part = |fid: i16, n: u16, last: bool| {
        move |world: &mut World| {
            world.refresh_with(0, &[(fid, b"x")], |msg| {
                msg.stream_id = -1;
                msg.key = Some(MsgKey { name_type: Some(1), ..MsgKey::item(3, b"BOOK") });
                msg.part_num = Some(n);
                msg.flags = if last { RefreshFlags::REFRESH_COMPLETE } else { RefreshFlags::NONE };
            });
        }
    };
    part(1, 0, false)(&mut world);
    world.open_with(1, "BOOK", flags::STREAMING);
    assert_eq!(world.kinds(), [Kind::ItemOpened], "no image before the set is complete");
    part(2, 1, true)(&mut world);
    let events = world.events();
    assert_eq!(events[0].flags, flags::COMPLETE | flags::UNSOLICITED, "the tail, for those who have the head");
    assert_eq!(events[1].flags, flags::FIRST | flags::COMPLETE | flags::CLEAR_CACHE);
    assert_eq!(fields_of(events[1].image().body).len(), 2);
}

#[test]
fn a_large_map_is_sent_in_parts_and_kept_by_key() {
    let mut world = World::new(Config { image_part: 200, ..Config::default() });
    world.p2ps_up(1);
    world.nip_up(0);
    world.directory(0, vec![service(3, "NI_PUB")]);
    let map = |entries: Vec<(MapAction, u64, &'static [u8])>| {
        bytes_of(|w| {
            let mut map = MapEncoder::begin(w, MapHead::new(DataType::UINT, DataType::FIELD_LIST))?;
            for (action, key, value) in &entries {
                let fields = field_list(&[(1, value), (2, b"kept")]);
                let fields = if *action == MapAction::UPDATE { field_list(&[(1, value)]) } else { fields };
                map.entry(*action, &Primitive::UInt(*key), |w| w.bytes(&fields))?;
            }
            map.finish()
        })
    };
    let all = map((0..40).map(|key| (MapAction::ADD, key, &b"first"[..])).collect());
    world.refresh_with(0, &[], |msg| {
        msg.domain = Domain::MARKET_BY_PRICE;
        msg.stream_id = -1;
        msg.container = DataType::MAP;
        msg.key = Some(MsgKey { name_type: Some(1), ..MsgKey::item(3, b"BOOK") });
        msg.body = Box::leak(all.clone().into_boxed_slice());
    });
    let change = map(vec![
        (MapAction::DELETE, 3, b""),
        (MapAction::UPDATE, 4, b"second"),
        (MapAction::ADD, 100, b"third"),
        (MapAction::UPDATE, 500, b"nobody"),
    ]);
    let update = UpdateMsg { container: DataType::MAP, body: &change, ..UpdateMsg::new(Domain::MARKET_BY_PRICE, -1) };
    world.message(0, |w| update.encode(w));
    world.events();
    let book = rwf::msg::RequestMsg { domain: Domain::MARKET_BY_PRICE, ..request("BOOK") };
    world.open_request(1, 1, flags::STREAMING, &book);
    let events = world.events();
    let images: Vec<_> = events.iter().filter(|e| e.kind == Kind::Image).collect();
    assert!(images.len() > 3);
    let mut read = std::collections::BTreeMap::new();
    for (n, event) in images.iter().enumerate() {
        let image = event.image();
        assert_eq!(image.part_num, Some(n as u16));
        assert_eq!(event.has(flags::FIRST), n == 0);
        let last = n + 1 == images.len();
        assert_eq!((event.has(flags::COMPLETE), image.flags.contains(RefreshFlags::REFRESH_COMPLETE)), (last, last));
        let map = rwf::Map::decode(image.body, &rwf::SetScope::NONE).unwrap();
        for entry in map.entries() {
            let entry = entry.unwrap();
            let Primitive::UInt(key) = entry.key_value(DataType::UINT).unwrap() else { panic!() };
            assert!(read.insert(key, fields_of(entry.data)).is_none());
        }
    }
    let kept = (2, b"kept".to_vec());
    assert_eq!(read.len(), 40);
    assert!(!read.contains_key(&3));
    assert_eq!(read[&4], [(1, b"second".to_vec()), kept.clone()]);
    assert_eq!(read[&100], [(1, b"third".to_vec()), kept.clone()]);
    assert_eq!(read[&0], [(1, b"first".to_vec()), kept]);
}

#[test]
fn an_image_that_cannot_be_kept_up_is_suspect_until_the_next_refresh() {
    let mut world = with_nip();
    world.publish(0, -1, 3, "A", &[(22, b"1")]);
    let bad = UpdateMsg { container: DataType::XML, body: b"<a/>", ..UpdateMsg::new(Domain::MARKET_PRICE, -1) };
    world.message(0, |w| bad.encode(w));
    world.open_with(1, "A", flags::STREAMING);
    assert_eq!(imaged(&mut world).1, DataState::SUSPECT);
    assert_eq!(world.sd.counters().cache_failures, 1);
    world.publish(0, -1, 3, "A", &[(22, b"2")]);
    world.events();
    world.p2ps_up(2);
    world.open_with(2, "A", flags::STREAMING);
    assert_eq!(imaged(&mut world).1, DataState::OK);
}

#[test]
fn an_item_without_a_service_that_was_announced_is_dropped() {
    let mut world = with_nip();
    world.publish(0, -1, 99, "A", &[(22, b"1")]);
    assert_eq!(world.sd.counters().dropped_unknown_service, 1);
    assert_eq!(world.sd.items(), 0);
}

#[test]
fn a_snapshot_of_a_held_item_leaves_nothing_behind() {
    let mut world = with_nip();
    world.publish(0, -1, 3, "A", &[(22, b"1")]);
    let shared = world.open(1, "A");
    world.open_with(1, "A", flags::SNAPSHOT_ONLY);
    let events = world.events();
    let handle = events[0].handle;
    assert_ne!(handle, shared, "an open of its own");
    assert_eq!((events[1].handle, events[1].flags & !flags::CLEAR_CACHE), (handle, WHOLE | flags::SNAPSHOT));
    world.close(1, handle);
    assert_eq!(world.sd.items(), 1);
    world.update(0, -1, &[(22, b"2")]);
    assert_eq!(world.events()[0].handle, shared, "the streaming one lives on");
}

/// A part of a published image of BOOK.
fn part(world: &mut World, id: u32, fid: i16, n: u16, last: bool) {
    world.refresh_with(id, &[(fid, b"x")], |msg| {
        msg.stream_id = -1;
        msg.key = Some(MsgKey { name_type: Some(1), ..MsgKey::item(3, b"BOOK") });
        msg.part_num = Some(n);
        msg.flags = if last { RefreshFlags::REFRESH_COMPLETE } else { RefreshFlags::NONE };
    });
}

#[test]
fn a_snapshot_waits_for_the_set_under_way_and_ends_with_its_item() {
    let mut world = with_nip();
    part(&mut world, 0, 1, 0, false);
    world.open_with(1, "BOOK", flags::SNAPSHOT_ONLY);
    assert_eq!(world.kinds(), [Kind::ItemOpened]);
    part(&mut world, 0, 2, 1, true);
    let events = world.events();
    assert_eq!((events.len(), events[0].flags & !flags::CLEAR_CACHE), (1, WHOLE | flags::SNAPSHOT));
    assert_eq!(fields_of(events[0].image().body).len(), 2);
    part(&mut world, 0, 1, 0, false);
    world.open_with(1, "BOOK", flags::SNAPSHOT_ONLY);
    world.events();
    world.provider_close(0, -1);
    let events = world.events();
    assert!(events.iter().all(|e| e.kind == Kind::ItemStatus && e.has(flags::CLOSED)));
    assert_eq!(events.len(), 2, "the item and the snapshot");
}

#[test]
fn a_set_that_was_never_whole_is_no_image() {
    let mut world = with_nip();
    part(&mut world, 0, 1, 0, false);
    world.down(0);
    world.events();
    world.open_with(1, "BOOK", flags::STREAMING);
    let events = world.events();
    assert_eq!(events.iter().map(|e| e.kind).collect::<Vec<_>>(), [Kind::ItemOpened, Kind::ItemStatus]);
    assert!(events[1].has(flags::WAITING_ONLY) && events[1].state().data == DataState::SUSPECT);
    world.nip_up(1);
    world.directory(1, vec![service(3, "NI_PUB")]);
    part(&mut world, 1, 1, 0, false);
    part(&mut world, 1, 2, 1, true);
    let events = world.events();
    let images: Vec<_> = events.iter().filter(|e| e.kind == Kind::Image).collect();
    assert!(images[0].has(flags::FIRST) && images[1].has(flags::COMPLETE));
    assert!(images.iter().all(|e| e.has(flags::RECOVERY)));
}

#[test]
fn an_image_cut_off_by_the_loss_leaves_the_one_before() {
    let mut world = with_nip();
    part(&mut world, 0, 1, 0, true);
    part(&mut world, 0, 7, 0, false);
    world.open_with(1, "BOOK", flags::STREAMING);
    assert_eq!(world.kinds(), [Kind::ItemOpened], "it waits for the set");
    world.down(0);
    let (bits, data, fields) = imaged(&mut world);
    assert_eq!((bits, data), (WHOLE | flags::CLEAR_CACHE, DataState::SUSPECT));
    assert_eq!(fields, [(1, b"x".to_vec())]);
}

#[test]
fn time_makes_no_published_item_suspect() {
    let mut world = with_nip();
    world.p2ps_up(2);
    world.route_up(5);
    world.directory(5, vec![service(9, "FEED")]);
    world.events();
    // Handles of interactive items that were asked for are used again by published ones.
    for n in 0..20 {
        let token = world.open_request(2, 2, flags::STREAMING, &request(&format!("I{n}")));
        let events = world.events();
        let opened = events.iter().find(|e| e.kind == Kind::ItemOpened && e.arg == token).unwrap().handle;
        world.close(2, opened);
        world.publish(0, -1 - n, 3, &format!("P{n}"), &[(22, b"1")]);
        world.open_request(1, 1, flags::STREAMING, &request(&format!("P{n}")));
    }
    world.events();
    world.pass(120);
    assert!(world.events().is_empty());
}

#[test]
fn a_name_belongs_to_providers_of_one_kind() {
    let mut world = World::with_feed();
    world.nip_up(1);
    world.directory(1, vec![service(3, "FEED")]);
    assert!(world.events().is_empty());
    assert_eq!(world.sd.counters().refused_services, 1);
}

#[test]
fn a_service_withdrawn_by_its_provider_is_gone() {
    let mut world = with_nip();
    world.publish(0, -1, 3, "A", &[(22, b"1")]);
    let handle = world.open(1, "A");
    world.directory_update(0, vec![Service::delete(3)]);
    assert_eq!(world.kinds(), [Kind::ServiceGone]);
    world.close(1, handle);
    assert_eq!(world.sd.items(), 0);
    world.directory_update(0, vec![service(3, "NI_PUB")]);
    world.publish(0, -1, 3, "A", &[(22, b"1")]);
    world.events();
    world.open(1, "A");
}

#[test]
fn what_a_provider_sends_of_a_service_that_it_has_deleted_is_of_no_other_item() {
    let mut world = World::with_feed();
    world.nip_up(1);
    world.directory(1, vec![service(3, "NI_PUB")]);
    world.publish(1, 9, 3, "A", &[(22, b"1")]);
    world.directory_update(1, vec![Service::new(3, rwf::rdm::directory::Action::Delete)]);
    world.events();
    assert_eq!(world.sd.items(), 0);
    // Its handle is the next item's.
    world.open_imaged(1, "B");
    world.update(1, 9, &[(22, b"2")]);
    assert!(world.events().is_empty());
    assert_eq!(world.sd.counters().dropped_unknown_stream, 1);
}

/// A world in which session 1 has published item A, value 2, over session 0, which had value 1; A is open at P2PS 1 by this handle.
fn published_by_two() -> (World, u32) {
    let mut world = with_nip();
    world.publish(0, -1, 3, "A", &[(22, b"1")]);
    let handle = world.open(1, "A");
    world.nip_up(1);
    world.directory(1, vec![service(3, "NI_PUB")]);
    world.publish(1, -7, 3, "A", &[(22, b"2")]);
    world.events();
    (world, handle)
}

#[test]
fn the_publisher_that_is_left_has_its_item_back() {
    let (mut world, handle) = published_by_two();
    world.update(0, -1, &[(22, b"1b"), (25, b"x")]);
    assert!(world.events().is_empty(), "the other one is used");
    world.down(1);
    let events = world.events();
    assert_eq!(events.len(), 1, "one image, and no word of a loss: {events:?}");
    let whole = WHOLE | flags::CLEAR_CACHE | flags::UNSOLICITED;
    assert_eq!((events[0].kind, events[0].handle, events[0].flags), (Kind::Image, handle, whole));
    let image = events[0].image();
    assert_eq!((image.state.stream, image.state.data), (StreamState::OPEN, DataState::OK));
    assert!(!image.flags.contains(RefreshFlags::SOLICITED));
    assert_eq!(fields_of(image.body), [(22, b"1b".to_vec()), (25, b"x".to_vec())], "with its updates of meanwhile");
    // The publisher goes on without publishing anything again, and who comes gets its image.
    world.update(0, -1, &[(22, b"3")]);
    assert_eq!(world.kinds(), [Kind::Update]);
    world.p2ps_up(2);
    world.open_with(2, "A", flags::STREAMING);
    assert_eq!(imaged(&mut world).2[0], (22, b"3".to_vec()));
    assert_eq!(world.sd.counters().taken_back, 1);
    let told: Vec<String> = world.sd.notices().map(|notice| notice.to_string()).collect();
    assert!(
        told.len() == 1 && told[0].starts_with("1 items of service NI_PUB are taken from provider nip0 again"),
        "{told:?}"
    );
}

#[test]
fn an_item_goes_back_however_its_publisher_leaves_it() {
    let (open_to, suspect, none) = (StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE);
    let leave: [&dyn Fn(&mut World); 6] = [
        &|world| world.provider_close(1, -7),
        &|world| world.status(1, -7, state(open_to, suspect, none)),
        &|world| world.status(1, -7, state(StreamState::CLOSED, suspect, none)),
        &|world| {
            let service = Service::new(3, rwf::rdm::directory::Action::Delete);
            world.directory_update(1, vec![service]);
        },
        &|world| world.publish(1, -7, 3, "B", &[(22, b"b")]),
        &|world| {
            world.refresh_with(1, &[], |msg| {
                msg.stream_id = -7;
                msg.state = state(StreamState::CLOSED, DataState::SUSPECT, StateCode::NONE);
            });
        },
    ];
    for (n, leave) in leave.iter().enumerate() {
        let (mut world, handle) = published_by_two();
        leave(&mut world);
        let events = world.events();
        assert_eq!((events.len(), events[0].kind, events[0].handle), (1, Kind::Image, handle), "{n}: {events:?}");
        assert_eq!(fields_of(events[0].image().body), [(22, b"1".to_vec())], "{n}");
        world.update(0, -1, &[(22, b"3")]);
        assert_eq!(world.kinds(), [Kind::Update], "{n}");
    }
}

#[test]
fn a_publisher_without_its_item_does_not_get_it_back() {
    let leave: [&dyn Fn(&mut World); 3] = [&|world| world.provider_close(0, -1), &|world| world.down(0), &|world| {
        world.publish(0, -1, 3, "B", &[(22, b"b")]);
    }];
    for (n, leave) in leave.iter().enumerate() {
        let (mut world, handle) = published_by_two();
        leave(&mut world);
        assert!(world.events().is_empty(), "{n}");
        world.down(1);
        let events = world.events();
        let of_item = events.iter().any(|event| {
            event.kind == Kind::ItemStatus && event.handle == handle && event.state().data == DataState::SUSPECT
        });
        let of_service = || {
            events.iter().any(|event| event.kind == Kind::ServiceStatus && event.short_state().1 == DataState::SUSPECT)
        };
        assert!(of_item || of_service(), "{n}: {events:?}");
    }
}

#[test]
fn a_publisher_in_the_middle_of_an_image_does_not_get_its_item_back() {
    let mut world = with_nip();
    let part = |world: &mut World, id: u32, stream: i32, n: u16, last: bool| {
        world.refresh_with(id, &[(n as i16, b"x")], |msg| {
            msg.stream_id = stream;
            msg.key = Some(MsgKey { name_type: Some(1), ..MsgKey::item(3, b"BOOK") });
            msg.part_num = Some(n);
            msg.flags = if last { RefreshFlags::REFRESH_COMPLETE } else { RefreshFlags::NONE };
        });
    };
    world.nip_up(1);
    world.directory(1, vec![service(3, "NI_PUB")]);
    for rest in [false, true] {
        part(&mut world, 0, -1, 0, false);
        part(&mut world, 1, -7, 0, true);
        let handle = world.open(1, "BOOK");
        if rest {
            // The image becomes whole while it stands by.
            part(&mut world, 0, -1, 1, true);
            assert!(world.events().is_empty());
        }
        world.provider_close(1, -7);
        let events = world.events();
        if rest {
            assert_eq!(events[0].kind, Kind::Image, "{events:?}");
            assert_eq!(fields_of(events[0].image().body).len(), 2);
            continue;
        }
        assert!(events[0].has(flags::CLOSED), "{events:?}");
        part(&mut world, 0, -1, 1, true);
        world.close(1, handle);
        assert!(world.kinds().iter().all(|kind| *kind != Kind::Image), "a tail is no image");
    }
}
