//! A connection to a server of a venue, encrypted or not, and an answer of HTTP that comes by it.

use std::net::SocketAddr;

use net::tcp::{Close, ConnId, SocketOptions, Tcp};
use net::tls::{TlsClient, TlsSession};

use super::place::Url;

/// A connection of which only its owner knows what it is for.
pub(super) struct Pipe {
    pub conn: ConnId,
    tls: Option<TlsSession>,
}

impl Pipe {
    /// Begins to connect.
    ///
    /// # Errors
    /// A text for the operator.
    pub(super) fn dial(tcp: &mut Tcp, to: SocketAddr, url: &Url, tls: Option<&TlsClient>) -> Result<Self, String> {
        let tls = match (url.is_encrypted, tls) {
            (true, Some(tls)) => Some(tls.connect(&url.host).map_err(|e| e.to_string())?),
            (true, None) => return Err("nothing is trusted".to_owned()),
            (false, _) => None,
        };
        let options = SocketOptions { no_delay: true, ..SocketOptions::default() };
        let conn = tcp.connect(to, &options).map_err(|e| format!("{to}: {e}"))?;
        Ok(Self { conn, tls })
    }

    /// The connection is established: sends this, the first message of TLS before it.
    ///
    /// # Errors
    /// A text for the operator.
    pub(super) fn begin(&mut self, tcp: &mut Tcp, first: &[u8]) -> Result<(), String> {
        if let Some(tls) = &mut self.tls {
            let mut out = Vec::new();
            tls.process(&[], &mut out, |_| {}).map_err(|e| e.to_string())?;
            tcp.send(self.conn, &out);
        }
        self.send(tcp, first)
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// A text for the operator.
    pub(super) fn send(&mut self, tcp: &mut Tcp, bytes: &[u8]) -> Result<(), String> {
        match &mut self.tls {
            None => tcp.send(self.conn, bytes),
            Some(tls) => {
                let mut out = Vec::new();
                tls.encrypt(bytes, &mut out).map_err(|e| e.to_string())?;
                tcp.send(self.conn, &out)
            }
        };
        Ok(())
    }

    /// Appends what has come in plain.
    ///
    /// # Errors
    /// A text for the operator; nothing more is to be had of the connection.
    pub(super) fn receive(&mut self, tcp: &mut Tcp, input: &[u8], plain: &mut Vec<u8>) -> Result<(), String> {
        let Some(tls) = &mut self.tls else {
            plain.extend_from_slice(input);
            return Ok(());
        };
        let mut out = Vec::new();
        let taken = tls.process(input, &mut out, |bytes| plain.extend_from_slice(bytes));
        if !out.is_empty() {
            tcp.send(self.conn, &out);
        }
        taken.map_err(|e| e.to_string())
    }

    /// Whether an end of the stream is the server's word, and no cut: TLS says so itself.
    pub(super) fn has_ended_well(&self) -> bool {
        self.tls.as_ref().is_none_or(TlsSession::peer_closed)
    }

    pub(super) fn close(self, tcp: &mut Tcp) {
        tcp.close(self.conn, Close::Now);
    }
}

/// A body is no longer than this: the deepest books are some megabytes.
const LONGEST_BODY: usize = 64 << 20;
/// Nor a header.
const LONGEST_HEAD: usize = 64 << 10;
/// Fields of a header.
const MOST_FIELDS: usize = 100;

/// The request of a path.
pub(super) fn request(url: &Url, path: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: quoteway\r\nAccept: application/json\r\nConnection: close\r\n\r\n",
        url.authority()
    )
    .into_bytes()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Known(usize),
    Chunked,
    /// Until the end of the connection.
    Open,
}

/// An answer that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct Answer {
    bytes: Vec<u8>,
    head: Option<(usize, Length)>,
    /// Of chunks: what they have brought, and how far they were read.
    body: Vec<u8>,
    read: usize,
}

