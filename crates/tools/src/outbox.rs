//! Messages that wait to be sent, end to end in one buffer.

/// Whole messages in order. Reused: emptying keeps the allocations.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Outbox {
    /// Adds a message.
    #[inline]
    pub fn push(&mut self, msg: &[u8]) {
        self.bytes.extend_from_slice(msg);
        self.ends.push(self.bytes.len() as u32);
    }

    /// Adds a message on a stream: its bytes but for the stream id, which stands in the header.
    #[inline]
    pub fn push_as(&mut self, msg: &[u8], stream_id: i32) {
        let start = self.bytes.len();
        self.push(msg);
        rwf::peek::set_stream_id(&mut self.bytes[start..], stream_id);
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Hands out all messages in order and forgets them.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) {
        let mut start = 0;
        for &end in &self.ends {
            each(&self.bytes[start..end as usize]);
            start = end as usize;
        }
        self.bytes.clear();
        self.ends.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_whole_and_in_order() {
        let mut outbox = Outbox::default();
        for message in [&b"one"[..], b"", b"three"] {
            outbox.push(message);
        }
        assert_eq!((outbox.len(), outbox.is_empty()), (8, false));
        let mut out = Vec::new();
        outbox.drain(|m| out.push(m.to_vec()));
        assert_eq!(out, [b"one".to_vec(), b"".to_vec(), b"three".to_vec()]);
        assert!(outbox.is_empty());
    }
}
