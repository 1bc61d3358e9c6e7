//! The text form of a lock: `257: 1027 & (456 | 985); 300: 1`.

use std::fmt;
use std::str::FromStr;

use super::{AnyLock, Lock, LockError, ServiceLock};

impl fmt::Display for Lock {
    /// Services apart by `;`, groups by `&`, the PEs of a group by `|` in brackets; a service alone is `257: (none)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, list) in self.services.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{}: ", list.service)?;
            if list.groups.is_empty() {
                f.write_str("(none)")?;
            }
            for (index, group) in list.groups.iter().enumerate() {
                if index > 0 {
                    f.write_str(" & ")?;
                }
                write_group(f, group)?;
            }
        }
        Ok(())
    }
}

fn write_group(f: &mut fmt::Formatter<'_>, group: &[u32]) -> fmt::Result {
    if let [pe] = group {
        return write!(f, "{pe}");
    }
    f.write_str("(")?;
    for (index, pe) in group.iter().enumerate() {
        if index > 0 {
            f.write_str(" | ")?;
        }
        write!(f, "{pe}")?;
    }
    f.write_str(")")
}

impl fmt::Display for AnyLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standard(lock) => lock.fmt(f),
            Self::Text { service, text } => write!(f, "{service}: text {:?}", String::from_utf8_lossy(text)),
        }
    }
}

impl FromStr for Lock {
    type Err = LockError;

    /// Reads what [`Lock`]'s `Display` writes. A group may stand without brackets where it is the only one, a service
    /// without PEs as `257` or `257: (none)`.
    ///
    /// # Errors
    /// [`LockError::Text`] with the column.
    fn from_str(text: &str) -> Result<Self, LockError> {
        let mut parser = Parser { text, at: 0 };
        let mut services = Vec::new();
        loop {
            services.push(parser.service()?);
            match parser.peek() {
                None => return Ok(Self { services }),
                Some(b';') => parser.at += 1,
                Some(_) => return Err(parser.expected("expected `&`, `;` or the end")),
            }
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    /// Offset of the next byte.
    at: usize,
}

impl Parser<'_> {
    /// The next byte that is no blank.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|b| b.is_ascii_whitespace()).count();
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expected(&self, what: &'static str) -> LockError {
        let before = self.text.char_indices().take_while(|(at, _)| *at < self.at).count();
        LockError::Text { column: before + 1, what }
    }

    fn number<N: FromStr>(&mut self, what: &'static str) -> Result<N, LockError> {
        self.peek();
        let rest = &self.text.as_bytes()[self.at..];
        let len = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let number = self.text[self.at..self.at + len].parse().map_err(|_| self.expected(what))?;
        self.at += len;
        Ok(number)
    }

    fn service(&mut self) -> Result<ServiceLock, LockError> {
        let service = self.number("expected a service id, 0 to 65535")?;
        let mut list = ServiceLock { service, groups: Vec::new() };
        if !self.take(b':') || matches!(self.peek(), None | Some(b';')) {
            return Ok(list);
        }
        if self.text[self.at..].starts_with("(none)") {
            self.at += "(none)".len();
            return Ok(list);
        }
        loop {
            let group = self.group(list.groups.is_empty())?;
            list.groups.push(group);
            if !self.take(b'&') {
                return Ok(list);
            }
        }
    }

    /// A PE, or PEs in brackets. `a | b` without brackets stands only alone: which of `&` and `|` binds tighter is not
    /// what a reader would guess (it is `|`).
    fn group(&mut self, is_first: bool) -> Result<Vec<u32>, LockError> {
        let has_brackets = self.take(b'(');
        let mut group = vec![self.pe()?];
        while self.take(b'|') {
            group.push(self.pe()?);
        }
        if has_brackets && !self.take(b')') {
            return Err(self.expected("expected `|` or `)`"));
        }
        if !has_brackets && group.len() > 1 && (!is_first || self.peek() == Some(b'&')) {
            return Err(self.expected("put brackets around PEs that are joined by `|`"));
        }
        Ok(group)
    }

    fn pe(&mut self) -> Result<u32, LockError> {
        self.number("expected a PE code, 0 to 4294967295, or `(`")
    }
}
