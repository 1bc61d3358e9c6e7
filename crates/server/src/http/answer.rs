//! What an endpoint answers.

use serde::Serialize;
use serde_json::{Value, json};

use super::threads::{NotAsked, Silent};

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) status: u16,
    pub(super) why: String,
}

impl Fault {
    pub(super) fn new(status: u16, why: impl Into<String>) -> Self {
        Self { status, why: why.into() }
    }
}

impl From<Silent> for Fault {
    fn from(Silent(name): Silent) -> Self {
        Self::new(503, format!("{name} does not answer"))
    }
}

impl From<NotAsked> for Fault {
    fn from(why: NotAsked) -> Self {
        match why {
            NotAsked::Silent(silent) => silent.into(),
            NotAsked::NoSuchThread { number, count } => Self::new(
                404,
                format!(
                    "there is no thread {number} in this process, which has {count}, numbered from 0: an id is THREAD.NUMBER as lists show it"
                ),
            ),
        }
    }
}

/// An answer: JSON, or a text of another type.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Json(String),
    Text(&'static str, String),
    /// JSON with a status of its own.
    Status(u16, Value),
}

impl Answer {
    pub(super) fn of(value: &impl Serialize) -> Result<Self, Fault> {
        serde_json::to_string(value).map(Self::Json).map_err(|e| Fault::new(500, e.to_string()))
    }
}

/// The action.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct Done {
    /// In words.
    pub(super) done: String,
}

/// The body of an answer that is a fault.
pub(super) fn fault(fault: &Fault) -> Value {
    json!({ "error": fault.why })
}
