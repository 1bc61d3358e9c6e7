// What the fuzz targets run, and the smoke test in `hostile.rs` with it: any bytes may come, and nothing may panic, hang or take
// memory that the bytes do not justify. Each function takes the fuzzer's bytes.

use lbm::resolver::service::{Service, ServiceConfig};
use lbm::topic::{CatchUpConfig, DeliveryConfig, Message, Ordering, Session, Source, SourceConfig, TopicSink};
use lbm::transport::tcp::Deframer;
use lbm::transport::{EndReason, Lbtrm, Received, Receiver, ReceiverConfig, Sender, SenderConfig};
use lbm::wire::header::LateJoinInfo;
use lbm::wire::lbmc::{self, Messages};
use lbm::wire::properties::Properties;
use lbm::wire::rsocket::{Frame, Frames};
use lbm::wire::srs::{self, Interest, InterestKind, OTID, Record, RegistrationRequest, SourceInfo};
use lbm::wire::{Writer, lbmr, lbtrm, lbtru};

fn written(room: usize, f: impl FnOnce(&mut Writer<'_>) -> Result<(), lbm::wire::Full>) -> Option<Vec<u8>> {
    let mut buffer = vec![0; room];
    let mut w = Writer::new(&mut buffer);
    f(&mut w).ok()?;
    Some(w.written().to_vec())
}

/// A list of messages; what can be read can be written again.
pub(crate) fn messages(data: &[u8]) {
    for message in Messages::new(data) {
        let Ok(message) = message else { return };
        let mut headers = message.headers();
        let parts: Result<Vec<_>, _> = headers.by_ref().collect();
        let content = message.content();
        let Ok(parts) = parts else {
            assert!(content.is_err());
            continue;
        };
        let rebuilt = written(data.len(), |w| {
            lbmc::encode(w, message.kind, message.topic, message.sqn, &parts, headers.end(), headers.payload())
        });
        if let (Some(rebuilt), Ok(content)) = (rebuilt, content) {
            let again = Messages::new(&rebuilt).next().expect("a message").expect("good");
            assert_eq!(again.content(), Ok(content));
            let properties = content.payload.len().saturating_sub(content.properties as usize);
            if let Ok(properties) = Properties::decode(&content.payload[properties..]) {
                assert!(properties.iter().count() <= content.payload.len());
            }
        }
    }
}

/// A datagram of any kind.
pub(crate) fn datagram(data: &[u8]) {
    if let Ok(packet) = lbtrm::Packet::decode(data) {
        let rebuilt = written(data.len(), |w| packet.encode(w)).expect("no longer than it was");
        assert_eq!(lbtrm::Packet::decode(&rebuilt), Ok(packet));
        if let lbtrm::Body::Data(data) = packet.body {
            messages(data.messages);
        }
    }
    if let Ok(packet) = lbtru::Packet::decode(data) {
        let rebuilt = written(data.len() + 16, |w| packet.encode(w)).expect("no longer than it was");
        assert_eq!(lbtru::Packet::decode(&rebuilt), Ok(packet));
    }
    if let Ok(packet) = lbmr::Packet::decode(data) {
        if let lbmr::Body::Topics { queries, adverts } = packet.body {
            assert_eq!(queries.iter().count(), queries.len());
            assert_eq!(adverts.iter().count(), adverts.len());
        }
        let Some(rebuilt) = written(data.len(), |w| packet.encode(w)) else {
            // The one thing that is read and cannot be written: an advertisement of a transport in an unknown form, passed over.
            let lbmr::Body::Topics { adverts, .. } = packet.body else { panic!("longer than it was: {packet:?}") };
            assert!(
                adverts.iter().any(|a| matches!(a.transport, lbmr::Transport::Other { .. })),
                "longer than it was: {packet:?}"
            );
            return;
        };
        let again = lbmr::Packet::decode(&rebuilt).expect("good");
        // Reserved fields of options become zero.
        assert!(again == packet || format!("{again:?}") == format!("{packet:?}"), "{again:?}\n{packet:?}");
    }
}

/// A stream, cut anywhere.
pub(crate) fn stream(data: &[u8]) {
    let mut deframer = Deframer::default();
    let mut rest = data;
    while let [cut, later @ ..] = rest {
        let (now, later) = later.split_at(usize::from(*cut).min(later.len()));
        if deframer.receive(now, messages).is_err() {
            return;
        }
        rest = later;
    }
}

/// Counts what a receiver is told and checks that it is told in order.
#[derive(Default)]
struct Order {
    /// By receiver: next number that may come.
    next: [Option<u32>; 3],
    begun: [bool; 3],
    /// Numbers reported lost, all together.
    lost: u64,
    /// Messages that came for any receiver, at most; those that the first one was given, and how often it went back to an earlier number.
    offered: u64,
    delivered: u64,
    returns: u64,
}

impl Order {
    /// A message comes. A number behind the last one is one of sixteen in sequence of which fifteen were dropped: they say that a forged
    /// message had led the receiver ahead, and it goes on behind them.
    fn check_order(&mut self, sqn: u32, next: u32) {
        self.delivered += 1;
        if sqn.wrapping_sub(next) >= u32::MAX / 2 {
            self.returns += 1;
            let dropped = self.offered.saturating_sub(self.delivered);
            assert!(15 * self.returns <= dropped, "{sqn} after {next}, {dropped} were dropped");
        }
    }
}

impl TopicSink for Order {
    fn begin(&mut self, receiver: u32) {
        assert!(!core::mem::replace(&mut self.begun[receiver as usize], true));
    }
    fn message(&mut self, receiver: u32, message: Message<'_>) {
        assert!(self.begun[receiver as usize]);
        if receiver == 0 {
            let next = self.next[0].unwrap_or(message.sqn);
            self.check_order(message.sqn, next);
            self.next[0] = Some(message.sqn.wrapping_add(1));
        }
    }
    fn lost(&mut self, receiver: u32, sqn: u32) {
        self.burst_lost(receiver, sqn, 1);
    }
    fn burst_lost(&mut self, receiver: u32, first: u32, count: u32) {
        self.lost += u64::from(count);
        if receiver == 0 {
            let next = self.next[0].expect("a loss before the first message");
            assert!(first.wrapping_sub(next) < u32::MAX / 2, "{first} lost after {next}");
            self.next[0] = Some(first.wrapping_add(count));
        }
    }
    fn end(&mut self, receiver: u32, _: EndReason) {
        assert!(core::mem::replace(&mut self.begun[receiver as usize], false));
        self.next[receiver as usize] = None;
    }
}

const FRAMING: Lbtrm = Lbtrm { unicast_port: 1, session_id: 1, group_size: 3 };

/// A receiving session by operations: datagrams, session messages and NCFs with any numbers, and time.
pub(crate) fn receiver(data: &[u8]) {
    let mut sink = Order::default();
    let mut session = Session::new();
    let ordered = DeliveryConfig { message_max: 1 << 16, burst_loss_max: 64, ..DeliveryConfig::default() };
    let arrival = DeliveryConfig { ordering: Ordering::Arrival, ..ordered.clone() };
    let entries_maximum = 100;
    let catch_up = CatchUpConfig { late_join: true, recovery: true, entries_maximum, ..CatchUpConfig::default() };
    let fetching = DeliveryConfig { catch_up, ..ordered.clone() };
    for (topic, config) in [ordered, arrival, fetching].into_iter().enumerate() {
        session.add(topic as u32, topic as u32, config, &mut sink);
    }
    let config = ReceiverConfig { reach: 64, held_max: 4_096, ..ReceiverConfig::default() };
    let mut receiver = Receiver::new(FRAMING, config, 0);
    let (mut now, mut sqn) = (0u64, 0u32);
    let mut rest = data;
    while let [op, a, b, later @ ..] = rest {
        rest = later;
        let step = u32::from(*a & 15);
        // Mostly near the last number, seldom anywhere.
        sqn = match op >> 6 {
            0 => sqn.wrapping_add(1),
            1 => sqn.wrapping_add(step),
            2 => sqn.wrapping_sub(step),
            _ => u32::from_be_bytes([*a, *b, *a, *b]),
        };
        let trail = sqn.wrapping_sub(u32::from(*b));
        let (taken, after) = rest.split_at(usize::from(*b & 63).min(rest.len()));
        // A message has a header of eight bytes.
        sink.offered += 1 + taken.len() as u64 / 8;
        match op & 7 {
            0..=2 => {
                let mut bytes = [0; 64];
                let mut w = Writer::new(&mut bytes);
                let topic = u32::from(*a) % 3;
                let kind = lbmc::Kind::Message;
                lbmc::encode(&mut w, kind, topic, sqn.wrapping_mul(1 + (u32::from(*b) >> 6)), &[], 0, &[*op])
                    .expect("fits");
                let messages = w.written();
                let data = Received::Data { sqn, trail, retransmission: op & 8 != 0, messages };
                receiver.receive(now, data, &mut session.dispatch(now, &mut sink));
            }
            3 => {
                let data = Received::Data { sqn, trail, retransmission: op & 8 != 0, messages: taken };
                receiver.receive(now, data, &mut session.dispatch(now, &mut sink));
                rest = after;
            }
            4 => {
                let sm = Received::SessionMessage { lead: sqn, trail };
                receiver.receive(now, sm, &mut session.dispatch(now, &mut sink));
            }
            5 => {
                let ncf = [&[4, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, *b][..], &sqn.to_be_bytes()].concat();
                let packet = lbtrm::Packet::decode(&ncf).expect("an NCF");
                let ncf = Received::from_lbtrm(&packet).expect("an NCF");
                receiver.receive(now, ncf, &mut session.dispatch(now, &mut sink));
            }
            6 => {
                session.fetched(now, taken, &mut sink);
                let info = LateJoinInfo { flags: 0, low_sqn: trail, high_sqn: sqn, request: 1 };
                session.late_join_info(now, 2, &info, &mut sink);
                rest = after;
            }
            _ => now += 1u64 << (a & 31),
        }
        let mut naks = 0;
        receiver.on_timer(now, &mut session.dispatch(now, &mut sink), |nak| naks += nak.len());
        assert!(naks <= 12 + 64 * 4);
        let mut questions = 0;
        session.on_timer(now, &mut sink, |_, _| questions += 1);
        assert!(questions <= 201);
        receiver.check_invariants();
        session.check_invariants();
    }
}

/// A sending session by operations: messages, NAKs for anything, time, and a socket that takes little.
pub(crate) fn sender(data: &[u8]) {
    let config = SenderConfig {
        datagram_max: 500,
        window_size: 65_536,
        unsent_max: 8_192,
        batching_minimum_length: 200,
        retransmit_queue_max: 32,
        retransmit_rate_limit_bps: 1_000_000,
        data_rate_limit_bps: if data.first().is_some_and(|b| b & 1 == 0) { 0 } else { 2_000_000 },
        first_sqn: u32::MAX - 20,
        ..SenderConfig::default()
    };
    let mut sender = Sender::new(FRAMING, config);
    let mut source = Source::new(1, SourceConfig::default());
    let mut now = 1u64;
    for op in data.chunks_exact(3) {
        let [op, a, b] = *op else { return };
        match op & 3 {
            0 => drop(source.send(now, &mut sender, &vec![a; usize::from(b) * 8], op & 4 != 0)),
            1 => {
                let (trail, end) = sender.window();
                let first = if op & 4 == 0 { trail.wrapping_add(u32::from(a)) } else { end.wrapping_sub(u32::from(a)) };
                sender.nak(now, u64::from(op), (0..u32::from(b)).map(|i| first.wrapping_add(i)));
            }
            2 => {
                now += 1u64 << (a & 31);
                sender.on_timer(now);
                source.on_timer(now, &mut sender);
            }
            _ => {
                let output = sender.output(now);
                let control = output.control().take(usize::from(a)).map(check).count();
                let again = output.retransmissions().take(usize::from(a)).map(check).count();
                let trains = output.trains(2_000, 8).take(usize::from(b & 3));
                let sent = trains.map(|t| t.datagrams().map(check).count() as u32).sum();
                sender.sent_control(control);
                sender.sent_retransmissions(now, again);
                sender.sent(now, sent);
            }
        }
        assert!(sender.output(now).retransmissions().count() <= 32);
        sender.check_invariants();
        source.check_invariants();
    }
}

fn check(packet: &[u8]) {
    let packet = lbtrm::Packet::decode(packet).expect("our own");
    if let lbtrm::Body::Data(data) = packet.body {
        assert!(Messages::new(data.messages).all(|m| m.is_ok()));
    }
}

/// Bytes of operations.
struct Operations<'a>(&'a [u8]);

