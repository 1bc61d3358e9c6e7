//! A server's knowledge of one JSON client: its errors, and the keys of its streams.
//!
//! An ADS writes the key of an item into every status and update of it, unless the request said `KeyInUpdates` false. Messages of RWF do
//! not have it there, and a body is converted once for many clients: so a key is text of its own, which stands behind the stream id.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rwf::json::Converter;
use rwf::msg::{Domain, Msg, MsgClass, MsgKey, RefreshFlags, RequestFlags, RequestMsg};
use rwf::rdm::request::Payload;
use rwf::{DataState, peek};

/// A server's knowledge of one JSON client.
#[derive(Debug, Default)]
pub struct JsonPeer {
    /// Messages of its connection that could not be read.
    pub(super) errors: u32,
    /// By stream, which clients choose: hashed with a key that nobody knows. From the request on until the stream's end was told.
    streams: HashMap<i32, Stream>,
    /// Streams without keys in their updates.
    plain: usize,
    /// Streams that have had no image.
    unanswered: usize,
    /// Something was written since [`JsonPeer::begin`] that is right for this client alone.
    own: bool,
}

#[derive(Debug)]
struct Stream {
    /// `,"Key":{...}`; empty for the stream of a batch, whose status has none.
    key: Arc<str>,
    /// Streams behind it that its batch has asked for.
    batch: i32,
    in_updates: bool,
    is_answered: bool,
}

/// What a message is to the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Update,
    /// `ends`: nothing more comes on the stream.
    Refresh {
        ends: bool,
    },
    /// `keyed`: it has a key of its own. `good`: its data state is Ok.
    Status {
        ends: bool,
        keyed: bool,
        good: bool,
    },
    Other,
}

