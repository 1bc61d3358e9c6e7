//! Tasks and figures of the bare loops of a messaging layer: one way as fast as it goes, one way at a rate, or there
//! and back. [`Meter`], [`OpenLoop`], [`Arrivals`] and [`Trips`] are for the layers themselves, too: all are measured alike.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Wait;
use super::latency::{Distribution, Histogram};
use net::clock::{self, Usage};
use net::floor::board::Board;

/// The task.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Bytes of a message, at least 8, one way at a rate at least [`STAMPED`].
    pub payload: usize,
    /// Most bytes of a datagram, or of what is published at once.
    pub datagram: usize,
    /// Datagrams go and come in trains (GSO, GRO).
    pub trains: bool,
    /// To a multicast group.
    pub multicast: bool,
    /// Messages a second; 0: there and back each when the one before is back, one way as fast as it goes.
    pub rate: f64,
    /// What counts.
    pub seconds: f64,
    /// Before that.
    pub warmup: f64,
    /// What a receiver does when there is nothing to do, and everybody there and back, where nobody can block.
    pub wait: Wait,
    /// What a sender does until a message is due, or while there is no room; blocking is sleeping for 50 us or more.
    pub pace: Wait,
    /// Address of the interface.
    pub here: Ipv4Addr,
    /// Multicast group; there and back the next one, too.
    pub group: Ipv4Addr,
    /// Port of the receivers; 0: any, which several receivers of a group cannot have.
    pub port: u16,
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
            pace: Wait::Yield,
            here: Ipv4Addr::LOCALHOST,
            group: Ipv4Addr::new(239, 192, 61, 1),
            port: 0,
        }
    }
}

impl Wait {
    /// A turn of a sender that has nothing to send.
    #[inline]
    pub fn pause(self) {
        if self == Self::Block { std::thread::sleep(SLEEP) } else { self.idle() }
    }
}

/// How long a sender that blocks sleeps; the timer's slack of 50 us comes on top.
const SLEEP: Duration = Duration::from_micros(10);

/// One way, as fast as it goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Streamed {
    /// Messages a second at the receiver, or at the slowest of several.
    pub rate: f64,
    /// CPU of the sending thread, ns a message: in user mode, in the kernel.
    pub sender_ns: [f64; 2],
    /// CPU of the receiving thread, or the mean of several, likewise.
    pub receiver_ns: [f64; 2],
}

