//! The limit of open files: one descriptor a connection.

use std::io;

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
