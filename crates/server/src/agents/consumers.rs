//! The consumer side of a server: sessions with clients, joined to the P2PS's state machine.
//!
//! What becomes of a slow client is decided there (`hub::p2ps::egress`): it is told how much waits for each client, and says whose
//! requests wait and who is cut off. The kernel's part of the backlog is bounded by the fixed socket send buffer.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use config::Config;
use hub::deadlines::earliest;
use hub::p2ps::{BlockedList, ClientId, ClientInfo, CloseReason, P2ps, SourceId};
use hub::stream::HubError;
use net::tcp::{ConnId, ListenerId};
use rssl::ws::JsonPeer;
use rwf::msg::{Domain, MsgClass};
use rwf::peek;

pub use super::client_connection::{Connection, Protocol};

mod delivery;

use super::backpressure::Load;
use super::class_latency::ClassLatency;
use super::client_numbers::ClientNumbers;
use super::consumer_ports::{self, Bound, Listeners, Port};
use super::each_latency::Latency;
use super::input_rate::{InputLimit, InputRates};
use super::json::JsonClients;
use super::logins::{Logins, login_by_cookie};
use super::marketfeed::{ToClients, Wants};
use super::open_rate::OpenRate;
use super::outage_watch::{self, OutageWatch};
use super::permissions::ThreadPermissions;
use super::trace::{self, Trace, Way};
use crate::counters::{Label, Part, Samples};
use rssl_io::{Ended, Handler, Opened, RsslIo, Spoken};

/// The P2PS with its sessions.
pub struct Consumers {
    /// The state machine.
    pub p2ps: P2ps,
    listeners: Listeners,
    /// The cookie with the token by which WebSocket clients are logged in; empty: none.
    token_cookie: String,
    json: JsonClients,
    marketfeed: ToClients,
    /// `None` while permissions are off.
    permissions: Option<ThreadPermissions>,
    limits: Limits,
    /// By number at the P2PS.
    clients: Vec<Option<Client>>,
    numbers: ClientNumbers,
    /// By connection slot: where it came in, while it is counted as a mount.
    admitted: Vec<Option<ListenerId>>,
    /// Connections of all shards together, those included that are in their handshake.
    mounts: Arc<AtomicUsize>,
    /// Clients with composed bytes that wait for the flush timer.
    unflushed: Vec<ConnId>,
    /// Kept for those that are sent to: empty.
    sending: Vec<ConnId>,
    flush_at: Option<u64>,
    /// When the P2PS was to be called, as it said before this turn.
    due: Option<u64>,
    /// Output is composed block by block and sent by [`Consumers::end_turn`], not at once.
    gathering: bool,
    open_rate: OpenRate,
    /// By number at the P2PS.
    rates: InputRates,
    /// Clients that have sent requests in this turn.
    requesting: Vec<ConnId>,
    /// Clients that are not read until then, because enough was opened.
    paced: Vec<ConnId>,
    /// Clients for which other bytes wait than before.
    slow: Vec<(ConnId, usize)>,
    /// Why no new clients are taken.
    drained: Option<String>,
    outage: OutageWatch,
    /// Where else clients are to go.
    redirect: String,
    traces: Vec<Trace>,
    latency: ClassLatency<ConnId>,
    /// Of the next trace.
    next_trace: u32,
    /// Our port, as traces show it.
    port: u16,
}

hub::counters! {
/// Counters beside the state machine's own.
pub struct Counters {
    /// Clients with more waiting for them than a socket takes.
    pub clients_behind: u64 as Gauge,
    /// Clients that send more than they may in a second, and are held back.
    pub over_rate: u64 as Gauge,
    /// Times that a client was not read for a moment, since it sent more than it may.
    pub rate_pauses: u64,
    /// Messages that no JSON stands for, and so did not reach WebSocket clients.
    pub json_unconvertible: u64,
    /// Fields that the dictionary does not have, and so did not reach WebSocket clients.
    pub json_fields_left_out: u64,
    /// Messages that became Marketfeed, each counted once for all clients.
    pub marketfeed_converted: u64,
    /// Messages that could not become Marketfeed, and went out as RWF.
    pub marketfeed_unconvertible: u64,
    /// Fields that were dropped on the way to Marketfeed, since it has nothing for them; the log names field and reason.
    pub marketfeed_fields_lost: u64,
}
}

