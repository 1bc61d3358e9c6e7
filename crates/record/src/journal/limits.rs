//! How much of a recording is kept.

use super::Journal;
use crate::store::{Store, segment_name, segment_number};

impl<S: Store> Journal<S> {
    /// Removes the segments of which every record is before this sequence number: for who has written anew what they say. A failure is
    /// counted: the next call tries it again.
    pub fn forget_before(&mut self, sequence: u64) {
        if self.remove_before(sequence).is_err() {
            self.counters.failures += 1;
        }
    }

    fn remove_before(&mut self, sequence: u64) -> std::io::Result<()> {
        let mut segments: Vec<u64> = self.store.files()?.keys().filter_map(|name| segment_number(name)).collect();
        segments.sort_unstable();
        let newest = self.segment.as_ref().map(|open| open.number);
        for pair in segments.windows(2) {
            // A segment ends where the next one begins; what cannot be read is kept.
            let next =
                crate::segment::read_head(&self.store, &segment_name(pair[1])).map_or(u64::MAX, |head| head.first);
            if Some(pair[0]) == newest || next > sequence {
                break;
            }
            self.store.remove(&segment_name(pair[0]))?;
            self.counters.removed += 1;
        }
        Ok(())
    }

    /// Removes the oldest segments when they are too many or too old. A failure is counted: the next segment tries it again.
    pub(super) fn keep_to_limits(&mut self, now: u64) {
        if self.remove_oldest(now).is_err() {
            self.counters.failures += 1;
        }
    }

    fn remove_oldest(&mut self, now: u64) -> std::io::Result<()> {
        let files = self.store.files()?;
        let mut segments: Vec<(u64, u64)> =
            files.iter().filter_map(|(name, size)| Some((segment_number(name)?, *size))).collect();
        segments.sort_unstable();
        let mut bytes: u64 = segments.iter().map(|(_, size)| size).sum();
        let newest = self.segment.as_ref().map(|open| open.number);
        for pair in segments.windows(2) {
            let (number, size) = pair[0];
            let is_over = self.config.keep_bytes.is_some_and(|most| bytes > most);
            // A segment ends where the next one begins. Where the clock was set back, its records count as of a later time than that.
            let next = crate::segment::read_head(&self.store, &segment_name(pair[1].0));
            let (end, last) = next.map_or((u64::MAX, u64::MAX), |head| (head.created, head.created.max(head.before)));
            let is_old =
                self.config.keep_age_ns.is_some_and(|age| end.saturating_add(age) < now) && last <= self.needed_from;
            if Some(number) == newest || !is_over && !is_old {
                break;
            }
            self.store.remove(&segment_name(number))?;
            bytes -= size;
            self.counters.removed += 1;
        }
        Ok(())
    }
}
