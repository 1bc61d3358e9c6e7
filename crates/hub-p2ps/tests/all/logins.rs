use crate::world::{PRICE, SECOND, World, item, texts};
use hub_p2ps::{ClientId, CloseReason, Config, Connections, ServerOrder};
use rwf::msg::{CloseMsg, Domain, Msg};
use rwf::rdm::{directory, login};

fn request(name: &str) -> login::Request {
    login::Request { name: name.to_owned(), ..login::Request::default() }
}

#[test]
fn a_login_is_echoed_and_claims_what_works() {
    let mut world = World::new();
    world.connect(3);
    let mut request = request("alice");
    request.attributes.application_id = Some("256".to_owned());
    request.attributes.application_name = Some("tester".to_owned());
    request.attributes.position = Some("10.0.0.3/net".to_owned());
    request.attributes.single_open = Some(false);
    request.password = Some("secret".to_owned());
    world.send_with(3, |w| request.encode(w));
    let answer = world.raw(3);
    let [refresh] = &answer[..] else { panic!("{answer:?}") };
    let Ok(Msg::Refresh(refresh)) = Msg::decode(refresh) else { panic!() };
    let refresh = login::Refresh::decode(&refresh).unwrap();
    assert!(refresh.solicited);
    assert_eq!((refresh.stream_id, refresh.name.as_str(), refresh.name_type), (1, "alice", Some(1)));
    assert_eq!(refresh.attributes.position, request.attributes.position);
    assert_eq!(refresh.attributes.application_id, request.attributes.application_id);
    assert_eq!(refresh.attributes.single_open, Some(false));
    assert_eq!(refresh.attributes.allow_suspect_data, Some(true));
    let features = refresh.features;
    assert_eq!((features.post, features.batch, features.view), (Some(true), Some(7), Some(true)));
    assert_eq!((features.optimized_pause_resume, features.provider_dictionary_download), (Some(true), Some(true)));
    assert_eq!((features.standby, features.standby_mode), (Some(true), Some(3)));
    assert_eq!(features.enhanced_symbol_list, Some(1));
    assert!(!answer.iter().any(|msg| msg.windows(6).any(|bytes| bytes == b"secret")));

    let mounts: Vec<_> = world.p2ps.mounts().collect();
    let [mount] = mounts[..] else { panic!("{mounts:?}") };
    assert_eq!((mount.client, mount.user, mount.position), (ClientId(3), "alice", "10.0.0.3/net"));
    assert_eq!((mount.application_id, mount.application_name), ("256", "tester"));
    assert_eq!(mount.address.to_string(), "10.0.0.3");
}

/// The first answer to a login that asks where else to connect, or does not.
fn told_of(world: &mut World, client: u32, asks: Option<bool>) -> Option<login::ConnectionConfig> {
    world.connect(client);
    let request = login::Request { download_connection_config: asks, ..request("alice") };
    world.send_with(client, |w| request.encode(w));
    let answer = world.raw(client);
    let Ok(Msg::Refresh(refresh)) = Msg::decode(&answer[0]) else { panic!("{answer:?}") };
    login::Refresh::decode(&refresh).unwrap().connection_config
}

#[test]
fn who_asks_is_told_where_else_to_connect() {
    let servers = vec![("p2ps1".to_owned(), 14_002), ("10.1.0.7".to_owned(), 14_003)];
    let spread = ServerOrder::Spread;
    let connections = Connections { servers, standby_servers: 1, order: spread, ..Connections::default() };
    let mut world = World::with(Config { connections: connections.clone(), ..Config::default() });
    assert_eq!(told_of(&mut world, 1, None), None);
    assert_eq!(told_of(&mut world, 2, Some(false)), None);
    let hosts = |told: Option<login::ConnectionConfig>| {
        let told = told.expect("servers");
        assert_eq!(told.standby_servers, 1);
        told.servers.into_iter().map(|server| (server.host, server.port, server.kind)).collect::<Vec<_>>()
    };
    let [first, second] = [("p2ps1".to_owned(), 14_002, 0), ("10.1.0.7".to_owned(), 14_003, 1)];
    let of = |(host, port, _): &(String, u64, u16), kind| (host.clone(), *port, Some(kind));
    assert_eq!(hosts(told_of(&mut world, 3, Some(true))), [of(&first, 0), of(&second, 1)]);
    assert_eq!(hosts(told_of(&mut world, 4, Some(true))), [of(&second, 0), of(&first, 1)]);

    // A reload counts for those who come, and is told to those who have asked. The order of a list is the same for all, and there are no more standbys than other servers.
    let servers = ["a", "b", "c"].map(|host| (host.to_owned(), 14_002)).to_vec();
    let (list, spread) = (ServerOrder::List, ServerOrder::Spread);
    // The logins are the fifth and those that follow.
    let expected = [(list, 9, "abc"), (list, 0, "abc"), (spread, 0, "abc"), (spread, 0, "bca")];
    for (client, (order, standby_servers, hosts)) in (5..).zip(expected) {
        let connections = Connections { servers: servers.clone(), standby_servers, order, ..Connections::default() };
        world.p2ps.reconfigure(&Config { connections, ..Config::default() });
        let told = told_of(&mut world, client, Some(true)).expect("servers");
        assert_eq!(told.servers.iter().map(|server| server.host.as_str()).collect::<String>(), hosts);
        assert_eq!(told.standby_servers, u64::from(standby_servers.min(2)));
        let kinds = [Some(0), Some(1), Some(1)].map(|kind| kind.filter(|_| standby_servers > 0));
        assert_eq!(told.servers.iter().map(|server| server.kind).collect::<Vec<_>>(), kinds);
    }
    world.p2ps.reconfigure(&Config { connections: Connections::default(), ..Config::default() });
    assert_eq!(told_of(&mut world, 20, Some(true)), None);
}

