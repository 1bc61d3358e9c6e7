//! Scenarios: their parameters, their rates and their goals, read from a file that users can copy and change.

use serde::{Deserialize, Serialize};

mod act;
mod check;
mod error;
pub mod grid;
mod texts;
pub mod transports;

use crate::results::{PEERS, Side};

pub use crate::results::goals::{Goal, Point};
pub use act::Act;
pub use error::ScenarioError;

/// The scenarios that come with the binary; `quoteway-lab list --toml` prints them.
pub const BUILT_IN: &str = include_str!("../scenarios.toml");

/// Items of a flow in `--quick`, at most, and its seconds.
const QUICK_ITEMS: u32 = 10_000;
/// Items of the slope of memory in `--quick`.
const QUICK_MEMORY_ITEMS: u32 = 20_000;
/// Idle clients of the memory in `--quick`.
const QUICK_MEMORY_CLIENTS: u32 = 1_000;
const QUICK_SECONDS: f64 = 0.75;
const QUICK_WARMUP: f64 = 0.25;

/// One scenario.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// How it is called on the command line; the name of its table.
    #[serde(skip)]
    pub name: String,
    /// What is measured, in a line.
    pub title: String,
    /// What the reader of a figure has to know.
    #[serde(default)]
    pub about: String,
    /// Which procedure runs it.
    pub kind: Kind,
    /// Scenarios that are run together by this name: those of one report.
    #[serde(default)]
    pub group: String,
    /// Only run when it, or its group, is named.
    #[serde(default)]
    pub on_request: bool,
    /// Items of the watchlist.
    #[serde(default = "items")]
    pub items: u32,
    /// Bytes of an update message, header included.
    #[serde(default = "size")]
    pub size: usize,
    /// Bytes of an update's data, where the report does not count the header; 0: `size` says how long a message is.
    #[serde(default)]
    pub data_size: usize,
    /// Consumer connections.
    #[serde(default = "one")]
    pub mounts: u32,
    /// What they speak. Those of JSON are on loopback, in one process, and watch all items.
    #[serde(default)]
    pub clients: Clients,
    /// Further connections that watch all items, in a process of their own, and are not measured.
    #[serde(default)]
    pub beside: u32,
    /// What those speak.
    #[serde(default)]
    pub beside_clients: Clients,
    /// Share of the items that all mounts watch; each of the others is watched by one.
    #[serde(default = "all")]
    pub common: f64,
    /// The server is between source and client; without it the client connects to the source.
    #[serde(default = "yes")]
    pub server: bool,
    /// Deliveries a second at the clients, separated by spaces: `max`, `search`, `1000`, `50k`, `1.5M`.
    #[serde(default)]
    pub rates: String,
    /// The rates of `--quick`; without any, all.
    #[serde(default)]
    pub quick_rates: String,
    /// The rates of these at which the peers run too.
    #[serde(default)]
    pub peer_rates: String,
    /// The peers that can do this work, separated by spaces: `eta`, `nats`, `aeron`.
    #[serde(default = "eta")]
    pub peers: String,
    /// Bursts a second of the source, as the originals paced themselves; an evenly paced run stands beside each. 0: only evenly.
    #[serde(default)]
    pub bursts: u32,
    /// 1: everything on loopback. 2: source and client on one node, the system on another. 3: Source Distributor and P2PS on
    /// nodes of their own. Nodes are network namespaces, for which root is needed.
    #[serde(default = "one")]
    pub nodes: u32,
    /// Processors of the processes, for example `source:0 client:0 server:1`; who is not named runs anywhere.
    #[serde(default)]
    pub bind: String,
    /// Source Distributor and P2PS are processes of their own, joined by the hub's network; always so with three nodes.
    #[serde(default)]
    pub split: bool,
    /// Paths (multipath): each has a source, a Source Distributor, a hub and mounts of its own, and its part of items and rate.
    #[serde(default = "one")]
    pub paths: u32,
    /// Source Distributors of each path (multiplex), each with a source and a service of its own, and its part of items and rate.
    #[serde(default = "one")]
    pub distributors: u32,
    /// The Source Distributors of a path are threads of one process, so many of them; 0: processes.
    #[serde(default)]
    pub source_threads: u16,
    /// Levels of a cascade: the servers of each take what they have from those of the one before, as from a provider.
    #[serde(default = "one")]
    pub levels: u32,
    /// P2PSs of each path (multiplex), each with its part of the mounts.
    #[serde(default = "one")]
    pub p2ps: u32,
    /// An `rrcpd` takes the stream in once for all P2PSs of a path; they read it from shared memory.
    #[serde(default)]
    pub rrcpd: bool,
    /// How the hub's data stream travels between them: `tcp`, `lbt-rm`, `lbt-ru`, `lbt-tcp`, `lbt-ipc`, `aeron-ipc`, `aeron-unicast`,
    /// `aeron-multicast`; those of Aeron need a product that was built with it.
    #[serde(default = "hub")]
    pub hub: String,
    /// Datagrams of a hundred that are lost on their way to each node of the hub; needs three nodes and nftables.
    #[serde(default)]
    pub loss: u32,
    /// For the kind `transports`: which of them, separated by spaces, named as `hub` names them.
    #[serde(default)]
    pub transports: String,
    /// And at which losses each of them runs whose datagrams can be lost, in percent, separated by spaces.
    #[serde(default = "no_loss")]
    pub losses: String,
    /// An `rrcpd` on the Source Distributor's node, too: it publishes into shared memory.
    #[serde(default)]
    pub source_rrcpd: bool,
    /// Longest frames of the nodes' networks.
    #[serde(default = "mtu")]
    pub mtu: u32,
    /// Segmentation offload of the nodes' networks: `on`, `off`; empty leaves it as it is.
    #[serde(default)]
    pub tso: String,
    /// Real-time priorities (`chrt -f`) of the processes, for example `server:55 source:55`; needs root.
    #[serde(default)]
    pub priority: String,
    /// Egress shards of the server.
    #[serde(default)]
    pub shards: u16,
    /// Lines for the configuration file of all servers, for example `[p2ps]` and a parameter.
    #[serde(default)]
    pub server_toml: String,
    /// Permissions at the servers: `on`, `test` or `off`. Then the images of all items have a lock that the clients' user has the right to; empty
    /// for neither locks nor rights.
    #[serde(default)]
    pub permissions: String,
    /// Parameters that are different in runs beside ours, `KEY=VALUE` separated by semicolons: `shards=1`.
    #[serde(default)]
    pub variant: String,
    /// `decodeFormat` of the client: 0 headers, 1 entries, 2 and above every value.
    #[serde(default)]
    pub decode: u8,
    /// Every message is recorded at both ends; latencies are those, not those of stamped updates.
    #[serde(default)]
    pub observe: bool,
    /// A rate at which a run stands beside whose latency is sampled as the report's was: ten stamps a second, on one item.
    #[serde(default)]
    pub sampled: String,
    /// A rate is only held if no latency exceeds this; 0: whatever the latency.
    #[serde(default)]
    pub max_latency_us: f64,
    /// A rate is only held if the mean latency from the call does not exceed this; 0: whatever the mean.
    #[serde(default)]
    pub mean_latency_us: f64,
    /// Measured seconds of a run as long as the original's, or where that is not said of one as long as the other reports'; 0: as usual.
    #[serde(default)]
    pub original_seconds: f64,
    /// Seconds of a run as long as the original's that do not count, as there; 0: as usual.
    #[serde(default)]
    pub original_warmup: f64,
    /// Where figures of other systems on this procedure were published.
    #[serde(default)]
    pub originals: Vec<Original>,
    /// Socket buffers in bytes.
    #[serde(default = "buffer")]
    pub socket_buffer: usize,
    /// How the source waits: `block`, `yield` or `spin`; server and client always block.
    #[serde(default = "idle")]
    pub idle: String,
    /// The source goes round its items in a random order, where they are opened while it sends: in their order, those that are new come first, and
    /// who has the others gets nothing until all are open.
    #[serde(default)]
    pub shuffle: bool,
    /// Which item the source updates next: `opened`, `random`, `zipf` (the most frequent n times as often as the nth), `ticks` (as recorded trades and quotes
    /// come), or a file of item numbers; empty: as `shuffle` says.
    #[serde(default)]
    pub order: String,
    /// Subjects that nats-server has, each subscribed to by itself; 1: one for all items.
    #[serde(default = "one")]
    pub subjects: u32,
    /// Every so manieth update carries a time stamp.
    #[serde(default = "one")]
    pub stamp_every: u32,
    /// Measured seconds of a run.
    #[serde(default = "seconds")]
    pub seconds: f64,
    /// Seconds at a run's rate before that which do not count.
    #[serde(default = "warmup")]
    pub warmup: f64,
    /// Updates of a turn, separated by spaces: for the stages.
    #[serde(default)]
    pub batches: String,
    /// The stages' instructions are counted under valgrind, which takes some seconds for each size of a turn.
    #[serde(default = "yes")]
    pub instructions: bool,
    /// What is done to a server under load.
    #[serde(default)]
    pub load: Option<Act>,
    /// What of LBM is measured.
    #[serde(default)]
    pub lbm: Option<grid::Grid>,
    /// What is to be reached: `ROW METRIC[/SIDE] (>=|<=) VALUE`.
    #[serde(default)]
    pub goals: Vec<String>,
}

