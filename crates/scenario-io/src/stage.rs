//! A run of a scenario: its server on a port of this machine, the client's process, and time.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use net::tcp::{Close, ConnId, Event, RecvOutcome, Scratch, Tcp, TcpConfig};
use rssl::{ClientConfig, ServerConfig};
use scenario::file::{Judges, ScenarioFile};
use scenario::program::Deed;
use scenario::verdict::Verdict;
use scenario::{Act, Play};

use crate::client::{Client, Start};
use crate::listening::{Port, Server, options};
use crate::peer::{Peer, Received};
use crate::recording::Recording;

/// How a run is made.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Seed of all that is random in the scenario.
    pub seed: u64,
    /// Where the server listens; port 0 is one that is free.
    pub listen: SocketAddr,
    /// Lines of the client's standard error are thrown away.
    pub quiet: bool,
    /// So long is waited for a client that starts, s.
    pub start_s: f64,
    /// The run ends after so many seconds whatever happens, beside the time that the client takes to start.
    pub most_s: f64,
    /// Each step is told as it begins.
    pub steps: bool,
    /// The run is recorded here.
    pub record: Option<std::path::PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 1,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            quiet: false,
            start_s: 30.0,
            most_s: 300.0,
            steps: false,
            record: None,
        }
    }
}

/// How often memory and life of the client are looked at, nanoseconds.
const LOOK_EVERY: u64 = 250_000_000;
/// The number under which the client's output is watched.
const OUTPUT: u32 = 1;
/// How often a pace is kept, nanoseconds.
const PACE_EVERY: u64 = 5_000_000;

/// Runs a scenario against a client that is started for it.
///
/// # Errors
/// The port cannot be listened on, the client cannot be started, the recording cannot be written, or the scenario has a step that there is not;
/// the text says which.
pub fn run(scenario: &ScenarioFile, start: &Start, settings: &Settings) -> Result<Verdict, String> {
    let mut stage = Stage::new(scenario, settings)?;
    let addresses: Vec<SocketAddr> = stage.servers.iter().map(|server| server.port.addr).collect();
    let client = Client::start(start, &addresses, settings.quiet);
    stage.client = Some(client.map_err(|error| format!("{}: {error}", start.0.first().map_or("", String::as_str)))?);
    stage.verdict(&mut |_, _| true)
}

/// Runs a scenario against whoever connects. `watch` sees time and play each time that something may have happened; the run ends where it gives
/// `false`.
///
/// # Errors
/// As of [`run`], but for the client.
pub fn run_watched(
    scenario: &ScenarioFile,
    settings: &Settings,
    watch: &mut dyn FnMut(u64, &Play) -> bool,
) -> Result<Verdict, String> {
    Stage::new(scenario, settings)?.verdict(watch)
}

struct Stage<'a> {
    scenario: &'a ScenarioFile,
    settings: &'a Settings,
    play: Play,
    tcp: Tcp,
    servers: Vec<Server>,
    config: Arc<ServerConfig>,
    peers: BTreeMap<u32, Peer>,
    /// Connections that are being made.
    dials: Vec<ConnId>,
    next: u32,
    began_ns: u64,
    client: Option<Client>,
    recording: Recording,
    look_at_ns: u64,
    said: Option<usize>,
}

