//! The frames of one WebSocket session as messages, either role, after the upgrade.

use flate2::{Decompress, FlushDecompress};

use super::frame::{self, Header, OpCode};
use super::{Closed, code};
use crate::spare;
use crate::standing::Standing;

/// Takes the messages of a session.
pub trait Sink {
    /// A whole text message.
    fn text(&mut self, text: &str);
    /// A whole binary message.
    fn binary(&mut self, bytes: &[u8]);
    /// Asked behind each message: why the session does not take it, if it does not. It is closed with [`code::UNSUPPORTED`] then, and nothing
    /// that follows in the same bytes is looked at.
    fn refuses(&self) -> Option<&'static str> {
        None
    }
    /// Asked of a session that is [`Socket::of_stranger`] before each frame of a message: how far the peer has come.
    fn standing(&mut self) -> Standing {
        Standing::Known
    }
}

/// Limits of what a peer may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a message, all its frames together and after decompression.
    pub message_bytes_max: usize,
    /// Frames of a message.
    pub frames_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { message_bytes_max: 1 << 20, frames_max: 4096 }
    }
}

/// Which side of a session this is: a client masks what it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// This side connected; the number seeds its masks.
    Client(u64),
    /// This side was connected to.
    Server,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// This side has sent its close.
    Closing,
    Closed,
}

/// One WebSocket session after its upgrade. Bytes go in, messages and the bytes of answers come out.
pub struct Socket {
    phase: Phase,
    role: Role,
    deflate: bool,
    limits: Limits,
    /// Bytes of an unfinished message that are kept while the peer is not known.
    stranger_bytes_max: Option<usize>,
    /// Beginning of a frame that is not whole.
    tail: Vec<u8>,
    /// The message that fragments have begun.
    begun: Option<Begun>,
    inflate: Option<Box<Decompress>>,
}

struct Begun {
    text: bool,
    compressed: bool,
    frames: u32,
    bytes: Vec<u8>,
}

impl Socket {
    /// A session whose upgrade is done; `deflate` as that agreed.
    #[must_use]
    pub fn new(role: Role, deflate: bool, limits: Limits) -> Self {
        Self {
            phase: Phase::Open,
            role,
            deflate,
            limits,
            stranger_bytes_max: None,
            tail: Vec::new(),
            begun: None,
            inflate: None,
        }
    }

    /// Has the session keep no more than so many bytes of an unfinished message until [`Sink::standing`] says that the peer is known.
    #[must_use]
    pub fn of_stranger(mut self, bytes_max: usize) -> Self {
        self.stranger_bytes_max = Some(bytes_max);
        self
    }

    /// Bytes that are kept of a message that is not whole.
    #[must_use]
    pub fn unfinished_bytes(&self) -> usize {
        self.tail.len() + self.begun.as_ref().map_or(0, |begun| begun.bytes.len())
    }

    /// Bytes that a message may have.
    fn message_max(&self) -> usize {
        let most = self.limits.message_bytes_max;
        self.stranger_bytes_max.map_or(most, |stranger| stranger.min(most))
    }

    /// Whether this is the server's side, whose frames are not masked.
    pub fn is_server(&self) -> bool {
        self.role == Role::Server
    }

    /// Whether messages that this side sends may be compressed.
    #[must_use]
    pub fn deflates(&self) -> bool {
        self.deflate
    }

    /// Takes received bytes, all of them. Answers (pongs, the echo of a close) go to `out`.
    ///
    /// # Errors
    /// The session is over; `out` may still hold a close frame to send.
    pub fn receive<S: Sink>(&mut self, input: &[u8], out: &mut Vec<u8>, sink: &mut S) -> Result<(), Closed> {
        if self.phase == Phase::Closed {
            return Err(Closed::AlreadyClosed);
        }
        if self.tail.is_empty() {
            let rest = self.frames(input, out, sink)?;
            if !rest.is_empty() {
                self.tail = spare::take();
                self.tail.extend_from_slice(rest);
            }
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.tail);
        bytes.extend_from_slice(input);
        let left = self.frames(&bytes, out, sink).map(<[u8]>::len);
        match left {
            Ok(0) | Err(_) => spare::give(bytes),
            Ok(left) => {
                bytes.drain(..bytes.len() - left);
                self.tail = bytes;
            }
        }
        left.map(drop)
    }

