//! What a scenario has in common with the test of the report that it repeats, and what not: made from the scenario's own
//! parameters, so that a change on the command line shows.

use std::fmt::Write as _;

use super::hosts::Hosts;
use super::html::prose;
use super::scenario::{Kind, Scenario};

/// An aspect of a test: there, here, and whether that is the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// Topology, processes, binding, ...
    pub aspect: &'static str,
    /// In the report.
    pub original: String,
    /// In this call.
    pub ours: String,
    /// Nothing is easier or harder here by this.
    pub is_same: bool,
}

/// What a report says of its tests.
struct Setup {
    report: &'static str,
    /// Machines of the system and its load, and what joined them.
    topology: &'static str,
    /// Nodes that ours needs for the same.
    nodes: u32,
    processes: &'static str,
    p2ps: u32,
    has_daemons: bool,
    binding: &'static str,
    priority: &'static str,
    mtu: u32,
    offload: &'static str,
    buffers: &'static str,
    profile: &'static str,
    is_timed: bool,
    size: &'static str,
    is_data: bool,
    sampling: &'static str,
    seconds: f64,
}

const LATENCY: &str = "by message: no timer, `tcpNoDelay`";
const TIMED: &str = "by timer: `timedWrites`, `flushInterval` 20, `tcpNoDelay` off";
const TEN: &str = "some updates carry a stamp (-UL 10: ten a second)";

/// The test of the report that a scenario repeats.
fn setup(scenario: &Scenario) -> Option<Setup> {
    let redhat = Setup {
        report: "Red Hat, 2008",
        topology: "load on one machine, the system on one or two more, CAT6 crossover cables, 1 GigE",
        nodes: if scenario.name.contains("2node") { 2 } else { 3 },
        processes: "source, Source Distributor, rrcpd, rrcpd, P2PS, client",
        p2ps: 1,
        has_daemons: true,
        binding: if scenario.name.ends_with("bound") {
            "interrupts and RRCPD on core 0, Source Distributor and P2PS on core 1; irqbalance off"
        } else {
            "none; irqbalance on"
        },
        priority: "none",
        mtu: 1_500,
        offload: "TSO off in RHEL 4.4, on in RHEL 5.1",
        buffers: "rmem and wmem 8,388,608; tcpSendBufSize 64,240",
        profile: LATENCY,
        is_timed: false,
        size: "74 bytes RWF",
        is_data: false,
        sampling: TEN,
        seconds: 600.0,
    };
    let is_throughput = scenario.stamp_every > 1;
    Some(match scenario.group.as_str() {
        "redhat-2008" if scenario.name == "redhat-highest" => Setup {
            report: "Red Hat, 2008, appendix II (of a report of STAC, 2007)",
            topology: "one machine with 16 cores for the stacked component, 4 x 1 GigE",
            processes: "stacked Source Distributors or stacked P2PSs; how many is not said",
            p2ps: 2,
            binding: "not said",
            profile: "tuned for throughput",
            is_timed: true,
            sampling: "none",
            seconds: 0.0,
            ..redhat
        },
        "redhat-2008" => Setup { p2ps: scenario.p2ps, ..redhat },
        "novell-2009" => Setup {
            report: "STAC for Novell, 2009",
            topology: "three blades (throughput: four), InfiniBand or 1 GigE through a switch",
            nodes: 3,
            p2ps: if is_throughput { 4 } else { 1 },
            processes: if is_throughput {
                "source, Source Distributor, rrcpd, rrcpd, four P2PSs, four clients on two blades"
            } else {
                redhat.processes
            },
            binding: "each process to cores of its own out of eight; interrupts to core 7 and the cards' to 0 and 1",
            priority: if is_throughput { "chrt -f 55, clients 49" } else { "chrt -f 55" },
            offload: "not said",
            buffers: "rmem and wmem default 8,388,608, max 16,777,216; tcpSendBufSize 64,240 (throughput: default)",
            profile: if is_throughput { TIMED } else { LATENCY },
            is_timed: is_throughput,
            sampling: if is_throughput { "none" } else { "3,000 samples a rate" },
            seconds: 300.0,
            ..redhat
        },
        "ibm-2010" => Setup {
            report: "IBM, 2010",
            topology: "three blades, 10 GigE through a switch; latency: source and client on one of them",
            nodes: 3,
            processes: "source, ADH, rrcpd, rrcpd, ADS, client",
            binding: "interrupts to core 1, rrcpd to 2 and 3, ADH and ADS to 4 and 5, source to 4 or 6, client to 5",
            offload: "not said",
            buffers: "rmem default 8,388,608, wmem default 1,677,216",
            is_data: true,
            size: "74 bytes of data, header not counted",
            sampling: if is_throughput { "none" } else { "about 3,070 samples a rate" },
            profile: if is_throughput { "tuned for throughput; timers not said" } else { LATENCY },
            is_timed: is_throughput,
            seconds: 300.0,
            ..redhat
        },
        "intel-2008" => Setup {
            report: "STAC for Intel, 2008",
            topology: "publisher, Source Distributor, P2PSs and two machines of clients; 1 GigE for the hub, 10 GigE for clients",
            nodes: 3,
            processes: "source, Source Distributor, rrcpd, rrcpd, ten P2PSs, clients",
            p2ps: 10,
            binding: "each process and each card's interrupts to cores of their own out of 24",
            mtu: scenario.mtu,
            offload: "receive side scaling, large receive offload",
            buffers: "rmem and wmem default 8,388,608, max 16,777,216; tcpSendBufSize 64,240",
            profile: TIMED,
            is_timed: true,
            sampling: "none",
            seconds: 300.0,
            ..redhat
        },
        _ => return None,
    })
}

