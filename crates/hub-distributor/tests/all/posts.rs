//! Posts and their acks.

use crate::world::*;
use hub_stream::{Kind, Request, flags};
use rwf::msg::{Domain, Msg, MsgKey, NakCode, PostFlags, PostMsg, PostUserInfo, RefreshMsg, UpdateMsg};
use rwf::{DataType, State};

fn post(name: Option<&'static [u8]>, body: &'static [u8], container: DataType) -> Vec<u8> {
    let post = PostMsg {
        container,
        flags: PostFlags::ACK | PostFlags::POST_COMPLETE,
        post_id: Some(1),
        seq_num: Some(9),
        post_user_info: PostUserInfo { addr: 0x7F00_0001, id: 42 },
        key: name.map(|name| MsgKey { service_id: Some(1), name: Some(name), ..MsgKey::EMPTY }),
        body,
        ..PostMsg::new(Domain::MARKET_PRICE, 77)
    };
    bytes_of(|w| post.encode(w))
}

fn nested(service: u16) -> &'static [u8] {
    let body = field_list(&[(22, b"p")]);
    let update = UpdateMsg {
        container: DataType::FIELD_LIST,
        key: Some(MsgKey::item(service, b"A")),
        body: &body,
        ..UpdateMsg::new(Domain::MARKET_PRICE, 0)
    };
    Box::leak(bytes_of(|w| update.encode(w)).into_boxed_slice())
}

fn sent_post(bytes: &[u8]) -> PostMsg<'_> {
    match Msg::decode(bytes).unwrap() {
        Msg::Post(post) => post,
        other => panic!("{other:?}"),
    }
}

#[test]
fn equal_post_ids_of_two_p2ps_find_their_owners() {
    let mut world = World::plain();
    world.route_up(0);
    world.directory(0, vec![service(700, "FEED")]);
    world.p2ps_up(2);
    world.events();
    world.sent(0);
    let rwf = post(Some(b"A"), nested(1), DataType::MSG);
    for (id, token) in [(1, 11), (2, 22)] {
        world.request(id, &Request::Post { service: 1, handle: None, token, rwf: &rwf }).unwrap();
    }
    let sent = world.sent(0);
    let posts: Vec<_> = sent.iter().map(|bytes| sent_post(bytes)).collect();
    assert_ne!(posts[0].post_id, posts[1].post_id);
    for post in &posts {
        assert_eq!(post.stream_id, 1, "off-stream: on the login");
        assert_eq!(post.key.unwrap().service_id, Some(700));
        assert_eq!(Msg::decode(post.body).unwrap().key().unwrap().service_id, Some(700), "in the message inside too");
        assert_eq!((post.post_user_info.id, post.seq_num), (42, Some(9)));
    }
    world.ack(0, 1, posts[1].post_id.unwrap(), None);
    world.ack(0, 1, posts[0].post_id.unwrap(), Some(NakCode::DENIED_BY_SRC));
    let events = world.events();
    let got: Vec<_> = events.iter().map(|e| (e.target, e.arg, e.ack().nak_code)).collect();
    assert_eq!(got, [(2, 22, None), (1, 11, Some(NakCode::DENIED_BY_SRC))]);
    world.ack(0, 1, posts[0].post_id.unwrap(), None);
    assert!(world.events().is_empty());
    assert_eq!(world.sd.counters().dropped_acks, 1);
}

#[test]
fn a_post_on_an_item_goes_on_its_stream() {
    let mut world = World::with_feed();
    let (handle, stream) = world.open_imaged(1, "A");
    let body: &'static [u8] = Box::leak(field_list(&[(22, b"p")]).into_boxed_slice());
    let rwf = post(None, body, DataType::FIELD_LIST);
    world.request(1, &Request::Post { service: 1, handle: Some(handle), token: 5, rwf: &rwf }).unwrap();
    let sent = world.sent(0);
    let post = sent_post(&sent[0]);
    assert_eq!((post.stream_id, post.key, post.body), (stream, None, body));
    world.ack(0, stream, post.post_id.unwrap(), None);
    assert_eq!(world.events()[0].arg, 5);
}

