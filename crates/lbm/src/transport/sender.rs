//! The sending side of LBT-RM and LBT-RU.

use std::collections::VecDeque;

use super::limiter::{Limiter, Meter};
use super::window::{Train, Window};
use super::{Carrier, Framing, WouldBlock};
use crate::wire::{NcfReason, Writer};

/// How a session sends. Defaults are this project's; `docs/wire/lbm.md` says where they differ from LBM's.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// Longest UDP payload: `transport_lbtrm_datagram_max_size`.
    pub datagram_max: usize,
    /// Bytes kept for retransmission: `transport_lbtrm_transmission_window_size`.
    pub window_size: usize,
    /// Number of the first datagram. LBM begins at 0.
    pub first_sqn: u32,
    /// A datagram is sent once its messages are this long: `implicit_batching_minimum_length`.
    pub batching_minimum_length: usize,
    /// Longest wait of a message for a fuller datagram, ns: `implicit_batching_interval`.
    pub batching_interval_ns: u64,
    /// First session message after this much silence, ns: `transport_lbtrm_sm_minimum_interval`.
    pub sm_minimum_interval_ns: u64,
    /// Longest time between session messages, ns: `transport_lbtrm_sm_maximum_interval`.
    pub sm_maximum_interval_ns: u64,
    /// No second retransmission within this time, ns: `transport_lbtrm_ignore_interval`.
    pub ignore_interval_ns: u64,
    /// New and repeated data, bits per second, 0 = no limit: `transport_lbtrm_data_rate_limit`.
    pub data_rate_limit_bps: u64,
    /// Lets the data rate fall when a receiver asks again for as much as it can have got, and rise again: up to the limit if there is
    /// one, else until it has doubled.
    pub adaptive: bool,
    /// Repeated data, bits per second, 0 = no limit: `transport_lbtrm_retransmit_rate_limit`.
    pub retransmit_rate_limit_bps: u64,
    /// Over which both are measured, ns: `transport_lbtrm_rate_interval`.
    pub rate_interval_ns: u64,
    /// Bytes that may wait for the socket before `send` would block.
    pub unsent_max: usize,
    /// Retransmissions that may wait for their rate limit.
    pub retransmit_queue_max: usize,
    /// Sequence numbers that one receiver may ask for in a rate interval.
    pub nak_budget: u32,
}

impl Default for SenderConfig {
    fn default() -> Self {
        Self {
            datagram_max: 8_192,
            window_size: 25_165_824,
            first_sqn: 0,
            batching_minimum_length: 2_048,
            batching_interval_ns: 200_000_000,
            sm_minimum_interval_ns: 200_000_000,
            sm_maximum_interval_ns: 10_000_000_000,
            ignore_interval_ns: 100_000_000,
            data_rate_limit_bps: 0,
            adaptive: true,
            retransmit_rate_limit_bps: 500_000_000,
            rate_interval_ns: 10_000_000,
            unsent_max: 262_144,
            retransmit_queue_max: 16_384,
            nak_budget: 16_384,
        }
    }
}

/// What a session has sent. Counted per batch, never per message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// New datagrams handed to the socket.
    pub datagrams: u64,
    /// Bytes of the new datagrams.
    pub bytes: u64,
    /// Retransmissions handed to the socket.
    pub retransmissions: u64,
    /// Bytes of the retransmissions.
    pub retransmitted_bytes: u64,
    /// NAK packets received.
    pub nak_packets: u64,
    /// Sequence numbers in them.
    pub naks: u64,
    /// Of these: retransmitted within the ignore interval.
    pub naks_ignored: u64,
    /// Of these: no longer in the window.
    pub naks_outside_window: u64,
    /// Of these: over the budget of their receiver.
    pub naks_over_budget: u64,
    /// Of these: delayed by the retransmission rate limit.
    pub naks_delayed: u64,
    /// Of these: dropped, since the queue of retransmissions was full.
    pub naks_shed: u64,
    /// Session messages.
    pub session_messages: u64,
    /// NCF packets.
    pub ncfs: u64,
    /// How often a send would have blocked.
    pub would_block: u64,
}

