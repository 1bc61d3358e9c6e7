//! The items of a consumer: which are asked for, which wait, and what their streams' states mean.

use super::answer::Answer;
use super::crossings::Crossings;
use super::item::{Item, Phase};
use super::open_streams::OpenStreams;
use super::{ConsumerConfig, Event, FIRST_ITEM, ItemId, ItemMessage, ItemRequest, OpenError, lists_data, recovers};
use crate::directory::Directory;
use crate::session::Session;
use rustc_hash::FxHashMap;
use rwf::msg::{CloseMsg, Domain, Msg, MsgClass, MsgKey, RefreshMsg, RequestFlags, RequestMsg, StatusMsg};
use rwf::rdm::directory::{Group, Part, Service};
use rwf::rdm::login;
use rwf::rdm::request::{Payload, data_streams};
use rwf::rdm::state::{Recovery, StateBuf};
use rwf::wire::encode_growing;
use rwf::{DataState, DataType, State, StateCode, StreamState};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Items that are to be asked for.
#[derive(Debug)]
enum Entry {
    One(i32),
    /// The items of `count` streams from `base` + 1 on, opened together; stream `base` is the batch's own.
    Batch {
        base: i32,
        count: i32,
    },
}

/// Requests that wait for a service, or for its answers.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Entry>,
    /// Items that were put here without having been told stale. Those that wait no more, or were told since, may be among them.
    untold: Vec<i32>,
    /// Requests without an answer.
    requested: u64,
}

#[derive(Debug)]
pub(super) struct Watchlist {
    items: FxHashMap<i32, Item>,
    open: OpenStreams,
    next_stream: i32,
    /// By name of the service.
    queues: BTreeMap<String, Queue>,
    /// When a request has gone unanswered too long, or an item has rested.
    timers: BTreeSet<(u64, i32)>,
    recovery: Recovery,
    request_timeout_ns: u64,
    retry_ns: u64,
    open_window: u64,
    items_max: usize,
    /// Items whose servers are to open what they name.
    lists: usize,
    crossings: Crossings,
    late: u64,
}

impl Watchlist {
    pub(super) fn new(config: &ConsumerConfig, recovery: Recovery) -> Self {
        Self {
            items: FxHashMap::default(),
            open: OpenStreams::default(),
            next_stream: FIRST_ITEM,
            queues: BTreeMap::new(),
            timers: BTreeSet::new(),
            recovery,
            request_timeout_ns: config.request_timeout_ns,
            retry_ns: config.retry_ns,
            open_window: config.open_window,
            items_max: config.items_max,
            lists: 0,
            crossings: Crossings::default(),
            late: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) const fn late(&self) -> u64 {
        self.late
    }

    pub(super) fn timeout(&self) -> Option<u64> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// The domain of an item whose stream the server knows.
    pub(super) fn open_domain(&self, item: ItemId) -> Option<Domain> {
        self.items.get(&item.0).filter(|item| item.is_open()).map(|item| item.request.domain)
    }

    pub(super) fn request(&self, item: ItemId) -> Option<&ItemRequest> {
        self.items.get(&item.0).map(|item| &item.request)
    }

    /// Whether the item's image is whole, and as good as the server says.
    pub(super) fn is_good(&self, item: ItemId) -> bool {
        self.items.get(&item.0).is_some_and(|item| item.phase == Phase::Live && !item.stale)
    }

    pub(super) fn is_live(&self, item: ItemId) -> bool {
        self.items.get(&item.0).is_some_and(|item| item.phase == Phase::Live)
    }

    /// Asks for the image of an open item once more.
    pub(super) fn ask_again(&mut self, id: ItemId, session: &mut Session) -> bool {
        let item = self.items.get(&id.0).filter(|item| item.is_open());
        if let Some(item) = item {
            send_request(id.0, item, false, session);
            self.crossings.asked(id.0);
        }
        item.is_some()
    }

    /// Numbers of streams for so many items, with one more before them for their batch; the first of them.
    fn reserve(&mut self, items: usize, batch: bool) -> Result<i32, OpenError> {
        let ids = i32::try_from(items + usize::from(batch)).ok().and_then(|ids| self.next_stream.checked_add(ids));
        match ids {
            Some(next) if self.items.len() + items <= self.items_max => {
                Ok(std::mem::replace(&mut self.next_stream, next))
            }
            _ => Err(OpenError::TooManyItems),
        }
    }

    fn queue(&mut self, service: &str) -> &mut Queue {
        if !self.queues.contains_key(service) {
            self.queues.insert(service.to_owned(), Queue::default());
        }
        self.queues.get_mut(service).expect("it has just been put there")
    }

    pub(super) fn open(&mut self, request: ItemRequest) -> Result<ItemId, OpenError> {
        let id = self.reserve(1, false)?;
        let queue = self.queue(&request.service);
        queue.waiting.push_back(Entry::One(id));
        queue.untold.push(id);
        self.insert(id, request);
        Ok(ItemId(id))
    }

    pub(super) fn open_batch(&mut self, request: &ItemRequest, names: &[&str]) -> Result<Vec<ItemId>, OpenError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let base = self.reserve(names.len(), true)?;
        let count = names.len() as i32;
        let ids = base + 1..=base + count;
        let queue = self.queue(&request.service);
        queue.waiting.push_back(Entry::Batch { base, count });
        queue.untold.extend(ids.clone());
        for (id, name) in ids.clone().zip(names) {
            self.insert(id, ItemRequest { name: (*name).to_owned(), ..request.clone() });
        }
        Ok(ids.map(ItemId).collect())
    }

