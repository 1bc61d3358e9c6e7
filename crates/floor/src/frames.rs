//! Messages packed into frames: a frame is `length u16, flags u8`, then messages, each `length u16, bytes`. The shape, and so the work,
//! of packed RSSL; big-endian.

/// Bytes of a frame that is full.
const FRAME: usize = 6144;
const FRAME_HEADER: usize = 3;
const MESSAGE_HEADER: usize = 2;

/// Frames being composed in a buffer that is reused.
#[derive(Default)]
pub(super) struct Packer {
    pub(super) bytes: Vec<u8>,
    /// Start of the open frame.
    open: Option<usize>,
}

impl Packer {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), open: None }
    }

    /// Appends a message and returns its bytes for changes.
    #[inline]
    pub(super) fn push(&mut self, message: &[u8]) -> &mut [u8] {
        if let Some(start) = self.open
            && self.bytes.len() - start + MESSAGE_HEADER + message.len() > FRAME
        {
            self.finish();
        }
        if self.open.is_none() {
            self.open = Some(self.bytes.len());
            self.bytes.extend_from_slice(&[0, 0, 0x12]);
        }
        self.bytes.extend_from_slice(&(message.len() as u16).to_be_bytes());
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        &mut self.bytes[start..]
    }

    /// Closes the open frame.
    #[inline]
    pub(super) fn finish(&mut self) {
        if let Some(start) = self.open.take() {
            let len = (self.bytes.len() - start) as u16;
            self.bytes[start..start + 2].copy_from_slice(&len.to_be_bytes());
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.open = None;
    }
}

/// Hands out the messages of all complete frames; returns how many bytes they were.
#[inline]
pub(super) fn messages(bytes: &[u8], mut f: impl FnMut(&[u8])) -> usize {
    let mut at = 0;
    while let Some(&[high, low, _]) = bytes.get(at..at + FRAME_HEADER) {
        let end = at + usize::from(u16::from_be_bytes([high, low]));
        if end > bytes.len() || end <= at {
            break;
        }
        let mut message = at + FRAME_HEADER;
        while message + MESSAGE_HEADER <= end {
            let len = usize::from(u16::from_be_bytes([bytes[message], bytes[message + 1]]));
            let start = message + MESSAGE_HEADER;
            f(&bytes[start..start + len]);
            message = start + len;
        }
        at = end;
    }
    at
}

/// Input of one connection: what has come and is not yet a whole frame stays at the start.
pub(super) struct Input {
    bytes: Vec<u8>,
    have: usize,
}

impl Input {
    pub(super) fn new(read: usize) -> Self {
        Self { bytes: vec![0; read + 65_536], have: 0 }
    }

    /// Reads at most `limit` bytes with `read`; `false` at the end.
    #[inline]
    pub(super) fn read(&mut self, limit: usize, read: impl FnOnce(&mut [u8]) -> std::io::Result<usize>) -> bool {
        let count = read(&mut self.bytes[self.have..self.have + limit]).unwrap_or(0);
        self.have += count;
        count > 0
    }

    /// Hands out the messages that are complete.
    #[inline]
    pub(super) fn messages(&mut self, f: impl FnMut(&[u8])) {
        let used = messages(&self.bytes[..self.have], f);
        self.bytes.copy_within(used..self.have, 0);
        self.have -= used;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_comes_out_again_however_it_is_cut() {
        let mut packer = Packer::with_capacity(100_000);
        let sent: Vec<Vec<u8>> = (0..500u32).map(|n| vec![n as u8; 20 + n as usize % 90]).collect();
        for message in &sent {
            packer.push(message);
        }
        packer.finish();
        for step in [1, 100, 7000] {
            let (mut input, mut got) = (Input::new(8192), Vec::new());
            for part in packer.bytes.chunks(step) {
                assert!(input.read(part.len(), |room| {
                    room.copy_from_slice(part);
                    Ok(part.len())
                }));
                input.messages(|message| got.push(message.to_vec()));
            }
            assert!(got == sent);
        }
    }
}
