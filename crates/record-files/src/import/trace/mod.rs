//! Traces of the SDK for Java (`XmlTraceToFile` of EMA, the trace of ETA's reactor): each message as a tree of elements, behind comments that say who sent
//! it and when.
//!
//! They look like XML and are none: a state and a quality of service stand between attributes without a name, and quotes within values are not escaped
//! everywhere. Fields have the bytes that came, other values are texts. Times are seconds.

mod encode;
mod tree;

use super::session::{Session, Sessions, Side};
use super::sink::Sink;
use anyhow::anyhow;
use rwf::dictionary::Dictionary;
use std::collections::HashMap;
use std::io::{BufRead, Read as _};

/// Text of the longest message that is read, bytes.
const TEXT_MAX: usize = 16 << 20;
/// Channels of a trace, at most.
const CHANNELS_MAX: usize = 10_000;
const SECOND: u64 = 1_000_000_000;
/// What is in the first bytes of a trace.
const MARKS: [&str; 2] = ["<!-- Outgoing Reactor message -->", "<!-- Incoming Reactor message -->"];

/// Whether a file is a trace, by its first bytes.
pub(super) fn is_one(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    MARKS.iter().any(|mark| text.contains(mark))
}

/// What is not in the recording.
#[derive(Debug, Default)]
struct LeftOut {
    /// Messages of classes that are not read.
    classes: u64,
    /// Messages that could not be made again, and why the first could not.
    unmade: u64,
    why: Option<String>,
    /// Elements of lists whose values a trace does not tell so that they could be made again.
    elements: u64,
    /// Messages without a time before them.
    timeless: u64,
    /// Names of time zones that are taken for UTC.
    zone: Option<String>,
}

impl LeftOut {
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.unmade > 0 {
            let why = self.why.as_deref().unwrap_or_default();
            lines.push(format!("{} messages cannot be made again of the trace, the first: {why}", self.unmade));
        }
        for (count, what) in [
            (self.classes, "posts, acks and generic messages"),
            (self.elements, "elements of lists, whose values a trace does not tell whole"),
            (self.timeless, "messages without a time"),
        ] {
            if count > 0 {
                lines.push(format!("{count} {what}"));
            }
        }
        if let Some(zone) = &self.zone {
            lines.push(format!("the time zone {zone}, which is taken for UTC"));
        }
        lines
    }
}

/// Reads a trace to its end. Gives what was left out.
///
/// # Errors
/// A text for the user: it cannot be read, no message is in it, or the recording cannot be written.
pub(super) fn import(
    mut input: impl BufRead,
    length: u64,
    dictionary: &Dictionary,
    sink: &mut Sink<'_>,
) -> anyhow::Result<Vec<String>> {
    let mut reader = Reader { all: Sessions::new(dictionary), ..Reader::default() };
    let (mut line, mut done) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        let read = (&mut input).take(TEXT_MAX as u64).read_until(b'\n', &mut line)?;
        done += read as u64;
        if read == 0 {
            break;
        }
        reader.line(&String::from_utf8_lossy(&line), sink)?;
        sink.progress(reader.wall.unwrap_or(0), done as f64 / length.max(1) as f64)?;
    }
    if !reader.text.is_empty() {
        reader.left_out.unmade += 1;
        reader.left_out.why.get_or_insert_with(|| "the trace is cut off within it".to_owned());
    }
    let mut lines = reader.left_out.lines();
    lines.extend(reader.all.untaken.lines());
    if reader.messages == 0 {
        lines.insert(0, "no message is in it".to_owned());
        return Err(anyhow!(lines.join("; ")));
    }
    Ok(lines)
}

/// A trace, line by line.
#[derive(Default)]
struct Reader {
    all: Sessions,
    channels: HashMap<String, Session>,
    left_out: LeftOut,
    side: Option<Side>,
    channel: String,
    wall: Option<u64>,
    /// The message that is being read, and its element's name.
    text: String,
    name: String,
    messages: u64,
}

