//! What a segment has, and where: written at its end, made anew by a scan where it is missing.

use crate::block::decode::{self, Block};
use crate::block::{Head, slices};
use crate::bytes::{Input, put_counted, put_varint};
use crate::frame::{FrameKind, RANGES_FROM};
use crate::item_set::ItemSet;
use crate::record::{Gap, Item, ItemNumber, Kind};

/// Where a block is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockPlace {
    /// Of its frame.
    pub(crate) offset: u64,
    /// Bytes of the frame's payload.
    pub(crate) len: usize,
    /// Sequence number of its first record.
    pub(crate) first: u64,
    /// Records.
    pub(crate) count: u64,
    /// Bytes of its messages.
    pub(crate) raw: u64,
    /// When it begins and ends, by the recording's time.
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// Items that it has records of.
    pub(crate) items: ItemSet,
}

impl BlockPlace {
    /// Of a block of either kind; `None` if it is damaged.
    pub(crate) fn of(offset: u64, kind: FrameKind, block: &[u8]) -> Option<Self> {
        let head = Head::decode(block)?;
        let items = if kind == FrameKind::Sliced { slices::items(block)? } else { decode::items(block)? };
        let items = items.into_iter().collect();
        let (first, count, raw) = (head.first, u64::from(head.count), u64::from(head.raw));
        Some(Self { offset, len: block.len(), first, count, raw, begin: head.begin(), end: head.end, items })
    }

    /// Of a block whose frame has a payload of so many bytes, by its records, which all were read.
    pub(crate) fn of_records(offset: u64, len: usize, block: &Block) -> Self {
        let Head { first, count, raw, end, .. } = block.head;
        let mut items: Vec<ItemNumber> = (0..block.len()).filter_map(|at| Some(block.place(at)?.0)).collect();
        items.sort_unstable();
        items.dedup();
        let (count, raw, items) = (u64::from(count), u64::from(raw), items.into_iter().collect());
        Self { offset, len, first, count, raw, begin: block.head.begin(), end, items }
    }

    /// The sequence number behind its last record.
    pub(crate) const fn next(&self) -> u64 {
        self.first + self.count
    }
}

/// Where a checkpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImagesPlace {
    /// Of its frame.
    pub(crate) offset: u64,
    /// Bytes of the frame's payload.
    pub(crate) len: usize,
    /// The checkpoint holds what was so before the record of this sequence number.
    pub(crate) sequence: u64,
    /// Items of which it has the image.
    pub(crate) items: ItemSet,
}

/// A gap and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GapPlace {
    pub(crate) sequence: u64,
    pub(crate) time: u64,
    pub(crate) gap: Gap,
}

/// Messages and bytes of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Messages.
    pub messages: u64,
    /// Their bytes, as received.
    pub bytes: u64,
}

/// Of each kind, by its number less one.
pub(crate) type Counts = [Count; Kind::ALL.len()];

/// Content of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Index {
    /// By their numbers less one.
    pub(crate) items: Vec<Item>,
    pub(crate) blocks: Vec<BlockPlace>,
    pub(crate) images: Vec<ImagesPlace>,
    pub(crate) gaps: Vec<GapPlace>,
    pub(crate) counts: Counts,
}

/// Bytes that an entry of the index takes at least: what says that there are more than could be is damaged.
const ENTRY_MIN: usize = 3;

impl Index {
    /// Takes in which records a block has.
    pub(crate) fn add_block(&mut self, place: BlockPlace, block: &Block) {
        self.blocks.push(place);
        for record in block.records() {
            self.count(record.kind, record.body.len());
            if let (Kind::Gap, Some(gap)) = (record.kind, Gap::decode(record.body)) {
                self.gaps.push(GapPlace { sequence: record.sequence, time: record.time, gap });
            }
        }
    }

    /// Takes the last block out again, which [`Self::add_block`] has taken in.
    pub(crate) fn remove_last_block(&mut self, block: &Block) {
        let Some(place) = self.blocks.pop() else { return };
        for record in block.records() {
            let count = &mut self.counts[record.kind as usize - 1];
            count.messages = count.messages.saturating_sub(1);
            count.bytes = count.bytes.saturating_sub(record.body.len() as u64);
        }
        self.gaps.retain(|gap| gap.sequence < place.first);
    }

    /// Counts a record.
    pub(crate) fn count(&mut self, kind: Kind, len: usize) {
        let count = &mut self.counts[kind as usize - 1];
        count.messages += 1;
        count.bytes += len as u64;
    }

    /// When the last block before a checkpoint ends; 0 if there is none.
    pub(crate) fn ended_before(&self, images: &ImagesPlace) -> u64 {
        let behind = self.blocks.partition_point(|block| block.next() <= images.sequence);
        behind.checked_sub(1).map_or(0, |at| self.blocks[at].end)
    }

    /// The sequence number behind the last record, if there is one.
    pub(crate) fn next(&self) -> Option<u64> {
        self.blocks.last().map(BlockPlace::next)
    }

