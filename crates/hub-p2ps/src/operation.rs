//! Operators' changes to a P2PS that runs: other limits, words to its clients.

use super::ids::{ClientId, ItemId};
use super::{CloseReason, Config, ItemChange, P2ps, encode};
use rwf::msg::{Domain, RefreshMsg};
use rwf::wire::Writer;
use rwf::{DataState, State, StateCode, StreamState};

impl P2ps {
    /// Takes over those limits that may change while clients are there; everything else of `config` counts from the next start on. What is
    /// open beyond a smaller limit stays.
    pub fn reconfigure(&mut self, config: &Config) {
        let own = &mut self.config;
        own.max_mounts_per_user = config.max_mounts_per_user;
        own.item_limit = config.item_limit;
        own.aggregate_item_limit = config.aggregate_item_limit;
        own.total_item_limit = config.total_item_limit;
        own.service_item_limits.clone_from(&config.service_item_limits);
        own.service_open_windows.clone_from(&config.service_open_windows);
        own.load_percents = config.load_percents;
        own.load_factor_interval = config.load_factor_interval;
        (own.mounts_when_full, own.load_scale) = (config.mounts_when_full, config.load_scale);
        own.connections.clone_from(&config.connections);
        own.open_queue = config.open_queue;
        (own.open_window, own.open_window_for_polls) = (config.open_window, config.open_window_for_polls);
        own.post_timeout = config.post_timeout;
        (own.unwatched_time, own.max_unwatched) = (config.unwatched_time, config.max_unwatched);
        own.notices = config.notices;
        own.services.clone_from(&config.services);
        own.egress = config.egress;
        self.output.set_limits(config.egress);
        if (&own.source_order, own.source_failback) != (&config.source_order, config.source_failback) {
            own.source_order.clone_from(&config.source_order);
            own.source_failback = config.source_failback;
            self.reorder_sources();
        }
        let own = &mut self.config;
        if (&own.source_pairs, own.sequence_numbers) != (&config.source_pairs, config.sequence_numbers) {
            own.source_pairs.clone_from(&config.source_pairs);
            own.sequence_numbers = config.sequence_numbers;
            self.pair_sources();
        }
        self.reconsider_load();
        self.look_at_servers();
    }

    /// The states that the watchers of an item were told last, oldest first; the last 8,192 changes of all items are remembered, in 4 MB at most.
    pub fn item_history<'h>(&'h self, service: u16, name: &'h [u8]) -> impl Iterator<Item = &'h ItemChange> {
        self.history.of(service, name)
    }

    /// The numbers of the items of a name, as [`Self::item_overview`] has them: of the `looked_at` items from number `from` on; and the
    /// number to go on from, if there are more.
    pub fn items_of(&self, service: &str, name: &[u8], from: u32, looked_at: u32) -> (Vec<u32>, Option<u32>) {
        let end = from.saturating_add(looked_at).min(self.items.numbers());
        let found = self.items_named(service, name, (from..end).map(ItemId)).map(|id| id.0).collect();
        (found, (end < self.items.numbers()).then_some(end))
    }

    /// The Source Distributor of the item of this number, if it is open or asked for.
    pub fn item_source(&self, number: u32) -> Option<u32> {
        let item = self.items.get(self.items.live_item(number)?);
        item.source().map(|source| u32::from(source.0))
    }

    /// The cached image of the item of this number, of a view that of the whole item, as one refresh, and whether the provider would send the same now. `None` for one
    /// that is not cached, or of which no image has come.
    pub fn item_image(&mut self, number: u32) -> Option<(Vec<u8>, bool)> {
        let id = self.items.live_item(number)?;
        let (root, domain) = (self.items.root(id).0, Domain(self.items.key(id).domain));
        let cached = self.items.cache_mut().get(root)?;
        let header = RefreshMsg::new(domain, 0);
        let mut message = Vec::new();
        let write = |w: &mut Writer<'_>| cached.image().write(header.clone(), 0, usize::MAX, w).map(drop);
        encode::append(&mut message, 4_096, write).ok()?;
        Some((message, cached.current().is_some()))
    }

    /// The items of a name among `ids`, its views left out.
    pub(super) fn items_named(
        &self,
        service: &str,
        name: &[u8],
        ids: impl Iterator<Item = ItemId>,
    ) -> impl Iterator<Item = ItemId> {
        let service = self.sources.services().iter().find(|known| known.name == service).map(|known| known.id);
        ids.filter(move |&id| {
            let item = self.items.get(id);
            Some(item.service()) == service && item.is_live() && item.is_named(name)
        })
    }

    /// Tells every client that is logged in something, on its login stream, which stays as it is. Tells how many there are.
    pub fn tell_logins(&mut self, now: u64, text: &str) -> usize {
        self.now = now;
        let logins = self.clients.iter().filter_map(|(id, client)| Some((id, client.login.as_ref()?.stream)));
        let logins: Vec<_> = logins.collect();
        for &(client, stream) in &logins {
            let state = State::new(StreamState::OPEN, DataState::NO_CHANGE, StateCode::NONE, text);
            self.send_status(client, stream, Domain::LOGIN, state);
        }
        logins.len()
    }

    /// Has a client go elsewhere: its login is told so (Open/Suspect, which makes all of its items suspect), then its connection is closed.
    /// A client that finds its connection closed connects anew by itself. False for one that is closed already.
    pub fn dismiss(&mut self, now: u64, client: ClientId, why: &str) -> bool {
        self.now = now;
        // A client that is closed, or was never there, is gone as it is.
        let Some(known) = self.clients.get(client).filter(|known| !known.closing) else { return false };
        if let Some(stream) = known.login.as_ref().map(|login| login.stream) {
            let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, why);
            self.send_status(client, stream, Domain::LOGIN, state);
        }
        self.close_client(client, CloseReason::ByOperator { why: why.to_owned() });
        true
    }
}
