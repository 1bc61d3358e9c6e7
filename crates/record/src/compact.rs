//! A finished recording becomes smaller: larger blocks, packed harder. The records are the same, byte for byte.

use crate::block::RAW_MAX;
use crate::block::decode::Block;
use crate::block::encode::Effort;
use crate::checkpoint::{Images, read_images};
use crate::error::{Damage, Error};
use crate::frame::{FILE_HEAD_LEN, FileHead, FrameKind, PACKED_VERSION, put_packed};
use crate::index::{BlockPlace, ImagesPlace, Index, put_items};
use crate::packing::{BlockMaker, Rows};
use crate::reader::{Recording, name_of};
use crate::row::put_row;
use crate::segment::Segment;
use crate::store::{Store, segment_name};

/// Records of a block: more do not pack better, and take longer to read one of.
const BLOCK_RECORDS: usize = 1 << 16;
/// Bytes of a block's messages.
const BLOCK_BYTES: usize = 16 << 20;
/// Records of a slice: fewer do not pack as well, more are longer to read for one item.
const SLICE_RECORDS: usize = 1 << 12;
/// Name of a segment until it is whole.
const NEW: &str = ".new";

/// Result of compacting a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// File of the segment.
    pub segment: String,
    /// Records of the segment.
    pub records: u64,
    /// Bytes before.
    pub before: u64,
    /// Bytes after: the same if it was left as it is.
    pub after: u64,
    /// Why it was left as it is.
    pub left: Option<Left>,
}

/// Why a segment was left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The segment has no end: its writer may still be at it.
    Open,
    /// The segment is damaged: a copy would hide that.
    Damaged,
    /// The copy would not be smaller.
    Small,
}

/// Makes the segments of a recording smaller, one after the other; `told` hears of each. A segment is replaced when the new one is whole
/// and was read back.
///
/// # Errors
/// The folder cannot be read or written. What was replaced before stays so.
pub fn compact<S: Store>(store: S, mut told: impl FnMut(&Compacted)) -> Result<S, Error> {
    let (mut store, segments) = Recording::open(store)?.parts();
    for segment in &segments {
        let made = make(&store, segment)?;
        let is_smaller = |bytes: &Vec<u8>| (bytes.len() as u64) < segment.size;
        let (after, left) = match made {
            Err(left) => (segment.size, Some(left)),
            Ok(bytes) if is_smaller(&bytes) => {
                replace(&mut store, segment, &bytes)?;
                (bytes.len() as u64, None)
            }
            Ok(_) => (segment.size, Some(Left::Small)),
        };
        let records = segment.index.blocks.iter().map(|block| block.count).sum();
        told(&Compacted { segment: name_of(segment), records, before: segment.size, after, left });
    }
    Ok(store)
}

fn replace<S: Store>(store: &mut S, segment: &Segment, bytes: &[u8]) -> Result<(), Error> {
    let (name, new) = (name_of(segment), format!("{}{NEW}", segment_name(segment.head.number)));
    // Remains of an earlier attempt.
    let _ = store.remove(&new);
    let written = store.append(&new, bytes).and_then(|()| store.sync(&new));
    if let Err(e) = written {
        let _ = store.remove(&new);
        return Err(Error::store(&new, "writing the smaller segment")(e));
    }
    store.rename(&new, &name).map_err(Error::store(&name, "putting the smaller segment in its place"))
}

