//! P2PSs that want more of an item than the images under way hold.

use crate::world::*;
use hub_stream::{ALL, Kind, Request, flags};
use rwf::msg::{RefreshFlags, RequestFlags, RequestMsg};
use rwf::{DataType, State, StreamState};

const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);
const SET: u8 = flags::FIRST | flags::COMPLETE;
/// No image has this.
const ANSWERED: u8 = 0xFF;

fn view_of(fids: Vec<i16>) -> Vec<u8> {
    let view = rwf::rdm::request::View::Fields(fids);
    let payload = rwf::rdm::request::Payload { view: Some(view), ..Default::default() };
    bytes_of(|w| payload.encode(w))
}

/// P2PSs 1, 2 and 3, and FEED from a provider that supports views.
fn with_views() -> World {
    let mut world = World::plain();
    world.p2ps_up(2);
    world.p2ps_up(3);
    provider_up(&mut world);
    world
}

fn provider_up(world: &mut World) {
    world.route_up_with(0, rwf::rdm::login::Features { view: Some(true), ..Default::default() });
    world.directory(0, vec![service(7, "FEED")]);
}

/// P2PS `id` opens "A" with a view.
fn open_view(world: &mut World, id: u16, fids: Vec<i16>) -> u32 {
    let view = view_of(fids);
    let flags_of = RequestFlags::STREAMING | RequestFlags::HAS_VIEW;
    let narrow = RequestMsg { flags: flags_of, container: DataType::ELEMENT_LIST, body: &view, ..request("A") };
    world.open_request(id, 1, flags::STREAMING, &narrow);
    world.events().iter().find(|e| e.kind == Kind::ItemOpened).expect("opened").handle
}

/// P2PS `id` wants the whole item from now on.
fn widen(world: &mut World, id: u16, handle: u32) {
    let rwf = bytes_of(|w| request("A").encode(w));
    world.request(id, &Request::Reissue { handle, serial: Some(9), in_stream: false, rwf: &rwf }).unwrap();
}

/// Target and flags of each image that was published; `ANSWERED` in front of one that holds what was reissued for.
fn images(world: &mut World) -> Vec<(u16, u8)> {
    let events = world.events();
    let flags = |e: &Ev| if e.kind == Kind::Answered { ANSWERED } else { e.flags };
    events.iter().filter(|e| matches!(e.kind, Kind::Image | Kind::Answered)).map(|e| (e.target, flags(e))).collect()
}

/// Stream of the last request for "A".
fn stream(world: &mut World) -> i32 {
    world.requests(0).iter().rev().find(|r| r.1 == "A").expect("a request").0
}

/// Requests for an image.
fn image_requests(world: &mut World) -> usize {
    world.requests(0).iter().filter(|r| !r.2.contains(RequestFlags::NO_REFRESH)).count()
}

#[test]
fn an_open_watcher_misses_no_new_life_while_its_p2ps_wants_more() {
    let mut world = with_views();
    let handle = open_view(&mut world, 1, vec![22]);
    let first = stream(&mut world);
    world.refresh(0, first, &[(22, b"1")], WHOLE);
    world.down(0);
    provider_up(&mut world);
    let asked = stream(&mut world);
    world.events();
    widen(&mut world, 1, handle);
    world.refresh(0, asked, &[(22, b"2")], WHOLE);
    assert_eq!(images(&mut world), [(ALL, SET | flags::RECOVERY | flags::CLEAR_CACHE)]);
    assert_eq!(image_requests(&mut world), 1, "the reissue is answered besides");
    world.refresh(0, asked, &[(22, b"3")], RefreshFlags::REFRESH_COMPLETE);
    assert_eq!(images(&mut world), [(ALL, SET | flags::UNSOLICITED)]);
    world.refresh(0, asked, &[(22, b"4"), (25, b"4")], WHOLE);
    assert_eq!(images(&mut world), [(1, ANSWERED), (ALL, SET)]);
}

#[test]
fn a_reissue_is_answered_though_an_unsolicited_image_comes_first() {
    let mut world = with_views();
    let handle = open_view(&mut world, 1, vec![22]);
    let stream = stream(&mut world);
    widen(&mut world, 1, handle);
    world.refresh(0, stream, &[(22, b"1")], RefreshFlags::REFRESH_COMPLETE);
    assert_eq!(images(&mut world), [(ALL, SET | flags::UNSOLICITED)]);
    world.requests(0);
    world.refresh(0, stream, &[(22, b"2")], WHOLE);
    assert!(images(&mut world).is_empty(), "it answers the open");
    assert_eq!(image_requests(&mut world), 1);
    world.refresh(0, stream, &[(22, b"2"), (25, b"2")], WHOLE);
    assert_eq!(images(&mut world), [(1, ANSWERED), (ALL, SET)]);
}

