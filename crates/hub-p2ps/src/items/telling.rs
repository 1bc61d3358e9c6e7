//! To whom a state is told, and as what.

use rwf::rdm::state::Recovery;
use rwf::{State, StreamState};

/// Which of the watchers that wait for an image are told a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pending {
    /// Watchers that wait for their first image, or for another without getting updates, alone: the state says why they wait.
    Alone,
    /// No watcher that waits: the state is of streams that have had a response.
    None,
    /// Watchers for whom the status is a final one.
    IfFinal,
    /// All watchers that wait.
    All,
}

/// The state that clients have already by their directory streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relayed {
    /// Nothing.
    No,
    /// The same state, with this filter: it applies to streams that have had a response.
    Status {
        /// Bits of `rwf::rdm::directory::filter`.
        filter: u32,
        /// Directory streams that were open then have heard: `Clients::directories_opened`.
        at: u64,
    },
    /// The service is deleted, which closes everything.
    Deleted {
        /// As above.
        at: u64,
    },
}

/// How a state is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Telling {
    pub(crate) pending: Pending,
    pub(crate) relayed: Relayed,
    /// Watchers that know already that the item is suspect are not told so again.
    pub(crate) once: bool,
}

impl Telling {
    /// Everyone is told.
    pub(crate) const ALL: Self = Self { pending: Pending::All, relayed: Relayed::No, once: false };
}

/// The state as a client with this recovery policy is told it. Private streams are recovered by nobody.
pub(crate) fn told(policy: Recovery, private: bool, state: State<'_>) -> State<'_> {
    if private && state.stream == StreamState::CLOSED_RECOVER { state } else { policy.apply(state) }
}
