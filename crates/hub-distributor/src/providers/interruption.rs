//! Providers that are connected and send no data: the detector of interruptions.
//!
//! Where a route has an [`crate::Interruption`], the data (updates, and images that nobody has asked for) of each of its services are
//! watched. A service that has ticked for the traffic window and is silent for the duration, though items of it are open and not paused,
//! is *interrupted* at that provider: its items go to other providers that have it and tick, a hot standby takes over, and those that
//! nobody else has are told Suspect. The next data end that: items that were told Suspect get a new image.
//!
//! From an interrupted provider that has no item any more no data can come. It is asked for items again after a pause that grows, and has
//! to tick at once then: until it does it is *on trial*. What is Suspect since all who have it are silent goes to one on trial, too.
//!
//! Updates of such routes are looked at one by one, as those of cached items are; those of other routes are not concerned.

use super::Providers;
use super::data_flow::Due;
use crate::ids::Handle;
use crate::timers::Timer;
use crate::{Notice, ProviderSink, SessionId, SourceDistributor};
use rwf::{DataState, State, StateCode, StreamState};

impl Providers {
    /// Whether a service is interrupted at a provider.
    pub(crate) fn is_interrupted(&self, id: SessionId, service: u16) -> bool {
        self.sessions.offer(id, service).is_some_and(|offer| offer.flow.is_interrupted())
    }
}

impl SourceDistributor {
    /// Whether the data of an item's provider are watched for interruptions: its updates are looked at one by one then.
    pub(crate) fn is_monitored(&self, handle: Handle) -> bool {
        let place = self.items[handle].place();
        place.is_some_and(|place| self.providers.sessions[place.session].interruption.is_some())
    }

    /// Has the deadline that counts come as a timer.
    fn await_deadline(&mut self, id: SessionId, service: u16) {
        let due = self.providers.sessions.watched(id, service).and_then(|(flow, _)| flow.due());
        if let Some(due) = due {
            self.timers.set(due, Timer::Data(id, self.providers.sessions[id].serial, service));
        }
    }

    /// Data of a service have come from a provider that nobody had asked for.
    pub(crate) fn note_data(&mut self, id: SessionId, service: u16, out: &mut dyn ProviderSink) {
        // The data of most providers are not watched.
        let Some((flow, settings)) = self.providers.sessions.watched(id, service) else { return };
        let resumes = flow.data(self.now);
        if resumes || flow.due().is_none() {
            flow.expect_by(self.now.saturating_add(settings.duration));
            self.await_deadline(id, service);
        }
        if resumes {
            self.data_resumed(id, service, out);
        }
    }

    /// A provider may have been silent for too long.
    pub(crate) fn data_timer(&mut self, id: SessionId, service: u16, out: &mut dyn ProviderSink) {
        let is_open = self.is_data_expected(id, service);
        let pause = self.providers.rules(&self.config, service).retry_max_interval;
        // The service is offered there no more.
        let Some((flow, settings)) = self.providers.sessions.watched(id, service) else { return };
        let what = flow.timer(self.now, is_open, settings, pause);
        if what != Due::Moved {
            self.await_deadline(id, service);
        }
        match what {
            Due::Moved | Due::Nothing => {}
            Due::Interrupted(silent) => self.data_interrupted(id, service, silent, out),
            Due::Trial => {
                self.note_first_provider(service, out);
                self.want_mirrors(service);
                self.leave_silent_providers(service);
                self.providers.services[service].look_at_set_aside();
                self.send_queued(service, out);
            }
        }
    }

    /// Whether a provider that ticks would send data now: the service is up there, and items are open that are not paused.
    fn is_data_expected(&self, id: SessionId, service: u16) -> bool {
        let is_up = self.providers.sessions.offer(id, service).is_some_and(|offer| offer.up);
        let ticks = |handle: Handle| self.items[handle].is_open() && !self.upstream.is_paused(handle);
        is_up && (self.hot_standby.at(id, service).len() > 0 || self.items.at(id, service).any(ticks))
    }

    fn data_interrupted(&mut self, id: SessionId, service: u16, silent: u64, out: &mut dyn ProviderSink) {
        self.counters.data_interruptions += 1;
        let (name, provider) =
            (self.providers.services[service].name.clone(), self.providers.sessions[id].peer.address.clone());
        self.notices.push(Notice::DataInterrupted { service: name, provider, silent });
        self.note_first_provider(service, out);
        self.begin_silence(service, id);
        self.work_moves(out);
    }

    /// The provider ticks again: items that wait for that have a new image asked for, in the turns to come, and those that others are
    /// silent about come to it.
    fn data_resumed(&mut self, id: SessionId, service: u16, out: &mut dyn ProviderSink) {
        self.counters.data_resumptions += 1;
        let (name, provider) =
            (self.providers.services[service].name.clone(), self.providers.sessions[id].peer.address.clone());
        self.notices.push(Notice::DataResumed { service: name, provider });
        self.note_first_provider(service, out);
        self.want_mirrors(service);
        self.begin_return(service, id);
        self.leave_silent_providers(service);
    }

    /// An operator wants a provider, whatever was found of it: it is on trial.
    pub(super) fn trust_again(&mut self, id: SessionId, service: u16) {
        if let Some((flow, settings)) =
            self.providers.sessions.watched(id, service).filter(|(flow, _)| flow.is_interrupted())
        {
            flow.try_again(self.now);
            flow.expect_by(self.now.saturating_add(settings.duration));
            self.await_deadline(id, service);
            self.begin_return(service, id);
        }
    }

    /// Items whose provider is silent, and that no other has: those who watch are told Suspect, until it ticks again and they get a new
    /// image. What nobody watches is closed.
    pub(super) fn fall_silent(&mut self, id: SessionId, handles: &[Handle], out: &mut dyn ProviderSink) {
        let text = format!("No data from provider {}: waiting for it", self.providers.sessions[id].peer.address);
        let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, &text);
        for &handle in handles {
            if !self.items[handle].has_interest() {
                self.close_upstream(handle, out);
                self.forget_item(handle);
            } else if self.items[handle].fall_silent() {
                self.counters.items_silent += 1;
                self.providers.services[self.items[handle].service()].item_is_lost();
                self.content.lose_image(handle);
                self.content.set_state(handle, &state);
                self.set_live(handle, false);
                self.publish_status(handle, crate::stream::ALL, 0, state);
            }
        }
    }

    /// An image that was asked for is whole: it is not what a provider that is silent would have sent.
    pub(crate) fn answered_in_silence(&mut self, handle: Handle, out: &mut dyn ProviderSink) {
        let item = &self.items[handle];
        let silent = item.place().filter(|place| self.providers.is_interrupted(place.session, item.service()));
        if let Some(place) = silent {
            self.fall_silent(place.session, &[handle], out);
        }
    }

    /// Items whose provider ticks again: they have a new image asked for.
    pub(super) fn return_items(&mut self, handles: &[Handle], out: &mut dyn ProviderSink) {
        for &handle in handles {
            if self.items[handle].is_open() && self.items[handle].is_lost() {
                self.want_another_image(handle, out);
            }
        }
    }
}