/// How many receivers are told apart for [`SenderConfig::nak_budget`]. More share entries; the budget then is for those that share.
const PEERS: usize = 256;
/// Longest list in one NCF: fits an Ethernet frame.
const NCF_LIST: usize = 340;
/// NAK'd numbers of one receiver in a period of [`BURST_INTERVALS`] rate intervals that can be a burst for the adaptive limit. They are
/// one if they are also half of what is sent in such a period, were sent lately, and if the period before was like that: a line that
/// loses a fifth, by chance, needs no slower sender, nor does a receiver that was cut off; one that is too slow does.
const BURST: u64 = 32;
/// Long enough to hold what is lost and the NAKs for it.
const BURST_INTERVALS: u64 = 10;

#[derive(Clone, Copy, Default)]
struct Peer {
    interval: u64,
    used: u32,
    /// Of the present period: its number, and how many recent numbers were asked for and will be sent again; and in the one before.
    period: u64,
    missing: [u64; 2],
}

/// A sending transport session.
///
/// Messages come through [`Carrier`]. [`Sender::output`] says what has to go to the socket, in its order: control packets and
/// retransmissions and then new datagrams. What was handed to the socket is confirmed by `sent_*`. NAKs go to [`Sender::nak`].
/// Call [`Sender::on_timer`] when [`Sender::timeout`] is reached.
pub struct Sender<F> {
    framing: F,
    config: SenderConfig,
    window: Window,
    /// A datagram that is no longer than this stays open.
    append_max: usize,
    data: Limiter,
    retransmit: Limiter,
    /// Waits for the retransmission limit, then for the socket: the first `granted` may go.
    queue: VecDeque<u32>,
    granted: usize,
    /// Packets other than data, each with its length in `control_lengths`.
    control: Vec<u8>,
    control_lengths: VecDeque<usize>,
    control_at: usize,
    peers: Box<[Peer]>,
    meter: Meter,
    open_since: u64,
    sm_sqn: u32,
    sm_due: u64,
    sm_interval_ns: u64,
    blocked: bool,
    stats: SenderStats,
    scratch: [Vec<u32>; 4],
}

impl<F: Framing> Sender<F> {
    /// A session that has sent nothing.
    pub fn new(framing: F, mut config: SenderConfig) -> Self {
        config.datagram_max = config.datagram_max.clamp(500, 65_507);
        let window = Window::new(config.window_size, config.datagram_max, config.first_sqn);
        config.unsent_max = config.unsent_max.min(window.unsent_max()).max(config.datagram_max);
        let data = if config.adaptive {
            Limiter::adaptive(config.data_rate_limit_bps, config.rate_interval_ns)
        } else {
            Limiter::fixed(config.data_rate_limit_bps, config.rate_interval_ns)
        };
        Self {
            framing,
            window,
            append_max: config.datagram_max.min((F::HEADER + config.batching_minimum_length).saturating_sub(1)),
            data,
            retransmit: Limiter::fixed(config.retransmit_rate_limit_bps, config.rate_interval_ns),
            queue: VecDeque::new(),
            granted: 0,
            control: Vec::new(),
            control_lengths: VecDeque::new(),
            control_at: 0,
            peers: vec![Peer::default(); PEERS].into(),
            meter: Meter::new(config.rate_interval_ns.saturating_mul(BURST_INTERVALS), config.first_sqn),
            open_since: 0,
            sm_sqn: 0,
            sm_due: u64::MAX,
            sm_interval_ns: config.sm_minimum_interval_ns,
            blocked: false,
            stats: SenderStats::default(),
            scratch: Default::default(),
            config,
        }
    }

    /// The identity of the session on the wire.
    pub fn framing(&self) -> &F {
        &self.framing
    }

    /// What was sent so far.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// (oldest, newest + 1) number that can be had again.
    pub fn window(&self) -> (u32, u32) {
        (self.window.trail, self.window.unsent)
    }

