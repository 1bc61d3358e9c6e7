//! Items seen through views. A view of an item is an item of its own beside it, with its own watchers, so that its data is filtered
//! once for all who share it, and their fan-out is like any other.
//!
//! What is asked for upstream is the union of the views of an item. How many views want a field is counted, so that one view more
//! or less costs as much as it has fields, however many others there are. Where that would take too much memory everything is asked for.

use super::Items;
use super::state::Item;
use super::view_spec::{DataStreams, Subset, ViewSpec};
use crate::ids::{ItemId, ViewId};
use std::collections::BTreeMap;

/// All views in use, by number. Clients choose what views there are, so they are found by comparison and not by hash.
#[derive(Debug, Default)]
pub(super) struct Views {
    specs: Vec<(ViewSpec, u32)>,
    free: Vec<ViewId>,
    by_spec: BTreeMap<ViewSpec, ViewId>,
    /// Fields of all items' views that are counted one by one.
    counted: usize,
}

impl Views {
    /// The number of a view, used once more.
    fn take(&mut self, spec: &ViewSpec) -> ViewId {
        if let Some(&id) = self.by_spec.get(spec) {
            self.specs[id.0 as usize].1 += 1;
            return id;
        }
        let id = if let Some(id) = self.free.pop() {
            debug_assert_eq!(self.specs[id.0 as usize].1, 0, "a free view is used");
            self.specs[id.0 as usize] = (spec.clone(), 1);
            id
        } else {
            self.specs.push((spec.clone(), 1));
            ViewId((self.specs.len() - 1) as u32)
        };
        self.by_spec.insert(spec.clone(), id);
        id
    }

    /// A view is used once less.
    fn release(&mut self, id: ViewId) {
        let (spec, uses) = &mut self.specs[id.0 as usize];
        debug_assert!(*uses > 0, "a view is released that nobody uses");
        *uses -= 1;
        if *uses == 0 {
            self.by_spec.remove(spec);
            *spec = ViewSpec::default();
            self.free.push(id);
        }
    }

    /// Fields of all items' views that are counted one by one.
    pub(super) const fn counted(&self) -> usize {
        self.counted
    }

    pub(super) fn spec(&self, id: ViewId) -> &ViewSpec {
        &self.specs[id.0 as usize].0
    }
}

/// Fields of one item's views, counted once for each view, that are always counted one by one.
const COUNTED_OF_ITEM: usize = 64;
/// The most that are: what it takes to count them is done at once.
const COUNTED_OF_ONE: usize = 1 << 15;
/// Fields of the views of all items that are counted one by one. An item whose views would be more, and more than [`COUNTED_OF_ITEM`], is asked
/// for with all of its fields, which is always right.
const COUNTED_OF_ALL: usize = 1 << 20;

/// How many views of an item want which field or element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Wanted {
    /// The only view there is, as long as there was no other beside it: what it wants is not counted then, since a batch may open it for
    /// all of its items.
    only: Option<ViewSpec>,
    fields: BTreeMap<i16, u32>,
    elements: BTreeMap<Vec<u8>, u32>,
    /// Views of fields, and views of elements.
    views: [u32; 2],
    /// Views of everything.
    wholes: u32,
    /// The weight of all views together ([`ViewSpec::weight`]).
    weight: usize,
    /// There are too many fields to be counted one by one.
    is_uncounted: bool,
}

impl Wanted {
    /// One view more. So much may be counted of this item: `room` up to [`COUNTED_OF_ONE`], or [`COUNTED_OF_ITEM`] if that is more.
    fn add(&mut self, spec: &ViewSpec, room: usize) {
        if self.is_empty() {
            self.only = Some(spec.clone());
            self.tally(spec, true);
            return;
        }
        self.tally(spec, true);
        if self.is_uncounted {
            return;
        }
        if self.weight > room.clamp(COUNTED_OF_ITEM, COUNTED_OF_ONE) {
            (self.only, self.is_uncounted) = (None, true);
            self.fields.clear();
            self.elements.clear();
            return;
        }
        self.count_only();
        self.count(spec);
    }

