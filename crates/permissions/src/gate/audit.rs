//! What a compliance officer reads: an event for each login, watch and denial. Whoever owns the state machine takes the
//! events, adds the time of day, and writes them.

use std::sync::Arc;

use crate::rights::Failure;

/// What happened; the numbers are those of DACS's logging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EventKind {
    /// An item is seen from now on.
    StartWatch = 1,
    /// An item is no longer seen.
    StopWatch = 2,
    /// An item is refused, or taken away.
    Denied = 3,
    /// A user has logged in.
    Login = 4,
    /// A login is refused, or ended by force.
    LoginDenied = 5,
    /// A user has logged out.
    Logout = 6,
    /// An item is still seen when a new day begins.
    ContinueWatch = 9,
    /// A contribution.
    Post = 10,
    /// A contribution is refused.
    PostDenied = 11,
    /// An item was seen once.
    Snapshot = 12,
}

/// The end of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Granted.
    Granted,
    /// Denied for this reason.
    Denied(Failure),
    /// In test mode: granted, but would be denied.
    WouldDeny(Failure),
}

/// Who acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// The user's name.
    pub user: Arc<str>,
    /// Where the user sits.
    pub position: Arc<str>,
    /// With which application.
    pub application: u32,
    /// The connection, as the caller numbers it.
    pub connection: u64,
}

/// One line of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    /// When, in the caller's nanoseconds.
    pub at: u64,
    /// Counts all events from 1, so that a missing line shows.
    pub number: u64,
    /// What.
    pub kind: EventKind,
    /// Who.
    pub actor: Actor,
    /// The item's service, if the event is about one.
    pub service: Option<Arc<str>>,
    /// The item.
    pub item: Option<Arc<str>>,
    /// The bytes of the item's lock, if there is one.
    pub lock: Option<Arc<[u8]>>,
    /// The decision.
    pub verdict: Verdict,
    /// The version of the rights that decided.
    pub rights: Arc<str>,
}
