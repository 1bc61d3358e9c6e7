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

/// The text of some input.
fn text_of(input: &[u8], args: &Args, dictionary: &Dictionary) -> Result<String, String> {
    let (output, problems) = show(input, args, dictionary).map_err(|e| e.to_string())?;
    assert!(problems.is_empty(), "{problems:?}");
    Ok(String::from_utf8(output).unwrap())
}

fn close(stream_id: i32) -> Vec<u8> {
    let mut buffer = [0; 32];
    let mut w = Writer::new(&mut buffer);
    CloseMsg::new(Domain::MARKET_PRICE, stream_id).encode(&mut w).unwrap();
    w.written().to_vec()
}

/// The bytes of each side: handshake, a login, and messages in every kind of frame.
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
    let client = text_of(&from_client, &args("dump"), &dictionary).unwrap();
    assert!(client.contains("connect request, version 14") && client.contains("jane"), "{client}");
    assert!(client.contains("REQUEST LOGIN"), "{client}");
    let server = text_of(&from_server, &args("dump"), &dictionary).unwrap();
    for part in ["connect answer, version 14", "packed data", "stream 7", "stream 8", "first fragment", "stream 9"] {
        assert!(server.contains(part), "{part} is not in\n{server}");
    }
    assert!(!server.contains("!!"), "{server}");
}

