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

use super::items::Items;
use crate::hash_seed::HashSeed;
use std::fmt;

/// What is held of published items beside their states.
#[derive(Debug, Default)]
pub(crate) struct Published {
    pub(crate) images: HeldImages,
    pub(crate) snapshots: WaitingSnapshots,
    pub(crate) standby: StandbyImages,
    pub(crate) records: Records,
    pub(crate) awaited: Awaited,
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