    fn is_empty(&self) -> bool {
        self.views == [0; 2] && self.wholes == 0
    }

    /// What is counted one by one, to be held against the room for all items.
    fn counted(&self) -> usize {
        if self.only.is_some() || self.is_uncounted { 0 } else { self.weight }
    }

    /// Counts the only view as one of several.
    fn count_only(&mut self) {
        if let Some(only) = self.only.take() {
            self.count(&only);
        }
    }

    /// One view more or less, without its fields.
    fn tally(&mut self, spec: &ViewSpec, comes: bool) {
        let (count, weight) = (self.tally_of(spec), spec.weight());
        if comes {
            *count += 1;
            self.weight += weight;
        } else {
            debug_assert!(*count > 0, "a view is removed that was not added");
            *count -= 1;
            self.weight -= weight;
        }
    }

    fn tally_of(&mut self, spec: &ViewSpec) -> &mut u32 {
        match &spec.subset {
            Some(Subset::Fields(_)) => &mut self.views[0],
            Some(Subset::Elements(_)) => &mut self.views[1],
            None => &mut self.wholes,
        }
    }

    fn count(&mut self, spec: &ViewSpec) {
        match &spec.subset {
            Some(Subset::Fields(fids)) => fids.iter().for_each(|&fid| *self.fields.entry(fid).or_default() += 1),
            Some(Subset::Elements(names)) => {
                names.iter().for_each(|name| *self.elements.entry(name.clone()).or_default() += 1);
            }
            None => {}
        }
    }

    /// One view less. `rest` are those that are left: they are counted again when they are few enough.
    fn remove<'s>(&mut self, spec: &ViewSpec, rest: impl Iterator<Item = &'s ViewSpec>) {
        fn less<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) {
            let left = counts.get_mut(key).map(|count| {
                *count -= 1;
                *count
            });
            debug_assert!(left.is_some(), "a view is removed that was not added");
            if left == Some(0) {
                counts.remove(key);
            }
        }
        self.tally(spec, false);
        if let Some(only) = self.only.take() {
            debug_assert_eq!(only, *spec, "a view is removed that was not added");
            return;
        }
        if self.is_uncounted {
            if self.weight <= COUNTED_OF_ITEM {
                self.is_uncounted = false;
                rest.for_each(|spec| self.count(spec));
            }
            return;
        }
        match &spec.subset {
            Some(Subset::Fields(fids)) => fids.iter().for_each(|fid| less(&mut self.fields, fid)),
            Some(Subset::Elements(names)) => names.iter().for_each(|name| less(&mut self.elements, name)),
            None => {}
        }
    }

    /// The union of all views; `None` if no view says that.
    fn union(&self) -> Option<ViewSpec> {
        if let Some(only) = &self.only {
            return only.subset.clone().map(ViewSpec::from);
        }
        if self.wholes > 0 || self.is_uncounted {
            return None;
        }
        match self.views.map(|count| count > 0) {
            [true, false] => Some(Subset::Fields(self.fields.keys().copied().collect()).into()),
            [false, true] => Some(Subset::Elements(self.elements.keys().cloned().collect()).into()),
            _ => None,
        }
    }
}

/// What is known of an item that is seen through views, or was.
#[derive(Debug, Default)]
pub(crate) struct ViewedItem {
    /// Views that someone watches.
    views: Vec<ItemId>,
    wanted: Wanted,
    /// The view asked for upstream: the union of views, `None` for everything.
    asked: Option<ViewSpec>,
    /// What was asked for is to rest: the provider may send no updates, only images that are asked for.
    paused: bool,
    /// The item may rest until the answer to the reissue that resumed it: what comes before that answer is followed by no updates.
    was_paused: bool,
    /// What images are sure to hold until the answer to a reissue that asked for more; `None` if none is awaited.
    shown: Option<ViewSpec>,
    /// Number of that reissue, until it is answered; 0 if none is awaited.
    serial: u32,
    /// Position of the last such answer: images from there on hold what was asked for.
    wide_from: u64,
    /// The item is among those that may ask for less.
    narrow_queued: bool,
}

impl ViewedItem {
    pub(super) fn views(&self) -> &[ItemId] {
        &self.views
    }

