//! Each rule of the consumer by itself.

use crate::world::{SECOND, World, consumer_config, provider_config, service, state_change};
use omm::Disconnect;
use omm::consumer::{ConsumerConfig, Event, ItemId, ItemRequest};
use rwf::msg::{Domain, MsgKey, RefreshMsg, StatusMsg};
use rwf::rdm::directory::{Action, Group, Part, Service, ServiceState};
use rwf::rdm::login;
use rwf::rdm::request::View;
use rwf::wire::Writer;
use rwf::{DataState, State, StateCode, StreamState};

fn world(open_window: Option<u64>) -> World {
    let mut world = World::new(consumer_config(2), provider_config(vec![service(1, "FEED", open_window)]));
    for (n, name) in ["A", "B", "C", "D"].into_iter().enumerate() {
        world.values.insert(name.to_owned(), n as u64);
    }
    world
}

fn change_service(world: &mut World, change: &Service) {
    world.provider.as_mut().unwrap().change_service(change);
    world.settle();
}

#[test]
fn the_dictionary_comes_in_parts_and_once() {
    let config = ConsumerConfig { dictionary: true, ..consumer_config(1) };
    let mut world = World::new(config, provider_config(vec![service(1, "FEED", None)]));
    world.connect().unwrap();
    world.settle();
    let dictionary = world.consumer.dictionary().unwrap();
    assert_eq!(dictionary.field(22).unwrap().acronym(), "BID");
    assert!(dictionary.enum_tables().len() > 10);
    world.disconnect();
    world.connect().unwrap();
    world.settle();
    assert_eq!(world.events.iter().filter(|event| matches!(event, Event::Dictionary(_))).count(), 1);
}

#[test]
fn an_item_is_stale_from_the_loss_of_the_connection_until_its_next_image() {
    let mut world = world(None);
    let item = world.consumer.open(world.now, ItemRequest::new("FEED", "A")).unwrap();
    assert_eq!(world.connect().unwrap(), "server0");
    world.settle();
    assert_eq!((world.seen[&item].value, world.seen[&item].stale), (Some(0), false));
    world.change("A", 7);
    world.settle();
    assert_eq!(world.seen[&item].value, Some(7));
    world.disconnect();
    assert!(world.seen[&item].stale);
    world.change("A", 8);
    assert_eq!(world.connect().unwrap(), "server1", "the next of the list");
    world.settle();
    assert_eq!((world.seen[&item].value, world.seen[&item].stale, world.seen[&item].images), (Some(8), false, 2));
}

#[test]
fn without_single_open_the_owner_recovers() {
    let mut config = consumer_config(1);
    config.login.attributes.single_open = Some(false);
    let mut world = World::new(config, provider_config(vec![service(1, "FEED", None)]));
    world.values.insert("A".to_owned(), 1);
    world.connect().unwrap();
    world.settle();
    let item = world.consumer.open(world.now, ItemRequest::new("FEED", "A")).unwrap();
    let elsewhere = world.consumer.open(world.now, ItemRequest::new("OTHER", "A")).unwrap();
    world.settle();
    world.take_events();
    assert_eq!(world.seen[&elsewhere].ended, Some(StreamState::CLOSED_RECOVER));
    world.disconnect();
    assert_eq!(world.seen[&item].ended, Some(StreamState::CLOSED_RECOVER));
    assert_eq!(world.consumer.items(), 0);
}

#[test]
fn no_more_requests_are_under_way_than_the_open_window_allows() {
    let mut world = world(Some(2));
    world.answers = false;
    for name in ["A", "B", "C", "D", "none"] {
        world.consumer.open(world.now, ItemRequest::new("FEED", name)).unwrap();
    }
    world.connect().unwrap();
    world.settle();
    assert_eq!(world.owed.len(), 2);
    world.answer(1);
    world.settle();
    assert_eq!(world.owed.len(), 2);
    world.answers = true;
    world.answer(usize::MAX);
    world.settle();
    assert_eq!((world.most_owed, world.requests), (2, 5));
    assert_eq!(world.seen.values().filter(|seen| seen.images == 1).count(), 4);
    assert_eq!(world.seen.values().filter(|seen| seen.ended == Some(StreamState::CLOSED)).count(), 1);
}

