//! Batches, views, reissues, pause and resume, limits, windows, generic messages.

use crate::world::{PRICE, World, encode, item, token_of, untokened};
use hub_p2ps::{ClientId, Config};
use hub_stream::Event;
use rwf::container::{ElementList, ElementListEncoder, SetScope};
use rwf::msg::{
    Attrib, CloseFlags, CloseMsg, Domain, GenericMsg, Msg, MsgKey, Priority, RefreshMsg, RequestFlags, RequestMsg,
};
use rwf::rdm::request::{Payload, View};
use rwf::{DataType, State};

fn payload(payload: &Payload<'_>) -> Vec<u8> {
    encode(|w| payload.encode(w))
}

fn items(names: &[&'static str]) -> Vec<u8> {
    let items = names.iter().map(|name| name.as_bytes()).collect();
    payload(&Payload { items: Some(items), ..Payload::default() })
}

fn streams(ids: &[i32]) -> Vec<u8> {
    payload(&Payload { streams: Some(ids.to_vec()), ..Payload::default() })
}

fn view(fids: &[i16]) -> Vec<u8> {
    payload(&Payload { view: Some(View::Fields(fids.to_vec())), ..Payload::default() })
}

fn batch(stream: i32, body: &[u8]) -> RequestMsg<'_> {
    RequestMsg {
        flags: RequestFlags::STREAMING | RequestFlags::HAS_BATCH,
        key: MsgKey { service_id: Some(1), ..MsgKey::EMPTY },
        container: DataType::ELEMENT_LIST,
        body,
        ..RequestMsg::new(PRICE, stream)
    }
}

fn viewed<'a>(stream: i32, name: &'a str, body: &'a [u8]) -> RequestMsg<'a> {
    RequestMsg {
        flags: RequestFlags::STREAMING | RequestFlags::HAS_VIEW,
        container: DataType::ELEMENT_LIST,
        body,
        ..item(stream, name)
    }
}

#[test]
fn a_batch_is_answered_by_one_status_and_then_its_items() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.open(1, 12, "X", 9);
    let body = items(&["A", "B", "", "C"]);
    world.request(1, &batch(10, &body));
    let answer = world.raw(1);
    assert_eq!(
        crate::world::texts(&answer)[0],
        "Processed 4 total items from Batch Request. 2 Ok. 2 not, for reasons told on their streams."
    );
    let words: Vec<String> = answer.iter().map(|msg| crate::world::words(msg)).collect();
    assert_eq!(
        words,
        ["status 10 CLOSED/OK", "status 12 OPEN/NO_CHANGE/ALREADY_OPEN", "status 13 CLOSED/SUSPECT/INVALID_ARGUMENT",]
    );
    let asked = world.asked();
    assert!(asked.len() == 2 && asked[0].ends_with(" key A") && asked[1].ends_with(" key C"), "{asked:?}");
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 0).opened(token_of(&asked[1]), 1).image(1, &[(22, 1)]).image(0, &[(22, 2)]);
    });
    assert_eq!(
        world.take(1),
        [
            "refresh 14 solicited complete OPEN/OK group 3 key 1:C 22=1",
            "refresh 11 solicited complete OPEN/OK group 3 key 1:A 22=2",
        ]
    );
}

#[test]
fn a_batch_for_no_service_fails_as_one() {
    let mut world = World::with_feed();
    world.clients([1]);
    let body = items(&["A", "B"]);
    let wrong = RequestMsg { key: MsgKey { service_id: Some(77), ..MsgKey::EMPTY }, ..batch(10, &body) };
    world.request(1, &wrong);
    assert_eq!(world.take(1), ["status 10 CLOSED/SUSPECT/SOURCE_UNKNOWN"]);
    world.request(1, &RequestMsg { container: DataType::NO_DATA, body: &[], ..batch(10, &body) });
    assert_eq!(world.take(1), ["status 10 CLOSED/SUSPECT/INVALID_ARGUMENT"]);
}

