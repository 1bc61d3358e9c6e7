//! Deliveries of one client in a flush: bodies, each known by its place, and the stream that each goes out on.

use crate::ids::StreamId;
use std::ops::Range;

/// Set in [`Span::len`] if the body lies in the arena.
pub(super) const IN_ARENA: u32 = 0x8000_0000;

/// Where a body lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) len: u32,
}

/// Number of a body in its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyId(pub(super) u32);

/// One message for one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) body: BodyId,
    pub(super) stream: StreamId,
}

#[inline]
pub(super) fn range(span: Span) -> Range<usize> {
    let start = span.start as usize;
    start..start + (span.len & !IN_ARENA) as usize
}

/// One client's messages of a turn, in order: body and the stream id that it goes out with. The stream id inside the
/// body is another's; whoever frames the message writes this one over it (bytes 4 to 8 of a message).
#[derive(Debug, Clone)]
pub struct Deliveries<'a> {
    pub(super) list: &'a [Delivery],
    pub(super) at: usize,
    pub(super) spans: &'a [Span],
    pub(super) arena: &'a [u8],
    pub(super) block: &'a [u8],
    /// The bodies are the turn's; else those of one client alone, for whom they were kept.
    pub(super) is_of_turn: bool,
    /// No body has more bytes.
    pub(super) longest: u32,
}

/// The deliveries of one client in a flush, to be held against what others get in the same flush: clients of one program often watch the same
/// items on the same streams.
#[derive(Debug, Default)]
pub struct DeliveryList {
    list: Vec<Delivery>,
}

impl DeliveryList {
    /// Remembers what a client gets, if others may get the same; nothing else.
    pub fn set(&mut self, deliveries: &Deliveries<'_>) {
        self.list.clear();
        if deliveries.is_of_turn {
            self.list.extend_from_slice(&deliveries.list[deliveries.at..]);
        }
    }

    /// Forgets it: the bodies are void.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// True if a client gets the same messages on the same streams in the same order. False of nothing.
    pub fn is_same(&self, deliveries: &Deliveries<'_>) -> bool {
        deliveries.is_of_turn && !self.list.is_empty() && self.list == deliveries.list[deliveries.at..]
    }
}

impl Deliveries<'_> {
    /// True if these are more bytes than so many. Few deliveries, or short ones, are not looked at.
    #[inline]
    pub(crate) fn exceed(&self, bytes: usize) -> bool {
        let left = &self.list[self.at..];
        left.len() as u64 * u64::from(self.longest) > bytes as u64 && self.sum_exceeds(left, bytes)
    }

    #[cold]
    fn sum_exceeds(&self, list: &[Delivery], bytes: usize) -> bool {
        let lengths = list.iter().map(|delivery| range(self.spans[delivery.body.0 as usize]).len());
        let mut sum = 0_usize;
        lengths.into_iter().any(|length| {
            sum = sum.saturating_add(length);
            sum > bytes
        })
    }
}

impl<'a> Iterator for Deliveries<'a> {
    type Item = (&'a [u8], i32);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let delivery = self.list.get(self.at)?;
        self.at += 1;
        let span = self.spans[delivery.body.0 as usize];
        let bytes = if span.len & IN_ARENA == 0 { self.block } else { self.arena };
        Some((&bytes[range(span)], delivery.stream.0))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.list.len() - self.at;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Deliveries<'_> {}
