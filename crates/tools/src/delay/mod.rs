//! `quoteway delay`: the data of a service so much later, under another name.
//!
//! `quoteway delay` consumes the service at a P2PS, keeps a journal on disk, and publishes at a Source Distributor what is due.
//!
//! Journal, players and rules are those of `record_io::delay`.

mod relay;

use crate::places::Places;
use anyhow::{Context as _, anyhow};
use clap::Args as ClapArgs;
use record_io::delay::{Rule, Rules, all_rules};
use relay::Relay;
use rssl_io::RsslIo;
use std::path::PathBuf;

const SECOND: u64 = 1_000_000_000;
/// How often time is looked at when nothing happens, nanoseconds.
const TURN: u64 = SECOND / 20;

/// Publish the data of a service later, under another name.
///
/// It watches items of --service as a consumer, writes what comes into a journal on disk, which is a recording as `quoteway record` makes it, and publishes it --delay seconds later as
/// --as, as a non-interactive provider. The journal survives a restart. Where nothing was written down, the delayed items are Suspect at
/// that place in time. Images and directory say how late they are (quality of service Delayed).
#[derive(ClapArgs, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    quoteway serve --source localhost:14000 --nip-port 14003\n  \
    quoteway delay --service FEED --as FEED_15 --delay 900 --items list.txt --journal /var/lib/quoteway/feed15\n\n\
    A field of the image may decide how late an item is: --rule 4=145:1200 delays items whose field 4 (RDN_EXCHID) is 145 by 20 minutes.\n    \
    --rule 'name=*.XX:0' delays items whose names end with .XX by nothing.")]
pub struct Args {
    /// Where consumers connect to the P2PS; srv:_SERVICE._tcp.DOMAIN for what the DNS says (SRV)
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:14002")]
    pub server: String,
    /// Where non-interactive providers connect to the Source Distributor (`nip_port`), written likewise
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:14003")]
    pub publish: String,
    /// Service to delay
    #[arg(long, value_name = "NAME")]
    pub service: String,
    /// Name of the delayed service
    #[arg(long = "as", value_name = "NAME")]
    pub published_as: String,
    /// Id of the delayed service at the Source Distributor
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub service_id: u16,
    /// How late, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    pub delay: u64,
    /// Another delay for items whose image has this value in a field (FID=VALUE:SECONDS), or whose names match (name=PATTERN:SECONDS); the first that fits holds
    #[arg(long = "rule", value_name = "RULE")]
    pub rules: Vec<Rule>,
    /// File of more rules, one a line; they come after those of --rule
    #[arg(long, value_name = "FILE")]
    pub rules_file: Option<PathBuf>,
    /// File with the names of the items, one a line
    #[arg(long, value_name = "FILE", required_unless_present = "names")]
    pub items: Option<PathBuf>,
    /// Names of items: IBM.N,RDT{0..99}
    #[arg(long = "item-list", value_name = "NAMES")]
    pub names: Option<String>,
    /// Domains by number: 6 is Market Price, 7 Market By Order, 8 Market By Price
    #[arg(long = "domain", value_name = "NUMBER", default_values_t = [6])]
    pub domains: Vec<u8>,
    /// Folder of the journal
    #[arg(long, value_name = "FOLDER")]
    pub journal: PathBuf,
    /// Most megabytes of the journal beside its newest segment; beyond, the oldest goes, and is a hole
    #[arg(long, value_name = "MEGABYTES", default_value_t = 10_000)]
    pub disk_limit: u64,
    /// Seconds in a segment of the journal
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub file_seconds: u64,
    /// User name of both logins
    #[arg(long, value_name = "NAME", default_value = "delay")]
    pub user: String,
}

impl Args {
    fn names(&self) -> anyhow::Result<Vec<String>> {
        let mut names = match &self.names {
            Some(list) => crate::names::parse_list(list)?,
            None => Vec::new(),
        };
        if let Some(file) = &self.items {
            let more = crate::names::read_file(file).with_context(|| format!("items {}", file.display()))?;
            names.extend(more);
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }
}

/// Delays until it is stopped.
///
/// # Errors
/// A text for the user: the servers have no address, the items cannot be read, or the journal cannot be read or written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    net::signal::install().map_err(|e| anyhow!("signals: {e}"))?;
    let (from, to) = (Places::of(&args.server, "--server")?, Places::of(&args.publish, "--publish")?);
    let names = args.names()?;
    let delay = args.delay.saturating_mul(SECOND);
    let rules = Rules { delay, rules: all_rules(&args.rules, args.rules_file.as_deref()).map_err(anyhow::Error::msg)? };
    let mut io = RsslIo::new(net::clock::now()).map_err(|e| anyhow!("no sockets: {e}"))?;
    net::signal::wake(&io.tcp().waker());
    let mut relay = Relay::new(args, rules, &names, (from, to))
        .with_context(|| format!("the journal in {}", args.journal.display()))?;
    let Args { service, delay, published_as, .. } = args;
    eprintln!("{service} of {} is published {delay} s later as {published_as} at {}", args.server, args.publish);
    while net::signal::stop_requested() == 0 {
        let now = io.turn(Some(net::clock::now() + TURN), &mut relay).map_err(|e| anyhow!("sockets: {e}"))?;
        relay.work(now, net::clock::wall(), &mut io).context("the journal")?;
    }
    Ok(())
}
