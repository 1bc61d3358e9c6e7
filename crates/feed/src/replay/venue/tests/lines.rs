//! Captures of two lines that lose, repeat and reorder.

use capture::link;
use capture::write::Pcap;
use venue::nasdaq::mold::Header;

use super::day::Random;
use super::nasdaq::{expected, messages};
use super::*;

const SESSION: [u8; 10] = *b"0000000042";
/// 2019-12-30 at 14:30 UTC.
const BEGIN: u64 = 1_577_716_200_000_000_000;

/// An IPv4 packet to a line's group.
fn packet(line: u8, payload: &[u8]) -> Vec<u8> {
    let udp = 8 + payload.len() as u16;
    let mut bytes = vec![0x45, 0];
    bytes.extend((20 + udp).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 8, 17, 0, 0, 10, 0, 0, 1, 233, 54, 12, 100 + line]);
    bytes.extend([0x80, 0, 0x67, 0x35]);
    bytes.extend(udp.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    bytes
}

fn mold(session: [u8; 10], sequence: u64, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Header { session, sequence, count: messages.len() as u16 }.write().to_vec();
    for message in messages {
        bytes.extend((message.len() as u16).to_be_bytes());
        bytes.extend(message);
    }
    bytes
}

pub(super) struct Lines {
    frames: Vec<(u64, Vec<u8>)>,
    random: Random,
}

impl Lines {
    pub(super) fn new(seed: u64) -> Self {
        Self { frames: Vec::new(), random: Random::new(seed) }
    }

    pub(super) fn send(&mut self, line: u8, at: u64, payload: &[u8]) {
        self.frames.push((at, packet(line, payload)));
    }

    pub(super) fn file(mut self) -> File {
        self.frames.sort_by_key(|frame| frame.0);
        let mut bytes = Vec::new();
        let pcap = Pcap::begin(link::RAW, &mut bytes);
        for (at, frame) in &self.frames {
            pcap.frame(*at, frame, frame.len(), &mut bytes);
        }
        file("lines.pcap", &bytes)
    }
}

/// Two lines that pack differently, each with loss and repetition; what neither brings comes by a late copy if `repaired`.
fn lines(seed: u64, all: &[Vec<u8>], lost_by_both: std::ops::Range<usize>, repaired: bool) -> File {
    let mut lines = Lines::new(seed);
    for line in 0..2u8 {
        let (mut next, mut at) = (0, BEGIN + u64::from(line) * 200_000);
        while next < all.len() {
            let count = 1 + lines.random.below(9) as usize;
            let end = (next + count).min(all.len());
            let (packet, touches) =
                (mold(SESSION, next as u64 + 1, &all[next..end]), next < lost_by_both.end && end > lost_by_both.start);
            // Each line must bring what the other loses: line 0 loses among the first half of thousands, line 1 among the second.
            let may_lose = (next / 500) % 2 == usize::from(line);
            let is_lost = touches || may_lose && lines.random.chance(0.05);
            if !is_lost {
                lines.send(line, at, &packet);
                if lines.random.chance(0.02) {
                    let late = at + lines.random.below(2_000_000);
                    lines.send(line, late, &packet);
                }
            }
            (next, at) = (end, at + 50_000);
        }
    }
    if repaired {
        let from = lost_by_both.start.saturating_sub(9);
        let last = lines.frames.iter().map(|frame| frame.0).max().unwrap_or(BEGIN);
        let missing = mold(SESSION, from as u64 + 1, &all[from..(lost_by_both.end + 9).min(all.len())]);
        // Later than the other line is waited for, and sooner than the gap is given up.
        let at = BEGIN + lost_by_both.start as u64 * 10_000 + 30_000_000;
        lines.send(0, at.min(last), &missing);
    }
    lines.file()
}

