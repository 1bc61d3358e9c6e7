//! Copies of the datagrams that are held behind a gap, and whose memory they are.

use crate::transport::memory::{Memory, Share};

/// Bytes of buffers that stay when a gap has closed.
const POOL_KEPT: usize = 1 << 20;

/// Every buffer is either held by somebody or in the pool; both are paid for from the session's share of the context's memory.
#[derive(Debug)]
pub(super) struct Buffers {
    pool: Vec<Vec<u8>>,
    pooled_bytes: usize,
    held_bytes: usize,
    held_max: usize,
    share: Share,
}

impl Buffers {
    /// At most `held_max` bytes are held at a time, as far as `memory` has them.
    pub(super) fn new(held_max: usize, memory: &Memory) -> Self {
        Self { pool: Vec::new(), pooled_bytes: 0, held_bytes: 0, held_max, share: memory.share() }
    }

    /// Takes memory for something else of the session; false if there is none.
    pub(super) fn reserve(&mut self, bytes: usize) -> bool {
        self.share.take(bytes)
    }

    /// Gives such memory back.
    pub(super) fn release(&mut self, bytes: usize) {
        self.share.give_back(bytes);
    }

    /// A copy of the bytes, in a buffer of the pool if there is one; `None` without memory for it.
    pub(super) fn hold(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.held_bytes + bytes.len() > self.held_max {
            return None;
        }
        let mut buffer = self.pool.pop().unwrap_or_default();
        self.pooled_bytes -= buffer.capacity();
        let before = buffer.capacity();
        // Rounded up, so that buffers soon fit whatever comes.
        let size = bytes.len().next_power_of_two().max(128);
        if bytes.len() > before {
            if !self.share.take(size - before) {
                self.share.give_back(before);
                return None;
            }
            buffer = Vec::with_capacity(size);
            debug_assert_eq!(buffer.capacity(), size, "the buffer is as long as what was taken for it");
        }
        buffer.clear();
        buffer.extend_from_slice(bytes);
        self.held_bytes += buffer.capacity();
        Some(buffer)
    }

    /// A buffer of [`Buffers::hold`] is not needed any more.
    pub(super) fn give_back(&mut self, buffer: Vec<u8>) {
        debug_assert!(buffer.capacity() <= self.held_bytes, "more comes back than is held");
        self.held_bytes -= buffer.capacity();
        self.pooled_bytes += buffer.capacity();
        self.pool.push(buffer);
    }

    /// A gap that was deep once must not pin its memory for ever.
    pub(super) fn trim(&mut self) {
        while self.pooled_bytes > POOL_KEPT
            && let Some(buffer) = self.pool.pop()
        {
            self.pooled_bytes -= buffer.capacity();
            self.share.give_back(buffer.capacity());
        }
    }

    /// Bytes that are held, the spare room of their buffers included.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Asserts that `held` bytes are held and `reserved` ones were taken for something else: for simulations.
    pub(super) fn check_invariants(&self, held: usize, reserved: usize) {
        assert_eq!(self.held_bytes, held, "bytes behind the gap");
        let pooled: usize = self.pool.iter().map(Vec::capacity).sum();
        assert_eq!(self.pooled_bytes, pooled, "bytes of the pool");
        // The last buffer may be longer than what was asked of it.
        assert!(held <= self.held_max + (1 << 17), "held: {held} of {}", self.held_max);
        self.share.check_invariants(reserved + held + pooled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_go_round_and_are_paid_for_once() {
        let memory = Memory::new(1 << 20);
        let mut buffers = Buffers::new(1_000, &memory);
        let (short, long) = (buffers.hold(b"abc").expect("room"), buffers.hold(&[7; 600]).expect("room"));
        assert_eq!((short.as_slice(), short.capacity(), long.capacity()), (b"abc".as_slice(), 128, 1_024));
        buffers.check_invariants(1_152, 0);
        assert!(buffers.hold(b"x").is_none(), "more than may be held");
        buffers.give_back(long);
        buffers.check_invariants(128, 0);
        assert_eq!(buffers.hold(b"x").expect("room").capacity(), 1_024, "the one of the pool");
        buffers.check_invariants(1_152, 0);
        assert!(!buffers.reserve(2 << 20) && buffers.reserve(64));
        buffers.check_invariants(1_152, 64);
    }
}
