//! Where an exchange's feed comes from: what it is, and the addresses of its lines and servers.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs as _};
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use feed::replay::venue::WebKind;
use feed::replay::venue::live::{LiveConfig, LiveProtocol, Login};
use net::udp::UdpOptions;

/// What only a site has, beside its address.
#[derive(Clone, Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
pub struct SiteArgs {
    /// Address of the interface on which the lines come, or one for each line, separated by commas [default: as the routes say]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub line_interface: Vec<Ipv4Addr>,

    /// Server that repeats messages which no line has brought (MoldUDP64 re-requests)
    #[arg(long, value_name = "HOST:PORT")]
    pub repeater: Option<String>,

    /// Server of snapshots (GLIMPSE): for a start within the day, and where messages do not come at all
    #[arg(long, value_name = "HOST:PORT")]
    pub snapshot: Option<String>,

    /// User name at the server of the session or of snapshots
    #[arg(long, value_name = "NAME", default_value = "")]
    pub user: String,

    /// File with the password at that server, in its first line
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,

    /// Session at that server [default: the one that runs]
    #[arg(long, value_name = "NAME", default_value = "")]
    pub session: String,

    /// Receive buffer of a line's socket in bytes; what the kernel grants is said if it is less
    #[arg(long, value_name = "BYTES", default_value_t = RECEIVE_BUFFER)]
    pub receive_buffer: usize,

    /// Channel of CME's configuration file, if that has several
    #[arg(long, value_name = "NUMBER")]
    pub channel: Option<String>,

    /// WebSocket of a venue on the web, if it is not the usual one: wss://HOST:PORT/PATH, or ws:// without encryption
    #[arg(long, value_name = "URL")]
    pub web_socket: Option<String>,

    /// Server from which the beginnings of books are fetched, if it is not the venue's usual one: https://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub http_server: Option<String>,

    /// Certificates (PEM) that the servers of a venue on the web must lead to [default: those of this machine]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}

impl Default for SiteArgs {
    fn default() -> Self {
        Self {
            line_interface: Vec::new(),
            repeater: None,
            snapshot: None,
            user: String::new(),
            password_file: None,
            session: String::new(),
            receive_buffer: RECEIVE_BUFFER,
            channel: None,
            web_socket: None,
            http_server: None,
            ca_file: None,
        }
    }
}

/// Bytes of a line's socket: some hundred thousand packets of the busiest second.
const RECEIVE_BUFFER: usize = 16 << 20;

impl SiteArgs {
    /// Refuses what a file has no use for.
    ///
    /// # Errors
    /// A flag that is given and has no effect.
    pub fn refuse(&self, file: &str) -> anyhow::Result<()> {
        match first(self.given().into_iter().chain(self.given_for_web()).chain([self.given_for_cme()])) {
            Some(flag) => Err(anyhow!("{flag} is for sites ({}), and {file} is none", names())),
            None => Ok(()),
        }
    }

    /// Refuses what a venue on the web has no use for.
    pub(crate) fn refuse_for_web(&self, site: &str) -> anyhow::Result<()> {
        match first(self.given().into_iter().chain([self.given_for_cme()])) {
            Some(flag) => Err(anyhow!("{site}: {flag} has no effect: a venue on the web has neither lines nor logins")),
            None => Ok(()),
        }
    }

    /// Refuses what a channel of CME has no use for.
    pub(crate) fn refuse_for_cme(&self, site: &str) -> anyhow::Result<()> {
        let of_others = self.given().into_iter().filter(|(flag, _)| *flag != "--line-interface");
        match first(of_others.chain(self.given_for_web())) {
            Some(flag) => Err(anyhow!("{site}: {flag} has no effect: CME's servers are in its configuration")),
            None => Ok(()),
        }
    }

