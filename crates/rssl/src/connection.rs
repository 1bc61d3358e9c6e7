//! One RSSL session, client or server.

use std::sync::Arc;

use crate::closed::{Closed, WriteError};
use crate::config::{ClientConfig, Compression, Negotiated, ServerConfig, Version};
use crate::frame::{self, Ahead, HEADER, Packed, flag};
use crate::handshake::{self, Answer, ConnectAck, ConnectRequest, RequestError};
use crate::inbound::{Content, Fail, Inbound};
use crate::key::{KeyBlock, Seed, pow_mod};
use crate::outbound::{Outbound, PAYLOAD_MIN, Packer};
use crate::spare;
use crate::standing::Standing;

/// Takes what a session receives. Generic in [`Connection::receive`], so that small sinks are inlined.
pub trait Sink {
    /// The handshake is finished. Comes once, before any message.
    fn connected(&mut self, _info: &Negotiated) {}

    /// Messages of a frame, some before they come by themselves. A sink that reads memory for each message, in no order, may ask for it here: the
    /// memory then comes while others are worked on. Whether the messages are whole is not known yet.
    #[inline]
    fn ahead(&mut self, _messages: Ahead<'_, '_>) {}

    /// A whole message; borrowed from the received bytes wherever possible.
    fn message(&mut self, msg: &[u8]);

    /// A ping. There is nothing to answer.
    fn ping(&mut self) {}

    /// Asked of a session that is [`Connection::of_stranger`] before it keeps or decompresses something: how far the peer has come.
    fn standing(&mut self) -> Standing {
        Standing::Known
    }
}

/// One RSSL session as a state machine.
///
/// Call [`start`](Self::start) once, [`receive`](Self::receive) with all bytes that come in, [`write`](Self::write) or
/// [`pack`](Self::pack) to send, and [`on_timer`](Self::on_timer) when [`timeout`](Self::timeout) is reached. Everything to be sent is
/// appended to `out`; the caller sends and clears it. `now` is monotonic, in nanoseconds.
///
/// After an error the session is over; `out` may still hold a refusal to send.
pub struct Connection {
    phase: Phase,
    inbound: Inbound,
    outbound: Outbound,
    last_received_ns: u64,
    ping_timeout_ns: u64,
    expects_pings: bool,
    sends_pings: bool,
    started_ns: u64,
    role: Role,
    negotiated: Option<Box<Negotiated>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// `start` was not called yet.
    New,
    /// Server: the connect request is due.
    AwaitRequest,
    /// Server of version 14: the client's key is due; our secret is kept for it.
    AwaitKey {
        secret: u64,
        modulus: u64,
    },
    /// Client: the answer is due.
    AwaitAnswer,
    Connected,
    Closed,
}

enum Role {
    Client { config: Arc<ClientConfig>, seed: u64 },
    Server { config: Arc<ServerConfig>, seed: u64, refusal: Option<Box<str>> },
}

impl Connection {
    /// A session that connects to a server.
    pub fn client(config: impl Into<Arc<ClientConfig>>) -> Self {
        let config = config.into();
        let seed = config.seed;
        Self::new(config.reassembly_bytes_max, Role::Client { config, seed })
    }

    /// A session with a client that connected.
    pub fn server(config: impl Into<Arc<ServerConfig>>) -> Self {
        let config = config.into();
        let seed = config.seed;
        Self::new(config.reassembly_bytes_max, Role::Server { config, seed, refusal: None })
    }

    fn new(reassembly_bytes_max: usize, role: Role) -> Self {
        Self {
            phase: Phase::New,
            inbound: Inbound::new(reassembly_bytes_max),
            outbound: Outbound::new(),
            last_received_ns: 0,
            ping_timeout_ns: 0,
            expects_pings: false,
            sends_pings: false,
            started_ns: 0,
            role,
            negotiated: None,
        }
    }

    /// Gives the session random values of its own where many share one configuration.
    #[must_use]
    pub fn with_seed(mut self, value: u64) -> Self {
        match &mut self.role {
            Role::Client { seed, .. } | Role::Server { seed, .. } => *seed = value,
        }
        self
    }

    /// Has the session keep no more than so many bytes of unfinished messages until [`Sink::standing`] says that the peer is known.
    #[must_use]
    pub fn of_stranger(mut self, bytes_max: usize) -> Self {
        self.inbound.limit_stranger(bytes_max);
        self
    }