    /// The rate limit at the moment, 0 = none.
    pub fn data_rate_bps(&self) -> u64 {
        self.data.rate_bps()
    }

    /// Bytes that are complete and wait for the socket or for the rate limit.
    #[inline]
    pub fn unsent_bytes(&self) -> usize {
        self.window.unsent_bytes()
    }

    /// Whether what waits is a whole train: one more datagram like the last one would be too much for it.
    #[inline]
    pub fn has_train(&self, bytes_max: usize, datagrams_max: u32) -> bool {
        self.window.unsent_bytes() + self.window.last_bytes() > bytes_max
            || self.window.next.wrapping_sub(self.window.unsent) >= datagrams_max
    }

    /// Whether a send would have blocked and [`Sender::writable`] has not said otherwise since.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// True once after a send would have blocked and messages can be taken again.
    pub fn writable(&mut self, now: u64) -> bool {
        if !self.blocked {
            return false;
        }
        self.release(now);
        self.blocked = !self.has_room();
        !self.blocked
    }

    /// A message that is cut into many datagrams has to fit the window beside what waits already.
    fn fits(&self, waiting: usize, bytes: usize) -> bool {
        waiting + bytes + bytes / 8 < self.window.unsent_max()
            && bytes / (self.config.datagram_max / 2) < self.window.unsent_datagrams_max() as usize / 2
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.window.released == self.window.next && self.window.unsent_bytes() < self.config.unsent_max
    }

    /// Lets closed datagrams go as far as the rate limit allows.
    #[inline]
    fn release(&mut self, now: u64) {
        if !self.data.is_limited() {
            self.window.released = self.window.next;
            return;
        }
        self.data.tick(now);
        while self.window.released != self.window.next && self.data.is_open() {
            let length = self.window.datagram(self.window.released).len();
            self.data.spend(length);
            self.window.released = self.window.released.wrapping_add(1);
        }
    }

    fn close(&mut self, now: u64) {
        if self.window.open_bytes() != 0 {
            self.window.close(&self.framing, F::HEADER);
            self.release(now);
        }
    }