/// Each name becomes an item with the attributes of the batch's key.
#[test]
fn a_batch_with_too_many_attributes_fails_as_one() {
    let mut world = World::with_feed();
    world.clients([1]);
    let attributes = vec![7_u8; 20_000];
    let key = MsgKey { service_id: Some(1), attrib: Some(Attrib::new(DataType::OPAQUE, &attributes)), ..MsgKey::EMPTY };
    let many = payload(&Payload { items: Some(vec![b"A"; 1_000]), ..Payload::default() });
    world.request(1, &RequestMsg { key, ..batch(10, &many) });
    assert_eq!(world.take(1), ["status 10 CLOSED/SUSPECT/NO_RESOURCES"]);
    let few = items(&["A", "B"]);
    world.request(1, &RequestMsg { key, ..batch(10, &few) });
    assert_eq!(world.take(1), ["status 10 CLOSED/OK"]);
    assert_eq!(world.asked().len(), 2);
}

#[test]
fn streams_are_paused_and_closed_in_a_batch() {
    let mut world = World::with_feed();
    world.clients([1]);
    for (stream, name, handle) in [(5, "A", 0), (6, "B", 1), (7, "C", 2)] {
        world.open(1, stream, name, handle);
    }
    let body = streams(&[5, 6, 99]);
    let flags = RequestFlags::STREAMING | RequestFlags::HAS_BATCH | RequestFlags::PAUSE | RequestFlags::NO_REFRESH;
    world.request(1, &RequestMsg { flags, key: MsgKey::EMPTY, ..batch(20, &body) });
    assert_eq!(world.take(1), ["status 20 CLOSED/OK"]);
    let asked = world.asked();
    assert!(asked.len() == 2 && asked.iter().all(|words| words.contains("[STREAMING|PAUSE]")), "{asked:?}");
    world.publish(0, |p| {
        p.update(0, &[(22, 1)]).update(1, &[(22, 1)]).update(2, &[(22, 1)]);
    });
    assert_eq!(world.take(1), ["update 7 22=1"]);
    let body = streams(&[5, 7, 1]);
    world.send_with(1, |w| {
        CloseMsg { flags: CloseFlags(4), container: DataType::ELEMENT_LIST, body: &body, ..CloseMsg::new(PRICE, 1) }
            .encode(w)
    });
    assert_eq!(world.asked(), ["0: close 0", "0: close 2"]);
    let items = [5, 6, 7, 1].map(|stream| world.p2ps.has_item_on(ClientId(1), stream));
    assert_eq!(items, [false, true, false, false]);
    assert!(world.take(1).is_empty(), "stream 1 is the login's and stays open");
    assert_eq!(world.p2ps.mounts().count(), 1, "a batch of items does not close the login");
}

#[test]
fn a_batch_close_is_answered_by_one_status_on_its_stream() {
    let mut world = World::with_feed();
    world.clients([1]);
    for (stream, name, handle) in [(5, "A", 0), (6, "B", 1)] {
        world.open(1, stream, name, handle);
    }
    for (listed, text) in [
        (&[5, 6][..], "Processed 2 total stream ids from Batch Close Request. 2 Ok."),
        (&[5, 6, 7], "Processed 3 total stream ids from Batch Close Request. 0 Ok. 3 not, since they were not open."),
    ] {
        let body = streams(listed);
        world.send_with(1, |w| {
            CloseMsg { flags: CloseFlags(4), container: DataType::ELEMENT_LIST, body: &body, ..CloseMsg::new(PRICE, 5) }
                .encode(w)
        });
        let answer = world.raw(1);
        assert_eq!(crate::world::words(&answer[0]), "status 5 CLOSED/OK");
        assert_eq!(crate::world::texts(&answer), [text]);
    }
    assert_eq!(world.asked(), ["0: close 0", "0: close 1"]);
}

#[test]
fn a_reissue_refreshes_its_stream_alone() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "A", 0);
    world.request(2, &item(5, "A"));
    world.publish(0, |p| {
        p.image(0, &[(22, 1)]);
    });
    world.take(2);
    world.asked();
    world.request(1, &item(5, "A"));
    assert_eq!(world.asked(), ["0: refresh 0"]);
    world.publish(0, |p| {
        p.update(0, &[(22, 2)]).image(0, &[(22, 2)]).update(0, &[(22, 3)]).image(0, &[(22, 4)]);
    });
    assert_eq!(
        world.take(1),
        ["update 5 22=2", "refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=2", "update 5 22=3"]
    );
    assert_eq!(world.take(2), ["update 5 22=2", "update 5 22=3"]);
    let quiet = RequestFlags::STREAMING | RequestFlags::NO_REFRESH;
    world.request(1, &RequestMsg { flags: quiet, ..item(5, "A") });
    let raised = Some(Priority { class: 5, count: 1 });
    world.request(1, &RequestMsg { flags: quiet, priority: raised, ..item(5, "A") });
    let asked = world.asked();
    assert!(asked.len() == 1 && asked[0].starts_with("0: reissue 0 request"), "{asked:?}");
}