    /// Bytes that are kept of messages that are not whole.
    #[must_use]
    pub fn unfinished_bytes(&self) -> usize {
        self.inbound.unfinished_bytes()
    }

    /// Makes a server session answer the connect request with a refusal. No effect on a client or after the handshake.
    pub fn refuse(&mut self, text: &str) {
        if let Role::Server { refusal, .. } = &mut self.role {
            *refusal = Some(text.into());
        }
    }

    /// Begins the handshake: the client's connect request goes to `out`; the handshake timeout begins for both roles.
    pub fn start(&mut self, now: u64, out: &mut Vec<u8>) {
        if self.phase != Phase::New {
            return;
        }
        self.started_ns = now;
        self.last_received_ns = now;
        let Role::Client { config, .. } = &self.role else {
            self.phase = Phase::AwaitRequest;
            return;
        };
        self.phase = Phase::AwaitAnswer;
        self.outbound.last_sent_ns = now;
        ConnectRequest {
            version: config.version,
            key_exchange: config.key_exchange,
            compression: config.compression,
            ping_timeout_s: config.ping_timeout_s,
            protocol_type: config.protocol_type,
            major: config.major,
            minor: config.minor,
            host: config.host.as_bytes(),
            address: config.address.as_bytes(),
            component: config.component.as_bytes(),
        }
        .encode(out);
    }

    /// Takes received bytes, all of them. Messages of whole frames are handed to `sink` where they lie in `input`; an incomplete frame
    /// at the end is kept. Answers of the handshake go to `out`.
    ///
    /// # Errors
    /// The session is over; see [`Closed`]. Messages before the offending frame have been handed on.
    #[inline]
    pub fn receive<S: Sink>(&mut self, now: u64, input: &[u8], out: &mut Vec<u8>, sink: &mut S) -> Result<(), Closed> {
        match self.phase {
            Phase::New => self.start(now, out),
            Phase::Closed => return Err(Closed::AlreadyClosed),
            _ => {}
        }
        self.last_received_ns = now;
        let mut rest = input;
        if self.inbound.has_tail() {
            let length_max = self.frame_max();
            let frame = match self.inbound.complete_tail(&mut rest, length_max) {
                Ok(None) => return Ok(()),
                Ok(Some(frame)) => frame,
                Err(what) => return Err(self.fail(what.into())),
            };
            let result = self.frame(now, &frame, out, sink);
            spare::give(frame);
            result?;
        }
        loop {
            let length = match frame::length(rest) {
                Ok(Some(length)) if length <= rest.len() => length,
                Ok(Some(length)) if length > self.frame_max() => return Err(self.fail(handshake::TOO_LONG.into())),
                Ok(_) => break,
                Err(what) => return Err(self.fail(what.into())),
            };
            let (frame, later) = rest.split_at(length);
            self.frame(now, frame, out, sink)?;
            rest = later;
        }
        self.inbound.keep_tail(rest);
        Ok(())
    }

    #[inline]
    fn frame<S: Sink>(&mut self, now: u64, frame: &[u8], out: &mut Vec<u8>, sink: &mut S) -> Result<(), Closed> {
        if self.phase == Phase::Connected {
            if let Err(fail) = self.session_frame(frame, sink) {
                return Err(self.fail(fail));
            }
        } else {
            self.handshake_frame(now, frame, out)?;
            if let (Phase::Connected, Some(info)) = (self.phase, &self.negotiated) {
                sink.connected(info);
            }
        }
        self.inbound.advance(frame.len());
        Ok(())
    }

