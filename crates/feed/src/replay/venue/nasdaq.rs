//! Days of Nasdaq TotalView-ITCH 5.0: day files, and captures of `MoldUDP64`.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use market::ReadBooks;
use venue::lines::LINES;
use venue::nasdaq::DayFile;
use venue::nasdaq::itch::Message;
use venue::nasdaq::mold::{self, Header, Join, Line, MoldReceiver};

use super::board::Board;
use super::bytes::Bytes;
use super::datagrams::Datagrams;
use super::input::{Input, LIMITS};
use super::itch::ItchMessages;
use super::messages::Messages;
use super::queue::{Next, Queue};
use crate::session::Nanos;

/// A day that is being read.
pub(super) struct Nasdaq {
    source: Source,
    queue: Queue,
    /// Steps until the queue is looked ahead at again.
    looked_at: usize,
    messages: ItchMessages,
    /// The day's date is known; of a capture it is that of the packets.
    is_dated: bool,
    now: u64,
}

enum Source {
    Day { bytes: Bytes, file: DayFile, piece: Vec<u8>, has_ended: bool },
    Mold(Box<MoldCapture>),
}

struct MoldCapture {
    datagrams: Datagrams,
    receiver: MoldReceiver,
    /// Groups that carry the feed.
    lines: Vec<SocketAddr>,
    /// Datagrams of other groups.
    foreign: u64,
    /// Packets of which the capture has a part.
    short: u64,
    /// The last packet of another session.
    unbelieved: Vec<u8>,
    has_ended: bool,
}

/// Messages at the beginning of a file that tell what it is, as far as the beginning has them whole.
const HELD_TO: usize = 8;
/// Messages that are looked ahead at together.
const TOGETHER: usize = 64;
/// Longer messages are of no version: two letters are a length, too.
const LONGEST: usize = 128;

/// Whether the beginning of a file is that of a day file: lengths that messages have, and behind most of them messages of known types. One that cannot be
/// read makes no file another one: it is counted when the file is played.
pub(super) fn is_day_file(head: &[u8]) -> bool {
    let (mut rest, mut good, mut bad) = (head, 0, 0);
    for _ in 0..HELD_TO {
        let Some((length, behind)) = rest.split_first_chunk::<2>() else { break };
        let length = usize::from(u16::from_be_bytes(*length));
        if length > LONGEST {
            return false;
        }
        // A file that is shorter, or a message that is not whole yet.
        let Some((message, behind)) = behind.split_at_checked(length) else { break };
        // Nothing is the end of a session.
        if !message.is_empty() {
            *(if Message::decode(message).is_ok() { &mut good } else { &mut bad }) += 1;
        }
        rest = behind;
    }
    good > bad
}

/// Whether a datagram is of `MoldUDP64` with ITCH in it, or a sign of life of such a session.
pub(super) fn is_mold(payload: &[u8]) -> bool {
    let Some(header) = Header::read(payload) else { return false };
    let is_text = header.session.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    let is_silent = header.count == 0 || header.count == 0xFFFF;
    let is_like_a_day = || is_day_file(&payload[20..]) || is_filled(payload, &header);
    is_text && header.sequence > 0 && (is_silent && payload.len() == 20 || is_like_a_day())
}

/// Whether a packet is filled by the messages that it counts, of which one at least can be read.
fn is_filled(payload: &[u8], header: &Header) -> bool {
    let all: Vec<&[u8]> = mold::messages(payload).collect();
    let filled = 20 + all.iter().map(|message| 2 + message.len()).sum::<usize>();
    filled == payload.len()
        && all.len() == usize::from(header.count)
        && all.iter().any(|message| Message::decode(message).is_ok())
}

impl Nasdaq {
    /// Opens a day file.
    pub(super) fn day_file(path: &Path, date: u32) -> io::Result<Self> {
        let source =
            Source::Day { bytes: Bytes::open(path)?, file: DayFile::new(), piece: Vec::new(), has_ended: false };
        Ok(Self::new(source, Some(date)))
    }

    /// Opens a capture.
    pub(super) fn capture(path: &Path) -> io::Result<Self> {
        let source = Source::Mold(Box::new(MoldCapture {
            datagrams: Datagrams::open(path)?,
            receiver: MoldReceiver::new(Join::Beginning, LIMITS),
            lines: Vec::new(),
            foreign: 0,
            short: 0,
            unbelieved: Vec::new(),
            has_ended: false,
        }));
        Ok(Self::new(source, None))
    }

    fn new(source: Source, date: Option<u32>) -> Self {
        let messages = date.map_or_else(ItchMessages::default, ItchMessages::of_date);
        let mut new =
            Self { source, queue: Queue::default(), looked_at: 0, messages, is_dated: date.is_some(), now: 0 };
        new.fill();
        new
    }

