//! The log on disk: a recording (`docs/wire/recording.md`), written by a thread of its own.
//!
//! Entries that have waited are written and synchronised together, so that the disk's slowness makes groups larger and not the store slower.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use lbm_store::store::{Entry, Log, begin_group, each_entry, put_entry};
use net::Waker;
use record::{Clock, Folder, Item, Journal, JournalConfig, Kind, Recording, Store as _};

/// Service under which a store's entries stand in its recording.
pub const LOG_SERVICE: &str = "lbmstore";
/// Domain of the entries: none of RDM's, since those of users begin at 128.
pub const LOG_DOMAIN: u8 = 200;
/// Bytes of entries that wait for the disk at most, before the store takes no more messages.
const WAITING_MAX: usize = 64 << 20;
/// Chunks that wait at most, each of a turn.
const CHUNKS_MAX: usize = 4_096;
/// Bytes of entries in one record of the log, at least where there are so many: a record costs as much as copying a message.
const GROUP_BYTES: usize = 128 << 10;
/// Bytes that wait are written as a block, and not to the tail and then once more, if they are so many.
const BLOCK_BYTES_MIN: usize = 64 << 10;
/// Memory of chunks that is kept for others: so many, of no more than this many bytes each.
const SPARE_CHUNKS: usize = 8;
const SPARE_BYTES_MAX: usize = 4 << 20;
/// Segments of a store's log: so many make what it is at least before it is written anew, of no more than this many bytes.
const SEGMENTS: u64 = 8;
const SEGMENT_BYTES: u64 = 64 << 20;
/// The log is written anew when it is so many times what is held.
const TIMES_HELD: u64 = 3;
/// A disk that takes nothing is tried again after so long.
const RETRY: Duration = Duration::from_secs(1);

struct Shared {
    /// All entries up to this one survive.
    done: AtomicU64,
    waiting: AtomicUsize,
    /// The disk has lost entries: all is to be written anew.
    spoiled: AtomicBool,
    /// Bytes of the log since all was written.
    length: AtomicU64,
}

/// Entries of one or several turns.
struct Chunk {
    /// Records of several entries, each behind its length as u32, little-endian.
    bytes: Vec<u8>,
    /// Ticket of the last.
    last: u64,
    /// All that is held is in it: what the disk has lost before does not matter any more.
    is_whole: bool,
}

