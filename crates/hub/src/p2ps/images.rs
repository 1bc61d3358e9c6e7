//! Images on their way to those who wait for one, and to those who have to begin afresh.

use super::items::{ItemId, bits};
use super::statuses::{GroupId, told};
use super::streams::{WatchFlags, told_flags};
use super::turn::BodyId;
use super::views::{Filtered, append_filtered};
use super::watchers::Watcher;
use super::{P2ps, compose};
use crate::stream::{NO_GROUP, flags};
use rwf::msg::{Domain, Msg, MsgKey, RefreshFlags, RefreshMsg, StatusMsg};
use rwf::{DataState, State, StreamState};

/// Memory that is used again and again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// A key in canonical bytes.
    pub(crate) key: Vec<u8>,
    /// An update with its key rewritten.
    pub(crate) update: Vec<u8>,
    recipients: Vec<Recipient>,
    variants: Vec<(Variant, BodyId)>,
    filtered: Vec<u8>,
    /// Those that the set at hand goes to, if they are to be known.
    pub(crate) reached: Option<Vec<(ItemId, Watcher)>>,
}

/// Someone who gets an image, or a part of it.
#[derive(Debug, Clone, Copy)]
struct Recipient {
    client: u32,
    stream: i32,
    watch: WatchFlags,
    /// It takes part in updates.
    open: bool,
    /// It asked for this one.
    solicited: bool,
}

impl Recipient {
    /// The image replaces what it has, which is half a set, or old: it missed updates, without having asked for this.
    const fn begins_afresh(&self, afresh: bool) -> bool {
        if self.open {
            afresh || self.watch.has(WatchFlags::IN_SET)
        } else {
            self.watch.has(WatchFlags::ANSWERED) && !self.solicited
        }
    }
}

/// What makes an image one client's and not another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Variant {
    solicited: bool,
    clear_cache: bool,
    stream: StreamState,
    data: DataState,
}

/// An image as it comes from a Source Distributor.
struct Image<'a> {
    refresh: RefreshMsg<'a>,
    first: bool,
    complete: bool,
    /// It goes to all, asked for or not: those that have the item open have to know it too.
    everyone: bool,
    /// It says that the item is good to those that were told the contrary.
    good_again: bool,
    /// Who had an image begins afresh.
    afresh: bool,
    /// It holds all that was asked for, so views that were waiting for more have it now.
    widened: bool,
    /// Nothing follows it.
    last: bool,
    /// Number of the source, for the group.
    source: u16,
}

/// A field or element list without entries.
const EMPTY_LIST: &[u8] = &[0x08, 0, 0];

impl P2ps {
    /// An image, or a part of one, of an open item.
    pub(super) fn image(&mut self, source: u16, id: ItemId, group: u32, bits_set: u8, position: u64, rwf: &[u8]) {
        let Ok(Msg::Refresh(refresh)) = Msg::decode(rwf) else {
            self.counters.hub_messages_bad += 1;
            return;
        };
        self.counters.images_in += 1;
        let has = |flag| bits_set & flag != 0;
        let item = self.items.get_mut(id);
        let first = has(flags::FIRST);
        let last = has(flags::SNAPSHOT);
        if !first && !item.has(bits::IN_SET) {
            // The rest of a set that began before the item was opened here.
            self.counters.images_unwanted += 1;
            if has(flags::COMPLETE) {
                self.end_set(id, last);
            }
            return;
        }
        if first && !last {
            if self.is_barred(id, position) {
                return self.image_late(id);
            }
            self.items.get_mut(id).clear(bits::UPDATE_WITHHELD);
        }
        let item = self.items.get_mut(id);
        let old = if group == NO_GROUP { group } else { std::mem::replace(&mut item.group, group) };
        let regrouped = old != NO_GROUP && old != group;
        if regrouped {
            item.set(bits::REGROUPED);
        }
        let good = refresh.state.data == DataState::OK;
        let recovery = has(flags::RECOVERY) || item.has(bits::RECOVERING);
        let good_again = item.has(bits::SUSPECT) && good;
        let narrow = item.extra.as_ref().is_some_and(|extra| extra.serial != 0 || position < extra.wide_from);
        let answer = !has(flags::UNSOLICITED) && !narrow;
        let image = Image {
            first,
            complete: has(flags::COMPLETE),
            everyone: has(flags::UNSOLICITED) || recovery || last || regrouped,
            good_again,
            afresh: recovery || good_again || has(flags::CLEAR_CACHE),
            widened: !narrow && !item.has(bits::REISSUE_DUE),
            last,
            source,
            refresh,
        };
        if first {
            self.begin_set(id, answer, image.complete);
        }
        self.give_image(id, &image);
        if image.complete {
            self.end_set(id, last);
        }
    }

