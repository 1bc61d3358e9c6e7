//! The writer without its thread: messages go in, files grow.
//!
//! A record waits in memory until its block is full. What waits is written to the *tail* at every [`Journal::sync`], so that a process
//! that is killed loses what came since then; when the block is written, the tail is emptied.

mod limits;
mod surviving;
mod trouble;

use crate::checkpoint::Images;
use crate::error::{Damage, Error};
use crate::frame::{FILE_HEAD_LEN, FileHead, FrameKind, PACKED_VERSION, VERSION, put_frame, put_packed};
use crate::images::{Held, Keeping, parts};
use crate::index::{BlockPlace, Count, GapPlace, ImagesPlace, Index, put_items};
use crate::packing::{Job, Packed, Packer, Rows, Unpacked};
use crate::record::{Clocks, Gap, GapReason, Item, ItemNumber, Kind};
use crate::row::{put_row, put_row_behind};
use crate::segment::{Segment, put_end};
use crate::store::{Store, segment_name, segment_number, tail_name};
use rwf::image::Image;
use surviving::{Beside, Mark};
use trouble::Trouble;

/// Bytes of a message that can be recorded: RWF has none of more.
pub const MESSAGE_MAX: usize = 1 << 20;
/// A wall clock that falls back by more against the monotonic one was set back, nanoseconds.
const SET_BACK_MIN: i64 = 1_000_000;
/// A checkpoint is written when the blocks since the last one are so many times its size.
const CHECKPOINT_SHARE: u64 = 8;
/// Bytes of blocks between two checkpoints at least.
const CHECKPOINT_MIN: u64 = 128 << 10;
/// Bytes of blocks that are not packed count for so many: as many as packing saves of updates. Checkpoints stand as many records apart as in blocks that are packed.
const UNPACKED_SHARE: u64 = 16;

/// For [`JournalConfig::unpacked_bytes`], of services: less that waits is written to the tail, and once more with its block.
pub const UNPACKED_BYTES: usize = 1 << 20;

