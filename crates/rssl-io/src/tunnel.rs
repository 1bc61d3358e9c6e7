//! The way through an HTTP proxy (`CONNECT`), before the first byte of encryption or session.

use std::fmt;

use base64ct::{Base64, Encoding as _};
use net::tls::TlsSession;

/// The layer between the socket and the session of a connection that is dialled.
#[derive(Default)]
pub struct Way {
    /// Encryption.
    pub tls: Option<TlsSession>,
    /// The address dialled is that of an HTTP proxy, and this is the `HOST:PORT` that it is asked to connect with.
    pub through_proxy_to: Option<String>,
    /// The user at the proxy; `None` where it asks nobody.
    pub proxy_credentials: Option<Credentials>,
}

impl From<Option<TlsSession>> for Way {
    fn from(tls: Option<TlsSession>) -> Self {
        Self { tls, ..Self::default() }
    }
}

/// A user of a proxy and the password, as the header has them (RFC 7617). Nothing shows them.
#[derive(Clone)]
pub struct Credentials(String);

impl Credentials {
    /// From `USER:PASSWORD`. `None` without a colon, and with a control character, which a header cannot have.
    pub fn new(text: &str) -> Option<Self> {
        let is_whole = text.contains(':') && !text.contains(char::is_control);
        is_whole.then(|| Self(Base64::encode_string(text.as_bytes())))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

/// Bytes of a proxy's answer, at most.
const ANSWER_MAX: usize = 8 << 10;

/// A connection whose proxy has not answered yet.
pub(crate) struct Tunnel {
    target: String,
    credentials: Option<Credentials>,
    answer: Vec<u8>,
    /// When the answer is not waited for any more.
    pub(crate) until: u64,
}

impl Tunnel {
    pub(crate) fn new(target: String, credentials: Option<Credentials>, until: u64) -> Self {
        Self { target, credentials, answer: Vec::new(), until }
    }

    /// Appends the request.
    pub(crate) fn start(&self, out: &mut Vec<u8>) {
        let target = &self.target;
        out.extend_from_slice(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").as_bytes());
        if let Some(Credentials(text)) = &self.credentials {
            out.extend_from_slice(format!("Proxy-Authorization: Basic {text}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Takes bytes of the proxy. How many of them are its answer, when that is whole and the way is open.
    ///
    /// # Errors
    /// The proxy refuses, or what answers is no proxy; the text says how.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<Option<usize>, String> {
        let before = self.answer.len();
        self.answer.extend_from_slice(bytes);
        let Some(end) = self.answer.windows(4).position(|four| four == b"\r\n\r\n") else {
            let what = "the proxy answers no HTTP";
            let is_http = b"HTTP/1.".iter().zip(&self.answer).all(|(a, b)| a == b);
            return if is_http && self.answer.len() <= ANSWER_MAX { Ok(None) } else { Err(what.to_owned()) };
        };
        let line = self.answer.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let mut words = line.splitn(3, ' ');
        let (version, status) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if version.starts_with("HTTP/1.") && status.len() == 3 && status.starts_with('2') {
            // The end of the answer may have come in pieces: what was there before is not of these bytes.
            return Ok(Some((end + 4).saturating_sub(before)));
        }
        let line: String = line.chars().filter(|c| !c.is_control()).take(100).collect();
        Err(format!("the proxy does not connect with {}: {line:?}", self.target))
    }

    /// The reason to give when the time is over.
    pub(crate) fn silence(&self) -> String {
        format!("the proxy has not connected with {} in time", self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tunnel() -> Tunnel {
        Tunnel::new("feed:14002".to_owned(), None, 0)
    }

    #[test]
    fn the_way_is_open_behind_the_answer_however_it_is_cut() {
        let mut out = Vec::new();
        tunnel().start(&mut out);
        assert_eq!(out, b"CONNECT feed:14002 HTTP/1.1\r\nHost: feed:14002\r\n\r\n");
        let answer = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n";
        let all = [&answer[..], b"ab"].concat();
        for cut in 0..all.len() {
            let mut tunnel = tunnel();
            let first = tunnel.receive(&all[..cut]).expect("an answer");
            if cut >= answer.len() {
                assert_eq!(first, Some(answer.len()), "cut at {cut}");
            } else {
                assert_eq!(first, None, "cut at {cut}");
                assert_eq!(tunnel.receive(&all[cut..]), Ok(Some(answer.len() - cut)), "cut at {cut}");
            }
        }
    }

    #[test]
    fn credentials_go_to_the_proxy_and_are_shown_nowhere() {
        // The example of RFC 7617.
        let credentials = Credentials::new("Aladdin:open sesame").expect("whole");
        assert_eq!(format!("{credentials:?}"), "Credentials");
        let mut out = Vec::new();
        Tunnel::new("feed:14002".to_owned(), Some(credentials), 0).start(&mut out);
        let text = String::from_utf8(out).expect("text");
        assert!(text.ends_with("\r\nProxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n"), "{text}");
        for bad in ["name", "", "name:pass\nword", "a\r:b"] {
            assert!(Credentials::new(bad).is_none(), "{bad:?}");
        }
        assert!(Credentials::new("name:").is_some(), "a password may be empty");
    }

    #[test]
    fn refusals_and_what_is_no_proxy_are_told() {
        let refused = tunnel().receive(b"HTTP/1.1 407 Proxy\x07 Authentication Required\r\n\r\n");
        assert_eq!(
            refused.unwrap_err(),
            "the proxy does not connect with feed:14002: \"HTTP/1.1 407 Proxy Authentication Required\""
        );
        for wrong in [
            &b"\x00\x2a\x01"[..],
            b"SSH-2.0\r\n\r\n",
            b"HTTP/1.1 20\r\n\r\n",
            b"HTTP/1.1 2000 OK\r\n\r\n",
            b"HTTP/2 200\r\n\r\n",
        ] {
            assert!(tunnel().receive(wrong).is_err(), "{wrong:?}");
        }
        let mut endless = tunnel();
        assert_eq!(endless.receive(b"HTTP/1.1 200 OK\r\n"), Ok(None));
        let ends = (0..100).any(|_| endless.receive(&[b'a'; 1_000]).is_err());
        assert!(ends, "an answer without end is refused");
    }
}
