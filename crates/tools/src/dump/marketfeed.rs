//! Files and streams of raw Marketfeed.

use anyhow::anyhow;
use std::fmt::Write as _;

use marketfeed::{Converter, Options, Record, RwfHeader, Scan, scan};
use rwf::dictionary::Dictionary;
use rwf::wire::Writer;

use super::Form;
use super::sheet::Sheet;

/// Shows each message of the bytes, from FS to FS. As text: header and fields with their names; in other forms: the RWF message
/// that the dictionary makes of it, and at the end what was lost on the way.
///
/// # Errors
/// A text for the user: there is no message in the bytes.
pub(super) fn show(bytes: &[u8], form: Form, dictionary: &Dictionary, sheet: &mut Sheet<'_>) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut converter = Converter::new(Options::default());
    let mut buffer = vec![0; 65_536];
    let (mut at, mut messages) = (0, 0);
    loop {
        match scan(&bytes[at..]) {
            Scan::Message { start, end } => {
                messages += 1;
                let message = &bytes[at + start..at + end];
                match Record::parse(message) {
                    Err(error) => _ = writeln!(text, "offset {}: {error}", at + start),
                    Ok(record) if form == Form::Text => describe(&record, dictionary, &mut text),
                    Ok(record) => {
                        let header = RwfHeader { stream_id: 5, service_id: None, dictionary_id: 1, is_solicited: true };
                        let mut w = Writer::new(&mut buffer);
                        match converter.to_rwf(dictionary, &record, &header, &mut w) {
                            Ok(()) => sheet.message(w.written()),
                            Err(error) => _ = writeln!(text, "offset {}: {error}", at + start),
                        }
                    }
                }
                at += end;
            }
            Scan::Partial { start } => {
                _ = writeln!(
                    text,
                    "offset {}: a message that is cut off, {} bytes",
                    at + start,
                    bytes.len() - at - start
                );
                break;
            }
            Scan::Nothing => break,
        }
    }
    if messages == 0 {
        return Err(anyhow!("holds no Marketfeed message (0x1C, a type, ..., 0x1C)"));
    }
    if converter.losses().dropped() > 0 {
        _ = write!(text, "dropped on the way to RWF, by field:\n{}", converter.losses());
    }
    Ok(text)
}

fn describe(record: &Record<'_>, dictionary: &Dictionary, text: &mut String) {
    _ = write!(text, "{} {}", record.record_type, printable(record.item));
    let numbers = [("field list", record.field_list), ("rtl", record.rtl), ("delta", record.delta_rtl)];
    for (name, number) in numbers {
        if let Some(number) = number {
            _ = write!(text, ", {name} {number}");
        }
    }
    for (name, part) in [("tag", record.tag), ("status", record.status), ("code", record.code), ("text", record.text)] {
        if let Some(part) = part.filter(|part| !part.is_empty()) {
            _ = write!(text, ", {name} {}", printable(part));
        }
    }
    text.push('\n');
    for field in record.fields() {
        match field {
            Ok(field) => {
                let name = dictionary.field(field.fid).map_or("?", rwf::dictionary::FieldDef::acronym);
                _ = writeln!(text, "  {:6} {name:14} {}", field.fid, printable(field.value));
            }
            Err(error) => _ = writeln!(text, "  {error}"),
        }
    }
}

/// Text of bytes in which controls stand out: ESC as `<1B>`.
fn printable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            0x20..=0x7E => text.push(char::from(*byte)),
            _ => _ = write!(text, "<{byte:02X}>"),
        }
    }
    text
}
