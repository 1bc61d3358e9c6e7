//! The users that are logged in.

use std::net::IpAddr;
use std::sync::Arc;

use super::audit::Sum;
use super::{Absence, Actor, Close, Denial, EventKind, LoginId, Mode, OpenId, Permissions, ProfileId, Sweep, Verdict};
use crate::rights::{CountBy, DEFAULT_APPLICATION, Failure, Limits};

/// What a login request says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginRequest<'a> {
    /// The connection, as the caller numbers it.
    pub connection: u64,
    /// The user's name.
    pub user: &'a str,
    /// Where the user sits: `ADDRESS/HOST` or `ADDRESS/net`.
    pub position: &'a str,
    /// The application; `None` is 256.
    pub application: Option<u32>,
    /// Whether the client wants locks to be sent along (attribute `ProvidePermissionExpressions`, 1 without it).
    pub wants_locks: bool,
}

/// What becomes of a login request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoggedIn {
    /// Accepted.
    Yes(LoginId),
    /// Refused: answer with the denial's status.
    No(Denial),
}

/// A user who is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnLine {
    /// The login.
    pub login: LoginId,
    /// The actor.
    pub actor: Actor,
    /// Since when, in the caller's nanoseconds.
    pub since: u64,
    /// Items that are open.
    pub opens: usize,
}

/// A login.
#[derive(Debug)]
pub(crate) struct Login {
    pub(crate) actor: Actor,
    pub(crate) profile: ProfileId,
    wants_locks: bool,
    since: u64,
    /// The list of what it has open.
    pub(crate) first_open: Option<OpenId>,
    pub(crate) opens: usize,
}

impl Permissions {
    /// A login request of a new connection, or of one that was logged out; each refusal has its line in the audit.
    pub fn login(&mut self, now: u64, request: &LoginRequest<'_>) -> LoggedIn {
        self.login_from(now, request, None)
    }

    /// As [`Permissions::login`], from an address whose refusals beyond so many a second are told together
    /// ([`Permissions::sum_up_refusals`]): what strangers cause is bounded.
    pub fn login_from(&mut self, now: u64, request: &LoginRequest<'_>, address: Option<IpAddr>) -> LoggedIn {
        let application = request.application.unwrap_or(DEFAULT_APPLICATION);
        let actor = Actor {
            user: request.user.into(),
            position: request.position.into(),
            application,
            connection: request.connection,
        };
        let mut is_unchecked = false;
        if self.settings.mode != Mode::Off {
            let verdict = match self.check_login(&actor) {
                Ok(unchecked) => {
                    is_unchecked = unchecked;
                    Verdict::Granted
                }
                Err(failure) => {
                    let (verdict, result) = self.judge(failure.clone());
                    if let Err(denial) = result {
                        self.record_refusal(now, address, actor, failure);
                        return LoggedIn::No(denial);
                    }
                    verdict
                }
            };
            self.record(now, EventKind::Login, actor.clone(), None, verdict);
        }
        let mut requirements = self.rights.requirements(request.user, request.position, application);
        requirements.is_unchecked = is_unchecked;
        let profile = self.decisions.profile(requirements);
        let user = actor.user.clone();
        let wants_locks = request.wants_locks;
        let login = Login { actor, profile, wants_locks, since: now, first_open: None, opens: 0 };
        let id = LoginId(self.logins.insert(login));
        self.by_user.entry(user).or_default().push(id);
        LoggedIn::Yes(id)
    }

    fn record_refusal(&mut self, now: u64, address: Option<IpAddr>, actor: Actor, failure: Failure) {
        let may_log = self.has_login_room();
        let has_line = address.is_none_or(|address| self.refusals.takes(now, address, may_log, (&actor, &failure)));
        if has_line {
            self.record(now, EventKind::LoginDenied, actor, None, Verdict::Denied(failure));
        }
    }

    /// Tells of refused logins that were counted, an event for each address, and gives when to call again. While the audit has no room for
    /// logins they are counted on.
    pub fn sum_up_refusals(&mut self, now: u64) -> Option<u64> {
        if self.has_login_room() {
            for Sum { count, actor, failure } in self.refusals.due(now) {
                self.record(now, EventKind::LoginDenied, actor, None, Verdict::Denied(failure));
                if let Some(event) = self.audit.back_mut() {
                    event.count = count;
                }
            }
        }
        // Where there is no room, the one who takes events comes by itself.
        self.refusals.next().filter(|at| *at > now)
    }

