//! The writer in a thread of its own, and the hand-over from the threads that serve.
//!
//! A serving thread puts messages into a chunk of memory that is its own, and gives the chunk away at the end of its turn. It takes no
//! lock, makes no system call and never waits: when what waits to be written is more than it may be, messages are counted and left out,
//! and the recording has a gap in their place.

use crate::bytes::{Input, put_counted};
use crate::error::{Damage, Error};
use crate::journal::{Journal, JournalConfig, JournalCounters};
use crate::record::{Clocks, Item, Kind};
use crate::store::{Folder, Store};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A chunk that is so full is given away before the turn ends.
const CHUNK: usize = 64 << 10;
/// Chunks that wait, of one serving thread.
const CHUNKS_MAX: usize = 1024;
/// How long the writer rests when there is nothing to do.
const REST: Duration = Duration::from_millis(2);
/// Records survive the process after so long or twice that ([`Journal::keep_up`]), and as long again if the disk is slow.
const SYNC: Duration = Duration::from_millis(40);
/// A wall clock that is farther from where the monotonic one has it is followed, nanoseconds.
const FOLLOW: u64 = 1_000;

/// Entries of a chunk.
const MESSAGE: u8 = 0;
const ITEM: u8 = 1;
const LOST: u8 = 2;

/// Both clocks of receipt, read together. The wall clock is told by the monotonic one as long as they go alike, so that their distance is
/// a number that changes seldom, which packs to nothing.
#[derive(Debug, Clone)]
pub struct Clock {
    zero: Instant,
    offset: u64,
}

impl Clock {
    /// A clock whose monotonic part begins at 0.
    pub fn start() -> Self {
        Self { zero: Instant::now(), offset: 0 }
    }

    /// The time. Good for all messages of one turn.
    pub fn now(&mut self) -> Clocks {
        let mono = u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX);
        if wall.abs_diff(mono.wrapping_add(self.offset)) > FOLLOW {
            self.offset = wall.wrapping_sub(mono);
        }
        Clocks { wall: mono.wrapping_add(self.offset), mono, source: None }
    }
}

/// How a recorder is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecorderConfig {
    /// How it is written.
    pub journal: JournalConfig,
    /// Bytes that may wait to be written, of each serving thread.
    pub queue_bytes: usize,
}

impl Default for RecorderConfig {
    fn default() -> Self {
        Self { journal: JournalConfig::default(), queue_bytes: 64 << 20 }
    }
}

/// How a recorder is doing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecorderStatus {
    /// Counters of what was written and lost, up to the last synchronisation.
    pub counters: JournalCounters,
    /// Failure of the disk, while it lasts.
    pub trouble: Option<String>,
    /// Bytes that wait to be written.
    pub waiting: usize,
}

#[derive(Debug, Default)]
struct Shared {
    status: Mutex<RecorderStatus>,
    ends: AtomicBool,
}

/// An item that a [`Handover`] has made known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemId(u32);

/// The serving thread's end.
#[derive(Debug)]
pub struct Handover {
    chunk: Vec<u8>,
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    limit: usize,
    items: u32,
    lost: (u64, u64),
}

impl Handover {
    /// Makes an item known. Once for each: the recorder remembers it.
    pub fn item(&mut self, item: &Item) -> ItemId {
        self.chunk.push(ITEM);
        self.chunk.push(item.domain);
        put_counted(&mut self.chunk, item.service.as_bytes());
        put_counted(&mut self.chunk, item.name.as_bytes());
        self.items += 1;
        ItemId(self.items - 1)
    }

    /// Hands a message over; false if there was no room, and it is counted as lost.
    #[inline]
    pub fn message(&mut self, kind: Kind, item: Option<ItemId>, clocks: Clocks, body: &[u8]) -> bool {
        /// Bytes of an entry besides its message.
        const HEAD: usize = 64;
        let waiting = self.waiting.load(Ordering::Relaxed) + self.chunk.len();
        if waiting + body.len() + HEAD > self.limit {
            self.lost.0 += 1;
            self.lost.1 += body.len() as u64;
            return false;
        }
        if self.lost.0 > 0 {
            self.tell_lost(clocks);
        }
        self.chunk.push(MESSAGE);
        self.chunk.push(kind as u8);
        self.chunk.extend_from_slice(&item.map_or(u32::MAX, |item| item.0).to_le_bytes());
        put_clocks(&mut self.chunk, clocks);
        put_counted(&mut self.chunk, body);
        if self.chunk.len() >= CHUNK {
            self.flush();
        }
        true
    }

