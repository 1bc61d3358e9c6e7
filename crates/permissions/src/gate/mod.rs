//! The state machine: logins, items, open items, decisions, audit.
//!
//! Whoever serves clients calls [`Permissions`] at a login, when an item is opened, when its image or a new lock comes, and
//! once a turn. Updates without permission data do not come here at all: who may not see an item is not among its watchers.

mod answer;
mod audit;
mod decisions;
mod items;
mod logins;
mod slots;
mod usage;

pub use answer::{Answer, DATA_STATE, Denial, FORCED_LOGOUT, StreamState, code};
pub use audit::{Actor, AuditEvent, EventKind, Verdict};
pub use decisions::{LockId, ProfileId, ServiceRef};
pub use items::{Opened, PostRequest, Posted, Watch};
pub use logins::{LoggedIn, LoginRequest, OnLine};
pub use usage::{Usage, UsageRow};

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::lock::LockError;
use crate::rights::{Failure, Rights};
use audit::{AuditEvent as Event, Refusals};
use decisions::Decisions;
use items::{Item, Open};
use logins::Login;
use slots::Slots;

/// The mode of permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Nothing: everybody sees everything, nothing is remembered.
    #[default]
    Off,
    /// All is checked and logged, nothing is denied.
    Test,
    /// All is checked, logged, and denied where rights are missing.
    On,
}

/// What happens while the source of rights cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Absence {
    /// New logins are refused, with the request to come back (`refuseConnectionsDacsDown`).
    Closed,
    /// New logins are accepted, unchecked where the user is not known.
    Open,
    /// The rights known last go on; unknown users are refused.
    #[default]
    Last,
}

/// Bytes of audit events that may wait, beside [`Settings::audit_max`].
pub const AUDIT_BYTES_MAX: usize = 32 << 20;

/// Parameters of the state machine.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The mode of permissions.
    pub mode: Mode,
    /// What happens without a source of rights.
    pub absence: Absence,
    /// Whether those who are on are logged out when the source is lost (`disconnectDacsDown`).
    pub disconnect_on_loss: bool,
    /// Audit events that may wait to be taken. Beyond it [`Permissions::is_held_up`] says so; what one message more causes, and
    /// the ends of what is open, are still recorded.
    pub audit_max: usize,
    /// Different locks held at once.
    pub locks_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        let absence = Absence::default();
        Self { mode: Mode::Off, absence, disconnect_on_loss: false, audit_max: 65_536, locks_max: 65_536 }
    }
}

/// A login that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LoginId(pub(crate) u32);

/// An item that clients can open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ItemId(pub(crate) u32);

/// An item opened by a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpenId(pub(crate) u32);

/// Something that the state machine ends; what it names is gone from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Close {
    /// An open item.
    Item {
        /// Whose.
        login: LoginId,
        /// What the caller gave when it was opened.
        token: u64,
        /// Why.
        denial: Denial,
    },
    /// A login with all that it has open.
    Login {
        /// Which.
        login: LoginId,
        /// The client's connection, as the caller numbers it.
        connection: u64,
        /// Why.
        denial: Denial,
    },
}

/// What there is, for those who watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Logins.
    pub logins: usize,
    /// Items.
    pub items: usize,
    /// Open items.
    pub opens: usize,
    /// Different locks.
    pub locks: usize,
    /// Audit events that wait.
    pub audit: usize,
    /// Denials so far, those of test mode too.
    pub denials: u64,
    /// Times that a lock found no room; its item is denied.
    pub locks_full: u64,
    /// Times that a login or open was held up for the audit.
    pub held_up: u64,
    /// Denials of test mode on a lock's change that found the audit full.
    pub would_deny_unlogged: u64,
    /// Logins whose open items are still to be checked again.
    pub sweeping: usize,
    /// Calls about what is not there: faults of the caller or of this crate. None is ever expected.
    pub broken: u64,
}

/// A login that a turn goes over.
#[derive(Debug, Clone, Copy)]
enum Sweep {
    /// Rights have changed: check what it has open.
    Check { login: LoginId, from: Option<OpenId> },
    /// A day has begun: log what is still open.
    Continue { login: LoginId, from: Option<OpenId> },
    /// The login is over, for this reason.
    End { login: LoginId, from_source: bool },
}

/// Service, name and lock of the item that an event is about.
type EventItem = (Option<Arc<str>>, Option<Arc<str>>, Option<Arc<[u8]>>);

