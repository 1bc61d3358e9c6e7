//! What a scenario says of itself to a reader: its parameters, and the conditions under which its figures were taken.

use super::run::Where;
use super::scenario::grid::Grid;
use super::scenario::{Clients, Kind, Scenario};
use super::{lbm, transports};

/// The scenario's parameters in a line, for a list.
pub fn parameters(s: &Scenario) -> String {
    let original =
        if s.original_seconds > 0.0 { format!(" (--full: {} s)", s.original_seconds) } else { String::new() };
    if let (Kind::Lbm, Some(grid)) = (s.kind, &s.lbm) {
        let (cells, minutes) = (grid.cells().map_or(0, |c| c.len()), lbm::estimate(s, 1, false, true) / 60.0);
        let seconds = s.seconds;
        return format!(
            "{cells} rows, {seconds} s a run{original}, {minutes:.1} minutes a pair; {}",
            grid.conditions()
        );
    }
    if s.kind == Kind::Stages {
        return format!("turns of {} updates; {} items, {} bytes, {} mounts", s.batches, s.items, s.size, s.mounts);
    }
    if s.kind == Kind::Transports {
        let rows = super::scenario::transports::cells(s).map_or(0, |cells| cells.len());
        let (rates, minutes) = (&s.rates, transports::estimate(s, 1) / 60.0);
        return format!("{rows} rows at each of the rates {rates}; {minutes:.1} minutes a pair");
    }
    if s.kind != Kind::Flow {
        return format!("{} s a run", s.seconds);
    }
    format!("rates {}; {}{original}", s.rates, of(s, None))
}

/// What a reader of its figures has to know beside them: wherever it runs, or of a call, which has its nodes there.
pub fn of(s: &Scenario, place: Option<Where<'_>>) -> String {
    if let (Kind::Lbm, Some(grid)) = (s.kind, &s.lbm) {
        return of_lbm(s, grid, place);
    }
    if s.kind == Kind::Codec {
        return "one thread, messages in memory, no sockets; the peer on the same bytes; no process bound".to_owned();
    }
    let mut parts = watchlist(s);
    match s.kind {
        Kind::Stages => {
            parts.push(format!("turns of {} updates", s.batches));
            parts
                .push("one thread, one stage after the other on real sockets of loopback, no process bound".to_owned());
        }
        Kind::Transports => {
            parts.push(
                "the hub between two nodes (network namespaces of this machine), over memory within one".to_owned(),
            );
            parts.push(format!("losses of {} % of the datagrams that reach a node of the hub", s.losses));
            parts.push("no process bound".to_owned());
            parts.push(format!("{} s a run after {} s of warm-up", s.seconds, s.warmup));
        }
        _ => {
            parts.push(topology(s, place));
            parts.extend(processes(s));
            parts.extend(machine(s, place));
            parts.extend(runs(s));
        }
    }
    parts.join("; ")
}

fn of_lbm(s: &Scenario, grid: &Grid, place: Option<Where<'_>>) -> String {
    let is_loopback = matches!(place, Some(Where::Loopback));
    let grid = if is_loopback { &Grid { networks: "loopback".to_owned(), ..grid.clone() } } else { grid };
    let held = if grid.rates.split_whitespace().any(|word| word == "search") {
        format!("; a rate is held with {}", s.criterion())
    } else {
        String::new()
    };
    format!("{}{held}; {} s a run after {} s of warm-up", grid.conditions(), s.seconds, s.warmup)
}

/// What is watched, and by whom.
fn watchlist(s: &Scenario) -> Vec<String> {
    let mut parts = vec![format!("{} items, updates of {}", s.items, s.update_size())];
    if s.mounts > 1 {
        let mixed = if s.is_mixed() { ", updates in random order" } else { "" };
        parts.push(format!("{} mounts, {:.0} % of the items common to all{mixed}", s.mounts, s.common * 100.0));
    }
    if !s.order.is_empty() {
        parts.push(format!("the source in the order {}", s.order));
    } else if s.shuffle {
        parts.push("the source in random order".to_owned());
    }
    if s.clients == Clients::Json {
        parts.push("clients over WebSocket by tr_json2".to_owned());
    }
    if s.beside > 0 {
        parts.push(format!("{} others beside it: {:?}", s.beside, s.beside_clients));
    }
    parts
}

