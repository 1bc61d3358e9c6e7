//! Symbol lists with data: items that the server opens for a client because a list names them.

use crate::world::{PRICE, World, encode, info, item, token_of, untokened};
use hub_p2ps::Config;
use hub_stream::flags;
use rwf::container::{FieldListEncoder, MapAction, MapEncoder, MapHead};
use rwf::msg::{Domain, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, StatusMsg, UpdateMsg};
use rwf::rdm::directory::ServiceState;
use rwf::rdm::request::{Payload, data_streams};
use rwf::{DataState, DataType, Primitive, Qos, State, StateCode, StreamState};

/// A world whose service FEED has market price and symbol lists, and clients 1 and 2.
fn world_with(config: Config) -> World {
    let mut world = World::with(config);
    world.source(0);
    world.publish(0, |p| {
        p.service_with(40, info("FEED", &[6, 10], &[Qos::REALTIME_TICK]), ServiceState::new(true));
    });
    world.clients([1, 2]);
    world
}

fn world() -> World {
    world_with(Config::default())
}

/// A client asks for the list NAMES on a stream, with data streams as `bits` says.
fn ask(world: &mut World, client: u32, stream: i32, bits: u64, streaming: bool) {
    let body = encode(|w| Payload { data_streams: Some(bits), ..Payload::default() }.encode(w));
    let flags = if streaming { RequestFlags::STREAMING } else { RequestFlags::default() };
    let key = item(stream, "NAMES").key;
    let msg = RequestMsg {
        flags,
        key,
        container: DataType::ELEMENT_LIST,
        body: &body,
        ..RequestMsg::new(Domain::SYMBOL_LIST, stream)
    };
    world.request(client, &msg);
}

fn names(entries: &[(MapAction, &str)]) -> Vec<u8> {
    encode(|w| {
        let mut map = MapEncoder::begin(w, MapHead::new(DataType::ASCII_STRING, DataType::NO_DATA))?;
        for (action, name) in entries {
            map.entry(*action, &Primitive::Ascii(name.as_bytes()), |_| Ok(()))?;
        }
        map.finish()
    })
}

fn list(entries: &[(MapAction, &str)]) -> Vec<u8> {
    let body = names(entries);
    let msg = RefreshMsg {
        flags: RefreshFlags::REFRESH_COMPLETE | RefreshFlags::SOLICITED,
        state: State::OPEN_OK,
        container: DataType::MAP,
        body: &body,
        ..RefreshMsg::new(Domain::SYMBOL_LIST, 77)
    };
    encode(|w| msg.encode(w))
}

/// The list, handle 0, changes.
fn change(world: &mut World, entries: &[(MapAction, &str)]) {
    let body = names(entries);
    let msg = UpdateMsg { container: DataType::MAP, body: &body, ..UpdateMsg::new(Domain::SYMBOL_LIST, 77) };
    let update = encode(|w| msg.encode(w));
    world.publish(0, |p| {
        p.writer.update(0, false, &update);
    });
}

/// The list is opened with these names, handle 0.
fn opened(world: &mut World, entries: &[(MapAction, &str)]) {
    let token = world.token();
    let asked = ["0: open 40 streaming request 0 [STREAMING] REALTIME/TICK_BY_TICK key NAMES"];
    assert_eq!(untokened(&world.asked()), asked, "the provider hears nothing of the behaviours");
    assert!(!world.sent.iter().any(|msg| msg.windows(7).any(|part| part == b"Behavio")));
    let image = list(entries);
    world.publish(0, |p| {
        p.opened(token, 0).image_with(0, 0, &image);
    });
}

const ADD: MapAction = MapAction::ADD;
const ANSWER: &str = "refresh 5 solicited complete OPEN/OK group 3 key 1:NAMES";

