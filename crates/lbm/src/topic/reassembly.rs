//! Puts fragments together. Memory grows with the bytes that have come, never by what was announced.

use crate::wire::header::Fragment;

/// One message in the making.
#[derive(Debug, Default)]
struct Partial {
    first_sqn: u32,
    total: u32,
    /// Bytes that have come; in arrival order the buffer may be longer than that.
    gathered: u32,
    bytes: Vec<u8>,
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
        if in_order && at != partial.bytes.len() {
            partial.active = false;
            self.dropped += 1;
            return None;
        }
        if partial.bytes.len() < end {
            partial.bytes.resize(end, 0);
        }
        partial.bytes[at..end].copy_from_slice(data);
        partial.gathered = partial.gathered.saturating_add(data.len() as u32);
        if partial.gathered < partial.total {
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
        partial.first_sqn = fragment.first_sqn;
        partial.total = fragment.total;
        partial.gathered = 0;
        partial.active = true;
        index
    }

    /// Forgets what is in the making.
    pub(super) fn clear(&mut self) {
        self.partials.iter_mut().for_each(|p| p.active = false);
    }
}