#[test]
fn a_post_without_an_ack_is_passed_on_and_forgotten() {
    let mut world = World::with_feed();
    let rwf = post(Some(b"A"), nested(1), DataType::MSG);
    world.request(1, &Request::Post { service: 1, handle: None, token: 0, rwf: &rwf }).unwrap();
    let sent = world.sent(0);
    assert!(!sent_post(&sent[0]).flags.contains(PostFlags::ACK));
    world.pass(60);
    assert!(world.events().is_empty());
}

#[test]
fn every_post_that_cannot_be_delivered_gets_its_nak() {
    let mut world = World::with_feed();
    let rwf = post(Some(b"A"), nested(1), DataType::MSG);
    let nak = |world: &mut World| {
        let events = world.events();
        let acks: Vec<_> = events.iter().filter(|e| e.kind == Kind::Ack).collect();
        assert_eq!(acks.len(), 1, "{events:?}");
        assert!(acks[0].ack().text.is_some());
        assert_eq!(acks[0].ack().seq_num, Some(9));
        (acks[0].arg, acks[0].ack().nak_code.unwrap())
    };
    world.request(1, &Request::Post { service: 99, handle: None, token: 1, rwf: &rwf }).unwrap();
    assert_eq!(nak(&mut world), (1, NakCode::SOURCE_UNKNOWN));
    world.request(1, &Request::Post { service: 1, handle: Some(4), token: 2, rwf: &rwf }).unwrap();
    assert_eq!(nak(&mut world), (2, NakCode::NOT_OPEN));
    // Not answered in time.
    world.request(1, &Request::Post { service: 1, handle: None, token: 3, rwf: &rwf }).unwrap();
    world.pass(16);
    assert_eq!(nak(&mut world), (3, NakCode::NO_RESPONSE));
    // The provider goes while the post is under way.
    world.request(1, &Request::Post { service: 1, handle: None, token: 4, rwf: &rwf }).unwrap();
    world.down(0);
    assert_eq!(nak(&mut world), (4, NakCode::SOURCE_DOWN));
    world.request(1, &Request::Post { service: 1, handle: None, token: 5, rwf: &rwf }).unwrap();
    assert_eq!(nak(&mut world), (5, NakCode::SOURCE_DOWN));
    let counters = world.sd.counters();
    assert_eq!((counters.posts, counters.refused_posts, counters.post_timeouts), (5, 5, 1));
}

#[test]
fn the_ack_of_another_session_is_not_taken() {
    let mut world = World::with_feed();
    world.route_up(1);
    world.directory(1, vec![service(9, "OTHER")]);
    world.events();
    let rwf = post(Some(b"A"), nested(1), DataType::MSG);
    world.request(1, &Request::Post { service: 1, handle: None, token: 1, rwf: &rwf }).unwrap();
    let id = sent_post(&world.sent(0)[0]).post_id.unwrap();
    world.ack(1, 1, id, None);
    assert!(world.events().is_empty());
    world.ack(0, 1, id, None);
    assert_eq!(world.kinds(), [Kind::Ack]);
}

