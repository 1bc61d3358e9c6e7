//! Sources that are gone, and for which the store stands in: receivers find the topic by the store's advertisement, learn from the store which
//! stores the source had, and get from those what they hold. The store sends no messages of the topic itself.
//!
//! Each store of a source stands in for it by itself. To receivers those are one source, since each names the same stores: no election is
//! needed, and none can roll. The product's stores elect one of them, by tokens.

use std::net::{Ipv4Addr, SocketAddrV4};

use super::{Entry, Log, SourceEntry, Store};
use crate::wire::{INITIAL_KNOWN, Registration, Ume, control};

/// Bytes of a store in [`Entry::Stores`].
const LINE: usize = 13;

/// A proxy source is to be there from now on, or no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// The source's registration id at this store.
    pub reg_id: u32,
    /// The topic's name.
    pub topic: Box<[u8]>,
    /// Whether it is to be there.
    pub on: bool,
}

/// A store of a source, as the source tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreLine {
    pub(super) group: u8,
    pub(super) index: u16,
    pub(super) at: SocketAddrV4,
    /// The source's registration id there.
    pub(super) reg_id: u32,
}

impl StoreLine {
    fn put(self, out: &mut Vec<u8>) {
        out.push(self.group);
        out.extend_from_slice(&self.index.to_be_bytes());
        out.extend_from_slice(&self.at.ip().octets());
        out.extend_from_slice(&self.at.port().to_be_bytes());
        out.extend_from_slice(&self.reg_id.to_be_bytes());
    }

    fn read(bytes: [u8; LINE]) -> Self {
        let [group, i0, i1, a, b, c, d, p0, p1, r0, r1, r2, r3] = bytes;
        let at = SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([p0, p1]));
        Self { group, index: u16::from_be_bytes([i0, i1]), at, reg_id: u32::from_be_bytes([r0, r1, r2, r3]) }
    }
}

/// The stores of an entry of the log.
pub(super) fn read(list: &[u8]) -> Vec<StoreLine> {
    list.chunks_exact(LINE).filter_map(|line| Some(StoreLine::read(*line.first_chunk()?))).collect()
}

/// Stores as an entry of the log has them.
pub(super) fn written(stores: &[StoreLine]) -> Vec<u8> {
    let mut list = Vec::new();
    for store in stores {
        store.put(&mut list);
    }
    list
}

impl SourceEntry {
    /// When the store stands in for the source. `None`: it does already, or is not to.
    pub(super) fn proxy_at(&self) -> Option<u64> {
        let is_wanted = !self.stores.is_empty() && self.client.conn.is_none() && !self.is_proxied;
        is_wanted.then(|| self.client.heard_at.saturating_add(self.client.activity_ns))
    }
}

impl<L: Log> Store<L> {
    /// Proxy sources that are to be made or removed, in order.
    pub fn proxies(&mut self) -> impl Iterator<Item = Proxy> {
        self.proxies.drain(..)
    }

    /// The word for receivers of a proxy source whose topic has this index in its session: a control message, for the transport or as
    /// an answer. Nothing if the source is not one for which the store stands in.
    pub fn proxy_info(&self, reg_id: u32, topic_index: u32, out: &mut Vec<u8>) {
        let at = self.by_reg_id.get(&reg_id).filter(|(_, is_receiver)| !is_receiver).map(|(at, _)| *at);
        let source = at.and_then(|at| self.sources[at].as_ref()).filter(|source| source.is_proxied);
        // The source has come back in the meantime.
        let Some(source) = source else { return };
        // As the source itself takes up no incarnation that a store has but heard of: it may have ended before a quorum did, and what receivers had
        // of its numbers elsewhere would not count for them.
        let known = source.epochs.with_messages(source.kept.end());
        let (epoch, low, epochs) = (known.latest(), known.first().unwrap_or(source.kept.low()), known.written());
        let info = Ume::Info { flags: INITIAL_KNOWN, epoch, low, high: source.kept.end().wrapping_sub(1) };
        let mut headers = vec![info, Ume::TopicIndex(topic_index), Ume::Epochs { is_new: false, pairs: &epochs }];
        let mut groups: Vec<u8> = source.stores.iter().map(|store| store.group).collect();
        groups.dedup();
        for group in groups {
            let of = source.stores.iter().filter(|store| store.group == group);
            headers.push(Ume::StoreGroup { group, size: of.clone().count() as u16 });
            headers.extend(of.map(|store| Ume::Store {
                group,
                port: store.at.port(),
                index: store.index,
                address: *store.at.ip(),
                reg_id: store.reg_id,
            }));
        }
        control(out, &headers);
    }

    /// The source has said which stores it has.
    pub(super) fn source_stores(&mut self, at: usize, stores: Vec<StoreLine>) {
        if let Some(source) = &mut self.sources[at]
            && source.flags & Registration::PROXY != 0
            && !stores.is_empty()
            && source.stores != stores
        {
            source.stores = stores;
            let reg_id = source.client.reg_id;
            self.log.write(&Entry::Stores { source: reg_id, list: &written(&source.stores) });
        }
    }

    /// Stands in for the source of a place if it has been gone for long enough.
    pub(super) fn stand_in(&mut self, now: u64, at: usize) {
        if let Some(source) = &mut self.sources[at]
            && let Some(due) = source.proxy_at()
        {
            if due > now {
                self.due = self.due.min(due);
                return;
            }
            source.is_proxied = true;
            let (reg_id, topic) = (source.client.reg_id, source.topic.clone());
            self.proxies.push(Proxy { reg_id, topic, on: true });
        }
    }
}

/// The source is there again, or is forgotten.
pub(super) fn end(source: &mut SourceEntry, proxies: &mut Vec<Proxy>) {
    if core::mem::replace(&mut source.is_proxied, false) {
        proxies.push(Proxy { reg_id: source.client.reg_id, topic: source.topic.clone(), on: false });
    }
}
