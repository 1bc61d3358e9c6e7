//! The persistent cache: images of non-interactive services in a file, written by a thread of its own.
//!
//! The state machine knows which records have changed. Every `persistent_interval_ms` the serving thread takes those that have, a batch in a
//! turn, and gives them to the thread that writes, by a queue of eight batches. When that is full, since the disk is slow or takes nothing, they
//! stay where they are: nothing is lost and nothing grows, a record that changes again meanwhile is written once, as it is then.

mod store;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use hub::distributor::{Record, RecordChange, Restore, Restored, SourceDistributor};

use store::{Batch, Store};

const MILLISECOND: u64 = 1_000_000;
/// Batches that wait to be written.
const QUEUE: usize = 8;
/// Records of a batch, and what is taken in a turn.
const BATCH: usize = 256;
/// Pause between two batches of a round: other turns come in between.
const BATCH_PAUSE_NS: u64 = MILLISECOND;
/// Pause after which a full queue is looked at again.
const AGAIN: u64 = 20 * MILLISECOND;
/// How long the thread waits before it tries again to write what the disk did not take.
const RETRY: Duration = Duration::from_secs(1);
/// How long a process that ends waits for the disk.
const LAST: Duration = Duration::from_secs(10);

hub::counters! {
/// Counters of the persistent cache.
pub struct Counters {
    /// Records written.
    pub records_written: u64,
    /// Records deleted: their items have ended.
    pub records_deleted: u64,
    /// Commits, each of which is on the disk.
    pub record_commits: u64,
    /// Commits that failed; what they were to write is tried again.
    pub record_failures: u64,
    /// Times that records had to wait, since the queue to the disk was full.
    pub record_waits: u64,
    /// Records that have changed and were not taken yet.
    pub records_changed: u64 as Gauge,
}
}

/// Counters of the thread that writes.
#[derive(Debug, Default)]
struct Done {
    written: AtomicU64,
    deleted: AtomicU64,
    commits: AtomicU64,
    failures: AtomicU64,
}

/// The serving thread's end.
pub struct RecordWriter {
    queue: SyncSender<Batch>,
    writer: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    done: Arc<Done>,
    /// A batch that found the queue full.
    pending: Option<Batch>,
    /// Records that this round has yet to take.
    left: usize,
    interval: u64,
    next: u64,
    waits: u64,
}

impl RecordWriter {
    /// Takes back what the file has, and begins to keep what changes; `None` if nothing is to be kept. A file that cannot be read is put aside, with a line of the log.
    ///
    /// # Errors
    /// The folder or the file cannot be opened, or is another process's; the message names it.
    pub fn start(config: &config::Config, now: u64, distributor: &mut SourceDistributor) -> io::Result<Option<Self>> {
        let c = &config.source_distributor;
        if !c.support_persistent_cache {
            return Ok(None);
        }
        let store = Store::open(Path::new(&c.persistent_cache_directory))?;
        let of_all = c.persistent_restore_as_stale;
        let of = |service: &str| config.services.get(service).and_then(|own| own.persistent_restore_as_stale);
        restore(&store, now, |service| of(service).unwrap_or(of_all), distributor);
        let (queue, batches) = sync_channel(QUEUE);
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(Done::default()));
        let (stopped, doing) = (Arc::clone(&stop), Arc::clone(&done));
        let writer =
            Builder::new().name("records".to_owned()).spawn(move || write(store, &batches, &stopped, &doing))?;
        let interval = u64::from(c.persistent_interval_ms) * MILLISECOND;
        let next = now + interval;
        Ok(Some(Self { queue, writer, stop, done, pending: None, left: 0, interval, next, waits: 0 }))
    }

    /// When [`Self::on_timer`] wants to be called.
    pub fn timeout(&self, distributor: &SourceDistributor) -> Option<u64> {
        (self.pending.is_some() || distributor.has_record_changes()).then_some(self.next)
    }

    /// Takes what has changed, if it is time for that.
    pub fn on_timer(&mut self, now: u64, distributor: &mut SourceDistributor) {
        if now < self.next {
            return;
        }
        if self.left == 0 {
            // Records that change while the round goes on are the next one's.
            self.left = distributor.record_changes();
        }
        let batch = self.pending.take().unwrap_or_else(|| {
            let most = self.left.min(BATCH);
            self.left -= most;
            take(distributor, most)
        });
        self.next = now + if self.left > 0 { BATCH_PAUSE_NS } else { self.interval };
        if batch.is_empty() {
            return;
        }
        if let Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) = self.queue.try_send(batch) {
            self.waits += 1;
            self.pending = Some(batch);
            self.next = now + AGAIN;
        }
    }

    /// The counters so far.
    pub fn counters(&self, distributor: &SourceDistributor) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            records_written: read(&self.done.written),
            records_deleted: read(&self.done.deleted),
            record_commits: read(&self.done.commits),
            record_failures: read(&self.done.failures),
            record_waits: self.waits,
            records_changed: distributor.record_changes() as u64,
        }
    }

    /// The process ends: all that has changed is written, as far as the disk takes it in time.
    pub fn finish(mut self, distributor: &mut SourceDistributor) {
        let end = Instant::now() + LAST;
        let mut next = self.pending.take();
        while next.is_some() || distributor.has_record_changes() {
            let batch = next.take().unwrap_or_else(|| take(distributor, BATCH));
            match self.queue.try_send(batch) {
                Ok(()) => {}
                Err(TrySendError::Full(batch)) if Instant::now() < end => {
                    next = Some(batch);
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(_) => {
                    tracing::error!(
                        "the process ends, and {} records have changed since they were written",
                        distributor.record_changes() + BATCH
                    );
                    break;
                }
            }
        }
        self.stop.store(true, Ordering::Release);
        drop(self.queue);
        if self.writer.join().is_err() {
            tracing::error!("the thread that writes the persistent cache has failed");
        }
    }
}

