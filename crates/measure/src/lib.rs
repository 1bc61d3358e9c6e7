//! What the tools and the lab measure with: time stamps in messages, distributions of latencies, who saw which message when,
//! statistics of a few runs, and processes whose lines are read with the time at which they came.
//!
//! | module | what it is for |
//! |---|---|
//! | [`stamp`] | the time stamp in updates |
//! | [`latency`] | latencies over an interval, in the units of the reports |
//! | [`observer`] | records of two ends: who saw which message when |
//! | [`stats`] | medians, spreads, ratios of pairs |
//! | [`ports`] | ports that are known before their program runs |
//! | [`process`] | children, their lines and what they use |
#![forbid(unsafe_code)]

pub mod latency;
pub mod observer;
pub mod ports;
pub mod process;
pub mod stamp;
pub mod stats;
