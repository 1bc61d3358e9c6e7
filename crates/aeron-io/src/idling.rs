//! What the threads that poll do while there is nothing to do, and who wakes them before their nap is over.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Thread, ThreadId};
use std::time::Duration;

use crate::Idle;

/// Rounds without work before a thread that backs off lets others run, and before it sleeps.
const SPINS: u32 = 10;
const YIELDS: u32 = 30;

/// The idling of the thread that made it.
#[derive(Debug)]
pub(crate) struct Idling {
    strategy: Idle,
    /// Without work, in a row.
    rounds: u32,
    /// The last nap since there was work; zero before the first.
    nap: Duration,
}

impl Idling {
    /// For this thread, whose naps end on time from now on: the kernel adds 50 µs to each otherwise.
    pub(crate) fn new(strategy: Idle) -> Self {
        // Later naps are all that a kernel without that would cost.
        let _ = net::affinity::set_timer_slack(1);
        Self { strategy, rounds: 0, nap: Duration::ZERO }
    }

    /// A round is over, in which there was work or none.
    #[inline]
    pub(crate) fn turn(&mut self, work: bool) {
        if work {
            (self.rounds, self.nap) = (0, Duration::ZERO);
            return;
        }
        self.rounds = self.rounds.saturating_add(1);
        match self.strategy {
            Idle::Spin => std::hint::spin_loop(),
            Idle::Yield => std::thread::yield_now(),
            Idle::Backoff { .. } if self.rounds <= SPINS => std::hint::spin_loop(),
            Idle::Backoff { .. } if self.rounds <= YIELDS => std::thread::yield_now(),
            Idle::Backoff { first, longest } => {
                self.nap = (self.nap * 2).max(first).min(longest);
                std::thread::park_timeout(self.nap);
            }
        }
    }
}

/// The threads that poll what another one brings: it wakes them when it has brought something.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    threads: Mutex<Vec<Thread>>,
    changes: AtomicU32,
}

impl Sleepers {
    pub(crate) fn add(&self, thread: Thread) {
        self.change(|threads| threads.push(thread));
    }

    pub(crate) fn remove(&self, thread: ThreadId) {
        self.change(|threads| threads.retain(|known| known.id() != thread));
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Thread>)) {
        change(&mut self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        self.changes.fetch_add(1, Ordering::Release);
    }
}

/// The sleepers as the thread knows them that wakes them: it takes no lock as long as they are the same.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    threads: Vec<Thread>,
    /// As of this change.
    as_of: u32,
}

impl Alarm {
    /// Wakes those that sleep. One that is awake notices a word's change at most.
    #[inline]
    pub(crate) fn ring(&mut self, sleepers: &Sleepers) {
        let changes = sleepers.changes.load(Ordering::Acquire);
        if changes != self.as_of {
            self.threads.clone_from(&sleepers.threads.lock().unwrap_or_else(PoisonError::into_inner));
            self.as_of = changes;
        }
        for thread in &self.threads {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    #[test]
    fn who_sleeps_is_woken_and_who_is_gone_is_not_looked_for() {
        let sleepers = Arc::new(Sleepers::default());
        let (woken, has_woken) = channel();
        let sleeper = std::thread::spawn(move || {
            std::thread::park();
            woken.send(()).unwrap();
        });
        let mut alarm = Alarm::default();
        alarm.ring(&sleepers);
        assert!(alarm.threads.is_empty());
        sleepers.add(sleeper.thread().clone());
        alarm.ring(&sleepers);
        has_woken.recv().unwrap();
        let id = sleeper.thread().id();
        sleeper.join().unwrap();
        sleepers.remove(id);
        alarm.ring(&sleepers);
        assert!(alarm.threads.is_empty());
    }
}
