//! What clients ask for on their streams: items to watch, changes to how they are watched, and the end of it.

use super::Clients;
use super::refusal::{Refusal, RefusalState};
use super::streams::{MAX_WATCHERS, Open, WatchState};
use super::wanted::{Wanted, WantedView};
use crate::P2ps;
use crate::conflation::{Granted, JustInTime};
use crate::filter::rules::ServiceFilter;
use crate::filter::rules::UpdateTypes;
use crate::gate::messages::note_headlines;
use crate::ids::{ClientId, ItemId, ServiceId, StreamId};
use crate::item::ItemKey;
use crate::items::Items;
use crate::items::state::{Kind, Sharing, State as ItemState, Wait};
use crate::items::telling::told;
use crate::items::view_spec::ViewSpec;
use crate::items::views::NoView;
use crate::items::watchers::Watcher;
use crate::sources::qos::matching;
use crate::sources::services::Service;
use rwf::msg::{AckMsg, CloseFlags, CloseMsg, Domain, MsgKey, Priority, RequestFlags, RequestMsg};
use rwf::rdm::request::Payload;
use rwf::{DataState, Qos, Rate, State, StateCode, StreamState};
use std::sync::Arc;

/// A request for an item that can be served, now or later.
struct Accepted {
    service: ServiceId,
    granted: Granted,
    /// The service's filter, which keeps fields from everyone.
    filter: Option<Arc<ServiceFilter>>,
    /// Updates may be conflated when the client is slow.
    conflatable: bool,
    /// Nobody serves it now.
    unavailable: bool,
    kind: Kind,
}

impl Clients {
    /// Puts a held watcher among those that are idle, or that wait, as its state says.
    fn place_held(&mut self, items: &mut Items, watcher: Watcher, item: ItemId) {
        let watchers = items.watchers_mut(item);
        if let Some((place, watch)) = self.watch(watcher)
            && !watchers.is_open(place)
        {
            watchers.set_idle(place, watch.is_idle(), |watcher, place| self.set_place(watcher, place));
        }
    }

    /// True if a watcher gets updates, and no image is owed to it in whole or in part.
    fn is_up_to_date(&self, items: &Items, watcher: Watcher, item: ItemId) -> bool {
        let open = |place| items.watchers(item).is_open(place);
        let watch = self.watch(watcher);
        watch.is_some_and(|(place, watch)| open(place) && !watch.is_asked() && !watch.is_in_set())
    }

    /// True if an image is to come to a watcher: it asked for one, or it takes no part in updates and is not paused.
    pub(super) fn wants_image(&self, items: &Items, watcher: Watcher, item: ItemId) -> bool {
        self.watch(watcher).is_some_and(|(place, watch)| {
            let open = items.watchers(item).is_open(place);
            watch.is_asked() || !open && watch.waits()
        })
    }

    /// True if a reissue names the item that is open on its stream; one without any key does. In JSON one without a key has been given
    /// the default service on its way, which says nothing of the item.
    fn same_key(&self, items: &Items, client: ClientId, item: ItemId, msg: &RequestMsg<'_>) -> bool {
        let open = items.key(item);
        let is_json = self.get(client).is_some_and(|known| known.speaks_json);
        let given = if is_json { None } else { msg.key.service_id };
        if (MsgKey { service_id: given, ..msg.key }) == MsgKey::EMPTY {
            return open.domain == msg.domain.0;
        }
        let asked = ItemKey::new(msg.domain, &msg.key, open.qos.to_qos());
        let service = items.get(item).service();
        msg.key.service_id.is_none_or(|id| ServiceId(id) == service) && asked == open
    }
}

impl P2ps {
    /// A request, whatever its domain.
    pub(crate) fn request(&mut self, client: ClientId, logged_in: bool, msg: &RequestMsg<'_>) {
        if self.tell_outage_of_stream(client, StreamId(msg.stream_id)) {
            return;
        }
        match msg.domain {
            Domain::LOGIN => self.login_request(client, msg),
            domain if !logged_in => self.refuse(client, StreamId(msg.stream_id), domain, &Refusal::NotLoggedIn),
            Domain::SOURCE => self.directory_request(client, msg),
            Domain::DICTIONARY => self.dictionary_request(client, msg),
            _ if msg.flags.contains(RequestFlags::HAS_BATCH) => self.batch_request(client, msg),
            _ => self.item_request(client, msg),
        }
    }

