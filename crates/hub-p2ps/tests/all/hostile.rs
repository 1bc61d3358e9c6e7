//! Bytes that make no sense, from clients and from Source Distributors: a reason, never a panic.

use crate::world::{PRICE, World, encode, fields, item, refresh, status, update};
use hub_p2ps::{ClientId, Config, SourceId};
use hub_stream::{ALL, BlockWriter, Event};
use proptest::prelude::*;
use rwf::msg::{CloseMsg, GenericMsg, MsgKey, PostFlags, PostMsg, RequestFlags, RequestMsg};
use rwf::rdm::request::{Payload, View};
use rwf::{DataState, DataType, State, StateCode, StreamState};

/// One of each message that a client sends.
fn client_messages() -> Vec<Vec<u8>> {
    let body = fields(&[(22, 1)]);
    let payload = Payload { items: Some(vec![b"A", b"B"]), view: Some(View::Fields(vec![22])), ..Payload::default() };
    let batch = encode(|w| payload.encode(w));
    let streams = encode(|w| Payload { streams: Some(vec![5, 6]), ..Payload::default() }.encode(w));
    let login = rwf::rdm::login::Request { name: "user1".to_owned(), pause: true, ..Default::default() };
    let directory = rwf::rdm::directory::Request { stream_id: 2, streaming: true, service_id: None, filter: 63 };
    let batch_flags = RequestFlags::STREAMING | RequestFlags::HAS_BATCH | RequestFlags::HAS_VIEW;
    let post = PostMsg {
        flags: PostFlags::ACK,
        post_id: Some(1),
        key: Some(MsgKey::item(1, b"A")),
        body: &body,
        ..PostMsg::new(PRICE, 1)
    };
    vec![
        encode(|w| login.encode(w)),
        encode(|w| directory.encode(w)),
        encode(|w| item(5, "A").encode(w)),
        encode(|w| {
            RequestMsg { flags: batch_flags, container: DataType::ELEMENT_LIST, body: &batch, ..item(20, "") }.encode(w)
        }),
        encode(|w| RequestMsg { domain: rwf::msg::Domain::DICTIONARY, ..item(3, "RWFFld") }.encode(w)),
        encode(|w| {
            let flags = rwf::msg::CloseFlags(4);
            CloseMsg { flags, container: DataType::ELEMENT_LIST, body: &streams, ..CloseMsg::new(PRICE, 5) }.encode(w)
        }),
        encode(|w| CloseMsg::new(PRICE, 5).encode(w)),
        encode(|w| post.encode(w)),
        encode(|w| GenericMsg { key: Some(MsgKey::item(1, b"A")), ..GenericMsg::new(PRICE, 5) }.encode(w)),
    ]
}

/// A block with one of each event.
fn events() -> Vec<u8> {
    let mut writer = BlockWriter::new(101);
    let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "text");
    for event in [
        Event::ServiceStatus { service: 40, state },
        Event::GroupStatus { service: 40, group: 3, state: Some(state), merged_to: Some(9) },
        Event::ItemOpened { target: 7, handle: 1, token: 0 },
        Event::Refused { target: 7, token: 1, state },
        Event::Image { target: ALL, handle: 0, group: 3, flags: 0x1B, position: 0, rwf: &refresh(&[(22, 3)]) },
        Event::Update { handle: 0, has_key: true, rwf: &update(&[(22, 4)]) },
        Event::ItemStatus {
            target: 7,
            handle: 0,
            group: 5,
            flags: 2,
            rwf: &status(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE),
        },
        Event::Ack { target: 7, token: 1 << 20, rwf: &update(&[]) },
        Event::Generic { target: 7, handle: 0, has_key: true, rwf: &update(&[]) },
        Event::Dictionary { target: 7, service: 40, rwf: &refresh(&[]) },
        Event::ServiceGone { service: 40 },
        Event::Heartbeat { announcement: b"" },
    ] {
        writer.event(&event);
    }
    writer.block().unwrap().to_vec()
}

