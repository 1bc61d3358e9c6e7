//! Streams of a client, where each is open, and who watches it: requests that are equal share one.
//!
//! A server may open streams by itself, for what a symbol list names: such a *provided* stream may be there before anybody watches it. Who knows that
//! it will come awaits it: a stream without a leg.
//!
//! A stream has a *leg* at each link at which it is open or asked for: the item of that link's consumer. One link is its *source*, whose messages
//! are given to those who watch; legs elsewhere are warm, and only their consumers look at what comes on them.

use crate::delivery::Delivery;
use crate::links::{LinkId, Links};
use crate::subscription::SubscriptionId;
use crate::watchers::{Watch, Watchers};
use omm::ByStream;
use omm::consumer::{Consumer, ItemId, ItemRequest};
use rwf::image::{Image, Plans};
use rwf::msg::{Msg, MsgClass, MsgKey, RefreshFlags, RefreshMsg, StatusMsg};
use rwf::wire::encode_growing;
use rwf::{DataState, State, StreamState};
use std::collections::HashMap;

/// Longest image that is given to somebody who joins, bytes.
const IMAGE_MAX: usize = 1 << 28;

/// A stream, as long as it is there. The number of one that has ended is used again, with another generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamId {
    slot: u32,
    generation: u32,
}

/// The image or answer that a source owes since it took a stream over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owed {
    Nothing,
    /// An image, of its own accord.
    Image,
    /// An image that it was asked for. What it says before is older.
    Answer,
}

/// Tasks that a message of a source has for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequel {
    None,
    /// A new source sends changes, and no image came before: what was missed is not known.
    Gap(StreamId),
    /// The stream has ended with this message: it has no leg to be left elsewhere.
    Ended(StreamId),
}

#[derive(Debug)]
pub(crate) struct Stream {
    /// Apart, so that what an update reads lies together.
    pub(crate) request: Box<ItemRequest>,
    watchers: Watchers,
    image: Image,
    /// By place of the link.
    pub(crate) legs: Vec<Option<ItemId>>,
    pub(crate) source: LinkId,
    pub(crate) owed: Owed,
    /// Until when what is owed is awaited.
    pub(crate) owed_until: u64,
    /// Watchers were told that the data is not current.
    pub(crate) is_stale: bool,
    /// Links that have closed the item for now, or have not answered, since its last image.
    pub(crate) refusals: u32,
    /// Until when its server is given time to open it by itself; nobody asks for it before.
    pub(crate) awaited_until: Option<u64>,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    stream: Option<Stream>,
}

/// Service, name and domain: few requests differ in anything else.
type Key = (String, String, u8);

fn key(request: &ItemRequest) -> Key {
    (request.service.clone(), request.name.clone(), request.domain.0)
}

/// Whether two requests are for the same stream.
fn is_equal(one: &ItemRequest, other: &ItemRequest) -> bool {
    if one.paused == other.paused { one == other } else { ItemRequest { paused: one.paused, ..other.clone() } == *one }
}

const fn is_shared(request: &ItemRequest) -> bool {
    request.streaming && !request.private
}

/// Streams by the items of their legs.
#[derive(Debug)]
pub(crate) struct Streams {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// By place of the link.
    by_item: Vec<ByStream<StreamId>>,
    shared: HashMap<Key, Vec<StreamId>>,
    pub(crate) plans: Plans,
    /// An image, or a status, as a message.
    room: Vec<u8>,
}

impl Streams {
    pub(crate) fn new(links: usize, plans: Plans) -> Self {
        let by_item = vec![ByStream::default(); links];
        Self { slots: Vec::new(), free: Vec::new(), by_item, shared: HashMap::new(), plans, room: Vec::new() }
    }

