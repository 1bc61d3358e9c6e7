use crate::world::{World, encode, info, item};
use hub_p2ps::Config;
use hub_stream::{ALL, Event};
use rwf::msg::{Domain, Msg};
use rwf::rdm::directory::{Action, Link, Part, Refresh, Request, Service, ServiceState, Update, filter};
use rwf::{DataState, Qos, State, StateCode, StreamState};

const SECOND: u64 = 1_000_000_000;

fn request(stream_id: i32, service_id: Option<u16>, filter: u32) -> Request {
    Request { stream_id, streaming: true, service_id, filter }
}

fn refresh(world: &mut World, client: u32) -> Refresh {
    let messages = world.raw(client);
    let [only] = &messages[..] else { panic!("{} messages", messages.len()) };
    let Ok(Msg::Refresh(refresh)) = Msg::decode(only) else { panic!() };
    Refresh::decode(&refresh).unwrap()
}

fn update(world: &mut World, client: u32) -> Update {
    let messages = world.raw(client);
    let [only] = &messages[..] else { panic!("{} messages", messages.len()) };
    let Ok(Msg::Update(update)) = Msg::decode(only) else { panic!() };
    Update::decode(&update).unwrap()
}

fn only(services: &[Service]) -> &Service {
    let [service] = services else { panic!("{services:?}") };
    service
}

#[test]
fn an_empty_directory_is_answered_at_once_and_a_service_added_when_it_comes() {
    let mut world = World::new();
    world.clients([1]);
    world.send_with(1, |w| request(2, None, 0x3F).encode(w));
    let empty = refresh(&mut world, 1);
    assert!(empty.solicited && empty.complete && empty.services.is_empty());
    assert_eq!((empty.stream_id, empty.filter, empty.state.stream), (2, Some(0x3F), StreamState::OPEN));
    world.source(0);
    world.publish(0, |p| {
        p.service(40, "FEED");
    });
    let added = update(&mut world, 1);
    let service = only(&added.services);
    assert_eq!((service.id, service.action), (1, Action::Add));
    let info = service.info.as_ref().unwrap().value().unwrap();
    assert_eq!(info.name, "FEED");
    assert_eq!(info.capabilities, [Domain(5), Domain(6), Domain(8)]);
    assert_eq!(info.dictionaries_provided, ["RWFFld", "RWFEnum"]);
    assert_eq!(info.dictionaries_used, ["RWFFld", "RWFEnum"]);
    assert_eq!(info.qos, [Qos::REALTIME_TICK]);
    let state = service.state.as_ref().unwrap().value().unwrap();
    assert_eq!((state.up, state.accepting_requests), (true, Some(true)));
}

#[test]
fn only_the_filters_that_were_asked_for_are_sent() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.send_with(1, |w| request(2, None, filter::STATE).encode(w));
    let state_only = refresh(&mut world, 1);
    let service = only(&state_only.services);
    assert!(service.info.is_none() && service.state.is_some());
    world.send_with(2, |w| request(2, None, filter::INFO).encode(w));
    refresh(&mut world, 2);
    world.publish(0, |p| {
        p.service_with(40, info("FEED", &[6, 8], &[]), ServiceState::new(false));
    });
    let down = update(&mut world, 1);
    let state = only(&down.services).state.as_ref().unwrap().value().unwrap();
    assert_eq!((state.up, &state.status), (false, &None));
    assert_eq!(world.take(2), [""; 0], "Info has not changed");
    world.publish(0, |p| {
        p.service_with(40, info("FEED", &[6, 7, 8], &[]), ServiceState::new(false));
    });
    let grown = update(&mut world, 2);
    let Some(Part::Set(info)) = &only(&grown.services).info else { panic!("{grown:?}") };
    assert_eq!(info.capabilities, [Domain(5), Domain(6), Domain(7), Domain(8)]);
    assert_eq!(world.take(1), [""; 0]);
}

