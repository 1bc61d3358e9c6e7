//! A connection that this process makes and makes again: whoever fails goes on to the server's next place.

use crate::{Ended, RsslIo};
use net::tcp::{ConnId, SocketOptions};
use rssl::{ClientConfig, Version};
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;

/// Where a server is reached: one place after the other.
pub trait Reach: Display {
    /// The place to try.
    fn address(&self) -> SocketAddr;

    /// The place could not be used, or not any longer: another is to be tried.
    fn go_on(&mut self);
}

/// A server with one place.
impl Reach for SocketAddr {
    fn address(&self) -> SocketAddr {
        *self
    }

    fn go_on(&mut self) {}
}

/// A connection that this process makes.
pub struct Dialled<R> {
    /// Whom it goes to.
    pub to: R,
    /// The connection, while there is one or one is being made.
    pub conn: Option<ConnId>,
    version: Version,
}

impl<R: Reach> Dialled<R> {
    /// One that is not made yet.
    pub const fn new(to: R) -> Self {
        Self { to, conn: None, version: Version::V14 }
    }

    /// True if it was dialled.
    pub fn dial(&mut self, now: u64, io: &mut RsslIo) -> bool {
        let config = ClientConfig { version: self.version, ..ClientConfig::default() };
        self.conn = io.connect(now, self.to.address(), &SocketOptions::default(), Arc::new(config), None).ok();
        if self.conn.is_none() {
            self.to.go_on();
        }
        self.conn.is_some()
    }

    /// The connection is gone.
    pub fn lost(&mut self, ended: &Ended) {
        self.conn = None;
        self.version = ended.next_version.unwrap_or(Version::V14);
        if ended.next_version.is_none() {
            self.to.go_on();
        }
    }
}
