//! What a second non-interactive publisher of an item has: its image stands by, and serves when the first one leaves.
//!
//! Of several publishers of one item the one that refreshed it last is used; what another one has published is kept here, with
//! every update since. When the used one leaves the item (it goes away, withdraws the service, closes the item or recovers it), the
//! publisher that was used before gets it back: its image is told to the watchers as an unsolicited one. Without another
//! publisher, or if that one is in the middle of a refresh, the item is Suspect until it is published again.
//!
//! An item with an image here is published, by another session; a session has at most one image here for an item.

use super::Published;
use super::held::HeldImages;
use crate::hash_seed::{HashSeed, SeededMap};
use crate::ids::{GroupId, Handle, StreamId};
use crate::items::{Item, Items, Place};
use crate::providers::Stream;
use crate::stream::{ALL, flags};
use crate::{Notice, SessionId, SourceDistributor};
use rustc_hash::FxHashMap;
use rwf::image::{Image, Schema};
use rwf::msg::{Msg, RefreshMsg};
use std::collections::BTreeMap;

/// An item as a publisher has it that is not used.
#[derive(Debug)]
struct Standby {
    handle: Handle,
    image: Image,
    group: GroupId,
}

/// All images that stand by.
#[derive(Debug, Default)]
pub(crate) struct StandbyImages {
    by_place: SeededMap<(SessionId, StreamId), Standby>,
    /// Where images of an item stand by; the one that was used last is the last.
    by_item: FxHashMap<Handle, Vec<Place>>,
}

impl StandbyImages {
    /// None yet. Providers choose their streams: `seed` keys the table.
    pub(super) fn new(seed: HashSeed) -> Self {
        Self { by_place: SeededMap::with_hasher(seed), by_item: FxHashMap::default() }
    }

    fn len(&self) -> usize {
        self.by_place.len()
    }

    /// The item of which an image stands by on a stream.
    pub(crate) fn item_at(&self, place: Place) -> Option<Handle> {
        if self.by_place.is_empty() {
            return None;
        }
        Some(self.by_place.get(&(place.session, place.stream))?.handle)
    }

    /// Where a session has an image of an item that stands by.
    fn of_session(&self, handle: Handle, session: SessionId) -> Option<Place> {
        self.by_item.get(&handle)?.iter().copied().find(|place| place.session == session)
    }

    fn add(&mut self, place: Place, standby: Standby) {
        self.by_item.entry(standby.handle).or_default().push(place);
        let before = self.by_place.insert((place.session, place.stream), standby);
        assert!(before.is_none(), "one image stands by on a stream");
    }

    /// Takes out what stands by on a stream, if anything does.
    fn remove(&mut self, place: Place) -> Option<Standby> {
        let standby = self.by_place.remove(&(place.session, place.stream))?;
        let Some(places) = self.by_item.get_mut(&standby.handle) else {
            hub_items::fault!("{:?} does not know what stands by for it", standby.handle);
            return Some(standby);
        };
        places.retain(|&other| other != place);
        if places.is_empty() {
            self.by_item.remove(&standby.handle);
        }
        Some(standby)
    }

    /// The image of an item that was used last.
    fn take_last(&mut self, handle: Handle) -> Option<(Place, Standby)> {
        let place = *self.by_item.get(&handle)?.last()?;
        Some((place, self.remove(place)?))
    }

    /// The item is over.
    pub(crate) fn forget_item(&mut self, handle: Handle) {
        for place in self.by_item.remove(&handle).unwrap_or_default() {
            self.by_place.remove(&(place.session, place.stream));
        }
    }

    /// A session is gone, or offers the service of some items no more.
    fn forget(&mut self, session: SessionId, is_concerned: impl Fn(Handle) -> bool) {
        let concerned = |(&(id, stream), standby): (&(SessionId, StreamId), &Standby)| {
            (id == session && is_concerned(standby.handle)).then_some(Place { session: id, stream })
        };
        let places: Vec<Place> = self.by_place.iter().filter_map(concerned).collect();
        for place in places {
            self.remove(place);
        }
    }

    /// Asserts what the module says, as far as items know it.
    pub(super) fn check(&self, items: &Items, images: &HeldImages) {
        let listed: usize = self.by_item.values().map(Vec::len).sum();
        assert_eq!(listed, self.by_place.len(), "images that stand by, and places of them");
        for (&(session, stream), standby) in &self.by_place {
            let handle = standby.handle;
            assert_eq!(self.of_session(handle, session), Some(Place { session, stream }), "one of a session");
            let item = items.get(handle);
            let has_image = item.and_then(Item::image).is_some_and(|image| images.has(image));
            assert!(has_image, "an image stands by of {handle:?}, which has none: {item:?}");
            let used = item.and_then(Item::place).map(|place| place.session);
            assert!(
                used.is_some_and(|used| used != session),
                "an image stands by at the session that is used: {item:?}"
            );
        }
    }
}

impl Published {
    /// A stream is about to be another item's: what stands by there is given up.
    pub(super) fn clear_standby(&mut self, place: Place) {
        if self.standby.item_at(place).is_some() {
            self.standby.remove(place);
        }
    }

    /// A session is gone: nothing of it stands by any more.
    pub(crate) fn forget_standbys(&mut self, session: SessionId) {
        self.standby.forget(session, |_| true);
    }
}