/// How a recording is cut into pieces, and how much of it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalConfig {
    /// Records of one block: more pack better, fewer are read sooner.
    pub block_records: usize,
    /// Bytes of the messages of one block.
    pub block_bytes: usize,
    /// Records of one slice of a block, which has those of some items: fewer are read sooner for one item, more pack better. A block of no more is not sliced.
    pub slice_records: usize,
    /// Bytes of one segment.
    pub segment_bytes: u64,
    /// How long one segment is, nanoseconds.
    pub segment_age_ns: u64,
    /// Bytes of all segments together: the oldest go. None: as many as the disk has.
    pub keep_bytes: Option<u64>,
    /// How long records are kept, nanoseconds. A segment goes when all in it is older.
    pub keep_age_ns: Option<u64>,
    /// Blocks are written as their records came, not packed; and a [`Journal::sync`] that finds so many bytes waiting makes a block of them, so that they are written
    /// once. For who has more to write than can be packed. None: blocks are packed.
    pub unpacked_bytes: Option<usize>,
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self {
            block_records: 1 << 15,
            block_bytes: 4 << 20,
            slice_records: 1 << 11,
            segment_bytes: 256 << 20,
            segment_age_ns: 3_600_000_000_000,
            keep_bytes: None,
            keep_age_ns: None,
            unpacked_bytes: None,
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
    /// By item: its number in the segment, 0 where it has none yet.
    numbers: Vec<ItemNumber>,
    /// Items that the segment's file has, and those that segment or tail have.
    in_segment: usize,
    in_tail: usize,
    tail_len: u64,
    is_dirty: bool,
    /// Bytes of blocks since the last checkpoint.
    since_images: u64,
    last_images: u64,
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
    packer: Packer,
    /// Records of the block that grows, and memory for those of the next.
    rows: Rows,
    spare: Rows,
    /// How many bytes of them the tail has, and the sequence number of the first record that it lacks.
    in_tail: (usize, u64),
    /// Time at the end of the last block that was given to be packed, and the sequence number of its first record.
    given: Option<u64>,
    given_first: u64,
    /// How far it was at the last [`Journal::keep_up`], and who synchronises files beside.
    mark: Mark,
    beside: Beside,
    items: Vec<Item>,
    held: Vec<Held>,
    keeping: Keeping,
    trouble: Option<Trouble>,
    /// Records from this wall clock on are not removed for their age.
    needed_from: u64,
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
        let packer = Packer::new(config.slice_records).map_err(memory)?;
        let mut journal = Self {
            config,
            recording: 0,
            next_number: 1,
            next: 0,
            latest: None,
            ended: None,
            last: None,
            segment: None,
            packer,
            rows: Rows::default(),
            spare: Rows::default(),
            in_tail: (0, 0),
            given: None,
            given_first: 0,
            mark: Mark::default(),
            beside: Beside::default(),
            items: Vec::new(),
            held: Vec::new(),
            keeping: Keeping::new(),
            trouble: None,
            needed_from: u64::MAX,
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
        (self.ended, self.given) = (self.latest, self.latest);
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
        put_end(segment.head.version, &segment.index, segment.len + out.len() as u64, &mut out);
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

    /// What was recorded last of this item, if it is open and whole.
    pub fn image(&self, item: u32) -> Option<&Image> {
        self.held.get(item as usize).filter(|held| held.is_open && held.image.is_whole()).map(|held| &held.image)
    }

    /// It is known from elsewhere that nothing was missing up to this wall clock, when nobody recorded any more: the gap begins no sooner.
    pub fn was_alive_until(&mut self, wall: u64) {
        if let Some((GapReason::Restart, from, ..)) = &mut self.gap {
            *from = wall.max(*from);
        }
    }

    /// Somebody who reads behind the writer has come so far: records from this wall clock on stay, however old they are (see
    /// [`JournalConfig::keep_age_ns`]), as long as there is room for them ([`JournalConfig::keep_bytes`]).
    pub const fn keep_from(&mut self, wall: u64) {
        self.needed_from = wall;
    }

    /// Records the gap between the writer before and this one now, and not with the first message.
    pub fn tell_gap(&mut self, clocks: Clocks) {
        if let Some((reason, from, messages, bytes)) = self.gap.take() {
            self.put_gap(Gap { reason, from, to: clocks.wall, messages, bytes }, clocks);
        }
    }

    /// Records a message, of an item that was made known or of none. Never fails: what cannot be written is a gap.
    pub fn append(&mut self, kind: Kind, item: Option<u32>, clocks: Clocks, body: &[u8]) {
        self.look_at_clock(clocks);
        let item = item.filter(|item| (*item as usize) < self.items.len());
        self.tell_gap(clocks);
        // A segment that begins here begins with the images of before.
        let has_room = self.make_room(clocks);
        if let Some(held) = item.and_then(|item| self.held.get_mut(item as usize)) {
            self.keeping.apply(held, kind, body);
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
        } else if has_room {
            self.put_there(kind, item, clocks, body);
        } else {
            self.lose_to_disk(body.len());
        }
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
        if self.make_room(clocks) {
            self.put_there(kind, item, clocks, body);
        } else {
            self.lose_to_disk(body.len());
        }
    }

    /// There is a segment for what comes; false: the disk takes nothing.
    fn make_room(&mut self, clocks: Clocks) -> bool {
        if self.trouble.is_some() && !self.try_again(clocks) {
            return false;
        }
        if self.segment.as_ref().is_some_and(|open| self.is_full(open, clocks)) {
            self.roll();
        }
        if self.segment.is_none() && self.trouble.is_none() {
            self.begin(clocks);
        }
        self.trouble.is_none()
    }

    /// Puts a record where there is room for it.
    fn put_there(&mut self, kind: Kind, item: Option<u32>, clocks: Clocks, body: &[u8]) {
        self.put_row(kind, item, clocks, body);
        if self.rows.count >= self.config.block_records || self.rows.raw >= self.config.block_bytes {
            self.give_block();
        }
    }

    fn put_row(&mut self, kind: Kind, item: Option<u32>, clocks: Clocks, body: &[u8]) {
        if self.segment.is_none() {
            return self.fault("a record without a segment");
        }
        let number = item.and_then(|item| self.number(item)).unwrap_or(0);
        if self.rows.count == 0 {
            (self.rows.first, self.rows.wall, self.in_tail) = (self.next, clocks.wall, (0, self.next));
        }
        match self.rows.last {
            Some(last) => put_row_behind(last, kind, number, clocks, body, &mut self.rows.bytes),
            None => put_row(kind, number, clocks, body, &mut self.rows.bytes),
        }
        // Rows that are packed are read one by one, in any order.
        self.rows.last = self.config.unpacked_bytes.map(|_| clocks);
        self.rows.count += 1;
        self.rows.raw += body.len();
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
        if open.numbers.len() <= item as usize {
            open.numbers.resize(self.items.len(), 0);
        }
        let number = open.numbers.get_mut(item as usize)?;
        if *number == 0 {
            open.index.items.push(self.items[item as usize].clone());
            *number = open.index.items.len() as ItemNumber;
        }
        Some(*number)
    }

    /// A new segment, which begins with the images that are known.
    fn begin(&mut self, clocks: Clocks) {
        if self.recording == 0 {
            // Recordings are told apart by when they began.
            self.recording = clocks.wall.rotate_left(17) ^ clocks.mono | 1;
        }
        let number = self.next_number;
        let head = FileHead {
            version: self.version(),
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
            numbers: Vec::new(),
            in_segment: 0,
            in_tail: 0,
            tail_len: 0,
            is_dirty: true,
            since_images: 0,
            last_images: 0,
        });
        self.held.iter_mut().for_each(|held| held.is_changed |= held.is_open);
        self.write_images_now();
        self.keep_to_limits(clocks.wall);
    }

    /// Ends the open segment, if there is one that the disk takes.
    fn roll(&mut self) {
        self.write_block();
        let Some(open) = self.segment.as_ref().filter(|_| self.trouble.is_none()) else { return };
        let (name, tail) = (segment_name(open.number), tail_name(open.number));
        let mut out = Vec::new();
        put_end(self.version(), &open.index, open.len, &mut out);
        if self.write(&[&out], "ending a segment") {
            if let Err(e) = self.store.sync(&name) {
                return self.fail("synchronising", &e, self.last.unwrap_or_default());
            }
            // Without a tail is as good as with an empty one.
            let _ = self.store.remove(&tail);
            self.segment = None;
        }
    }

    /// The version of the segments that are written.
    const fn version(&self) -> u16 {
        if self.config.unpacked_bytes.is_some() { VERSION } else { PACKED_VERSION }
    }

    /// Gives what waits to be packed or written, when the block before is written.
    fn give_block(&mut self) {
        self.settle();
        if let Some(job) = self.job(true)
            && let Err(packed) = self.packer.give(job)
        {
            self.write_packed(*packed);
        }
    }

    /// Writes what waits as a block.
    fn write_block(&mut self) {
        self.settle();
        let Some(job) = self.job(false) else { return };
        match self.packer.pack(job) {
            Some(packed) => self.write_packed(packed),
            None => self.fault("a block was not packed"),
        }
    }

    /// Writes the block that was given to be packed, if there is one.
    fn settle(&mut self) {
        if !self.packer.is_busy() {
            return;
        }
        match self.packer.wait() {
            Some(packed) => self.write_packed(packed),
            None => self.fault("a block was not packed"),
        }
    }

    /// Messages that wait, to become a block, with a checkpoint behind it if it is time for one. `beside`: a block that is not packed is written by who gets it, where the store
    /// has a way for that.
    fn job(&mut self, beside: bool) -> Option<Job> {
        if self.trouble.is_some() || self.rows.count == 0 {
            return None;
        }
        let Some(open) = &self.segment else {
            self.fault("a block without a segment");
            return None;
        };
        let name = segment_name(open.number);
        let share = if self.config.unpacked_bytes.is_some() { UNPACKED_SHARE } else { 1 };
        let is_due = open.since_images / share >= CHECKPOINT_MIN.max(open.last_images * CHECKPOINT_SHARE);
        let images = if is_due { self.images() } else { None };
        // Behind the images: they may bring items of their own.
        let unpacked = self.config.unpacked_bytes.and_then(|_| {
            let open = self.segment.as_ref()?;
            let mut items = Vec::new();
            put_new_items(open.in_segment, &open.index.items, &mut items);
            // A file that cannot be had is told by who writes it here.
            let append = if beside { self.store.appender(&name).ok().flatten() } else { None };
            Some(Unpacked { items, known: open.index.items.len(), append })
        });
        let before = std::mem::replace(&mut self.given, self.latest);
        let mut rows = std::mem::replace(&mut self.rows, std::mem::take(&mut self.spare));
        rows.in_tail = std::mem::take(&mut self.in_tail).0;
        self.given_first = rows.first;
        Some(Job { rows, before, images, unpacked })
    }

    /// Writes a block, unless that has happened, and the checkpoint behind it.
    fn write_packed(&mut self, packed: Packed) {
        let Packed { rows, block, place, raw, images } = packed;
        let Some(open) = &self.segment else { return self.fault("a block without a segment") };
        let (mut out, mut known) = (Vec::new(), open.index.items.len());
        // A block that is not packed has its items before it, and its rows behind it.
        let (mut rest, mut written) = (&[][..], None);
        match raw {
            None => put_new_items(open.in_segment, &open.index.items, &mut out),
            Some(raw) => (known, rest, written) = (raw.known, &rows.bytes, raw.written),
        }
        let start = open.len + out.len() as u64;
        let is_whole = place.as_ref().is_some_and(|place| place.count == rows.count as u64);
        if !is_whole {
            self.fault("a block lacks rows");
        }
        let (frames, doing) = ([&out[..], &block, rest], "writing a block");
        let len = frames.iter().map(|piece| piece.len() as u64).sum();
        let is_written = match written {
            None => self.write(&frames, doing),
            Some(written) => self.wrote(written, len, doing),
        };
        if !is_written {
            self.lose_block(rows);
            self.changed_again(images.map(|(images, ..)| images));
            return;
        }
        self.counters.blocks += 1;
        self.ended = place.as_ref().map(|place| place.end).or(self.ended);
        let Some(open) = &mut self.segment else { return self.fault("a block that was written into no segment") };
        open.in_segment = known;
        open.index.blocks.extend(place.map(|place| BlockPlace { offset: start + place.offset, ..place }));
        open.since_images += len;
        self.empty_tail();
        if let Some((images, frame, len)) = images {
            self.write_images(images, &frame, len);
        }
        self.spare = rows;
        self.spare.clear();
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

    /// The images that have changed since they were last written, as they are behind all rows.
    fn images(&mut self) -> Option<Images> {
        let changed: Vec<u32> = (0..self.held.len() as u32)
            .filter(|item| {
                let held = &self.held[*item as usize];
                held.is_open && held.is_changed && !held.is_in_gap && !held.image.is_refreshing()
            })
            .collect();
        let (mut parted, mut room) = (Vec::with_capacity(changed.len()), Vec::new());
        for item in &changed {
            let parts = parts(&self.held[*item as usize].image, self.items[*item as usize].domain, &mut room);
            if let Some(number) = self.number(*item).filter(|_| !parts.is_empty()) {
                parted.push((number, parts));
            }
        }
        if parted.is_empty() {
            return None;
        }
        for item in &changed {
            self.held[*item as usize].is_changed = false;
        }
        parted.sort_unstable_by_key(|(number, _)| *number);
        let mut images = Images::new(self.next, changed);
        for (number, parts) in &parted {
            images.add(*number, parts);
        }
        Some(images)
    }

    /// A checkpoint was not written: its images are to be written again.
    fn changed_again(&mut self, images: Option<Images>) {
        for item in images.into_iter().flat_map(|images| images.items) {
            if let Some(held) = self.held.get_mut(item as usize) {
                held.is_changed = true;
            }
        }
    }

    /// Writes the images that have changed since they were last written. Nothing waits to be a block.
    fn write_images_now(&mut self) {
        if let Some(images) = self.images() {
            let (frame, len) = images.frame();
            self.write_images(images, &frame, len);
        }
    }

    /// Writes a checkpoint, whose frame has a payload of so many bytes.
    fn write_images(&mut self, images: Images, frame: &[u8], len: usize) {
        let Some(open) = &self.segment else { return self.fault("a checkpoint without a segment") };
        let mut out = Vec::new();
        put_new_items(open.in_segment, &open.index.items, &mut out);
        let offset = open.len + out.len() as u64;
        out.extend_from_slice(frame);
        if !self.write(&[&out], "writing a checkpoint") {
            return self.changed_again(Some(images));
        }
        if let Some(open) = &mut self.segment {
            open.in_segment = open.index.items.len();
            let items = images.numbers.into_iter().collect();
            open.index.images.push(ImagesPlace { offset, len, sequence: images.sequence, items });
            open.since_images = 0;
            open.last_images = len as u64;
        }
    }

    /// Adds frames, in pieces, to the open segment; false if the disk did not take them all.
    fn write(&mut self, frames: &[&[u8]], doing: &'static str) -> bool {
        let Some(open) = &self.segment else {
            self.fault("frames for no segment");
            return false;
        };
        let name = segment_name(open.number);
        let written = frames.iter().try_for_each(|piece| self.store.append(&name, piece));
        self.wrote(written, frames.iter().map(|piece| piece.len() as u64).sum(), doing)
    }

    /// So many bytes were added to the open segment, or not; false if the disk did not take them all.
    fn wrote(&mut self, written: std::io::Result<()>, len: u64, doing: &'static str) -> bool {
        let Some(open) = &mut self.segment else {
            self.fault("frames for no segment");
            return false;
        };
        match written {
            Ok(()) => {
                open.len += len;
                open.is_dirty = true;
                self.counters.file_bytes += len;
                true
            }
            Err(e) => {
                // A part of a frame would hide what comes behind it.
                let _ = self.store.truncate(&segment_name(open.number), open.len);
                self.fail(doing, &e, self.last.unwrap_or_default());
                false
            }
        }
    }

    /// Sequence number of the record that comes next.
    pub const fn next_sequence(&self) -> u64 {
        self.next
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
