//! Filtered services: what does not pass is in no image and no update from the Source Distributor on.

use crate::world::*;
use hub_content::cache::rules::CacheRules;
use hub_content::filter::rules::{
    Decimal, FieldRule, FieldSelector, FieldSet, FieldValue, Filters, ServiceFilter, UpdateTypes,
};
use hub_distributor::Config;
use hub_stream::{Kind, Request, flags};
use rwf::DataType;
use rwf::msg::{Domain, MsgKey, PostMsg, RefreshFlags, UpdateMsg, UpdateType};
use std::sync::Arc;

const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);

/// The service loses fields 25 and 30, and quotes.
fn filtering(service: &str, cache: CacheRules) -> Config {
    let filter = ServiceFilter {
        fields: FieldRule::AllBut(FieldSet::new([(25, 25), (30, 31)])),
        withheld: UpdateTypes::NONE.with(UpdateType::QUOTE),
        selector: None,
    };
    let filters = Filters { services: [(service.to_owned(), Arc::new(filter))].into(), others: None };
    Config { filters, cache, ..Config::default() }
}

fn typed(stream: i32, kind: UpdateType, fields: &[(i16, &[u8])], lock: Option<&[u8]>) -> Vec<u8> {
    let body = field_list(fields);
    let update = UpdateMsg {
        container: DataType::FIELD_LIST,
        update_type: kind,
        perm_data: lock,
        body: &body,
        ..UpdateMsg::new(Domain::MARKET_PRICE, stream)
    };
    bytes_of(|w| update.encode(w))
}

/// The fields of what came over the hub, by kind.
fn told(world: &mut World) -> Vec<(Kind, Vec<i16>)> {
    let events = world.events().into_iter().filter(|event| matches!(event.kind, Kind::Image | Kind::Update));
    let fids = |body: &[u8]| fields_of(body).into_iter().map(|(fid, _)| fid).collect();
    let told = |event: Ev| match event.kind {
        Kind::Image => (event.kind, fids(event.image().body)),
        _ => (event.kind, fids(rwf::peek::body(&event.body).unwrap())),
    };
    events.map(told).collect()
}

#[test]
fn fields_and_updates_that_do_not_pass_stay_behind() {
    let mut world = World::with_two_p2pss(filtering("FEED", CacheRules::default()));
    world.open(1, "A");
    let (stream, ..) = world.requests(0)[0];
    world.refresh(0, stream, &[(22, b"1"), (25, b"2"), (31, b"3")], WHOLE);
    world.update(0, stream, &[(25, b"2"), (22, b"3")]);
    world.update(0, stream, &[(25, b"4")]);
    world.update(0, stream, &[(18, b"5")]);
    assert_eq!(
        told(&mut world),
        [(Kind::Image, vec![22]), (Kind::Update, vec![22]), (Kind::Update, vec![18])],
        "an update of which nothing is left is not sent"
    );
    world.bytes(0, &typed(stream, UpdateType::QUOTE, &[(22, b"1")], None));
    world.bytes(0, &typed(stream, UpdateType::TRADE, &[(22, b"1")], None));
    // What it says of who may see the item is not lost.
    world.bytes(0, &typed(stream, UpdateType::QUOTE, &[(25, b"1")], Some(&[3, 1, 0])));
    assert_eq!(told(&mut world), [(Kind::Update, vec![22]), (Kind::Update, vec![])]);
    assert_eq!((world.sd.counters().updates, world.sd.counters().updates_filtered), (4, 2));
    // An update that cannot be read goes on as it is, and is counted.
    let update =
        UpdateMsg { container: DataType::FIELD_LIST, body: b"\xff", ..UpdateMsg::new(Domain::MARKET_PRICE, stream) };
    world.bytes(0, &bytes_of(|w| update.encode(w)));
    assert_eq!(world.kinds(), [Kind::Update]);
    assert_eq!(world.sd.counters().unfiltered, 1);
}

#[test]
fn a_service_without_a_filter_passes_as_it_comes() {
    let mut world = World::with_two_p2pss(filtering("OTHER", CacheRules::default()));
    let (_, stream) = world.open_imaged(1, "A");
    world.update(0, stream, &[(25, b"2")]);
    world.bytes(0, &typed(stream, UpdateType::QUOTE, &[(30, b"1")], None));
    assert_eq!(told(&mut world), [(Kind::Update, vec![25]), (Kind::Update, vec![30])]);
    assert_eq!(world.sd.counters().updates_filtered, 0);
}

