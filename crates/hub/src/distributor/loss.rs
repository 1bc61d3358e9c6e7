//! Sessions and services that go away, and how their items come back.

use super::items::{Bits, NO_SESSION, Upstream};
use super::sessions::{Origin, Session};
use super::{ProviderSink, SourceDistributor};
use crate::stream::Event;
use rwf::{DataState, State, StateCode, StreamState};

impl SourceDistributor {
    /// Takes a session out, and its items to other providers or back into the queue.
    pub(super) fn lose_session(&mut self, now: u64, id: u32, reason: &str, out: &mut dyn ProviderSink) {
        let Some(session) = self.sessions.get_mut(id as usize).and_then(Option::take) else { return };
        let text = format!("Connection to provider {} lost: {reason}", session.peer.address);
        let mut services: Vec<u16> = session.offers.iter().map(|offer| offer.service).collect();
        services.sort_unstable();
        services.dedup();
        for &service in &services {
            if let Some(service) = self.services.get_mut(service) {
                service.providers.retain(|&provider| provider != id);
            }
        }
        self.posts.session_lost(id, &text, &mut self.hub, &self.peers, &mut self.scratch, &mut self.counters);
        self.lose_streams(&session, &text);
        for &service in &services {
            self.advertise(service);
        }
        for service in services {
            self.pump(now, service, out);
        }
    }

    /// The items of a session that is gone.
    fn lose_streams(&mut self, session: &Session, text: &str) {
        let mut items: Vec<(u16, u32)> =
            session.streams.iter().filter_map(|(_, handle)| Some((self.items.get(handle)?.service, handle))).collect();
        items.sort_unstable();
        items.dedup();
        for items in items.chunk_by(|a, b| a.0 == b.0) {
            let service = items[0].0;
            for &(_, handle) in items {
                if let Some(item) = self.items.get_mut(handle) {
                    item.session = NO_SESSION;
                    if !item.has(Bits::PUBLISHED) {
                        item.leave();
                        if self.direct.break_off(handle) && item.has(Bits::ANSWERED) && !item.is_instance() {
                            item.bits.set(Bits::AGAIN, true);
                        }
                    }
                    item.upstream = Upstream::Idle;
                }
                self.items.renew(handle);
                self.owed.start_over(handle);
            }
            let handles: Vec<u32> = items.iter().map(|(_, handle)| *handle).collect();
            let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, text);
            if session.origin == Origin::NonInteractive {
                self.published_lost(service, &handles, state);
            } else {
                self.lose_items(service, &handles, state);
            }
        }
    }

    /// Items that have been taken off their provider: tells those who watch, and queues them.
    pub(super) fn lose_items(&mut self, service: u16, handles: &[u32], state: State<'_>) {
        let at_once = self.is_all_of(service, handles);
        if at_once {
            self.hub.event(&Event::ServiceStatus { service, state });
        }
        for &handle in handles {
            if at_once && self.items.get(handle).is_some_and(|item| item.interest != 0 && !item.has(Bits::PRIVATE)) {
                self.mark_lost(handle);
            } else {
                self.lose_item(handle, state.code, state.text);
            }
            self.enqueue(handle);
        }
    }

    /// Whether these are all the items of the service that have had an answer, and none of them was told before, so that one
    /// message for the service says it for each of them.
    fn is_all_of(&self, service: u16, handles: &[u32]) -> bool {
        let mut answered = 0;
        for &handle in handles {
            let Some(item) = self.items.get(handle).filter(|item| item.interest != 0) else { continue };
            if item.has(Bits::ANSWERED) && !item.has(Bits::PRIVATE) {
                if item.has(Bits::SUSPECT) {
                    return false;
                }
                answered += 1;
            }
        }
        let Some(known) = self.services.get(service) else { return false };
        let elsewhere = known.providers.iter().filter_map(|&id| self.session(id)?.offer(service));
        answered > 0 && known.lost_items == 0 && elsewhere.map(|offer| offer.open).sum::<u32>() == 0
    }

    /// The items of a service at one session, taken off it. Streams that it has closed by withdrawing the service need no
    /// close; those that it may not even have opened yet do.
    fn detach_all(&mut self, now: u64, id: u32, service: u16, out: &mut dyn ProviderSink) -> Vec<u32> {
        let Some(session) = self.session(id) else { return Vec::new() };
        let mut handles: Vec<u32> = session.streams.iter().map(|(_, handle)| handle).collect();
        handles.retain(|&handle| self.items.get(handle).is_some_and(|item| item.service == service));
        for &handle in &handles {
            if self.items.get(handle).is_some_and(|item| item.upstream == Upstream::Asked) {
                self.close_upstream(now, handle, out);
            } else {
                self.detach(now, handle);
            }
        }
        handles
    }

    /// A provider does not offer a service any more. Its items go to another provider; without one the service is gone.
    pub(super) fn withdraw(&mut self, now: u64, id: u32, service: u16, delete: bool, out: &mut dyn ProviderSink) {
        let published = self.session(id).is_some_and(|session| session.origin == Origin::NonInteractive);
        let handles = if published { self.published_at(id, service) } else { self.detach_all(now, id, service, out) };
        if let Some(session) = self.session_mut(id) {
            session.offers.retain(|offer| offer.service != service);
        }
        let Some(known) = self.services.get_mut(service) else { return };
        known.providers.retain(|&provider| provider != id);
        let text = "Provider has withdrawn the service";
        let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, text);
        if delete && known.providers.is_empty() {
            self.delete_service(now, service, out);
        } else if published {
            self.published_lost(service, &handles, state);
        } else {
            self.lose_items(service, &handles, state);
        }
        self.advertise(service);
        self.pump(now, service, out);
    }

    /// Nobody offers the service any more, and its last provider said so: its items are over.
    fn delete_service(&mut self, now: u64, service: u16, out: &mut dyn ProviderSink) {
        let Some(known) = self.services.get_mut(service) else { return };
        known.fresh.clear();
        known.lost.clear();
        if std::mem::replace(&mut known.advertised, false) {
            self.hub.event(&Event::ServiceGone { service });
        }
        let handles: Vec<u32> = self
            .items
            .handles()
            .filter(|&handle| self.items.get(handle).is_some_and(|item| item.service == service))
            .collect();
        for handle in handles {
            self.close_upstream(now, handle, out);
            self.end_item(handle);
        }
    }
}
