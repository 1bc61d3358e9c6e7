//! Records of sources that services have told. Nobody says them again, so they are kept: for receivers that come later, for sessions that have broken off
//! and are tried again, and for sources for which there was no room.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use super::LINKS_MAX;
use crate::wire::lbmr::{Advert, Transport};
use crate::wire::srs::{Message, OPTIONS_MAX, OTID, Record, SourceInfo};

/// A source's id.
type Id = [u8; OTID];
/// First time after which a source that could not be joined is tried again, ns; doubled each time.
const RETRY_NS: u64 = 1_000_000_000;
/// The longest such time, ns.
const RETRY_MAX_NS: u64 = 30_000_000_000;
/// Cost of an entry beside its record, in bytes, about.
const ENTRY_COST: usize = 400;

struct Entry {
    record: Box<[u8]>,
    topic: Box<[u8]>,
    transport: Transport,
    index: u32,
    /// The generation of each link that has told of the source, 0 = none.
    told: [u32; LINKS_MAX],
    /// When it is offered to receivers; `u64::MAX`: they have it. An older entry in the queue is void.
    due: u64,
    retry_ns: u64,
}

/// A source that is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The topic's name.
    pub topic: Box<[u8]>,
    /// The source's session.
    pub transport: Transport,
    /// The topic within the session.
    pub index: u32,
}

/// See the module.
#[derive(Default)]
pub(super) struct Cache {
    entries: HashMap<Id, Entry>,
    by_topic: HashMap<Box<[u8]>, Vec<Id>>,
    by_transport: HashMap<Transport, HashSet<Id>>,
    due: BinaryHeap<Reverse<(u64, Id)>>,
    bytes: usize,
}

impl Cache {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps what a link has told. False: the transport is none that is known, and nothing is kept.
    pub(super) fn insert(&mut self, now: u64, (link, generation): (usize, u32), info: &SourceInfo<'_>) -> bool {
        let mut buffer = [0; OPTIONS_MAX];
        let Some(advert) = info.advert(&mut buffer) else { return false };
        let mut record = Vec::new();
        Record::Source(*info).encode(&mut record);
        let mut told = [0; LINKS_MAX];
        if let Some(entry) = self.entries.get_mut(&info.otid) {
            if *entry.record == record[..] {
                entry.told[link] = generation;
                return true;
            }
            // Said otherwise than before: the newest counts.
            told = entry.told;
            self.remove(&info.otid);
        }
        told[link] = generation;
        let entry = Entry {
            topic: info.topic.into(),
            transport: advert.transport,
            index: info.index,
            told,
            due: now,
            retry_ns: RETRY_NS,
            record: record.into(),
        };
        self.bytes += entry.record.len() + entry.topic.len() + ENTRY_COST;
        self.by_topic.entry(entry.topic.clone()).or_default().push(info.otid);
        self.by_transport.entry(entry.transport).or_default().insert(info.otid);
        self.due.push(Reverse((now, info.otid)));
        self.entries.insert(info.otid, entry);
        true
    }

    fn remove(&mut self, id: &Id) -> Option<Ended> {
        let entry = self.entries.remove(id)?;
        self.bytes -= entry.record.len() + entry.topic.len() + ENTRY_COST;
        if let Some(ids) = self.by_topic.get_mut(&entry.topic) {
            ids.retain(|other| other != id);
            if ids.is_empty() {
                self.by_topic.remove(&entry.topic);
            }
        }
        if let Some(ids) = self.by_transport.get_mut(&entry.transport) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_transport.remove(&entry.transport);
            }
        }
        Some(Ended { topic: entry.topic, transport: entry.transport, index: entry.index })
    }

    /// A link says that a source is no more. It is gone unless one of the other links that stand has told of it.
    pub(super) fn ended(&mut self, link: usize, id: &Id, standing: [bool; LINKS_MAX]) -> Option<Ended> {
        let entry = self.entries.get_mut(id)?;
        entry.told[link] = 0;
        if entry.told.iter().zip(standing).any(|(told, stands)| *told != 0 && stands) { None } else { self.remove(id) }
    }

    /// Everything that is current has been told by a link: what it has told in former generations alone is void.
    pub(super) fn settle(&mut self, (link, generation): (usize, u32), ended: &mut Vec<Ended>) {
        let mut void = Vec::new();
        for (id, entry) in &mut self.entries {
            if entry.told[link] != generation {
                entry.told[link] = 0;
                if entry.told == [0; LINKS_MAX] {
                    void.push(*id);
                }
            }
        }
        ended.extend(void.iter().filter_map(|id| self.remove(id)));
    }

    /// Nobody wants these topics any more: services do not say when their sources end.
    pub(super) fn retain(&mut self, mut wanted: impl FnMut(&[u8]) -> bool) {
        let unwanted: Vec<Box<[u8]>> = self.by_topic.keys().filter(|topic| !wanted(topic)).cloned().collect();
        for topic in &unwanted {
            self.forget_topic(topic);
        }
    }

    /// Likewise one topic.
    pub(super) fn forget_topic(&mut self, topic: &[u8]) {
        for id in self.by_topic.get(topic).cloned().unwrap_or_default() {
            self.remove(&id);
        }
    }

    fn push(&mut self, at: u64, ids: &[Id]) {
        for id in ids {
            if let Some(entry) = self.entries.get_mut(id)
                && entry.due != at
            {
                entry.due = at;
                self.due.push(Reverse((at, *id)));
            }
        }
    }

    /// There is a new receiver of a topic.
    pub(super) fn offer_topic(&mut self, now: u64, topic: &[u8]) {
        let ids = self.by_topic.get(topic).cloned().unwrap_or_default();
        self.push(now, &ids);
    }

    /// There is a new receiver of what matches.
    pub(super) fn offer_matching(&mut self, now: u64, matches: impl Fn(&[u8]) -> bool) {
        let found = self.by_topic.iter().filter(|(topic, _)| matches(topic));
        let ids: Vec<Id> = found.flat_map(|(_, ids)| ids.iter().copied()).collect();
        self.push(now, &ids);
    }

    /// A session has broken off: its sources are tried again.
    pub(super) fn offer_transport(&mut self, now: u64, transport: &Transport) {
        let ids: Vec<Id> = self.by_transport.get(transport).into_iter().flatten().copied().collect();
        self.push(now.saturating_add(RETRY_NS), &ids);
    }

    pub(super) fn timeout(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Offers what is due, at most `most` sources. `offer` says whether all receivers that look for the source have it now; if not, it is
    /// tried again.
    pub(super) fn offer_due(&mut self, now: u64, most: usize, mut offer: impl FnMut(&Advert<'_>) -> bool) {
        for _ in 0..most {
            let Some(Reverse((at, id))) = self.due.peek().copied() else { return };
            if at > now {
                return;
            }
            self.due.pop();
            let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.due == at) else { continue };
            let mut buffer = [0; OPTIONS_MAX];
            let taken = source(&entry.record).and_then(|info| info.advert(&mut buffer)).is_none_or(|a| offer(&a));
            if taken {
                (entry.due, entry.retry_ns) = (u64::MAX, RETRY_NS);
            } else {
                entry.due = now.saturating_add(entry.retry_ns);
                entry.retry_ns = entry.retry_ns.saturating_mul(2).min(RETRY_MAX_NS);
                self.due.push(Reverse((entry.due, id)));
            }
        }
    }
}

/// The record of an entry, which was written here.
fn source(record: &[u8]) -> Option<SourceInfo<'_>> {
    match Message::decode(record).ok()?.records().next()?.ok()? {
        Record::Source(info) => Some(info),
        _ => None,
    }
}
