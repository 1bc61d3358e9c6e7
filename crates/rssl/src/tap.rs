//! Decodes a recorded session from the bytes of both directions, as a bystander.

use crate::closed::Closed;
use crate::config::{Compression, Version};
use crate::frame::{self, Packed, flag};
use crate::handshake::{self, Answer, ConnectAck, ConnectRequest};
use crate::inbound::{Content, Fail, Inbound};
use crate::spare;

/// The way that bytes went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Client to server.
    ToServer,
    /// Server to client.
    ToClient,
}

/// What a [`Tap`] sees. Each frame is shown as it is, then what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A whole frame. [`frame::parse`] takes it apart if it belongs to the session proper.
    Frame {
        /// Where it begins in its direction's stream.
        position: u64,
        /// The frame's bytes.
        wire: &'a [u8],
    },
    /// The client asks.
    ConnectRequest(ConnectRequest<'a>),
    /// The server accepts.
    ConnectAck(ConnectAck<'a>),
    /// The server refuses, with a text.
    ConnectNak(&'a [u8]),
    /// The client's public value; `None` if it gave none.
    Key(Option<u64>),
    /// A ping.
    Ping,
    /// A message: alone, out of a packed frame, or put together from fragments; decompressed.
    Message(&'a [u8]),
    /// What is in the frame cannot be told; what comes after it may be fine.
    Unreadable(&'static str),
}

/// Decodes both directions of one recorded connection. Feed them in the order in which the bytes went, since the server's answer
/// says how both are to be read; any cut is fine.
///
/// A recording that begins after the handshake is read as version 14 without compression, or as [`Tap::assume`] says. A zlib stream
/// cannot be read from its middle: its frames are [`Event::Unreadable`].
pub struct Tap {
    to_server: Inbound,
    to_client: Inbound,
    key_offered: bool,
}

impl Default for Tap {
    fn default() -> Self {
        Self {
            to_server: Inbound::new(REASSEMBLY_BYTES_MAX),
            to_client: Inbound::new(REASSEMBLY_BYTES_MAX),
            key_offered: true,
        }
    }
}

impl Tap {
    /// At the beginning of a connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Says what a handshake that was not recorded agreed on.
    pub fn assume(&mut self, version: Version, compression: Compression) {
        self.to_server.agree(version, compression);
        self.to_client.agree(version, compression);
    }

    /// Takes more bytes of one direction and shows what they complete.
    ///
    /// # Errors
    /// [`Closed::Malformed`] when frames can no longer be told apart; there is no way to go on in this direction.
    pub fn feed(&mut self, direction: Direction, bytes: &[u8], mut show: impl FnMut(Event<'_>)) -> Result<(), Closed> {
        let mut rest = bytes;
        let side = self.side(direction);
        if side.has_tail() {
            match side.complete_tail(&mut rest, frame::LENGTH_MAX) {
                Ok(None) => return Ok(()),
                Ok(Some(frame)) => {
                    self.frame(direction, &frame, &mut show);
                    spare::give(frame);
                }
                Err(what) => return Err(Fail::Malformed(what).at(side.position())),
            }
        }
        loop {
            match frame::length(rest) {
                Ok(Some(length)) if length <= rest.len() => {
                    let (frame, later) = rest.split_at(length);
                    self.frame(direction, frame, &mut show);
                    rest = later;
                }
                Ok(_) => break,
                Err(what) => return Err(Fail::Malformed(what).at(self.side(direction).position())),
            }
        }
        self.side(direction).keep_tail(rest);
        Ok(())
    }

    /// Bytes of a direction are missing: what was not whole is let go of. What is fed next must begin with a frame
    /// ([`frame::begins_frames`]); a zlib stream cannot be read behind it.
    pub fn skip(&mut self, direction: Direction) {
        self.side(direction).clear();
    }

    /// Bytes of an unfinished frame that a direction ends with.
    #[must_use]
    pub fn unfinished_bytes(&self, direction: Direction) -> usize {
        match direction {
            Direction::ToServer => self.to_server.tail_length(),
            Direction::ToClient => self.to_client.tail_length(),
        }
    }

    fn side(&mut self, direction: Direction) -> &mut Inbound {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }

    fn frame(&mut self, direction: Direction, wire: &[u8], show: &mut impl FnMut(Event<'_>)) {
        let side = self.side(direction);
        show(Event::Frame { position: side.position(), wire });
        side.advance(wire.len());
        match (direction, wire[2], wire.get(3)) {
            // No frame of the session proper has these flags.
            (Direction::ToServer, 0, Some(_)) => match ConnectRequest::decode(wire) {
                Ok(request) => {
                    self.key_offered = request.key_exchange;
                    show(Event::ConnectRequest(request));
                }
                Err(handshake::RequestError::UnknownVersion(_)) => {
                    show(Event::Unreadable("connect request of an unknown version"));
                }
                Err(handshake::RequestError::Malformed(what)) => show(Event::Unreadable(what)),
            },
            (Direction::ToServer, flag::KEY, Some(_)) => match handshake::decode_key(wire) {
                Ok(key) => show(Event::Key(key)),
                Err(what) => show(Event::Unreadable(what)),
            },
            (Direction::ToClient, flags, Some(extended)) if Answer::is_answer(flags, *extended) => {
                match Answer::decode(wire, self.key_offered) {
                    Ok(Answer::Ack(ack)) => {
                        self.assume(ack.version, ack.compression_type().unwrap_or_default());
                        show(Event::ConnectAck(ack));
                    }
                    Ok(Answer::Nak(text)) => show(Event::ConnectNak(text)),
                    Err(what) => show(Event::Unreadable(what)),
                }
            }
            _ => self.session_frame(direction, wire, show),
        }
    }

    fn session_frame(&mut self, direction: Direction, wire: &[u8], show: &mut impl FnMut(Event<'_>)) {
        let side = self.side(direction);
        spare::with_work(|work| match side.content(wire, work) {
            Ok(Content::Nothing) | Err(Fail::Over) => {}
            Ok(Content::Ping) => show(Event::Ping),
            Ok(Content::Message(message)) => show(Event::Message(message)),
            Ok(Content::Reassembled(message)) => {
                show(Event::Message(&message));
                spare::give(message);
            }
            Ok(Content::Packed(messages)) => {
                for message in Packed::new(messages) {
                    match message {
                        Ok(message) => show(Event::Message(message)),
                        Err(what) => show(Event::Unreadable(what)),
                    }
                }
            }
            Err(Fail::Malformed(what)) => show(Event::Unreadable(what)),
            Err(Fail::ReassemblyLimit { .. }) => show(Event::Unreadable("fragmented message over 256 MB")),
        });
    }
}

/// A tool that reads a recording serves one user: generous.
const REASSEMBLY_BYTES_MAX: usize = 256 << 20;
