//! What the end of a source, of its service or of an item there means: those who watch are told, and it is asked for elsewhere, or
//! again.
//!
//! A source may take a million items with it. So an outage is work that is done in turns: each turn tells of so many items and no more
//! ([`crate::Config::work_per_turn`]), and the updates of others go out in between. An item that an outage has yet to tell of
//! looks as before; whoever asks something of it has it told first ([`P2ps::tell_outage_of_item`]).

use super::Joined;
use super::Sources;
use super::failover::Move;
use super::order::Order;
use super::services::Provider;
use crate::hot_standby::Former;
use crate::ids::{ClientId, ItemId, ServiceId, SourceId, StreamId};
use crate::items::Items;
use crate::items::state::{Standing, State as ItemState};
use crate::items::telling::{Pending, Relayed, Telling};
use crate::items::watchers::Watcher;
use crate::keyed_queue::KeyedQueue;
use crate::{Notice, P2ps};
use rustc_hash::FxHashMap;
use rwf::rdm::directory::filter;
use rwf::{DataState, State, StateCode, StreamState};
use std::collections::VecDeque;

/// The cost of a service beside its items: texts, a line of the log, and what clients with a directory are told.
const SERVICE_COST: usize = 16;

/// A source that is lost, or one of its services that it offers no more.
#[derive(Debug)]
struct Outage {
    source: SourceId,
    code: StateCode,
    why: &'static str,
    /// The source is gone, with all of its services.
    whole: bool,
    /// Services that are not done with, the one at hand in front.
    services: VecDeque<ServiceId>,
    /// Of these, the ones that something was told of already.
    begun: FxHashMap<ServiceId, ServiceOutage>,
    /// Items that were served by the source.
    lost: u64,
}

/// The meaning of an outage for one service.
#[derive(Debug)]
struct ServiceOutage {
    /// The text for its watchers.
    text: String,
    relayed: Relayed,
    meaning: Meaning,
    /// Items that are to be told, and stay where they stand: they wait already, or their source has yet to answer.
    staying: Vec<ItemId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// The source had withdrawn it before: only what was asked for and not answered is left.
    Unanswered,
    /// The service has a source less.
    SourceLost,
    /// The service is gone.
    Deleted,
}

/// A source that is back before its outage was told of, and what it has sent since.
#[derive(Debug)]
struct Rejoin {
    source: SourceId,
    joined: Joined,
    /// Blocks in order; true for those for this P2PS alone.
    blocks: Vec<(bool, Box<[u8]>)>,
    bytes: usize,
}

/// The parked items of a service are looked at, for what may be had by now.
#[derive(Debug)]
struct Unparking {
    /// Places in the list of parked items that are not looked at: all below this. What is looked at is at the end of the list, since an
    /// item that leaves the list gives its place to the last one, and an item that is parked becomes the last one.
    below: usize,
    /// Something else has changed meanwhile: all are looked at once more.
    again: bool,
}

/// Outages that are being told of, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    queue: VecDeque<Outage>,
    /// Services that they are not done with, and how many of them each concerns.
    concerned: FxHashMap<ServiceId, u32>,
    /// Items that leave sources at which their service is down, in the order in which it went down.
    pub(super) moves: KeyedQueue<(ServiceId, SourceId), Move>,
    /// Services whose items may go back to their first source, and those whose items are not all back.
    pub(super) order: Order,
    /// Services whose items may find a source again: those that wait are being queued.
    unparking: KeyedQueue<ServiceId, Unparking>,
    /// Sources that are back before their outage was told of.
    rejoining: Vec<Rejoin>,
    /// The stream on which something is asked of an item that is to be told of an outage before.
    requesting: Option<Watcher>,
    /// Items and watchers that may still be looked at in this turn.
    pub(super) budget: usize,
}

impl Outages {
    pub(crate) fn begin_turn(&mut self, budget: u32) {
        self.budget = budget.max(1) as usize;
    }

    /// True if there is something to do in the next turn.
    pub(crate) fn has_work(&self) -> bool {
        !(self.queue.is_empty() && self.moves.is_empty() && self.unparking.is_empty())
    }

    /// When items go back to a source.
    pub(crate) fn failback_timeout(&self) -> Option<u64> {
        self.order.timeout()
    }

