//! A deployment: Source Distributor, P2PSs and what joins them, each a process, configured by files.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use measure::process::Process;

use crate::hub::place::Place;

/// How the two sides are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// `quoteway serve`: both in one process.
    InProcess,
    /// The data stream on the unicast connections.
    Tcp,
    /// Over LBM, by reliable multicast.
    LbtRm,
    /// As [`Join::LbtRm`], what is for one P2PS on its own connection (`usePointToPointData`).
    LbtRmDirect,
    /// Over LBM, by reliable UDP.
    LbtRu,
    /// Over LBM's TCP.
    LbtTcp,
    /// Over shared memory.
    LbtIpc,
    /// Over Aeron, to each P2PS that asks for it, with a media driver in each process.
    #[cfg(feature = "aeron")]
    AeronUnicast,
    /// The same, to P2PSs that the Source Distributors name.
    #[cfg(feature = "aeron")]
    AeronDestinations,
    /// Over Aeron, to a group.
    #[cfg(feature = "aeron")]
    AeronMulticast,
    /// Over Aeron, in the memory of the first Source Distributor's media driver.
    #[cfg(feature = "aeron")]
    AeronIpc,
    /// As [`Join::AeronUnicast`], with a media driver for each side, in a process that does nothing else.
    #[cfg(feature = "aeron")]
    AeronExternal,
    /// Over shared memory to an `rrcpd`, by multicast to another one, and over shared memory again.
    Rrcpd,
}

impl Join {
    /// All that a hub of several processes has here.
    pub(crate) const ALL: &[Self] = &[
        Self::Tcp,
        Self::LbtRm,
        Self::LbtRmDirect,
        Self::LbtRu,
        Self::LbtTcp,
        Self::LbtIpc,
        Self::Rrcpd,
        #[cfg(feature = "aeron")]
        Self::AeronUnicast,
        #[cfg(feature = "aeron")]
        Self::AeronDestinations,
        #[cfg(feature = "aeron")]
        Self::AeronMulticast,
        #[cfg(feature = "aeron")]
        Self::AeronIpc,
        #[cfg(feature = "aeron")]
        Self::AeronExternal,
    ];

    /// The one of this name, such as `LbtRm`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|join| format!("{join:?}").eq_ignore_ascii_case(name))
    }

    /// As it stands in a configuration.
    fn transport(self) -> &'static str {
        match self {
            Self::InProcess | Self::Tcp => "tcp",
            Self::LbtRm | Self::LbtRmDirect => "lbt-rm",
            Self::LbtRu => "lbt-ru",
            Self::LbtTcp => "lbt-tcp",
            Self::LbtIpc | Self::Rrcpd => "lbt-ipc",
            #[cfg(feature = "aeron")]
            Self::AeronUnicast
            | Self::AeronDestinations
            | Self::AeronMulticast
            | Self::AeronIpc
            | Self::AeronExternal => "aeron",
        }
    }
}

/// A process of a site.
pub(crate) struct Part {
    name: String,
    place: Place,
    args: Vec<String>,
    process: Option<Process>,
    /// The line in which it said that it was ready.
    line: String,
}

impl Part {
    fn start(place: &Place, name: &str, args: &[&str]) -> Self {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        let (process, line) = place.start(name, &args);
        Self { name: name.into(), place: place.clone(), args, process: Some(process), line }
    }

    /// Starts it without any rights: as the user `nobody`.
    pub(crate) fn start_as_nobody(place: &Place, name: &str, args: &[&str]) -> Self {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        let (process, line) = place.start_as_nobody(name, &args);
        Self { name: name.into(), place: place.clone(), args, process: Some(process), line }
    }

    /// Its kind, and its number among those.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Nanoseconds of processor that it has used.
    pub(crate) fn cpu(&self) -> u64 {
        self.process.as_ref().and_then(Process::cpu).expect("it runs")
    }

    /// Waits for a line of its log with this in it.
    pub(crate) fn wait_for(&mut self, sign: &str) -> String {
        let process = self.process.as_mut().expect("it runs");
        process.wait_for(sign, crate::hub::PATIENCE.as_secs_f64()).unwrap_or_else(|fault| panic!("{fault:?}")).text
    }