impl Kind {
    pub(super) fn of(body: &[u8]) -> Self {
        match peek::class(body) {
            Some(MsgClass::UPDATE) => {
                let keyed = peek::header(body).is_ok_and(|header| peek::has_key(header.class, header.flags));
                if keyed { Self::Other } else { Self::Update }
            }
            Some(MsgClass::REFRESH | MsgClass::STATUS) => match Msg::decode(body) {
                Ok(Msg::Refresh(refresh)) => {
                    let whole = refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE);
                    Self::Refresh { ends: whole && refresh.state.stream != rwf::StreamState::OPEN }
                }
                Ok(Msg::Status(status)) => Self::Status {
                    ends: status.state.as_ref().is_some_and(|state| state.stream.is_final()),
                    keyed: status.key.is_some(),
                    good: status.state.as_ref().is_some_and(|state| state.data == DataState::OK),
                },
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

/// The texts of keys, each once however many streams have it.
#[derive(Debug, Default)]
pub(super) struct KeyTexts {
    texts: HashSet<Arc<str>>,
    /// So many, and those that nobody uses are forgotten.
    sweep_at: usize,
    scratch: Vec<u8>,
}

impl KeyTexts {
    /// Fewer are not worth a look.
    const SWEEP_MIN: usize = 1024;

    fn text(&mut self, converter: &Converter<'_>, domain: Domain, key: &MsgKey<'_>) -> Arc<str> {
        self.scratch.clear();
        self.scratch.push(b',');
        converter.key_utf8(domain, key, &mut self.scratch);
        let text = String::from_utf8_lossy(&self.scratch);
        if let Some(known) = self.texts.get(&*text) {
            return Arc::clone(known);
        }
        if self.texts.len() >= self.sweep_at.max(Self::SWEEP_MIN) {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = 2 * self.texts.len();
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }
}

impl JsonPeer {
    /// Messages so far that could not be read.
    #[must_use]
    pub fn errors(&self) -> u32 {
        self.errors
    }

    /// Whether its updates have keys, or have none; `None` if that differs by stream. Where it is the same of two clients, frames with the same
    /// updates are the same.
    #[must_use]
    pub fn uniform(&self) -> Option<bool> {
        match (self.plain, self.unanswered) {
            (0, 0) => Some(true),
            (plain, _) if plain == self.streams.len() => Some(false),
            _ => None,
        }
    }

    /// Something is about to be written for it.
    pub fn begin(&mut self) {
        self.own = false;
    }

    /// What was written since [`JsonPeer::begin`] is for this client alone.
    #[must_use]
    pub fn wrote_its_own(&self) -> bool {
        self.own
    }

    /// Takes note of a message that it has sent, and that has been acted upon.
    pub(super) fn note_message(&mut self, message: &[u8], converter: &Converter<'_>, texts: &mut KeyTexts) {
        if !matches!(peek::class(message), Some(MsgClass::REQUEST | MsgClass::CLOSE)) {
            return;
        }
        match Msg::decode(message) {
            Ok(Msg::Request(request)) => self.asked(&request, converter, texts),
            Ok(Msg::Close(close)) => {
                let payload = Payload::decode(close.container, close.body).ok();
                let streams = payload.and_then(|payload| payload.streams);
                for stream in streams.as_deref().unwrap_or(&[close.stream_id]) {
                    self.forget(*stream);
                }
            }
            _ => {}
        }
    }

    fn asked(&mut self, request: &RequestMsg<'_>, converter: &Converter<'_>, texts: &mut KeyTexts) {
        if matches!(request.domain, Domain::LOGIN | Domain::SOURCE | Domain::DICTIONARY) {
            return;
        }
        let in_updates = request.flags.contains(RequestFlags::MSG_KEY_IN_UPDATES);
        let key_of = |texts: &mut KeyTexts, name| {
            let RequestMsg { key: MsgKey { service_id, name_type, .. }, .. } = request;
            let key = MsgKey { service_id: *service_id, name, name_type: *name_type, ..MsgKey::default() };
            texts.text(converter, request.domain, &key)
        };
        let stream = |key, batch| Stream { key, batch, in_updates, is_answered: false };
        if !request.flags.contains(RequestFlags::HAS_BATCH) {
            return self.open(request.stream_id, stream(key_of(texts, request.key.name), 0));
        }
        let Some(names) = Payload::of_request(request).ok().and_then(|payload| payload.items) else { return };
        self.open(request.stream_id, stream("".into(), names.len() as i32));
        for (at, name) in names.iter().enumerate() {
            self.open(request.stream_id.saturating_add(1 + at as i32), stream(key_of(texts, Some(*name)), 0));
        }
    }

    fn open(&mut self, id: i32, stream: Stream) {
        self.plain += usize::from(!stream.in_updates);
        // A reissue may say something else of its updates, and nothing of its key.
        if let Some(known) = self.streams.get_mut(&id) {
            self.plain -= usize::from(!std::mem::replace(&mut known.in_updates, stream.in_updates));
            return;
        }
        self.unanswered += 1;
        self.streams.insert(id, stream);
    }

    fn forget(&mut self, id: i32) -> Option<Stream> {
        let stream = self.streams.remove(&id)?;
        self.plain -= usize::from(!stream.in_updates);
        self.unanswered -= usize::from(!stream.is_answered);
        Some(stream)
    }

    /// A message goes out to it: appends the key that it has to have, behind the stream id.
    #[inline]
    pub(super) fn passes(&mut self, kind: Kind, id: i32, out: &mut Vec<u8>) {
        match kind {
            Kind::Update => match self.streams.get(&id) {
                Some(stream) if stream.in_updates && stream.is_answered => out.extend_from_slice(stream.key.as_bytes()),
                Some(_) => {}
                // The peer has closed the stream, or did not choose it.
                None => self.own = true,
            },
            Kind::Other => {}
            Kind::Refresh { .. } | Kind::Status { .. } => self.changes(kind, id, out),
        }
    }

    fn changes(&mut self, kind: Kind, id: i32, out: &mut Vec<u8>) {
        self.own = true;
        let Some(stream) = self.streams.get_mut(&id) else { return };
        match kind {
            Kind::Refresh { ends } => {
                self.unanswered -= usize::from(!std::mem::replace(&mut stream.is_answered, true));
                if ends {
                    self.forget(id);
                }
            }
            Kind::Status { ends, keyed, good } => {
                if !keyed {
                    out.extend_from_slice(stream.key.as_bytes());
                }
                if ends && let Some(ended) = self.forget(id) {
                    // A batch that was refused has opened nothing.
                    for item in (1..=ended.batch).filter(|_| !good) {
                        let id = id.saturating_add(item);
                        if self.streams.get(&id).is_some_and(|stream| !stream.is_answered) {
                            self.forget(id);
                        }
                    }
                }
            }
            Kind::Update | Kind::Other => {}
        }
    }
}
