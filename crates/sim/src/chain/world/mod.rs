//! The world of one run: everyone in it, and what they do by turns.
//!
//! | file | what it is |
//! |---|---|
//! | `faults` | who comes and goes, and what breaks |
//! | `traffic` | what everyone says, and how it arrives |
//! | `rest` | the state of rest in which all has to fit |

mod faults;
mod rest;
mod traffic;

use super::Between;
use super::clock::SECOND;
use super::consumer::Consumer;
use super::content::Truth;
use super::filtering::Filtering;
use super::hub::{Hub, Layout};
use super::json::{JsonProviderWire, JsonWire};
use super::provider::Provider;
use super::publisher::Publisher;
use super::random::Random;
use super::wire::Wire;
use hub::p2ps::ClientId;
use std::collections::BTreeMap;

const MILLISECOND: u64 = 1_000_000;
/// A session slot of publishers; interactive providers have those below.
const PUBLISHER_SESSION: u32 = 10;
/// A provider that comes back has another session slot than before: its own, or this much above.
const OTHER_SLOT: u32 = 20;
/// Ids of clients that never log in begin here; consumers have those below.
const FIRST_STRANGER: u32 = 100;

/// The world.
pub(crate) struct World {
    random: Random,
    pub(crate) now: u64,
    hub: Hub,
    truth: Truth,
    providers: Vec<Provider>,
    publishers: Vec<Publisher>,
    /// The publisher's connection, if it speaks JSON.
    publisher_wire: Option<JsonProviderWire>,
    consumers: Vec<Option<Consumer>>,
    /// Images that were asked for on a provider's stream, and whether again while one was owed: of several answers only
    /// one is expected.
    asked: BTreeMap<(usize, i32), (u32, bool)>,
    /// Messages in each distributor's sink that are counted there.
    counted: Vec<usize>,
    /// Connections that are bytes; the others hand over whole messages at once.
    consumer_wires: BTreeMap<usize, Wire>,
    /// Clients that never log in, by their ids: the P2PS that each is at, and when it came.
    strangers: BTreeMap<u32, (usize, u64)>,
    next_stranger: u32,
    /// Strangers sent away by each P2PS in its present life.
    strangers_closed: Vec<u64>,
    provider_wires: BTreeMap<usize, Wire>,
    /// Connections of providers that are dialled and speak JSON.
    json_providers: BTreeMap<usize, JsonProviderWire>,
    /// Names of service ids, by shard.
    names: Vec<BTreeMap<u16, String>>,
    turn: u64,
    /// Nothing stays on its way.
    eager: bool,
    /// Everyone wants the same few items, and changes how.
    crowded: bool,
    /// Most clients speak JSON, and half of the providers.
    json: bool,
    /// Clients say whether their server serves them or stands by.
    warm: bool,
    /// Providers close the connection at some requests.
    trapped: bool,
    log: Option<Vec<String>>,
}

/// Worlds from this seed on are crowded: more consumers and shards, fewer items, more reissues and longer pauses. Those below
/// stay what they were.
const CROWDED: u64 = 1_000_000;
/// Worlds from this seed on are paced as well: providers send without a pace of their own, and wait for P2PSs.
const PACED: u64 = 3_000_000;
/// Worlds from this seed on are crowded, not paced, and have clients that take what is sent to them slowly.
const SLOW: u64 = 5_000_000;
/// Worlds from this seed on are those, and updates are conflated in them.
const CONFLATED: u64 = 7_000_000;
/// Worlds from this seed on are of all these kinds, by their last digit, and most of their clients speak JSON.
const JSON: u64 = 9_000_000;
/// Worlds from this seed on are of all these kinds, too; no more clients than before speak JSON, and they have their server stand by.
const WARM: u64 = 11_000_000;
/// Worlds from this seed on are as those, but that few have clients that speak JSON, and services are filtered in most.
const FILTERED: u64 = 13_000_000;
/// Worlds from this seed on are as those, and providers have hot standbys; in every other one they all say the same with the same numbers.
const HOT: u64 = 15_000_000;
/// Worlds from this seed on are as those, and the data of their providers are watched for interruptions; in every third one without hot standbys.
const WATCHED: u64 = 16_000_000;
/// Worlds from this seed on are as those, and most have two distributors, which stand by for each other.
const PAIRED: u64 = 17_000_000;
/// Worlds from this seed on are of the kinds that JSON worlds are of, and their providers close the connection at a request for one of the items.
const TRAPPED: u64 = 18_000_000;
/// Bytes that a distributor of a paced world reads from a provider at a time.
const READ: usize = 1_200;

/// Where services are filtered in the world of a seed.
fn filtering(seed: u64) -> Filtering {
    let on = |turn| seed >= FILTERED && seed / 5 % 4 != turn;
    Filtering { at_distributors: on(1), at_p2pss: on(2) }
}

