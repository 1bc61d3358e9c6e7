//! Encoding into a buffer that grows until the message fits.

use super::Writer;
use crate::EncodeError;

/// Runs `encode` on the bytes of `out` from `start` on, over what is there: on `room` of them, and as long as they do not suffice once
/// more on twice as many. Gives the end of what was written; the bytes behind it mean nothing. A buffer that is used again and again
/// is filled with zeros only where it grows.
///
/// # Errors
/// What `encode` says; [`BufferFull`](EncodeError::BufferFull) once `limit` bytes of room have not sufficed.
pub fn encode_growing(
    out: &mut Vec<u8>,
    start: usize,
    room: usize,
    limit: usize,
    mut encode: impl FnMut(&mut Writer<'_>) -> Result<(), EncodeError>,
) -> Result<usize, EncodeError> {
    let mut end = start + room.max(64);
    loop {
        out.resize(out.len().max(end), 0);
        let mut w = Writer::new(&mut out[start..end]);
        match encode(&mut w) {
            Err(EncodeError::BufferFull) if end - start < limit => end += end - start,
            result => return result.map(|()| start + w.position()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_doubles_until_it_suffices_and_what_lies_before_stays() {
        let (mut out, mut tries) = (b"head".to_vec(), Vec::new());
        let end = encode_growing(&mut out, 4, 100, 1_000, |w| {
            tries.push(w.remaining());
            w.bytes(&[7; 300])
        });
        assert_eq!((end, tries), (Ok(304), vec![100, 200, 400]));
        assert!(out.starts_with(b"head") && out[4..304].iter().all(|byte| *byte == 7));
        // A second message finds the room that the first one has made, and takes no more of it than it asks for.
        let end = encode_growing(&mut out, 4, 0, 1_000, |w| {
            assert_eq!(w.remaining(), 64);
            w.bytes(b"short")
        });
        assert_eq!((end, &out[4..9], out.len()), (Ok(9), b"short".as_slice(), 404));
    }

    #[test]
    fn at_the_limit_the_error_is_the_callers() {
        let (mut out, mut tries) = (Vec::new(), 0);
        let full = encode_growing(&mut out, 0, 64, 200, |w| {
            tries += 1;
            w.bytes(&[0; 999])
        });
        assert_eq!((full, tries), (Err(EncodeError::BufferFull), 3));
        let never = encode_growing(&mut out, 0, 64, 200, |_| Err(EncodeError::Unrepresentable("this")));
        assert_eq!(never, Err(EncodeError::Unrepresentable("this")));
    }
}
