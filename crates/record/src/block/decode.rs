//! A block becomes records again.

use super::column::Column;
use super::numbers::{Numbers, Rows};
use super::shape::{Shape, Slot, read_shapes};
use super::{HEAD_LEN, Head, RAW_MAX, VALUES_MAX, section};
use crate::bytes::{Input, unzigzag};
use crate::record::{Clocks, ItemNumber, Kind, Record};
use std::collections::HashMap;

/// Bytes of an entry of the directory of sections.
const ENTRY_LEN: usize = 12;
/// Sections of one block: two of each column, and those that are not of columns.
const SECTIONS_MAX: usize = 2 * (super::shape::COLUMNS_MAX + 16) + 16;

/// The records of a block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) head: Head,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Entry {
    time: u64,
    kind: Kind,
    item: ItemNumber,
    clocks: Clocks,
    end: u32,
}

impl Block {
    /// Records of the block.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The item of a record, and when it counts.
    pub(crate) fn place(&self, at: usize) -> Option<(ItemNumber, u64)> {
        self.entries.get(at).map(|entry| (entry.item, entry.time))
    }

    /// A record.
    pub(crate) fn record(&self, at: usize) -> Option<Record<'_>> {
        let entry = self.entries.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.entries[before].end);
        Some(Record {
            sequence: self.head.first + at as u64,
            time: entry.time,
            kind: entry.kind,
            item: entry.item,
            clocks: entry.clocks,
            body: &self.bytes[start as usize..entry.end as usize],
        })
    }

    /// All records.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        (0..self.len()).filter_map(|at| self.record(at))
    }
}

/// The sections of a block, as they stand there.
struct Sections<'a> {
    all: HashMap<u16, (bool, u32, &'a [u8])>,
}

impl<'a> Sections<'a> {
    fn read(head: &Head, block: &'a [u8]) -> Option<Self> {
        let count = head.sections as usize;
        if count > SECTIONS_MAX {
            return None;
        }
        let (directory, mut data) = block.get(HEAD_LEN..)?.split_at_checked(count * ENTRY_LEN)?;
        let mut all = HashMap::with_capacity(count);
        let mut raw_total = 0;
        for entry in directory.chunks_exact(ENTRY_LEN) {
            let mut entry = Input::new(entry);
            let (number, packing, _, raw, kept) = (entry.u16()?, entry.u8()?, entry.u8()?, entry.u32()?, entry.u32()?);
            let (bytes, rest) = data.split_at_checked(kept as usize)?;
            raw_total += raw as usize;
            if packing > 1 || raw_total > RAW_MAX || all.insert(number, (packing == 1, raw, bytes)).is_some() {
                return None;
            }
            data = rest;
        }
        data.is_empty().then_some(Self { all })
    }

    /// The bytes of a section; none if it is not there.
    fn get(&self, number: u16) -> Option<std::borrow::Cow<'a, [u8]>> {
        let Some((is_packed, raw, bytes)) = self.all.get(&number) else { return Some((&[][..]).into()) };
        if !is_packed {
            return (bytes.len() == *raw as usize).then_some((*bytes).into());
        }
        let unpacked = zstd::bulk::decompress(bytes, *raw as usize).ok()?;
        (unpacked.len() == *raw as usize).then_some(unpacked.into())
    }

    /// A number of each of `count` records; `None` if there are others.
    fn varints(&self, number: u16, count: usize) -> Option<Vec<u32>> {
        let bytes = self.get(number)?;
        let mut input = Input::new(&bytes);
        // Each takes a byte at least.
        if bytes.len() < count {
            return None;
        }
        let all: Vec<u32> = (0..count).map(|_| u32::try_from(input.varint()?).ok()).collect::<Option<_>>()?;
        input.is_empty().then_some(all)
    }

    /// Numbers near 0, `None` if they are not `count`.
    fn numbers(&self, number: u16, leading: usize, count: usize) -> Option<(Vec<u8>, Vec<i64>)> {
        let bytes = self.get(number)?;
        if bytes.is_empty() {
            return Some((Vec::new(), vec![0; count]));
        }
        let mut input = Input::new(&bytes);
        let leading = input.bytes(leading)?.to_vec();
        let divisor = i64::try_from(input.varint()?).ok()?;
        if input.len() < count {
            return None;
        }
        let values: Vec<i64> =
            (0..count).map(|_| Some(unzigzag(input.varint()?).wrapping_mul(divisor))).collect::<Option<_>>()?;
        input.is_empty().then_some((leading, values))
    }

    fn clocks(&self, head: &Head) -> Option<Vec<Clocks>> {
        let count = head.count as usize;
        let (_, wall) = self.numbers(section::WALL, 0, count)?;
        let (_, mono) = self.numbers(section::MONO, 0, count)?;
        let mut now = Clocks { wall: head.wall, mono: head.mono, source: None };
        let mut all = Vec::with_capacity(count);
        for (wall, mono) in wall.into_iter().zip(mono) {
            now.wall = now.wall.wrapping_add(wall as u64);
            now.mono = now.mono.wrapping_add(wall as u64).wrapping_add(mono as u64);
            all.push(now);
        }
        if !self.all.contains_key(&section::SOURCE) {
            return Some(all);
        }
        let has = self.get(section::HAS_SOURCE)?;
        if !has.is_empty() && has.len() != count {
            return None;
        }
        let has_source = |at: usize| has.get(at).is_none_or(|has| *has != 0);
        let sources = (0..count).filter(|at| has_source(*at)).count();
        let (leading, source) = self.numbers(section::SOURCE, 1, sources)?;
        let is_by_wall = leading != [0];
        let mut last = 0u64;
        let with_source = all.iter_mut().enumerate().filter(|(at, _)| has_source(*at));
        for ((_, clocks), source) in with_source.zip(source) {
            let base = if is_by_wall { clocks.wall } else { last };
            last = base.wrapping_add(source as u64);
            clocks.source = Some(last);
        }
        Some(all)
    }
}

