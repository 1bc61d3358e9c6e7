//! A world without an operating system: a source, stores and receivers, a transport that loses, connections that break. A run is a function
//! of its seed; a model of what was sent, stable and delivered is the oracle.

mod check;
mod outlive;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddrV4;

use lbm::topic::{Message, Run};
use lbm::wire::lbmc::{self, Messages};
use lbm_store::receiver::{ReceiverConfig, ReceiverEvent, Topic, TopicEvent};
use lbm_store::source::{Identity, Source, SourceConfig, SourceEvent, StoreAddress};
use lbm_store::store::{Entry, Store, StoreConfig};

use crate::had::{Had, payload};
use crate::sim_log::{SimLog, begun};
use lbm_trials::seeds::Random;

pub(crate) const MS: u64 = 1_000_000;
const MESSAGE_MAX: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Node {
    Source,
    Store(usize),
    Receiver(usize),
}

#[derive(Debug)]
enum Act {
    /// Bytes on a connection; from the client if `up`.
    Bytes {
        conn: u64,
        up: bool,
        bytes: Vec<u8>,
    },
    Connected {
        conn: u64,
    },
    Refused {
        node: Node,
        life: u64,
        link: u64,
    },
    Closed {
        conn: u64,
        up: bool,
    },
    Data {
        node: Node,
        life: u64,
        stream: u32,
        sqn: u32,
        bytes: Vec<u8>,
    },
    Lost {
        node: Node,
        life: u64,
        stream: u32,
        sqn: u32,
    },
    Announcement {
        node: Node,
        life: u64,
        stream: u32,
        bytes: Vec<u8>,
    },
    Found {
        node: Node,
        life: u64,
        stream: u32,
    },
    Synced {
        store: usize,
        life: u64,
        count: usize,
    },
    Timer {
        node: Node,
    },
    Send,
    Chaos,
}

struct Conn {
    client: Node,
    client_life: u64,
    link: u64,
    store: usize,
    store_life: u64,
    open: bool,
    last_up: u64,
    last_down: u64,
}

pub(crate) struct Setup {
    pub(crate) stores: usize,
    pub(crate) receivers: usize,
    pub(crate) durable: bool,
    pub(crate) messages: u64,
    /// Of a thousand datagrams, how many one node does not get.
    pub(crate) loss: u64,
    /// Between disturbances, ms; 0: none.
    pub(crate) chaos_ms: u64,
    pub(crate) flight_size: usize,
    /// The first number of the source.
    pub(crate) first: u32,
    /// Stores stand in for the source when it is gone.
    pub(crate) proxy: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            stores: 3,
            receivers: 2,
            durable: true,
            messages: 300,
            loss: 20,
            chaos_ms: 400,
            flight_size: 20,
            first: 0,
            proxy: false,
        }
    }
}

pub(crate) struct World {
    setup: Setup,
    random: Random,
    pub(crate) now: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    acts: HashMap<u64, Act>,
    serial: u64,
    pub(crate) stores: Vec<Option<Store<SimLog>>>,
    disks: Vec<(Vec<Vec<u8>>, usize)>,
    pub(crate) source: Option<Source>,
    stream: u32,
    topics: Vec<Option<Topic>>,
    pub(crate) had: Vec<Had>,
    lives: HashMap<Node, u64>,
    frozen: HashMap<Node, u64>,
    /// Nodes that are cut off, until when.
    cut: HashMap<Node, u64>,
    conns: HashMap<u64, Conn>,
    by_link: HashMap<(Node, u64), u64>,
    heard: HashMap<(Node, u32), u32>,
    next_id: u64,
    /// By number, of the present incarnation: last fragment to message.
    sent: HashMap<u32, u64>,
    pub(crate) stable: Vec<u64>,
    pub(crate) superseded: u64,
    quiet: bool,
    /// Stores that stand in for the source.
    standing_in: Vec<bool>,
    /// Receivers of another generation are other programs.
    generation: u64,
}

fn store_at(store: usize) -> SocketAddrV4 {
    SocketAddrV4::new([10, 0, 0, store as u8 + 1].into(), 14567)
}

