//! Where and with what priority the calling thread runs.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::str::FromStr;
use std::time::Duration;

use crate::sys::{check, check_len};

/// CPUs that the kernel's mask type can name.
const MOST: usize = libc::CPU_SETSIZE as usize;

/// A list of CPUs, written as `0-3,5`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CpuList {
    /// Ascending, without repeats, each below [`MOST`].
    cpus: Vec<u16>,
}

/// What is wrong with the text of a [`CpuList`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuListError {
    part: String,
}

impl fmt::Display for CpuListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no CPU or range of CPUs; write a list such as 0-3,5 (CPUs 0 to {})", self.part, MOST - 1)
    }
}

impl std::error::Error for CpuListError {}

impl CpuList {
    /// One CPU. `None` for a number that no machine of ours has (1024 and more).
    pub fn one(cpu: usize) -> Option<Self> {
        (cpu < MOST).then(|| Self { cpus: vec![cpu as u16] })
    }

    /// The CPUs that the calling thread may run on.
    ///
    /// # Errors
    /// When the kernel does not say; machines with more than 1024 CPUs.
    pub fn current() -> io::Result<Self> {
        // SAFETY: all zero is the valid empty set.
        let mut set = unsafe { MaybeUninit::<libc::cpu_set_t>::zeroed().assume_init() };
        // SAFETY: the kernel writes at most the size given into `set`; 0 is the calling thread.
        check(unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) })?;
        // SAFETY: every index is below CPU_SETSIZE.
        let cpus = (0..MOST).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).map(|cpu| cpu as u16).collect();
        Ok(Self { cpus })
    }

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.cpus.iter().map(|&cpu| usize::from(cpu))
    }

    /// How many there are; at least one.
    #[expect(clippy::len_without_is_empty, reason = "a list is never empty")]
    pub fn len(&self) -> usize {
        self.cpus.len()
    }

    /// Makes the calling thread run on these CPUs only.
    ///
    /// # Errors
    /// When none of them is there or allowed to this process; the text says which are.
    pub fn pin(&self) -> io::Result<()> {
        // SAFETY: all zero is the valid empty set.
        let mut set = unsafe { MaybeUninit::<libc::cpu_set_t>::zeroed().assume_init() };
        for cpu in self.iter() {
            // SAFETY: every CPU of a list is below CPU_SETSIZE.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        // SAFETY: the kernel reads the size given from `set`; 0 is the calling thread.
        check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) }).map(drop).map_err(
            |error| {
                let allowed = Self::current().map_or_else(|_| "unknown".to_owned(), |list| list.to_string());
                io::Error::new(error.kind(), format!("cannot run on CPUs {self} (allowed here: {allowed}): {error}"))
            },
        )
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|&cpu| cpu < MOST);
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (number(first), number(last)) {
                (Some(first), Some(last)) if first <= last => cpus.extend(first as u16..=last as u16),
                _ => return Err(CpuListError { part: part.trim().to_owned() }),
            }
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self { cpus })
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, run) in self.cpus.chunk_by(|a, b| a + 1 == *b).enumerate() {
            let comma = if i > 0 { "," } else { "" };
            match run {
                [one] => write!(f, "{comma}{one}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

impl fmt::Debug for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuList({self})")
    }
}

/// How the kernel schedules the calling thread against others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Real time, first in first out, 1 (lowest) to 99. Such a thread must block: one that spins takes its CPU away from everybody.
    Fifo(u8),
    /// Time sharing, -20 (most) to 19 (least).
    Nice(i8),
}

impl Priority {
    /// Gives the calling thread this priority.
    ///
    /// # Errors
    /// When the process may not (the text says what it lacks) or the value is out of range.
    pub fn apply(self) -> io::Result<()> {
        match self {
            Self::Fifo(level) => {
                let parameters = libc::sched_param { sched_priority: libc::c_int::from(level) };
                // SAFETY: the kernel reads one sched_param; 0 is the calling thread.
                check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) })
            }
            Self::Nice(level) => {
                // SAFETY: no pointers; on Linux the priority is that of the thread whose id is given, 0 being the calling one.
                check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, libc::c_int::from(level)) })
            }
        }
        .map(drop)
        .map_err(|error| self.explain(&error))
    }

    fn explain(self, error: &io::Error) -> io::Error {
        let denied = matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES));
        let text = match self {
            Self::Fifo(level) if denied => {
                format!(
                    "real-time priority {level} needs CAP_SYS_NICE or a limit `rtprio` of at least {level}: {error}"
                )
            }
            Self::Nice(level) if denied => format!("nice {level} needs CAP_SYS_NICE or a limit `nice`: {error}"),
            Self::Fifo(level) => format!("real-time priority {level} (1 to 99) was refused: {error}"),
            Self::Nice(level) => format!("nice {level} (-20 to 19) was refused: {error}"),
        };
        io::Error::new(error.kind(), text)
    }
}

