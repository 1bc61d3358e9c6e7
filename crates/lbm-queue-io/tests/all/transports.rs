//! The same over each transport.

use std::collections::BTreeSet;

use lbm_io::SendFlags;
use lbm_queue_io::{AddError, Index, NotAdmitted, QueuesStats, ReceiverEvent, SendRefused, SourceEvent};
use lbm_trials::lines::lines;

use crate::rig::{Program, Sender, options, ready, until};

const SETS: &str = "source umq_ulb_application_set 0:10;1:20
    source umq_ulb_events MSG_COMPLETE|RCV_READY
    source umq_ulb_application_set_receiver_activity_timeout 0:1000;1:1000
    source umq_ulb_application_set_receiver_keepalive_interval 0:100;1:100
    source umq_ulb_check_interval 50
    context umq_command_interval 50\n";

fn of_type(base: &str, kind: u32) -> String {
    format!("{base}receiver umq_receiver_type_id {kind}\n")
}

/// The same with the first set alone.
fn one_set() -> String {
    [";1:20", ";1:1000", ";1:100"].iter().fold(SETS.to_owned(), |lines, second| lines.replace(second, ""))
}

/// Two receivers of one set share the messages, the one of the other set has all; long ones come in pieces.
fn shares(transport: &str) {
    let base = lines(transport) + SETS;
    let mut sender = Sender::new(&base);
    let mut receivers: Vec<Program> = [10, 10, 20].map(|kind| Program::receiving(&of_type(&base, kind))).into();
    ready(&mut sender, &mut receivers, 3);
    for number in 0..500u64 {
        let bytes = if number % 50 == 7 { 20_000 } else { 100 };
        while !sender.send(bytes, None) {
            sender.program.turn();
            receivers.iter_mut().for_each(Program::turn);
        }
    }
    until(&mut sender, &mut receivers, "all is consumed", |sender, _| sender.in_flight() == 0);
    let had = |at: usize| receivers[at].seen.had.iter().map(|(number, ..)| *number).collect::<BTreeSet<_>>();
    assert_eq!(had(2).len(), 500, "{transport}");
    assert_eq!(had(0).union(&had(1)).count(), 500, "{transport}");
    assert!(had(0).len() > 100 && had(1).len() > 100, "{transport}: {} and {}", had(0).len(), had(1).len());
    assert_eq!(
        receivers.iter().map(|receiver| receiver.seen.had.len()).sum::<usize>(),
        1_000,
        "{transport}: each once"
    );
    let complete = sender.program.seen.source.iter().filter(|event| matches!(event, SourceEvent::Complete { .. }));
    assert_eq!(complete.count(), 500, "{transport}");
    assert_eq!(sender.program.queues.stats(), QueuesStats::default(), "{transport}");
}

#[test]
fn receivers_of_a_set_share_what_is_sent_by_multicast() {
    shares("lbtrm");
}

#[test]
fn receivers_of_a_set_share_what_is_sent_by_unicast() {
    shares("lbtru");
}

#[test]
fn receivers_of_a_set_share_what_is_sent_by_tcp() {
    shares("tcp");
}

#[test]
fn receivers_of_a_set_share_what_is_sent_in_shared_memory() {
    shares("lbtipc");
}

/// Bytes that go to three receivers of one set while 400 messages of 1,000 bytes are consumed, of which some come in pieces.
fn bytes_for_one_set(behavior: &str, ordered: &str) -> u64 {
    let more =
        format!("source transport_source_side_filtering_behavior {behavior}\nreceiver ordered_delivery {ordered}\n");
    let base = lines("tcp") + &one_set() + &more;
    let mut sender = Sender::new(&base);
    let mut receivers: Vec<Program> = [10, 10, 10].map(|kind| Program::receiving(&of_type(&base, kind))).into();
    ready(&mut sender, &mut receivers, 3);
    let before = sender.bytes();
    for number in 0..400u64 {
        let bytes = if number % 100 == 7 { 100_000 } else { 1_000 };
        while !sender.send(bytes, None) {
            sender.program.turn();
            receivers.iter_mut().for_each(Program::turn);
        }
    }
    until(&mut sender, &mut receivers, "all is consumed", |sender, _| sender.in_flight() == 0);
    let each: Vec<usize> = receivers.iter().map(|receiver| receiver.seen.had.len()).collect();
    assert_eq!(each.iter().sum::<usize>(), 400, "{behavior}, {ordered}: each once, {each:?}");
    assert!(each.iter().all(|had| *had > 50), "{behavior}, {ordered}: {each:?}");
    let lost: u32 = receivers.iter().map(|receiver| receiver.seen.lost).sum();
    assert_eq!(lost, 0, "{behavior}, {ordered}: what is for others is not lost");
    sender.bytes() - before
}

