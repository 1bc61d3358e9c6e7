//! The network between the two sides of the hub: for each pair a data stream that loses blocks, and connections for requests
//! that break, hang in a partition, or are known to be over at one end only.

use super::hub::{Distributor, Hub, SECOND, Shard, note, note_line};
use super::random::Random;
use hub::distributor::SourceDistributor;
use hub::p2ps::{Joined, P2ps, SourceId};
use hub::stream::HubError;
use std::collections::VecDeque;

/// Blocks that wait for one that reads nothing; the network drops older ones.
const RECEIVE_BUFFER: usize = 60;
/// Pause before a lost connection is tried again.
const REDIAL: u64 = SECOND / 2;

/// What goes down a connection.
#[derive(Debug)]
enum Down {
    Greeting(Joined),
    Block(Vec<u8>),
    End,
}

/// A connection as both ends see it. What is on its way outlives the end that sent it.
#[derive(Debug)]
struct Connection {
    number: u16,
    up: VecDeque<Option<Vec<u8>>>,
    down: VecDeque<Down>,
    at_p2ps: bool,
    at_distributor: bool,
}

/// A P2PS and a distributor.
#[derive(Debug, Default)]
struct Link {
    cut: bool,
    stream: VecDeque<Vec<u8>>,
    connections: Vec<Connection>,
    dial_at: u64,
}

impl Link {
    fn current(&mut self) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.at_p2ps)
    }
}

/// All links, and who stands still until when.
#[derive(Debug)]
pub(crate) struct Network {
    /// By P2PS, then by distributor.
    links: Vec<Vec<Link>>,
    p2ps_still: Vec<u64>,
    distributor_still: Vec<u64>,
}

/// A fault that the world has to know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Distributor(usize),
    P2ps(usize),
}

impl Network {
    pub(crate) fn new(distributors: usize, shards: usize) -> Self {
        let links = || (0..distributors).map(|_| Link::default()).collect();
        Self {
            links: (0..shards).map(|_| links()).collect(),
            p2ps_still: vec![0; shards],
            distributor_still: vec![0; distributors],
        }
    }

    pub(crate) fn timeout(&self, now: u64) -> Option<u64> {
        let still = self.p2ps_still.iter().chain(&self.distributor_still).copied().filter(|&until| until > now);
        let dials = self.links.iter().flatten().filter(|link| link.connections.iter().all(|c| !c.at_p2ps) && !link.cut);
        still.chain(dials.map(|link| link.dial_at).filter(|&at| at > now)).min()
    }

    pub(crate) fn is_p2ps_still(&self, at: usize, now: u64) -> bool {
        self.p2ps_still[at] > now
    }

    pub(crate) fn is_distributor_still(&self, number: usize, now: u64) -> bool {
        self.distributor_still[number] > now
    }

    /// All faults are over.
    pub(crate) fn heal(&mut self) {
        self.links.iter_mut().flatten().for_each(|link| link.cut = false);
        self.p2ps_still.fill(0);
        self.distributor_still.fill(0);
    }

    /// A part of what waits, or all of it.
    fn some(waiting: usize, all: bool, random: &mut Random) -> usize {
        if all { waiting } else { random.below(waiting + 1) }
    }
}

impl Hub {
    /// One round: everyone publishes, and some of what is on its way arrives.
    pub(crate) fn pass_network(&mut self, network: &mut Network, now: u64, all: bool, random: &mut Random) -> bool {
        let mut busy = self.send_streams(network, now, all, random);
        for at in 0..self.shards.len() {
            if network.is_p2ps_still(at, now) {
                continue;
            }
            for number in 0..self.distributors.len() {
                busy |= self.at_p2ps(network, now, (at, number), all, random);
            }
            busy |= self.send_requests(network, now, at);
        }
        for number in 0..self.distributors.len() {
            if network.is_distributor_still(number, now) {
                continue;
            }
            for at in 0..self.shards.len() {
                busy |= self.at_distributor(network, now, (at, number), all, random);
            }
        }
        self.send_streams(network, now, all, random) || busy
    }

