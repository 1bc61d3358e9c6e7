//! The mapping, and the words in it that both sides read and write.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{CAPACITY_MAX, CAPACITY_MIN, IDENTITY, Pacing, READERS};

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"QWSHMLOG");
pub(super) const VERSION: u32 = 1;

const IDENTITY_AT: usize = 64;
const CLAIMED_AT: usize = 128;
const PUBLISHED_AT: usize = 256;
const ALIVE_AT: usize = 384;
const SLEEPERS_AT: usize = 512;
const CLOSED_AT: usize = 640;
const WAITING_AT: usize = 768;
pub(super) const READERS_AT: usize = 4096;
pub(super) const READER_SIZE: usize = 128;
const SLEEPS_AT: usize = 16;
pub(super) const RING_AT: usize = READERS_AT + READERS * READER_SIZE;
/// A reader's position while the entry is unused.
pub(super) const UNUSED: u64 = u64::MAX;

/// What the first bytes say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) capacity: usize,
    pub(super) pacing: Pacing,
    pub(super) identity: [u8; IDENTITY],
}

impl Header {
    fn encode(&self) -> [u8; IDENTITY_AT + IDENTITY] {
        let mut bytes = [0; IDENTITY_AT + IDENTITY];
        bytes[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        bytes[8..12].copy_from_slice(&VERSION.to_ne_bytes());
        bytes[12..16].copy_from_slice(&u32::from(self.pacing == Pacing::Receiver).to_ne_bytes());
        bytes[16..24].copy_from_slice(&(self.capacity as u64).to_ne_bytes());
        bytes[IDENTITY_AT..].copy_from_slice(&self.identity);
        bytes
    }

    fn decode(bytes: &[u8; IDENTITY_AT + IDENTITY]) -> Result<Self, &'static str> {
        let u32_at = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        if u64_at(0) != MAGIC {
            return Err("it does not begin as a segment does");
        }
        if u32_at(8) != VERSION {
            return Err("it is of another version");
        }
        let pacing = match u32_at(12) {
            0 => Pacing::Source,
            1 => Pacing::Receiver,
            _ => return Err("its pacing is unknown"),
        };
        let capacity = usize::try_from(u64_at(16)).unwrap_or(0);
        if !capacity.is_power_of_two() || !(CAPACITY_MIN..=CAPACITY_MAX).contains(&capacity) {
            return Err("its capacity is no power of two, or out of range");
        }
        Ok(Self { capacity, pacing, identity: std::array::from_fn(|i| bytes[IDENTITY_AT + i]) })
    }

    /// Reads and checks the header of a file and its length, without mapping it.
    pub(super) fn read(file: &File) -> Result<Self, &'static str> {
        let mut bytes = [0; IDENTITY_AT + IDENTITY];
        file.read_exact_at(&mut bytes, 0).map_err(|_| "it is too short")?;
        let header = Self::decode(&bytes)?;
        let length = file.metadata().map_or(0, |meta| meta.len());
        if length != (RING_AT + header.capacity) as u64 {
            return Err("its length is not what its capacity says");
        }
        Ok(header)
    }

    pub(super) fn write(&self, file: &File) -> io::Result<()> {
        file.write_all_at(&self.encode(), 0)
    }
}

/// Whether the file is a segment of this version.
pub(super) fn check_header(file: &File) -> Result<(), &'static str> {
    Header::read(file).map(drop)
}

/// A mapped segment: header and table once, the ring twice in a row.
pub(super) struct Map {
    base: NonNull<u8>,
    capacity: usize,
}

// SAFETY: the mapping belongs to this value alone and moves with it; what is shared with other processes is only touched by atomics,
// or in ranges that the log's positions give to one side at a time.
unsafe impl Send for Map {}

