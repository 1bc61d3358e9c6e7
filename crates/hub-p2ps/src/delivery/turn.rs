//! One turn's deliveries: bodies once, and for each client a list of (body, stream id) in order.
//!
//! A body lies either in the hub block of the turn, where it is left, or in the turn's private arena. A client's list has
//! eight bytes a delivery; images and statuses are spans like any other, so order needs no care. All memory is reused: a
//! warm turn does not allocate.
//!
//! A client that is conflated just in time has no list: what it gets goes at once to where it waits for it ([`Turn::slow`]).

use super::deliveries::{BodyId, Deliveries, Delivery, IN_ARENA, Span, range};
use crate::egress::{Merging, SlowClients};
use crate::encode;
use crate::ids::{ClientId, ItemId, ServiceId, StreamId};
use crate::items::watchers::Watcher;

/// The deliveries of one client.
#[derive(Debug, Default)]
struct List {
    deliveries: Vec<Delivery>,
    /// The client had something since the last [`Turn::trim`].
    busy: bool,
    /// The client is served behind all that are not: what it gets is to be converted for it.
    comes_last: bool,
    /// Number of deliveries that the client gets, and no more.
    muted: Option<usize>,
    /// What is for it goes to [`Turn::slow`], and nothing to the list.
    is_diverted: bool,
}

impl List {
    #[inline]
    fn push(&mut self, body: BodyId, Watcher { client, stream }: Watcher, dirty: &mut Vec<ClientId>) {
        if self.deliveries.is_empty() {
            dirty.push(client);
        }
        self.deliveries.push(Delivery { body, stream });
    }
}

/// The deliveries of one turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    arena: Vec<u8>,
    spans: Vec<Span>,
    /// By client.
    lists: Vec<List>,
    /// Clients whose list is not empty, each once.
    dirty: Vec<ClientId>,
    /// A span lies in the hub block.
    borrows_block: bool,
    /// Bytes of the longest body.
    longest: u32,
    /// Clients that are served behind the others.
    last: usize,
    /// Messages that wait for clients that are conflated just in time.
    pub(crate) slow: SlowClients,
    /// Clients whose messages go there.
    diverted: usize,
}

/// Clients whose lists are looked at ahead when the deliveries of a turn are handed out: with thousands of clients none of them is near.
const CLIENTS_AHEAD: usize = 16;

/// Has the lists of the next clients come near. No look depends on another one, so that the processor waits for all of them at once.
#[inline]
fn look_at_lists(lists: &[List], clients: &[ClientId]) {
    let first = |client: &ClientId| lists[client.0 as usize].deliveries.first().map_or(0, |first| first.body.0);
    std::hint::black_box(clients.iter().take(CLIENTS_AHEAD).fold(0, |seen, client| seen ^ first(client)));
}

impl Turn {
    /// Makes room for a client.
    pub(crate) fn ensure(&mut self, client: ClientId) {
        let needed = client.0 as usize + 1;
        if self.lists.len() < needed {
            self.lists.resize_with(needed, List::default);
        }
    }

    /// Has a client served behind all that are not, or no longer so. Nothing may wait for it.
    pub(crate) fn serve_last(&mut self, client: ClientId, comes_last: bool) {
        // A client that was never there is served with nobody.
        let Some(list) = self.lists.get_mut(client.0 as usize) else { return };
        debug_assert!(list.deliveries.is_empty(), "the order of what waits for {client:?} would change");
        match (std::mem::replace(&mut list.comes_last, comes_last), comes_last) {
            (false, true) => self.last += 1,
            (true, false) => self.last -= 1,
            _ => {}
        }
    }

    /// A body that stays where it is in the turn's hub block.
    #[inline]
    pub(crate) fn block_body(&mut self, start: usize, len: usize) -> BodyId {
        self.borrows_block = true;
        self.body(start as u32, len as u32)
    }

    /// A body of its own, written by `write` to the end of the arena. `None` if `write` fails; nothing is kept then.
    pub(crate) fn arena_body<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<BodyId, E> {
        let start = self.arena.len();
        match write(&mut self.arena) {
            Ok(()) => {
                let len = self.arena.len() - start;
                Ok(self.body(start as u32, len as u32 | IN_ARENA))
            }
            Err(error) => {
                self.arena.truncate(start);
                Err(error)
            }
        }
    }

