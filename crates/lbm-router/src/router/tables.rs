//! The tables of a router, and the way of a message through them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddrV4;

use lbm::fault::{Faults, named};

use super::onward::Onward;
use super::portal::{Endpoint, Link, Portal, PortalStats, Side};
use super::stream::{Serving, Stream};
use crate::action::{Action, Forward, SourceFound};
use crate::config::{EndpointConfig, Limits, PeerConfig};
use crate::ids::{PortalId, RouterId, StreamId};
use crate::interest::{Interests, Neighbour};
use crate::merge::Merge;
use crate::origin::Origin;
use crate::wire::{Frame, Gone};

/// Counters of a router, over all portals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterStats {
    /// Topics and patterns that were not taken: too many, or no pattern that can be used.
    pub interests_refused: u64,
    /// Sources that were not taken: too many.
    pub sources_refused: u64,
    /// Answers to requests that went on.
    pub responses: u64,
    /// Answers that could not: no way, no room, too long.
    pub responses_lost: u64,
    /// Words of sources on their stores that were too long.
    pub stores_refused: u64,
    /// Cases that the tables hold to be impossible and that were found all the same: a fault of the router, or of its owner.
    pub internal_faults: u64,
}

impl Faults for RouterStats {
    fn internal_faults(&mut self) -> &mut u64 {
        &mut self.internal_faults
    }
}

/// Where the streams are.
pub(super) type Streams = Vec<Option<Box<Stream>>>;

/// Something of a portal that the owner tells of, or by which a frame has come.
fn found<'a, T>(
    portals: &'a mut [Portal],
    id: PortalId,
    of: impl FnOnce(&'a mut Portal) -> Option<T>,
    what: &str,
    stats: &mut RouterStats,
) -> Option<T> {
    stats.found(what, portals.get_mut(id.0 as usize).and_then(of))
}

/// The endpoint of whose domain the owner tells.
pub(super) fn endpoint_told<'a>(
    portals: &'a mut [Portal],
    id: PortalId,
    stats: &mut RouterStats,
) -> Option<&'a mut Endpoint> {
    found(portals, id, Portal::endpoint, "news of a domain by a portal that is in none", stats)
}

/// The place for the connection of a peer portal of which the owner tells.
pub(super) fn place_of_link<'a>(
    portals: &'a mut [Portal],
    id: PortalId,
    stats: &mut RouterStats,
) -> Option<&'a mut Option<Box<Link>>> {
    found(portals, id, Portal::place_of_link, "a connection of a portal that leads to no peer", stats)
}

/// The connection by which a frame has come that is being read.
pub(super) fn link_read<'a>(portals: &'a mut [Portal], id: PortalId, stats: &mut RouterStats) -> Option<&'a mut Link> {
    found(portals, id, Portal::link, "a frame by a connection that is over", stats)
}

/// The ids of all portals.
pub(super) fn ids(portals: &[Portal]) -> impl Iterator<Item = PortalId> + use<> {
    (0..portals.len() as u32).map(PortalId)
}

/// A source that was told to a peer under a label is not to be had there any more.
pub(super) fn forget_label(portals: &mut [Portal], portal: PortalId, label: u32, why: Gone) {
    // A peer whose connection is over has forgotten it.
    if let Some(link) = portals.get_mut(portal.0 as usize).and_then(Portal::link) {
        link.labels_out.remove(&label);
        Frame::SourceGone { label, why }.encode(&mut link.out);
    }
}

/// See the crate.
#[derive(Debug)]
pub struct Router {
    pub(super) id: RouterId,
    pub(super) limits: Limits,
    pub(super) portals: Vec<Portal>,
    pub(super) interests: Interests,
    pub(super) streams: Streams,
    pub(super) free: Vec<u32>,
    pub(super) by_origin: HashMap<Origin, u32>,
    pub(super) by_topic: BTreeMap<Box<str>, BTreeSet<u32>>,
    /// Streams whose merge holds messages.
    pub(super) holding: BTreeSet<u32>,
    /// Streams without a way to their source.
    pub(super) lingering: BTreeSet<u32>,
    pub(super) next_label: u32,
    pub(super) actions: Vec<Action>,
    pub(super) scan_due: u64,
    pub(super) stats: RouterStats,
}

