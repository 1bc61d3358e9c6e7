//! Work in the order in which it came, of which there is one piece for a key at most.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::hash::Hash;

/// A queue whose entries are found by their keys: with five thousand services in it, what is said of one does not look at the others.
/// Keys are numbers of our own, chosen by no peer.
#[derive(Debug)]
pub struct KeyedQueue<K, V> {
    order: VecDeque<K>,
    by_key: FxHashMap<K, V>,
}

impl<K, V> Default for KeyedQueue<K, V> {
    fn default() -> Self {
        Self { order: VecDeque::new(), by_key: FxHashMap::default() }
    }
}

impl<K: Copy + Eq + Hash, V> KeyedQueue<K, V> {
    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether something waits under this key.
    pub fn contains(&self, key: K) -> bool {
        self.by_key.contains_key(&key)
    }

    /// The values that wait under this key.
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.by_key.get_mut(&key)
    }

    /// An entry behind all others. Its key has none yet.
    pub fn push_back(&mut self, key: K, value: V) {
        let before = self.by_key.insert(key, value);
        debug_assert!(before.is_none(), "a key has one entry");
        self.order.push_back(key);
    }

    /// Takes out an entry wherever it is, which looks at all keys.
    pub fn remove(&mut self, key: K) -> Option<V> {
        let value = self.by_key.remove(&key)?;
        self.order.retain(|other| *other != key);
        Some(value)
    }

    /// The entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.order.iter().map(|&key| (key, &self.by_key[&key]))
    }

    /// The entry that came first.
    pub fn front(&self) -> Option<(K, &V)> {
        let key = *self.order.front()?;
        Some((key, &self.by_key[&key]))
    }

    /// The value that came first of all, and its key.
    pub fn front_mut(&mut self) -> Option<(K, &mut V)> {
        let key = *self.order.front()?;
        Some((key, self.by_key.get_mut(&key)?))
    }

    /// Takes what came first of all, and its key.
    pub fn pop_front(&mut self) -> Option<(K, V)> {
        let key = self.order.pop_front()?;
        let value = self.by_key.remove(&key);
        debug_assert!(value.is_some(), "what is in order is known by its key");
        Some((key, value?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_what_came_first_and_finds_by_key() {
        let mut queue = KeyedQueue::default();
        for (key, value) in [(7, 'a'), (3, 'b'), (5, 'c')] {
            queue.push_back(key, value);
        }
        *queue.get_mut(3).expect("known") = 'd';
        assert!(queue.contains(5) && !queue.contains(4));
        assert_eq!(queue.front(), Some((7, &'a')));
        assert_eq!(queue.pop_front(), Some((7, 'a')));
        assert_eq!(queue.front_mut(), Some((3, &mut 'd')));
        queue.push_back(7, 'e');
        assert_eq!((queue.remove(3), queue.remove(3)), (Some('d'), None));
        assert_eq!(queue.iter().collect::<Vec<_>>(), [(5, &'c'), (7, &'e')]);
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop_front()).collect();
        assert_eq!(rest, [(5, 'c'), (7, 'e')]);
        assert!(queue.is_empty() && !queue.contains(7));
    }
}
