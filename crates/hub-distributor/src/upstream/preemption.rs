//! Preemption: where all providers of an item are at their limit (`OpenLimit`), an item of a higher priority class takes the place of one
//! of a lower class (RMDS `preemption`).
//!
//! The item that gives way is the one of the lowest class, among these the one that the fewest ask for; of a provider with many items some are
//! looked at, others the next time. Who watches it is told Suspect
//! (Preempted), and it is asked for again after [`crate::Config::preemption_retry`]: if there is no place then it waits for
//! one as any other. Private streams, snapshots and items that are locked ([`super::item_priorities`]) give way to nobody, and the usual class, 1, has nobody
//! give way.

use super::item_priorities::ItemPriority;
use crate::ids::Handle;
use crate::items::Kind;
use crate::stream::ALL;
use crate::timers::Timer;
use crate::{Notice, ProviderSink, SessionId, SourceDistributor};
use rwf::StateCode;
use rwf::msg::Priority;

/// The class from which on an item takes the place of others.
const USUAL_CLASS: u8 = 1;
/// Items of a provider that are looked at for the one that gives way.
const LOOK_AT: usize = 1_000;
/// What waits is looked at again for whether something gives way to it after so long, if nothing did, nanoseconds.
const IN_VAIN: u64 = 1_000_000_000;

/// Where the search for what gives way goes on.
#[derive(Debug, Default)]
pub(crate) struct Preemption {
    /// Items to pass over.
    from: usize,
    /// Nothing is looked for before this, but for what is asked for now.
    not_before: u64,
}

impl SourceDistributor {
    /// What is asked for by all who watch an item, and by the list of priorities.
    fn priority_of(&self, handle: Handle) -> Priority {
        let asked = self.upstream.merge.priority(handle, self.items[handle].interest().len());
        match self.listed(handle) {
            Some(ItemPriority::Class(class)) => Priority { class: class.max(asked.class), ..asked },
            Some(ItemPriority::Locked) | None => asked,
        }
    }

    /// The entry of the list of priorities for an item.
    fn listed(&self, handle: Handle) -> Option<ItemPriority> {
        let list = &self.upstream.priorities;
        if list.is_empty() {
            return None;
        }
        let item = &self.items[handle];
        let key = item.item_key();
        list.of(&self.providers[item.service()].name, key.name.unwrap_or_default())
    }

    /// Asks for an item that waits for a place at a provider, in the place of one of a lower class, if there is one. True if it is asked for.
    pub(crate) fn preempt(&mut self, handle: Handle, out: &mut dyn ProviderSink) -> bool {
        let is_waiting = self.config.preemption && self.items[handle].is_queued();
        if !is_waiting || self.priority_of(handle).class <= USUAL_CLASS || !self.upstream.pacing.may_send() {
            return false;
        }
        let Some((victim, session)) = self.gives_way(handle) else { return false };
        let is_waited_for = self.give_way(victim, session, handle, out);
        let route = self.route(handle);
        if let Ok(session) = route {
            self.upstream.pacing.sent();
            self.ask(handle, session, out);
        }
        if is_waited_for {
            self.explain_wait(victim, ALL);
        }
        route.is_ok()
    }

    /// As [`Self::preempt`] for what waits in a queue: not if nothing gave way a moment ago.
    pub(super) fn preempt_queued(&mut self, handle: Handle, out: &mut dyn ProviderSink) -> bool {
        if !self.config.preemption || self.now < self.upstream.preemption.not_before {
            return false;
        }
        let is_asked = self.preempt(handle, out);
        if !is_asked && self.priority_of(handle).class > USUAL_CLASS {
            self.upstream.preemption.not_before = self.now.saturating_add(IN_VAIN);
        }
        is_asked
    }

    /// The item that gives way to another, and its provider.
    fn gives_way(&mut self, to: Handle) -> Option<(Handle, SessionId)> {
        let (service, class) = (self.items[to].service(), self.priority_of(to).class);
        let full = self.full_providers(to);
        let from = self.upstream.preemption.from;
        self.upstream.preemption.from = from.wrapping_add(LOOK_AT);
        let at = |session: &SessionId| {
            let session = *session;
            let there = self.items.at(session, service).len();
            let from = if there > LOOK_AT { from % there } else { 0 };
            let looked_at = self.items.at(session, service).skip(from).chain(self.items.at(session, service));
            looked_at.take(there.min(LOOK_AT)).map(move |handle| (handle, session))
        };
        let may = |&(handle, _): &(Handle, SessionId)| {
            let item = &self.items[handle];
            matches!(item.kind(), Kind::Shared { .. }) && (item.is_open() || item.is_asked()) && !self.is_locked(handle)
        };
        let mut looked = 0;
        let candidates = full.iter().flat_map(at).inspect(|_| looked += 1).filter(may);
        let ranked = candidates.map(|found| {
            let Priority { class, count } = self.priority_of(found.0);
            ((class, count), found)
        });
        let lowest = ranked.min_by_key(|&(priority, (handle, _))| (priority, handle));
        self.counters.items_touched += looked;
        lowest.filter(|((of, _), _)| *of < class).map(|(_, found)| found)
    }

    /// Whether an item gives way to nobody: by its name, by the list of priorities, or since an operator has locked it.
    fn is_locked(&self, handle: Handle) -> bool {
        let item = &self.items[handle];
        let key = item.item_key();
        let name = key.name.unwrap_or_default();
        self.config.locked_items.iter().any(|pattern| pattern.matches(name))
            || self.listed(handle) == Some(ItemPriority::Locked)
            || self.upstream.locked.has(&self.providers[item.service()].name, name)
    }

    /// An item leaves its provider for another that waits. Whether somebody waits for an image of it, and is to hear why none comes.
    fn give_way(&mut self, victim: Handle, session: SessionId, to: Handle, out: &mut dyn ProviderSink) -> bool {
        self.counters.preempted += 1;
        let name = |handle: Handle| {
            let key = self.items[handle].item_key();
            String::from_utf8_lossy(key.name.unwrap_or_default()).into_owned()
        };
        self.notices.push(Notice::ItemPreempted {
            service: self.providers[self.items[to].service()].name.clone(),
            provider: self.providers[session].peer.address.clone(),
            item: name(victim),
            by: name(to),
        });
        let waited_for = self.items[victim].is_waited_for();
        self.close_upstream(victim, out);
        let text = b"Provider is at its open limit, and an item of a higher priority has taken the place";
        let is_left = self.lose_item(victim, StateCode::PREEMPTED, text);
        if is_left {
            let timer = Timer::Retry(victim, self.items[victim].epoch());
            let pause = self.providers.rules(&self.config, self.items[victim].service()).preemption_retry;
            self.timers.set(self.now.saturating_add(pause), timer);
        }
        is_left && waited_for
    }
}
