//! Logins and directories of providers, and what the P2PSs are told of them.

use crate::world::*;
use hub_distributor::{Config, Origin, PeerInfo, RouteConfig, SessionId};
use hub_stream::{Kind, Request, flags};
use rwf::dictionary::{Dictionary, Verbosity};
use rwf::msg::{Domain, Msg, RequestMsg, StatusMsg};
use rwf::rdm::directory::{Action, Part, Service};
use rwf::rdm::{dictionary, login};
use rwf::{DataState, Qos, Rate, StateCode, StreamState, Timeliness};

fn connect(world: &mut World, id: u32) {
    let peer = PeerInfo { address: "provider:14002".into() };
    world.sd.session_up(world.now, SessionId(id), Origin::Route(0), peer, &mut world.sent);
}

#[test]
fn the_login_is_that_of_a_consumer() {
    let mut world = World::plain();
    connect(&mut world, 0);
    let sent = world.sent(0);
    assert_eq!(sent.len(), 1, "nothing else before the answer");
    let Msg::Request(request) = Msg::decode(&sent[0]).unwrap() else { panic!() };
    let login = login::Request::decode(&request).unwrap();
    assert!(login.streaming && login.role == Some(0));
    assert_eq!((login.stream_id, login.name_type), (1, Some(1)));
    let attributes = login.attributes;
    assert_eq!((attributes.single_open, attributes.allow_suspect_data), (Some(true), Some(true)));
    assert!(attributes.application_id.is_some() && attributes.application_name.is_some());
    assert!(attributes.position.is_some());
}

#[test]
fn a_route_may_have_a_user_name_and_a_list_of_services() {
    let route = RouteConfig { user_name: "special".into(), services: vec!["FEED".into()], ..RouteConfig::default() };
    let mut world = World::new(Config { routes: vec![RouteConfig::default(), route], ..Config::default() });
    world.p2ps_up(1);
    world.events();
    world.sd.session_up(world.now, SessionId(0), Origin::Route(1), PeerInfo::default(), &mut world.sent);
    let sent = world.sent(0);
    let Msg::Request(request) = Msg::decode(&sent[0]).unwrap() else { panic!() };
    let request = login::Request::decode(&request).unwrap();
    assert_eq!(request.name, "special");
    let answer = login::Refresh::accept(&request, login::Features::default(), "welcome");
    world.message(0, |w| answer.encode(w));
    world.directory(0, vec![service(7, "OTHER"), service(8, "FEED")]);
    let events = world.events();
    assert_eq!(events.iter().map(|e| e.kind).collect::<Vec<_>>(), [Kind::Service], "OTHER is not taken");
    assert!(events[0].body.windows(4).any(|w| w == b"FEED"));
}

#[test]
fn a_service_is_not_taken_from_a_server_that_is_blocked_for_it() {
    let routes =
        vec![RouteConfig { blocked_services: vec!["FEED".into()], ..RouteConfig::default() }, RouteConfig::default()];
    let mut world = World::new(Config { routes, ..Config::default() });
    world.p2ps_up(1);
    for id in [0, 1] {
        world.route_up(id);
        world.directory(id, vec![service(7, "FEED"), service(8, "OTHER")]);
    }
    let offered = world.sd.session_overview();
    let offered: Vec<Vec<&str>> =
        offered.map(|session| session.services.iter().map(|offer| offer.service).collect()).collect();
    assert_eq!(offered, [vec!["OTHER"], vec!["OTHER", "FEED"]]);
}

