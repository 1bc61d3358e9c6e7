//! Messages with permission data of their own, which guards their content alone: each goes to those who satisfy it. And what of
//! permission data is not for clients that want none (`ProvidePermissionExpressions` 0).
//!
//! Headlines of a service that has their permission codes in a field ([`HeadlineRule`]) get such data here, before anything else looks at them, as a Source
//! Distributor that is told in which field does for all P2PSs. Whether an item is one of headlines is noted with its watchers when it is new, so that no
//! other item's updates are looked at.

use crate::delivery::deliveries::BodyId;
use crate::ids::ItemId;
use crate::items::watchers::Watcher;
use crate::stream::{ALL, Kind, Message, NO_HANDLE, flags};
use crate::{P2ps, encode};
use hub_content::headlines::HeadlineRule;
use permissions::lock::combine_bytes;
use rwf::container::{FilterList, Map, SetScope, Vector};
use rwf::msg::{Msg, MsgClass};
use rwf::{DataType, DecodeError};
use std::borrow::Cow;
use std::sync::Arc;

/// Stands for permission data that cannot be read or combined: such a lock denies.
const UNREADABLE: &[u8] = &[0];

/// The locks of a container's entries, where the container says that they may have some. Containers within the entries are not
/// looked into. Entries that cannot be read have a lock that nobody satisfies.
pub(super) fn entry_locks(container: DataType, body: &[u8]) -> Vec<&[u8]> {
    if !crate::stream::may_have_entry_locks(container, body) {
        return Vec::new();
    }
    let scope = SetScope::NONE;
    fn locks<'a>(
        entries: impl Iterator<Item = Result<Option<&'a [u8]>, DecodeError>>,
    ) -> Result<Vec<&'a [u8]>, DecodeError> {
        entries.filter_map(Result::transpose).collect()
    }
    let found = match container {
        DataType::MAP => {
            Map::decode(body, &scope).and_then(|map| locks(map.entries().map(|entry| Ok(entry?.perm_data))))
        }
        DataType::VECTOR => {
            Vector::decode(body, &scope).and_then(|vector| locks(vector.entries().map(|entry| Ok(entry?.perm_data))))
        }
        DataType::FILTER_LIST => {
            FilterList::decode(body).and_then(|list| locks(list.entries().map(|entry| Ok(entry?.perm_data))))
        }
        _ => Ok(Vec::new()),
    };
    let mut found = found.unwrap_or_else(|_| vec![UNREADABLE]);
    found.sort_unstable();
    found.dedup();
    found
}

/// The lock of a message and its entries together: all have to be satisfied.
pub(super) fn combined<'a>(own: Option<&'a [u8]>, entries: &[&'a [u8]]) -> Cow<'a, [u8]> {
    let own = own.unwrap_or_default();
    if entries.is_empty() {
        return Cow::Borrowed(own);
    }
    let all = std::iter::once(own).filter(|own| !own.is_empty()).chain(entries.iter().copied());
    combine_bytes(all).map_or(Cow::Borrowed(UNREADABLE), Cow::Owned)
}

/// A message without its own permission data; that of entries stays.
pub(crate) fn stripped(msg: &Msg<'_>, length: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let written = match msg.clone() {
        Msg::Update(update) => {
            let bare = rwf::msg::UpdateMsg { perm_data: None, ..update };
            encode::append(&mut out, 64 + length, |w| bare.encode(w))
        }
        Msg::Generic(generic) => {
            let bare = rwf::msg::GenericMsg { perm_data: None, ..generic };
            encode::append(&mut out, 64 + length, |w| bare.encode(w))
        }
        _ => {
            hub_items::fault!("only updates and generic messages have a lock of their own");
            return None;
        }
    };
    written.is_ok().then_some(out)
}

/// The rule of headlines of an item's service, if that has one.
fn headline_rule(p2ps: &P2ps, id: ItemId) -> Option<Arc<HeadlineRule>> {
    let service = p2ps.sources.services().get(p2ps.items.get(id).service())?;
    p2ps.config.headlines.get(&service.name).cloned()
}

/// An item is new: notes whether its updates are headlines.
pub(crate) fn note_headlines(p2ps: &mut P2ps, root: ItemId) {
    // Most sites have none.
    if !p2ps.config.headlines.is_empty()
        && let Some(rule) = headline_rule(p2ps, root)
        && rule.is_about(p2ps.items.key(root).name.unwrap_or_default())
    {
        p2ps.items.watchers_mut(root).mark_headlines();
    }
}

