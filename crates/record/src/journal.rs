//! The writer without its thread: messages go in, files grow.
//!
//! A record waits in memory until its block is full. What waits is written to the *tail* at every [`Journal::sync`], so that a process
//! that is killed loses what came since then; when the block is written, the tail is emptied.

use crate::block::decode;
use crate::block::encode::{Effort, Encoder};
use crate::error::{Damage, Error};
use crate::frame::{FILE_HEAD_LEN, FileHead, FrameKind, put_frame, put_packed};
use crate::images::{Held, Keeping, parts};
use crate::index::{BlockPlace, Count, GapPlace, ImagesPlace, Index, put_images, put_items};
use crate::record::{Clocks, Gap, GapReason, Item, ItemNumber, Kind};
use crate::segment::{Segment, put_end, put_row};
use crate::store::{Store, segment_name, segment_number, tail_name};
use std::collections::HashMap;

/// Bytes of a message that can be recorded: RWF has none of more.
pub const MESSAGE_MAX: usize = 1 << 20;
/// A wall clock that falls back by more against the monotonic one was set back, nanoseconds.
const SET_BACK_MIN: i64 = 1_000_000;
/// After a failure of the disk it is tried again after so long, nanoseconds.
const RETRY: u64 = 1_000_000_000;
/// A checkpoint is written when the blocks since the last one are so many times its size.
const CHECKPOINT_SHARE: u64 = 8;
/// Bytes of blocks between two checkpoints at least.
const CHECKPOINT_MIN: u64 = 128 << 10;

/// How a recording is cut into pieces, and how much of it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalConfig {
    /// Records of one block: more pack better, fewer are read sooner.
    pub block_records: usize,
    /// Bytes of the messages of one block.
    pub block_bytes: usize,
    /// Bytes of one segment.
    pub segment_bytes: u64,
    /// How long one segment is, nanoseconds.
    pub segment_age_ns: u64,
    /// Bytes of all segments together: the oldest go. None: as many as the disk has.
    pub keep_bytes: Option<u64>,
    /// How long records are kept, nanoseconds. A segment goes when all in it is older.
    pub keep_age_ns: Option<u64>,
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self {
            block_records: 1 << 14,
            block_bytes: 4 << 20,
            segment_bytes: 256 << 20,
            segment_age_ns: 3_600_000_000_000,
            keep_bytes: None,
            keep_age_ns: None,
        }
    }
}

/// Counters of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JournalCounters {
    /// Records, and the bytes of their messages.
    pub written: Count,
    /// Messages that are not in the recording: in their place is a gap.
    pub lost: Count,
    /// Bytes of the files that were written.
    pub file_bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// Segments that were begun.
    pub segments: u64,
    /// Segments that were removed, since they were too old or too many.
    pub removed: u64,
    /// Failures of the disk.
    pub failures: u64,
    /// Times that the wall clock was set back.
    pub set_back: u64,
    /// Gaps that were written, those of clocks among them.
    pub gaps: u64,
    /// What must hold did not: a fault of this library. Debug builds stop there.
    pub internal_faults: u64,
}

/// A segment that grows.
#[derive(Debug)]
struct Open {
    number: u64,
    len: u64,
    created: u64,
    index: Index,
    numbers: HashMap<u32, ItemNumber>,
    /// Items that the segment's file has, and those that segment or tail have.
    in_segment: usize,
    in_tail: usize,
    tail_len: u64,
    is_dirty: bool,
    /// Bytes of blocks since the last checkpoint.
    since_images: u64,
    last_images: u64,
}

/// Failure of the disk, and what was lost by it.
#[derive(Debug)]
struct Trouble {
    text: String,
    retry_at: u64,
    lost: Count,
    from: u64,
}

/// Writes a recording.
#[derive(Debug)]
pub struct Journal<S> {
    store: S,
    config: JournalConfig,
    recording: u64,
    next_number: u64,
    next: u64,
    /// The latest wall clock, and that at the end of the last block that was written.
    latest: Option<u64>,
    ended: Option<u64>,
    last: Option<Clocks>,
    segment: Option<Open>,
    encoder: Encoder,
    /// Records of the encoder that the tail does not have, as they will stand there, and the sequence number of the first.
    rows: Vec<u8>,
    rows_first: u64,
    items: Vec<Item>,
    held: Vec<Held>,
    keeping: Keeping,
    trouble: Option<Trouble>,
    /// To be recorded before anything else.
    gap: Option<(GapReason, u64, Option<u64>, u64)>,
    counters: JournalCounters,
}

