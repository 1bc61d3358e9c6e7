//! The decoder rebuilds every packet of the example captures byte for byte.

use std::path::PathBuf;

use lbm::wire::header::Header;
use lbm::wire::lbmc::{self, Messages, NEXT_DATA};
use lbm::wire::properties::{self, Properties, Value};
use lbm::wire::{Writer, lbmr, lbtrm, lbtru};

/// A transport payload of a capture.
struct Payload {
    frame: usize,
    tcp: bool,
    source_port: u16,
    destination_port: u16,
    bytes: Vec<u8>,
}

fn folder() -> PathBuf {
    std::env::var_os("QUOTEWAY_LBM_WIRE").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/spec/lbm-wire-example"),
        PathBuf::from,
    )
}

/// Reads a classic pcap file of Ethernet frames with IPv4, UDP or TCP. The files are good; anything else fails the test.
fn payloads(name: &str) -> Vec<Payload> {
    let path = folder().join(name);
    let file = std::fs::read(&path).unwrap_or_else(|e| {
        panic!("{}: {e}; set QUOTEWAY_LBM_WIRE to the folder of the example captures", path.display())
    });
    assert_eq!(file[..4], 0xA1B2_C3D4u32.to_le_bytes());
    let (mut at, mut payloads) = (24, Vec::new());
    let u16_at = |b: &[u8], i: usize| u16::from_be_bytes([b[i], b[i + 1]]);
    while at < file.len() {
        let length = u32::from_le_bytes(file[at + 8..at + 12].try_into().expect("four bytes")) as usize;
        let frame = &file[at + 16..at + 16 + length];
        at += 16 + length;
        let ip = &frame[14..];
        let segment = &ip[usize::from(ip[0] & 15) * 4..usize::from(u16_at(ip, 2))];
        let tcp = ip[9] == 6;
        let header = if tcp { usize::from(segment[12] >> 4) * 4 } else { 8 };
        payloads.push(Payload {
            frame: payloads.len() + 1,
            tcp,
            source_port: u16_at(segment, 0),
            destination_port: u16_at(segment, 2),
            bytes: segment[header..].to_vec(),
        });
    }
    payloads
}

fn written(f: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    let mut w = Writer::new(&mut buffer);
    f(&mut w);
    w.written().to_vec()
}

/// Takes the messages apart and puts them together again; returns how many there were.
fn rebuild_messages(bytes: &[u8]) -> (Vec<u8>, usize) {
    let mut count = 0;
    let rebuilt = written(|w| {
        for message in Messages::new(bytes) {
            let message = message.expect("a good message");
            let mut headers = message.headers();
            let parts: Vec<Header<'_>> = headers.by_ref().map(|h| h.expect("a good header")).collect();
            assert!(!parts.iter().any(|h| matches!(h, Header::Unknown { .. })), "{parts:?}");
            let content = message.content().expect("a good chain");
            assert_eq!(content.payload, headers.payload());
            let payload = with_properties(content.payload, content.properties as usize);
            lbmc::encode(w, message.kind, message.topic, message.sqn, &parts, headers.end(), &payload).expect("fits");
            count += 1;
        }
    });
    (rebuilt, count)
}

