//! What operators do to a P2PS that runs.

use crate::world::{World, encode, item, texts, words};
use hub_content::cache::rules::CacheRules;
use hub_p2ps::{BlockError, ClientId, CloseReason, Config, Notice, Notices, SourceId};
use hub_stream::Event;
use rwf::msg::{RequestFlags, RequestMsg};
use rwf::rdm::request::{Payload, View};
use rwf::{DataState, DataType, State, StateCode, StreamState};

/// The items of a name.
fn items_of(world: &World, name: &[u8]) -> Vec<u32> {
    let (found, next) = world.p2ps.items_of("FEED", name, 0, 100);
    assert_eq!(next, None, "all of them were looked at");
    found
}

#[test]
fn items_are_found_by_their_whole_name_some_at_a_time() {
    let mut world = World::with_feed();
    world.clients([1]);
    for (stream, name) in [(5, "IBM"), (6, "XIBM"), (7, "TRI")] {
        world.open(1, stream, name, 900 + stream as u32);
    }
    assert_eq!(items_of(&world, b"IBM").len(), 1, "another one ends as it does");
    assert!(items_of(&world, b"BM").is_empty() && items_of(&world, b"").is_empty());
    let (first, next) = world.p2ps.items_of("FEED", b"TRI", 0, 2);
    assert_eq!((first, next), (vec![], Some(2)));
    let (second, next) = world.p2ps.items_of("FEED", b"TRI", 2, 2);
    assert_eq!((second.len(), next), (1, None));
    assert_eq!(world.p2ps.items_of("OTHER", b"IBM", 0, 9), (vec![], None));
}

#[test]
fn a_blocked_item_ends_for_its_watchers_and_is_refused_until_it_is_unblocked() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "IBM", 900);
    world.open(1, 6, "TRI", 901);
    assert_eq!(world.p2ps.block_item(world.now, "FEED", b"IBM", "wrong prices"), Ok(1));
    assert_eq!(world.p2ps.block_item(world.now, "FEED", b"IBM", "again"), Err(BlockError::Already));
    world.settle();
    let told = world.raw(1);
    assert_eq!(crate::world::words(&told[0]), "status 5 CLOSED/SUSPECT/NOT_ENTITLED");
    assert!(texts(&told)[0].contains("wrong prices"), "{told:?}");
    assert_eq!(world.asked(), ["0: close 900"], "nobody watches it any more");
    // Nobody gets it, also in a domain or from a service that comes later.
    world.request(2, &item(7, "IBM"));
    world.settle();
    assert_eq!(world.take(2), ["status 7 CLOSED/SUSPECT/NOT_ENTITLED"]);
    let blocked: Vec<_> = world.p2ps.blocked_items().collect();
    assert_eq!(blocked, [("FEED", &b"IBM"[..], "wrong prices")]);
    let history: Vec<_> = world.p2ps.item_history(1, b"IBM").map(|change| change.text.as_str()).collect();
    assert_eq!(history, ["The item is blocked by an operator: wrong prices"]);
    assert_eq!(items_of(&world, b"TRI").len(), 1);
    assert_eq!(world.p2ps.item_source(items_of(&world, b"TRI")[0]), Some(0));
    // Others are not concerned.
    world.publish(0, |p| {
        p.update(901, &[(22, 3)]);
    });
    assert_eq!(world.take(1), ["update 6 22=3"]);
    assert!(world.p2ps.unblock_item("FEED", b"IBM") && !world.p2ps.unblock_item("FEED", b"IBM"));
    world.open(2, 7, "IBM", 902);
}

#[test]
fn smaller_limits_count_from_then_on_and_leave_what_is_open() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.open(1, 5, "IBM", 900);
    world.p2ps.reconfigure(&Config { item_limit: 1, ..Config::default() });
    world.request(1, &item(6, "TRI"));
    world.settle();
    assert_eq!(world.take(1), ["status 6 CLOSED/SUSPECT/TOO_MANY_ITEMS"]);
    world.publish(0, |p| {
        p.update(900, &[(22, 3)]);
    });
    assert_eq!(world.take(1), ["update 5 22=3"]);
    world.p2ps.reconfigure(&Config { item_limit: 2, ..Config::default() });
    world.open(1, 6, "TRI", 901);
}

