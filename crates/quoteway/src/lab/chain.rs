//! The processes of a test: source, servers, clients; where they run, and how they find each other.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use super::nodes::Nodes;
use super::observer::Plan;
use super::process::{Fault, Process};
use super::scenario::Scenario;

/// How long a process may say nothing.
pub const PATIENCE: f64 = 60.0;

/// Hubs of this process so far.
static HUBS: AtomicU32 = AtomicU32::new(0);

/// How the source paces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each update at a time of its own.
    Even,
    /// So many bursts a second.
    Bursts(u32),
}

/// What both ends record, and where it is put.
#[derive(Clone, Debug)]
pub struct Observation<'a> {
    /// A folder for the records of the source (`sent`) and the client (`received`).
    pub folder: &'a Path,
    /// Memory and choice of the source.
    pub source: Plan,
    /// Memory and choice of the client.
    pub client: Plan,
}

/// The processes, started.
pub struct Chain {
    /// The source, which publishes nothing until it is given a rate.
    pub source: Process,
    /// The servers between source and clients, if there are any.
    pub servers: Vec<Process>,
    /// Where clients connect.
    address: (IpAddr, u16),
    nodes: Nodes,
    /// Configuration files of the servers.
    _folder: TempDir,
}

impl Chain {
    /// Starts source and servers.
    ///
    /// # Errors
    /// One of them does not start, or the nodes cannot be made.
    pub fn start(
        scenario: &Scenario,
        nodes: Nodes,
        pace: Pace,
        observation: Option<&Observation<'_>>,
    ) -> Result<Self, Fault> {
        let mut args = words(&format!("sink-driven-src --bind {} -N 0 -K -tcpnodel -U 0 -I 3600", nodes.source()));
        args.extend(words(&format!(
            "--size {} --idle {} --send-buffer {}",
            scenario.size, scenario.idle, scenario.socket_buffer
        )));
        match pace {
            Pace::Even => args.push("--smooth".to_owned()),
            Pace::Bursts(per_second) => args.extend(words(&format!("-tps {per_second}"))),
        }
        match observation {
            // As the reports stamp: ten updates a second.
            Some(observation) => {
                args.extend(words("-ts -UL 10"));
                args.extend(observing(&observation.folder.join("sent"), &observation.source));
            }
            None if scenario.stamp_every == 1 => args.push("--stamp-all".to_owned()),
            None => args.extend(words(&format!("--stamp-every {}", scenario.stamp_every))),
        }
        let folder = tempfile::tempdir().map_err(|e| format!("no folder for configurations: {e}"))?;
        let mut source = Process::quoteway("source", &place(scenario, &nodes, "source"), &args)?;
        let line = source.wait_for("is published on", PATIENCE)?.text;
        let address = line.split(" on ").nth(1).and_then(|t| t.split(';').next());
        let address = address.ok_or_else(|| source.failed("names no address"))?.to_owned();
        if !scenario.server {
            let port = port_of(&address).ok_or_else(|| source.failed("names no port"))?;
            return Ok(Self { source, servers: Vec::new(), address: (nodes.source(), port), nodes, _folder: folder });
        }
        let (servers, port) = start_servers(scenario, &nodes, &address, folder.path())?;
        Ok(Self { source, servers, address: (nodes.server(), port), nodes, _folder: folder })
    }

    /// Starts a client; `extra` are more of its flags.
    ///
    /// # Errors
    /// It does not start.
    pub fn client(
        &self,
        scenario: &Scenario,
        items: &str,
        extra: &str,
        observation: Option<&Observation<'_>>,
    ) -> Result<Process, Fault> {
        let (host, port) = self.address;
        let mut args = words(&format!(
            "test-client -h {host} -p {port} --mounts {} --common {} --receive-buffer {} decodeFormat {} -il",
            scenario.mounts, scenario.common, scenario.socket_buffer, scenario.decode
        ));
        args.push(items.to_owned());
        args.extend(words(extra));
        if let Some(observation) = observation {
            args.extend(observing(&observation.folder.join("received"), &observation.client));
        }
        Process::quoteway("client", &place(scenario, &self.nodes, "client"), &args)
    }

    /// The server that clients are connected to, where there is one.
    ///
    /// # Errors
    /// There is none.
    pub fn server(&self) -> Result<&Process, Fault> {
        self.servers.last().ok_or_else(|| Fault::Failed("the scenario needs a server".to_owned()))
    }

