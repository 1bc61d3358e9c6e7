//! `SoupBinTCP` 3.00: a login, then messages in order over TCP; their numbers are counted from the one that the login names.
//!
//! A packet: its length in two bytes, which count the type and what follows, then the type. The client side is here, as a state machine: bytes
//! in, messages out, and bytes to send.

use crate::sequence::{Change, Receiver};

/// Longest packet with its length.
const LONGEST: usize = 2 + 0xFFFF;

/// Silence after which a heartbeat is due, as a client and from a server.
const HEARTBEAT_NS: u64 = 1_000_000_000;

/// Silence after which the other side counts as gone.
const SILENCE_NS: u64 = 15_000_000_000;

/// Login: user, session and first message that is wanted.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// User name, at most six characters.
    pub user: String,
    /// Password, at most ten.
    pub password: String,
    /// Session, at most ten; empty: the one that runs.
    pub session: String,
    /// Number of the first message wanted: 1 for all of them, 0 for what comes next.
    pub sequence: u64,
}

/// Without the password: what is debugged ends up in logs.
impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { user, session, sequence, .. } = self;
        f.debug_struct("Login").field("user", user).field("session", session).field("sequence", sequence).finish()
    }
}

/// A number that no day reaches: a login that is answered by a higher one is no answer.
const HIGHEST: u64 = 1 << 62;

/// Why a login was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// User and password are not authorised.
    NotAuthorised,
    /// There is no such session.
    NoSession,
    /// The server gave another letter.
    Other(u8),
}

/// How a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The login has been sent.
    LoggingIn,
    /// Messages come.
    Open,
    /// The server refuses the login: dialling again without another one is of no use.
    Rejected(Rejection),
    /// The server has ended the session: no message follows.
    Ended,
    /// Nothing has come for 15 seconds: dial again, the login asks for what is missing.
    Silent,
    /// The server sent what is no packet: dial again.
    Broken,
}

/// The client's side of `SoupBinTCP`. One value serves many connections, one after the other: [`SoupClient::connected`] begins each.
#[derive(Debug)]
pub struct SoupClient {
    login: Login,
    state: State,
    /// Number of the next message; 0: not known yet.
    next: u64,
    is_in_doubt: bool,
    /// Messages of this session will not come: no login makes up for that.
    is_lost: bool,
    /// The beginning of a packet that has not come whole.
    partial: Vec<u8>,
    out: Vec<u8>,
    heard: u64,
    said: u64,
    unknown: u64,
}

impl SoupClient {
    /// A client that is not connected.
    pub fn new(login: Login) -> Self {
        let next = login.sequence;
        Self {
            login,
            state: State::LoggingIn,
            next,
            is_in_doubt: false,
            is_lost: false,
            partial: Vec::new(),
            out: Vec::new(),
            heard: 0,
            said: 0,
            unknown: 0,
        }
    }

    /// A connection stands: logs in, for the message behind the last one that came.
    pub fn connected(&mut self, now: u64) {
        self.partial.clear();
        self.out.clear();
        self.state = State::LoggingIn;
        (self.heard, self.said) = (now, now);
        let Login { user, password, session, .. } = &self.login;
        let body = format!("{user:<6.6}{password:<10.10}{session:>10.10}{:>20}", self.next);
        self.send(b'L', body.as_bytes());
    }

    /// The connection is gone: what its messages could change is in doubt until the next login is accepted.
    pub fn disconnected(&mut self, receiver: &mut impl Receiver) {
        if self.state == State::Open {
            self.state = State::LoggingIn;
        }
        if self.state != State::Ended {
            self.leave(receiver);
        }
    }

    /// Takes bytes of the connection, cut anywhere.
    pub fn receive(&mut self, mut bytes: &[u8], now: u64, receiver: &mut impl Receiver) {
        if !bytes.is_empty() {
            self.heard = now;
        }
        while !self.partial.is_empty() && !bytes.is_empty() && self.is_listening() {
            // Completes the packet that was cut, byte by byte of its length first.
            let wanted = packet_length(&self.partial).unwrap_or(2);
            let (more, rest) = bytes.split_at((wanted - self.partial.len()).min(bytes.len()));
            self.partial.extend_from_slice(more);
            bytes = rest;
            if packet_length(&self.partial) == Some(self.partial.len()) {
                let packet = std::mem::take(&mut self.partial);
                self.packet(&packet[2..], receiver);
                self.partial = packet;
                self.partial.clear();
            }
        }
        while self.is_listening() {
            let Some(packet) = packet_length(bytes).and_then(|length| bytes.get(..length)) else { break };
            bytes = &bytes[packet.len()..];
            self.packet(&packet[2..], receiver);
        }
        if self.is_listening() {
            self.partial.extend_from_slice(bytes);
        }
        debug_assert!(self.partial.len() < LONGEST);
    }

