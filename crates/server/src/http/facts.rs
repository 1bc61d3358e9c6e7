//! Facts of processes, services, providers, clients and items: the answers of `/api/v1`, and how each is read from the threads.

use hub::distributor::Origin;
use hub::p2ps::{BLOCKED_MAX, LoadState, Mount};
use hub_io::HubPeer;
use net::tcp::{ConnId, Traffic};
use schemars::JsonSchema;
use serde::Serialize;

use crate::agents::each_latency;
use crate::agents::monitor::Thread;

/// Items, clients and watchers of one answer, at most.
pub const PAGE: usize = 1_000;
/// Blocked items of one answer, at most: those of operators, and the first ones of a list.
const BLOCKED: usize = 2 * BLOCKED_MAX;
/// Items that one question looks at, some hundred microseconds; a list that is filtered goes on with another question.
const LOOKED_AT: usize = 4_000;
/// Clients that one question tells of, likewise: the kernel is asked about each.
const CLIENTS: usize = 250;

/// A process.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Process {
    /// The program's version.
    pub version: String,
    /// The kind of process: serve, demo, p2ps, source-distributor, rrcpd.
    pub role: String,
    /// The host's name.
    pub host: String,
    /// The process' number on the host.
    pub pid: u32,
    /// When it was ready, Unix seconds.
    pub started: u64,
    /// Seconds since then.
    pub uptime_s: u64,
    /// Where its ports are, HOST:PORT each.
    pub addresses: Addresses,
    /// The service of requests that name none; empty means the first there is.
    pub default_service: String,
    /// Clients may speak WebSocket on the ports for consumers.
    pub takes_websocket: bool,
    /// The process takes no new clients.
    pub draining: bool,
    /// The process' serving threads.
    pub threads: Vec<ThreadFacts>,
    /// All threads together.
    pub totals: Totals,
}

/// Where the ports of a process are.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Addresses {
    /// Consumers.
    pub rssl: Option<String>,
    /// Consumers with the encrypted connection type.
    pub encrypted: Option<String>,
    /// WebSocket clients, by habit.
    pub websocket: Option<String>,
    /// Non-interactive providers.
    pub nip: Option<String>,
    /// P2PSs.
    pub hub: Option<String>,
}

/// A serving thread.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ThreadFacts {
    /// The thread's name.
    pub name: String,
    /// The thread has answered.
    pub answers: bool,
    /// Connections that are open.
    pub connections: u64,
    /// Bytes received since the start.
    pub bytes_received: u64,
    /// Bytes sent since the start.
    pub bytes_sent: u64,
    /// Turns whose latency was sampled.
    pub sampled_turns: u64,
    /// Median of how long messages are in this thread, microseconds: the upper bound of its bucket.
    pub latency_p50_us: Option<f64>,
    /// The 99th percentile of it.
    pub latency_p99_us: Option<f64>,
}

/// Counts over all threads; gauges but for those that say "since the start".
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Totals {
    /// Clients connected.
    pub clients: u64,
    /// Clients logged in.
    pub mounts: u64,
    /// Items that someone watches.
    pub items: u64,
    /// Watchers of items.
    pub watchers: u64,
    /// Items that wait to be opened.
    pub items_waiting: u64,
    /// Items open at providers or published by them.
    pub source_items: u64,
    /// Updates taken in, since the start.
    pub updates_in: u64,
    /// Updates delivered, each client counted, since the start.
    pub updates_out: u64,
    /// Messages delivered, each client counted, since the start.
    pub messages_out: u64,
    /// Clients cut off because they were slow, since the start.
    pub clients_cut_off: u64,
    /// Requests refused, since the start.
    pub requests_refused: u64,
    /// Clients for which more waits than a socket takes.
    pub clients_behind: u64,
    /// All open items against `total_item_limit`, of the thread that is nearest to it: `normal`, `burdened` or `overloaded`.
    pub load: Load,
    /// Items that wait to be opened against `open_queue_burdened` and its like, likewise.
    pub open_queue: Load,
    /// Clients near their limit of items, or at it.
    pub mounts_burdened: u64,
    /// Users near their limit of items, or at it, of each thread.
    pub users_burdened: u64,
}

