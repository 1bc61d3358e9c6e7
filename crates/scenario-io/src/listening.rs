//! Ports of servers, and what is so of a server from now on.
//!
//! A port is held for the whole run, also while its server is away: the listener refuses then and is not closed, so that no outgoing connection of
//! another program is given the port. Nor can it be said when a closed one is gone: a process that is just being started has a copy of it.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

use net::tcp::{ListenerId, SocketOptions, Tcp};

/// Ports below those that systems give to connections: a provider that is started for a port finds it still free.
const PORTS: std::ops::Range<u64> = 15_000..32_000;
/// So many of them are tried before the system is asked for one.
const TRIES: u64 = 50;

/// Ports of the runs of this process. Two sockets may be bound to one port as long as only one listens: a server that is away does not.
static HELD: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port that no other run of this process has.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) addr: SocketAddr,
}

impl Drop for Port {
    fn drop(&mut self) {
        HELD.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.addr.port());
    }
}

impl Port {
    /// Has the port, if no other run does.
    fn hold(addr: SocketAddr) -> Option<Self> {
        let is_new = HELD.lock().unwrap_or_else(PoisonError::into_inner).insert(addr.port());
        is_new.then_some(Self { addr })
    }

    /// A port that is free, for a program that is to listen on it.
    pub(crate) fn free(at: SocketAddr) -> io::Result<Self> {
        Ok(first(at, |at| TcpListener::bind(at).map(drop))?.1)
    }
}

/// Takes the first place that is free: the one that is named, or one of [`PORTS`], which differ by process and time. The port that is taken has
/// been named, not chosen by the system, since only such a one stays held while its listener refuses.
fn first<T>(at: SocketAddr, mut take: impl FnMut(SocketAddr) -> io::Result<T>) -> io::Result<(T, Port)> {
    let mut taken = |at: SocketAddr| {
        let port = Port::hold(at).ok_or_else(|| io::Error::from(io::ErrorKind::AddrInUse))?;
        Ok((take(at)?, port))
    };
    if at.port() != 0 {
        return taken(at);
    }
    let begin = net::clock::now() ^ (u64::from(std::process::id()) << 20);
    for number in 0..TRIES {
        let random = begin.wrapping_add(number).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let port = PORTS.start + random % (PORTS.end - PORTS.start);
        if let Ok(taken) = taken(SocketAddr::new(at.ip(), port as u16)) {
            return Ok(taken);
        }
    }
    let free = TcpListener::bind(at)?.local_addr()?;
    taken(free)
}

/// A server of a run. A provider under test listens elsewhere, and has no listener here.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: Port,
    pub(crate) listener: Option<ListenerId>,
    /// What waits is sent.
    pub(crate) talks: bool,
    pub(crate) reads: bool,
    pub(crate) pings: bool,
    /// Bytes a second to each connection; `None`: as many as it takes.
    pub(crate) pace: Option<u64>,
}

impl Server {
    /// What listens there is the process under test.
    pub(crate) fn elsewhere(port: Port) -> Self {
        Self { port, listener: None, talks: true, reads: true, pings: true, pace: None }
    }

    /// Listens there.
    pub(crate) fn listen(at: SocketAddr, tcp: &mut Tcp) -> io::Result<Self> {
        let (listener, port) = first(at, |at| tcp.listen(at, &options()).map(|(listener, _)| listener))?;
        Ok(Self { listener: Some(listener), ..Self::elsewhere(port) })
    }

    /// Takes connections, or refuses them.
    pub(crate) fn set_listening(&self, listens: bool, tcp: &mut Tcp) -> io::Result<()> {
        self.listener.map_or(Ok(()), |listener| tcp.set_refusing(listener, !listens))
    }
}

/// Options of all sockets of a run.
pub(crate) fn options() -> SocketOptions {
    SocketOptions { no_delay: true, ..SocketOptions::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::tcp::TcpConfig;

    #[test]
    fn no_other_run_gets_a_port_whose_server_is_away() {
        let mut tcp = Tcp::new(TcpConfig::default()).expect("a set");
        let at = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::listen(at, &mut tcp).expect("a port");
        server.set_listening(false, &mut tcp).expect("it refuses");
        assert!(
            Server::listen(server.port.addr, &mut tcp).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
        );
        server.set_listening(true, &mut tcp).expect("it is there again");
        let addr = server.port.addr;
        drop((server, tcp));
        let mut tcp = Tcp::new(TcpConfig::default()).expect("a set");
        Server::listen(addr, &mut tcp).expect("a run that is over holds nothing");
    }
}
