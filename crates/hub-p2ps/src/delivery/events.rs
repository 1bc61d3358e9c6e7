//! Events of Source Distributors. Updates are the hot path: handle to item, item to watchers, one entry each.

use super::deliveries::BodyId;
use super::output::Output;
use super::turn::Turn;
use crate::conflation::TimeConflation;
use crate::egress::Merging;
use crate::filter::bodies::Left;
use crate::gate::messages::as_headline;
use crate::ids::{Handle, HubGroup, ItemId, RemoteService, SourceId, Token};
use crate::items::Items;
use crate::sources::Source;
use crate::sources::services::Provider;
use crate::stream::{ALL, Block, Event, HubError, Message, Messages, Request, Seen, flags};
use crate::{P2ps, encode};
use rwf::msg::UpdateFlags;
use rwf::peek;
use rwf::rdm::directory::{self, Action};
use rwf::{DataState, State, StateCode, StreamState};

/// Updates whose items are looked at ahead, so that the processor waits for the lines of all of them at once. By measurement: 8 still wait
/// for memory at a million items in no order, 32 gain nothing more.
const AHEAD: usize = 16;
/// Items from which on looking ahead pays: the tables of fewer lie in the caches of the processor. Where it is tested a few will do.
const MANY: usize = if cfg!(debug_assertions) { 4 } else { 16 << 10 };

/// The memory that updates need is asked for before each of them is read, in three steps for groups of updates: the entries of their handles; once these have
/// come, the watchers; once these have, those of many watchers that lie elsewhere, and what waits for items and views that are conflated. Nothing waits for what was asked
/// for a group before.
struct LookAhead<'m> {
    /// Updates behind those of which handles were asked for.
    messages: Messages<'m>,
    /// The group whose handles were asked for.
    handles: [Handle; AHEAD],
    asked: usize,
    /// The items of the group before, whose watchers were asked for.
    ids: [ItemId; AHEAD],
    count: usize,
    /// Updates that may be read before the next look.
    near: usize,
}

/// What waits for those who are conflated.
#[derive(Clone, Copy)]
struct Waiting<'a> {
    by_time: &'a TimeConflation<ItemId>,
    turn: &'a Turn,
}

impl<'m> LookAhead<'m> {
    /// Before the first look at these messages.
    const fn new(messages: Messages<'m>) -> Self {
        Self { messages, handles: [Handle(0); AHEAD], asked: 0, ids: [ItemId::NONE; AHEAD], count: 0, near: 0 }
    }

    /// An update is going to be read.
    #[inline]
    fn step(&mut self, source: &Source, items: &Items, waiting: Waiting<'_>) {
        // The steps of the first group come one after the other.
        let mut steps = 3;
        while self.near == 0 && steps > 0 {
            self.look(source, items, waiting);
            steps -= 1;
        }
        self.near = self.near.saturating_sub(1);
    }

    fn look(&mut self, source: &Source, items: &Items, Waiting { by_time, turn }: Waiting<'_>) {
        let Self { messages, handles, asked, ids, count, near } = self;
        *near = *count;
        let group = || ids[..*count].iter().copied().filter(|id| id.is_item());
        group().for_each(|id| items.watchers(id).ask());
        if !by_time.is_empty() || turn.has_diverted() {
            let merged = |view: ItemId| by_time.look_ahead(view) ^ turn.look_ahead(view);
            let views = |id| items.views_of(id).iter().fold(0, |seen, view| seen ^ merged(*view));
            std::hint::black_box(group().fold(0, |seen, id| seen ^ turn.look_ahead(id) ^ views(id)));
        }
        *count = *asked;
        for (id, handle) in ids.iter_mut().zip(&handles[..*asked]) {
            *id = source.item(*handle);
            items.ask(*id);
        }
        let next = std::iter::from_fn(|| messages.next_update()).map(|message| Handle(message.handle));
        *asked = 0;
        for (handle, next) in handles.iter_mut().zip(next) {
            source.ask(next);
            *handle = next;
            *asked += 1;
        }
    }
}

