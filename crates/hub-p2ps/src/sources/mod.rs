//! The Source Distributors as a P2PS sees them: their handles, the opens that they have not answered, and what goes to them next.
//!
//! * `services`, `qos`: the services of all sources merged;
//! * `upstream`: what is opened, asked for again, and closed;
//! * `outage`: what the end of a source or of a service means;
//! * `failover`: items of a service that is down at one source and up at another, or that go back to the first one of an order;
//! * `order`: which source comes first, and when what was lost is whole again;
//! * `gap_recovery`: joining over a network, what is lost there, and silence;
//! * `point_to_point`: images that come by another way than the updates.

pub(crate) mod failover;
mod gap_recovery;
mod order;
mod outage;
mod point_to_point;
pub(crate) mod qos;
pub(crate) mod services;
mod upstream;

use super::config::Config;
use super::ids::{Handle, ItemId, RemoteService, ServiceId, SourceId, Token};
use super::items::Items;
use super::items::state::{Kind, Standing};
use crate::conflation::ServiceConflation;
use crate::items::watchers::Watcher;
use crate::load::usage::ServiceUsage;
use crate::stream::{BlockWriter, Continuity};
use gap_recovery::BehindGap;
use outage::Outages;
use point_to_point::EarlyImages;
use rustc_hash::FxHashMap;
use rwf::rdm::directory;
use services::{Condition, Offer, Provider, Service, Services};
use upstream::Upstream;
pub(crate) use upstream::end_unwatched;

/// What a Source Distributor says when a P2PS joins it over a network. It comes by the way that requests go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joined {
    /// The number that the P2PS has there.
    pub number: u16,
    /// The life of the Source Distributor.
    pub incarnation: u32,
    /// Position of its stream from which on everything counts for this P2PS.
    pub position: u64,
}

/// Bits of a token that number the open; the others number the life of the stream.
const TOKEN_BITS: u32 = 24;
const TOKEN_MASK: u32 = (1 << TOKEN_BITS) - 1;

/// One Source Distributor.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) up: bool,
    /// What it is called, the same in every life of it; empty where there is one only and nobody has named it.
    pub(crate) name: String,
    /// The source's place in the configured order; those that are not in it share the last one.
    pub(crate) rank: usize,
    /// Source Distributors that stand by for each other have the same number here.
    pub(crate) pair: Option<usize>,
    /// The number that this P2PS has there.
    pub(crate) number: u16,
    /// The life of it that was joined over a network; `None` if there is none between.
    pub(crate) joined: Option<u32>,
    /// What came behind a gap waits here until the Source Distributor has said what was lost.
    pub(crate) behind_gap: BehindGap,
    /// Images for this P2PS alone that are ahead of the stream.
    pub(crate) early_images: EarlyImages,
    /// Position that its stream was read to and acted upon.
    pub(crate) read_to: u64,
    /// Bytes of it read since the source was told how far.
    pub(crate) unreported: usize,
    incarnation: u32,
    pub(crate) continuity: Continuity,
    /// A block of its present life was read.
    pub(crate) heard: bool,
    pub(crate) writer: BlockWriter,
    /// Item by handle.
    handles: Vec<ItemId>,
    /// Item by token; what is free is linked through `free_tokens`.
    tokens: Vec<ItemId>,
    free_tokens: Vec<u32>,
    /// Public service by the source's own service id.
    pub(crate) services: FxHashMap<RemoteService, ServiceId>,
    /// When its last block came.
    pub(crate) heard_at: u64,
    /// When the last block went to it.
    pub(crate) sent_at: u64,
    /// What of this P2PS as a server it was told, by number; 0 if nothing.
    pub(crate) announced: u64,
}

