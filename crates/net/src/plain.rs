//! Texts of peers on screens, in logs and in files: what would end a line, steer a terminal, or turn the order of what is read around
//! is shown by its number.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character would do something to a line or a terminal instead of being seen: control characters, what ends lines and paragraphs
/// (U+2028, U+2029), what turns the order of letters around, and what has no width.
#[must_use]
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}')
        || matches!(c, '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

/// A text in one line: `\\n`, `\\u{1b}` and the like stand for what [`is_unprintable`].
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unprintable(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// JSON that has no character in it that [`is_unprintable`]: within a text of it `\\u` stands for each.
#[must_use]
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_unprintable) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_unprintable(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_a_line_or_steers_a_terminal() {
        assert_eq!(escaped("Zürich 100 %, a\\b"), "Zürich 100 %, a\\b");
        assert!(matches!(escaped("plain"), Cow::Borrowed("plain")));
        let hostile = "a\r\nb\tc\u{1b}[2Jd\u{2028}e\u{9b}f\u{202E}g\u{7f}\u{feff}";
        assert_eq!(escaped(hostile), r"a\r\nb\tc\u{1b}[2Jd\u{2028}e\u{9b}f\u{202e}g\u{7f}\u{feff}");
        assert!(!escaped(hostile).contains(is_unprintable));
        assert_eq!(escaped_json("[\"a\u{2028}\u{9b}\u{E0041}\"]"), r#"["a\u2028\u009b\udb40\udc41"]"#);
    }
}