    /// When [`SoupClient::on_timer`] wants to be called.
    pub fn timer(&self) -> Option<u64> {
        let silent = self.heard.saturating_add(SILENCE_NS);
        self.is_listening().then(|| silent.min(self.said.saturating_add(HEARTBEAT_NS)))
    }

    /// Sends a heartbeat, or finds that the server has been silent for too long.
    pub fn on_timer(&mut self, now: u64, receiver: &mut impl Receiver) {
        if !self.is_listening() {
            return;
        }
        if now >= self.heard.saturating_add(SILENCE_NS) {
            self.state = State::Silent;
            self.disconnected(receiver);
        } else if now >= self.said.saturating_add(HEARTBEAT_NS) {
            self.said = now;
            self.send(b'R', b"");
        }
    }

    /// Bytes to be sent, once.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Says goodbye.
    pub fn log_out(&mut self) {
        self.send(b'O', b"");
    }

    /// How the connection stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// Number of the next message; 0 before a login that asked for what comes next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Packets of types that this version does not know, which were passed over.
    pub fn unknown_packets(&self) -> u64 {
        self.unknown
    }

    fn is_listening(&self) -> bool {
        matches!(self.state, State::LoggingIn | State::Open)
    }

    fn send(&mut self, code: u8, body: &[u8]) {
        self.out.extend_from_slice(&(body.len() as u16 + 1).to_be_bytes());
        self.out.push(code);
        self.out.extend_from_slice(body);
    }

    #[inline]
    fn packet(&mut self, packet: &[u8], receiver: &mut impl Receiver) {
        let Some((code, body)) = packet.split_first() else {
            self.state = State::Broken;
            return self.leave(receiver);
        };
        match code {
            b'S' if self.state == State::Open => {
                let number = self.next;
                self.next += 1;
                receiver.message(number, body);
            }
            b'A' if self.state == State::LoggingIn => self.accepted(body, receiver),
            b'J' if self.state == State::LoggingIn => {
                self.state = State::Rejected(match body.first() {
                    Some(b'A') => Rejection::NotAuthorised,
                    Some(b'S') => Rejection::NoSession,
                    other => Rejection::Other(other.copied().unwrap_or(0)),
                });
            }
            b'Z' => {
                self.state = State::Ended;
                receiver.change(&Change::Ended);
            }
            b'H' | b'+' | b'U' => {}
            b'S' | b'A' | b'J' => {
                self.state = State::Broken;
                self.leave(receiver);
            }
            _ => self.unknown += 1,
        }
    }

    fn leave(&mut self, receiver: &mut impl Receiver) {
        if self.next > 0 && !self.is_in_doubt {
            self.is_in_doubt = true;
            receiver.change(&Change::Gap { missing: self.next..self.next });
        }
    }

    fn accepted(&mut self, body: &[u8], receiver: &mut impl Receiver) {
        let name = body.get(..10).map(|name| name.trim_ascii().escape_ascii().to_string());
        let next = body.get(10..30).and_then(digits).filter(|next| (1..HIGHEST).contains(next));
        let Some((name, next)) = name.zip(next) else {
            self.state = State::Broken;
            return self.leave(receiver);
        };
        self.state = State::Open;
        let is_new = self.login.session.trim() != name;
        let wanted = std::mem::replace(&mut self.next, next);
        if is_new {
            self.login.session.clone_from(&name);
            self.is_lost = false;
            receiver.change(&Change::Session { name, next });
        }
        let begins_late = is_new && self.login.sequence == 1 && next > 1;
        let has_hole = !is_new && next > wanted && wanted > 0;
        if begins_late || has_hole {
            self.is_lost = true;
            let missing = if is_new { 1..next } else { wanted..next };
            receiver.change(&Change::Lost { missing });
        } else if self.is_in_doubt && !is_new && !self.is_lost {
            receiver.change(&Change::Repaired);
        }
        self.is_in_doubt = self.is_lost;
    }
}

/// Length of the packet that begins here, with its own two bytes.
fn packet_length(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk::<2>().map(|length| 2 + usize::from(u16::from_be_bytes(*length)))
}

/// A number in ASCII digits with blanks before or behind.
pub(super) fn digits(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.trim_matches(' ').parse().ok()
}

/// Writes a server's packet: for tests and simulations.
pub fn packet(code: u8, body: &[u8], out: &mut Vec<u8>) {
    let length = body.len().min(0xFFFE);
    out.extend_from_slice(&(length as u16 + 1).to_be_bytes());
    out.push(code);
    out.extend_from_slice(&body[..length]);
}
