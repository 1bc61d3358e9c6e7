//! The writing side.

#[cfg(not(loom))]
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use super::distance::Distance;
use super::file::{self, Bell, File, Owner};
use super::map::{Header, Map, RING_AT, UNUSED};
use super::sync::{Ordering, fence, total_order};
use super::{ALIGN, CAPACITY_MAX, CAPACITY_MIN, IDENTITY, Pacing, READERS, ShmError};

/// Lines are asked for this many bytes before they are written. A line that another processor has read has to be taken from it first; if
/// the two share no cache that takes over 100 ns, and a processor goes on meanwhile for no more stores than its store queue holds. Asked for
/// early, the lines come while others are written.
///
/// Within one cache asking costs more than waiting (a quarter of the rate of messages of 1,024 bytes): so only where lines come from afar.
const AHEAD: u64 = 2_048;
/// No more than the nearest cache holds.
const BURST: u64 = 4 * AHEAD;
const LINE: u64 = 64;

/// Writes a log in shared memory. Dropping it ends the log in order and removes the segment.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("net-shm-doc-{}", std::process::id()));
/// use net::shm::{Pacing, Reader, Writer};
///
/// let mut writer = Writer::create(&path, b"quotes", 1 << 16, Pacing::Receiver)?;
/// let mut reader = Reader::open(&path)?;
/// writer.room(8)[..8].copy_from_slice(b"IBM 142 ");
/// writer.publish(8);
/// assert_eq!(reader.peek().expect("no overrun"), b"IBM 142 ");
/// reader.release(8);
/// # Ok::<(), net::shm::ShmError>(())
/// ```
#[derive(Debug)]
pub struct Writer {
    map: Map,
    file: File,
    path: PathBuf,
    pacing: Pacing,
    /// Where the log is complete up to; a copy of the shared one.
    published: u64,
    /// Up to where it may be written without asking anybody: at most a capacity ahead of the slowest reader.
    granted: u64,
    /// Up to where lines were asked for to be written.
    fetched: u64,
    distance: Distance,
    bell: Bell,
    armed: bool,
    /// The readers' bells, opened when they are first rung.
    bells: Vec<Option<Bell>>,
}

impl Writer {
    /// Makes a segment with a ring of `capacity` bytes (a power of two, see [`CAPACITY_MIN`]). `identity` (cut or filled with zeros to
    /// 64 bytes) tells readers what it is. A segment of that name is replaced if its writer is dead.
    ///
    /// # Errors
    /// See [`ShmError`].
    pub fn create(path: &Path, identity: &[u8], capacity: usize, pacing: Pacing) -> Result<Self, ShmError> {
        if !capacity.is_power_of_two() || !(CAPACITY_MIN..=CAPACITY_MAX).contains(&capacity) {
            return Err(ShmError::Unknown(path.into(), "the capacity is no power of two, or out of range"));
        }
        let (file, hidden) = file::create(path, RING_AT + capacity)?;
        let system = |what| move |e| ShmError::System(path.into(), what, e);
        let made = (|| {
            let identity: [u8; IDENTITY] = std::array::from_fn(|i| identity.get(i).copied().unwrap_or(0));
            Header { capacity, pacing, identity }.write(&file).map_err(system("write"))?;
            let map = Map::new(&file, capacity, true).map_err(system("map"))?;
            for entry in 0..READERS {
                map.position_of(entry).store(UNUSED, Ordering::Relaxed);
            }
            Ok(map)
        })();
        let map = match made {
            Ok(map) => map,
            Err(e) => {
                let _ = std::fs::remove_file(&hidden);
                return Err(e);
            }
        };
        file::publish(&hidden, path)?;
        let bell = Bell::open(path, Owner::Writer).map_err(system("make a FIFO for"))?;
        bell.silence();
        let bells = (0..READERS).map(|_| None).collect();
        Ok(Self {
            map,
            file,
            path: path.into(),
            pacing,
            published: 0,
            granted: 0,
            fetched: 0,
            distance: Distance::default(),
            bell,
            armed: false,
            bells,
        })
    }

