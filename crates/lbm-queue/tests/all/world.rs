//! A world without an operating system: a source with application sets and their receivers, a transport that loses, connections that break.
//! A run is a function of its seed; a model of what was sent and consumed is the oracle.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use lbm::wire::Writer;
use lbm::wire::lbmc::{self, Kind, Message, Messages, NEXT_DATA};
use lbm_queue::receiver::{Receiver, ReceiverConfig, Verdict};
use lbm_queue::source::{Events, SetConfig, Source, SourceConfig, SourceEvent, TypeConfig};
use lbm_queue::{Index, MessageId};

use lbm_trials::seeds::Random;

pub(crate) const MS: u64 = 1_000_000;
const STREAM: u32 = 3;
const TOPIC: u32 = 42;
const ORIGIN: [u8; 32] = [1; 32];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Node {
    Source,
    Receiver(usize),
}

#[derive(Debug)]
enum Act {
    /// Over the transport, to one receiver.
    Data {
        to: usize,
        life: u64,
        bytes: Vec<u8>,
        control: bool,
    },
    /// Over a connection to the request port, or back.
    Up {
        from: usize,
        life: u64,
        bytes: Vec<u8>,
    },
    Down {
        to: usize,
        life: u64,
        bytes: Vec<u8>,
    },
    /// The application is done with a message.
    Consumed {
        by: usize,
        life: u64,
        message: MessageId,
        again: bool,
        index: Option<Index>,
    },
    Turn(Node),
    Send,
    Chaos,
}

pub(crate) struct Setup {
    /// Receivers of each application set.
    pub(crate) sets: Vec<usize>,
    pub(crate) messages: u64,
    /// Of a thousand datagrams, how many one receiver does not get.
    pub(crate) loss: u64,
    /// Between disturbances, ms; 0: none.
    pub(crate) chaos_ms: u64,
    /// Whether disturbances are kills alone.
    pub(crate) kills_only: bool,
    pub(crate) flight_size: usize,
    /// Indices that messages have; 0: none.
    pub(crate) indices: u64,
    /// How long an application takes at most, ms.
    pub(crate) work_ms: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            sets: vec![3, 2],
            messages: 300,
            loss: 10,
            chaos_ms: 300,
            kills_only: false,
            flight_size: 30,
            indices: 7,
            work_ms: 4,
        }
    }
}

/// A consumption, as the application has seen it.
#[derive(Clone, Debug)]
pub(crate) struct Had {
    pub(crate) by: (usize, u64),
    pub(crate) message: u64,
    pub(crate) again: bool,
    pub(crate) index: Option<Index>,
}

struct Program {
    receiver: Receiver,
    life: u64,
    frozen_until: u64,
    cut_until: u64,
    /// Order of the transport and of the connection each way.
    data_at: u64,
    up_at: u64,
    down_at: u64,
    /// When the application is free again: it works on one message after the other.
    free_at: u64,
}

pub(crate) struct World {
    setup: Setup,
    random: Random,
    pub(crate) now: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    acts: HashMap<u64, Act>,
    serial: u64,
    pub(crate) source: Source,
    frozen_until: u64,
    programs: Vec<Program>,
    /// By set.
    pub(crate) had: Vec<Vec<Had>>,
    set_of: Vec<u16>,
    lives: u64,
    sent: u64,
    quiet: bool,
    pub(crate) complete: u64,
    pub(crate) given_up: u64,
}

