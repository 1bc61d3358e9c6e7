//! Writing messages into vectors.

use super::ids::ServiceId;
use rwf::{DecodeError, peek};

pub(crate) use hub_content::encode::{append, write_at};

/// Appends a message with the public service id in its key.
pub(crate) fn with_service(msg: &[u8], service: ServiceId, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    if !peek::rewrite_service_id(msg, service.0, out)? {
        out.extend_from_slice(msg);
    }
    Ok(())
}
