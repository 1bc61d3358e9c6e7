//! Packets as JSON, one object a line.

use lbm::wire::lbmc::Kind;
use lbm::wire::lbmr;
use lbm::wire::{NcfReason, lbtrm, lbtru};
use serde_json::{Map, Value, json};

use super::book::Book;
use super::dissect::{Content, Record, Seen};
use super::sequence::Arrival;
use super::text;

/// A packet. `payload`: with the messages' payloads, in hexadecimal.
pub(super) fn packet(record: &Record<'_>, book: &Book, payload: bool) -> Value {
    let mut o = Map::new();
    o.insert("frame".into(), record.frame.into());
    o.insert("time_ns".into(), record.nanos.into());
    o.insert("source".into(), record.source.to_string().into());
    o.insert("destination".into(), record.destination.to_string().into());
    if let Some(session) = record.session {
        o.insert("session".into(), book.session_name(session).into());
    }
    let fields = match &record.content {
        Content::Lbtrm(p) => lbtrm_fields(p),
        Content::Lbtru(p) => lbtru_fields(p),
        Content::Lbmr(p) => lbmr_fields(p, record, book),
        Content::Stream { gap } => json!({
            "protocol": "tcp", "kind": "messages", "after_hole": gap.missing > 0,
            "missing_bytes": gap.missing, "out_of_step_bytes": gap.out_of_step,
        }),
        Content::Fragment { id, offset, length, last } => {
            json!({"protocol": "ip", "kind": "fragment", "id": id, "offset": offset, "length": length, "last": last})
        }
        Content::Cut { protocol, length } => json!({"protocol": protocol, "kind": "cut", "bytes": length}),
        Content::Malformed { protocol, error, bytes } => {
            json!({"protocol": protocol, "kind": "malformed", "error": error.to_string(), "bytes": bytes.len()})
        }
    };
    if let Value::Object(fields) = fields {
        o.extend(fields);
    }
    if !record.messages.is_empty() {
        let all = record.messages.iter().map(|seen| message(seen, book, payload)).collect();
        o.insert("messages".into(), Value::Array(all));
    }
    if let Some(arrival) = record.arrival {
        arrival_fields(arrival, &mut o);
    }
    if let Some((first, count)) = record.behind {
        arrival_fields(Arrival::Gap(first, count), &mut o);
    }
    if record.is_cut {
        o.insert("cut".into(), true.into());
    }
    if let Some(error) = record.error {
        o.insert("error".into(), error.to_string().into());
    }
    Value::Object(o)
}

fn arrival_fields(arrival: Arrival, o: &mut Map<String, Value>) {
    let word = match arrival {
        Arrival::First => "first",
        Arrival::Next => "next",
        Arrival::Gap(first, count) => {
            o.insert("missing".into(), json!({"first": first, "count": count}));
            "gap"
        }
        Arrival::Repair => "repair",
        Arrival::Duplicate => "duplicate",
        Arrival::Older => "older",
    };
    o.insert("arrival".into(), word.into());
}

fn lbtrm_fields(packet: &lbtrm::Packet<'_>) -> Value {
    match packet.body {
        lbtrm::Body::Data(d) => json!({
            "protocol": "lbtrm", "kind": "data", "sqn": d.sqn, "trail": d.trail, "retransmission": d.is_retransmission(),
        }),
        lbtrm::Body::SessionMessage { sm_sqn, lead, trail, .. } => json!({
            "protocol": "lbtrm", "kind": "sm", "sm_sqn": sm_sqn, "lead": lead, "trail": trail,
        }),
        lbtrm::Body::Nak { sqns, .. } => {
            json!({"protocol": "lbtrm", "kind": "nak", "sqns": sqns.iter().collect::<Vec<_>>()})
        }
        lbtrm::Body::Ncf { trail, reason, sqns, .. } => json!({
            "protocol": "lbtrm", "kind": "ncf", "trail": trail, "reason": reason_word(reason),
            "sqns": sqns.iter().collect::<Vec<_>>(),
        }),
    }
}

