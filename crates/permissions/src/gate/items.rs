//! Items, their locks, and who has them open.

use std::sync::Arc;

use super::{
    Close, Denial, EventKind, ItemError, ItemId, LockId, LoginId, Mode, OpenId, Permissions, ProfileId, ServiceRef,
    Sweep, Verdict,
};
use crate::lock::combine_bytes;
use crate::rights::{Demand, Failure, PostRights};

/// How long an item is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Until it is closed.
    Streaming,
    /// Once.
    Snapshot,
}

/// What becomes of a request for an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// The request may go to the source; when the image is there, ask [`Permissions::admit`].
    Yes(OpenId),
    /// Refused: answer with the denial's status.
    No(Denial),
}

/// What becomes of a contribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Posted {
    /// The post may go to the source, with these rights of the poster, whatever the client wrote.
    Yes(PostRights),
    /// Refused: answer with a negative acknowledgement (1, denied by source) and the denial's text.
    No(Denial),
}

/// A contribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostRequest<'a> {
    /// The service of the item.
    pub service: &'a str,
    /// The item's name.
    pub item: &'a str,
    /// The permission data in the post, if there is any.
    pub lock: Option<&'a [u8]>,
    /// What the post would do beside changing values: create or delete the item.
    pub needs: PostRights,
}

/// An item that clients can open.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) service: ServiceRef,
    pub(crate) name: Arc<str>,
    /// The absence of a lock is a lock, too.
    pub(crate) lock: LockId,
    /// There was no room for the item's lock: everybody is denied.
    has_no_room: bool,
    first_open: Option<OpenId>,
}

/// A place in a list of open items.
#[derive(Debug, Clone, Copy, Default)]
struct Links {
    before: Option<OpenId>,
    after: Option<OpenId>,
}

/// An item opened by a login: a member of two lists.
#[derive(Debug)]
pub(crate) struct Open {
    login: LoginId,
    item: ItemId,
    token: u64,
    watch: Watch,
    /// The image was granted.
    is_admitted: bool,
    of_login: Links,
    of_item: Links,
}

/// The handle of everything while permissions are off.
const NONE: u32 = u32::MAX;

impl Permissions {
    /// An item that clients can open; it is held until [`Permissions::drop_item`].
    ///
    /// # Errors
    /// [`ItemError::ServicesFull`].
    pub fn item(&mut self, service: &str, name: &str) -> Result<ItemId, ItemError> {
        if self.settings.mode == Mode::Off {
            return Ok(ItemId(NONE));
        }
        let service = self.decisions.service(&self.rights, service).ok_or(ItemError::ServicesFull)?;
        let (lock, has_no_room) = self.intern(service, &[]);
        self.decisions.hold(lock);
        let item = Item { service, name: name.into(), lock, has_no_room, first_open: None };
        Ok(ItemId(self.items.insert(item)))
    }

    /// Forgets an item, with what is still open of it.
    pub fn drop_item(&mut self, now: u64, id: ItemId) {
        while let Some(open) = self.items.get(id.0).and_then(|item| item.first_open) {
            self.close(now, open);
        }
        if let Some(item) = self.items.remove(id.0) {
            self.decisions.release(item.lock);
        }
    }

    /// The caller names what is not there, or the tables do not fit together: debug builds stop, others count and go on.
    #[cold]
    pub(super) fn broken(&mut self, what: &str) {
        debug_assert!(false, "{what}");
        self.counts.broken += 1;
    }

    /// The lock's number, or any other's and that there is no room.
    fn intern(&mut self, service: ServiceRef, bytes: &[u8]) -> (LockId, bool) {
        let max = self.settings.locks_max.max(1);
        let lock = self.decisions.lock(service, bytes, max);
        self.counts.locks_full += u64::from(lock.is_none());
        (lock.unwrap_or(LockId(0)), lock.is_none())
    }

