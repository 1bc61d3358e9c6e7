//! Where a venue on the web is: whose texts, which products, and the addresses of its servers.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs as _};

use anyhow::anyhow;
use feed::replay::venue::WebKind;
use feed::replay::venue::live::WebConfig;
use net::tls::TlsClient;

use crate::site::{SiteArgs, web_names};

/// A server that is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub is_encrypted: bool,
    pub host: String,
    pub port: u16,
    /// Path and query, at least `/`.
    pub path: String,
}

impl Url {
    /// Reads an address of one of these schemes, the encrypted one first.
    fn parse(text: &str, [encrypted, plain]: [&str; 2]) -> anyhow::Result<Self> {
        let wanted = || anyhow!("{text} is no address: it is written {encrypted}HOST[:PORT][/PATH]");
        let is_encrypted = text.starts_with(encrypted);
        let rest = text.strip_prefix(encrypted).or_else(|| text.strip_prefix(plain)).ok_or_else(wanted)?;
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let (host, port) = match authority.rsplit_once(':') {
            // Of an address of IPv6 without a port.
            Some(_) if authority.ends_with(']') => (authority, None),
            Some((host, port)) => (host, Some(port.parse().map_err(|_| wanted())?)),
            None => (authority, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_written = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || !is_written(host) || !is_written(path) || host.contains(['@', '?', '#']) {
            return Err(wanted());
        }
        let port = port.unwrap_or(if is_encrypted { 443 } else { 80 });
        Ok(Self { is_encrypted, host: host.to_owned(), port, path: path.to_owned() })
    }

    /// For the field `Host`: the port only if it is none of the scheme's.
    pub(super) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.is_encrypted { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// Looks the host up, which may take seconds; those of IPv4 first.
    ///
    /// # Errors
    /// A text for the operator.
    pub(super) fn look_up(&self) -> Result<Vec<SocketAddr>, String> {
        let found = (self.host.as_str(), self.port).to_socket_addrs().map_err(|e| format!("{}: {e}", self.host))?;
        let mut all: Vec<SocketAddr> = found.collect();
        all.sort_by_key(SocketAddr::is_ipv6);
        if all.is_empty() { Err(format!("{}: no address has this name", self.host)) } else { Ok(all) }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.authority(), self.path)
    }
}

/// A venue's place in the network.
#[derive(Clone, Debug)]
pub struct WebPlace {
    /// How it is taken.
    pub config: WebConfig,
    pub(crate) socket: Url,
    /// Where bodies are fetched, if the venue wants any.
    pub(crate) http: Option<Url>,
    /// Whom to trust, if anything is encrypted.
    pub(crate) tls: Option<TlsClient>,
}

const SOCKET: [&str; 2] = ["wss://", "ws://"];
const HTTP: [&str; 2] = ["https://", "http://"];

/// The venue whose name is before the colon, and what is behind it.
fn named(text: &str) -> Option<(WebKind, &str)> {
    WebKind::SITES.iter().find_map(|(kind, name, ..)| Some((*kind, text.strip_prefix(name)?.strip_prefix(':')?)))
}

/// Whether a text names a venue on the web, not a file.
pub fn is_web_site(text: &str) -> bool {
    named(text).is_some() || SOCKET.iter().any(|scheme| text.starts_with(scheme))
}

impl WebPlace {
    /// Reads what the user has written; files of certificates are read.
    ///
    /// # Errors
    /// A text for the user.
    pub fn parse(text: &str, args: &SiteArgs, suffix: Option<String>) -> anyhow::Result<Self> {
        let fault = |e: anyhow::Error| anyhow!("{text}: {e}");
        args.refuse_for_web(text)?;
        let (kind, products, own) = if let Some((kind, products)) = named(text) {
            (kind, products, None)
        } else {
            let (address, products) = text.split_once('#').unwrap_or((text, ""));
            let url = Url::parse(address, SOCKET)?;
            let kind = WebKind::of_host(&url.host).ok_or_else(|| {
                let (host, names) = (&url.host, web_names());
                fault(anyhow!("whose texts come from {host} is not known: write {names} with --web-socket"))
            })?;
            if args.web_socket.is_some() {
                return Err(fault(anyhow!("--web-socket has no effect: the address is given")));
            }
            (kind, products, Some(url))
        };
        let products: Vec<String> = products.split(',').map(str::to_owned).collect();
        if products.iter().any(String::is_empty) {
            return Err(anyhow!("{text} lacks a product: coinbase:BTC-USD,ETH-USD, or wss://ws.kraken.com/#XBT/USD"));
        }
        let known = WebKind::SITES.into_iter().find(|(of, ..)| *of == kind);
        let (_, _, usual, usual_http) = known.ok_or_else(|| fault(anyhow!("{kind} has no servers")))?;
        let socket = match (own, &args.web_socket) {
            (Some(url), _) => url,
            (None, given) => Url::parse(given.as_deref().unwrap_or(usual), SOCKET).map_err(fault)?,
        };
        if args.http_server.is_some() && usual_http.is_none() {
            return Err(fault(anyhow!("--http-server has no effect: {kind} is asked for nothing by HTTP")));
        }
        let http = args.http_server.as_deref().filter(|_| usual_http.is_some()).or(usual_http);
        let http = http.map(|address| Url::parse(address, HTTP)).transpose().map_err(fault)?;
        if let Some(http) = http.as_ref().filter(|http| http.path != "/") {
            return Err(fault(anyhow!("{http}: paths are the venue's, a server is HOST[:PORT]")));
        }
        let is_encrypted = socket.is_encrypted || http.as_ref().is_some_and(|http| http.is_encrypted);
        let tls = match &args.ca_file {
            _ if !is_encrypted && args.ca_file.is_some() => {
                return Err(fault(anyhow!("--ca-file has no effect: nothing is encrypted")));
            }
            _ if !is_encrypted => None,
            Some(file) => Some(TlsClient::with_roots_from(file).map_err(|e| fault(e.into()))?),
            None => Some(TlsClient::with_system_roots().map_err(|e| fault(anyhow!("{e} (--ca-file)")))?),
        };
        Ok(Self { config: WebConfig { kind, products, suffix, symbology: None }, socket, http, tls })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, change: impl FnOnce(&mut SiteArgs)) -> Result<WebPlace, String> {
        // The machine of a test may have no certificates.
        let mut args = SiteArgs { web_socket: Some("ws://127.0.0.1:9/x".into()), ..SiteArgs::default() };
        change(&mut args);
        WebPlace::parse(text, &args, None).map_err(|e| e.to_string())
    }

    #[test]
    fn a_venue_has_products_and_servers() {
        let place = parse("coinbase:BTC-USD,ETH-USD", |_| {}).unwrap();
        assert_eq!((place.config.kind, place.config.products.len(), place.http), (WebKind::Coinbase, 2, None));
        assert_eq!(place.socket.to_string(), "127.0.0.1:9/x");
        let place = parse("binance:BTCUSDT", |args| args.http_server = Some("http://localhost:81".into())).unwrap();
        assert_eq!(place.http.unwrap().authority(), "localhost:81");
        let place = parse("ws://ws.kraken.com/#XBT/USD,ETH/USD", |args| args.web_socket = None).unwrap();
        assert_eq!((place.config.kind, &place.config.products[0][..]), (WebKind::Kraken, "XBT/USD"));
        assert_eq!((place.socket.port, &place.socket.path[..], place.tls.is_none()), (80, "/", true));
        assert!(is_web_site("kraken-futures:PI_XBTUSD") && is_web_site("wss://h") && !is_web_site("coinbase.gz"));
    }

    #[test]
    fn addresses_are_read_strictly() {
        let read = |text| Url::parse(text, SOCKET).map(|url| (url.is_encrypted, url.host, url.port, url.path)).ok();
        let some = |encrypted, host: &str, port, path: &str| Some((encrypted, host.to_owned(), port, path.to_owned()));
        assert_eq!(read("wss://h.net"), some(true, "h.net", 443, "/"));
        assert_eq!(read("ws://h:8/a?b=c"), some(false, "h", 8, "/a?b=c"));
        assert_eq!(read("wss://[::1]:9/"), some(true, "::1", 9, "/"));
        assert_eq!(read("wss://[::1]"), some(true, "::1", 443, "/"));
        for wrong in
            ["https://h", "wss://", "wss://:9", "wss://h:x", "wss://u@h", "wss://h/a b", "wss://h:70000", "wss://h?x"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        let url = Url::parse("wss://[::1]:9/", SOCKET).unwrap();
        assert_eq!(url.authority(), "[::1]:9");
    }

    #[test]
    fn what_has_no_effect_or_is_not_known_is_refused() {
        for (text, change, why) in [
            ("coinbase:", (|_| {}) as fn(&mut SiteArgs), "lacks a product"),
            ("coinbase:A,,B", |_| {}, "lacks a product"),
            ("ws://example.net/#A", |args| args.web_socket = None, "not known"),
            ("ws://ws.kraken.com/#A", |_| {}, "--web-socket has no effect"),
            ("coinbase:A", |args| args.http_server = Some("http://h".into()), "--http-server has no effect"),
            ("bitstamp:A", |args| args.http_server = Some("http://h/api".into()), "HOST[:PORT]"),
            ("coinbase:A", |args| args.ca_file = Some("ca.pem".into()), "--ca-file has no effect"),
            ("coinbase:A", |args| args.repeater = Some("h:1".into()), "--repeater"),
            ("coinbase:A", |args| args.web_socket = Some("wss://h:1".into()), "no-such-file"),
        ] {
            let told = parse(text, |args| {
                change(args);
                if args.web_socket.as_deref() == Some("wss://h:1") {
                    args.ca_file = Some("no-such-file".into());
                }
            });
            let told = told.map(drop).unwrap_err();
            assert!(told.contains(why), "{told} / {why}");
        }
    }
}
