//! A session that somebody listened to: whose messages are whose item's, and what of them goes into a recording.

use super::sink::Sink;
use record::{Clocks, Gap, GapReason, Item, Kind};
use record_io::{ServiceWatch, SourceTime};
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, Msg, MsgKey, RefreshFlags, RequestFlags, StatusMsg};
use rwf::rdm::dictionary::{ENUMS, FIELDS};
use rwf::rdm::directory::{Action, Refresh, Service, Update};
use rwf::rdm::request::Payload;
use rwf::wire::Writer;
use rwf::{DataState, State, StateCode, StreamState, peek};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Directory messages and parts of dictionaries that a session may hold until its first item, bytes.
const HELD_MAX: usize = 64 << 20;
/// Streams that a session may have open: more than any consumer asks for.
const STREAMS_MAX: usize = 4 << 20;

/// The sender of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    /// Who has connected: a consumer, or a publisher.
    #[default]
    Client,
    /// Who is connected to.
    Server,
}

/// What a recording could not take of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Untaken {
    /// Messages of streams whose request was not there, and that do not name their item.
    pub(super) unknown: u64,
    /// Messages of items that another session has in the recording.
    pub(super) elsewhere: u64,
    /// Posts, acks and generic messages of clients.
    pub(super) of_clients: u64,
    /// Messages that cannot be decoded.
    pub(super) malformed: u64,
}

