//! The machines under test and the bytes between them: Source Distributors, P2PSs, and hub blocks on their way.

use super::clock::SECOND;
use super::content::SERVICES;
use super::filtering::Filtering;
use super::json::{self, JsonWire};
use super::network::{Fault, Network};
use super::random::Random;
use super::socket::{LIMITS, Socket};
use hub::cache::rules::{CacheRules, NamePattern, ServiceRule};
use hub::distributor::{
    self, Balance, CloseReason, Interruption, ProviderSink, RouteConfig, SessionId, SourceDistributor,
};
use hub::filter::rules::FieldSet;
use hub::hash_seed::HashSeed;
use hub::p2ps::conflation::{Exceptions, FieldIntervals, FieldValue, JustInTime, ServiceConflation, Settings};
use hub::p2ps::egress::FlowControl;
use hub::p2ps::{self, ClientId, Connections, P2ps, Percents, Place, SourceId};
use hub::stream::HubError;
use rssl::ws::JsonTexts;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Bytes that may be on their way to a P2PS in a paced world.
pub(crate) const WINDOW: u64 = 4_000;
/// How long a P2PS is waited for that does not move.
pub(crate) const PATIENCE: u64 = SECOND / 2;

/// Messages of a distributor to its sessions.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) sent: Vec<(u32, Vec<u8>)>,
    pub(crate) closed: Vec<(u32, String)>,
}

impl ProviderSink for Sink {
    fn send(&mut self, session: SessionId, msg: &[u8]) {
        self.sent.push((session.0, msg.to_vec()));
    }

    fn close(&mut self, session: SessionId, reason: &CloseReason) {
        self.closed.push((session.0, reason.to_string()));
    }
}

/// How the two sides are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// In one thread: each block is handed over at once.
    Inline,
    /// By rings: blocks are cut, and read when the reader's turn comes.
    Rings,
    /// By a network.
    Network,
}

/// A P2PS and what is on its way to and from it, by distributor.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) machine: P2ps,
    events: Vec<VecDeque<Vec<u8>>>,
    requests: Vec<VecDeque<Vec<u8>>>,
    /// The transport to each distributor is there.
    linked: Vec<bool>,
    /// A block of it was read since then. Who joins without a position cannot miss what came before the first.
    heard: Vec<bool>,
    /// Messages to clients, in order.
    pub(crate) delivered: Vec<(u32, Vec<u8>)>,
    pub(crate) closing: Vec<(u32, String)>,
    /// Bytes that clients have yet to take, in a world of slow ones.
    pub(crate) sockets: BTreeMap<u32, Socket>,
    /// The clients that speak JSON: they are sent bytes instead of messages.
    pub(crate) speakers: BTreeMap<u32, JsonWire>,
    texts: JsonTexts,
    /// Services are numbers in its texts.
    service_numbers: bool,
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
    pub(crate) longest: usize,
    /// Blocks are lost now and then, as on a network.
    pub(crate) lossy: bool,
    /// Providers wait for P2PSs: the window is small, and the transport keeps little more.
    pub(crate) paced: bool,
    /// Some clients take what is sent to them slowly, and little may wait for each.
    pub(crate) slow: bool,
    /// Updates are conflated, by time for some and just in time for those that are slow.
    pub(crate) conflated: bool,
    pub(crate) next_incarnation: u32,
    /// The order of the distributors at the P2PSs, and the time after which items go back to the first.
    pub(crate) order: (Vec<String>, u64),
    /// The link between, in the layout that has one.
    pub(crate) network: Option<Network>,
    /// Messages read from blocks, for the log.
    pub(crate) filtering: Filtering,
    /// Providers have hot standbys; whether they number alike.
    pub(crate) hot: Option<bool>,
    /// The data of providers are watched for interruptions.
    pub(crate) watched: bool,
    /// Distributors stand by for each other.
    pub(crate) paired: bool,
    pub(crate) trace: Option<Vec<String>>,
}

/// One for all worlds: no peer here looks for keys that collide.
const HASH_SEED: HashSeed = HashSeed::new(0x5155_4f54, 0x4557_4159);