    /// A NAK of the receiver `peer` (any number that tells receivers apart, such as a hash of the address).
    pub fn nak(&mut self, now: u64, peer: u64, sqns: impl Iterator<Item = u32>) {
        self.stats.nak_packets += 1;
        let interval = now / self.config.rate_interval_ns.max(1);
        let peer = (peer.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize % PEERS;
        let slot = &mut self.peers[peer];
        if slot.interval != interval {
            slot.interval = interval;
            slot.used = 0;
        }
        let mut budget = self.config.nak_budget.saturating_sub(slot.used);
        let granted = budget;
        let [mut ignored, mut delayed, mut shed, _] = core::mem::take(&mut self.scratch);
        let (mut missing, recent_from) = (0, self.meter.recent(now));
        self.retransmit.tick(now);
        for sqn in sqns {
            self.stats.naks += 1;
            if budget == 0 {
                self.stats.naks_over_budget += 1;
                continue;
            }
            budget -= 1;
            if !self.window.holds(sqn) {
                self.stats.naks_outside_window += 1;
                continue;
            }
            let slot = self.window.slot(sqn);
            let recent = slot.retransmitted_at != 0
                && now.saturating_sub(slot.retransmitted_at) < self.config.ignore_interval_ns;
            if slot.queued || recent {
                self.stats.naks_ignored += 1;
                if !core::mem::replace(&mut slot.confirmed, true) {
                    ignored.push(sqn);
                }
                continue;
            }
            if self.queue.len() >= self.config.retransmit_queue_max {
                self.stats.naks_shed += 1;
                shed.push(sqn);
                continue;
            }
            slot.queued = true;
            slot.confirmed = false;
            if !self.retransmit.is_open() || self.granted < self.queue.len() {
                self.stats.naks_delayed += 1;
                slot.confirmed = true;
                delayed.push(sqn);
            }
            self.queue.push_back(sqn);
            missing += u64::from(sqn.wrapping_sub(recent_from) < 1 << 31);
            self.grant();
        }
        self.peers[peer].used += granted - budget;
        self.note_missing(now, peer, missing);
        for (reason, list) in [
            (NcfReason::Ignored, &mut ignored),
            (NcfReason::RetransmitDelay, &mut delayed),
            (NcfReason::Shed, &mut shed),
        ] {
            self.ncf(reason, list);
            list.clear();
        }
        self.scratch = [ignored, delayed, shed, Vec::new()];
    }

    fn note_missing(&mut self, now: u64, peer: usize, count: u64) {
        if !self.config.adaptive {
            return;
        }
        let (period, sent) = self.meter.datagrams(now);
        let peer = &mut self.peers[peer];
        if peer.period != period {
            let before = if peer.period + 1 == period { peer.missing[0] } else { 0 };
            peer.missing = [0, before];
            peer.period = period;
        }
        peer.missing[0] += count;
        if peer.missing.iter().all(|missing| *missing >= BURST.max(sent / 2)) {
            let sent_bps = self.meter.rate_bps(now);
            self.data.back_off(now, self.config.rate_interval_ns * BURST_INTERVALS, sent_bps);
        }
    }

    /// Lets queued retransmissions go as far as their rate limit allows.
    fn grant(&mut self) {
        let repairs_count = self.data.counts_repairs();
        while self.granted < self.queue.len() && self.retransmit.is_open() {
            let length = self.window.datagram(self.queue[self.granted]).len();
            self.retransmit.spend(length);
            if repairs_count {
                self.data.spend(length);
            }
            self.granted += 1;
        }
    }

    fn control(&mut self, write: impl FnOnce(&F, &mut Writer<'_>, u32) -> Result<(), crate::wire::Full>) -> bool {
        // Control packets that the socket does not take are worth little later.
        if self.control_lengths.len() >= 64 {
            return false;
        }
        let mut packet = [0; 16 + 16 + 4 * NCF_LIST];
        let mut w = Writer::new(&mut packet);
        if write(&self.framing, &mut w, self.window.trail).is_err() {
            return false;
        }
        self.control.extend_from_slice(w.written());
        self.control_lengths.push_back(w.position());
        true
    }

    fn ncf(&mut self, reason: NcfReason, sqns: &[u32]) {
        for list in sqns.chunks(NCF_LIST) {
            if self.control(|framing, w, trail| framing.ncf(w, trail, reason, list)) {
                self.stats.ncfs += 1;
            }
        }
    }

    /// What has to go to the socket now.
    pub fn output(&mut self, now: u64) -> Output<'_> {
        self.release(now);
        self.retransmit.tick(now);
        // Datagrams that have left the window while they waited cannot be sent any more.
        let mut i = 0;
        while i < self.queue.len() && !self.window.holds(self.queue[i]) {
            i += 1;
        }
        if i > 0 {
            self.queue.drain(..i);
            self.granted = self.granted.saturating_sub(i);
        }
        self.grant();
        let trail = self.window.trail;
        for i in 0..self.granted {
            if self.window.holds(self.queue[i]) {
                self.framing.mark(self.window.datagram_mut(self.queue[i]), trail);
            }
        }
        Output {
            control: &self.control[self.control_at..],
            control_lengths: &self.control_lengths,
            window: &self.window,
            queue: &self.queue,
            granted: self.granted,
        }
    }

    /// The first `count` control packets of [`Output::control`] were handed to the socket.
    pub fn sent_control(&mut self, count: usize) {
        for _ in 0..count {
            self.control_at += self.control_lengths.pop_front().unwrap_or(0);
        }
        if self.control_lengths.is_empty() {
            self.control.clear();
            self.control_at = 0;
        }
    }

    /// The first `count` datagrams of [`Output::retransmissions`] were handed to the socket.
    pub fn sent_retransmissions(&mut self, now: u64, count: usize) {
        let mut left = count;
        while left > 0 && self.granted > 0 {
            let Some(sqn) = self.queue.pop_front() else { break };
            self.granted -= 1;
            if !self.window.holds(sqn) {
                continue;
            }
            left -= 1;
            self.stats.retransmissions += 1;
            self.stats.retransmitted_bytes += self.window.datagram(sqn).len() as u64;
            let slot = self.window.slot(sqn);
            slot.queued = false;
            slot.confirmed = false;
            slot.retransmitted_at = now.max(1);
        }
    }

    /// The first `count` datagrams of [`Output::trains`] were handed to the socket.
    pub fn sent(&mut self, now: u64, count: u32) {
        if count == 0 {
            return;
        }
        let before = self.window.unsent_bytes();
        self.window.sent(count);
        self.stats.datagrams += u64::from(count);
        let bytes = (before - self.window.unsent_bytes()) as u64;
        self.stats.bytes += bytes;
        self.meter.sent(now, count, bytes);
        self.sm_interval_ns = self.config.sm_minimum_interval_ns;
        self.sm_due = now.saturating_add(self.sm_interval_ns);
    }

    /// Asserts what holds between calls. It looks at everything: for tests and simulations.
    ///
    /// # Panics
    /// Something does not hold: a fault of this module.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.window.check_invariants();
        assert!(self.granted <= self.queue.len(), "more retransmissions are granted than wait");
        assert!(self.queue.len() <= self.config.retransmit_queue_max, "more retransmissions wait than may");
        let waiting: std::collections::HashSet<_> = self.queue.iter().filter(|sqn| self.window.holds(**sqn)).collect();
        assert_eq!(
            waiting.len(),
            self.queue.iter().filter(|sqn| self.window.holds(**sqn)).count(),
            "a number waits twice to be sent again"
        );
        assert_eq!(waiting.len(), self.window.queued(), "those that wait are marked so in the window, and no others");
        let control: usize = self.control_lengths.iter().sum();
        assert_eq!(self.control.len() - self.control_at, control, "bytes of control packets");
        let waits = self.window.open_bytes() > F::HEADER
            || self.window.released != self.window.next
            || self.granted < self.queue.len();
        assert!(!waits || self.timeout().is_some(), "something waits for the timer, and there is none");
        let silent = self.window.unsent == self.config.first_sqn;
        assert!(silent || self.sm_due != u64::MAX, "datagrams were sent, and no session message will tell the newest");
        assert!(self.append_max <= self.config.datagram_max, "what is appended to fits a datagram");
        self.data.check_invariants();
        self.retransmit.check_invariants();
    }

