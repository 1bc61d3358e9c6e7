//! LBT-RU: datagrams to each client.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;

use lbm::options::{ContextOption, Options, SourceOption, SourceSideFiltering};
use lbm::transport::lbtru::Server;
use lbm::wire::filtering::{FilterInit, FilterRequest};
use lbm::wire::lbmr::Transport;
use lbm::wire::lbtru::Packet;
use net::udp::{Slabs, UdpOptions, UdpSocket};

use super::wishes::Wishes;
use super::{NAK_TURN, TRAIN_DATAGRAMS, put_control, train_max};
use crate::error::ContextError;
use crate::fault::Fault;
use crate::io::{Io, Watch};
use crate::{Warning, io, random};

/// Clients of one session, ours: each costs a send of everything.
const CLIENTS_MAX: usize = 1_024;

pub(super) struct LbtruOut {
    pub(super) server: Server,
    socket: UdpSocket,
    pub(super) train_max: usize,
    /// The session's number in the context.
    number: usize,
    options: UdpOptions,
    /// So many clients have a connected socket of their own, which is a descriptor each; the others are sent to by the session's
    /// socket, which costs the kernel a route lookup for each datagram.
    connected_max: usize,
    /// As of `changes`.
    clients: Vec<Client>,
    changes: u64,
    /// Sockets of clients, by their place.
    own: Vec<Option<Own>>,
    filters: SourceSideFiltering,
    wishes: Option<Wishes>,
    /// Bytes of datagrams that were handed to sockets, once for each client: counted while the session filters.
    bytes: u64,
}

struct Client {
    address: SocketAddrV4,
    /// The one that it has given itself.
    id: Option<u32>,
    /// The place of its own socket.
    own: Option<u32>,
}

/// A socket connected to one client.
struct Own {
    socket: UdpSocket,
    watch: u32,
}

impl LbtruOut {
    pub(super) fn open(
        options: &Options,
        number: usize,
        interface: Ipv4Addr,
        pool: (u16, u16),
        warnings: &mut Vec<Warning>,
    ) -> Result<(Self, Transport), ContextError> {
        let nonzero = |option| Some(options.get(option)).filter(|bytes| *bytes != 0);
        let udp = UdpOptions {
            receive_buffer: nonzero(ContextOption::TRANSPORT_LBTRU_RECEIVER_SOCKET_BUFFER),
            send_buffer: nonzero(ContextOption::TRANSPORT_LBTRU_SOURCE_SOCKET_BUFFER),
            gso: options.get(ContextOption::UDP_OFFLOAD),
            datagram_max: 8_192,
            ..UdpOptions::default()
        };
        let socket = io::bind("an LBT-RU source", ContextOption::TRANSPORT_LBTRU_PORT_LOW, pool, interface, &udp)?;
        let granted = Warning::buffers(warnings, ContextOption::TRANSPORT_LBTRU_RECEIVER_SOCKET_BUFFER, &socket, &udp);
        let config = options.lbtru_sender();
        let (session_id, timeout) = (random::id(), options.get(SourceOption::TRANSPORT_LBTRU_CLIENT_ACTIVITY_TIMEOUT));
        let train_max = train_max(granted, config.datagram_max);
        let transport =
            Transport::Lbtru { address: interface, session_id: Some(session_id), port: socket.local_addr().port() };
        let server = Server::new(session_id, config, CLIENTS_MAX, timeout);
        let connected_max = options.get(ContextOption::LBTRU_CONNECTED_CLIENTS) as usize;
        let out = Self {
            server,
            socket,
            train_max,
            number,
            options: udp,
            connected_max,
            clients: Vec::new(),
            changes: 0,
            own: Vec::new(),
            filters: options.get(SourceOption::TRANSPORT_SOURCE_SIDE_FILTERING_BEHAVIOR),
            wishes: None,
            bytes: 0,
        };
        Ok((out, transport))
    }

    /// Where clients are to ask for topics, if the session filters and does not know it yet.
    pub(super) fn filter_by(&mut self, init: FilterInit) {
        if self.filters != SourceSideFiltering::None && self.wishes.is_none() {
            self.wishes = Some(Wishes::new(init));
        }
    }

    /// A client wants a topic from the next datagram on, or no more.
    pub(super) fn filter_request(&mut self, request: &FilterRequest) {
        // An address that is no client's has no wishes: the id is known to client and source alone.
        if let Some(wishes) = &mut self.wishes
            && self.server.client_ids().any(|(_, id)| id == Some(request.client))
        {
            // An open message joins no datagram of before.
            let (_, next) = self.server.sender().window();
            wishes.request(request, next);
        }
    }

