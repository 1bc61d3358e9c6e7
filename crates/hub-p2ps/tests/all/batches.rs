//! Batches of so many names that they take more than a turn, and what their clients say meanwhile.

use crate::world::{PRICE, World, encode, item, token_of};
use hub_p2ps::{ClientId, CloseReason, Config};
use rwf::container::ElementListEncoder;
use rwf::msg::{CloseFlags, CloseMsg, Domain, Msg, MsgKey, RequestFlags, RequestMsg};
use rwf::rdm::request::Payload;
use rwf::{DataType, Primitive};

/// As many names of one byte as an array has room for.
const NAMES_MAX: usize = 65_531;

fn world(work_per_turn: u32) -> World {
    World::with_feed_and(Config { work_per_turn, opens_per_turn: 1 << 20, ..Config::default() })
}

/// A batch of names of one byte each.
fn batch(stream: i32, names: &[u8]) -> Vec<u8> {
    let mut array = vec![DataType::ASCII_STRING.0, 1];
    array.extend_from_slice(&(names.len() as u16).to_be_bytes());
    array.extend_from_slice(names);
    let mut body = vec![0; array.len() + 100];
    let mut w = rwf::wire::Writer::new(&mut body);
    let mut list = ElementListEncoder::begin(&mut w).unwrap();
    list.raw(b":ItemList", DataType::ARRAY, &array).unwrap();
    list.finish().unwrap();
    let request = RequestMsg {
        flags: RequestFlags::STREAMING | RequestFlags::HAS_BATCH,
        key: MsgKey { service_id: Some(1), ..MsgKey::EMPTY },
        container: DataType::ELEMENT_LIST,
        body: w.written(),
        ..RequestMsg::new(PRICE, stream)
    };
    let mut message = vec![0; array.len() + 200];
    let mut w = rwf::wire::Writer::new(&mut message);
    request.encode(&mut w).unwrap();
    w.written().to_vec()
}

fn streams(ids: &[i32]) -> Vec<u8> {
    encode(|w| Payload { streams: Some(ids.to_vec()), ..Payload::default() }.encode(w))
}

fn batch_close(world: &mut World, client: u32, own: i32, ids: &[i32]) -> bool {
    let body = streams(ids);
    let close =
        CloseMsg { flags: CloseFlags(4), container: DataType::ELEMENT_LIST, body: &body, ..CloseMsg::new(PRICE, own) };
    say(world, client, &encode(|w| close.encode(w)))
}

/// A client says something; true if it is done at once.
fn say(world: &mut World, client: u32, msg: &[u8]) -> bool {
    let done = world.p2ps.client_message(world.now, ClientId(client), msg);
    world.settle();
    done
}

/// The names that were asked for since the last look, in order.
fn names(world: &mut World) -> String {
    world.asked().iter().filter_map(|words| words.rsplit_once(" key ").map(|(_, name)| name.to_owned())).collect()
}

fn is_behind(world: &World, client: u32) -> bool {
    world.p2ps.is_behind(ClientId(client))
}

#[test]
fn updates_of_others_go_out_between_the_parts_of_a_batch() {
    let mut world = world(5_000);
    world.clients([1, 2]);
    world.open(2, 5, "B", 0);
    let mut left = NAMES_MAX as u64;
    assert!(say(&mut world, 1, &batch(100, &vec![b'A'; NAMES_MAX])), "it has begun");
    let answer = world.raw(1);
    let text = format!("Processed {NAMES_MAX} total items from Batch Request. {NAMES_MAX} Ok.");
    assert_eq!(crate::world::texts(&answer), [text], "the status is the first of all");
    assert_eq!(names(&mut world), "A");
    let mut price = 0;
    loop {
        left -= left.min(5_000);
        assert_eq!(world.p2ps.counters().watchers, 1 + NAMES_MAX as u64 - left);
        price += 1;
        world.publish(0, |p| {
            p.update(0, &[(22, price)]);
        });
        assert_eq!(world.take(2), [format!("update 5 22={price}")]);
        if left == 0 {
            break;
        }
        assert_eq!((world.p2ps.timeout(), is_behind(&world, 1)), (Some(0), true));
        world.pass(0);
    }
    assert_eq!(price, 14, "turns");
    assert!(!is_behind(&world, 1) && world.p2ps.timeout() != Some(0));
    assert_eq!(world.p2ps.counters().batches_in_turns, 1);
}

