//! A recording that is read: by time, by item, and as it was at a time.

use crate::ahead::Ahead;
use crate::block::decode::Block;
use crate::checkpoint::read_images;
use crate::error::{Damage, Error};
use crate::images::{Held, Keeping};
use crate::index::{BlockPlace, Count, ImagesPlace};
use crate::record::{Clocks, Gap, GapReason, Item, ItemNumber, Kind, Record};
use crate::segment::{Segment, is_whole};
use crate::store::{Store, segment_name, segment_number};
use rwf::image::Image;
use std::collections::{BTreeMap, BTreeSet};

/// A recording as it was when it was opened. Its writer may go on; what it writes then is seen by whoever opens it again.
#[derive(Debug)]
pub struct Recording<S> {
    pub(crate) store: S,
    pub(crate) segments: Vec<Segment>,
    damage: Vec<Damage>,
}

/// A record, with the item that it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The record.
    pub record: Record<'a>,
    /// Item of the record, if it is of one.
    pub item: Option<&'a Item>,
}

/// An item as it was.
#[derive(Debug)]
pub struct ImageAt {
    /// Image of the item. Its state is that which the source gave.
    pub image: Image,
    /// Something is missing between its last refresh and the time that was asked for: it is Suspect.
    pub is_in_gap: bool,
    /// Sequence number behind the last record that it is made of.
    pub next: u64,
}

/// Content of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Info {
    /// Segments.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Time of the first and of the last record, nanoseconds since 1970; none if there is no record.
    pub span: Option<(u64, u64)>,
    /// Records of each kind, and the bytes of their messages as they were received.
    pub counts: Vec<(Kind, Count)>,
    /// Items.
    pub items: usize,
    /// Gaps, with their times.
    pub gaps: Vec<(u64, Gap)>,
    /// The newest segment has no end: it is being written, or its writer was killed.
    pub is_open: bool,
}

/// A segment of a recording, for those who take segments one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its number: they are counted from 1 on.
    pub number: u64,
    /// Name of its file.
    pub name: String,
    /// The sequence number of its first record.
    pub first: u64,
    /// The sequence number behind its last record.
    pub next: u64,
    /// Nothing is added to it any more.
    pub is_closed: bool,
}

impl Info {
    /// All records.
    pub fn records(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count.messages).sum()
    }

    /// Bytes of the files by record; 0 without records.
    pub fn bytes_a_record(&self) -> f64 {
        if self.records() == 0 { 0.0 } else { self.bytes as f64 / self.records() as f64 }
    }
}