#[test]
fn a_peer_steers_no_terminal_by_its_name() {
    let mut client =
        Connection::client(ClientConfig { component: "x\u{1b}[2J\ny".to_owned(), ..ClientConfig::default() });
    let mut from_client = Vec::new();
    client.start(0, &mut from_client);
    let text = text_of(&from_client, &args("dump"), &Dictionary::builtin()).unwrap();
    assert!(text.contains(r"x\u{1b}[2J\ny") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn without_a_handshake_frames_are_still_readable() {
    let dictionary = Dictionary::builtin();
    let (_, from_server) = recorded();
    let handshake = usize::from(u16::from_be_bytes([from_server[0], from_server[1]]));
    let text = text_of(&from_server[handshake..], &args("dump"), &dictionary).unwrap();
    assert!(["stream 7", "stream 8", "stream 9"].iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn a_message_alone_and_hexadecimal_are_recognised() {
    let dictionary = Dictionary::builtin();
    let hex = close(5).iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ");
    let text = text_of(hex.as_bytes(), &args("dump --bytes"), &dictionary).unwrap();
    assert!(text.starts_with("CLOSE MARKET_PRICE, stream 5") && text.contains("00 08 05 06"), "{text}");
    assert!(text_of(b"nothing here", &args("dump"), &dictionary).is_err());
}

#[test]
fn a_recording_that_is_cut_off_is_shown_to_its_end() {
    let dictionary = Dictionary::builtin();
    let (_, from_server) = recorded();
    for cut in 1..from_server.len().min(400) {
        let (text, problems) = show(&from_server[..cut], &args("dump --content rssl"), &dictionary).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(!text.is_empty());
        assert_eq!(problems.len(), usize::from(text.contains("is cut off")), "{cut}: {problems:?}");
    }
}

/// A capture of a session: Ethernet, IPv4, TCP; segments cut anywhere, one of them repeated, two of them swapped.
fn captured() -> Vec<u8> {
    let (from_client, from_server) = recorded();
    let mut packets = Vec::new();
    for (bytes, ports) in [(&from_client, [40_000u16, 14_002]), (&from_server, [14_002, 40_000])] {
        let mut sequence = 0xFFFF_FFF0u32;
        packets.push(segment(ports, sequence, 0x02, &[]));
        sequence = sequence.wrapping_add(1);
        for part in bytes.chunks(40) {
            packets.push(segment(ports, sequence, 0x10, part));
            sequence = sequence.wrapping_add(part.len() as u32);
        }
        let end = packets.len();
        assert!(bytes.len() > 80, "three segments at least");
        packets.swap(end - 1, end - 2);
        packets.push(packets[end - 1].clone());
    }
    packets.push(segment([80, 50_000], 1, 0x10, b"HTTP/1.1 200 OK\r\n"));
    let mut file = vec![0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 1, 0, 0, 0];
    for (n, packet) in packets.iter().enumerate() {
        file.extend([1, 0, 0, 0]);
        file.extend((n as u32 * 1_000).to_le_bytes());
        file.extend((packet.len() as u32).to_le_bytes());
        file.extend((packet.len() as u32).to_le_bytes());
        file.extend(packet);
    }
    file
}

fn segment(ports: [u16; 2], sequence: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((40 + bytes.len() as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 6, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
    frame.extend(ports[0].to_be_bytes());
    frame.extend(ports[1].to_be_bytes());
    frame.extend(sequence.to_be_bytes());
    frame.extend([0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    frame.extend(bytes);
    frame
}

#[test]
fn a_capture_shows_both_directions_whatever_became_of_its_segments() {
    let dictionary = Dictionary::builtin();
    let text = text_of(&captured(), &args("dump"), &dictionary).unwrap();
    for part in ["127.0.0.1:40000 -> 127.0.0.1:14002", "jane", "stream 7", "stream 8", "stream 9"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("!!") && !text.contains("50000"), "{text}");
    assert_eq!(text.matches("stream 9").count(), 1);
    let json = text_of(&captured(), &args("dump --json"), &dictionary).unwrap();
    let lines: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!((&lines[0]["from"], &lines[0]["message"]["Domain"]), (&"127.0.0.1:40000".into(), &"Login".into()));
    let error = text_of(&captured(), &args("dump --port 9"), &dictionary).unwrap_err();
    assert!(error.contains("--port"), "{error}");
}

#[test]
fn a_capture_cut_off_anywhere_is_shown_to_its_end_and_said_to_be_cut() {
    let dictionary = Dictionary::builtin();
    let capture = captured();
    for cut in (24..capture.len()).step_by(7) {
        let said = match show(&capture[..cut], &args("dump --port 14002"), &dictionary) {
            Ok((_, problems)) => problems.join("; "),
            Err(error) => error.to_string(),
        };
        // The seams of frames are all that is left out of the step of seven.
        let at_a_seam = ::capture::Reader::new(&capture[..cut]).is_ok_and(|mut reader| {
            while let Ok(Some(_)) = reader.next_frame() {}
            reader.left_out().is_none()
        });
        assert!(at_a_seam || said.contains("cut off at its end"), "{cut}: {said}");
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn all_members_of_gzip_are_read_and_what_follows_them_is_told() {
    let dictionary = Dictionary::builtin();
    let capture = captured();
    let plain = text_of(&capture, &args("dump --json"), &dictionary).unwrap();
    let (first, second) = capture.split_at(capture.len() / 2);
    let members = [gzip(first), gzip(second)].concat();
    assert_eq!(text_of(&members, &args("dump --json"), &dictionary).unwrap(), plain);
    for (bytes, word) in
        [([&members[..], b"tail"].concat(), "4 bytes behind"), (members[..members.len() - 3].to_vec(), "cut off")]
    {
        let (output, problems) = show(&bytes, &args("dump --json"), &dictionary).unwrap();
        assert_eq!(String::from_utf8(output).unwrap(), plain);
        assert!(problems.len() == 1 && problems[0].contains(word), "{problems:?}");
    }
    // A file that is no capture is unpacked as well.
    let json = br#"{"ID":5,"Type":"Update","Fields":{"BID":1.25}}"#;
    let hex = text_of(json, &args("dump --from-json"), &dictionary).unwrap();
    assert_eq!(text_of(&gzip(json), &args("dump --from-json"), &dictionary).unwrap(), hex);
    let (from_client, _) = recorded();
    let frames = text_of(&from_client, &args("dump"), &dictionary).unwrap();
    assert_eq!(text_of(&gzip(&from_client), &args("dump"), &dictionary).unwrap(), frames);
}

#[test]
fn bytes_that_a_snap_length_left_out_are_told_and_frames_are_found_behind_them() {
    let dictionary = Dictionary::builtin();
    let (_, from_server) = recorded();
    let handshake = usize::from(u16::from_be_bytes([from_server[0], from_server[1]]));
    let mut frames = vec![&from_server[..handshake]];
    let mut at = handshake;
    while at < from_server.len() {
        let length = usize::from(u16::from_be_bytes([from_server[at], from_server[at + 1]]));
        frames.push(&from_server[at..at + length]);
        at += length;
    }
    assert!(frames.len() >= 4 && frames.iter().any(|frame| frame.len() > 1_000));
    let mut file = Vec::new();
    let pcap = ::capture::write::Pcap::begin(::capture::link::ETHERNET, &mut file);
    let mut sequence = 100u32;
    for frame in [frames.as_slice(), &[frames[1]]].concat() {
        let packet = segment([14_002, 40_000], sequence, 0x10, frame);
        pcap.frame(0, &packet[..packet.len().min(300)], packet.len(), &mut file);
        sequence += frame.len() as u32;
    }
    let (output, problems) = show(&file, &args("dump --json"), &dictionary).unwrap();
    let text = String::from_utf8(output).unwrap();
    // The packed messages 7 and 8 before the long one, and again behind it.
    assert_eq!((text.matches("\"ID\":7").count(), text.matches("\"ID\":8").count()), (2, 2), "{text}");
    assert!(problems.iter().any(|p| p.contains("are not in the capture") && p.contains("snap length")), "{problems:?}");
}

#[test]
fn a_session_that_was_captured_from_within_a_frame_is_read_by_its_port() {
    let dictionary = Dictionary::builtin();
    let (_, from_server) = recorded();
    let handshake = usize::from(u16::from_be_bytes([from_server[0], from_server[1]]));
    let packed = &from_server[handshake..];
    let mut file = Vec::new();
    let pcap = ::capture::write::Pcap::begin(::capture::link::ETHERNET, &mut file);
    let length = usize::from(u16::from_be_bytes([packed[0], packed[1]]));
    for (sequence, bytes) in [(105, &packed[5..length]), (100 + length as u32, &packed[length..])] {
        let packet = segment([14_002, 40_000], sequence, 0x10, bytes);
        pcap.frame(0, &packet, packet.len(), &mut file);
    }
    let (output, problems) = show(&file, &args("dump --port 14002"), &dictionary).unwrap();
    let text = String::from_utf8(output).unwrap();
    assert!(text.contains("stream 9") && text.contains("in which no frame begins"), "{text}");
    assert!(problems.iter().any(|p| p.contains("or in no frame")), "{problems:?}");
}

#[test]
fn messages_become_json_and_json_becomes_messages() {
    let dictionary = Dictionary::builtin();
    let json = r#"{"ID":5,"Type":"Update","UpdateType":"Quote","Fields":{"BID":1.25,"ASK":1.5,"BID_TICK_1":1}}"#;
    let hex = text_of(json.as_bytes(), &args("dump --from-json"), &dictionary).unwrap();
    let back = text_of(hex.as_bytes(), &args("dump --json"), &dictionary).unwrap();
    assert_eq!(back.trim_end(), json);
    let shown = text_of(json.as_bytes(), &args("dump --from-json --to text"), &dictionary).unwrap();
    assert!(shown.starts_with("UPDATE MARKET_PRICE, stream 5") && shown.contains("ASK"), "{shown}");
    let (raw, _) = show(json.as_bytes(), &args("dump --from-json --to raw"), &dictionary).unwrap();
    assert_eq!(text_of(&raw, &args("dump --content message --to hex"), &dictionary).unwrap(), hex);
    for (bad, part) in [("{\"Type\":\"No\",\"ID\":5}\n", "line 1"), ("\n\n[1]", "line 3"), ("", "no message")] {
        let error = text_of(bad.as_bytes(), &args("dump --from-json"), &dictionary).unwrap_err();
        assert!(error.contains(part), "{bad}: {error}");
    }
    let (output, problems) = show(&[0, 1, 2], &args("dump --content message --json"), &dictionary).unwrap();
    assert!(output.is_empty() && problems.len() == 1, "{problems:?}");
}

/// A folder outside the project.
fn shared(variable: &str, folder: &str) -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(folder);
    std::env::var_os(variable).map_or_else(default, PathBuf::from)
}

#[test]
fn the_sdks_texts_come_out_of_the_command_and_lead_back_through_it() {
    let dictionary = load_dictionary(Some(&shared("QUOTEWAY_DICTIONARY", "dictionary"))).unwrap();
    let file = shared("QUOTEWAY_VECTORS", "vectors").join("json/rwf_to_json.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let (mut there, mut back) = (0, 0);
    for case in text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()) {
        let (Some(hex), Some(json)) = (case["rwf_hex"].as_str(), case["json"].as_str()) else { continue };
        if case["settings"] != "default" || serde_json::from_str::<serde_json::Value>(json).is_err() {
            continue;
        }
        let to_json = args("dump --json --content message --coding hex --default-service 1");
        let found = text_of(hex.as_bytes(), &to_json, &dictionary).unwrap();
        there += usize::from(found.trim_end() == json);
        let from_json = args("dump --from-json --explicit --default-service 1");
        let Ok(rwf) = text_of(json.as_bytes(), &from_json, &dictionary) else { continue };
        back += usize::from(text_of(rwf.as_bytes(), &to_json, &dictionary).unwrap() == found);
    }
    // The rest is what the converter's own tests name: texts that the SDK garbles.
    assert!(there > 550 && back > 550, "{there} there, {back} back");
}

#[test]
fn marketfeed_is_shown_and_converted() {
    let bytes = b"\x1c316\x1fXX\x1dGBP=\x1f4711\x1e22\x1f1.5520\x1e3\x1f\x1b[2`AB\x1c\r\n\x1c316\x1dX";
    let args = Args::parse_from(["dump", "--marketfeed"]);
    let (text, problems) = show(bytes, &args, &Dictionary::builtin()).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("316 GBP=, rtl 4711, tag XX"));
    assert!(lines.next().is_some_and(|line| line.starts_with("      22 BID") && line.ends_with("1.5520")), "{text}");
    assert!(text.contains("<1B>[2`AB") && text.contains("cut off, 6 bytes") && problems.is_empty(), "{text}");

    let args = Args::parse_from(["dump", "--marketfeed", "--json"]);
    let (json, problems) = show(bytes, &args, &Dictionary::builtin()).unwrap();
    assert!(String::from_utf8(json).unwrap().contains("\"BID\":1.552"));
    assert_eq!(problems, ["offset 39: a message that is cut off, 6 bytes"]);
    assert!(show(b"nothing", &args, &Dictionary::builtin()).is_err());
}
