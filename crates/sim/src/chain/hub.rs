//! The machines under test and the bytes between them: Source Distributors, P2PSs, and hub blocks on their way.

use super::random::Random;
use hub::distributor::{self, Balance, ProviderSink, SessionId, SourceDistributor};
use hub::p2ps::{self, P2ps, SourceId};
use std::collections::VecDeque;

pub(crate) const SECOND: u64 = 1_000_000_000;

/// What a distributor sends to its sessions.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) sent: Vec<(u32, Vec<u8>)>,
    pub(crate) closed: Vec<(u32, String)>,
}

impl ProviderSink for Sink {
    fn send(&mut self, session: SessionId, msg: &[u8]) {
        self.sent.push((session.0, msg.to_vec()));
    }

    fn close(&mut self, session: SessionId, reason: &str) {
        self.closed.push((session.0, reason.to_owned()));
    }
}

/// How the two sides are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// In one thread: each block is handed over at once.
    Inline,
    /// By rings: blocks are cut, and read when the reader's turn comes.
    Rings,
}

/// A P2PS and what is on its way to and from it, by distributor.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) machine: P2ps,
    events: Vec<VecDeque<Vec<u8>>>,
    requests: Vec<VecDeque<Vec<u8>>>,
    /// Messages to clients, in order.
    pub(crate) delivered: Vec<(u32, Vec<u8>)>,
    pub(crate) closing: Vec<(u32, String)>,
}

/// A distributor and what it sends.
#[derive(Debug)]
pub(crate) struct Distributor {
    pub(crate) machine: SourceDistributor,
    pub(crate) sink: Sink,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) distributors: Vec<Distributor>,
    pub(crate) shards: Vec<Shard>,
    layout: Layout,
    longest: usize,
    /// What was read from blocks, for the log.
    pub(crate) trace: Option<Vec<String>>,
}

fn distributor_config(random: &mut Random) -> distributor::Config {
    distributor::Config {
        balance: if random.chance(50) { Balance::First } else { Balance::Load },
        age_unwatched: if random.chance(50) { 0 } else { 4 * SECOND },
        login_timeout: 10 * SECOND,
        request_timeout: 3 * SECOND,
        retry_interval: SECOND,
        retry_max_interval: 4 * SECOND,
        post_timeout: 5 * SECOND,
        opens_per_turn: 1 + random.below(20) as u32,
        image_part: if random.chance(50) { 40 } else { 32_000 },
        ..distributor::Config::default()
    }
}

fn p2ps_config(random: &mut Random) -> p2ps::Config {
    p2ps::Config {
        incarnation: 1 + random.below(1000) as u32,
        open_window: 1 + random.below(30) as u32,
        opens_per_turn: 1 + random.below(20) as u32,
        post_timeout: 8 * SECOND,
        recovery_delay: SECOND,
        recovery_delay_max: 4 * SECOND,
        ..p2ps::Config::default()
    }
}

impl Hub {
    pub(crate) fn new(distributors: usize, shards: usize, layout: Layout, now: u64, random: &mut Random) -> Self {
        let mut hub = Self {
            distributors: Vec::new(),
            shards: Vec::new(),
            layout,
            longest: 150 + random.below(2000),
            trace: None,
        };
        for number in 0..distributors {
            let machine = SourceDistributor::new(distributor_config(random), 10 + number as u32);
            hub.distributors.push(Distributor { machine, sink: Sink::default() });
        }
        for id in 0..shards as u16 {
            let mut machine = P2ps::new(p2ps_config(random), id);
            for number in 0..distributors as u16 {
                machine.source_up(now, SourceId(number));
            }
            for distributor in &mut hub.distributors {
                distributor.machine.p2ps_up(now, id);
            }
            hub.shards.push(Shard {
                machine,
                events: vec![VecDeque::new(); distributors],
                requests: vec![VecDeque::new(); distributors],
                delivered: Vec::new(),
                closing: Vec::new(),
            });
        }
        hub
    }

    /// When something wants to happen by itself.
    pub(crate) fn timeout(&self) -> Option<u64> {
        let distributors = self.distributors.iter().filter_map(|distributor| distributor.machine.timeout());
        distributors.chain(self.shards.iter().filter_map(|shard| shard.machine.timeout())).min()
    }

    fn on_timers(&mut self, now: u64) {
        for Distributor { machine, sink } in &mut self.distributors {
            if machine.timeout().is_some_and(|at| at <= now) {
                machine.on_timer(now, sink);
            }
        }
        for shard in &mut self.shards {
            if shard.machine.timeout().is_some_and(|at| at <= now) {
                shard.machine.on_timer(now);
            }
        }
    }

