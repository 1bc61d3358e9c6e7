//! Sessions and services that go away: their items go to other providers, or back into the queue, or end.
//!
//! A session may take a million items with it, or five thousand services. So an outage is work that is done in turns, each of
//! [`crate::Config::work_per_turn`], and what other providers send goes out in between. What changes at once is what
//! requests are decided by: a session that is lost, or has withdrawn the service, is asked for nothing more, and nothing is opened in a
//! service that is deleted. Until its turn comes an item is at a provider that is gone as at one that is silent: what is asked of it
//! meanwhile is asked again when it is back.

use super::failover::Move;
use crate::ids::Handle;
use crate::ids::Origin;
use crate::items::Former;
use crate::keyed_queue::KeyedQueue;
use crate::status_texts::StatusTexts;
use crate::stream::Event;
use crate::timers::Timer;
use crate::{ProviderSink, SessionId, SourceDistributor};
use rwf::{DataState, State, StateCode, StreamState};
use std::borrow::Cow;
use std::collections::VecDeque;

/// The cost of a service beside its items: each P2PS is told of it, and so is each client with a directory.
const SERVICE_COST: usize = 64;

/// Sessions, services and items that go away, worked off in turns.
#[derive(Debug)]
pub(crate) struct Outages {
    /// In the order in which they came.
    queue: VecDeque<Outage>,
    /// Items that leave providers at which their service is down, in the order in which it went down.
    pub(super) moves: KeyedQueue<(u16, SessionId), Move>,
    /// Items that may still be looked at in this turn.
    pub(super) budget: usize,
}

#[derive(Debug)]
enum Outage {
    /// A session is lost.
    Session {
        session: SessionId,
        /// The text for those who watch its items.
        text: String,
        /// Services that are not done with, the one at hand in front.
        services: VecDeque<u16>,
    },
    /// A session offers a service no more.
    Withdrawal { session: SessionId, service: u16, by: By },
    /// Nobody offers a service any more, and its last provider said so.
    Deletion { service: u16 },
    /// A service is of the other kind: items that have yet to be.
    Change { service: u16, items: Vec<Handle> },
}

/// The cause by which a service is offered no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The provider has said so: with the service its items are closed.
    Provider,
    /// The service is not taken any more, as it goes in a circle: the provider has its items still.
    Site,
    /// A service group is served from another of its members at the provider, which has its items still.
    Group,
}

impl By {
    /// The provider has the items still: they have to be closed there.
    const fn has_items(self) -> bool {
        matches!(self, Self::Site | Self::Group)
    }

    fn text(self, texts: StatusTexts) -> Cow<'static, str> {
        match self {
            Self::Provider => texts.service_down("Provider has withdrawn the service"),
            Self::Site => Cow::Borrowed("Service goes in a circle of sites"),
            Self::Group => Cow::Borrowed("Service group goes on with another of its services"),
        }
    }
}

impl Outages {
    pub(crate) fn new(budget: u32) -> Self {
        Self { queue: VecDeque::new(), moves: KeyedQueue::default(), budget: budget.max(1) as usize }
    }

    pub(crate) fn begin_turn(&mut self, budget: u32) {
        self.budget = budget.max(1) as usize;
    }

    /// True if there is something to do in the next turn.
    pub(crate) fn has_work(&self) -> bool {
        !(self.queue.is_empty() && self.moves.is_empty())
    }

    /// The items of a service have another kind from now on.
    pub(super) fn begin_change(&mut self, service: u16, items: Vec<Handle>) {
        self.queue.push_back(Outage::Change { service, items });
    }

    /// One more item is looked at. False if this turn may look at none.
    pub(crate) fn spend_one(&mut self) -> bool {
        let may = self.budget > 0;
        self.spend(1);
        may
    }

    /// Whether this turn may go on.
    pub(super) fn has_budget(&self) -> bool {
        self.budget > 0
    }

    pub(super) fn spend(&mut self, cost: usize) {
        self.budget = self.budget.saturating_sub(cost);
    }
}

impl Outage {
    fn is_of(&self, id: SessionId) -> bool {
        match *self {
            Self::Session { session, .. } | Self::Withdrawal { session, .. } => session == id,
            Self::Deletion { .. } | Self::Change { .. } => false,
        }
    }