#[test]
fn clients_are_told_where_to_go_before_they_are_closed() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.connect(3);
    assert_eq!(world.p2ps.tell_logins(world.now, "use mdhost2"), 2, "who is not logged in has no stream to hear by");
    world.settle();
    for client in [1, 2] {
        let told = world.raw(client);
        assert_eq!(crate::world::words(&told[0]), "login status 1 OPEN/NO_CHANGE");
        assert_eq!(texts(&told), ["use mdhost2"]);
    }
    assert!(world.p2ps.dismiss(world.now, ClientId(1), "use mdhost2"));
    assert!(!world.p2ps.dismiss(world.now, ClientId(1), "use mdhost2"), "it is on its way");
    assert!(world.p2ps.dismiss(world.now, ClientId(3), "use mdhost2"));
    world.settle();
    assert_eq!(world.take(1), ["login status 1 OPEN/SUSPECT"]);
    let closed: Vec<_> = std::mem::take(&mut world.closed);
    let by = || CloseReason::ByOperator { why: "use mdhost2".to_owned() };
    assert_eq!(closed, [(1, by()), (3, by())]);
}

/// What an operator sees of the watchers' states of an item, the last ones first to last, and how many items of the service are suspect.
fn told_of(world: &World, name: &[u8]) -> (Vec<String>, u32) {
    let states = world.p2ps.item_history(1, name).map(|told| format!("{}/{}", told.stream, told.data)).collect();
    let service = world.p2ps.service_overview().find(|service| service.name == "FEED").expect("it is known");
    let (found, _) = world.p2ps.item_overview(0, (10, 10), |_, _, _, is_suspect| is_suspect);
    assert_eq!(service.suspect as usize, found.len(), "one truth");
    (states, service.suspect)
}

/// The stream and data states of a client's messages.
fn states_of(messages: &[String]) -> Vec<String> {
    let state = |words: &String| {
        let word = words.split(' ').find(|word| word.starts_with("OPEN/") || word.starts_with("CLOSED"))?;
        Some(word.split('/').take(2).collect::<Vec<_>>().join("/"))
    };
    messages.iter().filter_map(state).collect()
}

#[test]
fn an_operator_sees_what_the_watchers_were_told() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.login(2, Some(false), Some(false));
    world.open(1, 5, "IBM", 4);
    world.open(2, 6, "TRI", 5);
    assert_eq!(told_of(&world, b"IBM"), (vec![], 0));
    // The provider says so of an item, and takes it back.
    let state = |data| crate::world::status(StreamState::OPEN, data, StateCode::NONE);
    world.publish(0, |p| {
        p.status(4, 0, &state(DataState::SUSPECT));
    });
    assert_eq!(states_of(&world.take(1)), ["OPEN/SUSPECT"]);
    assert_eq!(told_of(&world, b"IBM"), (vec!["OPEN/SUSPECT".to_owned()], 1));
    world.publish(0, |p| {
        p.image(4, &[(22, 2)]);
    });
    assert_eq!(states_of(&world.take(1)), ["OPEN/OK"]);
    assert_eq!(told_of(&world, b"IBM"), (vec!["OPEN/SUSPECT".to_owned(), "OPEN/OK".to_owned()], 0));
    // A client that leaves recovery to this server hears something else of a loss than one that recovers.
    world.p2ps.source_down(world.now, SourceId(0));
    world.settle();
    let (first, second) = (states_of(&world.take(1)), states_of(&world.take(2)));
    assert_eq!(
        (&first[..], &second[..]),
        (&["OPEN/SUSPECT".to_owned()][..], &["CLOSED_RECOVER/SUSPECT".to_owned()][..])
    );
    let (told, suspect) = told_of(&world, b"IBM");
    assert_eq!((told.last(), suspect), (first.last(), 1), "the other one's stream is over");
    assert_eq!(told_of(&world, b"TRI").0, second);
    world.disconnect(1);
    assert_eq!(told_of(&world, b"IBM").1, 0);
}

#[test]
fn a_service_that_is_down_is_seen_with_its_items() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.directory(1, 2);
    world.open(1, 5, "IBM", 4);
    world.publish(0, |p| {
        let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "closed for the night");
        p.event(Event::ServiceStatus { service: 40, state });
    });
    let heard = world.take(1);
    assert!(!heard.is_empty());
    assert_eq!(told_of(&world, b"IBM"), (vec!["OPEN/SUSPECT".to_owned()], 1), "{heard:?}");
}

