//! Items that a server opens by itself, for what a symbol list names.

use crate::opened::{self, encoded};
use crate::world::{SECOND, SERVICE, World, payload};
use client::images::Condition;
use client::queue::{Overflow, QueueConfig};
use omm::consumer::ItemRequest;
use rwf::msg::{Domain, StatusMsg};
use rwf::{DataState, State, StateCode, StreamState};
use std::sync::Arc;

const QUEUE: QueueConfig = QueueConfig { limit_bytes: 1 << 20, overflow: Overflow::Wait };

/// The server opens an item on a stream of its own.
fn provide(world: &mut World, stream_id: i32, name: &str, value: u64) {
    world.say(&opened::image(stream_id, name, &payload(&[(1, value), (2, 7)])));
}

fn update(world: &mut World, stream_id: i32, value: u64) {
    world.say(&opened::update(stream_id, &payload(&[(1, value)])));
}

/// A client with the list LIST open at a server that opens what it names, or does not.
fn world(lists_data: bool) -> (World, usize) {
    let mut world = World::new();
    if !lists_data {
        Arc::get_mut(&mut world.config).expect("nobody has it yet").features.enhanced_symbol_list = None;
    }
    for name in ["LIST", "A", "B", "C"] {
        world.values.insert(name.to_owned(), (0, 7));
    }
    let request = ItemRequest { domain: Domain::SYMBOL_LIST, data_streams: true, ..ItemRequest::new(SERVICE, "") };
    let app = world.subscribe_to(&["LIST"], QUEUE, request);
    world.connect();
    world.talk(usize::MAX);
    (world, app)
}

#[test]
fn what_the_server_opens_is_not_asked_for() {
    let (mut world, app) = world(true);
    // Before the application has seen the list, and behind that.
    provide(&mut world, -1, "A", 1);
    update(&mut world, -1, 2);
    world.extend_listed(app, &["A", "B"]);
    provide(&mut world, -2, "B", 3);
    update(&mut world, -2, 4);
    world.take(app);
    assert_eq!((world.value(app, 1), world.value(app, 2)), (Some((2, 7)), Some((4, 7))));
    world.pass(6 * SECOND);
    world.talk(usize::MAX);
    assert_eq!(world.opened, ["LIST"]);
    // Another one joins, and the first leaves with the list.
    let other = world.subscribe(&["A"], QUEUE, true);
    world.take(other);
    assert_eq!(world.value(other, 0), Some((2, 7)));
    world.unsubscribe(app);
    world.client.check_invariants();
    assert_eq!((world.client.streams(), world.opened.len()), (1, 1));
    world.change("A", true, 9);
    update(&mut world, -1, 5);
    world.take(0);
    assert_eq!(world.value(0, 0), Some((5, 7)));
}

#[test]
fn what_the_server_does_not_open_is_asked_for_in_time() {
    let (mut world, app) = world(true);
    world.extend_listed(app, &["A", "B"]);
    provide(&mut world, -1, "A", 1);
    world.pass(4 * SECOND);
    world.talk(usize::MAX);
    assert_eq!(world.opened, ["LIST"]);
    world.pass(2 * SECOND);
    world.talk(usize::MAX);
    world.take(app);
    assert_eq!(
        (world.opened.as_slice(), world.value(app, 2)),
        (["LIST".to_owned(), "B".to_owned()].as_slice(), Some((0, 7)))
    );
    // The server opens it after all: the stream that there is stays, and the other is closed.
    provide(&mut world, -2, "B", 8);
    assert_eq!((world.client.streams(), world.value(app, 2)), (3, Some((0, 7))));
}

#[test]
fn a_server_that_cannot_is_asked() {
    let (mut world, app) = world(false);
    world.extend_listed(app, &["A"]);
    world.settle();
    assert_eq!(
        (world.opened.as_slice(), world.condition(app, 1)),
        (["LIST".to_owned(), "A".to_owned()].as_slice(), Condition::Ok)
    );
}

#[test]
fn what_is_lost_comes_with_the_list_again() {
    let (mut world, app) = world(true);
    provide(&mut world, -1, "A", 1);
    provide(&mut world, -2, "B", 1);
    world.extend_listed(app, &["A"]);
    world.take(app);
    world.kill();
    world.take(app);
    assert_eq!((world.condition(app, 1), world.client.streams()), (Condition::Suspect, 2), "nobody watches B");
    // The server is away for long; the item is not asked for before the list is.
    world.pass(20 * SECOND);
    world.connect();
    world.talk(usize::MAX);
    provide(&mut world, -1, "B", 5);
    provide(&mut world, -2, "A", 6);
    world.take(app);
    assert_eq!((world.condition(app, 1), world.value(app, 1)), (Condition::Ok, Some((6, 7))));
    assert_eq!(world.opened, ["LIST", "LIST"]);
    // Closed for now: the server is asked. Closed for good: told.
    let status = |stream, data| {
        let state = State::new(stream, data, StateCode::NONE, "gone");
        encoded(|w| StatusMsg { state: Some(state), ..StatusMsg::new(Domain::MARKET_PRICE, -2) }.encode(w))
    };
    world.say(&status(StreamState::CLOSED_RECOVER, DataState::SUSPECT));
    world.take(app);
    assert_eq!(world.condition(app, 1), Condition::Suspect);
    world.pass(6 * SECOND);
    world.talk(usize::MAX);
    world.take(app);
    assert_eq!((world.condition(app, 1), world.opened.last().map(String::as_str)), (Condition::Ok, Some("A")));
    world.unsubscribe(app);
    assert_eq!(world.client.streams(), 0);
    // A stream that crosses with the close of the list is closed, and nobody's.
    provide(&mut world, -3, "C", 1);
    assert_eq!(world.client.streams(), 0);
    assert!(world.client.poll_transmit(client::LinkId::FIRST).is_some());
}