/// The table of a scenario; empty for what repeats no report.
pub fn of(scenario: &Scenario, hosts: Option<&Hosts>) -> Vec<Deviation> {
    if scenario.kind == Kind::Lbm {
        return lbm(scenario);
    }
    let Some(there) = setup(scenario) else { return Vec::new() };
    let mut all = Vec::new();
    let mut add = |aspect, original: &str, ours: String, is_same| {
        all.push(Deviation { aspect, original: original.to_owned(), ours, is_same });
    };
    let apart = match scenario.nodes {
        2.. if let Some(hosts) = hosts => format!("source and client on this machine, the system on {}", hosts.about()),
        1 => "everything on loopback of one machine".to_owned(),
        nodes => format!("{nodes} network namespaces of one machine, joined by veth pairs; they share its processors"),
    };
    let machines = hosts.map_or(1, |hosts| 1 + hosts.count() as u32);
    add("topology", there.topology, apart, machines > 1 && machines == there.nodes);
    let daemons = u32::from(scenario.rrcpd) + u32::from(scenario.source_rrcpd);
    let ours = format!(
        "{} source(s) with a Source Distributor each, {daemons} rrcpd a path, {} P2PS a path, {} client process(es) on {} node(s)",
        scenario.sources(),
        scenario.p2ps,
        scenario.p2ps * scenario.sources(),
        scenario.nodes
    );
    let is_same = scenario.is_split()
        && scenario.p2ps == there.p2ps
        && scenario.nodes == there.nodes
        && (daemons == 2) == there.has_daemons
        && scenario.sources() == 1;
    add("processes", there.processes, ours, is_same);
    let bound = if scenario.bind.is_empty() { "none".to_owned() } else { scenario.bind.clone() };
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let bound = match hosts {
        Some(_) => format!("{bound}, on {processors} processor(s) here; interrupts are where the machines have them"),
        None => format!(
            "{bound}, on {processors} processor(s) that all nodes share; a veth pair has no interrupts: the sender's processor does \
             the receiver's part"
        ),
    };
    add("binding", there.binding, bound, false);
    let ours = if scenario.priority.is_empty() { "none".to_owned() } else { format!("chrt -f {}", scenario.priority) };
    add("priorities", there.priority, ours, scenario.priority.is_empty() == (there.priority == "none"));
    let has_nodes = scenario.nodes > 1;
    let mtu = match hosts {
        Some(_) => "as the network has it".to_owned(),
        None if has_nodes => scenario.mtu.to_string(),
        None => "65536 (loopback)".to_owned(),
    };
    add("MTU", &there.mtu.to_string(), mtu, hosts.is_none() && has_nodes && scenario.mtu == there.mtu);
    let tso = match scenario.tso.as_str() {
        _ if hosts.is_some() => "as the cards have them",
        "" => "as the kernel has them: on; veth segments nothing",
        "on" => "TSO on",
        _ => "TSO off",
    };
    add("offloads", there.offload, tso.to_owned(), false);
    let buffers = format!("socket buffers {} bytes for data, as the machine is tuned else", scenario.socket_buffer);
    add("buffers", there.buffers, buffers, false);
    let is_timed = scenario.server_toml.contains("timed_writes = true");
    add("output", there.profile, if is_timed { TIMED } else { LATENCY }.to_owned(), is_timed == there.is_timed);
    add("update", there.size, scenario.update_size(), (scenario.data_size == 74) == there.is_data && is_74(scenario));
    let items = format!("{} items, {} mount(s)", scenario.items, scenario.mounts);
    let (watchlist, is_same) = if scenario.mounts > 1 {
        ("100 mounts, half of the updates to all (inferred); items not said", scenario.mounts == 100)
    } else {
        ("100000 items, 1 mount", scenario.items == 100_000)
    };
    add("watchlist", watchlist, items, is_same);
    let pace = match there.report {
        "Red Hat, 2008" => ("500 bursts a second", 500),
        "IBM, 2010" => ("1000 bursts a second", 1_000),
        _ => ("bursts; how many a second is not said", 0),
    };
    let ours = format!("{} bursts a second, and evenly paced beside it", scenario.bursts);
    add("pace", pace.0, ours, scenario.bursts > 0 && (pace.1 == 0 || scenario.bursts == pace.1));
    let sampling = match (scenario.observe, scenario.sampled.as_str()) {
        (false, _) => "one of so many updates carries a stamp".to_owned(),
        (true, "") => "every message, by the observer".to_owned(),
        (true, rate) => {
            format!("every message, by the observer; at {rate} a run beside with ten stamps a second, on one item")
        }
    };
    add("sampling", there.sampling, sampling, !scenario.observe && there.sampling == "none");
    let seconds = if there.seconds > 0.0 { format!("{:.0} s", there.seconds) } else { "not said".to_owned() };
    let is_as_long = there.seconds > 0.0 && scenario.seconds >= there.seconds;
    add("duration of a run", &seconds, format!("{} s (--full: as there)", scenario.seconds), is_as_long);
    add("clock", "one machine's, source and client on it", "one machine's, CLOCK_MONOTONIC".to_owned(), true);
    all
}

