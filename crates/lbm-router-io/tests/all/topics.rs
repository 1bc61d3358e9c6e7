//! A router: what crosses, as it was sent.

use std::path::Path;
use std::time::Duration;

use lbm::wire::header::Header;
use lbm_failover::{Mark, Number};
use lbm_io::SendFlags;

use crate::rig::{Program, domain, endpoint, router, until};

/// Numbers, order, content, long messages and headers, over every transport in turn.
fn everything_crosses(from: &str, to: &str) {
    let (one, two) = (domain(from), domain(to));
    let text = format!("name = 'a'{}{}", endpoint(1, &one), endpoint(2, &two));
    let mut router = router(&text, Path::new(""));
    let (mut publisher, mut subscriber) = (Program::new(&one, &[]), Program::new(&two, &[]));
    let source = publisher.context.source("orders", &publisher.options).expect("a source");
    subscriber.context.receiver("orders", &subscriber.options).expect("a receiver");
    until("the first message", &mut [&mut router], &mut [&mut publisher, &mut subscriber], |programs| {
        // Nobody hears what is sent before somebody is there.
        let _ = programs[0].context.send(source, b"begin", SendFlags::FLUSH | SendFlags::NONBLOCK);
        programs[1].seen.count("orders") > 0
    });
    // By LBT-TCP a message has 64 KB until it is cut, which is more than a datagram of the others takes.
    let long = vec![7; if from == "tcp" && to != from { 5_000 } else { 200_000 }];
    let mut sent = Vec::new();
    for i in 0..300u32 {
        let short = i.to_be_bytes();
        let payload: &[u8] = if i % 50 == 49 { &long } else { &short };
        sent.push((publisher.context.send(source, payload, SendFlags::FLUSH).expect("sent"), payload.to_vec()));
        if i % 10 == 0 {
            let there = subscriber.seen.count("orders");
            until("room", &mut [&mut router], &mut [&mut publisher, &mut subscriber], |programs| {
                programs[1].seen.count("orders") > there
            });
        }
    }
    let last = sent[299].0;
    until("all messages", &mut [&mut router], &mut [&mut publisher, &mut subscriber], |programs| {
        programs[1].seen.numbers("orders").last() == Some(&last)
    });
    let came = &subscriber.seen.messages["orders"];
    assert_eq!(came[came.len() - 300..], sent[..], "{from} to {to}: numbers are those of the source");
    assert_eq!(subscriber.seen.lost, 0);
    // A number of hot failover, and the application's own header.
    let application = Header::Application { flags: 0x8005, data: b"mine" };
    let mark = lbm_failover::Encoded::of(Mark::new(Number::Bits32(77)));
    let headers = [mark.headers().as_slice(), &[application]].concat();
    publisher.context.sources().send_headed(source, &headers, b"headed", SendFlags::FLUSH).expect("sent");
    until("headers", &mut [&mut router], &mut [&mut publisher, &mut subscriber], |programs| {
        programs[1].seen.messages["orders"].last().is_some_and(|(_, payload)| payload == b"headed")
    });
    assert_eq!(subscriber.seen.headers, headers.iter().map(Header::code).collect::<Vec<_>>());
    publisher.context.remove_source(source);
    if from == "tcp" && to == "tcp" {
        until("the end", &mut [&mut router], &mut [&mut publisher, &mut subscriber], |programs| {
            programs[1].seen.ended == 1
        });
    }
}

#[test]
fn what_does_not_fit_is_lost_and_said() {
    let (one, two) = (domain("tcp"), domain("lbtru"));
    let text = format!("name = 'a'{}{}", endpoint(1, &one), endpoint(2, &two));
    let mut router = router(&text, Path::new(""));
    let (mut publisher, mut subscriber) = (Program::new(&one, &[]), Program::new(&two, &[]));
    let source = publisher.context.source("orders", &publisher.options).expect("a source");
    subscriber.context.receiver("orders", &subscriber.options).expect("a receiver");
    until("the first message", &mut [&mut router], &mut [&mut publisher, &mut subscriber], |programs| {
        let _ = programs[0].context.send(source, b"begin", SendFlags::FLUSH | SendFlags::NONBLOCK);
        programs[1].seen.count("orders") > 0
    });
    publisher.context.send(source, &vec![7; 30_000], SendFlags::FLUSH).expect("sent");
    let last = publisher.context.send(source, b"behind", SendFlags::FLUSH).expect("sent");
    until("what is behind", &mut [&mut router], &mut [&mut publisher, &mut subscriber], |programs| {
        programs[1].seen.numbers("orders").last() == Some(&last)
    });
    assert_eq!(subscriber.seen.lost, 1);
    let too_long: u64 = router.endpoints().map(|(_, stats, _)| stats.too_long).sum();
    assert_eq!(too_long, 1);
}

