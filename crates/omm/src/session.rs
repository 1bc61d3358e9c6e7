//! What consumers and non-interactive providers have in common: a connection out of a list, and a login on it.
//!
//! | phase | left by |
//! |---|---|
//! | idle: the next server is dialled at a time | the time: dialling |
//! | dialling | connected: logging in; failed: idle |
//! | logging in | accepted: up; refused for good: ended; refused for now, or silence: closing |
//! | up | lost: idle; login ended, or time to go back to the preferred server: closing |
//! | closing: the owner was told to close the connection | closed: idle |
//! | ended: no more connections | `restart`: idle |

use crate::login::{Acceptance, LoginEvent, LoginStream};
use crate::outbox::Outbox;
use crate::servers::{ConnectionList, Server, Walk, WallClock};
use rwf::StreamState;
use rwf::rdm::login;
use rwf::rdm::state::StateBuf;

/// Why the owner is to close the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disconnect {
    /// The server did not answer the login in time.
    LoginTimeout,
    /// The server refused the login, or ended it.
    LoginRefused,
    /// The preferred server is to be tried again.
    PreferredServer,
    /// The owner ends the session; the login was closed in order.
    Shutdown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle { dial_at: u64 },
    Dialling { server: usize },
    LoggingIn { server: usize, deadline: u64 },
    Up { server: usize, leave_at: Option<u64> },
    Closing,
    Ended,
}

/// What a message on the login stream meant.
#[derive(Debug)]
pub(crate) enum Login {
    /// Nothing for the owner.
    Nothing,
    /// The login was accepted, for the first time on this connection.
    Accepted(Box<login::Refresh>),
    /// The state of the login changed; it stays open.
    State(StateBuf),
    /// The login was refused or ended; the connection is to be closed.
    Refused(StateBuf),
    /// A post on the stream is acknowledged.
    Ack,
}

/// A connection out of a list, and its login.
#[derive(Debug)]
pub(crate) struct Session {
    walk: Walk,
    phase: Phase,
    login: LoginStream,
    timeout_ns: u64,
    pub(crate) out: Outbox,
    disconnect: Option<Disconnect>,
}

impl Session {
    pub(crate) fn new(list: ConnectionList, request: login::Request, timeout_ns: u64) -> Self {
        Self {
            walk: Walk::new(list),
            phase: Phase::Idle { dial_at: 0 },
            login: LoginStream::new(request, Acceptance::OpenStream),
            timeout_ns,
            out: Outbox::default(),
            disconnect: None,
        }
    }

    /// The stream of the login.
    pub(crate) const fn stream(&self) -> i32 {
        self.login.stream_id()
    }

    /// Capabilities that the server has stated.
    pub(crate) const fn features(&self) -> &login::Features {
        self.login.features()
    }

