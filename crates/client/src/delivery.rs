//! Messages on their way to a subscription.

use crate::subscription::SubscriptionId;
use rwf::msg::MsgClass;

/// A message for one item of one subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery<'m> {
    /// The subscription.
    pub subscription: SubscriptionId,
    /// The item: its place in the subscription.
    pub item: u32,
    /// The class of the message.
    pub class: MsgClass,
    /// Nothing comes of the item behind this.
    pub is_final: bool,
    /// The message, RWF. Its stream id is that of the connection on which it came.
    pub msg: &'m [u8],
}
