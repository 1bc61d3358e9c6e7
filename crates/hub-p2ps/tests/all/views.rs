//! Many views of one item cost as much as they have fields, however many there are.

use crate::world::{PRICE, World, encode, item};
use hub_p2ps::Config;
use rwf::DataType;
use rwf::msg::{CloseFlags, CloseMsg, RequestFlags, RequestMsg};
use rwf::rdm::request::{Payload, View};

fn through(fids: Vec<i16>) -> Vec<u8> {
    encode(|w| Payload { view: Some(View::Fields(fids)), ..Payload::default() }.encode(w))
}

fn viewed(stream: i32, body: &[u8]) -> RequestMsg<'_> {
    let flags = RequestFlags::STREAMING | RequestFlags::HAS_VIEW;
    RequestMsg { flags, container: DataType::ELEMENT_LIST, body, ..item(stream, "IBM") }
}

/// Each of 400 streams sees 65 fields of its own. Closing them one by one, or all, once merged all views anew for each.
#[test]
fn many_views_are_closed_with_one_request_upstream() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    for at in 0..400_i16 {
        let body = through((0..65).map(|fid| at * 65 + fid).collect());
        world.request(1 + u32::from(at == 0), &viewed(5 + i32::from(at), &body));
    }
    let opens = world.asked();
    assert_eq!(opens.len(), 1, "one open for all of them");
    world.publish(0, |p| {
        p.opened(crate::world::token_of(&opens[0]), 4).image(4, &[(3, 1)]);
    });
    assert_eq!(world.asked().len(), 1, "the others are asked for together");
    world.publish(0, |p| {
        p.answered(4, 1).image(4, &[(3, 1)]);
    });
    assert_eq!((world.raw(1).len(), world.raw(2).len()), (399, 1), "each view has its image");
    let streams = (6..200).collect();
    let body = encode(|w| Payload { streams: Some(streams), ..Payload::default() }.encode(w));
    world.send_with(1, |w| {
        let close = CloseMsg {
            flags: CloseFlags(4),
            container: DataType::ELEMENT_LIST,
            body: &body,
            ..CloseMsg::new(PRICE, 1)
        };
        close.encode(w)
    });
    assert_eq!(world.asked().len(), 1, "asked for less once");
    world.disconnect(1);
    assert_eq!(world.asked().len(), 1, "asked for less once");
}

/// Each item of a batch with a large view is gone over, so a turn does fewer of them.
#[test]
fn a_batch_with_a_large_view_takes_more_turns() {
    let mut world = World::with_feed_and(Config { work_per_turn: 100, ..Config::default() });
    world.clients([1]);
    let mut batch = |stream, fields: i16| {
        let items = (0..30).map(|at| format!("N{stream}.{at}")).collect::<Vec<_>>();
        let items = Some(items.iter().map(String::as_bytes).collect());
        let view = Some(View::Fields((0..fields).collect()));
        let body = encode(|w| Payload { items, view, ..Payload::default() }.encode(w));
        let flags = RequestFlags::STREAMING | RequestFlags::HAS_VIEW | RequestFlags::HAS_BATCH;
        let msg = RequestMsg { flags, container: DataType::ELEMENT_LIST, body: &body, ..item(stream, "") };
        world.pass(0);
        world.request(
            1,
            &RequestMsg { key: rwf::msg::MsgKey { service_id: Some(1), ..rwf::msg::MsgKey::EMPTY }, ..msg },
        );
        assert_eq!(world.take(1), [format!("status {stream} CLOSED/OK")]);
        let mut turns = 1;
        while world.p2ps.is_behind(hub_p2ps::ClientId(1)) {
            world.pass(0);
            turns += 1;
        }
        world.asked();
        turns
    };
    assert_eq!((batch(10, 63), batch(100, 640)), (1, 3));
}

#[test]
fn an_item_has_so_many_views_and_no_more() {
    let mut world = World::with_feed_and(Config { max_views_per_item: 2, ..Config::default() });
    world.clients([1]);
    for stream in [5, 6, 7] {
        let body = through(vec![stream as i16]);
        world.request(1, &viewed(stream, &body));
    }
    let told = world.raw(1);
    assert_eq!(told.len(), 1, "the third is refused");
    assert!(told[0].windows(17).any(|text| text == b"2 different views"), "and told why");
    // The same view once more, and everything, are no further views.
    world.request(1, &viewed(8, &through(vec![5])));
    world.request(1, &item(9, "IBM"));
    assert_eq!(world.take(1), [""; 0]);
    // A stream that is open keeps what it has.
    world.request(1, &viewed(8, &through(vec![99])));
    let told = world.take(1);
    assert!(told[0].starts_with("status 8 OPEN/NO_CHANGE"), "{told:?}");
    world.asked();
}
