//! `quoteway lbmstore`: a store of LBM messages, as a process.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::Parser;
use lbm_io::options::{OptionError, Options};
use lbm_store::store::StoreConfig;
use lbm_store_io::{ServerConfig, StoreServer};
use net::Network;

use super::output::Output;

/// Holds the messages of LBM sources until receivers that were away come back.
#[derive(Clone, Debug, Parser)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
#[command(name = "lbmstore", after_help = EXAMPLES)]
pub struct Args {
    /// Address on which sources and receivers connect; another than this host's own needs --allow
    #[arg(long, value_name = "ADDRESS", default_value_t = Ipv4Addr::LOCALHOST)]
    pub interface: Ipv4Addr,

    /// Network to serve, as 10.1.0.0/16; may be repeated. Connections of others are closed and counted
    #[arg(long, value_name = "NETWORK")]
    pub allow: Vec<Network>,

    /// TCP port; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 14567)]
    pub port: u16,

    /// Folder of the log: messages survive the store. Without it they are held in memory alone
    #[arg(long, value_name = "FOLDER")]
    pub disk: Option<PathBuf>,

    /// Number of this store, which sources see in its answers
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..0x8000))]
    pub id: u16,

    /// Megabytes of messages held for one source; the oldest go (those of sources that receivers pace wait instead)
    #[arg(long, value_name = "MB", default_value_t = 256)]
    pub source_size: usize,

    /// Megabytes of the log before it is written anew, as it is when it is three times what is held
    #[arg(long, value_name = "MB", default_value_t = 512)]
    pub log_size: u64,

    /// Sources at most
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub sources: usize,

    /// A client that is silent for so long has gone, seconds, unless it asks for another time
    #[arg(long, value_name = "S", default_value_t = 30)]
    pub activity_timeout: u64,

    /// How long messages and positions of clients that have gone are kept, seconds, unless they ask for another time
    #[arg(long, value_name = "S", default_value_t = 86_400)]
    pub state_lifetime: u64,

    /// File of LBM options (context|source|receiver NAME VALUE a line), as those of the sources that it hears
    #[arg(long = "options", value_name = "FILE")]
    pub option_files: Vec<PathBuf>,

    /// One LBM option as a line of such a file; may be given several times
    #[arg(short = 'o', long = "option", value_name = "LINE")]
    pub option_lines: Vec<String>,

    /// Print sources and counters every so many seconds; 0 never
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub report: u64,
}

const EXAMPLES: &str = "\
Examples:
  quoteway lbmstore                                    # in memory, for this host
  quoteway lbmstore --disk /var/lib/lbm-store          # on disk: kill it, start it again, nothing that is stable is lost
  quoteway lbmstore --interface 10.1.1.5 --allow 10.1.0.0/16 --disk /data/store

A source names its stores (lbmpub --store, source ume_store); receivers learn them from the source. A message is stable when more than \
half of the stores have it, on disk if they have one. The store hears the topics that sources register, by the same transports as \
receivers: give it the same options of topic resolution as those. Its log is a recording: quoteway record info FOLDER tells what is in it.";

impl Args {
    fn config(&self) -> ServerConfig {
        ServerConfig {
            address: SocketAddrV4::new(self.interface, self.port),
            allow: self.allow.clone(),
            folder: self.disk.clone(),
            log_bytes_min: self.log_size.saturating_mul(1 << 20),
            store: StoreConfig {
                id: self.id,
                source_bytes_max: self.source_size.saturating_mul(1 << 20),
                sources_max: self.sources,
                activity_timeout_ns: self.activity_timeout.saturating_mul(1_000_000_000),
                state_lifetime_ns: self.state_lifetime.saturating_mul(1_000_000_000),
                ..StoreConfig::default()
            },
        }
    }

    fn options(&self) -> anyhow::Result<Options> {
        let mut options = Options::new();
        let text =
            |errors: Vec<OptionError>| anyhow!(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
        for file in &self.option_files {
            let name = file.display().to_string();
            let content = std::fs::read_to_string(file).map_err(|e| anyhow!("{name}: {e}"))?;
            for warning in options.load(&name, &content).map_err(text)? {
                eprintln!("{warning}");
            }
        }
        for line in &self.option_lines {
            options.parse("-o", line).map_err(text)?;
        }
        Ok(options)
    }
}

/// Serves until it is told to stop.
///
/// # Errors
/// A text for the user: bad options, the port or the folder is taken, or the sockets broke.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if !args.interface.is_loopback() && args.allow.is_empty() {
        return Err(anyhow!(
            "on {} it can be reached from other hosts: say which networks it serves (--allow 10.1.0.0/16; --allow 0.0.0.0/0 is all)",
            args.interface
        ));
    }
    net::signal::install()?;
    let mut server = StoreServer::new(&args.config(), &args.options()?)?;
    let mut out = Output::default();
    for damage in server.damage() {
        eprintln!("the log: {damage}");
    }
    out.line(&format!("ready {}", server.address()));
    let every = args.report.saturating_mul(1_000_000_000);
    let mut report_at = net::clock::now().saturating_add(every);
    while net::signal::stop_requested() == 0 {
        server.poll(Some(Duration::from_millis(200)))?;
        for warning in server.warnings() {
            eprintln!("{warning}");
        }
        if every > 0 && net::clock::now() >= report_at {
            report_at = net::clock::now().saturating_add(every);
            report(&server, &mut out);
        }
    }
    report(&server, &mut out);
    out.finish()
}

fn report(server: &StoreServer, out: &mut Output) {
    server.each_source(|reg_id, topic, (low, end), bytes, receivers| {
        let receivers: Vec<String> = receivers.iter().map(|(reg_id, next)| format!("{reg_id} at {next}")).collect();
        let topic = String::from_utf8_lossy(topic);
        out.line(&format!(
            "source {reg_id} of {topic}: {low} to before {end}, {bytes} bytes; receivers: {}",
            if receivers.is_empty() { "none".to_owned() } else { receivers.join(", ") }
        ));
    });
    let (stats, (clients, strangers), (proxies, unmade)) = (server.stats(), server.clients(), server.proxy_sources());
    out.line(&format!(
        "{clients} clients, {strangers} connections refused; {} messages stored, {} twice, {} sent again, {} asked of sources, {} displaced, {} not held, {} not taken, {} requests put off, {} registrations refused, {} internal faults; {proxies} proxy sources, {unmade} that could not be made",
        stats.stored,
        stats.duplicates,
        stats.retransmissions,
        stats.asked,
        stats.displaced,
        stats.not_held,
        stats.untaken,
        stats.deferred,
        stats.refused,
        stats.internal_faults
    ));
}