#[test]
fn a_service_has_the_quality_of_the_configuration_where_its_provider_states_none() {
    let delayed = Qos { time_info: 900, ..Qos::new(Timeliness::DELAYED, Rate::TICK_BY_TICK) };
    let service_qos = [("FEED".to_owned(), delayed), ("LIVE".to_owned(), delayed)].into();
    let mut world = World::new(Config { service_qos, ..Config::default() });
    world.p2ps_up(1);
    world.events();
    world.route_up(0);
    let mut silent = service(7, "FEED");
    let Some(Part::Set(info)) = &mut silent.info else { panic!("it has no info") };
    info.qos.clear();
    world.directory(0, vec![silent, service(8, "LIVE")]);
    let quality = |event: Ev| {
        let name = usize::from(u16::from_le_bytes([event.body[0], event.body[1]]));
        let entry = Service::decode_filters(1, Action::Add, &event.body[2 + name..]).expect("filters");
        let qos = entry.info.and_then(|info| info.value().map(|info| info.qos.clone())).expect("its info");
        (String::from_utf8_lossy(&event.body[2..2 + name]).into_owned(), qos)
    };
    let qualities: Vec<(String, Vec<Qos>)> = world.events().into_iter().map(quality).collect();
    assert_eq!(qualities[0], ("FEED".to_owned(), vec![delayed]));
    assert_eq!(qualities[1], ("LIVE".to_owned(), vec![Qos::REALTIME_TICK]), "what a provider states counts");
    // The provider is asked in its own words.
    world.sent(0);
    let wanted = RequestMsg { qos: Some(delayed), ..request("A") };
    world.open_request(1, 1, flags::STREAMING, &wanted);
    let sent = world.sent(0);
    let Msg::Request(asked) = Msg::decode(&sent[0]).unwrap() else { panic!("{sent:?}") };
    assert_eq!((asked.key.name_lossy().as_ref(), asked.qos), ("A", None));
}

#[test]
fn the_directory_is_asked_for_after_a_good_login_only() {
    let mut world = World::plain();
    connect(&mut world, 0);
    world.sent(0);
    let waiting = login::Status {
        stream_id: 1,
        state: Some(state(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE).into()),
        ..Default::default()
    };
    world.message(0, |w| waiting.encode(w));
    assert!(world.sent(0).is_empty());
    let accept = login::Refresh::accept(&login::Request::default(), login::Features::default(), "");
    world.message(0, |w| accept.encode(w));
    let sent = world.sent(0);
    let Msg::Request(request) = Msg::decode(&sent[0]).unwrap() else { panic!() };
    assert_eq!((request.domain, request.stream_id, request.key.filter), (Domain::SOURCE, 2, Some(63)));
    world.message(0, |w| accept.encode(w));
    assert!(world.sent(0).is_empty(), "asked for once");
}

#[test]
fn a_refused_login_closes_the_session_with_the_providers_words() {
    let mut world = World::plain();
    connect(&mut world, 0);
    let refusal = login::Status::refuse(1, StateCode::NOT_ENTITLED, "who are you");
    world.message(0, |w| refusal.encode(w));
    assert!(world.sent.closed[0].1.contains("who are you"), "{:?}", world.sent.closed);
    world.bytes(0, b"anything");
    assert_eq!(world.sd.counters().dropped_unknown_session, 1);
    assert_eq!(world.sd.counters().closed_sessions, 1);
}

#[test]
fn a_provider_that_does_not_answer_login_or_directory_is_given_up() {
    for logged_in in [false, true] {
        let mut world = World::plain();
        if logged_in {
            world.route_up(0);
        } else {
            connect(&mut world, 0);
        }
        world.pass(44);
        assert!(world.sent.closed.is_empty());
        world.pass(2);
        assert_eq!(world.sent.closed.len(), 1);
    }
    let mut world = World::with_feed();
    world.pass(300);
    assert!(world.sent.closed.is_empty());
}

