//! Late join and off-transport recovery: what a topic fetches from its source over TCP.

use lbm::topic::{CatchUpConfig, DeliveryConfig, RetentionConfig, Source, SourceConfig};
use lbm::wire::header::{Header, LateJoinRequest, RetransmitRequest};
use lbm::wire::lbmc::Messages;

use super::{Pair, SECOND, TopicEvent, message, send, source};

/// Runs the dialogue of a late join or recovery over a perfect connection until nothing more is asked.
fn fetch(pair: &mut Pair, source: &mut Source) -> usize {
    let mut asked = 0;
    loop {
        let mut questions = Vec::new();
        pair.session.on_timer(pair.now, &mut pair.sink, |topic, header| match header {
            Header::LateJoinRequest(q) => questions.push((topic, Ok::<LateJoinRequest, RetransmitRequest>(q))),
            Header::RetransmitRequest(q) => questions.push((topic, Err(q))),
            other => panic!("{other:?}"),
        });
        if questions.is_empty() {
            return asked;
        }
        for (topic, question) in questions {
            asked += 1;
            let mut answer = Vec::new();
            match question {
                Ok(q) => {
                    source.late_join_request(pair.now, &q, &mut answer);
                    for m in Messages::new(&answer) {
                        for header in m.expect("ours").headers() {
                            let Ok(Header::LateJoinInfo(info)) = header else { panic!("{header:?}") };
                            pair.session.late_join_info(pair.now, topic, &info, &mut pair.sink);
                        }
                    }
                }
                Err(q) => {
                    if source.retransmit_request(&q, &mut answer) {
                        pair.session.fetched(pair.now, &answer, &mut pair.sink);
                    }
                }
            }
        }
    }
}

fn retaining(topic: u32) -> Source {
    Source::new(topic, SourceConfig { late_join: Some(RetentionConfig::default()), ..SourceConfig::default() })
}

#[test]
fn a_late_joiner_gets_what_was_retained_and_then_what_is_live() {
    let catch_up = CatchUpConfig { late_join: true, ..CatchUpConfig::default() };
    let mut pair = Pair::new(&[1], &DeliveryConfig { catch_up, ..DeliveryConfig::default() });
    let mut a = retaining(1);
    (0..30).for_each(|i| send(&mut a, &mut pair, &format!("{i}")));
    let d = pair.datagrams();
    assert_eq!(pair.give(&d[27]), [TopicEvent::Begin], "a live message waits for the older ones");
    pair.give(&d[28]);
    assert!(fetch(&mut pair, &mut a) >= 28);
    let expected: Vec<TopicEvent> = (0..29).map(|i| message(i, &i.to_string())).collect();
    assert_eq!(pair.sink.take(), expected);
    assert_eq!(pair.give(&d[29]), [message(29, "29")]);
    assert_eq!(pair.session.timeout(), None);
}

#[test]
fn a_topic_that_is_given_up_while_it_fetches_leaves_its_place_in_order() {
    let catch_up = CatchUpConfig { late_join: true, ..CatchUpConfig::default() };
    let config = DeliveryConfig { catch_up, ..DeliveryConfig::default() };
    let mut pair = Pair::new(&[1], &config);
    let mut a = retaining(1);
    (0..8).for_each(|i| send(&mut a, &mut pair, &format!("{i}")));
    let d = pair.datagrams();
    pair.give(&d[4]);
    assert!(pair.session.is_fetching() && pair.session.remove(1));
    assert!(!pair.session.is_fetching(), "nobody wants what was fetched");
    assert!(pair.session.add(1, 1, config, &mut pair.sink));
    pair.sink.take();
    pair.give(&d[5]);
    assert!(fetch(&mut pair, &mut a) >= 5);
    let expected: Vec<TopicEvent> = (0..6).map(|i| message(i, &i.to_string())).collect();
    assert_eq!(pair.sink.take(), expected);
}

