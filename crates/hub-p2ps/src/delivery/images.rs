//! Images on their way to those who wait for one, and to those who have to begin afresh.

use super::deliveries::BodyId;
use super::output::Output;
use super::scratch::{Recipient, Variant};
use crate::filter::bodies::Left;
use crate::gate::messages::image_without_headline;
use crate::ids::{GroupId, HubGroup, ItemId, SourceId};
use crate::item::KeyQos;
use crate::items::telling::told;
use crate::items::watchers::Watcher;
use crate::stream::flags;
use crate::{P2ps, encode};
use rwf::msg::{Domain, MsgClass, MsgKey, RefreshFlags, RefreshMsg, StatusMsg};
use rwf::{DataState, Qos, Rate, State, StreamState};

/// An image as it comes from a Source Distributor, or from the cache.
pub(super) struct Image<'a> {
    pub(super) refresh: &'a RefreshMsg<'a>,
    pub(super) first: bool,
    pub(super) complete: bool,
    /// The image goes to all, asked for or not: those that have the item open have to know it too.
    pub(super) everyone: bool,
    /// The image says that the item is good to those that were told the contrary.
    pub(super) good_again: bool,
    /// Watchers that had an image begin afresh.
    pub(super) afresh: bool,
    /// The image holds all that was asked for, so views that were waiting for more have it now.
    pub(super) widened: bool,
    /// Nothing follows it.
    pub(super) last: bool,
    /// The image is of before a loss: who gets it takes no part in updates before the next image.
    pub(super) stale: bool,
    /// The image's source, for the group.
    pub(super) source: SourceId,
}

impl Image<'_> {
    /// What makes this image one recipient's, who is told this state of stream and data; without permission data if `is_bare`,
    /// conflated to one in `interval` milliseconds unless that is 0.
    fn variant_for(
        &self,
        recipient: &Recipient,
        (stream, data): (StreamState, DataState),
        is_bare: bool,
        interval: u16,
    ) -> Variant {
        let clears = || self.refresh.flags.contains(RefreshFlags::CLEAR_CACHE) || recipient.begins_afresh(self.afresh);
        let rate = match interval {
            0 => recipient.watch.is_just_in_time().then_some((Rate::JIT_CONFLATED, 0)),
            interval => Some((Rate::TIME_CONFLATED, interval)),
        };
        let (solicited, clear_cache) = (recipient.solicited, self.first && clears());
        Variant { solicited, clear_cache, stream, data, is_bare, rate }
    }
}

impl P2ps {
    /// An image, or a part of one, of an open item.
    pub(crate) fn image(&mut self, source: SourceId, id: ItemId, group: HubGroup, bits: u8, position: u64, rwf: &[u8]) {
        let is_headline = self.items.watchers(id).has_headlines();
        let bare = if is_headline { image_without_headline(self, id, rwf) } else { None };
        let rwf = bare.as_deref().unwrap_or(rwf);
        let Ok(refresh) = RefreshMsg::decode(rwf) else {
            self.counters.hub_messages_bad += 1;
            return;
        };
        self.counters.images_in += 1;
        let has = |flag| bits & flag != 0;
        let (first, complete, last) = (has(flags::FIRST), has(flags::COMPLETE), has(flags::SNAPSHOT));
        // The item's service may be gone, and clients know that: an image that comes by itself may be later than that word.
        self.tell_outage_of_item(id);
        if self.leaves_by_image(source, id, group, (bits, position), &refresh, rwf)
            || self.holds_back(id, &refresh, first, complete)
            || !self.takes_image(id, bits, position)
        {
            return;
        }
        if !self.lock_by_image(id, first, &refresh) {
            // Whoever watched it may not see it under its new lock.
            self.counters.images_unwanted += 1;
            return;
        }
        let regrouped = !group.is_none() && self.items.set_group(id, group);
        if regrouped {
            self.items.set_regrouped(id, true);
        }
        let item = self.items.get(id);
        // A source that has taken over goes on at another number than the one before.
        let is_anew = first && self.hot_standby.begins_numbers_anew(id, refresh.seq_num);
        let recovery = has(flags::RECOVERY) || item.is_recovering() || is_anew;
        let good_again = item.is_suspect() && refresh.state.data == DataState::OK;
        let reissue_due = item.is_reissue_due();
        let narrow = self.items.is_narrow(id, position);
        let image = Image {
            first,
            complete,
            everyone: has(flags::UNSOLICITED) || recovery || last || regrouped,
            good_again,
            afresh: recovery || good_again || has(flags::CLEAR_CACHE),
            widened: !narrow && !reissue_due,
            last,
            stale: false,
            source,
            refresh: &refresh,
        };
        self.cache_image(id, &image, narrow);
        if first {
            self.note_interval(id, &refresh);
            self.image_passed(id, refresh.seq_num, image.everyone || image.good_again);
            self.items.begin_set(id, !has(flags::UNSOLICITED) && !narrow, complete);
        }
        self.give_image(id, &image);
        if complete {
            self.end_set(id, last);
        }
    }

