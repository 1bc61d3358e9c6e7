//! Sliced blocks: the records of a block by ranges of items.
//!
//! A slice is laid out as a plain block is, with one section more, which says where in the block its records stand.

use super::decode::{Block, Entry, Opened, likely_raw};
use super::encode::Encoder;
use super::join::REGISTER;
use super::{HEAD_LEN, Head};
use crate::bytes::{Input, checksum};
use crate::record::ItemNumber;

/// Slices of one block.
pub(crate) const SLICES_MAX: usize = 1024;
/// Bytes of a slice's entry in the directory.
pub(crate) const PLACE_LEN: usize = 16;
/// Items are counted by their numbers as long as those are no more than so many, and so many times the records.
const DENSE_MIN: usize = 1 << 16;
const DENSE: usize = 8;
/// Where in the head the flags are, and the checksum of what precedes it and of the directory.
const FLAGS: usize = 52;
const CHECK: usize = 60;
/// No wall clock of the block is less than the one before: the time of each record is its wall clock.
const ASCENDS: u8 = 1;

/// A slice of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Smallest number of its items: they are less than the next slice's.
    first_item: ItemNumber,
    /// Records.
    count: u32,
    /// Where it begins in the block, and its bytes.
    pub(crate) offset: usize,
    pub(crate) len: usize,
    check: u32,
}

/// Head and directory of a sliced block.
#[derive(Debug)]
pub(crate) struct Sliced {
    pub(crate) head: Head,
    /// See [`ASCENDS`].
    pub(crate) ascends: bool,
    pub(crate) slices: Vec<Place>,
}

impl Sliced {
    /// Bytes of head and directory, as the first [`HEAD_LEN`] bytes tell; `None` if they are no head.
    pub(crate) fn len_of(block: &[u8]) -> Option<usize> {
        let count = Head::decode(block)?.sections as usize;
        (1..=SLICES_MAX).contains(&count).then_some(HEAD_LEN + count * PLACE_LEN)
    }

    /// Reads head and directory; `None` if they are damaged, or not there.
    pub(crate) fn read(block: &[u8]) -> Option<Self> {
        let len = Self::len_of(block)?;
        let (head, directory) = block.get(..len)?.split_at(HEAD_LEN);
        let (head, check) = head.split_at(CHECK);
        if checksum(&[head, directory]).to_le_bytes() != *check {
            return None;
        }
        let ascends = head[FLAGS] & ASCENDS != 0;
        let head = Head::decode(block)?;
        let mut offset = len;
        let mut slices = Vec::with_capacity(directory.len() / PLACE_LEN);
        for entry in directory.chunks_exact(PLACE_LEN) {
            let mut entry = Input::new(entry);
            let (first_item, count, len, check) = (entry.u32()?, entry.u32()?, entry.u32()? as usize, entry.u32()?);
            slices.push(Place { first_item, count, offset, len, check });
            offset = offset.checked_add(len)?;
        }
        let count: u64 = slices.iter().map(|slice| u64::from(slice.count)).sum();
        let is_sorted = slices.windows(2).all(|pair| pair[0].first_item < pair[1].first_item);
        (is_sorted && count == u64::from(head.count)).then_some(Self { head, ascends, slices })
    }

    /// The slice that has an item, if any has.
    pub(crate) fn of_item(&self, item: ItemNumber) -> Option<&Place> {
        let behind = self.slices.partition_point(|slice| slice.first_item <= item);
        self.slices.get(behind.checked_sub(1)?)
    }

    /// Reads the records of an item out of its slice; `None` if it is damaged. `times` are those of all records of the block, where its wall clocks do not ascend.
    pub(crate) fn read_item(&self, place: &Place, slice: &[u8], item: ItemNumber, times: &[u64]) -> Option<Block> {
        let opened = place.open(slice)?;
        let (mut entries, mut bytes) = (Vec::new(), Vec::new());
        opened.read_records(true, Some(item), &mut entries, &mut bytes)?;
        let mut block = Block { head: self.head, entries, bytes };
        if self.ascends {
            block.entries.iter_mut().for_each(|entry| entry.time = entry.clocks.wall);
        } else {
            block.take_times(times);
        }
        block.entries.iter().all(|entry| entry.row < self.head.count).then_some(block)
    }
}