#[test]
fn clients_are_told_how_full_the_server_is_in_the_load_of_its_services() {
    let mut world = World::with_feed();
    let told = |services: &[Service]| only(services).load.as_ref().and_then(Part::value).and_then(|l| l.load_factor);
    world.clients([1, 2]);
    world.send_with(1, |w| request(2, None, 0x3F).encode(w));
    world.send_with(2, |w| request(2, None, filter::INFO | filter::STATE).encode(w));
    assert_eq!(told(&refresh(&mut world, 1).services), None, "nobody is told unless that is configured");
    refresh(&mut world, 2);
    let on = Config { load_factor_interval: 10 * SECOND, mounts_when_full: 8, ..Config::default() };
    world.p2ps.reconfigure(&on);
    world.pass(0);
    assert_eq!(told(&update(&mut world, 1).services), Some(65_535 / 4), "two of eight");
    assert_eq!(world.take(2), [""; 0], "who has not asked for Load hears nothing");
    // Within the interval nothing is told, then once.
    world.clients([3, 4]);
    world.pass(SECOND);
    assert_eq!(world.take(1), [""; 0]);
    world.pass(9 * SECOND);
    assert_eq!(told(&update(&mut world, 1).services), Some(65_535 / 2));
    world.pass(10 * SECOND);
    assert_eq!(world.take(1), [""; 0], "nothing has changed");
    // One that counts twice is full with half as many.
    world.p2ps.reconfigure(&Config { load_scale: 3, ..on.clone() });
    world.pass(10 * SECOND);
    assert_eq!(told(&update(&mut world, 1).services), Some(65_535), "at most");
    world.p2ps.reconfigure(&on);
    world.pass(10 * SECOND);
    assert_eq!(told(&update(&mut world, 1).services), Some(65_535 / 2));
    // A client that comes later has it from the beginning, and so has a service that comes later.
    world.send_with(3, |w| request(2, None, 0x3F).encode(w));
    assert_eq!(told(&refresh(&mut world, 3).services), Some(65_535 / 2));
    world.publish(0, |p| {
        p.service(41, "OTHER");
    });
    assert_eq!(told(&update(&mut world, 1).services), Some(65_535 / 2));
    world.take(2);
    world.take(3);
    // Turned off, it is taken back, of each service.
    world.p2ps.reconfigure(&Config::default());
    world.pass(10 * SECOND);
    let messages = world.raw(1);
    world.take(3);
    assert_eq!(messages.len(), 2);
    for message in &messages {
        let Ok(Msg::Update(message)) = Msg::decode(message) else { panic!() };
        let update = Update::decode(&message).unwrap();
        assert!(
            matches!(&only(&update.services).load, Some(Part::Set(load)) if load.load_factor.is_none()),
            "{update:?}"
        );
    }
}

/// Each service is a message to every client: many of them are told in turns.
#[test]
fn many_services_are_told_in_turns_how_full_the_server_is() {
    let mut world = World::new();
    world.source(0);
    world.publish(0, |p| {
        for n in 0..100 {
            p.service(n, &format!("S{n}"));
        }
    });
    world.clients([1]);
    world.send_with(1, |w| request(2, None, 0x3F).encode(w));
    refresh(&mut world, 1);
    world.p2ps.reconfigure(&Config { load_factor_interval: SECOND, mounts_when_full: 1, ..Config::default() });
    let mut turns = Vec::new();
    while turns.last() != Some(&0) {
        world.pass(0);
        turns.push(world.raw(1).len());
        assert_eq!(world.p2ps.timeout() == Some(0), turns.iter().sum::<usize>() < 100);
    }
    assert_eq!(turns, [16, 16, 16, 16, 16, 16, 4, 0]);
}

#[test]
fn one_service_may_be_asked_for_before_it_is_there() {
    let mut world = World::new();
    world.source(0);
    world.clients([1]);
    world.send_with(1, |w| request(2, Some(2), 0x3F).encode(w));
    let empty = refresh(&mut world, 1);
    assert!(empty.services.is_empty());
    world.publish(0, |p| {
        p.service(40, "A");
    });
    assert_eq!(world.take(1), [""; 0]);
    world.publish(0, |p| {
        p.service(41, "B");
    });
    let added = update(&mut world, 1);
    assert_eq!(only(&added.services).name(), Some("B"));
}

