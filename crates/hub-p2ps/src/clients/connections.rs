//! Where else a client may connect that asks for it at login (`DownloadConnectionConfig`).

use crate::P2ps;
use rwf::rdm::login::{ConnectionConfig, Server};

/// The servers of a site, as clients that ask are told of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connections {
    /// Names or addresses with their ports, most wanted first. Nobody is told anything if there is none.
    pub servers: Vec<(String, u16)>,
    /// How many connections a client is to hold beside its first.
    pub standby_servers: u16,
    /// Which server a client finds first.
    pub order: ServerOrder,
}

/// Which server of a list a client finds first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServerOrder {
    /// The first one: the others are for its loss.
    #[default]
    List,
    /// Another one for each login, and the others behind it in turn: clients spread over all.
    Spread,
}

impl P2ps {
    /// What a login is told of other servers, which asks for that or does not.
    pub(super) fn connections_for(&self, asked: Option<bool>) -> Option<ConnectionConfig> {
        asked.filter(|asked| *asked)?;
        let Connections { servers, standby_servers, order } = &self.config.connections;
        // Another turn for each login, which is all that spreading needs.
        let turn = (self.counters.logins.saturating_sub(1) as usize).checked_rem(servers.len())?;
        let (before, from) = servers.split_at(if *order == ServerOrder::Spread { turn } else { 0 });
        let server = |(place, (host, port)): (usize, &(String, u16))| Server {
            host: host.clone(),
            port: u64::from(*port),
            load_factor: None,
            // `ServerType`: 0 is to be served by, 1 to be held beside it.
            kind: (*standby_servers > 0).then_some(u16::from(place > 0)),
        };
        let standby_servers = u64::from(*standby_servers).min(servers.len() as u64 - 1);
        let servers = from.iter().chain(before).enumerate().map(server).collect();
        Some(ConnectionConfig { standby_servers, servers })
    }
}
