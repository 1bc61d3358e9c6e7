//! Hot failover over sockets: sources of any transports, and processes that are killed.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lbm_io::failover::{FailoverNews, FailoverTopic, Mark, Number, Way};
use lbm_io::options::Options;
use lbm_io::{Context, Delivery, EndReason, Events, SendFlags, SourceId, Sources, Stream};

use crate::world::{self, PATIENCE};

/// What a receiver of hot failover has told.
#[derive(Debug, Default)]
struct FailoverEar {
    /// (topic, number) of first copies.
    firsts: Vec<(String, u64)>,
    /// Sessions that each first copy came from, without repetitions in sequence.
    from: Vec<String>,
    others: Vec<(Way, Vec<u8>)>,
    news: Vec<String>,
    begun: usize,
    ended: usize,
}

impl Events for FailoverEar {
    fn message(&mut self, _: &mut Sources, delivery: &Delivery<'_>) {
        match delivery.failover.expect("a receiver of hot failover") {
            Way::First(mark) => {
                assert_eq!(delivery.payload, mark.number.value().to_be_bytes());
                self.firsts.push((delivery.stream.topic.to_owned(), mark.number.value()));
                let from = delivery.stream.transport.to_string();
                if self.from.last() != Some(&from) {
                    self.from.push(from);
                }
            }
            way => self.others.push((way, delivery.payload.to_vec())),
        }
    }
    fn begin(&mut self, _: &mut Sources, _: &Stream<'_>) {
        self.begun += 1;
    }
    fn end(&mut self, _: &mut Sources, _: &Stream<'_>, _: EndReason) {
        self.ended += 1;
    }
    fn lost(&mut self, _: &mut Sources, _: &Stream<'_>, _: lbm_io::Loss) {
        panic!("a single source's losses are nobody's business");
    }
    fn failover(&mut self, _: &mut Sources, topic: &FailoverTopic<'_>, news: &FailoverNews<'_>) {
        self.news.push(match news {
            FailoverNews::Lost(lost) => format!("{}: {} lost from {}", topic.topic, lost.count, lost.first),
            FailoverNews::Differs { number, delivered, other } => {
                assert!(delivered.is_some_and(|first| first.transport != other.transport));
                format!("{}: {number} differs", topic.topic)
            }
            FailoverNews::Reset(next) => format!("{}: reset to {next}", topic.topic),
        });
    }
}

struct Publishers {
    contexts: Vec<(Context, SourceId)>,
}

impl Publishers {
    fn new(options: &Options, topic: &str, transports: &[&str]) -> Self {
        let open = |transport: &&str| {
            let options = world::with(options, &format!("source transport {transport}"));
            let mut context = Context::new(&options).expect("a context");
            let source = context.source(topic, &options).expect("a source");
            (context, source)
        };
        Self { contexts: transports.iter().map(open).collect() }
    }

    fn send(&mut self, which: usize, mark: Mark) {
        let (context, source) = &mut self.contexts[which];
        let payload = mark.number.value().to_be_bytes();
        context.sources().send_failover(*source, mark, &payload, SendFlags::FLUSH).expect("room");
    }