    /// What the distributors have to say goes on its way.
    fn send_streams(&mut self, network: &mut Network, now: u64, all: bool, random: &mut Random) -> bool {
        let mut busy = false;
        let Self { distributors, longest, trace, .. } = self;
        for (number, Distributor { machine, .. }) in distributors.iter_mut().enumerate() {
            if network.is_distributor_still(number, now) {
                continue;
            }
            let mut links: Vec<&mut Link> = network.links.iter_mut().map(|links| &mut links[number]).collect();
            if let Some(block) = machine.block() {
                busy = true;
                for part in hub::stream::parts(block, *longest) {
                    for (at, link) in links.iter_mut().enumerate() {
                        if link.cut || (!all && random.below(60) == 0) {
                            note_line(trace, || format!("    a block of distributor {number} to p2ps {at} is lost"));
                            continue;
                        }
                        link.stream.push_back(part.to_vec());
                        if link.stream.len() > RECEIVE_BUFFER && !all {
                            note_line(trace, || format!("    p2ps {at} drops a block of distributor {number}"));
                            link.stream.pop_front();
                        }
                    }
                }
                machine.clear_block();
            }
            machine.direct_blocks(|to, block| {
                busy = true;
                let connection = links.iter_mut().flat_map(|link| &mut link.connections);
                let mut connection = connection.filter(|connection| connection.at_distributor);
                if let Some(connection) = connection.find(|connection| connection.number == to) {
                    connection.down.push_back(Down::Block(block.to_vec()));
                }
            });
            for (to, why) in machine.closing_p2ps() {
                note_line(trace, || format!("    distributor {number} ends connection {to}: {why}"));
                let connections = links.iter_mut().flat_map(|link| &mut link.connections);
                for connection in connections.filter(|connection| connection.at_distributor && connection.number == to)
                {
                    connection.at_distributor = false;
                    connection.down.push_back(Down::End);
                }
            }
        }
        busy
    }

    /// What arrives at a P2PS from one distributor, in whatever order the two ways bring it.
    fn at_p2ps(
        &mut self,
        network: &mut Network,
        now: u64,
        (at, number): (usize, usize),
        all: bool,
        random: &mut Random,
    ) -> bool {
        let link = &mut network.links[at][number];
        let (shard, trace) = (&mut self.shards[at], &mut self.trace);
        let mut busy = false;
        if random.chance(50) {
            busy |= take_stream(link, shard, trace, now, (at, number), Network::some(link.stream.len(), all, random));
        }
        if !link.cut
            && let Some(connection) = link.current()
        {
            for _ in 0..Network::some(connection.down.len(), all, random) {
                let Some(message) = connection.down.pop_front() else { break };
                busy = true;
                match message {
                    Down::Greeting(joined) => {
                        note_line(trace, || format!("    p2ps {at} joins distributor {number}: {joined:?}"));
                        shard.machine.source_joined(now, SourceId(number as u16), joined);
                    }
                    Down::Block(block) => {
                        note(trace, &format!("distributor {number} => p2ps {at}"), &block);
                        shard.machine.direct_block(now, SourceId(number as u16), &block).expect("a direct block");
                        shard.flush(&[]);
                    }
                    Down::End => {
                        connection.at_p2ps = false;
                        link.dial_at = now + REDIAL;
                        shard.machine.source_down(now, SourceId(number as u16));
                        break;
                    }
                }
            }
        }
        busy |= take_stream(link, shard, trace, now, (at, number), Network::some(link.stream.len(), all, random));
        shard.flush(&[]);
        busy
    }

    /// A P2PS's requests go on their way; connections that it gives up are ended, and those it lacks are made.
    fn send_requests(&mut self, network: &mut Network, now: u64, at: usize) -> bool {
        let mut busy = false;
        let links = &mut network.links[at];
        let longest = self.longest;
        self.shards[at].machine.requests(|source, block| {
            busy = true;
            if let Some(connection) = links[usize::from(source.0)].current() {
                connection.up.extend(hub::stream::parts(block, longest).map(|part| Some(part.into_owned())));
            }
        });
        for (source, why) in self.shards[at].machine.closing_sources() {
            note_line(&mut self.trace, || format!("    p2ps {at} parts from distributor {}: {why}", source.0));
            let link = &mut links[usize::from(source.0)];
            if let Some(connection) = link.current() {
                connection.at_p2ps = false;
                connection.up.push_back(None);
            }
            link.dial_at = now + REDIAL;
        }
        for (number, link) in links.iter_mut().enumerate() {
            let refused = network.distributor_still[number] > now;
            if link.cut || refused || link.dial_at > now || link.current().is_some() {
                continue;
            }
            busy = true;
            let taken: Vec<u16> = link.connections.iter().map(|connection| connection.number).collect();
            // Numbers of other P2PSs are apart, so that those of one are enough to look at.
            let first = at as u16 * 100;
            let free = (first..u16::MAX).find(|candidate| !taken.contains(candidate)).expect("a number");
            let machine = &mut self.distributors[number].machine;
            let (incarnation, position) = (machine.incarnation(), machine.next_position());
            machine.p2ps_up(now, free);
            link.connections.push(Connection {
                number: free,
                up: VecDeque::new(),
                down: VecDeque::from([Down::Greeting(Joined { number: free, incarnation, position })]),
                at_p2ps: true,
                at_distributor: true,
            });
        }
        busy
    }

