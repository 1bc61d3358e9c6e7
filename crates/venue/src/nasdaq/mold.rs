//! `MoldUDP64`: numbered messages in datagrams, by several lines, with requests for what is missing.
//!
//! A packet: session (ten characters), number of its first message, count, and so many messages, each behind its length in two bytes. Count 0
//! is a heartbeat and 0xFFFF the end of the session; both carry the number that comes next. A request is the same twenty bytes with the count
//! that is wanted, sent to a re-request server, which answers with an ordinary packet.

use crate::lines::{LineCounts, Lines};
use crate::sequence::{Arbiter, Change, Counts, Limits, Receiver};

/// Bytes before the messages of a packet.
pub const HEADER: usize = 20;

const END_OF_SESSION: u16 = 0xFFFF;

/// A packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Session, padded with blanks.
    pub session: [u8; 10],
    /// Number of the first message, or of the one that comes next.
    pub sequence: u64,
    /// Messages; 0: heartbeat; 0xFFFF: end of session.
    pub count: u16,
}

impl Header {
    /// Reads a header; `None`: too short.
    pub fn read(packet: &[u8]) -> Option<Self> {
        let bytes = packet.first_chunk::<HEADER>()?;
        let (session, rest) = bytes.split_first_chunk::<10>()?;
        let (sequence, count) = rest.split_first_chunk::<8>()?;
        let count = u16::from_be_bytes(count.try_into().ok()?);
        Some(Self { session: *session, sequence: u64::from_be_bytes(*sequence), count })
    }

    /// The twenty bytes: a request, if `count` is what is wanted.
    pub fn write(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..10].copy_from_slice(&self.session);
        bytes[10..18].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[18..].copy_from_slice(&self.count.to_be_bytes());
        bytes
    }
}

/// Where a packet came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// A multicast line: A is 0, B is 1.
    Feed(u8),
    /// The re-request server.
    Repair,
}

/// Behaviour when the first packet is not the first of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// All from message 1 on is wanted, and asked for.
    Beginning,
    /// Begins with what comes, which is in doubt until a snapshot.
    Live,
}

/// The messages of a packet, as far as they are whole.
pub fn messages(packet: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = packet.get(HEADER..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk::<2>()?;
        let (message, behind) = behind.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        rest = behind;
        Some(message)
    })
}

/// Packets that were wrong, by kind; none of them stops anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BadPackets {
    /// Shorter than a header.
    pub short: u64,
    /// Ends before the messages that it counts; those that are whole were used, the others are missing.
    pub cut: u64,
    /// Goes on behind the messages that it counts.
    pub overlong: u64,
    /// Of a session that is over.
    pub of_an_old_session: u64,
    /// Of another session, or of a number so far ahead, that one packet alone is not believed.
    pub strange: u64,
}

/// A packet that is believed if another continues it.
#[derive(Clone, Copy, Debug)]
struct Strange {
    session: [u8; 10],
    from: u64,
    end: u64,
}

/// A number so far ahead is not believed of one packet: half a minute of the highest rates.
const STRANGE_JUMP: u64 = 1 << 24;

/// A `MoldUDP64` stream from all its lines.
#[derive(Debug)]
pub struct MoldReceiver {
    join: Join,
    session: Option<[u8; 10]>,
    previous: Option<[u8; 10]>,
    strange: Option<Strange>,
    arbiter: Arbiter,
    /// The venue has ended the session.
    is_ending: bool,
    has_ended: bool,
    lines: Lines,
    bad: BadPackets,
}

impl MoldReceiver {
    /// A stream of which no packet has come.
    pub fn new(join: Join, limits: Limits) -> Self {
        Self {
            join,
            session: None,
            previous: None,
            strange: None,
            arbiter: Arbiter::new(1, limits),
            is_ending: false,
            has_ended: false,
            lines: Lines::new(),
            bad: BadPackets::default(),
        }
    }

