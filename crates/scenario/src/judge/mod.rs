//! The judge: sees all that goes between server and client, and says which rules the client broke.

mod items;
mod notes;
mod posts;
mod reports;
mod rules;
mod sessions;

pub use notes::{Finding, Notes};
pub use rules::{LIMITS, Limit, RULES, Rule, rule};

use std::collections::BTreeMap;

use rwf::msg::{Domain, Msg, RequestFlags};
use rwf::rdm::directory::{Refresh as DirectoryRefresh, Update as DirectoryUpdate};
use rwf::rdm::request::Payload;
use rwf::rdm::{dictionary, login};

use items::Items;
use posts::Posts;
use reports::Reports;
use sessions::Sessions;

/// Sees a run and notes what a client does wrong. Times are nanoseconds of one clock.
#[derive(Debug)]
pub struct Judge {
    notes: Notes,
    sessions: Sessions,
    items: Items,
    posts: Posts,
    reports: Reports,
    /// The smallest resident memory of the client since it had its first image, bytes.
    memory_base: Option<u64>,
    has_login: bool,
}

impl Judge {
    /// Nothing has been seen yet; `limits` are those that the scenario has.
    pub fn new(limits: BTreeMap<String, f64>) -> Self {
        Self {
            notes: Notes::new(limits),
            sessions: Sessions::default(),
            items: Items::default(),
            posts: Posts::default(),
            reports: Reports::default(),
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
        self.sessions.connected(now, conn, ping_timeout_ns, &mut self.notes);
    }

    /// A connection is over; `by_client`: the client ended it.
    pub fn closed(&mut self, now: u64, conn: u32, by_client: bool) {
        self.sessions.closed(now, conn, by_client, &mut self.notes);
        self.items.closed(conn);
        self.posts.closed(conn);
        self.reports.closed(now, conn);
    }

    /// The server can be connected to, or not.
    pub fn listening(&mut self, now: u64, listening: bool) {
        self.sessions.listening(now, listening);
    }

    /// The server is so from now on: without a word, not even pings; without reading.
    pub fn server_is(&mut self, now: u64, mute: bool, deaf: bool) {
        self.sessions.server_is(now, mute, deaf);
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
        self.sessions.client_message(now, conn, &msg, &mut self.notes);
        self.items.client_message(now, conn, &msg, &mut self.notes);
        self.items.follow(conn);
        self.posts.client_message(now, conn, &msg, &mut self.notes);
        if let Msg::Request(request) = &msg
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
        true
    }

    /// A message went to the client. `wall_s` is the wall clock now, seconds since 1970.
    pub fn server_message(&mut self, now: u64, conn: u32, bytes: &[u8], wall_s: u64) {
        // Bytes that the scenario has sent to see what becomes of them say nothing to the judge.
        let Ok(msg) = Msg::decode(bytes) else { return };
        self.has_login |= msg.domain() == Domain::LOGIN;
        self.sessions.server_message(now, conn, &msg, wall_s, &mut self.notes);
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
        [self.sessions.due(&self.notes), self.items.due(&self.notes)].into_iter().flatten().min()
    }

    /// Time has come so far.
    pub fn advance(&mut self, now: u64) {
        self.sessions.advance(now, &mut self.notes);
        self.items.advance(now, &mut self.notes);
    }
}

/// Whether the models of a message's domain can be read.
fn models(msg: &Msg<'_>) -> Result<(), rwf::DecodeError> {
    match msg {
        Msg::Request(request) if request.domain == Domain::LOGIN => login::Request::decode(request).map(|_| ()),
        Msg::Request(request) if request.domain == Domain::DICTIONARY => {
            let _ = dictionary::Request::decode(request);
            Ok(())
        }
        Msg::Request(request) => Payload::of_request(request).map(|_| ()),
        Msg::Refresh(refresh) if refresh.domain == Domain::SOURCE => DirectoryRefresh::decode(refresh).map(|_| ()),
        Msg::Update(update) if update.domain == Domain::SOURCE => DirectoryUpdate::decode(update).map(|_| ()),
        _ => Ok(()),
    }
}
