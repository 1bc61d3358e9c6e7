//! A capture's contents so far: transport sessions, their topics by name, and counts of both.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{Ipv4Addr, SocketAddrV4};

use lbm::wire::lbmr::Transport;

use super::sequence::Sequence;

/// A transport session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) transport: Transport,
    pub(super) first_nanos: u64,
    pub(super) last_nanos: u64,
    /// Datagrams, retransmissions included; on TCP segments with messages.
    pub(super) datagrams: u64,
    pub(super) bytes: u64,
    pub(super) messages: u64,
    pub(super) retransmissions: u64,
    /// Session messages (SM).
    pub(super) state_messages: u64,
    pub(super) naks: u64,
    /// Numbers that NAKs asked for, each as often as it was asked for.
    pub(super) nak_sqns: u64,
    pub(super) ncfs: u64,
    pub(super) ncf_sqns: u64,
    pub(super) sequence: Sequence,
    /// Senders of NAKs: packets and numbers.
    pub(super) complainers: BTreeMap<Ipv4Addr, (u64, u64)>,
}

/// A topic of a session.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) session: usize,
    pub(super) index: u32,
    /// `None` until an advertisement was seen.
    pub(super) name: Option<String>,
    /// Messages, or fragments of them.
    pub(super) messages: u64,
    /// Payload.
    pub(super) bytes: u64,
    pub(super) sequence: Sequence,
}

/// Sessions, topics and what links them.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) sessions: Vec<Session>,
    pub(super) topics: Vec<Topic>,
    by_transport: HashMap<Transport, usize>,
    /// LBT-RM by what a NAK says: source, NAK port, session id.
    by_nak: HashMap<(Ipv4Addr, u16, u32), usize>,
    /// Where LBT-RM data goes.
    groups: HashSet<SocketAddrV4>,
    /// LBT-RU (false) and TCP (true) by the source's address.
    by_address: HashMap<(bool, SocketAddrV4), usize>,
    by_index: HashMap<(usize, u32), usize>,
    /// The last topic of this number that the host offered: late join and recovery name no session.
    by_host: HashMap<(Ipv4Addr, u32), usize>,
}

impl Book {
    /// The session of a transport, new or known.
    pub(super) fn session(&mut self, transport: Transport, nanos: u64) -> usize {
        let known = match transport {
            Transport::Tcp { address, session_id, port } => self.at_address(true, address, port, session_id),
            Transport::Lbtru { address, session_id, port } => self.at_address(false, address, port, session_id),
            _ => self.by_transport.get(&transport).copied(),
        };
        let session = known.unwrap_or_else(|| self.add(transport, nanos));
        self.sessions[session].last_nanos = nanos;
        session
    }

    /// The session at an address of a source; one that an id tells from the last there is another one.
    fn at_address(&mut self, tcp: bool, address: Ipv4Addr, port: u16, id: Option<u32>) -> Option<usize> {
        let session = *self.by_address.get(&(tcp, SocketAddrV4::new(address, port)))?;
        let (Transport::Tcp { session_id, .. } | Transport::Lbtru { session_id, .. }) =
            &mut self.sessions[session].transport
        else {
            return None;
        };
        if session_id.is_some() && id.is_some() && *session_id != id {
            return None;
        }
        *session_id = session_id.or(id);
        Some(session)
    }

    fn add(&mut self, transport: Transport, nanos: u64) -> usize {
        let session = self.sessions.len();
        self.sessions.push(Session {
            transport,
            first_nanos: nanos,
            last_nanos: nanos,
            datagrams: 0,
            bytes: 0,
            messages: 0,
            retransmissions: 0,
            state_messages: 0,
            naks: 0,
            nak_sqns: 0,
            ncfs: 0,
            ncf_sqns: 0,
            sequence: Sequence::default(),
            complainers: BTreeMap::new(),
        });
        match transport {
            Transport::Lbtrm { source, unicast_port, session_id, group, destination_port } => {
                self.by_nak.insert((source, unicast_port, session_id), session);
                self.groups.insert(SocketAddrV4::new(group, destination_port));
            }
            Transport::Tcp { address, port, .. } => {
                self.by_address.insert((true, SocketAddrV4::new(address, port)), session);
            }
            Transport::Lbtru { address, port, .. } => {
                self.by_address.insert((false, SocketAddrV4::new(address, port)), session);
            }
            _ => {}
        }
        self.by_transport.insert(transport, session);
        session
    }

    /// The session that a NAK is for.
    pub(super) fn session_of_nak(&self, source: Ipv4Addr, unicast_port: u16, session_id: u32) -> Option<usize> {
        self.by_nak.get(&(source, unicast_port, session_id)).copied()
    }

    /// Whether a source was advertised or seen at the address: TCP or LBT-RU.
    pub(super) fn is_source(&self, tcp: bool, at: SocketAddrV4) -> bool {
        self.by_address.contains_key(&(tcp, at))
    }

    /// Whether LBT-RM data goes there.
    pub(super) fn is_group(&self, at: SocketAddrV4) -> bool {
        self.groups.contains(&at)
    }

    /// The topic of a session, new or known.
    pub(super) fn topic(&mut self, session: usize, index: u32) -> usize {
        *self.by_index.entry((session, index)).or_insert_with(|| {
            self.topics.push(Topic {
                session,
                index,
                name: None,
                messages: 0,
                bytes: 0,
                sequence: Sequence::default(),
            });
            self.topics.len() - 1
        })
    }

    /// The topic of a session, if it is known.
    pub(super) fn find_topic(&self, session: usize, index: u32) -> Option<usize> {
        self.by_index.get(&(session, index)).copied()
    }

    /// Learns a topic's name from an advertisement.
    pub(super) fn learn(&mut self, transport: Transport, index: u32, name: &[u8], nanos: u64) -> usize {
        let session = self.session(transport, nanos);
        let topic = self.topic(session, index);
        self.topics[topic].name = Some(String::from_utf8_lossy(name).into_owned());
        if let Some(host) = host(&transport) {
            self.by_host.insert((host, index), topic);
        }
        topic
    }

    /// A topic by number, where only the host that offers it is known.
    pub(super) fn topic_of_host(&self, host: Ipv4Addr, index: u32) -> Option<usize> {
        self.by_host.get(&(host, index)).copied()
    }

    /// How a topic is called: its name, or its number.
    pub(super) fn topic_name(&self, topic: usize) -> String {
        let topic = &self.topics[topic];
        topic.name.as_deref().map_or_else(|| format!("topic:{}", topic.index), printable)
    }

    /// How a session is called.
    pub(super) fn session_name(&self, session: usize) -> String {
        self.sessions[session].transport.to_string()
    }
}

/// The address of the host that offers a transport.
fn host(transport: &Transport) -> Option<Ipv4Addr> {
    Some(match *transport {
        Transport::Tcp { address, .. } | Transport::Lbtru { address, .. } | Transport::Lbtrdma { address, .. } => {
            address
        }
        Transport::Lbtrm { source, .. } => source,
        Transport::Lbtsmx { .. } | Transport::Lbtipc { .. } | Transport::Other { .. } => return None,
    })
}

/// A name from the network, for a terminal: what would steer it is escaped.
pub(super) fn printable(name: &str) -> String {
    net::plain::escaped(name).into_owned()
}
