//! Views: subsets of an item's fields or elements. A view of an item is an item of its own beside it, with its own
//! watchers, so that its data is filtered once for all who share it, and their fan-out is like any other.

use super::P2ps;
use super::compose;
use super::items::{ItemId, Phase, bits};
use super::refusal::Refusal;
use super::streams::WatchFlags;
use rustc_hash::FxHashMap;
use rwf::container::{ElementList, ElementListEncoder, FieldList, FieldListEncoder, SetScope};
use rwf::rdm::request::{Payload, View};
use rwf::wire::Writer;
use rwf::{DataType, DecodeError, EncodeError};

/// Number of a view, shared by all items.
pub(crate) type ViewId = u32;

/// What a view lets through, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ViewSpec {
    /// Fields by id.
    Fields(Box<[i16]>),
    /// Elements by name.
    Elements(Box<[Vec<u8>]>),
}

/// What a request says of views.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Everything is wanted.
    Whole,
    /// This much is wanted.
    View(ViewSpec),
    /// The view stays as it is.
    Keep,
}

/// Reads the wish of a request; `flagged` says that the request claims to have a view.
pub(crate) fn wish(flagged: bool, view: Option<&View>) -> Result<Wish, Refusal<'static>> {
    match (flagged, view) {
        (false, _) => Ok(Wish::Whole),
        (true, None) => Ok(Wish::Keep),
        (true, Some(View::Fields(fids))) => {
            let mut fids = fids.clone();
            fids.sort_unstable();
            fids.dedup();
            Ok(Wish::View(ViewSpec::Fields(fids.into())))
        }
        (true, Some(View::Elements(names))) => {
            let mut names = names.clone();
            names.sort_unstable();
            names.dedup();
            Ok(Wish::View(ViewSpec::Elements(names.into())))
        }
        (true, Some(View::Unsupported(kind))) => Err(Refusal::UnknownViewType { kind: *kind }),
        (true, Some(View::Invalid)) => {
            Err(Refusal::BadView { why: ":ViewType must be 1 or 2, and :ViewData an array of field ids or of names" })
        }
    }
}

impl ViewSpec {
    /// True if all that `other` lets through passes here too.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fields(own), Self::Fields(other)) => other.iter().all(|fid| own.binary_search(fid).is_ok()),
            (Self::Elements(own), Self::Elements(other)) => other.iter().all(|name| own.binary_search(name).is_ok()),
            _ => false,
        }
    }

    /// What either lets through; `None` if no view says that.
    fn union(&self, other: &Self) -> Option<Self> {
        fn merged<T: Ord + Clone>(a: &[T], b: &[T]) -> Box<[T]> {
            let mut all = [a, b].concat();
            all.sort_unstable();
            all.dedup();
            all.into()
        }
        match (self, other) {
            (Self::Fields(a), Self::Fields(b)) => Some(Self::Fields(merged(a, b))),
            (Self::Elements(a), Self::Elements(b)) => Some(Self::Elements(merged(a, b))),
            _ => None,
        }
    }

    /// The view as payload of a request.
    pub(crate) fn payload(&self) -> Vec<u8> {
        let view = match self {
            Self::Fields(fids) => View::Fields(fids.to_vec()),
            Self::Elements(names) => View::Elements(names.to_vec()),
        };
        let payload = Payload { view: Some(view), ..Payload::default() };
        let mut out = Vec::new();
        // Too long a view is asked for as everything, which is always right.
        if compose::append(&mut out, 256, |w| payload.encode(w)).is_err() {
            out.clear();
        }
        out
    }

    /// Writes what passes of a container; `Ok(None)` if it is of a kind that this view does not filter, `Some(false)` if
    /// nothing passes. Set data is written out as standard data.
    fn filter(&self, container: DataType, body: &[u8], w: &mut Writer<'_>) -> Result<Option<bool>, Fault> {
        match (self, container) {
            (Self::Fields(fids), DataType::FIELD_LIST) => filter_fields(fids, body, w),
            (Self::Elements(names), DataType::ELEMENT_LIST) => filter_elements(names, body, w),
            _ => Ok(None),
        }
    }
}

/// Why a body cannot be filtered.
#[derive(Debug)]
pub(super) enum Fault {
    Unreadable,
    Unwritable(EncodeError),
}

impl From<DecodeError> for Fault {
    fn from(_: DecodeError) -> Self {
        Self::Unreadable
    }
}

