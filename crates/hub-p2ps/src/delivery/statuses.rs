//! States on their way to the watchers: of items, of services, of groups, and of outages that the P2PS finds itself.

use super::compose::listed_key;
use super::deliveries::BodyId;
use crate::P2ps;
use crate::ids::{GroupId, HubGroup, ItemId, ServiceId, SourceId};
use crate::items::state::{Standing, Trouble};
use crate::items::telling::{Pending, Relayed, Telling, told};
use crate::items::watchers::Watcher;
use crate::stream::flags;
use rwf::msg::{Domain, Msg, MsgKey, StatusFlags, StatusMsg};
use rwf::rdm::directory::filter;
use rwf::{DataState, State, StateCode, StreamState};

/// Items and watchers that are looked at for whether a state for a whole service fits all of it.
const BESIDE_MAX: usize = 1_024;

/// The states that the watchers of an item have heard of one, each once: their recovery policies make two of one at most.
#[derive(Default)]
struct StatesSent([Option<(StreamState, DataState)>; 3]);

impl StatesSent {
    fn add(&mut self, stream: StreamState, data: DataState) {
        if let Some(place) = self.0.iter_mut().find(|known| known.is_none_or(|known| known == (stream, data))) {
            *place = Some((stream, data));
        }
    }
}

/// The differences between the statuses of one client and another: stream and data state, and whether it is without permission data.
type Variant = (StreamState, DataState, bool);

impl P2ps {
    /// Tells the watchers of an item, and of its views, a state. Those for whom it is a final one watch no more.
    pub(crate) fn tell_item(&mut self, id: ItemId, state: State<'_>, telling: Telling) {
        let domain = Domain(self.items.key(id).domain);
        let status = StatusMsg { state: Some(state), ..StatusMsg::new(domain, 0) };
        self.tell(id, &status, telling);
    }

    /// Tells a status that may carry more than a state.
    fn tell(&mut self, id: ItemId, status: &StatusMsg<'_>, telling: Telling) {
        debug_assert!(!self.items.get(id).is_view(), "what is told of an item, its views hear too");
        self.release_conflated(id);
        let views = self.items.views_of(id).to_vec();
        let has_open = |id: &ItemId| self.items.watchers(*id).open_count() > 0;
        let is_new = !self.items.get(id).is_suspect() && !has_open(&id) && !views.iter().any(has_open);
        if let Some(state) = &status.state {
            self.items.note_state(id, *state, telling.pending);
        }
        // The item may end with its last watcher.
        let item = self.items.get(id);
        let (service, name) = (item.service(), status.state.and_then(|_| item.key().name.map(Box::<[u8]>::from)));
        let mut told = StatesSent::default();
        self.tell_watchers(id, status, telling, &mut told);
        for view in views {
            self.tell_watchers(view, status, telling, &mut told);
        }
        if let Some(state) = status.state {
            for (stream, data) in told.0.into_iter().flatten() {
                let state = State { stream, data, ..state };
                let name = name.as_deref().unwrap_or_default();
                self.history.note(self.now, (service.0, name), &state);
                let known = self.sources.services().get(service).map_or("", |known| &known.name);
                let refused = is_new.then(|| self.config.tells_refused_opens(known));
                let wanted = (self.config.notices.item_errors, refused);
                if !self.output.notice_of_item(self.now, wanted, (known, name), &state) {
                    self.counters.item_states_not_told += 1;
                }
            }
        }
    }

    /// Tells those who have had an image of an item something of it that is no state.
    pub(crate) fn tell_group(&mut self, id: ItemId, status: &StatusMsg<'_>) {
        debug_assert!(status.state.is_none());
        self.tell(id, status, Telling { pending: Pending::None, relayed: Relayed::No, once: false });
    }

    /// A watcher waits for an image that was asked for before, and that its source has said does not come: it is told the same.
    pub(crate) fn tell_trouble(&mut self, watcher: Watcher, id: ItemId) {
        let root = self.items.root(id);
        let item = self.items.get(root);
        let (stream, text) = match item.trouble() {
            Trouble::None => return,
            // The watcher is about to hear of its end.
            Trouble::Lost if item.is_private() => return,
            Trouble::Unanswered => (StreamState::OPEN, "Its provider does not send the image; it is asked for."),
            Trouble::Lost => (StreamState::CLOSED_RECOVER, "The item was lost; it is asked for again by itself."),
        };
        let domain = Domain(self.items.key(root).domain);
        let state = State::new(stream, DataState::SUSPECT, StateCode::NONE, text);
        let status = StatusMsg { state: Some(state), ..StatusMsg::new(domain, 0) };
        let telling = Telling { pending: Pending::Alone, relayed: Relayed::No, once: true };
        self.tell_watcher(id, watcher, &status, telling, &mut Vec::new());
    }

