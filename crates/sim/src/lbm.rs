//! Sources and receivers of LBT-RM over a bad network, with a model as oracle: every message is delivered in order exactly once, or
//! its loss is reported exactly once.

use std::collections::BTreeMap;

use lbm::topic::{CatchUpConfig, DeliveryConfig, Message, RetentionConfig, Session, Source, SourceConfig, TopicSink};
use lbm::transport::{Carrier, EndReason, Lbtrm, Received, Receiver, ReceiverConfig, Sender, SenderConfig};
use lbm::wire::header::Header;
use lbm::wire::lbmc::Messages;
use lbm::wire::lbtrm::{Body, Packet};

use crate::net::{Link, Net, Random};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const TOPICS: u32 = 4;
const FIRST_TOPIC: u32 = 7_000;

/// What a run is made of; everything else follows from the seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Sending nodes, each with one session of four topics.
    pub senders: u32,
    /// Receiving nodes, each of which wants everything.
    pub receivers: u32,
    /// How the network is while messages are sent.
    pub link: Link,
    /// Datagrams that no receiver gets, per million: a switch loses them before it copies them.
    pub shared_loss: u32,
    /// Messages that each sender sends.
    pub messages: u32,
    /// Mean time between two messages of a sender, ns.
    pub interval_ns: u64,
    /// Longest message.
    pub length_max: usize,
    /// Restarts of senders or receivers, per million messages.
    pub restarts: u32,
    /// Partitions between a sender and a receiver, per million messages, and their longest duration.
    pub partitions: (u32, u64),
    /// Only receivers restart.
    pub steady_senders: bool,
    /// Sources retain everything; receivers join late and fetch what the transport has lost. Every receiver then has everything from the
    /// first message on.
    pub fetch: bool,
    /// Messages of a topic that may be missing or wait while some are fetched.
    pub fetch_entries: usize,
    /// Bytes of messages that a source retains.
    pub retained: usize,
    /// Numbers begin shortly before the wrap.
    pub wrap: bool,
    /// The recovery deadline is long enough that nothing may be lost.
    pub lossless: bool,
    /// How senders send.
    pub sender: SenderConfig,
    /// How receivers receive.
    pub receiver: ReceiverConfig,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            senders: 1,
            receivers: 2,
            link: Link { delay_ns: 50_000, jitter_ns: 100_000, ..Link::default() },
            shared_loss: 0,
            messages: 400,
            interval_ns: 200_000,
            length_max: 300,
            restarts: 0,
            steady_senders: false,
            fetch: false,
            fetch_entries: 200_000,
            retained: RetentionConfig::default().size_limit,
            partitions: (0, 0),
            wrap: false,
            lossless: true,
            sender: SenderConfig {
                datagram_max: 600,
                window_size: 1 << 20,
                batching_minimum_length: 300,
                batching_interval_ns: 2 * MS,
                sm_minimum_interval_ns: 20 * MS,
                sm_maximum_interval_ns: 200 * MS,
                ignore_interval_ns: 4 * MS,
                ..SenderConfig::default()
            },
            receiver: ReceiverConfig {
                nak_initial_backoff_interval_ns: MS,
                nak_backoff_interval_ns: 10 * MS,
                nak_suppress_interval_ns: 20 * MS,
                nak_generation_interval_ns: 5 * SECOND,
                activity_timeout_ns: 20 * SECOND,
                ..ReceiverConfig::default()
            },
        }
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Messages delivered to receivers.
    pub delivered: u64,
    /// Numbers reported lost.
    pub lost: u64,
    /// Packets that the network lost.
    pub packets_lost: u64,
    /// Retransmissions that senders sent.
    pub retransmissions: u64,
    /// NAKs that reached senders, packets.
    pub naks: u64,
    /// Datagrams that no receiver got.
    pub lost_to_all: u64,
    /// Virtual time, ns.
    pub time_ns: u64,
}