impl<'a> Stage<'a> {
    fn new(scenario: &'a ScenarioFile, settings: &'a Settings) -> Result<Self, String> {
        let wall_ns = net::clock::wall();
        let mut play =
            Play::new(scenario, settings.seed, wall_ns / 1_000_000_000).map_err(|error| error.to_string())?;
        play.set_start((settings.start_s * 1e9) as u64);
        let mut tcp = Tcp::new(TcpConfig::default()).map_err(|error| format!("no sockets: {error}"))?;
        let is_dialled = scenario.judges == Judges::Provider;
        let mut servers = Vec::new();
        for number in 0..play.servers() {
            // Where one port is named, a second server has one of its own choice.
            let at = if number == 0 { settings.listen } else { SocketAddr::new(settings.listen.ip(), 0) };
            let server = if is_dialled { Port::free(at).map(Server::elsewhere) } else { Server::listen(at, &mut tcp) };
            servers.push(server.map_err(|error| format!("{at} cannot be listened on: {error}"))?);
        }
        let addr = servers[0].port.addr;
        let ping = scenario.ping_timeout_s;
        let config = ServerConfig {
            ping_timeout_min_s: ping,
            ping_timeout_max_s: ping,
            seed: settings.seed,
            component: format!("quoteway scenario {}", env!("CARGO_PKG_VERSION")),
            ..ServerConfig::default()
        };
        Ok(Self {
            scenario,
            settings,
            play,
            tcp,
            servers,
            config: Arc::new(config),
            peers: BTreeMap::new(),
            dials: Vec::new(),
            next: 0,
            began_ns: net::clock::now(),
            client: None,
            recording: Recording::new(settings.record.as_deref(), &scenario.name, addr, wall_ns, is_dialled),
            look_at_ns: 0,
            said: None,
        })
    }

    /// Plays, and gives the verdict.
    fn verdict(mut self, watch: &mut dyn FnMut(u64, &Play) -> bool) -> Result<Verdict, String> {
        let played = self.play(watch);
        played.map_err(|error| format!("{}: {error}", self.scenario.file))?;
        let took_ns = self.now();
        let mut verdict = Verdict::of(self.scenario, &self.play, self.settings.seed, took_ns);
        verdict.recording = self.recording.finish().map_err(|error| format!("the recording: {error}"))?;
        Ok(verdict)
    }

    fn now(&self) -> u64 {
        net::clock::now() - self.began_ns
    }

