//! Contexts and resolution services in worlds by seed: connections break, services and contexts die and come back. In the end each context
//! knows the sources that it wants, and no others. `QUOTEWAY_SEED=n` runs one world, `QUOTEWAY_SEEDS=n` so many.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv4Addr;

use lbm::resolver::service::{Action, Client, ClientConfig, Closing, Service, ServiceConfig, Standing};
use lbm::wire::lbmr::{Advert, Transport};
use lbm::wire::lbmr_option::TopicOptions;
use lbm_trials::seeds::{Random, each_seed};

const SECOND: u64 = 1_000_000_000;
const SERVICES: usize = 2;

struct Node {
    number: u32,
    client: Client,
    sources: BTreeMap<u32, (String, u32)>,
    topics: Vec<String>,
    patterns: Vec<String>,
    /// Sources that the client has offered and not ended since.
    known: BTreeMap<Vec<u8>, BTreeSet<u32>>,
    conns: [Option<u64>; SERVICES],
}

fn is_match(pattern: &str, topic: &str) -> bool {
    // The patterns of these worlds are beginnings.
    topic.starts_with(pattern.trim_start_matches('^').trim_end_matches(".*"))
}

/// Some contexts are those of routers, which are told what all others look for.
fn is_router(number: u32) -> bool {
    number % 3 == 1
}

impl Node {
    fn new(number: u32, now: u64) -> Self {
        let config = ClientConfig {
            links: SERVICES,
            instance: u64::from(number).to_be_bytes(),
            session: number,
            address: Ipv4Addr::from(0x0A00_0000 + number),
            seed: number.into(),
            router: is_router(number),
            ..ClientConfig::default()
        };
        let client = Client::new(config, now);
        let (sources, topics, patterns) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { number, client, sources, topics, patterns, known: BTreeMap::new(), conns: [None; SERVICES] }
    }

    fn transport(&self) -> Transport {
        let address = Ipv4Addr::from(0x0A00_0000 + self.number);
        Transport::Tcp { address, session_id: Some(self.number), port: 14_371 }
    }

    fn add_source(&mut self, topic: &str, index: u32) {
        let (options, transport) = (TopicOptions::default(), self.transport());
        let advert = Advert { name: topic.as_bytes(), ttl: 60, topic: index, options, transport };
        let handle = self.client.add_source(&advert);
        self.sources.insert(handle, (topic.to_owned(), index));
    }

    fn wants(&self, topic: &str) -> bool {
        self.topics.iter().any(|t| t == topic) || self.patterns.iter().any(|p| is_match(p, topic))
    }

    /// As a resolver does, which forgets what a receiver had found when it goes.
    fn forget_unwanted(&mut self) {
        let known = std::mem::take(&mut self.known);
        self.known =
            known.into_iter().filter(|(topic, _)| self.wants(std::str::from_utf8(topic).expect("text"))).collect();
    }

    fn turn(&mut self, now: u64) {
        let known = &mut self.known;
        self.client.offer_due(now, |advert| {
            known.entry(advert.name.to_vec()).or_default().insert(advert.topic);
            true
        });
        for ended in self.client.take_ended() {
            if let Some(places) = self.known.get_mut(&*ended.topic) {
                places.remove(&ended.index);
            }
        }
        self.known.retain(|_, places| !places.is_empty());
    }
}

/// A connection: which context and which of its links, and what is under way.
struct Conn {
    node: usize,
    link: usize,
    to_service: Vec<u8>,
    to_client: Vec<u8>,
}

struct World {
    now: u64,
    random: Random,
    services: Vec<Service>,
    nodes: Vec<Node>,
    conns: HashMap<u64, Conn>,
    next_conn: u64,
    next_index: u32,
    next_node: u32,
    frozen: [bool; SERVICES],
}

impl World {
    fn new(seed: u64, nodes: usize) -> Self {
        let config = ServiceConfig { state_lifetime_ns: 20 * SECOND, ..ServiceConfig::default() };
        let now = SECOND;
        let mut world = Self {
            now,
            random: Random::new(seed),
            services: (0..SERVICES).map(|_| Service::new(config.clone(), now)).collect(),
            nodes: Vec::new(),
            conns: HashMap::new(),
            next_conn: 0,
            next_index: 0,
            next_node: 0,
            frozen: [false; SERVICES],
        };
        (0..nodes).for_each(|_| world.add_node());
        world
    }

