//! Two routers and more: TCP, TLS, answers, breaks, several paths.

use std::path::Path;
use std::time::Duration;

use lbm_io::SendFlags;

use crate::rig::{Program, domain, endpoint, router, until};

fn begin(
    routers: &mut [&mut lbm_router_io::RouterServer],
    publisher: &mut Program,
    subscriber: &mut Program,
) -> lbm_io::SourceId {
    let source = publisher.context.source("orders", &publisher.options).expect("a source");
    subscriber.context.receiver("orders", &subscriber.options).expect("a receiver");
    until("the first message", routers, &mut [publisher, subscriber], |programs| {
        let _ = programs[0].context.send(source, b"begin", SendFlags::FLUSH | SendFlags::NONBLOCK);
        programs[1].seen.count("orders") > 0
    });
    source
}

#[test]
fn answers_find_their_way_back() {
    let (one, two) = (domain("tcp"), domain("tcp"));
    let mut b = router(&format!("name = 'b'{}[[peer]]\nlisten = '127.0.0.1:0'", endpoint(2, &two)), Path::new(""));
    let at = b.listening()[0];
    let mut a = router(&format!("name = 'a'{}[[peer]]\nconnect = '{at}'", endpoint(1, &one)), Path::new(""));
    let (mut publisher, mut subscriber) = (Program::new(&one, &[]), Program::new(&two, &[]));
    subscriber.seen.answers = true;
    let source = begin(&mut [&mut a, &mut b], &mut publisher, &mut subscriber);
    for i in 0..20u32 {
        let question = i.to_string();
        publisher
            .context
            .request(source, question.as_bytes(), SendFlags::FLUSH, Duration::from_secs(100))
            .expect("asked");
    }
    until("answers", &mut [&mut a, &mut b], &mut [&mut publisher, &mut subscriber], |programs| {
        programs[0].seen.responses.len() == 20
    });
    let expected: Vec<Vec<u8>> = (0..20).map(|i| format!("answer to {i}").into_bytes()).collect();
    assert_eq!(publisher.seen.responses, expected);
}

struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    /// Each router's own certificate is what the other trusts.
    fn new(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in names {
            let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
            std::fs::write(folder.path().join(format!("{name}.pem")), made.cert.pem()).expect("written");
            std::fs::write(folder.path().join(format!("{name}.key")), made.signing_key.serialize_pem())
                .expect("written");
        }
        Self { folder }
    }
}

#[test]
fn routers_speak_tls_and_refuse_strangers() {
    let certificates = Certificates::new(&["a", "b", "stranger"]);
    let folder = certificates.folder.path();
    let (one, two) = (domain("tcp"), domain("tcp"));
    let tls = |own: &str, other: &str| {
        format!("tls = {{ ca = '{other}.pem', certificate = '{own}.pem', key = '{own}.key' }}")
    };
    let text = format!("name = 'b'{}[[peer]]\nlisten = '127.0.0.1:0'\n{}", endpoint(2, &two), tls("b", "a"));
    let mut b = router(&text, folder);
    let at = b.listening()[0];
    let dial = |own: &str| format!("name = '{own}'{}[[peer]]\nconnect = '{at}'\n{}", endpoint(1, &one), tls(own, "b"));
    let mut stranger = router(&dial("stranger"), folder);
    let began = std::time::Instant::now();
    let mut said = String::new();
    while !said.contains("TLS") {
        assert!(began.elapsed() < crate::rig::PATIENCE, "{said}");
        for router in [&mut b, &mut stranger] {
            router.poll(Duration::from_millis(1)).expect("a turn");
        }
        said += &b.news().join("\n");
    }
    drop(stranger);
    let mut a = router(&dial("a"), folder);
    let (mut publisher, mut subscriber) = (Program::new(&one, &[]), Program::new(&two, &[]));
    let source = begin(&mut [&mut a, &mut b], &mut publisher, &mut subscriber);
    let long = vec![3; 1_000_000];
    publisher.context.send(source, &long, SendFlags::FLUSH).expect("sent");
    until("a long message", &mut [&mut a, &mut b], &mut [&mut publisher, &mut subscriber], |programs| {
        programs[1].seen.messages["orders"].last().is_some_and(|(_, payload)| *payload == long)
    });
    assert_eq!(subscriber.seen.lost, 0);
}

