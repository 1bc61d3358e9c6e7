//! What a receiver knows about the datagrams behind a gap: which are missing, which are held, when to ask again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::memory::{Memory, Share};
use super::{DatagramSink, LossReason, Order};
use crate::random::Random;
use crate::wire::distance;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Not received; being asked for.
    Missing,
    /// Received; `Slot::bytes` has it.
    Held,
    /// Given up.
    Lost(LossReason),
}

#[derive(Debug)]
struct Slot {
    state: State,
    missed_at: u64,
    /// No NAK before this time: an NCF was heard.
    quiet_until: u64,
    bytes: Vec<u8>,
}

/// Timing of NAKs, ns; see the options of the same names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) initial_backoff: u64,
    pub(super) backoff: u64,
    pub(super) generation: u64,
    pub(super) suppress: u64,
}

/// Bytes of a slot.
const SLOT: usize = size_of::<Slot>();
/// Slots that stay when a gap has closed; a deeper one gives them back.
const SLOTS_KEPT: usize = 4_096;
/// Bytes of buffers that stay when a gap has closed.
const POOL_KEPT: usize = 1 << 20;
/// Numbers that are asked for in one back-off interval at most, the oldest first: 16 KB of NAKs.
pub(super) const NAKS_MAX: usize = 4_096;

/// `next` is the lowest number that is neither delivered nor reported lost; all below `end` are known to have been sent. Between
/// them lies one slot per number, at most `slots_max`.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) next: u32,
    pub(super) end: u32,
    slots: Box<[Slot]>,
    slots_max: usize,
    /// (when, first, count) of ranges that may hold missing numbers. Each missing number is in exactly one range.
    due: BinaryHeap<Reverse<(u64, u32, u32)>>,
    /// Losses found until then join the same NAK.
    initial_due: u64,
    pool: Vec<Vec<u8>>,
    pooled_bytes: usize,
    held_bytes: usize,
    held_max: usize,
    /// What slots, held datagrams and the pool may take of the context's memory.
    share: Share,
    pub(super) naks: Vec<u32>,
    /// Numbers that may still be asked for until `naks_renewed_at`.
    naks_left: usize,
    naks_renewed_at: u64,
    timing: Timing,
    random: Random,
    pub(super) held_dropped: u64,
}

impl Recovery {
    pub(super) fn new(slots_max: usize, held_max: usize, timing: Timing, seed: u64, memory: &Memory) -> Self {
        Self {
            next: 0,
            end: 0,
            slots: Box::default(),
            slots_max: slots_max.next_power_of_two().clamp(64, 1 << 20),
            due: BinaryHeap::new(),
            initial_due: 0,
            pool: Vec::new(),
            pooled_bytes: 0,
            held_bytes: 0,
            held_max,
            share: memory.share(),
            naks: Vec::new(),
            naks_left: NAKS_MAX,
            naks_renewed_at: 0,
            timing,
            random: Random::new(seed),
            held_dropped: 0,
        }
    }

    pub(super) fn reach(&self) -> i32 {
        self.slots_max as i32
    }

    #[inline]
    pub(super) fn has_gap(&self) -> bool {
        self.next != self.end
    }

    fn slot(&mut self, sqn: u32) -> &mut Slot {
        let mask = self.slots.len() - 1;
        &mut self.slots[sqn as usize & mask]
    }

    /// Makes room for `count` slots from `next` on; false if there is no memory for them.
    fn grow(&mut self, count: usize) -> bool {
        if count <= self.slots.len() {
            return true;
        }
        let size = count.next_power_of_two().clamp(64, self.slots_max);
        if !self.share.take((size - self.slots.len()) * SLOT) {
            return false;
        }
        let empty = || Slot { state: State::Missing, missed_at: 0, quiet_until: 0, bytes: Vec::new() };
        let mut slots: Box<[Slot]> = (0..size).map(|_| empty()).collect();
        let mut sqn = self.next;
        while sqn != self.end {
            slots[sqn as usize & (size - 1)] = core::mem::replace(self.slot(sqn), empty());
            sqn = sqn.wrapping_add(1);
        }
        self.slots = slots;
        true
    }

    /// Everything below `end` was sent: what is new is missing. `end` is within reach. Without memory, as far as there is some.
    pub(super) fn missing_until(&mut self, now: u64, end: u32) {
        let mut count = distance(self.end, end);
        if count > 0 && !self.grow(distance(self.next, end) as usize) {
            count = count.min(self.slots.len() as i32 - distance(self.next, self.end));
        }
        if count <= 0 {
            return;
        }
        let (first, end) = (self.end, self.end.wrapping_add(count as u32));
        while self.end != end {
            let sqn = self.end;
            let slot = self.slot(sqn);
            slot.state = State::Missing;
            slot.missed_at = now;
            slot.quiet_until = 0;
            self.end = sqn.wrapping_add(1);
        }
        if self.initial_due <= now {
            self.initial_due = now.saturating_add(self.random.around(self.timing.initial_backoff));
        }
        let due = self.initial_due.min(now.saturating_add(self.timing.generation));
        self.due.push(Reverse((due, first, count as u32)));
    }

