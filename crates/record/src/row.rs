//! Records as they stand in a tail, and in blocks that are not packed.

use crate::bytes::{Input, put_counted, put_varint};
use crate::record::{Clocks, ItemNumber, Kind};

/// Bytes of a record in a tail at most, without its message.
const ROW_MAX: usize = 1 + 5 + 25 + 10;

/// A record as it stands in a tail.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) kind: Kind,
    pub(crate) item: ItemNumber,
    pub(crate) clocks: Clocks,
    pub(crate) body: &'a [u8],
}

/// Appends a record as it stands in a tail.
#[inline]
pub(crate) fn put_row(kind: Kind, item: ItemNumber, clocks: Clocks, body: &[u8], out: &mut Vec<u8>) {
    out.reserve(ROW_MAX + body.len());
    out.push(kind as u8);
    put_varint(out, u64::from(item));
    let mut fixed = [0; 25];
    fixed[..8].copy_from_slice(&clocks.wall.to_le_bytes());
    fixed[8..16].copy_from_slice(&clocks.mono.to_le_bytes());
    fixed[16] = u8::from(clocks.source.is_some());
    fixed[17..].copy_from_slice(&clocks.source.unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&fixed);
    put_counted(out, body);
}

/// Reads a record as it stands in a tail; `None`: it is none.
#[inline]
pub(crate) fn read_row<'a>(input: &mut Input<'a>) -> Option<Row<'a>> {
    let (kind, item) = (Kind::of(input.u8()?)?, u32::try_from(input.varint()?).ok()?);
    let (wall, mono, has_source, source) = (input.u64()?, input.u64()?, input.u8()?, input.u64()?);
    let clocks = Clocks { wall, mono, source: (has_source != 0).then_some(source) };
    Some(Row { kind, item, clocks, body: input.counted()? })
}
