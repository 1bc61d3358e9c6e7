//! The network between the two sides of the hub: for each pair a data stream that loses blocks, and connections for requests
//! that break, hang in a partition, or are known to be over at one end only.

use super::clock::SECOND;
use super::hub::{Distributor, Hub, PATIENCE, Shard, WINDOW, name_distributors, note, note_line, serve};
use super::random::Random;
use hub::distributor::SourceDistributor;
use hub::p2ps::{Joined, P2ps, SourceId};
use hub::stream::{Block, HubError, MESSAGE_HEADER};
use std::collections::VecDeque;

/// Blocks that wait for one that reads nothing; the network drops older ones.
const RECEIVE_BUFFER: usize = 60;
/// The same in a paced world, in bytes: a window, and what one turn may bring and distributors say by themselves while they wait.
const RECEIVE_BYTES: u64 = WINDOW + 8_000;
/// Longest that a distributor may wait while no P2PS takes anything from its stream: until one was left behind, or has said in a
/// heartbeat that it has read all.
const STUCK: u64 = PATIENCE + 2 * SECOND;
/// Pause before a lost connection is tried again.
const REDIAL: u64 = SECOND / 2;

/// Bytes down a connection.
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
    /// The distributor's life, and the position in its stream from which on it counts.
    from: (u32, u64),
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
    /// Blocks that the P2PS has taken.
    taken: u64,
}

impl Link {
    fn current(&mut self) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.at_p2ps)
    }

    /// Bytes of messages on their way to the P2PS, of those that count for a connection.
    fn unread(&self, connection: &Connection) -> u64 {
        self.stream.iter().map(|block| connection.counted(block)).sum()
    }
}

impl Connection {
    /// Bytes of messages in a block, if it is of the life that was joined, and behind the join.
    fn counted(&self, block: &[u8]) -> u64 {
        let block = Block::parse(block).expect("a block");
        if block.heading.incarnation != self.from.0 || block.heading.first_seq < self.from.1 {
            return 0;
        }
        let messages = block.messages().map(|message| message.expect("a message"));
        messages.map(|message| (MESSAGE_HEADER + message.body.len()) as u64).sum()
    }
}

/// A distributor that waits for its P2PSs.
#[derive(Debug, Default)]
struct Wait {
    holding: bool,
    /// Blocks that P2PSs had taken when that last changed, and when it did.
    taken: (u64, u64),
    /// When it was last asked.
    asked: u64,
}

