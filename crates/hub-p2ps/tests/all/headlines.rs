//! Headlines that have their permission codes in a field, where this P2PS is told in which.

use crate::world::{World, info, item, token_of};
use hub_content::cache::rules::NamePattern;
use hub_content::headlines::HeadlineRule;
use hub_p2ps::Config;
use permissions::rights::Rights;
use permissions::{Mode, Settings};
use rwf::Qos;
use rwf::rdm::directory::ServiceState;

/// A service with headlines and two clients: 1 may see code 1, 2 the codes 1 and 2.
fn world(mode: Mode, names: &str) -> World {
    let rule = HeadlineRule { fid: 30, lock_service: 1, names: vec![NamePattern::new(names)] };
    let permissions = Settings { mode, ..Settings::default() };
    let config = Config { permissions, headlines: [("FEED".to_owned(), rule.into())].into(), ..Config::default() };
    let mut world = World::with(config);
    let grants = "[users.user1.grants]\nFEED = [1]\n[users.user2.grants]\nFEED = [1, 2]\n";
    let text = format!("version = \"v\"\n[services.FEED]\nid = 1\n{grants}");
    world.p2ps.set_rights(world.now, Rights::parse("test", &text).unwrap_or_else(|e| panic!("{e}")).into());
    world.source(0);
    world.publish(0, |p| {
        p.service_with(40, info("FEED", &[6], &[Qos::REALTIME_TICK]), ServiceState::new(true));
    });
    world.clients([1, 2]);
    world
}

/// Both watch an item, which is open under handle 0 with this image.
fn watched(world: &mut World, name: &str, image: &[(i16, u64)]) {
    world.request(1, &item(5, name));
    world.request(2, &item(6, name));
    let asked = world.asked();
    let token = token_of(&asked[0]);
    world.publish(0, |p| {
        p.opened(token, 0).image(0, image);
    });
}

#[test]
fn each_headline_goes_to_those_who_have_its_code() {
    let mut world = world(Mode::On, "N2_*");
    watched(&mut world, "N2_UBMS", &[(30, 2), (31, 7)]);
    let bare = ["refresh 5 solicited complete OPEN/OK group 3 key 1:N2_UBMS"];
    assert_eq!(world.take(1), bare, "the headline of the moment is not for everybody");
    world.take(2);
    let mut publish = |list: &[(i16, u64)]| {
        world.publish(0, |p| {
            p.update(0, list);
        });
        (world.take(1).len(), world.take(2).len())
    };
    assert_eq!(publish(&[(30, 1), (31, 8)]), (1, 1));
    assert_eq!(publish(&[(30, 2), (31, 9)]), (0, 1));
    assert_eq!(publish(&[(30, 3), (31, 9)]), (0, 0), "nobody has that");
    assert_eq!(publish(&[(31, 9)]), (1, 1), "no code is there");
    let counters = world.p2ps.counters();
    assert_eq!((counters.headlines, counters.messages_denied), (3, 3));
}

#[test]
fn items_that_are_no_headlines_are_left_alone() {
    let mut world = world(Mode::On, "N3_*");
    watched(&mut world, "N2_UBMS", &[(30, 2)]);
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:N2_UBMS 30=2"]);
    world.publish(0, |p| {
        p.update(0, &[(30, 2)]);
    });
    assert_eq!((world.take(1), world.p2ps.counters().headlines), (vec!["update 5 30=2".to_owned()], 0));
    assert_eq!(world.take(2).len(), 2, "client 2 has the same");
}

/// Others may look at locks: those that this P2PS is a provider of.
#[test]
fn without_permissions_headlines_have_their_locks_and_go_to_all() {
    let mut world = world(Mode::Off, "N2_*");
    watched(&mut world, "N2_UBMS", &[(30, 2)]);
    world.take(1);
    world.raw(2);
    world.publish(0, |p| {
        p.update(0, &[(30, 2), (31, 9)]);
    });
    assert_eq!(world.take(1).len(), 1);
    let messages = world.raw(2);
    let update = rwf::msg::UpdateMsg::decode(&messages[0]).expect("an update");
    let lock = permissions::lock::Lock::decode(update.perm_data.expect("a lock")).expect("a lock that can be read");
    assert_eq!(lock, permissions::lock::Lock::of(1, permissions::lock::Operator::Or, &[2]).expect("a lock"));
}

/// Watchers that wait for an image, or see the item through a view, are served by the same rule.
#[test]
fn a_headline_through_a_view_is_for_those_who_have_its_code_too() {
    use rwf::msg::{RequestFlags, RequestMsg};
    use rwf::rdm::request::{Payload, View};
    let mut world = world(Mode::On, "N2_*");
    let body = crate::world::encode(|w| Payload { view: Some(View::Fields(vec![31])), ..Payload::default() }.encode(w));
    let with_view = |stream| {
        let msg = item(stream, "N2_UBMS");
        let flags = msg.flags | RequestFlags::HAS_VIEW;
        RequestMsg { flags, container: rwf::DataType::ELEMENT_LIST, body: &body, ..msg }
    };
    world.request(1, &with_view(5));
    world.request(2, &with_view(6));
    let asked = world.asked();
    let token = token_of(&asked[0]);
    world.publish(0, |p| {
        p.opened(token, 0).update(0, &[(30, 2), (31, 1)]).image(0, &[]);
    });
    world.take(1);
    world.take(2);
    world.publish(0, |p| {
        p.update(0, &[(30, 2), (31, 8)]);
    });
    assert_eq!((world.take(1).len(), world.take(2)), (0, vec!["update 6 31=8".to_owned()]));
}