fn lbtru_fields(packet: &lbtru::Packet<'_>) -> Value {
    let mut fields = match packet.body {
        lbtru::Body::Data { sqn, trail, .. } => json!({
            "kind": "data", "sqn": sqn, "trail": trail, "retransmission": packet.flags & lbtru::RETRANSMISSION != 0,
        }),
        lbtru::Body::SessionMessage { sm_sqn, lead, trail } => json!({
            "kind": "sm", "sm_sqn": sm_sqn, "lead": lead, "trail": trail, "syn": packet.flags & lbtru::SYN != 0,
        }),
        lbtru::Body::Nak { sqns, .. } => json!({"kind": "nak", "sqns": sqns.iter().collect::<Vec<_>>()}),
        lbtru::Body::Ncf { trail, reason, sqns, .. } => json!({
            "kind": "ncf", "trail": trail, "reason": reason_word(reason), "sqns": sqns.iter().collect::<Vec<_>>(),
        }),
        lbtru::Body::Ack { sqn } => json!({"kind": "ack", "sqn": sqn}),
        lbtru::Body::ConnectRequest => json!({"kind": "connect"}),
        lbtru::Body::Reset => json!({"kind": "reset", "reason": packet.flags}),
    };
    fields["protocol"] = "lbtru".into();
    if let Some(client) = packet.identity.client_id {
        fields["client"] = client.into();
    }
    fields
}

fn reason_word(reason: NcfReason) -> Value {
    match reason {
        NcfReason::DoNotRetry => "do not retry".into(),
        NcfReason::Ignored => "ignored".into(),
        NcfReason::RetransmitDelay => "retransmit delay".into(),
        NcfReason::Shed => "shed".into(),
        NcfReason::Other(bits) => bits.into(),
    }
}

fn lbmr_fields(packet: &lbmr::Packet<'_>, record: &Record<'_>, book: &Book) -> Value {
    let kind = match packet.body {
        lbmr::Body::Topics { queries, adverts } => {
            let queries: Vec<String> = queries.iter().map(text::query_text).collect();
            let adverts: Vec<Value> = adverts
                .iter()
                .zip(&record.topics)
                .map(|(advert, topic)| {
                    json!({
                        "topic": text::lossy(advert.name), "index": advert.topic, "ttl": advert.ttl,
                        "session": book.session_name(book.topics[*topic].session),
                    })
                })
                .collect();
            return json!({"protocol": "lbmr", "kind": "topics", "queries": queries, "adverts": adverts});
        }
        lbmr::Body::ReceiverAlive => "receiver alive",
        lbmr::Body::SourceAlive => "source alive",
        lbmr::Body::Management { .. } => "topic management",
        lbmr::Body::ContextInfo(_) => "context",
        lbmr::Body::ResolutionRequest { .. } => "resolution request",
        lbmr::Body::Other { .. } => "other",
    };
    json!({"protocol": "lbmr", "kind": kind})
}

fn message(seen: &Seen<'_>, book: &Book, payload: bool) -> Value {
    let message = &seen.message;
    let mut o = Map::new();
    let kind = match message.kind {
        Kind::Message => "message",
        Kind::EndOfTransport => "end of transport",
        Kind::ProactiveRetransmission => "proactive retransmission",
        Kind::Control => "control",
        Kind::Retransmission => "retransmission",
    };
    o.insert("kind".into(), kind.into());
    if message.kind.has_topic() {
        o.insert("index".into(), message.topic.into());
        o.insert("sqn".into(), message.sqn.into());
        if let Some(name) = seen.topic.and_then(|t| book.topics[t].name.clone()) {
            o.insert("topic".into(), name.into());
        }
    }
    let headers: Vec<Value> = message.headers().flatten().map(|h| text::header_text(&h).into()).collect();
    if !headers.is_empty() {
        o.insert("headers".into(), headers.into());
    }
    match message.content() {
        Ok(content) => {
            o.insert("bytes".into(), content.payload.len().into());
            if payload {
                o.insert("payload".into(), text::hex_word(content.payload).into());
            }
        }
        Err(error) => {
            o.insert("error".into(), error.to_string().into());
        }
    }
    if let Some(Arrival::Gap(first, count)) = seen.arrival {
        o.insert("missing".into(), json!({"first": first, "count": count}));
    }
    Value::Object(o)
}
