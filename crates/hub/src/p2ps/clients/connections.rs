//! Where else a client may connect that asks for it at login (`DownloadConnectionConfig`).

use crate::p2ps::P2ps;
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

/// `ServerType` of the server to be served by, and of one to hold beside it.
const ACTIVE: u16 = 0;
const STANDBY: u16 = 1;

impl Connections {
    /// What the `turn`th login is told.
    fn told(&self, turn: u64) -> Option<ConnectionConfig> {
        let count = self.servers.len() as u64;
        let first = match self.order {
            ServerOrder::List => 0,
            ServerOrder::Spread => turn.checked_rem(count)?,
        };
        let (before, from) = self.servers.split_at_checked(first as usize)?;
        let kind = |place| if place == 0 { ACTIVE } else { STANDBY };
        let server = |(place, (host, port)): (usize, &(String, u16))| Server {
            host: host.clone(),
            port: u64::from(*port),
            load_factor: None,
            kind: (self.standby_servers > 0).then(|| kind(place)),
        };
        let servers: Vec<_> = from.iter().chain(before).enumerate().map(server).collect();
        let standby_servers = u64::from(self.standby_servers).min(count.saturating_sub(1));
        (!servers.is_empty()).then_some(ConnectionConfig { standby_servers, servers })
    }
}

impl P2ps {
    /// What a login is told of other servers, which asks for that or does not.
    pub(super) fn connections_for(&self, asked: Option<bool>) -> Option<ConnectionConfig> {
        // Another number for each login, which is all that spreading needs.
        (asked == Some(true)).then(|| self.config.connections.told(self.counters.logins.saturating_sub(1))).flatten()
    }
}