    /// Keeps a datagram that lies behind a gap, `next < sqn < next + reach`. False if it is there already, or no room is left.
    pub(super) fn hold(&mut self, now: u64, sqn: u32, bytes: &[u8]) -> bool {
        let fresh = distance(self.end, sqn) >= 0;
        if !fresh && self.slot(sqn).state == State::Held {
            return false;
        }
        let buffer = if self.held_bytes + bytes.len() <= self.held_max { self.buffer(bytes) } else { None };
        if fresh {
            // If it cannot be kept it is missing as well, and asked for later.
            let end = if buffer.is_some() { sqn } else { sqn.wrapping_add(1) };
            self.missing_until(now, end);
        }
        // Without a slot for it, it was never seen.
        let kept = !fresh || self.end == sqn && self.grow(distance(self.next, sqn) as usize + 1);
        let Some(buffer) = buffer else {
            self.held_dropped += 1;
            return false;
        };
        self.held_bytes += buffer.capacity();
        if !kept {
            self.held_dropped += 1;
            self.give_back(buffer);
            return false;
        }
        if fresh {
            self.end = sqn.wrapping_add(1);
        }
        let slot = self.slot(sqn);
        slot.state = State::Held;
        slot.bytes = buffer;
        true
    }

    /// A copy of the bytes, in a buffer of the pool if there is one; `None` without memory for it.
    fn buffer(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut buffer = self.pool.pop().unwrap_or_default();
        self.pooled_bytes -= buffer.capacity();
        let before = buffer.capacity();
        // Rounded up, so that buffers soon fit whatever comes.
        let size = bytes.len().next_power_of_two().max(128);
        if bytes.len() > before {
            if !self.share.take(size - before) {
                self.share.give_back(before);
                return None;
            }
            buffer = Vec::with_capacity(size);
        }
        buffer.clear();
        buffer.extend_from_slice(bytes);
        Some(buffer)
    }

    /// A buffer is not needed any more.
    fn give_back(&mut self, buffer: Vec<u8>) {
        self.held_bytes -= buffer.capacity();
        self.pooled_bytes += buffer.capacity();
        self.pool.push(buffer);
    }

    /// The datagram `next` was delivered.
    #[inline]
    pub(super) fn delivered(&mut self) {
        if self.next == self.end {
            self.end = self.end.wrapping_add(1);
        }
        self.next = self.next.wrapping_add(1);
    }

    /// Hands on what is no longer behind a gap.
    pub(super) fn drain(&mut self, sink: &mut impl DatagramSink) {
        while self.next != self.end {
            let sqn = self.next;
            match self.slot(sqn).state {
                State::Missing => return,
                State::Held => {
                    let bytes = core::mem::take(&mut self.slot(sqn).bytes);
                    self.next = sqn.wrapping_add(1);
                    sink.datagram(sqn, Order::Held, &bytes);
                    self.give_back(bytes);
                }
                State::Lost(reason) => {
                    let mut count = 0;
                    while self.next != self.end && self.slot(self.next).state == State::Lost(reason) {
                        self.next = self.next.wrapping_add(1);
                        count += 1;
                    }
                    sink.lost(sqn, count, reason);
                }
            }
        }
        self.due.clear();
        self.initial_due = 0;
        self.trim();
    }

    /// A gap that was deep once must not pin its memory for ever.
    fn trim(&mut self) {
        while self.pooled_bytes > POOL_KEPT
            && let Some(buffer) = self.pool.pop()
        {
            self.pooled_bytes -= buffer.capacity();
            self.share.give_back(buffer.capacity());
        }
        if self.slots.len() > SLOTS_KEPT {
            self.share.give_back(self.slots.len() * SLOT);
            self.slots = Box::default();
        }
    }

    /// What is missing below `end` will never come.
    pub(super) fn lose_until(&mut self, end: u32, reason: LossReason, sink: &mut impl DatagramSink) {
        let count = distance(self.next, end).min(distance(self.next, self.end));
        for i in 0..count.max(0) as u32 {
            let sqn = self.next.wrapping_add(i);
            let slot = self.slot(sqn);
            if slot.state == State::Missing {
                slot.state = State::Lost(reason);
            }
        }
        self.drain(sink);
    }

    /// A NAK for `sqn` was heard by the source and will not be answered now.
    pub(super) fn confirmed(&mut self, now: u64, sqn: u32, refused: bool) {
        if sqn.wrapping_sub(self.next) >= self.end.wrapping_sub(self.next) {
            return;
        }
        let quiet_until = now.saturating_add(self.timing.suppress);
        let slot = self.slot(sqn);
        if slot.state == State::Missing {
            if refused {
                slot.state = State::Lost(LossReason::Refused);
            }
            slot.quiet_until = quiet_until;
        }
    }

    pub(super) fn timeout(&self) -> Option<u64> {
        if self.has_gap() { self.due.peek().map(|Reverse((at, ..))| *at) } else { None }
    }

