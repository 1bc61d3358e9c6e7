//! The processes of a test: source, servers, clients; where they run, and how they find each other.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use super::nodes::Nodes;
use super::product;
use super::scenario::Scenario;
use super::ticks;
use measure::observer::Plan;
use measure::process::{Fault, Process};

/// How long a process may say nothing.
pub const PATIENCE: f64 = 60.0;

/// What every image demands where there are permissions, and who may have it: the user that the clients log in as.
const LOCK: &str = "1: 62 & (144 | 145)";
const RIGHTS: &str = "[services.DIRECT_FEED]\nid = 1\n\n[users.rmds.grants]\nDIRECT_FEED = [62, \"100-199\"]\n";

/// The service of a source that is given no other name.
const FIRST_SERVICE: &str = "DIRECT_FEED";

/// What the transports of Aeron begin with; the medium follows.
const AERON: &str = "aeron-";

/// Hubs of this process so far.
static HUBS: AtomicU32 = AtomicU32::new(0);

/// How the source spaces its updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Each update at a time of its own.
    Even,
    /// So many bursts a second.
    Bursts(u32),
}

/// What both ends record, and where it is put.
#[derive(Clone, Debug)]
pub struct Observation<'a> {
    /// A folder for the records of the sources and the clients.
    pub folder: &'a Path,
    /// Memory and choice of the source.
    pub source: Plan,
    /// Memory and choice of the client.
    pub client: Plan,
}

impl Observation<'_> {
    /// The records of a source.
    pub fn sent(&self, source: u32) -> PathBuf {
        self.folder.join(format!("sent-{source}"))
    }

    /// The records of a client.
    pub fn received(&self, client: usize) -> PathBuf {
        self.folder.join(format!("received-{client}"))
    }
}

/// The processes, started.
pub struct Chain {
    /// The sources, one for each Source Distributor, path after path; they publish nothing until they are given a rate.
    pub sources: Vec<Process>,
    /// What is between sources and clients, in the order in which updates go through it, path after path.
    pub servers: Vec<Process>,
    /// Where clients connect: each P2PS, path after path; without servers each source.
    endpoints: Vec<SocketAddr>,
    /// Where non-interactive providers connect, if they may.
    nip: Option<SocketAddr>,
    /// Where the last server has its page, if it has one.
    web: Option<String>,
    nodes: Nodes,
    /// On other machines: what each of `servers` is, and its number there.
    far: Vec<(&'static str, u32)>,
    /// Configuration files of the servers.
    folder: TempDir,
}

impl Chain {
    /// Starts sources and servers.
    ///
    /// # Errors
    /// One of them does not start, or the nodes cannot be made.
    pub fn start(
        scenario: &Scenario,
        nodes: Nodes,
        pace: Spacing,
        observation: Option<&Observation<'_>>,
    ) -> Result<Self, Fault> {
        let folder = tempfile::tempdir().map_err(|e| format!("no folder for configurations: {e}"))?;
        let mut chain = Self {
            sources: Vec::new(),
            servers: Vec::new(),
            endpoints: Vec::new(),
            nip: None,
            web: None,
            nodes,
            far: Vec::new(),
            folder,
        };
        for path in 0..scenario.paths {
            let first = path * scenario.distributors;
            let sources = first..first + scenario.distributors;
            let addresses: Vec<String> =
                sources.map(|n| chain.start_source(scenario, pace, observation, n)).collect::<Result<_, _>>()?;
            if scenario.server {
                chain.start_levels(scenario, addresses, path)?;
                continue;
            }
            for address in addresses {
                let port = port_of(&address).ok_or_else(|| Fault::Failed(format!("source: no port in {address}")))?;
                chain.endpoints.push((chain.nodes.source(), port).into());
            }
        }
        Ok(chain)
    }

