//! The two clocks: monotonic nanoseconds for everything that measures or waits, wall time for what people read.

use std::time::{SystemTime, UNIX_EPOCH};

/// Monotonic time in nanoseconds (`CLOCK_MONOTONIC`; the origin is the machine's start, the same for all its processes).
///
/// About 22 ns by the vDSO: read it once a batch, not once a message.
#[inline]
pub fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of CPU that the calling thread has used, user and system together.
pub fn thread_cpu() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU of a thread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In user mode.
    pub user: u64,
    /// In the kernel.
    pub system: u64,
}

/// What the calling thread has used, in user mode and in the kernel. Their sum is exact; how it is divided may be found by
/// sampling at the timer's ticks, so it takes a second or more to mean something.
pub fn thread_usage() -> Usage {
    // SAFETY: plain numbers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes one rusage. It cannot fail for the calling thread.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    let nanos = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    Usage { user: nanos(usage.ru_utime), system: nanos(usage.ru_stime) }
}

/// Nanoseconds of CPU that all threads of this process have used.
pub fn process_cpu() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Wall-clock time in nanoseconds since 1970-01-01 UTC; zero if the machine's clock is set before that.
pub fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

/// Seconds by which the clock of this place (`TZ`, `/etc/localtime`) is before UTC at a time of [`wall`], with daylight saving as it is then.
pub fn utc_offset_s(wall_ns: u64) -> i64 {
    let time = (wall_ns / 1_000_000_000) as libc::time_t;
    // SAFETY: plain numbers and a pointer, for which zero is valid.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: the call reads one time and writes one tm. It fails for years beyond 2^31 alone, and leaves the offset zero then.
    unsafe { libc::localtime_r(&raw const time, &raw mut parts) };
    parts.tm_gmtoff
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut spec = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec. It cannot fail for the clocks named in this file.
    unsafe { libc::clock_gettime(clock, &raw mut spec) };
    spec.tv_sec as u64 * 1_000_000_000 + spec.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_never_goes_back() {
        let mut last = now();
        for _ in 0..10_000 {
            let next = now();
            assert!(next >= last);
            last = next;
        }
    }

    #[test]
    fn the_clock_of_the_place_is_near_that_of_the_world() {
        let offset = utc_offset_s(wall());
        assert!((-14 * 3_600..=14 * 3_600).contains(&offset), "{offset}");
    }

    #[test]
    fn cpu_time_counts_work() {
        let (thread, process) = (thread_cpu(), process_cpu());
        let mut x = 1u64;
        let used = thread_usage();
        while thread_cpu() - thread < 1_000_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        let more = thread_usage();
        assert!(more.user + more.system > used.user + used.system);
        // Of all threads together, but not brought up to date as finely.
        assert!(process_cpu() > process);
    }

    #[test]
    fn the_wall_clock_is_past_2020() {
        assert!(wall() > 1_577_836_800_000_000_000);
    }
}