    fn add_node(&mut self) {
        self.next_node += 1;
        self.nodes.push(Node::new(self.next_node, self.now));
    }

    /// Both ends hear of it, or only one, as when a host is gone without a word.
    fn cut(&mut self, number: u64, service_hears: bool) {
        let Some(conn) = self.conns.remove(&number) else { return };
        let node = &mut self.nodes[conn.node];
        if node.conns[conn.link] == Some(number) {
            node.conns[conn.link] = None;
            node.client.closed(self.now, conn.link);
        }
        if service_hears {
            self.services[conn.link].closed(self.now, number);
        }
    }

    fn dial(&mut self, node: usize, link: usize) {
        if self.random.one_in(10) {
            return self.nodes[node].client.closed(self.now, link);
        }
        self.next_conn += 1;
        let number = self.next_conn;
        self.conns.insert(number, Conn { node, link, to_service: Vec::new(), to_client: Vec::new() });
        self.nodes[node].conns[link] = Some(number);
        self.services[link].accepted(self.now, number);
        self.nodes[node].client.connected(self.now, link);
    }

    /// A piece of what is under way, of any size.
    fn piece(random: &mut Random, bytes: &mut Vec<u8>) -> Vec<u8> {
        let most = if random.one_in(4) { 7 } else { 100_000 };
        let length = (random.below(most) as usize + 1).min(bytes.len());
        bytes.drain(..length).collect()
    }

    fn turn(&mut self) {
        for at in 0..self.nodes.len() {
            self.nodes[at].client.on_timer(self.now);
            let actions: Vec<Action> = self.nodes[at].client.actions(self.now).collect();
            for action in actions {
                match action {
                    Action::Dial(link) => self.dial(at, link),
                    Action::Close(link) => {
                        if let Some(number) = self.nodes[at].conns[link].take() {
                            self.conns.remove(&number);
                            self.services[link].closed(self.now, number);
                        }
                    }
                }
            }
            for link in 0..SERVICES {
                let bytes = self.nodes[at].client.output(link);
                if let Some(conn) = self.nodes[at].conns[link].and_then(|number| self.conns.get_mut(&number)) {
                    conn.to_service.extend_from_slice(&bytes);
                }
            }
        }
        let mut numbers: Vec<u64> = self.conns.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let Some(conn) = self.conns.get_mut(&number).filter(|conn| !self.frozen[conn.link]) else { continue };
            let (node, link) = (conn.node, conn.link);
            let to_service = Self::piece(&mut self.random, &mut conn.to_service);
            let to_client = Self::piece(&mut self.random, &mut conn.to_client);
            self.services[link].receive(self.now, number, &to_service).expect("a context's bytes");
            self.nodes[node].client.receive(self.now, link, &to_client).expect("a service's bytes");
        }
        for link in 0..SERVICES {
            if self.frozen[link] {
                continue;
            }
            self.services[link].on_timer(self.now);
            for number in self.services[link].ready() {
                let room = if self.random.one_in(5) { 0 } else { self.random.below(3_000) as usize };
                let bytes = self.services[link].take(number, room);
                if let Some(conn) = self.conns.get_mut(&number) {
                    conn.to_client.extend_from_slice(&bytes);
                }
                if room == 0 {
                    self.services[link].drained(number);
                }
            }
            for (number, why) in self.services[link].closing() {
                assert!(matches!(why, Closing::Replaced | Closing::Silent), "{why:?}");
                self.cut(number, true);
                self.services[link].closed(self.now, number);
            }
        }
        let now = self.now;
        self.nodes.iter_mut().for_each(|node| node.turn(now));
    }

    fn topic(&mut self) -> String {
        format!("t{}.{}", self.random.below(3), self.random.below(4))
    }

    fn storm(&mut self) {
        let at = self.random.below(self.nodes.len() as u64) as usize;
        let now = self.now;
        match self.random.below(14) {
            0..=2 => {
                let topic = self.topic();
                self.next_index += 1;
                self.nodes[at].add_source(&topic, self.next_index);
            }
            3 => {
                let node = &mut self.nodes[at];
                if let Some((handle, _)) = node.sources.pop_first() {
                    node.client.remove_source(handle);
                }
            }
            4..=5 => {
                let topic = self.topic();
                self.nodes[at].client.add_receiver(now, topic.as_bytes());
                self.nodes[at].topics.push(topic);
            }
            6 => {
                if let Some(topic) = self.nodes[at].topics.pop() {
                    self.nodes[at].client.remove_receiver(topic.as_bytes());
                    self.nodes[at].forget_unwanted();
                }
            }
            7 => {
                let pattern = format!("^t{}.*", self.random.below(3));
                self.nodes[at].client.add_pattern(now, &pattern);
                self.nodes[at].patterns.push(pattern);
            }
            8 => {
                if let Some(pattern) = self.nodes[at].patterns.pop() {
                    self.nodes[at].client.remove_pattern(&pattern);
                    self.nodes[at].forget_unwanted();
                }
            }
            9..=10 => {
                let mut numbers: Vec<u64> = self.conns.keys().copied().collect();
                numbers.sort_unstable();
                if !numbers.is_empty() {
                    let number = numbers[self.random.below(numbers.len() as u64) as usize];
                    let hears = !self.random.one_in(3);
                    self.cut(number, hears);
                }
            }
            11 => {
                // A service dies and is started again: it knows nothing.
                let link = self.random.below(SERVICES as u64) as usize;
                let config = ServiceConfig { state_lifetime_ns: 20 * SECOND, ..ServiceConfig::default() };
                self.services[link] = Service::new(config, now);
                let of: Vec<u64> = self.conns.iter().filter(|(_, c)| c.link == link).map(|(n, _)| *n).collect();
                for number in of {
                    self.cut(number, false);
                }
            }
            12 => {
                let link = self.random.below(SERVICES as u64) as usize;
                self.frozen[link] = !self.frozen[link];
            }
            _ => {
                // A context dies; another program begins.
                for number in self.nodes[at].conns.into_iter().flatten() {
                    self.cut(number, true);
                }
                self.next_node += 1;
                self.nodes[at] = Node::new(self.next_node, now);
            }
        }
    }

    fn check(&mut self, seed: u64) {
        self.check_routers(seed);
        for node in &self.nodes {
            let mut expected: BTreeMap<Vec<u8>, BTreeSet<u32>> = BTreeMap::new();
            for (topic, index) in self.nodes.iter().flat_map(|other| other.sources.values()) {
                if node.wants(topic) {
                    expected.entry(topic.clone().into_bytes()).or_default().insert(*index);
                }
            }
            assert_eq!(node.known, expected, "context {} of seed {seed}: {:?}", node.number, node.client);
        }
    }
}

