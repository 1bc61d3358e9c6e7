//! Shapes: what messages that look alike have in common, and the slots for that in which they differ.
//!
//! A shape is a row of literals with slots between them. Of an update with a field list the literals are header, field ids and flags,
//! the slots stream id, sequence number and each field's value. Of anything else the whole message is one slot. A message is its shape's
//! literals with its own values in the slots: nothing of it is interpreted, so it comes back byte for byte.

use crate::bytes::{Input, put_counted, put_varint};
use crate::record::Kind;
use rustc_hash::FxHashMap;
use rwf::DataType;
use rwf::msg::{MsgClass, UpdateFlags};
use rwf::peek;
use std::ops::Range;

/// Slots of one shape.
const SLOTS_MAX: usize = 1024;
/// Shapes of one block; further messages are recorded whole.
const SHAPES_MAX: usize = 4096;
/// Columns of one block.
pub(super) const COLUMNS_MAX: usize = 4096;
/// Shapes that are tried before a message is taken apart.
const RECENT: usize = 4;
/// A field's value of more bytes has a longer length on the wire: such a message is recorded whole.
const VALUE_MAX: u8 = 0xFD;

/// How a value stands in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Slot {
    /// So many bytes, always.
    Fixed(u8),
    /// Behind its length, one byte.
    Prefixed,
    /// The rest of the message.
    Rest,
}

/// Content of a column, for the encoder: columns of equal keys are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ColumnKey {
    StreamId,
    SequenceNumber,
    Field(i16),
    Whole(Kind),
}

/// A literal and the slot behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) literal: Box<[u8]>,
    pub(super) slot: Slot,
    pub(super) column: usize,
}

/// Shape that messages have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) kind: Kind,
    pub(super) parts: Vec<Part>,
    pub(super) end: Box<[u8]>,
}

impl Shape {
    /// Where the values of a message are, if it is of this shape. What stands between them is compared byte for byte, so that the shape gives the message back.
    fn follow(&self, msg: &[u8], spans: &mut Vec<(u32, u32)>) -> Option<()> {
        // Every span is written below, whatever stood there.
        spans.resize(self.parts.len(), (0, 0));
        let mut at = 0;
        for (part, span) in self.parts.iter().zip(&mut *spans) {
            let start = at + part.literal.len();
            if !is_same(msg.get(at..start)?, &part.literal) {
                return None;
            }
            let (start, len) = match part.slot {
                Slot::Fixed(width) => (start, usize::from(width)),
                Slot::Prefixed => (start + 1, usize::from(*msg.get(start).filter(|len| **len <= VALUE_MAX)?)),
                Slot::Rest => (start, msg.len() - start),
            };
            *span = (start as u32, len as u32);
            at = start + len;
        }
        is_same(msg.get(at..)?, &self.end).then_some(())
    }
}

/// Whether two pieces are the same bytes. Most are of two bytes, a field's id, or a few more, for which a call of the system's library is dear: the first and the
/// last four or eight are compared at once.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    match (one, other) {
        ([a, b], [c, d]) => a == c && b == d,
        ([], []) => true,
        _ if one.len() >= 8 => {
            one.len() <= 16
                && one.first_chunk::<8>() == other.first_chunk()
                && one.last_chunk::<8>() == other.last_chunk()
                || one == other
        }
        _ if one.len() >= 4 => {
            one.first_chunk::<4>() == other.first_chunk() && one.last_chunk::<4>() == other.last_chunk()
        }
        _ => one.iter().eq(other),
    }
}

/// A message taken apart. Kept from message to message for its memory.
#[derive(Debug, Default)]
pub(super) struct Split {
    /// The literals one behind the other: what the shape is known by, behind the kind.
    literals: Vec<u8>,
    /// Where in the message each value is, where in `literals` the literal before it ends, and how it stands there.
    pub(super) values: Vec<(Range<usize>, usize, Slot, ColumnKey)>,
}

impl Split {
    fn literal(&mut self, bytes: &[u8]) {
        self.literals.extend_from_slice(bytes);
    }

