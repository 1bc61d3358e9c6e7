//! What the sides of a run tell each other: a page of words that their processes map, or that their threads borrow.

use std::fs::OpenOptions;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{io, ptr, thread};

use crate::clock::{self, Usage};

/// Length of the file.
const SIZE: usize = 4_096;
const PATIENCE: Duration = Duration::from_secs(20);

/// The words. Each part is written by one side, in lines of the cache of its own. All zero is the beginning.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Board {
    /// Of the receiver, or the side that echoes.
    pub receiver: Receiver,
    /// Of the sender.
    pub sender: Sender,
}

/// What the receiver says.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Receiver {
    /// Messages that have come.
    pub messages: AtomicU64,
    /// CPU in user mode so far, ns.
    pub user: AtomicU64,
    /// CPU in the kernel so far, ns.
    pub system: AtomicU64,
    /// 1: it hears the sender.
    pub joined: AtomicU64,
    /// Where it listens: address and port; 0: not yet.
    pub at: AtomicU64,
}

/// What the sender says.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Sender {
    /// Intended time of the first message that counts; 0: not begun.
    pub counts_from: AtomicU64,
    /// Messages sent in all, once it has ended.
    pub sent: AtomicU64,
    /// 1: it has ended.
    pub over: AtomicU64,
    /// Where it listens for what is sent back.
    pub at: AtomicU64,
}

impl Board {
    /// Whether the sender has ended.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.sender.over.load(Ordering::Acquire) != 0
    }

    /// The sender has ended after so many messages.
    pub fn end(&self, sent: u64) {
        self.sender.sent.store(sent, Ordering::Relaxed);
        self.sender.over.store(1, Ordering::Release);
    }

    /// The receiver hears the sender.
    pub fn join(&self) {
        self.receiver.joined.store(1, Ordering::Release);
    }

    /// Whether the receiver hears the sender.
    #[inline]
    pub fn is_joined(&self) -> bool {
        self.receiver.joined.load(Ordering::Acquire) != 0
    }

    /// The receiver has so many messages.
    #[inline]
    pub fn received(&self, messages: u64) {
        self.receiver.messages.store(messages, Ordering::Relaxed);
    }

    /// What the receiving thread has used so far; to be called by it now and then.
    pub fn used(&self) {
        let Usage { user, system } = clock::thread_usage();
        self.receiver.user.store(user, Ordering::Relaxed);
        self.receiver.system.store(system, Ordering::Relaxed);
    }
}

/// Says where a side listens.
pub fn listens(word: &AtomicU64, at: SocketAddrV4) {
    word.store(u64::from(at.ip().to_bits()) << 16 | u64::from(at.port()), Ordering::Release);
}

/// Waits until the other side listens, and says where.
///
/// # Errors
/// It does not, within 20 seconds.
pub fn listener(word: &AtomicU64) -> io::Result<SocketAddrV4> {
    let begun = Instant::now();
    loop {
        let at = word.load(Ordering::Acquire);
        if at != 0 {
            return Ok(SocketAddrV4::new(Ipv4Addr::from_bits((at >> 16) as u32), at as u16));
        }
        if begun.elapsed() > PATIENCE {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the other side does not listen"));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// A board in a file that several processes map.
#[derive(Debug)]
pub struct Shared {
    board: NonNull<Board>,
}

// SAFETY: the mapping belongs to this value and moves with it; all words are atomics.
unsafe impl Send for Shared {}
// SAFETY: likewise.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps a file, which is made if it is not there. Nobody may make it shorter.
    ///
    /// # Errors
    /// The path is a symbolic link, or what the system refuses.
    pub fn open(path: &Path) -> io::Result<Self> {
        let options = &mut OpenOptions::new();
        let file = crate::output::open(options.read(true).write(true).create(true).truncate(false), path)?;
        if file.metadata()?.len() < SIZE as u64 {
            file.set_len(SIZE as u64)?;
        }
        let both = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping wherever the kernel likes, of a file that is long enough.
        let base = unsafe { libc::mmap(ptr::null_mut(), SIZE, both, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let board = NonNull::new(base.cast::<Board>()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { board })
    }
}

impl Deref for Shared {
    type Target = Board;

    fn deref(&self) -> &Board {
        const { assert!(size_of::<Board>() <= SIZE) };
        // SAFETY: mapped, aligned to a page, long enough, valid for any bytes, and only ever accessed as atomics.
        unsafe { self.board.as_ref() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `open`; no reference outlives `self`.
        unsafe { libc::munmap(self.board.as_ptr().cast(), SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_are_one_board() {
        let path = std::env::temp_dir().join(format!("net-board-{}", std::process::id()));
        let (one, other) = (Shared::open(&path).expect("a board"), Shared::open(&path).expect("the same"));
        std::fs::remove_file(&path).expect("it is there");
        assert!(!other.is_over() && !other.is_joined());
        one.join();
        one.received(5);
        one.end(7);
        let at = SocketAddrV4::new(Ipv4Addr::new(10, 213, 0, 2), 65_535);
        listens(&one.sender.at, at);
        assert!(other.is_over() && other.is_joined());
        assert_eq!(other.receiver.messages.load(Ordering::Relaxed), 5);
        assert_eq!(other.sender.sent.load(Ordering::Relaxed), 7);
        assert_eq!(listener(&other.sender.at).expect("an address"), at);
    }
}