impl World {
    pub(crate) fn new(seed: u64, setup: Setup) -> Self {
        let mut world = Self {
            random: Random::new(seed),
            now: 1_000 * MS,
            queue: BinaryHeap::new(),
            acts: HashMap::new(),
            serial: 0,
            stores: (0..setup.stores).map(|_| None).collect(),
            disks: vec![begun(setup.first); setup.stores],
            source: None,
            stream: 0,
            topics: (0..setup.receivers).map(|_| None).collect(),
            had: (0..setup.receivers).map(|_| Had::default()).collect(),
            lives: HashMap::new(),
            frozen: HashMap::new(),
            cut: HashMap::new(),
            conns: HashMap::new(),
            by_link: HashMap::new(),
            heard: HashMap::new(),
            next_id: 1,
            sent: HashMap::new(),
            stable: Vec::new(),
            superseded: 0,
            quiet: false,
            standing_in: vec![false; setup.stores],
            generation: 0,
            setup,
        };
        (0..world.setup.stores).for_each(|store| world.start(Node::Store(store)));
        world.start(Node::Source);
        (0..world.setup.receivers).for_each(|receiver| world.start(Node::Receiver(receiver)));
        world
    }

    fn at(&mut self, at: u64, act: Act) {
        self.serial += 1;
        self.acts.insert(self.serial, act);
        self.queue.push(Reverse((at.max(self.now), self.serial)));
    }

    fn life(&self, node: Node) -> u64 {
        self.lives.get(&node).copied().unwrap_or(0)
    }

    fn nodes(&self) -> Vec<Node> {
        let stores = (0..self.setup.stores).map(Node::Store);
        [Node::Source].into_iter().chain(stores).chain((0..self.setup.receivers).map(Node::Receiver)).collect()
    }

    fn is_up(&self, node: Node) -> bool {
        match node {
            Node::Source => self.source.is_some(),
            Node::Store(i) => self.stores[i].is_some(),
            Node::Receiver(i) => self.topics[i].is_some(),
        }
    }

    pub(crate) fn start(&mut self, node: Node) {
        *self.lives.entry(node).or_insert(0) += 1;
        match node {
            Node::Store(i) => {
                let config = StoreConfig { id: i as u16, answer_timeout_ns: 300 * MS, ..StoreConfig::default() };
                let (entries, synced) = std::mem::take(&mut self.disks[i]);
                // Of what was not synchronised a part may have been written.
                let survive = synced + self.random.below((entries.len() - synced) as u64 + 1) as usize;
                let entries = entries[..survive].to_vec();
                let log = SimLog { durable: self.setup.durable, entries: entries.clone() };
                let mut store = Store::new(config, log);
                for entry in &entries {
                    store.restore(self.now, &Entry::decode(entry).expect("an entry"));
                }
                store.wanted().for_each(drop);
                self.disks[i] = (entries, survive);
                self.stores[i] = Some(store);
            }
            Node::Source => {
                self.stream += 1;
                self.sent.clear();
                let stores = 0..self.setup.stores;
                let config = SourceConfig {
                    stores: stores.map(|i| StoreAddress { group: 0, at: store_at(i), reg_id: 0 }).collect(),
                    session: 77,
                    flight_size: self.setup.flight_size,
                    stability_timeout_ns: 1_000 * MS,
                    proxy: self.setup.proxy,
                    ..SourceConfig::default()
                };
                let identity = Identity {
                    topic: b"orders".as_slice().into(),
                    transport: 0,
                    topic_index: 1_000 * self.stream,
                    origin: origin(self.stream),
                    requests: SocketAddrV4::new([10, 0, 1, 1].into(), 14391),
                };
                self.source = Some(Source::new(self.now, config, identity));
                for node in self.nodes() {
                    self.find(node);
                }
            }
            Node::Receiver(i) => {
                let session = 500 + i as u64 + 1_000 * self.generation;
                let config = ReceiverConfig { session, gap_delay_ns: 300 * MS, ..ReceiverConfig::default() };
                self.had[i].last = None;
                self.topics[i] = Some(Topic::new(b"orders", config));
            }
        }
        self.find(node);
        self.at(self.now, Act::Timer { node });
    }

