//! When to advertise or ask again: an initial phase with doubling intervals, then a sustaining phase, then silence.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::transport::limiter::Limiter;

/// The phases of all sources, receivers or wildcard receivers of a context, ns. A sustaining duration of 0 is for ever.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phases {
    pub(super) first: u64,
    pub(super) longest: u64,
    pub(super) initial: u64,
    pub(super) sustain: u64,
    pub(super) sustain_duration: u64,
}

/// Where one of them is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    since: u64,
    interval: u64,
    /// When it is due; `u64::MAX` = silent. An older entry in the queue is void.
    pub(super) due: u64,
}

impl Progress {
    pub(super) fn new(now: u64, phases: &Phases, delay: u64) -> Self {
        Self { since: now, interval: phases.first.max(1), due: now.saturating_add(delay) }
    }

    /// The packet was sent: when next?
    fn step(&mut self, now: u64, phases: &Phases) {
        let age = now.saturating_sub(self.since);
        if age < phases.initial {
            self.due = now.saturating_add(self.interval);
            self.interval = self.interval.saturating_mul(2).min(phases.longest.max(1));
        } else if phases.sustain != 0
            && (phases.sustain_duration == 0 || age < phases.initial.saturating_add(phases.sustain_duration))
        {
            self.due = now.saturating_add(phases.sustain);
        } else {
            self.due = u64::MAX;
        }
    }
}

/// Who is due when, under limits of bits and items a second.
#[derive(Debug)]
pub(super) struct Schedule {
    phases: Phases,
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    bits: Limiter,
    items: Limiter,
}

/// Over which the limits are measured.
const INTERVAL_NS: u64 = 20_000_000;

impl Schedule {
    pub(super) fn new(phases: Phases, bps: u64, per_second: u64) -> Self {
        Self {
            phases,
            queue: BinaryHeap::new(),
            bits: Limiter::fixed(bps, INTERVAL_NS),
            // One item counts like a byte.
            items: Limiter::fixed(per_second.saturating_mul(8), INTERVAL_NS),
        }
    }

    pub(super) fn phases(&self) -> &Phases {
        &self.phases
    }

    pub(super) fn push(&mut self, due: u64, id: u32) {
        self.queue.push(Reverse((due, id)));
    }

    pub(super) fn timeout(&self) -> Option<u64> {
        let Reverse((due, _)) = *self.queue.peek()?;
        let open = self.bits.is_open() && self.items.is_open();
        Some(if open { due } else { due.max(self.bits.tick_at().min(self.items.tick_at())) })
    }

    pub(super) fn tick(&mut self, now: u64) {
        self.bits.tick(now);
        self.items.tick(now);
    }

    /// The next that is due and allowed. The caller sends it and calls [`Schedule::sent`], or nothing if the entry is void.
    pub(super) fn next(&mut self, now: u64) -> Option<(u64, u32)> {
        let Reverse((due, id)) = *self.queue.peek()?;
        if due > now || !self.bits.is_open() || !self.items.is_open() {
            return None;
        }
        self.queue.pop();
        Some((due, id))
    }

    pub(super) fn sent(&mut self, now: u64, id: u32, progress: &mut Progress, bytes: usize) {
        self.bits.spend(bytes);
        self.items.spend(1);
        progress.step(now, &self.phases);
        if progress.due != u64::MAX {
            self.push(progress.due, id);
        }
    }
}
