//! Snapshots of providers that take no requests for them, or not beyond their limit.

use crate::world::*;
use hub_distributor::Config;
use hub_stream::{Kind, flags};
use rwf::StreamState;
use rwf::msg::{RefreshFlags, RequestFlags};
use rwf::rdm::directory::{Load, Part, Service};

const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);

/// FEED with an `OpenLimit` of one.
fn feed_of_one() -> Service {
    with_load(service(7, "FEED"), Load { open_limit: Some(1), ..Load::default() })
}

fn world_with(config: Config, feed: Service) -> World {
    let mut world = World::new(config);
    world.p2ps_up(1);
    world.route_up(0);
    world.directory(0, vec![feed]);
    world.events();
    world.sent(0);
    world
}

/// What P2PSs are told of snapshots beyond the limit.
fn told(world: &mut World) -> Option<bool> {
    world.p2ps_up(2);
    let body = world.events().into_iter().find(|event| event.kind == Kind::Service).expect("FEED").body;
    let length = usize::from(u16::from_le_bytes([body[0], body[1]]));
    let entry = Service::decode_filters(1, rwf::rdm::directory::Action::Add, &body[2 + length..]).unwrap();
    entry.info.as_ref().and_then(Part::value).expect("an info").supports_out_of_band_snapshots
}

#[test]
fn a_provider_without_snapshots_is_asked_for_a_stream_that_is_closed_behind_its_image() {
    let supports_snapshots = [("FEED".to_owned(), false)].into();
    let mut world = world_with(Config { supports_snapshots, ..Config::default() }, feed_of_one());
    world.open_with(1, "A", flags::SNAPSHOT_ONLY);
    let (stream, _, asked) = world.requests(0)[0].clone();
    assert_eq!(asked, RequestFlags::STREAMING);
    world.open_with(1, "B", flags::SNAPSHOT_ONLY);
    assert!(world.requests(0).is_empty(), "a stream takes a place");
    world.events();
    world.refresh(0, stream, &[(22, b"1")], RefreshFlags::SOLICITED);
    assert!(world.closes(0).is_empty(), "there is more of the image");
    world.refresh(0, stream, &[(22, b"2")], WHOLE);
    let sent = world.sent(0);
    assert_eq!(sent.len(), 2, "its close, and the request for the other");
    assert!(
        matches!(rwf::msg::Msg::decode(&sent[0]).unwrap(), rwf::msg::Msg::Close(close) if close.stream_id == stream)
    );
    let events = world.events();
    assert!(events[1].has(flags::SNAPSHOT | flags::COMPLETE), "{events:?}");
    world.update(0, stream, &[(22, b"3")]);
    assert!(world.events().is_empty());
    // A snapshot that the provider ends by itself needs no close.
    world.refresh_with(0, &[(22, b"2")], |msg| {
        msg.stream_id = stream + 1;
        msg.state.stream = StreamState::NON_STREAMING;
    });
    assert!(world.closes(0).is_empty());
    world.sd.check_invariants();
    assert_eq!(told(&mut world), Some(false));
}

#[test]
fn whether_snapshots_are_beyond_the_limit_is_said_by_service() {
    for (said, asked) in [(None, 2), (Some(true), 2), (Some(false), 1)] {
        let out_of_band_snapshots = said.map(|said| (String::new(), said)).into_iter().collect();
        let mut world = world_with(Config { out_of_band_snapshots, ..Config::default() }, feed_of_one());
        world.open_with(1, "A", flags::STREAMING);
        world.open_with(1, "B", flags::SNAPSHOT_ONLY);
        assert_eq!(world.requests(0).len(), asked, "{said:?}");
        world.events();
        assert_eq!(told(&mut world), Some(said.unwrap_or(true)));
    }
}
