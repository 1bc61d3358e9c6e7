//! Rows become blocks: in a thread beside the writer once a recording has a full block, so that messages come in while the block before is packed.
//!
//! The same rows become the same block in either place.

use crate::block::encode::{Effort, Encoder};
use crate::bytes::Input;
use crate::frame::{FRAME_HEAD_LEN, FrameKind, put_frame, put_packed};
use crate::index::BlockPlace;
use crate::record::ItemNumber;
use crate::segment::read_row;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Rows that wait for their block.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// As they stand in a tail.
    pub(crate) bytes: Vec<u8>,
    /// Records, and bytes of their messages.
    pub(crate) count: usize,
    pub(crate) raw: usize,
    /// Sequence number of the first.
    pub(crate) first: u64,
    /// Wall clock of the first.
    pub(crate) wall: u64,
}

impl Rows {
    /// Forgets them, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        (self.count, self.raw) = (0, 0);
    }
}

/// A checkpoint that is not packed yet: the images of items behind the rows beside which it is.
#[derive(Debug)]
pub(crate) struct Images {
    pub(crate) sequence: u64,
    pub(crate) payload: Vec<u8>,
    /// Numbers of the items in the segment, in order, and in the journal.
    pub(crate) numbers: Vec<ItemNumber>,
    pub(crate) items: Vec<u32>,
}

impl Images {
    /// The frame of it, and the bytes of its payload there.
    pub(crate) fn frame(&self) -> (Vec<u8>, usize) {
        let mut out = Vec::new();
        put_packed(FrameKind::Images, &self.payload, &mut out);
        let len = out.len() - FRAME_HEAD_LEN;
        (out, len)
    }
}

/// What is to be packed.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) rows: Rows,
    /// The latest wall clock before the first row, if there was one.
    pub(crate) before: Option<u64>,
    pub(crate) images: Option<Images>,
}

/// Frames for a segment.
#[derive(Debug)]
pub(crate) struct Packed {
    /// The rows, to be told of if the frames find no room.
    pub(crate) rows: Rows,
    pub(crate) block: Vec<u8>,
    /// Place of the block, as if its frame stood at 0.
    pub(crate) place: Option<BlockPlace>,
    /// The checkpoint, its frame, and the bytes of its payload there.
    pub(crate) images: Option<(Images, Vec<u8>, usize)>,
}

fn pack(encoder: &mut Encoder, job: Job) -> Packed {
    let Job { rows, before, images } = job;
    let mut input = Input::new(&rows.bytes);
    // What was written as rows is read as rows; were it not, the block would lack them, and its place tells.
    while let Some(row) = (!input.is_empty()).then(|| read_row(&mut input)).flatten() {
        encoder.push(row.kind, row.item, row.clocks, row.body);
    }
    let items = encoder.items_in_order();
    let (mut payload, mut block) = (Vec::new(), Vec::new());
    let head = encoder.finish(rows.first, before, &mut payload);
    put_frame(FrameKind::Block, &payload, &mut block);
    let place = head.map(|head| BlockPlace {
        offset: 0,
        len: payload.len(),
        first: head.first,
        count: u64::from(head.count),
        raw: u64::from(head.raw),
        begin: head.begin(),
        end: head.end,
        items,
    });
    let images = images.map(|images| {
        let (frame, len) = images.frame();
        (images, frame, len)
    });
    Packed { rows, block, place, images }
}

/// Who packs.
#[derive(Debug)]
pub(crate) enum Packer {
    /// The writer itself.
    Here(Box<Encoder>),
    /// A thread.
    Beside(Thread),
}

#[derive(Debug)]
pub(crate) struct Thread {
    jobs: Option<SyncSender<Job>>,
    done: Receiver<Packed>,
    thread: Option<JoinHandle<()>>,
    /// A block is on its way.
    is_busy: bool,
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was told by the block that did not come.
            let _ = thread.join();
        }
    }
}

impl Packer {
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self::Here(Box::new(Encoder::new(Effort::LIVE)?)))
    }

    /// Gives a job away; its frames come with [`Packer::wait`], before which no other is given. `None`: there is no thread for it, and these are the frames.
    pub(crate) fn give(&mut self, job: Job) -> Result<(), Box<Packed>> {
        self.start();
        match self {
            Self::Here(encoder) => Err(Box::new(pack(encoder, job))),
            Self::Beside(thread) => {
                thread.is_busy = thread.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
                Ok(())
            }
        }
    }

    /// Packs at once, in order behind what was given away.
    pub(crate) fn pack(&mut self, job: Job) -> Option<Packed> {
        match self {
            Self::Here(encoder) => Some(pack(encoder, job)),
            Self::Beside(_) => match self.give(job) {
                Ok(()) => self.wait(),
                Err(packed) => Some(*packed),
            },
        }
    }

    /// Whether something was given away that has not been waited for.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Beside(thread) if thread.is_busy)
    }

    /// The frames of what was given away; `None`: nothing was, or the thread has failed.
    pub(crate) fn wait(&mut self) -> Option<Packed> {
        let Self::Beside(thread) = self else { return None };
        if !std::mem::take(&mut thread.is_busy) {
            return None;
        }
        thread.done.recv().ok()
    }

    /// The thread begins with the first full block: short recordings need none. A system that has none to give leaves the work here.
    fn start(&mut self) {
        let Self::Here(_) = self else { return };
        let Ok(mut encoder) = Encoder::new(Effort::LIVE) else { return };
        let (jobs, received) = sync_channel::<Job>(1);
        let (give, done) = sync_channel(1);
        let work = move || {
            for job in received {
                if give.send(pack(&mut encoder, job)).is_err() {
                    return;
                }
            }
        };
        if let Ok(thread) = std::thread::Builder::new().name("record-packing".to_owned()).spawn(work) {
            *self = Self::Beside(Thread { jobs: Some(jobs), done, thread: Some(thread), is_busy: false });
        }
    }
}
