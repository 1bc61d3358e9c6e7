//! Messages of all sides, and their ways to the other side.

use super::super::json::JsonWire;
use super::super::provider::Provider;
use super::{READ, SECOND, World};
use hub::distributor::SessionId;
use hub::p2ps::ClientId;
use rwf::msg::{Msg, RefreshFlags, RequestFlags};

/// Longest that a post may be without answer, all timeouts on its way together.
const POST_ANSWERED: u64 = 20 * SECOND;
/// The same where both sides may stand still.
const POST_ANSWERED_LATE: u64 = 60 * SECOND;

impl World {
    pub(super) fn consumer_acts(&mut self) {
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

    /// The messages of a consumer reach its P2PS.
    pub(super) fn deliver_up(&mut self, at: usize) {
        let Some(consumer) = &mut self.consumers[at] else { return };
        if self.hub.is_p2ps_still(consumer.shard, self.now) {
            return;
        }
        if self.hub.shards[consumer.shard].sockets.get(&(at as u32)).is_some_and(|socket| socket.paused) {
            return;
        }
        let (shard, out) = (consumer.shard, std::mem::take(&mut consumer.out));
        if let Some(wire) = self.hub.shards[shard].speakers.get_mut(&(at as u32)) {
            if !out.is_empty() {
                wire.say(self.now, &out, &self.names[shard], &mut self.random);
            }
            if wire.at_once {
                self.pump_up(at, shard, true);
            }
            return;
        }
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
        let shard = &mut self.hub.shards[shard];
        if shard.machine.client_message(self.now, ClientId(at as u32), bytes) {
            shard.done(at as u32, bytes);
        }
    }

    /// Some of what a JSON client has said arrives, or all.
    fn pump_up(&mut self, at: usize, shard: usize, all: bool) {
        let errors = |world: &Self| world.hub.shards[shard].speakers.get(&(at as u32)).map(JsonWire::nonsense);
        let before = errors(self);
        for bytes in self.hub.shards[shard].hear(self.now, at as u32, all, &mut self.random) {
            self.client_says(at, shard, &bytes);
        }
        if errors(self) != before {
            self.note(|| format!("consumer {at} -> something makes no sense"));
        }
    }

    /// Some of what is on its way to a JSON client arrives, or all.
    fn pump_down(&mut self, at: usize, shard: usize, all: bool) {
        let Self { hub, names, random, now, .. } = self;
        let Some(wire) = hub.shards[shard].speakers.get_mut(&(at as u32)) else { return };
        for bytes in wire.arrive_down(*now, all, &names[shard], random) {
            self.at_consumer(at, &bytes);
        }
    }

    pub(super) fn provider_acts(&mut self) {
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
        if provider.is_going {
            // Most are there again at once.
            self.provider_down(at);
            if self.random.chance(80) {
                self.provider_up(at);
            }
            return;
        }
        let sends = random.below(provider.outbox.len() + 2);
        self.deliver_provider(at, sends);
    }

    /// Some of what a provider has sent reaches its distributor.
    pub(super) fn deliver_provider(&mut self, at: usize, count: usize) {
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
            } else if let Some(wire) = self.json_providers.get_mut(&at) {
                let heard = wire.up(self.now, &bytes, &mut self.random);
                self.provider_says(at, &heard);
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
    pub(super) fn count_requests(&mut self, number: usize) {
        let from = std::mem::replace(&mut self.counted[number], self.hub.distributors[number].sink.sent.len());
        let sent: Vec<_> = self.hub.distributors[number].sink.sent[from..].into();
        for (session, bytes) in sent {
            let route = self.providers.iter().any(|p| (p.distributor, p.session) == (number, session));
            if route {
                self.count_request(super::place(session), &bytes);
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
    pub(super) fn pump(&mut self) {
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
            if let Some(wire) = self.hub.shards[shard].speakers.get(&(at as u32)) {
                let all = self.eager || wire.at_once;
                self.pump_up(at, shard, all);
                self.pump_down(at, shard, all);
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

    pub(super) fn publisher_acts(&mut self) {
        let Self { publishers, truth, random, .. } = self;
        let Some(publisher) = publishers.first_mut() else { return };
        while publisher.receive() {}
        for _ in 0..random.below(4) {
            publisher.act(truth, random);
        }
        let sends = random.below(publisher.outbox.len() + 2);
        self.deliver_publisher(sends);
    }

    pub(super) fn deliver_publisher(&mut self, count: usize) {
        if self.publishers.first().is_some_and(|p| self.hub.is_deaf(p.distributor, self.now)) {
            return;
        }
        for _ in 0..count {
            let Some(mut bytes) = self.publishers[0].outbox.pop_front() else { return };
            self.note(|| format!("publisher -> {}", text(&bytes)));
            if let Some(wire) = &mut self.publisher_wire {
                bytes = wire.up(self.now, &bytes, &mut self.random);
            }
            let publisher = &self.publishers[0];
            let distributor = &mut self.hub.distributors[publisher.distributor];
            let session = SessionId(publisher.session);
            distributor.machine.session_message(self.now, session, &bytes, &mut distributor.sink);
        }
    }

    pub(super) fn read_sinks(&mut self) {
        for number in 0..self.hub.distributors.len() {
            self.count_requests(number);
            self.counted[number] = 0;
            let sink = std::mem::take(&mut self.hub.distributors[number].sink);
            for (session, reason) in sink.closed {
                assert!(reason.contains("has not answered login and directory in time"), "session is closed: {reason}");
                let of = |p: &&mut Provider| (p.distributor, p.session) == (number, session);
                if let Some(provider) = self.providers.iter_mut().find(of) {
                    provider.stop();
                    self.provider_wires.remove(&super::place(session));
                } else if let Some(publisher) = self.publishers.iter_mut().find(|p| p.session == session) {
                    publisher.stop();
                }
            }
            for (session, bytes) in sink.sent {
                self.note(|| format!("    distributor {number} -> session {session}: {}", text(&bytes)));
                let is_route = self.providers.iter().any(|p| (p.distributor, p.session) == (number, session));
                if is_route {
                    let provider = &mut self.providers[super::place(session)];
                    if let Some(wire) = self.provider_wires.get_mut(&super::place(session)) {
                        wire.client_sends(self.now, &bytes);
                    } else if let Some(wire) =
                        self.json_providers.get_mut(&super::place(session)).filter(|_| provider.up)
                    {
                        provider.deliver(wire.down(self.now, &bytes, &mut self.random));
                    } else if provider.up {
                        provider.deliver(bytes);
                    }
                } else if let Some(publisher) = self.publishers.iter_mut().find(|p| p.up && p.session == session) {
                    let bytes = match &mut self.publisher_wire {
                        Some(wire) => wire.down(self.now, &bytes, &mut self.random),
                        None => bytes,
                    };
                    publisher.incoming.push_back(bytes);
                }
            }
        }
    }

    pub(super) fn read_clients(&mut self) {
        for shard in 0..self.hub.shards.len() {
            for (client, bytes) in std::mem::take(&mut self.hub.shards[shard].delivered) {
                let at = client as usize;
                let home = self.consumers[at].as_ref().map(|consumer| consumer.shard);
                assert_eq!(home, Some(shard), "a delivery to a client of another shard");
                if let Some(wire) = self.hub.shards[shard].speakers.get_mut(&client) {
                    wire.put(&bytes);
                    if wire.at_once {
                        self.pump_down(at, shard, true);
                    }
                } else if let Some(wire) = self.consumer_wires.get_mut(&at) {
                    wire.server_sends(self.now, &[bytes]);
                } else {
                    self.at_consumer(at, &bytes);
                }
            }
            for (client, reason) in std::mem::take(&mut self.hub.shards[shard].closing) {
                if client >= super::FIRST_STRANGER {
                    self.stranger_closed(shard, client, &reason);
                    continue;
                }
                let slow = self.hub.shards[shard].sockets.contains_key(&client);
                assert!(slow && reason.starts_with("slow consumer"), "client {client} is closed: {reason}");
                self.note(|| format!("consumer {client} is cut off: {reason}"));
                self.hub.shards[shard].hang_up(client);
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
            parts.push(rwf_text::message(bytes, None).to_string());
        }
        _ => {}
    }
    parts.join(" ")
}