    fn item_request(&mut self, client: ClientId, msg: &RequestMsg<'_>) {
        let wanted = match Payload::of_request(msg) {
            Ok(mut payload) => Wanted::of(msg, &mut payload),
            Err(_) => Err(Refusal::BadView { why: "its payload is not an element list that can be read" }),
        };
        match wanted {
            Ok(wanted) => self.item_request_with(client, msg, &wanted),
            Err(refusal) => self.refuse(client, StreamId(msg.stream_id), msg.domain, &refusal),
        }
    }

    /// A request for an item, its payload read already.
    pub(super) fn item_request_with(&mut self, client: ClientId, msg: &RequestMsg<'_>, wanted: &Wanted) {
        self.counters.requests += 1;
        let stream = StreamId(msg.stream_id);
        if self.tell_outage_of_stream(client, stream) {
            return;
        }
        let result = match self.clients.open_on(client, stream) {
            Some(Open::Item(item)) => self.reissue(Watcher { client, stream }, item, msg, &wanted.view),
            Some(_) => Err(Refusal::StreamInUse { stream: stream.0 }.to_state()),
            None if stream.0 <= 0 => Err(Refusal::BadStreamId { stream: stream.0 }.to_state()),
            None => self.open_stream(Watcher { client, stream }, msg, wanted),
        };
        if let Err(told) = result {
            self.refuse_with_state(client, stream, msg.domain, &told);
        }
    }

    /// Opens a stream, or says why not.
    pub(super) fn open_stream(
        &mut self,
        watcher: Watcher,
        msg: &RequestMsg<'_>,
        wanted: &Wanted,
    ) -> Result<(), RefusalState> {
        if let Some(service) = msg.key.service_id {
            self.begin_outages_in(ServiceId(service));
        }
        let accepted = self.check(watcher, msg).map_err(|refusal| refusal.to_state())?;
        let no_room = || Refusal::NoResources { what: "items" }.to_state();
        let (service, kind) = (accepted.service, accepted.kind);
        let key = ItemKey::new(msg.domain, &msg.key, Some(accepted.granted.source));
        let (mut root, mut is_new) =
            self.items.find_or_insert(service, kind, &key, MAX_WATCHERS).ok_or_else(no_room)?;
        if !is_new && self.tell_outage_of_item(root) {
            (root, is_new) = self.items.find_or_insert(service, kind, &key, MAX_WATCHERS).ok_or_else(no_room)?;
        }
        if let Err(denial) = self.permit_open(watcher, root, accepted.kind.snapshot) {
            self.counters.requests_refused += 1;
            self.deny_item(watcher.client, watcher.stream, root, &denial);
            if is_new {
                self.remove_item(root);
            }
            return Ok(());
        }
        let why = self.why_it_waits(root, &accepted);
        // The item's stale image says it all.
        let why =
            why.filter(|_| accepted.kind.snapshot || !self.clients.has_stale_image(&self.items, watcher.client, root));
        let held = why.is_some();
        if why.is_some_and(|why| self.tell_unavailable(watcher, msg.domain, &accepted, &why)) {
            self.gate.close(self.now, watcher);
            if is_new {
                self.remove_item(root);
            }
            return Ok(());
        }
        if is_new {
            self.items.set_relayed(root, wanted.relayed(msg));
            note_headlines(self, root);
        }
        let (interval, filter) = (accepted.granted.interval, accepted.filter.clone());
        let seen = ViewSpec::of(wanted.subset(), interval, filter, wanted.data_streams);
        let unwanted = self.clients.get(watcher.client).map_or(UpdateTypes::NONE, |known| known.unwanted);
        let item = match ViewSpec::without_types(seen, unwanted) {
            Some(spec) => self.items.view(root, &spec, self.config.max_views_per_item),
            None => Ok(root),
        };
        let item = match item {
            Ok(item) => item,
            Err(why) => {
                self.gate.close(self.now, watcher);
                // Nobody but this request may want the item.
                self.release(root);
                return Err(self.no_view(why, false));
            }
        };
        self.add_watcher(watcher, item, msg, &accepted);
        if held {
            // Nobody serves the item, so there is nothing that could have been denied meanwhile.
            self.change_state(watcher, item, |watch| watch.told(DataState::SUSPECT));
        }
        Ok(())
    }