#[test]
fn two_lines_that_lose_make_the_book_of_one_that_does_not() {
    for seed in 1..8 {
        let all = messages(seed, 3, 4_000);
        let file = lines(seed, &all, 0..0, false);
        let mut replay = open(&file.path, config());
        assert_eq!(replay.file(), VenueFile::NasdaqMold);
        let seen = play(&mut replay, &["S1", "S2", "S3"], 4);
        for (name, expected) in expected(&all, 3) {
            expected.hold(&seen[&name], &name);
            assert_eq!(seen[&name].states.len(), 1, "{:?}", seen[&name].states);
        }
    }
}

#[test]
fn from_a_gap_to_its_repair_all_items_are_suspect_and_then_the_book_is_whole() {
    for seed in 1..8 {
        let all = messages(seed, 3, 4_000);
        let file = lines(seed, &all, 2_000..2_010, true);
        let mut replay = open(&file.path, config());
        let seen = play(&mut replay, &["S1", "S2"], 4);
        for (name, expected) in expected(&all, 3).into_iter().filter(|(name, _)| name != "S3") {
            let states: Vec<DataState> = seen[&name].states.iter().map(|state| state.0).collect();
            assert_eq!(states, [DataState::OK, DataState::SUSPECT, DataState::OK], "{:?}", seen[&name].states);
            assert!(seen[&name].states[1].1.contains("are missing"), "{:?}", seen[&name].states);
            expected.hold(&seen[&name], &name);
        }
        assert!(replay.remarks().expect("a gap").contains("gaps 1, repaired 1"), "{:?}", replay.remarks());
    }
}

#[test]
fn what_never_comes_leaves_all_items_suspect_until_the_next_session() {
    let all = messages(9, 3, 4_000);
    let next = messages(10, 3, 2_000);
    let mut lines = Lines::new(1);
    let send = |lines: &mut Lines, session, from: u64, messages: &[Vec<u8>], first: u64| {
        for (n, some) in messages.chunks(20).enumerate() {
            lines.send(0, from + n as u64 * 1_000_000, &mold(session, first + n as u64 * 20, some));
        }
    };
    send(&mut lines, SESSION, BEGIN, &all[..2_000], 1);
    // Ten messages are in no packet.
    send(&mut lines, SESSION, BEGIN + 200_000_000, &all[2_010..], 2_011);
    send(&mut lines, *b"0000000043", BEGIN + 5_000_000_000, &next, 1);
    let file = lines.file();
    let mut replay = open(&file.path, config());
    let seen = play(&mut replay, &["S1"], 4);
    let seen = &seen["S1"];
    let states: Vec<DataState> = seen.states.iter().map(|state| state.0).collect();
    assert_eq!(states, [DataState::OK, DataState::SUSPECT, DataState::OK], "{:?}", seen.states);
    assert_eq!(seen.orders, expected(&next, 3)["S1"].orders);
    assert!(replay.remarks().expect("a gap").contains("not in the capture 10"), "{:?}", replay.remarks());
}

/// A packet is one of the feed though half of it cannot be read, also where nothing else says which feed it is.
#[test]
fn a_capture_that_begins_with_a_message_of_an_unknown_type_is_read_from_there_on() {
    let all = messages(11, 2, 400);
    let mut lines = Lines::new(1);
    lines.send(0, BEGIN, &mold(SESSION, 1, &[b"~of another version".to_vec(), all[0].clone()]));
    lines.send(0, BEGIN + 1_000_000, &mold(SESSION, 3, &all[1..30]));
    for (n, some) in all[30..].chunks(20).enumerate() {
        lines.send(0, BEGIN + (n as u64 + 2) * 1_000_000, &mold(SESSION, 32 + n as u64 * 20, some));
    }
    let file = lines.file();
    let mut replay = open(&file.path, config());
    assert_eq!(replay.file(), VenueFile::NasdaqMold);
    let seen = play(&mut replay, &["S1"], 4);
    expected(&all, 2)["S1"].hold(&seen["S1"], "S1");
    let remarks = replay.remarks().expect("a message that cannot be read");
    assert!(remarks.ends_with("played to the end, 400 messages; messages of an unknown type: 1"), "{remarks}");
}
