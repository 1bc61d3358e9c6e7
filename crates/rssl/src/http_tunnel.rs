//! RSSL in HTTP, as ETA's connection type `HTTP` has it (`RSSL_CONN_TYPE_HTTP`): a server's side.
//!
//! A client begins with a `POST` whose `Content-Length` is about 2 GB, and whose body begins with 13 bytes: their length, what is wanted, a
//! session's number, and who the client is. What follows in the body are RSSL frames as on a connection without HTTP. The answer never ends
//! either: `200`, and a chunked body whose first chunk has the session's number, and each later one a single RSSL frame.
//!
//! ETA reads that answer by place: the header has three lines in one order, and the size of a chunk has four places (filled up with `;`,
//! where in HTTP extensions of a chunk begin), but for that of the first chunk and of a ping, which has one, and of the answer to the
//! connect request, which has two.
//! Source: `RsslHttpSocketChannel` and `ReadBufferStateMachineHTTP` of ETA Java 3.9.1, run against this.

use crate::frame;
use crate::ws::upgrade::{HEAD_MAX, Refusal};

const FIELDS_MAX: usize = 96;
/// What is wanted, in the third byte of the body: a new session.
const OPEN: u8 = 0x80;
/// Shortest and longest beginning of a body: ETA's has 13 bytes.
const HELLO: std::ops::RangeInclusive<usize> = 7..=64;
const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/octet-stream\r\n\r\n7\r\n\0\x07\0\0\0\0\x01\r\n";

/// The bytes so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// The header goes on.
    Incomplete,
    /// The header is whole, and the beginning of the body is not, which has 64 bytes at most.
    BodyBegins,
    /// A session is asked for: so many bytes, then RSSL frames.
    Open(usize),
    /// The request asks for something else.
    Refused(Refusal),
}

/// Whether an HTTP request is one for a tunnel. An upgrade to WebSocket is a `GET`.
#[must_use]
pub fn is_request(bytes: &[u8]) -> bool {
    bytes.starts_with(b"POST ")
}

/// Reads a request for a tunnel.
///
/// Requests of browsers' pages, which name their `Origin`, are refused: a page may send a `POST` with any body to any server, and
/// whatever it could say in RSSL would be said with the rights of the machine that it is on.
#[must_use]
pub fn read(bytes: &[u8]) -> Request {
    let refused = |status, why| Request::Refused(Refusal { status, why });
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() > HEAD_MAX => {
            return refused(413, "the request's header is too large");
        }
        Ok(httparse::Status::Partial) => return Request::Incomplete,
        Err(_) => return refused(400, "this is no HTTP request"),
    };
    let field = |name: &str| request.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
    if field("Origin").is_some() || field("Sec-Fetch-Site").is_some() {
        return refused(403, "RSSL in HTTP is for programs: pages connect by WebSocket");
    }
    if field("Accept").is_none_or(|accept| accept.value != b"application/octet-stream") {
        return refused(405, "a POST is answered here if it begins a tunnel of RSSL (ETA's connection type HTTP)");
    }
    if field("Transfer-Encoding").is_some() || field("Content-Length").is_none() {
        return refused(400, "the body of a tunnel has a Content-Length, and is not chunked");
    }
    match bytes[length..] {
        [high, low, ..] if !HELLO.contains(&hello(high, low)) => {
            refused(400, "the body does not begin as that of a tunnel of RSSL")
        }
        [high, low, what, ..] if bytes.len() - length >= hello(high, low) => {
            if what == OPEN {
                Request::Open(length + hello(high, low))
            } else {
                refused(405, "a tunnel's session is not taken over by another connection: begin a new one")
            }
        }
        _ => Request::BodyBegins,
    }
}

fn hello(high: u8, low: u8) -> usize {
    usize::from(u16::from_be_bytes([high, low]))
}

/// Appends the answer that opens a tunnel.
pub fn answer(out: &mut Vec<u8>) {
    out.extend_from_slice(ANSWER);
}

/// Appends RSSL frames of a session that is there, each in a chunk of its own, as ETA needs them. Takes whole frames only.
pub fn wrap(frames: &[u8], out: &mut Vec<u8>) {
    each_frame(frames, |one| {
        if one == frame::PING {
            out.push(DIGITS[frame::PING.len()]);
        } else {
            // A frame has up to 65,535 bytes: four digits at most.
            let digits = digits_of(one.len());
            push_digits(one.len(), digits, out);
            out.resize(out.len() + 4 - digits, b';');
        }
        push_chunk(one, out);
    });
}

