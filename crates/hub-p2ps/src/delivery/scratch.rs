//! Memory of the folder that is used again and again, and what lies in it: who gets an image, and in which variants.

use super::deliveries::BodyId;
use crate::clients::streams::WatchState;
use crate::ids::ItemId;
use crate::items::watchers::Watcher;
use rwf::{DataState, Rate, StreamState};

/// Memory that is used again and again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// An update with its key rewritten.
    pub(super) update: Vec<u8>,
    /// Merged updates on their way out.
    pub(super) room: crate::conflation::merge::Room,
    /// Views of the item at hand.
    pub(super) views: Vec<ItemId>,
    pub(super) recipients: Vec<Recipient>,
    /// Payloads of a cached image on its way out, one part behind the other, and where each ends.
    pub(super) cached: (Vec<u8>, Vec<usize>),
    pub(super) variants: Vec<(Variant, BodyId)>,
    pub(super) filtered: Vec<u8>,
    /// Watchers that the set at hand goes to, if they are to be known.
    pub(super) reached: Option<Vec<(ItemId, Watcher)>>,
}

/// Someone who gets an image, or a part of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recipient {
    pub(super) watcher: Watcher,
    pub(super) watch: WatchState,
    /// The watcher takes part in updates.
    pub(super) open: bool,
    /// The watcher asked for this image.
    pub(super) solicited: bool,
    /// The watcher asked, and would have had this one anyhow, as all do who have the item open: it gets that, too, before the answer. For a watchlist
    /// (EMA's) has several of a client's requests on one stream, and gives an answer to those of them alone that asked.
    pub(super) also_unsolicited: bool,
}

impl Recipient {
    /// The image replaces what it has, which is half a set, or old: it missed updates, without having asked for this.
    pub(super) const fn begins_afresh(&self, afresh: bool) -> bool {
        if self.open { afresh || self.watch.is_in_set() } else { self.watch.is_answered() && !self.solicited }
    }
}

/// The differences between the images of one client and another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) solicited: bool,
    pub(super) clear_cache: bool,
    pub(super) stream: StreamState,
    pub(super) data: DataState,
    /// Without permission data.
    pub(super) is_bare: bool,
    /// At the rate of a stream that is conflated.
    pub(super) rate: Option<(Rate, u16)>,
}
