//! Writing RWF messages into a buffer that is used again.

use crate::Counters;
use rwf::EncodeError;
use rwf::wire::{Writer, encode_growing};

/// Largest message that is composed here.
const MAX_MESSAGE: usize = 64 << 20;

/// A buffer for one message.
#[derive(Debug)]
pub(crate) struct Composer(Vec<u8>);

impl Default for Composer {
    fn default() -> Self {
        Self(vec![0; 8192])
    }
}

impl Composer {
    /// Runs `encode` on the buffer, again on a larger one when it is full. A message that cannot be written is counted.
    pub(crate) fn write(
        &mut self,
        counters: &mut Counters,
        encode: impl FnMut(&mut Writer<'_>) -> Result<(), EncodeError>,
    ) -> Option<&[u8]> {
        let room = self.0.len();
        if let Ok(length) = encode_growing(&mut self.0, 0, room, MAX_MESSAGE, encode) {
            return Some(&self.0[..length]);
        }
        counters.encode_failures += 1;
        None
    }
}
