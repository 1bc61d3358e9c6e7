//! Service groups: one name over several services.

use crate::world::*;
use hub_distributor::{Balance, Config, Notice, ServiceGroup};
use hub_stream::{Kind, flags};
use rwf::DataState;
use rwf::msg::{Msg, RefreshFlags, RequestMsg};
use rwf::rdm::directory::{self, Action, Group, Load, Part, ServiceState};
use rwf::{State, StateCode, StreamState};

const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);
/// The providers' ids of the members.
const A: u16 = 7;
const B: u16 = 8;
/// Seconds after which items go back.
const DECISION: u64 = 10;

fn config(failback: u64) -> Config {
    let members = ["FEED_A", "FEED_B"].map(str::to_owned).into();
    let group = ServiceGroup { name: "FEED".to_owned(), members };
    Config { service_groups: vec![group], failback: failback * SECOND, ..Config::default() }
}

/// P2PS 1, and providers with these services, by session from 0.
fn world_of(config: Config, providers: &[&[(u16, &str)]]) -> World {
    let mut world = World::new(config);
    world.p2ps_up(1);
    for (id, services) in (0..).zip(providers) {
        come(&mut world, id, services);
    }
    world
}

fn come(world: &mut World, id: u32, services: &[(u16, &str)]) {
    world.route_up(id);
    world.directory(id, services.iter().map(|(id, name)| service(*id, name)).collect());
    world.turn();
    world.sent(id);
}

/// Whether the service FEED is up, each time that P2PSs are told of it.
fn told(world: &mut World) -> Vec<bool> {
    let entry = |event: &Ev| {
        let name = usize::from(u16::from_le_bytes([event.body[0], event.body[1]]));
        let entry = directory::Service::decode_filters(1, Action::Add, &event.body[2 + name..]).expect("filters");
        (entry.name() == Some("FEED")).then(|| entry.state.as_ref().and_then(Part::value).expect("a state").up)
    };
    world.events().iter().filter(|event| event.kind == Kind::Service).filter_map(entry).collect()
}

/// The hub's id of a service.
fn id_of(world: &World, name: &str) -> u16 {
    let at = world.sd.service_overview().position(|service| service.name == name).expect("the service is known");
    at as u16 + 1
}

/// Opens an item of a service, which is asked of a session: its handle and its stream there.
fn open(world: &mut World, service: &str, item: &str, at: u32) -> (u32, i32) {
    let id = id_of(world, service);
    let token = world.open_request(1, id, flags::STREAMING, &request(item));
    let events = world.events();
    let handle = events.iter().find(|e| e.kind == Kind::ItemOpened && e.arg == token).expect("it is opened").handle;
    (handle, asked(world, at, item).expect("it is asked for there").0)
}