    /// A login opens an item; `token` comes back when the state machine closes it. Checks what can be checked before the
    /// request goes to the source: the right to the service, and to the name where the service is guarded by subject.
    pub fn open(&mut self, now: u64, login: LoginId, item: ItemId, token: u64, watch: Watch) -> Opened {
        if self.settings.mode == Mode::Off {
            return Opened::Yes(OpenId(NONE));
        }
        let (Some(who), Some(what)) = (self.logins.get(login.0), self.items.get(item.0)) else {
            debug_assert!(false, "a login and an item that are there");
            return Opened::No(Failure::Forced.into());
        };
        let service = (self.decisions.service_index(what.service), self.decisions.service_name(what.service));
        let requirements = self.decisions.requirements(who.profile);
        let subject = self.rights.check(requirements, service.0, service.1, Demand::Subject(&what.name));
        if let Err(failure) = subject.and_then(|()| self.check_items(&who.actor.user)) {
            let actor = who.actor.clone();
            let (verdict, result) = self.judge(failure);
            self.record(now, EventKind::Denied, actor, Some(item), verdict);
            if let Err(denial) = result {
                return Opened::No(denial);
            }
        }
        let (of_login, of_item) = (Links::default(), Links::default());
        let open = OpenId(self.opens.insert(Open { login, item, token, watch, is_admitted: false, of_login, of_item }));
        self.link(open, login, item);
        Opened::Yes(open)
    }

    /// The image of an opened item is there (from the source, from a cache, after a recovery): may it be passed on?
    /// If not, the open item is gone.
    ///
    /// # Errors
    /// The denial; answer with its status in place of the image.
    pub fn admit(&mut self, now: u64, id: OpenId) -> Result<(), Denial> {
        if self.settings.mode == Mode::Off {
            return Ok(());
        }
        let Some(open) = self.opens.get_mut(id.0) else {
            debug_assert!(false, "an item that is open");
            return Err(Failure::Forced.into());
        };
        let (login, item, watch, was_admitted) = (open.login, open.item, open.watch, open.is_admitted);
        open.is_admitted = true;
        let verdict = match self.verdict(login, item) {
            // A second image of a stream is nothing new.
            Ok(()) if was_admitted => return Ok(()),
            Ok(()) => Verdict::Granted,
            Err(failure) => {
                let (verdict, result) = self.judge(failure);
                if let Err(denial) = result {
                    self.end_open(now, id, EventKind::Denied, verdict);
                    return Err(denial);
                }
                verdict
            }
        };
        let kind = if watch == Watch::Snapshot { EventKind::Snapshot } else { EventKind::StartWatch };
        if let Some(actor) = self.actor(login) {
            self.count_usage(login, item);
            self.record(now, kind, actor, Some(item), verdict);
        }
        Ok(())
    }

    /// Whether the image of an opened item was granted: until then nobody knows whether its lock lets the login see anything of it.
    pub fn is_admitted(&self, id: OpenId) -> bool {
        self.settings.mode == Mode::Off || self.opens.get(id.0).is_some_and(|open| open.is_admitted)
    }

    fn count_usage(&mut self, login: LoginId, item: ItemId) {
        let (Some(login), Some(item)) = (self.logins.get(login.0), self.items.get(item.0)) else {
            return self.broken("usage of a login or item that is gone");
        };
        let products = self.decisions.products(&self.rights, item.lock);
        self.usage.count(&login.actor.user, self.decisions.service_name(item.service), products);
    }

    /// Whether the login satisfies the item's lock of now.
    fn verdict(&mut self, login: LoginId, item: ItemId) -> Result<(), Failure> {
        let (Some(login), Some(item)) = (self.logins.get(login.0), self.items.get(item.0)) else {
            debug_assert!(false, "a login and an item that are there");
            return Err(Failure::Forced);
        };
        if item.has_no_room {
            return Err(Failure::LocksFull);
        }
        if self.decisions.permits(&self.rights, login.profile, item.lock) {
            return Ok(());
        }
        self.decisions.verdict(&self.rights, login.profile, item.lock)
    }

    /// The client closes an item.
    pub fn close(&mut self, now: u64, open: OpenId) {
        if self.settings.mode == Mode::Off {
            return;
        }
        self.end_open(now, open, EventKind::StopWatch, Verdict::Granted);
    }