/// Permissions of one server or one of its shards.
#[derive(Debug)]
pub struct Permissions {
    settings: Settings,
    rights: Arc<Rights>,
    version: Arc<str>,
    is_source_up: bool,
    decisions: Decisions,
    logins: Slots<Login>,
    by_user: HashMap<Arc<str>, Vec<LoginId>>,
    /// Positions of users that are on elsewhere: another shard, another server. Each counts as long as it is named.
    elsewhere: HashMap<Box<str>, Vec<Box<str>>>,
    items: Slots<Item>,
    opens: Slots<Open>,
    sweeps: VecDeque<Sweep>,
    audit: VecDeque<Event>,
    audit_bytes: usize,
    audit_number: u64,
    refusals: Refusals,
    usage: Usage,
    past_usage: VecDeque<Usage>,
    counts: Counts,
}

impl Permissions {
    /// Without rights: until there are some, the source counts as lost.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            rights: Arc::default(),
            version: Arc::from(""),
            is_source_up: false,
            decisions: Decisions::default(),
            logins: Slots::default(),
            by_user: HashMap::new(),
            elsewhere: HashMap::new(),
            items: Slots::default(),
            opens: Slots::default(),
            sweeps: VecDeque::new(),
            audit: VecDeque::new(),
            audit_bytes: 0,
            audit_number: 0,
            refusals: Refusals::default(),
            usage: Usage::default(),
            past_usage: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// The mode of permissions.
    pub const fn mode(&self) -> Mode {
        self.settings.mode
    }

    /// The rights of now.
    pub const fn rights(&self) -> &Arc<Rights> {
        &self.rights
    }

    /// Counters and sizes.
    pub fn counts(&self) -> Counts {
        Counts {
            logins: self.logins.len(),
            items: self.items.len(),
            opens: self.opens.len(),
            locks: self.decisions.lock_count(),
            audit: self.audit.len(),
            sweeping: self.sweeps.len(),
            ..self.counts
        }
    }

    /// Takes over new rights: the source is up. What is decided from now on is decided by them; what is open is checked
    /// again by [`Permissions::turn`].
    pub fn set_rights(&mut self, rights: Arc<Rights>) {
        self.version = rights.version().into();
        self.rights = rights;
        self.is_source_up = true;
        self.decisions.renew(&self.rights);
        self.sweeps.retain(|sweep| !matches!(sweep, Sweep::Check { .. }));
        let ids: Vec<LoginId> = self.logins.iter().map(|(id, _)| LoginId(id)).collect();
        for id in ids {
            self.renew_login(id);
        }
    }

    /// The source of rights cannot be reached. Those who are on stay or go, as the settings say.
    pub fn source_lost(&mut self) {
        self.is_source_up = false;
        if self.settings.disconnect_on_loss && self.settings.mode == Mode::On {
            let ids = self.logins.iter().map(|(id, _)| Sweep::End { login: LoginId(id), from_source: true });
            self.sweeps.extend(ids);
        }
    }

    /// The source answers again and has nothing new.
    pub const fn source_back(&mut self) {
        self.is_source_up = true;
    }

    /// Goes on with what new rights, lost sources and new days have left to do: about `budget` open items are looked at (a
    /// login ends with all it has open at once), so that others get their turn. What ends is added to `out`; there is more to do while this gives true.
    pub fn turn(&mut self, now: u64, budget: usize, out: &mut Vec<Close>) -> bool {
        let mut left = budget.max(1);
        while left > 0
            && let Some(sweep) = self.sweeps.pop_front()
        {
            // Where the audit is full, only what is denied goes on: ends are never held up.
            let may_log = self.audit.len() < self.settings.audit_max;
            let rest = match sweep {
                Sweep::Check { login, from } if may_log || self.settings.mode == Mode::On => {
                    let next = self.check_opens(now, login, from, &mut left, out);
                    next.map(|from| Sweep::Check { login, from: Some(from) })
                }
                Sweep::Continue { login, from } if may_log => {
                    let next = self.continue_opens(now, login, from, &mut left);
                    next.map(|from| Sweep::Continue { login, from: Some(from) })
                }
                Sweep::End { login, from_source } => {
                    let failure = if from_source { Failure::SourceDown } else { Failure::Forced };
                    left = left.saturating_sub(self.end_login(now, login, failure, out));
                    None
                }
                Sweep::Check { .. } | Sweep::Continue { .. } => {
                    self.sweeps.push_front(sweep);
                    return true;
                }
            };
            if let Some(rest) = rest {
                self.sweeps.push_front(rest);
            }
        }
        !self.sweeps.is_empty()
    }

