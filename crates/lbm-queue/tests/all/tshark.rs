//! Stock Wireshark reads every message of queuing: no errors. Needs `tshark` (Debian package `tshark`); `QUOTEWAY_TSHARK` names another
//! binary, or is `none` where there is none.

use std::net::{Ipv4Addr, SocketAddrV4};

use lbm::wire::Writer;
use lbm::wire::lbmc::{self, Kind, NEXT_DATA};
use lbm_queue::MessageId;
use lbm_queue::wire::{
    Answer, Assignment, IndexRef, Joins, Load, MessageHeaders, Refusal, Registration, RegistrationResponse, Ulb,
    control,
};
use lbm_trials::capture::{self, Readable, Written};

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
        &[Ulb::TopicIndex(42), Ulb::Origin([7; 32]), Ulb::Registration(registration)],
        &[Ulb::TopicIndex(42), Ulb::Registration(Registration { joins: None, ..registration })],
        &[Ulb::TopicIndex(42), response(Answer::Registered { source: 5, receiver: 6, set: 1 })],
        &[Ulb::TopicIndex(42), response(Answer::Left { source: 5, receiver: 6 })],
        &[Ulb::TopicIndex(42), response(Answer::Refused(Refusal::ReceiverType))],
        &[Ulb::Origin([7; 32]), Ulb::Consumed { source: 5, receiver: 6, set: 1, ids: &ids }],
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

#[test]
fn wireshark_reads_every_message_of_queuing() {
    let Some(tshark) = capture::tshark() else { return };
    let pieces = messages();
    let (from, to) = (SocketAddrV4::new(SOURCE, 14391), SocketAddrV4::new(RECEIVER, 0));
    let file = Written::new("lbm-queue", &capture::pcap(&pieces, from, to));
    let capture = Readable::new(&tshark, file.path(), &[]);
    let values = |field: &str| -> Vec<String> {
        // Numbers are shown in hexadecimal.
        let number =
            |value: &str| u64::from_str_radix(value.trim_start_matches("0x"), 16).map(|number| number.to_string());
        let row =
            |line: &String| line.split(',').map(|v| number(v).unwrap_or_else(|_| v.to_owned())).collect::<Vec<_>>();
        capture.field(field).iter().map(|line| row(line).join(",")).collect()
    };
    capture.check(None);
    assert_eq!(capture.count("lbmc"), pieces.len(), "each piece is read as LBMC");
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
    assert_eq!(found, wanted);
}
