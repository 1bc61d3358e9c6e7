//! One suite for all transports, on real sockets and shared memory of this host.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::world::{self, Ear, World, with};
use lbm_io::{Context, Delivery, EndReason, SendError, SendFlags, Sources};

const TRANSPORTS: [&str; 4] = ["lbtrm", "lbtru", "tcp", "lbtipc"];
const TOPIC: &str = "md.equities.ibm";

fn payload(i: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![i as u8; length.max(4)];
    bytes[..4].copy_from_slice(&i.to_be_bytes());
    bytes
}

fn number(message: &[u8]) -> u32 {
    u32::from_be_bytes(message[..4].try_into().expect("four bytes"))
}

/// Sends messages of many lengths and takes turns; each comes once and in order.
fn exchange(transport: &str, lines: &str, lose: u32, count: u32) -> World {
    let mut world = World::new(&format!("source transport {transport}\n{lines}"));
    let options = world.options.clone();
    let source = world.left.source(TOPIC, &options).expect("a source");
    world.right.receiver(TOPIC, &options).expect("a receiver");
    world.introduce(source, TOPIC);
    world.settle(source, TOPIC);
    world.right.lose(lose, 7);
    world.left.lose(lose / 2, 8);
    let mut sent = Vec::new();
    for i in 0..count {
        let length = match i % 50 {
            49 => 100_000,
            n => n as usize * n as usize,
        };
        let bytes = payload(i, length);
        let flags = if i % 7 == 0 { SendFlags::FLUSH } else { SendFlags::NONE };
        world.left.send(source, &bytes, flags).expect("a blocking send");
        sent.push(bytes);
        if i % 20 == 0 {
            world.turn();
        }
    }
    world.left.flush(source).expect("a source");
    world.until("all messages", |w| w.ear.topic(TOPIC).messages.len() == sent.len());
    let heard = world.ear.topic(TOPIC);
    assert!(heard.messages == sent, "{transport}: order and bytes");
    assert_eq!((heard.begun, heard.lost, heard.ended), (1, vec![], vec![]), "{transport}");
    assert!(heard.sqns.windows(2).all(|w| w[0] < w[1]), "{transport}");
    world
}

#[test]
fn messages_come_once_and_in_order() {
    for transport in TRANSPORTS {
        for lines in ["", "source implicit_batching_minimum_length 1", "context udp_offload 0"] {
            exchange(transport, lines, 0, 600);
        }
    }
}

/// Several contexts of a host share groups and ports; each gets everything, whatever the others lose.
#[test]
fn many_contexts_hear_one_source() {
    for transport in TRANSPORTS {
        let mut world =
            World::new(&format!("source transport {transport}\nsource transport_lbtipc_behavior receiver_paced"));
        let options = world.options.clone();
        let source = world.left.source(TOPIC, &options).expect("a source");
        let mut others: Vec<(Context, world::Ear)> =
            (0..4).map(|_| (Context::new(&options).expect("a context"), world::Ear::default())).collect();
        for (i, (other, _)) in others.iter_mut().enumerate() {
            other.receiver(TOPIC, &options).expect("a receiver");
            other.lose(50_000 * i as u32, i as u64);
        }
        let mut next = 0;
        world.until("all contexts", |w| {
            w.left.send(source, &payload(next, 30), SendFlags::FLUSH).expect("room");
            next += 1;
            for (other, ear) in &mut others {
                other.poll(Some(Duration::ZERO), ear).expect("a turn");
            }
            others.iter().all(|(_, ear)| ear.count() > 300)
        });
        for (_, ear) in &others {
            let heard = ear.topic(TOPIC);
            let numbers: Vec<u32> = heard.messages.iter().map(|m| number(m)).collect();
            assert!(numbers.windows(2).all(|w| w[0] + 1 == w[1]), "{transport}: {numbers:?}");
            assert_eq!((heard.begun, heard.lost, heard.ended), (1, vec![], vec![]), "{transport}");
        }
    }
}