    /// Processor time of the source and of all servers so far, in nanoseconds.
    pub fn cpu(&self) -> [Option<u64>; 2] {
        let servers: Vec<u64> = self.servers.iter().filter_map(Process::cpu).collect();
        let all = (!servers.is_empty() && servers.len() == self.servers.len()).then(|| servers.iter().sum());
        [self.source.cpu(), all]
    }

    /// Lets the source end in order and waits for that: it writes what it has recorded.
    ///
    /// # Errors
    /// It does not end.
    pub fn end_source(&mut self) -> Result<(), Fault> {
        self.source.tell("quit")?;
        while self.source.next_line(PATIENCE)?.is_some() {}
        Ok(())
    }
}

/// Starts what is between source and clients: Source Distributor and P2PS in one process, or each in its own.
fn start_servers(
    scenario: &Scenario,
    nodes: &Nodes,
    source: &str,
    folder: &Path,
) -> Result<(Vec<Process>, u16), Fault> {
    let mut servers = Vec::new();
    let mut args = if scenario.split || scenario.nodes == 3 {
        // A hub of its own for each test, so that tests that run beside it are not heard.
        let number = HUBS.fetch_add(1, Ordering::Relaxed);
        let hub = |interface: IpAddr| {
            let (transport, process) = (&scenario.hub, std::process::id());
            format!(
                "[hub]\nname = \"lab-{process}-{number}\"\ntransport = \"{transport}\"\ninterface = \"{interface}\"\n"
            )
        };
        let [(near, near_text), (far, far_text)] = [("distributor", nodes.distributor()), ("p2ps", nodes.far_hub())]
            .map(|(name, interface)| (folder.join(name).with_extension("toml"), hub(interface)));
        std::fs::write(&near, near_text)
            .and_then(|()| std::fs::write(&far, far_text))
            .map_err(|e| format!("configuration of the servers: {e}"))?;
        let flags = format!(
            "source-distributor --config {} --interface {} --nip-port 0 --hub-port 0 --route {source}",
            near.display(),
            nodes.distributor()
        );
        let place = place(scenario, nodes, "distributor");
        let mut distributor = Process::quoteway("Source Distributor", &place, &words(&flags))?;
        let hub = named(&distributor.wait_for("ready ", PATIENCE)?.text, "hub=");
        let hub = hub.ok_or_else(|| distributor.failed("names no address of its hub"))?;
        servers.push(distributor);
        // Only over TCP has a P2PS to be told where; by LBM it finds the hub by its name.
        let join = if scenario.hub == "tcp" { format!("--source-distributor {hub}") } else { String::new() };
        words(&format!("p2ps --config {} --interface {} --rssl-port 0 {join}", far.display(), nodes.server()))
    } else {
        let listen = format!("serve --interface {} --rssl-port 0 --nip-port 0 --route {source}", nodes.server());
        words(&listen)
    };
    if scenario.shards > 0 {
        args.extend(words(&format!("--shards {}", scenario.shards)));
    }
    let mut server = Process::quoteway("server", &place(scenario, nodes, "server"), &args)?;
    let address = named(&server.wait_for("ready ", PATIENCE)?.text, "rssl=");
    let port = address.as_deref().and_then(port_of).ok_or_else(|| server.failed("names no port"))?;
    servers.push(server);
    Ok((servers, port))
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

/// The words in front of a command that put it on its node and its processors.
fn place(scenario: &Scenario, nodes: &Nodes, process: &str) -> Vec<String> {
    let mut words = nodes.enter(process);
    if let Some(processors) = scenario.processors(process) {
        words.extend(["taskset", "-c", processors].map(str::to_owned));
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

/// Everything is on loopback.
pub const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_processes_get_their_processors() {
        let text = "[a]\ntitle = 'A'\nkind = 'flow'\nrates = '1k'\nbind = 'source:0 server:1,3'";
        let scenario = super::super::scenario::read(text, &[]).unwrap().remove(0);
        let nodes = Nodes::loopback();
        assert_eq!(place(&scenario, &nodes, "server"), ["taskset", "-c", "1,3"]);
        assert!(place(&scenario, &nodes, "client").is_empty());
    }

    #[test]
    fn ports_are_found() {
        assert_eq!(port_of("127.0.0.1:14002"), Some(14_002));
        assert_eq!(port_of("nowhere"), None);
        assert_eq!(named("ready nip=off hub=10.0.0.1:7", "hub=").as_deref(), Some("10.0.0.1:7"));
        assert_eq!(named("ready", "hub="), None);
    }
}