#[test]
fn a_late_joiner_whom_nobody_answers_begins_with_what_is_live() {
    let catch_up = CatchUpConfig { late_join: true, info_maximum: 2, ..CatchUpConfig::default() };
    let mut pair = Pair::new(&[1], &DeliveryConfig { catch_up, ..DeliveryConfig::default() });
    let mut a = source(1);
    (0..3).for_each(|i| send(&mut a, &mut pair, &format!("{i}")));
    let d = pair.datagrams();
    pair.give(&d[1]);
    let mut asked = 0;
    while let Some(at) = pair.session.timeout() {
        pair.now = pair.now.max(at);
        pair.session.on_timer(pair.now, &mut pair.sink, |_, _| asked += 1);
    }
    assert_eq!((asked, pair.sink.take()), (2, vec![message(1, "1")]));
    assert_eq!(pair.give(&d[2]), [message(2, "2")]);
}

#[test]
fn what_the_transport_has_lost_is_fetched_or_reported() {
    let catch_up = CatchUpConfig { recovery: true, ..CatchUpConfig::default() };
    let mut pair = Pair::new(&[1], &DeliveryConfig { catch_up, ..DeliveryConfig::default() });
    let mut a = retaining(1);
    (0..8).for_each(|i| send(&mut a, &mut pair, &format!("{i}")));
    let d = pair.datagrams();
    pair.give(&d[0]);
    pair.give(&d[3]);
    pair.wait(2 * SECOND);
    assert_eq!(pair.sink.take(), []);
    assert_eq!(fetch(&mut pair, &mut a), 2);
    assert_eq!(pair.sink.take(), [message(1, "1"), message(2, "2"), message(3, "3")]);
    // The next gap meets a source that retains nothing.
    pair.give(&d[6]);
    pair.wait(2 * SECOND);
    let mut other = source(1);
    while let Some(at) = pair.session.timeout() {
        pair.now = pair.now.max(at);
        fetch(&mut pair, &mut other);
    }
    assert_eq!(pair.sink.take(), [TopicEvent::Lost(4), TopicEvent::Lost(5), message(6, "6")]);
    assert_eq!(pair.give(&d[7]), [message(7, "7")]);
}

/// The source's answer is waited for while there is room for what is live; without the answer recovery goes on at once.
#[test]
fn a_late_joiner_without_room_to_wait_asks_for_what_is_lost_at_once() {
    let catch_up = CatchUpConfig { late_join: true, recovery: true, entries_maximum: 4, ..CatchUpConfig::default() };
    let mut pair = Pair::new(&[1], &DeliveryConfig { catch_up, ..DeliveryConfig::default() });
    let mut a = retaining(1);
    (0..9).for_each(|i| send(&mut a, &mut pair, &format!("{i}")));
    let d = pair.datagrams();
    for i in [2, 4, 5] {
        pair.give(&d[i]);
    }
    pair.wait(2 * SECOND);
    assert_eq!(pair.sink.take(), [message(2, "2")], "four are known, and no more may be");
    assert_eq!(fetch(&mut pair, &mut a), 1, "the one that is missing");
    assert_eq!(pair.sink.take(), [message(3, "3"), message(4, "4"), message(5, "5")]);
}

/// However little room there is, one message can be fetched.
#[test]
fn the_last_message_is_fetched_with_the_least_room() {
    for entries_maximum in [0, 1, 2] {
        let catch_up = CatchUpConfig { recovery: true, entries_maximum, ..CatchUpConfig::default() };
        let mut pair = Pair::new(&[1], &DeliveryConfig { catch_up, ..DeliveryConfig::default() });
        let mut a = retaining(1);
        (0..2).for_each(|i| send(&mut a, &mut pair, &format!("{i}")));
        let d = pair.datagrams();
        pair.give(&d[0]);
        pair.now += 6 * SECOND;
        assert!(a.on_timer(pair.now, &mut pair.sender));
        pair.sink.take();
        let control = pair.datagrams().pop().expect("the last number");
        pair.session.fetched(pair.now, &control[lbm::wire::lbtrm::DATA_HEADER..], &mut pair.sink);
        assert_eq!(fetch(&mut pair, &mut a), 1, "room for {entries_maximum}");
        assert_eq!(pair.sink.take(), [message(1, "1")]);
    }
}
