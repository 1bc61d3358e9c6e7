//! The segment's file: its name, its locks, and the FIFOs beside it.

use std::ffi::{CString, OsString, c_int};
pub(super) use std::fs::File;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::map::{self, READER_SIZE, READERS_AT};
use super::{READERS, ShmError};
use crate::sys::check;

/// The byte that the writer locks.
const WRITER_LOCK: u64 = 0;

/// The byte that the reader of an entry locks.
fn reader_lock(entry: usize) -> u64 {
    (READERS_AT + entry * READER_SIZE) as u64
}

/// Whose lock.
#[derive(Clone, Copy)]
pub(super) enum Owner {
    Writer,
    Reader(usize),
}

impl Owner {
    fn range(self) -> libc::flock {
        let at = match self {
            Self::Writer => WRITER_LOCK,
            Self::Reader(entry) => reader_lock(entry),
        };
        // SAFETY: all zero is a valid flock.
        let mut range = unsafe { std::mem::zeroed::<libc::flock>() };
        range.l_type = libc::F_WRLCK as _;
        range.l_whence = libc::SEEK_SET as _;
        range.l_start = at as libc::off_t;
        range.l_len = 1;
        range
    }
}

/// Locks belong to the open file, not to the process: two opens in one process exclude each other.
fn control(file: &File, command: c_int, range: &mut libc::flock) -> io::Result<()> {
    // SAFETY: both commands read and write one flock, alive through the call.
    check(unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(range)) }).map(drop)
}

/// Takes the lock; `false` if somebody else has it.
pub(super) fn lock(file: &File, owner: Owner) -> io::Result<bool> {
    match control(file, libc::F_OFD_SETLK, &mut owner.range()) {
        Ok(()) => Ok(true),
        Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(e) => Err(e),
    }
}

pub(super) fn unlock(file: &File, owner: Owner) {
    let mut range = owner.range();
    range.l_type = libc::F_UNLCK as _;
    let _ = control(file, libc::F_OFD_SETLK, &mut range);
}

/// Whether somebody else has the lock.
pub(super) fn is_locked(file: &File, owner: Owner) -> bool {
    let mut range = owner.range();
    control(file, libc::F_OFD_GETLK, &mut range).is_ok() && range.l_type != libc::F_UNLCK as libc::c_short
}

/// Opens an existing segment's file, if it is this user's own.
pub(super) fn open(path: &Path) -> Result<File, ShmError> {
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC).open(path);
    let file = opened.map_err(|e| ShmError::System(path.into(), "open", e))?;
    let meta = file.metadata().map_err(|e| ShmError::System(path.into(), "open", e))?;
    if !meta.is_file() {
        return Err(ShmError::Unknown(path.into(), "it is no file"));
    }
    foreign(&meta).map_or(Ok(file), |why| Err(ShmError::Unknown(path.into(), why)))
}

/// Why a file or FIFO is not to be trusted: others made it, or can open it.
fn foreign(meta: &fs::Metadata) -> Option<&'static str> {
    // SAFETY: no pointers are passed; cannot fail.
    let me = unsafe { libc::geteuid() };
    if meta.uid() != me && meta.uid() != 0 {
        return Some("it belongs to another user");
    }
    (meta.mode() & 0o077 != 0).then_some("other users can open it (its mode is not 0600)")
}

/// A file of so many bytes whose memory is there for sure, locked by its writer, and without a name of its own yet: see [`publish`].
pub(super) fn create(path: &Path, bytes: usize) -> Result<(File, PathBuf), ShmError> {
    let system = |what| move |e| ShmError::System(path.into(), what, e);
    static MADE: AtomicU32 = AtomicU32::new(0);
    let hidden = suffixed(path, &format!(".new{}.{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed)));
    let _ = fs::remove_file(&hidden);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_CLOEXEC)
        .open(&hidden)
        .map_err(system("create"))?;
    // Without it, a full file system would be a SIGBUS at the first touch.
    // SAFETY: no pointers are passed.
    let room = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) };
    let locked = if room == 0 { lock(&file, Owner::Writer) } else { Err(io::Error::from_raw_os_error(room)) };
    match locked {
        Ok(true) => Ok((file, hidden)),
        Ok(false) => Err(ShmError::InUse(path.into())),
        Err(e) => {
            let _ = fs::remove_file(&hidden);
            Err(ShmError::System(path.into(), "allocate its memory", e))
        }
    }
}

