//! A venue's file as a series of steps, whatever it is.

use market::ReadBooks;
use venue::sequence::{Change, Limits};

use super::board::Board;
use crate::session::Nanos;

/// Nobody answers requests for what a capture does not have; copies that come late are taken for as long as a feed would ask for them.
pub(super) const LIMITS: Limits = Limits {
    patience: 5_000_000,
    first_retry: 100_000_000,
    longest_retry: 2_000_000_000,
    attempts: 2,
    most_requested: 1_000,
    window: 1 << 18,
    held_bytes: 64 << 20,
};

/// What becomes of a stream, as states of its items: nobody knows which of them a missing message is about.
pub(super) fn tell_change(board: &mut Board, change: &Change) {
    match change {
        Change::Session { .. } => board.begin_session(),
        Change::Gap { missing } if missing.is_empty() => board.doubt("the connection to the exchange is lost"),
        Change::Gap { missing } => {
            let (count, first) = (missing.end - missing.start, missing.start);
            board.doubt(&format!("{count} messages from number {first} on are missing"));
        }
        Change::Lost { missing } => {
            board.doubt(&format!("{} messages are lost: nobody has brought them", missing.end - missing.start));
        }
        Change::Repaired | Change::Resumed { .. } => board.trust(),
        Change::Ended => {}
    }
}

/// A file that is read and applied message by message.
pub(super) trait Input {
    /// When what comes next was, by the file: nanoseconds since 1970; `None` at the end.
    fn next_at(&self) -> Option<u64>;
    /// Applies what comes next.
    fn step(&mut self, board: &mut Board);
    /// Steps settle the board where the books are fit to be published; others are to be settled behind each step.
    fn settles_itself(&self) -> bool {
        false
    }
    /// What comes next is of an order or a trade: what the venue tells of instruments came before.
    fn is_at_traffic(&self) -> bool;
    /// The books.
    fn books(&self) -> &dyn ReadBooks;
    /// When the venue's clock shows so long after midnight, on the day that is being read: nanoseconds since 1970.
    fn at_clock(&self, since_midnight: Nanos) -> u64;
    /// Messages applied so far.
    fn messages(&self) -> u64;
    /// What of the file could not be read so far.
    fn unread(&self) -> Option<String>;
    /// What was wrong with what could be read, by kind.
    fn remarks(&self) -> Option<String>;
}
