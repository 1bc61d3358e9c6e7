//! Messages as bytes.

use rwf::EncodeError;
use rwf::wire::Writer;

/// Encodes into bytes of their own.
///
/// # Errors
/// The message cannot be encoded, or is longer than 60,000 bytes.
pub fn bytes_of(encode: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Result<Vec<u8>, String> {
    let mut buf = vec![0; 60_000];
    let mut w = Writer::new(&mut buf);
    encode(&mut w).map_err(|error| format!("cannot be encoded: {error}"))?;
    Ok(w.into_written().to_vec())
}
