//! `sink-driven-src`: a provider that answers everything and publishes at a chosen rate.
//!
//! It either makes load (the reports' reference updates or those of a data file, over all open items) or publishes a market:
//! the built-in one, a recorded one, or records of Marketfeed as they come. While it runs, commands on standard input change the rate and break things on purpose.

mod args;
pub mod catalogue;
pub mod commands;
mod item_index;
pub mod load;
pub mod order;
mod page;
mod run;
pub mod series;
mod stream;
pub mod template;

pub use args::{Args, Idle, args_from};
pub use run::{publish_opened, run, run_until};
