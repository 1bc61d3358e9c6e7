//! A connection of HTTP that is given up when what is sent to it is not taken: a bounded time, and more of it for what was taken.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::places::Place;

/// How long an answer may wait to be taken, beside the time that its bytes have earned.
pub(super) const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that earn a second: who takes less in one is no reader.
const BYTES_A_SECOND: u64 = 64 << 10;

/// The stream of a connection.
pub(super) struct Paced<S> {
    stream: S,
    place: Arc<Place>,
    patience: Duration,
    /// Bytes of this answer that were taken.
    taken: u64,
    /// When the first of them waited.
    since: Option<Instant>,
    /// Ends the wait.
    deadline: Pin<Box<Sleep>>,
}

impl<S> Paced<S> {
    pub(super) fn new(stream: S, place: Arc<Place>, patience: Duration) -> Self {
        let deadline = Box::pin(sleep_until(Instant::now()));
        Self { stream, place, patience, taken: 0, since: None, deadline }
    }

    /// The result of an attempt to write: a wait that is too long is an error.
    fn written(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match outcome {
            Poll::Ready(Ok(bytes)) => {
                if self.since.is_some() {
                    self.taken += bytes as u64;
                }
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(e)) => Poll::Ready(Err(e)),
            Poll::Pending => {
                let since = *self.since.get_or_insert_with(Instant::now);
                self.place.stands_still();
                let earned = Duration::from_millis(self.taken.saturating_mul(1_000) / BYTES_A_SECOND);
                self.deadline.as_mut().reset(since + self.patience + earned);
                ready!(self.deadline.as_mut().poll(cx));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "its answer is not taken")))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.written(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.written(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when nothing waits any more: the kernel has the answer, and the next one begins anew.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        (self.since, self.taken) = (None, 0);
        self.place.is_flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Read as _;

    use tokio::net::UnixStream;

    use super::super::places::{Bounds, Places, Whose};
    use super::*;

    #[test]
    fn who_takes_nothing_is_given_up_and_who_takes_slowly_earns_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let bounds = Bounds { connections: 4, answers: 4, answers_per_address: 4, answer_bytes: 4 };
            let place = Places::new(bounds).enter(Whose::Socket).expect("a place");
            let (here, mut there) = std::os::unix::net::UnixStream::pair().expect("a pair");
            here.set_nonblocking(true).expect("set");
            let here = UnixStream::from_std(here).expect("a runtime");
            let patience = Duration::from_millis(200);
            let mut paced = Paced::new(here, place, patience);
            let bytes = vec![7; 1 << 16];
            let begun = Instant::now();
            // The reader takes a part, before its time is over, and nothing of what follows.
            let reader = std::thread::spawn(move || {
                std::thread::sleep(patience / 4);
                there.read_exact(&mut vec![0; 256 << 10]).map(|()| there)
            });
            let mut sent = 0;
            let e = loop {
                match poll_fn(|cx| Pin::new(&mut paced).poll_write(cx, &bytes)).await {
                    Ok(count) => sent += count,
                    Err(e) => break e,
                }
            };
            let _there = reader.join().expect("no panic").expect("it was sent");
            assert_eq!(e.kind(), io::ErrorKind::TimedOut);
            assert!(sent > 256 << 10 && begun.elapsed() > 2 * patience, "{sent} bytes in {:?}", begun.elapsed());
        });
    }
}
