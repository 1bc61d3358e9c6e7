use crate::world::{SECOND, World};
use hub_p2ps::{ClientId, Config};
use rwf::dictionary::{Dictionary, Verbosity};
use rwf::msg::{Msg, RefreshFlags, RefreshMsg};
use rwf::rdm::dictionary::Request;
use rwf::{DataType, StreamState};
use std::fmt::Write as _;
use std::sync::Arc;

fn request(stream_id: i32, name: &str, verbosity: u32) -> Request {
    Request { stream_id, streaming: true, service_id: Some(1), name: name.to_owned(), verbosity: Verbosity(verbosity) }
}

fn small() -> Arc<Dictionary> {
    let mut dictionary = Dictionary::new();
    let mut text = String::new();
    for fid in 1..200 {
        writeln!(text, "FIELD_{fid} \"FIELD NUMBER {fid}\" {fid} NULL PRICE 17 REAL64 7").unwrap();
    }
    dictionary.load_fields("own.fields", text.as_bytes()).unwrap();
    Arc::new(dictionary)
}

fn parts(messages: &[Vec<u8>]) -> Vec<RefreshMsg<'_>> {
    messages
        .iter()
        .map(|msg| match Msg::decode(msg).unwrap() {
            Msg::Refresh(refresh) => refresh,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_dictionary_goes_out_in_parts_of_the_size_that_is_set() {
    let config = Config { dictionary: Some(small()), max_fragment_size: 1_000, ..Config::default() };
    let mut world = World::with_feed_and(config);
    world.clients([1, 2]);
    world.send_with(1, |w| request(3, "RWFFld", 7).encode(w));
    world.send_with(2, |w| request(4, "RWFFld", 7).encode(w));
    let (first, second) = (world.raw(1), world.raw(2));
    assert_eq!(first.len(), second.len());
    assert!(first.len() > 3, "{} parts", first.len());
    let parts = parts(&first);
    let last = parts.len() - 1;
    for (at, part) in parts.iter().enumerate() {
        assert!(first[at].len() <= 1_000 + 8);
        assert_eq!((part.stream_id, part.container), (3, DataType::SERIES));
        assert!(part.flags.contains(RefreshFlags::SOLICITED));
        assert_eq!(part.flags.contains(RefreshFlags::CLEAR_CACHE), at == 0);
        assert_eq!(part.flags.contains(RefreshFlags::REFRESH_COMPLETE), at == last);
        let key = part.key.unwrap();
        assert_eq!((key.service_id, key.name, key.filter), (Some(1), Some(&b"RWFFld"[..]), Some(7)));
    }
}

/// A few bytes ask for a whole dictionary: a turn gives so many of them, and what is beyond waits.
#[test]
fn what_many_requests_for_dictionaries_bring_is_bounded_by_the_turn() {
    let config = Config { dictionary: Some(small()), work_per_turn: 5, ..Config::default() };
    let mut world = World::with_feed_and(config);
    world.clients([1, 2]);
    world.open(2, 5, "A", 0);
    world.asked();
    world.pass(0);
    let one = Request { streaming: false, ..request(3, "RWFFld", 15) };
    let messages: Vec<Vec<u8>> = (0..40).map(|_| crate::world::encode(|w| one.encode(w))).collect();
    let done = messages.iter().filter(|msg| world.p2ps.client_message(world.now, ClientId(1), msg)).count();
    world.settle();
    let a_turn = world.raw(1).iter().map(Vec::len).sum::<usize>();
    assert!((1..=5).contains(&done) && a_turn > 4_096, "{done} of them in this turn: {a_turn} bytes");
    // Others are served, and one that asks for a directory has its turn.
    world.publish(0, |p| {
        p.update(0, &[(22, 2)]);
    });
    assert_eq!(world.take(2), ["update 5 22=2"]);
    let ask = rwf::rdm::directory::Request { stream_id: 6, streaming: true, service_id: None, filter: 0x3F };
    world.send_with(2, |w| ask.encode(w));
    assert_eq!(world.take(2), [""; 0]);
    let mut given = done;
    let mut turns = 0;
    while world.p2ps.timeout() == Some(0) {
        world.pass(0);
        turns += 1;
        let now = world.raw(1).iter().map(Vec::len).sum::<usize>();
        assert!(now <= 2 * a_turn, "{now} bytes");
        given += world.p2ps.taken_up().filter(|(client, _)| *client == ClientId(1)).count();
        assert!(turns != 2 || world.raw(2).len() == 1, "the directory of the other");
    }
    assert_eq!(given, 40);
}

#[test]
fn every_verbosity_and_both_names_are_served() {
    let mut world = World::with_feed();
    world.clients([1]);
    let mut sizes = Vec::new();
    for (stream, filter) in [(3, 0), (4, 3), (5, 7), (6, 15)] {
        for (offset, name) in [(0, "RWFFld"), (10, "RWFEnum")] {
            world.send_with(1, |w| request(stream + offset, name, filter).encode(w));
            let messages = world.raw(1);
            assert!(!messages.is_empty());
            assert!(parts(&messages).last().unwrap().flags.contains(RefreshFlags::REFRESH_COMPLETE));
            if offset == 0 {
                sizes.push(messages.iter().map(Vec::len).sum::<usize>());
            }
        }
    }
    assert!(sizes[0] < sizes[1] && sizes[1] < sizes[2], "{sizes:?}");
    let snapshot = Request { streaming: false, ..request(30, "RWFFld", 0) };
    world.send_with(1, |w| snapshot.encode(w));
    let messages = world.raw(1);
    assert_eq!(parts(&messages)[0].state.stream, StreamState::NON_STREAMING);
    world.send_with(1, |w| snapshot.encode(w));
    assert_eq!(world.raw(1).len(), 1, "a snapshot leaves its stream free");
}

#[test]
fn what_is_no_dictionary_is_refused() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.send_with(1, |w| request(3, "Nonsense", 7).encode(w));
    assert_eq!(world.take(1), ["dictionary status 3 CLOSED/SUSPECT/NOT_FOUND"]);
    world.send_with(1, |w| Request { service_id: Some(9), ..request(3, "RWFFld", 7) }.encode(w));
    assert_eq!(world.take(1), ["dictionary status 3 CLOSED/SUSPECT/SOURCE_UNKNOWN"]);
    world.send_with(1, |w| request(1, "RWFFld", 7).encode(w));
    assert_eq!(world.take(1), ["dictionary status 1 OPEN/NO_CHANGE/ALREADY_OPEN"]);
}

/// EMA asks for the dictionary by way of the first service that is up, once: a request that crosses the end of that service is answered.
#[test]
fn a_service_that_has_just_gone_has_the_dictionary_of_all() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.publish(0, |p| {
        p.event(hub_stream::Event::ServiceGone { service: 40 });
    });
    world.raw(1);
    for (stream, name) in [(3, "RWFFld"), (4, "RWFEnum")] {
        world.send_with(1, |w| Request { service_id: Some(1), ..request(stream, name, 7) }.encode(w));
        let messages = world.raw(1);
        let parts = parts(&messages);
        let last = parts.last().expect("an answer");
        assert!(
            last.flags.contains(RefreshFlags::REFRESH_COMPLETE)
                && last.key.as_ref().is_some_and(|key| key.service_id == Some(1))
        );
    }
    world.send_with(1, |w| Request { service_id: Some(9), ..request(5, "RWFFld", 7) }.encode(w));
    assert_eq!(world.take(1), ["dictionary status 5 CLOSED/SUSPECT/SOURCE_UNKNOWN"], "there was never one");
}

