//! Subscriptions: a request for each of many names, under one number.

use omm::consumer::ItemRequest;
use rwf::msg::Domain;

/// Items that a subscription asks for, all in the same manner.
#[derive(Debug, Clone, PartialEq)]
pub struct Interest {
    /// The request of each; its name is not looked at.
    pub request: ItemRequest,
    /// The names. The place of a name is the item's number in the subscription; a name may come twice.
    pub names: Vec<String>,
}

impl Interest {
    /// Whether it is for market prices as they come, which is what a server opens for a symbol list.
    pub(crate) fn is_plain(&self) -> bool {
        let ItemRequest { domain, streaming, private, view, qos, worst_qos, priority, name_type, data_streams, .. } =
            &self.request;
        let is_shared = *domain == Domain::MARKET_PRICE && *streaming && !private && !data_streams;
        is_shared && view.is_none() && qos.is_none() && worst_qos.is_none() && priority.is_none() && name_type.is_none()
    }
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
