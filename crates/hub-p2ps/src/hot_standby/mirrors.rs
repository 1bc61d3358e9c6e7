//! Which items are to have a mirror, opening it, and what its source says.

use super::{Forsaken, HotStandby, ImageOf, LOOKS_PER_TURN, Mirror, Stage, StandbyAt};
use crate::P2ps;
use crate::ids::{Handle, HubGroup, ItemId, ServiceId, SourceId, Token};
use crate::items::state::{Kind, Standing};
use crate::sources::services::Provider;
use crate::stream::{Event, Kind as MessageKind, Message, Request, flags};
use rwf::msg::{Domain, Msg, RefreshMsg};
use rwf::{DataState, State, StreamState};

/// The need of an item that is looked at for its mirror.
enum Need {
    /// Nothing, or nothing that can be had now.
    Nothing,
    /// The item is to be opened there.
    Open(StandbyAt),
    /// The item's mirror, which is open there, lacks its image.
    Image(SourceId, Handle),
}

impl HotStandby {
    /// A forsaken open is answered.
    fn forsaken_answered(&mut self, source: SourceId, token: Token) {
        self.forsaken.retain(|forsaken, &mut known| forsaken.source != source || known != token);
    }

    fn is_opening_mirror(&self, number: SourceId, token: Token, id: ItemId) -> bool {
        let waits = |mirror: &Mirror| mirror.source == number && mirror.stage == Stage::Opening(token);
        self.mirror(id).is_some_and(waits)
    }

    fn look_again_later(&mut self, now: u64, pause: u64, service: ServiceId) {
        let at = now.saturating_add(pause);
        self.look_at(service, at);
    }
}

impl P2ps {
    /// The first part of an image of the source in use has this number. With `anew` it is for all who watch.
    pub(crate) fn image_passed(&mut self, id: ItemId, number: Option<u32>, anew: bool) {
        if !self.sources.is_hot(&self.items, &self.config, id) {
            return;
        }
        if self.hot_standby.add_pair(id) {
            self.items.watchers_mut(id).mark_paired(self.config.sequence_numbers);
        }
        if self.config.sequence_numbers {
            self.hot_standby.note_passed(id, number, anew);
        }
        if self.hot_standby.mirror(id).is_none() {
            self.hot_standby.queue(self.items.get(id).service(), id);
        }
    }

    /// An update of the source in use that was held for an image goes out with it.
    pub(crate) fn update_replayed(&mut self, id: ItemId, rwf: &[u8]) {
        if self.items.watchers(id).is_paired() {
            self.hot_standby.note_passed(id, super::number_of(rwf), false);
        }
    }

    /// The items of a service are to be looked through for those without a mirror.
    pub(crate) fn want_mirrors(&mut self, service: ServiceId) {
        if !self.config.has_hot_standby() {
            return;
        }
        let Self { hot_standby, items, sources, .. } = self;
        let filling = hot_standby.filling.entry(service).or_default();
        filling.queue.clear();
        filling.blocked_at = None;
        filling.queue.extend(sources.ids().flat_map(|source| items.standing(service, Standing::Open(source))));
    }

    /// Looks through the services whose time has come: what was refused there, or closed, is asked for again.
    fn look_for_mirrors(&mut self) {
        while let Some((&service, _)) = self.hot_standby.look_at.iter().find(|(_, at)| **at <= self.now) {
            self.hot_standby.look_at.remove(&service);
            self.want_mirrors(service);
        }
    }

    /// Does the work of hot standby that is due by now.
    pub(crate) fn work_hot_standby(&mut self) {
        if self.config.has_hot_standby() {
            self.look_for_mirrors();
            self.ask_again_for_held();
            self.work_leaving();
        }
    }

    /// Opens mirrors as far as windows and the opens that are left of this turn let it.
    #[inline]
    pub(crate) fn ask_mirrors(&mut self) {
        if self.hot_standby.is_filling_any() {
            self.fill_mirrors();
        }
    }

