//! State that a session's thread and its owner's handles share.

use crate::connection::{Connection, Notice};
use client::queue::{Batch, Queue};
use client::{Client, Delivery, Interest, SubscriptionId};
use net::Waker;
use omm::consumer::OpenError;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task;

/// Something that the session's thread is to do between two turns.
pub(crate) type Command = Box<dyn FnOnce(&mut Worker, u64) + Send>;

/// The way to the thread.
pub(crate) struct Commands {
    pub(crate) waiting: Mutex<Vec<Command>>,
    pub(crate) waker: Waker,
}

impl Commands {
    pub(crate) fn give(&self, command: Command) {
        lock(&self.waiting).push(command);
        self.waker.wake();
    }
}

/// A subscription, as both sides have it.
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    pub(crate) ready: Condvar,
}

pub(crate) struct State {
    pub(crate) queue: Queue,
    /// Of a task that waits.
    pub(crate) task: Option<task::Waker>,
    /// Nothing more will be put in.
    pub(crate) is_over: Option<String>,
    pub(crate) id: Option<SubscriptionId>,
}

impl Shared {
    /// Wakes who waits. The lock is given up before: what a task's waker does is its runtime's business.
    pub(crate) fn notify(&self, mut state: MutexGuard<'_, State>) {
        let task = state.task.take();
        drop(state);
        self.ready.notify_all();
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// Data behind a lock is whole at each unlock: a thread that has panicked leaves nothing half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The session's thread.
pub(crate) struct Worker {
    pub(crate) connection: Connection,
    /// By number of the subscription, with what has come for it in this turn.
    pub(crate) subscriptions: Vec<Option<(std::sync::Arc<Shared>, Batch)>>,
    /// Queues that hold the session up.
    pub(crate) holding: Vec<SubscriptionId>,
    /// Notices for the owner.
    pub(crate) notices: Vec<Notice>,
    pub(crate) room: Vec<u8>,
    pub(crate) is_ending: bool,
}

impl Worker {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            subscriptions: Vec::new(),
            holding: Vec::new(),
            notices: Vec::new(),
            room: Vec::new(),
            is_ending: false,
        }
    }

    /// A turn of the connection: what comes is put into the subscriptions' batches, and then, with one lock each, into their queues.
    pub(crate) fn turn(&mut self, deadline: Option<u64>) -> std::io::Result<u64> {
        let Self { connection, subscriptions, .. } = self;
        let now = connection.turn(deadline, &mut |received_ns, d| {
            let client::Delivery { subscription, item, class, is_final, msg } = d;
            if let Some(Some((_, batch))) = subscriptions.get_mut(subscription.index()) {
                batch.push(client::queue::Message { item, received_ns, class, is_final, msg });
            }
        })?;
        self.hand_over(now);
        while let Some(notice) = self.connection.poll_notice() {
            self.notices.push(notice);
        }
        Ok(now)
    }

    pub(crate) fn hand_over(&mut self, now: u64) {
        let mut cut = Vec::new();
        let Self { connection, subscriptions, holding, room, .. } = self;
        holding.clear();
        for (shared, batch) in subscriptions.iter_mut().flatten() {
            let mut state = lock(&shared.state);
            let Some(id) = state.id else {
                debug_assert!(false, "a subscription among those that are served has no number");
                continue;
            };
            if !batch.is_empty() {
                state.queue.put_all(batch);
            }
            state.queue.refill(now, room, |item, out| connection.client.write_image(id, item, out));
            if state.queue.is_cut() {
                cut.push(id);
                state.is_over = Some("the application is too slow, and its queue was full".to_owned());
            }
            if state.queue.holds_up() {
                holding.push(id);
            }
            if !state.queue.is_empty() || state.is_over.is_some() {
                shared.notify(state);
            }
        }
        for id in cut {
            self.end(now, id);
        }
        self.connection.set_reading(self.holding.is_empty());
    }

    /// Changes the client between two turns: what it gives at once is handed over.
    pub(crate) fn change<T>(
        &mut self,
        now: u64,
        change: impl FnOnce(&mut Client, &mut dyn FnMut(Delivery<'_>)) -> T,
    ) -> T {
        let Self { connection, subscriptions, .. } = self;
        let given = change(&mut connection.client, &mut |d| {
            let Delivery { subscription, item, class, is_final, msg } = d;
            if let Some(Some((_, batch))) = subscriptions.get_mut(subscription.index()) {
                batch.push(client::queue::Message { item, received_ns: now, class, is_final, msg });
            }
        });
        self.hand_over(now);
        given
    }

    /// Opens further items for a subscription; `is_listed`: names of a symbol list of it, which the server may open by itself. Gives the place of the first; `None`: it has ended.
    pub(crate) fn extend(
        &mut self,
        now: u64,
        id: SubscriptionId,
        interest: &Interest,
        is_listed: bool,
    ) -> Result<Option<u32>, OpenError> {
        if let Some(Some((shared, _))) = self.subscriptions.get(id.index()) {
            lock(&shared.state).queue.grow(interest.names.len());
        }
        self.change(now, |client, sink| {
            let mut give = |d: Delivery<'_>| sink(d);
            if is_listed {
                client.extend_listed(now, id, interest, &mut give)
            } else {
                client.extend(now, id, interest, &mut give)
            }
        })
    }

    /// Leaves servers for preferred ones: items that are lost with them are told so.
    pub(crate) fn fall_back(&mut self, now: u64) -> usize {
        self.change(now, |client, sink| client.fall_back(now, &mut |d| sink(d)))
    }

    pub(crate) fn end(&mut self, now: u64, id: SubscriptionId) {
        self.connection.client.unsubscribe(now, id);
        if let Some(place) = self.subscriptions.get_mut(id.index())
            && let Some((shared, _)) = place.take()
        {
            lock(&shared.state).id = None;
        }
    }
}
