//! How far two processors are from each other, as a line of the cache goes.
//!
//! Who exchanges bytes through shared memory is as fast as lines go from one processor's cache to the other's. Two that share a core, a
//! cache of the third level, or only the memory differ by up to nine times, and the host of a virtual machine moves processors between such
//! places as it likes: without this figure beside them, figures of shared memory cannot be compared with each other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use net::affinity::CpuList;
use net::clock;

/// Trips in a batch, and how many batches.
const TRIPS: u64 = 100;
const BATCHES: u64 = 15;
/// The measurement takes no longer than this.
const PATIENCE: Duration = Duration::from_millis(100);
/// The value that ends the other side's echo.
const OVER: u64 = u64::MAX;

/// A word with its line, and the one beside that is fetched with it.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// Nanoseconds that a line takes to another processor and back: the median of batches, between the first two processors that this
/// process may run on. `None` where there is one alone, or where they had no time for it.
pub fn line_round_trip() -> Option<f64> {
    let cpus: Vec<usize> = CpuList::current().ok()?.iter().take(2).collect();
    let [here, there] = cpus[..].try_into().ok()?;
    let (ask, answer) = (Line::default(), Line::default());
    let deadline = Instant::now() + PATIENCE;
    thread::scope(|scope| {
        scope.spawn(|| pin(there) && echo(&ask, &answer, deadline));
        // A thread of its own, for the caller keeps the processors it may run on.
        let asking = scope.spawn(|| {
            let batches = if pin(here) { batches(&ask, &answer, deadline) } else { Vec::new() };
            ask.0.store(OVER, Ordering::Release);
            batches
        });
        let mut batches = asking.join().unwrap_or_default();
        batches.sort_unstable();
        Some(*batches.get(batches.len() / 2)? as f64 / TRIPS as f64)
    })
}

fn pin(cpu: usize) -> bool {
    CpuList::one(cpu).is_some_and(|list| list.pin().is_ok())
}

fn echo(ask: &Line, answer: &Line, deadline: Instant) -> bool {
    let mut last = 0;
    while let Some(next) = change(ask, last, deadline) {
        answer.0.store(next, Ordering::Release);
        last = next;
    }
    true
}

/// Nanoseconds of each batch that was complete.
fn batches(ask: &Line, answer: &Line, deadline: Instant) -> Vec<u64> {
    let mut all = Vec::new();
    for batch in 0..BATCHES {
        let begun = clock::now();
        for trip in batch * TRIPS..(batch + 1) * TRIPS {
            ask.0.store(trip + 1, Ordering::Release);
            if change(answer, trip, deadline).is_none() {
                return all;
            }
        }
        all.push(clock::now() - begun);
    }
    all
}

/// Waits for another value than `last`; `None` at the end, or when it takes too long.
fn change(line: &Line, last: u64, deadline: Instant) -> Option<u64> {
    loop {
        for _ in 0..1_000 {
            let value = line.0.load(Ordering::Acquire);
            if value != last {
                return (value != OVER).then_some(value);
            }
            std::hint::spin_loop();
        }
        if Instant::now() > deadline {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_longer_than_an_instruction_and_the_caller_keeps_its_processors() {
        let before = CpuList::current().expect("a list");
        let trip = line_round_trip();
        assert_eq!(CpuList::current().expect("a list"), before);
        // On one processor, or on one that others keep busy, there is none.
        assert!(trip.is_none_or(|ns| (5.0..1e6).contains(&ns)), "{trip:?}");
    }

    #[test]
    fn every_batch_is_echoed() {
        let (ask, answer) = (Line::default(), Line::default());
        // For as long as one processor alone needs, whose threads wait for each other by turns.
        let deadline = Instant::now() + Duration::from_mins(1);
        let all = thread::scope(|scope| {
            scope.spawn(|| echo(&ask, &answer, deadline));
            let all = batches(&ask, &answer, deadline);
            ask.0.store(OVER, Ordering::Release);
            all
        });
        assert_eq!(all.len() as u64, BATCHES);
        assert_eq!((all.contains(&0), answer.0.load(Ordering::Relaxed)), (false, BATCHES * TRIPS));
    }

    #[test]
    fn without_an_answer_the_wait_ends() {
        let line = Line::default();
        assert_eq!(change(&line, 0, Instant::now()), None);
        line.0.store(7, Ordering::Relaxed);
        assert_eq!(change(&line, 0, Instant::now()), Some(7));
        line.0.store(OVER, Ordering::Relaxed);
        assert_eq!(change(&line, 7, Instant::now()), None);
    }
}
