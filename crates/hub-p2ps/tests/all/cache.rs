//! The cache: who comes later gets the image from memory, exactly between two updates, and the source hears nothing.

use crate::world::{
    PRICE, World, encode, fields, item, refresh, refresh_with, status, texts, token_of, untokened, update,
};
use hub_content::cache::rules::{CacheRules, Domains, NamePattern, ServiceRule};
use hub_p2ps::Config;
use hub_stream::{ALL, Event, flags};
use rwf::container::{FieldListEncoder, Map, MapAction, MapEncoder, MapHead, SetScope};
use rwf::msg::{Domain, Msg, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, UpdateFlags, UpdateMsg};
use rwf::page::{Page, PageSize};
use rwf::rdm::request::{Payload, View};
use rwf::{DataState, DataType, Primitive, State, StateCode, StreamState};

fn cached() -> World {
    World::with_feed_and(Config { cache: CacheRules::everything(), ..Config::default() })
}

fn image(stream: i32, rest: &str) -> String {
    format!("refresh {stream} solicited clear complete OPEN/OK group 3 key 1:IBM {rest}")
}

fn book(action: MapAction, rows: std::ops::Range<u64>, size: u64) -> Vec<u8> {
    encode(|w| {
        let mut map = MapEncoder::begin(w, MapHead::new(DataType::UINT, DataType::FIELD_LIST))?;
        for row in rows {
            map.entry(action, &Primitive::UInt(row), |w| {
                let mut list = FieldListEncoder::begin(w)?;
                list.uint(30, size)?;
                list.finish()
            })?;
        }
        map.finish()
    })
}

/// The rows of a book in the order in which they come, each with its size.
fn rows_of(msg: &[u8]) -> Vec<(u64, u64)> {
    let msg = Msg::decode(msg).unwrap();
    let map = Map::decode(msg.body(), &SetScope::NONE).unwrap();
    let mut rows = Vec::new();
    for entry in map.entries() {
        let entry = entry.unwrap();
        let Primitive::UInt(row) = entry.key_value(DataType::UINT).unwrap() else { panic!() };
        rows.push((row, u64::from(*entry.data.last().unwrap())));
    }
    rows
}

#[test]
fn who_comes_later_gets_the_image_between_two_updates() {
    let mut world = cached();
    world.clients([1, 2]);
    world.open(1, 5, "IBM", 4);
    world.publish(0, |p| {
        p.update(4, &[(22, 7)]).update(4, &[(30, 9)]);
    });
    assert_eq!(world.take(1).len(), 2);
    world.request(2, &item(8, "IBM"));
    assert_eq!(world.take(2), [image(8, "22=7 25=2 30=9")]);
    assert_eq!(world.asked(), [""; 0], "the source hears nothing");
    world.publish(0, |p| {
        p.update(4, &[(22, 8)]);
    });
    assert_eq!((world.take(1), world.take(2)), (vec!["update 5 22=8".into()], vec!["update 8 22=8".into()]));
    let counters = world.p2ps.counters();
    assert_eq!((counters.items_cached, counters.images_from_cache, counters.cache_failures), (1, 1, 0));
    world.close(1, 5);
    assert_eq!(world.asked(), [""; 0]);
    world.close(2, 8);
    assert_eq!(world.asked(), ["0: close 4"], "nobody watches: closed as without a cache");
    assert_eq!(world.p2ps.counters().items_cached, 0);
}