/// Nothing is set but the transport: the interface is this host's choice.
#[test]
fn defaults_work_on_this_host() {
    let mut options = lbm_io::options::Options::new();
    let lines = "source transport lbtrm
        source transport_lbtrm_transmission_window_size 1000000
        context transport_lbtrm_source_port_low 0
        context transport_lbtrm_source_port_high 0";
    options.parse("test", lines).expect("good options");
    let mut world = World::of(options.clone());
    let topic = format!("quoteway.test.{}", std::process::id());
    let source = world.left.source(&topic, &options).expect("a source");
    world.right.receiver(&topic, &options).expect("a receiver");
    world.introduce(source, &topic);
    world.settle(source, &topic);
}

#[test]
fn what_the_network_loses_is_repaired() {
    for transport in ["lbtrm", "lbtru"] {
        for lines in ["", "context udp_offload 0"] {
            let mut world = exchange(transport, lines, 150_000, 1_000);
            let stats = world.right.stats();
            assert!(stats.lost_on_purpose > 0 && stats.receiving[0].received.repaired > 0, "{stats:?}");
            let sent = world.left.stats().sending[0].sent;
            assert!(sent.retransmissions > 0 && sent.naks > 0, "{sent:?}");
        }
    }
}

/// Answers to what came together leave together, in the same turn; outside of callbacks such a message leaves at once.
#[test]
fn answers_leave_together() {
    const MESSAGES: u32 = 60;
    for transport in ["lbtrm", "lbtru", "tcp", "lbtipc"] {
        let mut world = World::new(&format!("source transport {transport}\ncontext udp_offload 0"));
        let options = world.options.clone();
        let alone = with(&options, "source implicit_batching_minimum_length 1");
        let there = world.left.source(TOPIC, &alone).expect("a source");
        world.right.receiver(TOPIC, &options).expect("a receiver");
        let back = world.right.source("back", &options).expect("a source");
        world.left.receiver("back", &options).expect("a receiver");
        world.introduce(there, TOPIC);
        world.settle(there, TOPIC);
        world.until("the way back", |w| {
            w.right.send(back, b"hello", SendFlags::FLUSH_SOON).expect("room");
            w.left_ear.count() > 0
        });
        let before = world.right.stats().sending[0].sent.datagrams;
        let sent: Vec<_> = (0..MESSAGES).map(|i| payload(i, 50)).collect();
        for bytes in &sent {
            world.left.send(there, bytes, SendFlags::NONE).expect("room");
        }
        let mut answer = |sources: &mut Sources, delivery: &Delivery<'_>| {
            sources.send(back, delivery.payload, SendFlags::FLUSH_SOON).expect("room");
        };
        let came =
            |ear: &Ear| ear.topic("back").messages.iter().filter(|m| m.as_slice() != b"hello").cloned().collect();
        let began = std::time::Instant::now();
        let mut answers: Vec<Vec<u8>> = Vec::new();
        while answers.len() < sent.len() {
            world.right.poll(Some(Duration::ZERO), &mut answer).expect("a turn");
            world.left.poll(Some(Duration::ZERO), &mut world.left_ear).expect("a turn");
            answers = came(&world.left_ear);
            assert!(began.elapsed() < world::PATIENCE, "{transport}: {}", answers.len());
        }
        assert_eq!(answers, sent, "{transport}");
        let datagrams = world.right.stats().sending[0].sent.datagrams - before;
        assert!(datagrams < u64::from(MESSAGES), "{transport}: {datagrams} for {MESSAGES} answers");
    }
}