    /// An item that has ended meanwhile has no request to change: its owner has been told so or is about to be.
    pub(super) fn reissue(&mut self, id: ItemId, change: impl FnOnce(&mut ItemRequest), session: &mut Session) {
        let Some(item) = self.items.get_mut(&id.0) else { return };
        let before = item.request.clone();
        change(&mut item.request);
        let ItemRequest { service, name, name_type, domain, streaming, private, data_streams, .. } = before.clone();
        let kept =
            ItemRequest { service, name, name_type, domain, streaming, private, data_streams, ..item.request.clone() };
        item.request = kept;
        // An item that a server cannot pause goes on there: a pause is no news to it.
        let pauses = session.features().optimized_pause_resume == Some(true);
        let is_pause_alone = ItemRequest { paused: before.paused, ..item.request.clone() } == before;
        if item.is_open() && (pauses || !is_pause_alone || item.request.paused == before.paused) {
            // A new view needs an image; so does an item that goes on after a pause.
            let silent = item.request.view == before.view && (item.request.paused || !before.paused);
            send_request(id.0, item, silent, session);
            self.crossings.asked(id.0);
        }
    }

    /// The domain on which a stream is to be closed that a server has opened anew, by a request that crossed its close.
    pub(super) fn opened_anew(&mut self, id: i32, msg: &[u8]) -> Option<Domain> {
        let is_open = self.items.get(&id).is_some_and(Item::is_open);
        if is_open { None } else { self.crossings.opened(id, msg) }
    }

    /// An item that has ended meanwhile is closed already.
    pub(super) fn close(&mut self, id: ItemId, session: &mut Session) {
        let Some(item) = self.remove(id.0) else { return };
        if item.is_open() {
            self.crossings.settled(id.0);
            let close = CloseMsg::new(item.request.domain, id.0);
            session.out.push(|w| close.encode(w));
        }
    }

    /// An item of the list, of which the caller knows that the list has it.
    fn listed(&mut self, id: i32) -> &mut Item {
        self.items.get_mut(&id).expect("an item of the list")
    }

    /// Takes an item off the list, with its timer and its place in the window.
    fn remove(&mut self, id: i32) -> Option<Item> {
        if !self.items.contains_key(&id) {
            return None;
        }
        self.settle(id);
        self.leave_stream(id);
        self.forget(id)
    }

    fn insert(&mut self, id: i32, request: ItemRequest) {
        self.lists += usize::from(request.data_streams);
        self.items.insert(id, Item::new(request));
    }

    fn forget(&mut self, id: i32) -> Option<Item> {
        let item = self.items.remove(&id)?;
        self.lists -= usize::from(item.request.data_streams);
        Some(item)
    }

