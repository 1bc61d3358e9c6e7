//! Contexts on loopback, and what they say.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use lbm_io::options::Options;
use lbm_io::{Context, Delivery, EndReason, Events, Loss, RequestId, SourceId, Sources, Stream};

/// Longer than anything takes on a loaded machine.
pub const PATIENCE: Duration = Duration::from_mins(1);

static NEXT: AtomicU16 = AtomicU16::new(0);

/// Options on loopback that share no group, port or name with any other test: groups are of this process and call.
pub fn options(lines: &str) -> Options {
    options_and_text(lines).0
}

/// The same, also as the text of a file for another process.
pub fn options_and_text(lines: &str) -> (Options, String) {
    let mut options = Options::new();
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    let (a, b) = ((process >> 8) as u8, process as u8);
    let base = format!(
        "context default_interface 127.0.0.1
        context resolver_multicast_address 239.{a}.{b}.{n}
        context resolver_multicast_port {port}
        context transport_lbtrm_multicast_address_low 239.{a}.{b}.{low}
        context transport_lbtrm_multicast_address_high 239.{a}.{b}.{low}
        source transport_lbtrm_destination_port {port}
        context transport_lbtrm_source_port_low 0
        context transport_lbtrm_source_port_high 0
        context transport_lbtru_port_low 0
        context transport_lbtru_port_high 0
        receiver transport_lbtru_port_low 0
        receiver transport_lbtru_port_high 0
        context transport_tcp_port_low 0
        context transport_tcp_port_high 0
        context request_tcp_port_low 0
        context request_tcp_port_high 0
        context resolver_unicast_port_low 0
        context resolver_unicast_port_high 0
        source transport_lbtrm_transmission_window_size 4000000
        source transport_lbtru_transmission_window_size 4000000
        source transport_lbtipc_transmission_window_size 1000000
        receiver transport_lbtrm_nak_initial_backoff_interval 5
        receiver transport_lbtrm_nak_backoff_interval 20
        receiver transport_lbtru_nak_initial_backoff_interval 5
        receiver transport_lbtru_nak_backoff_interval 20
        source transport_lbtrm_ignore_interval 5
        source transport_lbtru_ignore_interval 5
        source transport_lbtrm_sm_minimum_interval 20
        source transport_lbtru_sm_minimum_interval 20
        receiver transport_lbtrm_nak_suppress_interval 20
        receiver transport_lbtru_nak_suppress_interval 20",
        low = 128 + n % 128,
        port = 20_000 + (process % 10_000) + u32::from(n),
    );
    let text = format!("{base}\n{lines}");
    options.parse("test", &text).expect("good options");
    (options, text)
}

pub fn with(options: &Options, lines: &str) -> Options {
    let mut options = options.clone();
    options.parse("test", lines).expect("good options");
    options
}

/// Events of a stream, in order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Received {
    pub begun: u32,
    pub messages: Vec<Vec<u8>>,
    pub sqns: Vec<u32>,
    pub lost: Vec<(u32, u32)>,
    pub ended: Vec<EndReason>,
    pub requests: Vec<lbm_io::Request>,
}

/// Collects everything, by receiver and topic.
#[derive(Debug, Default)]
pub struct Ear {
    pub heard: BTreeMap<(usize, String), Received>,
    pub writable: Vec<SourceId>,
    pub responses: Vec<(RequestId, Vec<u8>)>,
    /// Answers each request with its payload and this.
    pub answer: Option<Vec<u8>>,
}

impl Ear {
    fn of(&mut self, stream: &Stream<'_>) -> &mut Received {
        self.heard.entry((stream.receiver.index(), stream.topic.to_owned())).or_default()
    }

    pub fn topic(&self, topic: &str) -> Received {
        let mut found = self.heard.iter().filter(|((_, name), _)| name == topic);
        let heard = found.next().map(|(_, heard)| heard.clone()).unwrap_or_default();
        assert!(found.next().is_none(), "one receiver has {topic}");
        heard
    }