/// Clients with a socket of their own and clients without one: all have everything, with losses, also those who come when another
/// one has gone.
#[test]
fn lbtru_serves_more_clients_than_it_has_connected_sockets() {
    const MESSAGES: u32 = 3_000;
    let options = world::options("source transport lbtru\ncontext lbtru_connected_clients 2");
    let mut left = Context::new(&options).expect("a context");
    let source = left.source(TOPIC, &options).expect("a source");
    let client = || {
        let mut context = Context::new(&options).expect("a context");
        let receiver = context.receiver(TOPIC, &options).expect("a receiver");
        (context, receiver, Ear::default())
    };
    let mut clients: Vec<_> = (0..5).map(|_| client()).collect();
    for round in 0..2 {
        let began = std::time::Instant::now();
        let until = |left: &mut Context, clients: &mut Vec<(Context, _, Ear)>, done: &dyn Fn(&Ear) -> bool| {
            while !clients.iter().all(|(_, _, ear)| done(ear)) {
                left.send(source, b"hello", SendFlags::FLUSH).expect("room");
                left.poll(Some(Duration::ZERO), &mut Ear::default()).expect("a turn");
                for (context, _, ear) in clients.iter_mut() {
                    context.poll(Some(Duration::from_millis(1)), ear).expect("a turn");
                }
                assert!(began.elapsed() < world::PATIENCE, "round {round}");
            }
        };
        until(&mut left, &mut clients, &|ear| ear.count() > 0);
        for (n, (context, ..)) in clients.iter_mut().enumerate() {
            context.lose(20_000, 7 + n as u64);
        }
        let numbered = |i: u32| payload(i, 500);
        for i in 0..MESSAGES {
            left.send(source, &numbered(i), SendFlags::NONE).expect("room");
            if i % 50 == 0 {
                left.poll(Some(Duration::ZERO), &mut Ear::default()).expect("a turn");
                for (context, _, ear) in &mut clients {
                    context.poll(Some(Duration::ZERO), ear).expect("a turn");
                }
            }
        }
        let last = numbered(MESSAGES - 1);
        until(&mut left, &mut clients, &|ear| ear.topic(TOPIC).messages.contains(&last));
        for (context, _, ear) in &mut clients {
            let heard = ear.topic(TOPIC);
            let mine: Vec<_> = heard.messages.iter().filter(|m| m.as_slice() != b"hello").collect();
            assert!(mine.iter().map(|m| m.as_slice()).eq((0..MESSAGES).map(numbered)), "round {round}: {}", mine.len());
            assert!(heard.lost.is_empty() && context.stats().receiving[0].received.repaired > 0, "round {round}");
        }
        // One of those with a socket of its own goes, another client comes: the place is given again.
        clients.remove(0);
        clients.push(client());
        for (context, _, ear) in &mut clients {
            context.lose(0, 0);
            for heard in ear.heard.values_mut() {
                heard.messages.clear();
            }
        }
    }
}

/// The socket of a client that is gone goes, too, and its place is there for the next one.
#[test]
fn an_lbtru_client_that_has_gone_leaves_nothing_behind() {
    let mut world = World::new(
        "source transport lbtru
        context lbtru_connected_clients 1
        receiver transport_lbtru_acknowledgement_interval 50
        source transport_lbtru_client_activity_timeout 400",
    );
    let options = world.options.clone();
    let source = world.left.source(TOPIC, &options).expect("a source");
    for _ in 0..3 {
        world.right.receiver(TOPIC, &options).expect("a receiver");
        world.introduce(source, TOPIC);
        world.settle(source, TOPIC);
        world.until("one client", |w| w.left.stats().sending[0].receivers == Some(1));
        world.right = Context::new(&options).expect("a context");
        world.ear = Ear::default();
        world.until("no client", |w| w.left.stats().sending[0].receivers == Some(0));
    }
}

/// Nobody asks for what is missing: each number is delivered, or told lost, once.
#[test]
fn what_is_lost_for_good_is_told_once() {
    for transport in ["lbtrm", "lbtru"] {
        let mut world = World::new(&format!(
            "source transport {transport}
            source implicit_batching_minimum_length 1
            receiver transport_lbtrm_send_naks 0
            receiver transport_lbtru_send_naks 0
            receiver transport_lbtrm_nak_generation_interval 50
            receiver transport_lbtru_nak_generation_interval 50"
        ));
        let options = world.options.clone();
        let source = world.left.source(TOPIC, &options).expect("a source");
        world.right.receiver(TOPIC, &options).expect("a receiver");
        world.introduce(source, TOPIC);
        world.settle(source, TOPIC);
        world.right.lose(200_000, 3);
        let first = world.left.send(source, &payload(0, 4), SendFlags::NONE).expect("room");
        for i in 1..500 {
            world.left.send(source, &payload(i, 100), SendFlags::NONE).expect("room");
            if i % 10 == 0 {
                world.turn();
            }
        }
        world.right.lose(0, 0);
        let last = world.left.send(source, b"last", SendFlags::NONE).expect("room");
        world.until("the last message", |w| w.ear.topic(TOPIC).sqns.last() == Some(&last));
        let heard = world.ear.topic(TOPIC);
        let lost: Vec<u32> = heard.lost.iter().flat_map(|(first, count)| *first..first + count).collect();
        assert!(lost.len() > 20, "{transport}: {lost:?}");
        let mut all: Vec<u32> = heard.sqns.iter().chain(&lost).copied().filter(|sqn| *sqn >= first).collect();
        all.sort_unstable();
        assert_eq!(all, (first..=last).collect::<Vec<_>>(), "{transport}");
        assert!(heard.sqns.windows(2).all(|w| w[0] < w[1]), "{transport}");
    }
}

