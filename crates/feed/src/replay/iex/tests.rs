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
    while let Some(heard) = capture.next_heard().unwrap() {
        let Heard::Message(message) = heard else { continue };
        let kind = match message.what {
            What::Quote { .. } => {
                quoted.insert(message.symbol);
                "quote"
            }
            What::Trade { .. } => "trade",
            What::Break { .. } => "break",
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
    assert_eq!(counts, BTreeMap::from([("break", 73), ("buy", 12_949), ("sell", 14_630), ("trade", 83_343)]));
}

#[test]
fn the_tops_capture_has_its_quotes_and_trades() {
    let Some(path) = data("TOPS16.pcapng.gz") else { return };
    let (counts, quoted) = counted(&path);
    assert_eq!(counts, BTreeMap::from([("break", 3), ("quote", 27_217), ("trade", 6_390)]));
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

/// What a packet's header says beside its messages.
#[derive(Clone, Copy)]
struct Head {
    session: u32,
    first: i64,
    offset: i64,
    sent: i64,
}

/// An Ethernet frame with messages from `first` on.
fn packet(head: Head, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut payload = vec![1, 0, 3, 0x80, 1, 0, 0, 0];
    payload.extend(head.session.to_le_bytes());
    payload.extend([0, 0]);
    payload.extend((messages.len() as u16).to_le_bytes());
    for number in [head.offset, head.first, head.sent] {
        payload.extend(number.to_le_bytes());
    }
    for message in messages {
        payload.extend((message.len() as u16).to_le_bytes());
        payload.extend(message);
    }
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((payload.len() as u16 + 28).to_be_bytes());
    frame.extend([0; 5]);
    frame.push(17);
    frame.extend([0; 10]);
    frame.extend([0, 1, 0, 2]);
    frame.extend((payload.len() as u16 + 8).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

fn frame(first: i64, messages: &[Vec<u8>]) -> Vec<u8> {
    packet(Head { session: 1, first, offset: 40 * (first - 1), sent: 0 }, messages)
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

fn capture_of(bytes: &[u8]) -> Capture {
    Capture::of(Box::new(io::Cursor::new(bytes.to_vec()))).unwrap()
}

fn read(bytes: &[u8]) -> (Vec<(String, What)>, Counters) {
    let mut capture = capture_of(bytes);
    let mut messages = Vec::new();
    while let Some(heard) = capture.next_heard().unwrap() {
        if let Heard::Message(message) = heard {
            messages.push((message.symbol().to_owned(), message.what));
        }
    }
    (messages, capture.counters())
}

/// Sizes of trades, and letters for what else there is: the number of a trade's message is its size.
fn told(frames: &[Vec<u8>]) -> String {
    let mut capture = capture_of(&pcap(frames));
    let mut text = Vec::new();
    while let Some(heard) = capture.next_heard().unwrap() {
        text.push(match heard {
            Heard::Message(Message { what: What::Trade { size, .. }, .. }) => size.to_string(),
            Heard::Message(_) => "?".to_owned(),
            Heard::Restart => "restart".to_owned(),
            Heard::Lost(count) => format!("lost {count}"),
        });
    }
    text.join(" ")
}

#[test]
fn copies_that_come_late_overlaps_gaps_and_new_sessions_are_told_apart() {
    let of = |session, first: i64, sent, sizes: &[u32]| {
        let messages: Vec<Vec<u8>> = sizes.iter().map(|size| trade(*b"IBM     ", 1, *size)).collect();
        packet(Head { session, first, offset: 40 * (first - 1), sent }, &messages)
    };
    let one = |first, sizes: &[u32]| of(1, first, first, sizes);
    // A copy of the first packet is old, however late it comes.
    assert_eq!(told(&[one(1, &[1, 2]), one(3, &[3, 4]), one(1, &[1, 2]), one(5, &[5])]), "1 2 3 4 5");
    assert_eq!(told(&[of(1, 1, 0, &[1, 2]), of(1, 3, 0, &[3]), of(1, 1, 0, &[1, 2]), of(1, 4, 0, &[4])]), "1 2 3 4");
    // Of a packet that begins in what was heard the rest counts.
    assert_eq!(told(&[one(1, &[1, 2]), one(3, &[3, 4]), one(4, &[4, 5, 6]), one(2, &[2, 3])]), "1 2 3 4 5 6");
    assert_eq!(told(&[one(1, &[1]), one(4, &[4]), one(5, &[])]), "1 lost 2 4");
    // What tells that the stream is alive tells where it is.
    assert_eq!(told(&[one(1, &[1]), one(4, &[]), one(4, &[4])]), "1 lost 2 4");
    // A new session begins at 1; what comes late of the one before is old.
    assert_eq!(told(&[one(3, &[3, 4]), of(2, 4, 9, &[4]), one(5, &[5]), of(2, 5, 10, &[5])]), "3 4 restart lost 3 4 5");
    // In one session: it is announced, or sent later than all before it.
    assert_eq!(told(&[one(1, &[1, 2]), of(1, 1, 9, &[]), of(1, 1, 10, &[1])]), "1 2 restart 1");
    assert_eq!(told(&[one(1, &[1, 2]), of(1, 1, 9, &[1])]), "1 2 restart 1");
}

#[test]
fn messages_behind_a_snap_length_are_lost_but_not_those_behind_the_end_of_the_file() {
    let frames =
        [frame(1, &[trade(*b"IBM     ", 1, 1), trade(*b"IBM     ", 1, 2)]), frame(3, &[trade(*b"IBM     ", 1, 3)])];
    let mut file = Vec::new();
    let pcap = capture::write::Pcap::begin(capture::link::ETHERNET, &mut file);
    for frame in &frames {
        pcap.frame(0, &frame[..frame.len().min(130)], frame.len(), &mut file);
    }
    let mut capture = capture_of(&file);
    let heard: Vec<Heard> = std::iter::from_fn(|| capture.next_heard().unwrap()).collect();
    assert!(matches!(heard[..], [Heard::Message(_), Heard::Lost(1), Heard::Message(_)]), "{heard:?}");
    assert_eq!((capture.counters().lost, capture.counters().gaps, capture.counters().short), (1, 1, 1));
    let file = super::tests::pcap(&frames[..1]);
    let mut capture = capture_of(&file[..file.len() - 5]);
    let heard: Vec<Heard> = std::iter::from_fn(|| capture.next_heard().unwrap()).collect();
    assert!(matches!(heard[..], [Heard::Message(_)]) && capture.left_out().is_cut, "{heard:?}");
}

#[test]
fn symbols_are_those_of_all_messages() {
    let halted = [&b"HT"[..], &7u64.to_le_bytes(), b"ZIEXT   ", b"    "].concat();
    let file =
        pcap(&[frame(1, &[vec![b'S', b'O', 0, 0, 0, 0, 0, 0, 0, 0], halted]), frame(3, &[trade(*b"IBM     ", 1, 1)])]);
    let symbols = |most| capture_of(&file).symbols(most).unwrap().0;
    assert_eq!(symbols(99), [*b"IBM     ", *b"ZIEXT   "]);
    assert_eq!(symbols(2), [*b"ZIEXT   "]);
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
        ("AAPL".to_owned(), What::Trade { price: 1_500_000, size: 100, id: 99, eligible: true }),
        ("ZIEXT".to_owned(), What::Trade { price: 10, size: 5, id: 99, eligible: true }),
        ("IBM".to_owned(), What::Trade { price: 1_800_000, size: 200, id: 99, eligible: true }),
    ];
    for file in [pcap(&frames), pcapng(&frames)] {
        let (messages, counters) = read(&file);
        assert_eq!(messages, expected);
        assert_eq!((counters.repeated, counters.foreign, counters.lost), (1, 1, 0));
    }
}

#[test]
fn a_capture_cut_off_anywhere_ends_and_never_panics() {
    let frames = [frame(1, &[trade(*b"AAPL    ", 1_500_000, 100)]), frame(2, &[trade(*b"IBM     ", 1, 1)])];
    for file in [pcap(&frames), pcapng(&frames)] {
        for cut in 0..file.len() {
            if let Ok(mut capture) = Capture::of(Box::new(io::Cursor::new(file[..cut].to_vec()))) {
                while let Ok(Some(_)) = capture.next_heard() {}
            }
        }
    }
    assert!(Capture::of(Box::new(&b"no capture at all"[..])).is_err());
}
