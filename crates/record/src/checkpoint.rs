//! Checkpoints: the images of items, in slices by ranges of items, so that who wants one leaves the others packed.
//!
//! A checkpoint of the first version is one slice without a directory: `read_images` reads what either becomes when it is unpacked.

use crate::block::decode::{UNPACKED_OF_A_BYTE, unpack};
use crate::bytes::{Input, checksum, put_counted, put_varint};
use crate::frame::{FRAME_HEAD_LEN, FrameKind, LEVEL, UNPACKED_MAX, put_frame};
use crate::index::read_list;
use crate::record::ItemNumber;

/// Bytes of a slice's images.
const SLICE: usize = 16 << 10;
/// Slices of a checkpoint.
const SLICES_MAX: usize = 1 << 20;
/// Bytes before the directory: sequence number, slices, checksum of these and of the directory.
pub(crate) const HEAD_LEN: usize = 16;
/// Bytes of a slice's entry in the directory.
const PLACE_LEN: usize = 20;
/// Where in the head the checksum is.
const CHECK: usize = 12;

/// A checkpoint that is not packed yet: the images of items behind the rows beside which it is.
#[derive(Debug)]
pub(crate) struct Images {
    pub(crate) sequence: u64,
    /// Images one behind the other, and where each ends.
    payload: Vec<u8>,
    ends: Vec<usize>,
    /// Numbers of the items in the segment, in order, and in the journal.
    pub(crate) numbers: Vec<ItemNumber>,
    pub(crate) items: Vec<u32>,
}

impl Images {
    /// Without an image, which come in the order of their numbers. `items` are the journal's numbers of those that will be in it.
    pub(crate) const fn new(sequence: u64, items: Vec<u32>) -> Self {
        Self { sequence, payload: Vec::new(), ends: Vec::new(), numbers: Vec::new(), items }
    }

    /// Adds the image of an item, in parts.
    pub(crate) fn add<P: AsRef<[u8]>>(&mut self, number: ItemNumber, parts: &[P]) {
        put_varint(&mut self.payload, u64::from(number));
        put_varint(&mut self.payload, parts.len() as u64);
        for part in parts {
            put_counted(&mut self.payload, part.as_ref());
        }
        self.numbers.push(number);
        self.ends.push(self.payload.len());
    }

    /// The frame of it, and the bytes of its payload there.
    pub(crate) fn frame(&self) -> (Vec<u8>, usize) {
        let (mut directory, mut data) = (Vec::new(), Vec::new());
        let (mut from, mut begin, mut slices) = (0, 0, 0u32);
        // Without memory for it, images stand there unpacked.
        let mut packer = zstd::bulk::Compressor::new(LEVEL).ok();
        for (at, end) in self.ends.iter().enumerate() {
            if *end - begin < SLICE && at + 1 < self.ends.len() {
                continue;
            }
            let raw = &self.payload[begin..*end];
            let packed = packer.as_mut().and_then(|packer| packer.compress(raw).ok());
            let packed = packed.filter(|packed| packed.len() < raw.len());
            let kept = packed.as_deref().unwrap_or(raw);
            let numbers =
                [self.numbers[from], (at + 1 - from) as u32, raw.len() as u32, kept.len() as u32, checksum(&[kept])];
            for number in numbers {
                directory.extend_from_slice(&number.to_le_bytes());
            }
            data.extend_from_slice(kept);
            (from, begin, slices) = (at + 1, *end, slices + 1);
        }
        let mut payload = self.sequence.to_le_bytes().to_vec();
        payload.extend_from_slice(&slices.to_le_bytes());
        let check = checksum(&[&payload, &directory]);
        payload.extend_from_slice(&check.to_le_bytes());
        payload.extend_from_slice(&directory);
        payload.extend_from_slice(&data);
        let mut out = Vec::new();
        put_frame(FrameKind::SlicedImages, &payload, &mut out);
        let len = out.len() - FRAME_HEAD_LEN;
        (out, len)
    }
}

/// A slice of a checkpoint.
#[derive(Debug, Clone, Copy)]
struct Place {
    first_item: ItemNumber,
    count: u32,
    raw: usize,
    offset: usize,
    len: usize,
    check: u32,
}

/// Head and directory of a sliced checkpoint.
#[derive(Debug)]
pub(crate) struct SlicedImages {
    sequence: u64,
    slices: Vec<Place>,
}

