//! Members by what they have in common, as lists that are kept as the members change: who asks for all members of a service, a
//! source or a group looks at those and at no others.
//!
//! The owner of the members says under which key each of them is listed; a member is on one list at most. A change costs the same
//! however long the lists are, and gives up the order in a list.

use rustc_hash::FxBuildHasher;
use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::hash::BuildHasher;
use std::num::NonZeroU64;

/// What the members of a list have in common, as one word: lists are kept in step with each of an item's transitions, and a word is
/// compared at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListKey(NonZeroU64);

impl ListKey {
    /// The key that these two numbers are. `high` stays below 2^31.
    #[inline]
    pub const fn new(high: u32, low: u32) -> Self {
        debug_assert!(high < 1 << 31, "the highest bit tells a key from none");
        let word = 1 << 63 | (high as u64) << 32 | low as u64;
        Self(NonZeroU64::new(word).expect("its highest bit is set"))
    }
}

impl Debug for ListKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.0.get();
        write!(f, "{}.{}", (word >> 32) as u32 & !(1 << 31), word as u32)
    }
}

/// Lists of members, which are dense numbers. `S` hashes the keys: one with a seed where a peer chooses them.
///
/// A list stays for a while when its last member leaves: an item that passes through five states would make and free five of them.
pub struct Roster<S = FxBuildHasher> {
    /// By key: where its list is.
    numbers: HashMap<ListKey, u32, S>,
    lists: Vec<List>,
    /// Lists without a key.
    free: Vec<u32>,
    /// Lists that have a key and no members.
    empty: usize,
    /// By member: its place in its list, if it is on one. Which list that is, its key says: there are as many places as items.
    places: Vec<u32>,
    /// Lists that were entered lately: members go the same way one after the other. Looking through these is a third of a lookup.
    recent: [Option<ListKey>; RECENT],
    /// Where those are.
    recent_lists: [u32; RECENT],
    /// The next one of `recent` to be replaced.
    oldest: u8,
}

struct List {
    key: Option<ListKey>,
    members: Vec<u32>,
}

const RECENT: usize = 4;

/// Places are made in so many at a time (4 KB of them): members are new in the order of their numbers.
const PLACES_AT_ONCE: usize = 1024;

/// Lists without members that may stay, beside half as many as there are lists.
const EMPTY_MAX: usize = 16;

impl<S> Debug for Roster<S> {
    /// How much there is: the members are told of elsewhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roster({} lists)", self.numbers.len() - self.empty)
    }
}

impl Default for Roster {
    fn default() -> Self {
        Self::with_hasher(FxBuildHasher)
    }
}

impl<S: BuildHasher> Roster<S> {
    /// No lists yet; keys are hashed with `hasher`.
    pub fn with_hasher(hasher: S) -> Self {
        Self {
            numbers: HashMap::with_hasher(hasher),
            lists: Vec::new(),
            free: Vec::new(),
            empty: 0,
            places: Vec::new(),
            recent: [None; RECENT],
            recent_lists: [0; RECENT],
            oldest: 0,
        }
    }

    /// A member leaves the list that it is on, if any, and enters another, if any.
    #[inline]
    pub fn refile(&mut self, member: u32, from: Option<ListKey>, to: Option<ListKey>) {
        if from != to {
            self.carry(member, from, to);
        }
    }

    // Most of the lists that an item may be on stay as they are in a transition: only the comparison is to be everywhere.
    #[inline(never)]
    fn carry(&mut self, member: u32, from: Option<ListKey>, to: Option<ListKey>) {
        if let Some(from) = from {
            self.remove(member, from);
        }
        if let Some(to) = to {
            self.add(member, to);
        }
    }

    // What is rare is called and not inlined, here and in `remove`: registers that are saved for nothing are a good part of so little work.
    #[inline]
    fn add(&mut self, member: u32, key: ListKey) {
        let list = self.list(key);
        let members = &mut self.lists[list as usize].members;
        self.empty -= usize::from(members.is_empty());
        let place = members.len() as u32;
        members.push(member);
        match self.places.get_mut(member as usize) {
            Some(known) => *known = place,
            None => self.first_place(member, place),
        }
    }