#[test]
fn a_late_joiner_gets_what_was_sent_before() {
    for transport in TRANSPORTS {
        let mut world = World::new(&format!(
            "source transport {transport}\nsource late_join 1\nreceiver retransmit_request_outstanding_maximum 50"
        ));
        let options = world.options.clone();
        let source = world.left.source(TOPIC, &options).expect("a source");
        for i in 0..200 {
            let length = if i == 150 { 60_000 } else { 100 };
            world.left.send(source, &payload(i, length), SendFlags::FLUSH).expect("room");
            world.turn();
        }
        world.right.receiver(TOPIC, &options).expect("a receiver");
        let mut next = 200;
        world.until("messages from the first one on", |w| {
            w.left.send(source, &payload(next, 50), SendFlags::FLUSH).expect("room");
            next += 1;
            w.ear.topic(TOPIC).messages.len() > 250
        });
        let heard = world.ear.topic(TOPIC);
        let numbers: Vec<u32> = heard.messages.iter().map(|m| number(m)).collect();
        assert_eq!(numbers, (0..numbers.len() as u32).collect::<Vec<_>>(), "{transport}");
        assert_eq!((heard.begun, heard.lost), (1, vec![]), "{transport}");
    }
}

#[test]
fn recovery_by_tcp_gets_what_the_transport_has_lost() {
    let mut world = World::new(
        "source transport lbtrm
        source late_join 1
        source implicit_batching_minimum_length 1
        receiver use_otr 1
        receiver use_late_join 0
        receiver transport_lbtrm_send_naks 0
        receiver transport_lbtrm_nak_generation_interval 50",
    );
    let options = world.options.clone();
    let source = world.left.source(TOPIC, &options).expect("a source");
    world.right.receiver(TOPIC, &options).expect("a receiver");
    world.introduce(source, TOPIC);
    world.settle(source, TOPIC);
    world.right.lose(200_000, 3);
    for i in 0..300 {
        world.left.send(source, &payload(i, 100), SendFlags::NONE).expect("room");
        world.turn();
    }
    world.right.lose(0, 0);
    world.left.send(source, &payload(300, 4), SendFlags::NONE).expect("room");
    world.until("all messages", |w| w.ear.topic(TOPIC).messages.len() == 301);
    let heard = world.ear.topic(TOPIC);
    let numbers: Vec<u32> = heard.messages.iter().map(|m| number(m)).collect();
    assert_eq!((numbers, heard.lost), ((0..=300).collect(), vec![]));
}

#[test]
fn the_end_of_a_source_is_told_once_and_another_one_is_found() {
    for transport in TRANSPORTS {
        let lines = format!(
            "source transport {transport}
            receiver transport_lbtrm_activity_timeout 400
            receiver transport_lbtru_activity_timeout 400"
        );
        let mut world = World::new(&lines);
        let options = world.options.clone();
        world.right.receiver(TOPIC, &options).expect("a receiver");
        for round in 1..=2 {
            let source = world.left.source(TOPIC, &options).expect("a source");
            world.introduce(source, TOPIC);
            assert_eq!(world.ear.topic(TOPIC).begun, round, "{transport}");
            world.left = Context::new(&options).expect("a context");
            world.until("the end", |w| w.ear.topic(TOPIC).ended.len() as u32 == round);
            let reason = if transport.starts_with("lbtr") { EndReason::Timeout } else { EndReason::Reset };
            assert_eq!(world.ear.topic(TOPIC).ended.last(), Some(&reason), "{transport}");
            for heard in world.ear.heard.values_mut() {
                heard.messages.clear();
            }
        }
        assert!(world.right.stats().receiving.is_empty(), "{transport}");
    }
}

