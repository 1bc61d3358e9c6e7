//! The elements of a data file as a tree. XML itself is read by `quick-xml`; text, comments, declarations and document types are
//! passed over, entities are the predefined ones and character references.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::DataError;

/// An element.
#[derive(Debug, Default)]
pub(super) struct Element {
    pub(super) name: String,
    attributes: Vec<(String, String)>,
    pub(super) children: Vec<Element>,
    /// Where it begins.
    pub(super) line: usize,
}

/// No data file nests deeper.
const DEPTH_MAX: usize = 64;

impl Element {
    /// An attribute's value.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// An attribute that must be there.
    pub(super) fn need(&self, name: &str) -> Result<&str, DataError> {
        self.get(name).ok_or_else(|| self.wrong(format!("<{}> has no {name}", self.name)))
    }

    /// The first child of this name.
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|c| c.name == name)
    }

    /// An error of this element.
    pub(super) fn wrong(&self, what: String) -> DataError {
        DataError { line: self.line, what }
    }
}

/// The elements of a text, under a nameless one; a trace has no single root.
pub(super) fn parse(text: &str) -> Result<Element, DataError> {
    let mut reader = Reader::from_str(text);
    // Traces are written by programs that do not escape every &.
    reader.config_mut().allow_dangling_amp = true;
    let mut lines = Lines { text, at: 0, line: 1 };
    let mut open = vec![Element::default()];
    loop {
        let event = reader.read_event();
        // An element begins where the reader stood before its end; its first line is that of its `<`.
        let end = reader.buffer_position() as usize;
        match event {
            Ok(Event::Start(start)) => {
                let element = element(&start, lines.of(end))?;
                if open.len() > DEPTH_MAX {
                    return Err(element.wrong(format!("elements are nested more than {DEPTH_MAX} deep")));
                }
                open.push(element);
            }
            Ok(Event::Empty(start)) => {
                let element = element(&start, lines.of(end))?;
                if let Some(parent) = open.last_mut() {
                    parent.children.push(element);
                }
            }
            // The reader has seen to it that names match.
            Ok(Event::End(_)) => {
                if let (Some(element), Some(parent)) = (open.pop(), open.last_mut()) {
                    parent.children.push(element);
                }
            }
            Ok(Event::Eof) => break,
            Ok(_) => {}
            Err(why) => {
                let line = lines.of(reader.error_position() as usize);
                return Err(DataError { line, what: why.to_string() });
            }
        }
        lines.skip_to(end);
    }
    match (open.pop(), open.is_empty()) {
        (Some(root), true) => Ok(root),
        (unclosed, _) => {
            let unclosed = unclosed.unwrap_or_default();
            Err(unclosed.wrong(format!("<{}> is not closed", unclosed.name)))
        }
    }
}

/// Counts lines as the reader goes on.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl Lines<'_> {
    /// The line of the tag that ends at `end` and begins behind what was read before.
    fn of(&self, end: usize) -> usize {
        let read = self.text.as_bytes().get(self.at..end).unwrap_or_default();
        let before = read.iter().position(|byte| *byte == b'<').unwrap_or(0);
        self.line + line_ends(&read[..before])
    }

    fn skip_to(&mut self, end: usize) {
        let read = self.text.as_bytes().get(self.at..end).unwrap_or_default();
        self.line += line_ends(read);
        self.at = end;
    }
}

fn line_ends(bytes: &[u8]) -> usize {
    bytes.split(|byte| *byte == b'\n').count() - 1
}

fn element(start: &BytesStart<'_>, line: usize) -> Result<Element, DataError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut element = Element { name: text(start.name().as_ref()), line, ..Element::default() };
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|why| {
            let name = &element.name;
            DataError { line, what: format!("<{name}> has an attribute that is not NAME=\"VALUE\": {why}") }
        })?;
        let raw = text(&attribute.value);
        // An & that begins no entity stands for itself: traces are written by programs that do not escape.
        let value = quick_xml::escape::unescape(&raw).map_or_else(|_| raw.clone(), std::borrow::Cow::into_owned);
        element.attributes.push((text(attribute.key.as_ref()), value));
    }
    Ok(element)
}
