//! A block becomes records again: all of them, or those of one item.

use super::column::{Column, Own};
use super::join::{Joined, Piece, REGISTER};
use super::numbers::{Numbers, Rows};
use super::shape::{Part, Shape, Slot, read_shapes};
use super::{ENTRY_LEN, FILL, HEAD_LEN, Head, RAW_MAX, VALUES_MAX, section};
use crate::bytes::{Input, unzigzag};
use crate::record::{Clocks, ItemNumber, Kind, Record};
use std::borrow::Cow;
use std::cell::RefCell;

/// Sections of one block: two of each column, and those that are not of columns.
const SECTIONS_MAX: usize = 2 * (super::shape::COLUMNS_MAX + 16) + 16;

/// Bytes that zstd makes of a byte at most.
pub(crate) const UNPACKED_OF_A_BYTE: usize = 1 << 17;
/// Bytes of messages that a packed byte stands for at most, but for blocks of messages that are much alike.
const LIKELY: usize = 64;

/// Records of a block: all, or those of an item.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) head: Head,
    pub(super) entries: Vec<Entry>,
    pub(super) bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) time: u64,
    pub(super) kind: Kind,
    pub(super) item: ItemNumber,
    pub(super) clocks: Clocks,
    /// Place among all records of the block.
    pub(super) row: u32,
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Entry {
    /// Stands where none was read yet.
    pub(super) const MISSING: Self = Self {
        time: 0,
        kind: Kind::Gap,
        item: 0,
        clocks: Clocks { wall: 0, mono: 0, source: None },
        row: u32::MAX,
        start: 0,
        end: 0,
    };
}

impl Block {
    /// Records that were read.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The item of a record, and when it counts.
    pub(crate) fn place(&self, at: usize) -> Option<(ItemNumber, u64)> {
        self.entries.get(at).map(|entry| (entry.item, entry.time))
    }

    /// Asks for the memory of a record's message: messages of a sliced block do not stand in the order of its records.
    #[inline]
    pub(crate) fn ask_for(&self, at: usize) {
        if let Some(message) = self.entries.get(at).and_then(|entry| self.bytes.get(entry.start as usize..)) {
            let first = message.as_ptr();
            lines::fetch(&[first, first.wrapping_add(64)]);
        }
    }

    /// The sequence number of a record.
    pub(crate) fn sequence(&self, at: usize) -> Option<u64> {
        self.entries.get(at).map(|entry| self.head.first + u64::from(entry.row))
    }

    /// A record.
    pub(crate) fn record(&self, at: usize) -> Option<Record<'_>> {
        let entry = self.entries.get(at)?;
        Some(Record {
            sequence: self.head.first + u64::from(entry.row),
            time: entry.time,
            kind: entry.kind,
            item: entry.item,
            clocks: entry.clocks,
            body: &self.bytes[entry.start as usize..entry.end as usize],
        })
    }

    /// All records that were read.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        (0..self.len()).filter_map(|at| self.record(at))
    }
}

thread_local! {
    /// A context of zstd takes longer to make than a section to unpack.
    static UNPACKER: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Unpacks bytes that are so many when they are unpacked; `None` if they are not.
pub(crate) fn unpack(bytes: &[u8], raw: usize) -> Option<Vec<u8>> {
    let unpacked = UNPACKER.with_borrow_mut(|unpacker| {
        if unpacker.is_none() {
            *unpacker = zstd::bulk::Decompressor::new().ok();
        }
        unpacker.as_mut()?.decompress(bytes, raw).ok()
    })?;
    (unpacked.len() == raw).then_some(unpacked)
}

/// A section as it stands there.
struct Section<'a> {
    number: u16,
    packing: u8,
    raw: u32,
    bytes: &'a [u8],
}

impl Section<'_> {
    /// Whether so few bytes can be so many unpacked.
    fn can_unpack(&self) -> bool {
        match self.packing {
            0 => self.bytes.len() == self.raw as usize,
            FILL => self.bytes.len() == 1,
            _ => self.raw as usize <= self.bytes.len().saturating_mul(UNPACKED_OF_A_BYTE),
        }
    }
}

/// The two sections of a column, unpacked.
type TokensAndMarks<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// A plain block or a slice, with its sections as they stand there.
pub(super) struct Opened<'a> {
    pub(super) head: Head,
    /// By number.
    all: Vec<Section<'a>>,
}

