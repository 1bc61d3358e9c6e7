//! CSV (RFC 4180), as the export writes it.

use super::sink::Sink;
use crate::when;
use anyhow::{Context as _, anyhow};
use record::{Clocks, Gap, GapReason, Item, Kind, MESSAGE_MAX};
use record_columns::{Assumed, Row};
use rwf::dictionary::{Dictionary, FieldDef};
use rwf::msg::{Domain, RefreshFlags, RefreshMsg, StatusMsg, UpdateMsg};
use rwf::wire::Writer;
use rwf::{
    DataState, DataType, Date, DateTime, EncodeError, FieldListEncoder, Primitive, Real, RealHint, State, StateCode,
    StreamState, Time,
};
use std::io::BufRead;

/// Stream that messages are of: a replay gives each client its own.
const STREAM: i32 = 1;

/// Reads lines until the end. `length` is that of the input in bytes, for the progress.
///
/// # Errors
/// A text for the user, with the number of the record.
pub(super) fn import(
    mut input: impl BufRead,
    length: u64,
    dictionary: &Dictionary,
    assumed: &Assumed,
    sink: &mut Sink<'_>,
) -> anyhow::Result<()> {
    let mut done = 0;
    let names = record(&mut input, &mut done)?.ok_or_else(|| anyhow!("there is no line of names"))?;
    let columns = Columns::of(&names, dictionary)?;
    let mut buffer = vec![0; MESSAGE_MAX];
    for number in 2_u64.. {
        let Some(values) = record(&mut input, &mut done).with_context(|| format!("record {number}"))? else { break };
        let row = columns.row(&values, assumed, &mut buffer).with_context(|| format!("record {number}"))?;
        sink.row(&row, done as f64 / length.max(1) as f64)?;
    }
    Ok(())
}

/// The values of the next record, which may have lines in quotes; none at the end.
fn record(input: &mut impl BufRead, done: &mut u64) -> anyhow::Result<Option<Vec<String>>> {
    let mut line = String::new();
    loop {
        let read = input.read_line(&mut line)?;
        *done += read as u64;
        let is_whole = line.matches('"').count().is_multiple_of(2);
        if read == 0 && !is_whole {
            return Err(anyhow!("a quote has no end"));
        }
        if read == 0 || is_whole {
            break;
        }
    }
    let text = line.strip_suffix('\n').map_or(line.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
    if line.is_empty() {
        return Ok(None);
    }
    let (mut values, mut value, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                chars.next();
                value.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => values.push(std::mem::take(&mut value)),
            c => value.push(c),
        }
    }
    values.push(value);
    Ok(Some(values))
}

/// A column of a field.
struct FieldColumn {
    at: usize,
    name: String,
    fid: i16,
    data_type: Option<DataType>,
}

/// Where columns are.
struct Columns {
    names: Vec<String>,
    fields: Vec<FieldColumn>,
}

