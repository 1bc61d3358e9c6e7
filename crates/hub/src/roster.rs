//! Members by what they have in common, as lists that are kept as the members change: who asks for all members of a service, a
//! source or a group looks at those and at no others.
//!
//! The owner of the members says under which key each of them is listed; a member is on one list at most. A change costs the same
//! however long the lists are, and gives up the order in a list.

use rustc_hash::FxBuildHasher;
use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::hash::{BuildHasher, Hash};

/// Lists of members, which are dense numbers. `S` hashes the keys: one with a seed where a peer chooses them.
///
/// A list stays for a while when its last member leaves: an item that passes through five states would make and free five of them.
pub(crate) struct Roster<K, S = FxBuildHasher> {
    /// By key: where its list is.
    numbers: HashMap<K, u32, S>,
    lists: Vec<List<K>>,
    /// Lists without a key.
    free: Vec<u32>,
    /// Lists that have a key and no members.
    empty: usize,
    /// By member: where it is, if it is on a list.
    places: Vec<Place>,
    /// Lists that were entered lately: members go the same way one after the other. Looking through these is a third of a lookup.
    recent: [Option<(K, u32)>; RECENT],
    /// The next one of `recent` to be replaced.
    oldest: u8,
}

struct List<K> {
    key: Option<K>,
    members: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Place {
    list: u32,
    at: u32,
}

const RECENT: usize = 4;

/// Lists without members that may stay, beside half as many as there are lists.
const EMPTY_MAX: usize = 16;

impl<K, S> Debug for Roster<K, S> {
    /// How much there is: the members are told of elsewhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roster({} lists)", self.numbers.len() - self.empty)
    }
}

impl<K: Copy + Eq + Hash + Debug> Default for Roster<K> {
    fn default() -> Self {
        Self::with_hasher(FxBuildHasher)
    }
}

impl<K: Copy + Eq + Hash + Debug, S: BuildHasher> Roster<K, S> {
    /// No lists yet; keys are hashed with `hasher`.
    pub(crate) fn with_hasher(hasher: S) -> Self {
        Self {
            numbers: HashMap::with_hasher(hasher),
            lists: Vec::new(),
            free: Vec::new(),
            empty: 0,
            places: Vec::new(),
            recent: [None; RECENT],
            oldest: 0,
        }
    }

    /// A member leaves the list that it is on, if any, and enters another, if any.
    #[inline]
    pub(crate) fn refile(&mut self, member: u32, from: Option<K>, to: Option<K>) {
        if from == to {
            return;
        }
        if let Some(from) = from {
            self.remove(member, from);
        }
        if let Some(to) = to {
            self.add(member, to);
        }
    }

    fn add(&mut self, member: u32, key: K) {
        let known = self.recent.iter().flatten().find(|(recent, _)| *recent == key);
        let list = if let Some(&(_, list)) = known { list } else { self.list_of(key) };
        let members = &mut self.lists[list as usize].members;
        self.empty -= usize::from(members.is_empty());
        let place = Place { list, at: members.len() as u32 };
        members.push(member);
        let index = member as usize;
        if self.places.len() <= index {
            self.places.resize(index + 1, Place::default());
        }
        self.places[index] = place;
    }

    /// The list of a key, which is recent from now on; a new one has no members yet.
    #[cold]
    fn list_of(&mut self, key: K) -> u32 {
        let list = self.numbers.get(&key).copied().unwrap_or_else(|| self.new_list(key));
        self.recent[usize::from(self.oldest)] = Some((key, list));
        self.oldest = (self.oldest + 1) % RECENT as u8;
        list
    }

    fn new_list(&mut self, key: K) -> u32 {
        if self.empty > EMPTY_MAX + self.numbers.len() / 2 {
            self.forget_empty();
        }
        let list = self.free.pop().unwrap_or_else(|| {
            self.lists.push(List { key: None, members: Vec::new() });
            (self.lists.len() - 1) as u32
        });
        self.lists[list as usize].key = Some(key);
        self.numbers.insert(key, list);
        self.empty += 1;
        list
    }

    /// Takes the keys of all lists that have no members.
    fn forget_empty(&mut self) {
        for (number, list) in (0..).zip(&mut self.lists) {
            if let Some(key) = list.key.take_if(|_| list.members.is_empty()) {
                list.members = Vec::new();
                self.numbers.remove(&key);
                self.free.push(number);
            }
        }
        self.empty = 0;
        self.recent = [None; RECENT];
    }

    fn remove(&mut self, member: u32, key: K) {
        let Place { list, at } = self.places[member as usize];
        let List { key: named, members } = &mut self.lists[list as usize];
        debug_assert_eq!(*named, Some(key), "the list of member {member}");
        let at = at as usize;
        assert_eq!(members.get(at), Some(&member), "the place of a member in list {key:?}");
        members.swap_remove(at);
        if let Some(&moved) = members.get(at) {
            self.places[moved as usize].at = at as u32;
        }
        self.empty += usize::from(members.is_empty());
        if members.capacity() > 64 && members.len() < members.capacity() / 4 {
            members.shrink_to(members.len() * 2);
        }
    }

    /// The members of a list, in no order.
    pub(crate) fn of(&self, key: K) -> &[u32] {
        self.numbers.get(&key).map_or(&[], |&list| &self.lists[list as usize].members)
    }

    /// Panics if a member is not on the list of this key.
    pub(crate) fn check(&self, member: u32, key: K) {
        let at = self.places.get(member as usize).map_or(usize::MAX, |place| place.at as usize);
        assert_eq!(self.of(key).get(at), Some(&member), "member {member} is not on list {key:?}");
    }

    /// Members of all lists, for checks.
    pub(crate) fn len(&self) -> usize {
        self.lists.iter().map(|list| list.members.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{EMPTY_MAX, Roster};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #[test]
        fn each_member_is_on_the_list_of_its_key(changes in prop::collection::vec((0..40_u32, prop::option::of(0..60_u8)), 0..400)) {
            let mut roster: Roster<u8> = Roster::default();
            let mut model: BTreeMap<u32, u8> = BTreeMap::new();
            for (member, key) in changes {
                roster.refile(member, model.get(&member).copied(), key);
                match key {
                    Some(key) => drop(model.insert(member, key)),
                    None => drop(model.remove(&member)),
                }
            }
            for key in 0..60 {
                let listed: BTreeSet<u32> = roster.of(key).iter().copied().collect();
                let expected: BTreeSet<u32> = model.iter().filter(|(_, other)| **other == key).map(|(&m, _)| m).collect();
                prop_assert_eq!(listed, expected);
            }
            prop_assert_eq!(roster.len(), model.len());
            let empty = roster.lists.iter().filter(|list| list.key.is_some() && list.members.is_empty()).count();
            prop_assert_eq!(roster.empty, empty);
            for (&member, &key) in &model {
                roster.check(member, key);
            }
        }
    }

    #[test]
    fn few_empty_lists_stay() {
        let mut roster: Roster<u32> = Roster::default();
        for key in 0..1000_u32 {
            roster.refile(7, key.checked_sub(1), Some(key));
        }
        assert_eq!(roster.len(), 1);
        assert!(roster.lists.len() <= 2 * (EMPTY_MAX + 2), "{} lists for one member", roster.lists.len());
        assert_eq!(roster.numbers.len() + roster.free.len(), roster.lists.len());
    }
}
