//! Routers, domains and connections without an operating system. A run is a pure function of its seed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lbm::wire::lbmc;
use lbm::wire::lbmr::Transport;
use lbm_router::interest::Interest;
use lbm_router::wire::Gone;
use lbm_router::{
    Action, EndpointConfig, Filter, Forward, Limits, Origin, PeerConfig, PortalId, ProxyAdvert, Router, RouterId,
    SourceFound, StreamId,
};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000 * MS;
/// How long a piece is on its way over a connection.
const LATENCY: u64 = 2 * MS;
/// Between two tries to connect.
const RECONNECT: u64 = 500 * MS;
/// Between two advertisements of a proxy source.
const ADVERTISE: u64 = SECOND;

/// Which routers there are, in which domains, and how they are joined.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Of each router: its domains, and whether it is the standby there.
    pub(crate) routers: Vec<Vec<(u32, bool)>>,
    pub(crate) links: Vec<(usize, usize, u32)>,
    pub(crate) paths: usize,
    /// Topics that all routers of a domain serve.
    pub(crate) parallel: bool,
    pub(crate) queue_bytes_max: usize,
}

impl Plan {
    pub(crate) fn new(routers: &[&[u32]], links: &[(usize, usize)]) -> Self {
        let of = |domains: &&[u32]| domains.iter().map(|domain| (*domain, false)).collect();
        Self {
            routers: routers.iter().map(of).collect(),
            links: links.iter().map(|(a, b)| (*a, *b, 1)).collect(),
            paths: 1,
            parallel: false,
            queue_bytes_max: 64 << 20,
        }
    }

    pub(crate) fn domains(&self) -> BTreeSet<u32> {
        self.routers.iter().flatten().map(|(domain, _)| *domain).collect()
    }

    /// Routers that serve a domain.
    fn count(&self, domain: u32) -> usize {
        self.routers.iter().flatten().filter(|(other, _)| *other == domain).count()
    }
}

/// A source of a domain.
pub(crate) struct Source {
    pub(crate) domain: u32,
    pub(crate) topic: String,
    pub(crate) origin: Origin,
    pub(crate) next: u32,
    pub(crate) alive: bool,
}

/// Messages for a proxy source, or that numbers are over.
enum Onward {
    Message(PortalId, StreamId, u32, Vec<u8>),
    Skip(PortalId, StreamId, u32),
}

#[derive(Default)]
struct Collect(Vec<Onward>);

impl Forward for Collect {
    fn message(&mut self, portal: PortalId, stream: StreamId, sqn: u32, message: &[u8]) {
        self.0.push(Onward::Message(portal, stream, sqn, message.to_vec()));
    }
    fn skip_to(&mut self, portal: PortalId, stream: StreamId, sqn: u32) {
        self.0.push(Onward::Skip(portal, stream, sqn));
    }
}

/// A proxy source in a domain.
struct Proxy {
    advert: ProxyAdvert,
    next: Option<u32>,
    advertise_at: u64,
}

struct Node {
    router: Option<Router>,
    domains: Vec<(u32, bool)>,
    /// Standing still until then.
    frozen_until: u64,
    /// Cut off from its domains until then.
    cut_until: u64,
    listening: BTreeSet<(u32, Interest)>,
    /// Sources that are received: by portal and number (the source's place in the world), the number that comes next.
    streams: BTreeMap<(u32, u32), Option<u32>>,
    proxies: BTreeMap<(u32, u32), Proxy>,
}

struct Link {
    ends: [(usize, PortalId); 2],
    up: bool,
    connect_at: u64,
    cut_until: u64,
    /// To each end, with the time of arrival.
    pipes: [VecDeque<(u64, Vec<u8>)>; 2],
    /// By direction and label: the number that was last on the wire.
    last: [BTreeMap<u32, u32>; 2],
}

