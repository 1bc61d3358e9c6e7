//! The end of a tunnel stream that opens it: a private, qualified stream in which whole messages go both ways, numbered and acknowledged, with so many bytes on their way
//! as the other end lets, and a login of its own in it.
//!
//! | phase | left by |
//! |---|---|
//! | out | [`Tunnel::open`]: asked |
//! | asked: the answer is awaited | a refresh or status that is Open/Ok: logging in, or open |
//! | logging in: the answer to the login in the tunnel is awaited | one that accepts: open |
//! | open: messages go in | the provider ends it: ending |
//! | ending: the end is acknowledged and answered | the provider's last word: out |
//!
//! In every phase but the first a final state, a refused login, an answer that does not come in time and what cannot be read lead to out, with a reason ([`Event::Closed`]).
//! Nothing here reads a clock: `now` is monotonic nanoseconds.

mod posts;
#[cfg(test)]
mod tests;
mod wire;

pub use posts::{PostCounts, PostTunnel};

use crate::outbox::Outbox;
use rwf::msg::{CloseMsg, Domain, GenericFlags, GenericMsg, Msg, MsgKey, RefreshMsg, RequestFlags, RequestMsg};
use rwf::rdm::login;
use rwf::rdm::state::StateBuf;
use rwf::wire::Writer;
use rwf::{DataState, DataType, State, StateCode, StreamState};
use std::collections::VecDeque;
use wire::{Ack, ClassOfService, Header};

/// Bytes that may be on their way to here: what comes is taken at once.
const WINDOW: u32 = 1 << 16;
/// Longest message where the provider states no other: ETA's default.
const MAX_MESSAGE: u64 = 6_144;
/// Bytes on their way to a provider that states a window of "the usual" size (a negative one): ETA's default.
const USUAL_WINDOW: u32 = 12_288;

/// Settings of a tunnel stream.
#[derive(Debug, Clone)]
pub struct TunnelConfig {
    /// Id of the stream, which the connection has for nothing else.
    pub stream_id: i32,
    /// Domain of the stream.
    pub domain: Domain,
    /// Name of the stream; at most 255 bytes.
    pub name: String,
    /// Id of the service at the provider.
    pub service_id: u16,
    /// The login in the tunnel; without one messages go in as soon as it is open.
    pub login: Option<login::Request>,
    /// Messages that may wait for their acknowledgements, sent or not.
    pub messages_max: usize,
    /// Time in which the opening has to be answered, and so the login in it, nanoseconds.
    pub patience: u64,
}

/// Events of a tunnel stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Messages go in from now on.
    Open,
    /// A message came out of it.
    Message(Vec<u8>),
    /// The stream is over; what was not acknowledged may not have come.
    Closed(StateBuf),
}

/// Why a message does not go into a tunnel stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The stream is not open.
    NotOpen,
    /// So many messages as may are waiting for their acknowledgements.
    Full,
    /// The provider takes no message of this length; the longest that it takes, bytes.
    TooLong(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Out,
    Asked,
    LoggingIn,
    Open,
    Ending,
}

/// The end of a tunnel stream that opens it. See the [module](self).
#[derive(Debug)]
pub struct Tunnel {
    config: TunnelConfig,
    phase: Phase,
    /// The terms that the provider has agreed to.
    agreed: ClassOfService,
    /// Bytes that may be on their way, `None` for any number.
    window: Option<u32>,
    /// The last number that was given to a message, and that came.
    sent: u32,
    received: u32,
    /// Data that came is to be acknowledged; with a range that is to be sent again.
    ack_due: bool,
    again: Option<(u32, u32)>,
    /// Messages that were not sent, and those that were and are not acknowledged, with their numbers.
    waiting: VecDeque<Vec<u8>>,
    unacknowledged: VecDeque<(u32, Vec<u8>)>,
    in_flight: usize,
    deadline: Option<u64>,
    out: Outbox,
    events: VecDeque<Event>,
}

