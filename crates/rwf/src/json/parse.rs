//! A JSON reader that keeps what conversion needs: the order of members and the text of numbers.

use std::borrow::Cow;

use super::number::short_real;
use super::{ErrorKind, JsonError};
use crate::Real;

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
        let mut parser = Parser::new(text);
        let node = parser.value()?;
        if !parser.is_at_end() {
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
            Self::Text(text) => super::out::text(text, out),
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
                    super::out::text(name, out);
                    out.push(':');
                    node.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// A number that a mantissa holds.
pub(super) struct PlainNumber {
    negative: bool,
    /// All digits.
    mantissa: u64,
    /// How many of them are behind the point, if there is one.
    decimals: Option<usize>,
}

impl PlainNumber {
    pub(super) fn real(&self) -> Option<Real> {
        short_real(self.negative, self.mantissa, self.decimals.unwrap_or(0))
    }

    pub(super) fn whole(&self) -> Option<u64> {
        (!self.negative && self.decimals.is_none()).then_some(self.mantissa)
    }
}

/// A place in a text.
pub(super) struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// Whether nothing but blanks follows.
    pub(super) fn is_at_end(&mut self) -> bool {
        self.blanks();
        self.at == self.text.len()
    }

    /// What was not taken yet.
    pub(super) fn ahead(&self) -> &[u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn fail(&self, what: &str) -> JsonError {
        let before = &self.text.as_bytes()[..self.at.min(self.text.len())];
        let line = before.split(|byte| *byte == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
        JsonError::new(ErrorKind::Syntax, format!("{what} at line {line}, column {column}"))
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    pub(super) fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    pub(super) fn value(&mut self) -> Result<Node<'a>, JsonError> {
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

    /// Takes a byte that stands for itself, and the blanks before it.
    #[inline]
    pub(super) fn token(&mut self, byte: u8) -> bool {
        self.take(byte) || {
            self.blanks();
            self.take(byte)
        }
    }

    /// The bytes of a string without escapes; `None` for any other.
    #[inline]
    pub(super) fn plain_string(&mut self) -> Option<&'a [u8]> {
        if !self.token(b'"') {
            return None;
        }
        let ahead = &self.text.as_bytes()[self.at..];
        let length = plain_bytes(ahead);
        if ahead.get(length) != Some(&b'"') {
            return None;
        }
        self.at += length + 1;
        ahead.get(..length)
    }

    /// The same, as text.
    pub(super) fn plain_text(&mut self) -> Option<&'a str> {
        let length = self.plain_string()?.len();
        let end = self.at - 1;
        self.text.get(end - length..end)
    }

    /// The same, of ASCII only; for any other nothing is taken.
    #[inline]
    pub(super) fn plain_ascii(&mut self) -> Option<&'a [u8]> {
        let before = self.at;
        let text = self.plain_string().filter(|text| text.is_ascii());
        if text.is_none() {
            self.at = before;
        }
        text
    }

    /// What `of` makes of a number of at most 18 digits, without exponent. Nothing is taken if there is another, or `of` wants none.
    #[inline]
    pub(super) fn plain_number<T>(&mut self, of: impl FnOnce(PlainNumber) -> Option<T>) -> Option<T> {
        const DIGITS: usize = 18;
        self.blanks();
        let bytes = self.text.as_bytes().get(self.at..)?;
        let negative = bytes.first() == Some(&b'-');
        let digits = &bytes[usize::from(negative)..];
        let (mut mantissa, mut point, mut end) = (0_u64, None, 0);
        while let Some(byte) = digits.get(end) {
            let digit = byte.wrapping_sub(b'0');
            if digit < 10 {
                mantissa = mantissa.wrapping_mul(10).wrapping_add(digit.into());
            } else if *byte == b'.' && point.is_none() {
                point = Some(end);
            } else {
                break;
            }
            end += 1;
        }
        let whole = point.unwrap_or(end);
        let leading_zero = whole > 1 && digits[0] == b'0';
        let is_odd = matches!(digits.get(end), Some(b'e' | b'E' | b'.'));
        if whole == 0 || end > DIGITS || point == Some(end - 1) || leading_zero || is_odd {
            return None;
        }
        let decimals = point.map(|point| end - point - 1);
        let made = of(PlainNumber { negative, mantissa, decimals })?;
        self.at += usize::from(negative) + end;
        Some(made)
    }

    /// A string, at its opening quote.
    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.at += 1;
        let start = self.at;
        let mut owned: Option<String> = None;
        let mut from = start;
        loop {
            self.at += plain_bytes(&self.text.as_bytes()[self.at..]);
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

/// How many bytes there are before the next quote, backslash or control character. Eight at a time.
#[inline]
fn plain_bytes(ahead: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const TOPS: u64 = u64::from_ne_bytes([0x80; 8]);
    // The top bit of each byte that is below a bound; after the first of them perhaps that of others, too.
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word & TOPS;
    let is = |word: u64, byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let mut at = 0;
    while let Some(word) = ahead[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        let special = below(word, 0x20) | is(word, b'"') | is(word, b'\\');
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    at + ahead[at..].iter().position(is_special).unwrap_or(ahead.len() - at)
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