impl From<EncodeError> for Fault {
    fn from(error: EncodeError) -> Self {
        Self::Unwritable(error)
    }
}

fn filter_fields(fids: &[i16], body: &[u8], w: &mut Writer<'_>) -> Result<Option<bool>, Fault> {
    let list = FieldList::decode(body, &SetScope::NONE)?;
    if list.is_set_skipped() {
        return Ok(None);
    }
    let mut out = FieldListEncoder::begin(w)?;
    if let Some(info) = list.info {
        out.info(info)?;
    }
    for entry in list.entries() {
        let entry = entry?;
        if fids.binary_search(&entry.fid).is_err() {
            continue;
        }
        if entry.enc == DataType::UNKNOWN || entry.enc.is_container() {
            out.raw(entry.fid, entry.data)?;
        } else {
            out.field(entry.fid, &entry.value(DataType::UNKNOWN)?)?;
        }
    }
    let any = !out.is_empty();
    out.finish()?;
    Ok(Some(any))
}

fn filter_elements(names: &[Vec<u8>], body: &[u8], w: &mut Writer<'_>) -> Result<Option<bool>, Fault> {
    let list = ElementList::decode(body, &SetScope::NONE)?;
    if list.is_set_skipped() {
        return Ok(None);
    }
    let mut out = ElementListEncoder::begin(w)?;
    if let Some(info) = list.info {
        out.info(info)?;
    }
    copy_elements(&list, |name| names.binary_search_by(|known| known.as_slice().cmp(name)).is_ok(), &mut out)?;
    let any = !out.is_empty();
    out.finish()?;
    Ok(Some(any))
}

/// Copies the elements with these names. Set data is written out as standard data.
pub(super) fn copy_elements(
    list: &ElementList<'_>,
    wanted: impl Fn(&[u8]) -> bool,
    out: &mut ElementListEncoder<'_, '_>,
) -> Result<(), Fault> {
    for entry in list.entries() {
        let entry = entry?;
        if !wanted(entry.name) {
            continue;
        }
        if entry.data_type.is_set_primitive() {
            out.element(entry.name, entry.data_type.base(), &entry.value()?)?;
        } else {
            out.raw(entry.name, entry.data_type, entry.data)?;
        }
    }
    Ok(())
}

/// All views in use.
#[derive(Debug, Default)]
pub(crate) struct Views {
    specs: Vec<(ViewSpec, u32)>,
    free: Vec<ViewId>,
    by_spec: FxHashMap<ViewSpec, ViewId>,
}

impl Views {
    /// The number of a view, used once more.
    fn take(&mut self, spec: &ViewSpec) -> ViewId {
        if let Some(&id) = self.by_spec.get(spec) {
            self.specs[id as usize].1 += 1;
            return id;
        }
        let id = if let Some(id) = self.free.pop() {
            self.specs[id as usize] = (spec.clone(), 1);
            id
        } else {
            self.specs.push((spec.clone(), 1));
            (self.specs.len() - 1) as ViewId
        };
        self.by_spec.insert(spec.clone(), id);
        id
    }

    /// A view is used once less.
    fn release(&mut self, id: ViewId) {
        let (spec, uses) = &mut self.specs[id as usize];
        *uses -= 1;
        if *uses == 0 {
            self.by_spec.remove(spec);
            *spec = ViewSpec::Fields(Box::default());
            self.free.push(id);
        }
    }

    pub(crate) fn spec(&self, id: ViewId) -> &ViewSpec {
        &self.specs[id as usize].0
    }
}

/// What is left of a message's body under a view.
pub(crate) enum Filtered {
    /// It was filtered, into the end of the vector.
    Written,
    /// Nothing of it passes.
    Nothing,
    /// It is of a kind that is not filtered.
    Whole,
}

/// Appends what a view lets through of a body.
pub(crate) fn append_filtered(spec: &ViewSpec, container: DataType, body: &[u8], out: &mut Vec<u8>) -> Filtered {
    let start = out.len();
    let mut outcome = Filtered::Whole;
    // Set data may grow when it is written out, by a byte or two a value.
    let result = compose::append(out, body.len() * 2, |w| match spec.filter(container, body, w) {
        Ok(Some(any)) => {
            outcome = if any { Filtered::Written } else { Filtered::Nothing };
            Ok(())
        }
        Ok(None) | Err(Fault::Unreadable) => {
            outcome = Filtered::Whole;
            Ok(())
        }
        Err(Fault::Unwritable(error)) => Err(error),
    });
    if result.is_err() {
        outcome = Filtered::Whole;
    }
    if !matches!(outcome, Filtered::Written) {
        out.truncate(start);
    }
    outcome
}