/// A client with an item, a view of it, and something that waits.
fn busy() -> World {
    let mut world = World::with_feed_and(Config { item_limit: 100, ..Config::default() });
    world.clients([1, 2]);
    world.open(1, 5, "A", 0);
    let view = encode(|w| Payload { view: Some(View::Fields(vec![22])), ..Payload::default() }.encode(w));
    let flags = RequestFlags::STREAMING | RequestFlags::HAS_VIEW;
    world.request(2, &RequestMsg { flags, container: DataType::ELEMENT_LIST, body: &view, ..item(5, "A") });
    world.request(2, &item(6, "B"));
    world
}

/// Nothing that is left over counts.
fn discard(world: &mut World) {
    for client in [1, 2] {
        world.raw(client);
    }
    world.asked();
    world.closed.clear();
}

/// Handles are dense: who hands out one that a Source Distributor cannot have would make the table of them as large.
#[test]
fn a_handle_that_nobody_has_is_not_taken() {
    let mut world = World::with_feed_and(Config { max_handles: 1_000, ..Config::default() });
    world.clients([1]);
    world.request(1, &item(5, "A"));
    let mut told = vec!["status 5 OPEN/SUSPECT/NO_RESOURCES".to_owned()];
    for handle in [1 << 27, 1 << 26, 1_000] {
        let token = world.token();
        world.asked();
        world.publish(0, |p| {
            p.opened(token, handle).image(handle, &[(22, 1)]);
        });
        assert_eq!(world.take(1), told);
        assert_eq!(world.asked(), [format!("0: close {handle}")]);
        told = Vec::new();
        world.pass(60 * crate::world::SECOND);
    }
    assert_eq!(world.p2ps.counters().hub_messages_bad, 3);
    let token = world.token();
    world.asked();
    world.publish(0, |p| {
        p.opened(token, 999).image(999, &[(22, 1)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=1"]);
    let limit = Config::default().max_handles;
    assert!(u64::from(limit) * 4 <= 64 << 20, "a table of {limit} handles");
}

#[test]
fn every_truncation_of_a_client_message_is_survived() {
    for message in client_messages() {
        for length in 0..message.len() {
            let mut world = busy();
            world.bytes(1, &message[..length]);
            discard(&mut world);
        }
    }
}

#[test]
fn every_truncation_of_a_block_is_an_error() {
    let block = events();
    for length in 0..block.len() {
        let mut world = busy();
        world.p2ps.hub_block(world.now, SourceId(0), &block[..length]).unwrap_err();
        world.p2ps.flush(&block[..length], |_, _| {});
        discard(&mut world);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn mutated_client_messages_are_survived(
        picks in prop::collection::vec((0_usize..9, prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)), 1..20),
    ) {
        let messages = client_messages();
        let mut world = busy();
        for (which, changes) in picks {
            let mut message = messages[which].clone();
            for (at, byte) in changes {
                let at = at.index(message.len());
                message[at] = byte;
            }
            world.bytes(1, &message);
        }
        world.p2ps.client_down(world.now, ClientId(1));
        world.p2ps.client_down(world.now, ClientId(2));
        world.pass(1);
        discard(&mut world);
        prop_assert_eq!(world.p2ps.counters().watchers, 0);
    }

    #[test]
    fn mutated_blocks_are_survived(
        rounds in prop::collection::vec(prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5), 1..6),
    ) {
        let mut world = busy();
        for changes in rounds {
            let mut block = events();
            // The stream goes on where it is, so that the messages themselves are read.
            let next = world.writer(0).next_position();
            block[4..8].copy_from_slice(&100_u32.to_le_bytes());
            block[8..16].copy_from_slice(&next.to_le_bytes());
            for (at, byte) in changes {
                let at = at.index(block.len());
                block[at] = byte;
            }
            let _ = world.block(0, &block);
            discard(&mut world);
        }
    }
}
