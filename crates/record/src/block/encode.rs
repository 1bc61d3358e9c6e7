//! Records become a block.

use super::column::{self, Plan, Values};
use super::numbers::{Numbers, Rows, cost, divisor};
use super::shape::{ColumnKey, Shapes, Slot, Split, put_shapes};
use super::{FILL, HEAD_LEN, Head, RAW_MAX, RECORDS_MAX, section};
use crate::bytes::put_varint;
use crate::record::{Clocks, ItemNumber, Kind};
use rustc_hash::FxHashMap;

/// Blocks after which columns are looked at anew.
const PLAN_BLOCKS: u32 = 16;
/// A section of fewer bytes is not packed.
const PACK_MIN: usize = 24;
/// Values by which a column is planned while a recording goes on.
const LIVE_SAMPLE: usize = 1024;

/// How hard to try.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// The level of zstd.
    level: i32,
    /// Values by which a column is planned.
    sample: usize,
    /// The plan of one block holds for the next ones.
    keeps_plans: bool,
}

impl Effort {
    /// Keeps up with a service.
    pub(crate) const LIVE: Self = Self { level: 1, sample: LIVE_SAMPLE, keeps_plans: true };
    /// Takes its time.
    pub(crate) const COMPACT: Self = Self { level: 19, sample: 16 * LIVE_SAMPLE, keeps_plans: false };
}

/// Collects records and makes a block of them. Kept from block to block.
pub(crate) struct Encoder {
    effort: Effort,
    packer: zstd::bulk::Compressor<'static>,
    split: Split,
    shapes: Shapes,
    items: Vec<ItemNumber>,
    clocks: Vec<Clocks>,
    shape_of: Vec<u32>,
    values: Vec<Values>,
    /// The messages that were put in as copies, one behind the other; the bytes of all; and where in the one that was put in last its values are.
    bodies: Vec<u8>,
    raw: usize,
    spans: Vec<(u32, u32)>,
    packed: Vec<u8>,
    plans: Plans,
    blocks: u32,
}

/// How columns are written, by what they are: a plan, and by how many values it was made. A plan names other columns by their keys: their numbers are
/// others in each block.
type Plans = FxHashMap<(ColumnKey, Slot), (KeptPlan, usize)>;

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("records", &self.items.len()).field("raw", &self.raw).finish_non_exhaustive()
    }
}

impl Encoder {
    /// An empty one.
    ///
    /// # Errors
    /// There is no memory for the packer.
    pub(crate) fn new(effort: Effort) -> std::io::Result<Self> {
        Ok(Self {
            effort,
            packer: zstd::bulk::Compressor::new(effort.level)?,
            split: Split::default(),
            shapes: Shapes::default(),
            items: Vec::new(),
            clocks: Vec::new(),
            shape_of: Vec::new(),
            values: Vec::new(),
            bodies: Vec::new(),
            raw: 0,
            spans: Vec::new(),
            packed: Vec::new(),
            plans: FxHashMap::default(),
            blocks: 0,
        })
    }

    /// Whether a message of so many bytes has room.
    pub(crate) const fn has_room(&self, len: usize) -> bool {
        self.items.len() < RECORDS_MAX && self.raw + len <= RAW_MAX
    }

    /// Puts a copy of a record in, for which there is room.
    pub(crate) fn push(&mut self, kind: Kind, item: ItemNumber, clocks: Clocks, body: &[u8]) {
        let start = self.bodies.len() as u32;
        self.bodies.extend_from_slice(body);
        self.put(kind, item, clocks, (body, start));
    }

    /// Puts a record in, for which there is room and whose message begins at `start` of the bytes that [`Encoder::finish_slice`] or [`Encoder::finish_from`] gets.
    pub(crate) fn put(&mut self, kind: Kind, item: ItemNumber, clocks: Clocks, (body, start): (&[u8], u32)) {
        let row = self.items.len() as u32;
        let shape = self.shapes.follow(kind, body, &mut self.spans).or_else(|| self.split(kind, body));
        // Whole messages always find room for their shape.
        let Some(shape) = shape else { return };
        self.items.push(item);
        self.clocks.push(clocks);
        self.shape_of.push(shape);
        if self.values.len() < self.shapes.keys.len() {
            self.values.resize_with(self.shapes.keys.len(), Values::default);
        }
        self.raw += body.len();
        for (part, (at, len)) in self.shapes.all[shape as usize].parts.iter().zip(&self.spans) {
            self.values[part.column].push(row, (start + at, *len));
        }
    }

    /// The shape of a message that is none of those that came last.
    fn split(&mut self, kind: Kind, body: &[u8]) -> Option<u32> {
        self.split.split(kind, body);
        let shape = self.shapes.shape(kind, &self.split).or_else(|| {
            self.split.whole(kind, body);
            self.shapes.shape(kind, &self.split)
        });
        self.spans.clear();
        let spans = self.split.values.iter().map(|(range, ..)| (range.start as u32, range.len() as u32));
        self.spans.extend(spans);
        shape
    }

