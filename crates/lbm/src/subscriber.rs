//! All transport sessions that a context receives from.

use std::collections::HashMap;

use core::net::{Ipv4Addr, SocketAddrV4};

use crate::random::Random;
use crate::topic::{DeliveryConfig, Dispatch, Session, SessionStats, TopicSink};
use crate::transport::lbtru::{Client, ClientConfig};
use crate::transport::memory::Memory;
use crate::transport::{DatagramSink, EndReason, Lbtrm, Received, Receiver, ReceiverConfig, ReceiverStats};
use crate::wire::WireError;
use crate::wire::header::{Header, LateJoinInfo};
use crate::wire::lbmr::{Advert, Transport};
use crate::wire::lbmr_option::{Functionality, TopicOption};
use crate::wire::lbtrm::Packet;
use crate::wire::lbtru;

/// The transport session to which a packet that came from `source` to `group`:`port` belongs, in the form of advertisements.
pub fn session_of(packet: &Packet<'_>, source: Ipv4Addr, group: Ipv4Addr, port: u16) -> Transport {
    Transport::Lbtrm {
        source,
        group,
        session_id: packet.session_id,
        destination_port: port,
        unicast_port: packet.unicast_port,
    }
}

/// What a source can do besides sending, as it advertises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Where it takes requests.
    pub requests: Option<SocketAddrV4>,
    /// The source retains messages for late joiners.
    pub late_join: bool,
    /// The source has stores.
    pub persistent: bool,
    /// The source has a queue, and this id in what it says of that.
    pub queue: Option<u32>,
    transport: u32,
}

impl Offer {
    fn of(advert: &Advert<'_>) -> Self {
        let mut offer = Self::default();
        for option in advert.options.iter().flatten() {
            match option {
                TopicOption::LateJoin(o) => {
                    offer.late_join = true;
                    offer.transport = o.transport;
                    offer.requests = Some(SocketAddrV4::new(o.address, o.port));
                }
                TopicOption::Functionality(o) => {
                    offer.late_join |= o.functions & Functionality::LATE_JOIN != 0;
                    offer.persistent = o.functions & Functionality::PERSISTENCE != 0;
                    if o.functions & Functionality::QUEUING != 0 {
                        // Records of resolution services have the flag alone: sources of ours have their topic's index as id.
                        offer.queue = offer.queue.or(Some(advert.topic));
                    }
                    offer.requests = offer.requests.or(Some(SocketAddrV4::new(o.address, o.port)));
                }
                TopicOption::Queue(o) => {
                    offer.queue = Some(o.source);
                    offer.requests = offer.requests.or(Some(SocketAddrV4::new(o.address, o.port)));
                }
                _ => {}
            }
        }
        offer
    }
}

/// How a session is received and a topic of it delivered.
#[derive(Clone, Debug, Default)]
pub struct SubscribeConfig {
    /// The topic.
    pub delivery: DeliveryConfig,
    /// The session, if this is its first topic and it is LBT-RM.
    pub lbtrm: ReceiverConfig,
    /// The same for LBT-RU.
    pub lbtru: ClientConfig,
}

/// A topic is delivered from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscribed {
    /// The session's number among those of the subscriber.
    pub session: usize,
    /// Whether the session is new: the driver opens what it needs to hear it.
    pub opened: bool,
}

#[derive(Debug)]
enum Link {
    Lbtrm(Box<Receiver<Lbtrm>>),
    Lbtru(Box<Client>),
    /// Reliable below: the driver hands datagrams to [`Subscriber::dispatch`].
    Plain,
}

#[derive(Debug)]
struct Entry {
    transport: Transport,
    link: Link,
    topics: Session,
    offers: HashMap<u32, Offer>,
    opened_at: u64,
    /// The source leaves out messages of queues that are for other receivers.
    by_receiver: bool,
}

impl Entry {
    /// Whether its source has said anything: an advertisement is anybody's word.
    fn is_heard(&self) -> bool {
        match &self.link {
            Link::Lbtrm(receiver) => receiver.is_heard(),
            Link::Lbtru(client) => client.is_connected(),
            Link::Plain => self.topics.is_running(),
        }
    }

    /// How long it may be silent at first before it gives way to another, ns: a source of LBT-RM may have nothing to say for a while,
    /// the others answer.
    fn patience(&self) -> u64 {
        if matches!(self.link, Link::Lbtrm(_)) { 2_000_000_000 } else { 200_000_000 }
    }

