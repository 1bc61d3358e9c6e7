//! Egress: what waits for each client ahead of packing, and what becomes of a client that takes too little.
//!
//! Whoever owns the connections tells how many bytes wait in a client's session ([`super::P2ps::client_backlog`]), and does what is
//! decided here. A slow client never slows another:
//!
//! | Waiting for the client | Its deliveries | Its requests |
//! |---|---|---|
//! | up to `guaranteed` in its session | *pass* to the session in the turn that brings them | are read |
//! | more than that in its session | are *held* here, in order; they pass when half of `guaranteed` is left there | wait, until half is left in all |
//! | more than `conflate` in all, and its deliveries are held | the same, and updates of streams that allow it are merged (`just_in_time`), until no more than `tick_by_tick` is left in all | as above |
//! | more than `max` in all, or more than `guaranteed` while all clients together have more than `pool` | dropped: it is *cut off* | - |
//!
//! A client that passes costs one look at its state a turn.

mod just_in_time;

pub(crate) use just_in_time::{Merging, RESUMED, SlowClients};

use super::CloseReason;
use super::delivery::deliveries::Deliveries;
use super::delivery::kept::KeptDeliveries;
use super::delivery::turn::Turn;
use super::ids::{ClientId, ItemId, StreamId};
use rwf::msg::Domain;

/// Bounds of what may wait for clients, in bytes. Names are those of the RMDS parameters where there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that each client may have waiting whatever the others have (`guaranteedOutputBuffers`).
    pub guaranteed: usize,
    /// Bytes that a client may have waiting before it is cut off (`maxOutputBuffers`).
    pub max: usize,
    /// Bytes that all clients may have waiting before those with more than is guaranteed are cut off (`poolSize`).
    pub pool: usize,
    /// Beyond this a client is reported as slow (`outputThresholdBreach`).
    pub breach: usize,
    /// Below this a slow client is reported to have caught up (`outputThresholdOK`).
    pub ok: usize,
    /// Beyond this a client counts as behind: more than a socket buffer, far less than what it is cut off for.
    pub behind: usize,
    /// Beyond this a client whose deliveries are held is conflated, where its streams allow that.
    pub conflate: usize,
    /// When no more than this is left a client that is conflated gets its updates one by one again.
    pub tick_by_tick: usize,
}

impl Default for Limits {
    /// No bounds but that of what counts as behind.
    fn default() -> Self {
        let none = usize::MAX;
        Self {
            guaranteed: none,
            max: none,
            pool: none,
            breach: none,
            ok: none,
            behind: 512 << 10,
            conflate: none,
            tick_by_tick: 0,
        }
    }
}

impl Limits {
    /// Bytes that a client may be given in one flush: more than may wait for it, and what a socket may take at once.
    fn most(&self) -> usize {
        self.max.saturating_add(TAKEN_AT_ONCE).min(FLUSH_MAX)
    }
}

/// Bytes that a socket may take at once, beside what may wait.
const TAKEN_AT_ONCE: usize = 16 << 20;
/// The most that one client is given in a flush, whatever may wait for it.
const FLUSH_MAX: usize = 1 << 30;

/// An action about a client, or a report of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowControl {
    /// Nothing is to be read from the client: it would ask for more than it takes.
    PauseReading,
    /// The client is to be read again.
    ResumeReading,
    /// The client is slow: so many bytes wait for it.
    Slow {
        /// Bytes.
        waiting: usize,
    },
    /// A client that was slow has caught up.
    CaughtUp,
    /// The client's updates are conflated from now on: so many bytes wait for it.
    Conflated {
        /// Bytes.
        waiting: usize,
    },
    /// The client's updates are not conflated any more.
    TickByTick {
        /// Updates that it did not get one by one meanwhile.
        saved: u64,
    },
}

/// Whether a client's deliveries pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Flow {
    /// To the session, in the turn that brings them.
    #[default]
    Passing,
    /// The messages are kept here: the session has enough.
    Held,
    /// The messages are kept here, and the session takes more of them in the next flush.
    Releasing,
    /// The client is cut off: nothing goes out any more.
    CutOff,
}

/// The backlog of one client.
#[derive(Debug, Default)]
struct Queue {
    flow: Flow,
    /// Bytes in its session, as told last.
    session: usize,
    /// Behind it comes what waits in conflated form, which is in [`Turn::slow`].
    kept: KeptDeliveries,
    /// Updates saved since the client is conflated.
    saved: u64,
    /// The part of it that is in [`Egress::total`].
    counted: usize,
    reading_paused: bool,
    slow: bool,
    behind: bool,
}