impl<S: Store> Journal<S> {
    /// Goes on with the recording in a folder, or begins one. A segment that was cut is repaired; `damage` tells what was found.
    ///
    /// # Errors
    /// The folder cannot be read or written, or the newest segment is of another version or nothing of ours.
    pub fn open(store: S, config: JournalConfig, damage: &mut Vec<Damage>) -> Result<Self, Error> {
        let files = store.files().map_err(Error::store(&store.name(), "listing the folder"))?;
        let newest = files.iter().filter_map(|(name, size)| Some((segment_number(name)?, *size))).max();
        let memory = |e| Error::store(&store.name(), "making the packer")(e);
        let encoder = Encoder::new(Effort::LIVE).map_err(memory)?;
        let mut journal = Self {
            config,
            recording: 0,
            next_number: 1,
            next: 0,
            latest: None,
            ended: None,
            last: None,
            segment: None,
            encoder,
            rows: Vec::new(),
            rows_first: 0,
            items: Vec::new(),
            held: Vec::new(),
            keeping: Keeping::new(),
            trouble: None,
            gap: None,
            counters: JournalCounters::default(),
            store,
        };
        if let Some((number, size)) = newest {
            journal.take_up(number, size, damage)?;
        }
        Ok(journal)
    }

    /// Goes on behind the newest segment, which is ended first if its writer was killed.
    fn take_up(&mut self, number: u64, size: u64, damage: &mut Vec<Damage>) -> Result<(), Error> {
        self.next_number = number + 1;
        let name = segment_name(number);
        if size < FILE_HEAD_LEN as u64 {
            // Killed while its head was written: it has nothing.
            damage.push(Damage::Cut { segment: name.clone(), offset: 0, bytes: size });
            self.next_number = number;
            return self.store.remove(&name).map_err(Error::store(&name, "removing a segment without a head"));
        }
        let segment = Segment::open(&self.store, number, size, damage)?;
        self.recording = segment.head.recording;
        self.next = segment.index.next().unwrap_or(segment.head.first);
        self.latest =
            segment.index.blocks.last().map(|block| block.end).or(Some(segment.head.before).filter(|at| *at > 0));
        self.ended = self.latest;
        if !segment.is_closed {
            self.repair(number, segment)?;
        }
        let tail = tail_name(number);
        if self.store.files().is_ok_and(|files| files.contains_key(&tail)) {
            self.store.remove(&tail).map_err(Error::store(&tail, "removing"))?;
        }
        self.gap = self.latest.map(|latest| (GapReason::Restart, latest, None, 0));
        Ok(())
    }

    /// Cuts off what is no frame, moves the tail into a block, and ends the segment.
    fn repair(&mut self, number: u64, mut segment: Segment) -> Result<(), Error> {
        let name = segment_name(number);
        if segment.len < segment.size {
            self.store.truncate(&name, segment.len).map_err(Error::store(&name, "cutting off a part of a frame"))?;
        }
        let mut out = Vec::new();
        let mut items = Vec::new();
        put_items(1, &segment.index.items, &mut items);
        if let Some(tail) = segment.tail.take() {
            put_packed(FrameKind::Items, &items, &mut out);
            if let Some(place) = segment.index.blocks.last_mut() {
                place.offset = segment.len + out.len() as u64;
            }
            put_frame(FrameKind::Block, &tail, &mut out);
        }
        put_end(&segment.index, segment.len + out.len() as u64, &mut out);
        self.store
            .append(&name, &out)
            .map_err(Error::store(&name, "ending the segment of a writer that was killed"))?;
        self.store.sync(&name).map_err(Error::store(&name, "synchronising"))
    }

    /// Counters so far.
    pub const fn counters(&self) -> JournalCounters {
        self.counters
    }

