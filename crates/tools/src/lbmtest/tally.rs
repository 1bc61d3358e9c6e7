//! A subscriber's figures: messages by topic and source, latencies, losses.

use std::collections::HashSet;
use std::fmt::Write as _;

use lbm_io::failover::{FailoverNews, FailoverTopic, Way};
use lbm_io::{Delivery, EndReason, Events, Loss, SendFlags, SourceId, Sources, Stream};
use serde_json::{Value, json};

use super::payload::Payload;
use measure::latency::Latency;
use measure::observer::analysis::Distribution;
use measure::observer::{Observer, id_of};

/// One topic of one source.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) topic: String,
    pub(super) session: String,
    /// Number that is due next; `None` before the first message.
    next: Option<u32>,
    /// Number of the first message.
    pub(super) first: u32,
    pub(super) messages: u64,
    /// Numbers that were skipped, less those that came later.
    pub(super) missing: i64,
    /// Messages whose number was below the one due.
    pub(super) out_of_order: u64,
    /// Numbers that LBM reported lost.
    pub(super) reported: u64,
    /// How many messages there were, once the publisher has said so.
    pub(super) count: Option<u64>,
    /// The source is gone.
    pub(super) is_over: bool,
    /// How often it was gone and came back: its session had been silent for too long.
    pub(super) interruptions: u64,
}

/// Everything that a test is judged by.
pub(super) struct Tally {
    /// By the context's numbers of streams; `None`: not heard, or kept in `past`.
    streams: Vec<Option<Seen>>,
    past: Vec<Seen>,
    nanos: Vec<u64>,
    capacity: usize,
    /// Messages of which no latency could be kept.
    pub(super) unobserved: u64,
    pub(super) interval: Latency,
    /// Messages whose intended time is ahead of this host's clock: the publisher has another clock.
    pub(super) from_the_future: u64,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// Payloads that are no test messages.
    pub(super) foreign: u64,
    pub(super) first_at: u64,
    pub(super) last_at: u64,
    latency_every: u32,
    countdown: u32,
    pub(super) observer: Option<Observer>,
    /// Where to send messages back, by receiver.
    pub(super) pongs: Vec<SourceId>,
    /// Messages that could not be sent back.
    pub(super) unsent: u64,
    /// Counts beginnings and ends of streams: what is asked of all of them need be asked only when it has changed.
    pub(super) changes: u64,
    /// The receivers are those of hot failover.
    pub(super) is_failover: bool,
    /// The publishers of a test of hot failover.
    pub(super) failover: Publishers,
}

/// Publishers that stand in for each other.
#[derive(Debug, Default)]
pub(super) struct Publishers {
    /// Streams that were heard and are neither gone nor done.
    live: HashSet<u32>,
    /// How many were heard.
    pub(super) begun: u64,
    /// Whether one has said that it is done, and was not only gone.
    is_done: bool,
    /// Copies that differ.
    pub(super) differing: u64,
}

impl Publishers {
    pub(super) fn has_ended(&self) -> bool {
        self.begun > 0 && self.live.is_empty()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.has_ended() && self.is_done
    }
}

impl Tally {
    /// Takes and touches memory for so many latencies.
    pub(super) fn new(capacity: usize, latency_every: u32, observer: Option<Observer>) -> Self {
        let mut nanos = vec![u64::MAX; capacity];
        nanos.clear();
        Self {
            streams: Vec::new(),
            past: Vec::new(),
            nanos,
            capacity,
            unobserved: 0,
            interval: Latency::new(),
            from_the_future: 0,
            messages: 0,
            bytes: 0,
            foreign: 0,
            first_at: 0,
            last_at: 0,
            latency_every: latency_every.max(1),
            countdown: 0,
            observer,
            pongs: Vec::new(),
            unsent: 0,
            changes: 0,
            is_failover: false,
            failover: Publishers::default(),
        }
    }