fn is_74(scenario: &Scenario) -> bool {
    scenario.size == 74 || scenario.data_size == 74
}

/// The report on LBM 3.3.9.
fn lbm(scenario: &Scenario) -> Vec<Deviation> {
    let Some(grid) = scenario.lbm.as_ref().filter(|_| scenario.group == "cisco-2009") else { return Vec::new() };
    let is_three = grid.paths == 3;
    let is_latency = scenario.name.contains("latency") || scenario.name.contains("highest");
    let mut all = Vec::new();
    let mut add = |aspect, original: &str, ours: String, is_same| {
        all.push(Deviation { aspect, original: original.to_owned(), ours, is_same });
    };
    let networks = format!("{} of one machine; all processes share its processors", grid.networks);
    add(
        "topology",
        "a machine for the publishers and one for each subscriber, 10 GigE through a switch",
        networks,
        false,
    );
    let ours = format!("{0} publisher(s), {0} subscriber(s), a process each", grid.paths);
    add("processes", if is_three { "3 publishers, 3 subscribers" } else { "1 publisher, 1 subscriber" }, ours, true);
    let binding = "publishers to cores 0 to 2, subscribers to 1, observer to 6, cards to 0, other interrupts to 7";
    add("binding", binding, "none".to_owned(), false);
    add("priorities", "real-time kernel; cores shielded", "none".to_owned(), false);
    let mtu = if is_latency { "1500" } else { "9000" };
    let is_same = grid.networks == "veth" && grid.mtu.to_string() == mtu;
    let ours = match grid.networks.as_str() {
        "veth" => format!("{}; datagrams of at most {} bytes", grid.mtu, grid.datagrams),
        "loopback" => format!("65536 (loopback); datagrams of at most {} bytes", grid.datagrams),
        _ => format!("65536 (loopback), {} (veth); datagrams of at most {} bytes", grid.mtu, grid.datagrams),
    };
    add("MTU", mtu, ours, is_same);
    add("stack", "kernel bypass (OpenOnload); 3:3 also the kernel's", "the kernel's".to_owned(), false);
    add("offloads", "none said", format!("UDP GSO and GRO {}", grid.offload), grid.offload == "off");
    add("receive buffer", "8388608 bytes", "8388608 bytes".to_owned(), true);
    let batching =
        if is_latency { "implicit_batching_minimum_length 1" } else { "implicit_batching_minimum_length 8192" };
    let is_plain = grid.profile == super::lbm::Profile::Latency;
    let ours = if is_plain { "implicit_batching_minimum_length 1" } else { "messages that are due share datagrams" };
    add("batching", batching, ours.to_owned(), is_latency == is_plain);
    let is_15 = grid.options.contains("transport_lbtrm_ignore_interval 15");
    let ours = if is_15 { "15 ms" } else { "default" };
    add("ignore interval", if is_latency { "15 ms" } else { "default" }, ours.to_owned(), is_latency == is_15);
    add("message", "64 to 1024 bytes, on one topic", format!("{} bytes, on one topic", grid.payloads), true);
    add("sampling", "every message", "every message".to_owned(), true);
    let ours = format!("{} s (--full: as there)", scenario.seconds);
    add("duration of a run", "30 s, two runs", ours, scenario.seconds >= 30.0);
    add("clock", "synchronised cards, 2 us", "one machine's, CLOCK_MONOTONIC".to_owned(), false);
    all
}