#[test]
fn providers_add_to_the_dictionary_and_conflicts_are_reported_with_both_origins() {
    let mut world = World::with_feed_and(Config { dictionary: Some(small()), ..Config::default() });
    world.clients([1]);
    let mut theirs = Dictionary::new();
    let text = "FIELD_5 \"FIVE\" 5 NULL INTEGER 5 UINT64 8\nNEW \"NEW\" 900 NULL ENUMERATED 2 ( 2 ) ENUM 1\n";
    theirs.load_fields("theirs", text.as_bytes()).unwrap();
    theirs.load_enums("theirs", b"NEW 900\n0 \"no\" no\n1 \"yes\" yes\n").unwrap();
    for name in ["RWFFld", "RWFEnum"] {
        let request = Request { stream_id: 9, service_id: Some(40), ..request(9, name, 7) };
        let mut parts = rwf::rdm::dictionary::RefreshParts::answer(&theirs, &request).unwrap();
        while !parts.is_done() {
            let rwf = crate::world::encode(|w| parts.write(true, w));
            world.publish(0, |p| {
                p.event(hub_stream::Event::Dictionary { target: 7, service: 40, rwf: &rwf });
            });
        }
    }
    assert_eq!(world.p2ps.counters().dictionary_conflicts, 1);
    let notices: Vec<String> = world.p2ps.notices().map(|notice| notice.to_string()).collect();
    let conflict = notices.iter().find(|text| text.contains("field 5")).unwrap();
    assert!(conflict.contains("own.fields") && conflict.contains("FEED"), "{conflict}");
    world.send_with(1, |w| request(3, "RWFEnum", 7).encode(w));
    world.send_with(1, |w| request(4, "RWFFld", 7).encode(w));
    let messages = world.raw(1);
    let mut seen = Dictionary::new();
    for part in parts(&messages) {
        if part.stream_id == 4 {
            seen.apply_fields("here", part.body).unwrap();
        } else {
            seen.apply_enums("here", part.body).unwrap();
        }
    }
    assert_eq!(seen.field(5).unwrap().data_type(), DataType::REAL, "the first one counts");
    assert_eq!(seen.field(900).unwrap().acronym(), "NEW");
    assert_eq!(seen.enum_display(900, 1), Some(&b"yes"[..]));
    world.publish(0, |p| {
        p.event(hub_stream::Event::Dictionary { target: 7, service: 40, rwf: &messages[0][..12] });
    });
    assert_eq!(world.p2ps.counters().hub_messages_bad, 1);
}