    /// The answer to a reissue that asked for more will not come: the item is asked for anew.
    pub(super) fn forget_reissue(&mut self) {
        (self.serial, self.wide_from) = (0, 0);
    }

    /// Panics if the counts are not those of the views.
    pub(super) fn check<'s>(&self, spec: impl Fn(ItemId) -> Option<&'s ViewSpec>) {
        let mut known = self.wanted.clone();
        let mut wanted = Wanted { is_uncounted: known.is_uncounted, ..Wanted::default() };
        for spec in self.views.iter().filter_map(|&view| spec(view)) {
            wanted.tally(spec, true);
            if !known.is_uncounted {
                wanted.count(spec);
            }
        }
        known.count_only();
        assert_eq!(wanted, known, "fields that the views of an item want");
    }

    /// Fields that are counted one by one.
    pub(super) fn counted(&self) -> usize {
        self.wanted.counted()
    }
}

/// How what a watcher is to see fits what was asked for upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// Images hold it.
    Shown,
    /// What the watcher is to see was asked for, and no image is known to hold it yet.
    Asked,
    /// More has to be asked for.
    Lacking,
}

/// Why an item cannot be seen through a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoView {
    /// The item has as many views as it may have.
    TooMany,
    /// There is no item number left.
    NoNumber,
}

impl Items {
    /// The view of an item that lets this through, a new one if it has none. An item has no more than `limit` views; 0 for any
    /// number.
    pub(crate) fn view(&mut self, root: ItemId, spec: &ViewSpec, limit: u32) -> Result<ItemId, NoView> {
        debug_assert!(self.get(root).is_live() && !self.get(root).is_view(), "a view is of an item");
        let known = self.views.by_spec.get(spec).copied();
        let of_view = |&view: &ItemId| known.is_some() && self.get(view).view_id() == known;
        if let Some(view) = self.views_of(root).iter().copied().find(of_view) {
            return Ok(view);
        }
        if limit > 0 && self.views_of(root).len() >= limit as usize {
            return Err(NoView::TooMany);
        }
        let number = self.views.take(spec);
        let Some(view) = self.place(Item::view(self.get(root), root, number)) else {
            self.views.release(number);
            return Err(NoView::NoNumber);
        };
        let viewed = self.viewed.entry(root).or_default();
        viewed.views.push(view);
        self.views.counted -= viewed.counted();
        viewed.wanted.add(spec, COUNTED_OF_ALL.saturating_sub(self.views.counted));
        self.views.counted += viewed.counted();
        self.watchers_mut(root).mark_views(true);
        Ok(view)
    }

    /// Frees a view that has no watchers; tells what it was a view of.
    pub(crate) fn remove_view(&mut self, view: ItemId) -> Option<ItemId> {
        let (parent, number) = (self.get(view).parent()?, self.get(view).view_id()?);
        self.remove(view);
        let Self { viewed, views, cold, .. } = self;
        if let Some(viewed) = viewed.get_mut(&parent) {
            viewed.views.retain(|&other| other != view);
            views.counted -= viewed.counted();
            let number_of = |view: &ItemId| cold[view.index()].view_id();
            let rest = viewed.views.iter().filter_map(number_of).map(|number| views.spec(number));
            viewed.wanted.remove(views.spec(number), rest);
            views.counted += viewed.counted();
            let left = !viewed.views.is_empty();
            self.watchers_mut(parent).mark_views(left);
        } else {
            hub_items::fault!("{parent:?} does not know its view {view:?}");
        }
        self.views.release(number);
        Some(parent)
    }

    /// The fields of a view; `None` for an item that is no view.
    pub(crate) fn spec_of(&self, item: ItemId) -> Option<&ViewSpec> {
        self.get(item).view_id().map(|view| self.views.spec(view))
    }

    /// Milliseconds over which a view is conflated; 0 for what is not.
    pub(crate) fn interval_of(&self, item: ItemId) -> u16 {
        self.spec_of(item).map_or(0, ViewSpec::interval)
    }