#[test]
fn a_source_that_filters_sends_a_message_to_the_receiver_alone_that_is_to_have_it() {
    let payloads = 396 * 1_000 + 4 * 100_000;
    assert!(bytes_for_one_set("inclusion", "1") > 3 * payloads);
    for ordered in ["1", "-1"] {
        let sent = bytes_for_one_set("ulb", ordered);
        assert!((payloads..payloads + payloads / 10).contains(&sent), "{sent} bytes, order {ordered}");
    }
}

/// Of a set that cannot be reached by itself all hear the message; of two sets one copy goes to each receiver that has it, once.
#[test]
fn a_source_that_filters_reaches_the_receivers_of_all_sets_and_of_one_that_comes_back() {
    let base = lines("tcp") + SETS + "source transport_source_side_filtering_behavior ulb\n";
    let mut sender = Sender::new(&base);
    let mut receivers: Vec<Program> = [10, 10, 20].map(|kind| Program::receiving(&of_type(&base, kind))).into();
    ready(&mut sender, &mut receivers, 3);
    (0..50).for_each(|_| assert!(sender.send(100, None)));
    until(&mut sender, &mut receivers, "all is consumed", |sender, _| sender.in_flight() == 0);
    // A receiver goes, and another one comes on a connection of its own.
    receivers.remove(0);
    receivers.push(Program::receiving(&of_type(&base, 10)));
    until(&mut sender, &mut receivers, "the new one is ready", |_, receivers| {
        receivers[2].seen.receiver.iter().any(|event| matches!(event, ReceiverEvent::Registered { .. }))
    });
    ready(&mut sender, &mut receivers, 3);
    (50..150).for_each(|_| {
        while !sender.send(100, None) {
            sender.program.turn();
            receivers.iter_mut().for_each(Program::turn);
        }
    });
    until(&mut sender, &mut receivers, "all is consumed", |sender, _| sender.in_flight() == 0);
    assert_eq!(receivers[1].seen.had.iter().map(|(number, ..)| *number).collect::<BTreeSet<_>>().len(), 150);
    assert!(receivers[2].seen.had.len() > 20, "{} came to the new one", receivers[2].seen.had.len());
    assert!(receivers.iter().all(|receiver| receiver.seen.lost == 0));
}

#[test]
fn what_a_receiver_that_has_gone_has_not_consumed_comes_to_another_with_a_mark_and_in_the_order_of_its_index() {
    let base = lines("tcp") + &one_set();
    let mut sender = Sender::new(&base);
    let mut receivers: Vec<Program> = [10, 10].map(|kind| Program::receiving(&of_type(&base, kind))).into();
    for receiver in &mut receivers {
        receiver.seen.later = true;
    }
    ready(&mut sender, &mut receivers, 2);
    let of =
        |number: u64| if number.is_multiple_of(2) { Index::Number(4) } else { Index::Text(b"IBM.N".as_slice().into()) };
    (0..40).for_each(|number| assert!(sender.send(8, Some(of(number)))));
    until(&mut sender, &mut receivers, "each has its half", |_, receivers| {
        receivers.iter().all(|receiver| receiver.seen.had.len() == 20)
    });
    // The first ends without a word. The other is done with its own, and consumes at once from now on.
    let gone = receivers.remove(0);
    let stays = &mut receivers[0];
    stays.seen.later = false;
    let id = stays.receiver.expect("a receiver");
    let first: Vec<u64> = stays.seen.had.iter().map(|(number, ..)| *number).collect();
    let source = sender.program.context.sources().placement(sender.source).expect("there").1;
    for stamp in &first {
        stays.queues.consumed(id, lbm_queue_io::MessageId { source, stamp: *stamp });
    }
    drop(gone);
    (40..60).for_each(|number| assert!(sender.send(8, Some(of(number)))));
    until(&mut sender, &mut receivers, "all is consumed", |sender, _| sender.in_flight() == 0);
    let had = &receivers[0].seen.had;
    assert_eq!(had.iter().map(|(number, ..)| *number).collect::<BTreeSet<_>>().len(), 60);
    assert!(had.iter().filter(|(_, again, _)| *again).count() >= 20, "those of the other come with a mark");
    for index in [of(0), of(1)] {
        let numbers: Vec<u64> = had.iter().filter(|(.., of)| *of == Some(index.clone())).map(|(n, ..)| *n).collect();
        assert!(numbers.is_sorted(), "{index:?}: {numbers:?}");
    }
}

