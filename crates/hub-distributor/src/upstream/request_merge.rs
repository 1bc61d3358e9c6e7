//! The request merge: what the P2PSs want of an item beyond the item itself (priority, pause, a view or another payload), and the
//! one request that is what all of them together need.
//!
//! Most want nothing special, and cost nothing here.

use crate::ids::{Handle, Slot};
use rustc_hash::{FxHashMap, FxHashSet};
use rwf::DataType;
use rwf::msg::{Priority, RequestFlags, RequestMsg};
use rwf::rdm::request::{Payload, View};
use rwf::wire::encode_growing;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The demand of one P2PS for one item.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Demand {
    slot: Slot,
    priority: Priority,
    pause: bool,
    /// `HAS_VIEW` and whatever else of the request's flags the provider should see.
    flags: RequestFlags,
    container: DataType,
    body: Arc<[u8]>,
    ext_header: Option<Arc<[u8]>>,
}

/// What demands carry, each once: a batch of a client asks for all of its items with the same. Clients choose the bytes, so they are found by
/// comparison and not by hash.
#[derive(Debug, Default)]
struct Payloads {
    shared: BTreeSet<Arc<[u8]>>,
}

impl Payloads {
    fn share(&mut self, bytes: &[u8]) -> Arc<[u8]> {
        if bytes.is_empty() {
            return Arc::default();
        }
        if let Some(known) = self.shared.get(bytes) {
            return Arc::clone(known);
        }
        let new: Arc<[u8]> = bytes.into();
        self.shared.insert(Arc::clone(&new));
        new
    }

    /// A demand is over.
    fn release(&mut self, demand: &Demand) {
        let Demand { body, ext_header, .. } = demand;
        for payload in [Some(body), ext_header.as_ref()].into_iter().flatten() {
            // The set has it, and the demand: twice where its body and header are the same bytes.
            let own = 1 + usize::from(ext_header.as_ref().is_some_and(|header| Arc::ptr_eq(body, header)));
            if Arc::strong_count(payload) == 1 + own {
                self.shared.remove(payload);
            }
        }
    }
}

/// The demands of all P2PSs together, as a request carries them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Merged<'a> {
    pub(crate) priority: Priority,
    pub(crate) pause: bool,
    pub(crate) flags: RequestFlags,
    pub(crate) container: DataType,
    pub(crate) body: &'a [u8],
    pub(crate) ext_header: Option<&'a [u8]>,
}

/// The demands by item.
#[derive(Debug, Default)]
pub(crate) struct RequestMerge {
    items: FxHashMap<Handle, Vec<Demand>>,
    payloads: Payloads,
    /// Items of which a request on their present stream asked for a view, or paused them: their images may lack what somebody else wants,
    /// or be followed by no updates.
    narrowed: FxHashSet<Handle>,
    /// Items that the last request on their present stream has paused.
    paused: FxHashSet<Handle>,
    /// The priorities that were asked for last on items' present streams, where they are of another class than the usual one.
    raised: FxHashMap<Handle, Priority>,
    /// A view that is the union of several.
    union: Vec<u8>,
}

const KEPT_FLAGS: [RequestFlags; 4] = [
    RequestFlags::HAS_VIEW,
    RequestFlags::QUALIFIED_STREAM,
    RequestFlags::MSG_KEY_IN_UPDATES,
    RequestFlags::CONF_INFO_IN_UPDATES,
];

impl RequestMerge {
    /// Notes what `slot` asks for with this request, in place of what it asked for before.
    pub(crate) fn note(&mut self, handle: Handle, slot: Slot, request: &RequestMsg<'_>) {
        self.forget(handle, slot);
        if is_plain(request) {
            return;
        }
        let mut flags = RequestFlags::NONE;
        for flag in KEPT_FLAGS {
            flags.set(flag, request.flags.contains(flag));
        }
        self.items.entry(handle).or_default().push(Demand {
            slot,
            priority: request.priority.unwrap_or_default(),
            pause: request.flags.contains(RequestFlags::PAUSE),
            flags,
            container: request.container,
            body: self.payloads.share(request.body),
            ext_header: request.ext_header.map(|header| self.payloads.share(header)),
        });
    }

    /// The P2PS is no longer interested.
    pub(crate) fn forget(&mut self, handle: Handle, slot: Slot) {
        if self.items.is_empty() {
            return;
        }
        if let Some(demands) = self.items.get_mut(&handle) {
            demands.extract_if(.., |demand| demand.slot == slot).for_each(|demand| self.payloads.release(&demand));
            if demands.is_empty() {
                self.items.remove(&handle);
            }
        }
    }