    /// How the items are opened that messages of a view name; `None` for what opens none.
    pub(crate) fn data_streams_of(&self, item: ItemId) -> Option<DataStreams> {
        self.spec_of(item).and_then(ViewSpec::data_streams)
    }

    /// The view to be asked for upstream: the union of all views, or everything (`None`) if anyone wants that.
    pub(crate) fn wanted_view(&self, root: ItemId) -> Option<ViewSpec> {
        // The cache holds whole images.
        if !self.watchers(root).is_empty() || self.is_cached(root) {
            return None;
        }
        let union = self.viewed.get(&root)?.wanted.union()?;
        (!union.payload().is_empty()).then_some(union)
    }

    /// What is wanted, if it is no more than was asked for; else what was asked for.
    pub(crate) fn narrowed_view(&self, root: ItemId) -> Option<ViewSpec> {
        let asked = self.asked_view(root);
        match (self.wanted_view(root), asked) {
            (wanted, None) => wanted,
            (Some(wanted), Some(asked)) if asked.covers(&wanted) => Some(wanted),
            (_, Some(asked)) => Some(asked.clone()),
        }
    }

    /// The view asked for upstream, `None` for everything.
    pub(crate) fn asked_view(&self, root: ItemId) -> Option<&ViewSpec> {
        self.viewed.get(&root).and_then(|viewed| viewed.asked.as_ref())
    }

    /// True if an item was asked for upstream as one that rests.
    pub(crate) fn is_pause_asked(&self, root: ItemId) -> bool {
        self.viewed.get(&root).is_some_and(|viewed| viewed.paused)
    }

    /// True if updates of an item may not come, since all who watched were paused.
    pub(crate) fn may_rest(&self, root: ItemId) -> bool {
        self.viewed.get(&root).is_some_and(|viewed| viewed.paused || viewed.was_paused)
    }

    /// Remembers what was asked for upstream, and whether it is to rest. With `more` images hold no more than before until one answers.
    pub(crate) fn note_asked(&mut self, root: ItemId, view: Option<ViewSpec>, paused: bool, more: bool) {
        debug_assert!(!self.get(root).is_view() && self.get(root).source().is_some(), "nothing was asked for");
        if let Some(viewed) = self.viewed.get_mut(&root) {
            if more && viewed.shown.is_none() {
                viewed.shown = viewed.asked.take();
            }
            viewed.was_paused |= more && viewed.paused;
            (viewed.asked, viewed.paused) = (view, paused);
        } else if view.is_some() || paused {
            let viewed = self.viewed.entry(root).or_default();
            (viewed.asked, viewed.paused) = (view, paused);
        }
    }

    /// How what the watchers of an item, or of a view of it, are to see fits what was asked for. With `live` they want updates too.
    pub(crate) fn coverage(&self, item: ItemId, live: bool) -> Coverage {
        let Some(viewed) = self.viewed.get(&self.root(item)) else { return Coverage::Shown };
        let spec = self.spec_of(item);
        let covered = |by: &Option<ViewSpec>| by.as_ref().is_none_or(|by| spec.is_some_and(|spec| by.covers(spec)));
        // Images that come now are as was asked for before, and later ones as is asked for now: either may lack some of it.
        let asked = covered(&viewed.asked) && !(live && viewed.paused);
        let shown = covered(&viewed.shown) && !(live && viewed.was_paused);
        match (asked, shown) {
            (true, true) => Coverage::Shown,
            (true, false) => Coverage::Asked,
            (false, _) => Coverage::Lacking,
        }
    }

    /// A reissue that asks for more has been sent under this number.
    pub(crate) fn await_wider(&mut self, root: ItemId, serial: u32) {
        debug_assert!(serial != 0 && self.get(root).is_open());
        self.viewed.entry(root).or_default().serial = serial;
    }

    /// A reissue that asked for more is answered.
    pub(crate) fn reissue_answered(&mut self, id: ItemId, serial: u32, position: u64) {
        if let Some(viewed) = self.viewed.get_mut(&id).filter(|viewed| viewed.serial == serial) {
            debug_assert!(position >= viewed.wide_from, "answers come in order");
            (viewed.serial, viewed.wide_from) = (0, position);
        }
    }