struct Client {
    conn: ConnId,
    name: String,
    /// The name that the client's program gives itself, and how it came.
    program: String,
    protocol: Protocol,
    /// When it came, monotonic nanoseconds.
    since: u64,
    /// Bytes that the P2PS was told to wait for it.
    queued: usize,
    paused: bool,
    requesting: bool,
    paced: bool,
    /// The client has sent more than it may.
    over_rate: bool,
    unflushed: bool,
    /// The items that it gets as Marketfeed.
    marketfeed: Wants,
    /// The client's messages are JSON.
    json: Option<Box<JsonPeer>>,
}

impl Client {
    /// Reads from it or does not, as its state says.
    fn set_reading(&self, io: &mut RsslIo) {
        io.set_reading(self.conn, !self.is_held_back());
    }

    fn is_held_back(&self) -> bool {
        self.paused || self.paced || self.over_rate
    }
}

/// Composed bytes of one client that are sent before the turn's end: as much as a send call takes at the price of one.
const GATHERED_MAX: usize = 64 << 10;
/// Bytes that a turn takes from each provider where there are JSON clients.
const JSON_INPUT: usize = 64 << 10;

/// The configuration's limits, times in nanoseconds.
struct Limits {
    max_mounts: usize,
    flush_interval_ns: Option<u64>,
    packing: bool,
    /// The limits of what each client may send.
    input: InputLimit,
    /// Clients that come and go are lines of the log; else of its level debug alone.
    logs_mounts: bool,
}

impl Limits {
    fn new(c: &config::P2ps) -> Self {
        Self {
            max_mounts: c.max_mounts as usize,
            flush_interval_ns: c.timed_writes.then_some(u64::from(c.flush_interval_ms) * 1_000_000),
            packing: c.rssl_msg_packing,
            input: input_limit(c),
            logs_mounts: c.log_mount_requests,
        }
    }
}

impl Consumers {
    /// Opens the ports for consumers of a P2PS; `mounts` is shared by those that share the ports.
    ///
    /// # Errors
    /// A port cannot be listened on, or the certificate cannot be read.
    pub fn new(
        config: &Config,
        mut p2ps: P2ps,
        mounts: Arc<AtomicUsize>,
        port: Port,
        io: &mut RsslIo,
    ) -> io::Result<Self> {
        let c = &config.p2ps;
        if let Some(logins) = Logins::from_config(c)? {
            p2ps.authenticate_by(Box::new(logins));
        }
        let tls = c.tls().map_err(io::Error::other)?;
        let listeners = Listeners::open(c, port, tls, io)?;
        let port = listeners.bound().rssl.port();
        let mut consumers = Self {
            p2ps,
            listeners,
            token_cookie: c.websocket_token_cookie.clone(),
            json: JsonClients::new(c),
            marketfeed: ToClients::new(config),
            permissions: None,
            limits: Limits::new(c),
            clients: Vec::new(),
            numbers: ClientNumbers::default(),
            admitted: Vec::new(),
            mounts,
            unflushed: Vec::new(),
            sending: Vec::new(),
            flush_at: None,
            due: Some(0),
            gathering: false,
            open_rate: OpenRate::new(c.open_rate),
            rates: InputRates::new("client"),
            requesting: Vec::new(),
            paced: Vec::new(),
            slow: Vec::new(),
            drained: None,
            outage: OutageWatch::default(),
            redirect: String::new(),
            traces: Vec::new(),
            latency: ClassLatency::default(),
            next_trace: 1,
            port,
        };
        if c.latency_calc_mount_based {
            consumers.latency.measure_each(c.num_latency_samples);
        }
        consumers.outage.configure(c);
        consumers.redirect.clone_from(&c.redirect_text);
        // Nobody is waited for there, and it is its user's alone.
        if config.hub.paces_providers
            && let Some(place) = consumer_ports::place(&consumers.bound(), &c.connection_host)
        {
            consumers.p2ps.serve_at(net::clock::now(), place);
        }
        Ok(consumers)
    }

