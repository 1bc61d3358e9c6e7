//! A JSON reader that keeps what conversion needs: the order of members and the text of numbers.

use std::borrow::Cow;

use super::{ErrorKind, JsonError};

/// How deep arrays and objects may nest. Hostile text nests without end.
const MAX_DEPTH: usize = 64;

/// Members for which there is room at first: headers have about as many, field lists more.
const MEMBERS: usize = 8;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node<'a> {
    Null,
    Bool(bool),
    /// As it stands in the text, which is a legal JSON number.
    Number(&'a str),
    Text(Cow<'a, str>),
    Array(Vec<Node<'a>>),
    /// Members in the order of the text; a name may come twice, the last one counts.
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl<'a> Node<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, JsonError> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        let node = parser.value()?;
        parser.blanks();
        if parser.at < text.len() {
            return Err(parser.fail("text after the end of the value"));
        }
        Ok(node)
    }

    /// What kind of value it is, for errors.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "text",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    /// The member of an object with this name.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.iter().rev().find(|(key, _)| key == name).map(|(_, node)| node),
            _ => None,
        }
    }

    /// About how many bytes the value takes in a message, rather too many than too few.
    pub(super) fn weight(&self) -> usize {
        /// More than a double with its length and id.
        const EACH: usize = 16;
        match self {
            Self::Null | Self::Bool(_) | Self::Number(_) => EACH,
            Self::Text(text) => EACH + text.len(),
            Self::Array(items) => EACH + items.iter().map(Self::weight).sum::<usize>(),
            Self::Object(members) => {
                EACH + members.iter().map(|(name, node)| name.len() + node.weight()).sum::<usize>()
            }
        }
    }

    /// Compact JSON text of the value.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(text) => out.push_str(text),
            Self::Text(text) => super::write::text(text, out),
            Self::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (index, (name, node)) in members.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    super::write::text(name, out);
                    out.push(':');
                    node.write(out);
                }
                out.push('}');
            }
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn fail(&self, what: &str) -> JsonError {
        let before = &self.text.as_bytes()[..self.at.min(self.text.len())];
        let line = before.split(|byte| *byte == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
        JsonError::new(ErrorKind::Syntax, format!("{what} at line {line}, column {column}"))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self) -> Result<Node<'a>, JsonError> {
        self.blanks();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => Ok(Node::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => {
                for (word, node) in [("true", Node::Bool(true)), ("false", Node::Bool(false)), ("null", Node::Null)] {
                    if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
                        self.at += word.len();
                        return Ok(node);
                    }
                }
                Err(self.fail("no JSON value"))
            }
            None => Err(self.fail("end of the text where a value was expected")),
        }
    }

    fn nested(&mut self, body: fn(&mut Self) -> Result<Node<'a>, JsonError>) -> Result<Node<'a>, JsonError> {
        if self.depth == MAX_DEPTH {
            return Err(self.fail("arrays and objects nested too deep"));
        }
        self.depth += 1;
        self.at += 1;
        let node = body(self);
        self.depth -= 1;
        node
    }

    fn object(&mut self) -> Result<Node<'a>, JsonError> {
        self.blanks();
        if self.take(b'}') {
            return Ok(Node::Object(Vec::new()));
        }
        let mut members = Vec::with_capacity(MEMBERS);
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return Err(self.fail("no member name"));
            }
            let name = self.string()?;
            self.blanks();
            if !self.take(b':') {
                return Err(self.fail("no colon after a member name"));
            }
            members.push((name, self.value()?));
            self.blanks();
            if self.take(b'}') {
                return Ok(Node::Object(members));
            }
            if !self.take(b',') {
                return Err(self.fail("neither comma nor end of an object"));
            }
        }
    }

    fn array(&mut self) -> Result<Node<'a>, JsonError> {
        let mut items = Vec::new();
        self.blanks();
        if self.take(b']') {
            return Ok(Node::Array(items));
        }
        loop {
            items.push(self.value()?);
            self.blanks();
            if self.take(b']') {
                return Ok(Node::Array(items));
            }
            if !self.take(b',') {
                return Err(self.fail("neither comma nor end of an array"));
            }
        }
    }

    fn number(&mut self) -> Result<Node<'a>, JsonError> {
        let start = self.at;
        self.take(b'-');
        let whole = self.digits();
        let leading_zero = whole > 1 && self.text.as_bytes()[self.at - whole] == b'0';
        let mut legal = whole > 0 && !leading_zero;
        if self.take(b'.') {
            legal &= self.digits() > 0;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            legal &= self.digits() > 0;
        }
        if legal { Ok(Node::Number(&self.text[start..self.at])) } else { Err(self.fail("no legal number")) }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    /// A string, at its opening quote.
    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.at += 1;
        let start = self.at;
        let mut owned: Option<String> = None;
        let mut from = start;
        loop {
            let ahead = &self.text.as_bytes()[self.at..];
            let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
            self.at += ahead.iter().position(is_special).unwrap_or(ahead.len());
            match self.peek() {
                Some(b'"') => {
                    let rest = &self.text[from..self.at];
                    self.at += 1;
                    return Ok(match owned {
                        None => Cow::Borrowed(rest),
                        Some(text) => Cow::Owned(text + rest),
                    });
                }
                Some(b'\\') => {
                    let text = owned.get_or_insert_default();
                    text.push_str(&self.text[from..self.at]);
                    self.at += 1;
                    let character = self.escape()?;
                    owned.get_or_insert_default().push(character);
                    from = self.at;
                }
                Some(_) => return Err(self.fail("control character in a string")),
                None => return Err(self.fail("end of the text in a string")),
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<char, JsonError> {
        let byte = self.peek().ok_or_else(|| self.fail("end of the text in a string"))?;
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => byte.into(),
            b'b' => '\u{8}',
            b'f' => '\u{C}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex()?;
                if (0xD800..0xDC00).contains(&first) && self.text.as_bytes()[self.at..].starts_with(b"\\u") {
                    self.at += 2;
                    let second = self.hex()?;
                    let pair = char::decode_utf16([first, second]).next();
                    return pair.and_then(Result::ok).ok_or_else(|| self.fail("half of a surrogate pair"));
                }
                char::from_u32(first.into()).ok_or_else(|| self.fail("half of a surrogate pair"))?
            }
            _ => return Err(self.fail("unknown escape in a string")),
        })
    }

    fn hex(&mut self) -> Result<u16, JsonError> {
        let digits = self.text.get(self.at..self.at + 4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let value = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let value = value.ok_or_else(|| self.fail("no four hexadecimal digits after \\u"))?;
        self.at += 4;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(text: &str) -> String {
        let mut out = String::new();
        Node::parse(text).unwrap().write(&mut out);
        out
    }

    #[test]
    fn values_come_back_in_order_and_as_written() {
        let text = r#"{"b":[1,-0.50e+7,true,false,null],"a":{"x":"\u00e9\ud83d\ude00\"\\\n"},"":[]}"#;
        assert_eq!(again(text), "{\"b\":[1,-0.50e+7,true,false,null],\"a\":{\"x\":\"é😀\\\"\\\\\\u000A\"},\"\":[]}");
        assert_eq!(again(" [ { } ,\r\n\t{ } ] "), "[{},{}]");
        assert_eq!(Node::parse(r#"{"a":1,"a":2}"#).unwrap().get("a"), Some(&Node::Number("2")));
    }

    #[test]
    fn illegal_text_is_refused_with_its_place() {
        let cases = [
            ("", "end of the text where a value was expected at line 1, column 1"),
            ("{\n \"a\":1,}", "no member name at line 2, column 8"),
            ("[1 2]", "neither comma nor end of an array at line 1, column 4"),
            ("{\"a\" 1}", "no colon after a member name at line 1, column 6"),
            ("01", "no legal number at line 1, column 3"),
            ("1.", "no legal number at line 1, column 3"),
            ("-", "no legal number at line 1, column 2"),
            ("1e", "no legal number at line 1, column 3"),
            ("nul", "no JSON value at line 1, column 1"),
            ("\"a", "end of the text in a string at line 1, column 3"),
            ("\"\\x\"", "unknown escape in a string at line 1, column 4"),
            ("\"\\ud800x\"", "half of a surrogate pair at line 1, column 8"),
            ("\"\\u12\"", "no four hexadecimal digits after \\u at line 1, column 4"),
            ("\"\t\"", "control character in a string at line 1, column 2"),
            ("{} x", "text after the end of the value at line 1, column 4"),
        ];
        for (text, reason) in cases {
            assert_eq!(Node::parse(text).unwrap_err().to_string(), reason, "{text:?}");
        }
        let deep = "[".repeat(100_000);
        assert!(Node::parse(&deep).unwrap_err().to_string().starts_with("arrays and objects nested too deep"));
    }
}
