//! Puts fragments together. Memory grows with the bytes that have come, never by what was announced.

use std::collections::BTreeMap;

use crate::wire::header::Fragment;

/// One message in the making.
#[derive(Debug, Default)]
struct Partial {
    first_sqn: u32,
    total: u32,
    /// The message from its beginning, without a hole.
    bytes: Vec<u8>,
    /// What has come of the rest, by offset: a fragment may say that it lies anywhere.
    apart: BTreeMap<u32, Box<[u8]>>,
    active: bool,
}

/// How many messages can be in the making at a time: one in order, several as they arrive.
const PARTIALS: usize = 8;

#[derive(Debug)]
pub(super) struct Reassembly {
    partials: Vec<Partial>,
    /// The partial that is replaced next.
    oldest: usize,
    message_max: usize,
    pub(super) dropped: u64,
}

impl Reassembly {
    pub(super) fn new(message_max: usize) -> Self {
        Self { partials: Vec::new(), oldest: 0, message_max, dropped: 0 }
    }

    /// Adds a fragment. Each comes once; with `in_order` the next one has to begin where the last one ended. Returns the whole
    /// message when it is complete; it stays valid until the next call.
    pub(super) fn add(&mut self, fragment: Fragment, data: &[u8], in_order: bool) -> Option<&[u8]> {
        let end = fragment.offset as usize + data.len();
        if end > fragment.total as usize || fragment.total as usize > self.message_max || data.is_empty() {
            self.dropped += 1;
            return None;
        }
        let known = self.partials.iter().position(|p| p.active && p.first_sqn == fragment.first_sqn);
        let index = match known {
            Some(index) if self.partials[index].total == fragment.total => index,
            _ if in_order && fragment.offset != 0 => {
                self.dropped += 1;
                return None;
            }
            Some(index) => self.reset(index, fragment),
            None => self.open(fragment, in_order),
        };
        let partial = &mut self.partials[index];
        let at = fragment.offset as usize;
        match at.cmp(&partial.bytes.len()) {
            core::cmp::Ordering::Equal => partial.append(data),
            _ if in_order => {
                partial.active = false;
                self.dropped += 1;
                return None;
            }
            core::cmp::Ordering::Greater => {
                partial.apart.entry(fragment.offset).or_insert_with(|| data.into());
            }
            // Not one of ours: each comes once.
            core::cmp::Ordering::Less => self.dropped += 1,
        }
        if partial.bytes.len() < partial.total as usize {
            return None;
        }
        partial.active = false;
        Some(&partial.bytes)
    }

    fn open(&mut self, fragment: Fragment, in_order: bool) -> usize {
        let limit = if in_order { 1 } else { PARTIALS };
        let index = self.partials.iter().position(|p| !p.active).unwrap_or_else(|| {
            if self.partials.len() < limit {
                self.partials.push(Partial::default());
                return self.partials.len() - 1;
            }
            self.oldest = (self.oldest + 1) % self.partials.len();
            self.dropped += 1;
            self.oldest
        });
        self.reset(index, fragment)
    }

    fn reset(&mut self, index: usize, fragment: Fragment) -> usize {
        let partial = &mut self.partials[index];
        // A huge message must not pin its memory for ever.
        if partial.bytes.capacity() > 4 << 20 && partial.total < 1 << 20 {
            partial.bytes = Vec::new();
        }
        partial.bytes.clear();
        partial.apart.clear();
        partial.first_sqn = fragment.first_sqn;
        partial.total = fragment.total;
        partial.active = true;
        index
    }

    /// Forgets what is in the making.
    pub(super) fn clear(&mut self) {
        for partial in &mut self.partials {
            partial.active = false;
            partial.apart.clear();
        }
    }
}

impl Partial {
    /// What comes next, and what was waiting for it.
    fn append(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(data);
        while let Some(next) = self.apart.first_entry() {
            let missing = (*next.key() as usize).checked_sub(self.bytes.len());
            if missing.is_some_and(|bytes| bytes > 0) {
                return;
            }
            let part = next.remove();
            if missing.is_some() {
                self.bytes.extend_from_slice(&part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(first_sqn: u32, offset: u32, total: u32) -> Fragment {
        Fragment { flags: 0, first_sqn, offset, total }
    }

    /// Bytes that the messages in the making hold, and have room for.
    fn held(reassembly: &Reassembly) -> usize {
        let apart = |p: &Partial| p.apart.values().map(|part| part.len()).sum::<usize>();
        reassembly.partials.iter().map(|p| p.bytes.capacity() + apart(p)).sum()
    }

    #[test]
    fn a_message_is_the_same_in_whichever_order_its_parts_come() {
        let whole: Vec<u8> = (0..40).collect();
        let offsets = [0u32, 10, 20, 30];
        // All orders of four.
        for code in 0..256usize {
            let order: Vec<usize> = (0..4).map(|i| code >> (2 * i) & 3).collect();
            if (0..4).any(|i| !order.contains(&i)) {
                continue;
            }
            let mut reassembly = Reassembly::new(1 << 20);
            for (n, part) in order.iter().enumerate() {
                let at = offsets[*part] as usize;
                let got = reassembly.add(fragment(7, at as u32, 40), &whole[at..at + 10], false);
                assert_eq!(got, (n == 3).then_some(&*whole), "{order:?}");
            }
            assert_eq!(reassembly.dropped, 0);
        }
    }

    #[test]
    fn a_forged_offset_reserves_nothing() {
        let total = 64 << 20;
        let mut reassembly = Reassembly::new(total as usize);
        for message in 0..20 {
            for in_order in [false, true] {
                assert_eq!(reassembly.add(fragment(message, total - 8, total), &[1; 8], in_order), None);
            }
        }
        assert!(held(&reassembly) < 1_000, "{} bytes for 160 that came", held(&reassembly));
    }

    #[test]
    fn parts_that_overlap_do_not_make_a_message_with_holes() {
        let mut reassembly = Reassembly::new(1 << 20);
        // 30 bytes in all, but never those from 10 to 20.
        assert_eq!(reassembly.add(fragment(1, 20, 30), &[3; 10], false), None);
        assert_eq!(reassembly.add(fragment(1, 0, 30), &[1; 10], false), None);
        assert_eq!(reassembly.add(fragment(1, 0, 30), &[1; 10], false), None);
        assert_eq!(reassembly.add(fragment(1, 20, 30), &[3; 10], false), None);
        assert_eq!(reassembly.dropped, 1);
        let whole: Vec<u8> = [1, 2, 3].into_iter().flat_map(|byte| [byte; 10]).collect();
        assert_eq!(reassembly.add(fragment(1, 10, 30), &[2; 10], false), Some(&*whole));
    }
}
