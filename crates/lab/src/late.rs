//! A client joins late: another one has all items open, and it opens them, too. How long its images take where the provider sends each once
//! more, and where they come out of the P2PS's cache.

use super::chain::{Chain, Spacing};
use super::images::wait_for_images;
use super::nodes::Nodes;
use super::rows::{Metrics, Outcome, Side};
use super::scenario::{Point, Scenario};
use super::session::{Run, Session};
use measure::process::{Fault, pause};

const PATIENCE: f64 = 60.0;
/// What makes the P2PS keep images.
const CACHE: &str = "[p2ps]\nenable_cache = true\n";

/// Seconds that the scenario is expected to take.
pub fn estimate(scenario: &Scenario, pairs: u32) -> f64 {
    2.0 * (scenario.warmup + 10.0) * f64::from(pairs)
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
    let (provider, cache) = (joins(scenario, rate, "")?, joins(scenario, rate, CACHE)?);
    Ok(compare(provider, cache))
}

/// Seconds from the first request of the late client to its last image.
fn joins(scenario: &Scenario, rate: f64, more: &str) -> Result<f64, Fault> {
    let scenario = Scenario { server_toml: scenario.server_toml.clone() + more, ..scenario.clone() };
    let mut chain = Chain::start(&scenario, Nodes::loopback(), Spacing::Even, None)?;
    let items = format!("RDT{{0..{}}}", scenario.items - 1);
    let mut first = chain.client(&scenario, &items, "-I 0.1 --seconds 3600 -l 1")?;
    wait_for_images(&mut first, scenario.items.into())?;
    chain.publish(Some(rate))?;
    pause(scenario.warmup)?;
    let mut late = chain.client(&scenario, &items, "-I 0.1 --seconds 0.5 -l 1")?;
    let report = late.json(PATIENCE)?;
    report["images_s"].as_f64().ok_or_else(|| late.failed("has not all images"))
}

fn compare(provider: f64, cache: f64) -> Metrics {
    let mut metrics = Metrics::default();
    metrics.push("provider_s", provider);
    metrics.push("cache_s", cache);
    metrics.push("cache_ratio", cache / provider.max(1e-9));
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cache_takes_is_compared_with_what_the_provider_takes() {
        let metrics = compare(0.8, 0.2);
        assert_eq!((metrics.get("provider_s"), metrics.get("cache_s")), (Some(0.8), Some(0.2)));
        assert_eq!(metrics.get("cache_ratio"), Some(0.25));
    }
}
