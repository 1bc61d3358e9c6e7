//! What one turn answers those who speak JSON by itself: pongs, and what could not be read. A compressed frame of a few bytes may hold
//! thousands of pings.

use rssl_io::account::ANSWERS_MAX;

/// The answers of a turn. What one connection says in a turn comes in one piece, so that one is counted at a time.
pub(super) struct Answering<C> {
    of: Option<(C, usize)>,
}

/// Whether an answer is given.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The answer is given.
    Yes,
    /// The answer is not given, and the connection is to end: so many bytes would wait.
    Last { bytes: usize },
    /// The answer is not given; its connection ends already.
    No,
}

impl<C> Default for Answering<C> {
    fn default() -> Self {
        Self { of: None }
    }
}

impl<C: Copy + PartialEq> Answering<C> {
    /// An answer of so many bytes for a connection.
    pub(super) fn take(&mut self, conn: C, bytes: usize) -> Taken {
        let before = self.of.filter(|(of, _)| *of == conn).map_or(0, |(_, before)| before);
        let all = before.saturating_add(bytes);
        self.of = Some((conn, all));
        match () {
            () if all <= ANSWERS_MAX => Taken::Yes,
            () if before <= ANSWERS_MAX => Taken::Last { bytes: all },
            () => Taken::No,
        }
    }

    /// What was answered is queued, and counts in the connections' own accounts from now on.
    pub(super) fn end_turn(&mut self) {
        self.of = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_answers_so_much_and_ends_who_asks_for_more_once() {
        let mut answering = Answering::default();
        assert_eq!(answering.take(1, ANSWERS_MAX), Taken::Yes);
        assert_eq!(answering.take(1, 10), Taken::Last { bytes: ANSWERS_MAX + 10 });
        assert_eq!(answering.take(1, 10), Taken::No);
        assert_eq!(answering.take(2, 10), Taken::Yes, "another's answers are its own");
        answering.end_turn();
        assert_eq!(answering.take(1, 10), Taken::Yes);
    }
}