/// A message as it was sent: the numbers of its first and last fragment, and the bytes.
#[derive(Clone, Debug)]
struct Sent {
    first: u32,
    last: u32,
    payload: Vec<u8>,
}

/// Everything that one incarnation of a sender has sent, by topic. The truth.
#[derive(Default)]
struct Truth {
    topics: BTreeMap<u32, Vec<Sent>>,
}

/// How far a receiver has come in a topic, as numbers from the sender's first one on.
#[derive(Default, Clone, Debug)]
struct Progress {
    begun: bool,
    /// Index of the message that is due, once one was delivered.
    due: Option<usize>,
    /// Next number that is neither delivered nor reported.
    cursor: u32,
    /// The message at `due` has lost a fragment.
    damaged: bool,
}

/// Checks what one receiver says of one session.
struct Oracle<'a> {
    truth: &'a Truth,
    progress: &'a mut BTreeMap<u32, Progress>,
    outcome: &'a mut Outcome,
    lossless: bool,
    from_first: bool,
}

impl Oracle<'_> {
    fn index_of(&self, topic: u32, sqn: u32) -> usize {
        let sent = &self.truth.topics[&topic];
        let base = sent[0].first;
        let index = sent.partition_point(|m| m.last.wrapping_sub(base) < sqn.wrapping_sub(base));
        assert!(index < sent.len(), "topic {topic}: {sqn} was never sent");
        index
    }

    /// The rest of a damaged message is never delivered.
    fn skip_damaged(&mut self, topic: u32, index: usize) {
        let sent = &self.truth.topics[&topic];
        let progress = self.progress.entry(topic).or_default();
        if let Some(due) = progress.due.filter(|due| progress.damaged && *due < index) {
            progress.cursor = sent[due].last.wrapping_add(1);
            progress.damaged = false;
            progress.due = Some(due + 1);
        }
    }

    /// The numbers up to before `sqn` must all be settled.
    fn advance(&mut self, topic: u32, sqn: u32, damages: bool) {
        let index = self.index_of(topic, sqn);
        self.skip_damaged(topic, index);
        let sent = &self.truth.topics[&topic];
        let progress = self.progress.entry(topic).or_default();
        let mut due = progress.due.expect("a loss is reported before the first message");
        assert_eq!(
            due, index,
            "topic {topic}: {sqn} comes while {} is due: something is lost silently, repeated or out of order",
            progress.cursor
        );
        if progress.cursor != sqn {
            let behind = sqn.wrapping_sub(progress.cursor) > u32::MAX / 2;
            assert!(!behind, "topic {topic}: {sqn} comes again; {} is due", progress.cursor);
            assert!(damages || progress.damaged, "topic {topic}: {} to {sqn} are lost silently", progress.cursor);
        }
        progress.damaged |= damages;
        progress.cursor = sqn.wrapping_add(1);
        if sqn == sent[due].last {
            due += 1;
            progress.damaged = false;
        }
        progress.due = Some(due);
    }
}

impl TopicSink for Oracle<'_> {
    fn begin(&mut self, receiver: u32) {
        let progress = self.progress.entry(receiver).or_default();
        assert!(!core::mem::replace(&mut progress.begun, true), "begins twice");
    }

    fn message(&mut self, topic: u32, message: Message<'_>) {
        let index = self.index_of(topic, message.sqn);
        self.skip_damaged(topic, index);
        let sent = &self.truth.topics[&topic][index];
        assert_eq!(sent.last, message.sqn, "topic {topic}: a message ends within another");
        assert!(sent.payload == message.payload, "topic {topic}: {} has other bytes", message.sqn);
        let progress = self.progress.entry(topic).or_default();
        assert!(progress.begun, "a message before the beginning");
        if progress.due.is_none() {
            assert!(index == 0 || !self.from_first, "topic {topic}: a late joiner begins with message {index}");
            progress.cursor = sent.first;
            progress.due = Some(index);
        }
        assert!(!(progress.damaged && progress.due == Some(index)), "a damaged message is delivered");
        // Fragments before the last are settled with it.
        if progress.due == Some(index) && progress.cursor == sent.first {
            progress.cursor = message.sqn;
        }
        self.advance(topic, message.sqn, false);
        self.outcome.delivered += 1;
    }

    fn lost(&mut self, topic: u32, sqn: u32) {
        assert!(!self.lossless, "topic {topic}: {sqn} is lost though there was time to repair it");
        self.advance(topic, sqn, true);
        self.outcome.lost += 1;
    }

    fn burst_lost(&mut self, topic: u32, first: u32, count: u32) {
        for i in 0..count {
            self.lost(topic, first.wrapping_add(i));
        }
    }

    fn end(&mut self, topic: u32, _: EndReason) {
        let progress = self.progress.insert(topic, Progress::default());
        assert!(progress.is_some_and(|p| p.begun), "ends without a beginning");
    }
}

