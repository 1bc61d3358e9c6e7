//! The HTTP request that a WebSocket session begins with, and its answers.

use sha1::{Digest, Sha1};

use super::pages::{Pages, Said};

/// Longest HTTP header that is read, as in ETA C.
pub const HEAD_MAX: usize = 32_768;
const FIELDS_MAX: usize = 96;

/// The protocol in a WebSocket session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// JSON in text frames: `tr_json2`.
    Json,
    /// The same by its other name, `rssl.json.v2`.
    JsonV2,
    /// RSSL frames in binary frames: `rssl.rwf`.
    Rwf,
}

impl Protocol {
    /// The protocol's name in `Sec-WebSocket-Protocol`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "tr_json2",
            Self::JsonV2 => "rssl.json.v2",
            Self::Rwf => "rssl.rwf",
        }
    }

    /// The protocol of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Json, Self::JsonV2, Self::Rwf].into_iter().find(|p| p.name() == name)
    }

    /// Text frames with JSON, by either name.
    #[must_use]
    pub fn is_json(self) -> bool {
        self != Self::Rwf
    }
}

/// A request that can be answered by 101.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgrade {
    /// The first of the client's protocols that this side has.
    pub protocol: Protocol,
    /// Compression is agreed on, without context in either direction.
    pub deflate: bool,
    /// The proof for the client that its request was understood.
    pub accept: String,
    /// The page that a browser was on; `None` from other programs, mostly.
    pub origin: Option<String>,
    /// The name that the client gives itself; empty if it gives none.
    pub user_agent: String,
    /// The request's cookies, as in the request; see [`Upgrade::cookie`].
    pub cookies: String,
}

/// Why a request is refused, and the answer that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// For the operator, and the body of the answer.
    pub why: &'static str,
}

/// The bytes so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// The header goes on.
    Incomplete,
    /// The request is whole: so many bytes, then frames.
    Upgrade(Box<Upgrade>, usize),
    /// The request is whole, and nothing that can be answered by 101.
    Refused(Refusal),
}

/// The state of this side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The protocols.
    pub protocols: Vec<Protocol>,
    /// Compression is accepted where the client offers it.
    pub deflate: bool,
    /// The pages whose scripts may open a session; programs may always.
    pub pages: Pages,
}

impl Default for Offer {
    fn default() -> Self {
        let protocols = vec![Protocol::Json, Protocol::JsonV2, Protocol::Rwf];
        Self { protocols, deflate: false, pages: Pages::default() }
    }
}

/// Reads a client's request.
#[must_use]
pub fn read(bytes: &[u8], offer: &Offer) -> Request {
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
    if request.method != Some("GET") {
        return refused(405, "only GET is answered here");
    }
    let path = request.path.unwrap_or("").split('?').next().unwrap_or("");
    if !path.eq_ignore_ascii_case("/WebSocket") {
        return refused(404, "this port is for market data over WebSocket: the path is /WebSocket");
    }
    match negotiate(&request, offer) {
        Ok(upgrade) => Request::Upgrade(Box::new(upgrade), length),
        Err((status, why)) => refused(status, why),
    }
}

type Fault = (u16, &'static str);

fn negotiate(request: &httparse::Request<'_, '_>, offer: &Offer) -> Result<Upgrade, Fault> {
    let all = |name: &'static str| {
        let own = request.headers.iter().filter(move |f| f.name.eq_ignore_ascii_case(name));
        own.filter_map(|f| std::str::from_utf8(f.value).ok()).map(str::trim)
    };
    let one = |name| all(name).next();
    let has = |name, word: &str| all(name).flat_map(|v| v.split(',')).any(|v| v.trim().eq_ignore_ascii_case(word));
    if !has("Upgrade", "websocket") || !has("Connection", "Upgrade") {
        return Err((400, "this port is for market data over WebSocket: the request asks for no upgrade to it"));
    }
    if all("Sec-WebSocket-Version").any(|version| version != "13") || one("Sec-WebSocket-Version").is_none() {
        return Err((400, "WebSocket version 13 is spoken here"));
    }
    let mut keys = all("Sec-WebSocket-Key").filter(|key| !key.is_empty());
    let (Some(key), None) = (keys.next(), keys.next()) else { return Err((400, "Sec-WebSocket-Key is missing")) };
    // A field that is no text is there, too: passed over, it would count as a program's silence.
    let field = |name: &'static str| {
        let own = request.headers.iter().filter(move |f| f.name.eq_ignore_ascii_case(name));
        own.map(|f| std::str::from_utf8(f.value).ok().map(str::trim))
    };
    let said = Said { field, user_agent: one("User-Agent").unwrap_or_default() };
    offer.pages.admits(&said).map_err(|why| (403, why))?;
    let origin = one("Origin").map(str::to_owned);
    let protocol = all("Sec-WebSocket-Protocol")
        .flat_map(|v| v.split(','))
        .filter_map(|name| Protocol::from_name(name.trim()))
        .find(|protocol| offer.protocols.contains(protocol))
        .ok_or((400, "none of the protocols asked for is spoken here: tr_json2, rssl.json.v2, rssl.rwf"))?;
    let deflate = offer.deflate && protocol.is_json() && all("Sec-WebSocket-Extensions").any(offers_deflate);
    let user_agent = one("User-Agent").unwrap_or("").to_owned();
    let cookies = all("Cookie").collect::<Vec<_>>().join(";");
    Ok(Upgrade { protocol, deflate, accept: accept(key), origin, user_agent, cookies })
}

