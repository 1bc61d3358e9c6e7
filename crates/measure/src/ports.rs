//! Ports of the loopback interface that are known before the program that listens there runs, so that it gets the same one when it
//! is started again.
//!
//! A port that the kernel gave to a socket and took back may be that of anybody's connection a moment later, for as long as the
//! connection lasts. So these come from below the range from which the kernel gives, and programs that ask for one at the same time
//! tell each other which they have by names of sockets without a file.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Mutex, PoisonError};

/// Above the usual ports of the systems under test, below those of the tests in Java (28,000) and those that the kernel gives by
/// default (`ip_local_port_range`).
const FIRST: u16 = 20_000;
const LAST: u16 = 27_999;

/// What this program has taken, and where it looks next.
static TAKEN: Mutex<Taken> = Mutex::new(Taken { next: None, names: Vec::new() });

struct Taken {
    next: Option<u16>,
    /// A listener each that nobody connects to: its name is what other programs find taken.
    names: Vec<UnixListener>,
}

/// A port at which nobody listens, of TCP and of UDP, and that no other caller gets until this program ends.
///
/// # Panics
/// None is left.
pub fn reserve() -> u16 {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    // Programs that begin at once begin at different places.
    let mut next = taken.next.unwrap_or(FIRST + (std::process::id().wrapping_mul(97) % u32::from(LAST - FIRST)) as u16);
    for _ in FIRST..=LAST {
        let port = next;
        next = if port == LAST { FIRST } else { port + 1 };
        let Some(name) = claimed(port) else { continue };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
            && UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
        {
            taken.next = Some(next);
            taken.names.push(name);
            return port;
        }
    }
    panic!("no port from {FIRST} to {LAST} is free");
}

/// Holds the port's name among programs, where nobody else does.
fn claimed(port: u16) -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("a reserved port {port}")).ok()?;
    UnixListener::bind_addr(&name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_a_port_twice_and_nobody_listens_there() {
        let ports: std::collections::BTreeSet<u16> = (0..100).map(|_| reserve()).collect();
        assert_eq!(ports.len(), 100);
        for &port in &ports {
            assert!(claimed(port).is_none(), "{port} has a name that other programs see");
            drop(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("nobody listens"));
        }
    }

    #[test]
    fn a_port_is_below_those_of_connections() {
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").expect("Linux");
        let first: u16 = range.split_whitespace().next().and_then(|first| first.parse().ok()).expect("a range");
        assert!(LAST < first, "connections of this machine begin at {first}: another range for tests is wanted");
    }
}
