//! The configuration file of a router.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use lbm_io::options::{OptionError, Options};
use lbm_router::merge::MergeConfig;
use lbm_router::{EndpointConfig, Filter, Limits, PeerConfig, RouterId};
use names::Pattern;
use net::Network;
use serde::Deserialize;

/// A configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {source}", path = .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is no TOML, or has a name that is not known.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A value that cannot be.
    #[error("{place}: {what}")]
    Value {
        /// The table.
        place: String,
        /// The fault, and what to do.
        what: String,
    },
}

/// How a router waits for input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Waiting {
    /// Sleeps in the kernel.
    #[default]
    Sleep,
    /// Asks again and again, and gives its core to others in between.
    Yield,
    /// Asks again and again.
    Spin,
}

/// The file. Durations and sizes have their unit in their name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The router's name: its id is made of it, so no two routers have the same.
    pub name: String,
    /// How many paths to one source are subscribed to.
    #[serde(default = "one")]
    pub paths: usize,
    /// How it waits.
    #[serde(default)]
    pub idle: Waiting,
    /// Megabytes that may wait for one peer, or for one domain.
    #[serde(default = "queue_mb")]
    pub queue_mb: usize,
    /// How long proxy sources stay without a way to their source, seconds.
    #[serde(default = "linger_s")]
    pub linger_s: u64,
    /// Interest of a domain that nobody has renewed for so long is over, seconds.
    #[serde(default = "interest_timeout_s")]
    pub interest_timeout_s: u64,
    /// How long a number is waited for on other paths, milliseconds.
    #[serde(default = "merge_wait_ms")]
    pub merge_wait_ms: u64,
    /// A peer that is silent for so long is given up, seconds.
    #[serde(default = "silence_s")]
    pub silence_s: u64,
    /// Another router's proxy source that was not heard of for so long is gone, seconds.
    #[serde(default = "takeover_s")]
    pub takeover_s: u64,
    /// Topics and patterns that a portal may bring.
    #[serde(default = "many")]
    pub interests_max: usize,
    /// Sources that a portal may bring.
    #[serde(default = "many")]
    pub sources_max: usize,
    /// Portals in domains.
    #[serde(default, rename = "endpoint")]
    pub endpoints: Vec<EndpointTable>,
    /// Portals to other routers.
    #[serde(default, rename = "peer")]
    pub peers: Vec<PeerTable>,
}

fn one() -> usize {
    1
}
fn cost() -> u32 {
    1
}
fn queue_mb() -> usize {
    64
}
fn linger_s() -> u64 {
    10
}
fn interest_timeout_s() -> u64 {
    30
}
fn merge_wait_ms() -> u64 {
    100
}
fn silence_s() -> u64 {
    5
}
fn takeover_s() -> u64 {
    3
}
fn many() -> usize {
    100_000
}

/// A portal in a domain.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointTable {
    /// The domain's number, not 0: the same at every router that is in it.
    pub domain: u32,
    /// Cost of taking a source from here.
    #[serde(default = "cost")]
    pub cost: u32,
    /// Files of LBM options, relative to the configuration's folder.
    #[serde(default)]
    pub options: Vec<PathBuf>,
    /// LBM options, each a line of such a file.
    #[serde(default)]
    pub set: Vec<String>,
    /// Topics that pass; none: all.
    #[serde(default)]
    pub include: Vec<String>,
    /// Topics that do not.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Another router serves the domain as well, and this one only what nobody serves.
    #[serde(default)]
    pub standby: bool,
    /// Topics of hot failover, which all routers of the domain serve.
    #[serde(default)]
    pub parallel: Vec<String>,
}

/// A portal to another router: it connects, or is connected to.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerTable {
    /// Where the other router listens.
    pub connect: Option<SocketAddr>,
    /// Where the other router connects to.
    pub listen: Option<SocketAddr>,
    /// Networks that may connect, beside this host.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Cost of taking a source from there.
    #[serde(default = "cost")]
    pub cost: u32,
    /// Topics that pass; none: all.
    #[serde(default)]
    pub include: Vec<String>,
    /// Topics that do not.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Both sides show certificates.
    pub tls: Option<TlsTable>,
}

/// Certificates of a peer portal, PEM files relative to the configuration's folder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsTable {
    /// Certificates to which the peer's must lead.
    pub ca: PathBuf,
    /// This side's certificate with its chain.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The name in the peer's certificate, where this side connects; left out: the address.
    pub name: Option<String>,
}

/// The id of a router's name.
pub fn router_id(name: &str) -> RouterId {
    // FNV-1a, 64 bits, and a mix: names that differ little have ids that differ much.
    let hash = name
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3));
    RouterId((hash ^ hash >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9))
}