/// How a number stands to another one, across the wrap: negative if before.
const fn behind(number: u32, other: u32) -> i32 {
    number.wrapping_sub(other).cast_signed()
}

impl Tunnel {
    /// A tunnel stream that is not open.
    pub fn new(config: TunnelConfig) -> Self {
        let agreed = ClassOfService { stream_version: 1, max_message: None, has_login: false, window: None };
        Self {
            config,
            phase: Phase::Out,
            agreed,
            window: None,
            sent: 0,
            received: 0,
            ack_due: false,
            again: None,
            waiting: VecDeque::new(),
            unacknowledged: VecDeque::new(),
            in_flight: 0,
            deadline: None,
            out: Outbox::default(),
            events: VecDeque::new(),
        }
    }

    /// Whether messages go in.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether it was asked for, and is not over.
    pub fn is_asked(&self) -> bool {
        self.phase != Phase::Out
    }

    /// Id of the stream.
    pub const fn stream_id(&self) -> i32 {
        self.config.stream_id
    }

    /// Asks for the stream, of the service with this id at the provider.
    pub fn open(&mut self, now: u64, service_id: u16) {
        self.config.service_id = service_id;
        self.forget();
        let class = ClassOfService {
            stream_version: 1,
            max_message: None,
            has_login: self.config.login.is_some(),
            window: Some(WINDOW.into()),
        };
        let mut body = [0; 512];
        let mut w = Writer::new(&mut body);
        if class.encode(&mut w).is_err() {
            return self.end("its class of service cannot be written");
        }
        let body = w.into_written();
        let c = &self.config;
        let key = MsgKey { filter: Some(class.filter()), ..MsgKey::item(service_id, c.name.as_bytes()) };
        let flags = RequestFlags::STREAMING | RequestFlags::PRIVATE_STREAM | RequestFlags::QUALIFIED_STREAM;
        let container = DataType::FILTER_LIST;
        let request = RequestMsg { flags, key, container, body, ..RequestMsg::new(c.domain, c.stream_id) };
        self.out.push(|w| request.encode(w));
        self.phase = Phase::Asked;
        self.deadline = Some(now.saturating_add(c.patience));
    }

    /// A message is to go in.
    ///
    /// # Errors
    /// The message does not go in; nothing is changed.
    pub fn send(&mut self, msg: &[u8]) -> Result<(), Refused> {
        if self.phase != Phase::Open {
            return Err(Refused::NotOpen);
        }
        let longest = self.longest();
        if msg.len() as u64 > longest {
            return Err(Refused::TooLong(longest));
        }
        if self.waiting.len() + self.unacknowledged.len() >= self.config.messages_max {
            return Err(Refused::Full);
        }
        self.waiting.push_back(msg.to_vec());
        self.transmit();
        Ok(())
    }

    fn longest(&self) -> u64 {
        let agreed = self.agreed.max_message.unwrap_or(MAX_MESSAGE);
        self.window.map_or(agreed, |window| agreed.min(window.into()))
    }

    /// The connection is gone, or the service: nothing more is said.
    pub fn lose(&mut self, why: &str) {
        if self.phase != Phase::Out {
            self.out.clear();
            self.over(StateBuf::from(State::new(
                StreamState::CLOSED_RECOVER,
                DataState::SUSPECT,
                StateCode::NONE,
                why,
            )));
        }
    }

    /// When [`Tunnel::handle_timeout`] is due, nanoseconds.
    pub const fn timeout(&self) -> Option<u64> {
        self.deadline
    }

    /// An answer may not have come in time.
    pub fn handle_timeout(&mut self, now: u64) {
        if self.deadline.is_some_and(|at| at <= now) {
            let what = if self.phase == Phase::Asked { "the opening" } else { "the login in it" };
            self.end(&format!("{what} is not answered in time"));
        }
    }

