//! Providers that are connected and send no data: the detector of interruptions.
//!
//! Where a route has an [`Interruption`], the data (updates, and images that nobody has asked for) of each of its services are
//! watched. A service that has ticked for the traffic window and is silent for the duration, though items of it are open and not paused,
//! is *interrupted* at that provider: its items go to other providers that have it and tick, a hot standby takes over, and those that
//! nobody else has are told Suspect. The next data end that: items that were told Suspect get a new image.
//!
//! From an interrupted provider that has no item any more no data can come. It is asked for items again after a pause that grows, and has
//! to tick at once then: until it does it is *on trial*. What is Suspect since all who have it are silent goes to one on trial, too.
//!
//! Updates of such routes are looked at one by one, as those of cached items are; those of other routes are not concerned.

use crate::config::Interruption;
use crate::ids::Handle;
use crate::timers::Timer;
use crate::{Notice, ProviderSink, SessionId, SourceDistributor};
use rwf::{DataState, State, StateCode, StreamState};

/// How often the pause before a trial is doubled at most.
const DOUBLED: u8 = 6;

/// The data of one service of a provider.
#[derive(Debug, Default)]
pub(crate) struct DataFlow {
    /// Since when data have come without an interruption; none if none are expected.
    since: Option<u64>,
    /// When the last of them came.
    last: u64,
    /// The deadline that counts: there is a timer for it.
    due: Option<u64>,
    /// Silence counts whatever has come before.
    is_on_trial: bool,
    is_interrupted: bool,
    /// Interruptions in a row without data between.
    in_vain: u8,
}

/// What is to be done when a deadline has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// The timer was set for a deadline that has moved since.
    Moved,
    Nothing,
    /// The service has been silent for this long.
    Interrupted(u64),
    /// The service has nothing open any more, and is on trial from now on.
    Trial,
}

impl DataFlow {
    /// The service is silent, and should not be.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// Data have come. True if they end an interruption.
    fn data(&mut self, now: u64) -> bool {
        self.since.get_or_insert(now);
        (self.last, self.is_on_trial, self.in_vain) = (now, false, 0);
        std::mem::take(&mut self.is_interrupted)
    }

    /// The service is on trial from now on.
    fn try_again(&mut self, now: u64) {
        (self.is_interrupted, self.is_on_trial, self.last) = (false, true, now);
    }

    /// A timer has come: whether it is the one that counts, and what is to be done then. `is_open`: data are expected, since items are open
    /// and not paused. `pause` is that before the first trial.
    fn timer(&mut self, now: u64, is_open: bool, settings: Interruption, pause: u64) -> Due {
        if self.due.is_none_or(|due| due > now) {
            return Due::Moved;
        }
        self.due = None;
        let pause = |in_vain: u8| pause.saturating_mul(1 << in_vain.saturating_sub(1).min(DOUBLED));
        let silent = now.saturating_sub(self.last);
        if self.is_interrupted {
            if !is_open {
                self.try_again(now);
                self.due = Some(now.saturating_add(settings.duration));
                return Due::Trial;
            }
            self.due = Some(now.saturating_add(pause(self.in_vain)));
            return Due::Nothing;
        }
        let has_ticked = self.since.is_some_and(|since| self.last.saturating_sub(since) >= settings.traffic_window);
        if !is_open && self.is_on_trial {
            self.last = now;
            self.due = Some(now.saturating_add(settings.duration));
        } else if is_open && silent < settings.duration {
            self.due = Some(self.last.saturating_add(settings.duration));
        } else if is_open && (has_ticked || self.is_on_trial) {
            (self.is_interrupted, self.is_on_trial, self.since) = (true, false, None);
            self.in_vain = self.in_vain.saturating_add(1);
            self.due = Some(now.saturating_add(pause(self.in_vain)));
            return Due::Interrupted(silent);
        } else {
            self.since = None;
        }
        Due::Nothing
    }
}

impl SourceDistributor {
    /// Whether the data of an item's provider are watched for interruptions: its updates are looked at one by one then.
    pub(crate) fn is_monitored(&self, handle: Handle) -> bool {
        let place = self.items[handle].place();
        place.is_some_and(|place| self.providers[place.session].interruption.is_some())
    }