    fn seen(&mut self, stream: &Stream<'_>) -> &mut Seen {
        let number = stream.number as usize;
        if self.streams.len() <= number {
            self.streams.resize_with(number + 1, || None);
        }
        let past = &mut self.past;
        self.streams[number].get_or_insert_with(|| Seen::begin(past, stream.topic, stream.transport.to_string()))
    }

    /// A topic of hot failover has one entry, whoever sends it.
    fn seen_topic(&mut self, receiver: usize, topic: &str) -> &mut Seen {
        if self.streams.len() <= receiver {
            self.streams.resize_with(receiver + 1, || None);
        }
        let of_topic = || Seen { topic: topic.to_owned(), session: "hot failover".to_owned(), ..Seen::default() };
        self.streams[receiver].get_or_insert_with(of_topic)
    }

    /// All topics of all sources, those that are over first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Seen> {
        self.past.iter().chain(self.streams.iter().flatten())
    }

    /// Streams whose publisher has said that it is done, or is gone.
    pub(super) fn ended(&self) -> usize {
        self.all().filter(|s| s.count.is_some() || s.is_over).count()
    }

    /// Whether every stream that has ended is complete, or will never be. One that is gone without a word may come back.
    pub(super) fn is_settled(&self) -> bool {
        self.all().all(|s| match s.count {
            Some(count) => s.is_over || s.messages + u64::from(s.first) + s.reported >= count,
            None => !s.is_over,
        })
    }

    /// Messages that never came: those that LBM reported, and those that only the numbers tell of. `strict`: also those before the
    /// first one.
    pub(super) fn lost(&self, strict: bool) -> u64 {
        self.all().map(|s| s.lost(strict)).sum()
    }

    pub(super) fn reported(&self) -> u64 {
        self.all().map(|s| s.reported).sum()
    }

    pub(super) fn distribution(&self) -> Distribution {
        Distribution::of(self.nanos.clone())
    }

    /// Time between the first and the last message.
    pub(super) fn seconds(&self) -> f64 {
        (self.last_at - self.first_at) as f64 / 1e9
    }

    #[inline]
    fn take_latency(&mut self, intended: u64) {
        self.countdown = self.countdown.saturating_sub(1);
        if self.countdown > 0 {
            return;
        }
        self.countdown = self.latency_every;
        let now = net::clock::now();
        if self.first_at == 0 {
            self.first_at = now;
        }
        self.last_at = now;
        let Some(nanos) = now.checked_sub(intended) else {
            self.from_the_future += 1;
            return;
        };
        self.interval.record(nanos);
        if self.nanos.len() < self.capacity {
            self.nanos.push(nanos);
        } else {
            self.unobserved += 1;
        }
    }
}

impl Seen {
    /// A stream that begins, or one that was gone and is back.
    fn begin(past: &mut Vec<Self>, topic: &str, session: String) -> Self {
        let is_this = |s: &Self| s.topic == topic && s.session == session && s.count.is_none();
        if let Some(at) = past.iter().position(is_this) {
            let seen = past.swap_remove(at);
            return Self { is_over: false, interruptions: seen.interruptions + 1, ..seen };
        }
        Self { topic: topic.to_owned(), session, ..Self::default() }
    }

    #[inline]
    fn message(&mut self, number: u32) {
        self.messages += 1;
        match self.next {
            Some(next) if number == next => self.next = Some(next.wrapping_add(1)),
            Some(next) => {
                let ahead = number.wrapping_sub(next) as i32;
                if ahead > 0 {
                    self.missing += i64::from(ahead);
                    self.next = Some(number.wrapping_add(1));
                } else {
                    self.out_of_order += 1;
                    self.missing -= 1;
                }
            }
            None => {
                self.first = number;
                self.next = Some(number.wrapping_add(1));
            }
        }
    }

    fn lost(&self, strict: bool) -> u64 {
        let expected = match self.count {
            Some(count) if self.next.is_some() => count.saturating_sub(u64::from(self.first)),
            Some(count) => count,
            None => self.messages.saturating_add_signed(self.missing.max(0)),
        };
        let head = if strict { u64::from(self.first) } else { 0 };
        expected.saturating_sub(self.messages).max(self.reported) + head
    }
}

