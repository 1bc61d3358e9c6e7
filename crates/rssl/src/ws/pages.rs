//! Which pages' scripts may open a session: `Origin` and `Host` of a browser's request, read strictly. What cannot be read is a stranger's.
//!
//! A browser sends with each request the origin of the page that makes it, and cannot be kept from it by the page; so a page of any server
//! is told from the programs of the field, which send none, or (websocket-client, lseg-data) that of the server itself. A name that was made
//! to lead here (DNS rebinding) is told by `Host`, in which it stands: it counts only where it is an address, one of the loopback, or a
//! name that this machine is known by.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

/// Longest name of a host (RFC 1035, 2.3.4).
const NAME_MAX: usize = 253;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Name {
    Address(IpAddr),
    /// In lower case.
    Named(String),
}

impl Name {
    /// `localhost`, a name of DNS, `10.0.0.1`, `[::1]`. None is the same host in two ways: no dot at the end, no userinfo, no number that is
    /// only almost an address.
    fn parse(text: &str) -> Option<Self> {
        if let Some(inner) = text.strip_prefix('[') {
            let address: std::net::Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(address.into()));
        }
        if let Ok(address) = text.parse::<std::net::Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        let is_label = |label: &str| {
            !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        };
        if text.len() > NAME_MAX || !text.split('.').all(is_label) {
            return None;
        }
        // Browsers take a last label that begins with a digit for a number of an address ("127.1", "0x7f.1"), and write the address.
        let last = text.rsplit('.').next().unwrap_or_default();
        (!last.starts_with(|c: char| c.is_ascii_digit())).then(|| Self::Named(text.to_ascii_lowercase()))
    }

    fn is_loopback(&self) -> bool {
        match self {
            Self::Address(address) => address.is_loopback(),
            Self::Named(name) => name == "localhost",
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Address(address) => address.fmt(f),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// Host and port as a `Host` field has them, the port if it is said.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    name: Name,
    port: Option<u16>,
}

impl FromStr for Host {
    type Err = &'static str;

    /// `NAME`, `NAME:PORT`, `[IPV6]:PORT`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let end = text.find(']').map_or(0, |end| end + 1);
        let (name, port) = match text[end..].find(':') {
            Some(colon) => {
                let port = &text[end + colon + 1..];
                let is_number = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
                let port = port.parse::<u16>().ok().filter(|port| is_number && *port > 0);
                (&text[..end + colon], Some(port.ok_or("a port is a number from 1 to 65535")?))
            }
            None => (text, None),
        };
        Ok(Self { name: Name::parse(name).ok_or("this is no name of a host, and no address")?, port })
    }
}

impl Host {
    /// The host is this machine by an address or name that leads nowhere else.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.name.is_loopback()
    }

    /// The host is an address and no name, which nobody can have lead elsewhere.
    #[must_use]
    pub fn is_address(&self) -> bool {
        matches!(self.name, Name::Address(_))
    }
}

/// Where a page is from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// In lower case.
    scheme: String,
    name: Name,
    /// The port of the scheme where none is said; 0 for a scheme that has none.
    port: u16,
}

fn port_of(scheme: &str) -> u16 {
    match scheme {
        "http" | "ws" => 80,
        "https" | "wss" => 443,
        _ => 0,
    }
}

impl FromStr for Origin {
    type Err = &'static str;

    /// `SCHEME://HOST` or `SCHEME://HOST:PORT` and nothing else: no path, no user, and not `null`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (scheme, host) = text.split_once("://").ok_or("an origin is SCHEME://HOST[:PORT]")?;
        let mut letters = scheme.bytes();
        let is_scheme = letters.next().is_some_and(|b| b.is_ascii_alphabetic())
            && letters.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
        if !is_scheme {
            return Err("an origin begins with a scheme such as https");
        }
        let Host { name, port } = host.parse()?;
        let scheme = scheme.to_ascii_lowercase();
        Ok(Self { port: port.unwrap_or_else(|| port_of(&scheme)), scheme, name })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.name)?;
        if self.port == port_of(&self.scheme) { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl Origin {
    /// The origin of the pages of a server that is reached by `scheme` at this host.
    #[must_use]
    pub fn of(scheme: &str, host: &Host) -> Self {
        let port = host.port.unwrap_or_else(|| port_of(scheme));
        Self { scheme: scheme.to_owned(), name: host.name.clone(), port }
    }

    /// The page is one of this machine's own servers, if the browser is on it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.name.is_loopback()
    }

    /// What is asked is the very server that the page is from: what programs say that are none.
    fn is_server(&self, host: &Host) -> bool {
        let port = host.port.unwrap_or_else(|| port_of(&self.scheme));
        matches!(self.scheme.as_str(), "http" | "https" | "ws" | "wss") && self.name == host.name && self.port == port
    }
}