impl World {
    pub(crate) fn new(seed: u64, setup: Setup) -> Self {
        let set = SetConfig {
            reassignment_timeout_ns: 800 * MS,
            activity_timeout_ns: 500 * MS,
            keepalive_interval_ns: 100 * MS,
            ..SetConfig::default()
        };
        let config = SourceConfig {
            sets: vec![set; setup.sets.len()],
            types: (0..setup.sets.len()).map(|set| (10 + set as u32, TypeConfig::of_set(set as u16))).collect(),
            events: Events::MESSAGE_COMPLETE | Events::MESSAGE_TIMEOUT,
            flight_size: setup.flight_size,
            check_interval_ns: 50 * MS,
            ..SourceConfig::default()
        };
        let set_of = setup.sets.iter().enumerate();
        let set_of: Vec<u16> = set_of.flat_map(|(set, count)| vec![set as u16; *count]).collect();
        let mut world = Self {
            random: Random::new(seed),
            now: 1_000 * MS,
            queue: BinaryHeap::new(),
            acts: HashMap::new(),
            serial: 0,
            source: Source::new(1_000 * MS, 77, (TOPIC, ORIGIN), config, seed),
            frozen_until: 0,
            programs: Vec::new(),
            had: vec![Vec::new(); setup.sets.len()],
            set_of,
            lives: seed << 20,
            sent: 0,
            quiet: false,
            complete: 0,
            given_up: 0,
            setup,
        };
        for at in 0..world.set_of.len() {
            let program = world.program(at);
            world.programs.push(program);
            world.at(0, Act::Turn(Node::Receiver(at)));
        }
        world.at(0, Act::Turn(Node::Source));
        world.at(0, Act::Send);
        if world.setup.chaos_ms > 0 {
            world.at(world.now + world.setup.chaos_ms * MS, Act::Chaos);
        }
        world
    }

    /// A program that begins anew, as one that was killed does.
    fn program(&mut self, at: usize) -> Program {
        self.lives += 1;
        let config = ReceiverConfig {
            kind: 10 + u32::from(self.set_of[at]),
            command_interval_ns: 50 * MS,
            source_timeout_ns: 500 * MS,
            check_interval_ns: 50 * MS,
            report_delay_ns: self.random.below(3) * MS,
            ..ReceiverConfig::default()
        };
        let mut receiver = Receiver::new(config, self.lives);
        receiver.found(self.now, STREAM, 77, (TOPIC, ORIGIN));
        let now = self.now;
        Program {
            receiver,
            life: self.lives,
            frozen_until: 0,
            cut_until: 0,
            data_at: now,
            up_at: now,
            down_at: now,
            free_at: now,
        }
    }

    fn at(&mut self, at: u64, act: Act) {
        self.serial += 1;
        self.acts.insert(self.serial, act);
        self.queue.push(Reverse((at.max(self.now), self.serial)));
    }

    fn delay(&mut self) -> u64 {
        MS / 10 + self.random.below(2 * MS)
    }

    fn is_cut(&self, at: usize) -> bool {
        self.now < self.programs[at].cut_until
    }

    pub(crate) fn run(&mut self) {
        let limit = self.now + 600_000 * MS;
        while let Some(Reverse((at, serial))) = self.queue.pop() {
            self.now = at;
            let Some(act) = self.acts.remove(&serial) else { continue };
            self.act(act);
            let all_sent = self.sent == self.setup.messages;
            if all_sent && !self.quiet {
                self.calm();
            }
            if all_sent && self.source.in_flight() == 0 || self.now > limit {
                return;
            }
        }
    }

    /// Disturbances end: what is owed comes from now on.
    fn calm(&mut self) {
        self.quiet = true;
        self.setup.loss = 0;
        self.programs.iter_mut().for_each(|program| program.cut_until = 0);
    }

