//! RSSL sessions out of packet captures.

use super::session::{Session, Sessions, Side, Untaken, hole};
use super::sink::Sink;
use anyhow::anyhow;
use capture::ip::{self, Segment};
use capture::{Fragments, Order, Piece, Reader};
use rssl::handshake::{Answer, ConnectRequest};
use rssl::{Direction, Event, Tap, frame};
use rwf::dictionary::Dictionary;
use rwf::msg::Msg;
use std::collections::HashMap;
use std::io::Read;
use std::net::SocketAddr;

/// No handshake is longer.
const HANDSHAKE_MAX: usize = 1_024;
/// Connections that are followed at once: what a capture has beyond is left out, and told.
const CONNECTIONS_MAX: usize = 100_000;

/// What was found in a capture, and what a recording could not take of it.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// RSSL sessions.
    pub(super) sessions: usize,
    /// TCP connections whose beginning is there and is no RSSL.
    pub(super) others: usize,
    /// TCP connections whose beginning is not there.
    pub(super) from_the_middle: usize,
    /// TCP connections that were too many to follow.
    pub(super) too_many: usize,
    /// Bytes of sessions that are not in the capture, or in no frame.
    pub(super) missing: u64,
    /// Frames whose content cannot be told, such as compressed ones behind a hole.
    pub(super) unreadable: u64,
    /// Messages.
    pub(super) untaken: Untaken,
    /// Faults of the file.
    pub(super) problems: Vec<String>,
}

impl Found {
    /// Lines for the user about what is not in the recording.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = self.problems.clone();
        let mut tell = |count: u64, what: &str| {
            if count > 0 {
                lines.push(format!("{count} {what}"));
            }
        };
        tell(self.others as u64, "TCP connections are no RSSL (encrypted, WebSocket or another protocol)");
        tell(self.from_the_middle as u64, "TCP connections begin before the capture: who asked for what is not known");
        tell(self.too_many as u64, "TCP connections are more than are followed at once");
        tell(self.missing, "bytes of sessions are not in the capture: the recording has gaps there");
        tell(self.unreadable, "frames cannot be read");
        lines.extend(self.untaken.lines());
        lines
    }
}

/// Reads a capture to its end.
///
/// # Errors
/// A text for the user: it is no capture, no session is in it, or the recording cannot be written.
pub(super) fn import(
    input: impl Read,
    length: u64,
    dictionary: &Dictionary,
    sink: &mut Sink<'_>,
) -> anyhow::Result<Found> {
    let mut reader = Reader::new(input)?;
    let (mut all, mut found) = (Sessions::new(dictionary), Found::default());
    let mut connections = HashMap::<(SocketAddr, SocketAddr), Connection>::new();
    let mut fragments = Fragments::default();
    let (mut read, mut wall) = (0_u64, 0);
    loop {
        let frame = match reader.next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            Err(error) => {
                found.problems.push(error.to_string());
                break;
            }
        };
        // Several interfaces of a capture may be out of order by a little: time does not go back in a recording.
        wall = frame.nanos.max(wall);
        read += frame.bytes.len() as u64;
        let Some(mut packet) = ip::of_frame(&frame) else { continue };
        let whole;
        if packet.is_fragment() {
            let Some(payload) = fragments.add(&packet) else { continue };
            whole = payload;
            packet = ip::Ip { offset: 0, more: false, payload: &whole, ..packet };
        }
        let Some(segment) = packet.tcp() else { continue };
        let (low, high) = (segment.source.min(segment.destination), segment.source.max(segment.destination));
        if !connections.contains_key(&(low, high)) && connections.len() >= CONNECTIONS_MAX {
            found.too_many += 1;
            continue;
        }
        let connection = connections.entry((low, high)).or_insert_with(|| Connection::new(all.begin()));
        connection.take(usize::from(segment.source == high), &segment, wall, &mut all, sink, &mut found)?;
        sink.progress(wall, read as f64 / length.max(1) as f64)?;
    }
    let mut connections: Vec<_> = connections.into_iter().collect();
    connections.sort_unstable_by_key(|(ends, _)| *ends);
    for (_, mut connection) in connections {
        connection.finish(wall, &mut all, sink, &mut found)?;
    }
    let left_out = reader.left_out();
    if !left_out.is_none() {
        found.problems.push(left_out.to_string());
    }
    found.untaken = all.untaken;
    if found.sessions == 0 {
        let mut why = found.lines();
        why.insert(0, "no RSSL session is in it; a capture must hold the beginning of the session".to_owned());
        return Err(anyhow!(why.join("; ")));
    }
    Ok(found)
}

/// What a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Nothing has come.
    Unknown,
    /// RSSL; the client is this end.
    Rssl(usize),
    /// Something else.
    Other,
}

/// A TCP connection, both directions.
struct Connection {
    orders: [Order; 2],
    what: What,
    /// Of a direction the first bytes, until it is known what they are.
    first: [Vec<u8>; 2],
    /// Whether a direction's beginning was seen.
    opened: [bool; 2],
    /// Bytes of a direction were missed: frames are looked for where bytes begin that were sent together.
    is_out_of_step: [bool; 2],
    /// Frames cannot be told apart any more.
    is_lost: [bool; 2],
    tap: Tap,
    session: Session,
}

/// A piece that a direction gives, kept until its order is not borrowed any more.
enum Given {
    Opened,
    Bytes(Vec<u8>),
    Hole(u64),
}

impl Connection {
    fn new(session: Session) -> Self {
        Self {
            orders: Default::default(),
            what: What::Unknown,
            first: Default::default(),
            opened: [false; 2],
            is_out_of_step: [false; 2],
            is_lost: [false; 2],
            tap: Tap::new(),
            session,
        }
    }