#[test]
fn what_a_client_says_behind_its_batch_waits_for_it() {
    let mut world = world(2);
    world.clients([1, 2]);
    say(&mut world, 1, &batch(10, b"ABCDE"));
    assert_eq!((world.take(1), names(&mut world)), (vec!["status 10 CLOSED/OK".to_owned()], "AB".to_owned()));
    let close = encode(|w| CloseMsg::new(PRICE, 14).encode(w));
    let again = encode(|w| item(14, "Z").encode(w));
    assert!(!say(&mut world, 1, &close) && !say(&mut world, 1, &again));
    assert!(say(&mut world, 2, &encode(|w| item(5, "Y").encode(w))), "others are not behind");
    assert_eq!(names(&mut world), "Y");
    world.pass(0);
    assert_eq!((names(&mut world), world.p2ps.taken_up().count()), ("CD".to_owned(), 0));
    world.pass(0);
    assert_eq!(names(&mut world), "E", "and the close");
    assert_eq!(world.p2ps.taken_up().collect::<Vec<_>>(), [(ClientId(1), close.into())]);
    world.pass(0);
    assert_eq!(names(&mut world), "Z");
    assert_eq!(world.p2ps.taken_up().collect::<Vec<_>>(), [(ClientId(1), again.into())]);
    assert!(!is_behind(&world, 1));
    assert_eq!(world.p2ps.counters().messages_behind, 2);
}

#[test]
fn clients_take_turns() {
    let mut world = world(300);
    world.clients([1, 2, 3]);
    for client in 1..=3 {
        say(&mut world, client, &batch(10, &[b'A'; 1_000]));
    }
    assert_eq!(world.p2ps.counters().watchers, 300, "the first had all of the turn");
    world.pass(0);
    let items: Vec<_> = world.p2ps.mounts().map(|mount| mount.items).collect();
    assert_eq!(items, [400, 100, 100]);
    while world.p2ps.timeout() == Some(0) {
        world.pass(0);
    }
    assert_eq!(world.p2ps.counters().watchers, 3_000);
    for client in 1..=3 {
        assert_eq!(world.take(client), ["status 10 CLOSED/OK"]);
    }
    world.asked();
}

#[test]
fn streams_are_paused_and_closed_in_turns() {
    let mut world = world(2);
    world.clients([1, 2]);
    for (stream, name, handle) in [(5, "A", 0), (6, "B", 1), (7, "C", 2), (8, "D", 3), (9, "E", 4)] {
        world.open(1, stream, name, handle);
    }
    let body = streams(&[5, 6, 7, 99, 8]);
    let flags = RequestFlags::STREAMING | RequestFlags::HAS_BATCH | RequestFlags::PAUSE | RequestFlags::NO_REFRESH;
    let reissue = RequestMsg { flags, container: DataType::ELEMENT_LIST, body: &body, ..RequestMsg::new(PRICE, 20) };
    say(&mut world, 1, &encode(|w| reissue.encode(w)));
    assert_eq!((world.take(1), names(&mut world)), (vec!["status 20 CLOSED/OK".to_owned()], "AB".to_owned()));
    world.pass(0);
    assert_eq!(names(&mut world), "C");
    world.pass(0);
    assert_eq!((names(&mut world), is_behind(&world, 1)), ("D".to_owned(), false));

    world.pass(0);
    assert!(!batch_close(&mut world, 1, 5, &[5, 6, 6, 8, 9]), "it is not done");
    assert_eq!((world.asked(), world.take(1)), (vec!["0: close 0".to_owned(), "0: close 1".to_owned()], Vec::new()));
    world.pass(0);
    assert_eq!((world.asked(), world.take(1)), (vec!["0: close 3".to_owned()], Vec::new()));
    world.pass(0);
    assert_eq!(world.asked(), ["0: close 4"]);
    let answer = world.raw(1);
    let text = "Processed 5 total stream ids from Batch Close Request. 4 Ok. 1 not, since they were not open.";
    assert_eq!(
        (crate::world::words(&answer[0]), crate::world::texts(&answer)),
        ("status 5 CLOSED/OK".to_owned(), vec![text.to_owned()])
    );
    assert_eq!(world.p2ps.taken_up().count(), 1, "the close is told of when it is done");
    assert_eq!(world.p2ps.counters().batches_in_turns, 2);
}