impl Source {
    pub(crate) fn new(incarnation: u32) -> Self {
        Self {
            up: false,
            name: String::new(),
            rank: usize::MAX,
            pair: None,
            number: crate::stream::ALL,
            joined: None,
            behind_gap: BehindGap::default(),
            early_images: EarlyImages::default(),
            read_to: 0,
            unreported: 0,
            incarnation,
            continuity: Continuity::new(),
            heard: false,
            writer: BlockWriter::new(incarnation),
            handles: Vec::new(),
            tokens: Vec::new(),
            free_tokens: Vec::new(),
            services: FxHashMap::default(),
            heard_at: 0,
            sent_at: 0,
            announced: 0,
        }
    }

    /// Opens that are not answered.
    pub(crate) fn opening(&self) -> usize {
        self.tokens.len() - self.free_tokens.len()
    }

    /// A token for the open of an item. It tells this life of the stream from the one before, whose answers may still
    /// be on their way.
    pub(crate) fn new_token(&mut self, item: ItemId) -> Token {
        debug_assert!(self.up, "an open at a source that is not there");
        let slot = if let Some(slot) = self.free_tokens.pop() {
            self.tokens[slot as usize] = item;
            slot
        } else {
            self.tokens.push(item);
            (self.tokens.len() - 1) as u32
        };
        Token(slot | self.life())
    }

    fn life(&self) -> u32 {
        (self.incarnation & 0xFF) << TOKEN_BITS
    }

    /// The item of a token, which is free afterwards.
    pub(crate) fn take_token(&mut self, token: Token) -> Option<ItemId> {
        if token.0 & !TOKEN_MASK != self.life() {
            return None;
        }
        let slot = token.0 & TOKEN_MASK;
        let place = self.tokens.get_mut(slot as usize)?;
        let item = std::mem::replace(place, ItemId::NONE);
        if item == ItemId::NONE {
            return None;
        }
        self.free_tokens.push(slot);
        Some(item)
    }

    /// True if another open fits: tokens are limited as well.
    pub(crate) fn has_room(&self, window: usize) -> bool {
        let window = if window == 0 { TOKEN_MASK as usize } else { window };
        self.opening() < window
    }

    /// What a handle stands for: an item, its mirror ([`ItemId::original`]), or [`ItemId::NONE`] if nobody watches here.
    #[inline]
    pub(crate) fn item(&self, handle: Handle) -> ItemId {
        self.handles.get(handle.0 as usize).copied().unwrap_or(ItemId::NONE)
    }

    /// Asks for the memory that says which item a handle stands for.
    pub(crate) fn ask(&self, handle: Handle) {
        lines::fetch(&[self.handles.as_ptr().wrapping_add(handle.0 as usize).cast()]);
    }

    /// Binds a handle, which is no higher than it may be; false for one that stands for another item.
    pub(crate) fn bind(&mut self, handle: Handle, item: ItemId) -> bool {
        if self.item(handle) != ItemId::NONE {
            return false;
        }
        let at = handle.0 as usize;
        if self.handles.len() <= at {
            self.handles.resize(at + 1, ItemId::NONE);
        }
        self.handles[at] = item;
        true
    }

    /// Forgets a handle.
    pub(crate) fn unbind(&mut self, handle: Handle) {
        debug_assert!(self.item(handle) != ItemId::NONE, "{handle:?} stands for no item");
        if let Some(slot) = self.handles.get_mut(handle.0 as usize) {
            *slot = ItemId::NONE;
        }
    }

    /// A handle stands for something else of the same item from now on.
    pub(crate) fn rebind(&mut self, handle: Handle, item: ItemId) {
        debug_assert!(self.item(handle) != ItemId::NONE, "{handle:?} stands for no item");
        if let Some(slot) = self.handles.get_mut(handle.0 as usize) {
            *slot = item;
        }
    }

    /// The answer to this open is for something else of the same item from now on, or for nobody.
    pub(crate) fn reassign(&mut self, token: Token, item: ItemId) {
        debug_assert!(self.token(token).is_some_and(|item| item != ItemId::NONE), "{token:?} is answered");
        if let Some(slot) = self.tokens.get_mut((token.0 & TOKEN_MASK) as usize) {
            *slot = item;
        }
    }