    /// Bytes of all bodies of this turn that lie in the arena.
    pub(crate) const fn arena_len(&self) -> usize {
        self.arena.len()
    }

    /// The bytes of a body that lies in the arena.
    pub(crate) fn arena_bytes(&self, body: BodyId) -> &[u8] {
        let span = self.spans[body.0 as usize];
        debug_assert!(span.len & IN_ARENA != 0, "a body in the hub block");
        &self.arena[range(span)]
    }

    /// A copy of a message from the hub, with the public id of its service in its key if it has one. `None` if it cannot be read.
    pub(crate) fn message_body(&mut self, msg: &[u8], service: Option<ServiceId>) -> Option<BodyId> {
        let body = self.arena_body(|arena| {
            if let Some(service) = service {
                return encode::with_service(msg, service, arena);
            }
            arena.extend_from_slice(msg);
            Ok(())
        });
        body.ok()
    }

    #[inline]
    fn body(&mut self, start: u32, len: u32) -> BodyId {
        let id = BodyId(self.spans.len() as u32);
        self.longest = self.longest.max(len & !IN_ARENA);
        self.spans.push(Span { start, len });
        id
    }

    /// Delivers a body to every watcher: the hot loop. An update for all who get the updates of an item goes by [`Self::fan_update`].
    #[inline]
    pub(crate) fn fan_out(&mut self, body: BodyId, watchers: &[Watcher]) {
        if self.diverted > 0 {
            return self.fan_out_beside_slow(body, watchers);
        }
        for &Watcher { client, stream } in watchers {
            let list = &mut self.lists[client.0 as usize].deliveries;
            if list.is_empty() {
                self.dirty.push(client);
            }
            list.push(Delivery { body, stream });
        }
    }

    #[inline(never)]
    fn fan_out_beside_slow(&mut self, body: BodyId, watchers: &[Watcher]) {
        let Self { lists, dirty, slow, spans, arena, .. } = self;
        for &watcher in watchers {
            let list = &mut lists[watcher.client.0 as usize];
            if !list.is_diverted {
                list.push(body, watcher, dirty);
            } else if list.muted.is_none() {
                let span = spans[body.0 as usize];
                debug_assert!(span.len & IN_ARENA != 0, "only updates are delivered from the hub block");
                slow.keep(watcher, &arena[range(span)]);
            }
        }
    }

    /// Whether messages of somebody go to [`Self::slow`].
    #[inline]
    pub(crate) const fn has_diverted(&self) -> bool {
        self.diverted > 0
    }

    /// Has the memory come near that an update needs of an item, or of a view of it, if somebody who gets its updates is conflated: for many of them one
    /// after the other. The value means nothing.
    #[inline]
    pub(crate) fn look_ahead(&self, view: ItemId) -> u8 {
        if self.diverted > 0 { self.slow.look_ahead(view) } else { 0 }
    }

    /// Delivers an update of an item, or of a view of it, to all who get its updates. `block` is the hub block, if the body may lie in it.
    /// Clients that are conflated wait for what it is merged into, those of their streams that `may_conflate`.
    #[inline]
    pub(crate) fn fan_update(
        &mut self,
        (view, body): (ItemId, BodyId),
        block: &[u8],
        watchers: &[Watcher],
        merging: Merging<'_>,
        may_conflate: impl Fn(Watcher) -> bool,
    ) {
        if self.diverted > 0 {
            self.fan_update_beside_slow((view, body), block, watchers, merging, may_conflate);
        } else {
            self.fan_out(body, watchers);
        }
    }

    #[inline(never)]
    fn fan_update_beside_slow(
        &mut self,
        (view, body): (ItemId, BodyId),
        block: &[u8],
        watchers: &[Watcher],
        merging: Merging<'_>,
        may_conflate: impl Fn(Watcher) -> bool,
    ) {
        let Self { lists, dirty, slow, spans, arena, .. } = self;
        let span = spans[body.0 as usize];
        let msg = if span.len & IN_ARENA == 0 { &block[range(span)] } else { &arena[range(span)] };
        // The merge that takes it in, if one does: known once somebody is found who waits.
        let mut found = None;
        for &watcher in watchers {
            let list = &mut lists[watcher.client.0 as usize];
            if !list.is_diverted {
                list.push(body, watcher, dirty);
            } else if list.muted.is_none() {
                let merge = *found.get_or_insert_with(|| slow.add(view, msg, merging.ripples));
                let waits =
                    merge.is_some_and(|merge| slow.merge(watcher, merge, merging.now, || may_conflate(watcher)));
                if !waits {
                    slow.keep(watcher, msg);
                }
            }
        }
        match found {
            None => slow.miss(view),
            Some(None) => {}
            Some(Some(merge)) => slow.end_add(merge),
        }
    }