/// What is asked for by a request whose payload is gone by then.
#[test]
fn every_part_of_a_batch_asks_for_the_same() {
    let mut world = world(1);
    world.clients([1]);
    let mut payload = vec![0; 1_000];
    let mut w = rwf::wire::Writer::new(&mut payload);
    let mut list = ElementListEncoder::begin(&mut w).unwrap();
    let array = [&[DataType::ASCII_STRING.0, 1, 0, 3][..], b"ABC"].concat();
    list.raw(b":ItemList", DataType::ARRAY, &array).unwrap();
    list.element(b"Other", DataType::UINT, &Primitive::UInt(7)).unwrap();
    list.element(b":ViewType", DataType::UINT, &Primitive::UInt(1)).unwrap();
    list.raw(b":ViewData", DataType::ARRAY, &[DataType::INT.0, 2, 0, 1, 0, 22]).unwrap();
    list.finish().unwrap();
    let request = RequestMsg {
        flags: RequestFlags::STREAMING | RequestFlags::HAS_BATCH | RequestFlags::HAS_VIEW,
        key: MsgKey { service_id: Some(1), identifier: Some(9), ..MsgKey::EMPTY },
        priority: Some(rwf::msg::Priority { class: 3, count: 2 }),
        container: DataType::ELEMENT_LIST,
        body: w.written(),
        ..RequestMsg::new(PRICE, 10)
    };
    world.request(1, &request);
    world.pass(0);
    world.pass(0);
    assert_eq!(world.take(1), ["status 10 CLOSED/OK"]);
    let sent = std::mem::take(&mut world.sent);
    let asked: Vec<_> = sent
        .iter()
        .map(|msg| {
            let Ok(Msg::Request(request)) = Msg::decode(msg) else { panic!("a request") };
            (request.flags, request.priority, request.key.identifier, request.container, request.body)
        })
        .collect();
    assert_eq!(world.asked().len(), 3);
    assert!(asked[0].0.contains(RequestFlags::HAS_VIEW) && asked[0].4.windows(5).any(|bytes| bytes == b"Other"));
    assert!(asked.iter().all(|other| *other == asked[0]), "{asked:?}");
}

#[test]
fn who_goes_or_logs_out_takes_a_batch_along() {
    let mut world = world(2);
    world.clients([1, 2, 3]);
    for client in 1..=3 {
        say(&mut world, client, &batch(10, &[b'A'; 20]));
        world.take(client);
        world.pass(0);
    }
    assert!((1..=3).all(|client| is_behind(&world, client)));
    world.disconnect(1);
    assert!(!is_behind(&world, 1));
    // A logout is said behind the batch, and what is said behind that is answered as ever.
    let login = CloseMsg::new(Domain::LOGIN, 1);
    say(&mut world, 2, &encode(|w| login.encode(w)));
    say(&mut world, 2, &encode(|w| item(50, "Z").encode(w)));
    // Garbage closes its client when it is its turn.
    say(&mut world, 3, b"garbage");
    say(&mut world, 3, &encode(|w| item(50, "Z").encode(w)));
    while world.p2ps.timeout() == Some(0) {
        world.pass(0);
    }
    assert_eq!(world.take(2), ["status 50 CLOSED/SUSPECT/USAGE_ERROR"], "it is not logged in any more");
    let (client, reason) = world.closed.pop().unwrap();
    assert!(client == 3 && matches!(reason, CloseReason::Garbage { .. }), "{reason:?}");
    assert_eq!(world.p2ps.counters().watchers, 0);
    assert!(!names(&mut world).contains('Z'));
    world.disconnect(2);
    world.disconnect(3);
}

#[test]
fn a_batch_ends_with_the_service_for_the_names_that_are_left() {
    let mut world = world(2);
    world.clients([1]);
    say(&mut world, 1, &batch(10, b"ABC"));
    assert_eq!(world.take(1), ["status 10 CLOSED/OK"]);
    world.asked();
    world.publish(0, |p| {
        p.event(hub_stream::Event::ServiceGone { service: 40 });
    });
    world.take(1);
    world.pass(0);
    world.pass(0);
    let told = world.take(1);
    assert!(told.contains(&"status 13 CLOSED/SUSPECT/SOURCE_UNKNOWN".to_owned()), "{told:?}");
    world.asked();
}

#[test]
fn who_says_more_behind_a_batch_than_can_wait_is_closed() {
    let mut world = world(1);
    world.clients([1, 2]);
    world.open(2, 5, "B", 0);
    say(&mut world, 1, &batch(10, b"ABC"));
    world.take(1);
    world.asked();
    let megabyte = vec![0; 1 << 20];
    let mut said = 0;
    while world.closed.is_empty() {
        said += 1;
        assert!(said < 100, "64 MB are enough");
        say(&mut world, 1, &megabyte);
    }
    let (client, reason) = world.closed.pop().unwrap();
    assert!(client == 1 && said == 64, "{said}");
    assert!(matches!(reason, CloseReason::Occupied { waiting } if waiting > 63 << 20), "{reason:?}");
    assert!(!is_behind(&world, 1) && world.p2ps.timeout() != Some(0), "nothing is left of it");
    world.publish(0, |p| {
        p.update(0, &[(22, 3)]);
    });
    assert_eq!(world.take(2), ["update 5 22=3"]);
    world.asked();
    world.disconnect(1);
}

#[test]
fn an_answer_may_come_before_the_rest_of_its_batch() {
    let mut world = world(1);
    world.clients([1]);
    say(&mut world, 1, &batch(10, b"AB"));
    let asked = world.asked();
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 0).image(0, &[(22, 1)]);
    });
    assert_eq!(world.take(1), ["status 10 CLOSED/OK", "refresh 11 solicited complete OPEN/OK group 3 key 1:A 22=1"]);
    world.pass(0);
    assert_eq!(names(&mut world), "B");
}
