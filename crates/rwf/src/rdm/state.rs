//! What a state means to a consumer with its own policy of recovery.
//!
//! The states themselves, their numbers and names, are [`StreamState`], [`DataState`] and [`StateCode`].

pub use crate::{DataState, State, StateCode, StreamState};

/// Who recovers a stream, and whether stale data may be shown: the two attributes of a consumer's login that say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// `SingleOpen`: the server recovers; a stream that it will recover stays open, Suspect meanwhile.
    pub single_open: bool,
    /// `AllowSuspectData`: a stream may stay open while its data is Suspect.
    pub allow_suspect_data: bool,
}

impl Default for Recovery {
    /// Both on, which is what a login without these elements asks for.
    fn default() -> Self {
        Self { single_open: true, allow_suspect_data: true }
    }
}

impl Recovery {
    /// The state to send to a consumer in place of the actual one (RDM usage guide, table of `SingleOpen` and
    /// `AllowSuspectData`; `SingleOpen` goes before `AllowSuspectData` where they contradict each other).
    ///
    /// | actual | single open | suspect allowed | neither |
    /// |---|---|---|---|
    /// | Open, Suspect | as it is | as it is | `ClosedRecover`, Suspect |
    /// | `ClosedRecover` | Open, Suspect | as it is | as it is |
    /// | any other | as it is | as it is | as it is |
    ///
    /// The other rows of that table follow from these: a request that cannot be served now (service down, not accepting
    /// requests) and a connection that is lost are [`Recovery::unavailable`]; a request that can be served has the state
    /// of its item.
    #[must_use]
    pub fn apply<'a>(&self, actual: State<'a>) -> State<'a> {
        let (stream, data) = match (actual.stream, actual.data) {
            (StreamState::CLOSED_RECOVER, _) if self.single_open => (StreamState::OPEN, DataState::SUSPECT),
            (StreamState::OPEN, DataState::SUSPECT) if !self.single_open && !self.allow_suspect_data => {
                (StreamState::CLOSED_RECOVER, DataState::SUSPECT)
            }
            as_it_is => as_it_is,
        };
        State { stream, data, ..actual }
    }

    /// The state of a stream that has no source now but may have one later.
    #[must_use]
    pub fn unavailable<'a>(&self, code: StateCode, text: &'a str) -> State<'a> {
        self.apply(State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, code, text))
    }
}

/// A state that owns its text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateBuf {
    /// State of the stream.
    pub stream: StreamState,
    /// State of the data.
    pub data: DataState,
    /// The reason as a number.
    pub code: StateCode,
    /// The reason for people.
    pub text: Vec<u8>,
}

impl StateBuf {
    /// The borrowed form, which messages carry.
    pub fn as_state(&self) -> State<'_> {
        State { stream: self.stream, data: self.data, code: self.code, text: &self.text }
    }
}

impl From<State<'_>> for StateBuf {
    fn from(state: State<'_>) -> Self {
        Self { stream: state.stream, data: state.data, code: state.code, text: state.text.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: StreamState = StreamState::OPEN;
    const RECOVER: StreamState = StreamState::CLOSED_RECOVER;

    fn sent(
        single_open: bool,
        allow_suspect_data: bool,
        stream: StreamState,
        data: DataState,
    ) -> (StreamState, DataState) {
        let state =
            Recovery { single_open, allow_suspect_data }.apply(State::new(stream, data, StateCode::NONE, "text"));
        assert_eq!(state.text, b"text");
        (state.stream, state.data)
    }

    #[test]
    fn each_row_of_the_table() {
        let suspect = DataState::SUSPECT;
        let columns = [(true, true), (true, false), (false, true), (false, false)];
        let rows =
            [((OPEN, suspect), [OPEN, OPEN, OPEN, RECOVER]), ((RECOVER, suspect), [OPEN, OPEN, RECOVER, RECOVER])];
        for ((stream, data), expected) in rows {
            for ((single_open, allow), expected) in columns.into_iter().zip(expected) {
                assert_eq!(
                    sent(single_open, allow, stream, data),
                    (expected, suspect),
                    "{single_open} {allow} {stream}"
                );
            }
        }
        for (single_open, allow) in columns {
            for stream in [OPEN, StreamState::NON_STREAMING, StreamState::CLOSED, StreamState::REDIRECTED] {
                for data in [DataState::OK, DataState::NO_CHANGE] {
                    assert_eq!(sent(single_open, allow, stream, data), (stream, data));
                }
            }
            assert_eq!(sent(single_open, allow, StreamState::CLOSED, suspect), (StreamState::CLOSED, suspect));
        }
    }

    #[test]
    fn a_service_that_is_down() {
        let state =
            Recovery { single_open: false, allow_suspect_data: true }.unavailable(StateCode::SOURCE_UNKNOWN, "down");
        assert_eq!((state.stream, state.data, state.code), (RECOVER, DataState::SUSPECT, StateCode::SOURCE_UNKNOWN));
        assert_eq!(Recovery::default().unavailable(StateCode::NONE, "").stream, OPEN);
    }
}
