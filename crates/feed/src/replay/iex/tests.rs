//! The captures as their description counts them, and captures made here.

use super::*;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

fn data(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("QUOTEWAY_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let file = folder.join("iex").join(name);
    if file.is_file() {
        return Some(file);
    }
    println!("no capture {}: set QUOTEWAY_DATA to test with it", file.display());
    None
}

fn counted(path: &Path) -> (BTreeMap<&'static str, usize>, HashSet<[u8; 8]>) {
    let mut capture = Capture::open(path).unwrap();
    let (mut counts, mut quoted) = (BTreeMap::new(), HashSet::new());
    while let Some(message) = capture.next_message().unwrap() {
        let kind = match message.what {
            What::Quote { .. } => {
                quoted.insert(message.symbol);
                "quote"
            }
            What::Trade { .. } => "trade",
            What::Level { buy: true, .. } => "buy",
            What::Level { buy: false, .. } => "sell",
        };
        *counts.entry(kind).or_default() += 1;
    }
    (counts, quoted)
}

#[test]
fn the_deep_capture_has_its_levels_and_trades() {
    let Some(path) = data("DEEP10.pcap.gz") else { return };
    let (counts, _) = counted(&path);
    assert_eq!(counts, BTreeMap::from([("buy", 12_949), ("sell", 14_630), ("trade", 83_343)]));
}

#[test]
fn the_tops_capture_has_its_quotes_and_trades() {
    let Some(path) = data("TOPS16.pcapng.gz") else { return };
    let (counts, quoted) = counted(&path);
    assert_eq!(counts, BTreeMap::from([("quote", 27_217), ("trade", 6_390)]));
    assert_eq!(quoted.len(), 7_799);
}

/// A trade message.
fn trade(symbol: [u8; 8], price: i64, size: u32) -> Vec<u8> {
    let mut bytes = vec![b'T', 0];
    bytes.extend(7u64.to_le_bytes());
    bytes.extend(symbol);
    bytes.extend(size.to_le_bytes());
    bytes.extend(price.to_le_bytes());
    bytes.extend(99u64.to_le_bytes());
    bytes
}

/// An Ethernet frame with messages from `sequence` on.
fn frame(sequence: i64, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut payload = vec![1, 0, 3, 0x80, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0];
    payload.extend((messages.len() as u16).to_le_bytes());
    payload.extend(0i64.to_le_bytes());
    payload.extend(sequence.to_le_bytes());
    payload.extend(0i64.to_le_bytes());
    for message in messages {
        payload.extend((message.len() as u16).to_le_bytes());
        payload.extend(message);
    }
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend([0; 7]);
    frame.push(17);
    frame.extend([0; 10]);
    frame.extend([0, 1, 0, 2]);
    frame.extend((payload.len() as u16 + 8).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = vec![0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 1, 0, 0, 0];
    for frame in frames {
        file.extend([0; 8]);
        file.extend((frame.len() as u32).to_le_bytes());
        file.extend((frame.len() as u32).to_le_bytes());
        file.extend(frame);
    }
    file
}

fn pcapng(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut block = |kind: u32, mut body: Vec<u8>| {
        body.resize(body.len().next_multiple_of(4), 0);
        file.extend(kind.to_be_bytes());
        file.extend((body.len() as u32 + 12).to_be_bytes());
        file.extend(&body);
        file.extend((body.len() as u32 + 12).to_be_bytes());
    };
    block(0x0A0D_0D0A, vec![0x1A, 0x2B, 0x3C, 0x4D, 0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    block(1, vec![0, 1, 0, 0, 0, 0, 255, 255]);
    for frame in frames {
        let mut body = vec![0; 12];
        body.extend((frame.len() as u32).to_be_bytes());
        body.extend((frame.len() as u32).to_be_bytes());
        body.extend(frame);
        block(6, body);
    }
    file
}

fn read(bytes: &[u8]) -> (Vec<(String, What)>, u64) {
    let packets = Packets::new(Box::new(io::Cursor::new(bytes.to_vec())) as Box<dyn Read + Send>).unwrap();
    let mut capture = Capture { packets, payload: Vec::new(), at: 0, skipped: 0, restarts: 0, next_sequence: None };
    let mut messages = Vec::new();
    while let Some(message) = capture.next_message().unwrap() {
        messages.push((message.symbol().to_owned(), message.what));
    }
    (messages, capture.skipped)
}

#[test]
fn both_formats_in_either_byte_order_give_the_same_and_repeated_packets_are_left_out() {
    let frames = [
        frame(1, &[trade(*b"AAPL    ", 1_500_000, 100), trade(*b"ZIEXT   ", 10, 5)]),
        frame(2, &[trade(*b"ZIEXT   ", 10, 5)]),
        frame(3, &[vec![b'S', 0], trade(*b"IBM     ", 1_800_000, 200)]),
        vec![0; 20],
    ];
    let expected = [
        ("AAPL".to_owned(), What::Trade { price: 1_500_000, size: 100 }),
        ("ZIEXT".to_owned(), What::Trade { price: 10, size: 5 }),
        ("IBM".to_owned(), What::Trade { price: 1_800_000, size: 200 }),
    ];
    for file in [pcap(&frames), pcapng(&frames)] {
        let (messages, skipped) = read(&file);
        assert_eq!(messages, expected);
        assert_eq!(skipped, 2, "the repeated packet and the one that is none");
    }
}

#[test]
fn a_capture_cut_off_anywhere_ends_and_never_panics() {
    let frames = [frame(1, &[trade(*b"AAPL    ", 1_500_000, 100)]), frame(2, &[trade(*b"IBM     ", 1, 1)])];
    for file in [pcap(&frames), pcapng(&frames)] {
        for cut in 0..file.len() {
            if let Ok(mut packets) = Packets::new(&file[..cut]) {
                while let Ok(Some(_)) = packets.next_packet() {}
            }
        }
    }
    assert!(Packets::new(&b"no capture at all"[..]).is_err());
}
