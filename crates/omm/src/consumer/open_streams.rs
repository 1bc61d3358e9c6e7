//! The streams that are open at the server.

use crate::by_stream::ByStream;
use rustc_hash::FxHashSet;
use rwf::msg::MsgClass;
use std::collections::BTreeMap;

/// The streams of which [`Item::is_open`](super::item::Item::is_open) is so.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OpenStreams {
    /// By service and then by group of items, that a state of one finds its items at once.
    groups: BTreeMap<u16, BTreeMap<Box<[u8]>, FxHashSet<i32>>>,
    /// Whether the answer has begun: what each update asks.
    begun: ByStream<bool>,
}

impl OpenStreams {
    fn put(&mut self, service: u16, group: &[u8], id: i32) {
        let groups = self.groups.entry(service).or_default();
        if let Some(ids) = groups.get_mut(group) {
            ids.insert(id);
        } else {
            groups.insert(group.into(), FxHashSet::from_iter([id]));
        }
    }

    fn take(&mut self, service: u16, group: &[u8], id: i32) {
        let groups = self.groups.get_mut(&service).expect("an open stream is listed by its service");
        let ids = groups.get_mut(group).expect("an open stream is listed by its group");
        let was_there = ids.remove(&id);
        assert!(was_there, "stream {id} is in no group");
        if ids.is_empty() {
            groups.remove(group);
        }
        if groups.is_empty() {
            self.groups.remove(&service);
        }
    }

    /// A stream is asked for: it is in no group yet.
    pub(super) fn asked(&mut self, service: u16, id: i32) {
        self.insert(service, &[], id, false);
    }

    /// A stream as it is found.
    pub(super) fn insert(&mut self, service: u16, group: &[u8], id: i32, begun: bool) {
        self.put(service, group, id);
        self.begun.insert(id, begun);
    }

    /// A part of the answer is in.
    pub(super) fn begun(&mut self, id: i32) {
        if let Some(begun) = self.begun.get_mut(id) {
            *begun = true;
        }
    }

    /// A stream is of another group.
    pub(super) fn regroup(&mut self, service: u16, (from, to): (&[u8], &[u8]), id: i32) {
        self.take(service, from, id);
        self.put(service, to, id);
    }

    /// A stream is not open any more.
    pub(super) fn remove(&mut self, service: u16, group: &[u8], id: i32) {
        self.take(service, group, id);
        self.begun.remove(id);
    }

    /// Whether a message of a stream is one that is waited for. An update before the answer is of a stream that the server had closed here, or has opened
    /// for a request that crossed with its close: the image that is asked for has it.
    #[inline]
    pub(super) fn passes(&self, id: i32, class: MsgClass) -> bool {
        self.begun.get(id).is_some_and(|begun| *begun || class != MsgClass::UPDATE)
    }

    /// The streams of a service, in order.
    pub(super) fn of_service(&self, service: u16) -> Vec<i32> {
        let groups = self.groups.get(&service).into_iter().flat_map(BTreeMap::values);
        sorted(groups.flatten())
    }

    /// The streams of a group, in order.
    pub(super) fn of_group(&self, service: u16, group: &[u8]) -> Vec<i32> {
        sorted(self.groups.get(&service).and_then(|groups| groups.get(group)).into_iter().flatten())
    }
}

fn sorted<'i>(ids: impl Iterator<Item = &'i i32>) -> Vec<i32> {
    let mut ids: Vec<i32> = ids.copied().collect();
    ids.sort_unstable();
    ids
}