#[test]
fn nothing_is_served_before_a_login() {
    let mut world = World::with_feed();
    world.connect(1);
    world.request(1, &item(5, "IBM"));
    let answer = world.raw(1);
    assert!(texts(&answer)[0].contains("login"), "{answer:?}");
    assert_eq!(crate::world::words(&answer[0]), "status 5 CLOSED/SUSPECT/USAGE_ERROR");
    world.send_with(1, |w| {
        rwf::rdm::directory::Request { stream_id: 2, streaming: true, service_id: None, filter: 3 }.encode(w)
    });
    assert_eq!(world.take(1), ["directory status 2 CLOSED/SUSPECT/USAGE_ERROR"]);
}

#[test]
fn a_login_that_cannot_be_is_refused_with_a_reason_and_the_client_closed() {
    for (wrong, words, text) in [
        (login::Request { role: Some(1), ..request("a") }, "USAGE_ERROR", "provider"),
        (request(""), "INVALID_ARGUMENT", "user name"),
        (login::Request { streaming: false, ..request("a") }, "USAGE_ERROR", "STREAMING"),
    ] {
        let mut world = World::new();
        world.connect(1);
        world.send_with(1, |w| wrong.encode(w));
        let answer = world.raw(1);
        assert!(texts(&answer)[0].contains(text), "{answer:?}");
        assert_eq!(crate::world::words(&answer[0]), format!("login status 1 CLOSED/SUSPECT/{words}"));
        let closed = std::mem::take(&mut world.closed);
        assert!(matches!(&closed[..], [(1, CloseReason::LoginRefused { .. })]), "{closed:?}");
        assert_eq!(world.p2ps.mounts().count(), 0);
    }
}

#[test]
fn who_does_not_log_in_is_closed_whatever_else_it_says() {
    let mut world = World::with(Config { login_timeout: 60 * SECOND, ..Config::default() });
    for client in [1, 2, 3, 4] {
        world.connect(client);
    }
    world.send_with(2, |w| request("bob").encode(w));
    world.send_with(3, |w| request("eve").encode(w));
    world.pass(50 * SECOND);
    assert_eq!(world.take(2).len() + world.take(3).len(), 2);
    // One asks for what nobody gets before a login, one logs out, one leaves.
    world.request(1, &item(5, "IBM"));
    assert_eq!(world.take(1), ["status 5 CLOSED/SUSPECT/USAGE_ERROR"]);
    world.send(3, CloseMsg::new(Domain::LOGIN, 1));
    world.disconnect(4);
    world.pass(9 * SECOND);
    assert!(world.closed.is_empty(), "{:?}", world.closed);
    world.pass(2 * SECOND);
    let closed = std::mem::take(&mut world.closed);
    assert_eq!(closed, [(1, CloseReason::NoLogin { seconds: 60 })]);
    assert_eq!(closed[0].1.to_string(), "not logged in within 60 s (login_timeout_s)");
    world.disconnect(1);
    world.pass(50 * SECOND);
    assert_eq!(std::mem::take(&mut world.closed), [(3, CloseReason::NoLogin { seconds: 60 })]);
    world.disconnect(3);
    world.pass(1_000 * SECOND);
    assert!(world.closed.is_empty(), "who is logged in stays");
}

#[test]
fn a_user_has_so_many_mounts_and_gets_one_back_by_logging_out() {
    let mut world = World::with(Config { max_mounts_per_user: 2, ..Config::default() });
    for client in [1, 2, 3] {
        world.connect(client);
        world.send_with(client, |w| request("bob").encode(w));
    }
    assert_eq!(world.take(1).len() + world.take(2).len(), 2);
    assert_eq!(world.take(3), ["login status 1 CLOSED/SUSPECT/EXCEEDED_MAX_MOUNTS_PER_USER"]);
    assert_eq!(world.closed.pop().map(|(client, _)| client), Some(3));
    world.disconnect(1);
    world.connect(4);
    world.send_with(4, |w| request("bob").encode(w));
    assert_eq!(world.take(4), ["login refresh 1 solicited complete OPEN/OK key bob"]);
}

