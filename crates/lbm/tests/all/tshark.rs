//! Stock Wireshark reads what the state machines write: no errors, topics by name. Needs `tshark` (Debian package `tshark`);
//! `QUOTEWAY_TSHARK` names another binary, or is `none` where there is none.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use lbm::resolver::service::{self, Service, ServiceConfig};
use lbm::resolver::unicast::{Daemon, DaemonLimits, DaemonLink};
use lbm::resolver::{Resolver, ResolverConfig};
use lbm::topic::{
    CatchUpConfig, DeliveryConfig, Message, Reply, RetentionConfig, Session, Source, SourceConfig, TopicSink,
    encode_reply,
};
use lbm::transport::lbtru::{Client, ClientConfig, Server};
use lbm::transport::{
    DatagramSink as _, EndReason, Framing, Lbtrm, Order, Received, Receiver, ReceiverConfig, Sender, SenderConfig, tcp,
};
use lbm::wire::header::{ExtensionOption, Header, Request};
use lbm::wire::lbmr::{Advert, PatternKind, Transport};
use lbm::wire::lbmr_option::{Functionality, LateJoin, TopicOption, TopicOptions};
use lbm::wire::{Writer, lbmc, lbtrm, lbtru};

const MS: u64 = 1_000_000;
const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 10);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 20);
const RESOLUTION: (Ipv4Addr, u16) = (Ipv4Addr::new(224, 9, 10, 11), 12_965);
const DAEMON: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 1, 1, 30), 15_380);
const SERVICE: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 1, 1, 40), 27_000);
const GROUP: (Ipv4Addr, u16) = (Ipv4Addr::new(224, 10, 10, 10), 14_400);
const FRAMING: Lbtrm = Lbtrm { unicast_port: 14_390, session_id: 0x5E55_1D01, group_size: 3 };
const RU_SESSION: u32 = 0x7C90_0002;
const TCP_SESSION: u32 = 0x7C90_0001;

/// A classic pcap file of Ethernet frames.
struct Capture {
    bytes: Vec<u8>,
    micros: u64,
    frames: usize,
}

impl Capture {
    fn new() -> Self {
        let mut bytes = 0xA1B2_C3D4u32.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 1, 0, 0, 0]);
        Self { bytes, micros: 1_700_000_000_000_000, frames: 0 }
    }

    fn frame(&mut self, from: Ipv4Addr, to: Ipv4Addr, protocol: u8, segment: &[u8]) {
        let mut ip = vec![0x45, 0];
        ip.extend_from_slice(&(segment.len() as u16 + 20).to_be_bytes());
        ip.extend_from_slice(&[0, 0, 0x40, 0, 16, protocol, 0, 0]);
        ip.extend_from_slice(&from.octets());
        ip.extend_from_slice(&to.octets());
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend_from_slice(&ip);
        frame.extend_from_slice(segment);
        self.micros += 1_000;
        self.frames += 1;
        for field in [self.micros / 1_000_000, self.micros % 1_000_000, frame.len() as u64, frame.len() as u64] {
            self.bytes.extend_from_slice(&(field as u32).to_le_bytes());
        }
        self.bytes.extend_from_slice(&frame);
    }

    fn udp(&mut self, from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), payload: &[u8]) {
        let mut segment = Vec::new();
        for field in [from.1, to.1, payload.len() as u16 + 8, 0] {
            segment.extend_from_slice(&field.to_be_bytes());
        }
        segment.extend_from_slice(payload);
        self.frame(from.0, to.0, 17, &segment);
    }

    /// A connection on which each side sends one piece of data.
    fn tcp(&mut self, client: (Ipv4Addr, u16), server: (Ipv4Addr, u16), request: &[u8], answer: &[u8]) {
        let mut segment = |from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), seq: u32, ack: u32, flags: u8, data: &[u8]| {
            let mut s = [from.1.to_be_bytes(), to.1.to_be_bytes()].concat();
            s.extend_from_slice(&seq.to_be_bytes());
            s.extend_from_slice(&ack.to_be_bytes());
            s.extend_from_slice(&[0x50, flags, 0xFF, 0xFF, 0, 0, 0, 0]);
            s.extend_from_slice(data);
            self.frame(from.0, to.0, 6, &s);
        };
        segment(client, server, 1_000, 0, 2, &[]);
        segment(server, client, 5_000, 1_001, 0x12, &[]);
        segment(client, server, 1_001, 5_001, 0x10, &[]);
        segment(client, server, 1_001, 5_001, 0x18, request);
        if !answer.is_empty() {
            segment(server, client, 5_001, 1_001 + request.len() as u32, 0x18, answer);
        }
    }
}

fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes.chunks(2).map(|c| u32::from(c[0]) << 8 | c.get(1).map_or(0, |b| u32::from(*b))).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

struct Nothing;

impl TopicSink for Nothing {
    fn message(&mut self, _: u32, _: Message<'_>) {}
    fn lost(&mut self, _: u32, _: u32) {}
    fn burst_lost(&mut self, _: u32, _: u32, _: u32) {}
    fn end(&mut self, _: u32, _: EndReason) {}
}

fn datagrams<F: Framing>(sender: &mut Sender<F>, now: u64) -> Vec<Vec<u8>> {
    let output = sender.output(now);
    let mut all: Vec<Vec<u8>> = output.control().map(<[u8]>::to_vec).collect();
    let control = all.len();
    all.extend(output.retransmissions().map(<[u8]>::to_vec));
    let again = all.len() - control;
    let trains: Vec<_> = output.trains(65_000, 64).collect();
    all.extend(trains.iter().flat_map(|t| t.datagrams()).map(<[u8]>::to_vec));
    let sent = trains.iter().map(|t| t.datagrams).sum();
    sender.sent_control(control);
    sender.sent_retransmissions(now, again);
    sender.sent(now, sent);
    all
}

fn resolution(capture: &mut Capture) {
    let mut options = [0; 64];
    let mut w = Writer::new(&mut options);
    let functions = Functionality::LATE_JOIN;
    let late = LateJoin { flags: 0, port: 14_391, address: SOURCE, transport: 0, high_sqn: 0, low_sqn: 0 };
    TopicOption::LateJoin(late).encode(&mut w).expect("fits");
    let option = Functionality { flags: 0x8000, port: 14_391, address: SOURCE, functions };
    TopicOption::Functionality(option).encode(&mut w).expect("fits");
    let options = TopicOptions::from_encoded(w.written());
    let lbtrm = Transport::Lbtrm {
        source: SOURCE,
        group: GROUP.0,
        session_id: FRAMING.session_id,
        destination_port: GROUP.1,
        unicast_port: FRAMING.unicast_port,
    };
    let lbtru = Transport::Lbtru { address: SOURCE, session_id: Some(RU_SESSION), port: 14_380 };
    let lbtipc = Transport::Lbtipc { host: 0xA0_0001, session_id: 0x7C90_0003, transport: 20_001 };
    let tcp = Transport::Tcp { address: SOURCE, session_id: Some(TCP_SESSION), port: 14_371 };
    let mut receivers = Resolver::new(ResolverConfig { source_id: [2; 8], ..ResolverConfig::default() });
    receivers.add_receiver(0, b"md.ibm", 1).expect("a name");
    receivers.add_wildcard(0, PatternKind::Pcre, "^md\\..*$", 2).expect("a pattern");
    receivers.add_wildcard(0, PatternKind::Regex, "^es.*$", 3).expect("a pattern");
    receivers.on_timer(0, |packet| capture.udp((RECEIVER, 33_001), RESOLUTION, packet));
    let mut sources = Resolver::new(ResolverConfig { source_id: [1; 8], ..ResolverConfig::default() });
    for (name, topic, transport) in [
        (b"md.ibm".as_slice(), 1, lbtrm),
        (b"md.es", 2, lbtrm),
        (b"x.ru", 3, lbtru),
        (b"x.tcp", 4, tcp),
        (b"x.ipc", 5, lbtipc),
    ] {
        sources.add_source(0, &Advert { name, ttl: 60, topic, options, transport }).expect("a name");
    }
    sources.on_timer(0, |packet| capture.udp((SOURCE, 33_000), RESOLUTION, packet));
    daemon(capture);
}

/// What contexts and a resolver daemon say to each other while nothing happens.
fn daemon(capture: &mut Capture) {
    let at = |address: Ipv4Addr| std::net::SocketAddrV4::new(address, 14_402);
    let mut daemon = Daemon::new(DaemonLimits::default(), 500 * MS, 10_000 * MS, 0);
    for (address, has_sources) in [(SOURCE, true), (RECEIVER, false)] {
        let mut link = DaemonLink::new(500 * MS, 1_000 * MS, 0);
        link.set_sources(has_sources);
        let alive = link.on_timer(0).expect("a sign of life");
        capture.udp((address, 14_402), DAEMON, &alive);
        for now in [0, 100 * MS] {
            daemon.receive(now, at(address), &alive, |_, _| {});
        }
    }
    daemon.on_timer(500 * MS, |to, packet| capture.udp(DAEMON, (*to.ip(), to.port()), packet));
}

/// Two contexts and a resolution service, until everything that is said has been said.
fn service(capture: &mut Capture) {
    let config = |session, address| service::ClientConfig { session, address, ..service::ClientConfig::default() };
    let mut service = Service::new(ServiceConfig::default(), 0);
    let mut clients = [service::Client::new(config(1, SOURCE), 0), service::Client::new(config(2, RECEIVER), 0)];
    let mut said = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
    for (at, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.actions(0).collect::<Vec<_>>(), [service::Action::Dial(0)]);
        client.connected(0, 0);
        service.accepted(0, at as u64);
    }
    let transports = [
        Transport::Tcp { address: SOURCE, session_id: Some(TCP_SESSION), port: 14_371 },
        Transport::Lbtru { address: SOURCE, session_id: Some(RU_SESSION), port: 14_380 },
        Transport::Lbtipc { host: 0xA0_0001, session_id: 0x7C90_0003, transport: 20_001 },
        Transport::Lbtrm {
            source: SOURCE,
            group: GROUP.0,
            session_id: FRAMING.session_id,
            destination_port: GROUP.1,
            unicast_port: FRAMING.unicast_port,
        },
    ];
    let mut handles = Vec::new();
    for turn in 0..12u64 {
        match turn {
            2 => {
                for (topic, transport) in transports.into_iter().enumerate() {
                    let (topic, options) = (topic as u32, TopicOptions::default());
                    let advert = Advert { name: b"md.ibm", ttl: 60, topic, options, transport };
                    handles.push(clients[0].add_source(&advert));
                }
            }
            3 => clients[1].add_receiver(0, b"md.ibm"),
            4 => clients[1].add_pattern(0, "^md\\..*$"),
            7 => clients[0].remove_source(handles[0]),
            8 => clients[1].remove_pattern("^md\\..*$"),
            9 => clients[1].remove_receiver(b"md.ibm"),
            10 => clients.iter_mut().for_each(|client| client.on_timer(4_000 * MS)),
            _ => {}
        }
        for (at, client) in clients.iter_mut().enumerate() {
            let bytes = client.output(0);
            said[at].0.extend_from_slice(&bytes);
            service.receive(0, at as u64, &bytes).expect("ours");
        }
        for at in service.ready() {
            let bytes = service.take(at, 1 << 20);
            said[at as usize].1.extend_from_slice(&bytes);
            clients[at as usize].receive(0, 0, &bytes).expect("ours");
        }
    }
    assert_eq!((clients[1].stats().ended, service.stats().sources), (1, 3));
    for (at, (request, answer)) in said.iter().enumerate() {
        let from = [SOURCE, RECEIVER][at];
        capture.tcp((from, 40_100), SERVICE, request, answer);
    }
}

