//! Posts and their acks: where they go, and what becomes of those that go nowhere.

use crate::world::{PRICE, SECOND, World, encode, item, token_of, untokened};
use hub_p2ps::ClientId;
use hub_stream::Event;
use rwf::DataType;
use rwf::msg::{AckMsg, MsgKey, NakCode, PostFlags, PostMsg, PostUserInfo};

fn post<'a>(stream: i32, key: Option<MsgKey<'a>>, body: &'a [u8]) -> PostMsg<'a> {
    PostMsg {
        flags: PostFlags::ACK | PostFlags::POST_COMPLETE,
        post_id: Some(9),
        seq_num: Some(4),
        key,
        container: DataType::FIELD_LIST,
        body,
        ..PostMsg::new(PRICE, stream)
    }
}

fn ack(key: Option<MsgKey<'_>>, nak_code: Option<NakCode>) -> Vec<u8> {
    encode(|w| AckMsg { ack_id: 123, nak_code, key, ..AckMsg::new(PRICE, 1) }.encode(w))
}

#[test]
fn posts_find_their_way_and_acks_their_owner() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "A", 0);
    let body = crate::world::fields(&[(22, 1)]);
    world.send_with(1, |w| post(5, None, &body).encode(w));
    let off_stream = post(1, Some(MsgKey::item(1, b"B")), &body);
    let user = PostUserInfo { addr: 0x0102_0304, id: 77 };
    world.send_with(2, |w| PostMsg { post_user_info: user, ..off_stream.clone() }.encode(w));
    let asked = world.asked();
    assert_eq!(
        untokened(&asked),
        ["0: post 40 0 post 5 id 9 by 10.0.0.1/2 22=1", "0: post 40 - post 1 id 9 by 1.2.3.4/77 key B 22=1",]
    );
    let (first, second) = (token_of(&asked[0]), token_of(&asked[1]));
    assert!(first != second && first != 0 && second != 0);
    world.publish(0, |p| {
        let with_key = ack(Some(MsgKey::item(40, b"B")), Some(NakCode::DENIED_BY_SRC));
        p.event(Event::Ack { target: 7, token: second, rwf: &with_key });
        p.event(Event::Ack { target: 7, token: first, rwf: &ack(None, None) });
        p.event(Event::Ack { target: 7, token: first, rwf: &ack(None, None) });
    });
    assert_eq!(world.take(1), ["ack 5 id 9 seq 4"]);
    assert_eq!(world.take(2), ["ack 1 id 9 nak DENIED_BY_SRC seq 4 key 1:B"]);
    assert_eq!(world.p2ps.counters().acks_unclaimed, 1);
    world.send_with(1, |w| PostMsg { flags: PostFlags::NONE, ..post(5, None, &body) }.encode(w));
    assert_eq!(token_of(&world.asked()[0]), 0, "no ack is wanted");
}

#[test]
fn an_ack_has_the_number_of_its_post_whatever_the_provider_writes() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.open(1, 5, "A", 0);
    let body = crate::world::fields(&[(22, 1)]);
    for (own, foreign, told) in [(Some(4), Some(900), "ack 5 id 9 seq 4"), (None, Some(900), "ack 5 id 9")] {
        world.send_with(1, |w| PostMsg { seq_num: own, ..post(5, None, &body) }.encode(w));
        let token = token_of(&world.asked()[0]);
        let rwf = encode(|w| AckMsg { ack_id: 123, seq_num: foreign, ..AckMsg::new(PRICE, 1) }.encode(w));
        world.publish(0, |p| {
            p.event(Event::Ack { target: 7, token, rwf: &rwf });
        });
        assert_eq!(world.take(1), [told]);
    }
}

/// The body of a post that has an update in it, with a key of its own.
fn nested(key: Option<MsgKey<'_>>, body: &[u8]) -> Vec<u8> {
    let update =
        rwf::msg::UpdateMsg { key, container: DataType::FIELD_LIST, body, ..rwf::msg::UpdateMsg::new(PRICE, 0) };
    encode(|w| update.encode(w))
}