    fn value(&mut self, range: Range<usize>, slot: Slot, key: ColumnKey) {
        self.values.push((range, self.literals.len(), slot, key));
    }

    /// Takes a message apart.
    pub(super) fn split(&mut self, kind: Kind, msg: &[u8]) {
        self.start(kind);
        if kind == Kind::Update && self.update(msg).is_some() && self.values.len() <= SLOTS_MAX {
            return;
        }
        self.whole(kind, msg);
    }

    /// The message is one value.
    pub(super) fn whole(&mut self, kind: Kind, msg: &[u8]) {
        self.start(kind);
        self.value(0..msg.len(), Slot::Rest, ColumnKey::Whole(kind));
    }

    fn start(&mut self, kind: Kind) {
        self.values.clear();
        self.literals.clear();
        self.literals.push(kind as u8);
    }

    /// An update with an ordinary field list; `None` if it is not one.
    fn update(&mut self, msg: &[u8]) -> Option<()> {
        /// Behind the fixed part of the header: flags of one or two bytes, container, update type.
        const FLAGS: usize = 8;
        let header = peek::header(msg).ok()?;
        if header.class != MsgClass::UPDATE || header.container != DataType::FIELD_LIST {
            return None;
        }
        let stream = peek::STREAM_ID_OFFSET..peek::STREAM_ID_OFFSET + 4;
        self.literal(&msg[..stream.start]);
        self.value(stream.clone(), Slot::Fixed(4), ColumnKey::StreamId);
        let mut at = stream.end;
        if header.flags & UpdateFlags::HAS_SEQ_NUM.0 != 0 {
            let start = FLAGS + if msg[FLAGS] < 0x80 { 1 } else { 2 } + 2;
            self.literal(msg.get(at..start)?);
            at = start + 4;
            if at > header.body_offset {
                return None;
            }
            self.value(start..at, Slot::Fixed(4), ColumnKey::SequenceNumber);
        }
        self.literal(&msg[at..header.body_offset]);
        self.field_list(msg, header.body_offset)
    }

    /// A field list without set-defined data, which reaches to the end of the message.
    fn field_list(&mut self, msg: &[u8], start: usize) -> Option<()> {
        const HAS_INFO: u8 = 1;
        const HAS_STANDARD_DATA: u8 = 8;
        let mut at = start;
        let flags = *msg.get(at)?;
        at += 1;
        if flags & !HAS_INFO != HAS_STANDARD_DATA {
            return None;
        }
        if flags & HAS_INFO != 0 {
            at += 1 + usize::from(*msg.get(at)?);
        }
        let count = u16::from_be_bytes([*msg.get(at)?, *msg.get(at + 1)?]);
        at += 2;
        self.literal(&msg[start..at]);
        for _ in 0..count {
            let &[high, low, length] = msg.get(at..at + 3)? else { return None };
            if length > VALUE_MAX {
                return None;
            }
            let end = at + 3 + usize::from(length);
            if end > msg.len() {
                return None;
            }
            self.literal(&[high, low]);
            self.value(at + 3..end, Slot::Prefixed, ColumnKey::Field(i16::from_be_bytes([high, low])));
            at = end;
        }
        self.literal(&msg[at..]);
        Some(())
    }
}

/// The shapes and columns of a block that is made.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    known: FxHashMap<Box<[u8]>, u32>,
    /// The shapes that were asked for last, which most often are the next ones, too. Without those of whole messages: any message has those.
    recent: Vec<u32>,
    pub(super) all: Vec<Shape>,
    columns: FxHashMap<(ColumnKey, Slot), usize>,
    pub(super) keys: Vec<(ColumnKey, Slot)>,
}