#[test]
fn a_second_login_on_another_stream_is_refused_and_the_first_stays() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.send_with(1, |w| login::Request { stream_id: 9, ..request("eve") }.encode(w));
    assert_eq!(world.take(1), ["login status 9 CLOSED/SUSPECT/USAGE_ERROR"]);
    world.open(1, 5, "IBM", 0);
}

#[test]
fn a_reissue_is_answered_unless_it_asks_not_to_be() {
    let mut world = World::new();
    world.clients([1]);
    world.send_with(1, |w| request("user1").encode(w));
    assert_eq!(world.take(1), ["login refresh 1 solicited complete OPEN/OK key user1"]);
    world.send_with(1, |w| login::Request { no_refresh: true, ..request("user1") }.encode(w));
    assert_eq!(world.take(1), [""; 0]);
}

#[test]
fn a_reissue_under_another_user_name_is_refused_and_changes_nothing() {
    let config = hub_p2ps::Config { max_mounts_per_user: 1, ..hub_p2ps::Config::default() };
    let mut world = World::with_feed_and(config);
    world.clients([1, 2]);
    world.send_with(1, |w| request("user2").encode(w));
    assert_eq!(world.take(1), ["login status 1 OPEN/NO_CHANGE/USAGE_ERROR"]);
    let email = Some(login::name_type::EMAIL_ADDRESS);
    world.send_with(1, |w| login::Request { name_type: email, ..request("user2") }.encode(w));
    assert_eq!(world.take(1), ["login status 1 OPEN/NO_CHANGE/USAGE_ERROR"]);
    let token = Some(login::name_type::AUTHENTICATION_TOKEN);
    world.send_with(1, |w| login::Request { name_type: token, ..request("user1") }.encode(w));
    assert_eq!(world.take(1), ["login status 1 OPEN/NO_CHANGE/USAGE_ERROR"], "a user does not become a token");
    let users: Vec<String> = world.p2ps.mounts().map(|mount| mount.user.to_owned()).collect();
    assert_eq!(users, ["user1", "user2"]);
    world.open(1, 5, "IBM", 0);
}

#[test]
fn closing_the_login_closes_every_stream() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.directory(1, 2);
    world.open(1, 5, "A", 0);
    world.open(1, 6, "B", 1);
    world.request(2, &item(5, "B"));
    assert_eq!(world.asked(), ["0: refresh 1"]);
    world.publish(0, |p| {
        p.image(1, &[(22, 9)]);
    });
    assert_eq!(world.take(2), ["refresh 5 solicited complete OPEN/OK group 3 key 1:B 22=9"]);
    world.send(1, CloseMsg::new(Domain::LOGIN, 1));
    assert_eq!(world.asked(), ["0: close 0"]);
    world.publish(0, |p| {
        p.update(0, &[(22, 3)]).update(1, &[(22, 4)]).service(41, "OTHER");
    });
    assert_eq!(world.take(1), [""; 0]);
    assert_eq!(world.take(2), ["update 5 22=4"]);
    world.request(1, &item(5, "B"));
    assert_eq!(world.take(1), ["status 5 CLOSED/SUSPECT/USAGE_ERROR"]);
    world.send_with(1, |w| request("user1").encode(w));
    assert_eq!(world.take(1), ["login refresh 1 solicited complete OPEN/OK key user1"]);
}

#[test]
fn a_paused_login_rests_all_items_and_resuming_brings_what_was_missed() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.open(1, 5, "A", 0);
    let pause = |pause| login::Request { pause, no_refresh: true, ..request("user1") };
    world.send_with(1, |w| pause(true).encode(w));
    world.publish(0, |p| {
        p.update(0, &[(22, 3)]);
    });
    assert_eq!(world.take(1), [""; 0]);
    world.send_with(1, |w| pause(false).encode(w));
    assert_eq!(world.asked().len(), 2, "rest, and an image behind it");
    world.publish(0, |p| {
        p.update(0, &[(22, 4)]).answered(0, 1).image(0, &[(22, 4)]).update(0, &[(22, 5)]);
    });
    assert_eq!(world.take(1), ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=4", "update 5 22=5"]);
}

