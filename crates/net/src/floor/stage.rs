//! A stage of a measurement in a process of its own, which hands its result back through a pipe.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sys::check;

/// A forked process.
pub struct Stage {
    pid: libc::pid_t,
    result: File,
}

impl Stage {
    /// Runs `f` in a new process. All that `f` owns is the new process's; what else is open stays open in both: drop it here.
    ///
    /// # Errors
    /// The process has more than one thread: the copy would have only this one, with whatever the others held locked. What the
    /// system refuses.
    pub fn fork(f: impl FnOnce() -> String) -> io::Result<Self> {
        if std::fs::read_dir("/proc/self/task")?.count() != 1 {
            return Err(io::Error::other("a process with more than one thread cannot be copied"));
        }
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors.
        check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
        // SAFETY: both have just been created for this process.
        let (read, write) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        // SAFETY: the process has one thread (as has just been seen), so the copy is as good as the original.
        let pid = check(unsafe { libc::fork() })?;
        if pid == 0 {
            drop(read);
            // A panic must not unwind into the copy of the caller's stack.
            let done = catch_unwind(AssertUnwindSafe(|| File::from(write).write_all(f().as_bytes())));
            let code = i32::from(!matches!(done, Ok(Ok(()))));
            // SAFETY: ends the process without running what belongs to the one it was copied from.
            unsafe { libc::_exit(code) };
        }
        Ok(Self { pid, result: File::from(read) })
    }

    /// Waits for the end and returns what the stage handed back.
    ///
    /// # Errors
    /// The stage failed; what the system refuses.
    pub fn join(mut self) -> io::Result<String> {
        let mut text = String::new();
        self.result.read_to_string(&mut text)?;
        let mut status = 0;
        // SAFETY: the kernel writes one int; the process is our child and is waited for once.
        check(unsafe { libc::waitpid(self.pid, &raw mut status, 0) })?;
        if status == 0 { Ok(text) } else { Err(io::Error::other(format!("a stage ended with status {status:#x}"))) }
    }
}
