//! Egress: what waits for each client ahead of packing, and what becomes of a client that takes too little.
//!
//! Whoever owns the connections tells how many bytes wait in a client's session ([`super::P2ps::client_backlog`]), and does what is
//! decided here. A slow client never slows another:
//!
//! | Waiting for the client | Its deliveries | Its requests |
//! |---|---|---|
//! | up to `guaranteed` in its session | *pass* to the session in the turn that brings them | are read |
//! | more than that in its session | are *held* here, in order; they pass when half of `guaranteed` is left there | wait, until half is left in all |
//! | more than `max` in all, or more than `guaranteed` while all clients together have more than `pool` | dropped: it is *cut off* | - |
//!
//! A client that passes costs one look at its state a turn.

use super::clients::CloseReason;
use super::delivery::turn::{Deliveries, KeptDeliveries};
use super::ids::ClientId;

/// Bounds of what may wait for clients, in bytes. Names are those of the RMDS parameters where there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// What each client may have waiting whatever the others have (`guaranteedOutputBuffers`).
    pub guaranteed: usize,
    /// What a client may have waiting before it is cut off (`maxOutputBuffers`).
    pub max: usize,
    /// What all clients may have waiting before those with more than is guaranteed are cut off (`poolSize`).
    pub pool: usize,
    /// Beyond this a client is reported as slow (`outputThresholdBreach`).
    pub breach: usize,
    /// Below this a slow client is reported to have caught up (`outputThresholdOK`).
    pub ok: usize,
    /// Beyond this a client counts as behind: more than a socket buffer, far less than what it is cut off for.
    pub behind: usize,
}

impl Default for Limits {
    /// No bounds but that of what counts as behind.
    fn default() -> Self {
        let none = usize::MAX;
        Self { guaranteed: none, max: none, pool: none, breach: none, ok: none, behind: 512 << 10 }
    }
}

/// What is to be done about a client, or said.
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
}

/// Whether a client's deliveries pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Flow {
    /// To the session, in the turn that brings them.
    #[default]
    Passing,
    /// They are kept here: the session has enough.
    Held,
    /// They are kept here, and the session takes more of them in the next flush.
    Releasing,
    /// It is cut off: nothing goes out any more.
    CutOff,
}

/// What waits for one client.
#[derive(Debug, Default)]
struct Queue {
    flow: Flow,
    /// Bytes in its session, as told last.
    session: usize,
    kept: KeptDeliveries,
    /// What of it is in [`Egress::total`].
    counted: usize,
    reading_paused: bool,
    slow: bool,
    behind: bool,
}

impl Queue {
    fn waiting(&self) -> usize {
        self.session + self.kept.bytes()
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
    /// Clients whose flow is `Releasing`, each once.
    releasing: Vec<ClientId>,
    controls: Vec<(ClientId, FlowControl)>,
    cut_off: Vec<(ClientId, CloseReason)>,
}

impl Egress {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// A client has connected.
    pub(crate) fn insert(&mut self, id: ClientId) {
        let needed = id.0 as usize + 1;
        if self.queues.len() < needed {
            self.queues.resize_with(needed, Queue::default);
        }
        debug_assert_eq!(self.queues[id.0 as usize].waiting(), 0, "something waits for one who was not there: {id:?}");
    }

    /// A client is gone, with whatever waits for it.
    pub(crate) fn remove(&mut self, id: ClientId) {
        let Some(queue) = self.queues.get_mut(id.0 as usize) else { return };
        let queue = std::mem::take(queue);
        debug_assert!(self.total >= queue.counted, "more waits for one than for all");
        self.total -= queue.counted;
        self.behind -= usize::from(queue.behind);
        self.releasing.retain(|&other| other != id);
        self.controls.retain(|(other, _)| *other != id);
        self.cut_off.retain(|(other, _)| *other != id);
    }

    /// True if a client's deliveries go to its session.
    #[inline]
    pub(crate) fn passes(&self, id: ClientId) -> bool {
        self.queues.get(id.0 as usize).is_none_or(|queue| queue.flow == Flow::Passing)
    }

    /// Keeps the deliveries of a client that do not pass.
    pub(crate) fn hold(&mut self, id: ClientId, deliveries: Deliveries<'_>) {
        let Some(queue) = self.queues.get_mut(id.0 as usize) else {
            debug_assert!(false, "deliveries for one who is not there: {id:?}");
            return;
        };
        debug_assert!(queue.flow != Flow::Passing, "what passes is not held");
        if queue.flow != Flow::CutOff {
            deliveries.for_each(|(body, stream)| queue.kept.push(body, stream));
            self.judge(id);
        }
    }

