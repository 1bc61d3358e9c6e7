//! `sink-driven-src`: a provider that answers everything and publishes at a chosen rate.
//!
//! It either makes load (the reports' reference updates, over all open items) or publishes a market: the built-in one or a
//! recorded one.

mod args;
pub mod load;
pub mod pace;
mod run;
pub mod template;

pub use args::{Args, Idle, args_from};
pub use run::{run, run_until};
