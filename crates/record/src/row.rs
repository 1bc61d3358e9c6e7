//! Records as they stand in a tail, and in blocks that are not packed.

use crate::bytes::{Input, put_counted, put_varint, unzigzag, zigzag};
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

/// In the place of a kind: the clocks are told by their distances from those of the record before.
const BY_STEPS: u8 = 0x80;
/// Beside it: there is a source time.
const HAS_SOURCE: u8 = 0x40;

/// Appends a record as [`put_row`] does, behind another one that has these clocks: a few bytes stand for 25.
#[inline]
pub(crate) fn put_row_behind(
    before: Clocks,
    kind: Kind,
    item: ItemNumber,
    clocks: Clocks,
    body: &[u8],
    out: &mut Vec<u8>,
) {
    out.reserve(ROW_MAX + body.len());
    out.push(kind as u8 | BY_STEPS | if clocks.source.is_some() { HAS_SOURCE } else { 0 });
    put_varint(out, u64::from(item));
    let wall = clocks.wall.wrapping_sub(before.wall);
    let mono = clocks.mono.wrapping_sub(before.mono).wrapping_sub(wall);
    put_varint(out, zigzag(wall as i64));
    put_varint(out, zigzag(mono as i64));
    if let Some(source) = clocks.source {
        put_varint(out, zigzag(source.wrapping_sub(clocks.wall) as i64));
    }
    put_counted(out, body);
}

/// Reads a record as it stands in a tail; `None`: it is none. `clocks` are those of the record before, and then its own.
#[inline]
pub(crate) fn read_row<'a>(input: &mut Input<'a>, clocks: &mut Clocks) -> Option<Row<'a>> {
    let first = input.u8()?;
    if first & BY_STEPS == 0 {
        let (kind, item) = (Kind::of(first)?, u32::try_from(input.varint()?).ok()?);
        let (wall, mono, has_source, source) = (input.u64()?, input.u64()?, input.u8()?, input.u64()?);
        *clocks = Clocks { wall, mono, source: (has_source != 0).then_some(source) };
        return Some(Row { kind, item, clocks: *clocks, body: input.counted()? });
    }
    let (kind, item) = (Kind::of(first & !(BY_STEPS | HAS_SOURCE))?, u32::try_from(input.varint()?).ok()?);
    let wall_step = unzigzag(input.varint()?) as u64;
    let wall = clocks.wall.wrapping_add(wall_step);
    let mono = clocks.mono.wrapping_add(wall_step).wrapping_add(unzigzag(input.varint()?) as u64);
    let source = match first & HAS_SOURCE {
        0 => None,
        _ => Some(wall.wrapping_add(unzigzag(input.varint()?) as u64)),
    };
    *clocks = Clocks { wall, mono, source };
    Some(Row { kind, item, clocks: *clocks, body: input.counted()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_come_back_from_their_distances() {
        let clocks = |wall, mono, source| Clocks { wall, mono, source };
        let all = [
            clocks(7, u64::MAX, None),
            clocks(7, u64::MAX, Some(0)),
            clocks(u64::MAX, 0, Some(u64::MAX)),
            clocks(1_795_789_800_000_000_000, 5, Some(1_795_789_799_999_000_000)),
            clocks(1_795_789_800_000_001_000, 1_005, None),
            clocks(0, 0, None),
        ];
        let mut bytes = Vec::new();
        put_row(Kind::Update, 3, all[0], b"first", &mut bytes);
        for (pair, item) in all.windows(2).zip([0, 1, 127, 128, u32::MAX]) {
            put_row_behind(pair[0], Kind::Generic, item, pair[1], b"next", &mut bytes);
        }
        let (mut input, mut before, mut read) = (Input::new(&bytes), Clocks::default(), Vec::new());
        while let Some(row) = read_row(&mut input, &mut before) {
            read.push((row.clocks, row.body == b"first" || row.body == b"next"));
        }
        assert_eq!(read, all.map(|clocks| (clocks, true)));
        assert!(input.is_empty());
        // Two bytes of the item and the message, and of the clocks no more than they differ by.
        let mut near = Vec::new();
        put_row_behind(all[3], Kind::Update, 1, Clocks { source: None, ..all[4] }, b"", &mut near);
        assert_eq!(near.len(), 6);
    }
}