impl<'a> Opened<'a> {
    pub(super) fn read(block: &'a [u8]) -> Option<Self> {
        let head = Head::decode(block)?;
        let count = head.sections as usize;
        if count > SECTIONS_MAX {
            return None;
        }
        let (directory, mut data) = block.get(HEAD_LEN..)?.split_at_checked(count * ENTRY_LEN)?;
        let mut all = Vec::with_capacity(count);
        let mut raw_total = 0;
        for entry in directory.chunks_exact(ENTRY_LEN) {
            let mut entry = Input::new(entry);
            let (number, packing, _, raw, kept) = (entry.u16()?, entry.u8()?, entry.u8()?, entry.u32()?, entry.u32()?);
            let (bytes, rest) = data.split_at_checked(kept as usize)?;
            raw_total += raw as usize;
            if packing > FILL || raw_total > RAW_MAX {
                return None;
            }
            all.push(Section { number, packing, raw, bytes });
            data = rest;
        }
        all.sort_unstable_by_key(|section| section.number);
        let is_sound = data.is_empty() && all.windows(2).all(|pair| pair[0].number < pair[1].number);
        is_sound.then_some(Self { head, all })
    }

    /// Whether the sections can have the records that the head tells of: of each there is a byte at least in these.
    pub(super) fn has_room_for_records(&self, is_slice: bool) -> bool {
        let wanted = [section::ITEMS, section::SHAPE].into_iter().chain(is_slice.then_some(section::ROWS));
        let count = self.head.count;
        let mut found = wanted.map(|number| self.all.iter().find(|section| section.number == number));
        found.all(|section| section.is_some_and(|section| section.can_unpack() && section.raw >= count))
    }

