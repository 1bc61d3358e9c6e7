//! `quoteway lbmrd`: the resolver daemon, for networks without multicast.
//!
//! Contexts that name it (`resolver_unicast_daemon`) send it their queries and advertisements; it passes each on to all others
//! that it has heard within the activity timeout. It keeps no topics, so that it can be restarted at any time.
//!
//! Nothing in these packets proves where they come from: so it listens on this host alone unless it is told which networks to serve, and
//! what an address can have is limited.

use anyhow::anyhow;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use clap::Parser;
use lbm_io::{Daemon, DaemonConfig, DaemonLimits};
use net::Network;

use super::output::Output;

/// Passes topic resolution on between contexts that cannot use multicast.
#[derive(Clone, Debug, Parser)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
#[command(name = "lbmrd", after_help = EXAMPLES)]
pub struct Args {
    /// Address to listen on; another than this host's own needs --allow
    #[arg(long, value_name = "ADDRESS", default_value_t = Ipv4Addr::LOCALHOST)]
    pub interface: Ipv4Addr,

    /// Network to serve, as 10.1.0.0/16; may be repeated. Packets of others are dropped and counted
    #[arg(long, value_name = "NETWORK")]
    pub allow: Vec<Network>,

    /// UDP port; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 15380)]
    pub port: u16,

    /// Contexts at a time; packets of more are refused and counted
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub clients: usize,

    /// Contexts of one address at a time
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub clients_per_host: usize,

    /// Packets that are taken from one address, a second
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    pub packet_rate: u32,

    /// Bytes that one context is sent, a second
    #[arg(long, value_name = "BYTES", default_value_t = 4_194_304)]
    pub client_rate: u64,

    /// How often contexts are told that the daemon lives, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500)]
    pub keepalive: u64,

    /// A context that is silent for so long is forgotten, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    pub activity_timeout: u64,

    /// Print the counters every so many seconds; 0 never
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub report: u64,
}

const EXAMPLES: &str = "\
Examples:
  quoteway lbmrd                                              # for this host
  quoteway lbmrd --interface 10.1.1.5 --allow 10.1.0.0/16
  quoteway lbmpub -o 'context resolver_unicast_daemon 10.1.1.5:15380'
  quoteway lbmsub -o 'context resolver_unicast_daemon 10.1.1.5:15380'

A context may name several daemons. They know nothing of each other: name the same ones everywhere. Resolution by \
multicast is off in a context that names a daemon; data still goes by the transport that the source has chosen (lbtru or \
tcp where there is no multicast).";

/// No more often is it said that packets are not taken, nanoseconds.
const REFUSALS_EVERY: u64 = 1_000_000_000;

impl Args {
    fn config(&self) -> DaemonConfig {
        DaemonConfig {
            limits: DaemonLimits {
                clients_max: self.clients,
                clients_per_host: self.clients_per_host,
                packets_per_second: self.packet_rate,
                client_bytes_per_second: self.client_rate,
                ..DaemonLimits::default()
            },
            allow: self.allow.clone(),
            keepalive_interval: Duration::from_millis(self.keepalive),
            activity_timeout: Duration::from_millis(self.activity_timeout),
            ..DaemonConfig::new(SocketAddrV4::new(self.interface, self.port))
        }
    }
}

/// Serves until it is told to stop.
///
/// # Errors
/// A text for the user: nobody was allowed, the port is taken, or the socket broke.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if !args.interface.is_loopback() && args.allow.is_empty() {
        return Err(anyhow!(
            "on {} it can be reached from other hosts: say which networks it serves (--allow 10.1.0.0/16; --allow 0.0.0.0/0 is all)",
            args.interface
        ));
    }
    net::signal::install()?;
    let mut daemon = Daemon::new(&args.config())
        .map_err(|e| anyhow!("{e} (is there another daemon? --port chooses another port)"))?;
    let mut out = Output::default();
    out.line(&format!("ready {}", daemon.address()));
    let every = args.report.saturating_mul(1_000_000_000);
    let mut report_at = net::clock::now().saturating_add(every);
    let mut refusals_at = 0;
    while net::signal::stop_requested() == 0 {
        daemon.poll(Some(Duration::from_millis(200)))?;
        let now = net::clock::now();
        if now >= refusals_at
            && let Some(last) = daemon.take_refused()
        {
            refusals_at = now.saturating_add(REFUSALS_EVERY);
            eprintln!("packets are not taken, the last from {last}: {}", report(&daemon));
        }
        if every > 0 && now >= report_at {
            report_at = now.saturating_add(every);
            out.line(&report(&daemon));
        }
    }
    out.line(&report(&daemon));
    Ok(())
}

fn report(daemon: &Daemon) -> String {
    let s = daemon.stats();
    format!(
        "{} contexts; {} packets in, {} passed on, {} malformed, {} refused, {} over the rates, {} of strangers",
        daemon.clients(),
        s.received,
        s.passed_on,
        s.malformed,
        s.refused,
        s.limited,
        daemon.strangers()
    )
}
