//! Stock Wireshark reads every message of persistence: no errors. Needs `tshark` (Debian package `tshark`); `QUOTEWAY_TSHARK` names
//! another binary, or is `none` where there is none.

use std::net::{Ipv4Addr, SocketAddrV4};

use lbm::topic::Message;
use lbm::wire::header::{LateJoinInfo, RetransmitRequest};
use lbm::wire::lbmc;
use lbm_store::receiver::{Delivered, ReceiverConfig, ReceiverEvent, Sink, Topic, TopicEvent};
use lbm_store::source::{Identity, Source, SourceConfig, SourceEvent, StoreAddress};
use lbm_store::store::{NoLog, Store, StoreConfig};
use lbm_store::wire::{Ack, Refusal, RegistrationResponse, Ume, control, origin};
use lbm_trials::capture::{self, Readable, Written};

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
        proxy: true,
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
                            store.data(now, 1, sqn, [&encoded, &[]]);
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
    let gone = LateJoinInfo { flags: 0, low_sqn: 3, high_sqn: 9, request: 1 };
    let all: [&[Ume<'_>]; 6] = [
        &[Ume::Retained(gone)],
        &[Ume::InfoRequest { transport: 0, topic: 42 }, Ume::TopicIndex(42), Ume::Origin(origin(&transport, 42))],
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

#[test]
fn wireshark_reads_every_message_of_persistence() {
    let (said, others) = (dialogue(), others());
    for kind in [18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 30, 70, 71, 83, 85, 105] {
        let has = |piece: &Vec<u8>| {
            lbmc::Messages::new(piece)
                .flatten()
                .any(|m| m.kind == lbmc::Kind::Control && m.headers().flatten().any(|h| h.code() == kind))
        };
        assert!(said.iter().chain(&others).any(has), "header {kind} is in the capture");
    }
    let Some(tshark) = capture::tshark() else { return };
    let pieces: Vec<Vec<u8>> = said.into_iter().chain(others).collect();
    let (from, to) = (SocketAddrV4::new(SOURCE, 0), SocketAddrV4::new(STORE, 14567));
    let file = Written::new("lbm-store", &capture::pcap(&pieces, from, to));
    let ports = ["-olbttcp.store_port_low:14567", "-olbttcp.store_port_high:14567"].map(str::to_owned);
    let capture = Readable::new(&tshark, file.path(), &ports);
    capture.check(None);
    assert_eq!(capture.count("lbmc"), pieces.len(), "each piece is read as LBMC");
    let capabilities = capture.count("lbmc.ume_capability");
    assert!(capabilities >= 2, "capabilities beside them: {capabilities}");
    let registrations = capture.count("lbmc.ume_preg");
    assert!(registrations >= 2, "registrations of a source and a receiver: {registrations}");
}
