//! Items whose requests were unanswered when their provider went: one of them may be what it went for.
//!
//! Some providers close their connection at a request that they do not like. Asked again with all others after each reconnect, such an
//! item would take the service from everybody, every second. So what was unanswered is asked last, when the provider has answered
//! all that the others want, and singly; only where another provider is there that one is asked at once, the first time. An item that its provider went at [`MOST`] times in a row is given up: those who
//! wait for it hear why, and for [`REST`] it is asked for no more. The last time counts only where nothing else in doubt was unanswered: of two of them the provider went at one. One that those who watch have had before is not ended but asked again
//! after that time. Where a provider has answered nothing of a domain so far, and [`MOST`] items of that were asked singly and it went at each,
//! the domain is given up for that time.

use crate::hash_seed::{HashSeed, SeededMap};
use crate::ids::Handle;
use crate::items::{Item, Items, Kind};
use crate::{Notice, ProviderSink, SessionId, SourceDistributor};
use rustc_hash::{FxHashMap, FxHashSet};
use rwf::{DataState, State, StateCode, StreamState};
use std::collections::VecDeque;

/// So often in a row a provider goes at an item before that is given up.
const MOST: u8 = 3;
/// So long nobody is asked for what was given up, nanoseconds.
pub(super) const REST: u64 = 300_000_000_000;
/// So long an item is in doubt that was not asked for since, nanoseconds.
const FORGET: u64 = 1_800_000_000_000;
/// Keys of items in doubt are kept up to so many bytes; what goes beyond is asked for as any other.
const MOST_BYTES: usize = 4 << 20;
/// The cost of an entry beside its key.
const ENTRY_COST: usize = 64;
/// Items in doubt that are looked at in a turn.
const LOOK_AT: usize = 64;

/// The state for those whose item is given up.
const GIVEN_UP: State<'static> = State {
    stream: StreamState::CLOSED,
    data: DataState::SUSPECT,
    code: StateCode::NONE,
    text: b"Provider has closed its connection each time that it was asked for this item: it is asked no more for now",
};

/// Knowledge of an item that a provider went at, or of a domain.
#[derive(Debug, Clone, Copy, Default)]
struct Doubt {
    /// Times in a row.
    losses: u8,
    /// The last of them.
    at: u64,
    /// Another provider was there: it is asked at once, the first time.
    is_elsewhere: bool,
}

impl Doubt {
    fn is_given_up(self, now: u64) -> bool {
        self.losses >= MOST && now.saturating_sub(self.at) < REST
    }

    /// Whether it is asked for last and singly.
    fn waits(self) -> bool {
        self.losses > 1 || !self.is_elsewhere
    }

    /// A provider went while it was asked for this one: with others in doubt, at one of them.
    fn another(&mut self, now: u64, with_others: bool) {
        if now.saturating_sub(self.at) > FORGET {
            self.losses = 0;
        }
        let losses = self.losses.saturating_add(1);
        (self.losses, self.at) = (if with_others { losses.min(MOST - 1) } else { losses }, now);
    }
}

/// An item that waits to be asked for last and singly.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    handle: Handle,
    /// Since when a provider could be asked, but for what others want of it.
    since: Option<u64>,
}

/// The items in doubt.
#[derive(Debug)]
pub(crate) struct Doubts {
    /// By service and canonical key.
    items: SeededMap<Box<[u8]>, Doubt>,
    /// By service and domain.
    domains: SeededMap<(u16, u8), Doubt>,
    /// Of the keys in `items`, with what each entry costs.
    bytes: usize,
    waiting: VecDeque<Waiting>,
    /// What is asked for singly, by provider; of those that were answered some are still here.
    asked: Vec<(SessionId, Handle)>,
    /// What a provider was asked for in doubt, of whatever service, singly or not, and has not answered: until its end was told everywhere.
    unanswered: FxHashMap<SessionId, FxHashSet<Handle>>,
    /// Something may have changed since the queue was looked at.
    is_due: bool,
    key: Vec<u8>,
}

impl Doubts {
    pub(super) fn new(seed: HashSeed) -> Self {
        Self {
            items: SeededMap::with_hasher(seed),
            domains: SeededMap::with_hasher(seed),
            bytes: 0,
            waiting: VecDeque::new(),
            asked: Vec::new(),
            unanswered: FxHashMap::default(),
            is_due: false,
            key: Vec::new(),
        }
    }