    pub fn count(&self) -> usize {
        self.heard.values().map(|h| h.messages.len()).sum()
    }
}

impl Events for Ear {
    fn message(&mut self, sources: &mut Sources, delivery: &Delivery<'_>) {
        let answer = self.answer.clone();
        let heard = self.of(&delivery.stream);
        assert!(heard.begun as usize == heard.ended.len() + 1, "a message between end and beginning");
        heard.messages.push(delivery.payload.to_vec());
        heard.sqns.push(delivery.sqn);
        if let Some(request) = delivery.request {
            heard.requests.push(request);
            if let Some(answer) = answer {
                let reply = [delivery.payload, &answer].concat();
                sources.respond(&request, &reply).expect("the requester is there");
            }
        }
    }
    fn begin(&mut self, _: &mut Sources, stream: &Stream<'_>) {
        self.of(stream).begun += 1;
    }
    fn end(&mut self, _: &mut Sources, stream: &Stream<'_>, reason: EndReason) {
        self.of(stream).ended.push(reason);
    }
    fn lost(&mut self, _: &mut Sources, stream: &Stream<'_>, loss: Loss) {
        self.of(stream).lost.push((loss.first, loss.count));
    }
    fn writable(&mut self, _: &mut Sources, source: SourceId) {
        self.writable.push(source);
    }
    fn response(&mut self, _: &mut Sources, request: RequestId, payload: &[u8]) {
        self.responses.push((request, payload.to_vec()));
    }
}

/// A sending and a receiving context of one thread.
pub struct World {
    pub options: Options,
    pub left: Context,
    pub right: Context,
    pub ear: Ear,
    pub left_ear: Ear,
}

impl World {
    pub fn new(lines: &str) -> Self {
        Self::of(options(lines))
    }

    pub fn of(options: Options) -> Self {
        let context = || Context::new(&options).expect("a context");
        Self { left: context(), right: context(), ear: Ear::default(), left_ear: Ear::default(), options }
    }

    pub fn turn(&mut self) {
        self.left.poll(Some(Duration::from_micros(200)), &mut self.left_ear).expect("a turn");
        self.right.poll(Some(Duration::from_micros(200)), &mut self.ear).expect("a turn");
    }

    /// Turns until it is so.
    pub fn until(&mut self, what: &str, mut so: impl FnMut(&mut Self) -> bool) {
        let began = Instant::now();
        while !so(self) {
            self.turn();
            let late = began.elapsed() > PATIENCE;
            assert!(!late, "not within {PATIENCE:?}: {what}\n{}\n{}", brief(&mut self.left), brief(&mut self.right));
        }
    }

    pub fn turns_for(&mut self, time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            self.turn();
        }
    }

    /// Sends a first message again and again until it is heard: topic resolution is not a matter of sending.
    pub fn introduce(&mut self, source: SourceId, topic: &str) {
        let topic = topic.to_owned();
        let mut at = None::<Instant>;
        let flush = lbm_io::SendFlags::FLUSH;
        self.until("the first message", |world| {
            if at.is_none_or(|at| at.elapsed() > Duration::from_millis(20)) {
                at = Some(Instant::now());
                world.left.send(source, b"hello", flush).expect("room");
            }
            !world.ear.topic(&topic).messages.is_empty()
        });
    }

    /// All that was introduced has come; it is forgotten.
    pub fn settle(&mut self, source: SourceId, topic: &str) {
        let topic = topic.to_owned();
        self.left.send(source, b"go", lbm_io::SendFlags::FLUSH).expect("room");
        self.until("go", |world| world.ear.topic(&topic).messages.last().is_some_and(|m| m == b"go"));
        for heard in self.ear.heard.values_mut() {
            heard.messages.clear();
            heard.sqns.clear();
        }
    }
}

/// The counters without the topics.
pub fn brief(context: &mut Context) -> String {
    let mut stats = context.stats();
    stats.sending.iter_mut().for_each(|s| s.topics.truncate(2));
    stats.receiving.iter_mut().for_each(|s| s.topics.truncate(2));
    format!("{stats:?}")
}