#[test]
fn a_page_is_written_onto_and_a_late_joiner_sees_what_the_first_watcher_sees() {
    let page = |msg: &[u8], grid: &mut Page| match Msg::decode(msg).unwrap() {
        Msg::Refresh(refresh) => grid.refresh(refresh.body),
        Msg::Update(update) => grid.apply(update.body),
        other => panic!("{other:?}"),
    };
    let container = DataType::ANSI_PAGE;
    let mut world = cached();
    world.clients([1, 2]);
    world.request(1, &item(5, "IBM"));
    let token = world.token();
    world.asked();
    let flags = RefreshFlags::SOLICITED | RefreshFlags::REFRESH_COMPLETE;
    let body = b"\x1bcGBP 1.5520\x1b[25;1Hstatus line".as_slice();
    let first = encode(|w| RefreshMsg { container, flags, body, ..RefreshMsg::new(PRICE, 0) }.encode(w));
    world.publish(0, |p| {
        p.opened(token, 4).image_with(4, 0, &first);
    });
    // Each builds upon what the one before has left: cursor, colour, a region that scrolls.
    let changes = [&b"\x1b[1;5H\x1b[31m1.5521"[..], b"/31", b"\x1b[2;24r\x1b[24;1Hnews\r\n", b"more news"];
    for body in &changes {
        let rwf = encode(|w| UpdateMsg { container, body, ..UpdateMsg::new(PRICE, 0) }.encode(w));
        world.publish(0, |p| {
            p.event(Event::Update { handle: 4, has_key: false, rwf: &rwf });
        });
    }
    let (mut first, mut late) = (Page::new(PageSize::default()), Page::new(PageSize::default()));
    world.raw(1).iter().for_each(|msg| page(msg, &mut first));
    assert_eq!(
        (first.row_text(0), first.row_text(22), first.row_text(23)),
        ("GBP 1.5521/31".into(), "news".into(), "more news".into())
    );
    world.request(2, &item(8, "IBM"));
    world.raw(2).iter().for_each(|msg| page(msg, &mut late));
    assert_eq!(late, first);
    let counters = world.p2ps.counters();
    assert_eq!((counters.images_from_cache, counters.cache_failures), (1, 0));
}

#[test]
fn snapshots_reissues_and_those_that_resume_are_answered_from_memory() {
    let mut world = cached();
    world.clients([1, 2]);
    world.open(1, 5, "IBM", 4);
    world.request(2, &RequestMsg { flags: RequestFlags::NONE, ..item(8, "IBM") });
    assert_eq!(
        world.take(2),
        ["refresh 8 solicited clear complete NON_STREAMING/OK group 3 key 1:IBM 22=1 25=2".to_owned()]
    );
    world.request(1, &item(5, "IBM"));
    assert_eq!(world.take(1), [image(5, "22=1 25=2")]);
    let paused = RequestFlags::STREAMING | RequestFlags::PAUSE | RequestFlags::NO_REFRESH;
    world.request(1, &RequestMsg { flags: paused, ..item(5, "IBM") });
    world.publish(0, |p| {
        p.update(4, &[(22, 3)]);
    });
    assert_eq!(world.take(1), [""; 0]);
    let resumed = RequestFlags::STREAMING | RequestFlags::NO_REFRESH;
    world.request(1, &RequestMsg { flags: resumed, ..item(5, "IBM") });
    assert_eq!(world.take(1), ["refresh 5 clear complete OPEN/OK group 3 key 1:IBM 22=3 25=2".to_owned()]);
    assert_eq!(world.asked(), [""; 0]);
}