#[test]
fn a_receiver_that_is_removed_gives_back_at_once_what_it_has() {
    let base = lines("lbtrm") + &one_set().replace("0:1000", "0:60000");
    let mut sender = Sender::new(&base);
    let mut receivers: Vec<Program> = [10, 10].map(|kind| Program::receiving(&of_type(&base, kind))).into();
    receivers[0].seen.later = true;
    ready(&mut sender, &mut receivers, 2);
    assert!(sender.send(8, None) && sender.send(8, None));
    until(&mut sender, &mut receivers, "one is consumed", |sender, receivers| {
        sender.in_flight() == 1 && receivers[0].seen.had.len() == 1
    });
    let Program { context, queues, receiver, .. } = &mut receivers[0];
    queues.remove_receiver(context, receiver.expect("a receiver"));
    until(&mut sender, &mut receivers, "the other has it", |sender, _| sender.in_flight() == 0);
    assert!(receivers[1].seen.had.iter().any(|(_, again, _)| *again));
}

#[test]
fn strangers_are_refused_and_others_get_everything() {
    let base = lines("tcp") + SETS;
    let mut sender = Sender::new(&base);
    let with = |more: &str| format!("{base}receiver {more}\n");
    let mut receivers: Vec<Program> =
        ["umq_receiver_type_id 10", "umq_receiver_type_id 20", "umq_receiver_type_id 99", "umq_queue_participation 0"]
            .map(|more| Program::receiving(&with(more)))
            .into();
    ready(&mut sender, &mut receivers, 2);
    until(&mut sender, &mut receivers, "the stranger is refused", |_, receivers| {
        receivers[2].seen.receiver.iter().any(|event| matches!(event, ReceiverEvent::Refused { .. }))
    });
    (0..10).for_each(|_| assert!(sender.send(8, None)));
    until(&mut sender, &mut receivers, "all is consumed, and heard", |sender, receivers| {
        sender.in_flight() == 0 && receivers[3].seen.plain >= 10
    });
    assert_eq!((receivers[2].seen.had.len(), receivers[2].seen.plain), (0, 0));
}

#[test]
fn without_room_a_source_refuses_and_without_sets_there_is_none() {
    let base = lines("tcp") + SETS + "source umq_ulb_flight_size 3\n";
    let mut sender = Sender::new(&base);
    (0..3).for_each(|_| assert!(sender.send(8, None)));
    let Program { context, queues, .. } = &mut sender.program;
    let refused = queues.send(context.sources(), sender.source, b"12345678", None, SendFlags::FLUSH);
    assert_eq!(refused, Err(SendRefused::NotAdmitted(NotAdmitted::FlightFull)));
    let mut receivers: Vec<Program> = [10, 20].map(|kind| Program::receiving(&of_type(&base, kind))).into();
    until(&mut sender, &mut receivers, "there is room", |sender, _| {
        sender.program.seen.source.contains(&SourceEvent::Writable)
    });
    let plain = options(&lines("tcp"));
    let Program { context, queues, .. } = &mut sender.program;
    assert!(matches!(queues.source(context, "other", &plain), Err(AddError::NoApplicationSet)));
    let wrong = options(&(lines("tcp") + "source umq_ulb_application_set 1:1\n"));
    assert!(matches!(queues.source(context, "other", &wrong), Err(AddError::Options(_))));
}
