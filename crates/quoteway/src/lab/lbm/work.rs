//! The part of a measurement that has a process of its own: ours or the bare loop, on one cell.

use std::time::Duration;

use lbm_io::options::Options;
use lbm_io::{Context, Events};
use net::floor::messaging::Work;
use net::floor::{datagrams, log};

use super::cell::{Measure, Medium};
use super::{round_trips, stream};

/// What to do.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// LBM, or what the system does without it
    #[arg(long, value_enum)]
    side: Side,
    /// One way, or there and back
    #[arg(long, value_enum)]
    measure: Measure,
    /// How messages travel
    #[arg(long, value_enum)]
    pub(super) medium: Medium,
    /// Bytes of a message
    #[arg(long)]
    payload: usize,
    /// Longest datagram
    #[arg(long)]
    pub(super) datagram: usize,
    /// With UDP GSO and GRO
    #[arg(long)]
    pub(super) offload: bool,
    /// Round trips a second; 0: one by one
    #[arg(long, default_value_t = 0.0)]
    rate: f64,
    /// Seconds that count
    #[arg(long)]
    seconds: f64,
    /// Seconds before them
    #[arg(long)]
    warmup: f64,
    /// More options of LBM, in the form of its files, separated by ';'
    #[arg(long, default_value = "")]
    options: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Side {
    Ours,
    Floor,
}

/// Runs it and prints a line of JSON.
///
/// # Errors
/// A text for the user.
pub fn run(args: &Args) -> Result<(), String> {
    let work = Work {
        payload: args.payload.max(8),
        datagram: args.datagram,
        trains: args.offload,
        multicast: args.medium == Medium::Lbtrm,
        rate: args.rate,
        seconds: args.seconds,
        warmup: args.warmup,
        ..Work::default()
    };
    let failed = |e: std::io::Error| e.to_string();
    let line = match (args.side, args.measure, args.medium) {
        (Side::Ours, Measure::Stream, _) => stream::run(args, &work)?.to_json(),
        (Side::Ours, Measure::RoundTrips, _) => round_trips::run(args, &work)?.to_json(),
        (Side::Floor, Measure::Stream, Medium::Lbtipc) => log::stream(&work).map_err(failed)?.to_json(),
        (Side::Floor, Measure::Stream, _) => datagrams::stream(&work).map_err(failed)?.to_json(),
        (Side::Floor, Measure::RoundTrips, Medium::Lbtipc) => log::round_trips(&work).map_err(failed)?.to_json(),
        (Side::Floor, Measure::RoundTrips, _) => datagrams::round_trips(&work).map_err(failed)?.to_json(),
    };
    println!("{line}");
    Ok(())
}

/// A context on loopback, apart from those of other processes.
pub(super) fn context(args: &Args, batching: usize) -> Result<(Context, Options), String> {
    let Args { medium, datagram, offload, .. } = args;
    // Groups and ports of this process alone: another run may still be ending.
    let port = 20_000 + std::process::id() % 20_000;
    let (trains, name, data_port) = (u8::from(*offload), medium.name(), port + 1);
    let text = format!(
        "context default_interface 127.0.0.1
        context resolver_multicast_address 239.192.62.1
        context resolver_multicast_port {port}
        context resolver_multicast_ttl 0
        context request_tcp_port_low 0
        context request_tcp_port_high 0
        context udp_offload {trains}
        source transport {name}
        source implicit_batching_minimum_length {batching}
        context transport_lbtrm_multicast_address_low 239.192.62.2
        context transport_lbtrm_multicast_address_high 239.192.62.3
        source transport_lbtrm_destination_port {data_port}
        context transport_lbtrm_source_port_low 0
        context transport_lbtrm_source_port_high 0
        context transport_lbtrm_datagram_max_size {datagram}
        context transport_lbtrm_receiver_socket_buffer 16777216
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
    options.parse("lab", &text).map_err(|bad| bad.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let mut context = Context::new(&options).map_err(|e| e.to_string())?;
    for warning in context.warnings() {
        eprintln!("{warning}");
    }
    Ok((context, options))
}

/// A turn that does not wait; yields if there was nothing.
#[inline]
pub(super) fn turn(context: &mut Context, events: &mut impl Events) -> Result<(), String> {
    let delivered = context.poll(Some(Duration::ZERO), events).map_err(|e| e.to_string())?;
    if delivered == 0 {
        std::thread::yield_now();
    }
    Ok(())
}
