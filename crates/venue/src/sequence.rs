//! Order out of lines: messages are numbered, come by several lines, twice, late or not at all, and leave here once and in order.
//!
//! What is arbitrated is messages, never packets: two lines need not pack alike. A message that is ahead is held; if the hole before it
//! is not filled within [`Limits::patience`], the gap is told and asked for: one request at a time, each later than the one before, until it is
//! filled or given up.

use std::ops::Range;

/// Bounds and times of an [`Arbiter`]. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a hole may wait for the other line before it is told and asked for.
    pub patience: u64,
    /// How long an answer may take; doubles with each that does not come.
    pub first_retry: u64,
    /// Longest time between two requests of one range.
    pub longest_retry: u64,
    /// Requests for one range before it is given up.
    pub attempts: u32,
    /// Most messages of one request.
    pub most_requested: u64,
    /// Messages ahead of a hole that can be held; rounded up to a power of two.
    pub window: usize,
    /// Bytes of them.
    pub held_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            patience: 5_000_000,
            first_retry: 100_000_000,
            longest_retry: 2_000_000_000,
            attempts: 8,
            most_requested: 1_000,
            window: 1 << 16,
            held_bytes: 16 << 20,
        }
    }
}

/// Change of the stream, told between the messages to which it applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Another session begins: all that was built of the one before is void.
    Session {
        /// Name of the session; empty where the protocol has none.
        name: String,
        /// Number of the first message that will come.
        next: u64,
    },
    /// Messages are missing and the other line has not brought them: what they could change is in doubt. No message comes until `Repaired`
    /// or `Lost`.
    Gap {
        /// Their numbers.
        missing: Range<u64>,
    },
    /// All that was missing has come, and is behind this.
    Repaired,
    /// Messages will not come. What follows is applied to a book that is not whole: it stays in doubt until a snapshot or a new session.
    Lost {
        /// Their numbers.
        missing: Range<u64>,
    },
    /// A snapshot is in place, with all messages since: the stream is whole again from here.
    Resumed {
        /// Number of the first message that will come.
        next: u64,
    },
    /// The venue has said that no message follows, and all have come.
    Ended,
}

/// Receiver of messages and changes, in order.
pub trait Receiver {
    /// The next message.
    fn message(&mut self, number: u64, message: &[u8]);
    /// Something became of the stream.
    fn change(&mut self, change: &Change);
}

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that were given on.
    pub given: u64,
    /// Messages that had come before.
    pub repeated: u64,
    /// Messages that waited for one before them.
    pub held: u64,
    /// Messages too far ahead, or too many, to be held: they are asked for later.
    pub not_held: u64,
    /// Gaps that were told.
    pub gaps: u64,
    /// Gaps that were filled after they were told.
    pub repairs: u64,
    /// Requests that were made.
    pub requests: u64,
    /// Messages that were given up.
    pub lost: u64,
}

/// A message that waits; its memory is used again.
#[derive(Debug, Default)]
struct Held {
    /// Number of the message; 0: vacant.
    number: u64,
    bytes: Vec<u8>,
}

/// More memory than this goes back when a message leaves.
const KEPT_BYTES: usize = 256;

/// A hole at the next number.
#[derive(Clone, Copy, Debug)]
struct Hole {
    /// The number that is missing.
    at: u64,
    /// When it is told and asked for first, or again.
    due: u64,
    told: bool,
    /// End of the range that was asked for last.
    asked: Option<u64>,
    attempts: u32,
    retry: u64,
}

/// Puts one stream of numbered messages in order. See the [module](self).
#[derive(Debug)]
pub struct Arbiter {
    limits: Limits,
    /// Number of the next message to be given on.
    next: u64,
    /// One more than the highest number that is known to exist.
    end: u64,
    held: Vec<Held>,
    held_messages: usize,
    held_bytes: usize,
    hole: Option<Hole>,
    /// A snapshot is awaited: messages are held and not given on.
    is_paused: bool,
    is_lost: bool,
    request: Option<Range<u64>>,
    /// Until then the last request may be answered, and no other is made.
    in_flight_until: u64,
    counts: Counts,
}

impl Arbiter {
    /// A stream of which `next` is the first message wanted.
    pub fn new(next: u64, limits: Limits) -> Self {
        let window = limits.window.clamp(1, 1 << 24).next_power_of_two();
        Self {
            limits,
            next,
            end: next,
            held: std::iter::repeat_with(Held::default).take(window).collect(),
            held_messages: 0,
            held_bytes: 0,
            hole: None,
            is_paused: false,
            is_lost: false,
            request: None,
            in_flight_until: 0,
            counts: Counts::default(),
        }
    }