    /// A turn: timers, and blocks as far as the layout takes them. `all` leaves nothing on its way.
    pub(crate) fn turn(&mut self, now: u64, all: bool, random: &mut Random) {
        self.on_timers(now);
        for round in 0.. {
            assert!(round < 10_000, "the two sides of the hub never come to rest");
            let busy = match self.layout {
                Layout::Inline => self.exchange(now),
                Layout::Rings => self.pass(now, all, random),
            };
            if !busy || (self.layout == Layout::Rings && !all) {
                break;
            }
        }
    }

    /// One round of the agents' server: requests up, blocks down.
    fn exchange(&mut self, now: u64) -> bool {
        let Self { distributors, shards, trace, .. } = self;
        let mut busy = false;
        for (id, shard) in shards.iter_mut().enumerate() {
            shard.machine.requests(|source, block| {
                busy = true;
                note(trace, &format!("p2ps {id} -> distributor {}", source.0), block);
                let Distributor { machine, sink } = &mut distributors[usize::from(source.0)];
                machine.request_block(now, id as u16, block, sink).expect("a request block");
            });
        }
        for (number, distributor) in distributors.iter_mut().enumerate() {
            let Some(block) = distributor.machine.block() else { continue };
            busy = true;
            for (id, shard) in shards.iter_mut().enumerate() {
                note(trace, &format!("distributor {number} -> p2ps {id}"), block);
                shard.take(now, number as u16, block);
            }
            distributor.machine.clear_block();
        }
        for shard in shards.iter_mut() {
            shard.flush(&[]);
        }
        busy
    }

    /// Some of what is on its way arrives.
    fn pass(&mut self, now: u64, all: bool, random: &mut Random) -> bool {
        let mut busy = self.publish();
        for at in 0..self.shards.len() {
            for number in 0..self.distributors.len() {
                let waiting = self.shards[at].events[number].len();
                let take = if all { waiting } else { random.below(waiting + 1) };
                for _ in 0..take {
                    busy = true;
                    let block = self.shards[at].events[number].pop_front().expect("a block");
                    note(&mut self.trace, &format!("distributor {number} -> p2ps {at}"), &block);
                    self.shards[at].take(now, number as u16, &block);
                }
            }
            let shard = &mut self.shards[at];
            shard.flush(&[]);
            let (requests, longest) = (&mut shard.requests, self.longest);
            shard.machine.requests(|source, block| {
                busy = true;
                for part in hub::stream::parts(block, longest) {
                    requests[usize::from(source.0)].push_back(part.into_owned());
                }
            });
        }
        for number in 0..self.distributors.len() {
            for at in 0..self.shards.len() {
                let waiting = self.shards[at].requests[number].len();
                let take = if all { waiting } else { random.below(waiting + 1) };
                for _ in 0..take {
                    busy = true;
                    let block = self.shards[at].requests[number].pop_front().expect("a block");
                    note(&mut self.trace, &format!("p2ps {at} -> distributor {number}"), &block);
                    let Distributor { machine, sink } = &mut self.distributors[number];
                    machine.request_block(now, at as u16, &block, sink).expect("a request block");
                }
            }
        }
        self.publish() || busy
    }

    fn publish(&mut self) -> bool {
        let mut busy = false;
        for (number, distributor) in self.distributors.iter_mut().enumerate() {
            let Some(block) = distributor.machine.block() else { continue };
            busy = true;
            for part in hub::stream::parts(block, self.longest) {
                for shard in &mut self.shards {
                    shard.events[number].push_back(part.to_vec());
                }
            }
            distributor.machine.clear_block();
        }
        busy
    }
}

impl Shard {
    fn take(&mut self, now: u64, source: u16, block: &[u8]) {
        self.machine.hub_block(now, SourceId(source), block).expect("an event block");
        self.flush(block);
    }

    fn flush(&mut self, block: &[u8]) {
        let Self { machine, delivered, closing, .. } = self;
        machine.flush(block, |client, deliveries| {
            for (body, stream) in deliveries {
                let mut bytes = body.to_vec();
                assert!(rwf::peek::set_stream_id(&mut bytes, stream), "a delivery is a message");
                delivered.push((client.0, bytes));
            }
        });
        closing.extend(machine.closing().map(|(client, reason)| (client.0, reason.to_string())));
        machine.notices();
    }
}

/// Notes what a block holds, if anyone wants to know.
fn note(trace: &mut Option<Vec<String>>, way: &str, block: &[u8]) {
    let Some(trace) = trace else { return };
    for message in hub::stream::Block::parse(block).expect("a block").messages() {
        let m = message.expect("a hub message");
        let (target, handle) = (m.target as i16, m.handle as i32);
        trace.push(format!("    {way}: {:?} item {handle} arg {} flags {:#x} target {target}", m.kind, m.arg, m.flags));
    }
}