impl Totals {
    /// Adds a thread's counts; those of updates that came in are left out of a thread that reads what another has counted (a shard).
    pub(super) fn add(&mut self, counted: &Self, reads_the_same_updates: bool) {
        self.clients += counted.clients;
        self.mounts += counted.mounts;
        self.items += counted.items;
        self.watchers += counted.watchers;
        self.items_waiting += counted.items_waiting;
        self.source_items += counted.source_items;
        self.updates_in += if reads_the_same_updates { 0 } else { counted.updates_in };
        self.updates_out += counted.updates_out;
        self.messages_out += counted.messages_out;
        self.clients_cut_off += counted.clients_cut_off;
        self.requests_refused += counted.requests_refused;
        self.clients_behind += counted.clients_behind;
        self.load = self.load.max(counted.load);
        self.open_queue = self.open_queue.max(counted.open_queue);
        self.mounts_burdened += counted.mounts_burdened;
        self.users_burdened += counted.users_burdened;
    }
}

/// How near something is to its limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// Away from it.
    #[default]
    Normal,
    /// Near it.
    Burdened,
    /// At it, or not far enough below it since.
    Overloaded,
}

impl From<LoadState> for Load {
    fn from(state: LoadState) -> Self {
        match state {
            LoadState::Normal => Self::Normal,
            LoadState::Burdened => Self::Burdened,
            LoadState::Overloaded => Self::Overloaded,
        }
    }
}

/// A service.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Service {
    /// The service's name.
    pub name: String,
    /// Clients get data of it.
    pub up: bool,
    /// Requests are taken.
    pub accepting: bool,
    /// Items that wait to be opened.
    pub waiting: u64,
    /// Items whose watchers were told Suspect, and nothing good since; where no clients are, items that were lost and are not back.
    pub suspect: u64,
    /// `suspect` is what clients were told: this is of a thread that serves some.
    #[serde(skip)]
    #[schemars(skip)]
    pub is_told: bool,
    /// The provider that serves it.
    pub providers: Vec<Offer>,
    /// The sites that it comes through, this one first (`source_distributor.site`).
    pub path: Vec<String>,
}

/// A service as one provider offers it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Offer {
    /// The provider's number, as in `/providers`; empty for a Source Distributor, at a P2PS.
    pub provider: String,
    /// The provider's address; a Source Distributor's name.
    pub address: String,
    /// The provider's service that a service group is served from there; empty for a service that is no group.
    pub served_from: String,
    /// The provider says that the service is up.
    pub up: bool,
    /// The provider takes requests.
    pub accepting: bool,
    /// How loaded it says that it is (`LoadFactor` of its directory), up to 65,535; 0 if it says nothing.
    pub load_factor: u64,
    /// Items open there.
    pub open: u64,
    /// Items open there for which it stands by: a Source Distributor of a pair (`source_distributor_pairs`).
    pub standby: u64,
    /// Requests that it has not answered.
    pub outstanding: u64,
    /// The provider should send data, and sends none (`interruption_detection` of its route).
    pub silent: bool,
}

/// A provider: a route that is dialled, or a non-interactive one that has come.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Provider {
    /// The provider's number: THREAD.SESSION; empty for a route without a session.
    pub id: String,
    /// `route` or `non-interactive`.
    pub kind: String,
    /// The provider's address, or those that are tried.
    pub address: String,
    /// Its name in the configuration (`server_id`); empty for none.
    pub server_id: String,
    /// `not connected`, `logging in`, `logged in`, `ready`.
    pub state: String,
    /// The services that it offers.
    pub services: Vec<String>,
    /// Bytes that wait for it: requests, posts, answers that it has not taken.
    pub queued_bytes: u64,
    /// Bytes and messages of its connection.
    pub traffic: Option<Connection>,
    /// How long its messages are in the process until they go on to P2PSs (`latency_calc_server_based`).
    pub latency: Option<Latency>,
}

/// A connection, as the kernel sees it. Bytes are those of the network: encrypted, where they are.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct Connection {
    /// Bytes that the other end has acknowledged, since it was made.
    pub sent_bytes: u64,
    /// Bytes received, since it was made.
    pub received_bytes: u64,
    /// Smoothed round trip, microseconds: from what was sent to its acknowledgement.
    pub round_trip_us: u32,
}

impl Connection {
    fn of(thread: &mut Thread<'_>, conn: ConnId) -> Option<Self> {
        let Traffic { round_trip_us, bytes_acknowledged, bytes_received } = thread.io.tcp().traffic(conn).ok()?;
        Some(Self { sent_bytes: bytes_acknowledged, received_bytes: bytes_received, round_trip_us })
    }
}

