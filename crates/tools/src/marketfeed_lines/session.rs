//! The streams of one client of lines, without I/O: its lines go in, records come out.

use marketfeed::{ConvertError, Converter, Options, Record, RecordEncoder, RecordType};
use omm::consumer::{Consumer, ConsumerConfig, Event, ItemId, ItemRequest};
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, Msg, StatusMsg};
use rwf::wire::Writer;
use rwf::{DataType, State, StreamState};
use std::collections::HashMap;
use std::sync::Arc;

/// Room for a record, beside eight times the bytes of its message: a number of one byte may be many digits behind its field id.
const HEADROOM: usize = 1_024;
const GROWTH: usize = 8;

/// A client, as a consumer of the server.
pub(super) struct Session {
    pub(super) consumer: Consumer,
    converter: Converter,
    /// Until the server's own has come.
    builtin: Arc<Dictionary>,
    open: HashMap<ItemId, Opened>,
    by_name: HashMap<(String, String), ItemId>,
    /// Open items that have had an image.
    watched: usize,
    /// Images so far.
    pub(super) images: u64,
    /// The server has accepted the login.
    pub(super) is_logged_in: bool,
    /// What is to be written to the client.
    pub(super) out: Vec<u8>,
    /// What was written is the last.
    pub(super) is_over: bool,
}

struct Opened {
    key: (String, String),
    /// Its records so far.
    rtl: u16,
    has_image: bool,
}

impl Session {
    pub(super) fn new(config: ConsumerConfig, builtin: Arc<Dictionary>) -> Self {
        Self {
            consumer: Consumer::new(config),
            converter: Converter::new(Options::default()),
            builtin,
            open: HashMap::new(),
            by_name: HashMap::new(),
            watched: 0,
            images: 0,
            is_logged_in: false,
            out: Vec::new(),
            is_over: false,
        }
    }

    /// Does what a line says. What is wrong with it is told as a status without an item.
    pub(super) fn line(&mut self, now: u64, line: &str) {
        let mut words = line.split_ascii_whitespace();
        let (command, service, item) = (words.next(), words.next(), words.next());
        match (command, service, item, words.next()) {
            (None, ..) => {}
            (Some("open"), Some(service), Some(item), None) => self.open(now, service, item, true),
            (Some("snap"), Some(service), Some(item), None) => self.open(now, service, item, false),
            (Some("close"), Some(service), Some(item), None) => self.close(now, service, item),
            (Some("quit"), None, ..) => self.is_over = true,
            (Some("open" | "snap" | "close"), ..) => self.tell(b"", "write: open|snap|close SERVICE ITEM"),
            (Some("user"), ..) => self.tell(b"", "write user NAME before anything else, and once"),
            _ => self.tell(b"", "unknown line: user NAME, open|snap|close SERVICE ITEM, quit"),
        }
    }

    fn open(&mut self, now: u64, service: &str, item: &str, streaming: bool) {
        let key = (service.to_owned(), item.to_owned());
        if self.by_name.contains_key(&key) {
            return self.tell(item.as_bytes(), "the item is open already");
        }
        let request = ItemRequest { streaming, ..ItemRequest::new(service, item) };
        match self.consumer.open(now, request) {
            Ok(id) => {
                self.by_name.insert(key.clone(), id);
                self.open.insert(id, Opened { key, rtl: 0, has_image: false });
                self.take_events();
            }
            Err(error) => self.tell(item.as_bytes(), &error.to_string()),
        }
    }

    fn close(&mut self, now: u64, service: &str, item: &str) {
        match self.by_name.remove(&(service.to_owned(), item.to_owned())) {
            Some(id) => {
                self.remove(id);
                self.consumer.close(now, id);
            }
            None => self.tell(item.as_bytes(), "the item is not open"),
        }
    }

    /// Takes a message of the server.
    pub(super) fn receive(&mut self, now: u64, msg: &[u8]) {
        let given = self.consumer.handle_message(now, msg).map(|given| given.item);
        // An item's states come before its message where both do.
        self.take_events();
        if let Some(item) = given
            && let Ok(msg) = Msg::decode(msg)
        {
            self.write(now, item, &msg);
        }
    }

    /// What the consumer tells beside messages.
    pub(super) fn take_events(&mut self) {
        while let Some(event) = self.consumer.poll_event() {
            match event {
                Event::ItemState { item, state } => {
                    let state = Some(state.as_state());
                    let status = StatusMsg { state, ..StatusMsg::new(Domain::MARKET_PRICE, 0) };
                    self.write(0, item, &Msg::Status(status));
                }
                Event::LoggedIn(_) => self.is_logged_in = true,
                Event::LoginRefused(state) => {
                    self.tell(b"", &format!("login refused: {}", state.as_state()));
                    self.is_over = true;
                }
                _ => {}
            }
        }
    }