impl Reader {
    fn line(&mut self, line: &str, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        if !self.text.is_empty() {
            self.text.push_str(line);
            if self.text.len() > TEXT_MAX {
                self.skip("it is longer than a message can be");
            } else if is_end(line, &self.name) {
                self.message(sink)?;
                self.text.clear();
            }
            return Ok(());
        }
        if let Some(comment) = line.trim().strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->")) {
            self.comment(comment.trim());
        } else if let Some(name) = message_name(line) {
            name.clone_into(&mut self.name);
            self.text.push_str(line);
        }
        Ok(())
    }

    fn comment(&mut self, comment: &str) {
        if comment.starts_with("Outgoing") {
            (self.side, self.wall) = (Some(Side::Client), None);
        } else if comment.starts_with("Incoming") {
            (self.side, self.wall) = (Some(Side::Server), None);
        } else if comment.contains("local=") && comment.contains("remote=") {
            comment.clone_into(&mut self.channel);
        } else if let Some((wall, zone)) = moment(comment) {
            // Time does not go back in a recording.
            self.wall = Some(wall);
            if !matches!(zone, "UTC" | "GMT") {
                self.left_out.zone.get_or_insert_with(|| zone.to_owned());
            }
        }
    }

    fn message(&mut self, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        let Some((wall, side)) = self.wall.zip(self.side) else {
            self.left_out.timeless += 1;
            return Ok(());
        };
        let made = tree::parse(&self.text).and_then(|root| encode::message(&root, &mut self.left_out.elements));
        let message = match made {
            Ok(Some(message)) => message,
            Ok(None) => {
                self.left_out.classes += 1;
                return Ok(());
            }
            Err(why) => {
                self.skip(&why);
                return Ok(());
            }
        };
        if !self.channels.contains_key(&self.channel) {
            if self.channels.len() >= CHANNELS_MAX {
                return Err(anyhow!("it has more than {CHANNELS_MAX} channels"));
            }
            self.channels.insert(self.channel.clone(), self.all.begin());
        }
        self.messages += 1;
        match self.channels.get_mut(&self.channel) {
            Some(session) => session.message(side, wall, &message, &mut self.all, sink),
            None => Ok(()),
        }
    }

    fn skip(&mut self, why: &str) {
        self.left_out.unmade += 1;
        let first: String = self.text.chars().take(120).collect();
        self.left_out.why.get_or_insert_with(|| format!("{why}: {}", first.trim()));
        self.text.clear();
    }
}

/// The element's name of a line with which a message begins.
fn message_name(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('<')?;
    let name = &rest[..rest.find(|c: char| !c.is_ascii_alphabetic())?];
    let is_message = !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase()) && line.contains("domainType=");
    is_message.then_some(name)
}

fn is_end(line: &str, name: &str) -> bool {
    line.trim().strip_prefix("</").and_then(|rest| rest.strip_suffix('>')) == Some(name)
}

/// The time that Java writes, `Sun Nov 29 17:16:21 UTC 2026`, as if it were UTC: nanoseconds since 1970; and its time zone.
fn moment(text: &str) -> Option<(u64, &str)> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, month, day, clock, zone, year] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    let wall = crate::when::parse(&format!("{year}-{month:02}-{:02}T{clock}Z", day.parse::<u8>().ok()?)).ok()?;
    (wall % SECOND == 0).then_some((wall, zone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_that_java_writes() {
        assert_eq!(moment("Sun Nov 29 17:16:21 UTC 2026"), Some((1_795_972_581 * SECOND, "UTC")));
        for wrong in ["", "Sun Nov 29 17:16:21 2026", "Sun Nov 32 17:16:21 UTC 2026", "rwfMajorVer=\"14\""] {
            assert_eq!(moment(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn messages_begin_with_their_class() {
        assert_eq!(message_name("<UPDATE domainType=\"X\" streamId=\"3\">"), Some("UPDATE"));
        assert_eq!(message_name("    <fieldList flags=\"0x08\">"), None);
        assert!(is_end("</UPDATE>\n", "UPDATE") && !is_end("</key>", "UPDATE"));
    }
}
