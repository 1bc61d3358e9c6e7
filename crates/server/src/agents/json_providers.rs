//! JSON sessions with providers: their text becomes RWF messages for the Source Distributor, and what that sends them becomes text.
//!
//! The Source Distributor knows nothing of JSON. What the conversion needs is kept for each session: the names of the provider's
//! services, out of its directory, and its field dictionary where it has one to offer.

use std::collections::BTreeMap;
use std::sync::Arc;

use hub::distributor::CloseReason;
use net::tcp::ConnId;
use rssl::ws::{answers_login, login_payload};
use rssl_io::RsslIo;
use rwf::container::{ElementList, SetScope};
use rwf::dictionary::Dictionary;
use rwf::json::{Converter, Incoming, JsonError, LeftOut, PONG, ServiceNames, Settings};
use rwf::msg::{Domain, Msg, MsgClass, RefreshFlags, RefreshMsg};
use rwf::rdm::dictionary as rdm_dictionary;
use rwf::rdm::directory::{self, Action};
use rwf::{DataType, Primitive, peek};

use super::answering::{Answering, Taken};

/// Errors that a provider that dialled in may make in one connection before it is closed.
const ERRORS_MAX: u32 = 1_000;
/// Replies for which room is kept between turns.
const REPLIES_KEPT: usize = 1_024;
/// Bytes of dictionary messages that one provider may send: many times the largest dictionary there is.
const DICTIONARY_BYTES_MAX: usize = 64 << 20;

/// The JSON sessions with providers of a thread.
pub(super) struct JsonProviders {
    /// The configured dictionary, or the built-in one.
    dictionary: Arc<Dictionary>,
    /// The operator has chosen it: providers' own dictionaries only fill its gaps.
    configured: bool,
    /// The payload that is added to the answer to a login.
    login_payload: String,
    /// By connection slot.
    sessions: Vec<Option<Session>>,
    replies: Vec<Reply>,
    answering: Answering<ConnId>,
    /// The message that is being written.
    text: String,
    /// Messages that no JSON stands for.
    unconvertible: u64,
    left_out: LeftOut,
}

struct Session {
    conn: ConnId,
    /// This side has dialled and logs in.
    dialled: bool,
    dictionary: Arc<Dictionary>,
    /// Fields from the provider's dictionary messages.
    own: Dictionary,
    own_bytes: usize,
    names: Names,
    errors: u32,
    /// Nothing more is read from it.
    over: bool,
}

/// The services of a provider by name.
#[derive(Default)]
struct Names(BTreeMap<String, u16>);

impl ServiceNames for Names {
    /// A provider gets its own numbers back.
    fn name(&self, _: u16) -> Option<&str> {
        None
    }

    fn id(&self, name: &str) -> Option<u16> {
        self.0.get(name).copied()
    }
}

/// Messages to a provider, or its session, that do not come from the Source Distributor.
enum Reply {
    Text(ConnId, String),
    /// The provider has asked for more answers in this turn than may wait for it.
    Overdrawn(ConnId, usize),
    /// The provider has taken our login; what it says of itself.
    LoggedIn(ConnId, Option<u8>, Option<usize>),
    Close(ConnId, CloseReason),
}

impl JsonProviders {
    pub(super) fn new(configured: Option<Dictionary>, c: &config::SourceDistributor) -> Self {
        Self {
            configured: configured.is_some(),
            dictionary: Arc::new(configured.unwrap_or_else(Dictionary::builtin)),
            login_payload: login_payload(c.websocket_ping_timeout_s, super::PROVIDER_MESSAGE_MAX),
            sessions: Vec::new(),
            replies: Vec::new(),
            answering: Answering::default(),
            text: String::new(),
            unconvertible: 0,
            left_out: LeftOut::default(),
        }
    }

    /// The configured dictionary, or the built-in one.
    pub(super) fn dictionary(&self) -> Arc<Dictionary> {
        Arc::clone(&self.dictionary)
    }