#[test]
fn everything_crosses_by_multicast() {
    everything_crosses("lbtrm", "lbtrm");
}

#[test]
fn everything_crosses_by_tcp() {
    everything_crosses("tcp", "tcp");
}

#[test]
fn everything_crosses_between_transports() {
    everything_crosses("lbtru", "tcp");
    everything_crosses("tcp", "lbtru");
}

#[test]
fn patterns_find_what_they_match_and_nothing_else_crosses() {
    let (one, two) = (domain("tcp"), domain("tcp"));
    let text = format!("name = 'a'{}{}exclude = ['md.secret*']", endpoint(1, &one), endpoint(2, &two));
    let mut router = router(&text, Path::new(""));
    let (mut publisher, mut subscriber) = (Program::new(&one, &[]), Program::new(&two, &[]));
    let topics = ["md.a", "md.b", "md.secret", "other"];
    let sources = topics.map(|topic| publisher.context.source(topic, &publisher.options).expect("a source"));
    subscriber.context.wildcard("^md\\.", &subscriber.options).expect("a receiver");
    // A topic that is wanted by name as well comes once to each receiver.
    subscriber.context.receiver("md.a", &subscriber.options).expect("a receiver");
    until("both topics", &mut [&mut router], &mut [&mut publisher, &mut subscriber], |programs| {
        for source in sources {
            let _ = programs[0].context.send(source, b"now", SendFlags::FLUSH | SendFlags::NONBLOCK);
        }
        programs[1].seen.count("md.a") > 20 && programs[1].seen.count("md.b") > 20
    });
    assert_eq!((subscriber.seen.count("md.secret"), subscriber.seen.count("other")), (0, 0));
    let mut numbers = subscriber.seen.numbers("md.a");
    numbers.dedup();
    let twice = numbers.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(twice, "each number once to each of two receivers: {numbers:?}");
    let served = router.router().topics().filter(|view| !view.served.is_empty());
    assert_eq!(served.count(), 2);
}

#[test]
fn who_joins_late_gets_what_the_proxy_has_kept() {
    let (one, mut two) = (domain("tcp"), domain("tcp"));
    let mut at_router = two.clone();
    at_router.push("source late_join 1".to_owned());
    two.push("receiver use_late_join 1".to_owned());
    let text = format!("name = 'a'{}{}", endpoint(1, &one), endpoint(2, &at_router));
    let mut router = router(&text, Path::new(""));
    let (mut publisher, mut first, mut late) =
        (Program::new(&one, &[]), Program::new(&two, &[]), Program::new(&two, &[]));
    let source = publisher.context.source("orders", &publisher.options).expect("a source");
    first.context.receiver("orders", &first.options).expect("a receiver");
    until("fifty messages", &mut [&mut router], &mut [&mut publisher, &mut first], |programs| {
        let _ = programs[0].context.send(source, b"before", SendFlags::FLUSH | SendFlags::NONBLOCK);
        programs[1].seen.count("orders") >= 50
    });
    let began = first.seen.numbers("orders")[0];
    late.context.receiver("orders", &late.options).expect("a receiver");
    until("what was before", &mut [&mut router], &mut [&mut publisher, &mut late], |programs| {
        let _ = programs[0].context.send(source, b"after", SendFlags::FLUSH | SendFlags::NONBLOCK);
        programs[1].seen.count("orders") >= 60
    });
    assert_eq!(late.seen.numbers("orders")[0], began, "from the proxy's first message on");
    assert_eq!(late.seen.lost, 0);
}

