//! `RSocket` 1.0 frames as far as a stateful resolution service uses them: a set-up, signs of life, one request with its response, one
//! stream, and what is sent without an answer. Everything is big-endian; on TCP each frame has its length before it.

use super::{Reader, WireError, invalid};

/// The longest frame that is taken, in bytes. The format allows 16 MB; senders of topic resolution batch a few kilobytes.
pub const FRAME_MAX: usize = 1 << 20;

/// As many items of a stream as there are: no credit has to be given.
pub const UNBOUNDED: u32 = 0x7FFF_FFFF;

/// Error codes of frames.
pub mod error {
    /// The set-up is not taken: too many connections, or none of this kind.
    pub const REJECTED_SETUP: u32 = 0x0003;
    /// The connection is broken off.
    pub const CONNECTION_ERROR: u32 = 0x0101;
}

const LENGTH: usize = 3;
const SETUP: u16 = 1;
const KEEPALIVE: u16 = 3;
const REQUEST_RESPONSE: u16 = 4;
const REQUEST_FNF: u16 = 5;
const REQUEST_STREAM: u16 = 6;
const REQUEST_N: u16 = 8;
const CANCEL: u16 = 9;
const PAYLOAD: u16 = 10;
const ERROR: u16 = 11;

const IGNORE: u16 = 0x200;
const METADATA: u16 = 0x100;
const RESUME: u16 = 0x80;
const RESPOND: u16 = 0x80;
const FOLLOWS: u16 = 0x80;
const COMPLETE: u16 = 0x40;
const NEXT: u16 = 0x20;

/// Type of the bytes in a frame, as it is said at the set-up.
const MIME: &[u8] = b"application/octet-stream";

/// A frame, without metadata: none are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The first frame of a connection.
    Setup {
        /// How often the client gives a sign of life, milliseconds.
        keepalive_ms: u32,
        /// After so much silence a side takes the other for dead, milliseconds.
        lifetime_ms: u32,
    },
    /// A sign of life.
    Keepalive {
        /// Whether it is to be answered.
        respond: bool,
    },
    /// A request with one response.
    RequestResponse {
        /// Number of the stream: odd for the client's.
        stream: u32,
        /// The question.
        data: &'a [u8],
    },
    /// A message without an answer.
    FireAndForget {
        /// Number of the stream.
        stream: u32,
        /// The message.
        data: &'a [u8],
    },
    /// A request with a stream of responses.
    RequestStream {
        /// Number of the stream.
        stream: u32,
        /// How many may be sent; [`UNBOUNDED`]: all.
        credit: u32,
        /// The question.
        data: &'a [u8],
    },
    /// More responses may be sent.
    RequestN {
        /// Number of the stream.
        stream: u32,
        /// How many more.
        credit: u32,
    },
    /// The stream is wanted no more.
    Cancel {
        /// Number of the stream.
        stream: u32,
    },
    /// A response.
    Payload {
        /// Number of the stream.
        stream: u32,
        /// Whether it is the last one.
        complete: bool,
        /// The response; empty if the frame only ends the stream.
        data: &'a [u8],
    },
    /// The stream, or with stream 0 the connection, has failed.
    Error {
        /// Number of the stream.
        stream: u32,
        /// See [`error`].
        code: u32,
        /// Why, as text.
        text: &'a [u8],
    },
    /// A frame that may be ignored.
    Ignored,
}