    /// Appends what was put in as a plain block and is empty again; nothing if nothing was put in. `first` is the sequence number of the first
    /// record, `before` the latest wall clock before it, if there was one. Gives the head.
    pub(crate) fn finish(&mut self, first: u64, before: Option<u64>, out: &mut Vec<u8>) -> Option<Head> {
        let bodies = std::mem::take(&mut self.bodies);
        let head = self.write(first, before, None, &bodies, out);
        self.bodies = bodies;
        self.bodies.clear();
        head
    }

    /// As [`Encoder::finish`], of messages that stand in `bodies`.
    pub(crate) fn finish_from(
        &mut self,
        bodies: &[u8],
        first: u64,
        before: Option<u64>,
        out: &mut Vec<u8>,
    ) -> Option<Head> {
        self.write(first, before, None, bodies, out)
    }

    /// Appends what was put in as a slice, whose records stand at these places of the block, and their messages in `bodies`; else as [`Encoder::finish`].
    pub(crate) fn finish_slice(&mut self, bodies: &[u8], first: u64, rows: &[u32], out: &mut Vec<u8>) -> Option<Head> {
        self.write(first + u64::from(*rows.first()?), None, Some(rows), bodies, out)
    }

    /// A block is over, with all its slices: plans grow old.
    pub(crate) fn end_block(&mut self) {
        self.blocks += 1;
        if !self.effort.keeps_plans || self.blocks.is_multiple_of(PLAN_BLOCKS) {
            self.plans.clear();
        }
    }

    fn write(
        &mut self,
        first: u64,
        before: Option<u64>,
        rows: Option<&[u32]>,
        bodies: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<Head> {
        let first_clocks = *self.clocks.first()?;
        let latest = self.clocks.iter().map(|clocks| clocks.wall).max().unwrap_or(0);
        let before = before.unwrap_or(first_clocks.wall);
        let fills = rows.is_some();
        let mut sections = Sections {
            packer: &mut self.packer,
            packed: &mut self.packed,
            fills,
            directory: Vec::new(),
            data: Vec::new(),
            count: 0,
        };
        if let Some(rows) = rows {
            put_places(rows, &mut sections);
        }
        put_clocks(&self.clocks, &mut sections);
        let mut bytes = Vec::new();
        for item in &self.items {
            put_varint(&mut bytes, u64::from(*item));
        }
        sections.put(section::ITEMS, &bytes);
        bytes.clear();
        for shape in &self.shape_of {
            put_varint(&mut bytes, u64::from(*shape));
        }
        sections.put(section::SHAPE, &bytes);
        bytes.clear();
        put_shapes(&self.shapes.all, &mut bytes);
        sections.put(section::SHAPES, &bytes);
        let rows = Rows::new(&self.items, self.clocks.iter().map(|clocks| clocks.wall).collect());
        let heads = put_columns(&self.shapes, &self.values, bodies, &rows, self.effort, &mut self.plans, &mut sections);
        sections.put(section::COLUMNS, &heads);
        let head = Head {
            first,
            count: self.items.len() as u32,
            raw: self.raw as u32,
            before,
            end: latest.max(before),
            wall: first_clocks.wall,
            mono: first_clocks.mono,
            sections: sections.count,
        };
        out.reserve(HEAD_LEN + sections.directory.len() + sections.data.len());
        out.extend_from_slice(&head.encode());
        out.extend_from_slice(&sections.directory);
        out.extend_from_slice(&sections.data);
        self.clear();
        Some(head)
    }

    fn clear(&mut self) {
        self.items.clear();
        self.clocks.clear();
        self.shape_of.clear();
        self.values.iter_mut().for_each(Values::clear);
        self.shapes.clear();
        self.raw = 0;
    }
}

/// Writes where in the block the records of a slice stand.
fn put_places(rows: &[u32], sections: &mut Sections<'_>) {
    let (mut bytes, mut next) = (Vec::with_capacity(rows.len()), 0);
    for row in rows {
        put_varint(&mut bytes, u64::from(row - next));
        next = row + 1;
    }
    sections.put(section::ROWS, &bytes);
}

/// Writes the columns; gives the table of them.
fn put_columns(
    shapes: &Shapes,
    values: &[Values],
    bodies: &[u8],
    rows: &Rows,
    effort: Effort,
    plans: &mut Plans,
    sections: &mut Sections<'_>,
) -> Vec<u8> {
    let mut heads = Vec::new();
    put_varint(&mut heads, shapes.keys.len() as u64);
    let mut done: Vec<Option<Numbers>> = Vec::new();
    for (at, ((key, slot), values)) in shapes.keys.iter().zip(values).enumerate() {
        let values = values.of(bodies);
        // A plan made by a few values is made again by many.
        let sample = values.len().min(effort.sample);
        let known = plans.get(&(*key, *slot)).filter(|(_, by)| sample <= by * 2);
        let known = known.and_then(|(plan, _)| column::write(values, plan.for_block(shapes, at), rows, &done));
        let written = known.or_else(|| {
            let plan = column::plan(values, *slot, rows, &done, effort.sample);
            plans.insert((*key, *slot), (KeptPlan::new(plan, shapes), sample));
            column::write(values, plan, rows, &done)
        });
        let written = written.unwrap_or_else(|| column::write_plain(values, rows));
        heads.extend_from_slice(&written.head);
        let number = section::FIRST_COLUMN + 2 * at as u16;
        sections.put(number, &written.tokens);
        sections.put(number + 1, &written.marks);
        done.push(written.numbers);
    }
    heads
}

/// A plan that holds for blocks in which columns have other numbers.
#[derive(Debug, Clone, Copy)]
struct KeptPlan {
    plan: Plan,
    /// The columns that it refers to.
    others: [Option<(ColumnKey, Slot)>; 2],
}

impl KeptPlan {
    fn new(plan: Plan, shapes: &Shapes) -> Self {
        let (one, two) = plan.columns();
        let key = |column: Option<usize>| shapes.keys.get(column?).copied();
        Self { plan, others: [key(one), key(two)] }
    }

