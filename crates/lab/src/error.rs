//! Errors that several modules have.

use std::path::{Path, PathBuf};

use measure::process::Fault;

/// A file or a folder that could not be read, written or made.
#[derive(Debug, thiserror::Error)]
#[error("{what} {}: {source}", path.display())]
pub struct FileError {
    /// What it is to us.
    pub what: &'static str,
    /// Where it is, or would be.
    pub path: PathBuf,
    /// The system's error.
    pub source: std::io::Error,
}

impl FileError {
    /// To map an error of a file.
    pub fn of(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self { what, path: path.to_owned(), source }
    }
}

impl From<FileError> for Fault {
    fn from(error: FileError) -> Self {
        Self::Failed(error.to_string())
    }
}
