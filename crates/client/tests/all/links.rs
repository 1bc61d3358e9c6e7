//! Several links, whatever dies and whenever: each image is the server's in the end, no update is given behind a gap that was not told, and nothing
//! is left behind.

use crate::sites::{Manner, Name, SECOND, World};
use client::Arrangement;
use client::images::Condition;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Subscribe { service: u16, first: usize, count: usize, streaming: bool },
    Unsubscribe(usize),
    Change { service: u16, item: usize },
    Feed { site: usize, most: usize },
    Connect(usize),
    Kill { site: usize, alive: bool },
    Revive(usize),
    Service { site: usize, id: u16, up: bool },
    CloseForNow { site: usize, service: u16, item: usize },
    TalkOne { site: usize, most: usize },
    Talk(usize),
    Complete(usize),
    InParts(bool),
    Pass(u64),
}

const NAMES: [&str; 5] = ["A", "B", "C", "D", "MISSING"];

fn steps(sites: usize) -> impl Strategy<Value = Vec<Step>> {
    let site = 0..sites;
    let step = prop_oneof![
        3 => (1..3u16, 0..5usize, 1..5usize, prop::bool::weighted(0.8))
            .prop_map(|(service, first, count, streaming)| Step::Subscribe { service, first, count, streaming }),
        1 => (0..4usize).prop_map(Step::Unsubscribe),
        8 => (1..3u16, 0..4usize).prop_map(|(service, item)| Step::Change { service, item }),
        8 => (site.clone(), 1..8usize).prop_map(|(site, most)| Step::Feed { site, most }),
        5 => site.clone().prop_map(Step::Connect),
        2 => (site.clone(), any::<bool>()).prop_map(|(site, alive)| Step::Kill { site, alive }),
        1 => site.clone().prop_map(Step::Revive),
        2 => (site.clone(), 1..3u16, any::<bool>()).prop_map(|(site, id, up)| Step::Service { site, id, up }),
        1 => (site.clone(), 1..3u16, 0..4usize).prop_map(|(site, service, item)| Step::CloseForNow { site, service, item }),
        6 => (site.clone(), 1..20usize).prop_map(|(site, most)| Step::TalkOne { site, most }),
        6 => (1..60usize).prop_map(Step::Talk),
        3 => site.prop_map(Step::Complete),
        1 => any::<bool>().prop_map(Step::InParts),
        2 => (1..3 * SECOND).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..150)
}

fn name(service: u16, item: usize) -> Name {
    (service, NAMES[item].to_owned())
}

fn run(world: &mut World, step: &Step) {
    match *step {
        Step::Subscribe { service, first, count, streaming } if world.apps.len() < 4 => {
            let names: Vec<&str> = (first..first + count).map(|n| NAMES[n % NAMES.len()]).collect();
            world.try_subscribe(service, &names, streaming);
        }
        Step::Unsubscribe(app) if app < world.apps.len() => world.unsubscribe(app),
        Step::Change { service, item } => world.change(&name(service, item)),
        Step::Feed { site, most } => world.feed(site, most),
        Step::Connect(site) => {
            world.connect(site);
        }
        Step::Kill { site, alive } => world.kill(site, alive),
        Step::Revive(site) => world.sites[site].is_alive = true,
        Step::Service { site, id, up } => world.set_service(site, id, up),
        Step::CloseForNow { site, service, item } => world.close_for_now(site, &name(service, item)),
        Step::TalkOne { site, most } => {
            let _ = (0..most).all(|_| world.talk_once(site));
        }
        Step::Talk(most) => world.talk(most),
        Step::Complete(site) => world.complete(site),
        Step::InParts(on) => world.in_parts = on,
        Step::Pass(ns) => world.pass(ns),
        Step::Subscribe { .. } | Step::Unsubscribe(_) => {}
    }
}

fn live(mut world: World, arrangement: Arrangement, steps: &[Step]) -> Result<(), TestCaseError> {
    let sites = world.sites.len();
    for service in 1..=2 {
        (0..4).for_each(|item| world.change(&name(service, item)));
    }
    (0..sites).for_each(|site| world.feed(site, usize::MAX));
    for step in steps {
        run(&mut world, step);
    }
    for site in 0..sites {
        world.sites[site].is_alive = true;
        (1..=2).for_each(|id| world.set_service(site, id, true));
    }
    world.settle();
    for app in 0..world.apps.len() {
        for (item, name) in world.apps[app].names.clone().iter().enumerate() {
            let item = item as u32;
            if name.1 == "MISSING" {
                prop_assert_eq!(world.condition(app, item), Condition::Closed);
                continue;
            }
            let condition = world.condition(app, item);
            if condition == Condition::Snapshot {
                continue;
            }
            let value = world.sites[0].values.get(name).map(|(_, value)| *value);
            prop_assert_eq!((world.value(app, item), condition), (value, Condition::Ok), "{:?} of {}", name, app);
        }
    }
    let streams = world.client.streams();
    let open: Vec<usize> = (0..sites).map(|site| world.streams(site)).collect();
    if arrangement == Arrangement::Routing {
        prop_assert_eq!(open.iter().sum::<usize>(), streams);
    } else {
        prop_assert!(open.iter().all(|open| *open == streams), "{:?} of {}", open, streams);
    }
    while !world.apps.is_empty() {
        world.unsubscribe(0);
    }
    world.settle();
    prop_assert_eq!(world.client.streams(), 0);
    prop_assert_eq!((0..sites).map(|site| world.streams(site)).sum::<usize>(), 0);
    Ok(())
}

fn manners() -> impl Strategy<Value = Manner> {
    prop_oneof![Just(Manner::Knows), Just(Manner::Ignorant), Just(Manner::Forgets)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn routed_items_are_where_they_can_be(steps in steps(3)) {
        live(World::new(3, Arrangement::Routing, Manner::Knows), Arrangement::Routing, &steps)?;
    }

    #[test]
    fn routed_items_without_room_elsewhere_are_had_in_the_end(steps in steps(3), room in 2..8usize) {
        live(World::with_room(3, Arrangement::Routing, Manner::Knows, room), Arrangement::Routing, &steps)?;
    }

    #[test]
    fn by_login_one_serves_and_the_others_stand_by(steps in steps(2), manner in manners()) {
        live(World::new(2, Arrangement::StandbyByLogin, manner), Arrangement::StandbyByLogin, &steps)?;
    }

    #[test]
    fn by_service_each_has_one_that_serves(steps in steps(3), knows in any::<bool>()) {
        let manner = if knows { Manner::Knows } else { Manner::Ignorant };
        live(World::new(3, Arrangement::StandbyByService, manner), Arrangement::StandbyByService, &steps)?;
    }
}