    fn fill_mirrors(&mut self) {
        let mut looks = LOOKS_PER_TURN;
        let services: Vec<ServiceId> = self.hot_standby.filling.keys().copied().collect();
        for service in services {
            let blocked_at = self.hot_standby.filling.get(&service).and_then(|filling| filling.blocked_at);
            if blocked_at.is_some_and(|source| !self.sources.room_at(self.config.open_window, source)) {
                continue;
            }
            while let Some(filling) = self.hot_standby.filling.get_mut(&service) {
                filling.blocked_at = None;
                let Some(&id) = filling.queue.front() else {
                    self.hot_standby.filling.remove(&service);
                    break;
                };
                match self.need_of(service, id) {
                    Need::Open((source, _)) if !self.sources.room_at(self.config.open_window, source) => {
                        if let Some(filling) = self.hot_standby.filling.get_mut(&service) {
                            filling.blocked_at = Some(source);
                        }
                        break;
                    }
                    Need::Open(_) | Need::Image(..) if !self.sources.take_open() => return,
                    Need::Open(at) => self.open_mirror(id, at),
                    Need::Image(source, handle) => self.ask_mirror_image(id, source, handle),
                    Need::Nothing if looks == 0 => return,
                    Need::Nothing => looks -= 1,
                }
                if let Some(filling) = self.hot_standby.filling.get_mut(&service) {
                    filling.queue.pop_front();
                }
            }
        }
    }

    fn need_of(&mut self, service: ServiceId, id: ItemId) -> Need {
        let item = self.items.get(id);
        // The number may be another item's by now.
        let is_lost = item.source().is_some_and(|source| !self.sources.is_up(source));
        if !item.is_open()
            || item.service() != service
            || is_lost
            || !self.sources.is_hot(&self.items, &self.config, id)
        {
            return Need::Nothing;
        }
        if let Some(mirror) = self.hot_standby.mirror(id) {
            return match (mirror.image, mirror.stage) {
                (ImageOf::Wanted, Stage::Open(handle)) => Need::Image(mirror.source, handle),
                _ => Need::Nothing,
            };
        }
        // An item that rests at its provider is not to come from the other one. The item is looked at again with the image that ends that.
        if item.is_image_asked() && item.is_recovering() || self.items.may_rest(id) {
            return Need::Nothing;
        }
        if self.hot_standby.add_pair(id) {
            // The item was opened before there was hot standby: its numbers are not known.
            self.items.watchers_mut(id).mark_paired(self.config.sequence_numbers);
        }
        self.standby_for(id).map_or(Need::Nothing, Need::Open)
    }

    /// The source that an item is to be mirrored at: the next one of those that stand by for each other.
    pub(crate) fn standby_for(&self, id: ItemId) -> Option<StandbyAt> {
        let item = self.items.get(id);
        let (used, _) = item.open_at()?;
        let pair = self.sources.pair_of(used)?;
        let key = self.items.key(id);
        let fits = |provider: &&Provider| {
            let is_other = provider.source != used && self.sources.pair_of(provider.source) == Some(pair);
            is_other && provider.serves(&self.sources, Domain(key.domain), key.qos.to_qos())
        };
        let provider = self.sources.services().alive(item.service())?.providers.iter().find(fits)?;
        Some((provider.source, provider.service))
    }

    fn open_mirror(&mut self, id: ItemId, (source, remote): StandbyAt) {
        let service = self.items.get(id).service();
        if let Some(token) = self.adopt(id, source, id.mirrored()) {
            return self.hot_standby.set_mirror(id, service, Mirror::opening(source, token));
        }
        let mut request = self.sources.take_request();
        request.clear();
        if self.write_request(id, None, false, &mut request)
            && let Some(at) = self.sources.up_mut(source)
        {
            let token = at.new_token(id.mirrored());
            let open = Request::Open { service: remote.0, token: token.0, flags: flags::STREAMING, rwf: &request };
            at.writer.request(&open);
            self.hot_standby.set_mirror(id, service, Mirror::opening(source, token));
            self.counters.mirror_requests += 1;
        }
        self.sources.put_back_request(request);
    }

