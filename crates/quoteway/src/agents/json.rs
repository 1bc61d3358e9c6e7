//! JSON clients of a P2PS: their text becomes RWF messages, and what the P2PS delivers becomes text.
//!
//! The P2PS knows nothing of JSON. A body is converted once a flush, however many clients get it: what differs between them is
//! the stream id, which stands first in the text and is written for each. Without JSON clients nothing is converted.

use std::cell::{Cell, OnceCell};
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use hub::p2ps::{Deliveries, P2ps};
use net::tcp::ConnId;
use rssl::ws::JsonPacker;
use rssl_io::RsslIo;
use rustc_hash::FxHashMap;
use rwf::dictionary::Dictionary;
use rwf::json::{Converter, Incoming, PONG, ServiceNames, Settings};
use rwf::msg::{Domain, MsgClass};

use crate::config;

/// Errors that a client may make in one connection before it is closed.
const ERRORS_MAX: u32 = 1_000;

/// What the JSON clients of a thread share.
pub(super) struct JsonClients {
    /// How many there are.
    count: usize,
    dictionary: Arc<Dictionary>,
    names: Names,
    settings: Settings,
    /// The service of requests that name none, by its name; empty for the first there is.
    default_service: String,
    /// What is added to the answer to a login: its payload.
    login_payload: String,
    /// Texts of this flush.
    text: String,
    /// Where the text of a body is, by the body's address and length. Good for one flush.
    bodies: FxHashMap<(usize, usize), Range<usize>>,
    /// The part of a message that is one client's own.
    own: String,
    replies: Vec<Reply>,
    /// Messages that no JSON stands for.
    unconvertible: u64,
}

/// What a client gets that does not come from the P2PS.
enum Reply {
    Text(ConnId, String),
    Close(ConnId, String),
}

/// What a text of a client holds.
pub(super) enum Read<'a> {
    /// A message.
    Message(&'a [u8]),
    /// It has made too many errors.
    Hopeless,
}

impl JsonClients {
    /// Messages so far that no JSON stands for.
    pub(super) fn unconvertible(&self) -> u64 {
        self.unconvertible
    }

    pub(super) fn new(c: &config::P2ps) -> Self {
        Self {
            count: 0,
            dictionary: Arc::new(Dictionary::new()),
            names: Names::new(!c.json_service_names),
            settings: Settings { expand_enums: c.json_expand_enums, ..Settings::rtds() },
            default_service: c.default_service.clone(),
            login_payload: login_payload(c.websocket_ping_timeout_s, super::WEBSOCKET_MESSAGE_MAX),
            text: String::new(),
            bodies: FxHashMap::default(),
            own: String::new(),
            replies: Vec::new(),
            unconvertible: 0,
        }
    }

    pub(super) fn joined(&mut self) {
        self.count += 1;
    }

    pub(super) fn left(&mut self) {
        debug_assert!(self.count > 0, "only who has joined leaves");
        self.count -= 1;
    }

    /// Takes over the dictionary and the services that the P2PS has now. To be called before texts are read or written.
    pub(super) fn follow(&mut self, p2ps: &P2ps) {
        if self.count == 0 {
            return;
        }
        if !Arc::ptr_eq(&self.dictionary, p2ps.dictionary()) {
            self.dictionary = Arc::clone(p2ps.dictionary());
        }
        if self.names.renamed != p2ps.services_renamed() {
            self.names.renamed = p2ps.services_renamed();
            self.names.known.clear();
        }
        let known = self.names.known.len();
        for id in known + 1..=p2ps.service_count() {
            self.names.known.push(p2ps.service_name(id as u16).unwrap_or_default().to_owned());
        }
        if self.names.next.get() >= UNKNOWN_MAX {
            self.names.forget_unknown();
        }
        self.settings.default_service_id =
            if self.default_service.is_empty() { p2ps.first_service() } else { self.names.id(&self.default_service) };
    }

