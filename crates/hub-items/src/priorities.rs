//! The priorities that watchers of items ask for, where they are not the usual one: counted by item and class, so that what all of an
//! item's watchers ask for together is known without a look at each of them.

use rwf::msg::Priority;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// The watchers of an item that ask for one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Class {
    watchers: u32,
    /// Counts of the watchers together: more than a message has room for.
    count: u64,
}

/// Watchers of the usual priority are in no count: most items have no entry. An item stands for its views as well.
#[derive(Debug, PartialEq, Eq)]
pub struct Priorities<K> {
    classes: BTreeMap<(K, u8), Class>,
}

impl<K> Default for Priorities<K> {
    fn default() -> Self {
        Self { classes: BTreeMap::new() }
    }
}

impl<K: Copy + Ord + Debug> Priorities<K> {
    /// A watcher of an item, or of a view of it, asks for another priority, comes (`before` is the usual one) or goes (`after` is).
    pub fn replace(&mut self, root: K, before: Priority, after: Priority) {
        if before != Priority::default() {
            let known = self.classes.get_mut(&(root, before.class));
            debug_assert!(known.is_some(), "{before:?} of {root:?} is not counted");
            if let Some(class) = known {
                class.watchers = class.watchers.saturating_sub(1);
                class.count = class.count.saturating_sub(before.count.into());
                if class.watchers == 0 {
                    self.classes.remove(&(root, before.class));
                }
            }
        }
        if after != Priority::default() {
            let class = self.classes.entry((root, after.class)).or_default();
            class.watchers += 1;
            class.count += u64::from(after.count);
        }
    }

    /// The priority that all watchers of an item ask for together: the highest class, and the counts of those that are in it (RDM usage
    /// guide, priority of requests that are aggregated). The usual one if none of them asks for any. `watchers` tells how many they are.
    pub fn wanted(&self, root: K, watchers: impl FnOnce() -> u64) -> Priority {
        let usual = Priority::default();
        let Some((class, highest)) = self.of(root).next_back() else { return usual };
        if class > usual.class {
            return joined(class, highest.count);
        }
        // Watchers that ask for nothing are of the usual class: there is one class below, and none between.
        let others = watchers().saturating_sub(self.of(root).map(|(_, class)| u64::from(class.watchers)).sum());
        match (class == usual.class, others) {
            (true, others) => joined(class, highest.count + others * u64::from(usual.count)),
            (false, 0) => joined(class, highest.count),
            (false, others) => joined(usual.class, others * u64::from(usual.count)),
        }
    }

    /// The classes that are asked for of an item, in order.
    fn of(&self, root: K) -> impl DoubleEndedIterator<Item = (u8, Class)> + '_ {
        self.classes.range((root, 0)..=(root, u8::MAX)).map(|(&(_, class), &known)| (class, known))
    }

    /// True if some watcher of an item asks for another priority than the usual one.
    pub fn has(&self, root: K) -> bool {
        self.of(root).next().is_some()
    }
}

fn joined(class: u8, count: u64) -> Priority {
    Priority { class, count: u16::try_from(count).unwrap_or(u16::MAX) }
}

#[cfg(test)]
mod tests {
    use super::{Priorities, Priority};

    /// By a look at all.
    fn wanted(watchers: &[Priority]) -> Priority {
        if watchers.iter().all(|&own| own == Priority::default()) {
            return Priority::default();
        }
        let class = watchers.iter().map(|own| own.class).max().unwrap();
        let in_it = watchers.iter().filter(|own| own.class == class);
        Priority { class, count: in_it.fold(0, |sum: u16, own| sum.saturating_add(own.count)) }
    }

    #[test]
    fn what_is_counted_is_what_a_look_at_all_watchers_finds() {
        let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
        let mut priorities: Priorities<u32> = Priorities::default();
        let mut items: [Vec<Priority>; 3] = Default::default();
        for step in 0..30_000 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let (item, pick) = (seed as usize % 3, (seed >> 8) as usize);
            let count = [0, 1, 1, 2, 40_000][(seed >> 40) as usize % 5];
            let asked = Priority { class: (seed >> 32) as u8 % 4, count };
            let (root, watchers) = (item as u32, &mut items[item]);
            let grow = if step % 400 < 200 { 5 } else { 2 };
            match (seed >> 48) % 8 {
                n if n < grow => {
                    priorities.replace(root, Priority::default(), asked);
                    watchers.push(asked);
                }
                7 if !watchers.is_empty() => {
                    let at = pick % watchers.len();
                    priorities.replace(root, watchers[at], asked);
                    watchers[at] = asked;
                }
                _ if !watchers.is_empty() => {
                    let gone = watchers.swap_remove(pick % watchers.len());
                    priorities.replace(root, gone, Priority::default());
                }
                _ => {}
            }
            assert_eq!(priorities.wanted(root, || watchers.len() as u64), wanted(watchers), "{watchers:?}");
            assert_eq!(priorities.has(root), watchers.iter().any(|&own| own != Priority::default()));
        }
    }
}
