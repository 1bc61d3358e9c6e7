//! The receiving side of LBT-RM and LBT-RU.

use super::memory::Memory;
use super::recovery::{Recovery, Timing};
use super::{DatagramSink, EndReason, Framing, LossReason, Order, Received};
use crate::wire::{NcfReason, Writer, distance};

/// How a session receives; defaults are LBM's but for the backoff, see `docs/wire/lbm.md`.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// From a loss to the first NAK, times 0.5 to 1.5, ns: `transport_lbtrm_nak_initial_backoff_interval`.
    pub nak_initial_backoff_interval_ns: u64,
    /// Between NAKs, times 0.5 to 1.5, ns: `transport_lbtrm_nak_backoff_interval`.
    pub nak_backoff_interval_ns: u64,
    /// A loss is given up after this time, ns: `transport_lbtrm_nak_generation_interval`.
    pub nak_generation_interval_ns: u64,
    /// No NAK for so long after an NCF, ns: `transport_lbtrm_nak_suppress_interval`.
    pub nak_suppress_interval_ns: u64,
    /// Whether to send NAKs at all: `transport_lbtrm_send_naks`.
    pub send_naks: bool,
    /// The session ends after so much silence, ns: `transport_lbtrm_activity_timeout`.
    pub activity_timeout_ns: u64,
    /// Numbers that can be missing or held at a time; a power of two. What is farther ahead is not taken.
    pub reach: usize,
    /// Bytes of datagrams that can be held behind gaps.
    pub held_max: usize,
    /// Spreads the NAKs of receivers.
    pub seed: u64,
    /// What all sessions of a context share.
    pub memory: Memory,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self {
            nak_initial_backoff_interval_ns: 50_000_000,
            nak_backoff_interval_ns: 200_000_000,
            nak_generation_interval_ns: 10_000_000_000,
            nak_suppress_interval_ns: 1_000_000_000,
            send_naks: true,
            activity_timeout_ns: 60_000_000_000,
            reach: 65_536,
            held_max: 64 << 20,
            seed: 0,
            memory: Memory::default(),
        }
    }
}

/// What a session has received. Datagrams in order are counted by their numbers, not one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Datagrams that were handed on, in order or early.
    pub datagrams: u64,
    /// Of these: came ahead of a gap.
    pub early: u64,
    /// Came more than once.
    pub duplicates: u64,
    /// Of the datagrams: retransmissions.
    pub repaired: u64,
    /// Numbers that were missed at first.
    pub missed: u64,
    /// Numbers reported lost since no repair came in time.
    pub lost_timeout: u64,
    /// Numbers reported lost since the source does not have them any more, or refused.
    pub lost_window: u64,
    /// Numbers reported lost in a jump.
    pub lost_burst: u64,
    /// Not kept for want of room.
    pub held_dropped: u64,
    /// Too far from the expected number to be believed.
    pub implausible: u64,
    /// NAK packets.
    pub nak_packets: u64,
    /// Numbers in them.
    pub naks: u64,
    /// NCF packets heard.
    pub ncfs: u64,
    /// Session messages heard.
    pub session_messages: u64,
}

/// Longest list in one NAK: fits an Ethernet frame.
const NAK_LIST: usize = 340;
/// So many datagrams in sequence, with none accepted between them, make an implausible position plausible.
const PROBATION: u32 = 4;
/// For so long, ns, nothing but datagrams that look like repetitions makes those plausible: we were led too far ahead. A network that
/// duplicates is not that late.
const ASTRAY: u64 = 1_000_000_000;
/// How far beyond the newest datagram a session message alone makes numbers missing; what it says beyond is asked for as repairs come.
/// Before the first datagram, less: whoever sends session messages only must not have us ask for much.
const TAIL: u32 = 1_024;
const TAIL_UNPROVEN: u32 = 64;
/// A datagram that is farther ahead of all that is known needs others behind it to be believed.
const JUMP: i32 = 4_096;
/// Reported losses that are remembered, to tell late datagrams from repeated ones.
const LOST_RANGES: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Waiting,
    Running,
    Ended,
}