    fn take(
        &mut self,
        end: usize,
        segment: &Segment<'_>,
        wall: u64,
        all: &mut Sessions,
        sink: &mut Sink<'_>,
        found: &mut Found,
    ) -> anyhow::Result<()> {
        if self.what == What::Other && !segment.opens {
            self.orders[end].pass(segment);
            return Ok(());
        }
        let mut given = Vec::new();
        self.orders[end].take(segment, &mut |piece| given.push(Given::of(piece)));
        for piece in given {
            self.give(end, piece, wall, all, sink, found)?;
        }
        // What a client has not read when it says goodbye comes all the same: the server's end counts.
        if segment.aborts || segment.ends && self.what == What::Rssl(1 - end) {
            self.session.end(wall, all, sink)?;
        }
        Ok(())
    }

    fn give(
        &mut self,
        end: usize,
        piece: Given,
        wall: u64,
        all: &mut Sessions,
        sink: &mut Sink<'_>,
        found: &mut Found,
    ) -> anyhow::Result<()> {
        match piece {
            Given::Opened => {
                // Both directions are opened once; what had bytes before was another connection of the same ports.
                if self.opened[end] {
                    self.session.end(wall, all, sink)?;
                    let orders = std::mem::take(&mut self.orders);
                    *self = Self { orders, ..Self::new(all.begin()) };
                }
                self.opened[end] = true;
                Ok(())
            }
            Given::Bytes(bytes) => self.bytes(end, &bytes, wall, all, sink, found),
            Given::Hole(count) => {
                if let What::Rssl(client) = self.what {
                    found.missing += count + self.tap.unfinished_bytes(direction(end, client)) as u64;
                    self.tap.skip(direction(end, client));
                    self.is_out_of_step[end] = true;
                    hole(wall, count, sink);
                }
                Ok(())
            }
        }
    }

    fn bytes(
        &mut self,
        end: usize,
        bytes: &[u8],
        wall: u64,
        all: &mut Sessions,
        sink: &mut Sink<'_>,
        found: &mut Found,
    ) -> anyhow::Result<()> {
        let whole;
        let bytes = if self.what == What::Unknown {
            self.first[end].extend_from_slice(bytes);
            let Some(what) = what_begins(&self.first[end], end) else { return Ok(()) };
            self.what = what;
            match what {
                What::Rssl(_) => found.sessions += 1,
                _ if self.opened[end] => found.others += 1,
                _ => found.from_the_middle += 1,
            }
            whole = std::mem::take(&mut self.first[end]);
            &whole
        } else {
            bytes
        };
        let What::Rssl(client) = self.what else { return Ok(()) };
        if self.is_lost[end] {
            found.missing += bytes.len() as u64;
            return Ok(());
        }
        if self.is_out_of_step[end] {
            if !frame::begins_frames(bytes, |message| Msg::decode(message).is_ok()) {
                found.missing += bytes.len() as u64;
                return Ok(());
            }
            self.is_out_of_step[end] = false;
        }
        self.messages(end, client, bytes, wall, all, sink, found)
    }

    #[allow(clippy::too_many_arguments, reason = "a piece of a direction, and where its messages go")]
    fn messages(
        &mut self,
        end: usize,
        client: usize,
        bytes: &[u8],
        wall: u64,
        all: &mut Sessions,
        sink: &mut Sink<'_>,
        found: &mut Found,
    ) -> anyhow::Result<()> {
        let Self { tap, session, .. } = self;
        let side = if end == client { Side::Client } else { Side::Server };
        let mut result = Ok(());
        let fed = tap.feed(direction(end, client), bytes, |event| match event {
            Event::Message(message) if result.is_ok() => result = session.message(side, wall, message, all, sink),
            Event::Unreadable(_) => found.unreadable += 1,
            _ => {}
        });
        result?;
        if let Err(closed) = fed {
            self.is_lost[end] = true;
            found.problems.push(format!("a session cannot be read to its end: {closed}"));
            self.session.end(wall, all, sink)?;
        }
        Ok(())
    }

    /// Nothing more comes: what still waits behind a hole.
    fn finish(&mut self, wall: u64, all: &mut Sessions, sink: &mut Sink<'_>, found: &mut Found) -> anyhow::Result<()> {
        for end in 0..2 {
            let mut given = Vec::new();
            self.orders[end].finish(&mut |piece| given.push(Given::of(piece)));
            for piece in given {
                self.give(end, piece, wall, all, sink, found)?;
            }
        }
        Ok(())
    }
}

impl Given {
    fn of(piece: Piece<'_>) -> Self {
        match piece {
            Piece::Opened => Self::Opened,
            Piece::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            Piece::Hole(count) => Self::Hole(count),
        }
    }
}

fn direction(end: usize, client: usize) -> Direction {
    if end == client { Direction::ToServer } else { Direction::ToClient }
}

/// What a connection is by the first bytes of a direction; `None`: more of them must come.
fn what_begins(bytes: &[u8], end: usize) -> Option<What> {
    let whole = match frame::length(bytes) {
        Ok(Some(length)) if length <= bytes.len() => &bytes[..length],
        Ok(Some(length)) if length > HANDSHAKE_MAX => return Some(What::Other),
        Ok(_) => return None,
        Err(_) => return Some(What::Other),
    };
    if ConnectRequest::decode(whole).is_ok() {
        return Some(What::Rssl(end));
    }
    let accepts = |key: &bool| matches!(Answer::decode(whole, *key), Ok(Answer::Ack(_)));
    Some(if [true, false].iter().any(accepts) { What::Rssl(1 - end) } else { What::Other })
}