fn take(distributor: &mut SourceDistributor, most: usize) -> Batch {
    let (mut batch, wall) = (Batch::default(), net::clock::wall());
    distributor.take_record_changes(most, |change| match change {
        RecordChange::Image(Record { service, key, parts, age }) => {
            batch.put(service, key, parts, wall.saturating_sub(age));
        }
        RecordChange::Gone { service, key } => batch.delete(service, key),
    });
    batch
}

/// Gives what the store has to the state machine, the oldest first. What is over, or cannot be read, is deleted.
fn restore(store: &Store, now: u64, as_stale: impl Fn(&str) -> bool, distributor: &mut SourceDistributor) {
    let (begun, wall) = (Instant::now(), net::clock::wall());
    let (mut taken, mut stale, mut over, mut batch) = (0_u64, 0_u64, 0_u64, Batch::default());
    let mut refused: Option<(u64, String)> = None;
    let read = store.each(|service, key, parts, at| {
        let record = Record { service, key, parts, age: wall.saturating_sub(at) };
        let how = Restore { as_stale: as_stale(service), is_kept: true };
        match distributor.restore(now, &record, how) {
            Ok(Restored::Taken) => (taken, stale) = (taken + 1, stale + u64::from(how.as_stale)),
            Ok(Restored::Expired) => {
                over += 1;
                batch.delete(service, key);
            }
            Ok(Restored::Known) => {}
            Err(why) => {
                let (count, _) = refused.get_or_insert_with(|| (0, format!("one of service {service}: {why}")));
                *count += 1;
                batch.delete(service, key);
            }
        }
    });
    if let Err(why) = read {
        tracing::error!("the persistent cache {} cannot be read to its end: {why}", store.path().display());
    }
    if let Some((count, which)) = refused {
        tracing::warn!(
            "{count} records of the persistent cache {} are not taken back: {which}",
            store.path().display()
        );
    }
    tracing::info!(
        "persistent cache {}: {taken} images are back, {stale} of them as Suspect, {over} were too old, in {} ms",
        store.path().display(),
        begun.elapsed().as_millis()
    );
    if let Err(why) = store.write([&batch]) {
        tracing::warn!("old records cannot be deleted from {}: {why}", store.path().display());
    }
}

/// The thread that writes: all batches that wait become one commit.
fn write(mut store: Store, batches: &Receiver<Batch>, stop: &AtomicBool, done: &Done) {
    let mut failed = false;
    while let Ok(first) = batches.recv() {
        let all: Vec<Batch> = std::iter::once(first).chain(batches.try_iter()).collect();
        while let Err(why) = store.write(&all) {
            done.failures.fetch_add(1, Ordering::Relaxed);
            if !std::mem::replace(&mut failed, true) {
                tracing::error!(
                    "the persistent cache {} cannot be written ({why}): what changes waits until it can",
                    store.path().display()
                );
            }
            if stop.load(Ordering::Acquire) {
                tracing::error!("the process ends, and what has changed is not in the persistent cache: {why}");
                return;
            }
            std::thread::sleep(RETRY);
            // After an error of the disk nothing is written to a file before it is opened anew.
            if let Err(why) = store.reopen() {
                tracing::debug!("the persistent cache cannot be opened: {why}");
            }
        }
        if std::mem::replace(&mut failed, false) {
            tracing::info!("the persistent cache {} is written again", store.path().display());
        }
        done.commits.fetch_add(1, Ordering::Relaxed);
        done.written.fetch_add(all.iter().map(Batch::puts).sum(), Ordering::Relaxed);
        done.deleted.fetch_add(all.iter().map(Batch::deletes).sum(), Ordering::Relaxed);
    }
}
