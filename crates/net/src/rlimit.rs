//! The limit of open files: one descriptor a connection.

use std::io;
use std::sync::{Mutex, PoisonError};

use crate::sys::check;

/// Limits of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// What applies.
    pub soft: u64,
    /// What `soft` may be raised to.
    pub hard: u64,
}

/// The limits of this process.
///
/// # Errors
/// The kernel has no reason to refuse.
pub fn open_files() -> io::Result<OpenFiles> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one rlimit.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    Ok(OpenFiles { soft: limit.rlim_cur, hard: limit.rlim_max })
}

/// Raises the limit to at least `wanted` if that can be done, past the hard limit only if this process may; never lowers it. Returns
/// the limits that apply then: the caller compares.
///
/// # Errors
/// Only when the limits cannot be read.
pub fn raise_open_files(wanted: u64) -> io::Result<OpenFiles> {
    let now = open_files()?;
    if now.soft >= wanted {
        return Ok(now);
    }
    if now.hard < wanted && set_open_files(wanted, wanted).is_ok() {
        return open_files();
    }
    let _ = set_open_files(wanted.min(now.hard), now.hard);
    open_files()
}

/// Sets the soft limit; for tests of what happens when there are no descriptors left.
///
/// # Errors
/// When it is above the hard limit.
pub fn set_soft_open_files(soft: u64) -> io::Result<()> {
    set_open_files(soft, open_files()?.hard)
}

/// What is kept back of the descriptors, so that a thread that answers for a process that has none left can take one.
static KEPT_BACK: Mutex<u64> = Mutex::new(0);

/// Keeps `count` descriptors back for [`with_kept_back`], below the hard limit: the soft one is lowered by as many as there are too few
/// above it. A limit that is hardly more than that stays, and nothing is kept back.
///
/// # Errors
/// Only when the limits cannot be read or set.
pub fn keep_back(count: u64) -> io::Result<()> {
    let now = open_files()?;
    let mut kept = KEPT_BACK.lock().unwrap_or_else(PoisonError::into_inner);
    let above = now.hard.saturating_sub(now.soft);
    if above < count {
        if now.soft < 2 * count {
            return Ok(());
        }
        set_open_files(now.soft - (count - above), now.hard)?;
    }
    *kept = (*kept).max(count);
    Ok(())
}

/// Does something with the descriptors that are kept back. Another thread that wants one in that moment may have it: keep back a few more
/// than are used, and make it short.
///
/// # Errors
/// Only when the limits cannot be read or set.
pub fn with_kept_back<T>(what: impl FnOnce() -> T) -> io::Result<T> {
    let kept = KEPT_BACK.lock().unwrap_or_else(PoisonError::into_inner);
    let now = open_files()?;
    set_open_files(now.hard.min(now.soft + *kept), now.hard)?;
    let done = what();
    set_open_files(now.soft, now.hard)?;
    Ok(done)
}

/// Whether an error says that there are no descriptors.
#[must_use]
pub fn is_out_of_files(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

fn set_open_files(soft: u64, hard: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: the kernel reads one rlimit.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raising_never_lowers() {
        let before = open_files().expect("limits");
        let after = raise_open_files(before.soft / 2).expect("limits");
        assert!(after.soft >= before.soft);
        let after = raise_open_files(before.hard).expect("limits");
        assert_eq!(after.soft, before.hard);
    }
}
