//! Puts fragments together. Memory grows with the bytes that have come, never by what was announced.

use std::collections::{BTreeMap, VecDeque};

use crate::wire::distance;
use crate::wire::header::Fragment;

/// What became of a fragment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added<'a> {
    /// The message is complete; valid until the next call.
    Whole(&'a [u8]),
    /// More is to come.
    Part,
    /// Of a message of which an earlier fragment is missing, and was reported.
    Orphan,
    /// The fragment belongs to no message that could be put together: too long, or it does not fit what came before.
    Refused,
}

/// A message in the making, as its fragments arrive.
#[derive(Debug)]
struct Scattered {
    first_sqn: u32,
    total: u32,
    gathered: usize,
    parts: BTreeMap<u32, Box<[u8]>>,
}

/// Messages in the making at a time, as they arrive: each of them waits for a repair.
const SCATTERED_MAX: usize = 1_024;

#[derive(Debug)]
pub(super) struct Reassembly {
    /// The one message in the making in order, or the last one that was complete.
    bytes: Vec<u8>,
    /// (first number, bytes in all) of the message in the making in order.
    current: Option<(u32, u32)>,
    scattered: VecDeque<Scattered>,
    /// Bytes in `scattered`.
    held: usize,
    message_max: usize,
    /// First number of a message that was given up for want of room.
    evicted: Option<u32>,
}

impl Reassembly {
    pub(super) fn new(message_max: usize) -> Self {
        Self { bytes: Vec::new(), current: None, scattered: VecDeque::new(), held: 0, message_max, evicted: None }
    }