/// A published series of figures.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Original {
    /// The report, as the published files name it; empty: that of the scenario's group.
    #[serde(default)]
    pub report: String,
    /// The original's table or section.
    pub table: String,
    /// How the series is called: system and machine.
    pub label: String,
    /// Which system of a table of throughputs; empty: a table of latencies.
    #[serde(default)]
    pub system: String,
    /// Which of its tests.
    #[serde(default)]
    pub test: String,
}

/// What clients speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clients {
    /// RSSL over TCP, by `test-client`.
    #[default]
    Rssl,
    /// `tr_json2` over WebSocket, by a load generator that looks for numbers only.
    Json,
}

/// The procedure of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Decoding and encoding the reference updates, beside ETA Java on the same bytes.
    Codec,
    /// Source, server and client at rates, beside the bare loops and ETA Java.
    Flow,
    /// Opening a watchlist while another client streams.
    Images,
    /// Opening what another client has open, with a cache and without one.
    Late,
    /// What it costs clients that somebody looks at the server.
    Seen,
    /// Bytes of an item and of a watcher.
    Memory,
    /// What each stage of an update's way costs, beside a bare system call or copy.
    Stages,
    /// LBM beside the bare loops and Aeron.
    Lbm,
    /// What many consumers, or hostile ones, cost those who watch.
    Load,
    /// Processor time of clients that are conflated, beside that of as many that get everything.
    Conflation,
    /// The chain over each transport of the hub, at each loss, beside bare loops.
    Transports,
}

