//! Bytes that wait for a peer and those not whole yet, counted in one place: every session has an account, whoever has queued the bytes
//! (messages of the owner, answers to pings, handshakes, errors, closes), and one reason to end where it is overdrawn.
//!
//! | who | may have | together with others |
//! |---|---|---|
//! | a peer that has not logged in | [`STRANGER_MAX`] that wait for it or are unfinished, and [`SAID_MAX`] said in all | [`SHARED_MAX`] of a thread, beyond 4 KB each |
//! | one that has: answers that this side made by itself | [`ANSWERS_MAX`] | the same |
//! | one that has: all that waits | what the owner bears ([`Bounds`]) | what the port bears |
//!
//! Answers count until the socket has taken everything; so a peer that reads, however slowly, and asks little is never near its bound.

use std::fmt;

/// A second, nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Bytes that wait for a peer that has not logged in, and bytes of messages that it has not finished.
pub const STRANGER_MAX: usize = 64 << 10;
/// Bytes that are read in one turn of a peer that has not logged in, or is loud: a turn that works off what a hundred of them say is not to be felt by those
/// who have. The rest stays in the kernel, whose room holds them back.
pub(crate) const STRANGER_READ: usize = 4 << 10;
/// Bytes of messages, as they are after decompression, that a peer may say before it has logged in.
pub const SAID_MAX: usize = 1 << 20;
/// Bytes of answers that this side made by itself (pongs, errors) and a peer has not taken.
pub const ANSWERS_MAX: usize = 64 << 10;
/// Bytes of pings, and [`ANSWER_NOISE`] times those of answers to them and to what cannot be read, in a second: whoever says more is loud, and is
/// read behind the others.
const NOISE_MAX: usize = 64 << 10;
const ANSWER_NOISE: usize = 16;
/// Bytes of all strangers, and of all answers, of a thread.
pub const SHARED_MAX: usize = 8 << 20;
/// The share that each has whatever the others have.
const FREE: usize = 4 << 10;

/// Bytes that may wait for those who have logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// For each.
    pub each: usize,
    /// For all of a port together; beyond it those with more than [`STRANGER_MAX`] are ended that get more.
    pub all: usize,
}

impl Default for Bounds {
    /// None: the owner looks at what its calls tell, and ends whom it does not bear.
    fn default() -> Self {
        Self { each: usize::MAX, all: usize::MAX }
    }
}

/// An account is overdrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overdrawn {
    /// The peer does not take what is sent to it.
    Untaken {
        /// Bytes that wait for it.
        waiting: usize,
        /// As many as may.
        most: usize,
    },
    /// The peer asks for answers, pings as a rule, and does not take them.
    Answers {
        /// Bytes of answers that wait for it.
        waiting: usize,
    },
    /// The peer has not logged in, and holds more in messages that are not whole than may be kept for it.
    Unfinished {
        /// Bytes that are kept.
        bytes: usize,
    },
    /// The peer has not logged in, and says more than a login takes.
    Talkative {
        /// Bytes that it has said.
        bytes: usize,
    },
    /// All of its kind together have as much as may be; it has more than its share.
    Shared {
        /// The account's own share.
        bytes: usize,
        /// The share of all accounts.
        all: usize,
    },
}

impl fmt::Display for Overdrawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untaken { waiting, most } => {
                write!(f, "it does not take what is sent to it: {waiting} bytes wait, and {most} may")
            }
            Self::Answers { waiting } => write!(
                f,
                "it does not take the answers to its own pings and messages: {waiting} bytes wait, and {ANSWERS_MAX} may"
            ),
            Self::Unfinished { bytes } => write!(
                f,
                "{bytes} bytes of unfinished messages before a login, and {STRANGER_MAX} may be: log in first"
            ),
            Self::Talkative { bytes } => {
                write!(f, "{bytes} bytes of messages before a login, and {SAID_MAX} may be: log in first")
            }
            Self::Shared { bytes, all } => write!(
                f,
                "{bytes} bytes are kept for it, and {all} for all that have not logged in or do not take their answers"
            ),
        }
    }
}

/// The share of all accounts of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) bytes: usize,
    most: usize,
    /// The share that each has whatever the others have.
    free: usize,
}

impl Pool {
    /// Of strangers, and of answers.
    pub(crate) fn shared() -> Self {
        Self { bytes: 0, most: SHARED_MAX, free: FREE }
    }

    /// Of those who have logged in at a port.
    pub(crate) fn of_port(bounds: Bounds) -> Self {
        Self { bytes: 0, most: bounds.all, free: STRANGER_MAX }
    }

    fn change(&mut self, before: usize, after: usize) -> Result<(), Overdrawn> {
        self.bytes = self.bytes - before + after;
        if after > before && after > self.free && self.bytes > self.most {
            return Err(Overdrawn::Shared { bytes: after, all: self.bytes });
        }
        Ok(())
    }
}