fn distributor_config(
    lossy: bool,
    filtering: Filtering,
    (hot, watched): (Option<bool>, bool),
    random: &mut Random,
) -> distributor::Config {
    let balance = if random.chance(50) { Balance::First } else { Balance::Load };
    let age_unwatched = if random.chance(50) { 0 } else { 4 * SECOND };
    let opens_per_turn = 1 + random.below(20) as u32;
    distributor::Config {
        hash_seed: HASH_SEED,
        balance: if hot.is_some() { Balance::Hot } else { balance },
        sequence_numbers: hot == Some(true),
        failback: [0, 2 * SECOND, 9 * SECOND][(opens_per_turn / 3 % 3) as usize],
        age_unwatched,
        // Age of items that nobody publishes any more: for ever, or less than a publisher stays away.
        age_unpublished: [0, 2, 20][(opens_per_turn / 3 % 3) as usize] * SECOND,
        publication_patience: [0, 1, 5][(opens_per_turn / 5 % 3) as usize] * SECOND,
        login_timeout: 10 * SECOND,
        request_timeout: 3 * SECOND,
        retry_interval: SECOND,
        retry_max_interval: 4 * SECOND,
        post_timeout: 5 * SECOND,
        // By these a reader learns that the last block before a silence was lost.
        heartbeat_interval: if lossy { SECOND } else { 0 },
        opens_per_turn,
        work_per_turn: [1, 3, 4_000][(opens_per_turn % 3) as usize],
        image_part: if random.chance(50) { 40 } else { 32_000 },
        cache: cache_rules(random),
        filters: filtering.of_distributors(),
        routes: if watched { vec![watched_route(); ROUTES] } else { Vec::new() },
        ..distributor::Config::default()
    }
}

/// Routes that there may be: more than providers.
const ROUTES: usize = 8;

/// A route whose data are watched: what has ticked at all, and is silent for some seconds, is left.
fn watched_route() -> RouteConfig {
    let interruption = Interruption { duration: 6 * SECOND, traffic_window: 0 };
    RouteConfig { interruption: Some(interruption), ..RouteConfig::default() }
}

/// Time in which a client has to log in.
pub(crate) const LOGIN_TIMEOUT: u64 = 20 * SECOND;

fn p2ps_config(lossy: bool, filtering: Filtering, random: &mut Random) -> p2ps::Config {
    let incarnation = 1 + random.below(1000) as u32;
    let open_window = 1 + random.below(30) as u32;
    p2ps::Config {
        hash_seed: HASH_SEED,
        incarnation,
        open_window,
        opens_per_turn: 1 + random.below(20) as u32,
        work_per_turn: [1, 3, 4_000][(open_window % 3) as usize],
        unwatched_time: [0, 2, 3][(open_window / 3 % 3) as usize] * SECOND,
        max_unwatched: [0, 1, 4][(incarnation % 3) as usize],
        post_timeout: 8 * SECOND,
        login_timeout: LOGIN_TIMEOUT,
        heartbeat_interval: if lossy { SECOND } else { 0 },
        request_timeout: 3 * SECOND,
        recovery_delay: SECOND,
        recovery_delay_max: 4 * SECOND,
        image_part: if random.chance(50) { 40 } else { 32_000 },
        // In worlds without a filter here nobody reaches these, and many pass their marks.
        item_limit: if filtering.at_p2pss { 9 } else { 1_000 },
        aggregate_item_limit: 1_000,
        total_item_limit: if filtering.at_p2pss { 14 } else { 3_000 },
        load_percents: if filtering.at_p2pss {
            Percents { upper: 80, lower: 50 }
        } else {
            Percents { upper: 1, lower: 0 }
        },
        cache: cache_rules(random),
        filters: filtering.of_p2pss(),
        ..p2ps::Config::default()
    }
}