    /// A message on a stream below zero: a server opens such for what a symbol list names, and the first message has the item's key. Gives whether the
    /// stream is that of an item; no list may be open any more, or there is no room.
    pub(super) fn adopt(
        &mut self,
        now: u64,
        id: i32,
        msg: &[u8],
        directory: &Directory,
        events: &mut VecDeque<Event>,
    ) -> bool {
        if self.items.contains_key(&id) {
            return true;
        }
        if self.lists == 0 || self.items.len() >= self.items_max {
            return false;
        }
        let (domain, key) = match Msg::decode(msg) {
            Ok(Msg::Refresh(refresh)) => (refresh.domain, refresh.key),
            Ok(Msg::Status(status)) => (status.domain, status.key),
            Ok(Msg::Update(update)) => (update.domain, update.key),
            _ => return false,
        };
        let Some(key) = key.filter(|key| key.name.is_some()) else { return false };
        let service = key.service_id.and_then(|service| directory.get(service));
        let Some((number, name)) = service.and_then(|service| Some((service.id, service.name()?))) else {
            return false;
        };
        let request = ItemRequest { domain, ..ItemRequest::new(name, key.name_lossy()) };
        events.push_back(Event::Provided { item: ItemId(id), request: Box::new(request.clone()) });
        self.queue(name).requested += 1;
        self.insert(id, request);
        let deadline = now.saturating_add(self.request_timeout_ns);
        let item = self.listed(id);
        (item.phase, item.service) = (Phase::Requested { deadline, begun: false }, number);
        self.open.asked(number, id);
        self.timers.insert((deadline, id));
        true
    }

    /// The item's stream is not open at the server any more, or is about not to be.
    fn leave_stream(&mut self, id: i32) {
        if let Some(item) = self.items.get(&id).filter(|item| item.is_open()) {
            self.open.remove(item.service, &item.group, id);
        }
    }

    /// The server says to which group of items an open stream belongs.
    fn set_group(&mut self, id: i32, group: &[u8]) {
        let item = self.items.get_mut(&id).expect("an item of the list");
        debug_assert!(item.is_open(), "a group for a stream that is not open");
        if *item.group != *group {
            self.open.regroup(item.service, (&item.group, group), id);
            item.group = group.into();
        }
    }

    /// The item waits for nothing any more.
    fn settle(&mut self, id: i32) {
        let item = self.items.get(&id).expect("an item of the list");
        match item.phase {
            Phase::Requested { deadline, .. } => {
                self.timers.remove(&(deadline, id));
                if let Some(queue) = self.queues.get_mut(&item.request.service) {
                    debug_assert!(queue.requested > 0, "an answer that nobody counted");
                    queue.requested -= 1;
                }
            }
            Phase::Resting { until } => {
                self.timers.remove(&(until, id));
            }
            Phase::Queued | Phase::Live => {}
        }
    }

    /// Whether an update of a stream is waited for.
    #[inline]
    pub(super) fn passes(&self, id: i32) -> bool {
        self.open.passes(id, MsgClass::UPDATE)
    }

