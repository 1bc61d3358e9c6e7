//! Services that are conflated before they go to the hub: what merges, what waits, and what nothing may overtake.

use crate::world::*;
use hub_content::cache::rules::{CacheRules, NamePattern};
use hub_content::conflation::{Exceptions, FieldIntervals, FieldValue, ServiceConflation, Settings};
use hub_content::filter::rules::{FieldRule, FieldSet, Filters, ServiceFilter, UpdateTypes};
use hub_distributor::Config;
use hub_stream::{Kind, Request, flags};
use rwf::msg::{Domain, Msg, MsgKey, RefreshFlags, RequestMsg, UpdateMsg, UpdateType};
use rwf::rdm::directory;
use rwf::{DataState, DataType, Qos, Rate, StateCode, StreamState};
use std::sync::Arc;

/// Two seconds, as the directory and images say.
const CONFLATED: Qos = Qos { rate: Rate::TIME_CONFLATED, rate_info: 2_000, ..QOS };
const ANSWER: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);

/// `FEED` is conflated over two seconds.
fn conflating(exceptions: Exceptions) -> Config {
    let feed = ServiceConflation { interval: 2_000, exceptions, ..ServiceConflation::default() };
    let conflation = Settings { services: [("FEED".to_owned(), feed)].into(), ..Settings::default() };
    Config { conflation, ..Config::default() }
}

fn world(config: Config) -> World {
    World::with_two_p2pss(config)
}

/// Opens an item in the quality that P2PSs are told of, and answers with an image: handle and stream.
fn open(world: &mut World, name: &str, image: &[(i16, &[u8])]) -> (u32, i32) {
    let request = RequestMsg { qos: Some(CONFLATED), ..request(name) };
    let token = world.open_request(1, 1, flags::STREAMING, &request);
    let events = world.events();
    let handle = events.iter().find(|e| e.kind == Kind::ItemOpened && e.arg == token).expect("it is open").handle;
    let (stream, asked, _) = world.requests(0).pop().expect("a request");
    assert_eq!(asked, name);
    world.refresh(0, stream, image, ANSWER);
    assert!(world.kinds().iter().all(|kind| *kind == Kind::Image));
    (handle, stream)
}

fn typed(stream: i32, kind: UpdateType, fields: &[(i16, &[u8])]) -> Vec<u8> {
    let body = field_list(fields);
    let update = UpdateMsg {
        container: DataType::FIELD_LIST,
        update_type: kind,
        body: &body,
        ..UpdateMsg::new(Domain::MARKET_PRICE, stream)
    };
    bytes_of(|w| update.encode(w))
}

/// A message that came over the hub: of an update its fields and how many it stands for, of all else the kind.
type Published = (Kind, Vec<(i16, Vec<u8>)>, u16);

/// The messages that came over the hub since the last call, in order.
fn told(world: &mut World) -> Vec<Published> {
    let events = world.events().into_iter();
    let told = |event: Ev| match event.kind {
        Kind::Update => {
            let Msg::Update(update) = Msg::decode(&event.body).unwrap() else { panic!("{event:?}") };
            (event.kind, fields_of(update.body), update.conflation.map_or(1, |conflation| conflation.count))
        }
        kind => (kind, Vec::new(), 0),
    };
    events.map(told).collect()
}

fn update(fields: &[(i16, &[u8])], count: u16) -> Published {
    (Kind::Update, fields.iter().map(|(fid, value)| (*fid, value.to_vec())).collect(), count)
}

fn other(kind: Kind) -> Published {
    (kind, Vec::new(), 0)
}

/// The qualities of the services that P2PSs were told of.
fn qualities(world: &mut World) -> Vec<Vec<Qos>> {
    let services = world.events().into_iter().filter(|event| event.kind == Kind::Service);
    let qos = |event: Ev| {
        let length = usize::from(u16::from_le_bytes([event.body[0], event.body[1]]));
        let entry =
            directory::Service::decode_filters(1, directory::Action::Add, &event.body[2 + length..]).expect("filters");
        let Some(directory::Part::Set(info)) = entry.info else { panic!("{entry:?}") };
        info.qos
    };
    services.map(qos).collect()
}

#[test]
fn quotes_go_out_once_an_interval_and_the_last_values_count() {
    let mut world = world(conflating(Exceptions::default()));
    let (_, stream) = open(&mut world, "A", &[(22, b"1")]);
    for value in [b"2", b"3", b"4"] {
        world.update(0, stream, &[(22, value)]);
    }
    world.update(0, stream, &[(25, b"9")]);
    assert_eq!(told(&mut world), [], "they wait");
    world.pass(3);
    assert_eq!(told(&mut world), [update(&[(22, b"4"), (25, b"9")], 4)]);
    assert_eq!((world.sd.counters().updates, world.sd.counters().updates_conflated), (1, 3));
    assert!(world.sd.timeout().is_none_or(|at| at > world.now), "nothing is due any more");
    // A single update goes out as it came.
    world.update(0, stream, &[(22, b"5")]);
    world.pass(3);
    assert_eq!(told(&mut world), [update(&[(22, b"5")], 1)]);
}