#[test]
fn a_batch_is_one_request_and_is_recovered_item_by_item() {
    let mut world = world(None);
    let items = world.consumer.open_batch(world.now, &ItemRequest::new("FEED", ""), &["A", "B", "C"]).unwrap();
    world.connect().unwrap();
    let mut sent = 0;
    world.settle();
    assert!(items.iter().all(|item| world.seen[item].images == 1));
    let batch = world.consumer.open_batch(world.now, &ItemRequest::new("FEED", ""), &["A", "D"]).unwrap();
    while let Some(msg) = world.consumer.poll_transmit() {
        assert!(rwf::peek::flags(msg).unwrap() & 0x800 != 0);
        sent += 1;
    }
    assert_eq!(sent, 1);
    world.disconnect();
    world.connect().unwrap();
    world.settle();
    assert!(items.iter().chain(&batch).all(|item| !world.seen[item].stale), "{:?}", world.seen);
    // A window that is too small makes single requests of it.
    let mut narrow = self::world(Some(1));
    narrow.consumer.open_batch(narrow.now, &ItemRequest::new("FEED", ""), &["A", "B"]).unwrap();
    narrow.connect().unwrap();
    narrow.settle();
    assert_eq!((narrow.requests, narrow.most_owed), (2, 1));
}

#[test]
fn a_snapshot_is_over_with_its_image() {
    let mut world = world(None);
    let request = ItemRequest { streaming: false, ..ItemRequest::new("FEED", "A") };
    let item = world.consumer.open(world.now, request).unwrap();
    world.connect().unwrap();
    world.settle();
    assert_eq!((world.seen[&item].value, world.consumer.items()), (Some(0), 0));
    assert_eq!(world.provider.as_ref().unwrap().streams(), 0);
}

#[test]
fn what_is_closed_for_now_is_asked_for_again_after_a_rest() {
    let mut world = world(None);
    let item = world.consumer.open(world.now, ItemRequest::new("FEED", "A")).unwrap();
    world.connect().unwrap();
    world.settle();
    let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NO_RESOURCES, "later");
    assert!(world.status(item, state));
    world.settle();
    assert!(world.seen[&item].stale && world.seen[&item].ended.is_none());
    world.pass(SECOND / 2);
    assert!(world.seen[&item].stale);
    world.pass(SECOND);
    assert_eq!((world.seen[&item].stale, world.seen[&item].images), (false, 2));
    let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_ENTITLED, "never");
    assert!(world.status(item, state));
    world.settle();
    assert_eq!((world.seen[&item].ended, world.consumer.items()), (Some(StreamState::CLOSED), 0));
}

/// Nobody recovers it, whatever the login says: an owner who is told that it is open would wait for ever.
#[test]
fn a_private_stream_that_is_closed_for_now_is_over() {
    let mut world = world(None);
    let request = ItemRequest { private: true, ..ItemRequest::new("FEED", "A") };
    let item = world.consumer.open(world.now, request).unwrap();
    world.connect().unwrap();
    world.settle();
    assert_eq!(world.seen[&item].value, Some(0));
    let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, "its provider is lost");
    assert!(world.status(item, state));
    world.settle();
    assert_eq!(world.seen[&item].ended, Some(StreamState::CLOSED_RECOVER));
    assert_eq!(world.consumer.items(), 0);
}