impl Map {
    /// Maps `file`, whose length was checked. `writes`: also the ring can be written.
    pub(super) fn new(file: &File, capacity: usize, writes: bool) -> io::Result<Self> {
        let whole = RING_AT + 2 * capacity;
        // SAFETY: an anonymous reservation wherever the kernel likes; nothing existing is touched.
        let base = unsafe {
            libc::mmap(ptr::null_mut(), whole, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        // From here on dropping it unmaps everything.
        let map = Self { base, capacity };
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let ring = if writes { both } else { libc::PROT_READ };
        map.place(file, 0, 0, RING_AT, both)?;
        map.place(file, RING_AT, RING_AT, capacity, ring)?;
        map.place(file, RING_AT + capacity, RING_AT, capacity, ring)?;
        Ok(map)
    }

    fn place(&self, file: &File, at: usize, offset: usize, len: usize, protection: c_int) -> io::Result<()> {
        let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE;
        // SAFETY: the range lies inside the reservation, which is ours, so MAP_FIXED replaces nothing of anybody else's. Page-aligned:
        // RING_AT and the capacity are multiples of 4096.
        let placed = unsafe {
            let to = self.base.as_ptr().add(at).cast();
            libc::mmap(to, len, protection, flags, file.as_raw_fd(), offset as libc::off_t)
        };
        if placed == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at + 8 <= RING_AT && at.is_multiple_of(8));
        // SAFETY: inside the header or the table, aligned, mapped for reading and writing as long as `self` lives, and only ever
        // accessed as an atomic.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    pub(super) fn claimed(&self) -> &AtomicU64 {
        self.word(CLAIMED_AT)
    }

    #[inline]
    pub(super) fn published(&self) -> &AtomicU64 {
        self.word(PUBLISHED_AT)
    }

    pub(super) fn alive(&self) -> &AtomicU64 {
        self.word(ALIVE_AT)
    }

    pub(super) fn sleepers(&self) -> &AtomicU64 {
        self.word(SLEEPERS_AT)
    }

    pub(super) fn closed(&self) -> &AtomicU64 {
        self.word(CLOSED_AT)
    }

    pub(super) fn waiting(&self) -> &AtomicU64 {
        self.word(WAITING_AT)
    }

    #[inline]
    pub(super) fn position_of(&self, entry: usize) -> &AtomicU64 {
        self.word(READERS_AT + entry * READER_SIZE)
    }

    pub(super) fn sleeps(&self, entry: usize) -> &AtomicU32 {
        let at = READERS_AT + entry * READER_SIZE + SLEEPS_AT;
        // SAFETY: as in `word`, four bytes.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    #[inline]
    fn start(&self, position: u64) -> *mut u8 {
        let at = RING_AT + (position & (self.capacity as u64 - 1)) as usize;
        // SAFETY: below RING_AT + capacity, so inside the mapping.
        unsafe { self.base.as_ptr().add(at) }
    }

    /// Asks the processor for the line of a position, to be written soon. A hint: nothing is read or written, and processors that do not know it
    /// pass over it. On other architectures nothing is asked for.
    #[inline]
    pub(super) fn fetch_to_write(&self, position: u64) {
        let line = self.start(position);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: an instruction that touches neither memory nor registers and faults at no address; every 64-bit processor has it, early
        // ones of Intel as one that does nothing.
        unsafe {
            std::arch::asm!("prefetchw [{0}]", in(reg) line, options(nostack, preserves_flags, readonly));
        }
        #[cfg(any(miri, not(target_arch = "x86_64")))]
        let _ = line;
    }

    /// The bytes from a position on. `len` is cut at the capacity.
    ///
    /// # Safety
    /// The writer does not write them while the slice lives.
    #[inline]
    pub(super) unsafe fn bytes(&self, position: u64, len: usize) -> &[u8] {
        // SAFETY: from below the first ring's end, at most one capacity: inside the two rings. Not written meanwhile: the caller.
        unsafe { slice::from_raw_parts(self.start(position), len.min(self.capacity)) }
    }

    /// As [`Map::bytes`], to write. Only for a map that was made with `writes`.
    ///
    /// # Safety
    /// Nobody else borrows them while the slice lives.
    #[inline]
    pub(super) unsafe fn bytes_mut(&mut self, position: u64, len: usize) -> &mut [u8] {
        // SAFETY: as in `bytes`; a slice of at most one capacity never meets its own second mapping. Nobody else: the caller.
        unsafe { slice::from_raw_parts_mut(self.start(position), len.min(self.capacity)) }
    }

    /// Copies words that the writer may be overwriting; what was copied is to be believed only after a check of `claimed`. `position`
    /// is a multiple of eight; no more than the capacity is copied.
    pub(super) fn copy(&self, position: u64, to: &mut [u64]) {
        #[expect(clippy::cast_ptr_alignment, reason = "the ring begins at a page, the position at a multiple of eight")]
        let start = self.start(position & !7).cast::<u64>();
        for (i, word) in to.iter_mut().enumerate().take(self.capacity / 8) {
            // SAFETY: inside the two rings and aligned: their beginning, the position and the steps are multiples of eight. The writer
            // stores plainly, but on the other side of a shared mapping; on this side every access is atomic.
            *word = unsafe { AtomicU64::from_ptr(start.add(i)) }.load(Ordering::Relaxed);
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the whole reservation, made in `new`; no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), RING_AT + 2 * self.capacity) };
    }
}

impl std::fmt::Debug for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Map").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}
