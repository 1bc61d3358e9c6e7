//! The servers of a hub: what this P2PS says of itself to Source Distributors, what those say of the others, and which of it clients hear.
//!
//! ```text
//! this P2PS: place, health, load factor --Serve--> Source Distributors --Servers--> every P2PS that is a server, too
//!                                                                                   '-> members, best first -> clients that asked
//! ```
//!
//! * What several Source Distributors say counts together. One that was joined a moment ago knows few P2PSs yet, and one that is lost none: what was
//!   known stays until one has had the time to hear of all.
//! * Clients hear of other members a second after they have changed at the latest, of other loads once in the interval of the load factor.

use super::config::Connections;
use super::ids::{ClientId, SourceId};
use super::{Notice, P2ps};
use crate::stream::{Health, Kind, Request, Server};
use std::collections::{BTreeMap, VecDeque};

const SECOND: u64 = 1_000_000_000;
/// How often this P2PS looks at how it is, and the least time between two words to the same client.
const CHECK: u64 = SECOND;
/// How long a Source Distributor is given to hear of all P2PSs again: each tries again after 2 s at most.
const SETTLE: u64 = 5 * SECOND;
/// Clients that a turn tells of other servers.
const CLIENTS_PER_TURN: usize = 64;

/// Where consumers reach this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Name or address: graphic ASCII, 1 to 255 characters.
    pub host: String,
    /// Port for RSSL.
    pub rssl: u16,
    /// Port for JSON over WebSocket; 0 where there is none.
    pub websocket: u16,
}

/// A server that clients are told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) place: Place,
    pub(crate) load_factor: Option<u16>,
    pub(crate) health: Health,
}

impl Member {
    fn new(server: &Server<'_>) -> Self {
        let place = Place { host: server.host.to_owned(), rssl: server.rssl, websocket: server.websocket };
        Self { place, load_factor: server.load_factor, health: server.health }
    }

    fn server(&self) -> Server<'_> {
        let Place { ref host, rssl, websocket } = self.place;
        Server { host, rssl, websocket, load_factor: self.load_factor, health: self.health }
    }
}

impl Connections {
    /// The configured servers.
    fn members(&self) -> Vec<Member> {
        let place = |(host, port): &(String, u16)| Place { host: host.clone(), rssl: *port, websocket: 0 };
        let member = |server| Member { place: place(server), load_factor: None, health: Health::Well };
        self.servers.iter().map(member).collect()
    }
}

/// Knowledge of servers, and which of it was told.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    place: Option<Place>,
    is_draining: bool,
    /// The entry of this P2PS, as it is written; empty: none.
    own: Vec<u8>,
    /// Another one each time that `own` changes; 0 while nothing was ever said.
    serial: u64,
    /// The last list of each Source Distributor, as it is written.
    heard: BTreeMap<SourceId, Box<[u8]>>,
    /// The servers of the hub, best first.
    of_hub: Vec<Member>,
    /// The servers that clients are told of: the configured ones as they are, where there are any, else those of the hub.
    members: Vec<Member>,
    /// Another one each time that `members` change.
    edition: u64,
    /// Members as clients were told last that are told of changes.
    told: Vec<Member>,
    told_at: u64,
    /// Members may have changed.
    is_stale: bool,
    check_at: u64,
    /// Until then a Source Distributor may not have heard of all.
    settled_at: u64,
    /// Clients that have yet to be told.
    waiting: VecDeque<ClientId>,
}

