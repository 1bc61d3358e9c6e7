//! A mirror becomes the stream in use.

use super::{HotStandby, ImageOf, Mirror, Seen, Stage, Taken};
use crate::gate::messages::as_headline;
use crate::ids::{GroupId, Handle, HubGroup, ItemId, ServiceId, SourceId};
use crate::items::state::Trouble;
use crate::sequence::{Tail, TailUpdate};
use crate::sources::services::Provider;
use crate::stream::{ALL, Kind, Message, NO_GROUP, NO_HANDLE, flags};
use crate::{Notice, P2ps};
use rwf::msg::{Domain, RefreshMsg, StatusMsg};
use rwf::{DataState, State, StreamState};

/// The fate of the handle that was in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Former {
    /// The former handle is given back, unless its source is gone.
    GivenBack,
    /// The former handle is the mirror's from now on.
    StandsBy,
    /// As that; its source says that it is Suspect.
    Suspect,
    /// As that; messages of it before this position of its stream are lost.
    Missed(u64),
}

impl HotStandby {
    /// The source of an item's mirror.
    pub(crate) fn mirror_source(&self, id: ItemId) -> Option<SourceId> {
        Some(self.mirror(id)?.source)
    }

    /// Whether an image of the source in use begins anew, because that has taken over and is not where the one before was: it is for all
    /// who watch.
    pub(crate) fn begins_numbers_anew(&self, id: ItemId, number: Option<u32>) -> bool {
        let sequence = self.pair(id).map(|pair| &pair.sequence);
        sequence.is_some_and(|sequence| sequence.catches_up() && (number.is_none() || number != sequence.passed()))
    }
}

impl P2ps {
    /// The mirror of an item takes over, if its source has it whole and good. False if there is none that could, and nothing is changed.
    pub(crate) fn take_over(&mut self, id: ItemId, former: Former) -> bool {
        let item = self.items.get(id);
        let service = item.service();
        let Some(used) = item.open_at().filter(|_| self.items.is_watched(id) && !self.items.may_rest(id)) else {
            return false;
        };
        let Some(new) = self.hot_standby.mirror(id).and_then(|mirror| self.ready(service, mirror)) else {
            return false;
        };
        // The mirror was there just now.
        let Some(mut mirror) = self.hot_standby.take_mirror(id, service) else { return false };
        let in_sequence = self.goes_on_in_sequence(id, &mirror);
        let wants_image = self.is_image_owed(id);
        let (tail, group) = (std::mem::take(&mut mirror.tail), mirror.group);
        let next = self.leave_former(id, used, former);
        self.items.take_over(id, new, in_sequence);
        if let Some(source) = self.sources.up_mut(new.0) {
            source.rebind(new.1, id);
        }
        self.items.note_asked(id, None, false, false);
        if let Some(next) = next {
            self.hot_standby.set_mirror(id, service, next);
        }
        if self.hot_standby.mirror(id).is_none_or(|mirror| mirror.image == ImageOf::Wanted) {
            self.hot_standby.queue(service, id);
        }
        self.go_on(id, new, group, in_sequence.then_some(tail));
        if wants_image || !in_sequence {
            self.sources.want_image_at(&mut self.items, id, new.0);
        }
        self.sources.queue_demands(&mut self.items, id);
        self.sources.queue_narrowing(&mut self.items, id);
        self.counters.hot_takeovers += 1;
        self.counters.hot_takeovers_in_sequence += u64::from(in_sequence);
        if former != Former::StandsBy {
            let taken: &mut Taken = self.hot_standby.taken.entry((used.0, service)).or_default();
            taken.items += 1;
            taken.in_sequence += u64::from(in_sequence);
        }
        true
    }

    /// Where a mirror is open, if it may take over.
    fn ready(&self, service: ServiceId, mirror: &Mirror) -> Option<(SourceId, Handle)> {
        let Stage::Open(handle) = mirror.stage else { return None };
        let is_up = |at: &Provider| at.source == mirror.source && at.offer.condition.up;
        let is_served = self.sources.services().alive(service).is_some_and(|known| known.providers.iter().any(is_up));
        let may = mirror.is_whole && mirror.is_good && self.sources.is_up(mirror.source) && is_served;
        may.then_some((mirror.source, handle))
    }

    /// Whether the mirror of an item could take over.
    pub(crate) fn is_mirror_ready(&self, id: ItemId) -> bool {
        let service = self.items.get(id).service();
        self.hot_standby.mirror(id).is_some_and(|mirror| self.ready(service, mirror).is_some())
    }

