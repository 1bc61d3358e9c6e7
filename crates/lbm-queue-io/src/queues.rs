//! The state machines of queues on a context.

use std::collections::BTreeMap;
use std::collections::HashMap;

use lbm_io::options::Options;
use lbm_io::{Context, ContextError, FilteredReceiver, ReceiverId, SendError, SendFlags, SourceId, Sources};
use lbm_queue::SETS_MAX;
use lbm_queue::receiver::{Receiver, ReceiverConfig, ReceiverStats};
use lbm_queue::source::{Source, SourceConfig, SourceEvent, SourceStats};
use net::clock;

use crate::events::{AddError, SendRefused};
use crate::{Index, MessageId};

/// Counters of all queues of a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuesStats {
    /// Control messages that a transport did not take: the next ones make them good.
    pub announcements_dropped: u64,
    /// Reports for a source that could not be reached: they are made again.
    pub reports_unsent: u64,
    /// Control messages that could not be read.
    pub malformed: u64,
}

/// Sources and receivers of queues, beside the context that has them. They are named as the context names them.
#[derive(Debug, Default)]
pub struct Queues {
    pub(crate) sources: BTreeMap<SourceId, Source>,
    pub(crate) receivers: HashMap<ReceiverId, Receiver>,
    /// Streams of sources with queues: while there are none, messages are not looked at.
    pub(crate) streams: usize,
    pub(crate) happened: Vec<SourceEvent>,
    pub(crate) stats: QueuesStats,
}

impl Queues {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a source that assigns its messages, as its options say (`umq_ulb_application_set` and others).
    ///
    /// # Errors
    /// See [`AddError`].
    pub fn source(&mut self, context: &mut Context, topic: &str, options: &Options) -> Result<SourceId, AddError> {
        let config = SourceConfig::of(&options.within(context.options()))?.ok_or(AddError::NoApplicationSet)?;
        let id = context.queue_source(topic, options)?;
        let gone = || ContextError::Unsupported("the source's session is gone".to_owned());
        let (_, index, _) = context.sources().placement(id).ok_or_else(gone)?;
        let session = *context.sources().transport(id).ok_or_else(gone)?;
        let now = clock::now();
        let of = (index, session.originating_id(index));
        self.sources.insert(id, Source::new(now, index, of, config, seed(now, id.index())));
        Ok(id)
    }

    /// Adds a receiver that registers at the sources of its topic that have queues, as its options say (`umq_receiver_type_id` and others). Of
    /// other sources, and with `umq_queue_participation 0` of all, it gets everything.
    ///
    /// # Errors
    /// See [`Context::receiver`].
    pub fn receiver(
        &mut self,
        context: &mut Context,
        topic: &str,
        options: &Options,
    ) -> Result<ReceiverId, ContextError> {
        let id = context.receiver(topic, options)?;
        if let Some(config) = ReceiverConfig::of(&options.within(context.options())) {
            self.receivers.insert(id, Receiver::new(config, seed(clock::now(), id.index())));
        }
        Ok(id)
    }

    /// Ends a source. What is not consumed is lost with it: sources of queues do not outlive their programs.
    pub fn remove_source(&mut self, context: &mut Context, source: SourceId) {
        self.sources.remove(&source);
        context.remove_source(source);
    }

    /// Leaves the sources of a receiver, which assign what it has not consumed to others at once.
    pub fn remove_receiver(&mut self, context: &mut Context, receiver: ReceiverId) {
        if let Some(mut machine) = self.receivers.remove(&receiver) {
            machine.leave();
            machine.output(|stream, bytes| self.stats.reports_unsent += u64::from(!context.ask(stream, bytes)));
        }
        context.remove_receiver(receiver);
    }

    /// Whether the source is one of a queue.
    pub fn has_source(&self, source: SourceId) -> bool {
        self.sources.contains_key(&source)
    }

