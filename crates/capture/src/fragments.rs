//! Whole IP packets out of fragments, in a bounded amount of memory.

use crate::ip::Ip;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;

/// Packets that may be incomplete at a time; the oldest gives way.
const OPEN_MAX: usize = 256;
/// The longest IP packet.
const PACKET_MAX: usize = 65_535;

type Key = (IpAddr, IpAddr, u8, u32);

#[derive(Debug, Default)]
struct Open {
    bytes: Vec<u8>,
    /// What is there: begin and end, merged.
    have: BTreeMap<usize, usize>,
    total: Option<usize>,
}

/// Packets that came in fragments.
#[derive(Debug, Default)]
pub struct Fragments {
    open: HashMap<Key, Open>,
    order: VecDeque<Key>,
    /// Packets that were given up: a fragment never came, or was captured in part.
    given_up: u64,
}

impl Fragments {
    /// Takes a fragment; gives the payload of the whole packet once it is complete.
    pub fn add(&mut self, ip: &Ip<'_>) -> Option<Vec<u8>> {
        let key = (ip.source, ip.destination, ip.protocol, ip.id);
        let end = ip.offset + ip.payload.len();
        if ip.missing > 0 || end > PACKET_MAX {
            return None;
        }
        if !self.open.contains_key(&key) {
            if self.order.len() == OPEN_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.given_up += u64::from(self.open.remove(&oldest).is_some());
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
    pub fn unfinished(&self) -> u64 {
        self.given_up + self.open.len() as u64
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn piece(offset: usize, more: bool, payload: &[u8]) -> Ip<'_> {
        let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Ip { source: host, destination: host, protocol: 17, id: 9, offset, more, payload, missing: 0 }
    }

    #[test]
    fn fragments_in_any_order_make_the_packet() {
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
}