    /// Collects what is to be asked for now into `naks`, ascending, and gives up what is too old.
    pub(super) fn on_timer(&mut self, now: u64, sink: &mut impl DatagramSink) {
        self.naks.clear();
        let again = now.saturating_add(self.random.around(self.timing.backoff)).max(now + 1);
        if now >= self.naks_renewed_at {
            self.naks_left = NAKS_MAX;
            self.naks_renewed_at = now.saturating_add(self.timing.backoff);
        }
        let mut expired = false;
        while let Some(Reverse((at, first, count))) = self.due.peek().copied()
            && at <= now
        {
            self.due.pop();
            let skip = distance(first, self.next).clamp(0, count as i32) as u32;
            let mut range: Option<(u64, u32, u32)> = None;
            for i in skip..count {
                let sqn = first.wrapping_add(i);
                if distance(sqn, self.end) <= 0 {
                    break;
                }
                let (generation, backoff) = (self.timing.generation, self.timing.backoff);
                let jitter = self.random.around(backoff);
                let slot = self.slot(sqn);
                let due = if slot.state != State::Missing {
                    None
                } else if now.saturating_sub(slot.missed_at) >= generation {
                    slot.state = State::Lost(LossReason::Timeout);
                    expired = true;
                    None
                } else {
                    let deadline = slot.missed_at.saturating_add(generation);
                    let due = if slot.quiet_until > now {
                        slot.quiet_until.saturating_add(jitter / 2)
                    } else {
                        if self.naks_left > 0 {
                            self.naks_left -= 1;
                            self.naks.push(sqn);
                        }
                        again
                    };
                    Some(due.min(deadline).max(now + 1))
                };
                // Neighbours with the same time stay one range.
                range = match (range, due) {
                    (Some((at, from, length)), Some(due)) if at == due => Some((at, from, length + 1)),
                    (earlier, due) => {
                        self.due.extend(earlier.map(Reverse));
                        due.map(|due| (due, sqn, 1))
                    }
                };
            }
            self.due.extend(range.map(Reverse));
        }
        let base = self.next;
        self.naks.sort_unstable_by_key(|sqn| sqn.wrapping_sub(base));
        if expired {
            self.drain(sink);
        }
    }

    /// Asserts what a gap promises; it looks at every number: for simulations.
    pub(super) fn check_invariants(&self) {
        let behind = distance(self.next, self.end);
        assert!(behind >= 0, "{} is expected, and only what is below {} is known to be sent", self.next, self.end);
        let (behind, slots) = (behind as usize, self.slots.len());
        assert!(behind <= slots, "{behind} numbers share {slots} slots");
        assert!(slots == 0 || slots.is_power_of_two() && slots <= self.slots_max, "{slots} slots");
        assert!(self.held_bytes <= self.held_max + (1 << 17), "held: {} of {}", self.held_bytes, self.held_max);
        let mut asked = vec![0u8; behind];
        for Reverse((_, first, count)) in self.has_gap().then_some(&self.due).into_iter().flatten() {
            for i in 0..*count {
                let at = distance(self.next, first.wrapping_add(i));
                if let Some(asked) = usize::try_from(at).ok().and_then(|at| asked.get_mut(at)) {
                    *asked += 1;
                }
            }
        }
        let mut held = 0;
        for (i, asked) in asked.into_iter().enumerate() {
            let sqn = self.next.wrapping_add(i as u32);
            let slot = &self.slots[sqn as usize & (slots - 1)];
            match slot.state {
                State::Missing => assert_eq!(asked, 1, "{sqn} is missing, and so many ranges ask for it"),
                // A datagram without messages has no bytes.
                State::Held => {}
                State::Lost(_) => assert!(i > 0, "{sqn} is lost, and nobody is told"),
            }
            assert!(i > 0 || slot.state == State::Missing, "{sqn} is not missing and stands at the gap");
            assert!(slot.state == State::Held || slot.bytes.capacity() == 0, "{sqn} has bytes that nobody will get");
            held += slot.bytes.capacity();
        }
        let all: usize = self.slots.iter().map(|slot| slot.bytes.capacity()).sum();
        assert_eq!((self.held_bytes, all), (held, held), "bytes behind the gap: counted, and in all slots");
        let pooled: usize = self.pool.iter().map(Vec::capacity).sum();
        assert_eq!(self.pooled_bytes, pooled, "bytes of the pool");
        self.share.check_invariants(slots * SLOT + held + pooled);
        assert!(self.naks_left <= NAKS_MAX && self.naks.len() <= NAKS_MAX, "more is asked for at once than may be");
    }

    /// Forgets everything and begins at `sqn`. What was held is gone: drain first.
    pub(super) fn restart(&mut self, sqn: u32) {
        self.next = sqn;
        self.end = sqn;
        self.due.clear();
        self.initial_due = 0;
        for at in 0..self.slots.len() {
            let buffer = core::mem::take(&mut self.slots[at].bytes);
            if buffer.capacity() > 0 {
                self.give_back(buffer);
            }
        }
        debug_assert_eq!(self.held_bytes, 0);
        self.trim();
    }
}
