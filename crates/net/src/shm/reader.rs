//! The reading side.

#[cfg(not(loom))]
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::{fmt, slice};

use super::file::{self, Bell, File, Owner};
use super::map::{Header, Map, UNUSED};
use super::sync::{Ordering, fence, total_order};
use super::{ALIGN, IDENTITY, Pacing, READERS, ShmError};

/// Words that are copied at a time with source pacing: room for two of the longest datagrams.
const COPY: usize = 16 * 1024;

/// The writer has overwritten what was not read yet (source pacing), or the log makes no sense. The reader goes on at the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// Bytes that were skipped.
    pub skipped: u64,
}

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the writer has overwritten {} bytes that were not read yet", self.skipped)
    }
}

impl std::error::Error for Overrun {}

/// What has become of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterState {
    /// The writer writes, or may.
    Alive,
    /// The writer has left in order. What it has published can still be read.
    Ended,
    /// The writer's process has died. What it has published can still be read.
    Dead,
}

/// Reads a log in shared memory, from what is published when it is opened on.
#[derive(Debug)]
pub struct Reader {
    map: Map,
    file: File,
    header: Header,
    entry: usize,
    /// Up to where all was released.
    position: u64,
    /// Up to where the last [`Reader::peek`] has shown it.
    shown: u64,
    /// With source pacing: what was copied.
    copy: Box<[u64]>,
    bell: Bell,
    writer_bell: Option<Bell>,
    armed: bool,
}

impl Reader {
    /// Opens the segment at `path`.
    ///
    /// # Errors
    /// See [`ShmError`].
    pub fn open(path: &Path) -> Result<Self, ShmError> {
        let system = |what| move |e| ShmError::System(path.into(), what, e);
        let file = file::open(path)?;
        let header = Header::read(&file).map_err(|why| ShmError::Unknown(path.into(), why))?;
        if !file::is_locked(&file, Owner::Writer) {
            return Err(ShmError::Dead(path.into()));
        }
        let map = Map::new(&file, header.capacity, false).map_err(system("map"))?;
        let entry = take_entry(&file).map_err(system("lock"))?.ok_or_else(|| ShmError::Full(path.into()))?;
        let bell = Bell::open(path, Owner::Reader(entry)).map_err(system("make a FIFO for"))?;
        bell.silence();
        map.sleeps(entry).store(0, Ordering::Relaxed);
        // SYNC: first the entry, then the position to begin at: see `Writer::slowest`. The first value is behind or equal.
        map.position_of(entry).swap(map.published().load(Ordering::Relaxed), Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let position = map.published().load(Ordering::SeqCst);
        map.position_of(entry).store(position, Ordering::Release);
        let copy = if header.pacing == Pacing::Source { vec![0; COPY.min(header.capacity / 16)] } else { Vec::new() };
        let writer_bell = Bell::open(path, Owner::Writer).ok();
        Ok(Self {
            map,
            file,
            header,
            entry,
            position,
            shown: position,
            copy: copy.into(),
            bell,
            writer_bell,
            armed: false,
        })
    }

    /// What the writer has said the segment is.
    pub fn identity(&self) -> &[u8; IDENTITY] {
        &self.header.identity
    }

    /// Who waits for whom.
    pub fn pacing(&self) -> Pacing {
        self.header.pacing
    }

    /// Size of the ring.
    pub fn capacity(&self) -> usize {
        self.header.capacity
    }

    /// Up to where everything was released, bytes since the log's beginning.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether nothing new is published: one load, for owners that ask again and again. It does not disarm.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.map.published().load(Ordering::Relaxed) == self.position
    }

    /// What is published and not released: the ring's own memory, or with source pacing a copy of at most 128 KB of it. Empty: there
    /// is nothing new. What has been dealt with is to be [released](Self::release).
    ///
    /// # Errors
    /// What was not read yet is overwritten. The next call begins at the newest.
    #[inline]
    pub fn peek(&mut self) -> Result<&[u8], Overrun> {
        if self.armed {
            self.disarm();
        }
        // SYNC: acquires what the writer has written before.
        let published = self.map.published().load(Ordering::Acquire);
        if self.header.pacing == Pacing::Source {
            return self.peek_copied(published);
        }
        let len = published.wrapping_sub(self.position);
        if len > self.map.capacity() as u64 {
            return Err(self.skip_to(published));
        }
        self.shown = published;
        // SAFETY: between our entry's position and what is published; the writer writes none of it until `release`, which needs
        // `&mut self`, moves the entry's position.
        Ok(unsafe { self.map.bytes(self.position, len as usize) })
    }

