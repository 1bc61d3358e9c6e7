//! Names of routers, portals and sources.

/// Names a router; no two routers that can reach each other have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouterId(pub u64);

impl core::fmt::Display for RouterId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The routers that something has passed: first the one that told us, last the one where it began.
pub type Path = Vec<RouterId>;

/// Routers that something may have passed.
pub(crate) const PATH_MAX: usize = 16;

/// A portal of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortalId(pub u32);

/// A source, as this router knows it. Used again after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);