#[test]
fn cached_images_are_without_the_fields_and_with_the_quotes() {
    let mut world = World::with_two_p2pss(filtering("FEED", CacheRules::everything()));
    world.open(1, "A");
    let (stream, ..) = world.requests(0)[0];
    world.refresh(0, stream, &[(22, b"1"), (25, b"2")], WHOLE);
    world.bytes(0, &typed(stream, UpdateType::QUOTE, &[(22, b"7"), (25, b"3")], None));
    assert_eq!(told(&mut world), [(Kind::Image, vec![22])]);
    world.open_with(2, "A", flags::STREAMING);
    let events = world.events();
    assert_eq!(fields_of(events[1].image().body), [(22, b"7".to_vec())]);
    assert!(world.requests(0).is_empty());
    world.update(0, stream, &[(22, b"8")]);
    assert_eq!(told(&mut world), [(Kind::Update, vec![22])]);
}

#[test]
fn snapshots_and_parts_are_filtered() {
    let mut world = World::with_two_p2pss(filtering("FEED", CacheRules::default()));
    world.open_with(2, "B", flags::SNAPSHOT_ONLY);
    let (stream, ..) = world.requests(0)[0];
    world.refresh_with(0, &[(22, b"1"), (25, b"2")], |refresh| {
        (refresh.stream_id, refresh.part_num) = (stream, Some(0));
        refresh.flags = RefreshFlags::SOLICITED;
    });
    world.refresh_with(0, &[(30, b"2")], |refresh| {
        (refresh.stream_id, refresh.part_num) = (stream, Some(1));
        refresh.flags = WHOLE;
        refresh.state.stream = rwf::StreamState::NON_STREAMING;
    });
    assert_eq!(told(&mut world), [(Kind::Image, vec![22]), (Kind::Image, vec![])], "a part may be empty");
}

#[test]
fn what_non_interactive_providers_publish_is_filtered() {
    let mut world = World::new(filtering("NI_PUB", CacheRules::default()));
    world.p2ps_up(1);
    for id in [0, 1] {
        world.nip_up(id);
        world.directory(id, vec![service(3, "NI_PUB")]);
    }
    world.publish(0, 5, 3, "A", &[(22, b"1"), (25, b"2")]);
    world.events();
    let handle = world.open(1, "A");
    world.update(0, 5, &[(25, b"7")]);
    world.update(0, 5, &[(22, b"7"), (25, b"7")]);
    world.bytes(0, &typed(5, UpdateType::QUOTE, &[(18, b"7")], None));
    assert_eq!(told(&mut world), [(Kind::Update, vec![22])]);
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    assert_eq!(told(&mut world), [(Kind::Image, vec![22, 18])], "the image has what was withheld");
    // Another one takes the item over, and leaves it: what stood by meanwhile is filtered as well.
    world.publish(1, 8, 3, "A", &[(22, b"9"), (30, b"2")]);
    world.update(0, 5, &[(22, b"8"), (25, b"8")]);
    assert_eq!(told(&mut world), [(Kind::Image, vec![22])]);
    world.down(1);
    assert_eq!(told(&mut world), [(Kind::Image, vec![22, 18])]);
}

#[test]
fn what_is_posted_is_filtered() {
    let mut world = World::new(filtering("NI_PUB", CacheRules::default()));
    world.p2ps_up(1);
    world.nip_up(0);
    world.directory(0, vec![service(3, "NI_PUB")]);
    world.publish(0, 5, 3, "A", &[(22, b"1")]);
    world.events();
    let handle = world.open(1, "A");
    world.events();
    for fields in [&[(22, &b"2"[..]), (25, b"2")][..], &[(25, b"3")]] {
        let body = field_list(fields);
        let post = PostMsg {
            container: DataType::FIELD_LIST,
            key: Some(MsgKey::item(3, b"A")),
            body: &body,
            ..PostMsg::new(Domain::MARKET_PRICE, 1)
        };
        let rwf = bytes_of(|w| post.encode(w));
        world.request(1, &Request::Post { service: 1, handle: Some(handle), token: 1, rwf: &rwf }).unwrap();
    }
    assert_eq!(told(&mut world), [(Kind::Update, vec![22])]);
}

/// Records of type 1 lose field 25, and quotes.
fn selecting(cache: CacheRules) -> Config {
    let filter = ServiceFilter {
        fields: FieldRule::AllBut(FieldSet::new([(25, 25), (259, 259)])),
        withheld: UpdateTypes::NONE.with(UpdateType::QUOTE),
        selector: Some(FieldSelector { fid: 259, values: vec![FieldValue::Number(1)] }),
    };
    Config { filters: Filters { others: Some(Arc::new(filter)), ..Filters::default() }, cache, ..Config::default() }
}

