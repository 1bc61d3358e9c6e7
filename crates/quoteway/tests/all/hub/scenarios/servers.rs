//! The processes of a scenario, and the connections of its providers and consumers.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use measure::process::Process;
use net::tcp::{Close, ConnId, ListenerId, SocketOptions};
use rssl::{ClientConfig, ServerConfig};
use rssl_io::{Ended, Handler, Opened, RsslIo};
use sim::conformance::{Deed, Out, Servers};

use super::fence::Fence;
use super::setup::Setup;
use crate::hub::place::Place;

/// Providers of a scenario that can be dialled.
const ROUTES: usize = 4;
/// How long anything may take; a loaded machine is slow.
const PATIENCE: u64 = 30_000_000_000;
/// How long something that a step waits for may be on its way behind the fence.
const LATENESS: u64 = 5_000_000_000;

/// Whose connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Provider(u32),
    Consumer(u32),
    FenceProvider(usize),
    FenceConsumer(usize),
}

/// Input of the sockets.
#[derive(Default)]
struct Seen {
    ends: HashMap<ConnId, End>,
    /// The established connections among them.
    established: HashSet<ConnId>,
    /// What a route is for that is dialled, by the number of its listener; none is for nobody, and is refused.
    routes: Vec<Option<End>>,
    out: Vec<Out>,
    /// Of each Source Distributor.
    fences: Vec<Fence>,
    replies: Vec<(ConnId, Vec<u8>)>,
}

impl Seen {
    fn reply(&mut self, fence: usize, conn: ConnId, of: impl FnOnce(&mut Fence, &mut Vec<Vec<u8>>)) {
        let mut replies = Vec::new();
        of(&mut self.fences[fence], &mut replies);
        self.replies.extend(replies.into_iter().map(|reply| (conn, reply)));
    }

    fn conn_of(&self, end: End) -> Option<ConnId> {
        self.ends.iter().find(|(conn, of)| **of == end && self.established.contains(conn)).map(|(conn, _)| *conn)
    }
}

impl Handler for Seen {
    fn admit(&mut self, listener: ListenerId, conn: ConnId, _: SocketAddr) -> Result<(), String> {
        let end = self.routes[listener.index()].ok_or("this provider is not up")?;
        self.ends.insert(conn, end);
        Ok(())
    }

    fn opened(&mut self, now: u64, conn: ConnId, _: &Opened<'_>) {
        self.established.insert(conn);
        if let Some(&End::FenceConsumer(number)) = self.ends.get(&conn) {
            self.reply(number, conn, |fence, replies| fence.begin(now, replies));
        }
    }

    fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]) {
        match self.ends.get(&conn).copied() {
            Some(End::Provider(number)) => self.out.push(Out::ToProvider(number, msg.to_vec())),
            Some(End::Consumer(number)) => self.out.push(Out::ToConsumer(number, msg.to_vec())),
            Some(End::FenceProvider(of)) => {
                self.reply(of, conn, |fence, replies| fence.at_provider(conn, msg, replies));
            }
            Some(End::FenceConsumer(of)) => self.reply(of, conn, |fence, replies| fence.at_consumer(now, msg, replies)),
            None => {}
        }
    }

    fn closed(&mut self, _: u64, conn: ConnId, ended: &Ended) {
        let was_up = self.established.remove(&conn);
        let Some(end) = self.ends.remove(&conn).filter(|_| was_up) else { return };
        // A provider that is dialled is up until it goes away, or is sent away.
        let stays = matches!(end, End::FenceProvider(_));
        if let Some(route) = self.routes.iter_mut().find(|of| **of == Some(end) && !stays) {
            *route = None;
        }
        match end {
            End::Provider(number) => self.out.push(Out::ProviderClosed(number, ended.why.to_string())),
            End::Consumer(number) => self.out.push(Out::ConsumerClosed(number, ended.why.to_string())),
            End::FenceProvider(_) | End::FenceConsumer(_) => {}
        }
    }
}

/// Source Distributor and P2PS, in one process or in two.
pub(super) struct Sockets {
    io: RsslIo,
    seen: Seen,
    addresses: Addresses,
    /// Where the providers are dialled.
    routes: Vec<SocketAddr>,
    clock: Clock,
    /// Something was said to the servers since the last fence.
    stirred: bool,
    fences: u32,
    processes: Processes,
    _folder: tempfile::TempDir,
}

/// How far the world is behind the script, where no time passes but the one that a step says.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock(Arc<Mutex<Times>>);