/// A frozen source is given up, whatever the transport; it is found again when it goes on.
#[test]
fn a_frozen_source_ends_and_comes_back() {
    for transport in ["lbtrm", "lbtru", "lbtipc"] {
        let mut world = World::new(&format!(
            "source transport {transport}
            source transport_lbtipc_sm_interval 100
            receiver transport_lbtipc_activity_timeout 600
            receiver transport_lbtrm_activity_timeout 600
            receiver transport_lbtru_activity_timeout 600"
        ));
        let options = world.options.clone();
        let source = world.left.source(TOPIC, &options).expect("a source");
        world.right.receiver(TOPIC, &options).expect("a receiver");
        world.introduce(source, TOPIC);
        // Its owner takes no turns.
        let began = std::time::Instant::now();
        while world.ear.topic(TOPIC).ended.is_empty() {
            world.right.poll(Some(Duration::from_millis(5)), &mut world.ear).expect("a turn");
            assert!(began.elapsed() < world::PATIENCE, "{transport}");
        }
        assert_eq!(world.ear.topic(TOPIC).ended, [EndReason::Timeout], "{transport}");
        world.until("its return", |w| {
            w.left.send(source, b"again", SendFlags::FLUSH).expect("room");
            w.ear.topic(TOPIC).messages.last().is_some_and(|m| m == b"again")
        });
        assert_eq!(world.ear.topic(TOPIC).begun, 2, "{transport}");
    }
}

/// A source that must not go on is told so, and told when it can; a source that waits comes through.
#[test]
fn a_send_that_would_block_is_followed_by_a_wake_up() {
    for (transport, lines) in [
        ("lbtrm", "context transport_lbtrm_data_rate_limit 8000000"),
        ("lbtru", "context transport_lbtru_data_rate_limit 8000000"),
        ("tcp", ""),
        ("lbtipc", "source transport_lbtipc_behavior receiver_paced"),
    ] {
        let mut world = World::new(&format!("source transport {transport}\n{lines}"));
        let options = world.options.clone();
        let source = world.left.source(TOPIC, &options).expect("a source");
        world.right.receiver(TOPIC, &options).expect("a receiver");
        world.introduce(source, TOPIC);
        world.settle(source, TOPIC);
        let mut count = 0;
        for _ in 0..3 {
            let bytes = payload(count, 1_000);
            // The receiver does not read.
            let blocked = (0..1_000_000).any(|_| {
                match world.left.send(source, &payload(count, 1_000), SendFlags::NONBLOCK) {
                    Ok(_) => count += 1,
                    Err(SendError::WouldBlock) => return true,
                    Err(other) => panic!("{transport}: {other}"),
                }
                false
            });
            assert!(blocked, "{transport}: {} bytes", bytes.len());
            world.until("a wake-up", |w| w.left_ear.writable.pop() == Some(source));
        }
        world.left.flush(source).expect("a source");
        let expected = count;
        world.until("all messages", |w| w.ear.topic(TOPIC).messages.len() as u32 == expected);
        let numbers: Vec<u32> = world.ear.topic(TOPIC).messages.iter().map(|m| number(m)).collect();
        assert_eq!(numbers, (0..count).collect::<Vec<_>>(), "{transport}");
        assert_eq!(world.ear.topic(TOPIC).lost, vec![], "{transport}");
    }
}

#[test]
fn a_source_paced_writer_does_not_wait_and_its_reader_learns_what_it_lost() {
    let mut world = World::new("source transport lbtipc\nsource transport_lbtipc_transmission_window_size 300000");
    let options = world.options.clone();
    let source = world.left.source(TOPIC, &options).expect("a source");
    world.right.receiver(TOPIC, &options).expect("a receiver");
    world.introduce(source, TOPIC);
    world.settle(source, TOPIC);
    let first = world.left.send(source, &payload(0, 4), SendFlags::FLUSH).expect("room");
    world.turn();
    for i in 1..2_000 {
        world.left.send(source, &payload(i, 1_000), SendFlags::FLUSH | SendFlags::NONBLOCK).expect("never blocks");
    }
    world.turn();
    let last = world.left.send(source, b"last", SendFlags::FLUSH).expect("room");
    world.until("the last message", |w| w.ear.topic(TOPIC).sqns.last() == Some(&last));
    let heard = world.ear.topic(TOPIC);
    let lost: BTreeSet<u32> = heard.lost.iter().flat_map(|(first, count)| *first..first + count).collect();
    let got: BTreeSet<u32> = heard.sqns.iter().copied().collect();
    assert!(!lost.is_empty() && lost.is_disjoint(&got));
    assert_eq!(lost.union(&got).copied().collect::<Vec<_>>(), (first..=last).collect::<Vec<_>>());
    assert!(world.right.stats().overruns > 0);
}