    fn play(&mut self, watch: &mut dyn FnMut(u64, &Play) -> bool) -> io::Result<()> {
        if let Some(output) = self.client.as_ref().and_then(Client::output) {
            self.tcp.watch(output, OUTPUT)?;
        }
        let (mut events, mut scratch) = (Vec::new(), Scratch::default());
        let most_ns = ((self.settings.start_s + self.settings.most_s) * 1e9) as u64;
        loop {
            if net::signal::stop_requested() > 0 {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "stopped by a signal before it was over"));
            }
            let now = self.now();
            self.play.advance(now);
            self.act(now)?;
            self.say();
            if !watch(now, &self.play) || self.play.end().is_some() || now >= most_ns {
                break;
            }
            self.ping(now);
            if now >= self.look_at_ns && !self.look(now)? {
                break;
            }
            let due = self.flush(now).unwrap_or(now);
            self.tcp.poll(Some(Duration::from_nanos(due.saturating_sub(self.now()))), &mut events)?;
            let now = self.now();
            for event in &events {
                self.event(now, *event, &mut scratch)?;
            }
        }
        if self.client.as_mut().is_some_and(|client| matches!(client.ended(), Ok(None))) {
            self.play.judge_mut().is_alive();
        }
        Ok(())
    }

    /// Sends what waits; when something is due next.
    fn flush(&mut self, now: u64) -> Option<u64> {
        let mut paced = None;
        let mut pings = None;
        for peer in self.peers.values_mut() {
            let server = &self.servers[peer.server];
            if !server.talks {
                continue;
            }
            peer.flush(now, &mut self.tcp, server.pace, &mut self.recording);
            if server.pace.is_some() && peer.waits() {
                paced = Some(now + PACE_EVERY);
            }
            if server.pings {
                pings = [pings, peer.due(now)].into_iter().flatten().min();
            }
        }
        [self.play.due(), Some(self.look_at_ns), paced, pings].into_iter().flatten().min()
    }

    /// Says which step is being done, when it has begun.
    fn say(&mut self) {
        let step = self.play.step();
        if self.settings.steps
            && let Some(step) = step.filter(|step| self.said != Some(step.line))
        {
            let text = format!("{:>8.3} s  {}: {}\n", self.now() as f64 / 1e9, self.scenario.name, step.text);
            self.said = Some(step.line);
            // Nobody who reads that any more is no reason to end a run.
            let _ = io::Write::write_all(&mut io::stderr(), text.as_bytes());
        }
    }

    /// Looks at the client's process. `false`: it has ended.
    fn look(&mut self, now: u64) -> io::Result<bool> {
        self.look_at_ns = now + LOOK_EVERY;
        let Some(client) = &mut self.client else { return Ok(true) };
        if let Some(bytes) = client.memory() {
            self.play.judge_mut().memory(now, bytes);
        }
        let Some(how) = client.ended()? else { return Ok(true) };
        if self.scenario.may_end {
            // What a scenario needs does not come any more.
            let waits = self.play.step().is_some_and(|step| matches!(step.deed, Deed::Needs(..)));
            return Ok(!waits);
        }
        self.play.judge_mut().ended(now, &how);
        Ok(false)
    }

    fn ping(&mut self, now: u64) {
        let servers = &self.servers;
        let pings = |peer: &Peer| servers[peer.server].pings && servers[peer.server].talks;
        let due = |peer: &Peer| pings(peer) && peer.due(now).is_some_and(|due| now >= due);
        let all: Vec<u32> = self.peers.iter().filter(|(_, peer)| due(peer)).map(|(number, _)| *number).collect();
        for number in all {
            let done = self.peers.get_mut(&number).map(|peer| peer.ping(now));
            if let Some(Err(_)) = done {
                self.end(now, number, Close::Now, false);
            }
        }
    }

    /// A connection ends by this side.
    fn end(&mut self, now: u64, number: u32, how: Close, by_client: bool) {
        let Some(mut peer) = self.peers.remove(&number) else { return };
        peer.flush(now, &mut self.tcp, None, &mut self.recording);
        self.tcp.close(peer.id, how);
        match (peer.is_up, by_client) {
            (true, true) => self.play.closed(now, number, by_client),
            (false, _) => self.play.refused(now),
            (true, false) => {}
        }
    }

    /// A server that is away has no connections, those whose handshake is not done included, of which the play does not know.
    fn turn_away(&mut self, now: u64, server: usize) {
        let is_new = |peer: &Peer| peer.server == server && !peer.is_up;
        let all: Vec<u32> = self.peers.iter().filter(|(_, peer)| is_new(peer)).map(|(number, _)| *number).collect();
        for number in all {
            self.end(now, number, Close::Reset, false);
        }
    }

    fn act(&mut self, now: u64) -> io::Result<()> {
        while let Some((number, act)) = self.play.take() {
            let server = &mut self.servers[number];
            match act {
                Act::Dial => match self.tcp.connect(server.port.addr, &options()) {
                    Ok(conn) => self.dials.push(conn),
                    Err(_) => self.play.refused(now),
                },
                Act::Send { conn, message } => self.write(now, conn, &message, Peer::write),
                Act::BreakOff { conn, message } => {
                    self.write(now, conn, &message, Peer::write_half);
                    self.end(now, conn, Close::Reset, false);
                }
                Act::Close { conn, reset } => {
                    let how = if reset { Close::Reset } else { Close::Drain(Duration::from_secs(1)) };
                    self.end(now, conn, how, false);
                }
                Act::Vanish { conn } => {
                    // The socket stays as it is, and nobody here knows it any more.
                    if let Some(mut peer) = self.peers.remove(&conn) {
                        peer.flush(now, &mut self.tcp, None, &mut self.recording);
                        self.tcp.drop_input(peer.id)?;
                        self.tcp.set_reading(peer.id, false);
                    }
                }
                Act::Listen(listens) => {
                    server.set_listening(listens, &mut self.tcp)?;
                    if !listens {
                        self.turn_away(now, number);
                    }
                }
                // The play keeps notes for its judge.
                Act::Note { .. } => {}
                Act::Read(reads) => {
                    server.reads = reads;
                    for peer in self.peers.values().filter(|peer| peer.server == number) {
                        self.tcp.set_reading(peer.id, reads);
                    }
                }
                Act::Ping(pings) => server.pings = pings,
                Act::Talk(talks) => server.talks = talks,
                Act::Pace(pace) => server.pace = pace,
            }
        }
        Ok(())
    }

    fn write(&mut self, now: u64, conn: u32, message: &[u8], how: fn(&mut Peer, u64, &[u8]) -> Result<(), String>) {
        let Some(peer) = self.peers.get_mut(&conn) else { return };
        peer.set_services(|| self.play.services(conn));
        if how(peer, now, message).is_err() {
            self.end(now, conn, Close::Reset, false);
            self.play.closed(now, conn, false);
        }
    }

    fn number(&self, id: ConnId) -> Option<u32> {
        self.peers.iter().find(|(_, peer)| peer.id == id).map(|(number, _)| *number)
    }

    fn event(&mut self, now: u64, event: Event, scratch: &mut Scratch) -> io::Result<()> {
        match event {
            Event::Accepted { listener, conn, .. } => {
                let seed = self.settings.seed ^ u64::from(self.next);
                let server = self.servers.iter().position(|server| server.listener == Some(listener)).unwrap_or(0);
                self.begins(Peer::taken(now, conn, server, Arc::clone(&self.config), seed));
            }
            Event::Connected { conn } => self.made(now, conn)?,
            Event::Readable { conn } => self.read(now, conn, scratch),
            Event::Closed { conn, .. } => {
                if let Some(at) = self.dials.iter().position(|dial| *dial == conn) {
                    self.dials.remove(at);
                    self.play.refused(now);
                } else if let Some(number) = self.number(conn) {
                    self.end(now, number, Close::Now, true);
                }
            }
            Event::Ready { token } if token == OUTPUT => self.lines(now)?,
            _ => {}
        }
        Ok(())
    }

    fn begins(&mut self, peer: Peer) {
        self.tcp.set_reading(peer.id, self.servers[peer.server].reads);
        self.peers.insert(self.next, peer);
        self.next += 1;
    }

    /// A connection to the provider was made.
    fn made(&mut self, now: u64, conn: ConnId) -> io::Result<()> {
        // A connection to a port that nobody listens on may come to meet itself.
        if self.tcp.local_addr(conn)? == self.servers[0].port.addr {
            self.tcp.close(conn, Close::Reset);
            return Ok(());
        }
        self.dials.retain(|dial| *dial != conn);
        let config = ClientConfig {
            ping_timeout_s: self.scenario.ping_timeout_s,
            seed: self.settings.seed ^ u64::from(self.next),
            component: self.config.component.clone(),
            ..ClientConfig::default()
        };
        self.begins(Peer::dialled(now, conn, Arc::clone(&self.config), config));
        Ok(())
    }

    fn read(&mut self, now: u64, conn: ConnId, scratch: &mut Scratch) {
        let Some(number) = self.number(conn) else { return };
        let RecvOutcome::Data(bytes) = self.tcp.recv(conn, scratch) else { return };
        self.recording.passed(now, conn, true, bytes);
        let Some(peer) = self.peers.get_mut(&number) else { return };
        let is_silent = !self.servers[peer.server].pings;
        let (was_up, mut received) = (peer.is_up, Received { is_silent, ..Received::default() });
        peer.set_services(|| self.play.services(number));
        let done = peer.receive(now, bytes, &mut received);
        let (is_up, ping_timeout_s, spoken) = (peer.is_up, peer.ping_timeout_s(), peer.spoken());
        let server = peer.server;
        if is_up && !was_up {
            self.play.connected(now, server, number, ping_timeout_s, spoken);
        }
        self.play.heard(now, number);
        for message in received.messages {
            self.play.message(now, number, &message);
        }
        match done {
            Ok(true) => {}
            Ok(false) => self.end(now, number, Close::Now, true),
            Err(why) => {
                self.play.malformed(now, number, &why);
                self.end(now, number, Close::Now, true);
            }
        }
    }

    fn lines(&mut self, now: u64) -> io::Result<()> {
        let Some(client) = &mut self.client else { return Ok(()) };
        let play = &mut self.play;
        if !client.read(|line| play.line(now, line))? {
            if let Some(output) = client.output() {
                self.tcp.unwatch(output)?;
            }
            client.close_output();
        }
        Ok(())
    }
}