#[test]
fn trades_and_whatever_else_is_told_go_out_behind_what_waits() {
    let mut world = world(conflating(Exceptions::default()));
    let (handle, stream) = open(&mut world, "A", &[(22, b"1")]);
    let wait = |world: &mut World| {
        world.update(0, stream, &[(22, b"2")]);
        world.update(0, stream, &[(22, b"3")]);
        assert_eq!(told(world), []);
    };
    let waited = update(&[(22, b"3")], 2);
    wait(&mut world);
    world.bytes(0, &typed(stream, UpdateType::TRADE, &[(6, b"7")]));
    assert_eq!(told(&mut world), [waited.clone(), update(&[(6, b"7")], 1)]);
    wait(&mut world);
    world.status(0, stream, state(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE));
    assert_eq!(told(&mut world), [waited.clone(), other(Kind::ItemStatus)]);
    wait(&mut world);
    world.generic(0, stream);
    assert_eq!(told(&mut world), [waited.clone(), other(Kind::Generic)]);
    wait(&mut world);
    // The image of an event says where it is, which `Ev::image` holds it to.
    world.refresh(0, stream, &[(22, b"8")], RefreshFlags::REFRESH_COMPLETE);
    let events = world.events();
    assert_eq!(events.iter().map(|event| event.kind).collect::<Vec<_>>(), [Kind::Update, Kind::Image]);
    assert_eq!(fields_of(events[1].image().body), [(22, b"8".to_vec())]);
    wait(&mut world);
    let suspect = state(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE);
    let state_of_service =
        directory::ServiceState { up: true, accepting_requests: Some(true), status: Some(suspect.into()) };
    let mut entry = state_update(7, true, true);
    entry.state = Some(directory::Part::Update(state_of_service));
    world.directory_update(0, vec![entry]);
    world.turn();
    assert_eq!(told(&mut world), [waited.clone(), other(Kind::ServiceStatus)]);
    // Closed for good: the end is behind it, too.
    world.refresh(0, stream, &[(22, b"8")], RefreshFlags::REFRESH_COMPLETE);
    world.events();
    wait(&mut world);
    world.status(0, stream, state(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND));
    assert_eq!(told(&mut world), [waited, other(Kind::ItemStatus)]);
    world.close(1, handle);
    world.pass(3);
    assert_eq!(told(&mut world), []);
}

#[test]
fn p2pss_are_told_of_the_interval_and_providers_are_asked_for_their_quality() {
    let mut world = World::new(conflating(Exceptions::default()));
    world.p2ps_up(1);
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED"), service(8, "PLAIN")]);
    assert_eq!(qualities(&mut world), [vec![CONFLATED], vec![QOS]]);
    world.sent(0);
    world.open_request(1, 1, flags::STREAMING, &RequestMsg { qos: Some(CONFLATED), ..request("A") });
    let sent = world.sent(0);
    let Ok(Msg::Request(asked)) = Msg::decode(&sent[0]) else { panic!("{sent:?}") };
    assert_eq!(asked.qos, Some(QOS));
    // A P2PS that still asks as the service was before gets the same item.
    world.events();
    world.open_request(1, 1, flags::STREAMING, &request("A"));
    assert!(world.requests(0).is_empty());
}

#[test]
fn items_that_are_excepted_pass() {
    let by_field = FieldIntervals { fid: 4, values: vec![(FieldValue::Number(7), 0)] };
    let exceptions = Exceptions {
        by_field: Some(by_field),
        not_items: vec![NamePattern::new("FX*")],
        only_fields: Some(Arc::new(FieldSet::new([(22, 25)]))),
    };
    let mut world = world(conflating(exceptions));
    for (name, exchange, fid, waits) in
        [("A", 1_u8, 22_i16, true), ("B", 7, 22, false), ("FXY", 1, 22, false), ("C", 1, 30, false)]
    {
        let (_, stream) = open(&mut world, name, &[(4, &[exchange])]);
        world.update(0, stream, &[(fid, b"2")]);
        let passed = if waits { vec![] } else { vec![update(&[(fid, b"2")], 1)] };
        assert_eq!(told(&mut world), passed, "{name}");
    }
}