    /// Whether the login may be; `Ok(true)` if nobody could say and that is accepted.
    fn check_login(&self, actor: &Actor) -> Result<bool, Failure> {
        if !self.is_source_up && self.settings.absence == Absence::Closed {
            return Err(Failure::SourceDown);
        }
        let Some(user) = self.rights.user(&actor.user) else {
            return match (self.is_source_up, self.settings.absence) {
                (true, _) => Err(Failure::UnknownUser),
                (false, Absence::Open) => Ok(true),
                // Nothing is known of this user because nothing could be asked: another try may succeed.
                (false, _) => Err(Failure::SourceDown),
            };
        };
        self.check_place(actor)?;
        self.check_limits(actor, user.limits)
    }

    /// Whether the user may sit there and use that; these stay true only as long as the rights say so.
    fn check_place(&self, actor: &Actor) -> Result<(), Failure> {
        let user = self.rights.user(&actor.user).ok_or(Failure::UnknownUser)?;
        let application = actor.application;
        let is_known = !self.rights.knows_applications() || self.rights.application(application).is_some();
        let is_usable = user.applications.as_ref().is_none_or(|usable| usable.contains(&application));
        if !is_known || !is_usable {
            return Err(Failure::Application(application));
        }
        let is_allowed = self.rights.position(&actor.position).is_none_or(|position| position.is_allowed);
        let sits_right = user.positions.as_ref();
        if !is_allowed || !sits_right.is_none_or(|p| p.iter().any(|p| p.matches_position(&actor.position))) {
            return Err(Failure::Position);
        }
        Ok(())
    }

    fn check_limits(&self, actor: &Actor, limits: Limits) -> Result<bool, Failure> {
        let here = self.by_user.get(&actor.user).map_or(&[][..], Vec::as_slice);
        let elsewhere = self.elsewhere.get(&*actor.user).map_or(&[][..], Vec::as_slice);
        if let Some(allowed) = limits.mounts
            && here.len() + elsewhere.len() >= allowed as usize
        {
            return Err(Failure::Mounts { allowed });
        }
        let Some(allowed) = limits.positions else { return Ok(false) };
        let here = here.iter().filter_map(|id| self.logins.get(id.0)).map(|login| &*login.actor.position);
        let mut positions: Vec<&str> = here.chain(elsewhere.iter().map(|position| &**position)).collect();
        positions.push(&actor.position);
        if self.rights.policy().count_by == CountBy::Position {
            positions.sort_unstable();
            positions.dedup();
        }
        if positions.len() > allowed as usize { Err(Failure::Positions { allowed }) } else { Ok(false) }
    }

    /// Whether a user may open one item more. Items that are open in other shards or servers are not counted.
    pub(super) fn check_items(&self, user: &str) -> Result<(), Failure> {
        let Some(allowed) = self.rights.limits(user).and_then(|limits| limits.items) else { return Ok(()) };
        let logins = self.by_user.get(user).into_iter().flatten().filter_map(|id| self.logins.get(id.0));
        let open: usize = logins.map(|login| login.opens).sum();
        if open < allowed as usize { Ok(()) } else { Err(Failure::Items { allowed }) }
    }

    /// The user is on at this position in another shard or server; each call counts one connection.
    pub fn login_elsewhere(&mut self, user: &str, position: &str) {
        self.elsewhere.entry(user.into()).or_default().push(position.into());
    }

    /// The user is no longer on there: takes back one [`Permissions::login_elsewhere`].
    pub fn logout_elsewhere(&mut self, user: &str, position: &str) {
        let Some(positions) = self.elsewhere.get_mut(user) else { return };
        if let Some(at) = positions.iter().position(|known| **known == *position) {
            positions.swap_remove(at);
        }
        if positions.is_empty() {
            self.elsewhere.remove(user);
        }
    }