impl<'a> Frame<'a> {
    /// Reads a frame, all of it, without the length before it.
    ///
    /// # Errors
    /// Cut short, a fragment of a larger message, or a kind that cannot be ignored and is not used here.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new("RSocket frame", bytes, 0);
        let (stream, word) = (r.u32()?, r.u16()?);
        let (kind, flags) = (word >> 10, word & 0x3FF);
        let is_payload = matches!(kind, REQUEST_RESPONSE | REQUEST_FNF | REQUEST_STREAM | PAYLOAD);
        if is_payload && flags & FOLLOWS != 0 {
            return Err(invalid("RSocket fragment", 4));
        }
        Ok(match kind {
            SETUP => {
                let _version = r.u32()?;
                let (keepalive_ms, lifetime_ms) = (r.u32()?, r.u32()?);
                if flags & RESUME != 0 {
                    return Err(invalid("RSocket resumption", 4));
                }
                for _ in 0..2 {
                    let length = r.u8()?;
                    r.take(length.into())?;
                }
                Self::Setup { keepalive_ms, lifetime_ms }
            }
            KEEPALIVE => {
                r.u64()?;
                Self::Keepalive { respond: flags & RESPOND != 0 }
            }
            REQUEST_RESPONSE => Self::RequestResponse { stream, data: data(&mut r, flags)? },
            REQUEST_FNF => Self::FireAndForget { stream, data: data(&mut r, flags)? },
            REQUEST_STREAM => {
                let credit = r.u32()?;
                Self::RequestStream { stream, credit, data: data(&mut r, flags)? }
            }
            REQUEST_N => Self::RequestN { stream, credit: r.u32()? },
            CANCEL => Self::Cancel { stream },
            PAYLOAD => Self::Payload { stream, complete: flags & COMPLETE != 0, data: data(&mut r, flags)? },
            ERROR => Self::Error { stream, code: r.u32()?, text: r.rest() },
            _ if flags & IGNORE != 0 => Self::Ignored,
            _ => return Err(invalid("RSocket frame type", 4)),
        })
    }

    /// Appends the frame with its length before it. Data of more than [`FRAME_MAX`] bytes is the caller's fault.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; LENGTH]);
        let mut head = |stream: u32, kind: u16, flags: u16| {
            out.extend_from_slice(&stream.to_be_bytes());
            out.extend_from_slice(&(kind << 10 | flags).to_be_bytes());
        };
        match *self {
            Self::Setup { keepalive_ms, lifetime_ms } => {
                head(0, SETUP, 0);
                out.extend_from_slice(&[0, 1, 0, 0]);
                out.extend_from_slice(&keepalive_ms.to_be_bytes());
                out.extend_from_slice(&lifetime_ms.to_be_bytes());
                for _ in 0..2 {
                    out.push(MIME.len() as u8);
                    out.extend_from_slice(MIME);
                }
            }
            Self::Keepalive { respond } => {
                head(0, KEEPALIVE, if respond { RESPOND } else { 0 });
                out.extend_from_slice(&[0; 8]);
            }
            Self::RequestResponse { stream, data } => {
                head(stream, REQUEST_RESPONSE, 0);
                out.extend_from_slice(data);
            }
            Self::FireAndForget { stream, data } => {
                head(stream, REQUEST_FNF, 0);
                out.extend_from_slice(data);
            }
            Self::RequestStream { stream, credit, data } => {
                head(stream, REQUEST_STREAM, 0);
                out.extend_from_slice(&credit.to_be_bytes());
                out.extend_from_slice(data);
            }
            Self::RequestN { stream, credit } => {
                head(stream, REQUEST_N, 0);
                out.extend_from_slice(&credit.to_be_bytes());
            }
            Self::Cancel { stream } => head(stream, CANCEL, 0),
            Self::Payload { stream, complete, data } => {
                let next = if data.is_empty() { 0 } else { NEXT };
                head(stream, PAYLOAD, next | if complete { COMPLETE } else { 0 });
                out.extend_from_slice(data);
            }
            Self::Error { stream, code, text } => {
                head(stream, ERROR, 0);
                out.extend_from_slice(&code.to_be_bytes());
                out.extend_from_slice(text);
            }
            Self::Ignored => head(0, KEEPALIVE, IGNORE),
        }
        let length = out.len() - start - LENGTH;
        debug_assert!(length <= FRAME_MAX, "a frame of {length} bytes");
        out[start..start + LENGTH].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
    }
}

/// The data of a frame, behind its metadata if it has some.
fn data<'a>(r: &mut Reader<'a>, flags: u16) -> Result<&'a [u8], WireError> {
    if flags & METADATA != 0 {
        let length = r.array::<LENGTH>()?;
        r.take(u32::from_be_bytes([0, length[0], length[1], length[2]]) as usize)?;
    }
    Ok(r.rest())
}

