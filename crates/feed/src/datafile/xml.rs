//! As much XML as data files need: elements, attributes, comments. No document type, no namespaces.

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
    let mut reader = Reader { text, at: 0, line: 1 };
    let mut open = vec![Element::default()];
    while let Some(tag) = reader.next_tag()? {
        let wrong = |what: String| DataError { line: tag.line, what };
        if let Some(name) = tag.text.strip_prefix('/') {
            let name = name.trim();
            let element = open.pop().filter(|e| e.name == name && !name.is_empty());
            let element = element.ok_or_else(|| wrong(format!("</{name}> closes nothing that is open")))?;
            match open.last_mut() {
                Some(parent) => parent.children.push(element),
                None => return Err(wrong(format!("</{name}> closes nothing that is open"))),
            }
            continue;
        }
        let (body, is_closed) = match tag.text.strip_suffix('/') {
            Some(body) => (body, true),
            None => (tag.text, false),
        };
        let element = element(body, tag.line)?;
        if is_closed {
            if let Some(parent) = open.last_mut() {
                parent.children.push(element);
            }
        } else if open.len() > DEPTH_MAX {
            return Err(wrong(format!("elements are nested more than {DEPTH_MAX} deep")));
        } else {
            open.push(element);
        }
    }
    match (open.pop(), open.is_empty()) {
        (Some(root), true) => Ok(root),
        (unclosed, _) => {
            let unclosed = unclosed.unwrap_or_default();
            Err(unclosed.wrong(format!("<{}> is not closed", unclosed.name)))
        }
    }
}

/// What is between `<` and `>`.
struct Tag<'a> {
    text: &'a str,
    line: usize,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Reader<'a> {
    /// The next tag that is no comment, declaration or processing instruction.
    fn next_tag(&mut self) -> Result<Option<Tag<'a>>, DataError> {
        loop {
            let Some(start) = self.text[self.at..].find('<') else { return Ok(None) };
            self.skip_to(self.at + start);
            let rest = &self.text[self.at..];
            let line = self.line;
            if rest.starts_with("<!--") {
                let end = rest.find("-->").ok_or(DataError { line, what: "a comment has no end".to_owned() })?;
                self.skip_to(self.at + end + 3);
                continue;
            }
            let end = end_of_tag(rest).ok_or(DataError { line, what: "a tag has no >".to_owned() })?;
            self.skip_to(self.at + end + 1);
            let text = &rest[1..end];
            if !text.starts_with(['?', '!']) {
                return Ok(Some(Tag { text: text.trim(), line }));
            }
        }
    }

    fn skip_to(&mut self, at: usize) {
        self.line += self.text[self.at..at].matches('\n').count();
        self.at = at;
    }
}

/// Where the `>` is that is in no attribute's value.
fn end_of_tag(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '>') => return Some(at),
            (None, '"' | '\'') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            _ => {}
        }
    }
    None
}

fn element(body: &str, line: usize) -> Result<Element, DataError> {
    let body = body.trim();
    let (name, mut rest) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
    let mut element = Element { name: name.to_owned(), line, ..Element::default() };
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(element);
        }
        let wrong = || DataError { line, what: format!("<{name}> has an attribute that is not NAME=\"VALUE\"") };
        let (attribute, value) = rest.split_once('=').ok_or_else(wrong)?;
        let value = value.trim_start();
        let quote = value.chars().next().filter(|c| ['"', '\''].contains(c)).ok_or_else(wrong)?;
        let (value, after) = value[1..].split_once(quote).ok_or_else(wrong)?;
        element.attributes.push((attribute.trim().to_owned(), unescape(value)));
        rest = after;
    }
}

/// The predefined entities and character references.
fn unescape(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        result.push_str(before);
        let Some((entity, behind)) = after.split_once(';').filter(|(entity, _)| entity.len() <= 8) else {
            result.push('&');
            rest = after;
            continue;
        };
        let number = entity.strip_prefix("#x").map(|hex| u32::from_str_radix(hex, 16)).or_else(|| {
            let decimal = entity.strip_prefix('#')?;
            Some(decimal.parse())
        });
        let c = match entity {
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            "amp" => Some('&'),
            _ => number.and_then(Result::ok).and_then(char::from_u32),
        };
        if let Some(c) = c {
            result.push(c);
        } else {
            result.push('&');
            result.push_str(entity);
            result.push(';');
        }
        rest = behind;
    }
    result.push_str(rest);
    result
}