    /// A node comes to know of the source's stream.
    fn find(&mut self, node: Node) {
        let at = self.now + (1 + self.random.below(30)) * MS;
        self.heard.remove(&(node, self.stream));
        let (life, stream) = (self.life(node), self.stream);
        self.at(at, Act::Found { node, life, stream });
    }

    pub(crate) fn kill(&mut self, node: Node) {
        match node {
            Node::Source => self.source = None,
            Node::Store(i) => {
                if let Some(mut store) = self.stores[i].take() {
                    let entries = std::mem::take(&mut store.log().entries);
                    self.disks[i].0 = if self.setup.durable { entries } else { Vec::new() };
                }
            }
            Node::Receiver(i) => self.topics[i] = None,
        }
        *self.lives.entry(node).or_insert(0) += 1;
        let over: Vec<u64> =
            self.conns.iter().filter(|(_, c)| c.open && Self::is_end(c, node)).map(|(id, _)| *id).collect();
        for conn in over {
            self.break_conn(conn, node);
        }
    }

    fn is_end(conn: &Conn, node: Node) -> bool {
        conn.client == node || Node::Store(conn.store) == node
    }

    /// The connection is over; who has not done it is told.
    fn break_conn(&mut self, conn: u64, by: Node) {
        let Some(entry) = self.conns.get_mut(&conn) else { return };
        if std::mem::replace(&mut entry.open, false) {
            let up = entry.client == by;
            let at = if up { entry.last_up } else { entry.last_down }.max(self.now) + MS;
            self.at(at, Act::Closed { conn, up });
        }
    }

    fn is_cut(&self, a: Node, b: Node) -> bool {
        [a, b].iter().any(|node| self.cut.get(node).is_some_and(|until| *until > self.now))
    }

    fn hold_until(&self, a: Node, b: Node) -> u64 {
        [a, b].iter().filter_map(|node| self.cut.get(node)).copied().max().unwrap_or(0).max(self.now)
    }

    /// What a node has left to do goes out.
    fn settle(&mut self, node: Node) {
        let mut bytes = Vec::new();
        let mut dials = Vec::new();
        let mut hang_ups = Vec::new();
        match node {
            Node::Store(i) => {
                let Some(store) = &mut self.stores[i] else { return };
                store.flush();
                store.wanted().for_each(drop);
                self.standing_in[i] = store.proxies().last().map_or(self.standing_in[i], |proxy| proxy.on);
                bytes.extend(store.output().drain());
                let (count, life) = (store.log().entries.len(), self.life(node));
                if self.setup.durable && self.random.chance(500) {
                    let at = self.now + self.random.below(20) * MS;
                    self.at(at, Act::Synced { store: i, life, count });
                }
                for (conn, bytes) in std::mem::take(&mut bytes) {
                    self.carry(conn, false, bytes);
                }
            }
            Node::Source => {
                let Some(source) = &mut self.source else { return };
                for event in source.events().collect::<Vec<_>>() {
                    match event {
                        SourceEvent::Dial { store, to: _ } => dials.push((store as u64, store)),
                        SourceEvent::HangUp { store } => hang_ups.push(store as u64),
                        SourceEvent::Stable { first, last } => {
                            let numbers = (0..=last.wrapping_sub(first)).map(|i| first.wrapping_add(i));
                            let ids = numbers.filter_map(|sqn| self.sent.get(&sqn));
                            self.stable.extend(ids.copied());
                        }
                        SourceEvent::NotStable { sqn } => panic!("{sqn} was given up"),
                        SourceEvent::Refused { .. } | SourceEvent::Superseded => self.superseded += 1,
                        _ => {}
                    }
                }
                bytes.extend(self.source.as_mut().expect("it runs").output().drain());
            }
            Node::Receiver(i) => {
                let Some(topic) = &mut self.topics[i] else { return };
                let events = topic.events();
                topic.output(|conn, out| bytes.push((conn, out)));
                for event in events {
                    match event {
                        TopicEvent::Source(source, ReceiverEvent::Dial { store, to }) => {
                            let at = (0..self.setup.stores).find(|i| store_at(*i) == to).expect("a store");
                            dials.push((Topic::conn(source, store), at));
                        }
                        TopicEvent::Source(source, ReceiverEvent::HangUp { store }) => {
                            hang_ups.push(Topic::conn(source, store));
                        }
                        TopicEvent::AskInfo { stream } => self.answer_info(node, stream),
                        _ => {}
                    }
                }
            }
        }
        if !matches!(node, Node::Store(_)) {
            for (link, out) in bytes {
                if let Some(conn) = self.by_link.get(&(node, link)).copied() {
                    self.carry(conn, true, out);
                }
            }
        }
        for link in hang_ups {
            if let Some(conn) = self.by_link.remove(&(node, link)) {
                self.break_conn(conn, node);
            }
        }
        for (link, store) in dials {
            self.dial(node, link, store);
        }
        self.arm(node);
    }

