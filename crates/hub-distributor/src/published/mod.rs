//! Non-interactive providers: what they publish, the images held for them, and who is answered from those.
//!
//! | file | what it knows |
//! |---|---|
//! | `awaited` | items that are asked for before anybody has published them |
//! | `held` | the images, and the snapshots that wait for one to be whole |
//! | `intake` | what non-interactive providers send |
//! | `images` | answers from held images, and items whose provider is gone |
//! | `posted` | posts to published items |
//! | `records` | which items outlive the process, and which expire |
//! | `retention` | how long what nobody publishes any more is held |
//! | `standby` | what a second publisher of an item has, and how it gets the item back |

mod awaited;
mod held;
mod images;
mod intake;
mod posted;
mod records;
mod retention;
mod standby;

use awaited::Awaited;
pub use awaited::PATIENCES_MAX;
use held::{HeldImages, WaitingSnapshots};
use records::Records;
pub use records::{Record, RecordChange, Restore, Restored};
use retention::Retention;
use standby::StandbyImages;

use super::ids::{Handle, ImageSlot};
use super::items::{Items, Place};
use crate::hash_seed::HashSeed;
use std::fmt;

/// What is held of published items beside their states.
#[derive(Debug, Default)]
pub(crate) struct Published {
    images: HeldImages,
    snapshots: WaitingSnapshots,
    standby: StandbyImages,
    records: Records,
    awaited: Awaited,
    retention: Retention,
}

/// Why a record cannot be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreError {
    /// The record's key cannot be read.
    Key,
    /// The record's image cannot be read.
    Image,
    /// The record's service is one of interactive providers, or finds no id.
    Service,
    /// As many items are held as may be.
    Room,
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "its key cannot be read",
            Self::Image => "its image cannot be read",
            Self::Service => "its service is one of interactive providers, or finds no id",
            Self::Room => "as many items are held as may be",
        })
    }
}

impl std::error::Error for RestoreError {}

impl Published {
    /// Nothing yet; what providers choose the keys of is keyed with `seed`.
    pub(crate) fn new(seed: HashSeed) -> Self {
        Self { standby: StandbyImages::new(seed), ..Self::default() }
    }

    /// A P2PS has watchers who had an image of an item that nobody publishes: it is waited for without an end.
    pub(crate) fn want_back(&mut self, handle: Handle) {
        self.awaited.want_back(handle);
    }

    /// An item of an interactive provider is published from now on, and waits for its first image, which is the answer to opens that were not
    /// answered. Where its image is to be.
    pub(crate) fn begin_waiting(&mut self, handle: Handle, is_answered: bool) -> ImageSlot {
        if !is_answered {
            self.awaited.leave_unanswered(handle);
        }
        self.awaited.want_back(handle);
        self.images.add()
    }

    /// The snapshots that wait for the image of an item; they do no more.
    pub(crate) fn take_snapshots(&mut self, shared: Handle) -> Vec<Handle> {
        self.snapshots.take(shared)
    }

    /// A snapshot is gone that may have waited for the image of an item.
    pub(crate) fn forget_snapshot(&mut self, shared: Handle, instance: Handle) {
        self.snapshots.forget(shared, instance);
    }

    /// The item is gone, or over, or published no more: nobody waits for it, and its image goes.
    pub(crate) fn forget(&mut self, handle: Handle, image: Option<ImageSlot>) {
        self.awaited.forget(handle);
        if let Some(image) = image {
            self.images.remove(image);
            self.standby.forget_item(handle);
        }
    }

    /// The item that a second publisher of it has on a stream.
    pub(crate) fn item_standing_by(&self, place: Place) -> Option<Handle> {
        self.standby.item_at(place)
    }

    /// Asserts that each cached item has an image of its own, and that who waits for one can be answered.
    pub(crate) fn check(&self, items: &Items) {
        let mut images = 0;
        for (handle, item) in items.iter() {
            if let Some(image) = item.image() {
                images += 1;
                assert!(self.images.has(image), "the image of {handle:?} is not there: {item:?}");
            }
            if item.is_cached_snapshot() && !item.is_ended() {
                let shared = items.find(item.service(), item.key());
                let waits = shared.is_some_and(|shared| self.snapshots.waits(shared, handle));
                assert!(waits, "a snapshot waits for nothing: {handle:?} {item:?}");
            }
        }
        assert_eq!(images, self.images.len(), "cached items, and images that are held");
        self.standby.check(items, &self.images);
        self.records.check();
        self.awaited.check(|handle| items.get(handle).is_some_and(|item| item.is_cached() && !item.is_ended()));
        for (shared, instance) in self.snapshots.iter() {
            assert!(items.get(shared).is_some_and(super::items::Item::is_cached), "snapshots wait for {shared:?}");
            assert!(items.get(instance).is_some_and(|item| item.is_cached_snapshot() && !item.is_ended()));
        }
    }
}
