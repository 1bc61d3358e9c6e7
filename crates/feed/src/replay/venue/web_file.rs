//! Recorded connections to venues on the web: one text a line, with when it came.
//!
//! `SECONDS: TEXT` came, `URL <- SECONDS: TEXT` was sent, `URL <-> SECONDS` is a connection, and `URL -> SECONDS: BODY` what was fetched.

use std::io;
use std::path::Path;

use super::board::Board;
use super::bytes::Bytes;
use super::input::Input;
use super::web::{At, WebItems, WebKind};
use crate::session::{DAY, Nanos};
use market::ReadBooks;

/// A longer line is of no recording.
const LONGEST: usize = 64 << 20;

/// A line that was read.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    /// Nanoseconds since 1970.
    at: u64,
    what: What,
    /// What came, was sent or fetched.
    text: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Connected,
    Sent,
    Came,
    /// With its path and query.
    Fetched(String),
}

/// The lines of a file.
struct Lines {
    bytes: Bytes,
    piece: Vec<u8>,
    /// How much of the piece has been taken.
    taken: usize,
    line: Vec<u8>,
    next: Option<Line>,
    has_ended: bool,
    /// Lines that are none of these.
    strange: u64,
    is_torn: bool,
}

impl Lines {
    fn open(path: &Path) -> io::Result<Self> {
        let mut new = Self {
            bytes: Bytes::open(path)?,
            piece: Vec::new(),
            taken: 0,
            line: Vec::new(),
            next: None,
            has_ended: false,
            strange: 0,
            is_torn: false,
        };
        new.fill();
        Ok(new)
    }

    /// Reads a line; false at the end.
    fn read(&mut self) -> bool {
        self.line.clear();
        loop {
            let rest = &self.piece[self.taken..];
            if let Some(end) = memchr(rest) {
                self.line.extend_from_slice(&rest[..end]);
                self.taken += end + 1;
                return true;
            }
            self.line.extend_from_slice(rest);
            self.taken = 0;
            if self.line.len() > LONGEST {
                self.line.clear();
                self.strange += 1;
            }
            if !self.bytes.next(&mut self.piece) {
                // A last line without an end is whole, unless the file is cut.
                self.is_torn = self.bytes.trouble().is_some() && !self.line.is_empty();
                return !self.line.is_empty() && !self.is_torn;
            }
        }
    }

    fn fill(&mut self) {
        self.next = None;
        while self.next.is_none() && !self.has_ended {
            if !self.read() {
                self.has_ended = true;
                return;
            }
            self.next = parse(&self.line);
            self.strange += u64::from(self.next.is_none() && !self.line.trim_ascii().is_empty());
        }
    }
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}

/// Nanoseconds of seconds in decimal.
fn nanos(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = part.len() <= 9 && part.bytes().all(|byte| byte.is_ascii_digit());
    let part = if part.is_empty() { 0 } else { part.parse::<u64>().ok()? * 10u64.pow(9 - part.len() as u32) };
    whole.parse::<u64>().ok().filter(|_| is_number)?.checked_mul(1_000_000_000)?.checked_add(part)
}

fn parse(line: &[u8]) -> Option<Line> {
    let text = std::str::from_utf8(line).ok()?.trim_end();
    let timed = |text: &str, what| {
        let (at, text) = text.split_once(": ")?;
        Some(Line { at: nanos(at)?, what, text: text.as_bytes().to_vec() })
    };
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return timed(text, What::Came);
    }
    let (url, rest) = text.split_once(' ')?;
    if let Some(at) = rest.strip_prefix("<-> ") {
        return Some(Line { at: nanos(at)?, what: What::Connected, text: Vec::new() });
    }
    if let Some(rest) = rest.strip_prefix("<- ") {
        return timed(rest, What::Sent);
    }
    let path = url.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..]))?;
    timed(rest.strip_prefix("-> ")?, What::Fetched(path.to_owned()))
}

/// The venue of a recording, by the server that its beginning names; `None`: it is none.
pub(super) fn kind_of(head: &[u8]) -> Option<WebKind> {
    let mut lines = head.split(|byte| *byte == b'\n').take(64).filter(|line| line.len() < 4_096);
    lines.find_map(|line| {
        let (url, rest) = std::str::from_utf8(line).ok()?.split_once(' ')?;
        let is_ours = ["<-> ", "<- ", "-> "].iter().any(|mark| rest.starts_with(mark));
        let host = url.split_once("://")?.1.split(['/', ':']).next()?;
        WebKind::of_host(host).filter(|_| is_ours)
    })
}

