//! The data of one service of a provider: when they count as interrupted. What is done then, `interruption` says.

use crate::config::Interruption;

/// How often the pause before a trial is doubled at most.
const DOUBLED: u8 = 6;

/// The data of one service of a provider.
#[derive(Debug, Default)]
pub(crate) struct DataFlow {
    /// Since when data have come without an interruption; none if none are expected.
    since: Option<u64>,
    /// When the last of them came.
    last: u64,
    /// The deadline that counts: there is a timer for it.
    due: Option<u64>,
    /// Silence counts whatever has come before.
    is_on_trial: bool,
    is_interrupted: bool,
    /// Interruptions in a row without data between.
    in_vain: u8,
}

/// The action that is due when a deadline has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// The timer was set for a deadline that has moved since.
    Moved,
    Nothing,
    /// The service has been silent for this long.
    Interrupted(u64),
    /// The service has nothing open any more, and is on trial from now on.
    Trial,
}

impl DataFlow {
    /// The service is silent, and should not be.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// The deadline that counts, if there is one.
    pub(super) fn due(&self) -> Option<u64> {
        self.due
    }

    /// This is the deadline that counts.
    pub(super) fn expect_by(&mut self, due: u64) {
        self.due = Some(due);
    }

    /// Data have come. True if they end an interruption.
    pub(super) fn data(&mut self, now: u64) -> bool {
        self.since.get_or_insert(now);
        (self.last, self.is_on_trial, self.in_vain) = (now, false, 0);
        std::mem::take(&mut self.is_interrupted)
    }

    /// The service is on trial from now on.
    pub(super) fn try_again(&mut self, now: u64) {
        (self.is_interrupted, self.is_on_trial, self.last) = (false, true, now);
    }

    /// A timer has come: whether it is the one that counts, and what is to be done then. `is_open`: data are expected, since items are open
    /// and not paused. `pause` is that before the first trial.
    pub(super) fn timer(&mut self, now: u64, is_open: bool, settings: Interruption, pause: u64) -> Due {
        if self.due.is_none_or(|due| due > now) {
            return Due::Moved;
        }
        self.due = None;
        let pause = |in_vain: u8| pause.saturating_mul(1 << in_vain.saturating_sub(1).min(DOUBLED));
        let silent = now.saturating_sub(self.last);
        if self.is_interrupted {
            if !is_open {
                self.try_again(now);
                self.due = Some(now.saturating_add(settings.duration));
                return Due::Trial;
            }
            self.due = Some(now.saturating_add(pause(self.in_vain)));
            return Due::Nothing;
        }
        let has_ticked = self.since.is_some_and(|since| self.last.saturating_sub(since) >= settings.traffic_window);
        if !is_open && self.is_on_trial {
            self.last = now;
            self.due = Some(now.saturating_add(settings.duration));
        } else if is_open && silent < settings.duration {
            self.due = Some(self.last.saturating_add(settings.duration));
        } else if is_open && (has_ticked || self.is_on_trial) {
            (self.is_interrupted, self.is_on_trial, self.since) = (true, false, None);
            self.in_vain = self.in_vain.saturating_add(1);
            self.due = Some(now.saturating_add(pause(self.in_vain)));
            return Due::Interrupted(silent);
        } else {
            self.since = None;
        }
        Due::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Interruption = Interruption { duration: 10, traffic_window: 100 };

    #[test]
    fn silence_counts_behind_traffic_only() {
        let mut flow = DataFlow::default();
        flow.data(1_000);
        flow.due = Some(1_010);
        assert_eq!(flow.timer(1_009, true, SETTINGS, 60), Due::Moved, "not yet");
        assert_eq!(
            (flow.timer(1_010, true, SETTINGS, 60), flow.due),
            (Due::Nothing, None),
            "it has not ticked long enough"
        );
        for now in (2_000..=2_100).step_by(5) {
            flow.data(now);
        }
        flow.due = Some(2_105);
        assert_eq!((flow.timer(2_105, true, SETTINGS, 60), flow.due), (Due::Nothing, Some(2_110)));
        assert_eq!(flow.timer(2_110, true, SETTINGS, 60), Due::Interrupted(10));
        assert!(flow.data(2_111) && !flow.is_interrupted());
    }

    #[test]
    fn without_open_items_nothing_is_expected() {
        let mut flow = DataFlow::default();
        assert!(!(0..=100).any(|now| flow.data(now)));
        flow.due = Some(110);
        assert_eq!((flow.timer(110, false, SETTINGS, 60), flow.due), (Due::Nothing, None));
        assert!(!flow.is_interrupted());
    }

    #[test]
    fn trials_come_after_pauses_that_grow() {
        let mut flow = DataFlow::default();
        assert!(!(0..=100).any(|now| flow.data(now)));
        flow.due = Some(110);
        assert_eq!((flow.timer(110, true, SETTINGS, 60), flow.due), (Due::Interrupted(10), Some(170)));
        assert_eq!((flow.timer(170, true, SETTINGS, 60), flow.due), (Due::Nothing, Some(230)), "data may come yet");
        assert_eq!((flow.timer(230, false, SETTINGS, 60), flow.due), (Due::Trial, Some(240)));
        assert_eq!((flow.timer(240, false, SETTINGS, 60), flow.due), (Due::Nothing, Some(250)), "nothing is open yet");
        assert_eq!((flow.timer(260, true, SETTINGS, 60), flow.due), (Due::Interrupted(20), Some(380)));
    }
}