fn items() -> u32 {
    100_000
}
fn size() -> usize {
    85
}
fn mtu() -> u32 {
    1_500
}
fn hub() -> String {
    "tcp".to_owned()
}
fn no_loss() -> String {
    "0".to_owned()
}
fn eta() -> String {
    "eta".to_owned()
}
fn one() -> u32 {
    1
}
fn all() -> f64 {
    1.0
}
fn yes() -> bool {
    true
}
fn buffer() -> usize {
    262_144
}
fn idle() -> String {
    "yield".to_owned()
}
fn seconds() -> f64 {
    3.0
}
fn warmup() -> f64 {
    1.0
}

/// In place of `stamp_every` where the reports' ten stamps a second are all that is timed.
const SAMPLED: u32 = 0;

impl Scenario {
    /// The rates of the scenario.
    ///
    /// # Errors
    /// A word that is no rate.
    pub fn points(&self) -> Result<Vec<Point>, ScenarioError> {
        self.rates.split_whitespace().map(|word| Ok(word.parse()?)).collect()
    }

    /// The sizes of a turn for the stages.
    ///
    /// # Errors
    /// A word that is no size.
    pub fn batches(&self) -> Result<Vec<u32>, ScenarioError> {
        let size = |word: &str| word.parse().ok().filter(|n| (1..=100_000).contains(n));
        let sizes = self.batches.split_whitespace();
        sizes.map(|word| size(word).ok_or_else(|| ScenarioError::Batch(word.to_owned()))).collect()
    }