#[test]
fn an_id_never_gets_another_name() {
    let mut world = World::new();
    world.source(0);
    world.clients([1]);
    world.send_with(1, |w| request(2, None, 0x3F).encode(w));
    refresh(&mut world, 1);
    world.publish(0, |p| {
        p.service(40, "A");
    });
    update(&mut world, 1);
    world.publish(0, |p| {
        p.event(Event::ServiceGone { service: 40 });
    });
    let gone = update(&mut world, 1);
    assert_eq!((only(&gone.services).id, only(&gone.services).action), (1, Action::Delete));
    world.publish(0, |p| {
        p.service(41, "B").service(40, "A");
    });
    let messages = world.raw(1);
    let services: Vec<(u16, String)> = messages
        .iter()
        .map(|msg| {
            let Ok(Msg::Update(msg)) = Msg::decode(msg) else { panic!() };
            let update = Update::decode(&msg).unwrap();
            let service = only(&update.services);
            assert_eq!(service.action, Action::Add);
            (service.id, service.name().unwrap().to_owned())
        })
        .collect();
    assert_eq!(services, [(2, "B".to_owned()), (1, "A".to_owned())]);
}

#[test]
fn a_filter_can_change_and_a_snapshot_leaves_no_stream() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.send_with(1, |w| Request { streaming: false, ..request(3, None, 0x3F) }.encode(w));
    assert_eq!(refresh(&mut world, 1).state.stream, StreamState::NON_STREAMING);
    world.send_with(1, |w| request(2, None, filter::STATE).encode(w));
    assert!(only(&refresh(&mut world, 1).services).info.is_none());
    world.send_with(1, |w| request(2, None, filter::INFO).encode(w));
    assert!(only(&refresh(&mut world, 1).services).state.is_none());
    world.publish(0, |p| {
        p.service_with(40, info("FEED", &[6, 8], &[]), ServiceState::new(false));
    });
    assert_eq!(world.take(1), [""; 0]);
}

#[test]
fn two_sources_of_a_service_are_one_service() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.send_with(1, |w| request(2, None, 0x3F).encode(w));
    refresh(&mut world, 1);
    world.source(1);
    world.publish(1, |p| {
        p.service(7, "FEED");
    });
    assert_eq!(world.take(1), [""; 0], "nothing has changed for clients");
    world.open(1, 5, "IBM", 0);
    world.publish(0, |p| {
        p.service_with(40, info("FEED", &[6, 8], &[]), ServiceState::new(false));
    });
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT"], "the other still serves, and is asked for the item");
    let moved = world.asked();
    assert!(moved.len() == 2 && moved[0] == "0: close 0" && moved[1].starts_with("1: open "), "{moved:?}");
    world.request(1, &item(6, "TRI"));
    let asked = world.asked();
    assert!(asked.len() == 1 && asked[0].starts_with("1: open ") && asked[0].contains(" 7 streaming"), "{asked:?}");
}

#[test]
fn a_service_that_is_down_may_take_no_requests() {
    for discourage_on_outage in [false, true] {
        let mut world = World::with_feed_and(Config { discourage_on_outage, ..Config::default() });
        world.clients([1]);
        world.directory(1, 2);
        let told = |world: &mut World, up| {
            let accepting_requests = Some(true);
            world.publish(0, |p| {
                p.service_with(40, info("FEED", &[6], &[]), ServiceState { up, accepting_requests, status: None });
            });
            let state = only(&update(world, 1).services).state.as_ref().unwrap().value().unwrap().clone();
            (state.up, state.accepting_requests)
        };
        assert_eq!(told(&mut world, false), (false, Some(!discourage_on_outage)));
        assert_eq!(told(&mut world, true), (true, Some(true)));
        world.source_down(0);
        let state = only(&update(&mut world, 1).services).state.as_ref().unwrap().value().unwrap().clone();
        assert_eq!((state.up, state.accepting_requests), (false, Some(!discourage_on_outage)));
    }
}

