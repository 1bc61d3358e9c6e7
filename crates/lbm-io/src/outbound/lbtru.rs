//! LBT-RU: datagrams to each client.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;

use lbm::options::{Options, Scope};
use lbm::transport::lbtru::Server;
use lbm::wire::lbmr::Transport;
use lbm::wire::lbtru::Packet;
use net::udp::{Slabs, UdpOptions, UdpSocket};

use super::{NAK_TURN, TRAIN_DATAGRAMS, train_max};
use crate::error::ContextError;
use crate::fault::Fault;
use crate::{Warning, io, random};

/// Clients of one session, ours: each costs a send of everything.
const CLIENTS_MAX: usize = 1_024;

pub(super) struct LbtruOut {
    pub(super) server: Server,
    pub(super) socket: UdpSocket,
    pub(super) train_max: usize,
    clients: Vec<SocketAddrV4>,
}

impl LbtruOut {
    pub(super) fn open(
        options: &Options,
        interface: Ipv4Addr,
        pool: (u16, u16),
        warnings: &mut Vec<Warning>,
    ) -> Result<(Self, Transport), ContextError> {
        let number = |name: &str| options.number(Scope::Context, name);
        let nonzero = |name: &str| Some(number(name) as usize).filter(|bytes| *bytes != 0);
        let udp = UdpOptions {
            receive_buffer: nonzero("transport_lbtru_receiver_socket_buffer"),
            send_buffer: nonzero("transport_lbtru_source_socket_buffer"),
            gso: number("udp_offload") != 0,
            datagram_max: 8_192,
            ..UdpOptions::default()
        };
        let socket = io::bind("an LBT-RU source", "transport_lbtru_port_low", pool, interface, &udp)?;
        let granted = Warning::buffers(warnings, "transport_lbtru_receiver_socket_buffer", &socket, &udp);
        let config = options.lbtru_sender();
        let (session_id, timeout) =
            (random::id(), options.nanoseconds(Scope::Source, "transport_lbtru_client_activity_timeout"));
        let train_max = train_max(granted, config.datagram_max);
        let transport =
            Transport::Lbtru { address: interface, session_id: Some(session_id), port: socket.local_addr().port() };
        let server = Server::new(session_id, config, CLIENTS_MAX, timeout);
        Ok((Self { server, socket, train_max, clients: Vec::new() }, transport))
    }

    /// Connection requests, acknowledgements and NAKs that have come.
    pub(super) fn receive(&mut self, now: u64, slabs: &mut Slabs, fault: &mut Fault) {
        for _ in 0..NAK_TURN {
            let Ok(received) = self.socket.recv(slabs) else { return };
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

    /// Hands to the socket what may go. What the socket does not take for some client, that client will ask for. False if
    /// it takes nothing.
    pub(super) fn pump(&mut self, now: u64) -> bool {
        let socket = &mut self.socket;
        self.server.replies(|to, packet| {
            let _ = socket.send(Some(to), packet);
        });
        self.clients.clear();
        self.clients.extend(self.server.clients());
        let sender = self.server.sender();
        let output = sender.output(now);
        if output.is_empty() {
            return true;
        }
        let (control, repeated) = (output.control().count(), output.retransmissions().count());
        for to in &self.clients {
            let _ = socket.send_batch(output.control().map(|p| (Some(*to), p)));
            let _ = socket.send_batch(output.retransmissions().map(|p| (Some(*to), p)));
        }
        let (mut sent, mut all) = (0, true);
        'trains: for train in output.trains(self.train_max, TRAIN_DATAGRAMS) {
            for (i, to) in self.clients.iter().enumerate() {
                let done = socket.send_train(Some(*to), train.bytes, train.segment).unwrap_or(train.datagrams as usize);
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
}

impl AsFd for LbtruOut {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
