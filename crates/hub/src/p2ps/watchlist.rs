//! What clients ask for on their streams: items to watch, changes to how they are watched, and the end of it.

use super::items::{ItemId, Phase, ServiceId, bits};
use super::qos::matching;
use super::refusal::{Refusal, Told};
use super::services::Service;
use super::statuses::told;
use super::streams::{MAX_WATCHERS, Open, WatchFlags};
use super::views::{self, ViewId, Wish};
use super::watchers::Watcher;
use super::{P2ps, payload};
use crate::item::ItemKey;
use rwf::msg::{AckMsg, CloseFlags, CloseMsg, Domain, MsgKey, RequestFlags, RequestMsg};
use rwf::rdm::request::Payload;
use rwf::{DataState, Qos, State, StateCode, StreamState};

/// A request for an item that can be served, now or later.
struct Ask {
    service: ServiceId,
    qos: Option<Qos>,
    /// Nobody serves it now.
    unavailable: bool,
    private: bool,
    snapshot: bool,
}

impl P2ps {
    /// A request, whatever its domain.
    pub(super) fn request(&mut self, client: u32, logged_in: bool, msg: &RequestMsg<'_>) {
        match msg.domain {
            Domain::LOGIN => self.login_request(client, msg),
            domain if !logged_in => self.refuse(client, msg.stream_id, domain, &Refusal::NotLoggedIn),
            Domain::SOURCE => self.directory_request(client, msg),
            Domain::DICTIONARY => self.dictionary_request(client, msg),
            _ if msg.flags.contains(RequestFlags::HAS_BATCH) => self.batch_request(client, msg),
            _ => self.item_request(client, msg),
        }
    }

    fn item_request(&mut self, client: u32, msg: &RequestMsg<'_>) {
        let wish = match Payload::of_request(msg) {
            Ok(payload) => views::wish(msg.flags.contains(RequestFlags::HAS_VIEW), payload.view.as_ref()),
            Err(_) => Err(Refusal::BadView { why: "its payload is not an element list that can be read" }),
        };
        match wish {
            Ok(wish) => self.item_request_with(client, msg, &wish),
            Err(refusal) => self.refuse(client, msg.stream_id, msg.domain, &refusal),
        }
    }

    /// A request for an item, its view read already.
    pub(super) fn item_request_with(&mut self, client: u32, msg: &RequestMsg<'_>, wish: &Wish) {
        self.counters.requests += 1;
        let stream = msg.stream_id;
        let Some(known) = self.client(client) else { return };
        let result = match known.streams.get(stream) {
            Some(Open::Item(item)) => self.reissue(client, item, msg, wish),
            Some(_) => Err(Refusal::StreamInUse { stream }.told()),
            None => self.open_stream(client, msg, wish),
        };
        if let Err(told) = result {
            self.refuse_told(client, stream, msg.domain, &told);
        }
    }