    /// Which peers run at this rate too.
    ///
    /// # Errors
    /// A word that is no peer.
    pub fn peers_at(&self, point: Point) -> Result<Vec<Side>, ScenarioError> {
        let runs = self.peer_rates.split_whitespace().any(|word| word.parse() == Ok(point));
        let peers: Vec<Side> = self.peers.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        match peers.iter().find(|side| !PEERS.contains(side)) {
            Some(side) => Err(ScenarioError::Peer(*side)),
            None => Ok(if runs { peers } else { Vec::new() }),
        }
    }

    /// Leaves out the peers that are not to run.
    pub fn keep_peers(&mut self, wanted: &[Side]) {
        let words = self.peers.split_whitespace();
        let kept: Vec<&str> = words.filter(|w| w.parse().is_ok_and(|side| wanted.contains(&side))).collect();
        self.peers = kept.join(" ");
    }

    /// Bytes of an update message, header included, whichever way the scenario says it.
    pub fn message_size(&self) -> usize {
        if self.data_size > 0 { self.data_size + tools::sink_driven_src::template::header() } else { self.size }
    }

    /// Whether Source Distributor and P2PS are processes of their own.
    pub fn is_split(&self) -> bool {
        self.split || self.nodes == 3 || self.p2ps > 1 || self.distributors > 1 || self.rrcpd || self.source_rrcpd
    }

