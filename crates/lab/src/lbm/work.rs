//! One side of one run, in a process of its own: ours or the bare loop, source or receiver.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use floor::board::{Board, Shared};
use floor::messaging::Work;
use floor::{Wait, datagrams, log};

use super::process::{Args, Role, Side, data_port, group};
use super::{one_way, round_trips, stream};
use crate::scenario::grid::{Idle, Measure, Medium, Profile};

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