/// In every other world some services are cached, and there may be room for a few items only.
fn cache_rules(random: &mut Random) -> CacheRules {
    let mut rules = CacheRules::default();
    if random.chance(50) {
        for service in SERVICES {
            let rule = ServiceRule { enabled: random.chance(70), ..ServiceRule::default() };
            rules.services.insert(service.to_owned(), rule);
        }
        rules.max_items = if random.chance(50) { 0 } else { 1 + random.below(8) };
    }
    rules
}

fn limits(slow: bool, conflated: bool) -> p2ps::egress::Limits {
    match (slow, conflated) {
        (false, _) => p2ps::egress::Limits::default(),
        (true, false) => LIMITS,
        (true, true) => {
            p2ps::egress::Limits { guaranteed: 60, max: 6_000, pool: 30_000, conflate: 60, tick_by_tick: 20, ..LIMITS }
        }
    }
}

/// One interval for those that ask for it, another one for all of one service with exceptions by value, name and field, and whoever is slow.
fn conflation() -> Settings {
    let others =
        ServiceConflation { offered: vec![700], just_in_time: JustInTime::All, ..ServiceConflation::default() };
    let values = vec![(FieldValue::Number(1), 90), (FieldValue::Number(1_000_001), 0)];
    let exceptions = Exceptions {
        by_field: Some(FieldIntervals { fid: 1, values }),
        not_items: vec![NamePattern::new("B")],
        only_fields: Some(Arc::new(FieldSet::new([(1, 4)]))),
    };
    let all = ServiceConflation { interval: 400, exceptions, ..others.clone() };
    Settings { services: [("OTHER".to_owned(), all)].into(), others, ripple: false }
}

/// In two of three worlds the distributors have an order.
fn order(number: usize) -> (Vec<String>, u64) {
    let names = match number / 3 % 3 {
        0 => vec![],
        1 => vec![distributor_name(0), distributor_name(1)],
        _ => vec![distributor_name(1), distributor_name(0)],
    };
    (names, [0, 2 * SECOND, 9 * SECOND][number % 3])
}

/// Tells a P2PS what the distributors are called.
pub(crate) fn name_distributors(machine: &mut P2ps, count: usize) {
    for number in 0..count {
        machine.name_source(SourceId(number as u16), &distributor_name(number));
    }
}

/// The P2PS of this number says where consumers reach it.
pub(crate) fn serve(machine: &mut P2ps, now: u64, number: usize) {
    machine.serve_at(now, Place { host: format!("p2ps{number}"), rssl: 14_002, websocket: 0 });
}

/// The name of a distributor.
pub(crate) fn distributor_name(number: usize) -> String {
    format!("sd{number}")
}

impl Hub {
    /// So many distributors and P2PSs, all joined.
    pub(crate) fn new(
        count: (usize, usize),
        layout: Layout,
        (paced, slow, conflated): (bool, bool, bool),
        (filtering, hot, watched, paired): (Filtering, Option<bool>, bool, bool),
        now: u64,
        random: &mut Random,
    ) -> Self {
        let lossy = layout == Layout::Network || layout == Layout::Rings && random.chance(30);
        let longest = 150 + random.below(2000);
        let (distributors, shards) = (count.0, count.1);
        let mut hub = Self {
            distributors: Vec::new(),
            shards: Vec::new(),
            layout,
            longest,
            lossy,
            paced: paced && layout == Layout::Network,
            slow,
            conflated,
            order: order(longest),
            filtering,
            hot,
            watched,
            paired,
            next_incarnation: 100,
            network: None,
            trace: None,
        };
        if layout == Layout::Network {
            hub.network = Some(Network::new(distributors, shards));
            hub.enter_network(count, random);
            return hub;
        }
        for number in 0..distributors {
            let machine = SourceDistributor::new(
                distributor_config(lossy, filtering, (hot, watched), random),
                10 + number as u32,
            );
            hub.distributors.push(Distributor { machine, sink: Sink::default() });
        }
        for id in 0..shards as u16 {
            let conflation = if conflated { conflation() } else { Settings::default() };
            let egress = limits(slow, conflated);
            let (source_order, source_failback) = hub.order.clone();
            let config = p2ps::Config {
                egress,
                conflation,
                source_order,
                source_failback,
                source_pairs: hub.source_pairs(),
                sequence_numbers: hot == Some(true),
                ..p2ps_config(lossy, filtering, random)
            };
            let mut machine = P2ps::new(config, id);
            name_distributors(&mut machine, distributors);
            for number in 0..distributors as u16 {
                machine.source_up(now, SourceId(number));
            }
            for distributor in &mut hub.distributors {
                distributor.machine.p2ps_up(now, id);
            }
            hub.shards.push(Shard {
                events: vec![VecDeque::new(); distributors],
                requests: vec![VecDeque::new(); distributors],
                linked: vec![true; distributors],
                heard: vec![false; distributors],
                ..Shard::new(machine, usize::from(id))
            });
        }
        hub
    }