    /// Whether an image, or a part of one, is for those who watch an item. One that is not is counted.
    fn takes_image(&mut self, id: ItemId, bits: u8, position: u64) -> bool {
        let has = |flag| bits & flag != 0;
        let (first, last) = (has(flags::FIRST), has(flags::SNAPSHOT));
        let item = self.items.get(id);
        if !item.is_open() {
            // A part before it has ended the item's stream.
            self.counters.images_unwanted += 1;
            return false;
        }
        if !first && !item.is_image_arriving() {
            // The rest of a set that began before the item was opened here.
            self.counters.images_unwanted += 1;
            if has(flags::COMPLETE) {
                self.end_set(id, last);
            }
            return false;
        }
        if first && !last {
            if self.items.is_barred(id, position) {
                self.image_late(id);
                return false;
            }
            self.items.unbar_images(id);
        }
        true
    }

    /// An image is of no use, and is asked for again by those that wait for it.
    pub(crate) fn image_late(&mut self, id: ItemId) {
        self.counters.images_late += 1;
        self.items.get_mut(id).image_unusable();
        if self.is_waited_for(id) {
            self.ask_image(id);
        }
    }

    /// Gives an image, or a part of it, to the watchers of an item and of its views that are to have it; tells to how many.
    pub(super) fn give_image(&mut self, id: ItemId, image: &Image<'_>) -> u64 {
        if image.widened && image.first {
            self.items.shows_all(id);
        }
        self.release_conflated(id);
        let mut reached = self.fan_image(id, id, image, None);
        for view in self.items.views_of(id).to_vec() {
            reached += self.as_view_shows(view, image, |p2ps, body| p2ps.fan_image(view, id, image, body));
        }
        self.counters.images_out += reached;
        self.counters.images_unwanted += u64::from(reached == 0);
        let (item, state) = (self.items.get(id), image.refresh.state);
        // The item may have ended with its last watcher. A later part says that the item is good to those that are in the set, and to no
        // others that were told the contrary.
        if item.is_live() && (image.first || state.data != DataState::OK) {
            if reached > 0 && item.is_suspect() == (state.data == DataState::OK) {
                let name = item.key().name.unwrap_or_default();
                self.history.note(self.now, (item.service().0, name), &state);
            }
            self.items.told(id, state.data);
        }
        reached
    }

    /// Gives out the payload of an image as a view shows it, the whole one as `None`; tells what `give` tells.
    pub(super) fn as_view_shows(
        &mut self,
        view: ItemId,
        image: &Image<'_>,
        give: impl FnOnce(&mut Self, Option<&[u8]>) -> u64,
    ) -> u64 {
        let Some(spec) = self.items.spec_of(view) else {
            hub_items::fault!("{view:?} is a view without a view");
            return 0;
        };
        if spec.shows_all() {
            return give(self, None);
        }
        let mut filtered = std::mem::take(&mut self.output.scratch.filtered);
        filtered.clear();
        self.counters.views_filtered += 1;
        let body = match spec.append(MsgClass::REFRESH, image.refresh.container, image.refresh.body, &mut filtered) {
            Left::Part | Left::Nothing => Some(&filtered[..]),
            Left::Whole | Left::Unreadable => {
                self.counters.views_unfiltered += 1;
                None
            }
        };
        let reached = give(self, body);
        self.output.scratch.filtered = filtered;
        reached
    }

    fn end_set(&mut self, id: ItemId, last: bool) {
        let item = self.items.get_mut(id);
        // The item may have ended with its last watcher.
        if !item.is_open() {
            return;
        }
        item.image_whole();
        let reissue = item.is_reissue_due() && !item.is_image_asked();
        self.items.trim_viewed(id);
        if last {
            // Watchers that are left came too late for the image, or want more than it holds: another open serves them. Paused ones
            // ask for that when they are resumed.
            self.give_back(id);
            if self.is_waited_for(id) {
                self.sources.queue_open(&mut self.items, id);
            }
        } else if reissue {
            self.reissue_upstream(id, true);
        }
        if !self.items.is_watched(id) {
            self.release(id);
        }
    }