/// The priority in the only request that went to the source since the last look.
fn asked_priority(world: &mut World) -> Priority {
    let sent = std::mem::take(&mut world.sent);
    let asked = world.asked();
    let [only] = &sent[..] else { panic!("{asked:?}") };
    let Ok(rwf::msg::Msg::Request(request)) = rwf::msg::Msg::decode(only) else { panic!("{asked:?}") };
    request.priority.unwrap()
}

#[test]
fn the_priorities_of_all_watchers_are_asked_for_together() {
    let mut world = World::with_feed();
    world.clients([1, 2, 3]);
    let quiet = RequestFlags::STREAMING | RequestFlags::NO_REFRESH;
    let with = |class, count| Some(Priority { class, count });
    world.request(1, &RequestMsg { priority: with(2, 5), ..item(5, "A") });
    let token = world.token();
    assert_eq!(asked_priority(&mut world), Priority { class: 2, count: 5 }, "as it was asked for");
    world.publish(0, |p| {
        p.opened(token, 0).image(0, &[(22, 1)]);
    });
    world.take(1);
    world.request(2, &RequestMsg { flags: quiet, priority: with(2, 3), ..item(5, "A") });
    assert_eq!(asked_priority(&mut world), Priority { class: 2, count: 8 }, "counts of one class are added");
    world.request(3, &RequestMsg { flags: quiet, priority: with(4, 1), ..item(5, "A") });
    assert_eq!(asked_priority(&mut world), Priority { class: 4, count: 1 }, "the highest class counts");
    world.request(3, &RequestMsg { flags: quiet, priority: with(4, 1), ..item(5, "A") });
    assert_eq!(world.asked(), [""; 0], "nothing has changed");
    world.close(3, 5);
    assert_eq!(asked_priority(&mut world), Priority { class: 2, count: 8 }, "it is gone with its watcher");
    world.request(1, &RequestMsg { flags: quiet, priority: with(1, 1), ..item(5, "A") });
    assert_eq!(asked_priority(&mut world), Priority { class: 2, count: 3 });
    world.close(2, 5);
    assert_eq!(asked_priority(&mut world), Priority::default());
}

#[test]
fn priorities_have_a_limit_and_a_usual_class() {
    let config = Config { max_priority_class: 3, default_priority_class: 2, ..Config::default() };
    let mut world = World::with_feed_and(config);
    world.clients([1, 2]);
    world.request(1, &item(5, "A"));
    let token = world.token();
    assert_eq!(asked_priority(&mut world), Priority { class: 2, count: 1 }, "nothing was said");
    world.publish(0, |p| {
        p.opened(token, 0).image(0, &[(22, 1)]);
    });
    world.take(1);
    let quiet = RequestFlags::STREAMING | RequestFlags::NO_REFRESH;
    world.request(2, &RequestMsg { flags: quiet, priority: Some(Priority { class: 200, count: 7 }), ..item(5, "A") });
    assert_eq!(asked_priority(&mut world), Priority { class: 3, count: 7 }, "as much as it may have");
    world.request(2, &RequestMsg { flags: quiet, priority: Some(Priority { class: 1, count: 7 }), ..item(5, "A") });
    assert_eq!(asked_priority(&mut world), Priority { class: 2, count: 1 }, "who says less has less");
}

