//! A connection that a tool makes to a server: whoever fails goes on to the server's next place.

use crate::places::Places;
use net::tcp::{ConnId, SocketOptions};
use rssl::{ClientConfig, Version};
use rssl_io::{Ended, RsslIo};
use std::sync::Arc;

/// A connection that this process makes.
pub(crate) struct Dialled {
    pub(crate) to: Places,
    pub(crate) conn: Option<ConnId>,
    version: Version,
}

impl Dialled {
    pub(crate) const fn new(to: Places) -> Self {
        Self { to, conn: None, version: Version::V14 }
    }

    /// True if it was dialled.
    pub(crate) fn dial(&mut self, now: u64, io: &mut RsslIo) -> bool {
        let config = ClientConfig { version: self.version, ..ClientConfig::default() };
        self.conn = io.connect(now, self.to.address(), &SocketOptions::default(), Arc::new(config), None).ok();
        if self.conn.is_none() {
            self.to.go_on();
        }
        self.conn.is_some()
    }

    /// The connection is gone.
    pub(crate) fn lost(&mut self, ended: &Ended) {
        self.conn = None;
        self.version = ended.next_version.unwrap_or(Version::V14);
        if ended.next_version.is_none() {
            self.to.go_on();
        }
    }
}
