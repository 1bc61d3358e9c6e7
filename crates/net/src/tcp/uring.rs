//! Sending a batch with one system call by `io_uring`.
//!
//! Used for [`Tcp::send_all`](super::Tcp::send_all) alone. The sends are marked not to wait, so each is complete when the submission
//! returns: nothing is ever in flight between two calls, and a connection is closed as without the ring.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, types};

/// Sends in one submission.
pub(super) const ENTRIES: usize = 1024;

/// Below this many sends the calls by themselves are as cheap.
pub(super) const WORTHWHILE: usize = 4;

/// The result of a send that was not tried, because the ring failed before.
const NOT_TRIED: i32 = i32::MIN;

pub(super) struct Uring {
    ring: IoUring,
    /// One for each send that was put in, by its index.
    results: Vec<i32>,
    waiting: usize,
}

impl Uring {
    /// Opens a ring. To be called on the thread that will use it: the kernel then skips the locking that several would need.
    pub(super) fn new() -> io::Result<Self> {
        let entries = ENTRIES as u32;
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .build(entries)
            // Kernels before 6.0 do not know the hints.
            .or_else(|_| IoUring::new(entries))?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Send::CODE) {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        Ok(Self { ring, results: Vec::with_capacity(ENTRIES), waiting: 0 })
    }

    /// Puts a send in and returns its index for [`result`](Self::result). At most [`ENTRIES`] before a [`submit`](Self::submit).
    ///
    /// # Safety
    /// `bytes` and the descriptor stay as they are until [`submit`](Self::submit) has returned.
    pub(super) unsafe fn push(&mut self, fd: BorrowedFd<'_>, bytes: &[u8]) {
        let flags: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let entry = opcode::Send::new(types::Fd(fd.as_raw_fd()), bytes.as_ptr(), len)
            .flags(flags)
            .build()
            .user_data(self.results.len() as u64);
        // SAFETY: the entry's buffer and descriptor are valid until the submission returns (the caller's promise), and after it
        // nothing is in flight.
        unsafe { self.ring.submission().push(&entry) }.expect("the caller keeps to the number of entries");
        self.results.push(NOT_TRIED);
        self.waiting += 1;
    }

    /// Sends everything that was put in. After an error the ring is of no more use; [`result`](Self::result) tells what was not tried.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        while self.waiting > 0 {
            let outcome = self.ring.submit_and_wait(self.waiting);
            for entry in self.ring.completion() {
                self.results[entry.user_data() as usize] = entry.result();
                self.waiting -= 1;
            }
            match outcome {
                Ok(_) => {}
                Err(e) if matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// The outcome of the send with this index; `None` if it was not tried.
    pub(super) fn result(&self, index: usize) -> Option<io::Result<usize>> {
        match self.results[index] {
            NOT_TRIED => None,
            errno if errno < 0 => Some(Err(io::Error::from_raw_os_error(-errno))),
            sent => Some(Ok(sent as usize)),
        }
    }

    /// Forgets the results, for the next batch.
    pub(super) fn clear(&mut self) {
        self.waiting = 0;
        self.results.clear();
    }
}

/// How a batch is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Batching {
    /// A `send` for each connection.
    #[default]
    Send,
    /// `io_uring`: one system call for all, if the kernel allows it.
    IoUring,
}

/// The ring of a set, opened when it is first needed, on the thread that needs it.
#[derive(Default)]
pub(super) enum Batcher {
    #[default]
    Off,
    Wanted,
    On(Box<Uring>),
    Refused(String),
}

impl Batcher {
    pub(super) fn new(batching: Batching) -> Self {
        match batching {
            Batching::Send => Self::Off,
            Batching::IoUring => Self::Wanted,
        }
    }

    /// The ring, if there is or can be one.
    pub(super) fn take(&mut self) -> Option<Box<Uring>> {
        if matches!(self, Self::Wanted) {
            match Uring::new() {
                Ok(ring) => *self = Self::On(Box::new(ring)),
                Err(e) => self.refuse(&e),
            }
        }
        match std::mem::take(self) {
            Self::On(ring) => Some(ring),
            other => {
                *self = other;
                None
            }
        }
    }

    pub(super) fn refuse(&mut self, error: &io::Error) {
        let hint = match error.raw_os_error() {
            Some(libc::EPERM) => " (forbidden: sysctl kernel.io_uring_disabled, or a container's seccomp profile)",
            Some(libc::ENOSYS) => " (this kernel has no io_uring, or one without send)",
            Some(libc::ENOMEM) => " (the limit `memlock` is too low)",
            _ => "",
        };
        *self = Self::Refused(format!("io_uring is not used: {error}{hint}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do_and_is_final() {
        for (errno, hint) in [(libc::EPERM, "kernel.io_uring_disabled"), (libc::ENOMEM, "memlock"), (libc::EIO, "")] {
            let mut batcher = Batcher::new(Batching::IoUring);
            batcher.refuse(&io::Error::from_raw_os_error(errno));
            let Batcher::Refused(why) = &batcher else { panic!("not refused") };
            assert!(why.starts_with("io_uring is not used: ") && why.contains(hint), "{why}");
            assert!(batcher.take().is_none(), "not tried again at every turn");
            assert!(matches!(batcher, Batcher::Refused(_)));
        }
        assert!(Batcher::new(Batching::Send).take().is_none());
    }
}
