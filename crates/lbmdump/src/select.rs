//! Which packets to show.

use clap::ValueEnum;
use lbm::wire::{lbtrm, lbtru};

use super::book::Book;
use super::dissect::{Content, Record};
use super::sequence::Arrival;

/// A kind of packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Datagrams and stream segments with messages
    Data,
    /// Datagrams that were sent again
    Again,
    /// What receivers miss
    Nak,
    /// Why a NAK is not answered now
    Ncf,
    /// Session messages
    Sm,
    /// Queries and advertisements
    Resolution,
    /// IP fragments
    Fragment,
    /// What is lost, asked for, sent again or malformed
    Trouble,
}

/// The packets that the user wants to see.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    /// Topic name, `*` for any characters.
    pub(super) topic: Option<String>,
    /// Part of a session's name.
    pub(super) session: Option<String>,
    /// Empty: all.
    pub(super) kinds: Vec<Kind>,
}

impl Selection {
    pub(super) fn has_session(&self, book: &Book, session: usize) -> bool {
        self.session.as_ref().is_none_or(|part| book.session_name(session).contains(part.as_str()))
    }

    pub(super) fn has_topic(&self, book: &Book, topic: usize) -> bool {
        self.topic.as_ref().is_none_or(|pattern| {
            book.topics[topic].name.as_deref().is_some_and(|name| matches(pattern.as_bytes(), name.as_bytes()))
        })
    }

    pub(super) fn has(&self, record: &Record<'_>, book: &Book) -> bool {
        let in_session = self.session.is_none()
            || record.session.is_some_and(|s| self.has_session(book, s))
            || record.topics.iter().any(|t| self.has_session(book, book.topics[*t].session));
        in_session
            && (self.topic.is_none() || record.topics.iter().any(|t| self.has_topic(book, *t)) || self.asks(record))
            && (self.kinds.is_empty() || self.kinds.iter().any(|k| is_kind(record, *k)))
    }

    /// Queries name topics that the book may not know.
    fn asks(&self, record: &Record<'_>) -> bool {
        use lbm::wire::lbmr::{Body, Packet, Query};
        let (Some(pattern), Content::Lbmr(Packet { body: Body::Topics { queries, .. }, .. })) =
            (&self.topic, &record.content)
        else {
            return false;
        };
        queries.iter().any(|q| matches!(q, Query::Topic(name) if matches(pattern.as_bytes(), name)))
    }
}

fn is_kind(record: &Record<'_>, kind: Kind) -> bool {
    let (data, again, nak, ncf, sm) = match &record.content {
        Content::Lbtrm(p) => match p.body {
            lbtrm::Body::Data(d) => (true, d.is_retransmission(), false, false, false),
            lbtrm::Body::SessionMessage { .. } => (false, false, false, false, true),
            lbtrm::Body::Nak { .. } => (false, false, true, false, false),
            lbtrm::Body::Ncf { .. } => (false, false, false, true, false),
        },
        Content::Lbtru(p) => match p.body {
            lbtru::Body::Data { .. } => (true, p.flags & lbtru::RETRANSMISSION != 0, false, false, false),
            lbtru::Body::SessionMessage { .. } => (false, false, false, false, true),
            lbtru::Body::Nak { .. } => (false, false, true, false, false),
            lbtru::Body::Ncf { .. } => (false, false, false, true, false),
            _ => (false, false, false, false, false),
        },
        Content::Stream { .. } => (true, false, false, false, false),
        _ => (false, false, false, false, false),
    };
    match kind {
        Kind::Data => data,
        Kind::Again => again,
        Kind::Nak => nak,
        Kind::Ncf => ncf,
        Kind::Sm => sm,
        Kind::Resolution => matches!(record.content, Content::Lbmr(_)),
        Kind::Fragment => matches!(record.content, Content::Fragment { .. }),
        Kind::Trouble => {
            let is_gap = |a: Option<Arrival>| matches!(a, Some(Arrival::Gap(..)));
            again
                || nak
                || ncf
                || matches!(record.content, Content::Malformed { .. })
                || matches!(record.content, Content::Stream { gap } if !gap.is_none())
                || record.error.is_some()
                || record.behind.is_some()
                || is_gap(record.arrival)
                || record.messages.iter().any(|m| m.error.is_some() || is_gap(m.arrival))
        }
    }
}

/// Whether a name fits a pattern in which `*` stands for any characters.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                (p, n) = (at + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, name, fits) in [
            ("md.ibm", "md.ibm", true),
            ("md.ibm", "md.ibm2", false),
            ("md.*", "md.", true),
            ("*.ibm", "a.b.ibm", true),
            ("*a*b*", "xxaxxb", true),
            ("*a*b", "xxbxxa", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), fits, "{pattern} {name}");
        }
    }
}
