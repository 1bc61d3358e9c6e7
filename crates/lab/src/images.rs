//! A client opens a large watchlist while another one streams: how long it takes, and what the other one notices.

use super::chain::{Chain, Spacing};
use super::nodes::Nodes;
use super::results::{Metrics, Outcome, Side};
use super::run::Interval;
use super::scenario::{Point, Scenario};
use super::session::{Run, Session};
use measure::process::{Fault, Process, pause};
use measure::stats;

/// Items of the client that streams.
const STREAMING_ITEMS: u32 = 10_000;
/// Seconds of a line of both clients' tables.
const INTERVAL: f64 = 0.05;
const PATIENCE: f64 = 60.0;

/// Seconds that the scenario is expected to take.
pub fn estimate(scenario: &Scenario, pairs: u32) -> f64 {
    (scenario.seconds + scenario.warmup + 5.0) * f64::from(pairs)
}

/// Runs the scenario.
///
/// # Errors
/// The lab was stopped.
pub fn run(session: &mut Session, scenario: &Scenario, outcome: &mut Outcome) -> Result<(), Fault> {
    let Some(Point::Rate(rate)) = scenario.points()?.first().copied() else {
        return Err(Fault::Failed(format!("{} needs one rate, at which the first client streams", scenario.name)));
    };
    let ours: Run<'_> = Box::new(|| once(scenario, rate));
    session.row(outcome, "loaded", vec![(Side::Ours, estimate(scenario, 1), ours)])
}

fn once(scenario: &Scenario, rate: f64) -> Result<Metrics, Fault> {
    let mut chain = Chain::start(scenario, Nodes::loopback(), Spacing::Even, None)?;
    let flags = format!("-I {INTERVAL} --seconds 3600 -l 1");
    let mut streaming = chain.client(scenario, &format!("RDT{{0..{}}}", STREAMING_ITEMS - 1), &flags)?;
    wait_for_images(&mut streaming, u64::from(STREAMING_ITEMS))?;
    chain.publish(Some(rate))?;
    pause(scenario.warmup)?;
    let begin = net::clock::now();
    pause(scenario.seconds)?;

    let before_end = net::clock::now();
    let flags = format!("-I {INTERVAL} --seconds 0.5 -l 1");
    let mut opening =
        chain.client(&without_client_priority(scenario), &format!("BULK{{0..{}}}", scenario.items - 1), &flags)?;
    let complete_at = wait_for_images(&mut opening, u64::from(scenario.items))?;
    let report = opening.json(PATIENCE)?;
    let images_s = report["images_s"].as_f64().ok_or_else(|| opening.failed("has not all images"))?;

    let mut intervals = Vec::new();
    while let Some(line) = streaming.next_line(PATIENCE)? {
        intervals.extend(Interval::read(line.at, &line.text).filter(|_| line.is_output));
        if line.at > complete_at + 500_000_000 {
            break;
        }
    }
    let first = complete_at.saturating_sub(((images_s + INTERVAL) * 1e9) as u64);
    let last = complete_at + (INTERVAL * 1e9) as u64;
    let p99 = |from: u64, to: u64| -> Vec<f64> {
        intervals.iter().filter(|i| (from..=to).contains(&i.at)).filter_map(|i| i.p99_us).collect()
    };
    let (before, during) = (p99(begin, before_end), p99(first, last));
    compare(images_s, &before, &during).ok_or_else(|| streaming.failed("has too few intervals"))
}

/// As the client that opens is started: a real-time priority is the other client's, for it is what is looked at.
fn without_client_priority(scenario: &Scenario) -> Scenario {
    let words = scenario.priority.split_whitespace().filter(|word| !word.starts_with("client:"));
    Scenario { priority: words.collect::<Vec<_>>().join(" "), ..scenario.clone() }
}

/// The worst interval while images came, against the median of the worst ones of as long windows before.
fn compare(images_s: f64, before: &[f64], during: &[f64]) -> Option<Metrics> {
    let windows = stats::window_maxima(before, during.len());
    if windows.is_empty() || during.is_empty() {
        return None;
    }
    let quiet = stats::median(&windows);
    let loaded = during.iter().copied().fold(f64::MIN, f64::max);
    let mut metrics = Metrics::default();
    metrics.push("images_s", images_s);
    metrics.push("p99_before_us", quiet);
    metrics.push("p99_during_us", loaded);
    metrics.push("p99_ratio", loaded / quiet.max(1e-9));
    metrics.push("p99_median_before_us", stats::median(before));
    metrics.push("p99_median_during_us", stats::median(during));
    Some(metrics)
}

/// Waits until a client's table shows all images; gives the time of the line.
///
/// # Errors
/// It ends before, or the lab was stopped.
pub fn wait_for_images(client: &mut Process, images: u64) -> Result<u64, Fault> {
    while let Some(line) = client.next_line(PATIENCE)? {
        if let Some(interval) = Interval::read(line.at, &line.text).filter(|_| line.is_output)
            && interval.images >= images
        {
            return Ok(line.at);
        }
    }
    Err(client.failed("ended before all images were there"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_client_that_streams_has_a_priority() {
        let text = "[a]\ntitle = 'A'\nkind = 'images'\nrates = '1k'\npriority = 'source:8 server:9 client:10'";
        let scenario = crate::scenario::read(text).unwrap().remove(0);
        let opening = without_client_priority(&scenario);
        assert_eq!(["source", "server", "client"].map(|p| opening.priority_of(p)), [Some(8), Some(9), None]);
        assert_eq!(scenario.priority_of("client"), Some(10));
    }

    #[test]
    fn the_worst_is_compared_with_the_worst_of_as_long_windows() {
        let before = [10.0, 10.0, 50.0, 10.0, 10.0, 10.0, 10.0, 10.0];
        let metrics = compare(0.4, &before, &[30.0, 15.0]).unwrap();
        assert_eq!(metrics.get("p99_before_us"), Some(10.0));
        assert_eq!((metrics.get("p99_during_us"), metrics.get("p99_ratio")), (Some(30.0), Some(3.0)));
        assert_eq!(metrics.get("p99_median_during_us"), Some(22.5));
        assert!(compare(0.4, &[], &[1.0]).is_none() && compare(0.4, &[1.0], &[]).is_none());
    }
}
