//! Streams that are conflated: by time, and just in time for clients that take less than there is for them.

use crate::world::{PRICE, SECOND, World, encode, fields, item, token_of, update, update_with_key};
use hub_content::cache::rules::NamePattern;
use hub_content::filter::rules::FieldSet;
use hub_p2ps::conflation::{Exceptions, FieldIntervals, FieldValue, JustInTime, ServiceConflation, Settings};
use hub_p2ps::egress::{FlowControl, Limits};
use hub_p2ps::{ClientId, CloseReason, Config};
use hub_stream::flags;
use rwf::msg::{CloseMsg, Conflation, Msg, RequestFlags, RequestMsg, UpdateMsg, UpdateType};
use rwf::{DataType, Qos, Rate, Timeliness};
use std::sync::Arc;

const MS: u64 = SECOND / 1_000;

fn conflated(interval: u16) -> Qos {
    Qos { rate_info: interval, ..Qos::new(Timeliness::REALTIME, Rate::TIME_CONFLATED) }
}

const JIT: Qos = Qos::new(Timeliness::REALTIME, Rate::JIT_CONFLATED);

fn config(service: ServiceConflation, ripple: bool) -> Config {
    let conflation = Settings { others: service, ripple, ..Settings::default() };
    Config { conflation, ..Config::default() }
}

fn offering() -> ServiceConflation {
    ServiceConflation { offered: vec![100, 1_000], just_in_time: JustInTime::Asked, ..ServiceConflation::default() }
}

fn asking(stream: i32, qos: Qos) -> RequestMsg<'static> {
    RequestMsg { qos: Some(qos), ..item(stream, "IBM") }
}

/// Client 1 has IBM tick by tick on stream 5, clients 2 and 3 conflated by 100 ms on streams 6 and 7.
fn world() -> World {
    let mut world = World::with_feed_and(config(offering(), false));
    world.clients([1, 2, 3]);
    world.open(1, 5, "IBM", 4);
    for (client, stream) in [(2, 6), (3, 7)] {
        world.request(client, &asking(stream, conflated(100)));
    }
    assert_eq!(world.asked(), ["0: refresh 4"], "the same item");
    world.publish(0, |p| {
        p.image(4, &[(22, 1), (25, 2)]);
    });
    for client in [2, 3] {
        let image = world.raw(client);
        let Ok(Msg::Refresh(refresh)) = Msg::decode(&image[0]) else { panic!("no image") };
        assert_eq!((image.len(), refresh.qos), (1, Some(conflated(100))));
    }
    world
}

fn typed(update_type: UpdateType, list: &[(i16, u64)]) -> Vec<u8> {
    let body = fields(list);
    let msg = UpdateMsg { container: DataType::FIELD_LIST, update_type, body: &body, ..UpdateMsg::new(PRICE, 77) };
    encode(|w| msg.encode(w))
}

fn conflation(msg: &[u8]) -> Option<Conflation> {
    UpdateMsg::decode(msg).unwrap().conflation
}

#[test]
fn quotes_of_an_interval_go_out_as_one() {
    let mut world = world();
    for at in 0..10 {
        world.publish(0, |p| {
            p.update(4, &[(22, at)]).update(4, &[(25, at + 100)]);
        });
        world.pass(5 * MS);
    }
    assert_eq!(world.take(1).len(), 20, "tick by tick");
    assert_eq!((world.take(2), world.take(3)), (vec![], vec![]));
    assert_eq!(world.p2ps.timeout().map(|at| at.min(world.now + 50 * MS)), Some(world.now + 50 * MS));
    world.pass(49 * MS);
    assert_eq!(world.take(2), [""; 0]);
    world.pass(MS);
    assert_eq!(world.take(2), ["update 6 22=9 25=109"]);
    let others = world.raw(3);
    assert_eq!(conflation(&others[0]), Some(Conflation { count: 20, time: 100 }));
    assert_eq!(world.p2ps.counters().updates_conflated, 38);
    world.pass(SECOND);
    assert_eq!(world.take(3), [""; 0], "nothing else");
}