    /// The token of an open of this item that was sent to a source for a mirror, and is not answered: it stands for `target` from now on.
    pub(crate) fn adopt(&mut self, id: ItemId, source: SourceId, target: ItemId) -> Option<Token> {
        if self.hot_standby.forsaken.is_empty() {
            return None;
        }
        let item = self.items.get(id);
        let forsaken = Forsaken { source, service: item.service(), key: item.key_bytes().into() };
        let token = self.hot_standby.forsaken.remove(&forsaken).filter(|_| item.kind() == Kind::SHARED)?;
        self.sources.up_mut(source)?.reassign(token, target);
        Some(token)
    }

    /// An open of a mirror is not waited for any more.
    fn forsake(&mut self, id: ItemId, source: SourceId, token: Token) {
        if let Some(at) = self.sources.up_mut(source) {
            at.reassign(token, ItemId::FORSAKEN);
            let item = self.items.get(id);
            let forsaken = Forsaken { source, service: item.service(), key: item.key_bytes().into() };
            let before = self.hot_standby.forsaken.insert(forsaken, token);
            debug_assert!(before.is_none(), "{id:?} was opened at {source:?} twice");
        }
    }

    fn ask_mirror_image(&mut self, id: ItemId, source: SourceId, handle: Handle) {
        if let Some(source) = self.sources.up_mut(source) {
            // Updates read of its stream by then are not kept for an image that comes beside it.
            source.writer.request(&Request::Refresh { handle: handle.0, in_stream: true });
            self.hot_standby.change(id, |mirror| mirror.image = ImageOf::Asked);
            self.counters.mirror_requests += 1;
        }
    }

    /// An item is open no more where it was, or is gone: it has no mirror.
    pub(crate) fn end_pair(&mut self, id: ItemId) {
        if self.hot_standby.pair(id).is_some() {
            self.leave_mirror(id);
            self.hot_standby.remove_pair(id);
            self.items.watchers_mut(id).mark_paired(false);
        }
    }

    /// An item has no mirror any more, if it had one: what is open there is given back, and what was asked for there is nobody's.
    pub(super) fn leave_mirror(&mut self, id: ItemId) {
        let service = self.items.get(id).service();
        // Most items have none.
        let Some(mirror) = self.hot_standby.take_mirror(id, service) else { return };
        match mirror.stage {
            Stage::Opening(token) => self.forsake(id, mirror.source, token),
            Stage::Open(handle) => {
                if let Some(source) = self.sources.up_mut(mirror.source) {
                    source.unbind(handle);
                    source.writer.request(&Request::Close { handle: handle.0 });
                }
            }
        }
    }

    /// A source has the mirrors of a service no more, or those of all services: they are given up in turns.
    pub(crate) fn leave_mirrors(&mut self, source: SourceId, only: Option<ServiceId>) {
        if self.config.has_hot_standby() {
            if only.is_none() {
                self.hot_standby.forsaken.retain(|forsaken, _| forsaken.source != source);
            }
            let services = only.map_or_else(|| self.sources.services().ids().collect(), |service| vec![service]);
            let has_mirrors = |service: &ServiceId| self.hot_standby.count_at(source, *service) > 0;
            let leaving: Vec<_> = services.into_iter().filter(has_mirrors).map(|service| (source, service)).collect();
            self.hot_standby.leaving.extend(leaving);
        }
    }

    fn work_leaving(&mut self) {
        while self.sources.outage_budget() > 0
            && let Some(&(source, service)) = self.hot_standby.leaving.front()
        {
            let ids: Vec<ItemId> = self.hot_standby.at(source, service).take(self.sources.outage_budget()).collect();
            self.sources.spend_outage_budget(ids.len());
            self.counters.items_touched += ids.len() as u64;
            for &id in &ids {
                self.leave_mirror(id);
            }
            if self.hot_standby.count_at(source, service) == 0 {
                self.hot_standby.leaving.pop_front();
                // There may be a third one.
                self.want_mirrors(service);
            }
        }
    }

