//! Services that go away, and how items come back.

use super::Origin;
use crate::distributor::ids::Handle;
use crate::distributor::{ProviderSink, SessionId, SourceDistributor};
use crate::stream::Event;
use rwf::{DataState, State, StateCode, StreamState};

impl SourceDistributor {
    /// Items that have been taken off their provider: tells those who have had an answer, and queues them. Those among them that
    /// somebody waits for without an answer: to be told of when it is clear whether they have to wait on.
    pub(super) fn lose_items(&mut self, service: u16, handles: &[Handle], state: State<'_>) -> Vec<Handle> {
        let mut waited_for = Vec::new();
        let at_once = self.is_all_of(service, handles);
        if at_once {
            self.hub.event(&Event::ServiceStatus { service, state });
        }
        for &handle in handles {
            let item = &self.items[handle];
            let told = at_once && item.has_interest() && !item.is_private();
            // Of a snapshot's image parts may have come here that its P2PS, which waits for the last one, has not used.
            let waits = item.is_waited_for() || item.is_snapshot();
            if told {
                self.cache.set_state(handle.0, &state);
                self.mark_lost(handle);
            }
            if told || self.lose_item(handle, state.code, state.text) {
                self.enqueue(handle);
                waited_for.extend(waits.then_some(handle));
            }
        }
        waited_for
    }

    /// Whether these are all the items of the service that have had an answer, and none of them was told before, so that one
    /// message for the service says it for each of them.
    fn is_all_of(&self, service: u16, handles: &[Handle]) -> bool {
        let mut answered = 0;
        for item in handles.iter().map(|&handle| &self.items[handle]).filter(|item| item.has_interest()) {
            if item.is_answered() && !item.is_private() {
                if item.is_suspect() {
                    return false;
                }
                answered += 1;
            }
        }
        let known = &self.services[service];
        // One that is lost may have more of them.
        let elsewhere = known.providers().iter().filter_map(|&id| self.providers[id].offer(service));
        answered > 0 && known.lost_items() == 0 && elsewhere.map(|offer| offer.open).sum::<u32>() == 0
    }

    /// The items of a service at one session, taken off it. Streams that it has closed by withdrawing the service need no
    /// close; those that it may not even have opened yet do.
    fn detach_all(&mut self, now: u64, id: SessionId, service: u16, out: &mut dyn ProviderSink) -> Vec<Handle> {
        let handles = self.items_at(id, service);
        for &handle in &handles {
            if self.items[handle].is_asked() {
                self.close_upstream(now, handle, out);
            } else {
                self.detach(now, handle);
            }
        }
        handles
    }

    /// The items of a service that a session has on its streams.
    pub(crate) fn items_at(&self, id: SessionId, service: u16) -> Vec<Handle> {
        self.items.at(id, service).collect()
    }

    /// A provider does not offer a service any more. Its items go to another provider; without one the service is gone.
    pub(crate) fn withdraw(&mut self, now: u64, id: SessionId, service: u16, delete: bool, out: &mut dyn ProviderSink) {
        let published = self.providers[id].origin == Origin::NonInteractive;
        let handles = if published { self.items_at(id, service) } else { self.detach_all(now, id, service, out) };
        self.forget_standbys_of(id, service);
        self.providers[id].offers.remove(service);
        let known = &mut self.services[service];
        known.remove_provider(id);
        let text = "Provider has withdrawn the service";
        let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, text);
        let mut waited_for = Vec::new();
        if delete && known.providers().is_empty() {
            self.delete_service(now, service, out);
        } else if published {
            self.published_lost(service, &handles, state);
        } else {
            waited_for = self.lose_items(service, &handles, state);
        }
        self.take_over(now, service, out);
        self.advertise(service);
        self.send_queued(now, service, out);
        self.explain_waits(now, &waited_for);
    }

    /// Nobody offers the service any more, and its last provider said so: its items are over.
    pub(in crate::distributor) fn delete_service(&mut self, now: u64, service: u16, out: &mut dyn ProviderSink) {
        let known = &mut self.services[service];
        known.clear_queues();
        if std::mem::replace(&mut known.advertised, false) {
            self.hub.event(&Event::ServiceGone { service });
        }
        let mut handles: Vec<Handle> = self.items.of_service(service).collect();
        handles.sort_unstable();
        for handle in handles {
            // The end of a cached item ends the snapshots that wait for it.
            if self.items.get(handle).is_some_and(|item| !item.is_ended()) {
                self.close_upstream(now, handle, out);
                self.unpublish(handle);
                self.end_item(handle);
            }
        }
    }
}