    /// A refresh or status brings the lock of the whole item (`None`: a refresh without one). Call it before the message is
    /// passed on: who may not see the item under its new lock is closed here, and added to `out`.
    pub fn set_lock(&mut self, now: u64, id: ItemId, lock: Option<&[u8]>, out: &mut Vec<Close>) {
        if self.settings.mode == Mode::Off {
            return;
        }
        let Some(item) = self.items.get(id.0) else { return self.broken("a lock of an item that is gone") };
        let (service, old, had_no_room) = (item.service, item.lock, item.has_no_room);
        let (new, has_no_room) = self.intern(service, lock.unwrap_or_default());
        if new == old && has_no_room == had_no_room {
            return;
        }
        self.decisions.hold(new);
        self.decisions.release(old);
        let Some(item) = self.items.get_mut(id.0) else { return self.broken("a lock of an item that is gone") };
        item.lock = new;
        item.has_no_room = has_no_room;
        let mut next = item.first_open;
        while let Some(open) = next {
            next = self.opens.get(open.0).and_then(|open| open.of_item.after);
            self.check_open(now, open, out);
        }
    }

    /// The lock of an item as it is now; `None` if it has none.
    pub fn lock_of(&self, id: ItemId) -> Option<Arc<[u8]>> {
        self.items.get(id.0).and_then(|item| self.decisions.lock_bytes(item.lock))
    }

    /// An entry of the item's image has a lock of its own: whoever sees the item has to satisfy it, too.
    ///
    /// # Errors
    /// [`ItemError::Entry`]; the item is denied to everybody then.
    pub fn narrow_lock(&mut self, now: u64, id: ItemId, entry: &[u8], out: &mut Vec<Close>) -> Result<(), ItemError> {
        if self.settings.mode == Mode::Off {
            return Ok(());
        }
        let Some(item) = self.items.get(id.0) else {
            self.broken("a lock of an item that is gone");
            return Ok(());
        };
        let lock = self.decisions.lock_bytes(item.lock).unwrap_or_default();
        match combine_bytes([&*lock, entry]) {
            Ok(both) => {
                self.set_lock(now, id, Some(&both), out);
                Ok(())
            }
            Err(error) => {
                // The unreadable bytes stand for the item: an unreadable lock denies.
                self.set_lock(now, id, Some(entry), out);
                Err(error.into())
            }
        }
    }

    /// Checks one open item that was admitted, and closes it where rights are missing.
    fn check_open(&mut self, now: u64, id: OpenId, out: &mut Vec<Close>) {
        let Some(&Open { login, item, is_admitted, .. }) = self.opens.get(id.0) else {
            return self.broken("a check of an open item that is gone");
        };
        // Who waits for the image is checked when it comes.
        if is_admitted && let Err(failure) = self.verdict(login, item) {
            self.end_denied(now, id, failure, out);
        }
    }

    /// An open item fails a check: it is closed, or in test mode noted.
    fn end_denied(&mut self, now: u64, id: OpenId, failure: Failure, out: &mut Vec<Close>) {
        let Some(&Open { login, item, token, .. }) = self.opens.get(id.0) else {
            return self.broken("a denial of an open item that is gone");
        };
        let (verdict, result) = self.judge(failure);
        match result {
            Err(denial) => {
                self.end_open(now, id, EventKind::Denied, verdict);
                out.push(Close::Item { login, token, denial });
            }
            Ok(()) => self.record_would_deny(now, login, item, verdict),
        }
    }

    /// Checks what a login has open, from an open item on; gives where to go on.
    pub(super) fn check_opens(
        &mut self,
        now: u64,
        login: LoginId,
        from: Option<OpenId>,
        left: &mut usize,
        out: &mut Vec<Close>,
    ) -> Option<OpenId> {
        let mut next = from.or_else(|| self.logins.get(login.0)?.first_open);
        while let Some(open) = next {
            if *left == 0 {
                return next;
            }
            *left -= 1;
            next = self.opens.get(open.0).and_then(|open| open.of_login.after);
            self.check_subject(now, open, out);
        }
        None
    }

