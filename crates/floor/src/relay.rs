//! The chain: source -> relays -> sink. A relay looks at each message, changes its number by a table, packs it anew and sends it on.

use std::fmt;
use std::io;

use super::frames::{Input, Packer};
use super::latency::Histogram;
use net::floor::stage::Stage;

use super::cost::{numbers, parse, usage};
use super::link::{In, Middle, Out, link};
use super::{Cost, Latency, Numbers, Schedule, Wait};
use net::clock;

/// Items that messages are spread over.
const ITEMS: u32 = 131_072;
const READ: usize = 65_536;

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub struct RelayOptions {
    /// Relays between source and sink.
    pub relays: usize,
    /// Messages a second; 0 for as many as go through.
    pub rate: f64,
    /// Length of the run; the first quarter is warm-up.
    pub seconds: f64,
    /// Idle strategy of relays and sink. The source yields while it waits for the time of the next message, unless `tick` is set.
    pub wait: Wait,
    /// `SO_SNDBUF` and `SO_RCVBUF`; `None` leaves them to the kernel.
    pub socket_buffer: Option<usize>,
    /// Bytes of a message, at least 32.
    pub message: usize,
    /// Bytes that a write of the source may have.
    pub write: usize,
    /// What the link in the middle is.
    pub middle: Middle,
    /// The source looks at its schedule so often (ns) and sleeps in between; 0: all the time.
    pub tick: u64,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self {
            relays: 2,
            rate: 0.0,
            seconds: 3.0,
            wait: Wait::Block,
            socket_buffer: Some(256 * 1024),
            message: 85,
            write: 24_000,
            middle: Middle::Tcp,
            tick: 0,
        }
    }
}

/// The figures.
#[derive(Clone, Debug, PartialEq)]
pub struct RelayReport {
    /// Messages a second at the sink, after the warm-up.
    pub rate: f64,
    /// Messages that came.
    pub messages: u64,
    /// Messages that were not the next one.
    pub out_of_sequence: u64,
    /// From the intended time of sending to the sink.
    pub latency: Latency,
    /// What each stage used.
    pub costs: Vec<Cost>,
}

impl RelayReport {
    /// As a JSON object.
    pub fn to_json(&self, options: &RelayOptions) -> String {
        let costs: Vec<_> = self.costs.iter().map(Cost::to_json).collect();
        format!(
            r#"{{"floor":"relay","middle":"{:?}","relays":{},"asked_rate":{},"wait":"{:?}","socket_buffer":{},"message":{},"rate":{:.0},"messages":{},"out_of_sequence":{},"latency_us":{},"stages":[{}]}}"#,
            options.middle,
            options.relays,
            options.rate,
            options.wait,
            options.socket_buffer.map_or_else(|| "null".to_owned(), |bytes| bytes.to_string()),
            options.message,
            self.rate,
            self.messages,
            self.out_of_sequence,
            self.latency.to_json(),
            costs.join(","),
        )
    }
}

/// Runs the chain.
///
/// # Errors
/// When sockets or processes cannot be made, or a stage fails.
pub fn run(options: &RelayOptions) -> io::Result<RelayReport> {
    let mut links = Vec::new();
    for at in 0..=options.relays {
        let of = if at == options.relays / 2 { options.middle } else { Middle::Tcp };
        links.push(link(of, options.socket_buffer)?);
    }
    // Each stage owns its ends, and drops those of the others that it was copied with: the end of one stage must be seen by the next.
    let mut stages = Vec::new();
    let (mut outs, mut backs): (Vec<_>, Vec<_>) = links.into_iter().map(|(out, back)| (Some(out), Some(back))).unzip();
    for stage in 0..options.relays + 2 {
        let input = stage.checked_sub(1).and_then(|link| backs[link].take());
        let output = outs.get_mut(stage).and_then(Option::take);
        let others = (&mut outs, &mut backs);
        stages.push(Stage::fork(|| {
            others.0.clear();
            others.1.clear();
            match (&input, &output) {
                (None, Some(output)) => source(options, output),
                (Some(input), Some(output)) => relay(options, input, output),
                (Some(input), None) => sink(options, input),
                (None, None) => unreachable!("a stage has a neighbour"),
            }
        })?);
    }
    let results: Vec<_> =
        stages.into_iter().map(|stage| stage.join().map(|text| parse(&text))).collect::<io::Result<_>>()?;
    let name = |index: usize| match index {
        0 => "source".to_owned(),
        index if index == options.relays + 1 => "sink".to_owned(),
        index => format!("relay{index}"),
    };
    let costs = results.iter().enumerate().map(|(i, values)| Cost::new(&name(i), &values[..4])).collect();
    report(&results[options.relays + 1], costs).ok_or_else(|| io::Error::other("the sink handed nothing back"))
}

