//! Takeover because of what a provider says: it has an item Suspect that its standby has good. And the way back.
//!
//! The provider in use says so of an item (status, refresh), of a group or of a service (directory); or it has said so before, and the
//! standby's image is good only now. With [`crate::Config::takeover_on_suspect`] the standby takes over, and the provider
//! that said Suspect stands by: its word goes to nobody. Items that no standby has good are told Suspect, as ever.
//!
//! Where items go back to the first provider ([`crate::Config::failback`]), such an item does so when that one has had it
//! good again for as long.

use super::{HotStandby, Mirror};
use crate::ids::Handle;
use crate::items::{Former, Item};
use crate::providers::Service;
use crate::timers::Timer;
use crate::{Notice, ProviderSink, SessionId, SourceDistributor};
use rwf::{DataState, State};
use std::collections::BTreeMap;

/// How long takeovers are added up before the operator hears of them, nanoseconds.
const TOLD_AFTER: u64 = 1_000_000_000;

/// What has moved: service, the provider before, the provider from now on, and whether that one is the first that has it good again.
type Swap = (u16, SessionId, SessionId, bool);

/// Items that have moved for one reason, of which the operator has not heard yet.
#[derive(Debug, Default)]
pub(super) struct Swapped {
    from: String,
    to: String,
    items: usize,
    in_sequence: usize,
    /// What the provider said of the first of them.
    state: String,
}

/// By what has moved.
pub(super) type AllSwapped = BTreeMap<Swap, Swapped>;

impl Mirror {
    /// Notes what its provider says of the data. True if it has become good.
    fn note_data(&mut self, now: u64, data: DataState) -> bool {
        match data {
            DataState::NO_CHANGE => false,
            DataState::OK => {
                let becomes_good = self.good_since.is_none();
                self.good_since.get_or_insert(now);
                becomes_good
            }
            _ => {
                self.good_since = None;
                false
            }
        }
    }
}

impl HotStandby {
    /// The item of a mirror may go back to it by `due`, if it is good until then.
    fn await_return(&mut self, handle: Handle, due: Option<u64>) {
        // A mirror that is gone, or in use, is gone back to no more.
        let Some(mirror) = self.pairs.get_mut(handle.0 as usize).and_then(|pair| pair.as_mut()?.mirror.as_mut()) else {
            return;
        };
        if let Some(before) = std::mem::replace(&mut mirror.returns_at, due) {
            self.returns.remove(&(before, handle));
        }
        if let Some(due) = due {
            self.returns.insert((due, handle));
        }
    }

    /// When the next item may go back to its first provider.
    pub(crate) fn next_return(&self) -> Option<u64> {
        self.returns.first().map(|&(due, _)| due)
    }
}

impl SourceDistributor {
    /// The provider in use says this of an item: true if the item has gone over to its standby for that, and nobody is to hear it.
    pub(crate) fn leave_suspect(&mut self, handle: Handle, state: &State<'_>, out: &mut dyn ProviderSink) -> bool {
        let is_suspect = state.data == DataState::SUSPECT && !state.stream.is_final();
        is_suspect
            && self.config.takeover_on_suspect
            && self.hot_standby.has(handle)
            && self.swap(handle, (Former::Suspect, false), &state.to_string(), out)
    }

    /// As [`Self::leave_suspect`] for what a provider says of many items: those that stay.
    pub(crate) fn leave_all_suspect(
        &mut self,
        mut handles: Vec<Handle>,
        state: &State<'_>,
        out: &mut dyn ProviderSink,
    ) -> Vec<Handle> {
        handles.retain(|&handle| !self.leave_suspect(handle, state, out));
        handles
    }

    /// An item whose provider has said Suspect of it, and whose standby may have it good now, or is watched again.
    pub(crate) fn leave_if_suspect(&mut self, handle: Handle, out: &mut dyn ProviderSink) {
        if self.config.takeover_on_suspect && self.hot_standby.has(handle) && self.items[handle].is_suspect_there() {
            self.swap(handle, (Former::Suspect, false), "", out);
        }
    }