/// A segment anew.
fn make<S: Store>(store: &S, segment: &Segment) -> Result<Result<Vec<u8>, Left>, Error> {
    if !segment.is_closed {
        return Ok(Err(Left::Open));
    }
    let maker =
        BlockMaker::new(Effort::COMPACT, SLICE_RECORDS).map_err(Error::store(&segment.name, "making the packer"))?;
    let index = Index { items: segment.index.items.clone(), gaps: segment.index.gaps.clone(), ..Index::default() };
    let rows = Rows { first: segment.head.first, ..Rows::default() };
    let mut out = Made {
        out: FileHead { version: PACKED_VERSION, ..segment.head }.encode().to_vec(),
        index,
        maker,
        rows,
        ended: None,
    };
    debug_assert_eq!(out.out.len(), FILE_HEAD_LEN);
    out.index.counts = segment.index.counts;
    out.ended = Some(segment.head.before).filter(|before| *before > 0);
    let mut table = Vec::new();
    put_items(1, &segment.index.items, &mut table);
    put_packed(FrameKind::Items, &table, &mut out.out);
    let mut images = segment.index.images.iter().peekable();
    let mut next = segment.head.first;
    for place in &segment.index.blocks {
        while let Some(checkpoint) = images.next_if(|images| images.sequence <= place.first) {
            // A checkpoint that lies within a large block is dropped: the one before it and the updates since say the same.
            if out.rows.count == 0 || out.rows.count >= BLOCK_RECORDS / 2 {
                out.block();
                out.images(store, segment, checkpoint)?;
            }
        }
        let Some(block) = segment.block(store, place)? else { return Ok(Err(Left::Damaged)) };
        if place.first != next {
            return Ok(Err(Left::Damaged));
        }
        next = place.next();
        for record in block.records() {
            if out.rows.raw >= BLOCK_BYTES || out.rows.raw + record.body.len() > RAW_MAX {
                out.block();
            }
            put_row(record.kind, record.item, record.clocks, record.body, &mut out.rows.bytes);
            out.rows.count += 1;
            out.rows.raw += record.body.len();
            if out.rows.count >= BLOCK_RECORDS {
                out.block();
            }
        }
    }
    out.block();
    for checkpoint in images {
        out.images(store, segment, checkpoint)?;
    }
    let len = out.out.len() as u64;
    crate::segment::put_end(PACKED_VERSION, &out.index, len, &mut out.out);
    Ok(if is_same(store, segment, &out)? { Ok(out.out) } else { Err(Left::Damaged) })
}

/// A segment that is being made.
struct Made {
    out: Vec<u8>,
    index: Index,
    maker: BlockMaker,
    /// Records of the block that grows.
    rows: Rows,
    ended: Option<u64>,
}

impl Made {
    fn block(&mut self) {
        let offset = self.out.len() as u64;
        if let Some(place) = self.maker.make(&self.rows, self.ended, &mut self.out) {
            self.ended = Some(place.end);
            self.rows.first = place.next();
            self.index.blocks.push(BlockPlace { offset, ..place });
        }
        self.rows.clear();
    }

    fn images<S: Store>(&mut self, store: &S, segment: &Segment, place: &ImagesPlace) -> Result<(), Error> {
        let Some(payload) = segment.images(store, place)? else { return Ok(()) };
        let Some((sequence, images)) = read_images(&payload) else { return Ok(()) };
        let mut made = Images::new(sequence, Vec::new());
        for (number, parts) in &images {
            made.add(*number, parts);
        }
        let offset = self.out.len() as u64;
        let (frame, len) = made.frame();
        self.out.extend_from_slice(&frame);
        self.index.images.push(ImagesPlace { offset, len, ..place.clone() });
        Ok(())
    }
}

/// Whether what was made has the same records: read back before anything is replaced.
fn is_same<S: Store>(store: &S, segment: &Segment, made: &Made) -> Result<bool, Error> {
    let name = name_of(segment);
    let files = [(name.clone(), made.out.clone())].into_iter().collect();
    let copy = crate::store::Memory { files, room: None };
    let mut damage: Vec<Damage> = Vec::new();
    let read = Segment::open(&copy, segment.head.number, made.out.len() as u64, &mut damage)?;
    // The old blocks go along, one at a time.
    let mut blocks = segment.index.blocks.iter();
    let mut old: Option<Block> = None;
    let mut at = 0;
    for place in &read.index.blocks {
        let Some(new) = read.block(&copy, place)? else { return Ok(false) };
        for record in new.records() {
            if old.as_ref().is_none_or(|block| at >= block.len()) {
                let Some(place) = blocks.next() else { return Ok(false) };
                (old, at) = (segment.block(store, place)?, 0);
            }
            if old.as_ref().and_then(|block| block.record(at)) != Some(record) {
                return Ok(false);
            }
            at += 1;
        }
    }
    Ok(damage.is_empty() && blocks.next().is_none() && old.is_none_or(|block| at == block.len()))
}
