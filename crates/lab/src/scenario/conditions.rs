//! What a scenario says of itself to a reader: its parameters, its conditions, its texts.

use std::fmt::Write as _;

use super::{Clients, Kind, Scenario};
use crate::run::Where;
use crate::{lbm, transports};

impl Scenario {
    /// A text of the scenario with the numbers of this call: `{items}`, `{size}`, `{mounts}`, `{bursts}`.
    pub fn text(&self, text: &str) -> String {
        let number = |n: u32| {
            let digits = n.to_string();
            let head = digits.len() % 3;
            let groups = digits.as_bytes()[head..].chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
            let first = (head > 0).then(|| digits[..head].to_owned());
            first.into_iter().chain(groups).collect::<Vec<_>>().join(",")
        };
        let mut out = text.to_owned();
        for (name, value) in [("{items}", self.items), ("{mounts}", self.mounts), ("{bursts}", self.bursts)] {
            out = out.replace(name, &number(value));
        }
        out.replace("{size}", &self.update_size())
    }

    /// How long an update is, and what of it is counted.
    pub fn update_size(&self) -> String {
        if self.data_size > 0 {
            format!("{} bytes of data, {} with the header", self.data_size, self.message_size())
        } else {
            format!("{} bytes, header included", self.size)
        }
    }

    /// The scenario's parameters in a line, for a list.
    pub fn parameters(&self) -> String {
        let original =
            if self.original_seconds > 0.0 { format!(" (--full: {} s)", self.original_seconds) } else { String::new() };
        if let (Kind::Lbm, Some(grid)) = (self.kind, &self.lbm) {
            let (cells, minutes) = (grid.cells().map_or(0, |c| c.len()), lbm::estimate(self, 1, false, true) / 60.0);
            let seconds = self.seconds;
            return format!(
                "{cells} rows, {seconds} s a run{original}, {minutes:.1} minutes a pair; {}",
                grid.conditions()
            );
        }
        if self.kind == Kind::Stages {
            return format!(
                "turns of {} updates; {} items, {} bytes, {} mounts",
                self.batches, self.items, self.size, self.mounts
            );
        }
        if self.kind == Kind::Transports {
            let rows = transports::cells(self).map_or(0, |cells| cells.len());
            let (rates, minutes) = (&self.rates, transports::estimate(self, 1) / 60.0);
            return format!("{rows} rows at each of the rates {rates}; {minutes:.1} minutes a pair");
        }
        if self.kind != Kind::Flow {
            return format!("{} s a run", self.seconds);
        }
        format!("rates {}; {}{original}", self.rates, self.conditions())
    }

    /// What a reader of its figures has to know beside them, wherever it runs.
    pub fn conditions(&self) -> String {
        self.conditions_at(None)
    }