    /// Whether those who watch need no image when a mirror takes over.
    fn goes_on_in_sequence(&self, id: ItemId, mirror: &Mirror) -> bool {
        let item = self.items.get(id);
        let is_undisturbed = !item.is_suspect() && !item.is_recovering() && !item.is_image_arriving();
        // An image alone can say that it is in no group any more.
        let is_grouped = !mirror.group.is_none() || item.group().is_none();
        let sequence = self.hot_standby.pair(id).map(|pair| &pair.sequence);
        let goes_on = sequence.is_some_and(|sequence| sequence.goes_on_with(&mirror.tail));
        self.config.sequence_numbers && is_undisturbed && is_grouped && goes_on
    }

    /// Whether somebody waits for an image of an item, or has asked for one.
    pub(crate) fn is_image_owed(&self, id: ItemId) -> bool {
        self.is_waited_for(id) || self.items.is_asked_by_open(id)
    }

    /// The handle that was in use is given back, or stands by: then what its mirror is.
    fn leave_former(&mut self, id: ItemId, (source, handle): (SourceId, Handle), former: Former) -> Option<Mirror> {
        let item = self.items.get(id);
        // A mirror is asked for everything, and at once.
        let is_all = self.items.asked_view(id).is_none() && !self.items.is_reissued(id) && !self.items.is_widening(id);
        let is_half = item.is_recovering() || item.is_image_arriving();
        let (group, is_good) = (item.group(), former == Former::StandsBy && !item.is_suspect());
        let passed = self.hot_standby.pair(id).and_then(|pair| pair.sequence.passed());
        if former == Former::GivenBack || !is_all {
            // A source that is gone is told nothing.
            if self.sources.is_up(source) {
                self.sources.close_at(id, source, handle);
            }
            return None;
        }
        let at = self.sources.up_mut(source)?;
        at.rebind(handle, id.mirrored());
        let read_to = at.read_to;
        let (is_whole, not_before) = match former {
            Former::Missed(to) => (false, to.max(read_to)),
            _ => (!is_half, read_to),
        };
        let image = if is_whole { ImageOf::Here } else { ImageOf::Wanted };
        let tail = if is_whole { Tail::behind(passed) } else { Tail::default() };
        let stage = Stage::Open(handle);
        let is_good = is_good && is_whole;
        Some(Mirror {
            source,
            stage,
            group,
            is_in_set: false,
            is_whole,
            is_good,
            image,
            not_before,
            seen: Seen::None,
            tail,
        })
    }

    /// Watchers get what the mirror holds, or wait for an image.
    fn go_on(&mut self, id: ItemId, (source, _): (SourceId, Handle), group: HubGroup, tail: Option<Tail>) {
        if !group.is_none() {
            self.items.set_group(id, group);
        }
        let Some(tail) = tail else {
            if let Some(pair) = self.hot_standby.pair_mut(id) {
                pair.sequence.begin(None);
            }
            return;
        };
        if let Some(pair) = self.hot_standby.pair_mut(id) {
            pair.sequence.take_over();
        }
        if !group.is_none() {
            // Groups are numbered by each source, and no image tells of the new one.
            let group = GroupId::new(source, group);
            let status =
                StatusMsg { group_id: Some(group.as_bytes()), ..StatusMsg::new(Domain(self.items.key(id).domain), 0) };
            self.tell_group(id, &status);
        }
        for update in tail.into_updates() {
            self.pass_held(id, &update);
        }
    }

