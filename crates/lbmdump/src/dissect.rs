//! From frames to what they say: which protocol a packet is, its session, its topics, and what its numbers tell.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use capture::ip::{self, Ip, Segment};
use capture::{Fragments, Frame, link};
use lbm::wire::header::Header;
use lbm::wire::lbmc::{Kind, Message, Messages};
use lbm::wire::lbmr::{self, Transport};
use lbm::wire::lbmr_option::{TopicOption, TopicOptions};
use lbm::wire::{WireError, lbtrm, lbtru};

use super::book::Book;
use super::sequence::Arrival;
use super::tcp::{Gap, Stream};

/// Ports that are not the defaults.
#[derive(Clone, Debug, Default)]
pub(super) struct Ports {
    /// Topic resolution, beside 12965, 15380 and 14402 to 14406.
    pub(super) resolver: Vec<u16>,
    /// LBT-TCP, requests and late join, beside 14371 to 14395 and those that are advertised in the capture.
    pub(super) tcp: Vec<u16>,
}

impl Ports {
    fn is_resolver(&self, port: u16) -> bool {
        matches!(port, 12_965 | 15_380 | 14_402..=14_406) || self.resolver.contains(&port)
    }

    /// Ports that sources of LBT-TCP have without an advertisement.
    fn is_source(&self, port: u16) -> bool {
        matches!(port, 14_371..=14_390) || self.tcp.contains(&port)
    }

    fn is_tcp(&self, port: u16) -> bool {
        matches!(port, 14_371..=14_395) || self.tcp.contains(&port)
    }
}

/// A packet and what it says.
#[derive(Debug)]
pub(super) struct Record<'a> {
    /// Place of its frame in the file; several packets of one frame (a train) share it.
    pub(super) frame: u64,
    /// When it was captured, nanoseconds since 1970.
    pub(super) nanos: u64,
    pub(super) source: SocketAddrV4,
    pub(super) destination: SocketAddrV4,
    pub(super) content: Content<'a>,
    /// In the book.
    pub(super) session: Option<usize>,
    /// Topics that are told of, in the book: those of messages, TSNI and advertisements.
    pub(super) topics: Vec<usize>,
    pub(super) messages: Vec<Seen<'a>>,
    /// How the datagram's number relates to those before it.
    pub(super) arrival: Option<Arrival>,
    /// Numbers that a session message says were sent and that were not seen: first and count.
    pub(super) behind: Option<(u32, u32)>,
    /// The capture does not have all messages.
    pub(super) is_cut: bool,
    /// Faults of the messages.
    pub(super) error: Option<WireError>,
}

/// A message of a packet.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) message: Message<'a>,
    /// In the book.
    pub(super) topic: Option<usize>,
    pub(super) arrival: Option<Arrival>,
    /// The fault of its headers.
    pub(super) error: Option<WireError>,
}

/// The kind of a packet.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Lbtrm(lbtrm::Packet<'a>),
    Lbtru(lbtru::Packet<'a>),
    Lbmr(lbmr::Packet<'a>),
    /// Messages that became complete on a TCP stream, and what is not there before them.
    Stream {
        gap: Gap,
    },
    /// A part of an IP packet; the whole is shown with the part that completes it.
    Fragment {
        id: u16,
        offset: usize,
        length: usize,
        last: bool,
    },
    /// The capture has too little of it.
    Cut {
        protocol: &'static str,
        /// Bytes of its payload that are there.
        length: usize,
    },
    /// A packet that should be one of these, and is not.
    Malformed {
        protocol: &'static str,
        error: WireError,
        bytes: &'a [u8],
    },
}

/// Packets that could not be shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passed {
    /// Frames of the file.
    pub(super) frames: u64,
    /// Frames of other protocols.
    pub(super) other: u64,
    /// Frames of a kind that is not understood.
    pub(super) unknown_link: u64,
    /// Packets of which the capture has only a part.
    pub(super) cut: u64,
    /// Packets of them of which not even the numbers are there.
    pub(super) unread: u64,
    /// Bytes of TCP streams that the capture does not have.
    pub(super) missing_bytes: u64,
    /// Bytes of TCP streams in which no message was found: before the first whole one, and behind what is missing or malformed.
    pub(super) out_of_step: u64,
    /// Packets and messages that are malformed.
    pub(super) malformed: u64,
    /// Frames that hold several datagrams: captured before the kernel cut them (GSO).
    pub(super) trains: u64,
    pub(super) queries: u64,
    pub(super) adverts: u64,
    pub(super) resolution_packets: u64,
}