    /// Takes a packet of a line at time `now` (nanoseconds, never falling).
    #[inline]
    pub fn receive(&mut self, line: Line, packet: &[u8], now: u64, receiver: &mut impl Receiver) {
        let Some(header) = Header::read(packet) else {
            self.bad.short += 1;
            return;
        };
        let is_data = header.count != END_OF_SESSION;
        let count = if is_data { u64::from(header.count) } else { 0 };
        let Some(end) = header.sequence.checked_add(count).filter(|end| *end < u64::MAX) else {
            self.bad.strange += 1;
            return;
        };
        if !self.is_of_the_session(&header, end, receiver) {
            return;
        }
        let new = if is_data { self.messages(&header, &packet[HEADER..], receiver) } else { 0 };
        self.arbiter.exists_until(end);
        self.is_ending |= !is_data;
        if line == Line::Repair && count > 0 {
            self.arbiter.answered_in_part(now);
        }
        self.arbiter.settle(now, receiver);
        if let Line::Feed(line) = line {
            self.lines.note(line, header.sequence, count, new, now);
        }
        self.end_if_whole(receiver);
    }

    /// When [`MoldReceiver::on_timer`] wants to be called.
    pub fn timer(&self) -> Option<u64> {
        self.arbiter.timer()
    }

    /// Tells and asks for what is missing, or gives it up.
    pub fn on_timer(&mut self, now: u64, receiver: &mut impl Receiver) {
        self.arbiter.on_timer(now, receiver);
        self.end_if_whole(receiver);
    }

    /// A request to be sent to the re-request server.
    pub fn poll_request(&mut self) -> Option<[u8; HEADER]> {
        let session = self.session?;
        let wanted = self.arbiter.poll_request()?;
        // 0xFFFF would ask for nothing and mean the end.
        let count = (wanted.end - wanted.start).min(u64::from(END_OF_SESSION) - 1) as u16;
        Some(Header { session, sequence: wanted.start, count }.write())
    }

    /// Holds what comes until [`MoldReceiver::resume`]: a snapshot is being taken.
    pub fn pause(&mut self) {
        self.arbiter.pause();
    }

    /// Goes on behind a snapshot, see [`Arbiter::resume`].
    ///
    /// # Errors
    /// The snapshot is too old.
    pub fn resume(&mut self, next: u64, now: u64, receiver: &mut impl Receiver) -> Result<(), crate::sequence::Stale> {
        self.arbiter.resume(next, now, receiver)
    }

    /// The session's name without the blanks around it; empty before the first packet.
    pub fn session(&self) -> String {
        self.session.map_or_else(String::new, |session| name_of(&session))
    }

    /// Messages are missing or were, or a snapshot is awaited.
    pub fn is_in_doubt(&self) -> bool {
        self.session.is_none() || self.arbiter.is_in_doubt()
    }

    /// Messages were lost, and nothing since has made up for it.
    pub fn is_lost(&self) -> bool {
        self.arbiter.is_lost()
    }

    /// What comes is held until [`MoldReceiver::resume`].
    pub fn is_paused(&self) -> bool {
        self.arbiter.is_paused()
    }

    /// Counters of messages.
    pub fn counts(&self) -> &Counts {
        self.arbiter.counts()
    }

    /// Counters of packets that were wrong.
    pub fn bad(&self) -> &BadPackets {
        &self.bad
    }

    /// Counters of a line.
    pub fn line(&self, line: u8) -> LineCounts {
        self.lines.counts(line)
    }

    /// Number of the next message.
    pub fn next(&self) -> u64 {
        self.arbiter.next()
    }