    /// Takes a message that changes nothing about its item.
    #[inline]
    pub(super) fn pass<'m>(&mut self, id: i32, class: MsgClass, msg: &'m [u8]) -> Option<ItemMessage<'m>> {
        let is_due = self.open.passes(id, class);
        self.late += u64::from(!is_due);
        is_due.then_some(ItemMessage { item: ItemId(id), msg })
    }

    /// Takes a refresh or status on the stream of an item.
    pub(super) fn message<'m>(
        &mut self,
        now: u64,
        id: i32,
        msg: &'m [u8],
        directory: &Directory,
        events: &mut VecDeque<Event>,
    ) -> Option<ItemMessage<'m>> {
        let given = ItemMessage { item: ItemId(id), msg };
        let item = self.items.get(&id).filter(|item| item.is_open());
        if item.is_none() {
            self.late += 1;
            return None;
        }
        match rwf::peek::class(msg)? {
            MsgClass::REFRESH => {
                let refresh = RefreshMsg::decode(msg).ok()?;
                let target = self.redirected(id, Some(refresh.state), refresh.key.as_ref(), directory);
                let is_given = self.refresh(now, id, &refresh, events);
                events.extend(target);
                is_given.then_some(given)
            }
            MsgClass::STATUS => {
                let Ok(Msg::Status(status)) = Msg::decode(msg) else { return None };
                let target = self.redirected(id, status.state, status.key.as_ref(), directory);
                let is_given = self.status(now, id, &status, events);
                events.extend(target);
                is_given.then_some(given)
            }
            _ => None,
        }
    }

    /// Where an item is to be had from now on, if that is what a message says: under its key, as far as the key goes.
    fn redirected(
        &self,
        id: i32,
        state: Option<State<'_>>,
        key: Option<&MsgKey<'_>>,
        directory: &Directory,
    ) -> Option<Event> {
        let key = key.filter(|_| state.is_some_and(|state| state.stream == StreamState::REDIRECTED))?;
        let request = &self.items.get(&id)?.request;
        let mut target = request.clone();
        if key.name.is_some() {
            target.name = key.name_lossy().into_owned();
            target.name_type = key.name_type.or(target.name_type);
        }
        if let Some(service) = key.service_id {
            // A service that the directory does not have cannot be asked for by its name.
            directory.get(service)?.name()?.clone_into(&mut target.service);
        }
        let is_elsewhere = target.name != request.name || target.service != request.service;
        is_elsewhere.then(|| Event::Redirected { item: ItemId(id), request: Box::new(target) })
    }

    /// Whether the owner is to see the message itself.
    fn refresh(&mut self, now: u64, id: i32, refresh: &RefreshMsg<'_>, events: &mut VecDeque<Event>) -> bool {
        match Answer::of_refresh(refresh) {
            Answer::Over(state) => {
                self.ended(now, id, state, events);
                return false;
            }
            Answer::Image => {
                self.crossings.answered(id);
                self.answered(id);
            }
            Answer::Part | Answer::State(_) => self.postpone(now, id),
        }
        self.set_group(id, refresh.group_id);
        let item = self.listed(id);
        item.stale = refresh.state.data == DataState::SUSPECT;
        let whole = item.phase == Phase::Live;
        if whole && (!item.request.streaming || refresh.state.stream == StreamState::NON_STREAMING) {
            self.remove(id);
        }
        true
    }

    /// Whether the owner is to see the message itself.
    fn status(&mut self, now: u64, id: i32, status: &StatusMsg<'_>, events: &mut VecDeque<Event>) -> bool {
        if let Answer::Over(state) | Answer::State(Some(state)) = Answer::of_status(status)
            && (state.stream.is_final() || self.recovery.apply(state) != state)
        {
            self.ended(now, id, self.recovery.apply(state), events);
            return false;
        }
        self.answered(id);
        if let Some(group) = status.group_id {
            self.set_group(id, group);
        }
        let item = self.listed(id);
        if let Some(state) = status.state.filter(|state| state.data != DataState::NO_CHANGE) {
            item.stale = state.data == DataState::SUSPECT;
        }
        true
    }

    /// The first answer is in.
    fn answered(&mut self, id: i32) {
        self.settle(id);
        let item = self.listed(id);
        debug_assert!(item.is_open(), "an answer for an item that was not asked for");
        item.phase = Phase::Live;
        self.open.begun(id);
    }

    /// A part of an image has come: the next one has the whole time again. A part that nobody waits for has no time.
    fn postpone(&mut self, now: u64, id: i32) {
        let timeout = self.request_timeout_ns;
        let Phase::Requested { deadline, begun } = &mut self.listed(id).phase else { return };
        *begun = true;
        let old = std::mem::replace(deadline, now.saturating_add(timeout));
        let new = *deadline;
        self.timers.remove(&(old, id));
        self.timers.insert((new, id));
        self.open.begun(id);
    }

    /// The stream is closed at the server, with this state, or means so to this consumer.
    fn ended(&mut self, now: u64, id: i32, state: State<'_>, events: &mut VecDeque<Event>) {
        self.crossings.closed(id);
        let item = self.items.get(&id).expect("an item of the list");
        let recoverable = matches!(state.stream, StreamState::CLOSED_RECOVER | StreamState::OPEN);
        if recoverable && recovers(self.recovery) && item.is_recovered(id) {
            self.rest(now, id);
            let state = self.recovery.apply(State { data: DataState::SUSPECT, ..state });
            self.tell_stale(id, state, events);
        } else {
            self.remove(id);
            // A login for which streams stay open, or a state that is no end by itself: of an item that nobody recovers it is one.
            let is_over = state.stream != StreamState::OPEN;
            let state = State { stream: if is_over { state.stream } else { StreamState::CLOSED_RECOVER }, ..state };
            events.push_back(Event::ItemState { item: ItemId(id), state: state.into() });
        }
    }

    fn rest(&mut self, now: u64, id: i32) {
        self.settle(id);
        self.leave_stream(id);
        let until = now.saturating_add(self.retry_ns);
        self.listed(id).phase = Phase::Resting { until };
        self.timers.insert((until, id));
    }

    /// Tells the owner that an item is not current; once, as long as it is not.
    fn tell_stale(&mut self, id: i32, state: State<'_>, events: &mut VecDeque<Event>) {
        if !std::mem::replace(&mut self.listed(id).stale, true) {
            events.push_back(Event::ItemState { item: ItemId(id), state: state.into() });
        }
    }

    /// Streams that are gone with what carried them: asked for anew as soon as that can be.
    fn lost(&mut self, ids: &[i32], code: StateCode, text: &str, events: &mut VecDeque<Event>) {
        for &id in ids {
            self.settle(id);
            self.leave_stream(id);
            let item = self.items.get_mut(&id).expect("an item of the list");
            let state = self.recovery.unavailable(code, text);
            if !item.is_recovered(id) || state.stream != StreamState::OPEN {
                self.forget(id);
                let state = State { stream: StreamState::CLOSED_RECOVER, ..state };
                events.push_back(Event::ItemState { item: ItemId(id), state: state.into() });
                continue;
            }
            if item.phase != Phase::Queued {
                item.phase = Phase::Queued;
                let service = item.request.service.clone();
                self.queue(&service).waiting.push_back(Entry::One(id));
            }
            self.tell_stale(id, state, events);
        }
    }

    pub(super) fn connection_lost(&mut self, events: &mut VecDeque<Event>) {
        self.crossings.clear();
        let waits = |item: &Item| item.phase == Phase::Queued;
        let mut ids: Vec<i32> = self.items.iter().filter(|(_, item)| !waits(item)).map(|(&id, _)| id).collect();
        ids.sort_unstable();
        self.lost(&ids, StateCode::NONE, "Connection to the server is lost", events);
    }

    /// A service has left the directory: its streams are closed at the server.
    pub(super) fn service_lost(&mut self, service: u16, events: &mut VecDeque<Event>) {
        let ids = self.open.of_service(service);
        self.lost(&ids, StateCode::SOURCE_UNKNOWN, "Service has left the directory", events);
    }

    /// A state for all items of a service.
    pub(super) fn service_status(&mut self, now: u64, service: u16, state: &StateBuf, events: &mut VecDeque<Event>) {
        let ids = self.open.of_service(service);
        self.fan_out(now, &ids, state, events);
    }

    /// What happens to a group of items: a state, another group.
    pub(super) fn group_status(&mut self, now: u64, service: u16, group: &Group, events: &mut VecDeque<Event>) {
        let ids = self.open.of_group(service, &group.group);
        if let Some(merged) = &group.merged_to {
            for &id in &ids {
                self.set_group(id, merged);
            }
        }
        if let Some(state) = &group.status {
            self.fan_out(now, &ids, state, events);
        }
    }

    fn fan_out(&mut self, now: u64, ids: &[i32], state: &StateBuf, events: &mut VecDeque<Event>) {
        let actual = state.as_state();
        let state = self.recovery.apply(actual);
        for &id in ids {
            if actual.stream.is_final() || state.stream.is_final() {
                self.ended(now, id, actual, events);
                continue;
            }
            let item = self.listed(id);
            if state.data != DataState::NO_CHANGE {
                item.stale = state.data == DataState::SUSPECT;
            }
            events.push_back(Event::ItemState { item: ItemId(id), state: state.into() });
        }
    }

    /// Tells the items that wait for a service which cannot be used now.
    pub(super) fn tell_unavailable(&mut self, directory: &Directory, events: &mut VecDeque<Event>) {
        let usable = |name: &str| directory.named(name).is_some_and(Service::is_usable);
        let absent = self.queues.iter_mut().filter(|(name, queue)| !queue.untold.is_empty() && !usable(name));
        let untold: Vec<i32> = absent.flat_map(|(_, queue)| std::mem::take(&mut queue.untold)).collect();
        self.tell_untold(untold, events);
    }

    /// As [`Watchlist::tell_unavailable`], for the service of an item that has just been opened.
    pub(super) fn tell_opened(&mut self, id: ItemId, directory: &Directory, events: &mut VecDeque<Event>) {
        let item = self.items.get(&id.0).expect("an item that has just been opened");
        if !directory.named(&item.request.service).is_some_and(Service::is_usable)
            && let Some(queue) = self.queues.get_mut(&item.request.service)
        {
            let untold = std::mem::take(&mut queue.untold);
            self.tell_untold(untold, events);
        }
    }

    fn tell_untold(&mut self, mut ids: Vec<i32>, events: &mut VecDeque<Event>) {
        let waits = |id: &i32| self.items.get(id).is_some_and(|item| item.phase == Phase::Queued && !item.stale);
        ids.retain(waits);
        ids.sort_unstable();
        self.lost(&ids, StateCode::SOURCE_UNKNOWN, "Service is not available", events);
    }

    /// Does what is due.
    pub(super) fn timer(&mut self, now: u64, session: &mut Session, events: &mut VecDeque<Event>) {
        while let Some(&(at, id)) = self.timers.first().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, id));
            let item = self.items.get_mut(&id).expect("an item whose time is running is on the list");
            match item.phase {
                Phase::Resting { .. } => {
                    item.phase = Phase::Queued;
                    let service = item.request.service.clone();
                    self.queue(&service).waiting.push_back(Entry::One(id));
                }
                Phase::Requested { .. } => {
                    let close = CloseMsg::new(item.request.domain, id);
                    session.out.push(|w| close.encode(w));
                    self.crossings.settled(id);
                    let text = "No answer to the request in time";
                    let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::TIMEOUT, text);
                    self.ended(now, id, state, events);
                }
                Phase::Queued | Phase::Live => debug_assert!(false, "an item with a timer that waits for nothing"),
            }
        }
    }

    /// Asks for what waits, as far as services and their windows allow.
    pub(super) fn send_requests(&mut self, now: u64, directory: &Directory, session: &mut Session) {
        if !session.is_up() {
            return;
        }
        let Self { items, queues, timers, open, crossings, .. } = self;
        for (name, queue) in queues.iter_mut().filter(|(_, queue)| !queue.waiting.is_empty()) {
            let Some(service) = directory.named(name).filter(|service| service.is_usable()) else { continue };
            let load = service.load.as_ref().and_then(Part::value);
            let window = load.and_then(|load| load.open_window).unwrap_or(self.open_window);
            let mut asked = |item: &mut Item, id: i32, requested: &mut u64| {
                let deadline = now.saturating_add(self.request_timeout_ns);
                item.phase = Phase::Requested { deadline, begun: false };
                item.service = service.id;
                item.group = Box::default();
                open.asked(service.id, id);
                crossings.settled(id);
                timers.insert((deadline, id));
                *requested += 1;
            };
            while queue.requested < window {
                let Some(entry) = queue.waiting.pop_front() else { break };
                match entry {
                    Entry::One(id) => {
                        let Some(item) = items.get_mut(&id).filter(|item| item.phase == Phase::Queued) else {
                            continue;
                        };
                        asked(item, id, &mut queue.requested);
                        send_request(id, item, false, session);
                    }
                    Entry::Batch { base, count } => {
                        let ids = base + 1..=base + count;
                        let all = ids.clone().all(|id| items.get(&id).is_some_and(|item| item.phase == Phase::Queued));
                        let takes = session.features().batch.is_some_and(|bits| bits & login::batch::REQUESTS != 0);
                        let room = window.saturating_sub(queue.requested) >= count as u64;
                        if all && takes && room && send_batch(base, ids.clone(), items, service.id, session) {
                            for id in ids {
                                let Some(item) = items.get_mut(&id) else { continue };
                                asked(item, id, &mut queue.requested);
                            }
                        } else {
                            for id in ids.rev() {
                                queue.waiting.push_front(Entry::One(id));
                            }
                        }
                    }
                }
            }
            if queue.waiting.is_empty() {
                queue.untold.clear();
            }
        }
    }

    /// What must hold between calls.
    pub(super) fn check_invariants(&self, up: bool) {
        let mut open = OpenStreams::default();
        for (&id, item) in self.items.iter().filter(|(_, item)| item.is_open()) {
            let begun = !matches!(item.phase, Phase::Requested { begun: false, .. });
            open.insert(item.service, &item.group, id, begun);
        }
        assert_eq!(open, self.open, "open streams by service and group, and whether their answers have begun");
        let mut requested: BTreeMap<&str, u64> = BTreeMap::new();
        let mut timers = BTreeSet::new();
        for (&id, item) in &self.items {
            assert!(up || !item.is_open(), "stream {id} is open without a connection");
            match item.phase {
                Phase::Requested { deadline, .. } => {
                    *requested.entry(&item.request.service).or_default() += 1;
                    timers.insert((deadline, id));
                }
                Phase::Resting { until } => {
                    timers.insert((until, id));
                }
                Phase::Queued => {
                    let queue = self.queues.get(&item.request.service).expect("a queue for each service");
                    let waits = queue.waiting.iter().any(|entry| match *entry {
                        Entry::One(one) => one == id,
                        Entry::Batch { base, count } => (base + 1..=base + count).contains(&id),
                    });
                    assert!(waits, "item {id} waits in no queue");
                }
                Phase::Live => {}
            }
        }
        assert_eq!(timers, self.timers);
        for (name, queue) in &self.queues {
            assert_eq!(queue.requested, requested.get(name.as_str()).copied().unwrap_or(0), "requests of {name}");
        }
    }
}