/// A message that never finds room is refused at once, not waited for.
#[test]
fn a_message_that_is_too_long_for_its_window_is_refused() {
    for transport in ["lbtrm", "lbtru", "lbtipc"] {
        let world = World::new(&format!(
            "source transport {transport}
            source transport_lbtipc_behavior receiver_paced
            source transport_lbtrm_transmission_window_size 1000000
            source transport_lbtru_transmission_window_size 1000000"
        ));
        let mut left = world.left;
        let source = left.source(TOPIC, &world.options).expect("a source");
        let long = vec![7; 2_000_000];
        assert_eq!(left.send(source, &long, SendFlags::NONE), Err(SendError::TooLong), "{transport}");
        left.send(source, &long[..200_000], SendFlags::NONE).expect("room");
    }
}

#[test]
fn many_topics_share_a_session() {
    for transport in TRANSPORTS {
        let mut world = World::new(&format!(
            "source transport {transport}
            context transport_tcp_maximum_ports 1
            context transport_lbtru_maximum_ports 1
            context transport_lbtipc_id_high 20001
            context resolver_initial_advertisements_per_second 0
            context resolver_initial_queries_per_second 0
            context resolver_sustain_advertisement_bps 0
            context resolver_sustain_query_bps 0"
        ));
        let options = world.options.clone();
        let topics: Vec<String> = (0..300).map(|i| format!("md.topic.{i}")).collect();
        let sources: Vec<_> = topics.iter().map(|t| world.left.source(t, &options).expect("a source")).collect();
        for topic in &topics {
            world.right.receiver(topic, &options).expect("a receiver");
        }
        // Begun only once its session was heard and the topic found.
        world.until("all topics", |w| {
            w.left.send(sources[0], b"?", SendFlags::FLUSH).expect("room");
            w.right.stats().receiving.first().is_some_and(|r| r.topics.len() == topics.len())
                && w.ear.heard.values().filter(|h| h.begun == 1).count() == topics.len()
                && !w.ear.topic(&topics[0]).messages.is_empty()
        });
        for round in 0..5u32 {
            for source in &sources {
                world.left.send(*source, &payload(round, 64), SendFlags::NONE).expect("room");
            }
            world.left.flush(sources[0]).expect("a source");
            world.turn();
        }
        world.until("everything", |w| w.ear.heard.values().all(|h| h.messages.len() >= 5));
        for (i, topic) in topics.iter().enumerate().skip(1) {
            let numbers: Vec<u32> = world.ear.topic(topic).messages.iter().map(|m| number(m)).collect();
            assert_eq!(numbers, [0, 1, 2, 3, 4], "{transport} {i}");
        }
        assert_eq!(world.left.stats().sending.len(), 1, "{transport}");
        assert_eq!(world.left.stats().sending[0].topics.len(), topics.len());
    }
}

#[test]
fn arrival_order_delivers_once_and_reports_loss() {
    let mut world =
        World::new("source transport lbtrm\nsource implicit_batching_minimum_length 1\nreceiver ordered_delivery -1");
    let options = world.options.clone();
    let source = world.left.source(TOPIC, &options).expect("a source");
    world.right.receiver(TOPIC, &options).expect("a receiver");
    world.introduce(source, TOPIC);
    world.settle(source, TOPIC);
    world.right.lose(100_000, 5);
    for i in 0..500 {
        world.left.send(source, &payload(i, 20), SendFlags::NONE).expect("room");
        world.turn();
    }
    world.right.lose(0, 0);
    world.left.send(source, &payload(500, 20), SendFlags::NONE).expect("room");
    world.until("all messages", |w| w.ear.topic(TOPIC).messages.len() == 501);
    let mut numbers: Vec<u32> = world.ear.topic(TOPIC).messages.iter().map(|m| number(m)).collect();
    assert!(numbers.windows(2).any(|w| w[0] > w[1]), "something came late");
    numbers.sort_unstable();
    assert_eq!(numbers, (0..=500).collect::<Vec<_>>());
}

