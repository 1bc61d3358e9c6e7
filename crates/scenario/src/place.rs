//! A server of a play with its judge, and what is so of it from now on.

use std::collections::VecDeque;

use crate::judge::Judge;
use crate::market::Act;
use crate::side::Side;

/// The side that is not under test, at one place: a server, or the consumer in front of a provider.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) side: Side,
    pub(crate) judge: Judge,
    /// Each message is late by up to so much.
    pub(crate) jitter_ns: u64,
    pub(crate) posts_before: u64,
    /// Acts that jitter holds back, each until a time; none overtakes another.
    held: VecDeque<(u64, Act)>,
    random: u64,
    pings: bool,
    reads: bool,
    /// The server says nothing until then.
    hangs_until_ns: Option<u64>,
}

impl Place {
    pub(crate) fn new(side: Side, judge: Judge, seed: u64) -> Self {
        Self {
            side,
            judge,
            jitter_ns: 0,
            posts_before: 0,
            held: VecDeque::new(),
            random: seed ^ 0xD1B5_4A32_D192_ED03,
            pings: true,
            reads: true,
            hangs_until_ns: None,
        }
    }

    /// The act that is due next.
    pub(crate) fn take(&mut self, now: u64) -> Option<Act> {
        while let Some(act) = self.side.take() {
            let jitter_ns = if matches!(act, Act::Send { .. }) { self.jitter_ns } else { 0 };
            let late_ns = if jitter_ns == 0 { 0 } else { self.next_random() % jitter_ns };
            let before = self.held.back().map_or(0, |(at, _)| *at);
            self.held.push_back((before.max(now + late_ns), act));
        }
        self.held.pop_front_if(|(at, _)| *at <= now).map(|(_, act)| act)
    }

    pub(crate) fn due(&self) -> Option<u64> {
        let held = self.held.front().map(|(at, _)| *at);
        [held, self.side.due(), self.judge.due(), self.hangs_until_ns].into_iter().flatten().min()
    }

    /// Time has come so far; a server that hangs does nothing.
    pub(crate) fn advance(&mut self, now: u64) -> Result<(), String> {
        if self.hangs_until_ns.is_some() { Ok(()) } else { self.side.advance(now) }
    }

    pub(crate) fn hangs(&mut self, now: u64, until_ns: u64) {
        self.hangs_until_ns = Some(until_ns);
        self.judge.server_is(now, true, !self.reads);
    }

    /// Whether the server has stopped hanging just now.
    pub(crate) fn wakes(&mut self, now: u64) -> bool {
        let wakes = self.hangs_until_ns.take_if(|until| now >= *until).is_some();
        if wakes {
            self.judge.server_is(now, !self.pings, !self.reads);
        }
        wakes
    }

    /// The judge is to know of what an act makes of the server.
    pub(crate) fn became(&mut self, now: u64, act: &Act) {
        match act {
            Act::Listen(listening) => self.judge.listening(now, *listening),
            Act::Read(reads) => self.reads = *reads,
            Act::Ping(pings) => self.pings = *pings,
            _ => {}
        }
        if let Act::Read(_) | Act::Ping(_) = act {
            self.judge.server_is(now, !self.pings, !self.reads);
        }
    }

    /// Numbers by the seed (xorshift).
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
