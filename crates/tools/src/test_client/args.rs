//! The command line of `test-client`.

use crate::flags;
use crate::names;
use anyhow::anyhow;
use clap::{Parser, ValueEnum};
use measure::observer::{End, Observer, Plan};
use rwf::{Qos, Rate, Timeliness};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Opens a watchlist and measures what comes: rates, latency, losses.
///
/// Takes the flags of the RMDS test client (-S -h -p -md -u -f -il -ct -tt -lmfile decodeFormat -l -o -rf -I -v -X -d) and
/// the double-dash flags below.
#[derive(Clone, Debug, Parser)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
#[command(name = "test-client", disable_help_flag = true, after_help = EXAMPLES)]
pub struct Args {
    /// -S: the service whose items are opened
    #[arg(long, value_name = "NAME", default_value = "DIRECT_FEED")]
    pub service: String,

    /// -h: host of the server, or srv:_SERVICE._tcp.DOMAIN for what the DNS says (SRV), ports included
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    pub host: String,

    /// -p: port of the server
    #[arg(long, value_name = "PORT", default_value_t = 14002)]
    pub port: u16,

    /// -md: message domain of the items: 6 MarketPrice, 7 MarketByOrder, 8 MarketByPrice, 10 SymbolList
    #[arg(long, value_name = "NUMBER", default_value_t = 6)]
    pub domain: u8,

    /// -u: user name of the login
    #[arg(long, value_name = "NAME", default_value = "rmds")]
    pub user: String,

    /// -f: file of item names, one a line, or the SDK's XML item list
    #[arg(long, value_name = "FILE")]
    pub item_file: Option<PathBuf>,

    /// -il: item names, separated by commas; RDT{0..99999} stands for a hundred thousand
    #[arg(long, value_name = "NAMES")]
    pub items: Option<String>,

    /// -ct: connection type: rssl (or socket), or encrypted: the same inside TLS
    #[arg(long, value_name = "TYPE", default_value = "rssl", value_parser = connection_type)]
    pub connection_type: ConnectionType,

    /// Certificates (PEM) that the server's must come from; without it those that this machine trusts
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,

    /// -tt: measure latency by the time stamps in the updates (on by default when there are any)
    #[arg(long)]
    pub timestamps: bool,

    /// -lmfile: write the table of every interval to this file too, as CSV
    #[arg(long, value_name = "FILE")]
    pub latency_file: Option<PathBuf>,

    /// decodeFormat: how much of an update is decoded: 0 the header only, 1 the entries of the field list, 2 and above every
    /// value
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub decode_format: u8,

    /// -l: log level: 0 errors only, 1 the table, 2 states of items as well
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub log: u8,

    /// -o: requests that wait for their image at one time, for each mount
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub open_window: u32,

    /// -rf: flags of the item requests as a number: 4 streaming, 8 message key in updates; 12 is both, 0 a snapshot
    #[arg(long, value_name = "NUMBER", default_value_t = 4)]
    pub request_flags: u16,

    /// Quality of service to ask for: tick, jit (conflated when this client is slow), or the milliseconds of an interval that
    /// the service offers; what was merged counts as lost where updates are numbered. Without it any
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<Qos>,