    fn timeout(&self) -> Option<u64> {
        let link = match &self.link {
            Link::Lbtrm(receiver) => receiver.timeout(),
            Link::Lbtru(client) => client.timeout(),
            Link::Plain => None,
        };
        link.into_iter().chain(self.topics.timeout()).min()
    }
}

/// A question of late join or recovery: goes by TCP to a source's request port, as a control message.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The source's request port.
    pub to: SocketAddrV4,
    /// The transport session of the topic.
    pub transport: Transport,
    /// The session's number.
    pub session: usize,
    /// The topic's index.
    pub topic: u32,
    /// What is asked.
    pub header: Header<'a>,
}

/// A session has ended by itself; its number is free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The session's number.
    pub session: usize,
    /// Which it was, for [`crate::resolver::Resolver::forget`].
    pub transport: Transport,
}

/// Bytes of NAKs that all sessions of a context send in [`ALLOWANCE_NS`], and those of them that have brought no datagram yet: whoever
/// forges sessions must not have us flood whom they name.
const NAK_BYTES: usize = 256 << 10;
const NAK_BYTES_UNPROVEN: usize = 4 << 10;
const ALLOWANCE_NS: u64 = 100_000_000;

/// What may still be asked for.
#[derive(Debug, Default)]
struct Allowance {
    renewed_at: u64,
    left: usize,
    left_unproven: usize,
    shed: u64,
}

impl Allowance {
    /// Whether a NAK of so many bytes may be sent. One that may not is as one that was lost: it is sent again.
    fn admit(&mut self, now: u64, bytes: usize, proven: bool) -> bool {
        if now >= self.renewed_at {
            (self.left, self.left_unproven) = (NAK_BYTES, NAK_BYTES_UNPROVEN);
            self.renewed_at = now.saturating_add(ALLOWANCE_NS);
        }
        let left = if proven { &mut self.left } else { &mut self.left_unproven };
        let admitted = *left >= bytes;
        *left -= if admitted { bytes } else { 0 };
        self.shed += u64::from(!admitted);
        admitted
    }
}

/// Sessions are made from advertisements ([`Subscriber::subscribe`]) and end by silence, or when the driver says so. What comes of
/// sessions that nobody here wants costs one table lookup.
#[derive(Debug)]
pub struct Subscriber {
    random: Random,
    sessions: Vec<Option<Entry>>,
    by_transport: HashMap<Transport, usize>,
    /// The session of the last packet: most often also that of the next.
    last: usize,
    /// Not after the first timeout of all sessions.
    due: u64,
    ended: Vec<Ended>,
    unknown: u64,
    /// For what lies behind gaps, in all sessions.
    memory: Memory,
    naks: Allowance,
}

