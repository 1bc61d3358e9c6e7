//! Items that all P2PSs want to rest are paused at their provider, and go on when one wants their updates.

use crate::world::*;
use hub_stream::{ALL, Kind, Request, flags};
use rwf::msg::{RefreshFlags, RequestFlags, RequestMsg};
use rwf::rdm::login;

const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);

/// P2PSs 1 and 2, and FEED at session 0, whose login supports pausing or does not.
fn with_feed(pauses: bool) -> World {
    let mut world = World::plain();
    world.p2ps_up(2);
    provider_up(&mut world, 0, pauses);
    world
}

fn provider_up(world: &mut World, id: u32, pauses: bool) {
    let features = login::Features { optimized_pause_resume: pauses.then_some(true), ..login::Features::default() };
    world.route_up_with(id, features);
    world.directory(id, vec![service(7, "FEED")]);
    world.events();
    world.sent(id);
}

fn paused() -> RequestMsg<'static> {
    RequestMsg { flags: RequestFlags::STREAMING | RequestFlags::PAUSE, ..request("A") }
}

/// P2PS `id` opens A to rest.
fn open_paused(world: &mut World, id: u16) -> u32 {
    world.open_request(id, 1, flags::STREAMING, &paused());
    world.events().iter().find(|e| e.kind == Kind::ItemOpened).expect("opened").handle
}

/// P2PS `id` wants A to rest from now on, or to go on with an image.
fn reissue(world: &mut World, id: u16, handle: u32, rests: bool) {
    let message = if rests { paused() } else { request("A") };
    let rwf = bytes_of(|w| message.encode(w));
    let serial = (!rests).then_some(9);
    world.request(id, &Request::Reissue { handle, serial, in_stream: false, rwf: &rwf }).unwrap();
}

/// Whether each request that a provider got pauses, and whether it wants an image.
fn asked(world: &mut World, id: u32) -> Vec<(bool, bool)> {
    let requests = world.requests(id);
    let words = |flags: RequestFlags| (flags.contains(RequestFlags::PAUSE), !flags.contains(RequestFlags::NO_REFRESH));
    requests.iter().filter(|(_, name, _)| name == "A").map(|(_, _, flags)| words(*flags)).collect()
}

/// To whom images went.
fn images(world: &mut World) -> Vec<u16> {
    world.events().iter().filter(|e| e.kind == Kind::Image).map(|e| e.target).collect()
}

#[test]
fn an_item_rests_while_every_p2ps_wants_it_to() {
    let mut world = with_feed(true);
    let (handle, stream) = world.open_imaged(1, "A");
    world.open(2, "A");
    assert_eq!(asked(&mut world, 0), [(false, true)]);
    world.refresh(0, stream, &[(22, b"2")], WHOLE);
    world.events();
    reissue(&mut world, 1, handle, true);
    assert_eq!(asked(&mut world, 0), [(false, false)], "P2PS 2 wants its updates");
    world.close(2, handle);
    assert_eq!(asked(&mut world, 0), [(true, false)], "it is gone");
    reissue(&mut world, 1, handle, false);
    assert_eq!(asked(&mut world, 0), [(false, true)]);
    world.refresh(0, stream, &[(22, b"3")], WHOLE);
    assert_eq!(world.kinds(), [Kind::Answered, Kind::Image]);
}

#[test]
fn a_provider_that_cannot_pause_is_not_asked_to() {
    let mut world = with_feed(false);
    let handle = open_paused(&mut world, 1);
    assert_eq!(asked(&mut world, 0), [(false, true)]);
    reissue(&mut world, 1, handle, true);
    assert!(asked(&mut world, 0).iter().all(|(pauses, _)| !pauses));
}

#[test]
fn an_item_that_rests_is_asked_for_again_as_one_that_rests() {
    let mut world = with_feed(true);
    open_paused(&mut world, 1);
    let requests = world.requests(0);
    assert!(requests[0].2.contains(RequestFlags::PAUSE));
    world.refresh(0, requests[0].0, &[(22, b"1")], WHOLE);
    world.down(0);
    provider_up_quietly(&mut world, 1);
    assert_eq!(asked(&mut world, 1), [(true, true)], "an image, and rest behind it");
}

/// Session 1 has FEED; what it gets stays to be read.
fn provider_up_quietly(world: &mut World, id: u32) {
    let features = login::Features { optimized_pause_resume: Some(true), ..login::Features::default() };
    world.route_up_with(id, features);
    world.directory(id, vec![service(7, "FEED")]);
    world.events();
}

#[test]
fn who_opens_an_item_that_rests_gets_no_image_of_before() {
    let mut world = with_feed(true);
    open_paused(&mut world, 1);
    let stream = world.requests(0)[0].0;
    // The image that P2PS 1 waits for may be of before the request by which the item goes on.
    world.open(2, "A");
    assert_eq!(asked(&mut world, 0), [(false, false)], "it goes on; the image is due already");
    world.refresh(0, stream, &[(22, b"1")], WHOLE);
    let first = images(&mut world);
    assert!(first.iter().all(|&target| target == 1), "{first:?}");
    assert_eq!(asked(&mut world, 0), [(false, true)], "another one for P2PS 2");
    world.update(0, stream, &[(22, b"2")]);
    world.refresh(0, stream, &[(22, b"2")], WHOLE);
    let second = images(&mut world);
    assert!(second.iter().any(|&target| target == 2 || target == ALL), "{second:?}");
}

#[test]
fn a_snapshot_is_not_paused() {
    let mut world = with_feed(true);
    world.open_request(1, 1, flags::SNAPSHOT_ONLY, &RequestMsg { flags: RequestFlags::PAUSE, ..request("A") });
    assert_eq!(asked(&mut world, 0), [(false, true)]);
}
