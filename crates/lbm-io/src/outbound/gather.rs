//! When the parts of an LBT-TCP session leave that are for one receiver each. A call for each few messages costs the source the call, and the
//! receiver a wake-up and often an answer; a session without parts has one call for all of them.
//!
//! A session that sends little sends at once. Parts of one that has just sent much wait until a block of them is together, for a moment at most:
//! at such rates a message waits no longer for those behind it than it would for those before it.

/// Bytes of a part that leave at once: as many as the kernel passes on in one piece.
pub(super) const BLOCK: usize = 65_507;
/// How long parts wait at most, ns.
const WAIT_NS: u64 = 500_000;
/// Bytes within that time from which on a session sends much: 64 MB a second.
const MUCH: u64 = 32_768;

/// See the module.
#[derive(Debug)]
pub(super) struct Gather {
    wait_ns: u64,
    /// Until when what waits now may do so.
    until: Option<u64>,
    /// All that waits leaves with the next pump.
    hurry: bool,
    /// Since when bytes are counted, and how many have left.
    since: u64,
    bytes: u64,
    /// Whether much has left in the time before.
    is_busy: bool,
}

impl Gather {
    /// By how a source lets its messages wait for each other. If it does not, none waits here.
    pub(super) fn new(minimum_length: usize, interval_ns: u64) -> Self {
        let wait_ns = if minimum_length <= 1 { 0 } else { interval_ns.min(WAIT_NS) };
        Self { wait_ns, until: None, hurry: false, since: 0, bytes: 0, is_busy: false }
    }

    /// All that waits leaves with the next pump.
    #[inline]
    pub(super) fn hurry(&mut self) {
        self.hurry = true;
    }

    /// Whether bytes wait.
    pub(super) fn waits(&self) -> bool {
        self.until.is_some()
    }

    /// When they may no more.
    pub(super) fn until(&self) -> Option<u64> {
        self.until
    }

    /// Whether bytes that there are may wait for more.
    pub(super) fn may_wait(&mut self, now: u64) -> bool {
        let elapsed = now.saturating_sub(self.since);
        if elapsed >= WAIT_NS {
            self.is_busy = self.bytes.saturating_mul(WAIT_NS) >= elapsed.saturating_mul(MUCH);
            (self.since, self.bytes) = (now, 0);
        }
        let may = self.is_busy && !self.hurry && now < *self.until.get_or_insert(now.saturating_add(self.wait_ns));
        self.hurry = false;
        may
    }

    /// So many bytes have left; whether others wait.
    pub(super) fn left(&mut self, bytes: usize, others: bool) {
        self.bytes += bytes as u64;
        if !others {
            self.until = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_wait_where_much_has_left_and_for_a_moment() {
        let mut gather = Gather::new(2_048, 200_000_000);
        let start = 10 * WAIT_NS;
        assert!(!gather.may_wait(start), "nothing has left before");
        gather.left(MUCH as usize - 1, false);
        assert!(!gather.may_wait(start + WAIT_NS), "little has");
        gather.left(MUCH as usize, false);
        assert!(!gather.may_wait(start + WAIT_NS + 1), "much has, in the time that is not over");
        let busy = start + 2 * WAIT_NS;
        assert!(gather.may_wait(busy) && gather.waits());
        gather.left(MUCH as usize, true);
        assert!(gather.may_wait(busy + WAIT_NS - 1), "what does not leave goes on waiting");
        assert!(!gather.may_wait(busy + WAIT_NS), "for a moment");
        gather.left(1, false);
        assert_eq!(gather.until(), None);
        // It has sent much in that time as well, and is asked to hurry.
        assert!(gather.may_wait(busy + WAIT_NS + 1));
        gather.hurry();
        assert!(!gather.may_wait(busy + WAIT_NS + 2));
        assert!(gather.may_wait(busy + WAIT_NS + 3), "once");
        gather.left(1, false);
        assert!(!gather.may_wait(busy + 9 * WAIT_NS), "much for so short a time is little for a long one");
    }

    #[test]
    fn a_source_whose_messages_do_not_wait_in_the_session_has_them_wait_nowhere() {
        let mut gather = Gather::new(1, 200_000_000);
        gather.left(usize::MAX / 2, false);
        assert!(!gather.may_wait(WAIT_NS));
        assert!(!gather.may_wait(WAIT_NS + 1));
    }
}
