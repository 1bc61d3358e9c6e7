//! Lines of JSON, as the export writes them.

use super::sink::Sink;
use crate::when;
use anyhow::{Context as _, anyhow};
use record::{Clocks, Gap, GapReason, Item, Kind};
use record_columns::{Assumed, Row};
use rwf::dictionary::Dictionary;
use rwf::json::{Converter, Incoming, Settings};
use serde_json::Value;
use std::io::BufRead;

/// Reads lines until the end. `length` is that of the input in bytes, for the progress.
///
/// # Errors
/// A text for the user, with the number of the line.
pub(super) fn import(
    mut input: impl BufRead,
    length: u64,
    dictionary: &Dictionary,
    assumed: &Assumed,
    sink: &mut Sink<'_>,
) -> anyhow::Result<()> {
    let converter = Converter::new(dictionary).with_settings(Settings::EXACT);
    let (mut line, mut done) = (String::new(), 0_u64);
    for number in 1.. {
        line.clear();
        done += input.read_line(&mut line)? as u64;
        let text = line.trim();
        if line.is_empty() {
            break;
        }
        if !text.is_empty() {
            let row = row(text, &converter, assumed).with_context(|| format!("line {number}"))?;
            sink.row(&row, done as f64 / length.max(1) as f64)?;
        }
    }
    Ok(())
}

fn row(line: &str, converter: &Converter<'_>, assumed: &Assumed) -> anyhow::Result<Row> {
    let value: Value = serde_json::from_str(line)?;
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let time = match text("time") {
        Some(time) => Some(when::parse(time).context("time")?),
        None => None,
    };
    let wall = number("wall_ns").or(time).ok_or_else(|| anyhow!("there is neither wall_ns nor time"))?;
    let time = time.unwrap_or(wall);
    let clocks = Clocks { wall, mono: number("mono_ns").unwrap_or(wall), source: number("source_ns") };
    let name = text("kind").unwrap_or("update");
    let kind =
        Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| anyhow!("there is no kind {name:?}"))?;
    let sequence = number("sequence");
    if kind == Kind::Gap {
        let said = text("reason").unwrap_or_default();
        let reason = (1..=u8::MAX).map_while(GapReason::of).find(|reason| reason.text() == said);
        let gap = Gap {
            reason: reason.ok_or_else(|| anyhow!("there is no reason {said:?} of a gap"))?,
            from: number("from_ns").unwrap_or(time),
            to: number("to_ns").unwrap_or(time),
            messages: number("messages"),
            bytes: number("bytes").unwrap_or(0),
        };
        return Ok(Row { sequence, time, kind, item: None, clocks, body: gap.encode().to_vec() });
    }
    let domain = number("domain").map_or(Ok(assumed.domain), u8::try_from).context("domain")?;
    let (service, name) = (text("service").unwrap_or(&assumed.service), text("item").unwrap_or_default());
    let item = Some(Item { service: service.into(), domain, name: name.into() });
    let body = match (text("rwf"), member(line, "message")) {
        (Some(hex), _) => bytes(hex).ok_or_else(|| anyhow!("rwf is no hexadecimal number of whole bytes"))?,
        (None, Some(message)) => encoded(message, converter)?,
        (None, None) => return Err(anyhow!("there is neither message nor rwf")),
    };
    Ok(Row { sequence, time, kind, item, clocks, body })
}

fn encoded(message: &str, converter: &Converter<'_>) -> anyhow::Result<Vec<u8>> {
    match converter.messages(message).pop() {
        Some(Ok(Incoming::Message(message))) => Ok(message),
        Some(Err(error)) => Err(anyhow!("message: {}", error.message(0, message))),
        _ => Err(anyhow!("message: it is none")),
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = hex.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    digits.len().is_multiple_of(2).then(|| digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// The text of a member of an object that is known to be JSON: a number in it keeps all its digits.
fn member<'t>(object: &'t str, name: &str) -> Option<&'t str> {
    let (mut depth, mut start, mut key) = (0, None, None);
    let (mut string_at, mut is_escaped) = (None, false);
    for (at, byte) in object.bytes().enumerate() {
        if let Some(from) = string_at {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => {
                    string_at = None;
                    if depth == 1 && start.is_none() {
                        key = Some(&object[from + 1..at]);
                    }
                }
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => string_at = Some(at),
            b':' if depth == 1 && start.is_none() && key == Some(name) => start = Some(at + 1),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        if let Some(start) = start
            && (depth == 1 && byte == b',' || depth == 0)
        {
            return Some(object[start..at].trim());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_found_where_it_is_one() {
        let object = r#"{"a":"\"message\":1","b":{"message":2},"message":{"x":"}","y":[1.10,2]} ,"c":3}"#;
        assert_eq!(member(object, "message"), Some(r#"{"x":"}","y":[1.10,2]}"#));
        assert_eq!(member(r#"{"message": 1.10}"#, "message"), Some("1.10"));
        assert_eq!((member("{}", "message"), member(r#"{"x":"message"}"#, "message")), (None, None));
    }

    #[test]
    fn lines_that_say_too_little_are_told() {
        let dictionary = Dictionary::builtin();
        let converter = Converter::new(&dictionary);
        let assumed = Assumed { service: "FEED".to_owned(), domain: 6 };
        for (line, expected) in [
            ("{}", "neither wall_ns nor time"),
            (r#"{"wall_ns":1}"#, "neither message nor rwf"),
            (r#"{"wall_ns":1,"kind":"x"}"#, "no kind \"x\""),
            (r#"{"wall_ns":1,"rwf":"abc"}"#, "rwf is no"),
            (r#"{"wall_ns":1,"kind":"gap","reason":"x"}"#, "no reason \"x\""),
            (r#"{"wall_ns":1,"domain":300,"rwf":""}"#, "domain"),
        ] {
            let error = row(line, &converter, &assumed).expect_err(line).to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
