//! Priorities that items have whoever asks for them: those of a list that is taken over as a whole (RMDS `itemPriorityFile`), and the locks
//! of operators. They count where an item is to give its place to another ([`super::preemption`]); providers are not told of them.

use crate::SourceDistributor;
use std::collections::BTreeMap;
use std::fmt;

/// Items that operators may have locked at a time.
pub const LOCKED_MAX: usize = 10_000;

/// The entry of a list for an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemPriority {
    /// The item is asked for with this priority class at least.
    Class(u8),
    /// The item gives its place to nobody.
    Locked,
}

/// Names of items by the names of their services; those of the empty service are of all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ItemPriorities(BTreeMap<String, BTreeMap<Box<[u8]>, ItemPriority>>);

impl ItemPriorities {
    /// None.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds an item; of all services if `service` is empty. What was said of it before counts no more.
    pub fn add(&mut self, service: &str, name: &[u8], priority: ItemPriority) {
        self.0.entry(service.to_owned()).or_default().insert(name.into(), priority);
    }

    /// Items in it.
    pub fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// True without items.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The priority that the list gives an item: in its service, or else in all.
    pub fn of(&self, service: &str, name: &[u8]) -> Option<ItemPriority> {
        [service, ""].iter().find_map(|&of| self.0.get(of)?.get(name).copied())
    }
}

/// Why an item cannot be locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockError {
    /// There are so many already.
    TooMany,
    /// The item is locked already.
    Already,
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(f, "{LOCKED_MAX} items are locked, the most that can be: unlock some first"),
            Self::Already => write!(f, "the item is locked already"),
        }
    }
}

impl std::error::Error for LockError {}

/// Items that operators have locked, and why: service, name.
#[derive(Debug, Default)]
pub(crate) struct Locked(BTreeMap<(String, Vec<u8>), String>);

impl Locked {
    /// Whether an operator has locked an item.
    pub(super) fn has(&self, service: &str, name: &[u8]) -> bool {
        !self.0.is_empty() && self.0.contains_key(&(service.to_owned(), name.to_vec()))
    }
}

impl SourceDistributor {
    /// An item gives its place to nobody from now on, in whatever domain, whether or not it is open now.
    ///
    /// # Errors
    /// An operator has locked it already, or too many are.
    pub fn lock_item(&mut self, service: &str, name: &[u8], why: &str) -> Result<(), LockError> {
        let locked = &mut self.upstream.locked.0;
        let key = (service.to_owned(), name.to_vec());
        if locked.contains_key(&key) {
            return Err(LockError::Already);
        }
        if locked.len() >= LOCKED_MAX {
            return Err(LockError::TooMany);
        }
        locked.insert(key, why.to_owned());
        Ok(())
    }

    /// An item may give its place to another again; false if no operator has locked it.
    pub fn unlock_item(&mut self, service: &str, name: &[u8]) -> bool {
        self.upstream.locked.0.remove(&(service.to_owned(), name.to_vec())).is_some()
    }

    /// The items that operators have locked: service, name, why.
    pub fn locked_items(&self) -> impl Iterator<Item = (&str, &[u8], &str)> {
        self.upstream.locked.0.iter().map(|((service, name), why)| (service.as_str(), name.as_slice(), why.as_str()))
    }
}