    /// Processes between a source and a client.
    pub fn servers(&self) -> u32 {
        let of_a_level = match (self.server, self.is_split()) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2 + u32::from(self.rrcpd) + u32::from(self.source_rrcpd),
        };
        of_a_level * self.levels
    }

    /// Sources of all paths together, each with a Source Distributor where there are some.
    pub fn sources(&self) -> u32 {
        self.paths * self.distributors
    }

    /// The real-time priority of a process, if it has one.
    pub fn priority_of(&self, process: &str) -> Option<u32> {
        self.priority.split_whitespace().find_map(|word| word.strip_prefix(process)?.strip_prefix(':')?.parse().ok())
    }

    /// The processors that a process is bound to, if it is.
    pub fn processors(&self, process: &str) -> Option<&str> {
        self.bind.split_whitespace().find_map(|word| word.strip_prefix(process)?.strip_prefix(':'))
    }

    /// Cut down for a run that only shows that everything works.
    pub fn shorten(&mut self) {
        if !self.quick_rates.is_empty() {
            self.rates.clone_from(&self.quick_rates);
        }
        if !self.rates.split_whitespace().any(|rate| rate == self.sampled) {
            self.sampled.clear();
        }
        if matches!(self.kind, Kind::Flow | Kind::Stages | Kind::Transports) {
            self.items = self.items.min(QUICK_ITEMS);
            self.subjects = self.subjects.min(QUICK_ITEMS);
        }
        if self.kind == Kind::Memory {
            self.items = self.items.min(QUICK_MEMORY_ITEMS);
            if self.clients == Clients::Json {
                self.mounts = self.mounts.min(QUICK_MEMORY_CLIENTS);
            }
        }
        if matches!(self.kind, Kind::Load | Kind::Conflation) {
            self.mounts = self.mounts.min(QUICK_MEMORY_CLIENTS);
        }
        if let Some(grid) = &mut self.lbm {
            for list in [&mut grid.payloads, &mut grid.datagrams, &mut grid.rates] {
                *list = list.split_whitespace().next().unwrap_or_default().to_owned();
            }
        }
        (self.seconds, self.warmup) = (self.seconds.min(QUICK_SECONDS), self.warmup.min(QUICK_WARMUP));
    }

    /// As long as the original's, where it says how long that was.
    pub fn lengthen(&mut self) {
        if self.original_seconds > 0.0 {
            self.seconds = self.original_seconds;
        }
        self.warmup = self.warmup.max(self.original_warmup);
    }

    /// Deliveries for each update that the source sends.
    pub fn fan(&self) -> f64 {
        self.common * f64::from(self.mounts) + (1.0 - self.common)
    }

    /// The scenario as its variant changes it; `None` without one.
    ///
    /// # Errors
    /// A word that is no parameter, or a value that is none.
    pub fn variant(&self) -> Result<Option<Self>, ScenarioError> {
        if self.variant.trim().is_empty() {
            return Ok(None);
        }
        let plain = Self { variant: String::new(), ..self.clone() };
        let mut table = toml::Table::try_from(&plain)?;
        for change in self.variant.split(';') {
            set(&mut table, change.trim())?;
        }
        let variant: Self = table.try_into()?;
        let variant = Self { name: self.name.clone(), ..variant };
        variant.check()?;
        Ok(Some(variant))
    }

    /// As the scenario is, but for what is timed: ten updates a second of one item, by the stamps in them. `None` where no such run
    /// stands beside.
    ///
    /// # Errors
    /// `sampled` is no rate.
    pub fn sampled_at(&self, point: Point) -> Result<Option<Self>, ScenarioError> {
        if self.sampled.is_empty() || self.sampled.parse::<Point>()? != point {
            return Ok(None);
        }
        Ok(Some(Self { observe: false, stamp_every: SAMPLED, variant: String::new(), ..self.clone() }))
    }

    /// Whether latencies are those of ten updates a second of one item.
    pub fn is_sampled(&self) -> bool {
        self.stamp_every == SAMPLED
    }

    /// Whether some items are everybody's and others not: the source mixes their updates then, so that half of any second's
    /// updates go to all, and not all of one second's.
    pub fn is_mixed(&self) -> bool {
        self.mounts > 1 && self.common > 0.0 && self.common < 1.0
    }

    /// Changes parameters by `KEY=VALUE`; a value is read as TOML, or as text if it is none. What a scenario of LBM has in its
    /// table `lbm` (payloads, rates, ...) is changed there.
    ///
    /// # Errors
    /// A word that is no parameter, or a value that is none.
    pub fn set(&mut self, lines: &[String]) -> Result<(), ScenarioError> {
        if lines.is_empty() {
            return Ok(());
        }
        let mut table = toml::Table::try_from(&*self)?;
        for line in lines {
            let key = line.split('=').next().unwrap_or_default().trim();
            let grid = table.get_mut("lbm").and_then(toml::Value::as_table_mut).filter(|grid| grid.contains_key(key));
            match grid {
                Some(grid) => set(grid, line)?,
                None => set(&mut table, line)?,
            }
        }
        *self = checked(self.name.clone(), table)?;
        Ok(())
    }

    /// The scenario's goals.
    ///
    /// # Errors
    /// A line that is no goal.
    pub fn goals(&self) -> Result<Vec<Goal>, ScenarioError> {
        self.goals.iter().map(|line| Ok(line.parse()?)).collect()
    }
}

/// Reads scenarios.
///
/// # Errors
/// What is wrong, with the scenario's name.
pub fn read(text: &str) -> Result<Vec<Scenario>, ScenarioError> {
    let tables: toml::Table = text.parse().map_err(ScenarioError::Syntax)?;
    let mut scenarios = Vec::new();
    for (name, value) in tables {
        let toml::Value::Table(table) = value else {
            return Err(ScenarioError::Outside(name));
        };
        scenarios.push(checked(name, table)?);
    }
    Ok(scenarios)
}