    /// The bytes of a section; none if it is not there.
    fn get(&self, number: u16) -> Option<Cow<'a, [u8]>> {
        let Ok(at) = self.all.binary_search_by_key(&number, |section| section.number) else {
            return Some((&[][..]).into());
        };
        let Section { packing, raw, bytes, .. } = self.all[at];
        match (packing, bytes) {
            _ if !self.all[at].can_unpack() => None,
            (0, _) => Some(bytes.into()),
            (FILL, [byte]) => Some(vec![*byte; raw as usize].into()),
            _ => unpack(bytes, raw as usize).map(Cow::Owned),
        }
    }

    /// A number of each of `count` records; `None` if there are others.
    fn varints(&self, number: u16, count: usize) -> Option<Vec<u32>> {
        let bytes = self.get(number)?;
        let mut input = Input::new(&bytes);
        // Each takes a byte at least.
        if bytes.len() < count {
            return None;
        }
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            all.push(u32::try_from(input.varint()?).ok()?);
        }
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
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(unzigzag(input.varint()?).wrapping_mul(divisor));
        }
        input.is_empty().then_some((leading, values))
    }

    /// Place of each record among all of its block: in a plain block that is where it stands.
    pub(super) fn rows(&self, is_slice: bool) -> Option<Vec<u32>> {
        let count = self.head.count;
        if !is_slice {
            return Some((0..count).collect());
        }
        let mut rows = self.varints(section::ROWS, count as usize)?;
        let mut next = 0u32;
        for row in &mut rows {
            *row = next.checked_add(*row)?;
            next = row.checked_add(1)?;
        }
        Some(rows)
    }

    /// The wall clock of each record.
    pub(super) fn walls(&self) -> Option<Vec<u64>> {
        let (_, steps) = self.numbers(section::WALL, 0, self.head.count as usize)?;
        let mut wall = self.head.wall;
        let next = |step| {
            wall = wall.wrapping_add(step as u64);
            wall
        };
        Some(steps.into_iter().map(next).collect())
    }

    fn clocks(&self, walls: &[u64]) -> Option<Vec<Clocks>> {
        let (head, count) = (&self.head, self.head.count as usize);
        let (_, mono) = self.numbers(section::MONO, 0, count)?;
        let mut now = Clocks { wall: head.wall, mono: head.mono, source: None };
        let mut all = Vec::with_capacity(count);
        for (wall, mono) in walls.iter().zip(mono) {
            let step = wall.wrapping_sub(now.wall);
            now.wall = *wall;
            now.mono = now.mono.wrapping_add(step).wrapping_add(mono as u64);
            all.push(now);
        }
        self.sources(&mut all)?;
        Some(all)
    }

    /// Gives the records that have one their source's clock.
    fn sources(&self, all: &mut [Clocks]) -> Option<()> {
        let count = all.len();
        if self.get(section::SOURCE)?.is_empty() {
            return Some(());
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
        Some(())
    }

    /// The items of its records.
    pub(super) fn items(&self) -> Option<Vec<ItemNumber>> {
        self.varints(section::ITEMS, self.head.count as usize)
    }

    /// Appends its records, all or those of an item, and their messages. Their times are to come.
    pub(super) fn read_records(
        &self,
        is_slice: bool,
        only: Option<ItemNumber>,
        entries: &mut Vec<Entry>,
        bytes: &mut Vec<u8>,
    ) -> Option<()> {
        let count = self.head.count as usize;
        let items = self.items()?;
        let chosen = only.map(|only| (0..count as u32).filter(|row| items[*row as usize] == only).collect::<Vec<_>>());
        if chosen.as_ref().is_some_and(Vec::is_empty) {
            return Some(());
        }
        let shapes = read_shapes(&self.get(section::SHAPES)?)?;
        let shape_of = self.varints(section::SHAPE, count)?;
        let places = self.rows(is_slice)?;
        let walls = self.walls()?;
        let clocks = self.clocks(&walls)?;
        let rows = if chosen.is_some() { Rows::of_one(walls) } else { Rows::new(&items, walls) };
        let heads = self.get(section::COLUMNS)?;
        let mut heads = Input::new(&heads);
        let own = rows_of_columns(&shapes, &shape_of, heads.count()?, chosen.as_deref())?;
        let kept: Vec<_> = (0..own.len() as u16).map(|at| self.column(at, &own[at as usize])).collect::<Option<_>>()?;
        let mut columns = Vec::with_capacity(own.len());
        let mut done: Vec<Option<Numbers>> = Vec::with_capacity(own.len());
        for (own, (tokens, marks)) in own.iter().zip(&kept) {
            let mut column = Column::read(&mut heads, tokens, marks, own, &rows, &done)?;
            done.push(column.numbers.take());
            columns.push(column);
        }
        let (begin, raw) = (bytes.len(), self.head.raw as usize);
        // As [`likely_raw`], of what stands here.
        let kept: usize = self.all.iter().map(|section| section.bytes.len()).sum();
        let mut joined = Joined::new(bytes, if only.is_some() { 0 } else { raw.min(kept.saturating_mul(LIKELY)) });
        let joiners: Vec<Joiner<'_>> = shapes.iter().map(Joiner::new).collect();
        let all = chosen.unwrap_or_else(|| (0..count as u32).collect());
        for row in &all {
            let row = *row as usize;
            let shape = shape_of[row] as usize;
            let start = joined.len();
            joiners[shape].join(&mut columns, &done, &mut joined).filter(|()| joined.len() - begin <= raw)?;
            let (kind, item, clocks, place) = (shapes[shape].kind, items[row], clocks[row], places[row]);
            let (start, end) = (start as u32, joined.len() as u32);
            entries.push(Entry { time: 0, kind, item, clocks, row: place, start, end });
        }
        joined.finish();
        (only.is_some() || bytes.len() - begin == raw).then_some(())
    }

    /// Tokens and marks of a column. What has none of the records that are read is not unpacked.
    fn column(&self, at: u16, own: &Own) -> Option<TokensAndMarks<'a>> {
        if own.is_unwanted() {
            return Some(((&[][..]).into(), (&[][..]).into()));
        }
        let number = section::FIRST_COLUMN + 2 * at;
        Some((self.get(number)?, self.get(number + 1)?))
    }
}

/// Bytes to have ready for the messages of a block: as many as its head says, if that is no more than blocks are packed by. Where more come, more is asked for
/// as they come: what a damaged head says costs no memory.
pub(super) fn likely_raw(head: &Head, block: &[u8]) -> usize {
    (head.raw as usize).min(block.len().saturating_mul(LIKELY))
}

/// Which items a block has records of, in order; `None` if it is damaged.
pub(crate) fn items(block: &[u8]) -> Option<Vec<ItemNumber>> {
    let mut all = Opened::read(block)?.items()?;
    all.sort_unstable();
    all.dedup();
    Some(all)
}

