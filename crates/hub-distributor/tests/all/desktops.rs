//! P2PSs that nobody waits for, of which there may be very many: what is for one alone comes to it alone, and their number costs
//! the others nothing.

use crate::world::*;
use hub_distributor::Config;
use hub_stream::{Block, Event, HubError, Kind, Request};
use rwf::msg::RefreshFlags;

const WINDOW: u64 = 1_000_000;
/// The first number of a desktop; P2PS 1 and 2 are paced ones.
const FIRST: u16 = 10;

fn config() -> Config {
    let (heartbeat_interval, p2ps_timeout) = (SECOND, 3 * SECOND);
    let (window, patience) = (WINDOW, SECOND / 2);
    Config { heartbeat_interval, p2ps_timeout, window, patience, history_bytes: 1 << 22, ..Config::default() }
}

/// Two P2PSs, FEED on session 0, and so many desktops.
fn world(desktops: u16) -> World {
    let mut world = World::with_two_p2pss(config());
    for id in FIRST..FIRST + desktops {
        desktop_up(&mut world, id);
    }
    world.events();
    alone(&mut world);
    world
}

fn desktop_up(world: &mut World, id: u16) {
    world.p2ps.insert(id, hub_stream::BlockWriter::new(100 + u32::from(id)));
    world.sd.p2ps_up_unpaced(world.now, id);
    world.request(id, &Request::Hello { incarnation: 1, key: u64::from(id) }).unwrap();
}

/// What went to single P2PSs.
fn alone(world: &mut World) -> Vec<(u16, Vec<Kind>)> {
    let mut all = Vec::new();
    world.sd.point_to_point_blocks(|id, bytes| {
        let kinds = Block::parse(bytes).unwrap().messages().map(|message| {
            let message = message.unwrap();
            Event::decode(&message).unwrap();
            message.kind
        });
        all.push((id, kinds.collect()));
    });
    all
}

#[test]
fn an_image_that_a_desktop_asks_for_goes_to_it_alone() {
    let mut world = world(2);
    let (handle, stream) = world.open_imaged(1, "A");
    assert_eq!(world.open(FIRST, "A"), handle);
    world.refresh(0, stream, &[(22, b"2")], RefreshFlags::SOLICITED | RefreshFlags::REFRESH_COMPLETE);
    assert!(!world.kinds().contains(&Kind::Image), "not by the stream that all read");
    assert_eq!(alone(&mut world), [(FIRST, vec![Kind::Image])]);
    // A P2PS of another kind gets its image as ever.
    world.open(2, "A");
    world.refresh(0, stream, &[(22, b"3")], RefreshFlags::SOLICITED | RefreshFlags::REFRESH_COMPLETE);
    assert!(world.kinds().contains(&Kind::Image));
    assert_eq!(alone(&mut world), []);
}

#[test]
fn an_image_that_all_of_many_wait_for_goes_out_once() {
    let mut world = world(20);
    for id in FIRST..FIRST + 20 {
        world.open(id, "A");
    }
    let requests = world.requests(0);
    assert_eq!(requests.len(), 1, "an item is asked for once: {requests:?}");
    world.refresh(0, requests[0].0, &[(22, b"1")], RefreshFlags::SOLICITED | RefreshFlags::REFRESH_COMPLETE);
    let images: Vec<_> = world.events().into_iter().filter(|e| e.kind == Kind::Image).collect();
    assert_eq!(images.len(), 1, "{images:?}");
    assert_eq!(alone(&mut world), []);
}

#[test]
fn providers_wait_for_others_and_never_for_a_desktop() {
    let mut world = world(3);
    let (_, stream) = world.open_imaged(1, "A");
    world.events();
    for _ in 0..1_500 {
        world.update(0, stream, &[(22, &[b'x'; 1_000])]);
        world.events();
    }
    assert!(world.sd.must_wait(world.now), "the others have read nothing");
    let seen = world.seen;
    for id in [1, 2] {
        world.request(id, &Request::Heartbeat { position: seen }).unwrap();
    }
    assert!(!world.sd.must_wait(world.now), "the desktops have read nothing either, and nobody asks");
    assert_eq!(world.sd.counters().left_behind, 0);
}

#[test]
fn a_desktop_may_be_silent_and_behind_five_times_as_long() {
    let mut world = World::with_two_p2pss(Config { max_lag: 20, ..config() });
    desktop_up(&mut world, FIRST);
    world.open_imaged(1, "A");
    for n in 0..40 {
        world.update(0, 5, &[(22, format!("{n}").as_bytes())]);
    }
    world.events();
    world.pass(1);
    assert_eq!(world.sd.closing_p2ps().map(|(id, _)| id).collect::<Vec<_>>(), [1, 2], "too far behind are the others");
    world.pass(14);
    assert_eq!(world.sd.closing_p2ps().count(), 0);
    world.pass(1);
    assert_eq!(world.sd.closing_p2ps().collect::<Vec<_>>(), [(FIRST, "was silent for too long")]);
}

#[test]
fn a_desktop_that_goes_takes_what_it_had_and_nothing_else() {
    let mut world = world(2);
    let (kept, _) = world.open_imaged(1, "KEPT");
    let mut streams = Vec::new();
    for round in 0..200 {
        let handle = world.open(FIRST, &format!("ITEM{round}"));
        world.turn();
        let stream = world.requests(0)[0].0;
        world.refresh(0, stream, &[(22, b"1")], RefreshFlags::SOLICITED | RefreshFlags::REFRESH_COMPLETE);
        world.events();
        alone(&mut world);
        if round % 3 == 0 {
            world.close(FIRST, handle);
            assert_eq!(world.closes(0), [stream]);
        } else {
            streams.push(stream);
        }
    }
    assert_eq!(world.open(FIRST, "KEPT"), kept);
    world.sent(0);
    world.p2ps_down(FIRST);
    world.events();
    let mut closed = world.closes(0);
    closed.sort_unstable();
    streams.sort_unstable();
    assert_eq!(closed, streams, "each item that it alone had is closed, once");
}

#[test]
fn a_desktop_that_loses_very_much_has_to_join_anew() {
    let mut world = world(1);
    let (_, stream) = world.open_imaged(1, "A");
    world.events();
    let from = world.seen;
    for _ in 0..120_000 {
        world.update(0, stream, &[(22, b"1")]);
    }
    world.events();
    let to = world.seen;
    world.request(FIRST, &Request::Gap { from, to }).unwrap();
    assert_eq!(world.sd.closing_p2ps().collect::<Vec<_>>(), [(FIRST, "has lost more than is kept")]);
    // The same loss of another one, as long as the messages are kept, is told.
    let from = to - 100;
    let told = world.request(2, &Request::Gap { from, to });
    assert!(!matches!(told, Err(HubError::Gap { .. })), "{told:?}");
    assert_eq!(world.sd.closing_p2ps().count(), 0);
}