    /// Failure of the disk, while it lasts.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_ref().map(|trouble| trouble.text.as_str())
    }

    /// Makes an item known; what it is called by in [`Journal::append`].
    pub fn item(&mut self, item: Item) -> u32 {
        self.items.push(item);
        self.held.push(Held::default());
        self.items.len() as u32 - 1
    }

    /// Records a message, of an item that was made known or of none. Never fails: what cannot be written is a gap.
    pub fn append(&mut self, kind: Kind, item: Option<u32>, clocks: Clocks, body: &[u8]) {
        self.look_at_clock(clocks);
        let item = item.filter(|item| (*item as usize) < self.items.len());
        if let Some(held) = item.and_then(|item| self.held.get_mut(item as usize)) {
            self.keeping.apply(held, kind, body);
        }
        if let Some((reason, from, messages, bytes)) = self.gap.take() {
            self.put_gap(Gap { reason, from, to: clocks.wall, messages, bytes }, clocks);
        }
        if body.len() > MESSAGE_MAX {
            self.lose(1, body.len() as u64);
            let gap = Gap {
                reason: GapReason::TooLong,
                from: clocks.wall,
                to: clocks.wall,
                messages: Some(1),
                bytes: body.len() as u64,
            };
            self.put_gap(gap, clocks);
            return;
        }
        self.put(kind, item, clocks, body);
    }

    /// Records that messages are missing: those of whom there was no room before us.
    pub fn overflow(&mut self, messages: u64, bytes: u64, clocks: Clocks) {
        self.look_at_clock(clocks);
        self.lose(messages, bytes);
        let from = self.last.map_or(clocks.wall, |last| last.wall);
        self.put_gap(
            Gap { reason: GapReason::Overflow, from, to: clocks.wall, messages: Some(messages), bytes },
            clocks,
        );
    }

    /// Records a gap that another recording had. Clocks that were set back there are not told again.
    pub fn gap(&mut self, gap: Gap, clocks: Clocks) {
        self.last = Some(clocks);
        self.put_gap(gap, clocks);
    }

    /// What must hold does not: `what` says it.
    fn fault(&mut self, what: &str) {
        debug_assert!(false, "{what}");
        self.counters.internal_faults += 1;
    }

    const fn lose(&mut self, messages: u64, bytes: u64) {
        self.counters.lost.messages += messages;
        self.counters.lost.bytes += bytes;
    }

    /// A wall clock that was set back is told where it was; the first record has none to be compared with.
    fn look_at_clock(&mut self, clocks: Clocks) {
        let Some(last) = self.last.replace(clocks) else { return };
        let wall = clocks.wall.wrapping_sub(last.wall) as i64;
        let step = wall.wrapping_sub(clocks.mono.wrapping_sub(last.mono) as i64);
        if wall < 0 && step < -SET_BACK_MIN {
            self.counters.set_back += 1;
            let (from, to) = (last.wall, clocks.wall);
            self.put_gap(Gap { reason: GapReason::ClockSetBack, from, to, messages: Some(0), bytes: 0 }, clocks);
        }
    }

    fn put_gap(&mut self, gap: Gap, clocks: Clocks) {
        if gap.reason.makes_suspect() {
            self.held.iter_mut().for_each(|held| held.is_in_gap = true);
        }
        self.counters.gaps += 1;
        self.put(Kind::Gap, None, clocks, &gap.encode());
    }

    fn put(&mut self, kind: Kind, item: Option<u32>, clocks: Clocks, body: &[u8]) {
        if self.trouble.is_some() && !self.try_again(clocks) {
            self.lose_to_disk(body.len());
            return;
        }
        if self.segment.as_ref().is_some_and(|open| self.is_full(open, clocks)) {
            self.roll();
        }
        if self.segment.is_none() && self.trouble.is_none() {
            self.begin(clocks);
        }
        if self.trouble.is_some() {
            self.lose_to_disk(body.len());
            return;
        }
        self.put_row(kind, item, clocks, body);
        if self.encoder.count() >= self.config.block_records || self.encoder.raw() >= self.config.block_bytes {
            self.write_block();
        }
    }

    fn put_row(&mut self, kind: Kind, item: Option<u32>, clocks: Clocks, body: &[u8]) {
        if self.segment.is_none() {
            return self.fault("a record without a segment");
        }
        let number = item.and_then(|item| self.number(item)).unwrap_or(0);
        if self.rows.is_empty() {
            self.rows_first = self.next;
        }
        put_row(kind, number, clocks, body, &mut self.rows);
        self.encoder.push(kind, number, clocks, body);
        self.next += 1;
        self.latest = self.latest.max(Some(clocks.wall));
        self.counters.written.messages += 1;
        self.counters.written.bytes += body.len() as u64;
        let time = self.latest.unwrap_or(clocks.wall);
        if let Some(open) = &mut self.segment {
            open.index.count(kind, body.len());
            if let (Kind::Gap, Some(gap)) = (kind, Gap::decode(body)) {
                open.index.gaps.push(GapPlace { sequence: self.next - 1, time, gap });
            }
        }
    }

    fn is_full(&self, open: &Open, clocks: Clocks) -> bool {
        open.len >= self.config.segment_bytes || clocks.wall.saturating_sub(open.created) >= self.config.segment_age_ns
    }

    /// The number of an item in the open segment: a new one if it has none yet.
    fn number(&mut self, item: u32) -> Option<ItemNumber> {
        let open = self.segment.as_mut()?;
        let next = open.index.items.len() as ItemNumber + 1;
        let number = *open.numbers.entry(item).or_insert(next);
        if number == next {
            open.index.items.push(self.items[item as usize].clone());
        }
        Some(number)
    }

    /// A new segment, which begins with the images that are known.
    fn begin(&mut self, clocks: Clocks) {
        if self.recording == 0 {
            // Recordings are told apart by when they began.
            self.recording = clocks.wall.rotate_left(17) ^ clocks.mono | 1;
        }
        let number = self.next_number;
        let head = FileHead {
            recording: self.recording,
            number,
            first: self.next,
            created: clocks.wall,
            before: self.ended.unwrap_or(0),
        };
        let name = segment_name(number);
        if let Err(e) = self.store.append(&name, &head.encode()) {
            // Nothing of it may stay: the name is wanted again.
            let _ = self.store.remove(&name);
            return self.fail("beginning a segment", &e, clocks);
        }
        self.next_number += 1;
        self.counters.segments += 1;
        self.counters.file_bytes += FILE_HEAD_LEN as u64;
        self.segment = Some(Open {
            number,
            len: FILE_HEAD_LEN as u64,
            created: clocks.wall,
            index: Index::default(),
            numbers: HashMap::new(),
            in_segment: 0,
            in_tail: 0,
            tail_len: 0,
            is_dirty: true,
            since_images: 0,
            last_images: 0,
        });
        self.held.iter_mut().for_each(|held| held.is_changed |= held.is_open);
        self.write_images();
        self.keep_to_limits(clocks.wall);
    }

    /// Ends the open segment, if there is one that the disk takes.
    fn roll(&mut self) {
        self.write_block();
        let Some(open) = self.segment.as_ref().filter(|_| self.trouble.is_none()) else { return };
        let (name, tail) = (segment_name(open.number), tail_name(open.number));
        let mut out = Vec::new();
        put_end(&open.index, open.len, &mut out);
        if self.write(&out, "ending a segment") {
            if let Err(e) = self.store.sync(&name) {
                return self.fail("synchronising", &e, self.last.unwrap_or_default());
            }
            // Without a tail is as good as with an empty one.
            let _ = self.store.remove(&tail);
            self.segment = None;
        }
    }

    /// Writes what waits as a block.
    fn write_block(&mut self) {
        let count = self.encoder.count() as u64;
        let mut block = Vec::new();
        if self.trouble.is_some() || self.encoder.finish(self.next - count, self.ended, &mut block).is_none() {
            return;
        }
        let Some(open) = &self.segment else { return self.fault("a block without a segment") };
        let mut out = Vec::new();
        put_new_items(open.in_segment, &open.index.items, &mut out);
        let place = BlockPlace::of(open.len + out.len() as u64, &block);
        put_frame(FrameKind::Block, &block, &mut out);
        if !self.write(&out, "writing a block") {
            // The records stay in memory no longer: what the tail has of them is all that can be had.
            self.lose_block(&block);
            return;
        }
        self.counters.blocks += 1;
        self.rows.clear();
        self.ended = place.as_ref().map(|place| place.end).or(self.ended);
        let Some(open) = &mut self.segment else { return self.fault("a block that was written into no segment") };
        open.in_segment = open.index.items.len();
        open.index.blocks.extend(place);
        open.since_images += out.len() as u64;
        let is_due = open.since_images >= CHECKPOINT_MIN.max(open.last_images * CHECKPOINT_SHARE);
        self.empty_tail();
        if is_due {
            self.write_images();
        }
    }

    /// The tail is not needed when its records are in a block that is safe. Most blocks are full before anything is in it.
    fn empty_tail(&mut self) {
        let Some(open) = self.segment.as_mut().filter(|open| open.tail_len > 0) else { return };
        let (name, tail) = (segment_name(open.number), tail_name(open.number));
        open.tail_len = 0;
        open.in_tail = open.in_segment;
        open.is_dirty = false;
        let emptied = self.store.sync(&name).and_then(|()| self.store.truncate(&tail, 0));
        if let Err(e) = emptied {
            self.fail("emptying the tail", &e, self.last.unwrap_or_default());
        }
    }

    /// A block that found no room: its records are lost, and it takes no sequence numbers.
    fn lose_block(&mut self, block: &[u8]) {
        let Some(block) = decode::decode(block) else { return self.fault("a block that its writer cannot read") };
        let all: u64 = block.records().map(|record| record.body.len() as u64).sum();
        let (mut lost, mut untold) = (Count::default(), 0);
        for record in block.records() {
            match Gap::decode(record.body).filter(|_| record.kind == Kind::Gap) {
                None => lost = Count { messages: lost.messages + 1, bytes: lost.bytes + record.body.len() as u64 },
                // Its messages are told by the gap that will stand for the block; what the disk lost is remembered.
                Some(gap) if gap.reason != GapReason::Disk => untold += gap.messages.unwrap_or(0),
                Some(_) => {}
            }
        }
        self.next = block.head.first;
        self.latest = self.ended;
        self.rows.clear();
        let gaps_from = self.next;
        if let Some(open) = &mut self.segment {
            open.index.gaps.retain(|place| place.sequence < gaps_from);
            for record in block.records() {
                let count = &mut open.index.counts[record.kind as usize - 1];
                count.messages = count.messages.saturating_sub(1);
                count.bytes = count.bytes.saturating_sub(record.body.len() as u64);
            }
        }
        let gaps = block.records().filter(|record| record.kind == Kind::Gap).count() as u64;
        self.counters.gaps = self.counters.gaps.saturating_sub(gaps);
        self.counters.written.messages -= block.len() as u64;
        self.counters.written.bytes -= all;
        self.lose(lost.messages, lost.bytes);
        if let Some(trouble) = &mut self.trouble {
            trouble.lost.messages += lost.messages + untold;
            trouble.lost.bytes += lost.bytes;
            trouble.from = trouble.from.min(block.head.wall);
        }
        self.forget_tail();
    }

    /// Records of a lost block in the tail must not be taken for what comes later under the same sequence numbers.
    fn forget_tail(&mut self) {
        if let Some(open) = &mut self.segment {
            open.tail_len = 0;
            open.in_tail = open.in_segment;
            let _ = self.store.truncate(&tail_name(open.number), 0);
        }
    }

    /// Writes the images that have changed since they were last written.
    fn write_images(&mut self) {
        let changed: Vec<u32> = (0..self.held.len() as u32)
            .filter(|item| {
                let held = &self.held[*item as usize];
                held.is_open && held.is_changed && !held.is_in_gap && !held.image.is_refreshing()
            })
            .collect();
        let mut images = Vec::with_capacity(changed.len());
        for item in &changed {
            let parts = parts(&self.held[*item as usize].image, self.items[*item as usize].domain);
            if let Some(number) = self.number(*item).filter(|_| !parts.is_empty()) {
                images.push((number, parts));
            }
        }
        if images.is_empty() {
            return;
        }
        let Some(open) = &self.segment else { return self.fault("a checkpoint without a segment") };
        images.sort_unstable_by_key(|(number, _)| *number);
        let (mut payload, mut out) = (Vec::new(), Vec::new());
        put_images(self.next, &images, &mut payload);
        put_new_items(open.in_segment, &open.index.items, &mut out);
        let offset = open.len + out.len() as u64;
        let start = out.len();
        put_packed(FrameKind::Images, &payload, &mut out);
        let len = out.len() - start - crate::frame::FRAME_HEAD_LEN;
        if !self.write(&out, "writing a checkpoint") {
            return;
        }
        for item in changed {
            self.held[item as usize].is_changed = false;
        }
        let sequence = self.next;
        if let Some(open) = &mut self.segment {
            open.in_segment = open.index.items.len();
            let items = images.into_iter().map(|(item, _)| item).collect();
            open.index.images.push(ImagesPlace { offset, len, sequence, items });
            open.since_images = 0;
            open.last_images = len as u64;
        }
    }

    /// Adds frames to the open segment; false if the disk did not take them all.
    fn write(&mut self, frames: &[u8], doing: &'static str) -> bool {
        let Some(open) = &mut self.segment else {
            self.fault("frames for no segment");
            return false;
        };
        let name = segment_name(open.number);
        match self.store.append(&name, frames) {
            Ok(()) => {
                open.len += frames.len() as u64;
                open.is_dirty = true;
                self.counters.file_bytes += frames.len() as u64;
                true
            }
            Err(e) => {
                // A part of a frame would hide what comes behind it.
                let _ = self.store.truncate(&name, open.len);
                self.fail(doing, &e, self.last.unwrap_or_default());
                false
            }
        }
    }

    fn fail(&mut self, doing: &str, error: &std::io::Error, clocks: Clocks) {
        self.counters.failures += 1;
        let text = format!("{}: {doing} failed: {error}", self.store.name());
        let retry_at = clocks.mono.saturating_add(RETRY);
        match &mut self.trouble {
            Some(trouble) => (trouble.text, trouble.retry_at) = (text, retry_at),
            None => self.trouble = Some(Trouble { text, retry_at, lost: Count::default(), from: clocks.wall }),
        }
    }

    fn lose_to_disk(&mut self, len: usize) {
        self.lose(1, len as u64);
        if let Some(trouble) = &mut self.trouble {
            trouble.lost.messages += 1;
            trouble.lost.bytes += len as u64;
        }
    }

    /// After a while the disk is tried again: with a gap, and the images that are known.
    fn try_again(&mut self, clocks: Clocks) -> bool {
        let Some(mut trouble) = self.trouble.take_if(|trouble| clocks.mono >= trouble.retry_at) else { return false };
        if self.segment.is_none() {
            self.begin(clocks);
        }
        if let Some(open) = self.segment.as_ref().filter(|_| self.trouble.is_none()) {
            // Both files are as long as we know them to be: while the disk took nothing, what was to be cut off has stayed.
            let (name, tail) = (segment_name(open.number), tail_name(open.number));
            let cut = self.store.truncate(&name, open.len).and_then(|()| self.store.truncate(&tail, open.tail_len));
            if let Err(e) = cut.and_then(|()| self.store.sync(&name)) {
                self.fail("trying again", &e, clocks);
            }
        }
        if self.trouble.is_none() && trouble.lost.messages > 0 {
            let messages = Some(trouble.lost.messages);
            let gap = Gap {
                reason: GapReason::Disk,
                from: trouble.from,
                to: clocks.wall,
                messages,
                bytes: trouble.lost.bytes,
            };
            self.counters.gaps += 1;
            self.put_row(Kind::Gap, None, clocks, &gap.encode());
            self.held.iter_mut().for_each(|held| held.is_changed |= held.is_open);
            self.write_block();
            if self.trouble.is_none() {
                // The gap is told. What fails from here on is another one.
                trouble.lost = Count::default();
                trouble.from = clocks.wall;
                self.write_images();
            }
        }
        let Some(again) = &mut self.trouble else { return true };
        // The gap that was lost with its block is the one that is still to be told.
        again.from = trouble.from;
        again.lost.messages += trouble.lost.messages;
        again.lost.bytes += trouble.lost.bytes;
        false
    }

    /// Makes what was recorded so far survive the process, and what could be written the machine. To be called every 100 ms at most.
    pub fn sync(&mut self, clocks: Clocks) {
        if self.trouble.is_some() && !self.try_again(clocks) {
            return;
        }
        // Without a segment nothing was recorded since the last one ended.
        let Some(open) = &mut self.segment else { return };
        let (name, tail) = (segment_name(open.number), tail_name(open.number));
        if !self.rows.is_empty() {
            let mut out = Vec::new();
            put_new_items(open.in_tail.max(open.in_segment), &open.index.items, &mut out);
            let mut rows = self.rows_first.to_le_bytes().to_vec();
            rows.append(&mut self.rows);
            put_frame(FrameKind::Rows, &rows, &mut out);
            let written = self.store.append(&tail, &out).and_then(|()| self.store.sync(&tail));
            if let Err(e) = written {
                // The records are still in the block: they go with it, and the tail is as long as it was.
                let _ = self.store.truncate(&tail, open.tail_len);
                self.rows = rows.split_off(size_of::<u64>());
                return self.fail("writing the tail", &e, clocks);
            }
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

    /// Removes the oldest segments when they are too many or too old. A failure is counted: the next segment tries it again.
    fn keep_to_limits(&mut self, now: u64) {
        if self.remove_oldest(now).is_err() {
            self.counters.failures += 1;
        }
    }

    fn remove_oldest(&mut self, now: u64) -> std::io::Result<()> {
        let files = self.store.files()?;
        let mut segments: Vec<(u64, u64)> =
            files.iter().filter_map(|(name, size)| Some((segment_number(name)?, *size))).collect();
        segments.sort_unstable();
        let mut bytes: u64 = segments.iter().map(|(_, size)| size).sum();
        let newest = self.segment.as_ref().map(|open| open.number);
        for pair in segments.windows(2) {
            let (number, size) = pair[0];
            let is_over = self.config.keep_bytes.is_some_and(|most| bytes > most);
            // A segment ends where the next one begins.
            let end =
                crate::segment::read_head(&self.store, &segment_name(pair[1].0)).map_or(u64::MAX, |head| head.created);
            let is_old = self.config.keep_age_ns.is_some_and(|age| end.saturating_add(age) < now);
            if Some(number) == newest || !is_over && !is_old {
                break;
            }
            self.store.remove(&segment_name(number))?;
            bytes -= size;
            self.counters.removed += 1;
        }
        Ok(())
    }

    /// Ends the recording: everything is in blocks, the segment has its index. What cannot be written is told by [`Journal::trouble`].
    /// Whatever is recorded after this begins another segment.
    pub fn end(&mut self) {
        let clocks = self.last.unwrap_or_default();
        if self.trouble.is_some() {
            // The last attempt does not wait for its time.
            self.try_again(Clocks { mono: u64::MAX, ..clocks });
        }
        self.roll();
    }

    /// As [`Journal::end`], for good.
    ///
    /// # Errors
    /// A part could not be written, with the number of messages that are lost.
    pub fn close(mut self) -> Result<JournalCounters, Error> {
        self.end();
        let Some(trouble) = self.trouble else { return Ok(self.counters) };
        let lost = self.counters.lost.messages;
        let source = std::io::Error::other(format!("{} ({lost} messages lost)", trouble.text));
        Err(Error::Store { name: self.store.name(), doing: "ending the recording", source })
    }

    /// Where it is written.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Where it is written, to be broken or mended by a test.
    pub const fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }
}

/// Appends a table of the items that are not there yet.
fn put_new_items(known: usize, items: &[Item], out: &mut Vec<u8>) {
    if known < items.len() {
        let mut table = Vec::new();
        put_items(known as ItemNumber + 1, &items[known..], &mut table);
        put_packed(FrameKind::Items, &table, out);
    }
}
