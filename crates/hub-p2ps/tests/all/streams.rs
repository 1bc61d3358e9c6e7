use crate::world::{World, item, untokened, update_with_key};
use rwf::Qos;
use rwf::msg::{MsgKey, RequestFlags, RequestMsg};

#[test]
fn an_item_is_opened_once_and_fanned_out() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.request(1, &item(5, "IBM"));
    world.request(2, &item(9, "IBM"));
    let asked = world.asked();
    assert_eq!(untokened(&asked), ["0: open 40 streaming request 0 [STREAMING] REALTIME/TICK_BY_TICK key IBM"]);
    let token = crate::world::token_of(&asked[0]);
    world.publish(0, |p| {
        p.opened(token, 17).update(17, &[(22, 9)]).image(17, &[(22, 1)]).update(17, &[(22, 2)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:IBM 22=1", "update 5 22=2"]);
    assert_eq!(world.take(2), ["refresh 9 solicited complete OPEN/OK group 3 key 1:IBM 22=1", "update 9 22=2"]);
    assert_eq!(world.p2ps.counters().watchers, 2);
    assert_eq!(world.p2ps.counters().updates_out, 2);
}

#[test]
fn a_late_joiner_gets_an_image_of_its_own_and_the_others_none() {
    let mut world = World::with_feed();
    world.clients([1, 2, 3]);
    world.open(1, 5, "IBM", 4);
    world.request(2, &item(5, "IBM"));
    world.request(3, &item(6, "IBM"));
    assert_eq!(world.asked(), ["0: refresh 4"], "those who wait share one");
    world.publish(0, |p| {
        p.update(4, &[(22, 3)]).image(4, &[(22, 3)]).update(4, &[(22, 4)]);
    });
    assert_eq!(world.take(1), ["update 5 22=3", "update 5 22=4"]);
    assert_eq!(world.take(2), ["refresh 5 solicited complete OPEN/OK group 3 key 1:IBM 22=3", "update 5 22=4"]);
    assert_eq!(world.take(3), ["refresh 6 solicited complete OPEN/OK group 3 key 1:IBM 22=3", "update 6 22=4"]);
}

#[test]
fn the_last_watcher_gives_the_item_back() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "IBM", 4);
    world.request(2, &item(5, "IBM"));
    world.asked();
    world.close(1, 5);
    assert_eq!(world.asked(), [""; 0]);
    world.disconnect(2);
    assert_eq!(world.asked(), ["0: close 4"]);
    world.publish(0, |p| {
        p.image(4, &[(22, 3)]).update(4, &[(22, 4)]);
    });
    let counters = world.p2ps.counters();
    assert_eq!((counters.items, counters.watchers), (0, 0));
}

#[test]
fn an_item_given_up_before_it_is_open_is_closed_when_it_opens() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.request(1, &item(5, "IBM"));
    let token = world.token();
    world.asked();
    world.close(1, 5);
    assert_eq!(world.asked(), [""; 0]);
    world.publish(0, |p| {
        p.opened(token, 8).image(8, &[(22, 1)]);
    });
    assert_eq!(world.asked(), ["0: close 8"]);
    assert_eq!(world.p2ps.counters().items, 0);
}

#[test]
fn items_differ_by_every_part_of_the_key() {
    let mut world = World::with_feed();
    world.clients([1]);
    let base = item(5, "IBM");
    world.request(1, &base);
    world.request(1, &RequestMsg { stream_id: 6, key: MsgKey { name_type: None, ..base.key }, ..base.clone() });
    assert_eq!(world.asked().len(), 1, "the usual name type need not be said");
    for (stream, key) in [
        (7, MsgKey { name_type: Some(2), ..base.key }),
        (8, MsgKey { identifier: Some(4), ..base.key }),
        (9, MsgKey { filter: Some(1), ..base.key }),
        (10, MsgKey { attrib: Some(rwf::msg::Attrib::new(rwf::DataType::ELEMENT_LIST, b"\x08\0\0")), ..base.key }),
    ] {
        world.request(1, &RequestMsg { stream_id: stream, key, ..base.clone() });
        assert_eq!(world.asked().len(), 1, "{key:?}");
    }
    world.request(1, &RequestMsg { stream_id: 11, domain: rwf::msg::Domain::MARKET_BY_PRICE, ..base.clone() });
    assert_eq!(world.asked().len(), 1);
}

#[test]
fn an_updates_key_gets_the_public_service_id_once() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "IBM", 0);
    world.request(2, &item(6, "IBM"));
    world.asked();
    world.publish(0, |p| {
        p.image(0, &[(22, 1)]);
    });
    world.take(2);
    let rwf = update_with_key(4000, "IBM", &[(22, 5)]);
    world.publish(0, |p| {
        p.writer.update(0, true, &rwf);
    });
    assert_eq!(world.take(1), ["update 5 key 1:IBM 22=5"]);
    assert_eq!(world.take(2), ["update 6 key 1:IBM 22=5"]);
}