impl<'a> Operations<'a> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// A record that a context may send: few names and ids, so that contexts meet.
fn record(out: &mut Vec<u8>, choice: u8, more: u8) {
    let mut otid = [0; OTID];
    otid[0] = choice >> 4 & 3;
    let name = [b"a".as_slice(), b"ab", b"b", b"a.*"][usize::from(choice >> 2 & 3)];
    let kind = [InterestKind::Wanted, InterestKind::Unwanted, InterestKind::Ended][usize::from(more % 3)];
    let record = match choice & 3 {
        0 => Record::Source(SourceInfo {
            otid,
            topic: name,
            source: b"TCP:10.1.1.10:14371",
            host: 0,
            index: u32::from(more),
            functions: 0,
            request: (core::net::Ipv4Addr::LOCALHOST, 0),
            instance: [choice; 8],
            ttl: 60,
            cost: u32::from(more & 1),
            domain: u32::from(more & 2),
        }),
        1 => Record::SourceDeleted { otid, topic: name },
        _ => Record::Interest(Interest { kind, pattern: more & 8 != 0, name, domain: 0, instance: [choice; 8] }),
    };
    record.encode(out);
}

/// A frame of a context, of the fuzzer's choice.
fn frame(operations: &mut Operations<'_>) -> Option<Vec<u8>> {
    let (choice, more) = (operations.next()?, operations.next()?);
    let (mut message, mut out) = (Vec::new(), Vec::new());
    match choice % 8 {
        0 => {
            let request = RegistrationRequest {
                kind: more & 3,
                address: core::net::Ipv4Addr::LOCALHOST,
                port: 1,
                session: u32::from(more >> 2 & 3),
                host: 1,
                protocol: if more & 16 == 0 { srs::PROTOCOL } else { more },
                interest_mode: more >> 5 & 3,
                domain: 0,
            };
            srs::Message::Register(request).encode(&mut message);
            Frame::RequestResponse { stream: 1, data: &message }.encode(&mut out);
        }
        1 => {
            srs::Message::Stream.encode(&mut message);
            Frame::RequestStream { stream: 3, credit: u32::from(more) << 24 | u32::from(more), data: &message }
                .encode(&mut out);
        }
        2 => Frame::Setup { keepalive_ms: 1, lifetime_ms: u32::from(more) << 8 }.encode(&mut out),
        3 => Frame::Keepalive { respond: more & 1 != 0 }.encode(&mut out),
        4 => Frame::RequestN { stream: u32::from(more & 3), credit: u32::from(more) }.encode(&mut out),
        5 => Frame::Cancel { stream: u32::from(more & 3) }.encode(&mut out),
        6 => Frame::FireAndForget { stream: 5, data: operations.bytes(usize::from(more) % 40) }.encode(&mut out),
        _ => {
            for _ in 0..=more % 4 {
                let (choice, more) = (operations.next()?, operations.next()?);
                record(&mut message, choice, more);
            }
            Frame::FireAndForget { stream: 7, data: &message }.encode(&mut out);
        }
    }
    Some(out)
}