    /// A source that has lost mirrors of a service, or of any with `None`, is back: what is left of those of before is given up, whatever
    /// that costs.
    pub(crate) fn finish_leaving(&mut self, source: SourceId, only: Option<ServiceId>) {
        let concerns = |&(at, service): &(SourceId, ServiceId)| at == source && only.is_none_or(|only| only == service);
        let (due, rest) = std::mem::take(&mut self.hot_standby.leaving).into_iter().partition(concerns);
        self.hot_standby.leaving = rest;
        for (source, service) in due {
            for id in self.hot_standby.at(source, service).collect::<Vec<_>>() {
                self.leave_mirror(id);
            }
        }
    }

    /// The open of a mirror is answered.
    pub(crate) fn mirror_opened(&mut self, number: SourceId, handle: Handle, token: Token, id: ItemId) {
        let limit = self.config.max_handles;
        let known = id.original().filter(|&id| self.hot_standby.is_opening_mirror(number, token, id));
        if known.is_none() {
            self.hot_standby.forsaken_answered(number, token);
        }
        // A source that is lost has forgotten what was opened for this P2PS.
        let Some(source) = self.sources.up_mut(number) else { return };
        let Some(id) = known.filter(|_| handle.0 < limit) else {
            source.writer.request(&Request::Close { handle: handle.0 });
            if let Some(id) = known {
                self.counters.hub_messages_bad += 1;
                self.mirror_refused(id);
            }
            return;
        };
        let service = self.items.get(id).service();
        if !source.bind(handle, id.mirrored()) {
            self.counters.hub_messages_bad += 1;
            return self.mirror_refused(id);
        }
        self.hot_standby.change(id, |mirror| mirror.stage = Stage::Open(handle));
        let is_there = |provider: &Provider| provider.source == number;
        if !self.sources.services().alive(service).is_some_and(|known| known.providers.iter().any(is_there)) {
            // As for an item: its service has gone since.
            self.leave_mirror(id);
        }
    }

    /// The open of a mirror is refused: its token is answered, and stands for nothing.
    pub(crate) fn mirror_open_refused(&mut self, number: SourceId, token: Token, id: ItemId) {
        if let Some(id) = id.original().filter(|&id| self.hot_standby.is_opening_mirror(number, token, id)) {
            self.mirror_refused(id);
        } else {
            self.hot_standby.forsaken_answered(number, token);
        }
    }

    /// An open of a mirror has come to nothing.
    fn mirror_refused(&mut self, id: ItemId) {
        let service = self.items.get(id).service();
        drop(self.hot_standby.take_mirror(id, service));
        self.hot_standby.look_again_later(
            self.now,
            self.sources.longest_recovery_delay(&self.config, service),
            service,
        );
    }

    /// Something that an open mirror is told.
    pub(crate) fn mirror_event(&mut self, number: SourceId, id: ItemId, event: &Event<'_>) {
        match *event {
            Event::Image { group, flags, position, rwf, .. } => {
                self.mirror_image(number, id, HubGroup(group), flags, (position, false), rwf);
            }
            Event::ItemStatus { group, flags, rwf, .. } => self.mirror_status(id, HubGroup(group), flags, rwf),
            // The mirror asks for no more than it was opened with, and nobody hears it.
            _ => {}
        }
    }