#[test]
fn a_trade_goes_out_at_once_behind_what_came_before_it() {
    let mut world = world();
    let trade = typed(UpdateType::TRADE, &[(6, 77), (22, 3)]);
    world.publish(0, |p| {
        p.update(4, &[(22, 1)]).update(4, &[(22, 2)]);
        p.writer.update(4, false, &trade);
        p.update(4, &[(25, 4)]);
    });
    world.take(1);
    assert_eq!(world.take(2), ["update 6 22=2", "update 6 6=77 22=3"]);
    world.pass(100 * MS);
    assert_eq!(world.take(2), ["update 6 25=4"]);
    let got = world.raw(3);
    assert_eq!(
        got.iter().map(|msg| conflation(msg)).collect::<Vec<_>>(),
        [Some(Conflation { count: 2, time: 0 }), None, None]
    );
}

#[test]
fn images_and_states_come_behind_what_was_before_them() {
    let mut world = world();
    world.publish(0, |p| {
        p.update(4, &[(22, 7)]).update(4, &[(22, 8)]);
        p.status(4, 0, &crate::world::status(rwf::StreamState::OPEN, rwf::DataState::SUSPECT, rwf::StateCode::NONE));
        p.update(4, &[(22, 9)]).update(4, &[(22, 10)]);
    });
    world.take(1);
    assert_eq!(world.take(2), ["update 6 22=8", "status 6 OPEN/SUSPECT"]);
    world.request(3, &asking(7, conflated(100)));
    world.publish(0, |p| {
        p.image(4, &[(22, 10), (25, 2)]);
    });
    assert_eq!(world.take(2), ["update 6 22=10", "refresh 6 clear complete OPEN/OK group 3 key 1:IBM 22=10 25=2"]);
    world.take(1);
    world.take(3);
    world.asked();
    world.pass(SECOND);
}

#[test]
fn who_comes_between_gets_its_image_and_nothing_older() {
    let mut world = world();
    world.publish(0, |p| {
        p.update(4, &[(22, 7)]).update(4, &[(22, 8)]);
    });
    world.clients([4]);
    world.request(4, &asking(9, conflated(100)));
    assert_eq!(world.asked(), ["0: refresh 4"]);
    world.publish(0, |p| {
        p.update(4, &[(22, 9)]).image(4, &[(22, 9), (25, 2)]).update(4, &[(22, 10)]);
    });
    world.pass(SECOND);
    assert_eq!(world.take(4), ["refresh 9 solicited complete OPEN/OK group 3 key 1:IBM 22=9 25=2", "update 9 22=10"]);
    assert_eq!(world.take(2), ["update 6 22=9", "update 6 22=10"]);
    world.raw(3);
    world.raw(1);
}

#[test]
fn intervals_and_views_are_kept_apart() {
    let mut world = world();
    let body = encode(|w| {
        let view = Some(rwf::rdm::request::View::Fields(vec![25]));
        rwf::rdm::request::Payload { view, ..Default::default() }.encode(w)
    });
    let flags = RequestFlags::STREAMING | RequestFlags::HAS_VIEW;
    let viewed = RequestMsg { flags, container: DataType::ELEMENT_LIST, body: &body, ..asking(9, conflated(1_000)) };
    world.request(2, &viewed);
    world.asked();
    world.publish(0, |p| {
        p.image(4, &[(22, 1), (25, 2)]);
    });
    assert_eq!(world.take(2), ["refresh 9 solicited complete OPEN/OK group 3 key 1:IBM 25=2"]);
    for at in 0..5 {
        world.publish(0, |p| {
            p.update(4, &[(22, at), (25, at)]).update(4, &[(22, at)]);
        });
    }
    world.pass(100 * MS);
    assert_eq!(world.take(2), ["update 6 22=4 25=4"]);
    world.pass(900 * MS);
    let got = world.raw(2);
    assert_eq!(conflation(&got[0]), Some(Conflation { count: 5, time: 1_000 }));
    assert_eq!(crate::world::words(&got[0]), "update 9 25=4");
    // Its own view may change; its interval stays.
    let whole = RequestMsg { flags: RequestFlags::STREAMING, ..asking(9, conflated(1_000)) };
    world.request(2, &whole);
    world.asked();
    world.publish(0, |p| {
        p.image(4, &[(22, 1), (25, 2)]).update(4, &[(22, 5)]).update(4, &[(22, 6)]);
    });
    assert_eq!(world.take(2).len(), 1, "the image");
    world.pass(100 * MS);
    assert_eq!(world.take(2), ["update 6 22=6"]);
    world.pass(900 * MS);
    assert_eq!(world.take(2), ["update 9 22=6"]);
    world.raw(1);
    world.raw(3);
}