    fn act(&mut self, act: Act) {
        // A frozen receiver does so when it thaws.
        let (node, life) = match &act {
            Act::Data { to, life, .. } | Act::Down { to, life, .. } => (Node::Receiver(*to), Some(*life)),
            Act::Consumed { by, life, .. } => (Node::Receiver(*by), Some(*life)),
            Act::Up { .. } | Act::Send => (Node::Source, None),
            Act::Turn(node) => (*node, None),
            Act::Chaos => return self.chaos(),
        };
        match node {
            Node::Receiver(at) => {
                let program = &mut self.programs[at];
                if life.is_some_and(|life| life != program.life) {
                    return;
                }
                if self.now < program.frozen_until {
                    let until = program.frozen_until;
                    return self.at(until, act);
                }
            }
            Node::Source if self.now < self.frozen_until => {
                let until = self.frozen_until;
                return self.at(until, act);
            }
            Node::Source => {}
        }
        match act {
            Act::Data { to, bytes, control, .. } => self.data(to, &bytes, control),
            Act::Up { from, life, bytes } => self.up(from, life, &bytes),
            Act::Down { to, bytes, .. } => {
                let now = self.now;
                for message in Messages::new(&bytes) {
                    let message = message.expect("ours");
                    self.programs[to].receiver.control(now, STREAM, &message).expect("ours");
                }
                self.settle(to);
            }
            Act::Consumed { by, message, again, index, .. } => {
                let (set, life) = (usize::from(self.set_of[by]), self.programs[by].life);
                self.had[set].push(Had { by: (by, life), message: message.stamp, again, index });
                self.programs[by].receiver.consumed(self.now, message);
                self.settle(by);
            }
            Act::Turn(Node::Source) => {
                self.source.on_timer(self.now);
                self.pump();
                let next = self.source.timeout().max(self.now + MS);
                self.at(next, Act::Turn(Node::Source));
            }
            Act::Turn(Node::Receiver(at)) => {
                let now = self.now;
                self.programs[at].receiver.on_timer(now);
                self.settle(at);
                self.at(now + 5 * MS, Act::Turn(Node::Receiver(at)));
            }
            Act::Send => self.send(),
            Act::Chaos => {}
        }
    }

    fn send(&mut self) {
        if self.sent < self.setup.messages {
            let index = (self.setup.indices > 0).then(|| match self.sent % self.setup.indices {
                0 => Index::Text(b"IBM.N".as_slice().into()),
                number => Index::Number(number),
            });
            if self.source.send(self.now, &self.sent.to_be_bytes(), index).is_ok() {
                self.sent += 1;
                self.pump();
            }
            let next = self.now + self.random.below(3 * MS);
            self.at(next, Act::Send);
        }
    }

    /// Sends what the source has, and takes its events.
    fn pump(&mut self) {
        let now = self.now;
        while let Some(transmission) = self.source.to_send() {
            let mut bytes = vec![0; 2_000];
            let mut w = Writer::new(&mut bytes);
            let payload = transmission.payload;
            let encoded = transmission
                .headers
                .with(|headers| lbmc::encode(&mut w, Kind::Message, TOPIC, 0, headers, NEXT_DATA, payload));
            encoded.expect("fits");
            let written = w.written().to_vec();
            self.source.transmitted(now);
            self.cast(&written, false);
        }
        for message in self.source.announcements().collect::<Vec<_>>() {
            self.cast(&message, true);
        }
        let mut events = Vec::new();
        self.source.swap_events(&mut events);
        for event in events {
            match event {
                SourceEvent::Complete { .. } => self.complete += 1,
                SourceEvent::GivenUp { .. } => self.given_up += 1,
                _ => {}
            }
        }
    }

    fn cast(&mut self, bytes: &[u8], control: bool) {
        for to in 0..self.programs.len() {
            if self.is_cut(to) || self.random.chance(self.setup.loss) {
                continue;
            }
            let at = (self.now + self.delay()).max(self.programs[to].data_at + 1);
            self.programs[to].data_at = at;
            let life = self.programs[to].life;
            self.at(at, Act::Data { to, life, bytes: bytes.to_vec(), control });
        }
    }

    fn data(&mut self, to: usize, bytes: &[u8], control: bool) {
        let now = self.now;
        let (message, _) = Message::decode(bytes).expect("ours");
        if control {
            self.programs[to].receiver.control(now, STREAM, &message).expect("ours");
            return self.settle(to);
        }
        let payload = message.content().expect("plain receivers can read it, too").payload;
        let headers = message.headers();
        let Verdict::Own { id, again, index } = self.programs[to].receiver.message(now, STREAM, &headers) else {
            return;
        };
        assert_eq!(payload, id.stamp.to_be_bytes(), "the message is that of its number");
        let index = index.map(lbm_queue::wire::IndexRef::to_index);
        let work = self.random.below(self.setup.work_ms * MS + 1);
        let program = &mut self.programs[to];
        program.free_at = program.free_at.max(now) + work;
        let (at, life) = (program.free_at, program.life);
        self.at(at, Act::Consumed { by: to, life, message: id, again, index });
    }