/// The port of the page that a process shows itself; 0 while it shows none.
#[derive(Debug, Clone, Default)]
pub struct OwnPage(Arc<AtomicU16>);

impl OwnPage {
    /// The page is shown at this port from now on.
    pub fn is_at(&self, port: u16) {
        self.0.store(port, Ordering::Relaxed);
    }

    fn is(&self, port: u16) -> bool {
        port != 0 && self.0.load(Ordering::Relaxed) == port
    }
}

impl PartialEq for OwnPage {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for OwnPage {}

/// The pages whose scripts may open a session. The default has none; programs that are no browser may always.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pages {
    /// Every page of every server.
    pub any: bool,
    /// Pages of the host that is asked, whatever their port, and those of the loopback.
    pub same_host: bool,
    /// The one that the process shows itself, by an address of the loopback.
    pub own: Option<OwnPage>,
    /// Pages of these origins.
    pub listed: Vec<Origin>,
    /// Names in `Host` by which this machine is known; addresses and `localhost` need not be here.
    pub names: Vec<Host>,
}

/// What a request says of who sends it, field by field; each as often as it stands there.
pub(crate) struct Said<'a, F> {
    /// All values of a field; `None` for one that is no text.
    pub(crate) field: F,
    pub(crate) user_agent: &'a str,
}

