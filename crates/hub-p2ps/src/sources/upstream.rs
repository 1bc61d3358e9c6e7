//! Towards the Source Distributors: what is opened where and when, what is asked for again, and what is closed.

use super::Sources;
use super::services::Service;
use crate::Config;
use crate::clients::refusal::Refusal;
use crate::ids::{Handle, ItemId, RemoteService, ServiceId, SourceId};
use crate::items::Items;
use crate::items::relayed_payload::{self, RelayedPayload};
use crate::items::state::{Sharing, Standing, State as ItemState, Wait};
use crate::items::telling::{Pending, Relayed, Telling};
use crate::items::view_spec::ViewSpec;
use crate::items::views::Coverage;
use crate::stream::{Request, flags};
use crate::{P2ps, encode};
use rustc_hash::FxHashSet;
use rwf::msg::{Domain, RequestFlags, RequestMsg};
use rwf::{DataState, State, StateCode, StreamState};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Items that a turn finds not to be opened now: those who wait for them are told so.
const LOOKS_PER_TURN: u32 = 4_096;

/// What is to go to the Source Distributors later: in this turn, in one of the next, or after a pause.
#[derive(Debug)]
pub(crate) struct Upstream {
    /// Items that are asked for again later, by time.
    retries: BinaryHeap<Reverse<(u64, ItemId)>>,
    /// Items that are open and need another image: asked for as the limit of a turn lets it.
    refreshes: VecDeque<ItemId>,
    /// Items that lost a view in this turn, and may need less.
    narrowing: Vec<ItemId>,
    /// Items whose watchers may want another priority than was asked for, or all rest: each once, as long as it is noted of the item.
    demands_changed: VecDeque<ItemId>,
    /// Of these so many may still be looked at in this turn.
    demands_left: u32,
    /// Items of which more is asked for when the image on its way has come, and until when that may take, in order.
    deferred: VecDeque<(u64, ItemId)>,
    /// Items that are in that list: each once.
    is_deferred: FxHashSet<ItemId>,
    /// Opens and refreshes that may still be sent in this turn.
    opens_left: u32,
    /// Number of the last reissue that asked for more.
    last_reissue: u32,
}

impl Upstream {
    pub(crate) fn new(opens_per_turn: u32, work_per_turn: u32) -> Self {
        Self {
            retries: BinaryHeap::new(),
            refreshes: VecDeque::new(),
            narrowing: Vec::new(),
            demands_changed: VecDeque::new(),
            demands_left: work_per_turn.max(1),
            deferred: VecDeque::new(),
            is_deferred: FxHashSet::default(),
            opens_left: opens_per_turn.max(1),
            last_reissue: 0,
        }
    }

    pub(crate) fn begin_turn(&mut self, opens_per_turn: u32, work_per_turn: u32) {
        self.opens_left = opens_per_turn.max(1);
        self.demands_left = work_per_turn.max(1);
    }

    /// True if there are demands that a turn has not come to.
    pub(crate) fn has_demands(&self) -> bool {
        !self.demands_changed.is_empty()
    }

    /// When the next item is asked for again.
    pub(super) fn retry_deadline(&self) -> Option<u64> {
        self.retries.peek().map(|Reverse((at, _))| *at)
    }

    /// When the next item has waited for too long for an image behind which more is asked for.
    pub(super) fn reissue_deadline(&self) -> Option<u64> {
        self.deferred.front().map(|(at, _)| *at)
    }

    /// More is asked of an item when the image on its way has come: who waits for that is told so at `deadline`.
    fn defer(&mut self, deadline: u64, id: ItemId) {
        if self.is_deferred.insert(id) {
            // In order, also when the time was made shorter meanwhile.
            let before = self.deferred.back().map_or(0, |(before, _)| *before);
            self.deferred.push_back((deadline.max(before), id));
        }
    }

    /// An image of an open item is asked for as the limit of a turn lets it.
    pub(crate) fn queue_refresh(&mut self, id: ItemId) {
        self.refreshes.push_back(id);
    }

