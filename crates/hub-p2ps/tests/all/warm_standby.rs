//! Clients that know several servers have this one stand by, and take it when the other is gone.

use crate::world::{World, item, refresh_with};
use hub_content::cache::rules::CacheRules;
use hub_p2ps::{Config, ServiceIds};
use hub_stream::flags;
use rwf::State;
use rwf::msg::{Msg, RefreshFlags, RequestFlags, RequestMsg};
use rwf::rdm::directory::{self, Action, ConsumerStatus, ServiceStatus};
use rwf::rdm::login::{self, ConnectionStatus, WarmStandby};

const ACTIVE: u64 = 0;
const STANDBY: u64 = 1;

fn say(world: &mut World, client: u32, mode: u64) {
    let status = ConnectionStatus { stream_id: 1, warm_standby: Some(WarmStandby { added: true, mode }) };
    world.send_with(client, |w| status.encode(w));
}

fn say_of(world: &mut World, client: u32, service_id: u16, action: Action, mode: u64) {
    let status = ServiceStatus { service_id, action, mirroring: None, warm_standby: Some(mode) };
    let status = ConsumerStatus { stream_id: 2, services: vec![status] };
    world.send_with(client, |w| status.encode(w));
}

fn features(config: Config) -> login::Features {
    let mut world = World::with(config);
    world.connect(1);
    let request = login::Request { name: "alice".to_owned(), ..login::Request::default() };
    world.send_with(1, |w| request.encode(w));
    let answer = world.raw(1);
    let Ok(Msg::Refresh(refresh)) = Msg::decode(&answer[0]) else { panic!("{answer:?}") };
    login::Refresh::decode(&refresh).unwrap().features
}

#[test]
fn the_login_says_whether_there_is_such_a_thing() {
    let known = features(Config::default());
    assert_eq!((known.standby, known.standby_mode), (Some(true), Some(3)));
    let off = features(Config { support_warm_standby: false, ..Config::default() });
    assert_eq!((off.standby, off.standby_mode), (None, None));
}

#[test]
fn a_standby_gives_images_and_states_and_no_updates_until_it_is_made_active() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    say(&mut world, 1, STANDBY);
    world.open(1, 5, "A", 0);
    world.request(2, &item(5, "A"));
    world.publish(0, |p| {
        p.image(0, &[(22, 1), (25, 2)]);
    });
    world.asked();
    world.take(2);
    world.publish(0, |p| {
        p.update(0, &[(22, 2)]);
    });
    assert!(world.take(1).is_empty(), "it stands by");
    assert_eq!(world.take(2), ["update 5 22=2"]);
    // Alone the item does not rest: it is to be warm.
    world.close(2, 5);
    assert!(world.asked().is_empty());
    world.publish(0, |p| {
        p.status(0, 0, &crate::world::status(rwf::StreamState::OPEN, rwf::DataState::SUSPECT, rwf::StateCode::NONE));
    });
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT"], "states are told");
    world.publish(0, |p| {
        p.image(0, &[(22, 3), (25, 2)]);
    });
    world.take(1);
    world.asked();
    say(&mut world, 1, ACTIVE);
    assert_eq!(world.asked().len(), 1, "an image for what it has missed");
    world.publish(0, |p| {
        p.answered(0, 1).image(0, &[(22, 4), (25, 2)]).update(0, &[(22, 5)]);
    });
    assert_eq!(
        world.take(1),
        ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=4 25=2", "update 5 22=5"],
        "it answers no request"
    );
    assert_eq!(world.p2ps.counters().standby_changes, 2);
    assert_eq!(world.p2ps.mounts().map(|mount| mount.standby).collect::<Vec<_>>(), [Some("active"), None]);
}

