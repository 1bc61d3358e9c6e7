//! The trading day: when the market is open, how busy it is, and which date and time of day it shows.

use rwf::Date;

/// Nanoseconds.
pub type Nanos = u64;

/// One second.
pub const SECOND: Nanos = 1_000_000_000;
/// One day.
pub const DAY: Nanos = 86_400 * SECOND;

/// A moment of the market: what its clock shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Days since 1970-01-01 of the trading day.
    pub day: u32,
    /// Nanoseconds since midnight UTC, below 24 hours.
    pub time: Nanos,
}

impl Moment {
    /// The moment `nanos` after 1970-01-01 00:00 UTC.
    pub fn from_epoch(nanos: Nanos) -> Self {
        Self { day: (nanos / DAY) as u32, time: nanos % DAY }
    }

    /// Milliseconds since midnight, the unit of the `_MS` fields.
    pub fn millis(self) -> u64 {
        self.time / 1_000_000
    }

    /// The trading day's date.
    pub fn date(self) -> Date {
        Date::from_days(self.day)
    }
}

/// How a market's days follow each other, on a clock that counts nanoseconds since the market was started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calendar {
    /// What the market's clock shows when it is started: nanoseconds since 1970-01-01 UTC.
    pub started_at: Nanos,
    /// When the first session had opened (negative) or will open (positive), from the start of the market.
    pub first_open: i64,
    /// How long a session lasts.
    pub session: Nanos,
    /// How long the market stays closed between two sessions.
    pub pause: Nanos,
}

impl Calendar {
    /// A market that opened 37 minutes before it was started, for a session of six and a half hours and a minute's pause.
    pub fn new(started_at: Nanos) -> Self {
        Self { started_at, first_open: -(37 * 60 * SECOND as i64), session: 23_400 * SECOND, pause: 60 * SECOND }
    }

    /// What the market's clock shows `at` nanoseconds after its start.
    pub fn moment(&self, at: Nanos) -> Moment {
        Moment::from_epoch(self.started_at + at)
    }

    /// Number of the session that is open, or that opens next, and its phase.
    pub fn phase(&self, at: Nanos) -> (u32, Phase) {
        let since = at as i64 - self.first_open;
        if since < 0 {
            return (0, Phase::Closed { opens_at: self.first_open as u64 });
        }
        let cycle = self.session + self.pause;
        let (number, within) = (since as u64 / cycle, since as u64 % cycle);
        if within < self.session {
            return (number as u32, Phase::Open { elapsed: within, left: self.session - within });
        }
        (number as u32 + 1, Phase::Closed { opens_at: at + cycle - within })
    }
}

/// Whether the market trades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No trading until `opens_at` (nanoseconds since the market's start).
    Closed {
        /// When the next session opens.
        opens_at: Nanos,
    },
    /// Continuous trading.
    Open {
        /// Since the opening.
        elapsed: Nanos,
        /// Until the close.
        left: Nanos,
    },
}

impl Phase {
    /// How much busier than at noon the market is: mornings and closings are, nights are not.
    pub fn activity(self) -> f64 {
        match self {
            Self::Closed { .. } => 0.0,
            Self::Open { elapsed, left } => {
                let minutes = |t: Nanos| t as f64 / (60 * SECOND) as f64;
                0.8 + 2.5 * (-minutes(elapsed) / 20.0).exp() + 1.5 * (-minutes(left) / 12.0).exp()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        let date = |year, month, day| Date { year, month, day };
        assert_eq!(Date::from_days(0), date(1970, 1, 1));
        assert_eq!(Date::from_days(15_985), date(2013, 10, 7));
        assert_eq!(Date::from_days(19_782), date(2024, 2, 29));
        assert_eq!(Date::from_days(19_783), date(2024, 3, 1));
    }

    #[test]
    fn sessions_and_pauses_alternate() {
        let calendar = Calendar { started_at: 0, first_open: 5, session: 10, pause: 3 };
        assert_eq!(calendar.phase(0), (0, Phase::Closed { opens_at: 5 }));
        assert_eq!(calendar.phase(5), (0, Phase::Open { elapsed: 0, left: 10 }));
        assert_eq!(calendar.phase(14), (0, Phase::Open { elapsed: 9, left: 1 }));
        assert_eq!(calendar.phase(15), (1, Phase::Closed { opens_at: 18 }));
        assert_eq!(calendar.phase(18), (1, Phase::Open { elapsed: 0, left: 10 }));
        assert_eq!(Calendar { first_open: -4, ..calendar }.phase(0), (0, Phase::Open { elapsed: 4, left: 6 }));
    }

    #[test]
    fn the_opening_is_busier_than_noon() {
        let calendar = Calendar { first_open: 0, ..Calendar::new(0) };
        let activity = |minutes: u64| calendar.phase(minutes * 60 * SECOND).1.activity();
        assert!(activity(1) > 3.0 && activity(180) < 1.0 && activity(389) > 2.0);
        assert!(calendar.phase(390 * 60 * SECOND + SECOND).1.activity().abs() < f64::EPSILON);
    }
}
