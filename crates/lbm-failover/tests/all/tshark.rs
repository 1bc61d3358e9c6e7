//! Stock Wireshark names the number of a message and finds no error. `QUOTEWAY_TSHARK` names another binary, or is `none`.

use std::path::{Path, PathBuf};
use std::process::Command;

use lbm::topic::{Source, SourceConfig};
use lbm::transport::{Lbtrm, Sender, SenderConfig};
use lbm_failover::{Encoded, Mark, Number};

/// A classic pcap file with one UDP datagram to the group of LBT-RM a frame.
fn capture(datagrams: &[Vec<u8>]) -> Vec<u8> {
    let mut file = 0xA1B2_C3D4u32.to_le_bytes().to_vec();
    // Raw IPv4 (link type 228).
    file.extend_from_slice(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 228, 0, 0, 0]);
    for (at, datagram) in datagrams.iter().enumerate() {
        let mut ip = vec![0x45, 0];
        ip.extend_from_slice(&(datagram.len() as u16 + 28).to_be_bytes());
        ip.extend_from_slice(&[0, 0, 0x40, 0, 16, 17, 0, 0, 10, 1, 1, 10, 224, 10, 10, 10]);
        ip.extend_from_slice(&[0x81, 0x4C, 0x38, 0x40]);
        ip.extend_from_slice(&(datagram.len() as u16 + 8).to_be_bytes());
        ip.extend_from_slice(&[0, 0]);
        ip.extend_from_slice(datagram);
        for field in [1_700_000_000, at as u32, ip.len() as u32, ip.len() as u32] {
            file.extend_from_slice(&field.to_le_bytes());
        }
        file.extend_from_slice(&ip);
    }
    file
}

#[test]
fn wireshark_reads_numbers_of_both_widths() {
    let binary = std::env::var_os("QUOTEWAY_TSHARK").map_or_else(|| PathBuf::from("tshark"), PathBuf::from);
    if binary == Path::new("none") {
        return;
    }
    let framing = Lbtrm { unicast_port: 14_390, session_id: 0x5E55_1D01, group_size: 3 };
    let mut sender = Sender::new(framing, SenderConfig { datagram_max: 1_472, ..SenderConfig::default() });
    let mut source = Source::new(42, SourceConfig::default());
    let marks = [
        Mark::new(Number::Bits32(5)),
        Mark::new(Number::Bits64(5)),
        Mark::optional(Number::Bits32(6)),
        Mark::reset(Number::Bits64(0)),
    ];
    for (mark, payload) in marks.iter().zip([&b"hello"[..], b"world", &[7; 3_000], b""]) {
        let encoded = Encoded::of(*mark);
        source.send_headed(1, &mut sender, encoded.headers().as_slice(), payload, true).expect("room");
    }
    let output = sender.output(1);
    let trains: Vec<_> = output.trains(65_000, 64).collect();
    let datagrams: Vec<Vec<u8>> = trains.iter().flat_map(|t| t.datagrams()).map(<[u8]>::to_vec).collect();
    assert_eq!(datagrams.len(), 6, "the long one has three fragments");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failover.pcap");
    std::fs::write(&file, capture(&datagrams)).expect("written");

    let tshark = |arguments: &[&str]| {
        let output = Command::new(&binary).arg("-2").arg("-r").arg(&file).args(arguments).output();
        let output = output.unwrap_or_else(|e| {
            panic!("{}: {e}; install the package tshark, or set QUOTEWAY_TSHARK=none to do without", binary.display())
        });
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let report = tshark(&["-q", "-z", "expert,error"]);
    assert!(!report.lines().any(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())), "{report}");
    assert!(tshark(&["-Y", "_ws.malformed"]).is_empty());
    let elements = tshark(&[
        "-Y",
        "lbmc.apphdr_chain.first_chain_hdr == 2",
        "-T",
        "fields",
        "-e",
        "lbmc.apphdr_chain.element.hdr_len",
    ]);
    assert_eq!(elements.split_whitespace().collect::<Vec<_>>(), ["8", "12", "8", "8", "8", "12"]);
    let text = tshark(&["-V", "-Y", "frame.number == 2"]);
    assert!(text.contains("Hot failover sequence number") || text.contains("Hot Failover Sequence Number"), "{text}");
}
