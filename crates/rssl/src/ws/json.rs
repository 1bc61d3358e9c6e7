//! A session of `tr_json2`: JSON messages in text frames, pings by message.

use std::cell::Cell;

use flate2::{Compress, Compression, FlushCompress};

use super::frame::{self, OpCode};
use super::socket::{Sink, Socket};
use super::{Closed, code};
use crate::standing::Standing;

/// The settings of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonConfig {
    /// Ping timeout, seconds.
    pub ping_timeout_s: u8,
    /// Longest payload of a frame that is sent, bytes.
    pub frame_payload_max_bytes: usize,
    /// Each message is sent in a frame of its own: for peers that take the messages of one frame in no order.
    pub one_message_a_frame: bool,
}

impl Default for JsonConfig {
    /// As an ADS: 30 s, 61,440 bytes, and as many messages in a frame as fit.
    fn default() -> Self {
        Self { ping_timeout_s: 30, frame_payload_max_bytes: 61_440, one_message_a_frame: false }
    }
}

/// How a server's session frames its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameKind {
    deflates: bool,
    payload_max: usize,
    one_message: bool,
}

/// Shortest payload limit that is heeded: a fragment must hold a character and two brackets.
const PAYLOAD_MIN: usize = 128;

/// A session of JSON messages. What the messages mean is the caller's business: this type packs them, cuts the long ones, and says
/// when a ping is due or the peer was silent too long.
#[derive(Debug)]
pub struct Json {
    socket: Socket,
    config: JsonConfig,
    last_received_ns: u64,
    last_sent_ns: u64,
    pinged_ns: u64,
    /// The peer may be pinged: it has seen its login answered. Some clients take the first frame for that answer.
    may_ping: bool,
}

thread_local! {
    /// What messages are compressed with, each for itself: the sessions of a thread share it, since it is as large as what some hundred of
    /// them have besides.
    static DEFLATE: Cell<Option<Box<Compress>>> = const { Cell::new(None) };
}

/// Hands on what a session brings; a binary frame ends it.
struct Texts<'s, F> {
    each: &'s mut F,
    binary: bool,
}

impl<F: FnMut(Option<&str>) -> Standing> Sink for Texts<'_, F> {
    fn text(&mut self, text: &str) {
        (self.each)(Some(text));
    }

    fn standing(&mut self) -> Standing {
        (self.each)(None)
    }

    fn binary(&mut self, _: &[u8]) {
        self.binary = true;
    }

    fn refuses(&self) -> Option<&'static str> {
        self.binary.then_some("binary frame in a session of text")
    }
}

impl Json {
    /// A session whose upgrade is done at `now` (monotonic nanoseconds).
    #[must_use]
    pub fn new(socket: Socket, config: JsonConfig, now: u64) -> Self {
        Self { socket, config, last_received_ns: now, last_sent_ns: now, pinged_ns: now, may_ping: false }
    }

    /// Takes received bytes, all of them; each text message is handed on, one or an array of JSON messages.
    ///
    /// # Errors
    /// The session is over; `out` may still hold a close frame to send.
    pub fn receive(
        &mut self,
        now: u64,
        input: &[u8],
        out: &mut Vec<u8>,
        mut each: impl FnMut(&str),
    ) -> Result<(), Closed> {
        self.receive_guarded(now, input, out, |text| {
            text.into_iter().for_each(&mut each);
            Standing::Known
        })
    }

    /// As [`Json::receive`]; `each` also tells how far the peer has come, and is asked for that alone with `None` while it is
    /// [`Socket::of_stranger`].
    ///
    /// # Errors
    /// As there; [`Closed::AlreadyClosed`] where nothing more is taken from the peer.
    pub fn receive_guarded(
        &mut self,
        now: u64,
        input: &[u8],
        out: &mut Vec<u8>,
        mut each: impl FnMut(Option<&str>) -> Standing,
    ) -> Result<(), Closed> {
        self.last_received_ns = now;
        self.socket.receive(input, out, &mut Texts { each: &mut each, binary: false })
    }

    /// Bytes that are kept of a message that is not whole.
    #[must_use]
    pub fn unfinished_bytes(&self) -> usize {
        self.socket.unfinished_bytes()
    }

