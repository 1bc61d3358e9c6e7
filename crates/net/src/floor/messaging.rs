//! What the bare loops of a messaging layer are asked, and what came out: one way as fast as it goes, or there and back at a rate.
//! [`Meter`] and [`Trips`] are for the layer itself, too: both are measured alike.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Wait;
use super::latency::{Histogram, Latency};
use crate::clock;

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Bytes of a message, at least 8.
    pub payload: usize,
    /// Most bytes of a datagram, or of what is published at once.
    pub datagram: usize,
    /// Datagrams go and come in trains (GSO, GRO).
    pub trains: bool,
    /// To a multicast group.
    pub multicast: bool,
    /// Messages a second there and back; 0: each when the one before is back.
    pub rate: f64,
    /// What counts.
    pub seconds: f64,
    /// Before that.
    pub warmup: f64,
    /// What both sides do when there is nothing to do; they cannot block.
    pub wait: Wait,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            payload: 64,
            datagram: 1_408,
            trains: true,
            multicast: false,
            rate: 0.0,
            seconds: 1.0,
            warmup: 0.25,
            wait: Wait::Yield,
        }
    }
}

/// One way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Streamed {
    /// Messages a second at the receiver.
    pub rate: f64,
    /// Messages that did not come, in the whole run.
    pub lost: u64,
    /// CPU of the sending thread, ns a message.
    pub sender_ns: f64,
    /// CPU of the receiving thread, ns a message.
    pub receiver_ns: f64,
}

impl Streamed {
    /// As a JSON object.
    pub fn to_json(&self) -> String {
        let Self { rate, lost, sender_ns, receiver_ns } = self;
        format!(
            r#"{{"rate":{rate:.0},"lost":{lost},"sender_cpu_ns":{sender_ns:.1},"receiver_cpu_ns":{receiver_ns:.1}}}"#
        )
    }
}

/// There and back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoundTrips {
    /// Of how many.
    pub samples: u64,
    /// Messages that did not come back, in the whole run.
    pub lost: u64,
    /// From the intended time of sending until the message is back.
    pub latency: Latency,
}

impl RoundTrips {
    /// As a JSON object.
    pub fn to_json(&self) -> String {
        let Self { samples, lost, latency } = self;
        let Latency { median, p90, p99, p999, max, .. } = latency;
        format!(
            r#"{{"samples":{samples},"lost":{lost},"p50_us":{median:.2},"p90_us":{p90:.2},"p99_us":{p99:.2},"p999_us":{p999:.2},"max_us":{max:.2}}}"#
        )
    }
}

/// What the receiver tells the sender, which holds the stream back to what the receiver's buffer takes.
#[derive(Debug, Default)]
pub struct Progress {
    /// Messages that have come.
    pub messages: AtomicU64,
    /// CPU of the receiver so far, ns.
    pub cpu: AtomicU64,
    /// The sender has ended.
    pub over: AtomicBool,
}

/// The measured part of a run one way.
#[derive(Debug)]
pub struct Meter<'a> {
    progress: &'a Progress,
    from: u64,
    end: u64,
    /// (time, messages, CPU of sender, CPU of receiver) at its beginning.
    begun: Option<[u64; 4]>,
}

impl<'a> Meter<'a> {
    /// Begins now, with the warm-up.
    pub fn new(work: &Work, progress: &'a Progress) -> Self {
        let from = clock::now() + (work.warmup * 1e9) as u64;
        Self { progress, from, end: from + (work.seconds * 1e9) as u64, begun: None }
    }

    fn read(&self, now: u64) -> [u64; 4] {
        let Progress { messages, cpu, .. } = self.progress;
        [now, messages.load(Ordering::Relaxed), clock::thread_cpu(), cpu.load(Ordering::Relaxed)]
    }

    /// Whether to go on.
    pub fn goes_on(&mut self) -> bool {
        let now = clock::now();
        if self.begun.is_none() && now >= self.from {
            self.begun = Some(self.read(now));
        }
        now < self.end
    }

    /// At the end, in the sending thread.
    pub fn result(&self) -> Streamed {
        let until = self.read(clock::now());
        let Some(begun) = self.begun else { return Streamed::default() };
        let [ns, messages, sender, receiver] = std::array::from_fn(|i| until[i].saturating_sub(begun[i]) as f64);
        let each = |total: f64| total / messages.max(1.0);
        Streamed { rate: messages * 1e9 / ns.max(1.0), lost: 0, sender_ns: each(sender), receiver_ns: each(receiver) }
    }
}

/// An open loop there and back.
#[derive(Debug)]
pub struct Trips {
    begin: u64,
    counts_from: u64,
    end: u64,
    interval: f64,
    sent: u64,
    back: u64,
    histogram: Histogram,
    samples: u64,
}

/// How long the last ones may take to come back.
const GRACE_NS: u64 = 200_000_000;

impl Trips {
    /// Begins in a millisecond.
    pub fn new(work: &Work) -> Self {
        let begin = clock::now() + 1_000_000;
        let counts_from = begin + (work.warmup * 1e9) as u64;
        Self {
            begin,
            counts_from,
            end: counts_from + (work.seconds * 1e9) as u64,
            interval: if work.rate > 0.0 { 1e9 / work.rate } else { 0.0 },
            sent: 0,
            back: 0,
            histogram: Histogram::with_width(10),
            samples: 0,
        }
    }

    /// The intended time of a message that is due now.
    #[inline]
    pub fn due(&mut self, now: u64) -> Option<u64> {
        if now >= self.end {
            return None;
        }
        let intended = if self.interval > 0.0 {
            self.begin + (self.sent as f64 * self.interval) as u64
        } else if self.back == self.sent {
            now
        } else {
            return None;
        };
        (intended <= now).then(|| {
            self.sent += 1;
            intended
        })
    }

    /// A message has come back.
    #[inline]
    pub fn back(&mut self, now: u64, intended: u64) {
        self.back += 1;
        if intended >= self.counts_from {
            self.histogram.add(now.saturating_sub(intended));
            self.samples += 1;
        }
    }

    /// Whether all has been sent, and is back or will never be.
    pub fn is_over(&self, now: u64) -> bool {
        now >= self.end && (self.back == self.sent || now >= self.end + GRACE_NS)
    }

    /// At the end.
    pub fn result(&self) -> RoundTrips {
        RoundTrips {
            samples: self.samples,
            lost: self.sent - self.back.min(self.sent),
            latency: self.histogram.latency(),
        }
    }
}