/// Which items a block has records of, in order; `None` if it is damaged.
pub(crate) fn items(block: &[u8]) -> Option<Vec<ItemNumber>> {
    let head = Head::decode(block)?;
    let mut all = Sections::read(&head, block)?.varints(section::ITEMS, head.count as usize)?;
    all.sort_unstable();
    all.dedup();
    Some(all)
}

/// Reads a block; `None` if it is damaged.
pub(crate) fn decode(block: &[u8]) -> Option<Block> {
    let head = Head::decode(block)?;
    let count = head.count as usize;
    let sections = Sections::read(&head, block)?;
    let shapes = read_shapes(&sections.get(section::SHAPES)?)?;
    let shape_of = sections.varints(section::SHAPE, count)?;
    let items = sections.varints(section::ITEMS, count)?;
    let clocks = sections.clocks(&head)?;
    let heads = sections.get(section::COLUMNS)?;
    let mut heads = Input::new(&heads);
    let own = rows_of_columns(&shapes, &shape_of, heads.count()?)?;
    let rows = Rows::new(&items, clocks.iter().map(|clocks| clocks.wall).collect());
    let kept: Vec<_> =
        (0..2 * own.len() as u16).map(|at| sections.get(section::FIRST_COLUMN + at)).collect::<Option<_>>()?;
    let mut columns = Vec::with_capacity(own.len());
    let mut done: Vec<Option<Numbers>> = Vec::with_capacity(own.len());
    for (own, kept) in own.iter().zip(kept.chunks_exact(2)) {
        let mut column = Column::read(&mut heads, &kept[0], &kept[1], own, &rows, &done)?;
        done.push(column.numbers.take());
        columns.push(column);
    }
    let mut bytes = Vec::with_capacity(head.raw as usize);
    let mut entries = Vec::with_capacity(count);
    let mut time = head.before;
    for ((shape, item), clocks) in shape_of.iter().zip(items).zip(clocks) {
        let shape = &shapes[*shape as usize];
        join(shape, &mut columns, &done, &mut bytes).filter(|()| bytes.len() <= head.raw as usize)?;
        time = time.max(clocks.wall);
        entries.push(Entry { time, kind: shape.kind, item, clocks, end: bytes.len() as u32 });
    }
    (bytes.len() == head.raw as usize && time == head.end).then_some(Block { head, entries, bytes })
}

/// In which rows each column has values; `None` if a shape or a column is not there.
fn rows_of_columns(shapes: &[Shape], shape_of: &[u32], count: usize) -> Option<Vec<Vec<u32>>> {
    if count > super::shape::COLUMNS_MAX + Kind::ALL.len() {
        return None;
    }
    let mut own = vec![Vec::new(); count];
    let mut total = 0;
    for (row, shape) in shape_of.iter().enumerate() {
        let shape = shapes.get(*shape as usize)?;
        total += shape.parts.len();
        if total > VALUES_MAX {
            return None;
        }
        for part in &shape.parts {
            own.get_mut(part.column)?.push(row as u32);
        }
    }
    Some(own)
}

/// Appends a message: the literals of its shape with the next values between them.
fn join(shape: &Shape, columns: &mut [Column<'_>], done: &[Option<Numbers>], out: &mut Vec<u8>) -> Option<()> {
    for part in &shape.parts {
        out.extend_from_slice(&part.literal);
        let start = out.len();
        if part.slot == Slot::Prefixed {
            out.push(0);
        }
        columns.get_mut(part.column)?.give(done.get(part.column)?.as_ref(), out)?;
        match part.slot {
            Slot::Prefixed => out[start] = u8::try_from(out.len() - start - 1).ok()?,
            Slot::Fixed(width) if out.len() - start != usize::from(width) => return None,
            _ => {}
        }
    }
    out.extend_from_slice(&shape.end);
    Some(())
}