/// One at the other end of the hub, where Source Distributors and P2PSs are processes of their own.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Peer {
    /// `source-distributor` or `p2ps`; of an rrcpd's streams `stream-to-host` or `stream-to-network`.
    pub kind: String,
    /// The peer's name and address; a stream's topic, and where it comes from.
    pub name: String,
    /// `joined`, or how far the connection has come; `carried` of a stream.
    pub state: String,
    /// Bytes of the data stream that it has yet to read, at most; of a stream, those that wait for LBM.
    pub behind_bytes: u64,
}

/// A client.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Client {
    /// The client's number: THREAD.CONNECTION.
    pub id: String,
    /// Address and port.
    pub address: String,
    /// Login name; empty before the login.
    pub user: String,
    /// Application id, as the client says.
    pub application_id: String,
    /// Application name, as the client says.
    pub application: String,
    /// Position, as the client says.
    pub position: String,
    /// The name that the client's program gives itself, and how it came.
    pub program: String,
    /// `rssl`, `rssl.rwf` or `tr_json2`.
    pub protocol: String,
    /// Seconds since it came.
    pub connected_s: u64,
    /// Items it watches.
    pub items: u64,
    /// How near that is to its limit.
    pub load: Load,
    /// Bytes that wait for it.
    pub queued_bytes: u64,
    /// The client's requests wait.
    pub held_back: bool,
    /// The last round trip over its login stream, microseconds: the program's own turn counts. Of clients that offer it (`RoundTripLatency`).
    pub login_round_trip_us: Option<u64>,
    /// `active`, `standby`, or both by service: what this server is to a client that knows several, and has said so (warm standby).
    pub warm_standby: Option<String>,
    /// Bytes and messages of its connection.
    pub traffic: Option<Connection>,
    /// How long messages are in the process until the client has them (`latency_calc_mount_based`).
    pub latency: Option<Latency>,
}

/// How long messages of one client or provider are in the process: of every thirty-second turn that delivers something.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct Latency {
    /// Turns that were timed, since it came.
    pub samples: u64,
    /// Of the last samples, microseconds.
    pub median_us: f64,
    /// Likewise.
    pub p99_us: f64,
}

impl From<each_latency::Latency> for Latency {
    fn from(of: each_latency::Latency) -> Self {
        let each_latency::Latency { samples, median_us, p99_us } = of;
        Self { samples, median_us, p99_us }
    }
}

/// An item.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Item {
    /// The item's number: THREAD.ITEM.
    pub id: String,
    /// The item's service.
    pub service: String,
    /// The item's name.
    pub name: String,
    /// Number of its domain: 6 is Market Price.
    pub domain: u8,
    /// Where it stands: `waiting`, `opening`, `open`, `suspect`, `recovering`, `view`.
    pub state: String,
    /// The item's watchers were told that it is suspect, and nothing good since, wherever it stands.
    pub suspect: bool,
    /// Watchers that get updates.
    pub watchers: u64,
    /// Watchers that wait for an image, or are paused.
    pub held_watchers: u64,
    /// One open of its own: a snapshot or a private stream.
    pub private: bool,
}

/// An item that is blocked, which is to say that nobody gets it, or locked, so that it gives its place to nobody.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Blocked {
    /// The item's service.
    pub service: String,
    /// The item's name.
    pub name: String,
    /// Why.
    pub why: String,
}

/// A line of the log.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Event {
    /// The event's number: each line has the next.
    pub number: u64,
    /// When, Unix milliseconds.
    pub time_ms: u64,
    /// error, warn, info, debug or trace.
    pub level: String,
    /// The event.
    pub text: String,
}

/// The filter that reduces a list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only with this in the name (items) or in any text (clients), whatever the case.
    pub contains: String,
    /// Only of this service.
    pub service: String,
    /// Only items of this state.
    pub state: String,
    /// So many at most.
    pub limit: usize,
    /// Where to go on: what the last answer said.
    pub after: Option<(usize, u32)>,
}

