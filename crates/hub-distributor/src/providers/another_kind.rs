//! A service that goes on with a provider of the other kind: an interactive one is gone, and a non-interactive one has the name now, or the
//! other way round.
//!
//! To those who watch it is the same service, with the same id, that is down for a while; their items are Suspect, and good again when they
//! are published, or answered. Nothing is closed but what nobody could give back: snapshots that wait, and private streams.

use super::outage::By;
use crate::ids::Handle;
use crate::stream::{ALL, flags};
use crate::timers::Timer;
use crate::{ProviderSink, SourceDistributor};
use rwf::{DataState, State, StateCode, StreamState};

/// The text for those whose items are on their way to the other provider.
const TEXT: &str = "Service goes on with a provider of another kind";

impl SourceDistributor {
    /// The service of a name that a provider of the other kind has had, and none has now: it is of this kind when this returns.
    pub(super) fn change_kind_of(&mut self, name: &str, cached: bool, out: &mut dyn ProviderSink) -> Option<u16> {
        let service = self.providers.services.by_name(name)?;
        self.finish_outages_of(service, out);
        let known = &self.providers.services[service];
        if known.cached == cached || !known.providers().is_empty() || known.is_group {
            return None;
        }
        self.begin_change(service);
        self.finish_outages_of(service, out);
        Some(service)
    }

    /// A service is of the other kind from now on; its items follow in turns.
    pub(super) fn begin_change(&mut self, service: u16) {
        let known = &mut self.providers.services[service];
        debug_assert!(known.providers().is_empty(), "it has providers of its kind");
        known.cached = !known.cached;
        known.is_restored = false;
        known.is_settling = true;
        let items = self.items.of_service(service).collect();
        self.providers.outages.begin_change(service, items);
    }

    /// Some items of a service that is of the other kind now.
    pub(super) fn change_items(&mut self, service: u16, items: &[Handle], out: &mut dyn ProviderSink) {
        self.counters.items_touched += items.len() as u64;
        for &handle in items {
            // The item may have ended meanwhile, and another may have its handle.
            if self.items.get(handle).is_some_and(|item| item.service() == service && !item.is_ended()) {
                self.change_item(handle, out);
            }
        }
    }

    /// All items of a service are of its kind.
    pub(super) fn end_change(&mut self, service: u16, out: &mut dyn ProviderSink) {
        let known = &mut self.providers.services[service];
        known.is_settling = false;
        if known.cached {
            known.clear_queues();
        }
        self.take_over(service, out);
        self.advertise(service);
        self.send_queued(service, out);
    }

    fn change_item(&mut self, handle: Handle, out: &mut dyn ProviderSink) {
        let item = &self.items[handle];
        let (cached, is_instance) = (self.providers.services[item.service()].cached, item.is_instance());
        if !is_instance && item.is_cached() == cached {
            return;
        }
        if cached {
            self.take_off(handle, By::Provider, out);
        } else {
            self.unpublish(handle);
            self.end_waiting_snapshots(handle);
        }
        let item = &self.items[handle];
        if is_instance || !item.has_interest() {
            self.end_changed(handle);
        } else if cached {
            self.become_cached(handle);
        } else {
            self.become_shared(handle);
        }
    }

    /// Nobody can give it back, or nobody wants it.
    fn end_changed(&mut self, handle: Handle) {
        if self.items[handle].has_interest() {
            let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, TEXT);
            self.publish_status(handle, ALL, flags::CLOSED, state);
        }
        self.end_item(handle);
    }

    fn end_waiting_snapshots(&mut self, shared: Handle) {
        for instance in self.published.take_snapshots(shared) {
            self.end_changed(instance);
        }
    }

    fn become_cached(&mut self, handle: Handle) {
        if !self.lose_item(handle, StateCode::NONE, TEXT.as_bytes()) {
            return;
        }
        self.upstream.owe_nothing(handle);
        self.content.forget(handle);
        self.hot_standby.forget(handle);
        self.items.renew(handle);
        let image = self.published.begin_waiting(handle, self.items[handle].is_answered());
        self.items.become_cached(handle, image);
        self.begin_record(handle, 0, false);
    }

    fn become_shared(&mut self, handle: Handle) {
        self.abandon_set(handle);
        if !self.lose_item(handle, StateCode::NONE, TEXT.as_bytes()) {
            return;
        }
        let Some(image) = self.items[handle].image() else {
            return hub_items::fault!("{handle:?} has no image, and is published");
        };
        self.end_record(handle, image);
        self.items.become_shared(handle);
        self.published.forget(handle, Some(image));
        let epoch = self.items.renew(handle);
        self.enqueue(handle);
        let timer = Timer::Request(handle, epoch);
        let timeout = self.providers.rules(&self.config, self.items[handle].service()).request_timeout;
        self.timers.set(self.now.saturating_add(timeout), timer);
    }
}