/// The provider that has a session.
fn place(session: u32) -> usize {
    (session % OTHER_SLOT) as usize
}

/// Services of each interactive provider.
const OFFERS: [&[u8]; 4] = [&[0], &[0, 1], &[1], &[0]];
impl World {
    pub(crate) fn new(seed: u64, between: Between, logged: bool) -> Self {
        let mut random = Random::new(seed);
        let now = SECOND;
        let layout = match between {
            Between::Network => Layout::Network,
            Between::Nothing if random.chance(50) => Layout::Inline,
            Between::Nothing => Layout::Rings,
        };
        let trapped = seed >= TRAPPED;
        let paired = seed >= PAIRED && !trapped;
        let two = if paired {
            90
        } else if between == Between::Network {
            50
        } else {
            25
        };
        let distributors = if random.chance(two) { 2 } else { 1 };
        let seed_of_kind = if seed < JSON { seed } else { [0, CROWDED, PACED, SLOW, CONFLATED][(seed % 5) as usize] };
        let crowded = seed_of_kind >= CROWDED;
        let shards = if layout == Layout::Inline { 1 } else { 1 + random.below(if crowded { 5 } else { 3 }) };
        let kind = ((PACED..SLOW).contains(&seed_of_kind), seed_of_kind >= SLOW, seed_of_kind >= CONFLATED);
        let watched = seed >= WATCHED && !trapped;
        let hot = (seed >= HOT && !trapped && !(watched && seed.is_multiple_of(3))).then_some(seed % 4 < 2);
        let filtering = filtering(seed);
        let mut hub =
            Hub::new((distributors, shards), layout, kind, (filtering, hot, watched, paired), now, &mut random);
        hub.trace = logged.then(Vec::new);
        let home = |at: usize| usize::from(distributors == 2 && at >= 2);
        let count = if paired {
            OFFERS.len()
        } else if seed >= HOT {
            2 + random.below(OFFERS.len() - 1)
        } else {
            1 + random.below(OFFERS.len())
        };
        let providers = (0..count).map(|at| Provider::new(home(at), at as u32)).collect();
        let publishers = if random.chance(60) { vec![Publisher::new(0, PUBLISHER_SESSION)] } else { Vec::new() };
        let clients = if crowded { 3 + random.below(8) } else { 1 + random.below(6) };
        let mut world = Self {
            random,
            now,
            hub,
            truth: Truth::default(),
            providers,
            publishers,
            publisher_wire: None,
            consumers: (0..clients).map(|_| None).collect(),
            asked: BTreeMap::new(),
            counted: vec![0; distributors],
            consumer_wires: BTreeMap::new(),
            strangers: BTreeMap::new(),
            next_stranger: FIRST_STRANGER,
            strangers_closed: vec![0; shards],
            provider_wires: BTreeMap::new(),
            json_providers: BTreeMap::new(),
            names: vec![BTreeMap::new(); shards],
            turn: 0,
            eager: false,
            crowded,
            json: (JSON..WARM).contains(&seed) || seed >= FILTERED && seed.is_multiple_of(7),
            warm: (WARM..FILTERED).contains(&seed) || seed >= FILTERED && seed.is_multiple_of(3),
            trapped,
            log: logged.then(Vec::new),
        };
        world.providers.iter_mut().for_each(|provider| provider.hangs_up = trapped);
        if hot == Some(true) {
            world.truth.share_life();
        }
        world.note(|| format!("{layout:?}, {distributors} distributors, {shards} shards, {count} providers"));
        world
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(log) = &mut self.log {
            log.push(format!("{:9.3}  {}", now as f64 / 1e9, line()));
        }
    }

    pub(crate) fn log(&self) -> &[String] {
        self.log.as_deref().unwrap_or_default()
    }

