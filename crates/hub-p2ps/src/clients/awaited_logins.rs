//! Clients that are not logged in: each has so much time for that.
//!
//! The time runs from the connection, and anew from a logout. A client that pings, or asks for what nobody gets before a login, is not
//! logged in for that: otherwise a few such clients would hold all mounts for good.

use super::Clients;
use crate::CloseReason;
use crate::P2ps;
use crate::ids::ClientId;
use std::collections::BTreeSet;

/// When the time of each client is over that is not logged in.
#[derive(Debug, Default)]
pub(crate) struct AwaitedLogins {
    due: BTreeSet<(u64, ClientId)>,
}

impl AwaitedLogins {
    pub(crate) fn timeout(&self) -> Option<u64> {
        self.due.first().map(|&(at, _)| at)
    }
}

impl Clients {
    /// A client has logged in, or is gone.
    pub(crate) fn await_login_no_more(&mut self, client: ClientId) {
        let at = self.get_mut(client).and_then(|known| known.login_by.take());
        if let Some(at) = at {
            self.awaited_logins.due.remove(&(at, client));
        }
    }

    /// A client is there without a login from now on.
    pub(crate) fn await_login(&mut self, now: u64, timeout: u64, client: ClientId) {
        if timeout == 0 {
            return;
        }
        let at = now.saturating_add(timeout);
        if let Some(known) = self.get_mut(client) {
            debug_assert!(known.login.is_none() && known.login_by.is_none(), "{client:?} is waited for already");
            known.login_by = Some(at);
            self.awaited_logins.due.insert((at, client));
        }
    }
}

impl P2ps {
    /// Closes the clients whose time is over.
    pub(crate) fn close_without_login(&mut self) {
        while let Some(&(at, client)) = self.clients.awaited_logins.due.first()
            && at <= self.now
        {
            self.clients.await_login_no_more(client);
            let seconds = self.config.login_timeout / 1_000_000_000;
            self.close_client(client, CloseReason::NoLogin { seconds });
        }
    }
}
