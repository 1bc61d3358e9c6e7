use super::*;
use crate::write::{Pcap, PcapNg};
use crate::{ip, link};
use flate2::Compression;
use proptest::prelude::*;
use std::io::Write as _;

/// What a file holds: number, time, link type, bytes and length of each frame; what was left out; how it broke off.
type Read = (Vec<(u64, u64, u32, Vec<u8>, usize)>, LeftOut, Option<String>);

fn read(file: &[u8]) -> Read {
    let mut frames = Vec::new();
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader,
        Err(error) => return (frames, LeftOut::default(), Some(error.to_string())),
    };
    loop {
        match reader.next_frame() {
            Ok(Some(f)) => frames.push((f.number, f.nanos, f.link, f.bytes.to_vec(), f.length)),
            Ok(None) => return (frames, reader.left_out(), None),
            Err(error) => return (frames, reader.left_out(), Some(error.to_string())),
        }
    }
}

fn bytes_of(file: &[u8]) -> Vec<Vec<u8>> {
    let (frames, left_out, error) = read(file);
    assert!(left_out.is_none() && error.is_none(), "{left_out} {error:?}");
    frames.into_iter().map(|f| f.3).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn pcap(frames: &[&[u8]]) -> Vec<u8> {
    let mut file = Vec::new();
    let pcap = Pcap::begin(link::ETHERNET, &mut file);
    for (n, bytes) in frames.iter().enumerate() {
        pcap.frame(1_000_000_007 * (n as u64 + 1), bytes, bytes.len(), &mut file);
    }
    file
}

/// As other programs write pcap: either byte order, micro- or nanoseconds, the patched head of frames.
fn foreign(magic: u32, big_endian: bool) -> Vec<u8> {
    let word = |n: u32| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
    let short = |n: u16| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
    let mut file = [word(magic), [short(2), short(4)].concat().try_into().unwrap()].concat();
    for n in [0, 0, 65_535, 0xFC00_0000 | link::RAW] {
        file.extend_from_slice(&word(n));
    }
    for n in [1_500_000_000, 250, 3, 90] {
        file.extend_from_slice(&word(n));
    }
    if magic == 0xA1B2_CD34 {
        file.extend_from_slice(&[9; 8]);
    }
    file.extend_from_slice(b"abc");
    file
}

#[test]
fn pcap_is_read_in_all_its_forms() {
    for big_endian in [false, true] {
        for (magic, unit) in [(0xA1B2_C3D4, 1_000), (0xA1B2_3C4D, 1), (0xA1B2_CD34, 1_000)] {
            let (frames, left_out, error) = read(&foreign(magic, big_endian));
            let nanos = 1_500_000_000 * NANOS + 250 * unit;
            assert_eq!(frames, [(1, nanos, link::RAW, b"abc".to_vec(), 90)], "{magic:x} {big_endian}");
            assert_eq!((left_out, error), (LeftOut { short_frames: 1, ..LeftOut::default() }, None));
        }
    }
}

#[test]
fn captures_that_were_appended_to_each_other_are_read_to_the_end() {
    let mut sections = Vec::new();
    let ng = |bytes: &[u8], out: &mut Vec<u8>| {
        let mut section = PcapNg::begin(out);
        let at = section.interface(link::ETHERNET, out);
        section.frame(at, 5, bytes, bytes.len(), out);
    };
    ng(b"one", &mut sections);
    ng(b"two!", &mut sections);
    let classic = pcap(&[b"three"]);
    let big = foreign(0xA1B2_C3D4, true);
    for (parts, expected) in [
        (vec![&sections, &classic], vec![&b"one"[..], b"two!", b"three"]),
        (vec![&classic, &sections, &classic], vec![b"three", b"one", b"two!", b"three"]),
    ] {
        let plain: Vec<u8> = parts.iter().flat_map(|p| p.iter().copied()).collect();
        let zipped: Vec<u8> = parts.iter().flat_map(|p| gzip(p)).collect();
        assert_eq!(bytes_of(&plain), expected);
        assert_eq!(bytes_of(&zipped), expected);
        assert_eq!(bytes_of(&gzip(&plain)), expected);
    }
    let both = read(&[classic.as_slice(), &big].concat());
    assert_eq!(both.0.iter().map(|f| (f.0, f.2)).collect::<Vec<_>>(), [(1, link::ETHERNET), (2, link::RAW)]);
}

#[test]
fn interfaces_of_a_section_have_their_own_links_and_clocks() {
    let mut file = Vec::new();
    let mut section = PcapNg::begin(&mut file);
    let first = section.interface(link::ETHERNET, &mut file);
    let second = section.interface(link::RAW, &mut file);
    section.frame(second, 1_700_000_000_123_456_789, b"r", 9, &mut file);
    section.frame(first, 1_700_000_000_123_456_790, b"e", 1, &mut file);
    // A name resolution block of any content, and a simple block: no time, the first interface.
    file.extend_from_slice(&[4, 0, 0, 0, 16, 0, 0, 0, 1, 2, 3, 4, 16, 0, 0, 0]);
    file.extend_from_slice(&[3, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, b'x', b'y', b'z', 0, 20, 0, 0, 0]);
    // The next section counts 2^-1 s from the year 2000 on, big-endian, and knows one interface.
    let (kind, total) = (1u32.to_be_bytes(), 44u32.to_be_bytes());
    let body = [&[0x1A, 0x2B, 0x3C, 0x4D, 0, 1, 0, 0][..], &[0xFF; 8]].concat();
    file.extend_from_slice(&[&SECTION[..], &28u32.to_be_bytes(), &body, &28u32.to_be_bytes()].concat());
    let options = [&[0, 9, 0, 1, 0x81, 0, 0, 0, 0, 14, 0, 8][..], &946_684_800i64.to_be_bytes(), &[0; 4]].concat();
    file.extend_from_slice(&[&kind[..], &total, &[0, 228, 0, 0, 0, 0, 0, 0], &options, &total].concat());
    let packet = [0u32, 0, 3, 1, 1].map(u32::to_be_bytes).concat();
    file.extend_from_slice(
        &[&6u32.to_be_bytes()[..], &36u32.to_be_bytes(), &packet, b"q\0\0\0", &36u32.to_be_bytes()].concat(),
    );
    let (frames, left_out, error) = read(&file);
    let expected = [
        (1, 1_700_000_000_123_456_789, link::RAW, b"r".to_vec(), 9),
        (2, 1_700_000_000_123_456_790, link::ETHERNET, b"e".to_vec(), 1),
        (3, 0, link::ETHERNET, b"xyz".to_vec(), 3),
        (4, 946_684_801_500_000_000, link::IPV4, b"q".to_vec(), 1),
    ];
    assert_eq!((frames.as_slice(), left_out.short_frames, error), (&expected[..], 1, None));
}

#[test]
fn a_file_that_is_cut_anywhere_gives_what_was_before_and_says_so() {
    let mut sections = Vec::new();
    let mut section = PcapNg::begin(&mut sections);
    let at = section.interface(link::ETHERNET, &mut sections);
    section.frame(at, 5, &[7; 50], 50, &mut sections);
    section.frame(at, 5, &[8; 30], 30, &mut sections);
    let classic = pcap(&[&[7; 50], &[8; 30]]);
    for file in [classic, sections] {
        let whole = read(&file);
        assert!(whole.0.len() == 2 && whole.1.is_none());
        for length in 1..file.len() {
            let (frames, left_out, error) = read(&file[..length]);
            let got: Vec<u8> = frames.iter().flat_map(|f| f.3.iter().copied()).collect();
            let all = [[7; 50].as_slice(), &[8; 30]].concat();
            assert!(all.starts_with(&got), "{length}: {got:?}");
            let at_a_seam = got.is_empty() || got.len() == 50;
            assert!(left_out.is_cut || error.is_some() || at_a_seam, "{length}: {frames:?}");
            if length > file.len() - 30 {
                assert!(left_out.is_cut && got.len() >= 50, "{length}");
            }
            let zipped = gzip(&file);
            let (frames, left_out, _) = read(&zipped[..zipped.len() - 1]);
            assert!(left_out.is_cut && frames.len() == 2, "the last frame is there, the end of the checksum is not");
        }
        let (frames, left_out, error) = read(&[&gzip(&file)[..], b"tail"].concat());
        assert_eq!((frames.len(), left_out.garbage, error), (2, 4, None));
        assert!(!left_out.is_whole_file() && left_out.to_string().contains("4 bytes behind the end"));
    }
}

#[test]
fn what_is_no_capture_or_damaged_is_said() {
    assert_eq!(read(b"").2.unwrap(), "is empty");
    assert_eq!(read(&gzip(b"")).2.unwrap(), "is empty");
    for other in [&b"hello, this is text"[..], b"\xD4\xC3\xB2", &gzip(b"hello, this is text")] {
        assert_eq!(read(other).2.unwrap(), "is no pcap or pcapng capture", "{other:?}");
    }
    let garbage = [pcap(&[b"ab"]), vec![0xEE; 64]].concat();
    let (frames, _, error) = read(&garbage);
    assert_eq!((frames.len(), error.unwrap().contains("damaged after frame 1")), (1, true));
    let mut sections = Vec::new();
    let mut section = PcapNg::begin(&mut sections);
    section.frame(7, 5, b"ab", 2, &mut sections);
    assert!(read(&sections).2.unwrap().contains("interface"));
    let _ = section.interface(link::RAW, &mut sections);
}

#[test]
fn packets_are_found_behind_every_head_and_told_how_much_is_missing() {
    // IPv4, UDP, a datagram of 4 bytes of which 2 were captured.
    let v4 = [
        &[0x45, 0, 0, 32, 0, 9, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2][..],
        &[0, 7, 0, 8, 0, 12, 0, 0],
        b"ab",
    ]
    .concat();
    // IPv6 with a header of hop-by-hop options, TCP, 3 bytes.
    let tcp = [&[0, 7, 0, 8, 0, 0, 0, 5, 0, 0, 0, 0, 0x50, 0x12, 0, 0, 0, 0, 0, 0][..], b"xyz"].concat();
    let mut v6 = [&[0x60, 0, 0, 0, 0, 31, 0, 64][..], &[1; 16], &[2; 16], &[6, 0, 1, 4, 0, 0, 0, 0], &tcp].concat();
    let frame = |link, head: &[u8], packet: &[u8], missing: usize| {
        let bytes = [head, packet].concat();
        let length = bytes.len() + missing;
        let found = ip::of_frame(&Frame { number: 1, nanos: 0, link, bytes: &bytes, length });
        found
            .map(|i| (i.udp().map(|d| (d.payload.to_vec(), d.missing)), i.tcp().map(|s| (s.payload.to_vec(), s.opens))))
    };
    let datagram = Some((Some((b"ab".to_vec(), 2)), None));
    let ethernet = |kind: &[u8]| [&[0; 12][..], kind].concat();
    for (link, head) in [
        (link::ETHERNET, ethernet(&[8, 0])),
        (link::ETHERNET, ethernet(&[0x81, 0, 0, 5, 0x88, 0xA8, 0, 6, 8, 0])),
        (link::ETHERNET, ethernet(&[0x88, 0x47, 0, 0, 0, 9, 0, 0, 1, 9])),
        (link::ETHERNET, ethernet(&[0, 40, 0xAA, 0xAA, 3, 0, 0, 0, 8, 0])),
        (link::NULL, vec![2, 0, 0, 0]),
        (link::LOOP, vec![0, 0, 0, 2]),
        (link::RAW, vec![]),
        (link::IPV4, vec![]),
        (link::LINUX_SLL, [&[0; 14][..], &[8, 0]].concat()),
        (link::LINUX_SLL2, [&[8, 0][..], &[0; 18]].concat()),
    ] {
        assert_eq!(frame(link, &head, &v4, 2), datagram, "{link} {head:?}");
    }
    let segment = Some((None, Some((b"xyz".to_vec(), true))));
    for (link, head) in
        [(link::ETHERNET, ethernet(&[0x86, 0xDD])), (link::IPV6, vec![]), (link::NULL, vec![30, 0, 0, 0])]
    {
        assert_eq!(frame(link, &head, &v6, 0), segment, "{link}");
    }
    // Frames are filled up behind short packets.
    assert_eq!(frame(link::ETHERNET, &ethernet(&[0x86, 0xDD]), &[v6.clone(), vec![0; 9]].concat(), 0), segment);
    v6[6] = 44;
    v6[40..48].copy_from_slice(&[6, 0, 0, 9, 0, 0, 0, 77]);
    let found = ip::of_frame(&Frame { number: 1, nanos: 0, link: link::RAW, bytes: &v6, length: v6.len() }).unwrap();
    assert_eq!((found.offset, found.more, found.id, found.is_fragment()), (8, true, 77, true));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_take_more_than_they_are(mut file in proptest::collection::vec(any::<u8>(), 0..600), kind in 0..4usize) {
        let heads: [&[u8]; 4] = [&[0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0], &[0x0A, 0x0D, 0x0D, 0x0A, 28, 0, 0, 0, 0x4D, 0x3C, 0x2B, 0x1A], &[0x1F, 0x8B, 8, 0], &[]];
        file.splice(0..0, heads[kind].iter().copied());
        let (frames, ..) = read(&file);
        if kind != 2 {
            prop_assert!(frames.iter().map(|f| f.3.len()).sum::<usize>() <= file.len());
        }
        let mut fragments = crate::Fragments::default();
        for (number, nanos, link, bytes, length) in &frames {
            for link in [*link, 1, 101, 113, 276, 0] {
                let frame = Frame { number: *number, nanos: *nanos, link, bytes, length: *length };
                if let Some(ip) = ip::of_frame(&frame) {
                    let _ = (ip.udp(), ip.tcp(), fragments.add(&ip));
                }
            }
        }
    }
}
