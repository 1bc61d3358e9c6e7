//! A record as a broker gets it.

use record::{Entry, Item, Kind};
use rwf::dictionary::Dictionary;
use std::fmt::Write as _;

/// How messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Form {
    /// A JSON object, as `quoteway record export` writes it.
    #[default]
    Json,
    /// The message's bytes as they came: RWF.
    Rwf,
}

/// A record on its way to a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The item, or the service; none of a gap, which is of all.
    pub item: Option<Item>,
    /// Kind of the record.
    pub kind: Kind,
    /// Sequence number in the recording.
    pub sequence: u64,
    /// The record's time, nanoseconds since 1970.
    pub time: u64,
    /// Number of the recording.
    pub recording: u64,
    /// The content.
    pub payload: Vec<u8>,
}

impl Message {
    /// A record as a message; `None`: it is not sent in this form. Dictionaries are for who reads RWF.
    pub(crate) fn of(entry: &Entry<'_>, recording: u64, form: Form, dictionary: &Dictionary) -> Option<Self> {
        let record = &entry.record;
        let payload = match form {
            Form::Json if matches!(record.kind, Kind::Dictionary | Kind::PermissionData) => return None,
            Form::Json => record_files::json_line(entry, dictionary),
            Form::Rwf => record.body.to_vec(),
        };
        let (kind, sequence, time) = (record.kind, record.sequence, record.time);
        Some(Self { item: entry.item.cloned(), kind, sequence, time, recording, payload })
    }

    /// The id of this message alone: the recording's number, the item, and the record's sequence number, which is counted over all items. A broker
    /// that has taken a message with it takes no other one. (An item's own sequence numbers would not do: `JetStream`'s window is one a stream.)
    pub fn id(&self) -> String {
        // Names are peers' choice, and headers are lines.
        let mut key = String::new();
        put(&self.key(), true, &mut key);
        format!("{:016x}/{key}/{}", self.recording, self.sequence)
    }

    /// The item as one text, `SERVICE/DOMAIN/NAME`: the key in Kafka, by which messages of an item stay in order. Empty for a gap.
    pub fn key(&self) -> String {
        self.item.as_ref().map(|item| format!("{}/{}/{}", item.service, item.domain, item.name)).unwrap_or_default()
    }

    /// Headers beside the content.
    pub(crate) fn headers(&self) -> [(&'static str, String); 4] {
        [
            ("Quoteway-Id", self.id()),
            ("Quoteway-Kind", self.kind.name().to_owned()),
            ("Quoteway-Sequence", self.sequence.to_string()),
            ("Quoteway-Time", self.time.to_string()),
        ]
    }

    /// Bytes that it takes, about.
    pub(crate) fn size(&self) -> usize {
        let names = self.item.as_ref().map_or(0, |item| item.service.len() + item.name.len());
        self.payload.len() + 2 * names + 200
    }
}

/// Messages of a batch, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The broker has them now.
    pub(crate) new: u64,
    /// The broker had them already.
    pub(crate) known: u64,
    /// Of these, so many as it has removed since, and does not take again yet.
    pub(crate) gone: u64,
    /// The broker takes none that are so long.
    pub(crate) too_long: u64,
}

/// The subject of an item in NATS: `PREFIX.SERVICE.DOMAIN.NAME`; of a gap, which is of all items, `PREFIX.gap`. Dots in names part tokens, so that `FEED.*.6.*.N` are
/// items of New York; a character that a subject cannot have, and a dot without a token, is written as `%` and its hexadecimal number.
pub fn subject(prefix: &str, item: Option<&Item>) -> String {
    let Some(item) = item else { return format!("{prefix}.gap") };
    let mut out = format!("{prefix}.");
    // A service is one token.
    put(&item.service, false, &mut out);
    let _ = write!(out, ".{}", item.domain);
    if !item.name.is_empty() {
        out.push('.');
        put(&item.name, true, &mut out);
    }
    out
}

fn put(name: &str, parts: bool, out: &mut String) {
    let bytes = name.as_bytes();
    for (at, byte) in bytes.iter().copied().enumerate() {
        let is_alone = at == 0 || at + 1 == bytes.len() || bytes[at - 1] == b'.';
        match byte {
            b'.' if parts && !is_alone => out.push('.'),
            b'.' | b'*' | b'>' | b'%' | 0x00..=0x20 | 0x7f..=0xff => {
                let _ = write!(out, "%{byte:02X}");
            }
            byte => out.push(char::from(byte)),
        }
    }
    if bytes.is_empty() {
        out.push_str("%00");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(service: &str, domain: u8, name: &str) -> Item {
        Item { service: service.into(), domain, name: name.into() }
    }

    #[test]
    fn subjects_have_no_character_that_nats_refuses_and_differ_as_items_do() {
        for (name, expected) in [
            ("IBM.N", "Q.FEED.6.IBM.N"),
            (".DJI", "Q.FEED.6.%2EDJI"),
            ("A..B", "Q.FEED.6.A.%2EB"),
            ("A.", "Q.FEED.6.A%2E"),
            (".", "Q.FEED.6.%2E"),
            ("a b*>%", "Q.FEED.6.a%20b%2A%3E%25"),
            ("é", "Q.FEED.6.%C3%A9"),
        ] {
            let subject = subject("Q", Some(&item("FEED", 6, name)));
            assert_eq!(subject, expected);
            assert!(subject.split('.').all(|token| !token.is_empty()), "{subject}");
        }
        assert_eq!(subject("Q", Some(&item("A.B", 4, ""))), "Q.A%2EB.4");
        assert_eq!(subject("Q", None), "Q.gap");
    }

    #[test]
    fn ids_differ_over_items_and_recordings() {
        let of = |recording: u64, name: &str, sequence: u64| {
            let payload = Vec::new();
            Message { item: Some(item("F", 6, name)), kind: Kind::Update, sequence, time: 0, recording, payload }.id()
        };
        let ids = [of(1, "A", 5), of(1, "B", 5), of(1, "A", 6), of(2, "A", 5)];
        assert!(!of(1, "A\r\nB: c", 5).contains(['\r', '\n', ' ']));
        for (at, id) in ids.iter().enumerate() {
            assert!(!ids[..at].contains(id), "{id}");
        }
    }
}
