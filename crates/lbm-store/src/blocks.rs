//! Bytes of messages, in blocks one behind the other.
//!
//! Stores and sources take and drop millions of messages a second, and an allocation for each of them is most of their work.

use std::collections::VecDeque;

use lbm::topic::Run;

/// Bytes of a block: more, the more is held, since most of ten thousand sources hold little.
const BLOCK_MIN: usize = 4 << 10;
const BLOCK_MAX: usize = 1 << 20;
/// A block is no larger than this part of what is held.
const BLOCK_SHARE: usize = 16;

/// Where a message stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Number of the block, counted from the first that there ever was.
    block: u64,
    offset: u32,
    length: u32,
}

impl Place {
    /// Bytes of the message.
    #[inline]
    pub(crate) fn length(self) -> usize {
        self.length as usize
    }
}

/// Bytes of messages.
#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    /// Messages in it that are held.
    held: u32,
}

/// See the module. Messages are dropped in about the order in which they came: one that stays keeps its block.
#[derive(Debug)]
pub(crate) struct Blocks {
    all: VecDeque<Block>,
    /// Number of the first block.
    first: u64,
    /// Bytes of the messages that are held.
    bytes: usize,
    /// Memory of blocks that were emptied, for those to come.
    spare: Vec<Vec<u8>>,
    /// Blocks whose memory is kept at most.
    spare_max: usize,
}

impl Blocks {
    /// Keeps the memory of so many blocks that nothing is in.
    pub(crate) fn new(spare_max: usize) -> Self {
        Self { all: VecDeque::new(), first: 0, bytes: 0, spare: Vec::new(), spare_max }
    }

    /// Forgets all messages.
    pub(crate) fn clear(&mut self) {
        self.first += self.all.len() as u64;
        self.all.clear();
        self.bytes = 0;
    }

    /// The message at a place; `None` if it was forgotten with its block.
    #[inline]
    pub(crate) fn get(&self, Place { block, offset, length }: Place) -> Option<&[u8]> {
        let bytes = &self.all.get(usize::try_from(block.checked_sub(self.first)?).ok()?)?.bytes;
        bytes.get(offset as usize..(offset + length) as usize)
    }

    /// Writes a message, which is in two parts, into the newest block, or into a new one if that is full.
    #[inline]
    pub(crate) fn put(&mut self, head: &[u8], body: &[u8]) -> Place {
        let length = head.len() + body.len();
        let has_room = |block: &Block| block.bytes.len() + length <= block.bytes.capacity();
        if !self.all.back().is_some_and(has_room) {
            self.begin(length);
        }
        let block = self.first + self.all.len() as u64 - 1;
        // There is a block with room by now.
        let Some(newest) = self.all.back_mut() else { return Place { block, offset: 0, length: 0 } };
        let offset = newest.bytes.len() as u32;
        newest.bytes.extend_from_slice(head);
        newest.bytes.extend_from_slice(body);
        newest.held += 1;
        self.bytes += length;
        Place { block, offset, length: length as u32 }
    }

    /// Writes messages that lie one behind the other, by one copy for each block that they go to; `each` gets where each of them stands.
    pub(crate) fn put_run(&mut self, run: &Run<'_>, mut each: impl FnMut(Place)) {
        let mut messages = run.messages().map(|(_, message)| message.len()).peekable();
        let mut rest = run.bytes;
        while let Some(length) = messages.peek().copied() {
            if self.all.back().is_none_or(|block| block.bytes.len() + length > block.bytes.capacity()) {
                self.begin(length);
            }
            let number = self.first + self.all.len() as u64 - 1;
            // The newest block has room by now.
            let Some(newest) = self.all.back_mut() else { return };
            let (start, room) = (newest.bytes.len(), newest.bytes.capacity() - newest.bytes.len());
            let mut taken = 0;
            while let Some(length) = messages.next_if(|length| taken + length <= room) {
                each(Place { block: number, offset: (start + taken) as u32, length: length as u32 });
                taken += length;
                newest.held += 1;
            }
            let (now, later) = rest.split_at(taken);
            newest.bytes.extend_from_slice(now);
            self.bytes += taken;
            rest = later;
        }
    }

    /// Begins a block that has room for so many bytes at least.
    #[cold]
    fn begin(&mut self, length: usize) {
        let size = (self.bytes / BLOCK_SHARE).clamp(BLOCK_MIN, BLOCK_MAX).max(length);
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.reserve_exact(size);
        self.all.push_back(Block { bytes, held: 0 });
    }

    /// A message is held no more, and with the last one of a block goes the block.
    #[inline]
    pub(crate) fn forget(&mut self, place: Place) {
        // Places are those of blocks that are there.
        let Some(at) = place.block.checked_sub(self.first).and_then(|at| usize::try_from(at).ok()) else { return };
        let is_newest = at + 1 == self.all.len();
        let Some(block) = self.all.get_mut(at) else { return };
        self.bytes -= place.length as usize;
        block.held -= 1;
        if block.held > 0 {
            return;
        }
        block.bytes.clear();
        if !is_newest {
            let bytes = core::mem::take(&mut block.bytes);
            if self.spare.len() < self.spare_max {
                self.spare.push(bytes);
            }
        }
        while self.all.len() > 1 && self.all.front().is_some_and(|block| block.held == 0) {
            self.all.pop_front();
            self.first += 1;
        }
    }
}
