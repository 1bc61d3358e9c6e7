//! Files to which is appended until they are full: then they are kept under a number behind their name, 1 the oldest.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Such a file.
#[derive(Debug)]
pub(crate) struct Rotated {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
    keep: usize,
}

impl Rotated {
    /// Opens the file, behind what is in it. `bytes_max` is its size from which it is full, 0 for any; of the full ones the newest `keep` are
    /// kept, all if it is 0.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(crate) fn open(path: &Path, bytes_max: u64, keep: usize) -> io::Result<Self> {
        let file = net::output::append_for_group(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, bytes, bytes_max, keep })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends some of it, and says how much.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    /// Has what was written on its disk.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Begins another file if this one is full.
    ///
    /// # Errors
    /// The system's: the file goes on growing.
    pub(crate) fn rotate(&mut self) -> io::Result<()> {
        if self.bytes_max == 0 || self.bytes < self.bytes_max {
            return Ok(());
        }
        self.file.sync_data()?;
        let numbers = numbers(&self.path)?;
        let next = numbers.last().map_or(1, |last| last + 1);
        fs::rename(&self.path, numbered(&self.path, next))?;
        if self.keep > 0 {
            let kept = self.keep - 1;
            for number in numbers.iter().take(numbers.len().saturating_sub(kept)) {
                fs::remove_file(numbered(&self.path, *number))?;
            }
        }
        (self.file, self.bytes) = (net::output::append_for_group(&self.path)?, 0);
        Ok(())
    }
}

/// The name of a full file.
pub(crate) fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// The numbers of the files that are full, ascending.
pub(crate) fn numbers(path: &Path) -> io::Result<Vec<u64>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let begins = format!("{}.", path.file_name().unwrap_or_default().to_string_lossy());
    let number = |entry: fs::DirEntry| entry.file_name().to_string_lossy().strip_prefix(&begins)?.parse().ok();
    let mut found: Vec<u64> = fs::read_dir(folder)?.flatten().filter_map(number).collect();
    found.sort_unstable();
    Ok(found)
}