impl Queue {
    /// Bytes that wait, `slow` of them in conflated form.
    fn waiting(&self, slow: usize) -> usize {
        self.session + self.kept.bytes() + slow
    }

    /// Messages that pass now are held, or will be.
    const fn holds(&self) -> bool {
        matches!(self.flow, Flow::Held | Flow::Releasing)
    }

    /// Makes ready what is to go out next to this client, up to about so many bytes; tells how many updates conflation has saved.
    fn ready(&mut self, id: ClientId, bytes: usize, now: u64, slow: &mut SlowClients) -> u64 {
        let before = self.saved;
        while self.kept.bytes() < bytes.max(1)
            && let Some(more) = slow.take_next(id, now, &mut self.kept)
        {
            self.saved += u64::from(more);
        }
        self.saved - before
    }
}

/// The egress of all clients.
#[derive(Debug, Default)]
pub(crate) struct Egress {
    limits: Limits,
    /// By client.
    queues: Vec<Queue>,
    /// Bytes that wait for all of them.
    total: usize,
    /// Clients that are behind.
    behind: usize,
    /// Bytes that clients have taken while they were behind. Nothing passes into the session of one whose deliveries are held, so that what
    /// became less there is what it took; of one that passes it is the least.
    taken_behind: u64,
    /// Clients whose flow is `Releasing`, each once.
    releasing: Vec<ClientId>,
    /// Clients that were handed out something in this flush. It stays where it lies until the flush is over: what is made of a body once for
    /// all its receivers is known by its address.
    handed_out: Vec<ClientId>,
    controls: Vec<(ClientId, FlowControl)>,
    cut_off: Vec<(ClientId, CloseReason)>,
    /// Streams that are to be told that they are not conflated any more.
    resumed: Vec<(ClientId, StreamId, Domain)>,
    /// Clients for which something was held in this flush.
    held: Vec<ClientId>,
    /// Updates that conflation has saved.
    saved: u64,
}

impl Egress {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Other limits, for what waits from now on.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// A client has connected.
    pub(crate) fn insert(&mut self, id: ClientId) {
        let needed = id.0 as usize + 1;
        if self.queues.len() < needed {
            self.queues.resize_with(needed, Queue::default);
        }
        debug_assert_eq!(self.queues[id.0 as usize].waiting(0), 0, "something waits for one who was not there: {id:?}");
    }

    /// A client is gone, with whatever waits for it.
    pub(crate) fn remove(&mut self, id: ClientId, turn: &mut Turn) {
        end_conflation(id, turn);
        // Nothing waits for a client that was never there.
        let Some(queue) = self.queues.get_mut(id.0 as usize) else { return };
        let queue = std::mem::take(queue);
        debug_assert!(self.total >= queue.counted, "more waits for one than for all");
        self.total -= queue.counted;
        self.behind -= usize::from(queue.behind);
        self.resumed.retain(|(other, ..)| *other != id);
        self.held.retain(|&other| other != id);
        self.releasing.retain(|&other| other != id);
        self.controls.retain(|(other, _)| *other != id);
        self.cut_off.retain(|(other, _)| *other != id);
    }

    /// True if a client's deliveries go to its session.
    #[inline]
    pub(crate) fn passes(&self, id: ClientId) -> bool {
        self.queues.get(id.0 as usize).is_none_or(|queue| queue.flow == Flow::Passing)
    }

    /// Cuts a client off that is to get more in one flush than may wait for it, before anything of it is copied: what it watches, and how
    /// often, makes a multiple of what came. False if it may have it.
    #[inline]
    pub(crate) fn is_too_much(&mut self, id: ClientId, deliveries: &Deliveries<'_>) -> bool {
        let most = self.limits.most();
        let is_too_much = deliveries.exceed(most);
        if is_too_much {
            self.cut_off(id, most);
        }
        is_too_much
    }

    #[cold]
    fn cut_off(&mut self, id: ClientId, waiting: usize) {
        // The client is cut off already, for the first reason.
        let Some(queue) = self.queues.get_mut(id.0 as usize).filter(|queue| queue.flow != Flow::CutOff) else { return };
        let reason = CloseReason::SlowConsumer { waiting, max: self.limits.max, pool: self.limits.pool };
        queue.flow = Flow::CutOff;
        queue.kept = KeptDeliveries::default();
        self.releasing.retain(|&other| other != id);
        self.cut_off.push((id, reason));
    }