    /// The answer of its HTTP port, once that is as wanted.
    pub(crate) fn wait_for_http(&self, path: &str, wanted: impl Fn(u16, &str) -> bool) -> String {
        let host = self.addr("http=http://").to_string();
        let begun = std::time::Instant::now();
        loop {
            let (status, _, body) = crate::http::ask(&host, "GET", path, "", &[]);
            if wanted(status, &body) {
                return body;
            }
            assert!(begun.elapsed() < crate::hub::PATIENCE, "{}: {path} is {status}: {body}", self.name);
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    /// An address of the ready line.
    pub(crate) fn addr(&self, key: &str) -> SocketAddr {
        let text = self.line.split(key).nth(1).and_then(|t| t.split([' ', '/']).next());
        text.and_then(|t| t.parse().ok()).unwrap_or_else(|| panic!("{}: no {key} in {}", self.name, self.line))
    }

    /// Ends it without a chance to say so.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again, with the same command line.
    pub(crate) fn restart(&mut self) {
        self.process = None;
        let (process, line) = self.place.start(&self.name, &self.args);
        (self.process, self.line) = (Some(process), line);
    }

    /// Stops it as a standstill does: it is there, and does nothing.
    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    /// A counter of its own report, as `quoteway lbmstat` reads it, summed over the things of this kind.
    pub(crate) fn counter(&self, kind: &str, counter: &str) -> u64 {
        let id = self.process.as_ref().expect("it runs").id().to_string();
        let begun = std::time::Instant::now();
        // A busy process may be late with its answer.
        let things: Vec<serde_json::Value> = loop {
            let text = self.place.run(&["lbmstat", "--once", "--json", "--pid", &id]);
            let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let all = report["sessions"].as_array().expect("a list");
            let things: Vec<_> = all.iter().filter(|t| t["kind"] == kind).cloned().collect();
            if !things.is_empty() {
                break things;
            }
            assert!(begun.elapsed() < crate::hub::PATIENCE, "{}: no {kind} in {text}", self.name);
        };
        things.iter().map(|t| t[counter].as_u64().unwrap_or_else(|| panic!("no {counter} in {t}"))).sum()
    }

    fn signal(&self, signal: &str) {
        let id = self.process.as_ref().expect("it runs").id().to_string();
        let status = Command::new("kill").args([signal, &id]).status().expect("kill runs");
        assert!(status.success(), "{}: kill {signal}", self.name);
    }
}

impl Drop for Part {
    /// A test that has failed shows what its processes said.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        while let Some(Ok(Some(line))) = self.process.as_mut().map(|p| p.next_line(0.1)) {
            eprintln!("{}: {}", self.name, line.text);
        }
    }
}

/// Settings of a site beside those that all have.
#[derive(Default)]
pub(crate) struct Tuning {
    /// Lines of the section `hub`.
    pub(crate) hub: String,
    /// Silence that is borne, where it is another than a second.
    pub(crate) peer_timeout_ms: Option<u32>,
    /// Pause between heartbeats, where it is another than 100 ms.
    pub(crate) heartbeat_interval_ms: Option<u32>,
    /// LBM options.
    pub(crate) lbm: &'static [&'static str],
    /// The Source Distributors stand by for each other; whether they number alike. Then P2PSs have an HTTP port, too.
    pub(crate) pairs: Option<bool>,
    /// Lines of the section `p2ps`. With any P2PSs have an HTTP port.
    pub(crate) p2ps: &'static str,
    /// What [`network`] gave; another network for each site without it.
    pub(crate) network: Option<Vec<String>>,
}

impl Tuning {
    /// The section `p2ps`. The Source Distributors have these addresses, in quotes.
    fn of_p2ps(&self, hubs: &[String]) -> String {
        let names: Vec<&str> = hubs.iter().map(|hub| hub.trim_matches('"')).collect();
        let pair = names.join("|");
        let of_pair = |numbered| {
            format!("source_distributor_pairs = [\"{pair}\"]\nsource_distributor_sequence_numbers = {numbered}\n")
        };
        format!("\n[p2ps]\n{}{}", self.pairs.map(of_pair).unwrap_or_default(), self.p2ps)
    }

    fn times(&self, config: &str) -> String {
        let mut text = config.to_owned();
        if let Some(ms) = self.peer_timeout_ms {
            text = text.replace("peer_timeout_ms = 1000", &format!("peer_timeout_ms = {ms}"));
        }
        if let Some(ms) = self.heartbeat_interval_ms {
            text = text.replace("heartbeat_interval_ms = 100\n", &format!("heartbeat_interval_ms = {ms}\n"));
        }
        text
    }
}