    /// Sends what a receiver has for the request port.
    fn settle(&mut self, from: usize) {
        let mut said = Vec::new();
        self.programs[from].receiver.output(|_, bytes| said.extend_from_slice(bytes));
        self.programs[from].receiver.events().for_each(drop);
        if said.is_empty() || self.is_cut(from) {
            return;
        }
        let at = (self.now + self.delay()).max(self.programs[from].up_at + 1);
        self.programs[from].up_at = at;
        let life = self.programs[from].life;
        self.at(at, Act::Up { from, life, bytes: said });
    }

    fn up(&mut self, from: usize, life: u64, bytes: &[u8]) {
        let (now, mut answers) = (self.now, Vec::new());
        for message in Messages::new(bytes) {
            self.source.question(now, None, &message.expect("ours"), &mut answers).expect("ours");
        }
        self.pump();
        if !answers.is_empty() && !self.is_cut(from) {
            let at = (now + self.delay()).max(self.programs[from].down_at + 1);
            self.programs[from].down_at = at;
            self.at(at, Act::Down { to: from, life, bytes: answers });
        }
    }

    fn chaos(&mut self) {
        if self.quiet {
            return;
        }
        let at = self.random.below(self.programs.len() as u64) as usize;
        let long = self.random.below(1_500 * MS);
        match if self.setup.kills_only { 0 } else { self.random.below(5) } {
            0 => self.programs[at] = self.program(at),
            // A frozen receiver is not frozen again: what waits for the thaw keeps its order.
            1 if self.now >= self.programs[at].frozen_until => self.programs[at].frozen_until = self.now + long,
            2 => self.programs[at].cut_until = self.now + long,
            3 if self.now >= self.frozen_until => self.frozen_until = self.now + long / 2,
            4 => {
                self.programs[at].receiver.leave();
                self.settle(at);
                self.programs[at] = self.program(at);
            }
            _ => {}
        }
        self.settle(at);
        let next = self.now + self.random.below(2 * self.setup.chaos_ms * MS);
        self.at(next, Act::Chaos);
    }

    /// The rules that hold in every world.
    pub(crate) fn check(&self, seed: u64) {
        assert_eq!(self.sent, self.setup.messages, "seed {seed}: all were taken");
        assert_eq!(self.source.in_flight(), 0, "seed {seed}: all are done with at {} ms", self.now / MS);
        assert_eq!((self.complete, self.given_up), (self.sent, 0), "seed {seed}");
        for (set, had) in self.had.iter().enumerate() {
            let mut times: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
            for had in had {
                let (plain, marked) = times.entry(had.message).or_default();
                *(if had.again { marked } else { plain }) += 1;
            }
            assert_eq!(times.len() as u64, self.sent, "seed {seed}, set {set}: nothing that was sent is lost");
            for (message, (plain, _)) in times {
                assert!(plain <= 1, "seed {seed}, set {set}: {message} was consumed {plain} times without a mark");
            }
        }
    }

    /// Each receiver has had the messages of an index in the order of the source.
    pub(crate) fn check_order(&self, seed: u64, with_marked: bool) {
        for (set, had) in self.had.iter().enumerate() {
            let mut last: HashMap<_, u64> = HashMap::new();
            for had in had.iter().filter(|had| with_marked || !had.again) {
                let Some(index) = &had.index else { continue };
                let before = last.insert((had.by, index.clone()), had.message);
                assert!(before < Some(had.message), "seed {seed}, set {set}: {had:?} behind {before:?}");
            }
        }
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }
}