#[test]
fn views_are_of_the_whole_image_which_is_asked_for_as_a_whole() {
    let mut world = cached();
    world.clients([1, 2]);
    let through =
        |fids: Vec<i16>| encode(|w| Payload { view: Some(View::Fields(fids)), ..Payload::default() }.encode(w));
    let body = through(vec![22]);
    let flags = RequestFlags::STREAMING | RequestFlags::HAS_VIEW;
    let viewed = |stream, body| RequestMsg { flags, container: DataType::ELEMENT_LIST, body, ..item(stream, "IBM") };
    world.request(1, &viewed(5, &body));
    let asked = world.asked();
    assert!(!asked[0].contains("VIEW"), "{asked:?}");
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 4).image(4, &[(22, 1), (25, 2)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:IBM 22=1".to_owned()]);
    world.publish(0, |p| {
        p.update(4, &[(25, 3)]);
    });
    assert_eq!(world.take(1), [""; 0]);
    let body = through(vec![25]);
    world.request(2, &viewed(6, &body));
    assert_eq!(world.take(2), [image(6, "25=3")]);
    // Another view, and everything, of the same stream.
    let both = through(vec![22, 25]);
    world.request(2, &viewed(6, &both));
    assert_eq!(world.take(2), [image(6, "22=1 25=3")]);
    world.request(2, &item(6, "IBM"));
    assert_eq!(world.take(2), [image(6, "22=1 25=3")]);
    assert_eq!(world.asked(), [""; 0]);
}

#[test]
fn a_lost_item_is_given_as_suspect_at_once_and_comes_back_whole() {
    let mut world = cached();
    world.clients([1, 2]);
    world.login(3, Some(false), Some(false));
    world.open(1, 5, "IBM", 4);
    world.source_down(0);
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT".to_owned()]);
    world.request(2, &item(8, "IBM"));
    let got = world.raw(2);
    assert_eq!(texts(&got), ["The source of service FEED is not reachable; it is asked for again by itself."]);
    assert_eq!(got.len(), 1);
    assert!(crate::world::words(&got[0]).starts_with("refresh 8 solicited clear complete OPEN/SUSPECT"));
    // A client that does not take suspect data, and a snapshot, are answered as without a cache.
    world.request(3, &item(9, "IBM"));
    assert_eq!(world.take(3), ["status 9 CLOSED_RECOVER/SUSPECT".to_owned()]);
    world.source(0);
    world.publish(0, |p| {
        p.service(40, "FEED");
    });
    let asked = world.asked();
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 6).update(6, &[(22, 50)]);
    });
    world.publish(0, |p| {
        p.image(6, &[(22, 60)]).update(6, &[(22, 61)]);
    });
    for (client, stream) in [(1, 5), (2, 8)] {
        let image = format!("refresh {stream} clear complete OPEN/OK group 3 key 1:IBM 22=60");
        assert_eq!(world.take(client), [image, format!("update {stream} 22=61")]);
    }
    world.request(3, &item(9, "IBM"));
    assert_eq!(world.take(3), [image(9, "22=61")]);
    assert_eq!(world.p2ps.counters().images_stale, 1);
}

#[test]
fn states_are_those_of_the_image() {
    let mut world = cached();
    world.clients([1, 2, 3]);
    world.open(1, 5, "IBM", 4);
    world.publish(0, |p| {
        p.status(4, 0, &status(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE));
    });
    world.request(2, &item(8, "IBM"));
    let got = world.raw(2);
    assert!(crate::world::words(&got[0]).starts_with("refresh 8 solicited clear complete OPEN/SUSPECT"));
    assert_eq!(texts(&got), ["by the provider"]);
    world.publish(0, |p| {
        p.status(4, 0, &status(StreamState::OPEN, DataState::OK, StateCode::NONE));
    });
    world.request(3, &item(9, "IBM"));
    assert_eq!(world.take(3), [image(9, "22=1 25=2")]);
    assert_eq!((world.take(1).len(), world.take(2).len()), (2, 1));
}

#[test]
fn refreshes_that_nobody_asked_for_replace_the_image_part_by_part() {
    let mut world = cached();
    world.clients([1, 2, 3]);
    world.open(1, 5, "IBM", 4);
    let part = |number: u16, last: bool, list: &[(i16, u64)]| {
        let flags = if last { RefreshFlags::REFRESH_COMPLETE } else { RefreshFlags::NONE };
        refresh_with(flags, State::OPEN_OK, Some(number), list)
    };
    let (first, second) = (part(0, false, &[(22, 10)]), part(1, true, &[(31, 11)]));
    world.publish(0, |p| {
        p.part(4, flags::UNSOLICITED | flags::FIRST, &first).update(4, &[(22, 12)]);
    });
    // In the middle of a set the source is asked, as without a cache: what is whole is about to be replaced.
    world.request(2, &item(8, "IBM"));
    assert_eq!(world.asked(), ["0: refresh 4".to_owned()]);
    world.publish(0, |p| {
        p.part(4, flags::UNSOLICITED | flags::COMPLETE, &second);
    });
    world.publish(0, |p| {
        p.image(4, &[(22, 12), (31, 11)]);
    });
    assert_eq!(world.take(2), ["refresh 8 solicited complete OPEN/OK group 3 key 1:IBM 22=12 31=11".to_owned()]);
    world.request(3, &item(9, "IBM"));
    assert_eq!(world.take(3), [image(9, "22=12 31=11")]);
    assert_eq!(world.take(1).len(), 3);
}

