//! Logins, and how long they last; new rights and lost ones; what administrators ask and do.

use super::{ClientLogin, Gate, SWEEP, watcher_of};
use crate::CloseReason;
use crate::P2ps;
use crate::ids::{ClientId, ItemId, ServiceId, StreamId};
use permissions::rights::{Explanation, Rights};
use permissions::{Answer, AuditEvent, Close, Counts, Denial, LoggedIn, LoginRequest, Permissions, ProfileId, Usage};
use rustc_hash::FxHashMap;
use rwf::msg::{Domain, MsgClass};
use rwf::rdm::login;
use rwf::{DataState, State, StateCode, StreamState};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The answer to a client as a state.
pub(super) fn state(answer: &Answer) -> State<'_> {
    let stream = StreamState(answer.stream_state as u8);
    State::new(stream, DataState::SUSPECT, StateCode(answer.code), &answer.text)
}

/// The application of a login: its id is a number in text, 256 if there is none. Another text is no application that may be listed.
fn application(request: &login::Request) -> Option<u32> {
    let text = request.attributes.application_id.as_deref().filter(|text| !text.is_empty())?;
    Some(text.trim().parse().unwrap_or(u32::MAX))
}

impl Gate {
    /// A login is over, and nothing of it is open any more.
    pub(crate) fn remove_login(&mut self, now: u64, client: ClientId) {
        if let Some(permissions) = &mut self.permissions
            && let Some(login) = self.logins.remove(&client)
        {
            debug_assert!(login.opens.is_empty(), "a login ends with what it has open");
            permissions.logout(now, login.id);
        }
    }
}

impl P2ps {
    /// Asks whether a login may be. Its position is the address where it names none.
    pub(crate) fn permit_login(&mut self, client: ClientId, request: &login::Request) -> Result<(), Denial> {
        // Without permissions everyone may.
        let Some(permissions) = &mut self.gate.permissions else { return Ok(()) };
        let from = self.clients.get(client).map(|known| known.info.address);
        let address = from.map(|address| format!("{address}/net"));
        let position = request.attributes.position.as_deref().filter(|position| !position.is_empty());
        let asked = LoginRequest {
            connection: client.0.into(),
            user: &request.name,
            position: position.or(address.as_deref()).unwrap_or_default(),
            application: application(request),
            wants_locks: request.attributes.provide_permission_expressions != Some(false),
        };
        match permissions.login_from(self.now, &asked, from) {
            LoggedIn::Yes(login) => {
                let before = self.gate.logins.insert(client, ClientLogin { id: login, opens: BTreeMap::new() });
                debug_assert!(before.is_none(), "{client:?} is logged in already");
                Ok(())
            }
            LoggedIn::No(denial) => Err(denial),
        }
    }

    /// Tells a client that its login is refused or over.
    pub(crate) fn deny_login(&mut self, client: ClientId, stream: StreamId, denial: &Denial) {
        let answer = denial.answer();
        self.send_status(client, stream, Domain::LOGIN, state(&answer));
    }

    /// A login is refused: the client is told, and closed.
    pub(crate) fn refuse_login(&mut self, client: ClientId, stream: StreamId, denial: &Denial) {
        self.deny_login(client, stream, denial);
        self.counters.logins_refused += 1;
        self.close_client(client, CloseReason::LoginRefused { text: denial.answer().text });
    }

    /// True if a message of a client has to wait, and does.
    pub(crate) fn is_held_up(&mut self, client: ClientId, class: Option<MsgClass>, msg: &[u8]) -> bool {
        // Without permissions nothing is logged, so nothing waits for that.
        let Some(permissions) = &mut self.gate.permissions else { return false };
        let asks_for_new = matches!(class, Some(MsgClass::REQUEST | MsgClass::POST));
        // Strangers wait sooner, and with less: they must not take the room of those who are in.
        let is_in = self.gate.logins.contains_key(&client);
        let must_wait = self.gate.held.holds_for(client)
            || asks_for_new && (!is_in && !permissions.has_login_room() || permissions.is_held_up());
        if !must_wait {
            return false;
        }
        match self.gate.held.push(client, msg, is_in) {
            Ok(()) => self.counters.messages_held_up += 1,
            Err(waiting) => self.close_client(client, CloseReason::HeldUp { waiting }),
        }
        true
    }

    /// Goes on with what new rights have left to do, and with messages that had to wait for the audit.
    pub(crate) fn work_on_permissions(&mut self) {
        if self.gate.is_sweeping
            && let Some(permissions) = &mut self.gate.permissions
        {
            let mut closes = std::mem::take(&mut self.gate.closes);
            self.gate.is_sweeping = permissions.turn(self.now, SWEEP, &mut closes);
            self.carry_out(closes);
        }
        while self.gate.permissions.as_mut().is_some_and(|permissions| permissions.has_login_room())
            && let Some((client, msg)) = self.gate.held.pop()
        {
            if self.act_in_order(client, &msg) {
                self.clients.note_taken_up(client, msg);
            }
        }
    }