    /// Forgets everything that belongs to the source's life so far, and what was to be sent. The stream to it begins
    /// again, as a new life of this side.
    pub(crate) fn forget(&mut self) {
        self.up = false;
        self.joined = None;
        self.behind_gap = BehindGap::default();
        self.early_images = EarlyImages::default();
        self.incarnation = self.incarnation.wrapping_add(1);
        self.writer = BlockWriter::new(self.incarnation);
        self.continuity = Continuity::new();
        self.heard = false;
        self.handles.clear();
        self.tokens.clear();
        self.free_tokens.clear();
        self.services.clear();
        self.announced = 0;
    }

    /// The item of a token that is not answered, for checks.
    pub(crate) fn token(&self, token: Token) -> Option<ItemId> {
        let slot = (token.0 & !TOKEN_MASK == self.life()).then_some(token.0 & TOKEN_MASK)?;
        self.tokens.get(slot as usize).copied()
    }

    /// Handles that stand for something of an item, for checks.
    pub(crate) fn bound(&self) -> usize {
        self.handles.iter().filter(|&&item| item != ItemId::NONE).count()
    }

    /// Opens that are not answered of which nobody wants to know any more, for checks.
    pub(crate) fn forsaken(&self) -> usize {
        self.tokens.iter().filter(|&&item| item == ItemId::FORSAKEN).count()
    }
}

/// Where a source stands in the configured order, with its number for those that are not in it.
fn rank_in(table: &[Option<Box<Source>>], id: SourceId) -> (usize, SourceId) {
    let source = table.get(usize::from(id.0)).and_then(Option::as_deref);
    (source.map_or(usize::MAX, |source| source.rank), id)
}

/// A source as operators know it: by its name, or its number if it has none.
fn name_in(table: &[Option<Box<Source>>], id: SourceId) -> String {
    let source = table.get(usize::from(id.0)).and_then(Option::as_deref);
    let name = source.map(|source| source.name.as_str()).filter(|name| !name.is_empty());
    name.map_or_else(|| id.0.to_string(), str::to_owned)
}

/// What an offer of a source has changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// Clients do not know the service.
    pub(crate) is_new: bool,
    /// More is offered than before.
    pub(crate) grown: bool,
    /// The source took requests for the service before.
    pub(crate) took_requests: bool,
}

/// A service of which clients are told again.
#[derive(Debug)]
pub(crate) struct Retold<'a> {
    /// The service as they are told of it now.
    pub(crate) service: &'a Service,
    /// State and load as they were told before.
    pub(crate) before: Condition,
    /// They were told of other sites or lines before.
    pub(crate) has_other_links: bool,
}

/// All Source Distributors, by number, their services, and what is asked of them. The files of this folder read and write the tables;
/// everyone else goes through methods.
#[derive(Debug)]
pub(crate) struct Sources {
    /// By number; `None` for one that was never heard of.
    table: Vec<Option<Box<Source>>>,
    /// Sources whose transports are to be ended, and why.
    closing: Vec<(SourceId, &'static str)>,
    /// The services of all sources, merged by name.
    services: Services,
    /// Opens, images, priorities and retries that sources are asked for later.
    upstream: Upstream,
    /// Losses of sources and services that are told of in turns, and items that move or come back.
    outages: Outages,
    /// The number of this P2PS at sources that it has not joined over a network; not 0xFFFF.
    id: u16,
    /// When [`crate::P2ps::on_timer`] was called last, nanoseconds: tells when this process stood still.
    ticked: u64,
    /// Room for a request, used again and again.
    request: Vec<u8>,
}

impl Sources {
    /// No sources. `id` is the number of this P2PS at them.
    pub(crate) fn new(config: &Config, id: u16) -> Self {
        let mut outages = Outages::default();
        outages.begin_turn(config.work_per_turn);
        Self {
            table: Vec::new(),
            closing: Vec::new(),
            services: Services::new(config.hash_seed, &config.service_ids),
            upstream: Upstream::new(config.opens_per_turn, config.work_per_turn),
            outages,
            id,
            ticked: 0,
            request: Vec::new(),
        }
    }

