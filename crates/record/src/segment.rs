//! A segment as it is found: by its index, or where that is missing by a look at every frame; with what its writer had not yet put into
//! blocks.

use crate::block::decode::{self, Block};
use crate::block::encode::{Effort, Encoder};
use crate::block::raw;
use crate::block::slices::{self, PLACE_LEN, Sliced};
use crate::bytes::Input;
use crate::checkpoint::{self, SlicedImages, read_images};
use crate::error::{Damage, Error};
use crate::frame::{FILE_HEAD_LEN, FRAME_HEAD_LEN, FileHead, FrameHead, FrameKind, HeadFault, VERSION, put_frame};
use crate::index::{BlockPlace, ImagesPlace, Index, read_items};
use crate::record::{Clocks, Item, ItemNumber};
use crate::row::read_row;
use crate::store::{Store, segment_name, tail_name};
use std::borrow::Cow;

/// Bytes of the last frame.
const END_LEN: usize = FRAME_HEAD_LEN + 8;
/// Bytes that are read at a time in search of a frame.
const SEARCH: usize = 1 << 20;
/// Bytes of a sliced block that are read in search of its directory: enough for 64 slices.
const DIRECTORY_READ: usize = crate::block::HEAD_LEN + 64 * PLACE_LEN;
/// The offset of a block that is in no file: what was in the tail.
pub(crate) const IN_MEMORY: u64 = u64::MAX;

/// A segment that can be read.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) name: String,
    pub(crate) head: FileHead,
    pub(crate) index: Index,
    /// The end was written: nothing will be added.
    pub(crate) is_closed: bool,
    /// Bytes of its whole frames; more may be there of one that was cut.
    pub(crate) len: u64,
    /// Bytes of the file.
    pub(crate) size: u64,
    /// Records of the tail that no block has, as a block.
    pub(crate) tail: Option<Vec<u8>>,
}

/// Reads the head of a segment.
pub(crate) fn read_head(store: &impl Store, name: &str) -> Result<FileHead, Error> {
    let bytes = store.read(name, 0, FILE_HEAD_LEN).map_err(Error::store(name, "reading"))?;
    let name = name.to_owned();
    FileHead::decode(&bytes).map_err(|fault| match fault {
        HeadFault::Foreign => Error::Foreign { name },
        HeadFault::Version(found) => Error::Version { name, found, known: VERSION },
        HeadFault::Damaged => Error::Head { name },
    })
}

/// Appends the frames with which a segment of a version ends, which is so long so far.
pub(crate) fn put_end(version: u16, index: &Index, len: u64, out: &mut Vec<u8>) {
    crate::frame::put_packed(FrameKind::Index, &index.encode(version), out);
    put_frame(FrameKind::End, &len.to_le_bytes(), out);
}

impl Segment {
    /// Opens a segment. What is damaged goes to `damage`.
    pub(crate) fn open(store: &impl Store, number: u64, size: u64, damage: &mut Vec<Damage>) -> Result<Self, Error> {
        let name = segment_name(number);
        // The tail first: what is moved from it into a block meanwhile is found in both, and not in neither.
        let rows = read_tail(store, number, damage)?;
        let head = read_head(store, &name)?;
        let empty = Index::default();
        let mut segment =
            Self { name, head, index: empty, is_closed: false, len: FILE_HEAD_LEN as u64, size, tail: None };
        match segment.read_index(store)? {
            Some(index) => {
                segment.index = index;
                segment.is_closed = true;
                segment.len = size;
            }
            None => segment.scan(store, damage)?,
        }
        segment.take_tail(rows);
        Ok(segment)
    }

    /// Takes in what was written since it was opened. What cannot be read yet, since its writer is about it, comes the next time.
    pub(crate) fn look_again(&mut self, store: &impl Store, size: u64) -> Result<(), Error> {
        let mut unfinished = Vec::new();
        let rows = read_tail(store, self.head.number, &mut unfinished)?;
        if let Some(block) = self.tail.take().and_then(|tail| decode::decode(&tail)) {
            self.index.remove_last_block(&block);
        }
        self.size = size;
        match self.read_index(store)? {
            Some(index) => {
                self.index = index;
                self.is_closed = true;
                self.len = size;
            }
            None => self.scan(store, &mut unfinished)?,
        }
        self.take_tail(rows);
        Ok(())
    }

