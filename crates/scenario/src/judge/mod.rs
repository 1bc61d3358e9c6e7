//! The judge: sees all that goes between server and client, and says which rules the client broke.

mod items;
mod notes;
mod pairs;
mod posts;
mod providers;
mod publishers;
mod reports;
mod rules;
mod sessions;

pub use notes::{Finding, Notes};
pub use pairs::Pair;
pub use rules::{LIMITS, Limit, RULES, Rule, rule};

use std::collections::BTreeMap;

use rwf::DataType;
use rwf::container::{FieldList, Map, SetScope};
use rwf::msg::{Domain, Msg, RequestFlags};
use rwf::rdm::directory::{ConsumerStatus, Refresh as DirectoryRefresh, Update as DirectoryUpdate};
use rwf::rdm::request::Payload;
use rwf::rdm::{dictionary, login};

use crate::file::Judges;
use items::Items;
use posts::Posts;
use providers::Providers;
use publishers::Publishers;
use reports::Reports;
use sessions::Sessions;

/// Sees a run and notes what a client does wrong. Times are nanoseconds of one clock.
#[derive(Debug)]
pub struct Judge {
    judges: Judges,
    notes: Notes,
    sessions: Sessions,
    items: Items,
    posts: Posts,
    reports: Reports,
    providers: Providers,
    publishers: Publishers,
    /// The smallest resident memory of the client since it had its first image, bytes.
    memory_base: Option<u64>,
    has_login: bool,
}

impl Judge {
    /// Nothing has been seen yet; `judges` is what is under test, `limits` are those that the scenario has.
    pub fn new(judges: Judges, limits: BTreeMap<String, f64>) -> Self {
        Self {
            judges,
            notes: Notes::new(limits),
            sessions: Sessions::new(judges == Judges::Provider),
            items: Items::default(),
            posts: Posts::default(),
            reports: Reports::default(),
            providers: Providers::default(),
            publishers: Publishers::default(),
            memory_base: None,
            has_login: false,
        }
    }

    /// Findings and occasions so far.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// So many lines of the client said what it uses.
    pub fn reports(&self) -> u64 {
        self.reports.count()
    }

    /// A connection came up, with this ping timeout.
    pub fn connected(&mut self, now: u64, conn: u32, ping_timeout_ns: u64) {
        // Who connects again has given up what was not heard of any more.
        for gone in self.sessions.vanished_ones() {
            self.closed(now, gone, true);
        }
        self.sessions.connected(now, conn, ping_timeout_ns, &mut self.notes);
    }

    /// The client of a connection speaks JSON: it need not know how services are.
    pub fn speaks_json(&mut self, conn: u32) {
        self.items.speaks_json(conn);
    }

    /// A connection is over; `by_client`: the client ended it.
    pub fn closed(&mut self, now: u64, conn: u32, by_client: bool) {
        self.sessions.closed(now, conn, by_client, &mut self.notes);
        match self.judges {
            Judges::Consumer => {
                self.items.closed(conn);
                self.posts.closed(conn);
                self.reports.closed(now, conn);
            }
            Judges::Provider => self.providers.closed(now, conn, by_client, &mut self.notes),
            Judges::Publisher => self.publishers.closed(conn),
        }
    }

    /// Nothing goes over a connection any more, neither way and not even its end: the client has to find that out.
    pub fn vanished(&mut self, now: u64, conn: u32) {
        self.sessions.vanished(now, conn);
    }

    /// The clock of the time fields was set.
    pub fn clock_set(&mut self, now: u64) {
        self.items.clock_set(now, &mut self.notes);
    }

    /// The server is the active one of a pair from now on, in place of the other: what the client has of items it had of that one.
    pub fn goes_on_for(&mut self, now: u64, other: &mut Self) {
        self.reports.goes_on_for(now, &mut other.reports);
    }

    /// The server can be connected to, or not.
    pub fn listening(&mut self, now: u64, listening: bool) {
        self.sessions.listening(now, listening);
    }

