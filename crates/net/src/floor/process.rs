//! A stage of a measurement in a process of its own, which hands its result back through a pipe.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Cost;
use crate::sys::check;

/// A forked process.
pub(super) struct Stage {
    pid: libc::pid_t,
    result: File,
}

impl Stage {
    /// Runs `f` in a new process. All that `f` owns is the new process's; what else is open stays open in both: drop it here.
    pub(super) fn fork(f: impl FnOnce() -> String) -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors.
        check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
        // SAFETY: both have just been created for this process.
        let (read, write) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        // SAFETY: the process has one thread (required by the module's documentation), so the copy is as good as the original.
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
    pub(super) fn join(mut self) -> io::Result<String> {
        let mut text = String::new();
        self.result.read_to_string(&mut text)?;
        let mut status = 0;
        // SAFETY: the kernel writes one int; the process is our child and is waited for once.
        check(unsafe { libc::waitpid(self.pid, &raw mut status, 0) })?;
        if status == 0 { Ok(text) } else { Err(io::Error::other(format!("a stage ended with status {status:#x}"))) }
    }
}

/// CPU time of this process, in ns: user and system.
pub(super) fn cpu() -> (u64, u64) {
    // SAFETY: all zero is a valid rusage, which the call overwrites.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one rusage.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    (ns(usage.ru_utime), ns(usage.ru_stime))
}

/// Numbers on one line, as a stage hands them back.
pub(super) fn numbers(values: &[u64]) -> String {
    values.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

/// The other way round.
pub(super) fn parse(text: &str) -> Vec<u64> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The end of a stage: messages, calls, and the CPU it used.
pub(super) fn usage(messages: u64, calls: u64) -> [u64; 4] {
    let (user, system) = cpu();
    [messages, calls, user, system]
}

impl Cost {
    pub(super) fn new(name: &str, usage: &[u64]) -> Self {
        let [messages, calls, user, system] = usage.try_into().unwrap_or([0; 4]);
        let each = |ns: u64| ns as f64 / messages.max(1) as f64;
        Self {
            name: name.to_owned(),
            user_ns: each(user),
            system_ns: each(system),
            batch: messages as f64 / calls.max(1) as f64,
        }
    }

    pub(super) fn to_json(&self) -> String {
        let Self { name, user_ns, system_ns, batch } = self;
        format!(r#"{{"stage":"{name}","user_ns":{user_ns:.1},"system_ns":{system_ns:.1},"batch":{batch:.1}}}"#)
    }
}
