//! The records of a recording as lines of JSON, or as a table (CSV).

use crate::selected::{Failure, Wanted, each};
use crate::when;
use record::{Entry, Gap, Kind, Record, Recording};
use rwf::dictionary::Dictionary;
use rwf::json::{Converter, LeftOut, Settings};
use rwf::{DataType, FieldList, Primitive, SetScope, peek};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::ControlFlow;

/// How records are written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextForm {
    /// A JSON object a line.
    Json,
    /// Values between commas, with a line of names.
    Csv,
}

/// Writes the wanted records as text. Gives the number of those that have no fields of their own, and so no place in CSV.
///
/// # Errors
/// The recording cannot be read, or `out` cannot be written.
pub fn write_text<S: record::Store>(
    recording: &Recording<S>,
    wanted: &Wanted,
    dictionary: &Dictionary,
    form: TextForm,
    out: &mut dyn Write,
) -> Result<u64, Failure> {
    let mut table = Table { dictionary, fids: Vec::new(), values: Vec::new(), left_out: 0 };
    if form == TextForm::Csv {
        each(recording, wanted, "looked at", &|| false, &mut |entry| {
            table.learn(entry);
            Ok(ControlFlow::Continue(()))
        })?;
        table.head(out)?;
    }
    each(recording, wanted, "written", &|| false, &mut |entry| {
        match form {
            TextForm::Csv => table.row(entry, out)?,
            TextForm::Json => json(entry, dictionary, out)?,
        }
        Ok(ControlFlow::Continue(()))
    })?;
    out.flush()?;
    Ok(table.left_out)
}

/// A record as a line of JSON, as [`TextForm::Json`] has it.
pub fn json_line(entry: &Entry<'_>, dictionary: &Dictionary) -> Vec<u8> {
    let mut line = Vec::new();
    // Memory takes everything.
    let _ = json(entry, dictionary, &mut line);
    line
}

/// A record as an object.
fn json(entry: &Entry<'_>, dictionary: &Dictionary, out: &mut dyn Write) -> io::Result<()> {
    let Record { sequence, time, kind, clocks, body, .. } = entry.record;
    let mut line = format!("{{\"sequence\":{sequence},\"time\":\"{}\",\"wall_ns\":{}", when::text(time), clocks.wall);
    let _ = write!(line, ",\"mono_ns\":{}", clocks.mono);
    if let Some(source) = clocks.source {
        let _ = write!(line, ",\"source_ns\":{source}");
    }
    let text = |text: &str| serde_json::to_string(text).unwrap_or_default();
    if let Some(item) = entry.item {
        let _ = write!(
            line,
            ",\"service\":{},\"domain\":{},\"item\":{}",
            text(&item.service),
            item.domain,
            text(&item.name)
        );
    }
    let _ = write!(line, ",\"kind\":\"{}\"", kind.name());
    if let Some(Gap { reason, from, to, messages, bytes }) = Gap::decode(body).filter(|_| kind == Kind::Gap) {
        let _ = write!(line, ",\"reason\":{},\"from_ns\":{from},\"to_ns\":{to},\"bytes\":{bytes}", text(reason.text()));
        if let Some(messages) = messages {
            let _ = write!(line, ",\"messages\":{messages}");
        }
    } else {
        // JSON has no place for fields that the dictionary lacks: a message with some is written as it came.
        let (left_out, start) = (LeftOut::default(), line.len());
        line.push_str(",\"message\":");
        let converter = Converter::new(dictionary).with_settings(Settings::EXACT).counting(&left_out);
        if converter.message(body, &mut line).is_err() || left_out.fields() > 0 {
            line.truncate(start);
            line.push_str(",\"rwf\":\"");
            for byte in body {
                let _ = write!(line, "{byte:02x}");
            }
            line.push('"');
        }
    }
    line.push_str("}\n");
    out.write_all(line.as_bytes())
}

/// Columns before those of fields.
const COLUMNS: &str = "sequence,time,mono_ns,source_time,service,domain,item,kind,text";

/// A table of fields.
struct Table<'a> {
    dictionary: &'a Dictionary,
    /// Fields that occur, in order.
    fids: Vec<i16>,
    /// Values of a row, of a number and a display each.
    values: Vec<(String, String)>,
    left_out: u64,
}

/// The fields of a record, if it has some.
fn fields_of<'m>(record: &Record<'m>) -> Option<FieldList<'m>> {
    let has_fields = matches!(record.kind, Kind::Refresh | Kind::Update);
    let body = record.body;
    if !has_fields || peek::container(body) != Some(DataType::FIELD_LIST) {
        return None;
    }
    FieldList::decode(peek::body(body)?, &SetScope::NONE).ok()
}