    /// A turn may send so many opens, and look at so many items that are lost, or whose demands have changed.
    pub(crate) fn begin_turn(&mut self, opens_per_turn: u32, work_per_turn: u32) {
        self.upstream.begin_turn(opens_per_turn, work_per_turn);
        self.outages.begin_turn(work_per_turn);
    }

    /// True if something is left for the next turn that waits for nobody.
    pub(crate) fn has_work(&self) -> bool {
        self.upstream.has_demands() || self.outages.has_work()
    }

    /// When items go back to their first source.
    pub(crate) fn failback_deadline(&self) -> Option<u64> {
        self.outages.failback_timeout()
    }

    /// When the next item is asked for again.
    pub(crate) fn retry_deadline(&self) -> Option<u64> {
        self.upstream.retry_deadline()
    }

    /// When the next item has waited too long for an image behind which more is asked for.
    pub(crate) fn reissue_deadline(&self) -> Option<u64> {
        self.upstream.reissue_deadline()
    }

    /// The services of all sources.
    #[inline]
    pub(crate) fn services(&self) -> &Services {
        &self.services
    }

    /// What is open of a service, and its name.
    pub(crate) fn usage_mut(&mut self, service: ServiceId) -> Option<(&mut ServiceUsage, &str)> {
        self.services.get_mut(service).map(|known| (&mut known.usage, &*known.name))
    }

    /// The room for a request, to be [put back](Self::put_back_request).
    pub(crate) fn take_request(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.request)
    }

    /// See [`Self::take_request`].
    pub(crate) fn put_back_request(&mut self, request: Vec<u8>) {
        self.request = request;
    }

    /// One of the opens that may still be sent in this turn; false if there is none.
    pub(crate) fn take_open(&mut self) -> bool {
        self.upstream.take_open()
    }

    /// An image of an open item is asked for as the limit of a turn lets it.
    pub(crate) fn queue_refresh(&mut self, item: ItemId) {
        self.upstream.queue_refresh(item);
    }

    /// Items and watchers that may still be looked at in this turn because something was lost.
    pub(crate) const fn outage_budget(&self) -> usize {
        self.outages.budget
    }

    /// So many were looked at, no more than [`Self::outage_budget`].
    pub(crate) fn spend_outage_budget(&mut self, looked_at: usize) {
        self.outages.budget -= looked_at;
    }

    /// A stream is told its end: no outage has to tell it.
    pub(crate) fn note_end(&mut self, watcher: Watcher) {
        self.outages.note_end(watcher);
    }

    /// True if losses are being told of, or items move or are being queued.
    pub(crate) fn has_outages(&self) -> bool {
        self.outages.has_work()
    }

    /// True if a source is back, and waits until its loss was told of.
    pub(crate) fn is_rejoining(&self, source: SourceId) -> bool {
        self.outages.is_rejoining(source)
    }

    /// True if a source is lost, and what it served is not told of.
    pub(crate) fn is_losing(&self, source: SourceId) -> bool {
        self.outages.is_losing(source)
    }

    /// True if items of a service are being queued, or told of an outage.
    pub(crate) fn concerns(&self, service: ServiceId) -> bool {
        self.outages.concerns(service)
    }

    /// Puts the sources of a service in the order in which they are asked.
    fn sort_providers(&mut self, service: ServiceId) {
        let Self { table, services, .. } = self;
        if let Some(service) = services.get_mut(service) {
            service.sort_providers(|source| rank_in(table, source));
        }
    }