    /// The item is gone.
    pub(crate) fn forget_item(&mut self, handle: Handle) {
        if !self.items.is_empty()
            && let Some(demands) = self.items.remove(&handle)
        {
            for demand in &demands {
                self.payloads.release(demand);
            }
        }
        self.left_stream(handle);
    }

    /// A request was sent on the item's stream: for a view, with a pause, with a priority.
    pub(crate) fn note_sent(&mut self, handle: Handle, view: bool, pause: bool, priority: Priority) {
        if priority.class != Priority::default().class {
            self.raised.insert(handle, priority);
        } else if !self.raised.is_empty() {
            self.raised.remove(&handle);
        }
        if view || pause {
            self.narrowed.insert(handle);
        }
        if pause {
            self.paused.insert(handle);
        } else if !self.paused.is_empty() {
            self.paused.remove(&handle);
        }
    }

    /// Whether images on the item's present stream may hold a view only, or be of a time in which it was paused.
    pub(crate) fn is_narrowed(&self, handle: Handle) -> bool {
        !self.narrowed.is_empty() && self.narrowed.contains(&handle)
    }

    /// Whether the last request on the item's present stream has paused it.
    pub(crate) fn is_paused(&self, handle: Handle) -> bool {
        self.paused.contains(&handle)
    }

    /// Whether those that watch want an item paused that is not.
    pub(crate) fn is_to_pause(&self, handle: Handle, watching: usize) -> bool {
        let demands = self.items.get(&handle).map(Vec::as_slice).unwrap_or_default();
        !self.paused.contains(&handle) && wants_pause(demands, watching)
    }

    /// Whether the last request on the item's present stream asked for another priority than its P2PSs want. Of the usual class, which most
    /// items have, how many they are is worth no request.
    pub(crate) fn is_priority_due(&self, handle: Handle, watching: usize) -> bool {
        if self.items.is_empty() && self.raised.is_empty() {
            return false;
        }
        let (usual, wanted) = (Priority::default(), self.priority(handle, watching));
        let sent = self.raised.get(&handle).copied().unwrap_or(usual);
        sent != wanted && (sent.class, wanted.class) != (usual.class, usual.class)
    }

    /// The item is off its stream: the next one is asked for all that is wanted by then.
    pub(crate) fn left_stream(&mut self, handle: Handle) {
        if !self.raised.is_empty() {
            self.raised.remove(&handle);
        }
        // Paused P2PSs are among the narrowed ones, so one look is enough.
        if !self.narrowed.is_empty() {
            self.narrowed.remove(&handle);
            self.paused.remove(&handle);
        }
    }

    /// The items that something special is known of.
    pub(crate) fn handles(&self) -> impl Iterator<Item = Handle> + '_ {
        self.items.keys().chain(&self.narrowed).chain(self.raised.keys()).copied()
    }

    /// The priority that all who have an item open ask for together, given how many P2PSs those are.
    pub(crate) fn priority(&self, handle: Handle, watching: usize) -> Priority {
        let demands = self.items.get(&handle).map(Vec::as_slice).unwrap_or_default();
        priority_of(demands, watching)
    }

    /// The request for the provider, given how many P2PSs have the item open.
    pub(crate) fn merged(&mut self, handle: Handle, watching: usize) -> Merged<'_> {
        let demands = self.items.get(&handle).map(Vec::as_slice).unwrap_or_default();
        let plain = watching.saturating_sub(demands.len());
        let priority = priority_of(demands, watching);
        let mut flags = RequestFlags::NONE;
        for demand in demands {
            for flag in KEPT_FLAGS {
                flags.set(flag, flags.contains(flag) || demand.flags.contains(flag));
            }
        }
        flags.set(RequestFlags::HAS_VIEW, false);
        let mut merged = Merged {
            priority,
            pause: wants_pause(demands, watching),
            flags,
            container: DataType::NO_DATA,
            body: &[],
            ext_header: demands.iter().find_map(|demand| demand.ext_header.as_deref()),
        };
        let Some(first) = demands.iter().find(|demand| !demand.body.is_empty()) else { return merged };
        let views = demands.iter().filter(|demand| demand.flags.contains(RequestFlags::HAS_VIEW)).count();
        if views == 0 {
            (merged.container, merged.body) = (first.container, &first.body);
        } else if plain == 0 && views == demands.len() {
            let bodies: Vec<&[u8]> = demands.iter().map(|demand| &*demand.body).collect();
            if let Some(body) = union(&bodies, &mut self.union) {
                merged.flags.set(RequestFlags::HAS_VIEW, true);
                (merged.container, merged.body) = (first.container, body);
            }
        }
        merged
    }
}