#[test]
fn what_a_list_names_is_opened_below_zero() {
    let mut world = world();
    ask(&mut world, 1, 5, data_streams::STREAMS, true);
    opened(&mut world, &[(ADD, "A"), (ADD, "B")]);
    assert_eq!(world.take(1), [ANSWER], "the list comes first");
    world.pass(0);
    let asked = world.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 1).image(1, &[(22, 1)]).opened(token_of(&asked[1]), 2).image(2, &[(22, 2)]);
    });
    world.publish(0, |p| {
        p.update(1, &[(22, 3)]);
    });
    assert_eq!(
        world.take(1),
        [
            "refresh -1 solicited complete OPEN/OK group 3 key 1:A 22=1",
            "refresh -2 solicited complete OPEN/OK group 3 key 1:B 22=2",
            "update -1 22=3"
        ]
    );
    // Streams that are there already are not opened again, and what the list drops stays.
    change(&mut world, &[(MapAction::UPDATE, "A"), (MapAction::DELETE, "B"), (ADD, "C")]);
    assert_eq!(world.take(1), ["update 5"]);
    world.pass(0);
    let asked = world.asked();
    assert_eq!(untokened(&asked).len(), 1, "{asked:?}");
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 3).image(3, &[(22, 4)]).update(2, &[(22, 5)]);
    });
    assert_eq!(world.take(1), ["refresh -3 solicited complete OPEN/OK group 3 key 1:C 22=4", "update -2 22=5"]);
    // The client closes one; the list may name it again.
    world.close(1, -2);
    assert_eq!(world.asked(), ["0: close 2"]);
    change(&mut world, &[(ADD, "B")]);
    world.pass(0);
    let asked = world.asked();
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 4).image(4, &[(22, 6)]);
    });
    assert_eq!(world.take(1), ["update 5", "refresh -4 solicited complete OPEN/OK group 3 key 1:B 22=6"]);
    // The items outlive their list, and go with the client.
    world.close(1, 5);
    assert_eq!(world.asked(), ["0: close 0"]);
    world.publish(0, |p| {
        p.update(4, &[(22, 7)]);
    });
    assert_eq!(world.take(1), ["update -4 22=7"]);
    world.disconnect(1);
    let mut closed = world.asked();
    closed.sort();
    assert_eq!(closed, ["0: close 1", "0: close 3", "0: close 4"]);
}

#[test]
fn snapshots_of_what_a_list_names_end_with_their_images() {
    let mut world = world();
    ask(&mut world, 1, 5, data_streams::SNAPSHOTS, true);
    opened(&mut world, &[(ADD, "A")]);
    assert_eq!(world.take(1), [ANSWER]);
    world.pass(0);
    let asked = world.asked();
    assert_eq!(untokened(&asked), ["0: open 40 snapshot request 0 [0] REALTIME/TICK_BY_TICK key A"]);
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 1).image_with(1, flags::SNAPSHOT, &image_of_a());
    });
    assert_eq!(world.take(1), ["refresh -1 solicited complete NON_STREAMING/OK group 3 key 1:A 22=1"]);
    // The stream is over, so the list may ask for another.
    change(&mut world, &[(MapAction::UPDATE, "A")]);
    world.pass(0);
    assert_eq!(world.take(1), ["update 5"]);
    let asked = world.asked();
    assert_eq!(untokened(&asked)[0], "0: close 1");
    assert_eq!(untokened(&asked)[1..], ["0: open 40 snapshot request 0 [0] REALTIME/TICK_BY_TICK key A"]);
}

fn image_of_a() -> Vec<u8> {
    crate::world::refresh(&[(22, 1)])
}

#[test]
fn names_alone_are_given_to_those_who_ask_for_no_more() {
    let mut world = world();
    ask(&mut world, 1, 5, 0, true);
    opened(&mut world, &[(ADD, "A")]);
    // Another watcher of the same list wants its items.
    ask(&mut world, 2, 6, data_streams::STREAMS, true);
    world.asked();
    let image = list(&[(ADD, "A")]);
    world.publish(0, |p| {
        p.image_with(0, 0, &image);
    });
    world.pass(0);
    let asked = world.asked();
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 1).image(1, &[(22, 1)]);
    });
    change(&mut world, &[(ADD, "A")]);
    world.pass(0);
    assert_eq!(world.take(1), [ANSWER, "update 5"]);
    assert_eq!(
        world.take(2),
        [
            "refresh 6 solicited complete OPEN/OK group 3 key 1:NAMES",
            "refresh -1 solicited complete OPEN/OK group 3 key 1:A 22=1",
            "update 6"
        ]
    );
}

