//! Captures made here, in every layout that is read; the example captures; and damaged ones.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use lbm::wire::Writer;
use lbm::wire::header::{Header, LateJoinRequest};
use lbm::wire::lbmc;
use lbm::wire::lbmr::{Advert, Builder, Transport};
use lbm::wire::lbmr_option::TopicOptions;
use lbm::wire::lbtrm::{self, Body, Data};
use lbm::wire::lbtru;

use super::*;

const SOURCE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 1, 1, 10), 33_000);
const RECEIVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 1, 1, 20), 33_001);
const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 1, 2, 3), 24_400);
const RESOLUTION: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(224, 9, 10, 11), 12_965);
const NAK_PORT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 1, 1, 10), 24_390);
const TCP_SOURCE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 1, 1, 10), 4_567);
const SESSION: u32 = 0x5E55_1D01;
const TOPIC: u32 = 7;

fn written(f: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    let mut w = Writer::new(&mut buffer);
    f(&mut w);
    w.written().to_vec()
}

fn lbtrm(body: Body<'_>) -> Vec<u8> {
    let packet = lbtrm::Packet { unicast_port: NAK_PORT.port(), session_id: SESSION, body };
    written(|w| packet.encode(w).expect("fits"))
}

fn data(sqn: u32, again: bool, payload: &[u8]) -> Vec<u8> {
    let messages = written(|w| lbmc::encode(w, lbmc::Kind::Message, TOPIC, sqn, &[], 0, payload).expect("fits"));
    let flags = if again { 0xA0 } else { 0x80 };
    lbtrm(Body::Data(Data { sqn, trail: 0, flags, group_size: 3, fec_symbol: 0, messages: &messages }))
}

fn advert(name: &[u8], transport: Transport) -> Vec<u8> {
    let mut buffer = [0; 512];
    let mut packet = Builder::new(&mut buffer, &[], false).expect("room");
    let advert = Advert { name, ttl: 60, topic: TOPIC, options: TopicOptions::default(), transport };
    packet.advert(&advert).expect("fits");
    let mut bytes = Vec::new();
    packet.finish(&mut bytes);
    bytes
}

fn multicast_advert() -> Vec<u8> {
    advert(
        b"md.ibm",
        Transport::Lbtrm {
            source: *SOURCE.ip(),
            group: *GROUP.ip(),
            session_id: SESSION,
            destination_port: GROUP.port(),
            unicast_port: NAK_PORT.port(),
        },
    )
}

fn nak(sqns: &[u32]) -> Vec<u8> {
    written(|w| lbtrm::encode_nak(w, NAK_PORT.port(), SESSION, sqns).expect("fits"))
}

fn udp(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    for field in [from.port(), to.port(), payload.len() as u16 + 8, 0] {
        segment.extend_from_slice(&field.to_be_bytes());
    }
    segment.extend_from_slice(payload);
    segment
}

fn ip(from: SocketAddrV4, to: SocketAddrV4, protocol: u8, offset: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend_from_slice(&(payload.len() as u16 + 20).to_be_bytes());
    packet.extend_from_slice(&[0, 9]);
    packet.extend_from_slice(&((offset / 8) | if more { 0x2000 } else { 0 }).to_be_bytes());
    packet.extend_from_slice(&[16, protocol, 0, 0]);
    packet.extend_from_slice(&from.ip().octets());
    packet.extend_from_slice(&to.ip().octets());
    packet.extend_from_slice(payload);
    packet
}

fn datagram(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    ip(from, to, 17, 0, false, &udp(from, to, payload))
}

fn segment(from: SocketAddrV4, to: SocketAddrV4, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut s = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    s.extend_from_slice(&sequence.to_be_bytes());
    s.extend_from_slice(&[0, 0, 0, 0, 0x50, 0x18, 0xFF, 0xFF, 0, 0, 0, 0]);
    s.extend_from_slice(payload);
    ip(from, to, 6, 0, false, &s)
}

