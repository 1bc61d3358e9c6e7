//! The counters of a hub process for others of its host (`quoteway lbmstat`), as the contexts of LBM give theirs: who connects to
//! the process's Unix socket gets them as text.
//!
//! The socket has the abstract name `quoteway-hub/PID/NUMBER`, so that each network namespace has its own. One line a thing: kind,
//! name and counters, parted by tabs; the last line is `end`. Which counters there are, the table says (`crate::counters`); rates,
//! and what stands beside what, are the reader's.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicU32, Ordering};

use rssl_io::RsslIo;

use crate::counters::Samples;

/// How the names of the sockets begin.
pub const SOCKET_PREFIX: &str = "quoteway-hub/";
/// The number under which an owner's set reports the socket.
pub const STATUS: u32 = 2;

/// Answers a second; who asks more often is sent away.
const PER_SECOND: u32 = 20;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// The socket.
pub struct Status {
    listener: UnixListener,
    /// The second that is counted, and answers in it.
    second: (u64, u32),
}

impl Status {
    /// Opens the socket; the owner watches it by its descriptor. Nobody can look on if that fails, which is no reason not to work.
    pub fn open() -> Option<Self> {
        let name = format!("{SOCKET_PREFIX}{}/{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).ok()?).ok()?;
        listener.set_nonblocking(true).ok()?;
        Some(Self { listener, second: (0, 0) })
    }

    /// Opens the socket and has the turns of `io` end when somebody asks, under the number [`STATUS`].
    ///
    /// # Errors
    /// The set of sockets has become unusable.
    pub fn open_in(io: &mut RsslIo) -> io::Result<Option<Self>> {
        let status = Self::open();
        if let Some(status) = &status {
            io.tcp().watch(status.as_fd(), STATUS)?;
        }
        Ok(status)
    }

    /// Takes the next of those who ask; nobody if none waits, or if there were too many this second (who came is sent away).
    pub fn question(&mut self, now: u64) -> Option<StatusRequest> {
        let (stream, _) = self.listener.accept().ok()?;
        let second = now / 1_000_000_000;
        if self.second.0 != second {
            self.second = (second, 0);
        }
        self.second.1 += 1;
        (self.second.1 <= PER_SECOND && stream.set_nonblocking(true).is_ok()).then_some(StatusRequest(stream))
    }
}

/// Somebody who waits for the counters.
#[must_use = "who asks waits for an answer"]
pub struct StatusRequest(UnixStream);

impl StatusRequest {
    /// Answers with the reading that `sample` makes. Nothing blocks: what the reader's socket does not take is not sent.
    pub fn answer(mut self, sample: impl FnOnce(&mut Samples)) {
        let mut samples = Samples::default();
        sample(&mut samples);
        let _ = self.0.write_all((samples.lines() + "end\n").as_bytes());
    }
}

impl AsFd for Status {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    use crate::counters::Part;
    use crate::log::Counters;

    #[test]
    fn who_connects_gets_the_counters() {
        assert_eq!(SOCKET_PREFIX, tools::reports::HUB_SOCKET_PREFIX, "what lbmstat looks for");
        let mut status = Status::open().expect("a socket");
        let address = status.listener.local_addr().expect("bound");
        let mut stream = UnixStream::connect_addr(&address).expect("it listens");
        let counters = Counters { lines_lost: 7, lines_held_back: 1, internal_faults: 0 };
        status
            .question(1)
            .expect("one asks")
            .answer(|samples| samples.add(Part::Log, &[("of", "this\tprocess".to_owned())], &counters));
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer, then the end");
        assert_eq!(text, "log\tof=this?process\tlines_lost=7\tlines_held_back=1\tinternal_faults=0\nend\n");
        for _ in 0..2 * PER_SECOND {
            let mut stream = UnixStream::connect_addr(&address).expect("it listens");
            if let Some(question) = status.question(1) {
                question.answer(|_| {});
            }
            text.clear();
            stream.read_to_string(&mut text).expect("the end");
        }
        assert_eq!(text, "", "who asks too often gets nothing");
    }
}