    /// Starts the nth source; gives where it listens.
    fn start_source(
        &mut self,
        scenario: &Scenario,
        pace: Spacing,
        observation: Option<&Observation<'_>>,
        number: u32,
    ) -> Result<String, Fault> {
        let mut args = words(&format!("sink-driven-src --bind {} -N 0 -K -tcpnodel -U 0 -I 3600", self.nodes.source()));
        args.extend(words(&format!(
            "--size {} --idle {} --send-buffer {}",
            scenario.message_size(),
            scenario.idle,
            scenario.socket_buffer
        )));
        // Beside each other on one hub, sources need services of their own.
        args.extend(service(number % scenario.distributors));
        match pace {
            Spacing::Even => args.push("--smooth".to_owned()),
            Spacing::Bursts(per_second) => args.extend(words(&format!("-tps {per_second}"))),
        }
        if !scenario.permissions.is_empty() {
            args.extend(["--lock".to_owned(), LOCK.to_owned()]);
        }
        match observation {
            // As the reports stamp: ten updates a second.
            Some(observation) => {
                args.extend(words("-ts -UL 10"));
                args.extend(observing(&observation.sent(number), &observation.source));
            }
            None if scenario.is_sampled() => args.extend(words("-ts -tsn RDT0 -UL 10")),
            None if scenario.stamp_every == 1 => args.push("--stamp-all".to_owned()),
            None => args.extend(words(&format!("--stamp-every {}", scenario.stamp_every))),
        }
        match ticks::order(scenario, self.folder.path())? {
            Some(order) => args.extend(["--order".to_owned(), order]),
            None if scenario.is_mixed() || scenario.shuffle => args.push("--shuffle".to_owned()),
            None => {}
        }
        let mut source = product::start("source", &place(scenario, &self.nodes, "source"), &args)?;
        let line = source.wait_for("is published on", PATIENCE)?.text;
        let address = line.split(" on ").nth(1).and_then(|t| t.split(';').next());
        let address = address.ok_or_else(|| source.failed("names no address"))?.to_owned();
        self.sources.push(source);
        Ok(address)
    }

    /// Starts a client of the whole watchlist at the first endpoint; `extra` are more of its flags.
    ///
    /// # Errors
    /// It does not start.
    pub fn client(&self, scenario: &Scenario, items: &str, extra: &str) -> Result<Process, Fault> {
        let share =
            Share { items: items.to_owned(), mounts: scenario.mounts, common: scenario.common, ..Share::default() };
        self.client_at(0, scenario, &share, extra, None)
    }

    /// Starts a client for each share of the watchlist, at its endpoint.
    ///
    /// # Errors
    /// One does not start.
    pub fn clients(
        &self,
        scenario: &Scenario,
        extra: &str,
        observation: Option<&Observation<'_>>,
    ) -> Result<Vec<Process>, Fault> {
        let shares = shares(scenario);
        (0..).zip(&shares).map(|(number, share)| self.client_at(number, scenario, share, extra, observation)).collect()
    }

    fn client_at(
        &self,
        number: usize,
        scenario: &Scenario,
        share: &Share,
        extra: &str,
        observation: Option<&Observation<'_>>,
    ) -> Result<Process, Fault> {
        let at = self.endpoints.get(share.endpoint).ok_or("no server for a client")?;
        let (host, port) = (at.ip(), at.port());
        let mut args = words(&format!(
            "test-client -h {host} -p {port} --mounts {} --common {} --receive-buffer {} decodeFormat {} -il",
            share.mounts, share.common, scenario.socket_buffer, scenario.decode
        ));
        args.push(share.items.clone());
        args.extend(service(share.service));
        args.extend(words(extra));
        if let Some(observation) = observation {
            args.extend(observing(&observation.received(number), &observation.client));
        }
        product::start("client", &place(scenario, &self.nodes, "client"), &args)
    }

    /// Starts WebSocket clients of all items at the first endpoint, in one process. They look at what comes for `seconds` after the last image
    /// and the warm-up; with no items they log in and are silent.
    ///
    /// # Errors
    /// They do not start.
    pub fn json_clients(
        &self,
        scenario: &Scenario,
        (connections, items): (u32, u32),
        (warmup, seconds): (f64, f64),
        observation: Option<&Observation<'_>>,
    ) -> Result<Process, Fault> {
        let port = self.endpoint()?.port();
        let mut args = words(&format!(
            "json-clients --port {port} --connections {connections} --items {items} --warmup {warmup} --seconds {seconds}"
        ));
        if items > 0 {
            args.extend(words(&format!("--socket-buffer {}", scenario.socket_buffer)));
        }
        if let Some(observation) = observation {
            args.extend(observing(&observation.received(0), &observation.client));
        }
        product::start_part("JSON clients", &place(scenario, &self.nodes, "client"), &args)
    }

    /// Where the first clients connect.
    ///
    /// # Errors
    /// Nowhere.
    pub fn endpoint(&self) -> Result<SocketAddr, Fault> {
        Ok(*self.endpoints.first().ok_or("no server for clients")?)
    }

