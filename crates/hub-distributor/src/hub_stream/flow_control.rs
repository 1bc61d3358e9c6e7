//! Flow control: providers wait for the slowest P2PS that moves.
//!
//! P2PSs tell how far they have read the stream. When more than a window of it is on its way to one of them, the owner is to stop
//! reading from the providers, until that is down to half. One that does not move is *left behind*: nobody waits for it before it
//! has caught up to half of the window.

use crate::ids::Slot;
use std::collections::VecDeque;

/// Bytes of the stream between two positions whose place is known, as a part of the window: by so much a reader may seem further
/// behind than it is.
const STRETCH: u64 = 64;
/// The least progress that counts as moving: this part of the window within the patience.
const MOVES: u64 = 8;

/// A place in the stream.
#[derive(Debug)]
struct Mark {
    position: u64,
    /// Bytes published before it.
    bytes: u64,
    /// When they had been.
    at: u64,
}

#[derive(Debug)]
struct Reader {
    /// Bytes of the stream that it has read, at least.
    bytes: u64,
    /// The bytes read when the reader last had moved, and the time of that.
    moved: (u64, u64),
    is_left_behind: bool,
}

/// What is on its way to the P2PSs. Times are nanoseconds.
#[derive(Debug)]
pub(crate) struct FlowControl {
    window: u64,
    patience: u64,
    now: u64,
    position: u64,
    published: u64,
    /// In order; the first is at or before the slowest reader and half of the window.
    marks: VecDeque<Mark>,
    /// By slot.
    readers: Vec<Option<Reader>>,
    /// Bytes that the slowest one has read that is waited for.
    slowest: u64,
    waiting: bool,
    deadline: Option<u64>,
    /// Times that providers had to wait.
    pub(crate) waits: u64,
    /// Times that a P2PS was left behind.
    pub(crate) left_behind: u64,
}

impl FlowControl {
    /// Nobody is waited for with a window of 0.
    pub(crate) fn new(window: u64, patience: u64) -> Self {
        Self {
            window,
            patience,
            now: 0,
            position: 0,
            published: 0,
            marks: VecDeque::new(),
            readers: Vec::new(),
            slowest: 0,
            waiting: false,
            deadline: None,
            waits: 0,
            left_behind: 0,
        }
    }

    /// A block of `bytes` was published; the stream now ends at `position`.
    pub(crate) fn published(&mut self, bytes: usize, position: u64) {
        if self.window == 0 {
            return;
        }
        self.published += bytes as u64;
        self.position = position;
        if self.marks.back().is_none_or(|mark| self.published - mark.bytes >= self.window / STRETCH) {
            self.marks.push_back(Mark { position, bytes: self.published, at: self.now });
            self.find_slowest();
        }
    }

    /// A P2PS reads from here on.
    pub(crate) fn joined(&mut self, now: u64, slot: Slot) {
        let slot = usize::from(slot.0);
        if self.readers.len() <= slot {
            self.readers.resize_with(slot + 1, || None);
        }
        self.readers[slot] =
            Some(Reader { bytes: self.published, moved: (self.published, now), is_left_behind: false });
    }

    /// A P2PS is gone.
    pub(crate) fn left(&mut self, slot: Slot) {
        if let Some(reader) = self.readers.get_mut(usize::from(slot.0))
            && reader.take().is_some()
        {
            self.find_slowest();
        }
    }

    /// A P2PS has read the stream up to a position.
    pub(crate) fn has_read(&mut self, now: u64, slot: Slot, position: u64) {
        if !self.readers.get(usize::from(slot.0)).is_some_and(Option::is_some) {
            // Nobody waits for this P2PS.
            return;
        }
        let behind = self.marks.partition_point(|mark| mark.position <= position);
        let bytes = match behind.checked_sub(1).and_then(|at| self.marks.get(at)) {
            _ if position >= self.position => self.published,
            Some(mark) => mark.bytes,
            None => return,
        };
        // Nobody waits for a P2PS that is not paced.
        let Some(Some(reader)) = self.readers.get_mut(usize::from(slot.0)) else { return };
        reader.bytes = reader.bytes.max(bytes);
        if reader.is_left_behind && self.published - reader.bytes <= self.window / 2 {
            reader.is_left_behind = false;
            reader.moved = (reader.bytes, now);
        }
        if reader.bytes - reader.moved.0 >= self.window / MOVES {
            reader.moved = (reader.bytes, now);
        }
        self.find_slowest();
    }

    /// Whether providers have to wait, as things are now.
    pub(crate) fn must_wait(&mut self, now: u64) -> bool {
        self.now = now;
        let limit = if self.waiting { self.window / 2 } else { self.window };
        if self.published - self.slowest > limit {
            self.leave_behind(limit);
        } else {
            self.deadline = None;
        }
        let waits = self.published - self.slowest > limit;
        self.waits += u64::from(waits && !self.waiting);
        self.waiting = waits;
        waits
    }

    /// Bytes that a P2PS has yet to read, at most, and whether it was left behind.
    pub(crate) fn behind(&self, slot: Slot) -> (u64, bool) {
        let reader = self.readers.get(usize::from(slot.0)).and_then(Option::as_ref);
        reader.map_or((0, false), |reader| (self.published - reader.bytes, reader.is_left_behind))
    }

