//! A context as the service knows it.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use regex_lite::{Regex, RegexBuilder};

/// By what a context is known when it connects again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pub(super) address: Ipv4Addr,
    pub(super) host: u32,
    pub(super) session: u32,
}

/// Sources that are still to be told to a connection.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) over: Over,
    /// The next place to be looked at: what comes before it was told, or is told as it comes.
    pub(super) at: u32,
}

/// Which sources a walk is over.
#[derive(Debug)]
pub(super) enum Over {
    All,
    Topic(Box<[u8]>),
    Pattern(Box<[u8]>),
}

/// Weights of patterns, by the bytes that they take at most when compiled: more take longer to match. Patterns that take more than the last
/// are refused.
const WEIGHTS: [(usize, usize); 2] = [(4_096, 4), (32_768, 32)];

#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// Cost of holding a name against the pattern.
    pub(super) weight: usize,
}

impl Pattern {
    /// `None`: not a pattern, or one that costs too much.
    pub(super) fn new(text: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok()?;
        WEIGHTS.iter().find_map(|(bytes, weight)| {
            let regex = RegexBuilder::new(text).size_limit(*bytes).build().ok()?;
            Some(Self { regex, weight: *weight })
        })
    }

    pub(super) fn matches(&self, topic: &[u8]) -> bool {
        core::str::from_utf8(topic).is_ok_and(|topic| self.regex.is_match(topic))
    }
}

pub(super) struct Context {
    pub(super) identity: Identity,
    /// `None`: the connection is broken, since [`Context::lost_at`].
    pub(super) conn: Option<u64>,
    pub(super) lost_at: u64,
    /// Counts registrations.
    pub(super) registration: u32,
    /// Places of the context's sources.
    pub(super) sources: HashSet<u32>,
    /// Topics that it wants.
    pub(super) topics: HashSet<Box<[u8]>>,
    pub(super) patterns: HashMap<Box<[u8]>, Pattern>,
    /// Whether it wants all sources.
    pub(super) everything: bool,
    /// The context is a router's: what it looks for others do, in other domains.
    pub(super) is_router: bool,
    /// The context is told what others look for.
    pub(super) forwards: bool,
}

impl Context {
    pub(super) fn new(identity: Identity) -> Self {
        Self {
            identity,
            conn: None,
            lost_at: 0,
            registration: 0,
            sources: HashSet::new(),
            topics: HashSet::new(),
            patterns: HashMap::new(),
            everything: false,
            is_router: false,
            forwards: false,
        }
    }

    /// Whether it wants a topic that it has not named.
    pub(super) fn wants_by_pattern(&self, topic: &[u8]) -> bool {
        self.everything || self.patterns.values().any(|pattern| pattern.matches(topic))
    }
}
