//! Texts as JSON has them: in quotes, escaped where they have to be.

/// Where text is appended.
pub(crate) trait Out {
    fn push_str(&mut self, text: &str);
}

impl Out for Vec<u8> {
    #[inline]
    fn push_str(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }
}

impl Out for String {
    #[inline]
    fn push_str(&mut self, text: &str) {
        Self::push_str(self, text);
    }
}

/// Whether nothing in a text has to be escaped: looked at by eight bytes at a time, since most of a message is names. With `is_ascii`
/// nothing may be above ASCII either.
#[inline]
pub(super) fn is_plain(text: &[u8], is_ascii: bool) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const TOPS: u64 = u64::from_ne_bytes([0x80; 8]);
    // The top bit of each byte that is below a bound of at most 0x80, perhaps that of its neighbour above, too.
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word & TOPS;
    let is = |word: u64, byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let (words, rest) = text.as_chunks::<8>();
    let any = words.iter().fold(0, |any, word| {
        let word = u64::from_ne_bytes(*word);
        let above = if is_ascii { word & TOPS } else { 0 };
        any | above | below(word, 0x20) | is(word, b'"') | is(word, b'\\') | is(word, 0x7F)
    });
    let odd = |byte: &u8| matches!(byte, 0..0x20 | b'"' | b'\\' | 0x7F) || is_ascii && !byte.is_ascii();
    any == 0 && !rest.iter().any(odd)
}

/// Text in quotes. What is not printable ASCII or above is escaped by its number.
pub(crate) fn text(text: &str, out: &mut impl Out) {
    out.push_str("\"");
    if is_plain(text.as_bytes(), false) {
        out.push_str(text);
    } else {
        for character in text.chars() {
            match character {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\0'..='\x1F' | '\x7F' => out.push_str(&format!("\\u{:04X}", u32::from(character))),
                _ => out.push_str(character.encode_utf8(&mut [0; 4])),
            }
        }
    }
    out.push_str("\"");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_known_wherever_what_is_not_stands() {
        for length in 0..20 {
            let plain = "a~ \u{e9}Z".chars().cycle().take(length).collect::<String>();
            assert!(is_plain(plain.as_bytes(), false), "{plain:?}");
            assert_eq!(is_plain(plain.as_bytes(), true), plain.is_ascii(), "{plain:?}");
            for at in plain.char_indices().map(|(at, _)| at) {
                for odd in ['"', '\\', '\0', '\x1F', '\x7F', '\n'] {
                    let mut text = plain.clone();
                    text.insert(at, odd);
                    assert!(!is_plain(text.as_bytes(), false) && !is_plain(text.as_bytes(), true), "{text:?}");
                }
            }
        }
    }
}