    /// Whether a service is interrupted at a provider.
    pub(crate) fn is_interrupted(&self, id: SessionId, service: u16) -> bool {
        self.providers.offer(id, service).is_some_and(|offer| offer.flow.is_interrupted())
    }

    /// The data of a service of a provider; `None` where they are not watched, or the provider offers the service no more.
    fn watched(&mut self, id: SessionId, service: u16) -> Option<(&mut DataFlow, Interruption)> {
        let session = &mut self.providers[id];
        let settings = session.interruption?;
        Some((&mut session.offer_mut(service)?.flow, settings))
    }

    /// Has the deadline that counts come as a timer.
    fn await_deadline(&mut self, id: SessionId, service: u16) {
        let due = self.watched(id, service).and_then(|(flow, _)| flow.due);
        if let Some(due) = due {
            self.timers.set(due, Timer::Data(id, self.providers[id].serial, service));
        }
    }

    /// Data of a service have come from a provider that nobody had asked for.
    pub(crate) fn note_data(&mut self, now: u64, id: SessionId, service: u16, out: &mut dyn ProviderSink) {
        let Some((flow, settings)) = self.watched(id, service) else { return };
        let resumes = flow.data(now);
        if resumes || flow.due.is_none() {
            flow.due = Some(now.saturating_add(settings.duration));
            self.await_deadline(id, service);
        }
        if resumes {
            self.data_resumed(now, id, service, out);
        }
    }

    /// A provider may have been silent for too long.
    pub(crate) fn data_timer(&mut self, now: u64, id: SessionId, service: u16, out: &mut dyn ProviderSink) {
        let is_open = self.is_data_expected(id, service);
        let pause = self.config.retry_max_interval;
        let Some((flow, settings)) = self.watched(id, service) else { return };
        let what = flow.timer(now, is_open, settings, pause);
        if what != Due::Moved {
            self.await_deadline(id, service);
        }
        match what {
            Due::Moved | Due::Nothing => {}
            Due::Interrupted(silent) => self.data_interrupted(now, id, service, silent, out),
            Due::Trial => {
                self.note_first_provider(now, service, out);
                self.want_mirrors(service);
                self.leave_silent_providers(service);
                self.services[service].look_at_set_aside();
                self.send_queued(now, service, out);
            }
        }
    }

    /// Whether a provider that ticks would send data now: the service is up there, and items are open that are not paused.
    fn is_data_expected(&self, id: SessionId, service: u16) -> bool {
        let is_up = self.providers.offer(id, service).is_some_and(|offer| offer.up);
        let ticks = |handle: Handle| self.items[handle].is_open() && !self.upstream.merge.is_paused(handle);
        is_up && (self.hot_standby.at(id, service).len() > 0 || self.items.at(id, service).any(ticks))
    }

    fn data_interrupted(&mut self, now: u64, id: SessionId, service: u16, silent: u64, out: &mut dyn ProviderSink) {
        self.counters.data_interruptions += 1;
        let (name, provider) = (self.services[service].name.clone(), self.providers[id].peer.address.clone());
        self.notices.push(Notice::DataInterrupted { service: name, provider, silent });
        self.note_first_provider(now, service, out);
        self.begin_silence(service, id);
        self.work_moves(now, out);
    }

    /// The provider ticks again: items that wait for that have a new image asked for, in the turns to come, and those that others are
    /// silent about come to it.
    fn data_resumed(&mut self, now: u64, id: SessionId, service: u16, out: &mut dyn ProviderSink) {
        self.counters.data_resumptions += 1;
        let (name, provider) = (self.services[service].name.clone(), self.providers[id].peer.address.clone());
        self.notices.push(Notice::DataResumed { service: name, provider });
        self.note_first_provider(now, service, out);
        self.want_mirrors(service);
        self.begin_return(service, id);
        self.leave_silent_providers(service);
    }

