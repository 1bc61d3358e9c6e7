//! Messages of one client that wait.

/// Bytes of the length that stands before each message.
const LENGTH: usize = size_of::<u32>();
/// What was taken out is given back when there is so much of it, bytes, and as much as what is left.
const TRIM_FROM: usize = 4 << 10;

/// Messages of one client, in the order in which they came, one behind the other in one piece of memory: millions of tiny ones cost what
/// they are long, and are gone at once when their client is.
#[derive(Debug, Default)]
pub(crate) struct KeptMessages {
    /// Each message behind its length.
    bytes: Vec<u8>,
    /// Where the first message that is left begins.
    first: usize,
}

impl KeptMessages {
    /// Bytes that a message takes here.
    pub(crate) const fn cost(msg: &[u8]) -> usize {
        LENGTH + msg.len()
    }

    /// Bytes that the messages take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len() - self.first
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Keeps a message behind the others. What a client sends at once is less than 4 GB.
    pub(crate) fn push(&mut self, msg: &[u8]) {
        debug_assert!(u32::try_from(msg.len()).is_ok(), "a message of {} bytes", msg.len());
        self.bytes.extend_from_slice(&(msg.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(msg);
    }

    /// Takes the message out that came first.
    pub(crate) fn pop(&mut self) -> Option<Box<[u8]>> {
        let (length, rest) = self.bytes[self.first..].split_first_chunk::<LENGTH>()?;
        let msg: Box<[u8]> = rest[..u32::from_le_bytes(*length) as usize].into();
        self.first += Self::cost(&msg);
        if self.first >= TRIM_FROM && self.first >= self.bytes() {
            self.bytes.drain(..self.first);
            self.bytes.shrink_to(2 * self.bytes.len());
            self.first = 0;
        }
        Some(msg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_as_they_went_in_and_leave_their_memory() {
        let mut kept = KeptMessages::default();
        let mut next = (0_u32, 0_u32);
        for round in 0..4_000_u32 {
            for _ in 0..round % 7 {
                kept.push(&vec![next.0 as u8; next.0 as usize % 50]);
                next.0 += 1;
            }
            for _ in 0..round % 5 {
                let Some(msg) = kept.pop() else { break };
                assert_eq!(msg[..], vec![next.1 as u8; next.1 as usize % 50]);
                next.1 += 1;
            }
        }
        assert!(next.0 > next.1 && !kept.is_empty());
        while kept.pop().is_some() {
            next.1 += 1;
        }
        assert_eq!(next.0, next.1);
        assert!(kept.is_empty() && kept.bytes.capacity() <= 4 * TRIM_FROM, "{} bytes", kept.bytes.capacity());
    }
}