    /// True if there are items that an outage has yet to tell of.
    pub(super) fn is_telling(&self) -> bool {
        !self.queue.is_empty()
    }

    /// A stream is told its end.
    pub(crate) fn note_end(&mut self, watcher: Watcher) {
        if self.requesting == Some(watcher) {
            self.requesting = None;
        }
    }

    /// True if a source is lost, and what it served is not told of.
    pub(crate) fn is_losing(&self, source: SourceId) -> bool {
        self.queue.iter().any(|outage| outage.whole && outage.source == source)
    }

    /// True if items of a service are being queued, or told of an outage.
    pub(crate) fn concerns(&self, service: ServiceId) -> bool {
        self.unparking.contains(service) || self.concerned.contains_key(&service)
    }

    /// A source is back that is not lost to its end: it has to wait.
    pub(super) fn rejoin_later(&mut self, source: SourceId, joined: Joined) {
        debug_assert!(self.is_losing(source));
        self.forget_rejoin(source);
        self.rejoining.push(Rejoin { source, joined, blocks: Vec::new(), bytes: 0 });
    }

    /// True if a source is back, and waits.
    pub(crate) fn is_rejoining(&self, source: SourceId) -> bool {
        self.rejoining.iter().any(|rejoin| rejoin.source == source)
    }

    /// A further outage.
    fn push(&mut self, outage: Outage) {
        for &service in &outage.services {
            *self.concerned.entry(service).or_insert(0) += 1;
        }
        self.queue.push_back(outage);
    }

    /// An outage is done with one of its services.
    fn done_with(&mut self, service: ServiceId) {
        let count = self.concerned.get_mut(&service).expect("a service that an outage has is counted");
        *count -= 1;
        if *count == 0 {
            self.concerned.remove(&service);
        }
    }

    /// Panics if the services are not counted right. For tests and simulations.
    pub(crate) fn check(&self) {
        let mut counted: FxHashMap<ServiceId, u32> = FxHashMap::default();
        for &service in self.queue.iter().flat_map(|outage| &outage.services) {
            *counted.entry(service).or_insert(0) += 1;
        }
        assert_eq!(counted, self.concerned, "services of outages counted");
    }

    fn forget_rejoin(&mut self, source: SourceId) {
        self.rejoining.retain(|rejoin| rejoin.source != source);
    }

    /// The outage that has to tell of an item.
    fn of(&self, service: ServiceId, state: ItemState, id: ItemId) -> Option<usize> {
        if !self.concerned.contains_key(&service) {
            return None;
        }
        self.queue.iter().position(|outage| {
            let begun = outage.begun.get(&service);
            let here = |source| source == outage.source || begun.is_some_and(|begun| begun.meaning == Meaning::Deleted);
            match state {
                ItemState::Open { source, .. } if here(source) => outage.services.contains(&service),
                ItemState::Opening { source, .. } if outage.whole && here(source) => outage.services.contains(&service),
                _ => begun.is_some_and(|begun| begun.staying.contains(&id)),
            }
        })
    }
}

impl Sources {
    /// An item of a service that has to leave the place where it stands.
    fn next_at(&self, items: &Items, service: ServiceId, outage: &Outage) -> Option<ItemId> {
        let at = |standing| items.standing(service, standing).next();
        let opening = || at(Standing::Opening(outage.source)).filter(|_| outage.whole);
        let deleted = outage.begun.get(&service).is_some_and(|begun| begun.meaning == Meaning::Deleted);
        let elsewhere = || self.ids().filter(|_| deleted).find_map(|source| at(Standing::Open(source)));
        at(Standing::Open(outage.source)).or_else(opening).or_else(elsewhere)
    }

    fn list_parked(&mut self, items: &Items, service: ServiceId) {
        let parked = items.count_standing(service, Standing::Parked);
        match self.outages.unparking.get_mut(service) {
            Some(unparking) => unparking.again = true,
            None if parked == 0 => {}
            None => self.outages.unparking.push_back(service, Unparking { below: parked, again: false }),
        }
    }
}

