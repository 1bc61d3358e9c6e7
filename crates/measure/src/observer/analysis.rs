//! From the records of both ends to what a report shows: latencies, rates, losses, order.
//!
//! Latency is taken from the *intended* time of a message (open loop: what a sender that is late does to those behind it counts),
//! and beside it from the time at which it was handed to the API, as the reports did. A message that several receivers
//! got has a latency for each.

use std::collections::{BTreeMap, HashMap};

use hdrhistogram::Histogram;

use super::steady::{self, WINDOWS, Window};
use super::{Received, Sent};

/// Width of the histogram's buckets in the reports, in nanoseconds.
pub const BUCKET_NS: u64 = 10_000;

/// Latencies: the columns of the reports, and what they leave out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// How many; everything else is 0 without any. All times are microseconds.
    pub samples: u64,
    /// Shortest.
    pub min_us: f64,
    /// Median; percentiles are the value of nearest rank, not interpolated.
    pub median_us: f64,
    /// Mean.
    pub mean_us: f64,
    /// Standard deviation of the population.
    pub stddev_us: f64,
    /// 90 %.
    pub p90_us: f64,
    /// 99 %.
    pub p99_us: f64,
    /// 99.9 %.
    pub p999_us: f64,
    /// 99.99 %.
    pub p9999_us: f64,
    /// Longest.
    pub max_us: f64,
    /// Samples by bucket of 10 us: bucket `n` holds `10 n <= us < 10 (n + 1)`. Empty ones are absent.
    pub buckets: BTreeMap<u64, u64>,
}

impl Distribution {
    /// Of latencies in nanoseconds, in any order.
    pub fn of(mut nanos: Vec<u64>) -> Self {
        nanos.sort_unstable();
        let (Some(&min), Some(&max)) = (nanos.first(), nanos.last()) else { return Self::default() };
        let count = nanos.len() as f64;
        let mean = nanos.iter().map(|&n| u128::from(n)).sum::<u128>() as f64 / count;
        let variance = nanos.iter().map(|&n| (n as f64 - mean).powi(2)).sum::<f64>() / count;
        let rank = |share: f64| {
            let at = (share * count).ceil().max(1.0) as usize - 1;
            nanos[at.min(nanos.len() - 1)] as f64 / 1e3
        };
        let mut buckets = BTreeMap::new();
        for run in nanos.chunk_by(|a, b| a / BUCKET_NS == b / BUCKET_NS) {
            buckets.insert(run[0] / BUCKET_NS, run.len() as u64);
        }
        Self {
            samples: nanos.len() as u64,
            min_us: min as f64 / 1e3,
            median_us: rank(0.5),
            mean_us: mean / 1e3,
            stddev_us: variance.sqrt() / 1e3,
            p90_us: rank(0.9),
            p99_us: rank(0.99),
            p999_us: rank(0.999),
            p9999_us: rank(0.9999),
            max_us: max as f64 / 1e3,
            buckets,
        }
    }

    /// Latencies as an HDR histogram of nanoseconds, three digits.
    pub fn hdr(nanos: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are in order");
        for &n in nanos {
            histogram.saturating_record(n.max(1));
        }
        histogram
    }
}

/// A point of a percentile distribution, as HDR histograms are plotted.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Percentile {
    /// Share of the samples that are not longer, 0 to 1.
    pub share: f64,
    /// In microseconds, three digits.
    pub us: f64,
    /// Samples that are not longer.
    pub count: u64,
}

/// Points of a distribution for each halving of what is left up to 100 %.
const TICKS: u32 = 5;

impl Percentile {
    /// The points of a histogram of nanoseconds, closer and closer to 100 %; the last is the longest. None without samples.
    pub fn all(histogram: &Histogram<u64>) -> Vec<Self> {
        let points = histogram.iter_quantiles(TICKS).map(|at| Self {
            share: at.quantile(),
            us: at.value_iterated_to() as f64 / 1e3,
            count: histogram.count_between(0, at.value_iterated_to()),
        });
        if histogram.is_empty() { Vec::new() } else { points.collect() }
    }