#[test]
fn info_is_normalised_and_ids_count_from_one() {
    let mut world = World::plain();
    world.route_up(0);
    world.directory(0, vec![service(700, "B"), service(2, "A")]);
    let events = world.events();
    assert_eq!(events.iter().map(|e| (e.kind, e.arg)).collect::<Vec<_>>(), [(Kind::Service, 1), (Kind::Service, 2)]);
    let body = &events[0].body;
    assert_eq!(&body[..3], b"\x01\x00B");
    let entry = Service::decode_filters(1, Action::Add, &body[3..]).unwrap();
    let info = entry.info.as_ref().unwrap().value().unwrap();
    assert_eq!(info.name, "B");
    assert_eq!(info.capabilities, [Domain::DICTIONARY, Domain::MARKET_PRICE, Domain::MARKET_BY_PRICE]);
    assert_eq!(info.dictionaries_provided, ["RWFFld", "RWFEnum"]);
    assert_eq!(info.dictionaries_used, ["RWFFld", "RWFEnum"]);
    assert_eq!(info.qos, [QOS]);
    let Some(Part::Set(state)) = entry.state else { panic!() };
    assert_eq!((state.up, state.accepting_requests), (true, Some(true)));
}

#[test]
fn nothing_new_is_not_told_again() {
    let mut world = World::with_feed();
    world.directory_update(0, vec![state_update(7, true, true)]);
    world.directory(0, vec![service(7, "FEED")]);
    assert!(world.events().is_empty());
}

#[test]
fn a_service_that_changes_its_name_under_its_id_is_another() {
    let mut world = World::with_feed();
    world.directory_update(0, vec![service(7, "OTHER")]);
    let events = world.events();
    assert_eq!(
        events.iter().map(|e| (e.kind, e.arg)).collect::<Vec<_>>(),
        [(Kind::ServiceGone, 1), (Kind::Service, 2)]
    );
}

#[test]
fn a_whole_directory_that_clears_the_cache_leaves_nothing_else() {
    let mut world = World::with_feed();
    world.directory(0, vec![service(8, "OTHER")]);
    assert_eq!(world.kinds(), [Kind::ServiceGone, Kind::Service]);
}

#[test]
fn an_entry_of_a_service_never_announced_is_dropped() {
    let mut world = World::with_feed();
    world.directory_update(0, vec![state_update(99, true, true), Service::delete(98)]);
    assert!(world.events().is_empty());
    assert_eq!(world.sd.counters().dropped_unknown_service, 2);
}

#[test]
fn a_p2ps_that_comes_later_is_told_everything_and_the_others_nothing() {
    let mut world = World::with_feed();
    world.p2ps_up(2);
    let events = world.events();
    assert_eq!(events.iter().map(|e| (e.kind, e.target)).collect::<Vec<_>>(), [(Kind::Service, 2)]);
}

/// Answers the dictionary requests among what went to a session; how many.
fn answer_dictionaries(world: &mut World, id: u32, dictionary: &Dictionary) -> usize {
    let requests: Vec<_> = world
        .sent(id)
        .iter()
        .filter_map(|bytes| match Msg::decode(bytes).unwrap() {
            Msg::Request(r) if r.domain == Domain::DICTIONARY => Some(dictionary::Request::decode(&r)),
            _ => None,
        })
        .collect();
    for request in &requests {
        assert_eq!(request.verbosity, Verbosity::NORMAL);
        let mut parts = dictionary::RefreshParts::answer(dictionary, request).unwrap();
        while !parts.is_done() {
            let mut buf = vec![0; 3000];
            let mut w = rwf::wire::Writer::new(&mut buf);
            parts.write(false, &mut w).unwrap();
            let bytes = w.into_written().to_vec();
            world.bytes(id, &bytes);
        }
    }
    requests.len()
}

fn with_dictionaries(id: u16, name: &str) -> Service {
    let mut entry = service(id, name);
    if let Some(Part::Set(info)) = &mut entry.info {
        info.dictionaries_provided = vec!["RWFFld".into(), "RWFEnum".into(), "Other".into()];
    }
    entry
}

