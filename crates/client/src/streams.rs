//! Streams of a client's consumer, and who watches each: requests that are equal share one.

use crate::subscription::SubscriptionId;
use omm::consumer::{Consumer, ItemId, ItemRequest};
use rustc_hash::FxHashMap;
use rwf::image::{Image, Plans};
use rwf::msg::{Domain, Msg, MsgClass, MsgKey, RefreshFlags, RefreshMsg, StatusMsg};
use rwf::rdm::state::StateBuf;
use rwf::wire::encode_growing;
use std::collections::HashMap;

/// Longest image that is given to somebody who joins, bytes.
const IMAGE_MAX: usize = 1 << 28;

/// A message for one item of one subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery<'m> {
    /// The subscription.
    pub subscription: SubscriptionId,
    /// The item: its place in the subscription.
    pub item: u32,
    /// The class of the message.
    pub class: MsgClass,
    /// Nothing comes of the item behind this.
    pub is_final: bool,
    /// The message, RWF. Its stream id is that of the stream which equal requests share.
    pub msg: &'m [u8],
}

/// Somebody who watches a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watch {
    pub(crate) subscription: SubscriptionId,
    pub(crate) item: u32,
    /// Joined while parts of a refresh were under way: nothing is given until the image is whole.
    is_late: bool,
}

#[derive(Debug)]
struct Stream {
    request: ItemRequest,
    watchers: Vec<Watch>,
    image: Image,
}

/// Service, name and domain: few requests differ in anything else.
type Key = (String, String, u8);

fn key(request: &ItemRequest) -> Key {
    (request.service.clone(), request.name.clone(), request.domain.0)
}

/// Streams by their items.
#[derive(Debug)]
pub(crate) struct Streams {
    by_item: FxHashMap<ItemId, Stream>,
    shared: HashMap<Key, Vec<ItemId>>,
    pub(crate) plans: Plans,
    /// An image, as a refresh.
    room: Vec<u8>,
}