    /// Carries out what the permissions have ended.
    pub(super) fn carry_out(&mut self, mut closes: Vec<Close>) {
        for close in closes.drain(..) {
            match close {
                Close::Item { token, denial, .. } => {
                    let watcher = watcher_of(token);
                    if let Some(login) = self.gate.logins.get_mut(&watcher.client) {
                        login.opens.remove(&watcher.stream);
                    }
                    self.deny_watcher(watcher, &denial);
                }
                Close::Login { connection, denial, .. } => {
                    let client = ClientId(connection as u32);
                    self.gate.logins.remove(&client);
                    if let Some(stream) = self.clients.login_stream(client) {
                        self.deny_login(client, stream, &denial);
                        self.counters.logins_ended += 1;
                        self.logout(client);
                    } else {
                        let is_leaving = self.clients.get(client).is_some_and(|known| known.is_leaving);
                        debug_assert!(is_leaving, "the login of {client:?} is over, and there is none");
                    }
                }
            }
        }
        self.gate.closes = closes;
    }

    /// New rights. What is decided from now on is decided by them; what is open is checked again in the turns that follow.
    pub fn set_rights(&mut self, now: u64, rights: Arc<Rights>) {
        self.now = now;
        let before = self.shown_services();
        // Rights mean nothing while permissions are off.
        let Some(permissions) = &mut self.gate.permissions else { return };
        permissions.set_rights(rights);
        self.gate.is_sweeping = true;
        self.tell_shown_services(&before);
    }

    /// The source of rights cannot be reached: what that means is a setting.
    pub fn rights_lost(&mut self, now: u64) {
        self.now = now;
        if let Some(permissions) = &mut self.gate.permissions {
            permissions.source_lost();
            self.gate.is_sweeping = true;
        }
    }

    /// The source of rights answers again and has nothing new.
    pub fn rights_back(&mut self) {
        if let Some(permissions) = &mut self.gate.permissions {
            permissions.source_back();
        }
    }

    /// A day has begun, counted from 1970-01-01: what is open is logged again. Gives the reports of the days that have ended.
    pub fn new_day(&mut self, now: u64, day: u32) -> Vec<Usage> {
        self.now = now;
        // Without permissions no use is counted.
        let Some(permissions) = &mut self.gate.permissions else { return Vec::new() };
        permissions.new_day(day);
        self.gate.is_sweeping = true;
        permissions.take_usage().collect()
    }

    /// The next line for the audit log. While lines wait that are not taken, logins, requests and posts wait.
    pub fn next_audit(&mut self) -> Option<AuditEvent> {
        self.gate.permissions.as_mut()?.next_audit()
    }

    /// Has refused logins that are told together come among the lines of the audit; gives when to call again.
    pub fn sum_up_refusals(&mut self, now: u64) -> Option<u64> {
        self.gate.permissions.as_mut()?.sum_up_refusals(now)
    }

    /// The permissions, to be asked; `None` while they are off.
    pub fn permissions(&self) -> Option<&Permissions> {
        self.gate.permissions.as_deref()
    }

    /// The counts of the permissions; none while they are off.
    pub fn permission_counts(&self) -> Counts {
        self.permissions().map(Permissions::counts).unwrap_or_default()
    }

    /// A user is on at a position at another P2PS or shard (true), or not any more: each call counts one connection.
    pub fn on_elsewhere(&mut self, user: &str, position: &str, is_on: bool) {
        if let Some(permissions) = &mut self.gate.permissions {
            if is_on {
                permissions.login_elsewhere(user, position);
            } else {
                permissions.logout_elsewhere(user, position);
            }
        }
    }

    /// Ends all logins of a user ("Force Logout from DACS."); gives how many there are.
    pub fn force_logout(&mut self, now: u64, user: &str) -> usize {
        self.now = now;
        // Without permissions nobody is known here by a user name.
        let Some(permissions) = &mut self.gate.permissions else { return 0 };
        self.gate.is_sweeping = true;
        permissions.force_logout(user)
    }

    /// Checks again what a user (`None`: everybody) has open.
    pub fn repermission(&mut self, now: u64, user: Option<&str>) {
        self.now = now;
        if let Some(permissions) = &mut self.gate.permissions {
            self.gate.is_sweeping = true;
            permissions.repermission(user);
        }
    }

