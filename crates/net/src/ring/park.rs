//! The sleeping flag: a side that finds nothing to do sleeps, and the other side pays for waking it only then.

use std::fmt;

use super::sync::{AtomicBool, OnceLock, Ordering, Waker, fence};

/// One side's flag and the way to wake it.
///
/// The sleeper raises the flag, fences, and looks once more for work; the other side makes its work visible, fences, and looks at the
/// flag. Of the two fences one comes first: either the sleeper's second look sees the work, or the other side sees the flag. Without
/// both fences each could miss the other, and the sleeper would sleep on work for ever.
#[derive(Default)]
pub(super) struct Bed {
    sleeping: AtomicBool,
    waker: OnceLock<Waker>,
}

impl Bed {
    /// Sets how this side is woken, once.
    pub(super) fn wake_with(&self, waker: Waker) {
        assert!(self.waker.set(waker).is_ok(), "a side of a ring is woken by one waker");
    }

    /// The sleeper, before it looks for work the last time.
    pub(super) fn lie_down(&self) {
        self.sleeping.store(true, Ordering::Relaxed);
        // SYNC: pairs with the fence in `call`.
        fence(Ordering::SeqCst);
    }

    /// The sleeper, when it has seen work or has been woken.
    pub(super) fn get_up(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }

    /// The other side, after it has made work visible; `true` if it had to wake the sleeper.
    #[inline]
    pub(super) fn call(&self) -> bool {
        // SYNC: pairs with the fence in `lie_down`.
        fence(Ordering::SeqCst);
        self.call_fenced()
    }

    /// As `call`, for a caller that has fenced already.
    #[inline]
    pub(super) fn call_fenced(&self) -> bool {
        let sleeping = self.sleeping.load(Ordering::Relaxed);
        if sleeping && let Some(waker) = self.waker.get() {
            waker.wake();
        }
        sleeping
    }
}

impl fmt::Debug for Bed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bed").field("sleeping", &self.sleeping).finish_non_exhaustive()
    }
}
