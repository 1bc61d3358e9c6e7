//! Messages on their way out, one behind the other in one buffer.

use rwf::EncodeError;
use rwf::wire::{Writer, encode_growing};
use std::collections::VecDeque;

/// Longest message: what a packet of the RSSL protocol can announce after fragmentation is more, requests and images are less.
const MAX_MESSAGE: usize = 1 << 24;

/// What is kept of a buffer that has been emptied; a larger one is given back.
const KEPT: usize = 1 << 20;

/// A queue of whole messages. Its bound is what its owner asks for: a request an item, an answer a request.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Room for messages, of which `end` bytes are used: bytes are set to 0 once, not with each message.
    bytes: Vec<u8>,
    end: usize,
    /// Where each waiting message ends in `bytes`.
    ends: VecDeque<usize>,
    /// Where the first waiting message begins.
    start: usize,
    /// Messages that could not be written: the caller's values have no wire form.
    failed: u64,
}

impl Outbox {
    /// Appends a message. What cannot be written is counted, not sent.
    pub(crate) fn push(&mut self, encode: impl Fn(&mut Writer<'_>) -> Result<(), EncodeError>) -> bool {
        if self.ends.is_empty() {
            self.clear();
        }
        let room = 512.max(self.bytes.len() - self.end);
        if let Ok(end) = encode_growing(&mut self.bytes, self.end, room, MAX_MESSAGE, encode) {
            self.end = end;
            self.ends.push_back(end);
            return true;
        }
        self.failed += 1;
        false
    }

    /// Nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The next message.
    pub(crate) fn pop(&mut self) -> Option<&[u8]> {
        let end = self.ends.pop_front()?;
        let start = std::mem::replace(&mut self.start, end);
        Some(&self.bytes[start..end])
    }

    /// Forgets everything: the connection that the messages were for is gone.
    pub(crate) fn clear(&mut self) {
        if self.bytes.len() > KEPT {
            self.bytes = Vec::new();
        }
        self.ends.clear();
        (self.start, self.end) = (0, 0);
    }

    /// Messages that could not be written.
    pub(crate) const fn failed(&self) -> u64 {
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_whole_and_in_order() {
        let mut out = Outbox::default();
        let long = vec![7; 5_000];
        assert!(out.push(|w| w.bytes(b"one")) && out.push(|w| w.bytes(&long)));
        assert!(!out.push(|_| Err(EncodeError::Unrepresentable("this"))));
        assert_eq!(out.pop(), Some(&b"one"[..]));
        assert!(out.push(|w| w.bytes(b"three")));
        assert_eq!(out.pop(), Some(&long[..]));
        assert_eq!(out.pop(), Some(&b"three"[..]));
        assert_eq!(out.pop(), None);
        assert_eq!(out.failed(), 1);
        assert!(out.push(|w| w.bytes(b"four")));
        out.clear();
        assert_eq!(out.pop(), None);
    }
}
