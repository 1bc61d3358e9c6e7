//! Requests at which a provider goes: asked last and singly, and given up in the end; the others are served.

use crate::world::*;
use hub_distributor::Config;
use hub_stream::{Kind, flags};
use rwf::msg::{Domain, RefreshFlags, RequestMsg};
use rwf::{DataState, StreamState};

const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);

fn world(config: Config) -> World {
    let mut world = World::new(Config { age_unwatched: 0, ..config });
    world.p2ps_up(1);
    comes(&mut world);
    world.events();
    world
}

/// The provider connects, with FEED and OTHER.
fn comes(world: &mut World) {
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED"), service(8, "OTHER")]);
}

/// What the provider is asked for: login and directory are no items.
fn asked(world: &mut World) -> Vec<(i32, String, rwf::msg::RequestFlags)> {
    world.requests(0).into_iter().filter(|(_, name, _)| !name.is_empty()).collect()
}

/// The provider answers what it is asked for until it is asked for one of these: then it goes. Those that it was asked for then, beside
/// what it has answered.
fn answers_until(world: &mut World, bad: &[&str]) -> Option<Vec<String>> {
    loop {
        let asked = asked(world);
        if asked.is_empty() && world.sd.timeout() != Some(0) {
            return None;
        }
        if asked.iter().any(|(_, name, _)| bad.contains(&name.as_str())) {
            world.down(0);
            return Some(asked.into_iter().map(|(_, name, _)| name).collect());
        }
        for (stream, ..) in asked {
            world.refresh(0, stream, &[(22, b"1")], WHOLE);
        }
        world.turn();
        world.sd.check_invariants();
    }
}

#[test]
fn what_a_provider_goes_at_is_asked_last_and_singly_and_given_up() {
    let mut world = world(Config::default());
    let good: Vec<u32> = (0..20).map(|n| world.open(1, &format!("G{n}"))).collect();
    assert_eq!(answers_until(&mut world, &["BAD"]), None);
    let bad = world.open(1, "BAD");
    let beside: Vec<u32> = (0..5).map(|n| world.open(1, &format!("B{n}"))).collect();
    let mut losses = 0;
    let mut told = Vec::new();
    while losses < 10 {
        let Some(asked) = answers_until(&mut world, &["BAD"]) else { break };
        losses += 1;
        assert_eq!(asked.len(), if losses == 1 { 6 } else { 1 }, "singly: {asked:?}");
        told.extend(world.events());
        comes(&mut world);
    }
    assert_eq!(losses, 3, "then it is given up");
    let of_bad: Vec<_> = told.iter().filter(|event| event.handle == bad && event.kind == Kind::ItemStatus).collect();
    let last = of_bad.last().expect("it is told").state();
    assert_eq!((last.stream, last.data), (StreamState::CLOSED, DataState::SUSPECT));
    assert!(last.text_lossy().contains("closed its connection"), "{last:?}");
    assert_eq!(of_bad.iter().filter(|event| event.has(flags::CLOSED)).count(), 1);
    // All others are back.
    told.extend(world.events());
    for handle in good.iter().chain(&beside) {
        let images = told.iter().filter(|event| event.handle == *handle && event.kind == Kind::Image);
        assert!(images.count() > 0, "{handle}");
        let ends = told.iter().filter(|event| event.handle == *handle && event.has(flags::CLOSED));
        assert_eq!(ends.filter(|event| event.kind == Kind::ItemStatus).count(), 0, "{handle}");
    }
    let notices: Vec<String> = world.sd.notices().map(|notice| notice.to_string()).collect();
    assert_eq!(notices.iter().filter(|line| line.contains("item \"BAD\" of service FEED")).count(), 1, "{notices:?}");
    assert_eq!((world.sd.counters().given_up, world.sd.counters().doubted), (1, 8));
    // Whoever asks again is refused at once, and after a while the provider is asked again: once.
    world.close(1, bad);
    world.open_with(1, "BAD", flags::STREAMING);
    assert_eq!(world.kinds(), [Kind::Refused]);
    assert!(asked(&mut world).is_empty());
    world.pass(301);
    world.open_with(1, "BAD", flags::STREAMING);
    assert_eq!(answers_until(&mut world, &["BAD"]), Some(vec!["BAD".to_owned()]));
    assert!(world.events().iter().any(|event| event.kind == Kind::ItemStatus && event.has(flags::CLOSED)));
    comes(&mut world);
    assert_eq!(answers_until(&mut world, &["BAD"]), None);
    world.sd.check_invariants();
}

