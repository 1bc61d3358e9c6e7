//! The summary of a capture: sessions, topics, losses, and what was not understood.

use std::fmt::Write as _;

use lbm::wire::lbmr::Transport;
use serde_json::{Value, json};

use super::book::{Book, Session, Topic};
use super::dissect::Passed;
use super::select::Selection;
use super::sequence::Sequence;

/// Runs of missing numbers that are listed.
const RUNS: usize = 8;

/// All that a summary is made of.
pub(super) struct Summary<'a> {
    pub(super) book: &'a Book,
    pub(super) passed: Passed,
    pub(super) incomplete_datagrams: u64,
    /// Why the file was not read to a proper end.
    pub(super) unread: Option<&'a str>,
    pub(super) selection: &'a Selection,
}

impl Summary<'_> {
    fn sessions(&self) -> impl Iterator<Item = (usize, &Session)> {
        let of_topic = |s: usize| {
            self.book
                .topics
                .iter()
                .enumerate()
                .any(|(t, topic)| topic.session == s && self.selection.has_topic(self.book, t))
        };
        self.book.sessions.iter().enumerate().filter(move |(s, _)| {
            self.selection.has_session(self.book, *s) && (self.selection.topic.is_none() || of_topic(*s))
        })
    }

    fn topics(&self) -> impl Iterator<Item = (usize, &Topic)> {
        self.book.topics.iter().enumerate().filter(|(t, topic)| {
            self.selection.has_session(self.book, topic.session) && self.selection.has_topic(self.book, *t)
        })
    }

    /// Datagrams that are missing still, of all sessions.
    pub(super) fn missing(&self) -> u64 {
        self.sessions().map(|(_, s)| s.sequence.missing()).sum()
    }

    /// The fault that makes a check fail; `None` when all is there and good.
    pub(super) fn trouble(&self) -> Option<String> {
        let p = &self.passed;
        let counts = [
            (self.missing(), "datagrams are missing"),
            (p.malformed, "packets or messages are malformed"),
            (p.unread, "packets were captured in too small a part"),
            (self.incomplete_datagrams, "datagrams lack fragments"),
            (p.missing_bytes, "bytes of TCP streams are missing"),
            (p.out_of_step, "bytes of TCP streams are out of step: no message was found in them"),
        ];
        let found: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        (!found.is_empty()).then(|| found.join(", "))
    }

    /// As text.
    pub(super) fn text(&self) -> String {
        let p = &self.passed;
        let mut out = format!(
            "{} frames; {} resolution packets with {} queries and {} advertisements",
            p.frames, p.resolution_packets, p.queries, p.adverts
        );
        let _ = write!(out, "; {} malformed", p.malformed);
        for (count, what) in [
            (p.other, "of other protocols"),
            (p.unknown_link, "of a link type that is not understood"),
            (p.cut, "captured in part (raise the snap length)"),
            (p.trains, "captured before the kernel cut them (GSO)"),
            (self.incomplete_datagrams, "datagrams without all their fragments"),
            (p.missing_bytes, "bytes of TCP streams are not in the capture"),
            (p.out_of_step, "bytes of TCP streams in which no message was found"),
        ] {
            if count > 0 {
                let _ = write!(out, "; {count} {what}");
            }
        }
        out.push('\n');
        if let Some(unread) = self.unread {
            let _ = writeln!(out, "Not read whole: {unread}.");
        }
        for (index, session) in self.sessions() {
            self.session_text(index, session, &mut out);
        }
        out
    }

    fn session_text(&self, index: usize, session: &Session, out: &mut String) {
        if session.datagrams + session.state_messages + session.naks == 0 {
            let topics: Vec<String> =
                self.topics().filter(|(_, t)| t.session == index).map(|(t, _)| self.book.topic_name(t)).collect();
            let _ = writeln!(out, "\n{}\n  only advertised: {}", self.book.session_name(index), topics.join(", "));
            return;
        }
        let unit = if matches!(session.transport, Transport::Tcp { .. }) { "segments" } else { "datagrams" };
        let seconds = session.last_nanos.saturating_sub(session.first_nanos) as f64 / 1e9;
        let _ = writeln!(
            out,
            "\n{}\n  {} messages in {} {unit}, {} bytes, in {seconds:.3} s",
            self.book.session_name(index),
            session.messages,
            session.datagrams,
            session.bytes
        );
        if let Some((first, last)) = session.sequence.range() {
            let _ = writeln!(
                out,
                "  numbers {first} to {last}: {} skipped, {} of them came later, {} missing; {} came twice",
                session.sequence.skipped,
                session.sequence.repaired,
                session.sequence.missing(),
                session.sequence.duplicates
            );
            missing_text("  missing: ", &session.sequence, out);
        }
        let repair = session.retransmissions + session.naks + session.ncfs;
        if repair > 0 {
            let _ = writeln!(
                out,
                "  {} retransmissions; {} NAKs for {} numbers; {} NCFs for {}",
                session.retransmissions, session.naks, session.nak_sqns, session.ncfs, session.ncf_sqns
            );
        }
        let mut complainers: Vec<_> = session.complainers.iter().collect();
        complainers.sort_by_key(|(_, (_, sqns))| std::cmp::Reverse(*sqns));
        for (who, (packets, sqns)) in complainers {
            let _ = writeln!(out, "    {who} asked for {sqns} numbers in {packets} NAKs");
        }
        for (t, topic) in self.topics().filter(|(_, t)| t.session == index) {
            let _ = write!(
                out,
                "  {}[{}]: {} messages, {} bytes",
                self.book.topic_name(t),
                topic.index,
                topic.messages,
                topic.bytes
            );
            if let Some((first, last)) = topic.sequence.range() {
                let _ = write!(out, ", {first} to {last}, {} missing", topic.sequence.missing());
            }
            out.push('\n');
        }
    }

    /// As JSON.
    pub(super) fn json(&self) -> Value {
        let p = &self.passed;
        let sessions: Vec<Value> = self
            .sessions()
            .map(|(index, s)| {
                let complainers: Vec<Value> = s
                    .complainers
                    .iter()
                    .map(|(who, (packets, sqns))| {
                        json!({
                            "receiver": who.to_string(), "naks": packets, "sqns": sqns,
                        })
                    })
                    .collect();
                let topics: Vec<Value> = self
                    .topics()
                    .filter(|(_, t)| t.session == index)
                    .map(|(_, t)| {
                        json!({
                            "topic": t.name, "index": t.index, "messages": t.messages, "bytes": t.bytes,
                            "first": t.sequence.range().map(|r| r.0), "last": t.sequence.range().map(|r| r.1),
                            "missing": t.sequence.missing(),
                        })
                    })
                    .collect();
                json!({
                    "session": self.book.session_name(index),
                    "datagrams": s.datagrams, "bytes": s.bytes, "messages": s.messages,
                    "first": s.sequence.range().map(|r| r.0), "last": s.sequence.range().map(|r| r.1),
                    "skipped": s.sequence.skipped, "repaired": s.sequence.repaired, "missing": s.sequence.missing(),
                    "duplicates": s.sequence.duplicates, "retransmissions": s.retransmissions,
                    "session_messages": s.state_messages, "naks": s.naks, "nak_sqns": s.nak_sqns,
                    "ncfs": s.ncfs, "ncf_sqns": s.ncf_sqns, "nak_senders": complainers, "topics": topics,
                })
            })
            .collect();
        json!({"summary": {
            "frames": p.frames, "other": p.other, "unknown_link": p.unknown_link, "cut": p.cut, "trains": p.trains,
            "malformed": p.malformed, "incomplete_datagrams": self.incomplete_datagrams, "file_is_cut": self.unread.is_some(), "not_read": self.unread,
            "unread": p.unread, "missing_bytes": p.missing_bytes, "out_of_step_bytes": p.out_of_step,
            "resolution_packets": p.resolution_packets, "queries": p.queries, "adverts": p.adverts,
            "sessions": sessions,
        }})
    }
}

fn missing_text(label: &str, sequence: &Sequence, out: &mut String) {
    let mut runs = sequence.missing_runs();
    let shown: Vec<String> =
        runs.by_ref().take(RUNS).map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") }).collect();
    if !shown.is_empty() {
        let more = if runs.next().is_some() { ", ..." } else { "" };
        let _ = writeln!(out, "{label}{}{more}", shown.join(", "));
    }
}
