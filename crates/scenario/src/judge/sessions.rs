//! Connections and logins.

use std::collections::BTreeMap;

use rwf::msg::{Domain, Msg};
use rwf::rdm::login;
use rwf::{DataState, StreamState};

use super::notes::{Notes, Pace};
use super::rules;
use crate::numbers::SECOND;

/// Messages on their way when a login is closed do not count, nanoseconds.
const CROSSING: u64 = SECOND;
/// Delays of a busy machine that no rule counts, nanoseconds.
const SLACK: u64 = SECOND;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Login {
    None,
    Asked,
    Open,
    Closed(u64),
}

#[derive(Debug)]
struct Session {
    login: Login,
    login_stream: Option<i32>,
    /// When the client was heard last, pings included.
    heard_ns: u64,
    since_ns: u64,
    ping_timeout_ns: u64,
    /// The connection has outlived its ping timeout: that is an occasion, once.
    outlived: bool,
    /// The token is to be renewed by then.
    renew_by_ns: Option<u64>,
    /// Nothing goes over the connection any more since then.
    vanished_since_ns: Option<u64>,
}

/// The rules of connections and logins.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    open: BTreeMap<u32, Session>,
    connections: Pace,
    logins: Pace,
    /// A connection was lost and the server can be connected to since then.
    missed_since_ns: Option<u64>,
    listening: bool,
    was_connected: bool,
    /// The server says nothing since then, not even pings.
    mute_since_ns: Option<u64>,
    /// The server does not read: it cannot hear pings.
    deaf: bool,
    /// An interactive provider is under test: connections are made from here.
    is_dialled: bool,
}

impl Sessions {
    /// Sessions of a process that connects, or that is connected to.
    pub(super) fn new(is_dialled: bool) -> Self {
        Self { is_dialled, ..Self::default() }
    }

    /// A connection came up.
    pub(super) fn connected(&mut self, now: u64, conn: u32, ping_timeout_ns: u64, notes: &mut Notes) {
        self.was_connected = true;
        if self.missed_since_ns.take().is_some() {
            notes.occasion(&rules::RECONNECTS);
        }
        if !self.is_dialled {
            self.pace(now, notes);
        }
        let session = Session {
            login: Login::None,
            login_stream: None,
            heard_ns: now,
            since_ns: now,
            ping_timeout_ns,
            outlived: false,
            renew_by_ns: None,
            vanished_since_ns: None,
        };
        self.open.insert(conn, session);
        if let Some(since) = &mut self.mute_since_ns {
            *since = now.max(*since);
        }
    }

    fn pace(&mut self, now: u64, notes: &mut Notes) {
        let most = notes.limit("connections-in-10-s");
        notes.occasion(&rules::RECONNECT_PACING);
        let count = self.connections.note(now);
        if count as f64 > most {
            notes.broken(&rules::RECONNECT_PACING, now, format!("{count} connections in 10 s, {most} are the most"));
        }
    }

    /// A connection is gone, by the client's doing or not.
    pub(super) fn closed(&mut self, now: u64, conn: u32, by_client: bool, notes: &mut Notes) {
        let gone = self.open.remove(&conn);
        let was_silent = |gone: &Session| self.mute_since_ns.is_some() || gone.vanished_since_ns.is_some();
        if gone.is_some_and(|gone| by_client && was_silent(&gone)) {
            notes.occasion(&rules::DEAD_SERVER);
        }
        if self.open.is_empty() && self.listening {
            self.missed_since_ns = Some(now);
        }
    }

    /// Nothing goes over a connection any more.
    pub(super) fn vanished(&mut self, now: u64, conn: u32) {
        if let Some(session) = self.open.get_mut(&conn) {
            session.vanished_since_ns = Some(now);
            session.renew_by_ns = None;
        }
    }

    /// Connections over which nothing goes any more, and of whose end nobody has heard.
    pub(super) fn vanished_ones(&self) -> Vec<u32> {
        let vanished = self.open.iter().filter(|(_, session)| session.vanished_since_ns.is_some());
        vanished.map(|(conn, _)| *conn).collect()
    }