    /// A day has begun: the report of the one before can be taken, and what is open is logged again.
    pub fn new_day(&mut self, day: u32) {
        let ended = std::mem::replace(&mut self.usage, Usage { day, ..Usage::default() });
        if !ended.opens.is_empty() {
            self.past_usage.push_back(ended);
            // A year of reports that nobody takes is enough.
            if self.past_usage.len() > 366 {
                self.past_usage.pop_front();
            }
        }
        if self.settings.mode != Mode::Off {
            let logins = self.logins.iter().map(|(id, _)| Sweep::Continue { login: LoginId(id), from: None });
            self.sweeps.extend(logins);
        }
    }

    /// The reports of days that have ended.
    pub fn take_usage(&mut self) -> impl Iterator<Item = Usage> {
        self.past_usage.drain(..)
    }

    /// What was used today so far.
    pub const fn usage(&self) -> &Usage {
        &self.usage
    }

    /// The audit events since the last call, in order.
    pub fn take_audit(&mut self) -> impl Iterator<Item = AuditEvent> {
        self.audit_bytes = 0;
        self.audit.drain(..)
    }

    /// The next audit event, in order, for who can take one at a time.
    pub fn next_audit(&mut self) -> Option<AuditEvent> {
        let event = self.audit.pop_front()?;
        self.audit_bytes = self.audit_bytes.saturating_sub(event.bytes());
        Some(event)
    }

    /// Whether a message that asks for something new (a login, an item, a post) has to wait until audit events are taken. To
    /// be asked before each such message; what one message causes is recorded as a whole.
    pub fn is_held_up(&mut self) -> bool {
        let is_full = !self.has_audit_room();
        self.counts.held_up += u64::from(is_full);
        is_full
    }

    /// As [`Permissions::is_held_up`], for who only looks: it is not counted.
    pub fn has_audit_room(&self) -> bool {
        self.settings.mode == Mode::Off || self.is_audit_below(0)
    }

    /// Whether a new login finds room in the audit. A quarter of it is kept for those who are in: while the audit takes nothing, they go on
    /// for longest.
    pub fn has_login_room(&self) -> bool {
        self.settings.mode == Mode::Off || self.is_audit_below(4)
    }

    /// Whether the audit has room, with this part of it left free (0: none).
    fn is_audit_below(&self, part: usize) -> bool {
        let most = |all: usize| all - all.checked_div(part).unwrap_or(0);
        self.audit.len() < most(self.settings.audit_max) && self.audit_bytes < most(AUDIT_BYTES_MAX)
    }

    /// The verdict of a check: what it means in this mode, for the audit and for the caller.
    fn judge(&mut self, failure: Failure) -> (Verdict, Result<(), Denial>) {
        self.counts.denials += 1;
        if self.settings.mode == Mode::On {
            (Verdict::Denied(failure.clone()), Err(failure.into()))
        } else {
            (Verdict::WouldDeny(failure), Ok(()))
        }
    }

    fn record(&mut self, now: u64, kind: EventKind, actor: Actor, item: Option<ItemId>, verdict: Verdict) {
        let item = item.and_then(|item| self.items.get(item.0));
        let service = item.map(|item| self.decisions.service_name(item.service).clone());
        let lock = item.and_then(|item| self.decisions.lock_bytes(item.lock));
        let name = item.map(|item| item.name.clone());
        self.record_event(now, kind, actor, (service, name, lock), verdict);
    }

    fn record_event(
        &mut self,
        at: u64,
        kind: EventKind,
        actor: Actor,
        (service, item, lock): EventItem,
        verdict: Verdict,
    ) {
        self.audit_number += 1;
        let (number, rights) = (self.audit_number, self.version.clone());
        let event = Event { at, number, kind, count: 1, actor, service, item, lock, verdict, rights };
        self.audit_bytes += event.bytes();
        self.audit.push_back(event);
    }
}

/// A service id or lock that there is no room for, or an unreadable one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// More services than can be numbered.
    #[error("more than 65535 service names")]
    ServicesFull,
    /// The lock of an entry cannot be combined with the item's.
    #[error("the lock of an entry cannot be combined with that of its item: {0}")]
    Entry(#[from] LockError),
}
