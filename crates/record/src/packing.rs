//! Rows become blocks: in a thread beside the writer once a recording has a full block, so that messages come in while the block before is packed.
//!
//! The same rows become the same block in either place.

use crate::block::Head;
use crate::block::encode::{Effort, Encoder};
use crate::block::slices::{Slicer, Waiting};
use crate::bytes::Input;
use crate::checkpoint::Images;
use crate::frame::{FrameKind, put_frame};
use crate::index::BlockPlace;
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
    /// How many of the bytes the tail has, when the rows are given to be packed.
    pub(crate) in_tail: usize,
}

impl Rows {
    /// Forgets them, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        (self.count, self.raw) = (0, 0);
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

/// Makes blocks of rows.
#[derive(Debug)]
pub(crate) struct BlockMaker {
    encoder: Encoder,
    slicer: Slicer,
    waiting: Vec<Waiting>,
    payload: Vec<u8>,
    slice_records: usize,
}

impl BlockMaker {
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn new(effort: Effort, slice_records: usize) -> std::io::Result<Self> {
        let encoder = Encoder::new(effort)?;
        Ok(Self { encoder, slicer: Slicer::default(), waiting: Vec::new(), payload: Vec::new(), slice_records })
    }

    /// Appends the frame of a block of all rows; `before` is the latest wall clock before them. Gives its place, as if it stood at 0; `None` if there are no
    /// rows.
    pub(crate) fn make(&mut self, rows: &Rows, before: Option<u64>, out: &mut Vec<u8>) -> Option<BlockPlace> {
        let Self { encoder, slicer, waiting, payload, slice_records } = self;
        waiting.clear();
        payload.clear();
        let mut input = Input::new(&rows.bytes);
        // What was written as rows is read as rows; were it not, the block would lack them, and its place tells.
        while !input.is_empty() {
            let at = (rows.bytes.len() - input.len()) as u32;
            let Some(row) = read_row(&mut input) else { break };
            waiting.push(Waiting { item: row.item, wall: row.clocks.wall, at });
        }
        let push = |encoder: &mut Encoder, record: &Waiting| {
            let Some(mut input) = rows.bytes.get(record.at as usize..).map(Input::new) else { return };
            if let Some(row) = read_row(&mut input) {
                // The message is the end of its row.
                let start = rows.bytes.len() - input.len() - row.body.len();
                encoder.put(row.kind, row.item, row.clocks, (row.body, start as u32));
            }
        };
        slicer.count(waiting);
        let sliced = slicer.encode(encoder, waiting, *slice_records, (&rows.bytes, rows.first, before), payload, push);
        let (kind, head) = if let Some(head) = sliced {
            (FrameKind::Sliced, head)
        } else {
            payload.clear();
            for record in &*waiting {
                push(encoder, record);
            }
            (FrameKind::Block, encoder.finish_from(&rows.bytes, rows.first, before, payload)?)
        };
        encoder.end_block();
        put_frame(kind, payload, out);
        Some(self.place(&head))
    }

    fn place(&self, head: &Head) -> BlockPlace {
        BlockPlace {
            offset: 0,
            len: self.payload.len(),
            first: head.first,
            count: u64::from(head.count),
            raw: u64::from(head.raw),
            begin: head.begin(),
            end: head.end,
            items: self.slicer.items().collect(),
        }
    }
}

fn pack(maker: &mut BlockMaker, job: Job) -> Packed {
    let Job { rows, before, images } = job;
    let mut block = Vec::new();
    let place = maker.make(&rows, before, &mut block);
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
    Here(Box<BlockMaker>),
    /// A thread.
    Beside(Thread),
}

#[derive(Debug)]
pub(crate) struct Thread {
    jobs: Option<SyncSender<Job>>,
    done: Receiver<Packed>,
    handle: Option<JoinHandle<()>>,
    /// A block is on its way.
    is_busy: bool,
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(handle) = self.handle.take() {
            // A panic there was told by the block that did not come.
            let _ = handle.join();
        }
    }
}

impl Packer {
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn new(slice_records: usize) -> std::io::Result<Self> {
        Ok(Self::Here(Box::new(BlockMaker::new(Effort::LIVE, slice_records)?)))
    }

    /// Gives a job away; its frames come with [`Packer::wait`], before which no other is given. `None`: there is no thread for it, and these are the frames.
    pub(crate) fn give(&mut self, job: Job) -> Result<(), Box<Packed>> {
        self.start();
        match self {
            Self::Here(maker) => Err(Box::new(pack(maker, job))),
            Self::Beside(thread) => {
                thread.is_busy = thread.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
                Ok(())
            }
        }
    }

    /// Packs at once, in order behind what was given away.
    pub(crate) fn pack(&mut self, job: Job) -> Option<Packed> {
        match self {
            Self::Here(maker) => Some(pack(maker, job)),
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

    /// As [`Packer::wait`], if it is ready; `None` if nothing is.
    pub(crate) fn poll(&mut self) -> Option<Packed> {
        let Self::Beside(thread) = self else { return None };
        let packed = thread.is_busy.then(|| thread.done.try_recv().ok()).flatten()?;
        thread.is_busy = false;
        Some(packed)
    }

    /// The thread begins with the first full block: short recordings need none. A system that has none to give leaves the work here.
    fn start(&mut self) {
        let Self::Here(here) = self else { return };
        let Ok(mut maker) = BlockMaker::new(Effort::LIVE, here.slice_records) else { return };
        let (jobs, received) = sync_channel::<Job>(1);
        let (give, done) = sync_channel(1);
        let work = move || {
            for job in received {
                if give.send(pack(&mut maker, job)).is_err() {
                    return;
                }
            }
        };
        if let Ok(thread) = std::thread::Builder::new().name("record-packing".to_owned()).spawn(work) {
            *self = Self::Beside(Thread { jobs: Some(jobs), done, handle: Some(thread), is_busy: false });
        }
    }
}
