//! A network without an operating system: packets in virtual time, lost, doubled, delayed and reordered by a seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Everything random in a run comes from here, so that a run is a function of its seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Self {
        let mut z = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        Self(z | 1)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Uniform below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64 }
    }

    /// True in so many of a million cases.
    pub fn chance(&mut self, per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(per_million)
    }
}

/// How packets fare between two nodes. Probabilities are per million.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// Shortest way, ns.
    pub delay_ns: u64,
    /// Added uniformly; more than the distance between packets reorders them.
    pub jitter_ns: u64,
    /// Lost, each for itself.
    pub loss: u32,
    /// Begins a burst in which everything is lost.
    pub burst: u32,
    /// How long a burst lasts, ns, at most.
    pub burst_ns: u64,
    /// Comes twice.
    pub duplication: u32,
}

/// What happened to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetStats {
    /// Handed to the network.
    pub sent: u64,
    /// Never came.
    pub lost: u64,
    /// Came twice.
    pub doubled: u64,
}

struct Flight {
    to: u32,
    from: u32,
    packet: Vec<u8>,
}

/// Nodes are numbers. Links are directed.
pub struct Net {
    random: Random,
    /// What holds for links without an entry of their own.
    pub link: Link,
    links: BTreeMap<(u32, u32), Link>,
    bursts: BTreeMap<(u32, u32), u64>,
    cut_until: BTreeMap<(u32, u32), u64>,
    flights: BinaryHeap<Reverse<(u64, u64)>>,
    cargo: BTreeMap<u64, Flight>,
    count: u64,
    stats: NetStats,
}

impl Net {
    /// A network whose links are all `link`.
    pub fn new(seed: u64, link: Link) -> Self {
        Self {
            random: Random::new(seed),
            link,
            links: BTreeMap::new(),
            bursts: BTreeMap::new(),
            cut_until: BTreeMap::new(),
            flights: BinaryHeap::new(),
            cargo: BTreeMap::new(),
            count: 0,
            stats: NetStats::default(),
        }
    }

    /// Gives one direction between two nodes its own behaviour.
    pub fn set_link(&mut self, from: u32, to: u32, link: Link) {
        self.links.insert((from, to), link);
    }

    /// Makes every link as it was set by nobody: `link`.
    pub fn set_all(&mut self, link: Link) {
        self.links.clear();
        self.bursts.clear();
        self.link = link;
    }

    /// Nothing passes between the nodes, in either direction, until then.
    pub fn partition(&mut self, a: u32, b: u32, until: u64) {
        self.cut_until.insert((a, b), until);
        self.cut_until.insert((b, a), until);
    }

    /// Counters.
    pub fn stats(&self) -> NetStats {
        self.stats
    }

    /// Sends a packet; it comes later, or never.
    pub fn send(&mut self, now: u64, from: u32, to: u32, packet: &[u8]) {
        let key = (from, to);
        self.stats.sent += 1;
        let link = self.links.get(&key).unwrap_or(&self.link);
        let mut lost = self.cut_until.get(&key).is_some_and(|until| now < *until)
            || self.bursts.get(&key).is_some_and(|until| now < *until)
            || self.random.chance(link.loss);
        if !lost && self.random.chance(link.burst) {
            let until = now + 1 + self.random.below(link.burst_ns);
            self.bursts.insert(key, until);
            lost = true;
        }
        if lost {
            self.stats.lost += 1;
            return;
        }
        let copies = 1 + u64::from(self.random.chance(link.duplication));
        self.stats.doubled += copies - 1;
        let (delay, jitter) = (link.delay_ns, link.jitter_ns);
        for _ in 0..copies {
            let at = now + delay + self.random.below(jitter + 1);
            self.flights.push(Reverse((at, self.count)));
            self.cargo.insert(self.count, Flight { to, from, packet: packet.to_vec() });
            self.count += 1;
        }
    }

    /// When the next packet comes.
    pub fn next_at(&self) -> Option<u64> {
        self.flights.peek().map(|Reverse((at, _))| *at)
    }

    /// The next packet that has come: (from, to, bytes).
    pub fn receive(&mut self, now: u64) -> Option<(u32, u32, Vec<u8>)> {
        let Reverse((at, id)) = *self.flights.peek()?;
        if at > now {
            return None;
        }
        self.flights.pop();
        let flight = self.cargo.remove(&id)?;
        Some((flight.from, flight.to, flight.packet))
    }

    /// Everything on its way to a node is gone: the node has restarted.
    pub fn drop_to(&mut self, node: u32) {
        self.cargo.retain(|_, flight| flight.to != node);
        let cargo = &self.cargo;
        self.flights.retain(|Reverse((_, id))| cargo.contains_key(id));
    }
}

impl core::fmt::Debug for Net {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Net").field("stats", &self.stats).field("in_flight", &self.cargo.len()).finish_non_exhaustive()
    }
}
