//! The data streams of Source Distributors over LBM or Aeron: one topic, a stream for each source of it.
//!
//! A stream is known to be a Source Distributor's from the first heartbeat in it, which says who sends it and where it can be
//! joined. From then on its blocks are handed on as they come, borrowed from the receive buffer.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use config::{Config, HubTransport};
use lbm_io::{Context, Delivery, EndReason, Events, Sources, Stream};

use super::announcement::Announcement;
use super::links::{Blocks, Links};
use super::trust::Session;
use super::{aeron, options};

/// Aeron's events that are taken in a turn.
const TURN: usize = 4_096;

/// The receiving end. See the module's description.
pub(crate) struct Incoming {
    carrier: Carrier,
    streams: Streams,
}

enum Carrier {
    Lbm(Box<Context>),
    Aeron(Images),
}

/// Streams that come over Aeron.
struct Images {
    subscriptions: aeron_io::Subscriptions,
    hub: String,
    /// By stream number.
    sessions: Vec<Option<Session>>,
    /// There is more, though the descriptor is quiet.
    more: bool,
}

/// Whose the streams are.
struct Streams {
    /// By stream number.
    known: Vec<Option<Known>>,
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
    /// The LBM options are wrong, the operating system refuses a socket, or Aeron is not built in.
    pub(crate) fn new(config: &Config) -> io::Result<Self> {
        let c = &config.hub;
        let carrier = if c.transport == HubTransport::Aeron {
            let subscriptions = aeron_io::Subscriptions::new(&aeron::settings(config)?).map_err(aeron::failed)?;
            Carrier::Aeron(Images { subscriptions, hub: c.name.clone(), sessions: Vec::new(), more: false })
        } else {
            let options = options::of(c)?;
            let mut context = Context::new(&options).map_err(options::failed)?;
            for topic in options::topics_heard(c) {
                context.receiver(&topic, &options).map_err(options::failed)?;
            }
            options::log_warnings(&mut context);
            Carrier::Lbm(Box::new(context))
        };
        let silence = u64::from(c.heartbeat_interval_ms) * 2_000_000;
        let is_local = c.transport == HubTransport::LbtIpc;
        Ok(Self { carrier, streams: Streams { known: Vec::new(), is_local, silence } })
    }

    /// When [`Incoming::turn`] wants to be called though the descriptor is quiet.
    pub(crate) fn timeout(&mut self) -> Option<u64> {
        match &mut self.carrier {
            Carrier::Lbm(context) => context.timeout(),
            Carrier::Aeron(images) => images.more.then_some(0),
        }
    }

    /// Aeron's counters.
    pub(crate) fn aeron(&self) -> Option<aeron::Counters> {
        match &self.carrier {
            Carrier::Lbm(_) => None,
            Carrier::Aeron(images) => Some(images.subscriptions.counters().into()),
        }
    }

    /// Takes in what there is.
    pub(crate) fn turn(&mut self, now: u64, links: &mut Links, to: &mut impl Blocks) -> io::Result<()> {
        let mut input = Input { now, streams: &mut self.streams, links, to };
        match &mut self.carrier {
            Carrier::Lbm(context) => {
                context.poll(Some(Duration::ZERO), &mut input)?;
                options::log_warnings(context);
            }
            Carrier::Aeron(images) => images.turn(&mut input),
        }
        Ok(())
    }
}

impl AsFd for Incoming {
    /// The descriptors for the owner's set.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.carrier {
            Carrier::Lbm(context) => context.as_fd(),
            Carrier::Aeron(images) => images.subscriptions.as_fd(),
        }
    }
}