/// All links, and who stands still until when.
#[derive(Debug)]
pub(crate) struct Network {
    /// By P2PS, then by distributor.
    links: Vec<Vec<Link>>,
    p2ps_still: Vec<u64>,
    distributor_still: Vec<u64>,
    waits: Vec<Wait>,
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
            waits: (0..distributors).map(|_| Wait::default()).collect(),
        }
    }

    /// Each distributor looks whether it has to wait. What is on its way to a P2PS that it waits for is never more than it knows,
    /// and no more than a window if it does not wait; and it waits for none that takes nothing.
    pub(crate) fn keep_pace(&mut self, distributors: &mut [Distributor], now: u64, trace: &mut Option<Vec<String>>) {
        for (number, Distributor { machine, .. }) in distributors.iter_mut().enumerate() {
            let taken = self.links.iter().map(|links| links[number].taken).sum();
            let wait = &mut self.waits[number];
            if self.distributor_still[number] > now {
                // Time may leap over its return.
                wait.taken = (taken, self.distributor_still[number]);
                continue;
            }
            let (waits, left) = (machine.counters().waits, machine.counters().left_behind);
            wait.holding = machine.must_wait(now);
            if machine.counters().waits > waits {
                note_line(trace, || format!("    distributor {number} has to wait"));
            }
            if machine.counters().left_behind > left {
                note_line(trace, || format!("    distributor {number} leaves a P2PS behind"));
            }
            // Time may leap while it has work of its own: nobody is left behind in that.
            let leapt = now - std::mem::replace(&mut wait.asked, now) > PATIENCE;
            if !wait.holding || leapt || taken != wait.taken.0 {
                wait.taken = (taken, now);
            }
            assert!(now.saturating_sub(wait.taken.1) <= STUCK, "distributor {number} waits though nobody reads");
            let links = self.links.iter().map(|links| &links[number]);
            let connections = links.flat_map(|link| link.connections.iter().map(move |connection| (link, connection)));
            let connections: Vec<_> = connections.filter(|(_, c)| c.at_p2ps && c.at_distributor).collect();
            for (id, behind, left_behind) in machine.p2pss() {
                let Some((link, of)) = connections.iter().find(|(_, c)| c.number == id) else { continue };
                let unread = link.unread(of);
                assert!(unread <= behind, "{unread} bytes are on their way to P2PS {id}, {behind} are known of");
                assert!(wait.holding || left_behind || unread <= WINDOW, "{unread} bytes on their way to P2PS {id}");
            }
        }
    }

    pub(crate) fn is_deaf(&self, number: usize, now: u64) -> bool {
        self.is_distributor_still(number, now) || self.waits[number].holding
    }

    pub(crate) fn is_anyone_held(&self) -> bool {
        self.waits.iter().any(|wait| wait.holding)
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

    /// Blocks of the distributors go on their way.
    fn send_streams(&mut self, network: &mut Network, now: u64, all: bool, random: &mut Random) -> bool {
        let mut busy = false;
        let Self { distributors, longest, trace, paced, .. } = self;
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
                        if *paced {
                            drop_what_is_too_much(link, machine, trace, (at, number));
                        } else if link.stream.len() > RECEIVE_BUFFER && !all {
                            note_line(trace, || format!("    p2ps {at} drops a block of distributor {number}"));
                            link.stream.pop_front();
                        }
                    }
                }
                machine.clear_block();
                machine.check_invariants();
            }
            machine.point_to_point_blocks(|to, block| {
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

    /// Blocks of one distributor arrive at a P2PS, in whatever order the two ways bring them.
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
        if random.chance(if self.paced { 20 } else { 50 }) {
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
                        shard
                            .machine
                            .point_to_point_block(now, SourceId(number as u16), &block)
                            .expect("a block point to point");
                        shard.flush(now, &[]);
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
        if all || !self.paced || random.chance(40) {
            busy |= take_stream(link, shard, trace, now, (at, number), Network::some(link.stream.len(), all, random));
        }
        shard.flush(now, &[]);
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
                from: (incarnation, position),
                up: VecDeque::new(),
                down: VecDeque::from([Down::Greeting(Joined { number: free, incarnation, position })]),
                at_p2ps: true,
                at_distributor: true,
            });
        }
        busy
    }

    /// Blocks of one P2PS arrive at a distributor.
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
                    // The P2PS was cut off for what it sent before.
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
        // In a paced world it is mostly a P2PS that stands still.
        let kind = if self.paced && random.chance(60) { 6 } else { random.below(12) };
        match kind {
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
                self.restart_distributor(network, number, random);
                return Some(Fault::Distributor(number));
            }
            _ => {
                note_line(trace, || format!("    p2ps {at} starts again"));
                self.restart_p2ps(network, at, now, random);
                return Some(Fault::P2ps(at));
            }
        }
        None
    }

    fn restart_distributor(&mut self, network: &mut Network, number: usize, random: &mut Random) {
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
    }

    fn restart_p2ps(&mut self, network: &mut Network, at: usize, now: u64, random: &mut Random) {
        let mut machine = P2ps::new(self.p2ps_config(random), 0);
        name_distributors(&mut machine, self.distributors.len());
        serve(&mut machine, now, at);
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
        link.taken += 1;
        shard.take(now, number as u16, &block);
    }
    count > 0
}

/// The transport keeps no more than it has room for, which is enough for every P2PS that is waited for.
fn drop_what_is_too_much(
    link: &mut Link,
    machine: &SourceDistributor,
    trace: &mut Option<Vec<String>>,
    (at, number): (usize, usize),
) {
    let bytes = |link: &Link| link.stream.iter().map(|block| block.len() as u64).sum::<u64>();
    while bytes(link) > RECEIVE_BYTES {
        note_line(trace, || format!("    p2ps {at} drops a block of distributor {number}"));
        let Some(block) = link.stream.pop_front() else { return };
        let here = link.connections.iter().find(|c| c.at_p2ps && c.at_distributor && c.counted(&block) > 0);
        let waited_for = here.is_some_and(|c| machine.p2pss().any(|(id, _, left)| id == c.number && !left));
        assert!(!waited_for, "P2PS {at} loses what it was to be waited for with");
    }
}
