//! Filtered services at a P2PS: nobody who watches gets what does not pass, whatever is asked for.

use crate::world::{PRICE, SECOND, World, encode, fields, item, token_of};
use hub_content::cache::rules::CacheRules;
use hub_content::filter::rules::{FieldRule, FieldSet, Filters, ServiceFilter, UpdateTypes};
use hub_p2ps::Config;
use hub_p2ps::conflation::{ServiceConflation, Settings};
use hub_stream::{Event, flags};
use rwf::DataType;
use rwf::container::{FieldListEncoder, Map, MapAction, MapEncoder, MapHead, SetScope};
use rwf::msg::{Domain, Msg, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, UpdateMsg, UpdateType};
use rwf::rdm::request::{Payload, View};
use rwf::{Primitive, State};
use std::sync::Arc;

fn filters(fields: FieldRule) -> Filters {
    let withheld = UpdateTypes::NONE.with(UpdateType::QUOTE);
    Filters { others: Some(Arc::new(ServiceFilter { fields, withheld, selector: None })), ..Filters::default() }
}

/// Fields 25 and 30 and quotes do not pass.
fn filtering() -> Config {
    Config { filters: filters(FieldRule::AllBut(FieldSet::new([(25, 25), (30, 30)]))), ..Config::default() }
}

fn through(fids: Vec<i16>) -> Vec<u8> {
    encode(|w| Payload { view: Some(View::Fields(fids)), ..Payload::default() }.encode(w))
}

fn viewed(stream: i32, body: &[u8]) -> RequestMsg<'_> {
    let flags = RequestFlags::STREAMING | RequestFlags::HAS_VIEW;
    RequestMsg { flags, container: DataType::ELEMENT_LIST, body, ..item(stream, "IBM") }
}

fn quote(list: &[(i16, u64)]) -> Vec<u8> {
    let body = fields(list);
    let msg = UpdateMsg {
        container: DataType::FIELD_LIST,
        update_type: UpdateType::QUOTE,
        body: &body,
        ..UpdateMsg::new(PRICE, 77)
    };
    encode(|w| msg.encode(w))
}

fn image(stream: i32, rest: &str) -> String {
    format!("refresh {stream} solicited complete OPEN/OK group 3 key 1:IBM {rest}")
}

/// IBM at client 1 on stream 5, with its first image.
fn open(config: Config) -> World {
    let mut world = World::with_feed_and(config);
    world.clients([1, 2]);
    world.request(1, &item(5, "IBM"));
    let opens = world.asked();
    assert!(!opens[0].contains("HAS_VIEW"), "{opens:?}");
    world.publish(0, |p| {
        p.opened(token_of(&opens[0]), 4).image(4, &[(22, 1), (25, 2), (31, 3)]);
    });
    assert_eq!(world.take(1), [image(5, "22=1 31=3")]);
    world
}

