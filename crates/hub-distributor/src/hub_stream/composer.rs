//! Writing RWF messages into a buffer that is used again.

use crate::Counters;
use rwf::EncodeError;
use rwf::wire::Writer;

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
        mut encode: impl FnMut(&mut Writer<'_>) -> Result<(), EncodeError>,
    ) -> Option<&[u8]> {
        loop {
            let mut writer = Writer::new(&mut self.0);
            match encode(&mut writer) {
                Ok(()) => {
                    let length = writer.position();
                    return Some(&self.0[..length]);
                }
                Err(EncodeError::BufferFull) if self.0.len() < MAX_MESSAGE => {
                    let larger = self.0.len() * 4;
                    self.0.resize(larger, 0);
                }
                Err(_) => {
                    counters.encode_failures += 1;
                    return None;
                }
            }
        }
    }
}