    /// Events since the last call.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next message for the provider.
    pub fn poll_transmit(&mut self) -> Option<&[u8]> {
        if std::mem::take(&mut self.ack_due) {
            let again = self.again.take().into_iter().collect();
            self.acknowledge(&Ack { up_to: self.received, again, window: WINDOW, ends: false });
        }
        self.out.pop()
    }

    /// A message of the provider: false if it is not of this stream.
    pub fn handle_message(&mut self, now: u64, msg: &Msg<'_>) -> bool {
        if msg.stream_id() != self.config.stream_id || self.phase == Phase::Out {
            return false;
        }
        match msg {
            Msg::Refresh(refresh) if self.phase == Phase::Asked => self.accepted(now, refresh),
            Msg::Refresh(_) => {}
            Msg::Status(status) => {
                if let Some(state) = status.state.filter(|state| state.stream.is_final()) {
                    self.over(state.into());
                }
            }
            Msg::Generic(generic) if self.phase != Phase::Asked => self.came(now, generic),
            _ => self.end("it was answered with a message that has no place in it"),
        }
        true
    }

    fn accepted(&mut self, now: u64, refresh: &RefreshMsg<'_>) {
        if refresh.state.stream.is_final() {
            return self.over(refresh.state.into());
        }
        if refresh.state.data != DataState::OK {
            // The provider is not ready; it says so again when it is.
            return;
        }
        let Ok(agreed) = ClassOfService::decode(refresh.body) else {
            return self.end("the class of service in the answer cannot be read");
        };
        self.agreed = agreed;
        self.window = agreed.window.map(|bytes| u32::try_from(bytes).unwrap_or(USUAL_WINDOW));
        let Some(login) = &self.config.login else { return self.opened() };
        let mut bytes = vec![0; 4_096];
        let mut w = Writer::new(&mut bytes);
        if login.encode(&mut w).is_err() {
            return self.end("the login in it cannot be written");
        }
        let message = w.into_written().to_vec();
        self.phase = Phase::LoggingIn;
        self.deadline = Some(now.saturating_add(self.config.patience));
        // The login goes in whatever the window is.
        self.number(message);
    }

    fn opened(&mut self) {
        self.phase = Phase::Open;
        self.deadline = None;
        self.events.push_back(Event::Open);
    }

    /// Something came in the tunnel.
    fn came(&mut self, now: u64, generic: &GenericMsg<'_>) {
        let header = generic.ext_header.and_then(|bytes| Header::decode(bytes, self.agreed.stream_version));
        match (header, generic.seq_num) {
            (Some(Header::Data), Some(number)) => match behind(number, self.received) {
                1 => {
                    (self.received, self.ack_due) = (number, true);
                    self.take(generic);
                }
                ..=0 => {}
                _ => (self.again, self.ack_due) = (Some((self.received.wrapping_add(1), number)), true),
            },
            (Some(Header::Ack(ack)), _) => self.acknowledged(now, &ack),
            (Some(Header::Fragment), _) => self.end("a part of a message came in it, and none is taken"),
            _ => self.end("the header of a message in it cannot be read"),
        }
    }

    /// A message came out of the tunnel.
    fn take(&mut self, generic: &GenericMsg<'_>) {
        if self.phase != Phase::LoggingIn {
            return self.events.push_back(Event::Message(generic.body.to_vec()));
        }
        let is_login = |msg: &Msg<'_>| generic.container == DataType::MSG && msg.domain() == Domain::LOGIN;
        let Some(answer) = Msg::decode(generic.body).ok().filter(is_login) else { return };
        let Some(state) = answer.state().copied() else { return };
        match (&answer, state.stream.is_final()) {
            (_, true) => {
                self.out.push(|w| CloseMsg::new(self.config.domain, self.config.stream_id).encode(w));
                self.over(state.into());
            }
            (Msg::Refresh(_), false) if state.data == DataState::OK => self.opened(),
            _ => {}
        }
    }

