//! Packets as lines: one each, and the details below it.

use std::fmt::Write as _;

use lbm::wire::header::Header;
use lbm::wire::lbmc::{Kind, Message};
use lbm::wire::lbmr::{self, PatternKind, Query};
use lbm::wire::lbmr_option::TopicOption;
use lbm::wire::{NcfReason, SqnList, lbtrm, lbtru};

use super::book::{Book, printable};
use super::dissect::{Content, Record, Seen};
use super::sequence::Arrival;

/// Messages, names or numbers that a line lists before it says how many more there are.
const LISTED: usize = 4;

/// The line of a packet. Times count from `start`.
pub(super) fn line(record: &Record<'_>, book: &Book, start: u64, out: &mut String) {
    let seconds = record.nanos.saturating_sub(start) as f64 / 1e9;
    let _ = write!(out, "{:>6} {seconds:>12.6}  {} > {}  ", record.frame, record.source, record.destination);
    match &record.content {
        Content::Lbtrm(packet) => lbtrm_text(packet, record, book, out),
        Content::Lbtru(packet) => lbtru_text(packet, record, book, out),
        Content::Lbmr(packet) => lbmr_text(packet, record, book, out),
        Content::Stream { gap } => {
            out.push_str("TCP ");
            messages(record, book, out);
            if gap.missing > 0 {
                let _ = write!(out, " [{} bytes before this are missing]", gap.missing);
            }
            if gap.out_of_step > 0 {
                let _ = write!(out, " [no message was found in {} bytes before this]", gap.out_of_step);
            }
        }
        Content::Fragment { id, offset, length, last } => {
            let end = if *last { ", the last" } else { "" };
            let _ = write!(out, "IP fragment of packet {id:04x}: {length} bytes at {offset}{end}");
        }
        Content::Cut { protocol, length } => {
            let _ = write!(out, "{protocol} packet of which the capture has {length} bytes");
        }
        Content::Malformed { protocol, error, bytes } => {
            let _ = write!(out, "!! no {protocol} packet: {error} ({} bytes)", bytes.len());
        }
    }
    remarks(record, out);
    if record.is_cut {
        out.push_str(" [the rest was not captured]");
    }
    if let Some(error) = record.error {
        let _ = write!(out, " !! {error}");
    }
    out.push('\n');
}

fn remarks(record: &Record<'_>, out: &mut String) {
    if let Some(arrival) = record.arrival {
        remark(arrival, out);
    }
    if let Some((first, count)) = record.behind {
        let _ = write!(out, " [{}]", missing(first, count));
    }
    // A gap in a topic that its session does not have is the source's doing, or another session's.
    if !matches!(record.arrival, Some(Arrival::Gap(..) | Arrival::Repair | Arrival::Duplicate | Arrival::Older)) {
        for seen in &record.messages {
            if let Some(Arrival::Gap(first, count)) = seen.arrival {
                let _ = write!(out, " [topic: {}]", missing(first, count));
            }
        }
    }
}

fn remark(arrival: Arrival, out: &mut String) {
    let _ = match arrival {
        Arrival::First | Arrival::Next => Ok(()),
        Arrival::Gap(first, count) => write!(out, " [{}]", missing(first, count)),
        Arrival::Repair => write!(out, " [was missing]"),
        Arrival::Duplicate => write!(out, " [seen before]"),
        Arrival::Older => write!(out, " [older than the capture]"),
    };
}

fn missing(first: u32, count: u32) -> String {
    if count == 1 {
        format!("{first} is missing")
    } else {
        format!("{first} to {} are missing", first.wrapping_add(count - 1))
    }
}

fn lbtrm_text(packet: &lbtrm::Packet<'_>, record: &Record<'_>, book: &Book, out: &mut String) {
    match packet.body {
        lbtrm::Body::Data(data) => {
            let again = if data.is_retransmission() { " again" } else { "" };
            let _ = write!(out, "LBT-RM DATA{again} {} ", data.sqn);
            messages(record, book, out);
        }
        lbtrm::Body::SessionMessage { sm_sqn, lead, trail, .. } => {
            let _ = write!(out, "LBT-RM SM {sm_sqn}: has sent {trail} to {lead}");
        }
        lbtrm::Body::Nak { sqns, .. } => {
            let _ = write!(out, "LBT-RM NAK {}", numbers(sqns));
        }
        lbtrm::Body::Ncf { reason, sqns, .. } => {
            let _ = write!(out, "LBT-RM NCF {}: {}", numbers(sqns), reason_text(reason));
        }
    }
    if record.session.is_none() {
        out.push_str(" (of an unknown session)");
    }
}