    /// Opens a stream, or says why not.
    fn open_stream(&mut self, client: u32, msg: &RequestMsg<'_>, wish: &Wish) -> Result<(), Told> {
        let ask = self.check(client, msg).map_err(|refusal| refusal.told())?;
        let stream = msg.stream_id;
        let policy = self.client(client).map_or_else(Default::default, |known| known.policy);
        let mut key = std::mem::take(&mut self.scratch.key);
        key.clear();
        ItemKey::new(msg.domain, &msg.key, ask.qos).write(&mut key);
        let found = self.find_or_insert(&key, &ask, msg.flags.contains(RequestFlags::QUALIFIED_STREAM));
        self.scratch.key = key;
        let no_room = || Refusal::NoResources { what: "items" }.told();
        let (root, is_new) = found.ok_or_else(no_room)?;
        let held = ask.unavailable && self.items.get(root).phase == Phase::Waiting;
        if held {
            let text = self.unavailable_text(ask.service);
            let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, &text);
            let state = told(policy, ask.private, state);
            self.send_status(client, stream, msg.domain, state);
            if state.stream.is_final() {
                self.counters.requests_refused += 1;
                if is_new {
                    self.items.remove(root);
                }
                return Ok(());
            }
        }
        if is_new {
            let elements = payload::relayed(msg.container, msg.body);
            if !elements.is_empty() {
                self.items.get_mut(root).extra_mut().elements = elements.into();
            }
        }
        let item = self.viewed(root, wish).ok_or_else(no_room)?;
        self.add_watcher(client, item, msg, ask.snapshot);
        if held && let Some(known) = self.client_mut(client) {
            known.streams.set_flags(stream, WatchFlags::TOLD, 0);
        }
        Ok(())
    }

    /// Checks a request for an item against services and limits.
    fn check(&self, client: u32, msg: &RequestMsg<'_>) -> Result<Ask, Refusal<'_>> {
        if msg.stream_id <= 0 {
            return Err(Refusal::BadStreamId { stream: msg.stream_id });
        }
        let service = self.service_of(&msg.key)?;
        if !service.has_domain(msg.domain) {
            return Err(Refusal::UnknownDomain { domain: msg.domain.0, service: &service.name });
        }
        let named = msg.key.name.is_some_and(|name| !name.is_empty());
        if !named && (Domain::MARKET_PRICE..=Domain::MARKET_MAKER).contains(&msg.domain) {
            return Err(Refusal::NoName);
        }
        let qos =
            matching(&service.info.qos, msg.qos, msg.worst_qos).ok_or(Refusal::NoSuchQos { service: &service.name })?;
        self.check_limits(client)?;
        Ok(Ask {
            service: service.id,
            qos: Some(qos),
            unavailable: service.choose(&self.sources, msg.domain, Some(qos)).is_none(),
            private: msg.flags.contains(RequestFlags::PRIVATE_STREAM),
            snapshot: !msg.flags.contains(RequestFlags::STREAMING),
        })
    }

    /// The service that a key names.
    pub(super) fn service_of(&self, key: &MsgKey<'_>) -> Result<&Service, Refusal<'_>> {
        let service = key.service_id.and_then(|id| self.services.alive(id));
        service.ok_or(Refusal::UnknownService { id: key.service_id })
    }

    fn check_limits(&self, client: u32) -> Result<(), Refusal<'_>> {
        let Some(known) = self.client(client) else { return Ok(()) };
        let limit = self.config.item_limit;
        if limit > 0 && known.items >= limit {
            return Err(Refusal::ItemLimit { limit });
        }
        let limit = self.config.aggregate_item_limit;
        match &known.login {
            Some(login) if limit > 0 && self.users.usage(&login.name).items >= limit => {
                Err(Refusal::AggregateItemLimit { user: &login.name, limit })
            }
            _ => Ok(()),
        }
    }

    fn unavailable_text(&self, service: ServiceId) -> String {
        let name = self.services.get(service).map_or("", |service| &service.name);
        format!("Service {name} does not take requests now; the request waits for it.")
    }

    /// The item that a request is for, and whether it is a new one. A snapshot joins an item that streams; else it has
    /// an item of its own, shared with others that come before its image.
    fn find_or_insert(&mut self, key: &[u8], ask: &Ask, qualified: bool) -> Option<(ItemId, bool)> {
        let mut flags = 0;
        if ask.private {
            flags |= bits::PRIVATE | if qualified { bits::QUALIFIED } else { 0 };
        } else {
            let streaming = self.items.find(ask.service, key, false);
            let snapshot = || if ask.snapshot { self.items.find(ask.service, key, true) } else { None };
            let found = streaming.or_else(snapshot);
            if let Some(id) = found.filter(|&id| self.items.watchers[id as usize].len() < MAX_WATCHERS) {
                return Some((id, false));
            }
        }
        if ask.snapshot {
            flags |= bits::SNAPSHOT;
        }
        self.items.insert(ask.service, key, flags, Phase::Waiting).map(|id| (id, true))
    }

    fn add_watcher(&mut self, client: u32, item: ItemId, msg: &RequestMsg<'_>, snapshot: bool) {
        let stream = msg.stream_id;
        let has = |flag| msg.flags.contains(flag);
        // The first image is always owed, also to one that is to rest.
        let mut flags = WatchFlags::ASKED;
        if snapshot {
            flags |= WatchFlags::SNAPSHOT;
        } else if has(RequestFlags::PAUSE) {
            flags |= WatchFlags::PAUSED;
        }
        let Self { clients, items, users, .. } = self;
        let Some(known) = clients.get_mut(client as usize).and_then(Option::as_deref_mut) else { return };
        known.streams.insert(stream, Open::Item(item), flags);
        known.items += 1;
        if let Some(login) = &known.login {
            users.count_item(&login.name, 1);
        }
        self.counters.watchers += 1;
        let places = |watcher: Watcher, place| set_place(clients, watcher, place);
        items.watchers[item as usize].add_held(Watcher { client, stream }, places);
        if let Some(priority) = msg.priority {
            self.note_priority(client, stream, item, priority);
        }
        let root = self.items.root(item);
        let open_already = self.items.get(root).phase == Phase::Open;
        if has(RequestFlags::NO_REFRESH) && !snapshot && !has(RequestFlags::PAUSE) && open_already {
            if let Some(known) = self.client_mut(client) {
                known.streams.set_flags(stream, WatchFlags::ANSWERED, WatchFlags::ASKED);
            }
            self.make_open(client, stream, item);
        } else {
            self.need_image(item);
        }
    }

    fn note_priority(&mut self, client: u32, stream: i32, item: ItemId, priority: rwf::msg::Priority) {
        let root = self.items.root(item);
        let raised = priority.class > self.items.get(root).priority;
        if priority != rwf::msg::Priority::default()
            && let Some(known) = self.client_mut(client)
        {
            known.priorities.insert(stream, priority);
        }
        if raised {
            let item = self.items.get_mut(root);
            item.priority = priority.class;
            if item.phase == Phase::Open {
                self.reissue_upstream(root, false);
            }
        }
    }

    /// A held watcher takes part in updates from now on.
    pub(super) fn make_open(&mut self, client: u32, stream: i32, item: ItemId) {
        let Self { clients, items, .. } = self;
        let known = clients.get(client as usize).and_then(Option::as_deref);
        let Some((place, _)) = known.and_then(|known| known.streams.watch(stream)) else { return };
        items.watchers[item as usize].make_open(place, |watcher, place| set_place(clients, watcher, place));
    }

    /// A watcher takes no part in updates from now on.
    fn make_held(&mut self, client: u32, stream: i32, item: ItemId) {
        let Self { clients, items, .. } = self;
        let known = clients.get(client as usize).and_then(Option::as_deref);
        let Some((place, _)) = known.and_then(|known| known.streams.watch(stream)) else { return };
        items.watchers[item as usize].make_held(place, |watcher, place| set_place(clients, watcher, place));
    }

    /// A request on a stream that is open: pause, resume, priority, another view, or just a refresh.
    fn reissue(&mut self, client: u32, item: ItemId, msg: &RequestMsg<'_>, wish: &Wish) -> Result<(), Told> {
        let stream = msg.stream_id;
        if !self.same_key(item, msg) {
            return Err(Refusal::KeyChanged { stream }.told());
        }
        if let Some(priority) = msg.priority {
            self.note_priority(client, stream, item, priority);
        }
        let no_refresh = msg.flags.contains(RequestFlags::NO_REFRESH);
        let item = self.change_view(client, stream, item, wish, no_refresh);
        self.change_watch(client, stream, item, msg.flags.contains(RequestFlags::PAUSE), no_refresh);
        Ok(())
    }

    /// Pauses, resumes, or just refreshes a watcher.
    pub(super) fn change_watch(&mut self, client: u32, stream: i32, item: ItemId, pause: bool, no_refresh: bool) {
        let Some(known) = self.client_mut(client) else { return };
        let Some((_, watch)) = known.streams.watch(stream) else { return };
        let asked = if no_refresh { 0 } else { WatchFlags::ASKED };
        if pause || watch.has(WatchFlags::PAUSED) {
            // It misses, or has missed, updates between the parts.
            known.streams.leave_set(stream);
        }
        if pause {
            known.streams.set_flags(stream, WatchFlags::PAUSED | asked, 0);
            self.make_held(client, stream, item);
        } else {
            // What one that is resumed has missed comes as an image, whether it asks for one or not.
            known.streams.set_flags(stream, asked, WatchFlags::PAUSED);
            self.items.get_mut(item).set(bits::SOME_ASKED);
        }
        if self.wants_image(client, stream, item) {
            self.need_image(item);
        }
    }

    /// True if an image is to come to a watcher: it asked for one, or it takes no part in updates and does not rest.
    pub(super) fn wants_image(&self, client: u32, stream: i32, item: ItemId) -> bool {
        let watch = self.client(client).and_then(|known| known.streams.watch(stream));
        watch.is_some_and(|(place, watch)| {
            let open = self.items.watchers[item as usize].is_open(place);
            watch.has(WatchFlags::ASKED) || !open && watch.waits()
        })
    }

    /// All items of a client rest, or go on.
    pub(super) fn pause_all(&mut self, client: u32, pause: bool) {
        let Some(known) = self.client(client) else { return };
        for (stream, item) in known.item_streams() {
            let paused = self.client(client).and_then(|known| known.streams.watch(stream));
            if paused.is_some_and(|(_, watch)| watch.has(WatchFlags::PAUSED) != pause) {
                self.change_watch(client, stream, item, pause, true);
            }
        }
    }

    /// True if a reissue names the item that is open on its stream; one without any key does.
    fn same_key(&self, item: ItemId, msg: &RequestMsg<'_>) -> bool {
        let open = self.items.key(item);
        if msg.key == MsgKey::EMPTY {
            return open.domain == msg.domain.0;
        }
        let asked = ItemKey::new(msg.domain, &msg.key, open.qos.to_qos());
        msg.key.service_id.is_none_or(|id| id == self.items.get(item).service) && asked == open
    }

    /// An image is needed for a watcher of an item.
    pub(super) fn need_image(&mut self, item: ItemId) {
        let root = self.items.root(item);
        self.bar_images_without_updates(root);
        if self.items.get(root).phase != Phase::Waiting && self.widen_upstream(root, item) {
            return;
        }
        self.ask_image(root);
    }

    /// The end of a stream, or of many.
    pub(super) fn close(&mut self, client: u32, msg: &CloseMsg<'_>) {
        if msg.flags.0 & super::batch::CLOSE_BATCH != 0 {
            return self.batch_close(client, msg);
        }
        self.close_stream(client, msg.stream_id);
        if msg.flags.contains(CloseFlags::ACK) {
            let ack = AckMsg { ack_id: msg.stream_id as u32, ..AckMsg::new(msg.domain, msg.stream_id) };
            self.send(client, msg.stream_id, |w| ack.encode(w));
        }
    }

    /// Ends whatever is open on a stream. False if nothing is.
    pub(super) fn close_stream(&mut self, client: u32, stream: i32) -> bool {
        let Some(known) = self.client_mut(client) else { return false };
        match known.streams.get(stream) {
            Some(Open::Login) => self.logout(client),
            Some(Open::Directory) => {
                known.directories.retain(|open| open.stream != stream);
                known.streams.remove(stream);
            }
            Some(Open::Dictionary) => {
                known.dictionaries.retain(|open| open.stream != stream);
                known.streams.remove(stream);
            }
            Some(Open::Item(item)) => self.drop_watcher(client, stream, item),
            None => return false,
        }
        true
    }

    /// A client watches an item no more.
    pub(super) fn drop_watcher(&mut self, client: u32, stream: i32, item: ItemId) {
        let Self { clients, items, users, .. } = self;
        let Some(known) = clients.get_mut(client as usize).and_then(Option::as_deref_mut) else { return };
        let Some((place, _)) = known.streams.watch(stream) else { return };
        known.streams.remove(stream);
        known.priorities.remove(&stream);
        known.items = known.items.saturating_sub(1);
        if let Some(login) = &known.login {
            users.count_item(&login.name, -1);
        }
        self.counters.watchers -= 1;
        items.watchers[item as usize].remove(place, |watcher, place| set_place(clients, watcher, place));
        self.release(item);
    }

    /// Puts a watcher under another item (another view of the same), held there.
    pub(super) fn move_watcher(&mut self, client: u32, stream: i32, from: ItemId, to: ItemId) {
        let Self { clients, items, .. } = self;
        let Some(known) = clients.get_mut(client as usize).and_then(Option::as_deref_mut) else { return };
        let Some((place, _)) = known.streams.watch(stream) else { return };
        known.streams.retarget(stream, to);
        known.streams.leave_set(stream);
        items.watchers[from as usize].remove(place, |watcher, place| set_place(clients, watcher, place));
        items.watchers[to as usize]
            .add_held(Watcher { client, stream }, |watcher, place| set_place(clients, watcher, place));
        self.release(from);
    }

    /// The view by which a watcher of an item sees it.
    pub(super) fn view_of(&self, item: ItemId) -> Option<ViewId> {
        let item = self.items.get(item);
        item.parent().and(item.extra.as_ref()).map(|extra| extra.view)
    }
}

/// Tells a client's stream table the place of one of its watchers.
pub(super) fn set_place(clients: &mut [Option<Box<super::client::Client>>], watcher: Watcher, place: u32) {
    if let Some(client) = clients.get_mut(watcher.client as usize).and_then(Option::as_deref_mut) {
        client.streams.set_place(watcher.stream, place);
    }
}
