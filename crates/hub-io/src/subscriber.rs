//! A P2PS's side of the hub: the data streams of all Source Distributors, and a unicast connection to each.

use std::io;

use config::{Config, Hub, HubTransport};
use hub::p2ps::SourceId;

use super::incoming::Incoming;
use super::links::{Blocks, Counters, Links};
use super::{HubPeer, LinkError};
use rssl_io::RsslIo;

/// Connections and data streams. See the module's description.
pub struct Subscriber {
    links: Links,
    /// Where the data streams come over LBM or Aeron.
    incoming: Option<Incoming>,
    /// When it is said that no Source Distributor has been heard; `None` once that is said, or one was.
    alone_at: Option<u64>,
    /// The line that is logged then.
    alone: String,
}

/// How long nobody may be heard before that is said, nanoseconds. Topic resolution takes about a second.
const ALONE: u64 = 10_000_000_000;

impl Subscriber {
    /// A P2PS of this hub; the Source Distributors are connected by [`Subscriber::turn`]. `name` is for people there.
    ///
    /// # Errors
    /// The LBM options are wrong, or the operating system refuses a socket.
    pub fn new(config: &Config, incarnation: u32, name: &str, io: &mut RsslIo) -> io::Result<Self> {
        let links = Links::new(config, incarnation, name)?;
        super::watch(io, links.tcp(), super::UNICAST)?;
        let mut incoming = None;
        if config.hub.transport != HubTransport::Tcp {
            let stream = Incoming::new(config)?;
            super::watch(io, &stream, super::DATA)?;
            incoming = Some(stream);
        }
        let alone_at = incoming.as_ref().map(|_| net::clock::now() + ALONE);
        Ok(Self { links, incoming, alone_at, alone: alone(&config.hub) })
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.links.counters()
    }

    /// Aeron's counters, where the data streams come over it.
    pub fn aeron(&self) -> Option<super::aeron::Counters> {
        self.incoming.as_ref().and_then(Incoming::aeron)
    }

    /// The Source Distributors that are known.
    pub fn peers(&self) -> Vec<HubPeer> {
        self.links.peers().collect()
    }

    /// When [`Subscriber::turn`] wants to be called though no descriptor is ready.
    pub fn timeout(&mut self) -> Option<u64> {
        let data = self.incoming.as_mut().and_then(Incoming::timeout);
        [self.links.timeout(), data, self.alone_at].into_iter().flatten().min()
    }

    /// Takes in what there is, and connects what is due. `ready` says which of the owner's watched numbers are.
    ///
    /// # Errors
    /// The sockets have become unusable.
    pub fn turn(&mut self, now: u64, ready: super::Ready, to: &mut impl Blocks) -> io::Result<()> {
        self.note_alone(now);
        let Self { links, incoming, .. } = self;
        // The connections first: a welcome is sent before what it opens in the data stream.
        if ready.unicast || links.timeout().is_some_and(|at| at <= now) {
            links.turn(now, to)?;
        }
        if let Some(incoming) = incoming
            && (ready.data || incoming.timeout().is_some_and(|at| at <= now))
        {
            incoming.turn(now, links, to)?;
            if links.timeout().is_some_and(|at| at <= now) {
                links.turn(now, to)?;
            }
        }
        Ok(())
    }

    /// Says once that nobody was heard.
    fn note_alone(&mut self, now: u64) {
        if self.alone_at.is_none() {
            return;
        }
        if self.links.peers().next().is_some() {
            self.alone_at = None;
        } else if self.alone_at.is_some_and(|at| at <= now) {
            tracing::warn!("{}", self.alone);
            self.alone_at = None;
        }
    }

    /// As [`Links::send`].
    ///
    /// # Errors
    /// As there.
    pub fn send(&mut self, source: SourceId, block: &[u8]) -> Result<(), LinkError> {
        self.links.send(source, block)
    }

    /// As [`Links::leave`].
    pub fn leave(&mut self, now: u64, source: SourceId, why: &str, to: &mut impl Blocks) {
        self.links.leave(now, source, why, to);
    }
}

/// The line for operators when no Source Distributor has been heard, with what to look at.
fn alone(hub: &Hub) -> String {
    let interface = if hub.interface.is_empty() { "the kernel's choice" } else { &hub.interface };
    let name = &hub.name;
    if hub.transport == HubTransport::LbtIpc {
        return format!(
            "no Source Distributor of hub {name} has been heard for 10 s in this host's memory: does an rrcpd of hub {name} run here?"
        );
    }
    format!(
        "no Source Distributor of hub {name} has been heard for 10 s: is its name {name} too (hub.name), does multicast reach this machine \
         by the right interface (now {interface}: hub.interface), and does the firewall let it in? Where no multicast passes: \
         --source-distributor HOST:PORT with hub.transport \"tcp\". It goes on listening"
    )
}