/// The processes of a site.
pub(crate) struct Site {
    /// Source Distributors; with [`Join::InProcess`] the server.
    pub(crate) distributors: Vec<Part>,
    pub(crate) p2pss: Vec<Part>,
    /// With [`Join::Rrcpd`] and [`Join::AeronExternal`], daemons or media drivers: that of the Source Distributors, that of the P2PSs.
    pub(crate) relays: Vec<Part>,
    files: tempfile::TempDir,
}

/// Which ports are free is known before a process starts, so that it gets the same ones when it starts again.
fn free_port(place: &Place) -> String {
    if let Place::Host { .. } = place {
        return (15_000 + PORTS.fetch_add(1, Ordering::Relaxed) % 10_000).to_string();
    }
    measure::ports::reserve().to_string()
}

static PORTS: AtomicU16 = AtomicU16::new(0);

impl Site {
    /// So many P2PSs, and a Source Distributor for each list of providers, all in one place.
    pub(crate) fn start(join: Join, place: &Place, providers: &[&[SocketAddr]], p2pss: usize) -> Self {
        Self::across(join, (place, place), providers, p2pss)
    }

    /// As [`Site::start`], the Source Distributors in one place and the P2PSs in another.
    pub(crate) fn across(join: Join, places: (&Place, &Place), providers: &[&[SocketAddr]], p2pss: usize) -> Self {
        Self::tuned(join, &Tuning::default(), places, providers, p2pss)
    }

    /// As [`Site::across`], with parameters of its own.
    pub(crate) fn tuned(
        join: Join,
        tuning: &Tuning,
        (near_source, near_consumers): (&Place, &Place),
        providers: &[&[SocketAddr]],
        p2pss: usize,
    ) -> Self {
        let files = tempfile::tempdir().expect("a folder");
        let mut site = Self { distributors: Vec::new(), p2pss: Vec::new(), relays: Vec::new(), files };
        let mut shared = tuning.network.clone().unwrap_or_else(network);
        shared.extend(tuning.lbm.iter().map(|line| (*line).to_owned()));
        let options = |place: &Place, side: u16| {
            let mut options = shared.clone();
            options.push(format!("context default_interface {}", place.address()));
            // Two hosts on one machine: what is in the memory of one is not in that of the other.
            options.extend((join == Join::Rrcpd).then(|| local_port(side)));
            options
        };
        if join == Join::InProcess {
            return site.with_server(near_source, providers[0]);
        }
        if join == Join::Rrcpd {
            for (side, place) in [near_source, near_consumers].into_iter().enumerate() {
                site.add_relay(place, tuning, &shared, side as u16);
            }
        }
        let mut hubs = Vec::new();
        let aeron = Aeron::new(join, (near_source, providers.len()), (near_consumers, p2pss));
        site.add_drivers(&aeron, &[near_source, near_consumers]);
        for (number, routes) in providers.iter().enumerate() {
            let text = aeron.interface(near_source) + &tuning.hub;
            let text =
                tuning.times(&config(join, routes, &text, &options(near_source, 0))) + &aeron.of_distributor(number);
            let (config, port) = (site.file(&format!("sd{number}"), &text), free_port(near_source));
            let interface = near_source.address().to_string();
            let mut args = vec!["source-distributor", "--config", &config, "--interface", &interface];
            args.extend(["--nip-port", "0", "--hub-port", &port]);
            let part = Part::start(near_source, &format!("distributor {number}"), &args);
            hubs.push(format!("{:?}", part.addr("hub=").to_string()));
            site.distributors.push(part);
        }
        for number in 0..p2pss {
            let own = tuning.hub.contains("source_distributors");
            let known = if own { String::new() } else { format!("source_distributors = [{}]\n", hubs.join(", ")) };
            let text = known + &aeron.interface(near_consumers) + &tuning.hub;
            let text = tuning.times(&config(join, &[], &text, &options(near_consumers, 1)))
                + &aeron.of_p2ps(number)
                + &tuning.of_p2ps(&hubs);
            let (config, port) = (site.file(&format!("p2ps{number}"), &text), free_port(near_consumers));
            let interface = near_consumers.address().to_string();
            let mut args = vec!["p2ps", "--config", &config, "--interface", &interface, "--rssl-port", &port];
            if tuning.pairs.is_some() || !tuning.p2ps.is_empty() {
                args.extend(["--http-port", "0"]);
            }
            site.p2pss.push(Part::start(near_consumers, &format!("p2ps {number}"), &args));
        }
        site
    }

