//! What clients have asked for and is not done yet. A batch may name 65,535 items in one message: a turn opens, changes or closes so many of
//! them and no more ([`crate::Config::work_per_turn`]), and the updates of others go out in between. The same for requests that are
//! answered with all services or a dictionary: what is beyond the turn waits.
//!
//! What a client sends while a batch of it is under way waits behind that batch, so that its messages are done in the order in which it
//! sent them. Clients take turns. Nothing is begun while the audit has no room.

use super::Clients;
use super::batch::Batch;
use super::kept_messages::KeptMessages;
use crate::ids::ClientId;
use crate::keyed_queue::KeyedQueue;
use crate::{CloseReason, P2ps};
use rwf::msg::{Domain, MsgClass};
use rwf::peek;

/// Bytes that one client may have waiting before it is cut off.
const CLIENT_MAX: usize = 64 << 20;
/// Bytes that all clients may have waiting; beyond, who sends more is cut off.
const ALL_MAX: usize = 512 << 20;
/// Bytes of an answer about services or fields that cost as much as an item.
const ANSWER_BYTES: usize = 4 << 10;
/// Items of one client that are worked on before it is another one's turn.
const SHARE: usize = 100;

/// What waits of one client: the rest of a batch, and what came behind it.
#[derive(Debug, Default)]
struct Backlog {
    batch: Option<Batch>,
    messages: KeptMessages,
    bytes: usize,
}

/// Waiting messages, by client.
#[derive(Debug, Default)]
pub(crate) struct Backlogs {
    queue: KeyedQueue<ClientId, Backlog>,
    bytes: usize,
    /// Items of batches, and messages that waited, that may still be worked on in this turn.
    left: usize,
    /// Messages that had to wait and are done.
    taken_up: Vec<(ClientId, Box<[u8]>)>,
}

/// The next work of a client.
enum Next {
    Batch(Batch),
    Message(Box<[u8]>),
}

impl Backlogs {
    pub(crate) fn begin_turn(&mut self, budget: u32) {
        self.left = budget.max(1) as usize;
        self.taken_up.clear();
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Later messages of a client have to wait behind those that it has waiting.
    pub(crate) fn holds_for(&self, client: ClientId) -> bool {
        !self.queue.is_empty() && self.queue.contains(client)
    }

    /// A turn may do one piece of work more; it is counted.
    pub(super) fn take_one(&mut self) -> bool {
        self.take(1)
    }

    /// A turn may do something more, of so many pieces; they are counted.
    fn take(&mut self, pieces: usize) -> bool {
        let any = self.left > 0;
        self.left = self.left.saturating_sub(pieces);
        any
    }

    /// An answer of so many bytes was given: a few bytes can ask for all services, or for a dictionary.
    pub(super) fn charge_answer(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes / ANSWER_BYTES);
    }

    /// Keeps a message of a client that has nothing waiting yet.
    ///
    /// # Errors
    /// There is no room.
    fn push_first(&mut self, client: ClientId, msg: &[u8]) -> Result<(), usize> {
        self.queue.push_back(client, Backlog::default());
        let pushed = self.push(client, msg);
        if pushed.is_err() {
            self.queue.remove(client);
        }
        pushed
    }

    /// Keeps a message of a client that has something waiting.
    ///
    /// # Errors
    /// There is no room: so many bytes of the client wait.
    fn push(&mut self, client: ClientId, msg: &[u8]) -> Result<(), usize> {
        let Some(backlog) = self.queue.get_mut(client) else {
            hub_items::fault!("{client:?} has nothing waiting");
            return Err(0);
        };
        let cost = KeptMessages::cost(msg);
        if backlog.bytes + cost > CLIENT_MAX || self.bytes + cost > ALL_MAX {
            return Err(backlog.bytes);
        }
        backlog.bytes += cost;
        self.bytes += cost;
        backlog.messages.push(msg);
        Ok(())
    }

    /// Keeps the rest of a batch, in front of what else waits of its client.
    pub(super) fn keep(&mut self, client: ClientId, batch: Batch) {
        if !self.queue.contains(client) {
            self.queue.push_back(client, Backlog::default());
        }
        if let Some(backlog) = self.queue.get_mut(client) {
            debug_assert!(backlog.batch.is_none(), "{client:?} has a batch under way");
            backlog.bytes += batch.bytes();
            self.bytes += batch.bytes();
            backlog.batch = Some(batch);
        }
    }

    /// The close at hand of a client is not done with all of its streams: it is told of when it is.
    fn note_close(&mut self, client: ClientId, msg: &[u8]) -> bool {
        let batch = self.queue.get_mut(client).and_then(|backlog| backlog.batch.as_mut());
        batch.is_some_and(|batch| batch.note_close(msg))
    }

    /// Takes out what is next of a client.
    fn next(&mut self, client: ClientId) -> Option<Next> {
        let backlog = self.queue.get_mut(client)?;
        let next = match backlog.batch.take() {
            Some(batch) => Next::Batch(batch),
            None => Next::Message(backlog.messages.pop()?),
        };
        let bytes = match &next {
            Next::Batch(batch) => batch.bytes(),
            Next::Message(msg) => KeptMessages::cost(msg),
        };
        backlog.bytes -= bytes;
        self.bytes -= bytes;
        Some(next)
    }

