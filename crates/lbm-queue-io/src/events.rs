//! Events, verdicts and errors that the owner of queues deals with.

use lbm_io::{ContextError, Delivery, Events, ReceiverId, SendError, SourceId, Sources};
use lbm_queue::MessageId;
use lbm_queue::options::QueueOptionError;
use lbm_queue::receiver::ReceiverEvent;
use lbm_queue::source::{NotAdmitted, SourceEvent};
use lbm_queue::wire::IndexRef;

/// A source of a queue could not be added.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// The options are not as they have to be: the caller's fault.
    #[error(transparent)]
    Options(#[from] QueueOptionError),
    /// No application set is named: the source would be an ordinary one.
    #[error("no application set is named: source umq_ulb_application_set SET:TYPE,TYPE")]
    NoApplicationSet,
    /// The reason that the context gives.
    #[error(transparent)]
    Context(#[from] ContextError),
}

/// A message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendRefused {
    /// Too many messages are not consumed: [`SourceEvent::Writable`] tells when there is room.
    #[error("{}", match .0 {
        NotAdmitted::FlightFull => "as many messages as may be are not consumed yet (umq_ulb_flight_size): are there receivers?",
        NotAdmitted::BytesFull => "64 MB of messages are not consumed yet: are there receivers?",
    })]
    NotAdmitted(NotAdmitted),
    /// The reason that the transport gives.
    #[error(transparent)]
    Transport(#[from] SendError),
}

impl SendRefused {
    /// Whether waiting helps.
    pub const fn is_passing(self) -> bool {
        matches!(self, Self::NotAdmitted(_) | Self::Transport(SendError::WouldBlock))
    }
}

/// A message of a queue, beside its delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigned<'a> {
    /// Name of the message, for [`Queues::consumed`](crate::Queues::consumed).
    pub id: MessageId,
    /// Somebody in this application set was assigned it before, and may have consumed it.
    pub again: bool,
    /// The source's index for it.
    pub index: Option<IndexRef<'a>>,
}

/// Whether the application is done with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consumption {
    /// The application is done: the source is told.
    Done,
    /// The application will be: [`Queues::consumed`](crate::Queues::consumed) tells when.
    Later,
}

/// Takes the events of a turn. Those of sources and receivers without a queue come as from the context itself.
pub trait QueueEvents: Events {
    /// A message that is for this receiver alone, in its application set.
    fn assigned(&mut self, sources: &mut Sources, delivery: &Delivery<'_>, assigned: &Assigned<'_>) -> Consumption;

    /// Something of a source of a queue.
    fn source(&mut self, _sources: &mut Sources, _source: SourceId, _event: &SourceEvent) {}

    /// Something of a receiver of queues.
    fn receiver(&mut self, _sources: &mut Sources, _receiver: ReceiverId, _event: &ReceiverEvent) {}
}