    /// True if updates behind an image's position were kept from those that wait: the image would go back in time.
    pub(super) fn is_barred(&self, id: ItemId, position: u64) -> bool {
        let item = self.items.get(id);
        item.has(bits::UPDATE_WITHHELD) && item.extra.as_ref().is_some_and(|extra| extra.withheld_at >= position)
    }

    /// An image is of no use, and is asked for again by those that wait for it.
    pub(super) fn image_late(&mut self, id: ItemId) {
        self.counters.images_late += 1;
        self.items.get_mut(id).clear(bits::IMAGE_ASKED);
        if self.is_waited_for(id) {
            self.ask_image(id);
        }
    }

    /// A reissue that asked for more is answered.
    pub(super) fn answered(&mut self, id: ItemId, serial: u32, position: u64) {
        if let Some(extra) = self.items.get_mut(id).extra.as_mut().filter(|extra| extra.serial == serial) {
            (extra.serial, extra.wide_from) = (0, position);
        }
    }

    fn begin_set(&mut self, id: ItemId, answer: bool, complete: bool) {
        let item = self.items.get_mut(id);
        item.failures = 0;
        item.clear(bits::RECOVERING | if answer { bits::IMAGE_ASKED } else { 0 });
        if !complete {
            item.set(bits::IN_SET);
        }
        if item.has(bits::SNAPSHOT) {
            // Who comes later gets a snapshot of his own.
            self.items.unlist(id);
        }
    }

    fn give_image(&mut self, id: ItemId, image: &Image<'_>) {
        if image.widened
            && image.first
            && let Some(extra) = self.items.get_mut(id).extra.as_mut()
        {
            extra.shown = None;
        }
        let mut reached = self.fan_image(id, id, image, None);
        for view in self.items.get(id).views().to_vec() {
            let Some(number) = self.view_of(view) else { continue };
            let mut filtered = std::mem::take(&mut self.scratch.filtered);
            filtered.clear();
            let refresh = &image.refresh;
            self.counters.views_filtered += 1;
            let outcome = append_filtered(self.views.spec(number), refresh.container, refresh.body, &mut filtered);
            let body = match outcome {
                Filtered::Written => Some(&filtered[..]),
                Filtered::Nothing => Some(EMPTY_LIST),
                Filtered::Whole => {
                    self.counters.views_unfiltered += 1;
                    None
                }
            };
            reached += self.fan_image(view, id, image, body);
            self.scratch.filtered = filtered;
        }
        self.counters.images_out += reached;
        self.counters.images_unwanted += u64::from(reached == 0);
        let item = self.items.get_mut(id);
        match image.refresh.state.data {
            DataState::SUSPECT => item.set(bits::SUSPECT),
            // A later part says so to those that are in the set, and to no others that were told the contrary.
            DataState::OK if image.first => item.clear(bits::SUSPECT),
            _ => {}
        }
    }

    fn end_set(&mut self, id: ItemId, last: bool) {
        let item = self.items.get_mut(id);
        if !item.has(bits::LIVE) {
            return;
        }
        item.clear(bits::IN_SET);
        item.trim_extra();
        if last {
            // Who is left came too late for it, or wants more than it holds, and is served by another open; who rests
            // asks for that when it is resumed.
            self.give_back(id);
            if self.is_waited_for(id) {
                self.queue_open(id);
            }
        } else if item.has(bits::REISSUE_DUE) && !item.has(bits::IMAGE_ASKED) {
            self.reissue_upstream(id, true);
        }
        if !self.is_watched(id) {
            self.release(id);
        }
    }