    /// Gives the messages of a packet to the arbiter; how many were new.
    #[inline]
    fn messages(&mut self, header: &Header, mut rest: &[u8], receiver: &mut impl Receiver) -> u64 {
        let mut new = 0;
        for number in header.sequence..header.sequence + u64::from(header.count) {
            let message = rest
                .split_first_chunk::<2>()
                .and_then(|(length, behind)| behind.split_at_checked(usize::from(u16::from_be_bytes(*length))));
            let Some((message, behind)) = message else {
                self.bad.cut += 1;
                return new;
            };
            new += u64::from(self.arbiter.offer(number, message, receiver));
            rest = behind;
        }
        self.bad.overlong += u64::from(!rest.is_empty());
        new
    }

    /// Whether a packet is to be used; begins a session if it is the first of one.
    #[inline]
    fn is_of_the_session(&mut self, header: &Header, end: u64, receiver: &mut impl Receiver) -> bool {
        let is_near = header.sequence <= self.arbiter.end().saturating_add(STRANGE_JUMP);
        if self.session == Some(header.session) && is_near {
            if self.strange.is_some_and(|strange| strange.session == header.session) {
                self.strange = None;
            }
            return true;
        }
        self.is_believed(header, end, receiver)
    }

    #[cold]
    fn is_believed(&mut self, header: &Header, end: u64, receiver: &mut impl Receiver) -> bool {
        if self.previous == Some(header.session) {
            self.bad.of_an_old_session += 1;
            return false;
        }
        let is_first = self.session.is_none();
        let continues = |strange: Strange| {
            strange.session == header.session
                && header.sequence >= strange.from
                && header.sequence <= strange.end.saturating_add(STRANGE_JUMP)
        };
        // A session that has ended is followed by another: there is no doubt of it.
        let is_believed =
            is_first || self.has_ended && self.session != Some(header.session) || self.strange.is_some_and(continues);
        if !is_believed {
            self.bad.strange += 1;
            self.strange = Some(Strange { session: header.session, from: header.sequence, end });
            return false;
        }
        self.strange = None;
        if self.session != Some(header.session) {
            self.begin(header, receiver);
        }
        true
    }

    fn begin(&mut self, header: &Header, receiver: &mut impl Receiver) {
        let is_live = self.join == Join::Live && self.session.is_none() && header.sequence > 1;
        self.previous = self.session.replace(header.session);
        (self.is_ending, self.has_ended) = (false, false);
        self.lines.forget_times();
        let next = if is_live { header.sequence } else { 1 };
        self.arbiter.begin(next);
        receiver.change(&Change::Session { name: name_of(&header.session), next });
        if is_live {
            self.arbiter.pause();
            receiver.change(&Change::Gap { missing: 1..next });
        }
    }

    fn end_if_whole(&mut self, receiver: &mut impl Receiver) {
        if self.is_ending && !self.has_ended && self.arbiter.next() >= self.arbiter.end() {
            self.has_ended = true;
            receiver.change(&Change::Ended);
        }
    }
}

fn name_of(session: &[u8; 10]) -> String {
    session.trim_ascii().escape_ascii().to_string()
}

/// Writes packets, as a publisher or a re-request server does.
#[derive(Debug)]
pub struct MoldPacket {
    bytes: Vec<u8>,
    count: u16,
}

impl MoldPacket {
    /// A packet without messages, which is a heartbeat.
    pub fn new(session: [u8; 10], sequence: u64) -> Self {
        Self { bytes: Header { session, sequence, count: 0 }.write().to_vec(), count: 0 }
    }

    /// The end of a session, after the message before `next`.
    pub fn end(session: [u8; 10], next: u64) -> Vec<u8> {
        Header { session, sequence: next, count: END_OF_SESSION }.write().to_vec()
    }

    /// Appends a message; false: a message or a packet is not so long.
    pub fn push(&mut self, message: &[u8]) -> bool {
        let Some(length) = u16::try_from(message.len()).ok().filter(|_| self.count < END_OF_SESSION - 1) else {
            return false;
        };
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self.bytes.extend_from_slice(message);
        self.count += 1;
        self.bytes[18..HEADER].copy_from_slice(&self.count.to_be_bytes());
        true
    }

    /// Messages in it.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The packet.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
