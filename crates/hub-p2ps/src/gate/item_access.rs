//! Rights to open an item and see its image, and what becomes of streams whose lock or right has changed.

use super::Gate;
use super::logins::state;
use super::{Guarded, token};
use crate::P2ps;
use crate::clients::streams::Open;
use crate::ids::{ClientId, ItemId, StreamId};
use crate::item::ItemKey;
use crate::items::watchers::Watcher;
use permissions::rights::{Failure, PostRights};
use permissions::{Denial, Opened, PostRequest, Posted, Watch};
use rwf::msg::{Domain, Msg, PostMsg, StatusFlags, StatusMsg};
use rwf::{DataType, StreamState};

impl Gate {
    /// Whether a watcher may have to do with the provider of its item: who waits for an image may still be denied.
    pub(crate) fn is_admitted(&self, watcher: Watcher) -> bool {
        // Without permissions everyone may.
        let Some(permissions) = &self.permissions else { return true };
        let open = self.logins.get(&watcher.client).and_then(|login| login.opens.get(&watcher.stream));
        open.is_some_and(|&open| permissions.is_admitted(open))
    }

    /// Whether a client satisfies the lock that an image has which is given to it alone, and is not the item's of now.
    pub(crate) fn satisfies(&mut self, client: ClientId, root: ItemId, lock: Option<&[u8]>) -> bool {
        // Without permissions everyone may.
        let Some(permissions) = &mut self.permissions else { return true };
        let guarded = self.items.get(&root);
        let lock = guarded.and_then(|guarded| permissions.message_lock(guarded.item, lock.unwrap_or_default()));
        self.permits(client, lock)
    }

    fn lock_of(&self, id: ItemId) -> Option<std::sync::Arc<[u8]>> {
        let guarded = self.items.get(&id)?;
        self.permissions.as_ref()?.lock_of(guarded.item)
    }

    /// Asks whether a client may see the image that is there.
    pub(crate) fn admit(&mut self, now: u64, watcher: Watcher) -> Result<(), Denial> {
        // Without permissions everyone may.
        let Some(permissions) = &mut self.permissions else { return Ok(()) };
        let login = self.logins.get_mut(&watcher.client);
        let Some(opens) = login.map(|login| &mut login.opens) else {
            hub_items::fault!("an image for one who is not logged in: {watcher:?}");
            return Err(Failure::Forced.into());
        };
        let Some(&open) = opens.get(&watcher.stream) else {
            hub_items::fault!("an image for a stream that is not open: {watcher:?}");
            return Err(Failure::Forced.into());
        };
        permissions.admit(now, open).inspect_err(|_| _ = opens.remove(&watcher.stream))
    }

    /// Whether a client that wants no image may have the updates of an open item: `None` if that cannot be said before an image
    /// has come.
    pub(crate) fn admit_without_image(
        &mut self,
        now: u64,
        watcher: Watcher,
        root: ItemId,
    ) -> Option<Result<(), Denial>> {
        if !self.is_on() {
            return Some(Ok(()));
        }
        let is_known = self.items.get(&root).is_some_and(|guarded| guarded.is_known);
        is_known.then(|| self.admit(now, watcher))
    }
}

impl P2ps {
    /// Asks whether a client may ask for an item: what can be said before there is an image.
    pub(crate) fn permit_open(&mut self, watcher: Watcher, root: ItemId, is_snapshot: bool) -> Result<(), Denial> {
        // Without permissions everyone may.
        let Some(permissions) = &mut self.gate.permissions else { return Ok(()) };
        let Some(login) = self.gate.logins.get_mut(&watcher.client) else {
            hub_items::fault!("a request of one who is not logged in: {watcher:?}");
            return Err(Failure::Forced.into());
        };
        let item = if let Some(known) = self.gate.items.get(&root) {
            known.item
        } else {
            let service =
                self.sources.services().get(self.items.get(root).service()).map_or("", |service| &service.name);
            let name = String::from_utf8_lossy(self.items.key(root).name.unwrap_or_default());
            let item = permissions.item(service, &name).map_err(|_| Denial::from(Failure::LocksFull))?;
            self.gate.items.insert(root, Guarded { item, is_known: false });
            item
        };
        let watch = if is_snapshot { Watch::Snapshot } else { Watch::Streaming };
        match permissions.open(self.now, login.id, item, token(watcher), watch) {
            Opened::Yes(open) => {
                let before = login.opens.insert(watcher.stream, open);
                debug_assert!(before.is_none(), "{watcher:?} is open already");
                Ok(())
            }
            Opened::No(denial) => Err(denial),
        }
    }