impl P2ps {
    pub(crate) fn read_block<const COPY: bool>(&mut self, number: SourceId, bytes: &[u8]) -> Result<(), HubError> {
        if self.keep_for_rejoin(number, false, bytes) {
            return Ok(());
        }
        let block = Block::parse(bytes)?;
        let now = self.now;
        // The transport of one that was lost may bring blocks until it is ended.
        let Some(source) = self.sources.up_mut(number) else { return Ok(()) };
        let joined = source.joined;
        if joined.is_some_and(|incarnation| incarnation != block.heading.incarnation) {
            self.counters.hub_blocks_foreign += 1;
            return Ok(());
        }
        source.heard_at = now;
        let mut messages = block.messages();
        let seen = source.continuity.accept(&block.heading);
        let heard = std::mem::replace(&mut source.heard, true);
        match seen {
            Seen::Next => {}
            Seen::Old => return Ok(()),
            Seen::Partly(read) => messages.by_ref().take(usize::try_from(read).unwrap_or(usize::MAX)).for_each(drop),
            Seen::Gap(missing) if joined.is_some() => {
                let to = block.heading.first_seq;
                self.tell_gap(number, to.wrapping_sub(missing), to);
            }
            Seen::NewIncarnation if !heard => {}
            Seen::NewIncarnation => {
                self.begin_again(number, StateCode::NONE, "has started again");
                if let Some(source) = self.sources.up_mut(number) {
                    source.continuity.accept(&block.heading);
                    source.heard = true;
                }
            }
            Seen::Gap(_) => {
                // Which items are hit is not known: all are, and everything is asked for anew.
                let continuity = source.continuity;
                self.counters.hub_gaps += 1;
                self.begin_again(number, StateCode::GAP_DETECTED, "has lost messages");
                if let Some(source) = self.sources.up_mut(number) {
                    // The source's life is the same: a loss of the first answers is to be noticed as well.
                    source.continuity = continuity;
                    source.heard = true;
                }
                return Ok(());
            }
        }
        if joined.is_some() {
            return self.read_in_turn::<COPY>(number, bytes, messages);
        }
        self.read_messages::<COPY>(number, bytes, messages)
    }

    fn begin_again(&mut self, number: SourceId, code: StateCode, why: &'static str) {
        self.lose_source(number, code, why);
        self.connect_source(number, None);
    }

    /// Acts on messages. With `COPY` deliveries do not point into the block, which need not live until the flush.
    pub(crate) fn read_messages<const COPY: bool>(
        &mut self,
        number: SourceId,
        block: &[u8],
        mut messages: Messages<'_>,
    ) -> Result<(), HubError> {
        let mut ahead = LookAhead::new(messages.clone());
        while let Some(other) = self.read_updates::<COPY>(number, block, &mut messages, &mut ahead) {
            let other = other?;
            if other.0 == ItemId::NONE {
                // Updates behind another message are a group of their own.
                ahead = LookAhead::new(messages.clone());
            }
            match other {
                (ItemId::NONE, message) if message.target == ALL || self.sources.is_target(number, message.target) => {
                    self.event(number, &Event::decode(&message)?);
                    if self.sources.is_over_network(number) {
                        self.bar_earlier_images(number, &message);
                    }
                    if !self.sources.is_up(number) {
                        // The source has ended, or this P2PS is not joined to it any more.
                        return Ok(());
                    }
                }
                (ItemId::NONE, _) => {}
                (item, message) if self.items.watchers(item).has_headlines() => {
                    as_headline(self, item, &message, |p2ps, message| p2ps.update_with_lock(item, message));
                }
                (item, message) if message.flags & flags::HAS_LOCK != 0 => self.update_with_lock(item, &message),
                (item, message) => self.careful_update(item, &message),
            }
        }
        Ok(())
    }

