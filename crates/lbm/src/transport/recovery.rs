//! What a receiver knows about the datagrams behind a gap: which are missing, which are held, when to ask again.

mod buffers;
mod naks;

use super::memory::Memory;
use super::{DatagramSink, LossReason, Order};
use crate::wire::distance;
use buffers::Buffers;
use naks::Naks;
pub(super) use naks::Timing;

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

/// Bytes of a slot.
const SLOT: usize = size_of::<Slot>();
/// Slots that stay when a gap has closed; a deeper one gives them back.
const SLOTS_KEPT: usize = 4_096;

/// `next` is the lowest number that is neither delivered nor reported lost; all below `end` are known to have been sent. Between
/// them lies one slot per number, at most `slots_max`.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) next: u32,
    pub(super) end: u32,
    slots: Box<[Slot]>,
    slots_max: usize,
    /// Pays for the slots as well.
    buffers: Buffers,
    naks: Naks,
    pub(super) held_dropped: u64,
}

impl Recovery {
    pub(super) fn new(slots_max: usize, held_max: usize, timing: Timing, seed: u64, memory: &Memory) -> Self {
        Self {
            next: 0,
            end: 0,
            slots: Box::default(),
            slots_max: slots_max.next_power_of_two().clamp(64, 1 << 20),
            buffers: Buffers::new(held_max, memory),
            naks: Naks::new(timing, seed),
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
        if !self.buffers.reserve((size - self.slots.len()) * SLOT) {
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
        self.naks.miss(now, first, count as u32);
    }

    /// Keeps a datagram that lies behind a gap, `next < sqn < next + reach`. False if it is there already, or no room is left.
    pub(super) fn hold(&mut self, now: u64, sqn: u32, bytes: &[u8]) -> bool {
        let ahead = distance(self.next, sqn);
        debug_assert!(ahead > 0 && ahead < self.reach(), "{sqn} is not behind a gap at {}", self.next);
        let fresh = distance(self.end, sqn) >= 0;
        if !fresh && self.slot(sqn).state == State::Held {
            return false;
        }
        let buffer = self.buffers.hold(bytes);
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
        if !kept {
            self.held_dropped += 1;
            self.buffers.give_back(buffer);
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

    /// The datagram `next` was delivered.
    #[inline]
    pub(super) fn delivered(&mut self) {
        debug_assert!(!self.has_gap() || self.slot(self.next).state == State::Missing, "{} has come before", self.next);
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
                    self.buffers.give_back(bytes);
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
        self.naks.clear();
        self.trim();
    }

    /// A gap that was deep once must not pin its memory for ever.
    fn trim(&mut self) {
        self.buffers.trim();
        if self.slots.len() > SLOTS_KEPT {
            self.buffers.release(self.slots.len() * SLOT);
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
        let quiet_until = self.naks.quiet_until(now);
        let slot = self.slot(sqn);
        if slot.state == State::Missing {
            if refused {
                slot.state = State::Lost(LossReason::Refused);
            }
            slot.quiet_until = quiet_until;
        }
    }

    pub(super) fn timeout(&self) -> Option<u64> {
        if self.has_gap() { self.naks.timeout() } else { None }
    }

    /// The numbers that the last [`Recovery::on_timer`] has found to be asked for, ascending.
    pub(super) fn naks(&self) -> &[u32] {
        self.naks.list()
    }

    /// Collects what is to be asked for now into [`Recovery::naks`], and gives up what is too old.
    pub(super) fn on_timer(&mut self, now: u64, sink: &mut impl DatagramSink) {
        self.naks.begin_turn(now);
        let mut expired = false;
        while let Some((first, count)) = self.naks.pop_due(now) {
            let skip = distance(first, self.next).clamp(0, count as i32) as u32;
            let mut range: Option<(u64, u32, u32)> = None;
            for i in skip..count {
                let sqn = first.wrapping_add(i);
                if distance(sqn, self.end) <= 0 {
                    break;
                }
                let due = self.ask(now, sqn, &mut expired);
                // Neighbours with the same time stay one range.
                range = match (range, due) {
                    (Some((at, from, length)), Some(due)) if at == due => Some((at, from, length + 1)),
                    (earlier, due) => {
                        self.naks.put_back(earlier);
                        due.map(|due| (due, sqn, 1))
                    }
                };
            }
            self.naks.put_back(range);
        }
        self.naks.end_turn(self.next);
        if expired {
            self.drain(sink);
        }
    }

    /// The time of a number has come: asks for it if it is missing, or gives it up. When it is due again.
    fn ask(&mut self, now: u64, sqn: u32, expired: &mut bool) -> Option<u64> {
        let jitter = self.naks.jitter();
        let mask = self.slots.len() - 1;
        let slot = &mut self.slots[sqn as usize & mask];
        if slot.state != State::Missing {
            return None;
        }
        let due = self.naks.ask(now, sqn, slot.missed_at, slot.quiet_until, jitter);
        if due.is_none() {
            slot.state = State::Lost(LossReason::Timeout);
            *expired = true;
        }
        due
    }

    /// Asserts what a gap promises; it looks at every number: for simulations.
    pub(super) fn check_invariants(&self) {
        let behind = distance(self.next, self.end);
        assert!(behind >= 0, "{} is expected, and only what is below {} is known to be sent", self.next, self.end);
        let (behind, slots) = (behind as usize, self.slots.len());
        assert!(behind <= slots, "{behind} numbers share {slots} slots");
        assert!(slots == 0 || slots.is_power_of_two() && slots <= self.slots_max, "{slots} slots");
        let slot = |i: usize| &self.slots[self.next.wrapping_add(i as u32) as usize & (slots - 1)];
        self.naks.check_invariants(self.next, self.end, |i| slot(i).state == State::Missing);
        let mut held = 0;
        for i in 0..behind {
            let (sqn, slot) = (self.next.wrapping_add(i as u32), slot(i));
            assert!(i > 0 || slot.state == State::Missing, "{sqn} is {:?} and stands at the gap", slot.state);
            // A datagram without messages has no bytes.
            assert!(slot.state == State::Held || slot.bytes.capacity() == 0, "{sqn} has bytes that nobody will get");
            held += slot.bytes.capacity();
        }
        let all: usize = self.slots.iter().map(|slot| slot.bytes.capacity()).sum();
        assert_eq!(all, held, "bytes are held outside the gap");
        self.buffers.check_invariants(held, slots * SLOT);
    }

    /// Forgets everything and begins at `sqn`. What was held is gone: drain first.
    pub(super) fn restart(&mut self, sqn: u32) {
        self.next = sqn;
        self.end = sqn;
        self.naks.clear();
        for at in 0..self.slots.len() {
            let buffer = core::mem::take(&mut self.slots[at].bytes);
            if buffer.capacity() > 0 {
                self.buffers.give_back(buffer);
            }
        }
        debug_assert_eq!(self.buffers.held_bytes(), 0, "nothing is held without a slot");
        self.trim();
    }
}