    fn answer_info(&mut self, node: Node, stream: u32) {
        if let Some(store) = outlive::store_of(stream) {
            return self.answer_by_proxy(node, store, stream);
        }
        if stream == self.stream
            && !self.is_cut(node, Node::Source)
            && let Some(source) = &self.source
        {
            let mut bytes = Vec::new();
            source.info(&mut bytes);
            let life = self.life(node);
            self.at(self.now + 2 * MS, Act::Announcement { node, life, stream, bytes });
        }
    }

    fn arm(&mut self, node: Node) {
        let due = match node {
            Node::Source => self.source.as_ref().and_then(Source::timeout),
            Node::Store(i) => self.stores[i].as_ref().and_then(Store::timeout),
            Node::Receiver(i) => self.topics[i].as_ref().and_then(Topic::timeout),
        };
        if let Some(due) = due {
            self.at(due, Act::Timer { node });
        }
    }

    fn dial(&mut self, client: Node, link: u64, store: usize) {
        let life = self.life(client);
        if !self.is_up(Node::Store(store)) || self.is_cut(client, Node::Store(store)) {
            let at = self.now + if self.is_up(Node::Store(store)) { 500 * MS } else { MS };
            return self.at(at, Act::Refused { node: client, life, link });
        }
        self.serial += 1;
        let conn = self.serial;
        let store_life = self.life(Node::Store(store));
        self.conns.insert(
            conn,
            Conn { client, client_life: life, link, store, store_life, open: true, last_up: 0, last_down: 0 },
        );
        self.by_link.insert((client, link), conn);
        self.at(self.now + MS, Act::Connected { conn });
    }

    fn carry(&mut self, conn: u64, up: bool, bytes: Vec<u8>) {
        let delay = (1 + self.random.below(3)) * MS;
        let Some(entry) = self.conns.get(&conn).filter(|entry| entry.open) else { return };
        let free = self.hold_until(entry.client, Node::Store(entry.store));
        let Some(entry) = self.conns.get_mut(&conn) else { return };
        let last = if up { &mut entry.last_up } else { &mut entry.last_down };
        *last = (*last).max(free + delay);
        let at = *last;
        self.at(at, Act::Bytes { conn, up, bytes });
    }

    /// Sends on the transport: to each node, or not.
    fn multicast(&mut self, sqn: u32, bytes: &[u8]) {
        for node in self.nodes().into_iter().skip(1) {
            let (life, stream) = (self.life(node), self.stream);
            let lost = !self.quiet && self.random.chance(self.setup.loss) || self.is_cut(node, Node::Source);
            let at = self.now + (1 + self.random.below(4)) * MS;
            let bytes = bytes.to_vec();
            if !lost {
                self.at(at, Act::Data { node, life, stream, sqn, bytes });
            } else if self.random.chance(500) && !self.is_cut(node, Node::Source) {
                // A repair.
                self.at(at + 20 * MS, Act::Data { node, life, stream, sqn, bytes });
            } else {
                self.at(at + 40 * MS, Act::Lost { node, life, stream, sqn });
            }
        }
    }