#[test]
fn what_is_answered_is_in_doubt_no_more() {
    let mut world = world(Config::default());
    let handle = world.open(1, "A");
    for _ in 0..2 {
        assert_eq!(answers_until(&mut world, &["A"]), Some(vec!["A".to_owned()]));
        comes(&mut world);
    }
    assert_eq!(answers_until(&mut world, &[]), None);
    let events = world.events();
    assert!(events.iter().any(|event| event.handle == handle && event.kind == Kind::Image));
    // It counts anew. What those who watch have had is asked for again, and not ended.
    for _ in 0..3 {
        world.down(0);
        comes(&mut world);
        assert_eq!(answers_until(&mut world, &["A"]), Some(vec!["A".to_owned()]));
        comes(&mut world);
    }
    assert!(world.events().iter().all(|event| event.kind != Kind::ItemStatus || !event.has(flags::CLOSED)));
    assert_eq!(answers_until(&mut world, &[]), None);
    world.pass(302);
    assert_eq!(answers_until(&mut world, &[]), None);
    assert!(world.events().iter().any(|event| event.handle == handle && event.kind == Kind::Image), "it is back");
    world.sd.check_invariants();
}

#[test]
fn a_domain_that_no_provider_answers_is_given_up_whatever_the_item() {
    let mut world = world(Config::default());
    let domain = Domain::MARKET_BY_PRICE;
    let names: Vec<String> = (0..40).map(|n| format!("O{n}")).collect();
    let open = |world: &mut World, name: &str| {
        let request = RequestMsg { domain, ..request(name) };
        world.open_request(1, 1, flags::STREAMING, &request);
    };
    world.open(1, "PRICE");
    assert_eq!(answers_until(&mut world, &[]), None);
    for name in &names {
        open(&mut world, name);
    }
    world.events();
    let bad: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut losses = 0;
    while losses < 50 && answers_until(&mut world, &bad).is_some() {
        losses += 1;
        comes(&mut world);
    }
    assert!(losses <= 6, "{losses} losses of the connection for one domain");
    let ends = world.events().iter().filter(|event| event.kind == Kind::ItemStatus && event.has(flags::CLOSED)).count();
    assert_eq!(ends, 40, "each is told");
    open(&mut world, "ANOTHER");
    assert_eq!(world.kinds(), [Kind::Refused]);
    // Other domains are served.
    world.open(1, "P2");
    assert_eq!(asked(&mut world).len(), 1);
    world.sd.check_invariants();
}

#[test]
fn what_is_in_doubt_waits_for_all_services_of_its_provider_but_not_for_ever() {
    let mut world = world(Config::default());
    world.open(1, "BAD");
    assert!(answers_until(&mut world, &["BAD"]).is_some());
    let other = world.open_request(1, 2, flags::STREAMING, &request("SLOW"));
    assert!(world.events().iter().any(|event| event.kind == Kind::ItemOpened && event.arg == other));
    comes(&mut world);
    world.turn();
    let first = asked(&mut world);
    assert_eq!(first.iter().map(|(_, name, _)| name.as_str()).collect::<Vec<_>>(), ["SLOW"]);
    world.turn();
    assert!(asked(&mut world).is_empty(), "another request awaits its answer");
    world.refresh(0, first[0].0, &[(22, b"1")], WHOLE);
    world.turn();
    let then = asked(&mut world);
    assert_eq!(then.iter().map(|(_, name, _)| name.as_str()).collect::<Vec<_>>(), ["BAD"]);
    world.down(0);
    // A provider that leaves something unanswered all the time is asked in the end.
    world.open_request(1, 2, flags::STREAMING, &request("NEVER"));
    comes(&mut world);
    world.turn();
    world.requests(0);
    let mut names = Vec::new();
    for _ in 0..40 {
        world.pass(1);
        names.extend(asked(&mut world).into_iter().map(|(_, name, _)| name));
    }
    assert!(names.contains(&"BAD".to_owned()), "{names:?}");
}

#[test]
fn another_provider_is_asked_at_once_the_first_time() {
    let mut world = World::with_two_providers(hub_distributor::Balance::First);
    world.open(1, "A");
    assert_eq!(asked(&mut world).len(), 1);
    world.down(0);
    let at_other = world.requests(1);
    assert_eq!(at_other.iter().map(|(_, name, _)| name.as_str()).collect::<Vec<_>>(), ["A"]);
    // That one goes as well: the first is asked last, when it has answered what others want.
    comes(&mut world);
    world.turn();
    let beside = world.open(1, "B");
    let before = asked(&mut world);
    assert_eq!(before.iter().map(|(_, name, _)| name.as_str()).collect::<Vec<_>>(), ["B"]);
    world.down(1);
    world.turn();
    assert!(asked(&mut world).is_empty());
    world.refresh(0, before[0].0, &[(22, b"1")], WHOLE);
    world.turn();
    assert_eq!(asked(&mut world).iter().map(|(_, name, _)| name.as_str()).collect::<Vec<_>>(), ["A"]);
    assert!(world.events().iter().any(|event| event.handle == beside && event.kind == Kind::Image));
}
