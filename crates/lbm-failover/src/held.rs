//! Messages that wait behind a gap.

use std::collections::BTreeMap;

use lbm::topic::Message;
use lbm::wire::lbmc::{Headers, Kind};

use crate::mark::Mark;

/// Bytes of a held message beyond its own.
const ENTRY_BYTES: usize = 128;

/// A copy of a message.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) source: u32,
    pub(crate) mark: Mark,
    /// When it came, ns.
    pub(crate) at: u64,
    sqn: u32,
    kind: Kind,
    properties: u32,
    /// Code of the first extension header.
    next: u8,
    /// Extension headers, then payload from here on.
    payload_at: usize,
    bytes: Box<[u8]>,
}

impl Held {
    fn of(now: u64, source: u32, mark: Mark, message: &Message<'_>) -> Self {
        let (next, chain) = message.headers.encoded();
        let bytes = [chain, message.payload].concat().into_boxed_slice();
        let Message { sqn, kind, properties, .. } = *message;
        Self { source, mark, at: now, sqn, kind, properties, next, payload_at: chain.len(), bytes }
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes[self.payload_at..]
    }

    pub(crate) fn message(&self) -> Message<'_> {
        let (chain, payload) = self.bytes.split_at(self.payload_at);
        Message {
            sqn: self.sqn,
            payload,
            properties: self.properties,
            kind: self.kind,
            headers: Headers::of_encoded(self.next, chain),
        }
    }

    fn cost(&self) -> usize {
        self.bytes.len() + ENTRY_BYTES
    }
}

/// By position.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    messages: BTreeMap<u64, Held>,
    bytes: usize,
}

impl Waiting {
    pub(crate) fn keep(&mut self, now: u64, position: u64, source: u32, mark: Mark, message: &Message<'_>) {
        let held = Held::of(now, source, mark, message);
        self.bytes += held.cost();
        if let Some(before) = self.messages.insert(position, held) {
            self.bytes -= before.cost();
        }
    }

    pub(crate) fn get(&self, position: u64) -> Option<&Held> {
        self.messages.get(&position)
    }

    pub(crate) fn take(&mut self, position: u64) -> Option<Held> {
        let held = self.messages.remove(&position)?;
        self.bytes -= held.cost();
        Some(held)
    }

    /// The lowest position, and when the message there came.
    pub(crate) fn first(&self) -> Option<(u64, u64)> {
        self.messages.first_key_value().map(|(position, held)| (*position, held.at))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_of(&self, source: u32) -> bool {
        self.messages.values().any(|held| held.source == source)
    }

    pub(crate) fn check_invariants(&self, expected: u64) {
        assert_eq!(self.bytes, self.messages.values().map(Held::cost).sum::<usize>(), "bytes that wait");
        if let Some((first, _)) = self.first() {
            assert!(first > expected, "{first} waits, and {expected} is next");
        }
    }
}