/// The store's end of the log.
pub struct DiskLog {
    chunk: Vec<u8>,
    /// Where the record begins that entries are added to, behind its length.
    record_at: Option<usize>,
    /// Memory of chunks that were written.
    spare: Receiver<Vec<u8>>,
    is_whole: bool,
    next: u64,
    chunks: Option<SyncSender<Chunk>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), record::Error>>>,
    /// Below so many bytes the log is not written anew.
    length_min: u64,
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
        let (mut cursor, mut unread) = (recording.from_sequence(0), 0);
        while let Some(entry) = cursor.next()? {
            if entry.record.kind == Kind::Generic && !each_entry(entry.record.body, &mut each) {
                unread += 1;
            }
        }
        let mut damage: Vec<String> = recording.damage().iter().map(ToString::to_string).collect();
        if unread > 0 {
            damage.push(format!(
                "{unread} records are none of a store, or of a newer version: what they say is not known"
            ));
        }
        Ok(damage)
    }

    /// Goes on with the log of a folder, or begins one. `waker` ends the wait of the store's turn when entries are safe; the log is written
    /// anew when it is longer than `length_min` bytes and three times what is held. Returns with it what was found damaged at the log's end,
    /// where a process that was killed has left it.
    ///
    /// # Errors
    /// The folder cannot be written, or another process has it.
    pub fn open(folder: &Path, length_min: u64, waker: Waker) -> Result<(Self, Vec<String>), record::Error> {
        let segment_bytes = (length_min / SEGMENTS).clamp(1, SEGMENT_BYTES);
        let defaults = JournalConfig::default();
        // What waits for its block is beside the segment: no more than that.
        let block_bytes = defaults.block_bytes.min(segment_bytes as usize);
        let unpacked_bytes = Some(BLOCK_BYTES_MIN.min(block_bytes));
        let config = JournalConfig { segment_bytes, block_bytes, unpacked_bytes, ..defaults };
        let mut damage = Vec::new();
        let journal = Journal::open(Folder::to_write(folder)?, config, &mut damage)?;
        let name = folder.display().to_string();
        let system = |doing| {
            let name = name.clone();
            move |source| record::Error::Store { name, doing, source }
        };
        let files = journal.store().files().map_err(system("listing the folder"))?;
        let shared = Arc::new(Shared {
            done: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            spoiled: AtomicBool::new(false),
            length: AtomicU64::new(files.values().sum()),
        });
        let (chunks, queue) = sync_channel(CHUNKS_MAX);
        let (give_back, spare) = sync_channel(SPARE_CHUNKS);
        let of_thread = shared.clone();
        let writer = move || Writer::new(journal, of_thread, give_back).run(&queue, &waker);
        let thread = std::thread::Builder::new().name("lbm-store-log".to_owned()).spawn(writer);
        let thread = thread.map_err(system("starting the writer"))?;
        let log = Self {
            chunk: Vec::new(),
            record_at: None,
            spare,
            is_whole: false,
            next: 0,
            chunks: Some(chunks),
            shared,
            thread: Some(thread),
            length_min,
        };
        Ok((log, damage.iter().map(ToString::to_string).collect()))
    }

    /// The newest entry that survives.
    pub fn done(&self) -> u64 {
        self.shared.done.load(Ordering::Acquire)
    }

    /// Whether the disk has lost entries since the last call, and takes others again: everything is to be written anew, between
    /// [`DiskLog::begin_anew`] and the next [`DiskLog::flush`].
    pub fn take_spoiled(&self) -> bool {
        self.shared.spoiled.swap(false, Ordering::AcqRel)
    }

    /// Whether the log has grown so long that all should be written anew, where so many bytes are held.
    pub fn is_long(&self, held: usize) -> bool {
        let length = self.shared.length.load(Ordering::Relaxed);
        length > self.length_min && length > TIMES_HELD.saturating_mul(held as u64) && !self.is_whole
    }

    /// What is written until the next flush is all that there is.
    pub fn begin_anew(&mut self) {
        self.chunk.clear();
        self.record_at = None;
        self.is_whole = true;
        self.shared.length.store(0, Ordering::Relaxed);
    }

    /// Gives to the disk what was written. At the end of each turn.
    pub fn flush(&mut self) {
        if self.chunk.is_empty() {
            return;
        }
        self.end_record();
        let spare = self.spare.try_recv().unwrap_or_default();
        let bytes = std::mem::replace(&mut self.chunk, spare);
        let is_whole = std::mem::take(&mut self.is_whole);
        let Some(chunks) = &self.chunks else { return };
        self.shared.waiting.fetch_add(bytes.len(), Ordering::Relaxed);
        if let Err(TrySendError::Full(chunk) | TrySendError::Disconnected(chunk)) =
            chunks.try_send(Chunk { bytes, last: self.next, is_whole })
        {
            // The next turn gives it with its own.
            self.shared.waiting.fetch_sub(chunk.bytes.len(), Ordering::Relaxed);
            (self.chunk, self.is_whole) = (chunk.bytes, chunk.is_whole);
        }
    }
}

impl DiskLog {
    /// Everything that is written from now on is of another record.
    fn begin_record(&mut self) {
        self.end_record();
        self.chunk.extend_from_slice(&[0; 4]);
        self.record_at = Some(self.chunk.len());
        begin_group(&mut self.chunk);
    }

    fn end_record(&mut self) {
        let Some(at) = self.record_at.take() else { return };
        let length = (self.chunk.len() - at) as u32;
        self.chunk[at - 4..at].copy_from_slice(&length.to_le_bytes());
    }
}