    /// An update that a mirror has held goes on.
    fn pass_held(&mut self, id: ItemId, update: &TailUpdate) {
        let message = Message {
            kind: Kind::Update,
            flags: update.flags,
            target: ALL,
            handle: NO_HANDLE,
            arg: NO_GROUP,
            position: 0,
            body: &update.rwf,
        };
        if !self.hot_standby.passes(id, &message) {
            self.counters.updates_repeated += 1;
            return;
        }
        let give = |p2ps: &mut Self, message: &Message<'_>| {
            p2ps.cache_update(id, message);
            if message.has(flags::HAS_LOCK) && p2ps.looks_at_locks() {
                return p2ps.give_guarded(id, message);
            }
            if p2ps.items.watchers(id).open_count() > 0
                && let Some(body) = p2ps.copied(id, message)
            {
                p2ps.fan_update(id, body);
            }
            p2ps.give_to_views(id, message);
        };
        if self.items.watchers(id).has_headlines() {
            as_headline(self, id, &message, give);
        } else {
            give(self, &message);
        }
    }

    /// The source in use says a state of an item, or ends it for recovery: true if the item has gone on at its mirror, so that nobody
    /// is to hear of it.
    pub(crate) fn leave_for_mirror(&mut self, id: ItemId, state: State<'_>, is_closed: bool) -> bool {
        let is_lost = state.stream == StreamState::CLOSED_RECOVER;
        let says_so = if is_closed { is_lost } else { is_lost || state.data == DataState::SUSPECT };
        let former = if is_closed { Former::GivenBack } else { Former::Suspect };
        // The item goes on where it is.
        let Some((source, _)) = self.items.open_at(id).filter(|_| says_so) else { return false };
        let leaves = self.take_over(id, former);
        self.counters.suspect_takeovers += u64::from(leaves);
        if leaves && self.hot_standby.mirror_source(id) == Some(source) {
            self.mirror_says(id, state);
        }
        leaves
    }

    /// An image, or a part of one, that is not the item's: its source has the mirror of it by now, or says Suspect by it and another one
    /// has it good.
    pub(crate) fn leaves_by_image(
        &mut self,
        source: SourceId,
        id: ItemId,
        group: HubGroup,
        (bits, position): (u8, u64),
        refresh: &RefreshMsg<'_>,
        rwf: &[u8],
    ) -> bool {
        if self.items.get(id).source() == Some(source) && !self.leave_for_mirror(id, refresh.state, false) {
            return false;
        }
        if self.hot_standby.mirror_source(id) == Some(source) {
            self.mirror_image(source, id, group, bits, (position, false), rwf);
        } else {
            self.counters.images_unwanted += 1;
        }
        true
    }

    /// The mirror of an item may be whole and good: the item goes on there, if it is not good where it is, and later if the mirror's
    /// source comes first.
    pub(super) fn mirror_is_good(&mut self, id: ItemId) {
        if !self.is_mirror_ready(id) {
            return;
        }
        let item = self.items.get(id);
        let service = item.service();
        // Where an image of it is on its way, it is good soon: going to and fro would never end.
        let is_to_be_good = item.is_recovering() && item.trouble() != Trouble::Lost;
        if item.is_suspect() && !is_to_be_good && self.take_over(id, Former::Suspect) {
            self.counters.suspect_takeovers += 1;
        } else if self.config.source_failback > 0
            && !self.config.source_order.is_empty()
            && self.sources.services().alive(service).and_then(|known| known.choice.first())
                == self.hot_standby.mirror_source(id)
        {
            self.sources.look_again_after(self.now, service, self.config.source_failback);
        }
    }

    /// Whether an image of a source that has taken over is older than what those who watch have had: it is dropped, and asked for again
    /// when the source has caught up, or after a while.
    pub(crate) fn holds_back(&mut self, id: ItemId, refresh: &RefreshMsg<'_>, first: bool, complete: bool) -> bool {
        let State { stream, data, .. } = refresh.state;
        // Watchers that were told Suspect begin afresh with whatever image is good.
        let may_wait = stream == StreamState::OPEN && data != DataState::SUSPECT && !self.items.get(id).is_suspect();
        let number = refresh.seq_num.filter(|_| may_wait);
        // An item without a mirror waits for nobody.
        let Some(pair) = self.hot_standby.pair_mut(id) else { return false };
        let is_held = pair.sequence.holds_back(number, first, complete);
        if is_held {
            self.counters.images_held_back += 1;
            if complete {
                let deadline = self.now.saturating_add(self.config.recovery_delay.max(1));
                let before = self.hot_standby.held.back().map_or(0, |(at, _)| *at);
                self.hot_standby.held.push_back((deadline.max(before), id));
            }
        }
        is_held
    }

    /// Asks for images that were held back for too long.
    pub(super) fn ask_again_for_held(&mut self) {
        while let Some((_, id)) = self.hot_standby.held.pop_front_if(|(at, _)| *at <= self.now) {
            let Some(pair) = self.hot_standby.pair_mut(id).filter(|pair| pair.sequence.has_held_back()) else {
                continue;
            };
            if !pair.sequence.has_caught_up() {
                pair.sequence.held_too_long();
            }
            self.items.get_mut(id).image_unusable();
            if self.is_image_owed(id) || self.items.get(id).is_recovering() {
                self.ask_image(id);
            }
        }
    }

    /// Tells the operator what mirrors have taken over, once what goes on is at its end.
    #[inline]
    pub(crate) fn tell_taken_over(&mut self) {
        if !self.hot_standby.taken.is_empty() && !self.sources.has_outages() {
            self.report_takeovers();
        }
    }

    fn report_takeovers(&mut self) {
        for ((from, service), taken) in std::mem::take(&mut self.hot_standby.taken) {
            let service = self.sources.services().get(service).map(|known| known.name.clone()).unwrap_or_default();
            let Taken { items, in_sequence } = taken;
            self.output.notice(Notice::ItemsTakenOver {
                service,
                from: self.sources.name_of(from),
                items,
                in_sequence,
            });
        }
    }
}