impl Answer {
    /// Takes plain bytes; the body, once it is whole.
    ///
    /// # Errors
    /// The server refuses, or what it sends is no answer: a text for the operator.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
        self.bytes.extend_from_slice(bytes);
        let (start, length) = match self.head {
            Some(head) => head,
            None => match self.parse_head()? {
                Some(head) => *self.head.insert(head),
                None => return Ok(None),
            },
        };
        if self.bytes.len() - start > LONGEST_BODY + LONGEST_HEAD {
            return Err("the answer is too long".to_owned());
        }
        match length {
            Length::Known(length) => Ok(self.bytes.get(start..start + length).map(<[u8]>::to_vec)),
            Length::Chunked => self.chunks(start),
            Length::Open => Ok(None),
        }
    }

    /// The connection has ended; the body, if it goes on until then.
    ///
    /// # Errors
    /// The answer is not whole.
    pub(super) fn end(self, is_well: bool) -> Result<Vec<u8>, String> {
        match self.head {
            Some((start, Length::Open)) if is_well => Ok(self.bytes[start..].to_vec()),
            _ => Err("the connection has ended within the answer".to_owned()),
        }
    }

    fn parse_head(&self) -> Result<Option<(usize, Length)>, String> {
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let start = match response.parse(&self.bytes) {
            Ok(httparse::Status::Complete(start)) => start,
            Ok(httparse::Status::Partial) if self.bytes.len() <= LONGEST_HEAD => return Ok(None),
            Ok(httparse::Status::Partial) => return Err("the header of the answer is too long".to_owned()),
            Err(error) => return Err(format!("the answer is no HTTP: {error}")),
        };
        if response.code != Some(200) {
            let (code, reason) = (response.code.unwrap_or(0), response.reason.unwrap_or_default());
            return Err(format!("the server answers {code} {reason}"));
        }
        let field = |name: &str| {
            let own = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
            own.map(|field| String::from_utf8_lossy(field.value).trim().to_ascii_lowercase())
        };
        if field("Content-Encoding").is_some_and(|encoding| encoding != "identity") {
            return Err("the answer is packed, which nobody asked for".to_owned());
        }
        let length = match (field("Transfer-Encoding"), field("Content-Length")) {
            (Some(encoding), _) if encoding == "chunked" => Length::Chunked,
            (Some(encoding), _) => return Err(format!("the answer comes as {encoding}")),
            (None, Some(length)) => {
                let length = length.parse().ok().filter(|length| *length <= LONGEST_BODY);
                Length::Known(length.ok_or("the answer's length is none, or too long")?)
            }
            (None, None) => Length::Open,
        };
        Ok(Some((start, length)))
    }

    fn chunks(&mut self, start: usize) -> Result<Option<Vec<u8>>, String> {
        let bad = || "the chunks of the answer cannot be read".to_owned();
        self.read = self.read.max(start);
        loop {
            let rest = &self.bytes[self.read..];
            let (line, size) = match httparse::parse_chunk_size(rest) {
                Ok(httparse::Status::Complete((line, size))) => (line, size),
                Ok(httparse::Status::Partial) => return Ok(None),
                Err(_) => return Err(bad()),
            };
            let size = usize::try_from(size).ok().filter(|size| self.body.len().saturating_add(*size) <= LONGEST_BODY);
            let size = size.ok_or("the answer is too long")?;
            if size == 0 {
                return Ok(Some(std::mem::take(&mut self.body)));
            }
            // With the end of its line.
            let Some(chunk) = rest.get(line..line + size + 2) else { return Ok(None) };
            let Some(chunk) = chunk.strip_suffix(b"\r\n") else { return Err(bad()) };
            self.body.extend_from_slice(chunk);
            self.read += line + size + 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In pieces of so many bytes.
    fn take(text: &str, piece: usize) -> Result<Option<Vec<u8>>, String> {
        let mut answer = Answer::default();
        for bytes in text.as_bytes().chunks(piece) {
            if let Some(body) = answer.take(bytes)? {
                return Ok(Some(body));
            }
        }
        answer.end(true).map(Some)
    }

    #[test]
    fn bodies_are_whole_however_they_come() {
        let head = "HTTP/1.1 200 OK\r\nServer: x\r\n";
        for piece in [1, 2, 7, 1_000] {
            let known = format!("{head}content-length: 5\r\n\r\nhellomore");
            assert_eq!(take(&known, piece).unwrap().unwrap(), b"hello", "{piece}");
            let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n");
            assert_eq!(take(&chunked, piece).unwrap().unwrap(), b"hello", "{piece}");
            assert_eq!(take(&format!("{head}\r\nhello"), piece).unwrap().unwrap(), b"hello", "{piece}");
        }
    }

    #[test]
    fn what_is_no_whole_answer_is_none() {
        for (text, why) in [
            ("HTTP/1.1 429 Too Many Requests\r\n\r\n", "429"),
            ("\0\0nothing\r\n\r\n", "no HTTP"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "within the answer"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "length"),
            ("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nx", "packed"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "chunks"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n", "too long"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n", "chunks"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhe", "within"),
            ("", "within"),
        ] {
            let told = take(text, 1_000).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        assert!(
            take(&format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(LONGEST_HEAD)), 4_096).unwrap_err().contains("header")
        );
        // A stream that is cut is no body that goes on until the end.
        let mut cut = Answer::default();
        assert_eq!(cut.take(b"HTTP/1.1 200 OK\r\n\r\nhel"), Ok(None));
        assert!(cut.end(false).is_err());
    }
}
