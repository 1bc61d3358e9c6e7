//! A log in shared memory: one writer, up to [`READERS`] readers in other processes or threads, no system call while both sides are
//! busy.
//!
//! A segment is a file, in `/dev/shm` as a rule, that all map: a header page, a table of readers, then a ring of bytes. A position
//! counts bytes since the beginning; its place in the ring is the position modulo the capacity. The ring is mapped twice in a row, so
//! whatever lies between two positions is one slice, also across the end.
//!
//! | offset | what | written by |
//! |---|---|---|
//! | 0 | magic (u64), version, pacing (u32 each), capacity (u64) | writer, once |
//! | 64 | identity: 64 bytes that belong to the protocol above | writer, once |
//! | 128 | claimed: up to where the writer may have overwritten the ring (source pacing) | writer, before it writes |
//! | 256 | published: up to where the log is complete | writer, after it has written |
//! | 384 | the writer's last sign of life, monotonic ns | writer |
//! | 512 | not 0: some reader sleeps | readers; the writer clears it |
//! | 640 | not 0: the writer has left in order | writer |
//! | 768 | not 0: the writer sleeps until readers have made room | writer; readers clear it |
//! | 4,096 | 96 readers, 128 bytes each: position (u64, all ones = unused), sleeps (u32, at 16) | their readers |
//! | 16,384 | the ring | writer |
//!
//! Integers are in native order. **Pacing**: paced by its readers, the writer overwrites nothing that a reader has not
//! [released](Reader::release), and readers borrow the ring's own memory. Paced by the source, it overwrites what it likes; readers
//! copy, and check afterwards that what they copied was still there.
//!
//! **Liveness** is a matter of file locks, which the kernel takes back at the very moment a process dies: the writer locks the file's
//! first byte, each reader the first byte of its entry. **Wake-up** goes through FIFOs beside the file (`.w`, `.r0` to `.r95`), so a
//! side can sleep on the log together with its sockets; who never sleeps never pays for it.
//!
//! **Trust.** All who map a segment can write its header and table; so segment and FIFOs belong to one user (mode 0600), and what belongs
//! to somebody else, or can be opened by others, is refused. Between processes of **one** user there is no wall: they could as well
//! attach a debugger. One that breaks the rules can spoil the data, stall the other side, or truncate the file, and then the other
//! side dies of SIGBUS. With receiver pacing readers borrow the ring's own memory, so that it can also change what is being parsed,
//! between two looks at the same byte; with source pacing readers copy first, and what they parse stays as it is. No length or position
//! from the segment reaches beyond the mapping, either way. Who does not trust all processes of a user runs them as several users.

mod distance;
#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
mod map;
#[cfg(loom)]
mod model;
mod reader;
mod sync;
mod writer;

#[cfg(loom)]
use model::{file, map};

use std::path::PathBuf;
use std::{fmt, io};

#[cfg(not(loom))]
pub use file::sweep;
pub use reader::{Overrun, Reader, WriterState};
pub use writer::Writer;

/// How many readers a segment can have.
#[cfg(not(loom))]
pub const READERS: usize = 96;
/// As few as a model can be looked through with.
#[cfg(loom)]
pub const READERS: usize = 2;
/// Bytes that identify a segment to the protocol above.
pub const IDENTITY: usize = 64;
/// A position is a multiple of it.
pub const ALIGN: usize = 8;
/// The smallest ring.
#[cfg(not(loom))]
pub const CAPACITY_MIN: usize = 65_536;
/// Two words, so that a model sees the ring reused.
#[cfg(loom)]
pub const CAPACITY_MIN: usize = 16;
/// The largest ring.
pub const CAPACITY_MAX: usize = 1 << 36;

/// Who waits for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// The writer overwrites what a slow reader has not read.
    Source,
    /// The writer waits for the slowest reader.
    Receiver,
}

/// Why a segment could not be made or opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum ShmError {
    /// A writer that is alive has a segment of this name.
    InUse(PathBuf),
    /// The segment's writer is dead or has left.
    Dead(PathBuf),
    /// The file is not a segment that this version can use.
    Unknown(PathBuf, &'static str),
    /// All entries for readers are taken.
    Full(PathBuf),
    /// The system refused.
    System(PathBuf, &'static str, io::Error),
}

impl fmt::Display for ShmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(path) => write!(f, "{}: another process writes this shared memory", path.display()),
            Self::Dead(path) => write!(f, "{}: nobody writes this shared memory any more", path.display()),
            Self::Unknown(path, why) => write!(f, "{}: not usable as shared memory: {why}", path.display()),
            Self::Full(path) => write!(f, "{}: it has {READERS} readers already", path.display()),
            Self::System(path, what, error) => {
                write!(f, "{}: cannot {what}: {error}", path.display())?;
                if matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::ENOMEM)) {
                    f.write_str(" (`df` on its directory shows what is left; a smaller ring needs less)")?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for ShmError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(_, _, error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(all(test, loom))]
mod model_tests;
#[cfg(all(test, not(loom)))]
mod tests;
