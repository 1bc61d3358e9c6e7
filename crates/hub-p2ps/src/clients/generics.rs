//! Generic messages, both ways on the streams of items; answers to round trips and word of a standby on the streams of login and directory.

use crate::ids::{ClientId, ItemId, StreamId};
use crate::items::watchers::Watcher;
use crate::stream::Request;
use crate::{P2ps, encode};
use rwf::msg::{GenericFlags, GenericMsg, MsgKey};

impl P2ps {
    /// A generic message of a client: to the provider of the item, the answer to a round trip, or what this server is to the client. On other
    /// streams it has nowhere to go, and on one whose image the client has not been granted yet.
    pub(crate) fn generic_from_client(&mut self, client: ClientId, generic: &GenericMsg<'_>) {
        self.counters.generics += 1;
        if self.round_trip_answered(client, generic) || self.standby_changes(client, generic) {
            return;
        }
        let stream = StreamId(generic.stream_id);
        let item = self.clients.get(client).and_then(|known| known.streams.item(stream));
        let item = item.filter(|_| self.gate.is_admitted(Watcher { client, stream }));
        let target = item.map(|item| self.items.root(item));
        if target.is_none_or(|item| !self.generic_to_source(item, generic)) {
            self.counters.generics_dropped += 1;
        }
    }

    fn generic_to_source(&mut self, item: ItemId, generic: &GenericMsg<'_>) -> bool {
        // The caller counts what cannot be passed on.
        let Some((source, handle)) = self.items.open_at(item) else { return false };
        let key = generic.key.map(|key| MsgKey { service_id: None, ..key });
        let changed = GenericMsg { key, ..generic.clone() };
        let mut rwf = Vec::new();
        if encode::append(&mut rwf, 512 + generic.body.len(), |w| changed.encode(w)).is_err() {
            return false;
        }
        // As above: the source is lost, and its items have yet to be told of.
        let Some(source) = self.sources.up_mut(source) else { return false };
        source.writer.request(&Request::Generic { handle: handle.0, rwf: &rwf });
        true
    }

    /// A generic message of a provider: to all who have the item open.
    pub(crate) fn generic_from_source(&mut self, id: ItemId, has_key: bool, rwf: &[u8]) {
        self.counters.generics += 1;
        if rwf::peek::flags(rwf).is_some_and(|bits| bits & GenericFlags::HAS_PERM_DATA.0 != 0) && self.looks_at_locks()
        {
            return self.guarded_generic(id, has_key, rwf);
        }
        self.release_conflated(id);
        let Self { output, items, counters, .. } = self;
        let Some(body) = output.message_body(rwf, has_key.then(|| items.get(id).service())) else {
            counters.hub_messages_bad += 1;
            return;
        };
        let mut reached = 0;
        for &target in [id].iter().chain(items.views_of(id)) {
            let open = items.watchers(target).open();
            output.fan_out(body, open);
            reached += open.len();
        }
        counters.generics_dropped += u64::from(reached == 0);
    }
}