fn report(sink: &[u64], costs: Vec<Cost>) -> Option<RelayReport> {
    let &[messages, _, _, _, out_of_sequence, measured, ns, min, median, p90, p99, p999, max] = sink else {
        return None;
    };
    let us = |ns: u64| ns as f64 / 1000.0;
    Some(RelayReport {
        rate: measured as f64 * 1e9 / ns.max(1) as f64,
        messages,
        out_of_sequence,
        latency: Latency { min: us(min), median: us(median), p90: us(p90), p99: us(p99), p999: us(p999), max: us(max) },
        costs,
    })
}

pub(super) fn latency_numbers(latency: &Latency) -> [u64; 6] {
    let Latency { min, median, p90, p99, p999, max } = *latency;
    [min, median, p90, p99, p999, max].map(|us| (us * 1000.0) as u64)
}

fn source(options: &RelayOptions, output: &Out) -> String {
    let mut schedule = Schedule::new(options.rate, options.seconds);
    let mut numbers_of_items = Numbers(1);
    let mut message: Vec<u8> = (0..options.message.max(32)).map(|i| i as u8).collect();
    let mut packer = Packer::with_capacity(options.write + 65_536);
    let mut calls = 0;
    let most = (options.write / message.len()).max(1) as u64;
    loop {
        let now = clock::now();
        let Some(due) = schedule.due(now, most) else { break };
        if due == 0 {
            if options.tick > 0 {
                std::thread::sleep(std::time::Duration::from_nanos(options.tick));
            } else {
                std::thread::yield_now();
            }
            continue;
        }
        packer.clear();
        for _ in 0..due {
            let sequence = schedule.sent;
            let intended = schedule.intended(now);
            message[4..8].copy_from_slice(&(numbers_of_items.next() % ITEMS).to_ne_bytes());
            message[16..24].copy_from_slice(&intended.to_ne_bytes());
            message[24..32].copy_from_slice(&sequence.to_ne_bytes());
            packer.push(&message);
        }
        packer.finish();
        calls += 1;
        if output.send(&packer.bytes).is_err() {
            break;
        }
    }
    output.end();
    numbers(&usage(schedule.sent, calls))
}

fn relay(options: &RelayOptions, input: &In, output: &Out) -> String {
    let table: Vec<u32> = (0..ITEMS).map(|item| item.wrapping_mul(7919) % ITEMS).collect();
    let mut buffer = Input::new(READ);
    let mut packer = Packer::with_capacity(2 * READ);
    let (mut messages, mut calls) = (0, 0);
    loop {
        packer.clear();
        if !buffer.read(READ, |room| input.read(options.wait, room)) {
            break;
        }
        buffer.messages(|message| {
            let item = number(message);
            packer.push(message)[4..8].copy_from_slice(&table[(item % ITEMS) as usize].to_ne_bytes());
            messages += 1;
        });
        calls += 1;
        packer.finish();
        if output.send(&packer.bytes).is_err() {
            break;
        }
    }
    output.end();
    numbers(&usage(messages, calls))
}

fn sink(options: &RelayOptions, input: &In) -> String {
    let mut buffer = Input::new(READ);
    let mut histogram = Histogram::new();
    let (mut messages, mut calls, mut expected, mut bad) = (0u64, 0, 0u64, 0);
    let warm = clock::now() + (options.seconds * 0.25e9) as u64;
    let (mut measured_from, mut before, mut last) = (None, 0, 0);
    loop {
        if !buffer.read(READ, |room| input.read(options.wait, room)) {
            break;
        }
        let now = clock::now();
        if measured_from.is_none() && now > warm {
            (measured_from, before) = (Some(now), messages);
        }
        buffer.messages(|message| {
            let sequence = u64::from_ne_bytes(message[24..32].try_into().expect("eight bytes"));
            bad += u64::from(sequence != expected);
            expected = sequence + 1;
            if measured_from.is_some() {
                let intended = u64::from_ne_bytes(message[16..24].try_into().expect("eight bytes"));
                histogram.add(now.saturating_sub(intended));
            }
            messages += 1;
        });
        last = now;
        calls += 1;
    }
    let ns = measured_from.map_or(0, |from: u64| last.saturating_sub(from));
    let mut values = usage(messages, calls).to_vec();
    values.extend([bad, messages - before, ns]);
    values.extend(latency_numbers(&histogram.latency()));
    numbers(&values)
}

pub(super) fn number(message: &[u8]) -> u32 {
    u32::from_ne_bytes(message[4..8].try_into().expect("four bytes"))
}

impl fmt::Display for RelayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} M messages/s, {} bad; {}", self.rate / 1e6, self.out_of_sequence, self.latency)?;
        self.costs.iter().try_for_each(|cost| write!(f, "; {cost}"))
    }
}