    fn tell_lost(&mut self, clocks: Clocks) {
        let (messages, bytes) = std::mem::take(&mut self.lost);
        self.chunk.push(LOST);
        self.chunk.extend_from_slice(&messages.to_le_bytes());
        self.chunk.extend_from_slice(&bytes.to_le_bytes());
        put_clocks(&mut self.chunk, clocks);
    }

    /// Whether the journal follows: less waits than half of what may.
    pub fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) + self.chunk.len() < self.limit / 2
    }

    /// Gives away what was handed over since the last call. To be called at the end of each turn.
    #[inline]
    pub fn flush(&mut self) {
        if self.chunk.is_empty() {
            return;
        }
        let next = self.empty.try_recv().unwrap_or_default();
        let chunk = std::mem::replace(&mut self.chunk, next);
        self.waiting.fetch_add(chunk.len(), Ordering::Relaxed);
        match self.full.try_send(chunk) {
            Ok(()) => {}
            // The chunk grows on, and goes next time.
            Err(TrySendError::Full(chunk) | TrySendError::Disconnected(chunk)) => {
                self.waiting.fetch_sub(chunk.len(), Ordering::Relaxed);
                self.chunk = chunk;
            }
        }
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        // The end may wait.
        if !self.chunk.is_empty() {
            self.waiting.fetch_add(self.chunk.len(), Ordering::Relaxed);
            let _ = self.full.send(std::mem::take(&mut self.chunk));
        }
    }
}

fn put_clocks(out: &mut Vec<u8>, clocks: Clocks) {
    out.extend_from_slice(&clocks.wall.to_le_bytes());
    out.extend_from_slice(&clocks.mono.to_le_bytes());
    out.push(u8::from(clocks.source.is_some()));
    out.extend_from_slice(&clocks.source.unwrap_or(0).to_le_bytes());
}

fn read_clocks(input: &mut Input<'_>) -> Option<Clocks> {
    let (wall, mono, has_source, source) = (input.u64()?, input.u64()?, input.u8()?, input.u64()?);
    Some(Clocks { wall, mono, source: (has_source != 0).then_some(source) })
}

/// The writer's end of a [`Handover`].
#[derive(Debug)]
struct Source {
    full: Receiver<Vec<u8>>,
    empty: SyncSender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    /// Numbers in the journal of the items that were made known.
    items: Vec<u32>,
}

/// A recording that is written by a thread.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
    sources: Sender<Source>,
    queue_bytes: usize,
    thread: Option<JoinHandle<Result<JournalCounters, Error>>>,
}

impl Recorder {
    /// Goes on with the recording in a folder, or begins one. Tells what was found damaged in it.
    ///
    /// # Errors
    /// The folder cannot be written, another process has it, or its newest segment is of another version.
    pub fn start(folder: &Path, config: RecorderConfig) -> Result<(Self, Vec<Damage>), Error> {
        Self::start_on(Folder::to_write(folder)?, config)
    }

    /// As [`Recorder::start`], with files anywhere.
    ///
    /// # Errors
    /// The files cannot be read or written.
    pub fn start_on<S: Store + Send + 'static>(store: S, config: RecorderConfig) -> Result<(Self, Vec<Damage>), Error> {
        let mut damage = Vec::new();
        let name = store.name();
        let journal = Journal::open(store, config.journal, &mut damage)?;
        let shared = Arc::new(Shared::default());
        let (sources, new_sources) = channel();
        let writer =
            Writer { journal, new_sources, sources: Vec::new(), known: HashMap::new(), shared: shared.clone() };
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(move || writer.run());
        let thread = Some(thread.map_err(Error::store(&name, "starting the writing thread"))?);
        Ok((Self { shared, sources, queue_bytes: config.queue_bytes, thread }, damage))
    }

    /// A way in for one serving thread.
    pub fn handover(&self) -> Handover {
        let (full, receive_full) = sync_channel(CHUNKS_MAX);
        let (send_empty, empty) = sync_channel(CHUNKS_MAX);
        let waiting = Arc::new(AtomicUsize::new(0));
        let source = Source { full: receive_full, empty: send_empty, waiting: waiting.clone(), items: Vec::new() };
        // If the writer is gone, what is handed over waits until there is no room, and is counted.
        let _ = self.sources.send(source);
        Handover {
            chunk: Vec::with_capacity(CHUNK),
            full,
            empty,
            waiting,
            limit: self.queue_bytes,
            items: 0,
            lost: (0, 0),
        }
    }

    /// How it is doing.
    pub fn status(&self) -> RecorderStatus {
        self.shared.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes what was handed over and ends the recording. Hand-overs are to be dropped before.
    ///
    /// # Errors
    /// A part could not be written.
    pub fn finish(mut self) -> Result<JournalCounters, Error> {
        self.shared.ends.store(true, Ordering::Release);
        let gone = || Error::store("recorder", "writing")(std::io::Error::other("the writing thread has panicked"));
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            _ => Err(gone()),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // Errors are told by `finish`.
            let _ = thread.join();
        }
    }
}