#[test]
fn an_operator_sees_items_views_and_cached_images() {
    let cache = CacheRules::everything();
    let mut world = World::with_feed_and(Config { cache, ..Config::default() });
    world.clients([1, 2]);
    world.open(1, 5, "IBM", 4);
    world.publish(0, |p| {
        p.update(4, &[(22, 7)]);
    });
    assert_eq!(world.take(1), ["update 5 22=7"]);
    let body = encode(|w| Payload { view: Some(View::Fields(vec![22])), ..Payload::default() }.encode(w));
    let flags = RequestFlags::STREAMING | RequestFlags::HAS_VIEW;
    world.request(2, &RequestMsg { flags, container: DataType::ELEMENT_LIST, body: &body, ..item(6, "IBM") });
    assert_eq!(world.take(2).len(), 1, "the image as the view shows it");
    let (found, next) = world.p2ps.item_overview(0, (10, 10), |service, name, _, _| service == 1 && name == b"IBM");
    let seen: Vec<_> = found.iter().map(|item| (item.name.as_str(), item.state, item.open_watchers)).collect();
    assert_eq!((seen, next), (vec![("IBM", "open", 1), ("IBM", "view", 1)], None));
    assert!(world.p2ps.item_overview(0, (10, 10), |_, _, _, is_suspect| is_suspect).0.is_empty());
    for item in found {
        let (image, current) = world.p2ps.item_image(item.number).expect("it is cached");
        assert!(current && words(&image).contains("22=7"), "{}", words(&image));
    }
    assert_eq!(world.p2ps.item_image(77), None);
    world.p2ps.source_down(world.now, SourceId(0));
    world.settle();
    assert!(!world.take(1).is_empty() && !world.take(2).is_empty(), "both are told");
    let number = items_of(&world, b"IBM")[0];
    assert!(world.p2ps.item_image(number).is_some_and(|(_, current)| !current), "of before the loss");
}

/// Operators hear of items where they want to.
#[test]
fn bad_states_and_refused_opens_are_told_of_where_that_is_wanted() {
    let closed = |code| {
        let state = State::new(StreamState::CLOSED, DataState::SUSPECT, code, "no such item");
        let msg = rwf::msg::StatusMsg { state: Some(state), ..rwf::msg::StatusMsg::new(crate::world::PRICE, 77) };
        encode(|w| msg.encode(w))
    };
    let told = |world: &mut World| {
        let items = world.p2ps.notices().filter(|notice| matches!(notice, Notice::ItemState { .. }));
        items.map(|notice| notice.to_string()).collect::<Vec<_>>()
    };
    for (notices, of_service, expected) in [
        (Notices::default(), None, [0, 0, 0]),
        (Notices { refused_opens: true, ..Notices::default() }, None, [1, 0, 0]),
        (Notices { refused_opens: true, ..Notices::default() }, Some(false), [0, 0, 0]),
        (Notices::default(), Some(true), [1, 0, 0]),
        (Notices { item_errors: true, ..Notices::default() }, None, [1, 1, 1]),
    ] {
        let own = hub_p2ps::ServiceConfig { refused_opens: of_service, ..hub_p2ps::ServiceConfig::default() };
        let services = [("FEED".to_owned(), own)].into();
        let mut world = World::with_feed_and(Config { notices, services, ..Config::default() });
        world.clients([1]);
        // An item that nobody has had is refused.
        world.request(1, &item(5, "XXX"));
        let token = world.token();
        let status = closed(StateCode::NOT_FOUND);
        world.publish(0, |p| {
            p.opened(token, 0).status(0, hub_stream::flags::CLOSED, &status);
        });
        let refused = told(&mut world);
        world.take(1);
        world.asked();
        // An item that is there becomes Suspect, and is closed then.
        world.open(1, 6, "IBM", 901);
        let suspect = crate::world::status(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE);
        world.publish(0, |p| {
            p.status(901, 0, &suspect);
        });
        let is_suspect = told(&mut world);
        world.publish(0, |p| {
            p.status(901, hub_stream::flags::CLOSED, &status);
        });
        let is_closed = told(&mut world);
        assert_eq!([refused.len(), is_suspect.len(), is_closed.len()], expected, "{notices:?} {of_service:?}");
        if let Some(line) = refused.first() {
            assert_eq!(line, "item XXX of service FEED is refused: CLOSED/SUSPECT/NOT_FOUND \"no such item\"");
        }
        if let Some(line) = is_suspect.first() {
            assert!(line.starts_with("item IBM of service FEED is: OPEN/SUSPECT/NONE"), "{line}");
        }
        world.take(1);
        world.asked();
    }
}

#[test]
fn of_items_operators_are_told_so_many_in_a_second_and_the_others_are_counted() {
    let notices = Notices { item_errors: true, ..Notices::default() };
    let mut world = World::with_feed_and(Config { notices, ..Config::default() });
    world.clients([1]);
    for at in 0..60 {
        world.open(1, 5 + at, &format!("I{at}"), 900 + at as u32);
    }
    let suspect = crate::world::status(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE);
    world.publish(0, |p| {
        (900..960).for_each(|handle| _ = p.status(handle, 0, &suspect));
    });
    let told =
        |world: &mut World| world.p2ps.notices().filter(|notice| matches!(notice, Notice::ItemState { .. })).count();
    assert_eq!((told(&mut world), world.p2ps.counters().item_states_not_told), (50, 10));
    world.take(1);
}
