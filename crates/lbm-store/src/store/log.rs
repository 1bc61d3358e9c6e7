//! What a store writes down, so that another process goes on where it has ended.

/// One thing to be remembered. Applied in order to an empty store they make it what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A source registered, or began another incarnation.
    Source {
        /// Registration id.
        reg_id: u32,
        /// Session id; 0: none.
        session: u64,
        /// Topic name.
        topic: &'a [u8],
        /// Incarnations: pairs as on the wire.
        epochs: &'a [u8],
    },
    /// Nothing of the source is held; messages come from this number on.
    Start {
        /// Registration id of the source.
        source: u32,
        /// The first number.
        low: u32,
    },
    /// What the source had from this number on is forgotten.
    Cut {
        /// Registration id of the source.
        source: u32,
        /// The first that is forgotten.
        from: u32,
    },
    /// A message, encoded as it came.
    Message {
        /// Registration id of the source.
        source: u32,
        /// Topic sequence number.
        sqn: u32,
        /// The message.
        message: &'a [u8],
    },
    /// A receiver registered.
    Receiver {
        /// Registration id.
        reg_id: u32,
        /// Registration id of the source.
        source: u32,
        /// Session id; 0: none.
        session: u64,
        /// Whether messages wait for the receiver.
        paced: bool,
        /// The first number that the receiver has not consumed.
        next: u32,
    },
    /// A receiver has consumed all before `next`.
    Consumed {
        /// Registration id of the receiver.
        reg_id: u32,
        /// The first that the receiver has not consumed.
        next: u32,
    },
    /// A registration is over; with that of a source go its messages and receivers.
    Removed {
        /// Registration id.
        reg_id: u32,
    },
    /// Nothing of what came before counts: what follows is all that there was.
    Anew,
}

impl Entry<'_> {
    /// Registration id of the source or receiver that the entry is about; 0: of all.
    pub const fn reg_id(&self) -> u32 {
        match *self {
            Self::Source { reg_id, .. }
            | Self::Receiver { reg_id, .. }
            | Self::Consumed { reg_id, .. }
            | Self::Removed { reg_id } => reg_id,
            Self::Start { source, .. } | Self::Cut { source, .. } | Self::Message { source, .. } => source,
            Self::Anew => 0,
        }
    }

    /// Adds the entry to `out`. Numbers are big-endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut head = |kind: u8, a: u32, b: u32| {
            out.push(kind);
            out.extend_from_slice(&a.to_be_bytes());
            out.extend_from_slice(&b.to_be_bytes());
        };
        match *self {
            Self::Source { reg_id, session, topic, epochs } => {
                head(1, reg_id, topic.len() as u32);
                out.extend_from_slice(&session.to_be_bytes());
                out.extend_from_slice(topic);
                out.extend_from_slice(epochs);
            }
            Self::Start { source, low } => head(2, source, low),
            Self::Cut { source, from } => head(3, source, from),
            Self::Message { source, sqn, message } => {
                head(4, source, sqn);
                out.extend_from_slice(message);
            }
            Self::Receiver { reg_id, source, session, paced, next } => {
                head(5, reg_id, next);
                out.extend_from_slice(&source.to_be_bytes());
                out.extend_from_slice(&session.to_be_bytes());
                out.push(u8::from(paced));
            }
            Self::Consumed { reg_id, next } => head(6, reg_id, next),
            Self::Removed { reg_id } => head(7, reg_id, 0),
            Self::Anew => head(8, 0, 0),
        }
    }
}

impl<'a> Entry<'a> {
    /// Reads what [`Entry::encode`] has written. `None`: it is nothing of that.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (a, rest) = rest.split_first_chunk::<4>()?;
        let (b, rest) = rest.split_first_chunk::<4>()?;
        let (a, b) = (u32::from_be_bytes(*a), u32::from_be_bytes(*b));
        Some(match kind {
            1 => {
                let (session, rest) = rest.split_first_chunk::<8>()?;
                let (topic, epochs) = rest.split_at_checked(b as usize)?;
                Self::Source { reg_id: a, session: u64::from_be_bytes(*session), topic, epochs }
            }
            2 => Self::Start { source: a, low: b },
            3 => Self::Cut { source: a, from: b },
            4 => Self::Message { source: a, sqn: b, message: rest },
            5 => {
                let (source, rest) = rest.split_first_chunk::<4>()?;
                let (session, rest) = rest.split_first_chunk::<8>()?;
                let (source, session) = (u32::from_be_bytes(*source), u64::from_be_bytes(*session));
                Self::Receiver { reg_id: a, source, session, paced: *rest.first()? != 0, next: b }
            }
            6 => Self::Consumed { reg_id: a, next: b },
            7 => Self::Removed { reg_id: a },
            8 => Self::Anew,
            _ => return None,
        })
    }
}

/// Where a store writes.
pub trait Log {
    /// Takes an entry. Returns its ticket, a number that grows; 0: what is written needs no further word, as in memory.
    fn write(&mut self, entry: &Entry<'_>) -> u64;

    /// Whether more messages can be taken: what waits to be written has a bound.
    fn has_room(&self) -> bool {
        true
    }
}

/// Nothing is written down: a store in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl Log for NoLog {
    fn write(&mut self, _entry: &Entry<'_>) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back() {
        let entries = [
            Entry::Source { reg_id: 7, session: 1 << 40, topic: b"a.b", epochs: &[0, 0, 0, 1, 0, 0, 0, 0] },
            Entry::Start { source: 7, low: 9 },
            Entry::Cut { source: 7, from: u32::MAX },
            Entry::Message { source: 7, sqn: 3, message: b"message" },
            Entry::Receiver { reg_id: 8, source: 7, session: 2, paced: true, next: 5 },
            Entry::Consumed { reg_id: 8, next: 6 },
            Entry::Removed { reg_id: 8 },
            Entry::Anew,
        ];
        for entry in entries {
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            assert_eq!(Entry::decode(&bytes), Some(entry));
            assert_eq!(Entry::decode(&bytes[..8]), None, "cut short");
        }
        assert_eq!(Entry::decode(&[9; 30]), None);
    }
}
