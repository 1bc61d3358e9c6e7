//! What a scenario has in common with the test of the report that it repeats, and what not: made from the scenario's own
//! parameters and from where it runs, so that a change on the command line shows.

mod lbm;
mod reports;

use super::results::{Deviation, Same};
use super::run::Where;
use super::scenario::{Kind, Scenario};
use measure::observer::steady;
use reports::{Priority, Sampling, Setup, TIMED};

const NOT_SAID: &str = "not said";
/// The processes that may have a real-time priority; the client is the last.
const PROCESSES: [&str; 5] = ["source", "distributor", "rrcpd", "server", "client"];

/// The table of a scenario that runs there; empty for what repeats no report.
pub fn of(scenario: &Scenario, place: Where<'_>) -> Vec<Deviation> {
    if scenario.kind == Kind::Lbm {
        return lbm::of(scenario, place);
    }
    let Some(there) = reports::of(scenario) else { return Vec::new() };
    // A scenario without nodes runs on loopback wherever the others are.
    let place = if scenario.nodes > 1 { place } else { Where::Loopback };
    let mut all = vec![topology(scenario, &there, place), processes(scenario, &there)];
    all.extend(machine(scenario, &there, place));
    all.extend(network(scenario, &there, place));
    all.extend(load(scenario, &there));
    all.extend(time(scenario, &there));
    all
}

fn row(aspect: &'static str, original: impl Into<String>, ours: impl Into<String>, same: Same) -> Deviation {
    Deviation { aspect, original: original.into(), ours: ours.into(), same }
}

fn topology(scenario: &Scenario, there: &Setup, place: Where<'_>) -> Deviation {
    let (ours, same) = match place {
        Where::Loopback => ("everything on loopback of one machine".to_owned(), false),
        Where::Hosts(hosts) => {
            let others = hosts.count() as u32;
            let ours = format!("source and client on this machine, the system on {}", hosts.about());
            (ours, there.others == Some(others) && scenario.nodes == 1 + others)
        }
        Where::Namespaces => {
            let nodes = scenario.nodes;
            let system = if nodes == 2 { "the system on another" } else { "Source Distributor and P2PS on one each" };
            let ours = format!(
                "{nodes} network namespaces of one machine, joined by veth pairs: source and client on one, {system}; they share its processors"
            );
            (ours, false)
        }
    };
    row("topology", there.topology, ours, Same::of(same))
}

fn processes(scenario: &Scenario, there: &Setup) -> Deviation {
    let daemons = u32::from(scenario.rrcpd) + u32::from(scenario.source_rrcpd);
    let clients = scenario.p2ps * scenario.sources();
    let ours = if scenario.is_split() {
        let (sources, paths, p2ps) = (scenario.sources(), scenario.paths, scenario.p2ps);
        let paths = if paths > 1 { format!(", on {paths} paths") } else { String::new() };
        format!(
            "{sources} source(s), each with a Source Distributor{paths}; a path has {daemons} rrcpd and {p2ps} P2PS; {clients} client(s)"
        )
    } else {
        format!("{} source(s), Source Distributor and P2PS in one process, {clients} client(s)", scenario.sources())
    };
    let is_chain = scenario.is_split() && daemons == 2 && scenario.paths == 1;
    let counts = there.p2ps.zip(there.distributors);
    let same =
        counts.map(|(p2ps, distributors)| is_chain && scenario.p2ps == p2ps && scenario.distributors == distributors);
    row("processes", there.processes, ours, Same::maybe(same))
}

/// Processors, who runs where on them, and how.
fn machine(scenario: &Scenario, there: &Setup, place: Where<'_>) -> [Deviation; 3] {
    let here = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (processors, interrupts) = match place {
        Where::Hosts(hosts) => {
            (format!("{here} here; {}", hosts.about()), "interrupts are where the machines have them")
        }
        Where::Namespaces => (
            format!("{here}, of all nodes"),
            "a veth pair has no interrupts: the sender's processor does the receiver's part",
        ),
        Where::Loopback => (format!("{here}, of everything"), "loopback has no interrupts"),
    };
    let bound = if scenario.bind.is_empty() { "none" } else { &scenario.bind };
    let ours = if scenario.priority.is_empty() { "none".to_owned() } else { format!("chrt -f {}", scenario.priority) };
    let (original, same) = match there.priority {
        Priority::NotSaid => (NOT_SAID.to_owned(), Same::NotSaid),
        Priority::Ordinary => ("none".to_owned(), Same::of(scenario.priority.is_empty())),
        Priority::Realtime { client, others, about } => {
            let is_as_there = |process: &&str| {
                scenario.priority_of(process) == Some(if *process == "client" { client } else { others })
            };
            let clients = if client == others { String::new() } else { format!(", clients {client}") };
            (format!("chrt -f {others}{clients}{about}"), Same::of(PROCESSES.iter().all(is_as_there)))
        }
    };
    [
        row("processors", there.processors, processors, Same::No),
        row("binding", there.binding, format!("{bound}; {interrupts}"), Same::No),
        row("priorities", original, ours, same),
    ]
}

