//! Readable text of any message or container, for people: dumps, logs of a lab, test failures.
//!
//! One line per member, field, element or entry; nested containers are indented. With a dictionary, fields have their
//! names and types and enumerations their displays; without one, fields are bytes. States, flags, domains and actions
//! have the names that their constants have. What cannot be decoded is marked by `!!` and shown as bytes, and the text goes
//! on with what comes after it: there is a text for any bytes whatever.
//!
//! ```
//! use rwf::msg::{CloseMsg, Domain};
//! use rwf::wire::Writer;
//!
//! let mut buf = [0; 10];
//! CloseMsg::new(Domain::MARKET_PRICE, 5).encode(&mut Writer::new(&mut buf))?;
//! assert_eq!(rwf_text::message(&buf, None).to_string(), "CLOSE MARKET_PRICE, stream 5, 10 bytes\n");
//! # Ok::<(), rwf::EncodeError>(())
//! ```

#![forbid(unsafe_code)]

mod container;
mod hex;
mod message;
mod value;

pub use hex::{HexDump, hex_dump};

use std::fmt;

use rwf::container::SetScope;
use rwf::dictionary::Dictionary;
use rwf::msg::Domain;
use rwf::{DataType, DecodeError};

/// How deep containers and messages are followed; deeper ones are shown as bytes. Hostile bytes nest without end.
const MAX_DEPTH: usize = 24;

/// The text of a message.
pub fn message<'a>(bytes: &'a [u8], dictionary: Option<&'a Dictionary>) -> Text<'a> {
    Text { data_type: DataType::MSG, bytes, dictionary }
}

/// The text of a container or a primitive, given its type.
pub fn container<'a>(data_type: DataType, bytes: &'a [u8], dictionary: Option<&'a Dictionary>) -> Text<'a> {
    Text { data_type, bytes, dictionary }
}

/// Bytes that [`Display`](fmt::Display) as readable text, each line ended by a line feed.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    data_type: DataType,
    bytes: &'a [u8],
    dictionary: Option<&'a Dictionary>,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer { out: f, dictionary: self.dictionary, domain: None, depth: 0 };
        printer.data(self.data_type, self.bytes, &SetScope::NONE)
    }
}

/// Writes lines at a depth. Whoever writes something nested has begun a line; the nested thing ends it.
struct Printer<'p, 'f, 'd> {
    out: &'p mut fmt::Formatter<'f>,
    dictionary: Option<&'d Dictionary>,
    /// Domain of the message around, which gives some numbers their names.
    domain: Option<Domain>,
    depth: usize,
}

impl Printer<'_, '_, '_> {
    /// Begins a line.
    fn indent(&mut self) -> fmt::Result {
        for _ in 0..self.depth {
            self.out.write_str("  ")?;
        }
        Ok(())
    }

    /// A whole line: a label in a column, and something behind it.
    fn member(&mut self, label: &str, value: impl fmt::Display) -> fmt::Result {
        self.indent()?;
        writeln!(self.out, "{label:<11} {value}")
    }

    /// Runs `body` one level further in.
    fn nested(&mut self, body: impl FnOnce(&mut Self) -> fmt::Result) -> fmt::Result {
        self.depth += 1;
        let result = body(self);
        self.depth -= 1;
        result
    }

    /// A line for what could not be decoded.
    fn fault(&mut self, error: DecodeError) -> fmt::Result {
        self.indent()?;
        writeln!(self.out, "!! {error}")
    }

    /// Ends the line with a fault, then shows the bytes.
    fn undecodable(&mut self, error: DecodeError, bytes: &[u8]) -> fmt::Result {
        writeln!(self.out, "!! {error}")?;
        self.nested(|p| p.hex_lines(bytes))
    }

    /// Bytes on lines of their own.
    fn hex_lines(&mut self, bytes: &[u8]) -> fmt::Result {
        for line in hex_dump(bytes).lines() {
            self.indent()?;
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    /// Data of any type; ends the line that the caller has begun.
    fn data(&mut self, data_type: DataType, bytes: &[u8], scope: &SetScope<'_>) -> fmt::Result {
        if !data_type.is_container() {
            return self.primitive(data_type, bytes, None);
        }
        if self.depth >= MAX_DEPTH {
            writeln!(self.out, "{data_type}, {}, nested too deep", count(bytes.len(), "byte"))?;
            return self.nested(|p| p.hex_lines(bytes));
        }
        match data_type {
            DataType::MSG => self.message(bytes),
            DataType::NO_DATA if bytes.is_empty() => writeln!(self.out, "NO_DATA"),
            _ => self.container(data_type, bytes, scope),
        }
    }
}

/// `1 entry`, `2 entries`.
fn count(number: usize, noun: &str) -> String {
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        _ => format!("{number} {noun}s"),
    }
}