impl World {
    /// A router knows what others look for that are none, and nothing else.
    fn check_routers(&mut self, seed: u64) {
        let of = |pattern: bool, names: &[String]| -> Vec<(bool, Vec<u8>)> {
            names.iter().map(|name| (pattern, name.clone().into_bytes())).collect()
        };
        let by_node = |node: &Node| [of(false, &node.topics), of(true, &node.patterns)].concat();
        let expected: BTreeSet<_> =
            self.nodes.iter().filter(|node| !is_router(node.number)).flat_map(by_node).collect();
        let all: BTreeSet<_> = self.nodes.iter().flat_map(by_node).collect();
        for router in self.nodes.iter_mut().filter(|node| is_router(node.number)) {
            router.client.take_heard();
            for (pattern, name) in &all {
                router.client.ask_about(*pattern, name);
            }
            let heard = router.client.take_heard().into_iter().map(|heard| (heard.pattern, heard.name.to_vec()));
            assert_eq!(heard.collect::<BTreeSet<_>>(), expected, "router {} of seed {seed}", router.number);
        }
    }
}

fn run(seed: u64) {
    let nodes = 3 + (seed % 4) as usize;
    let mut world = World::new(seed, nodes);
    for _ in 0..400 {
        if !world.random.one_in(3) {
            world.storm();
        }
        world.now += world.random.below(300_000_000);
        world.turn();
    }
    world.frozen = [false; SERVICES];
    // Longer than silence and state last, and what is told after that.
    for _ in 0..1_200 {
        world.now += SECOND / 10;
        world.turn();
    }
    let standings: Vec<_> = world.nodes.iter().flat_map(|node| node.client.standings()).collect();
    assert!(standings.iter().all(|standing| *standing == Standing::Registered), "seed {seed}: {standings:?}");
    world.check(seed);
}

#[test]
fn each_context_knows_what_it_wants_whatever_breaks() {
    each_seed(150, run);
}