impl<S: Store> Recording<S> {
    /// Opens a recording. What cannot be read of it is left out, and told by [`Recording::damage`].
    ///
    /// # Errors
    /// The folder cannot be read, has no segment, or no segment that can be read: then why the first cannot.
    pub fn open(store: S) -> Result<Self, Error> {
        let files = store.files().map_err(Error::store(&store.name(), "listing the folder"))?;
        let mut numbers: Vec<(u64, u64)> =
            files.iter().filter_map(|(name, size)| Some((segment_number(name)?, *size))).collect();
        numbers.sort_unstable();
        let (mut segments, mut damage, mut first_error) = (Vec::<Segment>::new(), Vec::new(), None);
        for (number, size) in numbers {
            match Segment::open(&store, number, size, &mut damage) {
                Ok(segment) => segments.push(segment),
                // The segment was too old, and its writer has removed it meanwhile.
                Err(Error::Store { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => {
                    damage.push(Damage::Segment { reason: e.to_string() });
                    first_error.get_or_insert(e);
                }
            }
        }
        if segments.is_empty() {
            return Err(first_error.unwrap_or_else(|| Error::Empty { name: store.name() }));
        }
        let mut recording = Self { store, segments, damage };
        recording.find_missing();
        Ok(recording)
    }

    /// Takes in what its writer has written since it was opened, or looked at last. Segments whose records are all before the sequence number
    /// `from` are let go of: who follows a recording holds what comes, and not what was.
    ///
    /// # Errors
    /// The folder or a segment cannot be read.
    pub fn look_again(&mut self, from: u64) -> Result<(), Error> {
        let files = self.store.files().map_err(Error::store(&self.store.name(), "listing the folder"))?;
        // What retention has removed meanwhile is gone.
        self.segments.retain(|segment| files.contains_key(&segment.name));
        let newest = self.segments.iter().map(|segment| segment.head.number).max();
        let (mut gone, store) = (BTreeSet::new(), &self.store);
        for segment in self.segments.iter_mut().filter(|segment| !segment.is_closed) {
            match segment.look_again(store, files.get(&segment.name).copied().unwrap_or(0)) {
                Ok(()) => {}
                // A segment that was closed and became too old since the folder was listed.
                Err(Error::Store { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    gone.insert(segment.head.number);
                }
                Err(error) => return Err(error),
            }
        }
        self.segments.retain(|segment| !gone.contains(&segment.head.number));
        let mut numbers: Vec<(u64, u64)> =
            files.iter().filter_map(|(name, size)| Some((segment_number(name)?, *size))).collect();
        numbers.retain(|(number, _)| newest.is_none_or(|newest| *number > newest));
        numbers.sort_unstable();
        for (number, size) in numbers {
            match Segment::open(&self.store, number, size, &mut Vec::new()) {
                Ok(segment) => self.segments.push(segment),
                // Its head is being written.
                Err(Error::Foreign { .. } | Error::Head { .. }) => break,
                Err(Error::Store { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let last = self.segments.len().saturating_sub(1);
        let mut at = 0;
        self.segments.retain(|segment| {
            at += 1;
            at > last || !segment.is_closed || segment.index.next().is_none_or(|next| next > from)
        });
        Ok(())
    }

    /// The number that all segments of this recording have, and no other recording has.
    pub fn id(&self) -> u64 {
        self.segments.first().map_or(0, |segment| segment.head.recording)
    }

    /// Its segments that are there, the oldest first.
    pub fn segments(&self) -> impl Iterator<Item = SegmentInfo> {
        self.segments.iter().map(|segment| SegmentInfo {
            number: segment.head.number,
            name: segment.name.clone(),
            first: segment.head.first,
            next: segment.index.next().unwrap_or(segment.head.first),
            is_closed: segment.is_closed,
        })
    }

    /// The sequence number behind its last record.
    pub fn next_sequence(&self) -> u64 {
        let last = self.segments.last();
        last.map_or(0, |segment| segment.index.next().unwrap_or(segment.head.first))
    }

    /// Records that should be between two blocks.
    fn find_missing(&mut self) {
        let mut next = None;
        for segment in &self.segments {
            for block in &segment.index.blocks {
                if let Some(from) = next.filter(|next| *next < block.first) {
                    let to = block.first - 1;
                    self.damage.push(Damage::Missing { segment: segment.name.clone(), from, to });
                }
                next = Some(block.next());
            }
        }
    }

    /// Damage that was found when it was opened.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// All items, in order.
    pub fn items(&self) -> BTreeSet<&Item> {
        self.segments.iter().flat_map(|segment| &segment.index.items).collect()
    }

    /// Content of the recording, as far as the indexes tell.
    pub fn info(&self) -> Info {
        let mut counts: BTreeMap<Kind, Count> = BTreeMap::new();
        let mut gaps = Vec::new();
        for segment in &self.segments {
            for (kind, count) in Kind::ALL.into_iter().zip(segment.index.counts) {
                let sum = counts.entry(kind).or_default();
                sum.messages += count.messages;
                sum.bytes += count.bytes;
            }
            gaps.extend(segment.index.gaps.iter().map(|place| (place.time, place.gap)));
        }
        let mut blocks = self.blocks();
        let first = blocks.next();
        let last = blocks.last().or(first);
        Info {
            segments: self.segments.len(),
            bytes: self.segments.iter().map(|segment| segment.size).sum(),
            span: first.zip(last).map(|(first, last)| (first.begin, last.end)),
            counts: counts.into_iter().filter(|(_, count)| count.messages > 0).collect(),
            items: self.items().len(),
            gaps,
            is_open: self.segments.last().is_some_and(|segment| !segment.is_closed),
        }
    }

    fn blocks(&self) -> impl Iterator<Item = &BlockPlace> {
        self.segments.iter().flat_map(|segment| &segment.index.blocks)
    }

    /// How many records fall into each of so many equal parts of the span, to a block's accuracy: what a sparkline shows.
    pub fn rates(&self, parts: usize) -> Vec<f64> {
        self.info().span.map_or_else(|| vec![0.0; parts], |(begin, end)| self.rates_between(begin, end, parts))
    }

    /// How many records fall into each of so many equal parts of a time from `begin` to `end`, nanoseconds since 1970, to a block's accuracy.
    pub fn rates_between(&self, begin: u64, end: u64, parts: usize) -> Vec<f64> {
        /// Of a part.
        const INSTANT: f64 = 1e-6;
        let mut rates = vec![0.0; parts];
        let part = (end.saturating_sub(begin) as f64 / parts.max(1) as f64).max(1.0);
        let place = |time: u64| {
            let distance = time.abs_diff(begin) as f64 / part;
            if time < begin { -distance } else { distance }
        };
        for block in self.blocks().filter(|block| block.end >= begin && block.begin <= end) {
            // A block of one moment has a length of nearly nothing, and one at the end is within the last part.
            let from = place(block.begin).min(parts as f64 - INSTANT);
            let to = place(block.end).max(from + INSTANT);
            for (at, rate) in
                rates.iter_mut().enumerate().skip(from.max(0.0) as usize).take_while(|(at, _)| (*at as f64) < to)
            {
                let share = (to.min(at as f64 + 1.0) - from.max(at as f64)).max(0.0) / (to - from);
                *rate += block.count as f64 * share;
            }
        }
        rates
    }

    /// All records from a time on, nanoseconds since 1970.
    pub fn from_time(&self, from: u64) -> Cursor<'_, S> {
        Cursor::new(self, from, None)
    }

    /// All records from a sequence number on, or from the first that is there.
    pub fn from_sequence(&self, from: u64) -> Cursor<'_, S> {
        let mut cursor = Cursor::new(self, 0, None);
        let is_over = |segment: &Segment| segment.index.next().is_none_or(|next| next <= from);
        let segment = self.segments.iter().position(|segment| !is_over(segment)).unwrap_or(self.segments.len());
        let blocks = self.segments.get(segment).map_or(&[][..], |segment| &segment.index.blocks);
        (cursor.segment, cursor.block) = (segment, blocks.iter().position(|block| block.next() > from).unwrap_or(0));
        cursor.skip_below = from;
        cursor
    }

    /// The records of one item from a time on, and all gaps.
    pub fn of_item(&self, item: &Item, from: u64) -> Cursor<'_, S> {
        Cursor::new(self, from, Some(item.clone()))
    }

    /// The image of an item as it was behind all records up to a time; `None` if the item was not open then, or has no whole image before it.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn image_at(&self, item: &Item, at: u64) -> Result<Option<ImageAt>, Error> {
        let Some(last) = self.segment_at(at) else { return Ok(None) };
        let mut held = Held::default();
        let mut keeping = Keeping::new();
        let mut next = self.begin_image(item, last, at, &mut held, &mut keeping)?;
        let start = self.segments.iter().rposition(|segment| segment.head.first <= next).unwrap_or(0);
        for segment in &self.segments[start..=last] {
            let number = segment.number_of(item);
            for place in segment.index.blocks.iter().filter(|place| place.begin <= at) {
                if place.next() <= next {
                    continue;
                }
                // A hole before it is as bad as a gap that was recorded.
                held.is_in_gap |= place.first > next;
                if has(segment, place, number) {
                    match self.block_of(segment, place, number)? {
                        None => held.is_in_gap = true,
                        Some(block) => apply(&block, number, next, at, &mut held, &mut keeping),
                    }
                }
                next = place.next();
            }
        }
        let is_known = held.is_open && held.image.is_whole();
        Ok(is_known.then(|| ImageAt { image: held.image, is_in_gap: held.is_in_gap, next }))
    }

    /// The last segment that has a record up to this time.
    pub(crate) fn segment_at(&self, at: u64) -> Option<usize> {
        self.segments.iter().rposition(|segment| segment.index.blocks.first().is_some_and(|block| block.begin <= at))
    }

    /// Takes the newest checkpoint of an item up to a time, and tells from which record on to go. Without one that is the first.
    fn begin_image(
        &self,
        item: &Item,
        last: usize,
        at: u64,
        held: &mut Held,
        keeping: &mut Keeping,
    ) -> Result<u64, Error> {
        for segment in self.segments[..=last].iter().rev() {
            let Some(number) = segment.number_of(item) else { continue };
            let is_in_time =
                |images: &&ImagesPlace| images.items.contains(number) && segment.index.ended_before(images) <= at;
            for images in segment.index.images.iter().rev().filter(is_in_time) {
                let Some(payload) = segment.images_of(&self.store, images, number)? else {
                    continue;
                };
                let Some((sequence, images)) = read_images(&payload) else { continue };
                if let Some((_, parts)) = images.into_iter().find(|(item, _)| *item == number) {
                    for part in parts {
                        keeping.apply(held, Kind::Refresh, part);
                    }
                    return Ok(sequence);
                }
            }
        }
        Ok(self.segments.first().map_or(0, |segment| segment.head.first))
    }

    /// A block; `None` if it is damaged.
    pub(crate) fn block(&self, segment: &Segment, place: &BlockPlace) -> Result<Option<Block>, Error> {
        segment.block(&self.store, place)
    }

    /// The records of an item in a block, and all others, too, if there is a gap among them; `None` if it is damaged.
    fn block_of(
        &self,
        segment: &Segment,
        place: &BlockPlace,
        item: Option<ItemNumber>,
    ) -> Result<Option<Block>, Error> {
        match item.filter(|_| !segment.has_gap(place)) {
            Some(item) => segment.block_of(&self.store, place, item),
            None => segment.block(&self.store, place),
        }
    }

    /// The segments' names and whether each has its end, for who rewrites them.
    pub(crate) fn parts(self) -> (S, Vec<Segment>) {
        (self.store, self.segments)
    }
}

/// Whether a block has records of an item, or gaps.
fn has(segment: &Segment, place: &BlockPlace, number: Option<ItemNumber>) -> bool {
    let has_item = number.is_some_and(|number| place.items.contains(number));
    has_item || segment.has_gap(place)
}

/// Applies what a block has of an item from a record on up to a time.
fn apply(block: &Block, number: Option<ItemNumber>, next: u64, at: u64, held: &mut Held, keeping: &mut Keeping) {
    for (row, record) in block.records().enumerate() {
        let Some((item, time)) = block.place(row) else { return };
        if time > at {
            return;
        }
        if record.sequence < next {
            continue;
        }
        if Some(item) == number {
            keeping.apply(held, record.kind, record.body);
        } else if record.kind == Kind::Gap && Gap::decode(record.body).is_some_and(|gap| gap.reason.hides_messages()) {
            held.is_in_gap = true;
        }
    }
}

/// How many records before its own a message is asked for.
const AHEAD: usize = 12;

/// Goes through a recording, forwards. In the place of what cannot be read it gives a gap.
#[derive(Debug)]
pub struct Cursor<'a, S> {
    recording: &'a Recording<S>,
    from: u64,
    only: Option<Item>,
    /// The segment and the block that come next.
    segment: usize,
    block: usize,
    /// The block that is read, the segment it is of, and the row that comes next.
    current: Option<(Block, usize)>,
    row: usize,
    /// The number of the item of [`Cursor::only`] in a segment, and in which.
    number: Option<ItemNumber>,
    numbered: Option<usize>,
    /// The sequence number that comes next, and the time so far.
    next: Option<u64>,
    time: u64,
    /// A gap that was found here, and the sequence number at which it is.
    gap: Option<(u64, [u8; 33])>,
    /// Records with smaller sequence numbers are passed over.
    skip_below: u64,
    /// Blocks that were read, and who takes the next one apart.
    blocks: u64,
    ahead: Option<Ahead>,
}

/// Record that a cursor comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Row,
    Gap,
    End,
}

impl<'a, S: Store> Cursor<'a, S> {
    fn new(recording: &'a Recording<S>, from: u64, only: Option<Item>) -> Self {
        let is_over = |segment: &Segment| segment.index.blocks.last().is_none_or(|block| block.end < from);
        let segment =
            recording.segments.iter().position(|segment| !is_over(segment)).unwrap_or(recording.segments.len());
        let blocks = recording.segments.get(segment).map_or(&[][..], |segment| &segment.index.blocks);
        let block = blocks.iter().position(|block| block.end >= from).unwrap_or(0);
        Self {
            recording,
            from,
            only,
            segment,
            block,
            current: None,
            row: 0,
            number: None,
            numbered: None,
            next: None,
            time: 0,
            gap: None,
            skip_below: 0,
            blocks: 0,
            ahead: None,
        }
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// A segment cannot be read. The cursor is behind the block that it tried.
    #[expect(clippy::should_implement_trait, reason = "what it gives is lent")]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, Error> {
        let step = self.step()?;
        self.ask_for_item();
        Ok(self.entry(step))
    }

