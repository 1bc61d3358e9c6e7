//! What clients may contribute: services, fields and rates.

use crate::world::*;
use hub_content::filter::rules::FieldSet;
use hub_distributor::{Config, ContributionRules, RouteConfig};
use hub_stream::{Kind, Request};
use rwf::DataType;
use rwf::msg::{AckMsg, Domain, Msg, MsgKey, NakCode, PostFlags, PostMsg, UpdateMsg};

/// A world with a provider on each of two routes, whose services have these rules.
fn world(contributions: ContributionRules) -> World {
    let route = |server_cost| RouteConfig { server_cost, ..RouteConfig::default() };
    let mut world = World::new(Config { contributions, routes: vec![route(5), route(1)], ..Config::default() });
    world.p2ps_up(1);
    for id in [0, 1] {
        world.route_up(id);
        world.directory(id, vec![service(7, "FEED"), service(8, "OTHER")]);
        world.sent(id);
    }
    world.events();
    world
}

/// Posts to a service (1 is FEED, 2 OTHER), and gives the refusal, if there is one.
fn post(world: &mut World, service: u16, container: DataType, body: &[u8]) -> Option<NakCode> {
    let post = PostMsg {
        container,
        flags: PostFlags::ACK | PostFlags::POST_COMPLETE,
        post_id: Some(1),
        key: Some(MsgKey::item(service, b"A")),
        body,
        ..PostMsg::new(Domain::MARKET_PRICE, 1)
    };
    let rwf = bytes_of(|w| post.encode(w));
    world.request(1, &Request::Post { service, handle: None, token: 3, rwf: &rwf }).unwrap();
    let events = world.events();
    let ack = events.iter().find(|event| event.kind == Kind::Ack);
    let posts = [0, 1].map(|id| world.sent(id).len());
    assert_eq!(posts, [0, usize::from(ack.is_none())], "the provider of the lower cost has it, or none");
    ack.map(|event| event.ack().nak_code.expect("a refusal"))
}

fn fields(fids: &[i16]) -> Vec<u8> {
    field_list(&fids.iter().map(|&fid| (fid, &b"1"[..])).collect::<Vec<_>>())
}

#[test]
fn the_services_that_are_named_take_posts() {
    let mut world = world(ContributionRules { services: ["FEED".to_owned()].into(), ..ContributionRules::default() });
    let body = fields(&[22]);
    assert_eq!(post(&mut world, 1, DataType::FIELD_LIST, &body), None);
    assert_eq!(post(&mut world, 2, DataType::FIELD_LIST, &body), Some(NakCode::DENIED_BY_SRC));
    assert_eq!(world.sd.counters().refused_posts, 1);
}

#[test]
fn posts_have_the_fields_that_are_named_and_no_others() {
    let allowed = [("FEED".to_owned(), FieldSet::new([(22, 25)]))].into();
    let mut world = world(ContributionRules { fields: allowed, ..ContributionRules::default() });
    let invalid = Some(NakCode::INVALID_CONTENT);
    let (good, bad) = (fields(&[22, 25]), fields(&[22, 30]));
    let inside = |body: &[u8]| {
        let container = DataType::FIELD_LIST;
        let update = UpdateMsg { container, body, ..UpdateMsg::new(Domain::MARKET_PRICE, 0) };
        bytes_of(|w| Msg::Update(update.clone()).encode(w))
    };
    for (container, body, refusal) in [
        (DataType::FIELD_LIST, &good, None),
        (DataType::FIELD_LIST, &bad, invalid),
        (DataType::MSG, &inside(&good), None),
        (DataType::MSG, &inside(&bad), invalid),
        (DataType::NO_DATA, &Vec::new(), None),
        (DataType::OPAQUE, &good, invalid),
        (DataType::FIELD_LIST, &vec![0xFF], invalid),
    ] {
        assert_eq!(post(&mut world, 1, container, body), refusal, "{container:?} {body:?}");
    }
    assert_eq!(post(&mut world, 2, DataType::FIELD_LIST, &bad), None, "another service");
}

#[test]
fn a_service_takes_so_many_posts_in_a_second() {
    let rates = [(String::new(), 2)].into();
    let mut world = world(ContributionRules { rates, ..ContributionRules::default() });
    let body = fields(&[22]);
    let three = |world: &mut World| [0; 3].map(|_| post(world, 1, DataType::FIELD_LIST, &body));
    let full = [None, None, Some(NakCode::NO_RESOURCES)];
    assert_eq!(three(&mut world), full);
    assert_eq!(post(&mut world, 2, DataType::FIELD_LIST, &fields(&[22])), None, "each service has its own");
    world.pass(1);
    world.sent(0);
    world.sent(1);
    assert_eq!(three(&mut world), full);
}

