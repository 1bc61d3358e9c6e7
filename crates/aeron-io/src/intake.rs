//! From the fragments of images to messages in the ring.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use net::ring::{PushError, Writer};
use rusteron_client::AeronHeader;
use rusteron_client::bindings::aeron_controlled_fragment_handler_action_t as Action;

use crate::Event;
use crate::client::Report;

/// What a record of the ring is, in the low bits of its tag; the others are the stream's number.
const MESSAGE: u32 = 0;
const BEGIN: u32 = 1;
const END: u32 = 2;
const KIND_BITS: u32 = 2;

/// A publication that is heard by one of the subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) subscription: usize,
    pub(crate) session: i32,
}

/// The polling thread's end of the ring, with the numbers of the streams.
pub(crate) struct Intake<'a> {
    writer: Writer,
    report: &'a Report,
    /// By stream number.
    streams: Vec<Option<Source>>,
    /// Begins and ends that found the ring full; nothing is polled before they are in.
    waiting: VecDeque<(u32, Vec<u8>)>,
    /// Which subscription is being polled.
    subscription: usize,
    pushed: bool,
    /// Since when the owner has taken nothing from a full ring.
    full_since: Option<Instant>,
    /// How long the publications are held back for that; then what comes is dropped.
    patience: Duration,
}

impl<'a> Intake<'a> {
    pub(crate) fn new(writer: Writer, report: &'a Report, patience: Duration) -> Self {
        let (streams, waiting) = (Vec::new(), VecDeque::new());
        Self { writer, report, streams, waiting, subscription: 0, pushed: false, full_since: None, patience }
    }

    /// Before a subscription is polled. `false`: it is not to be.
    pub(crate) fn poll(&mut self, subscription: usize) -> bool {
        self.subscription = subscription;
        self.waiting.is_empty()
    }

    /// A message of the subscription that is polled.
    #[inline]
    pub(crate) fn message(&mut self, bytes: &[u8], header: &AeronHeader) -> Action {
        let source = header.session_id().map(|session| Source { subscription: self.subscription, session });
        let Some(stream) = source.and_then(|source| self.streams.iter().position(|s| *s == Some(source))) else {
            // The end of the message's stream was told already.
            return Action::AERON_ACTION_CONTINUE;
        };
        match self.writer.push((stream as u32) << KIND_BITS | MESSAGE, bytes) {
            Ok(()) => (self.pushed, self.full_since) = (true, None),
            Err(PushError::Full) => return self.full(),
            Err(PushError::TooLong) => self.report.warn(format!("a message of {} bytes is dropped", bytes.len())),
        }
        Action::AERON_ACTION_CONTINUE
    }

    /// The owner does not read. It holds the publications back, and everybody else with them, as long as patience lasts.
    #[cold]
    fn full(&mut self) -> Action {
        let Some(since) = self.full_since else {
            self.full_since = Some(Instant::now());
            self.report.held.fetch_add(1, Relaxed);
            return Action::AERON_ACTION_ABORT;
        };
        if since.elapsed() < self.patience {
            return Action::AERON_ACTION_ABORT;
        }
        self.report.dropped.fetch_add(1, Relaxed);
        Action::AERON_ACTION_CONTINUE
    }

    pub(crate) fn begin(&mut self, source: Source, from: &str) {
        let free = self.streams.iter().position(Option::is_none).unwrap_or(self.streams.len());
        if free == self.streams.len() {
            self.streams.push(None);
        }
        self.streams[free] = Some(source);
        self.report.images.fetch_add(1, Relaxed);
        let mut record = source.session.to_ne_bytes().to_vec();
        record.extend_from_slice(from.as_bytes());
        self.put((free as u32) << KIND_BITS | BEGIN, record);
    }

    pub(crate) fn end(&mut self, source: Source, why: &str) {
        let Some(stream) = self.streams.iter().position(|s| *s == Some(source)) else { return };
        self.streams[stream] = None;
        self.report.images_ended.fetch_add(1, Relaxed);
        self.put((stream as u32) << KIND_BITS | END, why.as_bytes().to_vec());
    }

    /// Ends every stream.
    pub(crate) fn end_all(&mut self, why: &str) {
        let all: Vec<Source> = self.streams.iter().flatten().copied().collect();
        for source in all {
            self.end(source, why);
        }
    }

    fn put(&mut self, tag: u32, record: Vec<u8>) {
        self.waiting.push_back((tag, record));
        self.flush();
    }

    fn flush(&mut self) {
        while let Some((tag, record)) = self.waiting.front() {
            if self.writer.push(*tag, record).is_err() {
                break;
            }
            self.pushed = true;
            self.waiting.pop_front();
        }
    }

    /// Lets the owner have what has come. `false`: there was nothing.
    pub(crate) fn publish(&mut self) -> bool {
        if !self.waiting.is_empty() {
            self.flush();
        }
        let pushed = std::mem::take(&mut self.pushed);
        if pushed {
            self.writer.publish();
        }
        pushed
    }
}

/// What a record of the ring says.
#[inline]
pub(crate) fn event(tag: u32, record: &[u8]) -> Option<Event<'_>> {
    let stream = (tag >> KIND_BITS) as usize;
    match tag & ((1 << KIND_BITS) - 1) {
        MESSAGE => Some(Event::Message { stream, bytes: record }),
        BEGIN => {
            let (session, from) = record.split_first_chunk::<4>()?;
            let from = std::str::from_utf8(from).ok()?;
            Some(Event::Begin { stream, session: i32::from_ne_bytes(*session), from })
        }
        _ => Some(Event::End { stream, why: std::str::from_utf8(record).ok()? }),
    }
}