#[test]
fn nobody_gets_what_waited_for_one_who_left() {
    let mut world = world();
    world.publish(0, |p| {
        p.update(4, &[(22, 7)]).update(4, &[(22, 8)]);
    });
    world.send(2, CloseMsg::new(PRICE, 6));
    world.disconnect(3);
    world.request(2, &asking(8, conflated(1_000)));
    world.asked();
    world.publish(0, |p| {
        p.image(4, &[(22, 8), (25, 2)]);
    });
    world.pass(2 * SECOND);
    assert_eq!(world.take(2).len(), 1, "the image alone");
    world.take(1);
    world.raw(3);
}

#[test]
fn a_key_in_updates_names_the_public_service() {
    let mut world = world();
    let message = update_with_key(40, "IBM", &[(22, 7)]);
    world.publish(0, |p| {
        p.writer.update(4, true, &message);
        p.writer.update(4, true, &message);
    });
    world.pass(100 * MS);
    assert_eq!(world.take(2), ["update 6 key 1:IBM 22=7"]);
    world.take(1);
    world.take(3);
}

#[test]
fn what_is_not_offered_is_refused_and_what_is_offered_is_told() {
    let mut world = World::with_feed_and(config(offering(), false));
    world.clients([1]);
    world.request(1, &asking(5, conflated(500)));
    assert_eq!(world.take(1), ["status 5 CLOSED/SUSPECT/NOT_FOUND"], "that is no interval on offer");
    // A range: the best in it.
    let range = RequestMsg { worst_qos: Some(conflated(2_000)), ..asking(6, conflated(50)) };
    world.request(1, &range);
    let token = world.token();
    let [open] = &world.asked()[..] else { panic!() };
    assert!(open.contains("Realtime/TickByTick") || open.contains("REALTIME/TICK"), "{open}");
    world.publish(0, |p| {
        p.opened(token, 4).image(4, &[(22, 1)]);
    });
    let image = world.raw(1);
    let Ok(Msg::Refresh(refresh)) = Msg::decode(&image[0]) else { panic!("no image") };
    assert_eq!(refresh.qos, Some(conflated(100)));
    // Just in time is a quality of its own.
    world.request(1, &asking(7, JIT));
    world.asked();
    world.publish(0, |p| {
        p.image(4, &[(22, 1)]).update(4, &[(22, 2)]);
    });
    let image = world.raw(1);
    let Ok(Msg::Refresh(refresh)) = Msg::decode(&image[0]) else { panic!("no image") };
    assert_eq!((refresh.stream_id, refresh.qos, image.len()), (7, Some(JIT), 2));
    world.pass(100 * MS);
    world.take(1);
    let request = rwf::rdm::directory::Request { stream_id: 9, streaming: true, service_id: None, filter: 0x3F };
    world.send_with(1, |w| request.encode(w));
    let directory = world.raw(1);
    let text = rwf_text::message(&directory[0], None).to_string();
    assert!(text.contains("TIME_CONFLATED 100 ms") && text.contains("JIT_CONFLATED"), "{text}");
}