    /// The bytes behind what is published, to be written: at least `want`, unless readers (if it is paced by them) have yet to make
    /// room. With source pacing, `want` is cut at half of the capacity.
    #[inline]
    pub fn room(&mut self, want: usize) -> &mut [u8] {
        if self.granted - self.published < want as u64 {
            self.grant(want);
        }
        if self.armed {
            self.disarm();
        }
        if self.distance.is_far() {
            self.fetch(want as u64);
        }
        let len = (self.granted - self.published) as usize;
        // SAFETY: with receiver pacing, `granted` is at most a capacity ahead of every reader's position, and readers borrow only
        // from their position up to what is published: neither before nor behind this range, for which see `grant`. With source
        // pacing readers do not borrow, they copy.
        unsafe { self.map.bytes_mut(self.published, len) }
    }

    /// Asks for the lines of the next `want` bytes, the last of which are written next, and of [`AHEAD`] behind them: at most [`BURST`] bytes in
    /// a call, and none that may not be written, for who asks for a line takes it from its readers.
    #[inline]
    fn fetch(&mut self, want: u64) {
        let begin = self.fetched.max(self.published & !(LINE - 1));
        let end = (self.published + want + AHEAD).min(begin + BURST).min(self.granted);
        self.fetched = begin;
        while self.fetched < end {
            self.map.fetch_to_write(self.fetched);
            self.fetched += LINE;
        }
    }

    /// Makes the first `len` bytes of [`room`](Self::room) visible, and wakes readers that sleep.
    ///
    /// # Panics
    /// When it is more than there was room for, or no multiple of [`ALIGN`].
    #[inline]
    pub fn publish(&mut self, len: usize) {
        assert!(len as u64 <= self.granted - self.published && len.is_multiple_of(ALIGN), "published {len} bytes");
        self.published += len as u64;
        // SYNC: releases what was written to readers that load it; and, in the one order of all SeqCst operations, comes before the
        // look for sleepers. A reader that lies down comes before this look, or sees what is published here.
        self.map.published().swap(self.published, Ordering::SeqCst);
        total_order();
        if self.map.sleepers().load(Ordering::SeqCst) != 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&mut self) {
        self.map.sleepers().swap(0, Ordering::SeqCst);
        for entry in 0..READERS {
            let sleeps = self.map.sleeps(entry);
            if sleeps.load(Ordering::Relaxed) == 0 || sleeps.swap(0, Ordering::SeqCst) == 0 {
                continue;
            }
            let bell = &mut self.bells[entry];
            if bell.is_none() {
                *bell = Bell::open(&self.path, Owner::Reader(entry)).ok();
            }
            if let Some(bell) = bell {
                bell.ring();
            }
        }
    }

    #[cold]
    fn grant(&mut self, want: usize) {
        self.distance.look(&self.map, self.published);
        let capacity = self.map.capacity();
        if self.pacing == Pacing::Receiver {
            // Room granted once stays so: a reader that joins later begins behind it or at it.
            self.granted = self.granted.max(self.slowest() + capacity as u64);
            return;
        }
        // In steps, so that readers see few changes; the step is what a reader may not lag behind the capacity.
        let step = want.max(capacity / 8).min(capacity / 2);
        self.granted = self.granted.max(self.published + step as u64);
        self.map.claimed().store(self.granted, Ordering::Relaxed);
        // SYNC: a reader that saw any of the bytes written from here on sees the claim (its fence is in `Reader::peek`).
        fence(Ordering::Release);
    }

    /// The position of the slowest reader, at most a capacity behind; without readers, what is published.
    fn slowest(&self) -> u64 {
        // SYNC: pairs with `Reader::open`. Either the scan sees a new reader's entry, or the new reader sees what is published now,
        // and begins at it or behind it: no more than is granted below is written before the next scan.
        fence(Ordering::SeqCst);
        let behind = |entry: usize| {
            // SYNC: acquires the reader's last accesses to what it has released.
            let position = self.map.position_of(entry).load(Ordering::Acquire);
            // A position that makes no sense counts as that of the slowest possible reader: the writer waits.
            (position != UNUSED).then(|| self.published.wrapping_sub(position).min(self.map.capacity() as u64))
        };
        self.published - (0..READERS).filter_map(behind).max().unwrap_or(0).min(self.published)
    }

    /// Asks to be woken when readers have released something. `false`: there is room for `want` bytes already. Then wait until the
    /// descriptor ([`AsFd`]) is readable, and ask for [`room`](Self::room) again.
    pub fn arm(&mut self, want: usize) -> bool {
        self.armed = true;
        // SYNC: in the one order of all SeqCst operations, either it comes before the reader's look in `Reader::release`, or the scan
        // below sees what that reader has released.
        self.map.waiting().swap(1, Ordering::SeqCst);
        if self.pacing == Pacing::Receiver && self.granted - self.published < want as u64 {
            self.grant(want);
        }
        if self.pacing == Pacing::Source || self.granted - self.published >= want as u64 {
            self.disarm();
            return false;
        }
        true
    }