/// A receiving transport session. The caller has found it by the session's identity.
///
/// Datagrams are handed on as they come; see [`Order`]. After [`EndReason::Timeout`] the next packet begins the session anew.
pub struct Receiver<F> {
    framing: F,
    config: ReceiverConfig,
    recovery: Recovery,
    phase: Phase,
    heard_at: u64,
    /// The number behind the newest datagram, as of the last time that something was missing.
    proven: u32,
    /// The number behind the newest one that a session message has named.
    claimed: u32,
    /// (first number, next number, length) of a sequence that is not believed yet.
    suspect: (u32, u32, u32),
    /// When that sequence began.
    suspect_since: u64,
    lost: [(u32, u32); LOST_RANGES],
    lost_at: usize,
    stats: ReceiverStats,
}

/// Counts losses on their way to the application, and remembers them.
struct Noting<'a, S> {
    sink: &'a mut S,
    stats: &'a mut ReceiverStats,
    lost: &'a mut [(u32, u32); LOST_RANGES],
    lost_at: &'a mut usize,
}

impl<S: DatagramSink> DatagramSink for Noting<'_, S> {
    fn datagram(&mut self, sqn: u32, order: Order, messages: &[u8]) {
        self.sink.datagram(sqn, order, messages);
    }

    fn lost(&mut self, first: u32, count: u32, reason: LossReason) {
        let counter = match reason {
            LossReason::Timeout => &mut self.stats.lost_timeout,
            LossReason::Window | LossReason::Refused => &mut self.stats.lost_window,
            LossReason::Burst => &mut self.stats.lost_burst,
        };
        *counter += u64::from(count);
        self.lost[*self.lost_at % LOST_RANGES] = (first, count);
        *self.lost_at += 1;
        self.sink.lost(first, count, reason);
    }

    fn end(&mut self, reason: EndReason) {
        self.sink.end(reason);
    }
}

impl<F: Framing> Receiver<F> {
    /// A session that nothing was heard of yet; `now` starts its activity timeout.
    pub fn new(framing: F, config: ReceiverConfig, now: u64) -> Self {
        let timing = Timing {
            initial_backoff: config.nak_initial_backoff_interval_ns,
            backoff: config.nak_backoff_interval_ns,
            generation: config.nak_generation_interval_ns.max(1),
            suppress: config.nak_suppress_interval_ns,
        };
        Self {
            recovery: Recovery::new(config.reach, config.held_max, timing, config.seed, &config.memory),
            framing,
            config,
            phase: Phase::Waiting,
            heard_at: now,
            proven: 0,
            claimed: 0,
            suspect: (0, 0, 0),
            suspect_since: 0,
            lost: [(0, 0); LOST_RANGES],
            lost_at: 0,
            stats: ReceiverStats::default(),
        }
    }

    /// The session's identity on the wire.
    pub fn framing(&self) -> &F {
        &self.framing
    }

    /// What was received so far.
    pub fn stats(&self) -> ReceiverStats {
        ReceiverStats { held_dropped: self.recovery.held_dropped, ..self.stats }
    }

    /// The next number to be handed on in order; 0 before the session began.
    pub fn expected(&self) -> u32 {
        self.recovery.next
    }

    /// Whether something is missing, or waits behind what is.
    #[inline]
    pub fn has_gap(&self) -> bool {
        self.recovery.has_gap()
    }

    /// Whether anything of the session was heard.
    pub fn is_heard(&self) -> bool {
        self.phase != Phase::Waiting
    }

    /// Whether it has sent datagrams: its source is more than its word.
    pub fn has_data(&self) -> bool {
        self.stats.datagrams > 0
    }

