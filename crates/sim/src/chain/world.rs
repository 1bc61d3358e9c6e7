//! The world of one run: everyone in it, what they do by turns, and the state of rest in which all has to fit.

use super::Between;
use super::consumer::Consumer;
use super::content::{Item, PUBLISHED, Truth, seen};
use super::hub::{Hub, Layout, SECOND};
use super::network::Fault;
use super::provider::Provider;
use super::publisher::Publisher;
use super::random::Random;
use super::socket::Socket;
use super::watch::Kind;
use super::wire::Wire;
use hub::distributor::{Origin, PeerInfo, SessionId};
use hub::p2ps::{ClientId, ClientInfo};
use rwf::msg::{Msg, RefreshFlags, RequestFlags};
use std::collections::BTreeMap;
use std::net::IpAddr;

const MILLISECOND: u64 = 1_000_000;
/// Longest that a post may be without answer, all timeouts on its way together.
const POST_ANSWERED: u64 = 20 * SECOND;
/// The same where both sides may stand still.
const POST_ANSWERED_LATE: u64 = 60 * SECOND;

/// Longest that a request may be without an image or a word on why there is none: a request timeout, and turns in which nothing moves.
const ANSWERED: u64 = 20 * SECOND;
/// The same where both sides may stand still, and silence has to be noticed.
const ANSWERED_LATE: u64 = 40 * SECOND;

/// A session slot of publishers; interactive providers have those below.
const PUBLISHER_SESSION: u32 = 10;

