//! A recorded market, played again: the same values in the same order, at the recorded pace, a multiple of it, or as fast as
//! the caller asks for them.
//!
//! At the end a replay begins again as a new trading day: every watched instrument gets a new image.

pub mod market;
pub mod ticks;
pub mod venue;

/// How fast recorded time passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReplaySpeed {
    /// This many recorded seconds a second; 1 is real time.
    Scaled(f64),
    /// Whatever is asked for is due.
    Unpaced,
}