/// Counts of one thread, and how it is.
pub(super) fn totals(thread: &mut Thread<'_>) -> (ThreadFacts, Totals) {
    let mut totals = Totals::default();
    if let Some(consumers) = &thread.consumers {
        let c = consumers.p2ps.counters();
        let (load, queue) = consumers.p2ps.load_states();
        totals = Totals {
            clients: c.clients,
            mounts: c.mounts,
            items: c.items,
            watchers: c.watchers,
            items_waiting: c.items_waiting,
            updates_in: c.updates_in,
            updates_out: c.updates_out,
            messages_out: c.messages_out,
            clients_cut_off: c.clients_cut_off,
            requests_refused: c.requests_refused,
            clients_behind: consumers.behind() as u64,
            source_items: 0,
            load: load.into(),
            open_queue: queue.into(),
            mounts_burdened: c.mounts_burdened + c.mounts_overloaded,
            users_burdened: c.users_burdened + c.users_overloaded,
        };
    }
    if let Some(providers) = &thread.providers {
        totals.source_items = providers.distributor.items() as u64;
        // Where there are shards, each of them reads every update.
        if thread.consumers.is_none() {
            totals.updates_in = providers.distributor.counters().updates;
        }
    }
    let tcp = *thread.io.tcp().counters();
    let latency = &thread.latency;
    let facts = ThreadFacts {
        name: String::new(),
        answers: true,
        connections: thread.io.tcp().connections() as u64,
        bytes_received: tcp.bytes_received,
        bytes_sent: tcp.bytes_sent,
        sampled_turns: latency.counts.iter().sum(),
        latency_p50_us: latency.percentile_us(50),
        latency_p99_us: latency.percentile_us(99),
    };
    (facts, totals)
}

/// A thread that does not answer.
pub(super) fn silent_thread() -> (ThreadFacts, Totals) {
    let facts = ThreadFacts {
        name: String::new(),
        answers: false,
        connections: 0,
        bytes_received: 0,
        bytes_sent: 0,
        sampled_turns: 0,
        latency_p50_us: None,
        latency_p99_us: None,
    };
    (facts, Totals::default())
}

/// Whether a text has another in it, which is in lower case, whatever the case.
fn has(text: &str, wanted: &str) -> bool {
    if text.is_ascii() {
        let mut places = text.as_bytes().windows(wanted.len().max(1));
        return wanted.is_empty() || places.any(|place| place.eq_ignore_ascii_case(wanted.as_bytes()));
    }
    text.to_lowercase().contains(wanted)
}

/// The clients of a thread that match, some of them, in the order of their numbers, and where to go on if there are more.
pub fn clients(thread: &mut Thread<'_>, number: usize, filter: &Filter) -> (Vec<Client>, Option<u32>) {
    let Some(consumers) = &thread.consumers else { return (Vec::new(), None) };
    let p2ps = &consumers.p2ps;
    let wanted = filter.contains.to_lowercase();
    let from = filter.after.filter(|(thread, _)| *thread == number).map_or(0, |(_, from)| from);
    let (mut found, mut conns, mut next) = (Vec::new(), Vec::new(), None);
    for connection in consumers.connections().filter(|connection| connection.id.0 >= from) {
        if found.len() >= filter.limit.min(CLIENTS) {
            next = Some(connection.id.0);
            break;
        }
        let login = p2ps.mount(connection.id);
        let login = login.as_ref();
        let said = |of: for<'m> fn(&Mount<'m>) -> &'m str| login.map_or("", of);
        let (user, application, position) = (said(|l| l.user), said(|l| l.application_name), said(|l| l.position));
        let texts = [connection.address, user, application, position, connection.program];
        if !texts.iter().any(|text| has(text, &wanted)) {
            continue;
        }
        conns.push(connection.conn);
        found.push(Client {
            id: format!("{number}.{}", connection.id.0),
            address: connection.address.to_owned(),
            user: user.to_owned(),
            application_id: said(|l| l.application_id).to_owned(),
            application: application.to_owned(),
            position: position.to_owned(),
            program: connection.program.to_owned(),
            protocol: connection.protocol.name().to_owned(),
            connected_s: thread.now.saturating_sub(connection.since) / 1_000_000_000,
            items: login.map_or(0, |l| l.items.into()),
            load: login.map_or(Load::Normal, |l| l.load.into()),
            queued_bytes: p2ps.client_waiting(connection.id) as u64,
            held_back: connection.is_held_back,
            login_round_trip_us: login.and_then(|l| l.round_trip_us),
            warm_standby: login.and_then(|l| l.standby).map(str::to_owned),
            traffic: None,
            latency: consumers.latency_of(connection.conn).map(Latency::from),
        });
    }
    for (client, conn) in found.iter_mut().zip(conns) {
        client.traffic = Connection::of(thread, conn);
    }
    (found, next)
}

