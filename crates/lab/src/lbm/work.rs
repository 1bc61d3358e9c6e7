//! One side of one run, in a process of its own: ours or the bare loop, source or receiver.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use floor::board::{Board, Shared};
use floor::messaging::Work;
use floor::{Wait, datagrams, log};
use lbm_io::options::Options;
use lbm_io::{Context, Events};

use super::cell::{Idle, Measure, Medium, Profile};
use super::{RECEIVE_BUFFER, one_way, round_trips, stream};

/// What to do.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// LBM, or what the system does without it
    #[arg(long, value_enum)]
    side: Side,
    /// Who sends first, or who receives
    #[arg(long, value_enum, default_value_t = Role::Both)]
    pub(super) role: Role,
    /// One way as fast as it goes, one way at a rate, or there and back
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
    /// Messages or round trips a second; 0: there and back one by one
    #[arg(long, default_value_t = 0.0)]
    rate: f64,
    /// Whether datagrams wait for company, one way at a rate
    #[arg(long, value_enum, default_value_t = Profile::Latency)]
    pub(super) profile: Profile,
    /// What to do when there is nothing to do
    #[arg(long, value_enum, default_value_t = Idle::Yield)]
    pub(super) idle: Idle,
    /// What the sides tell each other by; a source may have several receivers
    #[arg(long, value_delimiter = ',')]
    board: Vec<PathBuf>,
    /// Address of the interface
    #[arg(long, default_value_t = Ipv4Addr::LOCALHOST)]
    here: Ipv4Addr,
    /// Which of several pairs of source and receiver
    #[arg(long, default_value_t = 0)]
    pub(super) path: u8,
    /// Port of topic resolution; the next ones are for data
    #[arg(long, default_value_t = 20_000 + (std::process::id() % 10_000) as u16)]
    port: u16,
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

/// Runs it and prints a line of JSON.
///
/// # Errors
/// What went wrong, for the user.
pub fn run(args: &Args) -> anyhow::Result<()> {
    println!("{}", if args.role == Role::Both { both(args)? } else { side(args)? });
    Ok(())
}

fn both(args: &Args) -> anyhow::Result<String> {
    let folder = super::trial::folder()?;
    let board = vec![folder.path().join("board")];
    let receiver = Args { role: Role::Receiver, board: board.clone(), ..args.clone() };
    let source = Args { role: Role::Source, board, ..args.clone() };
    let (received, sent) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| side(&receiver));
        let sent = side(&source);
        (receiving.join().map_err(|_| anyhow::anyhow!("the receiver has panicked")), sent)
    });
    let mut all = serde_json::Map::new();
    for line in [sent?, received??] {
        let one: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&line).map_err(anyhow::Error::msg)?;
        all.extend(one);
    }
    Ok(serde_json::Value::from(all).to_string())
}

/// Does one side, and gives its line of JSON.
fn side(args: &Args) -> anyhow::Result<String> {
    let wait = if args.idle == Idle::Block { Wait::Block } else { Wait::Yield };
    let multicast = args.medium == Medium::Lbtrm;
    let work = Work {
        payload: args.payload.max(8),
        datagram: args.datagram,
        trains: args.offload,
        multicast,
        rate: args.rate,
        seconds: args.seconds,
        warmup: args.warmup,
        wait,
        pace: wait,
        here: args.here,
        group: Ipv4Addr::new(239, 192, 61, group(args)),
        port: if multicast { data_port(args) } else { 0 },
    };
    let open = |path: &PathBuf| Shared::open(path).map_err(|e| anyhow::anyhow!("board {}: {e}", path.display()));
    let shared: Vec<Shared> = args.board.iter().map(open).collect::<Result<_, _>>()?;
    let boards: Vec<&Board> = shared.iter().map(|board| &**board).collect();
    if boards.is_empty() {
        anyhow::bail!("a side needs a --board");
    }
    match args.side {
        Side::Ours => ours(args, &work, &boards),
        Side::Floor => floor(args, &work, &boards).map_err(anyhow::Error::msg),
    }
}

fn ours(args: &Args, work: &Work, boards: &[&Board]) -> anyhow::Result<String> {
    Ok(match (args.measure, args.role) {
        (Measure::Stream, Role::Source) => {
            let (streamed, repairs) = stream::send(args, work, boards)?;
            repairs.in_report(&streamed.to_json())?
        }
        (Measure::Stream, Role::Receiver) => lost(stream::receive(args, boards[0])?),
        (Measure::OneWay, Role::Source) => {
            let repairs = one_way::send(args, work, boards)?;
            repairs.in_report(&nothing())?
        }
        (Measure::OneWay, Role::Receiver) => one_way::receive(args, work, boards[0])?.to_json(),
        (Measure::RoundTrips, Role::Source) => {
            let (trips, repairs) = round_trips::ping(args, work, boards[0])?;
            repairs.in_report(&trips.to_json())?
        }
        (Measure::RoundTrips, Role::Receiver) => {
            round_trips::echo(args, boards[0])?;
            nothing()
        }
        (_, Role::Both) => anyhow::bail!("a side is one"),
    })
}

fn floor(args: &Args, work: &Work, boards: &[&Board]) -> std::io::Result<String> {
    let path = args.board[0].with_extension("log");
    let (board, in_memory) = (boards[0], args.medium == Medium::Lbtipc);
    Ok(match (args.measure, args.role) {
        (Measure::Stream, Role::Source) if in_memory => log::send_stream(work, &path, board)?.to_json(),
        (Measure::Stream, Role::Source) => datagrams::send_stream(work, boards)?.to_json(),
        (Measure::Stream, Role::Receiver) if in_memory => {
            log::receive_stream(work, &path, board)?;
            nothing()
        }
        (Measure::Stream, Role::Receiver) => lost(datagrams::receive_stream(work, board)?),
        (Measure::OneWay, Role::Source) => {
            datagrams::send_paced(work, args.profile == Profile::Latency, boards)?;
            nothing()
        }
        (Measure::OneWay, Role::Receiver) => datagrams::receive_paced(work, board)?.to_json(),
        (Measure::RoundTrips, Role::Source) if in_memory => log::ping(work, &path, board)?.to_json(),
        (Measure::RoundTrips, Role::Source) => datagrams::ping(work, board)?.to_json(),
        (Measure::RoundTrips, Role::Receiver) => {
            if in_memory {
                log::echo(work, &path, board)?;
            } else {
                datagrams::echo(work, board)?;
            }
            nothing()
        }
        (_, Role::Both) => nothing(),
    })
}

fn lost(count: u64) -> String {
    format!("{{\"lost\":{count}}}")
}

fn nothing() -> String {
    "{}".to_owned()
}

/// Each path has ten groups; the first goes there, the second back.
fn group(args: &Args) -> u8 {
    10 + 10 * args.path
}

fn data_port(args: &Args) -> u16 {
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