impl SourceDistributor {
    /// Another session has published an item: what the one that was used has of it stands by. There may be as many such images
    /// as items. False if no other session had it.
    pub(super) fn displace(&mut self, handle: Handle, by: SessionId) -> bool {
        if let Some(own) = self.published.standby.of_session(handle, by) {
            self.published.standby.remove(own);
        }
        let item = &mut self.items[handle];
        let Some(place) = item.place().filter(|place| place.session != by) else { return false };
        let (service, group) = (item.service(), item.group());
        let Some(slot) = item.image() else {
            hub_items::fault!("{handle:?} is published, and has no image");
            return false;
        };
        // Watchers that wait for the set under way get the one that begins now.
        if item.abandon_cached_set() == Some(true) {
            item.want_another();
        }
        self.unpublish(handle);
        if !self.providers.is_reached(place.session, service) {
            // The item was about to leave it.
            self.published.images.get_mut(slot).abandon_refresh();
        } else if self.published.standby.len() < self.config.max_items as usize {
            let image = std::mem::take(self.published.images.get_mut(slot));
            self.published.standby.add(place, Standby { handle, image, group });
        } else {
            self.published.images.get_mut(slot).abandon_refresh();
            self.counters.standby_dropped += 1;
        }
        true
    }

    /// A message that is no refresh on a stream on which an image stands by.
    pub(super) fn standby_message(&mut self, place: Place, msg: &Msg<'_>) {
        let standbys = &mut self.published.standby;
        let at = (place.session, place.stream);
        match msg {
            Msg::Update(update) => {
                let Some(standby) = standbys.by_place.get_mut(&at) else {
                    return hub_items::fault!("nothing stands by at {at:?}");
                };
                if standby.image.update(update, &Schema::NONE).is_err() {
                    self.counters.cache_failures += 1;
                }
                super::intake::narrow(&mut standby.image, update);
            }
            Msg::Status(status) if status.state.is_some_and(|state| state.stream.is_final()) => {
                standbys.remove(place);
            }
            Msg::Status(status) => {
                let Some(standby) = standbys.by_place.get_mut(&at) else {
                    return hub_items::fault!("nothing stands by at {at:?}");
                };
                if let Some(state) = &status.state {
                    standby.image.set_state(state);
                }
                if let Some(perm_data) = status.perm_data {
                    standby.image.set_perm_data(perm_data);
                }
                if let Some(name) = status.group_id {
                    let service = self.items[standby.handle].service();
                    standby.group = self.providers.group(place.session, service, name);
                }
            }
            Msg::Close(_) => drop(standbys.remove(place)),
            Msg::Generic(_) => self.counters.dropped_not_owner += 1,
            Msg::Refresh(_) | Msg::Ack(_) | Msg::Request(_) | Msg::Post(_) => self.counters.dropped_unexpected += 1,
        }
    }

    /// A refresh that does not make its publisher the one that is used: it ends what stands by, or goes on with a set.
    pub(super) fn standby_refresh(&mut self, place: Place, refresh: &RefreshMsg<'_>) {
        let standbys = &mut self.published.standby;
        if refresh.state.stream.is_final() {
            standbys.remove(place);
        } else if let Some(standby) = standbys.by_place.get_mut(&(place.session, place.stream)) {
            let service = &self.providers[self.items[standby.handle].service()].name;
            if standby.image.refresh(refresh, &self.config.page_sizes.schema(service)).is_err() {
                self.counters.cache_failures += 1;
            }
        } else {
            self.counters.dropped_not_owner += 1;
        }
    }

    /// As [`Self::forget_standbys`], for one service.
    pub(crate) fn forget_standbys_of(&mut self, session: SessionId, service: u16) {
        let items = &self.items;
        self.published.standby.forget(session, |handle| items[handle].service() == service);
    }

    /// The publisher of an item has left it: another one that has it whole gets it back, and its image is told to the watchers.
    /// Which one, if there is one.
    pub(super) fn stand_in(&mut self, handle: Handle) -> Option<SessionId> {
        debug_assert!(self.items[handle].place().is_none(), "its publisher has left");
        let (place, standby) = loop {
            let (place, standby) = self.published.standby.take_last(handle)?;
            // The rest of a refresh under way would find no head.
            if standby.image.is_whole() && !standby.image.is_refreshing() {
                break (place, standby);
            }
        };
        let before = self.providers[place.session].streams.set(place.stream, Stream::new(handle, false));
        assert_eq!(before, Stream::NONE, "an image stands by on a stream that is no item's");
        self.items.publish_on(handle, place);
        self.items.set_group(handle, standby.group);
        let item = &mut self.items[handle];
        let awaited = item.abandon_cached_set() == Some(true);
        let data = standby.image.state().data;
        item.take_cached_part(true, true, data);
        let watched = item.has_interest();
        if let Some(slot) = item.image() {
            *self.published.images.get_mut(slot) = standby.image;
        } else {
            hub_items::fault!("{handle:?} is published, and has no image");
        }
        let (_, was_lost) = item.complete_set();
        assert!(!was_lost, "what is lost has nothing that stands by");
        self.note_published(handle);
        self.counters.taken_back += 1;
        if watched {
            self.publish_image_with(handle, handle, ALL, flags::UNSOLICITED);
        }
        if awaited {
            self.answer_now(handle, ALL);
        }
        self.answer_snapshots(handle);
        Some(place.session)
    }

    /// Takes items that have lost their publisher back to others that have them; those that nobody has are left.
    pub(super) fn take_back(&mut self, service: u16, handles: &[Handle]) -> Vec<Handle> {
        let mut taken: BTreeMap<u32, usize> = BTreeMap::new();
        let mut left = Vec::with_capacity(handles.len());
        for &handle in handles {
            match self.stand_in(handle) {
                Some(session) => *taken.entry(session.0).or_default() += 1,
                None => left.push(handle),
            }
        }
        for (session, items) in taken {
            let provider = self.providers[SessionId(session)].peer.address.clone();
            let service = self.providers[service].name.clone();
            self.notices.push(Notice::ItemsTakenBack { service, provider, items });
        }
        left
    }
}