    fn peek_copied(&mut self, published: u64) -> Result<&[u8], Overrun> {
        let capacity = self.map.capacity() as u64;
        let len = published.wrapping_sub(self.position);
        if len > capacity {
            return Err(self.skip_to(published));
        }
        let words = (len as usize / ALIGN).min(self.copy.len());
        self.map.copy(self.position, &mut self.copy[..words]);
        // SYNC: had one of the loads seen a newer byte, the claim that was stored before it is visible now (`Writer::grant`).
        fence(Ordering::Acquire);
        let claimed = self.map.claimed().load(Ordering::Relaxed);
        if claimed.saturating_sub(self.position) > capacity {
            let newest = self.map.published().load(Ordering::Acquire);
            return Err(self.skip_to(newest));
        }
        self.shown = self.position.wrapping_add((words * ALIGN) as u64);
        let copied = &self.copy[..words];
        // SAFETY: `copied` as bytes: initialised, no alignment needed, borrowed from `self` for as long.
        Ok(unsafe { slice::from_raw_parts(copied.as_ptr().cast(), size_of_val(copied)) })
    }

    #[cold]
    fn skip_to(&mut self, newest: u64) -> Overrun {
        let skipped = newest.wrapping_sub(self.position);
        self.position = newest & !(ALIGN as u64 - 1);
        self.shown = self.position;
        self.map.position_of(self.entry).store(self.position, Ordering::Release);
        Overrun { skipped }
    }

    /// The first `len` bytes of the last [`peek`](Self::peek) are not needed any more.
    ///
    /// # Panics
    /// When there were not so many, or it is no multiple of [`ALIGN`].
    #[inline]
    pub fn release(&mut self, len: usize) {
        assert!(
            len as u64 <= self.shown.wrapping_sub(self.position) && len.is_multiple_of(ALIGN),
            "released {len} bytes"
        );
        if len == 0 {
            return;
        }
        // A position from a writer gone mad may be anywhere.
        self.position = self.position.wrapping_add(len as u64);
        if self.header.pacing == Pacing::Source {
            self.map.position_of(self.entry).store(self.position, Ordering::Relaxed);
            return;
        }
        // SYNC: releases our reads to the writer, which then overwrites; and comes before the look whether the writer waits, see
        // `Writer::arm`.
        self.map.position_of(self.entry).swap(self.position, Ordering::SeqCst);
        total_order();
        if self.map.waiting().load(Ordering::SeqCst) != 0 {
            self.wake_writer();
        }
    }

    #[cold]
    fn wake_writer(&self) {
        if self.map.waiting().swap(0, Ordering::SeqCst) != 0
            && let Some(bell) = &self.writer_bell
        {
            bell.ring();
        }
    }

    /// Asks to be woken when something is published. `false`: there is something already, or the writer has left. Then wait until the
    /// descriptor ([`AsFd`]) is readable, and [`peek`](Self::peek).
    pub fn arm(&mut self) -> bool {
        self.armed = true;
        self.map.sleeps(self.entry).swap(1, Ordering::SeqCst);
        // SYNC: before the last look at what is published; see `Writer::publish`. The own flag comes first: a writer that takes
        // the common one finds it.
        self.map.sleepers().swap(1, Ordering::SeqCst);
        total_order();
        let news = self.map.published().load(Ordering::SeqCst) != self.position
            || self.map.closed().load(Ordering::SeqCst) != 0;
        if news {
            self.disarm();
        }
        !news
    }

    #[cold]
    fn disarm(&mut self) {
        self.armed = false;
        self.map.sleeps(self.entry).store(0, Ordering::Relaxed);
        self.bell.silence();
    }

    /// What has become of the writer: a system call, for when nothing came for a while. The death of a writer wakes nobody.
    pub fn writer(&self) -> WriterState {
        if self.map.closed().load(Ordering::Acquire) != 0 {
            WriterState::Ended
        } else if file::is_locked(&self.file, Owner::Writer) {
            WriterState::Alive
        } else {
            WriterState::Dead
        }
    }

    /// The writer's last sign of life, monotonic ns; 0 = it gives none.
    pub fn last_beat(&self) -> u64 {
        self.map.alive().load(Ordering::Relaxed)
    }
}

/// Locks the first entry that nobody has: an unused one, or a dead reader's.
fn take_entry(file: &File) -> std::io::Result<Option<usize>> {
    for entry in 0..READERS {
        if file::lock(file, Owner::Reader(entry))? {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

#[cfg(loom)]
impl Reader {
    /// Sleeps until something is published or the writer has left.
    pub(super) fn wait(&self) {
        self.bell.wait();
    }
}

#[cfg(not(loom))]
impl AsFd for Reader {
    /// Readable after [`Reader::arm`] when something is published or the writer has left.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.map.sleeps(self.entry).store(0, Ordering::Relaxed);
        // SYNC: as in `release`. The lock goes with the file, afterwards.
        self.map.position_of(self.entry).swap(UNUSED, Ordering::SeqCst);
        self.wake_writer();
    }
}
