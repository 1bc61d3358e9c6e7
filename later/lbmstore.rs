//! `quoteway lbmstore`: see `lbm_store_io::command`.

use super::output::Output;
pub use lbm_store_io::command::Args;

/// Serves until it is told to stop.
///
/// # Errors
/// A text for the user: bad options, or the port or the folder is taken.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut out = Output::default();
    lbm_store_io::command::run(args, |line| out.line(line))
}