    fn send(&mut self) {
        let id = self.next_id;
        let payload = payload(id);
        let room = MESSAGE_MAX - lbmc::FRAGMENT_HEADER;
        let whole = payload.len() + lbmc::DATA_HEADER <= MESSAGE_MAX;
        let fragments = if whole { 1 } else { payload.len().div_ceil(room) };
        let Some(source) = &mut self.source else { return };
        if source.admit(fragments, payload.len()).is_err() {
            return;
        }
        let first = source.next_sqn().expect("it is ready");
        let last = first.wrapping_add(fragments as u32 - 1);
        source.sent(self.now, last, &payload, MESSAGE_MAX);
        self.sent.insert(last, id);
        self.next_id += 1;
        let topic = 1_000 * self.stream;
        for i in 0..fragments {
            let sqn = first.wrapping_add(i as u32);
            let mut out = vec![0; MESSAGE_MAX + 64];
            let mut w = lbm::wire::Writer::new(&mut out);
            let (offset, end) = (i * room, payload.len().min((i + 1) * room));
            if whole {
                lbmc::encode(&mut w, lbmc::Kind::Message, topic, sqn, &[], lbmc::NEXT_DATA, &payload)
            } else {
                let fragment = lbm::wire::header::Fragment {
                    flags: 0,
                    first_sqn: first,
                    offset: offset as u32,
                    total: payload.len() as u32,
                };
                let headers = [lbm::wire::header::Header::Fragment(fragment)];
                lbmc::encode(&mut w, lbmc::Kind::Message, topic, sqn, &headers, lbmc::NEXT_DATA, &payload[offset..end])
            }
            .expect("it fits");
            let bytes = w.written().to_vec();
            self.multicast(sqn, &bytes);
        }
    }

    fn announce(&mut self, bytes: &[u8]) {
        for node in self.nodes().into_iter().skip(1) {
            if !self.is_cut(node, Node::Source) && !self.random.chance(self.setup.loss) {
                let (life, stream) = (self.life(node), self.stream);
                self.at(self.now + 2 * MS, Act::Announcement { node, life, stream, bytes: bytes.to_vec() });
            }
        }
    }

    /// The transport heard this number: later ones that are missing are lost to it.
    fn on_data(&mut self, node: Node, stream: u32, sqn: u32, bytes: &[u8]) {
        if !self.heard.contains_key(&(node, stream)) {
            return;
        }
        match node {
            Node::Store(i) => {
                if let Some(store) = &mut self.stores[i] {
                    // As a context gives them: most messages as they came, and others in their parts.
                    let run = Run::read(sqn, bytes);
                    if sqn.is_multiple_of(3) || run.count == 0 || !store.run(stream, &run) {
                        let (head, body) = bytes.split_at(bytes.len().min(lbmc::DATA_HEADER));
                        store.data(self.now, stream, sqn, [head, body]);
                    }
                }
            }
            Node::Receiver(i) => {
                let (message, _) = lbmc::Message::decode(bytes).expect("our own");
                let content = message.content().expect("our own");
                let (kind, headers) = (message.kind, message.headers());
                let message = Message { sqn, payload: content.payload, properties: 0, kind, headers };
                if let Some(topic) = &mut self.topics[i] {
                    topic.message(self.now, stream, &message, &mut self.had[i]);
                }
            }
            Node::Source => {}
        }
    }

