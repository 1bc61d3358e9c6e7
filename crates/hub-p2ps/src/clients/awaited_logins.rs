//! Clients that are not logged in: each has so much time for that.
//!
//! The time runs from the connection, and anew from a logout. A client that pings, or asks for what nobody gets before a login, is not
//! logged in for that: otherwise a few such clients would hold all mounts for good.

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

impl P2ps {
    /// A client is there without a login from now on.
    pub(crate) fn await_login(&mut self, client: ClientId) {
        if self.config.login_timeout == 0 {
            return;
        }
        let at = self.now.saturating_add(self.config.login_timeout);
        if let Some(known) = self.clients.get_mut(client) {
            debug_assert!(known.login.is_none() && known.login_by.is_none(), "{client:?} is waited for already");
            known.login_by = Some(at);
            self.clients.awaited_logins.due.insert((at, client));
        }
    }

    /// A client has logged in, or is gone.
    pub(crate) fn await_login_no_more(&mut self, client: ClientId) {
        let at = self.clients.get_mut(client).and_then(|known| known.login_by.take());
        if let Some(at) = at {
            self.clients.awaited_logins.due.remove(&(at, client));
        }
    }

    /// Closes the clients whose time is over.
    pub(crate) fn close_without_login(&mut self) {
        while let Some(&(at, client)) = self.clients.awaited_logins.due.first()
            && at <= self.now
        {
            self.await_login_no_more(client);
            let seconds = self.config.login_timeout / 1_000_000_000;
            self.close_client(client, CloseReason::NoLogin { seconds });
        }
    }
}
