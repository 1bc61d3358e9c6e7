//! Blocks: some thousand records, taken apart into columns, each packed by itself.
//!
//! A block can be read by itself. A block of many records is *sliced*: each slice has the records of some items, and can be read by itself, too, so that who
//! wants one item leaves the others packed. `docs/wire/recording.md` has the bytes; [`encode::Encoder`] writes a plain block or a slice, [`slices`] has
//! what puts slices together, [`decode`] reads. [`raw`] reads blocks that were never taken apart.

mod column;
pub(crate) mod decode;
pub(crate) mod encode;
mod join;
mod numbers;
pub(crate) mod raw;
mod shape;
pub(crate) mod slices;

/// Records of one block.
pub(crate) const RECORDS_MAX: usize = 1 << 20;
/// Bytes of a block's messages together, and of its sections when they are unpacked.
pub(crate) const RAW_MAX: usize = 64 << 20;
/// Values of all columns of a block together.
pub(crate) const VALUES_MAX: usize = 16 << 20;
/// Bytes of a block's head.
pub(crate) const HEAD_LEN: usize = 64;
/// Bytes of an entry of the directory of sections.
const ENTRY_LEN: usize = 12;
/// Packing of a section that is one byte again and again: the byte.
const FILL: u8 = 2;

/// Sections of a block.
mod section {
    /// Numbers of the items, 0 for none.
    pub(super) const ITEMS: u16 = 1;
    /// Wall clock: by how much it is more than before.
    pub(super) const WALL: u16 = 2;
    /// Monotonic clock: by how much more it went on than the wall clock.
    pub(super) const MONO: u16 = 3;
    /// The source's clock, of records that have it.
    pub(super) const SOURCE: u16 = 4;
    /// Which records have a source's clock; without this section all, if there is one of `SOURCE`, else none.
    pub(super) const HAS_SOURCE: u16 = 5;
    /// The shape of each record.
    pub(super) const SHAPE: u16 = 6;
    /// The table of shapes.
    pub(super) const SHAPES: u16 = 7;
    /// The table of columns.
    pub(super) const COLUMNS: u16 = 8;
    /// In a slice: the place of each record among all of its block, by how much it is more than the least it can be.
    pub(super) const ROWS: u16 = 9;
    /// Tokens of the first column; its marks are the next number, then come the next column's.
    pub(super) const FIRST_COLUMN: u16 = 16;
}

/// Head of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Sequence number of its first record.
    pub(crate) first: u64,
    /// Records.
    pub(crate) count: u32,
    /// Bytes of its messages.
    pub(crate) raw: u32,
    /// The latest wall clock of the recording before it; that of its first record if it is the first.
    pub(crate) before: u64,
    /// The latest wall clock of the recording at its end.
    pub(crate) end: u64,
    /// Wall clock of its first record.
    pub(crate) wall: u64,
    /// Monotonic clock of its first record.
    pub(crate) mono: u64,
    /// Sections.
    pub(crate) sections: u32,
}

impl Head {
    /// When its first record counts.
    pub(crate) const fn begin(&self) -> u64 {
        if self.wall > self.before { self.wall } else { self.before }
    }

    fn encode(&self) -> [u8; HEAD_LEN] {
        let mut out = [0; HEAD_LEN];
        out[0..8].copy_from_slice(&self.first.to_le_bytes());
        out[8..12].copy_from_slice(&self.count.to_le_bytes());
        out[12..16].copy_from_slice(&self.raw.to_le_bytes());
        let clocks = [self.before, self.end, self.wall, self.mono];
        for (place, clock) in out[16..48].chunks_exact_mut(8).zip(clocks) {
            place.copy_from_slice(&clock.to_le_bytes());
        }
        out[48..52].copy_from_slice(&self.sections.to_le_bytes());
        out
    }

    /// Reads the head of a block; `None` if it is none.
    pub(crate) fn decode(block: &[u8]) -> Option<Self> {
        let mut input = crate::bytes::Input::new(block.get(..HEAD_LEN)?);
        let (first, count, raw) = (input.u64()?, input.u32()?, input.u32()?);
        let (before, end, wall, mono, sections) =
            (input.u64()?, input.u64()?, input.u64()?, input.u64()?, input.u32()?);
        let is_possible = count > 0
            && count as usize <= RECORDS_MAX
            && raw as usize <= RAW_MAX
            && before <= end
            && first.checked_add(u64::from(count)).is_some();
        is_possible.then_some(Self { first, count, raw, before, end, wall, mono, sections })
    }
}

#[cfg(test)]
mod tests;