impl Untaken {
    /// Lines for the user.
    pub(super) fn lines(&self) -> Vec<String> {
        [
            (self.unknown, "messages are of streams that nobody is seen to ask for"),
            (self.elsewhere, "messages are of items that another session has in the recording already"),
            (self.of_clients, "posts, acks and generic messages of clients have no place in a recording"),
            (self.malformed, "messages cannot be decoded"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect()
    }
}

/// All sessions of an input: which of them an item is recorded from.
#[derive(Default)]
pub(super) struct Sessions {
    pub(super) untaken: Untaken,
    owners: HashMap<Item, usize>,
    count: usize,
    times: SourceTime,
}

impl Sessions {
    pub(super) fn new(dictionary: &Dictionary) -> Self {
        Self { times: SourceTime::of(dictionary), ..Self::default() }
    }

    /// One more session.
    pub(super) fn begin(&mut self) -> Session {
        self.count += 1;
        Session { number: self.count, ..Session::default() }
    }

    /// Whether a message of an item is this session's to tell. An item is the session's that first had a message of it, until it closes it or ends.
    fn is_owner(&mut self, item: &Item, session: usize) -> bool {
        if let Some(owner) = self.owners.get(item) {
            return *owner == session;
        }
        self.owners.insert(item.clone(), session);
        true
    }
}

/// A stream that was asked for, or published.
#[derive(Clone, Debug)]
struct Stream {
    domain: Domain,
    service: Option<u16>,
    name: Arc<str>,
    /// Whether a message of it was recorded.
    is_recorded: bool,
}

/// One session, message by message.
#[derive(Default)]
pub(super) struct Session {
    number: usize,
    /// Streams of items, by who sends their messages and number.
    streams: BTreeMap<(Side, i32), Stream>,
    services: HashMap<u16, Arc<str>>,
    /// Services that are recorded, and how they are known in the directory.
    recorded: Vec<ServiceWatch>,
    /// What was heard of the directory, for services of which no item has come yet.
    directory: Vec<Vec<u8>>,
    /// Parts of dictionaries, with their names.
    dictionaries: Vec<(&'static str, Vec<u8>)>,
    whole: BTreeSet<&'static str>,
    held: usize,
}

impl Session {
    /// Takes a message.
    ///
    /// # Errors
    /// A text for the user: the recording cannot be written.
    pub(super) fn message(
        &mut self,
        from: Side,
        wall: u64,
        bytes: &[u8],
        all: &mut Sessions,
        sink: &mut Sink<'_>,
    ) -> anyhow::Result<()> {
        let Ok(msg) = Msg::decode(bytes) else {
            all.untaken.malformed += 1;
            return Ok(());
        };
        let (domain, stream) = (peek::domain(bytes).unwrap_or(Domain::MARKET_PRICE), msg.stream_id());
        let kind = match &msg {
            Msg::Request(request) => {
                self.request(request, stream);
                return Ok(());
            }
            Msg::Close(_) => {
                self.close(stream, all);
                return Ok(());
            }
            Msg::Refresh(_) => Kind::Refresh,
            Msg::Update(_) => Kind::Update,
            Msg::Status(_) => Kind::Status,
            Msg::Ack(_) => Kind::Ack,
            Msg::Generic(_) => Kind::Generic,
            Msg::Post(_) => {
                all.untaken.of_clients += 1;
                return Ok(());
            }
        };
        let clocks = Clocks { wall, mono: wall, source: None };
        match domain {
            Domain::LOGIN => Ok(()),
            Domain::SOURCE => self.directory(&msg, bytes, clocks, sink),
            Domain::DICTIONARY => self.dictionary(&msg, bytes, clocks, sink),
            _ if from == Side::Client && matches!(kind, Kind::Ack | Kind::Generic) => {
                all.untaken.of_clients += 1;
                Ok(())
            }
            _ => self.item(from, stream, domain, kind, bytes, clocks, all, sink),
        }
    }

    fn request(&mut self, request: &rwf::msg::RequestMsg<'_>, stream: i32) {
        if self.streams.len() >= STREAMS_MAX {
            return;
        }
        let stream_of = |name: &[u8]| Stream {
            domain: request.domain,
            service: request.key.service_id,
            name: String::from_utf8_lossy(name).into(),
            is_recorded: false,
        };
        if request.flags.contains(RequestFlags::HAS_BATCH) {
            let items = Payload::of_request(request).ok().and_then(|payload| payload.items).unwrap_or_default();
            // The items of a batch have the streams behind that of the batch.
            for (place, name) in (1..).zip(items) {
                self.streams.insert((Side::Server, stream.wrapping_add(place)), stream_of(name));
            }
        } else if let Some(name) = request.key.name {
            // A request for a stream that is open changes what is wanted of it, not what it is.
            self.streams.entry((Side::Server, stream)).or_insert_with(|| stream_of(name));
        }
    }

    /// The client has had enough of a stream.
    fn close(&mut self, stream: i32, all: &mut Sessions) {
        if let Some(closed) = self.streams.remove(&(Side::Server, stream)) {
            self.leave(&closed, all);
        }
    }

    /// Another session may tell of the item now.
    fn leave(&self, stream: &Stream, all: &mut Sessions) {
        if let Some(item) = self.item_of(stream)
            && all.owners.get(&item) == Some(&self.number)
        {
            all.owners.remove(&item);
        }
    }

    fn item_of(&self, stream: &Stream) -> Option<Item> {
        let service = self.services.get(&stream.service?)?.clone();
        Some(Item { service, domain: stream.domain.0, name: stream.name.clone() })
    }

    /// A message of a stream: what the request has named, else what the message names itself.
    #[allow(clippy::too_many_arguments, reason = "a message with all that is known of it")]
    fn item(
        &mut self,
        from: Side,
        number: i32,
        domain: Domain,
        kind: Kind,
        bytes: &[u8],
        clocks: Clocks,
        all: &mut Sessions,
        sink: &mut Sink<'_>,
    ) -> anyhow::Result<()> {
        let key = key_of(bytes);
        if !self.streams.contains_key(&(from, number))
            && let Some(name) = key.and_then(|key| key.name)
            && self.streams.len() < STREAMS_MAX
        {
            let name = String::from_utf8_lossy(name).into();
            self.streams.insert((from, number), Stream { domain, service: None, name, is_recorded: false });
        }
        let Some(stream) = self.streams.get_mut(&(from, number)) else {
            all.untaken.unknown += 1;
            return Ok(());
        };
        stream.service = stream.service.or(key.and_then(|key| key.service_id));
        let stream = stream.clone();
        let Some(item) = self.item_of(&stream) else {
            all.untaken.unknown += 1;
            return Ok(());
        };
        if !all.is_owner(&item, self.number) {
            all.untaken.elsewhere += 1;
            return Ok(());
        }
        self.service(&item.service, clocks, sink)?;
        let source = if kind == Kind::Update { all.times.read(bytes, clocks.wall) } else { None };
        sink.message(kind, &item, Clocks { source, ..clocks }, bytes)?;
        if let Some(open) = self.streams.get_mut(&(from, number)) {
            open.is_recorded = true;
        }
        if closes(bytes) {
            self.streams.remove(&(from, number));
            self.leave(&stream, all);
        }
        Ok(())
    }

    /// Directory and dictionaries of a service before its first item: as they were heard, else made up.
    fn service(&mut self, name: &str, clocks: Clocks, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        if self.recorded.iter().any(|watch| watch.name() == name) {
            return Ok(());
        }
        self.recorded.push(ServiceWatch::new(name));
        if sink.has_service(name) {
            return Ok(());
        }
        for message in &self.directory {
            sink.message(Kind::Directory, &of_service(name, Domain::SOURCE, ""), clocks, message)?;
        }
        let is_whole = self.whole.len() == 2;
        for (of, message) in self.dictionaries.iter().filter(|_| is_whole) {
            sink.message(Kind::Dictionary, &of_service(name, Domain::DICTIONARY, of), clocks, message)?;
        }
        sink.complete_service(name, !self.directory.is_empty(), is_whole, clocks)
    }

    fn directory(&mut self, msg: &Msg<'_>, bytes: &[u8], clocks: Clocks, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        let (is_new, services) = match msg {
            Msg::Refresh(refresh) => {
                let is_new = refresh.flags.contains(RefreshFlags::CLEAR_CACHE);
                (is_new, Refresh::decode(refresh).map(|read| read.services))
            }
            Msg::Update(update) => (false, Update::decode(update).map(|read| read.services)),
            _ => return Ok(()),
        };
        let Ok(services) = services else { return Ok(()) };
        if is_new {
            self.held -= self.directory.drain(..).map(|message| message.len()).sum::<usize>();
        }
        for service in &services {
            match service.name() {
                _ if service.action == Action::Delete => drop(self.services.remove(&service.id)),
                Some(name) => drop(self.services.insert(service.id, name.into())),
                None => {}
            }
        }
        if self.hold(bytes) {
            self.directory.push(bytes.to_vec());
        }
        let names: Vec<String> = self.recorded.iter().map(|watch| watch.name().to_owned()).collect();
        for name in names.iter().filter(|name| is_about(name, &services, &self.services)) {
            sink.message(Kind::Directory, &of_service(name, Domain::SOURCE, ""), clocks, bytes)?;
        }
        Ok(())
    }

    fn dictionary(&mut self, msg: &Msg<'_>, bytes: &[u8], clocks: Clocks, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        let Msg::Refresh(refresh) = msg else { return Ok(()) };
        // Parts behind the first need not repeat the key: the request has it.
        let asked = self.streams.get(&(Side::Server, refresh.stream_id)).map(|stream| stream.name.as_bytes());
        let name = refresh.key.as_ref().and_then(|key| key.name).or(asked).unwrap_or_default();
        let Some(of) = [FIELDS, ENUMS].into_iter().find(|known| known.as_bytes() == name) else { return Ok(()) };
        if self.whole.contains(of) {
            // Asked for once more.
            return Ok(());
        }
        let names: Vec<String> = self.recorded.iter().map(|watch| watch.name().to_owned()).collect();
        for name in names {
            sink.message(Kind::Dictionary, &of_service(&name, Domain::DICTIONARY, of), clocks, bytes)?;
        }
        if self.hold(bytes) {
            self.dictionaries.push((of, bytes.to_vec()));
            if refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE) {
                self.whole.insert(of);
            }
        }
        Ok(())
    }

    /// Whether there is room for one more message that is held.
    fn hold(&mut self, bytes: &[u8]) -> bool {
        let has_room = self.held + bytes.len() <= HELD_MAX;
        self.held += if has_room { bytes.len() } else { 0 };
        has_room
    }

    /// The session is over: what was open is Suspect then, as its consumer had it, and other sessions may go on with it.
    ///
    /// # Errors
    /// A text for the user: the recording cannot be written.
    pub(super) fn end(&mut self, wall: u64, all: &mut Sessions, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        for ((_, number), stream) in std::mem::take(&mut self.streams) {
            let Some(item) = self.item_of(&stream) else { continue };
            if !stream.is_recorded || all.owners.get(&item) != Some(&self.number) {
                continue;
            }
            all.owners.remove(&item);
            let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "the session has ended");
            let status = StatusMsg { state: Some(state), ..StatusMsg::new(stream.domain, number) };
            let mut buffer = [0; 256];
            let mut w = Writer::new(&mut buffer);
            if status.encode(&mut w).is_ok() {
                sink.message(Kind::Status, &item, Clocks { wall, mono: wall, source: None }, w.written())?;
            }
        }
        Ok(())
    }
}

