//! A client joins late: another one has all items open, and it opens them, too. How long its images take where the provider sends each once
//! more, and where they come out of the cache of the P2PS or of the Source Distributor; and what is left when the client is connected to the source itself, with
//! nothing between: what the client takes to ask and to read.

use super::chain::{Chain, Spacing};
use super::images::wait_for_images;
use super::nodes::Nodes;
use super::results::{Metrics, Outcome, Side};
use super::scenario::{Point, Scenario};
use super::session::{Run, Session};
use measure::process::{Fault, pause};

const PATIENCE: f64 = 60.0;
/// What is measured, and what makes the servers keep images.
const PLACES: [(&str, &str); 3] = [
    ("provider", ""),
    ("p2ps", "[p2ps]\nenable_cache = true\n"),
    ("distributor", "[source_distributor]\ncache_location = \"ssl\"\n"),
];

/// Seconds that the scenario is expected to take.
pub fn estimate(scenario: &Scenario, pairs: u32) -> f64 {
    (PLACES.len() as f64 + 1.0) * (scenario.warmup + 3.0) * f64::from(pairs)
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

/// How a late client got its images.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Join {
    /// Seconds from its first request to its last image.
    seconds: f64,
    /// Processor seconds of all servers meanwhile, until it has gone.
    server: f64,
}

fn once(scenario: &Scenario, rate: f64) -> Result<Metrics, Fault> {
    let direct = joins(&Scenario { server: false, split: false, ..scenario.clone() }, rate, "")?;
    let mut all = Vec::new();
    for (place, more) in PLACES {
        all.push((place, joins(scenario, rate, more)?));
    }
    Ok(compare(&all, direct.seconds, f64::from(scenario.items)))
}

fn joins(scenario: &Scenario, rate: f64, more: &str) -> Result<Join, Fault> {
    let scenario = Scenario { server_toml: scenario.server_toml.clone() + more, ..scenario.clone() };
    let mut chain = Chain::start(&scenario, Nodes::loopback(), Spacing::Even, None)?;
    let items = format!("RDT{{0..{}}}", scenario.items - 1);
    let mut first = chain.client(&scenario, &items, "-I 0.1 --seconds 3600 -l 1")?;
    wait_for_images(&mut first, scenario.items.into())?;
    chain.publish(Some(rate))?;
    pause(scenario.warmup)?;
    let before = chain.cpu()[1];
    let mut late = chain.client(&scenario, &items, "-I 0.1 --seconds 0.1 -l 1")?;
    let report = late.json(PATIENCE)?;
    let used = chain.cpu()[1].zip(before).map_or(0, |(now, before)| now.saturating_sub(before));
    let seconds = report["images_s"].as_f64().ok_or_else(|| late.failed("has not all images"))?;
    Ok(Join { seconds, server: used as f64 / 1e9 })
}

/// Times, and those of the caches beside that of the first: the provider's.
fn compare(all: &[(&str, Join)], direct: f64, items: f64) -> Metrics {
    let mut metrics = Metrics::default();
    for (place, join) in all {
        metrics.push(&format!("{place}_s"), join.seconds);
    }
    metrics.push("direct_s", direct);
    let ratio = |of: f64, to: Option<f64>| of / to.unwrap_or(0.0).max(1e-9);
    let provider = all.first().map(|(_, join)| *join);
    for (place, join) in all.iter().skip(1) {
        metrics.push(&format!("{place}_ratio"), ratio(join.seconds, provider.map(|join| join.seconds)));
    }
    for (place, join) in all {
        metrics.push(&format!("{place}_server_cpu_ns"), join.server * 1e9 / items);
    }
    for (place, join) in all.iter().skip(1) {
        metrics.push(&format!("{place}_server_ratio"), ratio(join.server, provider.map(|join| join.server)));
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_caches_take_is_compared_with_what_the_provider_takes() {
        let join = |seconds: f64| Join { seconds, server: seconds / 2.0 };
        let metrics = compare(&[("provider", join(0.8)), ("p2ps", join(0.2))], 0.1, 1e6);
        assert_eq!((metrics.get("provider_s"), metrics.get("p2ps_s")), (Some(0.8), Some(0.2)));
        assert_eq!((metrics.get("p2ps_ratio"), metrics.get("p2ps_server_ratio")), (Some(0.25), Some(0.25)));
        assert_eq!((metrics.get("direct_s"), metrics.get("provider_server_cpu_ns")), (Some(0.1), Some(400.0)));
    }
}
