//! P2PSs on the other side of a network: leases, silence, bounds, losses, and images that go to one alone.

use crate::world::*;
use hub_distributor::Config;
use hub_stream::{ALL, Block, Event, HubError, Kind, Request, announcement, flags};
use rwf::msg::RefreshFlags;
use rwf::{DataState, StateCode, StreamState};

const INTERVAL: u64 = SECOND;

fn config() -> Config {
    Config { heartbeat_interval: INTERVAL, p2ps_timeout: 3 * INTERVAL, history_bytes: 1 << 16, ..Config::default() }
}

/// P2PS 1 and 2, and FEED on session 0.
fn world(config: Config) -> World {
    World::with_two_p2pss(config)
}

/// What went to single P2PSs: number and messages.
fn point_to_point(world: &mut World) -> Vec<(u16, Vec<Ev>)> {
    let mut all = Vec::new();
    world.sd.point_to_point_blocks(|id, bytes| {
        let block = Block::parse(bytes).unwrap();
        let events = block.messages().map(|message| {
            let m = message.unwrap();
            Event::decode(&m).unwrap();
            assert_eq!(m.target, id);
            let (kind, flags, position) = (m.kind, m.flags, m.position);
            Ev { kind, flags, target: m.target, handle: m.handle, arg: m.arg, position, body: m.body.to_vec() }
        });
        all.push((id, events.collect()));
    });
    all
}

fn heartbeat(world: &mut World, id: u16, position: u64) -> Result<(), HubError> {
    world.request(id, &Request::Heartbeat { position })
}

#[test]
fn what_a_p2ps_had_open_stays_open_for_its_lease() {
    let mut world = world(Config { lease: 5 * SECOND, ..config() });
    let (handle, stream) = world.open_imaged(1, "A");
    world.p2ps_down(1);
    heartbeat(&mut world, 2, 0).unwrap();
    assert_eq!(world.closes(0), [0; 0], "the provider hears nothing of it");
    // The number is free at once, for the same P2PS or another.
    world.p2ps_up(1);
    assert_eq!(world.open(1, "A"), handle);
    world.refresh(0, stream, &[(22, b"2")], RefreshFlags::SOLICITED | RefreshFlags::REFRESH_COMPLETE);
    for _ in 0..6 {
        world.pass(1);
        heartbeat(&mut world, 1, 0).unwrap();
        heartbeat(&mut world, 2, 0).unwrap();
    }
    assert_eq!(world.sd.counters().expired_leases, 1);
    assert_eq!(world.closes(0), [0; 0], "it is open for its second life");
    world.p2ps_down(1);
    for _ in 0..6 {
        world.pass(1);
        heartbeat(&mut world, 2, 0).unwrap();
    }
    assert_eq!(world.closes(0), [stream], "nobody came back");
}

#[test]
fn an_orderly_end_needs_no_lease() {
    let mut world = world(Config { lease: 5 * SECOND, ..config() });
    let (_, stream) = world.open_imaged(1, "A");
    world.request(1, &Request::Bye).unwrap();
    assert_eq!(world.closes(0), [stream]);
    world.sd.leave("end of day");
    let events = world.events();
    let last = events.last().unwrap();
    assert_eq!((last.kind, last.target, &last.body[..]), (Kind::Leaving, ALL, &b"end of day"[..]));
}

#[test]
fn a_silent_p2ps_is_told_that_it_is_lost() {
    let mut world = world(config());
    let (_, stream) = world.open_imaged(1, "A");
    for _ in 0..4 {
        world.pass(1);
        heartbeat(&mut world, 2, 0).unwrap();
    }
    let told: Vec<_> = world.events().into_iter().filter(|e| e.kind == Kind::Resync).map(|e| e.target).collect();
    assert_eq!(told, [1]);
    assert_eq!(world.sd.closing_p2ps().collect::<Vec<_>>(), [(1, "was silent for too long")]);
    assert_eq!(world.closes(0), [stream]);
}

#[test]
fn a_distributor_that_stood_still_does_not_blame_the_others() {
    let mut world = world(config());
    world.pass(1);
    world.now += 60 * SECOND;
    world.sd.on_timer(world.now, &mut world.sent);
    assert_eq!(world.sd.counters().freezes, 1);
    assert_eq!(world.sd.closing_p2ps().count(), 0, "their heartbeats wait to be read");
    world.pass(4);
    assert_eq!(world.sd.closing_p2ps().count(), 2, "but not for ever");
}

