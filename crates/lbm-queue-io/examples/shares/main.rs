//! How fast messages of a queue are consumed by one receiver, and by several of one application set, with and without source-side filtering: by
//! turns, medians; and the same by bare sockets.
//!
//! `cargo run --release -p lbm-queue-io --example shares [seconds [rounds [bytes [receivers [cases]]]]]`: of the cases abcd, in this order. Source and receivers are threads of one process, LBT-TCP.

mod bare;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use lbm_io::options::Options;
use lbm_io::{Context, Delivery, Events, SendFlags, SourceId, Sources};
use lbm_queue_io::{Assigned, Consumption, QueueEvents, Queues, SourceEvent};

/// Messages between two turns of the source.
const BURST: u64 = 64;

fn options(filters: bool) -> anyhow::Result<Options> {
    let behavior = if filters { "ulb" } else { "none" };
    let lines = format!(
        "context default_interface 127.0.0.1
        context resolver_multicast_address 239.255.17.19
        source transport tcp
        source transport_source_side_filtering_behavior {behavior}
        source implicit_batching_minimum_length 8192
        source umq_ulb_application_set 0:10
        source umq_ulb_flight_size 20000
        source umq_ulb_events MSG_COMPLETE
        receiver umq_receiver_type_id 10
        context transport_tcp_port_low 0
        context transport_tcp_port_high 0
        context request_tcp_port_low 0
        context request_tcp_port_high 0"
    );
    let mut options = Options::new();
    options.parse("shares", &lines).map_err(|bad| anyhow!("{}", bad[0]))?;
    Ok(options)
}

#[derive(Default)]
struct Counts {
    complete: u64,
    came: u64,
}

impl Events for Counts {
    fn message(&mut self, _: &mut Sources, _: &Delivery<'_>) {}
}

impl QueueEvents for Counts {
    fn assigned(&mut self, _: &mut Sources, _: &Delivery<'_>, _: &Assigned<'_>) -> Consumption {
        self.came += 1;
        Consumption::Done
    }

    fn source(&mut self, _: &mut Sources, _: SourceId, event: &SourceEvent) {
        self.complete += u64::from(matches!(event, SourceEvent::Complete { .. }));
    }
}

/// Processor time of the calling thread so far.
fn own_processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0))
}

/// Messages consumed a second, and the processor time of each at the source and at all receivers together, ns.
#[derive(Clone, Copy)]
struct Rate {
    messages: f64,
    source_ns: f64,
    receivers_ns: f64,
}

/// A receiver on a thread of its own; gives what it has consumed, and its processor time.
fn receiver(topic: &str, filters: bool, stop: &AtomicBool) -> anyhow::Result<(u64, Duration)> {
    let options = options(filters)?;
    let (mut context, mut queues) = (Context::new(&options)?, Queues::new());
    queues.receiver(&mut context, topic, &options)?;
    let mut counts = Counts::default();
    while !stop.load(Ordering::Relaxed) {
        queues.poll(&mut context, Some(Duration::from_millis(10)), &mut counts)?;
    }
    Ok((counts.came, own_processor()))
}

/// Messages consumed a second by so many receivers of one set.
fn rate(topic: &str, time: Duration, bytes: usize, receivers: usize, filters: bool) -> anyhow::Result<Rate> {
    let stop = Arc::new(AtomicBool::new(false));
    let start = |_| {
        let (topic, stop) = (topic.to_owned(), stop.clone());
        std::thread::spawn(move || receiver(&topic, filters, &stop))
    };
    let threads: Vec<_> = (0..receivers).map(start).collect();
    let options = options(filters)?;
    let (mut context, mut queues) = (Context::new(&options)?, Queues::new());
    let source = queues.source(&mut context, topic, &options)?;
    let mut counts = Counts::default();
    let began = Instant::now();
    while queues.source_receivers(source).1 < receivers {
        queues.poll(&mut context, Some(Duration::from_millis(10)), &mut counts)?;
        ensure!(began.elapsed() < Duration::from_secs(10), "the receivers do not register");
    }
    let (payload, began, own) = (vec![7; bytes], Instant::now(), own_processor());
    while began.elapsed() < time {
        for _ in 0..BURST {
            queues.send_blocking(&mut context, source, &payload, None, SendFlags::NONE, &mut counts)??;
        }
        queues.poll(&mut context, Some(Duration::ZERO), &mut counts)?;
    }
    let complete = counts.complete as f64;
    let mut rate = Rate {
        messages: complete / began.elapsed().as_secs_f64(),
        source_ns: own_processor().saturating_sub(own).as_nanos() as f64 / complete,
        receivers_ns: 0.0,
    };
    stop.store(true, Ordering::Relaxed);
    let mut came = Vec::new();
    for thread in threads {
        let (consumed, busy) = thread.join().map_err(|_| anyhow!("a receiver"))??;
        rate.receivers_ns += busy.as_nanos() as f64 / complete;
        came.push(consumed);
    }
    ensure!(came.iter().all(|came| *came > 0), "each has its part: {came:?}");
    Ok(rate)
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: usize| words.get(at).map_or(Ok(usual), |word| word.parse());
    let time = Duration::from_secs_f64(words.first().map_or(Ok(2.0), |word| word.parse())?);
    let (rounds, bytes, many) = (number(1, 3)?, number(2, 700)?, number(3, 8)?);
    let cases = words.get(4).map_or("abcd", String::as_str);
    let mut rates = [const { Vec::new() }; 3];
    let mut bare = [const { Vec::new() }; 2];
    for round in 0..rounds {
        for (case, rates) in "abc".chars().zip(&mut rates).filter(|(case, _)| cases.contains(*case)) {
            let receivers = if case == 'a' { 1 } else { many };
            rates.push(rate(&format!("{case}{round}"), time, bytes, receivers, case == 'b')?);
        }
        if cases.contains('d') {
            bare[0].push(bare::rate(time, bytes, 1)?);
            bare[1].push(bare::rate(time, bytes, many)?);
        }
    }
    let medians = rates.map(|mut rates: Vec<Rate>| {
        rates.sort_by(|a, b| a.messages.total_cmp(&b.messages));
        rates.get(rates.len() / 2).copied()
    });
    let first = medians[0].map_or(f64::NAN, |rate| rate.messages);
    let names = ["one of all".to_owned(), format!("{many}, filtered"), format!("{many}, all hear all")];
    for (name, rate) in names.iter().zip(medians) {
        let Some(Rate { messages, source_ns, receivers_ns }) = rate else { continue };
        let ratio = messages / first;
        println!(
            "{name:20} {messages:10.0} a second, {ratio:.2} of one receiver, {source_ns:5.0} ns a message at the source, {receivers_ns:5.0} at receivers"
        );
    }
    let bare = bare.map(|mut rates: Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied()
    });
    if let [Some(one), Some(several)] = bare {
        println!("{:20} {one:10.0} a second, 1.00 of one receiver", "bare, one");
        println!("{:20} {several:10.0} a second, {:.2} of one receiver", format!("bare, {many}"), several / one);
    }
    Ok(())
}
