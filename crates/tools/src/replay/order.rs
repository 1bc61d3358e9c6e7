//! Commands of a user to a replay while it runs: lines of standard input.

use super::pace;
use super::timeline::Pace;
use crate::when;
use anyhow::anyhow;

/// Something to be done with the replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Order {
    /// Time stands still.
    Pause,
    /// Time passes.
    Go,
    /// Time stands still, and so many messages come.
    Step(usize),
    /// Another speed.
    Speed(Pace),
    /// Goes to a time, nanoseconds since 1970.
    Seek(u64),
    /// Says where it is.
    Where,
}

/// Orders, for who has written something else.
const KNOWN: &str = "pause, go, step, step 10, speed 2, speed max, seek 2026-11-27T14:30:00Z, where";

impl Order {
    /// The order of a line; none of an empty one.
    ///
    /// # Errors
    /// A text for the user.
    pub(super) fn parse(line: &str) -> anyhow::Result<Option<Self>> {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let order = match (word, rest.trim()) {
            ("", _) => return Ok(None),
            ("pause", "") => Self::Pause,
            ("go", "") => Self::Go,
            ("step", "") => Self::Step(1),
            ("step", count) => Self::Step(count.parse().map_err(|_| anyhow!("write how many messages: step 10"))?),
            ("speed", speed) => Self::Speed(pace(speed)?),
            ("seek", time) => Self::Seek(when::parse(time)?),
            ("where", "") => Self::Where,
            _ => return Err(anyhow!("{:?} is no order; there are {KNOWN}", net::plain::escaped(line))),
        };
        Ok(Some(order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_understood_or_refused() {
        let of = |line: &str| Order::parse(line).expect("an order");
        let all = ["pause", " go ", "step", "step 3", "speed max", "speed 0.5", "where", ""].map(of);
        let speeds = [Order::Speed(Pace::Unpaced), Order::Speed(Pace::Scaled(0.5))].map(Some);
        let [unpaced, scaled] = speeds;
        let expected = [
            Some(Order::Pause),
            Some(Order::Go),
            Some(Order::Step(1)),
            Some(Order::Step(3)),
            unpaced,
            scaled,
            Some(Order::Where),
            None,
        ];
        assert_eq!(all, expected);
        assert_eq!(of("seek 1970-01-01T00:00:01Z"), Some(Order::Seek(1_000_000_000)));
        for wrong in ["stop", "step x", "speed 0", "speed", "seek", "seek now", "pause now"] {
            assert!(Order::parse(wrong).is_err(), "{wrong}");
        }
    }
}
