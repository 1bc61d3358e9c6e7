//! Base64 with padding (RFC 4648), as JSON carries bytes.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().enumerate().fold(0u32, |group, (index, byte)| group | u32::from(*byte) << (16 - 8 * index));
        for index in 0..4 {
            let digit = ALPHABET[(group >> (18 - 6 * index)) as usize & 63];
            out.push(if index <= chunk.len() { digit } else { b'=' });
        }
    }
}

/// The bytes; `None` if the text is not whole groups of the alphabet.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for (at, quad) in text.chunks_exact(4).enumerate() {
        let padding = quad.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > 2 || padding > 0 && at + 1 != text.len() / 4 {
            return None;
        }
        let mut group = 0u32;
        for &byte in &quad[..4 - padding] {
            group = group << 6 | digit(byte)?;
        }
        group <<= 6 * padding;
        out.extend_from_slice(&group.to_be_bytes()[1..4 - padding]);
    }
    Some(out)
}

fn digit(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts() {
        for (bytes, text) in
            [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"foob\xFF\xFE", "Zm9vYv/+")]
        {
            let mut out = Vec::new();
            encode(bytes, &mut out);
            assert_eq!(out, text.as_bytes());
            assert_eq!(decode(text).as_deref(), Some(bytes));
        }
        for bad in ["A", "AA=A", "A===", "AA==AAAA", "AA*A", "====", "Zg"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
