//! What a socket refused to take: the queue of one connection, in chunks that all connections share through a pool.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use crate::sys;

/// Bytes in a chunk. Small enough that thousands of clients that lag by a little stay cheap, large enough that a long tail goes
/// out in few pieces.
const CHUNK: usize = 16 * 1024;
/// Chunks in one gathering send: 512 KB, more than a socket of ours takes at once.
const GATHER: usize = 32;
/// Chunks (8 MB) and empty tails that the pool keeps when nobody uses them.
const POOL_CHUNKS: usize = 512;
const POOL_TAILS: usize = 256;

type Chunk = Box<[u8; CHUNK]>;

/// Bytes that wait for the socket of one connection, oldest first.
///
/// Invariant: `len` bytes lie in the chunks from offset `head` of the first one; no chunk is without a waiting byte.
#[derive(Default)]
pub(super) struct Tail {
    chunks: VecDeque<Chunk>,
    head: usize,
    len: usize,
}

/// Chunks and tails for reuse.
#[derive(Default)]
pub(super) struct Pool {
    chunks: Vec<Chunk>,
    // Boxed because they move between here and the connections, which keep one word for a tail.
    #[expect(clippy::vec_box, reason = "the boxes themselves are what is reused")]
    tails: Vec<Box<Tail>>,
}

impl Pool {
    #[expect(clippy::unnecessary_box_returns, reason = "the box itself is what is reused")]
    pub(super) fn tail(&mut self) -> Box<Tail> {
        self.tails.pop().unwrap_or_default()
    }

    /// Takes a tail back, whatever it still holds.
    pub(super) fn put(&mut self, mut tail: Box<Tail>) {
        for chunk in tail.chunks.drain(..) {
            self.put_chunk(chunk);
        }
        tail.head = 0;
        tail.len = 0;
        if self.tails.len() < POOL_TAILS {
            self.tails.push(tail);
        }
    }

    fn chunk(&mut self) -> Chunk {
        self.chunks.pop().unwrap_or_else(|| Box::new([0; CHUNK]))
    }

    fn put_chunk(&mut self, chunk: Chunk) {
        if self.chunks.len() < POOL_CHUNKS {
            self.chunks.push(chunk);
        }
    }
}

impl Tail {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8], pool: &mut Pool) {
        while !bytes.is_empty() {
            let used = (self.head + self.len) % CHUNK;
            if used == 0 {
                self.chunks.push_back(pool.chunk());
            }
            let room = CHUNK - used;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            let last = self.chunks.back_mut().expect("a chunk with room was just ensured");
            last[used..used + now.len()].copy_from_slice(now);
            self.len += now.len();
            bytes = later;
        }
    }

    /// Sends until the tail is empty or the socket takes no more. Returns the bytes sent and the calls made.
    pub(super) fn flush(&mut self, fd: BorrowedFd<'_>, pool: &mut Pool) -> (io::Result<usize>, u64) {
        let (mut total, mut calls) = (0, 0);
        while self.len > 0 {
            let mut parts = [IoSlice::new(&[]); GATHER];
            let (count, offered) = self.gather(&mut parts);
            calls += 1;
            match sys::send_vectored(fd, &parts[..count]) {
                Ok(sent) => {
                    self.consume(sent, pool);
                    total += sent;
                    if sent < offered {
                        break;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return (Err(e), calls),
            }
        }
        (Ok(total), calls)
    }

    fn gather<'a>(&'a self, parts: &mut [IoSlice<'a>; GATHER]) -> (usize, usize) {
        let (mut start, mut left, mut count, mut offered) = (self.head, self.len, 0, 0);
        for (part, chunk) in parts.iter_mut().zip(&self.chunks) {
            let here = left.min(CHUNK - start);
            *part = IoSlice::new(&chunk[start..start + here]);
            (start, left) = (0, left - here);
            count += 1;
            offered += here;
        }
        (count, offered)
    }

    fn consume(&mut self, bytes: usize, pool: &mut Pool) {
        debug_assert!(bytes <= self.len);
        self.len -= bytes;
        self.head += bytes;
        while self.head >= CHUNK {
            self.head -= CHUNK;
            pool.put_chunk(self.chunks.pop_front().expect("consumed bytes lay in a chunk"));
        }
        if self.len == 0 {
            self.head = 0;
            for chunk in self.chunks.drain(..) {
                pool.put_chunk(chunk);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(tail: &Tail) -> Vec<u8> {
        let mut all = Vec::new();
        let mut parts = [IoSlice::new(&[]); GATHER];
        let (count, offered) = tail.gather(&mut parts);
        assert!(tail.chunks.len() <= GATHER, "the test stays within one gather");
        assert_eq!(offered, tail.len());
        for part in &parts[..count] {
            assert!(!part.is_empty(), "a chunk without a byte");
            all.extend_from_slice(part);
        }
        all
    }

    /// A `Vec` as the oracle: pushes and consumes of sizes around the chunk's, in a fixed pseudo-random order.
    #[test]
    fn a_tail_is_a_byte_queue() {
        let (mut tail, mut pool, mut model) = (Tail::default(), Pool::default(), VecDeque::new());
        let mut x = 7u32;
        let mut random = |limit: usize| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 8) as usize % limit
        };
        for round in 0..3_000u32 {
            let size = [1, 100, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK][random(6)];
            if random(2) == 0 && model.len() + size < 20 * CHUNK {
                let bytes: Vec<u8> = (0..size).map(|i| (i as u32).wrapping_add(round) as u8).collect();
                tail.push(&bytes, &mut pool);
                model.extend(bytes);
            } else {
                let size = size.min(model.len());
                tail.consume(size, &mut pool);
                model.drain(..size);
            }
            assert_eq!(tail.len(), model.len());
            if round % 16 == 0 {
                assert_eq!(contents(&tail), Vec::from(model.clone()));
            }
        }
        pool.put(Box::new(tail));
        assert_eq!(pool.tail().len(), 0);
    }

    #[test]
    fn an_empty_tail_keeps_no_chunk() {
        let (mut tail, mut pool) = (Tail::default(), Pool::default());
        tail.push(&vec![1; 3 * CHUNK + 5], &mut pool);
        assert_eq!(tail.chunks.len(), 4);
        tail.consume(3 * CHUNK + 5, &mut pool);
        assert_eq!((tail.chunks.len(), pool.chunks.len()), (0, 4));
    }
}