    /// So many bytes wait in a client's session.
    pub(crate) fn report(&mut self, id: ClientId, session: usize) {
        let Some(queue) = self.queues.get_mut(id.0 as usize) else {
            debug_assert!(false, "a session of one who is not there: {id:?}");
            return;
        };
        queue.session = session;
        let room = session <= self.limits.guaranteed / 2;
        match queue.flow {
            Flow::Passing if session > self.limits.guaranteed => queue.flow = Flow::Held,
            Flow::Held if room && queue.kept.is_empty() => queue.flow = Flow::Passing,
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
        self.judge(id);
    }

    /// Applies the bounds to a client for whom more or less waits than before.
    fn judge(&mut self, id: ClientId) {
        let Self { limits, queues, total, behind, controls, .. } = self;
        let queue = &mut queues[id.0 as usize];
        if queue.flow == Flow::CutOff {
            return;
        }
        let waiting = queue.waiting();
        *total = *total - queue.counted + waiting;
        queue.counted = waiting;
        if queue.behind != (waiting > limits.behind) {
            queue.behind = !queue.behind;
            *behind = if queue.behind { *behind + 1 } else { *behind - 1 };
        }
        if waiting > limits.max || (*total > limits.pool && waiting > limits.guaranteed) {
            let reason = CloseReason::SlowConsumer { waiting, max: limits.max, pool: limits.pool };
            queue.flow = Flow::CutOff;
            queue.kept = KeptDeliveries::default();
            self.releasing.retain(|&other| other != id);
            self.cut_off.push((id, reason));
            return;
        }
        if queue.slow != (if queue.slow { waiting >= limits.ok } else { waiting > limits.breach }) {
            queue.slow = !queue.slow;
            let control = if queue.slow { FlowControl::Slow { waiting } } else { FlowControl::CaughtUp };
            controls.push((id, control));
        }
        let paused = waiting > if queue.reading_paused { limits.guaranteed / 2 } else { limits.guaranteed };
        if queue.reading_paused != paused {
            queue.reading_paused = paused;
            controls.push((id, if paused { FlowControl::PauseReading } else { FlowControl::ResumeReading }));
        }
    }

    /// Hands out more of what is held for those whose sessions have room.
    pub(crate) fn release(&mut self, mut f: impl FnMut(ClientId, Deliveries<'_>)) {
        for at in (0..self.releasing.len()).rev() {
            let id = self.releasing[at];
            let queue = &mut self.queues[id.0 as usize];
            debug_assert_eq!(queue.flow, Flow::Releasing, "{id:?} is not to get more");
            f(id, queue.kept.next(self.limits.guaranteed));
            queue.kept.trim();
            if queue.kept.is_empty() {
                queue.flow = Flow::Passing;
                self.releasing.swap_remove(at);
            }
            self.judge(id);
        }
    }

    /// A client is to be closed when it has got what there is for it: nothing is held any more.
    pub(crate) fn release_all(&mut self, id: ClientId, f: impl FnOnce(Deliveries<'_>)) {
        let Some(queue) = self.queues.get_mut(id.0 as usize) else { return };
        if matches!(queue.flow, Flow::Held | Flow::Releasing) {
            f(queue.kept.next(usize::MAX));
            queue.kept.trim();
            queue.flow = Flow::Passing;
            self.releasing.retain(|&other| other != id);
            self.judge(id);
        }
    }

    /// Those that are cut off since the last call, and why.
    pub(crate) fn take_cut_off(&mut self) -> Vec<(ClientId, CloseReason)> {
        std::mem::take(&mut self.cut_off)
    }

    pub(crate) fn controls(&mut self) -> std::vec::Drain<'_, (ClientId, FlowControl)> {
        self.controls.drain(..)
    }

    /// True if something that was held can go out.
    pub(crate) fn has_work(&self) -> bool {
        !self.releasing.is_empty()
    }

    /// Bytes that wait for a client.
    pub(crate) fn waiting_of(&self, id: ClientId) -> usize {
        self.queues.get(id.0 as usize).map_or(0, Queue::waiting)
    }

    /// Clients that are behind.
    pub(crate) fn behind(&self) -> usize {
        self.behind
    }

    /// Panics if what is counted is not there.
    pub(crate) fn check(&self) {
        let alive = |queue: &&Queue| queue.flow != Flow::CutOff;
        let waiting: usize = self.queues.iter().filter(alive).map(Queue::waiting).sum();
        let cut_off: usize = self.queues.iter().filter(|queue| !alive(queue)).map(|queue| queue.counted).sum();
        assert_eq!(waiting + cut_off, self.total, "bytes that wait for all clients");
        assert_eq!(self.queues.iter().filter(|queue| queue.behind).count(), self.behind, "clients behind");
        for (id, queue) in (0..).map(ClientId).zip(&self.queues) {
            let releasing = self.releasing.iter().filter(|&&other| other == id).count();
            assert_eq!(releasing, usize::from(queue.flow == Flow::Releasing), "{id:?} is {:?}", queue.flow);
            let keeps = matches!(queue.flow, Flow::Held | Flow::Releasing);
            assert!(keeps || queue.kept.is_empty(), "{id:?} is {:?}, and something is held for it", queue.flow);
            assert!(queue.flow == Flow::CutOff || queue.waiting() <= self.limits.max, "too much waits for {id:?}");
        }
    }
}