#[test]
fn a_service_may_be_conflated_for_all() {
    let all = ServiceConflation { interval: 200, ..ServiceConflation::default() };
    let mut world = World::with_feed_and(config(all, false));
    world.clients([1]);
    world.request(1, &item(5, "IBM"));
    let opens = world.asked();
    world.publish(0, |p| {
        p.opened(token_of(&opens[0]), 4).image(4, &[(22, 1)]);
        p.update(4, &[(22, 2)]).update(4, &[(22, 3)]);
    });
    let image = world.raw(1);
    let Ok(Msg::Refresh(refresh)) = Msg::decode(&image[0]) else { panic!("no image") };
    assert_eq!((refresh.qos, image.len()), (Some(conflated(200)), 1));
    world.pass(200 * MS);
    assert_eq!(world.take(1), ["update 5 22=3"]);
    world.request(1, &asking(6, Qos::REALTIME_TICK));
    assert_eq!(world.take(1), ["status 6 CLOSED/SUSPECT/NOT_FOUND"], "there is no other rate");
    // One image is as current as can be.
    let snapshot = RequestMsg { flags: RequestFlags::NONE, ..item(7, "IBM") };
    world.request(1, &snapshot);
    world.asked();
    world.publish(0, |p| {
        p.update(4, &[(22, 4)]).image(4, &[(22, 4)]);
    });
    let image = "refresh 7 solicited complete NON_STREAMING/OK group 3 key 1:IBM 22=4";
    assert_eq!(world.take(1), ["update 5 22=4", image]);
    world.pass(SECOND);
}

/// A service that is conflated by 200 ms; items with 7 in field 4 by 500, those with 9 not at all, nor those called FX...; only fields 4 and
/// 20 to 29 wait.
fn with_exceptions() -> Config {
    let values = vec![(FieldValue::Number(7), 500), (FieldValue::Number(9), 0)];
    let exceptions = Exceptions {
        by_field: Some(FieldIntervals { fid: 4, values }),
        not_items: vec![NamePattern::new("FX*")],
        only_fields: Some(Arc::new(FieldSet::new([(4, 4), (20, 29)]))),
    };
    config(ServiceConflation { interval: 200, exceptions, ..ServiceConflation::default() }, false)
}