    /// True if a reissue that asked for more is not answered.
    pub(crate) fn is_reissued(&self, id: ItemId) -> bool {
        self.viewed.get(&id).is_some_and(|viewed| viewed.serial != 0)
    }

    /// True if an image at this position may lack what was asked for last.
    pub(crate) fn is_narrow(&self, id: ItemId, position: u64) -> bool {
        self.viewed.get(&id).is_some_and(|viewed| viewed.serial != 0 || position < viewed.wide_from)
    }

    /// An image has begun that holds all that was asked for.
    pub(crate) fn shows_all(&mut self, id: ItemId) {
        if let Some(viewed) = self.viewed.get_mut(&id) {
            (viewed.shown, viewed.was_paused) = (None, false);
        }
    }

    /// What is asked for now is what all views of an item need together.
    pub(crate) fn clear_widening(&mut self, id: ItemId) {
        self.get_mut(id).set_awaits_wider(false);
        if let Some(viewed) = self.viewed.get_mut(&id) {
            (viewed.shown, viewed.was_paused) = (None, false);
            viewed.forget_reissue();
            for view in &viewed.views {
                self.cold[view.index()].set_awaits_wider(false);
            }
        }
    }

    /// Drops what is known of an item's views if none is left and nothing is awaited.
    pub(crate) fn trim_viewed(&mut self, id: ItemId) {
        let is_idle = |viewed: &ViewedItem| {
            let settled = viewed.shown.is_none() && !viewed.was_paused && viewed.serial == 0;
            viewed.views.is_empty() && viewed.asked.is_none() && !viewed.paused && settled
        };
        if self.viewed.get(&id).is_some_and(|viewed| is_idle(viewed)) {
            self.viewed.remove(&id);
        }
    }

    /// Less of an item may be wanted; true if it was not known yet in this turn.
    pub(crate) fn queue_narrowing(&mut self, root: ItemId) -> bool {
        self.viewed.get_mut(&root).is_some_and(|viewed| !std::mem::replace(&mut viewed.narrow_queued, true))
    }

