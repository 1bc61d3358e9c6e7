//! A ring of byte messages between threads: one writer, one or more readers that each see every message, in order and in place.
//!
//! The writer writes messages straight into the ring and publishes them a batch at a time; a reader goes over all that is published
//! and gives the space back a batch at a time. So the two sides touch each other's memory once a batch, not once a message. The writer
//! is held back by the slowest reader: nothing is ever overwritten unread, and a reader must not wait for anything but the ring.
//!
//! With one reader ([`spsc`]) it is an ordinary single-producer, single-consumer ring; the code is the same.
//!
//! # Sleeping
//!
//! A reader that has nothing to do calls [`Reader::prepare_sleep`] and, if told so, blocks in whatever its [`Waker`] wakes (a
//! [`Tcp::poll`](crate::tcp::Tcp::poll) or a [`Sleeper`](crate::Sleeper)), then calls [`Reader::awake`]. The writer wakes it only if
//! it sleeps. A writer that finds the ring full can sleep in the same way until there is space.
//!
//! # Layout
//!
//! Positions count bytes since the beginning and never wrap (64 bits); each is on cache lines of its own. A record is
//! `length u32, tag u32, bytes`, padded to eight; one that would not fit before the end of the memory is preceded by a filler.

mod park;
mod sync;

#[cfg(all(test, loom))]
mod model_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;

use park::Bed;
use sync::{Arc, AtomicBool, AtomicU64, Bytes, Ordering, fence};

#[cfg(not(loom))]
use crate::Waker;
#[cfg(loom)]
pub use sync::Waker;

/// Bytes of a record before its message.
const HEADER: usize = 8;
/// Records start at multiples of this, so that messages are aligned as well.
const ALIGN: usize = 8;
/// The length that marks filler up to the end of the memory.
const FILLER: u32 = u32::MAX;
/// Position of a reader that is gone: it holds nothing back.
const DETACHED: u64 = u64::MAX;

/// Two cache lines, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

struct Shared {
    bytes: Bytes,
    mask: u64,
    /// Everything before it is published.
    tail: Apart<AtomicU64>,
    closed: AtomicBool,
    writer: Apart<Bed>,
    readers: Box<[Apart<ReaderSide>]>,
}

#[derive(Debug, Default)]
struct ReaderSide {
    /// Everything before it has been read.
    head: AtomicU64,
    bed: Bed,
}

impl Shared {
    fn capacity(&self) -> usize {
        self.mask as usize + 1
    }

    fn offset(&self, position: u64) -> usize {
        (position & self.mask) as usize
    }
}

/// The longest message of a ring of so many bytes. With at most half the ring for a record, filler and record together fit whatever the
/// position; and a length has 32 bits, of which one value marks filler.
fn longest(capacity: usize) -> usize {
    (capacity / 2 - HEADER).min(FILLER as usize - 1)
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// The slowest reader has not yet given back enough space. What was pushed before has been published.
    Full,
    /// No ring of this capacity takes a message of this length; see [`Writer::longest`].
    TooLong,
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the ring is full: its slowest reader is behind",
            Self::TooLong => "the message is longer than half the ring",
        })
    }
}

impl std::error::Error for PushError {}

/// Makes a ring of at least `capacity` bytes (rounded up to a power of two) with a number of readers.
///
/// # Panics
/// Without readers.
pub fn broadcast(capacity: usize, readers: usize) -> (Writer, Vec<Reader>) {
    assert!(readers > 0, "a ring without readers");
    let capacity = capacity.next_power_of_two().max(4 * HEADER);
    let shared = Arc::new(Shared {
        bytes: Bytes::new(capacity),
        mask: capacity as u64 - 1,
        tail: Apart::default(),
        closed: AtomicBool::new(false),
        writer: Apart::default(),
        readers: (0..readers).map(|_| Apart::default()).collect(),
    });
    let handles = (0..readers).map(|index| Reader { shared: shared.clone(), index, head: 0 }).collect();
    (Writer { shared, position: 0, published: 0, gate: 0, full: 0, wakes: 0 }, handles)
}

/// Makes a ring with one reader.
pub fn spsc(capacity: usize) -> (Writer, Reader) {
    let (writer, mut readers) = broadcast(capacity, 1);
    (writer, readers.pop().expect("one was asked for"))
}

/// The writing end.
pub struct Writer {
    shared: Arc<Shared>,
    /// End of what has been written. `published <= position <= gate + capacity`.
    position: u64,
    published: u64,
    /// A lower bound of the slowest reader's position, as last looked up.
    gate: u64,
    full: u64,
    wakes: u64,
}

