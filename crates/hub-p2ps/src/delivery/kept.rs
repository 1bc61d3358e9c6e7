//! Deliveries of several turns that wait for one client.

use super::deliveries::{BodyId, Deliveries, Delivery, IN_ARENA, Span, range};
use crate::ids::StreamId;

/// Deliveries of several turns that wait for one client, in order, with their bodies.
#[derive(Debug, Default)]
pub(crate) struct KeptDeliveries {
    arena: Vec<u8>,
    spans: Vec<Span>,
    list: Vec<Delivery>,
    /// Number of those that were handed out.
    given: usize,
}

impl KeptDeliveries {
    /// Keeps a message behind the others.
    pub(crate) fn push(&mut self, body: &[u8], stream: i32) {
        let start = self.arena.len();
        assert!(start + body.len() < IN_ARENA as usize, "more is kept for a client than any limit lets wait");
        self.arena.extend_from_slice(body);
        self.spans.push(Span { start: start as u32, len: body.len() as u32 | IN_ARENA });
        self.list.push(Delivery { body: BodyId((self.spans.len() - 1) as u32), stream: StreamId(stream) });
    }

    /// Bytes of the messages that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.spans.get(self.given).map_or(0, |span| self.arena.len() - span.start as usize)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.given == self.list.len()
    }

    /// Hands out the next ones, at least one, up to so many bytes.
    pub(crate) fn next(&mut self, bytes: usize) -> Deliveries<'_> {
        let from = self.given;
        let start = self.spans.get(from).map_or(0, |span| span.start as usize);
        let fits = |span: &&Span| (range(**span).end - start) <= bytes;
        let count = self.spans[from..].iter().take_while(fits).count();
        self.given = (from + count.max(1)).min(self.list.len());
        let list = &self.list[from..self.given];
        let (spans, arena) = (&self.spans, &self.arena);
        Deliveries { list, at: 0, spans, arena, block: &[], is_of_turn: false, longest: u32::MAX }
    }

    /// Gives memory back that what was handed out took.
    pub(crate) fn trim(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        } else if self.given * 2 >= self.list.len() {
            let (count, cut) = (self.given, self.spans[self.given].start);
            self.arena.drain(..cut as usize);
            self.spans.drain(..count);
            self.list.drain(..count);
            self.spans.iter_mut().for_each(|span| span.start -= cut);
            self.list.iter_mut().for_each(|delivery| delivery.body.0 -= count as u32);
            self.given = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_out_in_order_and_in_pieces() {
        let mut kept = KeptDeliveries::default();
        let (mut pushed, mut got) = (0_u32, Vec::new());
        for round in 0..50_u32 {
            for _ in 0..3 {
                kept.push(&pushed.to_be_bytes(), pushed as i32);
                pushed += 1;
            }
            let budget = [8, 1, 20, 0][round as usize % 4];
            got.extend(kept.next(budget).map(|(body, stream)| (body.to_vec(), stream)));
            kept.trim();
            assert_eq!(kept.bytes(), (pushed as usize - got.len()) * 4);
        }
        while !kept.is_empty() {
            got.extend(kept.next(100).map(|(body, stream)| (body.to_vec(), stream)));
            kept.trim();
        }
        let all: Vec<_> = (0..pushed).map(|at| (at.to_be_bytes().to_vec(), at as i32)).collect();
        assert_eq!(got, all);
        assert!(kept.arena.capacity() == 0, "memory is given back");
    }
}
