//! What joins Source Distributors and P2PSs that are processes of their own.
//!
//! ```text
//! Source Distributor [Publisher] ==data stream: every block, to all==> [Subscriber] P2PS
//!                                <--unicast connection: greeting, requests, posts--
//! ```
//!
//! A P2PS has one unicast connection (TCP) to each Source Distributor. It opens with a greeting each way, by which the
//! P2PS gets its number and the position at which its part of the data stream begins; then it carries request blocks. The
//! data stream comes on the same connection (transport `tcp`), over LBM or over Aeron. Both sides keep their sockets in a set of their
//! own, whose descriptor the owner's set watches: input is handed on from where it was received, without a copy.
//!
//! | module | what it is |
//! |---|---|
//! | [`frames`], [`announcement`] | the bytes of the unicast connection, and of a Source Distributor's word of itself |
//! | [`auth`], `wire` | the hub's key; TLS between socket and frames |
//! | [`publisher`], `outgoing` | the Source Distributor's side: connections, data stream |
//! | [`copy`], `copying` | images that one Source Distributor gives to another that starts |
//! | [`subscriber`], [`links`], `services`, `incoming` | the P2PS's side: connections, names that lead to Source Distributors, data stream |
//! | [`relay`] | `rrcpd`: between the network and the shared memory of a host |
//! | `options`, [`aeron`] | LBM options of the data streams; what is asked of Aeron |

pub mod aeron;
pub mod announcement;
pub mod auth;
pub mod copy;
mod copying;
pub mod frames;
mod incoming;
pub mod links;
mod options;
mod outgoing;
pub mod publisher;
pub mod relay;
mod services;
pub mod subscriber;
mod wire;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use hub::stream::HubError;
use lbm_io::Transport;
use net::Network;
use net::tcp::SocketOptions;

use self::announcement::Announcement;
use self::auth::Key;
use rssl_io::RsslIo;

/// The number under which an owner's set reports the sockets of the unicast connections.
const UNICAST: u32 = 0;
/// And those of the data stream.
const DATA: u32 = 1;

/// One at the other end of the hub, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubPeer {
    /// What it is: `p2ps`, `source-distributor`; of a daemon `stream-to-host` or `stream-to-network`.
    pub kind: &'static str,
    /// The peer's name, as it has said or as it is configured, with its address.
    pub name: String,
    /// How far the connection has come: `joined`, or what is done about it; `carried` of a stream.
    pub state: &'static str,
    /// Bytes of the data stream that it has yet to read, at most; of a stream, those that wait for LBM.
    pub behind_bytes: u64,
}

/// Why the connection between a Source Distributor and a P2PS is ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The peer's bytes are no frames.
    #[error(transparent)]
    Frame(#[from] frames::FrameError),
    /// What is in the peer's blocks makes no sense.
    #[error("{what} cannot be read: {why}")]
    Block {
        /// What the blocks are: `its stream`.
        what: &'static str,
        /// Where, and what.
        why: HubError,
    },
    /// The peer cannot prove who it is.
    #[error("it does not have the hub's key")]
    NotGenuine,
    /// The peer lets this P2PS not join; its reason.
    #[error("refused: {0}")]
    Refused(String),
    /// The peer reads too little.
    #[error("it takes no requests: {waiting} bytes are waiting")]
    TakesNoRequests {
        /// Bytes that wait for it.
        waiting: usize,
    },
}

/// What the owner's set has reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    unicast: bool,
    data: bool,
}

impl Ready {
    /// Takes it from the owner's set.
    pub fn take(io: &mut RsslIo) -> Self {
        Self { unicast: io.take_ready(UNICAST), data: io.take_ready(DATA) }
    }

    /// True if there is anything.
    pub fn any(self) -> bool {
        self.unicast || self.data
    }
}

/// The transport session that a data stream comes by.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Session {
    /// The same text on both sides; it is signed.
    name: String,
    /// Whose datagrams carry it; `None` for one in this host's memory.
    from: Option<IpAddr>,
}

