//! Images out of the cache, and what goes into it.
//!
//! A cached item is asked for at its source as a whole, whatever views its watchers have. Everything that comes for it is applied to the
//! cached image in the order in which the watchers get it, so an image that is given out stands exactly between two updates.
//!
//! A request for the image of a cached item:
//!
//! | the item is | the cached image is | gets |
//! |---|---|---|
//! | open, nothing of it is under way | current | the image, at once; the source hears nothing |
//! | open, an image is asked for or arrives | any | that image, as without a cache |
//! | lost, and asked for again | stale | the image as Open/Suspect, at once, and the next one when the item is back; without a stream, or where Suspect is not taken, as without a cache |
//! | any | none | as without a cache |

use super::images::Image;
use super::scratch::Recipient;
use crate::cache::images::Whole;
use crate::ids::{ItemId, SourceId};
use crate::items::watchers::Watcher;
use crate::stream::{Message, flags};
use crate::{P2ps, encode};
use rwf::msg::{Domain, RefreshFlags, RefreshMsg};
use rwf::wire::Writer;
use rwf::{DataState, EncodeError, State};

impl P2ps {
    /// Someone wants an item, or an image of it: it is cached from now on if the rules say so.
    pub(crate) fn want_cached(&mut self, root: ItemId) {
        if self.items.is_cached(root) {
            return self.items.cache_mut().touch(root.0);
        }
        // An image that was asked for through views is not whole, and what rests has no updates.
        let is_whole = self.items.asked_view(root).is_none() && !self.items.may_rest(root);
        if self.config.cache.is_on() && is_whole && self.is_to_be_cached(root) {
            let uncached = self.items.cache_item(root);
            self.counters.items_uncached += u64::from(uncached);
        }
    }

    fn is_to_be_cached(&self, root: ItemId) -> bool {
        let item = self.items.get(root);
        if item.is_private() || item.is_snapshot() {
            return false;
        }
        let service = self.sources.services().get(item.service()).map_or("", |service| service.name.as_str());
        let key = item.key();
        self.config.cache.covers(service, Domain(key.domain), key.name.unwrap_or_default())
    }

    /// Applies a part of an image.
    pub(super) fn cache_image(&mut self, id: ItemId, image: &Image<'_>, narrow: bool) {
        if !self.items.is_cached(id) {
            return;
        }
        let service =
            self.sources.services().get(self.items.get(id).service()).map_or("", |service| service.name.as_str());
        let page_size = self.config.page_sizes.of(service);
        if narrow || image.last {
            // Less than the whole item, or the end of its stream.
            return self.items.cache_mut().blank(id.0);
        }
        self.items.cache_mut().refresh(id.0, image.first, image.refresh, page_size);
        self.counters.cache_failures += self.items.cache_mut().take_failures();
    }

    /// Applies an update that is looked at one by one.
    pub(crate) fn cache_update(&mut self, id: ItemId, message: &Message<'_>) {
        if !self.items.is_cached(id) {
            return;
        }
        let cache = self.items.cache_mut();
        if message.has(flags::HAS_LOCK) {
            cache.locked_update(id.0, message.body);
        } else {
            cache.update(id.0, message.body);
            cache.settle();
        }
        self.counters.cache_failures += cache.take_failures();
    }

    /// Gives those who wait for an image of an open item the cached one. False if there is none to give now.
    pub(crate) fn answer_from_cache(&mut self, root: ItemId) -> bool {
        let item = self.items.get(root);
        let Some((source, _)) = item.open_at() else { return false };
        if item.is_image_asked() || item.is_image_arriving() || item.is_recovering() || item.is_refresh_queued() {
            return false;
        }
        let Some(cached) = self.items.cache_mut().take(root.0) else { return false };
        let given = cached.current().and_then(|whole| {
            let state = whole.image.state();
            let to = |p2ps: &mut Self, image: &Image<'_>| p2ps.give_image(root, image);
            self.give_whole(root, source, whole, state, false, to)
        });
        let is_cached = self.items.is_cached(root);
        self.items.cache_mut().put_back(root.0, cached, is_cached);
        self.counters.images_from_cache += given.unwrap_or(0);
        given.is_some()
    }