#[test]
fn one_past_a_bound_is_cut_off_and_the_other_is_not() {
    let mut world = world(Config { max_lag: 50, max_requests: 20, ..config() });
    let (handle, _) = world.open_imaged(1, "A");
    for _ in 0..21 {
        world.request(2, &Request::Refresh { handle, in_stream: false }).unwrap();
    }
    assert_eq!(world.sd.closing_p2ps().collect::<Vec<_>>(), [(2, "asks for too much at a time")]);
    assert!(world.events().iter().any(|e| e.kind == Kind::Resync && e.target == 2));
    for n in 0..60 {
        world.update(0, 5, &[(22, format!("{n}").as_bytes())]);
    }
    world.events();
    let seen = world.seen;
    heartbeat(&mut world, 1, seen).unwrap();
    world.pass(1);
    assert_eq!(world.sd.closing_p2ps().count(), 0, "it has read all");
    for n in 0..60 {
        world.update(0, 5, &[(22, format!("{n}").as_bytes())]);
    }
    world.pass(1);
    assert_eq!(world.sd.closing_p2ps().collect::<Vec<_>>(), [(1, "is too far behind")]);
    assert_eq!(world.sd.counters().overrun_p2ps, 2);
    let ahead = heartbeat(&mut world, 1, 1 << 40);
    assert!(matches!(ahead, Err(HubError::Gap { .. } | HubError::Malformed { .. })), "{ahead:?}");
}

#[test]
fn heartbeats_say_who_it_is() {
    let mut world = world(config());
    world.sd.announce(b"feeds@host:1");
    world.pass(1);
    let block = world.sd.block().unwrap();
    assert_eq!(announcement(block), Some((world.sd.incarnation(), &b"feeds@host:1"[..])));
}

#[test]
fn a_request_for_another_life_is_refused_and_an_earlier_connection_of_the_same_p2ps_ended() {
    let mut world = world(config());
    let wrong = world.request(1, &Request::Hello { incarnation: 99, key: 0 });
    assert_eq!(wrong, Err(HubError::Incarnation { known: 99, present: 1 }));
    world.p2ps_up(3);
    world.p2ps_up(4);
    world.request(3, &Request::Hello { incarnation: 1, key: 77 }).unwrap();
    world.request(4, &Request::Hello { incarnation: 1, key: 77 }).unwrap();
    let closing: Vec<_> = world.sd.closing_p2ps().map(|(id, _)| id).collect();
    assert_eq!(closing, [3]);
}

#[test]
fn who_has_not_noticed_that_its_connection_ended_is_told_before_its_handles_are_others() {
    let mut world = world(config());
    world.request(1, &Request::Hello { incarnation: 1, key: 0 }).unwrap();
    let (handle, _) = world.open_imaged(1, "A");
    world.p2ps_down(1);
    let told: Vec<_> = world.events().into_iter().map(|e| (e.kind, e.target)).collect();
    assert_eq!(told, [(Kind::Resync, 1)]);
    assert_eq!(world.sd.closing_p2ps().count(), 0, "its connection has ended already");
    assert_eq!(world.open(2, "B"), handle, "a handle that nobody holds is used again");
    world.p2ps_down(2);
    let events = world.events();
    assert!(events.iter().all(|e| e.kind != Kind::Resync), "one in the same process knows it: {events:?}");
}

#[test]
fn a_gap_is_answered_by_what_it_was_about() {
    let mut world = world(config());
    let (a, a_stream) = world.open_imaged(1, "A");
    let (b, b_stream) = world.open_imaged(2, "B");
    let (c, _) = world.open_imaged(1, "C");
    let (d, d_stream) = world.open_imaged(1, "D");
    let from = world.seen;
    // Lost to P2PS 1: updates of A and B (which is not its own), the opening of E, a refusal, and a service.
    world.update(0, a_stream, &[(22, b"2")]);
    world.update(0, b_stream, &[(22, b"2")]);
    let e = world.open(1, "E");
    let refused = world.open_request(1, 9, flags::STREAMING, &request("X"));
    world.directory_update(0, vec![state_update(7, true, false)]);
    world.events();
    let to = world.seen;
    world.update(0, d_stream, &[(22, b"2")]);
    world.events();
    world.request(1, &Request::Gap { from, to }).unwrap();
    assert_eq!(world.events().len(), 0, "the others hear nothing of it");
    let answers = point_to_point(&mut world);
    let [(1, answer)] = &answers[..] else { panic!("{answers:?}") };
    let kinds: Vec<_> = answer.iter().map(|event| (event.kind, event.handle as i32)).collect();
    let nothing = -1;
    assert_eq!(kinds[0], (Kind::Service, nothing), "as it is now");
    assert!(kinds.contains(&(Kind::ItemOpened, e as i32)));
    assert!(answer.iter().any(|event| event.kind == Kind::Refused && event.arg == refused));
    let mut missed: Vec<_> =
        kinds.iter().filter(|(kind, _)| *kind == Kind::Missed).map(|(_, handle)| *handle).collect();
    missed.sort_unstable();
    assert_eq!(missed, [a as i32, e as i32], "neither {b} nor {c} nor {d}");
    let last = answer.last().unwrap();
    assert_eq!((last.kind, &last.body[..]), (Kind::CaughtUp, &to.to_le_bytes()[..]));
    let again = world.request(1, &Request::Gap { from, to });
    assert!(matches!(again, Err(HubError::Malformed { kind: Kind::Gap, .. })), "told once: {again:?}");
}

