//! The operator's view of a P2PS: its services, its items, who watches them. Nothing here changes anything.

use super::P2ps;
use super::ids::{ClientId, ItemId, ServiceId, SourceId};
use super::items::Items;
use super::items::state::{Item, Standing, State, Wait};
use super::sources::services::{Provider, Service};

/// A service as one Source Distributor offers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceOverview<'a> {
    /// The Source Distributor's number here.
    pub id: SourceId,
    /// The Source Distributor's name; empty if it has none.
    pub name: &'a str,
    /// The service is up there.
    pub up: bool,
    /// The service takes requests.
    pub accepting: bool,
    /// Items open there.
    pub open: usize,
    /// Opens that it has not answered.
    pub opening: usize,
    /// Items that are open elsewhere, and for which it stands by ([`super::Config::source_pairs`]).
    pub standby: usize,
}

/// A service as clients know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceOverview<'a> {
    /// The service's id here.
    pub id: u16,
    /// The service's name.
    pub name: &'a str,
    /// Some source has it.
    pub present: bool,
    /// `ServiceState`, as clients were told last.
    pub up: bool,
    /// `AcceptingRequests`, as clients were told last.
    pub accepting: bool,
    /// Source Distributors that have it, in the order in which they are asked.
    pub sources: Vec<SourceOverview<'a>>,
    /// Items of it that wait to be opened.
    pub waiting: usize,
    /// Items of it whose watchers were told that they are suspect, and nothing good since.
    pub suspect: u32,
    /// The sites that it comes through, as clients were told last.
    pub path: &'a [String],
}

/// An item as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemOverview {
    /// The item's number, by which a list goes on.
    pub number: u32,
    /// The id of its service.
    pub service: u16,
    /// The item's name; bytes that are no UTF-8 are replaced.
    pub name: String,
    /// The domain's number.
    pub domain: u8,
    /// Where it stands: `waiting`, `opening`, `open`, `view`; `suspect` or `recovering` instead of `open` where that is so.
    pub state: &'static str,
    /// The item's watchers were told that it is suspect, and nothing good since, wherever it stands.
    pub is_suspect: bool,
    /// The item's Source Distributor, if it is open or asked for.
    pub source: Option<u32>,
    /// Watchers that get updates.
    pub open_watchers: usize,
    /// Watchers that wait for an image, or are paused.
    pub held_watchers: usize,
    /// One open of its own: a snapshot or a private stream.
    pub is_private: bool,
}

/// The values of [`ItemOverview::state`].
pub const ITEM_STATES: [&str; 7] =
    ["waiting", "waiting to be asked for again", "opening", "open", "suspect", "recovering", "view"];

/// Where an item stands, in a word or two.
fn state_of(item: &Item) -> &'static str {
    match item.state() {
        State::Free => "free",
        State::Waiting(Wait::Retrying) => "waiting to be asked for again",
        State::Waiting(_) => "waiting",
        State::Opening { .. } => "opening",
        _ if item.is_suspect() => "suspect",
        _ if item.is_recovering() => "recovering",
        State::Open { .. } => "open",
        State::View { .. } => "view",
    }
}

impl Items {
    fn overview_of(&self, id: ItemId, item: &Item) -> ItemOverview {
        let (key, watchers) = (self.key(id), self.watchers(id));
        ItemOverview {
            number: id.0,
            service: item.service().0,
            name: String::from_utf8_lossy(key.name.unwrap_or_default()).into_owned(),
            domain: key.domain,
            state: state_of(item),
            is_suspect: self.is_suspect(id),
            source: item.source().map(|source| u32::from(source.0)),
            open_watchers: watchers.open().len(),
            held_watchers: watchers.held().len(),
            is_private: item.is_private() || item.is_snapshot(),
        }
    }
}

impl P2ps {
    /// Every service that was ever known, in the order of the ids.
    pub fn service_overview(&self) -> impl Iterator<Item = ServiceOverview<'_>> {
        self.sources.services().iter().map(|service| ServiceOverview {
            id: service.id.0,
            name: &service.name,
            present: service.alive,
            up: service.alive && service.told.up,
            accepting: service.alive && service.told.accepting,
            sources: service.providers.iter().map(|provider| self.source_overview(service.id, provider)).collect(),
            waiting: service.queue().len(),
            suspect: self.items.count_suspect(service.id),
            path: &service.told_path,
        })
    }

    /// Whether these services are down, or not there: all of them, or with `any` at least one. Without names it is about all services that
    /// there are; without a service everything is down.
    pub fn is_out(&self, services: &[String], any: bool) -> bool {
        let is_up = |service: &Service| service.alive && service.told.up;
        let mut alive = self.sources.services().iter().filter(|service| service.alive);
        let name_is_up = |name: &String| self.sources.services().by_name(name).is_some_and(is_up);
        match (services, any) {
            ([], true) => !alive.all(is_up) || !self.sources.services().iter().any(is_up),
            ([], false) => !alive.any(is_up),
            (names, true) => !names.iter().all(name_is_up),
            (names, false) => !names.iter().any(name_is_up),
        }
    }

    fn source_overview(&self, service: ServiceId, provider: &Provider) -> SourceOverview<'_> {
        let count = |standing| self.items.count_standing(service, standing);
        SourceOverview {
            id: provider.source,
            name: self.sources.get(provider.source).map_or("", |source| source.name.as_str()),
            up: provider.offer.condition.up,
            accepting: provider.takes_requests(&self.sources),
            open: count(Standing::Open(provider.source)),
            opening: count(Standing::Opening(provider.source)),
            standby: self.hot_standby.count_at(provider.source, service),
        }
    }

    /// Items from number `from` on that `wanted` takes (by service id, name, state and whether it is suspect), at most `limit` of them, of at most `looked_at`
    /// that are looked at; and the number to go on from, if there are more.
    pub fn item_overview(
        &self,
        from: u32,
        (limit, looked_at): (usize, usize),
        wanted: impl Fn(u16, &[u8], &str, bool) -> bool,
    ) -> (Vec<ItemOverview>, Option<u32>) {
        let mut found = Vec::new();
        let ids = self.items.all_ids().skip(from as usize);
        for (looked, id) in ids.enumerate() {
            if found.len() >= limit || looked >= looked_at {
                return (found, Some(id.0));
            }
            let item = self.items.get(id);
            if !item.is_live() {
                continue;
            }
            let name = self.items.key(id).name.unwrap_or_default();
            if wanted(item.service().0, name, state_of(item), self.items.is_suspect(id)) {
                found.push(self.items.overview_of(id, item));
            }
        }
        (found, None)
    }

    /// The clients that watch the item of this number, each with its stream; at most `limit`.
    pub fn item_watchers(&self, number: u32, limit: usize) -> Vec<(ClientId, i32)> {
        if number >= self.items.numbers() {
            return Vec::new();
        }
        let watchers = self.items.watchers(ItemId(number)).all();
        watchers.iter().take(limit).map(|watcher| (watcher.client, watcher.stream.0)).collect()
    }

    /// Bytes that wait for a client: in its session, and held here.
    pub fn client_waiting(&self, id: ClientId) -> usize {
        self.output.waiting_of(id)
    }
}