impl Table<'_> {
    fn learn(&mut self, entry: &Entry<'_>) {
        for field in fields_of(&entry.record).iter().flat_map(FieldList::entries).flatten() {
            if let Err(at) = self.fids.binary_search(&field.fid) {
                self.fids.insert(at, field.fid);
            }
        }
    }

    fn is_enumeration(&self, fid: i16) -> bool {
        self.dictionary.field(fid).is_some_and(|field| field.data_type() == DataType::ENUM)
    }

    fn head(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut line = COLUMNS.to_owned();
        for fid in &self.fids {
            let name =
                self.dictionary.field(*fid).map_or_else(|| format!("FID_{fid}"), |field| field.acronym().to_owned());
            let _ = write!(line, ",{}", quoted(&name));
            if self.is_enumeration(*fid) {
                let _ = write!(line, ",{}", quoted(&format!("{name}_DISPLAY")));
            }
        }
        writeln!(out, "{line}")
    }

    fn row(&mut self, entry: &Entry<'_>, out: &mut dyn Write) -> io::Result<()> {
        let record = &entry.record;
        let list = fields_of(record);
        let is_row = list.is_some() || matches!(record.kind, Kind::Status | Kind::Gap);
        if !is_row {
            self.left_out += 1;
            return Ok(());
        }
        let text = match record.kind {
            Kind::Gap => Gap::decode(record.body).map_or_else(String::new, |gap| gap.reason.text().to_owned()),
            _ => rwf::msg::Msg::decode(record.body)
                .ok()
                .and_then(|msg| msg.state().map(ToString::to_string))
                .unwrap_or_default(),
        };
        let mut line = format!("{},{},{}", record.sequence, when::text(record.time), record.clocks.mono);
        let source = record.clocks.source.map(when::text).unwrap_or_default();
        let (service, domain, name) =
            entry.item.map_or(("", String::new(), ""), |item| (&*item.service, item.domain.to_string(), &*item.name));
        let kind = record.kind.name();
        let _ = write!(line, ",{source},{},{domain},{},{kind},{}", quoted(service), quoted(name), quoted(&text));
        self.values.clear();
        self.values.resize(self.fids.len(), (String::new(), String::new()));
        for field in list.iter().flat_map(FieldList::entries).flatten() {
            let Ok(at) = self.fids.binary_search(&field.fid) else { continue };
            let known = self.dictionary.field(field.fid).map(rwf::dictionary::FieldDef::data_type);
            self.values[at] = match known.map(|data_type| field.value(data_type)) {
                Some(Ok(Primitive::Blank)) => (String::new(), String::new()),
                Some(Ok(Primitive::Enum(number))) => {
                    let display = self.dictionary.enum_display(field.fid, number).map(String::from_utf8_lossy);
                    (number.to_string(), display.unwrap_or_default().into_owned())
                }
                Some(Ok(value)) => (value.as_text().map_or_else(|| value.to_string(), Into::into), String::new()),
                // Contents that nobody knows how to read are there as they came.
                _ => {
                    (field.data.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}")), String::new())
                }
            };
        }
        for (fid, (value, display)) in self.fids.iter().zip(&self.values) {
            let _ = write!(line, ",{}", quoted(value));
            if self.is_enumeration(*fid) {
                let _ = write!(line, ",{}", quoted(display));
            }
        }
        writeln!(out, "{line}")
    }
}