    /// -I: seconds between two lines of the table
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = flags::seconds)]
    pub interval: f64,

    /// -v: say what happens to sessions and items
    #[arg(long)]
    pub verbose: bool,

    /// -X: print every message
    #[arg(long)]
    pub xml: bool,

    /// -d: like decodeFormat, for what -X prints: 0 headers, 1 and above contents
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub dump_level: u8,

    /// Connections of this process, each with a watchlist
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub mounts: u32,

    /// Share of the items that every mount opens; the rest is divided among them. 0.5 with 100 mounts is Producer 50/50:
    /// 50.5 updates go out for each that comes in
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = flags::number)]
    pub common: f64,

    /// Folder with RDMFieldDictionary and enumtype.def: the types of the fields; without it the built-in dictionary
    #[arg(long, value_name = "FOLDER")]
    pub dictionary: Option<PathBuf>,

    /// Record images, updates and states of the items with their times: into a folder, for `quoteway replay`; a name that ends in .jsonl is a file of lines of JSON,
    /// for sink-driven-src -Q
    #[arg(long, value_name = "FOLDER_OR_FILE")]
    pub record: Option<PathBuf>,

    /// Record as JSON that can be read and changed, by the dictionary, rather than the messages' own bytes
    #[arg(long, requires = "record")]
    pub record_json: bool,

    /// Stop after so many seconds, counted from the last image
    #[arg(long, value_name = "SECONDS", value_parser = flags::seconds)]
    pub seconds: Option<f64>,

    /// Seconds after the last image that are not measured
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = flags::seconds)]
    pub warmup: f64,

    /// Record item, number and time of the updates in this file, for `quoteway lab` (see docs/perf)
    #[arg(long, value_name = "FILE")]
    pub observe: Option<PathBuf>,

    /// Record one of so many updates, the same ones at both ends
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub observe_every: u32,

    /// Updates for which memory is taken before the run; what comes after that is counted and not recorded
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    pub observe_capacity: usize,

    /// Name of the run in the line at the end
    #[arg(long, value_name = "NAME", default_value = "test-client")]
    pub name: String,

    /// When to print the line of JSON at the end: it is machine-readable, on standard output
    #[arg(long, value_enum, default_value_t = Json::Always)]
    pub json: Json,

    /// Socket receive buffer in bytes; 0 leaves it to the system
    #[arg(long, value_name = "BYTES", default_value_t = 262_144)]
    pub receive_buffer: usize,

    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

const EXAMPLES: &str = "\
Examples:
  quoteway test-client -S DIRECT_FEED -h localhost -p 14002 -il IBM.N,TRI.N -X
  quoteway test-client -f rdf.100kitems -md 6 -o 500 -u rmds -tt -lmfile latency.csv -I 10
  quoteway test-client -il 'RDT{0..99999}' --mounts 100 --common 0.5      (Producer 50/50)
  quoteway test-client -il IBM.N,TRI.N --seconds 60 --record session         (play it: replay session)
  quoteway test-client -il IBM.N,TRI.N --seconds 60 --record session.jsonl   (play it: sink-driven-src -Q session.jsonl)
  quoteway test-client -ct encrypted -p 14006 --ca-file ca.pem -il IBM.N";

/// How the connections are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionType {
    /// TCP.
    Socket,
    /// TLS over TCP.
    Encrypted,
}

fn connection_type(text: &str) -> anyhow::Result<ConnectionType> {
    match text {
        "rssl" | "socket" => Ok(ConnectionType::Socket),
        "encrypted" => Ok(ConnectionType::Encrypted),
        _ => Err(anyhow!("this client knows -ct rssl (or socket) and -ct encrypted")),
    }
}

/// Real time at a rate.
fn rate(text: &str) -> anyhow::Result<Qos> {
    let at = |rate| Qos::new(Timeliness::REALTIME, rate);
    match text {
        "tick" => Ok(Qos::REALTIME_TICK),
        "jit" => Ok(at(Rate::JIT_CONFLATED)),
        _ => match text.parse::<u16>() {
            Ok(interval @ 1..) => Ok(Qos { rate_info: interval, ..at(Rate::TIME_CONFLATED) }),
            _ => Err(anyhow!("a rate is tick, jit, or milliseconds from 1 to 65535")),
        },
    }
}

/// When the JSON line is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Json {
    /// At the end.
    Always,
    /// Never.
    Never,
}

/// How much of an update is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Class, stream, sequence number.
    Header,
    /// Ids and lengths of the entries.
    Entries,
    /// Every value, by the type that the dictionary gives.
    Values,
}

impl Args {
    /// The names that the flags ask for.
    ///
    /// # Errors
    /// A text for the user: the file cannot be read, or a pattern is wrong.
    pub fn names(&self) -> anyhow::Result<Vec<String>> {
        let mut result = Vec::new();
        if let Some(path) = &self.item_file {
            result = names::read_file(path).map_err(|e| anyhow!("item file {}: {e}", path.display()))?;
        }
        if let Some(list) = &self.items {
            result.extend(names::parse_list(list)?);
        }
        if result.is_empty() {
            return Err(anyhow!("no items: name some with -il IBM.N,TRI.N or a file with -f"));
        }
        Ok(result)
    }