    fn acknowledged(&mut self, now: u64, ack: &Ack) {
        self.window = self.window.map(|_| ack.window);
        if ack.ends {
            if self.phase != Phase::Ending {
                // A stream that the provider ends is acknowledged, and ended from here as well; its last word follows.
                self.received = ack.up_to;
                self.acknowledge(&Ack { up_to: ack.up_to, window: WINDOW, ..Ack::default() });
                self.sent = self.sent.wrapping_add(1);
                self.acknowledge(&Ack { ends: true, up_to: self.sent, window: WINDOW, ..Ack::default() });
                self.phase = Phase::Ending;
                self.deadline = Some(now.saturating_add(self.config.patience));
            }
            return;
        }
        while let Some((_, msg)) = self.unacknowledged.pop_front_if(|(number, _)| behind(*number, ack.up_to) <= 0) {
            self.in_flight -= msg.len();
        }
        if self.phase == Phase::Ending {
            return self.end("the provider has ended it");
        }
        let is_asked = |number: u32| {
            ack.again.iter().any(|&(first, last)| behind(number, first) >= 0 && behind(number, last) <= 0)
        };
        let Self { out, unacknowledged, config, agreed, .. } = self;
        for (number, msg) in unacknowledged.iter().filter(|(number, _)| is_asked(*number)) {
            write(out, config, agreed.stream_version, (*number, true), msg);
        }
        self.transmit();
    }

    /// Sends what the window lets.
    fn transmit(&mut self) {
        let fits = |this: &Self, msg: &Vec<u8>| {
            this.window.is_none_or(|window| this.in_flight.saturating_add(msg.len()) <= window as usize)
        };
        while self.waiting.front().is_some_and(|msg| fits(self, msg))
            && let Some(msg) = self.waiting.pop_front()
        {
            self.number(msg);
        }
    }

    /// Sends a message with the next number.
    fn number(&mut self, msg: Vec<u8>) {
        self.sent = self.sent.wrapping_add(1);
        self.in_flight += msg.len();
        let Self { out, config, agreed, sent, .. } = self;
        write(out, config, agreed.stream_version, (*sent, false), &msg);
        self.unacknowledged.push_back((self.sent, msg));
    }

    fn acknowledge(&mut self, ack: &Ack) {
        let header = ack.encode();
        let generic = GenericMsg {
            flags: GenericFlags::MESSAGE_COMPLETE,
            ext_header: Some(&header),
            ..GenericMsg::new(self.config.domain, self.config.stream_id)
        };
        self.out.push(|w| generic.encode(w));
    }

    /// Gives the stream up for a reason of this end's, which tells the provider.
    fn end(&mut self, why: &str) {
        self.out.push(|w| CloseMsg::new(self.config.domain, self.config.stream_id).encode(w));
        let text = format!("Tunnel stream {}: {why}", self.config.name);
        let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, &text);
        self.over(state.into());
    }

    fn over(&mut self, state: StateBuf) {
        self.forget();
        self.phase = Phase::Out;
        self.events.push_back(Event::Closed(state));
    }

    fn forget(&mut self) {
        (self.sent, self.received, self.in_flight) = (0, 0, 0);
        (self.ack_due, self.again, self.deadline) = (false, None, None);
        self.waiting.clear();
        self.unacknowledged.clear();
    }
}

/// Writes a message in the tunnel with its number.
fn write(out: &mut Outbox, config: &TunnelConfig, version: u64, (number, is_again): (u32, bool), msg: &[u8]) {
    let (header, length) = wire::data(version, is_again);
    let generic = GenericMsg {
        flags: GenericFlags::MESSAGE_COMPLETE,
        seq_num: Some(number),
        ext_header: Some(&header[..length]),
        container: DataType::MSG,
        body: msg,
        ..GenericMsg::new(config.domain, config.stream_id)
    };
    out.push(|w| generic.encode(w));
}
