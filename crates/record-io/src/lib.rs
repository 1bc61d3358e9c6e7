//! Services recorded over sockets.
//!
//! * [`Subscriber`] is a consumer of one service whose messages go to a recorder; its owner runs the sockets (`quoteway record`).
//! * [`Agent`] is a thread with sockets, subscribers and a recorder of its own: what a server records of itself (`[record]`).
//!
//! What is written, and how it is read, is the crate `record`.
#![forbid(unsafe_code)]

mod agent;
mod source_time;
mod subscriber;

pub use agent::{Agent, AgentConfig, AgentError, AgentStatus};
pub use subscriber::{Limits, LogLine, Progress, Subscriber, TooMany, Wanted};