#[derive(Debug, Default)]
struct Times {
    begun: Option<u64>,
    said: u64,
    late: u64,
}

impl Clock {
    fn passes(&self, nanoseconds: u64) {
        self.0.lock().expect("no panic").said += nanoseconds;
    }

    fn look(&self) {
        let now = net::clock::now();
        let mut times = self.0.lock().expect("no panic");
        let passed = now - *times.begun.get_or_insert(now);
        times.late = passed.saturating_sub(times.said);
    }

    /// Nanoseconds that were lost until the last step, in which a slow machine did what takes no time in the script.
    pub(super) fn late(&self) -> u64 {
        self.0.lock().expect("no panic").late
    }
}

struct Addresses {
    rssl: SocketAddr,
    /// Of each Source Distributor.
    nip: Vec<SocketAddr>,
    /// Where operators ask the first Source Distributor, and the P2PS.
    http: [String; 2],
}

/// The processes.
#[derive(Default)]
struct Processes {
    /// The Source Distributors that have not ended, with how they are started again on the same port of the hub. None are processes of their own
    /// where one process does everything.
    distributors: Vec<(Option<Process>, Vec<String>)>,
    /// All others.
    others: Vec<Process>,
}

/// What stands behind `key` in the line that says that a process is ready.
fn at<'a>(line: &'a str, key: &str) -> &'a str {
    let found = line.split(' ').find_map(|word| word.strip_prefix(key));
    found.unwrap_or_else(|| panic!("no {key} in {line}"))
}

fn web(line: &str) -> String {
    at(line, "http=").trim_start_matches("http://").trim_end_matches('/').to_owned()
}

/// The routes of a Source Distributor: those of its providers, and behind them that of its fence.
fn routes_of(setup: &Setup, routes: &[SocketAddr], distributor: usize) -> Vec<SocketAddr> {
    let (providers, fences) = routes.split_at(ROUTES);
    let own = |route: &usize| setup.dialled_by.get(route).copied().unwrap_or(0) == distributor;
    (0..ROUTES).filter(own).map(|route| providers[route]).chain([fences[distributor]]).collect()
}

fn start(setup: &Setup, routes: &[SocketAddr], folder: &std::path::Path) -> (Addresses, Processes) {
    let args = |command: &str, ports: &[&str], routes: &[SocketAddr], hub: &[String]| {
        let config = folder.join(format!("{command}{}.toml", routes.last().map_or(0, SocketAddr::port)));
        std::fs::write(&config, setup.text(routes, hub, folder)).expect("written");
        let config = config.to_str().expect("UTF-8");
        let mut args = vec![command, "--config", config, "--interface", "127.0.0.1", "--http-port", "0"];
        for port in ports {
            args.extend([*port, "0"]);
        }
        args.into_iter().map(str::to_owned).collect::<Vec<String>>()
    };
    let parse = |line: &str, key: &str| at(line, key).parse::<SocketAddr>().expect("an address");
    let mut processes = Processes::default();
    if !setup.two_processes {
        let args = args("serve", &["--rssl-port", "--nip-port"], &routes_of(setup, routes, 0), &[]);
        let (server, line) = Place::Here.start("serve", &args);
        processes.others.push(server);
        let http = [web(&line), web(&line)];
        return (Addresses { rssl: parse(&line, "rssl="), nip: vec![parse(&line, "nip=")], http }, processes);
    }
    let (mut nip, mut hub, mut http) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..setup.distributors {
        let mut args =
            args("source-distributor", &["--nip-port", "--hub-port"], &routes_of(setup, routes, number), &[]);
        let (distributor, line) = Place::Here.start("source-distributor", &args);
        nip.push(parse(&line, "nip="));
        hub.push(at(&line, "hub=").to_owned());
        http.push(web(&line));
        // The port of the hub stands last.
        *args.last_mut().expect("a port") = parse(&line, "hub=").port().to_string();
        processes.distributors.push((Some(distributor), args));
    }
    let (p2ps, line) = Place::Here.start("p2ps", &args("p2ps", &["--rssl-port"], &[], &hub));
    processes.others.push(p2ps);
    let http = [http.swap_remove(0), web(&line)];
    (Addresses { rssl: parse(&line, "rssl="), nip, http }, processes)
}