    #[inline]
    fn session_frame<S: Sink>(&mut self, frame: &[u8], sink: &mut S) -> Result<(), Fail> {
        match (frame[2], &frame[HEADER..]) {
            (PLAIN, []) => sink.ping(),
            (PLAIN, message) => sink.message(message),
            (PACKED, messages @ [_, ..]) => unpack(messages, sink)?,
            _ => self.rare_frame(frame, sink)?,
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn rare_frame<S: Sink>(&mut self, frame: &[u8], sink: &mut S) -> Result<(), Fail> {
        if self.inbound.is_of_stranger() {
            match sink.standing() {
                Standing::Stranger => {}
                Standing::Known => self.inbound.know(),
                Standing::Over => return Err(Fail::Over),
            }
        }
        spare::with_work(|work| {
            match self.inbound.content(frame, work)? {
                Content::Nothing => {}
                Content::Ping => sink.ping(),
                Content::Message([]) => return Err(Fail::Malformed("compressed frame without content")),
                Content::Message(message) => sink.message(message),
                Content::Packed(messages) => unpack(messages, sink)?,
                Content::Reassembled(message) => {
                    sink.message(&message);
                    spare::give(message);
                }
            }
            Ok(())
        })
    }

    /// Appends one message: a frame, or fragments if it is longer than one frame holds; compressed if that was agreed on.
    ///
    /// # Errors
    /// Nothing was written; see [`WriteError`].
    pub fn write(&mut self, now: u64, msg: &[u8], out: &mut Vec<u8>) -> Result<(), WriteError> {
        self.outbound.check(msg)?;
        self.outbound.write(now, msg, None, out);
        Ok(())
    }

    /// Packs messages into as few frames as they fit, at the end of `out`.
    #[inline]
    pub fn pack<'a>(&'a mut self, now: u64, out: &'a mut Vec<u8>) -> Packer<'a> {
        Packer::new(&mut self.outbound, now, out)
    }

    /// When [`on_timer`](Self::on_timer) is due next, absolute nanoseconds. It moves with the traffic, later only: a caller may keep an
    /// earlier value and ask again when it is reached.
    #[must_use]
    pub fn timeout(&self) -> Option<u64> {
        match self.phase {
            Phase::New | Phase::Closed => None,
            Phase::Connected => {
                let ping = self.sends_pings.then(|| self.outbound.last_sent_ns + self.ping_interval_ns());
                let silence = self.expects_pings.then(|| self.last_received_ns + self.ping_timeout_ns);
                match (ping, silence) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                }
            }
            _ => Some(self.started_ns + self.handshake_timeout_ns()),
        }
    }

    /// Does what is due: writes a ping, or ends a session that was silent too long. Early calls do nothing.
    ///
    /// # Errors
    /// The session is over; see [`Closed`].
    pub fn on_timer(&mut self, now: u64, out: &mut Vec<u8>) -> Result<(), Closed> {
        match self.phase {
            Phase::New => {}
            Phase::Closed => return Err(Closed::AlreadyClosed),
            Phase::Connected => {
                let silent_ns = now.saturating_sub(self.last_received_ns);
                if self.expects_pings && silent_ns >= self.ping_timeout_ns {
                    return Err(self.end(Closed::PingTimeout { silent_ns }));
                }
                if self.sends_pings && now.saturating_sub(self.outbound.last_sent_ns) >= self.ping_interval_ns() {
                    self.outbound.ping(now, out);
                }
            }
            Phase::AwaitRequest | Phase::AwaitKey { .. } | Phase::AwaitAnswer => {
                let waited_ns = now.saturating_sub(self.started_ns);
                if waited_ns >= self.handshake_timeout_ns() {
                    let missing = match self.phase {
                        Phase::AwaitRequest => "connect request",
                        Phase::AwaitKey { .. } => "key of the client",
                        _ => "answer of the server",
                    };
                    return Err(self.end(Closed::HandshakeTimeout { missing, waited_ns }));
                }
            }
        }
        Ok(())
    }

    /// The handshake is finished and the session not over.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.outbound.is_connected()
    }

