//! The part of a client that is about its connection, whatever its role.

use omm::consumer::Consumer;
use omm::publisher::Publisher;

/// A role of `omm` that has a connection to a server. Times are in nanoseconds of the owner's monotonic clock.
pub trait Role {
    /// Whether the role wants a connection now; [`Role::connected`] or [`Role::disconnected`] follows.
    fn wants_connection(&mut self, now: u64) -> bool;
    /// The session is established.
    fn connected(&mut self, now: u64);
    /// The connection is gone, or could not be made.
    fn disconnected(&mut self, now: u64);
    /// Does what is due.
    fn handle_timeout(&mut self, now: u64);
    /// The next message to send.
    fn poll_transmit(&mut self) -> Option<&[u8]>;
}

macro_rules! role {
    ($role:ty) => {
        impl Role for $role {
            fn wants_connection(&mut self, now: u64) -> bool {
                self.poll_connect(now).is_some()
            }

            fn connected(&mut self, now: u64) {
                self.handle_connected(now);
            }

            fn disconnected(&mut self, now: u64) {
                self.handle_disconnected(now);
            }

            fn handle_timeout(&mut self, now: u64) {
                <$role>::handle_timeout(self, now);
            }

            fn poll_transmit(&mut self) -> Option<&[u8]> {
                <$role>::poll_transmit(self)
            }
        }
    };
}

role!(Consumer);
role!(Publisher);
