//! Traces: what one client sends and gets for a while, as a capture (pcap) that `quoteway dump` reads.
//!
//! The messages are RWF as the P2PS has them, each in a frame of RSSL and a packet of its own, whatever the client speaks. A trace has a
//! bound; what comes when it is full is counted.

use std::net::{Ipv4Addr, SocketAddr};

use capture::write::Pcap;
use hub::p2ps::ClientId;

/// Traces of a thread at a time.
pub const MOST: usize = 4;
/// Bytes of a trace.
pub const BYTES: usize = 4 << 20;
/// How long a trace that nobody takes is kept beyond its time, nanoseconds.
const KEPT: u64 = 60_000_000_000;
/// IPv4 and TCP without options, and the header of a frame.
const HEADERS: usize = 20 + 20 + 3;

/// One trace.
#[derive(Debug)]
pub struct Trace {
    /// The trace's number in the thread.
    pub number: u32,
    /// A capture: nanosecond pcap of IP packets.
    pub capture: Vec<u8>,
    /// Messages in it.
    pub messages: u64,
    /// Messages that found no room, or were too long for a packet.
    pub lost: u64,
    pcap: Pcap,
    client: ClientId,
    /// Of the client's streams this one alone.
    stream: Option<i32>,
    /// Monotonic nanoseconds.
    until: u64,
    /// From monotonic to Unix nanoseconds.
    since_epoch: u64,
    /// The client's end, then ours; each with the number of its next byte.
    ends: [(Ipv4Addr, u16, u32); 2],
}

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client.
    In,
    /// To the client.
    Out,
}

impl Trace {
    /// A trace of a client that connects from `peer` to our `port`, or of one of its streams, until a time.
    pub fn new(
        number: u32,
        (client, stream): (ClientId, Option<i32>),
        (peer, port): (&str, u16),
        (now, until): (u64, u64),
    ) -> Self {
        let peer: Option<SocketAddr> = peer.parse().ok();
        let address = |at: &SocketAddr| if let SocketAddr::V4(at) = at { *at.ip() } else { Ipv4Addr::UNSPECIFIED };
        let client_end = peer.map_or((Ipv4Addr::UNSPECIFIED, 1), |at| (address(&at), at.port()));
        let mut capture = Vec::new();
        let pcap = Pcap::begin(capture::link::RAW, &mut capture);
        let ends = [(client_end.0, client_end.1, 1), (Ipv4Addr::LOCALHOST, port, 1)];
        let since_epoch = net::clock::wall().saturating_sub(now);
        Self { number, pcap, capture, messages: 0, lost: 0, client, stream, until, since_epoch, ends }
    }

    /// The trace is over, and nobody has taken it for long.
    pub fn is_forgotten(&self, now: u64) -> bool {
        now > self.until.saturating_add(KEPT)
    }

    /// A message of a client, with the stream id that it has for the client.
    pub fn record(&mut self, now: u64, (client, stream): (ClientId, i32), way: Way, message: &[u8]) {
        if client != self.client || now > self.until || self.stream.is_some_and(|wanted| wanted != stream) {
            return;
        }
        let length = HEADERS + message.len();
        if length > 65_000 || self.capture.len() + Pcap::FRAME_HEAD + length > BYTES {
            self.lost += 1;
            return;
        }
        self.messages += 1;
        let at = now.saturating_add(self.since_epoch);
        self.pcap.frame_head(at, length, length, &mut self.capture);
        self.headers(way, length);
        self.capture.extend_from_slice(&(message.len() as u16 + 3).to_be_bytes());
        self.capture.push(0x02);
        let from = self.capture.len();
        self.capture.extend_from_slice(message);
        // A frame shared with other clients has the id of another's stream in it.
        rwf::peek::set_stream_id(&mut self.capture[from..], stream);
    }

    /// The headers of a packet; their checksums are 0, which says that they were not computed.
    fn headers(&mut self, way: Way, length: usize) {
        let (from, to) = if way == Way::In { (0, 1) } else { (1, 0) };
        let ((source, source_port, sequence), (target, target_port, expected)) = (self.ends[from], self.ends[to]);
        self.ends[from].2 = sequence.wrapping_add((length - 40) as u32);
        let capture = &mut self.capture;
        capture.extend_from_slice(&[0x45, 0]);
        capture.extend_from_slice(&(length as u16).to_be_bytes());
        capture.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
        capture.extend_from_slice(&source.octets());
        capture.extend_from_slice(&target.octets());
        capture.extend_from_slice(&source_port.to_be_bytes());
        capture.extend_from_slice(&target_port.to_be_bytes());
        capture.extend_from_slice(&sequence.to_be_bytes());
        capture.extend_from_slice(&expected.to_be_bytes());
        // Header of five words, PSH and ACK, the largest window.
        capture.extend_from_slice(&[0x50, 0x18, 0xFF, 0xFF, 0, 0, 0, 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_takes_what_it_is_for_and_is_bounded() {
        let of = (ClientId(3), Some(7));
        let mut trace = Trace::new(1, of, ("10.0.0.7:51544", 14002), (1_000, 2_000));
        let message = [0, 10, 4, 6, 0, 0, 0, 9, 0, 0, 0, 0];
        trace.record(1_500, (ClientId(3), 7), Way::Out, &message);
        trace.record(1_500, (ClientId(3), 8), Way::Out, &message);
        trace.record(1_500, (ClientId(4), 7), Way::Out, &message);
        trace.record(2_500, (ClientId(3), 7), Way::In, &message);
        assert_eq!((trace.messages, trace.lost), (1, 0));
        let before = Pcap::HEAD + Pcap::FRAME_HEAD + HEADERS;
        assert_eq!(trace.capture.len(), before + message.len());
        assert_eq!(trace.capture[before + 7], 7, "the stream id is the client's");
        let long = vec![0; 60_000];
        for _ in 0..100 {
            trace.record(1_500, (ClientId(3), 7), Way::In, &long);
        }
        assert!(trace.capture.len() <= BYTES && trace.lost > 0 && trace.messages + trace.lost == 101);
        assert!(!trace.is_forgotten(2_500) && trace.is_forgotten(2_500 + KEPT));
    }
}