    /// When [`Sender::on_timer`] is to be called.
    pub fn timeout(&self) -> Option<u64> {
        let mut at = self.sm_due;
        if self.window.open_bytes() > F::HEADER {
            at = at.min(self.open_since.saturating_add(self.config.batching_interval_ns));
        }
        if self.window.released != self.window.next {
            at = at.min(self.data.tick_at());
        }
        if self.granted < self.queue.len() {
            at = at.min(self.retransmit.tick_at());
        }
        (at != u64::MAX).then_some(at)
    }

    /// Sends what has waited long enough, and a session message after a silence. Ask [`Sender::output`] afterwards.
    pub fn on_timer(&mut self, now: u64) {
        if self.window.open_bytes() > F::HEADER
            && now >= self.open_since.saturating_add(self.config.batching_interval_ns)
        {
            self.close(now);
        }
        self.release(now);
        if now >= self.sm_due {
            let (sm_sqn, lead) = (self.sm_sqn, self.window.unsent.wrapping_sub(1));
            if self.control(|framing, w, trail| framing.session_message(w, sm_sqn, lead, trail)) {
                self.sm_sqn = self.sm_sqn.wrapping_add(1);
                self.stats.session_messages += 1;
            }
            self.sm_interval_ns = (self.sm_interval_ns * 2).min(self.config.sm_maximum_interval_ns);
            self.sm_due = now.saturating_add(self.sm_interval_ns);
        }
    }

    /// Session messages from now on, even if nothing was sent yet: LBT-RU clients have to hear something.
    pub(super) fn start_session_messages(&mut self, now: u64) {
        if self.sm_due == u64::MAX {
            self.sm_due = now.saturating_add(self.sm_interval_ns);
        }
    }