    /// True if an item, or one of its views, waits for more than was asked for at first.
    pub(super) fn is_widening(&self, id: ItemId) -> bool {
        let widening = |&id: &ItemId| self.items.get(id).has(bits::WIDENING);
        widening(&id) || self.items.get(id).views().iter().any(widening)
    }

    /// True if a watcher of an item, or of one of its views, waits for an image.
    pub(super) fn is_waited_for(&self, id: ItemId) -> bool {
        self.someone_waits(id) || self.items.get(id).views().iter().any(|&view| self.someone_waits(view))
    }

    /// Gives an image to those watchers of an item that are to have it; tells how many. `body` is the payload as this
    /// view shows it, the whole one if `None`.
    fn fan_image(&mut self, id: ItemId, root: ItemId, image: &Image<'_>, body: Option<&[u8]>) -> u64 {
        let item = self.items.get_mut(id);
        if image.widened && image.first {
            item.clear(bits::WIDENING);
        } else if item.has(bits::WIDENING) {
            return 0;
        }
        let mut recipients = std::mem::take(&mut self.scratch.recipients);
        let mut variants = std::mem::take(&mut self.scratch.variants);
        recipients.clear();
        variants.clear();
        self.choose_recipients(id, image, &mut recipients);
        let private = self.items.get(root).has(bits::PRIVATE);
        for recipient in &recipients {
            let Some(client) = self.client(recipient.client) else { continue };
            let mut state = told(client.policy, private, image.refresh.state);
            let turned_away = state.stream.is_final() && !image.refresh.state.stream.is_final();
            if turned_away {
                self.turn_away(recipient, id, image.refresh.domain, state);
                continue;
            }
            if (image.last || recipient.watch.has(WatchFlags::SNAPSHOT)) && state.stream == StreamState::OPEN {
                state.stream = StreamState::NON_STREAMING;
            }
            let variant = Variant {
                solicited: recipient.solicited,
                clear_cache: image.first
                    && (image.refresh.flags.contains(RefreshFlags::CLEAR_CACHE)
                        || recipient.begins_afresh(image.afresh)),
                stream: state.stream,
                data: state.data,
            };
            let known = variants.iter().find(|(known, _)| *known == variant).map(|(_, body)| *body);
            let Some(made) = known.or_else(|| self.image_body(root, image, variant, body)) else { continue };
            if known.is_none() {
                variants.push((variant, made));
            }
            self.turn.deliver(made, recipient.client, recipient.stream);
            self.advance(recipient, id, image, state.stream);
            if let Some(reached) = self.scratch.reached.as_mut().filter(|_| image.first) {
                reached.push((id, Watcher { client: recipient.client, stream: recipient.stream }));
            }
        }
        let reached = recipients.len() as u64;
        (self.scratch.recipients, self.scratch.variants) = (recipients, variants);
        reached
    }

