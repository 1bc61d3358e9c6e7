//! The gate: where the P2PS asks its permissions, and what follows from the answers.
//!
//! * `logins`: who may be on; force, new rights, lost sources of rights; what administrators ask;
//! * `item_access`: who may open an item and see its image; what becomes of streams whose lock or right has changed;
//! * `messages`: updates, statuses and generic messages that carry permission data of their own;
//! * `blocked`: items that nobody gets;
//! * `held`: messages of clients that wait until the audit has room.
//!
//! Permissions that are off are not there at all: nothing is asked, remembered or allocated. Where they are on, every watcher of an item
//! has an open item at the permissions from before its request goes out until it watches no more; who may not see an item is not
//! among its open watchers, so that an update without permission data is not looked at.

pub(crate) mod blocked;
pub(crate) mod held;
mod item_access;
mod logins;
pub(crate) mod messages;

use super::ids::{ClientId, ItemId, StreamId};
use super::items::watchers::Watcher;
use blocked::{Blocked, BlockedList};
use held::HeldMessages;
use permissions::{Close, LockId, LoginId, Mode, OpenId, Permissions, Settings};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Open items that a turn looks at when rights have changed, so that others get their turn.
const SWEEP: usize = 2_000;

/// A client that is logged in, as its permissions know it.
#[derive(Debug)]
struct ClientLogin {
    id: LoginId,
    /// By stream: the client chooses the numbers, so they are found by comparison.
    opens: BTreeMap<StreamId, OpenId>,
}

/// An item that someone watches, as its permissions know it.
#[derive(Debug, Clone, Copy)]
struct Guarded {
    item: permissions::ItemId,
    /// An image has come, so that the lock is known.
    is_known: bool,
}

/// The permissions with what ties them to clients and items.
#[derive(Debug)]
pub(crate) struct Gate {
    /// `None` while they are off.
    permissions: Option<Box<Permissions>>,
    /// Clients that are logged in.
    logins: FxHashMap<ClientId, ClientLogin>,
    /// Items that someone watches.
    items: FxHashMap<ItemId, Guarded>,
    /// Messages of clients that wait until the audit has room.
    held: HeldMessages,
    /// Items that nobody gets.
    blocked: Blocked,
    /// Rights have changed, and not all that is open has been looked at.
    is_sweeping: bool,
    /// A headline with its lock, while that is delivered.
    headline: Vec<u8>,
    /// Logins and items that the permissions have ended, while that is carried out.
    closes: Vec<Close>,
}

/// By what the permissions name an open item to the P2PS.
fn token(watcher: Watcher) -> u64 {
    u64::from(watcher.client.0) << 32 | u64::from(watcher.stream.0 as u32)
}

fn watcher_of(token: u64) -> Watcher {
    Watcher { client: ClientId((token >> 32) as u32), stream: StreamId(token as u32 as i32) }
}

impl Gate {
    pub(crate) fn new(settings: Settings, blocked: BlockedList) -> Self {
        let permissions = (settings.mode != Mode::Off).then(|| Box::new(Permissions::new(settings)));
        Self {
            permissions,
            logins: FxHashMap::default(),
            items: FxHashMap::default(),
            held: HeldMessages::default(),
            blocked: Blocked::new(blocked),
            is_sweeping: false,
            headline: Vec::new(),
            closes: Vec::new(),
        }
    }

    /// False while permissions are off.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.permissions.is_some()
    }

    /// True if messages of a client wait for the audit.
    pub(crate) fn holds_for(&self, client: ClientId) -> bool {
        self.held.holds_for(client)
    }

    /// A client is gone: what it sent is not acted upon.
    pub(crate) fn forget_held(&mut self, client: ClientId) {
        self.held.forget(client);
    }

    /// Why an item is blocked, if it is.
    pub(crate) fn why_blocked(&self, service: &str, name: Option<&[u8]>) -> Option<&str> {
        self.blocked.why(service, name)
    }

    /// There is something to do that needs no message.
    pub(crate) fn has_work(&self) -> bool {
        self.is_sweeping
            || !self.held.is_empty() && self.permissions.as_ref().is_none_or(|permissions| permissions.has_login_room())
    }

    /// Requests can be logged, or need not be.
    pub(crate) fn has_audit_room(&self) -> bool {
        self.permissions.as_ref().is_none_or(|permissions| permissions.has_audit_room())
    }

    /// A watcher is gone. Where the permissions have ended it themselves they know already.
    pub(crate) fn close(&mut self, now: u64, watcher: Watcher) {
        if let Some(permissions) = &mut self.permissions
            && let Some(login) = self.logins.get_mut(&watcher.client)
            && let Some(open) = login.opens.remove(&watcher.stream)
        {
            permissions.close(now, open);
        }
    }

    /// An item is gone.
    pub(crate) fn drop_item(&mut self, now: u64, id: ItemId) {
        if let Some(permissions) = &mut self.permissions
            && let Some(guarded) = self.items.remove(&id)
        {
            permissions.drop_item(now, guarded.item);
        }
    }

    /// Whether a client satisfies the lock of a single message.
    fn permits(&mut self, client: ClientId, lock: Option<LockId>) -> bool {
        // Without permissions everyone may.
        let Some(permissions) = &mut self.permissions else { return true };
        let profile = self.logins.get(&client).and_then(|login| permissions.profile(login.id));
        let (Some(profile), Some(lock)) = (profile, lock) else { return false };
        permissions.permits(profile, lock)
    }

    /// Panics if a watcher is not known, or one is known that is not there: `watchers` of all items together.
    pub(crate) fn check(&self, watchers: u64, is_live: impl Fn(ItemId) -> bool) {
        // There is nothing to be checked while permissions are off.
        let Some(permissions) = &self.permissions else { return };
        let opens: usize = self.logins.values().map(|login| login.opens.len()).sum();
        assert_eq!(opens as u64, watchers, "watchers known to the permissions");
        let counts = permissions.counts();
        assert_eq!((counts.opens, counts.items, counts.broken), (opens, self.items.len(), 0), "{counts:?}");
        assert!(self.items.keys().all(|id| is_live(*id)), "the permissions know an item that is gone");
    }
}