/// Whether one of the extensions is a compression that can be agreed on: any window that the client bounds for itself, none that it
/// wants to bound for us.
fn offers_deflate(extensions: &str) -> bool {
    extensions.split(',').any(|extension| {
        let mut parts = extension.split(';').map(str::trim);
        let name = parts.next() == Some("permessage-deflate");
        name && parts.all(|part| !part.starts_with("server_max_window_bits") || part.ends_with("=15"))
    })
}

/// `Sec-WebSocket-Accept` of a key.
#[must_use]
pub fn accept(key: &str) -> String {
    let digest = Sha1::new().chain_update(key).chain_update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11").finalize();
    let mut text = String::with_capacity(28);
    base64(&digest, &mut text);
    text
}

fn base64(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let group = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let padding = digit > chunk.len();
            out.push(if padding { '=' } else { char::from(DIGITS[(group >> (18 - 6 * digit)) as usize & 63]) });
        }
    }
}

impl Upgrade {
    /// The value of a cookie.
    #[must_use]
    pub fn cookie(&self, name: &str) -> Option<&str> {
        let pairs = self.cookies.split(';').filter_map(|pair| pair.split_once('='));
        let value = pairs.into_iter().find(|(own, _)| own.trim() == name)?.1.trim();
        Some(value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value))
    }

    /// Appends the answer that accepts.
    pub fn answer(&self, out: &mut Vec<u8>) {
        let extensions = if self.deflate {
            "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n"
        } else {
            ""
        };
        let text = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {}\r\nSec-WebSocket-Protocol: {}\r\n{extensions}\r\n",
            self.accept,
            self.protocol.name()
        );
        out.extend_from_slice(text.as_bytes());
    }
}

impl Refusal {
    /// Appends the answer that says so; the connection is to be closed after it.
    pub fn answer(&self, out: &mut Vec<u8>) {
        let reason = match self.status {
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            413 => "Content Too Large",
            _ => "Service Unavailable",
        };
        let extra = match self.status {
            400 => "Sec-WebSocket-Version: 13\r\n",
            405 => "Allow: GET\r\n",
            _ => "",
        };
        let text = format!(
            "HTTP/1.1 {} {reason}\r\nConnection: close\r\nCache-Control: no-store\r\n{extra}\
             Content-Type: text/plain; charset=UTF-8\r\nContent-Length: {}\r\n\r\n{}\n",
            self.status,
            self.why.len() + 1,
            self.why
        );
        out.extend_from_slice(text.as_bytes());
    }
}

/// A client's request.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Host and port, for the `Host` field.
    pub host: String,
    /// The protocols, best first.
    pub protocols: Vec<Protocol>,
    /// 16 bytes that no other session has.
    pub nonce: [u8; 16],
}

impl Ask {
    fn key(&self) -> String {
        let mut key = String::with_capacity(24);
        base64(&self.nonce, &mut key);
        key
    }

    /// Appends the request.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let names: Vec<_> = self.protocols.iter().map(|p| p.name()).collect();
        let text = format!(
            "GET /WebSocket HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: {}\r\n\r\n",
            self.host,
            self.key(),
            names.join(", ")
        );
        out.extend_from_slice(text.as_bytes());
    }

    /// Reads the answer: the protocol, and how many bytes the answer has. `None` while the header goes on.
    ///
    /// # Errors
    /// The server refuses or answers nonsense; the text says what came.
    pub fn answer(&self, bytes: &[u8]) -> Result<Option<(Protocol, usize)>, String> {
        let Some((protocol, length)) = read_answer(bytes, &self.key())? else { return Ok(None) };
        match protocol.as_deref().and_then(Protocol::from_name).filter(|p| self.protocols.contains(p)) {
            Some(protocol) => Ok(Some((protocol, length))),
            None => Err("the server chose no protocol that was asked for".to_owned()),
        }
    }
}

