//! Reports of a router.

use super::portal::{PortalStats, Side};
use super::stream::Serving;
use super::tables::{Router, RouterStats};
use crate::ids::{Path, PortalId, RouterId};
use crate::origin::Origin;

/// A source as the router has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicView {
    /// The topic.
    pub topic: Box<str>,
    /// The source.
    pub origin: Origin,
    /// Each way to it: portal, cost, routers, whether messages are taken by it.
    pub ways: Vec<(PortalId, u32, Path, bool)>,
    /// Domains in which this router serves it, and those where another router does or may.
    pub served: Vec<(PortalId, bool)>,
    /// Peers that have it from here.
    pub peers: Vec<PortalId>,
    /// Whether it is known which stores the source has; `None`: it has none.
    pub stores: Option<bool>,
    /// Messages that went on, copies of them, and numbers that no way has brought.
    pub counts: (u64, u64, u64),
}

impl Router {
    /// Counters of all portals together.
    pub fn stats(&self) -> RouterStats {
        self.stats
    }

    /// Counters of a portal.
    pub fn portal_stats(&self, portal: PortalId) -> Option<PortalStats> {
        self.portals.get(portal.0 as usize).map(|portal| portal.stats)
    }

    /// Topics and patterns that a portal has brought, and sources.
    pub fn portal_counts(&self, portal: PortalId) -> (usize, usize) {
        match self.portals.get(portal.0 as usize).map(|portal| &portal.side) {
            Some(Side::Endpoint(endpoint)) => (endpoint.wanted(), endpoint.sources()),
            Some(Side::Peer { link: Some(link), .. }) => (self.interests.count_of(portal), link.sources()),
            _ => (0, 0),
        }
    }

    /// The router at the other end of a peer portal, once it has said who it is.
    pub fn peer(&self, portal: PortalId) -> Option<RouterId> {
        match &self.portals.get(portal.0 as usize)?.side {
            Side::Peer { link, .. } => link.as_ref()?.neighbour,
            Side::Endpoint(_) => None,
        }
    }

    /// Topics and patterns that are wanted anywhere.
    pub fn wanted(&self) -> usize {
        self.interests.len()
    }

    /// Each source, in no order.
    pub fn topics(&self) -> impl Iterator<Item = TopicView> {
        self.streams.iter().flatten().map(|stream| {
            let merged = stream.merge.stats();
            TopicView {
                topic: stream.topic.clone(),
                origin: stream.origin,
                ways: stream.ups.iter().map(|up| (up.portal, up.cost, up.path.clone(), up.taken)).collect(),
                served: stream.proxies.iter().map(|proxy| (proxy.portal, proxy.serving == Serving::Now)).collect(),
                peers: stream.downs.iter().filter(|down| down.subscribed).map(|down| down.portal).collect(),
                stores: stream.persistent.then_some(!stream.stores.is_empty()),
                counts: (merged.messages, merged.duplicates, merged.lost),
            }
        })
    }
}