#[test]
fn a_request_that_cannot_be_served_is_refused_with_the_sdks_code() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.open(1, 5, "IBM", 0);
    let base = item(6, "X");
    for (wrong, words) in [
        (RequestMsg { key: MsgKey::item(9, b"X"), ..base.clone() }, "status 6 CLOSED/SUSPECT/SOURCE_UNKNOWN"),
        (
            RequestMsg { key: MsgKey { service_id: None, ..base.key }, ..base.clone() },
            "status 6 CLOSED/SUSPECT/SOURCE_UNKNOWN",
        ),
        (RequestMsg { domain: rwf::msg::Domain(10), ..base.clone() }, "status 6 CLOSED/SUSPECT/USAGE_ERROR"),
        (RequestMsg { key: MsgKey::item(1, b""), ..base.clone() }, "status 6 CLOSED/SUSPECT/INVALID_ARGUMENT"),
        (RequestMsg { stream_id: 0, ..base.clone() }, "status 0 CLOSED/SUSPECT/USAGE_ERROR"),
        (RequestMsg { stream_id: -3, ..base.clone() }, "status -3 CLOSED/SUSPECT/USAGE_ERROR"),
        (RequestMsg { stream_id: 1, ..base.clone() }, "status 1 OPEN/NO_CHANGE/ALREADY_OPEN"),
        (RequestMsg { stream_id: 5, ..base.clone() }, "status 5 OPEN/NO_CHANGE/ALREADY_OPEN"),
        (
            RequestMsg {
                qos: Some(Qos { time_info: 900, ..Qos::new(rwf::Timeliness::DELAYED, rwf::Rate::TICK_BY_TICK) }),
                ..base.clone()
            },
            "status 6 CLOSED/SUSPECT/NOT_FOUND",
        ),
    ] {
        world.request(1, &wrong);
        assert_eq!(world.take(1), [words], "{wrong:?}");
    }
    world.publish(0, |p| {
        p.update(0, &[(22, 8)]);
    });
    assert_eq!(world.take(1), ["update 5 22=8"], "what was open stays open");
    assert_eq!(world.p2ps.counters().requests_refused, 9);
}

#[test]
fn a_snapshot_is_not_streaming_and_leaves_nobody_behind() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    let snapshot = |stream| RequestMsg { flags: RequestFlags::NONE, ..item(stream, "IBM") };
    world.request(1, &snapshot(5));
    world.request(2, &snapshot(5));
    let asked = world.asked();
    assert_eq!(untokened(&asked), ["0: open 40 snapshot request 0 [0] REALTIME/TICK_BY_TICK key IBM"]);
    let token = crate::world::token_of(&asked[0]);
    world.publish(0, |p| {
        p.opened(token, 3).image_with(3, hub_stream::flags::SNAPSHOT, &crate::world::refresh(&[(22, 7)]));
    });
    for client in [1, 2] {
        assert_eq!(world.take(client), ["refresh 5 solicited complete NON_STREAMING/OK group 3 key 1:IBM 22=7"]);
    }
    assert_eq!(world.asked(), ["0: close 3"]);
    assert_eq!(world.p2ps.counters().items, 0);
    world.open(1, 5, "IBM", 4);
    world.request(2, &snapshot(5));
    assert_eq!(world.asked(), ["0: refresh 4"], "an item that streams serves snapshots too");
    world.publish(0, |p| {
        p.image(4, &[(22, 8)]).update(4, &[(22, 9)]);
    });
    assert_eq!(world.take(2), ["refresh 5 solicited complete NON_STREAMING/OK group 3 key 1:IBM 22=8"]);
    assert_eq!(world.take(1), ["update 5 22=9"]);
    assert_eq!(world.p2ps.counters().watchers, 1);
}

#[test]
fn requests_of_other_domains_are_relayed_too() {
    let mut world = World::new();
    world.source(0);
    world.publish(0, |p| {
        p.service_with(40, crate::world::info("FEED", &[6, 200], &[]), rwf::rdm::directory::ServiceState::new(true));
    });
    world.clients([1]);
    world.request(
        1,
        &RequestMsg {
            domain: rwf::msg::Domain(200),
            key: MsgKey { service_id: Some(1), ..MsgKey::EMPTY },
            ..item(5, "")
        },
    );
    assert_eq!(untokened(&world.asked()), ["0: open 40 streaming request 0 [STREAMING] REALTIME/TICK_BY_TICK"]);
}

#[test]
fn an_item_that_does_not_stream_ends_with_its_image() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.request(1, &item(5, "A"));
    let token = world.token();
    world.asked();
    world.publish(0, |p| {
        p.opened(token, 0).image_with(0, hub_stream::flags::SNAPSHOT, &crate::world::refresh(&[(22, 1)]));
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete NON_STREAMING/OK group 3 key 1:A 22=1"]);
    assert_eq!(world.asked(), ["0: close 0"]);
    assert_eq!(world.p2ps.counters().watchers, 0);
}

#[test]
fn a_redirection_names_the_item_to_go_to() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.request(1, &item(5, "OLD"));
    let token = world.token();
    world.asked();
    let rwf = crate::world::encode(|w| {
        rwf::msg::RefreshMsg {
            state: rwf::State::new(rwf::StreamState::REDIRECTED, rwf::DataState::OK, rwf::StateCode::NONE, ""),
            flags: rwf::msg::RefreshFlags::REFRESH_COMPLETE,
            key: Some(MsgKey::item(900, b"NEW")),
            ..rwf::msg::RefreshMsg::new(rwf::msg::Domain::MARKET_PRICE, 5)
        }
        .encode(w)
    });
    world.publish(0, |p| {
        p.opened(token, 0).image_with(0, 0, &rwf);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete REDIRECTED/OK group 3 key 1:NEW"]);
    assert_eq!(world.asked(), ["0: close 0"]);
}