    fn act(&mut self, act: Act) {
        let now = self.now;
        if self.who(&act).is_some_and(|node| !self.is_up(node)) {
            return;
        }
        match act {
            Act::Bytes { conn, up, bytes } => self.on_bytes(conn, up, &bytes),
            Act::Connected { conn } => {
                let Some(entry) = self.conns.get(&conn).filter(|c| c.open) else { return };
                let (client, link) = (entry.client, entry.link);
                match client {
                    Node::Source => self.source.as_mut().expect("open").connected(now, link as usize),
                    Node::Receiver(i) => self.topics[i].as_mut().expect("open").connected(now, link),
                    Node::Store(_) => unreachable!("stores do not dial"),
                }
                self.settle(client);
            }
            Act::Refused { node, life, link } if life == self.life(node) => {
                self.closed_at_client(node, link);
            }
            Act::Closed { conn, up } => {
                let Some(entry) = self.conns.get(&conn) else { return };
                let (client, link, store) = (entry.client, entry.link, entry.store);
                if up && entry.store_life == self.life(Node::Store(store)) {
                    if let Some(store) = &mut self.stores[store] {
                        store.closed(now, conn);
                    }
                    self.settle(Node::Store(store));
                } else if !up
                    && entry.client_life == self.life(client)
                    && self.by_link.get(&(client, link)) == Some(&conn)
                {
                    self.by_link.remove(&(client, link));
                    self.closed_at_client(client, link);
                }
            }
            Act::Data { node, life, stream, sqn, bytes } if life == self.life(node) => {
                self.on_data(node, stream, sqn, &bytes);
                self.settle(node);
            }
            Act::Lost { node, life, stream, sqn } if life == self.life(node) => {
                match node {
                    Node::Store(i) => self.stores[i].as_mut().expect("up").data_lost(now, stream, sqn, 1),
                    Node::Receiver(i) => {
                        self.topics[i].as_mut().expect("up").lost(now, stream, sqn, 1, &mut self.had[i]);
                    }
                    Node::Source => {}
                }
                self.settle(node);
            }
            Act::Announcement { node: Node::Receiver(i), life, stream, bytes }
                if life == self.life(Node::Receiver(i)) =>
            {
                let topic = self.topics[i].as_mut().expect("up");
                for message in Messages::new(&bytes) {
                    let message = message.expect("our own");
                    topic.control(now, stream, 1_000 * stream, &message, &mut self.had[i]).expect("our own");
                }
                self.settle(Node::Receiver(i));
            }
            Act::Found { node, life, stream } if life == self.life(node) && stream == self.stream => {
                self.heard.insert((node, stream), 0);
                match node {
                    Node::Store(i) => self.stores[i].as_mut().expect("up").stream(now, stream, origin(stream)),
                    Node::Receiver(i) => self.topics[i].as_mut().expect("up").stream_begun(now, stream, true),
                    Node::Source => {}
                }
                self.settle(node);
            }
            Act::Synced { store, life, count } if life == self.life(Node::Store(store)) => {
                self.disks[store].1 = self.disks[store].1.max(count);
                self.stores[store].as_mut().expect("up").logged(count as u64);
                self.settle(Node::Store(store));
            }
            Act::Timer { node } => self.on_timer(node),
            Act::Send => self.send_and_go_on(),
            Act::Chaos => self.chaos(),
            _ => {}
        }
    }

    fn closed_at_client(&mut self, node: Node, link: u64) {
        match node {
            Node::Source => self.source.as_mut().expect("up").closed(self.now, link as usize),
            Node::Receiver(i) => self.topics[i].as_mut().expect("up").closed(self.now, link),
            Node::Store(_) => {}
        }
        self.settle(node);
    }

    fn on_bytes(&mut self, conn: u64, up: bool, bytes: &[u8]) {
        let now = self.now;
        let Some(entry) = self.conns.get(&conn) else { return };
        let (client, link, store) = (entry.client, entry.link, entry.store);
        if up {
            if entry.store_life == self.life(Node::Store(store)) {
                self.stores[store].as_mut().expect("up").receive(now, conn, bytes).expect("our own");
                self.settle(Node::Store(store));
            }
            return;
        }
        if entry.client_life != self.life(client) || self.by_link.get(&(client, link)) != Some(&conn) {
            return;
        }
        match client {
            Node::Source => self.source.as_mut().expect("up").receive(now, link as usize, bytes).expect("our own"),
            Node::Receiver(i) => {
                let topic = self.topics[i].as_mut().expect("up");
                topic.receive(now, link, bytes, &mut self.had[i]).expect("our own");
            }
            Node::Store(_) => {}
        }
        self.settle(client);
    }

