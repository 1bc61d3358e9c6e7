//! What was published lately: to tell a P2PS that has lost some of it what that was about.
//!
//! Of an update, and that is nearly all there is, its handle suffices: the P2PS asks for an image of the item. So what is kept of a block is
//! four bytes a message, and not the block, which would be a copy of the whole stream through memory that no cache holds.

use crate::stream::{ALL, Index, Kind, Message};
use std::collections::VecDeque;

/// Notes of the stream: of the newest blocks that fit.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// In the order of the stream.
    blocks: VecDeque<Kept>,
    /// Bytes that the kept blocks had.
    bytes: usize,
    /// Bytes that they may have had.
    limit: usize,
    /// Position of the first message kept.
    from: u64,
}

/// Notes of one block.
#[derive(Debug, Default)]
struct Kept {
    /// Position of the first message.
    first: u64,
    /// Bytes that the block had.
    bytes: usize,
    /// The handle of each message.
    handles: Vec<u32>,
    /// The messages that are no updates for all, in order.
    others: Vec<Other>,
    /// The bodies of those among them that are said again as they were.
    bodies: Vec<u8>,
}

/// A message that is more than an update for all.
#[derive(Debug)]
struct Other {
    position: u64,
    kind: Kind,
    flags: u8,
    target: u16,
    arg: u32,
    /// Where its body ends among the bodies; the one before ends where this one starts.
    body_end: usize,
}

impl Kept {
    /// Takes what is kept of a block. Whatever was kept here before is gone; its memory is what the index gets.
    fn fill(&mut self, block: &[u8], index: &mut Index, first: u64) {
        self.others.clear();
        self.bodies.clear();
        std::mem::swap(&mut self.handles, &mut index.handles);
        (self.first, self.bytes) = (first, block.len());
        for &(number, offset) in &index.others {
            let position = first + u64::from(number);
            let Ok((message, _)) = Message::at(block, offset, position) else {
                // The message counts as an update of its item: a P2PS that has lost it gets an image.
                hub_items::fault!("no message is where the writer has put message {position}");
                continue;
            };
            let Message { kind, flags, target, arg, body, .. } = message;
            if kind.is_repeated() {
                self.bodies.extend_from_slice(body);
            }
            self.others.push(Other { position, kind, flags, target, arg, body_end: self.bodies.len() });
        }
    }

    /// Position behind the last message.
    fn end(&self) -> u64 {
        self.first + self.handles.len() as u64
    }

    /// Messages that are kept, from one position up to before another.
    fn messages(&self, from: u64, to: u64) -> impl Iterator<Item = Message<'_>> {
        let (from, to) = (from.max(self.first), to.min(self.end()));
        let mut other = self.others.partition_point(|other| other.position < from);
        (from..to).map(move |position| {
            let handle = self.handles[(position - self.first) as usize];
            let Some(found) = self.others.get(other).filter(|found| found.position == position) else {
                return Message { kind: Kind::Update, flags: 0, target: ALL, handle, arg: 0, position, body: &[] };
            };
            let start = other.checked_sub(1).map_or(0, |before| self.others[before].body_end);
            other += 1;
            let &Other { kind, flags, target, arg, body_end, .. } = found;
            Message { kind, flags, target, handle, arg, position, body: &self.bodies[start..body_end] }
        })
    }
}

impl History {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Keeps what a block was about, and lets the oldest ones go that have no room beside it. `end` is the position behind its last message.
    pub(crate) fn keep(&mut self, block: &[u8], index: &mut Index, end: u64) {
        debug_assert!(self.limit > 0, "what nobody keeps is not noted either");
        let mut kept = Kept::default();
        while self.bytes + block.len() > self.limit {
            let Some(old) = self.blocks.pop_front() else { break };
            self.bytes -= old.bytes;
            self.from = old.end();
            kept = old;
        }
        if block.len() > self.limit {
            self.from = end;
            return;
        }
        kept.fill(block, index, end - index.handles.len() as u64);
        self.bytes += kept.bytes;
        self.blocks.push_back(kept);
    }

    /// True if everything from this position on is kept.
    pub(crate) fn reaches(&self, from: u64) -> bool {
        self.limit > 0 && from >= self.from
    }