fn checked(name: String, table: toml::Table) -> Result<Scenario, ScenarioError> {
    let read = || -> Result<Scenario, ScenarioError> {
        let scenario: Scenario = table.try_into()?;
        scenario.check()?;
        Ok(scenario)
    };
    match read() {
        Ok(scenario) => Ok(Scenario { name, ..scenario }),
        Err(fault) => Err(ScenarioError::In { name, fault: Box::new(fault) }),
    }
}

/// Sets a parameter by `KEY=VALUE`.
fn set(table: &mut toml::Table, line: &str) -> Result<(), ScenarioError> {
    let (key, value) = line.split_once('=').ok_or_else(|| ScenarioError::Change(line.to_owned()))?;
    let parsed = format!("v = {value}").parse::<toml::Table>().ok().and_then(|mut t| t.remove("v"));
    // A parameter of text stays one: a single rate or size looks like a number.
    let is_text = table.get(key.trim()).is_some_and(toml::Value::is_str);
    let parsed = parsed.filter(|parsed| parsed.is_str() || !is_text);
    table.insert(key.trim().to_owned(), parsed.unwrap_or_else(|| toml::Value::String(value.to_owned())));
    Ok(())
}

/// The scenarios of these names, or of groups of these names, in this order (`reports`: all that reproduce one, `all`: all);
/// without names, those that need not be asked for.
///
/// # Errors
/// A name that is unknown.
pub fn select(all: Vec<Scenario>, names: &[String]) -> Result<Vec<Scenario>, ScenarioError> {
    if names.is_empty() {
        return Ok(all.into_iter().filter(|s| !s.on_request).collect());
    }
    let mut chosen = Vec::new();
    for name in names {
        let before = chosen.len();
        let is_meant = |s: &&Scenario| match name.as_str() {
            "all" => true,
            "reports" => {
                let is_beside = !s.originals.is_empty() || s.lbm.as_ref().is_some_and(|grid| !grid.report.is_empty());
                is_beside || crate::results::contents::of(&s.group).is_some()
            }
            name => s.name == name || s.group == name,
        };
        chosen.extend(all.iter().filter(is_meant).cloned());
        if chosen.len() == before {
            let mut known: Vec<&str> = all.iter().flat_map(|s| [s.group.as_str(), s.name.as_str()]).collect();
            let mut once = std::collections::HashSet::new();
            known.retain(|name| !name.is_empty() && once.insert(*name));
            let likeness = |known: &&&str| (strsim::normalized_damerau_levenshtein(known, name) * 1e3) as u32;
            let nearest = known.iter().max_by_key(likeness).filter(|known| likeness(known) > 500);
            let nearest = nearest.map_or(String::new(), |nearest| format!("; the nearest is {nearest}"));
            return Err(ScenarioError::Unknown { asked: name.clone(), nearest });
        }
    }
    Ok(chosen)
}

/// What the completions of a shell offer for a scenario: the built-in ones and their groups. Any name is taken, because a file may have
/// others.
#[derive(Clone, Debug)]
pub struct Names;

impl clap::builder::TypedValueParser for Names {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        clap::builder::StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = clap::builder::PossibleValue> + '_>> {
        let name =
            |line: &'static str| line.strip_prefix('[')?.strip_suffix(']').filter(|name| !name.contains(['.', '[']));
        let group = |line: &'static str| line.strip_prefix("group = \"")?.strip_suffix('"');
        let named = BUILT_IN.lines().filter_map(|line| name(line).or(group(line)));
        let mut names: Vec<&'static str> = named.chain(["all", "reports"]).collect();
        names.sort_unstable();
        names.dedup();
        Some(Box::new(names.into_iter().map(clap::builder::PossibleValue::new)))
    }
}

#[cfg(test)]
mod tests;
