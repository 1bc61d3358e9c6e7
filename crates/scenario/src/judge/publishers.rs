//! Non-interactive providers: the order in which they publish, and that they publish all again on another connection.

use std::collections::{BTreeMap, BTreeSet};

use rwf::msg::{Domain, Msg, MsgKey, RefreshFlags};
use rwf::rdm::directory::{self, Action, Service};
use rwf::rdm::login;
use rwf::{State, StreamState};

use super::notes::Notes;
use super::rules;
use crate::numbers::SECOND;

/// Messages that cross on their way do not count, nanoseconds.
const CROSSING: u64 = 2 * SECOND;

/// An item as a publisher names it: service, name.
type Key = (String, String);

/// A connection of a publisher.
#[derive(Debug, Default)]
struct Session {
    services: BTreeMap<u16, String>,
    streams: BTreeMap<i32, Key>,
    /// Items whose image is whole.
    whole: BTreeSet<i32>,
    /// Streams that the server has closed, and when.
    closed: BTreeMap<i32, u64>,
    /// The login was closed: what comes is on its way still, or that of another rule.
    logged_out: bool,
}

/// The rules of non-interactive providers.
#[derive(Debug, Default)]
pub(super) struct Publishers {
    sessions: BTreeMap<u32, Session>,
    /// Items that were published on a connection that is gone, and since when they can be again.
    lost: BTreeMap<Key, Option<u64>>,
    /// A login is accepted on this connection, and its directory has to come by then.
    directory_since_ns: BTreeMap<u32, u64>,
}

impl Publishers {
    /// A connection is gone: all that was published on it has to come again on the next one.
    pub(super) fn closed(&mut self, conn: u32) {
        self.directory_since_ns.remove(&conn);
        let Some(session) = self.sessions.remove(&conn) else { return };
        for (id, key) in session.streams {
            if session.whole.contains(&id) && !session.closed.contains_key(&id) {
                self.lost.insert(key, None);
            }
        }
        if self.sessions.is_empty() {
            self.lost.values_mut().for_each(|since| *since = None);
        }
    }

    /// Items that are published whole.
    pub(super) fn published(&self) -> usize {
        self.sessions.values().map(|session| session.whole.len()).sum()
    }

    /// A message went to the publisher.
    pub(super) fn server_message(&mut self, now: u64, conn: u32, msg: &Msg<'_>, notes: &mut Notes) {
        let session = self.sessions.entry(conn).or_default();
        match msg {
            Msg::Refresh(refresh)
                if refresh.domain == Domain::LOGIN
                    && refresh.state.stream == StreamState::OPEN
                    && session.services.is_empty() =>
            {
                self.directory_since_ns.entry(conn).or_insert(now);
            }
            Msg::Status(status) if status.domain == Domain::LOGIN && status.state.is_some_and(|s| is_end(&s)) => {
                self.closed(conn);
                self.sessions.insert(conn, Session { logged_out: true, ..Session::default() });
            }
            Msg::Close(close) => {
                notes.occasion(&rules::CLOSED_ITEMS);
                session.closed.insert(close.stream_id, now);
            }
            _ => {}
        }
    }