#[test]
fn a_service_status_reaches_a_client_by_its_directory_or_by_its_items() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.directory(1, 2);
    world.open(1, 5, "A", 0);
    world.open(2, 5, "B", 1);
    world.request(2, &item(6, "C"));
    world.asked();
    let suspect = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "line is down");
    world.publish(0, |p| {
        p.event(Event::ServiceStatus { service: 40, state: suspect });
    });
    let relayed = update(&mut world, 1);
    let state = only(&relayed.services).state.as_ref().unwrap().value().unwrap();
    let status = state.status.as_ref().unwrap();
    assert!(state.up, "the state itself is as it was");
    assert_eq!(
        (status.stream, status.data, &status.text[..]),
        (StreamState::OPEN, DataState::SUSPECT, &b"line is down"[..])
    );
    assert_eq!(world.take(2), ["status 5 OPEN/SUSPECT"], "stream 6 waits for its first response");
    world.directory(2, 3);
}

#[test]
fn a_group_status_reaches_its_members_and_a_merger_moves_them() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.directory(1, 2);
    world.open(1, 5, "A", 0);
    world.open(2, 5, "B", 1);
    world.open(2, 6, "C", 2);
    world.publish(0, |p| {
        let position = p.writer.next_position();
        let rwf = crate::world::refresh(&[(22, 5)]);
        let flags = hub_stream::flags::UNSOLICITED | hub_stream::flags::FIRST | hub_stream::flags::COMPLETE;
        p.event(Event::Image { target: 7, handle: 2, group: 4, flags, position, rwf: &rwf });
    });
    assert_eq!(world.take(2), ["refresh 6 complete OPEN/OK group 4 key 1:C 22=5"]);
    let suspect = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "");
    world.publish(0, |p| {
        p.event(Event::GroupStatus { service: 40, group: 3, state: Some(suspect), merged_to: Some(4) });
    });
    let relayed = update(&mut world, 1);
    let group = only(&relayed.services).groups[0].value().unwrap().clone();
    assert_eq!((&group.group[..], group.merged_to.as_deref()), (&[0, 3][..], Some(&[0, 4][..])));
    assert_eq!(group.status.unwrap().data, DataState::SUSPECT);
    assert_eq!(world.take(2), ["status 5 OPEN/SUSPECT"]);
    world.publish(0, |p| {
        p.event(Event::GroupStatus { service: 40, group: 4, state: Some(suspect), merged_to: None });
    });
    assert_eq!(world.take(2), ["status 5 OPEN/SUSPECT", "status 6 OPEN/SUSPECT"]);
    update(&mut world, 1);
}

/// JSON has no group in its images, so that nothing told of a group could find its items.
#[test]
fn a_group_status_reaches_each_item_of_a_client_that_takes_json() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.p2ps.mark_json(hub_p2ps::ClientId(1));
    world.directory(1, 2);
    world.open(1, 5, "A", 0);
    let suspect = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "");
    world.publish(0, |p| {
        p.event(Event::GroupStatus { service: 40, group: 3, state: Some(suspect), merged_to: None });
    });
    let told = world.take(1);
    assert!(told.contains(&"status 5 OPEN/SUSPECT".to_owned()), "{told:?}");
}