#[test]
fn dictionaries_are_fetched_once_and_handed_to_every_p2ps() {
    let dictionary = Dictionary::builtin();
    let mut world = World::plain();
    world.route_up(0);
    world.directory(0, vec![with_dictionaries(7, "A"), with_dictionaries(8, "B")]);
    assert!(world.events().is_empty(), "a consumer loads its dictionary with the first service it sees");
    assert_eq!(answer_dictionaries(&mut world, 0, &dictionary), 2);
    let events = world.events();
    let (parts, services) = events.split_at(events.len() - 2);
    assert!(!parts.is_empty() && parts.iter().all(|e| e.kind == Kind::Dictionary && e.arg == 1));
    assert!(services.iter().map(|e| (e.kind, e.arg)).eq([(Kind::Service, 1), (Kind::Service, 2)]));
    let bodies: Vec<_> = parts.iter().map(|e| e.body.clone()).collect();
    // The same from another provider is no news.
    world.route_up(1);
    world.directory(1, vec![with_dictionaries(9, "C")]);
    assert!(world.events().is_empty());
    assert_eq!(answer_dictionaries(&mut world, 1, &dictionary), 2);
    assert_eq!(world.kinds(), [Kind::Service]);
    world.p2ps_up(2);
    let events = world.events();
    let late: Vec<_> = events.iter().filter(|e| e.kind == Kind::Dictionary && e.target == 2).collect();
    assert_eq!(late.iter().map(|e| e.body.clone()).collect::<Vec<_>>(), bodies);
}

#[test]
fn a_service_does_not_wait_for_ever_for_its_dictionaries() {
    let mut world = World::plain();
    world.route_up(0);
    world.directory(0, vec![with_dictionaries(7, "A")]);
    world.pass(2);
    assert!(world.events().is_empty());
    world.pass(2);
    assert_eq!(world.kinds(), [Kind::Service]);
    // A dictionary that comes late is no reason to hide anything again.
    answer_dictionaries(&mut world, 0, &Dictionary::builtin());
    assert!(world.kinds().iter().all(|kind| *kind == Kind::Dictionary));
}

#[test]
fn a_service_whose_dictionaries_are_refused_is_there_at_once() {
    let mut world = World::plain();
    world.route_up(0);
    world.directory(0, vec![with_dictionaries(7, "A")]);
    world.events();
    let refusal = state(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND);
    for stream in [3, 4] {
        assert!(world.events().is_empty());
        world
            .message(0, |w| StatusMsg { state: Some(refusal), ..StatusMsg::new(Domain::DICTIONARY, stream) }.encode(w));
    }
    assert_eq!(world.kinds(), [Kind::Service]);
}

#[test]
fn a_service_whose_provider_is_lost_before_its_dictionaries_came_is_never_seen() {
    let mut world = World::plain();
    world.route_up(0);
    world.directory(0, vec![with_dictionaries(7, "A")]);
    world.down(0);
    world.pass(10);
    assert!(world.events().is_empty());
}

#[test]
fn a_dictionary_over_the_bound_is_dropped_and_counted() {
    let mut world = World::new(Config { max_dictionary_bytes: 4000, ..Config::default() });
    world.p2ps_up(1);
    world.route_up(0);
    world.directory(0, vec![with_dictionaries(7, "A")]);
    world.events();
    answer_dictionaries(&mut world, 0, &Dictionary::builtin());
    assert!(world.sd.counters().dropped_dictionaries > 0);
}

#[test]
fn heartbeats_are_sent_and_silent_p2ps_dropped() {
    let config = Config { heartbeat_interval: SECOND, p2ps_timeout: 3 * SECOND, ..Config::default() };
    let mut world = World::new(config);
    world.p2ps_up(1);
    world.p2ps_up(2);
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.events();
    let (_, stream) = world.open_imaged(1, "A");
    for _ in 0..5 {
        world.pass(1);
        assert!(world.kinds().contains(&Kind::Heartbeat));
        let _ = world.request(2, &Request::Heartbeat { position: 0 });
    }
    assert_eq!(world.closes(0), [stream], "P2PS 1 has not been heard for too long");
    assert_eq!(world.sd.counters().closed_p2ps, 1);
}