impl Streamed {
    /// As a JSON object.
    pub fn to_json(&self) -> String {
        let Self { rate, sender_ns: [su, ss], receiver_ns: [ru, rs] } = self;
        format!(
            "{{\"rate\":{rate:.0},\"sender_cpu_ns\":{:.1},\"sender_user_ns\":{su:.1},\"sender_system_ns\":{ss:.1},\
             \"receiver_cpu_ns\":{:.1},\"receiver_user_ns\":{ru:.1},\"receiver_system_ns\":{rs:.1}}}",
            su + ss,
            ru + rs,
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
    pub latency: Distribution,
    /// Samples of that by microsecond, the shortest.
    pub histogram: Vec<u64>,
}

impl RoundTrips {
    /// As a JSON object.
    pub fn to_json(&self) -> String {
        let Self { samples, lost, latency, histogram } = self;
        let (latency, histogram) = (figures("", latency), list(histogram));
        format!(r#"{{"samples":{samples},"lost":{lost},{latency},"histogram":[{histogram}]}}"#)
    }
}

fn list(counts: &[u64]) -> String {
    counts.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

fn figures(prefix: &str, latency: &Distribution) -> String {
    let Distribution { min, median, mean, stddev, p90, p99, p999, p9999, max } = latency;
    let all = [
        ("min", min),
        ("p50", median),
        ("mean", mean),
        ("stddev", stddev),
        ("p90", p90),
        ("p99", p99),
        ("p999", p999),
        ("p9999", p9999),
        ("max", max),
    ];
    all.map(|(name, us)| format!(r#""{prefix}{name}_us":{us:.2}"#)).join(",")
}

/// The measured part of a run one way as fast as it goes.
#[derive(Debug)]
pub struct Meter<'a> {
    boards: &'a [&'a Board],
    from: u64,
    end: u64,
    /// (time, messages, user and system of the sender, of the receivers) at its beginning.
    begun: Option<[u64; 6]>,
}

/// Messages that the slowest receiver has.
#[inline]
pub fn slowest(boards: &[&Board]) -> u64 {
    boards.iter().map(|b| b.receiver.messages.load(Ordering::Relaxed)).min().unwrap_or(0)
}

impl<'a> Meter<'a> {
    /// Begins now, with the warm-up.
    pub fn new(work: &Work, boards: &'a [&'a Board]) -> Self {
        let from = clock::now() + (work.warmup * 1e9) as u64;
        Self { boards, from, end: from + (work.seconds * 1e9) as u64, begun: None }
    }

    fn read(&self, now: u64) -> [u64; 6] {
        let Usage { user, system } = clock::thread_usage();
        let sum =
            |of: fn(&Board) -> u64| self.boards.iter().map(|b| of(b)).sum::<u64>() / self.boards.len().max(1) as u64;
        let theirs = sum(|b| b.receiver.user.load(Ordering::Relaxed));
        [now, slowest(self.boards), user, system, theirs, sum(|b| b.receiver.system.load(Ordering::Relaxed))]
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
        let [ns, messages, user, system, their_user, their_system] =
            std::array::from_fn(|i| until[i].saturating_sub(begun[i]) as f64);
        let each = |total: f64| total / messages.max(1.0);
        Streamed {
            rate: messages * 1e9 / ns.max(1.0),
            sender_ns: [each(user), each(system)],
            receiver_ns: [each(their_user), each(their_system)],
        }
    }
}

/// Bytes at the beginning of a message one way at a rate: its number, from 1 on, and where it is stamped the intended time and the
/// time of the call; else zeros.
pub const STAMPED: usize = 24;

/// Stamps a second at most: reading the clock twice for each of 20 million messages would be what is measured.
const STAMPS: f64 = 500_000.0;

/// A sender one way at a rate: an open loop, a message is due at its time whatever has become of those before.
#[derive(Debug)]
pub struct OpenLoop {
    begin: u64,
    end: u64,
    interval: f64,
    every: u64,
    sent: u64,
    wait: Wait,
}

impl OpenLoop {
    /// Begins in a millisecond, and tells the receivers what counts.
    pub fn new(work: &Work, boards: &[&Board]) -> Self {
        let begin = clock::now() + 1_000_000;
        let counts_from = begin + (work.warmup * 1e9) as u64;
        for board in boards {
            board.sender.counts_from.store(counts_from, Ordering::Release);
        }
        let rate = work.rate.max(1.0);
        Self {
            begin,
            end: counts_from + (work.seconds * 1e9) as u64,
            interval: 1e9 / rate,
            every: (rate / STAMPS).ceil().max(1.0) as u64,
            sent: 0,
            wait: work.pace,
        }
    }

    /// How many messages are due; `None` at the end.
    #[inline]
    pub fn due(&self, now: u64) -> Option<u64> {
        if now >= self.end {
            return None;
        }
        let ago = now.saturating_sub(self.begin) as f64;
        let due = if now < self.begin { 0 } else { (ago / self.interval) as u64 + 1 };
        Some(due.saturating_sub(self.sent))
    }

    /// Writes number and stamps of the next message to the beginning of its payload.
    #[inline]
    pub fn stamp(&mut self, payload: &mut [u8]) {
        let Some(place) = payload.first_chunk_mut::<STAMPED>() else { return };
        let (mut intended, mut call) = (0, 0);
        if self.sent.is_multiple_of(self.every) {
            intended = self.begin + (self.sent as f64 * self.interval) as u64;
            call = clock::now();
        }
        self.sent += 1;
        for (at, word) in [self.sent, intended, call].into_iter().enumerate() {
            place[at * 8..at * 8 + 8].copy_from_slice(&word.to_ne_bytes());
        }
    }

    /// A turn without a message that is due.
    #[inline]
    pub fn pause(&self) {
        self.wait.pause();
    }

    /// Messages stamped so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }
}

/// Parts of a run whose mean latency is told apart, to see a queue that grows.
const WINDOWS: usize = 40;

/// A receiver one way at a rate.
#[derive(Debug)]
pub struct Arrivals {
    from: u64,
    window_ns: u64,
    expected: u64,
    lost: u64,
    messages: u64,
    intended: Histogram,
    call: Histogram,
    windows: Vec<(f64, u64)>,
    /// (number, time) of the first and of the last stamped message that counted.
    ends: Option<[(u64, u64); 2]>,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OneWay {
    /// Messages a second at the receiver.
    pub rate: f64,
    /// Of how many.
    pub samples: u64,
    /// Messages that did not come or came out of order, in the whole run.
    pub lost: u64,
    /// From the intended time of sending.
    pub latency: Distribution,
    /// From the call of the API.
    pub from_call: Distribution,
    /// Samples of that by microsecond, the shortest.
    pub histogram: Vec<u64>,
    /// Mean latency from the intended time of each fortieth of the run, in microseconds.
    pub windows: Vec<f64>,
}

impl OneWay {
    /// As a JSON object.
    pub fn to_json(&self) -> String {
        let Self { rate, samples, lost, latency, from_call, histogram, windows } = self;
        let (latency, call, histogram) = (figures("", latency), figures("call_", from_call), list(histogram));
        let windows = windows.iter().map(|us| format!("{us:.2}")).collect::<Vec<_>>().join(",");
        format!(
            r#"{{"rate":{rate:.1},"samples":{samples},"lost":{lost},{latency},{call},"windows_us":[{windows}],"histogram":[{histogram}]}}"#
        )
    }
}

impl Arrivals {
    /// Before anything has come.
    pub fn new(work: &Work) -> Self {
        let new = || Histogram::with_width(10);
        Self {
            from: 0,
            window_ns: ((work.seconds * 1e9) as u64 / WINDOWS as u64).max(1),
            expected: 1,
            lost: 0,
            messages: 0,
            intended: new(),
            call: new(),
            windows: vec![(0.0, 0); WINDOWS],
            ends: None,
        }
    }

    /// A message has come; number 0 only looks for a receiver.
    #[inline]
    pub fn take(&mut self, payload: &[u8], board: &Board) {
        let Some(place) = payload.first_chunk::<STAMPED>() else { return };
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| place[at * 8 + i]));
        let number = word(0);
        if number == 0 {
            return;
        }
        self.messages += 1;
        if number == self.expected {
            self.expected += 1;
        } else {
            self.disorder(number);
        }
        let intended = word(1);
        if intended != 0 {
            self.stamped(number, intended, word(2), board);
        }
    }

    #[cold]
    fn disorder(&mut self, number: u64) {
        self.lost += number.checked_sub(self.expected).unwrap_or(1);
        self.expected = self.expected.max(number + 1);
    }

    #[inline]
    fn stamped(&mut self, number: u64, intended: u64, call: u64, board: &Board) {
        if self.from == 0 {
            self.from = board.sender.counts_from.load(Ordering::Acquire);
        }
        if intended < self.from {
            return;
        }
        let now = clock::now();
        self.intended.add(now.saturating_sub(intended));
        self.call.add(now.saturating_sub(call));
        let window = ((intended - self.from) / self.window_ns) as usize;
        if let Some((sum, count)) = self.windows.get_mut(window) {
            *sum += now.saturating_sub(intended) as f64;
            *count += 1;
        }
        match &mut self.ends {
            Some([_, last]) => *last = (number, now),
            None => self.ends = Some([(number, now); 2]),
        }
    }

    /// Messages so far.
    #[inline]
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// At the end.
    pub fn result(&self, board: &Board) -> OneWay {
        let rate = self.ends.map_or(0.0, |[first, last]| {
            (last.0 - first.0) as f64 * 1e9 / last.1.saturating_sub(first.1).max(1) as f64
        });
        let sent = board.sender.sent.load(Ordering::Relaxed);
        let windows = self.windows.iter().filter(|(_, count)| *count > 0);
        OneWay {
            rate,
            samples: self.intended.count(),
            lost: self.lost + (sent + 1).saturating_sub(self.expected),
            latency: self.intended.distribution(),
            from_call: self.call.distribution(),
            histogram: self.call.by_microsecond(),
            windows: windows.map(|(sum, count)| sum / *count as f64 / 1e3).collect(),
        }
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
            latency: self.histogram.distribution(),
            histogram: self.histogram.by_microsecond(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_late_is_counted() {
        let (board, work) = (Board::default(), Work { rate: 1e9, seconds: 1.0, warmup: 0.0, ..Work::default() });
        let mut pace = OpenLoop::new(&work, &[&board]);
        assert_eq!((pace.due(0), pace.due(u64::MAX)), (Some(0), None));
        let mut arrivals = Arrivals::new(&work);
        let mut message = || {
            let mut payload = [0u8; STAMPED];
            pace.stamp(&mut payload);
            payload
        };
        arrivals.take(&[0; STAMPED], &board);
        let (first, second, third) = (message(), message(), message());
        for payload in [first, third, second] {
            arrivals.take(&payload, &board);
        }
        board.end(pace.sent() + 2);
        let result = arrivals.result(&board);
        // The second came late, and two more never.
        assert_eq!((arrivals.messages(), result.lost), (3, 4));
        assert_eq!(result.samples, 1, "one of 2,000 is stamped at this rate");
        let json = result.to_json();
        assert!(json.contains("call_p99_us") && json.ends_with("]}") && json.contains("\"histogram\":["), "{json}");
    }
}
