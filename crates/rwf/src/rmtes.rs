//! RMTES text (stub to be filled).
use std::borrow::Cow;

/// Text of RMTES bytes.
pub fn to_utf8(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
