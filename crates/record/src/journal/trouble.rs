//! A disk that takes nothing: what is lost by it, and how it is tried again.

use super::Journal;
use crate::bytes::Input;
use crate::index::Count;
use crate::packing::Rows;
use crate::record::{Clocks, Gap, GapReason, Kind};
use crate::row::read_row;
use crate::store::{Store, segment_name, tail_name};

/// After a failure of the disk it is tried again after so long, nanoseconds.
const RETRY: u64 = 1_000_000_000;

/// Failure of the disk, and what was lost by it.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) text: String,
    retry_at: u64,
    lost: Count,
    from: u64,
}

impl<S: Store> Journal<S> {
    /// A block that found no room. What the tail has of it was synchronised, so that somebody may count on it: these records wait for the disk,
    /// in memory and in the tail. The others are lost, and those that came since. They take no sequence numbers.
    pub(super) fn lose_block(&mut self, mut rows: Rows) {
        let since = std::mem::take(&mut self.rows);
        let (mut lost, mut all, mut untold, mut gaps) = (Count::default(), Count::default(), 0, 0);
        let mut kinds: Vec<(Kind, u64)> = Vec::with_capacity(rows.count + since.count);
        let (mut kept, mut latest, mut from) = (Count::default(), self.ended, u64::MAX);
        for (rows, in_tail) in [(&rows, rows.in_tail), (&since, 0)] {
            let (mut input, mut clocks) = (Input::new(&rows.bytes), Clocks::default());
            while let Some(row) = (!input.is_empty()).then(|| read_row(&mut input, &mut clocks)).flatten() {
                let bytes = row.body.len() as u64;
                if rows.bytes.len() - input.rest().len() <= in_tail {
                    kept = Count { messages: kept.messages + 1, bytes: kept.bytes + bytes };
                    latest = latest.max(Some(row.clocks.wall));
                    continue;
                }
                from = from.min(row.clocks.wall);
                kinds.push((row.kind, bytes));
                all = Count { messages: all.messages + 1, bytes: all.bytes + bytes };
                gaps += u64::from(row.kind == Kind::Gap);
                match Gap::decode(row.body).filter(|_| row.kind == Kind::Gap) {
                    None => lost = Count { messages: lost.messages + 1, bytes: lost.bytes + bytes },
                    // Its messages are told by the gap that will stand for the block; what the disk lost is remembered.
                    Some(gap) if gap.reason != GapReason::Disk => untold += gap.messages.unwrap_or(0),
                    Some(_) => {}
                }
            }
        }
        let next = rows.first + kept.messages;
        self.next = next;
        (self.latest, self.given) = (latest, self.ended);
        if let Some(open) = &mut self.segment {
            open.index.gaps.retain(|place| place.sequence < next);
            for (kind, bytes) in kinds {
                let count = &mut open.index.counts[kind as usize - 1];
                count.messages = count.messages.saturating_sub(1);
                count.bytes = count.bytes.saturating_sub(bytes);
            }
        }
        self.counters.gaps = self.counters.gaps.saturating_sub(gaps);
        self.counters.written.messages -= all.messages;
        self.counters.written.bytes -= all.bytes;
        self.lose(lost.messages, lost.bytes);
        if let Some(trouble) = &mut self.trouble {
            trouble.lost.messages += lost.messages + untold;
            trouble.lost.bytes += lost.bytes;
            trouble.from = trouble.from.min(from);
        }
        if kept.messages == 0 {
            return self.forget_tail();
        }
        rows.bytes.truncate(rows.in_tail);
        rows.last = None;
        (rows.count, rows.raw) = (kept.messages as usize, kept.bytes as usize);
        self.in_tail = (rows.bytes.len(), next);
        self.rows = rows;
    }

    /// Records of a lost block in the tail must not be taken for what comes later under the same sequence numbers.
    pub(super) fn forget_tail(&mut self) {
        if let Some(open) = &mut self.segment {
            open.tail_len = 0;
            open.in_tail = open.in_segment;
            let _ = self.store.truncate(&tail_name(open.number), 0);
        }
    }

    pub(super) fn fail(&mut self, doing: &str, error: &std::io::Error, clocks: Clocks) {
        self.counters.failures += 1;
        let text = format!("{}: {doing} failed: {error}", self.store.name());
        let retry_at = clocks.mono.saturating_add(RETRY);
        match &mut self.trouble {
            Some(trouble) => (trouble.text, trouble.retry_at) = (text, retry_at),
            None => self.trouble = Some(Trouble { text, retry_at, lost: Count::default(), from: clocks.wall }),
        }
    }

    pub(super) fn lose_to_disk(&mut self, len: usize) {
        self.lose(1, len as u64);
        if let Some(trouble) = &mut self.trouble {
            trouble.lost.messages += 1;
            trouble.lost.bytes += len as u64;
        }
    }

    /// After a while the disk is tried again: with a gap, and the images that are known.
    pub(super) fn try_again(&mut self, clocks: Clocks) -> bool {
        if self.trouble.as_ref().is_none_or(|trouble| clocks.mono < trouble.retry_at) {
            return false;
        }
        if self.packer.is_writing() {
            self.settle();
        }
        let Some(mut trouble) = self.trouble.take() else { return false };
        if self.segment.is_none() {
            self.begin(clocks);
        }
        if let Some(open) = self.segment.as_ref().filter(|_| self.trouble.is_none()) {
            // Both files are as long as we know them to be: while the disk took nothing, what was to be cut off has stayed.
            let (name, tail) = (segment_name(open.number), tail_name(open.number));
            let cut = self.store.truncate(&name, open.len).and_then(|()| self.store.truncate(&tail, open.tail_len));
            if let Err(e) = cut.and_then(|()| self.store.sync(&name)) {
                self.fail("trying again", &e, clocks);
            }
        }
        if self.trouble.is_none() && trouble.lost.messages > 0 {
            let messages = Some(trouble.lost.messages);
            let gap = Gap {
                reason: GapReason::Disk,
                from: trouble.from,
                to: clocks.wall,
                messages,
                bytes: trouble.lost.bytes,
            };
            self.counters.gaps += 1;
            self.put_row(Kind::Gap, None, clocks, &gap.encode());
            self.held.iter_mut().for_each(|held| held.is_changed |= held.is_open);
            self.write_block();
            if self.trouble.is_none() {
                // The gap is told. What fails from here on is another one.
                trouble.lost = Count::default();
                trouble.from = clocks.wall;
                self.write_images_now();
            }
        }
        let Some(again) = &mut self.trouble else { return true };
        // The gap that was lost with its block is the one that is still to be told.
        again.from = trouble.from;
        again.lost.messages += trouble.lost.messages;
        again.lost.bytes += trouble.lost.bytes;
        false
    }
}