#[test]
fn fields_and_updates_that_do_not_pass_stay_behind() {
    let mut world = open(filtering());
    world.publish(0, |p| {
        p.update(4, &[(22, 7), (25, 8)]).update(4, &[(25, 9)]).update(4, &[(18, 9)]);
        p.writer.update(4, false, &quote(&[(22, 5)]));
    });
    assert_eq!(world.take(1), ["update 5 22=7", "update 5 18=9"]);
    assert_eq!(world.p2ps.counters().updates_filtered, 1);
    // The lock of the item is told, without the fields.
    let body = fields(&[(25, 1)]);
    let (container, perm_data) = (DataType::FIELD_LIST, Some(&[3, 1, 1, 0x65, 0x62, 0xC0][..]));
    let update_type = UpdateType::QUOTE;
    let locked = UpdateMsg { container, perm_data, update_type, body: &body, ..UpdateMsg::new(PRICE, 77) };
    world.publish(0, |p| {
        p.writer.update_with(4, flags::HAS_LOCK, &encode(|w| locked.encode(w)));
    });
    assert_eq!(world.take(1), ["update 5"]);
    // A reissue, a snapshot and a private stream see no more.
    world.request(1, &item(5, "IBM"));
    world.request(2, &RequestMsg { flags: RequestFlags::NONE, ..item(6, "IBM") });
    assert_eq!(world.asked(), ["0: refresh 4"]);
    world.publish(0, |p| {
        p.image(4, &[(22, 2), (30, 2)]);
    });
    assert_eq!(world.take(1), [image(5, "22=2")]);
    assert_eq!(world.take(2), ["refresh 6 solicited complete NON_STREAMING/OK group 3 key 1:IBM 22=2"]);
    let private = RequestFlags::STREAMING | RequestFlags::PRIVATE_STREAM;
    world.request(2, &RequestMsg { flags: private, ..item(7, "IBM") });
    let token = world.token();
    world.asked();
    world.publish(0, |p| {
        p.opened(token, 9).image(9, &[(30, 2)]).update(9, &[(30, 2)]).update(9, &[(22, 3)]);
    });
    let got = world.take(2);
    assert_eq!(got.len(), 2, "{got:?}");
    assert!(!got[0].contains("30=") && got[1] == "update 7 22=3", "{got:?}");
}

#[test]
fn a_view_shows_what_passes_of_it() {
    let mut world = open(filtering());
    world.request(2, &viewed(6, &through(vec![18, 22, 25])));
    assert_eq!(world.asked(), ["0: refresh 4"], "the item is open as a whole");
    world.publish(0, |p| {
        p.image(4, &[(22, 1), (25, 2), (31, 3)]);
    });
    assert_eq!(world.take(2), [image(6, "22=1")]);
    world.publish(0, |p| {
        p.update(4, &[(31, 1)]).update(4, &[(22, 2), (25, 2), (31, 2)]);
    });
    assert_eq!(world.take(1), ["update 5 31=1", "update 5 22=2 31=2"]);
    assert_eq!(world.take(2), ["update 6 22=2"]);
    // Everything, and less again.
    world.request(2, &item(6, "IBM"));
    assert_eq!(world.asked(), ["0: refresh 4"]);
    world.publish(0, |p| {
        p.image(4, &[(25, 2), (31, 3)]).update(4, &[(25, 1), (31, 4)]);
    });
    assert_eq!(world.take(2), [image(6, "31=3"), "update 6 31=4".to_owned()]);
    assert_eq!(world.take(1), ["update 5 31=4"]);
    world.request(
        2,
        &RequestMsg { flags: viewed(6, &[]).flags | RequestFlags::NO_REFRESH, ..viewed(6, &through(vec![25, 31])) },
    );
    world.publish(0, |p| {
        p.update(4, &[(25, 1), (31, 5)]).update(4, &[(22, 6)]);
    });
    assert_eq!(world.take(1), ["update 5 31=5", "update 5 22=6"]);
    assert_eq!(world.take(2), ["update 6 31=5"]);
    assert!(world.asked().is_empty());
}

#[test]
fn only_what_is_named_passes() {
    let fields = FieldRule::Only(FieldSet::new([(22, 23), (31, 31)]));
    let mut world = open(Config { filters: filters(fields), ..Config::default() });
    world.publish(0, |p| {
        p.update(4, &[(21, 1), (23, 1), (24, 1)]).update(4, &[(24, 1)]);
    });
    assert_eq!(world.take(1), ["update 5 23=1"]);
}

#[test]
fn the_cache_is_whole_and_what_comes_out_of_it_is_filtered() {
    let mut world = open(Config { cache: CacheRules::everything(), ..filtering() });
    world.publish(0, |p| {
        p.update(4, &[(22, 7), (25, 8)]).update(4, &[(25, 9)]);
        p.writer.update(4, false, &quote(&[(18, 5)]));
    });
    assert_eq!(world.take(1), ["update 5 22=7"]);
    world.request(2, &item(6, "IBM"));
    let late = "refresh 6 solicited clear complete OPEN/OK group 3 key 1:IBM 22=7 31=3 18=5";
    assert_eq!(world.take(2), [late], "an image has what was withheld");
    assert!(world.asked().is_empty());
    world.publish(0, |p| {
        p.update(4, &[(30, 8)]).update(4, &[(31, 9)]);
    });
    assert_eq!((world.take(1), world.take(2)), (vec!["update 5 31=9".to_owned()], vec!["update 6 31=9".to_owned()]));
}