fn flags_of(request: &ItemRequest, view: bool, session: &Session) -> RequestFlags {
    let mut flags = RequestFlags::NONE;
    flags.set(RequestFlags::STREAMING, request.streaming);
    flags.set(RequestFlags::PRIVATE_STREAM, request.private);
    let pauses = session.features().optimized_pause_resume == Some(true);
    flags.set(RequestFlags::PAUSE, request.paused && pauses);
    flags.set(RequestFlags::HAS_VIEW, view);
    flags
}

/// A request's wish for the items that a symbol list names.
fn data_streams_of(request: &ItemRequest, session: &Session) -> Option<u64> {
    (request.data_streams && lists_data(session)).then_some(data_streams::STREAMS)
}

/// Longest payload of a request.
const PAYLOAD_MAX: usize = 4 << 20;

/// The payload of a request: what the server can make use of.
fn payload_of(payload: &Payload<'_>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let length = encode_growing(&mut bytes, 0, 256, PAYLOAD_MAX, |w| payload.encode(w)).ok()?;
    bytes.truncate(length);
    Some(bytes)
}

/// Asks for an item, or for a change of what is asked for: `silent` without a new image.
fn send_request(id: i32, item: &Item, silent: bool, session: &mut Session) {
    let request = &item.request;
    let view = request.view.clone().filter(|_| session.features().view == Some(true));
    let (has_view, data_streams) = (view.is_some(), data_streams_of(request, session));
    let payload = Payload { view, data_streams, ..Payload::default() };
    let body = (payload != Payload::default()).then(|| payload_of(&payload)).flatten();
    let mut flags = flags_of(request, has_view && body.is_some(), session);
    flags.set(RequestFlags::NO_REFRESH, silent);
    let key = MsgKey { name_type: request.name_type, ..MsgKey::item(item.service, request.name.as_bytes()) };
    let msg = RequestMsg {
        container: if body.is_some() { DataType::ELEMENT_LIST } else { DataType::NO_DATA },
        flags,
        priority: request.priority,
        qos: request.qos,
        worst_qos: request.worst_qos,
        key,
        body: body.as_deref().unwrap_or_default(),
        ..RequestMsg::new(request.domain, id)
    };
    session.out.push(|w| msg.encode(w));
}