fn lbtru_text(packet: &lbtru::Packet<'_>, record: &Record<'_>, book: &Book, out: &mut String) {
    let _ = match packet.body {
        lbtru::Body::Data { sqn, .. } => {
            let again = if packet.flags & lbtru::RETRANSMISSION == 0 { "" } else { " again" };
            let _ = write!(out, "LBT-RU DATA{again} {sqn} ");
            messages(record, book, out);
            Ok(())
        }
        lbtru::Body::SessionMessage { sm_sqn, lead, trail } => {
            let syn = if packet.flags & lbtru::SYN == 0 { "" } else { ", welcome" };
            write!(out, "LBT-RU SM {sm_sqn}: has sent {trail} to {lead}{syn}")
        }
        lbtru::Body::Nak { sqns, .. } => write!(out, "LBT-RU NAK {}", numbers(sqns)),
        lbtru::Body::Ncf { reason, sqns, .. } => {
            write!(out, "LBT-RU NCF {}: {}", numbers(sqns), reason_text(reason))
        }
        lbtru::Body::Ack { sqn } => write!(out, "LBT-RU ACK {sqn}"),
        lbtru::Body::ConnectRequest => write!(out, "LBT-RU connect request"),
        lbtru::Body::Reset => write!(out, "LBT-RU reset, reason {}", packet.flags),
    };
    if let Some(client) = packet.identity.client_id {
        let _ = write!(out, " (client {client:08x})");
    }
}

/// The meaning of an NCF's reason.
pub(super) fn reason_text(reason: NcfReason) -> String {
    match reason {
        NcfReason::DoNotRetry => "will not come again".to_owned(),
        NcfReason::Ignored => "was sent within the ignore interval".to_owned(),
        NcfReason::RetransmitDelay => "waits for the retransmission rate limit".to_owned(),
        NcfReason::Shed => "dropped by the retransmission rate limit".to_owned(),
        NcfReason::Other(bits) => format!("reason {bits}"),
    }
}

fn lbmr_text(packet: &lbmr::Packet<'_>, record: &Record<'_>, book: &Book, out: &mut String) {
    out.push_str("LBMR ");
    match packet.body {
        lbmr::Body::Topics { queries, adverts } => {
            if queries.is_empty() && adverts.is_empty() {
                out.push_str("keep-alive of a resolver daemon");
            }
            if !queries.is_empty() {
                let names = queries.iter().map(query_text);
                let _ = write!(out, "query {}", listed(queries.len(), names));
            }
            if !adverts.is_empty() {
                let offers = record.topics.iter().map(|topic| {
                    let session = book.topics[*topic].session;
                    format!(
                        "{} at {}[{}]",
                        book.topic_name(*topic),
                        book.session_name(session),
                        book.topics[*topic].index
                    )
                });
                let and = if queries.is_empty() { "" } else { "; " };
                let _ = write!(out, "{and}advert {}", listed(adverts.len(), offers));
            }
        }
        lbmr::Body::ReceiverAlive => out.push_str("keep-alive of receivers"),
        lbmr::Body::SourceAlive => out.push_str("keep-alive of sources"),
        lbmr::Body::Management { count, .. } => {
            let _ = write!(out, "topic management, {count} records");
        }
        lbmr::Body::ContextInfo(info) => {
            let name = info.name.map_or_else(String::new, |n| format!(" {}", lossy(n)));
            let _ = write!(out, "context{name} at {}:{}", info.address, info.port);
        }
        lbmr::Body::ResolutionRequest { flags } => {
            let _ = write!(out, "everybody: advertise and query again (flags {flags:04x})");
        }
        lbmr::Body::Other { kind, body } => {
            let _ = write!(out, "packet of type {kind}, {} bytes", body.len());
        }
    }
}

/// A query as text; patterns stand between slashes.
pub(super) fn query_text(query: Query<'_>) -> String {
    match query {
        Query::Topic(name) => lossy(name),
        Query::Pattern(PatternKind::Regex, pattern) => format!("/{}/ (POSIX)", lossy(pattern)),
        Query::Pattern(_, pattern) => format!("/{}/", lossy(pattern)),
    }
}

/// Text from the network, for a terminal.
pub(super) fn lossy(bytes: &[u8]) -> String {
    printable(&String::from_utf8_lossy(bytes))
}

fn listed(count: usize, items: impl Iterator<Item = String>) -> String {
    let mut text = items.take(LISTED).collect::<Vec<_>>().join(", ");
    if count > LISTED {
        let _ = write!(text, " and {} more", count - LISTED);
    }
    text
}

/// Numbers in runs: `7, 9-12 (5)`.
fn numbers(sqns: SqnList<'_>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for sqn in sqns.iter() {
        match runs.last_mut() {
            Some((_, last)) if last.wrapping_add(1) == sqn => *last = sqn,
            _ => runs.push((sqn, sqn)),
        }
    }
    let shown = runs.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") });
    let mut text = shown.take(LISTED).collect::<Vec<_>>().join(", ");
    if runs.len() > LISTED {
        text.push_str(", ...");
    }
    if sqns.len() > 1 {
        let _ = write!(text, " ({})", sqns.len());
    }
    text
}

