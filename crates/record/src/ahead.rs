//! Blocks that are taken apart by a thread beside their reader, one before it is wanted: who reads everything is held up by the slower of the two, not by both.

use crate::block::decode::Block;
use crate::frame::FrameKind;
use crate::segment::decode_block;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// The payload of a frame.
type Payload = (FrameKind, Vec<u8>);

/// The thread, and what it was asked for.
#[derive(Debug)]
pub(crate) struct Ahead {
    jobs: Option<SyncSender<Payload>>,
    done: Receiver<Option<Block>>,
    handle: Option<JoinHandle<()>>,
    /// The segment and the block that it is about.
    asked: Option<(usize, usize)>,
}

impl Ahead {
    /// `None`: the system has no thread to give.
    pub(crate) fn start() -> Option<Self> {
        let (jobs, received) = sync_channel::<Payload>(1);
        let (give, done) = sync_channel(1);
        let work = move || {
            for (kind, payload) in received {
                if give.send(decode_block(kind, payload)).is_err() {
                    return;
                }
            }
        };
        let handle = std::thread::Builder::new().name("record-reading".to_owned()).spawn(work).ok()?;
        Some(Self { jobs: Some(jobs), done, handle: Some(handle), asked: None })
    }

    /// Asks for a block, given its payload. What was asked for before was taken.
    pub(crate) fn ask(&mut self, at: (usize, usize), payload: Payload) {
        let is_asked = self.asked.is_none() && self.jobs.as_ref().is_some_and(|jobs| jobs.send(payload).is_ok());
        if is_asked {
            self.asked = Some(at);
        }
    }

    /// A block that was asked for; `None` if it was not, or cannot be had: who reads it then hears why.
    pub(crate) fn take(&mut self, at: (usize, usize)) -> Option<Block> {
        let asked = self.asked.take()?;
        let block = self.done.recv().ok()?;
        block.filter(|_| asked == at)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.jobs = None;
        // Its last block may wait to be taken.
        while self.done.recv().is_ok() {}
        if let Some(handle) = self.handle.take() {
            // A panic there was told by the block that did not come.
            let _ = handle.join();
        }
    }
}