    /// Tells a client that it may not see an item. `root` is the item itself, not a view of it.
    pub(crate) fn deny_item(&mut self, client: ClientId, stream: StreamId, root: ItemId, denial: &Denial) {
        let answer = denial.answer();
        let item = self.items.get(root);
        let (key, service) = (item.key_bytes().to_vec(), item.service().0);
        let key = ItemKey::read(&key).unwrap_or_default();
        let mut flags = StatusFlags::default();
        flags.set(StatusFlags::PRIVATE_STREAM, item.is_private());
        let status = StatusMsg {
            flags,
            state: Some(state(&answer)),
            key: Some(key.msg_key(service)),
            ..StatusMsg::new(Domain(key.domain), stream.0)
        };
        self.counters.items_denied += 1;
        self.send(client, stream, |w| status.encode(w));
    }

    /// A client may not see an item that it watches (any more).
    pub(crate) fn deny_watcher(&mut self, watcher: Watcher, denial: &Denial) {
        let Some(Open::Item(item)) = self.clients.open_on(watcher.client, watcher.stream) else {
            hub_items::fault!("a denial of a stream that is not open: {watcher:?}");
            return;
        };
        self.deny_item(watcher.client, watcher.stream, self.items.root(item), denial);
        self.drop_watcher(watcher, item);
    }

    /// An image, or a part of one, is to go out: its lock is that of the item from now on. False if nobody is left to see it.
    pub(crate) fn lock_by_image(&mut self, id: ItemId, first: bool, image: &rwf::msg::RefreshMsg<'_>) -> bool {
        if !self.gate.is_on() {
            return true;
        }
        let entries = super::messages::entry_locks(image.container, image.body);
        let before = if first { None } else { self.gate.lock_of(id) };
        let own = image.perm_data.or(before.as_deref());
        // Another part without permission data changes nothing.
        if first || image.perm_data.is_some() || !entries.is_empty() {
            let lock = super::messages::combined(own, &entries);
            self.set_lock(id, Some(&lock));
        }
        self.items.get(id).is_open()
    }

    /// A status brings a new lock of the whole item. False if nobody is left to be told.
    pub(crate) fn lock_by_status(&mut self, id: ItemId, lock: Option<&[u8]>) -> bool {
        if !self.gate.is_on() {
            return true;
        }
        if let Some(lock) = lock {
            self.set_lock(id, Some(lock));
        }
        self.items.get(id).is_live()
    }

    fn set_lock(&mut self, id: ItemId, lock: Option<&[u8]>) {
        // Without permissions a lock keeps nobody out.
        let Some(permissions) = &mut self.gate.permissions else { return };
        let Some(guarded) = self.gate.items.get_mut(&id) else {
            // Nobody watches it here: whoever does later gets an image of his own first.
            return;
        };
        guarded.is_known = true;
        let mut closes = std::mem::take(&mut self.gate.closes);
        permissions.set_lock(self.now, guarded.item, lock, &mut closes);
        self.carry_out(closes);
    }

    /// Asks whether a client may post; gives what it may do beside changing values, and `None` where permissions are off.
    pub(crate) fn permit_post(
        &mut self,
        client: ClientId,
        service: &str,
        name: &[u8],
        post: &PostMsg<'_>,
    ) -> Result<Option<PostRights>, Denial> {
        // Without permissions everyone may, and no user is named.
        let Some(permissions) = &mut self.gate.permissions else { return Ok(None) };
        let Some(login) = self.gate.logins.get(&client) else {
            hub_items::fault!("a post of one who is not logged in: {client:?}");
            return Err(Failure::Forced.into());
        };
        let inner = if post.container == DataType::MSG { Msg::decode(post.body).ok() } else { None };
        let is_final = |msg: &Msg<'_>| msg.state().is_some_and(|state| state.stream.is_final());
        let closes = inner.as_ref().is_some_and(|msg| matches!(msg, Msg::Close(_)) || is_final(msg));
        let needs = if closes { PostRights::DELETE } else { PostRights::NONE };
        // A client that may not change permission data may write none: not in the post, in the message in it, or in an entry of the payload.
        let (container, body) = inner.as_ref().map_or((post.container, post.body), |msg| (msg.container(), msg.body()));
        let entries = super::messages::entry_locks(container, body);
        let given = [post.perm_data, inner.as_ref().and_then(Msg::perm_data)];
        let lock = given.into_iter().flatten().chain(entries).next();
        let name = String::from_utf8_lossy(name);
        let request = PostRequest { service, item: &name, lock, needs };
        match permissions.post(self.now, login.id, &request) {
            Posted::Yes(rights) => Ok(Some(rights)),
            Posted::No(denial) => {
                self.counters.posts_denied += 1;
                Err(denial)
            }
        }
    }
}

const _: () = assert!(StreamState::CLOSED.0 == permissions::StreamState::Closed as u8);
const _: () = assert!(StreamState::CLOSED_RECOVER.0 == permissions::StreamState::ClosedRecover as u8);