impl Router {
    /// A router without portals.
    pub fn new(id: RouterId, limits: Limits) -> Self {
        Self {
            id,
            limits,
            portals: Vec::new(),
            interests: Interests::new(id),
            streams: Vec::new(),
            free: Vec::new(),
            by_origin: HashMap::new(),
            by_topic: BTreeMap::new(),
            holding: BTreeSet::new(),
            lingering: BTreeSet::new(),
            next_label: 0,
            actions: Vec::new(),
            scan_due: 0,
            stats: RouterStats::default(),
        }
    }

    /// The router's id.
    pub fn id(&self) -> RouterId {
        self.id
    }

    /// Adds a portal in a domain. `None`: there is one for that domain already, or the domain is 0.
    pub fn add_endpoint(&mut self, config: EndpointConfig) -> Option<PortalId> {
        let taken =
            |portal: &Portal| matches!(&portal.side, Side::Endpoint(other) if other.config.domain == config.domain);
        if config.domain == 0 || self.portals.iter().any(taken) {
            return None;
        }
        Some(self.add(Side::Endpoint(Endpoint::new(config))))
    }

    /// Adds a portal to another router.
    pub fn add_peer(&mut self, config: PeerConfig) -> PortalId {
        self.add(Side::Peer { config, link: None })
    }

    pub(super) fn add(&mut self, side: Side) -> PortalId {
        self.portals.push(Portal { side, stats: PortalStats::default() });
        PortalId(self.portals.len() as u32 - 1)
    }

    /// Tasks for the owner, in order.
    pub fn actions(&mut self) -> impl Iterator<Item = Action> {
        self.actions.drain(..)
    }

    pub(super) fn portal(&mut self, id: PortalId) -> Option<&mut Portal> {
        self.portals.get_mut(id.0 as usize)
    }

    pub(super) fn endpoint(&mut self, id: PortalId) -> Option<&mut Endpoint> {
        self.portal(id)?.endpoint()
    }

    pub(super) fn link(&mut self, id: PortalId) -> Option<&mut Link> {
        self.portal(id)?.link()
    }

    /// The peers that have said who they are.
    pub(super) fn neighbours(&self) -> Vec<Neighbour> {
        let of = |(index, portal): (usize, &Portal)| match &portal.side {
            Side::Peer { link: Some(link), .. } => {
                Some(Neighbour { portal: PortalId(index as u32), router: link.neighbour? })
            }
            _ => None,
        };
        self.portals.iter().enumerate().filter_map(of).collect()
    }