/// Where the system is, seen from source and client.
fn topology(s: &Scenario, place: Option<Where<'_>>) -> String {
    match (s.server, s.nodes, s.is_split()) {
        (false, ..) => "client connected to the source, loopback".to_owned(),
        (true, 1, false) => "Source Distributor and P2PS in one process, loopback".to_owned(),
        (true, 1, true) => format!("Source Distributor and P2PS in two processes, loopback, hub by {}", s.hub),
        (true, nodes, split) => {
            let hub = if split || nodes == 3 { format!(", hub by {}", s.hub) } else { String::new() };
            match place {
                None => format!("{nodes} nodes (network namespaces of this machine, unless --loopback){hub}"),
                Some(Where::Namespaces) => format!("{nodes} nodes (network namespaces of this machine){hub}"),
                Some(Where::Loopback) => format!("{nodes} nodes, all on loopback of this machine{hub}"),
                Some(Where::Hosts(hosts)) => format!("source and client here, the system on {}{hub}", hosts.about()),
            }
        }
    }
}

/// Which processes there are besides one Source Distributor and one P2PS.
fn processes(s: &Scenario) -> Vec<String> {
    let mut parts = Vec::new();
    if s.paths > 1 {
        parts.push(format!("{} paths, each with a source, a Source Distributor and a hub", s.paths));
    }
    if s.source_threads > 0 {
        let threads =
            if s.source_threads == 1 { "one thread".to_owned() } else { format!("{} threads", s.source_threads) };
        parts.push(format!(
            "one Source Distributor of {threads} a path, with {} sources, each with a service",
            s.distributors
        ));
    } else if s.distributors > 1 {
        parts.push(format!("{} Source Distributors a path, each with a source and a service", s.distributors));
    }
    if s.p2ps > 1 {
        parts.push(format!("{} P2PSs a path, each with its clients", s.p2ps));
    }
    let daemons = match (s.source_rrcpd, s.rrcpd) {
        (true, true) => Some("an rrcpd on both sides of the hub, shared memory before and behind them"),
        (true, false) => Some("rrcpd behind the Source Distributor, shared memory between"),
        (false, true) => Some("rrcpd before the P2PSs, shared memory between"),
        (false, false) => None,
    };
    parts.extend(daemons.map(str::to_owned));
    parts
}

/// Networks, priorities, threads, how the source is paced, and how all are configured.
fn machine(s: &Scenario, place: Option<Where<'_>>) -> Vec<String> {
    let mut parts = Vec::new();
    if s.nodes > 1 && matches!(place, None | Some(Where::Namespaces)) {
        let tso = if s.tso.is_empty() { String::new() } else { format!(", TSO {}", s.tso) };
        parts.push(format!("MTU {}{tso}", s.mtu));
    }
    if !s.priority.is_empty() {
        parts.push(format!("real-time priorities {}", s.priority));
    }
    if s.shards > 0 {
        parts.push(format!("{} egress shards", s.shards));
    }
    parts.push(match s.bursts {
        0 => "evenly paced".to_owned(),
        bursts => format!("{bursts} bursts a second, and evenly paced beside it"),
    });
    let bound = if s.bind.is_empty() { "no process bound".to_owned() } else { format!("bound {}", s.bind) };
    parts.push(format!("idle source: {}, idle others: block; {bound}", s.idle));
    parts.push(format!("socket buffers {} KB", s.socket_buffer / 1024));
    if !s.server_toml.is_empty() {
        let lines: Vec<&str> = s.server_toml.split_whitespace().collect();
        parts.push(format!("servers configured with {}", lines.join(" ")));
    }
    if !s.variant.is_empty() {
        let variant: Vec<&str> = s.variant.split_whitespace().collect();
        parts.push(format!("variant: {}", variant.join(" ")));
    }
    parts
}

/// How long runs are, when a rate is held, and what is taken for a figure.
fn runs(s: &Scenario) -> Vec<String> {
    let mut parts = Vec::new();
    if s.rates.split_whitespace().any(|word| word == "search") {
        parts.push(format!("a rate is held with {}", s.criterion()));
    }
    parts.push(format!("{} s a run after {} s of warm-up", s.seconds, s.warmup));
    let measured = match (s.kind, s.observe) {
        (Kind::Memory, _) => "resident size, by the kernel",
        (_, true) => "every message observed",
        (_, false) => "latency by stamped updates",
    };
    parts.push(measured.to_owned());
    parts
}
