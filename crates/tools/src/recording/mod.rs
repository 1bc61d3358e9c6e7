//! `quoteway record`: a service as a consumer sees it, written as it comes; and what can be said of a recording, or done to it.
//!
//! Format, writer and reader are the crate `record`; here is the consumer in front of it.

mod compact;
mod export;
mod import;
mod info;
mod send;

use crate::names;
use crate::places::Places;
use anyhow::{Context as _, anyhow};
use clap::{Args as ClapArgs, Subcommand};
use permissions::rights::Pattern;
use record::{JournalConfig, Recorder, RecorderConfig, RecorderStatus, UNPACKED_BYTES};
use record_io::{Limits, Subscriber, Wanted};
use rssl_io::RsslIo;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

const SECOND: u64 = 1_000_000_000;
/// How often time is looked at when nothing happens, nanoseconds.
const TURN: u64 = SECOND / 20;

/// Record a service, byte for byte, for replay and analysis.
///
/// It watches items of --service as a consumer, and writes every image, update and status, the directory and the dictionaries into FOLDER,
/// each with three clocks: that of the source (fields such as `QUOTIM_MS`), the wall clock and the monotonic clock of receipt. Ctrl-C and SIGTERM
/// end the recording; after kill -9 the last 100 ms at most are missing. Started again with the same folder it goes on, with a gap between.
/// A disk that is full, or a recorder that cannot follow, is a gap in the recording, too: the process goes on, and tells.
#[derive(ClapArgs, Clone, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  \
    quoteway record today --service FEED --item-list IBM.N,TRI.N\n  \
    quoteway record today --server p2ps1:14002 --service FEED --items list.txt --domain 6 --domain 7\n  \
    quoteway record today --service FEED --symbols 0#ALL --pattern '*.N' --keep-megabytes 50000\n  \
    quoteway record info today\n  \
    quoteway record compact today\n  \
    quoteway record export today --as csv -o today.csv\n  \
    quoteway record export today --as parquet -o tables\n  \
    quoteway record send today --to nats://localhost:4222/TICKS\n\n\
    quoteway replay today    serves it to any client, from any time on."
)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Folder of the recording; it is made, or gone on with
    #[arg(value_name = "FOLDER", required = true)]
    folder: Option<PathBuf>,
    /// Service to record
    #[arg(long, value_name = "NAME", required = true)]
    service: Option<String>,
    /// Where consumers connect to the server; srv:_SERVICE._tcp.DOMAIN for what the DNS says (SRV)
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:14002")]
    server: String,
    /// File with the names of items, one a line
    #[arg(long, value_name = "FILE")]
    items: Option<PathBuf>,
    /// Names of items: IBM.N,RDT{0..99}
    #[arg(long = "item-list", value_name = "NAMES")]
    names: Option<String>,
    /// Symbol lists of the service (domain 10) whose names are recorded, also those that come later: 0#ALL
    #[arg(long, value_name = "NAMES")]
    symbols: Option<String>,
    /// Of the symbol lists only names that match: * stands for any text, ? for a character, ^... is a regular expression
    #[arg(long = "pattern", value_name = "PATTERN", requires = "symbols")]
    patterns: Vec<String>,
    /// Domains by number: 6 is Market Price, 7 Market By Order, 8 Market By Price
    #[arg(long = "domain", value_name = "NUMBER", default_values_t = [6])]
    domains: Vec<u8>,
    /// Generic messages and acks of the items, too
    #[arg(long)]
    generic: bool,
    /// Most items; names beyond are left out, and told
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000)]
    items_max: usize,
    /// Most megabytes of the recording: the oldest segments go
    #[arg(long, value_name = "MEGABYTES", value_parser = clap::value_parser!(u64).range(1..))]
    keep_megabytes: Option<u64>,
    /// Most hours of the recording: older segments go
    #[arg(long, value_name = "HOURS", value_parser = clap::value_parser!(u64).range(1..))]
    keep_hours: Option<u64>,
    /// Megabytes of a segment
    #[arg(long, value_name = "MEGABYTES", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=4096))]
    segment_megabytes: u64,
    /// Write records as they came, for rates that packing cannot follow; record compact packs them later
    #[arg(long)]
    unpacked: bool,
    /// Most megabytes that wait to be written; what comes beyond is a gap
    #[arg(long, value_name = "MEGABYTES", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    queue_megabytes: u64,
    /// User name of the login
    #[arg(long, value_name = "NAME", default_value = "record")]
    user: String,
    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Seconds between two lines of progress; 0 for none
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    interval: u64,
}

