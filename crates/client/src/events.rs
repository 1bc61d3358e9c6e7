//! Events of a client beside what comes of items.

use crate::links::LinkId;
use crate::subscription::SubscriptionId;
use omm::consumer;
use rwf::msg::NakCode;

/// Events apart from messages of items.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// Of login, services, dictionary and connection. The states of items are deliveries.
    Consumer {
        /// The link of which it is.
        link: LinkId,
        /// The event.
        event: Box<consumer::Event>,
    },
    /// Warm standby: a link has become the one that serves.
    Serves {
        /// The link.
        link: LinkId,
        /// The service; `None`: all.
        service: Option<String>,
    },
    /// A post was answered.
    PostAnswered {
        /// The post.
        id: u32,
        /// The poster; `None`: off-stream.
        by: Option<(SubscriptionId, u32)>,
        /// The reason of a refusal; `None`: taken.
        nak: Option<NakCode>,
        /// Text of the answer.
        text: String,
    },
    /// A post was not answered in time, or its connection was lost: whether it was taken is not known.
    PostUnanswered {
        /// The post.
        id: u32,
        /// The poster; `None`: off-stream.
        by: Option<(SubscriptionId, u32)>,
    },
}
