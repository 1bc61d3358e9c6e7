//! Operators' changes to a P2PS that runs: other limits, words to its clients.

use super::ids::{ClientId, ItemId};
use super::{CloseReason, Config, P2ps, encode};
use rwf::msg::{Domain, RefreshMsg};
use rwf::wire::Writer;
use rwf::{DataState, State, StateCode, StreamState};
use std::collections::VecDeque;

/// Changes of items' states that are remembered, over all items, and the bytes that they may have: providers write the texts, clients
/// the names.
const HISTORY: usize = 8_192;
const HISTORY_BYTES: usize = 4 << 20;

/// Bytes of a text that are remembered; RWF lets it have 32,767.
const TEXT_MAX: usize = 255;

/// A state that the watchers of an item were told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemChange {
    /// When, monotonic nanoseconds.
    pub at: u64,
    /// Of the stream.
    pub stream: StreamState,
    /// Of the data.
    pub data: DataState,
    /// The SDK's code.
    pub code: StateCode,
    /// Why, in the words that went to the watchers; the beginning of a long text.
    pub text: String,
}

/// The last changes of states over all items: old ones make room.
#[derive(Debug, Default)]
pub(crate) struct History {
    changes: VecDeque<(u16, Box<[u8]>, ItemChange)>,
    bytes: usize,
}

impl History {
    /// The watchers of an item are told a state.
    pub(crate) fn note(&mut self, at: u64, (service, name): (u16, &[u8]), state: &State<'_>) {
        // Cut before anything is made of it: what is not UTF-8 grows to three times its length.
        let text = String::from_utf8_lossy(&state.text[..state.text.len().min(TEXT_MAX)]);
        let text = text[..text.floor_char_boundary(TEXT_MAX)].to_owned();
        let change = ItemChange { at, stream: state.stream, data: state.data, code: state.code, text };
        self.bytes += Self::cost(name, &change.text);
        self.changes.push_back((service, name.into(), change));
        while self.changes.len() > HISTORY || self.bytes > HISTORY_BYTES {
            let Some((_, name, oldest)) = self.changes.pop_front() else { break };
            self.bytes -= Self::cost(&name, &oldest.text);
        }
    }

    const fn cost(name: &[u8], text: &str) -> usize {
        size_of::<(u16, Box<[u8]>, ItemChange)>() + name.len() + text.len()
    }
}

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
    pub fn item_history(&self, service: u16, name: &[u8]) -> impl Iterator<Item = &ItemChange> {
        let of = move |known: &&(u16, Box<[u8]>, ItemChange)| known.0 == service && *known.1 == *name;
        self.history.changes.iter().filter(of).map(|(_, _, change)| change)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_remembered_in_bounded_memory_whatever_providers_write() {
        let mut history = History::default();
        let texts = [vec![b'x'; 32_767], vec![0xFF; 32_767], "\u{20AC}".repeat(10_000).into(), b"short".to_vec()];
        let mut name = vec![b'n'; 32_767];
        for round in 0..20_000_u32 {
            let text = &texts[round as usize % texts.len()];
            let state = State { text, ..State::OPEN_OK };
            name.truncate(if round < 1_000 { 32_767 } else { 20 });
            history.note(round.into(), (1, &name), &state);
            let kept: usize = history.changes.iter().map(|(_, name, change)| History::cost(name, &change.text)).sum();
            if round % 500 == 0 {
                assert!(kept == history.bytes && kept <= HISTORY_BYTES, "{kept} bytes, counted as {}", history.bytes);
                assert!(history.changes.iter().all(|(_, _, change)| change.text.len() <= TEXT_MAX));
            }
        }
        assert_eq!(history.changes.len(), HISTORY);
        assert_eq!(history.changes.back().map(|(.., change)| change.text.as_str()), Some("short"));
    }
}