impl P2ps {
    /// A source is lost: its items are suspect and wait for another, its services lose a provider.
    pub(crate) fn lose_source(&mut self, number: SourceId, code: StateCode, why: &'static str) {
        self.sources.outages.forget_rejoin(number);
        // A transport may end after its silence was found here.
        let Some(source) = self.sources.up_mut(number) else { return };
        source.forget();
        self.servers.forget(number);
        self.nak_posts_to(number);
        self.leave_mirrors(number, None);
        // Requests for services that the source has withdrawn since are answered by nobody, so all of them are looked at.
        let services = self.sources.services.ids().collect();
        let begun = FxHashMap::default();
        self.sources.outages.push(Outage { source: number, code, why, whole: true, services, begun, lost: 0 });
        self.work_outages();
    }

    /// A source offers a service no more. Without any other the service is deleted, which closes everything; who leaves
    /// recovery to this server and has no directory stays, and waits for the service to return.
    pub(crate) fn withdraw_service(&mut self, service: ServiceId, number: SourceId) {
        self.finish_outages_in(service);
        let Some(known) = self.sources.services.get(service) else {
            hub_items::fault!("a service that never was: {service:?}");
            return;
        };
        let mut outage = Outage {
            source: number,
            code: StateCode::NONE,
            why: "offers it no more",
            whole: false,
            services: VecDeque::from([service]),
            begun: FxHashMap::default(),
            lost: 0,
        };
        // At once, so that nothing more is asked of the source for it.
        let other = |provider: &Provider| provider.source != number;
        let has_other = known.providers.iter().any(other);
        let begun = if has_other { self.begin_service_outage(service, &outage) } else { self.begin_deletion(service) };
        outage.begun.insert(service, begun);
        self.leave_mirrors(number, Some(service));
        self.sources.outages.push(outage);
        self.work_outages();
    }

    /// Nobody offers a service: clients are told that it is gone.
    fn begin_deletion(&mut self, service: ServiceId) -> ServiceOutage {
        let name = self.sources.services.get(service).map(|known| known.name.clone()).unwrap_or_default();
        let text = self.config.status_texts.not_available(format!("Service {name} is gone.")).into_owned();
        let waits = [Standing::Parked, Standing::Queued, Standing::Retrying];
        let opening = self.sources.ids().map(Standing::Opening);
        let staying = waits.into_iter().chain(opening).flat_map(|standing| self.items.standing(service, standing));
        let staying = staying.collect();
        let relayed = Relayed::Deleted { at: self.clients.directories_opened() };
        self.delete_service(service);
        self.output.notice(Notice::ServiceGone { service: name });
        ServiceOutage { text, relayed, meaning: Meaning::Deleted, staying }
    }

    /// A service loses a source: clients with a directory are told at once, of all items if the state is right for all.
    fn begin_service_outage(&mut self, service: ServiceId, outage: &Outage) -> ServiceOutage {
        let meaning = Meaning::Unanswered;
        let text = format!("The source {} and has not answered.", outage.why);
        let unanswered = ServiceOutage { text, relayed: Relayed::No, meaning, staying: Vec::new() };
        let Some(known) = self.sources.services.get_mut(service) else {
            hub_items::fault!("a service that never was: {service:?}");
            return unanswered;
        };
        if !known.lose_provider(outage.source) {
            return unanswered;
        }
        let text = format!("The source of service {} {}; it is asked for again by itself.", known.name, outage.why);
        let text = self.config.status_texts.service_down(text).into_owned();
        // Items that a mirror takes over are not lost.
        let alone = !self.has_mirrors(service) && !self.has_answered_beside(service, outage.source, false);
        let at = self.clients.directories_opened();
        let mut staying = Vec::new();
        if !outage.whole {
            // The source will answer yet.
            staying.extend(self.items.standing(service, Standing::Opening(outage.source)).rev());
        }
        let any = !staying.is_empty() || self.sources.next_at(&self.items, service, outage).is_some();
        self.service_changed(service, (alone && any).then(|| lost_state(outage.code, &text)));
        self.note_first_source(service);
        let relayed = if alone { Relayed::Status { filter: filter::STATE, at } } else { Relayed::No };
        ServiceOutage { text, relayed, meaning: Meaning::SourceLost, staying }
    }

    /// Goes on with outages, as far as this turn lets it.
    pub(crate) fn work_outages(&mut self) {
        while self.sources.outages.budget > 0
            && let Some(mut outage) = self.sources.outages.queue.pop_front()
        {
            let mut budget = self.sources.outages.budget;
            self.work_outage(&mut outage, &mut budget);
            self.sources.outages.budget = budget;
            if outage.services.is_empty() {
                self.end_outage(&outage);
            } else {
                self.sources.outages.queue.push_front(outage);
            }
        }
        self.work_moves();
        self.work_unparking();
    }

