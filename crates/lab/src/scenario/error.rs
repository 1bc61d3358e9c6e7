//! Faults of a scenario, or of a change of one.

use super::grid::GridError;
use crate::results::{GoalError, Side, SideError};
use measure::process::Fault;

/// A scenario that cannot be run as it stands.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The file is no TOML.
    #[error("scenarios: {0}")]
    Syntax(#[source] toml::de::Error),
    /// A line that belongs to no scenario.
    #[error("scenarios: {0} stands outside of a [scenario]")]
    Outside(String),
    /// Something is wrong with one of them.
    #[error("scenario {name}: {fault}")]
    In {
        /// The scenario.
        name: String,
        /// The fault.
        fault: Box<ScenarioError>,
    },
    /// A parameter that there is not, or a value of another type.
    #[error(transparent)]
    Value(#[from] toml::de::Error),
    /// The scenario cannot be written as a table, to be changed.
    #[error(transparent)]
    Table(#[from] toml::ser::Error),
    /// A value that is not possible, by itself or beside others.
    #[error("{0}")]
    Parameter(&'static str),
    /// A word among the rates, or a goal.
    #[error(transparent)]
    Goal(#[from] GoalError),
    /// A word among the transports.
    #[error(
        "transports: {0:?} is none: tcp, lbt-tcp, lbt-rm, lbt-ru, lbt-ipc, aeron-ipc, aeron-unicast, aeron-multicast"
    )]
    Transport(String),
    /// A word among the losses.
    #[error("losses: {0:?} is no percentage below 100")]
    Loss(String),
    /// A word among the sizes of a turn.
    #[error("batches: {0:?} is no number of updates")]
    Batch(String),
    /// A word among the priorities.
    #[error("priority {0:?}: write PROCESS:PRIORITY (1 to 99), for example server:55")]
    Priority(String),
    /// A word among the bindings.
    #[error("bind {0:?}: write PROCESS:PROCESSORS, for example server:1")]
    Bind(String),
    /// A side that there is not.
    #[error(transparent)]
    Side(#[from] SideError),
    /// A side that is no other product.
    #[error("{0} is no peer")]
    Peer(Side),
    /// The cells of a scenario of LBM.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// What is different in the runs beside ours.
    #[error("variant: {0}")]
    Variant(Box<ScenarioError>),
    /// A name that was asked for.
    #[error("no scenario {asked:?}{nearest} (`quoteway-lab list` shows all)")]
    Unknown {
        /// The request.
        asked: String,
        /// What there is that is like it.
        nearest: String,
    },
    /// A change that is none.
    #[error("--set {0}: write KEY=VALUE")]
    Change(String),
    /// A change of something that no chosen scenario reads.
    #[error("--set {line}: none of the chosen scenarios reads this parameter")]
    Unread {
        /// The change.
        line: String,
    },
}

impl From<ScenarioError> for Fault {
    fn from(error: ScenarioError) -> Self {
        Self::Failed(error.to_string())
    }
}
