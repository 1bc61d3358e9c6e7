//! `quoteway lbmsrs`: the stateful resolution service, for topic resolution over TCP.
//!
//! Contexts that name it (`resolver_service`) tell it their sources, and are told those of the topics that they want. It keeps them in memory:
//! when it is started again contexts tell it again. Several services know nothing of each other; contexts tell all of them the same.

use anyhow::anyhow;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use clap::Parser;
use lbm_io::{ServiceConfig, Srs, SrsConfig};
use net::Network;

use super::output::Output;

/// Knows every LBM source, and tells contexts of those that they want, over TCP.
#[derive(Clone, Debug, Parser)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
#[command(name = "lbmsrs", after_help = EXAMPLES)]
pub struct Args {
    /// Address on which contexts connect; another than this host's own needs --allow
    #[arg(long, value_name = "ADDRESS", default_value_t = Ipv4Addr::LOCALHOST)]
    pub interface: Ipv4Addr,

    /// Network to serve, as 10.1.0.0/16; may be repeated. Connections of others are closed and counted
    #[arg(long, value_name = "NETWORK")]
    pub allow: Vec<Network>,

    /// TCP port; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 27000)]
    pub port: u16,

    /// Contexts at a time; connections of more are closed and counted
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub clients: usize,

    /// Sources that are known at a time; more are refused and counted
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub sources: usize,

    /// Sources, and topics that it wants, of one context
    #[arg(long, value_name = "N", default_value_t = 250_000)]
    pub topics_per_client: usize,

    /// How long sources are told whose context has gone without a word, seconds; 0 for ever
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub state_lifetime: u64,

    /// Print the counters every so many seconds; 0 never
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub report: u64,
}

const EXAMPLES: &str = "\
Examples:
  quoteway lbmsrs                                             # for this host
  quoteway lbmsrs --interface 10.1.1.5 --allow 10.1.0.0/16
  quoteway lbmpub --transport tcp -o 'context resolver_service 10.1.1.5:27000,10.1.1.6:27000'
  quoteway lbmsub -o 'context resolver_service 10.1.1.5:27000,10.1.1.6:27000'

A context uses all services that it names (up to five) at a time, so that one may be away. Resolution by multicast goes on \
beside them; context resolver_disable_udp_topic_resolution 1 turns it off.";

impl Args {
    fn config(&self) -> SrsConfig {
        SrsConfig {
            allow: self.allow.clone(),
            connections_max: self.clients,
            service: ServiceConfig {
                sources_max: self.sources,
                sources_per_context: self.topics_per_client,
                topics_per_context: self.topics_per_client,
                state_lifetime_ns: self.state_lifetime.saturating_mul(1_000_000_000),
                ..ServiceConfig::default()
            },
            ..SrsConfig::new(SocketAddrV4::new(self.interface, self.port))
        }
    }
}

/// Serves until it is told to stop.
///
/// # Errors
/// A text for the user: nobody was allowed, the port is taken, or the sockets broke.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if !args.interface.is_loopback() && args.allow.is_empty() {
        return Err(anyhow!(
            "on {} it can be reached from other hosts: say which networks it serves (--allow 10.1.0.0/16; --allow 0.0.0.0/0 is all)",
            args.interface
        ));
    }
    net::signal::install()?;
    let mut srs =
        Srs::new(&args.config()).map_err(|e| anyhow!("{e} (is there another service? --port chooses another port)"))?;
    let mut out = Output::default();
    out.line(&format!("ready {}", srs.address()));
    let every = args.report.saturating_mul(1_000_000_000);
    let mut report_at = net::clock::now().saturating_add(every);
    while net::signal::stop_requested() == 0 {
        srs.poll(Some(Duration::from_millis(200)))?;
        for note in srs.notes() {
            eprintln!("{note}");
        }
        if every > 0 && net::clock::now() >= report_at {
            report_at = net::clock::now().saturating_add(every);
            out.line(&report(&srs));
        }
    }
    out.line(&report(&srs));
    out.finish()
}

fn report(srs: &Srs) -> String {
    let s = srs.stats();
    format!(
        "{} contexts, {} away; {} sources, {} topics wanted; {} registrations, {} sources told, {} ends; {} refused, {} malformed, {} too slow, {} silent, {} of strangers, {} internal faults",
        s.contexts,
        s.away,
        s.sources,
        s.wanted,
        s.registrations,
        s.told,
        s.ended,
        s.refused,
        s.malformed,
        s.too_slow,
        s.silent,
        srs.strangers(),
        s.internal_faults
    )
}
