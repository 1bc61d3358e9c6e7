//! LBT-RU: one source, any number of clients that ask for it by unicast.
//!
//! How the product's packets follow each other is not known; ours: a client repeats its connection request until a session message
//! with SYN comes, acknowledges it and then every acknowledgement interval. It is dropped after a silence.

use core::net::SocketAddrV4;

use super::{Carrier, DatagramSink, EndReason, Framing, Received, Receiver, ReceiverConfig, Sender, SenderConfig};
use crate::wire::lbtru::{self, Body, DATA_HEADER, Identity, Packet, SYN};
use crate::wire::{Full, NcfReason, Writer};

/// The identity that LBT-RU packets carry. Datagrams name the session only, so that one copy does for all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lbtru {
    /// From the advertisement.
    pub session_id: u32,
    /// A receiver's own id; `None` at the source.
    pub client_id: Option<u32>,
}

impl Lbtru {
    fn identity(&self) -> Identity {
        Identity { session_id: Some(self.session_id), client_id: self.client_id }
    }

    fn packet<'a>(&self, flags: u16, body: Body<'a>) -> Packet<'a> {
        Packet { flags, identity: self.identity(), body }
    }
}

impl Framing for Lbtru {
    const HEADER: usize = DATA_HEADER;

    #[inline]
    fn begin(&self, header: &mut [u8]) {
        header.copy_from_slice(&lbtru::data_template(self.session_id));
    }

    #[inline]
    fn stamp(&self, header: &mut [u8], sqn: u32, trail: u32) {
        lbtru::stamp_data(header, sqn, trail);
    }

    fn mark(&self, header: &mut [u8], trail: u32) {
        lbtru::mark_retransmission(header, trail);
    }

    fn session_message(&self, w: &mut Writer<'_>, sm_sqn: u32, lead: u32, trail: u32) -> Result<(), Full> {
        self.packet(0, Body::SessionMessage { sm_sqn, lead, trail }).encode(w)
    }

    fn ncf(&self, w: &mut Writer<'_>, trail: u32, reason: NcfReason, sqns: &[u32]) -> Result<(), Full> {
        lbtru::encode_list(w, self.identity(), Some((trail, reason)), sqns)
    }

    fn nak(&self, w: &mut Writer<'_>, sqns: &[u32]) -> Result<(), Full> {
        lbtru::encode_list(w, self.identity(), None, sqns)
    }
}

/// How long a client that has not acknowledged keeps its place when there is none left, ns: more than a round trip, no more than a few
/// connection requests.
const CONNECT_PATIENCE_NS: u64 = 250_000_000;

#[derive(Clone, Copy, Debug)]
struct Peer {
    address: SocketAddrV4,
    client_id: Option<u32>,
    heard_at: u64,
    connected: bool,
}

/// A source's side of a session.
#[derive(Debug)]
pub struct Server {
    sender: Sender<Lbtru>,
    peers: Vec<Peer>,
    peers_max: usize,
    /// `transport_lbtru_client_activity_timeout`.
    client_activity_timeout_ns: u64,
    replies: Vec<(SocketAddrV4, Vec<u8>)>,
    refused: u64,
    changes: u64,
}

impl Server {
    /// A session without clients; no more than `clients_max` are taken.
    pub fn new(session_id: u32, config: SenderConfig, clients_max: usize, client_activity_timeout_ns: u64) -> Self {
        Self {
            sender: Sender::new(Lbtru { session_id, client_id: None }, config),
            peers: Vec::new(),
            peers_max: clients_max,
            client_activity_timeout_ns,
            replies: Vec::new(),
            refused: 0,
            changes: 0,
        }
    }

    /// The datagrams: each of [`Sender::output`] goes to every address of [`Server::clients`].
    pub fn sender(&mut self) -> &mut Sender<Lbtru> {
        &mut self.sender
    }

    /// Where datagrams go.
    pub fn clients(&self) -> impl Iterator<Item = SocketAddrV4> {
        self.peers.iter().filter(|peer| peer.connected).map(|peer| peer.address)
    }

    /// The same with the ids that clients have given themselves.
    pub fn client_ids(&self) -> impl Iterator<Item = (SocketAddrV4, Option<u32>)> {
        self.peers.iter().filter(|peer| peer.connected).map(|peer| (peer.address, peer.client_id))
    }

