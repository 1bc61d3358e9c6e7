//! Errors of sending.

/// Why nothing can be sent, or not any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The recording cannot be read.
    #[error("{0}")]
    Recording(#[from] record::Error),
    /// The place up to which a recording was sent cannot be read or written.
    #[error("{path}: {what}: {source}")]
    Place {
        /// The file.
        path: String,
        /// The attempt.
        what: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The place is of another recording than the one in the folder.
    #[error(
        "{path} is of another recording: was the folder emptied? Remove the file to send this one from its beginning"
    )]
    OtherRecording {
        /// The file.
        path: String,
    },
    /// There is no runtime for sockets.
    #[error("no sockets: {0}")]
    Runtime(std::io::Error),
    /// A segment cannot be made a table.
    #[error("segment {segment}: {what}")]
    Table {
        /// The segment's file.
        segment: String,
        /// The problem.
        what: String,
    },
    /// Somebody has said stop.
    #[error("stopped")]
    Stopped,
    /// The broker cannot be reached, or does not take messages. It is tried again.
    #[error("{target}: {what}")]
    Broker {
        /// Where it is.
        target: String,
        /// Its answer.
        what: String,
    },
}