    /// Says that the peer's login has been answered: from now on it may be pinged.
    pub fn logged_in(&mut self) {
        self.may_ping = true;
    }

    /// Takes over what the server says of itself in its answer to the login (the client's side): the ping timeout, seconds, and
    /// the longest message it takes, bytes. The own limits hold where they are smaller.
    pub fn limit_by_server(&mut self, ping_timeout_s: Option<u8>, message_bytes_max: Option<usize>) {
        if let Some(seconds) = ping_timeout_s {
            self.config.ping_timeout_s = self.config.ping_timeout_s.min(seconds);
        }
        if let Some(bytes) = message_bytes_max {
            self.config.frame_payload_max_bytes = self.config.frame_payload_max_bytes.min(bytes);
        }
    }

    /// When [`Json::on_timer`] is due next; as with RSSL sessions it moves later only.
    #[must_use]
    pub fn timeout(&self) -> u64 {
        let silence = self.last_received_ns + self.timeout_ns();
        if self.may_ping { silence.min(self.ping_due_ns()) } else { silence }
    }

    /// A ping is due when nothing was sent, or nothing was received, for a third of the timeout.
    fn ping_due_ns(&self) -> u64 {
        let quiet_since = self.last_sent_ns.min(self.last_received_ns.max(self.pinged_ns));
        quiet_since + self.timeout_ns() / 3
    }

    fn timeout_ns(&self) -> u64 {
        u64::from(self.config.ping_timeout_s.max(3)) * 1_000_000_000
    }

    /// Does what is due: writes a ping, or ends a session that was silent too long. Early calls do nothing.
    ///
    /// # Errors
    /// The session is over; `out` holds the close frame.
    pub fn on_timer(&mut self, now: u64, out: &mut Vec<u8>) -> Result<(), Closed> {
        let silent_ns = now.saturating_sub(self.last_received_ns);
        if silent_ns >= self.timeout_ns() {
            self.socket.close(code::POLICY, "ping timeout", out);
            return Err(Closed::PingTimeout { silent_ns });
        }
        if self.may_ping && now >= self.ping_due_ns() {
            self.pinged_ns = now;
            let mut packer = self.pack(now, out);
            packer.push(r#"{"Type":"Ping"}"#);
            packer.finish();
        }
        Ok(())
    }

    /// Appends a close frame, once.
    pub fn close(&mut self, code: u16, reason: &str, out: &mut Vec<u8>) {
        self.socket.close(code, reason, out);
    }

    /// What has to be equal of two sessions for the frames of one to be right for the other too; none of the client's side of a session,
    /// whose frames are masked.
    #[must_use]
    pub fn frame_kind(&self) -> Option<FrameKind> {
        self.socket.is_server().then(|| FrameKind {
            deflates: self.socket.deflates(),
            payload_max: self.config.frame_payload_max_bytes,
            one_message: self.config.one_message_a_frame,
        })
    }

    /// Says that frames go out that a session of the same [`FrameKind`] has packed.
    pub fn sends_packed(&mut self, now: u64) {
        self.last_sent_ns = now;
    }

    /// Packs messages into as few frames as they fit, at the end of `out`.
    pub fn pack<'a>(&'a mut self, now: u64, out: &'a mut Vec<u8>) -> JsonPacker<'a> {
        JsonPacker { json: self, now, out, open: None }
    }

    /// A frame of a finished payload, compressed if that was agreed on.
    fn frame(&mut self, op: OpCode, fin: bool, payload: &[u8], out: &mut Vec<u8>) {
        let mask = self.socket.mask();
        if !self.socket.deflates() || op == OpCode::Continuation || !fin {
            return frame::write(out, op, fin, false, mask, payload);
        }
        let packed = compress(payload);
        frame::write(out, op, fin, true, mask, &packed);
    }
}

/// A message compressed for itself: the same bytes for every client, and no window kept for any.
fn compress(payload: &[u8]) -> Vec<u8> {
    let mut deflate = DEFLATE.take().unwrap_or_else(|| Box::new(Compress::new(Compression::fast(), false)));
    deflate.reset();
    let mut packed = Vec::with_capacity(payload.len() / 2 + 64);
    let mut read = 0;
    loop {
        let before = deflate.total_in();
        let done = deflate.compress_vec(&payload[read..], &mut packed, FlushCompress::Sync).is_err();
        read += (deflate.total_in() - before) as usize;
        if done || (read == payload.len() && packed.len() < packed.capacity()) {
            break;
        }
        packed.reserve(payload.len() / 2 + 64);
    }
    let end = packed.strip_suffix(&[0, 0, 0xFF, 0xFF]).map_or(packed.len(), <[u8]>::len);
    packed.truncate(end);
    DEFLATE.set(Some(deflate));
    packed
}

/// Writes JSON messages into frames. A frame is always an array, also with one message in it.
#[derive(Debug)]
pub struct JsonPacker<'a> {
    json: &'a mut Json,
    now: u64,
    out: &'a mut Vec<u8>,
    /// Where the payload of the open frame begins; room for a header of four bytes is before it.
    open: Option<usize>,
}

