//! Messages out of XML: `MsgData.xml` of the SDK's performance tools, and the traces of EMA and ETA.
//!
//! Both have `refreshMsg` and `updateMsg` with a `dataBody` of a `fieldList` or a `map`. In `MsgData.xml` they are in a
//! `marketPriceMsgList` or `marketByOrderMsgList` that says the domain, and are about any item; in a trace each says its domain
//! and stream, and refreshes have a `key` with a name. Values are text of the type in `dataType`; a value without one is
//! hexadecimal, as the C traces write it.

use super::DataError;
use super::xml::{self, Element};
use crate::lines::unhex;
use rwf::json;
use rwf::msg::{Domain, MsgKey, RefreshFlags, RefreshMsg, StatusMsg, UpdateMsg, UpdateType};
use rwf::wire::{LenForm, Writer};
use rwf::{
    DataState, DataType, Date, DateTime, EncodeError, FieldListEncoder, MapAction, MapEncoder, MapHead, Primitive, Qos,
    State, StateCode, StreamState, Time,
};

/// A message of a file.
pub(super) struct XmlMessage {
    /// Name of its item, when it says one.
    pub(super) name: Option<String>,
    pub(super) bytes: Vec<u8>,
}

/// All messages of a file that a source may send, in order.
pub(super) fn messages(text: &str) -> Result<Vec<XmlMessage>, DataError> {
    let root = xml::parse(text)?;
    let mut found = Vec::new();
    collect(&root, None, &mut found)?;
    Ok(found)
}

/// Lists by domain; a list of another domain says it as an attribute.
fn domain_of_list(element: &Element) -> Option<Domain> {
    match element.name.as_str() {
        "marketPriceMsgList" => Some(Domain::MARKET_PRICE),
        "marketByOrderMsgList" => Some(Domain::MARKET_BY_ORDER),
        "marketByPriceMsgList" => Some(Domain::MARKET_BY_PRICE),
        _ => None,
    }
}

fn collect(parent: &Element, domain: Option<Domain>, found: &mut Vec<XmlMessage>) -> Result<(), DataError> {
    for element in &parent.children {
        match element.name.to_ascii_lowercase().as_str() {
            "refreshmsg" | "refresh" | "updatemsg" | "update" | "statusmsg" | "status" => {
                found.extend(message(element, domain)?);
            }
            // Posts and generic messages hold messages that are not sent by a source.
            "postmsg" | "post" | "genericmsg" | "generic" | "requestmsg" | "request" => {}
            _ => collect(element, domain_of_list(element).or(domain), found)?,
        }
    }
    Ok(())
}

fn message(element: &Element, list: Option<Domain>) -> Result<Option<XmlMessage>, DataError> {
    let domain = match element.get("domainType") {
        Some(text) => named_domain(text).ok_or_else(|| element.wrong(format!("{text:?} is no domain")))?,
        None => list.ok_or_else(|| element.wrong("the message is in no list, and says no domainType".to_owned()))?,
    };
    if [Domain::LOGIN, Domain::SOURCE, Domain::DICTIONARY].contains(&domain) {
        return Ok(None);
    }
    let stream_id = match element.get("streamId") {
        Some(text) => text.trim().parse().map_err(|_| element.wrong(format!("{text:?} is no stream id")))?,
        // All messages of a list are about one item.
        None => i32::from(domain.0),
    };
    let name = element.child("key").and_then(|key| key.get("name")).map(str::to_owned);
    let payload = element.child("dataBody").and_then(|body| body.children.first());
    let (container, body) = match payload {
        Some(payload) => match container(payload)? {
            Some(encoded) => encoded,
            None => return Ok(None),
        },
        None => (DataType::NO_DATA, Vec::new()),
    };
    let key = name.as_deref().map(|name| MsgKey { name_type: Some(1), ..MsgKey::item(0, name.as_bytes()) });
    let bytes = match element.name.to_ascii_lowercase().as_str() {
        "refreshmsg" | "refresh" => {
            let flags = RefreshFlags::SOLICITED.with(RefreshFlags::REFRESH_COMPLETE).with(RefreshFlags::CLEAR_CACHE);
            let refresh = RefreshMsg {
                container,
                flags,
                state: State::OPEN_OK,
                qos: Some(Qos::REALTIME_TICK),
                key,
                body: &body,
                ..RefreshMsg::new(domain, stream_id)
            };
            encoded(body.len(), |w| refresh.encode(w))
        }
        "updatemsg" | "update" => {
            let text = element.get("updateType").unwrap_or("1");
            let update_type = update_type(text).ok_or_else(|| element.wrong(format!("{text:?} is no update type")))?;
            let update = UpdateMsg { container, update_type, key, body: &body, ..UpdateMsg::new(domain, stream_id) };
            encoded(body.len(), |w| update.encode(w))
        }
        _ => {
            let state = state_of(element);
            let status = StatusMsg { state: Some(state), key, ..StatusMsg::new(domain, stream_id) };
            encoded(body.len(), |w| status.encode(w))
        }
    };
    let bytes = bytes.map_err(|e| element.wrong(e.to_string()))?;
    Ok(Some(XmlMessage { name, bytes }))
}

