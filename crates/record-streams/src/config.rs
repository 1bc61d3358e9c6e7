//! What is sent where, and how far that is.

use crate::message::Form;
use crate::target::{Access, Target};
use names::Pattern;
use std::path::PathBuf;

/// Where a recording is sent from that was never sent there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Start {
    /// Its first record.
    #[default]
    Beginning,
    /// Records that come from now on.
    Now,
}

/// What is sent where.
#[derive(Debug)]
pub struct Config {
    /// Folder of the recording.
    pub folder: PathBuf,
    /// The broker, or the object store.
    pub target: Target,
    /// The login there.
    pub access: Access,
    /// How messages are written. An object store has tables.
    pub form: Form,
    /// Patterns of the items that are sent; none: all.
    pub items: Vec<Pattern>,
    /// Where to begin.
    pub start: Start,
    /// Ends when the recording has ended and all of it was sent.
    pub until_end: bool,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Messages that were sent, and taken; of an object store rows of tables.
    pub sent: u64,
    /// Messages that the broker had already: they were sent again. Of an object store records of segments that were there.
    pub known: u64,
    /// Of those that the broker had already, so many as it has removed since (a purge, a limit of its own): it has none of them now, and takes none
    /// again before its window of duplicates is over.
    pub gone: u64,
    /// Objects that were put.
    pub objects: u64,
    /// Values that no column has room for, in the rows that were put: those rows have the message as it came.
    pub unfit: u64,
    /// Messages that are longer than the broker takes, and were left out.
    pub too_long: u64,
    /// Records that the recording let go of (retention) before they were taken.
    pub removed: u64,
    /// Records of the recording that are behind what was taken.
    pub behind: u64,
    /// Why nothing is taken now.
    pub trouble: Option<String>,
}
