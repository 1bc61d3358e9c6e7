//! A channel of CME from the network: lines that lose, groups of definitions and snapshots, on loopback, by a configuration file and a schema of our own.

use super::live::{Exchange as Threads, Signals, groups, put, sender, take};
use super::mdp::{Exchange, SCHEMA, Security};
use super::*;
use std::net::SocketAddrV4;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// The groups of a channel: lines A and B, definitions, snapshots by price and by order.
type Groups = [SocketAddrV4; 5];

fn config(folder: &Path, groups: &Groups) -> PathBuf {
    let kinds = [("I", "A"), ("I", "B"), ("N", "A"), ("S", "A"), ("SMBO", "B")];
    let connection = |(group, (kind, line)): (&SocketAddrV4, (&str, &str))| {
        format!(
            "<connection id=\"7{kind}{line}\"><type feed-type=\"{kind}\">x</type><protocol>UDP/IP</protocol><ip>{}</ip><port>{}</port>\
             <feed>{line}</feed></connection>",
            group.ip(),
            group.port()
        )
    };
    let connections: String = groups.iter().zip(kinds).map(connection).collect();
    let text = format!(
        "<configuration><channel id=\"6\" label=\"Other\"/><channel id=\"7\" label=\"Ours\"><connections>{connections}</connections>\
         </channel></configuration>"
    );
    let path = folder.join("config.xml");
    std::fs::write(&path, text).expect("a file");
    path
}

/// Sends the exchange's packets from one on, up to `stop` until the consumer is there; those of `lost` come by neither line.
fn send(
    signals: Arc<Signals>,
    groups: Groups,
    mut exchange: Exchange,
    (from, stop): (usize, usize),
    lost: std::ops::Range<usize>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let (mut socket, mut next, mut turn) = (sender(), from, 0u32);
        while !signals.is_over.load(Ordering::Acquire) {
            let end = if signals.is_open.load(Ordering::Acquire) { exchange.packets.len() } else { stop };
            if next < end {
                // Each line loses others.
                for line in [0, 1] {
                    let is_lost = lost.contains(&next)
                        || next % 7 == 3 && line == 0
                        || next % 5 == 2 && next % 7 != 3 && line == 1;
                    if !is_lost {
                        put(&mut socket, groups[line], &exchange.packets[next]);
                    }
                }
                next += 1;
            }
            turn += 1;
            if turn.is_multiple_of(25) {
                for packet in Exchange::definitions() {
                    put(&mut socket, groups[2], &packet);
                }
                if next > from {
                    for packet in exchange.snapshots(next) {
                        for group in [3, 4] {
                            put(&mut socket, groups[group], &packet);
                        }
                    }
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    })
}

/// The last states of a security's books.
fn at_the_end(security: &Security) -> [Option<u64>; 2] {
    let (mut orders, mut levels) = (Held::default(), Held::default());
    for (side, number, letter) in [(0, 1, 'B'), (1, 2, 'A')] {
        for (price, size, count) in &security.told[side] {
            levels.set(&format!("{price}{letter}"), (number, *price, i64::from(*size), u64::from(*count)));
        }
        for (reference, _, price, size) in &security.sides[side] {
            orders.set(&reference.to_string(), (number, *price, i64::from(*size), 0));
        }
    }
    [orders, levels].map(|held| {
        let mut states = States::default();
        states.push(&held);
        states.0.last().copied()
    })
}

#[test]
fn a_channel_of_cme_is_joined_within_the_day_and_made_whole_behind_a_loss() {
    let folder = tempfile::tempdir().expect("a folder");
    let ([a, b], [definitions, snapshots], [orders, _]) = (groups(), groups(), groups());
    let all = [a, b, definitions, snapshots, orders];
    let mut exchange = Exchange::new(11);
    (0..400).for_each(|_| exchange.event());
    let expected: Vec<[Option<u64>; 2]> = exchange.states.last().expect("a state").iter().map(at_the_end).collect();
    let (site, schema) = (format!("cme:{}", config(folder.path(), &all).display()), folder.path().join("schema.xml"));
    std::fs::write(&schema, SCHEMA).expect("a file");
    let schema = schema.to_str().expect("UTF-8");
    let (_feed, port) = take(&site, &["--schema", schema, "--channel", "7", "--line-interface", "127.0.0.1"]);
    let (signals, count) = (Arc::new(Signals::default()), exchange.packets.len());
    let lost = count * 3 / 4..count * 3 / 4 + 3;
    let thread = send(Arc::clone(&signals), all, exchange, (60, count / 2), lost);
    let threads = Threads { signals: Arc::clone(&signals), threads: vec![thread] };
    let names = ["ZV0", "ZV1", "ZV2"];
    let items: Vec<(&str, Domain)> =
        names.into_iter().flat_map(|name| [(name, Domain::MARKET_BY_ORDER), (name, Domain::MARKET_BY_PRICE)]).collect();
    let is_good = |stream: &Stream| stream.is_whole && stream.data.last() == Some(&DataState::OK);
    let streams = watch(port, &items, 9, |streams| {
        if streams.iter().all(is_good) {
            signals.is_open.store(true, Ordering::Release);
        }
        streams.iter().all(|stream| {
            let at = names.iter().position(|name| *name == stream.name).expect("an item");
            let last = expected[at][usize::from(stream.domain == Some(Domain::MARKET_BY_PRICE))];
            let was_suspect = stream.data.iter().filter(|data| **data == DataState::SUSPECT).count();
            is_good(stream) && was_suspect > 0 && stream.states.0.last().copied() == last
        })
    });
    for stream in &streams {
        let alternates = stream.data.windows(2).all(|pair| pair[0] != pair[1]);
        assert!(alternates && stream.closed.is_none(), "{}: {:?}", stream.name, stream.data);
    }
    drop(threads);
}

#[test]
fn a_configuration_that_cannot_be_meant_is_refused_with_what_is_wanted() {
    let folder = tempfile::tempdir().expect("a folder");
    let groups = [SocketAddrV4::new([239, 1, 1, 1].into(), 9), SocketAddrV4::new([239, 1, 1, 2].into(), 9)];
    let path = config(folder.path(), &[groups[0], groups[1], groups[0], groups[1], groups[0]]);
    let schema = folder.path().join("schema.xml");
    std::fs::write(&schema, SCHEMA).expect("a file");
    let (site, schema) = (format!("cme:{}", path.display()), schema.to_str().expect("UTF-8"));
    for (args, why) in [
        (vec![], "--schema templates_FixBinary.xml"),
        (vec!["--schema", schema], "which one, --channel"),
        (vec!["--schema", schema, "--channel", "8"], "there is no channel 8 in it, but 6, 7"),
        (vec!["--schema", schema, "--channel", "6"], "has no group of its Incremental feed"),
        (vec!["--schema", schema, "--channel", "7", "--repeater", "h:1"], "--repeater has no effect"),
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_quoteway"))
            .args(["feed", &site, "--port", "0", "--seconds", "5"])
            .args(&args)
            .output();
        let output = output.expect("it runs");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(why), "{args:?}: {told}");
    }
}