    /// Messages that no JSON stands for, and fields that a session's dictionary does not have, so that no provider was given them.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.unconvertible, self.left_out.fields())
    }

    /// A session has come to be.
    pub(super) fn opened(&mut self, conn: ConnId, dialled: bool) {
        if self.sessions.len() <= conn.slot() {
            self.sessions.resize_with(conn.slot() + 1, || None);
        }
        self.sessions[conn.slot()] = Some(Session {
            conn,
            dialled,
            dictionary: Arc::clone(&self.dictionary),
            own: Dictionary::new(),
            own_bytes: 0,
            names: Names::default(),
            errors: 0,
            over: false,
        });
    }

    /// A session is over, whatever it spoke.
    pub(super) fn closed(&mut self, conn: ConnId) {
        if let Some(session) = self.sessions.get_mut(conn.slot())
            && session.as_ref().is_some_and(|s| s.conn == conn)
        {
            *session = None;
        }
    }

    /// Whether a connection speaks JSON.
    pub(super) fn has(&self, conn: ConnId) -> bool {
        self.sessions.get(conn.slot()).and_then(Option::as_ref).is_some_and(|s| s.conn == conn)
    }

    /// Reads a provider's text: each message in it is handed on. What it gets for the rest follows with [`JsonProviders::reply`].
    pub(super) fn read(&mut self, conn: ConnId, text: &str, mut each: impl FnMut(&[u8])) {
        let Self { sessions, replies, dictionary, configured, answering, .. } = self;
        let Some(session) = sessions.get_mut(conn.slot()).and_then(Option::as_mut).filter(|s| s.conn == conn) else {
            return;
        };
        if session.over {
            return;
        }
        for message in session.converter().messages(text) {
            match message {
                Ok(Incoming::Message(message)) => {
                    session.learn(&message, (dictionary, *configured), replies);
                    each(&message);
                }
                Ok(Incoming::Ping) => session.over |= !answer(answering, replies, conn, PONG.to_owned()),
                Ok(Incoming::Pong) => {}
                Ok(Incoming::Error(text)) => tracing::warn!("a provider could not read what it was sent: {text}"),
                Err(error) => {
                    if session.fails(&error, replies, answering) {
                        return;
                    }
                }
            }
            if session.over {
                return;
            }
        }
    }

    /// Sends what [`JsonProviders::read`] has left to be sent.
    pub(super) fn reply(&mut self, now: u64, io: &mut RsslIo) {
        self.answering.end_turn();
        for reply in self.replies.drain(..) {
            match reply {
                Reply::Text(conn, text) => {
                    io.answer_json(now, conn, |packer| packer.push(&text));
                    io.flush(conn);
                }
                Reply::Overdrawn(conn, bytes) => io.end_overdrawn(conn, bytes),
                Reply::LoggedIn(conn, ping_timeout_s, message_max) => {
                    io.limit_by_server(conn, ping_timeout_s, message_max);
                    io.logged_in(conn);
                }
                Reply::Close(conn, reason) => io.close_drained(conn, &reason.to_string()),
            }
        }
        self.replies.shrink_to(REPLIES_KEPT);
    }

    /// Sends RWF messages to a provider as text, in this order.
    pub(super) fn send<'m>(
        &mut self,
        now: u64,
        conn: ConnId,
        messages: impl Iterator<Item = &'m [u8]>,
        io: &mut RsslIo,
    ) {
        let Self { sessions, text, login_payload, unconvertible, left_out, .. } = self;
        let Some(session) = sessions.get(conn.slot()).and_then(Option::as_ref).filter(|s| s.conn == conn) else {
            return;
        };
        let converter = session.converter().counting(left_out);
        let mut answered = false;
        io.queue_json(now, conn, |packer| {
            for message in messages {
                text.clear();
                if let Err(error) = converter.message(message, text) {
                    *unconvertible += 1;
                    if unconvertible.is_power_of_two() {
                        tracing::error!("{unconvertible} messages could not be given to JSON providers, now: {error}");
                    }
                    continue;
                }
                if !answers_login(message) {
                    packer.push(text);
                    continue;
                }
                // Alone in its frame, as for consumers.
                answered = true;
                debug_assert!(text.ends_with('}'), "a message is an object");
                text.pop();
                text.push_str(login_payload);
                packer.end_frame();
                packer.push(text);
                packer.end_frame();
            }
        });
        io.flush(conn);
        if answered {
            io.logged_in(conn);
        }
    }
}

/// Has a provider get an answer; false if it asks for more in a turn than may wait for it, and its session is over.
fn answer(answering: &mut Answering<ConnId>, replies: &mut Vec<Reply>, conn: ConnId, text: String) -> bool {
    match answering.take(conn, text.len()) {
        Taken::Yes => replies.push(Reply::Text(conn, text)),
        Taken::Last { bytes } => {
            replies.push(Reply::Overdrawn(conn, bytes));
            return false;
        }
        Taken::No => return false,
    }
    true
}