    fn given(&self) -> [(&'static str, bool); 6] {
        [
            ("--line-interface", !self.line_interface.is_empty()),
            ("--repeater", self.repeater.is_some()),
            ("--snapshot", self.snapshot.is_some()),
            ("--user", !self.user.is_empty()),
            ("--password-file", self.password_file.is_some()),
            ("--session", !self.session.is_empty()),
        ]
    }

    fn given_for_cme(&self) -> (&'static str, bool) {
        ("--channel", self.channel.is_some())
    }

    fn given_for_web(&self) -> [(&'static str, bool); 3] {
        [
            ("--web-socket", self.web_socket.is_some()),
            ("--http-server", self.http_server.is_some()),
            ("--ca-file", self.ca_file.is_some()),
        ]
    }
}

/// The first flag that is given.
fn first(all: impl IntoIterator<Item = (&'static str, bool)>) -> Option<&'static str> {
    all.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
}

/// The words before the products of venues on the web, for people.
pub(crate) fn web_names() -> String {
    WebKind::SITES.map(|(_, name, ..)| format!("{name}:")).join(", ")
}

/// The words before the addresses of all sites, for people.
fn names() -> String {
    let lines = PROTOCOLS.map(|(word, _)| word).join(", ");
    format!("{lines}, cme:, {}", web_names())
}

/// A feed's place in the network.
#[derive(Clone, Debug)]
pub struct Site {
    /// How it is taken.
    pub config: LiveConfig,
    pub(crate) lines: Vec<Line>,
    pub(crate) repeater: Option<SocketAddrV4>,
    /// Of the session, or of snapshots.
    pub(crate) server: Option<SocketAddr>,
    receive_buffer: usize,
}

/// One of the lines, which bring the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// A multicast group, or an address of this host.
    pub group: SocketAddrV4,
    pub interface: Ipv4Addr,
}

/// Lines that are told apart.
const MOST_LINES: usize = 4;

/// Words before the address, and what each means.
const PROTOCOLS: [(&str, LiveProtocol); 4] = [
    ("mold:", LiveProtocol::ItchMold),
    ("soup:", LiveProtocol::ItchSoup),
    ("iex-tops:", LiveProtocol::IexTops),
    ("iex-deep:", LiveProtocol::IexDeep),
];

/// Whether a text names a site, not a file.
pub fn is_site(text: &str) -> bool {
    PROTOCOLS.iter().any(|(word, _)| text.starts_with(word))
}

impl Site {
    /// Reads what the user has written; names of hosts are looked up.
    ///
    /// # Errors
    /// A text for the user.
    pub fn parse(text: &str, args: &SiteArgs, suffix: Option<String>) -> anyhow::Result<Self> {
        let known = PROTOCOLS.iter().find_map(|(word, protocol)| Some((*protocol, text.strip_prefix(word)?)));
        let (protocol, rest) = known.ok_or_else(|| anyhow!("{text} is no site: {}", names()))?;
        let named = |e: anyhow::Error| anyhow!("{text}: {e}");
        if let Some(flag) = first(args.given_for_web().into_iter().chain([args.given_for_cme()])) {
            return Err(named(anyhow!("{flag} is for cme: and venues on the web ({})", web_names())));
        }
        let is_iex = matches!(protocol, LiveProtocol::IexTops | LiveProtocol::IexDeep);
        let session = protocol.is_connected().then_some(rest);
        let server = session.or(args.snapshot.as_deref());
        for (flag, is_given, is_of_use) in [
            ("--snapshot", args.snapshot.is_some(), protocol == LiveProtocol::ItchMold),
            ("--repeater", args.repeater.is_some(), protocol == LiveProtocol::ItchMold),
            ("--line-interface", !args.line_interface.is_empty(), !protocol.is_connected()),
            ("--password-file", args.password_file.is_some(), server.is_some()),
            ("--user", !args.user.is_empty(), server.is_some()),
            ("--session", !args.session.is_empty(), server.is_some()),
        ] {
            if is_given && !is_of_use {
                let why = if is_iex {
                    "IEX has no snapshots, and its gap fill is not spoken here"
                } else {
                    "there is no server that it is for"
                };
                return Err(named(anyhow!("{flag} has no effect: {why}")));
            }
        }
        let lines =
            if protocol.is_connected() { Vec::new() } else { lines(rest, &args.line_interface).map_err(named)? };
        let login = || -> anyhow::Result<Login> {
            let password = args.password_file.as_ref().map(|file| {
                let text = std::fs::read_to_string(file).map_err(|e| anyhow!("{}: {e}", file.display()))?;
                Ok::<_, anyhow::Error>(text.lines().next().unwrap_or_default().to_owned())
            });
            let login = Login {
                user: args.user.clone(),
                password: password.transpose()?.unwrap_or_default(),
                session: args.session.clone(),
            };
            for (what, text, most) in
                [("user", &login.user, 6), ("password", &login.password, 10), ("session", &login.session, 10)]
            {
                if text.len() > most || !text.is_ascii() {
                    return Err(anyhow!("a {what} has at most {most} characters of ASCII"));
                }
            }
            Ok(login)
        };
        let config = LiveConfig {
            protocol,
            suffix,
            symbology: None,
            is_repeated: args.repeater.is_some(),
            server: server.map(|_| login()).transpose().map_err(named)?,
        };
        Ok(Self {
            config,
            lines,
            repeater: args.repeater.as_deref().map(address_v4).transpose().map_err(named)?,
            server: server.map(address).transpose().map_err(named)?,
            receive_buffer: args.receive_buffer,
        })
    }

    /// How the socket of a line is made.
    pub(crate) fn options(&self) -> UdpOptions {
        UdpOptions { receive_buffer: Some(self.receive_buffer), reuse_address: true, ..UdpOptions::default() }
    }
}

fn lines(text: &str, interfaces: &[Ipv4Addr]) -> anyhow::Result<Vec<Line>> {
    let groups: Result<Vec<SocketAddrV4>, _> = text.split(',').map(str::parse).collect();
    let groups =
        groups.map_err(|_| anyhow!("lines are written GROUP:PORT, separated by commas: 233.54.12.111:26477"))?;
    if groups.len() > MOST_LINES {
        return Err(anyhow!("at most {MOST_LINES} lines"));
    }
    if interfaces.len() > 1 && interfaces.len() != groups.len() {
        return Err(anyhow!(
            "{} interfaces for {} lines: one for all, or one for each",
            interfaces.len(),
            groups.len()
        ));
    }
    let interface = |n: usize| interfaces.get(n).or(interfaces.first()).copied().unwrap_or(Ipv4Addr::UNSPECIFIED);
    Ok(groups.into_iter().enumerate().map(|(n, group)| Line { group, interface: interface(n) }).collect())
}

fn address(text: &str) -> anyhow::Result<SocketAddr> {
    let mut all = text.to_socket_addrs().map_err(|e| anyhow!("{text}: {e}; a server is written HOST:PORT"))?;
    all.next().ok_or_else(|| anyhow!("{text} has no address"))
}

fn address_v4(text: &str) -> anyhow::Result<SocketAddrV4> {
    let mut all = text.to_socket_addrs().map_err(|e| anyhow!("{text}: {e}; a server is written HOST:PORT"))?;
    let v4 = all.find_map(|address| if let SocketAddr::V4(v4) = address { Some(v4) } else { None });
    v4.ok_or_else(|| anyhow!("{text} has no address of IPv4"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, args: &SiteArgs) -> Result<Site, String> {
        Site::parse(text, args, None).map_err(|e| e.to_string())
    }

    #[test]
    fn a_site_has_lines_and_servers() {
        let interface = vec![Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 1, 1)];
        let args = SiteArgs {
            line_interface: interface.clone(),
            repeater: Some("127.0.0.1:7001".into()),
            snapshot: Some("127.0.0.1:7002".into()),
            user: "quote".into(),
            ..SiteArgs::default()
        };
        let site = parse("mold:233.54.12.111:26477,233.49.196.111:26477", &args).unwrap();
        assert_eq!(site.lines.iter().map(|line| line.interface).collect::<Vec<_>>(), interface);
        assert_eq!(site.lines[1].group, "233.49.196.111:26477".parse().unwrap());
        assert_eq!(site.config.server.map(|login| login.user), Some("quote".into()));
        assert_eq!((site.repeater.map(|a| a.port()), site.server.map(|a| a.port())), (Some(7001), Some(7002)));
        let site = parse("soup:127.0.0.1:7003", &SiteArgs::default()).unwrap();
        assert!(site.lines.is_empty() && site.server.map(|a| a.port()) == Some(7003));
        assert!(is_site("iex-deep:239.1.1.1:9") && !is_site("lines.pcap") && !is_site("./mold"));
    }

    #[test]
    fn what_has_no_effect_is_refused_with_its_reason() {
        let with = |change: fn(&mut SiteArgs)| {
            let mut args = SiteArgs::default();
            change(&mut args);
            args
        };
        let repeater = with(|args| args.repeater = Some("127.0.0.1:1".into()));
        assert!(parse("iex-tops:239.1.1.1:9", &repeater).unwrap_err().contains("--repeater has no effect: IEX"));
        let user = with(|args| args.user = "me".into());
        assert!(parse("mold:239.1.1.1:9", &user).unwrap_err().contains("no server"));
        let interfaces = with(|args| args.line_interface = vec![Ipv4Addr::LOCALHOST; 2]);
        assert!(parse("mold:239.1.1.1:9", &interfaces).unwrap_err().contains("2 interfaces for 1 lines"));
        for text in [
            "mold:",
            "mold:239.1.1.1",
            "soup:nowhere",
            "mold:239.1.1.1:9,239.1.1.1:9,239.1.1.1:9,239.1.1.1:9,239.1.1.1:9",
        ] {
            assert!(parse(text, &SiteArgs::default()).is_err(), "{text}");
        }
        let long = with(|args| args.user = "longer than six".into());
        assert!(parse("soup:127.0.0.1:1", &long).unwrap_err().contains("at most 6"));
    }
}