/// As HTML; nothing for what repeats no report.
pub fn html(all: &[Deviation]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<details class=\"deviations\"><summary>Where this differs from the report</summary><div class=\"scroll\"><table><tr><th></th><th class=\"text\">report</th><th class=\"text\">here</th><th>same</th></tr>\n",
    );
    for Deviation { aspect, original, ours, is_same } in all {
        let _ = writeln!(
            out,
            "<tr><td>{aspect}</td><td class=\"text\">{}</td><td class=\"text\">{}</td><td>{}</td></tr>",
            prose(original),
            prose(ours),
            if *is_same { "yes" } else { "no" }
        );
    }
    out + "</table></div></details>\n"
}

/// As Markdown.
pub fn markdown(all: &[Deviation]) -> String {
    let mut out = String::new();
    if !all.is_empty() {
        out.push_str("\n| | report | here | same |\n|---|---|---|---|\n");
    }
    for Deviation { aspect, original, ours, is_same } in all {
        let _ = writeln!(out, "| {aspect} | {original} | {ours} | {} |", if *is_same { "yes" } else { "no" });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{BUILT_IN, read};

    #[test]
    fn every_scenario_of_a_report_says_where_it_differs() {
        let aspects = [
            "topology",
            "processes",
            "binding",
            "priorities",
            "MTU",
            "offloads",
            "sampling",
            "duration of a run",
            "clock",
        ];
        for scenario in read(BUILT_IN).unwrap() {
            let is_repetition =
                scenario.on_request && (!scenario.originals.is_empty() || scenario.group == "cisco-2009");
            let all = of(&scenario, None);
            assert_eq!(!all.is_empty(), is_repetition, "{}", scenario.name);
            for aspect in aspects.iter().filter(|_| is_repetition) {
                assert!(all.iter().any(|d| d.aspect == *aspect), "{}: {aspect}", scenario.name);
            }
            assert!(all.is_empty() || html(&all).contains("<td>no</td>") && markdown(&all).contains("| no |"));
        }
    }

    #[test]
    fn what_is_changed_in_a_call_shows() {
        let mut scenario = read(BUILT_IN).unwrap().into_iter().find(|s| s.name == "intel-5050-mtu9000").unwrap();
        let same =
            |scenario: &Scenario, aspect: &str| of(scenario, None).iter().any(|d| d.aspect == aspect && d.is_same);
        assert!(same(&scenario, "processes") && same(&scenario, "MTU") && same(&scenario, "output"));
        scenario.set(&["p2ps=2".to_owned(), "size=130".to_owned(), "server_toml=''".to_owned()]).unwrap();
        assert!(!same(&scenario, "processes") && !same(&scenario, "update") && !same(&scenario, "output"));
    }
}