    /// Gives a watcher of a lost item the image of before the loss, if there is one, and the watcher takes suspect data. The next image
    /// is for everyone.
    pub(crate) fn give_stale_image(&mut self, watcher: Watcher, id: ItemId) {
        let root = self.items.root(id);
        // The answer from the cache may have been all that the watcher wanted.
        let Some((_, watch)) = self.clients.watch(watcher) else { return };
        let is_first = watch.is_asked() && !watch.is_answered() && !watch.is_snapshot();
        if !is_first || !self.clients.has_stale_image(&self.items, watcher.client, root) {
            return;
        }
        let Some(cached) = self.items.cache_mut().take(root.0) else {
            hub_items::fault!("a stale image that was there is not: {root:?}");
            return;
        };
        let source = self.items.get(root).source().unwrap_or(SourceId(0));
        // A newer image may have begun to come before the item was lost, with another lock: this is the one of before.
        let may_see =
            |p2ps: &mut Self, whole: &Whole<'_>| p2ps.gate.satisfies(watcher.client, root, whole.image.perm_data());
        let given = cached.stale().filter(|whole| may_see(self, whole)).and_then(|whole| {
            let state = State { data: DataState::SUSPECT, ..whole.image.state() };
            let to = |p2ps: &mut Self, image: &Image<'_>| p2ps.give_one(watcher, id, image);
            self.give_whole(root, source, whole, state, true, to)
        });
        let is_cached = self.items.is_cached(root);
        self.items.cache_mut().put_back(root.0, cached, is_cached);
        self.counters.images_stale += given.unwrap_or(0);
    }

    /// Gives one watcher a part of an image.
    fn give_one(&mut self, watcher: Watcher, id: ItemId, image: &Image<'_>) -> u64 {
        // The first part may have been denied.
        let Some((_, watch)) = self.clients.watch(watcher) else { return 0 };
        let root = self.items.root(id);
        let recipient = Recipient { watcher, watch, open: false, solicited: true, also_unsolicited: false };
        let reached = if id == root {
            self.give_to(&[recipient], id, root, image, None)
        } else {
            self.as_view_shows(id, image, |p2ps, body| p2ps.give_to(&[recipient], id, root, image, body))
        };
        self.counters.images_out += reached;
        reached
    }

    /// Gives out an image in parts of the size that messages of this P2PS have. `to` gives out one part and tells to how many. Tells how
    /// many got the image; `None`, and nobody has got anything, if it cannot be written.
    fn give_whole(
        &mut self,
        root: ItemId,
        source: SourceId,
        whole: Whole<'_>,
        state: State<'_>,
        stale: bool,
        mut to: impl FnMut(&mut Self, &Image<'_>) -> u64,
    ) -> Option<u64> {
        let (mut bytes, mut ends) = std::mem::take(&mut self.output.scratch.cached);
        let failed = write_parts(&whole, self.config.image_part, &mut bytes, &mut ends).is_err();
        let domain = Domain(self.items.key(root).domain);
        let mut reached = None;
        for (number, &end) in ends.iter().enumerate().take_while(|_| !failed) {
            let start = if number == 0 { 0 } else { ends[number - 1] };
            let (first, complete) = (number == 0, number + 1 == ends.len());
            let mut flags = RefreshFlags::NONE;
            flags.set(RefreshFlags::CLEAR_CACHE, first);
            flags.set(RefreshFlags::REFRESH_COMPLETE, complete);
            let refresh = RefreshMsg {
                flags,
                state,
                part_num: (ends.len() > 1).then_some(number.min(MAX_PART) as u16),
                qos: whole.image.qos(),
                seq_num: whole.image.seq_num(),
                perm_data: whole.image.perm_data(),
                container: whole.payload.container(),
                body: &bytes[start..end],
                ..RefreshMsg::new(domain, 0)
            };
            let image = Image {
                refresh: &refresh,
                first,
                complete,
                everyone: false,
                good_again: false,
                afresh: false,
                widened: true,
                last: false,
                stale,
                source,
            };
            let got = to(self, &image);
            reached = reached.or(Some(got));
            if !self.items.get(root).is_live() {
                // The item's last watcher may not see it, or wanted the image alone.
                break;
            }
        }
        self.counters.cache_failures += u64::from(failed);
        self.output.scratch.cached = (bytes, ends);
        reached
    }
}

/// Writes a payload in parts of about `limit` bytes, one behind the other, and where each of them ends. What is in `bytes` is written over.
fn write_parts(whole: &Whole<'_>, limit: usize, bytes: &mut Vec<u8>, ends: &mut Vec<usize>) -> Result<(), EncodeError> {
    ends.clear();
    let mut row = Some(0);
    while let Some(from) = row {
        let write = |w: &mut Writer<'_>| {
            row = whole.payload.write_part(from, limit, w)?;
            Ok(())
        };
        let start = ends.last().copied().unwrap_or(0);
        ends.push(encode::write_at(bytes, start, limit.saturating_add(256), write)?);
    }
    Ok(())
}

/// Highest part number that a refresh can have.
const MAX_PART: usize = 0x7FFF;
