//! Where else a client may connect that asks for it at login (`DownloadConnectionConfig`).

use crate::P2ps;
use crate::config::ServerOrder;
use crate::ids::{ClientId, StreamId};
use crate::servers::{Member, Place};
use rwf::rdm::login::{self, ConnectionConfig, Server};

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
        // A client that has gone or logged out since is told at its next login.
        let Some(login) = known.and_then(|known| known.login.as_mut()) else { return };
        // A client that does not ask, or whose last answer said so already, knows.
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