    /// Gives an image to those watchers of an item that are to have it; tells how many. `body` is the payload as this
    /// view shows it, the whole one if `None`.
    fn fan_image(&mut self, id: ItemId, root: ItemId, image: &Image<'_>, body: Option<&[u8]>) -> u64 {
        let item = self.items.get_mut(id);
        if image.widened && image.first {
            item.set_awaits_wider(false);
        } else if item.awaits_wider() {
            return 0;
        }
        let mut recipients = std::mem::take(&mut self.output.scratch.recipients);
        recipients.clear();
        self.choose_recipients(id, image, &mut recipients);
        let reached = self.give_to(&recipients, id, root, image, body);
        self.output.scratch.recipients = recipients;
        reached
    }

    /// Gives an image to these watchers of an item; tells to how many.
    pub(super) fn give_to(
        &mut self,
        recipients: &[Recipient],
        id: ItemId,
        root: ItemId,
        image: &Image<'_>,
        body: Option<&[u8]>,
    ) -> u64 {
        let mut variants = std::mem::take(&mut self.output.scratch.variants);
        variants.clear();
        let private = self.items.get(root).is_private();
        let interval = self.items.interval_of(id);
        let (is_guarded, mut denied) = (self.gate.is_on() && image.first, 0);
        let mut named = self.items.list_of(id).map(|list| (list, Vec::new()));
        for recipient in recipients {
            let Watcher { client, stream } = recipient.watcher;
            let Some(policy) = self.clients.get(client).map(|known| known.policy) else {
                hub_items::fault!("a watcher of a client that is gone: {client:?}");
                continue;
            };
            if is_guarded && let Err(denial) = self.gate.admit(self.now, recipient.watcher) {
                self.deny_watcher(recipient.watcher, &denial);
                denied += 1;
                continue;
            }
            let mut state = told(policy, private, image.refresh.state);
            let turned_away = state.stream.is_final() && !image.refresh.state.stream.is_final();
            if turned_away {
                self.turn_away(recipient, id, image.refresh.domain, state);
                continue;
            }
            if (image.last || recipient.watch.is_snapshot()) && state.stream == StreamState::OPEN {
                state.stream = StreamState::NON_STREAMING;
            }
            let is_bare = image.refresh.perm_data.is_some() && !self.clients.wants_locks(client);
            let mut body_for = |solicited| {
                let recipient = Recipient { solicited, ..*recipient };
                let variant = image.variant_for(&recipient, (state.stream, state.data), is_bare, interval);
                self.variant_body(&mut variants, root, image, variant, body)
            };
            let before = if recipient.also_unsolicited { body_for(false) } else { None };
            let Some(made) = body_for(recipient.solicited) else { continue };
            for made in before.into_iter().chain([made]) {
                self.output.turn.deliver(made, client, stream);
            }
            if let Some((_, named)) = &mut named {
                named.push(recipient.watcher);
            }
            self.advance(recipient, id, image, state.stream);
            if let Some(reached) = self.output.scratch.reached.as_mut().filter(|_| image.first) {
                reached.push((id, recipient.watcher));
            }
        }
        self.output.scratch.variants = variants;
        if let Some((list, named)) = named {
            self.note_named(&list, &named, image.refresh.container, image.refresh.body);
        }
        recipients.len() as u64 - denied
    }

    fn choose_recipients(&mut self, id: ItemId, image: &Image<'_>, recipients: &mut Vec<Recipient>) {
        let alone = self.output.scratch.reached.is_some() && !image.last;
        let watchers = self.items.watchers_mut(id);
        let asked_by_open = watchers.is_asked_by_open();
        // The open ones need no look else: an image that was asked for is nothing to them.
        let all = !image.first || image.everyone || image.good_again || asked_by_open;
        if image.first && !(alone && asked_by_open) {
            // A set that is broken off leaves some behind that are owed the rest: they are in the next one.
            watchers.mark_asked(!image.complete);
        }
        let watchers = self.items.watchers(id);
        let (watchers, open_count) =
            if all { (watchers.open_and_waiting(), watchers.open_count() as usize) } else { (watchers.waiting(), 0) };
        for (at, &watcher) in watchers.iter().enumerate() {
            let Some((_, watch)) = self.clients.watch(watcher) else {
                hub_items::fault!("a watcher that its client does not know: {watcher:?}");
                continue;
            };
            let open = at < open_count;
            if open && alone && image.first {
                continue;
            }
            let is_for_all = image.everyone || image.good_again && watch.is_told_suspect();
            let mut also_unsolicited = false;
            let solicited = if !image.first {
                watch.is_in_set().then_some(watch.is_set_solicited())
            } else if watch.is_asked() || watch.is_set_solicited() {
                // Of a set in parts no second one can be in between; and what is the last one is no more than the answer.
                let goes_on = watch.is_answered() && !watch.is_paused() && !watch.is_snapshot() && !image.last;
                also_unsolicited = goes_on && image.complete && is_for_all;
                Some(true)
            } else {
                let skips = if open { !is_for_all } else { watch.is_paused() };
                (watch.is_in_set() || !skips).then_some(false)
            };
            if let Some(solicited) = solicited {
                recipients.push(Recipient { watcher, watch, open, solicited, also_unsolicited });
            }
        }
    }