#[test]
fn a_post_to_held_images_is_applied_published_and_acknowledged_here() {
    let mut world = World::plain();
    world.nip_up(0);
    world.directory(0, vec![service(3, "NI_PUB")]);
    world.publish(0, -1, 3, "A", &[(22, b"1"), (25, b"2")]);
    world.events();
    world.sent(0);
    let handle = world.open(1, "A");
    let rwf = post(Some(b"A"), nested(1), DataType::MSG);
    world.request(1, &Request::Post { service: 1, handle: None, token: 1, rwf: &rwf }).unwrap();
    let events = world.events();
    assert_eq!(events.iter().map(|e| e.kind).collect::<Vec<_>>(), [Kind::Update, Kind::Ack]);
    let Msg::Update(update) = Msg::decode(&events[0].body).unwrap() else { panic!() };
    assert_eq!(update.post_user_info, Some(PostUserInfo { addr: 0x7F00_0001, id: 42 }));
    assert_eq!(events[1].ack().nak_code, None);
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    let events = world.events();
    assert_eq!(fields_of(events[0].image().body), [(22, b"p".to_vec()), (25, b"2".to_vec())]);
    assert!(world.sent(0).is_empty(), "the provider is not asked");

    // On-stream and without a message inside: an update.
    let body: &'static [u8] = Box::leak(field_list(&[(25, b"q")]).into_boxed_slice());
    let rwf = post(None, body, DataType::FIELD_LIST);
    world.request(1, &Request::Post { service: 1, handle: Some(handle), token: 2, rwf: &rwf }).unwrap();
    assert_eq!(world.kinds(), [Kind::Update, Kind::Ack]);
}

#[test]
fn a_posted_refresh_creates_its_item_and_an_update_does_not() {
    let mut world = World::plain();
    world.nip_up(0);
    world.directory(0, vec![service(3, "NI_PUB")]);
    world.events();
    let rwf = post(Some(b"A"), nested(1), DataType::MSG);
    world.request(1, &Request::Post { service: 1, handle: None, token: 1, rwf: &rwf }).unwrap();
    assert_eq!(world.events()[0].ack().nak_code, Some(NakCode::SYMBOL_UNKNOWN));
    let body = field_list(&[(22, b"r")]);
    let refresh = RefreshMsg {
        container: DataType::FIELD_LIST,
        flags: rwf::msg::RefreshFlags::REFRESH_COMPLETE,
        state: State::OPEN_OK,
        body: &body,
        ..RefreshMsg::new(Domain::MARKET_PRICE, 0)
    };
    let inner: &'static [u8] = Box::leak(bytes_of(|w| refresh.encode(w)).into_boxed_slice());
    let rwf = post(Some(b"A"), inner, DataType::MSG);
    world.request(1, &Request::Post { service: 1, handle: None, token: 2, rwf: &rwf }).unwrap();
    assert_eq!(world.events()[0].ack().nak_code, None);
    world.open_with(1, "A", flags::STREAMING);
    let events = world.events();
    assert_eq!(fields_of(events[1].image().body), [(22, b"r".to_vec())]);
}

#[test]
fn a_post_that_is_none_cuts_the_p2ps_off() {
    let mut world = World::with_feed();
    let broken = world.request(1, &Request::Post { service: 1, handle: None, token: 1, rwf: b"garbage" });
    assert!(broken.is_err());
    assert_eq!(world.sd.counters().closed_p2ps, 1);
}

/// What a poster sends who has these rights, or says nothing of any.
fn with_rights(rights: Option<u16>, name: &'static [u8], perm_data: Option<&[u8]>, inner: &[u8]) -> Vec<u8> {
    let plain = post(Some(name), b"", DataType::MSG);
    let plain = sent_post(&plain);
    bytes_of(|w| PostMsg { post_user_rights: rights, perm_data, body: inner, ..plain.clone() }.encode(w))
}

/// The lock of the image that a newcomer gets.
fn lock_of_image(world: &mut World) -> Option<Vec<u8>> {
    world.events();
    world.open_with(1, "A", flags::STREAMING);
    let events = world.events();
    let answer = events.iter().find(|event| event.kind == Kind::Image).expect("an image from memory");
    let lock = answer.image().perm_data.map(<[u8]>::to_vec);
    world.close(1, answer.handle);
    lock
}