impl SlicedImages {
    /// Bytes of head and directory, as the first [`HEAD_LEN`] bytes tell; `None` if they are no head.
    pub(crate) fn len_of(payload: &[u8]) -> Option<usize> {
        let mut input = Input::new(payload);
        input.u64()?;
        let count = input.u32()? as usize;
        (count <= SLICES_MAX).then_some(HEAD_LEN + count * PLACE_LEN)
    }

    /// Reads head and directory; `None` if they are damaged, or not there.
    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        let len = Self::len_of(payload)?;
        let (head, directory) = payload.get(..len)?.split_at(HEAD_LEN);
        let (head, check) = head.split_at(CHECK);
        if checksum(&[head, directory]).to_le_bytes() != *check {
            return None;
        }
        let sequence = Input::new(head).u64()?;
        let mut offset = len;
        let mut slices = Vec::with_capacity(directory.len() / PLACE_LEN);
        for entry in directory.chunks_exact(PLACE_LEN) {
            let mut entry = Input::new(entry);
            let (first_item, count, raw) = (entry.u32()?, entry.u32()?, entry.u32()? as usize);
            let (len, check) = (entry.u32()? as usize, entry.u32()?);
            slices.push(Place { first_item, count, raw, offset, len, check });
            offset = offset.checked_add(len)?;
        }
        slices.windows(2).all(|pair| pair[0].first_item < pair[1].first_item).then_some(Self { sequence, slices })
    }

    /// Where the slice that has an item is, and its bytes; `None` if none has it.
    pub(crate) fn of_item(&self, item: ItemNumber) -> Option<(usize, usize)> {
        self.place(item).map(|place| (place.offset, place.len))
    }

    fn place(&self, item: ItemNumber) -> Option<&Place> {
        let behind = self.slices.partition_point(|slice| slice.first_item <= item);
        self.slices.get(behind.checked_sub(1)?)
    }

    /// The images of the slice that has an item, as [`read_images`] reads them; `None` if it is damaged.
    pub(crate) fn unpack_item(&self, item: ItemNumber, slice: &[u8]) -> Option<Vec<u8>> {
        let place = self.place(item)?;
        let mut out = self.begin(u64::from(place.count));
        place.unpack(slice, &mut out)?;
        Some(out)
    }

    fn begin(&self, count: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.sequence);
        put_varint(&mut out, count);
        out
    }
}

impl Place {
    fn unpack(&self, slice: &[u8], out: &mut Vec<u8>) -> Option<()> {
        if slice.len() != self.len || checksum(&[slice]) != self.check || out.len() + self.raw > UNPACKED_MAX {
            return None;
        }
        if self.raw == self.len {
            out.extend_from_slice(slice);
        } else {
            // zstd makes no more than so much of a byte.
            let raw = Some(self.raw).filter(|raw| *raw <= self.len.saturating_mul(UNPACKED_OF_A_BYTE))?;
            out.extend_from_slice(&unpack(slice, raw)?);
        }
        Some(())
    }
}

/// All images of a sliced checkpoint, as [`read_images`] reads them; `None` if it is damaged.
pub(crate) fn unpack_all(payload: &[u8]) -> Option<Vec<u8>> {
    let sliced = SlicedImages::read(payload)?;
    let mut out = sliced.begin(sliced.slices.iter().map(|slice| u64::from(slice.count)).sum());
    for place in &sliced.slices {
        place.unpack(payload.get(place.offset..place.offset.checked_add(place.len)?)?, &mut out)?;
    }
    Some(out)
}

/// Items of a checkpoint, each with the parts of its image.
pub(crate) type ReadImages<'a> = Vec<(ItemNumber, Vec<&'a [u8]>)>;

/// Reads a checkpoint: of which sequence number it is, and the images.
pub(crate) fn read_images(bytes: &[u8]) -> Option<(u64, ReadImages<'_>)> {
    let mut input = Input::new(bytes);
    let sequence = input.varint()?;
    let images = read_list(&mut input, |input| {
        let item = u32::try_from(input.varint()?).ok()?;
        let parts = input.count().filter(|count| *count <= input.len())?;
        Some((item, (0..parts).map(|_| input.counted()).collect::<Option<Vec<_>>>()?))
    })?;
    input.is_empty().then_some((sequence, images))
}