    /// The text about an item of a service, if it is at a provider that this is about.
    fn text(&self, at: SessionId, of: u16, texts: StatusTexts) -> Option<Cow<'_, str>> {
        match self {
            Self::Session { session, text, .. } => (*session == at).then_some(Cow::Borrowed(text)),
            Self::Withdrawal { session, service, by } => (*session == at && *service == of).then(|| by.text(texts)),
            Self::Deletion { .. } | Self::Change { .. } => None,
        }
    }
}

/// The state for those who watch an item that its provider has no more.
fn lost(text: &str) -> State<'_> {
    State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, text)
}

impl SourceDistributor {
    /// Takes a session out, and its items to other providers or back into the queue. A session that is gone may be named.
    pub(crate) fn lose_session(&mut self, id: SessionId, reason: &str, out: &mut dyn ProviderSink) {
        // The session is gone already, with all that was owed for it.
        let Some(session) = self.providers.sessions.leave(id) else { return };
        let text = format!("Connection to provider {} lost: {reason}", session.peer.address);
        let text = self.config.status_texts.service_down(text).into_owned();
        let services = session.offers.iter().map(|offer| offer.service).collect();
        self.providers.merged_states.forget(id);
        self.refuse_posts_of(id, &text);
        self.published.forget_standbys(id);
        self.providers.outages.queue.push_back(Outage::Session { session: id, text, services });
        self.work_outages(out);
    }

    /// A provider does not offer a service any more. Its items go to another provider; without one the service is gone.
    pub(crate) fn withdraw(&mut self, id: SessionId, service: u16, delete: bool, out: &mut dyn ProviderSink) {
        self.begin_withdrawal(id, service, delete, By::Provider);
        self.work_outages(out);
        self.update_groups_of((id, service), None, delete, out);
    }

    /// Takes a provider's offer of a service no more.
    pub(super) fn take_no_more(&mut self, id: SessionId, service: u16, out: &mut dyn ProviderSink) {
        self.begin_withdrawal(id, service, false, By::Site);
        self.work_outages(out);
        self.update_groups_of((id, service), None, false, out);
    }

    pub(super) fn begin_withdrawal(&mut self, id: SessionId, service: u16, delete: bool, by: By) {
        self.forget_standbys_of(id, service);
        // The service's items are leaving already since it was withdrawn before, and none has been opened since.
        let is_leaving = self.providers.sessions[id].offer(service).is_some_and(|offer| !offer.is_settled());
        self.providers.sessions[id].offers.withdraw(service);
        self.providers.services[service].remove_provider(id);
        if delete
            && self.providers.services[service].providers().is_empty()
            && self.providers.stands_by(service).is_none()
        {
            self.begin_deletion(service);
        }
        if !is_leaving {
            self.providers.outages.queue.push_back(Outage::Withdrawal { session: id, service, by });
        }
    }

    /// Nobody offers the service any more, and its last provider said so: its items are over.
    pub(crate) fn begin_deletion(&mut self, service: u16) {
        self.tell_gone(service);
        if !std::mem::replace(&mut self.providers.services[service].is_settling, true) {
            self.providers.outages.queue.push_back(Outage::Deletion { service });
        }
    }

    /// P2PSs know the service no more.
    pub(crate) fn tell_gone(&mut self, service: u16) {
        if std::mem::replace(&mut self.providers.services[service].advertised, false) {
            self.hub.event(&Event::ServiceGone { service });
        }
    }

    /// Goes on with outages, as far as this turn lets it.
    pub(crate) fn work_outages(&mut self, out: &mut dyn ProviderSink) {
        while self.providers.outages.budget > 0 && self.work_outage(out) {}
        self.work_moves(out);
    }

    /// The session has no items when this returns: another one is about to have its slot.
    pub(crate) fn finish_outage_of(&mut self, id: SessionId, out: &mut dyn ProviderSink) {
        self.finish_outages(out, |outage| outage.is_of(id));
    }