    /// The machines of a network: nobody has joined anybody.
    fn enter_network(&mut self, (distributors, shards): (usize, usize), random: &mut Random) {
        for number in 0..distributors {
            let machine = SourceDistributor::new(self.distributor_config(random), 10 + number as u32);
            self.distributors.push(Distributor { machine, sink: Sink::default() });
        }
        for at in 0..shards {
            let mut machine = P2ps::new(self.p2ps_config(random), 0);
            name_distributors(&mut machine, distributors);
            serve(&mut machine, 0, at);
            self.shards.push(Shard::new(machine, at));
        }
    }

    /// A distributor's settings in a network.
    pub(crate) fn distributor_config(&self, random: &mut Random) -> distributor::Config {
        distributor::Config {
            p2ps_timeout: 3 * SECOND,
            lease: [0, SECOND, 5 * SECOND][random.below(3)],
            point_to_point: random.chance(50),
            history_bytes: [0, 3_000, 1 << 20, 1 << 20][random.below(4)],
            window: if self.paced { WINDOW } else { 0 },
            patience: PATIENCE,
            ..distributor_config(self.lossy, self.filtering, (self.hot, self.watched), random)
        }
    }

    fn source_pairs(&self) -> Vec<Vec<String>> {
        let names = || (0..2).map(distributor_name).collect();
        if self.paired { vec![names()] } else { Vec::new() }
    }

    /// A P2PS's settings in a network.
    pub(crate) fn p2ps_config(&self, random: &mut Random) -> p2ps::Config {
        p2ps::Config {
            connections: Connections { of_hub: !self.paired, ..Connections::default() },
            source_timeout: 3 * SECOND,
            gap_timeout: 2 * SECOND,
            hold_bytes: if random.chance(20) { 2_000 } else { 1 << 20 },
            key: if random.chance(50) { 1 + random.next() } else { 0 },
            egress: limits(self.slow, self.conflated),
            conflation: if self.conflated { conflation() } else { Settings::default() },
            source_order: self.order.0.clone(),
            source_failback: self.order.1,
            source_pairs: self.source_pairs(),
            sequence_numbers: self.hot == Some(true),
            report_bytes: if self.paced { (WINDOW / 8) as usize } else { 0 },
            ..p2ps_config(self.lossy, self.filtering, random)
        }
    }

    /// True if a P2PS does nothing now.
    pub(crate) fn is_p2ps_still(&self, at: usize, now: u64) -> bool {
        self.network.as_ref().is_some_and(|network| network.is_p2ps_still(at, now))
    }

    /// True if a distributor does nothing now.
    pub(crate) fn is_distributor_still(&self, number: usize, now: u64) -> bool {
        self.network.as_ref().is_some_and(|network| network.is_distributor_still(number, now))
    }

    /// True if a distributor reads nothing from its providers now: it stands still, or waits for a P2PS.
    pub(crate) fn is_deaf(&self, number: usize, now: u64) -> bool {
        self.network.as_ref().is_some_and(|network| network.is_deaf(number, now))
    }

    /// True if a distributor waits for a P2PS.
    pub(crate) fn is_anyone_held(&self) -> bool {
        self.network.as_ref().is_some_and(Network::is_anyone_held)
    }