    pub(crate) const fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up { .. })
    }

    /// The server of the connection, or of the attempt.
    pub(crate) fn server(&self) -> Option<&Server> {
        match self.phase {
            Phase::Dialling { server } | Phase::LoggingIn { server, .. } | Phase::Up { server, .. } => {
                self.walk.server(server)
            }
            Phase::Idle { .. } | Phase::Closing | Phase::Ended => None,
        }
    }

    /// The server to dial now, if it is time for that.
    pub(crate) fn poll_connect(&mut self, now: u64) -> Option<&Server> {
        let Phase::Idle { dial_at } = self.phase else { return None };
        if now < dial_at {
            return None;
        }
        let Some(server) = self.walk.take() else {
            self.phase = Phase::Ended;
            return None;
        };
        self.phase = Phase::Dialling { server };
        self.walk.server(server)
    }

    /// The connection is there: the login goes out.
    pub(crate) fn connected(&mut self, now: u64) {
        let Phase::Dialling { server } = self.phase else {
            debug_assert!(false, "connected without having been asked to");
            return;
        };
        self.phase = Phase::LoggingIn { server, deadline: now.saturating_add(self.timeout_ns) };
        self.out.clear();
        let request = self.login.begin();
        self.out.push(|w| request.encode(w));
    }

    /// The connection is gone, or could not be made. Gives whether the login was up.
    pub(crate) fn disconnected(&mut self, now: u64) -> bool {
        self.out.clear();
        self.disconnect = None;
        self.login.reset();
        let was_up = self.is_up();
        self.phase = match self.phase {
            Phase::Up { .. } => Phase::Idle { dial_at: self.walk.lost(now) },
            Phase::Dialling { .. } | Phase::LoggingIn { .. } | Phase::Closing => {
                Phase::Idle { dial_at: self.walk.failed(now) }
            }
            phase @ (Phase::Idle { .. } | Phase::Ended) => phase,
        };
        was_up
    }

    /// Takes a message on the login stream.
    pub(crate) fn message(&mut self, now: u64, msg: &[u8]) -> Login {
        match self.login.message(msg) {
            Ok(LoginEvent::Accepted(refresh)) => self.accepted(now, refresh),
            Ok(LoginEvent::State(state)) => {
                self.take_servers(now);
                Login::State(state)
            }
            Ok(LoginEvent::Over(state)) => self.refused(state),
            Ok(LoginEvent::RoundTrip(round_trip)) => {
                let answer = round_trip.answer();
                self.out.push(|w| answer.encode(w));
                Login::Nothing
            }
            Ok(LoginEvent::Ack) => Login::Ack,
            Ok(LoginEvent::Nothing | LoginEvent::WrongDirection(_)) | Err(_) => Login::Nothing,
        }
    }

    fn accepted(&mut self, now: u64, refresh: Option<Box<login::Refresh>>) -> Login {
        let (Phase::LoggingIn { server, .. }, Some(refresh)) = (self.phase, refresh) else {
            debug_assert!(false, "a login was accepted in {:?}", self.phase);
            return Login::Nothing;
        };
        let told = refresh.connection_config.as_ref().filter(|_| self.login.asks_for_servers());
        let server = told.map_or(server, |told| self.walk.learn(server, servers(told)));
        self.phase = Phase::Up { server, leave_at: self.walk.succeeded(server, now) };
        Login::Accepted(refresh)
    }

    /// The servers have changed since the login.
    fn take_servers(&mut self, now: u64) {
        if let Some(told) = self.login.take_told()
            && let Phase::Up { server, .. } = self.phase
        {
            let server = self.walk.learn(server, servers(&told));
            self.phase = Phase::Up { server, leave_at: self.walk.succeeded(server, now) };
        }
    }

    fn refused(&mut self, state: StateBuf) -> Login {
        self.login.give_up();
        self.disconnect = Some(Disconnect::LoginRefused);
        self.phase = if state.stream == StreamState::CLOSED { Phase::Ended } else { Phase::Closing };
        Login::Refused(state)
    }

    /// When [`Session::timer`] has something to do.
    pub(crate) const fn timeout(&self) -> Option<u64> {
        match self.phase {
            Phase::Idle { dial_at } => Some(dial_at),
            Phase::LoggingIn { deadline, .. } => Some(deadline),
            Phase::Up { leave_at, .. } => leave_at,
            Phase::Dialling { .. } | Phase::Closing | Phase::Ended => None,
        }
    }

    /// Gives up what takes too long. Gives whether an established session is left.
    pub(crate) fn timer(&mut self, now: u64) -> bool {
        match self.phase {
            Phase::LoggingIn { deadline, .. } if deadline <= now => {
                self.login.give_up();
                self.disconnect = Some(Disconnect::LoginTimeout);
                self.phase = Phase::Closing;
                false
            }
            Phase::Up { leave_at: Some(at), .. } if at <= now => {
                self.leave_for_preferred(now);
                true
            }
            _ => false,
        }
    }

    fn leave_for_preferred(&mut self, now: u64) {
        self.walk.lost(now);
        self.close_login();
        self.disconnect = Some(Disconnect::PreferredServer);
        self.phase = Phase::Closing;
    }

    /// Leaves a server that is not the preferred one for that one. Gives whether there was such to leave.
    pub(crate) fn fall_back(&mut self, now: u64) -> bool {
        let Phase::Up { server, .. } = self.phase else { return false };
        let is_other = self.walk.preferred().is_some_and(|preferred| preferred != server);
        if is_other {
            self.leave_for_preferred(now);
        }
        is_other
    }

    /// Takes the time that the clock on the wall shows: the time at which a server is left by a schedule follows it.
    pub(crate) fn set_clock(&mut self, clock: WallClock) {
        self.walk.set_clock(clock);
        if let Phase::Up { server, leave_at } = &mut self.phase
            && self.walk.has_schedule()
            // A time that has come stays: what is due is done first.
            && leave_at.is_none_or(|due| due > clock.now)
        {
            *leave_at = self.walk.leave_at(*server, clock.now);
        }
    }

    /// Whether a schedule needs the clock on the wall.
    pub(crate) const fn has_schedule(&self) -> bool {
        self.walk.has_schedule()
    }

    /// Whether the owner is to be told to close the connection.
    pub(crate) const fn disconnects(&self) -> bool {
        self.disconnect.is_some()
    }

    /// Why the owner is to close the connection, once.
    pub(crate) const fn poll_disconnect(&mut self) -> Option<Disconnect> {
        self.disconnect.take()
    }

    /// Changes what the login says, such as its token, and tells the server if there is one.
    pub(crate) fn reissue(&mut self, change: impl FnOnce(&mut login::Request)) {
        let is_up = self.is_up();
        let request = self.login.reissue(change);
        if is_up {
            self.out.push(|w| request.encode(w));
        }
    }

    /// Ends the session in order. Gives whether it was up.
    pub(crate) fn shut_down(&mut self) -> bool {
        let was_up = self.is_up();
        if was_up {
            self.close_login();
        }
        if !matches!(self.phase, Phase::Idle { .. } | Phase::Ended) {
            self.disconnect = Some(Disconnect::Shutdown);
        }
        self.login.give_up();
        self.phase = Phase::Ended;
        was_up
    }

    /// Connects again after the session has ended.
    pub(crate) fn restart(&mut self, now: u64) {
        if self.phase == Phase::Ended {
            self.phase = Phase::Idle { dial_at: now };
        }
    }

    fn close_login(&mut self) {
        let stream = self.stream();
        self.login.give_up();
        self.out.push(|w| login::encode_close(stream, w));
    }
}

/// The servers of a list that can be connected to.
fn servers(told: &login::ConnectionConfig) -> impl Iterator<Item = Server> {
    told.servers.iter().filter_map(|server| {
        let port = u16::try_from(server.port).ok().filter(|port| *port > 0)?;
        (!server.host.is_empty()).then(|| Server::new(server.host.clone(), port))
    })
}