fn patterns(place: &str, texts: &[String]) -> Result<Vec<Pattern>, ConfigError> {
    let bad = |error: names::PatternError| ConfigError::Value { place: place.to_owned(), what: error.to_string() };
    texts.iter().map(|text| Pattern::parse(text).map_err(bad)).collect()
}

fn filter(place: &str, include: &[String], exclude: &[String]) -> Result<Filter, ConfigError> {
    Ok(Filter { include: patterns(place, include)?, exclude: patterns(place, exclude)? })
}

impl Config {
    /// Reads a file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::File { path: path.to_owned(), source })?;
        Self::parse(&text, path.parent().unwrap_or(Path::new("")))
    }

    /// Reads a text.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn parse(text: &str, folder: &Path) -> Result<Self, ConfigError> {
        let mut config: Self = toml::from_str(text)?;
        for endpoint in &mut config.endpoints {
            for path in &mut endpoint.options {
                *path = folder.join(&*path);
            }
        }
        for tls in config.peers.iter_mut().filter_map(|peer| peer.tls.as_mut()) {
            for path in [&mut tls.ca, &mut tls.certificate, &mut tls.key] {
                *path = folder.join(&*path);
            }
        }
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let bad = |place: String, what: &str| Err(ConfigError::Value { place, what: what.to_owned() });
        if self.name.is_empty() {
            return bad("name".to_owned(), "is empty: each router has a name of its own");
        }
        if self.endpoints.is_empty() && self.peers.len() < 2 {
            return bad("portals".to_owned(), "nothing to route: add [[endpoint]] and [[peer]] tables, two at least");
        }
        for (at, endpoint) in self.endpoints.iter().enumerate() {
            let place = format!("[[endpoint]] {}", at + 1);
            if endpoint.domain == 0 {
                return bad(place, "domain is 0: give each domain a number from 1");
            }
            if self.endpoints[..at].iter().any(|other| other.domain == endpoint.domain) {
                return bad(place, "has the domain of another endpoint: a router is in a domain once");
            }
        }
        for (at, peer) in self.peers.iter().enumerate() {
            let place = format!("[[peer]] {}", at + 1);
            match (peer.connect, peer.listen) {
                (None, None) => return bad(place, "neither connects nor listens: add connect = or listen ="),
                (Some(_), Some(_)) => return bad(place, "connects and listens: one of the two"),
                (None, Some(address)) if !address.ip().is_loopback() && peer.allow.is_empty() => {
                    return bad(
                        place,
                        "listens to other hosts: say which networks may connect (allow = [\"10.1.0.0/16\"])",
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Times and bounds.
    pub fn limits(&self) -> Limits {
        let seconds = |s: u64| s.saturating_mul(1_000_000_000);
        let bytes = self.queue_mb.saturating_mul(1 << 20);
        Limits {
            paths: self.paths,
            merge: MergeConfig { wait_ns: self.merge_wait_ms.saturating_mul(1_000_000), ..MergeConfig::default() },
            linger_ns: seconds(self.linger_s),
            interest_timeout_ns: seconds(self.interest_timeout_s),
            interests_max: self.interests_max,
            sources_max: self.sources_max,
            queue_bytes_max: bytes,
            silence_ns: seconds(self.silence_s.max(1)),
            takeover_ns: seconds(self.takeover_s),
        }
    }
}

impl EndpointTable {
    /// As the router has it.
    ///
    /// # Errors
    /// A pattern that is none.
    pub fn config(&self) -> Result<EndpointConfig, ConfigError> {
        let place = format!("[[endpoint]] of domain {}", self.domain);
        let mut config = EndpointConfig {
            cost: self.cost,
            filter: filter(&place, &self.include, &self.exclude)?,
            standby: self.standby,
            ..EndpointConfig::new(self.domain)
        };
        if !self.parallel.is_empty() {
            config.parallel = filter(&place, &self.parallel, &[])?;
        }
        Ok(config)
    }

    /// The options of the context in the domain. `warn` gets what has no effect.
    ///
    /// # Errors
    /// A file that cannot be read, or options that are none.
    pub fn options(&self, mut warn: impl FnMut(String)) -> Result<Options, ConfigError> {
        let place = format!("[[endpoint]] of domain {}", self.domain);
        let bad = |errors: Vec<OptionError>| ConfigError::Value {
            place: place.clone(),
            what: errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        };
        // What others may set otherwise: proxy sources are advertised as long as they are there, which is how other routers of the
        // domain know that they are.
        let mut options = Options::new();
        options.parse("a router's own", OWN_OPTIONS).map_err(bad)?;
        for path in &self.options {
            let text =
                std::fs::read_to_string(path).map_err(|source| ConfigError::File { path: path.clone(), source })?;
            let warnings = options.load(&path.display().to_string(), &text).map_err(bad)?;
            for warning in &warnings {
                warn(warning.to_string());
            }
        }
        for line in &self.set {
            options.parse("set", line).map_err(bad)?;
        }
        Ok(options)
    }
}

/// Options of a router's contexts unless their options say otherwise.
const OWN_OPTIONS: &str = "
    source resolver_advertisement_minimum_sustain_duration 0
    source resolver_advertisement_sustain_interval 1000
    receiver use_late_join 0";

impl PeerTable {
    /// As the router has it.
    ///
    /// # Errors
    /// A pattern that is none.
    pub fn config(&self, at: usize) -> Result<PeerConfig, ConfigError> {
        let place = format!("[[peer]] {}", at + 1);
        Ok(PeerConfig { cost: self.cost, filter: filter(&place, &self.include, &self.exclude)? })
    }

    /// Networks that may connect.
    ///
    /// # Errors
    /// An address that is none.
    pub fn networks(&self, at: usize) -> Result<Vec<Network>, ConfigError> {
        let bad = |text: &String| ConfigError::Value {
            place: format!("[[peer]] {}", at + 1),
            what: format!("allow: {text:?} is no network, as 10.1.0.0/16"),
        };
        self.allow.iter().map(|text| text.parse().map_err(|_| bad(text))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
        name = 'london'
        paths = 2
        [[endpoint]]
        domain = 1
        options = ['lbm.cfg']
        set = ['context resolver_multicast_address 239.255.17.2']
        include = ['md.*']
        parallel = ['hf.*']
        [[peer]]
        connect = '10.1.1.5:14380'
        tls = { ca = 'ca.pem', certificate = 'own.pem', key = 'own.key', name = 'paris' }
        [[peer]]
        listen = '0.0.0.0:14380'
        allow = ['10.0.0.0/8']";

    #[test]
    fn a_file_says_what_there_is() {
        let config = Config::parse(GOOD, Path::new("/etc/q")).expect("good");
        assert_eq!((config.paths, config.queue_mb, config.idle), (2, 64, Waiting::Sleep));
        assert_eq!(config.endpoints[0].options, [Path::new("/etc/q/lbm.cfg")]);
        let tls = config.peers[0].tls.as_ref().expect("certificates");
        assert_eq!(tls.key, Path::new("/etc/q/own.key"));
        let endpoint = config.endpoints[0].config().expect("good");
        assert!(endpoint.filter.passes("md.a") && !endpoint.filter.passes("hf.a") && endpoint.parallel.passes("hf.a"));
        assert!(!EndpointConfig::new(1).parallel.passes("hf.a"));
        assert_eq!(config.peers[1].networks(1).expect("good").len(), 1);
    }

    #[test]
    fn what_cannot_be_is_said_with_its_place() {
        for (change, words) in [
            (("name = 'london'", "name = ''"), "each router has a name"),
            (("domain = 1", "domain = 0"), "[[endpoint]] 1: domain is 0"),
            (
                ("[[peer]]\n        connect", "[[endpoint]]\n        domain = 1\n        [[peer]]\n        connect"),
                "a router is in a domain once",
            ),
            (("allow = ['10.0.0.0/8']", ""), "[[peer]] 2: listens to other hosts"),
            (("connect = '10.1.1.5:14380'", ""), "[[peer]] 1: neither"),
            (("paths = 2", "path = 2"), "unknown field `path`"),
        ] {
            let text = GOOD.replacen(change.0, change.1, 1);
            let said = Config::parse(&text, Path::new("")).expect_err("bad").to_string();
            assert!(said.contains(words), "{said}");
        }
        let bad = Config::parse(&GOOD.replace("10.0.0.0/8", "ten"), Path::new("")).expect("text").peers[1].networks(1);
        assert!(bad.expect_err("bad").to_string().contains("\"ten\" is no network"));
        let bad = Config::parse(&GOOD.replace("'md.*'", "'^('"), Path::new("")).expect("text").endpoints[0].config();
        assert!(bad.expect_err("bad").to_string().contains("domain 1"));
    }

    #[test]
    fn names_have_ids_of_their_own() {
        let ids: std::collections::HashSet<_> = (0..10_000).map(|i| router_id(&format!("router-{i}"))).collect();
        assert_eq!(ids.len(), 10_000);
    }
}