    /// One of the opens that may still be sent in this turn; false if there is none.
    pub(crate) fn take_open(&mut self) -> bool {
        let may = self.opens_left > 0;
        self.opens_left -= u32::from(may);
        may
    }

    /// The number of the next reissue that asks for more; never 0.
    fn next_reissue(&mut self) -> u32 {
        self.last_reissue = self.last_reissue.wrapping_add(1).max(1);
        self.last_reissue
    }
}

/// The rest of a turn's budget for items that wait.
struct Left {
    opens: u32,
    looks: u32,
}

impl Sources {
    /// Tells a Source Distributor that an item's handle is not used any more.
    pub(crate) fn close_at(&mut self, id: ItemId, source: SourceId, handle: Handle) {
        if let Some(source) = self.up_mut(source) {
            source.unbind(handle);
            source.writer.request(&Request::Close { handle: handle.0 });
        } else {
            debug_assert!(self.outages.is_losing(source), "{id:?} was open at {source:?}, which is not there");
        }
    }

    pub(crate) fn room_at(&self, window: u32, source: SourceId) -> bool {
        let window = window as usize;
        self.get(source).is_none_or(|source| source.has_room(window))
    }

    /// The source that could serve an item now, and the service's id there. A queue may still hold the numbers of items that are gone.
    pub(crate) fn provider_of(&self, items: &Items, id: ItemId) -> Option<(SourceId, RemoteService)> {
        let item = items.get(id);
        if !item.is_live() {
            return None;
        }
        let key = items.key(id);
        self.services.alive(item.service())?.choose(self, Domain(key.domain), key.qos.to_qos())
    }

    /// Puts an item that has to be opened in its service's queue.
    pub(crate) fn queue_open(&mut self, items: &mut Items, id: ItemId) {
        if !items.queue(id) {
            return;
        }
        let (service, is_poll) = (items.get(id).service(), items.get(id).is_recovering());
        let waits = |id: ItemId| items.get(id).is_queued() && items.get(id).service() == service;
        self.services.queue_open(service, (id, is_poll), items.count_standing(service, Standing::Queued), waits);
    }

    /// As [`Self::room_at`], for an item of a service, which may have a window of its own; with `polls` for one that was lost or refused,
    /// which may use a part of the window only.
    fn room_for(&self, items: &Items, config: &Config, service: &Service, source: SourceId, polls: bool) -> bool {
        let own = service.usage.open_window() as usize;
        if own > 0 {
            let unanswered = |source| items.count_standing(service.id, Standing::Opening(source));
            if self.ids().map(unanswered).sum::<usize>() >= own {
                return false;
            }
        }
        let window = u64::from(config.open_window);
        let part = (window * u64::from(config.open_window_for_polls) / 100).max(1);
        match self.get(source) {
            Some(known) if polls && window > 0 => known.has_room(part.min(window) as usize),
            _ => self.room_at(config.open_window, source),
        }
    }

    /// An item may need less than was asked for: it is looked at once, at the end of the turn.
    pub(crate) fn queue_narrowing(&mut self, items: &mut Items, root: ItemId) {
        if items.queue_narrowing(root) {
            self.upstream.narrowing.push(root);
        }
    }

    /// A watcher asks for another priority or is paused, or one that did or was not is gone: the item is looked at once, at the end of
    /// the turn or of one of the next.
    pub(crate) fn queue_demands(&mut self, items: &mut Items, id: ItemId) {
        let root = items.root(id);
        if items.get_mut(root).set_demands_changed(true) {
            self.upstream.demands_changed.push_back(root);
        }
    }

    /// An item is open, and something else may be wanted of it than was when it was asked for.
    pub(crate) fn look_at_demands(&mut self, items: &Items, id: ItemId) {
        if items.get(id).has_demands_changed() {
            self.upstream.demands_changed.push_back(id);
        }
    }

