//! Where else a client may connect that asks for it at login (`DownloadConnectionConfig`).

use crate::P2ps;
use crate::ids::{ClientId, StreamId};
use crate::servers::{Member, Place};
use crate::stream::Health;
use rwf::rdm::login::{self, ConnectionConfig, Server};

/// The servers of a site, as clients that ask are told of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connections {
    /// Names or addresses with their ports, most wanted first. Without any those of the hub count.
    pub servers: Vec<(String, u16)>,
    /// This P2PS tells the others of its hub where consumers reach it, and its clients of them.
    pub of_hub: bool,
    /// How many connections a client is to hold beside its first.
    pub standby_servers: u16,
    /// Which server a client finds first.
    pub order: ServerOrder,
}

impl Connections {
    /// The configured servers.
    pub(crate) fn members(&self) -> Vec<Member> {
        let place = |(host, port): &(String, u16)| Place { host: host.clone(), rssl: *port, websocket: 0 };
        let member = |server| Member { place: place(server), load_factor: None, health: Health::Well };
        self.servers.iter().map(member).collect()
    }
}

/// Which server of a list a client finds first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServerOrder {
    /// The first one: the others are for its loss.
    #[default]
    List,
    /// Another one for each login among those that are equally good, and the others behind it in turn: clients spread over all.
    Spread,
}

/// A client that has asked which servers there are, and is told when they change.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The client's login, without its name, which may be a token, and what proves who it is.
    request: login::Request,
    /// The client's place in the order of logins, which is all that spreading needs.
    turn: u64,
    /// What it was told last.
    edition: u64,
}

impl P2ps {
    /// What a login that is accepted is told of other servers. Who asks hears of changes, too.
    pub(super) fn connections_for(&mut self, client: ClientId, request: &login::Request) -> Option<ConnectionConfig> {
        let (edition, logins) = (self.servers.edition(), self.counters.logins);
        let login = self.clients.get_mut(client)?.login.as_mut()?;
        match request.download_connection_config {
            None if login.asked.is_none() => return None,
            Some(false) => {
                login.asked = None;
                return None;
            }
            None | Some(true) => {}
        }
        let turn = login.asked.as_ref().map_or(logins.saturating_sub(1), |asked| asked.turn);
        let request = login::Request {
            name: String::new(),
            password: None,
            authentication_token: None,
            authentication_extended: None,
            ..request.clone()
        };
        login.asked = Some(Box::new(Asked { request, turn, edition }));
        self.connections_at(client, turn)
    }

    /// The servers as a client is told of them that has this place in the order of logins.
    fn connections_at(&self, client: ClientId, turn: u64) -> Option<ConnectionConfig> {
        let mut members: Vec<&Member> = self.servers.members().iter().collect();
        let most = (members.len() as u64).checked_sub(1)?;
        let standby_servers = self.config.connections.standby_servers;
        if self.config.connections.order == ServerOrder::Spread {
            let are_equal = |a: &&Member, b: &&Member| (a.health, a.load_factor) == (b.health, b.load_factor);
            for equal in members.chunk_by_mut(are_equal) {
                equal.rotate_left((turn % equal.len() as u64) as usize);
            }
        }
        let is_json = self.clients.get(client).is_some_and(|known| known.speaks_json);
        let port = |place: &Place| if is_json && place.websocket > 0 { place.websocket } else { place.rssl };
        let server = |(at, member): (usize, &&Member)| Server {
            host: member.place.host.clone(),
            port: port(&member.place).into(),
            load_factor: member.load_factor.map(u64::from),
            // `ServerType`: 0 is to be served by, 1 to be held beside it.
            kind: (standby_servers > 0).then_some(u16::from(at > 0)),
        };
        let servers = members.iter().enumerate().map(server).collect();
        Some(ConnectionConfig { standby_servers: u64::from(standby_servers).min(most), servers })
    }

    /// Tells a client that has asked of other servers than it was told of: its login again, unasked.
    pub(crate) fn tell_of_servers(&mut self, client: ClientId) {
        let edition = self.servers.edition();
        let known = self.clients.get_mut(client).filter(|known| !known.closing);
        let Some(login) = known.and_then(|known| known.login.as_mut()) else { return };
        let Some(asked) = login.asked.as_mut().filter(|asked| asked.edition != edition) else { return };
        asked.edition = edition;
        let (name, name_type, turn) = (login.name.clone(), login.name_type, asked.turn);
        let request = login::Request { name, name_type, ..asked.request.clone() };
        let mut refresh = self.acceptance(client, &request, "Other servers than before");
        refresh.solicited = false;
        refresh.connection_config = self.connections_at(client, turn);
        self.counters.servers_told += 1;
        self.send(client, StreamId(request.stream_id), |w| refresh.encode(w));
    }
}