    /// Has output gathered for [`Consumers::end_turn`], because a turn may bring several blocks: each client is then sent to
    /// once in a turn, not once a block.
    pub fn gather(&mut self) {
        self.gathering = true;
    }

    /// Has rights brought and the audit taken. To be called before the first client comes.
    pub fn set_permissions(&mut self, permissions: Option<ThreadPermissions>) {
        self.permissions = permissions;
        if let Some(permissions) = &mut self.permissions {
            permissions.work(net::clock::now(), &mut self.p2ps);
        }
    }

    /// Has new clients refused for this reason, or not any more.
    pub fn drain(&mut self, why: Option<&str>) {
        self.drained = why.map(str::to_owned);
        self.tell_whether_taken();
    }

    /// Takes over the limits that a reload changes. Who is there stays.
    pub fn reconfigure(&mut self, config: &Config) {
        self.limits.max_mounts = config.p2ps.max_mounts as usize;
        self.outage.configure(&config.p2ps);
        self.redirect.clone_from(&config.p2ps.redirect_text);
        self.limits.input = input_limit(&config.p2ps);
        self.limits.logs_mounts = config.p2ps.log_mount_requests;
        self.open_rate = OpenRate::new(config.p2ps.open_rate);
        self.p2ps.reconfigure(&config::p2ps_limits(config));
    }

    /// Another list of blocked items. Tells how many watched what is new in it: their streams have ended.
    pub fn block_list(&mut self, now: u64, list: BlockedList, io: &mut RsslIo) -> usize {
        let watchers = self.p2ps.set_blocked_list(now, list);
        self.flush(now, &[], io);
        watchers
    }

    /// Has up to so many clients go elsewhere: each is told so, then closed. Tells how many were, and how many are there, those
    /// included that are on their way.
    pub fn dismiss(&mut self, now: u64, most: usize, why: &str, io: &mut RsslIo) -> (usize, usize) {
        let ids: Vec<ClientId> = self.connections().map(|connection| connection.id).collect();
        let mut dismissed = 0;
        for id in &ids {
            if dismissed == most {
                break;
            }
            dismissed += usize::from(self.p2ps.dismiss(now, *id, why));
        }
        // Closed clients are done with at the flush of a turn.
        self.flush(now, &[], io);
        self.send_unflushed(io);
        (dismissed, ids.len())
    }

