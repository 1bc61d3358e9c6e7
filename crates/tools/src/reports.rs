//! Reports of the LBM contexts and the hub's processes of this host: the sockets on which they answer are found, and each is asked.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

/// A line of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thing {
    /// `context`, `sending`, `source`, `receiving` or `receiver`; of a process of the hub `source-distributor`, `p2ps-of` (one of
    /// its P2PSs), `p2ps` or `rrcpd`.
    pub kind: String,
    /// Of the context, session or topic.
    pub name: String,
    /// By name.
    pub counters: BTreeMap<String, u64>,
}

impl Thing {
    fn of_line(line: &str) -> Option<Self> {
        let mut fields = line.split('\t');
        let (kind, name) = (fields.next()?.to_owned(), fields.next()?.to_owned());
        let counters =
            fields.filter_map(|f| f.split_once('=')).filter_map(|(n, v)| Some((n.to_owned(), v.parse().ok()?)));
        Some(Self { kind, name, counters: counters.collect() })
    }

    /// A counter; 0 where there is none.
    pub(super) fn get(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}

/// What a context has told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Of its socket, which tells contexts apart.
    pub socket: String,
    /// In the order of the report.
    pub things: Vec<Thing>,
}

impl Report {
    /// Reads a report; `None` without a whole one.
    pub fn parse(socket: &str, text: &str) -> Option<Self> {
        let body = text.strip_suffix("end\n")?;
        Some(Self { socket: socket.to_owned(), things: body.lines().filter_map(Thing::of_line).collect() })
    }

    /// The process that has told; 0 for a socket that does not name one.
    pub(super) fn pid(&self) -> u32 {
        let rest = PREFIXES.iter().find_map(|prefix| self.socket.strip_prefix(prefix));
        rest.and_then(|r| r.split('/').next()?.parse().ok()).unwrap_or(0)
    }

    /// Counters of the same thing of an earlier report of this context.
    pub(super) fn before<'a>(&self, earlier: &'a [Self], session: &str, thing: &Thing) -> Option<&'a Thing> {
        let report = earlier.iter().find(|r| r.socket == self.socket)?;
        let found = report.sessions().find(|(s, t)| *s == session && t.kind == thing.kind && t.name == thing.name);
        found.map(|(_, t)| t)
    }

    /// Each thing with the name of the session that it belongs to.
    pub(super) fn sessions(&self) -> impl Iterator<Item = (&str, &Thing)> {
        let mut session = "";
        self.things.iter().map(move |t| {
            if matches!(t.kind.as_str(), "sending" | "receiving" | "context") {
                session = &t.name;
            }
            (session, t)
        })
    }
}

/// How the names of the sockets of the hub's processes begin.
pub const HUB_SOCKET_PREFIX: &str = "quoteway-hub/";
/// How the names of the sockets begin that are asked: those of LBM contexts, and of the hub's processes.
const PREFIXES: [&str; 2] = [lbm_io::SOCKET_PREFIX, HUB_SOCKET_PREFIX];

/// Asks every context and process of the hub of this host (of this network namespace).
pub fn ask_all(pid: Option<u32>) -> Vec<Report> {
    let list = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut sockets: Vec<&str> = list
        .lines()
        .filter_map(|line| line.split_whitespace().nth(7)?.strip_prefix('@'))
        .filter(|name| PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
        .collect();
    sockets.sort_unstable();
    sockets.dedup();
    let reports = sockets.into_iter().filter_map(|socket| Report::parse(socket, &ask(socket)?));
    reports.filter(|r| pid.is_none_or(|pid| r.pid() == pid)).collect()
}

/// The text of a context; one that does not answer, such as a stopped process, is left out.
fn ask(socket: &str) -> Option<String> {
    let address = SocketAddr::from_abstract_name(socket).ok()?;
    let mut stream = UnixStream::connect_addr(&address).ok()?;
    stream.set_read_timeout(Some(Duration::from_millis(300))).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}