#[test]
fn conflated_streams_merge_what_passes() {
    let every = ServiceConflation { interval: 100, ..ServiceConflation::default() };
    let conflation = Settings { others: every, ..Settings::default() };
    let mut world = open(Config { conflation, ..filtering() });
    world.publish(0, |p| {
        p.update(4, &[(25, 1)]);
    });
    assert!(world.p2ps.timeout().is_none_or(|at| at > world.now + SECOND / 10), "nothing waits");
    world.publish(0, |p| {
        p.update(4, &[(22, 1), (25, 1)]).update(4, &[(22, 2), (30, 1), (18, 1)]);
        p.writer.update(4, false, &quote(&[(22, 5)]));
    });
    world.pass(SECOND / 10);
    assert_eq!(world.take(1), ["update 5 22=2 18=1"]);
}

#[test]
fn entries_of_a_book_are_filtered() {
    let mut world = World::with_feed_and(filtering());
    world.clients([1]);
    let book = Domain::MARKET_BY_PRICE;
    world.request(1, &RequestMsg { domain: book, ..item(5, "IBM") });
    let token = world.token();
    world.asked();
    let rows = |entries: &[(MapAction, u64, i16)]| {
        encode(|w| {
            let mut map = MapEncoder::begin(w, MapHead::new(DataType::UINT, DataType::FIELD_LIST))?;
            for (action, key, fid) in entries {
                map.entry(*action, &Primitive::UInt(*key), |w| {
                    let mut list = FieldListEncoder::begin(w)?;
                    list.uint(*fid, 1)?;
                    list.finish()
                })?;
            }
            map.finish()
        })
    };
    let body = rows(&[(MapAction::ADD, 1, 22), (MapAction::ADD, 2, 25)]);
    let refresh = RefreshMsg {
        flags: RefreshFlags::REFRESH_COMPLETE | RefreshFlags::SOLICITED,
        state: State::OPEN_OK,
        container: DataType::MAP,
        body: &body,
        ..RefreshMsg::new(book, 77)
    };
    let update = |entries: &[(MapAction, u64, i16)]| {
        let body = rows(entries);
        encode(|w| UpdateMsg { container: DataType::MAP, body: &body, ..UpdateMsg::new(book, 77) }.encode(w))
    };
    world.publish(0, |p| {
        p.opened(token, 4);
        let position = p.writer.next_position();
        let flags = flags::FIRST | flags::COMPLETE;
        let rwf = &encode(|w| refresh.encode(w));
        p.event(Event::Image { target: 7, handle: 4, group: 3, flags, position, rwf });
        p.writer.update(4, false, &update(&[(MapAction::UPDATE, 1, 25)]));
        p.writer.update(4, false, &update(&[(MapAction::UPDATE, 1, 25), (MapAction::UPDATE, 1, 22)]));
    });
    let got = world.raw(1);
    let entries = |msg: &[u8]| {
        let msg = Msg::decode(msg).unwrap();
        let map = Map::decode(msg.body(), &SetScope::NONE).unwrap();
        map.entries().map(|entry| entry.unwrap().data.len()).collect::<Vec<_>>()
    };
    let told: Vec<_> = got.iter().map(|msg| entries(msg)).collect();
    assert_eq!(told.len(), 2, "an update of which nothing is left is not sent");
    assert!(told[0].len() == 2 && told[0][1] < told[0][0], "the row is there, without its field: {told:?}");
    assert_eq!(told[1].len(), 1);
}