impl Sockets {
    /// Starts the processes. They are ready when the fence is up.
    pub(super) fn start(setup: &Setup) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut io = RsslIo::new(1).expect("descriptors");
        let mut seen = Seen::default();
        let mut routes = Vec::new();
        for number in 0..ROUTES + setup.distributors {
            let here = SocketAddr::from(([127, 0, 0, 1], 0));
            let listening = io.listen(here, &SocketOptions::default(), Arc::new(ServerConfig::default()));
            routes.push(listening.map_err(|error| error.to_string())?.1);
            seen.routes.push(number.checked_sub(ROUTES).map(End::FenceProvider));
        }
        seen.fences.extend((0..setup.distributors).map(Fence::new));
        let (addresses, processes) = start(setup, &routes, folder.path());
        let (clock, stirred, fences) = (Clock::default(), true, 0);
        let mut servers = Self { io, seen, addresses, routes, clock, stirred, fences, processes, _folder: folder };
        for number in 0..setup.distributors {
            servers.dial(servers.addresses.rssl, End::FenceConsumer(number))?;
            servers.fence_is_up(number)?;
        }
        Ok(servers)
    }

    /// How late it is.
    pub(super) fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Takes what the sockets bring until then.
    fn turn(&mut self, until: u64) -> Result<u64, String> {
        let now = self.io.turn(Some(until), &mut self.seen).map_err(|error| error.to_string())?;
        for (conn, reply) in std::mem::take(&mut self.seen.replies) {
            self.io.send(now, conn, |packer| packer.push(&reply, None));
        }
        Ok(now)
    }

    fn turn_until(&mut self, what: &str, so: impl Fn(&Seen) -> bool) -> Result<(), String> {
        let deadline = net::clock::now() + PATIENCE;
        while !so(&self.seen) {
            if self.turn(deadline)? >= deadline {
                return Err(format!("waited in vain for {what}"));
            }
        }
        Ok(())
    }

    fn dial(&mut self, at: SocketAddr, end: End) -> Result<(), String> {
        let (options, config) = (SocketOptions::default(), Arc::new(ClientConfig::default()));
        let conn = self.io.connect(net::clock::now(), at, &options, config, None).map_err(|error| error.to_string())?;
        self.seen.ends.insert(conn, end);
        self.stirred = true;
        self.turn_until("a connection", |seen| seen.established.contains(&conn) || !seen.ends.contains_key(&conn))
    }

    fn send(&mut self, end: End, bytes: &[u8]) -> Result<(), String> {
        let conn = self.seen.conn_of(end).ok_or("it is not connected")?;
        self.stirred = true;
        let sent = self.io.send(net::clock::now(), conn, |packer| packer.push(bytes, None));
        sent.map(|_| ()).ok_or_else(|| "its connection takes nothing".to_owned())
    }

    fn hang_up(&mut self, end: End) {
        if let Some(route) = self.seen.routes.iter_mut().find(|of| **of == Some(end)) {
            *route = None;
        }
        let Some(conn) = self.seen.conn_of(end) else { return };
        self.seen.ends.remove(&conn);
        self.stirred = true;
        self.io.close(conn, "goes away", Close::Now);
    }

    fn fence_is_up(&mut self, number: usize) -> Result<(), String> {
        self.turn_until("the image of the fence", |seen| seen.fences[number].down.is_some())
    }

    /// Something goes down through the servers and up again, behind all that was said to them.
    fn fence(&mut self) -> Result<(), String> {
        self.fences += 1;
        let number = self.fences;
        let ended = |of: usize| matches!(self.processes.distributors.get(of), Some((None, _)));
        for of in (0..self.seen.fences.len()).filter(|of| !ended(*of)).collect::<Vec<_>>() {
            let (conn, update) = self.seen.fences[of].downward(number).ok_or("the fence is not up")?;
            self.io.send(net::clock::now(), conn, |packer| packer.push(&update, None));
            self.turn_until("the fence to come down", |seen| seen.fences[of].down == Some(number))?;
            self.send(End::FenceConsumer(of), &Fence::upward(number))?;
            self.turn_until("the fence to come up", |seen| seen.fences[of].up == number)?;
        }
        Ok(())
    }

    fn ask(&self, of_p2ps: bool, action: &str, body: &serde_json::Value) -> Result<(), String> {
        let host = &self.addresses.http[usize::from(of_p2ps)];
        let (status, _, said) = crate::http::ask(host, "POST", &format!("/api/v1/{action}"), &body.to_string(), &[]);
        if status == 200 { Ok(()) } else { Err(format!("{action}: {status} {said}")) }
    }

    /// The client that has the address of a consumer's connection.
    fn dismiss(&mut self, client: u32, why: &str) -> Result<(), String> {
        let conn = self.seen.conn_of(End::Consumer(client)).ok_or("it is not connected")?;
        let address = self.io.tcp().local_addr(conn).map_err(|error| error.to_string())?.to_string();
        let (_, _, list) = crate::http::ask(&self.addresses.http[1], "GET", "/api/v1/clients", "", &[]);
        let list: serde_json::Value = serde_json::from_str(&list).map_err(|error| error.to_string())?;
        let mut found = list["found"].as_array().into_iter().flatten();
        let known = found.find(|known| known["address"] == address.as_str()).ok_or("no client has its address")?;
        let id = known["id"].as_str().ok_or("a client without a number")?;
        self.ask(true, &format!("clients/{id}/disconnect"), &serde_json::json!({ "why": why }))
    }

    fn item(what: &str) -> Result<serde_json::Value, String> {
        let (service, name) = what.split_once('/').ok_or("SERVICE/ITEM")?;
        Ok(serde_json::json!({ "service": service, "name": name, "why": "blocked by the script" }))
    }
}

