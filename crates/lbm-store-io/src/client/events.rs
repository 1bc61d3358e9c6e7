//! Names and events of a client, as its owner has them.

use std::io;

use lbm_io::{ContextError, Events, SendError, Sources};
use lbm_store::options::StoreListError;
use lbm_store::receiver::{Delivered, Recovery, TopicEvent};
use lbm_store::source::{NotAdmitted, SourceEvent};

/// A persistent source of a [`Client`](crate::Client).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PersistentSource(pub(crate) usize);

/// A persistent receiver of a [`Client`](crate::Client).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PersistentReceiver(pub(crate) usize);

impl PersistentSource {
    /// Its place among the persistent sources of the client, which is not given again.
    pub const fn index(self) -> usize {
        self.0
    }
}

impl PersistentReceiver {
    /// Its place among the persistent receivers of the client, which is not given again.
    pub const fn index(self) -> usize {
        self.0
    }
}

/// A persistent source or receiver could not be added.
#[derive(Debug)]
pub enum AddError {
    /// The stores are not named as they have to be: the caller's fault.
    Stores(StoreListError),
    /// The reason that the context gives.
    Context(ContextError),
}

impl std::fmt::Display for AddError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stores(error) => error.fmt(f),
            Self::Context(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AddError {}

impl From<ContextError> for AddError {
    fn from(error: ContextError) -> Self {
        Self::Context(error)
    }
}

/// A message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendRefused {
    /// Too many messages are not stable, or too few stores have answered: [`SourceEvent::Writable`] tells when.
    NotAdmitted(NotAdmitted),
    /// The reason that the transport gives.
    Transport(SendError),
}

impl SendRefused {
    /// Whether waiting helps.
    pub const fn is_passing(self) -> bool {
        matches!(
            self,
            Self::Transport(SendError::WouldBlock)
                | Self::NotAdmitted(NotAdmitted::NotRegistered | NotAdmitted::FlightFull)
        )
    }
}

impl std::fmt::Display for SendRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotAdmitted(NotAdmitted::NotRegistered) => {
                f.write_str("too few stores have answered: are they running, and at these addresses?")
            }
            Self::NotAdmitted(NotAdmitted::FlightFull) => {
                f.write_str("as many messages as may be are not stable yet (ume_flight_size, ume_retention_size_limit)")
            }
            Self::NotAdmitted(NotAdmitted::Superseded) => {
                f.write_str("another program has taken up the source's registration: stop one of them")
            }
            Self::Transport(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SendRefused {}

/// Takes what happens in a [`Client`](crate::Client)'s turn. What belongs to receivers and sources without stores comes as from a
/// [`Context`](lbm_io::Context): that is what [`Events`] has. `sources` is the sending half of the context: a callback may send, on sources
/// without stores.
pub trait ClientEvents: Events {
    /// A message of a persistent receiver, in the order of its source. `source` is a number of the source among those of the topic.
    fn delivered(&mut self, sources: &mut Sources, receiver: PersistentReceiver, source: u32, message: &Delivered<'_>);

    /// Numbers that no store has, nor will have: first and count.
    fn gone(&mut self, _sources: &mut Sources, _receiver: PersistentReceiver, _source: u32, _first: u32, _count: u32) {}

    /// Recovery begins; returns the first number that is wanted: `ume_recovery_sequence_number_info_function`.
    fn recovery(&mut self, _receiver: PersistentReceiver, _source: u32, recovery: Recovery) -> u32 {
        recovery.low
    }

    /// Something of a source.
    fn source(&mut self, _sources: &mut Sources, _source: PersistentSource, _event: &SourceEvent) {}

    /// Something of a receiver.
    fn receiver(&mut self, _sources: &mut Sources, _receiver: PersistentReceiver, _event: &TopicEvent) {}
}

/// Why [`Client::send_blocking`](crate::Client::send_blocking) did not send.
#[derive(Debug)]
pub enum SendBlocked {
    /// What will not change by waiting.
    Refused(SendRefused),
    /// The client is of no use any more.
    Broken(io::Error),
}

impl std::fmt::Display for SendBlocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(refused) => refused.fmt(f),
            Self::Broken(error) => write!(f, "the client broke: {error}"),
        }
    }
}

impl std::error::Error for SendBlocked {}