    /// The index that its end refers to; `None` if there is none, or it is damaged.
    fn read_index(&self, store: &impl Store) -> Result<Option<Index>, Error> {
        let Some(at) = self.size.checked_sub(END_LEN as u64) else { return Ok(None) };
        let end = self.read(store, at, END_LEN)?;
        let offset = FrameHead::decode(&end)
            .filter(|head| head.kind == FrameKind::End)
            .and_then(|head| head.payload(end.get(FRAME_HEAD_LEN..)?).and_then(|payload| Input::new(&payload).u64()));
        let Some(offset) = offset.filter(|offset| *offset < at) else { return Ok(None) };
        let bytes = self.read(store, offset, usize::try_from(at - offset).unwrap_or(usize::MAX))?;
        let index = FrameHead::decode(&bytes).filter(|head| head.kind == FrameKind::Index).and_then(|head| {
            head.payload(bytes.get(FRAME_HEAD_LEN..)?).and_then(|payload| Index::decode(&payload, self.head.version))
        });
        Ok(index)
    }

    fn read(&self, store: &impl Store, offset: u64, limit: usize) -> Result<Vec<u8>, Error> {
        store.read(&self.name, offset, limit).map_err(Error::store(&self.name, "reading"))
    }

    /// Makes the index from all frames.
    fn scan(&mut self, store: &impl Store, damage: &mut Vec<Damage>) -> Result<(), Error> {
        let mut at = self.len;
        while at < self.size {
            let bytes = self.read(store, at, FRAME_HEAD_LEN)?;
            let head = FrameHead::decode(&bytes);
            let end = head.map_or(u64::MAX, |head| at + (FRAME_HEAD_LEN + head.len) as u64);
            if end > self.size {
                let Some(next) = self.find_frame(store, at + 1)? else {
                    damage.push(Damage::Cut { segment: self.name.clone(), offset: at, bytes: self.size - at });
                    return Ok(());
                };
                damage.push(Damage::Bytes { segment: self.name.clone(), offset: at, bytes: next - at });
                at = next;
                continue;
            }
            if let Some(head) = head {
                let kept = self.read(store, at + FRAME_HEAD_LEN as u64, head.len)?;
                let taken = head.payload(&kept).and_then(|payload| self.take_frame(at, head, &payload));
                if taken.is_none() {
                    damage.push(Damage::Frame { segment: self.name.clone(), offset: at, what: head.kind.name() });
                }
            }
            at = end;
            self.len = at;
        }
        Ok(())
    }

    /// Where the next whole frame begins, from `at` on.
    fn find_frame(&self, store: &impl Store, mut at: u64) -> Result<Option<u64>, Error> {
        while at < self.size {
            let bytes = self.read(store, at, SEARCH + FRAME_HEAD_LEN)?;
            for start in 0..bytes.len().min(SEARCH) {
                let Some(head) = FrameHead::decode(&bytes[start..]) else { continue };
                let kept = self.read(store, at + (start + FRAME_HEAD_LEN) as u64, head.len)?;
                if head.payload(&kept).is_some() {
                    return Ok(Some(at + start as u64));
                }
            }
            at += SEARCH as u64;
        }
        Ok(None)
    }

