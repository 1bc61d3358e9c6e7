//! Bytes out of hexadecimal text.

/// Whether bytes are text that may hold hexadecimal digits: an RSSL stream or a message has zeros in its first bytes.
pub(super) fn is_text(input: &[u8]) -> bool {
    !input.is_empty() && input.iter().all(|&b| matches!(b, b'\t' | b'\n' | b'\r' | b' '..=b'~'))
}

/// The bytes of a text, line by line. Left out: comments (`#`), offsets in front (`0010:`, or four to eight digits and two
/// blanks), a text column behind (after three blanks, or a bar), and lines that are no hexadecimal digits. Of a transcript
/// with marks (`C>`, `S>`) only what `mark` stands before, and its continuation lines, which are indented.
pub(super) fn parse(input: &[u8], mark: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(input);
    let marked = text.lines().any(|l| l.starts_with("C> ") || l.starts_with("S> "));
    let mut bytes = Vec::new();
    let mut wanted = !marked;
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let line = if let Some("C>" | "S>") = line.get(..2) {
            wanted = line.starts_with(mark);
            &line[2..]
        } else {
            wanted &= !marked || line.starts_with([' ', '\t']);
            line
        };
        if wanted {
            bytes.extend(line_bytes(line));
        }
    }
    bytes
}

fn line_bytes(line: &str) -> Vec<u8> {
    let line = line.trim_start();
    let line = match line.split_once(':') {
        Some((offset, rest)) if is_hex(offset) && !offset.is_empty() => rest,
        Some(_) => return Vec::new(),
        None => match line.split_once("  ") {
            Some((offset, rest)) if is_hex(offset) && (4..=8).contains(&offset.len()) && has_pairs(rest) => rest,
            _ => line,
        },
    };
    let line = line.split('|').next().unwrap_or_default().trim();
    let columns = line.split("   ").next().unwrap_or_default();
    let mut bytes = Vec::new();
    for word in columns.split_whitespace() {
        let word = word.strip_prefix("0x").unwrap_or(word).trim_end_matches(',');
        if !is_hex(word) || word.len() % 2 != 0 {
            return Vec::new();
        }
        bytes.extend((0..word.len()).step_by(2).filter_map(|i| u8::from_str_radix(&word[i..i + 2], 16).ok()));
    }
    bytes
}

fn is_hex(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Begins like the columns of a dump: a byte, then a blank.
fn has_pairs(rest: &str) -> bool {
    let rest = rest.trim_start();
    rest.split(' ').next().is_some_and(|word| word.len() == 2 && is_hex(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_layouts_are_read() {
        let expected = [0x00, 0x13, 0x01, 0xFF];
        for text in [
            "001301ff",
            "00 13 01 FF\n",
            "0000: 00 13 01 FF   ....",
            "0000  00 13 01 ff  \n",
            "00000000  00 13\n00000002  01 ff  |..|",
            "0x00, 0x13, 0x01, 0xff",
            "# a comment\n0013 # more\n  01ff",
            "Channel is active: yes\n0000: 00 13 01  FF",
        ] {
            assert_eq!(parse(text.as_bytes(), "S>"), expected, "{text:?}");
        }
    }

    #[test]
    fn of_a_transcript_one_side_is_taken() {
        let text = "# t\nC> 0001\n   02\nS> 0a0b\n   0c\nnote\n   0d\nC> 03\n";
        assert_eq!(parse(text.as_bytes(), "S>"), [10, 11, 12]);
        assert_eq!(parse(text.as_bytes(), "C>"), [0, 1, 2, 3]);
    }

    #[test]
    fn text_and_bytes_are_told_apart() {
        assert!(is_text(b"00 13\r\n") && !is_text(&[0, 0x13, 1]) && !is_text(b""));
    }
}