/// What a client makes good by itself that hears of a whole service or group must be as good as it is told.
#[test]
fn a_state_is_not_relayed_while_something_that_clients_have_open_is_away() {
    let good = State::new(StreamState::OPEN, DataState::OK, StateCode::NONE, "line is up");
    for of_group in [false, true] {
        let mut world = World::with_feed();
        world.clients([1, 2]);
        world.directory(1, 2);
        world.open(1, 5, "A", 0);
        world.open(2, 5, "B", 1);
        world.source_down(0);
        update(&mut world, 1);
        assert_eq!(world.take(2), ["status 5 OPEN/SUSPECT"]);
        world.source(0);
        world.publish(0, |p| {
            p.service(40, "FEED");
        });
        update(&mut world, 1);
        let asked = world.asked();
        let state = |p: &mut crate::world::Publisher<'_>| {
            if of_group {
                p.event(Event::GroupStatus { service: 40, group: 3, state: Some(good), merged_to: None });
            } else {
                p.event(Event::ServiceStatus { service: 40, state: good });
            }
        };
        world.publish(0, state);
        assert_eq!(world.take(1), [""; 0], "its item is on its way back");
        for (handle, words) in asked.iter().enumerate() {
            world.publish(0, |p| {
                p.opened(crate::world::token_of(words), handle as u32).image(handle as u32, &[(22, 8)]);
            });
        }
        assert_eq!((world.take(1).len(), world.take(2).len()), (1, 1));
        world.publish(0, state);
        update(&mut world, 1);
        assert_eq!(world.take(2), ["status 5 OPEN/OK"]);
    }
}

#[test]
fn a_group_is_not_closed_by_the_directory_for_one_that_rests_in_an_earlier_group() {
    let mut world = World::with_feed();
    world.login(1, Some(false), Some(false));
    world.clients([2]);
    world.directory(1, 2);
    world.open(1, 5, "A", 0);
    let rests = rwf::msg::RequestFlags(item(5, "A").flags.0 | rwf::msg::RequestFlags::PAUSE.0);
    world.request(1, &rwf::msg::RequestMsg { flags: rests, ..item(5, "A") });
    world.publish(0, |p| {
        p.image(0, &[(22, 2)]);
    });
    assert_eq!((world.take(1).len(), world.asked().len()), (1, 2), "what it asked for");
    world.open(2, 5, "B", 1);
    world.publish(0, |p| {
        let position = p.writer.next_position();
        let rwf = crate::world::refresh(&[(22, 5)]);
        let flags = hub_stream::flags::UNSOLICITED | hub_stream::flags::FIRST | hub_stream::flags::COMPLETE;
        p.event(Event::Image { target: 7, handle: 0, group: 4, flags, position, rwf: &rwf });
    });
    assert_eq!(world.take(1), [""; 0], "it rests, and knows the item by its group 3");
    let suspect = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "line is down");
    world.publish(0, |p| {
        p.event(Event::GroupStatus { service: 40, group: 3, state: Some(suspect), merged_to: None });
    });
    assert_eq!(world.take(1), [""; 0], "the state is not that of its item");
    assert_eq!(world.take(2), ["status 5 OPEN/SUSPECT"]);
    world.publish(0, |p| {
        p.event(Event::GroupStatus { service: 40, group: 4, state: Some(suspect), merged_to: None });
    });
    assert_eq!(world.take(1), ["status 5 CLOSED_RECOVER/SUSPECT"]);
    assert_eq!(world.asked(), ["0: close 0"]);
}

/// A service that comes through these sites.
fn through(sites: &[&str]) -> Vec<u8> {
    let link = |name: &&str| Link {
        name: (*name).to_owned(),
        action: Action::Add,
        up: Some(true),
        kind: None,
        code: None,
        text: None,
    };
    let mut entry = Service::new(40, Action::Add);
    entry.info = Some(Part::Set(info("A", &[6], &[Qos::REALTIME_TICK])));
    entry.state = Some(Part::Set(ServiceState::new(true)));
    entry.links = Some(Part::Set(sites.iter().map(link).collect()));
    encode(|w| entry.encode_filters(u32::MAX, w))
}

fn sites(service: &Service) -> Vec<&str> {
    let links = service.links.as_ref().and_then(Part::value).into_iter().flatten();
    links.map(|link| link.name.as_str()).collect()
}

