//! The settings of a client.

use crate::links::Arrangement;
use omm::ConnectionList;
use omm::consumer::ConsumerConfig;
use rwf::dictionary::Dictionary;
use std::sync::Arc;

/// The settings of a client.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Connection list, login, recovery; whether the dictionary is downloaded.
    pub consumer: ConsumerConfig,
    /// Further connections, held at the same time as the one of `consumer`: the servers of each; at most [`LINKS_MAX`](crate::LINKS_MAX) in all.
    /// Everything else is as `consumer` says.
    pub beside: Vec<ConnectionList>,
    /// The use of several connections.
    pub arrangement: Arrangement,
    /// Warm standby: how long a server that has taken over may take to send the image of an item, nanoseconds; it is asked for then.
    pub takeover_timeout_ns: u64,
    /// The dictionary, if the application has one; it goes before one that is downloaded.
    pub dictionary: Option<Arc<Dictionary>>,
    /// Most posts that wait for an acknowledgement.
    pub posts_max: usize,
    /// How long an acknowledgement is awaited, nanoseconds.
    pub post_timeout_ns: u64,
}

impl ClientConfig {
    /// A client of this consumer; 100,000 posts may wait, 15 s each.
    pub const fn new(consumer: ConsumerConfig) -> Self {
        Self {
            consumer,
            beside: Vec::new(),
            arrangement: Arrangement::Routing,
            takeover_timeout_ns: 5_000_000_000,
            dictionary: None,
            posts_max: 100_000,
            post_timeout_ns: 15_000_000_000,
        }
    }
}