    /// Adds a fragment. Each comes once; with `in_order` the next one has to begin where the last one ended.
    pub(super) fn add(&mut self, fragment: Fragment, data: &[u8], in_order: bool) -> Added<'_> {
        let end = fragment.offset as usize + data.len();
        if end > fragment.total as usize || fragment.total as usize > self.message_max || data.is_empty() {
            return Added::Refused;
        }
        if in_order { self.add_next(fragment, data) } else { self.add_any(fragment, data) }
    }

    fn add_next(&mut self, fragment: Fragment, data: &[u8]) -> Added<'_> {
        let known = self.current == Some((fragment.first_sqn, fragment.total));
        if !known {
            if fragment.offset != 0 {
                return Added::Orphan;
            }
            self.begin(fragment.total);
            self.current = Some((fragment.first_sqn, fragment.total));
        }
        if fragment.offset as usize != self.bytes.len() {
            self.current = None;
            return Added::Refused;
        }
        self.bytes.extend_from_slice(data);
        if self.bytes.len() < fragment.total as usize {
            return Added::Part;
        }
        self.current = None;
        Added::Whole(&self.bytes)
    }

    /// The buffer for a message of so many bytes. A huge one must not pin its memory for ever.
    fn begin(&mut self, total: u32) {
        if self.bytes.capacity() > 4 << 20 && total < 1 << 20 {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
    }

    fn add_any(&mut self, fragment: Fragment, data: &[u8]) -> Added<'_> {
        let same = |s: &Scattered| s.first_sqn == fragment.first_sqn && s.total == fragment.total;
        let index = self.scattered.iter().rposition(same).unwrap_or_else(|| {
            self.scattered.push_back(Scattered {
                first_sqn: fragment.first_sqn,
                total: fragment.total,
                gathered: 0,
                parts: BTreeMap::new(),
            });
            self.scattered.len() - 1
        });
        let message = &mut self.scattered[index];
        if message.parts.contains_key(&fragment.offset) {
            return Added::Refused;
        }
        message.parts.insert(fragment.offset, data.into());
        message.gathered += data.len();
        self.held += data.len();
        if message.gathered < message.total as usize {
            self.make_room();
            return Added::Part;
        }
        let Some(message) = self.scattered.remove(index) else { return Added::Refused };
        self.held -= message.gathered;
        self.begin(message.total);
        for (offset, part) in &message.parts {
            if *offset as usize != self.bytes.len() {
                return Added::Refused;
            }
            self.bytes.extend_from_slice(part);
        }
        Added::Whole(&self.bytes)
    }

    /// The oldest message goes when there are too many, or too many bytes of them.
    fn make_room(&mut self) {
        if (self.scattered.len() > SCATTERED_MAX || self.held > self.message_max)
            && let Some(oldest) = self.scattered.pop_front()
        {
            self.held -= oldest.gathered;
            self.evicted = Some(oldest.first_sqn);
        }
    }

    /// Whether some message is in the making as its fragments arrive.
    #[inline]
    pub(super) fn has_scattered(&self) -> bool {
        !self.scattered.is_empty()
    }

    /// All before the message that begins with number `first` has come, or was reported lost: what is in the making there stays so.
    pub(super) fn passed(&mut self, first: u32) {
        let held = &mut self.held;
        self.scattered.retain(|message| {
            let ahead = distance(first, message.first_sqn) >= 0;
            *held -= if ahead { 0 } else { message.gathered };
            ahead
        });
    }

    /// Asserts what the messages in the making promise: for simulations.
    pub(super) fn check_invariants(&self) {
        let mut held = 0;
        for message in &self.scattered {
            let gathered: usize = message.parts.values().map(|part| part.len()).sum();
            assert_eq!(message.gathered, gathered, "bytes of {}", message.first_sqn);
            assert!(gathered > 0 && gathered < message.total as usize, "{} is whole, or nothing", message.first_sqn);
            held += gathered;
        }
        assert_eq!(self.held, held, "bytes in the making");
        assert!(self.scattered.len() <= SCATTERED_MAX, "{} messages in the making", self.scattered.len());
        if let Some((first, total)) = self.current {
            let length = self.bytes.len();
            assert!(length > 0 && length < total as usize, "{first} has {length} of {total} bytes");
        }
    }

    /// The first number of a message that the last fragment has made us give up.
    pub(super) fn evicted(&mut self) -> Option<u32> {
        self.evicted.take()
    }

    /// Forgets what is in the making.
    pub(super) fn clear(&mut self) {
        self.current = None;
        self.scattered.clear();
        self.held = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(first_sqn: u32, offset: u32, total: u32) -> Fragment {
        Fragment { flags: 0, first_sqn, offset, total }
    }

    #[test]
    fn many_messages_may_wait_for_a_fragment_each() {
        let mut reassembly = Reassembly::new(1 << 20);
        for first in 0..100 {
            assert_eq!(reassembly.add(fragment(first, 2, 4), b"cd", false), Added::Part);
        }
        for first in 0..100 {
            assert_eq!(reassembly.add(fragment(first, 0, 4), b"ab", false), Added::Whole(b"abcd"));
        }
        assert_eq!((reassembly.held, reassembly.evicted()), (0, None));
        reassembly.add(fragment(200, 0, 4), b"ab", false);
        reassembly.add(fragment(202, 0, 4), b"a", false);
        reassembly.passed(202);
        assert_eq!((reassembly.held, reassembly.scattered.len()), (1, 1));
    }

    #[test]
    fn whoever_announces_much_costs_what_he_sends() {
        let mut reassembly = Reassembly::new(64 << 20);
        assert_eq!(reassembly.add(fragment(1, (64 << 20) - 1, 64 << 20), b"x", false), Added::Part);
        assert_eq!((reassembly.held, reassembly.bytes.capacity()), (1, 0));
        // The same once more is not another part.
        assert_eq!(reassembly.add(fragment(1, (64 << 20) - 1, 64 << 20), b"x", false), Added::Refused);
        let mut evicted = 0;
        for first in 2..3_000 {
            reassembly.add(fragment(first, 0, 9), b"x", false);
            evicted += usize::from(reassembly.evicted().is_some());
        }
        assert_eq!((reassembly.scattered.len(), evicted), (SCATTERED_MAX, 2_999 - SCATTERED_MAX));
    }

    #[test]
    fn parts_that_overlap_are_no_message() {
        let mut reassembly = Reassembly::new(1 << 20);
        assert_eq!(reassembly.add(fragment(1, 0, 6), b"abcd", false), Added::Part);
        assert_eq!(reassembly.add(fragment(1, 3, 6), b"de", false), Added::Refused);
        assert_eq!(reassembly.add(fragment(2, 0, 4), b"ab", true), Added::Part);
        assert_eq!(reassembly.add(fragment(2, 3, 4), b"d", true), Added::Refused);
        assert_eq!(reassembly.add(fragment(2, 2, 4), b"cd", true), Added::Orphan);
    }
}