#[test]
fn a_state_of_a_group_that_ends_its_items_without_suspect_data_says_so() {
    let mut config = consumer_config(1);
    config.login.attributes.single_open = Some(false);
    config.login.attributes.allow_suspect_data = Some(false);
    let mut world = World::new(config, provider_config(vec![service(1, "FEED", None)]));
    world.values.insert("A".to_owned(), 1);
    world.connect().unwrap();
    world.settle();
    let item = world.consumer.open(world.now, ItemRequest::new("FEED", "A")).unwrap();
    world.settle();
    let mut change = Service::new(1, Action::Update);
    let status = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "the line is down");
    change.state = Some(Part::Set(ServiceState { status: Some(status.into()), ..ServiceState::new(true) }));
    change_service(&mut world, &change);
    assert_eq!(world.seen[&item].ended, Some(StreamState::CLOSED_RECOVER));
    assert_eq!(world.consumer.items(), 0);
}

/// An item that the provider has closed, and opens anew by a request that was on its way: nobody has asked for that stream.
fn crossed(state: StreamState) -> (World, ItemId) {
    let mut world = world(None);
    let item = world.consumer.open(world.now, ItemRequest::new("FEED", "A")).unwrap();
    world.connect().unwrap();
    world.settle();
    assert!(world.status(item, State::new(state, DataState::SUSPECT, StateCode::NO_RESOURCES, "later")));
    world.consumer.reissue(item, |request| request.paused = false);
    (world, item)
}

#[test]
fn a_stream_that_was_opened_anew_by_a_crossing_request_is_closed_and_asked_for_in_its_time() {
    let (mut world, item) = crossed(StreamState::CLOSED_RECOVER);
    world.settle();
    assert!(world.seen[&item].stale && world.provider.as_ref().unwrap().stream(item.stream_id()).is_none());
    world.change("A", 7);
    let late = world.consumer.late_messages();
    world.pass(SECOND);
    assert_eq!((world.seen[&item].value, world.seen[&item].stale), (Some(7), false));
    assert_eq!(world.consumer.late_messages(), late, "nothing came before the image");
}

/// Found by `by_login_one_serves_and_the_others_stand_by` of `client`: a standby had the stream for ever.
#[test]
fn a_stream_that_was_opened_anew_is_closed_when_its_item_is_no_more() {
    let (mut world, item) = crossed(StreamState::CLOSED_RECOVER);
    world.consumer.close(world.now, item);
    world.settle();
    assert_eq!((world.consumer.items(), world.provider.as_ref().unwrap().streams()), (0, 0));
    let (mut world, _) = crossed(StreamState::CLOSED);
    world.settle();
    assert_eq!((world.consumer.items(), world.provider.as_ref().unwrap().streams()), (0, 0));
}

#[test]
fn a_request_without_an_answer_is_made_again() {
    let mut world = world(None);
    world.answers = false;
    let item = world.consumer.open(world.now, ItemRequest::new("FEED", "A")).unwrap();
    world.connect().unwrap();
    world.settle();
    world.pass(15 * SECOND);
    assert!(world.seen[&item].stale);
    assert_eq!(world.owed.len(), 0, "the request was withdrawn");
    world.answers = true;
    world.pass(SECOND);
    assert_eq!((world.seen[&item].value, world.seen[&item].stale), (Some(0), false));
}

#[test]
fn items_of_a_service_that_is_not_there_are_told_so_and_served_when_it_comes() {
    let mut world = world(None);
    world.connect().unwrap();
    world.settle();
    let item = world.consumer.open(world.now, ItemRequest::new("LATER", "B")).unwrap();
    world.take_events();
    assert!(world.seen[&item].stale);
    change_service(&mut world, &service(2, "LATER", None));
    assert_eq!((world.seen[&item].value, world.seen[&item].stale), (Some(1), false));
    change_service(&mut world, &Service::delete(2));
    assert!(world.seen[&item].stale);
    change_service(&mut world, &service(3, "LATER", None));
    assert_eq!((world.seen[&item].images, world.seen[&item].stale), (2, false));
}