/// The items of a thread.
pub(super) fn items(thread: &mut Thread<'_>, number: usize, filter: &Filter) -> (Vec<Item>, Option<u32>) {
    let Some(consumers) = &thread.consumers else { return (Vec::new(), None) };
    let p2ps = &consumers.p2ps;
    let from = filter.after.filter(|(thread, _)| *thread == number).map_or(0, |(_, from)| from);
    let wanted = filter.contains.to_lowercase();
    let service = p2ps.service_overview().find(|s| s.name == filter.service).map(|s| s.id);
    if service.is_none() && !filter.service.is_empty() {
        return (Vec::new(), None);
    }
    let (found, next) = p2ps.item_overview(from, (filter.limit, LOOKED_AT), |of, name, state, is_suspect| {
        // Items that are suspect are found wherever they stand, a view with the item that it is of.
        let is_of_state = filter.state == state || filter.state == "suspect" && is_suspect && state != "view";
        service.is_none_or(|service| service == of)
            && (filter.state.is_empty() || is_of_state)
            && (wanted.is_empty() || has(&String::from_utf8_lossy(name), &wanted))
    });
    let named = |id: u16| p2ps.service_name(id).unwrap_or_default().to_owned();
    let items = found.into_iter().map(|item| Item {
        id: format!("{number}.{}", item.number),
        service: named(item.service),
        name: item.name,
        domain: item.domain,
        state: item.state.to_owned(),
        suspect: item.is_suspect,
        watchers: item.open_watchers as u64,
        held_watchers: item.held_watchers as u64,
        private: item.is_private,
    });
    (items.collect(), next)
}

/// The items that are blocked in a thread.
pub(super) fn blocked(thread: &mut Thread<'_>) -> Vec<Blocked> {
    let Some(consumers) = &thread.consumers else { return Vec::new() };
    consumers.p2ps.blocked_items().take(BLOCKED).map(told).collect()
}

/// The items that are locked in a thread.
pub(super) fn locked(thread: &mut Thread<'_>) -> Vec<Blocked> {
    let Some(providers) = &thread.providers else { return Vec::new() };
    providers.distributor.locked_items().take(BLOCKED).map(told).collect()
}

fn told((service, name, why): (&str, &[u8], &str)) -> Blocked {
    let name = String::from_utf8_lossy(name).into_owned();
    Blocked { service: service.to_owned(), name, why: why.to_owned() }
}

/// The services of a thread; those of several threads are put together by [`merge`].
pub(super) fn services(thread: &mut Thread<'_>, number: usize) -> Vec<Service> {
    let mut found = Vec::new();
    if let Some(providers) = &thread.providers {
        let sessions: Vec<_> = providers.distributor.session_overview().collect();
        for service in providers.distributor.service_overview() {
            let of = |session: &&hub::distributor::SessionOverview<'_>| {
                let offer = session.services.iter().find(|offer| offer.service == service.name)?;
                Some(Offer {
                    provider: format!("{number}.{}", session.id.0),
                    address: session.address.to_owned(),
                    served_from: offer.member.unwrap_or_default().to_owned(),
                    up: offer.up,
                    accepting: offer.accepting,
                    load_factor: offer.load_factor,
                    open: offer.open.into(),
                    outstanding: offer.outstanding.into(),
                    standby: 0,
                    silent: offer.interrupted,
                })
            };
            let mut offers: Vec<Offer> = Vec::new();
            for id in &service.providers {
                offers.extend(sessions.iter().filter(|session| session.id == *id).filter_map(|s| of(&s)));
            }
            found.push(Service {
                name: service.name.to_owned(),
                up: service.up,
                accepting: service.accepting,
                waiting: service.waiting as u64,
                suspect: service.lost.into(),
                is_told: false,
                providers: offers,
                path: service.path.to_vec(),
            });
        }
    }
    if let Some(consumers) = &thread.consumers {
        let known = consumers.p2ps.service_overview().map(|service| Service {
            name: service.name.to_owned(),
            up: service.up,
            accepting: service.accepting,
            waiting: service.waiting as u64,
            suspect: service.suspect.into(),
            is_told: true,
            providers: service.sources.iter().filter(|source| !source.name.is_empty()).map(of_source).collect(),
            path: service.path.to_vec(),
        });
        found.extend(known);
    }
    found
}

