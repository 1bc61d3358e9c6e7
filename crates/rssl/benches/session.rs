//! Nanoseconds per message of the two hot paths, on one thread: `cargo bench -p quoteway-rssl`.
//!
//! receive: packed frames of 85-byte messages as the kernel hands them over (256 KB a read, cut anywhere), with a sink that looks at the
//! stream id. pack: the same messages composed for 100 connections, each with its own stream ids, into one reused buffer for each
//! connection's flush, as a fan-out does. Median of 31 runs, with the fastest and the slowest; every run checks its result.
#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a bench measures time and prints")]

use std::hint::black_box;
use std::time::Instant;

use rssl::{ClientConfig, Compression, CompressionSet, Connection, ServerConfig, Sink};

const BODY: usize = 85;
const CONNECTIONS: usize = 100;
const RUNS: usize = 31;

#[derive(Default)]
struct StreamIds {
    messages: u64,
    sum: u64,
}

impl Sink for StreamIds {
    #[inline]
    fn message(&mut self, msg: &[u8]) {
        self.messages += 1;
        if let Some(id) = msg.get(4..8).and_then(|field| field.try_into().ok()) {
            self.sum += u64::from(u32::from_be_bytes(id));
        }
    }
}

fn connect(compression: Compression, max_user_message_size: u16) -> (Connection, Connection) {
    let offer = match compression {
        Compression::None => CompressionSet::NONE,
        Compression::Zlib => CompressionSet::ZLIB,
        Compression::Lz4 => CompressionSet::LZ4,
    };
    let mut client = Connection::client(ClientConfig { compression: offer, ..ClientConfig::default() });
    let config = ServerConfig { compression, max_user_message_size, compression_level: 1, ..ServerConfig::default() };
    let mut server = Connection::server(config);
    let (mut to_server, mut to_client, mut sink) = (Vec::new(), Vec::new(), StreamIds::default());
    client.start(0, &mut to_server);
    server.receive(0, &to_server, &mut to_client, &mut sink).unwrap();
    to_server.clear();
    client.receive(0, &to_client, &mut to_server, &mut sink).unwrap();
    server.receive(0, &to_server, &mut to_client, &mut sink).unwrap();
    (client, server)
}

/// An update as a feed has it: a header, and a few fields that change from message to message.
fn bodies(count: usize) -> Vec<[u8; BODY]> {
    let mut state = 0x9e37_79b9u32;
    (0..count)
        .map(|_| {
            let mut body = [0x20; BODY];
            body[..20].copy_from_slice(&[0, 9, 4, 6, 0, 0, 0, 5, 0, 4, 0, 8, 0, 5, 0, 3, 0, 0, 0, 0]);
            for at in (20..BODY).step_by(9) {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                body[at] = (state >> 24) as u8;
                body[(at + 1).min(BODY - 1)] = (state >> 16) as u8;
            }
            body
        })
        .collect()
}

fn report(name: &str, messages: usize, bytes: usize, mut run: impl FnMut()) {
    for _ in 0..3 {
        run();
    }
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_nanos() as f64 / messages as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let median = times[RUNS / 2];
    println!(
        "{name:<42} {median:>8.2} ns/message  ({:.2} to {:.2})  {:>6.2} GB/s  {:>6.1} M/s",
        times[0],
        times[RUNS - 1],
        bytes as f64 / messages as f64 / median,
        1e3 / median
    );
}

fn receive(name: &str, compression: Compression, size: u16, packed: bool) {
    let bodies = bodies(1_000);
    let (mut client, mut server) = connect(compression, size);
    let messages = 20_000;
    let mut wire = Vec::new();
    let mut compose = |wire: &mut Vec<u8>| {
        wire.clear();
        if packed {
            let mut packer = server.pack(0, wire);
            for at in 0..messages {
                packer.push(&bodies[at % bodies.len()], Some(at as i32));
            }
            packer.finish().unwrap();
        } else {
            for at in 0..messages {
                server.write(0, &bodies[at % bodies.len()], wire).unwrap();
            }
        }
    };
    compose(&mut wire);
    let (mut sink, mut out) = (StreamIds::default(), Vec::new());
    let bytes = wire.len();
    report(name, messages, bytes, || {
        if compression == Compression::Zlib && sink.messages > 0 {
            compose(&mut wire); // a zlib stream is read once
        }
        for part in wire.chunks(256 * 1024 - 7) {
            client.receive(1, part, &mut out, &mut sink).unwrap();
        }
        black_box(&sink.sum);
    });
    assert!(sink.messages.is_multiple_of(messages as u64) && out.is_empty());
}

fn pack(name: &str, compression: Compression, size: u16, a_flush: usize) {
    let bodies = bodies(1_000);
    let mut servers: Vec<Connection> = (0..CONNECTIONS).map(|_| connect(compression, size).1).collect();
    // As in a fan-out: a list of (body, stream id) for each connection.
    let streams: Vec<Vec<(u32, i32)>> = (0..CONNECTIONS)
        .map(|client| (0..a_flush).map(|at| ((at % 1_000) as u32, (client * 7 + at) as i32)).collect())
        .collect();
    let mut out = Vec::new();
    let mut bytes = 0;
    let turns = (200_000 / (CONNECTIONS * a_flush)).max(1);
    let messages = turns * CONNECTIONS * a_flush;
    let mut run = |bytes: &mut usize| {
        *bytes = 0;
        for _ in 0..turns {
            for (server, streams) in servers.iter_mut().zip(&streams) {
                out.clear();
                let mut packer = server.pack(0, &mut out);
                for (body, stream) in streams {
                    packer.push(&bodies[*body as usize], Some(*stream));
                }
                assert_eq!(packer.finish(), Ok(a_flush));
                *bytes += black_box(&out).len();
            }
        }
    };
    run(&mut bytes);
    let wire = bytes;
    report(name, messages, wire, || run(&mut bytes));
}

fn copy() {
    let bodies = bodies(1_000);
    let mut out: Vec<u8> = Vec::with_capacity(1 << 20);
    let messages = 3_000 * 66;
    report("floor: copying 85 bytes to a buffer", messages, messages * BODY, || {
        for turn in 0..messages / 66 {
            out.clear();
            for at in 0..66 {
                out.extend_from_slice(&bodies[(turn + at) % 1_000][..black_box(BODY)]);
            }
            black_box(&out);
        }
    });
}

fn main() {
    copy();
    receive("receive, packed, 6144", Compression::None, 6144, true);
    receive("receive, packed, 65535", Compression::None, u16::MAX, true);
    receive("receive, one message a frame", Compression::None, 6144, false);
    receive("receive, packed, lz4", Compression::Lz4, 6144, true);
    receive("receive, packed, zlib (and packing it)", Compression::Zlib, 6144, true);
    for a_flush in [1, 4, 16, 66, 264] {
        pack(&format!("pack, 100 connections, {a_flush} a flush"), Compression::None, 6144, a_flush);
    }
    pack("pack, 100 connections, 66 a flush, lz4", Compression::Lz4, 6144, 66);
    pack("pack, 100 connections, 66 a flush, zlib 1", Compression::Zlib, 6144, 66);
}
