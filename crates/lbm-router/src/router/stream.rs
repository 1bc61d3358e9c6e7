//! A source: the ways to it, and where it goes.

use crate::ids::{Path, PortalId, RouterId};
use crate::merge::Merge;
use crate::origin::Origin;

/// A way to a source.
#[derive(Clone, Debug)]
pub(super) struct Up {
    pub(super) portal: PortalId,
    /// The stream of the endpoint's context, or the label on the peer's connection.
    pub(super) number: u32,
    /// Cost as far as here.
    pub(super) cost: u32,
    /// The routers before this one; none if the source is in a domain of ours.
    pub(super) path: Path,
    /// Messages come by it.
    pub(super) taken: bool,
}

impl Up {
    pub(super) fn is_local(&self) -> bool {
        self.path.is_empty()
    }

    /// The way's name in the merge.
    pub(super) fn key(&self) -> u64 {
        key(self.portal, self.number)
    }

    /// Cheap before short before low.
    fn rank(&self) -> (u32, usize, &[RouterId], PortalId) {
        (self.cost, self.path.len(), &self.path, self.portal)
    }
}

pub(super) fn key(portal: PortalId, number: u32) -> u64 {
    u64::from(portal.0) << 32 | u64::from(number)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Serving {
    /// Another router may serve; if none is heard of until then, this one does.
    Waiting(u64),
    /// A proxy source is there.
    Now,
    /// Another router serves.
    Another,
}

/// A proxy source, or the wish for one.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) portal: PortalId,
    pub(super) serving: Serving,
    /// As it is advertised.
    pub(super) cost: u32,
}

/// A peer that may have the source from here.
#[derive(Debug)]
pub(super) struct Down {
    pub(super) portal: PortalId,
    pub(super) label: u32,
    /// As it was told.
    pub(super) told: (u32, Path),
    pub(super) subscribed: bool,
    /// (first, next) of numbers that found no room and of which the peer does not know yet.
    pub(super) dropped: Option<(u32, u32)>,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) origin: Origin,
    pub(super) topic: Box<str>,
    /// The source has stores.
    pub(super) persistent: bool,
    /// The source's word on its stores, as its control message has it; empty: none has come.
    pub(super) stores: Box<[u8]>,
    pub(super) ups: Vec<Up>,
    pub(super) merge: Merge,
    pub(super) proxies: Vec<Proxy>,
    pub(super) downs: Vec<Down>,
    /// When the stream is forgotten, since there is no way to its source.
    pub(super) gone_at: Option<u64>,
}

impl Stream {
    /// The best of some ways.
    pub(super) fn best(&self, which: impl Fn(&Up) -> bool) -> Option<&Up> {
        self.ups.iter().filter(|up| which(up)).min_by(|a, b| a.rank().cmp(&b.rank()))
    }

    /// Sorts the ways, the best first.
    pub(super) fn sort(&mut self) {
        self.ups.sort_by(|a, b| a.rank().cmp(&b.rank()));
    }

    /// Whether messages go anywhere.
    pub(super) fn is_wanted(&self) -> bool {
        !self.proxies.is_empty() || self.downs.iter().any(|down| down.subscribed)
    }

    pub(super) fn check_invariants(&self, router: RouterId) {
        self.merge.check_invariants();
        for up in &self.ups {
            assert!(!up.path.contains(&router), "{:?}: by ourselves", self.origin);
            let mut routers = up.path.clone();
            routers.sort_unstable();
            routers.dedup();
            assert_eq!(routers.len(), up.path.len(), "{:?}: a circle: {:?}", self.origin, up.path);
        }
        for down in &self.downs {
            assert_eq!(down.told.1.first(), Some(&router), "{:?}: told with another's path", self.origin);
        }
        assert!(self.gone_at.is_some() || !self.ups.is_empty(), "{:?}: no way, and no end", self.origin);
    }
}