#[test]
fn whoever_is_refused_an_item_of_a_list_is_told_which() {
    let mut world = world_with(Config { item_limit: 2, ..Config::default() });
    ask(&mut world, 1, 5, data_streams::STREAMS, true);
    opened(&mut world, &[(ADD, "A"), (ADD, "B")]);
    world.pass(0);
    assert_eq!(world.take(1), [ANSWER, "status -2 CLOSED/SUSPECT/TOO_MANY_ITEMS key 1:B"]);
    let asked = world.asked();
    let [only] = &asked[..] else { panic!("{asked:?}") };
    // A status of its provider names it as well, though it is sent to others without a key.
    let closed = StatusMsg {
        state: Some(State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND, "")),
        ..StatusMsg::new(PRICE, 77)
    };
    let closed = encode(|w| closed.encode(w));
    let token = token_of(only);
    world.publish(0, |p| {
        p.opened(token, 1).status(1, flags::CLOSED, &closed);
    });
    assert_eq!(world.take(1), ["status -1 CLOSED/SUSPECT/NOT_FOUND key 1:A"]);
    // A client opens no stream below zero by itself.
    world.request(1, &item(-7, "C"));
    assert_eq!(world.take(1), ["status -7 CLOSED/SUSPECT/USAGE_ERROR"]);
    world.asked();
}

#[test]
fn who_watches_a_list_more_than_once_has_its_names_opened_once() {
    let mut world = world_with(Config { work_per_turn: 3, ..Config::default() });
    ask(&mut world, 1, 5, data_streams::STREAMS, true);
    ask(&mut world, 1, 6, data_streams::STREAMS, true);
    let all: Vec<String> = (0..10).map(|at| format!("N{at}")).collect();
    let entries: Vec<_> = all.iter().map(|name| (ADD, name.as_str())).collect();
    opened(&mut world, &entries);
    assert_eq!(world.take(1).len(), 2);
    for left in [3, 3] {
        world.pass(0);
        assert_eq!(world.asked().len(), left);
    }
    // The other one is still there.
    world.close(1, 5);
    world.pass(0);
    assert_eq!(world.asked().len(), 3);
    world.close(1, 6);
    world.pass(0);
    assert_eq!(world.asked(), ["0: close 0"]);
    assert!(world.p2ps.timeout() != Some(0));
}

#[test]
fn a_long_list_is_opened_in_turns_and_forgotten_with_its_stream() {
    let mut world = world_with(Config { work_per_turn: 3, ..Config::default() });
    let all: Vec<String> = (0..10).map(|at| format!("N{at}")).collect();
    let entries: Vec<_> = all.iter().map(|name| (ADD, name.as_str())).collect();
    ask(&mut world, 1, 5, data_streams::STREAMS, true);
    opened(&mut world, &entries);
    world.take(1);
    world.pass(0);
    assert_eq!(world.asked().len(), 3);
    assert_eq!(world.p2ps.timeout(), Some(0), "there is more to do");
    world.pass(0);
    assert_eq!(world.asked().len(), 3);
    world.close(1, 5);
    world.pass(0);
    assert_eq!(world.asked(), ["0: close 0"]);
    ask(&mut world, 2, 5, data_streams::STREAMS, true);
    opened(&mut world, &entries);
    world.take(2);
    world.disconnect(2);
    // Another client under the same number has nothing to do with that list.
    world.clients([2]);
    world.pass(0);
    world.asked();
    assert_eq!(world.take(2), [""; 0]);
    world.disconnect(1);
    world.asked();
}