/// Cuts a stream of bytes into frames.
#[derive(Debug, Default)]
pub struct Frames {
    tail: Vec<u8>,
}

impl Frames {
    /// Takes received bytes and hands on whole frames, without their lengths. An incomplete one is kept: at most [`FRAME_MAX`] bytes.
    ///
    /// # Errors
    /// A frame that is too long, or what `each` says. The connection has to be closed.
    pub fn receive(
        &mut self,
        input: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        if self.tail.is_empty() {
            let used = whole(input, &mut each)?;
            self.tail.extend_from_slice(&input[used..]);
            return Ok(());
        }
        self.tail.extend_from_slice(input);
        let used = whole(&self.tail, &mut each)?;
        self.tail.drain(..used);
        if self.tail.is_empty() {
            // A long frame is rare: its memory is not kept.
            self.tail = Vec::new();
        }
        Ok(())
    }
}

/// Hands on the frames that are whole; returns how many bytes they are.
fn whole(bytes: &[u8], each: &mut impl FnMut(&[u8]) -> Result<(), WireError>) -> Result<usize, WireError> {
    let mut at = 0;
    while let Some(&[a, b, c]) = bytes.get(at..at + LENGTH) {
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if length > FRAME_MAX {
            return Err(invalid("RSocket frame length", at));
        }
        let Some(frame) = bytes.get(at + LENGTH..at + LENGTH + length) else { break };
        each(frame)?;
        at += LENGTH + length;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Frame<'static>> {
        vec![
            Frame::Setup { keepalive_ms: 500, lifetime_ms: 90_000 },
            Frame::Keepalive { respond: true },
            Frame::Keepalive { respond: false },
            Frame::RequestResponse { stream: 1, data: b"ask" },
            Frame::FireAndForget { stream: 5, data: b"say" },
            Frame::RequestStream { stream: 3, credit: UNBOUNDED, data: b"all" },
            Frame::RequestN { stream: 3, credit: 7 },
            Frame::Cancel { stream: 3 },
            Frame::Payload { stream: 3, complete: false, data: b"one" },
            Frame::Payload { stream: 3, complete: true, data: b"" },
            Frame::Error { stream: 0, code: error::REJECTED_SETUP, text: b"full" },
        ]
    }

    #[test]
    fn frames_come_back_however_the_stream_is_cut() {
        let mut bytes = Vec::new();
        for frame in all() {
            frame.encode(&mut bytes);
        }
        for piece in [1, 2, 3, 7, 64, bytes.len()] {
            let (mut frames, mut seen) = (Frames::default(), Vec::new());
            for piece in bytes.chunks(piece) {
                let taken = frames.receive(piece, |frame| {
                    seen.push(frame.to_vec());
                    Ok(())
                });
                taken.expect("ours");
            }
            let decoded: Vec<_> = seen.iter().map(|bytes| Frame::decode(bytes).expect("ours")).collect();
            assert_eq!(decoded, all(), "in pieces of {piece}");
            assert!(frames.tail.is_empty());
        }
    }

    #[test]
    fn metadata_is_passed_over_and_fragments_are_refused() {
        let with_metadata = [&[0, 0, 0, 3, 0x29, 0x20, 0, 0, 2], b"mmdata".as_slice()].concat();
        assert_eq!(Frame::decode(&with_metadata), Ok(Frame::Payload { stream: 3, complete: false, data: b"data" }));
        assert!(Frame::decode(&[0, 0, 0, 3, 0x28, 0xA0, b'x']).is_err(), "a fragment");
        assert_eq!(Frame::decode(&[0, 0, 0, 0, 0x0A, 0]), Ok(Frame::Ignored), "a lease that may be ignored");
        assert!(Frame::decode(&[0, 0, 0, 0, 0x08, 0]).is_err(), "a lease that may not");
        for length in 0..20 {
            let mut setup = Vec::new();
            all()[0].encode(&mut setup);
            assert!(Frame::decode(&setup[LENGTH..LENGTH + length]).is_err(), "cut at {length}");
        }
        assert!(Frames::default().receive(&[0x7F, 0, 0, 0], |_| Ok(())).is_err(), "16 MB");
    }
}