    /// The terms of the handshake.
    #[must_use]
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.negotiated.as_deref()
    }

    /// The version to offer next when the server closed the connection without an answer; `None` if it answered, or if there is no
    /// lower one. Make a new session with it on a new connection.
    #[must_use]
    pub fn next_version(&self) -> Option<Version> {
        match (&self.role, self.phase) {
            (Role::Client { config, .. }, Phase::AwaitAnswer) => config.version.lower(),
            _ => None,
        }
    }

    /// Bytes of whole frames received.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.inbound.position()
    }

    /// Fragmented messages of the peer that were given up: it began another with the same id, or sent fragments of none.
    #[must_use]
    pub fn orphaned_fragments(&self) -> u64 {
        self.inbound.orphans()
    }

    #[cold]
    fn handshake_frame(&mut self, now: u64, frame: &[u8], out: &mut Vec<u8>) -> Result<(), Closed> {
        if frame.len() > handshake::FRAME_MAX {
            return Err(self.fail(handshake::TOO_LONG.into()));
        }
        match self.phase {
            Phase::AwaitRequest => self.request(now, frame, out),
            Phase::AwaitAnswer => self.answer(now, frame, out),
            Phase::AwaitKey { secret, modulus } => match handshake::decode_key(frame) {
                Err(what) => Err(self.fail(what.into())),
                Ok(public) => {
                    if let Some(info) = &mut self.negotiated {
                        info.shared_key = public.filter(|_| modulus > 0).map(|public| pow_mod(public, secret, modulus));
                    }
                    self.connect(now);
                    Ok(())
                }
            },
            Phase::New | Phase::Connected | Phase::Closed => Err(Closed::AlreadyClosed),
        }
    }

    fn request(&mut self, now: u64, frame: &[u8], out: &mut Vec<u8>) -> Result<(), Closed> {
        let Role::Server { config, seed, refusal } = &self.role else { return Err(Closed::AlreadyClosed) };
        let (config, seed) = (Arc::clone(config), *seed);
        let request = match ConnectRequest::decode(frame) {
            Ok(request) if config.versions.contains(&request.version) => request,
            Ok(request) => return Err(self.end(Closed::UnknownVersion { code: request.version.request_code() })),
            Err(RequestError::UnknownVersion(code)) => return Err(self.end(Closed::UnknownVersion { code })),
            Err(RequestError::Malformed(what)) => return Err(self.fail(what.into())),
        };
        if let Some(text) = refusal.as_deref().map(str::to_owned) {
            handshake::encode_nak(&text, out);
            return Err(self.end(Closed::Refusing { text }));
        }
        if request.protocol_type != config.protocol_type && request.version > Version::V11 {
            handshake::encode_nak(REFUSED, out);
            let (theirs, ours) = (request.protocol_type, config.protocol_type);
            return Err(self.end(Closed::ProtocolType { theirs, ours }));
        }
        let keys = (request.key_exchange && config.key_exchange).then(|| KeyBlock::new(&mut Seed(seed)));
        let info = accept(&config, &request);
        ConnectAck {
            version: info.version,
            forced: info.compression_forced,
            max_user_message_size: info.max_user_message_size,
            client_pings: info.client_pings,
            server_pings: info.server_pings,
            ping_timeout_s: info.ping_timeout_s,
            major: info.major,
            minor: info.minor,
            compression: info.compression as u16,
            compression_level: info.compression_level,
            key: request.key_exchange.then_some(keys.map(|(block, _)| block)),
            component: config.component.as_bytes(),
        }
        .encode(out);
        self.outbound.last_sent_ns = now;
        self.negotiated = Some(Box::new(info));
        if request.key_exchange {
            let (secret, modulus) = keys.map_or((0, 0), |(block, secret)| (secret, block.modulus));
            self.phase = Phase::AwaitKey { secret, modulus };
        } else {
            self.connect(now);
        }
        Ok(())
    }

    fn answer(&mut self, now: u64, frame: &[u8], out: &mut Vec<u8>) -> Result<(), Closed> {
        let Role::Client { config, seed } = &self.role else { return Err(Closed::AlreadyClosed) };
        let (config, seed) = (Arc::clone(config), *seed);
        let key_offered = config.key_exchange && config.version == Version::V14;
        let ack = match Answer::decode(frame, key_offered) {
            Ok(Answer::Ack(ack)) => ack,
            Ok(Answer::Nak(text)) => {
                let text = String::from_utf8_lossy(text).into_owned();
                return Err(self.end(Closed::Refused { text }));
            }
            Err(what) => return Err(self.fail(what.into())),
        };
        if usize::from(ack.max_user_message_size) < PAYLOAD_MIN {
            return Err(self.fail(Fail::Malformed("max user message size below 16")));
        }
        let Some(compression) = ack.compression_type() else {
            return Err(self.fail(Fail::Malformed("unknown compression type")));
        };
        let mut shared_key = None;
        match ack.key {
            None => {}
            Some(None) => handshake::encode_key(None, out),
            Some(Some(block)) => {
                let secret = Seed(seed).next_positive();
                shared_key = Some(pow_mod(block.public, secret, block.modulus));
                handshake::encode_key(Some(pow_mod(block.generator, secret, block.modulus)), out);
            }
        }
        self.outbound.last_sent_ns = now;
        self.negotiated = Some(Box::new(Negotiated {
            version: ack.version,
            major: ack.major,
            minor: ack.minor,
            protocol_type: config.protocol_type,
            ping_timeout_s: ack.ping_timeout_s,
            client_pings: ack.client_pings,
            server_pings: ack.server_pings,
            max_user_message_size: ack.max_user_message_size,
            compression,
            compression_level: ack.compression_level,
            compression_forced: ack.forced,
            shared_key,
            peer_component: String::from_utf8_lossy(ack.component).into_owned(),
            peer_host: String::new(),
            peer_address: String::new(),
        }));
        self.connect(now);
        Ok(())
    }

    fn connect(&mut self, now: u64) {
        let Some(info) = &self.negotiated else { return };
        let (threshold, pings) = match &self.role {
            Role::Client { config, .. } => (config.compression_threshold, (info.client_pings, info.server_pings)),
            Role::Server { config, .. } => (config.compression_threshold, (info.server_pings, info.client_pings)),
        };
        self.ping_timeout_ns = u64::from(info.ping_timeout_s) * 1_000_000_000;
        (self.sends_pings, self.expects_pings) = if self.ping_timeout_ns == 0 { (false, false) } else { pings };
        self.inbound.agree(info.version, info.compression);
        self.outbound.agree(
            info.version,
            info.max_user_message_size,
            info.compression,
            info.compression_level,
            threshold,
        );
        self.last_received_ns = now;
        self.phase = Phase::Connected;
    }

    /// Three pings in a timeout, as EMA and the value-add reactor do, so that a lost turn or two does no harm.
    fn ping_interval_ns(&self) -> u64 {
        self.ping_timeout_ns / 3
    }

    fn handshake_timeout_ns(&self) -> u64 {
        match &self.role {
            Role::Client { config, .. } => config.handshake_timeout_ns,
            Role::Server { config, .. } => config.handshake_timeout_ns,
        }
    }

    /// Longest frame that may come now.
    fn frame_max(&self) -> usize {
        if self.phase == Phase::Connected { frame::LENGTH_MAX } else { handshake::FRAME_MAX }
    }

    #[cold]
    fn fail(&mut self, fail: Fail) -> Closed {
        let closed = fail.at(self.inbound.position());
        self.end(closed)
    }

    fn end(&mut self, closed: Closed) -> Closed {
        self.phase = Phase::Closed;
        self.inbound.clear();
        self.outbound.close();
        closed
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let role = if matches!(self.role, Role::Client { .. }) { "client" } else { "server" };
        f.debug_struct("Connection").field("role", &role).field("phase", &self.phase).finish_non_exhaustive()
    }
}

