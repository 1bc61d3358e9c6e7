//! `quoteway lbmpub` and `lbmsub`: the publishing and the subscribing test tool of the LBM benchmark reports.
//!
//! The publisher sends at a fixed rate by a schedule of intended times, which it never adjusts to what was possible; the
//! subscriber takes the latency of every message from its intended time, in memory that was touched before the test. Both end
//! with the figures of the reports' tables and one line of JSON, and fail if something was lost or the rate was not kept.

mod payload;
mod persistent;
pub mod publish;
mod queue;
mod round_trip;
mod schedule;
pub mod subscribe;
mod tally;
mod topic_args;

pub use persistent::StoreArgs;
pub use queue::QueueArgs;
pub use tally::{distribution_json, distribution_table};
pub use topic_args::{Idle, Profile, TopicArgs};

#[cfg(test)]
mod tests;
