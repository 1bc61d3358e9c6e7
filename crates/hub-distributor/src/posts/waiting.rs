//! Posts that wait a while for others, so that they go to their provider together (`insertFlushInterval`).
//!
//! Whatever else is sent to a session goes behind the posts that wait for it: a close of the item that one was for, a request on a stream that has been
//! another item's. So a post reaches its item, or is refused.

use crate::ProviderSink;
use crate::ids::SessionId;
use std::collections::BTreeMap;

/// Bytes of posts that may wait for a session; more of them go at once.
const BYTES_MAX: usize = 64 << 10;

/// Posts for one session, one behind the other.
#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
    /// When they go, nanoseconds.
    due: u64,
}

/// Posts of all sessions.
#[derive(Debug, Default)]
pub(crate) struct WaitingPosts(BTreeMap<SessionId, Waiting>);

impl WaitingPosts {
    /// Sends a post at once, with an interval of 0, or keeps it until others go that wait for the session, or the interval is over. Gives when that is, if no
    /// timer is set for it.
    pub(super) fn send(
        &mut self,
        session: SessionId,
        msg: &[u8],
        (now, interval): (u64, u64),
        out: &mut dyn ProviderSink,
    ) -> Option<u64> {
        if interval == 0 {
            self.flush(session, out);
            out.send(session, msg);
            return None;
        }
        let due = now.saturating_add(interval);
        let waiting = self.0.entry(session).or_default();
        // The shortest interval of the services that a session has counts.
        let is_sooner = waiting.ends.is_empty() || due < waiting.due;
        if is_sooner {
            waiting.due = due;
        }
        waiting.bytes.extend_from_slice(msg);
        waiting.ends.push(waiting.bytes.len());
        if waiting.bytes.len() >= BYTES_MAX {
            self.flush(session, out);
            return None;
        }
        is_sooner.then_some(due)
    }

    /// Sends what waits for a session.
    pub(crate) fn flush(&mut self, session: SessionId, out: &mut dyn ProviderSink) {
        // Mostly nothing waits for anybody.
        if self.0.is_empty() {
            return;
        }
        let Some(waiting) = self.0.remove(&session) else { return };
        let mut from = 0;
        for end in waiting.ends {
            out.send(session, &waiting.bytes[from..end]);
            from = end;
        }
    }

    /// A session is gone. Gives how many posts waited for it.
    pub(super) fn forget(&mut self, session: SessionId) -> u64 {
        self.0.remove(&session).map_or(0, |waiting| waiting.ends.len() as u64)
    }

    /// Sends what has waited for a session for long enough.
    pub(crate) fn flush_due(&mut self, session: SessionId, now: u64, out: &mut dyn ProviderSink) {
        if self.0.get(&session).is_some_and(|waiting| waiting.due <= now) {
            self.flush(session, out);
        }
    }

    /// Panics if something waits for a session that is gone.
    pub(super) fn check(&self, is_up: impl Fn(SessionId) -> bool) {
        assert!(self.0.keys().all(|session| is_up(*session)), "posts wait for a session that is gone");
    }
}