#[test]
fn what_is_not_to_be_cached_is_asked_for_each_time() {
    let mut world = cached();
    world.clients([1, 2]);
    world.open(1, 5, "IBM", 4);
    let flags = RefreshFlags::REFRESH_COMPLETE | RefreshFlags::DO_NOT_CACHE;
    let uncached = refresh_with(flags, State::OPEN_OK, None, &[(22, 10)]);
    let body = fields(&[(22, 99)]);
    let ephemeral = UpdateMsg {
        flags: UpdateFlags::DO_NOT_CACHE,
        container: DataType::FIELD_LIST,
        body: &body,
        ..UpdateMsg::new(PRICE, 77)
    };
    let ephemeral = encode(|w| ephemeral.encode(w));
    world.publish(0, |p| {
        p.writer.update(4, false, &ephemeral);
    });
    world.request(2, &item(8, "IBM"));
    assert_eq!(world.take(2), [image(8, "22=1 25=2")], "the update is not of the image");
    world.close(2, 8);
    world.publish(0, |p| {
        p.image_with(4, hub_stream::flags::UNSOLICITED, &uncached);
    });
    world.request(2, &item(8, "IBM"));
    assert_eq!(world.asked(), ["0: refresh 4".to_owned()]);
    world.publish(0, |p| {
        p.image(4, &[(22, 11)]);
    });
    assert_eq!((world.take(1).len(), world.take(2).len()), (2, 1));
}

#[test]
fn an_image_that_is_not_whole_any_more_is_asked_for() {
    let mut world = cached();
    world.clients([1, 2]);
    world.open(1, 5, "IBM", 4);
    let broken = UpdateMsg { container: DataType::FIELD_LIST, body: &[8, 0, 1, 0], ..UpdateMsg::new(PRICE, 77) };
    let broken = encode(|w| broken.encode(w));
    let locked = UpdateMsg {
        container: DataType::FIELD_LIST,
        body: &fields(&[(22, 5)]),
        perm_data: Some(&[3, 1, 1, 0x65, 0x62, 0xC0]),
        ..UpdateMsg::new(PRICE, 77)
    };
    let locked = encode(|w| locked.encode(w));
    for (failures, (rwf, bits)) in [(&broken, 0), (&locked, flags::HAS_LOCK)].into_iter().enumerate() {
        world.publish(0, |p| {
            p.writer.update_with(4, bits, rwf);
        });
        assert_eq!(world.raw(1).len(), 1);
        world.request(2, &item(8, "IBM"));
        assert_eq!(world.asked(), ["0: refresh 4".to_owned()]);
        world.publish(0, |p| {
            p.image(4, &[(22, 5)]);
        });
        world.close(2, 8);
        world.request(2, &item(9, "IBM"));
        assert_eq!(world.take(2)[1], image(9, "22=5"), "{failures}");
        world.close(2, 9);
    }
    assert_eq!(world.p2ps.counters().cache_failures, 1);
}