    fn take_frame(&mut self, offset: u64, head: FrameHead, payload: &[u8]) -> Option<()> {
        match head.kind {
            FrameKind::Raw => {
                let block = raw::decode(payload.to_vec(), None)?;
                self.index.add_block(BlockPlace::of_records(offset, head.len, &block), &block);
            }
            FrameKind::Block | FrameKind::Sliced => {
                let block = decode_packed(head.kind, payload)?;
                let place = BlockPlace { len: head.len, ..BlockPlace::of(offset, head.kind, payload)? };
                self.index.add_block(place, &block);
            }
            FrameKind::Items => {
                let (first, items) = read_items(&mut Input::new(payload))?;
                self.take_items(first, items)?;
            }
            FrameKind::Images | FrameKind::SlicedImages => {
                let payload = unpacked_images(head.kind, payload.into())?;
                let (sequence, images) = read_images(&payload)?;
                let mut items: Vec<ItemNumber> = images.into_iter().map(|(item, _)| item).collect();
                items.sort_unstable();
                let items = items.into_iter().collect();
                self.index.images.push(ImagesPlace { offset, len: head.len, sequence, items });
            }
            FrameKind::Index | FrameKind::End | FrameKind::Rows => {}
        }
        Some(())
    }

    /// Takes in a table of items, of which some may be known; `None` if some before it are not.
    fn take_items(&mut self, first: ItemNumber, items: Vec<Item>) -> Option<()> {
        let known = self.index.items.len();
        let overlap = known.checked_sub((first as usize).checked_sub(1)?)?;
        self.index.items.extend(items.into_iter().skip(overlap));
        Some(())
    }

    /// Takes in what the tail has behind the last block.
    fn take_tail(&mut self, tail: Tail) {
        let mut next = self.index.next().unwrap_or(self.head.first);
        let Ok(mut encoder) = Encoder::new(Effort::LIVE) else { return };
        let start = next;
        for (first, items) in tail.items {
            let _ = self.take_items(first, items);
        }
        for (first, rows) in &tail.rows {
            let (mut input, mut sequence, mut clocks) = (Input::new(rows), *first, Clocks::default());
            while let Some(row) = (!input.is_empty()).then(|| read_row(&mut input, &mut clocks)).flatten() {
                if sequence == next && encoder.has_room(row.body.len()) {
                    encoder.push(row.kind, row.item, row.clocks, row.body);
                    next += 1;
                }
                sequence = sequence.saturating_add(1);
            }
        }
        let mut block = Vec::new();
        let before = self.index.blocks.last().map(|block| block.end).or(Some(self.head.before).filter(|at| *at > 0));
        if encoder.finish(start, before, &mut block).is_some()
            && let (Some(read), Some(place)) =
                (decode::decode(&block), BlockPlace::of(IN_MEMORY, FrameKind::Block, &block))
        {
            self.index.add_block(place, &read);
            self.tail = Some(block);
        }
    }

    /// A frame's kind and payload, which has so many bytes in the file; `None` if it is damaged.
    fn payload(&self, store: &impl Store, offset: u64, len: usize) -> Result<Option<(FrameKind, Vec<u8>)>, Error> {
        if offset == IN_MEMORY {
            return Ok(self.tail.clone().map(|tail| (FrameKind::Block, tail)));
        }
        let bytes = self.read(store, offset, FRAME_HEAD_LEN + len.min(crate::frame::PAYLOAD_MAX))?;
        let payload =
            FrameHead::decode(&bytes).and_then(|head| Some((head.kind, head.payload(&bytes[FRAME_HEAD_LEN..])?)));
        Ok(payload.map(|(kind, payload)| (kind, payload.into_owned())))
    }

    /// A block; `None` if it is damaged.
    pub(crate) fn block(&self, store: &impl Store, place: &BlockPlace) -> Result<Option<Block>, Error> {
        let payload = self.block_payload(store, place)?;
        let block = payload.and_then(|(kind, payload)| decode_block(kind, payload));
        Ok(block.filter(|block| is_whole(block, place)))
    }

    /// The payload of a block, for [`decode_block`], and the kind of its frame; `None` if it is damaged.
    pub(crate) fn block_payload(
        &self,
        store: &impl Store,
        place: &BlockPlace,
    ) -> Result<Option<(FrameKind, Vec<u8>)>, Error> {
        self.payload(store, place.offset, place.len)
    }