#[test]
fn a_gap_that_is_too_old_means_to_join_again() {
    let mut world = world(Config { history_bytes: 300, lease: SECOND, ..config() });
    let (_, stream) = world.open_imaged(1, "A");
    let from = world.seen;
    for _ in 0..20 {
        world.update(0, stream, &[(22, b"2")]);
        world.events();
    }
    world.request(1, &Request::Gap { from, to: from + 1 }).unwrap();
    assert!(world.events().iter().any(|event| event.kind == Kind::Resync && event.target == 1));
    assert_eq!(world.sd.closing_p2ps().collect::<Vec<_>>(), [(1, "has lost more than is kept")]);
    assert_eq!(world.sd.counters().gaps_too_old, 1);
    let nonsense = world.request(2, &Request::Gap { from: 5, to: 4 });
    assert!(matches!(nonsense, Err(HubError::Malformed { kind: Kind::Gap, .. })), "{nonsense:?}");
}

#[test]
fn who_has_missed_the_end_of_an_item_hears_it_again() {
    let mut world = world(config());
    let (handle, stream) = world.open_imaged(1, "A");
    world.status(0, stream, state(StreamState::CLOSED, DataState::SUSPECT, StateCode::NONE));
    world.events();
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    let events = world.events();
    assert_eq!((events[0].kind, events[0].target, events[0].flags), (Kind::ItemStatus, 1, flags::CLOSED));
    assert_eq!(events[0].state().stream, StreamState::CLOSED_RECOVER);
}

#[test]
fn an_image_goes_to_the_one_p2ps_that_waits_for_it() {
    let mut world = world(Config { point_to_point: true, ..config() });
    let handle = world.open(1, "A");
    let stream = world.requests(0)[0].0;
    let solicited = RefreshFlags::SOLICITED | RefreshFlags::REFRESH_COMPLETE;
    world.refresh(0, stream, &[(22, b"1")], solicited);
    world.update(0, stream, &[(22, b"2")]);
    let at = world.seen;
    assert_eq!(world.kinds(), [Kind::Update]);
    let answers = point_to_point(&mut world);
    let [(1, images)] = &answers[..] else { panic!("{answers:?}") };
    let [image] = &images[..] else { panic!("{images:?}") };
    assert_eq!((image.kind, image.handle, &image.body[..8]), (Kind::Image, handle, &at.to_le_bytes()[..]));
    // The other one asks for it in the stream, for a watcher that has it open.
    world.open(2, "A");
    world.refresh(0, stream, &[(22, b"2")], solicited);
    assert_eq!(world.events().len(), 0);
    assert_eq!(point_to_point(&mut world)[0].0, 2);
    world.request(2, &Request::Refresh { handle, in_stream: true }).unwrap();
    world.refresh(0, stream, &[(22, b"2")], solicited);
    let events = world.events();
    assert_eq!((events[0].kind, events[0].target, events.len()), (Kind::Image, 2, 1));
    assert_eq!(point_to_point(&mut world).len(), 0);
    // Images that the provider sends unasked are everyone's.
    world.refresh(0, stream, &[(22, b"3")], RefreshFlags::REFRESH_COMPLETE);
    assert_eq!(world.events()[0].target, ALL);
}

#[test]
fn providers_wait_for_a_p2ps_that_has_too_much_to_read() {
    let mut world = world(Config { window: 1 << 20, ..config() });
    let (_, stream) = world.open_imaged(1, "A");
    assert!(!world.sd.must_wait(world.now));
    let mut updates = 0_u64;
    while !world.sd.must_wait(world.now) {
        world.update(0, stream, &[(22, &[b'x'; 50])]);
        world.events();
        updates += 1;
        assert!(updates < 20_000, "a window is full by now");
    }
    assert!(world.sd.timeout().is_some_and(|at| at <= world.now + SECOND), "it asks to be called in time");
    let position = world.sd.next_position();
    heartbeat(&mut world, 1, position).unwrap();
    assert!(world.sd.must_wait(world.now), "for the other one");
    let behind: Vec<_> = world.sd.p2pss().collect();
    assert!(behind[0] == (1, 0, false) && behind[1].1 > 1 << 20, "{behind:?}");
    heartbeat(&mut world, 2, position).unwrap();
    assert!(!world.sd.must_wait(world.now));
    assert_eq!(world.sd.counters().waits, 1);
}
