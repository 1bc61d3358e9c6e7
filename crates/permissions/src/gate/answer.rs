//! What the client is told, as it stands in the state of a status message.

use crate::rights::{Failure, Who};

/// Text of a login that the administrator ends; programs know it from real sites.
pub const FORCED_LOGOUT: &str = "Force Logout from DACS.";

/// Codes of a state (RWF `StateCodes`), those that permissions use.
pub mod code {
    /// Not entitled to the item, service or login.
    pub const NOT_ENTITLED: u8 = 3;
    /// Too many open items of this user.
    pub const TOO_MANY_ITEMS: u8 = 13;
    /// Too many logins of this user.
    pub const TOO_MANY_MOUNTS: u8 = 27;
    /// The source of rights cannot be reached.
    pub const DACS_DOWN: u8 = 29;
    /// The user is not known.
    pub const USER_UNKNOWN: u8 = 30;
    /// The user is on at as many positions as allowed.
    pub const MAX_LOGINS_REACHED: u8 = 31;
    /// The application may not be used.
    pub const APPLICATION_DENIED: u8 = 32;
}

/// The state of a stream that is closed, as RWF numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum StreamState {
    /// The client may try again by itself.
    ClosedRecover = 3,
    /// The stream is over.
    Closed = 4,
}

/// A status that closes a stream. The data state is always Suspect (2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Stream state.
    pub stream_state: StreamState,
    /// State code.
    pub code: u8,
    /// State text.
    pub text: String,
}

/// The data state of every [`Answer`]: Suspect.
pub const DATA_STATE: u8 = 2;

/// A refusal: its reason, and what the client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The first requirement that is not met.
    pub failure: Failure,
}

impl Denial {
    /// What the client is told.
    pub fn answer(&self) -> Answer {
        let (code, text) = match &self.failure {
            // The texts for a missing PE, an unknown user and a forced logout are those of real sites; others are ours.
            Failure::Pes { who, pes, .. } => {
                let pes = pes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
                (code::NOT_ENTITLED, format!("Access Denied: {who} req to PE({pes})"))
            }
            Failure::Service { who, service } => {
                (code::NOT_ENTITLED, format!("Access Denied: {who} not permissioned for service {service}"))
            }
            Failure::Subject { who, needs, .. } if needs.is_empty() => {
                (code::NOT_ENTITLED, format!("Access Denied: {who} not permissioned for this item"))
            }
            Failure::Subject { who, needs, .. } => {
                (code::NOT_ENTITLED, format!("Access Denied: {who} not permissioned for {needs}"))
            }
            Failure::UnknownLockService(id) => {
                (code::NOT_ENTITLED, format!("Access Denied: service id {id} of the lock is not known"))
            }
            Failure::UnreadableLock(_) => (code::NOT_ENTITLED, "Access Denied: the lock cannot be read".to_owned()),
            Failure::LocksFull => (code::NOT_ENTITLED, "Access Denied: too many different locks".to_owned()),
            Failure::UnknownUser => (code::USER_UNKNOWN, "User unknown to permissioning system".to_owned()),
            Failure::Application(id) => (code::APPLICATION_DENIED, format!("Application {id} is not permitted")),
            Failure::Position => (code::NOT_ENTITLED, "Position is not permitted".to_owned()),
            Failure::Positions { allowed } => {
                (code::MAX_LOGINS_REACHED, format!("Maximum of {allowed} simultaneous positions reached"))
            }
            Failure::Mounts { allowed } => (code::TOO_MANY_MOUNTS, format!("Maximum of {allowed} logins reached")),
            Failure::Items { allowed } => (code::TOO_MANY_ITEMS, format!("Maximum of {allowed} open items reached")),
            Failure::SourceDown => (code::DACS_DOWN, "Permissioning system is not available".to_owned()),
            Failure::Forced => (code::NOT_ENTITLED, FORCED_LOGOUT.to_owned()),
            Failure::Post => {
                (code::NOT_ENTITLED, "Access Denied: User not permissioned to post to this item".to_owned())
            }
            Failure::PostPermissions => {
                (code::NOT_ENTITLED, "Access Denied: User may not change permission data".to_owned())
            }
        };
        let recovers = matches!(self.failure, Failure::SourceDown);
        let stream_state = if recovers { StreamState::ClosedRecover } else { StreamState::Closed };
        Answer { stream_state, code, text }
    }

    /// Whose right is missing, where that can be said.
    pub fn who(&self) -> Option<Who> {
        match &self.failure {
            Failure::Service { who, .. } | Failure::Pes { who, .. } | Failure::Subject { who, .. } => Some(*who),
            _ => None,
        }
    }
}

impl From<Failure> for Denial {
    fn from(failure: Failure) -> Self {
        Self { failure }
    }
}