#[test]
fn with_two_paths_nothing_is_missed_when_a_router_dies() {
    let (one, two) = (domain("tcp"), domain("tcp"));
    let listen = "\n[[peer]]\nlisten = '127.0.0.1:0'";
    let mut end = router(&format!("name = 'end'\npaths = 2{}{listen}{listen}", endpoint(2, &two)), Path::new(""));
    let at: Vec<_> = end.listening().to_vec();
    let mut begin_at = router(&format!("name = 'begin'{}{listen}{listen}", endpoint(1, &one)), Path::new(""));
    let from: Vec<_> = begin_at.listening().to_vec();
    let between = |name: &str, i: usize| {
        router(
            &format!("name = '{name}'\n[[peer]]\nconnect = '{}'\n[[peer]]\nconnect = '{}'", from[i], at[i]),
            Path::new(""),
        )
    };
    let (mut upper, mut lower) = (between("upper", 0), between("lower", 1));
    let (mut publisher, mut subscriber) = (Program::new(&one, &[]), Program::new(&two, &[]));
    let source = {
        let mut routers = [&mut begin_at, &mut upper, &mut lower, &mut end];
        let source = begin(&mut routers, &mut publisher, &mut subscriber);
        until("both paths", &mut routers, &mut [&mut publisher, &mut subscriber], |programs| {
            let _ = programs[0].context.send(source, b"now", SendFlags::FLUSH | SendFlags::NONBLOCK);
            programs[1].seen.count("orders") > 100
        });
        source
    };
    // Until copies have come by both.
    while end.router().topics().next().is_none_or(|view| view.counts.1 == 0) {
        until(
            "copies",
            &mut [&mut begin_at, &mut upper, &mut lower, &mut end],
            &mut [&mut publisher, &mut subscriber],
            {
                let mut turns = 0;
                move |programs| {
                    let _ = programs[0].context.send(source, b"now", SendFlags::FLUSH | SendFlags::NONBLOCK);
                    turns += 1;
                    turns > 5
                }
            },
        );
    }
    let taken = end.router().topics().next().expect("a source").ways[0].2[0];
    let (dead, mut alive) = if taken == upper.id() { (upper, lower) } else { (lower, upper) };
    drop(dead);
    let there = subscriber.seen.count("orders");
    until("more", &mut [&mut begin_at, &mut alive, &mut end], &mut [&mut publisher, &mut subscriber], |programs| {
        let _ = programs[0].context.send(source, b"now", SendFlags::FLUSH | SendFlags::NONBLOCK);
        programs[1].seen.count("orders") > there + 500
    });
    let numbers = subscriber.seen.numbers("orders");
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "each number once, and none missing");
    assert_eq!((subscriber.seen.lost, subscriber.seen.ended), (0, 0));
}

#[test]
fn a_router_that_comes_back_goes_on_with_the_same_proxy() {
    let (one, two) = (domain("tcp"), domain("tcp"));
    let mut b = router(&format!("name = 'b'{}[[peer]]\nlisten = '127.0.0.1:0'", endpoint(2, &two)), Path::new(""));
    let at = b.listening()[0];
    let text = format!("name = 'a'{}[[peer]]\nconnect = '{at}'", endpoint(1, &one));
    let mut a = router(&text, Path::new(""));
    let (mut publisher, mut subscriber) = (Program::new(&one, &[]), Program::new(&two, &[]));
    let source = begin(&mut [&mut a, &mut b], &mut publisher, &mut subscriber);
    drop(a);
    let mut a = router(&text, Path::new(""));
    let there = subscriber.seen.count("orders");
    until("more", &mut [&mut a, &mut b], &mut [&mut publisher, &mut subscriber], |programs| {
        let _ = programs[0].context.send(source, b"now", SendFlags::FLUSH | SendFlags::NONBLOCK);
        programs[1].seen.count("orders") > there + 10
    });
    assert_eq!(subscriber.seen.ended, 0, "to its receivers it is the same source");
    let numbers = subscriber.seen.numbers("orders");
    let gaps: u64 = numbers.windows(2).map(|pair| u64::from(pair[1] - pair[0] - 1)).sum();
    assert_eq!(subscriber.seen.lost, gaps, "what was sent between is lost, and said");
    assert!(gaps > 0);
}

#[test]
fn a_portal_that_leads_back_says_so() {
    let one = domain("tcp");
    let text = format!("name = 'a'{}[[peer]]\nlisten = '127.0.0.1:0'", endpoint(1, &one));
    let mut first = router(&text, Path::new(""));
    let at = first.listening()[0];
    let mut second =
        router(&format!("name = 'a'{}[[peer]]\nconnect = '{at}'", endpoint(2, &domain("tcp"))), Path::new(""));
    let (began, mut said) = (std::time::Instant::now(), String::new());
    while !said.contains("two routers have one name") {
        assert!(began.elapsed() < crate::rig::PATIENCE, "{said}");
        for router in [&mut first, &mut second] {
            router.poll(Duration::from_millis(1)).expect("a turn");
            said += &router.news().join("\n");
        }
    }
}