/// A trace's domain: a number, or a name with or without the C prefix.
fn named_domain(text: &str) -> Option<Domain> {
    let name = text.trim();
    let name = name.strip_prefix("RSSL_DMT_").unwrap_or(name);
    if let Ok(number) = name.parse() {
        return Some(Domain(number));
    }
    Some(match name {
        "LOGIN" => Domain::LOGIN,
        "SOURCE" | "DIRECTORY" => Domain::SOURCE,
        "DICTIONARY" => Domain::DICTIONARY,
        "MARKET_PRICE" => Domain::MARKET_PRICE,
        "MARKET_BY_ORDER" => Domain::MARKET_BY_ORDER,
        "MARKET_BY_PRICE" => Domain::MARKET_BY_PRICE,
        "MARKET_MAKER" => Domain::MARKET_MAKER,
        "SYMBOL_LIST" => Domain::SYMBOL_LIST,
        _ => return None,
    })
}

/// `1`, or `1 (RDM_UPD_EVENT_TYPE_QUOTE)` as traces write it.
fn update_type(text: &str) -> Option<UpdateType> {
    leading_number(text).and_then(|n| u8::try_from(n).ok()).map(UpdateType)
}

/// A state as a trace has it: names with or without the C prefixes.
fn state_of(element: &Element) -> State<'_> {
    let says = |attribute: &str, word: &str| element.get(attribute).is_some_and(|text| text.ends_with(word));
    let stream = if says("streamState", "CLOSED_RECOVER") {
        StreamState::CLOSED_RECOVER
    } else if says("streamState", "CLOSED") {
        StreamState::CLOSED
    } else {
        StreamState::OPEN
    };
    let data = if says("dataState", "SUSPECT") { DataState::SUSPECT } else { DataState::OK };
    State::new(stream, data, StateCode::NONE, element.get("text").unwrap_or_default())
}

/// A container's type and bytes; `None` for one that is not known here.
fn container(element: &Element) -> Result<Option<(DataType, Vec<u8>)>, DataError> {
    let wrong = |e: EncodeError| element.wrong(e.to_string());
    match element.name.as_str() {
        "fieldList" => {
            let fields = fields(element)?;
            let room = fields.iter().map(|(_, value)| value.len() + 5).sum();
            encoded(room, |w| write_fields(&fields, w)).map_err(wrong).map(|b| Some((DataType::FIELD_LIST, b)))
        }
        "map" => map(element).map(|b| Some((DataType::MAP, b))),
        _ => Ok(None),
    }
}

type Fields = Vec<(i16, Vec<u8>)>;

fn fields(list: &Element) -> Result<Fields, DataError> {
    let entries = list.children.iter().filter(|c| c.name == "fieldEntry");
    entries
        .map(|entry| {
            let text = entry.need("fieldId")?;
            let fid = text.trim().parse().map_err(|_| entry.wrong(format!("{text:?} is no field id")))?;
            Ok((fid, value(entry, entry.get("dataType"), entry.get("data").unwrap_or_default())?))
        })
        .collect()
}