    /// When something wants to happen by itself.
    pub(crate) fn timeout(&self, now: u64) -> Option<u64> {
        let distributors = self.distributors.iter().enumerate();
        let distributors = distributors.filter(|(number, _)| !self.is_distributor_still(*number, now));
        let distributors = distributors.filter_map(|(_, distributor)| distributor.machine.timeout());
        let shards = self.shards.iter().enumerate().filter(|(at, _)| !self.is_p2ps_still(*at, now));
        let shards = shards.filter_map(|(_, shard)| shard.machine.timeout());
        let network = self.network.as_ref().and_then(|network| network.timeout(now));
        distributors.chain(shards).chain(network).min()
    }

    fn on_timers(&mut self, now: u64) {
        let network = self.network.as_ref();
        for (number, Distributor { machine, sink }) in self.distributors.iter_mut().enumerate() {
            if network.is_some_and(|network| network.is_distributor_still(number, now)) {
                continue;
            }
            if machine.timeout().is_some_and(|at| at <= now) {
                machine.on_timer(now, sink);
            }
        }
        for (at, shard) in self.shards.iter_mut().enumerate() {
            if network.is_some_and(|network| network.is_p2ps_still(at, now)) {
                continue;
            }
            if shard.machine.timeout().is_some_and(|at| at <= now) {
                shard.machine.on_timer(now);
                shard.take_up();
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
                Layout::Network => {
                    let Some(mut network) = self.network.take() else { break };
                    let busy = self.pass_network(&mut network, now, all, random);
                    if self.paced {
                        network.keep_pace(&mut self.distributors, now, &mut self.trace);
                    }
                    self.network = Some(network);
                    busy
                }
            };
            if !busy || (self.layout != Layout::Inline && !all) {
                break;
            }
        }
        self.flush(now);
        for shard in &self.shards {
            shard.machine.check_invariants();
        }
    }

    /// A transport goes, with all that is on it.
    fn unlink(&mut self, now: u64, at: usize, number: usize) {
        let shard = &mut self.shards[at];
        if !std::mem::replace(&mut shard.linked[number], false) {
            return;
        }
        note_line(&mut self.trace, || format!("    p2ps {at} and distributor {number} lose each other"));
        shard.heard[number] = false;
        shard.events[number].clear();
        shard.requests[number].clear();
        shard.machine.source_down(now, SourceId(number as u16));
        let Distributor { machine, sink } = &mut self.distributors[number];
        machine.p2ps_down(now, at as u16, sink);
    }

    /// Transports that are down come up again, some or all.
    pub(crate) fn link(&mut self, now: u64, all: bool, random: &mut Random) {
        if let Some(network) = &mut self.network {
            if all {
                network.heal();
            }
            return;
        }
        for at in 0..self.shards.len() {
            for number in 0..self.distributors.len() {
                if !self.shards[at].linked[number] && (all || random.chance(5)) {
                    note_line(&mut self.trace, || format!("    p2ps {at} and distributor {number} find each other"));
                    self.shards[at].linked[number] = true;
                    self.shards[at].machine.source_up(now, SourceId(number as u16));
                    self.distributors[number].machine.p2ps_up(now, at as u16);
                }
            }
        }
    }

    /// A fault of the network between them, if there is one.
    pub(crate) fn network_fault(&mut self, now: u64, random: &mut Random) -> Option<Fault> {
        let mut network = self.network.take()?;
        let fault = self.break_network(&mut network, now, random);
        self.network = Some(network);
        fault
    }

    /// A fault of a network: a transport goes, or a distributor starts again. Tells which one did.
    pub(crate) fn fault(&mut self, now: u64, random: &mut Random) -> Option<usize> {
        let (at, number) = (random.below(self.shards.len()), random.below(self.distributors.len()));
        if random.chance(60) {
            self.unlink(now, at, number);
            return None;
        }
        note_line(&mut self.trace, || format!("    distributor {number} starts again"));
        for at in 0..self.shards.len() {
            self.unlink(now, at, number);
        }
        self.next_incarnation += 1;
        let machine = SourceDistributor::new(
            distributor_config(true, self.filtering, (self.hot, self.watched), random),
            self.next_incarnation,
        );
        self.distributors[number] = Distributor { machine, sink: Sink::default() };
        Some(number)
    }