fn messages(record: &Record<'_>, book: &Book, out: &mut String) {
    if record.messages.is_empty() {
        out.push_str("without messages");
        return;
    }
    let texts = record.messages.iter().map(|seen| message_text(seen, record, book));
    out.push_str(&listed(record.messages.len(), texts));
}

fn message_text(seen: &Seen<'_>, record: &Record<'_>, book: &Book) -> String {
    let message = &seen.message;
    if !message.kind.has_topic() {
        let kind = if message.kind == Kind::EndOfTransport { "end of transport" } else { "control" };
        let parts: Vec<String> = message.headers().flatten().map(|h| control_text(&h, record, book)).collect();
        return if parts.is_empty() { kind.to_owned() } else { parts.join(", ") };
    }
    let name = match seen.topic {
        Some(topic) => book.topic_name(topic),
        None if message.topic == 0 => "reply".to_owned(),
        None => format!("topic:{}", message.topic),
    };
    let again = match message.kind {
        Kind::Retransmission => " again",
        Kind::ProactiveRetransmission => " again, unasked",
        _ => "",
    };
    match message.content() {
        Ok(content) => {
            let bytes = content.payload.len();
            let part = content
                .fragment
                .map_or_else(String::new, |f| format!(" (of message {}, at {} of {})", f.first_sqn, f.offset, f.total));
            format!("{name}[{}]{again} {bytes} B{part}", message.sqn)
        }
        Err(error) => format!("{name}[{}]{again} !! {error}", message.sqn),
    }
}

/// A header of a control message, with topics by name where their session is known.
fn control_text(header: &Header<'_>, record: &Record<'_>, book: &Book) -> String {
    match (header, record.session) {
        (Header::TopicSqns(sqns), Some(session)) => {
            let at = |(index, sqn)| match book.find_topic(session, index) {
                Some(topic) => format!("{} at {sqn}", book.topic_name(topic)),
                None => format!("topic:{index} at {sqn}"),
            };
            format!("TSNI {}", listed(sqns.iter().len(), sqns.iter().map(at)))
        }
        _ => header_text(header),
    }
}

/// An extension header in a few words.
pub(super) fn header_text(header: &Header<'_>) -> String {
    match header {
        Header::Fragment(f) => format!("fragment of message {} at {} of {}", f.first_sqn, f.offset, f.total),
        Header::Batch { flags } => {
            format!("batch{}{}", if flags & 2 == 0 { "" } else { " begins" }, if flags & 1 == 0 { "" } else { " ends" })
        }
        Header::Request(r) => format!("request {:08x}, replies to {}:{}", r.index, r.address, r.port),
        Header::TopicName { name, .. } => format!("topic name {}", lossy(name)),
        Header::Application { flags, data } => {
            format!("application header {}, {} bytes", flags & 0x7FFF, data.len())
        }
        Header::ApplicationChain(chain) => match (chain.failover_number(), chain.properties_length()) {
            (Some(number), _) if matches!(number.len(), 4 | 8) => {
                let value = number.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
                format!("hot failover number {value} ({} bits)", number.len() * 8)
            }
            (_, Some(length)) => format!("{length} bytes of message properties"),
            _ => "application headers".to_owned(),
        },
        Header::TopicSqns(sqns) => {
            format!("TSNI {}", listed(sqns.iter().len(), sqns.iter().map(|(t, s)| format!("topic {t} at {s}"))))
        }
        Header::SessionId { id, .. } => format!("session id {id:08x}"),
        Header::LateJoinRequest(r) => format!(
            "late join: what is retained of topic {}? answer to {}:{} (request {:08x})",
            r.topic, r.address, r.port, r.request
        ),
        Header::LateJoinInfo(i) => {
            format!("late join: retained {} to {} (request {:08x})", i.low_sqn, i.high_sqn, i.request)
        }
        Header::RetransmitRequest(r) => {
            format!("send {} of topic {} again, to {}:{}", r.sqn, r.topic, r.address, r.port)
        }
        Header::Option(o) => format!("option {:04x}, {} bytes", o.subtype, o.data.len()),
        Header::Unknown { code, body } => format!("header {code:02x}, {} bytes", body.len()),
        other => format!("{other:?}"),
    }
}