/// The account of one session.
#[derive(Debug)]
pub(crate) struct Account {
    /// The peer has logged in.
    pub(crate) is_known: bool,
    /// Bytes that may wait for it then.
    each: usize,
    /// Of what waits: answers of this side's own.
    answers: usize,
    /// The part of it in the shared pool, and in the port's.
    shared: usize,
    of_port: usize,
    /// Bytes of messages that a stranger has said.
    said: usize,
    /// Bytes beside messages in this second, and since when that is; and that it was loud in the last one.
    noise: usize,
    noise_since: u64,
    was_loud: bool,
}

impl Account {
    pub(crate) fn new(each: usize) -> Self {
        Self {
            is_known: false,
            each,
            answers: 0,
            shared: 0,
            of_port: 0,
            said: 0,
            noise: 0,
            noise_since: 0,
            was_loud: false,
        }
    }

    /// Nothing is to be counted where so much waits.
    #[inline]
    pub(crate) fn is_quiet(&self, waiting: usize) -> bool {
        waiting <= FREE && self.shared == 0 && self.of_port == 0
    }

    /// This side queues an answer of its own, behind so much that waits: of earlier ones no more is left than that.
    pub(crate) fn answer(&mut self, bytes: usize, behind: usize) {
        self.answers = self.answers.min(behind).saturating_add(bytes);
        self.note_noise(0, bytes);
    }

    /// The peer has sent so many bytes that are no part of a message, or had so many bytes of answers made.
    pub(crate) fn note_noise(&mut self, bytes: usize, answers: usize) {
        self.noise = self.noise.saturating_add(bytes + ANSWER_NOISE * answers);
    }

    /// The peer has said much beside messages in this second or in the last one.
    #[inline]
    pub(crate) fn is_loud(&mut self, now: u64) -> bool {
        (self.noise > 0 || self.was_loud) && self.weigh_noise(now)
    }

    #[cold]
    fn weigh_noise(&mut self, now: u64) -> bool {
        let passed = now.saturating_sub(self.noise_since);
        if passed >= SECOND {
            self.was_loud = self.noise > NOISE_MAX && passed < 2 * SECOND;
            (self.noise, self.noise_since) = (0, now);
        }
        self.was_loud || self.noise > NOISE_MAX
    }

    /// The peer has said a message before it was known; tells whether that is taken.
    pub(crate) fn note_bytes(&mut self, bytes: usize) -> bool {
        self.said = self.said.saturating_add(bytes);
        !self.is_over()
    }

    /// Nothing more is taken from it.
    pub(crate) fn is_over(&self) -> bool {
        !self.is_known && self.said > SAID_MAX
    }

    /// Bytes that the other side may have waiting once it is known.
    pub(crate) fn bound(&mut self, each: usize) {
        self.each = each;
    }

    /// Counts what waits and what is unfinished.
    ///
    /// # Errors
    /// It is more than may be, by itself or with what others have.
    pub(crate) fn settle(
        &mut self,
        (waiting, unfinished): (usize, usize),
        shared: &mut Pool,
        of_port: Option<&mut Pool>,
    ) -> Result<(), Overdrawn> {
        self.answers = self.answers.min(waiting);
        let common = if self.is_known { self.answers } else { waiting + unfinished };
        let kept = shared.change(std::mem::replace(&mut self.shared, common), common);
        let own = if self.is_known { waiting } else { 0 };
        let of_port = match of_port {
            Some(pool) => pool.change(std::mem::replace(&mut self.of_port, own), own),
            None => Ok(()),
        };
        if self.is_over() {
            return Err(Overdrawn::Talkative { bytes: self.said });
        }
        if self.answers > ANSWERS_MAX {
            return Err(Overdrawn::Answers { waiting: self.answers });
        }
        let most = if self.is_known { self.each } else { STRANGER_MAX };
        if waiting > most {
            return Err(Overdrawn::Untaken { waiting, most });
        }
        if !self.is_known && unfinished > STRANGER_MAX {
            return Err(Overdrawn::Unfinished { bytes: unfinished });
        }
        kept.and(of_port)
    }

    /// The session is over: it has nothing any more.
    pub(crate) fn close(&mut self, shared: &mut Pool, of_port: Option<&mut Pool>) {
        shared.bytes -= std::mem::take(&mut self.shared);
        if let Some(pool) = of_port {
            pool.bytes -= std::mem::take(&mut self.of_port);
        }
    }
}

/// Bytes read lately of a session that is read last.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct BytesRead {
    second: u64,
    bytes: u32,
}

impl BytesRead {
    pub(crate) fn of_second(self, now: u64) -> u32 {
        if self.second == now / SECOND { self.bytes } else { 0 }
    }