    /// Traces a client, or one of its streams, for some seconds; tells the trace's number, by which it can be taken.
    ///
    /// # Errors
    /// There is no such client, or too many traces are under way.
    pub fn start_trace(&mut self, now: u64, of: (ClientId, Option<i32>), seconds: u64) -> Result<u32, &'static str> {
        self.traces.retain(|trace| !trace.is_forgotten(now));
        if self.traces.len() >= trace::MOST {
            return Err("as many traces are under way as can be: take one of them first");
        }
        let client = self.connections().find(|connection| connection.id == of.0);
        let address = client.ok_or("there is no such client any more")?.address.to_owned();
        let number = self.next_trace;
        self.next_trace = self.next_trace.wrapping_add(1);
        let times = (now, now.saturating_add(seconds * 1_000_000_000));
        self.traces.push(Trace::new(number, of, (&address, self.port), times));
        Ok(number)
    }

    /// Ends a trace, and gives it.
    pub fn take_trace(&mut self, number: u32) -> Option<Trace> {
        let at = self.traces.iter().position(|trace| trace.number == number)?;
        Some(self.traces.swap_remove(at))
    }

    /// The turn that began then is one of those that are timed.
    pub fn time_turn(&mut self, began: u64) {
        self.latency.time_turn(began);
    }

    /// How long messages are in here until clients have them, by what those speak.
    pub fn latencies(&self) -> impl Iterator<Item = (Protocol, super::turn_latency::TurnLatency)> {
        self.latency.all()
    }

    /// How long messages are in here until a client has them; `None` if that is not measured.
    pub fn latency_of(&self, conn: ConnId) -> Option<Latency> {
        self.latency.of(conn)
    }

    /// Our port, as traces show it.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Every client's connection, in the order of their ids.
    pub fn connections(&self) -> impl Iterator<Item = Connection<'_>> {
        self.clients.iter().enumerate().filter_map(|(number, client)| {
            let client = client.as_ref()?;
            Some(Connection {
                id: ClientId(number as u32),
                conn: client.conn,
                address: &client.name,
                program: &client.program,
                protocol: client.protocol,
                since: client.since,
                is_held_back: client.is_held_back(),
            })
        })
    }

    /// Clients with more waiting for them than a socket takes.
    pub fn behind(&self) -> usize {
        self.p2ps.clients_behind()
    }

    /// The counters so far.
    pub fn sample(&self, labels: &[Label], samples: &mut Samples) {
        samples.add(Part::P2ps, labels, &self.p2ps.counters());
        let (marketfeed_converted, marketfeed_unconvertible, marketfeed_fields_lost) = self.marketfeed.counts();
        let (over_rate, rate_pauses) = self.rates.counts();
        let counters = Counters {
            clients_behind: self.behind() as u64,
            over_rate,
            rate_pauses,
            json_unconvertible: self.json.unconvertible(),
            json_fields_left_out: self.json.fields_left_out(),
            marketfeed_converted,
            marketfeed_unconvertible,
            marketfeed_fields_lost,
        };
        samples.add(Part::Consumers, labels, &counters);
    }

    /// Whether a connection was admitted as a consumer's, and is a mount.
    pub fn has_admitted(&self, conn: ConnId) -> bool {
        self.admitted.get(conn.slot()).is_some_and(Option::is_some)
    }

    /// Whether consumers come in at this listener.
    pub fn owns(&self, listener: ListenerId) -> bool {
        self.listeners.own(listener)
    }

    /// Where they come in.
    pub fn bound(&self) -> Bound {
        self.listeners.bound()
    }

    /// A client's choice of Marketfeed before it has said anything.
    fn marketfeed_of(&self, slot: usize, opened: &Opened<'_>) -> Wants {
        let came_in_at = self.admitted.get(slot).copied().flatten();
        match came_in_at {
            _ if opened.spoken.is_json() => Wants::Nothing,
            Some(listener) if self.listeners.is_for_marketfeed(listener) => Wants::All,
            _ => self.marketfeed.at_first(),
        }
    }

    /// A block of a source's stream, and what it brings for the clients: written to each once, packed.
    ///
    /// # Errors
    /// The block cannot be read: the connection with the source is to be ended.
    pub fn hub_block(&mut self, now: u64, source: SourceId, block: &[u8], io: &mut RsslIo) -> Result<(), HubError> {
        let read = self.p2ps.hub_block(now, source, block);
        self.flush(now, block, io);
        read
    }

    /// Bytes that wait for clients, as they bear on whether more is to be taken in.
    pub fn load(&self) -> Load {
        let mounts = self.mounts.load(Ordering::Relaxed);
        Load { lag: 0, behind: self.behind(), mounts, taken: self.p2ps.taken_behind() }
    }

    /// Bytes that a turn should take from each provider. As JSON they become three times as many: what is composed for a client, and what is
    /// sent to it, should stay in the processor's cache and fit its socket.
    pub fn input_of_turn(&self) -> usize {
        if self.json.is_empty() { usize::MAX } else { JSON_INPUT }
    }

    /// When [`Consumers::on_timer`] is due. To be asked before each turn.
    pub fn timeout(&mut self) -> Option<u64> {
        self.due = self.p2ps.timeout();
        let resume = (!self.paced.is_empty()).then_some(self.open_rate.resumes_at());
        let permissions = self.permissions.as_ref().and_then(ThreadPermissions::timeout);
        // Clients that this turn did not come to.
        let unsent = self.json.has_unsent().then_some(0);
        let unforgotten = self.marketfeed.has_left().then_some(0);
        let outage = self.outage.timeout();
        earliest([self.due, self.flush_at, resume, self.rates.timeout(), outage, permissions, unsent, unforgotten])
    }

    /// Does what is due.
    pub fn on_timer(&mut self, now: u64, io: &mut RsslIo) {
        if let Some(permissions) = &mut self.permissions {
            permissions.work(now, &mut self.p2ps);
        }
        // An earlier date that what came in meanwhile has set is found with the next look.
        if self.due.is_some_and(|at| at <= now) || self.p2ps.has_work() {
            self.p2ps.on_timer(now);
            self.take_up();
            self.p2ps.departed().for_each(|id| self.numbers.release(id));
        }
        if self.flush_at.is_some_and(|at| at <= now) {
            self.flush_at = None;
            self.send_unflushed(io);
        }
        if !self.paced.is_empty() && self.open_rate.resumes_at() <= now {
            self.read_paced(io);
        }
        let Self { rates, clients, .. } = self;
        rates.on_timer(now, |number| hold_back(clients, number, false, io));
        if self.outage.timeout().is_some_and(|at| at <= now) {
            self.look_at_outage(now, io);
        }
    }

    /// Other servers are to know whether new clients are taken here.
    fn tell_whether_taken(&mut self) {
        self.p2ps.set_draining(self.drained.is_some() || self.outage.why().is_some());
    }

    /// Clients go, or may come again, since their services are down or up.
    fn look_at_outage(&mut self, now: u64, io: &mut RsslIo) {
        let Self { outage, p2ps, redirect, .. } = self;
        let change = outage.look(now, |services, any| p2ps.is_out(services, any), redirect);
        let why = self.outage.why().map(str::to_owned);
        match (change, &why) {
            (Some(outage_watch::Change::Out), Some(why)) => {
                tracing::warn!("clients are closed, and no new ones taken (disconnectSrcDown): {why}");
            }
            (Some(outage_watch::Change::Back), _) => tracing::info!("clients are taken again: their services are up"),
            _ => {}
        }
        if change.is_some() {
            self.tell_whether_taken();
        }
        if let Some(why) = why.filter(|_| self.clients.iter().any(Option::is_some)) {
            self.dismiss(now, outage_watch::SENT_AT_ONCE, &why, io);
        }
    }

    /// Messages that had to wait in the P2PS are done: what was known of their clients' streams changes by now, and not before.
    fn take_up(&mut self) {
        let mut taken_up = Vec::new();
        taken_up.extend(self.p2ps.taken_up());
        for (id, msg) in taken_up {
            let Some(Some(client)) = self.clients.get_mut(id.0 as usize) else { continue };
            if let Some(peer) = &mut client.json {
                self.json.follow(&self.p2ps);
                self.json.note_message(peer, &msg);
                let is_logout = peek::class(&msg) == Some(MsgClass::CLOSE) && peek::domain(&msg) == Some(Domain::LOGIN);
                if is_logout && !self.p2ps.is_logged_in(id) {
                    self.json.close(client.conn, CloseReason::LoggedOut);
                }
            }
            self.note_marketfeed(id, &msg);
        }
    }

    /// A client's message is done, which may have closed streams of records.
    #[inline]
    fn note_marketfeed(&mut self, id: ClientId, msg: &[u8]) {
        let client = self.clients.get(id.0 as usize).and_then(Option::as_ref);
        if client.is_some_and(|client| client.marketfeed != Wants::Nothing) {
            self.marketfeed.note_message(id, msg, self.p2ps.is_logged_in(id));
        }
    }

    /// Clients that had to wait with their requests are read again.
    fn read_paced(&mut self, io: &mut RsslIo) {
        let Self { paced, clients, numbers, .. } = self;
        for conn in paced.drain(..) {
            if let Some(client) = client_on(conn, numbers, clients) {
                client.paced = false;
                client.set_reading(io);
            }
        }
    }

    /// Has those wait that have opened items, if the turns have opened enough for a while.
    fn pace_requests(&mut self, now: u64, io: &mut RsslIo) {
        let wait = self.open_rate.end_turn(now, self.p2ps.counters().items);
        let Self { requesting, clients, numbers, paced, .. } = self;
        for conn in requesting.drain(..) {
            let Some(client) = client_on(conn, numbers, clients) else { continue };
            client.requesting = false;
            if wait && !client.paced {
                client.paced = true;
                client.set_reading(io);
                paced.push(conn);
            }
        }
    }

    /// Sends what the turn's blocks have brought, if it was gathered. To be called at the end of a turn.
    pub fn end_turn(&mut self, now: u64, io: &mut RsslIo) {
        if !self.requesting.is_empty() {
            self.pace_requests(now, io);
        }
        let Self { rates, clients, .. } = self;
        rates.end_turn(now, |number| hold_back(clients, number, true, io));
        if let Some(permissions) = &mut self.permissions {
            permissions.work(now, &mut self.p2ps);
        }
        if self.limits.flush_interval_ns.is_none() && !self.unflushed.is_empty() {
            self.send_unflushed(io);
        }
        self.send_json(now, io);
        self.latency.end_turn();
    }
}