/// A provider's dictionary reaches the P2PS.
fn offer(world: &mut World, theirs: &Dictionary, name: &str) {
    let mut parts = rwf::rdm::dictionary::RefreshParts::answer(theirs, &request(9, name, 7)).unwrap();
    while !parts.is_done() {
        let rwf = crate::world::encode(|w| parts.write(true, w));
        world.publish(0, |p| {
            p.event(hub_stream::Event::Dictionary { target: 7, service: 40, rwf: &rwf });
        });
    }
}

#[test]
fn who_has_a_dictionary_gets_the_one_that_replaces_it() {
    let mut world = World::with_feed_and(Config { dictionary: Some(small()), ..Config::default() });
    world.clients([1, 2, 3]);
    world.send_with(1, |w| request(3, "RWFFld", 7).encode(w));
    world.send_with(2, |w| request(3, "RWFFld", 3).encode(w));
    world.send_with(3, |w| request(3, "RWFEnum", 7).encode(w));
    world.send_with(3, |w| Request { streaming: false, ..request(4, "RWFFld", 7) }.encode(w));
    world.send_with(3, |w| request(5, "RWFFld", 7).encode(w));
    world.send_with(3, |w| rwf::msg::CloseMsg::new(rwf::msg::Domain::DICTIONARY, 5).encode(w));
    for client in [1, 2, 3] {
        world.raw(client);
    }
    let mut theirs = Dictionary::new();
    theirs.load_fields("theirs", b"NEW \"NEW\" 900 NULL INTEGER 5 UINT64 8\n").unwrap();
    offer(&mut world, &theirs, "RWFFld");
    world.pass(SECOND - 1);
    assert!(world.raw(1).is_empty() && world.raw(2).is_empty(), "others may follow at once");
    world.pass(1);
    let messages = world.raw(1);
    let last = messages.len() - 1;
    let mut seen = Dictionary::new();
    for (at, part) in parts(&messages).iter().enumerate() {
        assert_eq!((part.stream_id, part.state.stream), (3, StreamState::OPEN));
        assert!(!part.flags.contains(RefreshFlags::SOLICITED));
        assert_eq!(part.flags.contains(RefreshFlags::CLEAR_CACHE), at == 0);
        assert_eq!(part.flags.contains(RefreshFlags::REFRESH_COMPLETE), at == last);
        assert_eq!(part.key.unwrap().service_id, Some(1));
        seen.apply_fields("here", part.body).unwrap();
    }
    assert!(seen.field(900).is_some() && seen.field(5).is_some());
    assert!(world.raw(2).is_empty(), "one at a time");
    world.pass(20_000_000);
    assert!(!world.raw(2).is_empty());
    world.pass(SECOND);
    assert!(
        world.raw(3).is_empty(),
        "the enumerations are what they were, a snapshot is over, and so is a closed stream"
    );
    offer(&mut world, &theirs, "RWFFld");
    world.pass(10 * SECOND);
    for client in [1, 2, 3] {
        assert!(world.raw(client).is_empty(), "nothing has changed");
    }
    assert_eq!(world.p2ps.counters().dictionary_conflicts, 0);
}

