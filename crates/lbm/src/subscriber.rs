//! All LBT-RM sessions that a context receives from.

use std::collections::HashMap;

use core::net::{Ipv4Addr, SocketAddrV4};

use crate::random::Random;
use crate::topic::{DeliveryConfig, Session, SessionStats, TopicSink};
use crate::transport::{Lbtrm, Received, Receiver, ReceiverConfig, ReceiverStats};
use crate::wire::WireError;
use crate::wire::header::{Header, LateJoinInfo};
use crate::wire::lbmr::{Advert, Transport};
use crate::wire::lbmr_option::{Functionality, TopicOption};
use crate::wire::lbtrm::Packet;

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
struct Offer {
    /// Where it takes requests.
    requests: Option<SocketAddrV4>,
    late_join: bool,
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
                    offer.requests = offer.requests.or(Some(SocketAddrV4::new(o.address, o.port)));
                }
                _ => {}
            }
        }
        offer
    }
}

#[derive(Debug)]
struct Entry {
    transport: Transport,
    receiver: Receiver<Lbtrm>,
    topics: Session,
    offers: HashMap<u32, Offer>,
}

/// A question of late join or recovery: goes by TCP to a source's request port, as a control message.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The source's request port.
    pub to: SocketAddrV4,
    /// The transport session of the topic.
    pub transport: Transport,
    /// The topic's index.
    pub topic: u32,
    /// What is asked.
    pub header: Header<'a>,
}

/// Sessions are made from advertisements ([`Subscriber::subscribe`]) and end by silence. What comes of sessions that nobody here wants
/// costs one table lookup.
#[derive(Debug)]
pub struct Subscriber {
    config: ReceiverConfig,
    random: Random,
    sessions: Vec<Option<Entry>>,
    by_transport: HashMap<Transport, usize>,
    /// The session of the last packet: most often also that of the next.
    last: usize,
    ended: Vec<Transport>,
    unknown: u64,
}

