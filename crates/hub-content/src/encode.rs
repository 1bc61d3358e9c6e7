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
    write: impl FnMut(&mut Writer<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = out.len();
    let end = write_at(out, start, room, write);
    out.truncate(*end.as_ref().unwrap_or(&start));
    end.map(drop)
}

/// Writes what `write` writes from `start` on over what is there, making room until it fits. Gives the end of it; what is behind means
/// nothing. For buffers that are used again and again: nothing is filled with zeros but what is new of them.
///
/// # Errors
/// As [`append`].
pub fn write_at(
    out: &mut Vec<u8>,
    start: usize,
    room: usize,
    mut write: impl FnMut(&mut Writer<'_>) -> Result<(), EncodeError>,
) -> Result<usize, EncodeError> {
    let mut room = room.max(64);
    loop {
        if out.len() < start + room {
            out.resize(start + room, 0);
        }
        let mut w = Writer::new(&mut out[start..start + room]);
        match write(&mut w) {
            Ok(()) => return Ok(start + w.position()),
            Err(EncodeError::BufferFull) if room < LONGEST => room *= 2,
            Err(error) => return Err(error),
        }
    }
}
