//! Providers and P2PSs that send what they should not.

use crate::world::*;
use hub_distributor::{Config, SessionId};
use hub_stream::{BlockWriter, HubError, Kind, Request, flags};
use proptest::prelude::*;
use rwf::msg::{Domain, MsgKey, RefreshFlags, RequestMsg};

#[test]
fn a_provider_that_sends_garbage_is_closed_with_a_reason_and_its_items_go_on_elsewhere() {
    let mut world = World::with_feed();
    world.open_imaged(1, "A");
    world.bytes(0, b"\xFF\xFF\x04");
    assert_eq!(world.sent.closed.len(), 1);
    assert!(world.sent.closed[0].1.contains("malformed"), "{:?}", world.sent.closed);
    assert_eq!(world.kinds(), [Kind::ServiceStatus, Kind::Service]);
    world.down(0);
    assert!(world.events().is_empty(), "the agent's word comes too late");
}

#[test]
fn data_before_the_login_is_refused() {
    let mut world = World::plain();
    let peer = hub_distributor::PeerInfo::default();
    world.sd.session_up(world.now, SessionId(0), hub_distributor::Origin::NonInteractive, peer, &mut world.sent);
    world.directory(0, vec![service(3, "NI_PUB")]);
    assert!(world.sent.closed[0].1.contains("log in"), "{:?}", world.sent.closed);
    assert!(world.events().is_empty());
}

#[test]
fn a_block_that_is_none_or_comes_behind_a_gap_drops_the_p2ps() {
    let mut world = World::with_feed();
    let (_, stream) = world.open_imaged(1, "A");
    let mut writer = BlockWriter::new(101);
    for _ in 0..9 {
        writer.request(&Request::Heartbeat { position: 0 });
    }
    writer.clear();
    writer.request(&Request::Heartbeat { position: 0 });
    let gap = writer.block().unwrap().to_vec();
    let error = world.sd.request_block(world.now, 1, &gap, &mut world.sent);
    assert_eq!(error, Err(HubError::Gap { missing: 8 }));
    assert_eq!(world.closes(0), [stream]);
    let error = world.sd.request_block(world.now, 1, b"nonsense", &mut world.sent);
    assert!(matches!(error, Err(HubError::Truncated { .. })));
}

#[test]
fn a_4097th_p2ps_finds_no_place() {
    let mut world = World::with_feed();
    for id in 2..=4_096 {
        world.p2ps_up(id);
    }
    world.events();
    world.p2ps_up(4_097);
    assert_eq!(world.sd.counters().refused_p2ps, 1);
    assert!(world.request(4_097, &Request::Heartbeat { position: 0 }).is_err());
    world.open(4_096, "A");
    world.p2ps_down(3);
    assert!(
        world.request(4_097, &Request::Heartbeat { position: 0 }).is_err(),
        "its first block is gone: it has to start anew"
    );
    world.p2ps.insert(4_097, BlockWriter::new(9));
    world.request(4_097, &Request::Hello { incarnation: 0, key: 0 }).unwrap();
}

#[test]
fn a_provider_cannot_fill_the_memory_with_stream_ids_or_items() {
    let mut world = World::new(Config { max_items: 10, ..Config::default() });
    world.p2ps_up(1);
    world.nip_up(0);
    world.directory(0, vec![service(3, "NI_PUB")]);
    for n in 0..50u32 {
        world.publish(0, i32::MIN + n as i32 * 1_000_000, 3, &format!("I{n}"), &[(22, b"1")]);
    }
    assert_eq!(world.sd.items(), 10);
    assert_eq!(world.sd.counters().refused_no_resources, 40);
}

/// A world with something of everything going on.
fn busy() -> World {
    let mut world = World::with_feed();
    world.nip_up(1);
    world.directory(1, vec![service(3, "NI_PUB")]);
    world.publish(1, -1, 3, "N", &[(22, b"1")]);
    world.open_imaged(1, "A");
    world.open(1, "B");
    world.open_request(1, 2, flags::STREAMING, &request("N"));
    world.events();
    world
}

/// Messages that a provider may send, to be damaged.
fn messages() -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let body = field_list(&[(22, b"2"), (25, b"3")]);
    let key = Some(MsgKey { name_type: Some(1), ..MsgKey::item(3, b"N") });
    let refresh = rwf::msg::RefreshMsg {
        container: rwf::DataType::FIELD_LIST,
        flags: RefreshFlags::REFRESH_COMPLETE,
        key,
        body: &body,
        ..rwf::msg::RefreshMsg::new(Domain::MARKET_PRICE, 5)
    };
    messages.push(bytes_of(|w| refresh.encode(w)));
    let update = rwf::msg::UpdateMsg {
        container: rwf::DataType::FIELD_LIST,
        key,
        body: &body,
        ..rwf::msg::UpdateMsg::new(Domain::MARKET_PRICE, -1)
    };
    messages.push(bytes_of(|w| update.encode(w)));
    let request = rwf::rdm::directory::Request { stream_id: 2, streaming: true, service_id: None, filter: 63 };
    let directory = rwf::rdm::directory::Refresh::answer(&request, vec![service(3, "NI_PUB"), service(7, "FEED")]);
    messages.push(bytes_of(|w| directory.encode(w)));
    let login = rwf::rdm::login::Refresh::accept(
        &rwf::rdm::login::Request::default(),
        rwf::rdm::login::Features::default(),
        "",
    );
    messages.push(bytes_of(|w| login.encode(w)));
    messages
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn damaged_messages_of_providers_never_panic(
        session in 0u32..2,
        which in 0usize..4,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        stream in -3i32..8,
        cut in any::<prop::sample::Index>(),
        truncate: bool,
    ) {
        let mut world = busy();
        let mut bytes = messages()[which].clone();
        rwf::peek::set_stream_id(&mut bytes, stream);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if truncate {
            bytes.truncate(cut.index(bytes.len()));
        }
        world.bytes(session, &bytes);
        world.events();
        world.pass(1);
        // Whatever it was, the world goes on.
        world.bytes(session, &bytes);
        world.events();
    }

    #[test]
    fn damaged_blocks_of_p2ps_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut world = busy();
        let mut writer = BlockWriter::new(500);
        let rwf = bytes_of(|w| request("A").encode(w));
        let other = bytes_of(|w| RequestMsg::new(Domain::MARKET_BY_PRICE, 0).encode(w));
        writer.request(&Request::Hello { incarnation: 0, key: 0 });
        writer.request(&Request::Open { service: 1, token: 1, flags: flags::STREAMING, rwf: &rwf });
        writer.request(&Request::Open { service: 2, token: 2, flags: flags::PRIVATE, rwf: &other });
        writer.request(&Request::Refresh { handle: 0, in_stream: false });
        writer.request(&Request::Reissue { handle: 1, serial: Some(9), in_stream: false, rwf: &rwf });
        writer.request(&Request::Post { service: 2, handle: None, token: 1, rwf: &rwf });
        writer.request(&Request::Generic { handle: 0, rwf: &rwf });
        writer.request(&Request::Close { handle: 0 });
        let mut bytes = writer.block().unwrap().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = world.sd.request_block(world.now, 1, &bytes, &mut world.sent);
        world.events();
        world.pass(1);
    }
}