    /// As [`Permissions::check_open`], and what was checked when the item was opened, too.
    fn check_subject(&mut self, now: u64, id: OpenId, out: &mut Vec<Close>) {
        let open = self.opens.get(id.0).map(|open| (open.login, open.item));
        let (who, what) = open.map_or((None, None), |(who, what)| (self.logins.get(who.0), self.items.get(what.0)));
        let (Some(who), Some(what)) = (who, what) else {
            return self.broken("a check of an open item, login or item that is gone");
        };
        let service = (self.decisions.service_index(what.service), self.decisions.service_name(what.service));
        let requirements = self.decisions.requirements(who.profile);
        let Err(failure) = self.rights.check(requirements, service.0, service.1, Demand::Subject(&what.name)) else {
            return self.check_open(now, id, out);
        };
        self.end_denied(now, id, failure, out);
    }

    /// In test mode a source whose locks change all the time could fill the audit without end.
    fn record_would_deny(&mut self, now: u64, login: LoginId, item: ItemId, verdict: Verdict) {
        if self.audit.len() >= self.settings.audit_max {
            self.counts.would_deny_unlogged += 1;
        } else if let Some(actor) = self.actor(login) {
            self.record(now, EventKind::Denied, actor, Some(item), verdict);
        }
    }

    /// Logs what a login still has open.
    pub(super) fn continue_opens(
        &mut self,
        now: u64,
        login: LoginId,
        from: Option<OpenId>,
        left: &mut usize,
    ) -> Option<OpenId> {
        let mut next = from.or_else(|| self.logins.get(login.0)?.first_open);
        while let Some(id) = next {
            if *left == 0 || self.audit.len() >= self.settings.audit_max {
                return next;
            }
            *left -= 1;
            let open = self.opens.get(id.0)?;
            let (item, is_watched) = (open.item, open.is_admitted && open.watch == Watch::Streaming);
            next = open.of_login.after;
            if is_watched && let Some(actor) = self.actor(login) {
                self.count_usage(login, item);
                self.record(now, EventKind::ContinueWatch, actor, Some(item), Verdict::Granted);
            }
        }
        None
    }

    /// Closes what a login has open.
    pub(super) fn drop_opens(&mut self, now: u64, login: LoginId) {
        while let Some(open) = self.logins.get(login.0).and_then(|login| login.first_open) {
            self.close(now, open);
        }
    }

    /// Takes an open item out of the state machine, and logs its end if it was seen or is denied.
    fn end_open(&mut self, now: u64, id: OpenId, kind: EventKind, verdict: Verdict) {
        self.unlink(id);
        let Some(open) = self.opens.remove(id.0) else { return self.broken("the end of an open item that is gone") };
        let was_watched = open.is_admitted && open.watch == Watch::Streaming;
        if (was_watched || kind == EventKind::Denied)
            && let Some(actor) = self.actor(open.login)
        {
            self.record(now, kind, actor, Some(open.item), verdict);
        }
    }

    fn link(&mut self, id: OpenId, login: LoginId, item: ItemId) {
        let mut first_of_login = None;
        if let Some(login) = self.logins.get_mut(login.0) {
            first_of_login = login.first_open.replace(id);
            login.opens += 1;
        }
        let first_of_item = self.items.get_mut(item.0).and_then(|item| item.first_open.replace(id));
        if let Some(after) = first_of_login.and_then(|after| self.opens.get_mut(after.0)) {
            after.of_login.before = Some(id);
        }
        if let Some(after) = first_of_item.and_then(|after| self.opens.get_mut(after.0)) {
            after.of_item.before = Some(id);
        }
        if let Some(open) = self.opens.get_mut(id.0) {
            open.of_login.after = first_of_login;
            open.of_item.after = first_of_item;
        }
    }

    fn unlink(&mut self, id: OpenId) {
        let Some(open) = self.opens.get(id.0) else { return self.broken("the end of an open item that is gone") };
        let (login, item, of_login, of_item) = (open.login, open.item, open.of_login, open.of_item);
        match of_login.before {
            Some(before) => self.opens.get_mut(before.0).map(|open| open.of_login.after = of_login.after),
            None => self.logins.get_mut(login.0).map(|login| login.first_open = of_login.after),
        };
        match of_item.before {
            Some(before) => self.opens.get_mut(before.0).map(|open| open.of_item.after = of_item.after),
            None => self.items.get_mut(item.0).map(|item| item.first_open = of_item.after),
        };
        if let Some(after) = of_login.after.and_then(|after| self.opens.get_mut(after.0)) {
            after.of_login.before = of_login.before;
        }
        if let Some(after) = of_item.after.and_then(|after| self.opens.get_mut(after.0)) {
            after.of_item.before = of_item.before;
        }
        if let Some(login) = self.logins.get_mut(login.0) {
            login.opens -= 1;
        }
        self.move_sweep_on(id, of_login.after);
    }