    fn work_outage(&mut self, outage: &mut Outage, budget: &mut usize) {
        while *budget > 0
            && let Some(&service) = outage.services.front()
        {
            let touched = self.counters.items_touched;
            if self.begin_outage_of(outage, service) {
                // Every client may have a directory that is told of it.
                let looks = (self.counters.items_touched - touched) as usize;
                *budget = budget.saturating_sub(SERVICE_COST + looks + self.clients.ids().len() / 8);
            }
            self.work_service_outage(outage, service, budget);
            if *budget > 0 {
                outage.services.pop_front();
                outage.begun.remove(&service);
                self.sources.outages.done_with(service);
                // The turn of parked items comes after the outages: what is left of the budget is not known here.
                self.sources.list_parked(&self.items, service);
            }
        }
    }

    /// True if it has begun now, and not before.
    fn begin_outage_of(&mut self, outage: &mut Outage, service: ServiceId) -> bool {
        let news = !outage.begun.contains_key(&service);
        if news {
            let begun = self.begin_service_outage(service, outage);
            outage.begun.insert(service, begun);
        }
        news
    }

    /// Has the outages of a service begun: clients with a directory hear of them before anything else is said of the service.
    pub(crate) fn begin_outages_in(&mut self, service: ServiceId) {
        if !self.sources.outages.concerned.contains_key(&service) {
            return;
        }
        for _ in 0..self.sources.outages.queue.len() {
            // As many as are taken out are in the queue.
            let Some(mut outage) = self.sources.outages.queue.pop_front() else { return };
            if outage.services.contains(&service) {
                self.begin_outage_of(&mut outage, service);
            }
            self.sources.outages.queue.push_back(outage);
        }
    }

    /// Tells of the items of one service; all of them are told of if something of the budget is left.
    fn work_service_outage(&mut self, outage: &mut Outage, service: ServiceId, budget: &mut usize) {
        while *budget > 0 {
            let staying = outage.begun.get_mut(&service).and_then(|begun| begun.staying.pop());
            // All items of the service are told of.
            let Some(id) = staying.or_else(|| self.sources.next_at(&self.items, service, outage)) else { return };
            *budget = budget.saturating_sub(self.lose_item(outage, service, id));
        }
    }

    /// Tells those who watch an item that is lost, and has it asked for again; what that cost.
    fn lose_item(&mut self, outage: &mut Outage, service: ServiceId, id: ItemId) -> usize {
        let Some(begun) = outage.begun.get(&service) else {
            hub_items::fault!("an item is lost before its service: {id:?}");
            return 1;
        };
        let item = self.items.get(id);
        // An item that stays may be gone, and its number another's, or be served by another source by now.
        let elsewhere = begun.meaning == Meaning::SourceLost && item.source() != Some(outage.source);
        if !item.is_live() || item.is_view() || item.service() != service || elsewhere {
            return 1;
        }
        let cost = 1 + self.items.watchers(id).len();
        self.counters.items_touched += cost as u64;
        let is_private = item.is_private();
        let was_served = item.source() == Some(outage.source) && begun.meaning != Meaning::Unanswered;
        if was_served && begun.meaning == Meaning::SourceLost && self.take_over(id, Former::GivenBack) {
            return cost;
        }
        outage.lost += u64::from(was_served);
        let (code, text, relayed) = (outage.code, begun.text.as_str(), begun.relayed);
        let state = lost_state(code, text);
        let telling = match begun.meaning {
            // A private stream is asked for by nobody but its client.
            Meaning::Unanswered if is_private => {
                Some(Telling { pending: Pending::All, relayed: Relayed::No, once: false })
            }
            Meaning::Unanswered => None,
            Meaning::Deleted => Some(Telling { pending: Pending::All, relayed, once: false }),
            // Watchers that wait for a first image hear only what ends the wait, unless nobody is left to ask.
            Meaning::SourceLost if self.sources.provider_of(&self.items, id).is_some() => {
                Some(Telling { pending: Pending::IfFinal, relayed, once: true })
            }
            Meaning::SourceLost => Some(Telling { pending: Pending::All, relayed, once: true }),
        };
        self.let_go(id);
        if let Some(telling) = telling {
            self.tell_item(id, state, telling);
        }
        self.recover(id);
        if was_served {
            self.sources.note_lost(self.now, service);
        }
        cost
    }