#[test]
fn a_providers_definition_replaces_the_built_in_one() {
    let mut world = World::with_feed();
    world.clients([1]);
    let mut theirs = Dictionary::new();
    theirs.load_fields("theirs", b"BID \"THEIR BID\" 22 NULL INTEGER 5 UINT64 8\n").unwrap();
    let mut parts_of = rwf::rdm::dictionary::RefreshParts::answer(&theirs, &request(9, "RWFFld", 7)).unwrap();
    let rwf = crate::world::encode(|w| parts_of.write(true, w));
    world.publish(0, |p| {
        p.event(hub_stream::Event::Dictionary { target: 7, service: 40, rwf: &rwf });
    });
    world.send_with(1, |w| request(4, "RWFFld", 7).encode(w));
    let messages = world.raw(1);
    let mut seen = Dictionary::new();
    for part in parts(&messages) {
        seen.apply_fields("here", part.body).unwrap();
    }
    assert_eq!(seen.field(22).unwrap().long_name(), "THEIR BID");
    assert!(seen.field(25).is_some(), "the built-in one fills the gaps");
    assert_eq!(world.p2ps.counters().dictionary_conflicts, 0);
}

/// Two Source Distributors come with a service and a dictionary each, and a client at any moment between: whatever it asks for is answered
/// at once and to the end, by whichever service it asks.
#[test]
fn whoever_comes_while_services_come_has_the_whole_dictionary() {
    type Step = Box<dyn Fn(&mut World)>;
    let theirs = |fid: u16| {
        let mut theirs = Dictionary::new();
        let text = format!("NEW{fid} \"NEW{fid}\" {fid} NULL ENUMERATED 2 ( 2 ) ENUM 1\n");
        theirs.load_fields("theirs", text.as_bytes()).unwrap();
        theirs.load_enums("theirs", format!("NEW{fid} {fid}\n0 \"no\" no\n1 \"yes\" yes\n").as_bytes()).unwrap();
        theirs
    };
    let mut steps: Vec<Step> = Vec::new();
    for (source, name) in [(0_u16, "ONE"), (1, "TWO")] {
        steps.push(Box::new(move |world| world.source(source)));
        for half in ["RWFFld", "RWFEnum"] {
            steps.push(Box::new(move |world| {
                let offered = theirs(900 + source);
                let mut parts = rwf::rdm::dictionary::RefreshParts::answer(&offered, &request(9, half, 7)).unwrap();
                while !parts.is_done() {
                    let rwf = crate::world::encode(|w| parts.write(true, w));
                    world.publish(source, |p| {
                        p.event(hub_stream::Event::Dictionary { target: 7, service: 40, rwf: &rwf });
                    });
                }
            }));
        }
        steps.push(Box::new(move |world| {
            world.publish(source, |p| {
                p.service(40, name);
            });
        }));
        steps.push(Box::new(|world| world.pass(50_000_000)));
    }
    steps.push(Box::new(|world| world.pass(SECOND)));
    steps.push(Box::new(|world| world.pass(SECOND)));
    let is_there = |at: usize| {
        if at > 8 {
            vec![None, Some(1), Some(2)]
        } else if at > 3 {
            vec![None, Some(1)]
        } else {
            vec![None]
        }
    };
    for first in 0..=steps.len() {
        for second in first..=steps.len() {
            for (fields_of, enums_of) in
                is_there(first).into_iter().flat_map(|f| is_there(second).into_iter().map(move |e| (f, e)))
            {
                let config =
                    Config { dictionary: None, max_fragment_size: 2_000, work_per_turn: 2, ..Config::default() };
                let mut world = World::with(config);
                let ask = |world: &mut World, stream: i32, name: &str, service_id: Option<u16>| {
                    world.send_with(1, |w| Request { service_id, ..request(stream, name, 7) }.encode(w));
                };
                for at in 0..=steps.len() {
                    if at == first {
                        world.clients([1]);
                        ask(&mut world, 3, "RWFFld", fields_of);
                    }
                    if at == second {
                        ask(&mut world, 4, "RWFEnum", enums_of);
                    }
                    if let Some(step) = steps.get(at) {
                        step(&mut world);
                    }
                }
                while world.p2ps.timeout() == Some(0) {
                    world.pass(0);
                }
                let messages = world.raw(1);
                let parts = parts(&messages);
                for stream in [3, 4] {
                    let answer = parts.iter().filter(|part| part.stream_id == stream);
                    let answer: Vec<_> = answer.filter(|part| part.flags.contains(RefreshFlags::SOLICITED)).collect();
                    let whole =
                        answer.iter().filter(|part| part.flags.contains(RefreshFlags::REFRESH_COMPLETE)).count();
                    let begun = answer.iter().filter(|part| part.flags.contains(RefreshFlags::CLEAR_CACHE)).count();
                    assert_eq!((begun, whole), (1, 1), "stream {stream}, asked for in steps {first} and {second}");
                    assert!(answer.last().unwrap().flags.contains(RefreshFlags::REFRESH_COMPLETE));
                }
            }
        }
    }
}
