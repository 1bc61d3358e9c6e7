//! The records of a journal: what came of an item, and when.
//!
//! ```text
//! length u32 | check u32 | time u64 | kind u8 | domain u8 | length of name u16 | name | message
//! ```
//!
//! Numbers are big-endian; the length counts what follows the check, which is the CRC of that.

use flate2::Crc;

/// Bytes before what is checked.
const HEAD: usize = 8;
/// Bytes of time, kind, domain and the name's length.
const FIXED: usize = 12;
/// A longer record is none: a message has 65,535 bytes at most, or twice that with its extended header.
const LENGTH_MAX: usize = 1 << 18;

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A part of the image that the item had when the segment began.
    Image,
    /// A message of the source.
    Message,
    /// Nothing: the recorder lives, and hears its source.
    Alive,
}

impl Kind {
    fn of(number: u8) -> Option<Self> {
        [Self::Image, Self::Message, Self::Alive].into_iter().find(|kind| *kind as u8 == number)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// Wall clock, nanoseconds since 1970.
    pub(super) at: u64,
    pub(super) kind: Kind,
    pub(super) domain: u8,
    pub(super) name: &'a str,
    pub(super) message: &'a [u8],
}

/// The record at the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<'a> {
    /// A record, and its bytes.
    Record(Record<'a>, usize),
    /// Less than a record.
    Cut,
    /// Bytes that are no record: the segment cannot be read on.
    Broken,
}

impl<'a> Record<'a> {
    /// Appends the record. Nothing if the name is longer than can be said.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let Ok(name_len) = u16::try_from(self.name.len()) else { return };
        let length = FIXED + self.name.len() + self.message.len();
        let start = out.len();
        out.extend_from_slice(&(length as u32).to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.at.to_be_bytes());
        out.extend_from_slice(&[self.kind as u8, self.domain]);
        out.extend_from_slice(&name_len.to_be_bytes());
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(self.message);
        let check = check(&out[start + HEAD..]);
        out[start + 4..start + HEAD].copy_from_slice(&check.to_be_bytes());
    }

    /// Reads the record at the beginning.
    pub(super) fn read(bytes: &'a [u8]) -> Next<'a> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else { return Next::Cut };
        let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let length = number(0) as usize;
        if !(FIXED..=LENGTH_MAX).contains(&length) {
            return Next::Broken;
        }
        let Some(body) = rest.get(..length) else { return Next::Cut };
        if check(body) != number(4) {
            return Next::Broken;
        }
        Self::read_body(body).map_or(Next::Broken, |record| Next::Record(record, HEAD + length))
    }

    fn read_body(body: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = body.split_first_chunk::<FIXED>()?;
        let (time, tail) = fixed.split_first_chunk::<8>()?;
        let name_len = usize::from(u16::from_be_bytes([tail[2], tail[3]]));
        let (name, message) = rest.split_at_checked(name_len)?;
        let name = std::str::from_utf8(name).ok()?;
        Some(Self { at: u64::from_be_bytes(*time), kind: Kind::of(tail[0])?, domain: tail[1], name, message })
    }
}

fn check(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_whole_or_not_at_all() {
        let record = Record { at: 7, kind: Kind::Message, domain: 6, name: "IBM.N", message: b"message" };
        let mut bytes = Vec::new();
        record.write(&mut bytes);
        assert_eq!(Record::read(&bytes), Next::Record(record, bytes.len()));
        for end in 0..bytes.len() {
            assert_eq!(Record::read(&bytes[..end]), Next::Cut, "{end}");
        }
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 0x40;
            assert!(!matches!(Record::read(&wrong), Next::Record(..)), "byte {at} is changed and nobody notices");
        }
    }
}
