//! Items that nobody gets: those that operators have blocked one by one, each with why, and those of a list that is taken over as a whole.

use super::Gate;
use crate::P2ps;
use crate::clients::refusal::Refusal;
use crate::ids::ItemId;
use crate::items::telling::Telling;
use rwf::{DataState, State, StateCode, StreamState};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Items that operators may have blocked at a time.
pub const BLOCKED_MAX: usize = 10_000;
/// Why an item of the list is blocked.
const LISTED: &str = "it is in the list of blocked items (blockedItemsFile)";

/// Names of items by the names of their services; those of the empty service are of all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockedList(BTreeMap<String, BTreeSet<Box<[u8]>>>);

impl BlockedList {
    /// Adds an item; of all services if `service` is empty.
    pub fn add(&mut self, service: &str, name: &[u8]) {
        if let Some(names) = self.0.get_mut(service) {
            names.insert(name.into());
        } else {
            self.0.insert(service.to_owned(), [name.into()].into());
        }
    }

    /// True if an item is in it.
    pub fn has(&self, service: &str, name: &[u8]) -> bool {
        ["", service].iter().any(|&of| self.0.get(of).is_some_and(|names| names.contains(name)))
    }

    /// Items in it.
    pub fn len(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }

    /// True without items.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().flat_map(|(service, names)| names.iter().map(move |name| (service.as_str(), &**name)))
    }
}

/// Items that are blocked.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    /// By operators: service, name, why.
    items: BTreeMap<(String, Vec<u8>), String>,
    list: BlockedList,
}

impl Blocked {
    pub(crate) fn new(list: BlockedList) -> Self {
        Self { items: BTreeMap::new(), list }
    }

    /// Why an item is blocked, if it is.
    pub(crate) fn why(&self, service: &str, name: Option<&[u8]>) -> Option<&str> {
        if !self.list.is_empty() && self.list.has(service, name?) {
            return Some(LISTED);
        }
        if self.items.is_empty() {
            return None;
        }
        self.items.get(&(service.to_owned(), name?.to_vec())).map(String::as_str)
    }
}

/// Why an item cannot be blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockError {
    /// There are so many already.
    TooMany,
    /// The item is blocked already.
    Already,
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(f, "{BLOCKED_MAX} items are blocked, the most that can be: unblock some first"),
            Self::Already => write!(f, "the item is blocked already"),
        }
    }
}

impl std::error::Error for BlockError {}

impl P2ps {
    /// Nobody gets an item from now on: its watchers are told so, which ends their streams, and later requests are refused. Tells how many
    /// watched it. The block is of the name, in whatever domain, whether or not the service is there now.
    ///
    /// # Errors
    /// It is blocked already, or too many are.
    pub fn block_item(&mut self, now: u64, service: &str, name: &[u8], why: &str) -> Result<usize, BlockError> {
        self.now = now;
        let key = (service.to_owned(), name.to_vec());
        if self.gate.blocked.items.contains_key(&key) || self.gate.blocked.list.has(service, name) {
            return Err(BlockError::Already);
        }
        if self.gate.blocked.items.len() >= BLOCKED_MAX {
            return Err(BlockError::TooMany);
        }
        self.gate.blocked.items.insert(key, why.to_owned());
        let items: Vec<ItemId> = self.items_named(service, name, self.items.all_ids()).collect();
        Ok(self.end_blocked(&items, why))
    }

    /// An item may be watched again; false if no operator has blocked it.
    pub fn unblock_item(&mut self, service: &str, name: &[u8]) -> bool {
        self.gate.blocked.items.remove(&(service.to_owned(), name.to_vec())).is_some()
    }

    /// True if an item is in the list of blocked items.
    pub fn is_listed_as_blocked(&self, service: &str, name: &[u8]) -> bool {
        self.gate.blocked.list.has(service, name)
    }

    /// Another list of blocked items: the watchers of those that are new in it are told, which ends their streams; those that are in it no
    /// more may be watched again. Tells how many watched. What operators have blocked stays so.
    pub fn set_blocked_list(&mut self, now: u64, list: BlockedList) -> usize {
        self.now = now;
        let before = std::mem::replace(&mut self.gate.blocked.list, list);
        let Self { gate: Gate { blocked, .. }, items, sources, .. } = self;
        let services = sources.services();
        if blocked.list.is_empty() || blocked.list == before {
            return 0;
        }
        let is_new = |id: &ItemId| {
            let item = items.get(*id);
            let service = services.get(item.service()).map_or("", |service| service.name.as_str());
            let key = item.key();
            let name = key.name.unwrap_or_default();
            !item.is_view() && blocked.list.has(service, name) && !before.has(service, name)
        };
        let fresh: Vec<ItemId> = items.ids().filter(is_new).collect();
        self.end_blocked(&fresh, LISTED)
    }

    /// Ends items for their watchers; tells how many those are.
    fn end_blocked(&mut self, items: &[ItemId], why: &str) -> usize {
        let text = Refusal::Blocked { why }.to_string();
        let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_ENTITLED, &text);
        let mut watchers = 0;
        for &id in items {
            let views: usize = self.items.views_of(id).iter().map(|&view| self.items.watchers(view).len()).sum();
            watchers += views + self.items.watchers(id).len();
            self.tell_item(id, state, Telling::ALL);
        }
        watchers
    }

    /// The blocked items: service (empty for all), name, and why; those of the list last.
    pub fn blocked_items(&self) -> impl Iterator<Item = (&str, &[u8], &str)> {
        let by_operators = self
            .gate
            .blocked
            .items
            .iter()
            .map(|((service, name), why)| (service.as_str(), name.as_slice(), why.as_str()));
        by_operators.chain(self.gate.blocked.list.iter().map(|(service, name)| (service, name, LISTED)))
    }

    /// Why an item is blocked, if it is.
    pub fn why_blocked(&self, service: &str, name: &[u8]) -> Option<&str> {
        self.gate.blocked.why(service, Some(name))
    }
}
