//! Whole worlds by seed: kills, freezes, cuts, ends of sources, comings and goings of receivers. `QUOTEWAY_SEED=n` runs one,
//! `QUOTEWAY_SEEDS=n` so many (10,000 is the number that the goal names).

use lbm_trials::seeds::{Random, each_seed};

use crate::world::{MS, Plan, SECOND, World};

fn plan(random: &mut Random) -> Plan {
    let mut plan = match random.below(7) {
        // A line.
        0 => Plan::new(&[&[1], &[2], &[3]], &[(0, 1), (1, 2)]),
        // A circle of three.
        1 => Plan::new(&[&[1], &[2], &[3]], &[(0, 1), (1, 2), (2, 0)]),
        // Two ways between two routers, one of them by two others.
        2 => Plan::new(&[&[1], &[2], &[], &[]], &[(0, 2), (2, 1), (0, 3), (3, 1)]),
        // Two connections between the same.
        3 => Plan::new(&[&[1], &[2, 3]], &[(0, 1), (0, 1)]),
        // Two routers between the same domains.
        4 => Plan::new(&[&[1, 2], &[1, 2]], &[]),
        // A circle behind a router.
        5 => Plan::new(&[&[1], &[], &[2], &[3]], &[(0, 1), (1, 2), (2, 3), (3, 1)]),
        // Two routers between the same domains, joined, and a third behind them.
        _ => Plan::new(&[&[1, 2], &[1, 2], &[3]], &[(0, 1), (1, 2), (2, 0)]),
    };
    if random.below(2) == 0 {
        for (_, standby) in &mut plan.routers[1] {
            *standby = true;
        }
    }
    plan.paths = 1 + random.below(3) as usize;
    plan.parallel = random.below(5) == 0;
    for (_, _, cost) in &mut plan.links {
        *cost = 1 + random.below(3) as u32;
    }
    if random.below(4) == 0 {
        plan.queue_bytes_max = 600;
    }
    plan
}

const TOPICS: [&str; 4] = ["a.one", "a.two", "b.one", "c"];

fn misfortune(world: &mut World, random: &mut Random) {
    let node = random.below(world.plan.routers.len() as u64) as usize;
    let until = world.now + random.below(20) * SECOND;
    match random.below(8) {
        0 => world.kill(node),
        1 => world.freeze(node, until),
        2 => world.cut_domains(node, until),
        3 | 4 if world.links() > 0 => world.cut_link(random.below(world.links() as u64) as usize, until),
        5 if world.links() > 0 => world.break_link(random.below(world.links() as u64) as usize),
        6 => world.end_source(random.below(world.sources.len() as u64) as usize),
        _ => {
            let domain = 1 + random.below(3) as u32;
            world.wants.entry(domain).or_default().clear();
        }
    }
}

fn wish(world: &mut World, random: &mut Random) {
    let domains: Vec<u32> = world.plan.domains().into_iter().collect();
    let domain = domains[random.below(domains.len() as u64) as usize];
    match random.below(4) {
        0 => world.want_pattern(domain, "^a"),
        _ => world.want(domain, TOPICS[random.below(4) as usize]),
    }
}

fn live(seed: u64) {
    let mut random = Random::new(seed);
    let plan = plan(&mut random);
    let mut world = World::new(plan);
    let domains: Vec<u32> = world.plan.domains().into_iter().collect();
    for topic in TOPICS {
        let domain = domains[random.below(domains.len() as u64) as usize];
        world.add_source(domain, topic);
    }
    for _ in 0..6 {
        wish(&mut world, &mut random);
    }
    world.run(8 * SECOND);
    for _ in 0..30 {
        match random.below(4) {
            0 => misfortune(&mut world, &mut random),
            1 => wish(&mut world, &mut random),
            _ => {}
        }
        for _ in 0..random.below(60) {
            let source = random.below(world.sources.len() as u64) as usize;
            for _ in 0..random.below(20) {
                world.publish(source);
            }
            world.run(10 * MS);
        }
        if random.below(3) == 0 {
            let node = random.below(world.plan.routers.len() as u64) as usize;
            world.start(node);
        }
    }
    // All is well again: whatever is sent now arrives wherever it is wanted, once.
    for node in 0..world.plan.routers.len() {
        world.start(node);
    }
    for topic in TOPICS {
        if world.sources.iter().all(|source| source.topic != topic || !source.alive) {
            world.add_source(domains[random.below(domains.len() as u64) as usize], topic);
        }
    }
    world.run(60 * SECOND);
    let before: Vec<u32> = world.sources.iter().map(|source| source.next).collect();
    let gaps = world.gaps;
    for _ in 0..20 {
        for source in 0..world.sources.len() {
            world.publish(source);
        }
        world.run(20 * MS);
    }
    world.run(SECOND);
    if world.plan.queue_bytes_max > 1_000 {
        assert_eq!(world.gaps, gaps, "nothing is lost while all is well");
    }
    for (source, before) in before.into_iter().enumerate() {
        if world.sources[source].alive {
            arrives(&world, &domains, source, before);
        }
    }
    // And where nobody wants anything any more, nothing remains.
    world.wants.values_mut().for_each(std::collections::BTreeSet::clear);
    world.run(90 * SECOND);
    let remains = world.remains();
    assert!(remains.is_empty(), "{remains:?}");
}

fn arrives(world: &World, domains: &[u32], source: usize, before: u32) {
    let of = &world.sources[source];
    for domain in domains {
        let wanted = world.is_wanted(*domain, &of.topic) && *domain != of.domain;
        let serving = world.serving(*domain, source);
        let most = if world.plan.parallel { world.plan.routers.len() } else { 1 };
        assert!(serving.len() <= most && serving.is_empty() != wanted, "{} in domain {domain}: {serving:?}", of.topic);
        if !wanted {
            continue;
        }
        let counts = &world.delivered[&(*domain, of.origin)];
        for sqn in 0..20 {
            let count = counts.get(&before.wrapping_add(sqn)).copied().unwrap_or(0);
            if world.plan.queue_bytes_max > 1_000 {
                assert_eq!(count, serving.len() as u32, "{} {sqn} in domain {domain}", of.topic);
            } else {
                assert!(count <= serving.len() as u32);
            }
        }
    }
}

#[test]
fn worlds_go_through_what_happens_to_them() {
    each_seed(300, live);
}
