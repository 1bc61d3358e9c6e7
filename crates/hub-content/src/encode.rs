//! Writing into vectors.

use rwf::EncodeError;
use rwf::wire::{Writer, encode_growing};

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

/// [`encode_growing`], up to the longest of all messages.
///
/// # Errors
/// As [`append`].
pub fn write_at(
    out: &mut Vec<u8>,
    start: usize,
    room: usize,
    write: impl FnMut(&mut Writer<'_>) -> Result<(), EncodeError>,
) -> Result<usize, EncodeError> {
    encode_growing(out, start, room, LONGEST, write)
}