/// The bytes before an IPv4 packet, by link type.
fn link_header(link: u32) -> Vec<u8> {
    match link {
        1 => [vec![2; 12], vec![8, 0]].concat(),
        1001 => [vec![2; 12], vec![0x81, 0, 0, 5, 8, 0]].concat(),
        2001 => [vec![2; 12], vec![0x88, 0xA8, 0, 5, 0x81, 0, 0, 6, 8, 0]].concat(),
        3001 => [vec![2; 12], vec![0x91, 0, 0, 5, 0x81, 0, 0, 6, 8, 0]].concat(),
        4001 => [vec![2; 12], vec![0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64]].concat(),
        5001 => [vec![2; 12], vec![1, 0, 0xAA, 0xAA, 3, 0, 0, 0, 8, 0]].concat(),
        1113 => [vec![0; 14], vec![0x81, 0, 0, 5, 8, 0]].concat(),
        1276 => [vec![0x81, 0], vec![0; 18], vec![0, 5, 8, 0]].concat(),
        0 => vec![2, 0, 0, 0],
        108 => vec![0, 0, 0, 2],
        113 => [vec![0; 14], vec![8, 0]].concat(),
        276 => [vec![8, 0], vec![0; 18]].concat(),
        _ => Vec::new(),
    }
}

fn pcap(link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = 0xA1B2_C3D4u32.to_le_bytes().to_vec();
    file.extend_from_slice(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 4, 0]);
    file.extend_from_slice(&(link % 1000).to_le_bytes());
    for (i, packet) in packets.iter().enumerate() {
        let frame = [link_header(link), packet.clone()].concat();
        for field in [1_700_000_000, i as u32 * 1000, frame.len() as u32, frame.len() as u32] {
            file.extend_from_slice(&field.to_le_bytes());
        }
        file.extend_from_slice(&frame);
    }
    file
}