    /// How it is called: `hdr_99.9`, in percent without needless digits.
    pub fn name(&self) -> String {
        let text = format!("{:.6}", self.share * 100.0);
        format!("hdr_{}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// What both ends saw of a test.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Analysis {
    /// Messages sent, whole test.
    pub sent: u64,
    /// Deliveries, whole test.
    pub received: u64,
    /// Messages that nobody got although a later one was got: see [`analyse`].
    pub lost: u64,
    /// Deliveries of what nobody recorded as sent.
    pub unknown: u64,
    /// Deliveries whose number within the item was below the one before in the same log.
    pub out_of_order: u64,
    /// Sent when the test ended, and not yet due at a receiver.
    pub in_flight: u64,
    /// Seconds before the steady state, which do not count below.
    pub discarded_s: f64,
    /// Messages sent in them.
    pub discarded: u64,
    /// Whether a steady state was found at all.
    pub is_steady: bool,
    /// Seconds of the steady state.
    pub seconds: f64,
    /// Messages sent a second in the steady state.
    pub sent_per_s: f64,
    /// Deliveries a second in the steady state, from the first of its messages to come to the last.
    pub received_per_s: f64,
    /// From the intended time.
    pub latency: Distribution,
    /// From the call of the API, as in the reports.
    pub from_call: Distribution,
    /// How late the sender was: call after intended time.
    pub lateness: Distribution,
    /// The whole test, discarded part included.
    pub windows: Vec<Window>,
    /// Latencies of the steady state from the intended time in nanoseconds, for histograms of other forms.
    pub nanos: Vec<u64>,
    /// The slowest messages of the steady state, the slowest first.
    pub outliers: Vec<Outlier>,
    /// Deliveries in each whole second of the test.
    pub each_second: Vec<f64>,
}

/// A message that took long.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Outlier {
    /// When it was to be sent, in seconds since the first message was.
    pub at_s: f64,
    /// How long it took from then.
    pub us: f64,
}

/// How many of the slowest messages are listed.
pub const OUTLIERS: usize = 10;

/// Analyses a test. Each element of `receivers` holds the records of one process; `every` is how many messages stand behind
/// a record. Order is that of a log: of one connection, or it means nothing.
///
/// A message counts as lost when nobody got it although one that was sent later was got by a receiver that gets its item: what was
/// still under way when the test ended is `in_flight`.
pub fn analyse(sent: &[Sent], receivers: &[Vec<Received>], every: u32) -> Analysis {
    let mut order: Vec<u32> = (0..sent.len() as u32).collect();
    order.sort_unstable_by_key(|&n| sent[n as usize].id);
    let find = |id: u64| order.binary_search_by_key(&id, |&n| sent[n as usize].id).ok().map(|at| order[at] as usize);

    let mut analysis = Analysis { sent: sent.len() as u64, ..Analysis::default() };
    let mut copies = vec![0u32; sent.len()];
    let mut deliveries = Vec::with_capacity(receivers.iter().map(Vec::len).sum());
    let mut last_got = None;
    let mut shares = Shares::of(receivers);
    for (place, receiver) in receivers.iter().enumerate() {
        analysis.received += receiver.len() as u64;
        analysis.out_of_order += out_of_order(receiver);
        for got in receiver {
            match find(got.id) {
                None => analysis.unknown += 1,
                Some(n) => {
                    copies[n] += 1;
                    last_got = last_got.max(Some(n));
                    shares.got(place, n);
                    deliveries.push((n, got.at));
                }
            }
        }
    }
    let until = last_got.map_or(0, |n| n + 1);
    for (n, _) in copies.iter().enumerate().filter(|(_, copies)| **copies == 0) {
        let is_lost = n < shares.until(sent[n].id);
        (analysis.lost, analysis.in_flight) =
            (analysis.lost + u64::from(is_lost), analysis.in_flight + u64::from(!is_lost));
    }
    if let (Some(first), Some(last)) = (sent.first(), until.checked_sub(1).map(|n| &sent[n])) {
        let span = (first.intended, last.intended.max(first.intended + 1));
        measure(&mut analysis, sent, &deliveries, span, f64::from(every));
    }
    analysis
}

/// How far each receiver is, and which items it gets: one that is behind the others when a test ends has lost nothing.
struct Shares {
    /// By receiver: behind the last message that it has got.
    until: Vec<usize>,
    /// By item, the receivers that get it, a bit for each; empty with one receiver.
    items: HashMap<u32, u64>,
}

impl Shares {
    fn of(receivers: &[Vec<Received>]) -> Self {
        let mut items = HashMap::new();
        if receivers.len() > 1 {
            for (place, receiver) in receivers.iter().enumerate() {
                for got in receiver {
                    *items.entry((got.id >> 32) as u32).or_insert(0) |= 1 << (place & 63);
                }
            }
        }
        Self { until: vec![0; receivers.len()], items }
    }

    /// A receiver has got the message at this place.
    fn got(&mut self, receiver: usize, n: usize) {
        self.until[receiver] = self.until[receiver].max(n + 1);
    }

