//! Patterns of names: of items, positions, whatever an administrator lists.
#![forbid(unsafe_code)]

use regex::bytes::{Regex, RegexBuilder};
use std::fmt;
use std::hash::{Hash, Hasher};

/// Bytes of the text of a regular expression.
const MOST_TEXT: usize = 1_000;
/// Bytes that a regular expression may take, and as much again while it is matched.
const MOST_ROOM: usize = 256 << 10;
/// Groups within groups.
const MOST_NESTED: u32 = 50;

/// A pattern: `*` stands for any bytes, `?` for one. One that begins with `^` is a regular expression over bytes, in the syntax of the
/// crate `regex`: it fits a name of which it fits the beginning, unless it ends with `$`. Case counts.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: Box<str>,
    /// What a text with `^` in front means.
    regex: Option<Regex>,
}

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no regular expression that can be used ({why}); a pattern that begins with ^ is one")]
pub struct PatternError {
    text: String,
    why: String,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.regex.is_some() == other.regex.is_some()
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Pattern {
    /// A pattern with `*` and `?`, whatever it begins with.
    pub fn new(text: &str) -> Self {
        Self { text: text.into(), regex: None }
    }

    /// A pattern from its text, as an administrator writes it.
    ///
    /// # Errors
    /// It begins with `^` and is no regular expression, or one that is too large: of more than a thousand bytes, or more than 256 KB when it
    /// is made ready.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if !text.starts_with('^') {
            return Ok(Self::new(text));
        }
        let fault = |why: &str| PatternError { text: text.chars().take(80).collect(), why: why.to_owned() };
        if text.len() > MOST_TEXT {
            return Err(fault("it is longer than 1000 bytes"));
        }
        let mut builder = RegexBuilder::new(text);
        builder.unicode(false).size_limit(MOST_ROOM).dfa_size_limit(MOST_ROOM).nest_limit(MOST_NESTED);
        let regex = builder.build().map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => fault("it takes more than 256 KB"),
            // Of several lines, the last one says what is wrong.
            other => fault(other.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ")),
        })?;
        Ok(Self { text: text.into(), regex: Some(regex) })
    }

    /// Whether `text` matches, the whole of it where the pattern is no regular expression. Takes at most the product of both lengths.
    pub fn matches(&self, text: impl AsRef<[u8]>) -> bool {
        if let Some(regex) = &self.regex {
            return regex.is_match(text.as_ref());
        }
        let (pattern, text) = (self.text.as_bytes(), text.as_ref());
        let (mut p, mut t) = (0, 0);
        // Where to go on when the text after the last star turns out not to match.
        let mut retry: Option<(usize, usize)> = None;
        while t < text.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    retry = Some((p, t));
                    p += 1;
                }
                Some(byte) if *byte == b'?' || *byte == text[t] => {
                    p += 1;
                    t += 1;
                }
                _ => match &mut retry {
                    Some((star, from)) => {
                        *from += 1;
                        (p, t) = (*star + 1, *from);
                    }
                    None => return false,
                },
            }
        }
        pattern[p..].iter().all(|byte| *byte == b'*')
    }

    /// Whether a position (`ADDRESS/HOST` or `ADDRESS/net`) matches, as a whole or by its address.
    pub fn matches_position(&self, position: &str) -> bool {
        self.matches(position) || position.split_once('/').is_some_and(|(address, _)| self.matches(address))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, name, fits) in [
            ("IBM.N", "IBM.N", true),
            ("IBM.N", "IBM.NX", false),
            ("IBM.*", "IBM.N", true),
            ("*.N", "IBM.N", true),
            ("*.N", "A.N.N", true),
            ("*.N", "IBM.NX", false),
            ("0#*", "0#.FTSE", true),
            ("I?M", "IBM", true),
            ("I?M", "IM", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("*", "", true),
            ("", "", true),
            ("?", "", false),
            ("", "x", false),
            ("A*B*C", "AxxBBxC", true),
            ("A*B", "AxBx", false),
        ] {
            assert_eq!(Pattern::new(pattern).matches(name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn what_begins_with_a_caret_is_a_regular_expression() {
        for (pattern, name, fits) in [
            ("^[A-N]", "IBM.N", true),
            ("^[A-N]", "TRI.N", false),
            ("^IBM", "IBM.NX", true),
            ("^IBM\\.N$", "IBM.N", true),
            ("^IBM\\.N$", "IBM.NX", false),
            ("^(IBM|TRI)\\.[NO]$", "TRI.O", true),
            ("^.{3}$", "\u{e9}a", true),
            ("^", "", true),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap().matches(name), fits, "{pattern} {name}");
        }
        assert!(Pattern::parse("*.N").unwrap() == Pattern::new("*.N"));
        assert_ne!(Pattern::parse("^A").unwrap(), Pattern::new("^A"));
        let again = Pattern::parse("^A").unwrap();
        assert_eq!((Pattern::parse("^A").unwrap(), again.to_string()), (again.clone(), "^A".to_owned()));
    }

    #[test]
    fn regular_expressions_are_bounded() {
        let fault = |text: &str| Pattern::parse(text).unwrap_err().to_string();
        assert!(fault("^[A").contains("unclosed"), "{}", fault("^[A"));
        assert!(fault(&format!("^{}", "a".repeat(1_000))).contains("1000 bytes"));
        assert!(fault("^(a{1000}){1000}").contains("256 KB"));
        assert!(Pattern::parse(&format!("^{}{}", "(".repeat(60), ")".repeat(60))).is_err());
        // Nothing takes more than linear time.
        assert!(!Pattern::parse("^(a*)*$").unwrap().matches("a".repeat(50_000) + "b"));
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = Pattern::new(&"*a".repeat(30));
        assert!(!pattern.matches("a".repeat(29)));
        assert!(pattern.matches("ab".repeat(29) + "a"));
    }

    #[test]
    fn positions_match_by_their_address() {
        assert!(Pattern::new("10.1.*").matches_position("10.1.2.3/net"));
        assert!(!Pattern::new("10.1.2").matches_position("10.1.2.3/net"));
    }
}
