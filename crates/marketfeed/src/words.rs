//! Short texts in machine words. Nearly all that a record holds has eight bytes at most, and at that length a loop over bytes, or the call that
//! copies them, is what takes the time.
//!
//! A word holds a text from its lowest byte on; the bytes behind it are zero.

const ONES: u64 = u64::from_ne_bytes([1; 8]);
/// The highest bit of each byte.
const HIGH: u64 = ONES * 0x80;
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

/// Offset of the first byte that is marked in its highest bit; 8 if none is.
#[inline]
pub(crate) const fn offset(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

/// The separators (0x1C to 0x1F) in a word: the highest bit of their bytes. What lies behind a text is none.
#[inline]
pub(crate) const fn separators(word: u64) -> u64 {
    // Separators become numbers below four, so that none of their higher bits is set.
    let apart = word ^ (ONES * 0x1C);
    !(((apart & (ONES * 0x7C)) + ONES * 0x7C) | apart) & HIGH
}

/// The bytes of a word that are above nine: their highest bit. Behind the first one of them, and one that is above 0x89, others may be
/// marked that are not.
#[inline]
pub(crate) const fn others(digits: u64) -> u64 {
    (digits.wrapping_add(ONES * 0x76) | digits) & HIGH
}

/// Digits as their values, whatever else is there.
#[inline]
pub(crate) const fn digits(word: u64) -> u64 {
    word ^ ZEROS
}

/// The number of the first `len` digits, one to eight.
#[inline]
pub(crate) const fn value(digits: u64, len: usize) -> u64 {
    // The last one in the highest byte: zeros lead, and what lies behind the digits is shifted out.
    let digits = digits << (8 * (WORD - len));
    // Two digits in each quarter, then four in each half.
    let pairs = (digits.wrapping_mul(10 << 8 | 1) >> 8) & (u64::MAX / 0xFFFF * 0xFF);
    let fours = (pairs.wrapping_mul(100 << 16 | 1) >> 16) & (u64::MAX / 0xFFFF_FFFF * 0xFFFF);
    fours.wrapping_mul(10_000 << 32 | 1) >> 32
}

/// The number that the first `len` bytes of a word write in digits, one to eight; `None` if one of them is no digit, or there are none.
#[inline]
pub(crate) const fn number(word: u64, len: usize) -> Option<u64> {
    let digits = digits(word);
    if len == 0 || len > WORD || offset(others(digits)) < len {
        return None;
    }
    Some(value(digits, len))
}

/// The same of half a word: one to four digits.
#[inline]
pub(crate) const fn short_number(word: u32, len: usize) -> Option<u32> {
    if len == 0 || len > 4 {
        return None;
    }
    let digits = (word ^ ZEROS as u32) << (8 * (4 - len));
    if (digits.wrapping_add(0x7676_7676) | digits) & 0x8080_8080 != 0 {
        return None;
    }
    let pairs = (digits.wrapping_mul(10 << 8 | 1) >> 8) & 0x00FF_00FF;
    Some(pairs.wrapping_mul(100 << 16 | 1) >> 16)
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

/// A time of two or three bytes in RWF as `10:34:56`; `None` for another one.
#[inline]
pub(crate) const fn clock(time: &[u8]) -> Option<u64> {
    let (hour, minute, second) = match *time {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let [hour, minute, second] = [PAIRS[hour as usize], PAIRS[minute as usize], PAIRS[second as usize]];
    let colon = b':' as u64;
    Some(hour as u64 | colon << 16 | (minute as u64) << 24 | colon << 40 | (second as u64) << 48)
}

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
#[inline(never)]
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
            prop_assert!(len == WORD || text >> (8 * len) == 0, "the rest is zero");
            prop_assert_eq!((text, len), long_text_of(value, least));
        }

        #[test]
        fn separators_are_marked(bytes in proptest::array::uniform8(prop_oneof![any::<u8>(), 0x1B_u8..0x21])) {
            let marks = separators(u64::from_le_bytes(bytes)).to_le_bytes();
            prop_assert_eq!(marks, bytes.map(|byte| if (0x1C..0x20).contains(&byte) { 0x80 } else { 0 }));
        }

        #[test]
        fn numbers_are_read(bytes in proptest::array::uniform8(prop_oneof![8 => b'0'..=b'9', 1 => any::<u8>()]), len in 0_usize..=8) {
            let text = &bytes[..len];
            let is_number = len > 0 && text.iter().all(u8::is_ascii_digit);
            let expected = is_number.then(|| std::str::from_utf8(text).unwrap().parse::<u64>().unwrap());
            prop_assert_eq!(number(u64::from_le_bytes(bytes), len), expected);
            let word = u64::from_le_bytes(bytes) as u32;
            prop_assert_eq!(short_number(word, len).map(u64::from), expected.filter(|_| len <= 4));
        }
    }
}