impl Drop for Consumers {
    /// Where permissions are on, every login ends in the audit.
    fn drop(&mut self) {
        if let Some(mut permissions) = self.permissions.take() {
            let now = net::clock::now();
            for (number, _) in self.clients.iter().enumerate().filter(|(_, client)| client.is_some()) {
                self.p2ps.client_down(now, ClientId(number as u32));
            }
            self.p2ps.finish_departures();
            permissions.finish(&mut self.p2ps);
        }
    }
}

fn input_limit(c: &config::P2ps) -> InputLimit {
    InputLimit { bytes: c.max_incoming_bytes_per_second, messages: c.max_incoming_messages_per_second }
}

/// A client sends more than it may, or did.
fn hold_back(clients: &mut [Option<Client>], number: usize, is_over: bool, io: &mut RsslIo) {
    if let Some(client) = clients.get_mut(number).and_then(Option::as_mut) {
        client.over_rate = is_over;
        client.set_reading(io);
    }
}

/// A message of a client goes to the traces, of which there are mostly none.
#[inline]
fn record_all(traces: &mut [Trace], now: u64, client: ClientId, message: &[u8]) {
    for trace in traces {
        let stream = rwf::peek::header(message).map_or(0, |header| header.stream_id);
        trace.record(now, (client, stream), Way::In, message);
    }
}

