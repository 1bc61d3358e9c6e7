//! The state of a stream as a hub message carries it.

use super::{HubError, Kind};

/// Stream states (RDM usage guide; numbers as in RWF's State).
pub mod stream_state {
    /// The stream goes on.
    pub const OPEN: u8 = 1;
    /// Complete; nothing follows (snapshots).
    pub const NON_STREAMING: u8 = 2;
    /// Closed; asking again may help.
    pub const CLOSED_RECOVER: u8 = 3;
    /// Closed for good.
    pub const CLOSED: u8 = 4;
    /// Closed; it is found under another name.
    pub const REDIRECTED: u8 = 5;
}

/// Data states (RDM usage guide; numbers as in RWF's State).
pub mod data_state {
    /// As before; only code and text are news.
    pub const NO_CHANGE: u8 = 0;
    /// Current.
    pub const OK: u8 = 1;
    /// Possibly stale.
    pub const SUSPECT: u8 = 2;
}

/// Stream state, data state, state code and text. The text is as the provider wrote it (UTF-8 by the guide, not
/// checked).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State<'a> {
    /// One of [`stream_state`].
    pub stream: u8,
    /// One of [`data_state`].
    pub data: u8,
    /// A state code (ETA `StateCodes`).
    pub code: u8,
    /// What an operator reads.
    pub text: &'a [u8],
}

impl<'a> State<'a> {
    /// A state from its parts.
    pub const fn new(stream: u8, data: u8, code: u8, text: &'a [u8]) -> Self {
        Self { stream, data, code, text }
    }

    /// True for the states after which nothing more comes on the stream.
    pub const fn is_final(&self) -> bool {
        self.stream >= stream_state::CLOSED_RECOVER
    }

    /// Appends stream state, data state, code (a byte each) and the text (it is the rest of the message).
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.stream, self.data, self.code]);
        out.extend_from_slice(self.text);
    }

    pub(super) fn read(kind: Kind, body: &'a [u8]) -> Result<Self, HubError> {
        let Some((&[stream, data, code], text)) = body.split_first_chunk::<3>() else {
            return Err(HubError::Malformed { kind, what: "state" });
        };
        if !(stream_state::OPEN..=stream_state::REDIRECTED).contains(&stream) || data > data_state::SUSPECT {
            return Err(HubError::Malformed { kind, what: "state" });
        }
        Ok(Self { stream, data, code, text })
    }
}