    /// Whether the server has said nothing for the ping timeout and so much more.
    fn is_overdue(&self, now: u64, more_ns: u64) -> bool {
        // A connection that has vanished has a time of its own.
        let heard = self.open.values().filter(|session| session.vanished_since_ns.is_none());
        let Some(timeout) = heard.map(|session| session.ping_timeout_ns).max() else { return false };
        self.mute_since_ns.is_some_and(|since| now >= since + timeout + patience(timeout, more_ns))
    }

    /// The server listens, or does not.
    pub(super) fn listening(&mut self, now: u64, listening: bool) {
        self.listening = listening;
        self.missed_since_ns = (listening && self.was_connected && self.open.is_empty()).then_some(now);
    }

    /// The server says nothing from now on, or does again; it reads or does not.
    pub(super) fn server_is(&mut self, now: u64, mute: bool, deaf: bool) {
        if mute != self.mute_since_ns.is_some() {
            self.mute_since_ns = mute.then_some(now);
        }
        if self.deaf && !deaf {
            self.open.values_mut().for_each(|session| session.heard_ns = now);
        }
        self.deaf = deaf;
    }

    /// Something came from the client, if only a ping.
    pub(super) fn heard(&mut self, now: u64, conn: u32) {
        if let Some(session) = self.open.get_mut(&conn) {
            session.heard_ns = now;
        }
    }

    /// A message came from the client.
    pub(super) fn client_message(&mut self, now: u64, conn: u32, msg: &Msg<'_>, notes: &mut Notes) {
        let Some(session) = self.open.get_mut(&conn) else { return };
        let is_login = msg.domain() == Domain::LOGIN;
        match (msg, is_login) {
            (Msg::Request(request), true) => {
                let is_reissue = session.login_stream == Some(request.stream_id) && session.login == Login::Open;
                if is_reissue {
                    if session.renew_by_ns.take().is_some() {
                        notes.occasion(&rules::TOKEN_RENEWAL);
                    }
                    return;
                }
                session.login = Login::Asked;
                session.login_stream = Some(request.stream_id);
                notes.occasion(&rules::LOGIN_FIRST);
                notes.occasion(&rules::LOGIN_PACING);
                let (count, most) = (self.logins.note(now), notes.limit("logins-in-10-s"));
                if count as f64 > most {
                    notes.broken(&rules::LOGIN_PACING, now, format!("{count} logins in 10 s, {most} are the most"));
                }
            }
            (Msg::Request(_) | Msg::Post(_) | Msg::Generic(_) | Msg::Refresh(_) | Msg::Update(_), _) => {
                match session.login {
                    Login::None | Login::Asked => {
                        let text = format!("{} before the login was accepted", name(msg));
                        notes.broken(&rules::LOGIN_FIRST, now, text);
                    }
                    Login::Closed(at) if now > at + CROSSING => {
                        let text = format!("{} after the login was closed", name(msg));
                        notes.broken(&rules::CLOSED_LOGIN, now, text);
                    }
                    Login::Open | Login::Closed(_) => {}
                }
            }
            _ => {}
        }
    }

    /// A message went to the client. `wall_s` is the wall clock now, seconds since 1970.
    pub(super) fn server_message(&mut self, now: u64, conn: u32, msg: &Msg<'_>, wall_s: u64, notes: &mut Notes) {
        // Any message of the server shows a client that it lives.
        self.mute_since_ns = self.mute_since_ns.map(|_| now);
        let Some(session) = self.open.get_mut(&conn) else { return };
        if msg.domain() != Domain::LOGIN {
            return;
        }
        let state = match msg {
            Msg::Refresh(refresh) => {
                let reissue_at = login::Refresh::decode(refresh).ok().and_then(|model| model.authentication.reissue_at);
                session.renew_by_ns = reissue_at.map(|at| now + at.saturating_sub(wall_s) * SECOND);
                Some(refresh.state)
            }
            Msg::Status(status) => status.state,
            _ => None,
        };
        match state.map(|state| (state.stream, state.data)) {
            Some((StreamState::OPEN, DataState::OK)) => session.login = Login::Open,
            Some((StreamState::CLOSED | StreamState::CLOSED_RECOVER, _)) => {
                session.login = Login::Closed(now);
                session.renew_by_ns = None;
                notes.occasion(&rules::CLOSED_LOGIN);
            }
            _ => {}
        }
    }