    fn converter(&self) -> Converter<'_> {
        Converter::new(&self.dictionary).with_settings(self.settings).with_services(&self.names)
    }

    /// Reads a client's text: each message in it is handed on. What it gets for the rest (`Pong`, errors) follows with
    /// [`JsonClients::reply`].
    pub(super) fn read(&mut self, conn: ConnId, errors: &mut u32, text: &str, mut each: impl FnMut(Read<'_>)) {
        let incoming = self.converter().messages(text);
        for message in incoming {
            match message {
                Ok(Incoming::Message(message)) => each(Read::Message(&message)),
                Ok(Incoming::Ping) => self.replies.push(Reply::Text(conn, PONG.to_owned())),
                Ok(Incoming::Pong) => {}
                Ok(Incoming::Error(text)) => tracing::warn!("a JSON client could not read what it was sent: {text}"),
                Err(error) => {
                    *errors += 1;
                    if *errors > ERRORS_MAX {
                        return each(Read::Hopeless);
                    }
                    self.replies.push(Reply::Text(conn, error.reply()));
                }
            }
        }
    }

    /// Has a client's connection closed after what it is still to get.
    pub(super) fn close(&mut self, conn: ConnId, why: &str) {
        self.replies.push(Reply::Close(conn, why.to_owned()));
    }

    /// Sends what [`JsonClients::read`] has left to be sent.
    pub(super) fn reply(&mut self, now: u64, io: &mut RsslIo) {
        for reply in self.replies.drain(..) {
            match reply {
                Reply::Text(conn, text) => {
                    io.queue_json(now, conn, |packer| packer.push(&text));
                    io.flush(conn);
                }
                Reply::Close(conn, why) => io.close_drained(conn, &why),
            }
        }
    }

    /// Writes a client's deliveries into its session. Gives the bytes that wait there, as [`RsslIo::queue_json`].
    pub(super) fn deliver(
        &mut self,
        now: u64,
        conn: ConnId,
        deliveries: Deliveries<'_>,
        io: &mut RsslIo,
    ) -> Option<usize> {
        let mut answered = false;
        let queued = io.queue_json(now, conn, |packer| {
            for (body, stream) in deliveries {
                answered |= self.write(body, stream, packer);
            }
        });
        if answered {
            io.logged_in(conn);
        }
        queued
    }

    /// Writes one message; tells whether it answers the login.
    fn write(&mut self, body: &[u8], stream: i32, packer: &mut JsonPacker<'_>) -> bool {
        let Some(range) = self.convert(body) else { return false };
        self.own.clear();
        let _ = write!(self.own, "{{\"ID\":{stream}");
        let shared = &self.text[range];
        if !answers_login(body) {
            packer.push_parts(&self.own, shared);
            return false;
        }
        // Alone in its frame: some clients take the first frame for this answer and nothing else.
        let whole = format!("{}{}", shared.strip_suffix('}').unwrap_or(shared), self.login_payload);
        packer.end_frame();
        packer.push_parts(&self.own, &whole);
        packer.end_frame();
        true
    }

    /// The text of a body behind its stream id.
    fn convert(&mut self, body: &[u8]) -> Option<Range<usize>> {
        let address = (body.as_ptr() as usize, body.len());
        if let Some(range) = self.bodies.get(&address) {
            return Some(range.clone());
        }
        let start = self.text.len();
        let mut text = std::mem::take(&mut self.text);
        let converted = self.converter().message(body, &mut text);
        self.text = text;
        if let Err(error) = converted {
            self.unconvertible += 1;
            if self.unconvertible.is_power_of_two() {
                tracing::error!("{} messages could not be given to JSON clients, now: {error}", self.unconvertible);
            }
            return None;
        }
        let head = self.text[start..].strip_prefix("{\"ID\":")?;
        let id = head.find(|c: char| c != '-' && !c.is_ascii_digit())?;
        let range = self.text.len() - head.len() + id..self.text.len();
        self.bodies.insert(address, range.clone());
        Some(range)
    }

    /// The bodies of a flush are void: others will lie where they lay.
    pub(super) fn end_flush(&mut self) {
        if self.count > 0 || !self.bodies.is_empty() {
            self.bodies.clear();
            self.text.clear();
            self.text.shrink_to(TEXT_KEPT);
        }
    }
}