/// A client's request to a server that is none of market data as this crate speaks it, and names no protocol: texts of an exchange.
#[derive(Debug, Clone)]
pub struct PlainAsk {
    /// Host and port, for the `Host` field.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// 16 bytes that no other session has.
    pub nonce: [u8; 16],
}

impl PlainAsk {
    fn key(&self) -> String {
        let mut key = String::with_capacity(24);
        base64(&self.nonce, &mut key);
        key
    }

    /// Appends the request.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let text = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: quoteway\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {}\r\nSec-WebSocket-Version: 13\r\n\r\n",
            self.path,
            self.host,
            self.key()
        );
        out.extend_from_slice(text.as_bytes());
    }

    /// Reads the answer: how many bytes it has. `None` while the header goes on.
    ///
    /// # Errors
    /// The server refuses or answers nonsense; the text says what came.
    pub fn answer(&self, bytes: &[u8]) -> Result<Option<usize>, String> {
        match read_answer(bytes, &self.key())? {
            Some((Some(protocol), _)) => Err(format!("the server chose {protocol}, and no protocol was asked for")),
            Some((None, length)) => Ok(Some(length)),
            None => Ok(None),
        }
    }
}

/// Reads the answer to a request with this key: the protocol that it names, and how many bytes it has.
fn read_answer(bytes: &[u8], key: &str) -> Result<Option<(Option<String>, usize)>, String> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let length = match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() <= HEAD_MAX => return Ok(None),
        Ok(httparse::Status::Partial) => return Err("the server's HTTP header is too large".to_owned()),
        Err(error) => return Err(format!("the server's answer is no HTTP: {error}")),
    };
    let status = response.code.unwrap_or(0);
    if status != 101 {
        let reason = response.reason.unwrap_or("");
        return Err(format!("the server answered the WebSocket request with {status} {reason}"));
    }
    let field = |name: &str| {
        let own = response.headers.iter().find(|f| f.name.eq_ignore_ascii_case(name));
        own.and_then(|f| std::str::from_utf8(f.value).ok()).map(str::trim)
    };
    if field("Sec-WebSocket-Accept") != Some(accept(key).as_str()) {
        return Err("Sec-WebSocket-Accept is not that of the request".to_owned());
    }
    Ok(Some((field("Sec-WebSocket-Protocol").map(str::to_owned), length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(fields: &str) -> String {
        format!("GET /WebSocket HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n")
    }

    const USUAL: &str = "Upgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                         Sec-WebSocket-Version: 13\r\n";

    #[test]
    fn the_sample_of_the_rfc_is_accepted() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let text = request(&format!("{USUAL}Sec-WebSocket-Protocol: other, rssl.rwf, tr_json2"));
        for cut in 0..text.len() {
            assert_eq!(read(&text.as_bytes()[..cut], &Offer::default()), Request::Incomplete, "{cut}");
        }
        let Request::Upgrade(upgrade, length) = read(text.as_bytes(), &Offer::default()) else { panic!() };
        assert_eq!((upgrade.protocol, length, upgrade.deflate), (Protocol::Rwf, text.len(), false));
    }

    #[test]
    fn what_is_missing_is_said() {
        let cases = [
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), 404),
            ("POST /WebSocket HTTP/1.1\r\n\r\n".to_owned(), 405),
            ("GET /WebSocket HTTP/1.1\r\n\r\n".to_owned(), 400),
            (request(USUAL.trim_end()), 400),
            (request(&format!("{USUAL}Sec-WebSocket-Protocol: chat")), 400),
            (request(&format!("{}Sec-WebSocket-Protocol: tr_json2", USUAL.replace("13", "8"))), 400),
            (format!("GET /WebSocket HTTP/1.1\r\nX: {}", "y".repeat(HEAD_MAX)), 413),
            ("\0\0junk\r\n".to_owned(), 400),
        ];
        for (text, status) in cases {
            let Request::Refused(refusal) = read(text.as_bytes(), &Offer::default()) else { panic!("{text}") };
            assert_eq!(refusal.status, status, "{text}");
            let mut out = Vec::new();
            refusal.answer(&mut out);
            let out = String::from_utf8(out).unwrap();
            assert!(out.starts_with(&format!("HTTP/1.1 {status} ")) && out.contains("Connection: close\r\n"), "{out}");
        }
    }

    #[test]
    fn compression_is_agreed_on_only_where_both_want_it() {
        let wants = Offer { deflate: true, ..Offer::default() };
        for (extension, agreed) in [
            ("permessage-deflate; client_max_window_bits", true),
            ("permessage-deflate;server_no_context_takeover", true),
            ("x-webkit, permessage-deflate", true),
            ("permessage-deflate; server_max_window_bits=9", false),
            ("x-webkit-deflate-frame", false),
        ] {
            let text =
                request(&format!("{USUAL}Sec-WebSocket-Extensions: {extension}\r\nSec-WebSocket-Protocol: tr_json2"));
            let Request::Upgrade(upgrade, _) = read(text.as_bytes(), &wants) else { panic!() };
            assert_eq!(upgrade.deflate, agreed, "{extension}");
            let Request::Upgrade(upgrade, _) = read(text.as_bytes(), &Offer::default()) else { panic!() };
            assert!(!upgrade.deflate);
        }
    }

    #[test]
    fn cookies_are_found_by_name() {
        let cookies = "Cookie: a=1; AuthToken=x.y=z ;position=\"10.0.0.1/net\"\r\nCookie: b=2";
        let text = request(&format!("{USUAL}{cookies}\r\nSec-WebSocket-Protocol: tr_json2"));
        let Request::Upgrade(upgrade, _) = read(text.as_bytes(), &Offer::default()) else { panic!() };
        let found = ["a", "AuthToken", "position", "b", "authtoken"].map(|name| upgrade.cookie(name));
        assert_eq!(found, [Some("1"), Some("x.y=z"), Some("10.0.0.1/net"), Some("2"), None]);
    }

    #[test]
    fn a_browser_comes_from_a_page_that_is_allowed() {
        let listed = vec!["https://desk.example".parse().unwrap()];
        let offer = Offer { pages: Pages { listed, ..Pages::default() }, ..Offer::default() };
        let from = |fields: &[u8]| {
            let text = request(&format!("{USUAL}FIELDS\r\nSec-WebSocket-Protocol: tr_json2"));
            let (before, behind) = text.split_once("FIELDS").unwrap();
            match read(&[before.as_bytes(), fields, behind.as_bytes()].concat(), &offer) {
                Request::Upgrade(..) => 101,
                Request::Refused(refusal) => refusal.status,
                Request::Incomplete => 0,
            }
        };
        assert_eq!((from(b"Origin: https://desk.example"), from(b"Origin: https://evil.example")), (101, 403));
        assert_eq!(from(b"X: y"), 101, "programs say nothing of it");
        let unreadable: [&[u8]; 5] = [
            b"Origin: https://desk.example\r\nOrigin: https://evil.example",
            b"Origin: https://desk.example\r\norigin:",
            b"Origin: https://d\xffsk.example",
            b"Origin: null",
            b"Origin:",
        ];
        for fields in unreadable {
            assert_eq!(from(fields), 403, "{}", String::from_utf8_lossy(fields));
        }
    }

    #[test]
    fn client_and_server_agree() {
        let ask = Ask { host: "h:1".to_owned(), protocols: vec![Protocol::JsonV2, Protocol::Rwf], nonce: [7; 16] };
        let (mut out, mut back) = (Vec::new(), Vec::new());
        ask.encode(&mut out);
        let Request::Upgrade(upgrade, length) = read(&out, &Offer::default()) else { panic!() };
        assert_eq!(length, out.len());
        upgrade.answer(&mut back);
        assert_eq!(ask.answer(&back[..back.len() - 1]), Ok(None));
        assert_eq!(ask.answer(&back), Ok(Some((Protocol::JsonV2, back.len()))));
        let other = Ask { nonce: [8; 16], ..ask };
        assert!(other.answer(&back).is_err());
        assert!(other.answer(b"HTTP/1.1 503 Busy\r\n\r\n").unwrap_err().contains("503 Busy"));
    }

    #[test]
    fn a_plain_request_names_its_path_and_takes_no_protocol() {
        let ask = PlainAsk { host: "h:1".to_owned(), path: "/ws/v1?x=1".to_owned(), nonce: [7; 16] };
        let mut out = Vec::new();
        ask.encode(&mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("GET /ws/v1?x=1 HTTP/1.1\r\nHost: h:1\r\n") && !text.contains("Protocol"), "{text}");
        let key = text.split("Sec-WebSocket-Key: ").nth(1).unwrap().split("\r\n").next().unwrap();
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n",
            accept(key)
        );
        assert_eq!(ask.answer(&answer.as_bytes()[..answer.len() - 1]), Ok(None));
        assert_eq!(ask.answer(format!("{answer}more").as_bytes()), Ok(Some(answer.len())));
        let chosen = answer.replace("\r\n\r\n", "\r\nSec-WebSocket-Protocol: chat\r\n\r\n");
        assert!(ask.answer(chosen.as_bytes()).unwrap_err().contains("chat"));
        assert!(ask.answer(b"HTTP/1.1 429 Too Many Requests\r\n\r\n").unwrap_err().contains("429"));
        assert!(PlainAsk { nonce: [8; 16], ..ask }.answer(answer.as_bytes()).is_err());
    }
}