    /// As [`P2ps::tell_outage_of_item`], for the item on a stream of a client. True if the client is told by a message that the stream has ended:
    /// what it has just asked for on it has crossed with that, and is void.
    pub(crate) fn tell_outage_of_stream(&mut self, client: ClientId, stream: StreamId) -> bool {
        if self.sources.outages.queue.is_empty() {
            return false;
        }
        // No item is open on the stream.
        let Some(id) = self.clients.get(client).and_then(|known| known.streams.item(stream)) else { return false };
        self.sources.outages.requesting = Some(Watcher { client, stream });
        self.tell_outage_of_item(id);
        // Taken out when that stream is told its end.
        self.sources.outages.requesting.take().is_none()
    }

    /// Has an outage told of an item before something else is done with it. True if it was told: the item may be gone.
    pub(crate) fn tell_outage_of_item(&mut self, id: ItemId) -> bool {
        if self.sources.outages.queue.is_empty() {
            return false;
        }
        let root = self.items.root(id);
        let item = self.items.get(root);
        let (service, state) = (item.service(), item.state());
        // No outage concerns the item.
        let Some(at) = self.sources.outages.of(service, state, root) else { return false };
        // The place was found in the queue.
        let Some(mut outage) = self.sources.outages.queue.remove(at) else { return false };
        self.begin_outage_of(&mut outage, service);
        if let Some(begun) = outage.begun.get_mut(&service) {
            begun.staying.retain(|&other| other != root);
        }
        self.lose_item(&mut outage, service, root);
        // In its place: the loss of a source means less to the items of a service that it had withdrawn before.
        self.sources.outages.queue.insert(at.min(self.sources.outages.queue.len()), outage);
        true
    }

    /// A source has something to say of a service: what was lost there before is told first.
    pub(crate) fn finish_outages_before(&mut self, service: ServiceId, source: SourceId) {
        let before = |outage: &Outage| {
            let deleted = outage.begun.get(&service).is_some_and(|begun| begun.meaning == Meaning::Deleted);
            outage.services.contains(&service) && (outage.source == source || deleted)
        };
        if self.sources.outages.concerned.contains_key(&service) && self.sources.outages.queue.iter().any(before) {
            self.finish_outages_in(service);
        }
    }

    /// Has all outages told of a service, whatever that costs: something else happens to it that they know nothing of.
    pub(crate) fn finish_outages_in(&mut self, service: ServiceId) {
        if !self.sources.outages.concerned.contains_key(&service) {
            return;
        }
        let mut budget = usize::MAX;
        for _ in 0..self.sources.outages.queue.len() {
            // As many as are taken out are in the queue.
            let Some(mut outage) = self.sources.outages.queue.pop_front() else { return };
            if outage.services.contains(&service) {
                self.begin_outage_of(&mut outage, service);
                self.work_service_outage(&mut outage, service, &mut budget);
                outage.services.retain(|&other| other != service);
                outage.begun.remove(&service);
                self.sources.outages.done_with(service);
            }
            if outage.services.is_empty() {
                self.end_outage(&outage);
            } else {
                self.sources.outages.queue.push_back(outage);
            }
        }
    }

    /// Keeps a block of a source that is back, and not joined because its outage is still being told of. False if it is none of those.
    pub(crate) fn keep_for_rejoin(&mut self, source: SourceId, point_to_point: bool, block: &[u8]) -> bool {
        let Some(rejoin) = self.sources.outages.rejoining.iter_mut().find(|rejoin| rejoin.source == source) else {
            return false;
        };
        rejoin.bytes += block.len();
        rejoin.blocks.push((point_to_point, block.into()));
        if rejoin.bytes > self.config.hold_bytes {
            // The source has more to say than can be kept.
            self.finish_outage_of(source);
        }
        true
    }

    /// Has the outage of a source told to its end, whatever that costs: it begins again at once.
    pub(crate) fn finish_outage_of(&mut self, source: SourceId) {
        while let Some(at) =
            self.sources.outages.queue.iter().position(|outage| outage.whole && outage.source == source)
            && let Some(mut outage) = self.sources.outages.queue.remove(at)
        {
            let mut budget = usize::MAX;
            self.work_outage(&mut outage, &mut budget);
            self.end_outage(&outage);
        }
    }