/// A source that the service tells between a wish that is given up and the next one for the same topic is told to its end by nobody.
#[test]
fn a_source_told_before_a_topic_is_wanted_again_is_not_kept() {
    let advert = |topic| {
        let transport = Transport::Tcp { address: Ipv4Addr::LOCALHOST, session_id: Some(1), port: 1 };
        Advert { name: b"a", ttl: 60, topic, options: TopicOptions::default(), transport }
    };
    for by_pattern in [false, true] {
        let mut service = Service::new(ServiceConfig::default(), 0);
        let mut clients = [1, 2].map(|session| Client::new(ClientConfig { session, ..ClientConfig::default() }, 0));
        for (client, conn) in clients.iter_mut().zip([1, 2]) {
            service.accepted(0, conn);
            client.connected(0, 0);
        }
        let say = |service: &mut Service, client: &mut Client, conn| {
            service.receive(0, conn, &client.output(0)).expect("a context's bytes");
        };
        let hear = |service: &mut Service, client: &mut Client, conn| {
            client.receive(0, 0, &service.take(conn, 1 << 20)).expect("a service's bytes");
        };
        let known = |client: &mut Client| {
            let mut known = BTreeSet::new();
            client.offer_due(0, |advert| known.insert(advert.topic));
            client.take_ended().for_each(|ended| assert!(known.remove(&ended.index), "ended: {ended:?}"));
            known
        };
        let wish = |client: &mut Client, on: bool| match (by_pattern, on) {
            (false, true) => client.add_receiver(0, b"a"),
            (false, false) => client.remove_receiver(b"a"),
            (true, true) => client.add_pattern(0, "^a"),
            (true, false) => client.remove_pattern("^a"),
        };
        let [publisher, watcher] = &mut clients;
        wish(watcher, true);
        for _ in 0..2 {
            say(&mut service, publisher, 1);
            say(&mut service, watcher, 2);
            hear(&mut service, publisher, 1);
            hear(&mut service, watcher, 2);
        }
        // The service tells of a source, and before that arrives the topic is given up; the end is told to nobody.
        let source = publisher.add_source(&advert(1));
        say(&mut service, publisher, 1);
        let under_way = service.take(2, 1 << 20);
        wish(watcher, false);
        say(&mut service, watcher, 2);
        publisher.remove_source(source);
        let second = publisher.add_source(&advert(2));
        say(&mut service, publisher, 1);
        wish(watcher, true);
        watcher.receive(0, 0, &under_way).expect("a service's bytes");
        say(&mut service, watcher, 2);
        hear(&mut service, watcher, 2);
        assert_eq!(known(watcher), BTreeSet::from([2]), "by pattern: {by_pattern}");
        // From then on all is told as before.
        publisher.add_source(&advert(3));
        publisher.remove_source(second);
        say(&mut service, publisher, 1);
        hear(&mut service, watcher, 2);
        assert_eq!(watcher.take_ended().map(|ended| ended.index).collect::<Vec<_>>(), [2]);
        assert_eq!(known(watcher), BTreeSet::from([3]), "by pattern: {by_pattern}");
    }
}

/// A service of two is away for good: nothing is missed, and ends are told.
#[test]
fn one_of_two_services_is_enough() {
    let mut world = World::new(7, 2);
    world.nodes[1].client.add_receiver(world.now, b"a");
    world.nodes[1].topics.push("a".to_owned());
    world.nodes[0].add_source("a", 1);
    let turns = |world: &mut World| {
        for _ in 0..300 {
            world.now += SECOND / 10;
            world.turn();
        }
    };
    turns(&mut world);
    world.check(7);
    // The first service stands still for ever.
    world.frozen[0] = true;
    let known = world.nodes[1].known.clone();
    turns(&mut world);
    assert_eq!(world.nodes[1].known, known, "what the first service has told stays known");
    let standings: Vec<_> = world.nodes[1].client.standings().collect();
    assert_eq!(standings[1], Standing::Registered);
    assert_ne!(standings[0], Standing::Registered);
    world.nodes[0].add_source("a", 2);
    let (handle, _) = world.nodes[0].sources.pop_first().expect("a source");
    world.nodes[0].client.remove_source(handle);
    turns(&mut world);
    world.check(7);
}

