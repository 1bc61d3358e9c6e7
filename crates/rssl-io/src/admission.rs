//! Limits by address, and a bounded log of the connections that never became a session.

use std::collections::HashMap;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};

use crate::reason::AdmissionError;

/// How many connections a port takes. 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Connections of one address.
    pub per_address: usize,
    /// Connections of all addresses that are not yet a session.
    pub handshakes: usize,
    /// How long a session may say nothing at all after its handshake, nanoseconds.
    pub login_timeout_ns: u64,
}

/// Who is there.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    addresses: HashMap<IpAddr, usize>,
    /// Connections that are no session yet.
    pub(crate) handshakes: usize,
    log: RefusalLog,
}

impl Admission {
    /// Counts a connection, or says why there is no room for it.
    pub(crate) fn admit(&mut self, limits: &Limits, address: IpAddr) -> Result<(), AdmissionError> {
        if limits.handshakes > 0 && self.handshakes >= limits.handshakes {
            return Err(AdmissionError::Handshakes { open: self.handshakes });
        }
        let count = self.addresses.entry(address).or_insert(0);
        if limits.per_address > 0 && *count >= limits.per_address {
            return Err(AdmissionError::Address { open: *count });
        }
        *count += 1;
        self.handshakes += 1;
        Ok(())
    }

    /// A connection is a session now.
    pub(crate) fn established(&mut self) {
        debug_assert!(self.handshakes > 0, "a session was a handshake before");
        self.handshakes -= 1;
    }

    /// A connection that was admitted is gone.
    pub(crate) fn leave(&mut self, address: IpAddr, established: bool) {
        if !established {
            debug_assert!(self.handshakes > 0, "a connection without a session is a handshake");
            self.handshakes -= 1;
        }
        if let Some(count) = self.addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&address);
            }
        }
    }

    /// Says that a connection never became a session: [`LINES`] lines for an address in [`WINDOW_NS`]; the next one has the number of
    /// those left out.
    pub(crate) fn log_refused(&mut self, now: u64, peer: SocketAddr, why: &dyn Display) {
        if let Some(left_out) = self.log.may_say(now, peer.ip()) {
            let others =
                if left_out == 0 { String::new() } else { format!(" ({left_out} more from there were not logged)") };
            tracing::info!("connection from {peer} refused: {why}{others}");
        }
    }
}

/// Lines about one address in [`WINDOW_NS`].
const LINES: u32 = 20;
/// How long the lines about an address are counted, nanoseconds.
const WINDOW_NS: u64 = 10_000_000_000;
/// Addresses that are remembered; beyond it nothing is logged until the oldest are quiet again.
const ADDRESSES_MAX: usize = 256;

#[derive(Debug, Default)]
struct RefusalLog {
    said: HashMap<IpAddr, Said>,
}

/// What was said of an address.
#[derive(Debug, Clone, Copy)]
struct Said {
    /// When the window began, and lines in it.
    since: u64,
    lines: u32,
    /// Lines that were left out since the last.
    left_out: u64,
}

impl RefusalLog {
    /// How many lines about this address were left out, if another may be written now.
    fn may_say(&mut self, now: u64, address: IpAddr) -> Option<u64> {
        if !self.said.contains_key(&address) && self.said.len() >= ADDRESSES_MAX {
            self.said.retain(|_, said| now < said.since + WINDOW_NS);
            if self.said.len() >= ADDRESSES_MAX {
                return None;
            }
        }
        let said = self.said.entry(address).or_insert(Said { since: now, lines: 0, left_out: 0 });
        if now >= said.since + WINDOW_NS {
            (said.since, said.lines) = (now, 0);
        }
        if said.lines >= LINES {
            said.left_out += 1;
            return None;
        }
        said.lines += 1;
        Some(std::mem::take(&mut said.left_out))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(n: u32) -> IpAddr {
        Ipv4Addr::from(n).into()
    }

    #[test]
    fn an_address_has_so_many_connections_and_no_more() {
        let limits = Limits { per_address: 2, handshakes: 3, ..Limits::default() };
        let mut admission = Admission::default();
        assert!(admission.admit(&limits, address(1)).is_ok() && admission.admit(&limits, address(1)).is_ok());
        let refused = admission.admit(&limits, address(1)).unwrap_err();
        assert!(matches!(refused, AdmissionError::Address { open: 2 }), "{refused}");
        assert!(admission.admit(&limits, address(2)).is_ok());
        let refused = admission.admit(&limits, address(3)).unwrap_err();
        assert!(matches!(refused, AdmissionError::Handshakes { open: 3 }), "{refused}");
        admission.established();
        assert!(admission.admit(&limits, address(3)).is_ok());
        admission.leave(address(1), true);
        admission.leave(address(1), false);
        assert!(admission.admit(&limits, address(1)).is_ok());
    }

    #[test]
    fn a_few_are_each_a_line_and_a_flood_is_counted() {
        let mut log = RefusalLog::default();
        let said = (0..1000).filter(|_| log.may_say(5, address(1)).is_some()).count();
        assert_eq!(said, LINES as usize);
        assert_eq!(log.may_say(5 + WINDOW_NS, address(1)), Some(1000 - u64::from(LINES)));
        assert_eq!(log.may_say(5 + WINDOW_NS, address(1)), Some(0));
        let said = (0..10_000).filter(|n| log.may_say(6 + WINDOW_NS, address(*n)).is_some()).count();
        assert!(said < ADDRESSES_MAX + LINES as usize, "{said}");
        assert_eq!(log.may_say(7 + 2 * WINDOW_NS, address(99_999)), Some(0));
    }
}