    /// Bytes that were handed to sockets for all clients together, if the session filters.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.wishes.is_some().then_some(self.bytes)
    }

    /// Connection requests, acknowledgements and NAKs that have come; by the client's own socket if its place is given.
    pub(super) fn receive(&mut self, now: u64, place: Option<u32>, slabs: &mut Slabs, fault: &mut Fault) {
        let socket = match place {
            None => &mut self.socket,
            // The client may have gone since the set has reported it.
            Some(place) => match self.own.get_mut(place as usize) {
                Some(Some(own)) => &mut own.socket,
                _ => return,
            },
        };
        for _ in 0..NAK_TURN {
            let Ok(received) = socket.recv(slabs) else { return };
            if received.is_empty() {
                return;
            }
            for arrival in &received {
                for packet in arrival.datagrams().filter(|_| !fault.loses()) {
                    if let Ok(packet) = Packet::decode(packet) {
                        self.server.receive(now, arrival.source, &packet);
                    }
                }
            }
        }
    }

    /// What has come to any of the sockets: while a send waits, and cannot know where an acknowledgement or a NAK will come.
    pub(super) fn receive_all(&mut self, now: u64, slabs: &mut Slabs, fault: &mut Fault) {
        self.receive(now, None, slabs, fault);
        for place in 0..self.own.len() as u32 {
            self.receive(now, Some(place), slabs, fault);
        }
    }

    /// Gives new clients sockets of their own, as far as there are any, and closes those of clients that have gone.
    #[cold]
    fn follow(&mut self, io: &mut Io) {
        self.changes = self.server.changes();
        let mut before = std::mem::take(&mut self.clients);
        let mut is_new = false;
        for (address, id) in self.server.client_ids() {
            let known = before.iter().position(|client| client.address == address && client.id == id);
            is_new |= known.is_none();
            self.clients.push(known.map_or(Client { address, id, own: None }, |known| before.swap_remove(known)));
        }
        if let Some(wishes) = &mut self.wishes {
            wishes.is_untold |= is_new;
            wishes.keep(|id| self.clients.iter().any(|client| client.id == Some(id)));
        }
        for place in before.iter().filter_map(|gone| gone.own) {
            if let Some(own) = self.own[place as usize].take() {
                io.unwatch(own.socket.as_fd(), own.watch);
            }
        }
        for client in self.clients.iter_mut().filter(|client| client.own.is_none()) {
            let free = self.own.iter().position(Option::is_none).unwrap_or(self.own.len());
            if free >= self.connected_max {
                break;
            }
            // Whatever the system refuses, the session's own socket reaches every client.
            let Ok(socket) = self.socket.beside(client.address, &self.options) else { break };
            let Ok(watch) = io.watch(socket.as_fd(), Watch::Client(self.number, free as u32)) else { break };
            if free == self.own.len() {
                self.own.push(None);
            }
            self.own[free] = Some(Own { socket, watch });
            client.own = Some(free as u32);
        }
    }

    /// Hands to the sockets what may go. What they do not take for some client, that client will ask for. False if they take nothing.
    pub(super) fn pump(&mut self, now: u64, io: &mut Io) -> bool {
        if self.changes != self.server.changes() {
            self.follow(io);
        }
        if let Some(wishes) = self.wishes.as_mut().filter(|wishes| wishes.is_untold) {
            // A word that finds no room now is said with the next pump.
            wishes.is_untold = put_control(now, self.server.sender(), &wishes.announcement()).is_err();
        }
        let Self { server, socket, clients, own, train_max, wishes, bytes, .. } = self;
        server.replies(|to, packet| {
            let _ = socket.send(Some(to), packet);
        });
        let sender = server.sender();
        let output = sender.output(now);
        if output.is_empty() {
            return true;
        }
        let (control, repeated) = (output.control().count(), output.retransmissions().count());
        if control + repeated > 0 {
            for client in clients.iter() {
                let (socket, to) = line(client, own, socket);
                let _ = socket.send_batch(output.control().map(|p| (to, p)));
                let is_cut = wishes.as_mut().is_some_and(|wishes| wishes.cut(client.id, output.retransmissions()));
                let _ = match wishes.as_ref().filter(|_| is_cut) {
                    Some(wishes) => socket.send_batch(wishes.datagrams().map(|p| (to, p))),
                    None => socket.send_batch(output.retransmissions().map(|p| (to, p))),
                };
            }
        }
        let (mut sent, mut all) = (0, true);
        'trains: for train in output.trains(*train_max, TRAIN_DATAGRAMS) {
            for (i, client) in clients.iter().enumerate() {
                let (socket, to) = line(client, own, socket);
                let whole = || train.bytes.chunks(train.segment.max(1));
                let is_cut = wishes.as_mut().is_some_and(|wishes| wishes.cut(client.id, whole()));
                let handed = if let Some(wishes) = wishes.as_ref().filter(|_| is_cut) {
                    *bytes += wishes.datagrams().map(|datagram| datagram.len() as u64).sum::<u64>();
                    socket.send_batch(wishes.datagrams().map(|datagram| (to, datagram)))
                } else {
                    *bytes += train.bytes.len() as u64;
                    socket.send_train(to, train.bytes, train.segment)
                };
                let done = handed.unwrap_or(train.datagrams as usize);
                if i == 0 && (done as u32) < train.datagrams {
                    // Nobody has the rest yet: it can wait.
                    sent += done as u32;
                    all = false;
                    break 'trains;
                }
            }
            sent += train.datagrams;
        }
        sender.sent_control(control);
        sender.sent_retransmissions(now, repeated);
        sender.sent(now, sent);
        all
    }

    /// Takes back what the context's set holds of the clients' sockets.
    pub(super) fn close(&mut self, io: &mut Io) {
        for own in self.own.drain(..).flatten() {
            io.unwatch(own.socket.as_fd(), own.watch);
        }
    }
}

/// The socket by which a client is reached, and the address to send to if that is not connected.
fn line<'a>(
    client: &Client,
    own: &'a mut [Option<Own>],
    shared: &'a mut UdpSocket,
) -> (&'a mut UdpSocket, Option<SocketAddrV4>) {
    match client.own.and_then(|place| own.get_mut(place as usize)) {
        Some(Some(own)) => (&mut own.socket, None),
        _ => (shared, Some(client.address)),
    }
}

impl AsFd for LbtruOut {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
