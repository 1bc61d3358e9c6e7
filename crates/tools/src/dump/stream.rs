//! One direction of an RSSL connection, frame by frame.

use super::sheet::Sheet;
use rssl::frame::{self, Frame, Kind, Packed};
use rssl::handshake::{Answer, ConnectRequest};
use rssl::{ClientConfig, Connection, ServerConfig};
use rwf::msg::Msg;
use std::collections::HashMap;

/// Whether the bytes are whole frames from end to end.
pub(super) fn is_whole_frames(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match frame::length(bytes) {
            Ok(Some(length)) if length <= bytes.len() => bytes = &bytes[length..],
            _ => return false,
        }
    }
    true
}

/// Writes every frame: its place, its kind, and the messages that end in it.
pub(super) fn show(bytes: &[u8], sheet: &mut Sheet<'_>) {
    let mut direction = Direction::default();
    direction.take(bytes, sheet);
    if direction.unread() > 0 {
        sheet.problem(format!("{} bytes from {:08x} on are no frames", direction.unread(), direction.at));
    }
    if let Some(left) = direction.end(sheet) {
        sheet.problem(format!("the last frame is cut off: {left} bytes are left"));
    }
}

/// One direction of a connection, as its bytes come.
#[derive(Default)]
pub(super) struct Direction {
    reader: Option<Reader>,
    /// The rest of a frame that is not whole yet.
    rest: Vec<u8>,
    /// Bytes before `rest`.
    at: usize,
    /// The bytes are no frame: nothing more can be read.
    lost: bool,
    /// Bytes were missed: frames are looked for where bytes begin that were sent together.
    out_of_step: bool,
    /// Bytes in which no frame was found.
    unread: usize,
}

impl Direction {
    /// A direction whose beginning is not known: it may begin within a frame.
    pub(super) fn from_the_middle() -> Self {
        Self { out_of_step: true, ..Self::default() }
    }

    /// Bytes in which no frame was found.
    pub(super) fn unread(&self) -> usize {
        self.unread + if self.lost { self.rest.len() } else { 0 }
    }

    /// Whether anything came.
    pub(super) fn has_begun(&self) -> bool {
        self.at > 0 || !self.rest.is_empty()
    }

    /// Takes the next bytes.
    pub(super) fn take(&mut self, bytes: &[u8], sheet: &mut Sheet<'_>) {
        if self.out_of_step {
            if !frame::begins_frames(bytes, |message| Msg::decode(message).is_ok()) {
                sheet.note(&format!("{:08x}  !! {} bytes, in which no frame begins", self.at, bytes.len()));
                self.at += bytes.len();
                self.unread += bytes.len();
                return;
            }
            self.out_of_step = false;
            self.reader.get_or_insert_with(Reader::bare);
        }
        self.rest.extend_from_slice(bytes);
        let mut from = 0;
        while !self.lost && from < self.rest.len() {
            let rest = &self.rest[from..];
            let length = match frame::length(rest) {
                Ok(Some(length)) if length <= rest.len() => length,
                Ok(_) => break,
                Err(what) => {
                    sheet.note(&format!("{:08x}  !! {what}", self.at + from));
                    self.lost = true;
                    break;
                }
            };
            let whole = &rest[..length];
            let reader = self.reader.get_or_insert_with(|| Reader::of(whole));
            sheet.note(&format!("{:08x}  {length} bytes: {}", self.at + from, reader.describe(whole)));
            reader.messages(whole, sheet);
            from += length;
        }
        self.rest.drain(..from);
        self.at += from;
    }

    /// Bytes are missing here: what comes next may begin within a frame.
    pub(super) fn skip(&mut self, count: usize, sheet: &mut Sheet<'_>) {
        sheet.note(&format!("{:08x}  !! {count} bytes are missing", self.at + self.rest.len()));
        self.at += self.rest.len() + count;
        self.unread += self.rest.len();
        self.rest.clear();
        (self.out_of_step, self.lost) = (true, false);
    }

    /// Nothing more comes. Returns the bytes of a last frame that is not whole.
    pub(super) fn end(&self, sheet: &mut Sheet<'_>) -> Option<usize> {
        let left = Some(self.rest.len()).filter(|left| *left > 0 && !self.lost)?;
        sheet.note(&format!("{:08x}  !! the last frame is cut off: {left} bytes are left", self.at));
        Some(left)
    }
}

/// How the payloads are got at.
enum Reader {
    /// A session that replays the handshake, so that compression is undone: the recording begins with one.
    Session { session: Box<Connection>, from_client: bool },
    /// No handshake in the recording: frames of the newest version, not compressed.
    Bare { unfinished: HashMap<u16, (usize, Vec<u8>)> },
}