fn pcapng(link: u16, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let length = body.len().next_multiple_of(4) + 12;
        file.extend_from_slice(&kind.to_le_bytes());
        file.extend_from_slice(&(length as u32).to_le_bytes());
        file.extend_from_slice(body);
        file.resize(file.len().next_multiple_of(4), 0);
        file.extend_from_slice(&(length as u32).to_le_bytes());
    };
    block(0x0A0D_0D0A, &[0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    // Times in nanoseconds: option 9 is 9.
    let [low, high] = link.to_le_bytes();
    block(1, &[low, high, 0, 0, 0, 0, 4, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    for (i, packet) in packets.iter().enumerate() {
        let frame = [link_header(u32::from(link)), packet.clone()].concat();
        let nanos = 1_700_000_000_000_000_000 + i as u64 * 1_000_000;
        let mut body = Vec::new();
        for field in [0, (nanos >> 32) as u32, nanos as u32, frame.len() as u32, frame.len() as u32] {
            body.extend_from_slice(&field.to_le_bytes());
        }
        body.extend_from_slice(&frame);
        block(6, &body);
    }
    file
}

/// The tool's output for a capture, and whether it was satisfied.
fn dump(file: &[u8], flags: &str) -> (String, Result<(), String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("capture");
    std::fs::write(&path, file).expect("written");
    let words = flags.split_whitespace().map(str::to_owned);
    let all = ["lbmdump".to_owned()].into_iter().chain(words).chain([path.display().to_string()]);
    let args = Args::try_parse_from(all).expect("good arguments");
    let mut out = Vec::new();
    let result = show(&args, &mut out).map_err(|e| e.to_string());
    (String::from_utf8(out).expect("text"), result)
}

fn session() -> Vec<Vec<u8>> {
    vec![
        datagram(SOURCE, RESOLUTION, &multicast_advert()),
        datagram(SOURCE, GROUP, &data(0, false, b"one")),
        datagram(SOURCE, GROUP, &data(3, false, b"four")),
        datagram(RECEIVER, NAK_PORT, &nak(&[1, 2])),
        datagram(SOURCE, GROUP, &data(1, true, b"two")),
        datagram(
            SOURCE,
            GROUP,
            &lbtrm(Body::SessionMessage { sm_sqn: 0, lead: 4, trail: 0, flags: 0x80, group_size: 3 }),
        ),
    ]
}

const EXPECTED: &str = "     \
     1     0.000000  10.1.1.10:33000 > 224.9.10.11:12965  LBMR advert md.ibm at LBTRM:10.1.1.10:24390:5e551d01:239.1.2.3:24400[7]
     2     0.001000  10.1.1.10:33000 > 239.1.2.3:24400  LBT-RM DATA 0 md.ibm[0] 3 B
     3     0.002000  10.1.1.10:33000 > 239.1.2.3:24400  LBT-RM DATA 3 md.ibm[3] 4 B [1 to 2 are missing]
     4     0.003000  10.1.1.20:33001 > 10.1.1.10:24390  LBT-RM NAK 1-2 (2)
     5     0.004000  10.1.1.10:33000 > 239.1.2.3:24400  LBT-RM DATA again 1 md.ibm[1] 3 B [was missing]
     6     0.005000  10.1.1.10:33000 > 239.1.2.3:24400  LBT-RM SM 0: has sent 0 to 4 [4 is missing]

6 frames; 1 resolution packets with 0 queries and 1 advertisements; 0 malformed

LBTRM:10.1.1.10:24390:5e551d01:239.1.2.3:24400
  3 messages in 3 datagrams, 106 bytes, in 0.005 s
  numbers 0 to 4: 3 skipped, 1 of them came later, 2 missing; 0 came twice
  missing: 2, 4
  1 retransmissions; 1 NAKs for 2 numbers; 0 NCFs for 0
    10.1.1.20 asked for 2 numbers in 1 NAKs
  md.ibm[7]: 3 messages, 10 bytes, 0 to 3, 1 missing
";

#[test]
fn a_session_reads_alike_in_every_file_format_and_link_type() {
    // Thousands: with tags of VLANs (802.1Q, 802.1ad, 0x9100), MPLS labels, a SNAP header.
    for link in [1, 1001, 2001, 3001, 4001, 5001, 0, 108, 113, 1113, 276, 1276, 101, 228] {
        assert_eq!(dump(&pcap(link, &session()), "").0.trim_start(), EXPECTED.trim_start(), "link type {link}");
    }
    let mut big = pcap(1, &session());
    big[20..24].copy_from_slice(&0x2400_0001u32.to_le_bytes());
    assert_eq!(dump(&big, "").0.trim_start(), EXPECTED.trim_start(), "frames with checksums");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&pcapng(1, &session())).expect("memory");
    let gzipped = gzip.finish().expect("memory");
    assert_eq!(dump(&gzipped, "-2").0.trim_start(), EXPECTED.trim_start(), "gzipped");
    for link in [1, 276] {
        assert_eq!(
            dump(&pcapng(link, &session()), "").0.trim_start(),
            EXPECTED.trim_start(),
            "pcapng, link type {link}"
        );
    }
}

#[test]
fn what_is_missing_fails_a_check() {
    let all = session();
    let (_, result) = dump(&pcap(1, &all), "-q --check");
    assert!(result.as_ref().is_err_and(|e| e.ends_with("2 datagrams are missing")), "{result:?}");
    assert_eq!(dump(&pcap(1, &all[..2]), "-q --check").1, Ok(()));
}

#[test]
fn names_that_come_late_are_known_on_the_second_pass() {
    let mut late = session();
    late.rotate_left(1);
    let one = dump(&pcap(1, &late), "").0;
    assert!(one.contains("topic:7[0] 3 B"), "{one}");
    let two = dump(&pcap(1, &late), "-2").0;
    assert!(two.contains("md.ibm[0] 3 B") && !two.contains("topic:7"), "{two}");
    assert!(two.contains("3 messages in 3 datagrams"), "{two}");
}

#[test]
fn filters_leave_what_was_asked_for() {
    let file = pcap(1, &session());
    let lines = |flags: &str| dump(&file, flags).0.lines().take_while(|l| !l.is_empty()).count();
    assert_eq!(lines(""), 6);
    assert_eq!(lines("--topic md.*"), 4);
    assert_eq!(lines("--topic md.x"), 0);
    assert_eq!(lines("--session 5e551d01"), 6);
    assert_eq!(lines("--session 5e551d02"), 0);
    assert_eq!(lines("--only nak,resolution"), 2);
    assert_eq!(lines("--only trouble"), 4);
    assert!(!dump(&file, "-q --topic md.x").0.contains("LBTRM"));
}

#[test]
fn json_says_the_same() {
    let text = dump(&pcap(1, &session()), "--json -v").0;
    let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!(lines.len(), 7);
    let m = &lines[1]["messages"][0];
    assert_eq!(
        (m["topic"].as_str(), m["payload"].as_str(), m["sqn"].as_u64()),
        (Some("md.ibm"), Some("6f6e65"), Some(0))
    );
    assert_eq!(lines[2]["missing"], serde_json::json!({"first": 1, "count": 2}));
    assert_eq!(lines[3]["sqns"], serde_json::json!([1, 2]));
    let summary = &lines[6]["summary"]["sessions"][0];
    assert_eq!((summary["missing"].as_u64(), summary["topics"][0]["missing"].as_u64()), (Some(2), Some(1)));
}

#[test]
fn datagrams_in_ip_fragments_are_put_together() {
    let whole = udp(SOURCE, GROUP, &data(0, false, &[b'x'; 3000]));
    let pieces = [
        ip(SOURCE, GROUP, 17, 0, true, &whole[..1480]),
        ip(SOURCE, GROUP, 17, 2960, false, &whole[2960..]),
        ip(SOURCE, GROUP, 17, 1480, true, &whole[1480..2960]),
    ];
    let text = dump(&pcap(1, &pieces), "").0;
    assert!(text.contains("IP fragment of packet 0009: 1480 bytes at 0\n"), "{text}");
    assert!(text.contains("IP fragment of packet 0009: 80 bytes at 2960, the last\n"), "{text}");
    assert!(text.contains("LBT-RM DATA 0 topic:7[0] 3000 B"), "{text}");
    let text = dump(&pcap(1, &pieces[..2]), "-q").0;
    assert!(text.contains("1 datagrams without all their fragments"), "{text}");
}

#[test]
fn a_train_is_cut_where_the_kernel_would_have_cut_it() {
    let train = [data(5, false, b"five"), data(6, false, b"six!"), data(7, false, b"7")].concat();
    let text = dump(&pcap(1, &[datagram(SOURCE, GROUP, &train)]), "").0;
    assert!(
        ["DATA 5 topic:7[5] 4 B", "DATA 6 topic:7[6] 4 B", "DATA 7 topic:7[7] 1 B"].iter().all(|p| text.contains(p)),
        "{text}"
    );
    assert!(text.contains("0 malformed; 1 captured before the kernel cut them"), "{text}");
}

#[test]
fn a_train_by_unicast_is_cut_as_well() {
    let datagram_of = |sqn: u32, payload: &[u8]| {
        let messages = written(|w| lbmc::encode(w, lbmc::Kind::Message, TOPIC, sqn, &[], 0, payload).expect("fits"));
        let identity = lbtru::Identity { session_id: Some(SESSION), client_id: None };
        let body = lbtru::Body::Data { sqn, trail: 0, messages: &messages };
        written(|w| lbtru::Packet { flags: 0, identity, body }.encode(w).expect("fits"))
    };
    let train = [datagram_of(5, b"five"), datagram_of(6, b"six!"), datagram_of(7, b"7")].concat();
    let (from, to) = (SocketAddrV4::new(*SOURCE.ip(), 14_380), SocketAddrV4::new(*RECEIVER.ip(), 14_360));
    let text = dump(&pcap(1, &[datagram(from, to, &train)]), "").0;
    assert!(
        ["DATA 5 topic:7[5] 4 B", "DATA 6 topic:7[6] 4 B", "DATA 7 topic:7[7] 1 B"].iter().all(|p| text.contains(p)),
        "{text}"
    );
    assert!(text.contains("0 malformed; 1 captured before the kernel cut them"), "{text}");
}

#[test]
fn messages_on_tcp_are_found_by_the_advertisement() {
    let transport = Transport::Tcp { address: *TCP_SOURCE.ip(), session_id: Some(5), port: TCP_SOURCE.port() };
    let message = |sqn| written(|w| lbmc::encode(w, lbmc::Kind::Message, TOPIC, sqn, &[], 0, b"hello").expect("fits"));
    let stream = [message(0), message(1), message(2)].concat();
    let hello = written(|w| {
        lbmc::encode_control(w, &[Header::SessionId { flags: 0, id: 5 }]).expect("fits");
    });
    let request = LateJoinRequest {
        flags: 0x8000,
        request: 1,
        transport: 0,
        topic: TOPIC,
        address: *RECEIVER.ip(),
        port: 14_392,
        low_sqn: 0,
        requests_max: 0,
        outstanding_max: 0,
    };
    let request = written(|w| lbmc::encode_control(w, &[Header::LateJoinRequest(request)]).expect("fits"));
    let packets = [
        datagram(SOURCE, RESOLUTION, &advert(b"x.tcp", transport)),
        segment(RECEIVER, TCP_SOURCE, 100, &hello),
        segment(TCP_SOURCE, RECEIVER, 500, &stream[..20]),
        segment(TCP_SOURCE, RECEIVER, 525, &stream[25..]),
        segment(TCP_SOURCE, RECEIVER, 520, &stream[20..25]),
        segment(RECEIVER, SocketAddrV4::new(*SOURCE.ip(), 14_391), 1, &request),
    ];
    let (text, result) = dump(&pcap(1, &packets), "--check");
    assert_eq!(result, Ok(()), "{text}");
    for part in [
        "TCP session id 00000005",
        "TCP x.tcp[0] 5 B\n",
        "TCP x.tcp[1] 5 B, x.tcp[2] 5 B\n",
        "late join: what is retained of topic 7? answer to 10.1.1.20:14392",
        "x.tcp[7]: 3 messages, 15 bytes, 0 to 2, 0 missing",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

/// Two hundred messages in segments that do not care where messages begin.
fn stream_of_messages() -> (Vec<u8>, Vec<Vec<u8>>) {
    let transport = Transport::Tcp { address: *TCP_SOURCE.ip(), session_id: Some(5), port: TCP_SOURCE.port() };
    let message = |sqn| {
        let payload = vec![sqn as u8; 20 + sqn as usize % 37];
        written(|w| lbmc::encode(w, lbmc::Kind::Message, TOPIC, sqn, &[], 0, &payload).expect("fits"))
    };
    let stream: Vec<u8> = (0..200).flat_map(message).collect();
    let mut packets = vec![datagram(SOURCE, RESOLUTION, &advert(b"x.tcp", transport))];
    let mut sequence = 500;
    for part in stream.chunks(1_000) {
        packets.push(segment(TCP_SOURCE, RECEIVER, sequence, part));
        sequence += part.len() as u32;
    }
    (stream, packets)
}

#[test]
fn a_stream_that_was_captured_from_within_a_message_is_read_from_the_next_one() {
    let (_, mut packets) = stream_of_messages();
    let (text, result) = dump(&pcap(1, &packets), "-q --check");
    assert!(result == Ok(()) && text.contains("x.tcp[7]: 200 messages"), "{text}");
    // The first segment is gone: the next begins within a message.
    packets.remove(1);
    let (text, result) = dump(&pcap(1, &packets), "-q --check");
    let error = result.expect_err("bytes in which no message was found");
    assert!(error.contains("bytes of TCP streams are out of step") && !error.contains("malformed"), "{error}");
    let messages: u32 =
        text.split("x.tcp[7]: ").nth(1).and_then(|t| t.split(' ').next()?.parse().ok()).expect("a count");
    assert!((170..180).contains(&messages), "{text}");
    // A whole segment in the middle is missing, too.
    packets.remove(4);
    let (text, result) = dump(&pcap(1, &packets), "--check");
    assert!(result.is_err_and(|e| e.contains("1000 bytes of TCP streams are missing")), "{text}");
    assert!(text.contains("1000 bytes before this are missing"), "{text}");
    assert!(text.contains(", 24 to 199, "), "{text}");
}

#[test]
fn messages_on_other_ports_are_found_by_an_option_or_an_advertisement() {
    let (_, packets) = stream_of_messages();
    let (text, _) = dump(&pcap(1, &packets[1..]), "-q");
    assert!(text.contains("of other protocols"), "{text}");
    let (text, result) = dump(&pcap(1, &packets[1..]), "--check --tcp-port 4567");
    assert!(result == Ok(()) && text.contains("200 messages in 10 segments"), "{text}");
}

#[test]
fn what_is_malformed_in_a_stream_is_passed_over() {
    let (stream, packets) = stream_of_messages();
    let mut damaged = stream.clone();
    damaged[300] ^= 0xF0;
    let at = (0..200usize)
        .scan(0, |at, n| {
            let begin = *at;
            *at += 12 + 20 + n % 37;
            Some(begin)
        })
        .find(|at| *at > 300)
        .expect("a message");
    damaged[at] = 0xFF;
    let packets = [vec![packets[0].clone()], vec![segment(TCP_SOURCE, RECEIVER, 500, &damaged)]].concat();
    let (text, result) = dump(&pcap(1, &packets), "--check");
    let error = result.expect_err("a malformed message");
    assert!(error.contains("1 packets or messages are malformed") && error.contains("out of step"), "{error}");
    assert!(text.contains("199 messages") && text.contains(", 0 to 199, 1 missing"), "{text}");
}

#[test]
fn the_example_captures_are_understood() {
    let folder = std::env::var_os("QUOTEWAY_LBM_WIRE").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/spec/lbm-wire-example"),
        PathBuf::from,
    );
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}; set QUOTEWAY_LBM_WIRE", path.display()))
    };
    for name in ["lbm-core.pcap", "lbm-alt.pcap"] {
        let (text, result) = dump(&read(name), "--check");
        assert_eq!(result, Ok(()), "{text}");
        assert!(text.contains("numbers 0 to 13: 3 skipped, 3 of them came later, 0 missing; 0 came twice"), "{text}");
        assert!(text.contains("md.equities.ibm[268435457]: 10 messages, 188 bytes, 0 to 9, 0 missing"), "{text}");
        assert!(text.contains("TSNI md.equities.ibm at 2, md.futures.es at 3"), "{text}");
    }
    let extra = dump(&read("lbm-extra.pcap"), "").0;
    for part in ["LBT-RU connect request", "x.ru[0] 4 B", "TCP x.tcp[0] 5 B", "x.rm.latejoin[5] again", "0 malformed"] {
        assert!(extra.contains(part), "{part:?} is not in\n{extra}");
    }
    let bad = dump(&read("lbm-bad.pcap"), "").0;
    assert!(bad.contains("!! no LBT-RM packet: LBT-RM next header at byte 1 is invalid"), "{bad}");
    assert!(bad.contains("3 malformed"), "{bad}");
}

#[test]
fn a_file_that_is_cut_off_is_shown_to_its_end() {
    let file = pcapng(1, &session());
    let (text, result) = dump(&file[..file.len() - 10], "");
    assert!(result.is_err_and(|e| e.contains("cut off at its end")));
    assert!(text.contains("Not read whole: the file is cut off") && text.contains("NAK 1-2"), "{text}");
    assert!(dump(b"what is this", "").1.is_err_and(|e| e.contains("is no pcap or pcapng capture")));
}

/// With a short snap length: what was captured is followed, and what was not is no fault of the sender.
#[test]
fn packets_that_were_captured_in_part_are_no_malformed_ones() {
    let whole = session();
    let cut = |to: usize| -> Vec<Vec<u8>> { whole.iter().map(|p| p[..p.len().min(to)].to_vec()).collect() };
    // The header of LBT-RM, and a part of its message.
    let (text, _) = dump(&pcap(1, &cut(20 + 8 + 20 + 13)), "");
    assert!(text.contains("LBT-RM DATA 3 without messages [1 to 2 are missing] [the rest was not captured]"), "{text}");
    assert!(text.contains("LBMR packet of which the capture has 33 bytes"), "{text}");
    assert!(text.contains("0 malformed") && text.contains("captured in part (raise the snap length)"), "{text}");
    assert!(text.contains("numbers 0 to 4: 3 skipped, 1 of them came later, 2 missing"), "{text}");
    // Not even that.
    let (text, _) = dump(&pcap(1, &cut(20 + 8 + 10)), "-v");
    assert!(text.contains("LBT-RM packet of which the capture has 10 bytes") && text.contains("0 malformed"), "{text}");
    let json = dump(&pcap(1, &cut(20 + 8 + 10)), "--json").0;
    assert!(json.contains(r#""kind":"cut""#), "{json}");
}

#[test]
fn any_bytes_are_shown_without_a_panic() {
    let mut random = 0x9ABC_DEF1_1234_5678_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    let good = session();
    for round in 0..600 {
        let mut bytes = vec![next(8) as u8];
        for packet in &good {
            let frame = [link_header(LINKS.get(usize::from(bytes[0])).copied().unwrap_or(1)), packet.clone()].concat();
            bytes.extend_from_slice(&(frame.len() as u16).to_be_bytes());
            bytes.extend_from_slice(&frame);
        }
        for _ in 0..next(6) {
            let at = 1 + next(bytes.len() - 1);
            bytes[at] = next(256) as u8;
        }
        bytes.truncate(bytes.len() - next(2) * next(200));
        hostile(&bytes);
        if round % 10 == 0 {
            hostile(&[&[255][..], &pcapng(1, &good)[..next(400)]].concat());
        }
    }
}

#[test]
fn damaged_captures_are_shown_without_a_panic() {
    let file = pcap(1, &session());
    let mut random = 0x1234_5678_9ABC_DEF1_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    let mut shown = 0;
    for _ in 0..3000 {
        let mut bytes = file.clone();
        for _ in 0..=next(4) {
            let at = 24 + next(bytes.len() - 24);
            bytes[at] = next(256) as u8;
        }
        let args = Args::try_parse_from(["lbmdump", "-vv", "x"]).expect("good arguments");
        let mut dissector = Dissector::new(Ports::default());
        let mut text = String::new();
        let _ = each_frame(Box::new(&bytes[..]), |frame| {
            dissector.frame(&frame, &mut |record, book| {
                text::line(record, book, 0, &mut text);
                text::details(record, book, args.verbose > 1, &mut text);
                text.push_str(&json::packet(record, book, true).to_string());
                shown += 1;
            });
            true
        });
    }
    assert!(shown > 3000, "most packets are still shown: {shown}");
}

#[test]
fn hot_failover_numbers_are_told() {
    let chain = |elements: &'static [u8]| {
        Header::ApplicationChain(lbm::wire::header::ApplicationChain { reserved: 0, first: 2, elements })
    };
    for (elements, told) in [
        (&[0xFF, 8, 0, 0, 0, 0, 1, 5][..], "hot failover number 261 (32 bits)"),
        (&[0xFF, 12, 0, 0, 1, 0, 0, 0, 0, 0, 0, 5], "hot failover number 72057594037927941 (64 bits)"),
        (&[0xFF, 7, 0, 0, 1, 2, 3], "application headers"),
    ] {
        assert_eq!(crate::text::header_text(&chain(elements)), told);
    }
}
