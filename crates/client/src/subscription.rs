//! Subscriptions: a request for each of many names, under one number.

use omm::consumer::ItemRequest;

/// Items that a subscription asks for, all in the same manner.
#[derive(Debug, Clone, PartialEq)]
pub struct Interest {
    /// The request of each; its name is not looked at.
    pub request: ItemRequest,
    /// The names. The place of a name is the item's number in the subscription; a name may come twice.
    pub names: Vec<String>,
}

/// A subscription, as long as it is there; numbers of those that have ended are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriptionId(u32);

impl SubscriptionId {
    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number: small, so that it can be an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