    /// Whether the queue is to be looked at in the next turn.
    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }

    /// What others want has been sent, or answered: it may be the turn of what waits.
    pub(super) fn note_change(&mut self) {
        self.is_due = !self.waiting.is_empty();
    }

    /// Items that wait, in no order.
    pub(crate) fn queued(&self) -> impl Iterator<Item = Handle> + '_ {
        self.waiting.iter().map(|waiting| waiting.handle)
    }

    fn get(&self, service: u16, key: &[u8]) -> Option<Doubt> {
        if self.items.is_empty() {
            return None;
        }
        let mut of_service = Vec::with_capacity(key.len() + 2);
        write_key(&mut of_service, service, key);
        self.items.get(of_service.as_slice()).copied()
    }

    /// Whether nobody is asked for an item now, by itself or with its domain.
    fn rests(&self, now: u64, service: u16, key: &[u8], domain: u8) -> bool {
        let of_domain = self.domains.get(&(service, domain)).copied();
        self.get(service, key).into_iter().chain(of_domain).any(|doubt| doubt.is_given_up(now))
    }

    /// A provider went while it was asked for this item. How often it did, or `None` if there is no room to know.
    fn note(&mut self, now: u64, service: u16, key: &[u8], is_elsewhere: bool, with_others: bool) -> Option<u8> {
        write_key(&mut self.key, service, key);
        let cost = self.key.len() + ENTRY_COST;
        if !self.items.contains_key(self.key.as_slice()) {
            if self.bytes + cost > MOST_BYTES {
                self.forget_old(now);
            }
            if self.bytes + cost > MOST_BYTES {
                return None;
            }
            self.bytes += cost;
            self.items.insert(self.key.as_slice().into(), Doubt::default());
        }
        let doubt = self.items.get_mut(self.key.as_slice())?;
        doubt.another(now, with_others);
        doubt.is_elsewhere = is_elsewhere;
        Some(doubt.losses)
    }

    fn forget_old(&mut self, now: u64) {
        let bytes = &mut self.bytes;
        self.items.retain(|key, doubt| {
            let stays = now.saturating_sub(doubt.at) <= FORGET;
            *bytes -= if stays { 0 } else { key.len() + ENTRY_COST };
            stays
        });
    }

    /// A provider has answered for the item.
    fn forget(&mut self, service: u16, key: &[u8]) {
        if self.items.is_empty() {
            return;
        }
        write_key(&mut self.key, service, key);
        if self.items.remove(self.key.as_slice()).is_some() {
            self.bytes -= self.key.len() + ENTRY_COST;
        }
        self.is_due = !self.waiting.is_empty();
    }

    /// Whether a provider went when it was asked for an item, and none has answered for it since.
    pub(super) fn has(&self, item: &Item) -> bool {
        self.get(item.service(), item.key()).is_some_and(Doubt::waits)
    }

    /// Items of a service that are in doubt and wait.
    pub(crate) fn waiting_of(&self, service: u16, items: &Items) -> usize {
        let is_of = |handle: &Handle| items.get(*handle).is_some_and(|item| item.service() == service);
        self.queued().filter(is_of).count()
    }

    /// Puts an item that is in doubt where it waits for all others. False if it is as any other.
    pub(super) fn enqueue(&mut self, handle: Handle, items: &Items) -> bool {
        let item = &items[handle];
        if !self.get(item.service(), item.key()).is_some_and(Doubt::waits) {
            return false;
        }
        if self.waiting.len() > 64 + 2 * items.len() {
            self.waiting.retain(|waiting| items.get(waiting.handle).is_some_and(Item::is_queued));
        }
        self.waiting.push_back(Waiting { handle, since: None });
        self.is_due = true;
        true
    }

    /// A provider that is gone is asked for nothing any more.
    pub(crate) fn forget_session(&mut self, id: SessionId) {
        self.forget_asked_singly(id);
        self.unanswered.remove(&id);
    }

    fn forget_asked_singly(&mut self, id: SessionId) {
        self.asked.retain(|(session, _)| *session != id);
    }

    /// A provider is asked for an item.
    pub(super) fn note_asked(&mut self, handle: Handle, item: &Item, id: SessionId) {
        if self.get(item.service(), item.key()).is_some() {
            self.unanswered.entry(id).or_default().insert(handle);
        }
    }

    /// A provider has answered for an item, or is asked for it no more.
    pub(super) fn forget_unanswered(&mut self, handle: Handle, id: SessionId) {
        if let Some(handles) = self.unanswered.get_mut(&id) {
            handles.remove(&handle);
            if handles.is_empty() {
                self.unanswered.remove(&id);
            }
        }
    }
}

fn write_key(to: &mut Vec<u8>, service: u16, key: &[u8]) {
    to.clear();
    to.extend_from_slice(&service.to_le_bytes());
    to.extend_from_slice(key);
}

impl Item {
    /// An item that those who watch never had.
    fn may_end(&self) -> bool {
        !self.is_answered() || !matches!(self.kind(), Kind::Shared { .. })
    }
}

impl SourceDistributor {
    /// Whether nobody is asked for an item now that was given up.
    pub(crate) fn is_given_up(&self, service: u16, key: &[u8], domain: u8) -> bool {
        self.upstream.doubts.rests(self.now, service, key, domain)
    }

