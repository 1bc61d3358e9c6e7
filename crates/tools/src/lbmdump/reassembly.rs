//! Whole datagrams out of IP fragments, and the bytes of TCP streams in order. Both hold a bounded amount.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};

use lbm::wire::distance;

use super::packet::{Ip, Segment};

/// Datagrams that may be incomplete at a time; the oldest gives way.
const OPEN_MAX: usize = 256;
/// The longest IP packet.
const PACKET_MAX: usize = 65_535;
/// Bytes that may wait behind a hole in a stream; then the hole is passed over.
const EARLY_MAX: usize = 1 << 20;

type FragmentKey = (Ipv4Addr, Ipv4Addr, u8, u16);

#[derive(Default)]
struct Open {
    bytes: Vec<u8>,
    /// What is there: begin and end, merged.
    have: BTreeMap<usize, usize>,
    total: Option<usize>,
}

/// Datagrams that came in fragments.
#[derive(Default)]
pub(super) struct Fragments {
    open: HashMap<FragmentKey, Open>,
    order: VecDeque<FragmentKey>,
    /// Datagrams that were given up: a fragment never came, or was captured in part.
    pub(super) incomplete: u64,
}

impl Fragments {
    /// Takes a fragment; gives the payload of the whole IP packet once it is complete.
    pub(super) fn add(&mut self, ip: &Ip<'_>) -> Option<Vec<u8>> {
        let key = (ip.source, ip.destination, ip.protocol, ip.id);
        let end = ip.offset + ip.payload.len();
        if ip.is_cut || end > PACKET_MAX {
            return None;
        }
        if !self.open.contains_key(&key) {
            if self.order.len() == OPEN_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.incomplete += u64::from(self.open.remove(&oldest).is_some());
            }
            self.order.push_back(key);
        }
        let open = self.open.entry(key).or_default();
        if open.bytes.len() < end {
            open.bytes.resize(end, 0);
        }
        open.bytes[ip.offset..end].copy_from_slice(ip.payload);
        if !ip.more {
            open.total = Some(end);
        }
        open.cover(ip.offset, end);
        let is_whole = open.total.is_some_and(|total| open.have.get(&0).is_some_and(|end| *end >= total));
        if !is_whole {
            return None;
        }
        self.order.retain(|k| *k != key);
        let mut open = self.open.remove(&key)?;
        open.bytes.truncate(open.total?);
        Some(open.bytes)
    }

    /// How many are still incomplete, or were given up.
    pub(super) fn unfinished(&self) -> u64 {
        self.incomplete + self.open.len() as u64
    }
}

impl Open {
    fn cover(&mut self, mut begin: usize, mut end: usize) {
        let touching: Vec<usize> = self.have.range(..=end).filter(|(_, e)| **e >= begin).map(|(b, _)| *b).collect();
        for b in touching {
            end = end.max(self.have.remove(&b).unwrap_or(end));
            begin = begin.min(b);
        }
        self.have.insert(begin, end);
    }
}

/// One direction of a TCP connection.
#[derive(Default)]
struct Stream {
    next: Option<u32>,
    /// In order, not taken yet.
    ready: Vec<u8>,
    early: BTreeMap<u64, Vec<u8>>,
    early_bytes: usize,
}

/// All TCP streams that carry messages.
#[derive(Default)]
pub(super) struct Streams {
    streams: HashMap<(SocketAddrV4, SocketAddrV4), Stream>,
}

/// What is in order of a stream.
pub(super) struct Ready {
    /// All that was not taken yet.
    pub(super) bytes: Vec<u8>,
    /// Bytes before these are missing from the capture.
    pub(super) after_hole: bool,
}