/// Something done with a recording that there is.
#[derive(Subcommand, Clone, Debug)]
enum Action {
    /// Show span, records, items, rates, gaps and size of a recording
    #[command(
        after_help = "Examples:\n  quoteway record info today\n  quoteway record info today/0000000003.qwr --json"
    )]
    Info {
        /// Folder of the recording, or one of its segments
        #[arg(value_name = "FOLDER_OR_FILE")]
        path: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Make the finished segments of a recording smaller; what they hold stays the same, byte for byte
    #[command(
        after_help = "Examples:\n  quoteway record compact today\n\nNobody may record into the folder meanwhile."
    )]
    Compact {
        /// Folder of the recording
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// Write the records as lines of JSON, as CSV, or as tables for Parquet and Arrow
    Export(export::Args),
    /// Make a recording of tables (Parquet, Arrow), CSV, lines of JSON, captured sessions, or an exchange's file (DBN)
    Import(import::Args),
    /// Send the records to NATS or Kafka, also while they are recorded
    Send(send::Args),
}

/// So many of something, as people say it.
fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

impl Args {
    fn names(&self) -> anyhow::Result<Vec<String>> {
        let mut all = self.names.as_deref().map(names::parse_list).transpose()?.unwrap_or_default();
        if let Some(file) = &self.items {
            all.extend(names::read_file(file).with_context(|| format!("items {}", file.display()))?);
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    fn patterns(&self) -> anyhow::Result<Vec<Pattern>> {
        self.patterns.iter().map(|text| Pattern::parse(text).map_err(|e| anyhow!("--pattern: {e}"))).collect()
    }

    fn recorder(&self) -> RecorderConfig {
        let journal = JournalConfig {
            segment_bytes: self.segment_megabytes << 20,
            keep_bytes: self.keep_megabytes.map(|megabytes| megabytes << 20),
            keep_age_ns: self.keep_hours.map(|hours| hours.saturating_mul(3600 * SECOND)),
            unpacked_bytes: self.unpacked.then_some(UNPACKED_BYTES),
            ..JournalConfig::default()
        };
        RecorderConfig { journal, queue_bytes: (self.queue_megabytes << 20) as usize }
    }
}

/// Records until it is stopped, or does what is to be done with a recording.
///
/// # Errors
/// A text for the user: the server has no address, items cannot be read, the folder cannot be read or written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match (&args.action, &args.folder, &args.service) {
        (Some(Action::Info { path, json }), ..) => info::show(path, *json),
        (Some(Action::Compact { folder }), ..) => compact::run(folder),
        (Some(Action::Export(args)), ..) => export::run(args),
        (Some(Action::Import(args)), ..) => import::run(args),
        (Some(Action::Send(args)), ..) => send::run(args),
        (None, Some(folder), Some(service)) => write(args, folder, service),
        (None, ..) => Err(anyhow!("name a folder and a --service")),
    }
}