    /// An outage is told of to its end.
    fn end_outage(&mut self, outage: &Outage) {
        debug_assert!(outage.services.is_empty() && outage.begun.is_empty());
        let &Outage { source, why, whole, lost, .. } = outage;
        if !whole {
            return;
        }
        self.counters.items_lost += lost;
        self.output.notice(Notice::SourceLost { source: self.sources.name_of(source), items: lost, why });
        if let Some(at) = self.sources.outages.rejoining.iter().position(|rejoin| rejoin.source == source) {
            let Rejoin { joined, blocks, .. } = self.sources.outages.rejoining.remove(at);
            self.connect_source(source, Some(joined));
            for (point_to_point, block) in blocks {
                let read = if point_to_point {
                    self.read_point_to_point(source, &block)
                } else {
                    self.read_block::<true>(source, &block)
                };
                if read.is_err() {
                    return self.part_from(source, StateCode::NONE, "has sent what cannot be read");
                }
            }
        }
    }

    /// Something has changed for a service: its items that nobody could serve are queued if somebody can, so many a turn.
    pub(crate) fn unpark(&mut self, service: ServiceId) {
        self.sources.list_parked(&self.items, service);
        self.work_unparking();
    }

    fn work_unparking(&mut self) {
        while self.sources.outages.budget > 0
            && let Some((service, under_way)) = self.sources.outages.unparking.front_mut()
        {
            let parked = self.items.count_standing(service, Standing::Parked);
            match under_way.below.min(parked).checked_sub(1) {
                Some(place) => {
                    under_way.below = place;
                    self.sources.outages.budget -= 1;
                    self.counters.items_touched += 1;
                    let id = self.items.standing(service, Standing::Parked).nth(place).expect("a place in the list");
                    if self.sources.provider_of(&self.items, id).is_some() {
                        self.sources.queue_open(&mut self.items, id);
                    }
                }
                None if under_way.again => *under_way = Unparking { below: parked, again: false },
                None => drop(self.sources.outages.unparking.pop_front()),
            }
        }
    }

    /// Ends an item's bond with its source: what is open is given back, what was asked for is awaited no more if the
    /// source is gone.
    pub(super) fn let_go(&mut self, id: ItemId) {
        let item = self.items.get(id);
        let up = item.source().is_some_and(|source| self.sources.is_up(source));
        match (item.state(), up) {
            (ItemState::Open { .. }, true) => self.give_back(id),
            (ItemState::Open { .. } | ItemState::Opening { .. }, false) => {
                self.end_pair(id);
                self.items.detach(id);
            }
            _ => {}
        }
    }

    /// Has a lost item opened again, if someone is left who watches it.
    pub(crate) fn recover(&mut self, id: ItemId) {
        let item = self.items.get(id);
        // The item may be gone with its last watcher, or be asked for already.
        if !item.is_waiting() {
            return;
        }
        if item.is_private() {
            return self.release(id);
        }
        self.items.recover(id);
        if self.items.is_watched(id) {
            self.counters.items_recovered += 1;
            self.sources.queue_open(&mut self.items, id);
        } else {
            self.release(id);
        }
    }

    /// An open that a Source Distributor refuses. Who lets this server recover streams is told once, and waits.
    pub(crate) fn refused(&mut self, id: ItemId, state: State<'_>) {
        self.items.detach(id);
        self.tell_item(id, state, Telling { once: true, ..Telling::ALL });
        self.recover_later(id);
    }

    /// After a final state: those who are left want it again.
    pub(crate) fn recover_later(&mut self, id: ItemId) {
        let item = self.items.get(id);
        // The item may be gone with its last watcher.
        if !item.is_waiting() {
            return;
        }
        if self.items.is_watched(id) {
            self.items.recover(id);
            self.sources.retry_later(&mut self.items, &self.config, self.now, id);
        } else {
            self.release(id);
        }
    }
}

/// What the watchers of a lost item are told, before their recovery policies are applied to it: open and suspect for who leaves recovery to this
/// server.
fn lost_state(code: StateCode, text: &str) -> State<'_> {
    State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, code, text)
}