impl<'a, F, I> Said<'a, F>
where
    F: Fn(&'static str) -> I,
    I: Iterator<Item = Option<&'a str>>,
{
    /// The value of a field that may stand there once.
    fn only(&self, name: &'static str) -> Result<Option<&'a str>, &'static str> {
        let mut all = (self.field)(name);
        match (all.next(), all.next()) {
            (None, _) => Ok(None),
            (Some(Some(value)), None) => Ok(Some(value)),
            _ => Err("a field of the request stands there twice, or is no text"),
        }
    }

    /// Marks that a script cannot take away: browsers say what they are.
    fn is_browser(&self) -> bool {
        let fetch = ["Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"];
        self.user_agent.contains("Mozilla/") || fetch.into_iter().any(|name| (self.field)(name).next().is_some())
    }
}

impl Pages {
    /// Reads what a configuration says: `*` for any, `host` for those of the same host and the loopback, `own` for the process's own, or the
    /// origin of a page.
    ///
    /// # Errors
    /// A word that is none of them: the word, and why.
    pub fn parse(words: &[String], own: &OwnPage) -> Result<Self, String> {
        let mut pages = Self::default();
        for word in words {
            match word.as_str() {
                "*" => pages.any = true,
                "host" => pages.same_host = true,
                "own" => pages.own = Some(own.clone()),
                origin => pages.listed.push(origin.parse().map_err(|why| format!("{origin:?}: {why}"))?),
            }
        }
        Ok(pages)
    }

    /// Whether who sends a request may have a session, and why not.
    pub(crate) fn admits<'a, F, I>(&self, said: &Said<'a, F>) -> Result<(), &'static str>
    where
        F: Fn(&'static str) -> I,
        I: Iterator<Item = Option<&'a str>>,
    {
        let Some(origin) = said.only("Origin")? else {
            // A browser always names the page; one that says what only browsers say, and does not, has been tampered with.
            return if (said.field)("Sec-Fetch-Site").next().is_some() { Err(NO_PAGE) } else { Ok(()) };
        };
        if self.any {
            return Ok(());
        }
        let origin: Origin = origin.parse().map_err(|_| NO_PAGE)?;
        let host: Host = said.only("Host")?.ok_or(NO_PAGE)?.parse().map_err(|_| NO_PAGE)?;
        let may = (!said.is_browser() && origin.is_server(&host))
            || self.listed.contains(&origin)
            || self.is_of_same_host(&origin, &host)
            || self.is_own(&origin, &host);
        if may { Ok(()) } else { Err(NO_PAGE) }
    }

    fn is_of_same_host(&self, origin: &Origin, host: &Host) -> bool {
        let is_known = host.is_address() || host.is_loopback() || self.names.iter().any(|own| own.name == host.name);
        let is_page = matches!(origin.scheme.as_str(), "http" | "https");
        self.same_host && is_page && (origin.is_loopback() || (is_known && origin.name == host.name))
    }

    fn is_own(&self, origin: &Origin, host: &Host) -> bool {
        let is_at = |own: &OwnPage| own.is(origin.port) && origin.scheme == "http";
        origin.is_loopback() && host.is_loopback() && self.own.as_ref().is_some_and(is_at)
    }
}

const NO_PAGE: &str = "pages of this Origin may not connect here (websocket_origins names those that may)";

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(pages: &Pages, fields: &[(&str, &str)]) -> bool {
        let field = |name: &'static str| {
            fields
                .iter()
                .filter(move |(own, _)| *own == name)
                .map(|(_, value)| Some(*value))
                .collect::<Vec<_>>()
                .into_iter()
        };
        let user_agent = field("User-Agent").next().flatten().unwrap_or_default();
        pages.admits(&Said { field, user_agent }).is_ok()
    }

    const BROWSER: (&str, &str) = ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) Chrome/140");

    fn page(pages: &Pages, origin: &str, host: &str) -> bool {
        admits(pages, &[("Origin", origin), ("Host", host), BROWSER])
    }

    fn host() -> Pages {
        let own = OwnPage::default();
        Pages { names: vec!["feed1".parse().unwrap()], ..Pages::parse(&["host".to_owned()], &own).unwrap() }
    }

    #[test]
    fn origins_and_hosts_are_read_strictly() {
        for good in
            ["http://a", "https://a.example:8443", "http://[::1]:80", "http://10.0.0.1", "chrome-extension://abc"]
        {
            assert!(good.parse::<Origin>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "null",
            "NULL",
            "a",
            "http:/a",
            "http://",
            "http://a/",
            "http://a/b",
            "http://u@a",
            "http://u:p@a",
            "http://a:",
            "http://a:0",
            "http://a:65536",
            "http://a:+80",
            "http://a: 80",
            "http://a:80:80",
            "http://a.",
            "http://.a",
            "http://a..b",
            "http://[::1",
            "http://::1",
            "http://[::1]x",
            "http://[127.0.0.1]",
            "http://127.1",
            "http://0x7f.1",
            "http://127.0.0.1.",
            "http://a b",
            "http://a?x",
            "http://a#x",
            "http://a\\b",
            "http://b\u{fc}cher",
            " http://a",
            "http://a, http://a",
            "1http://a",
        ] {
            assert!(bad.parse::<Origin>().is_err(), "{bad}");
        }
        let same = |a: &str, b: &str| a.parse::<Origin>() == b.parse::<Origin>();
        assert!(same("http://A:80", "HTTP://a") && same("https://a", "https://a:443"));
        assert!(!same("https://a", "http://a") && !same("http://a", "http://a:8080") && !same("http://a", "http://b"));
        assert_eq!("HTTPS://Desk.Example:443".parse::<Origin>().unwrap().to_string(), "https://desk.example");
    }

    #[test]
    fn programs_come_in_whatever_they_say_of_themselves() {
        for pages in [Pages::default(), host()] {
            // EMA and `ws` of node; ETA C, which calls itself Mozilla, and whose Host may be missing.
            assert!(admits(&pages, &[("Host", "feed.example:15000")]));
            assert!(admits(&pages, &[("User-Agent", "Mozilla/5.0")]));
            // websocket-client, lseg-data: the server that they dial, by any name.
            for (origin, host) in
                [("http://feed.example:15000", "feed.example:15000"), ("https://feed.example", "feed.example")]
            {
                assert!(admits(&pages, &[("Origin", origin), ("Host", host)]), "{origin}");
                assert!(admits(&pages, &[("Origin", origin), ("Host", host), ("User-Agent", "Python")]), "{origin}");
            }
            assert!(!admits(&pages, &[("Origin", "http://evil.example"), ("Host", "feed.example:15000")]));
        }
    }

    #[test]
    fn by_default_pages_of_the_same_host_and_of_the_loopback_come_in() {
        let pages = host();
        for (origin, host) in [
            ("http://10.0.0.5:8080", "10.0.0.5:14002"),
            ("http://localhost:3000", "localhost:14002"),
            ("http://localhost:3000", "10.0.0.5:14002"),
            ("http://[::1]:8080", "[::1]:15000"),
            ("http://feed1:8080", "FEED1:15000"),
        ] {
            assert!(page(&pages, origin, host), "{origin} {host}");
        }
        for (origin, host) in [
            ("http://evil.example", "127.0.0.1:14002"),
            // A name that was made to lead here, at the port of the server itself.
            ("http://evil.example:14002", "evil.example:14002"),
            ("http://feed1.evil.example:14002", "feed1.evil.example:14002"),
            ("http://localhost.evil.example", "localhost:14002"),
            ("http://127.0.0.1.evil.example", "127.0.0.1:14002"),
            ("http://localhost@evil.example", "localhost:14002"),
            ("null", "localhost:14002"),
            ("", "localhost:14002"),
            ("ftp://127.0.0.1", "localhost:14002"),
            ("file://localhost", "localhost:14002"),
            ("http://10.0.0.5", "10.0.0.6:14002"),
            ("http://10.0.0.5", ""),
        ] {
            assert!(!page(&pages, origin, host), "{origin} {host}");
        }
        let twice = [("Origin", "http://localhost"), ("Origin", "http://evil.example"), ("Host", "localhost"), BROWSER];
        assert!(!admits(&pages, &twice), "what stands there twice is not read as the one that would do");
        let twice = [("Host", "localhost"), ("Origin", "http://localhost"), ("Host", "evil.example"), BROWSER];
        assert!(!admits(&pages, &twice));
        assert!(!admits(&pages, &[("Host", "localhost"), ("Sec-Fetch-Site", "cross-site")]));
    }

    #[test]
    fn a_page_of_its_own_alone_comes_in_at_a_desktop() {
        let own = OwnPage::default();
        let pages = Pages::parse(&["own".to_owned()], &own).unwrap();
        assert!(!page(&pages, "http://localhost:8080", "localhost:14002"), "there is none yet");
        own.is_at(8080);
        assert!(
            page(&pages, "http://localhost:8080", "127.0.0.1:14002")
                && page(&pages, "http://127.0.0.1:8080", "localhost:15000")
        );
        for origin in
            ["http://localhost:3000", "https://localhost:8080", "http://localhost", "null", "http://evil.example:8080"]
        {
            assert!(!page(&pages, origin, "localhost:14002"), "{origin}");
        }
        assert!(!page(&pages, "http://localhost:8080", "evil.example:14002"));
    }

    #[test]
    fn pages_that_are_named_come_in_and_no_others() {
        let words = ["https://desk.example".to_owned()];
        let pages = Pages::parse(&words, &OwnPage::default()).unwrap();
        assert!(
            page(&pages, "https://desk.example", "feed.example:14002")
                && page(&pages, "https://desk.example:443", "feed.example")
        );
        for origin in
            ["http://desk.example", "https://desk.example:8443", "https://desk.example.", "http://feed.example:14002"]
        {
            assert!(!page(&pages, origin, "feed.example:14002"), "{origin}");
        }
        assert!(Pages::parse(&["https://desk.example/page".to_owned()], &OwnPage::default()).is_err());
        let any = Pages::parse(&["*".to_owned()], &OwnPage::default()).unwrap();
        assert!(page(&any, "null", "feed.example"));
    }
}