#[test]
fn what_a_poster_may_do_beside_changing_values_is_what_its_rights_say() {
    const LOCK: &[u8] = &[3, 0, 1, 0x5C];
    const OTHER: &[u8] = &[3, 0, 1, 0x6C];
    const CREATE: u16 = 1;
    const MODIFY: u16 = 4;
    let mut world = World::plain();
    world.nip_up(0);
    world.directory(0, vec![service(3, "NI_PUB")]);
    world.refresh_with(0, &[(22, b"1")], |msg| {
        msg.key = Some(MsgKey { name_type: Some(1), ..MsgKey::item(3, b"A") });
        (msg.stream_id, msg.flags, msg.perm_data) = (7, rwf::msg::RefreshFlags::REFRESH_COMPLETE, Some(LOCK));
    });
    let body = field_list(&[(22, b"r")]);
    let refresh = |state: State<'static>, perm_data: Option<&'static [u8]>| {
        let (container, flags) = (DataType::FIELD_LIST, rwf::msg::RefreshFlags::REFRESH_COMPLETE);
        let empty = RefreshMsg::new(Domain::MARKET_BY_ORDER, 0);
        bytes_of(|w| RefreshMsg { container, flags, state, perm_data, body: &body, ..empty.clone() }.encode(w))
    };
    let open = |perm_data| refresh(State::OPEN_OK, perm_data);
    let closed = State { stream: rwf::StreamState::CLOSED, ..State::OPEN_OK };
    let handle = world.open(1, "A");
    let nak = |world: &mut World, handle, rwf: &[u8]| {
        world.events();
        world.request(1, &Request::Post { service: 1, handle, token: 1, rwf }).unwrap();
        let events = world.events();
        let ack = events.iter().find(|event| event.kind == Kind::Ack).expect("an answer");
        (ack.ack().nak_code, events)
    };
    let denied = Some(NakCode::ACCESS_DENIED);
    for (rights, name, lock, inner, told) in [
        (Some(0), &b"NEW"[..], None, open(None), denied),
        (Some(MODIFY), b"NEW", None, open(None), denied),
        (Some(0), b"A", None, refresh(closed, None), denied),
        (Some(CREATE), b"A", None, open(Some(OTHER)), denied),
        (Some(CREATE), b"A", Some(OTHER), open(None), denied),
        (Some(CREATE), b"NEW", None, open(None), None),
        (None, b"NEWER", None, open(None), None),
    ] {
        let handle = (name == b"A").then_some(handle);
        assert_eq!(nak(&mut world, handle, &with_rights(rights, name, lock, &inner)).0, told, "{rights:?} {name:?}");
    }
    // A refresh without a lock would open the item to everyone.
    for (rights, lock, kept) in [
        (Some(0), None, Some(LOCK)),
        (None, None, Some(LOCK)),
        (Some(MODIFY), Some(OTHER), Some(OTHER)),
        (Some(0), None, Some(OTHER)),
        (Some(MODIFY), None, None),
    ] {
        let handle = world.open(1, "A");
        let (told, events) = nak(&mut world, Some(handle), &with_rights(rights, b"A", lock, &open(None)));
        assert_eq!(told, None);
        let image = events.iter().find(|event| event.kind == Kind::Image).expect("published");
        assert_eq!((image.image().perm_data, image.image().domain), (kept, Domain::MARKET_PRICE));
        world.close(1, handle);
        assert_eq!(lock_of_image(&mut world).as_deref(), kept, "{rights:?} {lock:?}");
    }
    // The lock of the post guards the values that are in it.
    let rwf = post(Some(b"A"), Box::leak(field_list(&[(22, b"v")]).into_boxed_slice()), DataType::FIELD_LIST);
    let values = sent_post(&rwf);
    let rwf = bytes_of(|w| PostMsg { perm_data: Some(LOCK), ..values.clone() }.encode(w));
    let handle = world.open(1, "A");
    let (told, events) = nak(&mut world, Some(handle), &rwf);
    let Msg::Update(update) = Msg::decode(&events[0].body).unwrap() else { panic!("{events:?}") };
    assert_eq!((told, update.perm_data), (None, Some(LOCK)));
    world.close(1, handle);
    assert_eq!(lock_of_image(&mut world).as_deref(), Some(LOCK));
}