impl Events for Tally {
    #[inline]
    fn message(&mut self, sources: &mut Sources, delivery: &Delivery<'_>) {
        match Payload::read(delivery.payload) {
            Some(Payload::Message { number, topic, intended }) => {
                if let Some(observer) = &mut self.observer {
                    observer.received(id_of(topic, number));
                }
                if let Some(pong) = self.pongs.get(delivery.stream.receiver.index()) {
                    let flags = SendFlags::FLUSH | SendFlags::NONBLOCK;
                    self.unsent += u64::from(sources.send(*pong, delivery.payload, flags).is_err());
                }
                self.messages += 1;
                self.bytes += delivery.payload.len() as u64;
                self.take_latency(intended);
                let stream = &delivery.stream;
                match delivery.failover {
                    None => self.seen(stream).message(number),
                    Some(_) => self.seen_topic(stream.receiver.index(), stream.topic).message(number),
                }
            }
            Some(Payload::End { .. }) if delivery.failover == Some(Way::PassThrough) => {
                self.changes += 1;
                self.failover.live.remove(&delivery.stream.number);
                self.failover.is_done = true;
            }
            Some(Payload::End { count, .. }) => {
                self.changes += 1;
                self.seen(&delivery.stream).count = Some(count);
            }
            None => self.foreign += 1,
        }
    }

    fn begin(&mut self, _: &mut Sources, stream: &Stream<'_>) {
        self.changes += 1;
        if self.is_failover {
            self.failover.begun += 1;
            self.failover.live.insert(stream.number);
            return;
        }
        self.seen(stream);
    }

    fn end(&mut self, _: &mut Sources, stream: &Stream<'_>, _: EndReason) {
        self.changes += 1;
        if self.is_failover {
            self.failover.live.remove(&stream.number);
            return;
        }
        self.seen(stream).is_over = true;
        // The number will be used again.
        if let Some(seen) = self.streams[stream.number as usize].take()
            && (seen.messages > 0 || seen.count.is_some())
        {
            self.past.push(seen);
        }
    }

    fn lost(&mut self, _: &mut Sources, stream: &Stream<'_>, loss: Loss) {
        self.seen(stream).reported += u64::from(loss.count);
    }

    fn failover(&mut self, _: &mut Sources, topic: &FailoverTopic<'_>, news: &FailoverNews<'_>) {
        match news {
            FailoverNews::Lost(lost) => self.seen_topic(topic.receiver.index(), topic.topic).reported += lost.count,
            FailoverNews::Differs { .. } => self.failover.differing += 1,
            FailoverNews::Reset(_) => {}
        }
    }
}

/// A distribution as JSON, microseconds; `null` without samples.
pub fn distribution_json(d: &Distribution) -> Value {
    if d.samples == 0 {
        return Value::Null;
    }
    json!({
        "samples": d.samples, "min": d.min_us, "median": d.median_us, "mean": d.mean_us, "stddev": d.stddev_us,
        "p90": d.p90_us, "p99": d.p99_us, "p999": d.p999_us, "p9999": d.p9999_us, "max": d.max_us,
    })
}

/// A distribution as the reports print it, microseconds.
pub fn distribution_table(what: &str, d: &Distribution) -> String {
    if d.samples == 0 {
        return format!("{what}: nothing measured");
    }
    let columns = [
        ("min", d.min_us),
        ("median", d.median_us),
        ("mean", d.mean_us),
        ("stddev", d.stddev_us),
        ("99%", d.p99_us),
        ("99.9%", d.p999_us),
        ("99.99%", d.p9999_us),
        ("max", d.max_us),
    ];
    let (mut names, mut values) = (format!("{what}, us"), String::new());
    let width = names.len();
    let _ = write!(values, "{:>width$}", format!("{} samples", d.samples));
    let width = width.max(values.len());
    names = format!("{names:>width$}");
    for (name, value) in columns {
        let _ = write!(names, " {name:>10}");
        let _ = write!(values, " {:>10}", crate::table::micros(value));
    }
    format!("{names}\n{values}")
}