    /// Only the sweep in front can stand within a list; the open item where it stands is going.
    fn move_sweep_on(&mut self, id: OpenId, after: Option<OpenId>) {
        let is_over = match self.sweeps.front_mut() {
            Some(Sweep::Check { from, .. } | Sweep::Continue { from, .. }) if *from == Some(id) => {
                *from = after;
                after.is_none()
            }
            _ => false,
        };
        if is_over {
            self.sweeps.pop_front();
        }
    }

    /// The lock of a single message (update, generic message), whose content alone it guards. `None` when there is no room
    /// for it: pass the message to nobody.
    pub fn message_lock(&mut self, item: ItemId, lock: &[u8]) -> Option<LockId> {
        let service = self.items.get(item.0)?.service;
        let (lock, has_no_room) = self.intern(service, lock);
        (!has_no_room).then_some(lock)
    }

    /// Whether a profile satisfies a lock: a bit test, but for the first time. True in test mode and off.
    #[inline]
    pub fn permits(&mut self, profile: ProfileId, lock: LockId) -> bool {
        self.settings.mode != Mode::On || self.decisions.permits(&self.rights, profile, lock)
    }

    /// Whether the directory of a login shows a service.
    pub fn shows_service(&self, login: LoginId, service: &str) -> bool {
        if self.settings.mode != Mode::On || self.rights.policy().show_denied_services {
            return true;
        }
        let Some(login) = self.logins.get(login.0) else {
            debug_assert!(false, "the directory of a login that is gone");
            return false;
        };
        let requirements = self.decisions.requirements(login.profile);
        self.rights.check(requirements, self.rights.service_index(service), service, Demand::Service).is_ok()
    }

    /// A contribution.
    pub fn post(&mut self, now: u64, login: LoginId, request: &PostRequest<'_>) -> Posted {
        let all = PostRights::ALL;
        let (true, Some(actor)) = (self.settings.mode != Mode::Off, self.actor(login)) else { return Posted::Yes(all) };
        let (kind, verdict, posted) = match self.check_post(&actor.user, login, request) {
            Ok(rights) => (EventKind::Post, Verdict::Granted, Posted::Yes(rights)),
            Err(failure) => {
                let (verdict, result) = self.judge(failure);
                (EventKind::PostDenied, verdict, result.map_or_else(Posted::No, |()| Posted::Yes(all)))
            }
        };
        let event = (Some(request.service.into()), Some(request.item.into()), request.lock.map(Arc::from));
        self.record_event(now, kind, actor, event, verdict);
        posted
    }

    fn check_post(&self, user: &str, login: LoginId, request: &PostRequest<'_>) -> Result<PostRights, Failure> {
        let service = self.rights.service_index(request.service);
        if let Some(login) = self.logins.get(login.0) {
            let requirements = self.decisions.requirements(login.profile);
            self.rights.check(requirements, service, request.service, Demand::Service)?;
            if requirements.is_unchecked {
                return Ok(PostRights::ALL);
            }
        }
        let (Some(user), Some(service)) = (self.rights.user(user), service) else { return Err(Failure::Post) };
        let mut grants = user
            .posts
            .iter()
            .filter(|post| post.service == service && post.names.iter().any(|name| name.matches(request.item)));
        let rights = grants.next().map(|post| post.rights).ok_or(Failure::Post)?;
        let rights = grants.fold(rights, |rights, post| rights.with(post.rights));
        if !rights.contains(request.needs) {
            return Err(Failure::Post);
        }
        if request.lock.is_some() && !rights.contains(PostRights::MODIFY_PERMISSIONS) {
            return Err(Failure::PostPermissions);
        }
        Ok(rights)
    }
}
