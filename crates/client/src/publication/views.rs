//! The views through which consumers watch published items, and what those leave of a message.
//!
//! A body is cut once for each view, however many streams watch through it.

use rwf::DataType;
use rwf::StateCode;
use rwf::msg::MsgClass;
use rwf::passing::{Left, Passing, append_passing};
use rwf::rdm::request::View;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Fields or elements that pass, in ascending order.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subset {
    Fields(Vec<i16>),
    Elements(Vec<Vec<u8>>),
}

impl Passing for Subset {
    fn filters(&self, list: DataType) -> bool {
        match self {
            Self::Fields(_) => list == DataType::FIELD_LIST,
            Self::Elements(_) => list == DataType::ELEMENT_LIST,
        }
    }

    fn field(&self, fid: i16) -> bool {
        match self {
            Self::Fields(fids) => fids.binary_search(&fid).is_ok(),
            Self::Elements(_) => true,
        }
    }

    fn element(&self, name: &[u8]) -> bool {
        match self {
            Self::Fields(_) => true,
            Self::Elements(names) => names.binary_search_by(|known| known.as_slice().cmp(name)).is_ok(),
        }
    }
}

/// A view that somebody watches through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ViewId(u32);

/// The result of the last cut through a view.
#[derive(Debug, Clone)]
enum Cut {
    Whole,
    /// Nothing passes of an update.
    Nothing,
    Part(Range<usize>),
}

#[derive(Debug)]
struct Slot {
    subset: Arc<Subset>,
    /// Streams that watch through it; with none the slot is free.
    watchers: usize,
    cut: (u64, Cut),
}

/// Views by what they show: those that are equal are one.
#[derive(Debug, Default)]
pub(super) struct Views {
    slots: Vec<Slot>,
    free: Vec<u32>,
    known: BTreeMap<Arc<Subset>, u32>,
    /// Bodies so far; a cut of an earlier one is void.
    serial: u64,
    cut: Vec<u8>,
}

impl Views {
    /// The view of one more stream, until [`Views::leave`].
    ///
    /// # Errors
    /// Code and text of the refusal: the view is of no known type, or its data are none of its type.
    pub(super) fn watch(&mut self, view: &View) -> Result<ViewId, (StateCode, &'static str)> {
        let subset = match view {
            View::Fields(fids) => Subset::Fields(ascending(fids)),
            View::Elements(names) => Subset::Elements(ascending(names)),
            View::Unsupported(_) => {
                return Err((StateCode::UNSUPPORTED_VIEW_TYPE, "views are by field ids (1) or element names (2) here"));
            }
            View::Invalid => {
                let text = ":ViewType must be 1 or 2, and :ViewData an array of field ids or of names";
                return Err((StateCode::INVALID_VIEW, text));
            }
        };
        if let Some(&at) = self.known.get(&subset) {
            self.slots[at as usize].watchers += 1;
            return Ok(ViewId(at));
        }
        let subset = Arc::new(subset);
        let slot = Slot { subset: Arc::clone(&subset), watchers: 1, cut: (0, Cut::Whole) };
        let at = self.free.pop().unwrap_or(self.slots.len() as u32);
        if at as usize == self.slots.len() {
            self.slots.push(slot);
        } else {
            self.slots[at as usize] = slot;
        }
        self.known.insert(subset, at);
        Ok(ViewId(at))
    }

    /// A stream watches through a view no more.
    pub(super) fn leave(&mut self, view: ViewId) {
        let slot = &mut self.slots[view.0 as usize];
        slot.watchers -= 1;
        if slot.watchers == 0 {
            self.known.remove(&slot.subset);
            self.free.push(view.0);
        }
    }

    /// Views that somebody watches through.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Another body is to be cut from now on.
    pub(super) fn begin(&mut self) {
        self.serial += 1;
        self.cut.clear();
    }

