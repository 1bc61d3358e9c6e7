//! Duties of every long-running process: it takes its place, says that it is ready, ends on signals.

use anyhow::anyhow;
use std::io::Write;
use std::net::SocketAddr;

use clap::Args;
use config::{Config, ConfigArgs, Http, LogFormat};
use net::dns::{BadServiceName, ServiceName};

use super::service::{self, Pulse, Watched};
use crate::addresses::show;
use crate::agents::lifecycle::Lifecycle;
use crate::http::{About, Running};
use crate::log;

/// Where the web page, metrics and administration of a process are.
#[derive(Debug, Clone, Default, Args)]
pub struct HttpArgs {
    /// Port of the web page, /metrics and /api/v1 on the loopback; 0 takes a free one, off opens none [default: 8080]
    #[arg(long, value_name = "PORT", value_parser = http_port)]
    pub http_port: Option<HttpPort>,
}

/// The value of `--http-port`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpPort {
    /// None.
    Off,
    /// The port of this number; 0 takes a free one.
    At(u16),
}

fn http_port(text: &str) -> Result<HttpPort, String> {
    if text == "off" {
        return Ok(HttpPort::Off);
    }
    text.parse().map(HttpPort::At).map_err(|_| "a port is a number from 0 to 65535, or off".to_owned())
}

/// A server on a command line: `HOST:PORT`, which counts where it is used, or the name of a service.
pub(super) fn server(text: &str) -> Result<String, BadServiceName> {
    ServiceName::of(text).transpose().map(|_| text.to_owned())
}

impl HttpArgs {
    /// Has the command line win over the file.
    pub fn apply(&self, config: &mut Http) {
        match self.http_port {
            None => {}
            Some(HttpPort::Off) => config.enabled = false,
            Some(HttpPort::At(port)) => (config.enabled, config.port) = (true, port),
        }
    }
}

/// The configuration of the file, or the defaults. What has no effect is said in the log, once each, in the format that the file asks for.
///
/// # Errors
/// Every fault of the file, each with its line; what is wrong with the files that it names.
pub(super) fn load(args: &ConfigArgs) -> anyhow::Result<Config> {
    let Some((path, loaded)) = args.read()? else { return Ok(Config::default()) };
    log::set_first_format(loaded.config.log.format == LogFormat::Json);
    loaded.checked(path)
}

/// Facts that the page and the administration tell of every process.
pub fn about(config: &Config) -> About {
    About {
        default_service: config.p2ps.default_service.clone(),
        takes_websocket: config.p2ps.websocket,
        started: net::clock::wall() / 1_000_000_000,
        ..About::default()
    }
}

/// The end of the line that says that everything is open: the web page, if there is one.
pub fn web(running: Option<&Running>) -> String {
    running.map_or(String::new(), |running| format!(" http={}", running.url()))
}

/// Addresses in `ready` beside the others of its line: those listened on, where they are more than can be connected to.
pub fn bound<const N: usize>(addresses: [Option<SocketAddr>; N]) -> String {
    let all = addresses.into_iter().flatten().find(|address| address.ip().is_unspecified());
    all.map_or(String::new(), |address| format!(" listening={}", address.ip()))
}

/// Has SIGINT and SIGTERM ask for the end; [`stopped`] tells.
///
/// # Errors
/// The kernel refuses.
pub fn install_signals() -> anyhow::Result<()> {
    net::signal::install().map_err(|e| anyhow!("signals cannot be caught: {e}"))
}

/// True once a signal has asked for the end.
pub fn stopped() -> bool {
    net::signal::stop_requested() > 0
}

/// Sees to it that so many descriptors can be open, or says what will be missing.
pub fn raise_open_files(wanted: u64) {
    match net::rlimit::raise_open_files(wanted) {
        Ok(limits) if limits.soft < wanted => tracing::warn!(
            "max_mounts needs {wanted} open files and the limit is {} (ulimit -n {wanted} raises it): later clients will be turned away",
            limits.soft
        ),
        Ok(_) => {}
        Err(e) => tracing::warn!("the limit of open files cannot be read: {e}"),
    }
}

/// Whether a serving thread is to end, asked after each turn: the turn is counted for the supervisor's watchdog, then the process's life answers.
pub fn turn_over(pulse: &Pulse, life: &Lifecycle) -> bool {
    pulse.beat();
    life.is_over()
}

/// Says which pages tables of many items lie in.
fn tell_pages() {
    match net::huge_pages::are_given() {
        Ok(true) => tracing::info!("tables of many items lie in huge pages"),
        Ok(false) => tracing::info!(
            "tables of many items lie in pages of 4 KB: the machine gives no huge pages now. Updates of a million items take less with them: \
            echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
        ),
        Err(e) => tracing::warn!("which pages tables of many items lie in cannot be told: {e}"),
    }
}

/// Everything is open: signals may end turns of the first thread from now on, the line is printed that says so, and a supervisor is told.
pub fn announce(line: &str, threads: Vec<Watched>) {
    if let Some((_, waker)) = threads.first() {
        net::signal::wake(waker);
    }
    tell_pages();
    // Nobody may be reading: the ports are open all the same.
    let _ = writeln!(std::io::stdout(), "{line}").and_then(|()| std::io::stdout().flush());
    service::ready(line, threads);
}

/// Tells this start from every other one of this host: hundredths of a second, which come again after 497 days.
pub fn incarnation() -> u32 {
    (net::clock::wall() / 10_000_000) as u32
}

/// The part of a ready line that says where clients connect by other ports than that for all; empty where they may not.
pub fn show_ports(
    encrypted: Option<SocketAddr>,
    websocket: Option<SocketAddr>,
    marketfeed: Option<SocketAddr>,
) -> String {
    let encrypted = encrypted.map_or(String::new(), |at| format!(" encrypted={}", show(at)));
    let websocket = websocket.map_or(String::new(), |at| format!(" websocket=ws://{}/WebSocket", show(at)));
    let marketfeed = marketfeed.map_or(String::new(), |at| format!(" marketfeed={}", show(at)));
    encrypted + &websocket + &marketfeed
}