impl Subscriber {
    /// A context that receives nothing yet; all sessions are received as `config` says.
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            random: Random::new(config.seed),
            config,
            sessions: Vec::new(),
            by_transport: HashMap::new(),
            last: 0,
            ended: Vec::new(),
            unknown: 0,
        }
    }

    /// Delivers an advertised topic to `receiver`. Returns the group to join, or `None` if this is no LBT-RM topic or it is delivered
    /// already. Late join and recovery are used if the source offers them and `delivery` asks for them.
    pub fn subscribe(
        &mut self,
        now: u64,
        advert: &Advert<'_>,
        receiver: u32,
        mut delivery: DeliveryConfig,
        sink: &mut impl TopicSink,
    ) -> Option<(Ipv4Addr, u16)> {
        let Transport::Lbtrm { group, session_id, destination_port, unicast_port, .. } = advert.transport else {
            return None;
        };
        let index = match self.by_transport.get(&advert.transport) {
            Some(index) => *index,
            None => self.open(now, advert.transport, Lbtrm { unicast_port, session_id, group_size: 3 }),
        };
        let entry = self.sessions.get_mut(index)?.as_mut()?;
        let offer = Offer::of(advert);
        delivery.catch_up.late_join &= offer.late_join && offer.requests.is_some();
        delivery.catch_up.recovery &= offer.late_join && offer.requests.is_some();
        delivery.catch_up.transport = offer.transport;
        if !entry.topics.add(advert.topic, receiver, delivery, sink) {
            return None;
        }
        entry.offers.insert(advert.topic, offer);
        Some((group, destination_port))
    }

    fn open(&mut self, now: u64, transport: Transport, framing: Lbtrm) -> usize {
        let config = ReceiverConfig { seed: self.random.next(), ..self.config.clone() };
        let receiver = Receiver::new(framing, config, now);
        let entry = Entry { transport, receiver, topics: Session::new(), offers: HashMap::new() };
        let index = self.sessions.iter().position(Option::is_none).unwrap_or_else(|| {
            self.sessions.push(None);
            self.sessions.len() - 1
        });
        self.sessions[index] = Some(entry);
        self.by_transport.insert(transport, index);
        index
    }

    /// Delivers the topic no more. The session stays while other topics of it are wanted.
    pub fn unsubscribe(&mut self, transport: &Transport, topic: u32) {
        let Some(index) = self.by_transport.get(transport).copied() else { return };
        let Some(entry) = &mut self.sessions[index] else { return };
        entry.topics.remove(topic);
        entry.offers.remove(&topic);
        if entry.topics.is_empty() {
            self.sessions[index] = None;
            self.by_transport.remove(transport);
        }
    }

    /// Takes a datagram that came from `source` to `group`:`port`.
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
        if let Some(Some(entry)) = self.sessions.get_mut(self.last) {
            entry.receiver.receive(now, received, &mut entry.topics.dispatch(now, sink));
        }
        Ok(())
    }

    /// Takes messages that a source has sent by TCP for late join or recovery.
    pub fn fetched(&mut self, now: u64, transport: &Transport, messages: &[u8], sink: &mut impl TopicSink) {
        if let Some(Some(entry)) = self.by_transport.get(transport).and_then(|i| self.sessions.get_mut(*i)) {
            entry.topics.fetched(now, messages, sink);
        }
    }

    /// Takes a source's answer to a late joiner's question for `topic`.
    pub fn late_join_info(
        &mut self,
        now: u64,
        transport: &Transport,
        topic: u32,
        info: &LateJoinInfo,
        sink: &mut impl TopicSink,
    ) {
        if let Some(Some(entry)) = self.by_transport.get(transport).and_then(|i| self.sessions.get_mut(*i)) {
            entry.topics.late_join_info(now, topic, info, sink);
        }
    }

    /// When [`Subscriber::on_timer`] is to be called.
    pub fn timeout(&self) -> Option<u64> {
        let timeouts = |entry: &Entry| entry.receiver.timeout().into_iter().chain(entry.topics.timeout()).min();
        self.sessions.iter().flatten().filter_map(timeouts).min()
    }

    /// Asks for what is missing and ends silent sessions: `nak` gets packets for sources' NAK ports, `ask` questions for their request
    /// ports. Hand [`Subscriber::ended`] to the resolver afterwards.
    pub fn on_timer(
        &mut self,
        now: u64,
        sink: &mut impl TopicSink,
        mut nak: impl FnMut(SocketAddrV4, &[u8]),
        mut ask: impl FnMut(Question<'_>),
    ) {
        for slot in &mut self.sessions {
            let Some(entry) = slot else { continue };
            let transport = entry.transport;
            let Transport::Lbtrm { source, unicast_port, .. } = transport else { continue };
            let to = SocketAddrV4::new(source, unicast_port);
            let Entry { receiver, topics, offers, .. } = entry;
            receiver.on_timer(now, &mut topics.dispatch(now, sink), |packet| nak(to, packet));
            topics.on_timer(now, sink, |topic, header| {
                if let Some(to) = offers.get(&topic).and_then(|offer| offer.requests) {
                    ask(Question { to, transport, topic, header });
                }
            });
            if receiver.is_ended() {
                self.by_transport.remove(&transport);
                self.ended.push(transport);
                *slot = None;
            }
        }
    }

    /// The sessions that have ended since the last call, for [`crate::resolver::Resolver::forget`]. Their receivers were told.
    pub fn ended(&mut self) -> impl Iterator<Item = Transport> {
        self.ended.drain(..)
    }

    /// Packets of sessions that nobody here wants.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Each session with its counters.
    pub fn sessions(&self) -> impl Iterator<Item = (Transport, ReceiverStats, SessionStats)> {
        self.sessions.iter().flatten().map(|e| (e.transport, e.receiver.stats(), e.topics.stats()))
    }
}