/// A value of CSV (RFC 4180).
fn quoted(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use permissions::rights::Pattern;
    use record::{Clocks, Item, Journal, JournalConfig, Memory};
    use rwf::msg::{Domain, RefreshFlags, RefreshMsg, StatusMsg, UpdateMsg};
    use rwf::wire::Writer;
    use rwf::{DataState, EncodeError, FieldListEncoder, Real, RealHint, State, StateCode, StreamState};

    fn encoded(encode: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
        let mut buffer = vec![0; 4_000];
        let mut w = Writer::new(&mut buffer);
        encode(&mut w).expect("room");
        w.written().to_vec()
    }

    fn fields(bid: i64, text: &[u8]) -> Vec<u8> {
        encoded(|w| {
            let mut list = FieldListEncoder::begin(w)?;
            list.real(22, Real { mantissa: bid, hint: RealHint::EXPONENT_2 })?;
            list.field(3, &Primitive::Rmtes(text))?;
            list.enumeration(15, 840)?;
            list.blank(25)?;
            list.finish()
        })
    }

    /// An image, an update of the next second, a state and a gap.
    fn recorded() -> Recording<Memory> {
        let mut journal = Journal::open(Memory::default(), JournalConfig::default(), &mut Vec::new()).expect("memory");
        let item = journal.item(Item { service: "FEED".into(), domain: 6, name: "IBM.N".into() });
        let second = 1_000_000_000;
        let at = |n: u64, source| Clocks { wall: (1_795_789_800 + n) * second, mono: n, source };
        let (container, body) = (DataType::FIELD_LIST, fields(12_345, b"say \"hi\", you"));
        let flags = RefreshFlags::REFRESH_COMPLETE;
        let refresh =
            RefreshMsg { flags, container, state: State::OPEN_OK, body: &body, ..RefreshMsg::new(Domain(6), 5) };
        journal.append(Kind::Refresh, Some(item), at(0, None), &encoded(|w| refresh.encode(w)));
        let body = fields(-5, b"");
        let update = UpdateMsg { container, body: &body, ..UpdateMsg::new(Domain(6), 5) };
        let source = Some(1_795_789_800 * second + 7);
        journal.append(Kind::Update, Some(item), at(1, source), &encoded(|w| update.encode(w)));
        let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "stale");
        let status = StatusMsg { state: Some(state), ..StatusMsg::new(Domain(6), 5) };
        journal.append(Kind::Status, Some(item), at(2, None), &encoded(|w| status.encode(w)));
        journal.overflow(7, 700, at(3, None));
        journal.end();
        Recording::open(journal.store().clone()).expect("a recording")
    }

    fn exported(form: TextForm, wanted: &Wanted) -> Vec<String> {
        let mut out = Vec::new();
        write_text(&recorded(), wanted, &Dictionary::builtin(), form, &mut out).expect("memory");
        String::from_utf8(out).expect("text").lines().map(str::to_owned).collect()
    }

    const ALL: Wanted = Wanted { from: 0, to: u64::MAX, patterns: Vec::new(), domains: Vec::new() };

    #[test]
    fn a_table_has_a_column_a_field_and_blanks_are_empty() {
        let lines = exported(TextForm::Csv, &ALL);
        assert_eq!(lines[0], format!("{COLUMNS},DSPLY_NAME,CURRENCY,CURRENCY_DISPLAY,BID,ASK"));
        let state = State::OPEN_OK.to_string();
        let first = format!(
            "0,2026-11-27T14:30:00Z,0,,FEED,6,IBM.N,refresh,{},\"say \"\"hi\"\", you\",840,USD,123.45,",
            quoted(&state)
        );
        assert_eq!(lines[1], first);
        assert_eq!(
            lines[2],
            "1,2026-11-27T14:30:01Z,1,2026-11-27T14:30:00.000000007Z,FEED,6,IBM.N,update,,,840,USD,-0.05,"
        );
        assert!(lines[3].starts_with("2,") && lines[3].contains("stale"), "{}", lines[3]);
        assert_eq!((lines.len(), lines[4].contains("the recorder could not follow")), (5, true), "{}", lines[4]);
    }

    #[test]
    fn lines_of_json_have_the_message_and_its_clocks() {
        let lines: Vec<serde_json::Value> =
            exported(TextForm::Json, &ALL).iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines[0]["message"]["Fields"]["BID"], serde_json::json!(123.45));
        assert_eq!(lines[1]["source_ns"].as_u64(), Some(1_795_789_800_000_000_007));
        assert_eq!((&lines[1]["item"], &lines[1]["kind"]), (&"IBM.N".into(), &"update".into()));
        assert_eq!((&lines[3]["kind"], lines[3]["messages"].as_u64()), (&"gap".into(), Some(7)));
        // The dictionary lacks everything: the bytes are there.
        let mut out = Vec::new();
        write_text(&recorded(), &ALL, &Dictionary::new(), TextForm::Json, &mut out).expect("memory");
        let first: serde_json::Value =
            serde_json::from_slice(out.split(|byte| *byte == b'\n').next().expect("a line")).expect("JSON");
        assert!(first["rwf"].is_string() && first["message"].is_null(), "{first}");
    }

    #[test]
    fn only_what_is_wanted_is_exported() {
        let second = 1_795_789_801_000_000_000;
        let lines = exported(TextForm::Json, &Wanted { from: second, to: second, ..ALL });
        assert_eq!((lines.len(), lines[0].contains("\"update\"")), (1, true));
        let lines = exported(TextForm::Json, &Wanted { patterns: vec![Pattern::new("X*")], ..ALL });
        assert_eq!((lines.len(), lines[0].contains("\"gap\"")), (1, true), "gaps are everybody's");
    }
}