    fn with_server(mut self, place: &Place, routes: &[SocketAddr]) -> Self {
        let config = self.file("serve", &config(Join::InProcess, routes, "", &[]));
        let (interface, port) = (place.address().to_string(), free_port(place));
        let args = ["serve", "--config", &config, "--interface", &interface, "--nip-port", "0", "--rssl-port", &port];
        self.distributors.push(Part::start(place, "server", &args));
        self
    }

    fn add_relay(&mut self, place: &Place, tuning: &Tuning, shared: &[String], side: u16) {
        let local = [local_port(side)];
        let text = format!(
            "[hub]\ntransport = \"lbt-rm\"\ninterface = \"{}\"\nlbm_options = {shared:?}\n{}[rrcpd]\nlocal_lbm_options = {local:?}\n",
            place.address(),
            tuning.hub
        );
        let config = self.file(&format!("rrcpd{side}"), &text);
        self.relays.push(Part::start(
            place,
            &format!("rrcpd {side}"),
            &["rrcpd", "--config", &config, "--http-port", "0"],
        ));
    }

    /// Media drivers in processes that have nothing else to do: Source Distributors of a hub that nobody joins.
    fn add_drivers(&mut self, aeron: &Aeron, places: &[&Place]) {
        for (side, place) in places.iter().enumerate() {
            let Some(section) = aeron.of_driver(side) else { return };
            let text = format!(
                "[hub]\ntransport = \"aeron\"\nname = \"nobody's\"\nheartbeat_interval_ms = 100\npeer_timeout_ms = 1000\n{section}"
            );
            let (config, port) = (self.file(&format!("driver{side}"), &text), free_port(place));
            let interface = place.address().to_string();
            let mut args = vec!["source-distributor", "--config", &config, "--interface", &interface];
            args.extend(["--nip-port", "0", "--hub-port", &port]);
            self.relays.push(Part::start(place, &format!("driver {side}"), &args));
        }
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.files.path().join(format!("{name}.toml"));
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }

    /// A process by its number: P2PSs first, then Source Distributors, then daemons.
    pub(crate) fn part(&mut self, number: usize) -> &mut Part {
        let Self { distributors, p2pss, relays, .. } = self;
        p2pss.iter_mut().chain(distributors).chain(relays).nth(number).expect("counted")
    }

    /// Where consumers of a P2PS connect.
    pub(crate) fn rssl(&self, p2ps: usize) -> SocketAddr {
        self.p2pss.get(p2ps).unwrap_or(&self.distributors[0]).addr("rssl=")
    }
}

/// Aeron's settings for the processes of a site.
struct Aeron {
    join: Join,
    /// `HOST:PORT` of the Source Distributors, and of the P2PSs.
    ends: [Vec<String>; 2],
    /// Apart from all other sites.
    number: u32,
}

impl Aeron {
    fn new(join: Join, distributors: (&Place, usize), p2pss: (&Place, usize)) -> Self {
        let number = std::process::id() * 128 + u32::from(SITES.load(Ordering::Relaxed)) % 128;
        let end = |(place, count): (&Place, usize)| {
            let one = |_| format!("{}:{}", place.address(), free_udp_port(place));
            (0..count).map(one).collect()
        };
        Self { join, ends: [end(distributors), end(p2pss)], number }
    }

    #[cfg(not(feature = "aeron"))]
    fn section(&self, _: usize, _: usize) -> String {
        let _ = (&self.ends, self.number);
        String::new()
    }

    /// The section `aeron` of a process.
    #[cfg(feature = "aeron")]
    fn section(&self, side: usize, number: usize) -> String {
        let port = || self.ends[side][number].rsplit(':').next().expect("a port").to_owned();
        let lines = match (self.join, side) {
            (Join::AeronUnicast, 0) => format!("port = {}", port()),
            (Join::AeronUnicast, _) => format!("port = {}\nsources = {:?}", port(), self.ends[0]),
            (Join::AeronExternal, 0) => format!("port = {}\ndriver = \"external\"\ndir = {:?}", port(), self.dir(0)),
            (Join::AeronExternal, _) => {
                let (sources, dir) = (&self.ends[0], self.dir(1));
                format!("port = {}\nsources = {sources:?}\ndriver = \"external\"\ndir = {dir:?}", port())
            }
            (Join::AeronDestinations, 0) => format!("destinations = {:?}", self.ends[1]),
            (Join::AeronDestinations, _) => format!("port = {}", port()),
            (Join::AeronMulticast, _) => format!("medium = \"multicast\"\nport = {}", 20_000 + self.number % 12_000),
            (Join::AeronIpc, _) => {
                let driver = if (side, number) == (0, 0) { "embedded" } else { "external" };
                format!(
                    "medium = \"ipc\"\ndriver = \"{driver}\"\ndir = \"/dev/shm/quoteway-aeron-test-{}\"",
                    self.number
                )
            }
            _ => return String::new(),
        };
        // Many tests on few processors: their memory adds up too.
        format!("\n[aeron]\nterm_bytes = 4194304\n{lines}\n")
    }

