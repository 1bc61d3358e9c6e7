//! The journal of a delayed service as files of a folder, one for each segment.

use feed::delay::{Segment, Store};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// Ending of the files.
const ENDING: &str = ".journal";

/// Segments in files. Nobody else may use the folder.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    /// Oldest first, with their bytes.
    segments: Vec<(Segment, u64)>,
    writing: Option<(Segment, File)>,
    reading: Option<(Segment, File)>,
    /// Held as long as this lives.
    _lock: File,
}

impl Files {
    /// The journal in a folder, which is made if there is none.
    ///
    /// # Errors
    /// The folder cannot be made or read, or another process has it.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("lock"))?;
        lock.try_lock().map_err(|_| io::Error::other("another process has its journal there"))?;
        let mut segments = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if let Some(segment) = entry.file_name().to_str().and_then(segment) {
                segments.push((segment, entry.metadata()?.len()));
            }
        }
        segments.sort_unstable();
        Ok(Self { folder: folder.to_owned(), segments, writing: None, reading: None, _lock: lock })
    }

    fn path(&self, segment: Segment) -> PathBuf {
        let kind = if segment.fresh { "begin" } else { "on" };
        self.folder.join(format!("{:020}-{kind}{ENDING}", segment.start))
    }
}

/// The segment that a file is named for.
fn segment(name: &str) -> Option<Segment> {
    let (start, kind) = name.strip_suffix(ENDING)?.split_once('-')?;
    let fresh = match kind {
        "begin" => true,
        "on" => false,
        _ => return None,
    };
    Some(Segment { start: start.parse().ok()?, fresh })
}

impl Store for Files {
    fn segments(&self) -> Vec<Segment> {
        self.segments.iter().map(|(segment, _)| *segment).collect()
    }

    fn read(&mut self, segment: Segment, offset: u64, limit: usize) -> io::Result<Vec<u8>> {
        // Later writes to a file are read from it without opening it anew.
        if self.size(segment) <= offset {
            return Ok(Vec::new());
        }
        if self.reading.as_ref().is_none_or(|(open, _)| *open != segment) {
            self.reading = Some((segment, File::open(self.path(segment))?));
        }
        let Some((_, file)) = &mut self.reading else { return Ok(Vec::new()) };
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.take(limit as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn append(&mut self, segment: Segment, bytes: &[u8]) -> io::Result<()> {
        if self.writing.as_ref().is_none_or(|(open, _)| *open != segment) {
            // A link that somebody has put there is not followed: the file is new.
            let file = OpenOptions::new().append(true).create_new(true).open(self.path(segment))?;
            self.writing = Some((segment, file));
            self.segments.push((segment, 0));
        }
        let Some((_, file)) = &mut self.writing else { return Ok(()) };
        file.write_all(bytes)?;
        if let Some((_, size)) = self.segments.last_mut() {
            *size += bytes.len() as u64;
        }
        Ok(())
    }

    fn size(&self, segment: Segment) -> u64 {
        self.segments.iter().find(|(known, _)| *known == segment).map_or(0, |(_, size)| *size)
    }

    fn remove(&mut self, segment: Segment) -> io::Result<()> {
        self.segments.retain(|(known, _)| *known != segment);
        std::fs::remove_file(self.path(segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (Segment { start: 5, fresh: true }, Segment { start: 7, fresh: false });
        let mut files = Files::open(folder.path()).unwrap();
        files.append(first, b"abc").unwrap();
        files.append(first, b"def").unwrap();
        files.append(second, b"x").unwrap();
        assert!(Files::open(folder.path()).is_err(), "two at a time");
        drop(files);
        std::fs::write(folder.path().join("other"), b"").unwrap();
        let mut files = Files::open(folder.path()).unwrap();
        assert_eq!(files.segments(), [first, second]);
        assert_eq!((files.read(first, 2, 3).unwrap(), files.size(first)), (b"cde".to_vec(), 6));
        files.remove(first).unwrap();
        assert_eq!(files.segments(), [second]);
        assert!(files.read(first, 0, 9).unwrap().is_empty());
    }
}