/// Gives a file that is complete its name. A dead writer's file of that name is removed.
pub(super) fn publish(hidden: &Path, path: &Path) -> Result<(), ShmError> {
    let result = loop {
        match fs::hard_link(hidden, path) {
            Ok(()) => break Ok(()),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => match remove_if_dead(path) {
                Ok(true) => {}
                Ok(false) => break Err(ShmError::InUse(path.into())),
                Err(e) => break Err(e),
            },
            Err(e) => break Err(ShmError::System(path.into(), "name", e)),
        }
    };
    let _ = fs::remove_file(hidden);
    result
}

/// Removes a segment whose writer is dead; `false` if it lives.
fn remove_if_dead(path: &Path) -> Result<bool, ShmError> {
    let file = match open(path) {
        Ok(file) => file,
        Err(ShmError::System(_, _, e)) if e.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(e) => return Err(e),
    };
    map::check_header(&file).map_err(|why| ShmError::Unknown(path.into(), why))?;
    if !lock(&file, Owner::Writer).map_err(|e| ShmError::System(path.into(), "lock", e))? {
        return Ok(false);
    }
    // With the lock held nobody else removes this file; but the name may be another file's by now.
    let same = fs::metadata(path).and_then(|named| Ok(named.ino() == file.metadata()?.ino())).unwrap_or(false);
    if same {
        remove(path);
    }
    Ok(true)
}

/// Removes a segment's file and the FIFOs beside it.
pub(super) fn remove(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = fs::remove_file(suffixed(path, ".w"));
    for entry in 0..READERS {
        // Readers take the lowest entry that is free: behind the first that never was used there are hardly any.
        if fs::remove_file(reader_bell(path, entry)).is_err() && entry > 8 {
            break;
        }
    }
}

/// Removes the segments in `directory` whose names begin with `prefix` and whose writers are dead; returns how many.
pub fn sweep(directory: &Path, prefix: &str) -> usize {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let ours = entries.flatten().filter(|entry| {
        entry.file_name().as_bytes().starts_with(prefix.as_bytes()) && entry.file_type().is_ok_and(|t| t.is_file())
    });
    ours.filter(|entry| matches!(remove_if_dead(&entry.path()), Ok(true))).count()
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn reader_bell(path: &Path, entry: usize) -> PathBuf {
    suffixed(path, &format!(".r{entry}"))
}

/// A FIFO that wakes one side. Opened for both directions, so that it has never a lost end.
#[derive(Debug)]
pub(super) struct Bell(File);

impl Bell {
    /// The bell of a side of the segment at `path`; made if it is not there.
    pub(super) fn open(path: &Path, owner: Owner) -> io::Result<Self> {
        let path = match owner {
            Owner::Writer => suffixed(path, ".w"),
            Owner::Reader(entry) => reader_bell(path, entry),
        };
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a string with its terminating zero.
        match check(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path)?;
        let meta = file.metadata()?;
        let wrong = if meta.file_type().is_fifo() { foreign(&meta) } else { Some("it is no FIFO") };
        match wrong {
            None => Ok(Self(file)),
            Some(why) => Err(io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display()))),
        }
    }

    /// Makes it readable. A full one is readable already.
    pub(super) fn ring(&self) {
        let _ = (&self.0).write(&[1]);
    }

    /// Makes it silent.
    pub(super) fn silence(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.0).read(&mut bytes), Ok(n) if n == bytes.len()) {}
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
