//! Cutting a block for a carrier that takes no long ones.

use super::{BLOCK_HEADER, Block, MESSAGE_HEADER};
use std::borrow::Cow;

/// The blocks that hold the messages of `block` in order, each at most `longest` bytes long: the block itself if it is
/// short enough, else several with positions and counts of their own. A message that does not fit in `longest` bytes has a
/// block for itself. Bytes that are no block come back as they are, for the reader to refuse; so does what follows a
/// message that cannot be told from its successor.
pub fn parts(block: &[u8], longest: usize) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let whole = block.len() <= longest || Block::parse(block).is_err();
    Parts { block, longest, offset: if whole { 0 } else { BLOCK_HEADER }, cut: 0 }
}

struct Parts<'a> {
    block: &'a [u8],
    longest: usize,
    /// Where the next part begins; 0 if the block is not to be cut.
    offset: usize,
    /// Messages in the parts so far.
    cut: u32,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Cow<'a, [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.block.len() {
            return None;
        }
        if self.offset == 0 {
            self.offset = self.block.len();
            return Some(Cow::Borrowed(self.block));
        }
        let Ok(Block { heading, .. }) = Block::parse(self.block) else { return None };
        let (start, first) = (self.offset, self.cut);
        let mut end = start;
        while end < self.block.len() {
            let length = self.message_length(end);
            if end > start && BLOCK_HEADER + (end - start) + length > self.longest {
                break;
            }
            end += length;
            self.cut += 1;
        }
        self.offset = end;
        // The last part keeps a wrong count of the whole wrong, so that the reader sees it.
        let count = if end == self.block.len() { heading.count.wrapping_sub(first) } else { self.cut - first };
        let mut part = Vec::with_capacity(BLOCK_HEADER + end - start);
        part.extend_from_slice(&self.block[..8]);
        part.extend_from_slice(&heading.first_seq.wrapping_add(first.into()).to_le_bytes());
        part.extend_from_slice(&count.to_le_bytes());
        part.extend_from_slice(&((end - start) as u32).to_le_bytes());
        part.extend_from_slice(&self.block[start..end]);
        Some(Cow::Owned(part))
    }
}

impl Parts<'_> {
    /// Bytes of the message at `offset`: all that is left if its length is wrong.
    fn message_length(&self, offset: usize) -> usize {
        let rest = &self.block[offset..];
        let length = rest.first_chunk::<4>().map_or(0, |length| u32::from_le_bytes(*length) as usize);
        if (MESSAGE_HEADER..=rest.len()).contains(&length) { length } else { rest.len() }
    }
}