    /// An image of a mirror, or a part of one. With `is_beside` it has come to this P2PS alone.
    pub(crate) fn mirror_image(
        &mut self,
        number: SourceId,
        id: ItemId,
        group: HubGroup,
        bits: u8,
        (position, is_beside): (u64, bool),
        rwf: &[u8],
    ) {
        let Ok(refresh) = RefreshMsg::decode(rwf) else {
            self.counters.hub_messages_bad += 1;
            return;
        };
        let has = |flag| bits & flag != 0;
        let (first, complete) = (has(flags::FIRST), has(flags::COMPLETE));
        let is_late = is_beside && self.sources.get(number).is_some_and(|source| position < source.read_to);
        let (is_suspect, seq_num) = (refresh.state.data == DataState::SUSPECT, refresh.seq_num);
        let service = self.items.get(id).service();
        let is_over = self.hot_standby.change(id, |mirror| {
            if first && is_beside && position < mirror.not_before {
                // The image lies before something that it does not know of.
                mirror.is_in_set = false;
                if mirror.image == ImageOf::Asked {
                    mirror.image = ImageOf::Wanted;
                }
                return false;
            }
            if !first && !mirror.is_in_set {
                return false;
            }
            if !group.is_none() {
                mirror.group = group;
            }
            if first {
                mirror.image_begins(seq_num, is_late);
                mirror.image = ImageOf::Here;
            }
            mirror.is_in_set = !complete;
            mirror.is_whole = complete;
            mirror.is_good = !is_suspect;
            complete && has(flags::SNAPSHOT)
        });
        if self.hot_standby.mirror(id).is_some_and(|mirror| mirror.image == ImageOf::Wanted) {
            self.hot_standby.queue(service, id);
        }
        if is_over == Some(true) {
            // The item's provider does not stream it.
            self.leave_mirror(id);
            self.hot_standby.look_again_later(
                self.now,
                self.sources.longest_recovery_delay(&self.config, service),
                service,
            );
        } else if complete && !is_suspect {
            self.mirror_is_good(id);
        }
    }

    pub(crate) fn mirror_status(&mut self, id: ItemId, group: HubGroup, bits: u8, rwf: &[u8]) {
        let Ok(Msg::Status(status)) = Msg::decode(rwf) else {
            self.counters.hub_messages_bad += 1;
            return;
        };
        if bits & flags::CLOSED != 0 {
            let service = self.items.get(id).service();
            self.leave_mirror(id);
            return self.hot_standby.look_again_later(
                self.now,
                self.sources.longest_recovery_delay(&self.config, service),
                service,
            );
        }
        if !group.is_none() {
            self.hot_standby.change(id, |mirror| mirror.group = group);
        }
        if let Some(state) = status.state {
            self.mirror_says(id, state);
        }
    }

    /// The source of a mirror says a state of it.
    pub(super) fn mirror_says(&mut self, id: ItemId, state: State<'_>) {
        self.hot_standby.change(id, |mirror| match (state.stream, state.data) {
            // The stream at the provider is over: the image of another life follows by itself.
            (StreamState::CLOSED_RECOVER, _) => mirror.lose(),
            (_, DataState::SUSPECT) => mirror.is_good = false,
            (_, DataState::OK) => mirror.is_good = mirror.is_whole,
            _ => {}
        });
        if state.data == DataState::OK {
            self.mirror_is_good(id);
        }
    }

    /// A state of a service, or of a group of it, at a source: it is that of the mirrors there, too.
    pub(crate) fn mirrors_state(
        &mut self,
        (source, service): (SourceId, ServiceId),
        group: Option<HubGroup>,
        state: Option<State<'_>>,
        merged_to: Option<HubGroup>,
    ) {
        let ids: Vec<ItemId> = self.hot_standby.at(source, service).collect();
        self.counters.items_touched += ids.len() as u64;
        for id in ids {
            let Some(mirror) = self.hot_standby.mirror(id) else { continue };
            let is_answered = mirror.is_whole || mirror.is_in_set;
            if group.is_some_and(|group| group != mirror.group) {
                continue;
            }
            if let Some(state) = state.filter(|_| is_answered) {
                self.mirror_says(id, state);
            }
            if let Some(to) = merged_to {
                self.hot_standby.change(id, |mirror| mirror.group = to);
            }
        }
    }

    /// Messages of a mirror are lost before a position: its next image is to come from behind that, and is asked for as others are.
    pub(crate) fn mirror_missed(&mut self, id: ItemId, to: u64) {
        self.counters.items_missed += 1;
        self.hot_standby.change(id, |mirror| {
            mirror.lose();
            mirror.not_before = mirror.not_before.max(to);
            mirror.image = ImageOf::Wanted;
        });
        self.hot_standby.queue(self.items.get(id).service(), id);
    }

