//! The same chain over each transport of the hub, at each loss, beside the bare relay of the same shape whose middle link is what the transport is
//! made of.

use measure::process::Fault;

use super::chain::words;
use super::flow;
use super::product;
use super::results::{Metrics, Outcome, Side};
use super::run::ours;
use super::scenario::transports::{Cell, Transport, cells};
use super::scenario::{Point, Scenario};
use super::session::{Run, Session};

/// How long the product may take to say whether it has Aeron.
const PATIENCE: f64 = 20.0;

/// Seconds that a scenario is expected to take.
pub fn estimate(scenario: &Scenario, pairs: u32) -> f64 {
    let rows = cells(scenario).map_or(0, |cells| cells.len()) * scenario.points().map_or(0, |points| points.len());
    rows as f64 * f64::from(pairs) * row_seconds(scenario)
}

fn row_seconds(scenario: &Scenario) -> f64 {
    flow::ours_seconds(scenario) + flow::floor_seconds(scenario)
}

/// Runs the scenario.
///
/// # Errors
/// The lab was stopped.
pub fn run(session: &mut Session, scenario: &Scenario, outcome: &mut Outcome) -> Result<(), Fault> {
    let mut cells = cells(scenario)?;
    let points = scenario.points()?;
    let mut leave_out = |session: &mut Session, outcome: &mut Outcome, is_out: &dyn Fn(&Cell) -> bool, why: &str| {
        let (out, left): (Vec<Cell>, Vec<Cell>) = cells.iter().partition(|cell| is_out(cell));
        if !out.is_empty() {
            let names: Vec<String> = out.iter().map(|cell| cell.label(Point::Search)).collect();
            session.note(outcome, format!("left out: {}: {why}", names.join(", ")));
            session.advance(out.len() as f64 * points.len() as f64 * row_seconds(scenario));
        }
        cells = left;
    };
    if session.places.loopback {
        leave_out(session, outcome, &|cell| cell.loss > 0, "without nodes nothing can be lost");
    }
    if cells_need_aeron(&scenario.transports)
        && let Err(why) = has_aeron()
    {
        let why = format!("the product that is measured has no Aeron, or none that starts ({why})");
        leave_out(session, outcome, &|cell| cell.transport.is_aeron(), &why);
    }
    for point in points {
        let rate = match point {
            Point::Rate(rate) => Some(rate),
            Point::Max | Point::Search => None,
        };
        for cell in &cells {
            row(session, scenario, outcome, (*cell, point, rate))?;
        }
    }
    Ok(())
}

fn cells_need_aeron(transports: &str) -> bool {
    transports.split_whitespace().any(|word| word.parse().is_ok_and(Transport::is_aeron))
}

/// The runs of both sides. As many as go are no rate for bare datagrams, of which the most would be lost: there the bare relay is TCP.
fn row(
    session: &mut Session,
    scenario: &Scenario,
    outcome: &mut Outcome,
    (cell, point, rate): (Cell, Point, Option<f64>),
) -> Result<(), Fault> {
    let places = session.places.clone();
    let of_cell = cell.of(scenario);
    let ask = flow::ask(&places, &of_cell, rate);
    let middle = if rate.is_some() { cell.transport.middle().1 } else { "tcp" };
    let bare = Scenario { nodes: 1, ..of_cell.clone() };
    let sides: Vec<(Side, f64, Run<'_>)> = vec![
        (Side::Ours, flow::ours_seconds(scenario), Box::new(|| Ok(shown(ours(&of_cell, ask)?, rate)))),
        (Side::Floor, flow::floor_seconds(scenario), Box::new(|| Ok(shown(flow::floor(&bare, rate, middle)?, rate)))),
    ];
    session.row(outcome, &cell.label(point), sides)
}

/// The figures that tell transports apart. What waits in full queues is no latency of theirs.
fn shown(mut metrics: Metrics, rate: Option<f64>) -> Metrics {
    let has_latency = rate.is_some();
    metrics.figures.retain(|(name, _)| match name.as_str() {
        "rate" | "server_cpu_ns" | "hub_naks" | "hub_retransmissions" => true,
        "p50_us" | "p90_us" | "p99_us" | "held" => has_latency,
        _ => false,
    });
    metrics
}

/// Whether the product was built with Aeron: it starts a hub of its own over it, or says why it does not.
fn has_aeron() -> Result<(), Fault> {
    let folder = tempfile::tempdir().map_err(|e| format!("no folder for a configuration: {e}"))?;
    let file = folder.path().join("aeron.toml");
    let dir = format!("/dev/shm/quoteway-aeron-lab-{}", std::process::id());
    let text = format!(
        "[hub]\ntransport = \"aeron\"\ninterface = \"127.0.0.1\"\n[aeron]\nmedium = \"ipc\"\ndir = \"{dir}\"\nterm_bytes = 4194304\n"
    );
    std::fs::write(&file, text).map_err(|e| format!("configuration {}: {e}", file.display()))?;
    let flags =
        format!("source-distributor --config {} --interface 127.0.0.1 --nip-port 0 --hub-port 0", file.display());
    let mut process = product::start("a Source Distributor over Aeron", &[], &words(&flags))?;
    let said = process.wait_for("ready ", PATIENCE);
    drop(process);
    // The process had no time to do so itself.
    let _ = std::fs::remove_dir_all(dir);
    said.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(text: &str) -> Scenario {
        let text = format!("[own]\ntitle = 'Own'\nkind = 'transports'\nrates = '100k max'\n{text}");
        super::super::scenario::read(&text).expect("a scenario").remove(0)
    }

    #[test]
    fn datagrams_alone_are_lost() {
        let scenario = scenario("transports = 'tcp lbt-rm aeron-ipc'\nlosses = '0 1 5'");
        let cells = cells(&scenario).expect("cells");
        let labels: Vec<String> = cells.iter().map(|cell| cell.label(Point::Rate(1e5))).collect();
        assert_eq!(labels, ["tcp", "lbt-rm", "lbt-rm-1%", "lbt-rm-5%", "aeron-ipc"]);
        assert_eq!(cells[2].label(Point::Max), "lbt-rm-1%-max");
        let [apart, together] = [2, 4].map(|at| cells[at].of(&scenario));
        assert_eq!((apart.hub.as_str(), apart.nodes, apart.loss), ("lbt-rm", 3, 1));
        assert_eq!((together.hub.as_str(), together.nodes, together.loss), ("aeron-ipc", 2, 0));
        assert!(estimate(&scenario, 2) > estimate(&scenario, 1));
    }

    #[test]
    fn what_is_no_transport_or_no_loss_is_named() {
        let text = "[own]\ntitle = 'Own'\nkind = 'transports'\nrates = '1k'\n";
        for (wrong, named) in [
            ("transports = 'rmp'", "rmp"),
            ("transports = 'tcp'\nlosses = '101'", "101"),
            ("losses = '0'", "transports"),
        ] {
            let said = super::super::scenario::read(&format!("{text}{wrong}\n")).unwrap_err().to_string();
            assert!(said.contains(named), "{said}");
        }
    }
}
