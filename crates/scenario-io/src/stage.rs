//! A run of a scenario: its server on a port of this machine, the client's process, and time.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use net::tcp::{Close, ConnId, Event, ListenerId, RecvOutcome, Scratch, SocketOptions, Tcp, TcpConfig};
use rssl::{ClientConfig, ServerConfig};
use scenario::file::{Judges, ScenarioFile};
use scenario::program::Deed;
use scenario::verdict::Verdict;
use scenario::{Act, Play};

use crate::client::{Client, Start};
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
    /// The run ends after so many seconds whatever happens.
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
    let client = Client::start(start, stage.addr, settings.quiet);
    stage.client = Some(client.map_err(|error| format!("{}: {error}", start.0.first().map_or("", String::as_str)))?);
    let played = stage.play();
    played.map_err(|error| format!("{}: {error}", scenario.file))?;
    let took_ns = stage.now();
    let mut verdict = Verdict::of(scenario, &stage.play, settings.seed, took_ns);
    verdict.recording = stage.recording.finish().map_err(|error| format!("the recording: {error}"))?;
    Ok(verdict)
}

struct Stage<'a> {
    scenario: &'a ScenarioFile,
    settings: &'a Settings,
    play: Play,
    tcp: Tcp,
    listener: Option<ListenerId>,
    addr: SocketAddr,
    config: Arc<ServerConfig>,
    peers: BTreeMap<u32, Peer>,
    /// Connections that are being made.
    dials: Vec<ConnId>,
    next: u32,
    began_ns: u64,
    client: Option<Client>,
    recording: Recording,
    talks: bool,
    reads: bool,
    pings: bool,
    pace: Option<u64>,
    look_at_ns: u64,
    said: Option<usize>,
}

impl<'a> Stage<'a> {
    fn new(scenario: &'a ScenarioFile, settings: &'a Settings) -> Result<Self, String> {
        let wall_ns = net::clock::wall();
        let play = Play::new(scenario, settings.seed, wall_ns / 1_000_000_000).map_err(|error| error.to_string())?;
        let mut tcp = Tcp::new(TcpConfig::default()).map_err(|error| format!("no sockets: {error}"))?;
        let failed = |error: io::Error| format!("{} cannot be listened on: {error}", settings.listen);
        let is_dialled = scenario.judges == Judges::Provider;
        let (listener, addr) = if is_dialled {
            let bind = |at| std::net::TcpListener::bind(at)?.local_addr();
            (None, first(settings.listen, bind).map_err(failed)?)
        } else {
            let (listener, addr) = first(settings.listen, |at| tcp.listen(at, &options())).map_err(failed)?;
            (Some(listener), addr)
        };
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
            listener,
            addr,
            config: Arc::new(config),
            peers: BTreeMap::new(),
            dials: Vec::new(),
            next: 0,
            began_ns: net::clock::now(),
            client: None,
            recording: Recording::new(settings.record.as_deref(), &scenario.name, addr, wall_ns, is_dialled),
            talks: true,
            reads: true,
            pings: true,
            pace: None,
            look_at_ns: 0,
            said: None,
        })
    }

    fn now(&self) -> u64 {
        net::clock::now() - self.began_ns
    }

    fn play(&mut self) -> io::Result<()> {
        if let Some(output) = self.client.as_ref().and_then(Client::output) {
            self.tcp.watch(output, OUTPUT)?;
        }
        let (mut events, mut scratch) = (Vec::new(), Scratch::default());
        let most_ns = (self.settings.most_s * 1e9) as u64;
        loop {
            let now = self.now();
            self.play.advance(now);
            self.act(now)?;
            self.say();
            if self.play.end().is_some() || now >= most_ns {
                break;
            }
            self.ping(now);
            if now >= self.look_at_ns && !self.look(now)? {
                break;
            }
            for peer in self.peers.values_mut().filter(|_| self.talks) {
                peer.flush(now, &mut self.tcp, self.pace, &mut self.recording);
            }
            let pings = self.peers.values().filter(|_| self.pings && self.talks).filter_map(|peer| peer.due(now));
            let paced = self.pace.is_some() && self.peers.values().any(Peer::waits);
            let due = [self.play.due(), Some(self.look_at_ns), paced.then_some(now + PACE_EVERY)];
            let due = due.into_iter().flatten().chain(pings).min().unwrap_or(now);
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
        if !self.pings || !self.talks {
            return;
        }
        let due = |peer: &Peer| peer.due(now).is_some_and(|due| now >= due);
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

    fn act(&mut self, now: u64) -> io::Result<()> {
        while let Some(act) = self.play.take() {
            match act {
                Act::Dial => match self.tcp.connect(self.addr, &options()) {
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
                Act::Listen(false) => {
                    if let Some(listener) = self.listener.take() {
                        self.tcp.close_listener(listener);
                    }
                }
                Act::Listen(true) if self.listener.is_none() => {
                    self.listener = Some(self.tcp.listen(self.addr, &options())?.0);
                }
                // A server that listens already; and notes, which the play keeps for its judge.
                Act::Listen(true) | Act::Note { .. } => {}
                Act::Read(reads) => {
                    self.reads = reads;
                    for peer in self.peers.values() {
                        self.tcp.set_reading(peer.id, reads);
                    }
                }
                Act::Ping(pings) => self.pings = pings,
                Act::Talk(talks) => self.talks = talks,
                Act::Pace(pace) => self.pace = pace,
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
            Event::Accepted { conn, .. } => {
                let seed = self.settings.seed ^ u64::from(self.next);
                self.begins(Peer::taken(now, conn, Arc::clone(&self.config), seed));
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
        self.tcp.set_reading(peer.id, self.reads);
        self.peers.insert(self.next, peer);
        self.next += 1;
    }

    /// A connection to the provider was made.
    fn made(&mut self, now: u64, conn: ConnId) -> io::Result<()> {
        // A connection to a port that nobody listens on may come to meet itself.
        if self.tcp.local_addr(conn)? == self.addr {
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
        let is_silent = !self.pings;
        let (was_up, mut received) = (peer.is_up, Received { is_silent, ..Received::default() });
        peer.set_services(|| self.play.services(number));
        let done = peer.receive(now, bytes, &mut received);
        let (is_up, ping_timeout_s, spoken) = (peer.is_up, peer.ping_timeout_s(), peer.spoken());
        if is_up && !was_up {
            self.play.connected(now, number, ping_timeout_s, spoken);
        }
        self.play.heard(now, number);
        for message in received.messages {
            self.play.message(now, number, &message);
        }
        match done {
            Ok(true) => {}
            Ok(false) => self.end(now, number, Close::Now, true),
            Err(why) => {
                self.play.judge_mut().malformed(now, &why);
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

/// Ports below those that systems give to connections: a server that listens again finds its own still free.
const PORTS: std::ops::Range<u64> = 15_000..32_000;
/// So many of them are tried before the system is asked for one.
const TRIES: u64 = 50;

/// Takes the first place that is free: the one that is named, or one of [`PORTS`], which differ by process and time.
fn first<T>(at: SocketAddr, mut take: impl FnMut(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    if at.port() != 0 {
        return take(at);
    }
    let begin = net::clock::now() ^ (u64::from(std::process::id()) << 20);
    for number in 0..TRIES {
        let random = begin.wrapping_add(number).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let port = PORTS.start + random % (PORTS.end - PORTS.start);
        if let Ok(taken) = take(SocketAddr::new(at.ip(), port as u16)) {
            return Ok(taken);
        }
    }
    take(at)
}

fn options() -> SocketOptions {
    SocketOptions { no_delay: true, ..SocketOptions::default() }
}