    /// What arrives at a distributor from one P2PS.
    fn at_distributor(
        &mut self,
        network: &mut Network,
        now: u64,
        (at, number): (usize, usize),
        all: bool,
        random: &mut Random,
    ) -> bool {
        let link = &mut network.links[at][number];
        let Distributor { machine, sink } = &mut self.distributors[number];
        let mut busy = false;
        for connection in link.connections.iter_mut().filter(|_| !link.cut) {
            for _ in 0..Network::some(connection.up.len(), all, random) {
                let Some(block) = connection.up.pop_front() else { break };
                busy = true;
                if !connection.at_distributor {
                    continue;
                }
                let Some(block) = block else {
                    connection.at_distributor = false;
                    machine.p2ps_down(now, connection.number, sink);
                    continue;
                };
                note(&mut self.trace, &format!("p2ps {at} -> distributor {number}"), &block);
                if let Err(error) = machine.request_block(now, connection.number, &block, sink) {
                    // It was cut off for what it sent before.
                    assert!(matches!(error, HubError::Gap { .. }), "a request block: {error}");
                    connection.at_distributor = false;
                    connection.down.push_back(Down::End);
                }
            }
        }
        link.connections.retain(|connection| connection.at_p2ps || connection.at_distributor);
        busy
    }

    /// Something breaks. Tells what the world has to know of.
    pub(crate) fn break_network(&mut self, network: &mut Network, now: u64, random: &mut Random) -> Option<Fault> {
        let (at, number) = (random.below(self.shards.len()), random.below(self.distributors.len()));
        let link = &mut network.links[at][number];
        let until = now + SECOND / 2 + random.below(6_000) as u64 * (SECOND / 1000);
        let trace = &mut self.trace;
        match random.below(12) {
            0..=3 => {
                link.cut = !link.cut;
                let cut = link.cut;
                note_line(trace, || format!("    between p2ps {at} and distributor {number}: cut {cut}"));
            }
            4..=5 => {
                // Both ends hear of it, at once or when they look; what was on its way is lost.
                note_line(trace, || format!("    the connection of p2ps {at} and distributor {number} breaks"));
                if let Some(connection) = link.current() {
                    connection.up = VecDeque::from([None]);
                    connection.down = VecDeque::from([Down::End]);
                }
            }
            6..=7 => {
                note_line(trace, || format!("    p2ps {at} stands still"));
                network.p2ps_still[at] = until;
            }
            8..=9 => {
                note_line(trace, || format!("    distributor {number} stands still"));
                network.distributor_still[number] = until;
            }
            10 => {
                note_line(trace, || format!("    distributor {number} starts again"));
                self.next_incarnation += 1;
                let machine = SourceDistributor::new(self.distributor_config(random), self.next_incarnation);
                self.distributors[number] = Distributor::new(machine);
                network.distributor_still[number] = 0;
                for link in network.links.iter_mut().map(|links| &mut links[number]) {
                    for connection in &mut link.connections {
                        connection.at_distributor = false;
                        connection.up.clear();
                        connection.down.push_back(Down::End);
                    }
                }
                return Some(Fault::Distributor(number));
            }
            _ => {
                note_line(trace, || format!("    p2ps {at} starts again"));
                let machine = P2ps::new(self.p2ps_config(random), 0);
                self.shards[at].restart(machine);
                network.p2ps_still[at] = 0;
                for link in &mut network.links[at] {
                    link.stream.clear();
                    link.dial_at = now;
                    for connection in &mut link.connections {
                        if std::mem::take(&mut connection.at_p2ps) {
                            connection.down.clear();
                            connection.up.push_back(None);
                        }
                    }
                }
                return Some(Fault::P2ps(at));
            }
        }
        None
    }
}

/// Some blocks of the data stream arrive.
fn take_stream(
    link: &mut Link,
    shard: &mut Shard,
    trace: &mut Option<Vec<String>>,
    now: u64,
    (at, number): (usize, usize),
    count: usize,
) -> bool {
    for _ in 0..count {
        let Some(block) = link.stream.pop_front() else { break };
        note(trace, &format!("distributor {number} -> p2ps {at}"), &block);
        shard.take(now, number as u16, &block);
    }
    count > 0
}