/// The payload with its properties decoded and encoded again.
fn with_properties(payload: &[u8], length: usize) -> Vec<u8> {
    let (data, block) = payload.split_at(payload.len() - length);
    if block.is_empty() {
        return data.to_vec();
    }
    let fields: Vec<(&[u8], Value<'_>)> =
        Properties::decode(block).expect("properties").iter().map(|f| f.expect("a property")).collect();
    assert_eq!(fields, [(b"venue".as_slice(), Value::Int(12)), (b"px".as_slice(), Value::Int(14211))]);
    [data, &written(|w| properties::encode(w, &fields).expect("fits"))].concat()
}

fn rebuild_lbtrm(bytes: &[u8]) -> Vec<u8> {
    let mut packet = lbtrm::Packet::decode(bytes).expect("LBT-RM");
    let messages;
    if let lbtrm::Body::Data(data) = &mut packet.body {
        messages = rebuild_messages(data.messages).0;
        data.messages = &messages;
    }
    written(|w| packet.encode(w).expect("fits"))
}

fn rebuild_lbtru(bytes: &[u8]) -> Vec<u8> {
    let mut packet = lbtru::Packet::decode(bytes).expect("LBT-RU");
    let rebuilt;
    if let lbtru::Body::Data { messages, .. } = &mut packet.body {
        rebuilt = rebuild_messages(messages).0;
        *messages = &rebuilt;
    }
    written(|w| packet.encode(w).expect("fits"))
}

fn rebuild_lbmr(bytes: &[u8]) -> Vec<u8> {
    let packet = lbmr::Packet::decode(bytes).expect("LBMR");
    assert!(!matches!(packet.body, lbmr::Body::Other { .. }), "{packet:?}");
    written(|w| packet.encode(w).expect("fits"))
}

/// (LBMR, LBT-RM, LBT-RU, TCP) packets of a capture, each rebuilt.
fn rebuild_capture(name: &str) -> [usize; 4] {
    let mut counts = [0; 4];
    for payload in payloads(name) {
        if payload.bytes.is_empty() {
            continue;
        }
        let ports = [payload.source_port, payload.destination_port];
        let (kind, rebuilt) = if payload.tcp {
            (3, rebuild_messages(&payload.bytes).0)
        } else if ports.iter().any(|p| matches!(p, 12_965 | 22_965 | 15_380)) {
            (0, rebuild_lbmr(&payload.bytes))
        } else if ports.contains(&14_360) {
            (2, rebuild_lbtru(&payload.bytes))
        } else {
            (1, rebuild_lbtrm(&payload.bytes))
        };
        assert_eq!(rebuilt, payload.bytes, "{name}, frame {}", payload.frame);
        counts[kind] += 1;
    }
    counts
}

#[test]
fn rebuilds_core() {
    assert_eq!(rebuild_capture("lbm-core.pcap"), [4, 21, 0, 0]);
    assert_eq!(rebuild_capture("lbm-alt.pcap"), [4, 21, 0, 0]);
}

#[test]
fn rebuilds_other_transports() {
    assert_eq!(rebuild_capture("lbm-extra.pcap"), [8, 2, 12, 6]);
}

#[test]
fn reads_what_the_core_capture_says() {
    let payloads = payloads("lbm-core.pcap");
    let advert = lbmr::Packet::decode(&payloads[3].bytes).expect("LBMR");
    let lbmr::Body::Topics { adverts, .. } = advert.body else { panic!("{advert:?}") };
    let names: Vec<_> = adverts.iter().map(|a| (a.name, a.topic, a.transport.to_string())).collect();
    let session = "LBTRM:10.1.1.10:14390:5e551d01:224.10.10.10:14400".to_owned();
    assert_eq!(
        names,
        [
            (b"md.equities.ibm".as_slice(), 0x1000_0001, session.clone()),
            (b"md.futures.es".as_slice(), 0x1000_0002, session)
        ]
    );
    assert_eq!(
        advert.options.and_then(lbm::wire::lbmr_option::PacketOptions::source_id),
        Some([0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8])
    );

    let mut big = Vec::new();
    for payload in &payloads[6..9] {
        let packet = lbtrm::Packet::decode(&payload.bytes).expect("LBT-RM");
        let lbtrm::Body::Data(data) = packet.body else { panic!("{packet:?}") };
        let message = Messages::new(data.messages).next().expect("one").expect("good");
        let content = message.content().expect("good");
        let fragment = content.fragment.expect("a fragment");
        assert_eq!((fragment.first_sqn, fragment.offset as usize, fragment.total), (1, big.len(), 3000));
        assert_eq!(message.next, lbm::wire::header::code::FRAGMENT);
        big.extend_from_slice(content.payload);
    }
    assert!(big.iter().enumerate().all(|(i, b)| usize::from(*b) == i % 251) && big.len() == 3000);
}

#[test]
fn names_what_is_wrong_with_the_bad_capture() {
    let payloads = payloads("lbm-bad.pcap");
    let error = |i: usize| lbtrm::Packet::decode(&payloads[i].bytes).map(|_| ()).map_err(|e| e.to_string());
    assert_eq!(error(0), Err("LBT-RM next header at byte 1 is invalid".to_owned()));
    assert_eq!(error(3), Err("LBT-RM header at byte 12 is cut short".to_owned()));
    let messages = |i: usize| {
        let packet = lbtrm::Packet::decode(&payloads[i].bytes).expect("LBT-RM");
        let lbtrm::Body::Data(data) = packet.body else { panic!("{packet:?}") };
        let checked = |m: Result<lbmc::Message<'_>, lbm::wire::WireError>| match m {
            Ok(m) => m.content().map(|_| m.next).map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        };
        Messages::new(data.messages).map(checked).collect::<Vec<_>>()
    };
    // Padding: a message of length zero.
    assert_eq!(messages(1), [Ok(NEXT_DATA), Err("LBMC message length at byte 18 is invalid".to_owned())]);
    // An unknown header that may be ignored is skipped.
    assert_eq!(messages(2), [Ok(0x70)]);
    // Three bytes at the end are passed over.
    assert_eq!(messages(5), []);
}
