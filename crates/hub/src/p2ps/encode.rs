//! Writing messages into vectors.

use super::ids::ServiceId;
use rwf::wire::Writer;
use rwf::{DecodeError, EncodeError, peek};

/// Nothing that a P2PS writes is longer.
const LONGEST: usize = 64 << 20;

/// Appends what `write` writes to `out`, making room until it fits. `out` is unchanged on failure.
pub(crate) fn append(
    out: &mut Vec<u8>,
    room: usize,
    mut write: impl FnMut(&mut Writer<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = out.len();
    let mut room = room.max(64);
    loop {
        out.resize(start + room, 0);
        let mut w = Writer::new(&mut out[start..]);
        match write(&mut w) {
            Ok(()) => {
                let written = w.position();
                out.truncate(start + written);
                return Ok(());
            }
            Err(EncodeError::BufferFull) if room < LONGEST => room *= 2,
            Err(error) => {
                out.truncate(start);
                return Err(error);
            }
        }
    }
}

/// Appends a message with the public service id in its key.
pub(crate) fn with_service(msg: &[u8], service: ServiceId, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    if !peek::rewrite_service_id(msg, service.0, out)? {
        out.extend_from_slice(msg);
    }
    Ok(())
}
