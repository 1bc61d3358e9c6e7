//! Where the files of a recording are: a folder, or in tests something that breaks when it is told to.

use crate::error::Error;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Ending of segments.
const SEGMENT: &str = ".qwr";
/// Ending of the tail of the newest segment.
const TAIL: &str = ".tail";
/// Bytes for which a file's length is not asked before they are read.
const READ_UNASKED: usize = 1 << 16;
/// Files that are kept open to be read.
const READING_MAX: usize = 4;
/// The file that whoever writes has locked.
const LOCK: &str = "recording.lock";

/// Synchronises a file: see [`Store::synchroniser`].
pub type Synchronise = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// Adds bytes at the end of a file, piece by piece: see [`Store::appender`].
pub type Append = Box<dyn FnOnce(&[&[u8]]) -> io::Result<()> + Send>;

/// A folder of files, by name.
pub trait Store {
    /// Name of the store, for messages.
    fn name(&self) -> String;

    /// Names and sizes of all files.
    ///
    /// # Errors
    /// The folder cannot be read.
    fn files(&self) -> io::Result<BTreeMap<String, u64>>;

    /// Bytes of a file from an offset on, as many as there are but no more than `limit`.
    ///
    /// # Errors
    /// There is no such file, or it cannot be read.
    fn read(&self, name: &str, offset: u64, limit: usize) -> io::Result<Vec<u8>>;

    /// Adds bytes at the end of a file; the first ones make it. A part of them may be there after an error.
    ///
    /// # Errors
    /// The bytes cannot be written.
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Cuts a file.
    ///
    /// # Errors
    /// The file cannot be cut.
    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()>;

    /// Makes what was written so far survive the machine.
    ///
    /// # Errors
    /// The bytes may not survive.
    fn sync(&mut self, name: &str) -> io::Result<()>;

    /// Does what [`Store::sync`] does with what was written so far, from any thread. `None`: this store has no other way than that.
    ///
    /// # Errors
    /// The file cannot be had.
    fn synchroniser(&mut self, _name: &str) -> io::Result<Option<Synchronise>> {
        Ok(None)
    }

    /// Does what [`Store::append`] does, once and from any thread, while nothing else is added to the file. `None`: this store has no other way than that.
    ///
    /// # Errors
    /// The file cannot be had.
    fn appender(&mut self, _name: &str) -> io::Result<Option<Append>> {
        Ok(None)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// The file cannot be removed.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// Gives a file another name, in the place of what has it.
    ///
    /// # Errors
    /// The file cannot be renamed.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
}

/// The name of a segment's file.
pub(crate) fn segment_name(number: u64) -> String {
    format!("{number:010}{SEGMENT}")
}

/// The name of its tail.
pub(crate) fn tail_name(number: u64) -> String {
    format!("{number:010}{TAIL}")
}

/// The number of the segment that a file is, by its name.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    name.strip_suffix(SEGMENT).filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

/// A folder of the file system.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Only one file shall be seen.
    only: Option<String>,
    open: BTreeMap<String, File>,
    /// Files that were read last, the latest at the end. A list of all files lets go of them: a file that is gone shall not keep its bytes.
    reading: Mutex<Vec<(String, Arc<File>)>>,
    /// Locked as long as this lives.
    _lock: Option<File>,
}

impl Folder {
    /// A folder to read: that of a recording, or a single segment's file.
    pub fn to_read(path: &Path) -> Self {
        if path.is_file()
            && let (Some(folder), Some(name)) = (path.parent(), path.file_name())
        {
            let only = Some(name.to_string_lossy().into_owned());
            return Self {
                path: folder.to_owned(),
                only,
                open: BTreeMap::new(),
                reading: Mutex::default(),
                _lock: None,
            };
        }
        Self { path: path.to_owned(), only: None, open: BTreeMap::new(), reading: Mutex::default(), _lock: None }
    }