    /// Asks for an item again after a pause, which grows with every failure in a row.
    pub(super) fn retry_later(&mut self, items: &mut Items, config: &Config, now: u64, id: ItemId) {
        if let Some(failures) = items.retry_later(id) {
            let doubled = config.recovery_delay.saturating_mul(1 << failures.min(20));
            let longest = self.longest_recovery_delay(config, items.get(id).service());
            let at = now.saturating_add(doubled.min(longest));
            self.upstream.retries.push(Reverse((at, id)));
        }
    }

    fn send_open(&mut self, items: &mut Items, id: ItemId, source: SourceId, remote: RemoteService, request: &[u8]) {
        let item = items.get(id);
        let mut kind = if item.is_snapshot() { flags::SNAPSHOT_ONLY } else { flags::STREAMING };
        if item.is_private() {
            kind |= flags::PRIVATE;
        }
        if item.is_recovering() && item.was_imaged() {
            kind |= flags::WANTED_BACK;
        }
        let Some(at) = self.up_mut(source) else {
            hub_items::fault!("{source:?} was chosen, and is not there");
            return;
        };
        let token = at.new_token(id);
        at.writer.request(&Request::Open { service: remote.0, token: token.0, flags: kind, rwf: request });
        items.asked(id, source, token);
    }
}

impl P2ps {
    /// True if items can be opened at once, but for the limit of opens a turn.
    pub(crate) fn work_left(&self) -> bool {
        !self.sources.upstream.refreshes.is_empty()
            || self.hot_standby.has_work()
            || self.sources.services.has_queued()
                && self.sources.services.iter().any(|service| {
                    [false, true].into_iter().any(|polls| {
                        let first = service.queue().first(polls);
                        first.is_some_and(|id| {
                            self.sources.provider_of(&self.items, id).is_none_or(|(source, _)| {
                                self.sources.room_for(&self.items, &self.config, service, source, polls)
                            })
                        })
                    })
                })
    }

    /// Opens what waits, as far as the limits of a turn and the open windows let it.
    #[inline]
    pub(crate) fn open_waiting(&mut self) {
        if self.sources.services.has_queued() {
            self.open_queued();
        }
        if !self.sources.upstream.refreshes.is_empty() {
            self.sources.upstream.opens_left = self.refresh_waiting(self.sources.upstream.opens_left);
        }
    }

    fn open_queued(&mut self) {
        let mut left = Left { opens: self.sources.upstream.opens_left, looks: LOOKS_PER_TURN };
        let mut has_polls = false;
        let round = self.sources.services.round();
        for place in round.clone() {
            let service = self.sources.services.at(place);
            has_polls |= self.open_queued_in(service, false, &mut left);
        }
        for place in round.filter(|_| has_polls) {
            let service = self.sources.services.at(place);
            self.open_queued_in(service, true, &mut left);
        }
        self.sources.upstream.opens_left = left.opens;
    }

    /// As [`Self::open_waiting`], of one of the two queues of a service. Whether it has something in that of polls.
    fn open_queued_in(&mut self, service: ServiceId, polls: bool, left: &mut Left) -> bool {
        while left.opens > 0 && left.looks > 0 {
            let Some(known) = self.sources.services.get(service) else { break };
            let Some(id) = known.queue().first(polls) else { break };
            let item = self.items.get(id);
            let due = item.is_queued() && item.service() == service;
            match due.then(|| self.sources.provider_of(&self.items, id)).flatten() {
                Some((source, _)) if !self.sources.room_for(&self.items, &self.config, known, source, polls) => break,
                Some((source, remote)) => {
                    self.open_at(id, source, remote);
                    left.opens -= 1;
                }
                None => {
                    left.looks -= 1;
                    // A loss that has yet to tell of it is told first; the item keeps its place.
                    if due && self.tell_outage_of_item(id) {
                        continue;
                    }
                    // The item waits until something changes for its service.
                    if due {
                        self.park(id);
                    }
                }
            }
            self.sources.services.pop_queued(service, polls);
        }
        self.sources.services.get(service).is_some_and(|known| known.queue().has_polls())
    }