impl Place {
    fn of<'a>(&self, block: &'a [u8]) -> Option<&'a [u8]> {
        block.get(self.offset..self.offset.checked_add(self.len)?)
    }

    fn open<'a>(&self, slice: &'a [u8]) -> Option<Opened<'a>> {
        if slice.len() != self.len || checksum(&[slice]) != self.check {
            return None;
        }
        Opened::read(slice).filter(|opened| opened.head.count == self.count && opened.has_room_for_records(true))
    }
}

/// Reads a sliced block; `None` if it is damaged.
pub(crate) fn decode(block: &[u8]) -> Option<Block> {
    let sliced = Sliced::read(block)?;
    let head = sliced.head;
    let open = |place: &Place| place.open(place.of(block)?);
    let opened: Vec<Opened<'_>> = sliced.slices.iter().map(open).collect::<Option<_>>()?;
    // Memory is asked for when every slice has been found whole, with as many records as the directory says.
    let mut bytes = Vec::with_capacity(likely_raw(&head, block) + REGISTER);
    let mut entries = vec![Entry::MISSING; head.count as usize];
    let mut slice_entries = Vec::new();
    for slice in &opened {
        slice.read_records(true, None, &mut slice_entries, &mut bytes)?;
        for entry in slice_entries.drain(..) {
            let free = entries.get_mut(entry.row as usize).filter(|entry| entry.row == Entry::MISSING.row)?;
            *free = entry;
        }
        if bytes.len() > head.raw as usize {
            return None;
        }
    }
    // As many as there are rows, each in another one.
    let block = Block { head, entries, bytes };
    if block.bytes.len() == head.raw as usize { block.timed() } else { None }
}

