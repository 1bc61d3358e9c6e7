//! Sets of positions, as spans that do not touch.

use std::collections::BTreeMap;

/// Spans `first..end`, each with the time at which it was added.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    by_first: BTreeMap<u64, (u64, u64)>,
}

impl Spans {
    /// Adds `first..end`. Where a part is there already, that one's time stays.
    pub(crate) fn add(&mut self, now: u64, mut first: u64, end: u64) {
        while first < end {
            // The span that holds `first`, or else the next one.
            let holding =
                self.by_first.range(..=first).next_back().map(|(_, (end, _))| *end).filter(|end| *end > first);
            if let Some(after) = holding {
                first = after;
                continue;
            }
            let next = self.by_first.range(first..end).next().map_or(end, |(first, _)| *first);
            self.by_first.insert(first, (next, now));
            first = next;
        }
    }

    /// Takes `first..end` out; returns how many positions of it were there.
    pub(crate) fn remove(&mut self, first: u64, end: u64) -> u64 {
        let mut removed = 0;
        if first >= end {
            return 0;
        }
        while let Some((&start, &(stop, at))) =
            self.by_first.range(..end).next_back().filter(|(_, (stop, _))| *stop > first)
        {
            self.by_first.remove(&start);
            removed += stop.min(end) - start.max(first);
            if start < first {
                self.by_first.insert(start, (first, at));
            }
            if stop > end {
                self.by_first.insert(end, (stop, at));
            }
        }
        removed
    }

    /// The lowest span: first, end, time.
    pub(crate) fn first(&self) -> Option<(u64, u64, u64)> {
        self.by_first.first_key_value().map(|(first, (end, at))| (*first, *end, *at))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_first.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_first.len()
    }

    pub(crate) fn clear(&mut self) {
        self.by_first.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    use super::*;

    proptest! {
        #[test]
        fn spans_are_a_set(steps in proptest::collection::vec((any::<bool>(), 0u64..60, 0u64..12), 0..40), upside_down in 0u64..70) {
            let (mut spans, mut set) = (Spans::default(), BTreeSet::new());
            for (adds, first, length) in steps {
                if adds {
                    spans.add(1, first, first + length);
                    set.extend(first..first + length);
                } else {
                    let before = set.len();
                    (first..first + length).for_each(|position| {
                        set.remove(&position);
                    });
                    prop_assert_eq!(spans.remove(first, first + length), (before - set.len()) as u64);
                }
                let all: Vec<u64> = spans.by_first.iter().flat_map(|(first, (end, _))| *first..*end).collect();
                prop_assert_eq!(all, set.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(spans.remove(upside_down, first.min(upside_down)), 0);
            }
        }
    }
}