/// The world.
pub(crate) struct World {
    random: Random,
    pub(crate) now: u64,
    hub: Hub,
    truth: Truth,
    providers: Vec<Provider>,
    publishers: Vec<Publisher>,
    consumers: Vec<Option<Consumer>>,
    /// Images that were asked for on a provider's stream, and whether again while one was owed: of several answers only
    /// one is expected.
    asked: BTreeMap<(usize, i32), (u32, bool)>,
    /// Messages in each distributor's sink that are counted there.
    counted: Vec<usize>,
    /// Connections that are bytes; the others hand over whole messages at once.
    consumer_wires: BTreeMap<usize, Wire>,
    provider_wires: BTreeMap<usize, Wire>,
    /// Names of service ids, by shard.
    names: Vec<BTreeMap<u16, String>>,
    turn: u64,
    /// Nothing stays on its way.
    eager: bool,
    /// Everyone wants the same few items, and changes how.
    crowded: bool,
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
/// Bytes that a distributor of a paced world reads from a provider at a time.
const READ: usize = 1_200;

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
        let two = if between == Between::Network { 50 } else { 25 };
        let distributors = if random.chance(two) { 2 } else { 1 };
        let crowded = seed >= CROWDED;
        let shards = if layout == Layout::Inline { 1 } else { 1 + random.below(if crowded { 5 } else { 3 }) };
        let kind = ((PACED..SLOW).contains(&seed), seed >= SLOW, seed >= CONFLATED);
        let mut hub = Hub::new((distributors, shards), layout, kind, now, &mut random);
        hub.trace = logged.then(Vec::new);
        let home = |at: usize| usize::from(distributors == 2 && at >= 2);
        let count = 1 + random.below(OFFERS.len());
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
            consumers: (0..clients).map(|_| None).collect(),
            asked: BTreeMap::new(),
            counted: vec![0; distributors],
            consumer_wires: BTreeMap::new(),
            provider_wires: BTreeMap::new(),
            names: vec![BTreeMap::new(); shards],
            turn: 0,
            eager: false,
            crowded,
            log: logged.then(Vec::new),
        };
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

    fn provider_changes(&mut self) {
        let at = self.random.below(self.providers.len());
        if self.hub.is_distributor_still(self.providers[at].distributor, self.now) {
            return;
        }
        if self.providers[at].up && self.random.chance(40) {
            self.provider_down(at);
        } else if !self.providers[at].up {
            self.provider_up(at);
        }
    }

    fn providers_up(&mut self) {
        for at in 0..self.providers.len() {
            if !self.providers[at].up {
                self.provider_up(at);
            }
        }
    }

    fn provider_up(&mut self, at: usize) {
        self.note(|| format!("provider {at} up"));
        self.asked.retain(|(of, _), _| *of != at);
        let Self { providers, provider_wires, truth, random, hub, now, .. } = self;
        let provider = &mut providers[at];
        provider.now = *now;
        provider.start(OFFERS[at], truth, random);
        if random.chance(30) {
            provider_wires.insert(at, Wire::new(*now, random));
        }
        let distributor = &mut hub.distributors[provider.distributor];
        let peer = PeerInfo { address: format!("provider{at}:14002") };
        let origin = Origin::Route(at as u16);
        distributor.machine.session_up(*now, SessionId(provider.session), origin, peer, &mut distributor.sink);
    }

    fn provider_down(&mut self, at: usize) {
        self.note(|| format!("provider {at} down"));
        self.provider_wires.remove(&at);
        let provider = &mut self.providers[at];
        provider.stop();
        let (number, session) = (provider.distributor, SessionId(provider.session));
        self.drop_sent(number, session);
        let distributor = &mut self.hub.distributors[number];
        distributor.machine.session_down(self.now, session, "connection reset", &mut distributor.sink);
    }

    /// What was not on its way to a session yet goes nowhere: not to its next life either.
    fn drop_sent(&mut self, number: usize, session: SessionId) {
        self.count_requests(number);
        let sent = &mut self.hub.distributors[number].sink.sent;
        sent.retain(|(to, _)| *to != session.0);
        self.counted[number] = sent.len();
    }

    fn publisher_changes(&mut self) {
        let Some(publisher) = self.publishers.first() else { return };
        if self.hub.is_distributor_still(publisher.distributor, self.now) {
            return;
        }
        if publisher.up {
            if self.random.chance(50) {
                self.publisher_down();
            }
        } else {
            self.publisher_up();
        }
    }

    fn publisher_up(&mut self) {
        self.note(|| "publisher up".to_owned());
        let Self { publishers, truth, random, hub, now, .. } = self;
        let publisher = &mut publishers[0];
        let session = PUBLISHER_SESSION + random.below(2) as u32;
        publisher.start(session, truth, random);
        let distributor = &mut hub.distributors[publisher.distributor];
        let peer = PeerInfo { address: "publisher".into() };
        distributor.machine.session_up(*now, SessionId(session), Origin::NonInteractive, peer, &mut distributor.sink);
    }

    fn publisher_down(&mut self) {
        self.note(|| "publisher down".to_owned());
        let publisher = &mut self.publishers[0];
        publisher.stop();
        let (number, session) = (publisher.distributor, SessionId(publisher.session));
        self.drop_sent(number, session);
        let distributor = &mut self.hub.distributors[number];
        distributor.machine.session_down(self.now, session, "connection reset", &mut distributor.sink);
    }

    /// Something between the hub's sides breaks. A distributor that starts again has lost its sessions.
    fn network_fault(&mut self) {
        if self.hub.network.is_some() {
            match self.hub.network_fault(self.now, &mut self.random) {
                Some(Fault::Distributor(number)) => self.distributor_restarted(number),
                Some(Fault::P2ps(at)) => self.p2ps_restarted(at),
                None => {}
            }
            return;
        }
        if self.random.chance(50) {
            return self.hub.link(self.now, false, &mut self.random);
        }
        let restarted = self.hub.fault(self.now, &mut self.random);
        self.hub.flush();
        self.read_clients();
        if let Some(number) = restarted {
            self.distributor_restarted(number);
        }
    }

    /// The clients of a P2PS that starts again have to connect again.
    fn p2ps_restarted(&mut self, at: usize) {
        self.note(|| format!("p2ps {at} starts again"));
        self.names[at].clear();
        for client in 0..self.consumers.len() {
            if self.consumers[client].as_ref().is_some_and(|consumer| consumer.shard == at) {
                self.consumers[client] = None;
                self.consumer_wires.remove(&client);
            }
        }
    }

    /// A distributor that starts again has lost its sessions.
    fn distributor_restarted(&mut self, number: usize) {
        self.note(|| format!("distributor {number} starts again"));
        self.counted[number] = 0;
        for at in 0..self.providers.len() {
            if self.providers[at].distributor == number {
                self.providers[at].stop();
                self.provider_wires.remove(&at);
            }
        }
        for publisher in self.publishers.iter_mut().filter(|publisher| publisher.distributor == number) {
            publisher.stop();
        }
    }

    fn consumer_changes(&mut self) {
        let at = self.random.below(self.consumers.len());
        if self.consumers[at].is_none() {
            self.connect(at);
        } else if self.random.chance(25) {
            self.disconnect(at);
        }
    }

    fn connect(&mut self, at: usize) {
        let shard = self.random.below(self.hub.shards.len());
        if self.hub.is_p2ps_still(shard, self.now) {
            return;
        }
        let mut consumer = Consumer::new(shard, at as u32, self.now, &mut self.random);
        consumer.crowded = self.crowded;
        consumer.by_time = self.hub.conflated && self.random.chance(40);
        if self.random.chance(20) {
            self.consumer_wires.insert(at, Wire::new(self.now, &mut self.random));
            consumer.wired = true;
        }
        if self.hub.slow && !consumer.wired && self.random.chance(50) {
            let socket = Socket::new(self.now, self.hub.conflated, &mut self.random);
            self.note(|| format!("consumer {at} is a slow one: {socket:?}"));
            self.hub.shards[shard].sockets.insert(at as u32, socket);
            consumer.wired = true;
            consumer.when_slow = self.hub.conflated;
        }
        self.note(|| format!("consumer {at} connects to shard {shard}: {:?}", consumer.policy));
        let address = IpAddr::from([10, 0, 0, at as u8 + 1]);
        self.hub.shards[shard].machine.client_up(self.now, ClientId(at as u32), ClientInfo { address });
        self.consumers[at] = Some(consumer);
        self.deliver_up(at);
    }

    fn disconnect(&mut self, at: usize) {
        if self.consumers[at].as_ref().is_some_and(|consumer| self.hub.is_p2ps_still(consumer.shard, self.now)) {
            return;
        }
        let Some(consumer) = self.consumers[at].take() else { return };
        self.note(|| format!("consumer {at} disconnects"));
        self.consumer_wires.remove(&at);
        self.hub.shards[consumer.shard].sockets.remove(&(at as u32));
        self.hub.shards[consumer.shard].machine.client_down(self.now, ClientId(at as u32));
    }

    fn consumer_acts(&mut self) {
        let at = self.random.below(self.consumers.len());
        let (now, turn) = (self.now, self.turn);
        let Some(consumer) = &mut self.consumers[at] else { return };
        if self.hub.is_p2ps_still(consumer.shard, now) {
            return;
        }
        (consumer.turn, consumer.now) = (turn, now);
        consumer.act(now, &mut self.random);
        self.deliver_up(at);
    }

    /// What a consumer has to say reaches its P2PS.
    fn deliver_up(&mut self, at: usize) {
        let Some(consumer) = &mut self.consumers[at] else { return };
        if self.hub.is_p2ps_still(consumer.shard, self.now) {
            return;
        }
        if self.hub.shards[consumer.shard].sockets.get(&(at as u32)).is_some_and(|socket| socket.paused) {
            return;
        }
        let (shard, out) = (consumer.shard, std::mem::take(&mut consumer.out));
        for bytes in out {
            if let Some(wire) = self.consumer_wires.get_mut(&at) {
                wire.client_sends(self.now, &bytes);
            } else {
                self.client_says(at, shard, &bytes);
            }
        }
    }

    fn client_says(&mut self, at: usize, shard: usize, bytes: &[u8]) {
        self.note(|| format!("consumer {at} -> {}", text(bytes)));
        self.hub.shards[shard].machine.client_message(self.now, ClientId(at as u32), bytes);
    }

    fn provider_acts(&mut self) {
        let at = self.random.below(self.providers.len());
        let Self { providers, truth, random, now, .. } = self;
        let provider = &mut providers[at];
        provider.now = *now;
        let burst = 1 + random.below(4);
        for _ in 0..burst {
            if random.chance(50) {
                provider.receive(random);
            } else {
                provider.act(truth, random);
            }
        }
        if self.hub.paced && provider.ready && provider.outbox.len() < 50 && random.chance(90) {
            for _ in 0..random.below(60) {
                provider.update(truth, random);
            }
        }
        let sends = random.below(provider.outbox.len() + 2);
        self.deliver_provider(at, sends);
    }

    /// Some of what a provider has sent reaches its distributor.
    fn deliver_provider(&mut self, at: usize, count: usize) {
        if self.hub.is_deaf(self.providers[at].distributor, self.now) {
            return;
        }
        let mut read = 0;
        for _ in 0..count {
            if self.hub.paced && read > READ {
                return;
            }
            let Some(bytes) = self.providers[at].outbox.pop_front() else { return };
            read += bytes.len();
            if let Some(wire) = self.provider_wires.get_mut(&at) {
                wire.server_sends(self.now, &[bytes]);
            } else {
                self.provider_says(at, &bytes);
            }
        }
    }

    fn provider_says(&mut self, at: usize, bytes: &[u8]) {
        self.note(|| format!("provider {at} -> {}", text(bytes)));
        self.judge_answer(at, bytes);
        let provider = &self.providers[at];
        let distributor = &mut self.hub.distributors[provider.distributor];
        let session = SessionId(provider.session);
        distributor.machine.session_message(self.now, session, bytes, &mut distributor.sink);
        let number = provider.distributor;
        self.count_requests(number);
    }

    /// Counts what a Source Distributor has asked its providers for since the last time.
    fn count_requests(&mut self, number: usize) {
        let from = std::mem::replace(&mut self.counted[number], self.hub.distributors[number].sink.sent.len());
        let sent: Vec<_> = self.hub.distributors[number].sink.sent[from..].into();
        for (session, bytes) in sent {
            let route = self.providers.iter().any(|p| (p.distributor, p.session) == (number, session));
            if route {
                self.count_request(session as usize, &bytes);
            }
        }
    }

    fn count_request(&mut self, at: usize, bytes: &[u8]) {
        if let Ok(Msg::Request(request)) = Msg::decode(bytes)
            && !request.flags.contains(RequestFlags::NO_REFRESH)
        {
            let asked = self.asked.entry((at, request.stream_id)).or_default();
            asked.0 += 1;
            asked.1 |= asked.0 > 1;
        }
    }

    /// An answer has arrived: one of several may go to everyone.
    fn judge_answer(&mut self, at: usize, bytes: &[u8]) {
        if let Ok(Msg::Refresh(refresh)) = Msg::decode(bytes)
            && refresh.flags.contains(RefreshFlags::SOLICITED)
            && refresh.part_num.is_none_or(|part| part == 0)
            && let Some(asked) = self.asked.get_mut(&(at, refresh.stream_id))
            && let Some(set) = refresh.ext_header.and_then(|set| set.try_into().ok())
        {
            asked.0 = asked.0.saturating_sub(1);
            if asked.1 {
                self.truth.is_late(u32::from_be_bytes(set));
            }
            asked.1 &= asked.0 > 0;
        }
    }

    /// Bytes arrive at either end of the connections.
    fn pump(&mut self) {
        for at in 0..self.providers.len() {
            if self.hub.is_deaf(self.providers[at].distributor, self.now) {
                continue;
            }
            let Some(wire) = self.provider_wires.get_mut(&at) else { continue };
            let (at_provider, at_distributor) = wire.pump(self.now, self.eager, &mut self.random);
            for bytes in at_provider {
                self.providers[at].deliver(bytes);
            }
            for bytes in at_distributor {
                self.provider_says(at, &bytes);
            }
        }
        for at in 0..self.consumers.len() {
            let shard = self.consumers[at].as_ref().map_or(0, |consumer| consumer.shard);
            if self.hub.is_p2ps_still(shard, self.now) {
                continue;
            }
            let Some(wire) = self.consumer_wires.get_mut(&at) else { continue };
            let (at_p2ps, at_consumer) = wire.pump(self.now, self.eager, &mut self.random);
            let shard = self.consumers[at].as_ref().map_or(0, |consumer| consumer.shard);
            for bytes in at_p2ps {
                self.client_says(at, shard, &bytes);
            }
            for bytes in at_consumer {
                self.at_consumer(at, &bytes);
            }
        }
    }

    fn at_consumer(&mut self, at: usize, bytes: &[u8]) {
        self.note(|| format!("        consumer {at} <- {}", text(bytes)));
        let Self { consumers, truth, names, turn, now, .. } = self;
        let consumer = consumers[at].as_mut().expect("a client that is connected");
        (consumer.turn, consumer.now) = (*turn, *now);
        consumer.receive(bytes, truth, &mut names[consumer.shard]);
    }

    fn publisher_acts(&mut self) {
        let Self { publishers, truth, random, .. } = self;
        let Some(publisher) = publishers.first_mut() else { return };
        while publisher.receive() {}
        for _ in 0..random.below(4) {
            publisher.act(truth, random);
        }
        let sends = random.below(publisher.outbox.len() + 2);
        self.deliver_publisher(sends);
    }

    fn deliver_publisher(&mut self, count: usize) {
        if self.publishers.first().is_some_and(|p| self.hub.is_deaf(p.distributor, self.now)) {
            return;
        }
        for _ in 0..count {
            let Some(bytes) = self.publishers[0].outbox.pop_front() else { return };
            self.note(|| format!("publisher -> {}", text(&bytes)));
            let publisher = &self.publishers[0];
            let distributor = &mut self.hub.distributors[publisher.distributor];
            let session = SessionId(publisher.session);
            distributor.machine.session_message(self.now, session, &bytes, &mut distributor.sink);
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
        self.turn += 1;
    }

    fn read_sinks(&mut self) {
        for number in 0..self.hub.distributors.len() {
            self.count_requests(number);
            self.counted[number] = 0;
            let sink = std::mem::take(&mut self.hub.distributors[number].sink);
            for (session, reason) in sink.closed {
                assert!(reason.contains("has not answered login and directory in time"), "session is closed: {reason}");
                let of = |p: &&mut Provider| (p.distributor, p.session) == (number, session);
                if let Some(provider) = self.providers.iter_mut().find(of) {
                    provider.stop();
                    self.provider_wires.remove(&(session as usize));
                } else if let Some(publisher) = self.publishers.iter_mut().find(|p| p.session == session) {
                    publisher.stop();
                }
            }
            for (session, bytes) in sink.sent {
                self.note(|| format!("    distributor {number} -> session {session}: {}", text(&bytes)));
                let is_route = self.providers.iter().any(|p| (p.distributor, p.session) == (number, session));
                if is_route {
                    let provider = &mut self.providers[session as usize];
                    if let Some(wire) = self.provider_wires.get_mut(&(session as usize)) {
                        wire.client_sends(self.now, &bytes);
                    } else if provider.up {
                        provider.deliver(bytes);
                    }
                } else if let Some(publisher) = self.publishers.iter_mut().find(|p| p.up && p.session == session) {
                    publisher.inbox.push_back(bytes);
                }
            }
        }
    }

    fn read_clients(&mut self) {
        for shard in 0..self.hub.shards.len() {
            for (client, bytes) in std::mem::take(&mut self.hub.shards[shard].delivered) {
                let at = client as usize;
                let home = self.consumers[at].as_ref().map(|consumer| consumer.shard);
                assert_eq!(home, Some(shard), "a delivery to a client of another shard");
                if let Some(wire) = self.consumer_wires.get_mut(&at) {
                    wire.server_sends(self.now, &[bytes]);
                } else {
                    self.at_consumer(at, &bytes);
                }
            }
            for (client, reason) in std::mem::take(&mut self.hub.shards[shard].closing) {
                let slow = self.hub.shards[shard].sockets.contains_key(&client);
                assert!(slow && reason.starts_with("slow consumer"), "client {client} is closed: {reason}");
                self.note(|| format!("consumer {client} is cut off: {reason}"));
                self.hub.shards[shard].sockets.remove(&client);
                self.hub.shards[shard].machine.client_down(self.now, ClientId(client));
                self.consumers[client as usize] = None;
            }
        }
        let now = self.now;
        let limit = if self.hub.network.is_some() { POST_ANSWERED_LATE } else { POST_ANSWERED };
        self.check_answers();
        for (at, consumer) in self.consumers.iter().enumerate() {
            let fast = consumer.iter().filter(|c| !self.hub.shards[c.shard].sockets.contains_key(&(at as u32)));
            let overdue = fast.flat_map(|c| &c.posts).find(|post| now - post.sent_at > limit);
            assert!(overdue.is_none(), "consumer {at}: never answered: {overdue:?}");
        }
    }

    /// No request without an answer within its time: an image, or a state that says why there is none.
    fn check_answers(&mut self) {
        let now = self.now;
        let limit = if self.hub.network.is_some() { ANSWERED_LATE } else { ANSWERED };
        for (at, consumer) in self.consumers.iter_mut().enumerate() {
            let Some(consumer) = consumer else { continue };
            if self.hub.shards[consumer.shard].sockets.contains_key(&(at as u32)) {
                continue;
            }
            consumer.now = now;
            if let Some(what) = consumer.unanswered(limit) {
                panic!("consumer {at}: no answer in time: {what}");
            }
        }
    }

    /// Time passes, with every timer on the way.
    fn pass(&mut self, nanoseconds: u64) {
        let end = self.now + nanoseconds;
        for _ in 0..10_000 {
            let due = self.hub.timeout(self.now).filter(|due| *due <= end);
            let Some(due) = due else { break };
            if due <= self.now && !self.eager && self.random.chance(50) {
                // What is due at once may wait for other work.
                break;
            }
            self.now = self.now.max(due);
            self.turn();
        }
        self.now = end;
        self.turn();
    }

    /// Everything that is on its way arrives, and everyone answers.
    fn drain(&mut self) {
        for _ in 0..2_000 {
            let mut busy = false;
            self.hub.link(self.now, true, &mut self.random);
            for at in 0..self.providers.len() {
                let Self { providers, truth, random, now, .. } = self;
                let provider = &mut providers[at];
                provider.now = *now;
                while provider.receive(random) {
                    busy = true;
                }
                if provider.ready {
                    while provider.answer(truth, random) {
                        busy = true;
                    }
                }
                busy |= !provider.outbox.is_empty();
                self.deliver_provider(at, usize::MAX);
            }
            if let Some(publisher) = self.publishers.first_mut() {
                while publisher.receive() {
                    busy = true;
                }
                busy |= !publisher.outbox.is_empty();
                self.deliver_publisher(usize::MAX);
            }
            for at in 0..self.consumers.len() {
                let turn = self.turn;
                if let Some(consumer) = &mut self.consumers[at] {
                    consumer.turn = turn;
                    busy |= !consumer.out.is_empty();
                }
                self.deliver_up(at);
            }
            if self.hub.is_anyone_held() {
                // A P2PS has yet to say that it has read all, or is left behind in a moment.
                self.pass(SECOND / 4);
            }
            let wires = self.provider_wires.values().chain(self.consumer_wires.values());
            busy |= wires.fold(false, |busy, wire| busy | !wire.is_idle());
            busy |= self.hub.is_anyone_slow();
            self.turn();
            if !busy {
                return;
            }
        }
        panic!("the world never comes to rest");
    }

    /// What is conflated by time goes out.
    fn end_intervals(&mut self) {
        if self.hub.conflated {
            self.pass(SECOND);
            self.drain();
        }
    }

    /// All faults heal and time passes: then every stream has to be current.
    fn settle(&mut self) {
        self.note(|| "settle".to_owned());
        self.eager = true;
        self.hub.link(self.now, true, &mut self.random);
        self.providers_up();
        if self.publishers.first().is_some_and(|publisher| !publisher.up) {
            self.publisher_up();
        }
        for round in 0..30 {
            self.drain();
            // One that was too late with its login was sent away.
            self.providers_up();
            let Self { providers, publishers, truth, random, consumers, .. } = self;
            for provider in providers.iter_mut() {
                provider.heal(random);
            }
            for publisher in publishers.iter_mut() {
                publisher.heal(truth, random);
            }
            for consumer in consumers.iter_mut().flatten() {
                if round == 5 {
                    consumer.resume();
                }
                if round < 20 {
                    consumer.reopen();
                }
            }
            self.drain();
            self.pass(SECOND);
        }
        self.drain();
        self.end_intervals();
        self.check_rest();
        // It still flows.
        for at in 0..self.providers.len() {
            let Self { providers, truth, random, .. } = self;
            for _ in 0..5 {
                if providers[at].ready {
                    providers[at].update(truth, random);
                }
            }
        }
        self.drain();
        self.end_intervals();
        self.check_rest();
    }

    fn check_rest(&self) {
        for (at, consumer) in self.consumers.iter().enumerate() {
            let Some(consumer) = consumer else { continue };
            assert!(consumer.logged_in, "consumer {at} never got its login refresh");
            assert!(consumer.posts.is_empty(), "consumer {at}: posts without answer: {:?}", consumer.posts);
            if consumer.sees_state() {
                for (id, listed) in &consumer.listed {
                    assert!(listed.up && listed.accepting, "consumer {at}: service {id} is not up: {listed:?}");
                }
            }
            for (stream, watch) in &consumer.watches {
                if watch.ended.is_some() {
                    continue;
                }
                let item = watch.item;
                let whom = || format!("consumer {at}, stream {stream}, {item}, {:?}", watch.kind);
                assert!(watch.is_good(), "{}: not current at rest: {watch:?}", whom());
                let life = self.life_of(item, watch.kind, watch.life);
                assert!(life, "{}: served by life {}, which is over: {watch:?}", whom(), watch.life);
                let versions = self.truth.known(watch.life, item).expect("a life");
                let rows = seen(&versions.last().expect("a version").rows, watch.view.as_ref());
                assert_eq!(watch.rows, rows, "{}: stale content marked Ok", whom());
            }
        }
    }

    /// Whether a provider in this life has the item open, or publishes it.
    fn life_of(&self, item: Item, kind: Kind, life: u16) -> bool {
        if item.service == PUBLISHED {
            return self.publishers.iter().any(|publisher| publisher.life == life && publisher.has(item));
        }
        let private = kind == Kind::Private;
        let serves = |provider: &Provider| {
            provider.life == life && provider.streams.values().any(|s| s.item == item && s.private == private)
        };
        self.providers.iter().any(serves)
    }

    /// Everyone leaves: nothing may be left behind.
    fn leave(&mut self) {
        self.note(|| "everyone leaves".to_owned());
        for at in 0..self.consumers.len() {
            self.disconnect(at);
        }
        for _ in 0..10 {
            self.drain();
            self.pass(SECOND);
        }
        self.drain();
        for number in 0..self.hub.shards.len() {
            let counters = self.hub.shards[number].machine.counters();
            if counters.updates_conflated > 0 {
                self.note(|| format!("P2PS {number} has merged {} updates into others", counters.updates_conflated));
            }
            let left = (counters.clients, counters.mounts, counters.items, counters.watchers, counters.items_waiting);
            assert_eq!(left, (0, 0, 0, 0, 0), "P2PS {number}: clients, mounts, items, watchers, items waiting");
            let closed = (counters.hub_messages_bad, counters.clients_closed - counters.clients_cut_off);
            assert_eq!(closed, (0, 0), "messages bad, clients closed for what they sent");
            assert!(counters.clients_cut_off == 0 || self.hub.slow, "clients cut off");
            assert!(counters.hub_gaps == 0 || self.hub.lossy, "gaps");
        }
        for (number, distributor) in self.hub.distributors.iter().enumerate() {
            let published: usize =
                self.publishers.iter().filter(|p| p.distributor == number).map(Publisher::count).sum();
            assert_eq!(distributor.machine.items(), published, "items left in distributor {number}");
        }
        for (at, provider) in self.providers.iter().enumerate() {
            assert!(provider.streams.is_empty(), "provider {at}: left open: {:?}", provider.streams);
        }
    }
}