    /// Where clients connect: each P2PS.
    pub fn endpoints(&self) -> &[SocketAddr] {
        &self.endpoints
    }

    /// Where non-interactive providers connect.
    ///
    /// # Errors
    /// Nowhere.
    pub fn publishers(&self) -> Result<SocketAddr, Fault> {
        Ok(self.nip.ok_or("no server for non-interactive providers")?)
    }

    /// The server that clients are connected to, where there is one.
    ///
    /// # Errors
    /// There is none.
    pub fn server(&self) -> Result<&Process, Fault> {
        self.servers.last().ok_or_else(|| Fault::Failed("the scenario needs a server".to_owned()))
    }

    /// Where the server that clients are connected to has its page.
    pub fn web(&self) -> Option<&str> {
        self.web.as_deref()
    }

    /// Processor time of all sources and of all servers so far, in nanoseconds.
    pub fn cpu(&self) -> [Option<u64>; 2] {
        let here = |all: &[Process]| {
            let used: Vec<u64> = all.iter().filter_map(Process::cpu).collect();
            (!used.is_empty() && used.len() == all.len()).then(|| used.iter().sum())
        };
        let servers = self.nodes.hosts().map_or_else(|| here(&self.servers), |hosts| hosts.cpu(&self.far));
        [here(&self.sources), servers]
    }

    /// Resident bytes of all sources, and of all servers; `None` for those that run on other machines.
    pub fn resident(&self) -> [Option<u64>; 2] {
        let of = |all: &[Process]| {
            let bytes: Option<Vec<u64>> = all.iter().map(|process| process.resident().ok()).collect();
            bytes.filter(|bytes| !bytes.is_empty()).map(|bytes| bytes.iter().sum())
        };
        let is_here = self.nodes.hosts().is_none();
        [of(&self.sources), of(&self.servers).filter(|_| is_here)]
    }

    /// NAKs that the hub's sources were sent, and datagrams that they sent again, as `quoteway lbmstat` says; `None` where there is no LBM
    /// between the processes, or where they run on other machines.
    pub fn repairs(&self) -> Option<[u64; 2]> {
        if self.nodes.hosts().is_some() {
            return None;
        }
        let mut sum = [0, 0];
        let mut any = false;
        let mut asked: Vec<Vec<String>> = ["distributor", "server"].map(|place| self.nodes.enter(place)).to_vec();
        asked.dedup();
        for enter in asked {
            let words = ["lbmstat", "--once", "--json"].map(str::to_owned);
            let mut process = product::start("lbmstat", &enter, &words).ok()?;
            let answer = process.json(PATIENCE).ok()?;
            for session in answer["sessions"].as_array()? {
                let of_ours = self.servers.iter().any(|server| session["pid"] == server.id());
                if session["kind"] == "sending" && of_ours {
                    any = true;
                    for (sum, name) in sum.iter_mut().zip(["naks", "retransmissions"]) {
                        *sum += session[name].as_u64().unwrap_or(0);
                    }
                }
            }
        }
        any.then_some(sum)
    }

    /// Gives all sources their part of so many updates a second; `None` is as many as go.
    ///
    /// # Errors
    /// One takes no commands.
    pub fn publish(&mut self, rate: Option<f64>) -> Result<(), Fault> {
        let count = self.sources.len() as f64;
        let text = rate.map_or("max".to_owned(), |rate| (rate / count).to_string());
        self.sources.iter_mut().try_for_each(|source| source.tell(&format!("ur {text}")))
    }

    /// Lets the sources end in order and waits for that: they write what they have recorded.
    ///
    /// # Errors
    /// One does not end.
    pub fn end_sources(&mut self) -> Result<(), Fault> {
        for source in &mut self.sources {
            source.tell("quit")?;
        }
        for source in &mut self.sources {
            while source.next_line(PATIENCE)?.is_some() {}
        }
        Ok(())
    }

    /// Starts the servers of a path, level by level: those behind the first have those before them for a provider. Clients connect to
    /// the last.
    fn start_levels(&mut self, scenario: &Scenario, sources: Vec<String>, path: u32) -> Result<(), Fault> {
        let mut providers = sources;
        for level in 1..=scenario.levels {
            let before = self.endpoints.len();
            self.start_servers(scenario, &providers, path)?;
            if level < scenario.levels {
                let above = self.endpoints.drain(before..);
                providers = above.map(|at| at.to_string()).collect();
            }
        }
        Ok(())
    }

