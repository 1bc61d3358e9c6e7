//! How near something is to its limit, and where the states of a limit begin and end.

use std::fmt;

/// How near something is to its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum LoadState {
    /// Below the upper mark, or below the lower one after it was over that.
    #[default]
    Normal,
    /// At the upper mark or over it, and not below the lower one since.
    Burdened,
    /// At its limit, and not below the upper mark since.
    Overloaded,
}

impl LoadState {
    /// As it is shown to people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Burdened => "burdened",
            Self::Overloaded => "overloaded",
        }
    }
}

impl fmt::Display for LoadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where the states of a limit begin and end, in percent of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percents {
    /// From here on it is burdened.
    pub upper: u32,
    /// Below this it is normal again.
    pub lower: u32,
}

impl Default for Percents {
    fn default() -> Self {
        Self { upper: 90, lower: 80 }
    }
}

/// Where the states of a queue begin, and how far below that each of them ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueMarks {
    /// The queue is burdened from this length on (`openQueueBurdenedThreshold`); 0 for never.
    pub burdened: u32,
    /// The queue is overloaded from this length on (`openQueueHeavilyBurdenedThreshold`); 0 for never.
    pub overloaded: u32,
    /// A state ends at so many less (`openQueueHysteresis`).
    pub hysteresis: u32,
}

/// A limit with its marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// Burdened from here on, and overloaded until below `overloaded_ends`.
    burdened: u64,
    overloaded: u64,
    burdened_ends: u64,
    overloaded_ends: u64,
}

impl Marks {
    /// The marks of a limit; `None` for one that is none.
    pub fn of_limit(limit: u32, percents: Percents) -> Option<Self> {
        let part = |percent: u32| (u64::from(limit) * u64::from(percent.min(100))).div_ceil(100).max(1);
        let upper = part(percents.upper);
        let lower = part(percents.lower).min(upper);
        let (burdened, overloaded) = (upper, u64::from(limit));
        (limit > 0).then_some(Self { burdened, overloaded, burdened_ends: lower, overloaded_ends: upper })
    }

    /// The marks of a queue; `None` for one that is never told of.
    pub fn of_queue(marks: QueueMarks) -> Option<Self> {
        let from = |mark: u32| if mark == 0 { u64::MAX } else { u64::from(mark) };
        let ends = |mark: u32| u64::from(mark.saturating_sub(marks.hysteresis).max(1));
        let is_on = marks.burdened > 0 || marks.overloaded > 0;
        is_on.then_some(Self {
            burdened: from(marks.burdened),
            overloaded: from(marks.overloaded),
            burdened_ends: ends(marks.burdened),
            overloaded_ends: ends(marks.overloaded),
        })
    }

    /// The state that follows one at this load.
    pub fn next(&self, state: LoadState, load: u64) -> LoadState {
        let is_overloaded = load >= self.overloaded || state == LoadState::Overloaded && load >= self.overloaded_ends;
        let is_burdened = load >= self.burdened || state >= LoadState::Burdened && load >= self.burdened_ends;
        match (is_overloaded, is_burdened) {
            (true, _) => LoadState::Overloaded,
            (false, true) => LoadState::Burdened,
            (false, false) => LoadState::Normal,
        }
    }
}

impl Marks {
    /// The marks of no limit: no load reaches them.
    pub const NONE: Self =
        Self { burdened: u64::MAX, overloaded: u64::MAX, burdened_ends: u64::MAX, overloaded_ends: u64::MAX };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The states over loads that come one after the other.
    fn states(marks: Marks, loads: &[u64]) -> String {
        let mut state = LoadState::Normal;
        let step = |load: &u64| {
            state = marks.next(state, *load);
            state.name()[..1].to_owned()
        };
        loads.iter().map(step).collect()
    }

    #[test]
    fn a_state_ends_below_where_it_began() {
        let marks = Marks::of_limit(100, Percents::default()).unwrap();
        assert_eq!(states(marks, &[89, 90, 85, 80, 79, 85, 99, 100, 95, 90, 89, 79]), "nbbbnnbooobn");
        assert_eq!(states(marks, &[100, 10, 200]), "ono");
        let one = Marks::of_limit(1, Percents::default()).unwrap();
        assert_eq!(states(one, &[0, 1, 0]), "non");
        assert_eq!(Marks::of_limit(0, Percents::default()), None);
    }

    #[test]
    fn a_queue_has_marks_of_its_own() {
        let queue = QueueMarks { burdened: 8_000, overloaded: 10_000, hysteresis: 1_000 };
        let marks = Marks::of_queue(queue).unwrap();
        assert_eq!(states(marks, &[7_999, 8_000, 7_000, 6_999, 9_999, 10_000, 9_000, 8_999, 6_999]), "nbbnboobn");
        let only_burdened = Marks::of_queue(QueueMarks { overloaded: 0, ..queue }).unwrap();
        assert_eq!(states(only_burdened, &[1_000_000]), "b");
        assert_eq!(Marks::of_queue(QueueMarks::default()), None);
    }
}