impl Reader {
    fn of(bytes: &[u8]) -> Self {
        let first = frame::length(bytes).ok().flatten().and_then(|length| bytes.get(..length)).unwrap_or_default();
        let mut unused = Vec::new();
        if let Ok(request) = ConnectRequest::decode(first) {
            let config = ServerConfig { protocol_type: request.protocol_type, ..ServerConfig::default() };
            let mut session = Connection::server(config);
            session.start(0, &mut unused);
            return Self::Session { session: Box::new(session), from_client: true };
        }
        for key_exchange in [true, false] {
            if let Ok(Answer::Ack(_)) = Answer::decode(first, key_exchange) {
                let mut session = Connection::client(ClientConfig { key_exchange, ..ClientConfig::default() });
                session.start(0, &mut unused);
                // The answer may be for a lower version than was offered here.
                return Self::Session { session: Box::new(session), from_client: false };
            }
        }
        Self::bare()
    }

    fn bare() -> Self {
        Self::Bare { unfinished: HashMap::new() }
    }

    fn describe(&self, whole: &[u8]) -> String {
        if let Self::Session { session, from_client } = self
            && !session.is_connected()
        {
            return describe_handshake(whole, *from_client);
        }
        match frame::parse(whole, true) {
            Ok(Frame { kind, compressed, .. }) => {
                let name = match kind {
                    Kind::Ping => "ping".to_owned(),
                    Kind::Data => "data".to_owned(),
                    Kind::Packed => "packed data".to_owned(),
                    Kind::FirstFragment { total, id } => format!("first fragment {id} of a message of {total} bytes"),
                    Kind::NextFragment { id } => format!("next fragment {id}"),
                };
                format!("{name}{}", if compressed { ", compressed" } else { "" })
            }
            Err(what) => format!("!! {what}"),
        }
    }

    fn messages(&mut self, whole: &[u8], sheet: &mut Sheet<'_>) {
        match self {
            Self::Session { session, .. } => {
                let mut answers = Vec::new();
                if let Err(closed) = session.receive(0, whole, &mut answers, sheet) {
                    sheet.note(&format!("!! {closed}; what follows is read without the handshake"));
                    *self = Self::Bare { unfinished: HashMap::new() };
                }
            }
            Self::Bare { unfinished } => bare_messages(whole, unfinished, sheet),
        }
    }
}

/// Name that a peer gives itself, in one line that steers no terminal.
fn plainly(text: &[u8]) -> String {
    net::plain::escaped(&String::from_utf8_lossy(text)).into_owned()
}

fn describe_handshake(whole: &[u8], from_client: bool) -> String {
    if from_client {
        return match ConnectRequest::decode(whole) {
            Ok(r) => format!(
                "connect request, version {}, RWF {}.{}, ping timeout {} s, from {} ({}), {}",
                r.version as u8,
                r.major,
                r.minor,
                r.ping_timeout_s,
                plainly(r.host),
                plainly(r.address),
                plainly(r.component)
            ),
            Err(_) => "handshake".to_owned(),
        };
    }
    match [true, false].iter().find_map(|&key| Answer::decode(whole, key).ok()) {
        Some(Answer::Ack(a)) => format!(
            "connect answer, version {}, RWF {}.{}, ping timeout {} s, messages of at most {} bytes, compression {}, {}",
            a.version as u8,
            a.major,
            a.minor,
            a.ping_timeout_s,
            a.max_user_message_size,
            a.compression,
            plainly(a.component)
        ),
        Some(Answer::Nak(text)) => format!("refusal: {}", plainly(text)),
        None => "handshake".to_owned(),
    }
}

/// Messages of a frame when there is no session to ask.
fn bare_messages(whole: &[u8], unfinished: &mut HashMap<u16, (usize, Vec<u8>)>, sheet: &mut Sheet<'_>) {
    let Ok(Frame { kind, compressed: false, payload, .. }) = frame::parse(whole, true) else {
        return sheet.unreadable(whole, "is no frame, or compressed");
    };
    let finish = |id: u16, unfinished: &mut HashMap<u16, (usize, Vec<u8>)>, sheet: &mut Sheet<'_>| {
        if unfinished.get(&id).is_some_and(|(total, got)| got.len() >= *total)
            && let Some((_, whole)) = unfinished.remove(&id)
        {
            sheet.message(&whole);
        }
    };
    match kind {
        Kind::Ping => {}
        Kind::FirstFragment { total, id } => {
            unfinished.insert(id, (total as usize, payload.to_vec()));
            finish(id, unfinished, sheet);
        }
        Kind::NextFragment { id } => {
            if let Some((_, got)) = unfinished.get_mut(&id) {
                got.extend_from_slice(payload);
            }
            finish(id, unfinished, sheet);
        }
        Kind::Data => sheet.message(payload),
        Kind::Packed => {
            for part in Packed::new(payload) {
                match part {
                    Ok(part) => sheet.message(part),
                    Err(what) => sheet.note(&format!("!! {what}")),
                }
            }
        }
    }
}