/// One line for the log.
fn text(bytes: &[u8]) -> String {
    let Ok(msg) = Msg::decode(bytes) else { return format!("{} bytes", bytes.len()) };
    let mut parts = vec![format!("{} {} on {}", msg.class(), msg.domain(), msg.stream_id())];
    if let Some(key) = msg.key() {
        parts.push(format!("{}@{:?}", key.name_lossy(), key.service_id));
    }
    if let Some(seq) = msg.seq_num() {
        parts.push(format!("life {} version {}", seq >> 16, seq & 0xFFFF));
    }
    if let Some(state) = msg.state() {
        parts.push(state.to_string());
    }
    match &msg {
        Msg::Request(m) => parts.push(format!("{:?} {} bytes", m.flags, m.body.len())),
        Msg::Refresh(m) => parts.push(format!("{:?} part {:?} group {:?}", m.flags, m.part_num, m.group_id)),
        Msg::Ack(m) => parts.push(format!("id {} {:?}", m.ack_id, m.nak_code)),
        Msg::Post(m) => parts.push(format!("id {:?} {:?}", m.post_id, m.flags)),
        Msg::Update(m) if rwf::msg::Domain::SOURCE == m.domain => {
            parts.push(rwf::text::message(bytes, None).to_string());
        }
        _ => {}
    }
    parts.join(" ")
}
