//! Treatment of the content of providers' messages before it goes on: headlines rewritten, fields and updates left out, images of
//! interactive items kept.
//!
//! | file | what it knows |
//! |---|---|
//! | `headlines` | which items are headlines whose permission codes are in a field |
//! | `filtered` | which items a filter is not about, and what passes of a message |
//! | `cached` | the images of interactive items, and answers out of them |

mod cached;
mod filtered;
mod headlines;

use crate::Config;
use crate::cache::images::{Cache, Cached};
use crate::ids::Handle;
use filtered::Unselected;
use headlines::Headlines;
use rwf::State;
use rwf::dictionary::Dictionary;
use std::sync::Arc;

/// Knowledge of the content of items.
#[derive(Debug)]
pub(crate) struct Content {
    /// Images of interactive items, by handle.
    images: Cache,
    unselected: Unselected,
    headlines: Headlines,
    /// The part that passes of the message at hand.
    passing: Vec<u8>,
    /// The headline at hand, with its lock.
    headline: Vec<u8>,
}

impl Content {
    /// Nothing yet.
    pub(crate) fn new(config: &Config) -> Self {
        let read_with = config.cache.is_on().then(|| Arc::new(Dictionary::builtin()));
        Self {
            images: Cache::new(config.cache.max_items, read_with),
            unselected: Unselected::default(),
            headlines: Headlines::default(),
            passing: Vec::new(),
            headline: Vec::new(),
        }
    }

    /// Whether an image of an interactive item is kept, or is to be as soon as it comes.
    pub(crate) fn is_cached(&self, handle: Handle) -> bool {
        self.images.has(handle.0)
    }

    /// Items whose images are kept.
    pub(crate) fn cached_items(&self) -> usize {
        self.images.len()
    }

    /// The cached state of an interactive item.
    pub(crate) fn cached(&mut self, handle: Handle) -> Option<&Cached> {
        self.images.get(handle.0)
    }

    /// The item is lost: its image is that of before.
    pub(crate) fn lose_image(&mut self, handle: Handle) {
        self.images.lose(handle.0);
    }

    /// The state of an item, without an image.
    pub(crate) fn set_state(&mut self, handle: Handle, state: &State<'_>) {
        self.images.set_state(handle.0, state);
    }

    /// The lock of an item, without an image.
    pub(crate) fn set_perm_data(&mut self, handle: Handle, perm_data: &[u8]) {
        self.images.set_perm_data(handle.0, perm_data);
    }

    /// The item is gone, or over, or its provider is of another kind.
    pub(crate) fn forget(&mut self, handle: Handle) {
        self.images.remove(handle.0);
        self.unselected.forget(handle);
        self.headlines.forget(handle);
    }

    /// The buffer of a headline that was handed out.
    pub(crate) fn give_back_headline(&mut self, headline: Vec<u8>) {
        self.headline = headline;
    }

    /// Panics if something is kept for an item that is not there.
    pub(crate) fn check(&self, is_there: impl Fn(Handle) -> bool) {
        self.unselected.check(&is_there);
        self.headlines.check(&is_there);
    }
}