    fn no_view(&self, why: NoView, open: bool) -> RefusalState {
        let limit = self.config.max_views_per_item;
        match why {
            NoView::TooMany => Refusal::TooManyViews { limit, open }.to_state(),
            NoView::NoNumber => Refusal::NoResources { what: "items" }.to_state(),
        }
    }

    /// Why an item is not asked for now, if that may be so for long.
    fn why_it_waits(&self, root: ItemId, accepted: &Accepted) -> Option<String> {
        match self.items.get(root).state() {
            ItemState::Waiting(_) if accepted.unavailable => Some(self.no_source_text(accepted.service)),
            ItemState::Waiting(Wait::Retrying) => {
                Some("The item was closed for recovery; it is asked for again by itself.".to_owned())
            }
            _ => None,
        }
    }

    /// Tells a client that nobody serves what it asks for, and why; true if that ends its stream.
    fn tell_unavailable(&mut self, watcher: Watcher, domain: Domain, accepted: &Accepted, why: &str) -> bool {
        let policy = self.clients.get(watcher.client).map_or_else(Default::default, |known| known.policy);
        let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, why);
        let state = told(policy, accepted.kind.is_private(), state);
        self.send_status(watcher.client, watcher.stream, domain, state);
        let ends = state.stream.is_final();
        self.counters.requests_refused += u64::from(ends);
        ends
    }

    /// Checks a request for an item against services and limits.
    fn check(&self, watcher: Watcher, msg: &RequestMsg<'_>) -> Result<Accepted, Refusal<'_>> {
        let service = self.service_of(&msg.key)?;
        if !service.has_domain(msg.domain) {
            return Err(Refusal::UnknownDomain { domain: msg.domain.0, service: &service.name });
        }
        if let Some(why) = self.gate.why_blocked(&service.name, msg.key.name) {
            return Err(Refusal::Blocked { why });
        }
        let named = msg.key.name.is_some_and(|name| !name.is_empty());
        if !named && (Domain::MARKET_PRICE..=Domain::MARKET_MAKER).contains(&msg.domain) {
            return Err(Refusal::NoName);
        }
        let qos =
            matching(&service.info.qos, msg.qos, msg.worst_qos).ok_or(Refusal::NoSuchQos { service: &service.name })?;
        let conflation = self.config.conflation.of(&service.name);
        let granted = conflation.granted(&service.source_qos, qos);
        let just_in_time = Qos { rate: Rate::JIT_CONFLATED, rate_info: 0, ..qos };
        let conflatable = match conflation.just_in_time {
            JustInTime::Off => false,
            JustInTime::Asked => matching(&[just_in_time], msg.qos, msg.worst_qos).is_some(),
            JustInTime::All => true,
        };
        self.check_limits(watcher.client)?;
        service.check_item_limit()?;
        let flag = |flag| msg.flags.contains(flag);
        let sharing = match (flag(RequestFlags::PRIVATE_STREAM), flag(RequestFlags::QUALIFIED_STREAM)) {
            (false, _) => Sharing::Shared,
            (true, false) => Sharing::Private,
            (true, true) => Sharing::Qualified,
        };
        let kind = Kind { sharing, snapshot: !flag(RequestFlags::STREAMING) };
        // A private stream is its provider's affair, and one image is nothing to conflate.
        let is_plain = kind.is_private() || kind.snapshot;
        let plain = Granted { interval: 0, just_in_time: false, ..granted };
        Ok(Accepted {
            service: service.id,
            granted: if is_plain { plain } else { granted },
            filter: self.config.filters.of(&service.name).cloned(),
            conflatable: conflatable && !is_plain,
            unavailable: service.choose(&self.sources, msg.domain, Some(granted.source)).is_none(),
            kind,
        })
    }

    /// The service that a key names.
    pub(super) fn service_of(&self, key: &MsgKey<'_>) -> Result<&Service, Refusal<'_>> {
        let service = key.service_id.and_then(|id| self.sources.services().alive(ServiceId(id)));
        service.ok_or(Refusal::UnknownService { id: key.service_id, texts: self.config.status_texts })
    }

    fn check_limits(&self, client: ClientId) -> Result<(), Refusal<'_>> {
        let Some(known) = self.clients.get(client) else {
            hub_items::fault!("a request of a client that is gone: {client:?}");
            return Err(Refusal::NotLoggedIn);
        };
        self.check_total()?;
        let limit = self.config.item_limit;
        if limit > 0 && known.items >= limit {
            return Err(Refusal::ItemLimit { limit });
        }
        let limit = self.config.aggregate_item_limit;
        match &known.login {
            Some(login) if limit > 0 && self.clients.users().usage(login.user).items >= limit => {
                Err(Refusal::AggregateItemLimit { user: &login.name, limit })
            }
            _ => Ok(()),
        }
    }

    fn add_watcher(&mut self, watcher: Watcher, item: ItemId, msg: &RequestMsg<'_>, accepted: &Accepted) {
        let has = |flag| msg.flags.contains(flag);
        let snapshot = accepted.kind.snapshot;
        let stands_by = !snapshot && self.clients.stands_by(watcher.client, self.items.get(item).service());
        let state = WatchState::opened(snapshot, has(RequestFlags::PAUSE))
            .stand_by(stands_by)
            .conflatable(accepted.conflatable, accepted.granted.just_in_time);
        let Self { clients, items, .. } = self;
        clients.add_watcher(watcher, item, state);
        items.watchers_mut(item).add_held(watcher, |watcher, place| clients.set_place(watcher, place));
        let root = items.root(item);
        self.counters.items_found_open += u64::from(items.unwatched_mut().remove(root));
        if state.rests() {
            items.note_rest(item, true);
        }
        self.count_watcher(self.items.get(item).service(), true);
        self.note_load(watcher.client);
        let usual = Priority { class: self.config.default_priority_class, ..Priority::default() };
        if let Some(priority) = msg.priority.or_else(|| (usual != Priority::default()).then_some(usual)) {
            self.note_priority(watcher, item, priority);
        }
        let known = self.items.get(root);
        // A watcher that begins without an image on a lost item would never hear of the loss.
        let open_already = known.is_open() && !known.is_suspect() && !self.items.may_rest(root);
        let begins = has(RequestFlags::NO_REFRESH) && !state.is_paused() && !snapshot && open_already;
        match if begins { self.gate.admit_without_image(self.now, watcher, root) } else { None } {
            Some(Ok(())) => {
                self.change_state(watcher, item, WatchState::begin_without_image);
                self.make_open(watcher, item);
            }
            Some(Err(denial)) => self.deny_watcher(watcher, &denial),
            None => self.need_image_for(watcher, item),
        }
    }

    /// A watcher needs an image. If it was asked for before, and does not come, the watcher is told why.
    pub(super) fn need_image_for(&mut self, watcher: Watcher, item: ItemId) {
        let root = self.items.root(item);
        let asked = self.items.get(root).is_image_asked();
        self.need_image(item);
        if self.items.is_cached(root) {
            self.give_stale_image(watcher, item);
        }
        // Out of the cache the watcher may have got all that it wanted, or may not see what is there.
        let waits = self.clients.watch(watcher).is_some();
        if waits && (asked || self.items.get(root).is_reissue_due()) {
            self.tell_trouble(watcher, item);
        }
    }

    /// A watcher asks for a priority, of which no more counts than clients may have.
    fn note_priority(&mut self, watcher: Watcher, item: ItemId, asked: Priority) {
        let priority = Priority { class: asked.class.min(self.config.max_priority_class), ..asked };
        let Some(known) = self.clients.get_mut(watcher.client) else {
            hub_items::fault!("a priority of a client that is gone: {watcher:?}");
            return;
        };
        let before = if priority == Priority::default() {
            known.priorities.remove(&watcher.stream).unwrap_or_default()
        } else {
            known.priorities.insert(watcher.stream, priority).unwrap_or_default()
        };
        if before != priority {
            self.items.replace_priority(item, before, priority);
            self.sources.queue_demands(&mut self.items, item);
        }
    }

    /// A held watcher takes part in updates from now on.
    pub(crate) fn make_open(&mut self, watcher: Watcher, item: ItemId) {
        // Updates that wait are older than the image that the watcher has.
        self.release_view(item);
        let Self { clients, items, output, .. } = self;
        if items.watchers(item).open_count() == 0 {
            output.resumes(item);
        }
        let Some((place, watch)) = clients.watch(watcher) else {
            hub_items::fault!("a watcher that its client does not know: {watcher:?}");
            return;
        };
        watch.check(true);
        items.watchers_mut(item).make_open(place, |watcher, place| clients.set_place(watcher, place));
    }

    /// A watcher takes no part in updates from now on.
    pub(super) fn make_held(&mut self, watcher: Watcher, item: ItemId) {
        let Self { clients, items, .. } = self;
        let Some((place, _)) = clients.watch(watcher) else {
            hub_items::fault!("a watcher that its client does not know: {watcher:?}");
            return;
        };
        items.watchers_mut(item).make_held(place, |watcher, place| clients.set_place(watcher, place));
        // Updates that wait for the watcher are of before.
        self.output.divide(watcher);
        self.clients.place_held(&mut self.items, watcher, item);
    }

    /// A transition of a watcher's state. One that is held may be idle with it, or wait again.
    pub(crate) fn change_state(
        &mut self,
        watcher: Watcher,
        item: ItemId,
        change: impl FnOnce(WatchState) -> WatchState,
    ) {
        self.clients.change(watcher, change);
        self.clients.place_held(&mut self.items, watcher, item);
    }

    /// A request on a stream that is open: pause, resume, priority, another view, or just a refresh.
    fn reissue(
        &mut self,
        watcher: Watcher,
        item: ItemId,
        msg: &RequestMsg<'_>,
        view: &WantedView,
    ) -> Result<(), RefusalState> {
        if !self.clients.same_key(&self.items, watcher.client, item, msg) {
            return Err(Refusal::KeyChanged { stream: watcher.stream.0 }.to_state());
        }
        if let Some(priority) = msg.priority {
            self.note_priority(watcher, item, priority);
        }
        let no_refresh = msg.flags.contains(RequestFlags::NO_REFRESH);
        let changed = self.change_view(watcher, item, view, no_refresh);
        let item = changed.as_ref().map_or(item, |&item| item);
        self.change_watch(watcher, item, msg.flags.contains(RequestFlags::PAUSE), no_refresh);
        changed.map(|_| ())
    }

    /// Gives a watcher the view it wants; tells the item that it watches then. A view that it has no image for yet
    /// begins with one, which is to be asked for. Without room for the view the watcher keeps the one it has.
    fn change_view(
        &mut self,
        watcher: Watcher,
        item: ItemId,
        wanted: &WantedView,
        no_refresh: bool,
    ) -> Result<ItemId, RefusalState> {
        let root = self.items.root(item);
        let subset = match wanted {
            WantedView::Keep => return Ok(item),
            WantedView::Whole => None,
            WantedView::View(subset) => Some(subset.clone()),
        };
        let as_now = self.items.spec_of(item).cloned().unwrap_or_default();
        let (to, narrower) = match &as_now.with_subset(subset) {
            None => (root, false),
            Some(spec) => {
                let narrower = self.items.spec_of(item).is_none_or(|old| old.covers(spec));
                let view = self.items.view(root, spec, self.config.max_views_per_item);
                (view.map_err(|why| self.no_view(why, true))?, narrower)
            }
        };
        if to == item {
            return Ok(item);
        }
        // The watcher has all that it wants from now on.
        let has_it = narrower && no_refresh && self.clients.is_up_to_date(&self.items, watcher, item);
        if has_it {
            self.hand_over(watcher, item, to);
        }
        self.move_watcher(watcher, item, to);
        if has_it {
            self.make_open(watcher, to);
            return Ok(to);
        }
        if !no_refresh {
            self.change_state(watcher, to, WatchState::ask);
        }
        Ok(to)
    }

    /// Pauses, resumes, or just refreshes a watcher.
    pub(super) fn change_watch(&mut self, watcher: Watcher, item: ItemId, pause: bool, no_refresh: bool) {
        let asked = |watch: WatchState| if no_refresh { watch } else { watch.ask() };
        let rested = self.clients.watch(watcher).is_some_and(|(_, watch)| watch.rests());
        if rested != pause {
            self.items.note_rest(item, pause);
        }
        if pause {
            self.change_state(watcher, item, |watch| asked(watch.pause()));
            self.make_held(watcher, item);
            self.sources.queue_demands(&mut self.items, item);
        } else {
            // Updates missed while a stream was paused come as an image, whether it asks for one or not.
            self.change_state(watcher, item, |watch| asked(watch.resume()));
            self.items.watchers_mut(item).mark_asked(true);
        }
        if self.clients.wants_image(&self.items, watcher, item) {
            self.need_image_for(watcher, item);
        }
    }

    /// The end of a stream, or of many.
    pub(crate) fn close(&mut self, client: ClientId, msg: &CloseMsg<'_>) {
        if msg.flags.0 & super::batch::CLOSE_BATCH != 0 {
            return self.batch_close(client, msg);
        }
        let stream = StreamId(msg.stream_id);
        self.leave_list(client, stream);
        self.close_stream(client, stream);
        if msg.flags.contains(CloseFlags::ACK) {
            let ack = AckMsg { ack_id: msg.stream_id as u32, ..AckMsg::new(msg.domain, msg.stream_id) };
            self.send(client, stream, |w| ack.encode(w));
        }
    }

    /// Ends whatever is open on a stream. A close may cross with the end of its stream: then nothing is.
    pub(super) fn close_stream(&mut self, client: ClientId, stream: StreamId) {
        match self.clients.open_on(client, stream) {
            Some(Open::Login) => self.logout(client),
            Some(Open::Item(item)) => self.drop_watcher(Watcher { client, stream }, item),
            Some(Open::Directory | Open::Dictionary) => {
                if let Some(known) = self.clients.get_mut(client) {
                    known.directories.retain(|open| open.stream != stream);
                    known.dictionaries.retain(|open| open.stream != stream);
                    known.streams.remove(stream);
                }
            }
            None => {}
        }
    }

    /// A client watches an item no more.
    pub(crate) fn drop_watcher(&mut self, watcher: Watcher, item: ItemId) {
        let known = self.clients.get_mut(watcher.client);
        if let Some(priority) = known.and_then(|known| known.priorities.remove(&watcher.stream)) {
            self.items.replace_priority(item, priority, Priority::default());
            self.sources.queue_demands(&mut self.items, item);
        } else if !self.items.watchers(item).held().is_empty() {
            // Watchers that are left may all be paused.
            self.sources.queue_demands(&mut self.items, item);
        }
        let Self { clients, items, .. } = self;
        let Some((place, watch)) = clients.remove_watcher(watcher) else {
            hub_items::fault!("a watcher that its client does not know: {watcher:?}");
            return;
        };
        debug_assert_eq!(items.watchers(item).all().get(place as usize), Some(&watcher), "place of a watcher");
        items.watchers_mut(item).remove(place, |watcher, place| clients.set_place(watcher, place));
        if watch.rests() {
            items.note_rest(item, false);
        }
        self.count_watcher(self.items.get(item).service(), false);
        self.note_load(watcher.client);
        self.output.close_stream(watcher);
        self.gate.close(self.now, watcher);
        self.release(item);
    }

    /// Puts a watcher under another item (another view of the same), held there.
    fn move_watcher(&mut self, watcher: Watcher, from: ItemId, to: ItemId) {
        debug_assert_eq!(self.items.root(from), self.items.root(to), "a watcher moves between views of one item");
        let Self { clients, items, .. } = self;
        let Some((place, watch)) = clients.watch(watcher) else {
            hub_items::fault!("a watcher that its client does not know: {watcher:?}");
            return;
        };
        if let Some(streams) = clients.streams_mut(watcher.client) {
            streams.retarget(watcher.stream, to);
            streams.change(watcher.stream, WatchState::leave_set);
        }
        self.output.divide(watcher);
        items.watchers_mut(from).remove(place, |watcher, place| clients.set_place(watcher, place));
        items.watchers_mut(to).add_held(watcher, |watcher, place| clients.set_place(watcher, place));
        if watch.rests() {
            items.note_rest(from, false);
            items.note_rest(to, true);
        }
        self.clients.place_held(&mut self.items, watcher, to);
        self.release(from);
    }
}
