//! Portals: what is known of a domain, and of a connection to a peer.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::config::{EndpointConfig, PeerConfig};
use crate::ids::RouterId;
use crate::interest::Interest;
use crate::origin::Origin;

/// Where a message of a topic has its topic index.
pub(super) const INDEX: core::ops::Range<usize> = 4..8;

/// Counters of a portal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortalStats {
    /// Messages that came in by it.
    pub messages_in: u64,
    /// Messages that were to go out by it.
    pub messages_out: u64,
    /// Of those, the ones that found no room with the peer.
    pub dropped: u64,
}

/// The kind of a portal.
#[derive(Debug)]
pub(super) enum Side {
    Endpoint(Endpoint),
    Peer { config: PeerConfig, link: Option<Box<Link>> },
}

/// A portal.
#[derive(Debug)]
pub(super) struct Portal {
    pub(super) side: Side,
    pub(super) stats: PortalStats,
}

impl Portal {
    pub(super) fn endpoint(&mut self) -> Option<&mut Endpoint> {
        match &mut self.side {
            Side::Endpoint(endpoint) => Some(endpoint),
            Side::Peer { .. } => None,
        }
    }

    /// The place of a peer portal's connection, now or later.
    pub(super) fn place_of_link(&mut self) -> Option<&mut Option<Box<Link>>> {
        match &mut self.side {
            Side::Peer { link, .. } => Some(link),
            Side::Endpoint(_) => None,
        }
    }

    pub(super) fn link(&mut self) -> Option<&mut Link> {
        self.place_of_link()?.as_deref_mut()
    }

    pub(super) fn cost(&self) -> u32 {
        match &self.side {
            Side::Endpoint(endpoint) => endpoint.config.cost,
            Side::Peer { config, .. } => config.cost,
        }
    }

    pub(super) fn passes(&self, topic: &str) -> bool {
        match &self.side {
            Side::Endpoint(endpoint) => endpoint.config.filter.passes(topic),
            Side::Peer { config, .. } => config.filter.passes(topic),
        }
    }

    /// Whether an interest passes; that of a pattern does, and each topic is looked at.
    pub(super) fn passes_interest(&self, interest: &Interest) -> bool {
        interest.pattern().is_some() || self.passes(interest.name())
    }
}

/// Interest that was heard in the domain.
#[derive(Debug)]
pub(super) struct Lease {
    /// When it is over.
    pub(super) until: u64,
    /// When the domain is asked whether it still is.
    pub(super) ask_at: u64,
}

/// Another router's proxy source in the domain.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) cost: u32,
    pub(super) router: RouterId,
    pub(super) until: u64,
}

#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) config: EndpointConfig,
    /// Interest in sources of the domain.
    pub(super) listening: BTreeSet<Interest>,
    pub(super) heard: BTreeMap<Interest, Lease>,
    /// By the number of the context.
    pub(super) streams: HashMap<u32, u32>,
    pub(super) others: BTreeMap<Origin, Other>,
}

impl Endpoint {
    pub(super) fn new(config: EndpointConfig) -> Self {
        Self {
            config,
            listening: BTreeSet::new(),
            heard: BTreeMap::new(),
            streams: HashMap::new(),
            others: BTreeMap::new(),
        }
    }

    pub(super) fn wanted(&self) -> usize {
        self.heard.len()
    }

    pub(super) fn sources(&self) -> usize {
        self.streams.len()
    }
}

/// A connection to a peer.
#[derive(Debug)]
pub(super) struct Link {
    /// The peer that is there, once that was said.
    pub(super) neighbour: Option<RouterId>,
    /// Bytes to be sent.
    pub(super) out: Vec<u8>,
    /// Bytes that wait beneath.
    pub(super) queued: usize,
    /// Sources that the peer has, by its label.
    pub(super) labels_in: HashMap<u32, u32>,
    /// Sources that were told to the peer, by our label.
    pub(super) labels_out: HashMap<u32, u32>,
    pub(super) heard_at: u64,
    pub(super) said_at: u64,
    /// How long the peer waits for us, ns.
    pub(super) patience_ns: u64,
    /// Some source has numbers that found no room.
    pub(super) has_dropped: bool,
}

impl Link {
    /// Bytes that wait for the peer.
    pub(super) fn waiting(&self) -> usize {
        self.out.len() + self.queued
    }

    /// Appends a message under a label.
    #[inline]
    pub(super) fn put(&mut self, label: u32, message: &[u8]) {
        let start = self.out.len();
        self.out.extend_from_slice(message);
        if let Some(index) = self.out[start..].get_mut(INDEX) {
            index.copy_from_slice(&label.to_be_bytes());
        }
    }

    pub(super) fn sources(&self) -> usize {
        self.labels_in.len()
    }
}
