//! Services recorded over sockets.
//!
//! * [`Subscriber`] is a consumer of one service whose messages go to a recorder; its owner runs the sockets (`quoteway record`).
//! * [`Agent`] is a thread with sockets, subscribers and a recorder of its own: what a server records of itself (`[record]`).
//! * [`dictionary_at`], [`is_up_at`] and [`ServiceWatch`] are what a recording says of a service, for who plays or exports it.
//! * [`delay`] publishes a service so much later, out of a recording of it.
//! * [`SourceTime`] reads when a source has made a message.
//!
//! What is written, and how it is read, is the crate `record`.
#![forbid(unsafe_code)]

mod agent;
pub mod delay;
mod recorded;
mod source_time;
mod subscriber;

pub use agent::{Agent, AgentConfig, AgentError, AgentStatus};
pub use recorded::{ServiceWatch, dictionary_at, is_up_at};
pub use source_time::SourceTime;
pub use subscriber::{Limits, LogLine, Progress, Subscriber, TooMany, Wanted};
