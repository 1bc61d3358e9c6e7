//! The end of a login with more streams than a turn ends ([`crate::Config::work_per_turn`]): the client hears nothing of them from then
//! on, and they end in turns, with the updates of others in between.
//!
//! A client that is still connected has it done as a batch, behind which what it says next waits ([`super::backlog`]). One that is gone, or
//! to be closed, goes to [`Leaving`]. Its number is not free before its streams are: [`P2ps::departed`].

use super::Clients;
use super::batch::Batch;
use super::streams::{Cursor, Streams};
use crate::P2ps;
use crate::ids::ClientId;
use crate::items::watchers::Watcher;
use crate::keyed_queue::KeyedQueue;

/// Clients that are gone, or to be closed, and have streams left.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    queue: KeyedQueue<ClientId, Cursor>,
    /// Streams that may still be ended in this turn.
    left: usize,
    /// Clients that are gone and have nothing left.
    departed: Vec<ClientId>,
}

impl Leaving {
    pub(crate) fn begin_turn(&mut self, budget: u32) {
        self.left = budget.max(1) as usize;
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }
}

/// By which budget streams end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Budget {
    /// The budget of clients that leave.
    Leaving,
    /// The budget of batches.
    Batches,
    /// None: all of them.
    Unlimited,
}

impl Clients {
    /// Panics if what leaves is not what is told of it.
    pub(crate) fn check_leaving(&self) {
        for (id, client) in self.iter() {
            let in_turns = self.leaving.queue.contains(id) || self.backlogs.holds_for(id);
            assert!(!client.is_leaving || in_turns && client.login.is_none(), "{id:?} leaves, and is not worked on");
            assert!(!client.is_gone || client.is_leaving && client.closing, "{id:?} is gone, and is there");
        }
        for (id, _) in self.leaving.queue.iter() {
            assert!(self.get(id).is_some_and(|known| known.is_leaving), "{id:?} leaves, and is gone");
        }
    }
}

impl P2ps {
    /// Ends a login, and with it everything that is open: what a turn does not come to later, with the client hearing nothing of it. The
    /// connection may log in again.
    pub(crate) fn logout(&mut self, client: ClientId) {
        self.clients.symbol_lists.forget(client, None);
        self.clients.backlogs.drop_batch(client);
        // Nothing is open of a client that is not there.
        let Some(known) = self.clients.get_mut(client) else { return };
        known.directories.clear();
        known.dictionaries.clear();
        let mut at = Cursor::default();
        let is_done = self.end_streams(client, &mut at, usize::MAX, Budget::Leaving);
        if !is_done {
            self.stop_hearing(client);
        }
        self.forget_login(client);
        if is_done {
            self.clients.leaving.queue.remove(client);
            self.have_left(client);
        } else if self.clients.get(client).is_some_and(|known| known.closing) {
            if !self.clients.leaving.queue.contains(client) {
                self.clients.leaving.queue.push_back(client, at);
            }
        } else {
            self.clients.keep_for_later(client, Batch::Leave { at });
        }
    }

    /// Ends streams of a client that have items; true if none is left.
    fn end_streams(&mut self, client: ClientId, at: &mut Cursor, share: usize, budget: Budget) -> bool {
        for _ in 0..share {
            // Nothing is open of a client that is not there.
            let Some(known) = self.clients.get(client) else { return true };
            let before = *at;
            // All streams have ended.
            let Some((stream, item)) = known.streams.next_item(at) else { return true };
            let may_go_on = match budget {
                Budget::Leaving => {
                    let any = self.clients.leaving.left > 0;
                    self.clients.leaving.left -= usize::from(any);
                    any
                }
                Budget::Batches => self.clients.backlogs.take_one(),
                Budget::Unlimited => true,
            };
            if !may_go_on {
                *at = before;
                return false;
            }
            self.drop_watcher(Watcher { client, stream }, item);
        }
        false
    }

    /// A login is over with streams left: they count for nobody's limit any more, and nothing of them reaches the client.
    fn stop_hearing(&mut self, client: ClientId) {
        let Some((known, users)) = self.clients.with_users(client) else {
            hub_items::fault!("streams are left of a client that is gone: {client:?}");
            return;
        };
        if std::mem::replace(&mut known.is_leaving, true) {
            return;
        }
        if let Some(login) = &known.login {
            users.count_item(login.user, -i32::try_from(known.items).unwrap_or(i32::MAX));
        }
        self.note_load(client);
        self.output.mute(client);
    }