    pub(crate) const fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn get(&self, id: StreamId) -> Option<&Stream> {
        let slot = self.slots.get(id.slot as usize)?;
        slot.stream.as_ref().filter(|_| slot.generation == id.generation)
    }

    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.stream.as_mut().filter(|_| slot.generation == id.generation)
    }

    /// A stream that is there: its number has just been given out, or looked at.
    pub(crate) fn live(&mut self, id: StreamId) -> Option<&mut Stream> {
        let stream = self.get_mut(id);
        debug_assert!(stream.is_some(), "{id:?} has ended");
        stream
    }

    /// All streams, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamId, &Stream)> {
        self.slots
            .iter()
            .zip(0..)
            .filter_map(|(slot, at)| Some((StreamId { slot: at, generation: slot.generation }, slot.stream.as_ref()?)))
    }

    /// The stream of a link's item.
    #[inline]
    pub(crate) fn of(&self, link: LinkId, item: ItemId) -> Option<StreamId> {
        self.by_item[link.index()].get(item.stream_id()).copied()
    }

    /// The stream that an equal request has open; who watches it may pause by itself.
    pub(crate) fn open(&self, request: &ItemRequest) -> Option<StreamId> {
        if !is_shared(request) {
            return None;
        }
        let same = self.shared.get(&key(request))?;
        same.iter().copied().find(|id| self.get(*id).is_some_and(|stream| is_equal(&stream.request, request)))
    }

    /// A stream with the one who wants it, without a leg.
    pub(crate) fn insert(&mut self, request: ItemRequest, source: LinkId, watch: (SubscriptionId, u32)) -> StreamId {
        let (subscription, item) = watch;
        let watch = Watch { subscription, item, is_late: false, is_paused: request.paused };
        self.insert_for(request, source, Watchers::of(watch))
    }

    /// A stream that a server has opened, and that nobody watches yet.
    pub(crate) fn insert_provided(&mut self, request: ItemRequest, source: LinkId) -> StreamId {
        self.insert_for(request, source, Watchers::default())
    }

    fn insert_for(&mut self, request: ItemRequest, source: LinkId, watchers: Watchers) -> StreamId {
        let shared = is_shared(&request).then(|| key(&request));
        let stream = Stream {
            watchers,
            request: Box::new(request),
            image: Image::new(),
            legs: vec![None; self.by_item.len()],
            source,
            owed: Owed::Nothing,
            owed_until: 0,
            is_stale: false,
            refusals: 0,
            awaited_until: None,
        };
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        if slot as usize == self.slots.len() {
            self.slots.push(Slot::default());
        }
        let place = &mut self.slots[slot as usize];
        place.stream = Some(stream);
        let id = StreamId { slot, generation: place.generation };
        if let Some(key) = shared {
            self.shared.entry(key).or_default().push(id);
        }
        id
    }

    /// A stream is asked for at a link.
    pub(crate) fn put_leg(&mut self, id: StreamId, link: LinkId, item: ItemId) {
        let Some(stream) = self.live(id) else { return };
        debug_assert!(stream.legs[link.index()].is_none(), "two legs at one link");
        stream.legs[link.index()] = Some(item);
        if stream.source == link {
            stream.awaited_until = None;
        }
        self.by_item[link.index()].insert(item.stream_id(), id);
    }

    /// A stream is not open at a link any more. Gives the item that it had there.
    pub(crate) fn take_leg(&mut self, id: StreamId, link: LinkId) -> Option<ItemId> {
        let item = self.get_mut(id)?.legs[link.index()].take()?;
        self.by_item[link.index()].remove(item.stream_id());
        Some(item)
    }

    /// Somebody joins an open stream, which `rests` at its server or not: the image that is held is for them alone, if it is whole and goes on.
    pub(crate) fn join(
        &mut self,
        id: StreamId,
        (subscription, item): (SubscriptionId, u32),
        (is_paused, rests): (bool, bool),
        sink: &mut impl FnMut(Delivery<'_>),
    ) {
        let Some(stream) = self.live(id) else { return };
        // A stream that rests at the server has to go on first.
        let is_late = stream.image.is_refreshing() || (rests && !is_paused);
        let watch = Watch { subscription, item, is_late, is_paused };
        stream.watchers.push(watch);
        if !is_late {
            self.give_image(id, watch, sink);
        }
    }

    /// The image that is held, if it is whole, for one who watches.
    fn give_image(&mut self, id: StreamId, watch: Watch, sink: &mut impl FnMut(Delivery<'_>)) {
        let mut room = std::mem::take(&mut self.room);
        room.clear();
        if self.get(id).is_some_and(|stream| stream.write_image(RefreshFlags::SOLICITED, &mut room)) {
            sink(watch.delivery(MsgClass::REFRESH, false, &room));
        }
        self.room = room;
    }

    /// Somebody pauses, or goes on: what was missed comes as an image, from here unless the stream `rests` at its server.
    pub(crate) fn pause(
        &mut self,
        id: StreamId,
        (subscription, item): (SubscriptionId, u32),
        (is_paused, rests): (bool, bool),
        sink: &mut impl FnMut(Delivery<'_>),
    ) {
        let Some(stream) = self.live(id) else { return };
        let rests = rests || stream.image.is_refreshing();
        let of = |watch: &&mut Watch| (watch.subscription, watch.item) == (subscription, item);
        let Some(watch) = stream.watchers.iter_mut().find(of) else {
            return debug_assert!(false, "{subscription:?} has item {item} on {id:?}, which it does not watch");
        };
        if std::mem::replace(&mut watch.is_paused, is_paused) == is_paused || is_paused {
            return;
        }
        watch.is_late |= rests;
        let watch = *watch;
        if !watch.is_late {
            self.give_image(id, watch, sink);
        }
    }

    /// The server is to know whether a stream rests: when all who watch it do. Gives the legs at which that has changed.
    pub(crate) fn note_pause(&mut self, id: StreamId) -> Vec<(LinkId, ItemId)> {
        let Some(stream) = self.live(id) else { return Vec::new() };
        let rests = stream.rests();
        if std::mem::replace(&mut stream.request.paused, rests) == rests {
            return Vec::new();
        }
        stream.legs()
    }

    /// Another view or priority is asked for on a stream that one alone watches. Gives the legs at which that is to be said.
    pub(crate) fn change(&mut self, id: StreamId, request: ItemRequest) -> Vec<(LinkId, ItemId)> {
        let Some(stream) = self.live(id) else { return Vec::new() };
        *stream.request = request;
        stream.legs()
    }

    /// Parts of refreshes that are under way at a link will not be completed.
    pub(crate) fn abandon_refreshes(&mut self, link: LinkId) {
        for stream in self.slots.iter_mut().filter_map(|slot| slot.stream.as_mut()) {
            if stream.source == link {
                stream.image.abandon_refresh();
            }
        }
    }

    /// Somebody leaves; true if nobody is left.
    pub(crate) fn leave(&mut self, id: StreamId, subscription: SubscriptionId, place: u32) -> bool {
        let Some(stream) = self.live(id) else { return false };
        stream.watchers.remove(subscription, place);
        stream.watchers.is_empty()
    }

    /// The stream is no more. Gives the legs that it had, which are to be closed.
    pub(crate) fn remove(&mut self, id: StreamId) -> Vec<(LinkId, ItemId)> {
        let slot = self.slots.get_mut(id.slot as usize).filter(|slot| slot.generation == id.generation);
        let Some((slot, stream)) = slot.and_then(|slot| slot.stream.take().map(|stream| (slot, stream))) else {
            debug_assert!(false, "{id:?} has ended before");
            return Vec::new();
        };
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        let key = key(&stream.request);
        if let Some(same) = self.shared.get_mut(&key) {
            same.retain(|other| *other != id);
            if same.is_empty() {
                self.shared.remove(&key);
            }
        }
        let legs = stream.legs();
        for (link, item) in &legs {
            self.by_item[link.index()].remove(item.stream_id());
        }
        legs
    }

    /// Writes the image of an item as an unsolicited refresh; false if there is no whole one.
    pub(crate) fn write_image(&self, id: StreamId, out: &mut Vec<u8>) -> bool {
        self.get(id).is_some_and(|stream| stream.write_image(RefreshFlags::NONE, out))
    }

    pub(crate) fn image(&self, id: StreamId) -> Option<&Image> {
        self.get(id).map(|stream| &stream.image)
    }

    /// Another link is the source of a stream from now on.
    pub(crate) fn change_source(&mut self, id: StreamId, source: LinkId, owed: Owed) {
        let Some(stream) = self.live(id) else { return };
        stream.image.abandon_refresh();
        (stream.source, stream.owed) = (source, owed);
        if stream.legs[source.index()].is_some() {
            stream.awaited_until = None;
        }
    }

    /// Takes an update of a link's item, into its image and to those who watch. False, and nothing is changed: it is not as simple.
    #[inline]
    pub(crate) fn update(
        &mut self,
        (link, item): (LinkId, ItemId),
        msg: &[u8],
        sink: &mut impl FnMut(Delivery<'_>),
    ) -> bool {
        let Some(id) = self.of(link, item) else { return false };
        let Self { slots, plans, .. } = self;
        let stream = slots.get_mut(id.slot as usize).and_then(|slot| slot.stream.as_mut());
        let Some(stream) = stream.filter(|stream| stream.source == link && stream.owed == Owed::Nothing) else {
            return false;
        };
        // An update that cannot be applied makes the image Suspect, which whoever joins is told.
        let _ = stream.image.update_planned(msg, plans);
        for watch in stream.watchers.iter().filter(|watch| watch.takes_updates()) {
            sink(watch.delivery(MsgClass::UPDATE, false, msg));
        }
        true
    }

    /// Takes a message of a link's item: into its image, and to those who watch. `consumer` knows whether the item goes on.
    pub(crate) fn message(
        &mut self,
        link: LinkId,
        consumer: &Consumer,
        (item, msg): (ItemId, &[u8]),
        sink: &mut impl FnMut(Delivery<'_>),
    ) -> Sequel {
        // An item that the server has opened by itself, and that is had already, was closed a moment ago.
        let (Some(id), Some(class)) = (self.of(link, item), rwf::peek::class(msg)) else { return Sequel::None };
        let Some(stream) = self.slots[id.slot as usize].stream.as_mut() else {
            debug_assert!(false, "a leg at {link:?} of {id:?}, which has ended");
            return Sequel::None;
        };
        if stream.source != link {
            // The image of a source is that of its provider; what stands by has nothing to add to it.
            if consumer.request(item).is_none() {
                self.take_leg(id, link);
            }
            return Sequel::None;
        }
        if class == MsgClass::UPDATE {
            return match stream.owed {
                Owed::Image => Sequel::Gap(id),
                Owed::Answer => Sequel::None,
                Owed::Nothing => {
                    self.update((link, item), msg, sink);
                    Sequel::None
                }
            };
        }
        self.rare_message(id, consumer, (item, class, msg), sink)
    }

    /// Takes a message that is no update.
    fn rare_message(
        &mut self,
        id: StreamId,
        consumer: &Consumer,
        (item, class, msg): (ItemId, MsgClass, &[u8]),
        sink: &mut impl FnMut(Delivery<'_>),
    ) -> Sequel {
        let Self { slots, plans, room, .. } = self;
        let Some(stream) = slots[id.slot as usize].stream.as_mut() else {
            debug_assert!(false, "{id:?} has just been looked at, and has ended");
            return Sequel::None;
        };
        let mut is_final = false;
        match Msg::decode(msg) {
            Ok(Msg::Refresh(refresh)) => {
                if stream.owed != Owed::Nothing && refresh.part_num.is_some_and(|part| part > 0) {
                    // The first part was the standby's, and is not here.
                    return Sequel::None;
                }
                (stream.owed, stream.refusals) = (Owed::Nothing, 0);
                stream.is_stale = refresh.state.data == DataState::SUSPECT;
                if refresh.flags.contains(RefreshFlags::CLEAR_CACHE) {
                    stream.image.abandon_refresh();
                }
                // As with updates: the state of the image says it.
                let _ = stream.image.refresh(&refresh, &plans.schema());
                stream.image.note_layout(plans);
                is_final = consumer.request(item).is_none();
            }
            Ok(Msg::Status(StatusMsg { state: Some(state), .. })) => {
                if stream.owed == Owed::Answer && state.data == DataState::OK {
                    // The item may be good at the server; what is here is not until the image has come.
                    return Sequel::None;
                }
                stream.note_state(&state);
            }
            _ => {}
        }
        for watch in stream.watchers.iter().filter(|watch| !watch.is_late) {
            sink(watch.delivery(class, is_final, msg));
        }
        if class == MsgClass::REFRESH
            && !stream.image.is_refreshing()
            && stream.watchers.iter().any(|watch| watch.is_late)
        {
            room.clear();
            let is_written = stream.write_image(RefreshFlags::SOLICITED, room);
            for watch in stream.watchers.iter_mut().filter(|watch| is_written && watch.is_late) {
                watch.is_late = false;
                sink(watch.delivery(class, is_final, room));
            }
        }
        if is_final { Sequel::Ended(id) } else { Sequel::None }
    }

    /// A state of an item that no message says just so: as a status to those who watch.
    pub(crate) fn state(&mut self, id: StreamId, state: &State<'_>, sink: &mut impl FnMut(Delivery<'_>)) {
        let mut room = std::mem::take(&mut self.room);
        let Some(stream) = self.live(id) else { return };
        let is_final = state.stream != StreamState::OPEN;
        stream.image.abandon_refresh();
        stream.note_state(state);
        let stream_id = stream.legs[stream.source.index()].map_or(0, ItemId::stream_id);
        let status = StatusMsg { state: Some(*state), ..StatusMsg::new(stream.request.domain, stream_id) };
        room.clear();
        if let Ok(end) = encode_growing(&mut room, 0, 256, 1 << 20, |w| status.encode(w)) {
            for watch in stream.watchers.iter() {
                sink(watch.delivery(MsgClass::STATUS, is_final, &room[..end]));
            }
        }
        self.room = room;
    }

    /// Checks what must hold between calls; for tests.
    pub(crate) fn check_invariants(&self, links: &Links) {
        let mut legs = 0;
        for (id, stream) in self.iter() {
            let is_provided = stream.legs.iter().flatten().any(|item| item.is_provided());
            assert!(!stream.watchers.is_empty() || is_provided, "a stream that nobody watches");
            assert_eq!(stream.rests(), stream.request.paused, "a stream rests when all who watch it do");
            for (link, item) in links.ids().zip(&stream.legs) {
                let Some(item) = item else { continue };
                legs += 1;
                assert_eq!(self.of(link, *item), Some(id));
                assert!(links.get(link).request(*item).is_some(), "a leg at {link:?} that its consumer does not know");
            }
            let is_asked_for = stream.legs[stream.source.index()].is_some();
            assert!(is_asked_for || stream.awaited_until.is_some(), "a stream is asked for at its source");
            let elsewhere = stream.legs.iter().flatten().count() - usize::from(is_asked_for);
            assert!(elsewhere == 0 || (links.stand_by() && is_shared(&stream.request)), "legs without a standby");
        }
        assert_eq!(self.by_item.iter().map(ByStream::len).sum::<usize>(), legs, "legs of streams that have ended");
        let items: usize = links.iter().map(Consumer::items).sum();
        assert_eq!(items, legs, "items of consumers that no stream has");
    }
}

impl Stream {
    /// Whether it has legs at all links of a warm standby.
    pub(crate) const fn is_shared(&self) -> bool {
        is_shared(&self.request)
    }

    /// Whether one alone watches it.
    pub(crate) fn is_alone(&self) -> bool {
        self.watchers.len() == 1
    }

    /// Whether nobody watches it: its server has opened it.
    pub(crate) const fn is_unwatched(&self) -> bool {
        self.watchers.is_empty()
    }

    /// Whether all who watch it have paused.
    fn rests(&self) -> bool {
        !self.watchers.is_empty() && self.watchers.iter().all(|watch| watch.is_paused)
    }

    /// Whether one who watches it has paused.
    pub(crate) fn is_paused(&self, subscription: SubscriptionId, item: u32) -> bool {
        self.watchers
            .iter()
            .any(|watch| (watch.subscription, watch.item, watch.is_paused) == (subscription, item, true))
    }

    fn legs(&self) -> Vec<(LinkId, ItemId)> {
        self.legs.iter().zip(0..).filter_map(|(item, at)| Some((LinkId::new(at), (*item)?))).collect()
    }

    fn note_state(&mut self, state: &State<'_>) {
        self.image.set_state(state);
        if state.data != DataState::NO_CHANGE {
            self.is_stale = state.data == DataState::SUSPECT;
        }
    }

    fn write_image(&self, flags: RefreshFlags, out: &mut Vec<u8>) -> bool {
        if !self.image.is_whole() {
            return false;
        }
        let stream_id = self.legs[self.source.index()].map_or(0, ItemId::stream_id);
        let header = RefreshMsg {
            flags,
            key: Some(MsgKey { name: Some(self.request.name.as_bytes()), ..MsgKey::EMPTY }),
            ..RefreshMsg::new(self.request.domain, stream_id)
        };
        let written = encode_growing(out, 0, 1_024, IMAGE_MAX, |w| {
            self.image.write(header.clone(), 0, usize::MAX, w).map(|_| ())
        });
        out.truncate(written.unwrap_or(0));
        written.is_ok()
    }
}