impl Images {
    fn turn(&mut self, input: &mut Input<'_, impl Blocks>) {
        let Self { subscriptions, hub, sessions, more } = self;
        *more = subscriptions.read(TURN, |event| match event {
            aeron_io::Event::Message { stream, bytes } => {
                input.block(stream, bytes, || sessions.get(stream).cloned().flatten());
            }
            aeron_io::Event::Begin { stream, session, from } => {
                if sessions.len() <= stream {
                    sessions.resize(stream + 1, None);
                }
                sessions[stream] = Some(Session { name: aeron::session(hub, session), from: aeron::address(from) });
            }
            aeron_io::Event::End { stream, why } => {
                let Some(session) = sessions.get_mut(stream).and_then(Option::take) else { return };
                input.ended(stream);
                tracing::info!("the data stream on {session} has ended: {why}");
            }
        });
        for warning in subscriptions.warnings() {
            tracing::warn!("{warning}");
        }
    }
}

struct Input<'a, B> {
    now: u64,
    streams: &'a mut Streams,
    links: &'a mut Links,
    to: &'a mut B,
}

impl<B: Blocks> Input<'_, B> {
    /// A block of a stream; `session` is asked for while it is not known whose the stream is.
    #[inline]
    fn block(&mut self, stream: usize, block: &[u8], session: impl FnOnce() -> Option<Session>) {
        let incarnation = hub::stream::incarnation(block);
        let known = match self.streams.known.get_mut(stream) {
            Some(Some(known)) if Some(known.incarnation) == incarnation && !self.links.is_idle(known.source) => {
                known.heard_at = self.now;
                Some(*known)
            }
            _ => session().and_then(|session| self.identify(stream, &session, block)),
        };
        match known {
            Some(known) => self.links.data_block(self.now, (known.source, known.incarnation), block, self.to),
            None => self.links.unknown_block(),
        }
    }

    /// A stream has ended.
    fn ended(&mut self, stream: usize) {
        if let Some(known) = self.streams.known.get_mut(stream).and_then(Option::take) {
            self.links.stream_ended(self.now, known.source, known.incarnation, self.to);
        }
    }

    /// Finds out from a block whose stream this is.
    #[cold]
    fn identify(&mut self, number: usize, session: &Session, block: &[u8]) -> Option<Known> {
        let (incarnation, bytes) = hub::stream::announcement(block)?;
        let announcement = Announcement::decode(bytes)?;
        let source = self.links.announced(self.now, incarnation, &announcement, session)?;
        // A stream that says to be the one of a source whose own comes in is a copy at best.
        let lives = |known: &Known| {
            known.source == source
                && known.incarnation == incarnation
                && self.now.saturating_sub(known.heard_at) < self.streams.silence
        };
        let known = &mut self.streams.known;
        if known.iter().enumerate().any(|(other, k)| other != number && k.as_ref().is_some_and(lives)) {
            return None;
        }
        if known.len() <= number {
            known.resize(number + 1, None);
        }
        // The source has one stream at a time.
        for other in known.iter_mut().filter(|k| k.is_some_and(|k| k.source == source)) {
            *other = None;
        }
        let one = Known { source, incarnation, heard_at: self.now };
        known[number] = Some(one);
        Some(one)
    }
}

impl<B: Blocks> Events for Input<'_, B> {
    #[inline]
    fn message(&mut self, _: &mut Sources, delivery: &Delivery<'_>) {
        let (transport, is_local) = (delivery.stream.transport, self.streams.is_local);
        let listened_to = || matches!(transport, lbm_io::Transport::Lbtipc { .. }) == is_local;
        let session = || listened_to().then(|| Session::from(transport));
        self.block(delivery.stream.number as usize, delivery.payload, session);
    }

    fn end(&mut self, _: &mut Sources, stream: &Stream<'_>, reason: EndReason) {
        let number = stream.number as usize;
        // Where the sender only begins its session anew, the stream goes on, with a gap.
        if reason == EndReason::Restart {
            self.streams.known.get_mut(number).and_then(Option::take);
        } else {
            self.ended(number);
        }
        tracing::info!("the data stream on {} has ended: {reason}", stream.transport);
    }
}