    /// When somebody may have to be left behind.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.deadline
    }

    fn leave_behind(&mut self, limit: u64) {
        let Self { now, published, marks, readers, patience, .. } = self;
        let moves = self.window / MOVES;
        self.deadline = None;
        for reader in readers.iter_mut().flatten() {
            if reader.is_left_behind || *published - reader.bytes <= limit {
                continue;
            }
            // Bytes that the reader has not read may just have been published.
            let next = marks.partition_point(|mark| mark.bytes < reader.moved.0 + moves);
            let since = marks.get(next).map_or(*now, |mark| mark.at).max(reader.moved.1);
            let until = since.saturating_add(*patience);
            reader.is_left_behind = until <= *now;
            if reader.is_left_behind {
                self.left_behind += 1;
            } else {
                self.deadline = Some(self.deadline.map_or(until, |deadline| deadline.min(until)));
            }
        }
        self.find_slowest();
    }

    fn find_slowest(&mut self) {
        let waited_for = self.readers.iter().flatten().filter(|reader| !reader.is_left_behind);
        self.slowest = waited_for.map(|reader| reader.bytes).min().unwrap_or(self.published);
        // A reader that was left behind has caught up when it is within half of the window.
        let kept = self.slowest.min(self.published.saturating_sub(self.window / 2));
        while self.marks.get(1).is_some_and(|mark| mark.bytes <= kept) {
            self.marks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    /// A message of 1,000 bytes a block: positions are thousands of bytes.
    const WINDOW: u64 = 1_000_000;

    fn publish(flow: &mut FlowControl, messages: u64) {
        for _ in 0..messages {
            flow.published(1_000, flow.position + 1);
        }
    }

    #[test]
    fn providers_wait_for_a_window_and_go_on_at_half_of_it() {
        let mut flow = FlowControl::new(WINDOW, 500 * MS);
        flow.joined(0, Slot(0));
        flow.joined(0, Slot(1));
        publish(&mut flow, 1_000);
        assert!(!flow.must_wait(0), "a window may be on its way");
        publish(&mut flow, 1);
        assert!(flow.must_wait(MS));
        flow.has_read(2 * MS, Slot(0), 1_001);
        assert!(flow.must_wait(2 * MS), "for the slower one");
        flow.has_read(3 * MS, Slot(1), 400);
        assert!(flow.must_wait(3 * MS), "not half yet");
        flow.has_read(4 * MS, Slot(1), 540);
        assert!(!flow.must_wait(4 * MS));
        assert_eq!((flow.waits, flow.left_behind), (1, 0));
        assert_eq!(flow.deadline(), None);
    }

    #[test]
    fn one_that_does_not_move_is_left_behind_until_it_has_caught_up() {
        let mut flow = FlowControl::new(WINDOW, 500 * MS);
        flow.joined(0, Slot(3));
        assert!(!flow.must_wait(1_000 * MS), "it has nothing to read");
        publish(&mut flow, 1_100);
        assert!(flow.must_wait(1_000 * MS));
        assert_eq!(flow.deadline(), Some(1_500 * MS), "what it has to read came just now");
        flow.has_read(1_400 * MS, Slot(3), 50);
        assert!(!flow.must_wait(1_500 * MS), "that was not a move");
        assert_eq!(flow.left_behind, 1);
        publish(&mut flow, 5_000);
        assert!(!flow.must_wait(1_600 * MS));
        flow.has_read(1_700 * MS, Slot(3), 4_000);
        publish(&mut flow, 5_000);
        assert!(!flow.must_wait(1_700 * MS), "it is still far behind");
        flow.has_read(1_800 * MS, Slot(3), 10_700);
        publish(&mut flow, 700);
        assert!(flow.must_wait(1_800 * MS), "it has caught up, and counts again");
        flow.left(Slot(3));
        assert!(!flow.must_wait(1_800 * MS), "it is gone");
        assert!(flow.marks.len() as u64 <= STRETCH / 2 + 2, "no more is kept for nobody");
    }

    #[test]
    fn one_that_reads_slowly_but_moves_is_waited_for() {
        let mut flow = FlowControl::new(WINDOW, 500 * MS);
        flow.joined(0, Slot(0));
        publish(&mut flow, 1_001);
        let mut read = 0;
        for turn in 1..100_u64 {
            // An eighth of the window in 400 ms.
            read += 130;
            flow.has_read(turn * 400 * MS, Slot(0), read);
            if !flow.must_wait(turn * 400 * MS) {
                publish(&mut flow, 600);
                flow.must_wait(turn * 400 * MS);
            }
        }
        assert!(flow.left_behind == 0 && flow.waits > 10, "{flow:?}");
    }

    #[test]
    fn without_a_window_nothing_is_kept_and_nobody_waits() {
        let mut flow = FlowControl::new(0, 500 * MS);
        flow.joined(0, Slot(0));
        publish(&mut flow, 10_000);
        assert!(!flow.must_wait(0) && flow.marks.is_empty());
    }
}