#[test]
fn a_service_that_goes_down_leaves_its_items_unless_it_says_so() {
    let mut world = world(None);
    let item = world.consumer.open(world.now, ItemRequest::new("FEED", "A")).unwrap();
    world.connect().unwrap();
    world.settle();
    change_service(&mut world, &state_change(1, false));
    assert!(!world.seen[&item].stale);
    assert!(world.events.iter().any(|event| matches!(event, Event::ServiceDown { id: 1, name } if name == "FEED")));
    let waiting = world.consumer.open(world.now, ItemRequest::new("FEED", "B")).unwrap();
    world.settle();
    world.take_events();
    assert!(world.seen[&waiting].stale);
    let mut change = state_change(1, true);
    let suspect = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "stale");
    change.state = Some(Part::Set(ServiceState { status: Some(suspect.into()), ..ServiceState::new(true) }));
    change_service(&mut world, &change);
    assert!(world.seen[&item].stale && !world.seen[&waiting].stale);
}

#[test]
fn a_group_has_its_state() {
    let mut world = world(None);
    let item = world.consumer.open(world.now, ItemRequest::new("FEED", "A")).unwrap();
    world.connect().unwrap();
    world.settle();
    let mut group = |group: &[u8], merged_to: Option<&[u8]>, data| {
        let state = State::new(StreamState::OPEN, data, StateCode::NONE, "");
        let mut change = Service::new(1, Action::Update);
        let merged_to = merged_to.map(<[u8]>::to_vec);
        change.groups = vec![Part::Set(Group { group: group.to_vec(), merged_to, status: Some(state.into()) })];
        change_service(&mut world, &change);
        world.seen[&item].stale
    };
    assert!(!group(&[0, 9], None, DataState::SUSPECT), "another group");
    assert!(group(&[0, 1], Some(&[0, 2]), DataState::SUSPECT));
    assert!(group(&[0, 1], None, DataState::OK), "the item has left this group");
    assert!(!group(&[0, 2], None, DataState::OK));
}

#[test]
fn a_login_that_is_not_answered_or_refused_ends_the_connection() {
    let mut world = world(None);
    world.consumer.poll_connect(world.now).unwrap();
    world.consumer.handle_connected(world.now);
    assert!(world.consumer.poll_transmit().is_some());
    world.pass(45 * SECOND);
    assert!(matches!(world.events.pop(), Some(Event::Disconnect(Disconnect::LoginTimeout))));
    world.disconnect();
    assert_eq!(world.consumer.poll_connect(world.now).unwrap().host, "server1");
    world.consumer.handle_connected(world.now);
    let mut buf = [0; 200];
    let mut w = rwf::wire::Writer::new(&mut buf);
    login::Status::refuse(1, StateCode::NOT_ENTITLED, "no").encode(&mut w).unwrap();
    world.consumer.handle_message(world.now, w.written());
    world.take_events();
    assert!(matches!(&world.events[..], [Event::LoginRefused(_), Event::Disconnect(Disconnect::LoginRefused)]));
    world.disconnect();
    assert_eq!(world.consumer.poll_connect(u64::MAX), None, "refused for good");
    world.consumer.restart(world.now);
    assert!(world.consumer.poll_connect(world.now).is_some());
}

#[test]
fn a_consumer_that_asks_where_else_to_connect_goes_there() {
    for asks in [true, false] {
        let mut config = consumer_config(2);
        config.login.download_connection_config = Some(asks);
        let mut world = World::new(config, provider_config(Vec::new()));
        assert_eq!(world.connect().as_deref(), Some("server0"));
        let request = login::Request { name: "user".to_owned(), ..login::Request::default() };
        let mut refresh = login::Refresh::accept(&request, login::Features::default(), "welcome");
        let server = |host: &str, port| login::Server { host: host.to_owned(), port, load_factor: None, kind: None };
        // Two of them are none.
        let servers = [server("other", 14_003), server("", 14_002), server("wrong", 70_000), server("server0", 14_002)];
        refresh.connection_config = Some(login::ConnectionConfig { standby_servers: 0, servers: servers.to_vec() });
        let mut buffer = [0; 1_024];
        let mut w = Writer::new(&mut buffer);
        refresh.encode(&mut w).unwrap();
        world.consumer.handle_message(world.now, w.written());
        assert_eq!(world.consumer.server().map(|server| server.host.as_str()), Some("server0"));
        let mut tried = Vec::new();
        for _ in 0..3 {
            world.disconnect();
            world.now += 60 * SECOND;
            tried.extend(world.connect());
        }
        let expected = if asks { ["other", "server0", "server1"] } else { ["server1", "server0", "server1"] };
        assert_eq!(tried, expected);
    }
}