impl Shapes {
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.recent.clear();
        self.all.clear();
        self.columns.clear();
        self.keys.clear();
    }

    /// The number of a column, if the block has it.
    pub(super) fn column(&self, key: (ColumnKey, Slot)) -> Option<usize> {
        self.columns.get(&key).copied()
    }

    /// The shape of a message that was taken apart; `None` if there is room for no more.
    pub(super) fn shape(&mut self, kind: Kind, split: &Split) -> Option<u32> {
        if let Some(number) = self.known.get(&split.literals[..]).copied() {
            self.note(number);
            return Some(number);
        }
        let is_whole = matches!(split.values[..], [(_, _, Slot::Rest, _)]);
        let has_room = self.all.len() < SHAPES_MAX && self.keys.len() + split.values.len() <= COLUMNS_MAX;
        // Whole messages always find room: there are no more such shapes than kinds.
        if !has_room && !is_whole {
            return None;
        }
        let number = self.all.len() as u32;
        // Behind the kind.
        let mut from = 1;
        let parts = split.values.iter().map(|(_, to, slot, key)| {
            let literal = split.literals[from..*to].into();
            from = *to;
            let next = self.keys.len();
            let column = *self.columns.entry((*key, *slot)).or_insert(next);
            if column == next {
                self.keys.push((*key, *slot));
            }
            Part { literal, slot: *slot, column }
        });
        let parts = parts.collect();
        self.all.push(Shape { kind, parts, end: split.literals[from..].into() });
        self.known.insert(split.literals[..].into(), number);
        self.note(number);
        Some(number)
    }

    /// The next messages may be of this shape.
    fn note(&mut self, number: u32) {
        let is_rest = |part: &Part| part.slot == Slot::Rest;
        if self.all[number as usize].parts.iter().any(is_rest) {
            return;
        }
        self.recent.retain(|known| *known != number);
        self.recent.truncate(RECENT - 1);
        self.recent.insert(0, number);
    }

    /// The shape of a message, if it is one of those that came last: not looked for by taking the message apart. `spans` becomes where its values are, and how long.
    pub(super) fn follow(&mut self, kind: Kind, msg: &[u8], spans: &mut Vec<(u32, u32)>) -> Option<u32> {
        let at = self.recent.iter().position(|number| {
            let shape = &self.all[*number as usize];
            shape.kind == kind && shape.follow(msg, spans).is_some()
        })?;
        self.recent[..=at].rotate_right(1);
        self.recent.first().copied()
    }
}

/// Appends the table of shapes.
pub(super) fn put_shapes(shapes: &[Shape], out: &mut Vec<u8>) {
    put_varint(out, shapes.len() as u64);
    for shape in shapes {
        out.push(shape.kind as u8);
        put_varint(out, shape.parts.len() as u64);
        for part in &shape.parts {
            put_counted(out, &part.literal);
            out.push(match part.slot {
                Slot::Prefixed => 0,
                Slot::Rest => 0xFF,
                Slot::Fixed(width) => width,
            });
            put_varint(out, part.column as u64);
        }
        put_counted(out, &shape.end);
    }
}

/// Reads a table of shapes; `None` if it is none.
pub(super) fn read_shapes(bytes: &[u8]) -> Option<Vec<Shape>> {
    let mut input = Input::new(bytes);
    // Room for as many whole shapes is always kept free of the bound.
    let count = input.count().filter(|count| *count <= SHAPES_MAX + Kind::ALL.len())?;
    let mut shapes = Vec::with_capacity(count);
    for _ in 0..count {
        let kind = Kind::of(input.u8()?)?;
        let slots = input.count().filter(|count| *count <= SLOTS_MAX)?;
        let mut parts = Vec::with_capacity(slots);
        for _ in 0..slots {
            let literal = input.counted()?.into();
            let slot = match input.u8()? {
                0 => Slot::Prefixed,
                0xFF => Slot::Rest,
                width @ 1..=8 => Slot::Fixed(width),
                _ => return None,
            };
            let column = input.count().filter(|column| *column < COLUMNS_MAX + Kind::ALL.len())?;
            parts.push(Part { literal, slot, column });
        }
        shapes.push(Shape { kind, parts, end: input.counted()?.into() });
    }
    input.is_empty().then_some(shapes)
}