    /// The run: chance, then rest, then everyone leaves.
    pub(crate) fn run(&mut self) {
        let steps = 100 + self.random.below(400);
        for _ in 0..steps {
            self.step();
        }
        // Whoever waits hears something, also when nothing heals.
        self.idle();
        self.settle();
        let of = |shard: &super::hub::Shard| shard.machine.counters();
        let given: u64 = self.hub.shards.iter().map(of).map(|c| c.images_from_cache + c.images_stale).sum();
        let of = |distributor: &super::hub::Distributor| distributor.machine.counters().images_from_cache;
        let above: u64 = self.hub.distributors.iter().map(of).sum();
        let of = |distributor: &super::hub::Distributor| {
            let counters = distributor.machine.counters();
            (counters.hot_takeovers, counters.hot_takeovers_in_sequence)
        };
        let taken: Vec<(u64, u64)> = self.hub.distributors.iter().map(of).collect();
        let of = |shard: &super::hub::Shard| shard.machine.counters();
        let behind: Vec<u64> = self.hub.shards.iter().map(of).map(|c| c.messages_behind).collect();
        self.note(|| format!("messages that waited behind a batch: {behind:?}"));
        self.note(|| format!("hot takeovers, and those in sequence: {taken:?}"));
        let of = |shard: &super::hub::Shard| {
            let counters = shard.machine.counters();
            (counters.hot_takeovers, counters.hot_takeovers_in_sequence, counters.suspect_takeovers)
        };
        let taken: Vec<(u64, u64, u64)> = self.hub.shards.iter().map(of).collect();
        self.note(|| format!("P2PSs took over, in sequence, and because of Suspect: {taken:?}"));
        let suspect: u64 = self.hub.distributors.iter().map(|d| d.machine.counters().suspect_takeovers).sum();
        self.note(|| format!("taken over because of Suspect: {suspect}"));
        let of = |distributor: &super::hub::Distributor| {
            let counters = distributor.machine.counters();
            (counters.data_interruptions, counters.items_silent, counters.data_resumptions)
        };
        let silent: Vec<(u64, u64, u64)> = self.hub.distributors.iter().map(of).collect();
        self.note(|| format!("interruptions, items Suspect by them, and resumptions: {silent:?}"));
        let of = |distributor: &super::hub::Distributor| {
            let counters = distributor.machine.counters();
            (counters.doubted, counters.given_up)
        };
        let given_up: Vec<(u64, u64)> = self.hub.distributors.iter().map(of).collect();
        self.note(|| format!("items in doubt, and given up: {given_up:?}"));
        self.note(|| format!("{above} images at distributors and {given} at P2PSs came out of caches"));
        self.leave();
    }

    fn step(&mut self) {
        for _ in 0..=self.random.below(3) {
            self.act();
        }
        let passes = match self.random.below(30) {
            0 => SECOND + self.random.below(4000) as u64 * MILLISECOND,
            1..=5 => self.random.below(300) as u64 * MILLISECOND,
            _ => 0,
        };
        self.turn();
        if passes > 0 {
            self.pass(passes);
        }
        if self.crowded && self.random.below(150) == 0 {
            self.idle();
        }
    }

    /// A minute in which nothing happens but what was on its way: stream ids that were given back are used again behind it.
    fn idle(&mut self) {
        self.note(|| "a quiet minute".to_owned());
        self.eager = true;
        for _ in 0..4 {
            self.drain();
            self.pass(15 * SECOND);
        }
        self.eager = false;
    }

    fn act(&mut self) {
        let kind = self.random.below(100);
        match kind {
            0..=1 => self.provider_changes(),
            2 => self.publisher_changes(),
            3..=4 if self.hub.network.is_some() => self.network_fault(),
            3 if self.hub.lossy => self.network_fault(),
            3..=6 => self.consumer_changes(),
            7..=35 => self.consumer_acts(),
            36..=80 => self.provider_acts(),
            _ => self.publisher_acts(),
        }
    }

    /// The machines have their turn, and what they say is read.
    fn turn(&mut self) {
        self.pump();
        if self.hub.slow {
            self.hub.take_sockets(self.now, self.eager, &mut self.random);
        }
        self.hub.turn(self.now, self.eager, &mut self.random);
        for line in self.hub.trace.as_mut().map(std::mem::take).unwrap_or_default() {
            self.note(|| line);
        }
        self.read_sinks();
        self.read_clients();
        self.catch_up();
        self.turn += 1;
    }

    /// Consumers whose P2PSs are done with all that they have said are not behind any more.
    fn catch_up(&mut self) {
        for (at, consumer) in self.consumers.iter_mut().enumerate() {
            let Some(consumer) = consumer.as_mut().filter(|consumer| consumer.behind) else { continue };
            let shard = &self.hub.shards[consumer.shard];
            let is_said = consumer.out.is_empty()
                && self.consumer_wires.get(&at).is_none_or(Wire::is_idle)
                && shard.speakers.get(&(at as u32)).is_none_or(JsonWire::is_idle);
            consumer.behind = !is_said || shard.machine.is_behind(ClientId(at as u32));
            consumer.is_swept &= consumer.behind;
        }
    }

    /// Time passes, with every timer on the way.
    fn pass(&mut self, nanoseconds: u64) {
        let end = self.now + nanoseconds;
        for _ in 0..10_000 {
            let due = self.hub.timeout(self.now).filter(|due| *due <= end);
            let Some(due) = due else { break };
            if due <= self.now && !self.eager && self.random.chance(50) {
                // Work that is due at once may wait for other work.
                break;
            }
            self.now = self.now.max(due);
            self.turn();
        }
        self.now = end;
        self.turn();
    }
}