    /// A folder to write, made if it is not there. Nobody else can have it meanwhile.
    ///
    /// # Errors
    /// The folder cannot be made or written, or another process writes it.
    pub fn to_write(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        fs::create_dir_all(path).map_err(Error::store(&name, "making the folder"))?;
        let lock = OpenOptions::new().create(true).append(true).open(path.join(LOCK));
        let lock = lock.map_err(Error::store(&format!("{name}/{LOCK}"), "opening for writing"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(Error::Busy { name }),
            Err(fs::TryLockError::Error(e)) => return Err(Error::store(&name, "locking")(e)),
        }
        Ok(Self {
            path: path.to_owned(),
            only: None,
            open: BTreeMap::new(),
            reading: Mutex::default(),
            _lock: Some(lock),
        })
    }

    /// A file to be read.
    fn reading(&self, name: &str) -> io::Result<Arc<File>> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = reading.iter().position(|(known, _)| known == name) {
            let found = reading.remove(at);
            reading.push(found);
        } else {
            let file = Arc::new(File::open(self.path.join(name))?);
            if reading.len() >= READING_MAX {
                reading.remove(0);
            }
            reading.push((name.to_owned(), file));
        }
        reading.last().map(|(_, file)| file.clone()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Lets go of a file, under this name there will be another one.
    fn forget(&mut self, name: &str) {
        self.open.remove(name);
        self.reading.get_mut().unwrap_or_else(PoisonError::into_inner).retain(|(known, _)| known != name);
    }

    fn file(&mut self, name: &str) -> io::Result<&mut File> {
        match self.open.entry(name.to_owned()) {
            std::collections::btree_map::Entry::Occupied(open) => Ok(open.into_mut()),
            std::collections::btree_map::Entry::Vacant(place) => {
                let is_new = !self.path.join(name).exists();
                let file = OpenOptions::new().create(true).append(true).open(self.path.join(name))?;
                if is_new {
                    // The name itself has to survive, too.
                    File::open(&self.path)?.sync_all()?;
                }
                Ok(place.insert(file))
            }
        }
    }
}

impl Store for Folder {
    fn name(&self) -> String {
        self.only.as_ref().map_or_else(|| self.path.clone(), |only| self.path.join(only)).display().to_string()
    }

    fn files(&self) -> io::Result<BTreeMap<String, u64>> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_seen = self.only.as_ref().is_none_or(|only| *only == name);
            if !is_seen {
                continue;
            }
            // A recording is listed while its writer renames and removes files: one that has gone since its name was read is none.
            match entry.metadata() {
                Ok(found) if found.is_file() => drop(all.insert(name, found.len())),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(all)
    }

    fn read(&self, name: &str, offset: u64, limit: usize) -> io::Result<Vec<u8>> {
        let file = self.reading(name)?;
        // No more memory than the file has bytes, whatever its index says.
        let limit = if limit <= READ_UNASKED {
            limit
        } else {
            let rest = file.metadata()?.len().saturating_sub(offset);
            limit.min(usize::try_from(rest).unwrap_or(usize::MAX))
        };
        let mut bytes = vec![0; limit];
        let mut len = 0;
        while len < limit {
            match file.read_at(&mut bytes[len..], offset + len as u64) {
                Ok(0) => break,
                Ok(count) => len += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        bytes.truncate(len);
        Ok(bytes)
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.file(name)?.write_all(bytes)
    }

    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()> {
        self.file(name)?.set_len(len)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.file(name)?.sync_data()
    }

    fn synchroniser(&mut self, name: &str) -> io::Result<Option<Synchronise>> {
        let file = self.file(name)?.try_clone()?;
        Ok(Some(Box::new(move || file.sync_data())))
    }

    fn appender(&mut self, name: &str) -> io::Result<Option<Append>> {
        let mut file = self.file(name)?.try_clone()?;
        Ok(Some(Box::new(move |pieces| pieces.iter().try_for_each(|piece| file.write_all(piece)))))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.forget(name);
        fs::remove_file(self.path.join(name))
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.forget(from);
        self.forget(to);
        fs::rename(self.path.join(from), self.path.join(to))?;
        File::open(&self.path)?.sync_all()
    }
}

/// Files in memory, for tests: it can be told how many bytes it may hold.
#[derive(Debug, Default, Clone)]
pub struct Memory {
    /// The files.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Bytes of all files together; what is more fails, with the part written that has room.
    pub room: Option<usize>,
}

impl Store for Memory {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn files(&self) -> io::Result<BTreeMap<String, u64>> {
        Ok(self.files.iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect())
    }

    fn read(&self, name: &str, offset: u64, limit: usize) -> io::Result<Vec<u8>> {
        let bytes = self.files.get(name).ok_or(io::ErrorKind::NotFound)?;
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        Ok(rest[..rest.len().min(limit)].to_vec())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let held: usize = self.files.values().map(Vec::len).sum();
        let room = self.room.map_or(usize::MAX, |room| room.saturating_sub(held));
        let written = &bytes[..bytes.len().min(room)];
        self.files.entry(name.to_owned()).or_default().extend_from_slice(written);
        if written.len() < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()> {
        self.files.entry(name.to_owned()).or_default().truncate(len as usize);
        Ok(())
    }

    fn sync(&mut self, _name: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.files.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let bytes = self.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        self.files.insert(to.to_owned(), bytes);
        Ok(())
    }
}