    fn choose_recipients(&mut self, id: ItemId, image: &Image<'_>, recipients: &mut Vec<Recipient>) {
        let alone = self.scratch.reached.is_some() && !image.last;
        let item = self.items.get_mut(id);
        // Without this the open ones need no look: an image that was asked for is nothing to them.
        let all = !image.first || image.everyone || image.good_again || item.has(bits::SOME_ASKED);
        if image.first && !(alone && item.has(bits::SOME_ASKED)) {
            item.clear(bits::SOME_ASKED);
            // A set that is broken off leaves marks behind: its watchers are in the next one.
            if !image.complete {
                item.set(bits::SOME_ASKED);
            }
        }
        let watchers = &self.items.watchers[id as usize];
        let (watchers, skip) =
            if all { (watchers.all(), watchers.open_count() as usize) } else { (watchers.held(), 0) };
        for (at, watcher) in watchers.iter().enumerate() {
            let Some(client) = self.clients.get(watcher.client as usize).and_then(Option::as_deref) else { continue };
            let Some((_, watch)) = client.streams.watch(watcher.stream) else { continue };
            let open = all && at < skip;
            if open && alone && image.first {
                continue;
            }
            let in_set = watch.has(WatchFlags::IN_SET);
            let solicited = if !image.first {
                in_set.then_some(watch.has(WatchFlags::SOLICITED))
            } else if watch.has(WatchFlags::ASKED | WatchFlags::SOLICITED) {
                Some(true)
            } else {
                let told = image.good_again && watch.has(WatchFlags::TOLD);
                let rests = if open { !image.everyone && !told } else { watch.has(WatchFlags::PAUSED) };
                (in_set || !rests).then_some(false)
            };
            if let Some(solicited) = solicited {
                let Watcher { client, stream } = *watcher;
                recipients.push(Recipient { client, stream, watch, open, solicited });
            }
        }
    }

    /// The client does not take suspect data: it is told to ask again.
    fn turn_away(&mut self, recipient: &Recipient, id: ItemId, domain: Domain, state: State<'_>) {
        let status = StatusMsg { state: Some(state), ..StatusMsg::new(domain, recipient.stream) };
        self.send(recipient.client, recipient.stream, |w| status.encode(w));
        self.counters.statuses_out += 1;
        self.drop_watcher(recipient.client, recipient.stream, id);
    }

    /// What an image, or a part of it, makes of a watcher.
    fn advance(&mut self, recipient: &Recipient, id: ItemId, image: &Image<'_>, stream_state: StreamState) {
        let &Recipient { client, stream, watch, open, solicited } = recipient;
        if image.complete && stream_state != StreamState::OPEN {
            return self.drop_watcher(client, stream, id);
        }
        let Some(known) = self.client_mut(client) else { return };
        let (mut set, mut clear) = told_flags(image.refresh.state.data);
        if image.first {
            set |= WatchFlags::ANSWERED;
            clear |= WatchFlags::ASKED;
        }
        if image.complete {
            clear |= WatchFlags::IN_SET | WatchFlags::SOLICITED;
        } else if image.first {
            set |= WatchFlags::IN_SET | if solicited { WatchFlags::SOLICITED } else { 0 };
        }
        known.streams.set_flags(stream, set, clear);
        if !open && !watch.has(WatchFlags::PAUSED) {
            self.make_open(client, stream, id);
        }
    }

    /// The image as one kind of recipient gets it.
    fn image_body(&mut self, root: ItemId, image: &Image<'_>, variant: Variant, body: Option<&[u8]>) -> Option<BodyId> {
        let Self { items, turn, .. } = self;
        let item = items.get(root);
        let key = items.key(root);
        let refresh = &image.refresh;
        let group = GroupId::new(image.source, item.group);
        let mut flags = refresh.flags;
        flags.set(RefreshFlags::SOLICITED, variant.solicited);
        flags.set(RefreshFlags::CLEAR_CACHE, variant.clear_cache);
        flags.set(RefreshFlags::REFRESH_COMPLETE, image.complete);
        flags.set(RefreshFlags::PRIVATE_STREAM, item.has(bits::PRIVATE));
        let changed = RefreshMsg {
            flags,
            state: State { stream: variant.stream, data: variant.data, ..refresh.state },
            group_id: if item.group == NO_GROUP { &[] } else { group.as_bytes() },
            key: Some(match refresh.key {
                // The key says where the item has gone to.
                Some(other) if variant.stream == StreamState::REDIRECTED => {
                    MsgKey { service_id: Some(item.service), ..other }
                }
                _ => key.msg_key(item.service),
            }),
            qos: refresh.qos.or(key.qos.to_qos()),
            body: body.unwrap_or(refresh.body),
            ..refresh.clone()
        };
        let room = 512 + item.key.len() + changed.body.len();
        turn.arena_body(|arena| compose::append(arena, room, |w| changed.encode(w))).ok()
    }
}