struct SendingNode {
    id: u32,
    sender: Sender<Lbtrm>,
    sources: Vec<Source>,
    left: u32,
    next_at: u64,
}

struct ReceivingSession {
    receiver: Receiver<Lbtrm>,
    session: Session,
    progress: BTreeMap<u32, Progress>,
    /// Ended by silence: it need not have everything.
    ended: bool,
}

struct ReceivingNode {
    id: u32,
    sessions: BTreeMap<u32, ReceivingSession>,
}

/// What a source answers by TCP.
struct Answer {
    to: u32,
    session_id: u32,
    topic: u32,
    bytes: Vec<u8>,
}

/// A run.
struct World {
    scenario: Scenario,
    random: Random,
    net: Net,
    now: u64,
    senders: Vec<SendingNode>,
    receivers: Vec<ReceivingNode>,
    /// By session id.
    truth: BTreeMap<u32, Truth>,
    next_session: u32,
    /// What sources answer by TCP, by time and number.
    answers: BTreeMap<(u64, u64), Answer>,
    answer_count: u64,
    outcome: Outcome,
}

/// Runs a scenario. Panics, saying what is wrong, if the oracle is not content.
pub fn run(seed: u64, scenario: &Scenario) -> Outcome {
    let mut world = World {
        random: Random::new(seed),
        net: Net::new(seed ^ 0x5EED, scenario.link.clone()),
        now: SECOND,
        senders: Vec::new(),
        receivers: Vec::new(),
        truth: BTreeMap::new(),
        next_session: 0x5E55_0000,
        answers: BTreeMap::new(),
        answer_count: 0,
        outcome: Outcome::default(),
        scenario: scenario.clone(),
    };
    for id in 0..scenario.senders {
        let node = world.new_sender(id, scenario.messages);
        world.senders.push(node);
    }
    for id in 0..scenario.receivers {
        world.receivers.push(ReceivingNode { id: 100 + id, sessions: BTreeMap::new() });
    }
    world.send_and_receive();
    world.settle();
    world.outcome.packets_lost = world.net.stats().lost;
    world.outcome.time_ns = world.now;
    world.outcome
}

impl World {
    fn new_sender(&mut self, id: u32, left: u32) -> SendingNode {
        self.next_session += 1;
        let session_id = self.next_session;
        let first_sqn = if self.scenario.wrap { u32::MAX - self.random.below(60) as u32 } else { 0 };
        let config = SenderConfig { first_sqn, ..self.scenario.sender.clone() };
        let framing = Lbtrm { unicast_port: 14_390, session_id, group_size: 3 };
        let sources = (0..TOPICS)
            .map(|i| {
                let config = SourceConfig {
                    first_sqn,
                    tsni_interval_ns: 500 * MS,
                    tsni_active_threshold_ns: 0,
                    late_join: self
                        .scenario
                        .fetch
                        .then(|| RetentionConfig { size_limit: self.scenario.retained, ..RetentionConfig::default() }),
                };
                Source::new(FIRST_TOPIC + i, config)
            })
            .collect();
        self.truth.insert(session_id, Truth::default());
        SendingNode { id, sender: Sender::new(framing, config), sources, left, next_at: self.now }
    }

