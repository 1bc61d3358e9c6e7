//! Merges that all share who wait for the updates of one stream.
//!
//! A merge takes updates in until one comes that does not merge, or something else that has to stay in its place; it lasts as long as somebody
//! waits for it. So a stream has one merge that goes on, and those before it that still have to go out to somebody.

use super::merge::{Merged, Ripples, Room, may_merge};
use rustc_hash::FxHashMap;
use rwf::EncodeError;
use rwf::msg::{Domain, UpdateMsg};
use std::fmt::Debug;
use std::hash::Hash;

/// Merges that there is memory for when there are none.
const KEPT: usize = 64;

/// A merge. Its number is another's once nobody waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeId(u32);

impl MergeId {
    /// No merge.
    pub const NONE: Self = Self(u32::MAX);
}

#[derive(Debug)]
struct Shared<V> {
    view: V,
    /// The merge takes in what comes.
    goes_on: bool,
    merged: Merged,
}

/// What waits for whoever takes less than there is, by view. `V` is how the owner numbers its views.
#[derive(Debug)]
pub struct SharedMerges<V> {
    /// By number.
    merges: Vec<Option<Shared<V>>>,
    free: Vec<u32>,
    /// The merges that go on.
    by_view: FxHashMap<V, MergeId>,
    room: Room,
}

impl<V> Default for SharedMerges<V> {
    fn default() -> Self {
        Self { merges: Vec::new(), free: Vec::new(), by_view: FxHashMap::default(), room: Room::default() }
    }
}

impl<V: Copy + Eq + Hash + Debug> SharedMerges<V> {
    /// Takes in an update of a view: the merge that it is the last one of. None if it has to be kept as it is. Every update of a view has to
    /// be told here for which a merge goes on ([`Self::end`]). Who waits for it has to [join](Self::join), or nobody may at all
    /// ([`Self::forget_unwanted`]).
    pub fn add(&mut self, view: V, msg: &[u8], ripples: &Ripples) -> Option<MergeId> {
        let Some(update) = UpdateMsg::decode(msg).ok().filter(may_merge) else {
            self.end(view);
            return None;
        };
        if let Some(&id) = self.by_view.get(&view) {
            if self.get_mut(id).is_some_and(|merged| merged.merge(msg, &update, ripples)) {
                return Some(id);
            }
            self.end(view);
        }
        let shared = Shared { view, goes_on: true, merged: Merged::begin(msg, &update) };
        let id = if let Some(number) = self.free.pop() {
            self.merges[number as usize] = Some(shared);
            MergeId(number)
        } else {
            self.merges.push(Some(shared));
            MergeId((self.merges.len() - 1) as u32)
        };
        self.by_view.insert(view, id);
        Some(id)
    }

    /// Has the memory come near that an update of a view is merged in, as [`super::TimeConflation::look_ahead`] does.
    #[inline]
    pub fn look_ahead(&self, view: V) -> u8 {
        if self.by_view.is_empty() {
            return 0;
        }
        let merged = self.by_view.get(&view).and_then(|id| self.get(*id));
        merged.map_or(0, Merged::touch)
    }

    /// The merge of a view goes on no more: what follows follows it.
    pub fn end(&mut self, view: V) {
        if !self.by_view.is_empty()
            && let Some(id) = self.by_view.remove(&view)
            && let Some(Some(shared)) = self.merges.get_mut(id.0 as usize)
        {
            shared.goes_on = false;
        }
    }

    /// A merge goes on no more.
    pub fn end_merge(&mut self, id: MergeId) {
        if let Some(Some(Shared { view, goes_on: true, .. })) = self.merges.get(id.0 as usize) {
            self.end(*view);
        }
    }

    /// Somebody waits from now on, for the last update and what follows. Gives its number.
    pub fn join(&mut self, id: MergeId, now: u64) -> u32 {
        self.get_mut(id).map_or(0, |merged| merged.join(now))
    }

    /// Somebody who waits since an update waits no more. The last one ends the merge.
    pub fn leave(&mut self, id: MergeId, since: u32) {
        if let Some(merged) = self.get_mut(id) {
            merged.leave(since);
        }
        self.forget_unwanted(id);
    }

    /// Ends a merge that nobody waits for.
    pub fn forget_unwanted(&mut self, id: MergeId) {
        if self.get(id).is_some_and(|merged| !merged.is_wanted()) {
            self.end_merge(id);
            self.merges[id.0 as usize] = None;
            self.free.push(id.0);
            if self.free.len() == self.merges.len() {
                self.merges.clear();
                self.merges.shrink_to(KEPT);
                self.free.clear();
                self.free.shrink_to(KEPT);
            }
        }
    }

    /// Hands what goes out to one who waits since an update to `f`, who waits no more then; see [`Merged::write`].
    ///
    /// # Errors
    /// As [`Merged::write`].
    pub fn take(&mut self, id: MergeId, since: u32, now: u64, f: impl FnMut(&[u8])) -> Result<u16, EncodeError> {
        let Self { merges, room, .. } = self;
        let Some(Some(shared)) = merges.get(id.0 as usize) else {
            hub_items::fault!("somebody waits for {id:?}, which is over");
            return Ok(0);
        };
        let written = shared.merged.write(since, now, room, f);
        self.leave(id, since);
        written
    }

    /// A merge that somebody waits for.
    pub fn get(&self, id: MergeId) -> Option<&Merged> {
        self.merges.get(id.0 as usize)?.as_ref().map(|shared| &shared.merged)
    }

    fn get_mut(&mut self, id: MergeId) -> Option<&mut Merged> {
        let shared = self.merges.get_mut(id.0 as usize).and_then(Option::as_mut);
        debug_assert!(shared.is_some(), "{id:?} is over");
        shared.map(|shared| &mut shared.merged)
    }

    /// The domain of a merge's updates.
    pub fn domain(&self, id: MergeId) -> Domain {
        self.get(id).map(Merged::domain).unwrap_or_default()
    }

    /// Merges that somebody waits for.
    pub fn len(&self) -> usize {
        self.merges.len() - self.free.len()
    }

    /// True if nobody waits for anything.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Panics unless so many wait for what is there as `waiting`, each merge that goes on is that of its view, and views are live.
    pub fn check(&self, waiting: usize, is_live: impl Fn(V) -> bool) {
        let there = self.merges.iter().flatten();
        assert_eq!(there.clone().map(|shared| shared.merged.waiting()).sum::<usize>(), waiting, "who waits for merges");
        assert_eq!(there.clone().count(), self.len(), "merges");
        assert_eq!(there.filter(|shared| shared.goes_on).count(), self.by_view.len(), "merges that go on");
        for (&view, id) in &self.by_view {
            let shared = self.merges.get(id.0 as usize).and_then(Option::as_ref);
            assert!(shared.is_some_and(|shared| shared.view == view && shared.goes_on), "the merge of {view:?}");
            assert!(shared.is_some_and(|shared| shared.merged.is_wanted()), "nobody waits for the merge of {view:?}");
            assert!(is_live(view), "a merge of {view:?} goes on");
        }
    }
}

#[cfg(test)]
mod tests;
