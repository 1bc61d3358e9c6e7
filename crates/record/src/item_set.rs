//! Which items a block or a checkpoint has: a set of item numbers, in ranges. Of most services a block has nearly all items, so that a set is a few ranges
//! where a list would be thousands of numbers, and opening a recording takes no time for them.

use crate::bytes::{Input, put_varint};
use crate::record::ItemNumber;

/// Numbers from the first to the last, both among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    first: ItemNumber,
    last: ItemNumber,
}

/// A set of item numbers; 0, which is no item, may be among them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ItemSet {
    /// Ascending, each two with a number between them that is not in the set.
    spans: Vec<Span>,
}

/// Eight numbers of a list, each one more than the one before.
const RUN: [u8; 8] = [1; 8];

impl ItemSet {
    /// Adds a number that is no less than any in the set.
    fn push(&mut self, number: ItemNumber) {
        match self.spans.last_mut() {
            Some(span) if number <= span.last.saturating_add(1) => span.last = span.last.max(number),
            _ => self.spans.push(Span { first: number, last: number }),
        }
    }

    /// Whether a number is in the set.
    pub(crate) fn contains(&self, number: ItemNumber) -> bool {
        let at = self.spans.partition_point(|span| span.last < number);
        self.spans.get(at).is_some_and(|span| span.first <= number)
    }

    /// The numbers, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ItemNumber> {
        self.spans.iter().flat_map(|span| span.first..=span.last)
    }

    /// Whether no number is more than `most`.
    fn is_within(&self, most: usize) -> bool {
        self.spans.last().is_none_or(|span| span.last as usize <= most)
    }

    /// Appends it as ranges: by how much each begins behind the one before, and how many further numbers it has.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.spans.len() as u64);
        let mut next = 0;
        for span in &self.spans {
            put_varint(out, u64::from(span.first) - next);
            put_varint(out, u64::from(span.last - span.first));
            next = u64::from(span.last) + 1;
        }
    }

    /// Reads ranges of numbers up to `most`, the items that there are; `None` if they are none.
    pub(crate) fn read(input: &mut Input<'_>, most: usize) -> Option<Self> {
        // Each takes two bytes at least.
        let count = input.count().filter(|count| *count <= input.len() / 2)?;
        let mut set = Self { spans: Vec::with_capacity(count) };
        let mut next = 0u64;
        for _ in 0..count {
            let first = next.checked_add(input.varint()?)?;
            let last = first.checked_add(input.varint()?)?;
            set.spans.push(Span { first: u32::try_from(first).ok()?, last: u32::try_from(last).ok()? });
            next = last + 1;
        }
        set.is_within(most).then_some(set)
    }

    /// Appends it as a list, as versions 1 and 2 have it: by how much each number is more than the one before.
    pub(crate) fn put_list(&self, out: &mut Vec<u8>) {
        put_varint(out, self.iter().count() as u64);
        let mut before = 0;
        for number in self.iter() {
            put_varint(out, u64::from(number - before));
            before = number;
        }
    }

    /// Reads a list; `None` if it is none.
    pub(crate) fn read_list(input: &mut Input<'_>) -> Option<Self> {
        let mut left = input.count().filter(|count| *count <= input.len())?;
        let (mut set, mut number) = (Self::default(), 0u32);
        while left > 0 {
            // Most lists are runs of neighbours.
            let run = if left >= RUN.len() && input.rest().starts_with(&RUN) { set.spans.last_mut() } else { None };
            if let Some(span) = run {
                number = number.checked_add(RUN.len() as u32)?;
                span.last = number;
                input.bytes(RUN.len())?;
                left -= RUN.len();
                continue;
            }
            number = number.checked_add(u32::try_from(input.varint()?).ok()?)?;
            set.push(number);
            left -= 1;
        }
        Some(set)
    }
}

impl FromIterator<ItemNumber> for ItemSet {
    /// Of numbers that ascend; one may come several times.
    fn from_iter<T: IntoIterator<Item = ItemNumber>>(numbers: T) -> Self {
        let mut set = Self::default();
        for number in numbers {
            debug_assert!(set.spans.last().is_none_or(|span| span.last <= number), "numbers ascend");
            set.push(number);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn set(numbers: &BTreeSet<u32>) -> ItemSet {
        numbers.iter().copied().collect()
    }

    proptest! {
        #[test]
        fn a_set_has_what_was_put_in_and_comes_back_either_way(
            runs in proptest::collection::vec((0u32..400, 1u32..40), 0..12),
            far in proptest::option::of(any::<u32>()),
        ) {
            let numbers: BTreeSet<u32> =
                runs.iter().flat_map(|(first, count)| *first..first + count).chain(far).collect();
            let of = set(&numbers);
            prop_assert!(of.iter().eq(numbers.iter().copied()));
            for number in 0..450 {
                prop_assert_eq!(of.contains(number), numbers.contains(&number));
            }
            let (mut ranges, mut list) = (Vec::new(), Vec::new());
            of.put(&mut ranges);
            of.put_list(&mut list);
            let mut input = Input::new(&ranges);
            prop_assert_eq!(ItemSet::read(&mut input, u32::MAX as usize), Some(of.clone()));
            prop_assert!(input.is_empty());
            let mut input = Input::new(&list);
            prop_assert_eq!(ItemSet::read_list(&mut input), Some(of.clone()));
            prop_assert!(input.is_empty());
            if let Some(last) = numbers.last() {
                prop_assert_eq!(ItemSet::read(&mut Input::new(&ranges), (*last as usize).wrapping_sub(1)).is_some(), *last == 0);
            }
        }

        #[test]
        fn any_bytes_are_a_set_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let most = 1_000;
            if let Some(set) = ItemSet::read(&mut Input::new(&bytes), most) {
                prop_assert!(set.iter().all(|number| number as usize <= most));
            }
            if let Some(set) = ItemSet::read_list(&mut Input::new(&bytes)) {
                prop_assert!(set.spans.len() <= bytes.len());
            }
        }
    }
}