    fn send_and_receive(&mut self) {
        while self.senders.iter().any(|s| s.left > 0) {
            let next = self.senders.iter().filter(|s| s.left > 0).map(|s| s.next_at).min().unwrap_or(self.now);
            self.advance_to(next);
            for i in 0..self.senders.len() {
                if self.senders[i].left > 0 && self.senders[i].next_at <= self.now {
                    self.send_one(i);
                    self.mishap(i);
                    self.check_invariants();
                }
            }
        }
    }

    fn send_one(&mut self, i: usize) {
        let length = 1 + self.random.below(self.scenario.length_max as u64) as usize;
        let length = if self.random.chance(20_000) { length * 12 } else { length };
        let payload: Vec<u8> = (0..length).map(|_| self.random.bits() as u8).collect();
        let topic = self.random.below(u64::from(TOPICS)) as usize;
        let flush = self.random.chance(100_000);
        let (now, wait) = (self.now, 1 + self.random.below(2 * self.scenario.interval_ns));
        let node = &mut self.senders[i];
        let first = node.sources[topic].next_sqn();
        if let Ok(last) = node.sources[topic].send(now, &mut node.sender, &payload, flush) {
            let truth = self.truth.entry(node.sender.framing().session_id).or_default();
            truth.topics.entry(FIRST_TOPIC + topic as u32).or_default().push(Sent { first, last, payload });
            node.left -= 1;
        }
        node.next_at = now + wait;
        self.pump(i);
    }

    /// Something goes wrong, now and then.
    fn mishap(&mut self, i: usize) {
        let (rate, longest) = self.scenario.partitions;
        if self.random.chance(rate) {
            let receiver = 100 + self.random.below(self.receivers.len() as u64) as u32;
            let until = self.now + self.random.below(longest);
            self.net.partition(self.senders[i].id, receiver, until);
        }
        if self.random.chance(self.scenario.restarts) {
            if self.random.chance(500_000) && !self.scenario.steady_senders {
                let (id, left) = (self.senders[i].id, self.senders[i].left);
                let next_at = self.senders[i].next_at;
                self.outcome.retransmissions += self.senders[i].sender.stats().retransmissions;
                self.senders[i] = self.new_sender(id, left);
                self.senders[i].next_at = next_at;
            } else {
                let r = self.random.below(self.receivers.len() as u64) as usize;
                self.receivers[r].sessions.clear();
                let id = self.receivers[r].id;
                self.answers.retain(|_, answer| answer.to != id);
                self.net.drop_to(self.receivers[r].id);
            }
        }
    }

    /// Hands a sender's output to the network; the socket does not always take all of it.
    fn pump(&mut self, i: usize) {
        let now = self.now;
        let node = &mut self.senders[i];
        let output = node.sender.output(now);
        let mut send = |packet: &[u8]| {
            for receiver in &self.receivers {
                self.net.send(now, node.id, receiver.id, packet);
            }
        };
        let control = output.control().map(&mut send).count();
        let retransmissions = output.retransmissions().map(&mut send).count();
        let mut sent = 0;
        for train in output.trains(65_000, 8) {
            for datagram in train.datagrams() {
                if self.random.chance(self.scenario.shared_loss) {
                    self.outcome.lost_to_all += 1;
                } else {
                    send(datagram);
                }
            }
            sent += train.datagrams;
            if self.random.chance(100_000) {
                break;
            }
        }
        node.sender.sent_control(control);
        node.sender.sent_retransmissions(now, retransmissions);
        node.sender.sent(now, sent);
    }