    /// Forgets everything and begins at `next`, as a new session does. What was not given on of the session before never is, and counts as lost; a snapshot
    /// that was awaited would have made up for it.
    pub fn begin(&mut self, next: u64) {
        if !self.is_paused {
            self.counts.lost += self.end - self.next;
        }
        self.forget_held();
        (self.next, self.end, self.hole, self.request) = (next, next, None, None);
        (self.is_paused, self.is_lost) = (false, false);
        self.in_flight_until = 0;
    }

    /// Number of the next message to be given on.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// One more than the highest number that is known to exist.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// A gap is open that has been told, messages were lost, or a snapshot is awaited.
    pub fn is_in_doubt(&self) -> bool {
        self.is_lost || self.is_paused || self.hole.is_some_and(|hole| hole.told)
    }

    /// Messages were lost, and nothing since has made up for it.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// A snapshot is awaited: messages are held.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Takes a message; gives it on if it is the next, and those that waited for it. True: it was new.
    #[inline]
    pub fn offer(&mut self, number: u64, message: &[u8], receiver: &mut impl Receiver) -> bool {
        if number < self.next {
            self.counts.repeated += 1;
            return false;
        }
        if number == self.next && !self.is_paused {
            self.next += 1;
            self.end = self.end.max(self.next);
            self.counts.given += 1;
            receiver.message(number, message);
            if self.held_messages > 0 {
                self.give_held(receiver);
            }
            return true;
        }
        self.end = self.end.max(number.saturating_add(1));
        self.hold(number, message)
    }