#[test]
fn a_pattern_receives_what_matches_beside_a_plain_receiver() {
    let mut world = World::new("source transport lbtrm");
    let options = world.options.clone();
    let names = ["md.fx.eur", "md.fx.chf", "md.equities.ibm"];
    let sources = names.map(|name| world.left.source(name, &options).expect("a source"));
    let pattern = world.right.wildcard("^md\\.fx\\.", &options).expect("a pattern");
    let plain = world.right.receiver("md.fx.eur", &options).expect("a receiver");
    world.until("three streams", |w| {
        for source in sources {
            w.left.send(source, b"hello", SendFlags::FLUSH).expect("room");
        }
        w.ear.heard.values().filter(|h| !h.messages.is_empty()).count() == 3
    });
    let heard: Vec<_> = world.ear.heard.keys().map(|(r, t)| (*r, t.as_str())).collect();
    let (pattern_at, plain_at) = (pattern.index(), plain.index());
    assert_eq!(heard, [(pattern_at, "md.fx.chf"), (pattern_at, "md.fx.eur"), (plain_at, "md.fx.eur")]);
    // Without the pattern only the plain one goes on.
    world.right.remove_receiver(pattern);
    world.ear.heard.values_mut().for_each(|h| h.messages.clear());
    world.until("the plain one", |w| {
        for source in sources {
            w.left.send(source, b"again", SendFlags::FLUSH).expect("room");
        }
        w.ear.heard[&(plain_at, names[0].to_owned())].messages.len() > 20
    });
    assert!(world.ear.heard.iter().all(|((receiver, _), h)| *receiver == plain_at || h.messages.is_empty()));
}

#[test]
fn a_request_is_answered() {
    let mut world = World::new("source transport lbtrm\nsource implicit_batching_minimum_length 1");
    let options = world.options.clone();
    let source = world.left.source(TOPIC, &options).expect("a source");
    world.right.receiver(TOPIC, &options).expect("a receiver");
    world.introduce(source, TOPIC);
    world.ear.answer = Some(b" indeed".to_vec());
    let patience = Duration::from_mins(1);
    let ids: Vec<_> = (0..50)
        .map(|i| world.left.request(source, &payload(i, 10), SendFlags::NONE, patience).expect("a request"))
        .collect();
    world.until("replies", |w| w.left_ear.responses.len() == 50);
    for (i, (id, reply)) in world.left_ear.responses.iter().enumerate() {
        assert_eq!((*id, number(reply)), (ids[i], i as u32));
        assert!(reply.ends_with(b" indeed"));
    }
    // A closed request takes no more replies.
    let request = world.ear.topic(TOPIC).requests[0];
    assert!(world.left.sources().close_request(ids[0]) && !world.left.sources().close_request(ids[0]));
    world.right.sources().respond(&request, b"late").expect("the requester is there");
    let second = world.ear.topic(TOPIC).requests[1];
    world.right.sources().respond(&second, b"another").expect("the requester is there");
    world.until("another reply", |w| w.left_ear.responses.len() == 51);
    assert_eq!(world.left_ear.responses[50], (ids[1], b"another".to_vec()));
}

#[test]
fn a_context_hears_itself_and_its_sources_end_with_it() {
    let mut world = World::new("source transport lbtrm");
    let options = with(&world.options, "source transport tcp");
    let tcp = world.left.source("own", &options).expect("a source");
    world.left.receiver("own", &options).expect("a receiver");
    world.until("itself", |w| {
        w.left.send(tcp, b"hello", SendFlags::FLUSH).expect("room");
        !w.left_ear.topic("own").messages.is_empty()
    });
    world.left.remove_source(tcp);
    assert_eq!(world.left.send(tcp, b"x", SendFlags::NONE), Err(SendError::NoSource));
    world.until("the end", |w| w.left_ear.topic("own").ended == [EndReason::Reset]);
}
