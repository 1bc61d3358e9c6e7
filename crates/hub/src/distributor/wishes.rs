//! What the P2PSs want of an item beyond the item itself: priority, pause, a view or another payload.
//!
//! Most want nothing special, and cost nothing here. What goes to the provider is what all of them together need.

use super::peers::Slots;
use rustc_hash::FxHashMap;
use rwf::msg::{Priority, RequestFlags, RequestMsg};
use rwf::rdm::request::{Payload, View};
use rwf::wire::Writer;
use rwf::{DataType, EncodeError};

/// The wishes of one P2PS for one item.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wish {
    slot: u8,
    priority: Priority,
    pause: bool,
    /// `HAS_VIEW` and whatever else of the request's flags the provider should see.
    flags: RequestFlags,
    container: DataType,
    body: Box<[u8]>,
    ext_header: Option<Box<[u8]>>,
}

/// Wishes of all P2PSs together, as a request carries them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Merged<'a> {
    pub(super) priority: Priority,
    pub(super) pause: bool,
    pub(super) flags: RequestFlags,
    pub(super) container: DataType,
    pub(super) body: &'a [u8],
    pub(super) ext_header: Option<&'a [u8]>,
}

/// The wishes by item.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    items: FxHashMap<u32, Vec<Wish>>,
    /// A view that is the union of several.
    union: Vec<u8>,
}

const KEPT_FLAGS: [RequestFlags; 4] = [
    RequestFlags::HAS_VIEW,
    RequestFlags::QUALIFIED_STREAM,
    RequestFlags::MSG_KEY_IN_UPDATES,
    RequestFlags::CONF_INFO_IN_UPDATES,
];

impl Wishes {
    /// Notes what `slot` asks for with this request, in place of what it asked for before.
    pub(super) fn note(&mut self, handle: u32, slot: u8, request: &RequestMsg<'_>) {
        let mut flags = RequestFlags::NONE;
        for flag in KEPT_FLAGS {
            flags.set(flag, request.flags.contains(flag));
        }
        let wish = Wish {
            slot,
            priority: request.priority.unwrap_or_default(),
            pause: request.flags.contains(RequestFlags::PAUSE),
            flags,
            container: request.container,
            body: request.body.into(),
            ext_header: request.ext_header.map(Into::into),
        };
        self.forget(handle, slot);
        if !wish.is_plain() {
            self.items.entry(handle).or_default().push(wish);
        }
    }

    /// The P2PS is no longer interested.
    pub(super) fn forget(&mut self, handle: u32, slot: u8) {
        if self.items.is_empty() {
            return;
        }
        if let Some(wishes) = self.items.get_mut(&handle) {
            wishes.retain(|wish| wish.slot != slot);
            if wishes.is_empty() {
                self.items.remove(&handle);
            }
        }
    }

    /// The item is gone.
    pub(super) fn forget_item(&mut self, handle: u32) {
        self.items.remove(&handle);
    }

    /// What to ask the provider for, given who is interested (a bit for each slot).
    pub(super) fn merged(&mut self, handle: u32, interest: Slots) -> Merged<'_> {
        let wishes = self.items.get(&handle).map(Vec::as_slice).unwrap_or_default();
        let plain = interest.count_ones() as usize - wishes.len().min(interest.count_ones() as usize);
        let mut priority = Priority { class: 1, count: plain as u16 };
        let mut flags = RequestFlags::NONE;
        for wish in wishes {
            priority = add(priority, wish.priority);
            for flag in KEPT_FLAGS {
                flags.set(flag, flags.contains(flag) || wish.flags.contains(flag));
            }
        }
        priority.count = priority.count.max(1);
        flags.set(RequestFlags::HAS_VIEW, false);
        let mut merged = Merged {
            priority,
            pause: plain == 0 && !wishes.is_empty() && wishes.iter().all(|wish| wish.pause),
            flags,
            container: DataType::NO_DATA,
            body: &[],
            ext_header: wishes.iter().find_map(|wish| wish.ext_header.as_deref()),
        };
        let Some(first) = wishes.iter().find(|wish| !wish.body.is_empty()) else { return merged };
        let views = wishes.iter().filter(|wish| wish.flags.contains(RequestFlags::HAS_VIEW)).count();
        if views == 0 {
            (merged.container, merged.body) = (first.container, &first.body);
        } else if plain == 0 && views == wishes.len() {
            let bodies: Vec<&[u8]> = wishes.iter().map(|wish| &*wish.body).collect();
            if let Some(body) = union(&bodies, &mut self.union) {
                merged.flags.set(RequestFlags::HAS_VIEW, true);
                (merged.container, merged.body) = (first.container, body);
            }
        }
        merged
    }
}

impl Wish {
    fn is_plain(&self) -> bool {
        self.priority == Priority::default()
            && !self.pause
            && self.flags == RequestFlags::NONE
            && self.body.is_empty()
            && self.ext_header.is_none()
    }
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
    let mut room = 256;
    loop {
        out.resize(room, 0);
        let mut w = Writer::new(out);
        match payload.encode(&mut w) {
            Ok(()) => {
                let length = w.position();
                return Some(&out[..length]);
            }
            Err(EncodeError::BufferFull) => room *= 4,
            Err(_) => return None,
        }
    }
}

/// The fields of both; `None` for views of different kinds.
fn join(a: View, b: View) -> Option<View> {
    fn add<T: PartialEq>(mut a: Vec<T>, b: Vec<T>) -> Vec<T> {
        for value in b {
            if !a.contains(&value) {
                a.push(value);
            }
        }
        a
    }
    match (a, b) {
        (View::Fields(a), View::Fields(b)) => Some(View::Fields(add(a, b))),
        (View::Elements(a), View::Elements(b)) => Some(View::Elements(add(a, b))),
        _ => None,
    }
}