/// The stream and the service id of the last request for an item at a session.
fn asked(world: &mut World, id: u32, item: &str) -> Option<(i32, u16)> {
    let sent = world.sent(id);
    let requests = sent.iter().filter_map(|bytes| match Msg::decode(bytes).unwrap() {
        Msg::Request(request) => Some(request),
        _ => None,
    });
    let mut named = requests.filter(|request: &RequestMsg<'_>| request.key.name_lossy() == item);
    named.next_back().map(|request| (request.stream_id, request.key.service_id.expect("a service id")))
}

fn image(world: &mut World, id: u32, stream: i32) {
    world.refresh(id, stream, &[(22, b"1")], WHOLE);
    world.turn();
}

fn down(world: &mut World, id: u32, service: u16) {
    world.directory_update(id, vec![state_update(service, false, true)]);
    world.turn();
}

fn served_from(world: &mut World) -> Vec<String> {
    let notices = world.sd.notices().filter_map(|notice| match notice {
        Notice::GroupServedFrom { served_from, provider, .. } => Some(format!("{served_from} {provider}")),
        _ => None,
    });
    notices.collect()
}

#[test]
fn a_group_is_one_service_beside_its_members() {
    let mut world = world_of(config(0), &[&[(A, "FEED_A"), (B, "FEED_B"), (9, "OTHER")]]);
    let names: Vec<String> = world.sd.service_overview().map(|service| service.name.to_owned()).collect();
    assert_eq!(names, ["FEED_A", "FEED", "FEED_B", "OTHER"]);
    world.events();
    let group = id_of(&world, "FEED");
    let token = world.open_request(1, group, flags::STREAMING, &request("IBM"));
    assert!(world.events().iter().any(|event| event.kind == Kind::ItemOpened && event.arg == token));
    let (stream, service) = asked(&mut world, 0, "IBM").expect("a request");
    assert_eq!(service, A, "of the first member");
    image(&mut world, 0, stream);
    assert!(world.kinds().contains(&Kind::Image));
    let overview: Vec<_> = world.sd.session_overview().flat_map(|session| session.services).collect();
    let of_group: Vec<_> = overview.iter().filter(|offer| offer.service == "FEED").collect();
    assert_eq!((of_group.len(), of_group[0].member, of_group[0].open), (1, Some("FEED_A"), 1));
    assert_eq!(served_from(&mut world), ["FEED_A provider0:14002"]);
}

#[test]
fn a_member_that_goes_down_is_followed_by_the_next_of_the_same_provider() {
    let mut world = world_of(config(0), &[&[(A, "FEED_A"), (B, "FEED_B")]]);
    let (handle, stream) = open(&mut world, "FEED", "IBM", 0);
    let (_, of_member) = open(&mut world, "FEED_A", "TRI", 0);
    image(&mut world, 0, stream);
    image(&mut world, 0, of_member);
    world.events();
    down(&mut world, 0, A);
    let sent = world.sent(0);
    let closed: Vec<i32> = sent
        .iter()
        .filter_map(|bytes| match Msg::decode(bytes).unwrap() {
            Msg::Close(close) => Some(close.stream_id),
            _ => None,
        })
        .collect();
    assert_eq!(closed, [stream], "the group's stream, and not the member's own");
    let asked: Vec<(i32, Option<u16>)> = sent
        .iter()
        .filter_map(|bytes| match Msg::decode(bytes).unwrap() {
            Msg::Request(request) => Some((request.stream_id, request.key.service_id)),
            _ => None,
        })
        .collect();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].1, Some(B));
    assert!(world.kinds().contains(&Kind::ServiceStatus), "all of its items are lost for a moment");
    image(&mut world, 0, asked[0].0);
    let events = world.events();
    assert!(events.iter().any(|event| event.kind == Kind::Image && event.handle == handle), "{events:?}");
    let state = |name: &str| world.sd.service_overview().find(|service| service.name == name).expect("known").up;
    assert_eq!(["FEED", "FEED_A", "FEED_B"].map(state), [true, false, true]);
    assert_eq!(served_from(&mut world), ["FEED_A provider0:14002", "FEED_B provider0:14002"]);
    // Without any member it is down, and up again with one.
    down(&mut world, 0, B);
    assert_eq!(told(&mut world), [false]);
    world.directory_update(0, vec![state_update(B, true, true)]);
    world.turn();
    assert_eq!(told(&mut world), [true]);
}

#[test]
fn members_of_several_providers_are_asked_in_the_order_of_the_group() {
    // The route that is first has the member that is second.
    let mut world = world_of(config(0), &[&[(B, "FEED_B")], &[(A, "FEED_A")]]);
    world.events();
    let (_, stream) = open(&mut world, "FEED", "IBM", 1);
    image(&mut world, 1, stream);
    world.down(1);
    world.turn();
    let (again, service) = asked(&mut world, 0, "IBM").expect("asked of the other member");
    assert_eq!(service, B);
    image(&mut world, 0, again);
    world.events();
    come(&mut world, 1, &[(A, "FEED_A")]);
    world.pass(60);
    assert!(world.closes(0).is_empty(), "nothing goes back that nobody has asked for");
    open(&mut world, "FEED", "TRI", 1);
}