fn multicast(capture: &mut Capture) {
    let config = SenderConfig { datagram_max: 1_472, retransmit_rate_limit_bps: 6_000_000, ..SenderConfig::default() };
    let mut sender = Sender::new(FRAMING, config);
    let (mut ibm, mut es) = (Source::new(1, SourceConfig::default()), Source::new(2, SourceConfig::default()));
    let mut receiver = Receiver::new(FRAMING, ReceiverConfig::default(), 0);
    let mut session = Session::new();
    let mut now = MS;
    let request = Header::Request(Request { flags: 0, transport: 0, index: 9, port: 14_391, address: SOURCE });
    let data = [1, 2, 3];
    let option = ExtensionOption { flags: 0x80, id: 0, subtype: ExtensionOption::QUOTEWAY, offset: 0, data: &data };
    let application = Header::Application { flags: 0x8007, data: &data };
    for i in 0..12u8 {
        ibm.send(now, &mut sender, &[i; 64], false).expect("room");
        es.send(now, &mut sender, &[i; 100], i % 3 == 2).expect("room");
    }
    ibm.send(now, &mut sender, &[7; 5_000], false).expect("room");
    ibm.send_headed(now, &mut sender, &[request, Header::Option(option)], b"ping?", true).expect("room");
    es.send_headed(now, &mut sender, &[application], &[8; 3_000], true).expect("room");
    now += 6_000 * MS;
    assert!(ibm.on_timer(now, &mut sender) && es.on_timer(now, &mut sender));
    let mut sent = datagrams(&mut sender, now);
    for i in 0..20u8 {
        es.send(now, &mut sender, &[i; 1_000], true).expect("room");
    }
    sent.extend(datagrams(&mut sender, now));
    // Every third is lost; the receiver asks twice, the second time in vain.
    for (i, datagram) in sent.iter().enumerate() {
        if i % 3 != 1 {
            capture.udp((SOURCE, 33_100), GROUP, datagram);
            let packet = lbtrm::Packet::decode(datagram).expect("our own");
            let received = Received::from_lbtrm(&packet).expect("data");
            receiver.receive(now, received, &mut session.dispatch(now, &mut Nothing));
        }
    }
    now += 1_000 * MS;
    let mut naks = Vec::new();
    receiver.on_timer(now, &mut session.dispatch(now, &mut Nothing), |nak| naks.push(nak.to_vec()));
    for nak in naks.iter().chain(&naks) {
        capture.udp((RECEIVER, 33_200), (SOURCE, FRAMING.unicast_port), nak);
        let lbtrm::Body::Nak { sqns, .. } = lbtrm::Packet::decode(nak).expect("a NAK").body else { panic!() };
        sender.nak(now, 1, sqns.iter());
        for packet in datagrams(&mut sender, now) {
            capture.udp((SOURCE, 33_100), GROUP, &packet);
        }
    }
    sender.on_timer(now + 300 * MS);
    for packet in datagrams(&mut sender, now + 300 * MS) {
        capture.udp((SOURCE, 33_100), GROUP, &packet);
    }
    assert!(sender.stats().ncfs >= 2 && sender.stats().retransmissions > 0 && sender.stats().session_messages == 1);
}