#[test]
fn ten_thousand_sources_are_told() {
    let mut world = World::new(3, 3);
    for index in 0..10_000u32 {
        let topic = format!("md.{index}");
        world.nodes[0].add_source(&topic, index);
        world.nodes[1].client.add_receiver(world.now, topic.as_bytes());
        world.nodes[1].topics.push(topic);
    }
    world.nodes[2].client.add_pattern(world.now, "^md.*");
    world.nodes[2].patterns.push("^md.*".to_owned());
    for _ in 0..20_000 {
        world.now += SECOND / 1_000;
        world.turn();
        if world.nodes[1..].iter().all(|node| node.known.len() == 10_000) {
            break;
        }
    }
    world.nodes[1].topics.sort();
    let of = |node: &Node| (node.client.stats().told, node.client.stats().known);
    for node in &world.nodes[1..] {
        assert_eq!(node.known.len(), 10_000);
        assert_eq!(of(node).1, 10_000);
        // A source that comes while a service goes through what it knows may be told by both ways, and there are two services.
        assert!((20_000..=40_000).contains(&of(node).0), "{:?}", node.client);
    }
    assert_eq!(world.services[0].stats().sources, 10_000);
}

/// Nobody tells it again: the context itself remembers what a session that broke off had.
#[test]
fn a_session_that_breaks_off_and_a_later_receiver_are_offered_what_is_known() {
    let mut world = World::new(5, 2);
    world.nodes[1].client.add_receiver(world.now, b"a");
    world.nodes[1].topics.push("a".to_owned());
    world.nodes[0].add_source("a", 1);
    let turns = |world: &mut World, tenths: usize| {
        for _ in 0..tenths {
            world.now += SECOND / 10;
            world.turn();
        }
    };
    turns(&mut world, 50);
    world.check(5);
    for later_receiver in [false, true] {
        world.nodes[1].known.clear();
        if later_receiver {
            world.nodes[1].client.add_receiver(world.now, b"a");
        } else {
            let transport = world.nodes[0].transport();
            world.nodes[1].client.forget(world.now, &transport);
        }
        turns(&mut world, 20);
        world.check(5);
    }
    // A receiver that cannot take it is offered it again, more and more seldom.
    let transport = world.nodes[0].transport();
    world.nodes[1].client.forget(world.now, &transport);
    let (mut offers, client) = (Vec::new(), &mut world.nodes[1].client);
    for tenth in 0..1_200 {
        client.offer_due(world.now + tenth * SECOND / 10, |_| {
            offers.push(tenth / 10);
            false
        });
    }
    assert_eq!(offers, [1, 2, 4, 8, 16, 32, 62, 92]);
}

