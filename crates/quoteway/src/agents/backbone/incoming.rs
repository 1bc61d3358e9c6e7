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
}

/// Whose a stream is.
#[derive(Clone, Copy)]
struct Known {
    source: usize,
    incarnation: u32,
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
        Ok(Self { context, streams: Vec::new(), is_local: config.transport == HubTransport::LbtIpc })
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
        let Self { context, streams, is_local } = self;
        context.poll(Some(Duration::ZERO), &mut Inbox { now, streams, is_local: *is_local, links, to })?;
        options::log_warnings(context);
        Ok(())
    }
}

struct Inbox<'a, B> {
    now: u64,
    streams: &'a mut Vec<Option<Known>>,
    is_local: bool,
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
        let stream = stream.number as usize;
        let (incarnation, bytes) = hub::stream::announcement(block)?;
        let announcement = Announcement::decode(bytes)?;
        let source = self.links.announced(self.now, incarnation, &announcement, self.to)?;
        if self.streams.len() <= stream {
            self.streams.resize(stream + 1, None);
        }
        let known = Known { source, incarnation };
        self.streams[stream] = Some(known);
        Some(known)
    }
}

impl<B: Blocks> Events for Inbox<'_, B> {
    #[inline]
    fn message(&mut self, _: &mut Sources, delivery: &Delivery<'_>) {
        let block = delivery.payload;
        let stream = delivery.stream.number as usize;
        let incarnation = hub::stream::incarnation(block);
        let known = self.streams.get(stream).copied().flatten();
        let known = known.filter(|k| Some(k.incarnation) == incarnation && !self.links.is_idle(k.source));
        match known.or_else(|| self.identify(&delivery.stream, block)) {
            Some(known) => self.links.data_block(self.now, known.source, block, self.to),
            None => self.links.unknown_block(),
        }
    }

    fn end(&mut self, _: &mut Sources, stream: &Stream<'_>, reason: EndReason) {
        if let Some(known) = self.streams.get_mut(stream.number as usize) {
            *known = None;
        }
        tracing::info!("the data stream on {} has ended: {reason:?}", stream.transport);
    }
}