impl Columns {
    fn of(names: &[String], dictionary: &Dictionary) -> anyhow::Result<Self> {
        const OWN: [&str; 9] =
            ["sequence", "time", "mono_ns", "source_time", "service", "domain", "item", "kind", "text"];
        let mut fields = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let field = dictionary.field_named(name);
            let is_display =
                name.strip_suffix("_DISPLAY").is_some_and(|of| field.is_none() && names.iter().any(|name| name == of));
            if OWN.contains(&name.as_str()) || is_display {
                continue;
            }
            let unknown = || name.strip_prefix("FID_").and_then(|fid| fid.parse().ok());
            let fid = field.map(FieldDef::fid).or_else(unknown);
            let fid = fid.ok_or_else(|| anyhow!("column {name}: no field of the dictionary has this name"))?;
            fields.push(FieldColumn { at, name: name.clone(), fid, data_type: field.map(FieldDef::data_type) });
        }
        let columns = Self { names: names.to_vec(), fields };
        if !names.iter().any(|name| name == "time") {
            return Err(anyhow!("there is no column `time`"));
        }
        Ok(columns)
    }

    /// The value of a column of the record, if it is not empty.
    fn text<'v>(&self, values: &'v [String], name: &str) -> Option<&'v str> {
        let at = self.names.iter().position(|own| own == name)?;
        values.get(at).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn row(&self, values: &[String], assumed: &Assumed, buffer: &mut [u8]) -> anyhow::Result<Row> {
        if values.len() != self.names.len() {
            return Err(anyhow!("{} values, and {} columns", values.len(), self.names.len()));
        }
        let text = |name| self.text(values, name);
        let number = |name| text(name).map(str::parse::<u64>).transpose().with_context(|| format!("column {name}"));
        let instant = |name| text(name).map(when::parse).transpose().with_context(|| format!("column {name}"));
        let time = instant("time")?.ok_or_else(|| anyhow!("column time is empty"))?;
        let clocks = Clocks { wall: time, mono: number("mono_ns")?.unwrap_or(time), source: instant("source_time")? };
        let name = text("kind").unwrap_or("update");
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        let kind = kind.ok_or_else(|| anyhow!("there is no kind {name:?}"))?;
        let sequence = number("sequence")?;
        if kind == Kind::Gap {
            let said = text("text").unwrap_or_default();
            let reason = (1..=u8::MAX).map_while(GapReason::of).find(|reason| reason.text() == said);
            let reason = reason.ok_or_else(|| anyhow!("there is no reason {said:?} of a gap"))?;
            let gap = Gap { reason, from: time, to: time, messages: None, bytes: 0 };
            return Ok(Row { sequence, time, kind, item: None, clocks, body: gap.encode().to_vec() });
        }
        let domain = text("domain").map_or(Ok(assumed.domain), str::parse).context("column domain")?;
        let item = text("item").ok_or_else(|| anyhow!("column item is empty"))?;
        let service = text("service").unwrap_or(&assumed.service);
        let item = Some(Item { service: service.into(), domain, name: item.into() });
        let body = self.message(kind, Domain(domain), values, buffer)?;
        Ok(Row { sequence, time, kind, item, clocks, body })
    }

    fn message(&self, kind: Kind, domain: Domain, values: &[String], buffer: &mut [u8]) -> anyhow::Result<Vec<u8>> {
        let mut w = Writer::new(buffer);
        let container = DataType::FIELD_LIST;
        let said = self.text(values, "text").unwrap_or_default();
        let (state, reason) = state(said).ok_or_else(|| anyhow!("column text: {said:?} is no state"))?;
        let state = State { text: reason.as_bytes(), ..state };
        let too_long = |error: EncodeError| anyhow!("its fields make no message: {error}");
        match kind {
            Kind::Status => {
                StatusMsg { state: Some(state), ..StatusMsg::new(domain, STREAM) }.encode(&mut w).map_err(too_long)?;
                return Ok(w.written().to_vec());
            }
            Kind::Refresh => {
                let flags = RefreshFlags::REFRESH_COMPLETE;
                RefreshMsg { flags, container, state, ..RefreshMsg::new(domain, STREAM) }
                    .encode_header(&mut w)
                    .map_err(too_long)?;
            }
            Kind::Update => {
                UpdateMsg { container, ..UpdateMsg::new(domain, STREAM) }.encode_header(&mut w).map_err(too_long)?;
            }
            _ => return Err(anyhow!("a row of kind {} has no message in CSV", kind.name())),
        }
        let mut list = FieldListEncoder::begin(&mut w).map_err(too_long)?;
        for column in &self.fields {
            let value = &values[column.at];
            if value.is_empty() {
                continue;
            }
            let of = || format!("column {}: {value:?}", column.name);
            if let Some(bytes) = value.strip_prefix("0x").and_then(hex) {
                list.raw(column.fid, &bytes).map_err(too_long)?;
            } else {
                let data_type =
                    column.data_type.ok_or_else(|| anyhow!("the dictionary lacks the field")).with_context(of)?;
                let utf8 = [b"\x1b%0", value.as_bytes()].concat();
                let value = if data_type == DataType::RMTES_STRING && !value.is_ascii() {
                    Primitive::Rmtes(&utf8)
                } else {
                    primitive(value, data_type).ok_or_else(|| anyhow!("is no {data_type}")).with_context(of)?
                };
                list.field(column.fid, &value).map_err(too_long)?;
            }
        }
        list.finish().map_err(too_long)?;
        Ok(w.written().to_vec())
    }
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = digits.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    digits.len().is_multiple_of(2).then(|| digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// A state, and its text: `OPEN/SUSPECT/NONE "stale"`. Nothing at all is open and good.
fn state(said: &str) -> Option<(State<'static>, String)> {
    if said.is_empty() {
        return Some((State::OPEN_OK, String::new()));
    }
    let (words, reason) = said.split_once(' ').unwrap_or((said, ""));
    let mut words = words.split('/');
    let (stream, data, code) = (words.next()?, words.next()?, words.next()?);
    let stream = StreamState::from_name(stream).or_else(|| stream.parse().ok().map(StreamState))?;
    let data = DataState::from_name(data).or_else(|| data.parse().ok().map(DataState))?;
    let code = StateCode::from_name(code).or_else(|| code.parse().ok().map(StateCode))?;
    let reason = match reason.strip_prefix('"') {
        Some(rest) => unescaped(rest.strip_suffix('"')?)?,
        None => String::new(),
    };
    Some((State { code, ..State::new(stream, data, StateCode::NONE, "") }, reason))
}

/// A text without the escapes of Rust's `escape_debug`.
fn unescaped(text: &str) -> Option<String> {
    let (mut out, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next()? {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '0' => '\0',
            'u' => {
                let rest = chars.as_str().strip_prefix('{')?;
                let (digits, rest) = rest.split_once('}')?;
                chars = rest.chars();
                char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
            }
            c => c,
        });
    }
    Some(out)
}