#[test]
fn a_post_names_one_item_or_goes_nowhere() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.open(1, 5, "A", 0);
    let body = crate::world::fields(&[(22, 1)]);
    let (a, b, elsewhere) = (MsgKey::item(1, b"A"), MsgKey::item(1, b"B"), MsgKey::item(2, b"A"));
    let other_type = MsgKey { name_type: Some(2), ..a };
    let nameless = MsgKey { name: None, name_type: None, ..a };
    let as_msg = |stream, key, inner: &'static [u8]| PostMsg { container: DataType::MSG, ..post(stream, key, inner) };
    let in_b: &[u8] = nested(Some(b), &body).leak();
    let in_a: &[u8] = nested(Some(a), &body).leak();
    let in_elsewhere: &[u8] = nested(Some(elsewhere), &body).leak();
    for (wrong, stream) in [
        (post(5, Some(b), &body), 5),
        (post(5, Some(elsewhere), &body), 5),
        (post(5, Some(other_type), &body), 5),
        (as_msg(5, None, in_b), 5),
        (as_msg(5, Some(a), in_b), 5),
        (as_msg(5, None, in_elsewhere), 5),
        (as_msg(1, Some(a), in_b), 1),
        (as_msg(1, Some(a), in_elsewhere), 1),
        (as_msg(1, Some(a), b"no message"), 1),
    ] {
        world.send_with(1, |w| wrong.encode(w));
        assert_eq!(world.take(1), [format!("ack {stream} id 9 nak INVALID_CONTENT seq 4")], "{wrong:?}");
        assert_eq!(world.asked(), [""; 0]);
    }
    for right in [
        post(5, None, &body),
        post(5, Some(a), &body),
        post(5, Some(nameless), &body),
        as_msg(5, None, in_a),
        as_msg(1, None, in_b),
        as_msg(1, Some(b), in_b),
    ] {
        world.send_with(1, |w| right.encode(w));
        assert_eq!((world.asked().len(), world.take(1)), (1, Vec::new()), "{right:?}");
    }
}

#[test]
fn a_post_that_goes_nowhere_gets_its_nak() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.connect(2);
    let body = crate::world::fields(&[(22, 1)]);
    let key = Some(MsgKey::item(1, b"B"));
    for (client, wrong, nak) in [
        (1, post(1, Some(MsgKey::item(3, b"B")), &body), "ack 1 id 9 nak SOURCE_UNKNOWN seq 4"),
        (1, post(1, None, &body), "ack 1 id 9 nak SOURCE_UNKNOWN seq 4"),
        (1, post(1, Some(MsgKey::item(1, b"")), &body), "ack 1 id 9 nak SYMBOL_UNKNOWN seq 4"),
        (1, post(8, key, &body), "ack 8 id 9 nak NOT_OPEN seq 4"),
        (2, post(1, key, &body), "ack 1 id 9 nak ACCESS_DENIED seq 4"),
    ] {
        world.send_with(client, |w| wrong.encode(w));
        assert_eq!(world.take(client), [nak]);
    }
    world.send_with(1, |w| post(1, key, &body).encode(w));
    let late = token_of(&world.asked()[0]);
    world.pass(15 * SECOND - 1);
    assert_eq!(world.take(1), [""; 0]);
    world.pass(1);
    assert_eq!(world.take(1), ["ack 1 id 9 nak NO_RESPONSE seq 4"]);
    world.publish(0, |p| {
        p.event(Event::Ack { target: 7, token: late, rwf: &ack(None, None) });
    });
    world.send_with(1, |w| post(1, key, &body).encode(w));
    world.asked();
    world.source_down(0);
    assert_eq!(world.take(1), ["ack 1 id 9 nak SOURCE_DOWN seq 4"]);
    world.send_with(1, |w| post(1, key, &body).encode(w));
    assert_eq!(world.take(1), ["ack 1 id 9 nak SOURCE_DOWN seq 4"]);
}

