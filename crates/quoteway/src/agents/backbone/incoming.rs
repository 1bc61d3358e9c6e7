//! The data streams of Source Distributors over LBM: one topic, a stream for each source of it.
//!
//! A stream is known to be a Source Distributor's from the first heartbeat in it, which says who sends it and where it can be
//! joined. From then on its blocks are handed on as they come, borrowed from the receive buffer.

use std::io;
use std::time::Duration;

use lbm_io::{Context, Delivery, EndReason, Events, Sources, Stream, Transport};

use super::announcement::Announcement;
use super::links::{Blocks, Links};
use super::options;
use crate::config::{self, HubTransport};

/// The receiving end. See the module's description.
pub(super) struct Incoming {
    context: Context,
    /// By stream number.
    streams: Vec<Option<Known>>,
    /// Streams come through shared memory, and others are not listened to: `rrcpd` carries them.
    is_local: bool,
    /// A stream that was silent for so long gives way to another of the same source, ns.
    silence: u64,
}

/// Whose a stream is.
#[derive(Clone, Copy)]
struct Known {
    source: usize,
    incarnation: u32,
    heard_at: u64,
}

impl Incoming {
    /// Listens for the streams of a hub.
    ///
    /// # Errors
    /// The LBM options are wrong, or the operating system refuses a socket.
    pub(super) fn new(config: &config::Hub) -> io::Result<Self> {
        let options = options::of(config)?;
        let mut context = Context::new(&options).map_err(options::failed)?;
        for topic in options::topics_heard(config) {
            context.receiver(&topic, &options).map_err(options::failed)?;
        }
        options::log_warnings(&mut context);
        let silence = u64::from(config.heartbeat_interval_ms) * 2_000_000;
        Ok(Self { context, streams: Vec::new(), is_local: config.transport == HubTransport::LbtIpc, silence })
    }

    /// What the owner's set watches.
    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// When [`Incoming::turn`] wants to be called though the descriptor is quiet.
    pub(super) fn timeout(&mut self) -> Option<u64> {
        self.context.timeout()
    }

    /// Takes in what there is.
    pub(super) fn turn(&mut self, now: u64, links: &mut Links, to: &mut impl Blocks) -> io::Result<()> {
        let Self { context, streams, is_local, silence } = self;
        let mut inbox = Inbox { now, streams, is_local: *is_local, silence: *silence, links, to };
        context.poll(Some(Duration::ZERO), &mut inbox)?;
        options::log_warnings(context);
        Ok(())
    }
}

struct Inbox<'a, B> {
    now: u64,
    streams: &'a mut Vec<Option<Known>>,
    is_local: bool,
    silence: u64,
    links: &'a mut Links,
    to: &'a mut B,
}

impl<B: Blocks> Inbox<'_, B> {
    /// Finds out from a block whose stream this is.
    #[cold]
    fn identify(&mut self, stream: &Stream<'_>, block: &[u8]) -> Option<Known> {
        if matches!(stream.transport, Transport::Lbtipc { .. }) != self.is_local {
            return None;
        }
        let (incarnation, bytes) = hub::stream::announcement(block)?;
        let announcement = Announcement::decode(bytes)?;
        let source = self.links.announced(self.now, incarnation, &announcement, stream.transport)?;
        let number = stream.number as usize;
        // A stream that says to be the one of a source whose own comes in is a copy at best.
        let lives = |known: &Known| {
            known.source == source
                && known.incarnation == incarnation
                && self.now.saturating_sub(known.heard_at) < self.silence
        };
        if self.streams.iter().enumerate().any(|(other, k)| other != number && k.as_ref().is_some_and(lives)) {
            return None;
        }
        if self.streams.len() <= number {
            self.streams.resize(number + 1, None);
        }
        // The source has one stream at a time.
        for other in self.streams.iter_mut().filter(|k| k.is_some_and(|k| k.source == source)) {
            *other = None;
        }
        let known = Known { source, incarnation, heard_at: self.now };
        self.streams[number] = Some(known);
        Some(known)
    }
}

impl<B: Blocks> Events for Inbox<'_, B> {
    #[inline]
    fn message(&mut self, _: &mut Sources, delivery: &Delivery<'_>) {
        let block = delivery.payload;
        let stream = delivery.stream.number as usize;
        let incarnation = hub::stream::incarnation(block);
        let known = match self.streams.get_mut(stream) {
            Some(Some(known)) if Some(known.incarnation) == incarnation && !self.links.is_idle(known.source) => {
                known.heard_at = self.now;
                Some(*known)
            }
            _ => self.identify(&delivery.stream, block),
        };
        match known {
            Some(known) => self.links.data_block(self.now, (known.source, known.incarnation), block, self.to),
            None => self.links.unknown_block(),
        }
    }

    fn end(&mut self, _: &mut Sources, stream: &Stream<'_>, reason: EndReason) {
        let known = self.streams.get_mut(stream.number as usize).and_then(Option::take);
        // Where the sender only begins its session anew, the stream goes on, with a gap.
        if let Some(known) = known.filter(|_| reason != EndReason::Restart) {
            self.links.stream_ended(self.now, known.source, known.incarnation, self.to);
        }
        tracing::info!("the data stream on {} has ended: {reason}", stream.transport);
    }
}
