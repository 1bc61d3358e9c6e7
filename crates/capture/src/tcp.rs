//! One direction of a TCP connection, put in order.

use crate::ip::Segment;
use std::collections::BTreeMap;

/// What comes next in a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A connection begins: what was before belongs to another one.
    Opened,
    /// The stream's next bytes.
    Bytes(&'a [u8]),
    /// So many bytes are not in the capture.
    Hole(u64),
}

/// The segments of one direction as they were captured, given in the order of their bytes: repeated bytes once, segments that overtook
/// others behind them. What never comes is a [`Piece::Hole`]: at once where the capture has a part of a segment, else when more waits behind
/// it than is kept (1 MB), and at the end. A direction whose beginning was not captured begins with its first segment.
#[derive(Debug, Default)]
pub struct Order {
    /// Number of the byte that comes next, as it is on the wire.
    next: Option<u32>,
    /// The same, counted on where numbers wrap.
    at: u64,
    /// Where the connection began, if that was captured.
    opened: Option<u32>,
    /// Segments that came early, by what `at` will be: bytes, and how many are missing behind them.
    early: BTreeMap<u64, (Vec<u8>, usize)>,
    /// Room that they take.
    waiting: usize,
}

/// Bytes that wait behind a hole before it is taken for a loss of the capture.
const WAITING_MAX: usize = 1 << 20;
/// What a segment costs beside its bytes, so that empty ones are not free.
const SEGMENT_COST: usize = 64;

impl Order {
    /// Takes a segment; `each` gets what is in order now.
    pub fn take(&mut self, segment: &Segment<'_>, each: &mut dyn FnMut(Piece<'_>)) {
        let mut sequence = segment.sequence;
        if segment.opens {
            sequence = sequence.wrapping_add(1);
            // A repeated opening opens nothing.
            if self.opened != Some(sequence) {
                self.finish(each);
                *self = Self { next: Some(sequence), opened: Some(sequence), ..Self::default() };
                each(Piece::Opened);
            }
        }
        if segment.payload.is_empty() && segment.missing == 0 {
            return;
        }
        let next = *self.next.get_or_insert(sequence);
        match sequence.wrapping_sub(next).cast_signed() {
            ahead @ 1.. => {
                let place = self.at + u64::from(ahead.unsigned_abs());
                let known = self.early.entry(place).or_default();
                if segment.payload.len() > known.0.len() {
                    self.waiting += segment.payload.len() - known.0.len() + SEGMENT_COST;
                    *known = (segment.payload.to_vec(), segment.missing);
                }
                if self.waiting > WAITING_MAX {
                    self.pass_hole(each);
                }
            }
            behind => self.give(behind.unsigned_abs() as usize, segment.payload, segment.missing, each),
        }
        self.catch_up(each);
    }

    /// Nothing more comes: gives what still waits, with the holes before it.
    pub fn finish(&mut self, each: &mut dyn FnMut(Piece<'_>)) {
        while !self.early.is_empty() {
            self.pass_hole(each);
            self.catch_up(each);
        }
    }

    /// Goes on behind a segment without giving it: nobody reads this direction so far.
    pub fn pass(&mut self, segment: &Segment<'_>) {
        let length = segment.payload.len() + segment.missing + usize::from(segment.opens);
        *self = Self { next: Some(segment.sequence.wrapping_add(length as u32)), ..Self::default() };
    }

    /// Gives what is new of bytes of which so many may be known, and the hole that is behind them.
    fn give(&mut self, known: usize, bytes: &[u8], missing: usize, each: &mut dyn FnMut(Piece<'_>)) {
        let new = bytes.get(known..).unwrap_or_default();
        if !new.is_empty() {
            self.go_on(new.len());
            each(Piece::Bytes(new));
        }
        let hole = (bytes.len() + missing).saturating_sub(known.max(bytes.len()));
        if missing > 0 && hole > 0 {
            self.go_on(hole);
            each(Piece::Hole(hole as u64));
        }
    }

    fn go_on(&mut self, count: usize) {
        self.at += count as u64;
        self.next = self.next.map(|next| next.wrapping_add(count as u32));
    }

    fn pass_hole(&mut self, each: &mut dyn FnMut(Piece<'_>)) {
        if let Some((&place, _)) = self.early.first_key_value()
            && place > self.at
        {
            let hole = place - self.at;
            self.go_on(hole as usize);
            each(Piece::Hole(hole));
        }
    }

    /// Gives what came early and follows now.
    fn catch_up(&mut self, each: &mut dyn FnMut(Piece<'_>)) {
        while let Some(entry) = self.early.first_entry().filter(|entry| *entry.key() <= self.at) {
            let (place, (bytes, missing)) = entry.remove_entry();
            self.waiting = self.waiting.saturating_sub(bytes.len() + SEGMENT_COST);
            self.give((self.at - place) as usize, &bytes, missing, each);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr};

    /// Near the wrap of sequence numbers.
    const FIRST: u32 = u32::MAX - 2;

    fn segment(at: u32, payload: &[u8], missing: usize) -> Segment<'_> {
        let end = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let sequence = FIRST.wrapping_add(at);
        Segment { source: end, destination: end, sequence, opens: false, ends: false, aborts: false, payload, missing }
    }

    fn all(segments: &[Segment<'_>]) -> String {
        let (mut order, mut text) = (Order::default(), String::new());
        let mut each = |piece: Piece<'_>| match piece {
            Piece::Opened => text.push('^'),
            Piece::Bytes(bytes) => text.push_str(str::from_utf8(bytes).unwrap()),
            Piece::Hole(count) => text.extend(["[", &count.to_string(), "]"]),
        };
        for segment in segments {
            order.take(segment, &mut each);
        }
        order.finish(&mut each);
        text
    }

    #[test]
    fn bytes_come_in_order_and_once() {
        let opens = Segment { opens: true, ..segment(u32::MAX, b"", 0) };
        let [ab, ef, bcdef, g] =
            [(0, "ab"), (4, "ef"), (1, "bcdef"), (6, "g")].map(|(at, text)| segment(at, text.as_bytes(), 0));
        assert_eq!(all(&[opens, ab, ef, ab, opens, bcdef, g]), "^abcdefg");
        assert_eq!(all(&[ef, g, segment(7, b"h", 0)]), "efgh", "what was captured from the middle on");
        let fast = Segment { opens: true, ..segment(u32::MAX, b"ab", 0) };
        assert_eq!(all(&[fast, segment(2, b"c", 0)]), "^abc", "bytes in the segment that opens");
        let again = Segment { opens: true, ..segment(100, b"", 0) };
        assert_eq!(all(&[opens, ab, ef, again, segment(101, b"xy", 0)]), "^ab[2]ef^xy");
    }

    #[test]
    fn what_was_not_captured_is_a_hole() {
        assert_eq!(all(&[segment(0, b"ab", 0), segment(4, b"ef", 0)]), "ab[2]ef", "at the end");
        assert_eq!(all(&[segment(0, b"ab", 3), segment(5, b"fg", 0)]), "ab[3]fg", "by the snap length");
        assert_eq!(
            all(&[segment(0, b"ab", 3), segment(0, b"ab", 3), segment(3, b"d", 2), segment(6, b"g", 0)]),
            "ab[3][1]g"
        );
        let kilobyte = [b'x'; 1024];
        let mut segments = vec![segment(0, b"ab", 0)];
        segments.extend((0..2_000).map(|n| segment(3 + n * 1024, &kilobyte, 0)));
        let text = all(&segments);
        assert!(text.starts_with("ab[1]xxx") && text.len() == 5 + 2_000 * 1024);
    }
}
