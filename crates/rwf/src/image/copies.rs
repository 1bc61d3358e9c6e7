//! Copies of values of a list, by pieces that a processor copies with one instruction.

use std::ops::Range;

/// Bytes that are copied word by word; more are copied at once.
const MAX_IN_WORDS: usize = 64;
/// Bytes of a word.
pub(super) const WORD: usize = size_of::<u64>();

/// Where bytes come from, and where they go.
#[derive(Debug, Clone, Copy)]
struct Way {
    from: u16,
    to: u16,
}

/// What is copied: by fours and eights as far as that goes, for a copy of any length takes longer than those.
#[derive(Debug, Default)]
pub(super) struct Copies {
    bytes: Box<[Way]>,
    halves: Box<[Way]>,
    words: Box<[Way]>,
    /// More bytes than are copied by words.
    long: Box<[(Way, u16)]>,
}

/// Bytes of half a word.
const HALF: usize = WORD / 2;

/// Collects what is to be copied.
#[derive(Debug, Default)]
pub(super) struct Copying {
    bytes: Vec<Way>,
    halves: Vec<Way>,
    words: Vec<Way>,
    long: Vec<(Way, u16)>,
}

impl Copying {
    /// So many bytes, of which up to `alike` more before them may be written too: they are the same there already.
    pub(super) fn add(&mut self, from: usize, to: usize, count: usize, alike: usize) {
        let way = |at: usize| Way { from: (from + at) as u16, to: (to + at) as u16 };
        // Such as end where the bytes end, and begin before them.
        let before = |len: usize| Way { from: (from + count - len) as u16, to: (to + count - len) as u16 };
        match count {
            0 => {}
            _ if count <= HALF && count + alike >= HALF => self.halves.push(before(HALF)),
            _ if count < HALF => self.bytes.extend((0..count).map(way)),
            _ if count <= WORD && count + alike >= WORD => self.words.push(before(WORD)),
            _ if count < WORD => self.halves.extend([way(0), before(HALF)]),
            _ if count <= MAX_IN_WORDS => {
                self.words.extend((0..count / WORD).map(|number| way(number * WORD)));
                self.words.extend((!count.is_multiple_of(WORD)).then(|| before(WORD)));
            }
            _ => self.long.push((way(0), count as u16)),
        }
    }

    pub(super) fn end(self) -> Copies {
        let Self { bytes, halves, words, long } = self;
        Copies { bytes: bytes.into(), halves: halves.into(), words: words.into(), long: long.into() }
    }
}

/// So many bytes from a place on.
#[inline]
pub(super) fn at<const LEN: usize>(bytes: &[u8], place: u16) -> [u8; LEN] {
    *bytes[usize::from(place)..].first_chunk().expect("as many as that")
}

#[inline]
fn put<const LEN: usize>(held: &mut [u8], place: u16, bytes: [u8; LEN]) {
    // Whole, and not slice to slice: that is a call where the compiler does not see the length.
    *held[usize::from(place)..].first_chunk_mut().expect("as many as that") = bytes;
}

impl Copies {
    /// Where bytes of what is held are written, and where they are read if `within` it.
    pub(super) fn held(&self, within: bool) -> impl Iterator<Item = Range<u16>> + '_ {
        let of = move |ways: &[Way], len: u16| {
            let ends = move |way: &Way| [Some(way.to), within.then_some(way.from)].into_iter().flatten();
            ways.iter().flat_map(ends).map(move |start| start..start + len).collect::<Vec<_>>()
        };
        let short = [of(&self.bytes, 1), of(&self.halves, HALF as u16), of(&self.words, WORD as u16)];
        let long = self.long.iter().map(move |(way, len)| of(&[*way], *len));
        short.into_iter().chain(long).flatten()
    }

    /// From an update to what is held.
    #[inline]
    pub(super) fn carry_out(&self, update: &[u8], held: &mut [u8]) {
        for way in &self.halves {
            put::<HALF>(held, way.to, at(update, way.from));
        }
        for way in &self.words {
            put::<WORD>(held, way.to, at(update, way.from));
        }
        for way in &self.bytes {
            put::<1>(held, way.to, at(update, way.from));
        }
        for (way, len) in &self.long {
            let (from, to, len) = (usize::from(way.from), usize::from(way.to), usize::from(*len));
            held[to..to + len].copy_from_slice(&update[from..from + len]);
        }
    }

    /// Within what is held, in the order in which it was added, for bytes that are copied alike.
    #[inline]
    pub(super) fn carry_out_within(&self, held: &mut [u8]) {
        for way in &self.halves {
            put::<HALF>(held, way.to, at(held, way.from));
        }
        for way in &self.words {
            put::<WORD>(held, way.to, at(held, way.from));
        }
        for way in &self.bytes {
            put::<1>(held, way.to, at(held, way.from));
        }
        for (way, len) in &self.long {
            let (from, to, len) = (usize::from(way.from), usize::from(way.to), usize::from(*len));
            held.copy_within(from..from + len, to);
        }
    }
}

/// A field of an update, and of the list: head and value.
pub(super) struct Entry {
    /// Where it begins in the message, and in the list.
    pub(super) from: usize,
    pub(super) to: usize,
    /// Bytes, the head's among them.
    pub(super) len: usize,
}

impl Entry {
    /// Bytes of the head: field id, length.
    pub(super) const HEAD: usize = 3;
}
