//! Messages that a source keeps until they are stable.

use std::collections::VecDeque;

use lbm::wire::distance;
use lbm::wire::header::Fragment;
use lbm::wire::lbmc::{DATA_HEADER, FRAGMENT_HEADER, data_header, fragment_header};

use crate::blocks::{Blocks, Place};

/// Messages that are sent again in one turn at most: others follow in the next.
const PRESS_MAX: usize = 256;
/// Blocks of memory that are kept for messages to come: 32 MB at most.
const SPARE_MAX: usize = 32;

#[derive(Debug)]
struct Kept {
    /// Where it stands, encoded, with its headers.
    place: Place,
    /// When it was sent, and when it is sent again.
    sent_at: u64,
    again_at: u64,
    /// Stores that have it.
    mask: u64,
    stable: bool,
    /// Which fragment of its message it is, of how many.
    fragment: u32,
    fragments: u32,
}

/// Consecutive numbers, oldest first.
#[derive(Debug)]
pub(super) struct Flight {
    base: u32,
    kept: VecDeque<Kept>,
    blocks: Blocks,
    unstable: usize,
    unstable_bytes: usize,
    bytes: usize,
}

impl Default for Flight {
    fn default() -> Self {
        let blocks = Blocks::new(SPARE_MAX);
        Self { base: 0, kept: VecDeque::new(), blocks, unstable: 0, unstable_bytes: 0, bytes: 0 }
    }
}

impl Flight {
    pub(super) fn begin(&mut self, first: u32) {
        self.base = first;
    }

    /// The oldest number that is kept, or the next.
    pub(super) fn base(&self) -> u32 {
        self.base
    }

    #[inline]
    pub(super) fn unstable(&self) -> usize {
        self.unstable
    }

    #[inline]
    pub(super) fn unstable_bytes(&self) -> usize {
        self.unstable_bytes
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a message, in the pieces in which the topic's source has sent it.
    #[inline]
    pub(super) fn keep(&mut self, now: u64, topic: u32, last: u32, payload: &[u8], message_max: usize) {
        if payload.len() + DATA_HEADER <= message_max {
            let header = data_header((payload.len() + DATA_HEADER) as u16, topic, last);
            return self.push(now, &header, payload, (0, 1));
        }
        let room = message_max.saturating_sub(FRAGMENT_HEADER).max(1);
        let fragments = payload.len().div_ceil(room) as u32;
        let first_sqn = last.wrapping_sub(fragments - 1);
        for (i, part) in payload.chunks(room).enumerate() {
            let fragment = Fragment { flags: 0, first_sqn, offset: (i * room) as u32, total: payload.len() as u32 };
            let length = (FRAGMENT_HEADER + part.len()) as u16;
            let header = fragment_header(length, topic, first_sqn.wrapping_add(i as u32), fragment);
            self.push(now, &header, part, (i as u32, fragments));
        }
    }

    #[inline]
    fn push(&mut self, now: u64, header: &[u8], body: &[u8], (fragment, fragments): (u32, u32)) {
        let place = self.blocks.put(header, body);
        self.unstable += 1;
        self.unstable_bytes += place.length();
        self.bytes += place.length();
        self.kept.push_back(Kept { place, sent_at: now, again_at: 0, mask: 0, stable: false, fragment, fragments });
    }

    pub(super) fn get(&self, sqn: u32) -> Option<&[u8]> {
        let index = usize::try_from(distance(self.base, sqn)).ok()?;
        self.blocks.get(self.kept.get(index)?.place)
    }

    /// A store has the numbers from `first` to `last`. `is_enough` judges the stores of each; `stable` gets the numbers of each message
    /// that has become stable as a whole.
    pub(super) fn ack(
        &mut self,
        store: usize,
        first: u32,
        last: u32,
        is_enough: impl Fn(u64) -> bool,
        mut stable: impl FnMut(u32),
    ) -> u64 {
        let from = distance(self.base, first).max(0) as usize;
        let to = (i64::from(distance(self.base, last)) + 1).clamp(0, self.kept.len() as i64) as usize;
        let (mut count, mut judged) = (0, None);
        for index in from..to {
            let kept = &mut self.kept[index];
            kept.mask |= 1 << store;
            if kept.stable {
                continue;
            }
            // Messages that come together have most often the same stores.
            let enough = match judged {
                Some((mask, enough)) if mask == kept.mask => enough,
                _ => is_enough(kept.mask),
            };
            judged = Some((kept.mask, enough));
            if enough {
                kept.stable = true;
                self.unstable -= 1;
                self.unstable_bytes -= kept.place.length();
                count += 1;
                if kept.fragments == 1 {
                    stable(self.base.wrapping_add(index as u32));
                } else {
                    let first = index as i64 - i64::from(kept.fragment);
                    let numbers = first..first + i64::from(kept.fragments);
                    // Fragments before the oldest that is kept were stable.
                    if numbers.clone().all(|i| i < 0 || self.kept.get(i as usize).is_some_and(|kept| kept.stable)) {
                        numbers.for_each(|i| stable(self.base.wrapping_add(i as u32)));
                    }
                }
            }
        }
        count
    }

    /// What the store has is not known any more.
    pub(super) fn forget(&mut self, store: usize) {
        for kept in self.kept.iter_mut().filter(|kept| !kept.stable) {
            kept.mask &= !(1 << store);
        }
    }

    /// Drops the oldest while they are stable and `may_go`.
    pub(super) fn release(&mut self, may_go: impl Fn(u32) -> bool) {
        while let Some(kept) = self.kept.front()
            && kept.stable
            && may_go(self.base)
        {
            let place = kept.place;
            self.kept.pop_front();
            self.base = self.base.wrapping_add(1);
            self.bytes -= place.length();
            self.blocks.forget(place);
        }
    }

    /// Goes over what is not stable and due: `again` gets number, stores that have it, and the message, or `None` for what is given up.
    /// Returns when to come again.
    pub(super) fn press(
        &mut self,
        now: u64,
        timeout: u64,
        lifetime: u64,
        mut again: impl FnMut(u32, u64, Option<&[u8]>),
    ) -> Option<u64> {
        let (mut next, mut count) = (None, 0);
        for (index, kept) in self.kept.iter_mut().enumerate().filter(|(_, kept)| !kept.stable) {
            let sqn = self.base.wrapping_add(index as u32);
            let due = kept.again_at.max(kept.sent_at.saturating_add(timeout));
            if due <= now && now >= kept.sent_at.saturating_add(lifetime) {
                kept.stable = true;
                self.unstable -= 1;
                self.unstable_bytes -= kept.place.length();
                again(sqn, kept.mask, None);
                continue;
            }
            let mut due = due;
            if due <= now && count < PRESS_MAX {
                again(sqn, kept.mask, self.blocks.get(kept.place));
                kept.again_at = now.saturating_add(timeout.max(1));
                due = kept.again_at;
                count += 1;
            }
            let due = due.max(now.saturating_add(1_000_000));
            next = Some(next.map_or(due, |next: u64| next.min(due)));
        }
        next
    }
}