/// The client on a connection.
fn client_on<'a>(conn: ConnId, numbers: &ClientNumbers, clients: &'a mut [Option<Client>]) -> Option<&'a mut Client> {
    clients.get_mut(numbers.of(conn)?.0 as usize)?.as_mut()
}

/// Looks at the class in a message's header: the low five bits of its third byte.
#[inline]
fn is_request(msg: &[u8]) -> bool {
    msg.get(2).is_some_and(|class| MsgClass(class & 0x1F) == MsgClass::REQUEST)
}

impl Handler for Consumers {
    /// A mount is counted from its admission on: many that connect together are as many as they are.
    fn admit(&mut self, listener: ListenerId, conn: ConnId, _peer: SocketAddr) -> Result<(), String> {
        if let Some(why) = self.drained.as_deref().or(self.outage.why()) {
            return Err(CloseReason::Drained { why: why.to_owned() }.to_string());
        }
        let room = |mounts: usize| (mounts < self.limits.max_mounts).then_some(mounts + 1);
        if self.mounts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok() {
            if self.admitted.len() <= conn.slot() {
                self.admitted.resize(conn.slot() + 1, None);
            }
            self.admitted[conn.slot()] = Some(listener);
            return Ok(());
        }
        Err(CloseReason::MountsTaken { max: self.limits.max_mounts }.to_string())
    }

    fn opened(&mut self, now: u64, conn: ConnId, opened: &Opened<'_>) {
        let id = self.numbers.enter(conn);
        let number = id.0 as usize;
        if self.clients.len() <= number {
            self.clients.resize_with(number + 1, || None);
        }
        let name = opened.peer.to_string();
        if self.limits.logs_mounts {
            tracing::info!("client {name} is up ({})", opened.spoken);
        } else {
            tracing::debug!("client {name} is up ({})", opened.spoken);
        }
        if self.limits.input.is_on() {
            self.rates.opened(number, name.clone(), self.limits.input);
        }
        self.clients[number] = Some(Client {
            conn,
            name,
            program: opened.spoken.to_string(),
            protocol: Protocol::of(&opened.spoken),
            since: now,
            queued: 0,
            paused: false,
            requesting: false,
            paced: false,
            over_rate: false,
            unflushed: false,
            marketfeed: self.marketfeed_of(conn.slot(), opened),
            json: opened.spoken.is_json().then(Box::default),
        });
        self.p2ps.client_up(now, id, ClientInfo { address: opened.peer.ip() });
        if opened.spoken.is_json() {
            self.json.joined();
            self.p2ps.mark_json(id);
        }
        if let Spoken::Json(upgrade) = opened.spoken
            && !self.token_cookie.is_empty()
            && let Some(request) = login_by_cookie(upgrade, &self.token_cookie)
        {
            self.p2ps.log_in(now, id, request);
        }
    }

