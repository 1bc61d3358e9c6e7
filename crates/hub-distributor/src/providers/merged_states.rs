//! States that a provider tells of a service or of a group over and over: of many in one turn the last one counts.
//!
//! Each state goes to all who watch the service, so a provider that tells thousands of them in a turn has each of its messages
//! answered with as many as there are watchers, and those of other services wait. The first [`AT_ONCE`] of a turn are told as they come;
//! of what follows the last one waits for the next turn, and is part of that turn's work as outages are ([`super::outage`]). What the
//! provider sends otherwise comes behind what it has told before, so that it brings a state that waits forward: so often in a turn, and no more.

use super::Providers;
use crate::keyed_queue::KeyedQueue;
use crate::{ProviderSink, SessionId, SourceDistributor};
use rustc_hash::FxHashMap;
use rwf::rdm::directory::{Action, Part, Service as Entry};

/// States of one service at one provider that are told as they come, in one turn.
const AT_ONCE: u8 = 4;
/// Times in a turn that states which wait are brought forward by something that has come behind them.
const FORWARD: u8 = 16;

/// The service, by the provider's id, and of states of groups which group.
type Key = (SessionId, u16, u32);

/// States that wait for the next turn.
#[derive(Debug, Default)]
pub(crate) struct MergedStates {
    /// How many were told in this turn.
    told: FxHashMap<Key, u8>,
    waiting: KeyedQueue<Key, Entry>,
    forwarded: u8,
}

impl MergedStates {
    pub(crate) fn end_turn(&mut self) {
        self.told.clear();
        self.forwarded = 0;
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A session is gone.
    pub(crate) fn forget(&mut self, id: SessionId) {
        let of_session: Vec<Key> = self.waiting.iter().map(|(key, _)| key).filter(|key| key.0 == id).collect();
        for key in of_session {
            self.waiting.remove(key);
        }
    }

    /// Whether a state has to wait. One that waits already gives way to it.
    fn holds(&mut self, key: Key, entry: &Entry) -> bool {
        if let Some(waiting) = self.waiting.get_mut(key) {
            entry.clone_into(waiting);
            return true;
        }
        let told = self.told.entry(key).or_default();
        if *told < AT_ONCE {
            *told += 1;
            return false;
        }
        self.waiting.push_back(key, entry.clone());
        true
    }
}

impl Providers {
    /// Which state an entry says, if it says nothing else: 0 for that of the service, else our number of the group.
    fn only_state_of(&self, id: SessionId, entry: &Entry) -> Option<u32> {
        let Entry { id: _, action, info, state, groups, load, data, links } = entry;
        let session = self.sessions.get(id)?;
        let offer = session.offer_by_id(entry.id)?;
        if *action == Action::Delete || info.is_some() || load.is_some() || data.is_some() || links.is_some() {
            return None;
        }
        match (state, groups.as_slice()) {
            (Some(Part::Set(_) | Part::Update(_)), []) => Some(0),
            (None, [group]) => {
                let group = group.value().filter(|group| group.merged_to.is_none())?;
                session.known_group(offer.service, &group.group).map(|group| group.0)
            }
            _ => None,
        }
    }
}

impl SourceDistributor {
    /// Takes an entry of a directory update, unless that says a state only, and too many of them came in this turn. True if it waits.
    pub(super) fn merges_state(&mut self, id: SessionId, entry: &Entry, out: &mut dyn ProviderSink) -> bool {
        let Some(group) = self.providers.only_state_of(id, entry) else {
            self.bring_forward(id, out);
            return false;
        };
        let holds = self.providers.merged_states.holds((id, entry.id, group), entry);
        self.counters.states_merged += u64::from(holds);
        holds
    }

    /// States that a session has told before are carried out before what it says now.
    pub(crate) fn bring_forward(&mut self, id: SessionId, out: &mut dyn ProviderSink) {
        let merged = &mut self.providers.merged_states;
        if !merged.has_work() || merged.forwarded >= FORWARD {
            return;
        }
        let of_session: Vec<Key> = merged.waiting.iter().map(|(key, _)| key).filter(|key| key.0 == id).collect();
        merged.forwarded += u8::from(!of_session.is_empty());
        for key in of_session {
            if let Some(entry) = self.providers.merged_states.waiting.remove(key) {
                self.service_entry(id, &entry, out);
            }
        }
    }

    /// Tells the states that have waited for this turn, as far as it lets this go.
    pub(crate) fn work_merged_states(&mut self, out: &mut dyn ProviderSink) {
        let mut left = self.providers.merged_states.waiting.iter().count();
        while left > 0
            && self.providers.outages.has_budget()
            && let Some(((id, service, group), entry)) = self.providers.merged_states.waiting.pop_front()
        {
            left -= 1;
            let known = self.providers.sessions.get(id).and_then(|session| session.offer_by_id(service));
            let Some(known) = known.map(|offer| offer.service) else { continue };
            self.providers.outages.spend(1 + self.items.at(id, known).len());
            self.providers.merged_states.told.insert((id, service, group), AT_ONCE);
            self.service_entry(id, &entry, out);
        }
    }
}
