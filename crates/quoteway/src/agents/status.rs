//! The counters of a hub process for others of its host (`quoteway lbmstat`), as the contexts of LBM give theirs: who connects to
//! the process's Unix socket gets them as text.
//!
//! The socket has the abstract name `quoteway-hub/PID/NUMBER`, so that each network namespace has its own. One line a thing: kind,
//! name and counters, parted by tabs; the last line is `end`. Rates, and what stands beside what, are the reader's.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU32, Ordering};

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

    /// Answers one of those who wait, with what `write` puts into the report. Nothing blocks: what the reader's socket does not take
    /// is not sent.
    pub fn answer(&mut self, now: u64, write: impl FnOnce(&mut Report)) {
        let Ok((mut stream, _)) = self.listener.accept() else { return };
        let second = now / 1_000_000_000;
        if self.second.0 != second {
            self.second = (second, 0);
        }
        self.second.1 += 1;
        if self.second.1 > PER_SECOND || stream.set_nonblocking(true).is_err() {
            return;
        }
        let mut report = Report::default();
        write(&mut report);
        report.0.push_str("end\n");
        let _ = stream.write_all(report.0.as_bytes());
    }
}

impl AsFd for Status {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// What a process says of itself.
#[derive(Debug, Default)]
pub struct Report(String);

impl Report {
    /// Adds a thing.
    pub fn line(&mut self, kind: &str, name: &str, counters: &[(&str, u64)]) {
        let name = name.replace(char::is_control, "?");
        let _ = write!(self.0, "{kind}\t{name}");
        for (counter, value) in counters {
            let _ = write!(self.0, "\t{counter}={value}");
        }
        self.0.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn who_connects_gets_the_counters() {
        let mut status = Status::open().expect("a socket");
        let address = status.listener.local_addr().expect("bound");
        let mut asker = UnixStream::connect_addr(&address).expect("it listens");
        status.answer(1, |report| report.line("rrcpd", "to\tthe host", &[("blocks", 7), ("dropped", 0)]));
        let mut text = String::new();
        asker.read_to_string(&mut text).expect("an answer, then the end");
        assert_eq!(text, "rrcpd\tto?the host\tblocks=7\tdropped=0\nend\n");
        for _ in 0..2 * PER_SECOND {
            let mut asker = UnixStream::connect_addr(&address).expect("it listens");
            status.answer(1, |report| report.line("rrcpd", "", &[]));
            text.clear();
            asker.read_to_string(&mut text).expect("the end");
        }
        assert_eq!(text, "", "who asks too often gets nothing");
    }
}