    /// Slow clients take some of what was sent to them, or all.
    pub(crate) fn take_sockets(&mut self, now: u64, all: bool, random: &mut Random) {
        for Shard { machine, sockets, delivered, .. } in &mut self.shards {
            for (&client, socket) in sockets {
                delivered.extend(socket.take(now, all, random).map(|bytes| (client, bytes)));
                machine.client_backlog(ClientId(client), socket.bytes());
            }
        }
    }

    /// True if something is on its way to a client that takes it slowly.
    pub(crate) fn is_anyone_slow(&self) -> bool {
        let waits = |shard: &Shard| shard.machine.has_deliveries() || shard.sockets.values().any(|s| s.bytes() > 0);
        self.shards.iter().any(waits)
    }

    /// Hands out what the P2PSs have for their clients.
    pub(crate) fn flush(&mut self, now: u64) {
        for shard in &mut self.shards {
            shard.flush(now, &[]);
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
            distributor.machine.check_invariants();
        }
        for shard in shards.iter_mut() {
            shard.flush(now, &[]);
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
                    let Some(block) = self.shards[at].events[number].pop_front() else { break };
                    let heard = std::mem::replace(&mut self.shards[at].heard[number], true);
                    if self.lossy && heard && !all && random.below(150) == 0 {
                        note_line(&mut self.trace, || {
                            format!("    a block of distributor {number} to p2ps {at} is lost")
                        });
                        continue;
                    }
                    note(&mut self.trace, &format!("distributor {number} -> p2ps {at}"), &block);
                    self.shards[at].take(now, number as u16, &block);
                }
            }
            let shard = &mut self.shards[at];
            shard.flush(now, &[]);
            let (requests, linked, longest) = (&mut shard.requests, &shard.linked, self.longest);
            shard.machine.requests(|source, block| {
                busy = true;
                if !linked[usize::from(source.0)] {
                    return;
                }
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
                    if self.lossy && !all && random.below(150) == 0 {
                        note_line(&mut self.trace, || {
                            format!("    a block of p2ps {at} to distributor {number} is lost")
                        });
                        continue;
                    }
                    let Distributor { machine, sink } = &mut self.distributors[number];
                    let read = machine.request_block(now, at as u16, &block, sink);
                    if let Err(error) = read {
                        assert!(self.lossy && matches!(error, HubError::Gap { .. }), "a request block: {error}");
                        // The transport is ended with that reason, and built up again.
                        self.unlink(now, at, number);
                        break;
                    }
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
                for shard in self.shards.iter_mut().filter(|shard| shard.linked[number]) {
                    shard.events[number].push_back(part.to_vec());
                }
            }
            distributor.machine.clear_block();
            distributor.machine.check_invariants();
        }
        busy
    }
}

impl Distributor {
    pub(crate) fn new(machine: SourceDistributor) -> Self {
        Self { machine, sink: Sink::default() }
    }
}

impl Shard {
    /// Joined to nobody. The third one numbers services in its texts.
    fn new(machine: P2ps, at: usize) -> Self {
        let service_numbers = at == 2;
        Self {
            texts: json::texts(service_numbers),
            service_numbers,
            machine,
            events: Vec::new(),
            requests: Vec::new(),
            linked: Vec::new(),
            heard: Vec::new(),
            delivered: Vec::new(),
            closing: Vec::new(),
            sockets: BTreeMap::new(),
            speakers: BTreeMap::new(),
        }
    }

    /// Another life: its clients are gone.
    pub(crate) fn restart(&mut self, machine: P2ps) {
        self.texts = json::texts(self.service_numbers);
        self.machine = machine;
        self.speakers.clear();
        self.delivered.clear();
        self.closing.clear();
        self.sockets.clear();
    }

    /// A client is gone, with what is on its way to it.
    pub(crate) fn hang_up(&mut self, client: u32) {
        self.sockets.remove(&client);
        if self.speakers.remove(&client).is_some() {
            // An error may have answered what the client said last.
            self.delivered.retain(|(to, _)| *to != client);
        }
    }