    /// When something is due next.
    pub(super) fn due(&self, notes: &Notes) -> Option<u64> {
        let each = self.open.values().flat_map(|session| {
            let is_heard = !self.deaf && session.vanished_since_ns.is_none();
            let silent = is_heard.then_some(session.heard_ns + session.ping_timeout_ns + SLACK);
            let vanished = session.vanished_since_ns.map(|since| {
                let timeout = session.ping_timeout_ns;
                since + timeout + patience(timeout, notes.time_limit("dead-server-s")) + notes.time_limit("reconnect-s")
            });
            [silent, session.renew_by_ns.map(|by| by + SLACK), vanished]
        });
        let dead = self.open.values().map(|session| session.ping_timeout_ns).max();
        let dead = self.mute_since_ns.zip(dead).map(|(at, timeout)| {
            let limit = notes.time_limit("dead-server-s");
            at + timeout + patience(timeout, limit)
        });
        let missed = self.missed_since_ns.map(|at| at + notes.time_limit("reconnect-s"));
        each.flatten().chain(dead).chain(missed).min()
    }

    /// Time has come so far. Gives the connections that are counted as ended: nothing goes over them, and the client should have found that out.
    pub(super) fn advance(&mut self, now: u64, notes: &mut Notes) -> Vec<u32> {
        let limit = notes.time_limit("dead-server-s");
        let mut given_up = Vec::new();
        if !self.open.is_empty() && self.is_overdue(now, limit) {
            let seconds = self.mute_since_ns.map_or(0, |since| (now - since) / SECOND);
            let text = format!(
                "nothing was said from here for {seconds} s, not even a ping, and the connection is still there"
            );
            notes.broken(&rules::DEAD_SERVER, now, text);
            self.mute_since_ns = Some(now);
        }
        for (conn, session) in &mut self.open {
            if let Some(since) = session.vanished_since_ns {
                let timeout = session.ping_timeout_ns;
                // Only that another connection is made can be seen, and for that there is time, too.
                if now >= since + timeout + patience(timeout, limit) + notes.time_limit("reconnect-s") {
                    given_up.push(*conn);
                    let seconds = (now - since) / SECOND;
                    let text = format!(
                        "nothing has gone over connection {conn} for {seconds} s, not even a ping, and no other one was made"
                    );
                    notes.broken(&rules::DEAD_SERVER, now, text);
                }
                continue;
            }
            if !session.outlived && now >= session.since_ns + session.ping_timeout_ns {
                session.outlived = true;
                notes.occasion(&rules::PINGS);
            }
            if !self.deaf && now >= session.heard_ns + session.ping_timeout_ns + SLACK {
                let (silent, timeout) = ((now - session.heard_ns) / SECOND, session.ping_timeout_ns / SECOND);
                let text = format!("nothing came for {silent} s, not even a ping; the ping timeout is {timeout} s");
                notes.broken(&rules::PINGS, now, text);
                session.heard_ns = now;
            }
            if session.renew_by_ns.is_some_and(|by| now >= by + SLACK) {
                session.renew_by_ns = None;
                let text = "the time of AuthenticationTTReissue has come, and the login was not reissued".to_owned();
                notes.broken(&rules::TOKEN_RENEWAL, now, text);
            }
        }
        let limit = notes.time_limit("reconnect-s");
        if let Some(since) = self.missed_since_ns.filter(|since| now >= since + limit) {
            self.missed_since_ns = None;
            let text = format!("no connection came in {} s after the last was lost", (now - since) / SECOND);
            notes.broken(&rules::RECONNECTS, now, text);
        }
        given_up
    }
}

/// How long after the ping timeout a connection may still be there: who looks once a ping timeout needs as much again.
fn patience(timeout_ns: u64, limit_ns: u64) -> u64 {
    limit_ns.max(timeout_ns + SECOND)
}

/// A message in a few words.
pub(super) fn name(msg: &Msg<'_>) -> String {
    let class = match msg {
        Msg::Request(_) => "request",
        Msg::Post(_) => "post",
        Msg::Generic(_) => "generic message",
        Msg::Close(_) => "close",
        Msg::Refresh(_) => "refresh",
        Msg::Update(_) => "update",
        _ => "message",
    };
    format!("a {class} of the domain {} on stream {}", msg.domain(), msg.stream_id())
}