impl From<&Transport> for Session {
    fn from(transport: &Transport) -> Self {
        let from = match *transport {
            Transport::Lbtrm { source, .. } => Some(source),
            Transport::Lbtru { address, .. } | Transport::Tcp { address, .. } => Some(address),
            _ => None,
        };
        Self { name: transport.to_string(), from: from.map(IpAddr::V4) }
    }
}

impl std::fmt::Display for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        // LBM's names of sessions have the address in them.
        match self.from.filter(|_| self.name.starts_with("AERON:")) {
            Some(from) => write!(f, " from {from}"),
            None => Ok(()),
        }
    }
}

/// Whom a hub lets in: the holders of its key, if it has one, from the networks that are allowed, if they are named.
#[derive(Debug)]
struct Trust {
    hub: String,
    key: Option<Key>,
    allow: Vec<Network>,
    clock_tolerance_ms: u64,
}

impl Trust {
    fn new(c: &config::Hub) -> io::Result<Self> {
        let key = if c.key_file.is_empty() { None } else { Some(Key::from_file(&c.key_file)?) };
        let bad = |e: net::BadNetwork| io::Error::new(io::ErrorKind::InvalidInput, format!("hub.allow: {e}"));
        let allow = c.allow.iter().map(|text| text.parse().map_err(bad)).collect::<io::Result<_>>()?;
        Ok(Self { hub: c.name.clone(), key, allow, clock_tolerance_ms: u64::from(c.clock_tolerance_s) * 1_000 })
    }

    fn allows(&self, address: IpAddr) -> bool {
        self.allow.is_empty() || self.allow.iter().any(|network| network.contains(address))
    }

    /// Why an announcement that was heard in a transport session is not to be believed. `since`: the time of the last one of its
    /// name that was.
    fn refusal(
        &self,
        announcement: &Announcement<'_>,
        incarnation: u32,
        session: &Session,
        since: u64,
    ) -> Option<String> {
        let Ok(address) = announcement.address.parse::<SocketAddr>() else {
            return Some(format!("it gives {} as its address", announcement.address));
        };
        let from = session.from;
        if let Some(stranger) = from.into_iter().chain([address.ip()]).find(|ip| !self.allows(*ip)) {
            return Some(format!("{stranger} is not in hub.allow"));
        }
        let key = self.key.as_ref()?;
        let Some(proof) = announcement.proof.filter(|_| announcement.is_genuine(key, &self.hub, incarnation)) else {
            return Some("it is not signed with the hub's key".to_owned());
        };
        // What a daemon carries was sent in another session: in this host's memory, or in that of the sender's host.
        let carried = from.is_none() || proof.session.starts_with("LBTIPC:");
        if !carried && proof.session != session.name {
            return Some(format!("it was made for {}", proof.session));
        }
        if unix_ms().abs_diff(proof.time) > self.clock_tolerance_ms {
            return Some(format!(
                "it was made {} s away from this clock's time (hub.clock_tolerance_s)",
                unix_ms().abs_diff(proof.time) / 1_000
            ));
        }
        (proof.time <= since).then(|| "it is no newer than one that was heard".to_owned())
    }
}

/// Milliseconds of Unix time.
fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Socket options of the unicast connections.
fn socket_options(c: &config::Hub) -> SocketOptions {
    super::socket_options(true, c.tcp_send_buf_size, c.tcp_recv_buf_size)
}

/// Has the owner's turns end when there is something to do here.
pub(super) fn watch(io: &mut RsslIo, fd: &impl AsFd, number: u32) -> io::Result<()> {
    io.tcp().watch(fd.as_fd(), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_names_an_address_and_no_host() {
        let trust = Trust::new(&config::Hub::default()).expect("no key");
        let session = Session { name: "any".to_owned(), from: None };
        let refusal = |address| trust.refusal(&Announcement { name: "one", address, proof: None }, 1, &session, 0);
        assert_eq!(refusal("10.1.1.5:14004"), None);
        for host in ["one.example:14004", "localhost:14004", "10.1.1.5", ""] {
            assert_eq!(refusal(host), Some(format!("it gives {host} as its address")));
        }
    }
}