impl Session {
    /// Toward providers enumerations are numbers, which no display leaves in doubt. What a provider that was dialled publishes beyond
    /// its dictionary is passed over, as it is for consumers; one that dialled in is told.
    fn converter(&self) -> Converter<'_> {
        let settings = Settings {
            expand_enums: false,
            unknown_fields: !self.dialled,
            default_service_id: self.names.0.values().min().copied(),
            ..Settings::rtds()
        };
        Converter::new(&self.dictionary).with_settings(settings).with_services(&self.names)
    }

    /// A message could not be read; tells whether the session is over. What a dialled provider meant by it is not known, so that its
    /// items are to be asked for anew; one that dialled in hears of it and may go on.
    fn fails(&mut self, error: &JsonError, replies: &mut Vec<Reply>, answering: &mut Answering<ConnId>) -> bool {
        self.errors += 1;
        if self.dialled {
            self.over = true;
            replies.push(Reply::Close(self.conn, CloseReason::MalformedJson { error: error.to_string() }));
        } else if self.errors > ERRORS_MAX {
            self.over = true;
            replies.push(Reply::Close(self.conn, CloseReason::TooMuchMalformed));
        } else {
            self.over = !answer(answering, replies, self.conn, error.reply());
        }
        self.over
    }

    /// Takes out of a message what the conversion of others needs.
    fn learn(&mut self, message: &[u8], base: (&Arc<Dictionary>, bool), replies: &mut Vec<Reply>) {
        let Ok(header) = peek::header(message) else { return };
        match (header.domain, header.class) {
            (Domain::SOURCE, MsgClass::REFRESH | MsgClass::UPDATE) => self.learn_services(message),
            (Domain::DICTIONARY, MsgClass::REFRESH) if self.dialled => self.learn_dictionary(message, base),
            (Domain::LOGIN, MsgClass::REFRESH) if self.dialled => {
                let Ok(Msg::Refresh(refresh)) = Msg::decode(message) else { return };
                let number = |name: &[u8]| element(&refresh, name);
                let ping = number(b"PingTimeout").and_then(|s| u8::try_from(s).ok()).filter(|s| *s > 0);
                let most = number(b"MaxMsgSize").and_then(|bytes| usize::try_from(bytes).ok());
                replies.push(Reply::LoggedIn(self.conn, ping, most));
            }
            _ => {}
        }
    }

    fn learn_services(&mut self, message: &[u8]) {
        let services = match Msg::decode(message) {
            Ok(Msg::Refresh(refresh)) => directory::Refresh::decode(&refresh).map(|refresh| refresh.services),
            Ok(Msg::Update(update)) => directory::Update::decode(&update).map(|update| update.services),
            _ => return,
        };
        // A message that cannot be read ends the session at the Source Distributor.
        for service in services.unwrap_or_default() {
            if service.action == Action::Delete {
                self.names.0.retain(|_, id| *id != service.id);
            } else if let Some(name) = service.name() {
                self.names.0.insert(name.to_owned(), service.id);
            }
        }
    }

    fn learn_dictionary(&mut self, message: &[u8], (base, configured): (&Arc<Dictionary>, bool)) {
        let Ok(Msg::Refresh(refresh)) = Msg::decode(message) else { return };
        self.own_bytes += message.len();
        if self.own_bytes > DICTIONARY_BYTES_MAX {
            return;
        }
        // Later parts may leave their key out; the streams are asked for in this order.
        let is_fields = match refresh.key.as_ref().and_then(|key| key.name) {
            Some(name) => name == rdm_dictionary::FIELDS.as_bytes(),
            None => refresh.stream_id % 2 == 1,
        };
        let applied = if is_fields {
            self.own.apply_fields("its provider", refresh.body)
        } else {
            self.own.apply_enums("its provider", refresh.body)
        };
        if let Err(error) = applied {
            tracing::warn!("the dictionary of a provider cannot be read, fields are those of this server: {error}");
        } else if refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE) {
            let (mut first, second) =
                if configured { ((**base).clone(), &self.own) } else { (self.own.clone(), &**base) };
            first.merge(second);
            self.dictionary = Arc::new(first);
        }
    }
}

/// A number in the payload of a login's refresh.
fn element(refresh: &RefreshMsg<'_>, name: &[u8]) -> Option<u64> {
    if refresh.container != DataType::ELEMENT_LIST {
        return None;
    }
    let entry = ElementList::decode(refresh.body, &SetScope::NONE).ok()?.find(name)?;
    match entry.value().ok()? {
        Primitive::UInt(number) => Some(number),
        Primitive::Int(number) => u64::try_from(number).ok(),
        _ => None,
    }
}