/// Reads frames in the order of capture.
#[derive(Default)]
pub(super) struct Dissector {
    pub(super) book: Book,
    pub(super) passed: Passed,
    fragments: Fragments,
    streams: BTreeMap<(SocketAddrV4, SocketAddrV4), Stream>,
    ports: Ports,
    /// The capture has only a part of the frame that is read.
    is_cut: bool,
    /// Where sources and requesters take TCP connections.
    request_ports: HashSet<SocketAddrV4>,
    /// The last frame: its number, and when it was captured.
    last: (u64, u64),
}

/// Where a packet was found.
#[derive(Clone, Copy)]
struct Place {
    frame: u64,
    nanos: u64,
    source: SocketAddrV4,
    destination: SocketAddrV4,
}

/// How a NAK of LBT-RM begins.
const NAK: u8 = 0x03;

/// Takes what a packet says; the book knows it already.
pub(super) type Show<'s> = &'s mut dyn FnMut(&Record<'_>, &Book);

impl Dissector {
    pub(super) fn new(ports: Ports) -> Self {
        Self { ports, ..Self::default() }
    }

    /// Keeps what was learned of names, and counts anew: for a second reading.
    pub(super) fn second_reading(&mut self) {
        let mut book = Book::default();
        for topic in &self.book.topics {
            if let Some(name) = &topic.name {
                let session = &self.book.sessions[topic.session];
                book.learn(session.transport, topic.index, name.as_bytes(), session.first_nanos);
            }
        }
        let (ports, request_ports) = (std::mem::take(&mut self.ports), std::mem::take(&mut self.request_ports));
        *self = Self { book, ports, request_ports, ..Self::default() };
    }

    /// Datagrams of which not all fragments came.
    pub(super) fn incomplete_datagrams(&self) -> u64 {
        self.fragments.unfinished()
    }

    /// Reads a frame and shows the packets in it.
    pub(super) fn frame(&mut self, frame: &Frame<'_>, show: Show<'_>) {
        self.passed.frames += 1;
        self.last = (frame.number, frame.nanos);
        if !link::is_known(frame.link) {
            self.passed.unknown_link += 1;
            return;
        }
        let Some((ip, ends)) = ip::of_frame(frame).and_then(|ip| Some((ip, (v4(ip.source)?, v4(ip.destination)?))))
        else {
            self.passed.other += 1;
            return;
        };
        self.is_cut = ip.missing > 0;
        self.passed.cut += u64::from(self.is_cut);
        if !ip.is_fragment() {
            self.whole(frame, &ip, show);
            return;
        }
        let nobody = |address| SocketAddrV4::new(address, 0);
        let place =
            Place { frame: frame.number, nanos: frame.nanos, source: nobody(ends.0), destination: nobody(ends.1) };
        let content =
            Content::Fragment { id: ip.id as u16, offset: ip.offset, length: ip.payload.len(), last: !ip.more };
        show(&Record::new(place, content), &self.book);
        if let Some(payload) = self.fragments.add(&ip) {
            self.whole(frame, &Ip { offset: 0, more: false, payload: &payload, ..ip }, show);
        }
    }

    fn whole(&mut self, frame: &Frame<'_>, ip: &Ip<'_>, show: Show<'_>) {
        let place = |(source, destination): (SocketAddr, SocketAddr)| match (source, destination) {
            (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
                Some(Place { frame: frame.number, nanos: frame.nanos, source, destination })
            }
            _ => None,
        };
        if let Some(datagram) = ip.udp()
            && let Some(place) = place((datagram.source, datagram.destination))
        {
            return self.udp(place, datagram.payload, show);
        }
        if let Some(segment) = ip.tcp()
            && let Some(place) = place((segment.source, segment.destination))
        {
            return self.tcp(place, &segment, show);
        }
        self.passed.other += 1;
    }

    fn udp(&mut self, place: Place, payload: &[u8], show: Show<'_>) {
        let (source, destination) = (place.source, place.destination);
        let resolver = self.ports.is_resolver(destination.port()) || self.ports.is_resolver(source.port());
        if destination.ip().is_multicast() {
            if resolver && !self.book.is_group(destination) {
                return self.lbmr(place, payload, show);
            }
            // Packets of topic resolution are whole from end to end, which nothing else is by chance.
            if !self.book.is_group(destination) && lbmr::Packet::decode(payload).is_ok() {
                return self.lbmr(place, payload, show);
            }
            return self.lbtrm_train(place, payload, show);
        }
        if self.book.is_source(false, source) || self.book.is_source(false, destination) {
            return self.lbtru_train(place, payload, show);
        }
        // A NAK names the port it goes to; looked at before it is decoded, so that a malformed one is told.
        if let &[NAK, 0, high, low, a, b, c, d, ..] = payload
            && destination.port() == u16::from_be_bytes([high, low])
        {
            let id = u32::from_be_bytes([a, b, c, d]);
            let known = self.book.session_of_nak(*destination.ip(), destination.port(), id).is_some();
            if known || matches!(destination.port(), 14_390..=14_399) {
                return self.lbtrm(place, payload, show);
            }
        }
        if resolver {
            return self.lbmr(place, payload, show);
        }
        if [source.port(), destination.port()].iter().any(|p| matches!(p, 14_360..=14_389)) {
            return self.lbtru_train(place, payload, show);
        }
        self.passed.other += 1;
    }

    fn malformed(&mut self, place: Place, protocol: &'static str, error: WireError, bytes: &[u8], show: Show<'_>) {
        if self.is_cut {
            self.passed.unread += 1;
            let content = Content::Cut { protocol, length: bytes.len() };
            return show(&Record::new(place, content), &self.book);
        }
        self.passed.malformed += 1;
        show(&Record::new(place, Content::Malformed { protocol, error, bytes }), &self.book);
    }

    fn lbmr(&mut self, place: Place, payload: &[u8], show: Show<'_>) {
        let packet = match lbmr::Packet::decode(payload) {
            Ok(packet) => packet,
            Err(error) => return self.malformed(place, "LBMR", error, payload, show),
        };
        self.passed.resolution_packets += 1;
        let mut record = Record::new(place, Content::Lbmr(packet));
        if let lbmr::Body::Topics { queries, adverts } = packet.body {
            self.passed.queries += queries.len() as u64;
            self.passed.adverts += adverts.len() as u64;
            for advert in adverts.iter() {
                // An advertisement without an address means the host that sent it.
                let transport = with_address(advert.transport, *place.source.ip());
                record.topics.push(self.book.learn(transport, advert.topic, advert.name, place.nanos));
                self.learn_request_port(advert.options);
            }
        }
        show(&record, &self.book);
    }

    fn learn_request_port(&mut self, options: TopicOptions<'_>) {
        for option in options.iter().flatten() {
            match option {
                TopicOption::LateJoin(o) => self.request_ports.insert(SocketAddrV4::new(o.address, o.port)),
                TopicOption::Functionality(o) => self.request_ports.insert(SocketAddrV4::new(o.address, o.port)),
                _ => false,
            };
        }
    }

    /// Datagrams that were captured before the kernel cut them (GSO) lie back to back.
    fn lbtrm_train(&mut self, place: Place, payload: &[u8], show: Show<'_>) {
        let Some(size) = train_size(payload, lbtrm_data) else { return self.lbtrm(place, payload, show) };
        self.passed.trains += 1;
        for datagram in payload.chunks(size) {
            self.lbtrm(place, datagram, show);
        }
    }

    fn lbtru_train(&mut self, place: Place, payload: &[u8], show: Show<'_>) {
        let Some(size) = train_size(payload, lbtru_data) else { return self.lbtru(place, payload, show) };
        self.passed.trains += 1;
        for datagram in payload.chunks(size) {
            self.lbtru(place, datagram, show);
        }
    }

    fn lbtrm(&mut self, place: Place, payload: &[u8], show: Show<'_>) {
        let packet = match lbtrm::Packet::decode(payload) {
            Ok(packet) => packet,
            Err(error) => return self.malformed(place, "LBT-RM", error, payload, show),
        };
        let (source, destination) = (place.source, place.destination);
        let is_nak = matches!(packet.body, lbtrm::Body::Nak { .. });
        let session = if is_nak && !destination.ip().is_multicast() {
            self.book.session_of_nak(*destination.ip(), packet.unicast_port, packet.session_id)
        } else {
            let transport = Transport::Lbtrm {
                source: *source.ip(),
                group: *destination.ip(),
                session_id: packet.session_id,
                destination_port: destination.port(),
                unicast_port: packet.unicast_port,
            };
            Some(self.book.session(transport, place.nanos))
        };
        let mut record = Record { session, ..Record::new(place, Content::Lbtrm(packet)) };
        match packet.body {
            lbtrm::Body::Data(data) => {
                let again = data.is_retransmission();
                self.data(&mut record, data.sqn, again, payload.len(), data.messages);
            }
            lbtrm::Body::SessionMessage { lead, .. } => self.session_message(&mut record, lead),
            lbtrm::Body::Nak { sqns, .. } => self.nak(&record, sqns.len()),
            lbtrm::Body::Ncf { sqns, .. } => self.ncf(&record, sqns.len()),
        }
        show(&record, &self.book);
    }

    fn lbtru(&mut self, place: Place, payload: &[u8], show: Show<'_>) {
        let packet = match lbtru::Packet::decode(payload) {
            Ok(packet) => packet,
            Err(error) => return self.malformed(place, "LBT-RU", error, payload, show),
        };
        let from_client =
            matches!(packet.body, lbtru::Body::Nak { .. } | lbtru::Body::Ack { .. } | lbtru::Body::ConnectRequest);
        let server = if from_client { place.destination } else { place.source };
        let transport =
            Transport::Lbtru { address: *server.ip(), session_id: packet.identity.session_id, port: server.port() };
        let session = Some(self.book.session(transport, place.nanos));
        let mut record = Record { session, ..Record::new(place, Content::Lbtru(packet)) };
        match packet.body {
            lbtru::Body::Data { sqn, messages, .. } => {
                let again = packet.flags & lbtru::RETRANSMISSION != 0;
                self.data(&mut record, sqn, again, payload.len(), messages);
            }
            lbtru::Body::SessionMessage { lead, .. } if packet.flags & lbtru::SYN == 0 => {
                self.session_message(&mut record, lead);
            }
            lbtru::Body::Nak { sqns, .. } => self.nak(&record, sqns.len()),
            lbtru::Body::Ncf { sqns, .. } => self.ncf(&record, sqns.len()),
            _ => {}
        }
        show(&record, &self.book);
    }

    /// A datagram of messages. To several clients of LBT-RU the same datagram goes several times, which is no repetition.
    fn data<'a>(&mut self, record: &mut Record<'a>, sqn: u32, again: bool, length: usize, messages: &'a [u8]) {
        let Some(session) = record.session else { return };
        let counts = &mut self.book.sessions[session];
        counts.datagrams += 1;
        counts.bytes += length as u64;
        counts.retransmissions += u64::from(again);
        record.arrival = Some(counts.sequence.see(sqn));
        self.messages(record, messages);
    }

    fn session_message(&mut self, record: &mut Record<'_>, lead: u32) {
        if let Some(session) = record.session {
            let counts = &mut self.book.sessions[session];
            counts.state_messages += 1;
            record.behind = counts.sequence.reaches(lead);
        }
    }

    fn nak(&mut self, record: &Record<'_>, sqns: usize) {
        if let Some(session) = record.session {
            let counts = &mut self.book.sessions[session];
            counts.naks += 1;
            counts.nak_sqns += sqns as u64;
            let complainer = counts.complainers.entry(*record.source.ip()).or_default();
            complainer.0 += 1;
            complainer.1 += sqns as u64;
        }
    }

    fn ncf(&mut self, record: &Record<'_>, sqns: usize) {
        if let Some(session) = record.session {
            let counts = &mut self.book.sessions[session];
            counts.ncfs += 1;
            counts.ncf_sqns += sqns as u64;
        }
    }

    fn messages<'a>(&mut self, record: &mut Record<'a>, bytes: &'a [u8]) {
        for message in Messages::new(bytes) {
            match message {
                Ok(message) => self.message(record, message),
                Err(_) if self.is_cut => record.is_cut = true,
                Err(error) => {
                    self.passed.malformed += 1;
                    record.error = Some(error);
                }
            }
        }
    }

    fn message<'a>(&mut self, record: &mut Record<'a>, message: Message<'a>) {
        let content = message.content();
        let mut seen = Seen { message, topic: None, arrival: None, error: content.as_ref().err().copied() };
        self.passed.malformed += u64::from(seen.error.is_some());
        if message.kind.has_topic() {
            // Topic 0 of a reply is no topic.
            seen.topic = match record.session {
                Some(session) if message.topic != 0 => Some(self.book.topic(session, message.topic)),
                Some(_) => None,
                None => self.book.topic_of_host(*record.source.ip(), message.topic),
            };
            if let Some(session) = record.session {
                self.book.sessions[session].messages += 1;
            }
            if let Some(topic) = seen.topic {
                let counts = &mut self.book.topics[topic];
                counts.messages += 1;
                counts.bytes += content.map_or(0, |c| c.payload.len() as u64);
                // Messages that late join brings were sent before the capture: they begin no sequence, but may fill a gap.
                let is_late = message.kind == Kind::Retransmission && !counts.sequence.misses(message.sqn);
                seen.arrival = (!is_late).then(|| counts.sequence.see(message.sqn));
                record.topics.push(topic);
            }
        }
        for header in message.headers().flatten() {
            match header {
                Header::TopicSqns(sqns) => {
                    if let Some(session) = record.session {
                        for (index, last) in sqns.iter() {
                            let topic = self.book.topic(session, index);
                            self.book.topics[topic].sequence.reaches(last);
                            record.topics.push(topic);
                        }
                    }
                }
                Header::Request(r) => {
                    self.request_ports.insert(SocketAddrV4::new(r.address, r.port));
                }
                Header::LateJoinRequest(r) => {
                    self.request_ports.insert(SocketAddrV4::new(r.address, r.port));
                    record.topics.extend(self.book.topic_of_host(*record.destination.ip(), r.topic));
                }
                Header::RetransmitRequest(r) => {
                    self.request_ports.insert(SocketAddrV4::new(r.address, r.port));
                    record.topics.extend(self.book.topic_of_host(*record.destination.ip(), r.topic));
                }
                _ => {}
            }
        }
        record.messages.push(seen);
    }

    fn tcp(&mut self, place: Place, segment: &Segment<'_>, show: Show<'_>) {
        let (source, destination) = (place.source, place.destination);
        let is_ours = [source, destination].iter().any(|at| {
            self.ports.is_tcp(at.port()) || self.request_ports.contains(at) || self.book.is_source(true, *at)
        });
        if !is_ours {
            self.passed.other += 1;
            return;
        }
        let mut stream = self.streams.remove(&(source, destination)).unwrap_or_default();
        for arrived in stream.arrived(Some(segment)) {
            stream.add(arrived);
            self.read_stream(place, &mut stream, show);
        }
        self.streams.insert((source, destination), stream);
    }

    /// Nothing more comes: what still waits behind holes is read, and what was not is told.
    pub(super) fn end(&mut self, show: Show<'_>) {
        let (frame, nanos) = self.last;
        for ((source, destination), mut stream) in std::mem::take(&mut self.streams) {
            let place = Place { frame, nanos, source, destination };
            for arrived in stream.arrived(None) {
                stream.add(arrived);
                self.read_stream(place, &mut stream, show);
            }
            let gap = stream.end();
            self.count(gap);
            if !gap.is_none() {
                show(&Record::new(place, Content::Stream { gap }), &self.book);
            }
        }
    }

    fn count(&mut self, gap: Gap) {
        self.passed.missing_bytes += gap.missing;
        self.passed.out_of_step += gap.out_of_step;
    }

    fn read_stream(&mut self, place: Place, stream: &mut Stream, show: Show<'_>) {
        while let Some((bytes, gap)) = stream.messages() {
            self.count(gap);
            let mut record = Record::new(place, Content::Stream { gap });
            let taken = self.stream(&mut record, &bytes);
            if let Some(session) = record.session {
                self.book.sessions[session].datagrams += 1;
                self.book.sessions[session].bytes += taken as u64;
            }
            let is_malformed = record.error.is_some();
            if !record.messages.is_empty() || is_malformed || !gap.is_none() {
                show(&record, &self.book);
            }
            stream.keep(bytes, taken, is_malformed);
            if !is_malformed {
                return;
            }
        }
    }

    /// Reads the messages that are complete; returns how many bytes were read.
    fn stream<'a>(&mut self, record: &mut Record<'a>, bytes: &'a [u8]) -> usize {
        let mut at = 0;
        while let Some(&[_, _, high, low]) = bytes.get(at..at + 4) {
            let length = usize::from(u16::from_be_bytes([high, low]));
            if length <= bytes.len() - at
                && let Err(error) = Message::decode(&bytes[at..])
            {
                self.passed.malformed += 1;
                record.error = Some(error);
                return at;
            }
            if length > bytes.len() - at {
                break;
            }
            if let Ok((message, length)) = Message::decode(&bytes[at..]) {
                self.find_stream_session(record, &message);
                self.message(record, message);
                at += length;
            }
        }
        at
    }

    /// Messages of a topic come from the source of the session, its id from a receiver.
    fn find_stream_session(&mut self, record: &mut Record<'_>, message: &Message<'_>) {
        if let Some(Header::SessionId { id, .. }) = message.headers().flatten().next() {
            let at = record.destination;
            let transport = Transport::Tcp { address: *at.ip(), session_id: Some(id), port: at.port() };
            record.session = Some(self.book.session(transport, record.nanos));
        } else if record.session.is_none()
            && (self.book.is_source(true, record.source) || self.ports.is_source(record.source.port()))
        {
            let at = record.source;
            let transport = Transport::Tcp { address: *at.ip(), session_id: None, port: at.port() };
            record.session = Some(self.book.session(transport, record.nanos));
        }
    }
}

