//! A subscription, in the application's hands.

use crate::handle::{Commands, Shared, lock};
use client::queue::{Batch, Counts, Message};
use client::{Interest, PostError, SubscriptionId};
use omm::consumer::{ItemRequest, OpenError};
use rwf::msg::{GenericMsg, PostMsg};
use rwf::wire::encode_growing;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A subscription has ended for another reason than that its items have: the session is over, or the application was too slow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended(pub(crate) String);

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the subscription has ended: {}", self.0)
    }
}

impl std::error::Error for Ended {}

/// Why there is no subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubscribeError {
    /// Too many items.
    Open(OpenError),
    /// The session is over.
    Ended(Ended),
}

impl fmt::Display for SubscribeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Ended(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SubscribeError {}

/// Why a post was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PostFailure {
    /// The client says so.
    Post(PostError),
    /// The message cannot be written.
    Unwritable(rwf::EncodeError),
    /// The subscription or its session is over.
    Ended(Ended),
}

impl fmt::Display for PostFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Post(error) => error.fmt(f),
            Self::Unwritable(error) => write!(f, "the post cannot be written: {error}"),
            Self::Ended(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PostFailure {}

/// Items of a session. Dropped, it is closed.
///
/// Messages of one item come in their order. A message is looked at where it lies until the next one is taken.
pub struct Subscription {
    pub(crate) names: Vec<String>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: Arc<Commands>,
    pub(crate) batch: Batch,
    pub(crate) at: usize,
}

impl Subscription {
    /// Names of the items, by place.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Opens further items. Gives the place of the first: places go on from those that there are.
    ///
    /// # Errors
    /// Too many items, or the subscription or its session is over.
    pub fn extend(&mut self, interest: Interest) -> Result<u32, SubscribeError> {
        let names = interest.names.clone();
        let first = self.extend_as(interest, false)?;
        self.names.extend(names);
        Ok(first)
    }

    /// As [`Subscription::extend`], for an owner who keeps the names. `is_listed`: they are those of a symbol list that is open with data streams.
    pub(crate) fn extend_as(&self, interest: Interest, is_listed: bool) -> Result<u32, SubscribeError> {
        let opened = self.ask(move |worker, now, id| worker.extend(now, id, &interest, is_listed));
        let first = opened.map_err(SubscribeError::Ended)?.map_err(SubscribeError::Open)?;
        let over = || SubscribeError::Ended(Ended("it has ended".to_owned()));
        first.ok_or_else(over)
    }

    /// Closes an item; what waits of it is given still.
    ///
    /// # Errors
    /// The subscription or its session is over.
    pub fn close(&self, item: u32) -> Result<(), Ended> {
        self.ask(move |worker, now, id| worker.connection.client.drop_item(now, id, item))
    }

    /// What was queued, merged, dropped.
    pub fn counts(&self) -> Counts {
        lock(&self.shared.state).queue.counts()
    }

    /// Another rule for a full queue, from now on.
    pub fn set_overflow(&self, overflow: client::queue::Overflow) {
        lock(&self.shared.state).queue.set_overflow(overflow);
        self.commands.waker.wake();
    }

    /// The held images of items as refreshes, as they are now, whatever waits to be taken; none for an item without a whole one.
    ///
    /// # Errors
    /// The subscription or its session is over.
    pub fn images(&self, items: Vec<u32>) -> Result<Vec<Option<Vec<u8>>>, Ended> {
        self.ask(move |worker, _, id| {
            let image = |item| {
                let mut out = Vec::new();
                worker.connection.client.write_image(id, item, &mut out).then_some(out)
            };
            items.into_iter().map(image).collect()
        })
    }

    /// The next message. Waits for one: at most as long as `timeout` says, for ever without. `None`: the time is over.
    ///
    /// # Errors
    /// The subscription has ended.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Message<'_>>, Ended> {
        if self.at >= self.batch.len() && !self.wait(timeout)? {
            return Ok(None);
        }
        self.at += 1;
        Ok(self.batch.get(self.at - 1))
    }

    /// The message that [`Subscription::next`] has given last, until the next call that takes some.
    pub fn current(&self) -> Option<Message<'_>> {
        self.batch.get(self.at.checked_sub(1)?)
    }

    /// Whether [`Subscription::next`] has a message without waiting.
    pub fn has_ready(&mut self) -> bool {
        self.at < self.batch.len() || self.take()
    }

    /// Waits as [`Subscription::next`] does, and takes nothing. False: the time is over.
    ///
    /// # Errors
    /// The subscription has ended.
    pub fn wait_ready(&mut self, timeout: Option<Duration>) -> Result<bool, Ended> {
        if self.at < self.batch.len() { Ok(true) } else { self.wait(timeout) }
    }

    /// All messages that wait, or the next ones that come, as for [`Subscription::next`]. Those that [`Subscription::next`] has given are not among
    /// them. Empty: the time is over.
    ///
    /// # Errors
    /// The subscription has ended.
    pub fn next_batch(&mut self, timeout: Option<Duration>) -> Result<impl Iterator<Item = Message<'_>>, Ended> {
        if self.at >= self.batch.len() {
            self.wait(timeout)?;
        }
        let from = std::mem::replace(&mut self.at, self.batch.len());
        Ok((from..self.batch.len()).filter_map(|at| self.batch.get(at)))
    }

    /// As [`Subscription::next_batch`], for tasks: the session wakes the task, whatever runs it.
    ///
    /// # Errors
    /// The subscription has ended.
    pub async fn ready_batch(&mut self) -> Result<impl Iterator<Item = Message<'_>>, Ended> {
        poll_fn(|context| self.poll_ready(context)).await?;
        let from = std::mem::replace(&mut self.at, self.batch.len());
        Ok((from..self.batch.len()).filter_map(|at| self.batch.get(at)))
    }

    /// Whether messages can be had without waiting. If not, the task of `context` is woken when there are some.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        if self.at < self.batch.len() || self.take() {
            return Poll::Ready(Ok(()));
        }
        let mut state = lock(&self.shared.state);
        // Between the look and the lock something may have come.
        if !state.queue.is_empty() {
            drop(state);
            self.take();
            return Poll::Ready(Ok(()));
        }
        if let Some(why) = &state.is_over {
            return Poll::Ready(Err(Ended(why.clone())));
        }
        state.task = Some(context.waker().clone());
        Poll::Pending
    }

    /// Takes what waits; false if nothing does.
    fn take(&mut self) -> bool {
        let mut state = lock(&self.shared.state);
        if state.queue.is_empty() {
            return false;
        }
        self.at = 0;
        let goes_on = state.queue.take(&mut self.batch);
        drop(state);
        if goes_on {
            self.commands.waker.wake();
        }
        true
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, Ended> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if self.take() {
                return Ok(true);
            }
            let state = lock(&self.shared.state);
            if !state.queue.is_empty() {
                continue;
            }
            if let Some(why) = &state.is_over {
                return Err(Ended(why.clone()));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match left {
                Some(Duration::ZERO) => return Ok(false),
                // A thread that has panicked with the lock leaves the queue whole.
                Some(left) => drop(self.shared.ready.wait_timeout(state, left)),
                None => drop(self.shared.ready.wait(state)),
            }
        }
    }

    /// Posts to an item on its stream; with `wants_ack` a notice of the session tells the answer under the id that is given here.
    ///
    /// # Errors
    /// The item is not open, too many posts wait, or the session is over.
    pub fn post(&self, item: u32, post: &PostMsg<'_>, wants_ack: bool) -> Result<u32, PostFailure> {
        let bytes = written(post)?;
        let sent = self.ask(move |worker, now, id| {
            let post = PostMsg::decode(&bytes).map_err(|_| PostError::NotOpen)?;
            worker.connection.client.post(now, (id, item), &post, wants_ack)
        });
        sent.map_err(PostFailure::Ended)?.map_err(PostFailure::Post)
    }

    /// Pauses items, or goes on with them: in a pause no updates of an item come, refreshes and states do, and behind it its image. A server that can
    /// hears of it, when nobody else in this session watches the item. [`Session::pause`](crate::Session::pause) is for all.
    ///
    /// # Errors
    /// The subscription or its session is over.
    pub fn pause(&self, items: Vec<u32>, is_paused: bool) -> Result<(), Ended> {
        self.ask(move |worker, now, id| {
            worker.change(now, |client, sink| {
                for item in items {
                    client.pause((id, item), is_paused, &mut |d| sink(d));
                }
            });
        })
    }

    /// Changes what is asked for of an item: its view or its priority; nothing else of the request is looked at. Others who watch it keep what they have.
    /// Gives whether there is such an item still.
    ///
    /// # Errors
    /// Too many items, or the subscription or its session is over.
    pub fn reissue(
        &self,
        item: u32,
        change: impl FnOnce(&mut ItemRequest) + Send + 'static,
    ) -> Result<bool, SubscribeError> {
        let changed = self.ask(move |worker, now, id| {
            worker.change(now, |client, sink| client.reissue(now, (id, item), change, &mut |d| sink(d)))
        });
        changed.map_err(SubscribeError::Ended)?.map_err(SubscribeError::Open)
    }

    /// Sends a generic message on the stream of an item. Gives whether the item is open.
    ///
    /// # Errors
    /// The message cannot be written, or the session is over.
    pub fn send_generic(&self, item: u32, generic: &GenericMsg<'_>) -> Result<bool, PostFailure> {
        let mut bytes = Vec::new();
        let end =
            encode_growing(&mut bytes, 0, 512, 1 << 24, |w| generic.encode(w)).map_err(PostFailure::Unwritable)?;
        bytes.truncate(end);
        let sent = self.ask(move |worker, _, id| match rwf::msg::Msg::decode(&bytes) {
            Ok(rwf::msg::Msg::Generic(generic)) => worker.connection.client.send_generic((id, item), &generic),
            _ => false,
        });
        sent.map_err(PostFailure::Ended)
    }

    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut crate::handle::Worker, u64, SubscriptionId) -> T + Send + 'static,
    ) -> Result<T, Ended> {
        let (answer, answered) = mpsc::channel();
        let shared = Arc::clone(&self.shared);
        self.commands.give(Box::new(move |worker, now| {
            let id = lock(&shared.state).id;
            if let Some(id) = id {
                // The client that asked may have gone.
                let _ = answer.send(question(worker, now, id));
            }
        }));
        answered.recv().map_err(|_| Ended("the session is over".to_owned()))
    }
}

/// A post as bytes, for the session's thread.
pub(crate) fn written(post: &PostMsg<'_>) -> Result<Vec<u8>, PostFailure> {
    let mut bytes = Vec::new();
    let end = encode_growing(&mut bytes, 0, 512, 1 << 24, |w| post.encode(w)).map_err(PostFailure::Unwritable)?;
    bytes.truncate(end);
    Ok(bytes)
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        self.commands.give(Box::new(move |worker, now| {
            let id = lock(&shared.state).id;
            if let Some(id) = id {
                worker.end(now, id);
            }
        }));
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("items", &self.names.len())
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}