    /// A message came from the publisher.
    pub(super) fn message(&mut self, now: u64, conn: u32, msg: &Msg<'_>, notes: &mut Notes) {
        let session = self.sessions.entry(conn).or_default();
        match msg {
            Msg::Request(request) if request.domain == Domain::LOGIN => {
                session.logged_out = false;
                notes.occasion(&rules::PUBLISHER_ROLE);
                if !login::Request::decode(request).is_ok_and(|request| request.is_provider()) {
                    let text = "a publisher's login says by Role 1 that it is a provider, and this one does not";
                    notes.broken(&rules::PUBLISHER_ROLE, now, text.to_owned());
                }
            }
            _ if session.logged_out => {}
            Msg::Refresh(refresh) if refresh.domain == Domain::SOURCE => {
                self.directory_since_ns.remove(&conn);
                notes.occasion(&rules::DIRECTORY_FIRST);
                session.directory(directory::services(refresh.container, refresh.body));
                let names: Vec<&String> = session.services.values().collect();
                let found = self.lost.iter_mut().filter(|(key, _)| names.contains(&&key.0));
                found.for_each(|(_, since)| *since = Some(since.unwrap_or(now)));
            }
            Msg::Update(update) if update.domain == Domain::SOURCE => {
                session.directory(directory::services(update.container, update.body));
            }
            _ if [Domain::LOGIN, Domain::SOURCE, Domain::DICTIONARY].contains(&msg.domain()) => {}
            Msg::Refresh(refresh) => {
                session.is_open(now, msg, notes);
                if let Some(key) = session.key(now, refresh.stream_id, refresh.key.as_ref(), notes) {
                    if self.lost.remove(&key).is_some() {
                        notes.occasion(&rules::REPUBLISHES);
                    }
                    session.streams.insert(refresh.stream_id, key);
                }
                if is_end(&refresh.state) {
                    session.ends(refresh.stream_id);
                } else if refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE) {
                    session.whole.insert(refresh.stream_id);
                }
            }
            Msg::Update(update) => {
                session.is_open(now, msg, notes);
                notes.occasion(&rules::IMAGES_FIRST);
                if !session.streams.contains_key(&update.stream_id) {
                    let text = format!("an update on stream {}, on which no image has come", update.stream_id);
                    notes.broken(&rules::IMAGES_FIRST, now, text);
                }
            }
            Msg::Status(status) if status.state.is_some_and(|state| is_end(&state)) => session.ends(status.stream_id),
            _ => {}
        }
    }

    /// When something is due next.
    pub(super) fn due(&self, notes: &Notes) -> Option<u64> {
        let lost = self.lost.values().flatten().min().map(|at| at + notes.time_limit("reopen-s"));
        let directory = self.directory_since_ns.values().min().map(|at| at + notes.time_limit("answer-s"));
        lost.into_iter().chain(directory).min()
    }

    /// Time has come so far.
    pub(super) fn advance(&mut self, now: u64, notes: &mut Notes) {
        let limit = notes.time_limit("reopen-s");
        let late: Vec<Key> = self
            .lost
            .iter()
            .filter(|(_, since)| since.is_some_and(|since| now >= since + limit))
            .map(|(key, _)| key.clone())
            .collect();
        for key in late {
            self.lost.remove(&key);
            let text = format!("{} of {} was not published again in {} s", key.1, key.0, limit / SECOND);
            notes.broken(&rules::REPUBLISHES, now, text);
        }
        let limit = notes.time_limit("answer-s");
        let late: Vec<u32> =
            self.directory_since_ns.iter().filter(|(_, at)| now >= **at + limit).map(|(conn, _)| *conn).collect();
        for conn in late {
            self.directory_since_ns.remove(&conn);
            let text = format!("no directory came in {} s after the login was accepted", limit / SECOND);
            notes.broken(&rules::DIRECTORY_FIRST, now, text);
        }
    }
}

impl Session {
    fn ends(&mut self, stream: i32) {
        self.streams.remove(&stream);
        self.whole.remove(&stream);
    }

    fn directory(&mut self, services: Result<Vec<Service>, rwf::DecodeError>) {
        for service in services.into_iter().flatten() {
            if service.action == Action::Delete {
                self.services.remove(&service.id);
            } else if let Some(name) = service.name() {
                self.services.insert(service.id, name.to_owned());
            }
        }
    }

    /// The item of an image: of its key, or of the stream's.
    fn key(&mut self, now: u64, stream: i32, key: Option<&MsgKey<'_>>, notes: &mut Notes) -> Option<Key> {
        let Some(key) = key.filter(|key| key.name.is_some()) else { return self.streams.get(&stream).cloned() };
        let item = key.name_lossy().into_owned();
        notes.occasion(&rules::DIRECTORY_FIRST);
        let Some(service) = key.service_id.and_then(|id| self.services.get(&id)) else {
            let text = format!("{item} is published for a service that the directory does not have");
            notes.broken(&rules::DIRECTORY_FIRST, now, text);
            return None;
        };
        Some((service.clone(), item))
    }

    fn is_open(&self, now: u64, msg: &Msg<'_>, notes: &mut Notes) {
        let Some(at) = self.closed.get(&msg.stream_id()) else { return };
        if now > at + CROSSING {
            let (id, seconds) = (msg.stream_id(), (now - at) as f64 / 1e9);
            let text = format!("a message came on stream {id}, which was closed {seconds:.1} s before");
            notes.broken(&rules::CLOSED_ITEMS, now, text);
        }
    }
}

/// Whether a stream is over with this state.
fn is_end(state: &State<'_>) -> bool {
    [StreamState::CLOSED, StreamState::CLOSED_RECOVER, StreamState::REDIRECTED].contains(&state.stream)
}