/// Room for texts that is kept between flushes, bytes.
const TEXT_KEPT: usize = 1 << 20;

/// The payload that is added to the text of the answer to a login, with its end.
pub(super) fn login_payload(ping_timeout_s: u16, message_max: usize) -> String {
    format!(",\"Elements\":{{\"PingTimeout\":{ping_timeout_s},\"MaxMsgSize\":{message_max}}}}}")
}

/// Class and domain stand at fixed places in a message's header.
pub(super) fn answers_login(msg: &[u8]) -> bool {
    let class = msg.get(2).map(|class| MsgClass(class & 0x1F));
    class == Some(MsgClass::REFRESH) && msg.get(3) == Some(&Domain::LOGIN.0)
}

/// Names of services for the converter.
#[derive(Default)]
struct Names {
    /// By id, from 1.
    known: Vec<String>,
    /// Renamings of services that `known` has followed.
    renamed: u64,
    /// Services are numbers in what is sent.
    numbers: bool,
    /// Names that no service has, with ids from the top: so that a request for one is answered as for any unknown service, and under
    /// the name that was asked for.
    unknown: Vec<OnceCell<Box<str>>>,
    next: Cell<usize>,
}

/// Unknown names that are told apart at a time.
const UNKNOWN_MAX: usize = 256;

impl Names {
    fn new(numbers: bool) -> Self {
        let mut names = Self { numbers, ..Self::default() };
        names.forget_unknown();
        names
    }

    fn forget_unknown(&mut self) {
        self.unknown = (0..UNKNOWN_MAX).map(|_| OnceCell::new()).collect();
        self.next.set(0);
    }

    fn unknown_id(index: usize) -> u16 {
        u16::MAX - index as u16
    }
}

impl ServiceNames for Names {
    fn name(&self, id: u16) -> Option<&str> {
        if self.numbers {
            return None;
        }
        let known = usize::from(id).checked_sub(1).and_then(|index| self.known.get(index)).map(String::as_str);
        known.or_else(|| self.unknown.get(usize::from(u16::MAX - id))?.get().map(|name| &**name))
    }

    fn id(&self, name: &str) -> Option<u16> {
        if let Some(index) = self.known.iter().position(|known| known == name) {
            return Some(index as u16 + 1);
        }
        let used = self.next.get().min(self.unknown.len());
        if let Some(index) = self.unknown[..used].iter().position(|known| known.get().is_some_and(|k| **k == *name)) {
            return Some(Self::unknown_id(index));
        }
        if let Some(free) = self.unknown.get(used) {
            let _ = free.set(name.into());
            self.next.set(used + 1);
            return Some(Self::unknown_id(used));
        }
        // More unknown names in one turn than are told apart: this one is answered under its number.
        Some(u16::MAX - UNKNOWN_MAX as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_services_keep_their_names_for_the_answer() {
        let mut names = Names::new(false);
        names.known.push("DIRECT_FEED".to_owned());
        assert_eq!(names.id("DIRECT_FEED"), Some(1));
        let (a, b) = (names.id("A").unwrap(), names.id("B").unwrap());
        assert!(a != b && names.id("A") == Some(a));
        assert_eq!((names.name(a), names.name(b), names.name(1)), (Some("A"), Some("B"), Some("DIRECT_FEED")));
        for n in 0..1000 {
            assert!(names.id(&n.to_string()).is_some_and(|id| id > 60_000));
        }
        names.forget_unknown();
        assert_eq!(names.name(a), None);
    }
}
