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
    /// Messages of consecutive numbers, encoded as they came, one behind the other.
    Messages {
        /// Registration id of the source.
        source: u32,
        /// Topic sequence number of the first.
        first: u32,
        /// The messages: plain ones, each of which has its length in its head.
        messages: &'a [u8],
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
    /// All stores of a source for which they are to stand in when it is gone: of each the group, u16 index, address, port, and the source's
    /// registration id there, 13 bytes.
    Stores {
        /// Registration id of the source here.
        source: u32,
        /// The stores.
        list: &'a [u8],
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
            Self::Start { source, .. }
            | Self::Cut { source, .. }
            | Self::Message { source, .. }
            | Self::Messages { source, .. }
            | Self::Stores { source, .. } => source,
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
            Self::Messages { source, first, messages } => {
                head(11, source, first);
                out.extend_from_slice(messages);
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
            Self::Stores { source, list } => {
                head(10, source, 0);
                out.extend_from_slice(list);
            }
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
            10 => Self::Stores { source: a, list: rest },
            11 => Self::Messages { source: a, first: b, messages: rest },
            _ => return None,
        })
    }
}

/// Kind of a record that has several entries, each behind its length.
const GROUP: u8 = 9;

/// Begins a record of several entries: to be followed by any number of [`put_entry`].
pub fn begin_group(out: &mut Vec<u8>) {
    out.extend_from_slice(&[GROUP, 0, 0, 0, 0, 0, 0, 0, 0]);
}

/// Adds an entry to a record of several.
#[inline]
pub fn put_entry(entry: &Entry<'_>, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    entry.encode(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Reads a record: its entry, or its several ones in order. False: it is nothing of that, and what was read before is all that can be.
pub fn each_entry(record: &[u8], mut each: impl FnMut(&Entry<'_>)) -> bool {
    if record.first() != Some(&GROUP) {
        return Entry::decode(record).inspect(|entry| each(entry)).is_some();
    }
    let Some(mut rest) = record.get(9..) else { return false };
    while !rest.is_empty() {
        let entry = rest.split_first_chunk::<4>().and_then(|(length, behind)| {
            let (entry, behind) = behind.split_at_checked(u32::from_be_bytes(*length) as usize)?;
            Some((Entry::decode(entry)?, behind))
        });
        let Some((entry, behind)) = entry else { return false };
        each(&entry);
        rest = behind;
    }
    true
}

/// Where a store writes.
pub trait Log {
    /// Takes an entry. Returns its ticket, a number that grows; 0: what is written needs no further word, as in memory.
    fn write(&mut self, entry: &Entry<'_>) -> u64;

    /// Whether more messages can be taken: what waits to be written has a bound.
    fn has_room(&self) -> bool {
        true
    }

    /// Whether what is written survives the process.
    fn is_durable(&self) -> bool {
        false
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
            Entry::Messages { source: 7, first: 4, messages: b"one two" },
            Entry::Receiver { reg_id: 8, source: 7, session: 2, paced: true, next: 5 },
            Entry::Consumed { reg_id: 8, next: 6 },
            Entry::Removed { reg_id: 8 },
            Entry::Stores { source: 7, list: &[5; 26] },
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

    #[test]
    fn several_entries_come_back_from_one_record() {
        let entries =
            [Entry::Anew, Entry::Message { source: 1, sqn: 2, message: b"long" }, Entry::Removed { reg_id: 3 }];
        let mut record = Vec::new();
        begin_group(&mut record);
        for entry in &entries {
            put_entry(entry, &mut record);
        }
        let read = |record: &[u8]| {
            let mut read = Vec::new();
            let whole = each_entry(record, |entry| read.push(format!("{entry:?}")));
            (read, whole)
        };
        let all: Vec<String> = entries.iter().map(|entry| format!("{entry:?}")).collect();
        assert_eq!(read(&record), (all.clone(), true));
        // Cut anywhere: what is whole before the cut, and that something was cut unless it was between two entries.
        for length in 0..record.len() {
            let (some, whole) = read(&record[..length]);
            assert_eq!(some, all[..some.len()], "cut at {length}");
            assert_eq!(whole, [9, 22, 39].contains(&length), "cut at {length}");
        }
        let mut alone = Vec::new();
        entries[2].encode(&mut alone);
        assert_eq!(read(&alone), (vec![all[2].clone()], true));
        assert_eq!(read(&[12; 12]), (Vec::new(), false));
    }
}