    /// What a client gets goes to [`Self::slow`] from now on, or no longer. What is in its list goes out before: until it has, nothing changes,
    /// and the caller has to say so again.
    pub(crate) fn divert(&mut self, client: ClientId, is_diverted: bool) {
        // Nothing is for a client that was never there.
        let Some(list) = self.lists.get_mut(client.0 as usize) else { return };
        if is_diverted && !list.deliveries.is_empty() {
            return;
        }
        match (std::mem::replace(&mut list.is_diverted, is_diverted), is_diverted) {
            (false, true) => self.diverted += 1,
            (true, false) => self.diverted -= 1,
            _ => {}
        }
    }

    /// Somebody gets the updates of an item, or of a view of it, from now on, and nobody did before: some may be missing to what waits.
    #[inline]
    pub(crate) fn resumes(&mut self, view: ItemId) {
        if self.diverted > 0 {
            self.slow.miss(view);
        }
    }

    /// Delivers a body to one client.
    #[inline]
    pub(crate) fn deliver(&mut self, body: BodyId, client: ClientId, stream: StreamId) {
        self.fan_out(body, &[Watcher { client, stream }]);
    }

    /// True if a span points into the hub block that was read last.
    pub(crate) const fn borrows_block(&self) -> bool {
        self.borrows_block
    }