#[test]
fn the_item_that_was_wanted_longest_ago_gives_way() {
    let cache = CacheRules { max_items: 2, ..CacheRules::everything() };
    let mut world = World::with_feed_and(Config { cache, ..Config::default() });
    world.clients([1, 2]);
    for (stream, name, handle) in [(5, "IBM", 4), (6, "MSFT", 5), (7, "GE", 6)] {
        world.open(1, stream, name, handle);
    }
    let counters = world.p2ps.counters();
    assert_eq!((counters.items_cached, counters.items_uncached), (2, 1));
    world.request(2, &item(8, "MSFT"));
    assert_eq!(world.take(2).len(), 1);
    // The one that gave way is asked for, and is cached again: now the other one gives way that nobody has asked for since.
    world.request(2, &item(9, "IBM"));
    assert_eq!(world.asked(), ["0: refresh 4".to_owned()]);
    world.publish(0, |p| {
        p.image(4, &[(22, 1)]).update(4, &[(22, 2)]).update(6, &[(22, 3)]);
    });
    world.request(2, &item(10, "IBM"));
    world.request(2, &item(11, "GE"));
    assert_eq!(world.asked(), ["0: refresh 6".to_owned()]);
    assert_eq!(world.take(2).len(), 3);
    assert_eq!(world.take(1).len(), 2);
    assert_eq!(world.p2ps.counters().items_uncached, 3);
}

#[test]
fn services_domains_and_names_say_what_is_cached() {
    let rule = ServiceRule {
        enabled: true,
        domains: Domains::ALL.without(Domain::MARKET_BY_PRICE),
        not_items: vec![NamePattern::new("X*")],
    };
    let mut cache = CacheRules::default();
    cache.services.insert("FEED".to_owned(), rule);
    let mut world = World::with_feed_and(Config { cache, ..Config::default() });
    world.publish(0, |p| {
        p.service(41, "OTHER");
    });
    world.clients([1, 2]);
    for (at, (service, domain, name, asks)) in
        [(1, PRICE, "IBM", false), (1, PRICE, "XAU=", true), (2, PRICE, "IBM", true), (1, Domain(8), "IBM", true)]
            .into_iter()
            .enumerate()
    {
        let stream = 5 + at as i32;
        let mut request = RequestMsg { domain, ..item(stream, name) };
        request.key.service_id = Some(service);
        world.request(1, &request);
        let asked = world.asked();
        let handle = 4 + at as u32;
        world.publish(0, |p| {
            p.opened(token_of(&asked[0]), handle).image(handle, &[(22, 1)]);
        });
        world.request(2, &request);
        assert_eq!(!world.asked().is_empty(), asks, "{service} {domain} {name}");
        world.publish(0, |p| {
            p.image(handle, &[(22, 1)]);
        });
    }
    assert_eq!((world.raw(1).len(), world.raw(2).len()), (4, 4));
}

