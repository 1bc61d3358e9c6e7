//! Stock Wireshark reads every message of queuing: no errors. Needs `tshark` (Debian package `tshark`); `QUOTEWAY_TSHARK` names another
//! binary, or is `none` where there is none.

use std::net::Ipv4Addr;
use std::process::Command;

use lbm::wire::Writer;
use lbm::wire::lbmc::{self, Kind, NEXT_DATA};
use lbm_queue::MessageId;
use lbm_queue::wire::{
    Answer, Assignment, IndexRef, Joins, Load, MessageHeaders, Refusal, Registration, RegistrationResponse, Ulb,
    control,
};

const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 10);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 20);

/// Each message of queuing.
fn messages() -> Vec<Vec<u8>> {
    let joins = Joins { kind: 10, takes_indices: true, port: 0, address: Ipv4Addr::UNSPECIFIED };
    let registration = Registration { reg_id: 7 << 32 | 6, command: 3, source: 5, receiver: 6, joins: Some(joins) };
    let response = |answer| Ulb::Response(RegistrationResponse { reg_id: 6, command: 3, answer });
    let ids: Vec<u8> = (0..3u64).flat_map(|stamp| [5u64.to_be_bytes(), stamp.to_be_bytes()].concat()).collect();
    let alive = |answer| Ulb::Keepalive { answer, reg_id: 6, source: 5, receiver: 6 };
    let controls: [&[Ulb<'_>]; 8] = [
        &[Ulb::TopicIndex(42), Ulb::Registration(registration)],
        &[Ulb::TopicIndex(42), Ulb::Registration(Registration { joins: None, ..registration })],
        &[Ulb::TopicIndex(42), response(Answer::Registered { source: 5, receiver: 6, set: 1 })],
        &[Ulb::TopicIndex(42), response(Answer::Left { source: 5, receiver: 6 })],
        &[Ulb::TopicIndex(42), response(Answer::Refused(Refusal::ReceiverType))],
        &[Ulb::Consumed { source: 5, receiver: 6, set: 1, ids: &ids }],
        &[Ulb::TopicIndex(42), alive(None), alive(None)],
        &[alive(Some(1)), Ulb::Load(Load { sources: 3, messages: 300 })],
    ];
    let encode = |headers: &&[Ulb<'_>]| {
        let mut out = Vec::new();
        assert!(control(&mut out, headers));
        out
    };
    let mut all: Vec<Vec<u8>> = controls.iter().map(encode).collect();
    for index in [None, Some(IndexRef::Number(9)), Some(IndexRef::Text(b"IBM.N"))] {
        let mut headers = MessageHeaders::default();
        headers.push(&Ulb::MessageId(MessageId { source: 5, stamp: 1 << 40 }));
        headers.push(&Ulb::Assignment(Assignment { source: 5, receiver: 6, set: 0, again: 0 }));
        headers.push(&Ulb::Assignment(Assignment { source: 5, receiver: 8, set: 1, again: 2 }));
        if let Some(index) = index {
            headers.push(&Ulb::Index(index));
        }
        let mut bytes = [0; 300];
        let mut w = Writer::new(&mut bytes);
        let encoded =
            headers.with(|headers| lbmc::encode(&mut w, Kind::Message, 42, 9, headers, NEXT_DATA, b"a message"));
        encoded.expect("fits");
        all.push(w.written().to_vec());
    }
    all
}

/// A classic pcap file: each piece a segment of one connection from the source's port.
fn capture(pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut out = 0xA1B2_C3D4u32.to_le_bytes().to_vec();
    out.extend_from_slice(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 1, 0, 0, 0]);
    for (n, piece) in pieces.iter().enumerate() {
        // A connection of its own each: nothing is out of order then.
        let mut segment = [14391u16.to_be_bytes(), (20_000 + n as u16).to_be_bytes()].concat();
        segment.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0xFF, 0xFF, 0, 0, 0, 0]);
        segment.extend_from_slice(piece);
        let mut ip = vec![0x45, 0];
        ip.extend_from_slice(&(segment.len() as u16 + 20).to_be_bytes());
        ip.extend_from_slice(&[0, 0, 0x40, 0, 16, 6, 0, 0]);
        ip.extend_from_slice(&SOURCE.octets());
        ip.extend_from_slice(&RECEIVER.octets());
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend_from_slice(&ip);
        frame.extend_from_slice(&segment);
        for field in [1_700_000_000 + n as u32, 0, frame.len() as u32, frame.len() as u32] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&frame);
    }
    out
}

#[test]
fn wireshark_reads_every_message_of_queuing() {
    let tshark = std::env::var("QUOTEWAY_TSHARK").unwrap_or_else(|_| "tshark".to_owned());
    if tshark == "none" {
        return;
    }
    let pieces = messages();
    let file = std::env::temp_dir().join(format!("lbm-queue-{}.pcap", std::process::id()));
    std::fs::write(&file, capture(&pieces)).expect("written");
    let run = |more: &[&str]| {
        let mut command = Command::new(&tshark);
        command.arg("-r").arg(&file).args(more);
        let output = command.output().expect("tshark runs (QUOTEWAY_TSHARK=none where there is none)");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let values = |field: &str| -> Vec<String> {
        let text = run(&["-T", "fields", "-e", field, "-Y", field]);
        // Numbers are shown in hexadecimal.
        let number =
            |value: &str| u64::from_str_radix(value.trim_start_matches("0x"), 16).map(|number| number.to_string());
        let row = |line: &str| line.split(',').map(|v| number(v).unwrap_or_else(|_| v.to_owned())).collect::<Vec<_>>();
        text.lines().map(|line| row(line).join(",")).collect()
    };
    let errors = run(&["-q", "-z", "expert,error"]);
    let read = values("lbmc");
    let wanted = [
        ("lbmc.umq_reg.reg_ulb_rcv.rcv_type_id", vec!["10"]),
        ("lbmc.umq_reg.ulb_rcv_dereg.assign_id", vec!["6"]),
        ("lbmc.umq_reg_resp.reg_ulb_rcv.appset_idx", vec!["1"]),
        ("lbmc.umq_reg_resp.ulb_rcv_dereg.ulb_src_id", vec!["5"]),
        ("lbmc.umq_reg_resp.err.code", vec!["9"]),
        ("lbmc.umq_ack.msgid.stamp", vec!["0,1,2"]),
        ("lbmc.umq_ack.ulb_cr.appset_idx", vec!["1"]),
        ("lbmc.umq_ka.ulb_rcv.assign_id", vec!["6,6"]),
        ("lbmc.umq_ka.ulb_rcv_resp.appset_idx", vec!["1"]),
        ("lbmc.umq_lf.lf", vec!["300"]),
        ("lbmc.umq_ulb_msg.assign_id", vec!["6,8"; 3]),
        ("lbmc.umq_ulb_msg.num_ras", vec!["0,2"; 3]),
        ("lbmc.umq_msgid.msgid_stamp", vec!["1099511627776"; 3]),
    ]
    .map(|(field, values)| (field, values.into_iter().map(str::to_owned).collect::<Vec<_>>()));
    let found = wanted.clone().map(|(field, _)| (field, values(field)));
    std::fs::remove_file(&file).expect("removed");
    assert!(!errors.contains("Errors"), "{errors}");
    assert_eq!(read.len(), pieces.len(), "each piece is read as LBMC");
    assert_eq!(found, wanted);
}