    /// Takes an item out of those that may ask for less; false if it is another one by now.
    pub(crate) fn end_narrowing(&mut self, root: ItemId) -> bool {
        self.viewed.get_mut(&root).is_some_and(|viewed| std::mem::take(&mut viewed.narrow_queued))
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::Kind;
    use super::{COUNTED_OF_ONE, Coverage, Items, NoView, Wanted};
    use crate::ids::{Handle, ServiceId, SourceId, Token};
    use crate::items::view_spec::{Subset, ViewSpec};

    fn fields(fids: &[i16]) -> ViewSpec {
        Subset::Fields(fids.into()).into()
    }

    #[test]
    fn what_is_wanted_is_the_union() {
        let mut wanted = Wanted::default();
        let elements = Subset::Elements([b"x".to_vec()].into()).into();
        assert_eq!(wanted.union(), None, "nobody wants anything");
        wanted.add(&fields(&[1, 2]), 1_000);
        wanted.add(&fields(&[2, 3]), 1_000);
        assert_eq!(wanted.union(), Some(fields(&[1, 2, 3])));
        wanted.add(&elements, 1_000);
        assert_eq!(wanted.union(), None, "no view has both kinds");
        wanted.remove(&elements, std::iter::empty());
        wanted.remove(&fields(&[1, 2]), std::iter::empty());
        assert_eq!(wanted.union(), Some(fields(&[2, 3])));
        let subset = Subset::Fields([7].into());
        let [part, whole] = [Some(subset), None].map(|subset| ViewSpec::of(subset, 100, None, None).unwrap());
        wanted.add(&part, 1_000);
        assert_eq!(wanted.union(), Some(fields(&[2, 3, 7])));
        wanted.add(&whole, 1_000);
        assert_eq!(wanted.union(), None, "everything is wanted");
        wanted.remove(&whole, std::iter::empty());
        wanted.remove(&part, std::iter::empty());
        assert_eq!(wanted.union(), Some(fields(&[2, 3])));
    }

    #[test]
    fn so_many_fields_of_one_item_are_counted_and_no_more() {
        let mut items = Items::default();
        let root = items.insert(ServiceId(1), b"a", Kind::SHARED).unwrap();
        let views = [0, 1, 2].map(|from| {
            let spec = ViewSpec::from(Subset::Fields((from..from + (COUNTED_OF_ONE / 2) as i16).collect()));
            (items.view(root, &spec, 0).unwrap(), items.wanted_view(root).is_some())
        });
        assert_eq!(views.map(|(_, counted)| counted), [true, true, false]);
        assert_eq!(items.views.counted, 0);
        items.check_tables();
    }

    /// A few fields are always counted; of many so many as there is room for all items, and the item is asked for as a whole meanwhile.
    #[test]
    fn many_fields_are_not_counted_one_by_one() {
        let mut items = Items::default();
        let large = |from: i16| ViewSpec::from(Subset::Fields((from..from + 15_000).collect()));
        let (mut roots, mut views) = (Vec::new(), Vec::new());
        for number in 0..100_u8 {
            let root = items.insert(ServiceId(1), &[number], Kind::SHARED).unwrap();
            views.push([large(0), large(1)].map(|spec| items.view(root, &spec, 0).unwrap()));
            roots.push(root);
        }
        let is_counted = |items: &Items, root| items.wanted_view(root).is_some();
        let counted = roots.iter().filter(|&&root| is_counted(&items, root)).count();
        assert_eq!((counted, items.views.counted), (34, 34 * 30_000));
        items.check_tables();
        // Small views are counted all the same, and those that have become small.
        let small = items.insert(ServiceId(1), b"small", Kind::SHARED).unwrap();
        let few = [1, 2].map(|fid| items.view(small, &fields(&[fid]), 0).unwrap());
        assert_eq!(items.wanted_view(small), Some(fields(&[1, 2])));
        let (last, [a, b]) = (roots[99], views[99]);
        items.view(last, &fields(&[7]), 0).unwrap();
        items.remove_view(a);
        assert_eq!(items.wanted_view(last), None);
        items.remove_view(b);
        assert_eq!(items.wanted_view(last), Some(fields(&[7])));
        items.check_tables();
        // Room that is given back is there for others.
        few.into_iter().chain(views[..99].concat()).for_each(|view| _ = items.remove_view(view));
        assert_eq!(items.views.counted, 1, "the field of the last one");
    }

    #[test]
    fn views_are_shared_limited_and_released() {
        let mut items = Items::default();
        let root = items.insert(ServiceId(1), b"a", Kind::SHARED).unwrap();
        let a = items.view(root, &fields(&[1]), 2).unwrap();
        assert_eq!(items.view(root, &fields(&[1]), 2), Ok(a));
        let b = items.view(root, &fields(&[2]), 2).unwrap();
        assert_eq!(items.view(root, &fields(&[3]), 2), Err(NoView::TooMany));
        assert_eq!(items.wanted_view(root), Some(fields(&[1, 2])));
        items.queue(root);
        items.asked(root, SourceId(0), Token(0));
        items.note_asked(root, Some(fields(&[1, 2])), false, false);
        items.opened(root, Handle(1));
        assert_eq!(items.remove_view(b), Some(root));
        assert_eq!(items.narrowed_view(root), Some(fields(&[1])));
        let c = items.view(root, &fields(&[3]), 2).unwrap();
        assert_eq!((items.coverage(a, true), items.coverage(c, true)), (Coverage::Shown, Coverage::Lacking));
        items.note_asked(root, Some(fields(&[1, 2])), true, false);
        assert_eq!((items.coverage(a, false), items.coverage(a, true)), (Coverage::Shown, Coverage::Lacking));
        items.note_asked(root, Some(fields(&[1, 2])), false, true);
        assert_eq!((items.coverage(a, true), items.may_rest(root)), (Coverage::Asked, true), "until the answer");
        items.shows_all(root);
        assert_eq!((items.coverage(a, true), items.may_rest(root)), (Coverage::Shown, false));
        assert!(items.queue_narrowing(root) && !items.queue_narrowing(root) && items.end_narrowing(root));
    }
}