    /// Writes the record of an item's message.
    fn write(&mut self, now: u64, item: ItemId, msg: &Msg<'_>) {
        let Some(opened) = self.open.get_mut(&item) else { return };
        if !matches!(msg, Msg::Refresh(_) | Msg::Update(_) | Msg::Status(_)) {
            return;
        }
        if matches!(msg, Msg::Refresh(_)) {
            self.images += 1;
            self.watched += usize::from(!std::mem::replace(&mut opened.has_image, true));
        }
        let body = msg.body();
        let is_record = msg.container() == DataType::OPAQUE && body.first() == Some(&marketfeed::FS);
        let result = if is_record {
            // The server gives Marketfeed already.
            self.out.extend_from_slice(body);
            Ok(())
        } else {
            let dictionary = self.consumer.dictionary().unwrap_or(&self.builtin);
            let (name, room) = (opened.key.1.as_bytes(), body.len() * GROWTH + HEADROOM + msg_text(msg));
            append(&mut self.out, room, |w| self.converter.to_marketfeed(dictionary, msg, name, &mut opened.rtl, w))
        };
        let is_final = msg.state().is_some_and(|state| state.stream.is_final());
        let is_snapshot = matches!(msg, Msg::Refresh(refresh) if refresh.state.stream == StreamState::NON_STREAMING);
        let key = opened.key.clone();
        match result {
            Ok(()) if !is_final && !is_snapshot => {}
            Ok(()) => self.forget(item, &key),
            Err(error) => {
                self.tell(key.1.as_bytes(), &error.to_string());
                self.consumer.close(now, item);
                self.forget(item, &key);
            }
        }
    }

    fn forget(&mut self, item: ItemId, key: &(String, String)) {
        self.remove(item);
        self.by_name.remove(key);
    }

    fn remove(&mut self, item: ItemId) {
        let had_image = self.open.remove(&item).is_some_and(|opened| opened.has_image);
        self.watched -= usize::from(had_image);
    }

    /// Whether it has an item open that has had an image: what was only asked for may never be there.
    pub(super) fn watches(&self) -> bool {
        self.watched > 0
    }

    /// Tells why the place is taken from it.
    pub(super) fn end(&mut self, why: &str) {
        self.tell(b"", why);
        self.is_over = true;
    }

    /// Writes a status about an item, or about none.
    fn tell(&mut self, item: &[u8], text: &str) {
        // Neither may end a record early.
        let clean = |bytes: &[u8]| -> Vec<u8> {
            bytes.iter().map(|byte| if byte & 0xFC == 0x1C { b'?' } else { *byte }).collect()
        };
        let (item, text) = (clean(item), clean(text.as_bytes()));
        let record =
            Record { tag: Some(b""), code: Some(b"0"), text: Some(&text), ..Record::new(RecordType::STATUS, &item) };
        let written = append(&mut self.out, item.len() + text.len() + HEADROOM, |w| {
            Ok(RecordEncoder::begin(w, &record)?.finish()?)
        });
        debug_assert!(written.is_ok(), "{written:?}");
    }

    /// Items that are open.
    #[cfg(test)]
    fn items(&self) -> usize {
        debug_assert_eq!(self.open.len(), self.by_name.len());
        self.open.len()
    }
}

/// Bytes of the text in a message's state.
fn msg_text(msg: &Msg<'_>) -> usize {
    msg.state().map_or(0, |State { text, .. }| text.len())
}

fn append(
    out: &mut Vec<u8>,
    room: usize,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), ConvertError>,
) -> Result<(), ConvertError> {
    let start = out.len();
    out.resize(start + room, 0);
    let mut w = Writer::new(&mut out[start..]);
    let written = write(&mut w).map(|()| w.position());
    out.truncate(start + written.as_ref().copied().unwrap_or(0));
    written.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use omm::{ConnectionList, Server};

    fn session() -> Session {
        let mut config = ConsumerConfig::new(ConnectionList::new(vec![Server::new("", 0)]), "u");
        config.items_max = 2;
        Session::new(config, Arc::new(Dictionary::builtin()))
    }

    fn told(session: &mut Session) -> Vec<(String, String)> {
        let out = std::mem::take(&mut session.out);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let records = out.split_inclusive(|byte| *byte == marketfeed::FS).collect::<Vec<_>>();
        let records = records.chunks(2).map(<[&[u8]]>::concat);
        let records = records.map(|bytes| {
            let record = Record::parse(&bytes).expect("a record");
            assert_eq!(record.record_type, RecordType::STATUS);
            (text(record.item), text(record.text.expect("a text")))
        });
        records.collect()
    }

    #[test]
    fn what_is_wrong_with_a_line_is_told_and_harms_nothing() {
        let mut session = session();
        for line in ["", "  ", "open FEED IBM.N", "open FEED TRI.N"] {
            session.line(0, line);
        }
        session.out.clear();
        for (line, item, part) in [
            ("open FEED", "", "SERVICE ITEM"),
            ("open FEED A B", "", "SERVICE ITEM"),
            ("open FEED IBM.N", "IBM.N", "open already"),
            ("open FEED C", "C", "as many items"),
            ("close FEED C", "C", "not open"),
            ("close FEED C\u{1c}", "C?", "not open"),
            ("user me", "", "before anything else"),
            ("OPEN FEED D", "", "unknown line"),
        ] {
            session.line(0, line);
            let told = told(&mut session);
            assert!(told.len() == 1 && told[0].0 == item && told[0].1.contains(part), "{line}: {told:?}");
        }
        assert_eq!(session.items(), 2);
        session.line(0, "close FEED IBM.N");
        session.line(0, "snap FEED C");
        assert_eq!(session.items(), 2);
        session.line(0, "quit");
        assert!(session.is_over);
    }
}
