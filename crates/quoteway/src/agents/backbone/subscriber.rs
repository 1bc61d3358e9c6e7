//! A P2PS's side of the hub: the data streams of all Source Distributors, and a unicast connection to each.

use std::io;

use hub::p2ps::SourceId;

use super::incoming::Incoming;
use super::links::{Blocks, Counters, Links};
use super::{HubPeer, LinkError};
use crate::config::{Config, HubTransport};
use rssl_io::RsslIo;

/// Connections and data streams. See the module's description.
pub struct Subscriber {
    links: Links,
    /// Where the data streams come over LBM.
    incoming: Option<Incoming>,
}

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
            let stream = Incoming::new(&config.hub)?;
            super::watch(io, stream.context(), super::DATA)?;
            incoming = Some(stream);
        }
        Ok(Self { links, incoming })
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.links.counters()
    }

    /// The Source Distributors that are known.
    pub fn peers(&self) -> Vec<HubPeer> {
        self.links.peers().collect()
    }

    /// When [`Subscriber::turn`] wants to be called though no descriptor is ready.
    pub fn timeout(&mut self) -> Option<u64> {
        self.links.timeout().into_iter().chain(self.incoming.as_mut().and_then(Incoming::timeout)).min()
    }

    /// Takes in what there is, and connects what is due. `ready` says which of the owner's watched numbers are.
    ///
    /// # Errors
    /// The sockets have become unusable.
    pub fn turn(&mut self, now: u64, ready: super::Ready, to: &mut impl Blocks) -> io::Result<()> {
        let Self { links, incoming } = self;
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
