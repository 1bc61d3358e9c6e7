//! Cases that the tables of a state machine hold to be impossible and that are found all the same: counted, so that one client may be wrong and
//! all others are served.

use core::fmt::Display;

/// Counters with one of such faults.
pub trait Faults {
    /// The counter.
    fn internal_faults(&mut self) -> &mut u64;

    /// Counts one. The caller goes on without what is missing.
    ///
    /// # Panics
    /// Where assertions are on, with the text.
    #[cold]
    fn fault(&mut self, what: &dyn Display) {
        debug_assert!(false, "a broken invariant: {what}");
        *self.internal_faults() += 1;
    }

    /// Hands on what was looked for and has to be there. Nothing is a fault: see [`Faults::fault`].
    ///
    /// # Panics
    /// As [`Faults::fault`].
    #[inline]
    fn found<T>(&mut self, what: &str, found: Option<T>) -> Option<T> {
        if found.is_none() {
            self.fault(&what);
        }
        found
    }
}

/// The content of a place of a table that another table names. A place that is empty is a fault.
///
/// # Panics
/// As [`Faults::fault`].
#[inline]
pub fn named<'a, T>(table: &'a mut [Option<T>], at: usize, stats: &mut impl Faults) -> Option<&'a mut T> {
    let there = table.get_mut(at).and_then(Option::as_mut);
    if there.is_none() {
        stats.fault(&format_args!("place {at} is named, and empty"));
    }
    there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Stats(u64);

    impl Faults for Stats {
        fn internal_faults(&mut self) -> &mut u64 {
            &mut self.0
        }
    }

    #[test]
    fn what_is_there_is_no_fault() {
        let (mut stats, mut table) = (Stats::default(), [None, Some(5)]);
        assert_eq!(named(&mut table, 1, &mut stats), Some(&mut 5));
        assert_eq!(stats.found("a number", Some(7)), Some(7));
        assert_eq!(stats.0, 0);
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "a broken invariant: place 2 is named, and empty")]
    fn a_place_that_is_none_is_a_fault() {
        named(&mut [Some(1), None], 2, &mut Stats::default());
    }

    #[cfg(not(debug_assertions))]
    #[test]
    fn faults_are_counted() {
        let mut stats = Stats::default();
        assert_eq!(named(&mut [Some(1), None], 1, &mut stats), None);
        assert_eq!(stats.found("a number", None::<u32>), None);
        assert_eq!(stats.0, 2);
    }
}
