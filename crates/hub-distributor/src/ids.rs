//! Numbers that must not be taken for each other.

/// A session with a provider, by the dense slot that the agent chose for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u32);

/// How a session came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// This process dialled out to an interactive provider; the number is the route's.
    Route(u16),
    /// A non-interactive provider dialled in.
    NonInteractive,
}

/// An item. P2PSs know it by the same number; it is used again when the last of them has given it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Handle(pub(crate) u32);

impl Handle {
    /// Handles stay below this, so that four bits beside one are free in a [`super::providers::Stream`].
    pub(crate) const MAX: u32 = (1 << 28) - 1;
}

/// The place of a P2PS in our tables, dense from 0. Its lease keeps it when the P2PS is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u16);

/// A group of items, by our own number for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupId(pub(crate) u32);

impl GroupId {
    /// No group (yet), and "unchanged" where a status may carry one.
    pub(crate) const NONE: Self = Self(crate::stream::NO_GROUP);
}

/// A stream of a provider session, as in its RWF messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StreamId(pub(crate) i32);

/// Tells what a timer of an item was set for from what the item is about now: no two are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epoch(pub(crate) u32);

/// Where an image is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ImageSlot(pub(crate) u32);