    /// The record that the last step came to.
    #[inline]
    pub(crate) fn record(&self, step: Step) -> Option<Record<'_>> {
        match step {
            Step::End => None,
            Step::Gap => {
                let clocks = Clocks { wall: self.time, mono: 0, source: None };
                let (sequence, body) = self.gap.as_ref()?;
                Some(Record { sequence: *sequence, time: self.time, kind: Kind::Gap, item: 0, clocks, body })
            }
            Step::Row => self.current.as_ref()?.0.record(self.row - 1),
        }
    }

    /// Asks for the memory of the item of a record to come: of many items each is looked at in its turn.
    #[inline]
    fn ask_for_item(&self) {
        let coming = self.coming(AHEAD).and_then(|number| item_of(self.place()?.1, number));
        if let Some(item) = coming {
            lines::fetch(&[std::ptr::from_ref(item).cast()]);
        }
    }

    /// The item of a record so many behind the one that the last step came to, if its block is read.
    #[inline]
    pub(crate) fn coming(&self, distance: usize) -> Option<ItemNumber> {
        let (block, _) = self.current.as_ref()?;
        block.place(self.row - 1 + distance).map(|(item, _)| item)
    }

    /// The same, with its item.
    pub(crate) fn entry(&self, step: Step) -> Option<Entry<'_>> {
        let record = self.record(step)?;
        let items = self.place().filter(|_| step == Step::Row).map_or(&[][..], |(_, items)| items);
        Some(Entry { record, item: item_of(items, record.item) })
    }

    /// The segment of the record that the last step came to, and its items; `None` for gaps in the place of what cannot be read.
    pub(crate) fn place(&self) -> Option<(usize, &'a [Item])> {
        let (_, segment) = self.current.as_ref()?;
        Some((*segment, &self.recording.segments[*segment].index.items))
    }

    /// Goes on to the next record.
    pub(crate) fn step(&mut self) -> Result<Step, Error> {
        loop {
            if let Some((block, _)) = &self.current {
                while let Some((item, time)) = block.place(self.row) {
                    self.row += 1;
                    self.time = time;
                    let is_wanted =
                        self.only.is_none() || Some(item) == self.number || item == 0 && is_gap(block, self.row - 1);
                    let is_in_range =
                        time >= self.from && block.sequence(self.row - 1).is_some_and(|at| at >= self.skip_below);
                    if is_in_range && is_wanted {
                        block.ask_for(self.row + AHEAD);
                        return Ok(Step::Row);
                    }
                }
                self.current = None;
            }
            let Some(segment) = self.recording.segments.get(self.segment) else { return Ok(Step::End) };
            let Some(place) = segment.index.blocks.get(self.block) else {
                (self.segment, self.block) = (self.segment + 1, 0);
                continue;
            };
            if let Some(next) = self.next.filter(|next| *next < place.first) {
                self.next = Some(place.first);
                return Ok(self.gap(next, place.first - next, place.begin));
            }
            self.block += 1;
            self.next = Some(place.next());
            if let Some(item) = self.only.as_ref().filter(|_| self.numbered != Some(self.segment)) {
                self.number = segment.number_of(item);
                self.numbered = Some(self.segment);
            }
            if self.only.is_some() && !has(segment, place, self.number) {
                continue;
            }
            match self.block(segment, place)? {
                Some(block) => (self.current, self.row) = (Some((block, self.segment)), 0),
                None => return Ok(self.gap(place.first, place.count, place.end)),
            }
        }
    }

    /// The block that comes next, of which the place is told; `None` if it is damaged. Who reads all of it has the next one taken apart meanwhile.
    fn block(&mut self, segment: &Segment, place: &BlockPlace) -> Result<Option<Block>, Error> {
        if self.only.is_some() {
            return self.recording.block_of(segment, place, self.number);
        }
        // The block before is done with: its memory is the next one's.
        self.current = None;
        let at = (self.segment, self.block);
        let taken = self.ahead.as_mut().and_then(|ahead| ahead.take(at)).filter(|block| is_whole(block, place));
        let block = if taken.is_some() { taken } else { self.recording.block(segment, place)? };
        self.look_ahead();
        Ok(block)
    }

    /// From the second block on, the next one is asked for. What cannot be read is read again in its turn, and told then.
    fn look_ahead(&mut self) {
        self.blocks += 1;
        if self.blocks == 2 {
            self.ahead = Ahead::start();
        }
        let Some(ahead) = &mut self.ahead else { return };
        let recording = self.recording;
        let block = |segment: usize, block: usize| {
            let place = recording.segments.get(segment)?.index.blocks.get(block)?;
            Some(((segment, block + 1), place))
        };
        // The cursor is behind the block that was read.
        let next = block(self.segment, self.block).or_else(|| block(self.segment + 1, 0));
        let Some((at, place)) = next else { return };
        if let Ok(Some(payload)) = recording.segments[at.0].block_payload(&recording.store, place) {
            ahead.ask(at, payload);
        }
    }

    /// Something is missing here.
    fn gap(&mut self, sequence: u64, messages: u64, to: u64) -> Step {
        let from = if self.time == 0 { to } else { self.time };
        let gap = Gap { reason: GapReason::Damaged, from, to, messages: Some(messages), bytes: 0 };
        self.time = to;
        self.gap = Some((sequence, gap.encode()));
        Step::Gap
    }
}

fn is_gap(block: &Block, row: usize) -> bool {
    block.record(row).is_some_and(|record| record.kind == Kind::Gap)
}

fn item_of(items: &[Item], number: ItemNumber) -> Option<&Item> {
    items.get((number as usize).checked_sub(1)?)
}

/// The number of a segment, by its name.
pub(crate) fn name_of(segment: &Segment) -> String {
    segment_name(segment.head.number)
}