    /// Whether the session has ended, or was never heard for its activity timeout.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Takes a packet of the session.
    #[inline]
    pub fn receive(&mut self, now: u64, packet: Received<'_>, sink: &mut impl DatagramSink) {
        self.heard_at = now;
        match packet {
            Received::Data { sqn, trail, retransmission, messages } => {
                // In order and nothing missing: the steady state.
                if sqn == self.recovery.next && !self.recovery.has_gap() && self.phase == Phase::Running {
                    self.recovery.delivered();
                    self.stats.datagrams += 1;
                    self.stats.repaired += u64::from(retransmission);
                    self.suspect.2 = 0;
                    sink.datagram(sqn, Order::InOrder, messages);
                } else {
                    self.data(now, sqn, trail, retransmission, messages, sink);
                }
            }
            Received::SessionMessage { lead, trail } => self.session_message(now, lead, trail, sink),
            Received::Ncf { trail, reason, sqns } => {
                self.stats.ncfs += 1;
                if self.phase != Phase::Running {
                    return;
                }
                self.trail(trail, self.recovery.end, sink);
                for sqn in sqns.iter() {
                    self.recovery.confirmed(now, sqn, reason == NcfReason::DoNotRetry);
                }
                if reason == NcfReason::DoNotRetry {
                    let (recovery, mut sink) = self.noting(sink);
                    recovery.drain(&mut sink);
                }
            }
        }
    }

