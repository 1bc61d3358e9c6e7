//! What the data path and idle sessions cost in memory.

use rssl::{ClientConfig, Compression, CompressionSet, Connection, ServerConfig, Sink};

struct Nothing;
impl Sink for Nothing {
    fn message(&mut self, _: &[u8]) {}
}

fn connect(compression: Compression) -> (Connection, Connection) {
    let offer = match compression {
        Compression::None => CompressionSet::NONE,
        Compression::Zlib => CompressionSet::ZLIB,
        Compression::Lz4 => CompressionSet::LZ4,
    };
    let mut client = Connection::client(ClientConfig { compression: offer, ..ClientConfig::default() });
    let mut server = Connection::server(ServerConfig { compression, ..ServerConfig::default() });
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    client.start(0, &mut to_server);
    server.receive(0, &to_server, &mut to_client, &mut Nothing).unwrap();
    to_server.clear();
    client.receive(0, &to_client, &mut to_server, &mut Nothing).unwrap();
    server.receive(0, &to_server, &mut to_client, &mut Nothing).unwrap();
    (client, server)
}

/// One turn: 200 messages packed, a single one, a fragmented one, a ping; read in pieces that end anywhere.
fn turn(now: u64, writer: &mut Connection, reader: &mut Connection, wire: &mut Vec<u8>, body: &[u8], large: &[u8]) {
    wire.clear();
    let mut packer = writer.pack(now, wire);
    for stream in 0..200 {
        packer.push(body, Some(stream));
    }
    packer.finish().unwrap();
    writer.write(now, body, wire).unwrap();
    writer.write(now, large, wire).unwrap();
    writer.on_timer(now + 25_000_000_000, wire).unwrap();
    let mut answers = Vec::new();
    for part in wire.chunks(7_001) {
        reader.receive(now, part, &mut answers, &mut Nothing).unwrap();
    }
    assert!(answers.is_empty());
}

#[test]
fn a_warm_session_allocates_nothing() {
    let body: Vec<u8> = (0..85u8).collect();
    let large: Vec<u8> = (0..20_000u32).map(|n| (n / 3) as u8).collect();
    for compression in [Compression::None, Compression::Zlib, Compression::Lz4] {
        let (mut client, mut server) = connect(compression);
        let mut wire = Vec::new();
        for now in 0..3 {
            turn(now, &mut server, &mut client, &mut wire, &body, &large);
            turn(now, &mut client, &mut server, &mut wire, &body, &large);
        }
        let info = allocation_counter::measure(|| {
            for now in 3..20 {
                turn(now, &mut server, &mut client, &mut wire, &body, &large);
                turn(now, &mut client, &mut server, &mut wire, &body, &large);
            }
        });
        assert_eq!(info.count_total, 0, "{compression:?}");
    }
}

#[test]
fn idle_sessions_own_no_buffers() {
    let body = [1u8; 85];
    let config = std::sync::Arc::new(ServerConfig::default());
    let mut out = Vec::new();
    let mut request = Vec::new();
    let info = allocation_counter::measure(|| {
        let mut client = Connection::client(ClientConfig { key_exchange: false, ..ClientConfig::default() });
        client.start(0, &mut request);
        let mut sessions: Vec<Connection> =
            (0..1_000).map(|_| Connection::server(std::sync::Arc::clone(&config))).collect();
        for session in &mut sessions {
            out.clear();
            session.start(0, &mut out);
            session.receive(0, &request, &mut out, &mut Nothing).unwrap();
            // Active for a while: packed output, and input cut within a frame.
            let mut packer = session.pack(0, &mut out);
            for _ in 0..100 {
                packer.push(&body, Some(5));
            }
            packer.finish().unwrap();
            let mut message = vec![0, 88, 2];
            message.extend_from_slice(&body);
            session.receive(0, &message[..40], &mut out, &mut Nothing).unwrap();
            session.receive(0, &message[40..], &mut out, &mut Nothing).unwrap();
            assert!(session.is_connected());
        }
        std::mem::forget(sessions);
    });
    let per_session = info.bytes_current / 1_000;
    assert!(per_session < 600, "{per_session} bytes for each idle session");
}