    /// The turn goes to the client behind the one in front, which goes to the end if it has more.
    fn rotate(&mut self, client: ClientId) {
        if self.queue.front().is_none_or(|(front, _)| front != client) {
            return;
        }
        if let Some((client, backlog)) = self.queue.pop_front()
            && (backlog.batch.is_some() || !backlog.messages.is_empty())
        {
            self.queue.push_back(client, backlog);
        }
    }

    /// A login is over: with it the batch that was asked for under it. What the client sent behind it is answered yet.
    pub(super) fn drop_batch(&mut self, client: ClientId) {
        if let Some(backlog) = self.queue.get_mut(client)
            && let Some(batch) = backlog.batch.take()
        {
            backlog.bytes -= batch.bytes();
            self.bytes -= batch.bytes();
        }
    }

    /// A client is gone, or to be closed.
    pub(crate) fn forget(&mut self, client: ClientId) {
        if let Some(backlog) = self.queue.remove(client) {
            self.bytes -= backlog.bytes;
        }
    }

    /// Panics if bytes are not counted right, or something waits of a client that is not there.
    pub(crate) fn check(&self, is_there: impl Fn(ClientId) -> bool) {
        let mut all = 0;
        for (client, backlog) in self.queue.iter() {
            assert!(is_there(client), "something waits of {client:?}, which is gone");
            let messages = backlog.messages.bytes();
            assert_eq!(backlog.bytes, messages + backlog.batch.as_ref().map_or(0, Batch::bytes), "bytes that wait");
            all += backlog.bytes;
        }
        assert_eq!(all, self.bytes, "bytes that wait of all clients");
    }
}

/// A message that may be answered with a thousand times as many bytes: a request for a directory or a dictionary.
fn asks_for_much(msg: &[u8]) -> bool {
    peek::class(msg) == Some(MsgClass::REQUEST)
        && matches!(peek::domain(msg), Some(Domain::SOURCE | Domain::DICTIONARY))
}

impl Clients {
    /// A message that waited is done.
    pub(crate) fn note_taken_up(&mut self, id: ClientId, msg: Box<[u8]>) {
        self.backlogs.taken_up.push((id, msg));
    }

    /// A client is logged in, and not about to be closed.
    pub(super) fn is_on(&self, client: ClientId) -> bool {
        self.get(client).is_some_and(|known| known.login.is_some() && !known.closing)
    }

    /// Keeps what is left of a batch for the next turn, if its client is still there.
    pub(super) fn keep_for_later(&mut self, client: ClientId, batch: Batch) {
        // Requests of a login are over with it.
        let is_wanted = |known: &super::Client| !known.is_leaving || matches!(batch, Batch::Leave { .. });
        if self.get(client).is_some_and(|known| !known.closing && is_wanted(known)) {
            self.backlogs.keep(client, batch);
        }
    }
}

impl P2ps {
    /// Does what a client's message asks for, or keeps it until what the client has asked for before is done. False if it waits, or if it
    /// is a close of so many streams that it goes on in the next turn.
    pub(crate) fn act_in_order(&mut self, id: ClientId, msg: &[u8]) -> bool {
        let holds = self.clients.backlogs.holds_for(id);
        if holds || self.clients.backlogs.left == 0 && asks_for_much(msg) {
            let kept =
                if holds { self.clients.backlogs.push(id, msg) } else { self.clients.backlogs.push_first(id, msg) };
            match kept {
                Ok(()) => self.counters.messages_behind += 1,
                Err(waiting) => self.close_client(id, CloseReason::Occupied { waiting }),
            }
            return false;
        }
        self.client_acts(id, msg);
        !self.clients.backlogs.note_close(id, msg)
    }

    /// The messages that had to wait ([`Self::client_message`] has told so) and were done since the last call of [`Self::on_timer`], in
    /// order.
    pub fn taken_up(&mut self) -> std::vec::Drain<'_, (ClientId, Box<[u8]>)> {
        self.clients.backlogs.taken_up.drain(..)
    }

    /// True if a client has asked for something that is not done, because it asks for so much.
    pub fn is_behind(&self, id: ClientId) -> bool {
        self.clients.backlogs.holds_for(id)
    }

    /// True if this turn may ask for one item more of a batch, which is so many pieces of work; they are counted.
    pub(super) fn may_ask_for_more(&mut self, pieces: usize) -> bool {
        self.gate.has_audit_room() && self.clients.backlogs.take(pieces)
    }

    /// Goes on with what clients wait for, as far as this turn lets it: so much for each in turns.
    pub(crate) fn work_backlogs(&mut self) {
        while self.clients.backlogs.left > 0
            && self.gate.has_audit_room()
            && let Some((client, _)) = self.clients.backlogs.queue.front()
        {
            match self.clients.backlogs.next(client) {
                Some(Next::Batch(batch)) => {
                    if let Some(close) = self.work_batch(client, batch, SHARE) {
                        self.clients.note_taken_up(client, close);
                    }
                }
                Some(Next::Message(msg)) => {
                    self.clients.backlogs.take_one();
                    self.client_acts(client, &msg);
                    if !self.clients.backlogs.note_close(client, &msg) {
                        self.clients.note_taken_up(client, msg);
                    }
                }
                None => {}
            }
            self.clients.backlogs.rotate(client);
        }
    }
}