    pub(crate) fn take(&mut self, now: u64, source: u16, block: &[u8]) {
        self.machine.hub_block(now, SourceId(source), block).expect("an event block");
        self.flush(now, block);
    }

    /// Texts of a JSON client arrive, or some of them: its messages. What it is owed for the rest is sent.
    pub(crate) fn hear(&mut self, now: u64, client: u32, all: bool, random: &mut Random) -> Vec<Vec<u8>> {
        self.follow();
        let Some(speaker) = self.speakers.get_mut(&client) else { return Vec::new() };
        let (messages, answers) = speaker.arrive_up(now, all, &mut self.texts, random);
        if !answers.is_empty() {
            send(client, answers, &mut self.sockets, &mut self.delivered);
        }
        messages
    }

    /// The P2PS is done with a message of a client.
    pub(crate) fn done(&mut self, client: u32, message: &[u8]) {
        self.follow();
        if let Some(speaker) = self.speakers.get_mut(&client) {
            speaker.note_message(&mut self.texts, message);
        }
    }

    /// Work that had to wait is done.
    fn take_up(&mut self) {
        for (client, message) in self.machine.taken_up().collect::<Vec<_>>() {
            self.done(client.0, &message);
        }
    }

    /// Texts have the services that the P2PS has.
    fn follow(&mut self) {
        if !self.speakers.is_empty() {
            let p2ps = &self.machine;
            self.texts.set_services(p2ps.services_renamed(), |place| p2ps.services_from(place), p2ps.first_service());
        }
    }

    pub(crate) fn flush(&mut self, now: u64, block: &[u8]) {
        self.follow();
        let Self { machine, delivered, closing, sockets, speakers, texts, .. } = self;
        machine.flush(block, |client, deliveries| {
            if let Some(speaker) = speakers.get_mut(&client.0) {
                let bytes = speaker.write(now, texts, deliveries);
                return send(client.0, bytes, sockets, delivered);
            }
            for (body, stream) in deliveries {
                let mut bytes = body.to_vec();
                assert!(rwf::peek::set_stream_id(&mut bytes, stream), "a delivery is a message");
                send(client.0, bytes, sockets, delivered);
            }
        });
        texts.end_flush();
        for (&client, socket) in sockets.iter() {
            machine.client_backlog(ClientId(client), socket.bytes());
        }
        for (client, control) in machine.flow_control() {
            // A client that takes all at once notices nothing of those that do not.
            let socket = sockets.get_mut(&client.0).expect("flow control of a client that takes all at once");
            match control {
                FlowControl::PauseReading => socket.paused = true,
                FlowControl::ResumeReading => socket.paused = false,
                FlowControl::Slow { .. }
                | FlowControl::CaughtUp
                | FlowControl::Conflated { .. }
                | FlowControl::TickByTick { .. } => {}
            }
        }
        closing.extend(machine.closing().map(|(client, reason)| (client.0, reason.to_string())));
        machine.notices();
    }
}

/// Bytes for a client wait in its socket where it is a slow one.
fn send(client: u32, bytes: Vec<u8>, sockets: &mut BTreeMap<u32, Socket>, delivered: &mut Vec<(u32, Vec<u8>)>) {
    match sockets.get_mut(&client) {
        Some(socket) => socket.push(bytes),
        None => delivered.push((client, bytes)),
    }
}

pub(crate) fn note_line(trace: &mut Option<Vec<String>>, line: impl FnOnce() -> String) {
    if let Some(trace) = trace {
        trace.push(line());
    }
}

/// Notes what a block holds, if anyone wants to know.
pub(crate) fn note(trace: &mut Option<Vec<String>>, way: &str, block: &[u8]) {
    let Some(trace) = trace else { return };
    for message in hub::stream::Block::parse(block).expect("a block").messages() {
        let m = message.expect("a hub message");
        let (target, handle) = (m.target as i16, m.handle as i32);
        trace.push(format!("    {way}: {:?} item {handle} arg {} flags {:#x} target {target}", m.kind, m.arg, m.flags));
    }
}