    /// Fans out updates until something else comes: another message (given back with [`ItemId::NONE`]), or an update that
    /// concerns more than open watchers (given back with its item, open watchers served), or has permission data or is a headline (given
    /// back with its item, nobody served).
    #[inline]
    fn read_updates<'m, const COPY: bool>(
        &mut self,
        number: SourceId,
        block: &[u8],
        messages: &mut Messages<'m>,
        ahead: &mut LookAhead<'m>,
    ) -> Option<Result<(ItemId, Message<'m>), HubError>> {
        let Self { sources, items, output, counters, hot_standby, clients, now, .. } = self;
        let Output { turn, rules, conflation, .. } = output;
        let merging = Merging { now: *now, ripples: rules.ripples(clients.dictionary()) };
        let is_numbered = self.config.sequence_numbers;
        let source = sources.get(number)?;
        let (mut read, mut unwatched, mut delivered) = (0, 0, 0);
        let (mut mirrored, mut repeated) = (0, 0);
        let mut careful = None;
        let looks_ahead = items.len() >= MANY;
        loop {
            if looks_ahead {
                ahead.step(source, items, Waiting { by_time: conflation, turn });
            }
            let Some(message) = messages.next_update() else { break };
            read += 1;
            let id = source.item(Handle(message.handle));
            if !id.is_item() {
                if let Some(id) = id.original() {
                    mirrored += 1;
                    if is_numbered {
                        hot_standby.keep_update(id, &message);
                    }
                } else {
                    unwatched += 1;
                }
                continue;
            }
            let watchers = items.watchers(id);
            if watchers.is_looked_at() {
                if watchers.is_paired() && !hot_standby.passes(id, &message) {
                    repeated += 1;
                    continue;
                }
                if watchers.has_headlines() {
                    careful = Some((id, message));
                    break;
                }
            }
            let open = watchers.open();
            if !open.is_empty() {
                let body = if COPY || message.flags & (flags::HAS_KEY | flags::HAS_LOCK) != 0 {
                    if message.flags & flags::HAS_LOCK != 0 {
                        careful = Some((id, message));
                        break;
                    }
                    let has_key = message.flags & flags::HAS_KEY != 0;
                    turn.message_body(message.body, has_key.then(|| items.get(id).service()))
                } else {
                    let start = message.body.as_ptr().addr() - block.as_ptr().addr();
                    Some(turn.block_body(start, message.body.len()))
                };
                if let Some(body) = body {
                    turn.fan_update((id, body), block, open, merging, |watcher| clients.may_conflate(watcher));
                    delivered += open.len() as u64;
                } else {
                    counters.hub_messages_bad += 1;
                }
            } else if !watchers.has_others() {
                unwatched += 1;
            }
            if watchers.needs_care() {
                let is_locked = message.flags & flags::HAS_LOCK != 0;
                let more = watchers.has_others() || is_locked;
                if watchers.is_cached() && !is_locked {
                    items.cache_mut().update(id.0, message.body);
                }
                if more {
                    careful = Some((id, message));
                    break;
                }
            }
        }
        // Whoever comes next may read images.
        items.cache_mut().settle();
        counters.cache_failures += items.cache_mut().take_failures();
        counters.updates_in += read;
        counters.updates_unwatched += unwatched;
        counters.updates_out += delivered;
        counters.mirror_updates += mirrored;
        counters.updates_repeated += repeated;
        match careful {
            Some(careful) => Some(Ok(careful)),
            None => Some(messages.next()?.map(|message| (ItemId::NONE, message))),
        }
    }

    /// An update that nobody has got yet, with permission data or a headline without: it goes to those who may see it.
    fn update_with_lock(&mut self, id: ItemId, message: &Message<'_>) {
        self.cache_update(id, message);
        if message.has(flags::HAS_LOCK) && self.looks_at_locks() {
            return self.guarded_update(id, message);
        }
        let open = self.items.watchers(id).open_count();
        if open > 0
            && let Some(body) = self.copied(id, message)
        {
            self.fan_update(id, body);
        }
        self.careful_update(id, message);
    }

    /// An update of an item that has views, or watchers that wait.
    fn careful_update(&mut self, id: ItemId, message: &Message<'_>) {
        if self.give_to_views(id, message) || self.clients.someone_waits(&self.items, id) {
            self.hold_update(id, message);
        } else {
            self.pass_update(id, message);
        }
    }

    /// Delivers an update to the open watchers of an item's views. True if a watcher of a view waits for an image.
    pub(crate) fn give_to_views(&mut self, id: ItemId, message: &Message<'_>) -> bool {
        let (mut waits, mut whole) = (false, None);
        let mut views = std::mem::take(&mut self.output.scratch.views);
        views.clear();
        views.extend_from_slice(self.items.views_of(id));
        for &view in &views {
            waits |= self.clients.someone_waits(&self.items, view);
            if self.items.watchers(view).open_count() > 0 {
                self.view_update(view, message, &mut whole);
            }
        }
        self.output.scratch.views = views;
        waits
    }

    /// True if a watcher of an item, or of one of its views, waits for an image.
    pub(crate) fn is_waited_for(&self, id: ItemId) -> bool {
        self.clients.someone_waits(&self.items, id)
            || self.items.views_of(id).iter().any(|&view| self.clients.someone_waits(&self.items, view))
    }

    /// Delivers an update as a view shows it.
    fn view_update(&mut self, view: ItemId, message: &Message<'_>, whole: &mut Option<BodyId>) {
        if self.items.data_streams_of(view).is_some() {
            let open = self.items.watchers(view).open().to_vec();
            self.note_named_by_update(view, &open, message.body);
        }
        // The view shows nothing of the update; one that cannot be read is counted where that is found.
        let Some(body) = self.view_body(view, message, whole) else { return };
        let interval = self.items.interval_of(view);
        if interval > 0 {
            return self.conflate(view, interval, body);
        }
        self.fan_update(view, body);
    }

    /// Delivers an update to the open watchers of an item or a view.
    pub(crate) fn fan_update(&mut self, id: ItemId, body: BodyId) {
        let Self { output, items, counters, clients, now, .. } = self;
        let Output { turn, rules, .. } = output;
        let merging = Merging { now: *now, ripples: rules.ripples(clients.dictionary()) };
        let open = items.watchers(id).open();
        turn.fan_update((id, body), &[], open, merging, |watcher| clients.may_conflate(watcher));
        counters.updates_out += open.len() as u64;
    }

    /// An update as a view shows it, if it shows any of it. `whole` is the unfiltered body, made when the first view needs it.
    pub(crate) fn view_body(
        &mut self,
        view: ItemId,
        message: &Message<'_>,
        whole: &mut Option<BodyId>,
    ) -> Option<BodyId> {
        let Self { output: Output { turn, scratch, .. }, items, counters, .. } = self;
        let spec = items.spec_of(view)?;
        let service = items.get(view).service();
        scratch.update.clear();
        let has_key = message.flags & flags::HAS_KEY != 0;
        if has_key && encode::with_service(message.body, service, &mut scratch.update).is_err() {
            counters.hub_messages_bad += 1;
            return None;
        }
        let update = if has_key { &scratch.update[..] } else { message.body };
        let Ok(header) = peek::header(update) else {
            counters.hub_messages_bad += 1;
            return None;
        };
        if spec.leaves_out(update) {
            counters.updates_left_out += 1;
            return None;
        }
        // A filter takes nothing from who may see the item.
        let is_due = spec.is_filtered() && header.flags & UpdateFlags::HAS_PERM_DATA.0 != 0;
        if !is_due && spec.withholds(update) {
            counters.updates_filtered += 1;
            return None;
        }
        if spec.shows_all() {
            let body = whole.or_else(|| turn.message_body(update, None))?;
            return Some(*whole.insert(body));
        }
        let (head, data) = update.split_at(header.body_offset);
        let mut left = Left::Nothing;
        let body = turn.arena_body(|arena| {
            arena.extend_from_slice(head);
            left = spec.append(header.class, header.container, data, arena);
            if is_due && left == Left::Nothing {
                left = Left::Part;
            }
            if left == Left::Part { Ok(()) } else { Err(()) }
        });
        counters.views_filtered += 1;
        match (left, body) {
            (Left::Part, Ok(body)) => Some(body),
            (Left::Nothing, _) => None,
            _ => {
                counters.views_unfiltered += 1;
                let body = whole.or_else(|| turn.message_body(update, None))?;
                Some(*whole.insert(body))
            }
        }
    }

    /// Anything but an update.
    pub(crate) fn event(&mut self, number: SourceId, event: &Event<'_>) {
        match *event {
            Event::Service { service, name, filters, .. } => {
                match directory::Service::decode_filters(service, Action::Add, filters) {
                    Ok(entry) => self.offer_service(number, RemoteService(service), name, &entry),
                    Err(_) => self.counters.hub_messages_bad += 1,
                }
            }
            Event::ServiceGone { service } => {
                let source = self.sources.up_mut(number);
                let id = source.and_then(|source| source.services.remove(&RemoteService(service)));
                self.claimed(id, |p2ps, id| p2ps.withdraw_service(id, number));
            }
            Event::ServiceStatus { service, state } => {
                let id = self.sources.public_service(number, service);
                self.claimed(id, |p2ps, id| p2ps.service_status(number, id, state));
            }
            Event::GroupStatus { service, group, state, merged_to } => {
                let (id, group, merged_to) =
                    (self.sources.public_service(number, service), HubGroup(group), merged_to.map(HubGroup));
                self.claimed(id, |p2ps, id| p2ps.group_status(number, id, group, state, merged_to));
            }
            Event::ItemOpened { handle, token, .. } => self.item_opened(number, Handle(handle), Token(token)),
            Event::Refused { token, state, .. } => {
                let id = self.sources.up_mut(number).and_then(|source| source.take_token(Token(token)));
                if let Some(id) = id.filter(|id| !id.is_item()) {
                    return self.mirror_open_refused(number, Token(token), id);
                }
                self.claimed(id, |p2ps, id| {
                    p2ps.tell_outage_of_item(id);
                    p2ps.refused(id, state);
                });
            }
            Event::Ack { token, rwf, .. } => self.ack(token, rwf),
            Event::Dictionary { service, rwf, .. } => self.dictionary_part(number, RemoteService(service), rwf),
            Event::Resync { .. } => self.part_from(number, StateCode::GAP_DETECTED, "could not be followed"),
            Event::Leaving { .. } => self.part_from(number, StateCode::NONE, "has ended"),
            Event::Image { handle, .. }
            | Event::Answered { handle, .. }
            | Event::ItemStatus { handle, .. }
            | Event::Generic { handle, .. } => {
                if let Some(id) = self.sources.mirror_of(number, Handle(handle)) {
                    return self.mirror_event(number, id, event);
                }
                // A handle that is given back still gets messages until the Source Distributor knows.
                let id = self.sources.item_of(number, Handle(handle));
                // An item that is lost, and told so now, has no use for the message.
                let id = id.filter(|&id| !self.tell_outage_of_item(id));
                self.claimed(id, |p2ps, id| p2ps.item_event(number, id, event));
            }
            Event::Servers { servers, .. } => {
                self.servers.servers_heard(self.config.connections.of_hub, number, servers);
            }
            // Answers to a gap come to one P2PS alone.
            // Of these records are for other Source Distributors.
            Event::Update { .. }
            | Event::Heartbeat { .. }
            | Event::Missed { .. }
            | Event::CaughtUp { .. }
            | Event::Record { .. } => {}
        }
    }

    /// Something that an open item is told.
    fn item_event(&mut self, number: SourceId, id: ItemId, event: &Event<'_>) {
        debug_assert!(self.items.get(id).is_open(), "{id:?} has a handle, and is not open");
        match *event {
            Event::Image { group, flags, position, rwf, .. } => {
                self.image(number, id, HubGroup(group), flags, position, rwf);
            }
            Event::Answered { serial, position, .. } => self.items.reissue_answered(id, serial, position),
            Event::ItemStatus { group, flags, rwf, .. } => self.item_status(number, id, HubGroup(group), flags, rwf),
            Event::Generic { has_key, rwf, .. } => self.generic_from_source(id, has_key, rwf),
            _ => hub_items::fault!("no event of an item: {event:?}"),
        }
    }

    /// Acts on what an event is about, if that is here.
    fn claimed<T>(&mut self, target: Option<T>, act: impl FnOnce(&mut Self, T)) {
        match target {
            Some(target) => act(self, target),
            None => self.counters.hub_messages_unclaimed += 1,
        }
    }

    fn item_opened(&mut self, number: SourceId, handle: Handle, token: Token) {
        let source = self.sources.up_mut(number);
        let Some((source, id)) = source.and_then(|source| source.take_token(token).map(|id| (source, id))) else {
            // An answer to an open of an earlier life, with which its handle has ended: it may be another's, or ours, by now.
            self.counters.hub_messages_unclaimed += 1;
            return;
        };
        if !id.is_item() {
            return self.mirror_opened(number, handle, token, id);
        }
        if handle.0 >= self.config.max_handles {
            // The Source Distributor has more items than this P2PS takes it for, or somebody else has sent that: not asked for again at once.
            source.writer.request(&Request::Close { handle: handle.0 });
            self.counters.hub_messages_bad += 1;
            let text = "The Source Distributor has more items than are taken of it (hub.max_items).";
            let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NO_RESOURCES, text);
            return self.refused(id, state);
        }
        if !source.bind(handle, id) {
            self.counters.hub_messages_bad += 1;
            self.items.detach(id);
            return if self.items.is_watched(id) {
                self.sources.queue_open(&mut self.items, id);
            } else {
                self.release(id);
            };
        }
        self.items.opened(id, handle);
        self.sources.look_at_demands(&self.items, id);
        let service = self.sources.services().get(self.items.get(id).service());
        if service.is_none_or(|service| service.providers.iter().all(|provider| provider.source != number)) {
            // The word on a gap that the service is gone has come before it, and the one in the stream will find nothing to end.
            self.give_back(id);
            return self.recover(id);
        }
        let down = service.is_some_and(|service| {
            let is_down = |provider: &Provider| provider.source == number && !provider.offer.condition.up;
            service.providers.iter().any(is_down)
        });
        if down && self.can_move(id) {
            // The service has gone down since the open was sent, and another source has the service.
            self.give_back(id);
            return self.recover(id);
        }
        if !self.items.is_watched(id) {
            self.release(id);
        }
    }
}