/// Goes on with an update of an item of headlines under the lock of its field; with the update as it came where it has no code there, or has a lock.
pub(crate) fn as_headline(
    p2ps: &mut P2ps,
    id: ItemId,
    message: &Message<'_>,
    go_on: impl FnOnce(&mut P2ps, &Message<'_>),
) {
    let Some(rule) = headline_rule(p2ps, id) else { return go_on(p2ps, message) };
    let mut own = std::mem::take(&mut p2ps.gate.headline);
    if rule.rewrite(MsgClass::UPDATE, message.body, &mut own) {
        p2ps.counters.headlines += 1;
        go_on(p2ps, &Message { flags: message.flags | flags::HAS_LOCK, body: &own, ..*message });
    } else {
        go_on(p2ps, message);
    }
    p2ps.gate.headline = own;
}

/// An image of an item of headlines without the one of its moment; `None` if the image goes on as it came.
pub(crate) fn image_without_headline(p2ps: &P2ps, id: ItemId, rwf: &[u8]) -> Option<Vec<u8>> {
    let mut bare = Vec::new();
    headline_rule(p2ps, id)?.rewrite(MsgClass::REFRESH, rwf, &mut bare).then_some(bare)
}

impl P2ps {
    /// Delivers an update with permission data to the open watchers of an item and of its views that may see it.
    pub(crate) fn guarded_update(&mut self, id: ItemId, message: &Message<'_>) {
        self.give_guarded(id, message);
        if self.is_waited_for(id) {
            self.hold_update(id, message);
        } else {
            self.pass_update(id, message);
        }
    }

    /// Delivers an update with permission data to the open watchers of an item and its views that may see it.
    pub(crate) fn give_guarded(&mut self, id: ItemId, message: &Message<'_>) {
        self.release_conflated(id);
        let mut recipients = Vec::new();
        for &target in [id].iter().chain(self.items.views_of(id)) {
            recipients.extend(self.items.watchers(target).open().iter().map(|&watcher| (target, watcher)));
        }
        self.counters.updates_out += self.deliver_guarded(id, message, &recipients, true);
    }

    /// As [`Self::guarded_update`] for a generic message, which goes through views as it is.
    pub(crate) fn guarded_generic(&mut self, id: ItemId, has_key: bool, rwf: &[u8]) {
        self.release_conflated(id);
        let mut recipients = Vec::new();
        for &target in [id].iter().chain(self.items.views_of(id)) {
            recipients.extend(self.items.watchers(target).open().iter().map(|&watcher| (target, watcher)));
        }
        let message = Message {
            kind: Kind::Generic,
            flags: if has_key { flags::HAS_KEY } else { 0 },
            target: ALL,
            handle: NO_HANDLE,
            arg: 0,
            position: 0,
            body: rwf,
        };
        let reached = self.deliver_guarded(id, &message, &recipients, false);
        self.counters.generics_dropped += u64::from(reached == 0);
    }

    /// True if messages with permission data have to be looked at for each watcher.
    pub(crate) fn looks_at_locks(&self) -> bool {
        self.gate.is_on() || self.clients.has_lockless()
    }

    /// Delivers a message to those of the recipients that satisfy its lock; tells how many. `by_view`: as each one's view shows it.
    pub(crate) fn deliver_guarded(
        &mut self,
        root: ItemId,
        message: &Message<'_>,
        recipients: &[(ItemId, Watcher)],
        by_view: bool,
    ) -> u64 {
        let Ok(msg) = Msg::decode(message.body) else {
            self.counters.hub_messages_bad += 1;
            return 0;
        };
        let entries = entry_locks(msg.container(), msg.body());
        let lock = combined(msg.perm_data(), &entries);
        let lock = match (&mut self.gate.permissions, self.gate.items.get(&root)) {
            (Some(permissions), Some(guarded)) => permissions.message_lock(guarded.item, &lock),
            _ => None,
        };
        let mut bare: Option<Option<Vec<u8>>> = None;
        // By item, and whether it is without permission data.
        let mut bodies: Vec<((ItemId, bool), Option<BodyId>)> = Vec::new();
        let mut wholes: [Option<BodyId>; 2] = [None; 2];
        let mut delivered = 0;
        let mut named = Vec::new();
        for &(item, watcher) in recipients {
            if !self.gate.permits(watcher.client, lock) {
                self.counters.messages_denied += 1;
                continue;
            }
            let is_bare = msg.perm_data().is_some() && !self.clients.wants_locks(watcher.client);
            let of = if by_view { item } else { root };
            let known = bodies.iter().find(|(known, _)| *known == (of, is_bare)).map(|(_, body)| *body);
            let body = known.unwrap_or_else(|| {
                let bytes = if is_bare {
                    bare.get_or_insert_with(|| stripped(&msg, message.body.len())).as_deref()
                } else {
                    Some(message.body)
                };
                let body = bytes.and_then(|bytes| {
                    let message = Message { body: bytes, ..*message };
                    if of == root {
                        self.copied(root, &message)
                    } else {
                        self.view_body(of, &message, &mut wholes[usize::from(is_bare)])
                    }
                });
                bodies.push(((of, is_bare), body));
                body
            });
            if let Some(body) = body {
                self.output.deliver(body, watcher.client, watcher.stream);
                delivered += 1;
                if self.items.data_streams_of(item).is_some() {
                    named.push((item, watcher));
                }
            }
        }
        self.note_named_to(&named, message);
        delivered
    }
}