    /// The part of the body that a view leaves, since [`Views::begin`], of a message of a class. `None`: an update of which nothing is left.
    pub(super) fn cut<'b>(
        &'b mut self,
        view: Option<ViewId>,
        class: MsgClass,
        container: DataType,
        body: &'b [u8],
    ) -> Option<&'b [u8]> {
        let Some(ViewId(at)) = view else { return Some(body) };
        let slot = &mut self.slots[at as usize];
        if slot.cut.0 != self.serial {
            let start = self.cut.len();
            let left = append_passing(&*slot.subset, class, container, body, &mut self.cut);
            let cut = match left {
                Left::Nothing if class == MsgClass::UPDATE => Cut::Nothing,
                Left::Part | Left::Nothing => Cut::Part(start..self.cut.len()),
                Left::Whole | Left::Unreadable => Cut::Whole,
            };
            slot.cut = (self.serial, cut);
        }
        match &slot.cut.1 {
            Cut::Whole => Some(body),
            Cut::Nothing => None,
            Cut::Part(range) => Some(&self.cut[range.clone()]),
        }
    }
}

fn ascending<T: Ord + Clone>(all: &[T]) -> Vec<T> {
    let mut all = all.to_vec();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::wire::Writer;
    use rwf::{FieldList, FieldListEncoder, SetScope};

    fn body(fids: &[i16]) -> Vec<u8> {
        let mut buf = vec![0; 200];
        let mut w = Writer::new(&mut buf);
        let mut list = FieldListEncoder::begin(&mut w).expect("room");
        for fid in fids {
            list.uint(*fid, 7).expect("room");
        }
        list.finish().expect("room");
        w.written().to_vec()
    }

    fn fids(body: &[u8]) -> Vec<i16> {
        FieldList::decode(body, &SetScope::NONE)
            .expect("fields")
            .entries()
            .map(|entry| entry.expect("one").fid)
            .collect()
    }

    #[test]
    fn equal_views_are_one_and_are_cut_once() {
        let mut views = Views::default();
        let a = views.watch(&View::Fields(vec![3, 1, 3])).expect("a view");
        let b = views.watch(&View::Fields(vec![1, 3])).expect("a view");
        let c = views.watch(&View::Fields(vec![9])).expect("a view");
        assert_eq!((a, views.len()), (b, 2));
        let whole = body(&[1, 2, 3]);
        views.begin();
        let mut of = |view, class| views.cut(view, class, DataType::FIELD_LIST, &whole).map(fids);
        assert_eq!(of(None, MsgClass::UPDATE), Some(vec![1, 2, 3]));
        assert_eq!(of(Some(a), MsgClass::UPDATE), Some(vec![1, 3]));
        assert_eq!(of(Some(c), MsgClass::UPDATE), None, "nothing of an update is no update");
        let once = views.cut.len();
        assert!(views.cut(Some(b), MsgClass::UPDATE, DataType::FIELD_LIST, &whole).is_some());
        assert_eq!(views.cut.len(), once);
        views.begin();
        assert_eq!(views.cut(Some(c), MsgClass::REFRESH, DataType::FIELD_LIST, &whole).map(fids), Some(vec![]));
        views.leave(a);
        assert_eq!(views.len(), 2);
        views.leave(b);
        views.leave(c);
        assert_eq!(views.len(), 0);
        let d = views.watch(&View::Elements(vec![b"X".to_vec()])).expect("a view");
        assert_eq!(views.cut(Some(d), MsgClass::UPDATE, DataType::FIELD_LIST, &whole).map(fids), Some(vec![1, 2, 3]));
        assert_eq!(views.slots.len(), 2, "places are used again");
    }

    #[test]
    fn views_that_do_not_work_are_refused() {
        let mut views = Views::default();
        assert_eq!(views.watch(&View::Invalid).expect_err("none").0, StateCode::INVALID_VIEW);
        assert_eq!(views.watch(&View::Unsupported(9)).expect_err("none").0, StateCode::UNSUPPORTED_VIEW_TYPE);
        assert_eq!(views.len(), 0);
    }
}