/// An image of a record of a chain: fields and what they name.
fn record(links: &[(i16, &str)]) -> Vec<u8> {
    let body = encode(|w| {
        let mut list = FieldListEncoder::begin(w)?;
        links.iter().try_for_each(|(fid, name)| list.raw(*fid, name.as_bytes()))?;
        list.finish()
    });
    let msg = RefreshMsg {
        flags: RefreshFlags::REFRESH_COMPLETE | RefreshFlags::SOLICITED,
        state: State::OPEN_OK,
        container: DataType::FIELD_LIST,
        body: &body,
        ..RefreshMsg::new(PRICE, 77)
    };
    encode(|w| msg.encode(w))
}

/// A chain without an end costs its client a bounded number of streams, and who looks at it too.
#[test]
fn a_chain_without_an_end_is_followed_for_so_many_records() {
    const RECORDS_MAX: u32 = 8;
    let mut world = world_with(Config { chain_records: RECORDS_MAX as usize, ..Config::default() });
    let body = encode(|w| Payload { data_streams: Some(data_streams::STREAMS), ..Payload::default() }.encode(w));
    let first = item(5, "R0");
    world.request(1, &RequestMsg { container: DataType::ELEMENT_LIST, body: &body, ..first });
    for at in 0..=RECORDS_MAX {
        let asked = world.asked();
        let [asked] = &asked[..] else { panic!("{asked:?}") };
        assert!(asked.ends_with(&format!("key R{at}")), "{asked}");
        let (token, image) = (token_of(asked), record(&[(238, &format!("R{}", at + 1))]));
        world.publish(0, |p| {
            p.opened(token, at).image_with(at, 0, &image);
        });
        world.pass(0);
        world.take(1);
    }
    assert_eq!(world.asked(), [""; 0]);
    assert_eq!(world.p2ps.counters().symbol_lists_over, 1);
    // A stream that is closed makes room for another.
    world.close(1, -7);
    world.asked();
    let image = record(&[(238, &format!("R{}", RECORDS_MAX + 1))]);
    world.publish(0, |p| {
        p.image_with(RECORDS_MAX, 0, &image);
    });
    world.pass(0);
    assert_eq!(world.asked().len(), 0, "an image that nobody waits for reaches nobody");
    let update = encode(|w| {
        let body = encode(|w| {
            let mut list = FieldListEncoder::begin(w)?;
            list.raw(238, b"MORE")?;
            list.finish()
        });
        UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(PRICE, 77) }.encode(w)
    });
    world.publish(0, |p| {
        p.writer.update(RECORDS_MAX, false, &update);
    });
    world.pass(0);
    assert_eq!(world.asked().len(), 1);
    world.take(1);
}

#[test]
fn a_record_that_cannot_be_read_names_nothing_and_is_counted() {
    let mut world = world();
    let body = encode(|w| Payload { data_streams: Some(data_streams::STREAMS), ..Payload::default() }.encode(w));
    world.request(1, &RequestMsg { container: DataType::ELEMENT_LIST, body: &body, ..item(5, "R0") });
    let token = world.token();
    world.publish(0, |p| {
        p.opened(token, 0).image(0, &[(22, 1)]);
    });
    assert_eq!(world.p2ps.counters().symbol_lists_bad, 0, "a record without links is none");
    let broken =
        UpdateMsg { container: DataType::FIELD_LIST, body: b"\x08\x00\x02\x00\xf0\x01A", ..UpdateMsg::new(PRICE, 77) };
    let update = encode(|w| broken.encode(w));
    world.publish(0, |p| {
        p.writer.update(0, false, &update);
    });
    world.pass(0);
    assert_eq!((world.raw(1).len(), world.p2ps.counters().symbol_lists_bad), (2, 1), "the client has it as it came");
    // A request for no streams is not followed.
    world.request(2, &item(6, "R0"));
    world.asked();
    let image = record(&[(240, "A")]);
    world.publish(0, |p| {
        p.image_with(0, 0, &image);
    });
    world.pass(0);
    world.take(2);
    assert_eq!(world.asked(), [""; 0]);
}