fn unicast(capture: &mut Capture) {
    let (from, to) = ((SOURCE, 14_380), (RECEIVER, 14_360));
    let address = std::net::SocketAddrV4::new(RECEIVER, to.1);
    let mut server = Server::new(RU_SESSION, SenderConfig::default(), 4, 10_000 * MS);
    let mut client = Client::new(RU_SESSION, 0xC0_FFEE, ClientConfig::default(), 0);
    let mut source = Source::new(3, SourceConfig::default());
    let mut session = Session::new();
    for turn in 0..40u64 {
        let now = MS + turn * 500 * MS;
        let mut answers = Vec::new();
        client.on_timer(now, &mut session.dispatch(now, &mut Nothing), |p| answers.push(p.to_vec()));
        if turn < 15 {
            for answer in answers {
                capture.udp(to, from, &answer);
                server.receive(now, address, &lbtru::Packet::decode(&answer).expect("our own"));
            }
        }
        if (2..10).contains(&turn) {
            source.send(now, server.sender(), &[turn as u8; 100], true).expect("room");
        }
        server.on_timer(now);
        let mut packets = Vec::new();
        server.replies(|_, packet| packets.push(packet.to_vec()));
        packets.extend(datagrams(server.sender(), now));
        for (i, packet) in packets.iter().enumerate() {
            if turn > 12 || (turn + i as u64) % 5 != 4 {
                capture.udp(from, to, packet);
                let packet = lbtru::Packet::decode(packet).expect("our own");
                client.receive(now, &packet, &mut session.dispatch(now, &mut Nothing));
            }
        }
    }
    assert_eq!(server.clients().count(), 0, "the silent client was dropped with a reset");
}

fn streams(capture: &mut Capture) {
    let retaining = SourceConfig { late_join: Some(RetentionConfig::default()), ..SourceConfig::default() };
    let mut source = Source::new(4, retaining);
    let mut batch = tcp::Batch::new(1 << 20, 1, 0);
    for i in 0..3u8 {
        source.send(0, &mut batch, &[i; 50], true).expect("room");
    }
    capture.tcp((RECEIVER, 40_000), (SOURCE, 14_371), &tcp::hello(TCP_SESSION), batch.output());
    // A late joiner that has seen the last message only.
    let catch_up = CatchUpConfig { late_join: true, reply: (RECEIVER, 14_392), ..CatchUpConfig::default() };
    let mut session = Session::new();
    session.add(4, 4, DeliveryConfig { catch_up, ..DeliveryConfig::default() }, &mut Nothing);
    let last = batch.output().len() - 62;
    let mut sink = Nothing;
    let mut live = session.dispatch(0, &mut sink);
    live.begin();
    live.datagram(0, Order::InOrder, &batch.output()[last..]);
    let (mut questions, mut answers) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let mut asked = Vec::new();
        session.on_timer(0, &mut Nothing, |topic, header| {
            let mut buffer = [0; 64];
            let mut w = Writer::new(&mut buffer);
            lbmc::encode_control(&mut w, &[header]).expect("fits");
            questions.extend_from_slice(w.written());
            let mut answer = Vec::new();
            match header {
                Header::LateJoinRequest(q) => source.late_join_request(0, &q, &mut answer),
                Header::RetransmitRequest(q) => assert!(source.retransmit_request(&q, &mut answer)),
                other => panic!("{other:?}"),
            }
            asked.push((topic, answer));
        });
        for (topic, answer) in asked {
            for header in lbmc::Message::decode(&answer).expect("ours").0.headers() {
                if let Ok(Header::LateJoinInfo(info)) = header {
                    session.late_join_info(0, topic, &info, &mut Nothing);
                }
            }
            answers.extend_from_slice(&answer);
        }
    }
    assert_eq!(answers.len(), 20 + 2 * 62, "what is retained, and two messages");
    capture.tcp((RECEIVER, 40_001), (SOURCE, 14_391), &questions, &[]);
    capture.tcp((SOURCE, 40_002), (RECEIVER, 14_392), &answers, &[]);
    let mut buffer = [0; 64];
    let mut w = Writer::new(&mut buffer);
    encode_reply(&mut w, Reply { request: 9, payload: b"pong" }).expect("fits");
    capture.tcp((RECEIVER, 40_003), (SOURCE, 14_391), w.written(), &[]);
}