impl P2ps {
    /// The item that a watcher with this wish watches: the item itself, or a view of it.
    pub(super) fn viewed(&mut self, root: ItemId, wish: &Wish) -> Option<ItemId> {
        let Wish::View(spec) = wish else { return Some(root) };
        let id = self.views.take(spec);
        let of_view = |&view: &ItemId| self.items.get(view).extra.as_ref().is_some_and(|extra| extra.view == id);
        if let Some(known) = self.items.get(root).views().iter().copied().find(of_view) {
            self.views.release(id);
            return Some(known);
        }
        let parent = self.items.get(root);
        let flags = parent.flags & (bits::PRIVATE | bits::SNAPSHOT);
        let service = parent.service;
        let Some(view) = self.items.insert(service, &[], flags, Phase::View) else {
            self.views.release(id);
            return None;
        };
        let item = self.items.get_mut(view);
        item.handle = root;
        item.extra_mut().view = id;
        self.items.get_mut(root).extra_mut().views.push(view);
        self.items.watchers[root as usize].mark_views(true);
        Some(view)
    }

    /// A view of an item lost its last watcher.
    pub(super) fn release_view(&mut self, view: ItemId, parent: ItemId) {
        if let Some(extra) = self.items.get_mut(view).extra.take() {
            self.views.release(extra.view);
        }
        self.items.remove(view);
        let views = &mut self.items.get_mut(parent).extra_mut().views;
        views.retain(|&other| other != view);
        let left = !views.is_empty();
        self.items.watchers[parent as usize].mark_views(left);
        self.narrow_upstream(parent);
        self.release(parent);
    }

    /// What has to be asked for upstream: the union of all views, or everything (`None`) if anyone wants that.
    pub(super) fn wanted_view(&self, root: ItemId) -> Option<ViewSpec> {
        if !self.items.watchers[root as usize].is_empty() {
            return None;
        }
        let mut specs = self.items.get(root).views().iter().filter_map(|&view| self.spec_of(view));
        let first = specs.next()?.clone();
        let union = specs.try_fold(first, |union, spec| union.union(spec))?;
        (!union.payload().is_empty()).then_some(union)
    }

    /// What is wanted, if it is no more than was asked for; else what was asked for.
    pub(super) fn narrowed_view(&self, root: ItemId) -> Option<ViewSpec> {
        let asked = self.items.get(root).extra.as_ref().and_then(|extra| extra.asked.as_ref());
        match (self.wanted_view(root), asked) {
            (wanted, None) => wanted,
            (Some(wanted), Some(asked)) if asked.covers(&wanted) => Some(wanted),
            (_, Some(asked)) => Some(asked.clone()),
        }
    }

    fn spec_of(&self, view: ItemId) -> Option<&ViewSpec> {
        self.view_of(view).map(|id| self.views.spec(id))
    }

    /// Remembers what was asked for upstream. With `more` images hold no more than before until one answers.
    pub(super) fn note_asked_view(&mut self, root: ItemId, view: Option<ViewSpec>, more: bool) {
        let item = self.items.get_mut(root);
        if more
            && let Some(extra) = item.extra.as_mut()
            && extra.shown.is_none()
        {
            extra.shown = extra.asked.take();
        }
        if view.is_some() || item.extra.is_some() {
            item.extra_mut().asked = view;
        }
    }

    /// Asks for more of an item if what was asked for does not cover one of its watchers. True if so: that watcher
    /// waits for the image that answers.
    pub(super) fn widen_upstream(&mut self, root: ItemId, item: ItemId) -> bool {
        let Some(extra) = self.items.get(root).extra.as_ref() else { return false };
        let spec = self.spec_of(item);
        let covered = |by: Option<&ViewSpec>| by.is_none_or(|by| spec.is_some_and(|spec| by.covers(spec)));
        // What comes now is as was asked for before, and what comes then as is asked for now: either may lack what this one wants.
        let is_asked = covered(extra.asked.as_ref());
        if is_asked && covered(extra.shown.as_ref()) {
            return false;
        }
        self.items.get_mut(item).set(bits::WIDENING);
        let root_item = self.items.get_mut(root);
        // One image at a time, so that the one that comes next is known to be the wider one.
        if is_asked && root_item.has(bits::IMAGE_ASKED) {
            // The reissue that is on its way asks for this as well.
        } else if root_item.phase != Phase::Open || root_item.has(bits::IMAGE_ASKED | bits::IN_SET) {
            root_item.set(bits::REISSUE_DUE);
        } else {
            self.reissue_upstream(root, true);
        }
        true
    }

