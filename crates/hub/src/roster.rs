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
pub(crate) struct Roster<K, S = FxBuildHasher> {
    lists: HashMap<K, Vec<u32>, S>,
    /// By member: its place in its list, if it is on one.
    places: Vec<u32>,
}

impl<K, S> Debug for Roster<K, S> {
    /// How much there is: the members are told of elsewhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roster({} lists)", self.lists.len())
    }
}

impl<K> Default for Roster<K> {
    fn default() -> Self {
        Self { lists: HashMap::default(), places: Vec::new() }
    }
}

impl<K: Copy + Eq + Hash + Debug, S: BuildHasher> Roster<K, S> {
    /// No lists yet; keys are hashed with `hasher`.
    pub(crate) fn with_hasher(hasher: S) -> Self {
        Self { lists: HashMap::with_hasher(hasher), places: Vec::new() }
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
        let at = member as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, 0);
        }
        let list = self.lists.entry(key).or_default();
        self.places[at] = list.len() as u32;
        list.push(member);
    }

    fn remove(&mut self, member: u32, key: K) {
        let list = self.lists.get_mut(&key).expect("a member leaves a list that it is on");
        let place = self.places[member as usize] as usize;
        assert_eq!(list.get(place), Some(&member), "the place of a member in list {key:?}");
        list.swap_remove(place);
        if let Some(&moved) = list.get(place) {
            self.places[moved as usize] = place as u32;
        }
        if list.is_empty() {
            self.lists.remove(&key);
        } else if list.capacity() > 64 && list.len() < list.capacity() / 4 {
            list.shrink_to(list.len() * 2);
        }
    }

    /// The members of a list, in no order.
    pub(crate) fn of(&self, key: K) -> &[u32] {
        self.lists.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Panics if a member is not on the list of this key.
    pub(crate) fn check(&self, member: u32, key: K) {
        let place = self.places.get(member as usize).map_or(usize::MAX, |&place| place as usize);
        assert_eq!(self.of(key).get(place), Some(&member), "member {member} is not on list {key:?}");
    }

    /// Members of all lists, for checks.
    pub(crate) fn len(&self) -> usize {
        self.lists.values().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Roster;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #[test]
        fn each_member_is_on_the_list_of_its_key(changes in prop::collection::vec((0..40_u32, prop::option::of(0..6_u8)), 0..400)) {
            let mut roster: Roster<u8> = Roster::default();
            let mut model: BTreeMap<u32, u8> = BTreeMap::new();
            for (member, key) in changes {
                roster.refile(member, model.get(&member).copied(), key);
                match key {
                    Some(key) => drop(model.insert(member, key)),
                    None => drop(model.remove(&member)),
                }
            }
            for key in 0..6 {
                let listed: BTreeSet<u32> = roster.of(key).iter().copied().collect();
                let expected: BTreeSet<u32> = model.iter().filter(|(_, other)| **other == key).map(|(&m, _)| m).collect();
                prop_assert_eq!(listed, expected);
            }
            prop_assert_eq!(roster.len(), model.len());
            for (&member, &key) in &model {
                roster.check(member, key);
            }
        }
    }

    #[test]
    fn empty_lists_are_forgotten() {
        let mut roster: Roster<u32> = Roster::default();
        for key in 0..1000_u32 {
            roster.refile(7, key.checked_sub(1), Some(key));
        }
        assert_eq!(roster.lists.len(), 1);
    }
}