    /// The messages from one position up to before another, as far as they are kept. Bodies are there of those that are said again alone
    /// ([`Kind::is_repeated`]).
    pub(crate) fn messages(&self, from: u64, to: u64) -> impl Iterator<Item = Message<'_>> {
        let first = self.blocks.partition_point(|kept| kept.end() <= from);
        let blocks = self.blocks.range(first..).take_while(move |kept| kept.first < to);
        blocks.flat_map(move |kept| kept.messages(from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{BlockWriter, NO_HANDLE};

    fn end_block(history: &mut History, writer: &mut BlockWriter) {
        let end = writer.next_position();
        let (Some(block), Some(index)) = writer.parts_mut() else { panic!("nothing was written") };
        history.keep(block, index, end);
        writer.clear();
    }

    #[test]
    fn it_keeps_what_fits_and_knows_what_it_has_let_go() {
        let mut writer = BlockWriter::indexed(1);
        let mut history = History::new(300);
        for handle in 0..10 {
            writer.update(handle, false, &[0; 10]);
            writer.update(NO_HANDLE, false, &[0; 10]);
            end_block(&mut history, &mut writer);
        }
        // Each block has 76 bytes: three fit.
        assert!(!history.reaches(13) && history.reaches(14));
        let handles = |from, to| history.messages(from, to).map(|m| m.handle).collect::<Vec<_>>();
        assert_eq!(handles(14, 20), [7, NO_HANDLE, 8, NO_HANDLE, 9, NO_HANDLE]);
        assert_eq!(handles(15, 17), [NO_HANDLE, 8]);
        assert_eq!(handles(16, 16), []);
        assert_eq!(handles(20, 30), []);
    }

    #[test]
    fn what_is_said_again_is_kept_whole_and_the_rest_by_its_item() {
        let mut writer = BlockWriter::indexed(1);
        let mut history = History::new(1 << 20);
        for round in 0..3_u32 {
            writer.message_with(Kind::Ack, 1, 7, round, 70, |body| body.extend_from_slice(b"ack"));
            writer.update(round, true, &[0; 10]);
            writer.message_with(Kind::Image, 2, ALL, round, 0, |body| body.extend_from_slice(&[1; 500]));
            writer.message_with(Kind::Refused, 3, 8, NO_HANDLE, 71, |body| body.extend_from_slice(b"refused"));
            end_block(&mut history, &mut writer);
        }
        let found: Vec<_> = history.messages(0, 12).collect();
        assert_eq!(found.iter().map(|m| m.position).collect::<Vec<_>>(), (0..12).collect::<Vec<_>>());
        for (round, found) in found.chunks(4).enumerate() {
            let round = round as u32;
            let seen = |m: &Message<'_>| (m.kind, m.target, m.handle, m.arg, m.body.to_vec());
            assert_eq!(seen(&found[0]), (Kind::Ack, 7, round, 70, b"ack".to_vec()));
            assert_eq!(seen(&found[1]), (Kind::Update, ALL, round, 0, Vec::new()));
            assert_eq!(seen(&found[2]), (Kind::Image, ALL, round, 0, Vec::new()));
            assert_eq!(seen(&found[3]), (Kind::Refused, 8, NO_HANDLE, 71, b"refused".to_vec()));
        }
        // From and to the middle of blocks, beginning behind and before a message with a body.
        let kinds =
            |from, to| history.messages(from, to).map(|m| (m.position, m.kind, m.body.len())).collect::<Vec<_>>();
        assert_eq!(kinds(3, 6), [(3, Kind::Refused, 7), (4, Kind::Ack, 3), (5, Kind::Update, 0)]);
        assert_eq!(kinds(7, 8), [(7, Kind::Refused, 7)]);
    }

    #[test]
    fn a_block_that_is_too_large_leaves_nothing_before_it() {
        let mut writer = BlockWriter::indexed(1);
        let mut history = History::new(100);
        writer.update(1, false, &[0; 200]);
        end_block(&mut history, &mut writer);
        assert!(!history.reaches(0) && history.reaches(1));
        assert!(!History::new(0).reaches(0), "nothing is kept at all");
    }
}