#[test]
fn items_that_a_field_selects_are_filtered_and_no_others() {
    let mut world = World::with_two_p2pss(selecting(CacheRules::default()));
    for (name, kind, filtered) in [("A", 1, true), ("B", 2, false), ("C", 0, false)] {
        let handle = world.open(1, name);
        let (stream, ..) = world.requests(0)[0];
        let mut image: Vec<(i16, &[u8])> = vec![(22, b"1"), (25, b"2"), (259, &[2])];
        match kind {
            1 => image[2].1 = &[1],
            0 => drop(image.pop()),
            _ => {}
        }
        world.refresh(0, stream, &image, WHOLE);
        world.update(0, stream, &[(25, b"4")]);
        world.bytes(0, &typed(stream, UpdateType::QUOTE, &[(22, b"1")], None));
        let whole: Vec<i16> = image.iter().map(|field| field.0).collect();
        let expected = if filtered {
            vec![(Kind::Image, vec![22])]
        } else {
            vec![(Kind::Image, whole), (Kind::Update, vec![25]), (Kind::Update, vec![22])]
        };
        assert_eq!(told(&mut world), expected, "{name}");
        // Another image decides anew.
        let other: &[u8] = if filtered { &[2] } else { &[1] };
        world.refresh(0, stream, &[(22, b"1"), (259, other)], RefreshFlags::REFRESH_COMPLETE);
        world.update(0, stream, &[(25, b"4")]);
        let expected = if filtered {
            vec![(Kind::Image, vec![22, 259]), (Kind::Update, vec![25])]
        } else {
            vec![(Kind::Image, vec![22])]
        };
        assert_eq!(told(&mut world), expected, "{name}");
        world.close(1, handle);
        world.events();
    }
}

#[test]
fn a_real_selects_by_its_value() {
    let filter = ServiceFilter {
        fields: FieldRule::AllBut(FieldSet::new([(25, 25)])),
        selector: Some(FieldSelector { fid: 22, values: vec![FieldValue::Decimal(Decimal::parse("1.50").unwrap())] }),
        ..ServiceFilter::default()
    };
    let filters = Filters { others: Some(Arc::new(filter)), ..Filters::default() };
    let mut world = World::with_two_p2pss(Config { filters, ..Config::default() });
    // Hint and mantissa: 150 hundredths, 15 tenths, 3 halves, 12 eighths; 151 hundredths, -15 tenths, 15, a blank, nothing.
    let selected: [&[u8]; 4] = [&[12, 0, 150], &[13, 15], &[23, 3], &[25, 12]];
    let others: [&[u8]; 5] = [&[12, 0, 151], &[13, 0xF1], &[14, 15], &[0x20], &[]];
    let images = selected.into_iter().map(|data| (data, true)).chain(others.into_iter().map(|data| (data, false)));
    for (number, (bid, is_selected)) in images.enumerate() {
        let handle = world.open(1, &format!("I{number}"));
        let (stream, ..) = world.requests(0)[0];
        world.refresh(0, stream, &[(22, bid), (25, b"2")], WHOLE);
        let expected = if is_selected { vec![22] } else { vec![22, 25] };
        assert_eq!(told(&mut world), [(Kind::Image, expected)], "{bid:?}");
        world.close(1, handle);
        world.events();
    }
}

#[test]
fn published_items_are_selected_by_their_images() {
    let mut world = World::new(selecting(CacheRules::default()));
    world.p2ps_up(1);
    world.nip_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.publish(0, 5, 7, "A", &[(22, b"1"), (25, b"2"), (259, &[1])]);
    world.publish(0, 6, 7, "B", &[(22, b"1"), (25, b"2"), (259, &[2])]);
    world.events();
    world.open_with(1, "A", flags::STREAMING);
    world.open_with(1, "B", flags::STREAMING);
    assert_eq!(told(&mut world), [(Kind::Image, vec![22]), (Kind::Image, vec![22, 25, 259])]);
    for stream in [5, 6] {
        world.update(0, stream, &[(25, b"3")]);
        world.bytes(0, &typed(stream, UpdateType::QUOTE, &[(22, b"1")], None));
    }
    assert_eq!(told(&mut world), [(Kind::Update, vec![25]), (Kind::Update, vec![22])]);
    // A P2PS that comes later gets what passes.
    world.p2ps_up(2);
    world.open_with(2, "B", flags::STREAMING);
    assert_eq!(told(&mut world), [(Kind::Image, vec![22, 25, 259])]);
}
