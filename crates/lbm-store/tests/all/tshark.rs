//! Stock Wireshark reads every message of persistence: no errors. Needs `tshark` (Debian package `tshark`); `QUOTEWAY_TSHARK` names
//! another binary, or is `none` where there is none.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::Command;

use lbm::topic::Message;
use lbm::wire::header::RetransmitRequest;
use lbm::wire::lbmc;
use lbm_store::receiver::{Delivered, ReceiverConfig, ReceiverEvent, Sink, Topic, TopicEvent};
use lbm_store::source::{Identity, Source, SourceConfig, SourceEvent, StoreAddress};
use lbm_store::store::{NoLog, Store, StoreConfig};
use lbm_store::wire::{Ack, Refusal, RegistrationResponse, Ume, control, origin};

use crate::world::{MS, origin as stream_origin};

const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 10);
const STORE: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 20);

struct Nothing(Vec<u32>);

impl Sink for Nothing {
    fn message(&mut self, _: u32, message: Delivered<'_>) {
        self.0.push(message.sqn);
    }
    fn lost(&mut self, _: u32, _: u32, _: u32) {}
}

/// All that a source, a store and a receiver say to each other, one piece after the other.
fn dialogue() -> Vec<Vec<u8>> {
    let mut said = Vec::new();
    let mut now = 0;
    let at = SocketAddrV4::new(STORE, 14567);
    let config = SourceConfig {
        stores: vec![StoreAddress { group: 0, at, reg_id: 0 }],
        session: 9,
        confirmations: true,
        ..SourceConfig::default()
    };
    let requests = SocketAddrV4::new(SOURCE, 14391);
    let identity = Identity {
        topic: b"orders".as_slice().into(),
        transport: 0,
        topic_index: 42,
        origin: stream_origin(1),
        requests,
    };
    let mut source = Source::new(now, config, identity);
    let mut store = Store::new(StoreConfig::default(), NoLog);
    let mut topic = Topic::new(b"orders", ReceiverConfig { session: 7, ..ReceiverConfig::default() });
    let mut sink = Nothing(Vec::new());
    store.stream(now, 1, stream_origin(1));
    topic.stream_begun(now, 1, true);
    let mut sent = false;
    for turn in 0..400 {
        now += 20 * MS;
        let mut announced = Vec::new();
        source.on_timer(now, |message| announced.push(message.to_vec()));
        for message in announced {
            topic.control(now, 1, 42, &lbmc::Message::decode(&message).expect("ours").0, &mut sink).expect("ours");
            said.push(message);
        }
        for event in source.events().collect::<Vec<_>>() {
            match event {
                SourceEvent::Dial { store, .. } => source.connected(now, store),
                SourceEvent::Ready { .. } if !sent => {
                    sent = true;
                    (0..5u32).for_each(|sqn| {
                        source.sent(now, sqn, b"a message", 1_000);
                        // The third one is lost on the way to the store.
                        let mut encoded = lbmc::data_header(21, 42, sqn).to_vec();
                        encoded.extend_from_slice(b"a message");
                        if sqn != 2 {
                            store.data(now, 1, sqn, &encoded);
                        }
                    });
                }
                _ => {}
            }
        }
        for (_, bytes) in source.output().drain() {
            store.receive(now, 100, &bytes).expect("ours");
            said.push(bytes);
        }
        topic.on_timer(now, &mut sink);
        for event in topic.events() {
            if let TopicEvent::Source(source, ReceiverEvent::Dial { store, .. }) = event {
                topic.connected(now, Topic::conn(source, store));
            }
        }
        if turn == 100 {
            let (message, _) =
                lbmc::Message::decode(&[0, 0, 0, 13, 0, 0, 0, 42, 0, 0, 0, 9, 1]).map(|m| (m.0, m.1)).expect("ours");
            let content = message.content().expect("ours");
            let (kind, headers) = (message.kind, message.headers());
            topic.message(
                now,
                1,
                &Message { sqn: 9, payload: content.payload, properties: 0, kind, headers },
                &mut sink,
            );
        }
        let mut bytes = Vec::new();
        topic.output(|_, out| bytes.push(out));
        for bytes in bytes {
            store.receive(now, 200, &bytes).expect("ours");
            said.push(bytes);
        }
        store.on_timer(now);
        store.flush();
        for (conn, bytes) in store.output().drain().collect::<Vec<_>>() {
            said.push(bytes.clone());
            if conn == 100 {
                source.receive(now, 0, &bytes).expect("ours");
            } else {
                topic.receive(now, Topic::conn(0, 0), &bytes, &mut sink).expect("ours");
            }
        }
    }
    assert_eq!(sink.0, [0, 1, 2, 3, 4], "the dialogue has brought what was sent");
    said
}

