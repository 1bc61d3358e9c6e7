//! Queries to a serving thread, from the thread that serves HTTP: the serving thread answers them at the end of a turn.
//!
//! While nobody asks, a turn looks at one flag and nothing else. A query is a closure that gets the [`Thread`]; it takes what it
//! wants to know with it through a channel of its own. Queries bound themselves: each looks at so many things at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use hub_io::HubPeer;
use net::Waker;
use rssl_io::RsslIo;

use super::consumers::Consumers;
use super::providers::Providers;
use super::turn_latency::TurnLatency;
use crate::counters::Samples;

/// Queries that may wait for a thread.
const QUERIES_MAX: usize = 64;
/// How long a thread may take to answer. A turn takes milliseconds.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Every so manieth turn is timed.
const SAMPLED: u32 = 32;
/// A serving thread, open to a query.
pub struct Thread<'a> {
    /// The time of the turn.
    pub now: u64,
    /// The thread's sockets.
    pub io: &'a mut RsslIo,
    /// The side that faces consumers, if it is this thread's.
    pub consumers: Option<&'a mut Consumers>,
    /// The side that faces providers, if it is this thread's.
    pub providers: Option<&'a mut Providers>,
    /// Peers at the other end of the hub, where they are processes of their own.
    pub peers: Vec<HubPeer>,
    /// The thread's counters.
    pub samples: Samples,
    /// How long messages are in this thread.
    pub latency: TurnLatency,
}

/// A question to a serving thread.
pub type Query = Box<dyn FnOnce(&mut Thread<'_>) + Send>;

/// A serving thread's end: what is asked of it, and the clock on its turns.
pub struct Monitor {
    asked: Arc<AtomicBool>,
    queries: Receiver<Query>,
    turns: u32,
    delivered: u64,
    latency: TurnLatency,
    /// Turns are timed (`latencyCalcEnabled`).
    is_timing: bool,
}

/// The other end.
#[derive(Clone)]
pub struct MonitorHandle {
    /// The thread's name.
    pub name: String,
    asked: Arc<AtomicBool>,
    queries: SyncSender<Query>,
    waker: Waker,
}

/// Both ends; `waker` ends the thread's sleep, `is_timing` says whether every so manieth turn is timed.
pub fn monitor(name: &str, waker: Waker, is_timing: bool) -> (Monitor, MonitorHandle) {
    let (sender, queries) = sync_channel(QUERIES_MAX);
    let asked = Arc::new(AtomicBool::new(false));
    let handle = MonitorHandle { name: name.to_owned(), asked: asked.clone(), queries: sender, waker };
    let latency = TurnLatency::default();
    (Monitor { asked, queries, turns: 0, delivered: 0, latency, is_timing }, handle)
}

impl MonitorHandle {
    /// Puts a query and waits for the answer.
    ///
    /// # Errors
    /// The thread does not answer in time, or has ended: its name.
    pub fn answer<T: Send + 'static>(
        &self,
        query: impl FnOnce(&mut Thread<'_>) -> T + Send + 'static,
    ) -> Result<T, String> {
        let silent = || format!("{} does not answer", self.name);
        let (answer, answered) = sync_channel(1);
        // A caller that has given up does not get the answer.
        self.ask(Box::new(move |thread| drop(answer.try_send(query(thread))))).map_err(|_| silent())?;
        answered.recv_timeout(PATIENCE).map_err(|_| silent())
    }

    /// Puts a query; the thread answers in its next turn, which begins now.
    ///
    /// # Errors
    /// Too many queries wait, or the thread has ended.
    pub fn ask(&self, query: Query) -> Result<(), &'static str> {
        self.queries.try_send(query).map_err(|_| "the thread does not answer")?;
        self.asked.store(true, Ordering::Release);
        self.waker.wake();
        Ok(())
    }
}

impl Monitor {
    /// Somebody asks.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// The latencies of the turns so far.
    pub fn latency(&self) -> TurnLatency {
        self.latency
    }

    /// Whether the turn that is about to begin is one of those that are timed.
    #[inline]
    pub fn times_next_turn(&self) -> bool {
        self.is_timing && self.turns % SAMPLED == SAMPLED - 1
    }

    /// Answers all that is asked.
    pub fn answer(&mut self, mut thread: Thread<'_>) {
        self.asked.store(false, Ordering::Release);
        for query in self.queries.try_iter().take(QUERIES_MAX) {
            query(&mut thread);
        }
    }

    /// A turn that began at `began` has handed everything to the kernel; `delivered` says how many messages that thread has delivered in
    /// all.
    #[inline]
    pub fn end_turn(&mut self, began: u64, delivered: impl Fn() -> u64) {
        self.turns = self.turns.wrapping_add(1);
        match self.turns % SAMPLED {
            _ if !self.is_timing => {}
            0 if delivered() > self.delivered => self.latency.record(net::clock::now().saturating_sub(began)),
            // Deliveries before the turn that is timed.
            before if before == SAMPLED - 1 => self.delivered = delivered(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_answered_in_the_next_turn() {
        let mut io = RsslIo::new(1).expect("sockets");
        let (mut monitor, handle) = monitor("a", io.tcp().waker(), true);
        assert!(!monitor.is_asked());
        let (answer, answered) = sync_channel(1);
        handle.ask(Box::new(move |thread| answer.send(thread.now).expect("room"))).expect("room");
        assert!(monitor.is_asked());
        let latency = TurnLatency::default();
        let samples = Samples::default();
        let (consumers, providers, peers) = (None, None, Vec::new());
        let thread = Thread { now: 7, io: &mut io, consumers, providers, peers, samples, latency };
        monitor.answer(thread);
        assert_eq!(answered.recv(), Ok(7));
        assert!(!monitor.is_asked());
        for _ in 0..QUERIES_MAX {
            handle.ask(Box::new(|_| ())).expect("room");
        }
        assert!(handle.ask(Box::new(|_| ())).is_err(), "there is a bound");
        drop(monitor);
        assert!(handle.ask(Box::new(|_| ())).is_err());
    }

    #[test]
    fn turns_that_deliver_are_timed_now_and_then() {
        let mut io = RsslIo::new(1).expect("sockets");
        let (mut monitor, _handle) = monitor("a", io.tcp().waker(), true);
        let mut delivered = 0;
        let mut said = 0;
        for turn in 0..64 * SAMPLED {
            said += u32::from(monitor.times_next_turn());
            // Every second of those that are looked at delivers something.
            delivered += u64::from((turn / SAMPLED) % 2);
            monitor.end_turn(net::clock::now(), || delivered);
        }
        let timed: u64 = monitor.latency.counts.iter().sum();
        assert_eq!((timed, said), (32, 64));
    }
}