    /// Why a user may or may not see an item, with the lock that the item has here now; without it, if nobody has it open. `None` while
    /// permissions are off.
    pub fn explain(
        &self,
        (user, position, application): (&str, &str, u32),
        service: &str,
        item: &str,
    ) -> Option<Explanation> {
        let permissions = self.permissions()?;
        let is_asked_for = |id: &ItemId| {
            let known = self.sources.services().get(self.items.get(*id).service());
            known.is_some_and(|known| known.name == service) && self.items.key(*id).name == Some(item.as_bytes())
        };
        let guarded = self.gate.items.iter().find(|(id, guarded)| guarded.is_known && is_asked_for(id));
        let lock = guarded.and_then(|(_, guarded)| permissions.lock_of(guarded.item)).unwrap_or_default();
        Some(permissions.rights().explain(user, position, application, service, item, &lock))
    }

    /// Whether what is known here of the item of this number may be shown to a user, by the lock that the item has; who may while
    /// permissions are off.
    ///
    /// # Errors
    /// In words, why not.
    pub fn may_be_shown(&self, number: u32, (user, position, application): (&str, &str, u32)) -> Result<(), String> {
        // Without permissions everyone may.
        let Some(permissions) = self.permissions() else { return Ok(()) };
        if number >= self.items.numbers() || !self.items.get(ItemId(number)).is_live() {
            return Err("there is no such item".to_owned());
        }
        let root = self.items.root(ItemId(number));
        // No image has come here that would have told its lock.
        let guarded =
            self.gate.items.get(&root).filter(|guarded| guarded.is_known).ok_or("its lock is not known here")?;
        let lock = permissions.lock_of(guarded.item).unwrap_or_default();
        let service = self.sources.services().get(self.items.get(root).service()).map_or("", |service| &service.name);
        let name = String::from_utf8_lossy(self.items.key(root).name.unwrap_or_default());
        let explained = permissions.rights().explain(user, position, application, service, &name, &lock);
        if explained.is_granted {
            return Ok(());
        }
        let missing = explained.findings.iter().find(|finding| finding.met_by.is_none());
        let missing = missing.map(|finding| format!("{} has not {}", finding.who, finding.needs));
        Err(explained.note.or(missing).unwrap_or_else(|| format!("user {user} has no right to it")))
    }

    /// Whether the directory of a client shows a service.
    pub(crate) fn shows(&self, client: ClientId, service: ServiceId) -> bool {
        let hidden = self.clients.hidden_groups(client);
        if !hidden.is_empty() {
            let name = self.sources.services().get(service).map(|service| &service.name);
            let group = |place: &u16| self.config.service_groups.get(usize::from(*place));
            if name.is_some_and(|name| hidden.iter().filter_map(group).any(|group| group == name)) {
                return false;
            }
        }
        // Without permissions everyone may.
        let Some(permissions) = &self.gate.permissions else { return true };
        let (Some(login), Some(service)) = (self.gate.logins.get(&client), self.sources.services().get(service)) else {
            return false;
        };
        permissions.shows_service(login.id, &service.name)
    }

    /// Services that the directories of all clients show. Logins with the same grants see the same, so each is asked once.
    fn shown_services(&self) -> FxHashMap<ClientId, Vec<ServiceId>> {
        // Without permissions all directories show the same, always.
        let Some(permissions) = &self.gate.permissions else { return FxHashMap::default() };
        let mut by_profile: FxHashMap<(ProfileId, Box<[u16]>), Vec<ServiceId>> = FxHashMap::default();
        let mut shown = FxHashMap::default();
        for (client, known) in self.clients.iter().filter(|(_, known)| !known.directories.is_empty()) {
            debug_assert!(known.login.is_some(), "a directory of one who is not logged in");
            let profile = self.gate.logins.get(&client).and_then(|login| permissions.profile(login.id));
            let Some(profile) = profile else { continue };
            let services = by_profile.entry((profile, known.hidden_groups.clone())).or_insert_with(|| {
                let alive = self.sources.services().iter().filter(|service| service.alive).map(|service| service.id);
                alive.filter(|id| self.shows(client, *id)).collect()
            });
            shown.insert(client, services.clone());
        }
        shown
    }

    /// Tells the directories what new rights show and hide.
    fn tell_shown_services(&mut self, before: &FxHashMap<ClientId, Vec<ServiceId>>) {
        for (client, now) in self.shown_services() {
            let before = before.get(&client).map_or(&[][..], Vec::as_slice);
            for gone in before.iter().filter(|id| !now.contains(id)) {
                self.tell_service(client, *gone, false);
            }
            for new in now.iter().filter(|id| !before.contains(id)) {
                self.tell_service(client, *new, true);
            }
        }
    }
}