    /// The server is so from now on: without a word, not even pings; without reading.
    pub fn server_is(&mut self, now: u64, mute: bool, deaf: bool) {
        self.sessions.server_is(now, mute, deaf);
        self.providers.consumer_is(now, deaf);
    }

    /// Bytes came from the client, if only a ping.
    pub fn heard(&mut self, now: u64, conn: u32) {
        self.sessions.heard(now, conn);
    }

    /// A message came from the client. False: it is none.
    pub fn client_message(&mut self, now: u64, conn: u32, bytes: &[u8]) -> bool {
        self.notes.occasion(&rules::WELL_FORMED);
        let msg = match Msg::decode(bytes).and_then(|msg| models(&msg).map(|()| msg)) {
            Ok(msg) => msg,
            Err(error) => {
                self.notes.broken(&rules::WELL_FORMED, now, format!("a message that cannot be decoded: {error}"));
                return false;
            }
        };
        match self.judges {
            Judges::Consumer => self.consumer_message(now, conn, &msg),
            Judges::Provider => self.providers.provider_message(now, conn, &msg, &mut self.notes),
            Judges::Publisher => {
                self.sessions.client_message(now, conn, &msg, &mut self.notes);
                self.publishers.message(now, conn, &msg, &mut self.notes);
            }
        }
        true
    }

    fn consumer_message(&mut self, now: u64, conn: u32, msg: &Msg<'_>) {
        self.sessions.client_message(now, conn, msg, &mut self.notes);
        self.items.client_message(now, conn, msg, &mut self.notes);
        self.items.follow(conn);
        self.posts.client_message(now, conn, msg, &mut self.notes);
        if let Msg::Request(request) = msg
            && ![Domain::LOGIN, Domain::SOURCE, Domain::DICTIONARY].contains(&request.domain)
        {
            let payload = Payload::of_request(request).unwrap_or_default();
            let names = payload.items.filter(|_| request.flags.contains(RequestFlags::HAS_BATCH));
            for (stream, name) in (request.stream_id + 1..).zip(names.iter().flatten()) {
                self.reports.opened(conn, stream, &String::from_utf8_lossy(name));
            }
            if names.is_none() && request.key.name.is_some() {
                self.reports.opened(conn, request.stream_id, &request.key.name_lossy());
            }
        }
    }

    /// A message went to the client. `wall_s` is the wall clock now, seconds since 1970.
    pub fn server_message(&mut self, now: u64, conn: u32, bytes: &[u8], wall_s: u64) {
        // Bytes that the scenario has sent to see what becomes of them say nothing to the judge.
        let Ok(msg) = Msg::decode(bytes) else { return };
        self.has_login |= msg.domain() == Domain::LOGIN;
        if self.judges == Judges::Provider {
            return self.providers.consumer_message(now, conn, &msg, &mut self.notes);
        }
        self.sessions.server_message(now, conn, &msg, wall_s, &mut self.notes);
        if self.judges == Judges::Publisher {
            return self.publishers.server_message(now, conn, &msg, &mut self.notes);
        }
        self.items.server_message(now, conn, &msg, &mut self.notes);
        self.posts.server_message(conn, &msg, &mut self.notes);
        self.reports.server_message(now, conn, &msg);
    }

    /// Bytes of the client are no session of the protocol, and why.
    pub fn malformed(&mut self, now: u64, why: &str) {
        self.notes.broken(&rules::WELL_FORMED, now, format!("its bytes are no frames: {why}"));
    }

    /// The client wrote a line. Whether it was a report of what it uses.
    pub fn line(&mut self, now: u64, line: &str) -> bool {
        self.reports.line(now, line, &mut self.notes)
    }

    /// The client's process has so much memory.
    pub fn memory(&mut self, now: u64, bytes: u64) {
        if !self.has_login {
            return;
        }
        let base = *self.memory_base.get_or_insert(bytes);
        let limit = self.notes.limit("memory-mb") * 1e6;
        self.notes.occasion(&rules::MEMORY);
        if (bytes.saturating_sub(base)) as f64 > limit {
            let (from, to) = (base / 1_000_000, bytes / 1_000_000);
            self.notes.broken(&rules::MEMORY, now, format!("its memory grew from {from} to {to} MB"));
            self.memory_base = Some(bytes);
        }
    }

