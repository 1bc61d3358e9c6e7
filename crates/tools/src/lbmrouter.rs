//! `quoteway lbmrouter`: a router between LBM domains, as a process.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use lbm_router_io::{Config, RouterServer};

use super::output::Output;

/// Passes LBM topics between domains: each goes where somebody wants it, as a proxy source with the same order, numbers and losses.
#[derive(Clone, Debug, Parser)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
#[command(name = "lbmrouter", after_help = EXAMPLES)]
pub struct Args {
    /// Configuration file (TOML), see below
    #[arg(value_name = "FILE", required_unless_present = "example")]
    pub file: Option<PathBuf>,

    /// Check the file and say what it means, without opening anything
    #[arg(long)]
    pub check: bool,

    /// Print a configuration file to begin with
    #[arg(long)]
    pub example: bool,

    /// Print portals, sources, ways and counters every so many seconds; 0: when it ends
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub report: u64,
}

const EXAMPLES: &str = "\
Examples:
  quoteway lbmrouter --example > router.toml
  quoteway lbmrouter --check router.toml
  quoteway lbmrouter --report 10 router.toml

A domain is what one topic resolution reaches (one resolver_multicast_address and port, or one lbmrd). An [[endpoint]] is a portal in a \
domain, a [[peer]] one to another router, by TCP or TLS. Receivers and sources need no option: a receiver that asks for a topic in one \
domain gets the sources of all others that routers reach. A source in domain 1 is heard there by one of its routers, crosses peer portals \
on the cheapest path (or on several: paths), and is a proxy source in each domain that wants it.

Two rules: a domain has the same number at all its routers, and routers that are to pass something on to each other have a peer portal \
between them, also if they share a domain, since proxy sources are never taken from a domain. The guide is docs/operating/lbm-router.md.";

/// A file to begin with: two domains of this host.
const EXAMPLE: &str = r#"# A router between two domains of this host, and one to another router.
name = "router-1"            # its id is made of it: no two routers have one name
#paths = 1                   # 2: by the two cheapest paths, the first copy of each message goes on
#idle = "sleep"              # yield or spin: a core for less latency
#queue_mb = 64               # for each peer and each domain
#linger_s = 10               # proxy sources stay so long without a way to their source
#interest_timeout_s = 30     # receivers that do not answer for so long are gone
#merge_wait_ms = 100         # with several paths: how long a number is waited for
#silence_s = 5               # a peer that says nothing for so long is given up
#takeover_s = 3              # another router's proxy source is gone after so long

[[endpoint]]
domain = 1
cost = 1
#options = ["lbm.cfg"]       # files of LBM options
set = ["context default_interface 127.0.0.1", "context resolver_multicast_address 239.255.17.1", "source transport tcp"]
#include = ["md.*"]          # topics that pass; ^ begins a regular expression
#exclude = ["internal.*"]
#standby = true              # another router serves this domain as well
#parallel = ["hf.*"]         # topics of hot failover: every router serves them

[[endpoint]]
domain = 2
set = ["context default_interface 127.0.0.1", "context resolver_multicast_address 239.255.17.2", "source transport tcp"]

[[peer]]
listen = "127.0.0.1:14380"   # or connect = "10.1.1.5:14380"
#allow = ["10.1.0.0/16"]     # networks that may connect
#cost = 1
#tls = { ca = "ca.pem", certificate = "router-1.pem", key = "router-1.key" }
"#;

/// Routes until it is told to stop.
///
/// # Errors
/// A text for the user: the file, a portal, or the sockets broke.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut out = Output::default();
    let Some(file) = args.file.as_ref().filter(|_| !args.example) else {
        EXAMPLE.lines().for_each(|line| out.line(line));
        return out.finish();
    };
    let config = Config::load(file).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
    if args.check {
        check(&config, &mut out)?;
        return out.finish();
    }
    net::signal::install()?;
    let mut server = RouterServer::new(&config).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
    let listening: Vec<String> = server.listening().iter().map(ToString::to_string).collect();
    let listening = if listening.is_empty() { String::new() } else { format!(" listening {}", listening.join(" ")) };
    out.line(&format!("ready router {} id {}{listening}", config.name, server.id()));
    let every = args.report.saturating_mul(1_000_000_000);
    let mut report_at = net::clock::now().saturating_add(every);
    let mut turns = 0u32;
    while net::signal::stop_requested() == 0 {
        server.poll(Duration::from_millis(200))?;
        turns = turns.wrapping_add(1);
        // A router that does not sleep has millions of turns a second.
        if !turns.is_multiple_of(256) && config.idle != lbm_router_io::Waiting::Sleep {
            continue;
        }
        server.news().iter().for_each(|news| eprintln!("{news}"));
        if every > 0 && net::clock::now() >= report_at {
            report_at = net::clock::now().saturating_add(every);
            server.report().iter().for_each(|line| out.line(line));
        }
    }
    server.report().iter().for_each(|line| out.line(line));
    out.finish()
}

/// Reads everything that the file names, and says it.
fn check(config: &Config, out: &mut Output) -> anyhow::Result<()> {
    out.line(&format!("router {} id {}", config.name, lbm_router_io::router_id(&config.name)));
    for endpoint in &config.endpoints {
        endpoint.config()?;
        let mut warnings = Vec::new();
        endpoint.options(|warning| warnings.push(warning))?;
        for warning in warnings {
            eprintln!("{warning}");
        }
        let role = if endpoint.standby { ", standby" } else { "" };
        out.line(&format!("endpoint in domain {}, cost {}{role}", endpoint.domain, endpoint.cost));
    }
    for (at, peer) in config.peers.iter().enumerate() {
        peer.config(at)?;
        peer.networks(at)?;
        let (does, address) = match (peer.connect, peer.listen) {
            (Some(to), _) => ("connects to", to.to_string()),
            (_, listen) => ("listens on", listen.map_or(String::new(), |address| address.to_string())),
        };
        let how = if peer.tls.is_some() { "TLS" } else { "TCP" };
        out.line(&format!("peer portal {does} {address} by {how}, cost {}", peer.cost));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_guide_are_good() {
        let guide = include_str!("../../../docs/operating/lbm-router.md");
        let files: Vec<&str> = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(!files.is_empty());
        for file in files {
            Config::parse(file, std::path::Path::new("")).unwrap_or_else(|error| panic!("{file}: {error}"));
        }
    }

    #[test]
    fn the_file_to_begin_with_is_a_good_one() {
        let config = Config::parse(EXAMPLE, std::path::Path::new("")).expect("good");
        assert_eq!((config.endpoints.len(), config.peers.len()), (2, 1));
        let all: String = EXAMPLE
            .lines()
            .map(|line| {
                line.strip_prefix('#')
                    .filter(|rest| !rest.starts_with(' ') && !rest.starts_with("options"))
                    .unwrap_or(line)
            })
            .fold(String::new(), |all, line| all + line + "\n");
        let config = Config::parse(&all, std::path::Path::new("")).expect("with everything that may be said");
        assert!(config.endpoints[0].standby && config.peers[0].tls.is_some());
        check(&Config::parse(EXAMPLE, std::path::Path::new("")).expect("good"), &mut Output::default()).expect("good");
    }
}
