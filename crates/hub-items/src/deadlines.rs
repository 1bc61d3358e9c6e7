//! Deadlines: when something is to be looked at again.

/// Later than anything: no deadline at all.
const NEVER: u64 = u64::MAX;

/// The earliest of some deadlines, nanoseconds; `None` if there is none. `u64::MAX` is none.
///
/// A turn asks for it several times, so there is no branch for each of them.
#[inline]
pub fn earliest<const N: usize>(deadlines: [Option<u64>; N]) -> Option<u64> {
    let first = deadlines.into_iter().fold(NEVER, |first, at| first.min(at.unwrap_or(NEVER)));
    (first != NEVER).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_of_those_that_are_there_counts() {
        assert_eq!(earliest([None, Some(7), None, Some(3)]), Some(3));
        assert_eq!(earliest([Some(0), Some(1)]), Some(0));
        assert_eq!(earliest([None, None]), None);
        assert_eq!(earliest([Some(NEVER), None]), None);
        assert_eq!(earliest([]), None);
    }
}