impl Servers {
    /// The servers that are configured, if any are.
    pub(crate) fn new(connections: &Connections) -> Self {
        let members = connections.members();
        Self { told: members.clone(), members, ..Self::default() }
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Tells one state of the members from others.
    pub(crate) fn edition(&self) -> u64 {
        self.edition
    }

    /// When [`P2ps::work_on_servers`] is due.
    pub(crate) fn timeout(&self, is_on: bool) -> Option<u64> {
        if self.is_stale || !self.waiting.is_empty() {
            return Some(0);
        }
        is_on.then_some(self.check_at)
    }

    /// A Source Distributor is lost.
    pub(crate) fn forget(&mut self, source: SourceId) {
        self.is_stale |= self.heard.remove(&source).is_some();
    }

    /// A Source Distributor is joined.
    pub(crate) fn await_others(&mut self, now: u64) {
        self.settled_at = now.saturating_add(SETTLE);
    }

    /// The servers of the hub by what is heard now.
    fn gathered(&self, now: u64) -> Vec<Member> {
        let read = |bytes| Server::read_all(Kind::Servers, bytes).unwrap_or_default();
        let own = read(&self.own);
        let mut all: Vec<Server<'_>> = self.heard.values().flat_map(|bytes| read(bytes)).collect();
        let is_among = |all: &[Server<'_>], one: &Server<'_>| {
            all.iter().any(|other| (other.host, other.rssl) == (one.host, one.rssl))
        };
        if self.heard.is_empty() || now < self.settled_at {
            let kept: Vec<_> = self.of_hub.iter().map(Member::server).filter(|one| !is_among(&all, one)).collect();
            all.extend(kept);
        }
        // Nobody knows better how it is.
        all.retain(|one| !is_among(&own, one));
        all.extend(own);
        all.retain(|one| one.health != Health::Draining);
        Server::best(all, Server::MOST).iter().map(Member::new).collect()
    }

    /// Whether clients that are told of changes are to be told now.
    fn is_due(&self, now: u64, load_interval: u64) -> bool {
        if self.members == self.told || self.members.is_empty() || !self.waiting.is_empty() {
            return false;
        }
        let places = |members: &[Member]| {
            let mut places: Vec<_> = members.iter().map(|member| member.place.clone()).collect();
            places.sort_unstable_by(|a, b| (&a.host, a.rssl).cmp(&(&b.host, b.rssl)));
            places
        };
        let interval = if places(&self.members) == places(&self.told) { load_interval.max(CHECK) } else { CHECK };
        self.told.is_empty() || now >= self.told_at.saturating_add(interval)
    }

    /// Whether something is to be said to a Source Distributor.
    pub(crate) fn is_ever_server(&self) -> bool {
        self.serial > 0
    }

    /// Whether this P2PS is a server for others to name.
    pub(crate) fn is_server(&self, of_hub: bool) -> bool {
        of_hub && self.place.is_some()
    }

    /// A Source Distributor tells of the P2PSs that it knows.
    pub(crate) fn servers_heard(&mut self, of_hub: bool, source: SourceId, servers: &[u8]) {
        if self.is_server(of_hub) {
            self.heard.insert(source, servers.into());
            self.is_stale = true;
        }
    }
}

impl P2ps {
    /// Where consumers reach this server, for clients of others and its own ([`crate::Connections::of_hub`]).
    ///
    /// # Panics
    /// The host is none that can be told.
    pub fn serve_at(&mut self, now: u64, place: Place) {
        self.now = now;
        let is_printed = place.host.bytes().all(|byte| byte.is_ascii_graphic());
        assert!((1..=Server::HOST_MAX).contains(&place.host.len()) && is_printed, "no host: {:?}", place.host);
        assert!(place.rssl > 0, "a port is none");
        self.servers.place = Some(place);
        self.tell_load_factor();
        self.look_at_servers();
    }

    /// No new clients are taken here, or they are again: others are told so, and name this server to nobody meanwhile.
    pub fn set_draining(&mut self, is_draining: bool) {
        self.servers.is_stale |= self.servers.is_draining != is_draining;
        self.servers.is_draining = is_draining;
    }

    /// Looks at how this server is and which others there are, if that is due, and tells some clients if it has changed.
    pub(crate) fn work_on_servers(&mut self) {
        if self.servers.is_stale
            || (self.servers.is_server(self.config.connections.of_hub) && self.now >= self.servers.check_at)
        {
            self.look_at_servers();
        }
        for _ in 0..CLIENTS_PER_TURN.min(self.servers.waiting.len()) {
            // As many as are taken out wait.
            let Some(client) = self.servers.waiting.pop_front() else { return };
            self.tell_of_servers(client);
        }
    }

    /// Looks at how this server is and which others there are.
    pub(crate) fn look_at_servers(&mut self) {
        let (now, is_on) = (self.now, self.servers.is_server(self.config.connections.of_hub));
        let mut own = Vec::new();
        if let Some(Place { host, rssl, websocket }) = self.servers.place.as_ref().filter(|_| is_on) {
            let load_factor = self.load.factor().and_then(|load| u16::try_from(load).ok());
            let server =
                Server { host, rssl: *rssl, websocket: *websocket, load_factor, health: self.health_of_server() };
            server.write(&mut own);
        }
        let configured = self.config.connections.members();
        let servers = &mut self.servers;
        if servers.own != own {
            servers.own = own;
            servers.serial += 1;
        }
        if !is_on {
            servers.heard.clear();
            servers.of_hub.clear();
        }
        let gathered = servers.gathered(now);
        if self.config.notices.servers {
            let are_in = |members: &[Member], one: &Member| members.iter().any(|other| other.place == one.place);
            let came = gathered.iter().filter(|one| !are_in(&servers.of_hub, one)).map(|one| (one, true));
            let gone = servers.of_hub.iter().filter(|one| !are_in(&gathered, one)).map(|one| (one, false));
            for (Member { place: Place { host, rssl, .. }, .. }, is_there) in came.chain(gone) {
                self.output.notice(Notice::Server { place: format!("{host}:{rssl}"), is_there });
            }
        }
        servers.of_hub = gathered;
        let members = if configured.is_empty() { servers.of_hub.clone() } else { configured };
        if servers.members != members {
            servers.members = members;
            servers.edition += 1;
        }
        (servers.is_stale, servers.check_at) = (false, now.saturating_add(CHECK));
        self.counters.servers = servers.members.len() as u64;
        if servers.is_due(now, self.config.load_factor_interval) {
            servers.told.clone_from(&servers.members);
            servers.told_at = now;
            let asked = |login: &crate::clients::Login| login.asked.is_some();
            let clients = self.clients.iter().filter(|(_, client)| client.login.as_ref().is_some_and(asked));
            servers.waiting = clients.map(|(id, _)| id).collect();
        }
    }

    fn health_of_server(&self) -> Health {
        let mut alive = self.sources.services().iter().filter(|service| service.alive).peekable();
        if self.servers.is_draining {
            Health::Draining
        } else if alive.peek().is_none() || alive.any(|service| !service.told.up) {
            Health::Impaired
        } else {
            Health::Well
        }
    }

    /// Says what has changed of this server to the Source Distributors.
    pub(crate) fn announce_server(&mut self) {
        let Self { servers, sources, .. } = self;
        for (_, source) in sources.iter_up() {
            let is_told = source.announced == servers.serial;
            // Nothing is nothing new to one that was never told anything.
            let is_nothing = source.announced == 0 && servers.own.is_empty();
            if source.joined.is_some() && !is_told && !is_nothing {
                source.announced = servers.serial;
                source.writer.request(&Request::Serve { server: &servers.own });
            }
        }
    }
}
