//! Where and with what priority threads run, as the reports' `taskset` and `chrt`.

use std::time::Duration;

use net::affinity::{self, CpuList};

use super::rules;

/// Places the calling thread, and by that every thread that it starts from now on: on `cpus` (such as `0-3,5`; empty for any) with
/// `priority` (`fifo 55`, `nice -5`; empty for the kernel's choice). What the machine does not grant is a warning that begins
/// with `who`, and the thread runs as before.
pub fn place(who: &str, cpus: &str, priority: &str) {
    if !cpus.is_empty() {
        let list = cpus.parse::<CpuList>().map_err(|e| e.to_string());
        if let Err(e) = list.and_then(|c| c.pin().map_err(|e| e.to_string())) {
            tracing::warn!("{who} may run on every processor: {e}");
        }
    }
    match rules::priority(priority) {
        Ok(None) => {}
        Ok(Some(wanted)) => {
            if let Err(e) = wanted.apply() {
                tracing::warn!("{who} runs with the usual priority: {e}");
            }
        }
        Err(e) => tracing::warn!("{who} runs with the usual priority: the priority {priority:?} {e}"),
    }
}

/// Has the calling thread, and those that it starts from now on, scheduled in slices of so many microseconds; 0 leaves it to the kernel.
/// What the machine does not grant is a warning: nothing else depends on it.
pub fn slice(who: &str, microseconds: u32) {
    if microseconds == 0 {
        return;
    }
    match affinity::set_slice(Duration::from_micros(microseconds.into())) {
        Ok(Some(_)) => {}
        Ok(None) => tracing::debug!("{who} runs with the usual slice: the kernel knows no other (before Linux 6.12)"),
        // Real-time priorities have no slices.
        Err(e) if e.kind() == std::io::ErrorKind::InvalidInput => {}
        Err(e) => tracing::warn!("{who} runs with the usual slice: {e}"),
    }
}