    fn on_timer(&mut self, node: Node) {
        let now = self.now;
        match node {
            Node::Source => {
                let Some(source) = &mut self.source else { return };
                if source.timeout().is_none_or(|at| at > now) {
                    return;
                }
                let mut announced = Vec::new();
                source.on_timer(now, |bytes| announced.push(bytes.to_vec()));
                for bytes in &announced {
                    self.announce(bytes);
                }
            }
            Node::Store(i) => match &mut self.stores[i] {
                Some(store) if store.timeout().is_some_and(|at| at <= now) => store.on_timer(now),
                _ => return,
            },
            Node::Receiver(i) => match &mut self.topics[i] {
                Some(topic) if topic.timeout().is_some_and(|at| at <= now) => topic.on_timer(now, &mut self.had[i]),
                _ => return,
            },
        }
        self.settle(node);
    }

    fn send_and_go_on(&mut self) {
        if self.next_id <= self.setup.messages {
            if self.frozen.get(&Node::Source).is_none_or(|until| *until <= self.now) {
                self.send();
                self.settle(Node::Source);
            }
            let at = self.now + (1 + self.random.below(20)) * MS;
            self.at(at, Act::Send);
        }
    }

    fn chaos(&mut self) {
        if self.quiet || self.next_id > self.setup.messages {
            return;
        }
        let nodes = self.nodes();
        let node = nodes[self.random.below(nodes.len() as u64) as usize];
        // A store in memory that dies takes messages with it: it is only cut off.
        let may_die = self.setup.durable || !matches!(node, Node::Store(_));
        match self.random.below(4) {
            _ if !self.is_up(node) => self.start(node),
            0 | 1 if may_die => self.kill(node),
            2 => {
                let until = self.now + self.random.below(3_000) * MS;
                self.frozen.insert(node, until);
            }
            _ => {
                let until = self.now + self.random.below(15_000) * MS;
                self.cut.insert(node, until);
            }
        }
        let at = self.now + (1 + self.random.below(2 * self.setup.chaos_ms)) * MS;
        self.at(at, Act::Chaos);
    }

    fn who(&self, act: &Act) -> Option<Node> {
        match act {
            Act::Bytes { conn, up, .. } | Act::Closed { conn, up } => {
                self.conns.get(conn).map(|c| if *up { Node::Store(c.store) } else { c.client })
            }
            Act::Connected { conn } => self.conns.get(conn).map(|c| c.client),
            Act::Refused { node, .. }
            | Act::Data { node, .. }
            | Act::Lost { node, .. }
            | Act::Announcement { node, .. }
            | Act::Found { node, .. }
            | Act::Timer { node } => Some(*node),
            Act::Synced { store, .. } => Some(Node::Store(*store)),
            Act::Send | Act::Chaos => None,
        }
    }

    /// Runs until `end`, or nothing is left to do.
    pub(crate) fn run_until(&mut self, end: u64) {
        while let Some(Reverse((at, serial))) = self.queue.peek().copied()
            && at <= end
        {
            self.queue.pop();
            self.now = self.now.max(at);
            let Some(act) = self.acts.remove(&serial) else { continue };
            if let Some(until) =
                self.who(&act).and_then(|node| self.frozen.get(&node)).filter(|until| **until > self.now)
            {
                // In order, when the node goes on.
                self.serial += 1;
                self.acts.insert(self.serial, act);
                self.queue.push(Reverse((*until, self.serial)));
                continue;
            }
            self.act(act);
        }
        self.now = self.now.max(end);
    }

    /// Everything to the end: all is sent, then all is mended and has time to come to rest.
    pub(crate) fn run(&mut self) {
        self.at(self.now + 2_000 * MS, Act::Send);
        if self.setup.chaos_ms > 0 {
            self.at(self.now + 2_000 * MS, Act::Chaos);
        }
        while self.next_id <= self.setup.messages && self.now < 2_000_000 * MS {
            let end = self.now + 1_000 * MS;
            self.run_until(end);
        }
        self.quiet = true;
        for node in self.nodes() {
            if !self.is_up(node) {
                self.start(node);
            }
        }
        self.cut.clear();
        let end = self.now + 90_000 * MS;
        self.run_until(end);
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }
}

pub(crate) fn origin(stream: u32) -> [u8; 32] {
    let mut origin = [0; 32];
    origin[..4].copy_from_slice(&stream.to_be_bytes());
    origin
}
