//! The memory that all receiving sessions of a context share for what is behind gaps: slots and datagrams.
//!
//! Each session has [`FLOOR`] bytes of its own, so that one whose source is real recovers what it has lost whatever others hold; what it
//! needs beyond comes from one pool. A session that finds none treats datagrams as lost once more, and asks for them again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that each session has in any case.
pub const FLOOR: usize = 32 << 10;
/// Bytes of a pool, unless another size is asked for.
pub const POOL: usize = 128 << 20;
/// What a session takes from the pool, and gives back to it, at a time.
const CHUNK: usize = 16 << 10;

/// The pool of a context. Clones are the same pool.
#[derive(Clone, Debug)]
pub struct Memory {
    taken: Arc<AtomicUsize>,
    max: usize,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(POOL)
    }
}

impl Memory {
    /// A pool of so many bytes.
    pub fn new(max: usize) -> Self {
        Self { taken: Arc::default(), max }
    }

    /// Bytes that sessions have taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// The share of a session.
    pub(super) fn share(&self) -> Share {
        Share { memory: self.clone(), used: 0, room: FLOOR }
    }
}

/// What a session has of the memory. Dropping it gives all of it back.
#[derive(Debug)]
pub(super) struct Share {
    memory: Memory,
    used: usize,
    /// What may be used without asking: the floor and what was taken from the pool.
    room: usize,
}

impl Share {
    /// Takes so many bytes; false if there are none.
    #[inline]
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        if self.used + bytes > self.room && !self.draw(self.used + bytes - self.room) {
            return false;
        }
        self.used += bytes;
        true
    }

    #[cold]
    fn draw(&mut self, missing: usize) -> bool {
        let chunk = missing.next_multiple_of(CHUNK);
        // SYNC: a count, and nothing else hangs on it.
        let before = self.memory.taken.fetch_add(chunk, Ordering::Relaxed);
        if before + chunk > self.memory.max {
            self.memory.taken.fetch_sub(chunk, Ordering::Relaxed);
            return false;
        }
        self.room += chunk;
        true
    }

    /// So many bytes are not used any more.
    #[inline]
    pub(super) fn give_back(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.used);
        self.used = self.used.saturating_sub(bytes);
        // A chunk stays, so that a session at an edge does not come and go.
        let spare = self.room - self.used.max(FLOOR);
        if spare >= 2 * CHUNK {
            let back = (spare - CHUNK) / CHUNK * CHUNK;
            self.room -= back;
            self.memory.taken.fetch_sub(back, Ordering::Relaxed);
        }
    }
}

impl Share {
    /// Asserts that so many bytes are used, and that the pool knows of what is beyond the floor.
    pub(super) fn check_invariants(&self, used: usize) {
        assert_eq!(self.used, used, "bytes of the context's memory that a session uses");
        assert!(self.room >= FLOOR && self.used <= self.room, "{} used of {}", self.used, self.room);
        assert!(self.memory.taken() >= self.room - FLOOR, "the pool knows of less than a session has of it");
        assert!(self.memory.taken() <= self.memory.max, "more is taken than there is");
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.taken.fetch_sub(self.room - FLOOR, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_its_floor_and_the_pool_its_end() {
        let memory = Memory::new(4 * CHUNK);
        let (mut greedy, mut modest) = (memory.share(), memory.share());
        assert!(greedy.take(FLOOR) && memory.taken() == 0);
        assert!(greedy.take(4 * CHUNK) && !greedy.take(1));
        assert_eq!(memory.taken(), 4 * CHUNK);
        // The floor is there whatever others hold.
        assert!(modest.take(FLOOR) && !modest.take(1));
        greedy.give_back(3 * CHUNK);
        assert!(modest.take(CHUNK), "given back");
        drop((greedy, modest));
        assert_eq!(memory.taken(), 0);
    }
}