struct Writer<S> {
    journal: Journal<S>,
    new_sources: Receiver<Source>,
    sources: Vec<Source>,
    known: HashMap<Item, u32>,
    shared: Arc<Shared>,
}

impl<S: Store> Writer<S> {
    fn run(mut self) -> Result<JournalCounters, Error> {
        let mut clock = Clock::start();
        let mut synced = Instant::now();
        loop {
            // Asked before the queues: what was handed over before the end is written.
            let ends = self.shared.ends.load(Ordering::Acquire);
            let did_something = self.turn();
            if synced.elapsed() >= SYNC {
                self.journal.keep_up(clock.now());
                synced = Instant::now();
                self.tell();
            }
            if !did_something {
                if ends {
                    return self.journal.close();
                }
                std::thread::sleep(REST);
            }
        }
    }

    /// Takes one chunk of each serving thread; false if there was none.
    fn turn(&mut self) -> bool {
        self.sources.extend(self.new_sources.try_iter());
        let mut did_something = false;
        let mut at = 0;
        while at < self.sources.len() {
            match self.sources[at].full.try_recv() {
                Ok(mut chunk) => {
                    did_something = true;
                    self.take(at, &chunk);
                    self.sources[at].waiting.fetch_sub(chunk.len(), Ordering::Relaxed);
                    chunk.clear();
                    let _ = self.sources[at].empty.try_send(chunk);
                    at += 1;
                }
                Err(TryRecvError::Empty) => at += 1,
                Err(TryRecvError::Disconnected) => _ = self.sources.swap_remove(at),
            }
        }
        did_something
    }

    /// Records what is in a chunk.
    fn take(&mut self, source: usize, chunk: &[u8]) {
        let mut input = Input::new(chunk);
        while !input.is_empty() {
            if self.take_entry(source, &mut input).is_none() {
                debug_assert!(false, "a chunk is what a hand-over has written");
                return;
            }
        }
    }

    fn take_entry(&mut self, source: usize, input: &mut Input<'_>) -> Option<()> {
        match input.u8()? {
            ITEM => {
                let domain = input.u8()?;
                let (service, name) = (input.counted()?, input.counted()?);
                let text = |bytes| Some(std::str::from_utf8(bytes).ok()?.into());
                let item = Item { service: text(service)?, domain, name: text(name)? };
                let journal = &mut self.journal;
                let id = *self.known.entry(item).or_insert_with_key(|item| journal.item(item.clone()));
                self.sources[source].items.push(id);
            }
            LOST => {
                let (messages, bytes) = (input.u64()?, input.u64()?);
                self.journal.overflow(messages, bytes, read_clocks(input)?);
            }
            _ => {
                let kind = Kind::of(input.u8()?)?;
                let item = self.sources[source].items.get(input.u32()? as usize).copied();
                let clocks = read_clocks(input)?;
                self.journal.append(kind, item, clocks, input.counted()?);
            }
        }
        Some(())
    }

    fn tell(&self) {
        let waiting = self.sources.iter().map(|source| source.waiting.load(Ordering::Relaxed)).sum();
        let trouble = self.journal.trouble().map(str::to_owned);
        let status = RecorderStatus { counters: self.journal.counters(), trouble, waiting };
        *self.shared.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}
