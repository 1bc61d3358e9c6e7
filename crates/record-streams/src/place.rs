//! Up to where a recording was sent, in a file of its own beside it.

use crate::error::Error;
use std::path::{Path, PathBuf};

/// A file that has the last sequence number that a target has taken. It is written after the target has said so: what was sent behind it is sent
/// again after a crash.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
}

impl Place {
    /// The place of a target of a recording.
    pub fn new(folder: &Path, target: &str) -> Self {
        // Names of targets have characters that files may not have.
        let name: String = target.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        Self { path: folder.join(format!("{name}-{:08x}.sent", checksum(target))) }
    }

    /// A folder beside it for what is made on the way to the target.
    pub(crate) fn folder_of_tables(&self) -> PathBuf {
        self.path.with_extension("tables")
    }

    /// The sequence number that comes next, if some of this recording was sent.
    ///
    /// # Errors
    /// The file cannot be read, or is of another recording.
    pub fn read(&self, recording: u64) -> Result<Option<u64>, Error> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.error("cannot be read", error)),
        };
        let damaged = || self.error("is damaged", std::io::ErrorKind::InvalidData.into());
        let (of, next) = text.trim_end().split_once(' ').ok_or_else(damaged)?;
        let of = u64::from_str_radix(of, 16).map_err(|_| damaged())?;
        if of != recording {
            return Err(Error::OtherRecording { path: self.path.display().to_string() });
        }
        next.parse().map(Some).map_err(|_| damaged())
    }

    /// Says that all before a sequence number was taken.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, recording: u64, next: u64) -> Result<(), Error> {
        let new = self.path.with_extension("sent.new");
        std::fs::write(&new, format!("{recording:016x} {next}\n"))
            .and_then(|()| std::fs::rename(&new, &self.path))
            .map_err(|error| self.error("cannot be written", error))
    }

    fn error(&self, what: &'static str, source: std::io::Error) -> Error {
        Error::Place { path: self.path.display().to_string(), what, source }
    }
}

/// FNV-1a: tells targets apart whose names differ in what a file's name cannot have.
fn checksum(text: &str) -> u32 {
    text.bytes().fold(0x811C_9DC5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_kept_of_one_recording_and_target() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path(), "nats://a:1/X");
        assert_eq!(place.read(7).unwrap(), None);
        place.write(7, 42).unwrap();
        assert_eq!(place.read(7).unwrap(), Some(42));
        assert!(matches!(place.read(8), Err(Error::OtherRecording { .. })));
        assert_eq!(Place::new(folder.path(), "nats://a:1_X").read(7).unwrap(), None);
        std::fs::write(&place.path, "nothing").unwrap();
        assert!(place.read(7).unwrap_err().to_string().contains("is damaged"));
    }
}