    fn forget_login(&mut self, client: ClientId) {
        self.clients.standbys.remove(&client);
        // Nobody is logged in: there is nothing to forget.
        let Some(login) = self.clients.get_mut(client).and_then(|known| known.login.take()) else { return };
        self.clients.count_login(&login, false);
        self.clients.tokens.forget(client, &login);
        self.clients.end_round_trips(client, login.round_trip);
        self.counters.mounts -= 1;
        self.clients.users_mut().unmount(&login.name, login.user);
        self.clients.await_login(self.now, self.config.login_timeout, client);
    }

    /// Nothing of what a client had open under its login is left.
    fn have_left(&mut self, client: ClientId) {
        let Some(known) = self.clients.get_mut(client) else {
            hub_items::fault!("a client that is gone has left: {client:?}");
            return;
        };
        debug_assert_eq!(known.items, 0, "items are left behind");
        known.streams = Streams::default();
        known.listed = None;
        if std::mem::take(&mut known.is_leaving) {
            self.output.unmute(client);
        }
        self.gate.remove_login(self.now, client);
    }

    /// Goes on with the streams of a client that is still there; true if none is left.
    pub(super) fn leave_in_turn(&mut self, client: ClientId, at: &mut Cursor, share: usize) -> bool {
        let is_done = self.end_streams(client, at, share, Budget::Batches);
        if is_done {
            self.have_left(client);
        }
        is_done
    }

    /// Goes on with the streams of clients that are gone or to be closed, as far as this turn lets it.
    pub(crate) fn work_departures(&mut self) {
        while self.clients.leaving.left > 0
            && let Some((client, at)) = self.clients.leaving.queue.front()
        {
            let mut at = *at;
            if self.end_streams(client, &mut at, usize::MAX, Budget::Leaving) {
                self.clients.leaving.queue.pop_front();
                self.depart(client);
            } else if let Some((_, kept)) = self.clients.leaving.queue.front_mut() {
                *kept = at;
            }
        }
    }

    /// The streams of a client that is gone or to be closed have ended.
    fn depart(&mut self, client: ClientId) {
        self.have_left(client);
        if self.clients.get(client).is_some_and(|known| known.is_gone) {
            self.clients.remove(client);
            self.clients.leaving.departed.push(client);
        }
    }

    /// A connection is gone: so is its client, now or when its streams have ended.
    pub(crate) fn begin_departure(&mut self, client: ClientId) {
        // A client that never came leaves nothing behind.
        let Some(known) = self.clients.get_mut(client) else { return };
        known.closing = true;
        if std::mem::replace(&mut known.is_gone, true) {
            return;
        }
        self.logout(client);
        self.clients.await_login_no_more(client);
        self.counters.clients -= 1;
        if !self.clients.leaving.queue.contains(client) {
            self.clients.remove(client);
        }
    }

    /// Ends at once what a client has left that is gone: its number is another's from now on.
    pub(crate) fn finish_departure(&mut self, client: ClientId) {
        if self.clients.leaving.queue.remove(client).is_none() {
            return;
        }
        self.end_streams(client, &mut Cursor::default(), usize::MAX, Budget::Unlimited);
        self.depart(client);
        self.clients.leaving.departed.retain(|departed| *departed != client);
    }

    /// Ends at once what clients that are gone have left: nobody waits for anything any more.
    pub fn finish_departures(&mut self) {
        while let Some((client, _)) = self.clients.leaving.queue.front() {
            self.finish_departure(client);
        }
    }

    /// True if a client is gone, and its number is not free yet. Who gives the number out again all the same has to wait until its streams
    /// have ended.
    pub fn is_departing(&self, id: ClientId) -> bool {
        self.clients.get(id).is_some_and(|known| known.is_gone)
    }

    /// The numbers that have become free since the last call: of clients that were [departing](Self::is_departing).
    pub fn departed(&mut self) -> std::vec::Drain<'_, ClientId> {
        self.clients.leaving.departed.drain(..)
    }
}