#[test]
fn books_are_cut_anew_and_keep_their_changes() {
    let mut world =
        World::with_feed_and(Config { cache: CacheRules::everything(), image_part: 60, ..Config::default() });
    world.clients([1, 2]);
    let domain = Domain::MARKET_BY_PRICE;
    world.request(1, &RequestMsg { domain, ..item(5, "IBM") });
    let token = token_of(&world.asked()[0]);
    let publish = |world: &mut World, message: &[u8], is_image: bool| {
        world.publish(0, |p| {
            let position = p.writer.next_position();
            if is_image {
                let bits = flags::FIRST | flags::COMPLETE;
                let (handle, group) = (4, 3);
                p.opened(token, 4);
                p.event(Event::Image { target: ALL, handle, group, flags: bits, position: position + 1, rwf: message });
            } else {
                p.writer.update(4, false, message);
            }
        });
    };
    let body = book(MapAction::ADD, 0..20, 1);
    let whole = RefreshMsg {
        flags: RefreshFlags::REFRESH_COMPLETE | RefreshFlags::SOLICITED,
        container: DataType::MAP,
        body: &body,
        ..RefreshMsg::new(domain, 77)
    };
    publish(&mut world, &encode(|w| whole.encode(w)), true);
    for (action, rows, size) in
        [(MapAction::UPDATE, 3..5, 9), (MapAction::DELETE, 7..9, 0), (MapAction::ADD, 20..22, 4)]
    {
        let body = book(action, rows, size);
        let change = UpdateMsg { container: DataType::MAP, body: &body, ..UpdateMsg::new(domain, 77) };
        publish(&mut world, &encode(|w| change.encode(w)), false);
    }
    assert_eq!(world.raw(1).len(), 4);
    world.request(2, &RequestMsg { domain, ..item(8, "IBM") });
    let parts = world.raw(2);
    assert!(parts.len() > 3, "{} parts", parts.len());
    let mut rows = Vec::new();
    for (number, part) in (0..).zip(&parts) {
        let Msg::Refresh(refresh) = Msg::decode(part).unwrap() else { panic!() };
        assert_eq!(refresh.part_num, Some(number));
        assert_eq!(refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE), usize::from(number) + 1 == parts.len());
        assert_eq!(refresh.flags.contains(RefreshFlags::CLEAR_CACHE), number == 0);
        rows.extend(rows_of(part));
    }
    rows.sort_unstable();
    let expected: Vec<(u64, u64)> = (0..22)
        .filter(|row| !(7..9).contains(row))
        .map(|row| {
            (
                row,
                if (3..5).contains(&row) {
                    9
                } else if row < 20 {
                    1
                } else {
                    4
                },
            )
        })
        .collect();
    assert_eq!(rows, expected);
    assert_eq!(world.asked(), [""; 0]);
}

#[test]
fn fields_ripple_and_parts_of_texts_change_as_at_the_provider() {
    let mut world = cached();
    world.clients([1, 2]);
    world.request(1, &item(5, "IBM"));
    let token = token_of(&world.asked()[0]);
    // Last, last before and before that; then a text of which an update replaces two letters.
    let write = |prices: &[(i16, i64)], text: &[u8]| {
        encode(|w| {
            let mut list = FieldListEncoder::begin(w)?;
            for (fid, price) in prices {
                list.real(*fid, rwf::Real::new(*price, rwf::RealHint::EXPONENT_2))?;
            }
            list.field(3, &Primitive::Rmtes(text))?;
            list.finish()
        })
    };
    let body = write(&[(6, 100), (7, 90), (8, 80)], b"PLAIN TEXT");
    let whole = RefreshMsg {
        flags: RefreshFlags::REFRESH_COMPLETE | RefreshFlags::SOLICITED,
        container: DataType::FIELD_LIST,
        body: &body,
        ..RefreshMsg::new(PRICE, 77)
    };
    let whole = encode(|w| whole.encode(w));
    let change = write(&[(6, 110)], b"\x1b[6`NE");
    let change = UpdateMsg { container: DataType::FIELD_LIST, body: &change, ..UpdateMsg::new(PRICE, 77) };
    let change = encode(|w| change.encode(w));
    world.publish(0, |p| {
        p.opened(token, 4).image_with(4, 0, &whole);
        p.writer.update(4, false, &change);
    });
    assert_eq!(world.raw(1).len(), 2);
    world.request(2, &item(8, "IBM"));
    let got = world.raw(2);
    let Msg::Refresh(refresh) = Msg::decode(&got[0]).unwrap() else { panic!() };
    assert_eq!(refresh.body, write(&[(6, 110), (7, 100), (8, 90)], b"PLAIN NEXT"));
}

#[test]
fn without_a_cache_nothing_is_held() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "IBM", 4);
    world.request(2, &item(8, "IBM"));
    assert_eq!(untokened(&world.asked()), ["0: refresh 4".to_owned()]);
    world.publish(0, |p| {
        p.writer.update(4, false, &update(&[(22, 3)]));
        p.image_with(4, 0, &refresh(&[(22, 3)]));
    });
    assert_eq!((world.raw(1).len(), world.raw(2).len()), (1, 1));
    assert_eq!(world.p2ps.counters().items_cached, 0);
}