    /// How often [`Server::clients`] has changed.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Connection requests refused, since there were too many clients, or since they did not name the session.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Packets for single clients; cleared afterwards.
    pub fn replies(&mut self, mut send: impl FnMut(SocketAddrV4, &[u8])) {
        for (to, packet) in self.replies.drain(..) {
            send(to, &packet);
        }
    }

    fn reply(&mut self, to: SocketAddrV4, packet: &Packet<'_>) {
        let mut bytes = [0; 64];
        let mut w = Writer::new(&mut bytes);
        if self.replies.len() < 1024 && packet.encode(&mut w).is_ok() {
            self.replies.push((to, w.written().to_vec()));
        }
    }

    /// Takes a packet that came to the source's port.
    pub fn receive(&mut self, now: u64, from: SocketAddrV4, packet: &Packet<'_>) {
        let session_id = self.sender.framing().session_id;
        if packet.identity.session_id.is_some_and(|id| id != session_id) {
            return;
        }
        let known = self.peers.iter().position(|peer| peer.address == from);
        match packet.body {
            Body::ConnectRequest => {
                if known.is_none() {
                    // Who knows the session from its advertisement knows its number. Who only guesses at ports does not, and must
                    // neither take a place nor have us answer to whatever address it gives.
                    if packet.identity.session_id.is_none() || !self.has_place(now) {
                        self.refused += 1;
                        return;
                    }
                    let client_id = packet.identity.client_id;
                    self.peers.push(Peer { address: from, client_id, heard_at: now, connected: false });
                }
                let index = known.unwrap_or(self.peers.len() - 1);
                let peer = &mut self.peers[index];
                peer.heard_at = now;
                let client_id = peer.client_id;
                // What is already on its way to the socket is not for this client.
                self.sender.flush(now);
                self.sender.start_session_messages(now);
                let (sm_sqn, lead, trail) = self.sender.session_message();
                let identity = Identity { session_id: Some(session_id), client_id };
                self.reply(from, &Packet { flags: SYN, identity, body: Body::SessionMessage { sm_sqn, lead, trail } });
            }
            Body::Ack { .. } => {
                if let Some(index) = known {
                    self.peers[index].heard_at = now;
                    let was_connected = core::mem::replace(&mut self.peers[index].connected, true);
                    self.changes += u64::from(!was_connected);
                }
            }
            Body::Nak { sqns, .. } => {
                if let Some(index) = known {
                    self.peers[index].heard_at = now;
                    let peer = u64::from(u32::from(*from.ip())) << 16 | u64::from(from.port());
                    self.sender.nak(now, peer, sqns.iter());
                }
            }
            _ => {}
        }
    }

    /// Whether one more client can be taken. One that has asked and then said nothing gives way.
    fn has_place(&mut self, now: u64) -> bool {
        if self.peers.len() < self.peers_max {
            return true;
        }
        let silent = |peer: &Peer| !peer.connected && now.saturating_sub(peer.heard_at) >= CONNECT_PATIENCE_NS;
        let Some(index) = self.peers.iter().position(silent) else { return false };
        self.peers.swap_remove(index);
        true
    }

    /// When [`Server::on_timer`] is to be called.
    pub fn timeout(&self) -> Option<u64> {
        let silent = self.peers.iter().map(|peer| peer.heard_at.saturating_add(self.client_activity_timeout_ns)).min();
        self.sender.timeout().into_iter().chain(silent).min()
    }

    /// Drops silent clients and drives the sender.
    pub fn on_timer(&mut self, now: u64) {
        self.sender.on_timer(now);
        let mut i = 0;
        while let Some(peer) = self.peers.get(i).copied() {
            if now < peer.heard_at.saturating_add(self.client_activity_timeout_ns) {
                i += 1;
                continue;
            }
            self.peers.swap_remove(i);
            self.changes += 1;
            self.reply(peer.address, &Packet { flags: 0, identity: Identity::default(), body: Body::Reset });
        }
    }
}