    /// A provider offers a service again: what it was is over when this returns.
    pub(super) fn finish_outages_in(&mut self, id: SessionId, of: u16, out: &mut dyn ProviderSink) {
        self.finish_outages(out, |outage| match *outage {
            Outage::Session { .. } => false,
            Outage::Withdrawal { session, service, .. } => (session, service) == (id, of),
            Outage::Deletion { service } | Outage::Change { service, .. } => service == of,
        });
    }

    /// Nothing of a service goes away any more when this returns, whoever offered it.
    pub(super) fn finish_outages_of(&mut self, of: u16, out: &mut dyn ProviderSink) {
        self.finish_outages(out, |outage| match outage {
            Outage::Session { services, .. } => services.contains(&of),
            Outage::Withdrawal { service, .. } | Outage::Deletion { service } | Outage::Change { service, .. } => {
                *service == of
            }
        });
    }

    fn finish_outages(&mut self, out: &mut dyn ProviderSink, which: impl Fn(&Outage) -> bool) {
        let budget = self.providers.outages.budget;
        while let Some(at) = self.providers.outages.queue.iter().position(&which) {
            // To the front: most often that is where the outage is.
            let Some(outage) = self.providers.outages.queue.remove(at) else {
                return hub_items::fault!("no outage at {at} of {}", self.providers.outages.queue.len());
            };
            self.providers.outages.queue.push_front(outage);
            self.providers.outages.budget = usize::MAX;
            while self.providers.outages.queue.front().is_some_and(&which) {
                self.work_outage(out);
            }
        }
        self.providers.outages.budget = budget;
    }

    /// The next piece of the outage in front: items of one service, at most as many as this turn may look at. False if there is none.
    fn work_outage(&mut self, out: &mut dyn ProviderSink) -> bool {
        let Some(outage) = self.providers.outages.queue.front_mut() else { return false };
        match outage {
            Outage::Session { session, text, services } => {
                let (id, text) = (*session, text.clone());
                let Some(&service) = services.front() else {
                    debug_assert_eq!(
                        self.providers.sessions[id].streams.iter().count(),
                        0,
                        "items that no service had"
                    );
                    self.upstream.forget_session(id);
                    self.providers.sessions.forget(id);
                    self.providers.outages.queue.pop_front();
                    return true;
                };
                let there = self.items.at(id, service).len() + self.hot_standby.at(id, service).len();
                if there <= self.providers.outages.budget {
                    services.pop_front();
                    self.providers.services[service].remove_provider(id);
                }
                self.leave_provider((id, By::Provider, true), service, &text, out);
            }
            &mut Outage::Withdrawal { session, service, by } => {
                let there = self.items.at(session, service).len() + self.hot_standby.at(session, service).len();
                if there <= self.providers.outages.budget {
                    self.providers.outages.queue.pop_front();
                }
                let text = by.text(self.config.status_texts);
                self.leave_provider((session, by, false), service, &text, out);
            }
            &mut Outage::Deletion { service } => self.end_items(service, out),
            Outage::Change { service, items } => {
                let (service, first) = (*service, items.len().saturating_sub(self.providers.outages.budget));
                let some = items.split_off(first);
                self.providers.outages.spend(some.len() + if first == 0 { SERVICE_COST } else { 0 });
                if first == 0 {
                    self.providers.outages.queue.pop_front();
                }
                self.change_items(service, &some, out);
                if first == 0 {
                    self.end_change(service, out);
                }
            }
        }
        true
    }