impl Streams {
    /// Takes a segment; gives what is in order now. What the caller leaves of it goes back by [`Self::keep`].
    pub(super) fn add(&mut self, from: SocketAddrV4, to: SocketAddrV4, segment: &Segment<'_>) -> Ready {
        let stream = self.streams.entry((from, to)).or_default();
        if segment.is_syn {
            *stream = Stream { next: Some(segment.sequence.wrapping_add(1)), ..Stream::default() };
            return Ready { bytes: Vec::new(), after_hole: false };
        }
        let next = *stream.next.get_or_insert(segment.sequence);
        let ahead = distance(next, segment.sequence);
        let mut after_hole = false;
        if ahead > 0 {
            if !segment.payload.is_empty() {
                stream.early_bytes += segment.payload.len();
                stream.early.insert(u64::from(segment.sequence), segment.payload.to_vec());
            }
            if stream.early_bytes > EARLY_MAX {
                after_hole = true;
                stream.ready.clear();
                stream.next = stream
                    .early
                    .keys()
                    .map(|s| *s as u32)
                    .min_by_key(|s| distance(next, *s).max(0))
                    .or(Some(segment.sequence));
            }
        } else if let Some(new) = segment.payload.get(ahead.unsigned_abs() as usize..) {
            stream.take(new);
        }
        stream.take_early();
        Ready { bytes: std::mem::take(&mut stream.ready), after_hole }
    }

    /// Takes back what was not read yet.
    pub(super) fn keep(&mut self, from: SocketAddrV4, to: SocketAddrV4, bytes: Vec<u8>) {
        if let Some(stream) = self.streams.get_mut(&(from, to)) {
            stream.ready = bytes;
        }
    }
}

impl Stream {
    fn take(&mut self, new: &[u8]) {
        self.ready.extend_from_slice(new);
        self.next = self.next.map(|next| next.wrapping_add(new.len() as u32));
    }

    fn take_early(&mut self) {
        while let Some(next) = self.next {
            let found = self.early.keys().copied().find(|s| distance(next, *s as u32) <= 0);
            let Some(sequence) = found else { return };
            let bytes = self.early.remove(&sequence).unwrap_or_default();
            self.early_bytes -= bytes.len();
            let known = distance(sequence as u32, next).unsigned_abs() as usize;
            if let Some(new) = bytes.get(known..) {
                self.take(new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: usize, more: bool, payload: &[u8]) -> Ip<'_> {
        let (source, destination) = (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST);
        Ip { source, destination, protocol: 17, id: 9, offset, more, payload, is_cut: false }
    }

    #[test]
    fn fragments_in_any_order_make_the_datagram() {
        let whole: Vec<u8> = (0..40).collect();
        let pieces = [piece(0, true, &whole[..16]), piece(16, true, &whole[16..32]), piece(32, false, &whole[32..])];
        for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
            let mut fragments = Fragments::default();
            let got: Vec<_> = order.iter().filter_map(|i| fragments.add(&pieces[*i])).collect();
            assert_eq!(got, std::slice::from_ref(&whole), "{order:?}");
            assert_eq!(fragments.unfinished(), 0);
        }
        let mut fragments = Fragments::default();
        for id in 0..1000 {
            assert_eq!(fragments.add(&Ip { id, ..pieces[0] }), None);
        }
        assert_eq!((fragments.unfinished(), fragments.open.len()), (1000, OPEN_MAX));
    }

    #[test]
    fn a_stream_is_put_in_order_and_repeated_bytes_are_taken_once() {
        let (a, b) = (SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1), SocketAddrV4::new(Ipv4Addr::LOCALHOST, 2));
        let mut streams = Streams::default();
        let near_wrap = u32::MAX - 2;
        let segment = |at: u32, payload| Segment { sequence: near_wrap.wrapping_add(at), is_syn: false, payload };
        streams.add(a, b, &Segment { is_syn: true, ..segment(u32::MAX, b"".as_slice()) });
        let ready = streams.add(a, b, &segment(0, b"ab"));
        streams.keep(a, b, ready.bytes);
        for repeated in [segment(4, b"ef".as_slice()), segment(0, b"ab")] {
            let ready = streams.add(a, b, &repeated);
            streams.keep(a, b, ready.bytes);
        }
        let ready = streams.add(a, b, &segment(1, b"bcdef"));
        assert_eq!((ready.bytes.as_slice(), ready.after_hole), (b"abcdef".as_slice(), false));
    }
}
