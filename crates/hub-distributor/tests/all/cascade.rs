//! Services that come through other sites: what is said of their way, and that none goes in a circle.

use crate::world::*;
use hub_distributor::{Balance, Config, Notice, RouteConfig};
use hub_stream::Kind;
use rwf::rdm::directory::{self, Action, Link, Part};

fn link(name: &str, action: Action) -> Link {
    Link { name: name.to_owned(), action, up: Some(true), kind: None, code: None, text: None }
}

/// FEED, which has come through these sites.
fn through(sites: &[&str]) -> directory::Service {
    let links = sites.iter().map(|site| link(site, Action::Add)).collect();
    directory::Service { links: Some(Part::Set(links)), ..service(7, "FEED") }
}

fn links_update(part: Part<Vec<Link>>) -> directory::Service {
    directory::Service { links: Some(part), ..directory::Service::new(7, Action::Update) }
}

fn world(balance: Balance) -> World {
    let mut world = World::new(Config { site: "here".to_owned(), balance, ..Config::default() });
    world.p2ps_up(1);
    for id in [0, 1] {
        world.route_up(id);
    }
    world.events();
    world
}

/// What P2PSs were told of FEED since the last call: whether it is up, and the sites that it comes through.
fn told(world: &mut World) -> Vec<(bool, Vec<String>)> {
    let mut told = Vec::new();
    for event in world.events().iter().filter(|event| event.kind == Kind::Service) {
        let service = entry_of(event);
        let links = service.links.as_ref().and_then(Part::value).into_iter().flatten();
        let up = service.state.as_ref().and_then(Part::value).is_some_and(|state| state.up);
        told.push((up, links.map(|link| link.name.clone()).collect()));
    }
    told
}

fn entry_of(event: &Ev) -> directory::Service {
    let name = usize::from(u16::from_le_bytes([event.body[0], event.body[1]]));
    directory::Service::decode_filters(1, Action::Add, &event.body[2 + name..]).expect("filters")
}

fn path(sites: &[&str]) -> Vec<String> {
    sites.iter().map(|&site| site.to_owned()).collect()
}

fn come_back(world: &mut World) -> Vec<String> {
    let found = world.sd.notices().filter(|notice| matches!(notice, Notice::ServiceComesBack { .. }));
    found.map(|notice| notice.to_string()).collect()
}

#[test]
fn a_service_says_through_which_sites_it_comes() {
    let mut world = world(Balance::Load);
    world.directory(0, vec![through(&["there", "far"])]);
    assert_eq!(told(&mut world), [(true, path(&["here", "there", "far"]))]);
    // All that are asked count, in their order; a link that is gone does not.
    world.directory(1, vec![through(&["beside", "far"])]);
    assert_eq!(told(&mut world), [(true, path(&["here", "there", "far", "beside"]))]);
    world.directory_update(0, vec![links_update(Part::Update(vec![link("far", Action::Delete)]))]);
    assert_eq!(told(&mut world), [(true, path(&["here", "there", "beside", "far"]))]);
    world.directory_update(0, vec![links_update(Part::Clear)]);
    assert_eq!(told(&mut world), [(true, path(&["here", "beside", "far"]))]);
    world.down(1);
    assert_eq!(told(&mut world), [(true, path(&["here"]))]);
    assert!(come_back(&mut world).is_empty());
}

#[test]
fn in_an_order_the_way_is_that_of_the_first() {
    let mut world = world(Balance::First);
    world.directory(0, vec![service(7, "FEED")]);
    world.directory(1, vec![through(&["there"])]);
    assert_eq!(told(&mut world), [(true, path(&["here"]))]);
    world.directory_update(0, vec![state_update(7, false, false)]);
    assert_eq!(told(&mut world), [(true, path(&["here", "there"]))]);
    world.directory_update(0, vec![state_update(7, true, true)]);
    assert_eq!(told(&mut world), [(true, path(&["here"]))]);
}

