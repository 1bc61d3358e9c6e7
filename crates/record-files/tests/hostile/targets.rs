// What the fuzz target runs, and the smoke test in `hostile.rs` with it: any bytes may stand in a file that is imported. Nothing may panic or hang, and
// what was imported is a recording that can be read.

use record::{Folder, Recording};
use record_files::{Assumed, InputForm, import};
use rwf::dictionary::Dictionary;

/// A pcap file's head: nanoseconds, little-endian, raw IP.
const PCAP: [u8; 24] = [0x4D, 0x3C, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];
const TRACE: &str = "<!-- Incoming Reactor message -->\n<!-- Sun Nov 29 17:17:01 UTC 2026 -->\n";

/// The first byte chooses what the others are.
pub(crate) fn file(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let (form, content) = match kind % 5 {
        0 => (InputForm::Capture, [&PCAP[..], data].concat()),
        1 => (InputForm::Capture, packets(data)),
        2 => (InputForm::Trace, [TRACE.as_bytes(), data].concat()),
        3 => (InputForm::Venue, [b"DBN", data].concat()),
        _ => (InputForm::Csv, data.to_vec()),
    };
    imported(form, &content);
}

/// The bytes of both directions of a connection, cut where a byte says so, in packets that are well-formed.
fn packets(data: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let pcap = capture::write::Pcap::begin(capture::link::RAW, &mut file);
    let (mut rest, mut sequence) = (data, [1_u32; 2]);
    while let Some((head, behind)) = rest.split_first() {
        let end = usize::from(head & 1);
        let (content, later) = behind.split_at(usize::from(head >> 1).min(behind.len()));
        rest = later;
        let mut packet = vec![0x45, 0];
        packet.extend((40 + content.len() as u16).to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        packet.extend([[0, 1, 0, 2], [0, 2, 0, 1]][end]);
        packet.extend(sequence[end].to_be_bytes());
        packet.extend([0, 0, 0, 0, 0x50, 16, 0xFF, 0xFF, 0, 0, 0, 0]);
        packet.extend(content);
        sequence[end] += content.len() as u32;
        pcap.frame(1_800_000_000_000_000_000, &packet, packet.len(), &mut file);
    }
    file
}

fn imported(form: InputForm, content: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("S20191230");
    std::fs::write(&path, content).expect("a file");
    let assumed = Assumed { service: "FEED".to_owned(), domain: 6 };
    let made = folder.path().join("made");
    let Ok(done) = import(&made, &[(&path, form)], &Dictionary::builtin(), &assumed) else { return };
    let Ok(recording) = Recording::open(Folder::to_read(&made)) else {
        assert_eq!(done.records, 0, "what was imported cannot be read");
        return;
    };
    assert!(recording.damage().is_empty(), "{:?}", recording.damage());
    let (mut cursor, mut count) = (recording.from_time(0), 0);
    while cursor.next().expect("readable").is_some() {
        count += 1;
    }
    assert!(count >= done.records, "{count} records, and {} were imported", done.records);
}