    /// One turn of everybody.
    fn turn(&mut self, receiver: &mut Context, heard: &mut FailoverEar) {
        for (context, _) in &mut self.contexts {
            context.poll(Some(Duration::ZERO), &mut |_: &mut Sources, _: &Delivery<'_>| {}).expect("a turn");
        }
        receiver.poll(Some(Duration::from_millis(1)), heard).expect("a turn");
    }

    fn until(&mut self, receiver: &mut Context, heard: &mut FailoverEar, done: impl Fn(&FailoverEar) -> bool) {
        let began = Instant::now();
        while !done(heard) {
            self.turn(receiver, heard);
            assert!(began.elapsed() < PATIENCE, "{heard:?} {:?}", receiver.stats().failover);
        }
    }
}

#[test]
fn each_number_comes_once_from_sources_of_any_transport() {
    for pattern in [false, true] {
        let options = world::options("wildcard_receiver hf_receiver 1");
        let transports = ["lbtrm", "tcp", "lbtru", "lbtipc"];
        let mut publishers = Publishers::new(&options, "md.ibm", &transports);
        let mut receiver = Context::new(&options).expect("a context");
        let mut heard = FailoverEar::default();
        if pattern {
            receiver.wildcard("^md\\.", &options).expect("a receiver");
        } else {
            receiver.failover_receiver("md.ibm", &options).expect("a receiver");
        }
        // A multicast source is heard when it says something: numbers go on until all four are.
        let (mut number, began) = (0u32, Instant::now());
        while receiver.stats().failover.first().is_none_or(|f| f.sources < transports.len()) {
            (0..transports.len()).for_each(|which| publishers.send(which, Mark::new(Number::Bits32(number))));
            number += 1;
            publishers.turn(&mut receiver, &mut heard);
            assert!(began.elapsed() < PATIENCE, "{heard:?}");
        }
        // Each is ahead in turn, and then gone.
        for leader in 0..transports.len() {
            for _ in 0..50 {
                publishers.send(leader, Mark::new(Number::Bits32(number)));
                publishers.turn(&mut receiver, &mut heard);
                for other in (0..transports.len()).filter(|other| *other != leader) {
                    publishers.send(other, Mark::new(Number::Bits32(number)));
                }
                number += 1;
            }
        }
        let last = u64::from(number - 1);
        publishers.until(&mut receiver, &mut heard, |heard| heard.firsts.last().is_some_and(|(_, n)| *n == last));
        let numbers: Vec<u64> = heard.firsts.iter().map(|(_, number)| *number).collect();
        assert!(numbers.windows(2).all(|w| w[1] == w[0] + 1) && numbers.len() >= 200, "{numbers:?}");
        let kinds: std::collections::BTreeSet<&str> = heard.from.iter().filter_map(|f| f.split(':').next()).collect();
        assert!(kinds.len() >= 2, "more than one source was first: {kinds:?}");
        // What has no number passes through from each; a number that is another message is told; a reset is told once.
        for (context, source) in &mut publishers.contexts {
            context.send(*source, b"hello", SendFlags::FLUSH).expect("room");
        }
        publishers.until(&mut receiver, &mut heard, |heard| heard.others.len() == transports.len());
        assert!(heard.others.iter().all(|other| *other == (Way::PassThrough, b"hello".to_vec())));
        for (context, source) in &mut publishers.contexts {
            context.sources().reset_failover(*source, Number::Bits32(0), SendFlags::FLUSH).expect("room");
        }
        publishers.until(&mut receiver, &mut heard, |heard| !heard.news.is_empty());
        let before = heard.firsts.len();
        publishers.send(0, Mark::new(Number::Bits32(0)));
        publishers.until(&mut receiver, &mut heard, |heard| heard.firsts.len() > before);
        let (context, source) = &mut publishers.contexts[1];
        let mark = Mark::new(Number::Bits32(0));
        context.sources().send_failover(*source, mark, b"another", SendFlags::FLUSH).expect("room");
        publishers.until(&mut receiver, &mut heard, |heard| heard.news.len() > 1);
        assert_eq!(heard.news, ["md.ibm: reset to 0", "md.ibm: 0 differs"]);
        let stats = receiver.stats().failover.remove(0);
        assert_eq!((stats.topic.as_str(), stats.stats.lost, stats.stats.differing), ("md.ibm", 0, 1));
        assert!(receiver.report_text().contains("failover\tmd.ibm\tsources=4"), "{}", receiver.report_text());
    }
}

#[test]
fn a_wildcard_receiver_forgets_a_topic_whose_sources_are_gone() {
    let options = world::options("wildcard_receiver hf_receiver 1");
    let mut receiver = Context::new(&options).expect("a context");
    receiver.wildcard("^md\\.", &options).expect("a receiver");
    let mut heard = FailoverEar::default();
    for round in 1..=2 {
        let mut publishers = Publishers::new(&options, "md.ibm", &["tcp"]);
        publishers.until(&mut receiver, &mut heard, |heard| heard.begun == round);
        // The numbers begin anew: a receiver that remembered would take them for copies.
        heard.firsts.clear();
        let (mut next, began) = (0, Instant::now());
        while heard.firsts.len() < 10 {
            publishers.send(0, Mark::new(Number::Bits64(next)));
            publishers.turn(&mut receiver, &mut heard);
            next += 1;
            assert!(began.elapsed() < PATIENCE, "{heard:?}");
        }
        drop(publishers);
        Publishers { contexts: Vec::new() }.until(&mut receiver, &mut heard, |heard| heard.ended == round);
        assert!(receiver.stats().failover.is_empty(), "forgotten");
    }
}

const TRANSPORT: &str = "LBM_IO_TEST_FAILOVER_TRANSPORT";
const BASE: &str = "LBM_IO_TEST_FAILOVER_OPTIONS";
/// Nanoseconds of the clock that all processes have between two numbers.
const STEP_NS: u64 = 250_000;

/// A source of its own process: the clock is its input, so that all such processes send the same. Without the variable it is no test.
#[test]
fn source_process() {
    let (Ok(transport), Ok(base)) = (std::env::var(TRANSPORT), std::env::var(BASE)) else { return };
    let mut options = Options::new();
    options.parse("base", &base).expect("good options");
    options.parse("own", &format!("source transport {transport}")).expect("good options");
    let mut context = Context::new(&options).expect("a context");
    let source = context.source("clock", &options).expect("a source");
    let mut next = net::clock::now() / STEP_NS;
    loop {
        let now = net::clock::now() / STEP_NS;
        while next <= now {
            let mark = Mark::new(Number::Bits64(next));
            context.sources().send_failover(source, mark, &next.to_be_bytes(), SendFlags::FLUSH).expect("room");
            next += 1;
        }
        context.poll(Some(Duration::from_micros(200)), &mut |_: &mut Sources, _: &Delivery<'_>| {}).expect("a turn");
    }
}

struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kills one of two processes as soon as the other one is heard, and starts it again, so many times.
fn kill_processes(kills: usize) {
    let (options, text) = world::options_and_text(
        "receiver transport_lbtrm_activity_timeout 500\nreceiver transport_lbtru_activity_timeout 500",
    );
    let start = |turn: usize| {
        let transport = ["lbtrm", "tcp", "lbtru", "lbtipc"][turn % 4];
        let child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "failover::source_process"])
            .env(TRANSPORT, transport)
            .env(BASE, &text)
            .stdout(Stdio::null())
            .spawn();
        Kill(child.expect("a process"))
    };
    let mut receiver = Context::new(&options).expect("a context");
    receiver.failover_receiver("clock", &options).expect("a receiver");
    let mut heard = FailoverEar::default();
    let mut processes = vec![start(0), start(1)];
    let (mut last, mut messages) = (None, 0u64);
    let mut began = Instant::now();
    let mut turns = |heard: &mut FailoverEar,
                     until: &dyn Fn(&FailoverEar, &mut Context) -> bool,
                     began: &mut Instant| {
        while !until(heard, &mut receiver) {
            receiver.poll(Some(Duration::from_millis(2)), heard).expect("a turn");
            for (_, number) in heard.firsts.drain(..) {
                assert!(last.is_none_or(|last: u64| number == last + 1), "{number} behind {last:?}: {:?}", heard.news);
                last = Some(number);
                messages += 1;
            }
            assert!(heard.news.is_empty(), "{:?}", heard.news);
            assert!(began.elapsed() < PATIENCE, "{:?}", receiver.stats().failover);
        }
        *began = Instant::now();
    };
    // A source stands in once a copy of it has come: all behind that it has, too.
    let both = |heard: &FailoverEar, wanted: usize| heard.begun >= wanted;
    turns(&mut heard, &|heard, _| both(heard, 2), &mut began);
    for kill in 0..kills {
        let compared = |receiver: &mut Context| receiver.stats().failover.first().map_or(0, |f| f.stats.compared);
        let before = std::cell::Cell::new(None);
        turns(
            &mut heard,
            &|_, receiver| {
                let now = compared(receiver);
                now > before.get().unwrap_or_else(|| {
                    before.set(Some(now + 20));
                    now + 20
                })
            },
            &mut began,
        );
        drop(processes.remove(0));
        processes.push(start(kill + 2));
        turns(&mut heard, &|heard, _| both(heard, kill + 3), &mut began);
    }
    println!("{kills} kills, {messages} messages, none lost, none twice");
    assert!(messages > kills as u64 * 20);
}

/// Eight kills; a thousand take minutes: `QUOTEWAY_KILLS=1000 cargo test -p quoteway-lbm-io --test all -- processes_are_killed --nocapture`.
#[test]
fn processes_are_killed_and_each_number_comes_once() {
    let wanted = std::env::var("QUOTEWAY_KILLS").ok();
    kill_processes(wanted.map_or(8, |kills| kills.parse().expect("QUOTEWAY_KILLS is a number")));
}