    /// The plan for a column of this number. What is foretold by a column that is not before it, or not there at all, is foretold by the item's last value.
    fn for_block(&self, shapes: &Shapes, at: usize) -> Plan {
        let number = |key: Option<(ColumnKey, Slot)>| shapes.column(key?).filter(|column| *column < at);
        self.plan.with_columns((number(self.others[0]), number(self.others[1])))
    }
}

/// Sections on their way into a block.
struct Sections<'a> {
    packer: &'a mut zstd::bulk::Compressor<'static>,
    packed: &'a mut Vec<u8>,
    /// What is one byte again and again is written so: in blocks of the first version it is not.
    fills: bool,
    directory: Vec<u8>,
    data: Vec<u8>,
    count: u32,
}

impl Sections<'_> {
    /// Adds a section; an empty one is left out.
    fn put(&mut self, number: u16, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let is_fill = self.fills && bytes.iter().all(|byte| *byte == bytes[0]);
        let is_packed = !is_fill && bytes.len() >= PACK_MIN && {
            self.packed.clear();
            self.packed.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
            self.packer.compress_to_buffer(bytes, self.packed).is_ok_and(|len| len < bytes.len())
        };
        let (packing, kept) = match &self.packed[..] {
            _ if is_fill => (FILL, &bytes[..1]),
            packed if is_packed => (1, packed),
            _ => (0, bytes),
        };
        self.directory.extend_from_slice(&number.to_le_bytes());
        self.directory.extend_from_slice(&[packing, 0]);
        self.directory.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.directory.extend_from_slice(&(kept.len() as u32).to_le_bytes());
        self.data.extend_from_slice(kept);
        self.count += 1;
    }

    /// Adds numbers near 0, behind what divides all of them. Nothing if all are 0 and that may be left out.
    fn put_numbers(&mut self, number: u16, leading: &[u8], values: &[i64], may_be_left_out: bool) {
        if may_be_left_out && values.iter().all(|value| *value == 0) {
            return;
        }
        let divisor = divisor(values);
        let mut bytes = leading.to_vec();
        put_varint(&mut bytes, divisor as u64);
        column::put_tokens(values, divisor, &mut bytes);
        self.put(number, &bytes);
    }
}

/// Writes the three clocks of all records.
fn put_clocks(clocks: &[Clocks], sections: &mut Sections<'_>) {
    let before = std::iter::once(&clocks[0]).chain(clocks);
    let steps = before.zip(clocks).map(|(before, now)| {
        let wall = now.wall.wrapping_sub(before.wall);
        (wall as i64, now.mono.wrapping_sub(before.mono).wrapping_sub(wall) as i64)
    });
    let (wall, mono): (Vec<i64>, Vec<i64>) = steps.unzip();
    sections.put_numbers(section::WALL, &[], &wall, true);
    sections.put_numbers(section::MONO, &[], &mono, true);
    let known = clocks.iter().filter_map(|clocks| clocks.source.map(|source| (source, clocks.wall)));
    let (mut by_last, mut by_wall, mut last) = (Vec::new(), Vec::new(), 0);
    for (source, wall) in known {
        by_last.push(source.wrapping_sub(last) as i64);
        by_wall.push(source.wrapping_sub(wall) as i64);
        last = source;
    }
    if by_last.is_empty() {
        return;
    }
    let is_by_wall = cost(&by_wall) < cost(&by_last);
    sections.put_numbers(section::SOURCE, &[u8::from(is_by_wall)], if is_by_wall { &by_wall } else { &by_last }, false);
    if by_last.len() < clocks.len() {
        let has: Vec<u8> = clocks.iter().map(|clocks| u8::from(clocks.source.is_some())).collect();
        sections.put(section::HAS_SOURCE, &has);
    }
}