    /// Takes in what a source says of a service, which it knows by an id of its own; `None` for a service that has no id.
    pub(crate) fn take_offer(
        &mut self,
        id: ServiceId,
        (source, remote): (SourceId, RemoteService),
        offer: Offer,
        conflation: &ServiceConflation,
    ) -> Option<Taken> {
        let known = self.services.get(id)?;
        let took_requests = known.providers.iter().any(|at| at.source == source && at.takes_requests(self));
        let service = self.services.get_mut(id)?;
        let is_new = !service.alive;
        if is_new {
            service.info = directory::Info::default();
            service.source_qos.clear();
        }
        let grown = service.widen(&offer.info, conflation);
        match service.providers.iter_mut().find(|provider| provider.source == source) {
            Some(provider) => (provider.service, provider.offer) = (remote, offer),
            None => service.providers.push(Provider { source, service: remote, offer }),
        }
        service.alive = true;
        self.sort_providers(id);
        Some(Taken { is_new, grown, took_requests })
    }

    /// The longest pause before something of a service is asked for again.
    pub(crate) fn longest_recovery_delay(&self, config: &Config, service: ServiceId) -> u64 {
        config.recovery_delay_max_of(self.services.get(service).map_or("", |known| known.name.as_str()))
    }

    /// What clients are told from now on of a service that is there, and what they were told before.
    pub(crate) fn note_told(&mut self, id: ServiceId, load_factor: Option<u64>, config: &Config) -> Option<Retold<'_>> {
        let service = self.services.alive(id)?;
        let condition = service.condition(self, load_factor, config.discourages_on_outage(&service.name));
        let service = self.services.get_mut(id)?;
        let (path, lines) = (service.path(), service.lines());
        let before = std::mem::replace(&mut service.told, condition);
        let has_other_links = service.told_path != path || service.told_lines != lines;
        (service.told_path, service.told_lines) = (path, lines);
        Some(Retold { service, before, has_other_links })
    }

    /// Clients know a service no more; false if they did not.
    pub(crate) fn delete_service(&mut self, id: ServiceId, now: u64) -> bool {
        let Self { services, outages, .. } = self;
        // Clients have heard of its end.
        let Some(service) = services.get_mut(id).filter(|service| service.alive) else { return false };
        outages.order.forget(service);
        service.leave(now);
        true
    }

    /// Panics if what is lost, or waits in queues, was miscounted.
    pub(crate) fn check(&self) {
        self.outages.check();
        self.services.check();
    }

    pub(crate) fn get(&self, id: SourceId) -> Option<&Source> {
        self.table.get(usize::from(id.0))?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, id: SourceId) -> Option<&mut Source> {
        self.table.get_mut(usize::from(id.0))?.as_deref_mut()
    }

    /// A source that is there.
    pub(crate) fn up(&self, id: SourceId) -> Option<&Source> {
        self.get(id).filter(|source| source.up)
    }

    /// A source that is there.
    pub(crate) fn up_mut(&mut self, id: SourceId) -> Option<&mut Source> {
        self.get_mut(id).filter(|source| source.up)
    }

    pub(crate) fn is_up(&self, id: SourceId) -> bool {
        self.up(id).is_some()
    }

    /// A source as operators know it.
    pub(crate) fn name_of(&self, id: SourceId) -> String {
        name_in(&self.table, id)
    }

    /// Where a source stands in the configured order.
    pub(crate) fn rank(&self, id: SourceId) -> (usize, SourceId) {
        rank_in(&self.table, id)
    }

    /// True if a source's images may come by another way than its updates.
    pub(crate) fn is_over_network(&self, id: SourceId) -> bool {
        self.get(id).is_some_and(|source| source.joined.is_some())
    }

    /// The item that a handle stands for; `None` for one that nobody watches here.
    pub(crate) fn item_of(&self, id: SourceId, handle: Handle) -> Option<ItemId> {
        let item = self.get(id)?.item(handle);
        item.is_item().then_some(item)
    }

    /// The item whose mirror a handle stands for.
    pub(crate) fn mirror_of(&self, id: SourceId, handle: Handle) -> Option<ItemId> {
        self.get(id)?.item(handle).original()
    }

    /// What a source has in common with those that stand by for it.
    pub(crate) fn pair_of(&self, id: SourceId) -> Option<usize> {
        self.get(id)?.pair
    }

    /// The service that a source knows by this id.
    pub(crate) fn service_of(&self, id: SourceId, service: RemoteService) -> Option<ServiceId> {
        self.get(id)?.services.get(&service).copied()
    }

    pub(crate) fn get_or_insert(&mut self, id: SourceId, incarnation: u32) -> &mut Source {
        let slot = usize::from(id.0);
        if self.table.len() <= slot {
            self.table.resize_with(slot + 1, || None);
        }
        self.table[slot].get_or_insert_with(|| Box::new(Source::new(incarnation)))
    }

    /// Numbers of all sources that there may be.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SourceId> + use<> {
        (0..self.table.len() as u16).map(SourceId)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SourceId, &Source)> {
        (0..).map(SourceId).zip(&self.table).filter_map(|(id, source)| Some((id, source.as_deref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (SourceId, &mut Source)> {
        (0..).map(SourceId).zip(&mut self.table).filter_map(|(id, source)| Some((id, source.as_deref_mut()?)))
    }

    /// The sources that are there.
    pub(crate) fn iter_up(&mut self) -> impl Iterator<Item = (SourceId, &mut Source)> {
        self.iter_mut().filter(|(_, source)| source.up)
    }

    /// The transport to a source is to be ended.
    pub(crate) fn close(&mut self, id: SourceId, why: &'static str) {
        self.closing.push((id, why));
    }

    pub(crate) fn closing(&mut self) -> std::vec::Drain<'_, (SourceId, &'static str)> {
        self.closing.drain(..)
    }

    /// True if what is targeted so is for this P2PS.
    pub(crate) fn is_target(&self, number: SourceId, target: u16) -> bool {
        self.get(number).is_some_and(|source| source.number == target)
    }

    pub(crate) fn public_service(&self, number: SourceId, service: u16) -> Option<ServiceId> {
        self.service_of(number, RemoteService(service))
    }

    /// Items that wait to be opened.
    pub(crate) fn items_waiting(&self, items: &Items) -> u64 {
        let waits = [Standing::Queued, Standing::Parked];
        let waiting = |service| waits.map(|standing| items.count_standing(service, standing)).iter().sum::<usize>();
        self.services().ids().map(waiting).sum::<usize>() as u64
    }

    /// Whether an item is asked for whole at a source, so that it can stand by there: without views.
    pub(crate) fn is_asked_whole(&self, items: &Items, id: ItemId, source: SourceId) -> bool {
        items.get(id).kind() == Kind::SHARED && self.pair_of(source).is_some()
    }

    /// Whether an item is one that hot standby is for, as it is open now.
    pub(crate) fn is_hot(&self, items: &Items, config: &Config, id: ItemId) -> bool {
        let item = items.get(id);
        let at = item.open_at().filter(|_| item.kind() == Kind::SHARED && !item.is_view());
        config.has_hot_standby() && at.is_some_and(|(source, _)| self.pair_of(source).is_some())
    }

    /// Where an item is open: the source, its number of the service, its handle of the item.
    pub(crate) fn open_at_source(&self, items: &Items, id: ItemId) -> Option<(SourceId, RemoteService, Handle)> {
        let (source, handle) = items.open_at(id)?;
        let service = items.get(id).service();
        let known = self.up(source)?.services.iter().find(|(_, public)| **public == service);
        Some((source, *known?.0, handle))
    }

    /// An image of an open item is asked for at its new source, as the limit of a turn lets it. What comes beside the stream from before is of
    /// no use.
    pub(crate) fn want_image_at(&mut self, items: &mut Items, id: ItemId, source: SourceId) {
        if self.is_over_network(source)
            && let Some(last) = self.get(source).and_then(|source| source.read_to.checked_sub(1))
        {
            items.bar_images(id, last);
        }
        if items.get_mut(id).set_refresh_queued(true) {
            self.queue_refresh(id);
        }
    }
}