    /// Leaves an item waiting until something changes for its service. Who was not told why is told now: the service may have gone
    /// down since the item was asked for.
    fn park(&mut self, id: ItemId) {
        self.items.park(id);
        let text = self.no_source_text(self.items.get(id).service());
        let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, &text);
        self.tell_item(id, state, Telling { pending: Pending::Alone, relayed: Relayed::No, once: true });
    }

    /// What those are told who ask for an item that no source takes requests for.
    pub(crate) fn no_source_text(&self, service: ServiceId) -> String {
        let name = self.sources.services.get(service).map_or("", |service| service.name.as_str());
        let text = format!("Service {name} does not take requests now; the request waits for it.");
        self.config.status_texts.service_down(text).into_owned()
    }

    fn open_at(&mut self, id: ItemId, source: SourceId, remote: RemoteService) {
        if let Some(token) = self.adopt(id, source, id) {
            self.items.clear_widening(id);
            self.items.asked(id, source, token);
            self.items.note_asked(id, None, false, false);
            return;
        }
        let mut request = std::mem::take(&mut self.sources.request);
        request.clear();
        let view = self.items.wanted_view(id).filter(|_| !self.sources.is_asked_whole(&self.items, id, source));
        let pause = self.items.wants_pause(id);
        let written = self.write_request(id, view.as_ref(), pause, &mut request);
        self.items.clear_widening(id);
        // The request has what all want together.
        self.items.get_mut(id).set_demands_changed(false);
        if written {
            self.sources.send_open(&mut self.items, id, source, remote, &request);
            self.items.note_asked(id, view, pause, false);
        } else {
            self.items.park(id);
            self.give_up(id, &Refusal::NotEncodable);
        }
        self.sources.request = request;
    }

    /// Writes the request for an item as its Source Distributor gets it: exact quality, no service id. False, counted, if it cannot be
    /// written.
    pub(crate) fn write_request(
        &mut self,
        id: ItemId,
        view: Option<&ViewSpec>,
        pause: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        let priority = self.items.wanted_priority(id);
        self.items.get_mut(id).set_priority(priority);
        let item = self.items.get(id);
        let key = item.key();
        let relayed = self.items.relayed(id);
        let (container, payload) = relayed_payload::joined(view.map(ViewSpec::payload), relayed);
        let mut flags = RequestFlags::NONE;
        flags.set(RequestFlags::STREAMING, !item.is_snapshot());
        flags.set(RequestFlags::PRIVATE_STREAM, item.is_private());
        flags.set(RequestFlags::QUALIFIED_STREAM, item.kind().sharing == Sharing::Qualified);
        flags.set(RequestFlags::HAS_VIEW, view.is_some());
        flags.set(RequestFlags::PAUSE, pause);
        let mut msg_key = key.msg_key(0);
        msg_key.service_id = None;
        let request = RequestMsg {
            flags,
            key: msg_key,
            qos: key.qos.to_qos(),
            priority: Some(priority),
            container,
            body: &payload,
            ext_header: relayed.and_then(RelayedPayload::ext_header),
            ..RequestMsg::new(Domain(key.domain), 0)
        };
        let room = 96 + item.key_bytes().len() + request.body.len() + request.ext_header.map_or(0, <[u8]>::len);
        let written = encode::append(out, room, |w| request.encode(w)).is_ok();
        self.counters.messages_unwritable += u64::from(!written);
        written
    }

    /// Sends an open item's request again: its view or priority has changed, or it is to rest or to go on. Only with an image more is
    /// asked for than before: without one, nobody would know from when on it comes.
    pub(crate) fn reissue_upstream(&mut self, id: ItemId, with_image: bool) {
        let Some((source, handle)) = self.items.open_at(id) else {
            hub_items::fault!("a reissue of {id:?}, which is not open");
            return;
        };
        let mut request = Vec::new();
        let view = if with_image { self.items.wanted_view(id) } else { self.items.narrowed_view(id) };
        let view = view.filter(|_| !self.sources.is_asked_whole(&self.items, id, source));
        let pause = self.items.wants_pause(id) || !with_image && self.items.is_pause_asked(id);
        if !self.write_request(id, view.as_ref(), pause, &mut request) {
            return;
        }
        if with_image {
            let item = self.items.get_mut(id);
            item.reissued();
            item.ask_image();
        }
        let in_stream = with_image && self.must_come_in_stream(id);
        let serial = with_image.then(|| self.sources.upstream.next_reissue());
        if let Some(serial) = serial {
            self.items.await_wider(id, serial);
        }
        if let Some(source) = self.sources.up_mut(source) {
            source.writer.request(&Request::Reissue { handle: handle.0, serial, in_stream, rwf: &request });
        } else {
            debug_assert!(self.sources.outages.is_losing(source), "{id:?} is open at {source:?}, which is not there");
        }
        self.items.note_asked(id, view, pause, with_image);
    }

    /// An image is needed for a watcher of an item.
    pub(crate) fn need_image(&mut self, item: ItemId) {
        let root = self.items.root(item);
        self.want_cached(root);
        if self.items.is_cached(root) && self.answer_from_cache(root) {
            return;
        }
        self.bar_images_without_updates(root);
        if !self.items.get(root).is_waiting() && self.widen_upstream(root, item) {
            return;
        }
        self.ask_image(root);
    }

    /// Asks for the image of an item, unless one is on its way that will do.
    pub(crate) fn ask_image(&mut self, id: ItemId) {
        match self.items.get(id).state() {
            ItemState::Waiting(_) => self.sources.queue_open(&mut self.items, id),
            ItemState::Open { .. } if self.items.get(id).is_image_asked() => {}
            // The answer to a reissue is awaited, and may have been among what was lost: no image is known to hold what was asked
            // for before one that it stands in front of.
            ItemState::Open { .. } if self.items.is_reissued(id) => self.reissue_upstream(id, true),
            // The reissue has both: asked for alone, the image would be asked for with the priority that is over.
            ItemState::Open { .. } if self.items.wants_other_priority(id) => self.reissue_upstream(id, true),
            ItemState::Open { source, handle, .. } => {
                self.items.get_mut(id).ask_image();
                let in_stream = self.must_come_in_stream(id);
                if let Some(source) = self.sources.up_mut(source) {
                    source.writer.request(&Request::Refresh { handle: handle.0, in_stream });
                } else {
                    debug_assert!(
                        self.sources.outages.is_losing(source),
                        "{id:?} is open at {source:?}, which is not there"
                    );
                }
            }
            ItemState::Opening { .. } => {}
            ItemState::View { .. } | ItemState::Free => hub_items::fault!("an image is asked for of {id:?}"),
        }
    }

    /// Asks for more of an item if what was asked for does not cover one of its watchers. True if so: that watcher
    /// waits for the image that answers.
    fn widen_upstream(&mut self, root: ItemId, item: ItemId) -> bool {
        let coverage = self.items.coverage(item, !self.items.wants_pause(root));
        if coverage == Coverage::Shown {
            return false;
        }
        self.items.get_mut(item).set_awaits_wider(true);
        let known = self.items.get_mut(root);
        // Images are asked for one at a time, so that the one that comes next is known to be the wider one.
        if coverage == Coverage::Asked && known.is_image_asked() {
            // The reissue that is on its way asks for this as well.
        } else if !known.is_open() || known.is_image_asked() || known.is_image_arriving() {
            let deadline = self.now.saturating_add(self.config.request_timeout);
            self.sources.upstream.defer(deadline, root);
            known.reissue_later();
        } else {
            self.reissue_upstream(root, true);
        }
        true
    }

    /// Asks for less of the items that lost a view in this turn, if that is all that is wanted now.
    #[inline]
    pub(crate) fn narrow_views(&mut self) {
        if !self.sources.upstream.narrowing.is_empty() {
            self.narrow_queued();
        }
    }

    fn narrow_queued(&mut self) {
        for root in std::mem::take(&mut self.sources.upstream.narrowing) {
            // The number may be another item's by now, which is not queued.
            if !self.items.end_narrowing(root) {
                continue;
            }
            let item = self.items.get(root);
            let is_whole = item.source().is_some_and(|source| self.sources.is_asked_whole(&self.items, root, source));
            let settled = item.is_open() && !is_whole && !item.is_reissue_due() && !item.is_image_asked();
            if settled
                && !self.items.views_of(root).is_empty()
                && self.items.narrowed_view(root).as_ref() != self.items.asked_view(root)
            {
                self.reissue_upstream(root, false);
            }
        }
    }

    /// Asks for the priorities that have changed, and has those rest whose watchers are all paused, as far as this turn lets it. What is not
    /// open yet is asked for with its priority, or looked at again when it is open.
    #[inline]
    pub(crate) fn renew_demands(&mut self) {
        if self.sources.upstream.has_demands() {
            self.renew_changed();
        }
    }

    fn renew_changed(&mut self) {
        while self.sources.upstream.demands_left > 0
            && let Some(root) = self.sources.upstream.demands_changed.pop_front()
        {
            self.sources.upstream.demands_left -= 1;
            let item = self.items.get_mut(root);
            match item.state() {
                // The number may be another item's by now, which is not queued.
                ItemState::Open { .. } if item.set_demands_changed(false) => {
                    // A reissue that is due carries it.
                    let rests = || !self.items.get(root).is_reissue_due() && self.items.wants_pause(root);
                    let is_to_rest = !self.items.is_pause_asked(root) && rests();
                    if is_to_rest || self.items.wants_other_priority(root) {
                        self.reissue_upstream(root, false);
                    }
                }
                ItemState::Waiting(_) => {
                    item.set_demands_changed(false);
                }
                ItemState::Open { .. } | ItemState::Opening { .. } | ItemState::View { .. } | ItemState::Free => {}
            }
        }
    }

    /// Gives an item back if nobody watches it any more, or lets it stay for [`Config::unwatched_time`]. What was asked for stays until it is
    /// answered.
    pub(crate) fn release(&mut self, id: ItemId) {
        if !self.items.watchers(id).is_empty() {
            return;
        }
        match self.items.get(id).state() {
            ItemState::Free | ItemState::Opening { .. } => {}
            ItemState::View { .. } => {
                // A merge that waits for its watchers has nobody to go to.
                self.output.drop_merge(id);
                if let Some(parent) = self.items.remove_view(id) {
                    self.sources.queue_narrowing(&mut self.items, parent);
                    self.release(parent);
                }
            }
            ItemState::Waiting(_) | ItemState::Open { .. } if self.items.is_watched(id) => {
                self.sources.queue_narrowing(&mut self.items, id);
            }
            ItemState::Waiting(_) => self.remove_item(id),
            ItemState::Open { source, .. } if stays_unwatched(self, id, source) => {}
            ItemState::Open { source, handle, .. } => {
                self.end_pair(id);
                self.sources.close_at(id, source, handle);
                self.remove_item(id);
            }
        }
    }

    /// Frees an item that nobody watches and that is asked for nowhere.
    pub(crate) fn remove_item(&mut self, id: ItemId) {
        self.items.remove(id);
        self.output.forget_item(id);
        self.gate.drop_item(self.now, id);
    }

    /// Ends the use of an item's handle, if it has one: the item waits from now on.
    pub(crate) fn give_back(&mut self, id: ItemId) {
        // The item has no handle to give back.
        let Some((source, handle)) = self.items.open_at(id) else { return };
        self.end_pair(id);
        self.items.detach(id);
        self.sources.close_at(id, source, handle);
        debug_assert!(self.items.get(id).is_waiting());
    }

    /// Asks for the items again whose time has come.
    pub(crate) fn retry_items(&mut self) {
        while let Some(&Reverse((at, id))) = self.sources.upstream.retries.peek() {
            if at > self.now {
                return;
            }
            self.sources.upstream.retries.pop();
            // The number may be another item's by now.
            if self.items.end_pause(id) {
                self.counters.items_recovered += 1;
                self.sources.queue_open(&mut self.items, id);
            }
        }
    }

    /// Tells those why they wait who want more of an item, which is asked for behind an image that does not come; and again those who
    /// have come since, as long as it does not.
    pub(crate) fn explain_deferred(&mut self) {
        while let Some((_, id)) = self.sources.upstream.deferred.pop_front_if(|(at, _)| *at <= self.now) {
            self.sources.upstream.is_deferred.remove(&id);
            // The number may be another item's by now.
            if !self.items.get(id).is_open() || !self.items.get(id).is_reissue_due() || self.tell_outage_of_item(id) {
                continue;
            }
            self.sources.upstream.defer(self.now.saturating_add(self.config.request_timeout.max(1)), id);
            let text = "An image that is on its way does not come to its end: what was asked for follows it.";
            let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::TIMEOUT, text);
            self.tell_item(id, state, Telling { pending: Pending::Alone, relayed: Relayed::No, once: true });
        }
    }

    /// Asks for the images of open items that need one, as far as the limit of the turn lets it.
    /// Tells what is left of it.
    fn refresh_waiting(&mut self, budget: u32) -> u32 {
        for left in (0..budget).rev() {
            // All are asked for.
            let Some(id) = self.sources.upstream.refreshes.pop_front() else { return left + 1 };
            let item = self.items.get_mut(id);
            item.set_refresh_queued(false);
            if !item.is_open() || item.is_image_asked() {
                continue;
            }
            let (recovering, in_set) = (item.is_recovering(), item.is_image_arriving());
            if !self.items.is_watched(id) {
                continue;
            }
            // The answer to a reissue may be among what was lost, and no other image is for those that wait for it.
            match (self.items.is_widening(id), in_set) {
                (true, true) => self.items.get_mut(id).reissue_later(),
                (true, false) => self.reissue_upstream(id, true),
                (false, false) if recovering || self.is_image_owed(id) => self.ask_image(id),
                (false, _) => {}
            }
        }
        0
    }

    /// An item cannot be asked for at all.
    fn give_up(&mut self, id: ItemId, refusal: &Refusal<'_>) {
        debug_assert!(matches!(self.items.get(id).state(), ItemState::Waiting(Wait::Parked)));
        let text = refusal.to_string();
        let telling = Telling { pending: Pending::All, relayed: Relayed::No, once: false };
        self.tell_item(id, refusal.state(&text), telling);
        self.release(id);
    }
}

/// Lets an open item stay that nobody watches any more, so that who comes back finds it. False for one that is given back at once: a single client's,
/// one that lacks messages or whose updates may rest, and one whose source is going.
fn stays_unwatched(p2ps: &mut P2ps, id: ItemId, source: SourceId) -> bool {
    let P2ps { config, items, sources, now, .. } = p2ps;
    let item = items.get(id);
    let is_whole = !item.is_private() && !item.is_snapshot() && !item.is_recovering() && !items.may_rest(id);
    let stays = config.unwatched_time > 0 && is_whole && sources.is_up(source);
    if stays {
        items.unwatched_mut().keep(id, now.saturating_add(config.unwatched_time));
    }
    stays
}

/// Gives back the items whose time without watchers is over, and those that are too many, as much as a turn does.
pub(crate) fn end_unwatched(p2ps: &mut P2ps) {
    for _ in 0..p2ps.config.work_per_turn.max(1) {
        let most = p2ps.config.most_unwatched();
        let Some(id) = p2ps.items.unwatched_mut().take_due(p2ps.now, most) else { break };
        p2ps.counters.items_aged += 1;
        p2ps.give_back(id);
        p2ps.release(id);
    }
}
