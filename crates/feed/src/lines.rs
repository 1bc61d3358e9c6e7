//! Messages as lines of JSON: what `test-client --record` and `dump --json` write, and what people write by hand.
//!
//! A file is any number of JSON values, usually one a line; lines that begin with `#` are comments. A value is
//!
//! * a message in the form of the WebSocket protocol: `{"Type":"Update","Fields":{"BID":1.25}}`, or an array of them;
//! * a message with what is known of it: `{"at":0.25,"item":"IBM.N","message":{...}}`;
//! * the same with the message's own bytes in hexadecimal digits: `{"at":0.25,"item":"IBM.N","rwf":"0012..."}`.
//!
//! `at` is seconds from the beginning; `item` is the name where the message itself has none; `from` tells sessions apart.

use rwf::json::{Converter, Incoming};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt;

/// A message and what its line says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Line number, from 1.
    pub line: usize,
    /// Seconds since the beginning.
    pub at: Option<f64>,
    /// Name of the item.
    pub item: Option<String>,
    /// The sender; empty when that is not said.
    pub from: String,
    /// The message.
    pub message: Vec<u8>,
}

/// The fault of a file, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// Line number, from 1.
    pub line: usize,
    /// The fault.
    pub what: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for LineError {}

/// A value with something around the message.
#[derive(Deserialize)]
struct Envelope<'a> {
    at: Option<f64>,
    item: Option<String>,
    #[serde(default)]
    from: String,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    rwf: Option<String>,
}

/// Reads every message of a text.
///
/// # Errors
/// The first line that makes no sense.
pub fn read(text: &str, converter: Converter<'_>) -> Result<Vec<Entry>, LineError> {
    let mut entries = Vec::new();
    let plain = without_comments(text);
    let mut values = serde_json::Deserializer::from_str(&plain).into_iter::<&RawValue>();
    let mut line = 1;
    let mut counted = 0;
    loop {
        let value = match values.next() {
            None => return Ok(entries),
            Some(Ok(value)) => value.get(),
            Some(Err(e)) => return Err(LineError { line: e.line(), what: format!("is no JSON: {e}") }),
        };
        // The offset is behind the value; the value may span lines.
        let start = values.byte_offset() - value.len();
        line += plain[counted..start].matches('\n').count();
        counted = start;
        read_value(value, line, converter, &mut entries)?;
    }
}

/// Comment lines are made empty, so that line numbers stay.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let is_comment = line.trim_start().starts_with('#');
        plain.push_str(if is_comment { "\n" } else { line });
    }
    plain
}

fn read_value(value: &str, line: usize, converter: Converter<'_>, entries: &mut Vec<Entry>) -> Result<(), LineError> {
    let wrong = |what: String| LineError { line, what };
    let envelope: Option<Envelope<'_>> = serde_json::from_str(value).ok();
    let Some(envelope) = envelope.filter(|e| e.message.is_some() || e.rwf.is_some()) else {
        return read_messages(value, line, converter, entries, &|message| Entry {
            line,
            at: None,
            item: None,
            from: String::new(),
            message,
        });
    };
    if envelope.at.is_some_and(|at| !(0.0..1e9).contains(&at)) {
        return Err(wrong("`at` is seconds from the beginning: 0 or more".to_owned()));
    }
    let entry =
        |message| Entry { line, at: envelope.at, item: envelope.item.clone(), from: envelope.from.clone(), message };
    match (envelope.message, &envelope.rwf) {
        (_, Some(digits)) => {
            let bytes = unhex(digits).ok_or_else(|| wrong("`rwf` is not pairs of hexadecimal digits".to_owned()))?;
            rwf::peek::header(&bytes).map_err(|e| wrong(format!("`rwf` is no message: {e}")))?;
            entries.push(entry(bytes));
            Ok(())
        }
        (Some(message), None) => read_messages(message.get(), line, converter, entries, &entry),
        (None, None) => Ok(()),
    }
}

fn read_messages(
    text: &str,
    line: usize,
    converter: Converter<'_>,
    entries: &mut Vec<Entry>,
    entry: &dyn Fn(Vec<u8>) -> Entry,
) -> Result<(), LineError> {
    for result in converter.messages(text) {
        match result {
            Ok(Incoming::Message(message)) => entries.push(entry(message)),
            Ok(Incoming::Ping | Incoming::Pong) => {
                return Err(LineError { line, what: "pings are no messages of RWF".to_owned() });
            }
            Ok(Incoming::Error(text)) => return Err(LineError { line, what: format!("tells an error: {text}") }),
            Err(e) => return Err(LineError { line, what: e.to_string() }),
        }
    }
    Ok(())
}

/// The bytes of an even number of hexadecimal digits.
pub(super) fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let pair = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::dictionary::Dictionary;
    use rwf::msg::Msg;

    fn entries(text: &str) -> Result<Vec<Entry>, LineError> {
        let dictionary = Dictionary::builtin();
        read(text, Converter::new(&dictionary))
    }

    #[test]
    fn the_three_forms_and_comments_are_read() {
        let text = "# a comment\n{\"ID\":5,\"Type\":\"Update\",\"Fields\":{\"BID\":1.25}}\n\n\
            {\"at\":0.5,\"item\":\"IBM.N\",\n \"message\":{\"ID\":6,\"Type\":\"Update\",\"Fields\":{\"BID\":2}}}\n\
            {\"rwf\":\"00080506000000050080\",\"at\":1}\n[{\"Type\":\"Close\",\"ID\":9},{\"Type\":\"Close\",\"ID\":8}]";
        let found = entries(text).unwrap();
        let lines: Vec<usize> = found.iter().map(|e| e.line).collect();
        assert_eq!(lines, [2, 4, 6, 7, 7]);
        assert_eq!((found[1].at, found[1].item.as_deref()), (Some(0.5), Some("IBM.N")));
        assert!(matches!(Msg::decode(&found[2].message), Ok(Msg::Close(close)) if close.stream_id == 5));
        assert!(matches!(Msg::decode(&found[4].message), Ok(Msg::Close(close)) if close.stream_id == 8));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, line, part) in [
            ("{\"Type\":\"Close\",\"ID\":1}\n{", 2, "no JSON"),
            ("\n{\"rwf\":\"0\"}", 2, "hexadecimal"),
            ("{\"rwf\":\"00\"}", 1, "no message"),
            ("#\n#\n{\"Type\":\"Ping\"}", 3, "ping"),
            ("{\"at\":-1,\"message\":{\"Type\":\"Close\",\"ID\":1}}", 1, "0 or more"),
            ("{\"Type\":\"Nonsense\",\"ID\":1}", 1, "Nonsense"),
        ] {
            let error = entries(text).unwrap_err();
            assert!(error.line == line && error.what.contains(part), "{text}: {error}");
        }
    }
}