impl Streams {
    pub(crate) fn new(plans: Plans) -> Self {
        Self { by_item: FxHashMap::default(), shared: HashMap::new(), plans, room: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_item.len()
    }

    /// The stream that an equal request has open.
    pub(crate) fn open(&self, request: &ItemRequest) -> Option<ItemId> {
        if request.private || !request.streaming {
            return None;
        }
        let same = self.shared.get(&key(request))?;
        same.iter().copied().find(|item| self.by_item.get(item).is_some_and(|stream| stream.request == *request))
    }

    /// A stream that was opened, with the one who wants it.
    pub(crate) fn insert(&mut self, item: ItemId, request: ItemRequest, watch: (SubscriptionId, u32)) {
        if !request.private && request.streaming {
            self.shared.entry(key(&request)).or_default().push(item);
        }
        let (subscription, place) = watch;
        let watchers = vec![Watch { subscription, item: place, is_late: false }];
        self.by_item.insert(item, Stream { request, watchers, image: Image::new() });
    }

    /// Somebody joins an open stream: the image that is held is for them alone, if it is whole.
    pub(crate) fn join(
        &mut self,
        item: ItemId,
        (subscription, place): (SubscriptionId, u32),
        sink: &mut impl FnMut(Delivery<'_>),
    ) {
        let Self { by_item, room, .. } = self;
        let Some(stream) = by_item.get_mut(&item) else { return };
        let is_late = stream.image.is_refreshing();
        let watch = Watch { subscription, item: place, is_late };
        stream.watchers.push(watch);
        room.clear();
        if !is_late && stream.write_image(item, RefreshFlags::SOLICITED, room) {
            sink(watch.delivery(MsgClass::REFRESH, false, room));
        }
    }

    /// Parts of refreshes that are under way will not be completed.
    pub(crate) fn abandon_refreshes(&mut self) {
        self.by_item.values_mut().for_each(|stream| stream.image.abandon_refresh());
    }

    /// Somebody leaves; true if nobody is left.
    pub(crate) fn leave(&mut self, item: ItemId, subscription: SubscriptionId, place: u32) -> bool {
        let Some(stream) = self.by_item.get_mut(&item) else { return false };
        stream.watchers.retain(|watch| (watch.subscription, watch.item) != (subscription, place));
        let is_left = stream.watchers.is_empty();
        if is_left {
            self.remove(item);
        }
        is_left
    }

    fn remove(&mut self, item: ItemId) {
        let Some(stream) = self.by_item.remove(&item) else { return };
        let key = key(&stream.request);
        if let Some(same) = self.shared.get_mut(&key) {
            same.retain(|other| *other != item);
            if same.is_empty() {
                self.shared.remove(&key);
            }
        }
    }

    /// Writes the image of an item as an unsolicited refresh; false if there is no whole one.
    pub(crate) fn write_image(&self, item: ItemId, out: &mut Vec<u8>) -> bool {
        self.by_item.get(&item).is_some_and(|stream| stream.write_image(item, RefreshFlags::NONE, out))
    }

    pub(crate) fn image(&self, item: ItemId) -> Option<&Image> {
        self.by_item.get(&item).map(|stream| &stream.image)
    }

    /// Takes a message of an item: into its image, and to those who watch. `consumer` knows whether the item goes on.
    #[inline]
    pub(crate) fn message(
        &mut self,
        consumer: &Consumer,
        item: ItemId,
        msg: &[u8],
        sink: &mut impl FnMut(Delivery<'_>),
    ) {
        let Self { by_item, plans, room, .. } = self;
        let (Some(stream), Some(class)) = (by_item.get_mut(&item), rwf::peek::class(msg)) else { return };
        if class == MsgClass::UPDATE {
            // An update that cannot be applied makes the image Suspect, which whoever joins is told.
            let _ = stream.image.update_planned(msg, plans);
            for watch in stream.watchers.iter().filter(|watch| !watch.is_late) {
                sink(watch.delivery(class, false, msg));
            }
            return;
        }
        let mut is_final = false;
        match Msg::decode(msg) {
            Ok(Msg::Refresh(refresh)) => {
                if refresh.flags.contains(RefreshFlags::CLEAR_CACHE) {
                    stream.image.abandon_refresh();
                }
                // As with updates: the state of the image says it.
                let _ = stream.image.refresh(&refresh, &plans.schema());
                stream.image.note_layout(plans);
                is_final = consumer.request(item).is_none();
            }
            Ok(Msg::Status(StatusMsg { state: Some(state), .. })) => stream.image.set_state(&state),
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
            let is_written = stream.write_image(item, RefreshFlags::SOLICITED, room);
            for watch in stream.watchers.iter_mut().filter(|watch| is_written && watch.is_late) {
                watch.is_late = false;
                sink(watch.delivery(class, is_final, room));
            }
        }
        if is_final {
            self.remove(item);
        }
    }

    /// The consumer says a state of an item itself: as a status message to those who watch.
    pub(crate) fn state(
        &mut self,
        item: ItemId,
        state: &StateBuf,
        is_final: bool,
        sink: &mut impl FnMut(Delivery<'_>),
    ) {
        let Self { by_item, room, .. } = self;
        let Some(stream) = by_item.get_mut(&item) else { return };
        stream.image.abandon_refresh();
        stream.image.set_state(&state.as_state());
        let status = StatusMsg {
            state: Some(state.as_state()),
            ..StatusMsg::new(Domain(stream.request.domain.0), item.stream_id())
        };
        room.clear();
        if let Ok(end) = encode_growing(room, 0, 256, 1 << 20, |w| status.encode(w)) {
            for watch in &stream.watchers {
                sink(watch.delivery(MsgClass::STATUS, is_final, &room[..end]));
            }
        }
        if is_final {
            self.remove(item);
        }
    }
}

impl Watch {
    fn delivery<'m>(&self, class: MsgClass, is_final: bool, msg: &'m [u8]) -> Delivery<'m> {
        Delivery { subscription: self.subscription, item: self.item, class, is_final, msg }
    }
}

impl Stream {
    fn write_image(&self, item: ItemId, flags: RefreshFlags, out: &mut Vec<u8>) -> bool {
        if !self.image.is_whole() {
            return false;
        }
        let header = RefreshMsg {
            flags,
            key: Some(MsgKey { name: Some(self.request.name.as_bytes()), ..MsgKey::EMPTY }),
            ..RefreshMsg::new(self.request.domain, item.stream_id())
        };
        let written = encode_growing(out, 0, 1_024, IMAGE_MAX, |w| {
            self.image.write(header.clone(), 0, usize::MAX, w).map(|_| ())
        });
        out.truncate(written.unwrap_or(0));
        written.is_ok()
    }
}
