//! `test-client`: opens watchlists and measures what comes.
//!
//! One thread, any number of connections ("mounts"). Everything is counted where it arrives; once an interval a line is
//! printed, at the end one line of JSON.

pub mod args;
pub mod field_types;
mod record;
pub mod run;
pub mod streams;
pub mod watch;

pub use args::{Args, ConnectionType, Json, args_from};
pub use run::{Report, measure, run};