impl Subscriber {
    /// A context that receives nothing yet. `seed` spreads its NAKs.
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            sessions: Vec::new(),
            by_transport: HashMap::new(),
            last: 0,
            due: u64::MAX,
            ended: Vec::new(),
            unknown: 0,
            memory: Memory::default(),
            naks: Allowance::default(),
        }
    }

    /// Delivers an advertised topic to `receiver`. `None` if it is delivered already. Late join and recovery are used if the source
    /// offers them and `config` asks for them.
    pub fn subscribe(
        &mut self,
        now: u64,
        advert: &Advert<'_>,
        receiver: u32,
        config: &SubscribeConfig,
        sink: &mut impl TopicSink,
    ) -> Option<Subscribed> {
        let known = self.by_transport.get(&advert.transport).copied();
        let session = known.unwrap_or_else(|| self.open(now, advert.transport, config));
        let entry = self.sessions.get_mut(session)?.as_mut()?;
        let offer = Offer::of(advert);
        let mut delivery = config.delivery.clone();
        delivery.catch_up.late_join &= offer.late_join && offer.requests.is_some();
        delivery.catch_up.recovery &= offer.late_join && offer.requests.is_some();
        delivery.catch_up.transport = offer.transport;
        if !entry.topics.add(advert.topic, receiver, delivery, sink) {
            return None;
        }
        if entry.by_receiver && offer.queue.is_some() {
            entry.topics.set_partial(advert.topic);
        }
        entry.offers.insert(advert.topic, offer);
        Some(Subscribed { session, opened: known.is_none() })
    }

    fn open(&mut self, now: u64, transport: Transport, config: &SubscribeConfig) -> usize {
        let seed = self.random.next();
        let link = match transport {
            Transport::Lbtrm { session_id, unicast_port, .. } => {
                let config = ReceiverConfig { seed, memory: self.memory.clone(), ..config.lbtrm.clone() };
                Link::Lbtrm(Box::new(Receiver::new(Lbtrm { unicast_port, session_id, group_size: 3 }, config, now)))
            }
            Transport::Lbtru { session_id, .. } => {
                let receiver = ReceiverConfig { seed, memory: self.memory.clone(), ..config.lbtru.receiver.clone() };
                let config = ClientConfig { receiver, ..config.lbtru.clone() };
                // Clients are told apart by address, too.
                let client_id = (self.random.next() >> 32) as u32 | 1;
                Link::Lbtru(Box::new(Client::new(session_id.unwrap_or(0), client_id, config, now)))
            }
            _ => Link::Plain,
        };
        let entry = Entry {
            transport,
            link,
            topics: Session::new(),
            offers: HashMap::new(),
            opened_at: now,
            by_receiver: false,
        };
        self.due = self.due.min(entry.timeout().unwrap_or(u64::MAX));
        let index = self.sessions.iter().position(Option::is_none).unwrap_or_else(|| {
            self.sessions.push(None);
            self.sessions.len() - 1
        });
        self.sessions[index] = Some(entry);
        self.by_transport.insert(transport, index);
        index
    }

    /// The session's source leaves out messages of topics with queues that are for other receivers, as it has said: their numbers are not
    /// lost.
    pub fn leave_out(&mut self, session: usize) {
        // A session that has ended meanwhile has no topics.
        let Some(Some(entry)) = self.sessions.get_mut(session) else { return };
        entry.by_receiver = true;
        for (topic, _) in entry.offers.iter().filter(|(_, offer)| offer.queue.is_some()) {
            entry.topics.set_partial(*topic);
        }
    }

    /// Delivers the topic no more. The session stays while other topics of it are wanted; if it does not, its number is returned.
    pub fn unsubscribe(&mut self, transport: &Transport, topic: u32) -> Option<usize> {
        let index = self.by_transport.get(transport).copied()?;
        let entry = self.sessions[index].as_mut()?;
        entry.topics.remove(topic);
        entry.offers.remove(&topic);
        if !entry.topics.is_empty() {
            return None;
        }
        self.sessions[index] = None;
        self.by_transport.remove(transport);
        Some(index)
    }

    /// Ends the session that has waited longest for a first word of its source, of those that `which` tells. Its receivers are not told,
    /// since nothing has begun.
    ///
    /// # Errors
    /// None has waited long enough: from when on there may be one.
    pub fn make_way(&mut self, now: u64, which: impl Fn(&Transport) -> bool) -> Result<Ended, u64> {
        let unheard = self.sessions.iter().enumerate().filter_map(|(session, entry)| {
            let entry = entry.as_ref().filter(|e| which(&e.transport) && !e.is_heard())?;
            Some((entry.opened_at.saturating_add(entry.patience()), session, entry.transport))
        });
        let (due, session, transport) = unheard.min_by_key(|(due, ..)| *due).ok_or(now.saturating_add(ALLOWANCE_NS))?;
        if due > now {
            return Err(due);
        }
        self.sessions[session] = None;
        self.by_transport.remove(&transport);
        Ok(Ended { session, transport })
    }

    /// The id that this receiver has given itself at the source of an LBT-RU session.
    pub fn client_id(&self, session: usize) -> Option<u32> {
        match &self.sessions.get(session)?.as_ref()?.link {
            Link::Lbtru(client) => client.receiver().framing().client_id,
            Link::Lbtrm(_) | Link::Plain => None,
        }
    }

    /// The abilities of a topic's source, as it says.
    pub fn offer(&self, session: usize, topic: u32) -> Option<Offer> {
        self.sessions.get(session)?.as_ref()?.offers.get(&topic).copied()
    }

    /// Whether the session's source has said anything.
    pub fn is_heard(&self, session: usize) -> bool {
        self.sessions.get(session).and_then(Option::as_ref).is_some_and(Entry::is_heard)
    }

    /// NAKs that were not sent since too many were sent already.
    pub fn naks_shed(&self) -> u64 {
        self.naks.shed
    }

    /// Bytes that the sessions hold behind gaps, beyond what each has of its own.
    pub fn memory(&self) -> usize {
        self.memory.taken()
    }

    /// Takes an LBT-RM datagram that came from `source` to `group`:`port`.
    ///
    /// # Errors
    /// Not an LBT-RM packet.
    #[inline]
    pub fn receive(
        &mut self,
        now: u64,
        source: Ipv4Addr,
        (group, port): (Ipv4Addr, u16),
        datagram: &[u8],
        sink: &mut impl TopicSink,
    ) -> Result<(), WireError> {
        let packet = Packet::decode(datagram)?;
        let Some(received) = Received::from_lbtrm(&packet) else { return Ok(()) };
        let transport = session_of(&packet, source, group, port);
        let known = matches!(self.sessions.get(self.last), Some(Some(entry)) if entry.transport == transport);
        if !known {
            let Some(index) = self.by_transport.get(&transport) else {
                self.unknown += 1;
                return Ok(());
            };
            self.last = *index;
        }
        if let Some(Some(Entry { link: Link::Lbtrm(receiver), topics, .. })) = self.sessions.get_mut(self.last) {
            receiver.receive(now, received, &mut topics.dispatch(now, sink));
            // In the steady state the only timeout is that of activity, which has moved away.
            if receiver.has_gap() || topics.is_fetching() {
                self.due_with(self.last);
            }
        }
        Ok(())
    }

    /// Takes an LBT-RU datagram of the session's source.
    ///
    /// # Errors
    /// Not an LBT-RU packet.
    #[inline]
    pub fn receive_lbtru(
        &mut self,
        now: u64,
        session: usize,
        datagram: &[u8],
        sink: &mut impl TopicSink,
    ) -> Result<(), WireError> {
        let packet = lbtru::Packet::decode(datagram)?;
        if let Some(Some(Entry { link: Link::Lbtru(client), topics, .. })) = self.sessions.get_mut(session) {
            client.receive(now, &packet, &mut topics.dispatch(now, sink));
            self.due_with(session);
        }
        Ok(())
    }

    /// Where the driver hands datagrams of LBT-TCP and LBT-IPC, which are reliable below; [`Subscriber::settle`] follows.
    pub fn dispatch<'a, S: TopicSink>(
        &'a mut self,
        now: u64,
        session: usize,
        sink: &'a mut S,
    ) -> Option<Dispatch<'a, S>> {
        Some(self.sessions.get_mut(session)?.as_mut()?.topics.dispatch(now, sink))
    }

    /// After datagrams were handed to [`Subscriber::dispatch`].
    pub fn settle(&mut self, session: usize) {
        self.due_with(session);
    }

    fn due_with(&mut self, session: usize) {
        if let Some(at) = self.sessions.get(session).and_then(|entry| entry.as_ref()?.timeout()) {
            self.due = self.due.min(at);
        }
    }

    /// The session is over, since its connection is. Its receivers are told; it is among [`Subscriber::ended`].
    pub fn end(&mut self, session: usize, reason: EndReason, sink: &mut impl TopicSink) {
        if let Some(mut entry) = self.sessions.get_mut(session).and_then(Option::take) {
            entry.topics.dispatch(0, sink).end(reason);
            self.by_transport.remove(&entry.transport);
            self.ended.push(Ended { session, transport: entry.transport });
        }
    }

    /// Takes messages that a source has sent by TCP for late join or recovery.
    pub fn fetched(&mut self, now: u64, session: usize, messages: &[u8], sink: &mut impl TopicSink) {
        if let Some(Some(entry)) = self.sessions.get_mut(session) {
            entry.topics.fetched(now, messages, sink);
            self.due_with(session);
        }
    }

    /// Takes a source's answer to a late joiner's question for `topic`.
    pub fn late_join_info(
        &mut self,
        now: u64,
        session: usize,
        topic: u32,
        info: &LateJoinInfo,
        sink: &mut impl TopicSink,
    ) {
        if let Some(Some(entry)) = self.sessions.get_mut(session) {
            entry.topics.late_join_info(now, topic, info, sink);
            self.due_with(session);
        }
    }

    /// When [`Subscriber::on_timer`] is to be called; now and then earlier than anything is due.
    pub fn timeout(&self) -> Option<u64> {
        (self.due != u64::MAX).then_some(self.due)
    }

    /// Asks for what is missing and ends silent sessions: `send` gets a session's number, its transport and a packet for its source
    /// (NAKs to the LBT-RM source's NAK port, everything of LBT-RU to the source), `ask` questions for request ports. Hand
    /// [`Subscriber::ended`] to the resolver afterwards.
    pub fn on_timer(
        &mut self,
        now: u64,
        sink: &mut impl TopicSink,
        mut send: impl FnMut(usize, &Transport, &[u8]),
        mut ask: impl FnMut(Question<'_>),
    ) {
        if now < self.due {
            return;
        }
        self.due = u64::MAX;
        for (session, slot) in self.sessions.iter_mut().enumerate() {
            let Some(entry) = slot else { continue };
            let Entry { transport, link, topics, offers, .. } = entry;
            let transport = *transport;
            let naks = &mut self.naks;
            let ended = match link {
                Link::Lbtrm(receiver) => {
                    let proven = receiver.has_data();
                    receiver.on_timer(now, &mut topics.dispatch(now, sink), |packet| {
                        if naks.admit(now, packet.len(), proven) {
                            send(session, &transport, packet);
                        }
                    });
                    receiver.is_ended()
                }
                Link::Lbtru(client) => {
                    // The client's source has answered from where it says that it is.
                    client.on_timer(now, &mut topics.dispatch(now, sink), |packet| {
                        if naks.admit(now, packet.len(), true) {
                            send(session, &transport, packet);
                        }
                    });
                    client.is_ended()
                }
                Link::Plain => false,
            };
            topics.on_timer(now, sink, |topic, header| {
                if let Some(to) = offers.get(&topic).and_then(|offer| offer.requests) {
                    ask(Question { to, transport, session, topic, header });
                }
            });
            if ended {
                self.by_transport.remove(&transport);
                self.ended.push(Ended { session, transport });
                *slot = None;
            } else if let Some(at) = entry.timeout() {
                self.due = self.due.min(at);
            }
        }
    }

    /// Asserts what holds between calls. It looks at everything: for tests and simulations.
    ///
    /// # Panics
    /// Something does not hold: a fault of this module.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        let open = self.sessions.iter().flatten().count();
        assert_eq!(open, self.by_transport.len(), "each session is found by its transport, and nothing else is");
        for (transport, session) in &self.by_transport {
            let entry = self.sessions.get(*session).and_then(Option::as_ref);
            let entry = entry.unwrap_or_else(|| panic!("session {session} is found and not there"));
            assert_eq!(entry.transport, *transport, "session {session} is found by another's transport");
            match &entry.link {
                Link::Lbtrm(receiver) => receiver.check_invariants(),
                Link::Lbtru(client) => client.receiver().check_invariants(),
                Link::Plain => {}
            }
            entry.topics.check_invariants();
            assert!(!entry.topics.is_empty(), "session {session} stays, and nobody wants a topic of it");
            // Activity moves away from `due` without a word; nothing else may.
            let repair = match &entry.link {
                Link::Lbtrm(receiver) if receiver.has_gap() => receiver.timeout(),
                Link::Lbtru(client) => client.timeout(),
                Link::Lbtrm(_) | Link::Plain => None,
            };
            let due = entry.topics.timeout().into_iter().chain(repair).min().unwrap_or(u64::MAX);
            assert!(self.due <= due, "session {session} is to be woken at {due}, the subscriber at {}", self.due);
        }
        assert!(self.naks.left <= NAK_BYTES && self.naks.left_unproven <= NAK_BYTES_UNPROVEN, "more NAKs than allowed");
    }

    /// The sessions that have ended since the last call. Their receivers were told.
    pub fn ended(&mut self) -> impl Iterator<Item = Ended> {
        self.ended.drain(..)
    }

    /// How many sessions there are.
    pub fn count(&self) -> usize {
        self.by_transport.len()
    }

    /// The next of these; `None` when there are no more.
    pub fn next_ended(&mut self) -> Option<Ended> {
        self.ended.pop()
    }

    /// Which session has this number.
    pub fn transport(&self, session: usize) -> Option<Transport> {
        Some(self.sessions.get(session)?.as_ref()?.transport)
    }

    /// Packets of sessions that nobody here wants.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// The number of a session.
    pub fn session(&self, transport: &Transport) -> Option<usize> {
        self.by_transport.get(transport).copied()
    }

    /// Each session with its counters. Those of the transport are zero where it is reliable below.
    pub fn sessions(&self) -> impl Iterator<Item = (Transport, ReceiverStats, SessionStats)> {
        self.sessions.iter().flatten().map(|entry| {
            let stats = match &entry.link {
                Link::Lbtrm(receiver) => receiver.stats(),
                Link::Lbtru(client) => client.receiver().stats(),
                Link::Plain => ReceiverStats::default(),
            };
            (entry.transport, stats, entry.topics.stats())
        })
    }

    /// The numbers reported lost of each topic of a session: (receiver, topic index, count).
    pub fn topics(&self, session: usize) -> impl Iterator<Item = (u32, u32, u64)> {
        self.sessions.get(session).and_then(Option::as_ref).into_iter().flat_map(|entry| entry.topics.topics())
    }
}