/// Reads a block that is not sliced; `None` if it is damaged.
pub(crate) fn decode(block: &[u8]) -> Option<Block> {
    let opened = Opened::read(block).filter(|opened| opened.has_room_for_records(false))?;
    let head = opened.head;
    let mut bytes = Vec::with_capacity(likely_raw(&head, block) + REGISTER);
    let mut entries = Vec::with_capacity(head.count as usize);
    opened.read_records(false, None, &mut entries, &mut bytes)?;
    let block = Block { head, entries, bytes };
    block.timed()
}

/// Reads the records of an item out of a block that is not sliced; `None` if it is damaged.
pub(crate) fn decode_item(block: &[u8], item: ItemNumber) -> Option<Block> {
    let opened = Opened::read(block)?;
    let (mut entries, mut bytes) = (Vec::new(), Vec::new());
    opened.read_records(false, Some(item), &mut entries, &mut bytes)?;
    let mut block = Block { head: opened.head, entries, bytes };
    let mut time = block.head.before;
    let mut times = opened.walls()?;
    for wall in &mut times {
        time = time.max(*wall);
        *wall = time;
    }
    block.take_times(&times);
    Some(block)
}

impl Block {
    /// Gives all records their times; `None` if the head tells of another end.
    pub(super) fn timed(mut self) -> Option<Self> {
        let mut time = self.head.before;
        for entry in &mut self.entries {
            time = time.max(entry.clocks.wall);
            entry.time = time;
        }
        (time == self.head.end).then_some(self)
    }

    /// Gives the records times out of those of all records of the block.
    pub(super) fn take_times(&mut self, times: &[u64]) {
        for entry in &mut self.entries {
            entry.time = times.get(entry.row as usize).copied().unwrap_or(self.head.end);
        }
    }
}

/// In which rows each column has values; `None` if a shape or a column is not there. With `chosen` rows, which ascend, only those.
fn rows_of_columns(shapes: &[Shape], shape_of: &[u32], count: usize, chosen: Option<&[u32]>) -> Option<Vec<Own>> {
    if count > super::shape::COLUMNS_MAX + Kind::ALL.len() {
        return None;
    }
    let mut own: Vec<Own> = (0..count).map(|_| Own::new(chosen.is_some())).collect();
    let mut chosen = chosen.map(|chosen| chosen.iter().copied().peekable());
    let mut total = 0;
    for (row, shape) in (0..).zip(shape_of) {
        let shape = shapes.get(*shape as usize)?;
        total += shape.parts.len();
        if total > VALUES_MAX {
            return None;
        }
        let is_read = chosen.as_mut().is_none_or(|chosen| chosen.next_if_eq(&row).is_some());
        for part in &shape.parts {
            own.get_mut(part.column)?.push(row, is_read);
        }
    }
    Some(own)
}

/// A shape as it is used to put messages together.
#[derive(Debug)]
struct Joiner<'a> {
    parts: Vec<(Piece<'a>, Slot, usize)>,
    end: Piece<'a>,
}

impl<'a> Joiner<'a> {
    fn new(shape: &'a Shape) -> Self {
        let part = |part: &'a Part| (Piece::new(&part.literal), part.slot, part.column);
        Self { parts: shape.parts.iter().map(part).collect(), end: Piece::new(&shape.end) }
    }

    /// Appends a message: the literals of the shape with the next values between them; `None` if a value is not there.
    fn join(&self, columns: &mut [Column<'_>], done: &[Option<Numbers>], out: &mut Joined<'_>) -> Option<()> {
        for (literal, slot, column) in &self.parts {
            literal.put(out);
            let start = out.len();
            let column = columns.get_mut(*column).zip(done.get(*column));
            let (column, numbers) = column?;
            match slot {
                Slot::Prefixed => {
                    out.put_register(&[0; REGISTER], 1);
                    column.give(numbers.as_ref(), out)?;
                    out.set(start, u8::try_from(out.len() - start - 1).ok()?);
                }
                Slot::Fixed(width) => {
                    column.give(numbers.as_ref(), out)?;
                    if out.len() - start != usize::from(*width) {
                        return None;
                    }
                }
                Slot::Rest => column.give(numbers.as_ref(), out)?,
            }
        }
        self.end.put(out);
        Some(())
    }
}