    /// Before which place a message of this id should have come: that of the fastest that gets the item; where nobody has got
    /// any of it, that of the slowest of all.
    fn until(&self, id: u64) -> usize {
        let slowest = || self.until.iter().copied().min().unwrap_or(0);
        let Some(who) = self.items.get(&((id >> 32) as u32)) else { return slowest() };
        let of = self.until.iter().enumerate().filter(|(place, _)| who >> (place & 63) & 1 == 1);
        of.map(|(_, until)| *until).max().unwrap_or(0)
    }
}

/// Deliveries whose number is below the last one of their item.
fn out_of_order(receiver: &[Received]) -> u64 {
    let mut last: HashMap<u32, u32> = HashMap::new();
    let mut count = 0;
    for got in receiver {
        let (item, number) = ((got.id >> 32) as u32, got.id as u32);
        let before = last.entry(item).or_insert(number);
        if number < *before {
            count += 1;
        }
        *before = number;
    }
    count
}

/// Windows, steady state, and the figures of it. `span` is from the first to the last intended time.
fn measure(analysis: &mut Analysis, sent: &[Sent], deliveries: &[(usize, u64)], span: (u64, u64), every: f64) {
    let (begin, end) = span;
    let width = (end - begin).div_ceil(WINDOWS as u64).max(1);
    let window_of = |at: u64| (at.saturating_sub(begin) / width) as usize;
    let mut latencies: Vec<Vec<u64>> = vec![Vec::new(); WINDOWS];
    let (mut out, mut came) = (vec![0u64; WINDOWS], vec![0u64; WINDOWS]);
    for message in sent {
        if let Some(count) = out.get_mut(window_of(message.at)) {
            *count += 1;
        }
    }
    for &(n, at) in deliveries {
        let intended = sent[n].intended;
        if let Some(of) = latencies.get_mut(window_of(intended)) {
            of.push(at.saturating_sub(intended));
        }
        if let Some(count) = came.get_mut(window_of(at)) {
            *count += 1;
        }
    }
    let seconds = width as f64 / 1e9;
    analysis.windows = latencies
        .into_iter()
        .enumerate()
        .map(|(n, of)| {
            let of = Distribution::of(of);
            Window {
                at_s: n as f64 * seconds,
                sent_per_s: out[n] as f64 * every / seconds,
                received_per_s: came[n] as f64 * every / seconds,
                median_us: of.median_us,
                mean_us: of.mean_us,
                max_us: of.max_us,
            }
        })
        .collect();
    analysis.each_second = each_second(deliveries, begin, every);
    let first = steady::begin(&analysis.windows);
    analysis.is_steady = first.is_some();
    let from = begin + first.unwrap_or(0) as u64 * width;
    analysis.discarded_s = (from - begin) as f64 / 1e9;
    settle(analysis, sent, deliveries, (from, end), every);
    for outlier in &mut analysis.outliers {
        outlier.at_s += analysis.discarded_s;
    }
}

/// Deliveries in each second since `begin`; the last one, which is not whole, is left out.
fn each_second(deliveries: &[(usize, u64)], begin: u64, every: f64) -> Vec<f64> {
    const SECOND: u64 = 1_000_000_000;
    let second = |at: u64| (at.saturating_sub(begin) / SECOND) as usize;
    let mut counts = vec![0.0; deliveries.iter().map(|(_, at)| second(*at)).max().unwrap_or(0)];
    for (_, at) in deliveries {
        if let Some(count) = counts.get_mut(second(*at)) {
            *count += every;
        }
    }
    counts
}

/// The slowest of those that are counted, by times since `from`.
fn slowest(got: &[(&Sent, u64)], from: u64) -> Vec<Outlier> {
    let latency = |(message, at): &(&Sent, u64)| at.saturating_sub(message.intended);
    let mut all: Vec<usize> = (0..got.len()).collect();
    let by_latency = |a: &usize, b: &usize| latency(&got[*b]).cmp(&latency(&got[*a])).then(a.cmp(b));
    if all.len() > OUTLIERS {
        all.select_nth_unstable_by(OUTLIERS, by_latency);
        all.truncate(OUTLIERS);
    }
    all.sort_unstable_by(by_latency);
    let outlier = |n: usize| Outlier {
        at_s: got[n].0.intended.saturating_sub(from) as f64 / 1e9,
        us: latency(&got[n]) as f64 / 1e3,
    };
    all.into_iter().map(outlier).collect()
}

/// The figures of the messages that were intended from `from` on.
fn settle(analysis: &mut Analysis, sent: &[Sent], deliveries: &[(usize, u64)], (from, end): (u64, u64), every: f64) {
    let is_in = |message: &Sent| message.intended >= from && message.intended <= end;
    let counted: Vec<&Sent> = sent.iter().filter(|m| is_in(m)).collect();
    let got: Vec<(&Sent, u64)> = deliveries.iter().map(|&(n, at)| (&sent[n], at)).filter(|(m, _)| is_in(m)).collect();
    analysis.discarded = sent.iter().filter(|m| m.intended < from).count() as u64;
    analysis.seconds = (end - from) as f64 / 1e9;
    analysis.sent_per_s = counted.len() as f64 * every / analysis.seconds.max(1e-9);
    // By the times of receiving: what stood in queues when the test ended must not count as if it had come in time.
    let came = got.iter().map(|(_, at)| *at);
    if let (Some(first), Some(last)) = (came.clone().min(), came.max()) {
        analysis.received_per_s = (got.len() - 1) as f64 * every / ((last - first) as f64 / 1e9).max(1e-9);
    }
    analysis.nanos = got.iter().map(|(m, at)| at.saturating_sub(m.intended)).collect();
    analysis.outliers = slowest(&got, from);
    analysis.latency = Distribution::of(analysis.nanos.clone());
    analysis.from_call = Distribution::of(got.iter().map(|(m, at)| at.saturating_sub(m.at)).collect());
    analysis.lateness = Distribution::of(counted.iter().map(|m| m.at.saturating_sub(m.intended)).collect());
}