    /// The directory of a side's media driver.
    #[cfg(feature = "aeron")]
    fn dir(&self, side: usize) -> String {
        format!("/dev/shm/quoteway-aeron-test-{}-{side}", self.number)
    }

    /// The section `aeron` of the process that is a side's media driver, where there is one.
    #[cfg(feature = "aeron")]
    fn of_driver(&self, side: usize) -> Option<String> {
        let dir = (self.join == Join::AeronExternal).then(|| self.dir(side))?;
        Some(format!("\n[aeron]\nmedium = \"ipc\"\nterm_bytes = 4194304\ndir = {dir:?}\n"))
    }

    #[cfg(not(feature = "aeron"))]
    fn of_driver(&self, side: usize) -> Option<String> {
        let _ = (self.number, side);
        None
    }

    /// Settings that LBM has an option for.
    fn interface(&self, place: &Place) -> String {
        let is_aeron = self.join.transport() == "aeron";
        if is_aeron { format!("interface = \"{}\"\n", place.address()) } else { String::new() }
    }

    fn of_distributor(&self, number: usize) -> String {
        self.section(0, number)
    }

    fn of_p2ps(&self, number: usize) -> String {
        self.section(1, number)
    }
}

/// A UDP port of a place that nobody has; it is known before its process starts.
fn free_udp_port(place: &Place) -> String {
    if let Place::Host { .. } = place {
        return (25_000 + PORTS.fetch_add(1, Ordering::Relaxed) % 7_000).to_string();
    }
    measure::ports::reserve().to_string()
}

/// Topic resolution of a host's shared memory.
fn local_port(side: u16) -> String {
    format!("context resolver_multicast_port {}", 31_000 + 2 * (std::process::id() % 5_000) as u16 + side)
}

static SITES: AtomicU16 = AtomicU16::new(0);

/// LBM options that share no group, port or name with any other test: of this process and call.
pub(crate) fn network() -> Vec<String> {
    let number = u32::from(SITES.fetch_add(1, Ordering::Relaxed));
    let process = std::process::id();
    let (a, b, c) = (process >> 8 & 255, process & 255, number & 127);
    let port = 20_000 + process % 10_000 + number;
    let mut lines = vec![
        format!("context resolver_multicast_address 239.{a}.{b}.{c}"),
        format!("context resolver_multicast_port {port}"),
        format!("source transport_lbtrm_multicast_address 239.{a}.{b}.{}", 128 + c),
        format!("source transport_lbtrm_destination_port {port}"),
        format!("source transport_lbtipc_id {}", 1 + (process * 128 + number) % 20_000),
    ];
    for pool in [
        "context transport_lbtrm_source_port",
        "context transport_lbtru_port",
        "receiver transport_lbtru_port",
        "context transport_tcp_port",
        "context request_tcp_port",
        "context resolver_unicast_port",
    ] {
        lines.extend(["low", "high"].map(|end| format!("{pool}_{end} 0")));
    }
    lines
}

/// A configuration with short times, so that tests need not wait.
fn config(join: Join, routes: &[SocketAddr], hub: &str, options: &[String]) -> String {
    let (transport, direct) = (join.transport(), join == Join::LbtRmDirect);
    let routes: Vec<String> = routes.iter().map(|r| format!("[[route]]\nhost_list = [\"{r}\"]\n")).collect();
    format!(
        "[source_distributor]\nrecovery_interval_ms = 100\nrequest_timeout_s = 2\n{}[hub]\ntransport = \"{transport}\"\n\
         heartbeat_interval_ms = 100\npeer_timeout_ms = 1000\nlease_ms = 3000\n\
         use_point_to_point_data = {direct}\n\
         lbm_options = {options:?}\n{hub}",
        routes.concat()
    )
}
