//! What was published lately: to tell a P2PS that has lost some of it what that was about.

use crate::stream::{Block, Message};
use std::collections::VecDeque;

/// Blocks of the stream, the newest ones that fit.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Position behind the last message, and bytes, of each block in order.
    blocks: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    limit: usize,
    /// Position of the first message kept.
    from: u64,
}

impl History {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Keeps a block, and lets the oldest ones go that have no room beside it. Their memory is used again.
    pub(crate) fn keep(&mut self, block: &[u8], end: u64) {
        if self.limit == 0 {
            return;
        }
        let mut room = Vec::new();
        while self.bytes + block.len() > self.limit {
            let Some((behind, old)) = self.blocks.pop_front() else { break };
            self.bytes -= old.len();
            self.from = behind;
            room = old;
        }
        if block.len() > self.limit {
            self.from = end;
            return;
        }
        room.clear();
        room.extend_from_slice(block);
        self.bytes += room.len();
        self.blocks.push_back((end, room));
    }

    /// True if everything from this position on is kept.
    pub(crate) fn reaches(&self, from: u64) -> bool {
        self.limit > 0 && from >= self.from
    }

    /// The messages from one position up to before another, as far as they are kept.
    pub(crate) fn messages(&self, from: u64, to: u64) -> impl Iterator<Item = Message<'_>> {
        let first = self.blocks.partition_point(|(end, _)| *end <= from);
        let blocks = self.blocks.range(first..).map_while(|(_, block)| Block::parse(block).ok());
        let blocks = blocks.take_while(move |block| block.heading.first_seq < to);
        let messages = blocks.flat_map(|block| block.messages().map_while(Result::ok));
        messages.filter(move |message| (from..to).contains(&message.position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{BlockWriter, NO_HANDLE};

    #[test]
    fn it_keeps_what_fits_and_knows_what_it_has_let_go() {
        let mut writer = BlockWriter::new(1);
        let mut history = History::new(300);
        for handle in 0..10 {
            writer.update(handle, false, &[0; 10]);
            writer.update(NO_HANDLE, false, &[0; 10]);
            history.keep(writer.block().unwrap(), writer.next_position());
            writer.clear();
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
    fn a_block_that_is_too_large_leaves_nothing_before_it() {
        let mut writer = BlockWriter::new(1);
        let mut history = History::new(100);
        writer.update(1, false, &[0; 200]);
        history.keep(writer.block().unwrap(), writer.next_position());
        assert!(!history.reaches(0) && history.reaches(1));
        assert!(!History::new(0).reaches(0), "nothing is kept at all");
    }
}