    fn noting<'a, S: DatagramSink>(&'a mut self, sink: &'a mut S) -> (&'a mut Recovery, Noting<'a, S>) {
        let noting = Noting { sink, stats: &mut self.stats, lost: &mut self.lost, lost_at: &mut self.lost_at };
        (&mut self.recovery, noting)
    }

    fn begin(&mut self, sqn: u32, sink: &mut impl DatagramSink) {
        self.phase = Phase::Running;
        self.suspect.2 = 0;
        self.lost = [(0, 0); LOST_RANGES];
        self.recovery.restart(sqn);
        (self.proven, self.claimed) = (sqn, sqn);
        sink.begin();
    }

    /// What a session message has named is missing, as far as it is believed.
    fn believe(&mut self, now: u64) {
        if !self.recovery.has_gap() {
            self.proven = self.recovery.next;
        }
        let tail = if self.has_data() { TAIL } else { TAIL_UNPROVEN };
        let end = self.proven.wrapping_add(tail);
        let end = if distance(end, self.claimed) > 0 { end } else { self.claimed };
        self.stats.missed += distance(self.recovery.end, end).max(0) as u64;
        self.recovery.missing_until(now, end);
    }

    #[cold]
    fn data(
        &mut self,
        now: u64,
        sqn: u32,
        trail: u32,
        retransmission: bool,
        messages: &[u8],
        sink: &mut impl DatagramSink,
    ) {
        if self.phase != Phase::Running {
            // Somebody else's repair says nothing about where the stream is.
            if retransmission {
                return;
            }
            self.begin(sqn, sink);
        }
        let ahead = distance(self.recovery.next, sqn);
        if ahead < 0 || ahead >= self.recovery.reach() {
            self.implausible(now, ahead, sqn, retransmission, messages, sink);
            return;
        }
        if distance(self.recovery.end, sqn) > JUMP && !self.is_followed(now, sqn, retransmission) {
            self.stats.implausible += 1;
            return;
        }
        self.suspect.2 = 0;
        self.take(now, sqn, retransmission, messages, sink);
        self.trail(trail, sqn, sink);
    }

    /// Whether a datagram comes as one of several in sequence.
    fn is_followed(&mut self, now: u64, sqn: u32, retransmission: bool) -> bool {
        if retransmission {
            return false;
        }
        let (first, next, length) = self.suspect;
        let follows = length > 0 && sqn.wrapping_sub(next) < 16;
        self.suspect = if follows { (first, sqn.wrapping_add(1), length + 1) } else { (sqn, sqn.wrapping_add(1), 1) };
        if !follows {
            self.suspect_since = now;
        }
        self.suspect.2 >= PROBATION
    }

    /// A datagram within reach.
    fn take(&mut self, now: u64, sqn: u32, retransmission: bool, messages: &[u8], sink: &mut impl DatagramSink) {
        if distance(self.proven, sqn) >= 0 {
            self.proven = sqn.wrapping_add(1);
        }
        if sqn == self.recovery.next {
            self.stats.datagrams += 1;
            self.stats.repaired += u64::from(retransmission);
            self.recovery.delivered();
            sink.datagram(sqn, Order::InOrder, messages);
            let (recovery, mut noting) = self.noting(sink);
            recovery.drain(&mut noting);
            if distance(self.recovery.end, self.claimed) > 0 {
                self.believe(now);
            }
            return;
        }
        self.stats.missed += distance(self.recovery.end, sqn).max(0) as u64;
        let dropped = self.recovery.held_dropped;
        if self.recovery.hold(now, sqn, messages) {
            self.stats.datagrams += 1;
            self.stats.early += 1;
            self.stats.repaired += u64::from(retransmission);
            sink.datagram(sqn, Order::Early, messages);
        } else if self.recovery.held_dropped == dropped {
            self.stats.duplicates += 1;
        }
    }

    /// The source has nothing below `trail` any more. Believed only up to `newest`, a number that is known to have been sent.
    fn trail(&mut self, trail: u32, newest: u32, sink: &mut impl DatagramSink) {
        if self.recovery.has_gap() && distance(self.recovery.next, trail) > 0 && distance(trail, newest) >= 0 {
            let (recovery, mut sink) = self.noting(sink);
            recovery.lose_until(trail, LossReason::Window, &mut sink);
        }
    }

    /// Neither within reach nor a plain repetition: a source that jumped, or a forgery. It takes several in sequence to be believed.
    fn implausible(
        &mut self,
        now: u64,
        ahead: i32,
        sqn: u32,
        retransmission: bool,
        messages: &[u8],
        sink: &mut impl DatagramSink,
    ) {
        let behind = ahead < 0 && ahead > -self.recovery.reach();
        let was_lost = self.lost.iter().any(|(first, count)| sqn.wrapping_sub(*first) < *count);
        let repeated = behind && !was_lost;
        if repeated {
            self.stats.duplicates += 1;
        } else {
            self.stats.implausible += 1;
        }
        if !self.is_followed(now, sqn, retransmission) || repeated && now.saturating_sub(self.suspect_since) < ASTRAY {
            return;
        }
        let first = self.suspect.0;
        self.suspect.2 = 0;
        let end = self.recovery.end;
        {
            let (recovery, mut sink) = self.noting(sink);
            recovery.lose_until(end, LossReason::Burst, &mut sink);
        }
        if ahead > 0 {
            let (recovery, mut noting) = self.noting(sink);
            let from = recovery.next;
            noting.lost(from, first.wrapping_sub(from), LossReason::Burst);
            recovery.restart(first);
            (self.proven, self.claimed) = (first, first);
        } else if behind {
            // This receiver was led too far ahead; what was lost there never existed.
            self.lost = [(0, 0); LOST_RANGES];
            self.recovery.restart(first);
            (self.proven, self.claimed) = (first, first);
        } else {
            sink.end(EndReason::Restart);
            self.begin(first, sink);
        }
        self.take(now, sqn, retransmission, messages, sink);
    }

    fn session_message(&mut self, now: u64, lead: u32, trail: u32, sink: &mut impl DatagramSink) {
        self.stats.session_messages += 1;
        let end = lead.wrapping_add(1);
        if self.phase != Phase::Running {
            self.begin(end, sink);
            return;
        }
        let ahead = distance(self.recovery.next, end);
        // A source that says no more than what looked like a repetition has not sent what we have been waiting for since.
        if ahead < 0 && self.suspect.2 > 0 && self.suspect.1 == end {
            self.suspect.2 += 1;
            if self.suspect.2 >= PROBATION && now.saturating_sub(self.suspect_since) >= ASTRAY {
                let (first, lost_until) = (self.suspect.0, self.recovery.end);
                self.suspect.2 = 0;
                let (recovery, mut noting) = self.noting(sink);
                recovery.lose_until(lost_until, LossReason::Burst, &mut noting);
                self.lost = [(0, 0); LOST_RANGES];
                self.recovery.restart(first);
                (self.proven, self.claimed) = (first, end);
                self.believe(now);
                return;
            }
        }
        if ahead > self.recovery.reach() || ahead < -self.recovery.reach() {
            // Data will tell; a session message alone moves nothing that far.
            self.stats.implausible += 1;
            return;
        }
        if distance(self.claimed, end) > 0 {
            self.claimed = end;
        }
        self.believe(now);
        self.trail(trail, lead, sink);
        let gone = distance(self.recovery.next, trail);
        if !self.recovery.has_gap() && gone > 0 && distance(trail, end) >= 0 {
            // More has left the source's window than was believed to be missing.
            let (from, (recovery, mut noting)) = (self.recovery.next, self.noting(sink));
            noting.lost(from, gone as u32, LossReason::Window);
            recovery.restart(trail);
            self.stats.missed += gone as u64;
            self.believe(now);
        }
    }

    /// Asserts what holds between calls. It looks at everything: for tests and simulations.
    ///
    /// # Panics
    /// Something does not hold: a fault of this module.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.recovery.check_invariants();
        let (next, end) = (self.recovery.next, self.recovery.end);
        if self.phase != Phase::Running {
            assert!(!self.recovery.has_gap(), "{:?}, and {next} to {end} are waited for", self.phase);
            return;
        }
        if self.recovery.has_gap() {
            assert!(distance(self.proven, end) <= self.recovery.reach(), "more is missing than could have been sent");
            assert!(self.recovery.timeout().is_some(), "a gap that nobody asks for and nobody gives up");
        }
        let (first, count) = self.lost[self.lost_at.wrapping_sub(1) % LOST_RANGES];
        let lost_until = first.wrapping_add(count);
        assert!(count == 0 || distance(lost_until, next) >= 0, "{first} to {lost_until} are lost, and {next} is next");
        let stats = &self.stats;
        assert!(
            stats.early + stats.repaired <= 2 * stats.datagrams,
            "more is early or repaired than has come: {stats:?}"
        );
    }

    /// When [`Receiver::on_timer`] is to be called.
    pub fn timeout(&self) -> Option<u64> {
        if self.phase == Phase::Ended {
            return None;
        }
        let activity = self.heard_at.saturating_add(self.config.activity_timeout_ns);
        Some(self.recovery.timeout().map_or(activity, |at| at.min(activity)))
    }

    /// Asks for what is missing: `nak` gets packets for the source's NAK port. Gives up what is too old, and ends a silent session.
    pub fn on_timer(&mut self, now: u64, sink: &mut impl DatagramSink, mut nak: impl FnMut(&[u8])) {
        if self.phase == Phase::Ended {
            return;
        }
        if now >= self.heard_at.saturating_add(self.config.activity_timeout_ns) {
            self.end(EndReason::Timeout, sink);
            return;
        }
        if self.recovery.timeout().is_none_or(|at| at > now) {
            return;
        }
        let (recovery, mut noting) = self.noting(sink);
        recovery.on_timer(now, &mut noting);
        if !self.config.send_naks {
            return;
        }
        let mut packet = [0; 64 + 4 * NAK_LIST];
        for list in self.recovery.naks().chunks(NAK_LIST) {
            let mut w = Writer::new(&mut packet);
            if self.framing.nak(&mut w, list).is_ok() {
                self.stats.nak_packets += 1;
                self.stats.naks += list.len() as u64;
                nak(w.written());
            }
        }
    }

    /// Ends the session: what is still missing is lost, and what waits behind it is handed on.
    pub fn end(&mut self, reason: EndReason, sink: &mut impl DatagramSink) {
        let was = core::mem::replace(&mut self.phase, Phase::Ended);
        if was == Phase::Running {
            let (end, claimed) = (self.recovery.end, self.claimed);
            let (recovery, mut noting) = self.noting(sink);
            recovery.lose_until(end, LossReason::Timeout, &mut noting);
            recovery.restart(end);
            if distance(end, claimed) > 0 {
                noting.lost(end, distance(end, claimed) as u32, LossReason::Timeout);
            }
        }
        if was != Phase::Ended {
            sink.end(reason);
        }
    }
}

impl<F> core::fmt::Debug for Receiver<F> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Receiver")
            .field("phase", &self.phase)
            .field("expected", &self.recovery.next)
            .field("end", &self.recovery.end)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