/// What the dialogue does not have.
fn others() -> Vec<Vec<u8>> {
    let transport = lbm::wire::lbmr::Transport::Tcp { address: SOURCE, session_id: Some(5), port: 14371 };
    let refused = RegistrationResponse {
        code: Refusal::OtherTopic.code(),
        source: true,
        reg_id: 1,
        transport: 0,
        topic: 42,
        low: 0,
        high: 0,
    };
    let request =
        RetransmitRequest { flags: 0, request: 1, transport: 0, topic: 42, sqn: 3, port: 14391, address: SOURCE };
    let ack = Ack { flags: 0x88, stable: false, transport: 0, topic: 42, receiver: 3, sqn: 9 };
    let all: [&[Ume<'_>]; 5] = [
        &[Ume::InfoRequest { transport: 0, topic: 42 }, Ume::TopicIndex(42)],
        &[Ume::Response(refused), Ume::StoreId(3)],
        &[Ume::Retransmit(request)],
        &[Ume::Ack(ack), Ume::AckId(4097)],
        &[Ume::TopicName(b"orders"), Ume::Origin(origin(&transport, 42))],
    ];
    let encode = |headers: &&[Ume<'_>]| {
        let mut out = Vec::new();
        control(&mut out, headers);
        out
    };
    all.iter().map(encode).collect()
}

/// A classic pcap file: each piece a segment of one connection to the store's port.
fn capture(pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut out = 0xA1B2_C3D4u32.to_le_bytes().to_vec();
    out.extend_from_slice(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 1, 0, 0, 0]);
    for (n, piece) in pieces.iter().enumerate() {
        // A connection of its own each: nothing is out of order then.
        let mut segment = [(20_000 + n as u16).to_be_bytes(), 14567u16.to_be_bytes()].concat();
        segment.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0xFF, 0xFF, 0, 0, 0, 0]);
        segment.extend_from_slice(piece);
        let mut ip = vec![0x45, 0];
        ip.extend_from_slice(&(segment.len() as u16 + 20).to_be_bytes());
        ip.extend_from_slice(&[0, 0, 0x40, 0, 16, 6, 0, 0]);
        ip.extend_from_slice(&SOURCE.octets());
        ip.extend_from_slice(&STORE.octets());
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
fn wireshark_reads_every_message_of_persistence() {
    let tshark = std::env::var("QUOTEWAY_TSHARK").unwrap_or_else(|_| "tshark".to_owned());
    let (said, others) = (dialogue(), others());
    for kind in [18, 19, 20, 21, 22, 23, 24, 25, 28, 70, 71, 83, 85, 105] {
        let has = |piece: &Vec<u8>| {
            lbmc::Messages::new(piece)
                .flatten()
                .any(|m| m.kind == lbmc::Kind::Control && m.headers().flatten().any(|h| h.code() == kind))
        };
        assert!(said.iter().chain(&others).any(has), "header {kind} is in the capture");
    }
    if tshark == "none" {
        return;
    }
    let pieces: Vec<Vec<u8>> = said.into_iter().chain(others).collect();
    let file = std::env::temp_dir().join(format!("lbm-store-{}.pcap", std::process::id()));
    std::fs::write(&file, capture(&pieces)).expect("written");
    let run = |more: &[&str]| {
        let ports = ["lbttcp.store_port_low:14567", "lbttcp.store_port_high:14567"];
        let mut command = Command::new(&tshark);
        command.arg("-r").arg(&file);
        for port in ports {
            command.args(["-o", port]);
        }
        let output = command.args(more).output().expect("tshark runs (QUOTEWAY_TSHARK=none where there is none)");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let errors = run(&["-q", "-z", "expert,error"]);
    let read = run(&["-T", "fields", "-e", "frame.number", "-Y", "lbmc"]);
    let names = run(&["-T", "fields", "-e", "lbmc.ume_preg.reg_id", "-Y", "lbmc.ume_preg"]);
    std::fs::remove_file(&file).expect("removed");
    assert!(!errors.contains("Errors"), "{errors}");
    assert_eq!(read.lines().count(), pieces.len(), "each piece is read as LBMC");
    assert!(names.lines().count() >= 2, "registrations of a source and a receiver: {names}");
}