    /// Asks for less of an item if that is all that is wanted now.
    pub(super) fn narrow_upstream(&mut self, root: ItemId) {
        let item = self.items.get(root);
        if item.phase != Phase::Open || item.views().is_empty() || item.has(bits::REISSUE_DUE | bits::IMAGE_ASKED) {
            return;
        }
        let asked = item.extra.as_ref().and_then(|extra| extra.asked.as_ref());
        if self.narrowed_view(root).as_ref() != asked {
            self.reissue_upstream(root, false);
        }
    }

    /// Gives a watcher the view it wishes; tells the item that it watches then. A view that it has no image for yet
    /// begins with one.
    pub(super) fn change_view(
        &mut self,
        client: u32,
        stream: i32,
        item: ItemId,
        wish: &Wish,
        no_refresh: bool,
    ) -> ItemId {
        if *wish == Wish::Keep {
            return item;
        }
        let root = self.items.root(item);
        let narrower = match (wish, self.spec_of(item)) {
            (Wish::View(_), None) => true,
            (Wish::View(new), Some(old)) => old.covers(new),
            _ => false,
        };
        // What it has is all that it wants from now on.
        let has_it = narrower && no_refresh && self.is_settled(client, stream, item);
        let Some(to) = self.viewed(root, wish) else { return item };
        if to == item {
            return item;
        }
        self.move_watcher(client, stream, item, to);
        if has_it {
            self.make_open(client, stream, to);
            return to;
        }
        if !no_refresh && let Some(known) = self.client_mut(client) {
            known.streams.set_flags(stream, WatchFlags::ASKED, 0);
        }
        if self.wants_image(client, stream, to) {
            self.need_image(to);
        }
        to
    }

    /// True if a watcher gets updates, and no image is owed to it in whole or in part.
    fn is_settled(&self, client: u32, stream: i32, item: ItemId) -> bool {
        let watch = self.client(client).and_then(|known| known.streams.watch(stream));
        watch.is_some_and(|(place, watch)| {
            self.items.watchers[item as usize].is_open(place) && !watch.has(WatchFlags::ASKED | WatchFlags::IN_SET)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Filtered, ViewSpec, append_filtered};
    use rwf::DataType;
    use rwf::container::{FieldList, FieldListEncoder, SetScope};
    use rwf::wire::Writer;

    fn fields(fids: &[i16]) -> ViewSpec {
        ViewSpec::Fields(fids.into())
    }

    #[test]
    fn covers_and_union() {
        let (a, b) = (fields(&[1, 2]), fields(&[2, 3]));
        assert!(!a.covers(&b));
        let union = a.union(&b).unwrap();
        assert_eq!(union, fields(&[1, 2, 3]));
        assert!(union.covers(&a) && union.covers(&b));
        assert_eq!(a.union(&ViewSpec::Elements(Box::new([b"x".to_vec()]))), None);
    }

    #[test]
    fn only_wanted_fields_pass() {
        let mut buf = [0; 100];
        let mut w = Writer::new(&mut buf);
        let mut list = FieldListEncoder::begin(&mut w).unwrap();
        for fid in [3, 22, 25, -1] {
            list.uint(fid, fid as u64 & 0x7F).unwrap();
        }
        list.finish().unwrap();
        let body = w.into_written();
        let mut out = vec![7];
        assert!(matches!(append_filtered(&fields(&[-1, 22]), DataType::FIELD_LIST, body, &mut out), Filtered::Written));
        assert_eq!(out[0], 7);
        let list = FieldList::decode(&out[1..], &SetScope::NONE).unwrap();
        let fids: Vec<i16> = list.entries().map(|entry| entry.unwrap().fid).collect();
        assert_eq!(fids, [22, -1]);
        assert!(matches!(append_filtered(&fields(&[99]), DataType::FIELD_LIST, body, &mut out), Filtered::Nothing));
        assert!(matches!(append_filtered(&fields(&[22]), DataType::MAP, body, &mut out), Filtered::Whole));
    }
}
