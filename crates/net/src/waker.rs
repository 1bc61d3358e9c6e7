//! Waking a thread that sleeps in a poll.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fmt, io};

use crate::sys;

/// Wakes the thread that polls, from any other thread or a signal handler. Cheap to clone.
///
/// Wake-ups coalesce: between two polls only the first costs a system call. What was written before [`Waker::wake`] is visible
/// to the thread that sees the wake-up.
#[derive(Clone)]
pub struct Waker {
    shared: Arc<Shared>,
}

struct Shared {
    eventfd: OwnedFd,
    /// True from the first `wake` until the polling thread takes it.
    pending: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { shared: Arc::new(Shared { eventfd: sys::eventfd()?, pending: AtomicBool::new(false) }) })
    }

    /// Makes the poll return, now or the next time it is called.
    pub fn wake(&self) {
        // Both sides use read-modify-write: whichever comes second in the flag's order sees the other, so either the poller
        // takes this wake-up with all that precedes it, or a new write is made.
        if !self.shared.pending.swap(true, Ordering::AcqRel) {
            sys::eventfd_signal(self.shared.eventfd.as_fd());
        }
    }

    /// Whether a wake-up is waiting to be taken; for a poller that looks before it blocks.
    pub fn is_pending(&self) -> bool {
        self.shared.pending.load(Ordering::Acquire)
    }

    /// Takes the wake-up, if there is one. The eventfd is registered edge-triggered, so its count need not be read back.
    pub(crate) fn take(&self) -> bool {
        self.shared.pending.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.shared.eventfd.as_fd()
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").field("pending", &self.is_pending()).finish_non_exhaustive()
    }
}

/// A place to sleep for a thread that polls no sockets.
#[derive(Debug)]
pub struct Sleeper {
    waker: Waker,
}

impl AsFd for Sleeper {
    /// Readable once it is woken, until [`Sleeper::sleep`] has taken that: for a thread that polls other things as well.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.fd()
    }
}

impl Sleeper {
    /// A new one.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { waker: Waker::new()? })
    }

    /// What wakes it.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Sleeps until woken, at most `timeout` (`None`: for ever). Returns at once if a wake-up is waiting. `false`: not woken; the time
    /// is over or a signal came.
    ///
    /// # Errors
    /// The kernel has no reason to refuse.
    pub fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        // Not even if the flag is up already: its write is on the way, and would be taken for another wake-up later.
        if !sys::wait_readable(self.waker.fd(), timeout)? {
            return Ok(false);
        }
        // First the count, then the flag: a wake-up in between finds the flag still set and is part of this one.
        sys::eventfd_take(self.waker.fd());
        Ok(self.waker.take())
    }
}