    pub(crate) fn add(&mut self, now: u64, bytes: usize) {
        *self = Self { bytes: self.of_second(now).saturating_add(bytes as u32), second: now / SECOND };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_counts_for_a_second() {
        let mut bytes_read = BytesRead::default();
        bytes_read.add(5 * SECOND, 100);
        bytes_read.add(6 * SECOND - 1, 1);
        assert_eq!((bytes_read.of_second(6 * SECOND - 1), bytes_read.of_second(6 * SECOND)), (101, 0));
    }

    #[test]
    fn a_stranger_has_little_and_who_has_logged_in_has_what_its_owner_bears() {
        let mut shared = Pool::shared();
        let mut account = Account::new(1 << 20);
        assert_eq!(account.settle((STRANGER_MAX, 0), &mut shared, None), Ok(()));
        let much = account.settle((STRANGER_MAX + 1, 0), &mut shared, None);
        assert_eq!(much, Err(Overdrawn::Untaken { waiting: STRANGER_MAX + 1, most: STRANGER_MAX }));
        let unfinished = account.settle((0, STRANGER_MAX + 1), &mut shared, None);
        assert_eq!(unfinished, Err(Overdrawn::Unfinished { bytes: STRANGER_MAX + 1 }));
        account.is_known = true;
        assert_eq!(account.settle((1 << 20, 0), &mut shared, None), Ok(()));
        assert_eq!(shared.bytes, 0, "it is no stranger, and has no answers");
        assert!(account.settle(((1 << 20) + 1, 0), &mut shared, None).is_err());
    }

    #[test]
    fn answers_that_are_not_taken_end_a_session_whatever_else_may_wait() {
        let (mut shared, mut account) = (Pool::shared(), Account::new(usize::MAX));
        account.is_known = true;
        account.answer(ANSWERS_MAX, 0);
        account.answer(ANSWERS_MAX, 0);
        assert_eq!(account.settle((1 << 30, 0), &mut shared, None), Ok(()));
        assert_eq!(shared.bytes, ANSWERS_MAX);
        account.answer(1, 1 << 30);
        let over = account.settle((1 << 30, 0), &mut shared, None);
        assert_eq!(over, Err(Overdrawn::Answers { waiting: ANSWERS_MAX + 1 }));
        // Bytes that the socket has taken are counted no more.
        assert_eq!(account.settle((0, 0), &mut shared, None), Ok(()));
        assert_eq!(shared.bytes, 0);
    }

    #[test]
    fn many_strangers_share_and_the_modest_are_let_be() {
        let mut shared = Pool::shared();
        let mut greedy: Vec<_> = (0..SHARED_MAX / STRANGER_MAX).map(|_| Account::new(0)).collect();
        for account in &mut greedy {
            assert_eq!(account.settle((0, STRANGER_MAX), &mut shared, None), Ok(()));
        }
        assert_eq!(shared.bytes, SHARED_MAX);
        let mut modest = Account::new(0);
        assert_eq!(modest.settle((300, 1_000), &mut shared, None), Ok(()));
        let mut one_more = Account::new(0);
        assert!(matches!(one_more.settle((0, FREE + 1), &mut shared, None), Err(Overdrawn::Shared { .. })));
        for account in greedy.iter_mut().chain([&mut modest, &mut one_more]) {
            account.close(&mut shared, None);
        }
        assert_eq!(shared.bytes, 0);
    }

    #[test]
    fn those_of_a_port_share_what_it_bears() {
        let bounds = Bounds { each: 1 << 20, all: 3 << 20 };
        let (mut shared, mut port) = (Pool::shared(), Pool::of_port(bounds));
        let mut known: Vec<_> = (0..4).map(|_| Account::new(bounds.each)).collect();
        for (n, account) in known.iter_mut().enumerate() {
            account.is_known = true;
            let settled = account.settle((1 << 20, 0), &mut shared, Some(&mut port));
            assert_eq!(settled.is_ok(), n < 3, "{settled:?}");
        }
        for account in &mut known {
            account.close(&mut shared, Some(&mut port));
        }
        assert_eq!((shared.bytes, port.bytes), (0, 0));
    }

    #[test]
    fn a_stranger_says_so_much_and_no_more() {
        let (mut shared, mut account) = (Pool::shared(), Account::new(0));
        assert!(account.note_bytes(SAID_MAX) && !account.note_bytes(1) && account.is_over());
        assert!(matches!(account.settle((0, 0), &mut shared, None), Err(Overdrawn::Talkative { .. })));
    }

    #[test]
    fn who_has_this_side_answer_without_an_end_is_loud_until_a_second_without() {
        let mut account = Account::new(0);
        // Pings now and then.
        for second in 1..=10 {
            account.note_noise(200, 200);
            assert!(!account.is_loud(second * SECOND));
        }
        account.answer(NOISE_MAX / ANSWER_NOISE + 1, 0);
        assert!(account.is_loud(10 * SECOND + 5));
        assert!(account.is_loud(11 * SECOND + 1), "it was in the last one");
        account.note_noise(200, 0);
        assert!(!account.is_loud(12 * SECOND + 2));
        account.note_noise(NOISE_MAX + 1, 0);
        assert!(account.is_loud(12 * SECOND + 3) && !account.is_loud(15 * SECOND), "long ago");
    }
}
