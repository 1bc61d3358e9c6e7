//! Streams of raw Marketfeed: who reads them, and hands them to the source.

use anyhow::anyhow;
use feed::records::Arrival;
use net::Waker;
use std::fs::File;
use std::io::{self, Read};
use std::net::TcpStream;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Where records come from as they happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A server that sends them to whoever connects: `HOST:PORT`.
    Server(String),
    /// A named pipe that somebody writes them to.
    Pipe(PathBuf),
}

/// Parts that wait to be told; beyond these the reader waits, and with it whoever sends.
const PARTS_MAX: usize = 64;
/// Bytes of a part, at most.
const PART: usize = 64 << 10;
/// Between two attempts.
const RETRY: Duration = Duration::from_secs(1);

impl Origin {
    /// The stream that `-Q` names: `tcp:HOST:PORT`, or a pipe. `None` for what is no stream.
    pub(super) fn of(path: &Path) -> Option<Self> {
        if let Some(server) = path.to_str().and_then(|text| text.strip_prefix("tcp:")) {
            return Some(Self::Server(server.trim_start_matches('/').to_owned()));
        }
        let is_pipe = path.metadata().is_ok_and(|facts| facts.file_type().is_fifo());
        is_pipe.then(|| Self::Pipe(path.to_owned()))
    }

    /// Reads until nobody wants the records any more, in a thread of its own, and begins again after each end. `waker` is woken for
    /// each part.
    ///
    /// # Errors
    /// There is no thread.
    pub(super) fn read(self, waker: Waker) -> anyhow::Result<Receiver<Arrival>> {
        let (sender, receiver) = sync_channel(PARTS_MAX);
        std::thread::Builder::new()
            .name("records".to_owned())
            .spawn(move || {
                while self.read_once(&sender, &waker) {
                    std::thread::sleep(RETRY);
                }
            })
            .map_err(|e| anyhow!("no thread to read records: {e}"))?;
        Ok(receiver)
    }

    /// Reads to the end; false when nobody wants more.
    fn read_once(&self, sender: &SyncSender<Arrival>, waker: &Waker) -> bool {
        let result = match self {
            Self::Server(server) => TcpStream::connect(server).and_then(|stream| hand_over(stream, sender, waker)),
            // To open a pipe waits for one who writes.
            Self::Pipe(path) => File::open(path).and_then(|pipe| hand_over(pipe, sender, waker)),
        };
        let why = match result {
            Ok(true) => "the records have ended".to_owned(),
            Ok(false) => return false,
            Err(e) => e.to_string(),
        };
        eprintln!("{}", net::plain::escaped(&format!("{self}: {why}; trying again")));
        let is_wanted = sender.send(Arrival::Lost(format!("no records: {why}"))).is_ok();
        waker.wake();
        is_wanted
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Server(server) => f.write_str(server),
            Self::Pipe(path) => path.display().fmt(f),
        }
    }
}

/// Hands over until the end; false when nobody wants more.
fn hand_over(mut from: impl Read, sender: &SyncSender<Arrival>, waker: &Waker) -> io::Result<bool> {
    let mut part = vec![0; PART];
    loop {
        match from.read(&mut part) {
            Ok(0) => return Ok(true),
            Ok(len) => {
                if sender.send(Arrival::Bytes(part[..len].to_vec())).is_err() {
                    return Ok(false);
                }
                waker.wake();
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
