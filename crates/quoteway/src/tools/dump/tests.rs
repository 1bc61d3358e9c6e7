//! Dumps of sessions made here, and of bytes that are none.

use super::*;
use rssl::{ClientConfig, Connection, ServerConfig, Sink};
use rwf::msg::{CloseMsg, Domain};
use rwf::rdm::login;
use rwf::wire::Writer;

struct Ignore;

impl Sink for Ignore {
    fn message(&mut self, _: &[u8]) {}
}

fn args(line: &str) -> Args {
    Args::try_parse_from(line.split(' ')).unwrap()
}

fn close(stream_id: i32) -> Vec<u8> {
    let mut buffer = [0; 32];
    let mut w = Writer::new(&mut buffer);
    CloseMsg::new(Domain::MARKET_PRICE, stream_id).encode(&mut w).unwrap();
    w.written().to_vec()
}

/// What each side sends: handshake, a login, and messages in every kind of frame.
fn recorded() -> (Vec<u8>, Vec<u8>) {
    let mut client = Connection::client(ClientConfig::default());
    let mut server = Connection::server(ServerConfig::default());
    let (mut from_client, mut from_server) = (Vec::new(), Vec::new());
    server.start(0, &mut from_server);
    client.start(0, &mut from_client);
    server.receive(0, &from_client, &mut from_server, &mut Ignore).unwrap();
    let heard = from_client.len();
    client.receive(0, &from_server, &mut from_client, &mut Ignore).unwrap();
    server.receive(0, &from_client[heard..], &mut from_server, &mut Ignore).unwrap();
    let mut buffer = [0; 512];
    let mut w = Writer::new(&mut buffer);
    login::Request { name: "jane".to_owned(), ..login::Request::default() }.encode(&mut w).unwrap();
    client.write(0, w.written(), &mut from_client).unwrap();
    let mut packer = server.pack(0, &mut from_server);
    packer.push(&close(7), None);
    packer.push(&close(8), None);
    packer.finish().unwrap();
    let mut long = close(9);
    long.resize(20_000, 0x20);
    server.write(0, &long, &mut from_server).unwrap();
    (from_client, from_server)
}

#[test]
fn both_directions_are_readable() {
    let dictionary = Dictionary::builtin();
    let (from_client, from_server) = recorded();
    let client = show(&from_client, &args("dump"), &dictionary).unwrap();
    assert!(client.contains("connect request, version 14") && client.contains("jane"), "{client}");
    assert!(client.contains("REQUEST LOGIN"), "{client}");
    let server = show(&from_server, &args("dump"), &dictionary).unwrap();
    for part in ["connect answer, version 14", "packed data", "stream 7", "stream 8", "first fragment", "stream 9"] {
        assert!(server.contains(part), "{part} is not in\n{server}");
    }
    assert!(!server.contains("!!"), "{server}");
}

#[test]
fn without_a_handshake_frames_are_still_readable() {
    let dictionary = Dictionary::builtin();
    let (_, from_server) = recorded();
    let handshake = usize::from(u16::from_be_bytes([from_server[0], from_server[1]]));
    let text = show(&from_server[handshake..], &args("dump"), &dictionary).unwrap();
    assert!(["stream 7", "stream 8", "stream 9"].iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn a_message_alone_and_hexadecimal_are_recognised() {
    let dictionary = Dictionary::builtin();
    let hex = close(5).iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ");
    let text = show(hex.as_bytes(), &args("dump --bytes"), &dictionary).unwrap();
    assert!(text.starts_with("CLOSE MARKET_PRICE, stream 5") && text.contains("00 08 05 06"), "{text}");
    assert!(show(b"nothing here", &args("dump"), &dictionary).is_err());
}

#[test]
fn a_recording_that_is_cut_off_is_shown_to_its_end() {
    let dictionary = Dictionary::builtin();
    let (_, from_server) = recorded();
    for cut in 1..from_server.len().min(400) {
        let text = show(&from_server[..cut], &args("dump --content rssl"), &dictionary).unwrap();
        assert!(!text.is_empty());
    }
}