fn of_source(source: &hub::p2ps::SourceOverview<'_>) -> Offer {
    Offer {
        provider: String::new(),
        address: source.name.to_owned(),
        served_from: String::new(),
        up: source.up,
        accepting: source.accepting,
        load_factor: 0,
        open: source.open as u64,
        standby: source.standby as u64,
        outstanding: source.opening as u64,
        silent: false,
    }
}

impl Service {
    /// The same Source Distributor serves several threads; a provider has one session.
    fn add_offer(&mut self, offer: Offer) {
        let is_same = |known: &&mut Offer| known.provider.is_empty() && known.address == offer.address;
        match self.providers.iter_mut().find(is_same) {
            Some(known) => {
                known.up &= offer.up;
                known.accepting &= offer.accepting;
                known.open += offer.open;
                known.standby += offer.standby;
                known.outstanding += offer.outstanding;
            }
            None => self.providers.push(offer),
        }
    }
}

/// Services of one name put together: up where somebody can be served.
pub(super) fn merge(all: impl IntoIterator<Item = Service>) -> Vec<Service> {
    let mut merged: Vec<Service> = Vec::new();
    for service in all {
        match merged.iter_mut().find(|known| known.name == service.name) {
            Some(known) => {
                known.up &= service.up;
                known.accepting &= service.accepting;
                known.waiting += service.waiting;
                // The messages to clients count, not what became of them on the way here.
                if known.is_told == service.is_told {
                    known.suspect += service.suspect;
                } else if service.is_told {
                    (known.suspect, known.is_told) = (service.suspect, true);
                }
                service.providers.into_iter().for_each(|offer| known.add_offer(offer));
                let news: Vec<String> = service.path.into_iter().filter(|site| !known.path.contains(site)).collect();
                known.path.extend(news);
            }
            None => merged.push(service),
        }
    }
    merged
}

/// The providers of a thread: sessions, and routes that have none.
pub(super) fn providers(thread: &mut Thread<'_>, number: usize) -> Vec<Provider> {
    let Some(providers) = &thread.providers else { return Vec::new() };
    let mut found: Vec<Provider> = Vec::new();
    let (mut connected, mut conns) = (Vec::new(), Vec::new());
    for session in providers.distributor.session_overview() {
        let kind = match session.origin {
            Origin::Route(route) => {
                connected.push(route);
                "route"
            }
            Origin::NonInteractive => "non-interactive",
        };
        found.push(Provider {
            id: format!("{number}.{}", session.id.0),
            kind: kind.to_owned(),
            address: session.address.to_owned(),
            server_id: session.server_id.to_owned(),
            state: session.phase.to_owned(),
            services: session.services.iter().map(|offer| offer.service.to_owned()).collect(),
            queued_bytes: 0,
            traffic: None,
            latency: None,
        });
        conns.push(providers.connection(session.id));
    }
    for (_, address) in providers.routes().filter(|(route, _)| !connected.contains(route)) {
        found.push(Provider {
            id: String::new(),
            kind: "route".to_owned(),
            address,
            server_id: String::new(),
            state: "not connected".to_owned(),
            services: Vec::new(),
            queued_bytes: 0,
            traffic: None,
            latency: None,
        });
    }
    for (provider, conn) in found.iter_mut().zip(conns) {
        provider.traffic = conn.and_then(|conn| Connection::of(thread, conn));
        let measured = conn.and_then(|conn| thread.providers.as_ref()?.latency_of(conn));
        provider.latency = measured.map(Latency::from);
        provider.queued_bytes = conn.map_or(0, |conn| thread.io.backlog(conn) as u64);
    }
    found
}

/// Peers at the other end of the hub, or the streams of a daemon.
pub(super) fn peers(thread: &mut Thread<'_>) -> Vec<Peer> {
    let peer = |peer: HubPeer| Peer {
        kind: peer.kind.to_owned(),
        name: peer.name,
        state: peer.state.to_owned(),
        behind_bytes: peer.behind_bytes,
    };
    thread.peers.drain(..).map(peer).collect()
}