    /// The same of a call, which has its nodes there.
    pub fn conditions_at(&self, place: Option<Where<'_>>) -> String {
        let is_loopback = matches!(place, Some(Where::Loopback));
        if let (Kind::Lbm, Some(grid)) = (self.kind, &self.lbm) {
            let grid = if is_loopback { &lbm::Grid { networks: "loopback".to_owned(), ..grid.clone() } } else { grid };
            let held = if grid.rates.split_whitespace().any(|word| word == "search") {
                format!("; a rate is held with {}", self.criterion())
            } else {
                String::new()
            };
            return format!("{}{held}; {} s a run after {} s of warm-up", grid.conditions(), self.seconds, self.warmup);
        }
        if self.kind == Kind::Codec {
            return "one thread, messages in memory, no sockets; the peer on the same bytes; no process bound"
                .to_owned();
        }
        let mut parts = vec![format!("{} items, updates of {}", self.items, self.update_size())];
        if self.mounts > 1 {
            let mixed = if self.is_mixed() { ", updates in random order" } else { "" };
            parts.push(format!(
                "{} mounts, {:.0} % of the items common to all{mixed}",
                self.mounts,
                self.common * 100.0
            ));
        }
        if self.shuffle {
            parts.push("the source in random order".to_owned());
        }
        if self.clients == Clients::Json {
            parts.push("clients over WebSocket by tr_json2".to_owned());
        }
        if self.beside > 0 {
            parts.push(format!("{} others beside it: {:?}", self.beside, self.beside_clients));
        }
        if self.kind == Kind::Stages {
            parts.push(format!("turns of {} updates", self.batches));
            parts
                .push("one thread, one stage after the other on real sockets of loopback, no process bound".to_owned());
            return parts.join("; ");
        }
        if self.kind == Kind::Transports {
            parts.push(
                "the hub between two nodes (network namespaces of this machine), over memory within one".to_owned(),
            );
            parts.push(format!("losses of {} % of the datagrams that reach a node of the hub", self.losses));
            parts.push("no process bound".to_owned());
            parts.push(format!("{} s a run after {} s of warm-up", self.seconds, self.warmup));
            return parts.join("; ");
        }
        parts.push(match (self.server, self.nodes, self.is_split()) {
            (false, ..) => "client connected to the source, loopback".to_owned(),
            (true, 1, false) => "Source Distributor and P2PS in one process, loopback".to_owned(),
            (true, 1, true) => format!("Source Distributor and P2PS in two processes, loopback, hub by {}", self.hub),
            (true, nodes, split) => {
                let hub = if split || nodes == 3 { format!(", hub by {}", self.hub) } else { String::new() };
                match place {
                    None => format!("{nodes} nodes (network namespaces of this machine, unless --loopback){hub}"),
                    Some(Where::Namespaces) => format!("{nodes} nodes (network namespaces of this machine){hub}"),
                    Some(Where::Loopback) => format!("{nodes} nodes, all on loopback of this machine{hub}"),
                    Some(Where::Hosts(hosts)) => {
                        format!("source and client here, the system on {}{hub}", hosts.about())
                    }
                }
            }
        });
        if self.paths > 1 {
            parts.push(format!("{} paths, each with a source, a Source Distributor and a hub", self.paths));
        }
        if self.distributors > 1 {
            parts.push(format!("{} Source Distributors a path, each with a source and a service", self.distributors));
        }
        if self.p2ps > 1 {
            parts.push(format!("{} P2PSs a path, each with its clients", self.p2ps));
        }
        match (self.source_rrcpd, self.rrcpd) {
            (true, true) => {
                parts.push("an rrcpd on both sides of the hub, shared memory before and behind them".to_owned());
            }
            (true, false) => parts.push("rrcpd behind the Source Distributor, shared memory between".to_owned()),
            (false, true) => parts.push("rrcpd before the P2PSs, shared memory between".to_owned()),
            (false, false) => {}
        }
        if self.nodes > 1 && matches!(place, None | Some(Where::Namespaces)) {
            let tso = if self.tso.is_empty() { String::new() } else { format!(", TSO {}", self.tso) };
            parts.push(format!("MTU {}{tso}", self.mtu));
        }
        if !self.priority.is_empty() {
            parts.push(format!("real-time priorities {}", self.priority));
        }
        if self.shards > 0 {
            parts.push(format!("{} egress shards", self.shards));
        }
        parts.push(match self.bursts {
            0 => "evenly paced".to_owned(),
            bursts => format!("{bursts} bursts a second, and evenly paced beside it"),
        });
        let bound = if self.bind.is_empty() { "no process bound".to_owned() } else { format!("bound {}", self.bind) };
        parts.push(format!("idle source: {}, idle others: block; {bound}", self.idle));
        parts.push(format!("socket buffers {} KB", self.socket_buffer / 1024));
        if !self.server_toml.is_empty() {
            parts.push(format!(
                "servers configured with {}",
                self.server_toml.split_whitespace().collect::<Vec<_>>().join(" ")
            ));
        }
        if !self.variant.is_empty() {
            let variant = self.variant.split_whitespace().collect::<Vec<_>>().join(" ");
            parts.push(format!("variant: {variant}"));
        }
        if self.rates.split_whitespace().any(|word| word == "search") {
            parts.push(format!("a rate is held with {}", self.criterion()));
        }
        parts.push(format!("{} s a run after {} s of warm-up", self.seconds, self.warmup));
        parts.push(match (self.kind, self.observe) {
            (Kind::Memory, _) => "resident size, by the kernel".to_owned(),
            (_, true) => "every message observed".to_owned(),
            (_, false) => "latency by stamped updates".to_owned(),
        });
        parts.join("; ")
    }

    /// What a rate has to fulfil to count as held, for people.
    pub fn criterion(&self) -> String {
        let mut text = "nothing lost, no growing queue".to_owned();
        for (name, bound) in [("max", self.max_latency_us), ("mean", self.mean_latency_us)] {
            if bound > 0.0 {
                let _ = write!(text, ", {name} latency at most {bound:.0} us");
            }
        }
        text
    }
}