    /// The records of an item in a block; `None` if it is damaged. Of a sliced block no more than the slice that has the item is read.
    pub(crate) fn block_of(
        &self,
        store: &impl Store,
        place: &BlockPlace,
        item: ItemNumber,
    ) -> Result<Option<Block>, Error> {
        let Some((kind, start)) = self.start(store, place.offset, DIRECTORY_READ.min(place.len))? else {
            let payload = self.payload(store, place.offset, place.len)?;
            let block = payload.and_then(|(_, payload)| decode::decode_item(&payload, item));
            return Ok(block.filter(|block| is_of(block, place)));
        };
        match kind {
            FrameKind::Sliced => {
                let block = self.sliced_block_of(store, place, item, start)?;
                Ok(block.filter(|block| is_of(block, place)))
            }
            FrameKind::Raw => {
                let payload = self.payload(store, place.offset, place.len)?;
                let block = payload.and_then(|(_, payload)| raw::decode(payload, Some(item)));
                Ok(block.filter(|block| is_of(block, place)))
            }
            FrameKind::Block => {
                let payload = self.payload(store, place.offset, place.len)?;
                let block = payload.and_then(|(_, payload)| decode::decode_item(&payload, item));
                Ok(block.filter(|block| is_of(block, place)))
            }
            _ => Ok(None),
        }
    }

    /// Of a sliced block, of which the first bytes were read.
    fn sliced_block_of(
        &self,
        store: &impl Store,
        place: &BlockPlace,
        item: ItemNumber,
        mut start: Vec<u8>,
    ) -> Result<Option<Block>, Error> {
        let payload = place.offset + FRAME_HEAD_LEN as u64;
        let Some(len) = Sliced::len_of(&start).filter(|len| *len <= place.len) else { return Ok(None) };
        if start.len() < len {
            start = self.read(store, payload, len)?;
        }
        let Some(sliced) = Sliced::read(&start) else { return Ok(None) };
        let times = if sliced.ascends {
            Some(Vec::new())
        } else {
            self.payload(store, place.offset, place.len)?.and_then(|(_, payload)| slices::times(&payload))
        };
        let (Some(slice), Some(times)) = (sliced.of_item(item), times) else { return Ok(None) };
        let bytes = self.read(store, payload + slice.offset as u64, slice.len.min(place.len))?;
        Ok(sliced.read_item(slice, &bytes, item, &times))
    }

    /// The kind of a frame that is not packed, and the first bytes of its payload; `None` if it is damaged, packed, or in no file.
    fn start(&self, store: &impl Store, offset: u64, len: usize) -> Result<Option<(FrameKind, Vec<u8>)>, Error> {
        if offset == IN_MEMORY {
            return Ok(None);
        }
        let mut bytes = self.read(store, offset, FRAME_HEAD_LEN + len)?;
        let Some(kind) = FrameHead::decode(&bytes).filter(|head| !head.is_packed()).map(|head| head.kind) else {
            return Ok(None);
        };
        bytes.drain(..FRAME_HEAD_LEN);
        Ok(Some((kind, bytes)))
    }

    /// A checkpoint, as [`read_images`] reads it; `None` if it is damaged.
    pub(crate) fn images(&self, store: &impl Store, place: &ImagesPlace) -> Result<Option<Vec<u8>>, Error> {
        let payload = self.payload(store, place.offset, place.len)?;
        Ok(payload.and_then(|(kind, payload)| unpacked_images(kind, payload.into())).map(Cow::into_owned))
    }

    /// The images of a checkpoint among which that of an item is, if it has one; `None` if it is damaged. No more than the item's slice is read.
    pub(crate) fn images_of(
        &self,
        store: &impl Store,
        place: &ImagesPlace,
        item: ItemNumber,
    ) -> Result<Option<Vec<u8>>, Error> {
        let start = self.start(store, place.offset, DIRECTORY_READ.min(place.len))?;
        let Some((FrameKind::SlicedImages, mut start)) = start else { return self.images(store, place) };
        let payload = place.offset + FRAME_HEAD_LEN as u64;
        let Some(len) = SlicedImages::len_of(&start).filter(|len| *len <= place.len) else { return Ok(None) };
        if start.len() < len {
            start = self.read(store, payload, len)?;
        }
        let Some(sliced) = SlicedImages::read(&start) else { return Ok(None) };
        let Some((offset, len)) = sliced.of_item(item) else { return Ok(None) };
        let slice = self.read(store, payload + offset as u64, len.min(place.len))?;
        Ok(sliced.unpack_item(item, &slice))
    }

