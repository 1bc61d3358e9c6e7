//! Rows become blocks: in a thread beside the writer once a recording has a full block, so that messages come in while the block before is packed, or written as it came.
//!
//! The same rows become the same block in either place.

use crate::block::Head;
use crate::block::encode::{Effort, Encoder};
use crate::block::raw::RAW_HEAD;
use crate::block::slices::{Slicer, Waiting};
use crate::bytes::Input;
use crate::checkpoint::Images;
use crate::frame::{FrameKind, put_frame, put_head};
use crate::index::BlockPlace;
use crate::item_set::ItemSet;
use crate::record::{Clocks, ItemNumber};
use crate::row::read_row;
use crate::store::Append;
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
    /// Clocks of the last one, where the next may be told by its distance from these: it stands behind it in the block and, if at all, in the same part of the tail.
    pub(crate) last: Option<Clocks>,
}

impl Rows {
    /// Forgets them, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        (self.count, self.raw, self.last) = (0, 0, None);
    }
}

/// Items by number up to which each has a bit, whether it was seen.
const SEEN_DENSE: usize = 1 << 16;

/// Items that were seen: a bit each, since sorting their numbers would take a fifth of the time that writing their rows takes.
#[derive(Debug, Default)]
struct Seen {
    bits: Vec<u64>,
    /// Of larger numbers, in any order.
    beyond: Vec<ItemNumber>,
}

impl Seen {
    #[inline]
    fn see(&mut self, item: ItemNumber) {
        let (word, bit) = (item as usize / 64, 1 << (item % 64));
        if let Some(bits) = self.bits.get_mut(word) {
            *bits |= bit;
        } else if word < SEEN_DENSE / 64 {
            self.bits.resize(word + 1, 0);
            self.bits[word] = bit;
        } else if self.beyond.last() != Some(&item) {
            self.beyond.push(item);
        }
    }

    fn finish(mut self) -> ItemSet {
        self.beyond.sort_unstable();
        self.beyond.dedup();
        let of_word = |(at, bits): (u32, &u64)| {
            let bits = *bits;
            (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| at * 64 + bit)
        };
        (0..).zip(&self.bits).flat_map(of_word).chain(self.beyond.iter().copied()).collect()
    }
}

/// Appends the frame of a block of rows up to where the rows themselves stand; `before` is the latest wall clock before them, if there was one. Gives the block's
/// place, as if `out` stood at 0; `None` if there are no rows.
fn put_unpacked(rows: &Rows, before: Option<u64>, out: &mut Vec<u8>) -> Option<BlockPlace> {
    let (before, offset) = (before.unwrap_or(rows.wall), out.len() as u64);
    let (mut input, mut count, mut end) = (Input::new(&rows.bytes), 0, before);
    let mut items = Seen::default();
    // A block that was written as rows is read as rows; were it not, the block would lack them, and its place tells.
    let mut clocks = Clocks::default();
    while let Some(row) = (!input.is_empty()).then(|| read_row(&mut input, &mut clocks)).flatten() {
        count += 1;
        end = end.max(row.clocks.wall);
        items.see(row.item);
    }
    if count == 0 {
        return None;
    }
    let items = items.finish();
    let mut head = [0; RAW_HEAD];
    head[..8].copy_from_slice(&rows.first.to_le_bytes());
    head[8..].copy_from_slice(&before.to_le_bytes());
    put_head(FrameKind::Raw, 0, &[&head, &rows.bytes], out);
    out.extend_from_slice(&head);
    Some(BlockPlace {
        offset,
        len: RAW_HEAD + rows.bytes.len(),
        first: rows.first,
        count,
        raw: rows.raw as u64,
        begin: rows.wall.max(before),
        end,
        items,
    })
}

/// Rows that are to become a block.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) rows: Rows,
    /// The latest wall clock before the first row, if there was one.
    pub(crate) before: Option<u64>,
    pub(crate) images: Option<Images>,
    /// The rows are not to be packed.
    pub(crate) unpacked: Option<Unpacked>,
}

/// The way of a block of rows as they came into its segment.
pub(crate) struct Unpacked {
    /// The frame of the items that the segment lacks, and how many it has then.
    pub(crate) items: Vec<u8>,
    pub(crate) known: usize,
    /// Writes the frames; without it, who gave the job does.
    pub(crate) append: Option<Append>,
}

impl std::fmt::Debug for Unpacked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacked").field("known", &self.known).finish_non_exhaustive()
    }
}

/// Frames for a segment.
#[derive(Debug)]
pub(crate) struct Packed {
    /// The rows, to be told of if the frames find no room.
    pub(crate) rows: Rows,
    pub(crate) block: Vec<u8>,
    /// Place of the block, as if `block` stood at 0.
    pub(crate) place: Option<BlockPlace>,
    /// The rows themselves are to stand behind `block`.
    pub(crate) raw: Option<Raw>,
    /// The checkpoint, its frame, and the bytes of its payload there.
    pub(crate) images: Option<(Images, Vec<u8>, usize)>,
}

/// Of a block that is not packed.
#[derive(Debug)]
pub(crate) struct Raw {
    /// Items that the segment has with it.
    pub(crate) known: usize,
    /// The outcome of its writing; none: it is still to be written.
    pub(crate) written: Option<std::io::Result<()>>,
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
        // A block that was written as rows is read as rows; were it not, the block would lack them, and its place tells.
        while !input.is_empty() {
            let at = (rows.bytes.len() - input.len()) as u32;
            let Some(row) = read_row(&mut input, &mut Clocks::default()) else { break };
            waiting.push(Waiting { item: row.item, wall: row.clocks.wall, at });
        }
        let push = |encoder: &mut Encoder, record: &Waiting| {
            let Some(mut input) = rows.bytes.get(record.at as usize..).map(Input::new) else { return };
            // Rows that are to be packed have their clocks each.
            if let Some(row) = read_row(&mut input, &mut Clocks::default()) {
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
    let Job { rows, before, images, unpacked } = job;
    let mut block = Vec::new();
    let (place, raw) = match unpacked {
        None => (maker.make(&rows, before, &mut block), None),
        Some(Unpacked { items, known, append }) => {
            block = items;
            let place = put_unpacked(&rows, before, &mut block);
            let written = append.map(|append| append(&[&block, &rows.bytes]));
            (place, Some(Raw { known, written }))
        }
    };
    let images = images.map(|images| {
        let (frame, len) = images.frame();
        (images, frame, len)
    });
    Packed { rows, block, place, raw, images }
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
    /// Written there.
    is_writing: bool,
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
                thread.is_writing = job.unpacked.as_ref().is_some_and(|unpacked| unpacked.append.is_some());
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

    /// Whether what was given away is written there: nobody else may touch the segment's file before it is waited for.
    pub(crate) fn is_writing(&self) -> bool {
        matches!(self, Self::Beside(thread) if thread.is_busy && thread.is_writing)
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
            *self = Self::Beside(Thread {
                jobs: Some(jobs),
                done,
                handle: Some(thread),
                is_busy: false,
                is_writing: false,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_seen_once_each_whatever_their_numbers() {
        let numbers = [70_000, 3, 0, 3, 64, 65_535, 63, 65_536, u32::MAX, 70_000, 3];
        let mut seen = Seen::default();
        for number in numbers {
            seen.see(number);
        }
        let expected: ItemSet = [0, 3, 63, 64, 65_535, 65_536, 70_000, u32::MAX].into_iter().collect();
        assert_eq!(seen.finish(), expected);
    }
}
