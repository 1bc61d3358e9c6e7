//! The state of a stream and of its data, with a code and a text.

use crate::macros::open_enum;
use crate::wire::{Reader, Writer};
use crate::{DecodeError, EncodeError};
use std::borrow::Cow;
use std::fmt;

open_enum! {
    /// State of a stream (ETA `StreamStates`; five bits on the wire).
    StreamState: u8 {
        /// Not said.
        UNSPECIFIED = 0,
        /// Open: changes follow.
        OPEN = 1,
        /// A snapshot: the stream ends with the complete refresh.
        NON_STREAMING = 2,
        /// Closed, may be opened again later.
        CLOSED_RECOVER = 3,
        /// Closed for good.
        CLOSED = 4,
        /// Closed; the message key names another stream to open.
        REDIRECTED = 5,
    }
}

impl StreamState {
    /// True if nothing more comes on the stream (closed in any of its ways).
    pub const fn is_final(self) -> bool {
        matches!(self, Self::CLOSED | Self::CLOSED_RECOVER | Self::REDIRECTED)
    }
}

open_enum! {
    /// State of the data on a stream (ETA `DataStates`; three bits on the wire).
    DataState: u8 {
        /// As it was before.
        NO_CHANGE = 0,
        /// Current.
        OK = 1,
        /// Stale, or with gaps.
        SUSPECT = 2,
    }
}

open_enum! {
    /// Why a state is what it is (ETA `StateCodes`).
    StateCode: u8 {
        /// No reason given.
        NONE = 0,
        /// The item does not exist.
        NOT_FOUND = 1,
        /// No answer in time.
        TIMEOUT = 2,
        /// The user has no right to it.
        NOT_ENTITLED = 3,
        /// The request makes no sense.
        INVALID_ARGUMENT = 4,
        /// The interface was used in a wrong way.
        USAGE_ERROR = 5,
        /// Closed in favour of something more important.
        PREEMPTED = 6,
        /// Just-in-time conflation has begun.
        JIT_CONFLATION_STARTED = 7,
        /// Conflation has ended.
        REALTIME_RESUMED = 8,
        /// The source is failing over.
        FAILOVER_STARTED = 9,
        /// The source has failed over.
        FAILOVER_COMPLETED = 10,
        /// Messages were lost.
        GAP_DETECTED = 11,
        /// A limit of the system was reached.
        NO_RESOURCES = 12,
        /// Too many items are open.
        TOO_MANY_ITEMS = 13,
        /// The item is open already.
        ALREADY_OPEN = 14,
        /// The service is not known.
        SOURCE_UNKNOWN = 15,
        /// The item is not open.
        NOT_OPEN = 16,
        /// The item never updates.
        NON_UPDATING_ITEM = 19,
        /// The type of view is not supported.
        UNSUPPORTED_VIEW_TYPE = 20,
        /// The view makes no sense.
        INVALID_VIEW = 21,
        /// The whole item is delivered, not the view that was asked for.
        FULL_VIEW_PROVIDED = 22,
        /// The items cannot be asked for in a batch.
        UNABLE_TO_REQUEST_AS_BATCH = 23,
        /// Neither batch nor view is supported in a request.
        NO_BATCH_VIEW_SUPPORT_IN_REQ = 26,
        /// The user is logged in too often.
        EXCEEDED_MAX_MOUNTS_PER_USER = 27,
        /// Internal error of the sender.
        ERROR = 28,
        /// The permission system is down.
        DACS_DOWN = 29,
        /// The permission system does not know the user.
        USER_UNKNOWN_TO_PERM_SYS = 30,
        /// The permission system counts too many logins of the user.
        DACS_MAX_LOGINS_REACHED = 31,
        /// The user may not use this application.
        DACS_USER_ACCESS_TO_APP_DENIED = 32,
        /// Data that fills a gap.
        GAP_FILL = 34,
        /// The application was refused.
        APP_AUTHORIZATION_FAILED = 35,
    }
}

/// State of a stream and its data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct State<'a> {
    /// State of the stream.
    pub stream: StreamState,
    /// State of the data.
    pub data: DataState,
    /// The reason as a number.
    pub code: StateCode,
    /// The reason for people. Mostly ASCII; at most 32,767 bytes.
    pub text: &'a [u8],
}

impl<'a> State<'a> {
    /// Open, data good, no text.
    pub const OPEN_OK: State<'static> = State::new(StreamState::OPEN, DataState::OK, StateCode::NONE, "");

    /// A state with a text.
    pub const fn new(stream: StreamState, data: DataState, code: StateCode, text: &'a str) -> Self {
        Self { stream, data, code, text: text.as_bytes() }
    }

    /// The text, with what is not UTF-8 replaced.
    pub fn text_lossy(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.text)
    }

    /// Reads the wire form: `stream<<3 | data`, code, text with a 15-bit length.
    ///
    /// # Errors
    /// Truncated.
    #[inline]
    pub fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let &[states, code] = r.array()?;
        Ok(Self {
            stream: StreamState(states >> 3),
            data: DataState(states & 7),
            code: StateCode(code),
            text: r.buf15()?,
        })
    }

    /// Writes the wire form.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::TooLong`] for the text; [`EncodeError::Unrepresentable`] for a stream
    /// state over 31 or a data state over 7.
    pub fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        if self.stream.0 > 31 || self.data.0 > 7 {
            return Err(EncodeError::Unrepresentable("state"));
        }
        w.array([self.stream.0 << 3 | self.data.0, self.code.0])?;
        w.buf15(self.text)
    }
}

impl fmt::Display for State<'_> {
    /// `OPEN/OK/NONE "text"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.stream, self.data, self.code)?;
        if self.text.is_empty() { Ok(()) } else { write!(f, " \"{}\"", self.text_lossy().escape_debug()) }
    }
}