    /// The client has logged out or is gone, with all that it had open.
    pub fn logout(&mut self, now: u64, id: LoginId) {
        self.drop_opens(now, id);
        self.remove_login(now, id, None);
    }

    /// Whether this login gets the permission data of messages.
    pub fn wants_locks(&self, login: LoginId) -> bool {
        self.logins.get(login.0).is_some_and(|login| login.wants_locks)
    }

    /// The profile of a login, for decisions on single messages ([`Permissions::permits`]).
    pub fn profile(&self, login: LoginId) -> Option<ProfileId> {
        self.logins.get(login.0).map(|login| login.profile)
    }

    /// The users that are logged in.
    pub fn on_line(&self) -> impl Iterator<Item = OnLine> {
        self.logins.iter().map(|(id, login)| {
            let Login { actor, since, opens, .. } = login;
            OnLine { login: LoginId(id), actor: actor.clone(), since: *since, opens: *opens }
        })
    }

    /// Ends all logins of a user; [`Permissions::turn`] does it. Gives how many there are.
    pub fn force_logout(&mut self, user: &str) -> usize {
        let logins = self.by_user.get(user).map_or(&[][..], Vec::as_slice);
        self.sweeps.extend(logins.iter().map(|login| Sweep::End { login: *login, from_source: false }));
        logins.len()
    }

    /// Checks again what a user (`None`: everybody) has open, although no right is known to have changed.
    pub fn repermission(&mut self, user: Option<&str>) {
        let all = self.logins.iter().filter(|(_, login)| user.is_none_or(|user| *login.actor.user == *user));
        self.sweeps.extend(all.map(|(id, _)| Sweep::Check { login: LoginId(id), from: None }));
    }

    /// Gives a login the profile of new rights, and puts it on the list of those to check.
    pub(super) fn renew_login(&mut self, id: LoginId) {
        let Some(login) = self.logins.get_mut(id.0) else { return };
        let Actor { user, position, application, .. } = &login.actor;
        let requirements = self.rights.requirements(user, position, *application);
        login.profile = self.decisions.profile(requirements);
        let has_place = self.logins.get(id.0).is_some_and(|login| self.check_place(&login.actor).is_ok());
        let is_over = !has_place && self.settings.mode == Mode::On;
        let check = Sweep::Check { login: id, from: None };
        self.sweeps.push_back(if is_over { Sweep::End { login: id, from_source: false } } else { check });
    }

    /// Ends a login with all that it has open; gives how much that was. The caller knows all of it by the login, so nothing
    /// of it may be gone before the login is.
    pub(super) fn end_login(&mut self, now: u64, id: LoginId, failure: Failure, out: &mut Vec<Close>) -> usize {
        let Some(login) = self.logins.get(id.0) else { return 0 };
        let (connection, opens) = (login.actor.connection, login.opens);
        self.drop_opens(now, id);
        self.remove_login(now, id, Some(failure.clone()));
        out.push(Close::Login { login: id, connection, denial: failure.into() });
        opens + 1
    }

    fn remove_login(&mut self, now: u64, id: LoginId, why: Option<Failure>) {
        let Some(login) = self.logins.remove(id.0) else { return };
        self.sweeps.retain(|sweep| !sweep.is_of(id));
        if let Some(ids) = self.by_user.get_mut(&login.actor.user) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_user.remove(&login.actor.user);
            }
        }
        if self.settings.mode != Mode::Off {
            let (kind, verdict) = match why {
                None => (EventKind::Logout, Verdict::Granted),
                Some(failure) => (EventKind::LoginDenied, Verdict::Denied(failure)),
            };
            self.record(now, kind, login.actor, None, verdict);
        }
    }

    /// Who a login is.
    pub(super) fn actor(&self, id: LoginId) -> Option<Actor> {
        self.logins.get(id.0).map(|login| login.actor.clone())
    }

    /// The name of a login's user.
    pub fn user(&self, id: LoginId) -> Option<Arc<str>> {
        self.logins.get(id.0).map(|login| login.actor.user.clone())
    }
}

impl Sweep {
    fn is_of(self, id: LoginId) -> bool {
        match self {
            Self::Check { login, .. } | Self::Continue { login, .. } | Self::End { login, .. } => login == id,
        }
    }
}
