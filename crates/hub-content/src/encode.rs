//! Writing into vectors.

use rwf::EncodeError;
use rwf::wire::Writer;

/// Nothing that is written here is longer.
const LONGEST: usize = 64 << 20;

/// Appends what `write` writes to `out`, making room until it fits. `out` is unchanged on failure.
///
/// # Errors
/// What `write` says, once more room than any message takes has not helped.
pub fn append(
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