    /// Starts what is between a source and its clients: Source Distributor and P2PS in one process, or each in its own, with an
    /// `rrcpd` between and several P2PSs where the scenario says so.
    fn start_servers(&mut self, scenario: &Scenario, sources: &[String], path: u32) -> Result<(), Fault> {
        let settings = self.settings(scenario)?;
        if !scenario.is_split() {
            let file = self.configuration("server", &format!("serve-{path}.toml"), &settings)?;
            let listen = format!(
                "serve --config {file} --interface {} --rssl-port 0 --nip-port 0 --route {source}",
                self.nodes.server(),
                source = sources.first().map_or("", String::as_str)
            );
            return self.start_endpoint(scenario, &listen);
        }
        let (near_hub, far_hub) = (self.nodes.distributor(), self.nodes.far_hub());
        let hub = Hub::new(path);
        let aeron = |is_p2ps: bool| hub.aeron(&scenario.hub, near_hub, is_p2ps);
        let text = |transport: &str, interface: IpAddr| hub.text(transport, interface) + &settings;
        let near = if scenario.source_rrcpd { "lbt-ipc" } else { &scenario.hub };
        let of_distributor = text(near, near_hub) + &aeron(false);
        let file = self.configuration("distributor", &format!("distributor-{path}.toml"), &of_distributor)?;
        let (mut address, mut started) = (String::new(), Vec::new());
        // Of one process with threads the file has the routes; else each source has a process.
        let (file, routes) = if scenario.source_threads > 0 {
            let text = of_distributor + &thread_routes(scenario, sources);
            (self.configuration("distributor", &format!("threads-{path}.toml"), &text)?, vec![String::new()])
        } else {
            (file, sources.iter().map(|source| format!("--route {source}")).collect())
        };
        for route in routes {
            let flags =
                format!("source-distributor --config {file} --interface {near_hub} --nip-port 0 --hub-port 0 {route}");
            let before = place(scenario, &self.nodes, "distributor");
            let mut distributor = self.start_server("Source Distributor", "distributor", &before, &flags)?;
            let named = named(&distributor.wait_for("ready ", PATIENCE)?.text, "hub=");
            address = named.ok_or_else(|| distributor.failed("names no address of its hub"))?;
            started.push(distributor);
        }
        if scenario.source_rrcpd {
            let name = format!("source-rrcpd-{path}.toml");
            let file = self.configuration("distributor", &name, &text(&scenario.hub, near_hub))?;
            let before = daemon_place(scenario, &self.nodes, "distributor");
            let daemon = self.start_server("source's rrcpd", "distributor", &before, &format!("rrcpd --config {file}"));
            let mut daemon = daemon?;
            daemon.wait_for("ready ", PATIENCE)?;
            self.servers.push(daemon);
        }
        // Behind a daemon P2PSs read the stream from shared memory.
        let near = if scenario.rrcpd { "lbt-ipc" } else { &scenario.hub };
        let of_p2ps = text(near, far_hub) + &aeron(true);
        let p2ps = self.configuration("server", &format!("p2ps-{path}.toml"), &of_p2ps)?;
        let daemon = if scenario.rrcpd {
            let name = format!("rrcpd-{path}.toml");
            let file = self.configuration("server", &name, &text(&scenario.hub, far_hub))?;
            let before = daemon_place(scenario, &self.nodes, "server");
            let mut daemon = self.start_server("rrcpd", "server", &before, &format!("rrcpd --config {file}"))?;
            daemon.wait_for("ready ", PATIENCE)?;
            Some(daemon)
        } else {
            None
        };
        self.servers.extend(started.into_iter().chain(daemon));
        // Only over TCP has a P2PS to be told where; by LBM it finds the hub by its name.
        let each = address.split(',').filter(|_| scenario.hub == "tcp");
        let join = each.map(|at| format!("--source-distributor {at}")).collect::<Vec<_>>().join(" ");
        let flags = format!("p2ps --config {p2ps} --interface {} --rssl-port 0 {join}", self.nodes.server());
        (0..scenario.p2ps).try_for_each(|_| self.start_endpoint(scenario, &flags))
    }

