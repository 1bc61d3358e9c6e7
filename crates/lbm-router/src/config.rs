//! Bounds, times and portals of a router.

use crate::filter::Filter;
use crate::merge::MergeConfig;

/// The bounds and times of a router.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How many paths of one source are subscribed to: the cheapest. With more than one the first copy of each message goes on.
    pub paths: usize,
    /// How copies are merged.
    pub merge: MergeConfig,
    /// How long proxy sources stay when the way to their source is lost, ns.
    pub linger_ns: u64,
    /// Interest of a domain that nobody has renewed for so long is over, ns.
    pub interest_timeout_ns: u64,
    /// Topics and patterns that one portal may bring.
    pub interests_max: usize,
    /// Sources that one portal may bring.
    pub sources_max: usize,
    /// Bytes that may wait for one peer; messages beyond are lost there, and counted.
    pub queue_bytes_max: usize,
    /// A peer that says nothing for so long is given up, ns. It is told the same of us.
    pub silence_ns: u64,
    /// Another router's proxy source that was not heard of for so long is gone, ns.
    pub takeover_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            paths: 1,
            merge: MergeConfig::default(),
            linger_ns: 10_000_000_000,
            interest_timeout_ns: 30_000_000_000,
            interests_max: 100_000,
            sources_max: 100_000,
            queue_bytes_max: 64 << 20,
            silence_ns: 5_000_000_000,
            takeover_ns: 3_000_000_000,
        }
    }
}

/// A portal in a domain.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// The domain; 0 is none.
    pub domain: u32,
    /// Cost of taking a source from this domain.
    pub cost: u32,
    /// Topics that pass.
    pub filter: Filter,
    /// Another router serves this domain as well: this one begins where nobody else does, after [`Limits::takeover_ns`].
    pub standby: bool,
    /// Topics that this router serves though another one does, too: those whose messages have numbers of hot failover.
    pub parallel: Filter,
}

impl EndpointConfig {
    /// A portal in a domain that passes everything.
    pub fn new(domain: u32) -> Self {
        let nothing = Filter { include: Vec::new(), exclude: vec![names::Pattern::new("*")] };
        Self { domain, cost: 1, filter: Filter::default(), standby: false, parallel: nothing }
    }
}

/// A portal to another router.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Cost of taking a source from there.
    pub cost: u32,
    /// Topics that pass.
    pub filter: Filter,
}

impl Default for PeerConfig {
    fn default() -> Self {
        Self { cost: 1, filter: Filter::default() }
    }
}