/// Bytes of a context that registers and says `records`.
fn says(records: &[lbm::wire::srs::Record<'_>], lifetime_ms: u32) -> Vec<u8> {
    use lbm::wire::rsocket::{Frame, UNBOUNDED};
    use lbm::wire::srs::{Message, RegistrationRequest};
    let mut bytes = Vec::new();
    Frame::Setup { keepalive_ms: 500, lifetime_ms }.encode(&mut bytes);
    let mut data = Vec::new();
    let address = Ipv4Addr::LOCALHOST;
    let request = RegistrationRequest {
        kind: 0,
        address,
        port: 0,
        session: 1,
        host: 1,
        protocol: 1,
        interest_mode: 1,
        domain: 0,
    };
    Message::Register(request).encode(&mut data);
    Frame::RequestResponse { stream: 1, data: &data }.encode(&mut bytes);
    let mut batch = Vec::new();
    for record in records {
        record.encode(&mut batch);
    }
    if !batch.is_empty() {
        Frame::FireAndForget { stream: 3, data: &batch }.encode(&mut bytes);
    }
    data.clear();
    Message::Stream.encode(&mut data);
    Frame::RequestStream { stream: 5, credit: UNBOUNDED, data: &data }.encode(&mut bytes);
    bytes
}

#[test]
fn who_is_slow_silent_or_greedy_is_bounded() {
    use lbm::wire::srs::{Interest, InterestKind, Record};
    let wanted = |name, pattern| {
        Record::Interest(Interest { kind: InterestKind::Wanted, pattern, name, domain: 0, instance: [1; 8] })
    };
    let config = ServiceConfig {
        queue_max: 100_000,
        topics_per_context: 2,
        patterns_per_context: 1,
        sources_per_context: 1_000,
        ..ServiceConfig::default()
    };
    let mut service = Service::new(config, 0);
    service.accepted(0, 1);
    let greedy = [
        wanted(b"a", false),
        wanted(b"b", false),
        wanted(b"c", false),
        wanted(b"^z", true),
        wanted(b"^y", true),
        wanted(b"(", true),
    ];
    service.receive(0, 1, &says(&greedy, 2_000)).expect("read");
    assert_eq!((service.stats().wanted, service.stats().refused), (3, 3));
    // It never reads, while somebody has many sources of what it wants.
    let mut other = Client::new(ClientConfig { session: 2, ..ClientConfig::default() }, 0);
    service.accepted(0, 2);
    other.connected(0, 0);
    service.receive(0, 2, &other.output(0)).expect("read");
    for number in service.ready() {
        let bytes = service.take(number, 1 << 20);
        if number == 2 {
            other.receive(0, 0, &bytes).expect("read");
        }
    }
    let transport = Transport::Tcp { address: Ipv4Addr::LOCALHOST, session_id: Some(1), port: 1 };
    for topic in 0..1_100 {
        let advert = Advert { name: b"a", ttl: 60, topic, options: TopicOptions::default(), transport };
        other.add_source(&advert);
    }
    service.receive(0, 2, &other.output(0)).expect("read");
    assert_eq!(service.stats().sources, 1_000);
    assert_eq!(service.closing(), [(1, Closing::TooSlow)]);
    service.closed(0, 1);
    // Beyond its own lifetime of two seconds, and the first context's sources beyond theirs.
    service.accepted(0, 3);
    service.receive(0, 3, &says(&[], 2_000)).expect("read");
    service.on_timer(3 * SECOND);
    assert_eq!(service.closing(), [(3, Closing::Silent)]);
    service.closed(3 * SECOND, 3);
    service.closed(3 * SECOND, 2);
    assert_eq!((service.stats().contexts, service.stats().away, service.stats().sources), (0, 1, 1_000));
    service.on_timer(100 * SECOND);
    assert_eq!((service.stats().away, service.stats().sources), (0, 0));
}

/// Interest of contexts is told to routers alone.
#[test]
fn an_application_that_wants_to_know_of_others_receivers_is_refused() {
    use lbm::wire::rsocket::Frame;
    use lbm::wire::srs::{Message, PROTOCOL, ROUTER, RegistrationRequest, interest_mode};
    for (kind, refused) in [(0, vec![(1, Closing::Refused)]), (ROUTER, Vec::new())] {
        let mut service = Service::new(ServiceConfig::default(), 0);
        service.accepted(0, 1);
        let request = RegistrationRequest {
            kind,
            address: Ipv4Addr::LOCALHOST,
            port: 1,
            session: 1,
            host: 1,
            protocol: PROTOCOL,
            interest_mode: interest_mode::FILTER | interest_mode::FORWARD,
            domain: 0,
        };
        let (mut message, mut frame) = (Vec::new(), Vec::new());
        Message::Register(request).encode(&mut message);
        Frame::RequestResponse { stream: 1, data: &message }.encode(&mut frame);
        service.receive(0, 1, &frame).expect("read");
        assert_eq!(service.closing(), refused);
    }
}

/// A connection that registers again and again, each time under another name, leaves nothing of the names before.
#[test]
fn a_connection_is_of_one_context_at_a_time() {
    use lbm::wire::rsocket::Frame;
    use lbm::wire::srs::{Message, PROTOCOL, RegistrationRequest, interest_mode};
    let mut service = Service::new(ServiceConfig::default(), 0);
    service.accepted(0, 1);
    for session in 0..1_000 {
        let request = RegistrationRequest {
            kind: 0,
            address: Ipv4Addr::LOCALHOST,
            port: 1,
            session,
            host: 1,
            protocol: PROTOCOL,
            interest_mode: interest_mode::FILTER,
            domain: 0,
        };
        let (mut message, mut frame) = (Vec::new(), Vec::new());
        Message::Register(request).encode(&mut message);
        Frame::RequestResponse { stream: 1, data: &message }.encode(&mut frame);
        service.receive(0, 1, &frame).expect("read");
        service.take(1, 1 << 20);
        assert_eq!((service.stats().contexts, service.stats().away), (1, 0), "registration {session}");
    }
    service.closed(0, 1);
    assert_eq!((service.stats().contexts, service.stats().away), (0, 0));
}

#[test]
fn hostile_bytes_are_an_error_and_no_panic() {
    let good = says(&[], 1_000);
    let mut random = Random::new(99);
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(256) as u8;
        }
        bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
        let mut service = Service::new(ServiceConfig::default(), 0);
        service.accepted(0, 1);
        let _ = service.receive(0, 1, &bytes);
        service.take(1, 1 << 20);
        let mut client = Client::new(ClientConfig::default(), 0);
        client.connected(0, 0);
        let _ = client.receive(0, 0, &bytes);
    }
}