/// Closes a connection that has said what cannot be read.
fn let_go_if_bad(service: &mut Service, now: u64, place: &mut Option<(u64, Frames)>, is_bad: bool) {
    if let Some((number, _)) = place.take_if(|_| is_bad) {
        service.closed(now, number);
    }
}

/// A resolution service by operations: contexts connect, say anything, read little or much, go and come back, and time goes by. What it says
/// can be read, and its bounds hold.
pub(crate) fn srs(data: &[u8]) {
    let config = ServiceConfig {
        sources_max: 6,
        sources_per_context: 3,
        topics_per_context: 3,
        patterns_per_context: 2,
        queue_max: 400,
        ..ServiceConfig::default()
    };
    let mut operations = Operations(data);
    let (mut now, mut next) = (0u64, 1u64);
    let mut service = Service::new(config.clone(), now);
    // The number of the connection in each place, and what was read of it.
    let mut conns: [Option<(u64, Frames)>; 3] = Default::default();
    while let (Some(operation), Some(more)) = (operations.next(), operations.next()) {
        let place = usize::from(operation >> 4) % conns.len();
        let number = conns[place].as_ref().map(|(number, _)| *number);
        match (operation & 15, number) {
            (0..=2, None) => {
                service.accepted(now, next);
                conns[place] = Some((next, Frames::default()));
                next += 1;
            }
            (3, Some(number)) if more.is_multiple_of(4) => {
                conns[place] = None;
                service.closed(now, number);
            }
            (4, Some(number)) => {
                let read = service.receive(now, number, operations.bytes(usize::from(more) % 32));
                let_go_if_bad(&mut service, now, &mut conns[place], read.is_err());
            }
            (5, _) => now += u64::from(more) * 500_000_000,
            (6..=8, Some(number)) => {
                let room = usize::from(more) * 8;
                let bytes = service.take(number, room);
                assert!(room > 0 || bytes.is_empty());
                if let Some((_, frames)) = &mut conns[place] {
                    let read = frames.receive(&bytes, |frame| Frame::decode(frame).map(drop));
                    read.expect("a service says what can be read");
                }
                service.drained(number);
            }
            (_, Some(number)) => {
                let Some(bytes) = frame(&mut operations) else { return };
                // A frame may carry nonsense: then the context is let go of.
                let read = service.receive(now, number, &bytes);
                let_go_if_bad(&mut service, now, &mut conns[place], read.is_err());
            }
            _ => {}
        }
        service.on_timer(now);
        for (number, _) in service.closing() {
            for conn in &mut conns {
                if conn.as_ref().is_some_and(|(of, _)| *of == number) {
                    *conn = None;
                    service.closed(now, number);
                }
            }
        }
        let stats = service.stats();
        assert!(stats.sources <= config.sources_max, "{stats:?}");
        assert!(stats.contexts <= conns.iter().flatten().count(), "{stats:?}");
        assert!(
            stats.wanted <= stats.contexts * (config.topics_per_context + config.patterns_per_context),
            "{stats:?}"
        );
    }
}