    /// Counters of a source.
    pub fn source_stats(&self, source: SourceId) -> Option<SourceStats> {
        self.sources.get(&source).map(Source::stats)
    }

    /// Messages of a source that are not consumed in all its application sets.
    pub fn in_flight(&self, source: SourceId) -> usize {
        self.sources.get(&source).map_or(0, Source::in_flight)
    }

    /// Receivers that are registered at a source, and how many of them are ready.
    pub fn source_receivers(&self, source: SourceId) -> (usize, usize) {
        self.sources.get(&source).map_or((0, 0), Source::receivers)
    }

    /// Counters of a receiver.
    pub fn receiver_stats(&self, receiver: ReceiverId) -> Option<ReceiverStats> {
        self.receivers.get(&receiver).map(Receiver::stats)
    }

    /// Counters of all together.
    pub fn stats(&self) -> QueuesStats {
        self.stats
    }

    /// Takes a message and sends it, if somebody can have it now. Messages of one index are for one receiver of each application set, in
    /// order. Never waits.
    ///
    /// # Errors
    /// See [`SendRefused`].
    pub fn send(
        &mut self,
        sources: &mut Sources,
        source: SourceId,
        payload: &[u8],
        index: Option<Index>,
        flags: SendFlags,
    ) -> Result<MessageId, SendRefused> {
        let machine = self.sources.get_mut(&source).ok_or(SendRefused::Transport(SendError::NoSource))?;
        let id = machine.send(sources.now(), payload, index).map_err(SendRefused::NotAdmitted)?;
        pump(machine, source, sources, flags)?;
        Ok(id)
    }

    /// The application is done with a message that it took with [`Consumption::Later`](crate::Consumption::Later).
    pub fn consumed(&mut self, receiver: ReceiverId, message: MessageId) {
        self.consumed_at(clock::now(), receiver, message);
    }

    #[inline]
    pub(crate) fn consumed_at(&mut self, now: u64, receiver: ReceiverId, message: MessageId) {
        // A receiver that was removed has given it back.
        if let Some(machine) = self.receivers.get_mut(&receiver) {
            machine.consumed(now, message);
        }
    }

    /// Whether sources may assign indices to a receiver from now on. False: there is no such receiver, or it takes no part in queuing.
    pub fn take_indices(&mut self, receiver: ReceiverId, takes: bool) -> bool {
        let machine = self.receivers.get_mut(&receiver);
        machine.map(|machine| machine.take_indices(clock::now(), takes)).is_some()
    }

    /// When [`Queues::turn`] has something to do though nothing has come, monotonic ns.
    pub fn timeout(&self) -> Option<u64> {
        let sources = self.sources.values().map(Source::timeout);
        sources.chain(self.receivers.values().filter_map(Receiver::timeout)).min()
    }
}

/// Sends what a source has, until its transport takes no more.
#[inline]
pub(crate) fn pump(
    machine: &mut Source,
    id: SourceId,
    sources: &mut Sources,
    flags: SendFlags,
) -> Result<(), SendError> {
    while let Some(transmission) = machine.to_send() {
        let (payload, flags) = (transmission.payload, flags | SendFlags::NONBLOCK);
        let mut receivers = [FilteredReceiver::of(0); SETS_MAX];
        let count = transmission.lines.len().min(SETS_MAX);
        receivers.iter_mut().zip(transmission.lines).for_each(|(to, line)| *to = FilteredReceiver::of(*line));
        let receivers = &receivers[..count];
        let sent = transmission.headers.with(|headers| sources.send_to(id, receivers, headers, payload, flags));
        match sent {
            Ok(_) => machine.transmitted(sources.now()),
            // The next turn sends it.
            Err(SendError::WouldBlock) => return Ok(()),
            Err(error) => {
                machine.give_up_next();
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Differs between programs, and between the sources and receivers of one.
fn seed(now: u64, number: usize) -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one((now, number, std::process::id()))
}
