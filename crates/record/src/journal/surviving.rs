//! Records survive: the process in the tail or in a block, the machine in a file that was synchronised.

use super::{Journal, put_new_items};
use crate::frame::{FrameKind, put_head};
use crate::record::Clocks;
use crate::store::{Store, Synchronise, segment_name, tail_name};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

/// How far a journal was: the sequence number that came next, and the first one of the block that was given to be packed last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mark {
    next: u64,
    given_first: u64,
}

/// A thread that synchronises files, so that who writes does not wait for the disk. Begun when it is wanted first.
#[derive(Debug, Default)]
pub(super) struct Beside {
    thread: Option<Thread>,
}

#[derive(Debug)]
struct Thread {
    jobs: SyncSender<Synchronise>,
    done: Receiver<io::Result<()>>,
    handle: JoinHandle<()>,
    is_busy: bool,
}

impl Thread {
    /// `None`: the system has no thread to give.
    fn start() -> Option<Self> {
        let (jobs, received) = sync_channel::<Synchronise>(1);
        let (give, done) = sync_channel(1);
        let work = move || {
            for job in received {
                if give.send(job()).is_err() {
                    return;
                }
            }
        };
        let handle = std::thread::Builder::new().name("record-syncing".to_owned()).spawn(work).ok()?;
        Some(Self { jobs, done, handle, is_busy: false })
    }
}

impl Beside {
    /// How the last file that was given ended; `None` if there was none, or it has not ended yet.
    fn ended(&mut self) -> Option<io::Result<()>> {
        let thread = self.thread.as_mut().filter(|thread| thread.is_busy)?;
        let ended = match thread.done.try_recv() {
            Ok(ended) => ended,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err(io::Error::other("the thread that synchronises has panicked")),
        };
        thread.is_busy = false;
        Some(ended)
    }

    /// Whether a file that was given has not ended yet.
    fn is_busy(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.is_busy)
    }

    /// Gives a file to be synchronised; done here where there is no thread.
    fn give(&mut self, job: Synchronise) -> io::Result<()> {
        if self.thread.is_none() {
            self.thread = Thread::start();
        }
        let Some(thread) = &mut self.thread else { return job() };
        thread.jobs.send(job).map_err(|_| io::Error::other("the thread that synchronises has panicked"))?;
        thread.is_busy = true;
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let Some(Thread { jobs, done, handle, .. }) = self.thread.take() else { return };
        drop(jobs);
        // What it is about may wait to be told.
        while done.recv().is_ok() {}
        // A panic there is told by what did not end.
        let _ = handle.join();
    }
}

impl<S: Store> Journal<S> {
    /// Makes what was recorded so far survive the process, and what could be written the machine. To be called every 100 ms at most.
    pub fn sync(&mut self, clocks: Clocks) {
        if self.trouble.is_some() && !self.try_again(clocks) {
            return;
        }
        // The records that the tail has of the block before have to be in the segment before anything comes behind it.
        self.settle();
        if self.trouble.is_some() {
            return;
        }
        if self.config.unpacked_bytes.is_some_and(|least| self.rows.bytes.len() >= least) {
            self.write_block();
            if self.trouble.is_some() {
                return;
            }
        }
        // Without a segment nothing was recorded since the last one ended.
        let Some(open) = &mut self.segment else { return };
        let (name, tail) = (segment_name(open.number), tail_name(open.number));
        let (known, first) = self.in_tail;
        if self.rows.bytes.len() > known {
            let mut out = Vec::new();
            put_new_items(open.in_tail.max(open.in_segment), &open.index.items, &mut out);
            let (first, rows) = (first.to_le_bytes(), &self.rows.bytes[known..]);
            put_head(FrameKind::Rows, 0, &[&first, rows], &mut out);
            out.extend_from_slice(&first);
            out.extend_from_slice(rows);
            let written = self.store.append(&tail, &out).and_then(|()| self.store.sync(&tail));
            if let Err(e) = written {
                // The records are still to be in the block: they go with it, and the tail is as long as it was.
                let _ = self.store.truncate(&tail, open.tail_len);
                return self.fail("writing the tail", &e, clocks);
            }
            self.in_tail = (self.rows.bytes.len(), self.next);
            self.rows.last = None;
            open.tail_len += out.len() as u64;
            open.in_tail = open.index.items.len();
            self.counters.file_bytes += out.len() as u64;
        }
        if open.is_dirty {
            open.is_dirty = false;
            if let Err(e) = self.store.sync(&name) {
                self.fail("synchronising", &e, clocks);
            }
        }
    }

    /// The same for who calls it again and again, each 50 ms at most: what was recorded before the call before this one survives the process. Where blocks come so
    /// fast that all that waits for one has come since that call, nothing is written twice, and nothing waits for the disk.
    pub fn keep_up(&mut self, clocks: Clocks) {
        let mark = std::mem::replace(&mut self.mark, Mark { next: self.next, given_first: self.given_first });
        let is_young = self.rows.count == 0 || self.rows.first >= mark.next;
        let is_fast = self.given_first > mark.given_first && is_young;
        if self.trouble.is_some() || !is_fast {
            return self.sync(clocks);
        }
        if self.given_first < mark.next {
            self.settle();
        } else if let Some(packed) = self.packer.poll() {
            self.write_packed(packed);
        }
        if self.trouble.is_none() {
            self.sync_beside(clocks);
        }
    }

    /// Has what the open segment has be synchronised by a thread; a failure is told by a later call.
    fn sync_beside(&mut self, clocks: Clocks) {
        if let Some(Err(e)) = self.beside.ended() {
            return self.fail("synchronising", &e, clocks);
        }
        // Still at it: what is there by the next call goes then.
        let Some(open) = self.segment.as_mut().filter(|open| open.is_dirty && !self.beside.is_busy()) else { return };
        open.is_dirty = false;
        let name = segment_name(open.number);
        let given = match self.store.synchroniser(&name) {
            Ok(Some(job)) => self.beside.give(job),
            Ok(None) => self.store.sync(&name),
            Err(e) => Err(e),
        };
        if let Err(e) = given {
            self.fail("synchronising", &e, clocks);
        }
    }
}