fn tshark(binary: &Path, file: &Path, arguments: &[&str]) -> String {
    // By its preferences alone another dissector, which goes by the first bytes, may take the connection.
    let service = format!("tcp.port=={},lbmsrs", SERVICE.1);
    let output = Command::new(binary).args(["-d", &service]).arg("-2").arg("-r").arg(file).args(arguments).output();
    let output = output.unwrap_or_else(|e| {
        panic!("{}: {e}; install the package tshark, or set QUOTEWAY_TSHARK=none to do without", binary.display())
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn wireshark_reads_everything_without_errors() {
    let binary = std::env::var_os("QUOTEWAY_TSHARK").map_or_else(|| PathBuf::from("tshark"), PathBuf::from);
    if binary == Path::new("none") {
        return;
    }
    let mut capture = Capture::new();
    resolution(&mut capture);
    service(&mut capture);
    multicast(&mut capture);
    unicast(&mut capture);
    streams(&mut capture);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lbm.pcap");
    std::fs::write(&file, &capture.bytes).expect("written");

    let count = |filter: &str| tshark(&binary, &file, &["-Y", filter]).lines().count();
    let report = tshark(&binary, &file, &["-q", "-z", "expert,error"]);
    assert!(!report.lines().any(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())), "{report}");
    assert_eq!(count("_ws.malformed"), 0);
    assert_eq!(count("udp && !(lbmr || lbtrm || lbtru)"), 0);
    assert_eq!(count("tcp.len > 0 && !(lbttcp || lbmsrs)"), 0);
    let records = tshark(&binary, &file, &["-Y", "lbmsrs", "-V"]);
    for (name, times) in [
        ("SRS_REGISTRATION_REQUEST", 2),
        ("SRS_REGISTRATION_RESPONSE", 2),
        ("SRS_STREAM_REQUEST", 2),
        ("SRS_SRC_DELETE", 1),
        ("SRS_RCV_INFO", 1),
        ("SRS_RCV_DELETE", 1),
        ("SRS_WRCV_INFO", 1),
        ("SRS_WRCV_DELETE", 1),
        ("SER:Topic:md.ibm", 1),
        ("Source: LBTRM:10.1.1.10:14390:5e551d01:224.10.10.10:14400", 3),
        ("Frame Type: KEEPALIVE", 4),
    ] {
        assert_eq!(records.matches(name).count(), times, "{name} in {records}");
    }
    assert!(count("ip.addr == 10.1.1.30 && lbmr") >= 4, "signs of life, both ways");
    assert_eq!(count("lbmr.tir.transport_type == 0x40"), 1);
    assert_eq!(count("lbmr.tqr"), 2);
    assert_eq!(count("lbmr.tir"), 1);
    assert!(count("lbtrm.data.flags_fec_type.rx == 1") > 3);
    assert!(count("lbtrm.ncf") >= 2 && count("lbtrm.nak") == 2 && count("lbtrm.sm") == 1 && count("lbmc.tsni") == 2);
    assert!(count("lbtru.data") > 5 && count("lbtru.nak") > 0 && count("lbtru.hdr.type == 7") == 1);
    assert_eq!(count("(lbtrm || lbtru) && lbmc.tidx && !lbmc.topic"), 0, "every topic is known by its name");
    let topics = tshark(&binary, &file, &["-Y", "lbtrm.data.sqn == 0", "-T", "fields", "-e", "lbmc.topic"]);
    assert_eq!(topics.trim(), "md.ibm,md.es,md.ibm,md.es,md.ibm,md.es");
}
