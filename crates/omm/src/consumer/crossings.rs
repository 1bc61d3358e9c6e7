//! Streams that a server may open anew without being asked to: it has closed them, and a request that was sent before is on its way.
//!
//! A request on an open stream changes what is asked for, or asks for the image once more. If the server closes the stream meanwhile, it takes that
//! request for a new one, and serves a stream of which this side knows nothing. Its refresh says so, and is answered with a close.

use rwf::StreamState;
use rwf::msg::{Domain, MsgClass, RefreshMsg};
use std::collections::BTreeSet;

/// Streams with requests under way, on one connection.
#[derive(Debug, Default)]
pub(super) struct Crossings {
    /// Open streams on which something was asked for since their last image.
    asked: BTreeSet<i32>,
    /// Such streams that were closed since.
    closed: BTreeSet<i32>,
}

impl Crossings {
    /// Something is asked for on an open stream.
    pub(super) fn asked(&mut self, id: i32) {
        self.asked.insert(id);
    }

    /// An image has come.
    pub(super) fn answered(&mut self, id: i32) {
        self.asked.remove(&id);
    }

    /// The server has closed the stream.
    pub(super) fn closed(&mut self, id: i32) {
        if self.asked.remove(&id) {
            self.closed.insert(id);
        }
    }

    /// The stream is asked for from the beginning, or this side has closed it: the server has it as this side has.
    pub(super) fn settled(&mut self, id: i32) {
        self.asked.remove(&id);
        self.closed.remove(&id);
    }

    /// The connection is lost, and all streams with it.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// A message of a stream that is not open here. Gives the domain on which it is to be closed: the server has opened it anew.
    pub(super) fn opened(&mut self, id: i32, msg: &[u8]) -> Option<Domain> {
        if rwf::peek::class(msg) != Some(MsgClass::REFRESH) || !self.closed.remove(&id) {
            return None;
        }
        let refresh = RefreshMsg::decode(msg).ok()?;
        (refresh.state.stream == StreamState::OPEN).then_some(refresh.domain)
    }
}