    /// The place of a member with a higher number than any before: there is one for the next ones, too.
    #[cold]
    fn first_place(&mut self, member: u32, place: u32) {
        let places = (member as usize + 1).next_multiple_of(PLACES_AT_ONCE);
        self.places.resize(places, 0);
        self.places[member as usize] = place;
    }

    /// The list of a key, which is recent from now on.
    #[inline]
    fn list(&mut self, key: ListKey) -> u32 {
        let known = self.recent.iter().position(|recent| *recent == Some(key));
        if let Some(known) = known { self.recent_lists[known] } else { self.list_of(key) }
    }

    /// The list of a key that is not recent, and is from now on; a new one has no members yet.
    #[cold]
    fn list_of(&mut self, key: ListKey) -> u32 {
        let list = self.numbers.get(&key).copied().unwrap_or_else(|| self.new_list(key));
        self.recent[usize::from(self.oldest)] = Some(key);
        self.recent_lists[usize::from(self.oldest)] = list;
        self.oldest = (self.oldest + 1) % RECENT as u8;
        list
    }

    fn new_list(&mut self, key: ListKey) -> u32 {
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

    #[inline]
    fn remove(&mut self, member: u32, key: ListKey) {
        let (list, at) = (self.list(key), self.places[member as usize]);
        let members = &mut self.lists[list as usize].members;
        let last = members.pop().expect("a member is on its list");
        if last != member {
            let left = std::mem::replace(&mut members[at as usize], last);
            assert_eq!(left, member, "the place of a member in list {key:?}");
            self.places[last as usize] = at;
        }
        // Looked at now and then only: what is freed a little later is no matter.
        if members.len().is_multiple_of(64) {
            self.give_back(list);
        }
    }

    /// Frees memory of a list that has become much shorter, and notes that it is empty.
    #[cold]
    fn give_back(&mut self, list: u32) {
        let members = &mut self.lists[list as usize].members;
        self.empty += usize::from(members.is_empty());
        if members.capacity() > 64 && members.len() < members.capacity() / 4 {
            members.shrink_to(members.len() * 2);
        }
    }

    /// The members of a list, in no order.
    pub fn of(&self, key: ListKey) -> &[u32] {
        self.numbers.get(&key).map_or(&[], |&list| &self.lists[list as usize].members)
    }

    /// Panics if a member is not on the list of this key.
    pub fn check(&self, member: u32, key: ListKey) {
        let at = self.places.get(member as usize).map_or(usize::MAX, |&at| at as usize);
        assert_eq!(self.of(key).get(at), Some(&member), "member {member} is not on list {key:?}");
    }

    /// No list has a member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Members of all lists, for checks.
    pub fn len(&self) -> usize {
        self.lists.iter().map(|list| list.members.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{EMPTY_MAX, ListKey, Roster};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #[test]
        fn each_member_is_on_the_list_of_its_key(changes in prop::collection::vec((0..40_u32, prop::option::of((0..60_u32).prop_map(|low| ListKey::new(low % 3, low)))), 0..400)) {
            let mut roster = Roster::default();
            let mut model: BTreeMap<u32, ListKey> = BTreeMap::new();
            for (member, key) in changes {
                roster.refile(member, model.get(&member).copied(), key);
                match key {
                    Some(key) => drop(model.insert(member, key)),
                    None => drop(model.remove(&member)),
                }
            }
            for key in (0..60).map(|low| ListKey::new(low % 3, low)) {
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
        let mut roster = Roster::default();
        for key in 0..1000_u32 {
            let list = |key| ListKey::new(1, key);
            roster.refile(7, key.checked_sub(1).map(list), Some(list(key)));
        }
        assert_eq!(roster.len(), 1);
        assert!(roster.lists.len() <= 2 * (EMPTY_MAX + 2), "{} lists for one member", roster.lists.len());
        assert_eq!(roster.numbers.len() + roster.free.len(), roster.lists.len());
    }
}