    /// How much of an update is decoded.
    pub fn depth(&self) -> Depth {
        match self.decode_format {
            0 => Depth::Header,
            1 => Depth::Entries,
            _ => Depth::Values,
        }
    }

    /// The observer that the flags ask for, with its file.
    ///
    /// # Errors
    /// A text for the user: the file cannot be made.
    pub fn observer(&self) -> anyhow::Result<Option<Observer>> {
        let plan = Plan { capacity: self.observe_capacity, every: self.observe_every, connections: self.mounts };
        Ok(self.observe.as_deref().map(|path| Observer::writing(path, End::Receiver, &plan)).transpose()?)
    }

    /// Time between two lines.
    pub fn every(&self) -> Duration {
        Duration::from_secs_f64(self.interval.clamp(0.01, 86_400.0))
    }
}

/// The items of each mount: the first of the list are common to all, the others are dealt out in turn.
pub fn watchlists(names: usize, mounts: usize, common: f64) -> Vec<Vec<u32>> {
    let shared = ((names as f64 * common.clamp(0.0, 1.0)).round() as usize).min(names);
    (0..mounts)
        .map(|mount| {
            let own = (shared + mount..names).step_by(mounts.max(1));
            (0..shared).chain(own).map(|name| name as u32).collect()
        })
        .collect()
}

/// Rewrites the flags that are spelled as the original tool spells them; the first word stays.
pub fn args_from(words: Vec<OsString>) -> Vec<OsString> {
    flags::modernise(flags::TEST_CLIENT, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(args_from(line.split(' ').map(OsString::from).collect()))
    }

    #[test]
    fn the_reports_command_line_parses() {
        let args = parse(
            "test-client -S RDFD -h p2ps_2 -p 14002 -md 6 decodeFormat 3 -l 1 -o 500 -u rmds -tt -lmfile out.csv \
             -f rdf.100kitems -ct rssl -rf 12",
        )
        .unwrap();
        assert_eq!((args.service.as_str(), args.host.as_str(), args.port, args.domain), ("RDFD", "p2ps_2", 14_002, 6));
        assert_eq!((args.depth(), args.log, args.open_window, args.request_flags), (Depth::Values, 1, 500, 12));
        assert!(args.timestamps && args.user == "rmds" && args.connection_type == ConnectionType::Socket);
        assert_eq!(args.latency_file.unwrap().to_str(), Some("out.csv"));
        assert_eq!(args.item_file.unwrap().to_str(), Some("rdf.100kitems"));
    }

    #[test]
    fn a_rate_is_a_quality_of_service() {
        assert_eq!(parse("x").unwrap().rate, None);
        let interval = Qos { rate_info: 500, ..Qos::new(Timeliness::REALTIME, Rate::TIME_CONFLATED) };
        for (text, qos) in [
            ("tick", Qos::REALTIME_TICK),
            ("jit", Qos::new(Timeliness::REALTIME, Rate::JIT_CONFLATED)),
            ("500", interval),
        ] {
            assert_eq!(parse(&format!("x --rate {text}")).unwrap().rate, Some(qos));
        }
    }

    #[test]
    fn bad_values_are_refused_with_the_flags_name() {
        for (line, part) in [
            ("x --rate 0", "--rate"),
            ("x -p 99999", "--port"),
            ("x -o 0", "--open-window"),
            ("x --mounts 0", "--mounts"),
        ] {
            let text = parse(line).unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
        assert!(parse("x").unwrap().names().unwrap_err().to_string().contains("-il"));
    }

    #[test]
    fn producer_50_50_multiplies_by_fifty_and_a_half() {
        let lists = watchlists(100_000, 100, 0.5);
        assert!(lists.iter().all(|l| l.len() == 50_500));
        let mut holders = vec![0u32; 100_000];
        lists.iter().flatten().for_each(|&n| holders[n as usize] += 1);
        assert!(holders[..50_000].iter().all(|&h| h == 100) && holders[50_000..].iter().all(|&h| h == 1));
        assert_eq!(watchlists(3, 2, 1.0), [[0, 1, 2], [0, 1, 2]]);
        assert_eq!(watchlists(3, 2, 0.0), [vec![0, 2], vec![1]]);
    }
}