/// Appends the answer to a connect request. ETA takes it for 255 bytes at most; a refusal of more words has a longer size.
pub fn wrap_answer(frames: &[u8], out: &mut Vec<u8>) {
    each_frame(frames, |one| {
        push_digits(one.len(), digits_of(one.len()).max(2), out);
        push_chunk(one, out);
    });
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

fn each_frame(mut frames: &[u8], mut take: impl FnMut(&[u8])) {
    while let Ok(Some(length)) = frame::length(frames) {
        let Some((one, rest)) = frames.split_at_checked(length) else { break };
        take(one);
        frames = rest;
    }
    debug_assert!(frames.is_empty(), "whole RSSL frames are wrapped");
}

/// Hexadecimal digits of a size, at least one.
fn digits_of(size: usize) -> usize {
    (usize::BITS - size.leading_zeros()).div_ceil(4).max(1) as usize
}

fn push_digits(size: usize, digits: usize, out: &mut Vec<u8>) {
    out.extend((0..digits).rev().map(|digit| DIGITS[size >> (4 * digit) & 15]));
}

fn push_chunk(one: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(one);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As ETA Java 3.9.1 writes it, host and numbers replaced.
    fn request(fields: &str, hello: &[u8]) -> Vec<u8> {
        let head = format!("POST / HTTP/1.1\r\n{fields}Content-Length: 2147473647\r\nCache-Control: no-cache\r\n\r\n");
        [head.as_bytes(), hello].concat()
    }

    const FIELDS: &str = "Accept: application/octet-stream\r\nUser-Agent: ETA/Java\r\nHost: h:14002\r\n";
    const HELLO_OF_ETA: [u8; 13] = [0, 13, 0x80, 0, 0, 0, 0, 1, 2, 127, 0, 0, 1];

    #[test]
    fn a_tunnel_begins_where_its_request_is_whole() {
        let whole = request(FIELDS, &HELLO_OF_ETA);
        assert!(is_request(&whole));
        let header = whole.len() - HELLO_OF_ETA.len();
        for cut in 0..whole.len() {
            let so_far = if cut < header { Request::Incomplete } else { Request::BodyBegins };
            assert_eq!(read(&whole[..cut]), so_far, "{cut}");
        }
        assert_eq!(read(&whole), Request::Open(whole.len()));
        let more = [&whole[..], &[0, 3, 2]].concat();
        assert_eq!(read(&more), Request::Open(whole.len()));
    }

    #[test]
    fn what_is_no_request_for_a_tunnel_is_told_so() {
        let status = |fields: &str, hello: &[u8]| match read(&request(fields, hello)) {
            Request::Refused(refusal) => refusal.status,
            Request::Open(_) => 200,
            Request::Incomplete | Request::BodyBegins => 100,
        };
        assert_eq!(status(FIELDS, &HELLO_OF_ETA), 200);
        assert_eq!(status(&format!("{FIELDS}Origin: http://127.0.0.1:8080\r\n"), &HELLO_OF_ETA), 403);
        assert_eq!(status(&format!("{FIELDS}sec-fetch-site: same-origin\r\n"), &HELLO_OF_ETA), 403);
        assert_eq!(status("Host: h\r\nAccept: */*\r\n", &HELLO_OF_ETA), 405);
        assert_eq!(status(&format!("{FIELDS}Transfer-Encoding: chunked\r\n"), &HELLO_OF_ETA), 400);
        // Another connection goes on with the session: not here.
        let mut again = HELLO_OF_ETA;
        again[2] = 0x84;
        assert_eq!(status(FIELDS, &again), 405);
        assert_eq!((status(FIELDS, &[0, 2, 0x80]), status(FIELDS, &[0, 65])), (400, 400));
        assert_eq!(status(FIELDS, &[0, 13, 0x80]), 100);
        let long = format!("X: {}\r\n", "y".repeat(HEAD_MAX));
        assert!(
            matches!(read(format!("POST / HTTP/1.1\r\n{long}").as_bytes()), Request::Refused(r) if r.status == 413)
        );
    }

    #[test]
    fn each_frame_is_a_chunk_whose_size_has_four_places() {
        let mut out = Vec::new();
        wrap(&[&frame::PING[..], &[0, 4, 2, 9]].concat(), &mut out);
        assert_eq!(out, b"3\r\n\0\x03\x02\r\n4;;;\r\n\0\x04\x02\x09\r\n");
        for (length, size) in [(16_usize, &b"10;;"[..]), (0x123, b"123;"), (6_147, b"1803"), (65_535, b"ffff")] {
            let mut one = vec![7; length];
            one[..2].copy_from_slice(&(length as u16).to_be_bytes());
            let mut out = Vec::new();
            wrap(&one, &mut out);
            assert_eq!((&out[..6], out.len()), (&[size, b"\r\n"].concat()[..], length + 8));
            assert_eq!(out[length + 6..], *b"\r\n");
        }
        let mut out = Vec::new();
        wrap_answer(&[0, 4, 0, 1], &mut out);
        assert_eq!(out, b"04\r\n\0\x04\0\x01\r\n");
    }
}
