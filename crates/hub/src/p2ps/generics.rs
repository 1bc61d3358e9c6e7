//! Generic messages, both ways on the streams of items.

use super::events::rewrite_key;
use super::items::{ItemId, Phase};
use super::streams::Open;
use super::{P2ps, compose};
use crate::stream::Request;
use rwf::msg::{GenericMsg, MsgKey};

impl P2ps {
    /// A generic message of a client: to the provider of the item. On other streams (standby and mirroring modes, round
    /// trips) it has nowhere to go.
    pub(super) fn generic_from_client(&mut self, client: u32, generic: &GenericMsg<'_>) {
        self.counters.generics += 1;
        let open = self.client(client).and_then(|known| known.streams.get(generic.stream_id));
        let target = match open {
            Some(Open::Item(item)) => Some(self.items.root(item)),
            _ => None,
        };
        if target.is_none_or(|item| !self.generic_to_source(item, generic)) {
            self.counters.generics_dropped += 1;
        }
    }

    fn generic_to_source(&mut self, item: ItemId, generic: &GenericMsg<'_>) -> bool {
        let item = self.items.get(item);
        if item.phase != Phase::Open {
            return false;
        }
        let (number, handle) = (item.source, item.handle);
        let key = generic.key.map(|key| MsgKey { service_id: None, ..key });
        let changed = GenericMsg { key, ..generic.clone() };
        let mut rwf = Vec::new();
        if compose::append(&mut rwf, 512 + generic.body.len(), |w| changed.encode(w)).is_err() {
            return false;
        }
        let Some(source) = self.source_mut(number) else { return false };
        source.writer.request(&Request::Generic { handle, rwf: &rwf });
        true
    }

    /// A generic message of a provider: to all who have the item open.
    pub(super) fn generic_from_source(&mut self, id: ItemId, has_key: bool, rwf: &[u8]) {
        self.counters.generics += 1;
        let Self { turn, items, counters, .. } = self;
        let item = items.get(id);
        let body = turn.arena_body(|arena| {
            if has_key {
                rewrite_key(rwf, item.service, arena)
            } else {
                arena.extend_from_slice(rwf);
                Ok(())
            }
        });
        let Ok(body) = body else {
            counters.hub_messages_bad += 1;
            return;
        };
        let mut reached = 0;
        for &target in [id].iter().chain(item.views()) {
            let open = items.watchers[target as usize].open();
            turn.fan_out(body, open);
            reached += open.len();
        }
        counters.generics_dropped += u64::from(reached == 0);
    }
}