/// Header of a frame from a server with 126 to 65,535 bytes; also the room that is kept for a header.
const HEADER: usize = 4;

impl JsonPacker<'_> {
    /// Appends a message: one JSON object.
    pub fn push(&mut self, message: &str) {
        self.push_parts(message.as_bytes(), b"");
    }

    /// Appends a message whose text, which is UTF-8, is in two parts: what one client has of its own, the stream id, and what it shares
    /// with others.
    pub fn push_parts(&mut self, own: &[u8], shared: &[u8]) {
        let length = own.len() + shared.len();
        let most = self.json.config.frame_payload_max_bytes.clamp(PAYLOAD_MIN, usize::from(u16::MAX));
        if let Some(start) = self.open
            && (self.json.config.one_message_a_frame || self.out.len() - start + length + 2 > most)
        {
            self.end_frame();
        }
        if length + 2 > most {
            return self.fragments(own, shared, most);
        }
        if self.open.is_some() {
            self.out.push(b',');
        } else {
            self.out.extend_from_slice(&[0; HEADER]);
            self.open = Some(self.out.len());
            self.out.push(b'[');
        }
        self.out.extend_from_slice(own);
        self.out.extend_from_slice(shared);
    }

    /// Ends the open frame, so that the next message begins another.
    pub fn end_frame(&mut self) {
        let Some(start) = self.open.take() else { return };
        self.out.push(b']');
        let length = self.out.len() - start;
        if self.json.socket.deflates() || self.json.socket.mask().is_some() {
            let payload = self.out.split_off(start);
            self.out.truncate(start - HEADER);
            self.json.frame(OpCode::Text, true, &payload, self.out);
        } else if length <= 125 {
            // The room for the header is two bytes too long.
            self.out.copy_within(start.., start - 2);
            self.out.truncate(self.out.len() - 2);
            self.out[start - HEADER..start - 2].copy_from_slice(&[0x81, length as u8]);
        } else {
            let length = (length as u16).to_be_bytes();
            self.out[start - HEADER..start].copy_from_slice(&[0x81, 126, length[0], length[1]]);
        }
    }

    /// A message that no frame holds: several, cut between characters.
    fn fragments(&mut self, own: &[u8], shared: &[u8], most: usize) {
        let whole = [b"[", own, shared, b"]"].concat();
        if self.json.socket.deflates() {
            // The frames are of the compressed bytes, and only the first says that they are.
            let packed = compress(&whole);
            let pieces = packed.len().div_ceil(most);
            for (at, piece) in packed.chunks(most).enumerate() {
                let op = if at == 0 { OpCode::Text } else { OpCode::Continuation };
                let mask = self.json.socket.mask();
                frame::write(self.out, op, at + 1 == pieces, at == 0, mask, piece);
            }
            return;
        }
        let begins_character = |byte: u8| byte & 0xC0 != 0x80;
        let (mut op, mut rest) = (OpCode::Text, &whole[..]);
        while !rest.is_empty() {
            let mut end = rest.len().min(most);
            while rest.get(end).is_some_and(|byte| !begins_character(*byte)) {
                end -= 1;
            }
            let (piece, later) = rest.split_at(end);
            self.json.frame(op, later.is_empty(), piece, self.out);
            (op, rest) = (OpCode::Continuation, later);
        }
    }

    /// Ends the open frame and takes the time of sending.
    pub fn finish(mut self) {
        self.end_frame();
        self.json.last_sent_ns = self.now;
    }
}