    /// The client's process has ended by itself.
    pub fn ended(&mut self, now: u64, how: &str) {
        self.notes.broken(&rules::STAYS_ALIVE, now, format!("its process ended: {how}"));
    }

    /// The client's process is there at the end.
    pub fn is_alive(&mut self) {
        self.notes.occasion(&rules::STAYS_ALIVE);
    }

    /// A step of the scenario waited, and this was missing; `None`: it came.
    pub fn step(&mut self, now: u64, missing: Option<String>) {
        match missing {
            None => self.notes.occasion(&rules::STEPS),
            Some(text) => self.notes.broken(&rules::STEPS, now, text),
        }
    }

    /// When something is due next.
    pub fn due(&self) -> Option<u64> {
        let due = match self.judges {
            Judges::Consumer => self.items.due(&self.notes),
            Judges::Provider => self.providers.due(&self.notes),
            Judges::Publisher => self.publishers.due(&self.notes),
        };
        [self.sessions.due(&self.notes), due].into_iter().flatten().min()
    }

    /// Time has come so far.
    pub fn advance(&mut self, now: u64) {
        for given_up in self.sessions.advance(now, &mut self.notes) {
            self.closed(now, given_up, false);
        }
        match self.judges {
            Judges::Consumer => self.items.advance(now, &mut self.notes),
            Judges::Provider => self.providers.advance(now, &mut self.notes),
            Judges::Publisher => self.publishers.advance(now, &mut self.notes),
        }
    }

    /// Items that a non-interactive provider has published whole.
    pub fn published(&self) -> usize {
        self.publishers.published()
    }

    /// The scenario does something for which an interactive provider may end a connection.
    pub fn excuse(&mut self) {
        self.providers.excuse();
    }
}

/// Whether the models of a message's domain can be read.
fn models(msg: &Msg<'_>) -> Result<(), rwf::DecodeError> {
    match msg {
        Msg::Refresh(refresh) if refresh.domain == Domain::LOGIN => login::Refresh::decode(refresh).map(|_| ()),
        Msg::Request(request) if request.domain == Domain::LOGIN => login::Request::decode(request).map(|_| ()),
        Msg::Request(request) if request.domain == Domain::DICTIONARY => {
            let _ = dictionary::Request::decode(request);
            Ok(())
        }
        Msg::Request(request) => Payload::of_request(request).map(|_| ()),
        Msg::Refresh(refresh) if refresh.domain == Domain::SOURCE => DirectoryRefresh::decode(refresh).map(|_| ()),
        Msg::Update(update) if update.domain == Domain::SOURCE => DirectoryUpdate::decode(update).map(|_| ()),
        Msg::Refresh(refresh) => content(refresh.domain, refresh.container, refresh.body),
        Msg::Generic(generic) if generic.domain == Domain::LOGIN => {
            login::ConnectionStatus::decode(generic).map(|_| ())
        }
        Msg::Generic(generic) if generic.domain == Domain::SOURCE => ConsumerStatus::decode(generic).map(|_| ()),
        Msg::Update(update) => content(update.domain, update.container, update.body),
        _ => Ok(()),
    }
}

/// Whether the entries of an item's content can be read; dictionaries and what is opaque have their own readers.
fn content(domain: Domain, container: DataType, body: &[u8]) -> Result<(), rwf::DecodeError> {
    match container {
        _ if domain == Domain::DICTIONARY => Ok(()),
        DataType::FIELD_LIST => FieldList::decode(body, &SetScope::NONE)?.entries().try_for_each(|e| e.map(|_| ())),
        DataType::MAP => Map::decode(body, &SetScope::NONE)?.entries().try_for_each(|entry| entry.map(|_| ())),
        _ => Ok(()),
    }
}