fn write(args: &Args, folder: &Path, service: &str) -> anyhow::Result<()> {
    let (names, patterns) = (args.names()?, args.patterns()?);
    let lists = args.symbols.as_deref().map(names::parse_list).transpose()?.unwrap_or_default();
    if names.is_empty() && lists.is_empty() {
        return Err(anyhow!(
            "name items: --item-list IBM.N,TRI.N, --items FILE, or --symbols 0#ALL for a list that the service has"
        ));
    }
    net::signal::install().map_err(|e| anyhow!("signals: {e}"))?;
    let server = Places::of(&args.server, "--server")?;
    let (recorder, damage) = Recorder::start(folder, args.recorder())?;
    for found in damage {
        eprintln!("{}: {found}", folder.display());
    }
    let mut io = RsslIo::new(net::clock::now()).map_err(|e| anyhow!("no sockets: {e}"))?;
    net::signal::wake(&io.tcp().waker());
    let wanted = Wanted { service: service.to_owned(), names, lists, patterns, domains: args.domains.clone() };
    let limits = Limits { items: args.items_max, generic: args.generic };
    let tell = Box::new(|line: &str| eprintln!("{line}"));
    let mut subscriber = Subscriber::new(server, &args.user, &wanted, limits, recorder.handover(), tell)?;
    eprintln!("{service} of {} is recorded into {}", args.server, folder.display());
    let started = net::clock::now();
    let end = args.seconds.map_or(u64::MAX, |seconds| started.saturating_add(seconds.saturating_mul(SECOND)));
    let mut progress = Progress::new(started, args.interval);
    let mut look_at = started;
    while net::signal::stop_requested() == 0 {
        let now =
            io.turn(Some(end.min(net::clock::now() + TURN)), &mut subscriber).map_err(|e| anyhow!("sockets: {e}"))?;
        if now >= end {
            break;
        }
        subscriber.work(now, &mut io);
        if now >= look_at {
            look_at = now + SECOND;
            let status = recorder.status();
            subscriber.recorder_is(&status);
            progress.tell(now, &status, &subscriber);
        }
    }
    subscriber.end(net::clock::now(), &mut io);
    let heard = subscriber.progress();
    drop(subscriber);
    let counters = recorder.finish().with_context(|| "the end of the recording is not written")?;
    progress.end();
    eprintln!(
        "{} of {}, {}, {} lost",
        counted(counters.written.messages, "record"),
        counted(heard.items as u64, "item"),
        counted(counters.file_bytes, "byte"),
        counters.lost.messages
    );
    Ok(())
}

/// Lines about what is recorded: one that is written over in a terminal, one after the other elsewhere.
struct Progress {
    every: u64,
    next: u64,
    last: (u64, u64),
    in_place: bool,
    trouble: Option<String>,
}

impl Progress {
    fn new(now: u64, seconds: u64) -> Self {
        let every = seconds.saturating_mul(SECOND);
        let next = if every == 0 { u64::MAX } else { now };
        Self { every, next, last: (now, 0), in_place: std::io::stderr().is_terminal(), trouble: None }
    }

    /// To be called each second.
    fn tell(&mut self, now: u64, status: &RecorderStatus, subscriber: &Subscriber<Places>) {
        if status.trouble != self.trouble {
            self.end();
            match &status.trouble {
                Some(trouble) => {
                    eprintln!("{}; it is tried again, what comes meanwhile is a gap", net::plain::escaped(trouble));
                }
                None => eprintln!("the disk takes the recording again"),
            }
            self.trouble.clone_from(&status.trouble);
        }
        if now >= self.next {
            self.next = now + self.every;
            self.line(now, status, subscriber);
        }
    }

    fn line(&mut self, now: u64, status: &RecorderStatus, subscriber: &Subscriber<Places>) {
        let counters = status.counters;
        let rows = counters.written.messages;
        let seconds = now.saturating_sub(self.last.0).max(1) as f64 / 1e9;
        let rate = rows.saturating_sub(self.last.1) as f64 / seconds;
        let heard = subscriber.progress();
        let line = format!(
            "{}, {rate:.0}/s, {:.1} MB ({:.1} bytes a row), {} of {}, {} lost, {}",
            counted(rows, "row"),
            counters.file_bytes as f64 / 1e6,
            counters.file_bytes as f64 / rows.max(1) as f64,
            heard.open,
            counted(heard.items as u64, "item"),
            counters.lost.messages,
            counted(counters.gaps, "gap")
        );
        self.last = (now, rows);
        if self.in_place {
            eprint!("\r\x1b[K{line}");
        } else {
            eprintln!("{line}");
        }
    }

    /// What comes next begins a line.
    fn end(&self) {
        if self.in_place {
            eprintln!();
        }
    }
}
