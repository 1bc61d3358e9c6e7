//! Sessions that are lost: their items go to other providers, or back into the queue.
//!
//! A session may take a million items with it, or five thousand services. So an outage is work that is done in turns, each of
//! [`crate::distributor::Config::work_per_turn`], and what other providers send goes out in between. Until its turn comes an item is at
//! the session that is lost as at one that is silent: what is asked of it meanwhile is asked again when it is back.

use super::Origin;
use super::failover::Move;
use crate::distributor::ids::Handle;
use crate::distributor::{ProviderSink, SessionId, SourceDistributor};
use rwf::{DataState, State, StateCode, StreamState};
use std::collections::VecDeque;

/// What a service costs beside its items: each P2PS is told of it, and so is each client with a directory.
const SERVICE_COST: usize = 64;

/// What goes away, and is worked off in turns.
#[derive(Debug)]
pub(crate) struct Outages {
    /// In the order in which the sessions were lost.
    queue: VecDeque<Outage>,
    /// Items that leave providers at which their service is down, in the order in which it went down.
    pub(super) moves: VecDeque<Move>,
    /// Items that may still be looked at in this turn.
    pub(super) budget: usize,
}

/// A session that is lost.
#[derive(Debug)]
struct Outage {
    session: SessionId,
    /// What is said to those who watch its items.
    text: String,
    /// Services that are not done with, the one at hand in front.
    services: VecDeque<u16>,
}

impl Outages {
    pub(crate) fn new(budget: u32) -> Self {
        Self { queue: VecDeque::new(), moves: VecDeque::new(), budget: budget.max(1) as usize }
    }

    pub(crate) fn begin_turn(&mut self, budget: u32) {
        self.budget = budget.max(1) as usize;
    }

    /// True if there is something to do in the next turn.
    pub(crate) fn has_work(&self) -> bool {
        !(self.queue.is_empty() && self.moves.is_empty())
    }
}

impl SourceDistributor {
    /// Takes a session out, and its items to other providers or back into the queue. A session that is gone may be named.
    pub(crate) fn lose_session(&mut self, now: u64, id: SessionId, reason: &str, out: &mut dyn ProviderSink) {
        let Some(session) = self.providers.leave(id) else { return };
        let text = format!("Connection to provider {} lost: {reason}", session.peer.address);
        let services = session.offers.iter().map(|offer| offer.service).collect();
        self.refuse_posts_of(id, &text);
        self.forget_standbys(id);
        self.outages.queue.push_back(Outage { session: id, text, services });
        self.work_outages(now, out);
    }

    /// Goes on with outages, as far as this turn lets it.
    pub(in crate::distributor) fn work_outages(&mut self, now: u64, out: &mut dyn ProviderSink) {
        while self.outages.budget > 0 && self.work_outage(now, out) {}
        self.work_moves(now, out);
    }

    /// The session has lost its items when this returns: another one is about to have its slot.
    pub(in crate::distributor) fn finish_outage_of(&mut self, now: u64, id: SessionId, out: &mut dyn ProviderSink) {
        let Some(at) = self.outages.queue.iter().position(|outage| outage.session == id) else { return };
        let Some(outage) = self.outages.queue.remove(at) else { return };
        self.outages.queue.push_front(outage);
        let budget = std::mem::replace(&mut self.outages.budget, usize::MAX);
        while self.providers.is_leaving(id) {
            self.work_outage(now, out);
        }
        self.outages.budget = budget;
    }

    /// The next piece of the outage in front: items of one service, at most as many as this turn may look at. False if there is none.
    fn work_outage(&mut self, now: u64, out: &mut dyn ProviderSink) -> bool {
        let Some(outage) = self.outages.queue.front_mut() else { return false };
        let id = outage.session;
        let Some(&service) = outage.services.front() else {
            debug_assert_eq!(self.providers[id].streams.iter().count(), 0, "items of a service that was not offered");
            self.providers.forget(id);
            self.outages.queue.pop_front();
            return true;
        };
        let there = self.items.at(id, service).len();
        let mut handles: Vec<Handle> = self.items.at(id, service).take(self.outages.budget).collect();
        handles.sort_unstable();
        let is_last = handles.len() == there;
        let text = outage.text.clone();
        let cost = handles.len() + if is_last { SERVICE_COST } else { 0 };
        self.outages.budget = self.outages.budget.saturating_sub(cost);
        self.counters.items_touched += handles.len() as u64;
        if is_last {
            outage.services.pop_front();
            self.services[service].remove_provider(id);
        }
        let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, &text);
        let mut waited_for = Vec::new();
        if self.providers[id].origin == Origin::NonInteractive {
            self.published_lost(service, &handles, state);
        } else {
            for &handle in &handles {
                self.detach(now, handle);
            }
            waited_for = self.lose_items(service, &handles, state);
        }
        if is_last {
            self.take_over(now, service, out);
            self.advertise(service);
        }
        self.send_queued(now, service, out);
        self.explain_waits(now, &waited_for);
        true
    }

    /// A provider goes on with an item that it may have published in a session that is lost: there it is published no more.
    pub(in crate::distributor) fn settle_published(&mut self, handle: Handle) {
        let item = &self.items[handle];
        let (service, at) = (item.service(), item.place().map(|place| place.session));
        let Some(outage) = self.outages.queue.iter().find(|outage| Some(outage.session) == at) else { return };
        let text = outage.text.clone();
        let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, &text);
        self.published_lost(service, &[handle], state);
    }
}
