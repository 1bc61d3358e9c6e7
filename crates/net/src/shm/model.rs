//! What the log is made of in loom's world: words and a ring that loom watches, locks and bells without files.
//!
//! Segments are found by their paths, in a table that all executions of a model share: each makes its segment anew.

/// In the place of files, their locks and FIFOs.
pub(in crate::shm) mod file {
    use std::collections::{BTreeMap, HashSet};
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, Mutex, PoisonError};

    use loom::sync::Notify;
    use loom::sync::atomic::{AtomicBool, Ordering};

    use super::map::Segment;
    use crate::shm::{READERS, ShmError};

    static SEGMENTS: Mutex<BTreeMap<PathBuf, Arc<Segment>>> = Mutex::new(BTreeMap::new());

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub(in crate::shm) enum Owner {
        Writer,
        Reader(usize),
    }

    /// An open segment, with the locks that it holds.
    #[derive(Debug)]
    pub(in crate::shm) struct File {
        pub(super) segment: Arc<Segment>,
        held: Mutex<Vec<Owner>>,
    }

    impl File {
        fn new(segment: Arc<Segment>) -> Self {
            Self { segment, held: Mutex::default() }
        }

        fn locks(&self) -> std::sync::MutexGuard<'_, HashSet<Owner>> {
            self.segment.locks.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
            let mut locks = self.locks();
            for owner in held {
                locks.remove(&owner);
            }
        }
    }

    fn segments() -> std::sync::MutexGuard<'static, BTreeMap<PathBuf, Arc<Segment>>> {
        SEGMENTS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::shm) fn create(path: &Path, bytes: usize) -> Result<(File, PathBuf), ShmError> {
        let segment = Arc::new(Segment::new(bytes - super::map::RING_AT));
        segments().insert(path.into(), Arc::clone(&segment));
        let file = File::new(segment);
        assert!(lock(&file, Owner::Writer).is_ok_and(|locked| locked));
        Ok((file, path.into()))
    }

    pub(in crate::shm) fn publish(_hidden: &Path, _path: &Path) -> Result<(), ShmError> {
        Ok(())
    }

    pub(in crate::shm) fn open(path: &Path) -> Result<File, ShmError> {
        let segment = segments().get(path).cloned();
        segment.map(File::new).ok_or_else(|| ShmError::Dead(path.into()))
    }

    pub(in crate::shm) fn remove(path: &Path) {
        segments().remove(path);
    }

    pub(in crate::shm) fn lock(file: &File, owner: Owner) -> io::Result<bool> {
        let mine = file.locks().insert(owner);
        if mine {
            file.held.lock().unwrap_or_else(PoisonError::into_inner).push(owner);
        }
        Ok(mine)
    }

    pub(in crate::shm) fn unlock(file: &File, owner: Owner) {
        file.held.lock().unwrap_or_else(PoisonError::into_inner).retain(|&held| held != owner);
        file.locks().remove(&owner);
    }

    pub(in crate::shm) fn is_locked(file: &File, owner: Owner) -> bool {
        file.locks().contains(&owner)
    }

    /// A FIFO: readable from a ring to the next silence.
    #[derive(Debug)]
    pub(super) struct Fifo {
        is_readable: AtomicBool,
        notify: Notify,
    }

    impl Fifo {
        pub(super) fn new() -> Self {
            Self { is_readable: AtomicBool::new(false), notify: Notify::new() }
        }
    }

    pub(in crate::shm) struct Bell(Arc<Segment>, usize);

    impl std::fmt::Debug for Bell {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "Bell({})", self.1)
        }
    }

    impl Bell {
        pub(in crate::shm) fn open(path: &Path, owner: Owner) -> io::Result<Self> {
            let segment = segments().get(path).cloned().ok_or(io::ErrorKind::NotFound)?;
            let at = match owner {
                Owner::Writer => READERS,
                Owner::Reader(entry) => entry,
            };
            Ok(Self(segment, at))
        }

        fn fifo(&self) -> &Fifo {
            &self.0.bells[self.1]
        }

        pub(in crate::shm) fn ring(&self) {
            // A swap, as every change of it: see `Flag`.
            self.fifo().is_readable.swap(true, Ordering::AcqRel);
            self.fifo().notify.notify();
        }

        pub(in crate::shm) fn silence(&self) {
            self.fifo().is_readable.swap(false, Ordering::AcqRel);
        }

        /// Sleeps until it is readable. A sleep that nobody ends is a deadlock, which loom reports.
        pub(in crate::shm) fn wait(&self) {
            while !self.fifo().is_readable.load(Ordering::Acquire) {
                self.fifo().notify.wait();
            }
        }
    }
}