    /// The stream of a source, made if there is none.
    pub(super) fn stream_for(&mut self, found: SourceFound<'_>) -> u32 {
        let SourceFound { origin, topic, persistent } = found;
        if let Some(id) = self.by_origin.get(&origin) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.streams.push(None);
            self.streams.len() as u32 - 1
        });
        let stream = Stream {
            origin,
            topic: topic.into(),
            persistent,
            stores: Box::default(),
            ups: Vec::new(),
            merge: Merge::new(self.limits.merge),
            proxies: Vec::new(),
            downs: Vec::new(),
            gone_at: None,
        };
        self.streams[id as usize] = Some(Box::new(stream));
        self.by_origin.insert(origin, id);
        self.by_topic.entry(topic.into()).or_default().insert(id);
        id
    }

    /// The stream in a place, which may be free.
    pub(super) fn stream(&mut self, id: u32) -> Option<&mut Stream> {
        self.streams.get_mut(id as usize)?.as_deref_mut()
    }

    /// The source is over, or the way to it was lost for too long.
    pub(super) fn remove_stream(&mut self, id: u32) {
        let there = self.streams.get_mut(id as usize).and_then(Option::take);
        let Some(stream) = self.stats.found("a stream ends twice", there) else { return };
        self.lingering.remove(&id);
        self.holding.remove(&id);
        for proxy in &stream.proxies {
            if proxy.serving == Serving::Now {
                self.actions.push(Action::Cease { portal: proxy.portal, stream: StreamId(id) });
            }
        }
        for down in &stream.downs {
            forget_label(&mut self.portals, down.portal, down.label, Gone::Ended);
        }
        self.by_origin.remove(&stream.origin);
        if let Some(others) = self.by_topic.get_mut(&stream.topic) {
            others.remove(&id);
            if others.is_empty() {
                self.by_topic.remove(&stream.topic);
            }
        }
        self.free.push(id);
    }

    /// Does something with the merge of a stream; what goes on goes to proxies and peers.
    pub(super) fn with_merge<F: Forward>(
        &mut self,
        id: u32,
        forward: &mut F,
        act: impl FnOnce(&mut crate::merge::Merge, &mut Onward<'_, F>),
    ) {
        // Counted by its name.
        let Some(stream) = named(&mut self.streams, id as usize, &mut self.stats) else { return };
        let Stream { merge, proxies, downs, .. } = &mut **stream;
        let queue_bytes_max = self.limits.queue_bytes_max;
        let mut onward =
            Onward { id: StreamId(id), proxies, downs, portals: &mut self.portals, queue_bytes_max, forward };
        act(merge, &mut onward);
        if merge.timeout().is_some() {
            self.holding.insert(id);
        } else if !self.holding.is_empty() {
            self.holding.remove(&id);
        }
    }

    /// A message came for a stream by a path.
    #[inline]
    pub(super) fn data<F: Forward>(&mut self, now: u64, id: u32, key: u64, sqn: u32, message: &[u8], forward: &mut F) {
        self.with_merge(id, forward, |merge, onward| merge.message(now, key, sqn, message, onward));
    }

    pub(super) fn data_lost<F: Forward>(
        &mut self,
        now: u64,
        id: u32,
        key: u64,
        (first, count): (u32, u32),
        forward: &mut F,
    ) {
        self.with_merge(id, forward, |merge, onward| merge.lost(now, key, first, count, onward));
    }

    /// An answer to a request of a stream's source, on its way there.
    pub(super) fn answer(&mut self, id: u32, to: SocketAddrV4, number: u32, payload: &[u8]) {
        // An answer to a source that has ended meanwhile has no way any more.
        let up = self.streams.get(id as usize).and_then(Option::as_deref).and_then(|stream| stream.best(|up| up.taken));
        let Some(up) = up else {
            self.stats.responses_lost += 1;
            return;
        };
        let (portal, label) = (up.portal, up.number);
        if up.is_local() {
            self.actions.push(Action::Respond { portal, to, number, payload: payload.to_vec() });
            self.stats.responses += 1;
            return;
        }
        let max = self.limits.queue_bytes_max;
        match self.link(portal) {
            Some(link) if link.waiting() + payload.len() <= max => {
                Frame::Response { label, to, number, payload }.encode(&mut link.out);
                self.stats.responses += 1;
            }
            _ => self.stats.responses_lost += 1,
        }
    }

    /// Asserts what holds between calls: for simulations.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.interests.check_invariants();
        for (id, stream) in self.streams.iter().enumerate() {
            let Some(stream) = stream else { continue };
            stream.check_invariants(self.id);
            assert_eq!(self.by_origin.get(&stream.origin), Some(&(id as u32)), "{:?}", stream.origin);
            assert_eq!(stream.gone_at.is_some(), self.lingering.contains(&(id as u32)));
            assert_eq!(stream.merge.timeout().is_some(), self.holding.contains(&(id as u32)));
        }
    }
}
