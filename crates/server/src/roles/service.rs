//! Notices for a service supervisor (`sd_notify(3)`): ready, alive, stopping. Without one, nothing is done.
//!
//! systemd names its socket in `NOTIFY_SOCKET` and its patience in `WATCHDOG_USEC`. The watchdog is fed only while the serving
//! threads go on: a thread of its own wakes each of them and looks whether a turn was made. A process that hangs is
//! ended and started again by its supervisor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Builder;
use std::time::Duration;

use sd_notify::NotifyState;

/// Counts the turns of one serving thread.
#[derive(Debug, Clone, Default)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// The thread begins another turn.
    #[inline]
    pub fn beat(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A serving thread as the watchdog sees it: its turns, and what ends its sleep.
pub type Watched = (Pulse, net::Waker);

/// Tells the supervisor that the ports are open, with a line for its status, and feeds its watchdog from now on if it has one.
pub fn ready(line: &str, threads: Vec<Watched>) {
    notify(&[NotifyState::Ready, NotifyState::Status(line)]);
    let Some(patience) = sd_notify::watchdog_enabled() else { return };
    let spawned = Builder::new().name("watchdog".into()).spawn(move || feed(patience, &threads));
    if let Err(e) = spawned {
        tracing::error!("the watchdog's thread cannot be started: {e}; the supervisor will end this process");
    }
}

/// Tells the supervisor that the process ends in order.
pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(e) = sd_notify::notify(states) {
        tracing::warn!("the supervisor cannot be told ({e}): NOTIFY_SOCKET names a socket that does not take messages");
    }
}

/// Looks twice within the supervisor's patience, and feeds the watchdog when every thread has made a turn since it was woken.
fn feed(patience: Duration, threads: &[Watched]) -> ! {
    loop {
        let before: Vec<u64> = threads.iter().map(|(pulse, _)| pulse.count()).collect();
        for (_, waker) in threads {
            waker.wake();
        }
        std::thread::sleep(patience / 3);
        let moved = |((pulse, _), before): (&Watched, &u64)| pulse.count() != *before;
        if threads.iter().zip(&before).all(moved) {
            notify(&[NotifyState::Watchdog]);
        } else {
            tracing::error!("a serving thread has made no turn for {:.1} s", (patience / 3).as_secs_f64());
        }
    }
}