    /// All messages before `end` exist, as a heartbeat says.
    pub fn exists_until(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// To be called after each packet: a hole that is new begins to wait, one that is filled is told.
    #[inline]
    pub fn settle(&mut self, now: u64, receiver: &mut impl Receiver) {
        if self.next < self.end || self.hole.is_some() {
            self.settle_hole(now, receiver);
        }
    }

    /// When [`Arbiter::on_timer`] wants to be called.
    pub fn timer(&self) -> Option<u64> {
        self.hole.map(|hole| hole.due)
    }

    /// Tells a gap, asks for it, asks again, or gives it up.
    pub fn on_timer(&mut self, now: u64, receiver: &mut impl Receiver) {
        let Some(mut hole) = self.hole.filter(|hole| hole.due <= now && !self.is_paused) else { return };
        let missing = self.next..self.first_held();
        if !hole.told && !self.is_lost {
            self.counts.gaps += 1;
            receiver.change(&Change::Gap { missing: missing.clone() });
        }
        hole.told = true;
        if now < self.in_flight_until {
            hole.due = self.in_flight_until;
            self.hole = Some(hole);
            return;
        }
        if hole.attempts >= self.limits.attempts {
            return self.give_up(missing, now, receiver);
        }
        let asked = missing.end.min(missing.start.saturating_add(self.limits.most_requested));
        hole.asked = Some(asked);
        hole.attempts += 1;
        hole.due = now.saturating_add(hole.retry);
        self.in_flight_until = now.saturating_add(self.limits.first_retry);
        hole.retry = hole.retry.saturating_mul(2).min(self.limits.longest_retry);
        self.hole = Some(hole);
        self.request = Some(missing.start..asked);
        self.counts.requests += 1;
    }

    /// A request to be sent: the numbers that are wanted. At most one waits; a later one replaces it.
    pub fn poll_request(&mut self) -> Option<Range<u64>> {
        self.request.take()
    }

    /// Holds all that comes from now on, until [`Arbiter::resume`]: a snapshot is being taken.
    pub fn pause(&mut self) {
        self.is_paused = true;
        (self.hole, self.request) = (None, None);
    }

    /// Goes on at `next` after a snapshot that holds all messages before it: what was held before that is dropped, the rest given on.
    ///
    /// # Errors
    /// The snapshot is older than what has been given on or held: take another. Nothing has changed.
    pub fn resume(&mut self, next: u64, now: u64, receiver: &mut impl Receiver) -> Result<(), Stale> {
        if next < self.next {
            return Err(Stale { snapshot: next, next: self.next });
        }
        for number in self.next..next.min(self.next.saturating_add(self.held.len() as u64)) {
            self.take_held(number);
        }
        (self.next, self.end) = (next, self.end.max(next));
        (self.is_paused, self.is_lost, self.hole, self.request) = (false, false, None, None);
        receiver.change(&Change::Resumed { next });
        self.give_held(receiver);
        self.settle(now, receiver);
        Ok(())
    }

    #[inline]
    fn slot(&self, number: u64) -> usize {
        number as usize & (self.held.len() - 1)
    }

    fn hold(&mut self, number: u64, message: &[u8]) -> bool {
        let slot = self.slot(number);
        let is_far = number - self.next >= self.held.len() as u64;
        if !is_far && self.held[slot].number == number {
            self.counts.repeated += 1;
            return false;
        }
        // The next message itself always has room: without it nothing ever leaves.
        let is_full = self.held_bytes.saturating_add(message.len()) > self.limits.held_bytes && number != self.next;
        if is_far || is_full || number == 0 {
            self.counts.not_held += 1;
            return false;
        }
        let held = &mut self.held[slot];
        held.number = number;
        held.bytes.clear();
        held.bytes.extend_from_slice(message);
        self.held_messages += 1;
        self.held_bytes += message.len();
        self.counts.held += 1;
        true
    }

    fn give_held(&mut self, receiver: &mut impl Receiver) {
        while self.held_messages > 0 {
            let slot = self.slot(self.next);
            if self.held[slot].number != self.next {
                return;
            }
            receiver.message(self.next, &self.held[slot].bytes);
            self.take_held(self.next);
            self.next += 1;
            self.counts.given += 1;
        }
    }

    fn take_held(&mut self, number: u64) {
        let slot = self.slot(number);
        let held = &mut self.held[slot];
        if held.number != number || number == 0 {
            return;
        }
        self.held_messages -= 1;
        self.held_bytes -= held.bytes.len();
        held.number = 0;
        if held.bytes.capacity() > KEPT_BYTES {
            held.bytes = Vec::new();
        }
    }

    fn forget_held(&mut self) {
        if self.held_messages > 0 {
            self.held.iter_mut().for_each(|held| *held = Held::default());
        }
        (self.held_messages, self.held_bytes) = (0, 0);
    }

    /// The first number that is held, or the end of what exists: what is missing ends there.
    fn first_held(&self) -> u64 {
        let far = self.end.min(self.next.saturating_add(self.held.len() as u64));
        let held = |number: &u64| self.held[self.slot(*number)].number == *number;
        if self.held_messages == 0 { self.end } else { (self.next..far).find(held).unwrap_or(self.end) }
    }

    #[cold]
    fn settle_hole(&mut self, now: u64, receiver: &mut impl Receiver) {
        if self.is_paused {
            return;
        }
        match &mut self.hole {
            _ if self.next >= self.end => self.close_hole(receiver),
            None => self.hole = Some(self.new_hole(now)),
            // Another hole than the one that was waited for: the other line may still fill it.
            Some(hole) if !hole.told && hole.at != self.next => self.hole = Some(self.new_hole(now)),
            // The range that was asked for has come: the rest is asked for at once, as a new range.
            Some(hole) if hole.asked.is_some_and(|asked| self.next >= asked) => {
                (hole.asked, hole.attempts, hole.retry, hole.due) = (None, 0, self.limits.first_retry, now);
            }
            Some(_) => {}
        }
        if self.hole.is_some_and(|hole| hole.due <= now) {
            self.on_timer(now, receiver);
        }
    }

    fn close_hole(&mut self, receiver: &mut impl Receiver) {
        self.request = None;
        if self.hole.take().is_some_and(|hole| hole.told) && !self.is_lost {
            self.counts.repairs += 1;
            receiver.change(&Change::Repaired);
        }
    }

    /// A part of an answer has come, new or not. If no other follows for as long as a hole may wait, what is left is asked for again: answers
    /// may be shorter than what they answer, and may come in several packets.
    pub fn answered_in_part(&mut self, now: u64) {
        let (patience, retry) = (self.limits.patience, self.limits.first_retry);
        self.in_flight_until = 0;
        if let Some(hole) = self.hole.as_mut().filter(|hole| hole.told && hole.at != self.next) {
            (hole.at, hole.attempts, hole.retry) = (self.next, 0, retry);
            hole.due = now.saturating_add(patience);
        }
    }

    fn new_hole(&self, now: u64) -> Hole {
        let due = now.saturating_add(self.limits.patience);
        Hole { at: self.next, due, told: false, asked: None, attempts: 0, retry: self.limits.first_retry }
    }

    fn give_up(&mut self, missing: Range<u64>, now: u64, receiver: &mut impl Receiver) {
        self.counts.lost += missing.end - missing.start;
        self.is_lost = true;
        (self.hole, self.request) = (None, None);
        self.next = missing.end;
        receiver.change(&Change::Lost { missing });
        self.give_held(receiver);
        self.settle(now, receiver);
    }
}

/// A snapshot that is older than what has been given on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the snapshot goes on at {snapshot}, but messages before {next} are gone")]
pub struct Stale {
    /// Number at which the snapshot goes on.
    pub snapshot: u64,
    /// Number of the first message that is still there.
    pub next: u64,
}