    /// As it stands in a segment of a version.
    pub(crate) fn encode(&self, version: u16) -> Vec<u8> {
        let put_set = |items: &ItemSet, out: &mut Vec<u8>| {
            if version >= RANGES_FROM { items.put(out) } else { items.put_list(out) }
        };
        let mut out = Vec::new();
        put_items(1, &self.items, &mut out);
        put_varint(&mut out, self.blocks.len() as u64);
        for block in &self.blocks {
            for number in [block.offset, block.len as u64, block.first, block.count, block.raw, block.begin, block.end]
            {
                put_varint(&mut out, number);
            }
            put_set(&block.items, &mut out);
        }
        put_varint(&mut out, self.images.len() as u64);
        for images in &self.images {
            for number in [images.offset, images.len as u64, images.sequence] {
                put_varint(&mut out, number);
            }
            put_set(&images.items, &mut out);
        }
        put_varint(&mut out, self.gaps.len() as u64);
        for place in &self.gaps {
            put_varint(&mut out, place.sequence);
            put_varint(&mut out, place.time);
            put_counted(&mut out, &place.gap.encode());
        }
        put_varint(&mut out, self.counts.len() as u64);
        for count in &self.counts {
            put_varint(&mut out, count.messages);
            put_varint(&mut out, count.bytes);
        }
        out
    }

    /// Reads the index of a segment of a version; `None` if it is none. What a later version adds behind it is not looked at.
    pub(crate) fn decode(bytes: &[u8], version: u16) -> Option<Self> {
        let mut input = Input::new(bytes);
        let (_, items) = read_items(&mut input)?;
        let known = items.len();
        let read_set = |input: &mut Input<'_>| {
            if version >= RANGES_FROM { ItemSet::read(input, known) } else { ItemSet::read_list(input) }
        };
        let blocks = read_list(&mut input, |input| {
            let (offset, len, first, count) = (input.varint()?, input.count()?, input.varint()?, input.varint()?);
            let (raw, begin, end, items) = (input.varint()?, input.varint()?, input.varint()?, read_set(input)?);
            first.checked_add(count)?;
            Some(BlockPlace { offset, len, first, count, raw, begin, end, items })
        })?;
        let images = read_list(&mut input, |input| {
            let (offset, len, sequence) = (input.varint()?, input.count()?, input.varint()?);
            Some(ImagesPlace { offset, len, sequence, items: read_set(input)? })
        })?;
        let gaps = read_list(&mut input, |input| {
            let (sequence, time, gap) = (input.varint()?, input.varint()?, Gap::decode(input.counted()?)?);
            Some(GapPlace { sequence, time, gap })
        })?;
        let kinds = input.count()?;
        let mut counts = Counts::default();
        for at in 0..kinds.min(1 << 8) {
            let count = Count { messages: input.varint()?, bytes: input.varint()? };
            if let Some(place) = counts.get_mut(at) {
                *place = count;
            }
        }
        Some(Self { items, blocks, images, gaps, counts })
    }
}

pub(crate) fn read_list<'a, T>(
    input: &mut Input<'a>,
    mut each: impl FnMut(&mut Input<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = input.count().filter(|count| *count <= input.len() / ENTRY_MIN)?;
    (0..count).map(|_| each(input)).collect()
}

/// Appends a table of items, the first of which has this number.
pub(crate) fn put_items(first: ItemNumber, items: &[Item], out: &mut Vec<u8>) {
    put_varint(out, u64::from(first));
    put_varint(out, items.len() as u64);
    for item in items {
        put_counted(out, item.service.as_bytes());
        out.push(item.domain);
        put_counted(out, item.name.as_bytes());
    }
}

/// Reads a table of items and the number of the first.
pub(crate) fn read_items(input: &mut Input<'_>) -> Option<(ItemNumber, Vec<Item>)> {
    let first = u32::try_from(input.varint()?).ok()?;
    let text = |bytes: &[u8]| Some(std::str::from_utf8(bytes).ok()?.into());
    let items = read_list(input, |input| {
        Some(Item { service: text(input.counted()?)?, domain: input.u8()?, name: text(input.counted()?)? })
    })?;
    Some((first, items))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn index(blocks: &[(u64, Vec<u32>)]) -> Index {
        let item = |n: u32| Item { service: "FEED".into(), domain: 6, name: format!("I{n}").into() };
        let mut index = Index { items: (0..40).map(item).collect(), ..Index::default() };
        let mut first = 0;
        for (count, items) in blocks {
            let mut items = items.clone();
            items.sort_unstable();
            let items: ItemSet = items.into_iter().collect();
            let (offset, sequence) = (64 + 100 * first, first);
            index.images.push(ImagesPlace { offset, len: 9, sequence, items: items.clone() });
            let (raw, begin, end) = (*count * 50, first, first + count);
            index.blocks.push(BlockPlace { offset, len: 90, first, count: *count, raw, begin, end, items });
            first += count;
        }
        index.count(Kind::Update, 77);
        index
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        /// As it was written, in either way; and whatever is changed in it, it is an index or none, with no more than its bytes can hold.
        #[test]
        fn an_index_comes_back_or_is_none(
            blocks in proptest::collection::vec((1u64..1 << 20, proptest::collection::vec(0u32..=40, 0..30)), 0..6),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let index = index(&blocks);
            for version in 1..=3 {
                let mut bytes = index.encode(version);
                prop_assert_eq!(Index::decode(&bytes, version), Some(index.clone()));
                for (at, byte) in &changes {
                    let at = at.index(bytes.len());
                    bytes[at] = *byte;
                }
                let _ = Index::decode(&bytes[..cut.index(bytes.len())], version);
                if let Some(changed) = Index::decode(&bytes, version) {
                    prop_assert!(changed.blocks.len() + changed.images.len() + changed.items.len() <= bytes.len());
                }
            }
        }
    }
}