    /// Keeps the deliveries of a client that do not pass.
    pub(crate) fn hold(&mut self, id: ClientId, deliveries: Deliveries<'_>) {
        let Some(queue) = self.queues.get_mut(id.0 as usize) else {
            hub_items::fault!("deliveries for one who is not there: {id:?}");
            return;
        };
        debug_assert!(queue.flow != Flow::Passing, "what passes is not held");
        if queue.flow == Flow::CutOff {
            return;
        }
        if deliveries.exceed(self.limits.most().saturating_sub(queue.waiting(0))) {
            return self.cut_off(id, self.limits.most());
        }
        deliveries.for_each(|(body, stream)| queue.kept.push(body, stream));
        self.held.push(id);
    }

    /// So many bytes wait in a client's session.
    pub(crate) fn report(&mut self, id: ClientId, session: usize, turn: &mut Turn) {
        let Some(queue) = self.queues.get_mut(id.0 as usize) else {
            hub_items::fault!("a session of one who is not there: {id:?}");
            return;
        };
        if queue.behind {
            self.taken_behind += queue.session.saturating_sub(session) as u64;
        }
        queue.session = session;
        let room = session <= self.limits.guaranteed / 2;
        let is_empty = queue.kept.is_empty() && turn.slow.is_empty(id);
        match queue.flow {
            Flow::Passing if session > self.limits.guaranteed => queue.flow = Flow::Held,
            Flow::Held if room && is_empty => queue.flow = Flow::Passing,
            Flow::Held if room => {
                queue.flow = Flow::Releasing;
                self.releasing.push(id);
            }
            Flow::Releasing if !room => {
                queue.flow = Flow::Held;
                self.releasing.retain(|&other| other != id);
            }
            Flow::Passing | Flow::Held | Flow::Releasing | Flow::CutOff => {}
        }
        self.judge(id, turn);
    }

    /// Applies the bounds to a client for whom more or less waits than before.
    fn judge(&mut self, id: ClientId, turn: &mut Turn) {
        let Self { limits, queues, total, behind, controls, resumed, .. } = &mut *self;
        let queue = &mut queues[id.0 as usize];
        if queue.flow == Flow::CutOff {
            return;
        }
        let waiting = queue.waiting(turn.slow.bytes(id));
        *total = *total - queue.counted + waiting;
        queue.counted = waiting;
        if queue.behind != (waiting > limits.behind) {
            queue.behind = !queue.behind;
            *behind = if queue.behind { *behind + 1 } else { *behind - 1 };
        }
        let is_too_much = waiting > limits.max || turn.slow.is_too_much(id);
        if is_too_much || (*total > limits.pool && waiting > limits.guaranteed) {
            return self.cut_off(id, waiting);
        }
        if queue.slow != (if queue.slow { waiting >= limits.ok } else { waiting > limits.breach }) {
            queue.slow = !queue.slow;
            let control = if queue.slow { FlowControl::Slow { waiting } } else { FlowControl::CaughtUp };
            controls.push((id, control));
        }
        if !turn.slow.has(id) {
            if waiting > limits.conflate && queue.flow != Flow::Passing {
                turn.slow.begin(id);
                controls.push((id, FlowControl::Conflated { waiting }));
            }
        } else if turn.slow.is_empty(id) && waiting <= limits.tick_by_tick {
            resumed.extend(turn.slow.end(id).map(|(stream, domain)| (id, StreamId(stream), domain)));
            controls.push((id, FlowControl::TickByTick { saved: std::mem::take(&mut queue.saved) }));
        }
        turn.divert(id, queue.holds() && turn.slow.has(id));
        let paused = waiting > if queue.reading_paused { limits.guaranteed / 2 } else { limits.guaranteed };
        if queue.reading_paused != paused {
            queue.reading_paused = paused;
            controls.push((id, if paused { FlowControl::PauseReading } else { FlowControl::ResumeReading }));
        }
    }