    #[inline]
    fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]) {
        let Some(id) = self.numbers.of(conn) else { return };
        if let Some(Some(client)) = self.clients.get_mut(id.0 as usize)
            && is_request(msg)
        {
            client.marketfeed = self.marketfeed.wants_of_login(client.marketfeed, msg);
            if !std::mem::replace(&mut client.requesting, true) {
                self.requesting.push(conn);
            }
        }
        self.rates.take(id.0 as usize, msg.len());
        record_all(&mut self.traces, now, id, msg);
        if self.p2ps.client_message(now, id, msg) {
            self.note_marketfeed(id, msg);
        }
    }

    fn text(&mut self, now: u64, conn: ConnId, text: &str) {
        let Some(id) = self.numbers.of(conn) else { return };
        let Some(Some(client)) = self.clients.get_mut(id.0 as usize) else { return };
        let Some(mut peer) = client.json.take() else { return };
        if !std::mem::replace(&mut client.requesting, true) {
            self.requesting.push(conn);
        }
        let Self { p2ps, json, traces, rates, .. } = self;
        rates.take(id.0 as usize, text.len());
        json.follow(p2ps);
        let was_in = p2ps.is_logged_in(id);
        let may_go_on = json.read(conn, &mut peer, text, |message| {
            record_all(traces, now, id, message);
            p2ps.client_message(now, id, message)
        });
        if !may_go_on {
            json.close(conn, CloseReason::TooMuchMalformed);
        } else if was_in && !p2ps.is_logged_in(id) {
            json.close(conn, CloseReason::LoggedOut);
        }
        if let Some(Some(client)) = self.clients.get_mut(id.0 as usize) {
            client.json = Some(peer);
        }
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        if self.admitted.get_mut(conn.slot()).is_some_and(|admitted| admitted.take().is_some()) {
            self.mounts.fetch_sub(1, Ordering::Relaxed);
        }
        self.latency.forget(conn);
        // A connection whose handshake never ended was a mount, and no client.
        let Some(id) = self.numbers.leave(conn) else { return };
        if let Some(client) = self.clients.get_mut(id.0 as usize).and_then(Option::take) {
            if self.limits.logs_mounts {
                tracing::info!("client {} is gone: {}", client.name, ended.why);
            } else {
                tracing::debug!("client {} is gone: {}", client.name, ended.why);
            }
            self.rates.closed(id.0 as usize);
            if client.json.is_some() {
                self.json.left();
            }
            if client.marketfeed != Wants::Nothing {
                self.marketfeed.left(id);
            }
            self.p2ps.client_down(now, id);
        }
        if !self.p2ps.is_departing(id) {
            self.numbers.release(id);
        }
    }

    fn is_known(&self, conn: ConnId) -> bool {
        self.numbers.of(conn).is_some_and(|id| self.p2ps.is_logged_in(id))
    }

    /// Bytes that the session has queued by itself are in the client's account as delivered ones are.
    fn waits(&mut self, _now: u64, conn: ConnId, bytes: usize) {
        self.slow.push((conn, bytes));
    }

    fn drained(&mut self, _now: u64, conn: ConnId) {
        self.slow.push((conn, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_server_goes_on_until_nothing_is_left_to_forget() {
        let config = Config::parse("test", "[p2ps]\nrssl_port = 0\n").expect("no faults");
        let mut io = RsslIo::new(1).expect("descriptors");
        let p2ps = P2ps::new(config::p2ps_config(&config, 1).expect("a configuration"), 0);
        let port = Port::of(&config.p2ps, false);
        let mut consumers = Consumers::new(&config, p2ps, Arc::default(), port, &mut io).expect("ports");
        assert_ne!(consumers.timeout(), Some(0));
        consumers.marketfeed.close_many(2_500);
        let mut turns = 0;
        while consumers.timeout() == Some(0) {
            consumers.flush(1, &[], &mut io);
            turns += 1;
        }
        assert_eq!((turns, consumers.marketfeed.has_left()), (3, false));
    }
}