#[test]
fn what_a_consumer_is_told_of_servers_later_counts_and_what_was_told_before_does_not() {
    let mut config = consumer_config(2);
    config.login.download_connection_config = Some(true);
    let mut world = World::new(config, provider_config(Vec::new()));
    assert_eq!(world.connect().as_deref(), Some("server0"));
    let request = login::Request { name: "user".to_owned(), ..login::Request::default() };
    let tell = |world: &mut World, hosts: &[&str], solicited: bool| {
        let mut refresh = login::Refresh::accept(&request, login::Features::default(), "servers");
        refresh.solicited = solicited;
        let server =
            |host: &&str| login::Server { host: (*host).to_owned(), port: 14_002, load_factor: None, kind: None };
        let servers = hosts.iter().map(server).collect();
        refresh.connection_config = Some(login::ConnectionConfig { standby_servers: 0, servers });
        let mut buffer = [0; 1_024];
        let mut w = Writer::new(&mut buffer);
        refresh.encode(&mut w).unwrap();
        world.consumer.handle_message(world.now, w.written());
    };
    tell(&mut world, &["server0", "old"], true);
    tell(&mut world, &["new", "server0"], false);
    assert_eq!(world.consumer.server().map(|server| server.host.as_str()), Some("server0"));
    let mut tried = Vec::new();
    for _ in 0..4 {
        world.disconnect();
        world.now += 60 * SECOND;
        tried.extend(world.connect());
    }
    assert_eq!(tried, ["new", "server0", "server1", "new"], "nothing is left of the first list");
}

#[test]
fn the_preferred_server_is_gone_back_to() {
    let mut config = consumer_config(2);
    config.connections.preferred = Some(1);
    config.connections.fall_back_ns = Some(10 * SECOND);
    let mut world = World::new(config, provider_config(vec![service(1, "FEED", None)]));
    world.values.insert("A".to_owned(), 1);
    let item = world.consumer.open(world.now, ItemRequest::new("FEED", "A")).unwrap();
    assert_eq!(world.consumer.poll_connect(world.now).unwrap().host, "server1");
    world.disconnect();
    assert_eq!(world.connect().unwrap(), "server0");
    world.settle();
    assert!(!world.seen[&item].stale);
    world.pass(10 * SECOND);
    assert!(matches!(world.events.last(), Some(Event::Disconnect(Disconnect::PreferredServer))));
    assert!(world.seen[&item].stale);
    world.disconnect();
    assert_eq!(world.connect().unwrap(), "server1");
    world.settle();
    assert_eq!((world.seen[&item].images, world.seen[&item].stale), (2, false));
    world.consumer.shut_down();
    world.settle();
    world.take_events();
    assert!(matches!(world.events.last(), Some(Event::Disconnect(Disconnect::Shutdown))));
    assert!(!world.provider.as_ref().unwrap().is_logged_in(), "the login was closed");
}

#[test]
fn a_server_that_cannot_pause_hears_nothing_of_it() {
    let mut config = provider_config(vec![service(1, "FEED", None)]);
    config.features.optimized_pause_resume = None;
    let mut world = World::new(consumer_config(1), config);
    world.values.insert("A".to_owned(), 1);
    let item = world.consumer.open(world.now, ItemRequest { paused: true, ..ItemRequest::new("FEED", "A") }).unwrap();
    world.connect().unwrap();
    world.settle();
    let is_paused = |world: &World| world.provider.as_ref().unwrap().stream(item.stream_id()).unwrap().paused;
    assert!(!is_paused(&world) && world.seen[&item].images == 1);
    world.consumer.reissue(item, |request| request.paused = false);
    assert_eq!(world.consumer.poll_transmit(), None);
    let view = View::Fields(vec![22]);
    world.consumer.reissue(item, |request| (request.paused, request.view) = (true, Some(view)));
    world.settle();
    assert!(!is_paused(&world) && world.seen[&item].images == 2);
}