    /// Reads until there is a message, or the end.
    fn fill(&mut self) {
        while self.queue.is_empty() {
            let goes_on = match &mut self.source {
                Source::Day { bytes, file, piece, has_ended } => {
                    *has_ended = *has_ended || !bytes.next(piece);
                    if !*has_ended {
                        file.read(piece, |message| self.queue.push(message));
                    }
                    !*has_ended
                }
                Source::Mold(mold) => {
                    let goes_on = mold.next(&mut self.queue);
                    if let (false, Some(at)) = (self.is_dated, goes_on) {
                        self.is_dated = true;
                        self.messages.set_date(at);
                        // Until the first message tells its time.
                        self.now = at;
                    }
                    goes_on.is_some()
                }
            };
            if !goes_on {
                return;
            }
        }
        self.now = self.queue.first_message().and_then(|message| self.messages.time(message)).unwrap_or(self.now);
    }
}

impl MoldCapture {
    /// Takes the next datagram; its time, or `None` at the end, when all that waited has been given up.
    fn next(&mut self, queue: &mut Queue) -> Option<u64> {
        if self.has_ended {
            return None;
        }
        let Some(datagram) = self.datagrams.next() else {
            // Nothing follows: what is missing is lost.
            while let Some(at) = self.receiver.timer() {
                self.receiver.on_timer(at, queue);
                let _unanswered = self.receiver.poll_request();
            }
            self.has_ended = true;
            return Some(0).filter(|_| !queue.is_empty());
        };
        while let Some(at) = self.receiver.timer().filter(|at| *at <= datagram.at) {
            self.receiver.on_timer(at, queue);
            let _unanswered = self.receiver.poll_request();
        }
        let payload = self.datagrams.payload();
        let known = self.lines.iter().position(|line| *line == datagram.destination);
        let line = known.or_else(|| {
            let session = Header::read(payload).map(|header| name_of(&header.session));
            let is_ours = is_mold(payload) && (self.lines.is_empty() || session == Some(self.receiver.session()));
            is_ours.then(|| {
                self.lines.push(datagram.destination);
                self.lines.len() - 1
            })
        });
        match line {
            Some(line) => {
                self.short += u64::from(datagram.missing > 0 && !self.datagrams.is_cut());
                let line = Line::Feed(line.min(LINES - 1) as u8);
                let before = self.receiver.session();
                self.receiver.receive(line, payload, datagram.at, queue);
                let is_other = Header::read(payload).is_some_and(|header| name_of(&header.session) != before);
                if before != self.receiver.session() {
                    // A single packet of another session is not believed, and the one that confirms it does not have its messages.
                    self.receiver.receive(line, &std::mem::take(&mut self.unbelieved), datagram.at, queue);
                } else if is_other {
                    self.unbelieved = payload.to_vec();
                }
            }
            None => self.foreign += 1,
        }
        Some(datagram.at)
    }
}

fn name_of(session: &[u8; 10]) -> String {
    String::from_utf8_lossy(session).trim().to_owned()
}

impl Input for Nasdaq {
    fn next_at(&self) -> Option<u64> {
        (!self.queue.is_empty()).then_some(self.now)
    }

    fn step(&mut self, board: &mut Board) {
        if self.looked_at == 0 {
            self.messages.look_ahead(&mut self.queue.messages().take(TOGETHER));
            self.looked_at = TOGETHER.min(self.queue.len());
        }
        self.looked_at = self.looked_at.saturating_sub(1);
        match self.queue.pop() {
            Some(Next::Message(range)) => self.messages.apply(self.queue.bytes(range), self.now, board),
            Some(Next::Change(change)) => self.messages.change(&change, board),
            None => {}
        }
        self.fill();
    }

    fn settles_itself(&self) -> bool {
        true
    }

    fn is_at_traffic(&self) -> bool {
        let Some(Next::Message(range)) = self.queue.front() else { return false };
        self.messages.is_traffic(self.queue.bytes(range.clone()))
    }

    fn books(&self) -> &dyn ReadBooks {
        self.messages.books()
    }

    fn at_clock(&self, since_midnight: Nanos) -> u64 {
        self.messages.midnight() + since_midnight
    }

    fn messages(&self) -> u64 {
        self.messages.count()
    }

    fn unread(&self) -> Option<String> {
        match &self.source {
            Source::Day { bytes, file, has_ended, .. } => {
                let torn = (*has_ended && file.torn() > 0)
                    .then(|| format!("the last message is torn: {} bytes of it are there", file.torn()));
                bytes.trouble().map(str::to_owned).or(torn)
            }
            Source::Mold(mold) => mold.datagrams.trouble().or_else(|| {
                (mold.short > 0).then(|| format!("{} packets were captured in part (snap length)", mold.short))
            }),
        }
    }

    fn remarks(&self) -> Option<String> {
        let mut texts = Vec::new();
        if let Source::Mold(mold) = &self.source {
            let counts = mold.receiver.counts();
            if counts.gaps > 0 {
                let (gaps, repairs, lost) = (counts.gaps, counts.repairs, counts.lost);
                texts.push(format!("gaps {gaps}, repaired {repairs}, messages that are not in the capture {lost}"));
            }
            if mold.foreign > 0 {
                texts.push(format!("{} datagrams of other feeds were left out", mold.foreign));
            }
        }
        let bad = self.messages.bad().into_iter().filter(|(_, count)| *count > 0);
        texts.extend(bad.map(|(kind, count)| format!("{kind}: {count}")));
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}