    fn frames<'b, S: Sink>(&mut self, mut rest: &'b [u8], out: &mut Vec<u8>, sink: &mut S) -> Result<&'b [u8], Closed> {
        loop {
            let header = match Header::parse(rest) {
                Ok(None) => return Ok(rest),
                Ok(Some(header)) => header,
                Err(what) => return Err(self.fail(code::PROTOCOL, what, out)),
            };
            if header.mask.is_some() != (self.role == Role::Server) {
                return Err(self.fail(code::PROTOCOL, "a client masks its frames and a server does not", out));
            }
            if self.stranger_bytes_max.is_some() && !header.op.is_control() {
                match sink.standing() {
                    Standing::Stranger => {}
                    Standing::Known => self.stranger_bytes_max = None,
                    Standing::Over => return Err(Closed::AlreadyClosed),
                }
            }
            // The message's bytes so far count before the rest of a frame is waited for.
            let begun = self.begun.as_ref().filter(|_| header.op == OpCode::Continuation);
            let begun = begun.map_or(0, |begun| begun.bytes.len());
            if header.payload > self.message_max().saturating_sub(begun) as u64 {
                return Err(self.fail(code::TOO_BIG, "message is longer than allowed", out));
            }
            let (start, payload) = (header.length, header.payload as usize);
            let Some(frame) = rest.get(start..start + payload) else { return Ok(rest) };
            rest = &rest[start + payload..];
            self.frame(&header, frame, out, sink)?;
        }
    }

    fn frame<S: Sink>(
        &mut self,
        header: &Header,
        payload: &[u8],
        out: &mut Vec<u8>,
        sink: &mut S,
    ) -> Result<(), Closed> {
        if header.op.is_control() {
            return self.control(header, payload, out);
        }
        if header.compressed && (!self.deflate || header.op == OpCode::Continuation) {
            return Err(self.fail(code::PROTOCOL, "compressed frame though none was agreed on", out));
        }
        // ETA Java as a server gives a long message up when its buffers run out, with fragments of it sent, and goes on with others.
        let gives_up = self.role != Role::Server && header.op != OpCode::Continuation;
        let outer = if gives_up { self.begun.take() } else { None };
        let mut begun = match (self.begun.take(), header.op) {
            (None, OpCode::Continuation) => {
                return Err(self.fail(code::PROTOCOL, "fragment of a message that has not begun", out));
            }
            (Some(begun), OpCode::Continuation) => begun,
            (Some(_), _) => return Err(self.fail(code::PROTOCOL, "message within a fragmented one", out)),
            (None, op) => {
                let text = op == OpCode::Text;
                Begun { text, compressed: header.compressed, frames: 0, bytes: spare::take() }
            }
        };
        begun.frames += 1;
        if begun.bytes.len() + payload.len() > self.message_max() || begun.frames > self.limits.frames_max {
            return Err(self.fail(code::TOO_BIG, "message is longer than allowed", out));
        }
        let start = begun.bytes.len();
        begun.bytes.extend_from_slice(payload);
        if let Some(mask) = header.mask {
            frame::apply_mask(&mut begun.bytes[start..], mask);
        }
        if header.fin {
            self.message(begun, out, sink)?;
            // A message that was interrupted may go on all the same.
            self.begun = outer;
        } else {
            self.begun = Some(begun);
        }
        Ok(())
    }

    fn message<S: Sink>(&mut self, begun: Begun, out: &mut Vec<u8>, sink: &mut S) -> Result<(), Closed> {
        let Begun { text, compressed, mut bytes, .. } = begun;
        if compressed {
            let mut plain = spare::take();
            let result = self.inflate(&mut bytes, &mut plain);
            spare::give(std::mem::replace(&mut bytes, plain));
            if let Err((code, what)) = result {
                return Err(self.fail(code, what, out));
            }
        }
        let fault = if !text {
            sink.binary(&bytes);
            sink.refuses().map(|what| (code::UNSUPPORTED, what))
        } else if let Ok(text) = std::str::from_utf8(&bytes) {
            sink.text(text);
            sink.refuses().map(|what| (code::UNSUPPORTED, what))
        } else {
            Some((code::NOT_UTF8, "text that is no UTF-8"))
        };
        spare::give(bytes);
        fault.map_or(Ok(()), |(code, what)| Err(self.fail(code, what, out)))
    }

    fn inflate(&mut self, bytes: &mut Vec<u8>, plain: &mut Vec<u8>) -> Result<(), (u16, &'static str)> {
        bytes.extend_from_slice(&[0, 0, 0xFF, 0xFF]);
        let message_max = self.message_max();
        // The window is kept: a peer may use it although we ask it not to.
        let inflate = self.inflate.get_or_insert_with(|| Box::new(Decompress::new(false)));
        let mut read = 0;
        while read < bytes.len() {
            if plain.len() == plain.capacity() {
                plain.reserve((2 * bytes.len()).clamp(1024, 64 << 10));
            }
            let (in_before, out_before) = (inflate.total_in(), plain.len());
            let status = inflate.decompress_vec(&bytes[read..], plain, FlushDecompress::Sync);
            read += (inflate.total_in() - in_before) as usize;
            if plain.len() > message_max {
                return Err((code::TOO_BIG, "message is longer than allowed"));
            }
            match status {
                Err(_) => return Err((code::PROTOCOL, "compressed message that cannot be read")),
                // The peer ended its stream with the message: the next one begins anew.
                Ok(flate2::Status::StreamEnd) => {
                    inflate.reset(false);
                    break;
                }
                Ok(_)
                    if inflate.total_in() == in_before
                        && plain.len() == out_before
                        && plain.len() < plain.capacity() =>
                {
                    return Err((code::PROTOCOL, "compressed message that is cut off"));
                }
                Ok(_) => {}
            }
        }
        // Bytes still inside when the input is all read and the room was full.
        while plain.len() == plain.capacity() && !plain.is_empty() {
            plain.reserve(1024);
            let before = plain.len();
            let status = inflate.decompress_vec(&[], plain, FlushDecompress::Sync);
            if plain.len() > message_max {
                return Err((code::TOO_BIG, "message is longer than allowed"));
            }
            if plain.len() == before || status.is_err() {
                break;
            }
        }
        Ok(())
    }

    fn control(&mut self, header: &Header, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Closed> {
        let mut bytes = [0; frame::CONTROL_MAX];
        let bytes = &mut bytes[..payload.len()];
        bytes.copy_from_slice(payload);
        if let Some(mask) = header.mask {
            frame::apply_mask(bytes, mask);
        }
        let bytes: &[u8] = bytes;
        match header.op {
            OpCode::Ping => {
                let mask = self.mask();
                frame::write(out, OpCode::Pong, true, false, mask, bytes);
                Ok(())
            }
            OpCode::Close => {
                let (code, reason) = match bytes {
                    [] => (code::NONE, ""),
                    [_] => return Err(self.fail(code::PROTOCOL, "close frame with half a code", out)),
                    [high, low, reason @ ..] => {
                        (u16::from_be_bytes([*high, *low]), std::str::from_utf8(reason).unwrap_or(""))
                    }
                };
                if self.phase == Phase::Open {
                    let mask = self.mask();
                    let echo = if code == code::NONE { &[][..] } else { &bytes[..2] };
                    frame::write(out, OpCode::Close, true, false, mask, echo);
                }
                self.phase = Phase::Closed;
                Err(Closed::Peer { code, reason: reason.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Appends a close frame, once. The session takes what comes until the peer's close.
    pub fn close(&mut self, code: u16, reason: &str, out: &mut Vec<u8>) {
        if self.phase != Phase::Open {
            return;
        }
        self.phase = Phase::Closing;
        let mut end = reason.len().min(frame::CONTROL_MAX - 2);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let payload = [&code.to_be_bytes()[..], &reason.as_bytes()[..end]].concat();
        let mask = self.mask();
        frame::write(out, OpCode::Close, true, false, mask, &payload);
    }

    /// Appends RSSL frames, each in a binary frame of its own, as ETA needs them.
    pub fn wrap_rssl(&mut self, mut frames: &[u8], out: &mut Vec<u8>) {
        while let Ok(Some(length)) = crate::frame::length(frames) {
            let Some((one, rest)) = frames.split_at_checked(length) else { break };
            let mask = self.mask();
            frame::write(out, OpCode::Binary, true, false, mask, one);
            frames = rest;
        }
        debug_assert!(frames.is_empty(), "whole RSSL frames are wrapped");
    }

    /// The mask of the next frame; `None` on the server's side.
    pub fn mask(&mut self) -> Option<[u8; 4]> {
        let Role::Client(seed) = &mut self.role else { return None };
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some(((*seed >> 32) as u32).to_be_bytes())
    }

    #[cold]
    fn fail(&mut self, code: u16, what: &'static str, out: &mut Vec<u8>) -> Closed {
        self.close(code, what, out);
        self.phase = Phase::Closed;
        self.begun = None;
        Closed::Malformed { code, what }
    }
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Socket").field("phase", &self.phase).finish_non_exhaustive()
    }
}
