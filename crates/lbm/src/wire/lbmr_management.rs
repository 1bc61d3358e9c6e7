//! Topic management (TMR): who keeps interest in a topic asks whether it is still used.

use super::lbmr::PatternKind;

/// A record of topic management. On the wire: `u16 length, u8 type, u8 flags, name NUL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Management<'a> {
    /// [`Management::LEAVE`], [`Management::USE`], or another version's.
    pub kind: u8,
    /// [`Management::RESPONSE`] and the kind of pattern.
    flags: u8,
    /// How the name is to be understood; `None`: it is a topic.
    pub pattern: Option<PatternKind>,
    /// Topic or pattern.
    pub name: &'a [u8],
}

impl<'a> Management<'a> {
    /// A receiver uses the topic no more.
    pub const LEAVE: u8 = 0;
    /// Asks whether the topic is used, or, as a response, says that it is.
    pub const USE: u8 = 1;
    const RESPONSE: u8 = 0x80;
    const PCRE: u8 = 0x40;
    const REGEX: u8 = 0x20;

    /// Asks whether somebody uses a topic, or all topics of a pattern.
    pub fn use_query(pattern: Option<PatternKind>, name: &'a [u8]) -> Self {
        let flags = match pattern {
            None | Some(PatternKind::Other(_)) => 0,
            Some(PatternKind::Pcre) => Self::PCRE,
            Some(PatternKind::Regex) => Self::REGEX,
        };
        Self { kind: Self::USE, flags, pattern, name }
    }

    /// Whether the record answers a question.
    pub fn is_response(&self) -> bool {
        self.flags & Self::RESPONSE != 0
    }

    /// The records of a packet's body, as far as they can be read.
    pub fn iter(mut records: &'a [u8]) -> impl Iterator<Item = Self> {
        core::iter::from_fn(move || {
            let &[high, low, kind, flags, ..] = records else { return None };
            let length = usize::from(u16::from_be_bytes([high, low]));
            let name = records.get(4..length)?.strip_suffix(&[0])?;
            records = &records[length..];
            let pattern = match flags & (Self::PCRE | Self::REGEX) {
                0 => None,
                Self::PCRE => Some(PatternKind::Pcre),
                Self::REGEX => Some(PatternKind::Regex),
                _ => Some(PatternKind::Other(0)),
            };
            Some(Self { kind, flags, pattern, name })
        })
    }

    /// Appends the record to the body of a packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        // A name has 246 bytes at most.
        out.extend_from_slice(&((self.name.len() + 5) as u16).to_be_bytes());
        out.extend_from_slice(&[self.kind, self.flags]);
        out.extend_from_slice(self.name);
        out.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Writer;
    use crate::wire::lbmr::{Body, Packet};
    use crate::wire::lbmr_option::{PacketOptions, SenderKind, sender};

    #[test]
    fn records_are_read_as_they_were_written() {
        let asked = [
            Management::use_query(None, b"orders"),
            Management::use_query(Some(PatternKind::Pcre), b"^o.*"),
            Management::use_query(Some(PatternKind::Regex), b"."),
        ];
        let mut records = Vec::new();
        for record in &asked {
            record.encode(&mut records);
        }
        let mut buffer = [0; 200];
        let mut w = Writer::new(&mut buffer);
        let trailer = sender([7; 8], SenderKind::Router, 12);
        let (body, options) = (Body::Management { records: &records, count: 3 }, PacketOptions::from_encoded(&trailer));
        Packet { version: 1, body, options: Some(options) }.encode(&mut w).expect("room");
        let packet = Packet::decode(w.written()).expect("a packet");
        assert!(packet.options.is_some_and(PacketOptions::is_of_router));
        let Body::Management { records, count: 3 } = packet.body else { panic!("{packet:?}") };
        assert_eq!(Management::iter(records).collect::<Vec<_>>(), asked);
        for cut in 0..records.len() {
            assert!(Management::iter(&records[..cut]).count() < 3);
        }
        assert_eq!(Management::iter(&[0, 2, 1, 0, 0]).count(), 0, "a length that is none");
    }
}