    fn tell_watchers(&mut self, id: ItemId, status: &StatusMsg<'_>, telling: Telling, told: &mut StatesSent) {
        let mut variants: Vec<(Variant, BodyId)> = Vec::new();
        let everyone: Vec<Watcher> = self.items.watchers(id).all().to_vec();
        for watcher in everyone {
            if let Some(state) = self.tell_watcher(id, watcher, status, telling, &mut variants) {
                told.add(state.stream, state.data);
            }
        }
    }

    /// Tells one watcher; gives the state that it has heard so, by its stream or its directory.
    fn tell_watcher<'s>(
        &mut self,
        id: ItemId,
        watcher: Watcher,
        status: &StatusMsg<'s>,
        telling: Telling,
        variants: &mut Vec<(Variant, BodyId)>,
    ) -> Option<State<'s>> {
        let (Some(known), Some((place, watch))) = (self.clients.get(watcher.client), self.clients.watch(watcher))
        else {
            hub_items::fault!("a watcher that its client does not know: {watcher:?}");
            return None;
        };
        let gets_updates = self.items.watchers(id).is_open(place);
        if telling.pending == Pending::Alone && (gets_updates || !watch.waits()) {
            return None;
        }
        let (private, service) = (self.items.get(id).is_private(), self.items.get(id).service());
        let state = status.state.map(|state| told(known.policy, private, state));
        let is_final = state.is_some_and(|state| state.stream.is_final());
        let deleted = matches!(telling.relayed, Relayed::Deleted { .. });
        if !watch.is_answered() && !tells_pending(telling.pending, is_final) && !deleted {
            return None;
        }
        let heard = match telling.relayed {
            Relayed::No => false,
            // The watcher's directory was told the state of streams that are not private ones.
            Relayed::Status { filter, at } => {
                let relayed = status.state.map(|state| known.policy.apply(state));
                watch.is_answered() && relayed == state && known.heard_of(service, filter, at)
            }
            Relayed::Deleted { at } => known.heard_of(service, u32::MAX, at),
        };
        if deleted && heard {
            self.drop_watcher(watcher, id);
            return state;
        }
        let knows = telling.once && watch.is_told_suspect() && !is_final;
        if !heard && !knows {
            self.deliver_status(status, state, watcher, variants);
        }
        if is_final {
            if !heard {
                self.sources.note_end(watcher);
            }
            self.drop_watcher(watcher, id);
        } else if let (Some(state), false) = (state, knows) {
            // A status kept from the watcher changes nothing: it was told that it is suspect, and is so until its image comes.
            self.change_state(watcher, id, |watch| watch.told(state.data));
        }
        state.filter(|_| !knows)
    }

    fn deliver_status(
        &mut self,
        status: &StatusMsg<'_>,
        state: Option<State<'_>>,
        watcher: Watcher,
        variants: &mut Vec<(Variant, BodyId)>,
    ) {
        let (stream, data) =
            state.map_or((StreamState::UNSPECIFIED, DataState::NO_CHANGE), |state| (state.stream, state.data));
        let is_bare = status.perm_data.is_some() && !self.clients.wants_locks(watcher.client);
        let variant = (stream, data, is_bare);
        let perm_data = status.perm_data.filter(|_| !is_bare);
        if let Some(listed) = self.clients.listed_on(watcher.client, watcher.stream) {
            // The status may be the first that this stream hears.
            let key = status.key.or_else(|| Some(listed_key(&listed)));
            let own = StatusMsg { state, perm_data, key, ..status.clone() };
            if let Some(body) = self.body(256 + listed.1.len() + status.body.len(), |w| own.encode(w)) {
                self.output.turn.deliver(body, watcher.client, watcher.stream);
                self.counters.statuses_out += 1;
            }
            return;
        }
        let known = variants.iter().find(|(known, _)| *known == variant).map(|(_, body)| *body);
        let body = known.or_else(|| {
            let body =
                self.body(256 + status.body.len(), |w| StatusMsg { state, perm_data, ..status.clone() }.encode(w))?;
            variants.push((variant, body));
            Some(body)
        });
        if let Some(body) = body {
            self.output.turn.deliver(body, watcher.client, watcher.stream);
            self.counters.statuses_out += 1;
        }
    }

    /// A status that a Source Distributor has published for an open item.
    pub(super) fn item_status(&mut self, source: SourceId, id: ItemId, group: HubGroup, bits: u8, rwf: &[u8]) {
        let Ok(Msg::Status(status)) = Msg::decode(rwf) else {
            self.counters.hub_messages_bad += 1;
            return;
        };
        let closed = bits & flags::CLOSED != 0;
        if bits & flags::WAITING_ONLY == 0
            && let Some(state) = status.state
            && self.leave_for_mirror(id, state, closed)
        {
            if self.hot_standby.mirror_source(id) == Some(source) {
                self.mirror_status(id, group, bits, rwf);
            }
            return;
        }
        if !group.is_none() {
            self.items.set_group(id, group);
        }
        if !self.lock_by_status(id, status.perm_data) {
            // Whoever watched it may not see it under its new lock.
            return;
        }
        // Conflated updates of before go out while the watchers are still in the updates.
        self.release_conflated(id);
        if let Some(perm_data) = status.perm_data {
            self.items.cache_mut().set_perm_data(id.0, perm_data);
        }
        let item = self.items.get(id);
        // A final state without the `closed` flag: the source recovers the item by itself, under the same handle.
        let group_id = GroupId::new(source, group);
        let (item_key, service) = (item.key_bytes().to_vec(), item.service());
        let key = status.key.map(|key| client_key(key, &item_key, service, status.state));
        let mut flags_out = status.flags;
        // A redirect says of the other item that it is to be had by a private stream.
        let redirects = status.state.is_some_and(|state| state.stream == StreamState::REDIRECTED);
        let is_private = item.is_private() || redirects && status.flags.contains(StatusFlags::PRIVATE_STREAM);
        flags_out.set(StatusFlags::PRIVATE_STREAM, is_private);
        let group_id = (!group.is_none()).then_some(group_id.as_bytes());
        let status = StatusMsg { group_id, key, flags: flags_out, ..status };
        let pending = if bits & flags::WAITING_ONLY != 0 {
            Pending::Alone
        } else if closed || bits & flags::PENDING_TOO != 0 || self.sources.has_begun_set(&self.items, source, id) {
            Pending::All
        } else {
            Pending::None
        };
        // Watchers of an item that is opened again after a loss were told of that; those that know why they wait, too.
        let once = pending == Pending::Alone || !closed && item.is_recovering();
        if closed {
            self.give_back(id);
        }
        self.tell(id, &status, Telling { pending, once, relayed: Relayed::No });
        if closed {
            self.recover_later(id);
        }
    }

    /// A transient state for all items of a service that have had a response.
    pub(crate) fn service_status(&mut self, source: SourceId, service: ServiceId, state: State<'_>) {
        let (mut members, _) = self.split(self.items.standing(service, Standing::Open(source)).collect());
        members.retain(|&id| !self.leave_for_mirror(id, state, false));
        self.mirrors_state((source, service), None, Some(state), None);
        // The SDK fans a relayed state out to every item, also to those that another source serves or that are not back.
        let alone = !self.has_mirrors(service) && !self.has_answered_beside(service, source, true);
        let at = self.clients.directories_opened();
        if alone {
            self.relay_service_status(service, state);
        }
        let relayed = if alone { Relayed::Status { filter: filter::STATE, at } } else { Relayed::No };
        self.tell_members(&members, state, relayed);
    }

    /// A transient state for the members of a group, or their move to another.
    pub(crate) fn group_status(
        &mut self,
        source: SourceId,
        service: ServiceId,
        group: HubGroup,
        state: Option<State<'_>>,
        merged_to: Option<HubGroup>,
    ) {
        let (mut members, recovering) = self.split(self.items.in_group(source, group).collect());
        if let Some(state) = state {
            members.retain(|&id| !self.leave_for_mirror(id, state, false));
        }
        self.mirrors_state((source, service), Some(group), state, merged_to);
        let alone = !self.has_mirrors(service) && self.is_grouped_as_told(service);
        let relayed = state.filter(|_| alone);
        let at = self.clients.directories_opened();
        if relayed.is_some() || merged_to.is_some() {
            let merged_to = merged_to.map(|to| GroupId::new(source, to));
            self.relay_group_status(service, GroupId::new(source, group), relayed, merged_to);
        }
        if let Some(state) = state {
            let relayed = if alone { Relayed::Status { filter: filter::GROUP, at } } else { Relayed::No };
            self.tell_members(&members, state, relayed);
        }
        if let Some(to) = merged_to {
            for id in members.into_iter().chain(recovering) {
                // A status may have ended it.
                if self.items.get(id).source() == Some(source) {
                    self.items.set_group(id, to);
                }
            }
        }
    }

    /// Open items that a transient state is for, and those that are not back since their source was lost: what their watchers have is
    /// of an earlier life, so the state is not theirs.
    fn split(&mut self, mut open: Vec<ItemId>) -> (Vec<ItemId>, Vec<ItemId>) {
        self.counters.items_touched += open.len() as u64;
        open.sort_unstable();
        open.into_iter().partition(|&id| !self.items.get(id).is_recovering())
    }

    /// True if clients that apply a state to a group by themselves find the items that it is for: none of the service was lost
    /// and is not back, and none is in another group by now than a client was told that rests, or waits for its image.
    fn is_grouped_as_told(&mut self, service: ServiceId) -> bool {
        // Each of them is either a reason, or none any more.
        loop {
            let Some(id) = self.items.apart(service).next_back() else { return true };
            self.counters.items_touched += 1;
            let item = self.items.get(id);
            let held = |&id: &ItemId| self.items.watchers(id).held().iter().any(|&held| self.clients.is_answered(held));
            let views = self.items.views_of(id);
            if item.is_recovering() || !item.is_open() || [id].iter().chain(views).any(held) {
                return false;
            }
            self.items.set_regrouped(id, false);
        }
    }

    /// True if clients have open streams of a service for other items than those of a source: what they apply to a whole service by
    /// themselves is not for those. With `back_only` the items of the source that are not back since a loss are others too. After so
    /// many items without an answer the question is given up: each item is told by itself then.
    pub(crate) fn has_answered_beside(&mut self, service: ServiceId, source: SourceId, back_only: bool) -> bool {
        let waits = [Standing::Parked, Standing::Queued, Standing::Retrying];
        let others = self.sources.ids().filter(|&other| other != source);
        let opening = back_only.then_some(Standing::Opening(source));
        let mut looks = 0;
        let answered =
            |&id: &ItemId| self.items.watchers(id).all().iter().take(BESIDE_MAX).any(|&w| self.clients.is_answered(w));
        let beside = waits
            .into_iter()
            .chain(others.flat_map(|other| [Standing::Open(other), Standing::Opening(other)]))
            .chain(opening)
            .flat_map(|standing| self.items.standing(service, standing));
        let not_back = self.items.apart(service).filter(|&id| back_only && self.items.get(id).is_recovering());
        let found = beside.chain(not_back).any(|id| {
            looks += 1 + self.items.watchers(id).len().min(BESIDE_MAX);
            looks > BESIDE_MAX || [id].iter().chain(self.items.views_of(id)).any(answered)
        });
        self.counters.items_touched += looks as u64;
        found
    }

    fn tell_members(&mut self, members: &[ItemId], state: State<'_>, relayed: Relayed) {
        for &id in members {
            self.tell_item(id, state, Telling { pending: Pending::None, relayed, once: false });
        }
    }
}

fn tells_pending(pending: Pending, is_final: bool) -> bool {
    match pending {
        Pending::None => false,
        Pending::IfFinal => is_final,
        Pending::All | Pending::Alone => true,
    }
}

/// The key of a status as clients get it: the item's own, but where the provider names another item to go to.
fn client_key<'a>(key: MsgKey<'a>, item_key: &'a [u8], service: ServiceId, state: Option<State<'_>>) -> MsgKey<'a> {
    if state.is_some_and(|state| state.stream == StreamState::REDIRECTED) {
        return MsgKey { service_id: key.service_id.map(|_| service.0), ..key };
    }
    crate::item::ItemKey::read(item_key).unwrap_or_default().msg_key(service.0)
}