    /// What all servers of a scenario have in their configuration, the rights of its user included.
    fn settings(&self, scenario: &Scenario) -> Result<String, Fault> {
        let Scenario { server_toml, permissions, .. } = scenario;
        if permissions.is_empty() {
            return Ok(server_toml.clone());
        }
        let rights = self.configuration("server", "rights.toml", RIGHTS)?;
        Ok(format!("{server_toml}\n[permissions]\nmode = \"{permissions}\"\nrights_file = \"{rights}\"\n"))
    }

    /// Writes a configuration where a process of this role reads it; gives its path there.
    fn configuration(&self, role: &str, name: &str, text: &str) -> Result<String, Fault> {
        let far = self.nodes.hosts().map_or(Ok(None), |hosts| hosts.put(role, name, text))?;
        if let Some(path) = far {
            return Ok(path);
        }
        let file = self.folder.path().join(name);
        std::fs::write(&file, text).map_err(|e| format!("configuration {}: {e}", file.display()))?;
        Ok(file.display().to_string())
    }

    /// Starts a process of the system, on its node; `role` says on which, `before` leads there.
    fn start_server(
        &mut self,
        name: &str,
        role: &'static str,
        before: &[String],
        flags: &str,
    ) -> Result<Process, Fault> {
        let mut process = product::start(name, before, &words(flags))?;
        if self.nodes.hosts().is_some() {
            let line = process.wait_for("pid ", PATIENCE)?.text;
            let number = line.trim_start_matches("pid ").parse();
            self.far.push((role, number.map_err(|_| process.failed("has no number"))?));
        }
        Ok(process)
    }

    /// Starts a server for clients.
    fn start_endpoint(&mut self, scenario: &Scenario, flags: &str) -> Result<(), Fault> {
        let shards = if scenario.shards > 0 { format!(" --shards {}", scenario.shards) } else { String::new() };
        let before = place(scenario, &self.nodes, "server");
        let mut server = self.start_server("server", "server", &before, &format!("{flags}{shards}"))?;
        let ready = server.wait_for("ready ", PATIENCE)?.text;
        let address = named(&ready, "rssl=");
        self.nip = self.nip.or_else(|| named(&ready, "nip=")?.parse().ok());
        self.web = named(&ready, "http=");
        let port = address.as_deref().and_then(port_of).ok_or_else(|| server.failed("names no port"))?;
        self.servers.push(server);
        self.endpoints.push((self.nodes.server(), port).into());
        Ok(())
    }
}

/// The hub's part of a configuration. Each test has a hub of its own, so that tests that run beside it are not heard, and
/// so has each path.
struct Hub {
    name: String,
    path: u32,
}

impl Hub {
    fn new(path: u32) -> Self {
        let number = HUBS.fetch_add(1, Ordering::Relaxed);
        Self { name: format!("lab-{}-{number}", std::process::id()), path }
    }

    fn text(&self, transport: &str, interface: IpAddr) -> String {
        let Self { name, path } = self;
        let transport = if transport.starts_with(AERON) { "aeron" } else { transport };
        let mut text = format!("[hub]\nname = \"{name}\"\ntransport = \"{transport}\"\ninterface = \"{interface}\"\n");
        if *path > 0 {
            // Paths share no multicast group: what is for one wakes nobody of the other.
            let _ = writeln!(text, "multicast_address = \"239.101.3.{}\"", 10 + path);
        }
        text
    }

    /// The section `aeron` of a process, where the hub is Aeron's: the stream is the Source Distributor's, whose media driver is the P2PS's too where
    /// it goes through memory.
    fn aeron(&self, hub: &str, distributor: IpAddr, is_p2ps: bool) -> String {
        let Some(medium) = hub.strip_prefix(AERON) else { return String::new() };
        let port = 41_000 + std::process::id() % 10_000;
        let rest = match medium {
            "ipc" => {
                let driver = if is_p2ps { "external" } else { "embedded" };
                format!("driver = \"{driver}\"\ndir = \"/dev/shm/quoteway-aeron-{}\"\n", self.name)
            }
            "unicast" => format!("port = {port}\nsources = [\"{distributor}:{port}\"]\n"),
            _ => format!("port = {port}\n"),
        };
        format!("\n[aeron]\nmedium = \"{medium}\"\n{rest}")
    }
}

/// What a client watches, and where.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Share {
    /// Which of the endpoints, path after path.
    pub endpoint: usize,
    /// Which of the path's services.
    pub service: u32,
    /// Items, as a tool takes them.
    pub items: String,
    /// Connections.
    pub mounts: u32,
    /// Share of the items that all of them watch.
    pub common: f64,
    /// Streams of all connections together.
    pub streams: u64,
}