#[test]
fn interest_that_nobody_renews_is_over() {
    let (one, two) = (domain("tcp"), domain("tcp"));
    let text = format!("name = 'a'\ninterest_timeout_s = 3{}{}", endpoint(1, &one), endpoint(2, &two));
    let mut router = router(&text, Path::new(""));
    let (mut publisher, mut subscriber) =
        (Program::new(&one, &[]), Program::new(&two, &["receiver resolver_query_minimum_sustain_duration 1"]));
    let source = publisher.context.source("orders", &publisher.options).expect("a source");
    let receiver = subscriber.context.receiver("orders", &subscriber.options).expect("a receiver");
    let began = std::time::Instant::now();
    until("messages for ten seconds", &mut [&mut router], &mut [&mut publisher, &mut subscriber], |programs| {
        let _ = programs[0].context.send(source, b"now", SendFlags::FLUSH | SendFlags::NONBLOCK);
        // The receiver has long stopped asking by itself: it is asked.
        began.elapsed() > Duration::from_secs(10)
    });
    let there = subscriber.seen.count("orders");
    until("more", &mut [&mut router], &mut [&mut publisher, &mut subscriber], |programs| {
        let _ = programs[0].context.send(source, b"now", SendFlags::FLUSH | SendFlags::NONBLOCK);
        programs[1].seen.count("orders") > there + 10
    });
    subscriber.context.remove_receiver(receiver);
    let began = std::time::Instant::now();
    while router.router().wanted() > 0 {
        assert!(began.elapsed() < crate::rig::PATIENCE, "{}", router.report().join("\n"));
        router.poll(Duration::from_millis(1)).expect("a turn");
        publisher.turn();
        subscriber.turn();
    }
    assert_eq!(router.router().topics().count(), 0);
}

/// Both domains resolve topics by a service of their own, and by nothing else.
#[test]
fn topics_cross_between_domains_of_resolution_services() {
    let mut services = [(), ()].map(|()| {
        let address = "127.0.0.1:0".parse().expect("an address");
        lbm_io::Srs::new(&lbm_io::SrsConfig::new(address)).expect("a service")
    });
    let mut of_service = services.iter().map(|service| {
        let mut lines = domain("tcp");
        lines.push("context resolver_disable_udp_topic_resolution 1".to_owned());
        lines.push(format!("context resolver_service {}", service.address()));
        lines
    });
    let (one, two) = (of_service.next().expect("two"), of_service.next().expect("two"));
    let text = format!("name = 'a'\ninterest_timeout_s = 3{}{}", endpoint(1, &one), endpoint(2, &two));
    let mut router = router(&text, Path::new(""));
    let (mut publisher, mut subscriber) = (Program::new(&one, &[]), Program::new(&two, &[]));
    let topics = ["md.a", "md.b", "other"];
    let sources = topics.map(|topic| publisher.context.source(topic, &publisher.options).expect("a source"));
    let wildcard = subscriber.context.wildcard("^md", &subscriber.options).expect("a receiver");
    let mut run = |what: &str,
                   router: &mut lbm_router_io::RouterServer,
                   publisher: &mut Program,
                   subscriber: &mut Program,
                   holds: &dyn Fn(&Program, &lbm_router_io::RouterServer) -> bool| {
        let began = std::time::Instant::now();
        while !holds(subscriber, router) {
            assert!(began.elapsed() < crate::rig::PATIENCE, "{what}: {}", router.report().join("\n"));
            for source in sources {
                let _ = publisher.context.send(source, b"now", SendFlags::FLUSH | SendFlags::NONBLOCK);
            }
            for service in &mut services {
                service.poll(Some(Duration::ZERO)).expect("a turn");
            }
            router.poll(Duration::from_micros(200)).expect("a turn");
            publisher.turn();
            subscriber.turn();
        }
    };
    run("both topics", &mut router, &mut publisher, &mut subscriber, &|subscriber, _| {
        subscriber.seen.count("md.a") > 20 && subscriber.seen.count("md.b") > 20
    });
    assert_eq!((subscriber.seen.count("other"), router.router().topics().count()), (0, 2));
    // Nobody says again what is wanted: the service is asked, and the topics go on.
    let began = std::time::Instant::now();
    run("ten seconds", &mut router, &mut publisher, &mut subscriber, &|_, _| began.elapsed() > Duration::from_secs(10));
    let there = subscriber.seen.count("md.a");
    run("more", &mut router, &mut publisher, &mut subscriber, &|subscriber, _| {
        subscriber.seen.count("md.a") > there + 20
    });
    subscriber.context.receiver("other", &subscriber.options).expect("a receiver");
    run("another topic", &mut router, &mut publisher, &mut subscriber, &|subscriber, _| {
        subscriber.seen.count("other") > 20
    });
    subscriber.context.remove_receiver(wildcard);
    run("the pattern is over", &mut router, &mut publisher, &mut subscriber, &|_, router| {
        router.router().wanted() == 1
    });
    assert_eq!(subscriber.seen.lost, 0);
}