/// One request upstream has both, the priority and the image: with two of them the first would ask for what is over.
#[test]
fn another_priority_and_an_image_are_asked_for_at_once() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    let with = |class, count| Some(Priority { class, count });
    world.request(1, &RequestMsg { priority: with(1, 1), ..item(5, "A") });
    let token = world.token();
    assert_eq!(asked_priority(&mut world), Priority { class: 1, count: 1 });
    world.publish(0, |p| {
        p.opened(token, 0).image(0, &[(22, 1)]);
    });
    world.take(1);
    // Another client opens it, and the first asks for more and for an image.
    world.request(2, &RequestMsg { priority: with(3, 2), ..item(9, "A") });
    assert_eq!(asked_priority(&mut world), Priority { class: 3, count: 2 });
    world.publish(0, |p| {
        p.answered(0, 1).image(0, &[(22, 2)]);
    });
    assert_eq!(world.take(2), ["refresh 9 solicited complete OPEN/OK group 3 key 1:A 22=2"]);
    assert_eq!(world.take(1), [""; 0]);
    world.request(1, &RequestMsg { priority: with(3, 1), ..item(5, "A") });
    assert_eq!(asked_priority(&mut world), Priority { class: 3, count: 3 });
    world.publish(0, |p| {
        p.answered(0, 2).image(0, &[(22, 3)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=3"]);
    assert_eq!((world.take(2), world.asked()), (vec![], vec![]));
}

/// How long 500 turns take, in each of which one watcher of an item asks for another priority, of so many.
fn time_of_priorities(watchers: i32) -> std::time::Duration {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(2, 5, "A", 0);
    // The world looks at everything after each message: all at once, for it would take minutes.
    for stream in 0..watchers {
        let request = encode(|w| item(10 + stream, "A").encode(w));
        world.p2ps.client_message(world.now, ClientId(1), &request);
    }
    world.settle();
    let quiet = RequestFlags::STREAMING | RequestFlags::NO_REFRESH;
    let with = |class| {
        let priority = Some(Priority { class, count: 1 });
        encode(|w| RequestMsg { flags: quiet, priority, ..item(10, "A") }.encode(w))
    };
    world.request(2, &RequestMsg { flags: quiet, priority: Some(Priority { class: 5, count: 1 }), ..item(5, "A") });
    world.asked();
    let requests = [with(2), with(3)];
    #[allow(clippy::disallowed_methods, reason = "measures what it costs")]
    let began = std::time::Instant::now();
    for request in requests.iter().cycle().take(500) {
        world.p2ps.client_message(world.now, ClientId(1), request);
        world.p2ps.flush(&[], |_, _| {});
        world.p2ps.requests(|_, _| panic!("another one asks for more"));
    }
    let took = began.elapsed();
    world.close(2, 5);
    assert_eq!(asked_priority(&mut world), Priority { class: 3, count: 1 }, "the highest that is left");
    took
}

/// The priority of an item is known without a look at all who watch it.
#[test]
fn a_priority_costs_the_same_however_many_watch() {
    let (few, many) = (time_of_priorities(10), time_of_priorities(30_000));
    assert!(many < few * 10 + std::time::Duration::from_millis(100), "{many:?} with 30,000 watchers, {few:?} with 10");
}

#[test]
fn a_paused_stream_rests_and_resumes_with_an_image() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "A", 0);
    world.request(2, &item(5, "A"));
    world.publish(0, |p| {
        p.image(0, &[(22, 1)]);
    });
    world.take(2);
    world.asked();
    let pause = RequestFlags::STREAMING | RequestFlags::PAUSE | RequestFlags::NO_REFRESH;
    world.request(1, &RequestMsg { flags: pause, ..item(5, "A") });
    world.publish(0, |p| {
        p.update(0, &[(22, 2)]);
        p.status(0, 0, &crate::world::status(rwf::StreamState::OPEN, rwf::DataState::OK, rwf::StateCode::NONE));
    });
    assert_eq!(world.take(1), ["status 5 OPEN/OK"], "states are told to who is paused");
    assert_eq!(world.take(2), ["update 5 22=2", "status 5 OPEN/OK"]);
    world.request(1, &item(5, "A"));
    assert_eq!(world.asked(), ["0: refresh 0"]);
    world.publish(0, |p| {
        p.image(0, &[(22, 3)]).update(0, &[(22, 4)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=3", "update 5 22=4"]);
    assert_eq!(world.take(2), ["update 5 22=4"]);
    let paused_from_the_start = RequestFlags::STREAMING | RequestFlags::PAUSE;
    world.request(1, &RequestMsg { flags: paused_from_the_start, ..item(6, "A") });
    assert_eq!(world.asked(), ["0: refresh 0"]);
    world.publish(0, |p| {
        p.image(0, &[(22, 5)]).update(0, &[(22, 6)]);
    });
    assert_eq!(
        world.take(1),
        ["refresh 6 solicited complete OPEN/OK group 3 key 1:A 22=5", "update 5 22=6"],
        "an image, and then rest"
    );
    world.take(2);
}

#[test]
fn a_view_shows_its_fields_in_images_and_updates() {
    let mut world = World::with_feed();
    world.clients([1, 2, 3]);
    let narrow = view(&[25, 22]);
    let other = view(&[1000]);
    world.request(1, &viewed(5, "A", &narrow));
    let asked = world.asked();
    assert_eq!(untokened(&asked), ["0: open 40 streaming request 0 [STREAMING|HAS_VIEW] REALTIME/TICK_BY_TICK key A"]);
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 0).image(0, &[(3, 1), (22, 2), (25, 3), (1000, 4)]);
        p.update(0, &[(22, 5), (3, 5)]).update(0, &[(3, 6)]);
    });
    assert_eq!(
        world.take(1),
        ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=2 25=3", "update 5 22=5"],
        "an update without any of its fields is nothing to a view"
    );
    // A second watcher of the same view shares it; it is covered by what was asked for.
    world.request(2, &viewed(5, "A", &view(&[22, 25])));
    assert_eq!(world.asked(), ["0: refresh 0"]);
    world.publish(0, |p| {
        p.image(0, &[(22, 6), (25, 7)]).update(0, &[(22, 8)]);
    });
    assert_eq!(world.take(2), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=6 25=7", "update 5 22=8"]);
    assert_eq!(world.take(1), ["update 5 22=8"]);
    let filtered = world.p2ps.counters().views_filtered;
    // A wider one has to be asked for; the others notice nothing.
    world.request(3, &viewed(5, "A", &other));
    let asked = world.asked();
    assert!(asked.len() == 1 && asked[0].starts_with("0: reissue 0 with image request"), "{asked:?}");
    world.publish(0, |p| {
        let unsolicited = crate::world::refresh(&[(22, 9)]);
        p.image_with(0, hub_stream::flags::UNSOLICITED, &unsolicited);
        p.update(0, &[(22, 10), (1000, 10)]);
    });
    assert_eq!(world.take(3), [""; 0], "an image that was not asked for need not be the wider one");
    world.publish(0, |p| {
        p.answered(0, 1).image(0, &[(22, 11), (1000, 12)]).update(0, &[(1000, 13)]);
    });
    assert_eq!(world.take(3), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 1000=12", "update 5 1000=13"]);
    for client in [1, 2] {
        assert_eq!(world.take(client), ["refresh 5 complete OPEN/OK group 3 key 1:A 22=9", "update 5 22=10"]);
    }
    assert_eq!(world.p2ps.counters().views_filtered - filtered, 7, "once for each view, not for each client");
}

#[test]
fn upstream_goes_the_union_or_nothing() {
    let mut world = World::with_feed();
    world.clients([1, 2, 3]);
    let union = |world: &World| {
        let Some(Msg::Request(request)) = world.sent.last().map(|rwf| Msg::decode(rwf).unwrap()) else { panic!() };
        Payload::of_request(&request).unwrap().view
    };
    world.request(1, &viewed(5, "A", &view(&[25, 22])));
    world.request(2, &viewed(5, "A", &view(&[30])));
    assert_eq!(union(&world), Some(View::Fields(vec![22, 25])));
    let token = {
        let token = world.token();
        world.asked();
        token
    };
    world.publish(0, |p| {
        p.opened(token, 0).image(0, &[(22, 1)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=1"]);
    assert_eq!(world.take(2), [""; 0], "the view was widened while the first image was on its way");
    assert_eq!(union(&world), Some(View::Fields(vec![22, 25, 30])));
    world.publish(0, |p| {
        p.answered(0, 1).image(0, &[(22, 1), (30, 2)]);
    });
    assert_eq!(world.take(2), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 30=2"]);
    world.request(3, &item(5, "A"));
    assert_eq!(union(&world), None, "everything, for the one who has no view");
    world.publish(0, |p| {
        p.answered(0, 2).image(0, &[(22, 1), (30, 2), (40, 3)]);
    });
    assert_eq!(world.take(3), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=1 30=2 40=3"]);
    world.close(3, 5);
    assert_eq!(union(&world), Some(View::Fields(vec![22, 25, 30])));
    world.close(1, 5);
    assert_eq!(union(&world), Some(View::Fields(vec![30])));
    world.asked();
    world.close(2, 5);
    assert_eq!(world.asked(), ["0: close 0"]);
}

#[test]
fn elements_that_are_not_for_this_server_go_to_the_provider() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    let names = |world: &World| {
        let Some(Msg::Request(request)) = world.sent.last().map(|rwf| Msg::decode(rwf).unwrap()) else { panic!() };
        if request.container != DataType::ELEMENT_LIST {
            return Vec::new();
        }
        let list = ElementList::decode(request.body, &SetScope::NONE).unwrap();
        list.entries().map(|entry| String::from_utf8(entry.unwrap().name.to_vec()).unwrap()).collect::<Vec<_>>()
    };
    let own = encode(|w| {
        let mut list = ElementListEncoder::begin(w)?;
        list.uint(b"Depth", 5)?;
        list.finish()
    });
    // Behind the flags and the number of elements.
    let with_depth = |list: &[u8]| [&list[..2], &[list[2] + 1][..], &list[3..], &own[3..]].concat();
    let fields = Some(View::Fields(vec![22]));
    let body = with_depth(&payload(&Payload { view: fields, data_streams: Some(1), ..Payload::default() }));
    world.request(1, &viewed(5, "A", &body));
    assert_eq!(names(&world), [":ViewType", ":ViewData", "Depth"]);
    let token = world.token();
    world.asked();
    world.publish(0, |p| {
        p.opened(token, 0).image(0, &[(22, 1)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=1"]);
    world.request(2, &item(5, "A"));
    assert_eq!(names(&world), ["Depth"], "as long as the item is open");
    world.asked();
    world.request(1, &RequestMsg { container: DataType::ELEMENT_LIST, body: &body, ..item(6, "B") });
    assert_eq!(names(&world), ["Depth"], "a view counts by its flag");
    world.asked();
    world.request(1, &RequestMsg { container: DataType::ELEMENT_LIST, body: &own, ..item(7, "C") });
    assert_eq!(names(&world), ["Depth"]);
    world.asked();
    let both = with_depth(&payload(&Payload { items: Some(vec![b"D"]), data_streams: Some(1), ..Payload::default() }));
    world.request(2, &batch(20, &both));
    assert_eq!(world.take(2), ["status 20 CLOSED/OK"]);
    assert_eq!(names(&world), ["Depth"]);
    assert_eq!(world.asked().len(), 1);
}

#[test]
fn a_view_can_change_on_its_stream() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(2, 5, "A", 0);
    world.request(1, &viewed(5, "A", &view(&[22])));
    world.publish(0, |p| {
        p.image(0, &[(22, 1), (25, 2)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=1"]);
    world.asked();
    world.request(1, &viewed(5, "A", &view(&[25])));
    assert_eq!(world.asked(), ["0: refresh 0"]);
    world.publish(0, |p| {
        p.update(0, &[(22, 3)]).image(0, &[(22, 3), (25, 2)]).update(0, &[(25, 4)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 25=2", "update 5 25=4"]);
    assert_eq!(world.take(2), ["update 5 22=3", "update 5 25=4"]);
    world.request(1, &item(5, "A"));
    world.asked();
    world.publish(0, |p| {
        p.image(0, &[(22, 3), (25, 4)]).update(0, &[(22, 5)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=3 25=4", "update 5 22=5"]);
    world.take(2);
    let unknown = encode(|w| {
        let mut list = ElementListEncoder::begin(w)?;
        list.uint(b":ViewType", 9)?;
        list.finish()
    });
    world.request(1, &viewed(6, "A", &unknown));
    assert_eq!(world.take(1), ["status 6 CLOSED/SUSPECT/UNSUPPORTED_VIEW_TYPE"]);
    let broken = payload(&Payload::default());
    world.request(1, &viewed(6, "A", &broken[..broken.len() - 1]));
    assert_eq!(world.take(1), ["status 6 CLOSED/SUSPECT/INVALID_VIEW"]);
}

#[test]
fn a_view_by_name_filters_element_lists() {
    let mut world = World::with_feed();
    world.clients([1]);
    let names = payload(&Payload { view: Some(View::Elements(vec![b"B".to_vec()])), ..Payload::default() });
    world.request(1, &viewed(5, "A", &names));
    let token = world.token();
    world.asked();
    let body = encode(|w| {
        let mut list = ElementListEncoder::begin(w)?;
        for (name, value) in [(b"A", 1), (b"B", 2), (b"C", 3)] {
            list.uint(name, value)?;
        }
        list.finish()
    });
    let rwf = encode(|w| {
        RefreshMsg {
            container: DataType::ELEMENT_LIST,
            flags: rwf::msg::RefreshFlags::REFRESH_COMPLETE,
            state: State::OPEN_OK,
            body: &body,
            ..RefreshMsg::new(PRICE, 1)
        }
        .encode(w)
    });
    world.publish(0, |p| {
        p.opened(token, 0).image_with(0, 0, &rwf);
    });
    let got = world.raw(1);
    let Ok(Msg::Refresh(refresh)) = Msg::decode(&got[0]) else { panic!() };
    let list = ElementList::decode(refresh.body, &SetScope::NONE).unwrap();
    let names: Vec<&[u8]> = list.entries().map(|entry| entry.unwrap().name).collect();
    assert_eq!(names, [b"B"]);
}

#[test]
fn items_are_limited_by_client_and_by_user() {
    let config = Config { item_limit: 2, aggregate_item_limit: 3, ..Config::default() };
    let mut world = World::with_feed_and(config);
    for client in [1, 2] {
        world.connect(client);
        let login = rwf::rdm::login::Request { name: "same".to_owned(), ..Default::default() };
        world.send_with(client, |w| login.encode(w));
        world.take(client);
    }
    for (client, stream) in [(1, 5), (1, 6), (1, 7), (2, 5), (2, 6)] {
        world.request(client, &item(stream, &format!("I{client}{stream}")));
    }
    assert_eq!(world.take(1), ["status 7 CLOSED/SUSPECT/TOO_MANY_ITEMS"]);
    assert_eq!(world.take(2), ["status 6 CLOSED/SUSPECT/TOO_MANY_ITEMS"]);
    assert_eq!(world.asked().len(), 3);
    world.disconnect(1);
    world.request(2, &item(6, "Z"));
    assert_eq!(world.asked().len(), 1, "a place is free again");
}

#[test]
fn opens_are_paced_by_turn_and_by_window() {
    let config = Config { opens_per_turn: 2, open_window: 3, ..Config::default() };
    let mut world = World::with_feed_and(config);
    world.clients([1]);
    let body = items(&["A", "B", "C", "D", "E"]);
    world.request(1, &batch(10, &body));
    assert_eq!(world.take(1), ["status 10 CLOSED/OK"]);
    let first = world.asked();
    assert_eq!(first.len(), 2);
    assert_eq!(world.p2ps.timeout(), Some(0), "there is more to do at once");
    world.settle();
    assert_eq!(world.asked().len(), 0, "it is the same turn, however often one looks");
    world.pass(0);
    assert_eq!(world.asked().len(), 1, "three may be unanswered");
    assert_ne!(world.p2ps.timeout(), Some(0));
    assert_eq!(world.p2ps.counters().items_waiting, 2);
    world.publish(0, |p| {
        p.opened(token_of(&first[0]), 0).opened(token_of(&first[1]), 1);
    });
    assert_eq!(world.asked().len(), 1);
    world.pass(0);
    assert_eq!(world.asked().len(), 1);
}

#[test]
fn generic_messages_travel_both_ways() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "A", 0);
    let generic = GenericMsg { key: Some(MsgKey::item(1, b"x")), ..GenericMsg::new(PRICE, 5) };
    world.send_with(1, |w| generic.encode(w));
    assert_eq!(world.asked(), ["0: generic 0 generic 5 key x"]);
    world.publish(0, |p| {
        let rwf = encode(|w| GenericMsg { key: Some(MsgKey::item(900, b"y")), ..GenericMsg::new(PRICE, 2) }.encode(w));
        p.event(Event::Generic { target: 7, handle: 0, has_key: true, rwf: &rwf });
    });
    assert_eq!(world.take(1), ["generic 5 key 1:y"]);
    // Mirroring modes on the directory stream concern nobody here.
    world.send_with(2, |w| GenericMsg::new(Domain::SOURCE, 2).encode(w));
    assert_eq!(world.p2ps.counters().generics_dropped, 1);
}

#[test]
fn a_close_is_acknowledged_if_that_is_wanted() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.open(1, 5, "A", 0);
    world.send_with(1, |w| CloseMsg { flags: CloseFlags::ACK, ..CloseMsg::new(PRICE, 5) }.encode(w));
    assert_eq!(world.take(1), ["ack 5 id 5"]);
    assert_eq!(world.asked(), ["0: close 0"]);
    world.close(1, 99);
}