    /// A provider has answered for an item, and so of its domain.
    pub(super) fn clear_doubt(&mut self, handle: Handle) {
        let item = &self.items[handle];
        self.providers[item.service()].answered.insert(item.domain());
        if let Some(place) = item.place() {
            self.upstream.doubts.forget_unanswered(handle, place.session);
        }
        let item = &self.items[handle];
        self.upstream.doubts.forget(item.service(), item.key());
        self.upstream.doubts.domains.remove(&(item.service(), item.domain()));
    }

    /// A provider is gone that had these items. What it was asked for and has not answered is in doubt; those that are given up are over, and are
    /// not among the items any more when this returns. To be called when they have left their streams.
    pub(crate) fn doubt(&mut self, id: SessionId, asked: &[Handle], handles: &mut Vec<Handle>) {
        let singly = self.upstream.doubts.asked.iter().find(|(session, _)| *session == id).map(|&(_, handle)| handle);
        let mut over = Vec::new();
        // Also of other services: it is one connection.
        let with_others = self.upstream.doubts.unanswered.get(&id).is_some_and(|handles| handles.len() > 1);
        for &handle in asked {
            let item = &self.items[handle];
            let (service, domain) = (item.service(), item.domain());
            let others = self.providers[service].providers().iter().filter(|&&other| other != id);
            let is_elsewhere = others.clone().any(|&other| self.providers.get(other).is_some());
            let Some(losses) = self.upstream.doubts.note(self.now, service, item.key(), is_elsewhere, with_others)
            else {
                continue;
            };
            self.counters.doubted += 1;
            if singly == Some(handle) && !self.providers[service].answered.contains(domain) {
                self.upstream.doubts.domains.entry((service, domain)).or_default().another(self.now, false);
            }
            if losses >= MOST && !item.is_answered() {
                over.push(handle);
            }
        }
        for &handle in &over {
            self.give_up(handle, id);
        }
        handles.retain(|handle| !over.contains(handle));
    }

    /// An item that was never answered is asked for no more.
    fn give_up(&mut self, handle: Handle, at: SessionId) {
        let item = &self.items[handle];
        self.notices.push(Notice::ItemGivenUp {
            service: self.providers[item.service()].name.clone(),
            provider: self.providers[at].peer.address.clone(),
            item: String::from_utf8_lossy(
                crate::item::ItemKey::read(item.key()).and_then(|key| key.name).unwrap_or_default(),
            )
            .into_owned(),
            domain: item.domain(),
        });
        self.counters.given_up += 1;
        if item.has_interest() {
            self.publish_end(handle, &GIVEN_UP, None);
            self.end_item(handle);
        } else {
            self.forget_item(handle);
        }
    }

    /// Asks for what is in doubt and has waited for all others, one item of each provider.
    pub(crate) fn ask_in_doubt(&mut self, out: &mut dyn ProviderSink) {
        self.upstream.doubts.is_due = false;
        for _ in 0..self.upstream.doubts.waiting.len().min(LOOK_AT) {
            if !self.upstream.pacing.may_send() {
                break;
            }
            let Some(mut waiting) = self.upstream.doubts.waiting.pop_front() else { break };
            let handle = waiting.handle;
            let Some(item) = self.items.get(handle).filter(|item| item.is_queued()) else { continue };
            let (service, domain) = (item.service(), item.domain());
            if !self.providers[service].is_settling {
                let route = self.route(handle);
                let rests = self.is_given_up(service, self.items[handle].key(), domain);
                waiting.since = route.ok().map(|_| waiting.since.unwrap_or(self.now));
                match route {
                    Ok(session) if rests && self.items[handle].may_end() => {
                        self.give_up(handle, session);
                        continue;
                    }
                    Ok(session) if !rests && self.may_ask_in_doubt(session, waiting) => {
                        self.upstream.pacing.sent();
                        self.upstream.doubts.forget_asked_singly(session);
                        self.upstream.doubts.asked.push((session, handle));
                        self.ask(handle, session, out);
                        continue;
                    }
                    _ => {}
                }
            }
            self.upstream.doubts.waiting.push_back(waiting);
        }
    }

    /// Whether a provider has nothing else to do, or has had that for so long that what is in doubt has waited long enough.
    fn may_ask_in_doubt(&self, id: SessionId, waiting: Waiting) -> bool {
        let is_asked = |&(session, handle): &(SessionId, Handle)| {
            let place = self.items.get(handle).filter(|item| item.is_asked()).and_then(Item::place);
            session == id && place.is_some_and(|place| place.session == id)
        };
        if self.upstream.doubts.asked.iter().any(is_asked) {
            return false;
        }
        let patience = self
            .items
            .get(waiting.handle)
            .map(|item| self.providers.rules(&self.config, item.service()).request_timeout);
        let patience = patience.unwrap_or(self.config.request_timeout);
        let has_waited = waiting.since.is_some_and(|since| self.now.saturating_sub(since) >= patience);
        let is_idle = |service: u16, outstanding: u32| outstanding == 0 && !self.providers[service].is_waiting();
        has_waited || self.providers[id].offers.iter().all(|offer| is_idle(offer.service, offer.outstanding))
    }
}