/// In the place of the mapping.
pub(in crate::shm) mod map {
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::io;
    use std::sync::{Arc, Mutex, PoisonError};

    use loom::cell::UnsafeCell;
    use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    use super::file::{Fifo, File, Owner};
    use crate::shm::{IDENTITY, Pacing, READERS};

    pub(in crate::shm) const RING_AT: usize = 4_096;
    pub(in crate::shm) const UNUSED: u64 = u64::MAX;

    #[derive(Clone, Copy, Debug)]
    pub(in crate::shm) struct Header {
        pub(in crate::shm) capacity: usize,
        pub(in crate::shm) pacing: Pacing,
        pub(in crate::shm) identity: [u8; IDENTITY],
    }

    impl Header {
        pub(in crate::shm) fn read(file: &File) -> Result<Self, &'static str> {
            let header = file.segment.header.lock().unwrap_or_else(PoisonError::into_inner);
            header.ok_or("it does not begin as a segment does")
        }

        #[expect(clippy::unnecessary_wraps, reason = "a file may be full")]
        pub(in crate::shm) fn write(&self, file: &File) -> io::Result<()> {
            *file.segment.header.lock().unwrap_or_else(PoisonError::into_inner) = Some(*self);
            Ok(())
        }
    }

    /// What all who map it share.
    pub(super) struct Segment {
        header: Mutex<Option<Header>>,
        pub(super) locks: Mutex<HashSet<Owner>>,
        pub(super) bells: Vec<Fifo>,
        /// Claimed, published, alive, sleepers, closed.
        words: [AtomicU64; 5],
        waiting: Flag,
        positions: Vec<AtomicU64>,
        sleeps: Vec<Flag>,
        ring: Vec<Word>,
    }

    /// A flag that one side clears and the other takes. Loom does not hold that nothing comes between what a swap has read and what it
    /// has written: beside a plain store of the one side, a load could see what the other one's swap left there long ago, also when it
    /// has to see what came later (a wake-up that cannot be lost is lost). Swaps alone have an order, so stores are swaps here.
    #[derive(Debug)]
    pub(in crate::shm) struct Flag(AtomicU32);

    impl Flag {
        pub(in crate::shm) fn load(&self, order: Ordering) -> u32 {
            self.0.load(order)
        }

        pub(in crate::shm) fn swap(&self, value: u32, order: Ordering) -> u32 {
            self.0.swap(value, order)
        }

        pub(in crate::shm) fn store(&self, value: u32, order: Ordering) {
            self.0.swap(value, order);
        }
    }

    /// A word of the ring. With receiver pacing sides give it to each other, and loom says when two have it; with source pacing the
    /// writer overwrites what readers copy, which only atomics may.
    struct Word {
        given: UnsafeCell<u64>,
        overwritten: AtomicU64,
    }

    // SAFETY: the cells are watched by loom, which fails the test when two threads have one of which one writes.
    unsafe impl Sync for Segment {}
    // SAFETY: as above.
    unsafe impl Send for Segment {}

    impl std::fmt::Debug for Segment {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Segment").finish_non_exhaustive()
        }
    }

    impl Segment {
        pub(super) fn new(capacity: usize) -> Self {
            let word = || Word { given: UnsafeCell::new(0), overwritten: AtomicU64::new(0) };
            Self {
                header: Mutex::default(),
                locks: Mutex::default(),
                bells: (0..=READERS).map(|_| Fifo::new()).collect(),
                words: std::array::from_fn(|_| AtomicU64::new(0)),
                positions: (0..READERS).map(|_| AtomicU64::new(0)).collect(),
                waiting: Flag(AtomicU32::new(0)),
                sleeps: (0..READERS).map(|_| Flag(AtomicU32::new(0))).collect(),
                ring: (0..capacity / 8).map(|_| word()).collect(),
            }
        }
    }

    pub(in crate::shm) struct Map {
        segment: Arc<Segment>,
        capacity: usize,
        is_paced_by_source: bool,
        /// What is being written, and from where on: it reaches the ring when it is published.
        room: RefCell<(u64, Vec<u8>)>,
        /// What was lent: slices of it live as long as the map.
        lent: RefCell<Vec<Box<[u8]>>>,
    }

    impl std::fmt::Debug for Map {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Map").finish_non_exhaustive()
        }
    }

    impl Map {
        pub(in crate::shm) fn new(file: &File, capacity: usize, _writes: bool) -> io::Result<Self> {
            let header = Header::read(file).map_err(io::Error::other)?;
            Ok(Self {
                segment: Arc::clone(&file.segment),
                capacity,
                is_paced_by_source: header.pacing == Pacing::Source,
                room: RefCell::default(),
                lent: RefCell::default(),
            })
        }

        fn word_at(&self, position: u64) -> &Word {
            &self.segment.ring[(position as usize % self.capacity) / 8]
        }

        pub(in crate::shm) fn claimed(&self) -> &AtomicU64 {
            &self.segment.words[0]
        }

        /// Who has written and asks for it is about to publish: what was written comes first.
        pub(in crate::shm) fn published(&self) -> &AtomicU64 {
            let (position, bytes) = std::mem::take(&mut *self.room.borrow_mut());
            for (at, bytes) in bytes.chunks_exact(8).enumerate() {
                let value = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
                let word = self.word_at(position + 8 * at as u64);
                if self.is_paced_by_source {
                    word.overwritten.store(value, Ordering::Relaxed);
                } else {
                    // SAFETY: loom checks that nobody else has it now.
                    word.given.with_mut(|word| unsafe { *word = value });
                }
            }
            &self.segment.words[1]
        }

        pub(in crate::shm) fn alive(&self) -> &AtomicU64 {
            &self.segment.words[2]
        }

        pub(in crate::shm) fn sleepers(&self) -> &AtomicU64 {
            &self.segment.words[3]
        }

        pub(in crate::shm) fn closed(&self) -> &AtomicU64 {
            &self.segment.words[4]
        }

        pub(in crate::shm) fn waiting(&self) -> &Flag {
            &self.segment.waiting
        }

        pub(in crate::shm) fn position_of(&self, entry: usize) -> &AtomicU64 {
            &self.segment.positions[entry]
        }

        pub(in crate::shm) fn sleeps(&self, entry: usize) -> &Flag {
            &self.segment.sleeps[entry]
        }

        pub(in crate::shm) fn capacity(&self) -> usize {
            self.capacity
        }

        /// # Safety
        /// As of the real one; loom checks it.
        pub(in crate::shm) unsafe fn bytes(&self, position: u64, len: usize) -> &[u8] {
            let words = (0..len.min(self.capacity) / 8).map(|at| self.word_at(position + 8 * at as u64));
            // SAFETY: loom checks that nobody writes it now.
            let values = words.map(|word| word.given.with(|word| unsafe { *word }));
            let bytes: Box<[u8]> = values.flat_map(u64::to_ne_bytes).collect();
            let (start, len) = (bytes.as_ptr(), bytes.len());
            self.lent.borrow_mut().push(bytes);
            // SAFETY: boxes in `lent` are neither changed nor dropped before the map is.
            unsafe { std::slice::from_raw_parts(start, len) }
        }

        /// A hint has no part in the model.
        #[expect(clippy::unused_self, reason = "as the real one")]
        pub(in crate::shm) fn fetch_to_write(&self, _: u64) {}

        /// # Safety
        /// As of the real one; loom checks it.
        pub(in crate::shm) unsafe fn bytes_mut(&mut self, position: u64, len: usize) -> &mut [u8] {
            let room = self.room.get_mut();
            *room = (position, vec![0; len.min(self.capacity)]);
            &mut room.1
        }

        pub(in crate::shm) fn copy(&self, position: u64, to: &mut [u64]) {
            for (at, word) in to.iter_mut().enumerate() {
                *word = self.word_at(position + 8 * at as u64).overwritten.load(Ordering::Relaxed);
            }
        }
    }
}