/// How a receiver connects.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Recovery, as for LBT-RM.
    pub receiver: ReceiverConfig,
    /// Between connection requests, ns: `transport_lbtru_connect_interval`.
    pub connect_interval_ns: u64,
    /// How many of them: `transport_lbtru_maximum_connect_attempts`.
    pub connect_attempts_max: u32,
    /// Between acknowledgements, ns: `transport_lbtru_acknowledgement_interval`.
    pub acknowledgement_interval_ns: u64,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            receiver: ReceiverConfig { nak_initial_backoff_interval_ns: 0, ..ReceiverConfig::default() },
            connect_interval_ns: 100_000_000,
            connect_attempts_max: 600,
            acknowledgement_interval_ns: 500_000_000,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connecting { attempts: u32 },
    Connected,
    Ended,
}

/// A receiver's side of a session.
#[derive(Debug)]
pub struct Client {
    receiver: Receiver<Lbtru>,
    config: ClientConfig,
    phase: Phase,
    due: u64,
}

impl Client {
    /// A receiver that will ask for a connection at once; `client_id` is its own choice.
    pub fn new(session_id: u32, client_id: u32, config: ClientConfig, now: u64) -> Self {
        let framing = Lbtru { session_id, client_id: Some(client_id) };
        Self {
            receiver: Receiver::new(framing, config.receiver.clone(), now),
            config,
            phase: Phase::Connecting { attempts: 0 },
            due: now,
        }
    }

    /// The receiving session.
    pub fn receiver(&self) -> &Receiver<Lbtru> {
        &self.receiver
    }

    /// Whether the source has answered.
    pub fn is_connected(&self) -> bool {
        matches!(self.phase, Phase::Connected)
    }

    /// Whether the connection is over.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended || self.receiver.is_ended()
    }

    /// Takes a packet that came from the source.
    #[inline]
    pub fn receive(&mut self, now: u64, packet: &Packet<'_>, sink: &mut impl DatagramSink) {
        if packet.identity.session_id.is_some_and(|id| id != self.receiver.framing().session_id) {
            return;
        }
        if packet.body == Body::Reset && self.phase == Phase::Connected {
            self.phase = Phase::Ended;
            self.receiver.end(EndReason::Reset, sink);
            return;
        }
        if let Phase::Connecting { .. } = self.phase {
            // The source's position comes first.
            if !matches!(packet.body, Body::SessionMessage { .. }) || packet.flags & SYN == 0 {
                return;
            }
            self.phase = Phase::Connected;
            self.due = now;
        }
        if let (Phase::Connected, Some(received)) = (self.phase, Received::from_lbtru(packet)) {
            self.receiver.receive(now, received, sink);
        }
    }

    /// When [`Client::on_timer`] is to be called.
    pub fn timeout(&self) -> Option<u64> {
        match self.phase {
            Phase::Ended => None,
            Phase::Connecting { .. } => Some(self.due),
            Phase::Connected => Some(self.receiver.timeout().map_or(self.due, |at| at.min(self.due))),
        }
    }

    /// Asks for the connection, for what is missing, and acknowledges; `send` gets packets for the source.
    pub fn on_timer(&mut self, now: u64, sink: &mut impl DatagramSink, mut send: impl FnMut(&[u8])) {
        if let Phase::Connected = self.phase {
            self.receiver.on_timer(now, sink, &mut send);
            if self.receiver.is_ended() {
                self.phase = Phase::Ended;
            }
        }
        if now < self.due {
            return;
        }
        let body = match &mut self.phase {
            Phase::Ended => return,
            Phase::Connecting { attempts } if *attempts >= self.config.connect_attempts_max => {
                self.phase = Phase::Ended;
                self.receiver.end(EndReason::Timeout, sink);
                return;
            }
            Phase::Connecting { attempts } => {
                *attempts += 1;
                self.due = now.saturating_add(self.config.connect_interval_ns.max(1));
                Body::ConnectRequest
            }
            Phase::Connected => {
                self.due = now.saturating_add(self.config.acknowledgement_interval_ns.max(1));
                Body::Ack { sqn: self.receiver.expected().wrapping_sub(1) }
            }
        };
        let mut bytes = [0; 32];
        let mut w = Writer::new(&mut bytes);
        if self.receiver.framing().packet(0, body).encode(&mut w).is_ok() {
            send(w.written());
        }
    }
}