impl Servers for Sockets {
    fn session_up(&mut self, session: u32, at: usize, route: Option<u16>) -> Result<(), String> {
        let end = End::Provider(session);
        let Some(route) = route else {
            return self.dial(*self.addresses.nip.get(at).ok_or("no such Source Distributor")?, end);
        };
        *self.seen.routes.get_mut(usize::from(route)).ok_or("more providers than routes")? = Some(end);
        self.stirred = true;
        self.turn_until("a provider to be dialled", |seen| seen.conn_of(end).is_some())
    }

    fn session_down(&mut self, session: u32) {
        self.hang_up(End::Provider(session));
    }

    fn client_up(&mut self, client: u32, _: usize) -> Result<(), String> {
        self.dial(self.addresses.rssl, End::Consumer(client))
    }

    fn client_down(&mut self, client: u32) {
        self.hang_up(End::Consumer(client));
    }

    fn provider_message(&mut self, session: u32, bytes: &[u8]) -> Result<(), String> {
        self.send(End::Provider(session), bytes)
    }

    fn consumer_message(&mut self, client: u32, bytes: &[u8]) -> Result<(), String> {
        self.send(End::Consumer(client), bytes)
    }

    fn happens(&mut self, deed: Deed<'_>) -> Result<(), String> {
        self.stirred = true;
        match deed {
            Deed::Blocks(what) => self.ask(true, "block", &Self::item(what)?),
            Deed::Unblocks(what) => self.ask(true, "unblock", &Self::item(what)?),
            Deed::Dismisses(client, why) => self.dismiss(client, why),
            Deed::Switches(service, session) => {
                let end = Some(End::Provider(session));
                let route = self.seen.routes.iter().position(|of| *of == end).ok_or("it is not dialled")?;
                let provider = self.routes[route].to_string();
                let body = serde_json::json!({ "service": service, "provider": provider, "why": "the script" });
                self.ask(false, "switch", &body)
            }
            Deed::Time(nanoseconds) => {
                let until = net::clock::now() + nanoseconds;
                while self.turn(until)? < until {}
                self.clock.passes(nanoseconds);
                Ok(())
            }
            Deed::Dies(number) => {
                let (process, _) = self.processes.distributors.get_mut(number).ok_or("no such Source Distributor")?;
                drop(process.take());
                self.seen.fences[number].lost();
                Ok(())
            }
            Deed::Starts(number) => {
                let (process, args) =
                    self.processes.distributors.get_mut(number).ok_or("no such Source Distributor")?;
                *process = Some(Place::Here.start("source-distributor", args).0);
                self.fence_is_up(number)
            }
            other @ Deed::Backlog(..) => Err(format!("{other:?} cannot be done to processes")),
        }
    }

    /// Two fences: what the first one overtakes within a turn of a process, the second one does not.
    fn take(&mut self) -> Result<Vec<Out>, String> {
        self.clock.look();
        if std::mem::take(&mut self.stirred) {
            for _ in 0..2 {
                self.fence()?;
            }
            self.stirred = false;
        }
        self.turn(net::clock::now())?;
        Ok(std::mem::take(&mut self.seen.out))
    }

    fn wait(&mut self) -> bool {
        let deadline = net::clock::now() + LATENESS;
        while self.seen.out.is_empty() {
            if !self.turn(deadline).is_ok_and(|now| now < deadline) {
                return false;
            }
        }
        true
    }

    fn says_why_closed(&self) -> bool {
        false
    }
}