#[test]
fn a_reissue_changes_the_request_and_a_token_is_renewed() {
    let mut world = world(None);
    let item = world.consumer.open(world.now, ItemRequest::new("FEED", "A")).unwrap();
    world.connect().unwrap();
    world.settle();
    world.consumer.reissue(item, |request| {
        request.paused = true;
        request.name = "another".to_owned();
    });
    world.settle();
    let asked = world.provider.as_ref().unwrap().stream(item.stream_id()).unwrap();
    assert_eq!((asked.paused, &asked.name[..], world.seen[&item].images), (true, &b"A"[..], 1));
    world.consumer.reissue(item, |request| request.paused = false);
    world.settle();
    assert_eq!(world.seen[&item].images, 2, "what goes on after a pause needs an image");
    world.consumer.reissue_login(|request| request.authentication_token = Some("new".to_owned()));
    world.settle();
    assert!(matches!(world.events.last(), Some(Event::LoginState(state)) if state.stream == StreamState::OPEN));
    world.consumer.close(world.now, item);
    world.settle();
    assert_eq!((world.consumer.items(), world.provider.as_ref().unwrap().streams()), (0, 0));
}

#[test]
fn a_redirected_item_says_where_it_is_to_be_had() {
    let services = vec![service(1, "FEED", None), service(2, "OTHER", None)];
    let mut world = World::new(consumer_config(1), provider_config(services));
    for name in ["A", "B", "C", "NEW"] {
        world.values.insert(name.to_owned(), 1);
    }
    let names = ["A", "B", "C"];
    let items = names.map(|name| world.consumer.open(world.now, ItemRequest::new("FEED", name)).unwrap());
    world.connect().unwrap();
    world.settle();
    let state = State::new(StreamState::REDIRECTED, DataState::OK, StateCode::NONE, "elsewhere");
    let renamed = MsgKey { name: Some(b"NEW"), service_id: Some(2), ..MsgKey::EMPTY };
    let moved = MsgKey { service_id: Some(2), ..MsgKey::EMPTY };
    let unknown = MsgKey { name: Some(b"NEW"), service_id: Some(9), ..MsgKey::EMPTY };
    let mut told = Vec::new();
    for (number, (item, key)) in items.iter().zip([renamed, moved, unknown]).enumerate() {
        let stream = item.stream_id();
        let bytes = bytes_of(|w| match number {
            0 => StatusMsg { state: Some(state), key: Some(key), ..StatusMsg::new(Domain::MARKET_PRICE, stream) }
                .encode(w),
            _ => RefreshMsg { state, key: Some(key), ..RefreshMsg::new(Domain::MARKET_PRICE, stream) }.encode(w),
        });
        assert!(world.consumer.handle_message(world.now, &bytes).is_none());
        world.take_events();
        assert_eq!(world.seen[item].ended, Some(StreamState::REDIRECTED));
    }
    for event in world.events.drain(..) {
        let Event::Redirected { item, request } = event else { continue };
        told.push((item, request.service.clone(), request.name.clone()));
        world.consumer.open(world.now, *request).unwrap();
    }
    let expected = [(items[0], "OTHER", "NEW"), (items[1], "OTHER", "B")];
    assert_eq!(told, expected.map(|(item, service, name)| (item, service.to_owned(), name.to_owned())));
    world.settle();
    assert_eq!(world.consumer.items(), 2, "what was redirected to a service that is not there is no more");
}

fn bytes_of(encode: impl FnOnce(&mut Writer<'_>) -> Result<(), rwf::EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 500];
    let mut w = Writer::new(&mut buf);
    encode(&mut w).unwrap();
    w.into_written().to_vec()
}
