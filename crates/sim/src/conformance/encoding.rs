//! Messages as bytes.

use rwf::EncodeError;
use rwf::wire::Writer;

/// Encodes into bytes of their own.
pub(super) fn bytes_of(encode: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Result<Vec<u8>, String> {
    let mut buf = vec![0; 60_000];
    let mut w = Writer::new(&mut buf);
    encode(&mut w).map_err(|error| format!("cannot be encoded: {error}"))?;
    Ok(w.into_written().to_vec())
}