#[inline]
fn unpack<S: Sink>(payload: &[u8], sink: &mut S) -> Result<(), Fail> {
    let mut ahead = Packed::new(payload);
    let messages = ahead.clone();
    sink.ahead(ahead.tell_ahead());
    for (number, message) in messages.enumerate() {
        if number.is_multiple_of(frame::TOGETHER) {
            sink.ahead(ahead.tell_ahead());
        }
        sink.message(message?);
    }
    Ok(())
}

/// A server's terms for a request that it accepts.
fn accept(config: &ServerConfig, request: &ConnectRequest<'_>) -> Negotiated {
    let ours = (config.major, config.minor);
    let (major, minor) = ours.min((request.major, request.minor));
    let compression = match (config.compression, request.compression.preferred()) {
        (Compression::None, _) => Compression::None,
        (_, Some(offered)) => offered,
        (own, None) if config.force_compression => own,
        (_, None) => Compression::None,
    };
    let (low, high) = (config.ping_timeout_min_s, config.ping_timeout_max_s);
    Negotiated {
        version: request.version,
        major,
        minor,
        protocol_type: config.protocol_type,
        ping_timeout_s: request.ping_timeout_s.min(high).max(low.min(high)),
        client_pings: config.client_pings,
        server_pings: config.server_pings,
        max_user_message_size: config.max_user_message_size.max(PAYLOAD_MIN as u16),
        compression,
        compression_level: if compression == Compression::None { 0 } else { config.compression_level.min(9) },
        compression_forced: config.force_compression && compression != Compression::None,
        shared_key: None,
        peer_component: String::from_utf8_lossy(request.component).into_owned(),
        peer_host: String::from_utf8_lossy(request.host).into_owned(),
        peer_address: String::from_utf8_lossy(request.address).into_owned(),
    }
}

const PLAIN: u8 = flag::DATA;
const PACKED: u8 = flag::DATA | flag::PACKED;

/// ETA's text for every refusal.
const REFUSED: &str = "Connection refused.";
