//! The transmission window: every datagram that can be sent again, the open one at its end.

use super::{Framing, WouldBlock};

/// A datagram in the window.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Slot {
    offset: u32,
    length: u16,
    /// A retransmission waits in the sender's queue.
    pub(super) queued: bool,
    /// An NCF was sent in the present ignore interval.
    pub(super) confirmed: bool,
    /// When it was last retransmitted; 0 = never.
    pub(super) retransmitted_at: u64,
}

/// Datagrams of one length that lie side by side: what one `sendmsg` with UDP GSO takes. Only the last may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train<'a> {
    /// The datagrams, back to back.
    pub bytes: &'a [u8],
    /// Length of each but the last.
    pub segment: usize,
    /// How many there are.
    pub datagrams: u32,
}

impl<'a> Train<'a> {
    /// The datagrams one by one, for sending without GSO.
    pub fn datagrams(self) -> impl ExactSizeIterator<Item = &'a [u8]> {
        self.bytes.chunks(self.segment.max(1))
    }
}

/// One contiguous ring of bytes. A datagram never wraps: if the longest one does not fit before the end, the next begins at 0.
///
/// `trail <= unsent <= released <= next` on the circle of sequence numbers; `next` is the open datagram's number. All between
/// `trail` and `next` lie in the ring in order, and nothing overlaps.
#[derive(Debug)]
pub(super) struct Window {
    ring: Box<[u8]>,
    slots: Box<[Slot]>,
    pub(super) trail: u32,
    pub(super) unsent: u32,
    pub(super) released: u32,
    pub(super) next: u32,
    /// Where the open datagram begins.
    head: usize,
    /// Bytes of the open datagram, header included; 0 = none is open.
    open: usize,
    /// Length of the last datagram that was closed.
    last: usize,
    datagram_max: usize,
    retained: usize,
    retained_max: usize,
    unsent_bytes: usize,
}

impl Window {
    /// `retained_max` is the payload to be kept; the ring is the next power of two with room for headers. Sequence numbers begin at
    /// `first_sqn`.
    pub(super) fn new(retained_max: usize, datagram_max: usize, first_sqn: u32) -> Self {
        let retained_max = retained_max.clamp(65_536, 1 << 30);
        let ring = (retained_max + retained_max / 8 + 2 * datagram_max).next_power_of_two();
        // Datagrams shorter than this on average leave the window early.
        let slots = (retained_max / 128).next_power_of_two();
        // Touched now, so that the first round does not pay for page faults.
        let mut bytes = vec![0u8; ring];
        bytes.iter_mut().step_by(4_096).for_each(|byte| *byte = 1);
        Self {
            ring: bytes.into(),
            slots: vec![Slot::default(); slots].into(),
            trail: first_sqn,
            unsent: first_sqn,
            released: first_sqn,
            next: first_sqn,
            head: 0,
            open: 0,
            last: 0,
            datagram_max,
            retained: 0,
            retained_max,
            unsent_bytes: 0,
        }
    }

    #[inline]
    fn index(&self, sqn: u32) -> usize {
        sqn as usize & (self.slots.len() - 1)
    }

    /// Whether the datagram was sent and is still here.
    pub(super) fn holds(&self, sqn: u32) -> bool {
        sqn.wrapping_sub(self.trail) < self.unsent.wrapping_sub(self.trail)
    }

    pub(super) fn slot(&mut self, sqn: u32) -> &mut Slot {
        let index = self.index(sqn);
        &mut self.slots[index]
    }

    pub(super) fn datagram(&self, sqn: u32) -> &[u8] {
        let slot = self.slots[self.index(sqn)];
        &self.ring[slot.offset as usize..][..usize::from(slot.length)]
    }

    pub(super) fn datagram_mut(&mut self, sqn: u32) -> &mut [u8] {
        let slot = self.slots[self.index(sqn)];
        &mut self.ring[slot.offset as usize..][..usize::from(slot.length)]
    }