/// The watchlist of a scenario spread over its sources and endpoints. Each source has items of its own, and as many mounts as the scenario says; its
/// P2PSs have them in equal parts. Common items are everybody's, and each other item is one client's. With one mount there is a client for each P2PS, and
/// each has its part of the items.
pub fn shares(scenario: &Scenario) -> Vec<Share> {
    let endpoints = if scenario.is_split() { scenario.p2ps.max(1) } else { 1 };
    let is_alone = scenario.mounts == 1 && endpoints > 1;
    let common = if is_alone { 0.0 } else { scenario.common };
    let mounts = (scenario.mounts / endpoints).max(1);
    let mut all = Vec::new();
    let sources = scenario.sources().max(1);
    for source in 0..sources {
        let part = |of: u32, n: u32, count: u32| (u64::from(of) * u64::from(n) / u64::from(count)) as u32;
        let (from, to) = (part(scenario.items, source, sources), part(scenario.items, source + 1, sources));
        let path = source / scenario.distributors.max(1);
        let shared = (f64::from(to - from) * common).round() as u32;
        for endpoint in 0..endpoints {
            let own = to - from - shared;
            let (first, last) =
                (from + shared + part(own, endpoint, endpoints), from + shared + part(own, endpoint + 1, endpoints));
            let ranges = [(from, from + shared), (first, last)].into_iter().filter(|(a, b)| b > a);
            let items: Vec<String> = ranges.map(|(a, b)| format!("RDT{{{a}..{}}}", b - 1)).collect();
            all.push(Share {
                endpoint: (path * endpoints + endpoint) as usize,
                service: source % scenario.distributors.max(1),
                items: items.join(","),
                mounts,
                common: f64::from(shared) / f64::from((shared + last - first).max(1)),
                streams: u64::from(shared) * u64::from(mounts) + u64::from(last - first),
            });
        }
    }
    all
}

/// The word behind a name in a line like `ready nip=off hub=127.0.0.1:14004`.
fn named(line: &str, name: &str) -> Option<String> {
    line.split_whitespace().find_map(|word| word.strip_prefix(name)).map(str::to_owned)
}

/// The flags of a tool that records.
fn observing(file: &Path, plan: &Plan) -> Vec<String> {
    let mut args = vec!["--observe".to_owned(), file.display().to_string()];
    args.extend(words(&format!("--observe-every {} --observe-capacity {}", plan.every, plan.capacity)));
    args
}

/// The flags that name a source's service; the first has the tools' own name.
fn service(number: u32) -> Vec<String> {
    if number == 0 { Vec::new() } else { vec!["-S".to_owned(), format!("LAB_{number}")] }
}

/// The routes of a Source Distributor with threads: one for each source, whose service says which thread dials it.
fn thread_routes(scenario: &Scenario, sources: &[String]) -> String {
    let mut text = format!("\n[source_distributor]\nsource_thread_count = {}\n", scenario.source_threads);
    for (source, number) in sources.iter().zip(0..) {
        let name = service(number).pop().unwrap_or_else(|| FIRST_SERVICE.to_owned());
        let _ = writeln!(text, "\n[[route]]\nhost_list = [\"{source}\"]\nservice_list = [\"{name}\"]");
    }
    text
}

/// The words in front of a command that put it on its node and its processors.
fn place(scenario: &Scenario, nodes: &Nodes, process: &str) -> Vec<String> {
    place_as(scenario, nodes.enter(process), process)
}

/// The place of an `rrcpd` on the node of another process: the reports bind and prioritise daemons by themselves.
fn daemon_place(scenario: &Scenario, nodes: &Nodes, beside: &str) -> Vec<String> {
    place_as(scenario, nodes.enter(beside), "rrcpd")
}

fn place_as(scenario: &Scenario, mut words: Vec<String>, process: &str) -> Vec<String> {
    if let Some(processors) = scenario.processors(process) {
        words.extend(["taskset", "-c", processors].map(str::to_owned));
    }
    if let Some(priority) = scenario.priority_of(process) {
        words.extend(["chrt".to_owned(), "-f".to_owned(), priority.to_string()]);
    }
    words
}