fn write_fields(fields: &Fields, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let mut list = FieldListEncoder::begin(w)?;
    for (fid, value) in fields {
        list.raw(*fid, value)?;
    }
    list.finish()
}

/// A map's entry: its action, its key, its fields.
type Row = (MapAction, Vec<u8>, Fields);

fn map(element: &Element) -> Result<Vec<u8>, DataError> {
    let key_type = element.get("keyPrimitiveType").map_or(Some(DataType::BUFFER), named_type);
    let key_type = key_type.ok_or_else(|| element.wrong("the keyPrimitiveType is not known".to_owned()))?;
    let summary = element.child("summaryData").and_then(|s| s.child("fieldList")).map(fields).transpose()?;
    let mut rows: Vec<Row> = Vec::new();
    for entry in element.children.iter().filter(|c| c.name == "mapEntry") {
        let action = match entry.need("action")?.trim_start_matches("RSSL_MPEA_").trim_end_matches("_ENTRY") {
            "ADD" => MapAction::ADD,
            "UPDATE" => MapAction::UPDATE,
            "DELETE" => MapAction::DELETE,
            other => return Err(entry.wrong(format!("{other:?} is no action; ADD, UPDATE and DELETE are"))),
        };
        let key =
            typed(key_type, entry.need("key")?).ok_or_else(|| entry.wrong("the key is not of its type".to_owned()))?;
        rows.push((action, key, entry.child("fieldList").map_or_else(|| Ok(Vec::new()), fields)?));
    }
    let size = |fields: &Fields| fields.iter().map(|(_, value)| value.len() + 5).sum::<usize>() + 16;
    let room = rows.iter().map(|(_, key, fields)| key.len() + size(fields)).sum::<usize>();
    let room = room + summary.as_ref().map_or(0, size);
    let encoded = encoded(room, |w| {
        let head = MapHead {
            count_hint: element.get("countHint").and_then(|text| text.parse().ok()),
            key_field_id: element.get("keyFieldId").and_then(|text| text.parse().ok()),
            ..MapHead::new(key_type, DataType::FIELD_LIST)
        };
        let mut map = MapEncoder::begin(w, head)?;
        if let Some(summary) = &summary {
            map.summary(LenForm::Shortest, |w| write_fields(summary, w))?;
        }
        for (action, key, fields) in &rows {
            let key = Primitive::decode(key_type, key).unwrap_or(Primitive::Blank);
            map.entry(*action, &key, |w| write_fields(fields, w))?;
        }
        map.finish()
    });
    encoded.map_err(|e| element.wrong(e.to_string()))
}

/// A value's bytes.
fn value(entry: &Element, data_type: Option<&str>, text: &str) -> Result<Vec<u8>, DataError> {
    let Some(type_name) = data_type else {
        let digits: String = text.split_whitespace().collect();
        return unhex(&digits)
            .ok_or_else(|| entry.wrong(format!("{text:?} has no dataType and is not hexadecimal either")));
    };
    let data_type = named_type(type_name).ok_or_else(|| entry.wrong(format!("{type_name:?} is no type of a field")))?;
    typed(data_type, text).ok_or_else(|| entry.wrong(format!("{text:?} is no {type_name}")))
}

fn named_type(name: &str) -> Option<DataType> {
    Some(match name.trim().trim_start_matches("RSSL_DT_") {
        "INT" => DataType::INT,
        "UINT" => DataType::UINT,
        "FLOAT" => DataType::FLOAT,
        "DOUBLE" => DataType::DOUBLE,
        "REAL" => DataType::REAL,
        "DATE" => DataType::DATE,
        "TIME" => DataType::TIME,
        "DATETIME" => DataType::DATETIME,
        "ENUM" => DataType::ENUM,
        "BUFFER" => DataType::BUFFER,
        "ASCII_STRING" => DataType::ASCII_STRING,
        "UTF8_STRING" => DataType::UTF8_STRING,
        "RMTES_STRING" => DataType::RMTES_STRING,
        _ => return None,
    })
}