impl<'a> Record<'a> {
    fn new(place: Place, content: Content<'a>) -> Self {
        Self {
            frame: place.frame,
            nanos: place.nanos,
            source: place.source,
            destination: place.destination,
            content,
            session: None,
            topics: Vec::new(),
            messages: Vec::new(),
            arrival: None,
            behind: None,
            is_cut: false,
            error: None,
        }
    }
}

fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    if let IpAddr::V4(address) = address { Some(address) } else { None }
}

/// The mark that tells sessions apart, the number and the messages of a datagram with data.
type Datagram<'a, K> = (K, u32, &'a [u8]);

fn lbtrm_data(bytes: &[u8]) -> Option<Datagram<'_, (u16, u32)>> {
    let packet = lbtrm::Packet::decode(bytes).ok()?;
    let lbtrm::Body::Data(data) = packet.body else { return None };
    Some(((packet.unicast_port, packet.session_id), data.sqn, data.messages))
}

fn lbtru_data(bytes: &[u8]) -> Option<Datagram<'_, u32>> {
    let packet = lbtru::Packet::decode(bytes).ok()?;
    let lbtru::Body::Data { sqn, messages, .. } = packet.body else { return None };
    Some((packet.identity.session_id?, sqn, messages))
}

/// The length of the datagrams of a train: where, behind whole messages, one of the same session with the next number begins.
fn train_size<'a, K: PartialEq>(
    payload: &'a [u8],
    read: impl Fn(&'a [u8]) -> Option<Datagram<'a, K>>,
) -> Option<usize> {
    let (session, sqn, messages) = read(payload)?;
    let mut messages = Messages::new(messages);
    loop {
        messages.next()?.ok()?;
        let at = payload.len() - messages.rest().len();
        if let Some((other, next, _)) = read(&payload[at..])
            && other == session
            && next == sqn.wrapping_add(1)
        {
            return Some(at);
        }
    }
}

/// Zero addresses of an advertisement stand for its sender.
fn with_address(transport: Transport, sender: Ipv4Addr) -> Transport {
    let or_sender = |address: Ipv4Addr| if address.is_unspecified() { sender } else { address };
    match transport {
        Transport::Tcp { address, session_id, port } => {
            Transport::Tcp { address: or_sender(address), session_id, port }
        }
        Transport::Lbtru { address, session_id, port } => {
            Transport::Lbtru { address: or_sender(address), session_id, port }
        }
        Transport::Lbtrm { source, group, session_id, destination_port, unicast_port } => {
            Transport::Lbtrm { source: or_sender(source), group, session_id, destination_port, unicast_port }
        }
        other => other,
    }
}