fn port_of(address: &str) -> Option<u16> {
    address.rsplit(':').next()?.trim().parse().ok()
}

/// A command line without quoting.
pub fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::LOOPBACK;

    #[test]
    fn bound_processes_get_their_processors() {
        let text = "[a]\ntitle = 'A'\nkind = 'flow'\nrates = '1k'\nbind = 'source:0 server:1,3'";
        let scenario = crate::scenario::read(text).unwrap().remove(0);
        let nodes = Nodes::loopback();
        assert_eq!(place(&scenario, &nodes, "server"), ["taskset", "-c", "1,3"]);
        assert!(place(&scenario, &nodes, "client").is_empty());
        assert!(daemon_place(&scenario, &nodes, "server").is_empty(), "a daemon is bound by its own name");
    }

    fn scenario(text: &str) -> Scenario {
        let text = format!("[a]\ntitle = 'A'\nkind = 'flow'\nrates = '1k'\nitems = 1000\n{text}");
        crate::scenario::read(&text).unwrap().remove(0)
    }

    #[test]
    fn watchlists_are_spread_over_paths_and_p2pss() {
        let one = shares(&scenario("mounts = 100\ncommon = 0.5"));
        assert_eq!((one.len(), one[0].items.as_str(), one[0].mounts), (1, "RDT{0..499},RDT{500..999}", 100));
        assert_eq!(one[0].streams, 500 * 100 + 500);
        let four =
            shares(&scenario("mounts = 100\ncommon = 0.5\nsplit = true\np2ps = 4\nrrcpd = true\nhub = 'lbt-rm'"));
        assert_eq!((four.len(), four[1].mounts, four[1].items.as_str()), (4, 25, "RDT{0..499},RDT{625..749}"));
        assert_eq!(four.iter().map(|s| s.streams).sum::<u64>(), one[0].streams);
        assert!((four[0].common - 0.8).abs() < 1e-9);
        // Each client has its part, and all together the whole watchlist.
        let stacked = shares(&scenario("split = true\npaths = 2\np2ps = 2"));
        let items: Vec<&str> = stacked.iter().map(|s| s.items.as_str()).collect();
        assert_eq!(items, ["RDT{0..249}", "RDT{250..499}", "RDT{500..749}", "RDT{750..999}"]);
        // Several Source Distributors: a service each, whose clients are at the same endpoints.
        let services = shares(&scenario("split = true\ndistributors = 2\np2ps = 2\nrrcpd = true\nhub = 'lbt-rm'"));
        let at: Vec<(usize, u32, &str)> = services.iter().map(|s| (s.endpoint, s.service, s.items.as_str())).collect();
        let all = ["RDT{0..249}", "RDT{250..499}", "RDT{500..749}", "RDT{750..999}"];
        assert_eq!(at, [(0, 0, all[0]), (1, 0, all[1]), (0, 1, all[2]), (1, 1, all[3])]);
        let two = shares(&scenario("split = true\npaths = 2"));
        assert_eq!((two[0].items.as_str(), two[1].streams), ("RDT{0..499}", 500));
    }

    #[test]
    fn each_path_has_a_hub_of_its_own() {
        let (first, second) = (Hub::new(0), Hub::new(1));
        assert_ne!(first.name, second.name);
        assert_eq!(first.aeron("lbt-rm", LOOPBACK, true), "");
        let [own, other] = [false, true].map(|is_p2ps| first.aeron("aeron-ipc", LOOPBACK, is_p2ps));
        assert!(own.contains("embedded") && other.contains("external") && other.contains(&first.name), "{own} {other}");
        assert!(first.aeron("aeron-unicast", LOOPBACK, true).contains("sources = [\"127.0.0.1:"));
        assert!(first.text("aeron-unicast", LOOPBACK).contains("transport = \"aeron\""));
        assert!(
            !first.text("tcp", LOOPBACK).contains("multicast")
                && second.text("lbt-rm", LOOPBACK).contains("239.101.3.11")
        );
    }

    #[test]
    fn ports_are_found() {
        assert_eq!(port_of("127.0.0.1:14002"), Some(14_002));
        assert_eq!(port_of("nowhere"), None);
        assert_eq!(named("ready nip=off hub=10.0.0.1:7", "hub=").as_deref(), Some("10.0.0.1:7"));
        assert_eq!(named("ready", "hub="), None);
    }
}
