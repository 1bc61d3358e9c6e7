//! LBT-RM: datagrams to a group, NAKs from anywhere.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;

use lbm::options::{ContextOption, Options, SourceOption};
use lbm::transport::{Carrier, Lbtrm, Sender};
use lbm::wire::lbmr::Transport;
use net::udp::{Slabs, UdpOptions, UdpSocket};

use super::{NAK_TURN, TRAIN_DATAGRAMS, peer, train_max};
use crate::error::ContextError;
use crate::fault::Fault;
use crate::{Warning, io, random};

pub(super) struct LbtrmOut {
    pub(super) sender: Sender<Lbtrm>,
    pub(super) data: UdpSocket,
    pub(super) naks: UdpSocket,
    pub(super) train_max: usize,
}

impl LbtrmOut {
    pub(super) fn open(
        options: &Options,
        interface: Ipv4Addr,
        (group, port): (Ipv4Addr, u16),
        warnings: &mut Vec<Warning>,
    ) -> Result<(Self, Transport), ContextError> {
        let receive_buffer = options.get(ContextOption::TRANSPORT_LBTRM_RECEIVER_SOCKET_BUFFER);
        let nak_options = UdpOptions {
            receive_buffer: Some(receive_buffer).filter(|bytes| *bytes != 0),
            datagram_max: 8_192,
            ..UdpOptions::default()
        };
        let pool = (
            options.get(ContextOption::TRANSPORT_LBTRM_SOURCE_PORT_LOW),
            options.get(ContextOption::TRANSPORT_LBTRM_SOURCE_PORT_HIGH),
        );
        let naks = io::bind("NAKs", ContextOption::TRANSPORT_LBTRM_SOURCE_PORT_LOW, pool, interface, &nak_options)?;
        let data_options = UdpOptions {
            send_buffer: Some(options.get(ContextOption::TRANSPORT_LBTRM_SOURCE_SOCKET_BUFFER))
                .filter(|bytes| *bytes != 0),
            gso: options.get(ContextOption::UDP_OFFLOAD),
            multicast_interface: Some(interface),
            multicast_ttl: options.get(ContextOption::RESOLVER_MULTICAST_TTL) as u8,
            ..UdpOptions::default()
        };
        let any = SocketAddrV4::new(interface, 0);
        let mut data = UdpSocket::bind(any, &data_options).map_err(ContextError::io("the socket for LBT-RM data"))?;
        let to = SocketAddrV4::new(group, port);
        data.connect(to).map_err(ContextError::io(format!("sending to group {to}")))?;
        Warning::buffers(warnings, ContextOption::TRANSPORT_LBTRM_SOURCE_SOCKET_BUFFER, &data, &data_options);
        let granted =
            Warning::buffers(warnings, ContextOption::TRANSPORT_LBTRM_RECEIVER_SOCKET_BUFFER, &naks, &nak_options);

        let config = options.lbtrm_sender();
        let tgsz = options.get(SourceOption::TRANSPORT_LBTRM_TGSZ).max(1);
        let framing = Lbtrm {
            unicast_port: naks.local_addr().port(),
            session_id: random::id(),
            group_size: tgsz.ilog2().min(15) as u8,
        };
        let transport = Transport::Lbtrm {
            source: interface,
            group,
            session_id: framing.session_id,
            destination_port: port,
            unicast_port: framing.unicast_port,
        };
        let train_max = train_max(granted, config.datagram_max);
        Ok((Self { sender: Sender::new(framing, config), data, naks, train_max }, transport))
    }

    /// NAKs that have come.
    pub(super) fn receive(&mut self, now: u64, slabs: &mut Slabs, fault: &mut Fault) {
        for _ in 0..NAK_TURN {
            let Ok(received) = self.naks.recv(slabs) else { return };
            if received.is_empty() {
                return;
            }
            for arrival in &received {
                for packet in arrival.datagrams().filter(|_| !fault.loses()) {
                    self.sender.receive(now, peer(arrival.source), packet);
                }
            }
        }
    }

    /// Hands to the socket what may go. False if the socket is full.
    pub(super) fn pump(&mut self, now: u64) -> bool {
        let output = self.sender.output(now);
        if output.is_empty() {
            return true;
        }
        // A datagram that the kernel calls wrong would be so for ever: it counts as sent, which to a receiver is loss.
        let waiting = output.control().count();
        let control =
            if waiting == 0 { 0 } else { self.data.send_batch(output.control().map(|p| (None, p))).unwrap_or(waiting) };
        let (mut repeated, mut sent, mut all) = (0, 0, false);
        if control == waiting {
            let waiting = output.retransmissions().count();
            if waiting > 0 {
                let batch = output.retransmissions().map(|p| (None, p));
                repeated = self.data.send_batch(batch).unwrap_or(waiting);
            }
            if repeated == waiting {
                all = true;
                for train in output.trains(self.train_max, TRAIN_DATAGRAMS) {
                    let done = self.data.send_train(None, train.bytes, train.segment);
                    let done = done.map_or(train.datagrams, |n| n as u32);
                    sent += done;
                    if done < train.datagrams {
                        all = false;
                        break;
                    }
                }
            }
        }
        self.sender.sent_control(control);
        self.sender.sent_retransmissions(now, repeated);
        self.sender.sent(now, sent);
        all
    }

    pub(super) fn carrier(&mut self) -> &mut impl Carrier {
        &mut self.sender
    }
}

impl AsFd for LbtrmOut {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.naks.as_fd()
    }
}