    /// The client does not take suspect data: it is told to ask again.
    fn turn_away(&mut self, recipient: &Recipient, id: ItemId, domain: Domain, state: State<'_>) {
        let Watcher { client, stream } = recipient.watcher;
        let status = StatusMsg { state: Some(state), ..StatusMsg::new(domain, stream.0) };
        self.send(client, stream, |w| status.encode(w));
        self.counters.statuses_out += 1;
        self.drop_watcher(recipient.watcher, id);
    }

    /// What an image, or a part of it, makes of a watcher.
    fn advance(&mut self, recipient: &Recipient, id: ItemId, image: &Image<'_>, stream_state: StreamState) {
        let &Recipient { watcher, watch, open, solicited, .. } = recipient;
        if image.complete && stream_state != StreamState::OPEN {
            return self.drop_watcher(watcher, id);
        }
        self.change_state(watcher, id, |watch| {
            let watch = watch.told(image.refresh.state.data);
            match (image.first, image.complete) {
                (true, whole) => watch.image_begins(solicited, whole),
                (false, true) => watch.image_whole(),
                (false, false) => watch,
            }
        });
        if !open && !watch.is_paused() && !image.stale {
            self.make_open(watcher, id);
        }
    }

    /// The image as one kind of recipient gets it, made once for all of them.
    fn variant_body(
        &mut self,
        variants: &mut Vec<(Variant, BodyId)>,
        root: ItemId,
        image: &Image<'_>,
        variant: Variant,
        body: Option<&[u8]>,
    ) -> Option<BodyId> {
        if let Some((_, known)) = variants.iter().find(|(known, _)| *known == variant) {
            return Some(*known);
        }
        let made = self.image_body(root, image, variant, body)?;
        variants.push((variant, made));
        Some(made)
    }

    /// The image as one kind of recipient gets it.
    fn image_body(&mut self, root: ItemId, image: &Image<'_>, variant: Variant, body: Option<&[u8]>) -> Option<BodyId> {
        let Self { items, output: Output { turn, .. }, counters, .. } = self;
        let (item, key) = (items.get(root), items.key(root));
        let refresh = image.refresh;
        let group = GroupId::new(image.source, item.group());
        let mut flags = refresh.flags;
        flags.set(RefreshFlags::SOLICITED, variant.solicited);
        flags.set(RefreshFlags::CLEAR_CACHE, variant.clear_cache);
        flags.set(RefreshFlags::REFRESH_COMPLETE, image.complete);
        // A redirect says of the other item that it is to be had by a private stream.
        let redirects = variant.stream == StreamState::REDIRECTED;
        let is_private = item.is_private() || redirects && refresh.flags.contains(RefreshFlags::PRIVATE_STREAM);
        flags.set(RefreshFlags::PRIVATE_STREAM, is_private);
        let service = item.service().0;
        let changed = RefreshMsg {
            flags,
            state: State { stream: variant.stream, data: variant.data, ..refresh.state },
            group_id: if item.group().is_none() { &[] } else { group.as_bytes() },
            key: Some(match refresh.key {
                // The key says where the item has gone to.
                Some(other) if redirects => MsgKey { service_id: Some(service), ..other },
                _ => key.msg_key(service),
            }),
            qos: match (refresh.qos.or(key.qos.to_qos()), variant.rate.or(rate_of(key.qos))) {
                (Some(qos), Some((rate, rate_info))) => Some(Qos { rate, rate_info, ..qos }),
                (qos, _) => qos,
            },
            perm_data: refresh.perm_data.filter(|_| !variant.is_bare),
            body: body.unwrap_or(refresh.body),
            ..refresh.clone()
        };
        let members = changed.state.text.len() + changed.perm_data.map_or(0, <[u8]>::len);
        let room = 128 + item.key_bytes().len() + members + changed.body.len();
        let written = turn.arena_body(|arena| encode::append(arena, room, |w| changed.encode(w)));
        counters.messages_unwritable += u64::from(written.is_err());
        written.ok()
    }
}

/// The rate of an item that was asked for conflated by time: a Source Distributor that does so itself sends its provider's images as they
/// come.
fn rate_of(asked: KeyQos) -> Option<(Rate, u16)> {
    (Rate(asked.rate) == Rate::TIME_CONFLATED).then_some((Rate::TIME_CONFLATED, asked.rate_info))
}