#[test]
fn one_that_has_opened_the_whole_item_gets_no_narrow_image_for_its_first() {
    let mut world = with_views();
    open_view(&mut world, 1, vec![22]);
    let stream = stream(&mut world);
    world.refresh(0, stream, &[(22, b"1")], WHOLE);
    world.events();
    world.open(2, "A");
    world.refresh(0, stream, &[(22, b"2")], RefreshFlags::REFRESH_COMPLETE);
    assert_eq!(images(&mut world), [(1, SET | flags::UNSOLICITED)], "the provider has not seen the new request");
    world.refresh(0, stream, &[(22, b"2"), (25, b"2")], WHOLE);
    assert_eq!(images(&mut world), [(2, SET)], "the other has not asked: a reissue of its own may cross this");
    world.refresh(0, stream, &[(22, b"3"), (25, b"3")], RefreshFlags::REFRESH_COMPLETE);
    assert_eq!(images(&mut world), [(ALL, SET | flags::UNSOLICITED)]);
}

#[test]
fn an_item_that_was_open_with_a_view_may_still_send_narrow_images() {
    let mut world = with_views();
    let handle = open_view(&mut world, 1, vec![22]);
    let stream = stream(&mut world);
    world.refresh(0, stream, &[(22, b"1")], WHOLE);
    world.open(2, "A");
    world.close(1, handle);
    world.events();
    world.open(3, "A");
    world.refresh(0, stream, &[(22, b"2")], RefreshFlags::REFRESH_COMPLETE);
    assert!(images(&mut world).is_empty());
}

#[test]
fn an_item_that_ends_with_a_narrow_image_is_opened_anew_by_who_wants_more() {
    let mut world = with_views();
    open_view(&mut world, 1, vec![22]);
    let stream = stream(&mut world);
    world.open(2, "A");
    world.refresh_with(0, &[(22, b"1")], |msg| {
        msg.stream_id = stream;
        msg.state = State { stream: StreamState::NON_STREAMING, ..msg.state };
    });
    let end = flags::SNAPSHOT | flags::COMPLETE;
    assert_eq!(images(&mut world), [(1, flags::FIRST | end), (2, end)], "the other has no part in the set");
    world.requests(0);
    world.open(2, "A");
    assert_eq!(image_requests(&mut world), 1);
}

#[test]
fn the_late_answer_to_an_earlier_request_is_not_the_answer_to_the_next() {
    let mut world = with_views();
    let handle = open_view(&mut world, 1, vec![22]);
    let stream = stream(&mut world);
    world.refresh(0, stream, &[(22, b"1")], WHOLE);
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    world.open(2, "A");
    world.requests(0);
    world.pass(16);
    assert_eq!(image_requests(&mut world), 1, "asked again, for all of it now");
    world.events();
    world.refresh(0, stream, &[(22, b"2")], WHOLE);
    assert_eq!(images(&mut world), [(1, SET)], "the answer to the first request");
    assert_eq!(image_requests(&mut world), 0, "the next is on its way");
    world.refresh(0, stream, &[(22, b"2"), (25, b"2")], WHOLE);
    assert_eq!(images(&mut world), [(2, SET)]);
}

#[test]
fn the_second_answer_to_a_repeated_request_answers_nobody() {
    let mut world = with_views();
    let handle = open_view(&mut world, 1, vec![22]);
    let stream = stream(&mut world);
    world.refresh(0, stream, &[(22, b"1")], WHOLE);
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    world.pass(16);
    world.events();
    world.refresh(0, stream, &[(22, b"2")], WHOLE);
    assert_eq!(images(&mut world), [(ALL, SET)]);
    // A reissue that is on its way now must not take this for its answer.
    world.refresh(0, stream, &[(22, b"3")], WHOLE);
    assert_eq!(images(&mut world), [(ALL, SET | flags::UNSOLICITED)]);
}

#[test]
fn a_reissue_that_a_loss_interrupts_is_answered_with_the_recovery() {
    let mut world = with_views();
    let handle = open_view(&mut world, 1, vec![22]);
    let first = stream(&mut world);
    world.refresh(0, first, &[(22, b"1")], WHOLE);
    widen(&mut world, 1, handle);
    world.down(0);
    provider_up(&mut world);
    let asked = stream(&mut world);
    world.events();
    world.refresh(0, asked, &[(22, b"2"), (25, b"2")], WHOLE);
    assert_eq!(images(&mut world), [(1, ANSWERED), (ALL, SET | flags::RECOVERY | flags::CLEAR_CACHE)]);
}
