//! Writing RWF messages into a buffer that is used again.

use rwf::EncodeError;
use rwf::wire::Writer;

/// Largest message that is composed here.
const MAX_MESSAGE: usize = 64 << 20;

/// A buffer for one message.
#[derive(Debug)]
pub(super) struct Scratch(Vec<u8>);

impl Default for Scratch {
    fn default() -> Self {
        Self(vec![0; 8192])
    }
}

impl Scratch {
    /// Runs `encode` on the buffer, again on a larger one when it is full.
    pub(super) fn write(
        &mut self,
        mut encode: impl FnMut(&mut Writer<'_>) -> Result<(), EncodeError>,
    ) -> Result<&mut [u8], EncodeError> {
        loop {
            let mut writer = Writer::new(&mut self.0);
            match encode(&mut writer) {
                Ok(()) => {
                    let length = writer.position();
                    return Ok(&mut self.0[..length]);
                }
                Err(EncodeError::BufferFull) if self.0.len() < MAX_MESSAGE => {
                    let larger = self.0.len() * 4;
                    self.0.resize(larger, 0);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
