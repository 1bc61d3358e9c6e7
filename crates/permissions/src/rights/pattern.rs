//! Patterns of item names and positions.

use std::fmt;

/// A pattern: `*` stands for any text, `?` for one character. Case counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern(Box<str>);

impl Pattern {
    /// A pattern from its text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Whether the whole of `text` matches. Takes at most the product of both lengths.
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_bytes());
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
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        let matches = |pattern: &str, text: &str| Pattern::new(pattern).matches(text);
        assert!(matches("*.N", "IBM.N") && matches("*", "") && matches("A*B*C", "AxxBBxC") && matches("?BM", "IBM"));
        assert!(!matches("*.N", "IBM.O") && !matches("A*B", "AxBx") && !matches("?", "") && !matches("", "x"));
        assert!(!matches(&"*a".repeat(30), &"a".repeat(29)) && matches(&"*a".repeat(30), &"ab".repeat(29).add_a()));
        assert!(
            Pattern::new("10.1.*").matches_position("10.1.2.3/net")
                && !Pattern::new("10.1.2").matches_position("10.1.2.3/net")
        );
    }

    trait AddA {
        fn add_a(self) -> String;
    }
    impl AddA for String {
        fn add_a(self) -> String {
            self + "a"
        }
    }
}