impl Writer {
    /// The longest message.
    pub fn longest(&self) -> usize {
        longest(self.shared.capacity())
    }

    /// Bytes of the ring.
    pub fn capacity(&self) -> usize {
        self.shared.capacity()
    }

    /// Appends a message; readers see it after [`publish`](Self::publish).
    ///
    /// # Errors
    /// See [`PushError`].
    #[inline]
    pub fn push(&mut self, tag: u32, message: &[u8]) -> Result<(), PushError> {
        self.push_with(tag, message.len(), |bytes| bytes.copy_from_slice(message))
    }

    /// As [`push`](Self::push), with `fill` writing the message in place. What it leaves out is undefined (old messages).
    ///
    /// # Errors
    /// See [`PushError`].
    #[inline]
    pub fn push_with(&mut self, tag: u32, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<(), PushError> {
        if len > self.longest() {
            return Err(PushError::TooLong);
        }
        let record = (HEADER + len).next_multiple_of(ALIGN);
        let offset = self.shared.offset(self.position);
        let to_end = self.shared.capacity() - offset;
        let filler = if record > to_end { to_end } else { 0 };
        if !self.has_space(record + filler) {
            self.full += 1;
            self.publish();
            return Err(PushError::Full);
        }
        if filler > 0 {
            // SAFETY: `has_space`: no reader can be at these bytes, and only this writer writes. Offsets are multiples of eight, so
            // a header fits wherever there is any space before the end.
            unsafe { self.shared.bytes.write(offset, HEADER, |bytes| write_header(bytes, FILLER, 0)) };
        }
        let start = self.shared.offset(self.position + filler as u64);
        // SAFETY: as above.
        unsafe {
            self.shared.bytes.write(start, HEADER + len, |bytes| {
                let (header, message) = bytes.split_at_mut(HEADER);
                write_header(header, len as u32, tag);
                fill(message);
            });
        }
        self.position += (filler + record) as u64;
        Ok(())
    }

    /// Whether so many more bytes overwrite nothing unread; asks the readers only if what is known does not suffice.
    #[inline]
    fn has_space(&mut self, bytes: usize) -> bool {
        let needed = (self.position + bytes as u64).saturating_sub(self.shared.capacity() as u64);
        if needed > self.gate {
            self.gate = self.slowest();
        }
        needed <= self.gate
    }

    fn slowest(&self) -> u64 {
        // SYNC: pairs with the release stores of a head: the reader is done with the bytes before it. Without readers all is free.
        let heads = self.shared.readers.iter().map(|side| side.0.head.load(Ordering::Acquire));
        heads.min().filter(|&head| head != DETACHED).unwrap_or(self.position)
    }

    /// Shows the readers all that was pushed, and wakes those that sleep.
    #[inline]
    pub fn publish(&mut self) {
        if self.published == self.position {
            return;
        }
        self.published = self.position;
        // SYNC: pairs with the acquire load of the tail in `Reader::read`: the messages are visible before it.
        self.shared.tail.0.store(self.position, Ordering::Release);
        fence(Ordering::SeqCst);
        for side in &self.shared.readers {
            self.wakes += u64::from(side.0.bed.call_fenced());
        }
    }

    /// Bytes that the slowest reader has still to read.
    pub fn lag(&self) -> u64 {
        self.position - self.slowest().min(self.position)
    }

    /// Readers that are there.
    pub fn readers(&self) -> usize {
        self.shared.readers.iter().filter(|side| side.0.head.load(Ordering::Relaxed) != DETACHED).count()
    }

    /// How often a message found no space.
    pub fn full_count(&self) -> u64 {
        self.full
    }

    /// How often a sleeping reader had to be woken.
    pub fn wake_count(&self) -> u64 {
        self.wakes
    }

    /// Sets what wakes this writer when there is space again. Once, before the first [`prepare_sleep`](Self::prepare_sleep).
    pub fn wake_with(&mut self, waker: Waker) {
        self.shared.writer.0.wake_with(waker);
    }

    /// Before blocking for want of space for a message of this length: `true` if there still is none and the writer may block. A
    /// reader wakes it when it has given back any space; then [`awake`](Self::awake) and another try.
    pub fn prepare_sleep(&mut self, len: usize) -> bool {
        self.shared.writer.0.lie_down();
        let record = (HEADER + len).next_multiple_of(ALIGN);
        let to_end = self.shared.capacity() - self.shared.offset(self.position);
        let filler = if record > to_end { to_end } else { 0 };
        let sleep = !self.has_space(record + filler);
        if !sleep {
            self.shared.writer.0.get_up();
        }
        sleep
    }

    /// Before blocking until no reader is more than so many bytes behind: `true` if one still is and the writer may block. Readers
    /// wake it whenever they have given back space; then [`awake`](Self::awake) and another look at [`lag`](Self::lag).
    pub fn prepare_wait(&mut self, lag: u64) -> bool {
        self.shared.writer.0.lie_down();
        let wait = self.lag() > lag;
        if !wait {
            self.shared.writer.0.get_up();
        }
        wait
    }

    /// After blocking.
    pub fn awake(&mut self) {
        self.shared.writer.0.get_up();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.publish();
        self.shared.closed.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        for side in &self.shared.readers {
            side.0.bed.call_fenced();
        }
    }
}

/// A reading end.
pub struct Reader {
    shared: Arc<Shared>,
    index: usize,
    /// Everything before it has been read.
    head: u64,
}

impl Reader {
    fn side(&self) -> &ReaderSide {
        &self.shared.readers[self.index].0
    }

