//! Between two attempts.

use std::time::{Duration, Instant};

/// Between two attempts at something that does not answer, at first and at most.
const FIRST: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_secs(5);
/// How often somebody is asked whether to stop.
const LOOK: Duration = Duration::from_millis(25);

/// Waits longer each time.
#[derive(Debug)]
pub(crate) struct Retry {
    next: Duration,
}

impl Retry {
    pub(crate) const fn new() -> Self {
        Self { next: FIRST }
    }

    /// It has worked: the next failure is the first again.
    pub(crate) const fn worked(&mut self) {
        self.next = FIRST;
    }

    /// Waits before the next attempt, unless somebody says stop.
    pub(crate) async fn rest(&mut self, stop: &dyn Fn() -> bool) {
        let end = Instant::now() + self.next;
        self.next = (self.next * 2).min(MOST);
        while !stop() && Instant::now() < end {
            tokio::time::sleep(LOOK).await;
        }
    }
}