#[test]
fn a_full_window_of_a_member_is_waited_for() {
    let mut world = world_of(config(0), &[&[(A, "FEED_A")], &[(B, "FEED_B")]]);
    let load = Load { open_window: Some(1), ..Load::default() };
    world.directory_update(0, vec![with_load(state_update(A, true, true), load)]);
    world.events();
    let (_, stream) = open(&mut world, "FEED", "IBM", 0);
    // The window is the provider's, whatever name an item is asked for by.
    for service in ["FEED", "FEED_A"] {
        let id = id_of(&world, service);
        world.open_request(1, id, flags::STREAMING, &request(service));
        world.turn();
        assert!(world.requests(0).is_empty() && world.requests(1).is_empty(), "{service} waits");
    }
    image(&mut world, 0, stream);
    assert_eq!(world.requests(0).len(), 1, "one at a time");
    world.events();
}

#[test]
fn providers_of_one_member_share_its_items() {
    let mut world = world_of(config(0), &[&[(A, "FEED_A")], &[(A, "FEED_A")], &[(B, "FEED_B")]]);
    world.events();
    let group = id_of(&world, "FEED");
    for n in 0..10 {
        world.open_request(1, group, flags::STREAMING, &request(&format!("ITEM{n}")));
    }
    world.turn();
    assert_eq!([0, 1, 2].map(|id| world.requests(id).len()), [5, 5, 0]);
    world.events();
}

#[test]
fn items_go_back_to_a_better_member_after_the_decision_time() {
    for providers in [&[&[(A, "FEED_A"), (B, "FEED_B")][..]][..], &[&[(A, "FEED_A")], &[(B, "FEED_B")]]] {
        let mut world = world_of(config(DECISION), providers);
        let last = providers.len() as u32 - 1;
        world.events();
        down(&mut world, 0, A);
        world.sent(0);
        let (_, stream) = open(&mut world, "FEED", "IBM", last);
        image(&mut world, last, stream);
        world.directory_update(0, vec![state_update(A, true, true)]);
        world.pass(DECISION - 1);
        assert_eq!(asked(&mut world, 0, "IBM"), None, "not yet");
        // A break begins the time anew.
        down(&mut world, 0, A);
        world.directory_update(0, vec![state_update(A, true, true)]);
        world.pass(DECISION - 1);
        assert_eq!(asked(&mut world, 0, "IBM"), None, "{last}: not yet");
        world.pass(3);
        let (again, service) = asked(&mut world, 0, "IBM").expect("it goes back");
        assert_eq!(service, A);
        image(&mut world, 0, again);
        assert!(world.kinds().contains(&Kind::Image));
    }
}

#[test]
fn what_a_member_says_of_all_its_items_is_said_of_the_groups() {
    let mut world = world_of(config(0), &[&[(A, "FEED_A"), (B, "FEED_B")]]);
    let (handle, stream) = open(&mut world, "FEED", "IBM", 0);
    image(&mut world, 0, stream);
    world.events();
    let suspect = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "line");
    let group = id_of(&world, "FEED");
    for member in [B, A] {
        let mut entry = state_update(member, true, true);
        entry.groups.push(Part::Update(Group { group: vec![0, 0], merged_to: None, status: Some(suspect.into()) }));
        world.directory_update(0, vec![entry]);
        let events = world.events();
        let of_group = events.iter().filter(|event| event.kind == Kind::GroupStatus).count();
        assert_eq!(of_group, usize::from(member == A), "{events:?}");
    }
    let mut entry = state_update(A, true, true);
    let said = ServiceState { up: true, accepting_requests: Some(true), status: Some(suspect.into()) };
    entry.state = Some(Part::Set(said));
    world.directory_update(0, vec![entry]);
    let told: Vec<u32> =
        world.events().iter().filter(|event| event.kind == Kind::ServiceStatus).map(|event| event.arg).collect();
    assert!(told.contains(&u32::from(group)), "{told:?} {handle}");
}