#[test]
fn who_comes_late_has_an_image_and_then_the_updates_behind_it() {
    let mut world = world(Config { cache: CacheRules::everything(), ..conflating(Exceptions::default()) });
    let (_, stream) = open(&mut world, "A", &[(22, b"1")]);
    world.update(0, stream, &[(22, b"2")]);
    world.update(0, stream, &[(22, b"3")]);
    world.open_request(2, 1, flags::STREAMING, &RequestMsg { qos: Some(CONFLATED), ..request("A") });
    let events = world.events();
    let kinds: Vec<Kind> = events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [Kind::ItemOpened, Kind::Update, Kind::Image], "what waited is in the image");
    assert_eq!(fields_of(events[2].image().body), [(22, b"3".to_vec())]);
    world.pass(3);
    assert_eq!(told(&mut world), []);
}

#[test]
fn an_image_for_one_p2ps_alone_comes_behind_what_waited() {
    let cache = CacheRules::everything();
    let mut world = world(Config { cache, point_to_point: true, ..conflating(Exceptions::default()) });
    let (handle, stream) = open(&mut world, "A", &[(22, b"1")]);
    world.sd.point_to_point_blocks(|_, _| {});
    world.update(0, stream, &[(22, b"2")]);
    let before = world.sd.next_position();
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    let mut alone = Vec::new();
    world.sd.point_to_point_blocks(|id, block| alone.push((id, block.to_vec())));
    let block = hub_stream::Block::parse(&alone[0].1).unwrap();
    let image = block.messages().next().unwrap().unwrap();
    let position = u64::from_le_bytes(image.body[..8].try_into().unwrap());
    assert_eq!((alone.len(), image.kind, position), (1, Kind::Image, before + 1));
    assert_eq!(told(&mut world), [update(&[(22, b"2")], 1)]);
}

#[test]
fn what_non_interactive_providers_publish_is_conflated() {
    let feed = ServiceConflation { interval: 2_000, ..ServiceConflation::default() };
    let conflation = Settings { services: [("NI_PUB".to_owned(), feed)].into(), ..Settings::default() };
    let mut world = World::new(Config { conflation, ..Config::default() });
    world.p2ps_up(1);
    world.nip_up(0);
    world.directory(0, vec![service(3, "NI_PUB")]);
    world.publish(0, 5, 3, "A", &[(22, b"1")]);
    assert_eq!(qualities(&mut world), [vec![CONFLATED]]);
    world.open_request(1, 1, flags::STREAMING, &RequestMsg { qos: Some(CONFLATED), ..request("A") });
    assert_eq!(world.kinds(), [Kind::ItemOpened, Kind::Image]);
    world.update(0, 5, &[(22, b"2")]);
    world.update(0, 5, &[(22, b"3")]);
    assert_eq!(told(&mut world), []);
    world.pass(3);
    assert_eq!(told(&mut world), [update(&[(22, b"3")], 2)]);
    // Another life of the publisher begins with an image, behind what the one before had said.
    world.update(0, 5, &[(22, b"4")]);
    world.down(0);
    let told = told(&mut world);
    assert_eq!(told[0], update(&[(22, b"4")], 1), "{told:?}");
}

#[test]
fn what_waits_of_an_item_that_nobody_has_open_any_more_is_forgotten() {
    let mut world = world(conflating(Exceptions::default()));
    let (handle, stream) = open(&mut world, "A", &[(22, b"1")]);
    world.update(0, stream, &[(22, b"2")]);
    world.close(1, handle);
    let (next, _) = open(&mut world, "B", &[(22, b"1")]);
    assert_eq!(next, handle, "the number is another's");
    world.pass(3);
    assert_eq!(told(&mut world), []);
}

#[test]
fn what_passes_of_a_filtered_service_is_conflated() {
    let filter = ServiceFilter {
        fields: FieldRule::AllBut(FieldSet::new([(25, 25)])),
        withheld: UpdateTypes::NONE,
        selector: None,
    };
    let filters = Filters { others: Some(Arc::new(filter)), ..Filters::default() };
    let mut world = world(Config { filters, ..conflating(Exceptions::default()) });
    let (_, stream) = open(&mut world, "A", &[(22, b"1")]);
    world.update(0, stream, &[(22, b"2"), (25, b"1")]);
    world.update(0, stream, &[(30, b"3")]);
    world.pass(3);
    assert_eq!(told(&mut world), [update(&[(22, b"2"), (30, b"3")], 2)]);
}

#[test]
fn private_streams_are_not_conflated() {
    let mut world = world(conflating(Exceptions::default()));
    world.open_request(1, 1, flags::STREAMING | flags::PRIVATE, &RequestMsg { qos: Some(CONFLATED), ..request("A") });
    let (stream, ..) = world.requests(0)[0];
    world.refresh_with(0, &[(22, b"1")], |refresh| {
        (refresh.stream_id, refresh.flags) = (stream, ANSWER | RefreshFlags::PRIVATE_STREAM);
        refresh.key = Some(MsgKey { name_type: Some(1), ..MsgKey::item(7, b"A") });
    });
    world.events();
    world.update(0, stream, &[(22, b"2")]);
    assert_eq!(told(&mut world), [update(&[(22, b"2")], 1)]);
}