/// See the module.
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) plan: Plan,
    nodes: Vec<Node>,
    links: Vec<Link>,
    pub(crate) sources: Vec<Source>,
    /// Interest in a domain.
    pub(crate) wants: BTreeMap<u32, BTreeSet<Interest>>,
    /// Numbers of a source that were delivered in a domain, and how often.
    pub(crate) delivered: BTreeMap<(u32, Origin), BTreeMap<u32, u32>>,
    /// Words on the stores of a source that were told in a domain, in order.
    pub(crate) told_stores: BTreeMap<(u32, Origin), Vec<Vec<u8>>>,
    /// Numbers that a proxy source left out.
    pub(crate) gaps: u64,
    /// Times that two routers served a domain with the same source.
    pub(crate) conflicts: u64,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let mut world = Self {
            now: SECOND,
            nodes: Vec::new(),
            links: Vec::new(),
            sources: Vec::new(),
            wants: BTreeMap::new(),
            delivered: BTreeMap::new(),
            told_stores: BTreeMap::new(),
            gaps: 0,
            conflicts: 0,
            plan,
        };
        for domains in world.plan.routers.clone() {
            world.nodes.push(Node {
                router: None,
                domains,
                frozen_until: 0,
                cut_until: 0,
                listening: BTreeSet::new(),
                streams: BTreeMap::new(),
                proxies: BTreeMap::new(),
            });
        }
        let mut next: Vec<u32> = world.nodes.iter().map(|node| node.domains.len() as u32).collect();
        for (a, b, _) in world.plan.links.clone() {
            let mut end = |node: usize| {
                next[node] += 1;
                (node, PortalId(next[node] - 1))
            };
            let ends = [end(a), end(b)];
            world.links.push(Link {
                ends,
                up: false,
                connect_at: 0,
                cut_until: 0,
                pipes: Default::default(),
                last: Default::default(),
            });
        }
        for node in 0..world.nodes.len() {
            world.start(node);
        }
        world
    }

    /// Starts a router, or starts it again.
    pub(crate) fn start(&mut self, node: usize) {
        self.kill(node);
        let limits = Limits { paths: self.plan.paths, queue_bytes_max: self.plan.queue_bytes_max, ..Limits::default() };
        let mut router = Router::new(RouterId(node as u64 + 1), limits);
        for (domain, standby) in &self.nodes[node].domains {
            let mut config = EndpointConfig { standby: *standby, ..EndpointConfig::new(*domain) };
            if self.plan.parallel {
                config.parallel = Filter::default();
            }
            router.add_endpoint(config).expect("each domain once");
        }
        for (link, (_, _, cost)) in self.links.iter().zip(&self.plan.links) {
            for (_, portal) in link.ends.iter().filter(|(end, _)| *end == node) {
                assert_eq!(router.add_peer(PeerConfig { cost: *cost, ..PeerConfig::default() }), *portal);
            }
        }
        self.nodes[node].router = Some(router);
    }

    /// Ends a router: its connections break, its proxy sources are gone.
    pub(crate) fn kill(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        state.router = None;
        state.listening.clear();
        state.streams.clear();
        state.proxies.clear();
        for link in 0..self.links.len() {
            if self.links[link].ends.iter().any(|(end, _)| *end == node) {
                self.break_link(link);
            }
        }
    }

    /// Stands still: neither hears nor says anything.
    pub(crate) fn freeze(&mut self, node: usize, until: u64) {
        self.nodes[node].frozen_until = until;
    }

    /// A router is cut off from its domains.
    pub(crate) fn cut_domains(&mut self, node: usize, until: u64) {
        self.nodes[node].cut_until = until;
    }

    /// Nothing passes a connection.
    pub(crate) fn cut_link(&mut self, link: usize, until: u64) {
        self.links[link].cut_until = until;
    }

    pub(crate) fn break_link(&mut self, link: usize) {
        let state = &mut self.links[link];
        state.connect_at = self.now + RECONNECT;
        state.pipes = Default::default();
        state.last = Default::default();
        if std::mem::replace(&mut state.up, false) {
            for (node, portal) in self.links[link].ends {
                self.with(node, |router, now, out| router.link_down(now, portal, out));
            }
        }
    }

    pub(crate) fn want(&mut self, domain: u32, topic: &str) {
        self.wants.entry(domain).or_default().insert(Interest::new(None, topic));
        self.ask(domain);
    }

    pub(crate) fn want_pattern(&mut self, domain: u32, pattern: &str) {
        let kind = Some(lbm::wire::lbmr::PatternKind::Pcre);
        self.wants.entry(domain).or_default().insert(Interest::new(kind, pattern));
        self.ask(domain);
    }

    /// Receivers of a domain ask for what they want.
    fn ask(&mut self, domain: u32) {
        for node in 0..self.nodes.len() {
            self.ask_node(node, domain);
        }
    }

    fn ask_node(&mut self, node: usize, domain: u32) {
        let Some(portal) = self.portal(node, domain).filter(|_| self.hears(node)) else { return };
        for interest in self.wants.get(&domain).cloned().unwrap_or_default() {
            self.with(node, |router, now, out| router.heard(now, portal, &interest, out));
        }
    }

    fn portal(&self, node: usize, domain: u32) -> Option<PortalId> {
        let at = self.nodes[node].domains.iter().position(|(other, _)| *other == domain)?;
        Some(PortalId(at as u32))
    }

    /// Whether a router hears its domains.
    fn hears(&self, node: usize) -> bool {
        let state = &self.nodes[node];
        state.router.is_some() && state.frozen_until <= self.now && state.cut_until <= self.now
    }

    pub(crate) fn add_source(&mut self, domain: u32, topic: &str) -> usize {
        let session = self.sources.len() as u32 + 1_000;
        let address = std::net::Ipv4Addr::from([10, domain as u8, 0, 1]);
        let transport = Transport::Tcp { address, session_id: Some(session), port: 14_371 };
        let origin = Origin::of(domain, &transport, session).expect("a name");
        let next = u32::MAX - 20;
        self.sources.push(Source { domain, topic: topic.to_owned(), origin, next, alive: true });
        self.sources.len() - 1
    }

    pub(crate) fn end_source(&mut self, source: usize) {
        self.sources[source].alive = false;
    }

    /// A source sends a message to those who receive it.
    pub(crate) fn publish(&mut self, source: usize) {
        let Source { topic, next, alive, .. } = &mut self.sources[source];
        if !*alive {
            return;
        }
        let sqn = *next;
        *next = sqn.wrapping_add(1);
        let payload = format!("{source} {topic} {sqn}");
        let mut message = lbmc::data_header((payload.len() + lbmc::DATA_HEADER) as u16, 77, sqn).to_vec();
        message.extend_from_slice(payload.as_bytes());
        for node in 0..self.nodes.len() {
            if !self.hears(node) {
                continue;
            }
            let of: Vec<u32> =
                self.nodes[node].streams.keys().filter(|(_, n)| *n as usize == source).map(|(p, _)| *p).collect();
            for portal in of {
                let expected =
                    self.nodes[node].streams.insert((portal, source as u32), Some(sqn.wrapping_add(1))).flatten();
                let portal = PortalId(portal);
                self.with(node, |router, now, out| {
                    if let Some(expected) = expected.filter(|expected| *expected != sqn) {
                        let lost = (expected, sqn.wrapping_sub(expected));
                        router.message_lost(now, portal, source as u32, lost, out);
                    }
                    router.message(now, portal, source as u32, sqn, &message, out);
                });
            }
        }
    }

    /// A source says which stores it has, to whoever hears it.
    pub(crate) fn say_stores(&mut self, source: usize, word: &[u8]) {
        for node in 0..self.nodes.len() {
            let heard: Vec<u32> =
                self.nodes[node].streams.keys().filter(|(_, n)| *n as usize == source).map(|(p, _)| *p).collect();
            for portal in heard {
                self.with(node, |router, _, _| router.source_stores(PortalId(portal), source as u32, word));
            }
        }
    }

    /// Does something with a router, and what it asks for afterwards.
    fn with(&mut self, node: usize, act: impl FnOnce(&mut Router, u64, &mut Collect)) {
        let now = self.now;
        let Some(router) = &mut self.nodes[node].router else { return };
        let mut out = Collect::default();
        act(router, now, &mut out);
        router.check_invariants();
        let actions: Vec<Action> = router.actions().collect();
        self.deliver(node, out);
        for action in actions {
            self.act(node, action);
        }
        self.send(node);
    }

    /// Messages that go on to receivers of a domain.
    fn deliver(&mut self, node: usize, out: Collect) {
        for onward in out.0 {
            let (Onward::Message(portal, stream, ..) | Onward::Skip(portal, stream, _)) = &onward;
            let domain = self.nodes[node].domains[portal.0 as usize].0;
            // A proxy source is made after the messages of the call that asks for it, and removed behind them.
            let Some(proxy) = self.nodes[node].proxies.get_mut(&(portal.0, stream.0)) else {
                panic!("router {node} sends by a proxy source that is not there");
            };
            let sqn = match &onward {
                Onward::Message(_, _, sqn, _) | Onward::Skip(_, _, sqn) => *sqn,
            };
            let ahead = proxy.next.map_or(0, |next| sqn.wrapping_sub(next) as i32);
            assert!(ahead >= 0, "router {node} in domain {domain}: {sqn} behind {:?}", proxy.next);
            self.gaps += ahead as u64;
            let Onward::Message(_, _, _, message) = onward else {
                proxy.next = Some(sqn);
                continue;
            };
            proxy.next = Some(sqn.wrapping_add(1));
            let origin = proxy.advert.origin;
            let (message, length) = lbmc::Message::decode(&message).expect("a message");
            assert_eq!((message.sqn, length), (sqn, message.tail.len() + lbmc::DATA_HEADER));
            let source = self.sources.iter().position(|source| source.origin == origin).expect("a source");
            let Source { topic, domain: from, .. } = &self.sources[source];
            assert_eq!(message.tail, format!("{source} {topic} {sqn}").as_bytes(), "what was sent under the number");
            assert_eq!(**topic, *proxy.advert.topic);
            assert_ne!(*from, domain, "a source comes back into its domain");
            let count = self.delivered.entry((domain, origin)).or_default().entry(sqn).or_default();
            *count += 1;
            let alone = self.plan.count(domain) == 1;
            assert!(*count == 1 || !alone, "number {sqn} of {topic} twice in domain {domain}, which has one router");
        }
    }

    fn act(&mut self, node: usize, action: Action) {
        match action {
            Action::Listen { portal, interest } => {
                assert!(self.nodes[node].listening.insert((portal.0, interest)), "listens twice");
            }
            Action::Unlisten { portal, interest } => {
                assert!(self.nodes[node].listening.remove(&(portal.0, interest)), "never listened");
                let over: Vec<u32> =
                    self.nodes[node].streams.keys().filter(|(p, _)| *p == portal.0).map(|(_, n)| *n).collect();
                for number in over {
                    if !self.is_listened_for(node, portal, number as usize) {
                        self.nodes[node].streams.remove(&(portal.0, number));
                        self.with(node, |router, now, out| {
                            router.source_gone(now, portal, number, Gone::Unreachable, out);
                        });
                    }
                }
            }
            Action::AskForUse { portal, interests } => {
                let domain = self.nodes[node].domains[portal.0 as usize].0;
                let wanted = self.wants.get(&domain).cloned().unwrap_or_default();
                let answers = self.hears(node);
                for interest in interests.into_iter().filter(|interest| answers && wanted.contains(interest)) {
                    self.with(node, |router, now, out| router.heard(now, portal, &interest, out));
                }
            }
            Action::Serve { portal, stream, advert } => {
                let domain = self.nodes[node].domains[portal.0 as usize].0;
                let origin = advert.origin;
                let also = |(other, state): (usize, &Node)| {
                    other != node
                        && state.proxies.iter().any(|((p, _), proxy)| {
                            state.domains[*p as usize].0 == domain && proxy.advert.origin == origin
                        })
                };
                self.conflicts += u64::from(self.nodes.iter().enumerate().any(also));
                let proxy = Proxy { advert, next: None, advertise_at: self.now };
                assert!(self.nodes[node].proxies.insert((portal.0, stream.0), proxy).is_none(), "serves twice");
            }
            Action::Cease { portal, stream } => {
                assert!(self.nodes[node].proxies.remove(&(portal.0, stream.0)).is_some(), "never served");
            }
            Action::TellStores { portal, stream } => {
                let domain = self.nodes[node].domains[portal.0 as usize].0;
                let proxy = &self.nodes[node].proxies[&(portal.0, stream.0)];
                let word = self.router(node).stores(stream).expect("a word").to_vec();
                self.told_stores.entry((domain, proxy.advert.origin)).or_default().push(word);
            }
            Action::Respond { .. } => {}
            Action::HangUp { portal, .. } => {
                let end = (node, portal);
                let link = self.links.iter().position(|link| link.ends.contains(&end)).expect("a connection");
                self.break_link(link);
            }
        }
    }

    fn is_listened_for(&self, node: usize, portal: PortalId, source: usize) -> bool {
        let topic = &self.sources[source].topic;
        self.nodes[node].listening.iter().any(|(p, interest)| *p == portal.0 && matches(interest, topic))
    }

    /// Frames of a router to its peers are on their way.
    fn send(&mut self, node: usize) {
        let arrives = self.now + LATENCY;
        for link in &mut self.links {
            for side in 0..2 {
                let (end, portal) = link.ends[side];
                let Some(router) = self.nodes[node].router.as_mut().filter(|_| end == node) else { continue };
                if !link.up {
                    continue;
                }
                let (pipe, last) = (&mut link.pipes[1 - side], &mut link.last[side]);
                router.take_output(self.now, portal, |bytes| {
                    note(bytes, last);
                    pipe.push_back((arrives, bytes.to_vec()));
                    pipe.iter().map(|(_, bytes)| bytes.len()).sum()
                });
            }
        }
    }

    /// Lets time pass in steps.
    pub(crate) fn run(&mut self, time: u64) {
        let end = self.now + time;
        while self.now < end {
            self.now += 10 * MS;
            self.step();
        }
    }

    fn step(&mut self) {
        for link in 0..self.links.len() {
            self.step_link(link);
        }
        for node in 0..self.nodes.len() {
            if self.nodes[node].frozen_until > self.now {
                continue;
            }
            let due = self.nodes[node].router.as_ref().is_some_and(|router| router.timeout() <= self.now);
            if due {
                self.with(node, lbm_router::Router::on_timer);
            }
            self.hear_sources(node);
            self.advertise(node);
        }
        if self.now.is_multiple_of(5 * SECOND) {
            // Receivers ask now and then by themselves.
            for domain in self.wants.keys().copied().collect::<Vec<_>>() {
                self.ask(domain);
            }
        }
    }

    fn step_link(&mut self, link: usize) {
        let state = &self.links[link];
        let ready = |(node, _): &(usize, PortalId)| {
            self.nodes[*node].router.is_some() && self.nodes[*node].frozen_until <= self.now
        };
        if !state.up {
            if state.connect_at <= self.now && state.cut_until <= self.now && state.ends.iter().all(ready) {
                self.links[link].up = true;
                for (node, portal) in self.links[link].ends {
                    self.with(node, |router, now, out| router.link_up(now, portal, out));
                }
            }
            return;
        }
        if state.cut_until > self.now {
            return;
        }
        for side in 0..2 {
            let (node, portal) = self.links[link].ends[side];
            while self.nodes[node].frozen_until <= self.now
                && let Some((_, bytes)) = self.links[link].pipes[side].pop_front_if(|(at, _)| *at <= self.now)
            {
                let other = self.links[link].ends[1 - side];
                let waiting = self.links[link].pipes[side].iter().map(|(_, bytes)| bytes.len()).sum();
                if let Some(router) = &mut self.nodes[other.0].router {
                    router.set_queued(other.1, waiting);
                }
                self.with(node, |router, now, out| router.receive(now, portal, &bytes, out).expect("our own frames"));
            }
        }
    }

    /// Sources that are listened for are found; those that have ended are noticed.
    fn hear_sources(&mut self, node: usize) {
        if !self.hears(node) {
            return;
        }
        for source in 0..self.sources.len() {
            let Source { domain, topic, origin, alive, .. } = &self.sources[source];
            let (alive, origin, topic) = (*alive, *origin, topic.clone());
            let Some(portal) = self.portal(node, *domain) else { continue };
            let (key, number) = ((portal.0, source as u32), source as u32);
            let known = self.nodes[node].streams.contains_key(&key);
            if alive && !known && self.is_listened_for(node, portal, source) {
                self.nodes[node].streams.insert(key, None);
                self.with(node, |router, now, out| {
                    let found = SourceFound { origin, topic: &topic, persistent: true };
                    assert!(router.source_found(now, portal, number, found, out));
                });
            } else if !alive && known {
                self.nodes[node].streams.remove(&key);
                self.with(node, |router, now, out| router.source_gone(now, portal, number, Gone::Ended, out));
            }
        }
    }

    /// Proxy sources are advertised to the other routers of the domain.
    fn advertise(&mut self, node: usize) {
        let now = self.now;
        if !self.hears(node) {
            return;
        }
        let mut said = Vec::new();
        let state = &mut self.nodes[node];
        for ((portal, _), proxy) in &mut state.proxies {
            if proxy.advertise_at <= now {
                proxy.advertise_at = now + ADVERTISE;
                said.push((state.domains[*portal as usize].0, proxy.advert.clone()));
            }
        }
        for (domain, advert) in said {
            for other in (0..self.nodes.len()).filter(|other| *other != node) {
                if let Some(portal) = self.portal(other, domain).filter(|_| self.hears(other)) {
                    let rank = (advert.cost, RouterId(node as u64 + 1));
                    self.with(other, |router, now, _| router.proxy_heard(now, portal, advert.origin, rank));
                }
            }
        }
    }

    /// Routers that serve a domain with a source.
    pub(crate) fn serving(&self, domain: u32, source: usize) -> Vec<usize> {
        let origin = self.sources[source].origin;
        let serves = |state: &Node| {
            state
                .proxies
                .iter()
                .any(|((p, _), proxy)| state.domains[*p as usize].0 == domain && proxy.advert.origin == origin)
        };
        (0..self.nodes.len()).filter(|node| serves(&self.nodes[*node])).collect()
    }

    pub(crate) fn router(&self, node: usize) -> &Router {
        self.nodes[node].router.as_ref().expect("it runs")
    }

    pub(crate) fn links(&self) -> usize {
        self.links.len()
    }

    /// Messages that were delivered of a source in a domain, in the order of numbers.
    pub(crate) fn numbers(&self, domain: u32, source: usize) -> Vec<u32> {
        let of = self.delivered.get(&(domain, self.sources[source].origin));
        of.into_iter().flatten().map(|(sqn, _)| *sqn).collect()
    }

    /// Whether anything is left of what was wanted or offered.
    pub(crate) fn remains(&self) -> Vec<String> {
        let mut left = Vec::new();
        for (node, state) in self.nodes.iter().enumerate() {
            let Some(router) = &state.router else { continue };
            left.extend(router.topics().map(|view| format!("router {node} has {view:?}")));
            if router.wanted() != 0
                || !state.listening.is_empty()
                || !state.streams.is_empty()
                || !state.proxies.is_empty()
            {
                left.push(format!("router {node}: {} wanted, {:?}", router.wanted(), state.listening));
            }
        }
        left
    }

    pub(crate) fn is_wanted(&self, domain: u32, topic: &str) -> bool {
        self.wants.get(&domain).into_iter().flatten().any(|interest| matches(interest, topic))
    }
}

fn matches(interest: &Interest, topic: &str) -> bool {
    match interest.pattern() {
        None => interest.name() == topic,
        // The worlds' patterns are beginnings.
        Some(_) => topic.starts_with(interest.name().trim_start_matches('^')),
    }
}

/// No message of a source is ever twice, or out of order, on one connection.
fn note(mut bytes: &[u8], last: &mut BTreeMap<u32, u32>) {
    while let Some(length) = lbm_router::wire::length(bytes) {
        let (piece, rest) = bytes.split_at(length);
        bytes = rest;
        if lbm_router::wire::is_frame(piece) {
            continue;
        }
        let number = |at: usize| u32::from_be_bytes(piece[at..at + 4].try_into().expect("four bytes"));
        let (label, sqn) = (number(4), number(8));
        if let Some(before) = last.insert(label, sqn) {
            assert!(sqn.wrapping_sub(before) as i32 > 0, "label {label}: {sqn} behind {before}");
        }
    }
}