/// A recording that is read, and what was fetched beside it.
pub(super) struct WebFile {
    files: Vec<Lines>,
    items: Box<dyn WebItems>,
    is_connected: bool,
    now: u64,
}

impl WebFile {
    /// Opens a recording, and one of what was fetched meanwhile if that is in another file.
    pub(super) fn open(path: &Path, beside: Option<&Path>, kind: WebKind) -> io::Result<Self> {
        let files = [Some(path), beside].into_iter().flatten().map(Lines::open).collect::<io::Result<Vec<_>>>()?;
        let mut new = Self { files, items: kind.items(&[]), is_connected: false, now: 0 };
        new.now = new.next().map_or(0, |line| line.at);
        Ok(new)
    }

    fn next(&self) -> Option<&Line> {
        self.files.iter().filter_map(|file| file.next.as_ref()).min_by_key(|line| line.at)
    }
}

impl Input for WebFile {
    fn next_at(&self) -> Option<u64> {
        self.next().map(|_| self.now)
    }

    fn step(&mut self, board: &mut Board) {
        let first = self.files.iter_mut().filter(|file| file.next.is_some());
        let Some(file) = first.min_by_key(|file| file.next.as_ref().map_or(u64::MAX, |line| line.at)) else { return };
        let Some(Line { at, what, text }) = file.next.take() else { return };
        file.fill();
        let at = At { now: at, wall: at };
        match what {
            What::Connected => {
                if std::mem::replace(&mut self.is_connected, true) {
                    self.items.disconnected(at, board);
                }
                self.items.connected(at.now);
            }
            What::Sent => self.items.recorded(&text, board),
            What::Came => drop(self.items.text(&text, at, board)),
            What::Fetched(path) => self.items.answer(&path, &text, at, board),
        }
        // Nobody can be asked.
        while self.items.poll().is_some() {}
        self.now = self.next().map_or(self.now, |line| line.at.max(self.now));
    }

    fn settles_itself(&self) -> bool {
        true
    }

    fn is_at_traffic(&self) -> bool {
        self.next().is_some_and(|line| matches!(line.what, What::Came | What::Fetched(_)))
    }

    fn books(&self) -> &dyn ReadBooks {
        self.items.books()
    }

    fn at_clock(&self, since_midnight: Nanos) -> u64 {
        self.now / DAY * DAY + since_midnight
    }

    fn messages(&self) -> u64 {
        self.items.messages()
    }

    fn unread(&self) -> Option<String> {
        self.files.iter().find_map(|file| {
            let torn = file.is_torn.then(|| "the last line is torn".to_owned());
            file.bytes.trouble().map(str::to_owned).or(torn)
        })
    }

    fn remarks(&self) -> Option<String> {
        let (products, good) = self.items.good();
        let mut texts = Vec::new();
        if good < products && self.next().is_none() {
            texts
                .push(format!("{} of {products} books have no beginning in it, or none behind a gap", products - good));
        }
        let strange: u64 = self.files.iter().map(|file| file.strange).sum();
        let kinds = self.items.bad().into_iter().chain([("lines of another kind".to_owned(), strange)]);
        texts.extend(kinds.filter(|(_, count)| *count > 0).map(|(kind, count)| format!("{kind}: {count}")));
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_recording_are_told_apart() {
        let read = |text: &str| parse(text.as_bytes()).map(|line| (line.at, line.what, line.text.len()));
        assert_eq!(read("1618677817.0618958: {}"), Some((1_618_677_817_061_895_800, What::Came, 2)));
        assert_eq!(read("wss://ws.kraken.com <-> 7"), Some((7_000_000_000, What::Connected, 0)));
        assert_eq!(read("wss://ws.kraken.com <- 7.5: {}"), Some((7_500_000_000, What::Sent, 2)));
        let fetched = What::Fetched("/a?b=c".to_owned());
        assert_eq!(read("https://h.net/a?b=c -> 7: []"), Some((7_000_000_000, fetched, 2)));
        for none in ["", "configuration: {}", "x: {}", "1.2.3: {}", "7", "https://h.net -> 7: []"] {
            assert_eq!(read(none), None, "{none}");
        }
        assert_eq!(kind_of(b"\nwss://futures.kraken.com/ws/v1 <-> 7\n"), Some(WebKind::KrakenFutures));
        assert_eq!(kind_of(b"wss://ws.kraken.com:443 <-> 7\n"), Some(WebKind::Kraken));
        assert_eq!(kind_of(b"wss://ws.kraken.com.net <-> 7\n"), None);
    }
}
