//! Deviations from the report on LBM 3.3.9.

use crate::results::{Deviation, Same};
use crate::run::Where;
use crate::scenario::Scenario;
use crate::scenario::grid::{Cell, Profile};

/// Payloads of the report, in bytes.
const PAYLOADS: [usize; 5] = [64, 128, 256, 512, 1_024];

/// The table; empty for what does not repeat the report.
pub(super) fn of(scenario: &Scenario, place: Where<'_>) -> Vec<Deviation> {
    let Some(grid) = scenario.lbm.as_ref().filter(|_| scenario.group == "cisco-2009") else { return Vec::new() };
    let cells = grid.cells().unwrap_or_default();
    let is_loopback = matches!(place, Where::Loopback);
    let runs_apart = |cell: &Cell| cell.veth && !is_loopback;
    let is_apart = !cells.is_empty() && cells.iter().all(runs_apart);
    let is_mixed = !is_apart && cells.iter().any(runs_apart);
    let is_latency = scenario.name.contains("latency")
        || scenario.name.contains("1to1-highest")
        || scenario.name.contains("3to3-highest");
    let is_three = scenario.name.contains("3to3");
    let mut all = Vec::new();
    let mut add = |aspect, original: &str, ours: String, same| {
        all.push(Deviation { aspect, original: original.to_owned(), ours, same });
    };

    let hosts = 1 + grid.paths * grid.receivers;
    let mut ours = match (is_apart, is_mixed) {
        (true, _) => format!("{hosts} network namespaces of one machine, joined by veth"),
        (_, true) => format!("{hosts} network namespaces of one machine, joined by veth; beside them loopback"),
        _ => "loopback of one machine".to_owned(),
    };
    ours += "; all processes share its processors";
    let topology = "the publishers on one machine, each subscriber on one of its own, 10 GigE through a switch";
    add("topology", topology, ours, Same::No);
    let ours = format!("{0} publisher(s), {0} subscriber(s), a process each", grid.paths);
    let original = if is_three {
        "3 publishers, 3 subscribers, a process each"
    } else {
        "1 publisher, 1 subscriber, a process each"
    };
    add("processes", original, ours, Same::of(grid.paths == if is_three { 3 } else { 1 } && grid.receivers == 1));
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    add("processors", "two quad-core Xeons of 2.66 GHz a machine", format!("{processors}, of all processes"), Same::No);
    let binding = "publishers to cores 0 to 2, subscribers to 1, observer to 6, interrupts to 7 and the cards' to cores of their own";
    add("binding", binding, "none".to_owned(), Same::No);
    add("priorities", "none said; real-time kernel, cores 0 to 6 shielded, no SMIs", "none".to_owned(), Same::No);
    let mtu = if is_latency { 1_500 } else { 9_000 };
    let ours = match (is_apart, is_mixed) {
        (true, _) => grid.mtu.to_string(),
        (_, true) => format!("{} (veth), 65536 (loopback)", grid.mtu),
        _ => "65536 (loopback)".to_owned(),
    };
    add("MTU", &mtu.to_string(), ours, Same::of(is_apart && grid.mtu == mtu));
    let datagram = if is_latency { 1_472 } else { 8_192 };
    let original = if is_latency { "1472 bytes at most" } else { "as LBM has it: 8192 bytes at most" };
    let same = cells.iter().all(|cell| cell.datagram == datagram);
    add("datagrams", original, format!("{} bytes at most", grid.datagrams), Same::of(same));
    let stack = if is_three && !is_latency {
        "kernel bypass (OpenOnload); ours stands beside the rows of the kernel's stack"
    } else {
        "kernel bypass (OpenOnload)"
    };
    add("stack", stack, "the kernel's".to_owned(), Same::of(is_three && !is_latency));
    add("offloads", "not said", format!("UDP GSO and GRO {}", grid.offload), Same::NotSaid);
    add(
        "receive buffer",
        "8388608 bytes",
        format!("{} bytes", crate::lbm::RECEIVE_BUFFER),
        Same::of(crate::lbm::RECEIVE_BUFFER == 8_388_608),
    );
    let is_plain = grid.profile == Profile::Latency;
    let original =
        if is_latency { "implicit_batching_minimum_length 1" } else { "implicit_batching_minimum_length 8192" };
    let ours = match (is_plain, is_latency) {
        (true, _) => "implicit_batching_minimum_length 1",
        (false, true) => "messages that are due share datagrams",
        // Not waiting may be easier.
        (false, false) => {
            "messages that are due share datagrams, and wait for nothing when no more is due; 8192 there waits for a timer too"
        }
    };
    add("batching", original, ours.to_owned(), Same::of(is_latency && is_plain));
    let is_15 = grid.options.contains("transport_lbtrm_ignore_interval 15");
    let interval = |is: bool| if is { "15 ms" } else { "as LBM has it" };
    add("ignore interval", interval(is_latency), interval(is_15).to_owned(), Same::of(is_latency == is_15));
    let same = cells.iter().all(|cell| PAYLOADS.contains(&cell.payload));
    add("message", "64 to 1024 bytes, on one topic", format!("{} bytes, on one topic", grid.payloads), Same::of(same));
    let original = if is_three { "every message, of one path a run" } else { "every message" };
    let ours = if grid.paths > 1 { "every message, of all paths at once" } else { "every message" };
    add("sampling", original, ours.to_owned(), Same::of(!is_three));
    add("duration of a run", "30 s", super::length(scenario, 30.0), Same::of(scenario.seconds >= 30.0));
    add("runs", "two, whose data are combined", "each by itself; a figure is their median".to_owned(), Same::No);
    add("clock", "synchronised cards, 2 us", "one machine's, CLOCK_MONOTONIC".to_owned(), Same::No);
    all
}