    /// Bytes closed and not yet handed to the socket.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent_bytes
    }

    /// Length of the last datagram that was closed.
    #[inline]
    pub(super) fn last_bytes(&self) -> usize {
        self.last
    }

    /// Bytes of the open datagram, header included.
    #[inline]
    pub(super) fn open_bytes(&self) -> usize {
        self.open
    }

    /// The most bytes of unsent messages that always find room: half of what is retained.
    pub(super) fn unsent_max(&self) -> usize {
        self.retained_max / 2
    }

    /// How many datagrams can be unsent at a time, at most.
    pub(super) fn unsent_datagrams_max(&self) -> u32 {
        self.slots.len() as u32 / 2
    }

    /// Whether `length` more bytes fit the open datagram.
    #[inline]
    pub(super) fn fits(&self, length: usize) -> bool {
        self.open != 0 && self.open + length <= self.datagram_max
    }

    /// Begins a datagram. Fails only if datagrams that were not sent yet are in the way.
    pub(super) fn begin(&mut self, framing: &impl Framing, header: usize) -> Result<(), WouldBlock> {
        debug_assert_eq!(self.open, 0);
        if self.head + self.datagram_max > self.ring.len() {
            // What lies behind the head is left over from the last time round, and the oldest.
            while self.trail != self.next && self.slots[self.index(self.trail)].offset as usize >= self.head {
                self.evict()?;
            }
            self.head = 0;
        }
        let end = self.head + self.datagram_max;
        while self.trail != self.next {
            let oldest = self.slots[self.index(self.trail)];
            let start = oldest.offset as usize;
            let clear = start >= end || start + usize::from(oldest.length) <= self.head;
            if clear && self.next.wrapping_sub(self.trail) < self.slots.len() as u32 {
                break;
            }
            self.evict()?;
        }
        framing.begin(&mut self.ring[self.head..self.head + header]);
        self.open = header;
        Ok(())
    }

    fn evict(&mut self) -> Result<(), WouldBlock> {
        if self.trail == self.unsent {
            return Err(WouldBlock);
        }
        self.retained -= usize::from(self.slots[self.index(self.trail)].length);
        self.trail = self.trail.wrapping_add(1);
        Ok(())
    }

    /// `length` bytes at the end of the open datagram.
    #[inline]
    pub(super) fn extend(&mut self, length: usize) -> &mut [u8] {
        debug_assert!(
            self.open > 0 && self.open + length <= self.datagram_max,
            "{length} more do not fit {}",
            self.open
        );
        let at = self.head + self.open;
        self.open += length;
        &mut self.ring[at..at + length]
    }

    /// Numbers the open datagram and begins no other. Returns its length.
    #[inline]
    pub(super) fn close(&mut self, framing: &impl Framing, header: usize) -> usize {
        let length = core::mem::take(&mut self.open);
        self.retained += length;
        while self.retained > self.retained_max && self.trail != self.unsent {
            if self.evict().is_err() {
                break;
            }
        }
        framing.stamp(&mut self.ring[self.head..self.head + header], self.next, self.trail);
        let index = self.index(self.next);
        self.slots[index] = Slot { offset: self.head as u32, length: length as u16, ..Slot::default() };
        self.head += length;
        self.next = self.next.wrapping_add(1);
        self.unsent_bytes += length;
        self.last = length;
        length
    }

    /// The first `count` unsent datagrams were handed to the socket.
    pub(super) fn sent(&mut self, count: u32) {
        debug_assert!(count <= self.released.wrapping_sub(self.unsent), "{count} were sent, and not so many could be");
        for _ in 0..count.min(self.released.wrapping_sub(self.unsent)) {
            self.unsent_bytes -= usize::from(self.slots[self.index(self.unsent)].length);
            self.unsent = self.unsent.wrapping_add(1);
        }
    }

    /// How many datagrams are marked as waiting to be sent again.
    pub(super) fn queued(&self) -> usize {
        let sent = self.unsent.wrapping_sub(self.trail);
        (0..sent).filter(|i| self.slots[self.index(self.trail.wrapping_add(*i))].queued).count()
    }

    /// Asserts what the ring promises; it looks at every datagram: for simulations.
    pub(super) fn check_invariants(&self) {
        let kept = self.next.wrapping_sub(self.trail);
        let unsent_from = self.unsent.wrapping_sub(self.trail);
        let released_to = self.released.wrapping_sub(self.trail);
        assert!(unsent_from <= released_to && released_to <= kept, "trail, unsent, released, next are in this order");
        assert!(kept as usize <= self.slots.len(), "{kept} numbers share {} slots", self.slots.len());
        let (mut retained, mut unsent, mut end) = (0, 0, None);
        for i in 0..kept {
            let sqn = self.trail.wrapping_add(i);
            let slot = &self.slots[self.index(sqn)];
            let (start, length) = (slot.offset as usize, usize::from(slot.length));
            assert!(length > 0 && length <= self.datagram_max, "{sqn} has {length} bytes");
            assert!(start + length <= self.ring.len(), "{sqn} ends behind the ring");
            assert!(end.is_none_or(|end| start == end || start == 0), "{sqn} begins at {start}, not behind {end:?}");
            assert!(i < unsent_from || !slot.queued, "{sqn} waits to be sent again and was never sent");
            retained += length;
            unsent += if i >= unsent_from { length } else { 0 };
            end = Some(start + length);
        }
        assert_eq!(self.retained, retained, "bytes of the window");
        assert_eq!(self.unsent_bytes, unsent, "bytes that wait for the socket");
        assert!(retained <= self.retained_max || unsent_from == 0, "more is retained than may be, and could go");
        assert!(end.is_none_or(|end| end == self.head || self.head == 0), "the head is not behind the last datagram");
        assert!(self.open <= self.datagram_max && self.head + self.open <= self.ring.len(), "the open datagram fits");
        if self.open > 0 && kept > 0 {
            let oldest = &self.slots[self.index(self.trail)];
            let (start, length) = (oldest.offset as usize, usize::from(oldest.length));
            let clear = start >= self.head + self.datagram_max || start + length <= self.head;
            assert!(clear, "the open datagram would grow into the oldest one");
        }
    }

    /// The train that begins at `sqn`, of released datagrams.
    pub(super) fn train(&self, sqn: u32, bytes_max: usize, datagrams_max: u32) -> Option<Train<'_>> {
        if sqn == self.released {
            return None;
        }
        let first = self.slots[self.index(sqn)];
        let (start, segment) = (first.offset as usize, usize::from(first.length));
        let (mut end, mut count, mut at) = (start + segment, 1, sqn.wrapping_add(1));
        while at != self.released && count < datagrams_max {
            let slot = self.slots[self.index(at)];
            let length = usize::from(slot.length);
            if slot.offset as usize != end || length > segment || end + length - start > bytes_max {
                break;
            }
            end += length;
            count += 1;
            at = at.wrapping_add(1);
            if length < segment {
                break;
            }
        }
        Some(Train { bytes: &self.ring[start..end], segment, datagrams: count })
    }
}