    /// True if nobody has got anything that is to go out, or to be looked at.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.dirty.is_empty() && !self.slow.has_touched()
    }

    /// Clients that have something to get.
    pub(crate) fn dirty(&self) -> &[ClientId] {
        &self.dirty
    }

    /// Drops what is waiting for a client that is gone.
    pub(crate) fn forget(&mut self, client: ClientId) {
        if let Some(list) = self.lists.get_mut(client.0 as usize)
            && !list.deliveries.is_empty()
        {
            list.deliveries = Vec::new();
            list.muted = list.muted.map(|_| 0);
            self.dirty.retain(|&dirty| dirty != client);
        }
    }

    /// A client gets what it has to get by now, and nothing more until it is [unmuted](Self::unmute).
    pub(crate) fn mute(&mut self, client: ClientId) {
        if let Some(list) = self.lists.get_mut(client.0 as usize) {
            list.muted = Some(list.deliveries.len());
        }
    }

    /// A client gets what comes from now on.
    pub(crate) fn unmute(&mut self, client: ClientId) {
        if let Some(list) = self.lists.get_mut(client.0 as usize)
            && let Some(heard) = list.muted.take()
        {
            // Without any left it is among the dirty ones, and gets nothing, or is among them twice, and gets it once.
            list.deliveries.truncate(heard);
        }
    }

    /// Hands every dirty client its deliveries, in the order in which they became dirty, but those that are served last behind the
    /// others, and starts the next turn. `block` is the hub block that was read since the last flush (empty if none was).
    pub(crate) fn flush(&mut self, block: &[u8], mut f: impl FnMut(ClientId, Deliveries<'_>)) -> u64 {
        let mut delivered = 0;
        let passes = if self.last > 0 { &[false, true][..] } else { &[false] };
        for comes_last in passes {
            for (at, &client) in self.dirty.iter().enumerate() {
                if at.is_multiple_of(CLIENTS_AHEAD) {
                    look_at_lists(&self.lists, &self.dirty[at..]);
                }
                let List { deliveries, busy, comes_last: its, muted, .. } = &mut self.lists[client.0 as usize];
                if its != comes_last {
                    continue;
                }
                *busy = true;
                let list = muted.map_or(&deliveries[..], |heard| &deliveries[..heard.min(deliveries.len())]);
                delivered += list.len() as u64;
                if !list.is_empty() {
                    let (spans, arena, longest) = (&self.spans, &self.arena, self.longest);
                    f(client, Deliveries { list, at: 0, spans, arena, block, is_of_turn: true, longest });
                }
                deliveries.clear();
                *muted = muted.map(|_| 0);
            }
        }
        self.dirty.clear();
        self.spans.clear();
        self.arena.clear();
        self.borrows_block = false;
        self.longest = 0;
        delivered + self.slow.take_came()
    }

    /// Gives back the lists of clients that had nothing since the last call, and an arena that one large turn left behind.
    /// Call it rarely, between turns.
    pub(crate) fn trim(&mut self) {
        const KEEP_ARENA: usize = 4 << 20;
        for list in &mut self.lists {
            if !std::mem::take(&mut list.busy) && list.deliveries.is_empty() {
                list.deliveries = Vec::new();
            }
        }
        if self.arena.is_empty() {
            self.arena.shrink_to(KEEP_ARENA);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::deliveries::DeliveryList;
    use crate::delivery::kept::KeptDeliveries;

    #[test]
    fn who_gets_the_same_as_another_is_told_from_who_does_not() {
        let mut turn = Turn::default();
        let watch = |client, stream| Watcher { client: ClientId(client), stream: StreamId(stream) };
        (0..6).for_each(|client| turn.ensure(ClientId(client)));
        let text = |text: &'static [u8]| {
            move |arena: &mut Vec<u8>| -> Result<(), ()> {
                arena.extend_from_slice(text);
                Ok(())
            }
        };
        let (one, two) = (turn.arena_body(text(b"one")).unwrap(), turn.arena_body(text(b"two")).unwrap());
        // The same; the same; another order; another stream; more; less.
        turn.fan_out(one, &[watch(0, 5), watch(1, 5), watch(3, 5), watch(4, 5), watch(5, 5)]);
        turn.fan_out(two, &[watch(0, 6), watch(1, 6), watch(2, 6), watch(3, 7), watch(4, 6)]);
        turn.fan_out(one, &[watch(2, 5), watch(4, 5)]);
        let (mut list, mut same) = (DeliveryList::default(), Vec::new());
        turn.flush(&[], |client, deliveries| {
            same.push((client.0, list.is_same(&deliveries)));
            if client.0 == 0 {
                list.set(&deliveries);
                let mut rest = deliveries.clone();
                rest.next();
                assert!(list.is_same(&deliveries) && !list.is_same(&rest));
            }
        });
        same.sort_unstable();
        assert_eq!(same, [(0, false), (1, true), (2, false), (3, false), (4, false), (5, false)]);
        list.clear();
        // Deliveries kept for a client are nobody else's.
        let mut kept = KeptDeliveries::default();
        kept.push(b"one", 5);
        let deliveries = kept.next(usize::MAX);
        list.set(&deliveries);
        assert!(!list.is_same(&deliveries));
    }

    #[test]
    fn who_is_to_be_served_last_is_and_each_gets_its_own_in_order() {
        let mut turn = Turn::default();
        let clients: Vec<ClientId> = (0..6).map(ClientId).collect();
        for client in &clients {
            turn.ensure(*client);
        }
        for client in [0, 1, 3, 5] {
            turn.serve_last(ClientId(client), true);
        }
        turn.serve_last(ClientId(1), false);
        turn.serve_last(ClientId(5), true);
        let mut served = || {
            for text in ["one", "two"] {
                let write = |arena: &mut Vec<u8>| -> Result<(), ()> {
                    arena.extend_from_slice(text.as_bytes());
                    Ok(())
                };
                let body = turn.arena_body(write).unwrap();
                let watchers: Vec<Watcher> =
                    clients.iter().map(|client| Watcher { client: *client, stream: StreamId(9) }).collect();
                turn.fan_out(body, &watchers);
            }
            let mut order = Vec::new();
            let delivered = turn.flush(&[], |client, deliveries| {
                let bodies: Vec<&[u8]> = deliveries.map(|(body, _)| body).collect();
                assert_eq!(bodies, [&b"one"[..], b"two"]);
                order.push(client.0);
            });
            assert_eq!(delivered, 12);
            order
        };
        assert_eq!(served(), [1, 2, 4, 0, 3, 5]);
        assert_eq!(served(), [1, 2, 4, 0, 3, 5], "in each turn");
        for client in &clients {
            turn.serve_last(*client, false);
        }
        assert_eq!(turn.last, 0);
    }
}