fn network(scenario: &Scenario, there: &Setup, place: Where<'_>) -> Vec<Deviation> {
    let (mtu, ours) = match place {
        Where::Hosts(_) => (None, "as the network has it".to_owned()),
        Where::Namespaces => (Some(scenario.mtu), scenario.mtu.to_string()),
        Where::Loopback => (None, "65536 (loopback)".to_owned()),
    };
    let original = there.mtu.map_or(NOT_SAID.to_owned(), |mtu| mtu.to_string());
    let same = there.mtu.map(|there| mtu == Some(there));
    let mut all = vec![row("MTU", original, ours, Same::maybe(same))];
    let tso = match (place, scenario.tso.as_str()) {
        (Where::Hosts(_), _) => "as the cards have them",
        (Where::Loopback, _) => "as the kernel has them: loopback segments nothing",
        (Where::Namespaces, "") => "as the kernel has them: on; veth segments nothing",
        (Where::Namespaces, "on") => "TSO on; veth segments nothing",
        (Where::Namespaces, _) => "TSO off",
    };
    all.push(row("offloads", there.offload.unwrap_or(NOT_SAID), tso, Same::maybe(there.offload.map(|_| false))));
    all.extend(there.stack.map(|stack| row("network stack", stack, "the kernel's", Same::No)));
    let ours = format!("socket buffers {} bytes for data, as the machine is tuned else", scenario.socket_buffer);
    all.push(row("buffers", there.buffers.unwrap_or(NOT_SAID), ours, Same::maybe(there.buffers.map(|_| false))));
    all
}

/// What is sent, to whom, and how it is put out.
fn load(scenario: &Scenario, there: &Setup) -> [Deviation; 4] {
    let is_timed = scenario.server_toml.contains("timed_writes = true");
    let output = if is_timed { TIMED } else { "by message: no timer, `tcpNoDelay`" };
    let is_74 = scenario.size == 74 || scenario.data_size == 74;
    let size = if there.is_data {
        "74 bytes of data, header not counted"
    } else {
        "74 bytes RWF; whether with the header is not said"
    };
    // Where it is not said, what is longer than 74 bytes with its header is not the easier reading.
    let update = match (is_74, scenario.data_size == 74) {
        (true, true) if !there.is_data => Same::NotSaid,
        (true, is_data) => Same::of(is_data == there.is_data && there.is_data),
        (false, _) => Same::No,
    };
    let items = format!("{} items, {} mount(s)", scenario.items, scenario.mounts);
    let watchlist = match there.watchlist {
        NOT_SAID => Same::NotSaid,
        _ if scenario.mounts > 1 => {
            if scenario.mounts == 100 {
                Same::NotSaid
            } else {
                Same::No
            }
        }
        _ => Same::of(scenario.items == 100_000),
    };
    let pace =
        there.bursts.map_or("bursts; how many a second is not said".to_owned(), |n| format!("{n} bursts a second"));
    let ours = match scenario.bursts {
        0 => "evenly".to_owned(),
        bursts => format!("{bursts} bursts a second, and evenly paced beside it"),
    };
    let is_paced = match there.bursts {
        Some(bursts) => Same::of(scenario.bursts == bursts),
        None if scenario.bursts == 0 => Same::No,
        None => Same::NotSaid,
    };
    [
        row("output", there.profile, output, Same::maybe(there.is_timed.map(|there| there == is_timed))),
        row("update", size, scenario.update_size(), update),
        row("watchlist", there.watchlist, items, watchlist),
        row("pace", pace, ours, is_paced),
    ]
}

/// What is timed, how long, and by which clock.
fn time(scenario: &Scenario, there: &Setup) -> Vec<Deviation> {
    let rates: Vec<&str> = scenario.rates.split_whitespace().collect();
    let ours = match (scenario.observe, scenario.sampled.as_str()) {
        (false, _) if scenario.is_sampled() => "ten stamps a second, on one item".to_owned(),
        (false, _) => "one of so many updates carries a stamp".to_owned(),
        (true, rate) if rates.contains(&rate) => {
            format!("every message, by the observer; at {rate} a run beside with ten stamps a second, on one item")
        }
        (true, _) => "every message, by the observer".to_owned(),
    };
    let (original, is_same, clock, is_clock) = match there.sampling {
        Sampling::None => ("none: throughput", !scenario.observe, "no latencies", Same::NotSaid),
        Sampling::Stamps(text) => (text, false, "one machine's, source and client on it", Same::Yes),
    };
    let mut all = vec![row("sampling", original, ours, Same::of(is_same))];
    let (text, seconds) = there.seconds.unwrap_or((NOT_SAID, 0.0));
    let same = there.seconds.map(|_| scenario.seconds >= seconds);
    all.push(row("duration of a run", text, length(scenario, seconds), Same::maybe(same)));
    if let Some(discarded) = there.discarded {
        let rule = if scenario.observe {
            let steady::Rule { windows, .. } = steady::RULE;
            format!(", and what is before the steady state (in {windows} windows of the run)")
        } else {
            String::new()
        };
        let same = Same::of(scenario.warmup >= DISCARDED_MIN_S);
        all.push(row("discarded", discarded, format!("{} s at the rate{rule}", scenario.warmup), same));
    }
    all.push(row("clock", clock, "one machine's, CLOCK_MONOTONIC", is_clock));
    all
}

/// The least that the report of Red Hat discards, in seconds.
const DISCARDED_MIN_S: f64 = 35.0;

/// How long a run of this call is, and how it would be as long as the report's.
fn length(scenario: &Scenario, seconds: f64) -> String {
    let full = if seconds > scenario.seconds { format!(" (--full: {seconds:.0})") } else { String::new() };
    format!("{} s{full}", scenario.seconds)
}

#[cfg(test)]
mod tests;