    /// Lets everything happen until then.
    fn advance_to(&mut self, until: u64) {
        loop {
            let timers = self.senders.iter().filter_map(|s| {
                let sources = s.sources.iter().filter_map(Source::timeout);
                sources.chain(s.sender.timeout()).min()
            });
            let sessions = self.receivers.iter().flat_map(|r| r.sessions.values());
            let timers =
                timers.chain(sessions.flat_map(|s| s.receiver.timeout().into_iter().chain(s.session.timeout())));
            let answer = self.answers.keys().next().map(|(at, _)| *at);
            let next = timers.chain(self.net.next_at()).chain(answer).min();
            let Some(next) = next.filter(|at| *at <= until) else { break };
            self.now = self.now.max(next);
            while let Some((from, to, packet)) = self.net.receive(self.now) {
                self.packet(from, to, &packet);
            }
            self.answers();
            self.timers();
            self.check_invariants();
        }
        self.now = self.now.max(until);
    }

    /// What each part promises holds after every step, not only in what comes out at the end.
    fn check_invariants(&self) {
        for node in &self.senders {
            node.sender.check_invariants();
            node.sources.iter().for_each(Source::check_invariants);
        }
        for session in self.receivers.iter().flat_map(|node| node.sessions.values()) {
            session.receiver.check_invariants();
            session.session.check_invariants();
        }
    }

    fn timers(&mut self) {
        let now = self.now;
        for i in 0..self.senders.len() {
            let node = &mut self.senders[i];
            let due = node.sender.timeout().is_some_and(|at| at <= now);
            if due {
                node.sender.on_timer(now);
            }
            let told = node.sources.iter_mut().filter(|s| s.timeout().is_some_and(|at| at <= now));
            let told = told.map(|s| s.on_timer(now, &mut node.sender)).count();
            if due || told > 0 {
                self.pump(i);
            }
        }
        for node in &mut self.receivers {
            for (session_id, s) in &mut node.sessions {
                let timeout = s.receiver.timeout().into_iter().chain(s.session.timeout()).min();
                if timeout.is_none_or(|at| at > now) {
                    continue;
                }
                let mut oracle = Oracle {
                    truth: &self.truth[session_id],
                    progress: &mut s.progress,
                    outcome: &mut self.outcome,
                    lossless: self.scenario.lossless,
                    from_first: self.scenario.fetch && self.scenario.lossless,
                };
                let net = &mut self.net;
                let mut sender = self.senders.iter_mut().find(|n| n.sender.framing().session_id == *session_id);
                let (answers, count, random) = (&mut self.answers, &mut self.answer_count, &mut self.random);
                s.session.on_timer(now, &mut oracle, |topic, header| {
                    let Some(node_of) = &mut sender else { return };
                    let source = &mut node_of.sources[(topic - FIRST_TOPIC) as usize];
                    let mut answer = Vec::new();
                    match header {
                        Header::LateJoinRequest(request) => source.late_join_request(now, &request, &mut answer),
                        Header::RetransmitRequest(request) => drop(source.retransmit_request(&request, &mut answer)),
                        other => panic!("{other:?}"),
                    }
                    *count += 1;
                    let at = now + 1 + random.below(5 * MS);
                    answers.insert((at, *count), Answer { to: node.id, session_id: *session_id, topic, bytes: answer });
                });
                let sender = sender.map(|n| n.id);
                s.receiver.on_timer(now, &mut s.session.dispatch(now, &mut oracle), |nak| {
                    if let Some(sender) = sender {
                        net.send(now, node.id, sender, nak);
                    }
                });
                s.ended = s.receiver.is_ended();
            }
        }
    }

    /// Hands receivers what has come by TCP.
    fn answers(&mut self) {
        while self.answers.keys().next().is_some_and(|(at, _)| *at <= self.now) {
            let Some((_, Answer { to, session_id, topic, bytes })) = self.answers.pop_first() else { return };
            let Some(s) = self.receivers[to as usize - 100].sessions.get_mut(&session_id) else { continue };
            let mut oracle = Oracle {
                truth: &self.truth[&session_id],
                progress: &mut s.progress,
                outcome: &mut self.outcome,
                lossless: self.scenario.lossless,
                from_first: self.scenario.fetch && self.scenario.lossless,
            };
            for header in Messages::new(&bytes).flat_map(|m| m.expect("our own").headers()) {
                if let Ok(Header::LateJoinInfo(info)) = header {
                    s.session.late_join_info(self.now, topic, &info, &mut oracle);
                }
            }
            s.session.fetched(self.now, &bytes, &mut oracle);
        }
    }