#[test]
fn garbage_closes_the_client_with_a_reason() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "A", 0);
    world.bytes(1, b"\x00\x30nonsense");
    let closed = std::mem::take(&mut world.closed);
    let [(1, reason)] = &closed[..] else { panic!("{closed:?}") };
    assert!(matches!(reason, CloseReason::Garbage { .. }));
    assert!(reason.to_string().contains("no RWF message"), "{reason}");
    assert_eq!(world.asked(), ["0: close 0"]);
    world.request(1, &item(6, "B"));
    assert_eq!(world.take(1), [""; 0], "nothing is read from a client that is to be closed");
    world.send(2, rwf::msg::UpdateMsg::new(PRICE, 5));
    assert!(matches!(world.closed.pop(), Some((2, CloseReason::WrongDirection { .. }))));
    world.pass(SECOND);
}

/// Logs a client in from this application, and gives the answer.
fn logged_in_from(world: &mut World, client: u32, application_id: &str) -> login::Refresh {
    world.connect(client);
    let mut request = request("alice");
    request.attributes.application_id = Some(application_id.to_owned());
    world.send_with(client, |w| request.encode(w));
    let answer = world.raw(client);
    let Ok(Msg::Refresh(refresh)) = Msg::decode(&answer[0]) else { panic!("{answer:?}") };
    login::Refresh::decode(&refresh).unwrap()
}

#[test]
fn for_some_applications_nothing_is_recovered() {
    let mut world = World::with_feed_and(Config { disable_single_open: vec!["12".to_owned()], ..Config::default() });
    assert_eq!(logged_in_from(&mut world, 1, "12").attributes.single_open, Some(false), "it is told so");
    assert_eq!(logged_in_from(&mut world, 2, "256").attributes.single_open, Some(true));
    for client in [1, 2] {
        world.request(client, &item(5, "A"));
    }
    world.asked();
    world.source_down(0);
    assert_eq!(world.take(1), ["status 5 CLOSED_RECOVER/SUSPECT"]);
    assert_eq!(world.take(2), ["status 5 OPEN/SUSPECT"]);
}

/// The names of services in a client's first directory.
fn shown(world: &mut World, client: u32) -> Vec<String> {
    let request =
        directory::Request { stream_id: 2, streaming: true, service_id: None, filter: directory::filter::ALL };
    world.send_with(client, |w| request.encode(w));
    let answer = world.raw(client);
    let Ok(Msg::Refresh(refresh)) = Msg::decode(&answer[0]) else { panic!("{answer:?}") };
    let services = directory::Refresh::decode(&refresh).unwrap().services;
    services.iter().map(|entry| entry.name().unwrap().to_owned()).collect()
}

#[test]
fn some_applications_see_no_service_groups() {
    let mut world = World::with_feed_and(Config {
        service_groups: vec!["GROUP".to_owned(), "LATER".to_owned()],
        disable_service_groups: vec!["12".to_owned(), "LATER:13".to_owned()],
        ..Config::default()
    });
    world.publish(0, |p| {
        p.service(41, "GROUP");
    });
    logged_in_from(&mut world, 1, "12");
    logged_in_from(&mut world, 2, "256");
    logged_in_from(&mut world, 3, "13");
    assert_eq!(shown(&mut world, 1), ["FEED"]);
    assert_eq!(shown(&mut world, 2), ["FEED", "GROUP"]);
    assert_eq!(shown(&mut world, 3), ["FEED", "GROUP"]);
    world.publish(0, |p| {
        p.service(42, "LATER");
    });
    assert_eq!([1, 2, 3].map(|client| world.raw(client).len()), [0, 1, 0]);
    world.publish(0, |p| {
        p.service(43, "OTHER");
    });
    assert_eq!([1, 2, 3].map(|client| world.raw(client).len()), [1, 1, 1]);
}

#[test]
fn clients_see_the_services_of_a_list() {
    let mut world = World::with(Config {
        service_list: vec!["FEED".to_owned(), "HIDDEN".to_owned()],
        blocked_service_list: vec!["HIDDEN".to_owned()],
        ..Config::default()
    });
    world.source(0);
    assert!(world.p2ps.is_out(&[], false) && world.p2ps.is_out(&["FEED".to_owned()], true));
    world.publish(0, |p| {
        p.service(40, "FEED").service(41, "HIDDEN").service(42, "OTHER");
    });
    logged_in_from(&mut world, 1, "256");
    assert_eq!(shown(&mut world, 1), ["FEED"]);
    let (feed, both) = (["FEED".to_owned()], ["FEED".to_owned(), "OTHER".to_owned()]);
    assert!(!world.p2ps.is_out(&feed, true) && !world.p2ps.is_out(&both, false) && world.p2ps.is_out(&both, true));
    assert!(!world.p2ps.is_out(&[], true) && !world.p2ps.is_out(&[], false));
    world.source_down(0);
    assert!(world.p2ps.is_out(&both, false) && world.p2ps.is_out(&[], false));
    world.raw(1);
}