/// The bytes of a value written as text; empty is blank.
fn typed(data_type: DataType, text: &str) -> Option<Vec<u8>> {
    let trimmed = text.trim();
    let value = match data_type {
        DataType::BUFFER => Primitive::Buffer(text.as_bytes()),
        DataType::ASCII_STRING => Primitive::Ascii(text.as_bytes()),
        DataType::UTF8_STRING => Primitive::Utf8(text.as_bytes()),
        DataType::RMTES_STRING => Primitive::Rmtes(text.as_bytes()),
        _ if trimmed.is_empty() => Primitive::Blank,
        DataType::INT => Primitive::Int(trimmed.parse().ok()?),
        DataType::UINT => Primitive::UInt(trimmed.parse().ok()?),
        DataType::FLOAT => Primitive::Float(trimmed.parse().ok()?),
        DataType::DOUBLE => Primitive::Double(trimmed.parse().ok()?),
        DataType::REAL => Primitive::Real(json::real_from_text(trimmed)?),
        DataType::ENUM => Primitive::Enum(u16::try_from(leading_number(trimmed)?).ok()?),
        DataType::DATE => Primitive::Date(date(trimmed)?),
        DataType::TIME => Primitive::Time(time(trimmed)?),
        DataType::DATETIME => {
            // The date may hold blanks itself: the time is what has colons.
            let at = trimmed.rfind(|c: char| c.is_whitespace() || c == 'T')?;
            Primitive::DateTime(DateTime { date: date(&trimmed[..at])?, time: time(&trimmed[at + 1..])? })
        }
        _ => return None,
    };
    encoded(text.len(), |w| value.encode(w)).ok()
}

/// The number at the beginning: traces write the meaning behind it.
fn leading_number(text: &str) -> Option<u32> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// `11/15/2005`, `15 NOV 2005` or `2005-11-15`.
fn date(text: &str) -> Option<Date> {
    const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
    let parts: Vec<&str> = text.split(['/', ' ', '-']).filter(|p| !p.is_empty()).collect();
    let [a, b, c] = parts[..] else { return None };
    let (year, month, day) = if text.contains('/') {
        (c, a.parse().ok()?, b)
    } else if let Some(month) = MONTHS.iter().position(|m| b.eq_ignore_ascii_case(m)) {
        (c, month as u8 + 1, a)
    } else {
        (a, b.parse().ok()?, c)
    };
    let (year, day) = (year.parse().ok()?, day.parse().ok()?);
    ((1..=12).contains(&month) && (1..=31).contains(&day) && year <= 4095).then(|| Date::new(year, month, day))
}

/// `14:40`, `14:40:32`, with milli-, micro- and nanoseconds behind colons or a point.
fn time(text: &str) -> Option<Time> {
    let parts: Vec<u64> = text.trim().split([':', '.']).map(|p| p.parse().ok()).collect::<Option<_>>()?;
    let limits = [24, 60, 61, 1_000, 1_000, 1_000];
    if parts.len() < 2 || parts.len() > limits.len() || parts.iter().zip(limits).any(|(part, limit)| *part >= limit) {
        return None;
    }
    let part = |n: usize| parts.get(n).copied().unwrap_or(0);
    Some(Time {
        millisecond: part(3) as u16,
        microsecond: part(4) as u16,
        nanosecond: part(5) as u16,
        ..Time::new(part(0) as u8, part(1) as u8, part(2) as u8)
    })
}

/// The bytes that `write` encodes, in a buffer for about `size` bytes of content.
fn encoded(size: usize, write: impl Fn(&mut Writer<'_>) -> Result<(), EncodeError>) -> Result<Vec<u8>, EncodeError> {
    let mut buffer = vec![0; size + 512];
    let mut w = Writer::new(&mut buffer);
    write(&mut w)?;
    Ok(w.written().to_vec())
}
