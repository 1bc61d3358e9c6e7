//! A journal of what a source said, and its play some time later: the state machine of delayed services.
//!
//! A [`Recorder`] writes down what comes, in segments that each begin with the images of all items, so that any of them can be begun
//! with. A [`Player`] says it again when it is due. Where nothing was written down (the process was not there, a segment is gone or
//! broken) there is a hole: at its place in time every item is Suspect, and good again with the first good image behind it.
//!
//! A new life of the process says [`Recorder::alive`] before it plays anything: by that the segments before it are known to be over.
//!
//! Time is an argument: wall clock in nanoseconds, since a journal outlives processes. Where segments are kept is the owner's
//! ([`Store`]).

mod player;
mod record;
mod recorder;
mod rules;
#[cfg(test)]
mod tests;

pub use player::{Play, Player};
pub use recorder::{Recorder, RecorderConfig};
pub use rules::{Rule, RuleError, Rules};

use std::io;

/// An item of the service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Number of its domain.
    pub domain: u8,
    /// Its name.
    pub name: Box<str>,
}

/// A part of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// When it begins: wall clock, nanoseconds. No two begin at the same time.
    pub start: u64,
    /// The segment does not go on where the one before it ends: a process has begun with it.
    pub fresh: bool,
}

/// Where segments are kept.
pub trait Store {
    /// All segments, oldest first.
    fn segments(&self) -> Vec<Segment>;

    /// Bytes of a segment from an offset on, as many as there are but no more than `limit`; none at its end, or if there is no such segment.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&mut self, segment: Segment, offset: u64, limit: usize) -> io::Result<Vec<u8>>;

    /// Adds bytes to a segment, whole records; the first ones make it.
    ///
    /// # Errors
    /// They cannot be written.
    fn append(&mut self, segment: Segment, bytes: &[u8]) -> io::Result<()>;

    /// Bytes of a segment.
    fn size(&self, segment: Segment) -> u64;

    /// Removes a segment.
    ///
    /// # Errors
    /// It cannot be removed.
    fn remove(&mut self, segment: Segment) -> io::Result<()>;
}
