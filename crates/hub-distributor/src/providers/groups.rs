//! States and mergers of services and item groups: what providers say of many items at once.

use crate::ids::Origin;
use crate::ids::{GroupId, Handle};
use crate::items::{Former, Item};
use crate::stream::{ALL, Event};
use crate::{ProviderSink, SessionId, SourceDistributor};
use rwf::rdm::directory::Group;
use rwf::{State, StreamState};

impl SourceDistributor {
    /// A transient state for all items that a session has open for a service.
    pub(super) fn service_status(&mut self, id: SessionId, service: u16, state: State<'_>, out: &mut dyn ProviderSink) {
        self.mirrors_state((id, service), None, state, out);
        if state.stream.is_final() {
            self.recover_group(id, service, None, state, out);
            return;
        }
        let state = open(state);
        self.leave_members((id, service), None, state, out);
        let members = self.note_state((id, service), None, state);
        // Items that are open elsewhere, or lost and not back, have nothing to do with what this provider says.
        let known = &self.providers.services[service];
        let all = known.lost_items() == 0 && known.providers().iter().all(|&other| other == id);
        if all {
            self.hub.event(&Event::ServiceStatus { service, state });
        } else {
            self.tell_members(&members, state);
        }
    }

    /// Items that a session says Suspect of go over to their standby, if that has them good.
    fn leave_members(
        &mut self,
        (id, service): (SessionId, u16),
        group: Option<GroupId>,
        state: State<'_>,
        out: &mut dyn ProviderSink,
    ) {
        if state.data == rwf::DataState::SUSPECT && self.config.takeover_on_suspect && self.config.balance.is_hot() {
            let members = self.members(id, service, group, |_| true);
            self.leave_all_suspect(members, &state, out);
        }
    }

    /// Publishes a transient state for each of these.
    fn tell_members(&mut self, members: &[Handle], state: State<'_>) {
        for &handle in members {
            if self.items[handle].has_interest() {
                self.publish_status(handle, ALL, 0, state);
            }
        }
    }

    /// Status and merger of a group, in this order.
    pub(super) fn group_entry(&mut self, id: SessionId, service: u16, entry: &Group, out: &mut dyn ProviderSink) {
        // A group that no item was in has nothing to be told.
        let Some(group) = self.providers.sessions[id].known_group(service, &entry.group) else { return };
        let merged_to = entry.merged_to.as_deref().filter(|to| *to != entry.group);
        let state = entry.status.as_ref().map(|status| status.as_state());
        if let Some(state) = state {
            self.mirrors_state((id, service), Some(group), state, out);
        }
        if let Some(state) = state.filter(|state| state.stream.is_final()) {
            self.recover_group(id, service, Some(group), state, out);
        }
        let state = state.filter(|state| !state.stream.is_final()).map(open);
        if let Some(state) = state {
            self.leave_members((id, service), Some(group), state, out);
        }
        let members = state.map(|state| self.note_state((id, service), Some(group), state)).unwrap_or_default();
        let merged_to = merged_to.map(|to| {
            let into = self.providers.sessions.group(id, service, to);
            self.providers.sessions[id].forget_group(service, &entry.group);
            into
        });
        let merged_to = merged_to.filter(|&to| to != group);
        if let Some(to) = merged_to {
            self.merge_groups(group, to);
            self.hot_standby.merge_groups((id, service), group, to);
        }
        // Members that are lost are still members to a P2PS, but the state is not theirs.
        let apart = state.filter(|_| self.providers.services[service].lost_items() > 0);
        if let Some(state) = apart {
            self.tell_members(&members, state);
        }
        let state = state.filter(|_| apart.is_none());
        if state.is_some() || merged_to.is_some() {
            let (group, merged_to) = (group.0, merged_to.map(|to| to.0));
            self.hub.event(&Event::GroupStatus { service, group, state, merged_to });
        }
    }

    /// The items of a service, or of one group of it, that a session has on its streams. Looks at no others.
    fn members(
        &mut self,
        id: SessionId,
        service: u16,
        group: Option<GroupId>,
        of: impl Fn(&Item) -> bool,
    ) -> Vec<Handle> {
        let mut handles: Vec<Handle> = match group {
            Some(group) => self.items.in_group(group).collect(),
            None => self.items.at(id, service).collect(),
        };
        self.counters.items_touched += handles.len() as u64;
        handles.retain(|&handle| {
            let item = &self.items[handle];
            let here = item.service() == service && item.place().is_some_and(|place| place.session == id);
            here && item.is_answered() && of(item)
        });
        handles.sort_unstable();
        handles
    }

    /// The members of a group belong to another from now on.
    fn merge_groups(&mut self, from: GroupId, to: GroupId) {
        assert_ne!(from, to, "a group is merged with another");
        let members: Vec<Handle> = self.items.in_group(from).collect();
        self.counters.items_touched += members.len() as u64;
        for handle in members {
            self.items.set_group(handle, to);
        }
    }

    /// The members of a service or group that a session has open; remembers of each whether it was told to be Suspect.
    fn note_state(&mut self, (id, service): (SessionId, u16), group: Option<GroupId>, state: State<'_>) -> Vec<Handle> {
        let members = self.members(id, service, group, |item| !item.is_lost());
        for &handle in &members {
            self.items[handle].tell_state(state.data);
            self.content.set_state(handle, &state);
            self.note_stale(handle);
        }
        members
    }

    /// The provider has closed all items of a service, or of a group of it, and they are to be recovered.
    fn recover_group(
        &mut self,
        id: SessionId,
        service: u16,
        group: Option<GroupId>,
        state: State<'_>,
        out: &mut dyn ProviderSink,
    ) {
        let handles = self.members(id, service, group, |_| true);
        let state = State { data: rwf::DataState::SUSPECT, ..state };
        if self.providers.sessions[id].origin == Origin::NonInteractive {
            for handle in handles {
                self.publish_status(handle, ALL, 0, State { stream: StreamState::OPEN, ..state });
            }
            return;
        }
        let handles = self.not_taken_over(handles, Former::Gone, out);
        let address = self.providers.sessions[id].peer.address.clone();
        self.tell_taken_over(id, &address, service);
        for &handle in &handles {
            self.detach(handle, out);
        }
        for handle in handles {
            let waited_for = self.items[handle].is_waited_for();
            if self.lose_item(handle, state.code, state.text) {
                self.retry_later(handle, Some(id));
                if waited_for {
                    self.explain_wait(handle, ALL);
                }
            }
        }
    }
}

/// A transient state that leaves streams open; a provider may have sent no more than a data state.
fn open(state: State<'_>) -> State<'_> {
    let stream = if state.stream == StreamState::NON_STREAMING { state.stream } else { StreamState::OPEN };
    let data = rwf::DataState(state.data.0.min(rwf::DataState::SUSPECT.0));
    State { stream, data, ..state }
}