/// How long the calling thread runs before the kernel lets others of its core run, and how soon it runs itself when it has waited: the
/// *slice* of time sharing, 0.1 to 100 ms (shorter and longer ones are cut). 2 to 3 ms unless set.
///
/// Returns the slice that the kernel has granted: `None` from a kernel that knows none (before 6.12). Threads that are started later
/// by this one inherit it. It takes no privilege.
///
/// # Errors
/// The thread has a real-time priority, which has no slices.
pub fn set_slice(slice: Duration) -> io::Result<Option<Duration>> {
    let refused = |error: io::Error| io::Error::new(error.kind(), format!("a slice of {slice:?} was refused: {error}"));
    let mut attributes = scheduling().map_err(refused)?;
    attributes.size = SCHED_ATTR_SIZE;
    if attributes.sched_policy != libc::SCHED_OTHER as u32 && attributes.sched_policy != libc::SCHED_BATCH as u32 {
        return Err(refused(io::Error::from_raw_os_error(libc::EINVAL)));
    }
    attributes.sched_runtime = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX).clamp(SLICE_MIN_NS, SLICE_MAX_NS);
    // SAFETY: the kernel reads `size` bytes of a structure that has as many; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    check_len(result as isize).map_err(refused)?;
    let granted = scheduling().map_err(refused)?.sched_runtime;
    Ok((granted != 0).then(|| Duration::from_nanos(granted)))
}

/// What kernels take; they cut what lies outside.
const SLICE_MIN_NS: u64 = 100_000;
const SLICE_MAX_NS: u64 = 100_000_000;
/// The first version of the structure, which all kernels that have the call know.
const SCHED_ATTR_SIZE: u32 = 48;

/// How the calling thread is scheduled.
fn scheduling() -> io::Result<libc::sched_attr> {
    // SAFETY: all zero is valid: integers.
    let mut attributes = unsafe { MaybeUninit::<libc::sched_attr>::zeroed().assume_init() };
    // SAFETY: the kernel writes at most the size given; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SCHED_ATTR_SIZE, 0) };
    check_len(result as isize)?;
    Ok(attributes)
}

/// How late the kernel may end the calling thread's timed waits to combine them with others: 50,000 ns unless set. At least 1.
///
/// # Errors
/// The kernel has no reason to refuse.
pub fn set_timer_slack(nanoseconds: u64) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanoseconds.max(1) as libc::c_ulong, 0, 0, 0) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        for (text, cpus, normal) in [
            ("0-3,5", vec![0, 1, 2, 3, 5], "0-3,5"),
            ("7", vec![7], "7"),
            ("5, 1 ,0-1", vec![0, 1, 5], "0-1,5"),
            ("1023", vec![1023], "1023"),
        ] {
            let list: CpuList = text.parse().expect(text);
            assert_eq!(list.iter().collect::<Vec<_>>(), cpus);
            assert_eq!(list.to_string(), normal);
            assert_eq!(list.len(), cpus.len());
        }
        for text in ["", ",", "a", "3-1", "1024", "0-", "-1", "1-2-3", "0;1"] {
            let error = text.parse::<CpuList>().expect_err(text);
            assert!(error.to_string().contains("such as 0-3,5"));
        }
    }

    #[test]
    fn a_thread_runs_where_it_was_pinned() {
        let allowed = CpuList::current().expect("the kernel says");
        let last = CpuList::one(allowed.iter().last().expect("never empty")).expect("in range");
        let pinned = std::thread::spawn(move || {
            last.pin().expect("allowed");
            CpuList::current().map(|now| now == last)
        });
        assert!(pinned.join().expect("thread").expect("the kernel says"));
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named_in_the_error() {
        let text = CpuList::one(1023).expect("in range").pin().expect_err("no such machine here").to_string();
        assert!(text.contains("CPUs 1023") && text.contains("allowed here: "), "{text}");
    }

    #[test]
    fn a_priority_out_of_range_is_an_error_that_says_so() {
        let text = Priority::Fifo(100).apply().expect_err("99 is the highest").to_string();
        assert!(text.contains("100"), "{text}");
    }

    #[test]
    fn a_thread_can_be_made_nicer() {
        std::thread::spawn(|| Priority::Nice(1).apply()).join().expect("thread").expect("always allowed");
    }

    #[test]
    fn a_slice_is_granted_within_the_kernels_bounds_and_leaves_the_priority_alone() {
        let slices = std::thread::spawn(|| {
            Priority::Nice(1).apply().expect("always allowed");
            let slices =
                [1, 500_000, u64::MAX].map(|ns| set_slice(Duration::from_nanos(ns)).expect("no privilege needed"));
            (slices, scheduling().expect("the kernel says").sched_nice)
        });
        let (slices, nice) = slices.join().expect("thread");
        assert_eq!(nice, 1);
        if slices[0].is_none() {
            eprintln!("this kernel knows no slices (before Linux 6.12)");
        } else {
            assert_eq!(slices, [100_000, 500_000, 100_000_000].map(|ns| Some(Duration::from_nanos(ns))));
        }
    }
}