#[test]
fn what_has_come_through_this_site_is_not_taken() {
    let mut world = world(Balance::Load);
    world.directory(0, vec![through(&["there", "here"])]);
    assert!(world.events().is_empty(), "nobody is told of it");
    let said = come_back(&mut world);
    assert_eq!(
        said,
        [
            "service FEED of provider provider0:14002 is not taken: it goes in a circle (there < here); it is taken when it comes another way"
        ]
    );
    // It is said once, and what changes is kept in mind.
    world.directory_update(0, vec![state_update(7, true, false), state_update(7, true, true)]);
    world.directory_update(
        0,
        vec![links_update(Part::Set(vec![link("there", Action::Add), link("here", Action::Add)]))],
    );
    assert!(world.events().is_empty() && come_back(&mut world).is_empty());
    // Another way, and back at once, and for good.
    world.directory_update(0, vec![links_update(Part::Set(vec![link("there", Action::Add)]))]);
    world.pass(2);
    world.directory_update(0, vec![links_update(Part::Update(vec![link("here", Action::Add)]))]);
    world.pass(20);
    assert!(world.events().is_empty());
    world.directory_update(0, vec![links_update(Part::Update(vec![link("here", Action::Delete)]))]);
    world.pass(4);
    assert!(world.events().is_empty(), "not so soon");
    world.pass(7);
    assert_eq!(told(&mut world), [(true, path(&["here", "there"]))]);
    // A service that is deleted while it goes in a circle was never ours.
    world.directory_update(0, vec![links_update(Part::Update(vec![link("here", Action::Add)]))]);
    assert_eq!(told(&mut world), [(false, path(&["here"]))], "it is lost meanwhile");
    world.directory_update(0, vec![directory::Service::delete(7)]);
    world.directory_update(0, vec![through(&["there"])]);
    assert_eq!(told(&mut world), [(true, path(&["here", "there"]))], "a new one");
}

#[test]
fn items_leave_a_provider_whose_service_begins_to_go_in_a_circle() {
    let mut world = world(Balance::First);
    world.directory(0, vec![through(&["there"])]);
    world.directory(1, vec![service(9, "FEED")]);
    world.events();
    world.sent(0);
    world.sent(1);
    world.open_imaged(1, "A");
    world.directory_update(0, vec![links_update(Part::Update(vec![link("here", Action::Add)]))]);
    assert_eq!(world.closes(0).len(), 1);
    assert_eq!(world.requests(1).len(), 1, "it is asked for at the other");
    assert_eq!(told(&mut world), [(true, path(&["here"]))]);
    // A session that ends takes what it has said with it.
    world.down(0);
    world.route_up(0);
    world.directory(0, vec![through(&["there"])]);
    world.pass(30);
    assert!(come_back(&mut world).len() == 1);
}

#[test]
fn a_way_too_long_and_a_site_without_a_name() {
    let mut far = world(Balance::Load);
    let names: Vec<String> = (0..33).map(|n| format!("site{n}")).collect();
    far.directory(0, vec![through(&names.iter().map(String::as_str).collect::<Vec<_>>())]);
    assert!(far.events().is_empty() && come_back(&mut far).len() == 1);
    let mut nameless = World::new(Config::default());
    nameless.p2ps_up(1);
    nameless.route_up(0);
    nameless.events();
    nameless.directory(0, vec![through(&["there", ""])]);
    assert_eq!(told(&mut nameless), [(true, Vec::new())]);
}

#[test]
fn the_lines_of_a_route_are_told_up_and_down() {
    let route = |name: &str| RouteConfig { comm_links: vec![name.to_owned()], ..RouteConfig::default() };
    let mut world = World::new(Config { routes: vec![route("LINE1"), route("LINE2")], ..Config::default() });
    world.p2ps_up(1);
    let lines = |world: &mut World| {
        let events = world.events();
        let body = &events.iter().rfind(|event| event.kind == Kind::Service).expect("FEED").body;
        let length = usize::from(u16::from_le_bytes([body[0], body[1]]));
        let entry = directory::Service::decode_filters(1, Action::Add, &body[2 + length..]).unwrap();
        let links = entry.links.as_ref().and_then(Part::value).cloned().unwrap_or_default();
        links.into_iter().map(|link| (link.name, link.up)).collect::<Vec<_>>()
    };
    let line = |number: u8, up| (format!("LINE{number}"), Some(up));
    for id in [0, 1] {
        world.route_up(id);
        world.directory(id, vec![service(7, "FEED")]);
        assert_eq!(lines(&mut world).last(), Some(&line(id as u8 + 1, true)));
    }
    world.down(0);
    assert_eq!(lines(&mut world), [line(1, false), line(2, true)]);
    world.directory_update(1, vec![state_update(7, false, true)]);
    assert_eq!(lines(&mut world), [line(1, false), line(2, false)]);
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    assert_eq!(lines(&mut world), [line(1, true), line(2, false)]);
}