    /// Hands out what is published, in place and in order, at most `limit` messages; returns how many. Space is given back as it goes,
    /// in steps of an eighth of the ring and at the end.
    #[inline]
    pub fn read(&mut self, limit: usize, mut f: impl FnMut(u32, &[u8])) -> usize {
        // SYNC: pairs with the release store in `Writer::publish`.
        let tail = self.shared.tail.0.load(Ordering::Acquire);
        let step = self.shared.capacity() as u64 / 8;
        let (mut count, mut given_back) = (0, self.head);
        while count < limit && self.head != tail {
            let offset = self.shared.offset(self.head);
            // SAFETY: the bytes before the tail are published, and the writer leaves them alone until the head has passed them.
            let (len, tag) = unsafe { self.shared.bytes.with(offset, HEADER, read_header) };
            if len == FILLER {
                self.head += (self.shared.capacity() - offset) as u64;
                continue;
            }
            // SAFETY: as above; the writer has put the whole record before the end of the memory.
            unsafe { self.shared.bytes.with(offset + HEADER, len as usize, |message| f(tag, message)) };
            self.head += (HEADER + len as usize).next_multiple_of(ALIGN) as u64;
            count += 1;
            if self.head - given_back >= step {
                given_back = self.head;
                self.give_back();
            }
        }
        if self.head != given_back {
            self.give_back();
        }
        count
    }

    fn give_back(&self) {
        // SYNC: pairs with the acquire load in `Writer::slowest`: our reads are done before the space is free.
        self.side().head.store(self.head, Ordering::Release);
        self.shared.writer.0.call();
    }

    /// Whether all that is published has been read.
    pub fn is_empty(&self) -> bool {
        self.head == self.shared.tail.0.load(Ordering::Acquire)
    }

    /// Whether the writer is gone and all has been read.
    pub fn is_finished(&self) -> bool {
        // In this order: what was published before the end is seen after it.
        self.shared.closed.load(Ordering::Acquire) && self.is_empty()
    }

    /// Sets what wakes this reader. Once, before the first [`prepare_sleep`](Self::prepare_sleep).
    pub fn wake_with(&mut self, waker: Waker) {
        self.side().bed.wake_with(waker);
    }

    /// Before blocking: `true` if there still is nothing to read and the thread may block; the writer wakes it with its next batch or
    /// when it goes away. A thread that reads several rings prepares all of them and blocks only if all agree. Always followed by
    /// [`awake`](Self::awake).
    pub fn prepare_sleep(&mut self) -> bool {
        self.side().bed.lie_down();
        let closed = self.shared.closed.load(Ordering::Acquire);
        self.is_empty() && !closed
    }

    /// After blocking, or after deciding not to.
    pub fn awake(&mut self) {
        self.side().bed.get_up();
    }
}

impl Drop for Reader {
    /// A reader that is gone holds nobody back.
    fn drop(&mut self) {
        self.side().head.store(DETACHED, Ordering::Release);
        self.shared.writer.0.call();
    }
}

#[inline]
fn write_header(bytes: &mut [u8], len: u32, tag: u32) {
    let word = u64::from(len) | u64::from(tag) << 32;
    bytes[..HEADER].copy_from_slice(&word.to_ne_bytes());
}

#[inline]
fn read_header(bytes: &[u8]) -> (u32, u32) {
    let word = u64::from_ne_bytes(bytes[..HEADER].try_into().expect("a header"));
    (word as u32, (word >> 32) as u32)
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("position", &self.position)
            .field("published", &self.published)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("index", &self.index).field("head", &self.head).finish_non_exhaustive()
    }
}