    #[cold]
    fn disarm(&mut self) {
        self.armed = false;
        self.map.waiting().store(0, Ordering::Relaxed);
        self.bell.silence();
    }

    /// How many readers there are, dead ones that were not found yet included.
    pub fn readers(&self) -> usize {
        (0..READERS).filter(|entry| self.map.position_of(*entry).load(Ordering::Relaxed) != UNUSED).count()
    }

    /// The most that any reader has yet to read, bytes.
    pub fn lag(&self) -> u64 {
        self.published - self.slowest()
    }

    /// Gives the entries of dead readers free, for whom the writer would wait for ever; returns how many. One system call for each
    /// reader: call it now and then, and when readers make no room.
    pub fn reap(&mut self) -> usize {
        let mut reaped = 0;
        for entry in 0..READERS {
            if self.map.position_of(entry).load(Ordering::Relaxed) == UNUSED {
                continue;
            }
            // Not while a new reader takes the entry over.
            if matches!(file::lock(&self.file, Owner::Reader(entry)), Ok(true)) {
                self.map.sleeps(entry).store(0, Ordering::Relaxed);
                self.map.position_of(entry).store(UNUSED, Ordering::Release);
                file::unlock(&self.file, Owner::Reader(entry));
                reaped += 1;
            }
        }
        reaped
    }

    /// A sign of life, monotonic ns: tells readers a frozen process from a silent one.
    pub fn beat(&self, now: u64) {
        self.map.alive().store(now, Ordering::Relaxed);
    }

    /// Bytes published since the beginning.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// Size of the ring.
    pub fn capacity(&self) -> usize {
        self.map.capacity()
    }

    /// Where the segment is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(loom)]
impl Writer {
    /// Sleeps until readers have released something.
    pub(super) fn wait(&self) {
        self.bell.wait();
    }
}

#[cfg(not(loom))]
impl AsFd for Writer {
    /// Readable after [`Writer::arm`] when readers have released something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // SYNC: as the position in `publish`.
        self.map.closed().swap(1, Ordering::SeqCst);
        self.wake();
        file::remove(&self.path);
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn lines_are_asked_for_ahead_where_readers_are_far_and_not_beyond_what_may_be_written() {
        let path = std::env::temp_dir().join(format!("net-shm-ahead-{}", std::process::id()));
        let capacity = 65_536;
        let mut writer = Writer::create(&path, b"", capacity, Pacing::Receiver).expect("a log");
        let mut reader = super::super::Reader::open(&path).expect("a reader");
        writer.room(64);
        assert_eq!(writer.fetched, 0, "near: none");
        for _ in 0..8 {
            writer.distance.note(1_000);
        }
        writer.room(64);
        assert_eq!(writer.fetched, 64 + AHEAD);
        // A writer that takes more than it asked for goes on from where it is.
        writer.publish(8_200);
        writer.room(8);
        assert!(writer.fetched >= 8_208 + AHEAD && writer.fetched.is_multiple_of(LINE), "{}", writer.fetched);
        writer.publish(capacity - 8_200 - 1_024);
        assert_eq!(writer.room(8).len(), 1_024);
        assert_eq!(writer.fetched, capacity as u64, "what a reader may still read stays with it");
        let read = reader.peek().expect("the log").len();
        reader.release(read);
        writer.room(1_032);
        assert_eq!(
            writer.fetched,
            capacity as u64 + LINE + AHEAD,
            "the writer is 1,024 bytes before the end of the ring"
        );
        // A record that is being filled stays where it begins; what is written next is what counts.
        writer.room(8_192);
        assert!(writer.fetched >= (capacity - 1_024) as u64 + 8_192 + AHEAD);
        let fetched = writer.fetched;
        writer.room(60_000);
        assert_eq!(writer.fetched, fetched + BURST, "not all at once");
        for _ in 0..8 {
            writer.distance.note(10);
        }
        let fetched = writer.fetched;
        writer.publish(4_096);
        writer.room(8);
        assert_eq!(writer.fetched, fetched, "near again: none");
    }
}