/// Bytes of a direction are missing, which may have held messages: the recording has a gap there.
pub(super) fn hole(wall: u64, bytes: u64, sink: &mut Sink<'_>) {
    let gap = Gap { reason: GapReason::Overflow, from: wall, to: wall, messages: None, bytes };
    sink.gap(gap, Clocks { wall, mono: wall, source: None });
}

fn of_service(service: &str, domain: Domain, name: &str) -> Item {
    Item { service: service.into(), domain: domain.0, name: name.into() }
}

/// Whether a message of the directory tells of a service: by name, or by its number where that is known.
fn is_about(name: &str, services: &[Service], known: &HashMap<u16, Arc<str>>) -> bool {
    services
        .iter()
        .any(|service| service.name() == Some(name) || known.get(&service.id).is_some_and(|known| **known == *name))
}

/// The key that a message has.
fn key_of(bytes: &[u8]) -> Option<MsgKey<'_>> {
    match Msg::decode(bytes).ok()? {
        Msg::Refresh(msg) => msg.key,
        Msg::Update(msg) => msg.key,
        Msg::Status(msg) => msg.key,
        Msg::Generic(msg) => msg.key,
        Msg::Ack(msg) => msg.key,
        _ => None,
    }
}

/// Whether a message ends its stream.
fn closes(bytes: &[u8]) -> bool {
    match Msg::decode(bytes) {
        // A snapshot is over with its last part.
        Ok(Msg::Refresh(msg)) if msg.state.stream == StreamState::NON_STREAMING => {
            msg.flags.contains(RefreshFlags::REFRESH_COMPLETE)
        }
        Ok(Msg::Refresh(msg)) => msg.state.stream != StreamState::OPEN,
        Ok(Msg::Status(msg)) => msg.state.is_some_and(|state| state.stream != StreamState::OPEN),
        _ => false,
    }
}