#[test]
fn a_group_ends_with_its_last_member() {
    let mut world = world_of(config(0), &[&[(A, "FEED_A"), (B, "FEED_B")]]);
    let (_, stream) = open(&mut world, "FEED", "IBM", 0);
    image(&mut world, 0, stream);
    world.directory_update(0, vec![directory::Service::delete(A)]);
    world.turn();
    world.events();
    let (again, service) = asked(&mut world, 0, "IBM").expect("the other member");
    assert_eq!(service, B);
    image(&mut world, 0, again);
    world.events();
    world.directory_update(0, vec![directory::Service::delete(B)]);
    world.turn();
    let events = world.events();
    let gone = events.iter().filter(|event| event.kind == Kind::ServiceGone).count();
    assert_eq!(gone, 2, "the member and the group: {events:?}");
    // And begins with the next.
    world.directory_update(0, vec![crate::world::service(B, "FEED_B")]);
    world.turn();
    assert_eq!(told(&mut world), [true]);
}

#[test]
fn a_directory_that_is_cleared_takes_no_group_by_its_members_id() {
    let mut world = world_of(config(0), &[&[(A, "FEED_A"), (B, "FEED_B")]]);
    let (_, stream) = open(&mut world, "FEED", "IBM", 0);
    image(&mut world, 0, stream);
    world.events();
    world.directory(0, vec![service(A, "FEED_A"), service(B, "FEED_B")]);
    assert!(world.closes(0).is_empty());
    world.directory(0, vec![service(B, "FEED_B")]);
    world.turn();
    assert_eq!(asked(&mut world, 0, "IBM").map(|asked| asked.1), Some(B));
    world.events();
}

#[test]
fn the_name_of_a_group_is_not_taken_from_a_provider() {
    let mut world = world_of(config(0), &[&[(A, "FEED_A"), (9, "FEED")]]);
    world.events();
    let notices: Vec<String> = world.sd.notices().map(|notice| notice.to_string()).collect();
    assert!(
        notices
            .iter()
            .any(|line| line == "service FEED of provider provider0:14002 is not taken: a service group has that name"),
        "{notices:?}"
    );
    let (_, stream) = open(&mut world, "FEED", "IBM", 0);
    image(&mut world, 0, stream);
    world.directory_update(0, vec![state_update(9, false, true)]);
    world.turn();
    assert!(world.closes(0).is_empty(), "what it says of that name is not the group's");
    world.events();
}

#[test]
fn hot_standby_goes_over_members_of_several_providers() {
    let config = Config { balance: Balance::Hot, sequence_numbers: true, ..config(0) };
    let mut world = world_of(config, &[&[(A, "FEED_A")], &[(B, "FEED_B")]]);
    world.events();
    let (_, stream) = open(&mut world, "FEED", "IBM", 0);
    image(&mut world, 0, stream);
    let (_, service) = asked(&mut world, 1, "IBM").expect("the mirror is asked of the other member");
    assert_eq!(service, B);
    world.events();
}

#[test]
fn lost_sessions_and_random_changes_leave_all_tables_in_order() {
    let mut world = world_of(config(DECISION), &[&[(A, "FEED_A"), (B, "FEED_B")], &[(B, "FEED_B")]]);
    for n in 0..20 {
        let group = id_of(&world, "FEED");
        world.open_request(1, group, flags::STREAMING, &request(&format!("ITEM{n}")));
    }
    world.turn();
    world.events();
    let mut random = 12_345_u32;
    for _ in 0..400 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (id, member) = ((random >> 8) % 2, if (random >> 16).is_multiple_of(2) { A } else { B });
        match (random >> 24) % 6 {
            0 => world.down(id),
            1 => {
                let both: &[(u16, &str)] = &[(A, "FEED_A"), (B, "FEED_B")];
                come(&mut world, id, both);
            }
            2 => world.directory_update(id, vec![state_update(member, (random >> 20).is_multiple_of(2), true)]),
            3 => world.directory_update(id, vec![directory::Service::delete(member)]),
            4 => {
                let requests: Vec<i32> =
                    world.requests(id).iter().filter(|r| r.1.starts_with("ITEM")).map(|r| r.0).collect();
                for stream in requests {
                    world.refresh(id, stream, &[(22, b"1")], WHOLE);
                }
            }
            _ => world.pass(u64::from(random >> 28)),
        }
        world.events();
    }
    for id in [0, 1] {
        world.down(id);
    }
    come(&mut world, 0, &[(A, "FEED_A"), (B, "FEED_B")]);
    world.pass(120);
    world.events();
}
