//! The tail of a mirror: the updates that the stream standing by has brought and the stream in use has not, in order.
//!
//! Numbers are compared as serial numbers, so that they may wrap.

use std::collections::VecDeque;

/// Updates that the tail of one item may hold, and their bytes.
const UPDATES_MAX: usize = 512;
const BYTES_MAX: usize = 64 << 10;

/// Whether number `a` comes after number `b`.
pub const fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// An update that is held.
#[derive(Debug)]
pub struct TailUpdate {
    /// The update's sequence number.
    pub number: u32,
    /// Bits of `hub_stream::flags` that it came with; 0 where there are none.
    pub flags: u8,
    /// The RWF update.
    pub rwf: Box<[u8]>,
}

/// See the module's description.
#[derive(Debug, Default)]
pub struct Tail {
    updates: VecDeque<TailUpdate>,
    bytes: usize,
    /// Of what the stream has brought since its image, nothing is missing here that has a higher number than this. None if that is not
    /// known: there was no image, or an update without a number.
    complete_after: Option<u32>,
}

impl Tail {
    /// A tail behind an image, or an update, with this number.
    pub fn behind(number: Option<u32>) -> Self {
        Self { updates: VecDeque::new(), bytes: 0, complete_after: number }
    }

    /// Whether it is known after which number nothing is missing.
    pub const fn is_complete(&self) -> bool {
        self.complete_after.is_some()
    }

    /// Bytes of the updates that are held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// An update that is not passed on yet. What does not fit into `room` bytes, or into the bounds, empties the tail: it is complete
    /// after that update only. One that is out of order, or has no number, ends what is known before the next image.
    pub fn push(&mut self, number: Option<u32>, flags: u8, msg: &[u8], room: usize) {
        let (Some(number), Some(_)) = (number, self.complete_after) else {
            *self = Self::behind(None);
            return;
        };
        if self.updates.back().is_some_and(|last| !is_after(number, last.number)) {
            *self = Self::behind(None);
            return;
        }
        if self.updates.len() >= UPDATES_MAX || self.bytes + msg.len() > BYTES_MAX || msg.len() > room {
            *self = Self::behind(Some(number));
            return;
        }
        self.bytes += msg.len();
        self.updates.push_back(TailUpdate { number, flags, rwf: msg.into() });
    }

    /// An update that was passed on already.
    pub fn skip(&mut self, number: Option<u32>) {
        if let (Some(number), Some(after)) = (number, self.complete_after)
            && self.updates.is_empty()
            && is_after(number, after)
        {
            self.complete_after = Some(number);
        }
    }

    /// Everything up to this number was passed on. The bytes that this frees.
    pub fn trim(&mut self, passed: u32) -> usize {
        let before = self.bytes;
        while let Some(update) = self.updates.pop_front_if(|update| !is_after(update.number, passed)) {
            self.bytes -= update.rwf.len();
            self.complete_after = Some(update.number);
        }
        before - self.bytes
    }

    /// Whether nothing is missing here that comes after this number.
    pub fn reaches_back_to(&self, passed: u32) -> bool {
        self.complete_after.is_some_and(|after| !is_after(after, passed))
    }

    /// The updates in order.
    pub fn into_updates(self) -> impl Iterator<Item = TailUpdate> {
        self.updates.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(tail: Tail) -> Vec<u8> {
        tail.into_updates().map(|update| update.rwf[0]).collect()
    }

    #[test]
    fn holds_what_the_other_has_not_sent() {
        let mut tail = Tail::behind(Some(u32::MAX - 1));
        for (number, msg) in [(u32::MAX, b"a"), (0, b"b"), (1, b"c")] {
            tail.push(Some(number), 0, msg, usize::MAX);
        }
        assert!(tail.reaches_back_to(u32::MAX - 1) && !tail.reaches_back_to(u32::MAX - 2), "numbers wrap");
        assert_eq!((tail.trim(u32::MAX), tail.bytes()), (1, 2));
        assert!(tail.reaches_back_to(u32::MAX) && !tail.reaches_back_to(u32::MAX - 1));
        assert_eq!(numbers(tail), b"bc");
    }

    #[test]
    fn what_is_too_much_or_has_no_number_is_not_told_as_complete() {
        let mut tail = Tail::behind(Some(1));
        for number in 2..=1 + UPDATES_MAX as u32 {
            tail.push(Some(number), 0, b"x", usize::MAX);
        }
        assert!(tail.reaches_back_to(1));
        tail.push(Some(9_000), 0, b"x", usize::MAX);
        assert!(tail.bytes() == 0 && !tail.reaches_back_to(8_999) && tail.reaches_back_to(9_000));
        tail.push(Some(9_001), 0, b"xx", 1);
        assert!(!tail.reaches_back_to(9_000) && tail.reaches_back_to(9_001), "no room");
        tail.push(Some(9_001), 0, b"x", 9);
        tail.push(Some(9_003), 0, b"x", 9);
        tail.push(Some(9_002), 0, b"x", 9);
        assert!(!tail.reaches_back_to(9_001), "not in order");
        tail.push(None, 0, b"x", 9);
        assert!(!tail.reaches_back_to(u32::MAX / 2));
        tail.push(Some(9_004), 0, b"x", 9);
        assert!(!tail.reaches_back_to(9_004), "before the next image nothing is known");
        let mut fresh = Tail::default();
        fresh.push(Some(1), 0, b"x", 9);
        assert!(!fresh.reaches_back_to(1));
    }

    proptest! {
        /// Both providers send the same updates, the mirror's some in advance or some behind. Whatever is passed on before the takeover
        /// and after it is each update once.
        #[test]
        fn a_takeover_loses_and_repeats_nothing(steps in prop::collection::vec(any::<bool>(), 0..300), first in any::<u32>()) {
            let mut tail = Tail::behind(Some(first));
            let (mut used, mut mirrored) = (0_u32, 0_u32);
            for of_mirror in steps {
                if of_mirror {
                    mirrored += 1;
                    let number = first.wrapping_add(mirrored);
                    if mirrored > used {
                        tail.push(Some(number), 0, &mirrored.to_be_bytes(), usize::MAX);
                    } else {
                        tail.skip(Some(number));
                    }
                } else {
                    used += 1;
                    tail.trim(first.wrapping_add(used));
                }
            }
            prop_assert!(tail.reaches_back_to(first.wrapping_add(used)));
            let rest: Vec<u32> = tail.into_updates().map(|m| u32::from_be_bytes(m.rwf[..].try_into().expect("four"))).collect();
            prop_assert_eq!(rest, (used + 1..=mirrored).collect::<Vec<_>>());
        }
    }
}