/// Which items a sliced block has records of, in order; `None` if it is damaged.
pub(crate) fn items(block: &[u8]) -> Option<Vec<ItemNumber>> {
    let mut all = Vec::new();
    for place in &Sliced::read(block)?.slices {
        all.extend(place.open(place.of(block)?)?.items()?);
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

/// The times of all records of a sliced block; `None` if it is damaged.
pub(crate) fn times(block: &[u8]) -> Option<Vec<u64>> {
    let sliced = Sliced::read(block)?;
    let mut all = vec![0; sliced.head.count as usize];
    for place in &sliced.slices {
        let opened = place.open(place.of(block)?)?;
        for (row, wall) in opened.rows(true)?.into_iter().zip(opened.walls()?) {
            *all.get_mut(row as usize)? = wall;
        }
    }
    let mut time = sliced.head.before;
    for wall in &mut all {
        time = time.max(*wall);
        *wall = time;
    }
    Some(all)
}

/// A record that waits to be put into its slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) item: ItemNumber,
    pub(crate) wall: u64,
    /// Where it stands, for who gives it.
    pub(crate) at: u32,
}

/// Cuts the records of a block into slices and puts them together. Kept from block to block for its memory.
#[derive(Debug, Default)]
pub(crate) struct Slicer {
    /// Items in order, each with how many records it has.
    items: Vec<(ItemNumber, u32)>,
    counts: Vec<u32>,
    /// Of each slice: its smallest item number and its records.
    cuts: Vec<(ItemNumber, u32)>,
    /// Places of all records, slice by slice.
    order: Vec<u32>,
    rows: Vec<u32>,
    out: Vec<u8>,
}

impl Slicer {
    /// Counts the records of each item.
    pub(crate) fn count(&mut self, waiting: &[Waiting]) {
        self.items.clear();
        let most = waiting.iter().map(|record| record.item as usize + 1).max().unwrap_or(0);
        if most <= DENSE_MIN + DENSE * waiting.len() {
            self.counts.clear();
            self.counts.resize(most, 0);
            for record in waiting {
                self.counts[record.item as usize] += 1;
            }
            let counts = (0..).zip(&self.counts).filter(|(_, count)| **count > 0);
            self.items.extend(counts.map(|(item, count)| (item, *count)));
            return;
        }
        // Numbers that no writer gives: what a damaged or foreign file says shall not cost memory.
        let mut all: Vec<ItemNumber> = waiting.iter().map(|record| record.item).collect();
        all.sort_unstable();
        self.items.extend(all.chunk_by(|one, other| one == other).map(|of| (of[0], of.len() as u32)));
    }

    /// The items that were counted, in order.
    pub(crate) fn items(&self) -> impl Iterator<Item = ItemNumber> {
        self.items.iter().map(|(item, _)| *item)
    }

    /// Cuts records that were counted into slices of about so many each; a slice has all records of its items.
    fn cut(&mut self, waiting: &[Waiting], slice_records: usize) {
        // Two neighbours have so many together.
        let most = slice_records.max(2 * waiting.len() / SLICES_MAX + 2) as u32;
        self.cuts.clear();
        for (item, records) in &self.items {
            match self.cuts.last_mut() {
                // An item of many records does not make a slice larger that is large enough.
                Some((_, count)) if *count + *records / 2 < most => *count += *records,
                _ => self.cuts.push((*item, *records)),
            }
        }
        // Where the records of each slice begin.
        let begins = self.cuts.iter().scan(0, |sum, (_, count)| Some(std::mem::replace(sum, *sum + count)));
        let mut next: Vec<u32> = begins.collect();
        self.order.clear();
        self.order.resize(waiting.len(), 0);
        for (row, record) in (0..).zip(waiting) {
            let behind = self.cuts.partition_point(|(first, _)| *first <= record.item);
            let next = &mut next[behind - 1];
            self.order[*next as usize] = row;
            *next += 1;
        }
    }

    /// Appends a sliced block of the records that were counted to `out`; nothing and `None` if it would have a single slice. `push` gives the encoder a
    /// record, whose message stands in `bodies`.
    pub(crate) fn encode(
        &mut self,
        encoder: &mut Encoder,
        waiting: &[Waiting],
        slice_records: usize,
        (bodies, first, before): (&[u8], u64, Option<u64>),
        out: &mut Vec<u8>,
        mut push: impl FnMut(&mut Encoder, &Waiting),
    ) -> Option<Head> {
        if waiting.len() <= slice_records {
            return None;
        }
        self.cut(waiting, slice_records);
        if self.cuts.len() < 2 {
            return None;
        }
        let start = out.len();
        out.resize(start + HEAD_LEN + self.cuts.len() * PLACE_LEN, 0);
        let (mut raw, mut mono, mut next) = (0, 0, 0);
        for (at, (first_item, count)) in self.cuts.iter().enumerate() {
            self.rows.clear();
            self.rows.extend_from_slice(&self.order[next..next + *count as usize]);
            next += *count as usize;
            for row in &self.rows {
                push(encoder, &waiting[*row as usize]);
            }
            self.out.clear();
            let head = encoder.finish_slice(bodies, first, &self.rows, &mut self.out)?;
            raw += head.raw;
            if self.rows.first() == Some(&0) {
                mono = head.mono;
            }
            let place = &mut out[start + HEAD_LEN + at * PLACE_LEN..][..PLACE_LEN];
            let numbers = [*first_item, *count, self.out.len() as u32, checksum(&[&self.out])];
            for (place, number) in place.chunks_exact_mut(4).zip(numbers) {
                place.copy_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(&self.out);
        }
        let wall = waiting[0].wall;
        let before = before.unwrap_or(wall);
        let mut end = before;
        let mut ascends = 0;
        for record in waiting {
            ascends += usize::from(record.wall >= end);
            end = end.max(record.wall);
        }
        let count = waiting.len() as u32;
        let head = Head { first, count, raw, before, end, wall, mono, sections: self.cuts.len() as u32 };
        let mut bytes = head.encode();
        bytes[FLAGS] = if ascends == waiting.len() { ASCENDS } else { 0 };
        let directory = &out[start + HEAD_LEN..][..self.cuts.len() * PLACE_LEN];
        let check = checksum(&[&bytes[..CHECK], directory]);
        bytes[CHECK..].copy_from_slice(&check.to_le_bytes());
        out[start..start + HEAD_LEN].copy_from_slice(&bytes);
        Some(head)
    }
}

/// Makes the checksums of a sliced block right, as far as its lengths go.
#[cfg(test)]
pub(super) fn mend(block: &mut [u8]) {
    let Some(len) = Sliced::len_of(block).filter(|len| *len <= block.len()) else { return };
    let mut at = len;
    for place in (HEAD_LEN..len).step_by(PLACE_LEN) {
        let length = block[place + 8..place + 12].try_into().map_or(0, u32::from_le_bytes) as usize;
        let Some(slice) = block.get(at..at.saturating_add(length)) else { break };
        let check = checksum(&[slice]);
        block[place + 12..place + 16].copy_from_slice(&check.to_le_bytes());
        at += length;
    }
    let check = checksum(&[&block[..CHECK], &block[HEAD_LEN..len]]);
    block[CHECK..HEAD_LEN].copy_from_slice(&check.to_le_bytes());
}