    fn packet(&mut self, from: u32, to: u32, bytes: &[u8]) {
        let now = self.now;
        let packet = Packet::decode(bytes).expect("our own packet");
        if to < 100 {
            let Body::Nak { sqns, .. } = packet.body else { panic!("senders get NAKs only") };
            self.outcome.naks += 1;
            let i = to as usize;
            if self.senders[i].sender.framing().session_id == packet.session_id {
                self.senders[i].sender.nak(now, u64::from(from), sqns.iter());
                self.pump(i);
            }
            return;
        }
        let node = &mut self.receivers[to as usize - 100];
        let received = Received::from_lbtrm(&packet).expect("receivers get no NAKs");
        let seed = self.random.bits();
        let config = &self.scenario.receiver;
        let s = node.sessions.entry(packet.session_id).or_insert_with(|| {
            let framing = Lbtrm { unicast_port: packet.unicast_port, session_id: packet.session_id, group_size: 3 };
            ReceivingSession {
                receiver: Receiver::new(framing, ReceiverConfig { seed, ..config.clone() }, now),
                session: Session::new(),
                progress: BTreeMap::new(),
                ended: false,
            }
        });
        let mut oracle = Oracle {
            truth: &self.truth[&packet.session_id],
            progress: &mut s.progress,
            outcome: &mut self.outcome,
            lossless: self.scenario.lossless,
            from_first: self.scenario.fetch && self.scenario.lossless,
        };
        if s.session.is_empty() {
            for topic in FIRST_TOPIC..FIRST_TOPIC + TOPICS {
                let fetch = self.scenario.fetch;
                let catch_up = CatchUpConfig {
                    late_join: fetch,
                    recovery: fetch,
                    request_interval_ns: 20 * MS,
                    outstanding_maximum: 1 + (seed % 50) as usize,
                    entries_maximum: self.scenario.fetch_entries,
                    ..CatchUpConfig::default()
                };
                s.session.add(topic, topic, DeliveryConfig { catch_up, ..DeliveryConfig::default() }, &mut oracle);
            }
        }
        s.receiver.receive(now, received, &mut s.session.dispatch(now, &mut oracle));
    }

    /// The network is well again; in time everybody has everything, or knows what is lost.
    fn settle(&mut self) {
        self.net.set_all(Link { delay_ns: 50_000, ..Link::default() });
        for i in 0..self.senders.len() {
            let now = self.now;
            self.senders[i].sender.flush(now);
            self.pump(i);
        }
        let longest = self.scenario.receiver.nak_generation_interval_ns + self.scenario.partitions.1;
        self.advance_to(self.now + longest + 3 * SECOND);
        for sender in &self.senders {
            self.outcome.retransmissions += sender.sender.stats().retransmissions;
            let session_id = sender.sender.framing().session_id;
            for node in &self.receivers {
                let Some(s) = node.sessions.get(&session_id).filter(|s| !s.ended) else { continue };
                for (topic, sent) in &self.truth[&session_id].topics {
                    let Some(progress) = s.progress.get(topic).filter(|p| p.due.is_some()) else { continue };
                    let end = sent.last().map_or(0, |m| m.last.wrapping_add(1));
                    let damaged_end = progress.damaged && progress.due == Some(sent.len() - 1);
                    assert!(
                        progress.due == Some(sent.len()) || damaged_end,
                        "receiver {} topic {topic}: {} is due at the end, {end} was sent; {:?}",
                        node.id,
                        progress.cursor,
                        s.receiver
                    );
                }
            }
        }
    }
}
