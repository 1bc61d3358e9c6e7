//! What bare loops need of the operating system beyond what the product uses: processes that are forked, words that several
//! processes map, a plain non-blocking read. The loops themselves are the crate `floor`.

pub mod board;
pub mod stage;

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;

use crate::sys::{self, EpollEvent};

/// Reads what is there without blocking, whatever mode the socket is in.
///
/// # Errors
/// `WouldBlock` when nothing is there; what the system refuses.
#[inline]
pub fn receive(stream: &TcpStream, buf: &mut [u8]) -> io::Result<usize> {
    sys::recv(stream.as_fd(), buf)
}

/// Asks for socket buffers of so many bytes: the sender's send buffer, the receiver's receive buffer.
///
/// # Errors
/// What the system refuses.
pub fn set_buffers(sender: &impl AsFd, receiver: &impl AsFd, bytes: usize) -> io::Result<()> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    sys::set_option(sender.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, bytes)?;
    sys::set_option(receiver.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, bytes)
}

/// An epoll set of connections that are read, each known by its number.
pub struct Readable {
    epoll: sys::Epoll,
    ready: Vec<EpollEvent>,
}

impl Readable {
    /// An empty set, which tells of at most `most` connections a call.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn new(most: usize) -> io::Result<Self> {
        Ok(Self { epoll: sys::Epoll::new()?, ready: vec![EpollEvent { events: 0, u64: 0 }; most] })
    }

    /// Adds a connection under a number.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn add(&self, stream: &TcpStream, number: u64) -> io::Result<()> {
        self.epoll.add(stream.as_fd(), libc::EPOLLIN, number)
    }

    /// Takes a connection out.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn remove(&self, stream: &TcpStream) -> io::Result<()> {
        self.epoll.remove(stream.as_fd())
    }

    /// Waits until something can be read; returns of how many connections: [`Readable::number`].
    ///
    /// # Errors
    /// What the system refuses.
    pub fn wait(&mut self) -> io::Result<usize> {
        self.epoll.wait(&mut self.ready, None)
    }

    /// The number of connection `n` of the last wait.
    #[inline]
    pub fn number(&self, n: usize) -> u64 {
        self.ready[n].u64
    }
}
