//! Items of a consumer: what was asked for, and how far it is.
//!
//! | phase | stream on the server | left by |
//! |---|---|---|
//! | queued: in the queue of its service | none | the service can be used and has room in its window: requested |
//! | resting: not to be asked for before a time | none | the time: queued |
//! | requested: the first answer is awaited | open | refresh complete: live; closed for now, or no answer in time: resting |
//! | live: the whole image is in | open | closed for now: resting |
//!
//! The loss of connection or service puts every item back to queued. An item that is closed for good, or a snapshot whose image
//! is whole, is no item any more.

use rwf::Qos;
use rwf::msg::{Domain, Priority};
use rwf::rdm::request::View;

/// A consumer's request.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemRequest {
    /// Name of the service.
    pub service: String,
    /// Name of the item.
    pub name: String,
    /// The type of the name (ETA `InstrumentNameTypes`); `None` is a RIC.
    pub name_type: Option<u8>,
    /// Domain.
    pub domain: Domain,
    /// Changes are wanted after the image.
    pub streaming: bool,
    /// The stream must not be shared; it is not recovered.
    pub private: bool,
    /// The fields that are wanted. Left out for servers that know no views: all fields come then.
    pub view: Option<View>,
    /// The best acceptable quality of service.
    pub qos: Option<Qos>,
    /// The worst acceptable quality of service.
    pub worst_qos: Option<Qos>,
    /// Priority.
    pub priority: Option<Priority>,
    /// Updates are not wanted for now.
    pub paused: bool,
    /// Of a symbol list: the server is to open what the list names, if it can (`:DataStreams`); [`Event::Provided`](super::Event::Provided) tells of each.
    pub data_streams: bool,
}

impl ItemRequest {
    /// A streaming request for a market price.
    pub fn new(service: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            service: service.into(),
            name: name.into(),
            name_type: None,
            domain: Domain::MARKET_PRICE,
            streaming: true,
            private: false,
            view: None,
            qos: None,
            worst_qos: None,
            priority: None,
            paused: false,
            data_streams: false,
        }
    }
}

/// An item of a consumer, for as long as the consumer lives: ids are not used again, but for those below zero, which are of items that the server has
/// opened, and end with the connection. The id is the item's stream id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemId(pub(super) i32);

impl ItemId {
    /// The stream id that the item has on every connection.
    pub const fn stream_id(self) -> i32 {
        self.0
    }

    /// Whether the server has opened it, for a symbol list.
    pub const fn is_provided(self) -> bool {
        self.0 < 0
    }
}

/// How far an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Queued,
    Resting {
        until: u64,
    },
    /// `begun`: a part of the answer is in.
    Requested {
        deadline: u64,
        begun: bool,
    },
    Live,
}

#[derive(Debug)]
pub(super) struct Item {
    pub(super) request: ItemRequest,
    pub(super) phase: Phase,
    /// Id of the service on this connection; only while the stream is open.
    pub(super) service: u16,
    /// Group of items that share their state.
    pub(super) group: Box<[u8]>,
    /// The owner was told that the data is not current.
    pub(super) stale: bool,
}

impl Item {
    pub(super) fn new(request: ItemRequest) -> Self {
        Self { request, phase: Phase::Queued, service: 0, group: Box::default(), stale: false }
    }

    /// Whether it is asked for again when it is lost.
    pub(super) const fn is_recovered(&self, id: i32) -> bool {
        !self.request.private && id >= 0
    }

    /// Whether the server knows the stream.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Requested { .. } | Phase::Live)
    }
}