impl Log for DiskLog {
    #[inline]
    fn write(&mut self, entry: &Entry<'_>) -> u64 {
        if self.record_at.is_none_or(|at| self.chunk.len() - at >= GROUP_BYTES) {
            self.begin_record();
        }
        put_entry(entry, &mut self.chunk);
        self.next += 1;
        self.next
    }

    /// Whether the disk follows.
    fn has_room(&self) -> bool {
        self.shared.waiting.load(Ordering::Relaxed) + self.chunk.len() < WAITING_MAX
    }
}

impl Drop for DiskLog {
    fn drop(&mut self) {
        self.flush();
        self.chunks = None;
        if let Some(thread) = self.thread.take() {
            // A failure of the disk was told by `take_spoiled`, and nothing that it concerns was called stable.
            let _ = thread.join();
        }
    }
}

/// The writer's thread.
struct Writer {
    journal: Journal<Folder>,
    item: u32,
    clock: Clock,
    shared: Arc<Shared>,
    /// Messages that the journal had lost when it was last looked at.
    lost: u64,
    /// Entries are missing, so that nothing is called safe until all is written anew.
    is_spoiled: bool,
    /// Where all was written last, until what is before it is removed.
    whole_from: Option<u64>,
    /// Takes the memory of chunks back.
    give_back: SyncSender<Vec<u8>>,
}

impl Writer {
    fn new(mut journal: Journal<Folder>, shared: Arc<Shared>, give_back: SyncSender<Vec<u8>>) -> Self {
        let item = journal.item(Item { service: LOG_SERVICE.into(), domain: LOG_DOMAIN, name: "store".into() });
        Self { journal, item, clock: Clock::start(), shared, lost: 0, is_spoiled: false, whole_from: None, give_back }
    }

    fn run(mut self, queue: &Receiver<Chunk>, waker: &Waker) -> Result<(), record::Error> {
        let mut last = 0;
        loop {
            // A disk that has failed is tried again though nothing new comes.
            let first = if self.journal.trouble().is_some() {
                match queue.recv_timeout(RETRY) {
                    Ok(chunk) => Some(chunk),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            } else {
                match queue.recv() {
                    Ok(chunk) => Some(chunk),
                    Err(_) => break,
                }
            };
            for chunk in first.into_iter().chain(queue.try_iter()) {
                last = chunk.last;
                self.append(chunk);
            }
            self.settle(last);
            waker.wake();
        }
        self.journal.close().map(drop)
    }

    fn append(&mut self, mut chunk: Chunk) {
        if chunk.is_whole {
            self.look_for_loss();
            self.is_spoiled = false;
            self.whole_from = Some(self.journal.next_sequence());
        }
        let now = self.clock.now();
        let mut rest = chunk.bytes.as_slice();
        while let Some((length, behind)) = rest.split_first_chunk::<4>() {
            let Some((record, behind)) = behind.split_at_checked(u32::from_le_bytes(*length) as usize) else { break };
            self.journal.append(Kind::Generic, Some(self.item), now, record);
            rest = behind;
        }
        self.shared.waiting.fetch_sub(chunk.bytes.len(), Ordering::Relaxed);
        self.shared.length.fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed);
        if chunk.bytes.capacity() <= SPARE_BYTES_MAX {
            chunk.bytes.clear();
            // More than are kept are let go of.
            let _ = self.give_back.try_send(chunk.bytes);
        }
    }

    fn look_for_loss(&mut self) {
        let lost = self.journal.counters().lost.messages;
        self.is_spoiled |= std::mem::replace(&mut self.lost, lost) != lost;
    }

    /// Makes what was appended survive, and says so.
    fn settle(&mut self, last: u64) {
        self.journal.sync(self.clock.now());
        if self.journal.trouble().is_some() {
            return;
        }
        let was_spoiled = self.is_spoiled;
        self.look_for_loss();
        if !self.is_spoiled {
            self.shared.done.store(last, Ordering::Release);
            if let Some(sequence) = self.whole_from.take() {
                self.journal.forget_before(sequence);
            }
        } else if !was_spoiled {
            self.shared.spoiled.store(true, Ordering::Release);
        }
    }
}
