//! When a process that delays was heard of last, in a file beside its journal: the hole behind its death begins then, and not with its last message.

use std::io;
use std::path::{Path, PathBuf};

/// Name of the file.
const NAME: &str = "alive";

/// The file.
#[derive(Debug)]
pub(super) struct Alive {
    path: PathBuf,
}

impl Alive {
    /// The mark of a journal; nothing is written yet.
    pub(super) fn new(journal: &Path) -> Self {
        Self { path: journal.join(NAME) }
    }

    /// The time, wall clock in nanoseconds; `None`: there is none that can be read.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub(super) fn read(&self) -> io::Result<Option<u64>> {
        match std::fs::read_to_string(&self.path) {
            Ok(text) => Ok(text.trim_end().parse().ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Says that it lives, and has written down all that came.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, now: u64) -> io::Result<()> {
        let new = self.path.with_extension("new");
        std::fs::write(&new, format!("{now}\n"))?;
        std::fs::rename(&new, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let alive = Alive::new(folder.path());
        assert_eq!(alive.read().unwrap(), None);
        alive.write(7).unwrap();
        alive.write(8).unwrap();
        assert_eq!(Alive::new(folder.path()).read().unwrap(), Some(8));
        std::fs::write(folder.path().join(NAME), "x").unwrap();
        assert_eq!(alive.read().unwrap(), None);
    }
}
