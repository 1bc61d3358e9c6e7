//! The log on disk: a recording (`docs/wire/recording.md`), written by a thread of its own.
//!
//! What has waited is written and synchronised together, so that the disk's slowness makes groups larger and not the store slower.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use lbm_store::store::{Entry, Log};
use net::Waker;
use record::{Clock, Folder, Item, Journal, JournalConfig, Kind, Recording};

/// Service under which a store's entries stand in its recording.
pub const LOG_SERVICE: &str = "lbmstore";
/// A domain that is none of RDM's: users' domains begin at 128.
const DOMAIN: u8 = 200;
/// Bytes of entries that wait for the disk at most.
const WAITING_MAX: usize = 64 << 20;
/// Chunks that wait at most, each of a turn.
const CHUNKS_MAX: usize = 4_096;
/// Segments of a store's log: small, since the next process reads all of them.
const SEGMENT_BYTES: u64 = 64 << 20;

struct Shared {
    /// All entries up to this one survive.
    done: AtomicU64,
    waiting: AtomicUsize,
    /// The disk has failed; what was lost by that has to be written anew.
    failed: AtomicBool,
}

struct Chunk {
    /// Entries, each behind its length.
    bytes: Vec<u8>,
    last: u64,
}

/// The store's end of the log.
pub struct DiskLog {
    chunk: Vec<u8>,
    next: u64,
    chunks: Option<SyncSender<Chunk>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), record::Error>>>,
}

impl std::fmt::Debug for DiskLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskLog").field("next", &self.next).finish_non_exhaustive()
    }
}

impl DiskLog {
    /// Reads the log of a folder: each entry, in order. Returns what was found damaged.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn read(folder: &Path, mut each: impl FnMut(&Entry<'_>)) -> Result<Vec<String>, record::Error> {
        let recording = match Recording::open(Folder::to_read(folder)) {
            Ok(recording) => recording,
            Err(record::Error::Empty { .. }) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut cursor = recording.from_sequence(0);
        while let Some(entry) = cursor.next()? {
            if let Some(entry) = Entry::decode(entry.record.body).filter(|_| entry.record.kind == Kind::Generic) {
                each(&entry);
            }
        }
        Ok(recording.damage().iter().map(ToString::to_string).collect())
    }

    /// Goes on with the log of a folder, or begins one. `waker` ends the wait of the store's turn when entries are safe.
    ///
    /// # Errors
    /// The folder cannot be written, or another process has it.
    pub fn open(folder: &Path, waker: Waker) -> Result<Self, record::Error> {
        let config = JournalConfig { segment_bytes: SEGMENT_BYTES, ..JournalConfig::default() };
        let journal = Journal::open(Folder::to_write(folder)?, config, &mut Vec::new())?;
        let shared =
            Arc::new(Shared { done: AtomicU64::new(0), waiting: AtomicUsize::new(0), failed: AtomicBool::new(false) });
        let (chunks, queue) = sync_channel(CHUNKS_MAX);
        let of_thread = shared.clone();
        let thread = std::thread::spawn(move || write(journal, &queue, &of_thread, &waker));
        Ok(Self { chunk: Vec::new(), next: 0, chunks: Some(chunks), shared, thread: Some(thread) })
    }

    /// The newest entry that survives.
    pub fn done(&self) -> u64 {
        self.shared.done.load(Ordering::Acquire)
    }

    /// Whether the disk has failed since the last call, and takes entries again: everything is to be written anew.
    pub fn take_failed(&self) -> bool {
        self.shared.failed.swap(false, Ordering::AcqRel)
    }

    /// Whether the disk follows.
    pub fn has_room(&self) -> bool {
        self.shared.waiting.load(Ordering::Relaxed) + self.chunk.len() < WAITING_MAX
    }

    /// Gives to the disk what was written. At the end of each turn.
    pub fn flush(&mut self) {
        if self.chunk.is_empty() {
            return;
        }
        let bytes = std::mem::take(&mut self.chunk);
        let Some(chunks) = &self.chunks else { return };
        self.shared.waiting.fetch_add(bytes.len(), Ordering::Relaxed);
        if let Err(TrySendError::Full(chunk) | TrySendError::Disconnected(chunk)) =
            chunks.try_send(Chunk { bytes, last: self.next })
        {
            self.shared.waiting.fetch_sub(chunk.bytes.len(), Ordering::Relaxed);
            self.chunk = chunk.bytes;
        }
    }
}

impl Log for DiskLog {
    fn write(&mut self, entry: &Entry<'_>) -> u64 {
        let at = self.chunk.len();
        self.chunk.extend_from_slice(&[0; 4]);
        entry.encode(&mut self.chunk);
        let length = (self.chunk.len() - at - 4) as u32;
        self.chunk[at..at + 4].copy_from_slice(&length.to_le_bytes());
        self.next += 1;
        self.next
    }
}

impl Drop for DiskLog {
    fn drop(&mut self) {
        self.flush();
        self.chunks = None;
        if let Some(thread) = self.thread.take() {
            // A failure was told by `take_failed`, and nothing that it concerns was called stable.
            let _ = thread.join();
        }
    }
}

fn write(
    mut journal: Journal<Folder>,
    queue: &Receiver<Chunk>,
    shared: &Shared,
    waker: &Waker,
) -> Result<(), record::Error> {
    let mut clock = Clock::start();
    let item = journal.item(Item { service: LOG_SERVICE.into(), domain: DOMAIN, name: "store".into() });
    let mut lost = 0;
    while let Ok(first) = queue.recv() {
        let mut last = 0;
        for chunk in std::iter::once(first).chain(queue.try_iter()) {
            let now = clock.now();
            let mut rest = chunk.bytes.as_slice();
            while let Some((length, behind)) = rest.split_first_chunk::<4>() {
                let (entry, behind) = behind.split_at(u32::from_le_bytes(*length) as usize);
                journal.append(Kind::Generic, Some(item), now, entry);
                rest = behind;
            }
            last = chunk.last;
            shared.waiting.fetch_sub(chunk.bytes.len(), Ordering::Relaxed);
        }
        journal.sync(clock.now());
        let counters = journal.counters();
        if journal.trouble().is_some() {
            continue;
        }
        if counters.lost.messages == lost {
            shared.done.store(last, Ordering::Release);
        } else {
            // What the disk did not take is missing between others: the store says all again.
            lost = counters.lost.messages;
            shared.failed.store(true, Ordering::Release);
        }
        waker.wake();
    }
    journal.close().map(drop)
}
