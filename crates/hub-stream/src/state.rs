//! The state of a stream as a hub message carries it.

use super::{HubError, Kind};
use rwf::{DataState, State, StateCode, StreamState};

/// Appends stream state, data state, code (a byte each) and the text (it is the rest of the message).
pub(super) fn write(state: &State<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&[state.stream.0, state.data.0, state.code.0]);
    out.extend_from_slice(state.text);
}

pub(super) fn read(kind: Kind, body: &[u8]) -> Result<State<'_>, HubError> {
    let Some((&[stream, data, code], text)) = body.split_first_chunk::<3>() else {
        return Err(HubError::Malformed { kind, what: "state" });
    };
    if !(StreamState::OPEN.0..=StreamState::REDIRECTED.0).contains(&stream) || data > DataState::SUSPECT.0 {
        return Err(HubError::Malformed { kind, what: "state" });
    }
    Ok(State { stream: StreamState(stream), data: DataState(data), code: StateCode(code), text })
}