    /// (number, lead, trail) of a session message now, whatever the timer says: LBT-RU answers a new client with it.
    pub(super) fn session_message(&mut self) -> (u32, u32, u32) {
        let sm_sqn = self.sm_sqn;
        self.sm_sqn = self.sm_sqn.wrapping_add(1);
        (sm_sqn, self.window.unsent.wrapping_sub(1), self.window.trail)
    }
}

impl<F: Framing> Carrier for Sender<F> {
    fn message_max(&self) -> usize {
        self.config.datagram_max - F::HEADER
    }

    fn can_ever_take(&self, bytes: usize) -> bool {
        bytes < 65_536 || self.fits(0, bytes)
    }

    #[inline]
    fn admit(&mut self, now: u64, bytes: usize) -> Result<(), WouldBlock> {
        // What fits the open datagram needs no room: at most one datagram goes past the bounds below.
        if self.window.fits(bytes) {
            return Ok(());
        }
        if self.window.released != self.window.next {
            self.release(now);
        }
        let fits = bytes < 65_536 || self.fits(self.window.unsent_bytes(), bytes);
        if self.has_room()
            && fits
            && self.window.next.wrapping_sub(self.window.unsent) < self.window.unsent_datagrams_max()
        {
            return Ok(());
        }
        self.blocked = true;
        self.stats.would_block += 1;
        Err(WouldBlock)
    }

    #[inline]
    fn claim(&mut self, now: u64, length: usize) -> &mut [u8] {
        if !self.window.fits(length) {
            self.close(now);
            self.open_since = now;
            let begun = self.window.begin(&self.framing, F::HEADER);
            debug_assert!(begun.is_ok(), "unsent datagrams never fill the window");
        }
        self.window.extend(length)
    }

    #[inline]
    fn append(&mut self, length: usize) -> Option<&mut [u8]> {
        let open = self.window.open_bytes();
        if open == 0 || open + length > self.append_max {
            return None;
        }
        Some(self.window.extend(length))
    }

    #[inline]
    fn commit(&mut self, now: u64, flush: bool) {
        if flush || self.window.open_bytes() >= F::HEADER + self.config.batching_minimum_length {
            self.close(now);
        }
    }

    fn flush(&mut self, now: u64) {
        if self.window.open_bytes() > F::HEADER {
            self.close(now);
        }
    }
}

impl<F> core::fmt::Debug for Sender<F> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sender").field("next", &self.window.next).field("stats", &self.stats).finish_non_exhaustive()
    }
}

/// What has to go to the socket. Nothing is lost if only a part of it goes.
pub struct Output<'a> {
    control: &'a [u8],
    control_lengths: &'a VecDeque<usize>,
    window: &'a Window,
    queue: &'a VecDeque<u32>,
    granted: usize,
}

impl<'a> Output<'a> {
    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.control_lengths.is_empty() && self.granted == 0 && self.window.unsent == self.window.released
    }

    /// Session messages and NCFs.
    pub fn control(&self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.control;
        self.control_lengths.iter().map(move |length| {
            let (packet, later) = rest.split_at(*length);
            rest = later;
            packet
        })
    }

    /// Datagrams to send again.
    pub fn retransmissions(&self) -> impl Iterator<Item = &'a [u8]> {
        let window = self.window;
        self.queue.iter().take(self.granted).filter(|sqn| window.holds(**sqn)).map(|sqn| window.datagram(*sqn))
    }

    /// New datagrams, in trains of at most so many bytes and datagrams each.
    pub fn trains(&self, bytes_max: usize, datagrams_max: u32) -> impl Iterator<Item = Train<'a>> {
        let window = self.window;
        let mut at = window.unsent;
        core::iter::from_fn(move || {
            let train = window.train(at, bytes_max, datagrams_max)?;
            at = at.wrapping_add(train.datagrams);
            Some(train)
        })
    }
}

impl core::fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Output").field("control", &self.control_lengths.len()).finish_non_exhaustive()
    }
}