#[test]
fn the_links_of_a_service_are_the_sites_that_it_comes_through() {
    let mut world = World::new();
    world.source(0);
    world.clients([1, 2]);
    let offer = |world: &mut World, names: &[&str]| {
        let filters = through(names);
        world.publish(0, |p| {
            p.event(Event::Service { target: ALL, service: 40, cached: false, name: "A", filters: &filters });
        });
    };
    offer(&mut world, &["here", "there"]);
    world.send_with(1, |w| request(2, None, 0x3F).encode(w));
    assert_eq!(sites(only(&refresh(&mut world, 1).services)), ["here", "there"]);
    // A client that asks for less is not bothered.
    world.send_with(2, |w| request(2, None, 0x03).encode(w));
    assert!(only(&refresh(&mut world, 2).services).links.is_none());
    offer(&mut world, &["here"]);
    let changed = update(&mut world, 1);
    let service = only(&changed.services);
    assert_eq!((sites(service), service.action), (vec!["here"], Action::Update));
    assert!(service.info.is_none() && service.state.is_none());
    offer(&mut world, &["here"]);
    assert!(world.take(1).is_empty() && world.take(2).is_empty());
}

/// Every change goes to each of them, and they cost no item.
#[test]
fn a_client_has_so_many_directories_and_dictionaries_and_no_more() {
    let mut world = World::with_feed();
    world.clients([1]);
    let ask = |stream, filter| Request { stream_id: stream, streaming: true, service_id: None, filter };
    for at in 0..1_000_u32 {
        world.send_with(1, |w| ask(10 + at as i32, 0x3F | at << 8).encode(w));
    }
    while world.p2ps.timeout() == Some(0) {
        world.pass(0);
    }
    assert_eq!(world.raw(1).len(), 1_000);
    world.send_with(1, |w| ask(5, 0x3F).encode(w));
    let dictionary = rwf::rdm::dictionary::Request {
        stream_id: 6,
        streaming: true,
        service_id: Some(1),
        name: "RWFFld".to_owned(),
        verbosity: rwf::dictionary::Verbosity(7),
    };
    world.send_with(1, |w| dictionary.encode(w));
    let refused =
        ["directory status 5 CLOSED/SUSPECT/TOO_MANY_ITEMS", "dictionary status 6 CLOSED/SUSPECT/TOO_MANY_ITEMS"];
    assert_eq!(world.take(1), refused);
    // A directory that is open may be asked for again.
    world.send_with(1, |w| ask(10, 0x3F).encode(w));
    assert_eq!(world.raw(1).len(), 1);
}

#[test]
fn communication_lines_are_told_as_links_that_are_up_or_down() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.send_with(1, |w| request(2, None, filter::LINK).encode(w));
    refresh(&mut world, 1);
    let say = |world: &mut World, lines: &[(&str, bool)]| {
        let mut entry = Service::new(40, Action::Add);
        entry.info = Some(Part::Set(info("FEED", &[6, 8], &[Qos::REALTIME_TICK])));
        entry.state = Some(Part::Set(ServiceState::new(true)));
        let line = |&(name, up): &(&str, bool)| Link {
            name: name.to_owned(),
            action: Action::Add,
            up: Some(up),
            kind: Some(1),
            code: Some(1),
            text: Some(format!("Communication line is {}", if up { "up" } else { "down" })),
        };
        entry.links = Some(Part::Set(lines.iter().map(line).collect()));
        let filters = encode(|w| entry.encode_filters(u32::MAX, w));
        world.publish(0, |p| {
            p.event(Event::Service { target: ALL, service: 40, cached: false, name: "FEED", filters: &filters });
        });
    };
    let told = |world: &mut World| {
        let change = update(world, 1);
        let links = only(&change.services).links.as_ref().and_then(Part::value).expect("links").clone();
        links.into_iter().map(|link| (link.name, link.up.unwrap())).collect::<Vec<_>>()
    };
    say(&mut world, &[("LINE1", true), ("LINE2", true)]);
    assert_eq!(told(&mut world), [("LINE1".to_owned(), true), ("LINE2".to_owned(), true)]);
    assert!(world.p2ps.service_overview().all(|service| service.path.is_empty()), "a line is no site");
    say(&mut world, &[("LINE1", false), ("LINE2", true)]);
    assert_eq!(told(&mut world), [("LINE1".to_owned(), false), ("LINE2".to_owned(), true)]);
    say(&mut world, &[("LINE1", false), ("LINE2", true)]);
    assert!(world.raw(1).is_empty(), "nothing is new");
}