    /// The mirror of an item takes over, and the stream that was in use is the mirror. False if the mirror cannot.
    fn swap(
        &mut self,
        handle: Handle,
        (former, returns): (Former, bool),
        state: &str,
        out: &mut dyn ProviderSink,
    ) -> bool {
        let session_of = |item: &Item| item.place().map(|place| place.session);
        let from = session_of(&self.items[handle]);
        // Items of a session that is lost go over with all of it, and nothing stands by there.
        if from.is_none_or(|from| !self.providers.is_reached(from, self.items[handle].service())) {
            return false;
        }
        let Some(in_sequence) = self.swap_hot(handle, former, out) else { return false };
        let (Some(from), Some(to)) = (from, session_of(&self.items[handle])) else { return true };
        self.counters.suspect_takeovers += u64::from(former == Former::Suspect);
        if self.hot_standby.swapped.is_empty() {
            self.timers.set(self.now.saturating_add(TOLD_AFTER), Timer::Swapped);
        }
        let address = |id: SessionId| self.providers[id].peer.address.clone();
        let swapped = self.hot_standby.swapped.entry((self.items[handle].service(), from, to, returns));
        let swapped = swapped.or_insert_with(|| Swapped {
            from: address(from),
            to: address(to),
            state: state.to_owned(),
            ..Swapped::default()
        });
        swapped.items += 1;
        swapped.in_sequence += usize::from(in_sequence);
        true
    }

    /// The operator hears of what has gone over since the last time.
    pub(crate) fn tell_swapped(&mut self) {
        for ((service, _, _, returns), swapped) in std::mem::take(&mut self.hot_standby.swapped) {
            let Some(known) = self.providers.service(service).filter(|known| !known.is_forgotten()) else { continue };
            let Swapped { from, to, items, in_sequence, state } = swapped;
            let service = known.name.clone();
            self.notices.push(Notice::SuspectItems { service, from, to, items, in_sequence, state, returns });
        }
    }

    /// The provider of a mirror says this of its data.
    pub(super) fn mirror_says(&mut self, handle: Handle, data: DataState, out: &mut dyn ProviderSink) {
        // The mirror may have taken over by what its provider has said before.
        let Some(mirror) = self.hot_standby.mirror_mut(handle) else { return };
        let becomes_good = mirror.note_data(self.now, data);
        let is_good = mirror.good_since.is_some();
        if !is_good {
            self.hot_standby.await_return(handle, None);
            return;
        }
        self.leave_if_suspect(handle, out);
        let failback = self.providers.rules(&self.config, self.items[handle].service()).failback;
        if becomes_good && failback > 0 && self.config.takeover_on_suspect {
            // The one that has just been left is not good: nothing is noted of it here.
            let is_good = self.hot_standby.mirror(handle).is_some_and(|mirror| mirror.good_since.is_some());
            let due = is_good.then(|| self.now.saturating_add(failback));
            self.hot_standby.await_return(handle, due);
        }
    }

    /// Whether an item stays where it is though this provider comes before: that one has it Suspect, or has not had it good for long enough.
    pub(crate) fn is_kept_from(&self, handle: Handle, preferred: SessionId, by_hand: bool) -> bool {
        let mirror = self.hot_standby.mirror(handle).filter(|mirror| mirror.place.session == preferred);
        let Some(mirror) = mirror.filter(|mirror| self.config.takeover_on_suspect && mirror.asked_at.is_none()) else {
            return false;
        };
        mirror.good_since.is_none() || mirror.returns_at.is_some_and(|due| due > self.now) && !by_hand
    }

    /// Items go back to the first provider, which has had them good again for long enough, as far as this turn lets them.
    pub(crate) fn work_returns(&mut self, out: &mut dyn ProviderSink) {
        while let Some(&(due, handle)) = self.hot_standby.returns.first()
            && due <= self.now
            && self.providers.spend_one()
        {
            self.hot_standby.await_return(handle, None);
            let item = &self.items[handle];
            let (service, is_watched) = (item.service(), item.is_watched());
            let failback = self.providers.rules(&self.config, service).failback;
            let at = self.hot_standby.mirror_session(handle);
            let first = self.providers.service(service).and_then(Service::first);
            // A provider that has the service again only now gets its items with all others.
            if first.is_none_or(|(first, since)| Some(first) != at || self.now.saturating_sub(since) < failback) {
                continue;
            }
            if !is_watched {
                self.hot_standby.await_return(handle, Some(self.now.saturating_add(failback)));
                continue;
            }
            self.swap(handle, (Former::StandsBy, true), "", out);
        }
    }
}