/// The highest class, and the counts of all that are in it. Who asks for nothing special is one of class 1.
fn priority_of(demands: &[Demand], watching: usize) -> Priority {
    let plain = Priority { class: 1, count: watching.saturating_sub(demands.len()) as u16 };
    let sum = demands.iter().fold(plain, |sum, demand| add(sum, demand.priority));
    Priority { count: sum.count.max(1), ..sum }
}

/// Whether a request asks for nothing beyond the item itself.
fn is_plain(request: &RequestMsg<'_>) -> bool {
    request.priority.is_none_or(|priority| priority == Priority::default())
        && !request.flags.contains(RequestFlags::PAUSE)
        && !KEPT_FLAGS.into_iter().any(|flag| request.flags.contains(flag))
        && request.body.is_empty()
        && request.ext_header.is_none()
}

/// Whether all P2PSs that watch want the item paused.
fn wants_pause(demands: &[Demand], watching: usize) -> bool {
    !demands.is_empty() && demands.len() >= watching && demands.iter().all(|demand| demand.pause)
}

/// The higher class counts, with the requesters of both if they are equal.
fn add(a: Priority, b: Priority) -> Priority {
    match a.class.cmp(&b.class) {
        _ if a.count == 0 => b,
        _ if b.count == 0 => a,
        std::cmp::Ordering::Less => b,
        std::cmp::Ordering::Greater => a,
        std::cmp::Ordering::Equal => Priority { class: a.class, count: a.count.saturating_add(b.count) },
    }
}

/// Longest list of the fields that several P2PSs want of an item.
const VIEW_MAX: usize = 64 << 20;

/// One view that holds all of them; `None` if only the whole item does.
fn union<'a>(views: &[&'a [u8]], out: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    let first = *views.first()?;
    if views.iter().all(|view| *view == first) {
        return Some(first);
    }
    let mut whole: Option<View> = None;
    for body in views {
        let view = Payload::decode(DataType::ELEMENT_LIST, body).ok()?.view?;
        whole = Some(match whole {
            None => view,
            Some(whole) => join(whole, view)?,
        });
    }
    let payload = Payload { view: whole, ..Payload::default() };
    let length = encode_growing(out, 0, 256, VIEW_MAX, |w| payload.encode(w)).ok()?;
    Some(&out[..length])
}

/// The fields of both; `None` for views of different kinds.
fn join(a: View, b: View) -> Option<View> {
    fn add<T: Ord>(mut a: Vec<T>, b: Vec<T>) -> Vec<T> {
        a.extend(b);
        a.sort_unstable();
        a.dedup();
        a
    }
    match (a, b) {
        (View::Fields(a), View::Fields(b)) => Some(View::Fields(add(a, b))),
        (View::Elements(a), View::Elements(b)) => Some(View::Elements(add(a, b))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::RequestMerge;
    use crate::ids::{Handle, Slot};
    use rwf::DataType;
    use rwf::msg::{Domain, RequestMsg};

    #[test]
    fn items_asked_for_with_one_payload_share_it_until_the_last_is_gone() {
        let mut merge = RequestMerge::default();
        let asked = |body| RequestMsg { container: DataType::OPAQUE, body, ..RequestMsg::new(Domain::MARKET_PRICE, 0) };
        for handle in (0..4).map(Handle) {
            merge.note(handle, Slot(0), &asked(b"a payload"));
        }
        merge.note(Handle(3), Slot(1), &RequestMsg { ext_header: Some(b"more"), ..asked(b"more") });
        assert_eq!(merge.payloads.shared.len(), 2);
        merge.note(Handle(0), Slot(0), &asked(b"another one"));
        assert_eq!(merge.payloads.shared.len(), 3);
        merge.forget(Handle(3), Slot(1));
        merge.forget_item(Handle(3));
        merge.forget(Handle(0), Slot(0));
        merge.forget_item(Handle(1));
        assert_eq!(merge.payloads.shared.len(), 1, "one item is left");
        assert_eq!(merge.merged(Handle(2), 1).body, b"a payload");
        merge.forget_item(Handle(2));
        assert!(merge.payloads.shared.is_empty());
    }
}