    /// Hands out more of what is held for those whose sessions have room.
    pub(crate) fn release(&mut self, now: u64, turn: &mut Turn, mut f: impl FnMut(ClientId, Deliveries<'_>)) {
        for at in (0..self.releasing.len()).rev() {
            let id = self.releasing[at];
            let queue = &mut self.queues[id.0 as usize];
            debug_assert_eq!(queue.flow, Flow::Releasing, "{id:?} is not to get more");
            self.saved += queue.ready(id, self.limits.guaranteed, now, &mut turn.slow);
            f(id, queue.kept.next(self.limits.guaranteed));
            self.handed_out.push(id);
            if queue.kept.is_empty() && turn.slow.is_empty(id) {
                queue.flow = Flow::Passing;
                self.releasing.swap_remove(at);
            }
            self.judge(id, turn);
        }
    }

    /// The flush is over: who got something that waits is looked at, and memory of what was handed out is given back.
    pub(crate) fn end_flush(&mut self, turn: &mut Turn) {
        for at in 0..self.held.len() {
            self.judge(self.held[at], turn);
        }
        self.held.clear();
        while let Some(id) = turn.slow.take_touched() {
            self.judge(id, turn);
        }
        for id in self.handed_out.drain(..) {
            // The client may have gone meanwhile, and then has nothing.
            if let Some(queue) = self.queues.get_mut(id.0 as usize) {
                queue.kept.trim();
            }
        }
    }

    /// A client is to be closed when it has got what there is for it: nothing is held any more.
    pub(crate) fn release_all(&mut self, id: ClientId, now: u64, turn: &mut Turn, f: impl FnOnce(Deliveries<'_>)) {
        // Nothing is held for a client that was never there.
        let Some(queue) = self.queues.get_mut(id.0 as usize) else { return };
        if queue.holds() {
            self.saved += queue.ready(id, usize::MAX, now, &mut turn.slow);
            f(queue.kept.next(usize::MAX));
            self.handed_out.push(id);
            queue.flow = Flow::Passing;
            self.releasing.retain(|&other| other != id);
            self.judge(id, turn);
        }
    }

    /// Clients that are cut off since the last call, and why. Nothing waits for them any more.
    pub(crate) fn take_cut_off(&mut self, turn: &mut Turn) -> Vec<(ClientId, CloseReason)> {
        for (id, _) in &self.cut_off {
            end_conflation(*id, turn);
        }
        std::mem::take(&mut self.cut_off)
    }

    /// True if a client was cut off, or conflation of a stream has ended: [`Egress::take_cut_off`], [`Egress::take_resumed`].
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        !(self.cut_off.is_empty() && self.resumed.is_empty())
    }

    /// True if there is something in [`Egress::controls`].
    #[inline]
    pub(crate) fn has_controls(&self) -> bool {
        !self.controls.is_empty()
    }

    /// Streams whose conflation has ended since the last call, and their domains.
    pub(crate) fn take_resumed(&mut self) -> Vec<(ClientId, StreamId, Domain)> {
        std::mem::take(&mut self.resumed)
    }

    /// Updates that conflation has saved.
    pub(crate) fn saved(&self) -> u64 {
        self.saved
    }

    pub(crate) fn controls(&mut self) -> std::vec::Drain<'_, (ClientId, FlowControl)> {
        self.controls.drain(..)
    }

    /// True if something that was held can go out.
    pub(crate) fn has_work(&self) -> bool {
        !self.releasing.is_empty()
    }

    /// Bytes that wait for a client.
    pub(crate) fn waiting_of(&self, id: ClientId, turn: &Turn) -> usize {
        self.queues.get(id.0 as usize).map_or(0, |queue| queue.waiting(turn.slow.bytes(id)))
    }

    /// Clients that are behind.
    pub(crate) fn behind(&self) -> usize {
        self.behind
    }

    /// Bytes that clients have taken while they were behind, ever.
    pub(crate) fn taken_behind(&self) -> u64 {
        self.taken_behind
    }

    /// Panics if what is counted is not there, or updates are merged of an item that is not.
    pub(crate) fn check(&self, turn: &Turn, is_live: impl Fn(ItemId) -> bool) {
        turn.slow.check(is_live);
        let mut all = 0;
        for (id, queue) in (0..).map(ClientId).zip(&self.queues) {
            let is_cut_off = queue.flow == Flow::CutOff;
            let waiting = queue.waiting(turn.slow.bytes(id));
            all += if is_cut_off { queue.counted } else { waiting };
            let releasing = self.releasing.iter().filter(|&&other| other == id).count();
            assert_eq!(releasing, usize::from(queue.flow == Flow::Releasing), "{id:?} is {:?}", queue.flow);
            let is_empty = queue.kept.is_empty() && turn.slow.is_empty(id);
            assert!(queue.holds() || is_empty, "{id:?} is {:?}, and something is held for it", queue.flow);
            assert!(is_cut_off || waiting <= self.limits.max, "too much waits for {id:?}");
        }
        assert_eq!(all, self.total, "bytes that wait for all clients");
        assert_eq!(self.queues.iter().filter(|queue| queue.behind).count(), self.behind, "clients behind");
    }
}

/// A client is conflated no more, and nobody is told.
fn end_conflation(id: ClientId, turn: &mut Turn) {
    turn.divert(id, false);
    turn.slow.end(id).for_each(drop);
}