/// The lines below a packet's: every field, every message. `bytes`: payloads in full.
pub(super) fn details(record: &Record<'_>, book: &Book, bytes: bool, out: &mut String) {
    if let Some(session) = record.session {
        let _ = writeln!(out, "         session {}", book.session_name(session));
    }
    match &record.content {
        Content::Lbtrm(packet) => lbtrm_details(packet, out),
        Content::Lbtru(packet) => lbtru_details(packet, out),
        Content::Lbmr(packet) => lbmr_details(packet, record, book, out),
        Content::Malformed { bytes, .. } => hex(bytes, out),
        Content::Stream { .. } | Content::Fragment { .. } | Content::Cut { .. } => {}
    }
    for seen in &record.messages {
        let _ = writeln!(out, "         {}", message_text(seen, record, book));
        message_details(&seen.message, bytes, out);
    }
}

fn lbtrm_details(packet: &lbtrm::Packet<'_>, out: &mut String) {
    match packet.body {
        lbtrm::Body::Data(d) => {
            let _ = writeln!(
                out,
                "         sqn {}, trail {}, flags {:02x}, group of 2^{}, symbol {}",
                d.sqn, d.trail, d.flags, d.group_size, d.fec_symbol
            );
        }
        lbtrm::Body::SessionMessage { flags, group_size, .. } => {
            let _ = writeln!(out, "         flags {flags:02x}, group of 2^{group_size}");
        }
        lbtrm::Body::Nak { sqns, .. } => all_numbers(sqns, out),
        lbtrm::Body::Ncf { trail, sqns, .. } => {
            let _ = writeln!(out, "         trail {trail}");
            all_numbers(sqns, out);
        }
    }
}

fn lbtru_details(packet: &lbtru::Packet<'_>, out: &mut String) {
    match packet.body {
        lbtru::Body::Data { sqn, trail, .. } => {
            let _ = writeln!(out, "         sqn {sqn}, trail {trail}, flags {:04x}", packet.flags);
        }
        lbtru::Body::Nak { sqns, .. } | lbtru::Body::Ncf { sqns, .. } => all_numbers(sqns, out),
        _ => {}
    }
}

fn all_numbers(sqns: SqnList<'_>, out: &mut String) {
    let all: Vec<String> = sqns.iter().map(|s| s.to_string()).collect();
    for row in all.chunks(16) {
        let _ = writeln!(out, "         {}", row.join(" "));
    }
}

fn lbmr_details(packet: &lbmr::Packet<'_>, record: &Record<'_>, book: &Book, out: &mut String) {
    let lbmr::Body::Topics { queries, adverts } = packet.body else { return };
    for query in queries.iter() {
        let _ = writeln!(out, "         query {}", query_text(query));
    }
    for (advert, topic) in adverts.iter().zip(&record.topics) {
        let session = book.session_name(book.topics[*topic].session);
        let _ = writeln!(out, "         {} at {session}[{}], ttl {}", lossy(advert.name), advert.topic, advert.ttl);
        for option in advert.options.iter().flatten() {
            let _ = match option {
                TopicOption::LateJoin(o) => writeln!(
                    out,
                    "           late join at {}:{}, retained {} to {}",
                    o.address, o.port, o.low_sqn, o.high_sqn
                ),
                TopicOption::Functionality(o) => {
                    writeln!(out, "           requests at {}:{}, functions {:x}", o.address, o.port, o.functions)
                }
                TopicOption::Origin { id, .. } => writeln!(out, "           origin {}", hex_word(&id)),
                other => writeln!(out, "           {other:?}"),
            };
        }
    }
    if let Some(id) = packet.options.and_then(lbm::wire::lbmr_option::PacketOptions::source_id) {
        let _ = writeln!(out, "         from context {}", hex_word(&id));
    }
}

fn message_details(message: &Message<'_>, bytes: bool, out: &mut String) {
    for header in message.headers() {
        let _ = match header {
            // The line above has said it.
            Ok(_) if !message.kind.has_topic() => Ok(()),
            Ok(header) => writeln!(out, "           {}", header_text(&header)),
            Err(error) => writeln!(out, "           !! {error}"),
        };
    }
    let Ok(content) = message.content() else { return };
    if content.payload.is_empty() {
        return;
    }
    if bytes {
        hex(content.payload, out);
        return;
    }
    let shown = &content.payload[..content.payload.len().min(48)];
    let more = if shown.len() < content.payload.len() { " ..." } else { "" };
    let is_text = shown.iter().all(|b| matches!(b, b' '..=b'~'));
    let text = if is_text { format!("\"{}\"", String::from_utf8_lossy(shown)) } else { hex_word(shown) };
    let _ = writeln!(out, "           {text}{more}");
}

/// Bytes as one word of hexadecimal digits.
pub(super) fn hex_word(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}

fn hex(bytes: &[u8], out: &mut String) {
    for line in rwf_text::hex_dump(bytes).to_string().lines() {
        let _ = writeln!(out, "           {line}");
    }
}
