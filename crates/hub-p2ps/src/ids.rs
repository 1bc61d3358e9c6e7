//! The numbers by which a P2PS knows what it deals with. Each kind is a type of its own, so that none passes for another.

/// A client: the dense number of its connection, chosen by whoever owns the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// A Source Distributor: the number that whoever owns the transports gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u16);

/// A user who is logged in, by a dense number that is used again after the last of the user's logins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserId(pub(crate) u32);

/// A stream of a client, by the number that the client chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamId(pub(crate) i32);

/// An item at this P2PS: dense, used again after the item is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ItemId(pub(crate) u32);

impl ItemId {
    /// No item.
    pub(crate) const NONE: Self = Self(u32::MAX);
    /// What the token of an open stands for whose answer nobody waits for.
    pub(crate) const FORSAKEN: Self = Self(u32::MAX - 1);
    /// Set in what a handle or a token of a mirror stands for: numbers of items stay below.
    pub(crate) const MIRROR: u32 = 1 << 31;

    /// What a handle or a token of this item's mirror stands for.
    pub(crate) const fn mirrored(self) -> Self {
        debug_assert!(self.is_item(), "the mirror of no item");
        Self(self.0 | Self::MIRROR)
    }

    /// True for the number of an item: neither none nor marked as a mirror.
    #[inline]
    pub(crate) const fn is_item(self) -> bool {
        self.0 < Self::MIRROR
    }

    /// The item whose mirror a handle or a token stands for.
    pub(crate) fn original(self) -> Option<Self> {
        let is_mirror = !self.is_item() && self != Self::NONE && self != Self::FORSAKEN;
        is_mirror.then_some(Self(self.0 & !Self::MIRROR))
    }

    /// Place of the item in tables by item number.
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A service by its public id, as clients know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ServiceId(pub(crate) u16);

/// A service by the id that its Source Distributor gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RemoteService(pub(crate) u16);

/// An open item at a Source Distributor, by the number given there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Handle(pub(crate) u32);

/// An open that a Source Distributor has not answered, by the number given here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Token(pub(crate) u32);

/// An item group, in the numbers of one Source Distributor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HubGroup(pub(crate) u32);

impl HubGroup {
    /// No group.
    pub(crate) const NONE: Self = Self(crate::stream::NO_GROUP);

    /// True if there is none.
    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }
}

/// The group of an item as clients see it: unique among all sources, short for the first one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupId {
    bytes: [u8; 6],
    from: usize,
}

impl GroupId {
    pub(crate) fn new(source: SourceId, group: HubGroup) -> Self {
        let [s1, s0] = source.0.to_be_bytes();
        let [g3, g2, g1, g0] = group.0.to_be_bytes();
        let from = if source.0 == 0 && u16::try_from(group.0).is_ok() { 4 } else { 0 };
        Self { bytes: [s1, s0, g3, g2, g1, g0], from }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

/// A view (a subset of fields or elements), shared by all items that are seen through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ViewId(pub(crate) u32);
