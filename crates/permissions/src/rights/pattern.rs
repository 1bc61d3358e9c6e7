//! Patterns of names: of items, positions, whatever an administrator lists.

use std::fmt;

/// A pattern: `*` stands for any bytes, `?` for one. Case counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern(Box<str>);

impl Pattern {
    /// A pattern from its text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Whether the whole of `text` matches. Takes at most the product of both lengths.
    pub fn matches(&self, text: impl AsRef<[u8]>) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_ref());
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
