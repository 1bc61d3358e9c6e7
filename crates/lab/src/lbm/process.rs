//! What a process of a run is told, and the context it opens.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use lbm_io::options::Options;
use lbm_io::{Context, Events};

use super::RECEIVE_BUFFER;
use crate::scenario::grid::{Idle, Measure, Medium, Profile};

/// The task.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// LBM, or what the system does without it
    #[arg(long, value_enum)]
    pub(super) side: Side,
    /// Who sends first, or who receives
    #[arg(long, value_enum, default_value_t = Role::Both)]
    pub(super) role: Role,
    /// One way as fast as it goes, one way at a rate, or there and back
    #[arg(long, value_enum)]
    pub(super) measure: Measure,
    /// How messages travel
    #[arg(long, value_enum)]
    pub(super) medium: Medium,
    /// Bytes of a message
    #[arg(long)]
    pub(super) payload: usize,
    /// Longest datagram
    #[arg(long)]
    pub(super) datagram: usize,
    /// With UDP GSO and GRO
    #[arg(long)]
    pub(super) offload: bool,
    /// Messages or round trips a second; 0: there and back one by one
    #[arg(long, default_value_t = 0.0)]
    pub(super) rate: f64,
    /// Whether datagrams wait for company, one way at a rate
    #[arg(long, value_enum, default_value_t = Profile::Latency)]
    pub(super) profile: Profile,
    /// What to do when there is nothing to do
    #[arg(long, value_enum, default_value_t = Idle::Yield)]
    pub(super) idle: Idle,
    /// What the sides tell each other by; a source may have several receivers
    #[arg(long, value_delimiter = ',')]
    pub(super) board: Vec<PathBuf>,
    /// Address of the interface
    #[arg(long, default_value_t = Ipv4Addr::LOCALHOST)]
    pub(super) here: Ipv4Addr,
    /// Which of several pairs of source and receiver
    #[arg(long, default_value_t = 0)]
    pub(super) path: u8,
    /// Port of topic resolution; the next ones are for data
    #[arg(long, default_value_t = 20_000 + (std::process::id() % 10_000) as u16)]
    pub(super) port: u16,
    /// Seconds that count
    #[arg(long)]
    pub(super) seconds: f64,
    /// Seconds before them
    #[arg(long)]
    pub(super) warmup: f64,
    /// More options of LBM, in the form of its files, separated by ';'
    #[arg(long, default_value = "")]
    pub(super) options: String,
}

/// LBM, or what the system does without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Side {
    /// LBM.
    Ours,
    /// The bare loop of the same shape.
    Floor,
}

/// Which side of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// Sends, or asks.
    Source,
    /// Receives, or echoes.
    Receiver,
    /// Two threads of this process, for a profiler; the board is its own.
    Both,
}

/// Each path has ten groups; the first goes there, the second back.
pub(super) fn group(args: &Args) -> u8 {
    10 + 10 * args.path
}

pub(super) fn data_port(args: &Args) -> u16 {
    args.port + 1 + u16::from(args.path)
}

/// A context on the interface, apart from those of other runs, which may still be ending.
pub(super) fn context(args: &Args, batching: usize) -> anyhow::Result<(Context, Options)> {
    let Args { medium, datagram, offload, here, port, .. } = args;
    let group = group(args) + u8::from(args.role == Role::Receiver);
    let (trains, name, data_port) = (u8::from(*offload), medium.name(), data_port(args));
    let ttl = u8::from(!here.is_loopback());
    let text = format!(
        "context default_interface {here}
        context resolver_multicast_address 239.192.62.1
        context resolver_multicast_port {port}
        context resolver_multicast_ttl {ttl}
        context request_tcp_port_low 0
        context request_tcp_port_high 0
        context udp_offload {trains}
        source transport {name}
        source implicit_batching_minimum_length {batching}
        context transport_lbtrm_multicast_address_low 239.192.62.{group}
        context transport_lbtrm_multicast_address_high 239.192.62.{group}
        source transport_lbtrm_destination_port {data_port}
        context transport_lbtrm_source_port_low 0
        context transport_lbtrm_source_port_high 0
        context transport_lbtrm_datagram_max_size {datagram}
        context transport_lbtrm_receiver_socket_buffer {RECEIVE_BUFFER}
        context transport_lbtrm_source_socket_buffer 4194304
        context transport_lbtru_port_low 0
        context transport_lbtru_port_high 0
        receiver transport_lbtru_port_low 0
        receiver transport_lbtru_port_high 0
        context transport_lbtru_datagram_max_size {datagram}
        context transport_lbtru_receiver_socket_buffer 16777216
        context transport_lbtru_source_socket_buffer 4194304
        source transport_lbtipc_behavior receiver_paced
        source transport_lbtipc_transmission_window_size 4194304
        {}",
        args.options.replace(';', "\n"),
    );
    let mut options = Options::new();
    let parsed = options.parse("lab", &text);
    parsed.map_err(|bad| anyhow::anyhow!(bad.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))?;
    let mut context = Context::new(&options).map_err(anyhow::Error::msg)?;
    for warning in context.warnings() {
        eprintln!("{warning}");
    }
    Ok((context, options))
}

/// How long a receiver that blocks does so at a time, to see the end.
const BLOCK: Duration = Duration::from_millis(20);

/// A turn of one who receives: yields or blocks if there was nothing.
#[inline]
pub(super) fn turn(context: &mut Context, idle: Idle, events: &mut impl Events) -> anyhow::Result<()> {
    let wait = if idle == Idle::Block { BLOCK } else { Duration::ZERO };
    let delivered = context.poll(Some(wait), events).map_err(anyhow::Error::msg)?;
    if delivered == 0 && idle == Idle::Yield {
        std::thread::yield_now();
    }
    Ok(())
}