/// Asks for the items of a batch with one message; whether that could be written.
fn send_batch(
    base: i32,
    ids: impl Iterator<Item = i32>,
    items: &FxHashMap<i32, Item>,
    service: u16,
    session: &mut Session,
) -> bool {
    let requests: Vec<&ItemRequest> = ids.filter_map(|id| items.get(&id)).map(|item| &item.request).collect();
    let Some(&first) = requests.first() else { return false };
    let same = |other: &&ItemRequest| ItemRequest { name: first.name.clone(), ..(*other).clone() } == *first;
    if !requests.iter().all(same) {
        return false;
    }
    let view = first.view.clone().filter(|_| session.features().view == Some(true));
    let has_view = view.is_some();
    let names = requests.iter().map(|request| request.name.as_bytes()).collect();
    let data_streams = data_streams_of(first, session);
    let payload = Payload { items: Some(names), view, data_streams, ..Payload::default() };
    let Some(body) = payload_of(&payload) else { return false };
    let msg = RequestMsg {
        container: DataType::ELEMENT_LIST,
        flags: flags_of(first, has_view, session).with(RequestFlags::HAS_BATCH),
        priority: first.priority,
        qos: first.qos,
        worst_qos: first.worst_qos,
        key: MsgKey { service_id: Some(service), name_type: first.name_type, ..MsgKey::EMPTY },
        body: &body,
        ..RequestMsg::new(first.domain, base)
    };
    session.out.push(|w| msg.encode(w))
}
