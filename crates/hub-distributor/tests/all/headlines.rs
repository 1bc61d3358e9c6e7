//! Headlines whose permission codes are in a field.

use crate::world::*;
use hub_content::cache::rules::{CacheRules, Domains, NamePattern, ServiceRule};
use hub_content::headlines::HeadlineRule;
use hub_distributor::Config;
use hub_stream::{Kind, flags};
use permissions::lock::{Lock, Operator};
use rwf::msg::{RefreshFlags, UpdateFlags, UpdateMsg};

const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);

fn config() -> Config {
    let rule = HeadlineRule { fid: 1, lock_service: 257, names: vec![NamePattern::new("N2_*")] };
    Config { headlines: [("FEED".to_owned(), rule.into())].into(), ..Config::default() }
}

/// The lock of the only update that has come, if it has one.
fn lock(world: &mut World) -> Option<Lock> {
    let events = world.events();
    assert_eq!((events.len(), events[0].kind), (1, Kind::Update), "{events:?}");
    let update = UpdateMsg::decode(&events[0].body).unwrap();
    assert_eq!(events[0].has(flags::HAS_LOCK), update.perm_data.is_some());
    assert_eq!(update.flags.contains(UpdateFlags::DO_NOT_CACHE), update.perm_data.is_some());
    update.perm_data.map(|lock| Lock::decode(lock).unwrap())
}

fn pe(code: u32) -> Lock {
    Lock::of(257, Operator::Or, &[code]).unwrap()
}

#[test]
fn a_headline_has_the_lock_of_its_code_and_its_image_is_bare() {
    let cached = ServiceRule { enabled: true, domains: Domains::ALL, not_items: Vec::new() };
    let cache = CacheRules { others: cached, ..CacheRules::default() };
    for cache in [CacheRules::default(), cache] {
        let mut world = World::with_two_p2pss(Config { cache, ..config() });
        world.open(1, "N2_UBMS");
        let (stream, ..) = world.requests(0)[0];
        world.refresh(0, stream, &[(1, &[62]), (352, b"Shares rise")], WHOLE);
        let events = world.events();
        assert!(fields_of(events[0].image().body).is_empty(), "who may see that headline is another matter");
        world.update(0, stream, &[(1, &[25, 170]), (352, b"Bonds fall")]);
        assert_eq!(lock(&mut world), Some(pe(6_570)));
        world.update(0, stream, &[(352, b"...")]);
        assert_eq!(lock(&mut world), None, "it names no code");
        // A P2PS that comes now has no headline of before.
        world.open_with(2, "N2_UBMS", flags::STREAMING);
        for (stream, ..) in world.requests(0) {
            world.refresh(0, stream, &[(1, &[25, 170]), (352, b"Bonds fall")], WHOLE);
        }
        let images: Vec<_> = world.events().into_iter().filter(|event| event.kind == Kind::Image).collect();
        assert!(!images.is_empty());
        for image in images {
            let fields = fields_of(image.image().body);
            assert!(fields.iter().all(|(fid, data)| *fid == 352 && data == b"..."), "{fields:?}");
        }
        assert_eq!(world.sd.counters().headlines, 1);
    }
}

#[test]
fn other_items_of_the_service_are_as_they_are() {
    let mut world = World::with_two_p2pss(config());
    let handle = world.open(1, "IBM.N");
    let (stream, ..) = world.requests(0)[0];
    world.refresh(0, stream, &[(1, &[62]), (22, b"1")], WHOLE);
    assert_eq!(fields_of(world.events()[0].image().body).len(), 2);
    world.update(0, stream, &[(1, &[62])]);
    assert_eq!(lock(&mut world), None);
    world.close(1, handle);
    world.sd.check_invariants();
}

#[test]
fn published_headlines_have_locks_and_a_held_image_without_them() {
    let mut world = World::new(config());
    world.p2ps_up(1);
    world.nip_up(0);
    world.directory(0, vec![service(3, "FEED")]);
    world.publish(0, 5, 3, "N2_X", &[(1, &[62]), (352, b"Shares rise")]);
    world.events();
    world.open_with(1, "N2_X", flags::STREAMING);
    let image = world.events().into_iter().find(|event| event.kind == Kind::Image).expect("the held image");
    assert!(fields_of(image.image().body).is_empty());
    world.update(0, 5, &[(1, &[62]), (352, b"Bonds fall")]);
    assert_eq!(lock(&mut world), Some(pe(62)));
    world.p2ps_up(2);
    world.events();
    world.open_with(2, "N2_X", flags::STREAMING);
    let image = world.events().into_iter().find(|event| event.kind == Kind::Image).expect("the held image");
    assert!(fields_of(image.image().body).is_empty() && image.image().perm_data.is_none());
}
