//! What can go wrong, by whose fault.

use std::io;

/// The recording could not be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk, or who may do what with it.
    #[error("{name}: {doing} failed: {source}")]
    Store {
        /// The file, within the recording's folder.
        name: String,
        /// Operation that was tried.
        doing: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// Another process writes it.
    #[error("{name}: another process records into this folder; stop it, or give this one a folder of its own")]
    Busy {
        /// The folder.
        name: String,
    },
    /// The file is nothing of ours.
    #[error("{name} is no segment of a recording: it begins with other bytes")]
    Foreign {
        /// The file.
        name: String,
    },
    /// The file is of a version that this program does not know.
    #[error(
        "{name} is of version {found} of the format, this program reads versions 1 to {known}: use the program that wrote it, or a newer one"
    )]
    Version {
        /// The file.
        name: String,
        /// Version of the file.
        found: u16,
        /// The newest that is known here.
        known: u16,
    },
    /// The head is damaged: nothing can be said of what follows.
    #[error(
        "{name}: the head of the segment does not match its checksum: restore the file, or remove it to read the others"
    )]
    Head {
        /// The file.
        name: String,
    },
    /// There is nothing to read.
    #[error("{name} holds no segment of a recording (files that end in .qwr)")]
    Empty {
        /// The folder.
        name: String,
    },
}

impl Error {
    pub(crate) fn store(name: &str, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        let name = name.to_owned();
        move |source| Self::Store { name, doing, source }
    }
}

/// Something in a recording that cannot be read. The rest can: at its place there is a gap.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Bytes that are no frame, in the middle of a segment.
    #[error("{segment}: {bytes} bytes at {offset} are no frame")]
    Bytes {
        /// The file.
        segment: String,
        /// Where they begin.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// A frame that does not match its checksum, or does not hold what it should.
    #[error("{segment}: the {what} at {offset} is damaged")]
    Frame {
        /// The file.
        segment: String,
        /// Where it begins.
        offset: u64,
        /// Part of the file that is damaged.
        what: &'static str,
    },
    /// A segment ends within a frame: its writer was killed. The part is left out.
    #[error("{segment} ends within a frame: {bytes} bytes at {offset} are left out")]
    Cut {
        /// The file.
        segment: String,
        /// Where the frame begins.
        offset: u64,
        /// Bytes that are there.
        bytes: u64,
    },
    /// A file that should be a segment cannot be used at all.
    #[error("{reason}")]
    Segment {
        /// Fault of the file, with its name.
        reason: String,
    },
    /// Records between two blocks or segments are not there.
    #[error("{segment}: records {from} to {to} are not there")]
    Missing {
        /// The file before which they are missing.
        segment: String,
        /// The first of them.
        from: u64,
        /// The last of them.
        to: u64,
    },
}