#[test]
fn a_post_on_a_stream_that_is_not_open_at_the_source_names_its_item() {
    let mut world = World::with_feed();
    world.clients([1]);
    let body = crate::world::fields(&[(22, 1)]);
    world.request(1, &item(6, "B"));
    world.asked();
    world.send_with(1, |w| post(6, None, &body).encode(w));
    assert_eq!(untokened(&world.asked()), ["0: post 40 - post 6 id 9 by 10.0.0.1/2 key B 22=1"]);
}

#[test]
fn the_default_service_of_a_json_post_is_none_that_the_client_has_named() {
    let mut world = World::with_feed();
    world.publish(0, |p| {
        p.service(41, "OTHER");
    });
    world.clients([1]);
    world.p2ps.mark_json(ClientId(1));
    world.open(1, 5, "A", 0);
    let body = crate::world::fields(&[(22, 1)]);
    let (own, default) = (MsgKey::item(1, b"A"), MsgKey::item(2, b"A"));
    world.send_with(1, |w| post(5, Some(default), &body).encode(w));
    let inner = nested(Some(own), &body);
    world.send_with(1, |w| PostMsg { container: DataType::MSG, ..post(5, Some(default), &inner) }.encode(w));
    world.send_with(1, |w| PostMsg { container: DataType::MSG, ..post(1, Some(own), &inner) }.encode(w));
    let to: Vec<String> = untokened(&world.asked()).iter().map(|words| words[..12].to_owned()).collect();
    assert_eq!(to, ["0: post 40 0", "0: post 40 0", "0: post 40 -"]);
    // What stands within is what the client has written: another service there is another item, and so is another name.
    let inner = nested(Some(default), &body);
    world.send_with(1, |w| PostMsg { container: DataType::MSG, ..post(5, None, &inner) }.encode(w));
    assert_eq!(world.take(1), ["ack 5 id 9 nak INVALID_CONTENT seq 4"]);
    world.send_with(1, |w| PostMsg { container: DataType::MSG, ..post(1, Some(own), &inner) }.encode(w));
    assert_eq!(world.take(1), ["ack 1 id 9 nak INVALID_CONTENT seq 4"]);
    world.send_with(1, |w| post(5, Some(MsgKey::item(2, b"B")), &body).encode(w));
    assert_eq!(world.take(1), ["ack 5 id 9 nak INVALID_CONTENT seq 4"]);
}

/// The world checks after each message that deadlines of answered posts do not pile up until their time.
#[test]
fn a_client_whose_posts_are_answered_at_once_leaves_nothing_of_them() {
    let mut world = World::with_feed();
    world.clients([1]);
    let body = crate::world::fields(&[(22, 1)]);
    world.send_with(1, |w| post(1, Some(MsgKey::item(1, b"SLOW")), &body).encode(w));
    let slow = token_of(&world.asked()[0]);
    for _ in 0..3_000 {
        world.send_with(1, |w| post(1, Some(MsgKey::item(1, b"B")), &body).encode(w));
        let token = token_of(&world.asked()[0]);
        world.publish(0, |p| {
            p.event(Event::Ack { target: 7, token, rwf: &ack(None, None) });
        });
        assert_eq!(world.take(1).len(), 1);
    }
    world.publish(0, |p| {
        p.event(Event::Ack { target: 7, token: slow, rwf: &ack(None, None) });
    });
    assert_eq!(world.take(1).len(), 1, "one that waits is not forgotten with them");
}

#[test]
fn an_ack_for_a_client_that_is_gone_reaches_nobody() {
    let mut world = World::with_feed();
    world.clients([1]);
    let body = crate::world::fields(&[(22, 1)]);
    world.send_with(1, |w| post(1, Some(MsgKey::item(1, b"B")), &body).encode(w));
    let token = token_of(&world.asked()[0]);
    world.disconnect(1);
    world.clients([1]);
    world.publish(0, |p| {
        p.event(Event::Ack { target: 7, token, rwf: &ack(None, None) });
    });
    assert_eq!(world.take(1), [""; 0]);
}