    /// The number of an item in this segment.
    pub(crate) fn number_of(&self, item: &Item) -> Option<ItemNumber> {
        let is_it = |known: &Item| known.name == item.name && known == item;
        self.index.items.iter().position(is_it).map(|at| at as ItemNumber + 1)
    }

    /// Whether a block has a gap.
    pub(crate) fn has_gap(&self, place: &BlockPlace) -> bool {
        let at = self.index.gaps.partition_point(|gap| gap.sequence < place.first);
        self.index.gaps.get(at).is_some_and(|gap| gap.sequence < place.next())
    }
}

/// Whether a block is that of which an index tells.
fn is_of(block: &Block, place: &BlockPlace) -> bool {
    block.head.first == place.first && u64::from(block.head.count) == place.count
}

/// Whether a block is that of which an index tells, with all its records. An index that tells of other records than there are is damaged, too.
pub(crate) fn is_whole(block: &Block, place: &BlockPlace) -> bool {
    is_of(block, place) && block.len() as u64 == place.count
}

/// A block out of the payload of its frame; `None` if it is damaged, or none.
pub(crate) fn decode_block(kind: FrameKind, payload: Vec<u8>) -> Option<Block> {
    match kind {
        FrameKind::Raw => raw::decode(payload, None),
        kind => decode_packed(kind, &payload),
    }
}

fn decode_packed(kind: FrameKind, payload: &[u8]) -> Option<Block> {
    match kind {
        FrameKind::Block => decode::decode(payload),
        FrameKind::Sliced => slices::decode(payload),
        _ => None,
    }
}

/// The payload of a checkpoint as that of one that is not sliced; `None` if it is damaged, or none.
fn unpacked_images(kind: FrameKind, payload: Cow<'_, [u8]>) -> Option<Cow<'_, [u8]>> {
    match kind {
        FrameKind::Images => Some(payload),
        FrameKind::SlicedImages => checkpoint::unpack_all(&payload).map(Cow::Owned),
        _ => None,
    }
}

#[derive(Debug, Default)]
struct Tail {
    items: Vec<(ItemNumber, Vec<Item>)>,
    /// Rows one behind the other, and the sequence number of the first, as they were written together.
    rows: Vec<(u64, Vec<u8>)>,
}

/// The rows of the tail of a segment, up to where it is cut.
fn read_tail(store: &impl Store, number: u64, damage: &mut Vec<Damage>) -> Result<Tail, Error> {
    let name = tail_name(number);
    let mut tail = Tail::default();
    let bytes = match store.read(&name, 0, usize::MAX) {
        // A segment that is closed has none.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(tail),
        read => read.map_err(Error::store(&name, "reading"))?,
    };
    let mut at = 0;
    while at < bytes.len() {
        let frame = FrameHead::decode(&bytes[at..]).and_then(|head| {
            let kept = bytes.get(at + FRAME_HEAD_LEN..at + FRAME_HEAD_LEN + head.len)?;
            tail.take(head.kind, &head.payload(kept)?)?;
            Some(FRAME_HEAD_LEN + head.len)
        });
        let Some(len) = frame else {
            let (offset, bytes) = (at as u64, (bytes.len() - at) as u64);
            damage.push(Damage::Cut { segment: name, offset, bytes });
            break;
        };
        at += len;
    }
    Ok(tail)
}

impl Tail {
    fn take(&mut self, kind: FrameKind, payload: &[u8]) -> Option<()> {
        let mut input = Input::new(payload);
        match kind {
            FrameKind::Items => self.items.push(read_items(&mut input)?),
            FrameKind::Rows => {
                let first = input.u64()?;
                let (rows, mut clocks) = (input, Clocks::default());
                while !input.is_empty() {
                    read_row(&mut input, &mut clocks)?;
                }
                self.rows.push((first, rows.rest().to_vec()));
            }
            _ => {}
        }
        Some(())
    }
}