    /// An operator wants a provider, whatever was found of it: it is on trial.
    pub(super) fn trust_again(&mut self, now: u64, id: SessionId, service: u16) {
        if let Some((flow, settings)) = self.watched(id, service).filter(|(flow, _)| flow.is_interrupted) {
            flow.try_again(now);
            flow.due = Some(now.saturating_add(settings.duration));
            self.await_deadline(id, service);
            self.begin_return(service, id);
        }
    }

    /// Items whose provider is silent, and that no other has: those who watch are told Suspect, until it ticks again and they get a new
    /// image. What nobody watches is closed.
    pub(super) fn fall_silent(&mut self, now: u64, id: SessionId, handles: &[Handle], out: &mut dyn ProviderSink) {
        let text = format!("No data from provider {}: waiting for it", self.providers[id].peer.address);
        let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, &text);
        for &handle in handles {
            if !self.items[handle].has_interest() {
                self.close_upstream(now, handle, out);
                self.forget_item(handle);
            } else if self.items[handle].fall_silent() {
                self.counters.items_silent += 1;
                self.services[self.items[handle].service()].item_is_lost();
                self.cache.lose(handle.0);
                self.cache.set_state(handle.0, &state);
                self.set_live(handle, false);
                self.publish_status(handle, crate::stream::ALL, 0, state);
            }
        }
    }

    /// An image that was asked for is whole: it is not what a provider that is silent would have sent.
    pub(crate) fn answered_in_silence(&mut self, now: u64, handle: Handle, out: &mut dyn ProviderSink) {
        let item = &self.items[handle];
        let silent = item.place().filter(|place| self.is_interrupted(place.session, item.service()));
        if let Some(place) = silent {
            self.fall_silent(now, place.session, &[handle], out);
        }
    }

    /// Items whose provider ticks again: they have a new image asked for.
    pub(super) fn return_items(&mut self, now: u64, handles: &[Handle], out: &mut dyn ProviderSink) {
        for &handle in handles {
            if self.items[handle].is_open() && self.items[handle].is_lost() {
                self.want_another_image(now, handle, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Interruption = Interruption { duration: 10, traffic_window: 100 };

    #[test]
    fn silence_counts_behind_traffic_only() {
        let mut flow = DataFlow::default();
        flow.data(1_000);
        flow.due = Some(1_010);
        assert_eq!(flow.timer(1_009, true, SETTINGS, 60), Due::Moved, "not yet");
        assert_eq!(
            (flow.timer(1_010, true, SETTINGS, 60), flow.due),
            (Due::Nothing, None),
            "it has not ticked long enough"
        );
        for now in (2_000..=2_100).step_by(5) {
            flow.data(now);
        }
        flow.due = Some(2_105);
        assert_eq!((flow.timer(2_105, true, SETTINGS, 60), flow.due), (Due::Nothing, Some(2_110)));
        assert_eq!(flow.timer(2_110, true, SETTINGS, 60), Due::Interrupted(10));
        assert!(flow.data(2_111) && !flow.is_interrupted());
    }

    #[test]
    fn without_open_items_nothing_is_expected() {
        let mut flow = DataFlow::default();
        assert!(!(0..=100).any(|now| flow.data(now)));
        flow.due = Some(110);
        assert_eq!((flow.timer(110, false, SETTINGS, 60), flow.due), (Due::Nothing, None));
        assert!(!flow.is_interrupted());
    }

    #[test]
    fn trials_come_after_pauses_that_grow() {
        let mut flow = DataFlow::default();
        assert!(!(0..=100).any(|now| flow.data(now)));
        flow.due = Some(110);
        assert_eq!((flow.timer(110, true, SETTINGS, 60), flow.due), (Due::Interrupted(10), Some(170)));
        assert_eq!((flow.timer(170, true, SETTINGS, 60), flow.due), (Due::Nothing, Some(230)), "data may come yet");
        assert_eq!((flow.timer(230, false, SETTINGS, 60), flow.due), (Due::Trial, Some(240)));
        assert_eq!((flow.timer(240, false, SETTINGS, 60), flow.due), (Due::Nothing, Some(250)), "nothing is open yet");
        assert_eq!((flow.timer(260, true, SETTINGS, 60), flow.due), (Due::Interrupted(20), Some(380)));
    }
}
