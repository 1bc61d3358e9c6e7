//! Short texts in machine words. Nearly all that a record holds has eight bytes at most, and at that length a loop over bytes, or the call that
//! copies them, is what takes the time.
//!
//! A word holds a text from its lowest byte on; the bytes behind it are zero.

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const ZEROS: u64 = u64::from_ne_bytes([b'0'; 8]);

/// Bytes that a word holds.
pub(crate) const WORD: usize = 8;
/// Numbers below this have so many digits as a word holds.
pub(crate) const BOUND: u64 = 100_000_000;

/// A text of up to eight bytes; `None` for a longer one.
#[inline]
pub(crate) fn word(text: &[u8]) -> Option<u64> {
    let len = text.len();
    if len > WORD {
        return None;
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        // Where both halves overlap they are the same.
        let [first, last] = [first, last].map(|half: &[u8; 4]| u64::from(u32::from_le_bytes(*half)));
        return Some(first | last << (8 * (len - 4)));
    }
    let Some((&first, &last)) = text.first().zip(text.last()) else { return Some(0) };
    let (middle, end) = (len / 2, len - 1);
    Some(u64::from(first) | u64::from(text[middle]) << (8 * middle) | u64::from(last) << (8 * end))
}

/// The first `len` bytes of a word.
#[inline]
pub(crate) const fn first(word: u64, len: usize) -> u64 {
    if len >= WORD { word } else { word & ((1 << (8 * len)) - 1) }
}

/// Offset of the first byte that is `wanted` in the bits of `mask`; 8 if there is none.
#[inline]
pub(crate) const fn offset(word: u64, mask: u8, wanted: u8) -> usize {
    // Such bytes become zero; the lowest zero byte is the first one marked.
    let zeros = (word & (ONES * mask as u64)) ^ (ONES * wanted as u64);
    let marks = zeros.wrapping_sub(ONES) & !zeros & (ONES * 0x80);
    (marks.trailing_zeros() / 8) as usize
}

/// Two digits each, the first one in the lower byte.
const PAIRS: [u16; 100] = {
    let mut pairs = [0; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number as usize] = (b'0' as u16 + number / 10) | (b'0' as u16 + number % 10) << 8;
        number += 1;
    }
    pairs
};

/// A number below [`BOUND`] as text of at least so many digits (one to eight), and how many it has.
#[inline]
pub(crate) const fn text_of(number: u64, least: usize) -> (u64, usize) {
    debug_assert!(number < BOUND && least >= 1 && least <= WORD);
    if number >= 10_000 || least > 4 {
        return long_text_of(number, least);
    }
    let number = number as usize;
    let text = PAIRS[number / 100] as u64 | (PAIRS[number % 100] as u64) << 16;
    let len = 1 + (number >= 10) as usize + (number >= 100) as usize + (number >= 1_000) as usize;
    let len = if len < least { least } else { len };
    (text >> (8 * (4 - len)), len)
}

/// The same for any number of digits.
#[inline]
const fn long_text_of(number: u64, least: usize) -> (u64, usize) {
    // Four digits in each half, then two in each quarter, then one in each byte; the more significant ones are in the lower half each time.
    let halves = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = (halves * 10_486) >> 20 & 0x0000_007F_0000_007F;
    let quarters = hundreds | ((halves - hundreds * 100) << 16);
    let tens = (quarters * 103) >> 10 & 0x000F_000F_000F_000F;
    let digits = tens | ((quarters - tens * 10) << 8);
    let leading = (digits.trailing_zeros() / 8) as usize;
    let len = if leading > WORD - least { least } else { WORD - leading };
    ((digits | ZEROS) >> (8 * (WORD - len)), len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_at_the_edges_come_back() {
        let edges = (0..8).flat_map(|places| [10_u64.pow(places) - 1, 10_u64.pow(places), 10_u64.pow(places) + 1]);
        for value in edges.chain([BOUND - 1, 9_900, 99_000_000, 49_004_900]) {
            let (text, len) = text_of(value, 1);
            assert_eq!(text.to_le_bytes()[..len], *value.to_string().as_bytes(), "{value}");
        }
        assert_eq!(text_of(5, 8), (u64::from_le_bytes(*b"00000005"), 8));
        assert_eq!(text_of(0, 3).1, 3);
    }

    proptest! {
        #[test]
        fn texts_are_what_they_are(text in proptest::collection::vec(any::<u8>(), 0..12)) {
            let expected = (text.len() <= WORD).then(|| {
                let mut bytes = [0; WORD];
                bytes[..text.len()].copy_from_slice(&text);
                u64::from_le_bytes(bytes)
            });
            prop_assert_eq!(word(&text), expected);
        }

        #[test]
        fn numbers_are_written(value in prop_oneof![0..BOUND, 0..11_000_u64], least in 1_usize..=8) {
            let (text, len) = text_of(value, least);
            prop_assert_eq!(text.to_le_bytes()[..len].to_vec(), format!("{value:0least$}").into_bytes());
            prop_assert_eq!(first(text, len), text, "the rest is zero");
            prop_assert_eq!((text, len), long_text_of(value, least));
        }

        #[test]
        fn the_first_byte_is_found(bytes in any::<[u8; 8]>(), mask in prop_oneof![Just(0xFF), Just(0xFC)], wanted in 0x1C_u8..0x20) {
            let wanted = wanted & mask;
            let expected = bytes.iter().position(|byte| byte & mask == wanted).unwrap_or(8);
            prop_assert_eq!(offset(u64::from_le_bytes(bytes), mask, wanted), expected);
        }
    }
}