/// Opens an item of [`with_exceptions`] with this exchange.
fn open_with(world: &mut World, (stream, name, handle): (i32, &'static str, u32), exchange: u64) {
    world.request(1, &item(stream, name));
    let opens = world.asked();
    world.publish(0, |p| {
        p.opened(token_of(&opens[0]), handle).image(handle, &[(22, 1), (4, exchange)]);
    });
    let image = world.raw(1);
    let Ok(Msg::Refresh(refresh)) = Msg::decode(&image[0]) else { panic!("no image") };
    assert_eq!(refresh.qos, Some(conflated(200)), "the quality is the service's");
}

#[test]
fn items_of_an_exchange_have_an_interval_of_their_own() {
    let mut world = World::with_feed_and(with_exceptions());
    world.clients([1]);
    for (item, exchange) in [((5, "IBM", 4), 7), ((6, "TRI", 5), 8), ((7, "LSEG", 6), 9), ((8, "FXEUR", 7), 7)] {
        open_with(&mut world, item, exchange);
    }
    let quotes = |world: &mut World, value| {
        world.publish(0, |p| {
            for handle in 4..8 {
                p.update(handle, &[(22, value)]);
            }
        });
    };
    quotes(&mut world, 2);
    assert_eq!(world.take(1), ["update 7 22=2", "update 8 22=2"], "by exchange, by name");
    quotes(&mut world, 3);
    assert_eq!(world.take(1), ["update 7 22=3", "update 8 22=3"]);
    world.pass(200 * MS);
    assert_eq!(world.take(1), ["update 6 22=3"], "the service's interval");
    world.pass(299 * MS);
    assert_eq!(world.take(1), [""; 0]);
    world.pass(MS);
    assert_eq!(world.take(1), ["update 5 22=3"]);
    // An image may say another exchange.
    let other = crate::world::refresh(&[(22, 4), (4, 9)]);
    world.publish(0, |p| {
        p.image_with(4, flags::UNSOLICITED, &other).update(4, &[(22, 5)]);
    });
    let got = world.take(1);
    assert!(got[0].starts_with("refresh 5") && got[1] == "update 5 22=5", "{got:?}");
}

#[test]
fn fields_that_are_not_conflated_bring_the_others_out() {
    let mut world = World::with_feed_and(with_exceptions());
    world.clients([1]);
    open_with(&mut world, (5, "IBM", 4), 8);
    world.publish(0, |p| {
        p.update(4, &[(22, 2)]).update(4, &[(22, 3), (25, 1)]).update(4, &[(6, 77)]).update(4, &[(22, 4)]);
    });
    assert_eq!(world.take(1), ["update 5 22=3 25=1", "update 5 6=77"]);
    world.pass(200 * MS);
    assert_eq!(world.take(1), ["update 5 22=4"]);
    // Nobody watches any more: nothing is kept of the item, which the check of every turn sees.
    let close = CloseMsg::new(PRICE, 5);
    world.send_with(1, |w| close.encode(w));
    assert_eq!(world.asked(), ["0: close 4"]);
    world.pass(SECOND);
}

#[test]
fn older_values_of_a_rippling_field_go_ahead() {
    let mut world = World::with_feed_and(config(offering(), true));
    world.clients([1]);
    world.request(1, &asking(5, conflated(100)));
    let opens = world.asked();
    world.publish(0, |p| {
        p.opened(token_of(&opens[0]), 4).image(4, &[(22, 1), (23, 0), (24, 0)]);
        for value in 2..9 {
            let message = update(&[(22, value), (30, value)]);
            p.writer.update(4, false, &message);
        }
    });
    world.take(1);
    world.pass(100 * MS);
    // BID ripples through two other fields.
    let got = world.raw(1);
    let words: Vec<String> = got.iter().map(|msg| crate::world::words(msg)).collect();
    assert_eq!(words, ["update 5 22=6", "update 5 22=7", "update 5 22=8 30=8"]);
    assert_eq!(conflation(&got[2]), Some(Conflation { count: 5, time: 100 }));
}

const SLOW: ClientId = ClientId(1);

/// Client 1 has IBM on streams 5 (any quality), 6 (just in time) and 7 (tick by tick and nothing else); client 2 takes all.
fn slow_world(just_in_time: JustInTime, max: usize) -> World {
    let service = ServiceConflation { just_in_time, ..ServiceConflation::default() };
    let egress = Limits { guaranteed: 100, max, conflate: 150, tick_by_tick: 20, ..Limits::default() };
    let mut world = World::with_feed_and(Config { egress, ..config(service, false) });
    world.clients([1, 2]);
    world.open(1, 5, "IBM", 4);
    world.request(1, &asking(6, JIT));
    world.request(1, &asking(7, Qos::REALTIME_TICK));
    world.request(2, &item(5, "IBM"));
    world.asked();
    world.publish(0, |p| {
        p.image(4, &[(22, 1)]);
    });
    world.raw(1);
    world.take(2);
    world
}

fn only(words: &[String], stream: i32) -> Vec<&str> {
    let of = |words: &&String| words.split(' ').nth(1) == Some(&stream.to_string());
    words.iter().filter(of).map(String::as_str).collect()
}

fn drain(world: &mut World) {
    world.p2ps.client_backlog(SLOW, 0);
    for _ in 0..200 {
        world.settle();
    }
}

#[test]
fn a_slow_client_is_conflated_where_its_streams_allow_it() {
    let mut world = slow_world(JustInTime::Asked, 10_000);
    world.p2ps.client_backlog(SLOW, 160);
    let trade = typed(UpdateType::TRADE, &[(6, 7)]);
    for value in 0..50 {
        world.publish(0, |p| {
            if value == 20 {
                p.writer.update(4, false, &trade);
            }
            p.update(4, &[(22, value)]);
        });
    }
    assert_eq!(world.take(1), [""; 0]);
    assert_eq!(world.take(2).len(), 51);
    assert_eq!(world.p2ps.counters().clients_conflated, 1);
    let controls: Vec<_> = world.p2ps.flow_control().map(|(_, control)| control).collect();
    assert!(controls.contains(&FlowControl::Conflated { waiting: 160 }), "{controls:?}");
    drain(&mut world);
    let got = world.take(1);
    for stream in [5, 6] {
        assert_eq!(
            only(&got, stream),
            [
                format!("status {stream} OPEN/NO_CHANGE/JIT_CONFLATION_STARTED"),
                format!("update {stream} 22=19"),
                format!("update {stream} 6=7"),
                format!("update {stream} 22=49"),
                format!("status {stream} OPEN/NO_CHANGE/REALTIME_RESUMED"),
            ]
        );
    }
    let ticks = only(&got, 7);
    assert_eq!(ticks.len(), 51, "exactly what it asked for");
    assert_eq!((ticks[0], ticks[20], ticks[50]), ("update 7 22=0", "update 7 6=7", "update 7 22=49"));
    assert_eq!((world.p2ps.counters().clients_conflated, world.p2ps.counters().updates_conflated), (0, 96));
    let controls: Vec<_> = world.p2ps.flow_control().map(|(_, control)| control).collect();
    assert!(controls.contains(&FlowControl::TickByTick { saved: 96 }), "{controls:?}");
    world.publish(0, |p| {
        p.update(4, &[(22, 60)]).update(4, &[(22, 61)]);
    });
    assert_eq!(only(&world.take(1), 5), ["update 5 22=60", "update 5 22=61"]);
    world.take(2);
}

#[test]
fn conflation_begins_and_ends_at_different_bounds() {
    let mut world = slow_world(JustInTime::All, 10_000);
    world.p2ps.client_backlog(SLOW, 140);
    assert_eq!(world.p2ps.counters().clients_conflated, 0, "held, and not much");
    world.p2ps.client_backlog(SLOW, 151);
    assert_eq!(world.p2ps.counters().clients_conflated, 1);
    for (backlog, conflated) in [(140, 1), (60, 1), (21, 1), (20, 0), (99, 0), (151, 1), (0, 0)] {
        world.p2ps.client_backlog(SLOW, backlog);
        assert_eq!(world.p2ps.counters().clients_conflated, conflated, "{backlog} bytes wait");
    }
    world.settle();
    assert_eq!(world.take(1), [""; 0], "nobody is told of what did not happen");
}

#[test]
fn a_conflated_client_is_not_cut_off_for_quotes() {
    let mut world = slow_world(JustInTime::All, 2_000);
    world.p2ps.client_backlog(SLOW, 160);
    for value in 0..1_000 {
        world.publish(0, |p| {
            p.update(4, &[(22, value)]);
        });
    }
    world.take(2);
    assert_eq!(world.closed, []);
    // Trades are all kept, and are too much in the end.
    let trade = typed(UpdateType::TRADE, &[(6, 7)]);
    for _ in 0..100 {
        world.publish(0, |p| {
            p.writer.update(4, false, &trade);
        });
    }
    world.take(2);
    assert!(matches!(world.closed[..], [(1, CloseReason::SlowConsumer { .. })]), "{:?}", world.closed);
    world.closed.clear();
    world.take(1);
    assert_eq!(world.p2ps.counters().clients_conflated, 0);
    world.disconnect(1);
}

#[test]
fn images_states_and_closed_streams_divide_what_is_merged() {
    let mut world = slow_world(JustInTime::All, 10_000);
    for stream in [6, 7] {
        world.send(1, CloseMsg::new(PRICE, stream));
    }
    world.p2ps.client_backlog(SLOW, 160);
    let quotes = |world: &mut World, values: std::ops::Range<u64>| {
        world.publish(0, |p| {
            for value in values {
                p.update(4, &[(22, value)]);
            }
        });
    };
    quotes(&mut world, 0..3);
    world.publish(0, |p| {
        p.status(4, 0, &crate::world::status(rwf::StreamState::OPEN, rwf::DataState::SUSPECT, rwf::StateCode::NONE));
    });
    quotes(&mut world, 3..6);
    // The stream's number is used again, for the same item.
    world.send(1, CloseMsg::new(PRICE, 5));
    world.request(1, &RequestMsg { flags: RequestFlags::STREAMING | RequestFlags::NO_REFRESH, ..item(5, "IBM") });
    world.asked();
    world.publish(0, |p| {
        p.image_with(4, hub_stream::flags::RECOVERY, &crate::world::refresh(&[(22, 5)]));
    });
    quotes(&mut world, 6..9);
    drain(&mut world);
    let got = world.take(1);
    let updates: Vec<&str> = got.iter().map(|words| words.rsplit(' ').next().unwrap()).collect();
    assert_eq!(
        updates,
        [
            "OPEN/NO_CHANGE/JIT_CONFLATION_STARTED",
            "22=2",
            "OPEN/SUSPECT",
            "22=5",
            "22=5",
            "22=8",
            "OPEN/NO_CHANGE/REALTIME_RESUMED"
        ],
        "{got:?}"
    );
    world.take(2);
}

/// Clients 1 and 2 are slow, and client 3 takes all; each has IBM on stream 5, and client 2 a view of it on stream 6.
fn slow_pair() -> World {
    let service = ServiceConflation { just_in_time: JustInTime::All, ..ServiceConflation::default() };
    let egress = Limits { guaranteed: 100, max: 100_000, conflate: 150, tick_by_tick: 20, ..Limits::default() };
    let mut world = World::with_feed_and(Config { egress, ..config(service, false) });
    world.clients([1, 2, 3]);
    world.open(1, 5, "IBM", 4);
    let body = encode(|w| {
        let view = Some(rwf::rdm::request::View::Fields(vec![25]));
        rwf::rdm::request::Payload { view, ..Default::default() }.encode(w)
    });
    let flags = RequestFlags::STREAMING | RequestFlags::HAS_VIEW;
    let viewed = RequestMsg { flags, container: DataType::ELEMENT_LIST, body: &body, ..item(6, "IBM") };
    world.request(2, &item(5, "IBM"));
    world.request(2, &viewed);
    world.request(3, &item(5, "IBM"));
    world.asked();
    world.publish(0, |p| {
        p.image(4, &[(22, 1), (25, 2)]);
    });
    (1..4).for_each(|client| drop(world.raw(client)));
    for client in [1, 2] {
        world.p2ps.client_backlog(ClientId(client), 160);
    }
    world
}

fn quote(world: &mut World, list: &[(i16, u64)]) {
    world.publish(0, |p| {
        p.update(4, list);
    });
}

fn release(world: &mut World, client: u32) -> Vec<String> {
    world.p2ps.client_backlog(ClientId(client), 0);
    for _ in 0..50 {
        world.settle();
    }
    world.take(client)
}

#[test]
fn each_slow_client_gets_what_has_changed_since_it_took_last() {
    let mut world = slow_pair();
    quote(&mut world, &[(22, 10), (25, 11)]);
    quote(&mut world, &[(22, 12)]);
    assert_eq!(
        release(&mut world, 1),
        [
            "status 5 OPEN/NO_CHANGE/JIT_CONFLATION_STARTED",
            "update 5 22=12 25=11",
            "status 5 OPEN/NO_CHANGE/REALTIME_RESUMED"
        ]
    );
    // The client is slow again, and waits for less than the other one, of the same merge.
    world.p2ps.client_backlog(ClientId(1), 160);
    quote(&mut world, &[(22, 13)]);
    quote(&mut world, &[(30, 14), (22, 15)]);
    assert_eq!(
        release(&mut world, 1),
        [
            "status 5 OPEN/NO_CHANGE/JIT_CONFLATION_STARTED",
            "update 5 22=15 30=14",
            "status 5 OPEN/NO_CHANGE/REALTIME_RESUMED"
        ]
    );
    quote(&mut world, &[(22, 16), (25, 17)]);
    assert_eq!(world.take(1), ["update 5 22=16 25=17"], "as it comes");
    let got = release(&mut world, 2);
    assert_eq!(
        only(&got, 5),
        [
            "status 5 OPEN/NO_CHANGE/JIT_CONFLATION_STARTED",
            "update 5 22=16 25=17 30=14",
            "status 5 OPEN/NO_CHANGE/REALTIME_RESUMED"
        ]
    );
    let viewed = only(&got, 6);
    assert_eq!(viewed[1], "update 6 25=17", "{viewed:?}");
    assert_eq!(world.take(3).len(), 5);
    assert_eq!((world.p2ps.counters().clients_conflated, world.p2ps.counters().updates_conflated), (0, 1 + 1 + 4 + 1));
}

#[test]
fn what_one_slow_client_is_told_stands_still_between_updates() {
    let mut world = slow_pair();
    quote(&mut world, &[(22, 10)]);
    quote(&mut world, &[(22, 11)]);
    // Client 1 asks for the image again: what comes before and behind it does not merge, for anybody.
    world.request(1, &item(5, "IBM"));
    world.asked();
    world.publish(0, |p| {
        p.update(4, &[(22, 12)]).image(4, &[(22, 12), (25, 2)]).update(4, &[(22, 13)]).update(4, &[(22, 14)]);
    });
    let got = release(&mut world, 1);
    assert_eq!(
        got[1..4],
        ["update 5 22=12", "refresh 5 solicited complete OPEN/OK group 3 key 1:IBM 22=12 25=2", "update 5 22=14",],
        "{got:?}"
    );
    let got = release(&mut world, 2);
    assert_eq!(only(&got, 5)[1..3], ["update 5 22=12", "update 5 22=14"], "{got:?}");
    world.take(3);
}

#[test]
fn a_stream_that_pauses_closes_or_changes_its_view_leaves_the_others_theirs() {
    let mut world = slow_pair();
    quote(&mut world, &[(22, 10), (25, 10)]);
    quote(&mut world, &[(22, 11), (25, 11)]);
    // Client 2 closes its view, and opens the item on that stream: what waited for the view is of the view.
    world.send(2, CloseMsg::new(PRICE, 6));
    world.request(2, &item(6, "IBM"));
    let pause = RequestMsg {
        flags: RequestFlags::STREAMING | RequestFlags::PAUSE | RequestFlags::NO_REFRESH,
        ..item(5, "IBM")
    };
    world.request(1, &pause);
    world.asked();
    quote(&mut world, &[(22, 12), (25, 12)]);
    world.publish(0, |p| {
        p.image(4, &[(22, 12), (25, 12)]);
    });
    quote(&mut world, &[(22, 13), (25, 13)]);
    quote(&mut world, &[(22, 14), (25, 14)]);
    let got = release(&mut world, 1);
    let updates: Vec<&String> = got.iter().filter(|words| words.starts_with("update")).collect();
    assert_eq!(updates, ["update 5 22=11 25=11"], "it has paused: {got:?}");
    let got = release(&mut world, 2);
    assert_eq!(only(&got, 5)[1..3], ["update 5 22=11 25=11", "update 5 22=14 25=14"], "{got:?}");
    let other = only(&got, 6);
    let at =
        |words: &str| other.iter().position(|other| *other == words).unwrap_or_else(|| panic!("{words} in {other:?}"));
    assert!(at("update 6 25=11") < at("refresh 6 solicited complete OPEN/OK group 3 key 1:IBM 22=12 25=12"));
    assert!(at("refresh 6 solicited complete OPEN/OK group 3 key 1:IBM 22=12 25=12") < at("update 6 22=14 25=14"));
    world.take(3);
    // Nobody is slow and nobody watches: nothing is kept, which the check of every turn sees.
    for client in [1, 2, 3] {
        world.disconnect(client);
    }
    world.asked();
}

#[test]
fn what_is_said_of_services_stands_still_between_updates() {
    let mut world = slow_pair();
    let request = rwf::rdm::directory::Request { stream_id: 9, streaming: true, service_id: None, filter: 0x3F };
    quote(&mut world, &[(22, 10)]);
    quote(&mut world, &[(22, 11)]);
    world.send_with(1, |w| request.encode(w));
    quote(&mut world, &[(22, 12)]);
    quote(&mut world, &[(22, 13)]);
    let got = release(&mut world, 1);
    let kinds: Vec<String> = got.iter().map(|words| words.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(kinds[1], "update 5 22=11", "{got:?}");
    assert_eq!(kinds[2], "directory refresh 9", "{got:?}");
    assert_eq!(kinds[3], "update 5 22=13", "{got:?}");
    world.take(2);
    world.take(3);
}