    /// Items of a service leave a provider that has them no more, or that is lost, as many as this turn may look at.
    fn leave_provider(
        &mut self,
        (id, by, is_lost): (SessionId, By, bool),
        service: u16,
        text: &str,
        out: &mut dyn ProviderSink,
    ) {
        let there = self.items.at(id, service).len();
        let mut handles: Vec<Handle> = self.items.at(id, service).take(self.providers.outages.budget).collect();
        handles.sort_unstable();
        let (mirrors, room) = (self.hot_standby.at(id, service).len(), self.providers.outages.budget - handles.len());
        let is_last = handles.len() == there && mirrors <= room;
        self.providers.outages.spend(handles.len() + mirrors.min(room) + if is_last { SERVICE_COST } else { 0 });
        self.counters.items_touched += handles.len() as u64;
        if mirrors > 0 && room > 0 {
            self.leave_mirrors_at((id, service), room, by.has_items(), out);
        }
        let mut waited_for = Vec::new();
        if self.providers.sessions[id].origin == Origin::NonInteractive {
            self.published_lost(service, &handles, lost(text), is_last);
        } else {
            let former = if by.has_items() { Former::Closed } else { Former::Gone };
            handles = self.not_taken_over(handles, former, out);
            let is_asked = |handle: &Handle| is_lost && self.items[*handle].is_asked();
            let asked: Vec<Handle> = handles.iter().copied().filter(is_asked).collect();
            for &handle in &handles {
                self.take_off(handle, by, out);
            }
            self.doubt(id, &asked, &mut handles);
            waited_for = self.lose_items(service, &handles, lost(text), is_last);
        }
        if is_last {
            let address = self.providers.sessions[id].peer.address.clone();
            self.tell_taken_over(id, &address, service);
            self.providers.sessions[id].offers.settle(service);
            self.note_first_provider(service, out);
            self.take_over(service, out);
            self.advertise(service);
            let restart = self.providers.rules(&self.config, service).restart;
            if let Some(at) = self.providers.services[service].await_restart(self.now, restart) {
                self.timers.set(at, Timer::Restart(service));
            }
        }
        self.ask_queued(service, out);
        self.explain_waits(&waited_for);
        self.explain_queue(service);
    }

    /// Takes an item off an interactive provider that offers its service no more, if it is at one. A stream that the provider has closed
    /// by that needs no close; one that it may not even have opened yet does.
    pub(super) fn take_off(&mut self, handle: Handle, by: By, out: &mut dyn ProviderSink) {
        if by.has_items() || self.items[handle].is_asked() {
            self.close_upstream(handle, out);
        } else {
            self.detach(handle, out);
        }
    }

    /// A provider answers on a stream that it had before it withdrew the service: the request has crossed with that, and has opened a stream
    /// that only a close ends. The item is asked for again.
    pub(crate) fn answered_anew(&mut self, handle: Handle, out: &mut dyn ProviderSink) {
        let service = self.items[handle].service();
        self.close_upstream(handle, out);
        let text = By::Provider.text(self.config.status_texts);
        let waited_for = self.lose_items(service, &[handle], lost(&text), false);
        self.ask_queued(service, out);
        self.explain_waits(&waited_for);
        self.explain_queue(service);
    }

    /// Items of a service that is gone are over, as many as this turn may look at.
    fn end_items(&mut self, service: u16, out: &mut dyn ProviderSink) {
        let there = self.items.of_service(service).len();
        let mut handles: Vec<Handle> = self.items.of_service(service).take(self.providers.outages.budget).collect();
        handles.sort_unstable();
        let is_last = handles.len() == there;
        self.providers.outages.spend(handles.len() + if is_last { SERVICE_COST } else { 0 });
        self.counters.items_touched += handles.len() as u64;
        for handle in handles {
            // The end of a cached item ends the snapshots that wait for it.
            if self.items.get(handle).is_some_and(|item| !item.is_ended()) {
                self.take_off(handle, By::Provider, out);
                self.unpublish(handle);
                self.end_item(handle);
            }
        }
        if !is_last {
            return;
        }
        self.providers.outages.queue.pop_front();
        let known = &mut self.providers.services[service];
        known.clear_queues();
        known.is_settling = false;
        self.take_over(service, out);
        self.advertise(service);
    }

    /// A provider goes on with an item that it may have published in a session that is lost: there it is published no more.
    pub(crate) fn settle_published(&mut self, handle: Handle) {
        if self.providers.outages.queue.is_empty() {
            return;
        }
        let item = &self.items[handle];
        // An item that nobody publishes is in no session.
        let (service, Some(place)) = (item.service(), item.place()) else { return };
        let texts = self.config.status_texts;
        let text = self.providers.outages.queue.iter().find_map(|outage| outage.text(place.session, service, texts));
        // The item's session is not among those that are lost.
        let Some(text) = text.map(Cow::into_owned) else { return };
        self.published_lost(service, &[handle], lost(&text), false);
    }
}
