//! The socket of a client that takes what is sent to it slowly, in bursts, or not at all for a while.

use super::clock::SECOND;
use super::random::Random;
use hub::p2ps::egress::Limits;
use std::collections::VecDeque;

/// Bytes that may wait for clients in a world of slow ones.
pub(crate) const LIMITS: Limits = Limits {
    guaranteed: 300,
    max: 1_500,
    pool: 6_000,
    breach: 900,
    ok: 400,
    behind: 600,
    conflate: usize::MAX,
    tick_by_tick: 0,
};

/// How a client takes what is sent to it.
#[derive(Debug, Clone, Copy)]
enum Reader {
    /// A little each turn.
    Slow,
    /// All or nothing.
    Bursty,
    /// Nothing until then, much afterwards.
    Stalled { until: u64 },
}

/// The socket.
#[derive(Debug)]
pub(crate) struct Socket {
    reader: Reader,
    /// Bytes that a slow one takes at most in a turn; it waits with those that are larger.
    rate: usize,
    /// Percent of the turns in which a bursty one takes all.
    burst: usize,
    queue: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The client's messages are not read.
    pub(crate) paused: bool,
}

impl Socket {
    pub(crate) fn new(now: u64, very_slow: bool, random: &mut Random) -> Self {
        let reader = match random.below(3) {
            0 => Reader::Slow,
            1 => Reader::Bursty,
            _ => Reader::Stalled { until: now + random.below(8) as u64 * SECOND },
        };
        let (rate, burst) = if very_slow { (30, 2) } else { (400, 15) };
        Self { reader, rate, burst, queue: VecDeque::new(), bytes: 0, paused: false }
    }

    /// Bytes that the client has not taken.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn push(&mut self, bytes: Vec<u8>) {
        self.bytes += bytes.len();
        self.queue.push_back(bytes);
    }

    /// Bytes that the client takes now.
    pub(crate) fn take(&mut self, now: u64, all: bool, random: &mut Random) -> impl Iterator<Item = Vec<u8>> + use<> {
        let mut budget = match self.reader {
            _ if all => usize::MAX,
            Reader::Slow => random.below(self.rate),
            Reader::Bursty if random.chance(self.burst) => usize::MAX,
            Reader::Stalled { until } if now >= until => 2_000,
            Reader::Bursty | Reader::Stalled { .. } => 0,
        };
        let mut taken = Vec::new();
        while let Some(first) = self.queue.front()
            && (first.len() <= budget || first.len() > self.rate && budget > self.rate / 2)
        {
            budget = budget.saturating_sub(first.len());
            self.bytes -= first.len();
            taken.extend(self.queue.pop_front());
        }
        taken.into_iter()
    }
}
