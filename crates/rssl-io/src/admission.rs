//! Limits by address, and a bounded log of the connections that never became a session.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display};
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

/// Connections that are there, by address.
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

    /// Says that a connection never became a session, unless there have been too many such lines: then it is counted for
    /// [`Admission::log_unsaid`].
    pub(crate) fn log_refused(&mut self, now: u64, peer: SocketAddr, why: &dyn Display) {
        if self.log.may_say(now, peer.ip()) {
            tracing::info!("connection from {peer} refused: {why}");
        }
    }

    /// When [`Admission::log_unsaid`] has something to say.
    pub(crate) fn unsaid_due(&self) -> Option<u64> {
        self.log.due()
    }

    /// Says how many connections were refused without a line of their own, when it is time for that.
    pub(crate) fn log_unsaid(&mut self, now: u64) {
        if let Some(unsaid) = self.log.unsaid(now) {
            tracing::info!("{unsaid}");
        }
    }
}

/// Lines about one address in [`WINDOW_NS`].
const LINES: u32 = 20;
/// How long the lines about an address are counted, and how long what has no line waits to be said, nanoseconds.
const WINDOW_NS: u64 = 10_000_000_000;
/// Addresses that have lines of their own in [`WINDOW_NS`]; what others do is counted.
const ADDRESSES_MAX: usize = 256;
/// Addresses without lines that are told apart; beyond it only their connections are counted.
const UNSAID_MAX: usize = 4_096;

/// Which refused connections get a line of a log, and how many did not: for any door, whatever is spoken there.
///
/// An address has 20 lines in 10 s, of 256 addresses. Whatever has no line is counted, and said in one line 10 s after the first of it,
/// so that nobody is refused without a word, and a flood is a few lines.
#[derive(Debug, Default)]
pub struct RefusalLog {
    said: HashMap<IpAddr, Said>,
    unsaid: Unsaid,
    /// When the first of `unsaid` came.
    unsaid_since: u64,
}

/// Refusals of an address that were logged.
#[derive(Debug, Clone, Copy)]
struct Said {
    /// When the window began, and lines in it.
    since: u64,
    lines: u32,
}

/// Connections that were refused without a line of their own.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unsaid {
    /// How many.
    pub connections: u64,
    /// Whose they were; with `and_others`, of some more, too.
    pub addresses: HashSet<IpAddr>,
    /// There were more addresses than are told apart.
    pub and_others: bool,
}

impl Display for Unsaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "and {} other connections refused, of ", self.connections)?;
        match (self.addresses.len(), self.and_others) {
            (1, false) => f.write_str("one address")?,
            (addresses, false) => write!(f, "{addresses} addresses")?,
            (addresses, true) => write!(f, "more than {addresses} addresses")?,
        }
        f.write_str(": not logged one by one")
    }
}

impl RefusalLog {
    /// Whether a line about this address may be written now. If not, the connection is counted in what [`RefusalLog::unsaid`] tells.
    pub fn may_say(&mut self, now: u64, address: IpAddr) -> bool {
        if !self.said.contains_key(&address) && self.said.len() >= ADDRESSES_MAX {
            self.said.retain(|_, said| now < said.since + WINDOW_NS);
            if self.said.len() >= ADDRESSES_MAX {
                self.leave_out(now, address);
                return false;
            }
        }
        let said = self.said.entry(address).or_insert(Said { since: now, lines: 0 });
        if now >= said.since + WINDOW_NS {
            *said = Said { since: now, lines: 0 };
        }
        if said.lines >= LINES {
            self.leave_out(now, address);
            return false;
        }
        said.lines += 1;
        true
    }

    fn leave_out(&mut self, now: u64, address: IpAddr) {
        if self.unsaid.connections == 0 {
            self.unsaid_since = now;
        }
        self.unsaid.connections += 1;
        if self.unsaid.addresses.len() < UNSAID_MAX {
            self.unsaid.addresses.insert(address);
        } else if !self.unsaid.and_others {
            self.unsaid.and_others = !self.unsaid.addresses.contains(&address);
        }
    }

    /// When [`RefusalLog::unsaid`] has something to tell; `None`: every refusal has had its line.
    #[must_use]
    pub fn due(&self) -> Option<u64> {
        (self.unsaid.connections > 0).then_some(self.unsaid_since + WINDOW_NS)
    }

    /// Refusals without a line of their own, once they are due; their count begins anew then.
    pub fn unsaid(&mut self, now: u64) -> Option<Unsaid> {
        self.due().filter(|due| *due <= now).map(|_| std::mem::take(&mut self.unsaid))
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
        let said = (0..1000).filter(|_| log.may_say(5, address(1))).count();
        assert_eq!(said, LINES as usize);
        assert_eq!((log.unsaid(4 + WINDOW_NS), log.due()), (None, Some(5 + WINDOW_NS)));
        let unsaid = log.unsaid(5 + WINDOW_NS).expect("it is time");
        assert_eq!(
            (unsaid.connections, unsaid.addresses.len(), unsaid.and_others),
            (1000 - u64::from(LINES), 1, false)
        );
        assert_eq!((log.due(), log.unsaid(u64::MAX)), (None, None));
        assert!(log.may_say(5 + WINDOW_NS, address(1)), "a new window");
    }

    #[test]
    fn those_without_a_line_are_told_of_in_one() {
        let mut log = RefusalLog::default();
        let all = 10_000;
        let said = (0..all).filter(|n| log.may_say(6, address(*n))).count();
        assert_eq!(said, ADDRESSES_MAX);
        assert!(!log.may_say(7, address(all - 1)));
        let unsaid = log.unsaid(6 + WINDOW_NS).expect("it is time");
        assert_eq!(unsaid.connections as usize, all as usize - ADDRESSES_MAX + 1, "none is forgotten");
        assert_eq!((unsaid.addresses.len(), unsaid.and_others), (UNSAID_MAX, true));
        let line = unsaid.to_string();
        assert!(line.contains("9745 other connections") && line.contains("more than 4096 addresses"), "{line}");
        assert!(log.may_say(7 + WINDOW_NS, address(99_999)));
    }
}