    /// Something else than an update of a mirror has come by the stream: an image beside it that lies before would undo that.
    pub(crate) fn bar_earlier_mirror_images(&mut self, number: SourceId, message: &Message<'_>) {
        let bar = |mirror: &mut Mirror| mirror.not_before = mirror.not_before.max(message.position.saturating_add(1));
        match message.kind {
            MessageKind::Image | MessageKind::ItemStatus | MessageKind::ItemOpened => {
                if let Some(id) = self.sources.mirror_of(number, Handle(message.handle)) {
                    self.hot_standby.change(id, bar);
                }
            }
            MessageKind::ServiceStatus | MessageKind::GroupStatus if self.config.has_hot_standby() => {
                let services: Vec<ServiceId> = self.sources.services().ids().collect();
                let at = services.into_iter().flat_map(|service| self.hot_standby.at(number, service));
                for id in at.collect::<Vec<_>>() {
                    self.hot_standby.change(id, bar);
                }
            }
            _ => {}
        }
    }

    /// Other Source Distributors stand by, or numbers mean something else: all begins anew.
    pub(crate) fn begin_hot_standby_anew(&mut self) {
        let paired: Vec<ItemId> = self.hot_standby.paired().map(|(id, _)| id).collect();
        for id in paired {
            self.end_pair(id);
        }
        // Nothing of before is left to be asked for, given up or waited for.
        self.hot_standby.filling.clear();
        self.hot_standby.look_at.clear();
        self.hot_standby.leaving.clear();
        self.hot_standby.held.clear();
        for service in self.sources.services().ids().collect::<Vec<_>>() {
            self.want_mirrors(service);
        }
    }

    /// Whether items of a service have mirrors.
    pub(crate) fn has_mirrors(&self, service: ServiceId) -> bool {
        self.config.has_hot_standby() && self.sources.ids().any(|source| self.hot_standby.count_at(source, service) > 0)
    }

    /// Mirrors that are open at a source, and that are asked for there, for checks.
    pub(crate) fn mirrors_at(&self, source: SourceId) -> (usize, usize) {
        // Mirrors at one that is lost are given up in turns, and have nothing there.
        let is_up = self.sources.is_up(source);
        let at = |mirror: &&Mirror| is_up && mirror.source == source;
        let mirrors = || self.hot_standby.paired().filter_map(|(_, pair)| pair.mirror.as_ref()).filter(at);
        let open = mirrors().filter(|mirror| matches!(mirror.stage, Stage::Open(_))).count();
        (open, mirrors().count() - open)
    }

    /// Panics if a mirror is not on the handle or token that it says, or its item is not open elsewhere.
    pub(crate) fn check_mirrors(&self) {
        let (mut bytes, mut count) = (0, 0);
        for (id, pair) in self.hot_standby.paired() {
            let item = self.items.get(id);
            let may_be = item.is_open() && item.kind() == Kind::SHARED;
            assert!(may_be, "{id:?} has a pair: {item:?}");
            assert_eq!(self.items.watchers(id).is_paired(), self.config.sequence_numbers, "updates of {id:?}");
            let Some(mirror) = &pair.mirror else { continue };
            count += 1;
            bytes += mirror.tail.bytes();
            assert!(item.source() != Some(mirror.source), "{id:?} mirrors itself: {mirror:?}");
            self.hot_standby.mirrors.check(id.0, super::list(mirror.source, item.service()));
            let leaves = self.hot_standby.leaving.contains(&(mirror.source, item.service()));
            let Some(source) = self.sources.up(mirror.source).filter(|_| !leaves) else {
                assert!(leaves, "{id:?} has its mirror at a source that is lost: {mirror:?}");
                continue;
            };
            let at = match mirror.stage {
                Stage::Opening(token) => source.token(token),
                Stage::Open(handle) => Some(source.item(handle)),
            };
            assert_eq!(at, Some(id.mirrored()), "the mirror of {id:?}: {mirror:?}");
        }
        assert_eq!(self.hot_standby.mirrors.len(), count, "mirrors, and those on lists");
        assert_eq!(self.hot_standby.tail_bytes, bytes, "bytes in tails");
    }
}