#[test]
fn who_posts_much_keeps_nobody_from_posting() {
    let (rates, least_rates) = ([("FEED".to_owned(), 3)].into(), [("FEED".to_owned(), 1)].into());
    let mut world = world(ContributionRules { rates, least_rates, ..ContributionRules::default() });
    let mut as_user = |id: u32| {
        let body = fields(&[22]);
        let post = PostMsg {
            container: DataType::FIELD_LIST,
            flags: PostFlags::ACK | PostFlags::POST_COMPLETE,
            post_id: Some(1),
            key: Some(MsgKey::item(1, b"A")),
            post_user_info: rwf::msg::PostUserInfo { addr: 1, id },
            body: &body,
            ..PostMsg::new(Domain::MARKET_PRICE, 1)
        };
        let rwf = bytes_of(|w| post.encode(w));
        world.request(1, &Request::Post { service: 1, handle: None, token: 3, rwf: &rwf }).unwrap();
        !world.events().iter().any(|event| event.kind == Kind::Ack)
    };
    let taken: Vec<bool> = [7, 7, 7, 7, 8, 8, 9].map(&mut as_user).into();
    assert_eq!(taken, [true, true, true, false, true, false, true]);
}

#[test]
fn posts_are_of_the_templates_that_are_named() {
    let only = [("FEED".to_owned(), [80].into())].into();
    let not = [("OTHER".to_owned(), [90].into())].into();
    let mut world = world(ContributionRules { templates: only, not_templates: not, ..ContributionRules::default() });
    let of = |template: Option<u16>| {
        bytes_of(|w| {
            let mut list = rwf::FieldListEncoder::begin(w)?;
            if let Some(num) = template {
                list.info(rwf::container::FieldListInfo { dict_id: 1, num })?;
            }
            list.raw(22, b"1")?;
            list.finish()
        })
    };
    let invalid = Some(NakCode::INVALID_CONTENT);
    for (service, template, refusal) in [
        (1, Some(80), None),
        (1, Some(81), invalid),
        (1, None, invalid),
        (2, Some(80), None),
        (2, Some(90), invalid),
        (2, None, None),
    ] {
        let body = of(template);
        assert_eq!(post(&mut world, service, DataType::FIELD_LIST, &body), refusal, "{service} {template:?}");
        let update =
            UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 0) };
        let inside = bytes_of(|w| Msg::Update(update.clone()).encode(w));
        assert_eq!(post(&mut world, service, DataType::MSG, &inside), refusal, "{service} {template:?} within");
    }
}

#[test]
fn posts_without_a_number_get_one_by_item_and_their_posters_hear_of_none() {
    let levels = [("FEED".to_owned(), true)].into();
    let mut world = world(ContributionRules { levels, ..ContributionRules::default() });
    let mut number = |service: u16, name: &[u8], seq_num: Option<u32>| {
        let post = PostMsg {
            flags: PostFlags::ACK | PostFlags::POST_COMPLETE,
            post_id: Some(1),
            seq_num,
            key: Some(MsgKey::item(service, name)),
            ..PostMsg::new(Domain::MARKET_PRICE, 1)
        };
        let rwf = bytes_of(|w| post.encode(w));
        world.request(1, &Request::Post { service, handle: None, token: 3, rwf: &rwf }).unwrap();
        let sent = world.sent(1);
        let Msg::Post(post) = Msg::decode(&sent[0]).unwrap() else { panic!("{sent:?}") };
        // The provider's answer names the number that it has got.
        let ack = AckMsg { seq_num: post.seq_num, ..AckMsg::new(Domain::MARKET_PRICE, post.stream_id) };
        let ack = AckMsg { ack_id: post.post_id.unwrap(), ..ack };
        world.message(1, |w| ack.encode(w));
        let events = world.events();
        let ack = events.iter().find(|event| event.kind == Kind::Ack).expect("an answer");
        assert_eq!(ack.ack().seq_num, seq_num);
        post.seq_num
    };
    assert_eq!(number(1, b"A", None), Some(1));
    assert_eq!(number(1, b"A", None), Some(2));
    assert_eq!(number(1, b"B", None), Some(1), "each item has its own");
    assert_eq!(number(1, b"A", Some(70)), Some(70), "its poster's");
    assert_eq!(number(1, b"A", None), Some(3));
    assert_eq!(number(2, b"A", None), None, "another service");
}