#[test]
fn out_of_the_cache_whoever_is_made_active_has_its_images_at_once() {
    let mut world = World::with_feed_and(Config { cache: CacheRules::everything(), ..Config::default() });
    world.clients([1]);
    say(&mut world, 1, STANDBY);
    world.open(1, 5, "A", 0);
    world.publish(0, |p| {
        p.update(0, &[(22, 7)]);
    });
    assert!(world.take(1).is_empty());
    world.asked();
    say(&mut world, 1, ACTIVE);
    assert!(world.asked().is_empty(), "nobody is asked");
    assert_eq!(world.take(1), ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=7 25=2"]);
    world.publish(0, |p| {
        p.update(0, &[(22, 8)]);
    });
    assert_eq!(world.take(1), ["update 5 22=8"]);
}

#[test]
fn by_service_it_stands_by_for_some_and_serves_others() {
    let mut world = World::with_feed();
    world.publish(0, |p| {
        p.service(41, "OTHER");
    });
    world.clients([1]);
    world.directory(1, 2);
    world.take(1);
    say_of(&mut world, 1, 1, Action::Add, STANDBY);
    say_of(&mut world, 1, 2, Action::Add, ACTIVE);
    say_of(&mut world, 1, 77, Action::Add, STANDBY);
    assert_eq!(world.p2ps.mounts().next().and_then(|mount| mount.standby), Some("active and standby, by service"));
    world.open(1, 5, "A", 0);
    let mut other = item(6, "A");
    other.key.service_id = Some(2);
    world.request(1, &other);
    let token = world.token();
    world.asked();
    world.publish(0, |p| {
        p.opened(token, 1).image(1, &[(22, 1)]);
    });
    world.take(1);
    world.publish(0, |p| {
        p.update(0, &[(22, 2)]).update(1, &[(22, 3)]);
    });
    assert_eq!(world.take(1), ["update 6 22=3"]);
    say_of(&mut world, 1, 1, Action::Delete, STANDBY);
    assert_eq!(world.asked().len(), 1, "nothing is said of it any more, so it is served");
    say_of(&mut world, 1, 2, Action::Update, STANDBY);
    world.publish(0, |p| {
        p.answered(0, 1).image(0, &[(22, 4)]).update(0, &[(22, 5)]).update(1, &[(22, 6)]);
    });
    assert_eq!(world.take(1), ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=4", "update 5 22=5"]);
}

#[test]
fn a_client_that_pauses_while_it_is_stood_by_for_stays_paused() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.open(1, 5, "A", 0);
    say(&mut world, 1, STANDBY);
    let pause = RequestFlags::STREAMING | RequestFlags::PAUSE | RequestFlags::NO_REFRESH;
    world.request(1, &RequestMsg { flags: pause, ..item(5, "A") });
    world.asked();
    say(&mut world, 1, ACTIVE);
    world.publish(0, |p| {
        p.update(0, &[(22, 2)]);
    });
    assert!(world.take(1).is_empty() && world.asked().is_empty(), "it has paused itself");
    // A new login begins anew.
    say(&mut world, 1, STANDBY);
    world.close(1, 1);
    assert_eq!(world.asked(), ["0: close 0"]);
    world.login(1, None, None);
    world.take(1);
    assert!(world.p2ps.mounts().all(|mount| mount.standby.is_none()));
}

#[test]
fn an_answer_in_parts_that_standing_by_breaks_off_is_asked_for_again() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.request(1, &item(5, "A"));
    let token = world.token();
    world.asked();
    let part = |number, last| {
        let flags = if last { RefreshFlags::REFRESH_COMPLETE } else { RefreshFlags::NONE };
        refresh_with(flags, State::OPEN_OK, Some(number), &[(22, 1)])
    };
    world.publish(0, |p| {
        p.opened(token, 0).part(0, flags::FIRST, &part(0, false));
    });
    assert_eq!(world.take(1), ["refresh 5 solicited part 0 OPEN/OK group 3 key 1:A 22=1"]);
    say(&mut world, 1, STANDBY);
    world.publish(0, |p| {
        p.part(0, flags::COMPLETE, &part(1, true));
    });
    assert!(world.take(1).is_empty(), "updates between the parts were not for it");
    assert_eq!(world.asked().len(), 1, "its first image is still owed");
    world.publish(0, |p| {
        p.answered(0, 1).image(0, &[(22, 2)]).update(0, &[(22, 3)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=2"]);
}

#[test]
fn what_is_said_where_it_is_not_let_be_goes_nowhere() {
    let mut world = World::with_feed_and(Config { support_warm_standby: false, ..Config::default() });
    world.clients([1]);
    world.open(1, 5, "A", 0);
    say(&mut world, 1, STANDBY);
    world.publish(0, |p| {
        p.update(0, &[(22, 2)]);
    });
    assert_eq!(world.take(1), ["update 5 22=2"]);
    assert_eq!(world.p2ps.counters().generics_dropped, 1);
}

#[test]
fn services_have_the_ids_that_the_configuration_gives_them() {
    let mut service_ids = ServiceIds::new();
    service_ids.give("FEED", 300).unwrap();
    service_ids.give("OTHER", 1).unwrap();
    assert!(service_ids.give("THIRD", 300).is_err() && service_ids.give("THIRD", 0).is_err());
    let mut world = World::with_feed_and(Config { service_ids, ..Config::default() });
    world.publish(0, |p| {
        p.service(41, "THIRD").service(42, "OTHER");
    });
    let ids: Vec<_> = world.p2ps.service_overview().map(|service| (service.name.to_owned(), service.id)).collect();
    assert_eq!(ids, [("FEED".to_owned(), 300), ("THIRD".to_owned(), 2), ("OTHER".to_owned(), 1)]);
    world.clients([1]);
    let filter = directory::filter::INFO;
    let request = directory::Request { stream_id: 2, streaming: true, service_id: Some(300), filter };
    world.send_with(1, |w| request.encode(w));
    let answer = world.raw(1);
    let Ok(Msg::Refresh(refresh)) = Msg::decode(&answer[0]) else { panic!("{answer:?}") };
    let services = directory::services(refresh.container, refresh.body).unwrap();
    assert_eq!(services.iter().map(|service| (service.id, service.name())).collect::<Vec<_>>(), [(300, Some("FEED"))]);
    let mut request = item(5, "A");
    request.key.service_id = Some(300);
    world.request(1, &request);
    assert_eq!(world.asked().len(), 1);
}

#[test]
fn many_streams_are_stood_by_for_in_turns() {
    let mut world = World::with_feed_and(Config { work_per_turn: 2, ..Config::default() });
    world.clients([1]);
    for (stream, name, handle) in [(5, "A", 0), (6, "B", 1), (7, "C", 2)] {
        world.open(1, stream, name, handle);
    }
    world.asked();
    world.pass(0);
    let updates = |world: &mut World, price| {
        world.publish(0, |p| {
            p.update(0, &[(22, price)]).update(1, &[(22, price)]).update(2, &[(22, price)]);
        });
        world.take(1)
    };
    say(&mut world, 1, STANDBY);
    assert_eq!(updates(&mut world, 3), ["update 7 22=3"], "two in a turn");
    assert_eq!(world.p2ps.timeout(), Some(0));
    world.pass(0);
    assert!(updates(&mut world, 4).is_empty() && world.p2ps.timeout() != Some(0));
}