/// A value as the export writes it.
fn primitive(text: &str, data_type: DataType) -> Option<Primitive<'_>> {
    Some(match data_type {
        DataType::INT => Primitive::Int(text.parse().ok()?),
        DataType::UINT => Primitive::UInt(text.parse().ok()?),
        DataType::ENUM => Primitive::Enum(text.parse().ok()?),
        DataType::FLOAT => Primitive::Float(text.parse().ok()?),
        DataType::DOUBLE => Primitive::Double(text.parse().ok()?),
        DataType::REAL => Primitive::Real(real(text)?),
        DataType::DATE => Primitive::Date(date(text)?),
        DataType::TIME => Primitive::Time(time(text)?),
        DataType::DATETIME => {
            let (day, clock) = text.split_once('T')?;
            Primitive::DateTime(DateTime { date: date(day)?, time: time(clock)? })
        }
        DataType::BUFFER => Primitive::Buffer(text.as_bytes()),
        DataType::ASCII_STRING => Primitive::Ascii(text.as_bytes()),
        DataType::UTF8_STRING => Primitive::Utf8(text.as_bytes()),
        DataType::RMTES_STRING => Primitive::Rmtes(text.as_bytes()),
        _ => return None,
    })
}

/// A decimal, a fraction such as `12 3/8`, or what is none.
fn real(text: &str) -> Option<Real> {
    match text {
        "Inf" => return Some(Real::INFINITY),
        "-Inf" => return Some(Real::NEG_INFINITY),
        "NaN" => return Some(Real::NOT_A_NUMBER),
        _ => {}
    }
    let Some((rest, divisor)) = text.split_once('/') else { return rwf::json::real_from_text(text) };
    let divisor: i64 = divisor.parse().ok().filter(|divisor: &i64| (2..=256).contains(divisor))?;
    if divisor.count_ones() != 1 {
        return None;
    }
    let (is_negative, rest) = rest.strip_prefix('-').map_or((false, rest), |rest| (true, rest));
    let (whole, part) = rest.split_once(' ').unwrap_or(("0", rest));
    let (whole, part): (i64, i64) = (whole.parse().ok()?, part.parse().ok()?);
    let mantissa = whole.checked_mul(divisor)?.checked_add(part)?;
    let hint = RealHint(RealHint::FRACTION_1.0 + divisor.trailing_zeros() as u8);
    Some(Real::new(if is_negative { -mantissa } else { mantissa }, hint))
}

/// `2026-11-27`; parts that are blank are dashes.
fn date(text: &str) -> Option<Date> {
    let (year, rest) = text.split_at_checked(4)?;
    let (month, day) = rest.split_at_checked(3)?;
    let part =
        |text: &str| text.strip_prefix('-').and_then(|text| if text == "--" { Some(0) } else { text.parse().ok() });
    let year = if year == "----" { 0 } else { year.parse().ok()? };
    Some(Date::new(year, part(month)?, part(day)?))
}

/// `09:30:00` with up to nine decimals.
fn time(text: &str) -> Option<Time> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':').map(str::parse::<u8>);
    let (hour, minute, second) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let nanos: u64 = if fraction.is_empty() { 0 } else { format!("{fraction:0<9}").parse().ok()? };
    if parts.next().is_some() || fraction.len() > 9 {
        return None;
    }
    Some(Time { hour, minute, second, ..Time::from_nanos(nanos) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are_written() {
        let reals = [
            Real::new(12_345, RealHint::EXPONENT_2),
            Real::new(-5, RealHint::EXPONENT_14),
            Real::new(99, RealHint::FRACTION_8),
            Real::new(-3, RealHint::FRACTION_256),
            Real::new(7, RealHint::EXPONENT0),
            Real::NEG_INFINITY,
            Real::NOT_A_NUMBER,
        ];
        for real in reals {
            assert_eq!(super::real(&real.to_string()), Some(real), "{real}");
        }
        for date in [Date::new(2026, 11, 27), Date::new(2026, 0, 0), Date::new(0, 1, 2)] {
            assert_eq!(super::date(&date.to_string()), Some(date), "{date}");
        }
        for time in [Time::new(23, 59, 60), Time::from_nanos(1_000_001), Time::from_nanos(5_000_000)] {
            assert_eq!(super::time(&time.to_string()), Some(time), "{time}");
        }
        for text in ["1/3", "x", "1/512", "1:2"] {
            assert_eq!((super::real(text), super::time(text)), (None, None), "{text}");
        }
    }

    #[test]
    fn states_are_read_as_they_are_written() {
        for reason in ["", "stale", "say \"no\"\\ \n\u{1}é"] {
            let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::TIMEOUT, reason);
            let (read, text) = super::state(&state.to_string()).expect("a state");
            assert_eq!(State { text: text.as_bytes(), ..read }, state);
        }
        assert!(super::state("OPEN").is_none() && super::state("OPEN/OK/NONE \"x").is_none());
    }

    #[test]
    fn records_may_have_lines_and_quotes() {
        let mut input = "a,\"b \"\"c\"\", d\ne\",\r\n,x\n\"open".as_bytes();
        let mut done = 0;
        let mut next = || record(&mut input, &mut done);
        assert_eq!(next().expect("text"), Some(vec!["a".to_owned(), "b \"c\", d\ne".to_owned(), String::new()]));
        assert_eq!(next().expect("text"), Some(vec![String::new(), "x".to_owned()]));
        assert!(next().expect_err("no end").to_string().contains("quote"));
    }
}
